//! The reading end of a tiled log: what is committed, by path, by index, and as a tree to make proofs from.

use crate::error::StoreError;
use crate::levels::{LevelsReader, StoredTree};
use crate::paged::PagedReader;
use crate::tlog::HeadCheck;
use crate::verify::{Inspection, Stored, verify};
use bytes::Bytes;
use merkle::{Hash, HashSource, LeafIndex, PageId, ResourcePath, TILE_WIDTH, TileId, TreeSize};
use std::sync::{Arc, PoisonError, RwLock};

/// How far the files are published.
#[derive(Clone, Debug)]
pub(crate) struct Published {
    pub(crate) size: TreeSize,
    pub(crate) entries_end: u64,
    pub(crate) heads: u64,
    pub(crate) heads_end: u64,
    pub(crate) latest: Option<Bytes>,
}

/// Reads what is committed. Cheap to clone, and never in the writer's way.
#[derive(Clone, Debug)]
pub struct TlogReader {
    entries: PagedReader,
    levels: LevelsReader,
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

    fn published(&self) -> Published {
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

    /// One entry, or `None` where there is none.
    ///
    /// # Errors
    /// [`StoreError`] when it cannot be read.
    pub fn entry(&self, index: LeafIndex) -> Result<Option<Bytes>, StoreError> {
        let published = self.published();
        let Some(page) = PageId::at(index.0 / u64::from(TILE_WIDTH), published.size.0) else { return Ok(None) };
        let place = (index.0 % u64::from(TILE_WIDTH)) as usize;
        if place >= usize::from(page.width) {
            return Ok(None);
        }
        self.entries.string(page, place, published.entries_end).map(|entry| Some(Bytes::from(entry)))
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
    /// checkpoint that a log offers is the log's to say: for that path this is the newest signed head.
    ///
    /// # Errors
    /// [`StoreError`] when it cannot be read.
    pub fn resource(&self, path: &ResourcePath) -> Result<Option<Bytes>, StoreError> {
        let published = self.published();
        let within =
            |page: &PageId, count: u64| PageId::at(page.index, count).is_some_and(|held| page.width <= held.width);
        let bytes = match path {
            ResourcePath::Checkpoint => return Ok(published.latest),
            ResourcePath::Tile(tile) => {
                let held = TileId::at(tile.level, tile.index, published.size);
                if held.is_some_and(|held| tile.width <= held.width) {
                    self.levels.tile(*tile)?
                } else {
                    return Ok(None);
                }
            }
            ResourcePath::Entries(page) if within(page, published.size.0) => {
                self.entries.page(*page, published.entries_end)?
            }
            ResourcePath::Heads(page) if within(page, published.heads) => {
                self.heads.page(*page, published.heads_end)?
            }
            ResourcePath::Entries(_) | ResourcePath::Heads(_) => return Ok(None),
        };
        Ok(Some(Bytes::from(bytes)))
    }

    /// Everything that is committed, derived again from the entries and compared.
    pub(crate) fn verify(
        &self,
        head_check: HeadCheck<'_>,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Inspection, StoreError> {
        let published = self.published();
        let stored = Stored {
            entries: &self.entries,
            entries_end: published.entries_end,
            levels: &self.levels,
            heads: &self.heads,
            heads_end: published.heads_end,
            size: published.size,
            head_count: published.heads,
        };
        verify(&stored, head_check, progress)
    }

    pub(crate) fn entries_path(&self) -> &std::path::Path {
        self.entries.path()
    }

    pub(crate) fn leaves_path(&self) -> &std::path::Path {
        self.levels.path(0)
    }
}

impl HashSource for TlogReader {
    fn subtree(&self, level: u8, index: u64) -> Option<Hash> {
        StoredTree { levels: &self.levels, size: self.size() }.subtree(level, index)
    }
}
