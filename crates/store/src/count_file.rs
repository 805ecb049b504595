//! A number with a checksum in a small file: how far another file can be relied on, told by something else than that
//! file itself.
//!
//! ```text
//! <name>    u64 big-endian | the first 8 bytes of its SHA-256
//! ```
//!
//! It is written after what it speaks of is durable, so a crash never leaves it ahead. It is not synced: a power cut may
//! leave an older number, which is believed as a minimum. One that is missing or has a bad checksum says nothing: 0.
//!
//! * `heads.count`: heads that were recorded. A head that was torn by a crash and a head that somebody cut off look the
//!   same in `heads`: the end is missing. But the first was never released and may be dropped, while a log that has
//!   lost the second would sign another history in its place.
//! * `hashes.count`: leaves whose hashes were synced, at every level. The others are derived again at the next start.

use crate::disk::{Disk, DiskFile, OpenFor};
use crate::error::StoreError;
use sha2::{Digest, Sha256};
use std::path::{Path, PathBuf};
use std::sync::Arc;

const RECORD_LEN: usize = 16;

/// The file.
#[derive(Debug)]
pub(crate) struct CountFile {
    path: PathBuf,
    file: Arc<dyn DiskFile>,
}

impl CountFile {
    /// Opens the file, or makes it, and reads the number.
    pub(crate) fn open(disk: &dyn Disk, dir: &Path, name: &str) -> Result<(CountFile, u64), StoreError> {
        let path = dir.join(name);
        let file = disk.open(&path, OpenFor::Writing).map_err(|error| StoreError::io(&path, error))?;
        let mut bytes = [0; RECORD_LEN];
        let read = file.read_at(&mut bytes, 0).map_err(|error| StoreError::io(&path, error))?;
        let count = bytes.first_chunk::<8>().map_or(0, |count| u64::from_be_bytes(*count));
        let at_least = if read == RECORD_LEN && record(count) == bytes { count } else { 0 };
        Ok((CountFile { path, file }, at_least))
    }

    /// The number in the file at `path`, to read it; 0 where that says nothing.
    pub(crate) fn look(path: &Path) -> u64 {
        let bytes = std::fs::read(path).unwrap_or_default();
        let count = bytes.first_chunk::<8>().map_or(0, |count| u64::from_be_bytes(*count));
        if record(count).as_slice() == bytes { count } else { 0 }
    }

    /// `count` of them are durable.
    pub(crate) fn write(&self, count: u64) -> Result<(), StoreError> {
        self.file.write_all_at(&record(count), 0).map_err(|error| StoreError::io(&self.path, error))
    }
}

fn record(count: u64) -> [u8; RECORD_LEN] {
    let mut record = [0; RECORD_LEN];
    record[..8].copy_from_slice(&count.to_be_bytes());
    record[8..].copy_from_slice(&Sha256::digest(count.to_be_bytes())[..8]);
    record
}
