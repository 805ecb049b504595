//! Which findings and receipts a page shows, so that it stays a page: the worst first, then a count of the rest.
//!
//! A pure choice, made once: the page is drawn by it, and the bundle is asked for these receipts and no others.

use super::words::Outcome;
use audit::verdict::MAX_FINDINGS_PER_CODE;
use audit::{Check, Finding, ReceiptRef, Severity, Verdict};
use std::collections::BTreeMap;

/// Findings of one code in one check that are shown.
pub(crate) const MAX_OF_CODE: usize = 20;

/// Findings that are shown in all, beside a notice of each code: nobody reads more on a page, and with sentences at their longest
/// (three times [`MAX_SENTENCE`](super::MAX_SENTENCE)) they stay within 2 MB.
pub(crate) const MAX_FINDINGS: usize = 300;

/// Receipts that have a place on the page. Each finding of a full page may name one or two of its own.
pub(crate) const MAX_RECEIPTS: usize = 400;

/// What is shown of a verdict.
pub(crate) struct Selection<'verdict> {
    /// Checks with findings that keep them from being ok, the worst first.
    pub(crate) checks: Vec<Shown<'verdict>>,
    /// Of each code one notice.
    pub(crate) notices: Vec<Noticed<'verdict>>,
    /// The receipts that the findings shown name, in the log's order, those that the log does not hold last.
    pub(crate) receipts: Vec<&'verdict ReceiptRef>,
    /// How many further ones they name.
    pub(crate) more_receipts: usize,
    /// Where on the page each of them is, by index and id.
    anchors: BTreeMap<(Option<u64>, String), String>,
}

/// A check and the findings that are shown of it, without notices.
pub(crate) struct Shown<'verdict> {
    pub(crate) check: &'verdict Check,
    pub(crate) findings: Vec<&'verdict Finding>,
    /// Of each code with findings left out: how many.
    pub(crate) left_out: Vec<(&'static str, u64)>,
}

impl<'verdict> Selection<'verdict> {
    pub(crate) fn of(verdict: &'verdict Verdict) -> Selection<'verdict> {
        let mut checks: Vec<&Check> = verdict.checks.iter().filter(|check| !check.counts.is_empty()).collect();
        // Stable: by family within each outcome.
        checks.sort_by_key(|check| Outcome::of(check));
        let mut room = MAX_FINDINGS;
        let shown = checks.into_iter().map(|check| Shown::of(check, &mut room));
        let checks: Vec<Shown<'_>> = shown.filter(|shown| !shown.is_empty()).collect();
        let notices = notices(verdict);

        let findings = checks.iter().flat_map(|shown| shown.findings.iter().copied());
        let findings = findings.chain(notices.iter().map(|noticed| noticed.finding));
        let mut receipts: Vec<&ReceiptRef> = findings.flat_map(|finding| &finding.receipts).collect();
        receipts.sort_by_key(|receipt| (receipt.index.is_none(), receipt.index, receipt.id.0));
        receipts.dedup_by_key(|receipt| (receipt.index, receipt.id.0));
        let more_receipts = receipts.len().saturating_sub(MAX_RECEIPTS);
        receipts.truncate(MAX_RECEIPTS);
        let mut anchors = BTreeMap::new();
        let mut last_index = None;
        for receipt in &receipts {
            let id = receipt.id.to_hex();
            // Two receipts at one index can only be a proof's word against the log's.
            let anchor = match receipt.index {
                Some(index) if last_index != Some(index) => format!("receipt-{index}"),
                _ => format!("receipt-{id}"),
            };
            last_index = receipt.index.or(last_index);
            anchors.insert((receipt.index, id), anchor);
        }
        Selection { checks, notices, receipts, more_receipts, anchors }
    }

    /// Whether there is anything to be shown.
    pub(crate) fn has_findings(&self) -> bool {
        !self.checks.is_empty() || !self.notices.is_empty()
    }

    /// The anchor of a receipt that has a place on the page: digits and hex, never anything that a receipt says.
    pub(crate) fn anchor(&self, receipt: &ReceiptRef) -> Option<&str> {
        self.anchors.get(&(receipt.index, receipt.id.to_hex())).map(String::as_str)
    }
}

/// Notices of one code, of all checks.
pub(crate) struct Noticed<'verdict> {
    /// The first check that has one.
    pub(crate) check: &'verdict Check,
    /// The first of them.
    pub(crate) finding: &'verdict Finding,
    notices: u64,
    checks: u64,
}

impl Noticed<'_> {
    /// How many there are beside the one, in words; `None` where there are none.
    pub(crate) fn rest(&self) -> Option<String> {
        let code = self.finding.code;
        Some(match (self.notices - 1, self.checks - 1) {
            (0, _) => return None,
            (more, 0) => format!("and {more} more {code}"),
            (more, 1) => format!("and {more} more {code}, also in another check"),
            (more, others) => format!("and {more} more {code}, also in {others} other checks"),
        })
    }
}

/// The notices of all checks, whatever these ended in, by code: every issuer has some.
pub(crate) fn notices(verdict: &Verdict) -> Vec<Noticed<'_>> {
    let mut by_code: Vec<Noticed<'_>> = Vec::new();
    for check in &verdict.checks {
        for (code, total) in &check.counts {
            let (kept, dropped) = of_severity(check, code, *total, Severity::Notice);
            let Some(finding) = kept.first() else { continue };
            if *code == "tail-uncovered" && tells_tail(verdict, check) {
                continue;
            }
            let notices = (kept.len() as u64).saturating_add(dropped);
            match by_code.iter_mut().find(|noticed| noticed.finding.code == *code) {
                Some(noticed) => {
                    noticed.notices = noticed.notices.saturating_add(notices);
                    noticed.checks += 1;
                }
                None => by_code.push(Noticed { check, finding, notices, checks: 1 }),
            }
        }
    }
    by_code
}

/// Whether the issuer's lane says already how long nothing covers it.
fn tells_tail(verdict: &Verdict, check: &Check) -> bool {
    verdict.completeness.issuers.iter().any(|issuer| issuer.issuer == check.name && issuer.uncovered.is_some())
}

/// Findings of a code and severity in a check: those that were kept, and how many were only counted.
pub(crate) fn of_severity<'verdict>(
    check: &'verdict Check,
    code: &str,
    total: u64,
    severity: Severity,
) -> (Vec<&'verdict Finding>, u64) {
    let kept: Vec<&Finding> = check.findings.iter().filter(|finding| finding.code == code).collect();
    // Only of a severity that is full was any not kept. Where several are, all that were not kept go to the worst of them.
    let is_full = |severity: &Severity| {
        kept.iter().filter(|finding| finding.severity == *severity).count() as u64 >= MAX_FINDINGS_PER_CODE
    };
    let full = [Severity::Fail, Severity::NotChecked, Severity::Notice].into_iter().find(is_full);
    let dropped = if full == Some(severity) { total.saturating_sub(kept.len() as u64) } else { 0 };
    (kept.into_iter().filter(|finding| finding.severity == severity).collect(), dropped)
}

impl<'verdict> Shown<'verdict> {
    fn of(check: &'verdict Check, room: &mut usize) -> Shown<'verdict> {
        let mut findings: Vec<&Finding> = Vec::new();
        let mut left_out: BTreeMap<&'static str, u64> = BTreeMap::new();
        for severity in [Severity::Fail, Severity::NotChecked] {
            for (code, total) in &check.counts {
                let (kept, dropped) = of_severity(check, code, *total, severity);
                let before = findings.iter().filter(|finding| finding.code == *code).count();
                let shown = kept.len().min(MAX_OF_CODE.saturating_sub(before)).min(*room);
                *room -= shown;
                findings.extend(&kept[..shown]);
                let more = ((kept.len() - shown) as u64).saturating_add(dropped);
                if more > 0 {
                    *left_out.entry(code).or_default() += more;
                }
            }
        }
        Shown { check, findings, left_out: left_out.into_iter().collect() }
    }

    fn is_empty(&self) -> bool {
        self.findings.is_empty() && self.left_out.is_empty()
    }
}
