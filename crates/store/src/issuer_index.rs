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

use crate::append_file::{AppendFile, FileReader, sync_directory};
use crate::disk::{Disk, Found, RealDisk};
use crate::error::StoreError;
use merkle::LeafIndex;
use receipt::{IssuerName, SeqNo};
use sha2::{Digest, Sha256};
use std::cmp::Ordering;
use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

const INDEX_LEN: u64 = 8;

/// All the arrays; cheap to clone. One thread writes.
#[derive(Clone, Debug)]
pub(crate) struct IssuerIndex {
    disk: Arc<dyn Disk>,
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
    pub(crate) fn open(disk: &Arc<dyn Disk>, dir: &Path) -> Result<IssuerIndex, StoreError> {
        let dir = dir.join("issuers");
        disk.create_dir_all(&dir).map_err(|error| StoreError::io(&dir, error))?;
        Ok(IssuerIndex { disk: Arc::clone(disk), dir, unwritten: Arc::default() })
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
                Ordering::Greater => self.file(issuer)?.settle(expected)?,
            }
            kept.insert(self.path(issuer));
        }
        for path in self.disk.list(&self.dir).map_err(|error| StoreError::io(&self.dir, error))? {
            if !kept.contains(&path) {
                self.disk.remove_file(&path).map_err(|error| StoreError::io(&path, error))?;
            }
        }
        Ok(true)
    }

    /// How long the issuer's array is, in bytes.
    fn length(&self, issuer: &IssuerName) -> Result<u64, StoreError> {
        let path = self.path(issuer);
        match self.disk.find(&path).map_err(|error| StoreError::io(&path, error))? {
            Some(Found::File(length)) => Ok(length),
            _ => Ok(0),
        }
    }

    /// Adds the issuer's receipt at `seq`, which must follow what was added before.
    pub(crate) fn add(&self, places: impl Iterator<Item = (IssuerName, SeqNo, LeafIndex)>) {
        let mut unwritten = self.lock_to_write();
        for (issuer, seq, index) in places {
            unwritten.entry(issuer).or_insert_with(|| Places { first: seq, indexes: Vec::new() }).indexes.push(index.0);
        }
    }

    /// Writes the issuer's receipts from seq `first` on to its array, which must end there: for a start, which replays
    /// more than memory should hold.
    pub(crate) fn append(&self, issuer: &IssuerName, first: SeqNo, indexes: &[u64]) -> Result<(), StoreError> {
        self.append_to(&mut self.file(issuer)?, issuer, first, indexes)
    }

    /// Writes what was added for the issuer to its array, and makes the array durable.
    pub(crate) fn write(&self, issuer: &IssuerName) -> Result<(), StoreError> {
        let mut file = self.file(issuer)?;
        let added = self.lock_to_read().get(issuer).map(|places| (places.first, places.indexes.clone()));
        let Some((first, indexes)) = added else { return file.sync() };
        self.append_to(&mut file, issuer, first, &indexes)?;
        file.sync()?;
        // Only now, so that a lookup finds a place in one of the two; and no more than was written, for the log has
        // gone on meanwhile.
        let mut unwritten = self.lock_to_write();
        if let Some(places) = unwritten.get_mut(issuer) {
            places.indexes.drain(..indexes.len());
            places.first = SeqNo(first.0 + indexes.len() as u64);
            if places.indexes.is_empty() {
                unwritten.remove(issuer);
            }
        }
        Ok(())
    }

    fn append_to(
        &self,
        file: &mut AppendFile,
        issuer: &IssuerName,
        first: SeqNo,
        indexes: &[u64],
    ) -> Result<(), StoreError> {
        let end = first.0.saturating_mul(INDEX_LEN);
        if file.len() > end {
            // What a write that failed has left, on a disk that was full, say. Nobody else writes here.
            file.settle(end)?;
        }
        if file.len() != end {
            let why =
                format!("{issuer} has {} places in it and its next receipt is number {first}", file.len() / INDEX_LEN);
            return Err(StoreError::index(file.path(), why));
        }
        let bytes: Vec<u8> = indexes.iter().flat_map(|index| index.to_be_bytes()).collect();
        file.append(&bytes)
    }

    /// Makes the names of the arrays durable.
    pub(crate) fn sync_names(&self) -> Result<(), StoreError> {
        sync_directory(&*self.disk, &self.dir)
    }

    /// The index in `dir`, to read it: nothing is made.
    pub(crate) fn look(dir: &Path) -> IssuerIndex {
        IssuerIndex { disk: RealDisk::shared(), dir: dir.join("issuers"), unwritten: Arc::default() }
    }

    /// What is said of `count` receipts of the issuer from seq `first` on; fewer where its array ends.
    pub(crate) fn places(&self, issuer: &IssuerName, first: SeqNo, count: usize) -> Result<Vec<u64>, StoreError> {
        let (begin, whole) = (first.0.saturating_mul(INDEX_LEN), self.length(issuer)? / INDEX_LEN);
        let count = count.min(usize::try_from(whole.saturating_sub(first.0)).unwrap_or(count));
        if count == 0 {
            return Ok(Vec::new());
        }
        let bytes = FileReader::open(&*self.disk, self.path(issuer))?.read(begin, count * INDEX_LEN as usize)?;
        Ok(bytes.as_chunks().0.iter().map(|index| u64::from_be_bytes(*index)).collect())
    }

    /// How many receipts of the issuer its array has.
    pub(crate) fn count(&self, issuer: &IssuerName) -> Result<u64, StoreError> {
        Ok(self.length(issuer)? / INDEX_LEN)
    }

    /// Where the arrays are.
    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    /// The first place in an array, if it has one.
    pub(crate) fn first_place(array: &Path) -> Result<Option<u64>, StoreError> {
        let file = FileReader::open(&RealDisk, array.to_owned())?;
        if file.len()? < INDEX_LEN {
            return Ok(None);
        }
        Ok(file.read(0, INDEX_LEN as usize)?.first_chunk::<8>().map(|place| u64::from_be_bytes(*place)))
    }

    /// Every array there is, in no order.
    pub(crate) fn arrays(&self) -> Result<Vec<PathBuf>, StoreError> {
        match self.disk.list(&self.dir) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Vec::new()),
            listed => listed.map_err(|error| StoreError::io(&self.dir, error)),
        }
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
        let bytes = FileReader::open(&*self.disk, self.path(issuer))?.read(offset, INDEX_LEN as usize)?;
        Ok(bytes.first_chunk::<8>().map(|index| LeafIndex(u64::from_be_bytes(*index))))
    }

    fn file(&self, issuer: &IssuerName) -> Result<AppendFile, StoreError> {
        AppendFile::open(&*self.disk, self.path(issuer))
    }

    fn lock_to_read(&self) -> RwLockReadGuard<'_, HashMap<IssuerName, Places>> {
        self.unwritten.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock_to_write(&self) -> RwLockWriteGuard<'_, HashMap<IssuerName, Places>> {
        self.unwritten.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// The issuer's array.
    pub(crate) fn path(&self, issuer: &IssuerName) -> PathBuf {
        self.dir.join(merkle::Hash(Sha256::digest(issuer.as_str().as_bytes()).into()).to_hex())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;
    use std::io::Write as _;

    #[test]
    fn what_a_failed_write_has_left_is_cut_off_by_the_next_one_and_places_are_found_all_the_while() {
        let dir = tempfile::tempdir().unwrap();
        let index = IssuerIndex::open(&RealDisk::shared(), dir.path()).unwrap();
        let issuer = IssuerName::new("gate.example/a").unwrap();
        let add = |seq: u64| index.add(std::iter::once((issuer.clone(), SeqNo(seq), LeafIndex(10 + seq))));
        let all = |count: u64| {
            (0..count + 1).for_each(|seq| {
                let expected = (seq < count).then_some(LeafIndex(10 + seq));
                assert_eq!(index.index_of(&issuer, SeqNo(seq)).unwrap(), expected, "{seq} of {count}");
            });
        };
        (0..3).for_each(add);
        all(3);
        index.write(&issuer).unwrap();
        all(3);
        // Some of the next place, and no more room.
        let mut array = std::fs::OpenOptions::new().append(true).open(index.path(&issuer)).unwrap();
        array.write_all(&[0, 0, 0, 0, 9]).unwrap();
        (3..5).for_each(add);
        all(5);
        index.write(&issuer).unwrap();
        all(5);
        // An array that lacks something is another matter: it is derived again at the next start.
        std::fs::write(index.path(&issuer), [0; 8]).unwrap();
        add(5);
        assert!(matches!(index.write(&issuer), Err(StoreError::Index { .. })));
    }
}
