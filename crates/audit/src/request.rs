//! The request family: what became of each call that a gate decided.
//!
//! | check | asks |
//! |---|---|
//! | `pairing` | has each outcome one decision before it, and each decision at most one outcome |
//! | `outcomes` | has each allowed call an outcome by `--outcome-deadline` |
//! | `digests` | is what was executed what was decided and approved |
//! | `approvals` | did a person say yes where the rule file asks for it, and did no call go on after a no |
//! | `expiry` | was nothing allowed under a capability that had expired |
//! | `executor` | did the one execute who was to |
//!
//! A gate's own words that contradict each other fail. What cannot be told is not checked. What is merely unusual (a
//! denied call that gets an outcome of nothing done, an outcome after its deadline, an action that failed) is noticed
//! at most.
//!
//! Holds the sentences and what decides between them; pairs come from [`crate::calls`].

mod approvals;
mod digests;
mod outcomes;
mod pairing;

pub(crate) use digests::decided_digest;

use crate::amount::amount;
use crate::bundle::ReadError;
use crate::calls::{CallTerms, Known, Speaker};
use crate::key::Key;
use crate::pairs::{Answer, Approval, Asked, MAX_REQUESTS, Open, Orphan, Pairs, Performer, Ran, Settled};
use crate::quote::quoted;
use crate::rules::{ApprovalRule, Rules};
use crate::time::{instants, show_duration, show_time};
use crate::verdict::{Check, CheckBuilder, Family, MAX_RECEIPTS_PER_FINDING, ReceiptRef, Severity};
use receipt::body::{self, Decision, ExecutedBy, Outcome, Shown};
use receipt::commit::committed_digest;
use receipt::{Action, ActionDigest, Digest, MAX_AHEAD_MS, UnixMillis};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use Severity::{Fail, NotChecked, Notice};

/// The request family over one log.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct RequestChecks {
    pairing: CheckBuilder,
    outcomes: CheckBuilder,
    digests: CheckBuilder,
    approvals: CheckBuilder,
    expiry: CheckBuilder,
    executor: CheckBuilder,
    decisions: u64,
    allowed: u64,
    outcome_receipts: u64,
    paired: u64,
    failed: u64,
    unknown: u64,
    compared: u64,
    approval_receipts: u64,
    asked: u64,
    expiries: u64,
    executed: u64,
}

impl RequestChecks {
    pub(crate) fn new() -> RequestChecks {
        let check = |name: &str| CheckBuilder::new(Family::Request, name);
        RequestChecks {
            pairing: check("pairing"),
            outcomes: check("outcomes"),
            digests: check("digests"),
            approvals: check("approvals"),
            expiry: check("expiry"),
            executor: check("executor"),
            decisions: 0,
            allowed: 0,
            outcome_receipts: 0,
            paired: 0,
            failed: 0,
            unknown: 0,
            compared: 0,
            approval_receipts: 0,
            asked: 0,
            expiries: 0,
            executed: 0,
        }
    }

    /// A decision, of whatever kind.
    pub(crate) fn seen(&mut self, at: &ReceiptRef, decision: &Decision) {
        self.decisions += 1;
        self.pairing.checked();
        if decision.request_id.is_committed() {
            committed(&mut self.pairing, at, "request_id");
        }
        if decision.ruling.is_committed() {
            committed(&mut self.pairing, at, "decision");
        }
    }

    /// An outcome, of whatever kind.
    pub(crate) fn outcome_seen(&mut self, at: &ReceiptRef, outcome: &Outcome) {
        self.outcome_receipts += 1;
        self.pairing.checked();
        if outcome.executed.is_committed() {
            committed(&mut self.pairing, at, "executed");
        }
        if outcome.unknown.is_committed() {
            committed(&mut self.pairing, at, "unknown");
        }
        if outcome.unknown.shown() == Some(&true) && outcome.executed.shown() == Some(&true) {
            self.pairing.fail("outcome-contradicts", &[at], || {
                [
                    String::from("by one outcome the action was executed, and the gate does not know whether it was"),
                    String::from("which of the two is right"),
                    String::from("have the gate's author put it right; compare the records of whatever was acted on"),
                ]
            });
        }
    }

    /// An allowed call: its capability must not have ended.
    pub(crate) fn allowed(&mut self, at: &ReceiptRef, issued_at: UnixMillis, decision: &Decision) {
        self.allowed += 1;
        if decision.capability.is_committed() {
            committed(&mut self.expiry, at, "capability");
        }
        let Some(capability) = decision.capability.shown() else { return };
        if capability.expires_at.is_committed() {
            committed(&mut self.expiry, at, "capability.expires_at");
        }
        let Some(expires_at) = capability.expires_at.shown() else { return };
        self.expiries += 1;
        match instants(expires_at) {
            None => self.expiry.not_checked("expiry-unreadable", &[at], || {
                [
                    String::from("the capability's expires_at is no time that can be read"),
                    String::from("whether the call was allowed in time"),
                    String::from("have the gate write milliseconds since 1970, or RFC 3339"),
                ]
            }),
            Some([_, latest]) if issued_at > latest => self.expiry.fail("decided-after-expiry", &[at], || {
                [
                    format!(
                        "the gate allowed a call at {}, under a capability that by the same receipt had expired at {}",
                        show_time(issued_at),
                        show_time(latest)
                    ),
                    String::from("that the action was wrong otherwise; both times are the gate's own word"),
                    String::from("find out why the gate did not refuse; end the capability if it is still in use"),
                ]
            }),
            Some(_) => self.expiry.checked(),
        }
    }

    /// The first outcome of an allowed call.
    pub(crate) fn paired(
        &mut self,
        terms: &CallTerms<'_>,
        (at, issued_at): (&ReceiptRef, UnixMillis),
        (outcome, ran): (&Outcome, Ran),
        decision: u64,
        open: &Open,
        approval: Option<&Approval>,
    ) -> Result<(), ReadError> {
        self.paired += 1;
        self.failed += u64::from(ran == Ran::No);
        self.judge_late(terms, (at, issued_at), decision, open)?;
        if ran == Ran::Unknown {
            return self.judge_unknown(terms, at, decision, open, approval);
        }
        self.compare_digests(terms, at, outcome, decision, open, approval)?;
        if ran == Ran::Yes {
            self.judge_times(terms, at, outcome, decision, open)?;
            self.judge_executor(terms, at, outcome, decision, open)?;
            self.judge_approval(terms, at, decision, open, approval)?;
        }
        Ok(())
    }

    fn judge_executor(
        &mut self,
        terms: &CallTerms<'_>,
        at: &ReceiptRef,
        outcome: &Outcome,
        decision: u64,
        open: &Open,
    ) -> Result<(), ReadError> {
        let by = outcome.executed_by.shown().copied();
        let agrees = match (open.performer, by) {
            (Performer::Hidden, _) => {
                committed(&mut self.executor, at, "executes");
                return Ok(());
            }
            (Performer::Nobody, _) | (Performer::Gate, Some(ExecutedBy::Caller)) => false,
            (Performer::Caller, Some(ExecutedBy::Gate)) => false,
            (_, Some(_)) => true,
            (_, None) => return Ok(()),
        };
        self.executed += 1;
        self.executor.checked();
        if agrees {
            return Ok(());
        }
        terms.find(&mut self.executor, ("executor-differs", Fail), &[decision], &[at], || {
            let was_to = match open.performer {
                Performer::Gate => "the gate was to perform this action",
                Performer::Caller => "the caller was to perform this action",
                Performer::Nobody | Performer::Hidden => "nobody was to perform this action",
            };
            [
                format!("by its decision {was_to}; by its outcome {} did", by.map_or("somebody", ExecutedBy::as_str)),
                String::from("whose credential was used"),
                String::from("find out where the credential was, and who could use it"),
            ]
        })
    }

    /// The family's checks. `pairs` holds what is still open.
    pub(crate) fn finish(
        mut self,
        terms: &CallTerms<'_>,
        known: Known,
        pairs: &Pairs,
        speakers: &[Speaker],
    ) -> Result<Vec<Check>, ReadError> {
        let open = self.judge_open(terms, known, pairs, speakers)?;
        let nothing = "nothing of this kind in the log";
        let covers = |count: u64, text: String| if count == 0 { String::from(nothing) } else { text };
        self.pairing.required(self.decisions + self.outcome_receipts > 0);
        let digest_claims = self.compared + self.digests.count("member-committed");
        self.digests.required(digest_claims > 0);
        let approvals = self.approval_receipts + self.asked;
        self.approvals.required(approvals > 0 || self.approvals.count("member-committed") > 0);
        self.expiry.required(self.expiries > 0 || self.expiry.count("member-committed") > 0);
        self.executor.required(self.executed > 0 || self.executor.count("member-committed") > 0);
        let (decisions, outcomes, paired) = (self.decisions, self.outcome_receipts, self.paired);
        Ok(vec![
            self.pairing.finish(covers(
                decisions + outcomes,
                format!(
                    "{} and {}; {paired} paired by request id or decision id, {} of them failed{}; no request has more decisions or outcomes than these findings say",
                    amount(decisions, "decision", "decisions"),
                    amount(outcomes, "outcome", "outcomes"),
                    self.failed,
                    match self.unknown {
                        0 => String::new(),
                        unknown => format!(", {unknown} unknown to the gate itself"),
                    }
                ),
            )),
            self.outcomes.finish(covers(
                self.allowed,
                format!(
                    "{}, {open} of them without an outcome{}{}",
                    amount(self.allowed, "allowed call", "allowed calls"),
                    match self.unknown {
                        0 => String::new(),
                        unknown => format!(", {unknown} with an outcome that the gate itself does not know"),
                    },
                    if terms.outcome_deadline_ms.is_some() { "" } else { "; no --outcome-deadline was given" }
                ),
            )),
            self.digests.finish(covers(
                digest_claims,
                format!("outcomes that say what was executed: {}", self.compared),
            )),
            self.approvals.finish(covers(
                approvals,
                format!("approval receipts: {}; allowed calls that a rule asks an approval for: {}", self.approval_receipts, self.asked),
            )),
            self.expiry.finish(covers(self.expiries, format!("allowed calls under a capability that ends: {}", self.expiries))),
            self.executor.finish(covers(self.executed, format!("executed actions that say by whom: {}", self.executed))),
        ])
    }
}

/// A member that a check needs is only committed to.
pub(crate) fn committed(check: &mut CheckBuilder, at: &ReceiptRef, member: &str) {
    check.not_checked("member-committed", &[at], || {
        [
            format!("the receipt only commits to {}", quoted(member)),
            String::from("what this check would have said of it"),
            String::from("ask the gate for the disclosure of this member"),
        ]
    });
}
