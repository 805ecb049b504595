//! How a gate stands, for people and for Prometheus.

use super::core::Sending;
use super::{Gate, GateError};
use crate::outbox::Status;
use std::fmt::Write as _;
use std::time::Duration;

/// How a gate stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GateStatus {
    /// The outbox.
    pub outbox: Status,
    /// Actions that ran without a receipt.
    pub drops: DropCounts,
    /// Allowed actions that have no outcome yet.
    pub open_decisions: u64,
    /// Outcomes that are due and not written: the log was not asked for its stream yet, the disk refuses, or the log holds
    /// another history of this key, and they never will be.
    pub owed: u64,
    /// How the sender does.
    pub sender: Sending,
    /// How long the oldest receipt waits for the log, by the gate's clock; `None` where none waits.
    pub oldest_queued: Option<Duration>,
}

/// Actions that ran without a receipt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DropCounts {
    /// All of them.
    pub count: u64,
    /// Those that a `dropped` receipt has recorded.
    pub told: u64,
}

impl Gate {
    /// How it stands.
    ///
    /// # Errors
    /// [`GateError::Outbox`] where the disk refuses; [`Gate::metrics`] answers then, too.
    pub fn status(&self) -> Result<GateStatus, GateError> {
        let core = self.core();
        let standing = core.standing();
        let outbox = core.outbox.status()?;
        let oldest = core.outbox.first_unsent().and_then(|seq| core.outbox.receipt(seq))?;
        Ok(GateStatus {
            outbox,
            drops: DropCounts { count: standing.dropped, told: standing.told },
            open_decisions: standing.open,
            owed: standing.owed,
            sender: core.sending(),
            oldest_queued: oldest
                .map(|receipt| Duration::from_millis(self.now().0.saturating_sub(receipt.issued_at().0))),
        })
    }

    /// The same as metrics, in Prometheus text: one value a line, labelled with the issuer. Where the disk refuses, what it
    /// cannot tell is left out and `counterfoil_gate_disk_failing` is 1.
    pub fn metrics(&self) -> String {
        let core = self.core();
        let standing = core.standing();
        let status = self.status();
        let receipts = *core.outbox.watch_appended().borrow();
        let acknowledged = *core.outbox.watch_acknowledged().borrow();
        let is_failing = u64::from(core.sending() != Sending::Working);
        let alarms = status.as_ref().ok().map(|status| status.outbox.alarms);
        let oldest = status.as_ref().ok().map(|status| status.oldest_queued.unwrap_or_default().as_secs());
        let disk = u64::from(standing.failed || status.is_err());
        let issuer = core.outbox.name();
        let mut text = String::new();
        for (name, kind, help, value) in [
            ("receipts_total", "counter", "Receipts signed.", Some(receipts)),
            (
                "queued",
                "gauge",
                "Receipts that the log has not proved yet.",
                Some(receipts.saturating_sub(acknowledged)),
            ),
            ("acknowledged_total", "counter", "Receipts that the log has proved.", Some(acknowledged)),
            ("dropped_total", "counter", "Actions that ran without a receipt.", Some(standing.dropped)),
            ("alarms_total", "counter", "What the log did that no honest log does.", alarms),
            ("open_decisions", "gauge", "Allowed actions without an outcome.", Some(standing.open)),
            ("owed", "gauge", "Outcomes that are due and not written.", Some(standing.owed)),
            ("sender_failing", "gauge", "1 while nothing gets to the log.", Some(is_failing)),
            ("oldest_queued_seconds", "gauge", "How long the oldest receipt has waited.", oldest),
            ("disk_failing", "gauge", "1 while the outbox's disk refuses.", Some(disk)),
        ] {
            if let Some(value) = value {
                // A String takes whatever is written. An issuer's name holds no quote, backslash or line end.
                let _ = writeln!(
                    text,
                    "# HELP counterfoil_gate_{name} {help}\n# TYPE counterfoil_gate_{name} {kind}\ncounterfoil_gate_{name}{{issuer=\"{issuer}\"}} {value}"
                );
            }
        }
        text
    }
}
