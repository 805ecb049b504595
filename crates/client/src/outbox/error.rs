//! What can go wrong with an outbox, by who is to blame.

use merkle::TreeSize;
use receipt::admit::Refusal;
use receipt::ijson::JsonError;
use receipt::{CredentialFound, SeqNo, SignError};
use std::io;
use std::path::{Path, PathBuf};

/// Why an outbox did not do what it was asked. Unless it says so, nothing has changed.
#[derive(Debug, thiserror::Error)]
pub enum OutboxError {
    /// Our caller: a body that cannot become a receipt. Of a list, nothing was appended.
    #[error("{} cannot be signed: {reason}", which_body(*.place, *.of))]
    Body {
        /// Place in the list, from 0.
        place: usize,
        /// How many there are in the list.
        of: usize,
        /// What is wrong with it.
        reason: BodyFault,
    },
    /// Our caller: the outbox was opened without a key, to send only.
    #[error("this outbox was opened without the issuer's key; nothing can be appended to it")]
    NoKey,
    /// Our caller: the key does not continue this stream.
    #[error(
        "the outbox {dir} holds receipts signed by {held}, and the key given is {given}; give that key, or another outbox directory"
    )]
    OtherKey {
        /// The directory.
        dir: PathBuf,
        /// The vkey that signs next.
        held: String,
        /// The vkey of the key given.
        given: String,
    },
    /// Our caller: the key cannot sign receipts at all.
    #[error("the key given signs cosignatures, not receipts; make one with `counterfoil keygen --kind issuer`")]
    WrongKeyKind,
    /// Our caller: receipts of this outbox go to another log.
    #[error("the outbox {dir} belongs to the log {held}, and the log given is {given}; use one outbox directory a log")]
    OtherLog {
        /// The directory.
        dir: PathBuf,
        /// The log's vkey in the outbox.
        held: String,
        /// The vkey given.
        given: String,
    },
    /// Our caller: no log was ever named.
    #[error("the outbox {0} was never given a log; name it with --log and --log-key")]
    NoLog(PathBuf),
    /// Our caller: there is no outbox.
    #[error("there is no outbox at {0}; `counterfoil submit --outbox` makes one")]
    Absent(PathBuf),
    /// Our caller: an acknowledgement out of order, or of a receipt that is not here.
    #[error("seq {seq} cannot be acknowledged: {reason}")]
    Acknowledgement {
        /// The seq.
        seq: SeqNo,
        /// Why not.
        reason: &'static str,
    },
    /// Another process has the outbox.
    #[error(
        "another process is using the outbox {0}; an outbox has one writer at a time: wait until it has ended, or use another directory"
    )]
    Busy(PathBuf),
    /// The directory says that somebody else writes to it.
    #[error(
        "the outbox {0} was made by the TypeScript SDK, which locks it by means of its own: use the TypeScript SDK to write to it, or another directory; reading it is fine"
    )]
    OtherWriter(PathBuf),
    /// The log: it signed two roots for one tree size.
    #[error("the log signed two different trees of size {}; nothing was acknowledged: keep the outbox as evidence and tell the log's auditors", .size.0)]
    LogFork {
        /// The size.
        size: TreeSize,
        /// The checkpoint that was kept with an earlier proof.
        held: String,
        /// The checkpoint of the new proof.
        offered: String,
    },
    /// Our disk, or somebody who wrote to the files: what is there is not what an outbox writes.
    #[error(
        "{path} is damaged {at}: {reason}; restore the newest copy, and do not delete it: the log may hold more than a copy does"
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Where in it.
        at: String,
        /// What was found.
        reason: String,
    },
    /// Our disk: the system refused.
    #[error("cannot {action} {path}: {source}")]
    Disk {
        /// "open", "append to", …
        action: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Our disk: an earlier write failed, so what is on disk is unknown until the outbox is opened again.
    #[error("an earlier write to the outbox failed; open it again to find out what is on disk")]
    Stopped,
    /// A record that its file's form cannot hold. No caller of ours makes one.
    #[error("the record does not fit its file: {0}")]
    Unframeable(String),
}

/// Why a body cannot become a receipt.
#[derive(Debug, thiserror::Error)]
pub enum BodyFault {
    /// Not one JSON object.
    #[error("{0}")]
    Json(#[from] JsonError),
    /// It holds a credential, and a log is for ever. The value is not repeated.
    #[error("{0}")]
    Credential(CredentialFound),
    /// The receipt would be malformed.
    #[error("{0}")]
    Sign(#[from] SignError),
    /// The receipt would break an issuer rule, and every log would refuse it.
    #[error("{0}")]
    Rule(Refusal),
}

impl BodyFault {
    /// The code of the fault: that of the rule it breaks (protocol, section 4).
    pub fn code(&self) -> &'static str {
        match self {
            Self::Json(_) | Self::Sign(_) => "malformed",
            Self::Credential(_) => "credential-shaped",
            Self::Rule(refusal) => refusal.code.as_str(),
        }
    }
}

impl OutboxError {
    /// The code of the error, the same in every SDK.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Body { reason, .. } => reason.code(),
            Self::NoKey | Self::OtherKey { .. } | Self::WrongKeyKind => "outbox-other-key",
            Self::OtherLog { .. } | Self::NoLog(_) => "outbox-other-log",
            Self::Busy(_) => "outbox-busy",
            Self::OtherWriter(_) => "outbox-writer",
            Self::LogFork { .. } => "log-fork",
            Self::Acknowledgement { .. } => "bad-proof",
            Self::Absent(_) | Self::Damaged { .. } => "outbox-damaged",
            Self::Disk { .. } => "outbox-disk",
            Self::Stopped => "outbox-stopped",
            Self::Unframeable(_) => "malformed",
        }
    }

    /// Whether the disk is to blame, now or at an earlier write: opening the outbox again may help.
    pub fn is_of_the_disk(&self) -> bool {
        matches!(self, Self::Disk { .. } | Self::Stopped)
    }

    pub(super) fn disk(action: &'static str, path: &Path, source: io::Error) -> Self {
        Self::Disk { action, path: path.to_owned(), source }
    }

    pub(super) fn damaged(path: &Path, at: String, reason: impl Into<String>) -> Self {
        Self::Damaged { path: path.to_owned(), at, reason: reason.into() }
    }
}

fn which_body(place: usize, of: usize) -> String {
    if of > 1 { format!("body {}", place + 1) } else { "the body".to_owned() }
}
