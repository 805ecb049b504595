//! Another system's records as bodies of `foreign` receipts: the record's text goes in as it stands, byte for byte.
//!
//! Of `sequence-attack-repro` and `capbroker` one record stands on each line. Of the signed formats a file holds any number
//! of JSON values with white space between them: one on each line, or one that is spread over many; an array is its
//! elements. Their exact bytes, from the first brace to the last, go in as base64.
//!
//! What is not strict JSON is refused here, by line, before anything is signed: a log is for ever.

use super::signed::Unread;
use super::{FORMATS, acta, capbroker, obsigna, pipelock, sequence_attack};
use receipt::ijson::{self, JsonError};
use serde_json::value::RawValue;

/// Longest record in bytes: a log entry holds 65,535, of which the receipt's six lines and its signature take at
/// most some 700 (two names of 255 bytes, numbers and hashes) and the body around the record 60; base64, which a
/// record with control characters needs, takes 4 bytes for 3.
pub(super) const MAX_RECORD_LEN: usize = 48_000;

/// One record, ready to be signed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImportedRecord {
    /// The line it stood in or began in, from 1.
    pub line: usize,
    /// The body of its receipt: `{"type":"foreign","format":…,"receipt":<the line as it stands>}`, or `receipt_b64`
    /// with its exact bytes, of the signed formats always, of the others where it holds control characters (a tab between
    /// tokens), which no receipt can.
    pub body_json: String,
}

/// Why a file of records was not imported. Nothing of it was.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ImportError {
    /// No such format.
    #[error("unknown format {0}; write one of: {list}", list = FORMATS.join(", "))]
    UnknownFormat(String),
    /// No record in the file.
    #[error("the file holds no record; give one JSON record a line")]
    Empty,
    /// A line that is no record.
    #[error("line {line}: {kind}")]
    Line {
        /// The line, from 1.
        line: usize,
        /// What is wrong with it.
        kind: ImportErrorKind,
    },
}

/// Why a line is no record of the format.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ImportErrorKind {
    /// Longer than [`MAX_RECORD_LEN`].
    #[error(
        "the record is longer than {MAX_RECORD_LEN} bytes, more than a receipt can carry; import it without this line"
    )]
    TooLong,
    /// Not strict JSON.
    #[error("{0}; every record must be one JSON value on one line")]
    Json(#[from] JsonError),
    /// JSON, but no record of this format.
    #[error("not a record of this format: {0}; check --format")]
    Shape(&'static str),
    /// No receipt of its signed format: what is wrong with it.
    #[error("not a record of this format: {0}; check --format, and compare with the original")]
    Unread(String),
}

/// Reads a file of another system's records: one JSON record a line, empty lines skipped; of a signed format JSON values
/// with any white space between them.
///
/// # Errors
/// [`ImportError`]: the first line that cannot be carried, and what to do about it.
pub fn import_lines(format: &str, text: &str) -> Result<Vec<ImportedRecord>, ImportError> {
    if !FORMATS.contains(&format) {
        return Err(ImportError::UnknownFormat(crate::quote::quoted(format)));
    }
    let records = match format {
        acta::FORMAT | obsigna::FORMAT | pipelock::FORMAT => exact_records(format, text)?,
        _ => lines(format, text)?,
    };
    if records.is_empty() { Err(ImportError::Empty) } else { Ok(records) }
}

fn lines(format: &str, text: &str) -> Result<Vec<ImportedRecord>, ImportError> {
    let mut records = Vec::new();
    for (place, line) in text.lines().enumerate() {
        if line.trim().is_empty() {
            continue;
        }
        let body_json = import_line(format, line).map_err(|kind| ImportError::Line { line: place + 1, kind })?;
        records.push(ImportedRecord { line: place + 1, body_json });
    }
    Ok(records)
}

/// The records of a signed format, each with its own bytes.
fn exact_records(format: &str, text: &str) -> Result<Vec<ImportedRecord>, ImportError> {
    let mut records = Vec::new();
    let mut lines = Lines { text, at: 0, line: 1 };
    for value in serde_json::Deserializer::from_str(text).into_iter::<&RawValue>() {
        let value = value.map_err(|error| ImportError::Line {
            line: error.line(),
            kind: ImportErrorKind::Json(JsonError::Syntax { line: error.line(), column: error.column() }),
        })?;
        // Borrowed from the text: these are slices of it.
        let elements: Vec<&RawValue> = match value.get().starts_with('[') {
            true => serde_json::from_str(value.get()).unwrap_or_default(),
            false => vec![value],
        };
        for element in elements {
            let line = lines.of(element.get());
            let body_json = exact_body(format, element.get()).map_err(|kind| ImportError::Line { line, kind })?;
            records.push(ImportedRecord { line, body_json });
        }
    }
    Ok(records)
}

/// Counts lines up to slices of a text that come in its order.
struct Lines<'text> {
    text: &'text str,
    at: usize,
    line: usize,
}

impl Lines<'_> {
    fn of(&mut self, slice: &str) -> usize {
        let start = (slice.as_ptr() as usize).saturating_sub(self.text.as_ptr() as usize);
        let between = self.text.as_bytes().get(self.at..start).unwrap_or_default();
        self.line += between.iter().filter(|byte| **byte == b'\n').count();
        self.at = self.at.max(start);
        self.line
    }
}

fn exact_body(format: &str, record: &str) -> Result<String, ImportErrorKind> {
    if record.len() > MAX_RECORD_LEN {
        return Err(ImportErrorKind::TooLong);
    }
    let read = match format {
        acta::FORMAT => acta::Record::parse(record).map(drop),
        obsigna::FORMAT => obsigna::parse(record).map(drop),
        _ => pipelock::parse(record).map(drop),
    };
    read.map_err(|why| match why {
        Unread::Malformed(why) | Unread::Beyond(why) => ImportErrorKind::Unread(why),
    })?;
    Ok(body_of_bytes(format, record))
}

fn body_of_bytes(format: &str, record: &str) -> String {
    format!(
        "{{\"type\":\"foreign\",\"format\":\"{format}\",\"receipt_b64\":\"{}\"}}",
        merkle::encode_base64(record.as_bytes())
    )
}

fn import_line(format: &str, line: &str) -> Result<String, ImportErrorKind> {
    if line.len() > MAX_RECORD_LEN {
        return Err(ImportErrorKind::TooLong);
    }
    let value = ijson::parse_value(line)?;
    let shape = match format {
        sequence_attack::FORMAT => sequence_attack::Record::parse(&value).map(drop),
        _ => capbroker::Line::parse(&value).map(drop),
    };
    shape.map_err(ImportErrorKind::Shape)?;
    if line.chars().any(|character| character < ' ') {
        return Ok(body_of_bytes(format, line));
    }
    let body = format!("{{\"type\":\"foreign\",\"format\":\"{format}\",\"receipt\":{line}}}");
    // One level deeper than the record alone.
    ijson::parse_object(&body)?;
    Ok(body)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;

    const LINE: &str =
        r#"{"event":"execution_result","operation":"a", "resource":"b","capability_id":"c","executed":true, "x":1.50}"#;

    fn kind_of(text: &str) -> (usize, ImportErrorKind) {
        match import_lines("capbroker", text) {
            Err(ImportError::Line { line, kind }) => (line, kind),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_record_is_carried_as_it_stands() {
        let records = import_lines("capbroker", &format!("\n{LINE}\r\n")).unwrap();
        assert_eq!(
            records,
            [ImportedRecord {
                line: 2,
                body_json: format!(r#"{{"type":"foreign","format":"capbroker","receipt":{LINE}}}"#)
            }]
        );
    }

    #[test]
    fn a_record_with_a_tab_is_carried_as_bytes() {
        let line = LINE.replace(", ", ",\t");
        let records = import_lines("capbroker", &line).unwrap();
        let body = ijson::parse_object(&records[0].body_json).unwrap();
        assert_eq!(merkle::decode_base64(body["receipt_b64"].as_str().unwrap()).unwrap(), line.as_bytes());
    }

    #[test]
    fn what_is_no_record_is_named_by_its_line() {
        assert!(matches!(
            kind_of(&format!("{LINE}\n{{\"event\":\"decision\",\"event\":\"x\"}}")),
            (2, ImportErrorKind::Json(JsonError::DuplicateMember { .. }))
        ));
        assert!(matches!(kind_of("not json"), (1, ImportErrorKind::Json(JsonError::Syntax { .. }))));
        assert!(matches!(kind_of("{}"), (1, ImportErrorKind::Shape(_))));
        assert!(matches!(
            kind_of(&" ".repeat(MAX_RECORD_LEN + 1).replacen(' ', "{", 1)),
            (1, ImportErrorKind::TooLong)
        ));
        let deep = LINE.replace("1.50", &format!("{}{}", "[".repeat(31), "]".repeat(31)));
        assert!(matches!(kind_of(&deep), (1, ImportErrorKind::Json(JsonError::TooDeep { .. }))));
        assert_eq!(import_lines("capbroker", "\n\n"), Err(ImportError::Empty));
        assert_eq!(import_lines("unheard-of", LINE), Err(ImportError::UnknownFormat(String::from("\"unheard-of\""))));
    }

    #[test]
    fn an_error_says_which_line_and_what_to_do() {
        let error = import_lines("capbroker", "{}").unwrap_err().to_string();
        assert_eq!(
            error,
            "line 1: not a record of this format: event is neither \"decision\" nor \"execution_result\"; check --format"
        );
    }
}
