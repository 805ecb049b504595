//! Stories of calls: bodies to log, the audit by what an auditor asks, and what the families of calls found.

#![allow(dead_code, unreachable_pub, clippy::unwrap_used, clippy::panic)] // Each test uses a part of it.

use crate::world::{World, told};
use audit::{Family, Rules, Severity, Terms, Verdict};
use receipt::UnixMillis;
use serde_json::{Value, json};

/// What an auditor brings besides the world's own policy and issuers.
#[derive(Default)]
pub struct Asked<'rules> {
    pub rules: &'rules str,
    pub at: Option<u64>,
    pub deadline_ms: Option<u64>,
}

pub fn judged(world: &World, asked: &Asked<'_>) -> Verdict {
    let (policy, issuers, rules) = (world.policy(), world.issuers(), Rules::parse(asked.rules).unwrap());
    let terms = Terms {
        policy: &policy,
        issuers: &issuers,
        rules: &rules,
        at: asked.at.map(UnixMillis),
        max_age_ms: None,
        outcome_deadline_ms: asked.deadline_ms,
        threads: 2,
        progress: &|_, _| {},
    };
    audit::audit(&world.bundle(), &terms).unwrap()
}

/// The first gate's receipts, a second apart, sealed.
pub fn logged(bodies: &[Value]) -> World {
    let mut world = World::new();
    for body in bodies {
        world.log_body(0, &body.to_string());
    }
    world.seal();
    world
}

pub type Found = (String, &'static str, Severity);

/// What the four families found.
pub fn found(verdict: &Verdict) -> Vec<Found> {
    let families = [Family::Request, Family::Claim, Family::Budget, Family::Provenance];
    let checks = verdict.checks.iter().filter(|check| families.contains(&check.family));
    checks
        .flat_map(|check| check.findings.iter().map(|finding| (check.id(), finding.code, finding.severity)))
        .filter(|(_, code, _)| *code != "outcome-open")
        .collect()
}

/// Judges a log of one gate and compares what was found.
#[track_caller]
pub fn expect(bodies: &[Value], expected: &[(&str, &'static str, Severity)]) -> Verdict {
    expect_by("", bodies, expected)
}

#[track_caller]
pub fn expect_by(rules: &str, bodies: &[Value], expected: &[(&str, &'static str, Severity)]) -> Verdict {
    let verdict = judged(&logged(bodies), &Asked { rules, ..Asked::default() });
    let expected: Vec<Found> =
        expected.iter().map(|(check, code, severity)| ((*check).to_owned(), *code, *severity)).collect();
    assert_eq!(found(&verdict), expected, "{}", told(&verdict));
    verdict
}

pub fn allow(request: &str) -> Value {
    json!({"type": "decision", "request_id": request, "decision": "allow", "authenticated": true, "executes": "gate"})
}

pub fn deny(request: &str) -> Value {
    with(allow(request), json!({"decision": "deny"}))
}

pub fn outcome(request: &str, executed: bool) -> Value {
    json!({"type": "outcome", "request_id": request, "executed": executed})
}

pub fn approval(request: &str, verdict: &str) -> Value {
    json!({"type": "approval", "request_id": request, "verdict": verdict, "by": "alex"})
}

/// `body` with further members, or others in their place; `null` takes one away.
pub fn with(mut body: Value, members: Value) -> Value {
    for (name, value) in members.as_object().unwrap() {
        match value {
            Value::Null => drop(body.as_object_mut().unwrap().remove(name)),
            value => body[name] = value.clone(),
        }
    }
    body
}

pub fn hidden() -> Value {
    json!({"#": format!("sha256:{}", "0".repeat(64))})
}

/// The receipt id of an entry of the world's log.
pub fn id(world: &World, index: u64) -> String {
    receipt::ReceiptId::of(&world.log.entries[index as usize]).to_string()
}
