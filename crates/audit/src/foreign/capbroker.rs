//! Audit lines of capbroker, by what such a line can and cannot show.
//!
//! ```text
//! {"event":"decision","agent_id","operation","resource","capability_id","decision":"ALLOW"|"DENY","reason",
//!  "executed_by":"broker"|"caller"   newer lines, on ALLOW
//!  "authenticated":false}            newer lines, on a DENY before the request's own signature was checked
//! {"event":"execution_result","operation","resource","capability_id","executed":bool,"error"?}
//! ```
//!
//! The lines carry no signature, no chain and nothing per request. So who asked is a claim wherever the line does
//! not say otherwise, and an outcome belongs to a decision only where there is exactly one it can belong to: pairs
//! are never made by order.
//!
//! Holds the parse and the format's checks. Its decisions have no action class, so no sequence rule judges them.

use super::capbroker_pairs::Pairs;
use crate::amount::amount;
use crate::quote::quoted;
use crate::verdict::{Check, CheckBuilder, Family, ReceiptRef};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

pub(super) const FORMAT: &str = "capbroker";

/// One audit line, read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Line {
    Decision(Decision),
    Outcome(Outcome),
}

/// The call that a line is about; all that an outcome says of its decision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Call {
    pub(super) operation: String,
    pub(super) resource: String,
    pub(super) capability_id: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Decision {
    agent_id: String,
    pub(super) call: Call,
    pub(super) allowed: bool,
    pub(super) reason: String,
    pub(super) executor: Executor,
    authenticated: Option<bool>,
}

/// Who the line says performs an allowed action.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Executor {
    Broker,
    Caller,
    Unknown,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Outcome {
    pub(super) call: Call,
    pub(super) executed: bool,
}

impl Line {
    /// Reads a carried value. The error completes "not an audit line: …".
    pub(crate) fn parse(value: &Value) -> Result<Line, &'static str> {
        let members = value.as_object().ok_or("it is no JSON object")?;
        let call = |members| -> Result<Call, &'static str> {
            Ok(Call {
                operation: text(members, "operation", "operation is missing or no string")?,
                resource: text(members, "resource", "resource is missing or no string")?,
                capability_id: text(members, "capability_id", "capability_id is missing or no string")?,
            })
        };
        match members.get("event").and_then(Value::as_str) {
            Some("decision") => Ok(Line::Decision(Decision {
                agent_id: text(members, "agent_id", "agent_id is missing or no string")?,
                call: call(members)?,
                allowed: match members.get("decision").and_then(Value::as_str) {
                    Some("ALLOW") => true,
                    Some("DENY") => false,
                    _ => return Err("decision is neither \"ALLOW\" nor \"DENY\""),
                },
                reason: text(members, "reason", "reason is missing or no string")?,
                executor: match members.get("executed_by") {
                    None => Executor::Unknown,
                    Some(Value::String(by)) if by == "broker" => Executor::Broker,
                    Some(Value::String(by)) if by == "caller" => Executor::Caller,
                    Some(_) => return Err("executed_by is neither \"broker\" nor \"caller\""),
                },
                authenticated: match members.get("authenticated") {
                    None => None,
                    Some(Value::Bool(authenticated)) => Some(*authenticated),
                    Some(_) => return Err("authenticated is neither true nor false"),
                },
            })),
            Some("execution_result") => Ok(Line::Outcome(Outcome {
                call: call(members)?,
                executed: members
                    .get("executed")
                    .and_then(Value::as_bool)
                    .ok_or("executed is missing or neither true nor false")?,
            })),
            _ => Err("event is neither \"decision\" nor \"execution_result\""),
        }
    }
}

fn text(members: &Map<String, Value>, name: &str, missing: &'static str) -> Result<String, &'static str> {
    members.get(name).and_then(Value::as_str).map(str::to_owned).ok_or(missing)
}

/// Who denied: the reason tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Denial {
    Policy,
    Person,
    Unknown,
}

fn denial(reason: &str) -> Denial {
    match reason {
        "unknown_capability"
        | "capability_revoked"
        | "capability_expired"
        | "call_limit_exceeded"
        | "invalid_request_signature"
        | "operation_not_permitted" => Denial::Policy,
        "denied_by_operator" => Denial::Person,
        _ => Denial::Unknown,
    }
}

/// What the broker had verified when it gave this reason, by the order of its checks.
fn proven(reason: &str) -> &'static str {
    match reason {
        "unknown_capability" => "nothing had been verified at that point",
        "capability_revoked" | "capability_expired" | "call_limit_exceeded" | "invalid_request_signature" => {
            "the capability's own signature had been verified, and with it an agent that the line does not show"
        }
        "operation_not_permitted" | "denied_by_operator" | "within_capability" => {
            "by the order of the broker's checks the capability and the request had been verified, but the line does not say so"
        }
        _ => "what had been verified cannot be told from this reason",
    }
}

/// The format's checks over all its lines in a log, in the order of the log.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct CapbrokerChecks {
    records: CheckBuilder,
    authentication: CheckBuilder,
    denials: CheckBuilder,
    pairs: Pairs,
    lines: u64,
    decisions: u64,
    by_policy: u64,
    by_person: u64,
}

impl CapbrokerChecks {
    pub(super) fn new() -> CapbrokerChecks {
        let check = |name: &str| CheckBuilder::new(Family::Foreign, format!("{FORMAT}/{name}"));
        CapbrokerChecks {
            records: check("record"),
            authentication: check("authentication"),
            denials: check("denials"),
            pairs: Pairs::new(check("execution"), check("budget")),
            lines: 0,
            decisions: 0,
            by_policy: 0,
            by_person: 0,
        }
    }

    /// Checks one carried value.
    pub(super) fn add(&mut self, at: &ReceiptRef, value: &Value) {
        self.lines += 1;
        self.records.checked();
        match Line::parse(value) {
            Err(why) => self.records.fail("record-malformed", &[at], || {
                [
                    format!("what the issuer carried here as {FORMAT} is not an audit line: {why}"),
                    String::from("what the carrying gate meant by it"),
                    String::from("ask the operator of the carrying gate for the original line"),
                ]
            }),
            Ok(Line::Outcome(outcome)) => self.pairs.outcome(at, &outcome),
            Ok(Line::Decision(decision)) => {
                self.decisions += 1;
                self.check_authentication(at, &decision);
                if decision.allowed {
                    self.pairs.allow(at, &decision);
                } else {
                    self.count_denial(at, &decision);
                    self.pairs.deny(at, &decision);
                }
            }
        }
    }

    fn check_authentication(&mut self, at: &ReceiptRef, decision: &Decision) {
        self.authentication.checked();
        let agent = quoted(&decision.agent_id);
        match decision.authenticated {
            Some(true) => {}
            Some(false) => self.authentication.notice("agent-claimed", &[at], || {
                [
                    format!("the agent shown, {agent}, is a claim; at the reason {}, {}", quoted(&decision.reason), proven(&decision.reason)),
                    String::from("who asked"),
                    String::from("do not count this line for or against that agent"),
                ]
            }),
            None => self.authentication.not_checked("authentication-unknown", &[at], || {
                [
                    format!("the line shows agent {agent} and does not say whether the request was authenticated; at the reason {}, {}", quoted(&decision.reason), proven(&decision.reason)),
                    String::from("that this agent asked"),
                    String::from("have the broker write authenticated on every decision"),
                ]
            }),
        }
    }

    fn count_denial(&mut self, at: &ReceiptRef, decision: &Decision) {
        self.denials.checked();
        let reason = quoted(&decision.reason);
        let (code, who) = match denial(&decision.reason) {
            Denial::Policy => {
                self.by_policy += 1;
                ("denied-by-policy", "by policy")
            }
            Denial::Person => {
                self.by_person += 1;
                ("denied-by-person", "by a person")
            }
            Denial::Unknown => (
                "denied-reason-unknown",
                "for a reason that this verifier does not know; it counts neither as policy nor as a person",
            ),
        };
        self.denials.notice(code, &[at], || {
            [
                format!("denied {who}: {reason}"),
                String::from("that the denial was right"),
                String::from("nothing to do"),
            ]
        });
    }

    pub(super) fn finish(mut self) -> Vec<Check> {
        if self.lines == 0 {
            return Vec::new();
        }
        let (all, other) = (self.by_policy + self.by_person, self.denials.count("denied-reason-unknown"));
        self.denials.required(all + other > 0);
        self.authentication.required(self.decisions > 0);
        let mut checks = vec![
            self.records.finish(format!(
                "{}; the format has no signature, no chain and nothing per request, so that none is missing or changed rests on the carrying issuer alone",
                amount(self.lines, "line", "lines")
            )),
            self.authentication.finish(format!("{}, each by what its line says of authentication", amount(self.decisions, "decision", "decisions"))),
            self.denials.finish(format!("{}: {} by policy, {} by a person, {other} for an unknown reason", amount(all + other, "denial", "denials"), self.by_policy, self.by_person)),
        ];
        checks.extend(self.pairs.finish());
        checks
    }
}
