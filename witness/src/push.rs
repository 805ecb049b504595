//! Why a head that was pushed is refused. Does not hold the call's bytes nor the rule (`cosign`), nor statuses (`routes`).

pub use cosign::{MAX_PUSH_BYTES, Push};
use merkle::TreeSize;
use note::CheckpointError;

/// Why a head that was pushed is refused without a word in the journal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PushRefusal {
    /// Pushes of this log are not taken.
    UnknownLog,
    /// No good signature of the log.
    BadSignature(CheckpointError),
    /// The head is smaller than the one it is said to have grown out of.
    Shrinks,
    /// Another size is held than the caller believes.
    Holds(TreeSize),
    /// The head is longer than what the journal keeps of one.
    TooLong,
    /// The proof does not verify, or shows nothing that could be shown on: a stranger's word about the log.
    Unproven(String),
    /// Evidence stands against the log.
    Refused(String),
}
