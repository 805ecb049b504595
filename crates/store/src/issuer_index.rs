//! Where each issuer's receipts are: an array a file, since seqs are dense.
//!
//! ```text
//! issuers/<SHA-256 of the name, hex>     leaf index of seq n, u64 big-endian, at 8 n
//! ```
//!
//! Derived from the entries and not synced at a commit. Recovery fits every file to what the state says and replays
//! the rest; a lookup believes an index only after it has read the entry there.

use crate::append_file::{AppendFile, FileReader};
use crate::error::StoreError;
use merkle::LeafIndex;
use receipt::{IssuerName, SeqNo};
use sha2::{Digest, Sha256};
use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

const INDEX_LEN: u64 = 8;

/// The writing end.
#[derive(Debug)]
pub(crate) struct IssuerIndex {
    dir: PathBuf,
    files: HashMap<IssuerName, AppendFile>,
    reader: IssuerIndexReader,
}

/// A reading end; cheap to clone.
#[derive(Clone, Debug, Default)]
pub(crate) struct IssuerIndexReader {
    files: Arc<RwLock<HashMap<IssuerName, FileReader>>>,
}

impl IssuerIndex {
    pub(crate) fn open(dir: &Path) -> Result<IssuerIndex, StoreError> {
        let dir = dir.join("issuers");
        fs::create_dir_all(&dir).map_err(|error| StoreError::io(&dir, error))?;
        Ok(IssuerIndex { dir, files: HashMap::new(), reader: IssuerIndexReader::default() })
    }

    pub(crate) fn reader(&self) -> IssuerIndexReader {
        self.reader.clone()
    }

    /// How many receipts of the issuer are indexed.
    pub(crate) fn count(&mut self, issuer: &IssuerName) -> Result<u64, StoreError> {
        Ok(self.file(issuer)?.len() / INDEX_LEN)
    }

    /// Drops everything from seq `count` on.
    pub(crate) fn truncate(&mut self, issuer: &IssuerName, count: u64) -> Result<(), StoreError> {
        self.file(issuer)?.truncate(count * INDEX_LEN)
    }

    /// Adds the issuer's next receipts.
    pub(crate) fn append(&mut self, issuer: &IssuerName, indexes: &[u64]) -> Result<(), StoreError> {
        let bytes: Vec<u8> = indexes.iter().flat_map(|index| index.to_be_bytes()).collect();
        self.file(issuer)?.append(&bytes)
    }

    /// Makes everything appended durable.
    pub(crate) fn sync(&self) -> Result<(), StoreError> {
        self.files.values().try_for_each(AppendFile::sync)
    }

    fn file(&mut self, issuer: &IssuerName) -> Result<&mut AppendFile, StoreError> {
        if !self.files.contains_key(issuer) {
            let name = merkle::Hash(Sha256::digest(issuer.as_str().as_bytes()).into()).to_hex();
            let file = AppendFile::open(self.dir.join(name))?;
            let mut readers = self.reader.files.write().unwrap_or_else(PoisonError::into_inner);
            readers.insert(issuer.clone(), file.reader().clone());
            self.files.insert(issuer.clone(), file);
        }
        Ok(self.files.get_mut(issuer).expect("it was put there"))
    }
}

impl IssuerIndexReader {
    /// Where the receipt of `issuer` at `seq` is said to be; the caller knows that there is one.
    pub(crate) fn index_of(&self, issuer: &IssuerName, seq: SeqNo) -> Result<Option<LeafIndex>, StoreError> {
        let file = self.files.read().unwrap_or_else(PoisonError::into_inner).get(issuer).cloned();
        let (Some(file), Some(offset)) = (file, seq.0.checked_mul(INDEX_LEN)) else { return Ok(None) };
        let bytes = file.read(offset, INDEX_LEN as usize)?;
        Ok(bytes.first_chunk::<8>().map(|index| LeafIndex(u64::from_be_bytes(*index))))
    }
}
