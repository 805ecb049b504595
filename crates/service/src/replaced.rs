//! Putting a new text in the place of a file: whole or not at all, and still there after a power cut.
//!
//! Holds the order of the steps, and the lock between programs that change the same file. Does not hold what is in the file.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, fchown};
use std::path::{Path, PathBuf};

/// The right to change the files of one directory, among the programs that ask for it. Ends when dropped.
#[derive(Debug)]
pub struct DirectoryLock(#[expect(dead_code, reason = "the lock ends with the handle")] File);

/// Waits for the right to change `path`. The directory is what stays when the file is replaced, so the lock is on that.
///
/// # Errors
/// The system's.
pub fn lock_directory_of(path: &Path) -> io::Result<DirectoryLock> {
    let directory = File::open(directory_of(path))?;
    directory.lock()?;
    Ok(DirectoryLock(directory))
}

/// Puts `text` in the place of the file at `path`, which must exist. Whoever reads it meanwhile reads either. Mode and owner
/// stay: a file that its service could read, it still can when somebody else has changed it.
///
/// # Errors
/// The system's; the file is then as it was, or in the last step (the sync of its directory) maybe the new one.
pub fn replace_file(path: &Path, text: &str) -> io::Result<()> {
    // A link is followed, so that what it names is replaced and not the link.
    let path = std::fs::canonicalize(path)?;
    let before = std::fs::metadata(&path)?;
    let beside = beside(&path);
    let written = (|| {
        // Ours alone until it has the old one's mode. What a killed attempt left is overwritten.
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&beside)?;
        let made = file.metadata()?;
        if (made.uid(), made.gid()) != (before.uid(), before.gid()) {
            fchown(&file, Some(before.uid()), Some(before.gid()))?;
        }
        file.set_permissions(before.permissions())?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        std::fs::rename(&beside, &path)
    })();
    if written.is_err() {
        // A torn copy would only be in the way; that it cannot be removed is not what went wrong.
        let _ = std::fs::remove_file(&beside);
    }
    written?;
    File::open(directory_of(&path))?.sync_all()
}

fn beside(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".being-written");
    path.with_file_name(name)
}

fn directory_of(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn the_new_text_has_the_old_ones_mode_and_nothing_is_left_beside_it() {
        let dir = tempfile::tempdir().unwrap();
        let (path, link) = (dir.path().join("config.toml"), dir.path().join("link"));
        std::fs::write(&path, "old").unwrap();
        std::os::unix::fs::symlink("config.toml", &link).unwrap();
        for mode in [0o600, 0o644, 0o640] {
            std::fs::set_permissions(&path, PermissionsExt::from_mode(mode)).unwrap();
            std::fs::write(dir.path().join("config.toml.being-written"), "left by a kill, and longer").unwrap();
            let text = format!("new {mode:o}");
            replace_file(&link, &text).unwrap();
            assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
            assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o777, mode);
            assert!(std::fs::symlink_metadata(&link).unwrap().is_symlink());
            assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 2);
        }
        assert!(replace_file(&dir.path().join("absent"), "x").is_err());
    }

    #[test]
    fn a_failure_leaves_the_file_as_it_was() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("config.toml");
        std::fs::write(&path, "old").unwrap();
        // What is to be written beside it cannot be: something else has the name.
        std::fs::create_dir(dir.path().join("config.toml.being-written")).unwrap();
        assert!(replace_file(&path, "new").is_err());
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "old");
    }

    #[test]
    fn two_who_change_files_of_one_directory_wait_for_each_other() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("config.toml");
        let held = lock_directory_of(&path).unwrap();
        let other = File::open(dir.path()).unwrap();
        assert!(other.try_lock().is_err());
        drop(held);
        assert!(other.try_lock().is_ok());
    }
}
