//! A file that only grows, record by record, each durable before anybody is told of it.
//!
//! ```text
//! prefixed   u16 length, big-endian | that many bytes | …        (the form of an entry bundle)
//! lines      <JSON> \n <JSON> \n …
//! ```
//!
//! A process that is killed while it appends leaves a whole number of records and, at most, a torn tail: the
//! beginning of a record, or zeroes where the file system had made room and not yet written. Nobody was told of
//! what is in a torn tail. Anything else that does not read as records is damage, and is not repaired here.
//!
//! Holds bytes and places; does not know what the records say.

use super::error::OutboxError;
use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Read this much at once while looking for the records: whole megabytes cost one call each.
const WALK_BUFFER: usize = 1 << 20;

/// How one record ends and the next begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Framing {
    /// A u16 length in front.
    Prefixed,
    /// A newline behind, and none inside.
    Lines,
}

/// Whether the records are only looked at, maybe while another process appends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Access {
    /// Nothing is changed: a torn tail is passed over. A file that is not there has no records.
    Read,
    /// A torn tail can be cut, records can be appended. A file that is not there is made.
    Write,
}

#[derive(Debug)]
pub(super) struct AppendOnly {
    file: Option<File>,
    path: PathBuf,
    framing: Framing,
    /// Where each record ends, framing included.
    ends: Vec<u64>,
    /// Bytes behind the last whole record.
    torn: Vec<u8>,
}

impl AppendOnly {
    pub(super) fn open(path: PathBuf, framing: Framing, access: Access) -> Result<Self, OutboxError> {
        let opened = match access {
            Access::Read => File::open(&path),
            Access::Write => {
                OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(&path)
            }
        };
        let file = match opened {
            Ok(file) => file,
            Err(error) if access == Access::Read && error.kind() == std::io::ErrorKind::NotFound => {
                return Ok(Self { file: None, path, framing, ends: Vec::new(), torn: Vec::new() });
            }
            Err(error) => return Err(OutboxError::disk("open", &path, error)),
        };
        let (ends, torn) = walk(&file, &path, framing)?;
        Ok(Self { file: Some(file), path, framing, ends, torn })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn count(&self) -> u64 {
        self.ends.len() as u64
    }

    /// Bytes in the whole records.
    pub(super) fn end(&self) -> u64 {
        self.ends.last().copied().unwrap_or(0)
    }

    /// Bytes behind the last whole record.
    pub(super) fn torn(&self) -> &[u8] {
        &self.torn
    }

    /// Removes the torn tail.
    pub(super) fn cut(&mut self) -> Result<(), OutboxError> {
        if !self.torn.is_empty() {
            let file = self.file()?;
            let cut = file.set_len(self.end()).and_then(|()| file.sync_all());
            cut.map_err(|error| OutboxError::disk("cut", &self.path, error))?;
            self.torn.clear();
        }
        Ok(())
    }

    /// Record `place`, without its framing; `None` beyond the last.
    pub(super) fn read(&self, place: u64) -> Result<Option<Vec<u8>>, OutboxError> {
        let Ok(place) = usize::try_from(place) else { return Ok(None) };
        let Some(end) = self.ends.get(place).copied() else { return Ok(None) };
        let begin = place.checked_sub(1).map_or(0, |before| self.ends[before]);
        // Records are at most 64 KiB, lines at most what one append wrote: both were in memory once.
        let mut bytes = vec![0; (end - begin) as usize];
        self.file()?.read_exact_at(&mut bytes, begin).map_err(|error| OutboxError::disk("read", &self.path, error))?;
        match self.framing {
            Framing::Prefixed => drop(bytes.drain(..2)),
            Framing::Lines => drop(bytes.pop()),
        }
        Ok(Some(bytes))
    }

    /// Appends records with one write and one fdatasync. After an error nothing is known about the file: the caller
    /// stops, and whoever opens it next finds out.
    pub(super) fn append<'r>(&mut self, records: impl IntoIterator<Item = &'r [u8]>) -> Result<(), OutboxError> {
        let mut bytes = Vec::new();
        let mut ends = Vec::new();
        for record in records {
            match self.framing {
                Framing::Prefixed => merkle::encode_entry(&mut bytes, record)
                    .map_err(|error| OutboxError::Unframeable(error.to_string()))?,
                Framing::Lines if record.contains(&b'\n') => {
                    return Err(OutboxError::Unframeable("the line holds a line end".into()));
                }
                Framing::Lines => {
                    bytes.extend_from_slice(record);
                    bytes.push(b'\n');
                }
            }
            ends.push(self.end() + bytes.len() as u64);
        }
        let file = self.file()?;
        let appended = file.write_all_at(&bytes, self.end()).and_then(|()| file.sync_data());
        appended.map_err(|error| OutboxError::disk("append to", &self.path, error))?;
        self.ends.extend(ends);
        Ok(())
    }

    /// Writes again what lies behind the last record that is known to be durable, and syncs it. After a sync that failed the
    /// system may hold written bytes for clean that never reached the disk; what is read back from there proves nothing.
    pub(super) fn settle(&self) -> Result<(), OutboxError> {
        let disk = |error| OutboxError::disk("write again", &self.path, error);
        let file = match OpenOptions::new().read(true).write(true).open(&self.path) {
            Ok(file) => file,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound && self.ends.is_empty() => return Ok(()),
            Err(error) => return Err(disk(error)),
        };
        let length = file.metadata().map_err(disk)?.len();
        // What one append wrote, which was in memory once.
        let mut behind = vec![0; length.saturating_sub(self.end()) as usize];
        file.read_exact_at(&mut behind, self.end())
            .and_then(|()| file.write_all_at(&behind, self.end()))
            .and_then(|()| file.sync_all())
            .map_err(disk)
    }

    /// From now on every write fails, as on a full disk.
    #[cfg(test)]
    pub(super) fn refuse_writes(&mut self) {
        self.file = File::open(&self.path).ok();
    }

    fn file(&self) -> Result<&File, OutboxError> {
        self.file.as_ref().ok_or_else(|| OutboxError::disk("open", &self.path, std::io::ErrorKind::NotFound.into()))
    }
}

/// Where the records end, and what lies behind the last.
fn walk(file: &File, path: &Path, framing: Framing) -> Result<(Vec<u64>, Vec<u8>), OutboxError> {
    let disk = |error| OutboxError::disk("read", path, error);
    let length = file.metadata().map_err(disk)?.len();
    let mut reader = BufReader::with_capacity(WALK_BUFFER, file.take(length));
    let mut ends = Vec::new();
    let mut end = 0;
    loop {
        let record = match framing {
            Framing::Prefixed => prefixed_length(&mut reader),
            Framing::Lines => line_length(&mut reader),
        };
        match record.map_err(disk)? {
            Some(length) => {
                end += length;
                ends.push(end);
            }
            None => break,
        }
    }
    // At most one record's beginning, or what the file system made room for in one append.
    let mut torn = vec![0; usize::try_from(length - end).map_err(|error| disk(std::io::Error::other(error)))?];
    file.read_exact_at(&mut torn, end).map_err(disk)?;
    let may_be_torn = match framing {
        Framing::Prefixed => is_cut(&torn) || torn.iter().all(|byte| *byte == 0),
        Framing::Lines => true,
    };
    if may_be_torn {
        Ok((ends, torn))
    } else {
        Err(OutboxError::damaged(path, format!("at byte {end}"), "no record can begin with a length of 0"))
    }
}

/// Whether the bytes are the beginning of one record.
fn is_cut(torn: &[u8]) -> bool {
    match torn.split_first_chunk::<2>() {
        Some((length, rest)) => rest.len() < usize::from(u16::from_be_bytes(*length)),
        None => true,
    }
}

/// Passes over one record: its length, framing included. `None` where none is whole. A length of 0 is none either:
/// it is what zeroes left by the file system look like.
fn prefixed_length(reader: &mut impl BufRead) -> std::io::Result<Option<u64>> {
    let mut prefix = [0; 2];
    match reader.read_exact(&mut prefix) {
        Ok(()) => {}
        Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => return Ok(None),
        Err(error) => return Err(error),
    }
    let length = u64::from(u16::from_be_bytes(prefix));
    let skipped = std::io::copy(&mut reader.take(length), &mut std::io::sink())?;
    Ok((length > 0 && skipped == length).then_some(2 + length))
}

fn line_length(reader: &mut impl BufRead) -> std::io::Result<Option<u64>> {
    let mut length = 0;
    loop {
        let buffer = reader.fill_buf()?;
        if buffer.is_empty() {
            return Ok(None);
        }
        match buffer.iter().position(|byte| *byte == b'\n') {
            Some(place) => {
                reader.consume(place + 1);
                return Ok(Some(length + place as u64 + 1));
            }
            None => {
                let read = buffer.len();
                reader.consume(read);
                length += read as u64;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;

    fn open(path: &Path, framing: Framing) -> AppendOnly {
        AppendOnly::open(path.to_owned(), framing, Access::Write).unwrap()
    }

    #[test]
    fn a_file_cut_anywhere_keeps_its_whole_records_and_tells_the_rest() {
        let dir = tempfile::tempdir().unwrap();
        for framing in [Framing::Prefixed, Framing::Lines] {
            let path = dir.path().join(format!("{framing:?}"));
            let records: [&[u8]; 3] = [b"one", b"{\"two\":2}", b"three"];
            open(&path, framing).append(records).unwrap();
            let whole = std::fs::read(&path).unwrap();
            let mut boundaries = 0;
            for length in 0..=whole.len() {
                std::fs::write(&path, &whole[..length]).unwrap();
                let mut file = open(&path, framing);
                let count = file.count();
                assert_eq!(file.end() as usize + file.torn().len(), length, "{framing:?} {length}");
                boundaries += usize::from(file.torn().is_empty());
                file.cut().unwrap();
                file.append([&b"next"[..]]).unwrap();
                let reopened = open(&path, framing);
                assert_eq!(reopened.count(), count + 1);
                assert_eq!(reopened.read(count).unwrap().unwrap(), b"next");
                for place in 0..count {
                    assert_eq!(reopened.read(place).unwrap().unwrap(), records[place as usize]);
                }
                assert_eq!(reopened.read(count + 1).unwrap(), None);
            }
            assert_eq!(boundaries, 4, "{framing:?}: as many whole files as there are record ends");
        }
    }

    #[test]
    fn what_the_disk_took_and_does_not_make_durable_was_not_appended() {
        let dir = tempfile::tempdir().unwrap();
        let mut file = open(&dir.path().join("receipts"), Framing::Prefixed);
        // Takes every byte, and refuses to make any durable.
        file.file = Some(OpenOptions::new().write(true).open("/dev/null").unwrap());
        assert!(matches!(file.append([&b"one"[..]]), Err(OutboxError::Disk { .. })));
        assert_eq!((file.count(), file.end()), (0, 0), "nobody may be told of it");
    }

    #[test]
    fn zeroes_at_the_end_are_a_torn_tail_and_an_empty_record_elsewhere_is_damage() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("receipts");
        open(&path, Framing::Prefixed).append([&b"one"[..]]).unwrap();
        let mut bytes = std::fs::read(&path).unwrap();
        bytes.extend_from_slice(&[0; 4096]);
        std::fs::write(&path, &bytes).unwrap();
        let file = open(&path, Framing::Prefixed);
        assert_eq!((file.count(), file.torn().len()), (1, 4096));
        bytes.push(7);
        std::fs::write(&path, &bytes).unwrap();
        let damaged = AppendOnly::open(path, Framing::Prefixed, Access::Write).unwrap_err();
        assert!(matches!(damaged, OutboxError::Damaged { .. }), "{damaged}");
    }

    #[test]
    fn reading_changes_nothing_and_finds_nothing_where_there_is_no_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("receipts");
        let absent = AppendOnly::open(path.clone(), Framing::Prefixed, Access::Read).unwrap();
        assert_eq!((absent.count(), path.exists()), (0, false));
        std::fs::write(&path, b"\x00\x03on").unwrap();
        assert_eq!(AppendOnly::open(path.clone(), Framing::Prefixed, Access::Read).unwrap().torn(), b"\x00\x03on");
        assert_eq!(std::fs::read(&path).unwrap().len(), 4);
    }
}
