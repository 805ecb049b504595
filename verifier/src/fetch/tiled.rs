//! One tiled log mirrored: entries page by page, the tree over them recomputed, every tile compared with it.

use super::bundle_dir::{BundleDir, MAX_PAGE_BYTES};
use crate::failure::Failure;
use bytes::Bytes;
use client::{FetchError, LogClient};
use futures_util::{StreamExt, stream};
use merkle::{HashSource, MemoryTree, PageId, ResourcePath, RootHash, TILE_WIDTH, TileId, TreeSize, root_of};
use service::progress::Progress;

/// Pages and tiles asked for at once.
const AT_ONCE: usize = 4;

/// Where a tiled log comes from and where it goes.
pub(super) struct Mirror<'fetch> {
    pub(super) client: &'fetch LogClient,
    pub(super) dir: &'fetch BundleDir,
    /// In front of every path: `log/`, `witness/<name>/journal/`.
    pub(super) prefix: String,
    /// What its entries are called while they are counted.
    pub(super) what: &'static str,
}

/// A mirrored log.
pub(super) struct Mirrored {
    tree: MemoryTree,
    /// What it served and should not have.
    pub(super) faults: Vec<String>,
}

impl Mirrored {
    /// The recomputed root at a size, if the entries reach there.
    pub(super) fn root(&self, size: u64) -> Option<RootHash> {
        if size > self.tree.size().0 {
            return None;
        }
        root_of(&self.tree, TreeSize(size)).ok()
    }
}

impl Mirror<'_> {
    /// Mirrors the tree of `size`. The inner error is the server's.
    pub(super) async fn run(&self, size: u64) -> Result<Result<Mirrored, FetchError>, Failure> {
        let mut mirrored = Mirrored { tree: MemoryTree::new(), faults: Vec::new() };
        let progress = Progress::new(size, self.what);
        let mut pages =
            stream::iter(PageId::all(size)).map(|page| async move { (page, self.page(page).await) }).buffered(AT_ONCE);
        while let Some((page, fetched)) = pages.next().await {
            let (entries, is_new) = match fetched? {
                Ok(fetched) => fetched,
                Err(error) => return Ok(Err(error)),
            };
            let mut bytes = Vec::new();
            for entry in &entries {
                mirrored.tree.push(merkle::leaf_hash(entry));
                // An entry came out of such a page, so that it fits one.
                let _ = merkle::encode_entry(&mut bytes, entry);
            }
            if is_new {
                mirrored.faults.extend(self.put(ResourcePath::Entries(page), &bytes)?);
            }
            progress.advance(entries.len() as u64);
        }
        drop(pages);
        match self.tiles(size, &mut mirrored).await? {
            Ok(()) => Ok(Ok(mirrored)),
            Err(error) => Ok(Err(error)),
        }
    }

    /// The entries of a page, and whether they have to be written.
    async fn page(&self, page: PageId) -> Result<Result<(Vec<Bytes>, bool), FetchError>, Failure> {
        let path = ResourcePath::Entries(page);
        if page == page.full()
            && let Some(held) = self.dir.read(&format!("{}{path}", self.prefix), MAX_PAGE_BYTES)?
            && let Ok(entries) = merkle::decode_entries(&held)
            && entries.len() == usize::from(TILE_WIDTH)
        {
            return Ok(Ok((entries.into_iter().map(Bytes::copy_from_slice).collect(), false)));
        }
        Ok(self.client.page(&path).await.map(|entries| (entries, true)))
    }

    async fn tiles(&self, size: u64, mirrored: &mut Mirrored) -> Result<Result<(), FetchError>, Failure> {
        let mut tiles = stream::iter(TileId::all(TreeSize(size)))
            .map(|tile| async move { (tile, self.tile(tile).await) })
            .buffered(AT_ONCE);
        while let Some((tile, fetched)) = tiles.next().await {
            let (bytes, is_new) = match fetched? {
                Ok(fetched) => fetched,
                Err(error) => return Ok(Err(error)),
            };
            if !is_of_tree(tile, &bytes, &mirrored.tree) {
                mirrored.faults.push(format!("{tile} differs from the entries"));
            }
            if is_new {
                mirrored.faults.extend(self.put(ResourcePath::Tile(tile), &bytes)?);
            }
        }
        Ok(Ok(()))
    }

    async fn tile(&self, tile: TileId) -> Result<Result<(Bytes, bool), FetchError>, Failure> {
        if tile == tile.full()
            && let Some(held) =
                self.dir.read(&format!("{}{}", self.prefix, ResourcePath::Tile(tile)), tile.byte_len() as u64)?
            && held.len() == tile.byte_len()
        {
            return Ok(Ok((Bytes::from(held), false)));
        }
        Ok(self.client.tile(tile).await.map(|bytes| (bytes, true)))
    }

    /// Writes a page or tile, unless other bytes are held in its place: that is a fault.
    fn put(&self, resource: ResourcePath, bytes: &[u8]) -> Result<Vec<String>, Failure> {
        self.dir.put_immutable(&format!("{}{resource}", self.prefix), bytes)
    }
}

fn is_of_tree(tile: TileId, bytes: &[u8], tree: &MemoryTree) -> bool {
    let (hashes, rest) = bytes.as_chunks::<32>();
    let first = tile.index.saturating_mul(u64::from(TILE_WIDTH));
    let recomputed = (first..).map(|place| tree.subtree(tile.level * 8, place).map(|hash| hash.0));
    rest.is_empty() && hashes.iter().copied().map(Some).eq(recomputed.take(usize::from(tile.width)))
}
