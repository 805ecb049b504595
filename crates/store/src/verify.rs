//! The tree of a log and its heads, derived again from the entries and compared: for an operator who wants to know,
//! and for a start that found the tree not to lead to the signed root and must name the place.
//!
//! An entry and its stored hash can disagree, and then one of the two is wrong. The root of their tile as stored one
//! level up says which, and where the page is not full, the last head does. A hash further up that is not what those
//! below it make is wrong if the next head is over what they make.
//!
//! In memory: one page of entries, one of heads, one tile a level.

use crate::error::StoreError;
use crate::finding::{Finding, Findings, Remedy};
use crate::levels::LevelsReader;
use crate::paged::PagedReader;
use crate::tlog::HeadCheck;
use crate::walk::{Read, ReadPage, Source, StoredLeaves, Work, root_of_full, walk};
use merkle::{Frontier, Hash, PageId, RootHash, TILE_WIDTH, TreeSize};
use rayon::prelude::*;
use receipt::{Judge, Unsigned};
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
#[derive(Clone, Copy)]
pub(crate) struct Stored<'a> {
    pub(crate) entries: &'a PagedReader,
    pub(crate) entries_end: u64,
    pub(crate) levels: &'a LevelsReader,
    pub(crate) heads: &'a PagedReader,
    pub(crate) heads_end: u64,
    pub(crate) size: TreeSize,
    pub(crate) head_count: u64,
    /// Of the last head.
    pub(crate) root: RootHash,
}

const WIDTH: usize = TILE_WIDTH as usize;

/// Compares every entry with its leaf hash, every full tile with its root, and every head with the tree at its
/// size. `progress` hears how many entries of how many are done. The first place that is wrong is the error.
pub(crate) fn verify(
    stored: &Stored<'_>,
    head_check: HeadCheck<'_>,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Inspection, StoreError> {
    let work = Work { compare: true, read: Read::Not };
    let mut judge = TreeAlone { tree: TreeCheck::new(*stored, head_check), findings: Findings::default() };
    walk(&stored.source(work), TreeSize(0), &mut judge, progress)?;
    let TreeAlone { mut tree, mut findings } = judge;
    tree.finish(&mut findings)?;
    match (findings.first().first(), tree.strayed_at) {
        (None, _) => Ok(Inspection { entries: stored.size.0, heads: stored.head_count }),
        (Some(first), Some(size)) if first.what == "root" => Err(StoreError::WrongRoot { size }),
        (Some(first), _) => Err(first.into()),
    }
}

impl<'a> Stored<'a> {
    pub(crate) fn source(&self, work: Work) -> Source<'a> {
        let Stored { entries, entries_end, levels, size, .. } = *self;
        Source { entries, entries_end, levels, size, work }
    }
}

impl From<&Finding> for StoreError {
    fn from(finding: &Finding) -> StoreError {
        let Finding { path, what, position, why, .. } = finding.clone();
        StoreError::Damaged { path, what, position, why }
    }
}

struct TreeAlone<'a> {
    tree: TreeCheck<'a>,
    findings: Findings,
}

impl Judge for TreeAlone<'_> {
    type Page = ReadPage;
    type Error = StoreError;

    fn page(&mut self, page: ReadPage, _: &mut Vec<Unsigned>) -> Result<(), StoreError> {
        self.tree.page(&page, &mut self.findings).map(drop)
    }

    fn bad_signature(&mut self, _: &Unsigned) -> Result<(), StoreError> {
        Ok(())
    }
}

/// The tree over the entries so far, compared with the stored one and with the heads as it grows.
pub(crate) struct TreeCheck<'a> {
    stored: Stored<'a>,
    heads: Heads<'a>,
    due: Option<(TreeSize, RootHash)>,
    frontier: Frontier,
    /// The tile of each level from 1 on that is not full yet.
    tiles: Vec<Vec<Hash>>,
    /// Stored hashes that are not what those below them make, since the last head: level and place.
    doubtful: Vec<(usize, u64)>,
    /// The size from which on no head is met any more.
    strayed_at: Option<TreeSize>,
    hashes_missing: bool,
    begun: bool,
}

impl<'a> TreeCheck<'a> {
    pub(crate) fn new(stored: Stored<'a>, head_check: HeadCheck<'a>) -> TreeCheck<'a> {
        let heads = Heads { stored, head_check, read: 0, page: Vec::new(), last: TreeSize(0) };
        TreeCheck {
            stored,
            heads,
            due: None,
            frontier: Frontier::new(),
            tiles: Vec::new(),
            doubtful: Vec::new(),
            strayed_at: None,
            hashes_missing: false,
            begun: false,
        }
    }

    /// Takes in the next page. Answers which of its entries are damaged.
    pub(crate) fn page(&mut self, page: &ReadPage, findings: &mut Findings) -> Result<Vec<u64>, StoreError> {
        self.begin(findings)?;
        let (leaves, damaged) = self.choose(page, findings);
        for leaf in &leaves {
            self.frontier.push(*leaf);
            self.meet_heads(findings)?;
        }
        if let Some(root) = page.root.filter(|_| damaged.is_empty()).or_else(|| root_of_full(&leaves)) {
            self.rise(1, root, findings);
        }
        Ok(damaged)
    }

    /// The heads that are left, of which there must be none.
    pub(crate) fn finish(&mut self, findings: &mut Findings) -> Result<(), StoreError> {
        self.begin(findings)?;
        while self.due.is_some() {
            findings.add(self.heads.lost(self.heads.read - 1, "it covers more entries than are there"));
            self.due = self.heads.next(findings)?;
        }
        // No head is left to tell: their entries are not those of any.
        for (level, place) in std::mem::take(&mut self.doubtful) {
            findings.add(self.in_entries(level, place));
        }
        Ok(())
    }

    /// Whether the tree was found not to be the one that was signed, so that what follows from it is worth nothing.
    pub(crate) fn has_strayed(&self) -> bool {
        self.strayed_at.is_some()
    }

    fn begin(&mut self, findings: &mut Findings) -> Result<(), StoreError> {
        if !std::mem::replace(&mut self.begun, true) {
            self.due = self.heads.next(findings)?;
            self.meet_heads(findings)?;
        }
        Ok(())
    }

    fn meet_heads(&mut self, findings: &mut Findings) -> Result<(), StoreError> {
        while let Some((_, root)) = self.due.filter(|(size, _)| *size == self.frontier.size()) {
            self.meet(root, findings);
            self.due = self.heads.next(findings)?;
        }
        Ok(())
    }

    /// A head says what the root is here. If the hashes that were taken lead there, a stored one that does not is
    /// itself at fault; if they do not, something below is.
    fn meet(&mut self, root: RootHash, findings: &mut Findings) {
        if self.strayed_at.is_some() {
            return;
        }
        let doubtful = std::mem::take(&mut self.doubtful);
        if self.frontier.root() == root {
            doubtful.iter().for_each(|(level, place)| findings.add(self.in_hashes(*level, *place)));
            return;
        }
        self.strayed_at = Some(self.frontier.size());
        match doubtful.first() {
            Some((level, place)) => findings.add(self.in_entries(*level, *place)),
            None => {
                let why = format!(
                    "the entries and hashes on disk agree and do not lead to the root that head {} was signed over; of what \
                     comes behind it only signatures were checked",
                    self.heads.read - 1
                );
                let place = self.frontier.size().0;
                findings.add(Finding::lost(self.stored.entries.path(), "root", place, why));
            }
        }
    }

    /// The leaves to go on with, and which entries are damaged.
    fn choose(&mut self, page: &ReadPage, findings: &mut Findings) -> (Vec<Hash>, Vec<u64>) {
        match (&page.cut, &page.stored) {
            (None, StoredLeaves::Same) => (page.leaves.clone(), Vec::new()),
            (None, StoredLeaves::Other(stored)) => self.choose_between(page, stored, findings),
            (None, StoredLeaves::Missing) => {
                if !std::mem::replace(&mut self.hashes_missing, true) {
                    let why = "it is not there, or cannot be read; others behind it are not named";
                    findings.add(Finding::derived(self.stored.levels.path(0), "hash", page.first, why));
                }
                (page.leaves.clone(), Vec::new())
            }
            (Some(cut), stored) => {
                findings.add(lost_page(cut));
                let stored = if let StoredLeaves::Other(stored) = stored { stored.as_slice() } else { &[] };
                if !self.leads_on(page, stored) {
                    self.strayed_at.get_or_insert(self.frontier.size());
                }
                (stored.to_vec(), all_of(page).collect())
            }
        }
    }

    fn choose_between(&mut self, page: &ReadPage, stored: &[Hash], findings: &mut Findings) -> (Vec<Hash>, Vec<u64>) {
        let differ =
            all_of(page).zip(page.leaves.iter().zip(stored)).filter(|(_, (derived, stored))| derived != stored);
        let wrong: Vec<u64> = differ.map(|(place, _)| place).collect();
        if self.leads_on(page, &page.leaves) {
            wrong.iter().for_each(|place| findings.add(self.in_hashes(0, *place)));
            return (page.leaves.clone(), Vec::new());
        }
        if self.leads_on(page, stored) {
            let why = "its bytes do not have its stored hash, and that hash leads to the one above it";
            let path = self.stored.entries.path();
            wrong.iter().for_each(|place| findings.add(Finding::lost(path, "entry", *place, why)));
            return (stored.to_vec(), wrong);
        }
        self.doubtful.extend(wrong.first().map(|place| (0, *place)));
        (page.leaves.clone(), wrong)
    }

    /// Whether these leaves of a page lead to the hash above it; of the last page, which has none, to the last head.
    fn leads_on(&self, page: &ReadPage, leaves: &[Hash]) -> bool {
        if leaves.len() != usize::from(page.id.width) {
            return false;
        }
        match root_of_full(leaves) {
            Some(root) => self.stored.levels.hashes(1, page.id.index, 1).is_ok_and(|above| above == [root]),
            None => {
                let mut frontier = self.frontier.clone();
                leaves.iter().for_each(|leaf| frontier.push(*leaf));
                frontier.root() == self.stored.root
            }
        }
    }

    /// Takes the next hash of a level, which those below it make; of a full tile the root goes one level up.
    fn rise(&mut self, level: usize, hash: Hash, findings: &mut Findings) {
        let (mut level, mut hash) = (level, hash);
        loop {
            let place = (self.frontier.size().0 >> (8 * level)) - 1;
            match self.stored.levels.hashes(level, place, 1) {
                Ok(stored) if stored == [hash] => {}
                Ok(_) => self.doubtful.push((level, place)),
                Err(_) => {
                    let why = "it is not there, or cannot be read";
                    findings.add(Finding::derived(self.stored.levels.path(level), "hash", place, why));
                }
            }
            while self.tiles.len() < level {
                self.tiles.push(Vec::with_capacity(WIDTH));
            }
            let tile = &mut self.tiles[level - 1];
            tile.push(hash);
            let Some(root) = root_of_full(tile) else { return };
            tile.clear();
            (level, hash) = (level + 1, root);
        }
    }

    fn in_hashes(&self, level: usize, place: u64) -> Finding {
        let why = "the entries lead to the signed root and this hash does not";
        Finding::derived(self.stored.levels.path(level), "hash", place, why)
    }

    fn in_entries(&self, level: usize, place: u64) -> Finding {
        let why = "it does not have its stored hash, nor lead to a signed root";
        Finding::lost(self.stored.entries.path(), "entry", place << (8 * level), why)
    }
}

fn all_of(page: &ReadPage) -> impl Iterator<Item = u64> + use<> {
    page.first..page.id.index * u64::from(TILE_WIDTH) + u64::from(page.id.width)
}

fn lost_page(cut: &StoreError) -> Finding {
    match cut {
        StoreError::Damaged { path, what, position, why } => {
            Finding { path: path.clone(), what, position: *position, why: why.clone(), remedy: Remedy::Restore }
        }
        other => Finding::lost(Path::new("entries"), "page", 0, other.to_string()),
    }
}

/// The heads, oldest first.
struct Heads<'a> {
    stored: Stored<'a>,
    head_check: HeadCheck<'a>,
    read: u64,
    /// What those of the page say, if they are this log's.
    page: Vec<Option<(TreeSize, RootHash)>>,
    last: TreeSize,
}

impl Heads<'_> {
    /// The next one that is sound.
    fn next(&mut self, findings: &mut Findings) -> Result<Option<(TreeSize, RootHash)>, StoreError> {
        while self.read < self.stored.head_count {
            let number = self.read;
            let place = (number % u64::from(TILE_WIDTH)) as usize;
            if place == 0 {
                self.load(number / u64::from(TILE_WIDTH), findings)?;
            }
            self.read += 1;
            match self.page.get(place) {
                // The page could not be taken apart, which has been said.
                None => {}
                Some(None) => findings.add(self.lost(number, "it is not a checkpoint that this log's key signed")),
                Some(Some((size, _))) if *size < self.last => {
                    findings.add(self.lost(number, "it covers fewer entries than the head before it"));
                }
                Some(Some((size, root))) => {
                    self.last = *size;
                    return Ok(Some((*size, *root)));
                }
            }
        }
        Ok(None)
    }

    fn load(&mut self, index: u64, findings: &mut Findings) -> Result<(), StoreError> {
        let Some(page) = PageId::at(index, self.stored.head_count) else { return Ok(()) };
        let bytes = match self.stored.heads.page(page, self.stored.heads_end) {
            Ok(bytes) => bytes,
            Err(cut @ StoreError::Damaged { .. }) => {
                findings.add(lost_page(&cut));
                Vec::new()
            }
            Err(error) => return Err(error),
        };
        let heads = merkle::decode_entries(&bytes).unwrap_or_default();
        let check = self.head_check;
        self.page = heads.par_iter().map(|head| check(head)).collect();
        Ok(())
    }

    fn lost(&self, number: u64, why: &str) -> Finding {
        Finding::lost(self.stored.heads.path(), "head", number, why)
    }
}
