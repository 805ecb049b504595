//! What ran without a receipt, because the gate was told to let it (`fail_open`): a durable line each, until a `dropped` receipt
//! tells the log.
//!
//! How many of the lines the log was told of is not kept: it is the sum of the counts in the `dropped` receipts, so that
//! no crash can put the two out of step.

use super::{Outbox, OutboxError};
use receipt::{Body, Shown as _};
use serde::{Deserialize, Serialize};

/// Why an action ran without a receipt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DropReason {
    /// The outbox held as much as it may.
    Full,
    /// The disk refused.
    Disk,
}

impl DropReason {
    /// The word, as it stands in receipts.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::Disk => "disk",
        }
    }
}

/// A line of `drops`: one action that ran without a receipt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DropLine {
    /// When, in milliseconds since the Unix epoch.
    pub at: u64,
    /// Why.
    pub why: DropReason,
    /// The request; empty where it was not kept.
    pub request_id: String,
}

/// What the lines and the receipts say together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Drops {
    /// How many actions ran without a receipt.
    pub count: u64,
    /// How many of them a `dropped` receipt has recorded.
    pub told: u64,
    /// The lines of those that none has recorded, oldest first.
    pub untold: Vec<DropLine>,
}

impl Outbox {
    /// What ran without a receipt. Reads all receipts where anything did.
    ///
    /// # Errors
    /// [`OutboxError`].
    pub fn drops(&self) -> Result<Drops, OutboxError> {
        let inner = self.working()?;
        let lines = inner.store.drop_count();
        if lines == 0 {
            return Ok(Drops::default());
        }
        let mut told = 0u64;
        for seq in 0..inner.store.count() {
            if let Some(receipt) = super::receipt(&inner.store, receipt::SeqNo(seq))?
                && let Body::Dropped(dropped) = receipt.body()
            {
                told = told.saturating_add(dropped.count.shown().copied().unwrap_or(0));
            }
        }
        Ok(Drops { count: lines.max(told), told, untold: inner.store.drops_from(told)? })
    }

    /// Keeps, durably, that these actions ran without a receipt.
    ///
    /// # Errors
    /// [`OutboxError`].
    pub fn note_drops(&self, drops: &[DropLine]) -> Result<(), OutboxError> {
        if drops.is_empty() { Ok(()) } else { self.working()?.write(|store| store.append_drops(drops)) }
    }
}
