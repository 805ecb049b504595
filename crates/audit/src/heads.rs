//! The heads a bundle speaks of: the log's own list (`/heads`) and what others kept of it.
//!
//! Holds reading and verifying them. Whether they lie on one tree is judged once the tree is recomputed
//! ([`crate::head`]).

use crate::amount::amount;
use crate::bundle::{BundleSource, ReadError};
use crate::quote::{plain, quoted};
use crate::tree::{Resources, holds};
use crate::verdict::{CheckBuilder, Family};
use merkle::{PageId, RootHash};
use note::{SignedCheckpoint, Verified, VerifierKey};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// Most heads kept that the log's list does not have. Each is a finding; the rest are counted.
const MAX_UNLISTED: usize = 1000;

/// Most bytes of these: a usual head has a few hundred, and a log may sign some of a megabyte.
const MAX_UNLISTED_BYTES: usize = 16 << 20;

/// Pages of heads verified at once.
const PAGES_AT_ONCE: usize = 16;

/// A head that somebody other than the log's own list holds, and that the log signed.
#[derive(Clone, Debug)]
pub(crate) struct KnownHead {
    pub(crate) checkpoint: SignedCheckpoint<Verified>,
    /// Where in the bundle, in words that complete "a head in …".
    pub(crate) found_in: String,
    /// The witnesses that hold it, by number; a kept proof holds it as well, if there is `None`.
    seen_by: BTreeSet<Option<usize>>,
    /// The journal line that holds it whole: the witness, and the line.
    pub(crate) line: Option<(usize, u64)>,
}

/// Who shows a head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// A witness, by number, in the checkpoint that it serves.
    Witness(usize),
    /// A witness, by number, in this line of its journal.
    Journal(usize, u64),
    /// A proof that somebody kept, or the auditor's own earlier audit.
    Kept,
}

impl KnownHead {
    pub(crate) fn new(checkpoint: SignedCheckpoint<Verified>, found_in: String, source: Source) -> KnownHead {
        let mut head = KnownHead { checkpoint, found_in, seen_by: BTreeSet::new(), line: None };
        head.shown_by(source);
        head
    }

    fn shown_by(&mut self, source: Source) {
        match source {
            Source::Witness(witness) => drop(self.seen_by.insert(Some(witness))),
            Source::Journal(witness, line) => {
                self.seen_by.insert(Some(witness));
                self.line = self.line.or(Some((witness, line)));
            }
            Source::Kept => drop(self.seen_by.insert(None)),
        }
    }

    /// The one witness that shows it, if nobody else does.
    pub(crate) fn seen_alone_by(&self) -> Option<usize> {
        match self.seen_by.iter().collect::<Vec<_>>().as_slice() {
            [Some(witness)] => Some(*witness),
            _ => None,
        }
    }

    pub(crate) fn size(&self) -> u64 {
        self.checkpoint.checkpoint().size.0
    }

    pub(crate) fn root(&self) -> RootHash {
        self.checkpoint.checkpoint().root
    }
}

/// One head of the log's list, without its bytes: there may be a million.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct ListedHead {
    pub(crate) size: u64,
    pub(crate) root: RootHash,
    /// Its place in the list.
    pub(crate) place: u64,
}

/// The log's list as far as it was read and verified, for a later audit to go on from.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct ListedHeads {
    /// How many heads the list had.
    count: u64,
    /// Sorted by size, then root.
    heads: Vec<ListedHead>,
    /// What was found in it.
    check: CheckBuilder,
}

impl ListedHeads {
    /// Before the first head; what is found goes into `check`.
    pub(crate) fn none(check: CheckBuilder) -> ListedHeads {
        ListedHeads { count: 0, heads: Vec::new(), check }
    }

    /// What `heads` read, with the check as it was then.
    pub(crate) fn of(heads: &Heads, check: CheckBuilder) -> ListedHeads {
        ListedHeads { count: heads.listed_count, heads: heads.listed.clone(), check }
    }
}

/// All heads of the log that a bundle speaks of, each with a good signature by the log.
#[derive(Debug, Default)]
pub(crate) struct Heads {
    /// The log's list, sorted by size, then root.
    pub(crate) listed: Vec<ListedHead>,
    /// How many pages' worth of heads the list has, to read one again.
    listed_count: u64,
    /// Heads from elsewhere that the list does not have.
    pub(crate) unlisted: Vec<KnownHead>,
    unlisted_bytes: usize,
    /// How many more of these there are.
    pub(crate) unlisted_more: u64,
    /// How many heads from elsewhere were looked at.
    pub(crate) others: u64,
    /// Largest size among the heads from elsewhere.
    pub(crate) largest_other: u64,
}

impl Heads {
    /// Reads and verifies the log's list, after what an earlier audit read of it (`since`). Answers the check as well.
    pub(crate) fn read(
        bundle: &dyn BundleSource,
        resources: &Resources,
        log: &VerifierKey,
        since: ListedHeads,
    ) -> Result<(Heads, CheckBuilder), ReadError> {
        let (count, gap) = resources.heads_listed();
        // A list that is shorter than it was is read from its beginning.
        let ListedHeads { count: known, heads: listed, mut check } =
            if since.count <= count { since } else { ListedHeads::none(CheckBuilder::new(Family::Head, "heads")) };
        let mut heads = Heads { listed_count: count, listed, ..Heads::default() };
        if gap {
            check.not_checked("heads-missing", &[], || {
                [
                    format!(
                        "the list of the log's heads has a gap after {}: pages are missing from the bundle",
                        amount(count, "head", "heads")
                    ),
                    String::from("which heads stand on them"),
                    String::from("fetch the bundle again"),
                ]
            });
        }
        let mut largest = heads.largest_listed().unwrap_or(0);
        let whole_pages = known / u64::from(merkle::TILE_WIDTH);
        let pages: Vec<PageId> = PageId::all(count).filter(|page| page.index >= whole_pages).collect();
        // Of the page that is read again, the heads that stood on it.
        let again = |head: &&ListedHead| head.place >= whole_pages * u64::from(merkle::TILE_WIDTH);
        let before: BTreeMap<u64, (u64, RootHash)> =
            heads.listed.iter().filter(again).map(|head| (head.place, (head.size, head.root))).collect();
        for pages in pages.chunks(PAGES_AT_ONCE) {
            let mut notes: Vec<(u64, Vec<u8>)> = Vec::new();
            for page in pages {
                heads.read_page(bundle, resources, *page, &mut check, &mut notes)?;
            }
            let is_other =
                |(place, note): &(u64, Vec<u8>)| before.get(place).is_some_and(|head| claimed(note) != Some(*head));
            if let Some((place, _)) = notes.iter().find(|note| is_other(note)) {
                check.fail("heads-page-wrong", &[], || {
                    [
                        format!("head {place} of the log's list is another one than in the earlier audit"),
                        String::from(
                            "who changed the list: the log, or whoever made the bundle; nor which heads it lacks now",
                        ),
                        String::from("fetch the list from the log itself, and audit without --since"),
                    ]
                });
            }
            notes.retain(|(place, _)| *place >= known);
            let verified = notes.par_iter().map(|(_, bytes)| verify(bytes, log)).collect::<Vec<_>>();
            for ((place, _), head) in notes.iter().zip(verified) {
                match head {
                    Err(why) => check.fail("bad-log-signature", &[], || {
                        [
                            format!("head {place} of the log's list is no head of this log: {why}"),
                            String::from("who put it there: the log, or whoever made the bundle"),
                            String::from("fetch the list from the log itself"),
                        ]
                    }),
                    Ok((size, root)) => {
                        check.checked();
                        if size < largest {
                            check.fail("heads-rollback", &[], || {
                                [
                                    format!("head {place} of the log's list has size {size}, one before it {largest}: the log went back"),
                                    String::from("that the tree itself went back; the entries may still be one history"),
                                    String::from("ask the log's operator whether a backup was restored"),
                                ]
                            });
                        }
                        largest = largest.max(size);
                        heads.listed.push(ListedHead { size, root, place: *place });
                    }
                }
            }
        }
        heads.listed.sort_unstable();
        let is_repeated = |pair: &&[ListedHead]| (pair[0].size, pair[0].root) == (pair[1].size, pair[1].root);
        let is_new = |pair: &&[ListedHead]| pair.iter().any(|head| head.place >= known);
        for pair in heads.listed.windows(2).filter(is_repeated).filter(is_new) {
            check.notice("heads-repeated", &[], || {
                [
                    format!(
                        "heads {} and {} of the log's list are the same one of size {}",
                        pair[0].place, pair[1].place, pair[0].size
                    ),
                    String::from(
                        "who wrote it twice: the log, or whoever made the bundle; the second says nothing new",
                    ),
                    String::from("fetch the list from the log itself if the number of heads matters"),
                ]
            });
        }
        Ok((heads, check))
    }

    fn read_page(
        &self,
        bundle: &dyn BundleSource,
        resources: &Resources,
        page: PageId,
        check: &mut CheckBuilder,
        notes: &mut Vec<(u64, Vec<u8>)>,
    ) -> Result<(), ReadError> {
        let bytes = resources.read_heads(bundle, page)?.unwrap_or_default();
        let mut wrong = !holds(&bytes, page.width);
        for other in resources.other_heads(page) {
            let copy = resources.read_heads(bundle, other)?.unwrap_or_default();
            wrong |= !(bytes.starts_with(&copy) && holds(&copy, other.width));
        }
        if wrong {
            check.fail("heads-page-wrong", &[], || {
                [
                    format!("page {} of the log's list of heads does not hold what its path says", page.index),
                    String::from("who cut or changed it: the log, or whoever made the bundle"),
                    String::from("fetch the list from the log itself"),
                ]
            });
        }
        let first = page.index * u64::from(merkle::TILE_WIDTH);
        let heads = merkle::decode_entries(&bytes).unwrap_or_default();
        notes.extend((first..).zip(heads).take(usize::from(page.width)).map(|(place, note)| (place, note.to_vec())));
        Ok(())
    }

    /// Whether the log's list has this head.
    pub(crate) fn lists(&self, size: u64, root: RootHash) -> bool {
        let from = self.listed.partition_point(|head| (head.size, head.root) < (size, root));
        self.listed.get(from).is_some_and(|head| (head.size, head.root) == (size, root))
    }

    /// The listed heads of one size.
    pub(crate) fn listed_at(&self, size: u64) -> &[ListedHead] {
        let from = self.listed.partition_point(|head| head.size < size);
        let to = self.listed.partition_point(|head| head.size <= size);
        &self.listed[from..to]
    }

    /// Size of the largest listed head.
    pub(crate) fn largest_listed(&self) -> Option<u64> {
        self.listed.last().map(|head| head.size)
    }

    /// Takes note of a head that somebody else holds. It is kept only if the list does not have it.
    pub(crate) fn learn(&mut self, head: KnownHead) {
        self.others += 1;
        self.largest_other = self.largest_other.max(head.size());
        if self.lists(head.size(), head.root()) {
            return;
        }
        if let Some(known) = self.unlisted_mut(head.size(), head.root()) {
            known.seen_by.extend(head.seen_by);
            known.line = known.line.or(head.line);
            return;
        }
        let bytes = self.unlisted_bytes.saturating_add(head.checkpoint.bytes().len());
        if self.unlisted.len() < MAX_UNLISTED && bytes <= MAX_UNLISTED_BYTES {
            self.unlisted_bytes = bytes;
            self.unlisted.push(head);
        } else {
            self.unlisted_more += 1;
        }
    }

    /// Takes note of a copy of a head that is known already, under a good signature: by the log's list, or by a copy that
    /// was looked at before. Answers whether it is; a copy adds nothing but who holds it, and its signature need not be
    /// checked.
    pub(crate) fn knows(&mut self, size: u64, root: RootHash, source: Source) -> bool {
        let is_listed = self.lists(size, root);
        let known = self.unlisted_mut(size, root);
        let is_known = is_listed || known.is_some();
        if let Some(known) = known {
            known.shown_by(source);
        }
        if is_known {
            self.others += 1;
            self.largest_other = self.largest_other.max(size);
        }
        is_known
    }

    /// The unlisted heads that this witness alone shows.
    pub(crate) fn seen_alone_by(&self, witness: usize) -> impl Iterator<Item = &KnownHead> {
        self.unlisted.iter().filter(move |head| head.seen_alone_by() == Some(witness))
    }

    fn unlisted_mut(&mut self, size: u64, root: RootHash) -> Option<&mut KnownHead> {
        self.unlisted.iter_mut().find(|head| (head.size(), head.root()) == (size, root))
    }

    /// The note of a listed head, read again.
    pub(crate) fn listed_note(
        &self,
        bundle: &dyn BundleSource,
        resources: &Resources,
        head: ListedHead,
        log: &VerifierKey,
    ) -> Result<Option<SignedCheckpoint<Verified>>, ReadError> {
        let width = u64::from(merkle::TILE_WIDTH);
        let Some(page) = PageId::at(head.place / width, self.listed_count) else { return Ok(None) };
        let bytes = resources.read_heads(bundle, page)?.unwrap_or_default();
        let notes = merkle::decode_entries(&bytes).unwrap_or_default();
        let note = notes.get((head.place % width) as usize);
        Ok(note.and_then(|note| SignedCheckpoint::parse(note).ok()?.verify(log).ok()))
    }
}

/// What a note says if it is a head, whoever signed it.
fn claimed(note: &[u8]) -> Option<(u64, RootHash)> {
    let head = SignedCheckpoint::parse(note).ok()?;
    Some((head.claimed().size.0, head.claimed().root))
}

fn verify(bytes: &[u8], log: &VerifierKey) -> Result<(u64, RootHash), String> {
    let parsed = SignedCheckpoint::parse(bytes).map_err(|error| plain(&error.to_string()))?;
    let verified = parsed.verify(log).map_err(|error| plain(&error.to_string()))?;
    Ok((verified.checkpoint().size.0, verified.checkpoint().root))
}

/// The key of the log that a bundle is about: the one of the policy's logs that its checkpoint names. A checkpoint
/// that cannot be read leaves the policy's only log, if it has only one.
pub(crate) fn choose_log<'policy>(
    policy: &'policy note::Policy,
    checkpoint: Option<&[u8]>,
) -> Result<&'policy VerifierKey, NoLog> {
    let claimed = checkpoint
        .and_then(|bytes| SignedCheckpoint::parse(bytes).ok())
        .map(|checkpoint| checkpoint.claimed().origin.clone());
    match (claimed, policy.logs()) {
        (_, []) => Err(NoLog::PolicyHasNone),
        (Some(origin), logs) => logs
            .iter()
            .find(|log| origin == *log.vkey.name())
            .map(|log| &log.vkey)
            .ok_or_else(|| NoLog::NotPinned(quoted(origin.as_str()))),
        (None, [only]) => Ok(&only.vkey),
        (None, _) => Err(NoLog::Ambiguous),
    }
}

/// Why there is no key to judge the log by.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum NoLog {
    PolicyHasNone,
    /// The checkpoint's origin, quoted.
    NotPinned(String),
    Ambiguous,
}
