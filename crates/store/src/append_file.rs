//! A file that only grows. Reading needs no lock: bytes that were appended never change.

use crate::error::StoreError;
use std::fs::{File, OpenOptions, TryLockError};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The writing end, of which there is one.
#[derive(Debug)]
pub(crate) struct AppendFile {
    reader: FileReader,
    length: u64,
}

/// A reading end; cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct FileReader {
    path: Arc<PathBuf>,
    file: Arc<File>,
}

impl AppendFile {
    /// Opens the file, or makes it empty. The directory is the caller's to sync.
    pub(crate) fn open(path: PathBuf) -> Result<AppendFile, StoreError> {
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&path);
        let file = file.map_err(|error| StoreError::io(&path, error))?;
        let length = file.metadata().map_err(|error| StoreError::io(&path, error))?.len();
        Ok(AppendFile { reader: FileReader { path: Arc::new(path), file: Arc::new(file) }, length })
    }

    /// Opens a file that is there, to read it: nothing can be appended.
    pub(crate) fn look(path: PathBuf) -> Result<AppendFile, StoreError> {
        let reader = FileReader::open(path)?;
        let length = reader.len()?;
        Ok(AppendFile { reader, length })
    }

    /// As if nothing were in it.
    pub(crate) fn as_empty(&self) -> AppendFile {
        AppendFile { reader: self.reader.clone(), length: 0 }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.reader.path
    }

    pub(crate) fn len(&self) -> u64 {
        self.length
    }

    pub(crate) fn reader(&self) -> &FileReader {
        &self.reader
    }

    /// Appends; durable only after [`AppendFile::sync`].
    pub(crate) fn append(&mut self, bytes: &[u8]) -> Result<(), StoreError> {
        self.reader.file.write_all_at(bytes, self.length).map_err(|error| StoreError::io(self.path(), error))?;
        self.length += bytes.len() as u64;
        Ok(())
    }

    /// Makes everything appended durable.
    pub(crate) fn sync(&self) -> Result<(), StoreError> {
        self.reader.file.sync_data().map_err(|error| StoreError::io(self.path(), error))
    }

    /// Drops what lies behind `length`: an unsigned or torn tail, at recovery only.
    pub(crate) fn truncate(&mut self, length: u64) -> Result<(), StoreError> {
        if length < self.length {
            self.reader.file.set_len(length).map_err(|error| StoreError::io(self.path(), error))?;
            self.length = length;
            self.sync()?;
        }
        Ok(())
    }
}

impl FileReader {
    /// Opens a file that is there, to read only.
    pub(crate) fn open(path: PathBuf) -> Result<FileReader, StoreError> {
        let file = File::open(&path).map_err(|error| StoreError::io(&path, error))?;
        Ok(FileReader { path: Arc::new(path), file: Arc::new(file) })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// How long the file is now.
    pub(crate) fn len(&self) -> Result<u64, StoreError> {
        self.file.metadata().map(|file| file.len()).map_err(|error| StoreError::io(&self.path, error))
    }

    /// The whole file, from its beginning.
    pub(crate) fn stream(&self) -> impl std::io::Read + use<> {
        FileStream { file: Arc::clone(&self.file), offset: 0 }
    }

    /// Exactly `length` bytes from `offset` on.
    pub(crate) fn read(&self, offset: u64, length: usize) -> Result<Vec<u8>, StoreError> {
        let mut bytes = vec![0; length];
        self.file.read_exact_at(&mut bytes, offset).map_err(|error| StoreError::io(&self.path, error))?;
        Ok(bytes)
    }
}

/// Reads on from an offset of its own.
struct FileStream {
    file: Arc<File>,
    offset: u64,
}

impl std::io::Read for FileStream {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let read = self.file.read_at(buffer, self.offset)?;
        self.offset += read as u64;
        Ok(read)
    }
}

/// How long a lock may be held by a process that is just ending before it counts as in use.
const LOCK_PATIENCE: Duration = Duration::from_secs(1);
const LOCK_GLANCE: Duration = Duration::from_millis(20);

/// Locks the file at `path` for this process, and until it is closed.
pub(crate) fn lock(file: &File, path: &Path, what: &Path) -> Result<(), StoreError> {
    let started = Instant::now();
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(()),
            Err(TryLockError::Error(error)) => return Err(StoreError::io(path, error)),
            Err(TryLockError::WouldBlock) if started.elapsed() > LOCK_PATIENCE => {
                return Err(StoreError::InUse(what.to_owned()));
            }
            Err(TryLockError::WouldBlock) => std::thread::sleep(LOCK_GLANCE),
        }
    }
}

/// Makes the names in a directory durable: after files in it were made or renamed.
pub(crate) fn sync_directory(path: &Path) -> Result<(), StoreError> {
    File::open(path).and_then(|dir| dir.sync_all()).map_err(|error| StoreError::io(path, error))
}
