//! The machine that the figures belong to.

use crate::failure::Failure;
use crate::process;
use note::{KeyKind, KeyName, SigningKey};
use serde::Serialize;
use std::fs::{self, File};
use std::hint::black_box;
use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

/// Synced writes whose median is told.
const SYNCS: usize = 101;
/// How long signatures are checked, in processor time: fifty times the step in which Linux counts it.
const CHECKING: Duration = Duration::from_millis(500);

/// What a reader has to know before comparing.
#[derive(Debug, Serialize)]
pub(crate) struct Machine {
    pub(crate) cores: usize,
    pub(crate) cpu: String,
    pub(crate) kernel: String,
    /// Of the directory in which the logs are.
    pub(crate) file_system: String,
    /// Microseconds to append 4 KiB to a file there and sync it.
    pub(crate) fsync_median_us: f64,
    /// Plain strict Ed25519 checks of 700 bytes, a second of processor time.
    pub(crate) strict_checks_a_core: f64,
}

impl Machine {
    /// Looks at the machine, and at the file system under `dir`.
    pub(crate) fn look(dir: &Path) -> Result<Machine, Failure> {
        let text = |path: &str| fs::read_to_string(path).map_err(Failure::io(Path::new(path)));
        let cpu = text("/proc/cpuinfo")?;
        let cpu = cpu.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
        let mounts = text("/proc/mounts")?;
        let whole = dir.canonicalize().map_err(Failure::io(dir))?;
        Ok(Machine {
            cores: std::thread::available_parallelism().map_or(0, usize::from),
            cpu: cpu.map_or("an unnamed processor", |(_, name)| name).trim().to_owned(),
            kernel: text("/proc/sys/kernel/osrelease")?.trim().to_owned(),
            file_system: file_system(&mounts, &whole).unwrap_or("an unknown file system").to_owned(),
            fsync_median_us: fsync_median_us(dir)?,
            strict_checks_a_core: strict_checks()?,
        })
    }
}

/// The type of the mount that is nearest above `dir`; of two at one place the later hides the other.
fn file_system<'a>(mounts: &'a str, dir: &Path) -> Option<&'a str> {
    let mut nearest: Option<(usize, &str)> = None;
    for line in mounts.lines() {
        let mut fields = line.split(' ').skip(1);
        let (Some(place), Some(kind)) = (fields.next(), fields.next()) else { continue };
        if dir.starts_with(place) && nearest.is_none_or(|(length, _)| place.len() >= length) {
            nearest = Some((place.len(), kind));
        }
    }
    nearest.map(|(_, kind)| kind)
}

fn fsync_median_us(dir: &Path) -> Result<f64, Failure> {
    let path = dir.join("fsync-probe");
    let failed = || Failure::io(&path);
    let mut file = File::create_new(&path).map_err(failed())?;
    let mut took = Vec::with_capacity(SYNCS);
    for _ in 0..SYNCS {
        let started = Instant::now();
        file.write_all(&[1; 4096]).and_then(|()| file.sync_data()).map_err(failed())?;
        took.push(started.elapsed());
    }
    fs::remove_file(&path).map_err(failed())?;
    took.sort_unstable();
    Ok(took[SYNCS / 2].as_secs_f64() * 1e6)
}

fn strict_checks() -> Result<f64, Failure> {
    let name = KeyName::new("gate.example/checks").map_err(Failure::unexpected)?;
    let key = SigningKey::from_seed(name, KeyKind::Ed25519, [7; 32]);
    let (message, verifier) = ([b'x'; crate::gates::ENTRY_BYTES], key.verifier());
    let signature = key.sign(&message);
    let before = process::cpu_time(None)?;
    let mut checks = 0;
    loop {
        for _ in 0..100 {
            if !black_box(&verifier).verify(black_box(&message), &signature) {
                return Err(Failure::unexpected("a good signature did not verify"));
            }
        }
        checks += 100;
        let spent = process::cpu_time(None)?.since(before).total();
        if spent >= CHECKING {
            return Ok(f64::from(checks) / spent.as_secs_f64());
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;

    #[test]
    fn the_file_system_is_that_of_the_nearest_mount_above() {
        let mounts =
            "/dev/a / ext4 rw 0 0\ntmpfs /run tmpfs rw 0 0\nnone /run/x overlay rw 0 0\n/dev/b / btrfs rw 0 0\n";
        for (dir, kind) in [("/home", "btrfs"), ("/run", "tmpfs"), ("/runner", "btrfs"), ("/run/x/y", "overlay")] {
            assert_eq!(file_system(mounts, Path::new(dir)), Some(kind), "{dir}");
        }
    }

    #[test]
    fn this_machine_can_be_described() {
        let dir = tempfile::tempdir().unwrap();
        let machine = Machine::look(dir.path()).unwrap();
        assert!(machine.cores > 0 && machine.fsync_median_us > 0.0 && machine.strict_checks_a_core > 0.0);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }
}
