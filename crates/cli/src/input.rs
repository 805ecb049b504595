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
    Lines(Lines),
    Records(std::vec::IntoIter<ImportedRecord>),
}

/// The lines of a file or of standard input, as they come.
pub(crate) struct Lines {
    name: String,
    reader: BufReader<Box<dyn Read + Send>>,
    /// Lines read so far.
    read: usize,
    /// A line that cannot be read, behind others that could.
    bad: Option<Failure>,
}

impl Input {
    /// One body a line of `file`; `-` is standard input.
    pub(crate) fn lines(file: &Path) -> Result<Self, Failure> {
        let (name, reader): (_, Box<dyn Read + Send>) = match is_standard_input(file) {
            true => ("standard input".to_owned(), Box::new(io::stdin())),
            false => (file.display().to_string(), Box::new(open(file)?)),
        };
        Ok(Self::Lines(Lines { name, reader: BufReader::new(reader), read: 0, bad: None }))
    }

    /// The records of another system in `file`, all of which are records of `format`.
    pub(crate) fn records(format: &str, file: &Path) -> Result<Self, Failure> {
        let reader: Box<dyn Read> = if is_standard_input(file) { Box::new(io::stdin()) } else { Box::new(open(file)?) };
        let mut bytes = Vec::new();
        reader.take(MAX_RECORDS + 1).read_to_end(&mut bytes).map_err(|error| unreadable(file, &error))?;
        if bytes.len() as u64 > MAX_RECORDS {
            return Err(Failure::unreadable(format!(
                "{} is larger than {MAX_RECORDS} bytes; split it",
                file.display()
            )));
        }
        let text =
            String::from_utf8(bytes).map_err(|_| Failure::unreadable(format!("{} is not UTF-8", file.display())))?;
        let records =
            import_lines(format, &text).map_err(|error| Failure::unreadable(format!("{}: {error}", file.display())))?;
        Ok(Self::Records(records.into_iter()))
    }

    /// The next bodies: as many as are there without waiting for more, at least one; none at the end.
    pub(crate) fn next_chunk(&mut self) -> Result<Vec<InputBody>, Failure> {
        match self {
            Self::Lines(lines) => lines.next_chunk(),
            Self::Records(records) => {
                let chunk = records
                    .by_ref()
                    .take(MAX_CHUNK)
                    .map(|record| InputBody { line: record.line, body: record.body_json });
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

impl Lines {
    fn next_chunk(&mut self) -> Result<Vec<InputBody>, Failure> {
        let mut chunk = Vec::new();
        while self.bad.is_none() && chunk.len() < MAX_CHUNK {
            match self.next_line() {
                Ok(None) => return Ok(chunk),
                Ok(Some(line)) if line.trim().is_empty() => continue,
                Ok(Some(line)) => chunk.push(InputBody { line: self.read, body: line.trim().to_owned() }),
                Err(failure) => self.bad = Some(failure),
            }
            // Waiting for the next line would hold up those that are there.
            if !self.reader.buffer().contains(&b'\n') {
                break;
            }
        }
        // The lines before a bad one are good: they are handed out first.
        match self.bad.take_if(|_| chunk.is_empty()) {
            Some(failure) => Err(failure),
            None => Ok(chunk),
        }
    }

    fn next_line(&mut self) -> Result<Option<String>, Failure> {
        let mut line = Vec::new();
        let read = self.reader.by_ref().take(MAX_LINE as u64 + 1).read_until(b'\n', &mut line);
        self.read += 1;
        let bad = |reason: String| Failure::unreadable(format!("{}, line {}: {reason}", self.name, self.read));
        match read {
            Err(error) => Err(bad(error.to_string())),
            Ok(0) => Ok(None),
            Ok(length) if length > MAX_LINE => Err(bad(format!("longer than {MAX_LINE} bytes, which no receipt is"))),
            Ok(_) => String::from_utf8(line).map(Some).map_err(|_| bad("not UTF-8".into())),
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;

    fn lines(bytes: &[u8]) -> Input {
        let reader: Box<dyn Read + Send> = Box::new(io::Cursor::new(bytes.to_vec()));
        Input::Lines(Lines { name: "test".into(), reader: BufReader::new(reader), read: 0, bad: None })
    }

    fn all(input: &mut Input) -> (Vec<(usize, String)>, Option<String>) {
        let mut bodies = Vec::new();
        loop {
            match input.next_chunk() {
                Ok(chunk) if chunk.is_empty() => return (bodies, None),
                Ok(chunk) => bodies.extend(chunk.into_iter().map(|body| (body.line, body.body))),
                Err(failure) => return (bodies, Some(failure.reason)),
            }
        }
    }

    #[test]
    fn lines_are_numbered_as_people_number_them_and_blank_ones_are_passed_over() {
        let (bodies, bad) = all(&mut lines(b"{\"a\":1}\r\n\n  \n{\"b\":2} \n{\"c\":3}"));
        assert_eq!(bodies, [(1, "{\"a\":1}".to_owned()), (4, "{\"b\":2}".to_owned()), (5, "{\"c\":3}".to_owned())]);
        assert_eq!(bad, None);
    }

    #[test]
    fn a_line_that_cannot_be_read_stops_behind_those_that_could() {
        let long = format!("{{}}\n{}\n{{}}\n", "x".repeat(MAX_LINE + 1));
        for (bytes, said) in [(&b"{}\n\xff\n{}\n"[..], "line 2: not UTF-8"), (long.as_bytes(), "line 2: longer than")] {
            let (bodies, bad) = all(&mut lines(bytes));
            assert_eq!(bodies, [(1, "{}".to_owned())]);
            assert!(bad.unwrap().contains(said));
        }
    }

    #[test]
    fn a_thousand_lines_come_in_chunks_and_all_of_them_come() {
        let text: String = (0..1_000).map(|number| format!("{{\"n\":{number}}}\n")).collect();
        let mut input = lines(text.as_bytes());
        assert_eq!(input.next_chunk().unwrap().len(), MAX_CHUNK);
        assert_eq!(all(&mut input).0.len(), 1_000 - MAX_CHUNK);
    }

    #[test]
    fn an_input_is_recognised_by_its_path_or_by_the_name_given_and_standard_input_by_nothing() {
        assert_eq!(source_name("submit", None, Path::new("-")), None);
        assert_eq!(source_name("submit", Some("stream"), Path::new("-")).unwrap(), "submit stream");
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("a.jsonl");
        std::fs::write(&file, "").unwrap();
        let roundabout = dir.path().join(".").join("a.jsonl");
        assert_eq!(source_name("submit", None, &file), source_name("submit", None, &roundabout));
        assert_ne!(source_name("submit", None, &file), source_name("import capbroker", None, &file));
    }
}
