//! The reading end of a tiled log: what is committed, by path, by index, and as a tree to make proofs from.

use crate::error::StoreError;
use crate::levels::{LevelsReader, StoredTree};
use crate::paged::PagedReader;
use crate::tlog::HeadCheck;
use crate::verify::{Inspection, Stored, verify};
use bytes::Bytes;
use merkle::{Hash, HashSource, LeafIndex, PageId, ResourcePath, RootHash, TILE_WIDTH, TileId, TreeSize};
use std::sync::{Arc, PoisonError, RwLock};

/// How far the files are published.
#[derive(Clone, Debug)]
pub(crate) struct Published {
    pub(crate) size: TreeSize,
    /// The root at that size, as it was signed.
    pub(crate) root: RootHash,
    pub(crate) entries_end: u64,
    pub(crate) heads: u64,
    pub(crate) heads_end: u64,
    pub(crate) latest: Option<Bytes>,
}

/// Reads what is committed. Cheap to clone, and never in the writer's way.
#[derive(Clone, Debug)]
pub struct TlogReader {
    pub(crate) entries: PagedReader,
    pub(crate) levels: LevelsReader,
    heads: PagedReader,
    published: Arc<RwLock<Published>>,
}

impl TlogReader {
    pub(crate) fn new(
        entries: PagedReader,
        levels: LevelsReader,
        heads: PagedReader,
        published: Published,
    ) -> TlogReader {
        TlogReader { entries, levels, heads, published: Arc::new(RwLock::new(published)) }
    }

    pub(crate) fn publish(&self, published: Published) {
        *self.published.write().unwrap_or_else(PoisonError::into_inner) = published;
    }

    pub(crate) fn published(&self) -> Published {
        self.published.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// How many entries are committed.
    pub fn size(&self) -> TreeSize {
        self.published().size
    }

    /// How many heads were signed.
    pub fn head_count(&self) -> u64 {
        self.published().heads
    }

    /// The newest signed head, whole; `None` before the first.
    pub fn latest_head(&self) -> Option<Bytes> {
        self.published().latest
    }

    /// One entry, or `None` where there is none. Its bytes are compared with its leaf hash.
    ///
    /// # Errors
    /// [`StoreError`] when it cannot be read; [`StoreError::Damaged`] when the two disagree.
    pub fn entry(&self, index: LeafIndex) -> Result<Option<Bytes>, StoreError> {
        let published = self.published();
        let Some(page) = PageId::at(index.0 / u64::from(TILE_WIDTH), published.size.0) else { return Ok(None) };
        let place = (index.0 % u64::from(TILE_WIDTH)) as usize;
        if place >= usize::from(page.width) {
            return Ok(None);
        }
        self.sound_entry(page, place, &published).map(|entry| Some(Bytes::from(entry)))
    }

    /// The leaf hash of one entry, or `None` where there is none.
    ///
    /// # Errors
    /// [`StoreError`] when it cannot be read.
    pub fn leaf(&self, index: LeafIndex) -> Result<Option<Hash>, StoreError> {
        if index.0 >= self.size().0 { Ok(None) } else { Ok(self.levels.hashes(0, index.0, 1)?.first().copied()) }
    }

    /// The leaf hashes from `first` on, at most `count`.
    ///
    /// # Errors
    /// [`StoreError`] when they cannot be read.
    pub fn leaves(&self, first: LeafIndex, count: usize) -> Result<Vec<Hash>, StoreError> {
        let left = self.size().0.saturating_sub(first.0);
        self.levels.hashes(0, first.0, count.min(usize::try_from(left).unwrap_or(count)))
    }

    /// One tile, bundle or page of heads, as wide as the path says; `None` where so much is not committed. The
    /// checkpoint that a log offers is the log's to say: for that path this is the newest signed head. Entries are
    /// compared with their hashes, tiles with what is above them.
    ///
    /// # Errors
    /// [`StoreError`] when it cannot be read; [`StoreError::Damaged`] when it is not what was signed over.
    pub fn resource(&self, path: &ResourcePath) -> Result<Option<Bytes>, StoreError> {
        let published = self.published();
        let within =
            |page: &PageId, count: u64| PageId::at(page.index, count).is_some_and(|held| page.width <= held.width);
        let bytes = match path {
            ResourcePath::Checkpoint => return Ok(published.latest),
            ResourcePath::Tile(tile) => {
                let held = TileId::at(tile.level, tile.index, published.size);
                if held.is_some_and(|held| tile.width <= held.width) {
                    self.sound_tile(*tile, &published)?
                } else {
                    return Ok(None);
                }
            }
            ResourcePath::Entries(page) if within(page, published.size.0) => self.sound_bundle(*page, &published)?,
            ResourcePath::Heads(page) if within(page, published.heads) => {
                self.heads.page(*page, published.heads_end)?
            }
            ResourcePath::Entries(_) | ResourcePath::Heads(_) => return Ok(None),
        };
        Ok(Some(Bytes::from(bytes)))
    }

    /// How many bytes a resource of this width has; what a checkpoint has is not known before it is read.
    pub(crate) fn byte_len(&self, path: &ResourcePath) -> u64 {
        let published = self.published();
        match path {
            ResourcePath::Checkpoint => 0,
            ResourcePath::Tile(tile) => tile.byte_len() as u64,
            ResourcePath::Entries(page) => self.entries.byte_len(*page, published.entries_end),
            ResourcePath::Heads(page) => self.heads.byte_len(*page, published.heads_end),
        }
    }

    /// Everything that is committed, derived again from the entries and compared.
    pub(crate) fn verify(
        &self,
        head_check: HeadCheck<'_>,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Inspection, StoreError> {
        verify(&self.stored(), head_check, progress)
    }

    /// The files, as far as they are published now.
    pub(crate) fn stored(&self) -> Stored<'_> {
        let published = self.published();
        Stored {
            entries: &self.entries,
            entries_end: published.entries_end,
            levels: &self.levels,
            heads: &self.heads,
            heads_end: published.heads_end,
            size: published.size,
            head_count: published.heads,
            root: published.root,
        }
    }

    pub(crate) fn entries_path(&self) -> &std::path::Path {
        self.entries.path()
    }
}

impl HashSource for TlogReader {
    fn subtree(&self, level: u8, index: u64) -> Option<Hash> {
        StoredTree { levels: &self.levels, size: self.size() }.subtree(level, index)
    }
}
