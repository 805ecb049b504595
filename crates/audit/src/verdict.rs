//! The verdict: what was checked, how each check ended, and what was found.
//!
//! Holds the types, their JSON form and the arithmetic from findings to a status to an exit code (protocol 8).
//! Does not hold any check, nor how a verdict is shown: text, HTML and JSON are made from these types alone, so
//! every sentence in here is already safe to print (foreign text is quoted by [`crate::quote`]).

use merkle::{Hash, LeafIndex};
use receipt::{ReceiptId, SeqNo};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// Most findings of one code that one check keeps. They are counted without limit; a reader who was shown a
/// thousand of one kind learns nothing from the next, and a log of a million bad receipts must fit in memory.
pub const MAX_FINDINGS_PER_CODE: u64 = 1000;

/// Most receipts that one finding names. The rest are counted.
pub const MAX_RECEIPTS_PER_FINDING: usize = 16;

/// How a check ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// There was something to check, all of it was checked, nothing was wrong.
    Ok,
    /// Something is wrong.
    Fail,
    /// There was nothing to check, or not all that was needed for it.
    NotChecked,
}

/// What one finding does to its check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// The check fails.
    Fail,
    /// The check is incomplete.
    NotChecked,
    /// Worth knowing; changes nothing.
    Notice,
}

/// What a check is about. Further families come with their own module.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Family {
    /// The log's signed heads and the tree under them.
    Head,
    /// The witnesses' cosignatures.
    Quorum,
    /// Each issuer's stream.
    Issuer,
    /// Order of actions.
    Sequence,
    /// Other systems' receipts, carried whole.
    Foreign,
}

impl Family {
    /// The name as in check ids: `head`, `quorum` and so on.
    pub fn as_str(self) -> &'static str {
        match self {
            Family::Head => "head",
            Family::Quorum => "quorum",
            Family::Issuer => "issuer",
            Family::Sequence => "sequence",
            Family::Foreign => "foreign",
        }
    }
}

/// Where a receipt is: its place in the log and in its issuer's stream.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ReceiptRef {
    /// Index of the entry in the log. `None` for an entry that the log does not hold (a kept proof's).
    pub index: Option<u64>,
    /// The issuer it names. `None` where the entry is no receipt.
    #[serde(serialize_with = "issuer_name")]
    pub issuer: Option<Arc<str>>,
    /// Its number in the issuer's stream. `None` where the entry is no receipt.
    pub seq: Option<u64>,
    /// The receipt id, which is the leaf hash, in hex.
    #[serde(serialize_with = "hex_id")]
    pub id: Hash,
}

impl ReceiptRef {
    /// A receipt in the log.
    pub(crate) fn new(index: LeafIndex, issuer: &Arc<str>, seq: SeqNo, id: ReceiptId) -> ReceiptRef {
        ReceiptRef { index: Some(index.0), issuer: Some(Arc::clone(issuer)), seq: Some(seq.0), id: id.0 }
    }

    /// An entry in the log that is no receipt.
    pub(crate) fn entry(index: LeafIndex, leaf: Hash) -> ReceiptRef {
        ReceiptRef { index: Some(index.0), issuer: None, seq: None, id: leaf }
    }
}

fn issuer_name<S: serde::Serializer>(issuer: &Option<Arc<str>>, serializer: S) -> Result<S::Ok, S::Error> {
    issuer.as_deref().serialize(serializer)
}

fn hex_id<S: serde::Serializer>(id: &Hash, serializer: S) -> Result<S::Ok, S::Error> {
    id.to_hex().serialize(serializer)
}

/// One thing that was found, in three sentences.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// Stable kebab-case name of the kind of finding.
    pub code: &'static str,
    /// What it does to its check.
    pub severity: Severity,
    /// The receipts it is about, at most [`MAX_RECEIPTS_PER_FINDING`].
    pub receipts: Vec<ReceiptRef>,
    /// How many further receipts it is about.
    pub more_receipts: u64,
    /// What is shown, by whom.
    pub shown: String,
    /// What it does not show, so that nobody reads more into it. May be empty.
    pub not_shown: String,
    /// What to do next.
    pub next: String,
}

/// One check and how it ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Check {
    /// The family.
    pub family: Family,
    /// The name within the family, e.g. `root` or `R4_SEQUENCE/session`.
    pub name: String,
    /// How it ended.
    pub status: Status,
    /// Whether the verdict needs it. A check that is not required changes nothing while it is `not_checked`; one
    /// that fails always counts.
    pub required: bool,
    /// One sentence: what the status speaks about, in numbers.
    pub covers: String,
    /// How many findings of each code there are; exact, unlike the list.
    pub counts: BTreeMap<&'static str, u64>,
    /// The findings, at most [`MAX_FINDINGS_PER_CODE`] of each code, in the order of the log.
    pub findings: Vec<Finding>,
}

impl Check {
    /// `family/name`.
    pub fn id(&self) -> String {
        format!("{}/{}", self.family.as_str(), self.name)
    }

    /// How many findings of `code` there are.
    pub fn count(&self, code: &str) -> u64 {
        self.counts.get(code).copied().unwrap_or(0)
    }
}

/// What the verdict speaks about, and what it cannot speak about.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Coverage {
    /// The log, by origin.
    pub log: Option<String>,
    /// Entries that were replayed: `0..entries`.
    pub entries: u64,
    /// Largest signed head whose root the replayed entries reproduce. Entries from here on are authenticated by
    /// nothing.
    pub authenticated_size: u64,
    /// Size of the head in `log/checkpoint`.
    pub head_size: Option<u64>,
    /// Largest size that any head in the bundle speaks of.
    pub largest_known_size: u64,
    /// How many heads of the log were checked.
    pub heads: u64,
    /// Smallest and largest size that carry a good cosignature by a witness of the policy.
    pub cosigned_sizes: Option<[u64; 2]>,
    /// Earliest and latest of these cosignatures, Unix seconds by the witnesses' clocks.
    pub cosigned_at_s: Option<[u64; 2]>,
    /// Latest time at which a quorum vouched for the head or a later one, Unix seconds.
    pub quorum_at_s: Option<u64>,
    /// Earliest and latest `issued_at` among the replayed receipts, milliseconds by the gates' clocks.
    pub issued_at_ms: Option<[u64; 2]>,
    /// The time the auditor gave, milliseconds.
    pub at_ms: Option<u64>,
    /// What in the bundle was not looked at: copies of the auditor's own files, witnesses that the policy does not
    /// list. At most a hundred names; the last then says how many more.
    pub ignored: Vec<String>,
}

/// What the policy's quorum needs and survives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct ToleranceReport {
    /// Witnesses that can count.
    pub witnesses: usize,
    /// Fewest cosigners that satisfy the quorum.
    pub min_quorum: usize,
    /// Fewest dishonest witnesses that a split view needs.
    pub liars_for_split_view: usize,
    /// Most witnesses that may be silent, whichever they are.
    pub max_silent: usize,
}

impl From<note::Tolerance> for ToleranceReport {
    fn from(tolerance: note::Tolerance) -> ToleranceReport {
        ToleranceReport {
            witnesses: tolerance.witnesses,
            min_quorum: tolerance.min_quorum,
            liars_for_split_view: tolerance.liars_for_split_view,
            max_silent: tolerance.max_silent,
        }
    }
}

/// The verdict over one bundle.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Verdict {
    /// `fail` if any check failed; else `not_checked` if a required one is; else `ok`.
    pub overall: Status,
    /// 0, 1 or 2 (protocol 8).
    pub exit_code: u8,
    /// What it speaks about.
    pub coverage: Coverage,
    /// What the policy's quorum survives.
    pub tolerance: ToleranceReport,
    /// All checks, by family.
    pub checks: Vec<Check>,
    /// Evidence documents made while auditing, each of which anybody can check by itself (protocol 7).
    pub evidence: Vec<serde_json::Value>,
}

impl Verdict {
    /// Draws the conclusion from `checks`.
    pub(crate) fn conclude(
        coverage: Coverage,
        tolerance: ToleranceReport,
        checks: Vec<Check>,
        evidence: Vec<serde_json::Value>,
    ) -> Verdict {
        let overall = if checks.iter().any(|check| check.status == Status::Fail) {
            Status::Fail
        } else if checks.iter().any(|check| check.required && check.status != Status::Ok)
            || !checks.iter().any(|check| check.required)
        {
            Status::NotChecked
        } else {
            Status::Ok
        };
        let exit_code = match overall {
            Status::Ok => 0,
            Status::Fail => 1,
            Status::NotChecked => 2,
        };
        Verdict { overall, exit_code, coverage, tolerance, checks, evidence }
    }

    /// The check with this id (`family/name`), if it is in the verdict.
    pub fn check(&self, id: &str) -> Option<&Check> {
        self.checks.iter().find(|check| check.id() == id)
    }

    /// How many findings of `code` there are over all checks.
    pub fn count(&self, code: &str) -> u64 {
        self.checks.iter().map(|check| check.count(code)).sum()
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Status::Ok => "ok",
            Status::Fail => "fail",
            Status::NotChecked => "not_checked",
        })
    }
}

/// A check in the making: collects findings, then draws the status from them.
#[derive(Debug)]
pub(crate) struct CheckBuilder {
    family: Family,
    name: String,
    required: bool,
    checked: bool,
    failed: bool,
    incomplete: bool,
    counts: BTreeMap<&'static str, u64>,
    findings: Vec<Finding>,
}

/// The three sentences of a finding: shown, not shown, next.
pub(crate) type Words = [String; 3];

impl CheckBuilder {
    pub(crate) fn new(family: Family, name: impl Into<String>) -> CheckBuilder {
        CheckBuilder {
            family,
            name: name.into(),
            required: true,
            checked: false,
            failed: false,
            incomplete: false,
            counts: BTreeMap::new(),
            findings: Vec::new(),
        }
    }

    /// Whether the verdict needs this check. It does unless somebody says otherwise.
    pub(crate) fn required(&mut self, required: bool) -> &mut CheckBuilder {
        self.required = required;
        self
    }

    /// Something was really looked at. Without this the check can never end `ok`.
    pub(crate) fn checked(&mut self) {
        self.checked = true;
    }

    pub(crate) fn count(&self, code: &str) -> u64 {
        self.counts.get(code).copied().unwrap_or(0)
    }

    pub(crate) fn fail(&mut self, code: &'static str, receipts: &[&ReceiptRef], words: impl FnOnce() -> Words) {
        self.find(code, Severity::Fail, receipts, words);
    }

    pub(crate) fn not_checked(&mut self, code: &'static str, receipts: &[&ReceiptRef], words: impl FnOnce() -> Words) {
        self.find(code, Severity::NotChecked, receipts, words);
    }

    pub(crate) fn notice(&mut self, code: &'static str, receipts: &[&ReceiptRef], words: impl FnOnce() -> Words) {
        self.find(code, Severity::Notice, receipts, words);
    }

    /// Records a finding; its sentences are made only if it is kept.
    pub(crate) fn find(
        &mut self,
        code: &'static str,
        severity: Severity,
        receipts: &[&ReceiptRef],
        words: impl FnOnce() -> Words,
    ) {
        match severity {
            Severity::Fail => self.failed = true,
            Severity::NotChecked => self.incomplete = true,
            Severity::Notice => {}
        }
        let count = self.counts.entry(code).or_insert(0);
        *count += 1;
        if *count > MAX_FINDINGS_PER_CODE {
            return;
        }
        let [shown, not_shown, next] = words();
        let kept: Vec<ReceiptRef> =
            receipts.iter().take(MAX_RECEIPTS_PER_FINDING).map(|receipt| (*receipt).clone()).collect();
        let more_receipts = (receipts.len() - kept.len()) as u64;
        self.findings.push(Finding { code, severity, receipts: kept, more_receipts, shown, not_shown, next });
    }

    pub(crate) fn finish(self, covers: impl Into<String>) -> Check {
        let status = if self.failed {
            Status::Fail
        } else if self.incomplete || !self.checked {
            Status::NotChecked
        } else {
            Status::Ok
        };
        Check {
            family: self.family,
            name: self.name,
            status,
            required: self.required,
            covers: covers.into(),
            counts: self.counts,
            findings: self.findings,
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;

    fn words() -> Words {
        [String::from("a"), String::from("b"), String::from("c")]
    }

    fn verdict_of(checks: Vec<Check>) -> Verdict {
        let tolerance = ToleranceReport { witnesses: 0, min_quorum: 0, liars_for_split_view: 0, max_silent: 0 };
        Verdict::conclude(Coverage::default(), tolerance, checks, Vec::new())
    }

    #[test]
    fn a_check_that_looked_at_nothing_is_not_ok() {
        let check = CheckBuilder::new(Family::Head, "root").finish("nothing");
        assert_eq!(check.status, Status::NotChecked);
    }

    #[test]
    fn a_verdict_without_a_required_check_is_not_ok() {
        assert_eq!(verdict_of(Vec::new()).exit_code, 2);
        let mut optional = CheckBuilder::new(Family::Foreign, "none");
        optional.required(false).checked();
        assert_eq!(verdict_of(vec![optional.finish("")]).exit_code, 2);
    }

    #[test]
    fn failing_beats_not_checking_and_counts_even_when_not_required() {
        let incomplete = CheckBuilder::new(Family::Head, "root");
        let mut failed = CheckBuilder::new(Family::Head, "heads");
        failed.required(false).checked();
        failed.fail("x", &[], words);
        let verdict = verdict_of(vec![incomplete.finish(""), failed.finish("")]);
        assert_eq!((verdict.overall, verdict.exit_code), (Status::Fail, 1));
    }

    #[test]
    fn notices_change_no_status() {
        let mut check = CheckBuilder::new(Family::Head, "root");
        check.checked();
        check.notice("x", &[], words);
        let verdict = verdict_of(vec![check.finish("")]);
        assert_eq!((verdict.exit_code, verdict.count("x")), (0, 1));
    }

    #[test]
    fn findings_are_capped_and_counted_exactly() {
        let mut check = CheckBuilder::new(Family::Head, "root");
        for _ in 0..MAX_FINDINGS_PER_CODE + 5 {
            check.fail("x", &[], words);
        }
        let check = check.finish("");
        assert_eq!(check.findings.len() as u64, MAX_FINDINGS_PER_CODE);
        assert_eq!(check.count("x"), MAX_FINDINGS_PER_CODE + 5);
    }
}
