//! The budget family: how many calls a capability was good for, and how many were made under it, by the log's own count
//! for each issuer and capability.
//!
//! Counted is what the outcomes prove: an action that took place was executed and dispatched; one that failed was
//! dispatched where its outcome says what was dispatched or when it began. A call without outcome, or with one by which
//! the gate does not know, may or may not have been made, so it accuses nobody; where it could be the one too many, that
//! is not checked.
//!
//! `calls_used` may or may not count the call being decided: the protocol does not say. Both readings are allowed for.

use crate::amount::amount;
use crate::bundle::ReadError;
use crate::calls::CallTerms;
use crate::key::Key;
use crate::pairs::{NONE, Open, Ran};
use crate::quote::quoted;
use crate::request::committed;
use crate::verdict::{Check, CheckBuilder, Family, ReceiptRef, Severity};
use receipt::body::{CallCounting, Decision, Outcome, Shown};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;

use Severity::{Fail, NotChecked};

/// Most capabilities that are counted for: some hundred bytes each.
const MAX_CAPABILITIES: usize = 2_000_000;

/// The budget family over one log.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct BudgetChecks {
    calls: CheckBuilder,
    numbers: HashMap<Key, u32>,
    capabilities: Vec<Used>,
    decisions: u64,
    executed: u64,
    failed: u64,
    unknown: u64,
}

/// What the log shows of one capability.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Used {
    /// The largest that the gate named.
    max_calls: u64,
    /// What the gate last named as used.
    calls_used: u64,
    /// The latest decision, by its place in the log.
    latest: u64,
    executed: u32,
    dispatched: u32,
    failed: u32,
    /// Allowed calls whose outcome has not come, or cannot be told.
    open: u32,
    /// Calls of which the gate says that it does not know whether they were made.
    unknown: u32,
    /// Failed calls count, by the gate's own word.
    counts_dispatched: bool,
}

impl BudgetChecks {
    pub(crate) fn new() -> BudgetChecks {
        BudgetChecks {
            calls: CheckBuilder::new(Family::Budget, "calls"),
            numbers: HashMap::new(),
            capabilities: Vec::new(),
            decisions: 0,
            executed: 0,
            failed: 0,
            unknown: 0,
        }
    }

    /// An allowed call; answers the number of its capability.
    pub(crate) fn allowed(&mut self, at: &ReceiptRef, decision: &Decision, issuer: u32) -> u32 {
        if decision.capability.is_committed() {
            committed(&mut self.calls, at, "capability");
        }
        let Some(capability) = decision.capability.shown() else { return NONE };
        if capability.max_calls.is_committed() {
            committed(&mut self.calls, at, "capability.max_calls");
        }
        let Some(&max_calls) = capability.max_calls.shown() else { return NONE };
        self.decisions += 1;
        self.calls.checked();
        let counts = capability.counts.shown().copied();
        if capability.counts.is_committed() {
            committed(&mut self.calls, at, "capability.counts");
        } else if counts.is_none() {
            self.calls.not_checked("counts-missing", &[at], || {
                [
                    String::from("the capability has a budget, and the gate does not say whether failed calls count"),
                    String::from("what its calls_used means"),
                    String::from("have the gate write counts: dispatched or executed"),
                ]
            });
        }
        let used = capability.calls_used.shown().copied();
        if let Some(used) = used.filter(|used| *used > max_calls) {
            self.calls.fail("allowed-beyond-budget", &[at], || {
                [
                    format!("the gate allowed a call under a capability good for {max_calls}, of which by the same receipt {used} were used"),
                    String::from("that the action was wrong otherwise"),
                    String::from("find out why the gate did not refuse; end the capability if it is still in use"),
                ]
            });
        }
        if capability.id.is_committed() {
            committed(&mut self.calls, at, "capability.id");
            return NONE;
        }
        let Some(id) = capability.id.shown() else {
            self.calls.not_checked("capability-unnamed", &[at], || {
                [
                    String::from("the decision shows a budget and not the id of the capability"),
                    String::from("which calls took from that budget"),
                    String::from("have the gate write capability.id"),
                ]
            });
            return NONE;
        };
        let Some(number) = self.number(Key::within(issuer, id)) else {
            self.calls.not_checked("capabilities-too-many", &[at], || {
                [
                    format!("the log has more than {MAX_CAPABILITIES} capabilities; this one is not counted for"),
                    String::from("whether its budget was kept"),
                    String::from("audit the log in parts"),
                ]
            });
            return NONE;
        };
        let log = &mut self.capabilities[number as usize];
        log.counts_dispatched |= counts == Some(CallCounting::Dispatched);
        let proven = u64::from(if counts == Some(CallCounting::Dispatched) { log.dispatched } else { log.executed });
        if log.max_calls != 0 && log.max_calls != max_calls {
            let before = log.max_calls;
            self.calls.notice("budget-changed", &[at], || {
                [
                    format!(
                        "the capability {} is good for {} here; before, the gate named {before}",
                        quoted(id),
                        amount(max_calls, "call", "calls")
                    ),
                    String::from("that its issuer did not change it"),
                    String::from("ask who issues the capability; the larger number is what calls are counted against"),
                ]
            });
        }
        if let Some(used) = used {
            if used < proven {
                self.calls.fail("calls-used-low", &[at], || {
                    [
                        format!(
                            "the gate says that {} used under the capability {}; its own outcomes before show {proven}",
                            amount(used, "call was", "calls were"),
                            quoted(id)
                        ),
                        String::from("why: the gate may have lost its count, or keep several"),
                        String::from("count by the log; find out what the gate's count is kept in"),
                    ]
                });
            } else if used < log.calls_used {
                let before = log.calls_used;
                self.calls.not_checked("calls-used-back", &[at], || {
                    [
                        format!("the gate says that {} used under the capability {}; at an earlier decision it said {before}", amount(used, "call was", "calls were"), quoted(id)),
                        String::from("which of the two is right: it may have counted calls that then were not made"),
                        String::from("count by the log; find out what the gate's count is kept in"),
                    ]
                });
            }
            log.calls_used = used;
        }
        log.max_calls = log.max_calls.max(max_calls);
        log.latest = at.index.unwrap_or(u64::MAX);
        log.open = log.open.saturating_add(1);
        number
    }

    /// The outcome of an allowed call.
    pub(crate) fn outcome(
        &mut self,
        terms: &CallTerms<'_>,
        at: &ReceiptRef,
        (outcome, ran): (&Outcome, Ran),
        decision: u64,
        open: &Open,
    ) -> Result<(), ReadError> {
        let Some(log) = self.capabilities.get_mut(open.capability as usize) else { return Ok(()) };
        log.open = log.open.saturating_sub(1);
        if ran == Ran::Unknown {
            self.unknown += 1;
            log.unknown = log.unknown.saturating_add(1);
            return Ok(());
        }
        let executed = ran == Ran::Yes;
        if executed {
            self.executed += 1;
            log.executed = log.executed.saturating_add(1);
        } else {
            self.failed += 1;
            log.failed = log.failed.saturating_add(1);
        }
        let was_dispatched = executed || outcome.executed_digest.is_some() || outcome.started_at.is_some();
        if was_dispatched {
            log.dispatched = log.dispatched.saturating_add(1);
        }
        let by_dispatch = log.counts_dispatched && was_dispatched && u64::from(log.dispatched) > log.max_calls;
        let by_execution = executed && u64::from(log.executed) > log.max_calls;
        if by_dispatch || by_execution {
            let (count, what) = if by_execution { (log.executed, "executed") } else { (log.dispatched, "dispatched") };
            let max_calls = log.max_calls;
            return terms.find(&mut self.calls, ("budget-exceeded", Fail), &[decision], &[at], || {
                [
                    format!("this is call {count} that was {what} under a capability good for {max_calls}"),
                    String::from("that the action was wrong otherwise"),
                    String::from("find out why the gate did not refuse; end the capability if it is still in use"),
                ]
            });
        }
        if !executed && log.counts_dispatched {
            let (failed, max_calls) = (log.failed, log.max_calls);
            self.calls.notice("budget-spent-by-failed-execution", &[at], || {
                [
                    format!("a failed call took from the budget of its capability: {failed} of {max_calls} so far"),
                    String::from("whether it was dispatched before it failed"),
                    String::from("nothing to do, or have the gate count what was executed"),
                ]
            });
        }
        Ok(())
    }

    fn number(&mut self, key: Key) -> Option<u32> {
        if let Some(number) = self.numbers.get(&key) {
            return Some(*number);
        }
        if self.capabilities.len() >= MAX_CAPABILITIES {
            return None;
        }
        let number = self.capabilities.len() as u32;
        self.numbers.insert(key, number);
        self.capabilities.push(Used::default());
        Some(number)
    }

    pub(crate) fn finish(mut self, terms: &CallTerms<'_>) -> Result<Check, ReadError> {
        for used in &self.capabilities {
            let made = u64::from(if used.counts_dispatched { used.dispatched } else { used.executed });
            let failed =
                if used.counts_dispatched { used.failed.saturating_sub(used.dispatched - used.executed) } else { 0 };
            let perhaps = u64::from(used.open) + u64::from(used.unknown) + u64::from(failed);
            if made <= used.max_calls && made + perhaps > used.max_calls {
                terms.find(&mut self.calls, ("budget-unknown", NotChecked), &[used.latest], &[], || {
                    [
                        format!(
                            "calls under a capability good for {}: {made} made, and {perhaps} more perhaps; the latest is named here",
                            amount(used.max_calls, "call", "calls")
                        ),
                        String::from("whether the budget was kept: of those calls the log holds no outcome, or none by which the gate knows whether it was made"),
                        String::from("ask the gate's operator what became of them"),
                    ]
                })?;
            }
        }
        self.calls.required(self.decisions > 0 || self.calls.count("member-committed") > 0);
        Ok(self.calls.finish(match self.decisions {
            0 => String::from("nothing of this kind in the log"),
            decisions => format!(
                "{} under {}: {} executed, {} failed{}",
                amount(decisions, "allowed call with a budget", "allowed calls with a budget"),
                amount(self.capabilities.len() as u64, "capability", "capabilities"),
                self.executed,
                self.failed,
                match self.unknown {
                    0 => String::new(),
                    unknown => format!(", {unknown} unknown to the gate itself, which may have spent as many"),
                }
            ),
        }))
    }
}
