//! A bundle as a directory.
//!
//! Only regular files below the directory count. Symbolic links are not followed, wherever they point and whenever they
//! were put there: whoever made the bundle may want another file of the auditor's to be read. A hard link cannot be told
//! from a file; it shows the auditor nothing that he could not read before.

use crate::rooted::{Found, Rooted};
use audit::{BundleSource, LeftOut, ReadError};
use rustix::fs::FileType;
use std::collections::BTreeSet;
use std::io;
use std::path::Path;

/// Most files of a bundle: the tiles and pages of half a thousand million receipts.
pub const MAX_FILES: usize = 4_000_000;

/// Most bytes of all their paths: 64 a file. The longest path of a page has 38 bytes below `log/`; those below a witness
/// whose name is long have more.
pub const MAX_PATH_BYTES: usize = 64 * MAX_FILES;

/// Deepest directory: `witness/<name>/journal/tile/entries` and seven parts of a page's number.
pub(crate) const MAX_DEPTH: usize = 16;

/// A bundle in a directory, listed once.
#[derive(Debug)]
pub struct DirBundle {
    root: Rooted,
    shown: String,
    files: BTreeSet<String>,
    path_bytes: usize,
    left_out: LeftOut,
}

impl DirBundle {
    /// Lists the files below `root`.
    ///
    /// # Errors
    /// [`ReadError`]: the directory, or one in it, cannot be read; more than [`MAX_FILES`] files, or
    /// [`MAX_PATH_BYTES`] of paths.
    pub fn open(root: &Path) -> Result<DirBundle, ReadError> {
        let shown = root.display().to_string();
        let cannot = |error: io::Error| ReadError::Unreadable { path: shown.clone(), reason: error.to_string() };
        let root = Rooted::open(root).map_err(cannot)?;
        let left_out = LeftOut::default();
        let mut bundle = DirBundle { root, shown, files: BTreeSet::new(), path_bytes: 0, left_out };
        bundle.list_below("", 0)?;
        Ok(bundle)
    }

    fn list_below(&mut self, directory: &str, depth: usize) -> Result<(), ReadError> {
        let path = if directory.is_empty() { self.shown.clone() } else { format!("{}/{directory}", self.shown) };
        let cannot = |reason: String| ReadError::Unreadable { path: path.clone(), reason };
        if depth > MAX_DEPTH {
            return Err(cannot(format!("it lies more than {MAX_DEPTH} directories deep; this is no bundle")));
        }
        let members = self.root.members(directory).map_err(|error| cannot(error.to_string()))?;
        for member in members.into_iter().flatten() {
            let member = member.map_err(|error| cannot(error.to_string()))?;
            let below = |name: &str| if directory.is_empty() { name.to_owned() } else { format!("{directory}/{name}") };
            let Ok(name) = std::str::from_utf8(&member.name) else {
                // It belongs to nothing in a bundle.
                let name = || format!("a name that is no text: {}", below(&String::from_utf8_lossy(&member.name)));
                self.left_out.add(name);
                continue;
            };
            let path = below(name);
            match kind_in_words(member.kind) {
                Some(kind) => self.left_out.add(|| format!("{kind}: {path}")),
                None if member.kind == FileType::Directory => self.list_below(&path, depth + 1)?,
                None => {
                    self.path_bytes += path.len();
                    if self.files.len() == MAX_FILES || self.path_bytes > MAX_PATH_BYTES {
                        return Err(cannot(format!("more than {MAX_FILES} files, or longer paths; this is no bundle")));
                    }
                    self.files.insert(path);
                }
            }
        }
        Ok(())
    }
}

/// What is neither file nor directory.
fn kind_in_words(kind: FileType) -> Option<&'static str> {
    match kind {
        FileType::RegularFile | FileType::Directory => None,
        FileType::Symlink => Some("a symbolic link"),
        FileType::Fifo => Some("a pipe"),
        FileType::Socket => Some("a socket"),
        FileType::CharacterDevice | FileType::BlockDevice => Some("a device"),
        _ => Some("no file"),
    }
}

impl BundleSource for DirBundle {
    fn read(&self, path: &str, max: u64) -> Result<Option<Vec<u8>>, ReadError> {
        // Whatever was not found below the root as a regular file is not in the bundle.
        if !self.files.contains(path) {
            return Ok(None);
        }
        let changed = |what: &str| ReadError::Unreadable {
            path: path.to_owned(),
            reason: format!("{what}; leave the bundle alone while it is judged"),
        };
        match self.root.read(path, max) {
            Ok(Found::File(bytes)) => Ok(Some(bytes)),
            Ok(Found::TooLarge) => Err(ReadError::TooLarge { path: path.to_owned(), max }),
            Ok(Found::Nothing) => Err(changed("it is gone since it was listed")),
            Err(error) => Err(changed(&error.to_string())),
        }
    }

    fn list(&self) -> Vec<String> {
        self.files.iter().cloned().collect()
    }

    fn left_out(&self) -> LeftOut {
        self.left_out.clone()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;
    use std::ffi::OsStr;
    use std::fs;
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::fs::symlink;

    #[test]
    fn files_are_read_by_path_and_bounded() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join("log/tile")).unwrap();
        fs::write(dir.path().join("log/checkpoint"), "12345").unwrap();
        let bundle = DirBundle::open(dir.path()).unwrap();
        assert_eq!(bundle.list(), ["log/checkpoint"]);
        assert_eq!(bundle.read("log/checkpoint", 5).unwrap().unwrap(), b"12345");
        assert!(matches!(bundle.read("log/checkpoint", 4), Err(ReadError::TooLarge { .. })));
        assert_eq!(bundle.read("log/tile", 5).unwrap(), None);
        assert_eq!(bundle.left_out(), LeftOut::default());
    }

    #[test]
    fn no_link_and_no_path_leads_out_of_the_bundle() {
        let outside = tempfile::tempdir().unwrap();
        fs::write(outside.path().join("secret"), "secret").unwrap();
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("inside"), "inside").unwrap();
        symlink(outside.path().join("secret"), dir.path().join("link")).unwrap();
        symlink(outside.path(), dir.path().join("directory")).unwrap();
        symlink(dir.path().join("inside"), dir.path().join("harmless")).unwrap();
        let bundle = DirBundle::open(dir.path()).unwrap();
        assert_eq!(bundle.list(), ["inside"]);
        assert_eq!(bundle.left_out().count, 3);
        assert!(bundle.left_out().named.contains(&String::from("a symbolic link: link")));
        let absolute = outside.path().join("secret").display().to_string();
        for path in ["link", "directory/secret", "../inside", absolute.as_str(), "./inside", "harmless"] {
            assert_eq!(bundle.read(path, 100).unwrap(), None, "{path}");
        }
        // A file that becomes a link after it was listed.
        fs::remove_file(dir.path().join("inside")).unwrap();
        symlink(outside.path().join("secret"), dir.path().join("inside")).unwrap();
        assert!(bundle.read("inside", 100).is_err());
    }

    #[test]
    fn a_directory_that_becomes_a_link_after_it_was_listed_is_not_followed() {
        let outside = tempfile::tempdir().unwrap();
        fs::create_dir(outside.path().join("tile")).unwrap();
        fs::write(outside.path().join("tile/000"), "secret").unwrap();
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join("log/tile")).unwrap();
        fs::write(dir.path().join("log/tile/000"), "inside").unwrap();
        let bundle = DirBundle::open(dir.path()).unwrap();
        assert_eq!(bundle.read("log/tile/000", 100).unwrap().unwrap(), b"inside");
        for swapped in ["log/tile", "log"] {
            fs::remove_dir_all(dir.path().join(swapped)).unwrap();
            let to = if swapped == "log" { outside.path().to_owned() } else { outside.path().join("tile") };
            symlink(to, dir.path().join(swapped)).unwrap();
            let error = bundle.read("log/tile/000", 100).unwrap_err().to_string();
            assert!(error.contains("leave the bundle alone"), "{swapped}: {error}");
            if swapped == "log/tile" {
                fs::remove_file(dir.path().join(swapped)).unwrap();
            }
        }
        // The root itself is held open, whatever takes its name.
        let moved = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("kept"), "kept").unwrap();
        let bundle = DirBundle::open(dir.path()).unwrap();
        fs::rename(dir.path(), moved.path().join("bundle")).unwrap();
        symlink(outside.path(), dir.path()).unwrap();
        assert_eq!(bundle.read("kept", 100).unwrap().unwrap(), b"kept");
        fs::remove_file(dir.path()).unwrap();
        fs::rename(moved.path().join("bundle"), dir.path()).unwrap();
    }

    #[test]
    fn pipes_sockets_and_names_that_are_no_text_are_counted_and_never_opened() {
        let dir = tempfile::tempdir().unwrap();
        assert!(std::process::Command::new("mkfifo").arg(dir.path().join("pipe")).status().unwrap().success());
        let _socket = std::os::unix::net::UnixListener::bind(dir.path().join("socket")).unwrap();
        fs::write(dir.path().join(OsStr::from_bytes(b"caf\xe9")), "x").unwrap();
        let bundle = DirBundle::open(dir.path()).unwrap();
        assert!(bundle.list().is_empty());
        let mut left_out = bundle.left_out();
        left_out.named.sort();
        assert_eq!(left_out.count, 3);
        assert_eq!(
            left_out.named,
            ["a name that is no text: caf\u{fffd}", "a pipe: pipe", "a socket: socket"].map(String::from)
        );
    }

    #[test]
    fn directories_without_end_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join("a/".repeat(MAX_DEPTH + 1))).unwrap();
        let error = DirBundle::open(dir.path()).unwrap_err().to_string();
        assert!(error.contains("directories deep"), "{error}");
    }
}
