//! Files below one directory, by path, never through a link.
//!
//! Every part of a path is opened below the one before it, as what it must be: a directory, at the end a regular file.
//! So no link is followed wherever it stands, also one that takes a directory's place a moment before, and no pipe or
//! device is ever waited for. Holds the steps on the disk. Does not know what a bundle is.

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags};
use rustix::io::Errno;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

/// How directories on the way are opened.
const DIRECTORY: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// How files are opened: what turns out to be a pipe or a terminal must neither be waited for nor taken as ours.
const FILE: OFlags =
    OFlags::RDONLY.union(OFlags::NOFOLLOW).union(OFlags::NONBLOCK).union(OFlags::NOCTTY).union(OFlags::CLOEXEC);

/// Modes of what is made: the user's umask takes away from them.
const NEW_FILE: Mode = Mode::from_raw_mode(0o666);
const NEW_DIRECTORY: Mode = Mode::from_raw_mode(0o777);

/// A directory that is held open: what happens to its name later changes nothing.
#[derive(Debug)]
pub(crate) struct Rooted(OwnedFd);

/// What is at a path.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Found {
    Nothing,
    /// More bytes than were asked for; none of them was read.
    TooLarge,
    File(Vec<u8>),
}

/// One name in a directory.
#[derive(Debug)]
pub(crate) struct Member {
    pub(crate) name: Vec<u8>,
    pub(crate) kind: FileType,
}

impl Rooted {
    /// Holds the directory at `path`. Links in this path are followed: the user wrote it.
    pub(crate) fn open(path: &Path) -> io::Result<Rooted> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(Rooted(rustix::fs::openat(CWD, path, flags, Mode::empty())?))
    }

    /// A handle to the directory itself, to lock it by.
    pub(crate) fn handle(&self) -> io::Result<File> {
        Ok(File::from(self.0.try_clone()?))
    }

    /// Reads the regular file at `path`, if it has at most `max` bytes.
    pub(crate) fn read(&self, path: &str, max: u64) -> io::Result<Found> {
        let (parent, name) = match self.parent(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Found::Nothing),
            other => other?,
        };
        // Asked first, because opening a device can already do something to it.
        match rustix::fs::statat(parent.as_fd(), name, AtFlags::SYMLINK_NOFOLLOW) {
            Err(Errno::NOENT) => return Ok(Found::Nothing),
            Err(error) => return Err(error.into()),
            Ok(stat) => must_be_regular(FileType::from_raw_mode(stat.st_mode))?,
        }
        let file = rustix::fs::openat(parent.as_fd(), name, FILE, Mode::empty())?;
        let stat = rustix::fs::fstat(&file)?;
        must_be_regular(FileType::from_raw_mode(stat.st_mode))?;
        if u64::try_from(stat.st_size).unwrap_or(u64::MAX) > max {
            return Ok(Found::TooLarge);
        }
        // No more than `max`, and one byte more tells that it ends there. It may grow meanwhile.
        let mut bytes = Vec::with_capacity(usize::try_from(stat.st_size).unwrap_or(0).saturating_add(1));
        File::from(file).take(max.saturating_add(1)).read_to_end(&mut bytes)?;
        Ok(if bytes.len() as u64 > max { Found::TooLarge } else { Found::File(bytes) })
    }

    /// What is in the directory at `path` (empty: the root), in any order; `None` where there is none.
    pub(crate) fn members(&self, path: &str) -> io::Result<Option<impl Iterator<Item = io::Result<Member>> + use<>>> {
        let directory = match self.directory(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            other => other?,
        };
        let entries = Dir::read_from(&directory)?;
        let is_dots = |name: &[u8]| name == b"." || name == b"..";
        let member = move |entry: rustix::io::Result<rustix::fs::DirEntry>| {
            let entry = entry?;
            let kind = match entry.file_type() {
                FileType::Unknown => {
                    let stat = rustix::fs::statat(&directory, entry.file_name(), AtFlags::SYMLINK_NOFOLLOW)?;
                    FileType::from_raw_mode(stat.st_mode)
                }
                kind => kind,
            };
            Ok(Member { name: entry.file_name().to_bytes().to_vec(), kind })
        };
        let keep = move |member: &io::Result<Member>| member.as_ref().map_or(true, |member| !is_dots(&member.name));
        Ok(Some(entries.map(member).filter(keep)))
    }

    /// Writes a new file, or over one that is there.
    pub(crate) fn write(&self, path: &str, bytes: &[u8]) -> io::Result<()> {
        let (parent, name) = self.made_parent(path)?;
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = rustix::fs::openat(parent.as_fd(), name, flags, NEW_FILE)?;
        File::from(file).write_all(bytes)
    }

    /// Gives a file another path, in place of whatever file is there.
    pub(crate) fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let (from_parent, from_name) = self.parent(from)?;
        let (to_parent, to_name) = self.made_parent(to)?;
        Ok(rustix::fs::renameat(from_parent.as_fd(), from_name, to_parent.as_fd(), to_name)?)
    }

    /// Makes the file at `path` in `other` one of this directory too, at the same path.
    pub(crate) fn link_from(&self, other: &Rooted, path: &str) -> io::Result<()> {
        let (from_parent, name) = other.parent(path)?;
        let (to_parent, _) = self.made_parent(path)?;
        // Without flags a link itself is linked, never what it points to.
        Ok(rustix::fs::linkat(from_parent.as_fd(), name, to_parent.as_fd(), name, AtFlags::empty())?)
    }

    /// Removes a file, if it is there.
    pub(crate) fn remove_file(&self, path: &str) -> io::Result<()> {
        let (parent, name) = self.parent(path)?;
        match rustix::fs::unlinkat(parent.as_fd(), name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Removes an empty directory.
    pub(crate) fn remove_directory(&self, path: &str) -> io::Result<()> {
        let (parent, name) = self.parent(path)?;
        Ok(rustix::fs::unlinkat(parent.as_fd(), name, AtFlags::REMOVEDIR)?)
    }

    fn directory(&self, path: &str) -> io::Result<OwnedFd> {
        let mut directory = self.0.try_clone()?;
        for part in path.split('/').filter(|_| !path.is_empty()) {
            must_be_a_name(part)?;
            directory = rustix::fs::openat(&directory, part, DIRECTORY, Mode::empty())?;
        }
        Ok(directory)
    }

    /// The directory that `path` lies in, and its last part.
    fn parent<'path>(&self, path: &'path str) -> io::Result<(Parent<'_>, &'path str)> {
        let Some((parent, name)) = path.rsplit_once('/') else {
            must_be_a_name(path)?;
            return Ok((Parent::Root(self.0.as_fd()), path));
        };
        must_be_a_name(parent)?;
        must_be_a_name(name)?;
        Ok((Parent::Below(self.directory(parent)?), name))
    }

    /// The same; directories that are not there are made.
    fn made_parent<'path>(&self, path: &'path str) -> io::Result<(Parent<'_>, &'path str)> {
        match self.parent(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let mut directory = self.0.try_clone()?;
                for part in path.rsplit_once('/').map_or("", |(parent, _)| parent).split('/') {
                    must_be_a_name(part)?;
                    match rustix::fs::mkdirat(&directory, part, NEW_DIRECTORY) {
                        Ok(()) | Err(Errno::EXIST) => {}
                        Err(error) => return Err(error.into()),
                    }
                    directory = rustix::fs::openat(&directory, part, DIRECTORY, Mode::empty())?;
                }
                self.parent(path)
            }
            other => other,
        }
    }
}

enum Parent<'root> {
    Root(BorrowedFd<'root>),
    Below(OwnedFd),
}

impl AsFd for Parent<'_> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Parent::Root(root) => *root,
            Parent::Below(directory) => directory.as_fd(),
        }
    }
}

fn must_be_regular(kind: FileType) -> io::Result<()> {
    match kind {
        FileType::RegularFile => Ok(()),
        _ => Err(io::Error::other("it is no regular file")),
    }
}

/// One part of a path that leads neither up nor nowhere.
fn must_be_a_name(part: &str) -> io::Result<()> {
    match part {
        "" | "." | ".." => Err(io::Error::new(io::ErrorKind::InvalidInput, "this is no path below a directory")),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::os::unix::net::UnixListener;

    #[test]
    fn nothing_is_read_or_written_through_a_link_or_beyond_the_root() {
        let outside = tempfile::tempdir().unwrap();
        fs::write(outside.path().join("secret"), "secret").unwrap();
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("a")).unwrap();
        symlink(outside.path(), dir.path().join("a/out")).unwrap();
        symlink(outside.path().join("secret"), dir.path().join("a/link")).unwrap();
        let root = Rooted::open(dir.path()).unwrap();
        for path in ["a/out/secret", "a/link", "../x", "a/../../x", "/etc/passwd", "a//b", ".", ""] {
            assert!(root.read(path, 100).is_err(), "{path}");
        }
        for path in ["a/out/new", "a/link", "../new", "a/out/deep/new", "absent/../../new"] {
            assert!(root.write(path, b"x").is_err(), "{path}");
        }
        assert!(root.members("a/out").is_err());
        assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 1);
        assert_eq!(fs::read(outside.path().join("secret")).unwrap(), b"secret");
    }

    #[test]
    fn what_is_no_regular_file_is_not_waited_for() {
        let dir = tempfile::tempdir().unwrap();
        let fifo = dir.path().join("fifo");
        assert!(std::process::Command::new("mkfifo").arg(&fifo).status().unwrap().success());
        let _socket = UnixListener::bind(dir.path().join("socket")).unwrap();
        fs::create_dir(dir.path().join("directory")).unwrap();
        let root = Rooted::open(dir.path()).unwrap();
        for path in ["fifo", "socket", "directory"] {
            assert!(root.read(path, 100).is_err(), "{path}");
        }
        let device = Rooted::open("/dev".as_ref()).unwrap();
        assert!(device.read("zero", 100).is_err());
    }

    #[test]
    fn a_file_with_a_terabyte_of_holes_costs_nothing() {
        let dir = tempfile::tempdir().unwrap();
        File::create(dir.path().join("sparse")).unwrap().set_len(1 << 40).unwrap();
        let root = Rooted::open(dir.path()).unwrap();
        assert_eq!(root.read("sparse", 1 << 20).unwrap(), Found::TooLarge);
        assert_eq!(root.read("absent", 10).unwrap(), Found::Nothing);
        assert_eq!(root.read("absent/deep", 10).unwrap(), Found::Nothing);
    }

    #[test]
    fn files_are_made_moved_linked_and_removed_below_the_root() {
        let (dir, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (root, copy) = (Rooted::open(dir.path()).unwrap(), Rooted::open(other.path()).unwrap());
        root.write("a/b/c", b"1234").unwrap();
        root.rename("a/b/c", "a/d/e").unwrap();
        assert_eq!(root.read("a/d/e", 4).unwrap(), Found::File(b"1234".to_vec()));
        copy.link_from(&root, "a/d/e").unwrap();
        assert_eq!(copy.read("a/d/e", 4).unwrap(), Found::File(b"1234".to_vec()));
        root.remove_file("a/d/e").unwrap();
        root.remove_file("a/d/e").unwrap();
        root.remove_directory("a/d").unwrap();
        let names: Vec<_> = root.members("a").unwrap().unwrap().map(|member| member.unwrap().name).collect();
        assert_eq!(names, [b"b".to_vec()]);
        assert!(root.members("absent").unwrap().is_none());
    }
}
