//! Why there is no history, by who is to blame.

use super::index::{MAX_ASKED, MAX_ITEMS, MAX_SUBJECTS};
use super::witnessed::NotWitnessed;
use crate::http::FetchError;
use crate::outbox::OutboxError;
use cosign::LogFork;
use note::CheckpointError;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Why there is no history with proof. Decide by something else, or not at all.
#[derive(Debug, thiserror::Error)]
pub enum HistoryError {
    /// Our caller: too many subjects at once.
    #[error("{0} subjects are asked for at once, and at most {MAX_ASKED} can be told of together; ask for fewer")]
    TooManySubjects(usize),
    /// Our caller: there is no such entry under the head that the history stands under.
    #[error("entry {index} is not under the head of {size} entries that this history stands under")]
    NoSuchEntry {
        /// What was asked for.
        index: u64,
        /// Entries under the head.
        size: u64,
    },
    /// The log does not answer.
    #[error("the log does not say what it holds: {0}; nothing can be said of any history until it does")]
    Log(#[from] FetchError),
    /// The log does not answer in the time that a call has.
    #[error(
        "the log did not say in {total:?} what it holds: {read} of {size} entries are read, and stay so; ask again, or give it more time (`total`)"
    )]
    TooSlow {
        /// The time that a call has.
        total: Duration,
        /// Entries read so far.
        read: u64,
        /// Entries under the head that was being read up to, or as many as are read where none had come.
        size: u64,
    },
    /// What came as a head is none of this log's.
    #[error("what the log serves as its head is not signed by its key ({0}); check its address and its vkey")]
    Head(#[from] CheckpointError),
    /// The witnesses do not vouch for it, or not lately.
    #[error("no head of the log can be believed now: {0}; see whether the witnesses run, and ask again")]
    NotWitnessed(NotWitnessed),
    /// The log's tiles or entries are not what it signed. Nobody is convicted by that.
    #[error("the log's entries are not those under its head ({0}); ask again, or another address of the log")]
    Unproven(String),
    /// The log shows less than it once did.
    #[error(
        "the log shows a head of {offered} entries and showed one of {held} before; a log never shrinks: tell its operator and its witnesses"
    )]
    RolledBack {
        /// Entries under the largest head seen.
        held: u64,
        /// Entries under what it shows now.
        offered: u64,
    },
    /// The log signed two histories.
    #[error(
        "the log signed two histories, one of {held} entries and one of {offered}; the proof of it is in {kept}: give it to the log's auditors, and believe nothing that the log says"
    )]
    Fork {
        /// Entries under the head that was held.
        held: u64,
        /// Entries under the other.
        offered: u64,
        /// Where the evidence is.
        kept: PathBuf,
        /// The evidence, with both heads.
        evidence: Box<LogFork>,
    },
    /// The log is larger than a gate can follow.
    #[error(
        "the log holds more decisions or names than can be followed ({MAX_ITEMS} decisions, {MAX_SUBJECTS} subjects): no history is known to be whole; ask an auditor's service instead"
    )]
    TooLarge,
    /// Our disk.
    #[error("cannot {action} {path}: {source}")]
    Disk {
        /// "read", "write".
        action: &'static str,
        /// Which file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Our disk, or somebody who wrote to it: what is kept is not what was written.
    #[error(
        "{path} is damaged: {reason}; what it held is the largest head of the log that was ever seen: restore it, or remove it and know that a log which went back before today is not noticed"
    )]
    Damaged {
        /// Which file.
        path: PathBuf,
        /// What was found.
        reason: String,
    },
    /// The outbox, which holds what the log does not have yet.
    #[error(transparent)]
    Outbox(#[from] OutboxError),
}

impl HistoryError {
    /// The code, the same in every SDK.
    pub fn code(&self) -> &'static str {
        match self {
            Self::TooManySubjects(_) | Self::TooLarge => "history-too-large",
            Self::NoSuchEntry { .. }
            | Self::TooSlow { .. }
            | Self::Log(_)
            | Self::Head(_)
            | Self::NotWitnessed(_)
            | Self::Unproven(_) => "history-unavailable",
            Self::RolledBack { .. } => "log-rolled-back",
            Self::Fork { .. } => "log-fork",
            Self::Disk { .. } => "outbox-disk",
            Self::Damaged { .. } => "outbox-damaged",
            Self::Outbox(error) => error.code(),
        }
    }

    /// Whether the log, or the way to it, is to blame: a gate that fails open goes on without it.
    pub(super) fn is_of_the_log(&self) -> bool {
        match self {
            Self::Log(_)
            | Self::TooSlow { .. }
            | Self::Head(_)
            | Self::NotWitnessed(_)
            | Self::Unproven(_)
            | Self::RolledBack { .. }
            | Self::Fork { .. }
            | Self::TooLarge => true,
            Self::TooManySubjects(_)
            | Self::NoSuchEntry { .. }
            | Self::Disk { .. }
            | Self::Damaged { .. }
            | Self::Outbox(_) => false,
        }
    }

    pub(super) fn disk(action: &'static str, path: &Path, source: io::Error) -> Self {
        Self::Disk { action, path: path.to_owned(), source }
    }
}
