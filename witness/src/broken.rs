//! What ends a witness: its own disk, its own keys, its own state. Nothing that a log or a peer does is here.

use crate::evidence::NotAcknowledgeable;
use crate::full::IssuersError;
use crate::peers::own_journal::RolledBack;
use crate::signer::SignerError;
use note::{CheckpointError, Origin};
use std::path::PathBuf;
use store::StoreError;

/// The witness itself is at fault, and must stop: what is durable is unknown, or what it knows cannot be relied on.
#[derive(Debug, thiserror::Error)]
pub enum Broken {
    /// The disk.
    #[error("{0}")]
    Store(#[from] StoreError),
    /// The journal's key does not sign what it must sign: keys and configuration do not fit together.
    #[error("the journal's key cannot sign the journal: {0}; check journal_key")]
    Signing(CheckpointError),
    /// The same, for the witness's key.
    #[error("the witness's key cannot cosign: {0}")]
    Cosigning(#[from] SignerError),
    /// There is no state.
    #[error(
        "{} holds no state of this witness
1. bring back the newest copy of it, or correct `state` in the configuration
2. if it is lost, make a new witness with a new key and a new name
   (counterfoil-witness init): this key has vouched for heads that nobody
   here remembers, and must never cosign again", .0.display()
    )]
    NoState(PathBuf),
    /// A document among the evidence is none.
    #[error(
        "evidence {number} of this witness cannot be read or written: {reason}; restore evidence.ndjson from a copy, and keep this one"
    )]
    Evidence {
        /// Which one.
        number: u64,
        /// What is wrong with it.
        reason: String,
    },
    /// The journal is older than what was derived from it, or is another one.
    #[error(
        "the journal in {0} is an older copy, or another witness's: not what this witness wrote last
1. bring back the newest state directory
2. if that is lost, make a new witness with a new key and a new name
   (counterfoil-witness init): this key must never cosign again"
    )]
    OlderJournal(String),
    /// Fewer documents of evidence than the journal speaks of.
    #[error(
        "the journal speaks of {journalled} documents of evidence, and evidence.ndjson holds {held}; bring back the newest copy of it"
    )]
    MissingEvidence {
        /// How many the journal knows of.
        journalled: u64,
        /// How many there are.
        held: u64,
    },
    /// Nothing says at which level the state was made.
    #[error(
        "{0} is missing or damaged, and it says at which level this witness cosigns; bring back the newest copy of it. A key means one level, which must not be guessed"
    )]
    UnknownLevel(String),
    /// A line of the journal that this version does not write.
    #[error(
        "line {0} of the journal cannot be read; the witness that wrote it is of another version, or the file is damaged"
    )]
    Line(u64),
    /// The head held for a log is not under the key that is configured for it.
    #[error(
        "the head held for the log {0:?} is not signed by the vkey in the configuration; put back the vkey that was there. A log with a new key needs a new origin: what it signs cannot be held against what the old key signed"
    )]
    OtherLogKey(Origin),
    /// A head was about to leave that no line of the journal speaks of.
    #[error(
        "a head of {0:?} was to be released without a line in the journal; this is a fault of the program, please report it"
    )]
    Unjournalled(Origin),
    /// A peer holds a head of our journal that our journal does not contain.
    #[error(transparent)]
    RolledBack(#[from] RolledBack),
    /// The tree of the journal cannot be read.
    #[error(
        "the journal's tree cannot be read at size {0}: look at the disk, then bring back the newest copy of the state directory"
    )]
    UnreadableJournal(merkle::TreeSize),
    /// A list of issuers.
    #[error(transparent)]
    Issuers(#[from] IssuersError),
    /// Evidence is acknowledged that nobody can have seen.
    #[error(transparent)]
    Acknowledged(#[from] NotAcknowledgeable),
    /// An earlier error.
    #[error("an earlier error ended this witness's keeping; restart it")]
    Ended,
    /// A worker was interrupted in its work.
    #[error("the witness's work was interrupted; the reason is in the lines above")]
    Interrupted,
}
