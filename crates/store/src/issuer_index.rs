//! Where each issuer's receipts are: an array a file, since seqs are dense.
//!
//! ```text
//! issuers/<SHA-256 of the name, hex>     leaf index of seq n, u64 big-endian, at 8 n
//! ```
//!
//! Derived from the entries and not synced at a commit. Recovery fits every file to what the saved state says and
//! replays the rest; a lookup believes an index only after it has read the entry there. A file is open only while it
//! is used: there may be more issuers than a process may have files.

use crate::append_file::{AppendFile, FileReader, sync_directory};
use crate::disk::{Disk, Found};
use crate::error::StoreError;
use merkle::LeafIndex;
use receipt::{IssuerName, SeqNo};
use sha2::{Digest, Sha256};
use std::cmp::Ordering;
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const INDEX_LEN: u64 = 8;

/// All the arrays; cheap to clone. One thread writes.
#[derive(Clone, Debug)]
pub(crate) struct IssuerIndex {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
}

impl IssuerIndex {
    pub(crate) fn open(disk: &Arc<dyn Disk>, dir: &Path) -> Result<IssuerIndex, StoreError> {
        let dir = dir.join("issuers");
        disk.create_dir_all(&dir).map_err(|error| StoreError::io(&dir, error))?;
        Ok(IssuerIndex { disk: Arc::clone(disk), dir })
    }

    /// Cuts every array to the number of receipts that its issuer is known to have, and deletes all others. Answers
    /// whether every array has as much.
    pub(crate) fn fit<'a>(&self, known: impl Iterator<Item = (&'a IssuerName, SeqNo)>) -> Result<bool, StoreError> {
        let mut kept = HashSet::new();
        for (issuer, next) in known {
            let expected = next.0.saturating_mul(INDEX_LEN);
            match self.length(issuer)?.cmp(&expected) {
                Ordering::Less => return Ok(false),
                Ordering::Equal => {}
                Ordering::Greater => self.file(issuer)?.settle(expected)?,
            }
            kept.insert(self.path(issuer));
        }
        for path in self.disk.list(&self.dir).map_err(|error| StoreError::io(&self.dir, error))? {
            if !kept.contains(&path) {
                self.disk.remove_file(&path).map_err(|error| StoreError::io(&path, error))?;
            }
        }
        Ok(true)
    }

    /// How long the issuer's array is, in bytes.
    fn length(&self, issuer: &IssuerName) -> Result<u64, StoreError> {
        let path = self.path(issuer);
        match self.disk.find(&path).map_err(|error| StoreError::io(&path, error))? {
            Some(Found::File(length)) => Ok(length),
            _ => Ok(0),
        }
    }

    /// Adds the issuer's receipts from seq `first` on, which must be where its array ends.
    pub(crate) fn append(&self, issuer: &IssuerName, first: SeqNo, indexes: &[u64]) -> Result<(), StoreError> {
        let mut file = self.file(issuer)?;
        if Some(file.len()) != first.0.checked_mul(INDEX_LEN) {
            let why =
                format!("{issuer} has {} places in it and its next receipt is number {first}", file.len() / INDEX_LEN);
            return Err(StoreError::index(file.path(), why));
        }
        let bytes: Vec<u8> = indexes.iter().flat_map(|index| index.to_be_bytes()).collect();
        file.append(&bytes)
    }

    /// Makes what was appended for the issuer durable.
    pub(crate) fn sync(&self, issuer: &IssuerName) -> Result<(), StoreError> {
        self.file(issuer)?.sync()
    }

    /// Makes the names of the arrays durable.
    pub(crate) fn sync_names(&self) -> Result<(), StoreError> {
        sync_directory(&*self.disk, &self.dir)
    }

    /// Where the receipt of `issuer` at `seq` is said to be; the caller knows that there is one.
    pub(crate) fn index_of(&self, issuer: &IssuerName, seq: SeqNo) -> Result<Option<LeafIndex>, StoreError> {
        let Some(offset) = seq.0.checked_mul(INDEX_LEN) else { return Ok(None) };
        if self.length(issuer)? < offset.saturating_add(INDEX_LEN) {
            return Ok(None);
        }
        let bytes = FileReader::open(&*self.disk, self.path(issuer))?.read(offset, INDEX_LEN as usize)?;
        Ok(bytes.first_chunk::<8>().map(|index| LeafIndex(u64::from_be_bytes(*index))))
    }

    fn file(&self, issuer: &IssuerName) -> Result<AppendFile, StoreError> {
        AppendFile::open(&*self.disk, self.path(issuer))
    }

    fn path(&self, issuer: &IssuerName) -> PathBuf {
        self.dir.join(merkle::Hash(Sha256::digest(issuer.as_str().as_bytes()).into()).to_hex())
    }
}
