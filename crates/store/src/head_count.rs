//! How many heads were recorded, told by another file than the heads themselves.
//!
//! ```text
//! heads.count    u64 big-endian | the first 8 bytes of its SHA-256
//! ```
//!
//! A head that was torn by a crash and a head that somebody cut off look the same in `heads`: the end is missing. But
//! the first was never released and may be dropped, while a log that has lost the second would sign another history
//! in its place. This count tells them apart: it is written after the head is durable, so it is never ahead of the
//! heads by a crash. It is not synced: a power cut may leave an older count, which is believed as a minimum. A count
//! that is missing or has a bad checksum says nothing.

use crate::disk::{Disk, DiskFile, OpenFor};
use crate::error::StoreError;
use sha2::{Digest, Sha256};
use std::path::{Path, PathBuf};
use std::sync::Arc;

const RECORD_LEN: usize = 16;

/// The file.
#[derive(Debug)]
pub(crate) struct HeadCount {
    path: PathBuf,
    file: Arc<dyn DiskFile>,
}

impl HeadCount {
    /// Opens the file, or makes it, and reads how many heads there were at least.
    pub(crate) fn open(disk: &dyn Disk, dir: &Path) -> Result<(HeadCount, u64), StoreError> {
        let path = dir.join("heads.count");
        let file = disk.open(&path, OpenFor::Writing).map_err(|error| StoreError::io(&path, error))?;
        let mut bytes = [0; RECORD_LEN];
        let read = file.read_at(&mut bytes, 0).map_err(|error| StoreError::io(&path, error))?;
        let count = bytes.first_chunk::<8>().map_or(0, |count| u64::from_be_bytes(*count));
        let at_least = if read == RECORD_LEN && record(count) == bytes { count } else { 0 };
        Ok((HeadCount { path, file }, at_least))
    }

    /// `count` heads are durable.
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
