//! The time below which a witness signs nothing any more, over all logs and through every crash.
//!
//! ```text
//! floor    record at 0, record at 512; the larger whole one counts
//! record   u64 big-endian, seconds since the epoch | the first 8 bytes of its SHA-256
//! ```
//!
//! A cosignature's time must not go back, also where the clock does and the process was killed in between. Times are whole
//! seconds, so one number for all logs is written at most once a second, however many cosignatures leave. The two records
//! are written in turn: a write that is torn leaves the other one, which covers everything released before.

use crate::append_file::{self, sync_directory};
use crate::cosigned::{Again, Cosigned};
use crate::disk::{Disk, DiskFile, OpenFor};
use crate::error::StoreError;
use crate::sealed::Sealed;
use note::Cosignature;
use sha2::{Digest, Sha256};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

const NAME: &str = "floor";
const RECORD_LEN: usize = 16;
/// Records lie in sectors of their own: a write touches one of them.
const APART: u64 = 512;

/// The latest time that is durable, for those who sign over what is durable by itself. Cheap to clone; only the floor
/// raises it.
#[derive(Debug, Clone)]
pub struct DurableTime(Arc<AtomicU64>);

impl DurableTime {
    /// Seconds since the epoch; 0 before the first.
    pub fn seconds(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }

    /// Opens cosignatures made at `timestamp_s` over a text that is durable by itself: a head found at a start, or the head
    /// of a journal. `None` where that time is not durable.
    pub fn release(&self, timestamp_s: u64, cosignatures: Sealed<Vec<Cosignature>>) -> Option<Vec<Cosignature>> {
        (timestamp_s <= self.seconds()).then(|| cosignatures.open())
    }
}

/// The file. While it is open no other process opens it.
#[derive(Debug)]
pub struct TimestampFloor {
    path: PathBuf,
    file: Arc<dyn DiskFile>,
    durable: DurableTime,
    /// Which record is written next.
    next: u64,
    poisoned: bool,
}

impl TimestampFloor {
    /// Opens the file in `dir`, or makes it, and makes what it says durable again: a process that was killed may have
    /// left it in memory alone.
    ///
    /// # Errors
    /// [`StoreError::Damaged`] when records were written and none is whole; [`StoreError::InUse`] while another process
    /// has it; [`StoreError::Io`].
    pub fn open(disk: &dyn Disk, dir: &Path) -> Result<TimestampFloor, StoreError> {
        let path = dir.join(NAME);
        let failed = |error| StoreError::io(&path, error);
        let file = disk.open(&path, OpenFor::Writing).map_err(failed)?;
        append_file::lock(&*file, &path, &path)?;
        sync_directory(disk, dir)?;
        let mut read = [[0; RECORD_LEN]; 2];
        for (place, record) in (0..).zip(&mut read) {
            file.read_at(record, place * APART).map_err(failed)?;
        }
        let [first, second] = read.map(|bytes| value(&bytes));
        let durable_s = match first.max(second) {
            Some(floor) => floor,
            // Nothing was written, or the first write of all was torn: nothing was released yet.
            None if read.contains(&[0; RECORD_LEN]) => 0,
            None => {
                let why = "neither of its two records is whole".to_owned();
                return Err(StoreError::Damaged { path, what: "record", position: 0, why });
            }
        };
        let next = u64::from(first >= second);
        let durable = DurableTime(Arc::new(durable_s.into()));
        let mut floor = TimestampFloor { path, file, durable, next, poisoned: false };
        if durable_s > 0 {
            floor.write(durable_s)?;
        }
        Ok(floor)
    }

    /// The latest time that may have been released, seconds since the epoch; 0 before the first.
    pub fn durable_s(&self) -> u64 {
        self.durable.seconds()
    }

    /// The same, for others to look at while it rises.
    pub fn durable(&self) -> DurableTime {
        self.durable.clone()
    }

    /// Makes sure that `timestamp_s` is durable.
    ///
    /// # Errors
    /// [`StoreError`]; nothing more is released until the file is opened again.
    pub fn raise(&mut self, timestamp_s: u64) -> Result<(), StoreError> {
        if self.poisoned {
            return Err(StoreError::Poisoned);
        }
        if timestamp_s > self.durable_s() {
            self.write(timestamp_s)?;
            self.durable.0.store(timestamp_s, Ordering::Release);
        }
        Ok(())
    }

    /// Opens the seal of a head cosigned again, once its time is durable.
    ///
    /// # Errors
    /// As [`TimestampFloor::raise`].
    pub fn release(&mut self, again: Sealed<Again>) -> Result<Cosigned, StoreError> {
        self.raise(again.timestamp_s())?;
        Ok(again.open().into_cosigned())
    }

    fn write(&mut self, timestamp_s: u64) -> Result<(), StoreError> {
        self.poisoned = true;
        let record = record(timestamp_s);
        let written = self.file.write_all_at(&record, self.next * APART).and_then(|()| self.file.sync_data());
        written.map_err(|error| StoreError::io(&self.path, error))?;
        self.next = 1 - self.next;
        self.poisoned = false;
        Ok(())
    }
}

fn value(bytes: &[u8; RECORD_LEN]) -> Option<u64> {
    let seconds = u64::from_be_bytes(*bytes.first_chunk::<8>()?);
    (record(seconds) == *bytes).then_some(seconds)
}

fn record(seconds: u64) -> [u8; RECORD_LEN] {
    let mut record = [0; RECORD_LEN];
    record[..8].copy_from_slice(&seconds.to_be_bytes());
    record[8..].copy_from_slice(&Sha256::digest(seconds.to_be_bytes())[..8]);
    record
}
