//! How an outbox stands, also while another process has it.

use super::append_only::Access;
use super::store::{LogBinding, Store};
use super::verify::{self, Verification};
use super::{Kept, Outbox, OutboxError, kept};
use note::VerifierKey;
use receipt::SeqNo;
use serde::Serialize;
use std::path::Path;

/// How an outbox stands. `receipts` = `queued` + `sent` + `acknowledged`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Status {
    /// The issuer's name; none before the first receipt.
    pub issuer: Option<String>,
    /// The vkey that signs next; none before the first receipt.
    pub vkey: Option<String>,
    /// Whether the stream ends with `close`.
    pub closed: bool,
    /// The log it goes to; none before one was named.
    pub log: Option<LogBinding>,
    /// Receipts signed.
    pub receipts: u64,
    /// Receipts never sent.
    pub queued: u64,
    /// Receipts sent at least once whose answer has not come.
    pub sent: u64,
    /// Receipts with a proof.
    pub acknowledged: u64,
    /// Torn records that a start removed: beginnings of receipts that were never returned and never sent. They are kept in
    /// the file `dropped`.
    pub dropped: u64,
    /// Actions that ran without a receipt, because the gate was told to let them. They are kept in the file `drops`.
    pub drops: u64,
    /// Things the log did that no honest log does. They are kept in the file `alarms`.
    pub alarms: u64,
}

/// An outbox that is only looked at. It is not locked, and shows what was there when it was opened.
#[derive(Debug)]
pub struct OutboxView(Store);

impl OutboxView {
    /// Looks at the outbox in `dir`.
    ///
    /// # Errors
    /// [`OutboxError`]: there is none, or its files are damaged.
    pub fn open(dir: &Path) -> Result<Self, OutboxError> {
        Store::open(dir, Access::Read).map(Self)
    }

    /// How it stands.
    pub fn status(&self) -> Status {
        status(&self.0)
    }

    /// The receipt at `seq` with its proof; `None` where it is not acknowledged.
    ///
    /// # Errors
    /// [`OutboxError`].
    pub fn kept(&self, seq: SeqNo) -> Result<Option<Kept>, OutboxError> {
        kept(&self.0, seq)
    }

    /// The alarms that were kept, one JSON document each.
    ///
    /// # Errors
    /// [`OutboxError::Disk`].
    pub fn alarms(&self) -> Result<Vec<String>, OutboxError> {
        self.0.alarms()
    }

    /// Checks everything again: every receipt against the issuer rules from the first one on, every kept proof against the
    /// log's key and the receipt. `issuer` is the vkey that the issuer must have registered, where it is known from
    /// elsewhere. `progress` is told of every receipt and every proof checked.
    ///
    /// # Errors
    /// [`OutboxError::Disk`]; what is found is no error.
    pub fn verify(
        &self,
        issuer: Option<&VerifierKey>,
        progress: &mut dyn FnMut(),
    ) -> Result<Verification, OutboxError> {
        verify::verify(&self.0, issuer, progress)
    }
}

impl Outbox {
    /// How it stands.
    ///
    /// # Errors
    /// [`OutboxError::Stopped`].
    pub fn status(&self) -> Result<Status, OutboxError> {
        Ok(status(&self.working()?.store))
    }
}

fn status(store: &Store) -> Status {
    let state = store.state();
    let (receipts, sent, acknowledged) = (store.count(), store.sent(), store.acknowledged_count());
    Status {
        issuer: state.map(|state| state.name().to_string()),
        vkey: state.map(|state| state.keys().current().to_string()),
        closed: state.is_some_and(|state| state.is_closed()),
        log: store.log().cloned(),
        receipts,
        queued: receipts - sent,
        sent: sent - acknowledged,
        acknowledged,
        dropped: store.dropped_count(),
        drops: store.drop_count(),
        alarms: store.alarm_count(),
    }
}
