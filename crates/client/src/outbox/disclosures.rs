//! What opens the committed members of receipts, kept where only the gate reads it: `disclosures/<seq>.jsonl`, one disclosure a
//! line, durable before the receipt is. A file whose receipt was never signed goes at the next start.

use super::OutboxError;
use super::small_files::sync_dir;
use receipt::{Disclosure, SeqNo};
use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Writes the disclosures of the receipt at `seq`, durably.
pub(super) fn write(dir: &Path, seq: SeqNo, disclosures: &[Disclosure]) -> Result<(), OutboxError> {
    let folder = dir.join("disclosures");
    if !folder.is_dir() {
        let made = DirBuilder::new().mode(0o700).create(&folder);
        made.map_err(|error| OutboxError::disk("create", &folder, error))?;
        sync_dir(dir)?;
    }
    let path = path_of(dir, seq);
    let lines: String = disclosures.iter().map(|disclosure| format!("{disclosure}\n")).collect();
    let write = || {
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&path)?;
        file.write_all(lines.as_bytes())?;
        file.sync_all()
    };
    write().map_err(|error| OutboxError::disk("write", &path, error))?;
    sync_dir(&folder)
}

/// The disclosures of the receipt at `seq`; none where it has none.
pub(super) fn read(dir: &Path, seq: SeqNo) -> Result<Vec<Disclosure>, OutboxError> {
    let path = path_of(dir, seq);
    let text = match fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(OutboxError::disk("read", &path, error)),
    };
    let parse = |(place, line)| {
        Disclosure::parse(line)
            .map_err(|error| OutboxError::damaged(&path, format!("on line {}", place + 1), error.to_string()))
    };
    text.lines().enumerate().map(parse).collect()
}

/// Removes the files of receipts from seq `count` on: those were never signed.
pub(super) fn remove_from(dir: &Path, count: u64) -> Result<(), OutboxError> {
    let folder = dir.join("disclosures");
    let listing = match fs::read_dir(&folder) {
        Ok(listing) => listing,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(OutboxError::disk("list", &folder, error)),
    };
    for file in listing {
        let path = file.map_err(|error| OutboxError::disk("list", &folder, error))?.path();
        let name = path.file_name().and_then(|name| name.to_str()).and_then(|name| name.strip_suffix(".jsonl"));
        if name.and_then(merkle::decimal::parse_u64).is_some_and(|seq| seq >= count) {
            fs::remove_file(&path).map_err(|error| OutboxError::disk("remove", &path, error))?;
        }
    }
    Ok(())
}

fn path_of(dir: &Path, seq: SeqNo) -> PathBuf {
    dir.join("disclosures").join(format!("{seq}.jsonl"))
}
