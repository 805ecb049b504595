//! A bundle as one `.tar.zst`.
//!
//! ```text
//! .tar.zst ── unpacked once ──> one file without a name, in the temporary directory │ in memory: path -> place in it
//! ```
//!
//! An audit reads pages in an order of its own, which a compressed stream cannot follow; and a bundle of a million
//! receipts does not fit in memory. The file has no name from the beginning, so that it goes with the process however that
//! ends, and no name in the archive ever becomes one on the disk. What the archive may make us write or keep is bounded,
//! whatever it says of itself; what programs could read in two ways is refused.

use crate::dir_bundle::{MAX_DEPTH, MAX_FILES, MAX_PATH_BYTES};
use audit::{BundleSource, LeftOut, ReadError};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufWriter, Read, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;
use tar::EntryType;

/// Largest file in a bundle: a page of 256 entries of the longest kind.
const MAX_FILE_BYTES: u64 = 256 * (2 + 65_535);

/// Most bytes unpacked, headers included: ten times a bundle of a million receipts of a usual length. The temporary
/// directory needs as much room as the archive has unpacked, and never more than this.
pub const MAX_BYTES: u64 = 16 << 30;

/// Most members: as many directories as files.
const MAX_MEMBERS: usize = 2 * MAX_FILES;

/// Largest window, as a power of two, that the compression may ask memory for: 128 MiB, the format's own recommended
/// limit for decoders.
const MAX_WINDOW_LOG: u32 = 27;

/// Longest header that says more of the member after it (a long name): far longer than any path of a bundle. The
/// archive may say it has gigabytes, and the reader of such headers that came with the library believes it.
const MAX_EXTENSION_BYTES: u64 = 64 << 10;

/// An unpacked bundle. The room it takes is free again when it is dropped, or the process ends.
#[derive(Debug)]
pub struct ArchiveBundle {
    unpacked: File,
    /// Where each file lies: its first byte and its length.
    members: BTreeMap<String, (u64, u64)>,
    left_out: LeftOut,
}

impl ArchiveBundle {
    /// Unpacks the archive at `path`.
    ///
    /// # Errors
    /// [`ReadError`]: not a `.tar.zst`, a name that leads elsewhere or stands twice, something that programs read in two
    /// ways, too much of it, or no room.
    pub fn open(path: &Path) -> Result<ArchiveBundle, ReadError> {
        let cannot = |reason: String| ReadError::Unreadable { path: path.display().to_string(), reason };
        let unpacked = tempfile::tempfile().map_err(|error| cannot(no_room(&error)))?;
        let file = File::open(path).map_err(|error| cannot(error.to_string()))?;
        let mut decoder = zstd::Decoder::new(file).map_err(|error| cannot(error.to_string()))?;
        decoder.window_log_max(MAX_WINDOW_LOG).map_err(|error| cannot(error.to_string()))?;
        let bounded = Bounded { stream: decoder, left: MAX_BYTES };
        let mut unpacking = Unpacking {
            out: BufWriter::new(unpacked.try_clone().map_err(|error| cannot(error.to_string()))?),
            written: 0,
            members: BTreeMap::new(),
            path_bytes: 0,
            left_out: LeftOut::default(),
        };
        unpacking.run(bounded).map_err(cannot)?;
        Ok(ArchiveBundle { unpacked, members: unpacking.members, left_out: unpacking.left_out })
    }
}

impl BundleSource for ArchiveBundle {
    fn read(&self, path: &str, max: u64) -> Result<Option<Vec<u8>>, ReadError> {
        let Some(&(first, length)) = self.members.get(path) else { return Ok(None) };
        if length > max {
            return Err(ReadError::TooLarge { path: path.to_owned(), max });
        }
        // No member is longer than MAX_FILE_BYTES.
        let mut bytes = vec![0; length as usize];
        match self.unpacked.read_exact_at(&mut bytes, first) {
            Ok(()) => Ok(Some(bytes)),
            Err(error) => Err(ReadError::Unreadable { path: path.to_owned(), reason: error.to_string() }),
        }
    }

    fn list(&self) -> Vec<String> {
        self.members.keys().cloned().collect()
    }

    fn left_out(&self) -> LeftOut {
        self.left_out.clone()
    }
}

/// A stream that ends in an error rather than go on for ever.
struct Bounded<Stream> {
    stream: Stream,
    left: u64,
}

impl<Stream: Read> Read for Bounded<Stream> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let read = self.stream.read(into)?;
        self.left = self.left.checked_sub(read as u64).ok_or_else(|| {
            io::Error::other(format!("it unpacks to more than {MAX_BYTES} bytes; unpack it and audit the directory"))
        })?;
        Ok(read)
    }
}

/// An archive on its way into the one file.
struct Unpacking<Out: Write> {
    out: Out,
    written: u64,
    members: BTreeMap<String, (u64, u64)>,
    path_bytes: usize,
    left_out: LeftOut,
}

impl<Out: Write> Unpacking<Out> {
    /// Keeps regular files; links, devices and the like are left out, as they are of a directory.
    fn run(&mut self, stream: impl Read) -> Result<(), String> {
        let mut archive = tar::Archive::new(stream);
        let mut long_name: Option<Vec<u8>> = None;
        for (count, entry) in archive.entries().map_err(|error| not_an_archive(&error))?.raw(true).enumerate() {
            if count == MAX_MEMBERS {
                return Err(format!("it holds more than {MAX_MEMBERS} members; this is no bundle"));
            }
            let mut entry = entry.map_err(|error| not_an_archive(&error))?;
            let (kind, size) = (entry.header().entry_type(), entry.size());
            if kind.is_gnu_longname() || kind.is_pax_local_extensions() {
                let name = read_long_name(&mut entry, kind)?;
                if name.is_some() && long_name.is_some() {
                    return Err(String::from("it gives a member two long names; pack it anew, or audit the directory"));
                }
                long_name = name.or(long_name);
                continue;
            }
            if kind.is_gnu_longlink() || kind.is_pax_global_extensions() {
                continue;
            }
            let name = long_name.take().unwrap_or_else(|| entry.path_bytes().into_owned());
            let shown = || String::from_utf8_lossy(&name).into_owned();
            if kind.is_gnu_sparse() {
                return Err(format!("it holds a file {:?} with holes; pack it without --sparse", shown()));
            }
            // Old archives mark directories by nothing else.
            let is_directory = kind.is_dir() || name.ends_with(b"/");
            if is_directory || !kind.is_file() {
                if size > 0 {
                    // Some programs read over so many bytes, others take them for the next member.
                    return Err(format!("it holds {:?}, no file, and yet with bytes of its own", shown()));
                }
                if !is_directory {
                    // Named as it would be in the directory.
                    let inside = std::str::from_utf8(&name).ok().and_then(inner_path);
                    self.left_out.add(|| format!("{}: {}", kind_in_words(kind), inside.unwrap_or_else(shown)));
                }
                continue;
            }
            if size > MAX_FILE_BYTES {
                return Err(format!("it holds a file {:?} of {size} bytes, more than any in a bundle", shown()));
            }
            let Ok(text) = std::str::from_utf8(&name) else {
                self.left_out.add(|| format!("a name that is no text: {}", shown()));
                continue;
            };
            let inside =
                inner_path(text).ok_or_else(|| format!("it holds a file {text:?}, which leads out of the bundle"))?;
            self.keep(inside, &mut entry, size)?;
        }
        self.out.flush().map_err(|error| no_room(&error))?;
        all_zero(archive.into_inner())?;
        self.no_file_is_a_directory()
    }

    fn keep(&mut self, path: String, entry: &mut impl Read, size: u64) -> Result<(), String> {
        self.path_bytes += path.len();
        if self.members.len() == MAX_FILES || self.path_bytes > MAX_PATH_BYTES {
            return Err(format!("it holds more than {MAX_FILES} files, or longer paths; this is no bundle"));
        }
        if path.split('/').count() > MAX_DEPTH + 1 {
            return Err(format!("it holds {path:?}, more than {MAX_DEPTH} directories deep; this is no bundle"));
        }
        let mut left = size;
        let mut piece = [0; 16 << 10];
        while left > 0 {
            let room = piece.len().min(usize::try_from(left).unwrap_or(usize::MAX));
            let read = entry.read(&mut piece[..room]).map_err(|error| not_an_archive(&error))?;
            if read == 0 {
                return Err(not_an_archive(&io::ErrorKind::UnexpectedEof.into()));
            }
            self.out.write_all(&piece[..read]).map_err(|error| no_room(&error))?;
            left -= read as u64;
        }
        if self.members.insert(path.clone(), (self.written, size)).is_some() {
            return Err(format!("it holds {path:?} twice, so that its content is anybody's guess"));
        }
        self.written += size;
        Ok(())
    }

    /// No directory can be made of an archive in which something is both.
    fn no_file_is_a_directory(&self) -> Result<(), String> {
        for path in self.members.keys() {
            for (place, _) in path.match_indices('/') {
                if self.members.contains_key(&path[..place]) {
                    return Err(format!("it holds {:?} both as a file and as a directory", &path[..place]));
                }
            }
        }
        Ok(())
    }
}

/// The name in a header that comes before a member with a long one, in the form of GNU tar or of POSIX (PAX).
fn read_long_name(entry: &mut (impl Read + ?Sized), kind: EntryType) -> Result<Option<Vec<u8>>, String> {
    let mut bytes = Vec::new();
    entry.take(MAX_EXTENSION_BYTES + 1).read_to_end(&mut bytes).map_err(|error| not_an_archive(&error))?;
    if bytes.len() as u64 > MAX_EXTENSION_BYTES {
        return Err(format!("it holds a name or header of more than {MAX_EXTENSION_BYTES} bytes"));
    }
    if kind.is_gnu_longname() {
        return Ok(Some(bytes.strip_suffix(b"\0").unwrap_or(&bytes).to_vec()));
    }
    let mut name = None;
    for record in tar::PaxExtensions::new(&bytes) {
        let record = record.map_err(|error| not_an_archive(&error))?;
        match record.key_bytes() {
            b"path" => name = Some(record.value_bytes().to_vec()),
            // Programs differ in which of two sizes they believe, and in whether they know holes.
            b"size" => return Err(String::from("it gives a file two sizes; audit the directory")),
            key if key.starts_with(b"GNU.sparse.") => {
                return Err(String::from("it holds a file with holes; pack it without --sparse"));
            }
            _ => {}
        }
    }
    Ok(name)
}

/// The path within the bundle, if it stays there. `./` in front is what many tools write.
fn inner_path(name: &str) -> Option<String> {
    if name.starts_with('/') || name.contains('\0') {
        return None;
    }
    let parts: Vec<&str> = name.split('/').filter(|part| !part.is_empty() && *part != ".").collect();
    (!parts.is_empty() && !parts.contains(&"..")).then(|| parts.join("/"))
}

/// What follows the end of an archive must be nothing, and the compression's own checksum must be reached.
fn all_zero(mut rest: impl Read) -> Result<(), String> {
    let mut piece = [0; 16 << 10];
    loop {
        match rest.read(&mut piece).map_err(|error| not_an_archive(&error))? {
            0 => return Ok(()),
            read if piece[..read].iter().all(|byte| *byte == 0) => {}
            _ => return Err(String::from("something follows the end of the archive; pack it anew")),
        }
    }
}

fn kind_in_words(kind: EntryType) -> &'static str {
    match kind {
        EntryType::Symlink => "a symbolic link",
        EntryType::Link => "a hard link",
        EntryType::Fifo => "a pipe",
        EntryType::Char | EntryType::Block => "a device",
        _ => "no file",
    }
}

fn not_an_archive(error: &io::Error) -> String {
    format!("it is no whole .tar.zst ({error}); fetch it again, or audit the directory")
}

fn no_room(error: &io::Error) -> String {
    format!(
        "it cannot be unpacked in {}: {error}; set TMPDIR to a directory with room for it, or unpack it and audit the directory",
        std::env::temp_dir().display()
    )
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;
    use std::fs;

    fn packed(files: &[(&str, &[u8])]) -> Vec<u8> {
        let mut builder = tar::Builder::new(Vec::new());
        for (name, bytes) in files {
            let mut header = header(EntryType::Regular, bytes.len() as u64);
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

    fn refused(tar: &[u8]) -> String {
        opened(tar).err().unwrap_or_else(|| panic!("it was taken")).to_string()
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
    fn an_archive_reads_like_the_directory_it_was_made_of() {
        let bundle = opened(&packed(&[("./log/checkpoint", b"abc"), ("log/heads/000.p/1", b"d"), ("log/empty", b"")]));
        let bundle = bundle.unwrap();
        assert_eq!(bundle.list(), ["log/checkpoint", "log/empty", "log/heads/000.p/1"]);
        assert_eq!(bundle.read("log/checkpoint", 3).unwrap().unwrap(), b"abc");
        assert_eq!(bundle.read("log/heads/000.p/1", 3).unwrap().unwrap(), b"d");
        assert_eq!(bundle.read("log/empty", 0).unwrap().unwrap(), b"");
        assert!(matches!(bundle.read("log/checkpoint", 2), Err(ReadError::TooLarge { .. })));
        assert_eq!(bundle.read("log", 3).unwrap(), None);
    }

    #[test]
    fn names_that_lead_elsewhere_or_stand_twice_are_refused() {
        for names in [
            &["../x"][..],
            &["/etc/x"],
            &["a/../../x"],
            &["a/.."],
            &["."],
            &["a", "./a"],
            &["a", "a/b"],
            &["a//b", "a/b"],
        ] {
            let files: Vec<(&str, &[u8])> = names.iter().map(|name| (*name, &b"x"[..])).collect();
            assert!(matches!(opened(&packed(&files)), Err(ReadError::Unreadable { .. })), "{names:?}");
        }
    }

    #[test]
    fn links_and_devices_are_left_out_and_told() {
        let mut builder = tar::Builder::new(Vec::new());
        for (kind, name) in
            [(EntryType::Symlink, "log/checkpoint"), (EntryType::Link, "log/hard"), (EntryType::Char, "log/zero")]
        {
            let mut header = header(kind, 0);
            builder.append_link(&mut header, name, "/etc/passwd").unwrap();
        }
        let bundle = opened(&builder.into_inner().unwrap()).unwrap();
        assert!(bundle.list().is_empty());
        assert_eq!(
            bundle.left_out().named,
            ["a symbolic link: log/checkpoint", "a hard link: log/hard", "a device: log/zero"].map(String::from)
        );
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
    fn a_header_that_lies_about_its_size_is_refused() {
        // More than there is, more than any file has, more than a number can say.
        for (size, words) in
            [(600, "no whole"), (MAX_FILE_BYTES + 1, "more than any"), (u64::MAX >> 1, "more than any")]
        {
            let mut tar = Vec::new();
            let mut header = header(EntryType::Regular, size);
            header.as_mut_bytes()[0] = b'a';
            header.set_cksum();
            tar.extend_from_slice(header.as_bytes());
            tar.extend_from_slice(&[0; 512]);
            let said = refused(&tar);
            assert!(said.contains(words), "{size}: {said}");
        }
    }

    #[test]
    fn an_archive_that_unpacks_to_too_much_is_refused_before_it_is_written() {
        let bounded = |tar: &[u8], most: u64| {
            let mut unpacking = Unpacking {
                out: Vec::new(),
                written: 0,
                members: BTreeMap::new(),
                path_bytes: 0,
                left_out: LeftOut::default(),
            };
            unpacking.run(Bounded { stream: tar, left: most })
        };
        let tar = packed(&[("a", &[0; 600]), ("b", &[0; 600])]);
        assert!(bounded(&tar, tar.len() as u64).is_ok());
        assert!(bounded(&tar, tar.len() as u64 - 1).unwrap_err().contains("unpacks to more"));
        // Members without a byte of their own count with their headers.
        let mut links = tar::Builder::new(Vec::new());
        for number in 0..10 {
            let mut header = header(EntryType::Symlink, 0);
            links.append_link(&mut header, format!("l{number}"), "x").unwrap();
        }
        assert!(bounded(&links.into_inner().unwrap(), 5 * 512).is_err());
    }

    #[test]
    fn a_bomb_of_zeroes_takes_neither_room_nor_memory() {
        // A terabyte in one member is refused by its header; as the end of an archive it is read over, up to the bound.
        let mut unpacking = Unpacking {
            out: Vec::new(),
            written: 0,
            members: BTreeMap::new(),
            path_bytes: 0,
            left_out: LeftOut::default(),
        };
        let endless = io::repeat(0).take(1 << 40);
        let error = unpacking.run(Bounded { stream: endless, left: 64 << 20 }).unwrap_err();
        assert!(error.contains("unpacks to more"), "{error}");
        assert!(unpacking.out.is_empty());
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
            builder.append(&header(kind, size), io::repeat(b'a').take(size)).unwrap();
            builder.append_data(&mut header(EntryType::Regular, 1), "x", &b"x"[..]).unwrap();
            let said = refused(&builder.into_inner().unwrap());
            assert!(said.contains("more than 65536 bytes"), "{said}");
        }
    }

    #[test]
    fn long_names_that_lead_elsewhere_are_refused_like_short_ones() {
        for name in ["../x", "/etc/passwd", "log/../../x", "log/checkpoint\0.txt"] {
            let mut posix = tar::Builder::new(Vec::new());
            posix.append_pax_extensions([("path", name.as_bytes())]).unwrap();
            posix.append_data(&mut header(EntryType::Regular, 1), "short", &b"x"[..]).unwrap();
            let mut gnu = tar::Builder::new(Vec::new());
            gnu.append(&header(EntryType::GNULongName, name.len() as u64 + 1), format!("{name}\0").as_bytes()).unwrap();
            gnu.append_data(&mut header(EntryType::Regular, 1), "short", &b"x"[..]).unwrap();
            for tar in [posix, gnu] {
                assert!(refused(&tar.into_inner().unwrap()).contains("leads out"), "{name:?}");
            }
        }
    }

    #[test]
    fn what_programs_read_in_two_ways_is_refused() {
        let with_pax = |key: &str, value: &[u8]| {
            let mut builder = tar::Builder::new(Vec::new());
            builder.append_pax_extensions([(key, value)]).unwrap();
            builder.append_data(&mut header(EntryType::Regular, 1), "x", &b"x"[..]).unwrap();
            builder.into_inner().unwrap()
        };
        assert!(refused(&with_pax("size", b"512")).contains("two sizes"));
        assert!(refused(&with_pax("GNU.sparse.major", b"1")).contains("holes"));
        // Two long names for one member.
        let mut two = tar::Builder::new(Vec::new());
        two.append(&header(EntryType::GNULongName, 2), &b"a\0"[..]).unwrap();
        two.append_pax_extensions([("path", &b"b"[..])]).unwrap();
        two.append_data(&mut header(EntryType::Regular, 1), "x", &b"x"[..]).unwrap();
        assert!(refused(&two.into_inner().unwrap()).contains("two long names"));
        // A link or directory with bytes of its own.
        for kind in [EntryType::Directory, EntryType::Symlink, EntryType::Link] {
            let mut builder = tar::Builder::new(Vec::new());
            builder.append(&header(kind, 600), &[0; 600][..]).unwrap();
            assert!(refused(&builder.into_inner().unwrap()).contains("bytes of its own"), "{kind:?}");
        }
        // A second archive behind the end of the first.
        let mut after_the_end = packed(&[("a", b"1")]);
        after_the_end.extend(packed(&[("b", b"2")]));
        assert!(refused(&after_the_end).contains("follows the end"));
    }
}
