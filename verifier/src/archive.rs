//! A bundle as one `.tar.zst`: unpacked into a temporary directory that goes when the audit ends.
//!
//! An audit reads pages in an order of its own, which a compressed stream cannot follow; and a bundle of a million
//! receipts does not fit in memory. What the archive may make us write is bounded, whatever it says of itself.

use crate::dir_bundle::{DirBundle, MAX_FILES};
use audit::{BundleSource, ReadError};
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Component, Path, PathBuf};
use tempfile::TempDir;

/// Largest file in a bundle: a page of 256 entries of the longest kind.
const MAX_FILE_BYTES: u64 = 256 * (2 + 65_535);

/// Most bytes unpacked: ten times a bundle of a million receipts of a usual length.
const MAX_BYTES: u64 = 16 << 30;

/// Largest window, as a power of two, that the compression may ask memory for: 128 MiB, the format's own recommended
/// limit for decoders.
const MAX_WINDOW_LOG: u32 = 27;

/// An unpacked bundle. The directory goes with it.
#[derive(Debug)]
pub struct ArchiveBundle {
    files: DirBundle,
    _directory: TempDir,
}

impl ArchiveBundle {
    /// Unpacks the archive at `path`.
    ///
    /// # Errors
    /// [`ReadError`]: not a `.tar.zst`, a name that leads elsewhere or stands twice, or too much of it.
    pub fn open(path: &Path) -> Result<ArchiveBundle, ReadError> {
        let cannot = |reason: String| ReadError::Unreadable { path: path.display().to_string(), reason };
        let directory = tempfile::tempdir().map_err(|error| cannot(format!("no temporary directory: {error}")))?;
        let file = File::open(path).map_err(|error| cannot(error.to_string()))?;
        let mut decoder = zstd::Decoder::new(file).map_err(|error| cannot(error.to_string()))?;
        decoder.window_log_max(MAX_WINDOW_LOG).map_err(|error| cannot(error.to_string()))?;
        unpack(decoder, directory.path(), MAX_BYTES).map_err(cannot)?;
        Ok(ArchiveBundle { files: DirBundle::open(directory.path())?, _directory: directory })
    }
}

impl BundleSource for ArchiveBundle {
    fn read(&self, path: &str, max: u64) -> Result<Option<Vec<u8>>, ReadError> {
        self.files.read(path, max)
    }

    fn list(&self) -> Vec<String> {
        self.files.list()
    }
}

/// Unpacks regular files; everything else (links, devices) is left out, as it is left out of a directory.
fn unpack(stream: impl Read, into: &Path, max_bytes: u64) -> Result<(), String> {
    let mut archive = tar::Archive::new(stream);
    let mut seen: BTreeSet<PathBuf> = BTreeSet::new();
    let mut left = max_bytes;
    for entry in archive.entries().map_err(|error| not_an_archive(&error))? {
        let entry = entry.map_err(|error| not_an_archive(&error))?;
        if !entry.header().entry_type().is_file() {
            continue;
        }
        let name = entry.path().map_err(|error| not_an_archive(&error))?.into_owned();
        let inside =
            inner_path(&name).ok_or_else(|| format!("it holds a file {name:?}, which leads out of the bundle"))?;
        let size = entry.size();
        left = left.checked_sub(size).ok_or("it unpacks to more than any bundle; audit a directory instead")?;
        if size > MAX_FILE_BYTES {
            return Err(format!("it holds a file {name:?} of {size} bytes, more than any in a bundle"));
        }
        if seen.len() == MAX_FILES {
            return Err(format!("it holds more than {MAX_FILES} files"));
        }
        if !seen.insert(inside.clone()) {
            return Err(format!("it holds {name:?} twice, so that its content is anybody's guess"));
        }
        write_entry(entry, size, &into.join(&inside))
            .map_err(|error| format!("{name:?} cannot be unpacked: {error}"))?;
    }
    Ok(())
}

fn write_entry(entry: impl Read, size: u64, to: &Path) -> std::io::Result<()> {
    if let Some(parent) = to.parent() {
        fs::create_dir_all(parent)?;
    }
    let mut file = File::create_new(to)?;
    std::io::copy(&mut entry.take(size), &mut file).map(drop)
}

/// The path within the bundle, if it stays there. `./` in front is what many tools write.
fn inner_path(name: &Path) -> Option<PathBuf> {
    let mut inside = PathBuf::new();
    for component in name.components() {
        match component {
            Component::CurDir => {}
            Component::Normal(part) => inside.push(part),
            Component::ParentDir | Component::RootDir | Component::Prefix(_) => return None,
        }
    }
    (!inside.as_os_str().is_empty()).then_some(inside)
}

fn not_an_archive(error: &std::io::Error) -> String {
    format!("it is no whole .tar.zst ({error}); fetch it again, or audit the directory")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;

    fn packed(files: &[(&str, &[u8])]) -> Vec<u8> {
        let mut builder = tar::Builder::new(Vec::new());
        for (name, bytes) in files {
            let mut header = tar::Header::new_gnu();
            header.set_size(bytes.len() as u64);
            header.set_mode(0o644);
            // Written raw: the builder itself refuses names that lead elsewhere.
            header.as_mut_bytes()[..name.len()].copy_from_slice(name.as_bytes());
            header.set_cksum();
            builder.append(&header, *bytes).unwrap();
        }
        builder.into_inner().unwrap()
    }

    fn opened(tar: &[u8]) -> Result<ArchiveBundle, ReadError> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("bundle.tar.zst");
        fs::write(&path, zstd::encode_all(tar, 3).unwrap()).unwrap();
        ArchiveBundle::open(&path)
    }

    #[test]
    fn an_archive_reads_like_the_directory_it_was_made_of() {
        let bundle = opened(&packed(&[("./log/checkpoint", b"abc"), ("log/heads/000.p/1", b"d")])).unwrap();
        assert_eq!(bundle.list(), ["log/checkpoint", "log/heads/000.p/1"]);
        assert_eq!(bundle.read("log/checkpoint", 10).unwrap().unwrap(), b"abc");
    }

    #[test]
    fn names_that_lead_elsewhere_or_stand_twice_are_refused() {
        for names in [&["../x"][..], &["/etc/x"], &["a/../../x"], &["a", "./a"]] {
            let files: Vec<(&str, &[u8])> = names.iter().map(|name| (*name, &b"x"[..])).collect();
            assert!(matches!(opened(&packed(&files)), Err(ReadError::Unreadable { .. })), "{names:?}");
        }
    }

    #[test]
    fn links_are_left_out() {
        let mut builder = tar::Builder::new(Vec::new());
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(tar::EntryType::Symlink);
        header.set_size(0);
        builder.append_link(&mut header, "log/checkpoint", "/etc/passwd").unwrap();
        assert!(opened(&builder.into_inner().unwrap()).unwrap().list().is_empty());
    }

    #[test]
    fn what_is_no_archive_or_cut_short_is_unreadable() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("bundle.tar.zst");
        let whole = zstd::encode_all(&packed(&[("a", &[7; 5000])])[..], 3).unwrap();
        for bytes in [&b"hello"[..], b"", &whole[..whole.len() / 2]] {
            fs::write(&path, bytes).unwrap();
            assert!(ArchiveBundle::open(&path).is_err(), "{} bytes", bytes.len());
        }
        assert!(ArchiveBundle::open(&dir.path().join("absent")).is_err());
    }

    #[test]
    fn an_archive_that_unpacks_to_too_much_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let tar = packed(&[("a", &[0; 600]), ("b", &[0; 600])]);
        assert!(unpack(&tar[..], dir.path(), 1000).is_err());
        let big = vec![0; MAX_FILE_BYTES as usize + 1];
        assert!(matches!(opened(&packed(&[("a", &big)])), Err(ReadError::Unreadable { .. })));
    }
}
