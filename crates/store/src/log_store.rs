//! The log's store: a [`Tlog`] of receipts, and the indexes by which they are found.
//!
//! ```text
//! entries, hashes/, heads   the log (tlog.rs): the truth
//! evidence.ndjson           what cannot be derived from it (evidence.rs)
//! issuers/                  (issuer, seq) -> index (issuer_index.rs)      ┐
//! state/                    each issuer's state (state.rs)                ├ derived, and derived again when lost
//! ids.redb                  receipt id -> index (ids.rs)                  ┘
//! ```

use crate::commit::{Commit, Event, Step};
use crate::error::StoreError;
use crate::evidence::{EvidenceFile, EvidenceReader};
use crate::ids::{IdIndex, IdReader};
use crate::issuer_index::{IssuerIndex, IssuerIndexReader};
use crate::reader::TlogReader;
use crate::sealed::Sealed;
use crate::state::State;
use crate::tlog::{Recovery, Tlog};
use bytes::Bytes;
use merkle::{Hash, HashSource, LeafIndex, PageId, ResourcePath, RootHash, TILE_WIDTH, TreeSize, root_of};
use note::{CheckpointError, SignedCheckpoint, Verified, VerifierKey};
use receipt::{Admitted, Body, IssuerName, IssuerState, Receipt, ReceiptId, SeqNo, Shown, admit};
use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};

/// The states are written after so many receipts or so much time; what is newer is replayed at the next start, at
/// some ten thousand receipts a second.
const REMEMBER_AFTER_RECEIPTS: u64 = 16_384;
const REMEMBER_AFTER: Duration = Duration::from_secs(5);

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
}

/// The writing end. Dropping it frees the directory for another process.
#[derive(Debug)]
pub struct LogStore {
    log: Tlog,
    commit: Commit,
    index: IssuerIndex,
    state: State,
    ids: IdIndex,
    evidence: EvidenceFile,
    reader: LogReader,
    remembered: (TreeSize, Instant),
}

/// Reads what is committed. Cheap to clone, and never in the writer's way.
#[derive(Clone, Debug)]
pub struct LogReader {
    log: TlogReader,
    index: IssuerIndexReader,
    issuers: Arc<RwLock<HashMap<IssuerName, IssuerState>>>,
    ids: IdReader,
    evidence: EvidenceReader,
}

impl LogStore {
    /// Makes an empty store in `dir`, which must not exist.
    ///
    /// # Errors
    /// [`StoreError::Exists`]; [`StoreError::Io`].
    pub fn create(dir: &Path) -> Result<(), StoreError> {
        Tlog::create_with(dir, |dir| EvidenceFile::open(dir).map(drop)).map(drop)
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
        let is_ours = |head: &[u8]| {
            let head = SignedCheckpoint::parse(head).and_then(|head| head.verify(log)).ok()?;
            Some((head.checkpoint().size, head.checkpoint().root))
        };
        let (log, recovery) = Tlog::open(dir, &is_ours)?;
        let state = State::open(dir)?;
        let mut index = IssuerIndex::open(dir)?;
        let (mut issuers, from) = recall(&state, &mut index, &log.reader())?;
        let size = log.reader().size();
        replay(&log.reader(), from, &mut issuers, &mut index, progress)?;
        let evidence = EvidenceFile::open(dir)?;
        let ids = IdIndex::open(dir, log.reader())?;
        let reader = LogReader {
            log: log.reader(),
            index: index.reader(),
            issuers: Arc::new(RwLock::new(issuers)),
            ids: ids.reader(),
            evidence: evidence.reader(),
        };
        let recovery =
            LogRecovery { log: recovery, replayed_receipts: size.0 - from.0, rebuilt: from.0 == 0 && size.0 > 0 };
        let remembered = (from, Instant::now());
        let mut store = LogStore { log, commit: Commit::new(), index, state, ids, evidence, reader, remembered };
        if recovery.replayed_receipts > 0 {
            store.remember()?;
        }
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
    /// [`StoreError`]; nothing more can be committed before the store is opened again.
    pub fn commit(
        &mut self,
        admitted: &[Admitted],
        sign: impl FnOnce(TreeSize, RootHash) -> Result<Sealed<SignedCheckpoint<Verified>>, CheckpointError>,
    ) -> Result<CommittedBatch, StoreError> {
        let entries: Vec<&[u8]> = admitted.iter().map(|admitted| admitted.receipt.bytes()).collect();
        let before = self.log.appended().size;
        let mut sign = Some(sign);
        let (mut sealed, mut head) = (None, None);
        let mut step = self.commit.on(Event::Batch);
        loop {
            let done = match step {
                Step::Append => self.log.write(&entries),
                Step::Sync => self.log.sync(before),
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
                Step::Publish => self.publish(admitted, before),
                Step::Answer => match head {
                    Some(head) => return Ok(CommittedBatch { first_index: LeafIndex(before.0), head }),
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
    /// [`StoreError`].
    pub fn append_evidence(&mut self, document: &str) -> Result<bool, StoreError> {
        self.evidence.append(document)
    }

    /// Brings the indexes up to the head that was just recorded.
    fn publish(&mut self, admitted: &[Admitted], before: TreeSize) -> Result<(), StoreError> {
        let mut places: HashMap<&IssuerName, Vec<u64>> = HashMap::new();
        for (index, admitted) in (before.0..).zip(admitted) {
            places.entry(admitted.receipt.issuer()).or_default().push(index);
        }
        for (issuer, indexes) in places {
            self.index.append(issuer, &indexes)?;
        }
        {
            let mut issuers = self.reader.issuers.write().unwrap_or_else(PoisonError::into_inner);
            for admitted in admitted {
                issuers.insert(admitted.receipt.issuer().clone(), admitted.state.clone());
            }
        }
        self.ids.grown();
        let (size, when) = self.remembered;
        if self.reader.size().0 - size.0 >= REMEMBER_AFTER_RECEIPTS || when.elapsed() >= REMEMBER_AFTER {
            self.remember_if_possible();
        }
        Ok(())
    }

    fn remember_if_possible(&mut self) {
        if let Err(error) = self.remember() {
            tracing::warn!(%error, "the issuers' states were not saved; the next start derives them again");
        }
    }

    /// Writes states and indexes as they are, so that the next start has less to replay.
    fn remember(&mut self) -> Result<(), StoreError> {
        self.index.sync()?;
        let tree = self.log.appended();
        let issuers = self.reader.issuers.read().unwrap_or_else(PoisonError::into_inner);
        self.state.remember(tree.size, tree.root, issuers.values())?;
        self.remembered = (tree.size, Instant::now());
        Ok(())
    }
}

impl Drop for LogStore {
    fn drop(&mut self) {
        // Only saves the next start some work; after a failed commit there is nothing sure to save.
        if self.log.appended().size == self.reader.size() && self.remembered.0 != self.reader.size() {
            self.remember_if_possible();
        }
    }
}

impl LogReader {
    /// How many receipts are committed.
    pub fn size(&self) -> TreeSize {
        self.log.size()
    }

    /// The newest signed head, whole; `None` before the first.
    pub fn latest_head(&self) -> Option<Bytes> {
        self.log.latest_head()
    }

    /// As [`TlogReader::resource`].
    ///
    /// # Errors
    /// [`StoreError`] when it cannot be read.
    pub fn resource(&self, path: &ResourcePath) -> Result<Option<Bytes>, StoreError> {
        self.log.resource(path)
    }

    /// One entry, or `None` where there is none.
    ///
    /// # Errors
    /// [`StoreError`] when it cannot be read.
    pub fn entry(&self, index: LeafIndex) -> Result<Option<Bytes>, StoreError> {
        self.log.entry(index)
    }

    /// The state of one issuer, if it is known.
    pub fn issuer(&self, name: &IssuerName) -> Option<IssuerState> {
        self.issuers.read().unwrap_or_else(PoisonError::into_inner).get(name).cloned()
    }

    /// The states of all known issuers, by name.
    pub fn issuers(&self) -> Vec<IssuerState> {
        let issuers = self.issuers.read().unwrap_or_else(PoisonError::into_inner);
        let mut states: Vec<IssuerState> = issuers.values().cloned().collect();
        states.sort_by(|one, other| one.name().cmp(other.name()));
        states
    }

    /// Where the receipt of `issuer` at `seq` is, if there is one. The entry there is read and must be that receipt.
    ///
    /// # Errors
    /// [`StoreError`] when it cannot be read, or the index points elsewhere.
    pub fn index_of(&self, issuer: &IssuerName, seq: SeqNo) -> Result<Option<LeafIndex>, StoreError> {
        if self.issuer(issuer).is_none_or(|state| seq >= state.next_seq()) {
            return Ok(None);
        }
        let Some(index) = self.index.index_of(issuer, seq)? else { return Ok(None) };
        let entry = self.log.entry(index)?;
        let receipt = entry.and_then(|entry| Receipt::parse(&entry).ok());
        match receipt {
            Some(receipt) if receipt.issuer() == issuer && receipt.seq() == seq => Ok(Some(index)),
            _ => {
                let why = format!(
                    "the index says that {issuer} has its receipt {seq} here; stop the log and delete issuers/ and state/"
                );
                Err(StoreError::Damaged {
                    path: self.log.entries_path().to_owned(),
                    what: "entry",
                    position: index.0,
                    why,
                })
            }
        }
    }

    /// The id of the receipt of `issuer` at `seq`, if there is one.
    ///
    /// # Errors
    /// [`StoreError`] when it cannot be read.
    pub fn held_id(&self, issuer: &IssuerName, seq: SeqNo) -> Result<Option<ReceiptId>, StoreError> {
        let Some(index) = self.index_of(issuer, seq)? else { return Ok(None) };
        Ok(self.log.leaf(index)?.map(ReceiptId))
    }

    /// Where the receipt with this id is, if there is one. The hash there must be that id.
    ///
    /// # Errors
    /// [`StoreError`] when it cannot be read, or the index points elsewhere.
    pub fn index_of_id(&self, id: &ReceiptId) -> Result<Option<LeafIndex>, StoreError> {
        let Some(index) = self.ids.index_of(&id.0)? else { return Ok(None) };
        if self.log.leaf(index)? == Some(id.0) {
            return Ok(Some(index));
        }
        let why = "the id index points here for another hash; stop the log and delete ids.redb".to_owned();
        Err(StoreError::Damaged { path: self.log.leaves_path().to_owned(), what: "leaf", position: index.0, why })
    }

    /// Evidence documents `256 page` and up to 255 more; none where there are not that many.
    ///
    /// # Errors
    /// [`StoreError`] when they cannot be read.
    pub fn evidence_page(&self, page: u64) -> Result<Vec<String>, StoreError> {
        self.evidence.page(page)
    }
}

impl HashSource for LogReader {
    fn subtree(&self, level: u8, index: u64) -> Option<Hash> {
        self.log.subtree(level, index)
    }
}

/// The states as they were written last, with the size up to which they speak, and the index files fitted to them;
/// nothing, at size 0, when they speak of another tree or the files lack something.
fn recall(
    state: &State,
    index: &mut IssuerIndex,
    log: &TlogReader,
) -> Result<(HashMap<IssuerName, IssuerState>, TreeSize), StoreError> {
    let start_over = || state.clear().map(|()| (HashMap::new(), TreeSize(0)));
    let Some(remembered) = state.remembered() else { return start_over() };
    let is_ours =
        remembered.size <= log.size() && root_of(log, remembered.size).is_ok_and(|root| root == remembered.root);
    let counted: u64 = remembered.issuers.iter().map(|state| state.next_seq().0).sum();
    if !is_ours || counted != remembered.size.0 {
        return start_over();
    }
    let mut issuers = HashMap::new();
    for state in remembered.issuers {
        if index.count(state.name())? < state.next_seq().0 {
            return start_over();
        }
        index.truncate(state.name(), state.next_seq().0)?;
        issuers.insert(state.name().clone(), state);
    }
    Ok((issuers, remembered.size))
}

/// Runs the rule of admission over the entries from `from` on, as when they were admitted.
fn replay(
    log: &TlogReader,
    from: TreeSize,
    issuers: &mut HashMap<IssuerName, IssuerState>,
    index: &mut IssuerIndex,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<(), StoreError> {
    let size = log.size();
    for page in from.0 / u64::from(TILE_WIDTH)..size.0.div_ceil(u64::from(TILE_WIDTH)) {
        let Some(id) = PageId::at(page, size.0) else { break };
        let bytes = log.resource(&ResourcePath::Entries(id))?.unwrap_or_default();
        let first = page * u64::from(TILE_WIDTH);
        let mut places: HashMap<IssuerName, Vec<u64>> = HashMap::new();
        for (position, entry) in (first..).zip(merkle::decode_entries(&bytes).unwrap_or_default()) {
            if position < from.0 {
                continue;
            }
            let admitted = readmit(entry, issuers, index).map_err(|why| StoreError::Damaged {
                path: log.entries_path().to_owned(),
                what: "entry",
                position,
                why: format!("it would not be admitted where it stands: {why}"),
            })?;
            places.entry(admitted.receipt.issuer().clone()).or_default().push(position);
            issuers.insert(admitted.receipt.issuer().clone(), admitted.state);
        }
        for (issuer, indexes) in places {
            index.append(&issuer, &indexes)?;
        }
        progress(first + u64::from(id.width), size.0);
    }
    Ok(())
}

/// Admits an entry again. An issuer met for the first time was registered with the key that its `open` names.
fn readmit(
    entry: &[u8],
    issuers: &HashMap<IssuerName, IssuerState>,
    index: &mut IssuerIndex,
) -> Result<Admitted, String> {
    let receipt = Receipt::parse(entry).map_err(|malformed| malformed.to_string())?;
    let registered = match (issuers.get(receipt.issuer()), receipt.body()) {
        (Some(state), _) => state.clone(),
        (None, Body::Open(open)) => {
            index.truncate(receipt.issuer(), 0).map_err(|error| error.to_string())?;
            let key = open.vkey.shown().and_then(|vkey| vkey.parse().ok()).ok_or("its open names no key")?;
            IssuerState::registered(key)
        }
        (None, _) => return Err("its issuer was never opened".to_owned()),
    };
    // Whatever stands in the log already is below next_seq, and nothing below next_seq is admitted: no look-up.
    admit(Some(&registered), entry, &|_| None, None).map_err(|refusal| refusal.to_string())
}
