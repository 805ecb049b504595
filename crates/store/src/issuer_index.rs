//! Where each issuer's receipts are: an array a file, since seqs are dense.
//!
//! ```text
//! issuers/<SHA-256 of the name, hex>     leaf index of seq n, u64 big-endian, at 8 n
//! ```
//!
//! Derived from the entries and off the commit path: what is new waits in memory, where lookups find it, until the
//! states are saved (saver.rs), and is written then, an issuer at a time. Recovery fits every file to what the saved
//! state says and replays the rest; a lookup believes an index only after it has read the entry there. A file is open
//! only while it is used: there may be more issuers than a process may have files.

use crate::append_file::{AppendFile, FileReader};
use crate::error::StoreError;
use merkle::LeafIndex;
use receipt::{IssuerName, SeqNo};
use sha2::{Digest, Sha256};
use std::cmp::Ordering;
use std::collections::{HashMap, HashSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

const INDEX_LEN: u64 = 8;

/// All the arrays; cheap to clone. One thread writes.
#[derive(Clone, Debug)]
pub(crate) struct IssuerIndex {
    dir: PathBuf,
    unwritten: Arc<RwLock<HashMap<IssuerName, Places>>>,
}

/// Where an issuer's receipts from seq `first` on are.
#[derive(Debug)]
struct Places {
    first: SeqNo,
    indexes: Vec<u64>,
}

impl IssuerIndex {
    pub(crate) fn open(dir: &Path) -> Result<IssuerIndex, StoreError> {
        let dir = dir.join("issuers");
        fs::create_dir_all(&dir).map_err(|error| StoreError::io(&dir, error))?;
        Ok(IssuerIndex { dir, unwritten: Arc::default() })
    }

    /// Cuts every array to the number of receipts that its issuer is known to have, and deletes all others. Answers
    /// whether every array has as much.
    pub(crate) fn fit<'a>(&self, known: impl Iterator<Item = (&'a IssuerName, SeqNo)>) -> Result<bool, StoreError> {
        let mut kept = HashSet::new();
        for (issuer, next) in known {
            let expected = next.0.saturating_mul(INDEX_LEN);
            match self.length(issuer)?.cmp(&expected) {
                Ordering::Less => return Ok(false),
                Ordering::Equal => {}
                Ordering::Greater => self.file(issuer)?.truncate(expected)?,
            }
            kept.insert(self.path(issuer));
        }
        let failed = |error| StoreError::io(&self.dir, error);
        for file in fs::read_dir(&self.dir).map_err(failed)? {
            let path = file.map_err(failed)?.path();
            if !kept.contains(&path) {
                fs::remove_file(&path).map_err(|error| StoreError::io(&path, error))?;
            }
        }
        Ok(true)
    }

    /// How long the issuer's array is, in bytes.
    fn length(&self, issuer: &IssuerName) -> Result<u64, StoreError> {
        let path = self.path(issuer);
        match fs::metadata(&path) {
            Ok(file) => Ok(file.len()),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(0),
            Err(error) => Err(StoreError::io(&path, error)),
        }
    }

    /// Adds the issuer's receipt at `seq`, which must follow what was added before.
    pub(crate) fn add(&self, places: impl Iterator<Item = (IssuerName, SeqNo, LeafIndex)>) {
        let mut unwritten = self.lock_to_write();
        for (issuer, seq, index) in places {
            unwritten.entry(issuer).or_insert_with(|| Places { first: seq, indexes: Vec::new() }).indexes.push(index.0);
        }
    }

    /// Writes what was added for the issuer to its array, and makes that durable.
    pub(crate) fn write(&self, issuer: &IssuerName) -> Result<(), StoreError> {
        let (first, bytes): (SeqNo, Vec<u8>) = match self.lock_to_read().get(issuer) {
            None => return Ok(()),
            Some(places) => (places.first, places.indexes.iter().flat_map(|index| index.to_be_bytes()).collect()),
        };
        let mut file = self.file(issuer)?;
        if Some(file.len()) != first.0.checked_mul(INDEX_LEN) {
            let why =
                format!("{issuer} has {} places in it and its next receipt is number {first}", file.len() / INDEX_LEN);
            return Err(StoreError::index(file.path(), why));
        }
        file.append(&bytes)?;
        file.sync()?;
        // Only now, so that a lookup finds a place in one of the two; and no more than was written, for the log has
        // gone on meanwhile.
        let written = bytes.len() / INDEX_LEN as usize;
        let mut unwritten = self.lock_to_write();
        if let Some(places) = unwritten.get_mut(issuer) {
            places.indexes.drain(..written);
            places.first = SeqNo(first.0 + written as u64);
            if places.indexes.is_empty() {
                unwritten.remove(issuer);
            }
        }
        Ok(())
    }

    /// Makes the names of the arrays durable.
    pub(crate) fn sync_names(&self) -> Result<(), StoreError> {
        crate::append_file::sync_directory(&self.dir)
    }

    /// Where the receipt of `issuer` at `seq` is said to be; the caller knows that there is one.
    pub(crate) fn index_of(&self, issuer: &IssuerName, seq: SeqNo) -> Result<Option<LeafIndex>, StoreError> {
        if let Some(places) = self.lock_to_read().get(issuer)
            && let Some(place) = seq.0.checked_sub(places.first.0)
        {
            let index = usize::try_from(place).ok().and_then(|place| places.indexes.get(place));
            return Ok(index.copied().map(LeafIndex));
        }
        let Some(offset) = seq.0.checked_mul(INDEX_LEN) else { return Ok(None) };
        if self.length(issuer)? < offset.saturating_add(INDEX_LEN) {
            return Ok(None);
        }
        let bytes = FileReader::open(self.path(issuer))?.read(offset, INDEX_LEN as usize)?;
        Ok(bytes.first_chunk::<8>().map(|index| LeafIndex(u64::from_be_bytes(*index))))
    }

    fn file(&self, issuer: &IssuerName) -> Result<AppendFile, StoreError> {
        AppendFile::open(self.path(issuer))
    }

    fn lock_to_read(&self) -> RwLockReadGuard<'_, HashMap<IssuerName, Places>> {
        self.unwritten.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock_to_write(&self) -> RwLockWriteGuard<'_, HashMap<IssuerName, Places>> {
        self.unwritten.write().unwrap_or_else(PoisonError::into_inner)
    }

    fn path(&self, issuer: &IssuerName) -> PathBuf {
        self.dir.join(merkle::Hash(Sha256::digest(issuer.as_str().as_bytes()).into()).to_hex())
    }
}
