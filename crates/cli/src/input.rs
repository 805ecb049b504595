//! Where bodies come from: lines of a file or of standard input, or records of another system.
//!
//! Holds reading, numbering and the bound on a line; whether a body can become a receipt is the outbox's to say.

use crate::failure::Failure;
use audit::foreign::{ImportedRecord, import_lines};
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

/// Longest line read: longer than the longest receipt, so that the outbox gets to say what is wrong with it.
const MAX_LINE: usize = 128 * 1024;
/// Most bytes of a file of records, which is checked whole before anything is signed: a million of 256 bytes.
const MAX_RECORDS: u64 = 256 * 1024 * 1024;
/// Bodies signed with one fdatasync, where so many are there at once.
const MAX_CHUNK: usize = 256;

/// One body, and where it came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct InputBody {
    /// The line it stood in, from 1.
    pub(crate) line: usize,
    /// One JSON object on one line.
    pub(crate) body: String,
}

/// Bodies in order.
pub(crate) enum Input {
    Lines { name: String, reader: Box<dyn BufRead + Send>, read: usize },
    Records(std::vec::IntoIter<ImportedRecord>),
}

impl Input {
    /// One body a line of `file`; `-` is standard input.
    pub(crate) fn lines(file: &Path) -> Result<Self, Failure> {
        let reader: Box<dyn BufRead + Send> = if is_standard_input(file) {
            Box::new(BufReader::new(io::stdin()))
        } else {
            Box::new(BufReader::new(open(file)?))
        };
        Ok(Self::Lines { name: file.display().to_string(), reader, read: 0 })
    }

    /// The records of another system in `file`, all of which are records of `format`.
    pub(crate) fn records(format: &str, file: &Path) -> Result<Self, Failure> {
        let reader: Box<dyn Read> = if is_standard_input(file) { Box::new(io::stdin()) } else { Box::new(open(file)?) };
        let mut bytes = Vec::new();
        reader.take(MAX_RECORDS + 1).read_to_end(&mut bytes).map_err(|error| unreadable(file, &error))?;
        if bytes.len() as u64 > MAX_RECORDS {
            return Err(Failure::unreadable(format!("{} is larger than {MAX_RECORDS} bytes; split it", file.display())));
        }
        let text = String::from_utf8(bytes).map_err(|_| Failure::unreadable(format!("{} is not UTF-8", file.display())))?;
        let records = import_lines(format, &text).map_err(|error| Failure::unreadable(format!("{}: {error}", file.display())))?;
        Ok(Self::Records(records.into_iter()))
    }

    /// The next bodies: as many as are there without waiting for more, at least one; none at the end.
    pub(crate) fn next_chunk(&mut self) -> Result<Vec<InputBody>, Failure> {
        match self {
            Self::Lines { name, reader, read } => next_lines(name, reader.as_mut(), read),
            Self::Records(records) => {
                let chunk = records.by_ref().take(MAX_CHUNK).map(|record| InputBody { line: record.line, body: record.body_json });
                Ok(chunk.collect())
            }
        }
    }
}

/// The name by which an input is recognised when it comes again: the one given, else the file's path; none for standard input.
pub(crate) fn source_name(what: &str, given: Option<&str>, file: &Path) -> Option<String> {
    match given {
        Some(name) => Some(format!("{what} {name}")),
        None if is_standard_input(file) => None,
        None => {
            let path: PathBuf = std::fs::canonicalize(file).unwrap_or_else(|_| file.to_owned());
            Some(format!("{what} {}", path.display()))
        }
    }
}

fn next_lines(name: &str, reader: &mut dyn BufRead, read: &mut usize) -> Result<Vec<InputBody>, Failure> {
    let failed = |line: usize, reason: String| Failure::unreadable(format!("{name}, line {line}: {reason}"));
    let mut chunk = Vec::new();
    loop {
        let mut line = Vec::new();
        let taken = reader.take(MAX_LINE as u64 + 1).read_until(b'\n', &mut line).map_err(|error| failed(*read + 1, error.to_string()))?;
        if taken == 0 {
            return Ok(chunk);
        }
        *read += 1;
        // What was read before a bad line is good: it is handed out first, and the bad line stops the next call.
        let text = match String::from_utf8(line) {
            _ if taken > MAX_LINE => return Err(failed(*read, format!("longer than {MAX_LINE} bytes, and no receipt is"))),
            Ok(text) => text,
            Err(_) => return Err(failed(*read, "not UTF-8".into())),
        };
        let body = text.trim();
        if !body.is_empty() {
            chunk.push(InputBody { line: *read, body: body.to_owned() });
        }
        // Waiting for more would hold up what is there.
        let is_more_there = reader.fill_buf_ready();
        if chunk.len() == MAX_CHUNK || (!is_more_there && !chunk.is_empty()) {
            return Ok(chunk);
        }
    }
}

fn open(file: &Path) -> Result<File, Failure> {
    File::open(file).map_err(|error| unreadable(file, &error))
}

fn unreadable(file: &Path, error: &io::Error) -> Failure {
    Failure::unreadable(format!("cannot read {}: {error}", file.display()))
}

fn is_standard_input(file: &Path) -> bool {
    file == Path::new("-")
}
