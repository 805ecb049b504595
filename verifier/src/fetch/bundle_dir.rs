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

    /// Takes the partial pages away that a wider one has replaced: `path` is a page's path without its `.p/…`.
    pub(super) fn remove_partials_but(&self, path: &str, kept: Option<u16>) -> Result<(), Failure> {
        let directory = self.root.join(format!("{path}.p"));
        let cannot = |error: std::io::Error| failed(format!("cannot tidy {}: {error}", directory.display()));
        let items = match fs::read_dir(&directory) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            other => other.map_err(cannot)?,
        };
        let kept = kept.map(|width| width.to_string());
        for item in items {
            let item = item.map_err(cannot)?;
            if kept.as_deref() != item.file_name().to_str() {
                fs::remove_file(item.path()).map_err(cannot)?;
            }
        }
        if kept.is_none() {
            fs::remove_dir(&directory).map_err(cannot)?;
        }
        Ok(())
    }
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
        bundle.write("log/heads/000.p/3", b"abc").unwrap();
        bundle.write("log/heads/000.p/7", b"abcdefg").unwrap();
        assert_eq!(bundle.read("log/heads/000.p/3", 10).unwrap().unwrap(), b"abc");
        assert_eq!(bundle.read("log/heads/000.p/3", 2).unwrap(), None);
        bundle.remove_partials_but("log/heads/000", Some(7)).unwrap();
        assert_eq!(bundle.read("log/heads/000.p/3", 10).unwrap(), None);
        assert!(bundle.read("log/heads/000.p/7", 10).unwrap().is_some());
        bundle.remove_partials_but("log/heads/000", None).unwrap();
        assert!(!dir.path().join("log/heads/000.p").exists());
        bundle.remove_partials_but("log/heads/001", None).unwrap();
        assert_eq!(fs::read_dir(dir.path().join("log/heads")).unwrap().count(), 0, "nothing unfinished is left");
    }
}
