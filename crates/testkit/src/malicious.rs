//! A log that signs a second history: the crime that the witnesses exist to catch.
//!
//! It takes a copy of an honest log's directory and that log's private key, keeps a prefix of the
//! entries, puts others in place of the rest, signs a head over the result and serves it like any other
//! tiled log. It holds everything in memory and writes nothing. Read side only: whoever wants to be
//! deceived fetches.

use crate::liar::{History, LiarError};
use axum::Router;
use axum::http::{StatusCode, Uri};
use axum::response::IntoResponse;
use merkle::{PageId, ResourcePath, TreeSize};
use note::SigningKey;
use std::path::Path;
use std::sync::Arc;
use tokio::net::TcpListener;

/// Why a second history could not be made.
#[derive(Debug, thiserror::Error)]
pub enum MaliciousError {
    /// The copied log could not be read.
    #[error("cannot read the copied log: {0}")]
    Read(#[from] std::io::Error),
    /// The copied log's `entries` file is not a sequence of length-prefixed entries.
    #[error("the copied log's entries are cut or damaged")]
    Entries,
    /// The key signs no heads.
    #[error(transparent)]
    Sign(#[from] LiarError),
}

/// A history that the log's key signed and that is not the log's.
#[derive(Clone)]
pub struct SecondHistory {
    history: History,
    checkpoint: Vec<u8>,
}

impl SecondHistory {
    /// Keeps the first `keep` of `entries`, appends `instead`, and signs the head of that.
    ///
    /// # Errors
    /// When the key is not a log's.
    pub fn new(
        entries: &[Vec<u8>],
        keep: usize,
        instead: Vec<Vec<u8>>,
        key: &SigningKey,
    ) -> Result<SecondHistory, MaliciousError> {
        let history = History::of(entries.iter().take(keep).cloned().chain(instead));
        let checkpoint = history.head(history.size(), key)?.bytes().to_vec();
        Ok(SecondHistory { history, checkpoint })
    }

    /// All entries of a stopped log's store, oldest first, read from the `entries` file in `store_dir`.
    ///
    /// # Errors
    /// When the file cannot be read or is not whole.
    pub fn entries_of(store_dir: &Path) -> Result<Vec<Vec<u8>>, MaliciousError> {
        let bytes = std::fs::read(store_dir.join("entries"))?;
        let entries = merkle::decode_entries(&bytes).map_err(|_| MaliciousError::Entries)?;
        Ok(entries.into_iter().map(<[u8]>::to_vec).collect())
    }

    /// The signed head, as `/checkpoint` serves it.
    pub fn checkpoint(&self) -> &[u8] {
        &self.checkpoint
    }

    /// How many entries the second history has.
    pub fn size(&self) -> TreeSize {
        self.history.size()
    }

    /// Serves the history on `listener` until the future is dropped.
    ///
    /// # Errors
    /// When the listener fails.
    pub async fn serve(self, listener: TcpListener) -> std::io::Result<()> {
        let history = Arc::new(self);
        let router = Router::new().fallback(move |uri: Uri| {
            let history = Arc::clone(&history);
            async move {
                match history.resource(uri.path()) {
                    Some(bytes) => bytes.into_response(),
                    None => StatusCode::NOT_FOUND.into_response(),
                }
            }
        });
        axum::serve(listener, router).await
    }

    /// The bytes at one path, or `None` where this history has nothing.
    fn resource(&self, path: &str) -> Option<Vec<u8>> {
        match ResourcePath::parse(path.strip_prefix('/')?)? {
            ResourcePath::Checkpoint => Some(self.checkpoint.clone()),
            ResourcePath::Tile(tile) => self.history.tile(tile),
            ResourcePath::Entries(page) => self.history.bundle(page),
            ResourcePath::Heads(page) => {
                let mut bytes = Vec::new();
                merkle::encode_entry(&mut bytes, &self.checkpoint).ok()?;
                (page == PageId { index: 0, width: 1 }).then_some(bytes)
            }
        }
    }
}
