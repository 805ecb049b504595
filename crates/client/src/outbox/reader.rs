//! An outbox that this process writes to, for whoever only looks things up in it.

use super::{Kept, Outbox, OutboxError};
use receipt::{Disclosure, Receipt, SeqNo};
use tokio::sync::watch;

/// The receipts of an outbox as they are at each call, and no way to write. Holds the outbox's lock like any other handle.
#[derive(Clone, Debug)]
pub struct OutboxReader(Outbox);

impl Outbox {
    /// A handle that only reads.
    pub fn reader(&self) -> OutboxReader {
        OutboxReader(self.clone())
    }
}

impl OutboxReader {
    /// The seq that the next receipt will have.
    ///
    /// # Errors
    /// [`OutboxError::Stopped`].
    pub fn next_seq(&self) -> Result<SeqNo, OutboxError> {
        self.0.next_seq()
    }

    /// The receipt at `seq`; `None` where there is none.
    ///
    /// # Errors
    /// [`OutboxError`].
    pub fn receipt(&self, seq: SeqNo) -> Result<Option<Receipt>, OutboxError> {
        self.0.receipt(seq)
    }

    /// The receipt at `seq` with its proof; `None` where it is not acknowledged.
    ///
    /// # Errors
    /// [`OutboxError`].
    pub fn kept(&self, seq: SeqNo) -> Result<Option<Kept>, OutboxError> {
        self.0.kept(seq)
    }

    /// What opens the committed members of the receipt at `seq`; empty where it has none.
    ///
    /// # Errors
    /// [`OutboxError`].
    pub fn disclosures(&self, seq: SeqNo) -> Result<Vec<Disclosure>, OutboxError> {
        self.0.disclosures(seq)
    }

    /// Tells how many receipts are acknowledged, now and whenever that changes.
    pub fn watch_acknowledged(&self) -> watch::Receiver<u64> {
        self.0.watch_acknowledged()
    }
}
