//! A bundle as a directory.
//!
//! Only regular files below the directory count. Symbolic links are not followed, wherever they point: whoever made
//! the bundle may have put them there to have another file of the auditor's read.

use audit::{BundleSource, ReadError};
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

/// Most files of a bundle: the tiles and pages of half a thousand million receipts.
pub const MAX_FILES: usize = 4_000_000;

/// Deepest directory: `witness/<name>/journal/tile/entries` and seven parts of a page's number.
const MAX_DEPTH: usize = 16;

/// A bundle in a directory, listed once.
#[derive(Debug)]
pub struct DirBundle {
    root: PathBuf,
    files: BTreeSet<String>,
}

impl DirBundle {
    /// Lists the files below `root`.
    ///
    /// # Errors
    /// [`ReadError`]: the directory, or one in it, cannot be read; more than [`MAX_FILES`] files.
    pub fn open(root: &Path) -> Result<DirBundle, ReadError> {
        let mut bundle = DirBundle { root: root.to_owned(), files: BTreeSet::new() };
        bundle.list_below(root, "", 0)?;
        Ok(bundle)
    }

    fn list_below(&mut self, directory: &Path, prefix: &str, depth: usize) -> Result<(), ReadError> {
        let cannot = |reason: String| ReadError::Unreadable { path: directory.display().to_string(), reason };
        if depth > MAX_DEPTH {
            return Err(cannot(format!("it lies more than {MAX_DEPTH} directories deep; this is no bundle")));
        }
        for item in fs::read_dir(directory).map_err(|error| cannot(error.to_string()))? {
            let item = item.map_err(|error| cannot(error.to_string()))?;
            // Names that are not UTF-8 belong to nothing in a bundle.
            let Ok(name) = item.file_name().into_string() else { continue };
            let kind = item.file_type().map_err(|error| cannot(error.to_string()))?;
            let path = if prefix.is_empty() { name } else { format!("{prefix}/{name}") };
            if kind.is_dir() {
                self.list_below(&item.path(), &path, depth + 1)?;
            } else if kind.is_file() {
                if self.files.len() == MAX_FILES {
                    return Err(cannot(format!("more than {MAX_FILES} files; this is no bundle")));
                }
                self.files.insert(path);
            }
        }
        Ok(())
    }
}

impl BundleSource for DirBundle {
    fn read(&self, path: &str, max: u64) -> Result<Option<Vec<u8>>, ReadError> {
        // Whatever was not found below the root as a regular file is not in the bundle; so no path leads out of it.
        if !self.files.contains(path) {
            return Ok(None);
        }
        let cannot = |error: std::io::Error| ReadError::Unreadable { path: path.to_owned(), reason: error.to_string() };
        let on_disk = self.root.join(path);
        if !fs::symlink_metadata(&on_disk).map_err(cannot)?.is_file() {
            let reason = String::from("it is no regular file any more; leave the bundle alone while it is judged");
            return Err(ReadError::Unreadable { path: path.to_owned(), reason });
        }
        let mut bytes = Vec::new();
        let file = File::open(&on_disk).map_err(cannot)?;
        file.take(max.saturating_add(1)).read_to_end(&mut bytes).map_err(cannot)?;
        match bytes.len() as u64 > max {
            true => Err(ReadError::TooLarge { path: path.to_owned(), max }),
            false => Ok(Some(bytes)),
        }
    }

    fn list(&self) -> Vec<String> {
        self.files.iter().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;
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
        let absolute = outside.path().join("secret").display().to_string();
        for path in ["link", "directory/secret", "../inside", absolute.as_str(), "./inside", "harmless"] {
            assert_eq!(bundle.read(path, 100).unwrap(), None, "{path}");
        }
        // A file that becomes a link after it was listed.
        fs::remove_file(dir.path().join("inside")).unwrap();
        symlink(outside.path().join("secret"), dir.path().join("inside")).unwrap();
        assert!(bundle.read("inside", 100).is_err());
    }
}
