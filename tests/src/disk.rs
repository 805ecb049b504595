//! Small file systems that fill up, become read-only, or fail. They need the right to mount, so without it a test checks
//! less and says so.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

const MIB: u64 = 1024 * 1024;
/// Written at a time while a disk is filled.
const PIECE: usize = 16 * 1024;
/// The file that takes a disk's room.
const BALLAST: &str = "ballast";

/// A mounted file system. Dropping it unmounts it, whoever still has files open on it.
#[derive(Debug)]
pub struct SmallDisk {
    at: PathBuf,
    image: Option<PathBuf>,
}

impl SmallDisk {
    /// A file system in memory of `mib` MiB, mounted at `at`, which is made. `None`, and a line that says so, where mounting
    /// is not allowed.
    pub fn in_memory(at: &Path, mib: u64) -> Option<SmallDisk> {
        fs::create_dir_all(at).unwrap();
        mounted(Command::new("mount").args(["-t", "tmpfs", "-o", &format!("size={mib}m"), "tmpfs"]).arg(at))?;
        Some(SmallDisk { at: at.to_owned(), image: None })
    }

    /// A file system in the file `image`, of `mib` MiB, mounted at `at`, which is made. It becomes read-only at its first
    /// error. `None` as for [`SmallDisk::in_memory`].
    pub fn in_file(at: &Path, image: &Path, mib: u64) -> Option<SmallDisk> {
        fs::create_dir_all(at).unwrap();
        File::create(image).unwrap().set_len(mib * MIB).unwrap();
        mounted(Command::new("mkfs.ext4").args(["-q", "-m", "0"]).arg(image))?;
        let disk = SmallDisk { at: at.to_owned(), image: Some(image.to_owned()) };
        disk.mount_image().then_some(disk)
    }

    /// Where it is mounted.
    pub fn path(&self) -> &Path {
        &self.at
    }

    /// Takes all of its room but about `left` bytes.
    pub fn fill(&self, left: u64) {
        let mut ballast = File::options().append(true).create(true).open(self.at.join(BALLAST)).unwrap();
        while ballast.write_all(&[0xbb; PIECE]).is_ok() {}
        let length = ballast.metadata().unwrap().len();
        ballast.set_len(length.saturating_sub(left)).unwrap();
    }

    /// Gives back what [`SmallDisk::fill`] took.
    pub fn make_room(&self) {
        fs::remove_file(self.at.join(BALLAST)).unwrap();
    }

    /// Makes it read-only, or not. Nobody may have a file open to write.
    pub fn read_only(&self, read_only: bool) {
        let how = if read_only { "remount,ro" } else { "remount,rw" };
        assert!(Command::new("mount").args(["-o", how]).arg(&self.at).status().unwrap().success());
    }

    /// Makes the file system in a file report an error, after which it is read-only, whoever has files open. `None`, and a
    /// line that says so, where the kernel offers no such thing.
    pub fn fail(&self) -> Option<()> {
        let source = Command::new("findmnt").args(["-n", "-o", "SOURCE"]).arg(&self.at).output().unwrap();
        let source = String::from_utf8(source.stdout).unwrap();
        let device = source.trim().trim_start_matches("/dev/");
        let trigger = format!("/sys/fs/ext4/{device}/trigger_fs_error");
        fs::write(&trigger, "a test").inspect_err(|error| skipped(&format!("{trigger}: {error}"))).ok()
    }

    /// Takes it out and puts it in again, as after a repair.
    pub fn put_back(&self) {
        unmount(&self.at);
        let image = self.image.as_ref().expect("only a file system in a file outlives its mount");
        // 1: repaired.
        let checked = Command::new("fsck.ext4").arg("-p").arg(image).output().unwrap();
        assert!(matches!(checked.status.code(), Some(0 | 1)), "{checked:?}");
        assert!(self.mount_image());
    }

    fn mount_image(&self) -> bool {
        let image = self.image.as_ref().expect("called for file systems in files");
        mounted(Command::new("mount").args(["-o", "loop,errors=remount-ro"]).arg(image).arg(&self.at)).is_some()
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        unmount(&self.at);
    }
}

/// Says, past the capture of the test runner, that less was checked.
pub fn skipped(why: &str) {
    // Nowhere to say it, nobody to hear it.
    let _ = writeln!(std::io::stderr(), "SKIPPED: a test of disks that fail, which needs the right to mount: {why}");
}

fn mounted(command: &mut Command) -> Option<()> {
    match command.output() {
        Ok(output) if output.status.success() => Some(()),
        Ok(output) => {
            skipped(String::from_utf8_lossy(&output.stderr).trim());
            None
        }
        Err(error) => {
            skipped(&format!("{command:?}: {error}"));
            None
        }
    }
}

fn unmount(at: &Path) {
    // Lazily: a process that is just being killed must not keep it.
    let _ = Command::new("umount").arg("-l").arg(at).status();
}
