//! The small mutable rest, in sled: each issuer's state, and the size of the tree up to which the states speak.
//!
//! ```text
//! "through"          u64 big-endian size | 32 bytes root at that size
//! "issuer/<name>"    the state as JSON
//! ```
//!
//! All of it can be derived from the entries, and is, when it is missing, damaged, or speaks about another tree. So
//! it is written now and then, never at the commit point, and a power cut may lose it.

use crate::error::StoreError;
use merkle::{Hash, RootHash, TreeSize};
use receipt::IssuerState;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

/// Small: the store keeps the states it needs in memory itself.
const CACHE_BYTES: u64 = 4 << 20;
/// Changes a batch: larger ones cost sled memory out of proportion.
const BATCH: usize = 256;
const THROUGH: &[u8] = b"through";
const ISSUER: &str = "issuer/";

/// The open database.
#[derive(Debug)]
pub(crate) struct State {
    path: PathBuf,
    tree: sled::Db,
}

/// What the database knew.
#[derive(Debug)]
pub(crate) struct Remembered {
    pub(crate) size: TreeSize,
    pub(crate) root: RootHash,
    pub(crate) issuers: Vec<IssuerState>,
}

impl State {
    /// Opens `dir/state`. Whatever is not a sound database there is deleted: it holds nothing that is not elsewhere.
    pub(crate) fn open(dir: &Path) -> Result<State, StoreError> {
        let path = dir.join("state");
        let open = || sled::Config::default().path(&path).cache_capacity(CACHE_BYTES).flush_every_ms(None).open();
        // sled panics over some files that are not its own.
        let tree = match catch_unwind(AssertUnwindSafe(open)) {
            Ok(Ok(tree)) => tree,
            failed => {
                let why = failed.map_or_else(
                    |_| "sled panicked".to_owned(),
                    |error| error.err().map(|error| error.to_string()).unwrap_or_default(),
                );
                tracing::warn!(path = %path.display(), why, "the state is damaged; deleting it and deriving it again from the entries");
                remove(&path)?;
                open().map_err(|error| StoreError::index(&path, error))?
            }
        };
        Ok(State { path, tree })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// What the database in `dir/state` knows, which is not touched: sled writes even to open one, so a copy of it is
    /// opened in `beside`, which must not exist, and deleted. `None` where it says nothing.
    pub(crate) fn look(dir: &Path, beside: &Path) -> Result<Option<Remembered>, String> {
        let look = || -> Result<Option<Remembered>, String> {
            copy(&dir.join("state"), beside).map_err(|error| error.to_string())?;
            let config = sled::Config::default().path(beside).cache_capacity(CACHE_BYTES).flush_every_ms(None);
            let tree = config.open().map_err(|error| error.to_string())?;
            let state = State { path: beside.to_owned(), tree };
            if !state.tree.contains_key(THROUGH).map_err(|error| error.to_string())? {
                return Ok(None);
            }
            state.read().map(Some).ok_or_else(|| "it holds what was never written".to_owned())
        };
        let looked = catch_unwind(AssertUnwindSafe(look)).unwrap_or_else(|_| Err("sled panicked".to_owned()));
        // A copy that stays behind is in nobody's way.
        let _ = fs::remove_dir_all(beside);
        looked
    }

    /// What was written last; `None` when that is nothing, or not whole.
    pub(crate) fn remembered(&self) -> Option<Remembered> {
        catch_unwind(AssertUnwindSafe(|| self.read())).ok().flatten()
    }

    fn read(&self) -> Option<Remembered> {
        let through = self.tree.get(THROUGH).ok()??;
        let (size, root) = through.split_first_chunk::<8>()?;
        let mut issuers = Vec::new();
        for row in self.tree.scan_prefix(ISSUER) {
            issuers.push(serde_json::from_slice(&row.ok()?.1).ok()?);
        }
        let root = RootHash(Hash(root.try_into().ok()?));
        Some(Remembered { size: TreeSize(u64::from_be_bytes(*size)), root, issuers })
    }

    /// Writes the states that have changed; with those written before they are all of them at `size`. "through" goes
    /// first and comes last, so that a crash in between leaves a database that says nothing.
    pub(crate) fn remember(&self, size: TreeSize, root: RootHash, changed: &[IssuerState]) -> Result<(), StoreError> {
        let write = || -> Result<(), sled::Error> {
            self.tree.remove(THROUGH)?;
            for some in changed.chunks(BATCH) {
                let mut batch = sled::Batch::default();
                for state in some {
                    let value = serde_json::to_vec(state).map_err(std::io::Error::from)?;
                    batch.insert(format!("{ISSUER}{}", state.name()).into_bytes(), value);
                }
                self.tree.apply_batch(batch)?;
            }
            self.tree.insert(THROUGH, [&size.0.to_be_bytes()[..], &root.0.0].concat())?;
            // A power cut then mostly costs no derivation.
            self.sync()
        };
        write().map_err(|error| StoreError::index(&self.path, error))
    }

    /// Forgets everything, durably: what is derived again after that is not synced before the states are written next, and
    /// a power cut must not bring back states that vouch for it.
    pub(crate) fn clear(&self) -> Result<(), StoreError> {
        let clear = || self.tree.clear().and_then(|()| self.sync());
        clear().map_err(|error| StoreError::index(&self.path, error))
    }

    fn sync(&self) -> Result<(), sled::Error> {
        self.tree.flush()?;
        // What flush leaves to the system.
        fs::File::open(self.path.join("db"))?.sync_all()?;
        Ok(())
    }
}

/// Copies a directory of files and such directories. One that is not there is empty.
fn copy(from: &Path, to: &Path) -> std::io::Result<()> {
    fs::create_dir_all(to)?;
    let files = match fs::read_dir(from) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        files => files?,
    };
    for file in files {
        let file = file?;
        let to = to.join(file.file_name());
        if file.file_type()?.is_dir() { copy(&file.path(), &to)? } else { fs::copy(file.path(), to).map(drop)? }
    }
    Ok(())
}

fn remove(path: &Path) -> Result<(), StoreError> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(StoreError::io(path, error)),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;

    #[test]
    fn what_was_forgotten_does_not_come_back_from_the_disk() {
        let dir = tempfile::tempdir().unwrap();
        let state = State::open(dir.path()).unwrap();
        let beside = dir.path().join("beside");
        state.remember(TreeSize(7), RootHash(Hash([7; 32])), &[]).unwrap();
        assert_eq!(State::look(dir.path(), &beside).unwrap().map(|there| there.size), Some(TreeSize(7)));
        // As if the process were killed right after: nothing is flushed by a drop.
        state.clear().unwrap();
        assert!(State::look(dir.path(), &beside).unwrap().is_none());
    }
}
