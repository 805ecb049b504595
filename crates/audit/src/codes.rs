//! Every code that a finding can have, in one table. A code never changes what it means.
//!
//! The same table stands in `docs/checks.md`, for people; a test compares the two. [`crate::verdict::CheckBuilder`]
//! takes no code that is not here.

use crate::verdict::{Family, Severity};

/// One kind of finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CodeInfo {
    /// The code, in kebab case.
    pub code: &'static str,
    /// The families whose checks use it, the one that it is listed under first.
    pub families: &'static [Family],
    /// What it may do to its check.
    pub severities: &'static [Severity],
    /// What it says, as half a sentence.
    pub finds: &'static str,
}

const fn info(
    code: &'static str,
    families: &'static [Family],
    severities: &'static [Severity],
    finds: &'static str,
) -> CodeInfo {
    CodeInfo { code, families, severities, finds }
}

use Severity::{Fail, NotChecked, Notice};

/// All of them, by family.
#[rustfmt::skip]
pub const CODES: &[CodeInfo] = &[
    info("nothing-to-check", &[Family::Head, Family::Quorum, Family::Issuer, Family::Request, Family::Claim, Family::Budget, Family::Sequence, Family::Provenance, Family::Foreign, Family::Compare], &[NotChecked], "a required check had nothing to look at"),
    info("log-not-pinned", &[Family::Head], &[NotChecked], "the policy lists no key for the log that the bundle is of"),
    info("checkpoint-missing", &[Family::Head], &[NotChecked], "the bundle holds no `log/checkpoint`"),
    info("bad-log-signature", &[Family::Head, Family::Quorum], &[Fail], "a head that is presented as the log's does not carry its good signature"),
    info("empty-log", &[Family::Head], &[NotChecked], "no head in the bundle speaks of any entry"),
    info("entries-missing", &[Family::Head], &[NotChecked], "pages of entries are not in the bundle"),
    info("page-wrong", &[Family::Head], &[Fail], "a page of entries does not hold what its path says"),
    info("root-mismatch", &[Family::Head, Family::Compare], &[Fail], "the entries are not those that a head was signed over"),
    info("tile-differs", &[Family::Head], &[Fail], "a tile differs from the hashes of the entries"),
    info("tile-missing", &[Family::Head], &[NotChecked], "a tile is not in the bundle"),
    info("tile-beyond", &[Family::Head], &[Notice], "a tile reaches beyond the entries"),
    info("heads-missing", &[Family::Head], &[NotChecked], "pages of the log's list of heads are not in the bundle"),
    info("heads-page-wrong", &[Family::Head], &[Fail], "a page of the log's list of heads does not hold what its path says"),
    info("heads-repeated", &[Family::Head], &[Notice], "one head stands twice in the log's list"),
    info("heads-rollback", &[Family::Head], &[Fail], "the log's list of heads goes back to a smaller size"),
    info("head-uncovered", &[Family::Head], &[NotChecked], "the entries do not reach as far as a head"),
    info("log-fork", &[Family::Head, Family::Compare], &[Fail, Notice], "the log signed two heads that no one history explains"),
    info("omitted-head", &[Family::Head, Family::Compare], &[Fail, Notice], "a head that the log signed is not in its list"),
    info("offered-behind", &[Family::Head], &[Notice], "the log offers an older head than it has signed"),
    info("not-yet-offered", &[Family::Head], &[Notice], "a head was signed and not offered yet"),
    info("never-witnessed", &[Family::Head], &[Fail], "no witness of the policy vouches for the newest head"),
    info("age-unknown", &[Family::Head], &[NotChecked], "the age of the newest head cannot be told"),
    info("stale", &[Family::Head], &[Fail], "the newest head that a quorum vouches for is older than `--max-age`"),
    info("not-fresh", &[Family::Head], &[NotChecked, Notice], "for longer than `--max-age`, or than is usual, no quorum vouched for any head"),
    info("head-seen-alone", &[Family::Head], &[Notice], "heads that nothing in the bundle shows but one witness"),
    info("proof-unverified", &[Family::Head], &[NotChecked], "a kept proof does not verify"),
    info("proof-beyond", &[Family::Head], &[NotChecked], "a kept proof speaks of an entry beyond those presented"),
    info("proofs-too-many", &[Family::Head], &[NotChecked], "more kept proofs than are looked at"),
    info("omitted-receipt", &[Family::Head], &[Fail, Notice], "the log does not hold an entry that it proved to hold"),
    info("issuer-fork", &[Family::Head, Family::Compare], &[Fail, Notice], "a document shows that an issuer signed two histories"),
    info("log-admitted", &[Family::Head], &[Fail, Notice], "a document shows that the log admitted what it had to refuse"),
    info("evidence-met", &[Family::Head], &[Notice], "a document says what the log must show, and it does"),
    info("evidence-unread", &[Family::Head], &[NotChecked], "a document says what the log must show in a part that is not in the bundle"),
    info("evidence-unproven", &[Family::Head], &[NotChecked], "an evidence document in the bundle proves nothing"),
    info("quorum-none", &[Family::Quorum], &[NotChecked], "the policy asks for no witness"),
    info("quorum-missing", &[Family::Quorum], &[Fail], "too few of the policy's witnesses vouch for the newest head"),
    info("bad-cosignature", &[Family::Quorum], &[Fail], "a line under a witness's key is not its good cosignature"),
    info("unknown-signature-line", &[Family::Quorum], &[Notice], "a head carries a line of a key that the policy does not list"),
    info("witness-fork", &[Family::Quorum, Family::Head, Family::Compare], &[Fail, Notice], "a witness cosigned two heads that no one history explains"),
    info("silent-witness", &[Family::Quorum], &[NotChecked], "a witness's newest cosignature is older than `--max-age`"),
    info("witness-gap", &[Family::Quorum], &[Notice], "a witness vouched for nothing for longer than `--max-age`, or than is usual"),
    info("witness-checkpoint-missing", &[Family::Head], &[NotChecked], "a witness's own copy of the log's head is not in the bundle"),
    info("witness-checkpoint-unusable", &[Family::Head], &[NotChecked], "a witness's own copy of the log's head is none"),
    info("journal-missing", &[Family::Head], &[NotChecked], "a witness's journal is not in the bundle"),
    info("journal-unusable", &[Family::Head], &[NotChecked], "a witness's journal cannot be read"),
    info("journal-root-mismatch", &[Family::Head], &[Fail], "a journal's lines are not those that its head was signed over"),
    info("journal-tiles", &[Family::Head], &[NotChecked], "a journal's tiles differ from its lines, or are missing"),
    info("journal-behind", &[Family::Head], &[NotChecked], "a journal ends before its witness's own cosignature"),
    info("journal-short", &[Family::Head], &[NotChecked], "a journal has fewer lines than another witness saw in it"),
    info("journal-alarm", &[Family::Head], &[Notice], "a journal tells of what an honest log never shows"),
    info("journal-time-back", &[Family::Head], &[Notice], "times in a journal go back"),
    info("journal-line-unreadable", &[Family::Head], &[NotChecked], "a line of a journal cannot be read"),
    info("malformed", &[Family::Issuer], &[Fail], "an entry of the log is no receipt"),
    info("no-receipts", &[Family::Issuer], &[NotChecked], "no receipt in the log is by a listed issuer, and entries are no receipts: it may be a log of something else"),
    info("unknown-issuer", &[Family::Issuer], &[NotChecked], "receipts of an issuer that the issuers file does not list"),
    info("bad-signature", &[Family::Issuer], &[Fail], "a receipt is not signed by the key in force"),
    info("duplicate", &[Family::Issuer], &[Fail], "the log holds the same receipt twice"),
    info("fork", &[Family::Issuer], &[Fail], "the issuer signed two histories"),
    info("gap", &[Family::Issuer], &[Fail], "receipts of the issuer are missing"),
    info("out-of-order", &[Family::Issuer], &[Fail], "the log admitted the issuer's receipts out of order"),
    info("time-reversed", &[Family::Issuer], &[Fail], "a receipt was issued before the one that it follows"),
    info("future-dated", &[Family::Issuer], &[Fail], "a receipt was issued in the future"),
    info("closed", &[Family::Issuer], &[Fail], "a receipt comes after the issuer's close"),
    info("bad-open", &[Family::Issuer], &[Fail], "the issuer's first receipt does not open its stream under the registered key"),
    info("bad-rotation", &[Family::Issuer], &[Fail], "a change of keys is not signed by both, or names a key that cannot be used"),
    info("outside-validity", &[Family::Issuer], &[Fail], "a receipt was issued outside the time that the issuers file gives"),
    info("silent", &[Family::Issuer], &[Fail], "the issuer said nothing for longer than it promised"),
    info("tail-uncovered", &[Family::Issuer], &[Notice], "the time after the issuer's last receipt, which nothing covers"),
    info("silence-not-judged", &[Family::Issuer], &[NotChecked, Notice], "whether the issuer is silent cannot be told: no time is known, or the bundle does not reach to it"),
    info("issuer-absent", &[Family::Issuer], &[NotChecked], "the log holds no receipt of an issuer that the auditor named"),
    info("tail-short", &[Family::Issuer], &[Fail], "the issuer's stream ends before a receipt that the log proved to hold"),
    info("tail-unread", &[Family::Issuer], &[NotChecked], "the entries end before a receipt that a kept proof proves"),
    info("kept-receipt-unsigned", &[Family::Issuer], &[NotChecked], "an entry kept beside a proof is not signed by its issuer"),
    info("unknown-type", &[Family::Issuer], &[Notice], "a receipt of a type that this version does not know"),
    info("receipts-dropped", &[Family::Issuer], &[NotChecked], "the gate let actions through without receipts"),
    info("outcome-before-decision", &[Family::Request], &[Fail], "an outcome was signed before its decision"),
    info("two-outcomes", &[Family::Request], &[Fail, NotChecked, Notice], "one decision has two outcomes"),
    info("executed-after-deny", &[Family::Request], &[Fail], "a call was denied and executed"),
    info("outcome-after-deny", &[Family::Request], &[Notice], "a denied call has an outcome, by which it was not executed"),
    info("outcome-elsewhere", &[Family::Request], &[NotChecked], "an outcome names a decision of another issuer"),
    info("requests-too-many", &[Family::Request], &[NotChecked], "more requests or approvals than are remembered"),
    info("outcome-missing", &[Family::Request], &[Fail, NotChecked], "an allowed call has no outcome by `--outcome-deadline`"),
    info("outcome-open", &[Family::Request], &[Notice], "allowed calls have no outcome, and no deadline was given"),
    info("outcome-late", &[Family::Request], &[Notice], "an outcome came after `--outcome-deadline`"),
    info("outcome-unknown", &[Family::Request], &[NotChecked], "the gate does not know whether an allowed call ran"),
    info("outcome-contradicts", &[Family::Request], &[Fail], "by one outcome an action was executed, and the gate does not know whether it was"),
    info("outcome-time-unknown", &[Family::Request], &[NotChecked], "no time is known at which a missing outcome could be overdue"),
    info("started-before-decision", &[Family::Request], &[Fail, Notice], "an action began before its decision was signed"),
    info("executed-other-than-decided", &[Family::Request], &[Fail], "what was executed is not what was decided"),
    info("executed-other-than-approved", &[Family::Request], &[Fail], "what was executed is not what a person approved"),
    info("digest-unknown", &[Family::Request], &[NotChecked], "what was executed can be compared with nothing"),
    info("approval-missing", &[Family::Request], &[Fail, NotChecked], "a rule asks for an approval that is not there"),
    info("approval-for-other-action", &[Family::Request], &[Fail], "what a person approved is not what was allowed"),
    info("approval-without-digest", &[Family::Request], &[NotChecked], "an approval that a rule asks for does not say of what"),
    info("approval-unclear", &[Family::Request], &[NotChecked], "what a person said of a request cannot be told"),
    info("approval-after-execution", &[Family::Request], &[Fail, Notice], "an approval came after the action had been executed"),
    info("allowed-after-decline", &[Family::Request], &[Fail], "a call was allowed after a person declined it"),
    info("executed-after-decline", &[Family::Request], &[Fail], "a call was executed after a person declined it"),
    info("decided-after-expiry", &[Family::Request], &[Fail], "a call was allowed under a capability that had expired"),
    info("expiry-unreadable", &[Family::Request], &[NotChecked], "when a capability expires cannot be read"),
    info("executor-differs", &[Family::Request], &[Fail], "an action was executed by somebody other than its decision says"),
    info("allowed-unauthenticated", &[Family::Claim], &[Fail], "a call was allowed whose request was not authenticated"),
    info("agent-unproven", &[Family::Claim], &[Fail], "a bound agent is shown, and not that the capability's signature was verified"),
    info("claim-as-fact", &[Family::Claim], &[Fail], "an outcome shows a claimed agent as authenticated"),
    info("agent-standing-unknown", &[Family::Claim], &[NotChecked], "an outcome does not say whether its agent is a claim"),
    info("agent-differs", &[Family::Claim], &[Fail, Notice], "an outcome shows another agent than the capability is bound to"),
    info("budget-exceeded", &[Family::Budget], &[Fail], "more calls were made than the capability was good for"),
    info("allowed-beyond-budget", &[Family::Budget], &[Fail], "a call was allowed when by its own receipt the budget was spent"),
    info("calls-used-low", &[Family::Budget], &[Fail], "the gate counts fewer calls than its own outcomes show"),
    info("calls-used-back", &[Family::Budget], &[NotChecked], "the gate's count of calls went back"),
    info("counts-missing", &[Family::Budget], &[NotChecked], "a budget does not say whether failed calls count"),
    info("capability-unnamed", &[Family::Budget], &[NotChecked], "a budget does not say of which capability"),
    info("capabilities-too-many", &[Family::Budget], &[NotChecked], "more capabilities than are remembered"),
    info("budget-unknown", &[Family::Budget], &[NotChecked], "calls without outcome may have exceeded the budget"),
    info("budget-changed", &[Family::Budget], &[Notice], "the budget of a capability changed"),
    info("sequence-forbidden", &[Family::Sequence], &[Fail], "two allowed actions in an order that a rule forbids"),
    info("sequence-across-gates", &[Family::Sequence], &[NotChecked], "two gates allowed what a rule forbids in one session, in sessions of the same name"),
    info("scope-absent", &[Family::Sequence], &[NotChecked, Notice], "an action that a rule is about does not carry the rule's scope"),
    info("scope-narrower", &[Family::Sequence], &[Notice], "the gate judged by a narrower scope than the rule asks for"),
    info("scope-too-many", &[Family::Sequence], &[NotChecked], "more values of a scope than are remembered"),
    info("member-committed", &[Family::Sequence, Family::Request, Family::Budget, Family::Provenance, Family::Claim], &[NotChecked], "a member that a rule needs is only committed to"),
    info("prior-classes-differ", &[Family::Sequence], &[Fail, Notice], "the gate judged by other prior classes than the log shows"),
    info("prior-heads-differ", &[Family::Sequence], &[Fail, Notice], "the gate judged by another head of a subject's history than the log shows"),
    info("prior-unjudged", &[Family::Sequence], &[NotChecked, Notice], "which history the gate judged by cannot be told"),
    info("prior-heads-unjudged", &[Family::Sequence], &[NotChecked, Notice], "a head that the gate judged by is not in the log, or came into it later"),
    info("history-restarted", &[Family::Sequence], &[Notice], "a foreign gate began a history anew"),
    info("history-unwitnessed", &[Family::Sequence], &[Notice], "the gate judged by a head of the log that no quorum had vouched for"),
    info("history-root-differs", &[Family::Sequence], &[Fail, Notice], "the gate judged under a root that the log did not have at that size"),
    info("history-root-unjudged", &[Family::Sequence], &[NotChecked, Notice], "whether the log had the root that the gate judged under cannot be told"),
    info("untrusted-change", &[Family::Provenance], &[Fail, Notice], "a change of identity, permission or ownership was allowed where all that the agent had read is untrusted"),
    info("mixed-facts-change", &[Family::Provenance], &[NotChecked, Notice], "such a change was allowed where some of what the agent had read is untrusted"),
    info("fact-trust-unknown", &[Family::Provenance], &[NotChecked, Notice], "such a change was allowed where the trust of some of what the agent had read is not known"),
    info("untrusted-memory-asserted", &[Family::Provenance], &[Fail], "the agent keeps an untrusted note in its own voice"),
    info("untrusted-memory-about", &[Family::Provenance], &[Fail], "the agent keeps an untrusted note about ownership or permission"),
    info("memory-unclear", &[Family::Provenance], &[NotChecked], "a note that the agent keeps does not say its trust or its form"),
    info("format-unknown", &[Family::Foreign], &[NotChecked], "a foreign receipt of a format that this version does not know"),
    info("carried-unreadable", &[Family::Foreign], &[NotChecked], "what a foreign receipt carries cannot be read"),
    info("record-malformed", &[Family::Foreign], &[Fail], "a record does not have the shape of its format"),
    info("digest-mismatch", &[Family::Foreign], &[Fail], "a record's own digest is not that of its content"),
    info("decided-at-unproven", &[Family::Foreign], &[Notice], "the time in a record is covered by nothing"),
    info("no-chain", &[Family::Foreign], &[NotChecked], "records carry a digest each and no chain"),
    info("chain-unnamed", &[Family::Foreign], &[NotChecked], "a record does not say which chain it continues"),
    info("link-broken", &[Family::Foreign], &[Fail], "a record does not continue its chain"),
    info("link-respelt", &[Family::Foreign], &[NotChecked], "whether a record continues one whose spelling is not carried"),
    info("sequence-gap", &[Family::Foreign], &[Fail], "numbers of a chain are missing"),
    info("agent-claimed", &[Family::Foreign, Family::Claim], &[Notice], "the agent in a record is a claim, and nothing proves it"),
    info("authentication-unknown", &[Family::Foreign], &[NotChecked], "a record does not say whether the caller was authenticated"),
    info("executed-by-caller", &[Family::Foreign], &[NotChecked], "the caller executed the action, out of the gate's sight"),
    info("executor-unknown", &[Family::Foreign], &[NotChecked], "a record does not say who executed the action"),
    info("execution-unknown", &[Family::Foreign], &[NotChecked], "whether an allowed action was executed is not recorded"),
    info("outcome-without-decision", &[Family::Foreign, Family::Request], &[Fail, NotChecked], "an outcome has no decision before it"),
    info("pairing-ambiguous", &[Family::Foreign, Family::Request], &[NotChecked], "decisions and outcomes cannot be paired"),
    info("budget-spent-by-failed-execution", &[Family::Foreign, Family::Budget], &[Notice], "a failed execution spent part of the budget"),
    info("denied-by-policy", &[Family::Foreign], &[Notice], "a denial by policy"),
    info("denied-by-person", &[Family::Foreign], &[Notice], "a denial by a person"),
    info("denied-reason-unknown", &[Family::Foreign], &[Notice], "a denial whose reason is not known"),
    info("foreign-key-unpinned", &[Family::Foreign], &[NotChecked], "a receipt names a key that the auditor has not pinned"),
    info("foreign-key-other", &[Family::Foreign], &[Fail], "a receipt of a pinned issuer names a key that is not pinned for it"),
    info("foreign-signature-bad", &[Family::Foreign], &[Fail], "a receipt is not signed by the pinned key that it names"),
    info("member-unsigned", &[Family::Foreign], &[Notice], "a receipt shows something that its signature does not cover"),
    info("chain-unproven", &[Family::Foreign], &[NotChecked], "a receipt in a chain is not proven to be by a pinned key"),
    info("chain-fork", &[Family::Foreign], &[Fail, NotChecked], "two receipts continue the same one, or begin one chain"),
    info("chain-restarted", &[Family::Foreign], &[Notice], "a key begins another chain, of a format whose chains have no names"),
    info("signer-changed", &[Family::Foreign], &[Fail], "a receipt under no pinned key continues a chain under a pinned one"),
    info("after-terminal", &[Family::Foreign], &[Fail], "a receipt comes after the one that ends its chain"),
    info("receipt-repeated", &[Family::Foreign], &[Fail, NotChecked, Notice], "a receipt was carried before, as it was or otherwise"),
    info("receipt-reordered", &[Family::Foreign], &[Fail], "a receipt comes into the log after one that follows it"),
    info("tail-unseen", &[Family::Foreign], &[Notice], "a chain has no closing receipt, so that its end may be cut off"),
    info("state-drift", &[Family::Foreign], &[Fail], "the state at execution is not the one that a receipt was signed over"),
    info("state-unseen", &[Family::Foreign], &[NotChecked], "the state at execution of a receipt that was signed over one is not carried"),
    info("entry-differs", &[Family::Compare], &[Fail], "two bundles hold two entries at one index"),
    info("stream-differs", &[Family::Compare], &[NotChecked], "two bundles hold two receipts of one issuer with one number, and no known key signed both"),
    info("streams-too-many", &[Family::Compare], &[NotChecked], "the bundles differ in more receipts than are looked at by issuer"),
    info("older-copy", &[Family::Compare], &[Notice], "a bundle is an older copy of the same history"),
    info("not-comparable", &[Family::Compare], &[NotChecked], "two bundles hold nothing that could be compared"),
    info("journal-differs", &[Family::Compare], &[Fail], "two bundles hold two journals of one witness"),
    info("journal-rollback", &[Family::Compare], &[Fail], "a witness vouched for a shorter journal after a longer one"),
    info("journal-not-compared", &[Family::Compare], &[NotChecked], "a bundle holds no journal of a witness that could be compared"),
];

/// The row of a code.
pub fn find(code: &str) -> Option<&'static CodeInfo> {
    CODES.iter().find(|info| info.code == code)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;
    use receipt::RefusalCode;
    use std::collections::BTreeSet;

    /// `docs/checks.md`: rows by section.
    fn documented() -> Vec<(String, String, String, String)> {
        let text = include_str!("../../../docs/checks.md");
        let mut family = "";
        let mut rows = Vec::new();
        for line in text.lines() {
            if let Some(heading) = line.strip_prefix("## ") {
                family = heading;
            }
            if let Some(row) = line.strip_prefix("| `") {
                let cells: Vec<&str> = row.trim_end_matches('|').split('|').map(str::trim).collect();
                let [code, severities, finds] = cells.as_slice() else { panic!("{line}") };
                let code = code.trim_end_matches('`');
                rows.push((family.to_owned(), code.to_owned(), (*severities).to_owned(), (*finds).to_owned()));
            }
        }
        rows
    }

    #[test]
    fn the_documentation_lists_exactly_these_codes() {
        let severity = |severity: &Severity| match severity {
            Fail => "fail",
            NotChecked => "not_checked",
            Notice => "notice",
        };
        let table: BTreeSet<_> = CODES
            .iter()
            .map(|info| {
                let severities: Vec<&str> = info.severities.iter().map(severity).collect();
                let family = info.families[0].as_str().to_owned();
                (family, info.code.to_owned(), severities.join(", "), info.finds.to_owned())
            })
            .collect();
        let documented: BTreeSet<_> = documented().into_iter().collect();
        let only = |one: &BTreeSet<_>, other: &BTreeSet<_>| one.difference(other).cloned().collect::<Vec<_>>();
        assert_eq!(only(&table, &documented), [], "missing in docs/checks.md");
        assert_eq!(only(&documented, &table), [], "in docs/checks.md alone");
    }

    #[test]
    fn every_code_stands_once() {
        let codes: BTreeSet<&str> = CODES.iter().map(|info| info.code).collect();
        assert_eq!(codes.len(), CODES.len());
        assert!(find("gap").is_some() && find("").is_none());
    }

    #[test]
    fn what_breaks_the_rules_of_admission_is_called_as_the_log_calls_it() {
        for code in RefusalCode::ALL {
            assert!(find(code.as_str()).is_some(), "{code}");
        }
    }
}
