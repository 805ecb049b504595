//! The directory that a bundle is mirrored into.
//!
//! Every file is written under a temporary name beside its place and renamed when whole: whatever is killed when, a
//! bundle never holds half a file. A directory that holds anything but a bundle is left alone.

use crate::failure::{Failure, failed, usage};
use std::fs::{self, File};
use std::io::{ErrorKind, Read, Write};
use std::path::{Path, PathBuf};

/// What may lie at the top of a bundle. The auditor's own files may lie beside it; they are ignored.
const TOP: [&str; 6] = ["log", "witness", "proofs", "evidence", "policy", "issuers"];

/// Largest page: 256 entries of the greatest length.
pub(super) const MAX_PAGE_BYTES: u64 = 256 * (2 + 65_535);

/// In front of the name of a file that is being written.
const UNFINISHED: &str = ".unfinished-";

/// A directory that is a bundle, or about to be one.
pub(super) struct BundleDir {
    root: PathBuf,
}

impl BundleDir {
    /// Takes a directory that is new, empty or a bundle.
    pub(super) fn open(root: &Path) -> Result<BundleDir, Failure> {
        let cannot = |error: std::io::Error| failed(format!("cannot use {}: {error}", root.display()));
        let items = match fs::read_dir(root) {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                fs::create_dir_all(root).map_err(cannot)?;
                return Ok(BundleDir { root: root.to_owned() });
            }
            Err(error) if error.kind() == ErrorKind::NotADirectory => {
                return Err(usage(format!("{} is no directory; choose another --out", root.display())));
            }
            other => other.map_err(cannot)?,
        };
        for item in items {
            let name = item.map_err(cannot)?.file_name();
            if !TOP.iter().any(|known| *known == name) && !name.to_string_lossy().starts_with(UNFINISHED) {
                return Err(usage(format!(
                    "{} holds {name:?}, so it is no bundle; choose an empty directory for --out",
                    root.display()
                )));
            }
        }
        Ok(BundleDir { root: root.to_owned() })
    }

    /// Puts a file in place, whole or not at all. The same bytes again change nothing.
    pub(super) fn write(&self, path: &str, bytes: &[u8]) -> Result<(), Failure> {
        let place = self.root.join(path);
        let cannot = |error: std::io::Error| failed(format!("cannot write {}: {error}", place.display()));
        let (Some(parent), Some(name)) = (place.parent(), place.file_name().and_then(|name| name.to_str())) else {
            return Err(failed(format!("{path} is no path of a bundle")));
        };
        fs::create_dir_all(parent).map_err(cannot)?;
        let unfinished = parent.join(format!("{UNFINISHED}{name}"));
        // Whatever lies there is what an earlier run was killed over.
        let mut file = File::create(&unfinished).map_err(cannot)?;
        file.write_all(bytes).map_err(cannot)?;
        drop(file);
        fs::rename(&unfinished, &place).map_err(cannot)
    }

    /// A file that is there already, if it has at most `max` bytes.
    pub(super) fn read(&self, path: &str, max: u64) -> Result<Option<Vec<u8>>, Failure> {
        let place = self.root.join(path);
        let cannot = |error: std::io::Error| failed(format!("cannot read {}: {error}", place.display()));
        let file = match File::open(&place) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            other => other.map_err(cannot)?,
        };
        let mut bytes = Vec::new();
        file.take(max.saturating_add(1)).read_to_end(&mut bytes).map_err(cannot)?;
        Ok((bytes.len() as u64 <= max).then_some(bytes))
    }

    /// Puts a page or tile in place, whose bytes may never change: a copy that is held already is never replaced by
    /// other bytes. Narrower pages of its place go away if it begins with them. What contradicts a held copy is
    /// returned as faults.
    pub(super) fn put_immutable(&self, path: &str, bytes: &[u8]) -> Result<Vec<String>, Failure> {
        let length = bytes.len() as u64;
        match self.read(path, length)? {
            Some(held) if held == bytes => {}
            None if self.root.join(path).symlink_metadata().is_err() => self.write(path, bytes)?,
            Some(_) | None => return Ok(vec![other_bytes(path)]),
        }
        let (whole, width) = match path.rsplit_once(".p/") {
            Some((whole, width)) => (whole, merkle::decimal::parse_u64(width)),
            None => (path, Some(u64::from(merkle::TILE_WIDTH))),
        };
        let directory = self.root.join(format!("{whole}.p"));
        let cannot = |error: std::io::Error| failed(format!("cannot tidy {}: {error}", directory.display()));
        let items = match fs::read_dir(&directory) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            other => other.map_err(cannot)?,
        };
        let (mut faults, mut is_empty) = (Vec::new(), true);
        for item in items {
            let item = item.map_err(cannot)?;
            let name = item.file_name().to_string_lossy().into_owned();
            let partial = format!("{whole}.p/{name}");
            let is_superfluous = match merkle::decimal::parse_u64(&name) {
                None => name.starts_with(UNFINISHED),
                Some(other) if Some(other) == width => false,
                Some(other) if Some(other) < width => {
                    let is_beginning = self.read(&partial, length)?.is_some_and(|held| bytes.starts_with(&held));
                    if !is_beginning {
                        faults.push(other_bytes(&partial));
                    }
                    is_beginning
                }
                // The log shows less than it did; what it showed is kept.
                Some(_) => {
                    if !self.read(&partial, MAX_PAGE_BYTES)?.is_some_and(|held| held.starts_with(bytes)) {
                        faults.push(other_bytes(&partial));
                    }
                    false
                }
            };
            match is_superfluous {
                true => fs::remove_file(item.path()).map_err(cannot)?,
                false => is_empty = false,
            }
        }
        if is_empty {
            fs::remove_dir(&directory).map_err(cannot)?;
        }
        Ok(faults)
    }
}

fn other_bytes(path: &str) -> String {
    format!("{path}: the log now serves other bytes at a path that may never change; the copy held is kept")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;
    use service::ExitStatus;

    #[test]
    fn a_directory_of_something_else_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        assert!(BundleDir::open(dir.path()).is_ok());
        assert!(BundleDir::open(&dir.path().join("new/deep")).is_ok());
        fs::remove_dir_all(dir.path().join("new")).unwrap();
        fs::create_dir(dir.path().join("log")).unwrap();
        fs::write(dir.path().join(".unfinished-x"), "").unwrap();
        assert!(BundleDir::open(dir.path()).is_ok());
        fs::write(dir.path().join("thesis.tex"), "").unwrap();
        let refused = BundleDir::open(dir.path()).err().unwrap();
        assert_eq!(refused.status, ExitStatus::Usage);
        assert!(refused.reason.contains("thesis.tex"), "{}", refused.reason);
        assert_eq!(BundleDir::open(&dir.path().join("thesis.tex")).err().unwrap().status, ExitStatus::Usage);
    }

    #[test]
    fn files_are_put_in_place_whole_and_partials_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let bundle = BundleDir::open(dir.path()).unwrap();
        let put = |path: &str, bytes: &[u8]| bundle.put_immutable(path, bytes).unwrap();
        assert!(put("log/heads/000.p/3", b"abc").is_empty());
        assert_eq!(bundle.read("log/heads/000.p/3", 10).unwrap().unwrap(), b"abc");
        assert_eq!(bundle.read("log/heads/000.p/3", 2).unwrap(), None);
        assert!(put("log/heads/000.p/7", b"abcdefg").is_empty());
        assert_eq!(bundle.read("log/heads/000.p/3", 10).unwrap(), None);
        assert!(bundle.read("log/heads/000.p/7", 10).unwrap().is_some());
        assert!(put("log/heads/000", b"abcdefghi").is_empty());
        assert!(!dir.path().join("log/heads/000.p").exists());
        assert_eq!(fs::read_dir(dir.path().join("log/heads")).unwrap().count(), 1, "nothing unfinished is left");
    }

    #[test]
    fn a_held_copy_is_never_replaced_by_other_bytes() {
        let dir = tempfile::tempdir().unwrap();
        let bundle = BundleDir::open(dir.path()).unwrap();
        let put = |path: &str, bytes: &[u8]| bundle.put_immutable(path, bytes).unwrap();
        let held = |path: &str| bundle.read(path, 100).unwrap().unwrap();
        assert!(put("log/heads/000.p/3", b"abc").is_empty());
        for other in [&b"abX"[..], b"ab", b"abcd"] {
            let faults = put("log/heads/000.p/3", other);
            assert!(matches!(faults.as_slice(), [fault] if fault.starts_with("log/heads/000.p/3: ")), "{faults:?}");
            assert_eq!(held("log/heads/000.p/3"), b"abc");
        }
        // Another path, and yet the same place: both are kept.
        for (path, other) in [("log/heads/000.p/5", &b"abXde"[..]), ("log/heads/000", b"abXdefg")] {
            assert!(put(path, other).iter().any(|fault| fault.starts_with("log/heads/000.p/3: ")));
            assert_eq!((held("log/heads/000.p/3"), held(path)), (b"abc".to_vec(), other.to_vec()));
        }
        // A list that became shorter does not shorten what is held.
        assert!(put("log/heads/001.p/3", b"abc").is_empty());
        assert!(put("log/heads/001.p/2", b"ab").is_empty());
        assert_eq!(held("log/heads/001.p/3"), b"abc");
    }
}
