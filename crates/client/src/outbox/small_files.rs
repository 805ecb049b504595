//! Small files that are replaced whole, the lock, and lines of JSON.

use super::append_only::AppendOnly;
use super::error::OutboxError;
use serde::{Deserialize, Serialize};
use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;
use std::time::{Duration, Instant};

/// Most bytes of `state`, `open` and `log`: a few vkeys of 310 bytes each, seqs of some ten digits; an issuer that rotated a
/// thousand times, and a gate with fifty thousand calls at once, fit.
const MAX_SMALL_FILE: u64 = 1 << 20;

/// How long a lock may be held by a process that is just ending, or by a program that the last holder is just starting and
/// that has a copy of its files until it runs, before it counts as in use.
const LOCK_PATIENCE: Duration = Duration::from_secs(1);
const LOCK_GLANCE: Duration = Duration::from_millis(10);

pub(super) fn json_line<T: for<'de> Deserialize<'de>>(file: &AppendOnly, place: u64) -> Result<Option<T>, OutboxError> {
    let Some(line) = file.read(place)? else { return Ok(None) };
    serde_json::from_slice(&line)
        .map(Some)
        .map_err(|error| OutboxError::damaged(file.path(), format!("on line {}", place + 1), error.to_string()))
}

pub(super) fn append_json<T: Serialize>(file: &mut AppendOnly, values: &[T]) -> Result<(), OutboxError> {
    let lines = values
        .iter()
        .map(serde_json::to_vec)
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| OutboxError::Unframeable(error.to_string()))?;
    file.append(lines.iter().map(Vec::as_slice))
}

pub(super) fn make_dir(dir: &Path) -> Result<(), OutboxError> {
    // Receipts say who asked for what: nobody else's business.
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(dir)
        .map_err(|error| OutboxError::disk("create", dir, error))?;
    let parent = dir.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    sync_dir(parent)
}

pub(super) fn sync_dir(dir: &Path) -> Result<(), OutboxError> {
    File::open(dir).and_then(|dir| dir.sync_all()).map_err(|error| OutboxError::disk("sync", dir, error))
}

pub(super) fn lock(dir: &Path) -> Result<File, OutboxError> {
    lock_within(dir, LOCK_PATIENCE)
}

fn lock_within(dir: &Path, patience: Duration) -> Result<File, OutboxError> {
    let path = dir.join("lock");
    let file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(&path)
        .map_err(|error| OutboxError::disk("open", &path, error))?;
    let began = Instant::now();
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::Error(error)) => return Err(OutboxError::disk("lock", &path, error)),
            Err(TryLockError::WouldBlock) if began.elapsed() > patience => {
                return Err(OutboxError::Busy(dir.to_owned()));
            }
            Err(TryLockError::WouldBlock) => std::thread::sleep(LOCK_GLANCE),
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Durable {
    Yes,
    No,
}

/// Replaces a small file whole.
pub(super) fn write_small(dir: &Path, name: &str, value: &impl Serialize, durable: Durable) -> Result<(), OutboxError> {
    let (path, temporary) = (dir.join(name), dir.join(format!("{name}.new")));
    let bytes = serde_json::to_vec(value).map_err(|error| OutboxError::Unframeable(error.to_string()))?;
    let write = || {
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&temporary)?;
        file.write_all(&bytes)?;
        if durable == Durable::Yes {
            file.sync_all()?;
        }
        fs::rename(&temporary, &path)
    };
    write().map_err(|error| OutboxError::disk("write", &path, error))?;
    if durable == Durable::Yes { sync_dir(dir) } else { Ok(()) }
}

pub(super) fn read_small<T: for<'de> Deserialize<'de>>(path: &Path) -> Result<Option<T>, OutboxError> {
    let disk = |error| OutboxError::disk("read", path, error);
    let mut bytes = Vec::new();
    match File::open(path) {
        Ok(file) => {
            file.take(MAX_SMALL_FILE).read_to_end(&mut bytes).map_err(disk)?;
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(disk(error)),
    }
    serde_json::from_slice(&bytes)
        .map(Some)
        .map_err(|error| OutboxError::damaged(path, "as a whole".into(), error.to_string()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_lock_that_is_given_back_in_a_moment_is_waited_for_and_one_that_is_held_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let held = lock(dir.path()).unwrap();
        // What a program that is being started has until it runs.
        let copy = held.try_clone().unwrap();
        assert!(matches!(lock(dir.path()), Err(OutboxError::Busy(_))));
        drop(held);
        let started = std::thread::spawn(move || {
            std::thread::sleep(10 * LOCK_GLANCE);
            drop(copy);
        });
        lock_within(dir.path(), Duration::from_secs(600)).unwrap();
        started.join().unwrap();
    }
}
