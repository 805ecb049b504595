//! A whole store checked from its entries up, and what is derived made again.
//!
//! Everything that a start believes is looked at as it lies there, so that what the next start would mend by itself is
//! found as well. Nothing is changed but by [`rebuild_indexes`].

use crate::append_file::sync_directory;
use crate::disk::RealDisk;
use crate::error::StoreError;
use crate::finding::{Finding, Findings, Remedy};
use crate::ids_check;
use crate::issuer_index::IssuerIndex;
use crate::log_store::LogStore;
use crate::look::{Newest, keep_still, look};
use crate::reader::TlogReader;
use crate::replay::Places;
use crate::state::{Remembered, State};
use crate::tlog::HASH_COUNT;
use crate::verify::{Inspection, TreeCheck};
use crate::walk::{Item, Read, ReadPage, Work, walk};
use merkle::{Hash, LeafIndex, RootHash, TreeSize, root_of};
use note::{SignedCheckpoint, VerifierKey};
use receipt::{Heading, IssuerName, IssuerState, Judge, Malformed, Receipt, ReceiptId, Roll, Unsigned};
use std::collections::{HashMap, HashSet};
use std::fs;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

/// Places of receipts that are gathered before they are compared with the issuers' arrays: 1 MB, and as many arrays are
/// opened a time as there are issuers among them.
const PLACES_AT_ONCE: usize = 131_072;

/// What [`inspect`] found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StoreReport {
    /// What is not as it must be.
    pub findings: Findings,
    /// Entries and heads that were looked at.
    pub looked_at: Inspection,
    /// Issuers with receipts.
    pub issuers: u64,
    /// Receipts that the rule was not applied to, because others of their issuer before them are damaged.
    pub unjudged: u64,
    /// Up to which size the saved states speak, if they do.
    pub states_saved_at: Option<TreeSize>,
}

/// Checks the store in `dir` of the log with key `log`, from its entries up: every hash, head, receipt (by the rule of
/// admission), the issuers' arrays, the id index, the saved states, evidence. Changes
/// nothing. Without `signatures` those are left out, and the bodies of all receipts but `open`, `rotate` and `close`. `progress` hears how many entries of how many are done.
///
/// # Errors
/// [`StoreError`] when it cannot be looked at; [`StoreError::InUse`] while a process has it open.
pub fn inspect(
    dir: &Path,
    log: &VerifierKey,
    signatures: bool,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<StoreReport, StoreError> {
    let _still = keep_still(dir)?;
    let signed = |head: &[u8]| signed_by(log, head);
    let mut report = StoreReport::default();
    let looked = match look(dir, &signed, Newest::Recorded) {
        Ok(looked) => looked,
        Err(error) => return as_finding(error, dir).map(|finding| report.with(finding)),
    };
    for file in [&looked.entries, &looked.heads] {
        if let Some(page) = file.wrong_offset()? {
            let path = file.path().with_extension("offsets");
            report.findings.add(Finding::derived(&path, "page", page, "it begins elsewhere"));
        }
    }
    let claimed = |head: &[u8]| claimed_by(log, head);
    let saved = match State::look(dir, &copy_name()) {
        Ok(saved) => saved,
        Err(why) => {
            report.findings.add(Finding::derived(&dir.join("state"), "byte", 0, format!("no sound database: {why}")));
            None
        }
    };
    let index = IssuerIndex::look(dir);
    let tree = TreeCheck::new(looked.reader.stored(), if signatures { &signed } else { &claimed });
    let judge = StoreJudge::new(&looked.reader, &index, tree, signatures, saved, report);
    let mut report = judge.run(progress)?.0;
    // Ids are compared with the leaf hashes, which have to be right for that.
    if !report.findings.in_hashes() {
        ids_check::check_file(&dir.join("ids.redb"), &looked.reader, &mut report.findings);
    }
    crate::evidence::check(dir, &mut report.findings)?;
    Ok(report)
}

/// Deletes everything in the store in `dir` that is derived, with `hashes` those too, and makes it again.
///
/// # Errors
/// [`StoreError`]; what was deleted then is made again at the next start.
pub fn rebuild_indexes(
    dir: &Path,
    log: &VerifierKey,
    hashes: bool,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<(), StoreError> {
    let still = keep_still(dir)?;
    forget(dir, hashes)?;
    drop(still);
    // A log that is started in between makes it again by itself, and is found to have the store open.
    let (store, _) = LogStore::open(dir, log, progress)?;
    store.catch_up()
}

/// Deletes what is derived. The caller holds the lock.
fn forget(dir: &Path, hashes: bool) -> Result<(), StoreError> {
    let gone = |path: &Path, removed: std::io::Result<()>| match removed {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(StoreError::io(path, error)),
        _ => Ok(()),
    };
    for name in ["state", "issuers", "hashes"].into_iter().filter(|name| hashes || *name != "hashes") {
        let path = dir.join(name);
        gone(&path, fs::remove_dir_all(&path))?;
    }
    if hashes {
        let path = dir.join(HASH_COUNT);
        gone(&path, fs::remove_file(&path))?;
    }
    for name in ["ids.redb", "entries.offsets", "heads.offsets"] {
        let path = dir.join(name);
        gone(&path, fs::remove_file(&path))?;
    }
    sync_directory(&RealDisk, dir)
}

impl StoreReport {
    fn with(mut self, finding: Finding) -> StoreReport {
        self.findings.add(finding);
        self
    }
}

/// What makes it impossible to look further, as a finding if it is one.
fn as_finding(error: StoreError, dir: &Path) -> Result<Finding, StoreError> {
    match error {
        StoreError::Damaged { path, what, position, why } => Ok(Finding {
            path,
            what,
            position,
            why: format!("{why}; nothing else was looked at"),
            remedy: Remedy::Restore,
        }),
        StoreError::Io { path, source }
            if source.kind() == std::io::ErrorKind::NotFound && path.starts_with(dir.join("hashes")) =>
        {
            Ok(Finding::derived(&path, "hash", 0, "the file is not there; nothing else was looked at"))
        }
        other => Err(other),
    }
}

/// A name that nobody else has, for a copy of the states.
fn copy_name() -> std::path::PathBuf {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos());
    std::env::temp_dir().join(format!("counterfoil-states-{}-{now}", std::process::id()))
}

/// What a head says, if `log` signed it.
pub(crate) fn signed_by(log: &VerifierKey, head: &[u8]) -> Option<(TreeSize, RootHash)> {
    let head = SignedCheckpoint::parse(head).and_then(|head| head.verify(log)).ok()?;
    Some((head.checkpoint().size, head.checkpoint().root))
}

/// What a head says, if it says that it is `log`'s.
fn claimed_by(log: &VerifierKey, head: &[u8]) -> Option<(TreeSize, RootHash)> {
    let head = SignedCheckpoint::parse(head).ok()?;
    let claimed = head.claimed();
    (claimed.origin.as_str() == log.name().as_str()).then_some((claimed.size, claimed.root))
}

/// Everything about the entries, in one pass.
pub(crate) struct StoreJudge<'a> {
    log: &'a TlogReader,
    index: &'a IssuerIndex,
    tree: TreeCheck<'a>,
    signatures: bool,
    saved: Option<Remembered>,
    /// How many receipts each issuer had when the states were saved: so many its array must have.
    saved_counts: HashMap<IssuerName, u64>,
    roll: Roll,
    places: Places,
    /// Something is damaged: what the rule says of later receipts may only follow from that.
    is_damaged: bool,
    /// Whose receipts are not judged any more.
    lost_track: HashSet<IssuerName>,
    report: StoreReport,
}

impl<'a> StoreJudge<'a> {
    pub(crate) fn new(
        log: &'a TlogReader,
        index: &'a IssuerIndex,
        tree: TreeCheck<'a>,
        signatures: bool,
        saved: Option<Remembered>,
        report: StoreReport,
    ) -> StoreJudge<'a> {
        let states_saved_at = saved.as_ref().map(|saved| saved.size);
        let issuers = saved.iter().flat_map(|saved| &saved.issuers);
        let saved_counts = issuers.map(|state| (state.name().clone(), state.next_seq().0)).collect();
        StoreJudge {
            log,
            index,
            tree,
            signatures,
            saved,
            saved_counts,
            roll: Roll::of_openers(),
            places: Places::default(),
            is_damaged: false,
            lost_track: HashSet::new(),
            report: StoreReport { states_saved_at, ..report },
        }
    }

    /// Wants every array to hold at least so many places.
    pub(crate) fn with_counts(mut self, counts: HashMap<IssuerName, u64>) -> StoreJudge<'a> {
        self.saved_counts = counts;
        self
    }

    /// Reads and judges everything. Answers the states after the last receipt too.
    pub(crate) fn run(
        mut self,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<(StoreReport, HashMap<IssuerName, IssuerState>), StoreError> {
        let stored = self.log.stored();
        let read = if self.signatures { Read::Whole } else { Read::Glance };
        let source = stored.source(Work { compare: true, read });
        walk(&source, TreeSize(0), &mut self, progress)?;
        self.tree.finish(&mut self.report.findings)?;
        self.compare_places()?;
        // Whose a damaged entry is, and so whose last receipt is not known, nobody can tell.
        if !self.is_damaged {
            self.compare_lengths()?;
            self.compare_states(stored.size);
        }
        if let Some(saved) = self.saved.take().filter(|saved| saved.size > stored.size) {
            let why = format!("the states speak of {} receipts and {} are there", saved.size, stored.size);
            self.report.findings.add(Finding::derived(&self.state_path(), "leaf", stored.size.0, why));
        }
        self.report.looked_at = Inspection { entries: stored.size.0, heads: stored.head_count };
        self.report.issuers = self.roll.states().len() as u64;
        Ok((self.report, self.roll.into_states()))
    }

    fn judge(&mut self, index: LeafIndex, receipt: Receipt, unsigned: &mut Vec<Unsigned>) {
        if !self.lost_track.is_empty() && self.lost_track.contains(receipt.issuer()) {
            self.report.unjudged += 1;
            return;
        }
        let issuer = receipt.issuer().clone();
        match self.roll.place(index, receipt, None) {
            Ok(placed) => {
                self.places.add(placed.receipt.issuer(), placed.receipt.seq(), index);
                if self.signatures {
                    unsigned.push(placed);
                }
            }
            Err(refusal) => {
                self.refused(index, &refusal.to_string());
                self.lost_track.insert(issuer);
            }
        }
    }

    /// Moves the issuer on by a receipt of which no more than this was read, if it follows.
    fn follows(&mut self, index: LeafIndex, heading: &Heading, leaf: Hash) -> bool {
        if !self.lost_track.is_empty() && self.lost_track.contains(&heading.issuer) {
            self.report.unjudged += 1;
            return true;
        }
        let follows = self.roll.follow(heading, ReceiptId(leaf));
        if follows {
            self.places.add(&heading.issuer, heading.seq, index);
        }
        follows
    }

    fn malformed(&mut self, index: LeafIndex, malformed: &Malformed) {
        self.refused(index, &malformed.to_string());
        // Whose it is nobody knows, so whose next one will not fit is not known either.
        self.is_damaged = true;
    }

    fn refused(&mut self, index: LeafIndex, why: &str) {
        if self.is_damaged || self.tree.has_strayed() {
            self.report.unjudged += 1;
            return;
        }
        let why = format!("it would not be admitted where it stands: {why}");
        self.report.findings.add(Finding::lost(self.log.entries_path(), "entry", index.0, why));
    }

    /// Compares what was gathered with the issuers' arrays. An array may end early: what is newer than the saved states
    /// is added at the next start.
    fn compare_places(&mut self) -> Result<(), StoreError> {
        for (issuer, first, places) in self.places.take() {
            let said = self.index.places(&issuer, first, places.len())?;
            let path = self.index.path(&issuer);
            for (seq, (said, is)) in (first.0..).zip(said.iter().zip(&places)).filter(|(_, (said, is))| said != is) {
                let why = format!("it says that receipt {seq} of {issuer} is at leaf {said}, and it is at leaf {is}");
                self.report.findings.add(Finding::derived(&path, "place", seq, why));
            }
        }
        Ok(())
    }

    fn compare_lengths(&mut self) -> Result<(), StoreError> {
        let mut known = HashSet::new();
        for state in self.roll.states().values() {
            let path = self.index.path(state.name());
            known.insert(path.clone());
            if self.lost_track.contains(state.name()) {
                continue;
            }
            let (count, is) = (self.index.count(state.name())?, state.next_seq().0);
            let least = self.saved_counts.get(state.name()).copied().unwrap_or(0);
            let wrong = if count > is {
                Some((is, format!("it has {count} places, and {} has {is} receipts", state.name())))
            } else if count < least {
                Some((count, format!("it ends here, and {} had {least} receipts when it was saved", state.name())))
            } else {
                None
            };
            if let Some((place, why)) = wrong {
                self.report.findings.add(Finding::derived(&path, "place", place, why));
            }
        }
        if self.lost_track.is_empty() {
            for path in self.index.arrays()?.into_iter().filter(|path| !known.contains(path)) {
                self.report.findings.add(Finding::derived(&path, "place", 0, "no issuer with receipts has this array"));
            }
        }
        Ok(())
    }

    /// Compares the saved states with those at the size that they were saved at, when that is `size`.
    fn compare_states(&mut self, size: TreeSize) {
        let Some(saved) = self.saved.take_if(|saved| saved.size == size) else { return };
        let path = self.state_path();
        let tree = root_of(self.log, size).ok();
        if tree != Some(saved.root) && self.report.findings.is_empty() {
            self.report.findings.add(Finding::derived(&path, "leaf", size.0, "the states are of another tree"));
        }
        let saved: HashMap<&IssuerName, &IssuerState> = saved.issuers.iter().map(|one| (one.name(), one)).collect();
        let names: HashSet<&IssuerName> = saved.keys().copied().chain(self.roll.states().keys()).collect();
        for name in names.into_iter().filter(|name| !self.lost_track.contains(*name)) {
            if saved.get(name).copied() != self.roll.states().get(name) {
                let why = format!("the saved state of {name} is not the one after its receipts");
                self.report.findings.add(Finding::derived(&path, "leaf", size.0, why));
            }
        }
    }

    fn state_path(&self) -> std::path::PathBuf {
        self.log.entries_path().with_file_name("state")
    }
}

impl Judge for StoreJudge<'_> {
    type Page = ReadPage;
    type Error = StoreError;

    fn page(&mut self, page: ReadPage, unsigned: &mut Vec<Unsigned>) -> Result<(), StoreError> {
        let damaged = self.tree.page(&page, &mut self.report.findings)?;
        self.is_damaged |= !damaged.is_empty();
        for ((index, item), leaf) in (page.first..).map(LeafIndex).zip(page.items).zip(page.leaves) {
            if !self.is_damaged && self.saved.as_ref().is_some_and(|saved| saved.size.0 == index.0) {
                self.compare_states(TreeSize(index.0));
            }
            if damaged.binary_search(&index.0).is_ok() {
                continue;
            }
            match item {
                Item::Heading(heading) if self.follows(index, &heading, leaf) => {}
                // The rule itself is to say why not.
                Item::Heading(_) => match self.log.entry(index)?.map(|entry| Receipt::parse(&entry)) {
                    Some(Ok(receipt)) => self.judge(index, receipt, unsigned),
                    Some(Err(malformed)) => self.malformed(index, &malformed),
                    None => {}
                },
                Item::Receipt(Ok(receipt)) => self.judge(index, receipt, unsigned),
                Item::Receipt(Err(malformed)) => self.malformed(index, &malformed),
            }
        }
        if self.places.count() >= PLACES_AT_ONCE { self.compare_places() } else { Ok(()) }
    }

    fn bad_signature(&mut self, unsigned: &Unsigned) -> Result<(), StoreError> {
        self.refused(unsigned.index, &unsigned.refusal().to_string());
        Ok(())
    }
}
