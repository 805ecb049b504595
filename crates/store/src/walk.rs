//! Reads a log from some entry to its end, page by page, on all cores, and hands the pages to a judge in order
//! ([`receipt::relay`]). In memory are three chunks: each at most two pages a core, or a few MB.

use crate::error::StoreError;
use crate::levels::LevelsReader;
use crate::paged::PagedReader;
use merkle::{Hash, PageId, TILE_WIDTH, TreeSize, leaf_hash, tile_root};
use receipt::{Heading, Judge, Malformed, Receipt, Relay};

const WIDTH: u64 = TILE_WIDTH as u64;
/// Pages a chunk, for each core: enough that no core waits long for another.
const PAGES_A_CORE: usize = 2;
/// Entries' bytes a chunk, but for the one page that it always has: a parsed receipt is some ten times as large.
const CHUNK_BYTES: u64 = 4 << 20;

/// What of every page is worked out.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Work {
    /// Compare the leaf hashes with the stored ones, and make the root of each full page.
    pub(crate) compare: bool,
    /// How the entries are read.
    pub(crate) read: Read,
}

/// How entries are read as receipts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Read {
    /// Not at all.
    Not,
    /// Whole.
    Whole,
    /// At a glance, where that is enough.
    Glance,
}

/// An entry as it was read.
pub(crate) enum Item {
    /// At a glance.
    Heading(Heading),
    /// Whole.
    Receipt(Result<Receipt, Malformed>),
}

/// The log's entries, and their hashes as stored.
#[derive(Clone, Copy)]
pub(crate) struct Source<'a> {
    pub(crate) entries: &'a PagedReader,
    pub(crate) entries_end: u64,
    pub(crate) levels: &'a LevelsReader,
    pub(crate) size: TreeSize,
    pub(crate) work: Work,
}

/// A page, from its first entry that is asked for on.
pub(crate) struct ReadPage {
    pub(crate) id: PageId,
    /// Place of the first entry here.
    pub(crate) first: u64,
    /// Hashes of the entries as they are; none where the page cannot be taken apart.
    pub(crate) leaves: Vec<Hash>,
    /// As the hashes say they are.
    pub(crate) stored: StoredLeaves,
    /// The root over the leaves of a full page.
    pub(crate) root: Option<Hash>,
    /// The entries, if they were to be read.
    pub(crate) items: Vec<Item>,
    /// Why the page cannot be taken apart, and where.
    pub(crate) cut: Option<StoreError>,
}

/// Leaf hashes as stored.
pub(crate) enum StoredLeaves {
    /// The same, or nobody asked.
    Same,
    /// Others.
    Other(Vec<Hash>),
    /// They cannot be read.
    Missing,
}

/// Hands `judge` the entries from `from` on. `progress` hears how many entries of how many are done.
pub(crate) fn walk(
    source: &Source<'_>,
    from: TreeSize,
    judge: &mut impl Judge<Page = ReadPage, Error = StoreError>,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<(), StoreError> {
    let mut relay = Relay::new();
    let mut next = from.0;
    loop {
        let done = next;
        let pages = source.chunk_from(&mut next);
        if pages.is_empty() && relay.is_done() {
            return Ok(());
        }
        relay.beat(pages, |(id, first)| source.read_page(id, first), judge)?;
        progress(done, source.size.0);
    }
}

impl Source<'_> {
    /// The pages of the chunk that begins with entry `next`, each with the first entry that is asked for.
    fn chunk_from(&self, next: &mut u64) -> Vec<(PageId, u64)> {
        let mut pages = Vec::new();
        let mut bytes = 0;
        while *next < self.size.0 && pages.len() < PAGES_A_CORE * rayon::current_num_threads() {
            let Some(id) = PageId::at(*next / WIDTH, self.size.0) else { break };
            bytes += self.entries.byte_len(id, self.entries_end);
            if bytes > CHUNK_BYTES && !pages.is_empty() {
                break;
            }
            pages.push((id, *next));
            *next = id.index * WIDTH + u64::from(id.width);
        }
        pages
    }

    fn read_page(&self, id: PageId, first: u64) -> Result<ReadPage, StoreError> {
        let (bytes, cut) = match self.entries.page(id, self.entries_end) {
            Ok(bytes) => (bytes, None),
            Err(cut @ StoreError::Damaged { .. }) => (Vec::new(), Some(cut)),
            Err(error) => return Err(error),
        };
        let entries = merkle::decode_entries(&bytes).unwrap_or_default();
        let entries = entries.get((first - id.index * WIDTH) as usize..).unwrap_or_default();
        let whole = |entry: &[u8]| Item::Receipt(Receipt::parse(entry));
        let glance = |entry: &[u8]| Heading::of(entry).map_or_else(|| whole(entry), Item::Heading);
        let items = match self.work.read {
            Read::Not => Vec::new(),
            Read::Whole => entries.iter().map(|entry| whole(entry)).collect(),
            Read::Glance => entries.iter().map(|entry| glance(entry)).collect(),
        };
        let mut page = ReadPage { id, first, leaves: Vec::new(), stored: StoredLeaves::Same, root: None, items, cut };
        if self.work.compare {
            // A receipt's id is its leaf hash, and has been computed.
            let hashed = |(place, entry): (usize, &&[u8])| match page.items.get(place) {
                Some(Item::Receipt(Ok(receipt))) => receipt.id().0,
                _ => leaf_hash(entry),
            };
            page.leaves = entries.iter().enumerate().map(hashed).collect();
            page.root = root_of_full(&page.leaves);
            let count = usize::from(id.width) - (first - id.index * WIDTH) as usize;
            page.stored = match self.levels.hashes(0, first, count) {
                Ok(stored) if stored == page.leaves => StoredLeaves::Same,
                Ok(stored) => StoredLeaves::Other(stored),
                Err(_) => StoredLeaves::Missing,
            };
        }
        Ok(page)
    }
}

/// The root over the leaves of a page, if it is full.
pub(crate) fn root_of_full(leaves: &[Hash]) -> Option<Hash> {
    leaves.try_into().ok().map(tile_root)
}
