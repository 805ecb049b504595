//! The verdict: what was checked, how each check ended, and what was found.
//!
//! Holds the types, their JSON form and the arithmetic from findings to a status to an exit code (protocol 8).
//! Does not hold any check, nor how a verdict is shown: text, HTML and JSON are made from these types alone, so
//! every sentence in here is already safe to print (foreign text is quoted by [`crate::quote`]).

use crate::codes;
use crate::completeness::Completeness;
use merkle::{Hash, LeafIndex};
use receipt::{ReceiptId, SeqNo};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// Most findings of one code and severity that one check keeps. They are counted without limit; a reader who was shown a
/// thousand of one kind learns nothing from the next, and a log of a million bad receipts must fit in memory. However
/// many notices of a code came first, one that fails is kept.
pub const MAX_FINDINGS_PER_CODE: u64 = 1000;

/// Most receipts that one finding names. The rest are counted.
pub const MAX_RECEIPTS_PER_FINDING: usize = 16;

/// The code of a finding.
// By this name, since serde would have a `&str` borrow from what it reads.
pub type Code = &'static str;

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
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// The check fails.
    Fail,
    /// The check is incomplete.
    NotChecked,
    /// Worth knowing; changes nothing.
    Notice,
}

/// What a check is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Family {
    /// The log's signed heads and the tree under them.
    Head,
    /// The witnesses' cosignatures.
    Quorum,
    /// Each issuer's stream.
    Issuer,
    /// What became of each request.
    Request,
    /// Who the agent is said to be.
    Claim,
    /// How much a capability allowed and how much was used.
    Budget,
    /// Order of actions.
    Sequence,
    /// What the agent had read when it asked.
    Provenance,
    /// Other systems' receipts, carried whole.
    Foreign,
    /// Several bundles against each other.
    Compare,
}

impl Family {
    /// The name as in check ids: `head`, `quorum` and so on.
    pub fn as_str(self) -> &'static str {
        match self {
            Family::Head => "head",
            Family::Quorum => "quorum",
            Family::Issuer => "issuer",
            Family::Request => "request",
            Family::Claim => "claim",
            Family::Budget => "budget",
            Family::Sequence => "sequence",
            Family::Provenance => "provenance",
            Family::Foreign => "foreign",
            Family::Compare => "compare",
        }
    }
}

/// Where a receipt is: its place in the log and in its issuer's stream.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReceiptRef {
    /// Index of the entry in the log. `None` for an entry that the log does not hold (a kept proof's).
    pub index: Option<u64>,
    /// The issuer it names. `None` where the entry is no receipt.
    #[serde(with = "issuer_form")]
    pub issuer: Option<Arc<str>>,
    /// Its number in the issuer's stream. `None` where the entry is no receipt.
    pub seq: Option<u64>,
    /// The receipt id, which is the leaf hash, in hex.
    #[serde(with = "id_form")]
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

/// A shared name as a plain one.
mod issuer_form {
    use super::*;

    pub(super) fn serialize<S: Serializer>(issuer: &Option<Arc<str>>, serializer: S) -> Result<S::Ok, S::Error> {
        issuer.as_deref().serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Arc<str>>, D::Error> {
        Ok(Option::<String>::deserialize(deserializer)?.map(Arc::from))
    }
}

/// A receipt id in hex, though it is a leaf hash.
mod id_form {
    use super::*;

    pub(super) fn serialize<S: Serializer>(id: &Hash, serializer: S) -> Result<S::Ok, S::Error> {
        ReceiptId(*id).serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Hash, D::Error> {
        Ok(ReceiptId::deserialize(deserializer)?.0)
    }
}

/// A code, which is one of the table.
mod code_form {
    use super::*;

    pub(super) fn serialize<S: Serializer>(code: &&'static str, serializer: S) -> Result<S::Ok, S::Error> {
        code.serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<&'static str, D::Error> {
        let code = String::deserialize(deserializer)?;
        codes::find(&code).map(|info| info.code).ok_or_else(|| serde::de::Error::custom("no code of a finding"))
    }
}

/// Counts by code.
mod counts_form {
    use super::*;

    pub(super) fn serialize<S: Serializer>(
        counts: &BTreeMap<&'static str, u64>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        counts.serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<BTreeMap<&'static str, u64>, D::Error> {
        let counts = BTreeMap::<String, u64>::deserialize(deserializer)?;
        let known = |(code, count): (String, u64)| Some((codes::find(&code)?.code, count));
        let known: Option<_> = counts.into_iter().map(known).collect();
        known.ok_or_else(|| serde::de::Error::custom("no code of a finding"))
    }
}

/// One thing that was found, in three sentences.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// Stable kebab-case name of the kind of finding: one of [`crate::codes::CODES`].
    #[serde(with = "code_form")]
    pub code: Code,
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
    /// The findings, at most [`MAX_FINDINGS_PER_CODE`] of each code and severity, in the order of the log.
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
    /// The first so many of them were judged by an earlier audit, whose saved state this one went on from; they were not
    /// read again.
    pub since: Option<u64>,
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
    /// Their keys that can count.
    pub keys: usize,
    /// Fewest witnesses that satisfy the quorum.
    pub min_quorum: usize,
    /// Fewest keys that satisfy the quorum.
    pub min_keys: usize,
    /// Fewest dishonest witnesses that a split view needs.
    pub liars_for_split_view: usize,
    /// Most witnesses that may be silent, whichever they are.
    pub max_silent: usize,
    /// Whether the numbers are exact. If not, `min_quorum`, `liars_for_split_view` and `max_silent` may be too small.
    pub exact: bool,
}

impl From<note::Tolerance> for ToleranceReport {
    fn from(tolerance: note::Tolerance) -> ToleranceReport {
        ToleranceReport {
            witnesses: tolerance.witnesses,
            keys: tolerance.keys,
            min_quorum: tolerance.min_quorum,
            min_keys: tolerance.min_keys,
            liars_for_split_view: tolerance.liars_for_split_view,
            max_silent: tolerance.max_silent,
            exact: tolerance.exact,
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
    /// What each vantage point saw, from when to when; for timelines.
    pub completeness: Completeness,
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
        let overall = Status::of(&checks);
        let exit_code = overall.exit_code();
        Verdict { overall, exit_code, coverage, completeness: Completeness::default(), tolerance, checks, evidence }
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

impl Status {
    /// What checks come to: `fail` if any failed; else `not_checked` if a required one is, or none was required.
    pub(crate) fn of(checks: &[Check]) -> Status {
        if checks.iter().any(|check| check.status == Status::Fail) {
            Status::Fail
        } else if checks.iter().any(|check| check.required && check.status != Status::Ok)
            || !checks.iter().any(|check| check.required)
        {
            Status::NotChecked
        } else {
            Status::Ok
        }
    }

    /// What a program ends with (protocol 8).
    pub(crate) fn exit_code(self) -> u8 {
        match self {
            Status::Ok => 0,
            Status::Fail => 1,
            Status::NotChecked => 2,
        }
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
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct CheckBuilder {
    family: Family,
    name: String,
    required: bool,
    checked: bool,
    failed: bool,
    incomplete: bool,
    #[serde(with = "counts_form")]
    counts: BTreeMap<&'static str, u64>,
    /// Of these, those that fail, and those that make the check incomplete; the rest are notices.
    #[serde(with = "counts_form")]
    failing: BTreeMap<&'static str, u64>,
    #[serde(with = "counts_form")]
    open: BTreeMap<&'static str, u64>,
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
            failing: BTreeMap::new(),
            open: BTreeMap::new(),
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

    /// Whether the next finding of this code and severity is kept, and not only counted.
    pub(crate) fn keeps(&self, code: &str, severity: Severity) -> bool {
        let of = |counts: &BTreeMap<&str, u64>| counts.get(code).copied().unwrap_or(0);
        let found = match severity {
            Severity::Fail => of(&self.failing),
            Severity::NotChecked => of(&self.open),
            Severity::Notice => of(&self.counts).saturating_sub(of(&self.failing).saturating_add(of(&self.open))),
        };
        found < MAX_FINDINGS_PER_CODE
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
        debug_assert!(
            codes::find(code)
                .is_some_and(|info| info.families.contains(&self.family) && info.severities.contains(&severity)),
            "{code} with {severity:?} in {:?} is not in the table of codes",
            self.family
        );
        let is_kept = self.keeps(code, severity);
        let count = |counts: &mut BTreeMap<_, u64>| *counts.entry(code).or_insert(0) += 1;
        count(&mut self.counts);
        match severity {
            Severity::Fail => {
                self.failed = true;
                count(&mut self.failing);
            }
            Severity::NotChecked => {
                self.incomplete = true;
                count(&mut self.open);
            }
            Severity::Notice => {}
        }
        if !is_kept {
            return;
        }
        let [shown, not_shown, next] = words();
        debug_assert!(![&shown, &not_shown, &next].into_iter().any(String::is_empty), "{code} leaves something unsaid");
        let kept: Vec<ReceiptRef> =
            receipts.iter().take(MAX_RECEIPTS_PER_FINDING).map(|receipt| (*receipt).clone()).collect();
        let more_receipts = (receipts.len() - kept.len()) as u64;
        self.findings.push(Finding { code, severity, receipts: kept, more_receipts, shown, not_shown, next });
    }

    pub(crate) fn finish(mut self, covers: impl Into<String>) -> Check {
        let covers = covers.into();
        if self.required && !self.checked && !self.failed && !self.incomplete {
            self.report_nothing(&covers);
        }
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
            covers,
            counts: self.counts,
            findings: self.findings,
        }
    }

    /// No required check ends without a word on what to do.
    fn report_nothing(&mut self, covers: &str) {
        let next = match self.family {
            Family::Head | Family::Quorum | Family::Issuer | Family::Compare => {
                "see to what else was not checked first: this is read from it; then fetch the bundle again, whole"
            }
            Family::Sequence => "have the gate write what the rule goes by, or leave the rule out of the rules file",
            Family::Foreign => "see to the other findings about this format first: they left no record to this check",
            Family::Request | Family::Claim | Family::Budget | Family::Provenance => {
                "have the gate write what this check goes by"
            }
        };
        self.not_checked("nothing-to-check", &[], || {
            [
                format!("there was nothing for this check to look at: {covers}"),
                String::from("whatever it would have found"),
                String::from(next),
            ]
        });
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
        let tolerance = note::Policy::parse(b"quorum none\n").unwrap().tolerance().into();
        Verdict::conclude(Coverage::default(), tolerance, checks, Vec::new())
    }

    #[test]
    fn a_check_that_looked_at_nothing_is_not_ok() {
        let check = CheckBuilder::new(Family::Head, "root").finish("nothing");
        assert_eq!(check.status, Status::NotChecked);
    }

    #[test]
    fn a_required_check_that_looked_at_nothing_says_what_to_do() {
        let check = CheckBuilder::new(Family::Sequence, "R4").finish("none of 3 actions carries a subject");
        assert_eq!((check.count("nothing-to-check"), check.findings.len()), (1, 1));
        assert!(check.findings[0].shown.contains("none of 3 actions") && check.findings[0].next.contains("rule"));
        // What is incomplete for a reason of its own has said so, and what nobody needs is no finding.
        let mut open = CheckBuilder::new(Family::Head, "root");
        open.not_checked("entries-missing", &[], words);
        assert_eq!(open.finish("").count("nothing-to-check"), 0);
        let mut optional = CheckBuilder::new(Family::Head, "root");
        optional.required(false);
        assert_eq!(optional.finish("").findings, []);
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
        failed.fail("page-wrong", &[], words);
        let verdict = verdict_of(vec![incomplete.finish(""), failed.finish("")]);
        assert_eq!((verdict.overall, verdict.exit_code), (Status::Fail, 1));
    }

    #[test]
    fn notices_change_no_status() {
        let mut check = CheckBuilder::new(Family::Head, "root");
        check.checked();
        check.notice("tile-beyond", &[], words);
        let verdict = verdict_of(vec![check.finish("")]);
        assert_eq!((verdict.exit_code, verdict.count("tile-beyond")), (0, 1));
    }

    #[test]
    fn findings_are_capped_and_counted_exactly() {
        let mut check = CheckBuilder::new(Family::Head, "root");
        for _ in 0..MAX_FINDINGS_PER_CODE + 5 {
            check.fail("page-wrong", &[], words);
        }
        let check = check.finish("");
        assert_eq!(check.findings.len() as u64, MAX_FINDINGS_PER_CODE);
        assert_eq!(check.count("page-wrong"), MAX_FINDINGS_PER_CODE + 5);
    }

    #[test]
    fn however_many_notices_of_a_code_came_first_one_that_fails_is_kept() {
        let mut check = CheckBuilder::new(Family::Sequence, "prior-heads");
        for severity in [Severity::Notice, Severity::Fail, Severity::Notice] {
            for _ in 0..MAX_FINDINGS_PER_CODE + 2 {
                check.find("prior-heads-differ", severity, &[], words);
            }
        }
        let check = check.finish("");
        let kept = |severity| check.findings.iter().filter(|finding| finding.severity == severity).count() as u64;
        assert_eq!([kept(Severity::Notice), kept(Severity::Fail)], [MAX_FINDINGS_PER_CODE; 2]);
        assert_eq!((check.status, check.count("prior-heads-differ")), (Status::Fail, 3 * (MAX_FINDINGS_PER_CODE + 2)));
    }
}
