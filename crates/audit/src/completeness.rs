//! Completeness: what each vantage point saw of the log and of its issuers, from when to when, and what nothing covers.
//!
//! [`Completeness`] is data for reports: one lane an issuer, one a witness, one for the log. It accuses nobody and
//! changes no status; whatever in it is wrong is a finding of a check as well. Every list is bounded; where one was cut
//! its `..._more` says by how many.
//!
//! Holds the data and how it is bounded. Does not hold the checks.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Most entries of each list of one lane. A lane is drawn a thousand pixels wide: more could not be told apart.
pub const MAX_LISTED: usize = 500;

/// Parts into which the time of the log is cut for the activity of its issuers.
pub const BUCKETS: usize = 240;

/// All lanes: the log's, each issuer's in the order of the auditor's file, each witness's in the order of the policy.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Completeness {
    /// The log.
    pub log: LogSpan,
    /// The issuers that the auditor named, those without a receipt among them.
    pub issuers: Vec<IssuerSpan>,
    /// The policy's witnesses, each once, however many keys it has.
    pub witnesses: Vec<WitnessSpan>,
}

/// A receipt's place: in its stream, in the log, in time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Placed {
    /// Its number in its issuer's stream.
    pub seq: u64,
    /// Its index in the log.
    pub index: u64,
    /// When it was issued, Unix milliseconds by the gate's clock.
    pub issued_at_ms: u64,
}

/// A span of time in Unix milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpanMs {
    /// Its beginning.
    pub from_ms: u64,
    /// Its end.
    pub to_ms: u64,
}

/// A span of time in Unix seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpanS {
    /// Its beginning.
    pub from_s: u64,
    /// Its end.
    pub to_s: u64,
}

/// A head's size, and when a witness cosigned it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SizeAt {
    /// How many entries the head covers.
    pub size: u64,
    /// When it was cosigned, Unix seconds by the witness's clock.
    pub time_s: u64,
}

/// Receipts that are missing between two that the log holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SeqGap {
    /// The last one before them. `None`: the stream begins with a later seq than 0.
    pub after: Option<Placed>,
    /// The first one after them.
    pub before: Placed,
}

/// A receipt beyond the end of a stream, as the log presents it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Beyond {
    /// Its number.
    pub seq: u64,
    /// Which file of the bundle shows it, quoted.
    pub shown_by: String,
}

/// What is known of one issuer's stream.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct IssuerSpan {
    /// Its name, safe to print.
    pub issuer: String,
    /// Genuine receipts in the log.
    pub receipts: u64,
    /// The one with the lowest seq.
    pub first: Option<Placed>,
    /// The one with the highest seq.
    pub last: Option<Placed>,
    /// Whether the stream was closed: nothing is to come.
    pub closed: bool,
    /// The longest silence that the issuer may keep: the auditor's word, else its own.
    pub heartbeat_ms: Option<u64>,
    /// Missing receipts, in the log's order.
    pub gaps: Vec<SeqGap>,
    /// Further ones.
    pub gaps_more: u64,
    /// Receipts that contradict another at their seq or before it. Of one that only a kept proof holds the index is the
    /// one that the proof names.
    pub forks: Vec<Placed>,
    /// Further ones.
    pub forks_more: u64,
    /// Times between two receipts longer than the heartbeat.
    pub silences: Vec<SpanMs>,
    /// Further ones.
    pub silences_more: u64,
    /// Receipts that others prove beyond the stream's last one.
    pub beyond: Vec<Beyond>,
    /// Further ones.
    pub beyond_more: u64,
    /// Kept proofs, by quoted path, whose receipt the log presented does not hold where they prove it.
    pub unhonoured: Vec<String>,
    /// Further ones.
    pub unhonoured_more: u64,
    /// From the last receipt to the end of what the audit knows: nothing tells what happened in it. `None` for a closed
    /// stream, one without receipts, and where no such time is known.
    pub uncovered: Option<SpanMs>,
    /// Receipts in each of [`BUCKETS`] equal parts of [`LogSpan::issued`]; empty where there are none.
    pub activity: Vec<u64>,
}

/// What is known of the log.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogSpan {
    /// Entries that were read.
    pub entries: u64,
    /// Earliest and latest `issued_at` of genuine receipts.
    pub issued: Option<SpanMs>,
    /// Heads in the log's own list.
    pub heads_listed: u64,
    /// Heads that others hold and the list lacks.
    pub heads_omitted: u64,
    /// The earliest cosignature: witnesses watched from here on.
    pub cosigned_from: Option<SizeAt>,
    /// The latest cosignature.
    pub cosigned_to: Option<SizeAt>,
    /// Spans between two cosignatures, whoever made them, in which the policy's quorum saw no head, longer than the
    /// limit: `--max-age`, or ten times the usual interval where none was given.
    pub not_fresh: Vec<SpanS>,
    /// Further ones.
    pub not_fresh_more: u64,
    /// The limit that `not_fresh` was judged by, in seconds.
    pub fresh_limit_s: Option<u64>,
}

/// Whether a witness's journal was there to read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JournalState {
    /// The bundle holds none.
    #[default]
    Absent,
    /// There is one, and it is not the witness's word, or not whole.
    Unreadable,
    /// Read, and what the witness vouches for.
    Read,
}

/// What is known of one witness.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WitnessSpan {
    /// Its name, safe to print.
    pub witness: String,
    /// How many keys the policy lists for it.
    pub keys: u64,
    /// Its journal.
    pub journal: JournalState,
    /// Lines of the journal that were read.
    pub journal_lines: u64,
    /// Fetches of this log that the journal tells of, by outcome.
    pub outcomes: BTreeMap<String, u64>,
    /// Cosignatures of this log by this witness: lines that verified, and those that a journal it vouches for tells of.
    pub cosignatures: u64,
    /// The earliest.
    pub first: Option<SizeAt>,
    /// The latest.
    pub last: Option<SizeAt>,
    /// When it cosigned, Unix seconds, ascending, thinned evenly to at most [`MAX_LISTED`].
    pub cosigned_at_s: Vec<u64>,
    /// Times between two cosignatures longer than the limit of [`LogSpan::fresh_limit_s`].
    pub silences: Vec<SpanS>,
    /// Further ones.
    pub silences_more: u64,
    /// Distinct heads of the log that it saw.
    pub saw_heads: u64,
    /// Of these, the ones that nothing else in the bundle shows: not the log's list, no other witness, no kept proof.
    pub saw_alone: u64,
}
