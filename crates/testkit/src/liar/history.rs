//! One history of a log: its entries and their tree, and what of it can be served.

use super::LiarError;
use merkle::{HashSource, MemoryTree, PageId, TileId, TreeSize, leaf_hash, root_of};
use note::{Checkpoint, Origin, SignedCheckpoint, SigningKey, Verified, sign_checkpoint};

/// Entries, oldest first, and their tree. Grows at its end; a branch shares a beginning with it and grows by itself.
#[derive(Clone, Debug, Default)]
pub struct History {
    entries: Vec<Vec<u8>>,
    tree: MemoryTree,
}

impl History {
    /// The history of these entries.
    pub fn of(entries: impl IntoIterator<Item = Vec<u8>>) -> History {
        let mut history = History::default();
        history.extend(entries);
        history
    }

    /// A history with the first `at` of these entries, or all if there are fewer.
    pub fn branch(&self, at: u64) -> History {
        History::of(self.entries.iter().take(usize::try_from(at).unwrap_or(usize::MAX)).cloned())
    }

    /// Appends entries.
    pub fn extend(&mut self, entries: impl IntoIterator<Item = Vec<u8>>) {
        for entry in entries {
            self.tree.push(leaf_hash(&entry));
            self.entries.push(entry);
        }
    }

    /// How many entries it has.
    pub fn size(&self) -> TreeSize {
        self.tree.size()
    }

    /// The head over its first `size` entries.
    ///
    /// # Errors
    /// When it has fewer, or the key is not a log's.
    pub fn head(&self, size: TreeSize, key: &SigningKey) -> Result<SignedCheckpoint<Verified>, LiarError> {
        if size > self.size() {
            return Err(LiarError::Beyond { size, most: self.size() });
        }
        let root = root_of(&self.tree, size).map_err(|_| LiarError::Beyond { size, most: self.size() })?;
        Ok(sign_checkpoint(&Checkpoint::new(Origin::from(key.name()), size, root), key)?)
    }

    /// The bytes of a tile; `None` where this history has nothing.
    pub fn tile(&self, tile: TileId) -> Option<Vec<u8>> {
        let (first, level) = (tile.index.checked_mul(256)?, tile.level.checked_mul(8)?);
        let mut bytes = Vec::with_capacity(tile.byte_len());
        for place in 0..u64::from(tile.width) {
            bytes.extend_from_slice(&self.tree.subtree(level, first.checked_add(place)?)?.0);
        }
        Some(bytes)
    }

    /// The bytes of a page of entries; `None` where this history has nothing.
    pub fn bundle(&self, page: PageId) -> Option<Vec<u8>> {
        let first = usize::try_from(page.first()?).ok()?;
        let entries = self.entries.get(first..first.checked_add(usize::from(page.width))?)?;
        let mut bytes = Vec::new();
        for entry in entries {
            merkle::encode_entry(&mut bytes, entry).ok()?;
        }
        Some(bytes)
    }
}
