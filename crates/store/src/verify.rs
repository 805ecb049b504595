//! Everything a tiled log holds, derived again from its entries and compared: the long way round, for an operator
//! who wants to know, and for a start that found the tree not to lead to the signed root and must name the place.
//!
//! Streams: one page of entries, one page of heads and one tile a level in memory.

use crate::error::StoreError;
use crate::levels::LevelsReader;
use crate::paged::PagedReader;
use crate::tlog::HeadCheck;
use merkle::{Frontier, Hash, PageId, RootHash, TILE_WIDTH, TreeSize, leaf_hash, tile_root};
use std::path::Path;

/// What was looked at and found right.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Inspection {
    /// Entries whose hashes were compared with the stored ones, and folded into the roots of the heads.
    pub entries: u64,
    /// Heads whose signatures were checked and whose roots were recomputed.
    pub heads: u64,
}

/// A log's files, as far as they count.
pub(crate) struct Stored<'a> {
    pub(crate) entries: &'a PagedReader,
    pub(crate) entries_end: u64,
    pub(crate) levels: &'a LevelsReader,
    pub(crate) heads: &'a PagedReader,
    pub(crate) heads_end: u64,
    pub(crate) size: TreeSize,
    pub(crate) head_count: u64,
}

const WIDTH: usize = TILE_WIDTH as usize;

/// Compares every entry with its leaf hash, every full tile with its root, and every head with the tree at its
/// size. `progress` hears how many entries of how many are done.
pub(crate) fn verify(
    stored: &Stored<'_>,
    head_check: HeadCheck<'_>,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Inspection, StoreError> {
    let mut fold = Fold { stored, frontier: Frontier::new(), tiles: Vec::new(), first_wrong: None };
    let mut heads = Heads { stored, head_check, read: 0, page: Vec::new(), last: TreeSize(0) };
    let mut due = heads.next()?;
    loop {
        while let Some((_, root)) = due.filter(|(size, _)| *size == fold.frontier.size()) {
            fold.meet(root)?;
            due = heads.next()?;
        }
        let first = fold.frontier.size().0;
        if first == stored.size.0 {
            break;
        }
        let until = due.map_or(stored.size.0, |(size, _)| size.0.min(stored.size.0));
        fold.advance(first, until)?;
        progress(fold.frontier.size().0, stored.size.0);
    }
    if due.is_some() {
        return Err(heads.damaged(heads.read - 1, "it covers more entries than are there"));
    }
    match fold.first_wrong {
        // No head is left to tell which of the two is wrong: an unsigned log.
        Some(wrong) => Err(wrong.in_entries(stored)),
        None => Ok(Inspection { entries: stored.size.0, heads: stored.head_count }),
    }
}

/// The tree over the entries so far, compared with the stored one as it grows.
struct Fold<'a> {
    stored: &'a Stored<'a>,
    frontier: Frontier,
    /// The tile of each level that is not full yet.
    tiles: Vec<Vec<Hash>>,
    first_wrong: Option<Wrong>,
}

/// A stored hash that is not what the entries say.
#[derive(Clone, Copy)]
struct Wrong {
    level: usize,
    place: u64,
}

impl Fold<'_> {
    /// Takes in the entries from `first` on: to the end of the page, or to `until` if that comes before.
    fn advance(&mut self, first: u64, until: u64) -> Result<(), StoreError> {
        let page = first / u64::from(TILE_WIDTH);
        let Some(id) = PageId::at(page, self.stored.size.0) else { return Ok(()) };
        let bytes = self.stored.entries.page(id, self.stored.entries_end)?;
        let entries = merkle::decode_entries(&bytes).unwrap_or_default();
        let begin = page * u64::from(TILE_WIDTH);
        let until = until.min(begin + u64::from(id.width));
        let hashes = self.stored.levels.hashes(0, first, (until - first) as usize)?;
        for (place, stored) in (first..until).zip(hashes) {
            let Some(entry) = entries.get((place - begin) as usize) else { break };
            let leaf = leaf_hash(entry);
            self.compare(0, place, leaf, stored);
            self.frontier.push(leaf);
            self.fill(leaf)?;
        }
        Ok(())
    }

    /// Adds a leaf to its tile; the root of a tile that is full goes one level up.
    fn fill(&mut self, leaf: Hash) -> Result<(), StoreError> {
        let mut hash = leaf;
        for level in 0.. {
            if self.tiles.len() == level {
                self.tiles.push(Vec::with_capacity(WIDTH));
            }
            self.tiles[level].push(hash);
            let Ok(full) = <&[Hash; WIDTH]>::try_from(self.tiles[level].as_slice()) else { break };
            hash = tile_root(full);
            self.tiles[level].clear();
            let place = (self.frontier.size().0 >> (8 * (level + 1))) - 1;
            let stored = self.stored.levels.hashes(level + 1, place, 1)?;
            if let Some(stored) = stored.first() {
                self.compare(level + 1, place, hash, *stored);
            }
        }
        Ok(())
    }

    fn compare(&mut self, level: usize, place: u64, derived: Hash, stored: Hash) {
        if derived != stored && self.first_wrong.is_none() {
            self.first_wrong = Some(Wrong { level, place });
        }
    }

    /// A head says what the root is here. If the entries agree with it, a stored hash that does not is itself at
    /// fault; if they do not, the entry is.
    fn meet(&mut self, root: RootHash) -> Result<(), StoreError> {
        match (self.frontier.root() == root, self.first_wrong) {
            (true, None) => Ok(()),
            (true, Some(wrong)) => Err(wrong.in_hashes(self.stored)),
            (false, Some(wrong)) => Err(wrong.in_entries(self.stored)),
            (false, None) => Err(StoreError::WrongRoot { size: self.frontier.size() }),
        }
    }
}

impl Wrong {
    fn in_hashes(self, stored: &Stored<'_>) -> StoreError {
        let why = "the entries lead to the signed root and this hash does not: delete the directory hashes/, and it is \
                   derived again at the next start";
        damaged(stored.levels.path(self.level), "hash", self.place, why)
    }

    fn in_entries(self, stored: &Stored<'_>) -> StoreError {
        let first = self.place << (8 * self.level);
        damaged(stored.entries.path(), "entry", first, "it does not have its stored hash, nor lead to a signed root")
    }
}

/// The heads, oldest first.
struct Heads<'a> {
    stored: &'a Stored<'a>,
    head_check: HeadCheck<'a>,
    read: u64,
    page: Vec<u8>,
    last: TreeSize,
}

impl Heads<'_> {
    fn next(&mut self) -> Result<Option<(TreeSize, RootHash)>, StoreError> {
        let number = self.read;
        if number == self.stored.head_count {
            return Ok(None);
        }
        let place = (number % u64::from(TILE_WIDTH)) as usize;
        if place == 0
            && let Some(page) = PageId::at(number / u64::from(TILE_WIDTH), self.stored.head_count)
        {
            self.page = self.stored.heads.page(page, self.stored.heads_end)?;
        }
        let heads = merkle::decode_entries(&self.page).unwrap_or_default();
        let said = heads.get(place).and_then(|head| (self.head_check)(head));
        let Some((size, root)) = said else {
            return Err(self.damaged(number, "it is not a checkpoint that this log's key signed"));
        };
        if size < self.last {
            return Err(self.damaged(number, "it covers fewer entries than the head before it"));
        }
        (self.read, self.last) = (number + 1, size);
        Ok(Some((size, root)))
    }

    fn damaged(&self, number: u64, why: &str) -> StoreError {
        damaged(self.stored.heads.path(), "head", number, why)
    }
}

fn damaged(path: &Path, what: &'static str, position: u64, why: &str) -> StoreError {
    StoreError::Damaged { path: path.to_owned(), what, position, why: why.to_owned() }
}
