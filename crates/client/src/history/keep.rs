//! What a follower keeps on disk, in `history/` of the outbox's directory.
//!
//! ```text
//! head       the largest head of the log ever believed, the log's note: durable before anything is said under it
//! snapshot   what was read of the log so far, behind its SHA-256: may be lost, and is then read again
//! fork-<N>   evidence that the log signed two histories (protocol, section 8)
//! ```

use super::error::HistoryError;
use super::fold::{Fold, Snapshot};
use note::{MAX_NOTE_LEN, SignedCheckpoint, Verified, VerifierKey};
use sha2::{Digest, Sha256};
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Most bytes of a snapshot: two million decisions with their names take less than half of it.
const MAX_SNAPSHOT: u64 = 2 << 30;

/// Most documents of evidence that are kept: one convicts, and each costs a look-up of its successor.
const MAX_EVIDENCE: u32 = 64;

#[derive(Clone, Debug)]
pub(super) struct Folder(PathBuf);

impl Folder {
    pub(super) fn open(dir: &Path) -> Result<Self, HistoryError> {
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(dir)
            .map_err(|error| HistoryError::disk("make", dir, error))?;
        Ok(Self(dir.to_owned()))
    }

    /// The largest head, where one was ever believed.
    pub(super) fn head(&self, log: &VerifierKey) -> Result<Option<SignedCheckpoint<Verified>>, HistoryError> {
        let path = self.0.join("head");
        let Some(text) = read(&path, MAX_NOTE_LEN as u64)? else { return Ok(None) };
        let head = SignedCheckpoint::parse(&text).and_then(|head| head.verify(log));
        head.map(Some).map_err(|error| HistoryError::Damaged { path, reason: error.to_string() })
    }

    /// Keeps the largest head, durably.
    pub(super) fn keep_head(&self, head: &SignedCheckpoint<Verified>) -> Result<(), HistoryError> {
        self.replace("head", &[head.bytes()])
    }

    /// What was read before; the beginning where that is lost or does not fit.
    pub(super) fn fold(&self) -> Fold {
        let path = self.0.join("snapshot");
        let fold = read(&path, MAX_SNAPSHOT).ok().flatten().and_then(|bytes| {
            let (digest, snapshot) = bytes.split_first_chunk::<32>()?;
            let is_whole = Sha256::digest(snapshot)[..] == digest[..];
            let snapshot: Snapshot = is_whole.then(|| serde_json::from_slice(snapshot).ok())??;
            Fold::of(snapshot)
        });
        fold.unwrap_or_default()
    }

    /// Keeps what was read. Where that fails, the next start reads more.
    pub(super) fn keep_fold(&self, fold: &Fold) {
        let written = serde_json::to_vec(&fold.snapshot()).map_err(io::Error::from).map(|snapshot| {
            let digest: [u8; 32] = Sha256::digest(&snapshot).into();
            self.replace("snapshot", &[&digest, &snapshot])
        });
        if let Ok(Err(error)) = written {
            tracing::debug!(%error, "what was read of the log could not be kept; the next start reads it again");
        }
    }

    /// Keeps evidence, durably, and says where.
    pub(super) fn keep_evidence(&self, document: &[u8]) -> Result<PathBuf, HistoryError> {
        for number in 0..MAX_EVIDENCE {
            let path = self.0.join(format!("fork-{number}"));
            match read(&path, 4 << 20)? {
                Some(held) if held == document => return Ok(path),
                Some(_) => {}
                None => {
                    self.replace(&format!("fork-{number}"), &[document])?;
                    return Ok(path);
                }
            }
        }
        Ok(self.0.join(format!("fork-{}", MAX_EVIDENCE - 1)))
    }

    /// Replaces a file whole, durably.
    fn replace(&self, name: &str, parts: &[&[u8]]) -> Result<(), HistoryError> {
        let (path, temporary) = (self.0.join(name), self.0.join(format!("{name}.new")));
        let write = || {
            let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&temporary)?;
            parts.iter().try_for_each(|part| file.write_all(part))?;
            file.sync_all()?;
            fs::rename(&temporary, &path)?;
            File::open(&self.0)?.sync_all()
        };
        write().map_err(|error| HistoryError::disk("write", &path, error))
    }
}

fn read(path: &Path, most: u64) -> Result<Option<Vec<u8>>, HistoryError> {
    let mut bytes = Vec::new();
    match File::open(path).and_then(|file| file.take(most).read_to_end(&mut bytes)) {
        Ok(_) => Ok(Some(bytes)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(HistoryError::disk("read", path, error)),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;
    use bytes::Bytes;
    use merkle::{RootHash, TreeSize};
    use note::{Checkpoint, KeyKind, KeyName, Origin, SigningKey, sign_checkpoint};
    use receipt::{Chain, IssuerName, UnixMillis};

    fn key(name: &str) -> SigningKey {
        SigningKey::from_seed(KeyName::new(name).unwrap(), KeyKind::Ed25519, [1; 32])
    }

    fn entries() -> Vec<Bytes> {
        let (key, name) = (key("gate.example/1"), IssuerName::new("gate.example/1").unwrap());
        let mut chain = Chain::new(name);
        let open = chain.open(UnixMillis(1), &key).unwrap();
        let body = r#"{"type":"decision","request_id":"r","decision":"allow","action_class":"READ","subjects":["a"],"authenticated":true,"executes":"none"}"#;
        let rest = (0..3).map(|_| chain.append(body, UnixMillis(1), &key).unwrap());
        std::iter::once(open.clone()).chain(rest).map(|receipt| Bytes::copy_from_slice(receipt.bytes())).collect()
    }

    fn read_to(fold: &mut Fold, entries: &[Bytes]) {
        let from = usize::try_from(fold.size().0).unwrap();
        let batch = fold.batch(entries[from..].to_vec());
        fold.take(&batch);
    }

    #[test]
    fn what_was_kept_goes_on_as_if_it_had_never_stopped() {
        let (dir, all) = (tempfile::tempdir().unwrap(), entries());
        let folder = Folder::open(dir.path()).unwrap();
        let (mut whole, mut half) = (Fold::default(), Fold::default());
        read_to(&mut whole, &all);
        read_to(&mut half, &all[..2]);
        folder.keep_fold(&half);
        let mut resumed = folder.fold();
        assert_eq!(resumed.size(), TreeSize(2));
        read_to(&mut resumed, &all);
        assert_eq!((resumed.root(), resumed.refused()), (whole.root(), 0));
        assert_eq!(resumed.index, whole.index);
    }

    #[test]
    fn a_snapshot_that_is_damaged_is_no_snapshot() {
        let dir = tempfile::tempdir().unwrap();
        let folder = Folder::open(dir.path()).unwrap();
        let mut fold = Fold::default();
        read_to(&mut fold, &entries());
        folder.keep_fold(&fold);
        let path = dir.path().join("snapshot");
        let whole = fs::read(&path).unwrap();
        for place in [0, 40, whole.len() - 1] {
            let mut damaged = whole.clone();
            damaged[place] ^= 1;
            fs::write(&path, damaged).unwrap();
            assert_eq!(folder.fold().size(), TreeSize(0));
        }
        fs::write(&path, &whole[..whole.len() - 1]).unwrap();
        assert_eq!(folder.fold().size(), TreeSize(0));
        fs::write(&path, whole).unwrap();
        assert_eq!(folder.fold().size(), TreeSize(4));
    }

    #[test]
    fn a_head_that_is_damaged_is_not_taken_for_none() {
        let dir = tempfile::tempdir().unwrap();
        let folder = Folder::open(dir.path()).unwrap();
        let log = key("log.example/a");
        assert!(folder.head(&log.verifier()).unwrap().is_none());
        let head = Checkpoint::new(Origin::from(log.name()), TreeSize(7), RootHash(merkle::leaf_hash(b"")));
        let head = sign_checkpoint(&head, &log).unwrap();
        folder.keep_head(&head).unwrap();
        assert_eq!(folder.head(&log.verifier()).unwrap().unwrap().bytes(), head.bytes());
        let path = dir.path().join("head");
        let changed = fs::read_to_string(&path).unwrap().replace("\n7\n", "\n6\n");
        fs::write(&path, changed).unwrap();
        assert!(matches!(folder.head(&log.verifier()), Err(HistoryError::Damaged { .. })));
    }

    #[test]
    fn one_document_of_evidence_is_kept_once() {
        let dir = tempfile::tempdir().unwrap();
        let folder = Folder::open(dir.path()).unwrap();
        let first = folder.keep_evidence(b"one").unwrap();
        assert_ne!(folder.keep_evidence(b"two").unwrap(), first);
        assert_eq!(folder.keep_evidence(b"one").unwrap(), first);
    }
}
