//! The directory that a bundle is mirrored into.
//!
//! Every file is written under one name at the top and renamed when whole: whatever is killed when, a bundle never holds
//! half a file, and what was begun is swept away by the next run. A directory that holds anything but a bundle is left
//! alone, and no link in it is followed.

use crate::failure::{Failure, failed, usage};
use crate::rooted::{Found, Rooted};
use std::fmt::Display;
use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

/// What may lie at the top of a bundle. The auditor's own files may lie beside it; they are ignored.
const TOP: [&str; 6] = ["log", "witness", "proofs", "evidence", "policy", "issuers"];

/// Largest page: 256 entries of the greatest length.
const MAX_PAGE_BYTES: u64 = 256 * (2 + 65_535);

/// The file that is being written.
const UNFINISHED: &str = ".unfinished-file";

/// In front of the names of such files.
const UNFINISHED_PREFIX: &str = ".unfinished-";

/// A directory that is a bundle, or about to be one. Nobody else fetches into it meanwhile.
pub(super) struct BundleDir {
    root: Rooted,
    shown: PathBuf,
    /// Holds the lock.
    _handle: File,
}

impl BundleDir {
    /// Takes a directory that is new, empty or a bundle.
    pub(super) fn open(path: &Path) -> Result<BundleDir, Failure> {
        let cannot = |error: io::Error| failed(format!("cannot use {}: {error}", path.display()));
        match fs::metadata(path) {
            Ok(metadata) if !metadata.is_dir() => {
                return Err(usage(format!("{} is no directory; choose another --out", path.display())));
            }
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => fs::create_dir_all(path).map_err(cannot)?,
            Err(error) if error.kind() == io::ErrorKind::NotADirectory => {
                return Err(usage(format!("{} lies below a file; choose another --out", path.display())));
            }
            Err(error) => return Err(cannot(error)),
        }
        let root = Rooted::open(path).map_err(cannot)?;
        let handle = root.handle().map_err(cannot)?;
        match handle.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(usage(format!("another fetch is writing to {}; wait until it ends", path.display())));
            }
            // Where a file system knows no locks, two fetches at once are the user's affair.
            Err(TryLockError::Error(_)) => {}
        }
        let mut unfinished = Vec::new();
        for member in root.members("").map_err(cannot)?.into_iter().flatten() {
            let name = String::from_utf8_lossy(&member.map_err(cannot)?.name).into_owned();
            if name.starts_with(UNFINISHED_PREFIX) {
                unfinished.push(name);
            } else if !TOP.contains(&name.as_str()) {
                return Err(usage(format!(
                    "{} holds {name:?}, so it is no bundle; choose an empty directory for --out",
                    path.display()
                )));
            }
        }
        // What an earlier run was killed over.
        unfinished.iter().try_for_each(|name| root.remove_file(name)).map_err(cannot)?;
        Ok(BundleDir { root, shown: path.to_owned(), _handle: handle })
    }

    /// Puts a file in place, whole or not at all, also over another one.
    pub(super) fn write(&self, path: &str, bytes: &[u8]) -> Result<(), Failure> {
        self.root
            .write(UNFINISHED, bytes)
            .and_then(|()| self.root.rename(UNFINISHED, path))
            .map_err(|error| self.cannot_write(path, &error))
    }

    /// A file that is there already, if it has at most `max` bytes.
    pub(super) fn read(&self, path: &str, max: u64) -> Result<Option<Vec<u8>>, Failure> {
        match self.root.read(path, max) {
            Ok(Found::File(bytes)) => Ok(Some(bytes)),
            Ok(Found::Nothing | Found::TooLarge) => Ok(None),
            Err(error) => Err(failed(format!("cannot read {}: {error}", self.shown.join(path).display()))),
        }
    }

    /// Whether a file is there, whatever it holds.
    pub(super) fn holds(&self, path: &str) -> Result<bool, Failure> {
        match self.root.read(path, 0) {
            Ok(found) => Ok(found != Found::Nothing),
            Err(error) => Err(failed(format!("cannot read {}: {error}", self.shown.join(path).display()))),
        }
    }

    /// Takes a file away.
    pub(super) fn remove(&self, path: &str) -> Result<(), Failure> {
        self.root.remove_file(path).map_err(|error| self.cannot_write(path, &error))
    }

    /// Takes a file over from an earlier bundle, whose bytes have been looked at: as one more name of the same file, or
    /// as a copy where that cannot be.
    pub(super) fn take_over(&self, earlier: &Rooted, path: &str, bytes: &[u8]) -> Result<(), Failure> {
        // A damaged copy of ours may lie there.
        self.remove_if_there(path)?;
        match self.root.link_from(earlier, path) {
            Ok(()) => Ok(()),
            Err(_) => self.write(path, bytes),
        }
    }

    fn remove_if_there(&self, path: &str) -> Result<(), Failure> {
        if self.holds(path)? { self.remove(path) } else { Ok(()) }
    }

    /// Puts a file in place whose bytes may never change: a copy that is held already is never replaced by other bytes.
    /// What contradicts it is returned as a fault.
    pub(super) fn put_immutable(&self, path: &str, bytes: &[u8]) -> Result<Option<String>, Failure> {
        match self.read(path, bytes.len() as u64)? {
            Some(held) if held == bytes => Ok(None),
            None if !self.holds(path)? => self.write(path, bytes).map(|()| None),
            Some(_) | None => Ok(Some(other_bytes(path))),
        }
    }

    /// The widths of the partial pages that are held of a page, given the path of the full one.
    pub(super) fn partial_widths(&self, whole: &str) -> Result<Vec<u16>, Failure> {
        let directory = format!("{whole}.p");
        let cannot =
            |error: io::Error| failed(format!("cannot list {}: {error}", self.shown.join(&directory).display()));
        let mut widths = Vec::new();
        for member in self.root.members(&directory).map_err(cannot)?.into_iter().flatten() {
            let name = member.map_err(cannot)?.name;
            let width = std::str::from_utf8(&name).ok().and_then(merkle::decimal::parse_u64);
            widths.extend(width.and_then(|width| u16::try_from(width).ok()));
        }
        widths.sort_unstable();
        Ok(widths)
    }

    /// Takes away the narrower partial pages or tiles of the place of `path`, which holds `bytes` now, if it begins with
    /// them. What contradicts a held copy is returned as faults.
    pub(super) fn tidy(&self, path: &str, bytes: &[u8]) -> Result<Vec<String>, Failure> {
        let (whole, width) = match path.rsplit_once(".p/") {
            Some((whole, width)) => (whole, merkle::decimal::parse_u64(width).unwrap_or(0)),
            None => (path, u64::from(merkle::TILE_WIDTH)),
        };
        let (mut faults, mut is_empty, mut is_there) = (Vec::new(), true, false);
        for other in self.partial_widths(whole)? {
            is_there = true;
            if u64::from(other) == width {
                is_empty = false;
                continue;
            }
            let partial = format!("{whole}.p/{other}");
            let held = self.read(&partial, MAX_PAGE_BYTES)?.unwrap_or_default();
            let agrees = bytes.starts_with(&held) || held.starts_with(bytes);
            if !agrees {
                faults.push(other_bytes(&partial));
            }
            // A wider one is kept: the log shows less than it did.
            match agrees && u64::from(other) < width {
                true => self.remove(&partial)?,
                false => is_empty = false,
            }
        }
        if is_there && is_empty {
            let directory = format!("{whole}.p");
            self.root.remove_directory(&directory).map_err(|error| self.cannot_write(&directory, &error))?;
        }
        Ok(faults)
    }

    fn cannot_write(&self, path: &str, error: &dyn Display) -> Failure {
        failed(format!(
            "cannot write {}: {error}; see to it and run the same command again, what the bundle holds is kept",
            self.shown.join(path).display()
        ))
    }
}

fn other_bytes(path: &str) -> String {
    format!("{path}: other bytes are served now of what may never change; the copy held is kept")
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
        assert!(!dir.path().join(".unfinished-x").exists(), "what was begun is swept away");
        fs::write(dir.path().join("thesis.tex"), "").unwrap();
        let refused = BundleDir::open(dir.path()).err().unwrap();
        assert_eq!(refused.status, ExitStatus::Usage);
        assert!(refused.reason.contains("thesis.tex"), "{}", refused.reason);
        for no_directory in ["thesis.tex", "thesis.tex/below"] {
            assert_eq!(BundleDir::open(&dir.path().join(no_directory)).err().unwrap().status, ExitStatus::Usage);
        }
    }

    #[test]
    fn one_fetch_at_a_time_writes_to_a_bundle() {
        let dir = tempfile::tempdir().unwrap();
        let first = BundleDir::open(dir.path()).unwrap();
        assert!(BundleDir::open(dir.path()).err().unwrap().reason.contains("another fetch"));
        drop(first);
        assert!(BundleDir::open(dir.path()).is_ok());
    }

    /// As a mirror does it.
    fn put(bundle: &BundleDir, path: &str, bytes: &[u8]) -> Vec<String> {
        let mut faults: Vec<String> = bundle.put_immutable(path, bytes).unwrap().into_iter().collect();
        faults.extend(bundle.tidy(path, bytes).unwrap());
        faults
    }

    #[test]
    fn files_are_put_in_place_whole_and_partials_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let bundle = BundleDir::open(dir.path()).unwrap();
        assert!(put(&bundle, "log/heads/000.p/3", b"abc").is_empty());
        assert_eq!(bundle.read("log/heads/000.p/3", 10).unwrap().unwrap(), b"abc");
        assert_eq!(bundle.read("log/heads/000.p/3", 2).unwrap(), None);
        assert!(put(&bundle, "log/heads/000.p/7", b"abcdefg").is_empty());
        assert_eq!(bundle.partial_widths("log/heads/000").unwrap(), [7]);
        assert!(put(&bundle, "log/heads/000", b"abcdefghi").is_empty());
        assert!(!dir.path().join("log/heads/000.p").exists());
        assert_eq!(fs::read_dir(dir.path().join("log/heads")).unwrap().count(), 1);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "nothing unfinished is left");
    }

    #[test]
    fn a_held_copy_is_never_replaced_by_other_bytes() {
        let dir = tempfile::tempdir().unwrap();
        let bundle = BundleDir::open(dir.path()).unwrap();
        let held = |path: &str| bundle.read(path, 100).unwrap().unwrap();
        assert!(put(&bundle, "log/heads/000.p/3", b"abc").is_empty());
        for other in [&b"abX"[..], b"ab", b"abcd"] {
            let faults = put(&bundle, "log/heads/000.p/3", other);
            assert!(matches!(faults.as_slice(), [fault] if fault.starts_with("log/heads/000.p/3: ")), "{faults:?}");
            assert_eq!(held("log/heads/000.p/3"), b"abc");
        }
        // Another path, and yet the same place: both are kept.
        for (path, other) in [("log/heads/000.p/5", &b"abXde"[..]), ("log/heads/000", b"abXdefg")] {
            assert!(put(&bundle, path, other).iter().any(|fault| fault.starts_with("log/heads/000.p/3: ")));
            assert_eq!((held("log/heads/000.p/3"), held(path)), (b"abc".to_vec(), other.to_vec()));
        }
        // A list that became shorter does not shorten what is held.
        assert!(put(&bundle, "log/heads/001.p/3", b"abc").is_empty());
        assert!(put(&bundle, "log/heads/001.p/2", b"ab").is_empty());
        assert_eq!(held("log/heads/001.p/3"), b"abc");
    }

    #[test]
    fn no_link_in_a_bundle_is_written_through() {
        let (dir, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        fs::create_dir(dir.path().join("log")).unwrap();
        std::os::unix::fs::symlink(outside.path(), dir.path().join("log/tile")).unwrap();
        let bundle = BundleDir::open(dir.path()).unwrap();
        assert!(bundle.write("log/tile/0/000", b"x").is_err());
        assert!(bundle.read("log/tile/0/000", 10).is_err());
        assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_file_of_an_earlier_bundle_is_taken_over_by_name_or_by_copy() {
        let (dir, earlier) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        fs::create_dir(earlier.path().join("log")).unwrap();
        fs::write(earlier.path().join("log/a"), "abc").unwrap();
        let bundle = BundleDir::open(dir.path()).unwrap();
        bundle.write("log/a", b"damaged").unwrap();
        let earlier = Rooted::open(earlier.path()).unwrap();
        bundle.take_over(&earlier, "log/a", b"abc").unwrap();
        bundle.take_over(&earlier, "log/gone", b"def").unwrap();
        assert_eq!(bundle.read("log/a", 10).unwrap().unwrap(), b"abc");
        assert_eq!(bundle.read("log/gone", 10).unwrap().unwrap(), b"def");
    }
}
