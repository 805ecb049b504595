//! The journal on disk: a tiled log of its own, with its own key. It is also the witness's memory: a head is held when a
//! durable line says so, and that alone opens the seal of its cosignature.
//!
//! ```text
//! state/journal/   the tiled log
//! state/held       what its lines tell of the heads held (memory.rs), so that a start reads only the newest of them
//! state/floor      the time below which nothing is signed any more (store::TimestampFloor)
//! ```
//!
//! Holds the writing of lines, the head over them, and what a start makes of them. Does not hold what is written when
//! (`fold`, `keeper`) nor who waits for it (`committer`). Lines count as written once a head over them is durable;
//! what a crash leaves behind that is dropped by the store.

use crate::broken::Broken;
use crate::journal::line::JournalLine;
use crate::journal::memory::Memory;
use merkle::{EMPTY_ROOT, LeafIndex, PageId, ResourcePath, RootHash, TILE_WIDTH, TreeSize};
use note::{Checkpoint, CheckpointError, KeyName, NameError, Origin, SignedCheckpoint, SigningKey, VerifierKey};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use store::disk::Disk;
use store::{Again, Appended, Cosigned, DurableTime, Sealed, StoreError, TimestampFloor, Tlog, TlogReader};

/// What follows a witness's name in the name of its journal.
pub const SUFFIX: &str = "/journal";

/// The journal's directory below the state directory.
pub const JOURNAL: &str = "journal";

/// The snapshot below the state directory.
const HELD: &str = "held";

/// A snapshot is written after so many lines: some 0.1 s of reading for the next start, and for a thousand logs half a
/// megabyte to write.
const SNAPSHOT_AFTER: u64 = 16_384;

/// A journal that is whole is at most a minute's fold, and some, behind the times that were released.
const BEHIND_S: u64 = 180;

/// The journal, for the one who writes.
#[derive(Debug)]
pub struct Journal {
    log: Tlog,
    key: SigningKey,
    floor: TimestampFloor,
    memory: Memory,
    /// How many lines the snapshot on disk covers.
    snapshot: u64,
    disk: Arc<dyn Disk>,
    state: PathBuf,
    reader: JournalReader,
}

/// The journal, for those who read.
#[derive(Debug, Clone)]
pub struct JournalReader {
    log: TlogReader,
    vkey: VerifierKey,
    durable: DurableTime,
}

/// What is sealed until its line, or its time, is durable.
#[derive(Debug)]
pub enum Seal {
    /// A head not held before.
    New(Box<Sealed<Cosigned>>),
    /// The head held, with a later time.
    Again(Box<Sealed<Again>>),
}

/// One thing to write: lines, and what may leave when they are durable.
#[derive(Debug)]
pub struct Record {
    /// The lines; none where only a time has to be durable.
    pub lines: Vec<JournalLine>,
    /// What waits for them.
    pub seal: Option<Seal>,
}

/// The name, and origin, of the journal of the witness with this name.
pub fn journal_name(witness: &KeyName) -> Result<KeyName, NameError> {
    KeyName::new(&format!("{witness}{SUFFIX}"))
}

impl Journal {
    /// Makes an empty journal in the directory `state`, where there must be none.
    ///
    /// # Errors
    /// [`Broken::Store`].
    pub fn create(disk: &dyn Disk, state: &Path) -> Result<(), Broken> {
        Tlog::create_on(disk, &state.join(JOURNAL)).map(drop).map_err(Broken::Store)
    }

    /// Whether there is anything of a journal in the directory `state`.
    ///
    /// # Errors
    /// [`Broken::Store`]: that cannot be found out.
    pub fn is_there(disk: &dyn Disk, state: &Path) -> Result<bool, Broken> {
        for file in ["entries", "heads"] {
            let path = state.join(JOURNAL).join(file);
            if disk.find(&path).map_err(|source| StoreError::Io { path, source })?.is_some() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Opens the journal in the directory `state` and reads what it tells; `key` is the journal's own. `evidence` is how
    /// many documents of evidence there are.
    ///
    /// # Errors
    /// [`Broken`]: it is damaged, or older than what was derived from it.
    pub fn open(disk: Arc<dyn Disk>, state: &Path, key: SigningKey, evidence: u64) -> Result<Journal, Broken> {
        let dir = state.join(JOURNAL);
        let vkey = key.verifier();
        let is_ours = |head: &[u8]| -> Option<(TreeSize, RootHash)> {
            let head = SignedCheckpoint::parse(head).and_then(|head| head.verify(&vkey)).ok()?;
            Some((head.checkpoint().size, head.checkpoint().root))
        };
        let (mut log, recovery) = Tlog::open_on(&*disk, &dir, &is_ours)?;
        tracing::debug!(?recovery, "journal opened");
        let mut floor = TimestampFloor::open(&*disk, state)?;
        let reader = JournalReader { log: log.reader(), vkey: vkey.clone(), durable: floor.durable() };
        if reader.log.latest_head().is_none() {
            let head = head(&key, Appended { size: TreeSize(0), root: EMPTY_ROOT }).map_err(Broken::Signing)?;
            log.record_head(head)?;
        }
        let snapshot = store::read_whole(&*disk, &state.join(HELD))?.and_then(|bytes| Memory::parse(&bytes));
        let (mut memory, snapshot_size) = snapshot.map_or_else(Default::default, |memory| {
            let size = memory.size;
            (memory, size)
        });
        let is_its_own = memory.size <= reader.size()
            && (memory.size == 0 || reader.log.leaf(LeafIndex(memory.size - 1))? == Some(memory.last));
        if !is_its_own {
            return Err(Broken::OlderJournal(dir.display().to_string()));
        }
        replay(&reader.log, &mut memory)?;
        if memory.evidence > evidence {
            return Err(Broken::MissingEvidence { journalled: memory.evidence, held: evidence });
        }
        // A floor that was lost: the lines tell a time too.
        floor.raise(memory.latest_s.min(note::MAX_TIMESTAMP_S))?;
        // Nothing that must stop a start: after a pause of the whole machine the newest minute may be lost in a crash.
        if memory.size > 0 && floor.durable_s() > memory.latest_s.saturating_add(BEHIND_S) {
            let seconds = floor.durable_s() - memory.latest_s;
            tracing::warn!(
                seconds,
                "the journal ends long before the last cosignature of this witness; if it was restored from a copy, stop the witness: it must not cosign again with this key"
            );
        }
        let state = state.to_owned();
        let mut journal = Journal { log, key, floor, memory, snapshot: snapshot_size, disk, state, reader };
        journal.snapshot_if_due()?;
        Ok(journal)
    }

    /// What the lines tell.
    pub fn memory(&self) -> &Memory {
        &self.memory
    }

    /// The latest time that may have been released.
    pub fn durable(&self) -> DurableTime {
        self.floor.durable()
    }

    /// For those who read.
    pub fn reader(&self) -> JournalReader {
        self.reader.clone()
    }

    /// Writes all `records` under one head, and gives back, for each, what may leave now. All of it is durable when this
    /// returns. The first error ends the journal's use: what is durable is unknown until it is opened again.
    ///
    /// # Errors
    /// [`Broken`]; nothing was released.
    pub fn commit(&mut self, records: Vec<Record>) -> Result<Vec<Option<Cosigned>>, Broken> {
        let (mut entries, mut sealed, mut waiting) = (Vec::new(), Vec::new(), Vec::new());
        let mut latest_s = 0;
        for Record { lines, seal } in records {
            for line in lines {
                let entry = line.to_entry();
                self.memory.observe(&line);
                latest_s = latest_s.max(line.until.unwrap_or(line.time) / 1000);
                entries.push(entry);
            }
            waiting.push(match seal {
                Some(Seal::New(head)) => {
                    self.speaks_of(&head)?;
                    latest_s = latest_s.max(head.timestamp_s());
                    sealed.push(*head);
                    Waiting::New
                }
                Some(Seal::Again(again)) => Waiting::Again(again),
                None => Waiting::Nothing,
            });
        }
        // Times first: a line that is durable may be cosigned by whoever asks for the journal's head.
        let again_s = waiting.iter().filter_map(|waiting| match waiting {
            Waiting::Again(again) => Some(again.timestamp_s()),
            _ => None,
        });
        self.floor.raise(again_s.max().unwrap_or(0).max(latest_s.min(note::MAX_TIMESTAMP_S)))?;
        let mut opened = Vec::new();
        if !entries.is_empty() {
            let key = &self.key;
            opened = self.log.commit(&entries, sealed, |appended| head(key, appended))?;
        }
        let mut opened = opened.into_iter();
        let released = waiting.into_iter().map(|waiting| match waiting {
            Waiting::New => Ok(opened.next()),
            Waiting::Again(again) => self.floor.release(*again).map(Some),
            Waiting::Nothing => Ok(None),
        });
        let released = released.collect::<Result<Vec<_>, StoreError>>()?;
        self.snapshot_if_due()?;
        Ok(released)
    }

    /// Writes the snapshot, before the witness stops.
    ///
    /// # Errors
    /// [`Broken`].
    pub fn finish(&mut self) -> Result<(), Broken> {
        if self.snapshot < self.memory.size {
            let last = LeafIndex(self.memory.size - 1);
            self.memory.last = self.reader.log.leaf(last)?.unwrap_or_default();
            store::replace_whole(&*self.disk, &self.state.join(HELD), &self.memory.to_bytes())?;
            self.snapshot = self.memory.size;
        }
        Ok(())
    }

    fn snapshot_if_due(&mut self) -> Result<(), Broken> {
        if self.memory.size - self.snapshot >= SNAPSHOT_AFTER { self.finish() } else { Ok(()) }
    }

    /// Whether the lines so far tell the next start that `head` is held.
    fn speaks_of(&self, head: &Sealed<Cosigned>) -> Result<(), Broken> {
        let checkpoint = head.checkpoint();
        let origin = &checkpoint.checkpoint().origin;
        let told = self.memory.held(origin.as_str()).map(|held| held.checkpoint.as_bytes());
        if told == Some(checkpoint.bytes()) { Ok(()) } else { Err(Broken::Unjournalled(origin.clone())) }
    }
}

enum Waiting {
    New,
    Again(Box<Sealed<Again>>),
    Nothing,
}

fn head(
    key: &SigningKey,
    Appended { size, root }: Appended,
) -> Result<Sealed<SignedCheckpoint<note::Verified>>, CheckpointError> {
    note::sign_checkpoint(&Checkpoint::new(Origin::from(key.name()), size, root), key).map(Sealed::new)
}

/// Brings `memory` up to the journal's end.
fn replay(log: &TlogReader, memory: &mut Memory) -> Result<(), Broken> {
    let width = u64::from(TILE_WIDTH);
    while memory.size < log.size().0 {
        let Some(page) = PageId::at(memory.size / width, log.size().0) else { break };
        let bytes = log.resource(&ResourcePath::Entries(page))?.unwrap_or_default();
        let skipped = (memory.size % width) as usize;
        let lines = merkle::decode_entries(&bytes).map_err(|_| Broken::Line(memory.size))?;
        if lines.len() <= skipped {
            return Err(Broken::Line(memory.size));
        }
        for entry in &lines[skipped..] {
            let line = JournalLine::parse(entry).ok_or(Broken::Line(memory.size))?;
            memory.observe(&line);
        }
    }
    if let Some(last) = memory.size.checked_sub(1) {
        memory.last = log.leaf(LeafIndex(last))?.unwrap_or_default();
    }
    Ok(())
}

impl JournalReader {
    /// The journal's key.
    pub fn vkey(&self) -> &VerifierKey {
        &self.vkey
    }

    /// How many lines there are.
    pub fn size(&self) -> u64 {
        self.log.size().0
    }

    /// The latest time that may have been released, of any log.
    pub fn durable(&self) -> &DurableTime {
        &self.durable
    }

    /// The newest head, and the time at which the witness may cosign it, seconds since the epoch; `None` before anything
    /// was written.
    pub fn latest(&self) -> Option<(SignedCheckpoint<note::Verified>, u64)> {
        let floor_s = self.durable.seconds();
        let head = SignedCheckpoint::parse(&self.log.latest_head()?).and_then(|head| head.verify(&self.vkey)).ok()?;
        (floor_s > 0).then_some((head, floor_s))
    }

    /// One static resource, `None` where there is none of that path. The checkpoint carries the journal's signature alone.
    ///
    /// # Errors
    /// [`StoreError`]: it cannot be read.
    pub fn resource(&self, path: &ResourcePath) -> Result<Option<bytes::Bytes>, StoreError> {
        self.log.resource(path)
    }

    /// The journal itself, for who has to compare it with what others hold of it.
    pub fn log(&self) -> &TlogReader {
        &self.log
    }
}
