//! The journal on disk: a tiled log of its own, with its own key.
//!
//! The witness cosigns the journal's heads like any log's, so that whoever trusts the witness's key, from a policy,
//! needs no second key to hold it to its journal. A cosigned head is a head that the witness can never take back.
//!
//! Holds the writing of lines and the head over them. Does not hold what is written when (`fold`, `keeper`). Lines
//! count as written once a head over them is durable; what a crash leaves behind that is dropped by the store.

use crate::journal::line::JournalLine;
use crate::keeper::Broken;
use bytes::Bytes;
use merkle::{EMPTY_ROOT, ResourcePath, RootHash, TreeSize};
use note::{
    Checkpoint, KeyName, NameError, Origin, SignedCheckpoint, SigningKey, VerifierKey, cosign, sign_checkpoint,
};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use store::{Sealed, Tlog, TlogReader};

/// What follows a witness's name in the name of its journal.
const SUFFIX: &str = "/journal";

/// The journal, for those who write.
#[derive(Debug)]
pub struct Journal {
    log: Mutex<Tlog>,
    key: SigningKey,
    witness: Arc<SigningKey>,
    reader: JournalReader,
}

/// The journal, for those who read.
#[derive(Debug, Clone)]
pub struct JournalReader {
    log: TlogReader,
    vkey: VerifierKey,
    /// The newest head with the witness's cosignature; `None` until a line is written after a start.
    cosigned: Arc<RwLock<Option<Bytes>>>,
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

    /// Opens the journal in `dir`; `key` is the journal's own, `witness` cosigns its heads.
    pub fn open(dir: &Path, key: SigningKey, witness: Arc<SigningKey>) -> Result<Journal, Broken> {
        let vkey = key.verifier();
        let is_ours = |head: &[u8]| -> Option<(TreeSize, RootHash)> {
            let head = SignedCheckpoint::parse(head).and_then(|head| head.verify(&vkey)).ok()?;
            Some((head.checkpoint().size, head.checkpoint().root))
        };
        let (log, recovery) = Tlog::open(dir, &is_ours).map_err(Broken::Store)?;
        tracing::debug!(?recovery, "journal opened");
        let reader = JournalReader { log: log.reader(), vkey, cosigned: Arc::default() };
        let journal = Journal { log: Mutex::new(log), key, witness, reader };
        if journal.reader.log.latest_head().is_none() {
            let mut log = journal.lock();
            journal.record(&mut log, TreeSize(0), EMPTY_ROOT, None)?;
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
        let written_ms = lines.iter().map(|line| line.until.unwrap_or(line.time)).max();
        self.record(&mut log, appended.size, appended.root, written_ms)
    }

    /// For those who read.
    pub fn reader(&self) -> JournalReader {
        self.reader.clone()
    }

    /// Signs a head, makes it durable, and only then cosigns it, with the time of the newest line.
    fn record(&self, log: &mut Tlog, size: TreeSize, root: RootHash, written_ms: Option<u64>) -> Result<(), Broken> {
        let head = Checkpoint::new(Origin::from(self.key.name()), size, root);
        let head = sign_checkpoint(&head, &self.key).map_err(Broken::Signing)?;
        let head = log.record_head(Sealed::new(head)).map_err(Broken::Store)?;
        let Some(written_s) = written_ms.map(|written_ms| written_ms / 1000).filter(|written_s| *written_s > 0) else {
            return Ok(());
        };
        let cosignature = cosign(head.note().text(), &self.witness, written_s).map_err(Broken::Cosigning)?;
        let line = cosignature.to_line().map_err(Broken::Cosigning)?;
        let cosigned = Bytes::copy_from_slice(head.with_cosignatures(&[line]).bytes());
        *self.reader.cosigned.write().unwrap_or_else(PoisonError::into_inner) = Some(cosigned);
        Ok(())
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

    /// One static resource, `None` where there is none of that path. The checkpoint carries the witness's cosignature.
    pub fn resource(&self, path: &ResourcePath) -> Result<Option<Bytes>, store::StoreError> {
        let cosigned = self.cosigned.read().unwrap_or_else(PoisonError::into_inner).clone();
        match (path, cosigned) {
            (ResourcePath::Checkpoint, Some(cosigned)) => Ok(Some(cosigned)),
            _ => self.log.resource(path),
        }
    }
}
