//! A pass over a tiled log: its pages read ahead, the tree over their entries grown, its tiles compared as they fill.
//!
//! One pass, page by page, whatever the size: nothing is kept but the right edge of the tree, one open tile a level
//! and the roots that were asked for. It may go on from where an earlier one stood ([`Edge`]).

use crate::bundle::{BundleSource, MAX_TILE_BYTES, ReadError, read_part};
use crate::tree::{Replayed, Resources, Stopped, TileTally};
use merkle::{Frontier, Hash, PageId, ResourcePath, RootHash, TILE_WIDTH, TileId, TreeSize};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Entries handed on at once: enough to keep a few cores busy with signatures, and so few that what is parsed from them
/// stays in the cache until it is judged.
const CHUNK_ENTRIES: usize = 1024;

/// Bytes of entries at which a chunk is handed on early. A page of the largest entries has as much, so that a chunk
/// never holds more than two of these, and the receipts parsed from it a few times that.
const CHUNK_BYTES: usize = 16 << 20;

/// A page of entries as read.
#[derive(Debug)]
pub(crate) struct Page {
    bytes: Vec<u8>,
    /// Index of the first entry that is to be judged, and its place on the page.
    first: u64,
    skip: usize,
    /// How many are.
    count: usize,
}

impl Page {
    /// The entries that are to be judged, each with its index.
    pub(crate) fn entries(&self) -> Vec<(u64, &[u8])> {
        // It could be read when it was read from the bundle.
        let entries = merkle::decode_entries(&self.bytes).unwrap_or_default();
        (self.first..).zip(entries.into_iter().skip(self.skip).take(self.count)).collect()
    }
}

/// Where a pass over a tiled log stands: all it needs to go on from there, also in a later audit.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Edge {
    /// Entries so far, and the right edge of the tree over them.
    peaks: Vec<Hash>,
    size: u64,
    /// By level: the index of the rightmost tile and its hashes so far.
    open: Vec<(u64, Vec<Hash>)>,
}

impl Edge {
    pub(crate) fn size(&self) -> u64 {
        self.size
    }

    /// The root over the entries so far; `None` if this is no edge of any tree.
    pub(crate) fn root(&self) -> Option<RootHash> {
        Some(Frontier::from_peaks(TreeSize(self.size), self.peaks.clone())?.root())
    }
}

/// A pass over the entries of a tiled log, under way. Pages are read ahead ([`Pass::next_chunk`]); the tree grows by the
/// leaf hashes of their entries, once somebody has computed them ([`Pass::grow`]).
pub(crate) struct Pass<'pass> {
    resources: &'pass Resources,
    bundle: &'pass dyn BundleSource,
    size: u64,
    /// Sizes whose roots are still wanted, ascending.
    wanted: std::iter::Peekable<std::vec::IntoIter<u64>>,
    frontier: Frontier,
    tiles: OpenTiles<'pass>,
    /// Once a page is short, every later hash is at another place than its tile says: from which index on.
    shifted_at: Option<u64>,
    /// The next page to read.
    next_page: u64,
    /// Entries that were there before this pass began.
    began_at: u64,
    replayed: Replayed,
}

impl<'pass> Pass<'pass> {
    /// Goes on from `edge` to `size`. `wanted` are the sizes, ascending, whose roots are asked for; those before the edge
    /// are left out.
    pub(crate) fn begin(
        resources: &'pass Resources,
        bundle: &'pass dyn BundleSource,
        size: u64,
        wanted: &[u64],
        edge: Edge,
    ) -> Pass<'pass> {
        let frontier = Frontier::from_peaks(TreeSize(edge.size), edge.peaks).unwrap_or_default();
        let began_at = frontier.size().0;
        let mut replayed = Replayed { entries: began_at, ..Replayed::default() };
        let wanted: Vec<u64> = wanted.iter().copied().filter(|size| *size >= began_at).collect();
        let mut wanted = wanted.into_iter().peekable();
        while wanted.next_if(|size| *size == began_at).is_some() {
            replayed.roots.insert(began_at, frontier.root());
        }
        Pass {
            resources,
            bundle,
            size,
            wanted,
            frontier,
            tiles: OpenTiles { resources, bundle, size, open: edge.open, tally: TileTally::default() },
            shifted_at: None,
            next_page: began_at / u64::from(TILE_WIDTH),
            began_at,
            replayed,
        }
    }

    /// Entries that were there before it began.
    pub(crate) fn began_at(&self) -> u64 {
        self.began_at
    }

    /// The roots of the tree so far at sizes that were asked for.
    pub(crate) fn roots(&self) -> &BTreeMap<u64, RootHash> {
        &self.replayed.roots
    }

    /// The next pages, in the order of the log: so many that they keep a few cores busy. `None` at the end.
    pub(crate) fn next_chunk(&mut self) -> Result<Option<Vec<Page>>, ReadError> {
        let (mut pages, mut count, mut bytes) = (Vec::new(), 0, 0);
        while count < CHUNK_ENTRIES && bytes < CHUNK_BYTES && self.replayed.stopped.is_none() {
            let Some(page) = PageId::at(self.next_page, self.size) else { break };
            self.next_page += 1;
            if let Some(page) = self.read_page(page)? {
                count += page.count;
                bytes += page.bytes.len();
                pages.push(page);
            }
        }
        Ok((!pages.is_empty()).then_some(pages))
    }

    fn read_page(&mut self, page: PageId) -> Result<Option<Page>, ReadError> {
        let resources = self.resources;
        let path = || resources.path(ResourcePath::Entries(page));
        let (bytes, width) = match resources.read_entries(self.bundle, page, self.size, &mut self.replayed)? {
            Ok(read) => read,
            Err(stopped) => {
                self.replayed.stopped = Some(stopped);
                return Ok(None);
            }
        };
        let Ok(entries) = merkle::decode_entries(&bytes) else {
            self.replayed.stopped = Some(Stopped::Cut(path()));
            return Ok(None);
        };
        if entries.len() < width {
            self.replayed.wrong_pages.add(|| format!("{} holds {} of {width} entries", path(), entries.len()));
        }
        // Of the page that the pass began in, the first entries are known already.
        let known = self.began_at.saturating_sub(page.index.saturating_mul(u64::from(TILE_WIDTH)));
        let skip = usize::try_from(known).unwrap_or(usize::MAX);
        let held = self.tiles.open.first().map(|(_, hashes)| hashes.as_slice()).unwrap_or_default();
        if entries.iter().take(skip).zip(held).any(|(entry, held)| merkle::leaf_hash(entry) != *held) {
            self.replayed.wrong_pages.add(|| format!("{} begins otherwise than in the earlier audit", path()));
        }
        let (first, count) = (self.replayed.entries, entries.len().min(width).saturating_sub(skip));
        self.replayed.entries += count as u64;
        if entries.len() < width {
            self.shifted_at = self.shifted_at.or(Some(self.replayed.entries));
        }
        Ok(Some(Page { bytes, first, skip, count }))
    }

    /// The leaf hash of the next entry.
    pub(crate) fn grow(&mut self, leaf: Hash) -> Result<(), ReadError> {
        if self.shifted_at.is_none_or(|shifted_at| self.frontier.size().0 < shifted_at) {
            self.tiles.push(leaf)?;
        }
        self.frontier.push(leaf);
        while self.wanted.next_if(|size| *size == self.frontier.size().0).is_some() {
            self.replayed.roots.insert(self.frontier.size().0, self.frontier.root());
        }
        Ok(())
    }

    /// What became of it, and where a later pass goes on.
    pub(crate) fn finish(self) -> Result<(Replayed, Edge), ReadError> {
        let Pass { resources, size, frontier, tiles, shifted_at, mut replayed, .. } = self;
        let edge = Edge { peaks: frontier.peaks().to_vec(), size: frontier.size().0, open: tiles.open.clone() };
        replayed.tiles = tiles.close(shifted_at.is_some())?;
        resources.tally_unread(size, &mut replayed.tiles.beyond);
        Ok((replayed, edge))
    }
}

/// The rightmost tile of each level while a tree grows; full ones are compared with the bundle's and closed.
struct OpenTiles<'pass> {
    resources: &'pass Resources,
    bundle: &'pass dyn BundleSource,
    size: u64,
    /// By level: the tile's index and its hashes so far.
    open: Vec<(u64, Vec<Hash>)>,
    tally: TileTally,
}

impl OpenTiles<'_> {
    fn push(&mut self, leaf: Hash) -> Result<(), ReadError> {
        let mut hash = leaf;
        for level in 0.. {
            if self.open.len() == level {
                self.open.push((0, Vec::new()));
            }
            let (index, hashes) = &mut self.open[level];
            hashes.push(hash);
            let Ok(full) = <&[Hash; TILE_WIDTH as usize]>::try_from(hashes.as_slice()) else { break };
            hash = merkle::tile_root(full);
            let (index, hashes) = (std::mem::replace(index, *index + 1), std::mem::take(hashes));
            self.compare(level as u8, index, &hashes)?;
        }
        Ok(())
    }

    /// Compares the partial tiles at the right edge.
    fn close(mut self, shifted: bool) -> Result<TileTally, ReadError> {
        for (level, (index, hashes)) in std::mem::take(&mut self.open).into_iter().enumerate() {
            if !shifted && !hashes.is_empty() {
                self.compare(level as u8, index, &hashes)?;
            }
        }
        Ok(self.tally)
    }

    /// Compares every copy of one tile with its recomputed hashes.
    fn compare(&mut self, level: u8, index: u64, hashes: &[Hash]) -> Result<(), ReadError> {
        let expected = TileId::at(level, index, TreeSize(self.size));
        let widths = self.resources.tiles.get(&(level, index));
        if let Some(expected) = expected {
            let is_there = widths.is_some_and(|widths| widths.range(expected.width..).next().is_some());
            if !is_there {
                self.tally.missing.add(|| self.resources.path(ResourcePath::Tile(expected)));
            }
        }
        for width in widths.into_iter().flatten() {
            let path = self.resources.path(ResourcePath::Tile(TileId { level, index, width: *width }));
            let Some(recomputed) = hashes.get(..usize::from(*width)) else {
                self.tally.beyond.add(|| path);
                continue;
            };
            let bytes = read_part(self.bundle, &path, MAX_TILE_BYTES)?.unwrap_or_default();
            self.tally.compared += 1;
            let (found, rest) = bytes.as_chunks::<32>();
            let same = rest.is_empty() && found.iter().eq(recomputed.iter().map(|hash| &hash.0));
            if !same {
                self.tally.different.add(|| path);
            }
        }
        Ok(())
    }
}
