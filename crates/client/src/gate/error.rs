//! Why a gate did not do what it was asked.

use super::bodies::ClaimsFault;
use crate::amount::{amount, receipts};
use crate::history::HistoryError;
use crate::outbox::OutboxError;
use crate::sender::SendError;
use std::path::PathBuf;
use std::time::Duration;

/// Why a gate did not do what it was asked. Unless it says so, nothing was signed and nothing may run.
#[derive(Debug, thiserror::Error)]
pub enum GateError {
    /// Our caller: a decision claims what it must not.
    #[error(transparent)]
    Claims(#[from] ClaimsFault),
    /// Our caller: an outcome or a decision is not written by hand.
    #[error(
        "a {0} is written by the gate alone: call `decide` or `deny`, and let the scope write what became of it (`reported` where the caller executes)"
    )]
    ScopeOnly(String),
    /// Our caller: a receipt that the gate writes by itself.
    #[error("a {0} receipt is the gate's own: {advice}", advice = reserved_advice(.0))]
    ReservedType(String),
    /// Our caller: no decision waits for this report.
    #[error(
        "no decision of the request {0:?} waits for the caller's report: it was never allowed, its outcome is written, or the gate itself executes it"
    )]
    NoSuchDecision(String),
    /// Our caller: scopes are open that still owe an outcome.
    #[error("{} no outcome yet; end every scope, then end the stream", amount(*.0 as u64, "allowed call has", "allowed calls have"))]
    OpenScopes(usize),
    /// Our caller: the gate was closed.
    #[error("the gate was closed; open it again to go on")]
    Closed,
    /// The outbox holds as many receipts as it may; no receipt, no action.
    #[error(
        "the outbox {dir} holds {} that the log has not taken, and {max_queued} are allowed: nothing was signed and nothing may run; see why the log takes none (`status`), or raise `max_queued`",
        receipts(*.queued)
    )]
    Full {
        /// The outbox.
        dir: PathBuf,
        /// Receipts that wait.
        queued: u64,
        /// As many as may.
        max_queued: u64,
    },
    /// The outbox itself.
    #[error(transparent)]
    Outbox(#[from] OutboxError),
    /// Our caller: histories need somebody to trust.
    #[error(
        "this gate has no policy, and so nobody to believe a history of; give it the policy of the log's witnesses"
    )]
    NoPolicy,
    /// Our caller, or another of its threads: the decision was judged by a history that is out of date.
    #[error(
        "the gate has decided on {0:?} since that history was read: nothing was signed and nothing may run; read it again, and judge by that"
    )]
    HistoryMoved(String),
    /// There is no history.
    #[error(transparent)]
    History(#[from] HistoryError),
    /// The log's address and the gate's do not go together, at the start.
    #[error(transparent)]
    Send(#[from] SendError),
    /// What stopped the sender, or keeps it from sending.
    #[error("{sentence}")]
    Sender {
        /// Its code.
        code: String,
        /// What happened and what to do.
        sentence: String,
    },
    /// Not everything was acknowledged in time.
    #[error(
        "{} safe in the outbox and not taken by the log in {waited:?} ({last}); what is there is sent as soon as it takes more",
        amount(*.unsent, "receipt is", "receipts are")
    )]
    NotInTime {
        /// Receipts not acknowledged.
        unsent: u64,
        /// How long was waited.
        waited: Duration,
        /// What the sender says.
        last: String,
    },
    /// The system gave no thread or no HTTP client.
    #[error("the gate cannot start its sender: {0}; see the limits on threads and memory")]
    NoWorker(String),
}

impl GateError {
    /// The code, the same in every SDK.
    pub fn code(&self) -> &str {
        match self {
            Self::Claims(fault) => fault.code(),
            Self::ScopeOnly(_) | Self::OpenScopes(_) => "scope-only",
            Self::ReservedType(_) => "reserved-type",
            Self::NoSuchDecision(_) => "no-such-decision",
            Self::Closed | Self::NoWorker(_) => "outbox-stopped",
            Self::Full { .. } => "outbox-full",
            // A later call finds an outbox that an earlier write stopped: it is still the disk.
            Self::Outbox(OutboxError::Stopped) => "outbox-disk",
            Self::Outbox(error) => error.code(),
            Self::NoPolicy => "history-unavailable",
            Self::HistoryMoved(_) => "history-moved",
            Self::History(error) => error.code(),
            Self::Send(error) => error.code(),
            Self::Sender { code, .. } => code,
            Self::NotInTime { .. } => "log-unreachable",
        }
    }
}

fn reserved_advice(type_name: &str) -> &'static str {
    match type_name {
        "close" => "call `end`",
        "rotate" => "call `rotate` with the new key",
        "heartbeat" => "set `heartbeat_ms`",
        "dropped" => "it writes one when it let something run without a receipt",
        _ => "it writes one when it opens a new outbox",
    }
}
