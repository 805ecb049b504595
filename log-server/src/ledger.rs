//! What the log needs of a store: a [`Ledger`] that one thread writes and a [`Shelf`] that everybody reads. In
//! production both are [`crate::stored`]; tests play failures through them.

use crate::publication::Head;
use bytes::Bytes;
use merkle::{EdgeTree, HashSource, LeafIndex, ResourcePath};
use note::{SignedCheckpoint, Verified, VerifierKey};
use receipt::{Admitted, IssuerName, ReceiptId, SeqNo};
use std::sync::Arc;
use tokio::sync::watch;

/// The store cannot do it. After a failed write, what is on the disk is unknown until the next start has looked.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{0}")]
pub struct StoreFault(pub String);

/// What a commit leaves.
#[derive(Clone, Debug)]
pub struct Committed {
    /// The durable signed head that covers it.
    pub head: Head,
    /// The tree's right edge under that head: everything that was committed with it can be proven from here.
    pub edge: Arc<EdgeTree>,
}

/// The writing half: a durable log of receipts.
pub trait Ledger: Send + 'static {
    /// Appends these, in this order, durably.
    ///
    /// # Errors
    /// [`StoreFault`]; nothing more may be written.
    fn commit(&mut self, admitted: &[Admitted]) -> Result<Committed, StoreFault>;

    /// Makes an issuer known.
    ///
    /// # Errors
    /// [`StoreFault`].
    fn register(&mut self, key: &VerifierKey) -> Result<(), StoreFault>;

    /// Keeps one evidence document for ever.
    ///
    /// # Errors
    /// [`StoreFault`].
    fn append_evidence(&mut self, document: &str) -> Result<(), StoreFault>;

    /// The reading half, which sees what is committed and nothing else.
    fn shelf(&self) -> Arc<dyn Shelf>;
}

/// The reading half. As a [`HashSource`] it has the hashes under every committed head.
pub trait Shelf: HashSource + Send + Sync + 'static {
    /// The newest durable signed head.
    ///
    /// # Errors
    /// [`StoreFault`].
    fn head(&self) -> Result<Option<SignedCheckpoint<Verified>>, StoreFault>;

    /// One static resource of the read side, if the log has it in exactly this width.
    ///
    /// # Errors
    /// [`StoreFault`].
    fn resource(&self, path: &ResourcePath) -> Result<Option<Bytes>, StoreFault>;

    /// The entry at `index`.
    ///
    /// # Errors
    /// [`StoreFault`].
    fn entry(&self, index: LeafIndex) -> Result<Option<Bytes>, StoreFault>;

    /// Where the receipt of `issuer` at `seq` is.
    ///
    /// # Errors
    /// [`StoreFault`].
    fn index_of(&self, issuer: &IssuerName, seq: SeqNo) -> Result<Option<LeafIndex>, StoreFault>;

    /// Where the receipt of `issuer` at `seq` is said to be, and which one is there: cheap, and sure only where that is
    /// the receipt that is asked about.
    ///
    /// # Errors
    /// [`StoreFault`].
    fn said_at(&self, issuer: &IssuerName, seq: SeqNo) -> Result<Option<(LeafIndex, ReceiptId)>, StoreFault>;

    /// Where the receipt with this id is.
    ///
    /// # Errors
    /// [`StoreFault`].
    fn index_of_id(&self, id: &ReceiptId) -> Result<Option<LeafIndex>, StoreFault>;

    /// Evidence documents `256 n` and up to 255 more; none where there are not that many.
    ///
    /// # Errors
    /// [`StoreFault`].
    fn evidence_page(&self, page: u64) -> Result<Vec<String>, StoreFault>;

    /// For a proof of the entry at `index` that does not lead to its head: what is wrong with the hashes.
    fn doubt(&self, index: LeafIndex) -> StoreFault {
        StoreFault(format!("the hashes around entry {index} do not lead to the signed head"))
    }

    /// Hears of the first thing that was read and is not what was signed over. The log must then stop.
    fn damage(&self) -> watch::Receiver<Option<StoreFault>> {
        watch::channel(None).1
    }
}
