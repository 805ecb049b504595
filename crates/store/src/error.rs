//! What can go wrong with a store, sorted by who has to do something about it.

use merkle::TreeSize;
use std::io;
use std::path::{Path, PathBuf};

/// A sector that cannot be read.
const EIO: i32 = 5;

/// Why the store did not do it.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The disk, or the right to use it.
    #[error("{path}: {source}; {}", what_next(source))]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Another process has it open.
    #[error("{0} is in use by another process; stop that one first: two writers would sign two histories")]
    InUse(PathBuf),
    /// There is something where a new store should be made.
    #[error("{0} already exists; a store is made only where nothing is")]
    Exists(PathBuf),
    /// There is no store.
    #[error(
        "{0} holds no store; bring back the newest copy of it. A key that has signed heads must never get a new store: that would be a second history. Only a log that has signed nothing is made with init"
    )]
    Missing(PathBuf),
    /// A write failed before; what is durable is unknown until recovery.
    #[error("an earlier write failed; restart, and recovery will find out what is durable")]
    Poisoned,
    /// Stored bytes are not what was written: at this position.
    #[error("{path} is damaged at {what} {position}: {why}; restore the file from a copy, and keep this one")]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is counted.
        what: &'static str,
        /// Which one.
        position: u64,
        /// What is wrong with it.
        why: String,
    },
    /// An index, which is derived from the entries, leads to something else than what is looked up: at this position.
    #[error(
        "{path} is wrong at {what} {position}: {why}; it is derived from the entries and can be derived again: with the log stopped, run \
         `counterfoil-log fsck --dir DIR --repair-index`"
    )]
    Misleading {
        /// The file.
        path: PathBuf,
        /// What is counted.
        what: &'static str,
        /// Which one.
        position: u64,
        /// Where it leads.
        why: String,
    },
    /// The tree on disk does not lead to the root that was signed.
    #[error("the hashes on disk do not lead to the root signed at size {size}; the store is damaged")]
    WrongRoot {
        /// The size of the head.
        size: TreeSize,
    },
    /// The caller wants to append an entry that no length prefix can announce.
    #[error(transparent)]
    TooLong(#[from] merkle::EntryTooLong),
    /// The caller records a head over something else than what was appended last.
    #[error("the head to record is not the one over what was appended (size {appended})")]
    OtherHead {
        /// The size that was appended to.
        appended: TreeSize,
    },
    /// The caller commits a receipt that does not follow the one before it of its issuer.
    #[error("receipt {seq} of {issuer} does not follow what the store holds of that issuer; nothing was written")]
    OutOfPlace {
        /// Whose receipt.
        issuer: receipt::IssuerName,
        /// Its number.
        seq: receipt::SeqNo,
    },
    /// The caller wants to keep evidence that is none.
    #[error("a document of evidence is JSON on one line of fewer than {limit} bytes; it was not kept")]
    NotADocument {
        /// The limit.
        limit: usize,
    },
    /// The head could not be signed.
    #[error("the head cannot be signed: {0}; the key must be the log's own")]
    Sign(#[from] note::CheckpointError),
    /// sled or redb, which hold only what can be rebuilt.
    #[error(
        "the index below {path} failed: {why}; if the disk has room and can be written to, stop the log and delete that directory or file: it is rebuilt at the next start"
    )]
    Index {
        /// Where it lies.
        path: PathBuf,
        /// What it said.
        why: String,
    },
    /// The id index is out of use, or far behind; it mends itself while the log runs.
    #[error("receipts cannot be found by their ids now: {path}: {why}; try again in a minute")]
    Unavailable {
        /// Where the index lies.
        path: PathBuf,
        /// Why that is.
        why: String,
    },
}

impl StoreError {
    /// Whether what was read is not what was written, or the disk cannot give it back: no later read can be trusted then
    /// either. A read that failed for want of something (files, memory) may be tried again, and an index that failed is
    /// rebuilt.
    pub fn is_damage(&self) -> bool {
        match self {
            StoreError::Damaged { .. } | StoreError::Misleading { .. } | StoreError::WrongRoot { .. } => true,
            StoreError::Io { source, .. } => {
                source.kind() == io::ErrorKind::UnexpectedEof || source.raw_os_error() == Some(EIO)
            }
            _ => false,
        }
    }

    pub(crate) fn io(path: &Path, source: io::Error) -> StoreError {
        StoreError::Io { path: path.to_owned(), source }
    }

    pub(crate) fn index(path: &Path, why: impl ToString) -> StoreError {
        StoreError::Index { path: path.to_owned(), why: why.to_string() }
    }
}

/// What an operator does about a file operation that failed.
fn what_next(source: &io::Error) -> &'static str {
    match source.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            "make room on that disk, then start again: what was written last is looked at then"
        }
        io::ErrorKind::ReadOnlyFilesystem => "make that file system writable, then start again",
        io::ErrorKind::PermissionDenied => "give this user the right to write there, then start again",
        io::ErrorKind::NotFound => "look whether the path is right and the disk is mounted",
        _ => "look at the disk and the system's messages, then start again: what is on disk is looked at then",
    }
}
