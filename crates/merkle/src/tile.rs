//! Tile maths and paths of tlog-tiles, and proofs made from tiles.
//!
//! ```text
//! tile/<L>/<N>[.p/<W>]        256 (or W) consecutive hashes at height 8 L
//! tile/entries/<N>[.p/<W>]    256 (or W) consecutive entries, length-prefixed
//! heads/<N>[.p/<W>]           256 (or W) consecutive signed heads, length-prefixed
//! <N> = 1234067  ->  x001/x234/067
//! ```

use crate::decimal::parse_u64;
use crate::hash::{HASH_LEN, Hash, LeafIndex, TreeSize, node_hash};
use crate::proof::{ProveError, prove_consistency, prove_inclusion};
use crate::source::{HashSource, root_of};
use rs_merkle::{Hasher, MerkleTree};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// Hashes in a full tile, entries in a full bundle, heads in a full page.
pub const TILE_WIDTH: u16 = 256;
/// Tree levels in one tile: 2^8 = 256 hashes side by side.
const TILE_HEIGHT: u8 = 8;
/// The highest tile level that a path can name (tlog-tiles, "Merkle Tree").
const MAX_TILE_LEVEL: u8 = 63;
/// Groups of three digits in the longest index: u64 has at most 20 digits.
const MAX_INDEX_GROUPS: usize = 7;

/// A page of up to 256 things in a row: an entry bundle or a page of heads.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct PageId {
    /// Which page; the first is 0.
    pub index: u64,
    /// How many things are on it: 1 to 256.
    pub width: u16,
}

/// A tile of up to 256 hashes in a row.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct TileId {
    /// Tile level: its hashes are roots of complete subtrees of height 8 × level.
    pub level: u8,
    /// Which tile of that level; the first is 0.
    pub index: u64,
    /// How many hashes it has: 1 to 256.
    pub width: u16,
}

/// A static resource of a tiled log, by its path below the log's prefix.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum ResourcePath {
    /// The newest offered signed head.
    Checkpoint,
    /// A tile of hashes.
    Tile(TileId),
    /// A bundle of entries.
    Entries(PageId),
    /// A page of all heads ever signed.
    Heads(PageId),
}

impl PageId {
    /// The widest page `index` of a sequence of `count` things; `None` when it would be empty.
    pub fn at(index: u64, count: u64) -> Option<PageId> {
        let first = index.checked_mul(u64::from(TILE_WIDTH))?;
        let left = count.checked_sub(first).filter(|left| *left > 0)?;
        Some(PageId { index, width: left.min(u64::from(TILE_WIDTH)) as u16 })
    }

    /// All pages of a sequence of `count` things, in order; the last may be partial.
    pub fn all(count: u64) -> impl Iterator<Item = PageId> {
        (0..count.div_ceil(u64::from(TILE_WIDTH))).filter_map(move |index| PageId::at(index, count))
    }

    /// The place of the first thing on the page; `None` when it does not fit a u64.
    pub fn first(&self) -> Option<u64> {
        self.index.checked_mul(u64::from(TILE_WIDTH))
    }

    /// The page of the same index when it is full.
    pub fn full(&self) -> PageId {
        PageId { width: TILE_WIDTH, ..*self }
    }
}

impl TileId {
    /// The widest tile `index` at `level` in a tree of `size` leaves; `None` when it would be empty.
    pub fn at(level: u8, index: u64, size: TreeSize) -> Option<TileId> {
        let hashes = size.0.checked_shr(u32::from(level) * u32::from(TILE_HEIGHT)).unwrap_or(0);
        PageId::at(index, hashes).map(|page| TileId { level, index, width: page.width })
    }

    /// All tiles of a tree of `size` leaves, level by level; the last of each level may be partial.
    pub fn all(size: TreeSize) -> impl Iterator<Item = TileId> {
        (0..8u8).flat_map(move |level| {
            let hashes = size.0 >> (u32::from(level) * u32::from(TILE_HEIGHT));
            PageId::all(hashes).map(move |page| TileId { level, index: page.index, width: page.width })
        })
    }

    /// The tile of the same place when it is full.
    pub fn full(&self) -> TileId {
        TileId { width: TILE_WIDTH, ..*self }
    }

    /// Bytes in the tile.
    pub fn byte_len(&self) -> usize {
        usize::from(self.width) * HASH_LEN
    }
}

impl ResourcePath {
    /// Parses a path below the log's prefix, without a leading slash; `None` for anything that printing a
    /// resource would not have produced.
    pub fn parse(path: &str) -> Option<ResourcePath> {
        if path == "checkpoint" {
            return Some(ResourcePath::Checkpoint);
        }
        if let Some(page) = path.strip_prefix("tile/entries/") {
            return parse_page(page).map(ResourcePath::Entries);
        }
        if let Some(page) = path.strip_prefix("heads/") {
            return parse_page(page).map(ResourcePath::Heads);
        }
        let (level, page) = path.strip_prefix("tile/")?.split_once('/')?;
        let level = u8::try_from(parse_u64(level)?).ok().filter(|level| *level <= MAX_TILE_LEVEL)?;
        let PageId { index, width } = parse_page(page)?;
        Some(ResourcePath::Tile(TileId { level, index, width }))
    }
}

impl fmt::Display for ResourcePath {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ResourcePath::Checkpoint => out.write_str("checkpoint"),
            ResourcePath::Tile(tile) => tile.fmt(out),
            ResourcePath::Entries(page) => write!(out, "tile/entries/{page}"),
            ResourcePath::Heads(page) => write!(out, "heads/{page}"),
        }
    }
}

impl fmt::Display for TileId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "tile/{}/{}", self.level, PageId { index: self.index, width: self.width })
    }
}

impl fmt::Display for PageId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = self.index.to_string();
        let padded = format!("{digits:0>width$}", width = digits.len().next_multiple_of(3));
        for group in 0..padded.len() / 3 {
            let last = group + 1 == padded.len() / 3;
            let digits = &padded[3 * group..3 * group + 3];
            if last { out.write_str(digits)? } else { write!(out, "x{digits}/")? }
        }
        if self.width < TILE_WIDTH { write!(out, ".p/{}", self.width) } else { Ok(()) }
    }
}

fn parse_page(path: &str) -> Option<PageId> {
    let (index, width) = match path.split_once(".p/") {
        None => (path, TILE_WIDTH),
        Some((index, width)) => (
            index,
            parse_u64(width)
                .and_then(|width| u16::try_from(width).ok())
                .filter(|width| (1..TILE_WIDTH).contains(width))?,
        ),
    };
    let groups: Vec<&str> = index.split('/').collect();
    let (last, leading) = groups.split_last()?;
    if leading.len() >= MAX_INDEX_GROUPS {
        return None;
    }
    let mut number = 0u64;
    let stripped = leading.iter().map(|group| group.strip_prefix('x'));
    for (place, group) in stripped.chain([Some(*last)]).enumerate() {
        let group = group.filter(|group| group.len() == 3 && group.bytes().all(|byte| byte.is_ascii_digit()))?;
        // A group of zeroes in front would be a second spelling of a shorter index.
        if place == 0 && group == "000" && !leading.is_empty() {
            return None;
        }
        number = number.checked_mul(1000)?.checked_add(group.parse().ok()?)?;
    }
    Some(PageId { index: number, width })
}

/// The root of a full tile: one hash of the tile above it. For hashes that were already checked.
pub fn tile_root(hashes: &[Hash; TILE_WIDTH as usize]) -> Hash {
    let leaves: Vec<[u8; HASH_LEN]> = hashes.iter().map(|hash| hash.0).collect();
    Hash(MerkleTree::<Nodes>::from_leaves(&leaves).root().expect("a tree of 256 leaves has a root"))
}

/// RFC 6962 hashing for rs_merkle.
#[derive(Clone)]
struct Nodes;

impl Hasher for Nodes {
    type Hash = [u8; HASH_LEN];

    fn hash(data: &[u8]) -> [u8; HASH_LEN] {
        crate::hash::leaf_hash(data).0
    }

    fn concat_and_hash(left: &[u8; HASH_LEN], right: Option<&[u8; HASH_LEN]>) -> [u8; HASH_LEN] {
        right.map_or(*left, |right| node_hash(&Hash(*left), &Hash(*right)).0)
    }
}

/// Tiles of one tree, as many as somebody fetched. What it knows is worth no more than where it came from.
#[derive(Clone, Debug, Default)]
pub struct TileSet {
    tiles: BTreeMap<(u8, u64), Vec<Hash>>,
}

/// The bytes are not the tile that they were fetched as.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{tile} must have {expected} bytes and has {found}")]
pub struct TileLength {
    /// The tile.
    pub tile: TileId,
    /// Bytes that its width calls for.
    pub expected: usize,
    /// Bytes that came.
    pub found: usize,
}

impl TileSet {
    /// No tiles yet.
    pub fn new() -> TileSet {
        TileSet::default()
    }

    /// Adds the bytes of one tile. The wider of two tiles at one place is kept.
    ///
    /// # Errors
    /// When the bytes are not exactly as many as the tile's width calls for.
    pub fn insert(&mut self, tile: TileId, bytes: &[u8]) -> Result<(), TileLength> {
        let (hashes, rest) = bytes.as_chunks::<HASH_LEN>();
        if !rest.is_empty() || hashes.len() != usize::from(tile.width) {
            return Err(TileLength { tile, expected: tile.byte_len(), found: bytes.len() });
        }
        let held = self.tiles.entry((tile.level, tile.index)).or_default();
        if held.len() < hashes.len() {
            *held = hashes.iter().map(|hash| Hash(*hash)).collect();
        }
        Ok(())
    }
}

impl HashSource for TileSet {
    fn subtree(&self, level: u8, index: u64) -> Option<Hash> {
        let place = TilePlace::of(level, index);
        let tile = self.tiles.get(&(place.level, place.index))?;
        let mut hashes = tile.get(place.first..place.first + place.count)?.to_vec();
        while let [_, _, ..] = hashes.as_slice() {
            hashes = hashes.as_chunks::<2>().0.iter().map(|[left, right]| node_hash(left, right)).collect();
        }
        hashes.first().copied()
    }
}

/// Where a subtree's hashes lie: `count` hashes from `first` on in one tile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TilePlace {
    /// Level of the tile.
    pub level: u8,
    /// Which tile of that level.
    pub index: u64,
    /// Place of the first of the hashes in it.
    pub first: usize,
    /// How many hashes the subtree's root is made of: 1 to 128.
    pub count: usize,
}

impl TilePlace {
    /// The place of the complete subtree over the leaves `[index << level, (index + 1) << level)`.
    pub fn of(level: u8, index: u64) -> TilePlace {
        let inner = level % TILE_HEIGHT;
        let subtrees_a_tile = u64::from(TILE_WIDTH) >> inner;
        let count = 1 << inner;
        TilePlace {
            level: level / TILE_HEIGHT,
            index: index / subtrees_a_tile,
            first: (index % subtrees_a_tile) as usize * count,
            count,
        }
    }
}

/// The tiles that [`root_of`] needs for the root of `size` leaves, taken from a log that has `held` leaves:
/// partial ones as wide as they are there. Empty when `held` is less than `size`.
pub fn tiles_for_root(size: TreeSize, held: TreeSize) -> Vec<TileId> {
    if held < size {
        return Vec::new();
    }
    let needs = Needs::new(held);
    root_of(&needs, size).map(|_| needs.into_tiles()).unwrap_or_default()
}

/// The tiles for [`prove_inclusion`] of `index` in `size`. Empty when there is no such leaf.
pub fn tiles_for_inclusion(index: LeafIndex, size: TreeSize) -> Vec<TileId> {
    let needs = Needs::new(size);
    prove_inclusion(&needs, index, size).map(|_| needs.into_tiles()).unwrap_or_default()
}

/// The tiles for [`prove_consistency`] from `old` to `new`, and for the root at `old` beside it. Empty when `old`
/// is larger than `new`.
pub fn tiles_for_consistency(old: TreeSize, new: TreeSize) -> Vec<TileId> {
    let needs = Needs::new(new);
    let made = prove_consistency(&needs, old, new).and_then(|_| root_of(&needs, old).map_err(ProveError::from));
    made.map(|_| needs.into_tiles()).unwrap_or_default()
}

/// Answers every question with some hash and remembers in which tile the real one lies: proofs are planned by
/// making them.
struct Needs {
    size: TreeSize,
    tiles: RefCell<BTreeSet<TileId>>,
}

impl Needs {
    fn new(size: TreeSize) -> Needs {
        Needs { size, tiles: RefCell::default() }
    }

    fn into_tiles(self) -> Vec<TileId> {
        self.tiles.into_inner().into_iter().collect()
    }
}

impl HashSource for Needs {
    fn subtree(&self, level: u8, index: u64) -> Option<Hash> {
        let place = TilePlace::of(level, index);
        self.tiles.borrow_mut().insert(TileId::at(place.level, place.index, self.size)?);
        Some(Hash([0; HASH_LEN]))
    }
}
