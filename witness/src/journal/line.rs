//! One line of the journal: what came of a fetch, or of several alike.
//!
//! An entry of the journal's log is one JSON object, members in this order, those without a value left out:
//!
//! ```text
//! {"time":1790000000123,          milliseconds since the epoch, by the witness's clock, when the fetch began
//!  "until":1790000059981,         folded fetches: when the last of them began
//!  "count":60,                    folded fetches: how many
//!  "origin":"log.example/agents", the log that was asked
//!  "peer":"witness.example/w2",   another witness, where it was asked what it holds of the log
//!  "outcome":"cosigned",          what the witness made of the answer
//!  "size":15,"root":"<base64>",   the head, where the answer held one signed by the log
//!  "checkpoint":"<text>",         that head whole, with the log's signature lines (and the peer's), once for each distinct head and outcome
//!  "cosigned_at":1790000001,      seconds since the epoch, where the cosignature's time is not that of the fetch: a clock went back
//!  "evidence":0,                  fork, inadmissible: where the evidence stands in the witness's evidence
//!  "code":"timeout",              what went wrong, in a word
//!  "error":"<sentence>"}          and in a sentence
//! ```
//!
//! Holds the format. Does not hold when fetches are folded (`fold`) nor how lines are stored (`book`).

use merkle::Hash;
use serde::{Deserialize, Serialize};

/// Most bytes of a sentence in a line; the rest is cut. Sentences may quote what a log answered.
pub const MAX_ERROR_LEN: usize = 512;

/// Largest head kept in a line. As JSON a text at most doubles (a newline, quote or backslash becomes two
/// bytes), so twice this, twice an origin of 255 bytes, the longest sentence and the fixed members stay below
/// the 65,535 bytes of an entry. A log's own head has 300 bytes, and under 10 kB with a post-quantum signature.
pub const MAX_HEAD_LEN: usize = 24 * 1024;

/// What a witness made of one fetch (protocol, section 6).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// Not a fetch: the witness started, holding this head.
    Started,
    /// A head not held before: consistent, now held and cosigned.
    Cosigned,
    /// What a peer holds, and nothing against it: consistent with the head held, if one was.
    Seen,
    /// The head held already: cosigned again with the time of the fetch.
    Unchanged,
    /// A smaller head, consistent with the one held: not cosigned.
    Stale,
    /// A larger head whose tiles were missing or did not hash to it: proves nothing against anyone.
    Unproven,
    /// Not a checkpoint, another origin, or no good signature by the log.
    BadLogSignature,
    /// A head of size 0 whose root is not the hash of the empty string.
    BadEmptyRoot,
    /// The log signed two histories.
    Fork,
    /// Level full: an entry under the head breaks the rules of admission.
    Inadmissible,
    /// Evidence stands against the log: nothing of it is cosigned until an operator acts.
    Refused,
    /// No answer, or none that could be used.
    Unreachable,
    /// The witness could not cosign for a reason of its own.
    Withheld,
}

/// One line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JournalLine {
    /// When the fetch began, milliseconds since the epoch; of folded fetches, the first.
    pub time: u64,
    /// When the last of folded fetches began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<u64>,
    /// How many fetches were folded into the line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<u64>,
    /// The log's origin.
    pub origin: String,
    /// The witness that was asked what it holds of the log, where it was not the log.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peer: Option<String>,
    /// What came of it.
    pub outcome: Outcome,
    /// The size of the head that the log signed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
    /// Its root.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub root: Option<Hash>,
    /// The head whole: text and the log's signature lines.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpoint: Option<String>,
    /// The time of the cosignature, seconds since the epoch, where it is not that of the fetch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cosigned_at: Option<u64>,
    /// The number of the evidence document.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub evidence: Option<u64>,
    /// What went wrong, in a word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// What went wrong, in a sentence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

impl Outcome {
    /// The word as it stands in a line, in problem documents and in metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Outcome::Started => "started",
            Outcome::Cosigned => "cosigned",
            Outcome::Seen => "seen",
            Outcome::Unchanged => "unchanged",
            Outcome::Stale => "stale",
            Outcome::Unproven => "unproven",
            Outcome::BadLogSignature => "bad-log-signature",
            Outcome::BadEmptyRoot => "bad-empty-root",
            Outcome::Fork => "fork",
            Outcome::Inadmissible => "inadmissible",
            Outcome::Refused => "refused",
            Outcome::Unreachable => "unreachable",
            Outcome::Withheld => "withheld",
        }
    }
}

impl JournalLine {
    /// The entry's bytes.
    pub fn to_entry(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("numbers, strings and base64 always have a JSON form")
    }

    /// Reads an entry; `None` for anything that [`JournalLine::to_entry`] does not write.
    pub fn parse(entry: &[u8]) -> Option<JournalLine> {
        let line: JournalLine = serde_json::from_slice(entry).ok()?;
        (line.to_entry() == entry).then_some(line)
    }
}

/// `sentence`, cut to [`MAX_ERROR_LEN`] bytes at a character, without control characters and without what turns the
/// direction of text around.
pub(crate) fn bounded_sentence(sentence: &str) -> String {
    let mut bounded = String::new();
    for character in sentence.chars() {
        let turns = matches!(character, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
        let character = if turns || character.is_control() { ' ' } else { character };
        if bounded.len() + character.len_utf8() > MAX_ERROR_LEN {
            break;
        }
        bounded.push(character);
    }
    bounded
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;

    fn line() -> JournalLine {
        JournalLine {
            time: 1_790_000_000_123,
            until: None,
            count: None,
            origin: "log.example/agents".to_owned(),
            peer: None,
            outcome: Outcome::Cosigned,
            size: Some(15),
            root: Some(Hash([7; 32])),
            checkpoint: Some("log.example/agents\n15\n…\n".to_owned()),
            cosigned_at: None,
            evidence: None,
            code: None,
            error: None,
        }
    }

    #[test]
    fn a_line_prints_as_drawn_and_reads_back() {
        let folded = JournalLine {
            until: Some(1_790_000_059_981),
            count: Some(60),
            outcome: Outcome::Unchanged,
            root: None,
            size: None,
            checkpoint: None,
            ..line()
        };
        let text = r#"{"time":1790000000123,"until":1790000059981,"count":60,"origin":"log.example/agents","outcome":"unchanged"}"#;
        assert_eq!(String::from_utf8(folded.to_entry()).unwrap(), text);
        for line in [line(), folded] {
            assert_eq!(JournalLine::parse(&line.to_entry()), Some(line));
        }
    }

    #[test]
    fn what_is_not_printed_is_not_read() {
        let text = String::from_utf8(line().to_entry()).unwrap();
        for changed in [
            text.replace(':', ": "),
            text.replace("\"size\":15,", "\"size\":15,\"more\":1,"),
            text.replace("\"size\":15,", "\"size\":null,"),
            format!("{text}\n"),
            text.replace("cosigned", "Cosigned"),
        ] {
            assert_eq!(JournalLine::parse(changed.as_bytes()), None, "{changed}");
        }
    }

    #[test]
    fn the_words_in_lines_are_the_words_of_the_outcomes() {
        for outcome in [
            Outcome::Started,
            Outcome::Cosigned,
            Outcome::Seen,
            Outcome::Unchanged,
            Outcome::Stale,
            Outcome::Unproven,
            Outcome::BadLogSignature,
            Outcome::BadEmptyRoot,
            Outcome::Fork,
            Outcome::Inadmissible,
            Outcome::Refused,
            Outcome::Unreachable,
            Outcome::Withheld,
        ] {
            assert_eq!(serde_json::to_value(outcome).unwrap(), outcome.as_str());
        }
    }

    #[test]
    fn the_largest_line_fits_into_an_entry() {
        let largest = JournalLine {
            until: Some(u64::MAX),
            count: Some(u64::MAX),
            origin: "\"".repeat(255),
            peer: Some("\"".repeat(255)),
            cosigned_at: Some(u64::MAX),
            outcome: Outcome::BadLogSignature,
            size: Some(u64::MAX),
            checkpoint: Some("\n".repeat(MAX_HEAD_LEN)),
            evidence: Some(u64::MAX),
            code: Some("c".repeat(32)),
            error: Some(bounded_sentence(&"\"".repeat(10_000))),
            ..line()
        };
        assert!(largest.to_entry().len() <= merkle::MAX_ENTRY_LEN);
    }

    #[test]
    fn sentences_are_cut_between_characters_and_hold_no_controls() {
        assert_eq!(bounded_sentence("a\nb\u{7f}"), "a b ");
        let cut = bounded_sentence(&"é".repeat(MAX_ERROR_LEN));
        assert_eq!(cut.chars().count(), MAX_ERROR_LEN / 2);
    }
}
