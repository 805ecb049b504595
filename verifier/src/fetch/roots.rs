//! The tree recomputed from entries as they come, and every head held against it: the heads of witnesses, and those of
//! the log's own list, which is read from the bundle a page at a time. Memory does not grow with either.

use super::bundle_dir::BundleDir;
use crate::failure::Failure;
use merkle::{Frontier, Hash, PageId, ResourcePath, RootHash};
use note::{SignedCheckpoint, VerifierKey};

/// Heads and the tree under them.
#[derive(Default)]
pub(super) struct Roots<'fetch> {
    frontier: Frontier,
    /// Sorted by size.
    seen: Vec<(u64, RootHash)>,
    next_seen: usize,
    listed: Option<ListedHeads<'fetch>>,
    /// The smallest size at which a head has another root.
    other_at: Option<u64>,
    /// The first page with a head that the log did not sign and that lies on another tree.
    damaged: Option<String>,
}

impl<'fetch> Roots<'fetch> {
    /// `seen` are heads from anywhere, `listed` those of the log's list.
    pub(super) fn new(mut seen: Vec<(u64, RootHash)>, listed: Option<ListedHeads<'fetch>>) -> Roots<'fetch> {
        seen.sort_unstable();
        seen.dedup();
        Roots { seen, listed, ..Roots::default() }
    }

    /// Compares what can be compared before the first leaf.
    pub(super) fn start(&mut self) -> Result<(), Failure> {
        self.compare()
    }

    /// One more leaf.
    pub(super) fn push(&mut self, leaf: Hash) -> Result<(), Failure> {
        self.frontier.push(leaf);
        self.compare()
    }

    fn compare(&mut self) -> Result<(), Failure> {
        let size = self.frontier.size().0;
        let mut root = None;
        let mut is_other = |claimed: RootHash| *root.get_or_insert_with(|| self.frontier.root()) != claimed;
        while let Some(&(_, claimed)) = self.seen.get(self.next_seen).filter(|(of, _)| *of == size) {
            if is_other(claimed) {
                self.other_at.get_or_insert(size);
            }
            self.next_seen += 1;
        }
        if let Some(listed) = &mut self.listed {
            while let Some(head) = listed.next_at(size)? {
                if is_other(head.root) {
                    // Of a head that is held only the root was looked at. Nobody is accused of a copy that is damaged.
                    match listed.is_the_logs(&head) {
                        true => drop(self.other_at.get_or_insert(size)),
                        false => drop(self.damaged.get_or_insert(head.path)),
                    }
                }
            }
        }
        Ok(())
    }

    /// What is wrong: one sentence of each kind says it all; the audit names the rest.
    pub(super) fn faults(&self) -> Vec<String> {
        let other = self.other_at.map(|size| {
            format!("the entries that the log serves are not those its head of size {size} was signed over")
        });
        let beyond = self.seen.get(self.next_seen).map(|(size, _)| {
            format!("a witness holds a head of size {size}, and the log's own list does not reach it")
        });
        let damaged = self
            .damaged
            .as_ref()
            .map(|path| format!("{path}: it holds a head that the log did not sign; remove the file and fetch again"));
        other.into_iter().chain(beyond).chain(damaged).collect()
    }
}

/// The log's list of heads, as it lies in the bundle. Whoever put it there has parsed every one, and knows whether their
/// sizes ascend.
pub(super) struct ListedHeads<'fetch> {
    dir: &'fetch BundleDir,
    log: &'fetch VerifierKey,
    pages: std::vec::IntoIter<PageId>,
    /// Of the page under way, the next one last.
    waiting: Vec<ListedHead>,
}

struct ListedHead {
    size: u64,
    root: RootHash,
    note: Vec<u8>,
    /// The page that it stands on.
    path: String,
}

impl<'fetch> ListedHeads<'fetch> {
    /// The list on these pages, of a log below `log/`.
    pub(super) fn new(dir: &'fetch BundleDir, log: &'fetch VerifierKey, pages: Vec<PageId>) -> ListedHeads<'fetch> {
        ListedHeads { dir, log, pages: pages.into_iter(), waiting: Vec::new() }
    }

    /// The next head of this size. Smaller ones, which come only where the list goes back, are passed over.
    fn next_at(&mut self, size: u64) -> Result<Option<ListedHead>, Failure> {
        loop {
            match self.waiting.last() {
                Some(head) if head.size > size => return Ok(None),
                Some(_) => {
                    if let Some(head) = self.waiting.pop_if(|head| head.size == size) {
                        return Ok(Some(head));
                    }
                    self.waiting.pop();
                }
                None => match self.pages.next() {
                    Some(page) => self.waiting = self.read(page)?,
                    None => return Ok(None),
                },
            }
        }
    }

    fn is_the_logs(&self, head: &ListedHead) -> bool {
        SignedCheckpoint::parse(&head.note).is_ok_and(|head| head.verify(self.log).is_ok())
    }

    fn read(&self, page: PageId) -> Result<Vec<ListedHead>, Failure> {
        let resource = ResourcePath::Heads(page);
        let path = format!("log/{resource}");
        let bytes = self.dir.read(&path, client::log::max_bytes(&resource))?.unwrap_or_default();
        let notes = merkle::decode_entries(&bytes).unwrap_or_default();
        let listed = |note: &[u8]| {
            let head = SignedCheckpoint::parse(note).ok()?;
            let (size, root) = (head.claimed().size.0, head.claimed().root);
            Some(ListedHead { size, root, note: note.to_vec(), path: path.clone() })
        };
        Ok(notes.into_iter().rev().filter_map(listed).collect())
    }
}
