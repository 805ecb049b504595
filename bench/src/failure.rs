//! Why there are no figures.

use std::fmt::Display;
use std::io;
use std::path::{Path, PathBuf};
use testkit::stage::StageError;

/// The most of a log's answer that is shown.
const SHOWN: usize = 300;

/// What ended the bench.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// The stage could not be set, or a program did not do what it was called for.
    #[error(transparent)]
    Stage(#[from] StageError),
    /// The connection to the log.
    #[error("{0}; the log's own messages are in log.stderr in the stage's directory (--keep DIR keeps it)")]
    Connection(io::Error),
    /// The log did not take a receipt. Nothing may be left out of the figures, so this ends them.
    #[error("the log did not take a receipt: it answered {status}: {body}")]
    Refused { status: u16, body: String },
    /// The log said something that cannot be.
    #[error("{0}")]
    Answer(String),
    /// A file or directory.
    #[error("{path}: {source}")]
    Io { path: PathBuf, source: io::Error },
    /// Anything else that should not happen.
    #[error("{0}")]
    Unexpected(String),
}

impl Failure {
    pub(crate) fn unexpected(what: impl Display) -> Failure {
        Failure::Unexpected(what.to_string())
    }

    pub(crate) fn refused(status: u16, body: &[u8]) -> Failure {
        Failure::Refused { status, body: String::from_utf8_lossy(&body[..body.len().min(SHOWN)]).into_owned() }
    }

    pub(crate) fn io(path: &Path) -> impl FnOnce(io::Error) -> Failure {
        let path = path.to_owned();
        move |source| Failure::Io { path, source }
    }
}
