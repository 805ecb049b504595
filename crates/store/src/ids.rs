//! Receipt id -> leaf index, in redb, filled behind the commits by a thread of its own.
//!
//! A receipt id is a leaf hash, so everything this index holds is in `hashes/0` already, in another order: the
//! thread reads it from there, and a lookup of something not yet indexed scans the few hashes that are left. Can be
//! deleted at any time.

use crate::error::StoreError;
use crate::finding::Findings;
use crate::ids_check;
use crate::reader::TlogReader;
use merkle::{Hash, LeafIndex};
use redb::{Database, ReadableDatabase, TableDefinition};
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// Bytes of an id that are its key: half of it, which halves the file. Two receipts whose ids begin alike take 2^64
/// hashes to make, and only hide each other from a look-up.
pub(crate) const KEY_LEN: usize = 16;
pub(crate) const IDS: TableDefinition<'_, &[u8; KEY_LEN], u64> = TableDefinition::new("ids");
const META: TableDefinition<'_, &str, u64> = TableDefinition::new("meta");
const THROUGH: &str = "through";
/// Ids a transaction: measured best at some ten thousand; also how many a lookup may have to scan.
const CHUNK: usize = 16_384;
/// How long fewer than a chunk may wait.
const PATIENCE: Duration = Duration::from_millis(500);
pub(crate) const CACHE_BYTES: usize = 16 << 20;

/// The index and its thread; dropping it ends the thread.
#[derive(Debug)]
pub(crate) struct IdIndex {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

/// What an id is found by.
pub(crate) fn key_of(id: &Hash) -> &[u8; KEY_LEN] {
    id.0.first_chunk().expect("an id is longer than its first half")
}

/// For lookups; cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct IdReader {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    path: PathBuf,
    database: Database,
    log: TlogReader,
    control: Mutex<Control>,
    wake: Condvar,
}

#[derive(Debug, Default)]
struct Control {
    /// Leaves that are indexed.
    through: u64,
    stop: bool,
    /// Somebody waits for it.
    hurry: bool,
}

impl IdIndex {
    /// Opens `dir/ids.redb`, or makes it. What is not a sound database, or speaks of more leaves than the log has, is
    /// deleted and filled again.
    pub(crate) fn open(dir: &Path, log: TlogReader) -> Result<IdIndex, StoreError> {
        let path = dir.join("ids.redb");
        let found = || {
            let database = open(&path)?;
            let through = through(&database)?;
            if through > log.size().0 {
                Err("it speaks of more receipts than there are".to_owned())
            } else {
                Ok((database, through))
            }
        };
        let found = catch_unwind(AssertUnwindSafe(found)).unwrap_or_else(|_| Err("redb panicked".to_owned()));
        let (database, through) = match found {
            Ok(found) => found,
            Err(why) => {
                tracing::warn!(path = %path.display(), why, "the id index is damaged; deleting it and filling it again");
                fs::remove_file(&path).map_err(|error| StoreError::io(&path, error))?;
                (open(&path).map_err(|why| StoreError::index(&path, why))?, 0)
            }
        };
        let control = Mutex::new(Control { through, ..Control::default() });
        let shared = Arc::new(Shared { path, database, log, control, wake: Condvar::new() });
        let work = Arc::clone(&shared);
        let thread = std::thread::Builder::new().name("id index".to_owned()).spawn(move || work.run());
        let thread = thread.map_err(|error| StoreError::io(&shared.path, error))?;
        Ok(IdIndex { shared, thread: Some(thread) })
    }

    pub(crate) fn reader(&self) -> IdReader {
        IdReader { shared: Arc::clone(&self.shared) }
    }

    /// Ends the thread.
    pub(crate) fn finish(&mut self) {
        self.shared.lock().stop = true;
        self.shared.wake.notify_all();
        if let Some(thread) = self.thread.take() {
            // A panic there has been reported already, and the index can be filled again.
            let _ = thread.join();
        }
    }

    /// Waits until everything that is committed now is indexed.
    pub(crate) fn catch_up(&self) -> Result<(), StoreError> {
        let size = self.shared.log.size().0;
        let mut control = self.shared.lock();
        control.hurry = true;
        self.shared.wake.notify_all();
        while control.through < size {
            if self.thread.as_ref().is_none_or(JoinHandle::is_finished) {
                return Err(StoreError::index(&self.shared.path, "it cannot be filled; see the messages above"));
            }
            // The thread says nothing when it ends.
            let waited = self.shared.wake.wait_timeout(control, PATIENCE);
            control = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        control.hurry = false;
        Ok(())
    }

    /// Compares all of it with the leaf hashes.
    pub(crate) fn check(&self, findings: &mut Findings) -> Result<(), StoreError> {
        let shared = &self.shared;
        let checked = ids_check::check(&shared.database, &shared.path, &shared.log, findings);
        checked.map_err(|why| StoreError::index(&shared.path, why))
    }

    /// More was committed.
    pub(crate) fn grown(&self) {
        self.shared.wake.notify_all();
    }
}

impl Drop for IdIndex {
    fn drop(&mut self) {
        self.finish();
    }
}

impl IdReader {
    pub(crate) fn path(&self) -> &Path {
        &self.shared.path
    }

    /// Where the leaf with this hash is, if there is one: the caller compares, for only the first half of it is known to
    /// be the same. Of several the last one indexed.
    pub(crate) fn index_of(&self, id: &Hash) -> Result<Option<LeafIndex>, StoreError> {
        let shared = &self.shared;
        let through = shared.lock().through;
        let found = || -> Result<Option<u64>, redb::Error> {
            let table = shared.database.begin_read()?.open_table(IDS)?;
            Ok(table.get(key_of(id))?.map(|index| index.value()))
        };
        // redb panics over some pages that have rotted.
        let indexed = match catch_unwind(AssertUnwindSafe(found)) {
            Ok(found) => found.map_err(|error| StoreError::index(&shared.path, error))?,
            Err(_) => return Err(StoreError::index(&shared.path, "redb panicked")),
        };
        if let Some(index) = indexed {
            return Ok(Some(LeafIndex(index)));
        }
        let (mut first, size) = (through, shared.log.size().0);
        while first < size {
            let leaves = shared.log.leaves(LeafIndex(first), CHUNK)?;
            if let Some(place) = leaves.iter().position(|leaf| leaf == id) {
                return Ok(Some(LeafIndex(first + place as u64)));
            }
            if leaves.is_empty() {
                break;
            }
            first += leaves.len() as u64;
        }
        Ok(None)
    }
}

impl Shared {
    fn lock(&self) -> std::sync::MutexGuard<'_, Control> {
        self.control.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Indexes chunk by chunk until told to stop. An error ends it: lookups then scan, and the next start tries again.
    fn run(&self) {
        loop {
            let through = {
                let control = self.lock();
                let left = |control: &Control| self.log.size().0 - control.through;
                let is_due = |control: &Control| left(control) >= CHUNK as u64 || control.hurry && left(control) > 0;
                let idle = |control: &mut Control| !control.stop && !is_due(control);
                let waited = self.wake.wait_timeout_while(control, PATIENCE, idle);
                let control = waited.unwrap_or_else(PoisonError::into_inner).0;
                if control.stop {
                    return;
                }
                control.through
            };
            if through == self.log.size().0 {
                continue;
            }
            match self
                .log
                .leaves(LeafIndex(through), CHUNK)
                .map_err(|error| error.to_string())
                .and_then(|leaves| self.index(through, &leaves))
            {
                Ok(through) => {
                    self.lock().through = through;
                    self.wake.notify_all();
                }
                Err(why) => {
                    tracing::error!(path = %self.path.display(), why, "the id index stops; lookups by id become slow until the next start");
                    return;
                }
            }
        }
    }

    fn index(&self, first: u64, leaves: &[Hash]) -> Result<u64, String> {
        let write = || -> Result<u64, redb::Error> {
            let mut transaction = self.database.begin_write()?;
            // After a kill the file is then opened in a millisecond instead of read through.
            transaction.set_quick_repair(true);
            let through = first + leaves.len() as u64;
            {
                let mut table = transaction.open_table(IDS)?;
                for (index, leaf) in (first..).zip(leaves) {
                    table.insert(key_of(leaf), index)?;
                }
                transaction.open_table(META)?.insert(THROUGH, through)?;
            }
            transaction.commit()?;
            Ok(through)
        };
        write().map_err(|error| error.to_string())
    }
}

fn open(path: &Path) -> Result<Database, String> {
    let database = Database::builder().set_cache_size(CACHE_BYTES).create(path).map_err(|error| error.to_string())?;
    let make = || -> Result<(), redb::Error> {
        let transaction = database.begin_write()?;
        transaction.open_table(IDS)?;
        transaction.open_table(META)?;
        transaction.commit()?;
        Ok(())
    };
    make().map_err(|error| error.to_string())?;
    Ok(database)
}

pub(crate) fn through(database: &Database) -> Result<u64, String> {
    let read = || -> Result<u64, redb::Error> {
        let table = database.begin_read()?.open_table(META)?;
        Ok(table.get(THROUGH)?.map_or(0, |through| through.value()))
    };
    read().map_err(|error| error.to_string())
}
