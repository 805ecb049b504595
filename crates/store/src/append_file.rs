//! A file that only grows. Reading needs no lock: bytes that were appended never change.

use crate::disk::{Disk, DiskFile, OpenFor, RealDisk};
use crate::error::StoreError;
use std::io::ErrorKind;
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
    file: Arc<dyn DiskFile>,
}

impl AppendFile {
    /// Opens the file, or makes it empty. The directory is the caller's to sync.
    pub(crate) fn open(disk: &dyn Disk, path: PathBuf) -> Result<AppendFile, StoreError> {
        let reader = FileReader::open_for(disk, path, OpenFor::Writing)?;
        let length = reader.file.len().map_err(|error| StoreError::io(&reader.path, error))?;
        Ok(AppendFile { reader, length })
    }

    /// Opens a file that is there, to read it: nothing can be appended.
    pub(crate) fn look(path: PathBuf) -> Result<AppendFile, StoreError> {
        let reader = FileReader::open(&RealDisk, path)?;
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

    /// Drops what lies behind `length`, an unsigned or torn tail, and makes the rest durable, at recovery only: what a
    /// process finds may be there in memory alone, because the one before was killed between a write and its sync.
    pub(crate) fn settle(&mut self, length: u64) -> Result<(), StoreError> {
        self.settle_again(length, length)
    }

    /// As [`AppendFile::settle`]; what lies behind `begin` is written again first. A sync that failed may leave it
    /// in memory as if it were written, and then no later sync writes it.
    pub(crate) fn settle_again(&mut self, length: u64, begin: u64) -> Result<(), StoreError> {
        let last = self.reader.read(begin, (length - begin) as usize)?;
        let file = &self.reader.file;
        file.set_len(length)
            .and_then(|()| if last.is_empty() { Ok(()) } else { file.write_all_at(&last, begin) })
            .map_err(|error| StoreError::io(self.path(), error))?;
        self.length = length;
        self.sync()
    }
}

impl FileReader {
    /// Opens a file that is there, to read only.
    pub(crate) fn open(disk: &dyn Disk, path: PathBuf) -> Result<FileReader, StoreError> {
        FileReader::open_for(disk, path, OpenFor::Reading)
    }

    fn open_for(disk: &dyn Disk, path: PathBuf, how: OpenFor) -> Result<FileReader, StoreError> {
        let file = disk.open(&path, how).map_err(|error| StoreError::io(&path, error))?;
        Ok(FileReader { path: Arc::new(path), file })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// How long the file is now.
    pub(crate) fn len(&self) -> Result<u64, StoreError> {
        self.file.len().map_err(|error| StoreError::io(&self.path, error))
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
    file: Arc<dyn DiskFile>,
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
pub(crate) fn lock(file: &dyn DiskFile, path: &Path, what: &Path) -> Result<(), StoreError> {
    let started = Instant::now();
    loop {
        match file.try_lock() {
            Ok(true) => return Ok(()),
            Err(error) => return Err(StoreError::io(path, error)),
            Ok(false) if started.elapsed() > LOCK_PATIENCE => return Err(StoreError::InUse(what.to_owned())),
            Ok(false) => std::thread::sleep(LOCK_GLANCE),
        }
    }
}

/// Makes the names on the way to `path` durable, up to the root: whoever made a directory may have been killed before
/// it synced the one above. A directory that this process may not read, or that cannot be synced at all, was not
/// written to by it.
pub(crate) fn sync_way_to(disk: &dyn Disk, path: &Path) -> Result<(), StoreError> {
    for above in path.ancestors().skip(1) {
        let above = if above == Path::new("") { Path::new(".") } else { above };
        match disk.sync_directory(above) {
            Ok(()) => {}
            Err(error) if matches!(error.kind(), ErrorKind::PermissionDenied | ErrorKind::InvalidInput) => break,
            Err(error) => return Err(StoreError::io(above, error)),
        }
    }
    Ok(())
}

/// Makes the names in a directory durable: after files in it were made or renamed.
pub(crate) fn sync_directory(disk: &dyn Disk, path: &Path) -> Result<(), StoreError> {
    disk.sync_directory(path).map_err(|error| StoreError::io(path, error))
}
