//! The log's store: a [`Tlog`] of receipts, and the indexes by which they are found.
//!
//! ```text
//! entries, hashes/, heads   the log (tlog.rs): the truth
//! evidence.ndjson           what cannot be derived from it (evidence.rs)
//! issuers/                  (issuer, seq) -> index (issuer_index.rs)      ┐
//! state/                    each issuer's state (state.rs)                ├ derived, and derived again when lost
//! ids.redb                  receipt id -> index (ids.rs)                  ┘
//! ```
//!
//! Holds the shell of a commit ([`crate::commit`]) and what a start has to do. Does not hold who may submit: an issuer
//! that has no receipts yet is known only as long as somebody registers it at every start.

use crate::append_file::sync_directory;
use crate::commit::{Commit, Event, Step};
use crate::disk::{Disk, RealDisk};
use crate::error::StoreError;
use crate::evidence::EvidenceFile;
use crate::finding::Remedy;
use crate::ids::IdIndex;
use crate::inspect::{StoreJudge, StoreReport, signed_by};
use crate::issuer_index::IssuerIndex;
use crate::log_reader::LogReader;
use crate::reader::TlogReader;
use crate::replay::{Places, replay};
use crate::saver::{Save, Saver};
use crate::sealed::Sealed;
use crate::state::State;
use crate::tlog::{Recovery, Tlog, frontier_of};
use crate::verify::{Inspection, TreeCheck};
use merkle::{EdgeTree, LeafIndex, RootHash, TILE_WIDTH, TreeSize, root_of};
use note::{CheckpointError, SignedCheckpoint, Verified, VerifierKey};
use receipt::{Admitted, IssuerName, IssuerState, SeqNo};
use std::collections::{HashMap, HashSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};

/// The states are saved after so many receipts or so much time; what is newer is replayed at the next start, which
/// takes a second or two.
const SAVE_AFTER_RECEIPTS: u64 = 16_384;
const SAVE_AFTER: Duration = Duration::from_secs(5);

/// What a log was found to be at its start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LogRecovery {
    /// Of the log itself.
    pub log: Recovery,
    /// Receipts that were replayed to bring indexes and states up to the last head.
    pub replayed_receipts: u64,
    /// Whether all of it was derived again from the first entry on.
    pub rebuilt: bool,
}

/// A batch that is in the log.
#[derive(Debug, Clone)]
pub struct CommittedBatch {
    /// Where its first receipt is; the others follow.
    pub first_index: LeafIndex,
    /// The durable signed head that covers it.
    pub head: SignedCheckpoint<Verified>,
    /// The tree's right edge under that head, from which everything in the batch can be proven.
    pub edge: EdgeTree,
    /// How long its entries' sync took: what the disk asks for.
    pub sync_time: Duration,
}

/// What [`LogStore::verify_all`] found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LogInspection {
    /// Of the log itself: all of it is right.
    pub log: Inspection,
    /// Issuers with receipts, every one of which would be admitted again where it stands.
    pub issuers: u64,
    /// Things found by an index elsewhere than they are, or not at all. [`LogStore::forget_indexes`] mends that.
    pub wrong_in_indexes: u64,
}

/// The writing end. Dropping it frees the directory for another process.
#[derive(Debug)]
pub struct LogStore {
    disk: Arc<dyn Disk>,
    databases: PathBuf,
    log: Tlog,
    key: VerifierKey,
    commit: Commit,
    index: IssuerIndex,
    saver: Saver,
    ids: IdIndex,
    evidence: EvidenceFile,
    reader: LogReader,
    /// Begins at the last tile's boundary before the next receipt.
    edge: EdgeTree,
    /// States that changed since the last save, which was at that size and time.
    unsaved: HashMap<IssuerName, IssuerState>,
    saved: (TreeSize, Instant),
}

impl LogStore {
    /// Makes an empty store in `dir`, which must not exist.
    ///
    /// # Errors
    /// [`StoreError::Exists`]; [`StoreError::Io`].
    pub fn create(dir: &Path) -> Result<(), StoreError> {
        LogStore::create_on(&RealDisk, dir)
    }

    /// As [`LogStore::create`], on a disk of the caller's.
    ///
    /// # Errors
    /// As [`LogStore::create`].
    pub fn create_on(disk: &dyn Disk, dir: &Path) -> Result<(), StoreError> {
        Tlog::create_with(disk, dir, |dir| EvidenceFile::open_json_on(disk, dir).map(drop)).map(drop)
    }

    /// Opens the store in `dir` and recovers (see [`Tlog::open`]); heads must be signed by `log`. `progress` hears how
    /// many receipts of how many are replayed.
    ///
    /// # Errors
    /// [`StoreError`]; [`StoreError::InUse`] while another process has it.
    pub fn open(
        dir: &Path,
        log: &VerifierKey,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<(LogStore, LogRecovery), StoreError> {
        LogStore::open_on(&RealDisk::shared(), dir, dir, log, progress)
    }

    /// As [`LogStore::open`], on a disk of the caller's. The two databases, which bring files of their own and hold
    /// nothing that cannot be derived again, lie in `databases`, a directory of this machine.
    ///
    /// # Errors
    /// As [`LogStore::open`].
    pub fn open_on(
        disk: &Arc<dyn Disk>,
        dir: &Path,
        databases: &Path,
        log: &VerifierKey,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<(LogStore, LogRecovery), StoreError> {
        let key = log.clone();
        let (log, recovery) = Tlog::open_on(&**disk, dir, &|head| signed_by(&key, head))?;
        let evidence = EvidenceFile::open_json_on(&**disk, dir)?;
        let state = State::open(databases)?;
        let index = IssuerIndex::open(disk, dir)?;
        let (size, (mut issuers, from)) = (log.reader().size(), recall(&state, &index, &log.reader())?);
        let mut moved_on = HashSet::new();
        let mut append = |places: &mut Places| {
            places.take().try_for_each(|(issuer, first, places)| {
                index.append(&issuer, first, &places)?;
                moved_on.insert(issuer);
                Ok(())
            })
        };
        replay(&log.reader(), from, &mut issuers, &mut append, progress)?;
        let states = moved_on.iter().filter_map(|name| Some((name.clone(), issuers.get(name)?.clone())));
        let unsaved = states.collect();
        let ids = IdIndex::open(databases, log.reader())?;
        sync_directory(&**disk, dir)?;
        let reader = LogReader {
            log: log.reader(),
            index: index.clone(),
            issuers: Arc::new(RwLock::new(issuers)),
            ids: ids.reader(),
            evidence: evidence.reader(),
        };
        let rebuilt = from.0 == 0 && size.0 > 0;
        let recovery = LogRecovery { log: recovery, replayed_receipts: size.0 - from.0, rebuilt };
        let saver = Saver::start(state, index.clone(), moved_on)?;
        let saved = (from, Instant::now());
        let commit = Commit::new();
        let edge = edge_of(&log.reader())?;
        let (disk, databases) = (Arc::clone(disk), databases.to_owned());
        let mut store =
            LogStore { disk, databases, log, key, commit, index, saver, ids, evidence, reader, edge, unsaved, saved };
        store.save_if_due();
        Ok((store, recovery))
    }

    /// For those who read.
    pub fn reader(&self) -> LogReader {
        self.reader.clone()
    }

    /// Makes an issuer known under its key. One that is known keeps the key it was registered with.
    pub fn register(&mut self, key: &VerifierKey) {
        let name = IssuerName(key.name().clone());
        let mut issuers = self.reader.issuers.write().unwrap_or_else(PoisonError::into_inner);
        issuers.entry(name).or_insert_with(|| IssuerState::registered(key.clone()));
    }

    /// Commits receipts that were admitted one after the other, each with the issuer's state after it. `sign` makes
    /// the head for a size and a root. When this returns, everything is durable and published. An empty batch signs
    /// a head over the tree as it is.
    ///
    /// # Errors
    /// [`StoreError::OutOfPlace`], and nothing has changed; any other [`StoreError`], and nothing more can be committed
    /// before the store is opened again.
    pub fn commit(
        &mut self,
        admitted: &[Admitted],
        sign: impl FnOnce(TreeSize, RootHash) -> Result<Sealed<SignedCheckpoint<Verified>>, CheckpointError>,
    ) -> Result<CommittedBatch, StoreError> {
        self.reader.would_follow(admitted)?;
        let entries: Vec<&[u8]> = admitted.iter().map(|admitted| admitted.receipt.bytes()).collect();
        let before = self.log.appended().size;
        let mut sign = Some(sign);
        let (mut sealed, mut head, mut sync_time) = (None, None, Duration::ZERO);
        let mut step = self.commit.on(Event::Batch);
        loop {
            let done = match step {
                Step::Append => self.log.write(&entries),
                Step::Sync => {
                    let started = Instant::now();
                    let synced = self.log.sync();
                    sync_time = started.elapsed();
                    synced
                }
                Step::ReadBack => self.log.read_back(before),
                Step::Sign => {
                    let tree = self.log.appended();
                    let signed = sign.take().map(|sign| sign(tree.size, tree.root)).transpose();
                    signed.map(|signed| sealed = signed).map_err(StoreError::from)
                }
                Step::Record => match sealed.take() {
                    Some(sealed) => self.log.record_head(sealed).map(|recorded| head = Some(recorded)),
                    None => Err(StoreError::Poisoned),
                },
                Step::Publish => {
                    self.publish(admitted, before);
                    Ok(())
                }
                Step::Answer => match head {
                    Some(head) => {
                        let edge = self.edge.clone();
                        self.edge.settle();
                        return Ok(CommittedBatch { first_index: LeafIndex(before.0), head, edge, sync_time });
                    }
                    None => Err(StoreError::Poisoned),
                },
                Step::Stop => return Err(StoreError::Poisoned),
            };
            if let Err(error) = done {
                self.commit.on(Event::Failed);
                return Err(error);
            }
            step = self.commit.on(Event::Done);
        }
    }

    /// Keeps an evidence document, durably. Answers whether it is new.
    ///
    /// # Errors
    /// [`StoreError::NotADocument`], and nothing has changed; any other, and the store takes nothing more, receipts
    /// included, before it is opened again.
    pub fn append_evidence(&mut self, document: &str) -> Result<bool, StoreError> {
        if self.commit.is_stopped() {
            return Err(StoreError::Poisoned);
        }
        let appended = self.evidence.append(document);
        if appended.as_ref().is_err_and(|error| !matches!(error, StoreError::NotADocument { .. })) {
            self.commit.on(Event::Failed);
        }
        appended
    }

    /// Reads everything and checks it: hashes and heads as [`Tlog::verify_all`], then every receipt by the rule of
    /// admission, signatures included, and what the indexes say of it. `progress` hears how many receipts of how many
    /// are done.
    ///
    /// # Errors
    /// [`StoreError::Damaged`] with the first place where the log itself is wrong.
    pub fn verify_all(&self, progress: &mut dyn FnMut(u64, u64)) -> Result<LogInspection, StoreError> {
        let check = |head: &[u8]| signed_by(&self.key, head);
        let log = &self.reader.log;
        let tree = TreeCheck::new(log.stored(), &check);
        let judge = StoreJudge::new(log, &self.index, tree, true, None, StoreReport::default());
        let counts = self.reader.issuers().iter().map(|state| (state.name().clone(), state.next_seq().0)).collect();
        let (mut report, states) = judge.with_counts(counts).run(progress)?;
        self.ids.check(&mut report.findings)?;
        if let Some(lost) = report.findings.first().iter().find(|finding| finding.remedy == Remedy::Restore) {
            return Err(lost.into());
        }
        if let Some(hash) = report.findings.first().iter().find(|finding| finding.what == "hash") {
            return Err(hash.into());
        }
        let wrong_states = states.values().filter(|state| self.reader.issuer(state.name()).as_ref() != Some(state));
        let wrong_in_indexes = report.findings.count() + wrong_states.count() as u64;
        Ok(LogInspection { log: report.looked_at, issuers: report.issuers, wrong_in_indexes })
    }

    /// Waits until what is derived behind the commits is derived.
    ///
    /// # Errors
    /// [`StoreError::Index`].
    pub fn catch_up(&self) -> Result<(), StoreError> {
        self.ids.catch_up()
    }

    /// Closes the store and deletes everything in it that is derived, but for the hashes. The next start derives it
    /// again.
    ///
    /// # Errors
    /// [`StoreError::Io`].
    pub fn forget_indexes(mut self) -> Result<(), StoreError> {
        let dir = self.log.dir().to_owned();
        self.saved.0 = self.reader.size();
        self.saver.finish(None);
        self.ids.finish();
        // The lock goes with `self`, so it is held until the end.
        let (issuers, state, ids) =
            (dir.join("issuers"), self.databases.join("state"), self.databases.join("ids.redb"));
        self.disk.remove_dir_all(&issuers).map_err(|error| StoreError::io(&issuers, error))?;
        fs::remove_dir_all(&state).map_err(|error| StoreError::io(&state, error))?;
        match fs::remove_file(&ids) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(StoreError::io(&ids, error)),
            _ => {}
        }
        sync_directory(&*self.disk, &dir)
    }

    /// Brings the indexes up to the head that was just recorded.
    fn publish(&mut self, admitted: &[Admitted], before: TreeSize) {
        add_to_index(&self.index, before.0, admitted);
        {
            let mut issuers = self.reader.issuers.write().unwrap_or_else(PoisonError::into_inner);
            for one in admitted {
                issuers.insert(one.receipt.issuer().clone(), one.state.clone());
                self.unsaved.insert(one.receipt.issuer().clone(), one.state.clone());
            }
        }
        // A leaf's hash is its receipt's id.
        admitted.iter().for_each(|one| self.edge.push(one.receipt.id().0));
        self.ids.grown();
        self.save_if_due();
    }

    fn save_if_due(&mut self) {
        let (size, when) = self.saved;
        let grown = self.reader.size().0 - size.0;
        let is_due = grown >= SAVE_AFTER_RECEIPTS || grown > 0 && when.elapsed() >= SAVE_AFTER;
        // While the save before is not done, the next commit asks again.
        if is_due && self.saver.is_free() {
            let save = self.save();
            self.saver.save(save);
            self.saved = (self.reader.size(), Instant::now());
        }
    }

    fn save(&mut self) -> Save {
        let tree = self.log.appended();
        Save { size: tree.size, root: tree.root, states: self.unsaved.drain().map(|(_, state)| state).collect() }
    }
}

impl Drop for LogStore {
    fn drop(&mut self) {
        // Only saves the next start some work; after a failed commit there is nothing sure to save.
        let is_sure = self.log.appended().size == self.reader.size();
        let last = (is_sure && self.saved.0 != self.reader.size()).then(|| self.save());
        self.saver.finish(last);
    }
}

impl LogReader {
    /// Whether each receipt is the next one of its issuer, as the states have it.
    fn would_follow(&self, admitted: &[Admitted]) -> Result<(), StoreError> {
        let issuers = self.issuers.read().unwrap_or_else(PoisonError::into_inner);
        let mut next: HashMap<&IssuerName, SeqNo> = HashMap::new();
        for one in admitted {
            let (issuer, seq) = (one.receipt.issuer(), one.receipt.seq());
            let known = || issuers.get(issuer).map_or(SeqNo(0), IssuerState::next_seq);
            if *next.entry(issuer).or_insert_with(known) != seq || one.state.next_seq() <= seq {
                return Err(StoreError::OutOfPlace { issuer: issuer.clone(), seq });
            }
            next.insert(issuer, one.state.next_seq());
        }
        Ok(())
    }
}

/// Adds receipts that follow one another from leaf `first` on to their issuers' arrays.
fn add_to_index(index: &IssuerIndex, first: u64, admitted: &[Admitted]) {
    let place = |(index, one): (u64, &Admitted)| (one.receipt.issuer().clone(), one.receipt.seq(), LeafIndex(index));
    index.add((first..).zip(admitted).map(place));
}

/// The right edge of the log's tree.
fn edge_of(log: &TlogReader) -> Result<EdgeTree, StoreError> {
    let size = log.size();
    let start = size.0 / u64::from(TILE_WIDTH) * u64::from(TILE_WIDTH);
    let left = frontier_of(log, TreeSize(start))?;
    let mut edge = EdgeTree::new(left).ok_or(StoreError::WrongRoot { size })?;
    log.leaves(LeafIndex(start), (size.0 - start) as usize)?.into_iter().for_each(|leaf| edge.push(leaf));
    Ok(edge)
}

/// The states as they were saved last, with the size up to which they speak, and the arrays fitted to them; nothing,
/// at size 0, when they speak of another tree or the arrays lack something.
fn recall(
    state: &State,
    index: &IssuerIndex,
    log: &TlogReader,
) -> Result<(HashMap<IssuerName, IssuerState>, TreeSize), StoreError> {
    let saved = state.remembered().filter(|saved| {
        let counted: u64 = saved.issuers.iter().map(|state| state.next_seq().0).sum();
        saved.size <= log.size()
            && counted == saved.size.0
            && root_of(log, saved.size).is_ok_and(|root| root == saved.root)
    });
    if let Some(saved) = saved {
        let issuers: HashMap<_, _> = saved.issuers.into_iter().map(|state| (state.name().clone(), state)).collect();
        if index.fit(issuers.values().map(|state| (state.name(), state.next_seq())))? {
            return Ok((issuers, saved.size));
        }
    }
    // In this order, and the first durable before the second: states that came back after a power cut would vouch for arrays
    // whose lengths are right and whose content was never synced.
    state.clear()?;
    index.fit(std::iter::empty())?;
    Ok((HashMap::new(), TreeSize(0)))
}
