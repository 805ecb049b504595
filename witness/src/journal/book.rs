//! The journal on disk: a tiled log of its own, with its own key.
//!
//! Holds the writing of lines and the head over them. Does not hold what is written when (`fold`, `keeper`). Lines
//! count as written once a head over them is durable; what a crash leaves behind that is dropped by the store.

use crate::journal::line::JournalLine;
use crate::keeper::Broken;
use bytes::Bytes;
use merkle::{EMPTY_ROOT, ResourcePath, RootHash, TreeSize};
use note::{Checkpoint, KeyName, NameError, Origin, SignedCheckpoint, SigningKey, VerifierKey, sign_checkpoint};
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use store::{Sealed, Tlog, TlogReader};

/// What follows a witness's name in the name of its journal.
const SUFFIX: &str = "/journal";

/// The journal, for those who write.
#[derive(Debug)]
pub struct Journal {
    log: Mutex<Tlog>,
    key: SigningKey,
    reader: JournalReader,
}

/// The journal, for those who read.
#[derive(Debug, Clone)]
pub struct JournalReader {
    log: TlogReader,
    vkey: VerifierKey,
}

/// The name, and origin, of the journal of the witness with this name.
pub fn journal_name(witness: &KeyName) -> Result<KeyName, NameError> {
    KeyName::new(&format!("{witness}{SUFFIX}"))
}

impl Journal {
    /// Makes an empty journal in `dir`, which must not exist.
    pub fn create(dir: &Path) -> Result<(), Broken> {
        Tlog::create(dir).map(drop).map_err(Broken::Store)
    }

    /// Opens the journal in `dir`; `key` is the journal's own.
    pub fn open(dir: &Path, key: SigningKey) -> Result<Journal, Broken> {
        let vkey = key.verifier();
        let is_ours = |head: &[u8]| -> Option<(TreeSize, RootHash)> {
            let head = SignedCheckpoint::parse(head).and_then(|head| head.verify(&vkey)).ok()?;
            Some((head.checkpoint().size, head.checkpoint().root))
        };
        let (log, recovery) = Tlog::open(dir, &is_ours).map_err(Broken::Store)?;
        tracing::debug!(?recovery, "journal opened");
        let reader = JournalReader { log: log.reader(), vkey };
        let journal = Journal { log: Mutex::new(log), key, reader };
        if journal.reader.log.latest_head().is_none() {
            let mut log = journal.lock();
            journal.record(&mut log, TreeSize(0), EMPTY_ROOT)?;
        }
        Ok(journal)
    }

    /// Appends `lines` and signs a head over them; all of it is durable when this returns. The first error ends
    /// the journal's use: what is durable is unknown until it is opened again.
    pub fn append(&self, lines: &[JournalLine]) -> Result<(), Broken> {
        if lines.is_empty() {
            return Ok(());
        }
        let entries: Vec<Vec<u8>> = lines.iter().map(JournalLine::to_entry).collect();
        let mut log = self.lock();
        let appended = log.append(&entries).map_err(Broken::Store)?;
        self.record(&mut log, appended.size, appended.root)
    }

    /// For those who read.
    pub fn reader(&self) -> JournalReader {
        self.reader.clone()
    }

    fn record(&self, log: &mut Tlog, size: TreeSize, root: RootHash) -> Result<(), Broken> {
        let head = Checkpoint::new(Origin::from(self.key.name()), size, root);
        let head = sign_checkpoint(&head, &self.key).map_err(Broken::Signing)?;
        log.record_head(Sealed::new(head)).map(drop).map_err(Broken::Store)
    }

    /// A panic in another writer leaves the log as an error would; its next use says so.
    fn lock(&self) -> std::sync::MutexGuard<'_, Tlog> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }
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

    /// One static resource, `None` where there is none of that path.
    pub fn resource(&self, path: &ResourcePath) -> Result<Option<Bytes>, store::StoreError> {
        self.log.resource(path)
    }
}
