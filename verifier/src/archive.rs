//! A bundle as one `.tar.zst`: unpacked into a temporary directory that goes when the audit ends.
//!
//! An audit reads pages in an order of its own, which a compressed stream cannot follow; and a bundle of a million
//! receipts does not fit in memory. What the archive may make us write is bounded, whatever it says of itself.

use crate::dir_bundle::{DirBundle, MAX_FILES};
use audit::{BundleSource, ReadError};
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};
use tar::EntryType;
use tempfile::TempDir;

/// Largest file in a bundle: a page of 256 entries of the longest kind.
const MAX_FILE_BYTES: u64 = 256 * (2 + 65_535);

/// Most bytes unpacked: ten times a bundle of a million receipts of a usual length.
const MAX_BYTES: u64 = 16 << 30;

/// Largest window, as a power of two, that the compression may ask memory for: 128 MiB, the format's own recommended
/// limit for decoders.
const MAX_WINDOW_LOG: u32 = 27;

/// Longest header that says more of the member after it (a long name): far longer than any path of a bundle. The
/// archive may say it has gigabytes, and the reader of such headers that came with the library believes it.
const MAX_EXTENSION_BYTES: u64 = 64 << 10;

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
    let mut long_name = None;
    for entry in archive.entries().map_err(|error| not_an_archive(&error))?.raw(true) {
        let mut entry = entry.map_err(|error| not_an_archive(&error))?;
        let (kind, size) = (entry.header().entry_type(), entry.size());
        // Also what is left out is read over: it takes time, if no room.
        left = left.checked_sub(size).ok_or("it unpacks to more than any bundle; audit a directory instead")?;
        if kind.is_gnu_longname() || kind.is_pax_local_extensions() {
            long_name = read_long_name(&mut entry, kind)?.or(long_name);
            continue;
        }
        if kind.is_gnu_longlink() || kind.is_pax_global_extensions() {
            continue;
        }
        if kind.is_gnu_sparse() {
            return Err(String::from("it holds a file with holes; pack it without --sparse"));
        }
        let name = match long_name.take() {
            Some(name) => name,
            None => entry.path().map_err(|error| not_an_archive(&error))?.into_owned(),
        };
        if !kind.is_file() {
            continue;
        }
        let inside =
            inner_path(&name).ok_or_else(|| format!("it holds a file {name:?}, which leads out of the bundle"))?;
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

/// The name in a header that comes before a member with a long one, in the form of GNU tar or of POSIX (PAX).
fn read_long_name(entry: &mut (impl Read + ?Sized), kind: EntryType) -> Result<Option<PathBuf>, String> {
    let mut bytes = Vec::new();
    entry.take(MAX_EXTENSION_BYTES + 1).read_to_end(&mut bytes).map_err(|error| not_an_archive(&error))?;
    if bytes.len() as u64 > MAX_EXTENSION_BYTES {
        return Err(format!("it holds a name or header of more than {MAX_EXTENSION_BYTES} bytes"));
    }
    let as_path = |name: &[u8]| PathBuf::from(OsStr::from_bytes(name));
    if kind.is_gnu_longname() {
        return Ok(Some(as_path(bytes.strip_suffix(b"\0").unwrap_or(&bytes))));
    }
    let mut name = None;
    for record in tar::PaxExtensions::new(&bytes) {
        let record = record.map_err(|error| not_an_archive(&error))?;
        match record.key_bytes() {
            b"path" => name = Some(as_path(record.value_bytes())),
            // Programs differ in which of two sizes they believe.
            b"size" => return Err(String::from("it gives a file two sizes; audit the directory")),
            _ => {}
        }
    }
    Ok(name)
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
        header.set_entry_type(EntryType::Symlink);
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

    /// A header of this kind that says it has `size` bytes.
    fn header(kind: EntryType, size: u64) -> tar::Header {
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(kind);
        header.set_size(size);
        header.set_mode(0o644);
        header.set_cksum();
        header
    }

    #[test]
    fn long_names_are_read_and_endless_ones_refused() {
        let long = format!("witness/{}/journal/checkpoint", "w".repeat(200));
        let mut gnu = tar::Builder::new(Vec::new());
        gnu.append_data(&mut header(EntryType::Regular, 1), &long, &b"x"[..]).unwrap();
        let mut posix = tar::Builder::new(Vec::new());
        posix.append_pax_extensions([("path", long.as_bytes()), ("mtime", &b"1.5"[..])]).unwrap();
        posix.append_data(&mut header(EntryType::Regular, 1), "short", &b"x"[..]).unwrap();
        for builder in [gnu, posix] {
            let bundle = opened(&builder.into_inner().unwrap()).unwrap();
            assert_eq!(bundle.list(), [long.as_str()]);
        }
        for kind in [EntryType::GNULongName, EntryType::XHeader] {
            let mut builder = tar::Builder::new(Vec::new());
            let size = MAX_EXTENSION_BYTES + 1;
            builder.append(&header(kind, size), std::io::repeat(b'a').take(size)).unwrap();
            builder.append_data(&mut header(EntryType::Regular, 1), "x", &b"x"[..]).unwrap();
            let Err(error) = opened(&builder.into_inner().unwrap()) else { panic!("{kind:?}") };
            assert!(error.to_string().contains("more than 65536 bytes"), "{error}");
        }
        let mut two_sizes = tar::Builder::new(Vec::new());
        two_sizes.append_pax_extensions([("size", &b"512"[..])]).unwrap();
        two_sizes.append_data(&mut header(EntryType::Regular, 1), "x", &b"x"[..]).unwrap();
        assert!(opened(&two_sizes.into_inner().unwrap()).is_err());
    }

    #[test]
    fn what_is_left_out_counts_too() {
        let mut builder = tar::Builder::new(Vec::new());
        builder.append(&header(EntryType::Directory, 600), &[0; 600][..]).unwrap();
        builder.append(&header(EntryType::Symlink, 600), &[0; 600][..]).unwrap();
        let tar = builder.into_inner().unwrap();
        assert!(unpack(&tar[..], tempfile::tempdir().unwrap().path(), 1000).is_err());
        assert!(unpack(&tar[..], tempfile::tempdir().unwrap().path(), 2000).is_ok());
    }
}
