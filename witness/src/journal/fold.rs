//! Folding: what was seen before is counted, what is new is written whole.
//!
//! Holds the rule of the journal for one log, as a state machine that is told the time: every distinct signed head
//! is written whole at once; every further sighting of it, and every repetition of one failure, is folded into one
//! line a minute with a count. Does not hold the format (`line`).
//!
//! A crash loses at most the counts of the last minute, never a head: a head is written before it is folded.

use crate::journal::line::{JournalLine, MAX_HEAD_LEN, Outcome, bounded_sentence};
use merkle::{Hash, leaf_hash};
use note::{SignedCheckpoint, Verified};
use std::borrow::Cow;
use std::collections::VecDeque;

/// How long fetches are folded into one line (protocol, section 6: one line a minute).
pub const FOLD_MS: u64 = 60_000;

/// How many distinct heads and failures are remembered as written. A head that is shown again after so many
/// others is written whole again: more lines, nothing lost.
const REMEMBERED: usize = 256;

/// What one fetch showed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sighting {
    /// What the witness made of it.
    pub outcome: Outcome,
    /// The witness that was asked, where it was not the log.
    pub peer: Option<String>,
    /// When the head was cosigned, seconds since the epoch, if it was.
    pub cosigned_at: Option<u64>,
    /// The head, where the log signed one.
    pub head: Option<SeenHead>,
    /// What went wrong: a word out of a fixed set, and a sentence.
    pub trouble: Option<(&'static str, String)>,
    /// The number of the evidence document of a fork.
    pub evidence: Option<u64>,
}

/// A head that the log signed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SeenHead {
    size: u64,
    root: Hash,
    /// Text and one signature line of the log.
    text: String,
    /// The hash of the text alone: a head signed twice is one head.
    alike: Hash,
    /// The lines of the peer that showed it. They change with every look, and are no part of what makes heads alike.
    lines: String,
}

/// The folding state of one log.
#[derive(Debug)]
pub struct Fold {
    origin: String,
    /// What was written already, oldest first, with the time it was last seen.
    written: VecDeque<(Key, u64)>,
    /// What is being counted, oldest first.
    open: Vec<Open>,
}

/// Which sightings are alike.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Key {
    /// A head, by the hash of its text (two that differ in one byte are two heads), and what came of it.
    Head(Hash, Outcome, Option<String>),
    Trouble(Outcome, Option<&'static str>, Option<String>),
}

/// Fetches folded so far.
#[derive(Debug)]
struct Open {
    key: Key,
    /// The folded line; `count` and `until` grow.
    line: JournalLine,
    count: u64,
    until: u64,
}

impl SeenHead {
    /// The head of a verified checkpoint: its text and the log's own signature lines, nothing that others added.
    pub fn of(checkpoint: &SignedCheckpoint<Verified>) -> SeenHead {
        let head = checkpoint.checkpoint();
        let text = log_signed(checkpoint).into_owned();
        let alike = leaf_hash(checkpoint.note().text().as_bytes());
        SeenHead { size: head.size.0, root: head.root.0, text, alike, lines: String::new() }
    }

    /// The same with the lines that `checkpoint` carries beside the log's: those of the peer that showed it, verified by
    /// the caller.
    pub fn cosigned(checkpoint: &SignedCheckpoint<Verified>) -> SeenHead {
        let others = checkpoint.note().signatures().iter().filter(|line| !line.claims(checkpoint.log_key()));
        let lines = others.map(|line| format!("{}\n", line.line())).collect();
        SeenHead { lines, ..SeenHead::of(checkpoint) }
    }

    /// Whether `checkpoint` is longer than the journal keeps of a head ([`MAX_HEAD_LEN`]): such a head is not looked at.
    pub fn is_too_long(checkpoint: &SignedCheckpoint<Verified>) -> bool {
        log_signed(checkpoint).len() > MAX_HEAD_LEN
    }
}

impl Fold {
    /// Nothing seen yet.
    pub fn new(origin: &str) -> Fold {
        Fold { origin: origin.to_owned(), written: VecDeque::new(), open: Vec::new() }
    }

    /// Takes in what the fetch that began at `time` (milliseconds since the epoch) showed, and returns the lines
    /// to write now, in order.
    #[must_use = "lines that are not written are lost"]
    pub fn observe(&mut self, time: u64, sighting: Sighting) -> Vec<JournalLine> {
        let mut lines = self.due(time);
        let key = match &sighting.head {
            Some(head) => Key::Head(head.alike, first_time(sighting.outcome), sighting.peer.clone()),
            None => {
                Key::Trouble(sighting.outcome, sighting.trouble.as_ref().map(|(code, _)| *code), sighting.peer.clone())
            }
        };
        let known = self.remember(&key, time);
        if !known || sighting.outcome == Outcome::Started {
            let whole = sighting.head.as_ref().map(|head| format!("{}{}", head.text, head.lines));
            lines.push(JournalLine { checkpoint: whole, ..self.line(time, sighting) });
            return lines;
        }
        match self.open.iter_mut().find(|open| open.key == key && open.line.outcome == sighting.outcome) {
            Some(open) => {
                open.count += 1;
                open.until = time;
                open.line.cosigned_at = sighting.cosigned_at.filter(|at| *at != time / 1000);
            }
            None => {
                let line = self.line(time, sighting);
                self.open.push(Open { key, line, count: 1, until: time });
            }
        }
        lines
    }

    /// The folded lines whose minute is over.
    #[must_use = "lines that are not written are lost"]
    pub fn due(&mut self, now: u64) -> Vec<JournalLine> {
        // A clock that was set back ends the minute too: a fold must not stay open for ever.
        self.close(|open| now >= open.line.time.saturating_add(FOLD_MS) || now < open.line.time)
    }

    /// All folded lines, for a shutdown.
    #[must_use = "lines that are not written are lost"]
    pub fn flush(&mut self) -> Vec<JournalLine> {
        self.close(|_| true)
    }

    /// When [`Fold::due`] next has something to say, if anything is being folded.
    pub fn due_at(&self) -> Option<u64> {
        self.open.iter().map(|open| open.line.time.saturating_add(FOLD_MS)).min()
    }

    fn close(&mut self, over: impl Fn(&Open) -> bool) -> Vec<JournalLine> {
        let (closed, open) = std::mem::take(&mut self.open).into_iter().partition(|open| over(open));
        self.open = open;
        let closed: Vec<Open> = closed;
        closed
            .into_iter()
            .map(|open| JournalLine { until: Some(open.until), count: Some(open.count), ..open.line })
            .collect()
    }

    /// Whether `key` was written already, a failure within the last minute; notes that it was seen now.
    fn remember(&mut self, key: &Key, now: u64) -> bool {
        let place = self.written.iter().position(|(written, _)| written == key);
        let seen = place.and_then(|place| self.written.remove(place)).map(|(_, seen)| seen);
        if self.written.len() == REMEMBERED {
            self.written.pop_front();
        }
        self.written.push_back((key.clone(), now));
        match (key, seen) {
            (Key::Head(..), seen) => seen.is_some(),
            (Key::Trouble(..), Some(seen)) => now >= seen && now - seen < FOLD_MS,
            (Key::Trouble(..), None) => false,
        }
    }

    fn line(&self, time: u64, sighting: Sighting) -> JournalLine {
        let (code, error) =
            sighting.trouble.map(|(code, sentence)| (code.to_owned(), bounded_sentence(&sentence))).unzip();
        JournalLine {
            time,
            until: None,
            count: None,
            origin: self.origin.clone(),
            peer: sighting.peer,
            outcome: sighting.outcome,
            size: sighting.head.as_ref().map(|head| head.size),
            root: sighting.head.as_ref().map(|head| head.root),
            checkpoint: None,
            cosigned_at: sighting.cosigned_at.filter(|at| *at != time / 1000),
            evidence: sighting.evidence,
            code,
            error,
        }
    }
}

/// The note of a head with the log's line alone. As a rule it has no other.
fn log_signed(checkpoint: &SignedCheckpoint<Verified>) -> Cow<'_, str> {
    let note = checkpoint.note();
    match (note.signatures(), std::str::from_utf8(note.bytes())) {
        ([_], Ok(whole)) => Cow::Borrowed(whole),
        _ => Cow::Owned(checkpoint.log_signed_only().note().to_string()),
    }
}

/// To see a head unchanged is to have seen it cosigned; every other outcome of a head is news once.
fn first_time(outcome: Outcome) -> Outcome {
    if outcome == Outcome::Unchanged { Outcome::Cosigned } else { outcome }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;

    fn head(size: u64) -> Option<SeenHead> {
        let text = format!("head of {size}\n");
        let alike = leaf_hash(text.as_bytes());
        Some(SeenHead { size, root: Hash([size as u8; 32]), text, alike, lines: String::new() })
    }

    fn saw(outcome: Outcome, head: Option<SeenHead>) -> Sighting {
        Sighting { outcome, peer: None, cosigned_at: None, head, trouble: None, evidence: None }
    }

    fn failed(code: &'static str) -> Sighting {
        Sighting {
            outcome: Outcome::Unreachable,
            peer: None,
            cosigned_at: None,
            head: None,
            trouble: Some((code, format!("{code}, says the log"))),
            evidence: None,
        }
    }

    #[test]
    fn each_distinct_head_is_written_whole_at_once_and_once() {
        let mut fold = Fold::new("log.example");
        for size in 1..20 {
            let lines = fold.observe(size * 10, saw(Outcome::Cosigned, head(size)));
            assert_eq!(lines.len(), 1);
            assert_eq!(
                (lines[0].size, lines[0].checkpoint.as_deref()),
                (Some(size), Some(format!("head of {size}\n").as_str()))
            );
        }
        assert_eq!(
            fold.observe(200, saw(Outcome::Stale, head(7))).len(),
            1,
            "seen before, but something else came of it"
        );
        assert!(fold.observe(200, saw(Outcome::Stale, head(7))).is_empty(), "seen before: counted");
        let same_numbers_other_bytes = SeenHead { alike: leaf_hash(b"another head of 7\n"), ..head(7).unwrap() };
        assert_eq!(fold.observe(201, saw(Outcome::Stale, Some(same_numbers_other_bytes))).len(), 1);
    }

    #[test]
    fn unchanged_polls_become_one_line_a_minute_with_a_count() {
        let mut fold = Fold::new("log.example");
        assert_eq!(fold.observe(0, saw(Outcome::Cosigned, head(5))).len(), 1);
        let mut lines = Vec::new();
        for second in 1..=150 {
            lines.extend(fold.observe(second * 1000, saw(Outcome::Unchanged, head(5))));
        }
        let spans: Vec<_> = lines.iter().map(|line| (line.time, line.until, line.count)).collect();
        assert_eq!(spans, [(1000, Some(60_000), Some(60)), (61_000, Some(120_000), Some(60))]);
        assert!(
            lines
                .iter()
                .all(|line| line.checkpoint.is_none() && line.size == Some(5) && line.outcome == Outcome::Unchanged)
        );
        let rest = fold.flush();
        assert_eq!((rest[0].time, rest[0].count, rest.len()), (121_000, Some(30), 1));
        assert!(fold.flush().is_empty());
    }

    #[test]
    fn a_fold_ends_by_time_even_if_nothing_more_is_seen() {
        let mut fold = Fold::new("log.example");
        assert_eq!(fold.due_at(), None);
        let _ = fold.observe(0, saw(Outcome::Cosigned, head(5)));
        let _ = fold.observe(500, saw(Outcome::Unchanged, head(5)));
        assert_eq!(fold.due_at(), Some(60_500));
        assert!(fold.due(60_499).is_empty());
        assert_eq!(fold.due(60_500).len(), 1);
        assert_eq!(fold.due_at(), None);
    }

    #[test]
    fn a_clock_that_was_set_back_ends_the_fold() {
        let mut fold = Fold::new("log.example");
        let _ = fold.observe(1_000_000, saw(Outcome::Cosigned, head(5)));
        let _ = fold.observe(1_000_001, saw(Outcome::Unchanged, head(5)));
        assert_eq!(fold.due(5).len(), 1);
    }

    #[test]
    fn a_failure_is_written_at_once_and_its_repetitions_are_counted() {
        let mut fold = Fold::new("log.example");
        let first = fold.observe(0, failed("timeout"));
        assert_eq!(
            (first[0].code.as_deref(), first[0].error.as_deref()),
            (Some("timeout"), Some("timeout, says the log"))
        );
        assert!(fold.observe(1000, failed("timeout")).is_empty());
        assert_eq!(fold.observe(2000, failed("status-500")).len(), 1, "another failure is news");
        assert!(fold.observe(3000, failed("timeout")).is_empty());
        let folded = fold.flush();
        assert_eq!((folded[0].count, folded[0].code.as_deref(), folded.len()), (Some(2), Some("timeout"), 1));
        assert_eq!(fold.observe(200_000, failed("timeout")).len(), 1, "after a minute without it, it is news again");
    }

    #[test]
    fn heads_shown_in_turn_do_not_fill_the_disk() {
        let mut fold = Fold::new("log.example");
        let mut lines = 0;
        for poll in 0..600 {
            lines += fold.observe(poll * 1000, saw(Outcome::Refused, head(poll % 2))).len();
        }
        assert!(lines <= 2 + 2 * 10, "{lines} lines in ten minutes");
    }

    #[test]
    fn forks_are_written_whole_at_once_and_then_counted_and_starts_are_always_written() {
        let mut fold = Fold::new("log.example");
        let _ = fold.observe(0, saw(Outcome::Cosigned, head(5)));
        let evident = Sighting { evidence: Some(3), ..saw(Outcome::Fork, head(5)) };
        let line = fold.observe(1, evident.clone()).remove(0);
        assert_eq!((line.evidence, line.checkpoint.as_deref()), (Some(3), Some("head of 5\n")));
        assert!(fold.observe(2, evident).is_empty());
        assert_eq!(fold.observe(2, saw(Outcome::Started, head(5)))[0].checkpoint.as_deref(), Some("head of 5\n"));
    }

    #[test]
    fn memory_stays_bounded_however_many_heads_are_shown() {
        let mut fold = Fold::new("log.example");
        for size in 0..2000 {
            let _ = fold.observe(size, saw(Outcome::Cosigned, head(size)));
        }
        assert_eq!(fold.written.len(), REMEMBERED);
    }
}
