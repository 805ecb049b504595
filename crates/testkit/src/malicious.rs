//! A log that signs a second history: the crime that the witnesses exist to catch.
//!
//! It takes a copy of an honest log's directory and that log's private key, keeps a prefix of the
//! entries, puts others in place of the rest, signs a head over the result and serves it like any other
//! tiled log. It holds everything in memory and writes nothing. Read side only: whoever wants to be
//! deceived fetches.

use axum::Router;
use axum::http::{StatusCode, Uri};
use axum::response::IntoResponse;
use merkle::{HashSource, MemoryTree, PageId, ResourcePath, TileId, TreeSize};
use note::{Checkpoint, Origin, SigningKey};
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
    /// The key does not sign for that origin.
    #[error(transparent)]
    Sign(#[from] note::CheckpointError),
}

/// A history that the log's key signed and that is not the log's.
#[derive(Clone)]
pub struct SecondHistory {
    tree: MemoryTree,
    entries: Vec<Vec<u8>>,
    checkpoint: Vec<u8>,
}

impl SecondHistory {
    /// Keeps the first `keep` of `entries`, appends `instead`, and signs the head of that.
    ///
    /// # Errors
    /// When the key is not a log's key of that origin.
    pub fn new(
        entries: &[Vec<u8>],
        keep: usize,
        instead: Vec<Vec<u8>>,
        origin: &Origin,
        key: &SigningKey,
    ) -> Result<SecondHistory, MaliciousError> {
        let entries: Vec<Vec<u8>> = entries.iter().take(keep).cloned().chain(instead).collect();
        let mut tree = MemoryTree::new();
        for entry in &entries {
            tree.push(merkle::leaf_hash(entry));
        }
        let head = Checkpoint { origin: origin.clone(), size: tree.size(), root: tree.root(), extensions: Vec::new() };
        let checkpoint = note::sign_checkpoint(&head, key)?.bytes().to_vec();
        Ok(SecondHistory { tree, entries, checkpoint })
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
        self.tree.size()
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
            ResourcePath::Tile(tile) => self.tile(tile),
            ResourcePath::Entries(page) => self.bundle(page),
            ResourcePath::Heads(page) => {
                let mut bytes = Vec::new();
                merkle::encode_entry(&mut bytes, &self.checkpoint).ok()?;
                (page == PageId { index: 0, width: 1 }).then_some(bytes)
            }
        }
    }

    fn tile(&self, tile: TileId) -> Option<Vec<u8>> {
        let first = tile.index.checked_mul(256)?;
        let level = tile.level.checked_mul(8)?;
        let mut bytes = Vec::new();
        for place in 0..u64::from(tile.width) {
            bytes.extend_from_slice(&self.tree.subtree(level, first.checked_add(place)?)?.0);
        }
        Some(bytes)
    }

    fn bundle(&self, page: PageId) -> Option<Vec<u8>> {
        let first = usize::try_from(page.index.checked_mul(256)?).ok()?;
        let entries = self.entries.get(first..first.checked_add(usize::from(page.width))?)?;
        let mut bytes = Vec::new();
        for entry in entries {
            merkle::encode_entry(&mut bytes, entry).ok()?;
        }
        Some(bytes)
    }
}
