//! Where a log's files are and whose they are, for commands that are given the directory that `init` made.

use super::layout;
use crate::config::{self, SetupError};
use note::{KeyKind, VerifierKey};
use service::config::Flags;
use service::{ExitStatus, keys};
use std::path::{Path, PathBuf};

/// A log at rest, or one that others run.
pub(super) struct LogPlace {
    pub(super) store: PathBuf,
    pub(super) issuers: PathBuf,
    pub(super) key: VerifierKey,
}

/// Why it cannot be found.
#[derive(Debug, thiserror::Error)]
pub(super) enum PlaceError {
    #[error("{0} holds no log (there is no {CONFIG} in it); give the directory that `counterfoil-log init` made", CONFIG = layout::CONFIG)]
    NoLog(PathBuf),
    #[error(transparent)]
    Setup(#[from] SetupError),
    #[error("{0}; or give the log's vkey with --log-key")]
    Key(#[from] keys::KeyFileError),
    #[error("--log-key: {0}; give the vkey that `counterfoil-log init` printed")]
    Vkey(String),
}

impl PlaceError {
    pub(super) fn status(&self) -> ExitStatus {
        match self {
            Self::NoLog(_) | Self::Key(_) => ExitStatus::Unreadable,
            Self::Setup(_) | Self::Vkey(_) => ExitStatus::Usage,
        }
    }
}

/// Finds the log in `dir`; with `vkey` its private key is not read.
pub(super) fn find(dir: &Path, vkey: Option<&str>) -> Result<LogPlace, PlaceError> {
    let config = dir.join(layout::CONFIG);
    if !config.is_file() {
        return Err(PlaceError::NoLog(dir.to_owned()));
    }
    let loaded = config::load(&config, Flags::new())?;
    let key = match vkey {
        Some(vkey) => log_key(vkey).map_err(PlaceError::Vkey)?,
        None => keys::read_signing_key(&loaded.resolve(&loaded.values.key), KeyKind::Ed25519)?.verifier(),
    };
    let store = loaded.resolve(&loaded.values.store);
    Ok(LogPlace { store, issuers: loaded.resolve(&loaded.values.issuers), key })
}

fn log_key(vkey: &str) -> Result<VerifierKey, String> {
    let key: VerifierKey = vkey.parse().map_err(|error: note::KeyError| error.to_string())?;
    if key.kind() == KeyKind::Ed25519 { Ok(key) } else { Err("this is a key for another use, not a log's".to_owned()) }
}
