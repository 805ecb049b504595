//! Receipt id -> leaf index, in redb, filled behind the commits by a thread of its own.
//!
//! A receipt id is a leaf hash, so everything this index holds is in `hashes/0` already, in another order: the
//! thread reads it from there, and a lookup of something not yet indexed scans the few hashes that are left. Can be
//! deleted at any time.
//!
//! So no error of redb stops anything: the thread closes the database, waits, and opens it again, or fills a new one where
//! it is rotten. Until then a lookup is answered [`StoreError::Unavailable`].

use crate::error::StoreError;
use crate::finding::Findings;
use crate::ids_check;
use crate::ids_failure::{Failure, guarded};
use crate::reader::TlogReader;
use merkle::{Hash, LeafIndex};
use redb::{Database, DatabaseError, ReadableDatabase, TableDefinition};
use std::fs;
use std::io;
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
/// Ids a transaction: measured best at some ten thousand.
const CHUNK: usize = 16_384;
/// Leaves that a lookup scans when they are not indexed yet, at most: 8 MiB of hashes, some milliseconds. The thread falls
/// that far behind only while it fills the index again.
const MAX_SCAN: u64 = 16 * CHUNK as u64;
/// How long fewer than a chunk may wait.
const PATIENCE: Duration = Duration::from_millis(500);
pub(crate) const CACHE_BYTES: usize = 16 << 20;
/// How long the thread waits after a failure before it opens the database again; twice as long each time, up to the longest.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// Opens the database in a file, or makes it.
type Open = fn(&Path) -> Result<Database, DatabaseError>;

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
    open: Open,
    log: TlogReader,
    control: Mutex<Control>,
    wake: Condvar,
    /// Held by the one lookup that scans: all others that have to would read the same hashes.
    scanning: Mutex<()>,
}

#[derive(Debug, Default)]
struct Control {
    /// Nothing while it is out of use.
    database: Option<Arc<Database>>,
    /// Leaves that are indexed.
    through: u64,
    /// Why the thread waits before it goes on.
    failed: Option<String>,
    /// What is in the file is not to be opened again.
    is_rotten: bool,
    stop: bool,
    /// Somebody waits for it.
    hurry: bool,
}

impl IdIndex {
    /// Opens `dir/ids.redb`, or makes it. What is not a sound database, or speaks of more leaves than the log has, is
    /// deleted and filled again.
    pub(crate) fn open(dir: &Path, log: TlogReader) -> Result<IdIndex, StoreError> {
        IdIndex::open_by(open_file, dir, log)
    }

    fn open_by(open: Open, dir: &Path, log: TlogReader) -> Result<IdIndex, StoreError> {
        let path = dir.join("ids.redb");
        let (control, wake, scanning) = (Mutex::default(), Condvar::new(), Mutex::default());
        let shared = Arc::new(Shared { path, open, log, control, wake, scanning });
        if let Err(failure) = shared.reopen() {
            shared.failed(failure);
        }
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

    /// Waits until everything that is committed now is indexed, or that has failed.
    pub(crate) fn catch_up(&self) -> Result<(), StoreError> {
        let size = self.shared.log.size().0;
        let mut control = self.shared.lock();
        control.hurry = true;
        self.shared.wake.notify_all();
        while control.through < size && control.failed.is_none() {
            control = self.shared.wake.wait(control).unwrap_or_else(PoisonError::into_inner);
        }
        control.hurry = false;
        match &control.failed {
            Some(why) if control.through < size => Err(StoreError::index(&self.shared.path, why)),
            _ => Ok(()),
        }
    }

    /// Compares all of it with the leaf hashes.
    pub(crate) fn check(&self, findings: &mut Findings) -> Result<(), StoreError> {
        let shared = &self.shared;
        let (database, _) = shared.in_use()?;
        let checked = ids_check::check(&database, &shared.path, &shared.log, findings);
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
        let (database, through) = shared.in_use()?;
        let found = || -> Result<Option<u64>, redb::Error> {
            let table = database.begin_read()?.open_table(IDS)?;
            Ok(table.get(key_of(id))?.map(|index| index.value()))
        };
        match guarded(|| Ok(found()?)) {
            Ok(Some(index)) => return Ok(Some(LeafIndex(index))),
            Ok(None) => {}
            Err(failure) => {
                let why = failure.why.clone();
                if shared.close(database, failure) {
                    tracing::warn!(path = %shared.path.display(), why, "the id index cannot be read; it is opened again");
                }
                return Err(shared.unavailable(why));
            }
        }
        let (mut first, size) = (through, shared.log.size().0);
        if size.saturating_sub(first) > MAX_SCAN {
            return Err(shared.unavailable(format!("it is being filled, and has {first} receipts of {size}")));
        }
        let _one = shared.scanning.lock().unwrap_or_else(PoisonError::into_inner);
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

    /// The database, and how many leaves are indexed in it.
    fn in_use(&self) -> Result<(Arc<Database>, u64), StoreError> {
        let control = self.lock();
        match &control.database {
            Some(database) => Ok((Arc::clone(database), control.through)),
            None => Err(self.unavailable(control.failed.clone().unwrap_or_default())),
        }
    }

    fn unavailable(&self, why: String) -> StoreError {
        StoreError::Unavailable { path: self.path.clone(), why }
    }

    /// Indexes chunk by chunk until told to stop.
    fn run(&self) {
        let mut pause = FIRST_PAUSE;
        while self.waits(pause) {
            let had_failed = self.lock().failed.is_some();
            match self.advance() {
                Ok(()) => {
                    pause = FIRST_PAUSE;
                    if had_failed {
                        self.lock().failed = None;
                        tracing::info!(path = %self.path.display(), "the id index works again");
                    }
                }
                Err(failure) => {
                    self.failed(failure);
                    pause = (pause * 2).min(LONGEST_PAUSE);
                }
            }
            self.wake.notify_all();
        }
    }

    /// Waits for something to do, and for `pause` after a failure. Answers whether to go on.
    fn waits(&self, pause: Duration) -> bool {
        let left = |control: &Control| self.log.size().0.saturating_sub(control.through);
        let is_due = |control: &Control| left(control) >= CHUNK as u64 || control.hurry && left(control) > 0;
        let idle = |control: &mut Control| !control.stop && control.failed.is_none() && !is_due(control);
        let waited = self.wake.wait_timeout_while(self.lock(), PATIENCE, idle);
        let mut control = waited.unwrap_or_else(PoisonError::into_inner).0;
        if control.failed.is_some() {
            let waited = self.wake.wait_timeout_while(control, pause, |control| !control.stop);
            control = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        !control.stop
    }

    /// Opens the database if it is not, and indexes one chunk if there is one.
    fn advance(&self) -> Result<(), Failure> {
        if self.lock().database.is_none() {
            self.reopen()?;
        }
        let (database, through) = self.in_use().map_err(Failure::passing)?;
        let leaves = self.log.leaves(LeafIndex(through), CHUNK).map_err(Failure::passing)?;
        if leaves.is_empty() {
            return Ok(());
        }
        match guarded(|| Ok(index(&database, through, &leaves)?)) {
            Ok(through) => {
                self.lock().through = through;
                Ok(())
            }
            Err(failure) => {
                self.close(database, failure.clone());
                Err(failure)
            }
        }
    }

    /// Takes the database out of use, unless that is done. No lookup has it for long; while one has, it cannot be opened
    /// again.
    fn close(&self, used: Arc<Database>, failure: Failure) -> bool {
        let mut control = self.lock();
        let is_used = control.database.as_ref().is_some_and(|database| Arc::ptr_eq(database, &used));
        if is_used {
            control.is_rotten = failure.is_rot;
            control.failed = Some(failure.why);
            control.database = None;
            self.wake.notify_all();
        }
        drop(control);
        // redb writes even now, and may panic over it.
        let _ = catch_unwind(AssertUnwindSafe(|| drop(used)));
        is_used
    }

    fn failed(&self, failure: Failure) {
        let why = failure.why;
        tracing::warn!(path = %self.path.display(), why, "the id index failed; it is tried again after a while");
        self.lock().failed = Some(why);
    }

    /// Opens the database; what is rotten is deleted, and an empty one made.
    fn reopen(&self) -> Result<(), Failure> {
        let is_rotten = self.lock().is_rotten;
        let rotten = || Failure { why: "what was read from it is wrong".to_owned(), is_rot: true };
        let (database, through) = match if is_rotten { Err(rotten()) } else { self.found() } {
            Err(Failure { why, is_rot: true }) => {
                tracing::warn!(path = %self.path.display(), why, "the id index is damaged; deleting it and filling it again");
                match fs::remove_file(&self.path) {
                    Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(Failure::passing(error)),
                    _ => self.found()?,
                }
            }
            found => found?,
        };
        let mut control = self.lock();
        (control.database, control.through, control.is_rotten) = (Some(Arc::new(database)), through, false);
        // Whoever waits for it waits for what comes now.
        control.failed = None;
        Ok(())
    }

    /// What is in the file, which is made if it is not there.
    fn found(&self) -> Result<(Database, u64), Failure> {
        guarded(|| {
            let database = (self.open)(&self.path).map_err(redb::Error::from)?;
            make_tables(&database)?;
            let through = through_of(&database)?;
            if through > self.log.size().0 {
                let why = "it speaks of more receipts than there are".to_owned();
                return Err(Failure { why, is_rot: true });
            }
            Ok((database, through))
        })
    }
}

/// Answers how many leaves are indexed then.
fn index(database: &Database, first: u64, leaves: &[Hash]) -> Result<u64, redb::Error> {
    let mut transaction = database.begin_write()?;
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
}

fn open_file(path: &Path) -> Result<Database, DatabaseError> {
    Database::builder().set_cache_size(CACHE_BYTES).create(path)
}

fn make_tables(database: &Database) -> Result<(), redb::Error> {
    let transaction = database.begin_write()?;
    transaction.open_table(IDS)?;
    transaction.open_table(META)?;
    transaction.commit()?;
    Ok(())
}

pub(crate) fn through(database: &Database) -> Result<u64, String> {
    through_of(database).map_err(|error| error.to_string())
}

fn through_of(database: &Database) -> Result<u64, redb::Error> {
    let table = database.begin_read()?.open_table(META)?;
    Ok(table.get(THROUGH)?.map_or(0, |through| through.value()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;
    use crate::{Sealed, Tlog};
    use merkle::leaf_hash;
    use note::{Checkpoint, KeyKind, KeyName, Origin, SigningKey, sign_checkpoint};
    use redb::StorageBackend;
    use redb::backends::FileBackend;
    use std::fs::File;
    use std::time::Instant;

    /// A file on a disk that is full as long as `full` lies beside it, and whose bytes go bad when `bad` does.
    #[derive(Debug)]
    struct Filling {
        file: FileBackend,
        full: PathBuf,
        bad: PathBuf,
    }

    impl Filling {
        fn room(&self) -> io::Result<()> {
            if self.full.exists() { Err(io::ErrorKind::StorageFull.into()) } else { Ok(()) }
        }
    }

    impl StorageBackend for Filling {
        fn len(&self) -> io::Result<u64> {
            self.file.len()
        }
        fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
            if self.bad.exists() { Err(io::Error::from_raw_os_error(5)) } else { self.file.read(offset, out) }
        }
        fn set_len(&self, len: u64) -> io::Result<()> {
            self.room().and_then(|()| self.file.set_len(len))
        }
        fn sync_data(&self) -> io::Result<()> {
            self.room().and_then(|()| self.file.sync_data())
        }
        fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
            self.room().and_then(|()| self.file.write(offset, data))
        }
    }

    /// Without a cache, so that every lookup asks the file.
    fn open_filling(path: &Path) -> Result<Database, DatabaseError> {
        let file = File::options().read(true).write(true).create(true).truncate(false).open(path)?;
        let (full, bad) = (path.with_file_name("full"), path.with_file_name("bad"));
        let backend = Filling { file: FileBackend::new(file)?, full, bad };
        Database::builder().set_cache_size(0).create_with_backend(backend)
    }

    fn commit(log: &mut Tlog, first: u64, count: u64) {
        let entries: Vec<Vec<u8>> = (first..first + count).map(entry).collect();
        let tree = log.append(&entries).unwrap();
        let head = Checkpoint::new(Origin::new("log.example").unwrap(), tree.size, tree.root);
        let key = SigningKey::from_seed(KeyName::new("log.example").unwrap(), KeyKind::Ed25519, [5; 32]);
        log.record_head(Sealed::new(sign_checkpoint(&head, &key).unwrap())).unwrap();
    }

    fn entry(index: u64) -> Vec<u8> {
        index.to_be_bytes().to_vec()
    }

    /// What is found where each leaf should be: all of them within half a minute, and until then nothing else.
    fn finds_again(ids: &IdIndex, size: u64) {
        let end = Instant::now() + Duration::from_secs(30);
        for index in 0..size {
            loop {
                match ids.reader().index_of(&leaf_hash(&entry(index))) {
                    Ok(found) => break assert_eq!(found, Some(LeafIndex(index))),
                    Err(error) => {
                        assert!(matches!(error, StoreError::Unavailable { .. }) && !error.is_damage(), "{error}");
                        assert!(Instant::now() < end, "{error}");
                    }
                }
                std::thread::sleep(Duration::from_millis(20));
            }
        }
    }

    #[test]
    fn a_disk_that_was_full_for_a_while_stops_neither_the_log_nor_the_index() {
        let dir = tempfile::tempdir().unwrap();
        let mut log = Tlog::create(&dir.path().join("log")).unwrap();
        commit(&mut log, 0, 300);
        let ids = IdIndex::open_by(open_filling, dir.path(), log.reader()).unwrap();
        ids.catch_up().unwrap();
        finds_again(&ids, 300);
        fs::write(dir.path().join("full"), "").unwrap();
        commit(&mut log, 300, 300);
        assert!(matches!(ids.catch_up(), Err(StoreError::Index { .. })));
        let found = ids.reader().index_of(&leaf_hash(&entry(7)));
        assert!(found.as_ref().is_err_and(|error| !error.is_damage()), "{found:?}");
        fs::remove_file(dir.path().join("full")).unwrap();
        finds_again(&ids, 600);
        ids.catch_up().unwrap();
        assert_eq!(ids.shared.in_use().unwrap().1, 600);
    }

    #[test]
    fn an_index_that_the_disk_cannot_give_back_is_filled_again_while_the_log_runs() {
        let dir = tempfile::tempdir().unwrap();
        let mut log = Tlog::create(&dir.path().join("log")).unwrap();
        commit(&mut log, 0, 300);
        let ids = IdIndex::open_by(open_filling, dir.path(), log.reader()).unwrap();
        ids.catch_up().unwrap();
        fs::write(dir.path().join("bad"), "").unwrap();
        let found = ids.reader().index_of(&leaf_hash(&entry(7)));
        assert!(found.as_ref().is_err_and(|error| !error.is_damage()), "{found:?}");
        fs::remove_file(dir.path().join("bad")).unwrap();
        finds_again(&ids, 300);
    }

    #[test]
    fn a_start_without_room_for_the_index_is_a_start() {
        let dir = tempfile::tempdir().unwrap();
        let mut log = Tlog::create(&dir.path().join("log")).unwrap();
        commit(&mut log, 0, 3);
        fs::write(dir.path().join("full"), "").unwrap();
        let ids = IdIndex::open_by(open_filling, dir.path(), log.reader()).unwrap();
        assert!(matches!(ids.reader().index_of(&leaf_hash(&entry(1))), Err(StoreError::Unavailable { .. })));
        fs::remove_file(dir.path().join("full")).unwrap();
        finds_again(&ids, 3);
    }
}
