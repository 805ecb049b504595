//! Which capbroker outcome belongs to which decision, and what a failed execution cost.
//!
//! An outcome names an operation, a resource and a capability, nothing more. It follows its decision. So with one
//! decision open under that name it is that one's; with two or more open it cannot be told, and the whole group is
//! reported as ambiguous until as many outcomes as decisions have come. Order decides nothing.
//!
//! That failed executions are counted against the budget shows where the last call allowed before a
//! `call_limit_exceeded` is one that failed: had it not been counted, the limit would not have been reached.

use super::capbroker::{Call, Decision, Executor, Outcome};
use crate::amount::amount;
use crate::key::Key;
use crate::quote::quoted;
use crate::verdict::{Check, CheckBuilder, ReceiptRef};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;

/// Decisions without outcome and outcomes without decision, by call.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Pairs {
    execution: CheckBuilder,
    budget: CheckBuilder,
    open: HashMap<Key, Group>,
    last_allowed: HashMap<Key, LastAllowed>,
    allowed: u64,
    paired: u64,
    failed: u64,
    limits: u64,
}

/// What is open under one name.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Group {
    decisions: Vec<(ReceiptRef, Executor)>,
    /// Not empty: ambiguous.
    outcomes: Vec<ReceiptRef>,
}

/// The last call allowed under a capability.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct LastAllowed {
    decision: ReceiptRef,
    /// Its outcome, where it can be told and says that it failed.
    failed: Option<ReceiptRef>,
}

impl Pairs {
    pub(super) fn new(execution: CheckBuilder, budget: CheckBuilder) -> Pairs {
        Pairs {
            execution,
            budget,
            open: HashMap::new(),
            last_allowed: HashMap::new(),
            allowed: 0,
            paired: 0,
            failed: 0,
            limits: 0,
        }
    }

    pub(super) fn allow(&mut self, at: &ReceiptRef, decision: &Decision) {
        self.allowed += 1;
        self.execution.checked();
        self.last_allowed
            .insert(capability_key(at, &decision.call), LastAllowed { decision: at.clone(), failed: None });
        match decision.executor {
            Executor::Caller => {
                self.execution.not_checked("executed-by-caller", &[at], || {
                    [
                        String::from(
                            "the caller performs this action with a credential of its own, outside the broker",
                        ),
                        String::from("whether and how it was executed: no outcome of it can reach this log"),
                        String::from("ask whoever holds the credential for the resource's own records"),
                    ]
                });
                return;
            }
            Executor::Unknown => self.execution.not_checked("executor-unknown", &[at], || {
                [
                    String::from("the line does not say who performs the allowed action"),
                    String::from("that the broker did, or that the credential stayed within it"),
                    String::from("have the broker write executed_by on every ALLOW"),
                ]
            }),
            Executor::Broker => {}
        }
        self.open.entry(call_key(at, &decision.call)).or_default().decisions.push((at.clone(), decision.executor));
    }

    pub(super) fn outcome(&mut self, at: &ReceiptRef, outcome: &Outcome) {
        self.execution.checked();
        if !outcome.executed {
            self.failed += 1;
        }
        let key = call_key(at, &outcome.call);
        let mut group = self.open.remove(&key).unwrap_or_default();
        match (group.decisions.len(), group.outcomes.is_empty()) {
            (0, _) => self.execution.not_checked("outcome-without-decision", &[at], || {
                [
                    format!(
                        "an outcome of {} under capability {} without any allowed call it can belong to",
                        quoted(&outcome.call.operation),
                        quoted(&outcome.call.capability_id)
                    ),
                    String::from("that nothing allowed it: the decision may never have been imported"),
                    String::from("look for the decision in the broker's own audit file"),
                ]
            }),
            (1, true) => {
                self.paired += 1;
                let capability = self.last_allowed.get_mut(&capability_key(at, &outcome.call));
                let last = capability.filter(|last| last.decision == group.decisions[0].0);
                if let Some(last) = last.filter(|_| !outcome.executed) {
                    last.failed = Some(at.clone());
                }
            }
            _ => {
                group.outcomes.push(at.clone());
                if group.outcomes.len() < group.decisions.len() {
                    self.open.insert(key, group);
                } else {
                    self.report_ambiguous(&group);
                }
            }
        }
    }

    pub(super) fn deny(&mut self, at: &ReceiptRef, decision: &Decision) {
        if decision.reason != "call_limit_exceeded" {
            return;
        }
        self.limits += 1;
        self.budget.checked();
        let Some(last) = self.last_allowed.get_mut(&capability_key(at, &decision.call)) else { return };
        // Taken, so that a second denial does not report the same failure again.
        let Some(failed) = last.failed.take() else { return };
        self.budget.notice("budget-spent-by-failed-execution", &[&last.decision, &failed, at], || {
            [
                format!(
                    "the last call allowed under capability {} failed, and the next was denied as beyond the limit: the failed execution spent the budget",
                    quoted(&decision.call.capability_id)
                ),
                String::from("what the limit is, and whether the capability was also used where this log does not see"),
                String::from("count failed executions apart from successful ones"),
            ]
        });
    }

    fn report_ambiguous(&mut self, group: &Group) {
        let receipts: Vec<&ReceiptRef> =
            group.decisions.iter().map(|(decision, _)| decision).chain(&group.outcomes).collect();
        self.execution.not_checked("pairing-ambiguous", &receipts, || {
            [
                format!(
                    "{} and {} of the same operation, resource and capability: nothing in the lines says which belongs to which",
                    amount(group.decisions.len() as u64, "allowed call", "allowed calls"),
                    amount(group.outcomes.len() as u64, "outcome", "outcomes")
                ),
                String::from("which of these calls succeeded; they are not paired by order"),
                String::from("have the broker write a request id on decisions and outcomes"),
            ]
        });
    }

    pub(super) fn finish(mut self) -> Vec<Check> {
        let mut open: Vec<Group> = std::mem::take(&mut self.open).into_values().collect();
        // In the order of the log, the same in every run.
        open.sort_by_key(|group| group.decisions.first().and_then(|(decision, _)| decision.index));
        for group in open {
            if !group.outcomes.is_empty() {
                self.report_ambiguous(&group);
                continue;
            }
            for (decision, executor) in &group.decisions {
                self.execution.not_checked("execution-unknown", &[decision], || {
                    let who = if *executor == Executor::Broker {
                        "the broker was to perform this action, and"
                    } else {
                        "the action was allowed, and"
                    };
                    [
                        format!("{who} no outcome of it is in the log"),
                        String::from("whether it was executed: an ALLOW is not an execution"),
                        String::from("look for the outcome in the broker's own audit file"),
                    ]
                });
            }
        }
        self.execution.required(self.allowed > 0 || self.execution.count("outcome-without-decision") > 0);
        self.budget.required(false);
        vec![
            self.execution.finish(format!(
                "{}, {} paired with the only outcome they can have; {} that it failed",
                amount(self.allowed, "allowed call", "allowed calls"),
                self.paired,
                amount(self.failed, "outcome says", "outcomes say")
            )),
            self.budget.finish(format!(
                "{} for a spent budget, each against the last call allowed before it",
                amount(self.limits, "denial", "denials")
            )),
        ]
    }
}

fn call_key(at: &ReceiptRef, call: &Call) -> Key {
    Key::new(&[at.issuer.as_deref().unwrap_or(""), &call.operation, &call.resource, &call.capability_id])
}

fn capability_key(at: &ReceiptRef, call: &Call) -> Key {
    Key::new(&[at.issuer.as_deref().unwrap_or(""), &call.capability_id])
}
