//! What the store asks of a disk: every file operation on what is truth goes through here, so that a test can put a
//! disk under the store that fails, stops or forgets at any of them (`testkit::faulty_disk`).
//!
//! What the store may assume of an implementation is in ARCHITECTURE.md ("What is assumed") and nothing else: bytes
//! survive after [`DiskFile::sync_data`], names after [`Disk::sync_directory`].
//!
//! Does not hold sled and redb: they bring their own files, and everything in them can be derived again.

use std::fmt::Debug;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// How a file is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpenFor {
    /// It must be there, and is only read.
    Reading,
    /// It is made empty where it is not.
    Writing,
}

/// What a name stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Found {
    /// A file of so many bytes.
    File(u64),
    /// A directory, or whatever else is no file.
    Other,
}

/// A file system, or something that behaves like one.
pub trait Disk: Debug + Send + Sync {
    /// Opens a file.
    ///
    /// # Errors
    /// As [`OpenOptions::open`].
    fn open(&self, path: &Path, how: OpenFor) -> io::Result<Arc<dyn DiskFile>>;

    /// What is at `path`; `None` where nothing is.
    ///
    /// # Errors
    /// When that cannot be found out.
    fn find(&self, path: &Path) -> io::Result<Option<Found>>;

    /// The paths of what is in a directory, in any order.
    ///
    /// # Errors
    /// As [`fs::read_dir`].
    fn list(&self, dir: &Path) -> io::Result<Vec<PathBuf>>;

    /// Makes a directory and those above it, as far as they are not there.
    ///
    /// # Errors
    /// As [`fs::create_dir_all`].
    fn create_dir_all(&self, dir: &Path) -> io::Result<()>;

    /// Gives a file or directory another name in the same directory.
    ///
    /// # Errors
    /// As [`fs::rename`].
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Removes a file.
    ///
    /// # Errors
    /// As [`fs::remove_file`].
    fn remove_file(&self, path: &Path) -> io::Result<()>;

    /// Removes a directory and everything in it.
    ///
    /// # Errors
    /// As [`fs::remove_dir_all`].
    fn remove_dir_all(&self, dir: &Path) -> io::Result<()>;

    /// Makes the names in a directory durable.
    ///
    /// # Errors
    /// As [`File::sync_all`] on it.
    fn sync_directory(&self, dir: &Path) -> io::Result<()>;
}

/// An open file. Reading and writing at offsets needs no lock.
pub trait DiskFile: Debug + Send + Sync {
    /// How many bytes it has.
    ///
    /// # Errors
    /// When that cannot be found out.
    fn len(&self) -> io::Result<u64>;

    /// Whether it has none.
    ///
    /// # Errors
    /// As [`DiskFile::len`].
    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }

    /// Reads at most as much as `buffer` takes; 0 bytes are the end.
    ///
    /// # Errors
    /// As [`FileExt::read_at`].
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize>;

    /// Fills `buffer`.
    ///
    /// # Errors
    /// As [`FileExt::read_exact_at`].
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()>;

    /// Writes all of `bytes`; durable only after [`DiskFile::sync_data`]. After an error any part may be written.
    ///
    /// # Errors
    /// As [`FileExt::write_all_at`].
    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()>;

    /// Makes bytes and length durable. After an error nothing is known, and trying again tells nothing either.
    ///
    /// # Errors
    /// As [`File::sync_data`].
    fn sync_data(&self) -> io::Result<()>;

    /// Cuts the file.
    ///
    /// # Errors
    /// As [`File::set_len`].
    fn set_len(&self, length: u64) -> io::Result<()>;

    /// Locks the file until it is closed; `false` while somebody else has it locked.
    ///
    /// # Errors
    /// As [`File::try_lock`].
    fn try_lock(&self) -> io::Result<bool>;
}

/// The file system of this machine.
#[derive(Debug, Clone, Copy, Default)]
pub struct RealDisk;

impl RealDisk {
    /// For the calls that take a disk.
    pub fn shared() -> Arc<dyn Disk> {
        Arc::new(RealDisk)
    }
}

impl Disk for RealDisk {
    fn open(&self, path: &Path, how: OpenFor) -> io::Result<Arc<dyn DiskFile>> {
        let file = match how {
            OpenFor::Reading => File::open(path)?,
            OpenFor::Writing => OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)?,
        };
        Ok(Arc::new(file))
    }

    fn find(&self, path: &Path) -> io::Result<Option<Found>> {
        match fs::metadata(path).or_else(|_| fs::symlink_metadata(path)) {
            Ok(found) => Ok(Some(if found.is_file() { Found::File(found.len()) } else { Found::Other })),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<PathBuf>> {
        fs::read_dir(dir)?.map(|entry| entry.map(|entry| entry.path())).collect()
    }

    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        fs::create_dir_all(dir)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn remove_dir_all(&self, dir: &Path) -> io::Result<()> {
        fs::remove_dir_all(dir)
    }

    fn sync_directory(&self, dir: &Path) -> io::Result<()> {
        File::open(dir)?.sync_all()
    }
}

impl DiskFile for File {
    fn len(&self) -> io::Result<u64> {
        self.metadata().map(|file| file.len())
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        FileExt::read_at(self, buffer, offset)
    }

    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        FileExt::read_exact_at(self, buffer, offset)
    }

    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        FileExt::write_all_at(self, bytes, offset)
    }

    fn sync_data(&self) -> io::Result<()> {
        File::sync_data(self)
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        File::set_len(self, length)
    }

    fn try_lock(&self) -> io::Result<bool> {
        match File::try_lock(self) {
            Ok(()) => Ok(true),
            Err(TryLockError::WouldBlock) => Ok(false),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }
}
