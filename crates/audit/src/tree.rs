//! Which resources of a tiled log a bundle holds, by their paths, and what a pass over them ([`crate::pass`]) tells. Used for
//! the log and for each witness's journal.

use crate::bundle::{BundleSource, MAX_PAGE_BYTES, MAX_TILE_BYTES, ReadError, read_part};
use crate::pass::{Edge, Page, Pass};
use merkle::{PageId, ResourcePath, RootHash, TILE_WIDTH, TileId, TileSet, TreeSize};
use std::collections::{BTreeMap, BTreeSet};

/// Most paths that a tally names. The rest are counted.
const MAX_NAMED: usize = 8;

/// Which resources of one tiled log a bundle holds.
#[derive(Debug, Default)]
pub(crate) struct Resources {
    /// In front of every path: `log/`, `witness/<name>/journal/`.
    prefix: String,
    entries: BTreeMap<u64, BTreeSet<u16>>,
    heads: BTreeMap<u64, BTreeSet<u16>>,
    pub(crate) tiles: BTreeMap<(u8, u64), BTreeSet<u16>>,
}

/// What became of the pass over a tiled log.
#[derive(Debug, Default)]
pub(crate) struct Replayed {
    /// Entries read, from the first on.
    pub(crate) entries: u64,
    /// Recomputed roots at the sizes asked for, as far as the entries reach.
    pub(crate) roots: BTreeMap<u64, RootHash>,
    /// Why it ended before the size asked for.
    pub(crate) stopped: Option<Stopped>,
    /// Pages that do not hold what their path says.
    pub(crate) wrong_pages: Tally,
    pub(crate) tiles: TileTally,
}

impl Replayed {
    /// Whether all entries and tiles were there and are what their paths say.
    pub(crate) fn is_whole(&self) -> bool {
        let tiles = self.tiles.different.count + self.tiles.missing.count;
        self.stopped.is_none() && self.wrong_pages.count == 0 && tiles == 0
    }
}

/// Where the entries end too early.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Stopped {
    /// The page is not in the bundle.
    Missing(String),
    /// The page ends inside an entry.
    Cut(String),
}

/// What the comparison of tiles found.
#[derive(Debug, Default)]
pub(crate) struct TileTally {
    pub(crate) compared: u64,
    pub(crate) different: Tally,
    pub(crate) missing: Tally,
    /// Reach beyond the entries.
    pub(crate) beyond: Tally,
}

/// A count with its first few names.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) count: u64,
    pub(crate) named: Vec<String>,
}

impl Tally {
    pub(crate) fn add(&mut self, name: impl FnOnce() -> String) {
        self.count += 1;
        if self.named.len() < MAX_NAMED {
            self.named.push(name());
        }
    }

    /// `a, b and 3 more`.
    pub(crate) fn show(&self) -> String {
        let more = self.count - self.named.len() as u64;
        match more {
            0 => self.named.join(", "),
            more => format!("{} and {more} more", self.named.join(", ")),
        }
    }
}

impl Resources {
    /// Those below `prefix`, among all paths of a bundle.
    pub(crate) fn below(prefix: &str, paths: &[String]) -> Resources {
        let mut resources = Resources { prefix: prefix.to_owned(), ..Resources::default() };
        for path in paths {
            let Some(rest) = path.strip_prefix(prefix) else { continue };
            let widths = match ResourcePath::parse(rest) {
                Some(ResourcePath::Checkpoint) => continue,
                Some(ResourcePath::Entries(page)) => (resources.entries.entry(page.index).or_default(), page.width),
                Some(ResourcePath::Heads(page)) => (resources.heads.entry(page.index).or_default(), page.width),
                Some(ResourcePath::Tile(tile)) => {
                    (resources.tiles.entry((tile.level, tile.index)).or_default(), tile.width)
                }
                // Told in `members`.
                None => continue,
            };
            widths.0.insert(widths.1);
        }
        resources
    }

    /// The path of a resource in the bundle.
    pub(crate) fn path(&self, resource: ResourcePath) -> String {
        format!("{}{resource}", self.prefix)
    }

    /// How many heads the listed pages hold, without a gap from the first on, and whether pages follow beyond that.
    pub(crate) fn heads_listed(&self) -> (u64, bool) {
        let mut count = 0;
        for (place, (index, widths)) in (0u64..).zip(&self.heads) {
            if *index != place || count != place * u64::from(TILE_WIDTH) {
                return (count, true);
            }
            count += widths.last().copied().map_or(0, u64::from);
        }
        (count, false)
    }

    /// The bytes of a page of heads among `count`, which [`Resources::heads_listed`] answered.
    pub(crate) fn read_heads(&self, bundle: &dyn BundleSource, page: PageId) -> Result<Option<Vec<u8>>, ReadError> {
        read_part(bundle, &self.path(ResourcePath::Heads(page)), MAX_PAGE_BYTES)
    }

    /// Other widths of a page of heads than the one given: copies that an earlier fetch left.
    pub(crate) fn other_heads(&self, page: PageId) -> impl Iterator<Item = PageId> {
        let widths = self.heads.get(&page.index).into_iter().flatten();
        widths.filter(move |width| **width != page.width).map(move |width| PageId { width: *width, ..page })
    }

    /// The tiles of a tree of `size`, where the bundle has them, as wide as they are.
    pub(crate) fn tile_at(&self, tile: TileId) -> Option<TileId> {
        let widest = *self.tiles.get(&(tile.level, tile.index))?.last()?;
        (widest >= tile.width).then_some(TileId { width: widest, ..tile })
    }

    /// These tiles, as far as the bundle has them. A tile of the wrong length is as good as none, and is reported where
    /// tiles are compared.
    pub(crate) fn read_tiles(
        &self,
        bundle: &dyn BundleSource,
        wanted: impl IntoIterator<Item = TileId>,
    ) -> Result<TileSet, ReadError> {
        let mut tiles = TileSet::new();
        for tile in wanted.into_iter().filter_map(|tile| self.tile_at(tile)) {
            let bytes = read_part(bundle, &self.path(ResourcePath::Tile(tile)), MAX_TILE_BYTES)?.unwrap_or_default();
            let _ = tiles.insert(tile, &bytes);
        }
        Ok(tiles)
    }

    /// The page of entries at `index` that [`Resources::replay`] reads for a tree of `size`.
    pub(crate) fn entries_page(&self, index: u64, size: u64) -> Option<PageId> {
        let page = PageId::at(index, size)?;
        let widths = self.entries.get(&index)?;
        let width = *widths.range(page.width..).next().or(widths.last())?;
        Some(PageId { width, ..page })
    }

    /// Reads the entries of a tree of `size` in one go, and recomputes it. `each` is told of every entry, with its index.
    pub(crate) fn replay(
        &self,
        bundle: &dyn BundleSource,
        size: u64,
        wanted: &[u64],
        each: &mut dyn FnMut(u64, &[u8]),
    ) -> Result<Replayed, ReadError> {
        let mut pass = Pass::begin(self, bundle, size, wanted, Edge::default());
        while let Some(pages) = pass.next_chunk()? {
            for (index, entry) in pages.iter().flat_map(Page::entries) {
                pass.grow(merkle::leaf_hash(entry))?;
                each(index, entry);
            }
        }
        Ok(pass.finish()?.0)
    }

    /// Pages and tiles, or ends of pages, that belong to no tree of `size`: nothing looks at them.
    pub(crate) fn tally_unread(&self, size: u64, beyond: &mut Tally) {
        for (index, widths) in &self.entries {
            let width = PageId::at(*index, size).map_or(0, |page| page.width);
            for width in widths.range(width.saturating_add(1)..) {
                beyond.add(|| self.path(ResourcePath::Entries(PageId { index: *index, width: *width })));
            }
        }
        for ((level, index), widths) in &self.tiles {
            // A wider tile at the right edge was tallied where it was compared.
            if TileId::at(*level, *index, TreeSize(size)).is_none() {
                for width in widths {
                    let tile = TileId { level: *level, index: *index, width: *width };
                    beyond.add(|| self.path(ResourcePath::Tile(tile)));
                }
            }
        }
    }

    /// A page of entries and how many entries of it belong to the tree; from a wider page where the exact one is not
    /// there, from a narrower one where there is no other.
    #[allow(clippy::type_complexity)] // Two kinds of failure: the bundle cannot be read, or does not have the page.
    pub(crate) fn read_entries(
        &self,
        bundle: &dyn BundleSource,
        page: PageId,
        size: u64,
        replayed: &mut Replayed,
    ) -> Result<Result<(Vec<u8>, usize), Stopped>, ReadError> {
        let missing = || Stopped::Missing(self.path(ResourcePath::Entries(page)));
        let Some(chosen) = self.entries_page(page.index, size) else { return Ok(Err(missing())) };
        let width = chosen.width;
        let Some(bytes) = read_part(bundle, &self.path(ResourcePath::Entries(chosen)), MAX_PAGE_BYTES)? else {
            return Ok(Err(missing()));
        };
        if merkle::decode_entries(&bytes).is_ok_and(|entries| entries.len() > usize::from(width)) {
            replayed
                .wrong_pages
                .add(|| format!("{} holds more entries than its path says", self.path(ResourcePath::Entries(chosen))));
        }
        for other in self.entries.get(&page.index).into_iter().flatten().filter(|other| **other != width) {
            let path = self.path(ResourcePath::Entries(PageId { width: *other, ..page }));
            let same = read_part(bundle, &path, MAX_PAGE_BYTES)?
                .is_some_and(|copy| (copy.starts_with(&bytes) || bytes.starts_with(&copy)) && holds(&copy, *other));
            if !same {
                replayed.wrong_pages.add(|| {
                    format!("{path} differs from the wider page, or does not hold as many entries as its path says")
                });
            }
        }
        Ok(Ok((bytes, usize::from(page.width))))
    }
}

/// Whether a page holds as many entries as its path says.
pub(crate) fn holds(page: &[u8], width: u16) -> bool {
    merkle::decode_entries(page).is_ok_and(|entries| entries.len() == usize::from(width))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;
    use crate::bundle::MemoryBundle;
    use merkle::{HashSource, MemoryTree};

    /// A tiled log of `size` entries `0`, `1` and so on below `log/`.
    fn log_of(size: u64) -> (MemoryBundle, MemoryTree) {
        let mut bundle = MemoryBundle::new();
        let mut tree = MemoryTree::new();
        for index in 0..size {
            tree.push(merkle::leaf_hash(index.to_string().as_bytes()));
        }
        for page in PageId::all(size) {
            let mut bytes = Vec::new();
            let first = page.first().unwrap();
            for index in first..first + u64::from(page.width) {
                merkle::encode_entry(&mut bytes, index.to_string().as_bytes()).unwrap();
            }
            bundle.insert(format!("log/{}", ResourcePath::Entries(page)), bytes);
        }
        for tile in TileId::all(TreeSize(size)) {
            let first = tile.index * 256;
            let hashes =
                (first..first + u64::from(tile.width)).flat_map(|place| tree.subtree(tile.level * 8, place).unwrap().0);
            bundle.insert(format!("log/{}", ResourcePath::Tile(tile)), hashes.collect::<Vec<u8>>());
        }
        (bundle, tree)
    }

    fn replay(bundle: &MemoryBundle, size: u64, wanted: &[u64]) -> (Replayed, Vec<u64>) {
        let mut indices = Vec::new();
        let resources = Resources::below("log/", &bundle.list());
        (resources.replay(bundle, size, wanted, &mut |index, _| indices.push(index)).unwrap(), indices)
    }

    #[test]
    fn every_root_and_every_tile_of_a_whole_log_is_reproduced() {
        for size in [0, 1, 255, 256, 257, 600] {
            let (bundle, tree) = log_of(size);
            let (replayed, indices) = replay(&bundle, size, &[0, size]);
            assert_eq!(replayed.roots[&size], tree.root());
            assert_eq!((replayed.entries, replayed.stopped.clone(), replayed.wrong_pages.count), (size, None, 0));
            assert_eq!(indices, (0..size).collect::<Vec<_>>());
            assert_eq!(
                (replayed.tiles.different.count, replayed.tiles.missing.count, replayed.tiles.beyond.count),
                (0, 0, 0)
            );
            assert_eq!(replayed.tiles.compared, TileId::all(TreeSize(size)).count() as u64);
        }
    }

    #[test]
    fn a_smaller_tree_is_read_from_wider_pages() {
        let (bundle, _) = log_of(600);
        let (_, small) = log_of(300);
        let (replayed, indices) = replay(&bundle, 300, &[300]);
        assert_eq!((replayed.roots[&300], indices.len(), replayed.stopped), (small.root(), 300, None));
    }

    #[test]
    fn a_changed_tile_is_named_at_any_level() {
        for path in ["log/tile/0/000", "log/tile/0/002.p/88", "log/tile/1/000.p/2"] {
            let (mut bundle, _) = log_of(600);
            let mut bytes = bundle.get(path).unwrap().to_vec();
            bytes[17] ^= 1;
            bundle.insert(path, bytes);
            let (replayed, _) = replay(&bundle, 600, &[]);
            assert_eq!(replayed.tiles.different, Tally { count: 1, named: vec![path.to_owned()] });
            bundle.remove(path);
            let (replayed, _) = replay(&bundle, 600, &[]);
            assert_eq!(replayed.tiles.missing, Tally { count: 1, named: vec![path.to_owned()] });
        }
    }

    #[test]
    fn a_missing_page_a_cut_page_and_a_short_page_are_told_apart() {
        let (mut bundle, _) = log_of(600);
        let page = bundle.remove("log/tile/entries/001").unwrap();
        let (replayed, _) = replay(&bundle, 600, &[256, 600]);
        assert_eq!(replayed.stopped, Some(Stopped::Missing(String::from("log/tile/entries/001"))));
        assert_eq!((replayed.entries, replayed.roots.len()), (256, 1));

        bundle.insert("log/tile/entries/001", &page[..page.len() - 1]);
        let (replayed, _) = replay(&bundle, 600, &[]);
        assert_eq!(replayed.stopped, Some(Stopped::Cut(String::from("log/tile/entries/001"))));

        bundle.insert("log/tile/entries/001", &page[..page.len() - 5]);
        let (replayed, indices) = replay(&bundle, 600, &[600]);
        assert_eq!(
            (replayed.entries, replayed.wrong_pages.count, replayed.stopped, replayed.roots.len()),
            (599, 1, None, 0)
        );
        assert_eq!(indices.len(), 599);
    }

    #[test]
    fn an_old_copy_of_a_page_must_agree_with_the_wide_one() {
        let (mut bundle, _) = log_of(600);
        let (small, _) = log_of(300);
        let old = "log/tile/entries/001.p/44";
        bundle.insert(old, small.get(old).unwrap());
        assert_eq!(replay(&bundle, 600, &[]).0.wrong_pages.count, 0);
        let mut bytes = small.get(old).unwrap().to_vec();
        *bytes.last_mut().unwrap() ^= 1;
        bundle.insert(old, bytes);
        assert_eq!(replay(&bundle, 600, &[]).0.wrong_pages.count, 1);
    }

    #[test]
    fn a_copy_of_a_page_must_hold_as_many_entries_as_its_path_says() {
        for width in [1, 87, 89, 255] {
            let (mut bundle, _) = log_of(600);
            let page = bundle.get("log/tile/entries/002.p/88").unwrap().to_vec();
            bundle.insert(format!("log/tile/entries/002.p/{width}"), page);
            assert_eq!(replay(&bundle, 600, &[]).0.wrong_pages.count, 1, "{width}");
        }
    }

    #[test]
    fn a_size_that_no_bundle_holds_ends_at_the_first_missing_page() {
        let (bundle, _) = log_of(3);
        let (replayed, _) = replay(&bundle, u64::MAX, &[u64::MAX]);
        assert_eq!((replayed.entries, replayed.wrong_pages.count), (3, 1));
        assert!(matches!(replayed.stopped, Some(Stopped::Missing(_))));
    }

    #[test]
    fn heads_are_counted_as_far_as_their_pages_have_no_gap() {
        let listed = |paths: &[&str]| {
            Resources::below("log/", &paths.iter().map(|path| (*path).to_owned()).collect::<Vec<_>>()).heads_listed()
        };
        assert_eq!(listed(&[]), (0, false));
        assert_eq!(listed(&["log/heads/000.p/3", "log/heads/000.p/1"]), (3, false));
        assert_eq!(listed(&["log/heads/000", "log/heads/001.p/4"]), (260, false));
        assert_eq!(listed(&["log/heads/001.p/4"]), (0, true));
        assert_eq!(listed(&["log/heads/000.p/9", "log/heads/001.p/4"]), (9, true));
    }
}
