//! One tiled log mirrored, from the head downwards:
//!
//! ```text
//! head ── tiles at the right edge ── full tiles, each by its hash in the one above ── pages, each by its tile
//! ```
//!
//! So each page and tile is known to be the head's when it arrives, from wherever it comes, and a damaged copy is told
//! from a lying log. Pages come in the order of the log, a few under way at once; what is kept is one tile a level and
//! the right edge of the tree, whatever the log's size.

use super::roots::Roots;
use super::sources::{Broken, Sources, Whence};
use bytes::Bytes;
use futures_util::{StreamExt, stream};
use merkle::{
    Hash, PageId, ResourcePath, RootHash, TILE_WIDTH, TileId, TileSet, TreeSize, root_of, tile_root, tiles_for_root,
};
use service::progress::Progress;
use std::collections::BTreeMap;

/// Pages and tiles under way at once: half of them are pages, which have at most 16 MiB each.
const AT_ONCE: usize = 16;

/// Pages and tiles that are none of the head's, after which no more are asked for: whoever serves these serves garbage,
/// and must not be able to fill the disk with it.
const MAX_WRONG: usize = 16;

/// What came of a mirror.
#[derive(Default)]
pub(super) struct Mirrored {
    /// Entries by where they came from.
    pub(super) counts: Counts,
    /// What was served and should not have been.
    pub(super) faults: Vec<String>,
    /// Copies on this machine that were none of the head's, and have been fetched again: how many, and the first.
    pub(super) repaired: u64,
    pub(super) first_repaired: Option<String>,
}

/// Entries by where they came from, and the bytes of what came over the network.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) held: u64,
    pub(super) taken_over: u64,
    pub(super) fetched: u64,
    pub(super) fetched_bytes: u64,
}

/// The tiles from which the root is made.
pub(super) struct Edge {
    tiles: BTreeMap<TileId, Copied>,
    size: u64,
    /// Whether they make the root that was signed.
    fits: bool,
    /// The first page, where somebody has had a look at it already.
    pub(super) first: Option<(ResourcePath, Copied)>,
}

/// Bytes, and where they came from.
pub(super) type Copied = (Bytes, Whence);

impl Sources<'_> {
    /// The right edge of the tree under a head.
    pub(super) async fn edge(&self, size: u64, root: RootHash) -> Result<Edge, Broken> {
        let mut edge = Edge { tiles: BTreeMap::new(), size, fits: false, first: None };
        for tile in tiles_for_root(TreeSize(size), TreeSize(size)) {
            edge.tiles.insert(tile, self.nearest(ResourcePath::Tile(tile)).await?);
        }
        edge.fits = edge.root() == Some(root);
        if !edge.fits {
            // Some of ours may be damaged.
            for (tile, copy) in edge.tiles.iter_mut().filter(|(_, (_, whence))| *whence != Whence::Server) {
                *copy = (self.served(ResourcePath::Tile(*tile)).await?, Whence::Server);
            }
            edge.fits = edge.root() == Some(root);
        }
        Ok(edge)
    }

    /// Mirrors the tree of which this is the edge. `what` are its entries called while they are counted.
    pub(super) async fn mirror(
        &self,
        edge: &Edge,
        what: &'static str,
        roots: &mut Roots<'_>,
    ) -> Result<Mirrored, Broken> {
        let mut mirror = Mirror { sources: self, size: edge.size, wrong: 0, mirrored: Mirrored::default() };
        if !edge.fits {
            let fault = format!("the tiles that are served do not make the head of size {}", edge.size);
            mirror.mirrored.faults.push(fault);
        }
        roots.start()?;
        let progress = Progress::new(edge.size, what);
        // By level, the hashes of the tile that is being gone through.
        let mut open: [Vec<Hash>; 9] = Default::default();
        let obtain = |step: ResourcePath| async move {
            let at_hand = match step {
                ResourcePath::Tile(tile) => edge.tiles.get(&tile).cloned(),
                page => edge.first.as_ref().filter(|(first, _)| *first == page).map(|(_, copy)| copy.clone()),
            };
            match at_hand {
                Some(copy) => (step, Ok(copy)),
                None => (step, self.nearest(step).await),
            }
        };
        let mut steps = stream::iter(steps(edge.size)).map(obtain).buffered(AT_ONCE);
        while let Some((step, copy)) = steps.next().await {
            match step {
                ResourcePath::Tile(tile) => {
                    let is_edge = edge.tiles.contains_key(&tile);
                    let above = open[usize::from(tile.level) + 1].get((tile.index % u64::from(TILE_WIDTH)) as usize);
                    // What is wrong with the edge has been said once, for all of it.
                    let fits = |bytes: &[u8]| is_edge || above.is_some_and(|above| is_under(bytes, *above));
                    let (bytes, whence) = mirror.settle(step, copy?, fits).await?;
                    open[usize::from(tile.level)] = hashes(&bytes);
                    mirror.count_bytes(&bytes, whence);
                }
                page => {
                    let mut leaves = Vec::new();
                    let fits = |bytes: &[u8]| {
                        leaves = leaves_of(bytes);
                        leaves == open[0]
                    };
                    let (bytes, whence) = mirror.settle(page, copy?, fits).await?;
                    let counts = &mut mirror.mirrored.counts;
                    *match whence {
                        Whence::Held => &mut counts.held,
                        Whence::Earlier => &mut counts.taken_over,
                        Whence::Server => &mut counts.fetched,
                    } += leaves.len() as u64;
                    mirror.count_bytes(&bytes, whence);
                    progress.advance(leaves.len() as u64);
                    leaves.into_iter().try_for_each(|leaf| roots.push(leaf))?;
                }
            }
            if mirror.wrong == MAX_WRONG {
                mirror.mirrored.faults.push(String::from("the rest was left there; ask the log's operator"));
                break;
            }
        }
        if mirror.wrong == 0 {
            mirror.mirrored.faults.extend(roots.faults());
        }
        Ok(mirror.mirrored)
    }
}

/// A mirror under way.
struct Mirror<'mirror> {
    sources: &'mirror Sources<'mirror>,
    size: u64,
    wrong: usize,
    mirrored: Mirrored,
}

impl Mirror<'_> {
    /// Takes the copy that fits, the log's own where that on this machine does not, and puts it in place.
    async fn settle(
        &mut self,
        resource: ResourcePath,
        copy: Copied,
        mut fits: impl FnMut(&[u8]) -> bool,
    ) -> Result<Copied, Broken> {
        let (mut bytes, mut whence) = copy;
        let mut is_good = fits(&bytes);
        let path = self.sources.path(resource);
        if !is_good && whence != Whence::Server {
            let ours = std::mem::replace(&mut bytes, self.sources.served(resource).await?);
            is_good = fits(&bytes);
            if is_good {
                self.mirrored.repaired += 1;
                self.mirrored.first_repaired.get_or_insert_with(|| path.clone());
                whence = Whence::Server;
            } else {
                // Neither is the head's; what is held stays.
                bytes = if whence == Whence::Held { ours } else { bytes };
            }
        }
        if !is_good {
            self.wrong += 1;
            let what = if matches!(resource, ResourcePath::Tile(_)) { "its hashes" } else { "its entries" };
            let fault = format!("{path}: {what} are not those its head of size {} was signed over", self.size);
            self.mirrored.faults.push(fault);
        }
        let dir = self.sources.dir;
        match (whence, self.sources.earlier) {
            (Whence::Held, _) => {}
            (Whence::Earlier, Some(earlier)) if is_good => dir.take_over(earlier, &path, &bytes)?,
            _ if is_good || !dir.holds(&path)? => dir.write(&path, &bytes)?,
            _ => {}
        }
        if is_good {
            self.mirrored.faults.extend(dir.tidy(&path, &bytes)?);
        }
        Ok((bytes, whence))
    }

    fn count_bytes(&mut self, bytes: &[u8], whence: Whence) {
        if whence == Whence::Server {
            self.mirrored.counts.fetched_bytes += bytes.len() as u64;
        }
    }
}

/// All tiles and pages of a tree, in the order of the log: before each page the tiles that begin there, highest first.
fn steps(size: u64) -> impl Iterator<Item = ResourcePath> {
    PageId::all(size).flat_map(move |page| {
        let begins_here = move |level: u8| {
            let pages = 1u64 << (8 * level);
            let tile = TileId::at(level, page.index / pages, TreeSize(size));
            tile.filter(|_| page.index.is_multiple_of(pages)).map(ResourcePath::Tile)
        };
        (0..8u8).rev().filter_map(begins_here).chain([ResourcePath::Entries(page)])
    })
}

impl Edge {
    fn root(&self) -> Option<RootHash> {
        let mut set = TileSet::new();
        for (tile, (bytes, _)) in &self.tiles {
            set.insert(*tile, bytes).ok()?;
        }
        root_of(&set, TreeSize(self.size)).ok()
    }
}

fn hashes(tile: &[u8]) -> Vec<Hash> {
    tile.as_chunks::<32>().0.iter().map(|hash| Hash(*hash)).collect()
}

fn leaves_of(page: &[u8]) -> Vec<Hash> {
    merkle::decode_entries(page).unwrap_or_default().into_iter().map(merkle::leaf_hash).collect()
}

/// Whether a tile is the full one that this hash stands for.
fn is_under(tile: &[u8], hash: Hash) -> bool {
    <[Hash; TILE_WIDTH as usize]>::try_from(hashes(tile)).is_ok_and(|hashes| tile_root(&hashes) == hash)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_tile_and_page_is_gone_through_once_and_under_one_that_was() {
        for size in [0, 1, 255, 256, 257, 600, 65_535, 65_536, 65_537, 200_000] {
            let all: Vec<ResourcePath> = steps(size).collect();
            let distinct: BTreeSet<ResourcePath> = all.iter().copied().collect();
            assert_eq!(distinct.len(), all.len());
            let expected: BTreeSet<ResourcePath> = TileId::all(TreeSize(size))
                .map(ResourcePath::Tile)
                .chain(PageId::all(size).map(ResourcePath::Entries))
                .collect();
            assert_eq!(distinct, expected, "{size}");
            let edge = tiles_for_root(TreeSize(size), TreeSize(size));
            let mut open = [None; 9];
            for step in all {
                match step {
                    ResourcePath::Tile(tile) => {
                        let is_under =
                            tile.width == TILE_WIDTH && open[usize::from(tile.level) + 1] == Some(tile.index / 256);
                        assert!(edge.contains(&tile) || is_under, "{size}: {tile}");
                        open[usize::from(tile.level)] = Some(tile.index);
                    }
                    ResourcePath::Entries(page) => assert_eq!(open[0], Some(page.index)),
                    _ => panic!("{step}"),
                }
            }
        }
    }
}
