//! The reading end of the log's store: what is committed, by path, by index, by issuer and seq, and by id. As a
//! [`HashSource`] it has the hashes to make proofs with, at any committed size.

use crate::error::StoreError;
use crate::evidence::EvidenceReader;
use crate::ids::{IdReader, key_of};
use crate::issuer_index::IssuerIndex;
use crate::reader::TlogReader;
use bytes::Bytes;
use merkle::{Hash, HashSource, LeafIndex, ResourcePath, TreeSize};
use receipt::{IssuerName, IssuerState, Receipt, ReceiptId, SeqNo};
use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

/// Reads what is committed. Cheap to clone, and never in the writer's way.
#[derive(Clone, Debug)]
pub struct LogReader {
    pub(crate) log: TlogReader,
    pub(crate) index: IssuerIndex,
    pub(crate) issuers: Arc<RwLock<HashMap<IssuerName, IssuerState>>>,
    pub(crate) ids: IdReader,
    pub(crate) evidence: EvidenceReader,
}

impl LogReader {
    /// How many receipts are committed.
    pub fn size(&self) -> TreeSize {
        self.log.size()
    }

    /// The newest signed head, whole; `None` before the first.
    pub fn latest_head(&self) -> Option<Bytes> {
        self.log.latest_head()
    }

    /// As [`TlogReader::resource`].
    ///
    /// # Errors
    /// [`StoreError`] when it cannot be read.
    pub fn resource(&self, path: &ResourcePath) -> Result<Option<Bytes>, StoreError> {
        self.log.resource(path)
    }

    /// One entry, or `None` where there is none.
    ///
    /// # Errors
    /// [`StoreError`] when it cannot be read.
    pub fn entry(&self, index: LeafIndex) -> Result<Option<Bytes>, StoreError> {
        self.log.entry(index)
    }

    /// The state of one issuer, if it is known.
    pub fn issuer(&self, name: &IssuerName) -> Option<IssuerState> {
        self.issuers.read().unwrap_or_else(PoisonError::into_inner).get(name).cloned()
    }

    /// The states of all known issuers, by name.
    pub fn issuers(&self) -> Vec<IssuerState> {
        let issuers = self.issuers.read().unwrap_or_else(PoisonError::into_inner);
        let mut states: Vec<IssuerState> = issuers.values().cloned().collect();
        states.sort_by(|one, other| one.name().cmp(other.name()));
        states
    }

    /// Where the receipt of `issuer` at `seq` is, if there is one. The entry there is read and must be that receipt.
    ///
    /// # Errors
    /// [`StoreError`] when it cannot be read, or the index points elsewhere.
    pub fn index_of(&self, issuer: &IssuerName, seq: SeqNo) -> Result<Option<LeafIndex>, StoreError> {
        let known = self.issuers.read().unwrap_or_else(PoisonError::into_inner).get(issuer).map(IssuerState::next_seq);
        if known.is_none_or(|next| seq >= next) {
            return Ok(None);
        }
        let Some(index) = self.index.index_of(issuer, seq)? else { return Ok(None) };
        let entry = self.log.entry(index)?;
        let receipt = entry.and_then(|entry| Receipt::parse(&entry).ok());
        match receipt {
            Some(receipt) if receipt.issuer() == issuer && receipt.seq() == seq => Ok(Some(index)),
            _ => {
                let why = format!("{issuer} has its receipt {seq} elsewhere than at leaf {index}");
                Err(StoreError::Misleading { path: self.index.path(issuer), what: "place", position: seq.0, why })
            }
        }
    }

    /// Where the receipt of `issuer` at `seq` is said to be, and the leaf hash there. Unlike with [`LogReader::index_of`] the
    /// entry is not read: if the hash is the id of the receipt that is asked about, that receipt is there, and else
    /// nothing is known.
    ///
    /// # Errors
    /// [`StoreError`] when it cannot be read.
    pub fn said_at(&self, issuer: &IssuerName, seq: SeqNo) -> Result<Option<(LeafIndex, ReceiptId)>, StoreError> {
        let known = self.issuers.read().unwrap_or_else(PoisonError::into_inner).get(issuer).map(IssuerState::next_seq);
        if known.is_none_or(|next| seq >= next) {
            return Ok(None);
        }
        let Some(index) = self.index.index_of(issuer, seq)? else { return Ok(None) };
        Ok(self.log.leaf(index)?.map(|leaf| (index, ReceiptId(leaf))))
    }

    /// The id of the receipt of `issuer` at `seq`, if there is one.
    ///
    /// # Errors
    /// [`StoreError`] when it cannot be read.
    pub fn held_id(&self, issuer: &IssuerName, seq: SeqNo) -> Result<Option<ReceiptId>, StoreError> {
        let Some(index) = self.index_of(issuer, seq)? else { return Ok(None) };
        Ok(self.log.leaf(index)?.map(ReceiptId))
    }

    /// Where the receipt with this id is, if there is one. The hash there must be that id.
    ///
    /// # Errors
    /// [`StoreError`] when it cannot be read, or the index points elsewhere.
    pub fn index_of_id(&self, id: &ReceiptId) -> Result<Option<LeafIndex>, StoreError> {
        let Some(index) = self.ids.index_of(&id.0)? else { return Ok(None) };
        match self.log.leaf(index)? {
            Some(leaf) if leaf == id.0 => return Ok(Some(index)),
            // Anybody can ask for an id that begins like another one.
            Some(leaf) if key_of(&leaf) == key_of(&id.0) => return Ok(None),
            _ => {}
        }
        let why = format!("{id} leads to it and is not its id");
        Err(StoreError::Misleading { path: self.ids.path().to_owned(), what: "leaf", position: index.0, why })
    }

    /// For a proof of the leaf at `index` that does not lead to the head that it was made for: where it is damaged.
    pub fn damage_around(&self, index: LeafIndex) -> StoreError {
        self.log.damage_around(index)
    }

    /// Evidence documents `256 page` and up to 255 more; none where there are not that many.
    ///
    /// # Errors
    /// [`StoreError`] when they cannot be read.
    pub fn evidence_page(&self, page: u64) -> Result<Vec<String>, StoreError> {
        self.evidence.page(page)
    }
}

impl HashSource for LogReader {
    fn subtree(&self, level: u8, index: u64) -> Option<Hash> {
        self.log.subtree(level, index)
    }
}
