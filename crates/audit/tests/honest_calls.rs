//! Honest gates, in whatever order their calls, approvals and outcomes interleave, are never accused.

use crate::story;
use crate::world;
use audit::{Rules, Severity};
use proptest::prelude::*;
use receipt::{Action, ActionDigest};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use story::{Asked, judged, with};
use world::{START_MS, World, told};

const GATES: usize = 3;

const RULES: &str = "[[approval]]\ncode = \"FOUR_EYES\"\nclasses = [\"PAYMENT\"]\n";

/// A call that an honest gate has allowed and not yet answered.
#[derive(Clone)]
struct Open {
    request: String,
    decision: String,
    digest: String,
    agent: Option<&'static str>,
    by: &'static str,
    capability: String,
    needs_approval: bool,
}

/// An honest gate: what it has open, and what it has used of its capabilities.
#[derive(Clone, Default)]
struct Gate {
    requests: u32,
    open: Vec<Open>,
    /// By capability: executed and failed calls, and calls under way.
    used: BTreeMap<String, [u64; 3]>,
}

struct Honest {
    world: World,
    gates: Vec<Gate>,
}

impl Honest {
    fn new() -> Honest {
        let mut world = World::new();
        for number in 2..=GATES {
            world.add_gate(&format!("gate.example/support-{number}"));
        }
        Honest { world, gates: vec![Gate::default(); GATES] }
    }

    fn log(&mut self, gate: usize, body: &Value) -> String {
        let index = self.world.log_body(gate, &body.to_string());
        story::id(&self.world, index)
    }

    /// A new request, of a kind that `kind` picks.
    fn decide(&mut self, gate: usize, kind: u8) {
        const MAX_CALLS: u64 = 3;
        let state = &mut self.gates[gate];
        state.requests += 1;
        // The gates number their requests alike.
        let request = format!("r-{}", state.requests);
        let counts = if kind & 1 == 0 { "executed" } else { "dispatched" };
        let capability = format!("cap-{counts}-{}", kind / 64);
        let [executed, failed, under_way] = *state.used.entry(capability.clone()).or_default();
        let spent = if counts == "executed" { executed } else { executed + failed };
        let within = spent + under_way < MAX_CALLS;
        let args = json!({"amount": kind});
        let action = Action {
            operation: "bank.transfer",
            resource: "account/1",
            args: &args,
            capability_id: Some(&capability),
            nonce: &request,
        };
        let digest = ActionDigest::of(&action).to_string();
        let agent = (kind & 2 == 0).then_some("billing");
        let by = if kind & 4 == 0 { "gate" } else { "caller" };
        let needs_approval = kind & 8 == 0;
        let expires_at = self.world.now_ms + 1000;
        let mut body = json!({
            "type": "decision", "request_id": request, "authenticated": true, "executes": by,
            "operation": "bank.transfer", "resource": "account/1", "args": args,
            "action_class": if needs_approval { "PAYMENT" } else { "READ" },
            "capability": {"id": capability, "max_calls": MAX_CALLS, "calls_used": spent, "counts": counts, "expires_at": expires_at},
            "claimed_agent": "the-ceo",
            "proven": ["request_signature"],
            "facts": [{"source": "mail", "trust": "untrusted"}],
        });
        if let Some(agent) = agent {
            body = with(body, json!({"bound_agent": agent, "proven": ["capability_signature", "request_signature"]}));
        }
        if kind.is_multiple_of(5) || !within {
            self.log(gate, &with(body, json!({"decision": "deny"})));
            return;
        }
        if kind.is_multiple_of(7) {
            body = with(body, json!({"approval": {"digest": digest, "by": "alex", "at": "2026-11-29T12:00:00Z"}}));
        }
        let needs_approval = needs_approval && !kind.is_multiple_of(7);
        self.gates[gate].used.get_mut(&capability).unwrap()[2] += 1;
        let decision = self.log(gate, &with(body, json!({"decision": "allow"})));
        let open = Open { request, decision, digest, agent, by, capability, needs_approval };
        self.gates[gate].open.push(open);
    }

    /// What comes next of a call that `pick` picks: its approval, then its outcome.
    fn go_on(&mut self, gate: usize, pick: u8) {
        let count = self.gates[gate].open.len();
        if count == 0 {
            return;
        }
        let place = usize::from(pick) % count;
        if self.gates[gate].open[place].needs_approval {
            let open = &mut self.gates[gate].open[place];
            open.needs_approval = false;
            let names =
                if pick & 1 == 0 { json!({"request_id": open.request}) } else { json!({"decision": open.decision}) };
            let body = json!({"type": "approval", "verdict": "approved", "by": "alex", "digest": open.digest});
            self.log(gate, &with(body, names));
            return;
        }
        let open = self.gates[gate].open.swap_remove(place);
        let executed = !pick.is_multiple_of(3);
        let used = self.gates[gate].used.get_mut(&open.capability).unwrap();
        used[2] -= 1;
        used[usize::from(!executed)] += 1;
        let names = match pick % 5 {
            0 => json!({"request_id": open.request}),
            1 => json!({"decision": open.decision}),
            _ => json!({"request_id": open.request, "decision": open.decision}),
        };
        let mut body = json!({
            "type": "outcome", "executed": executed, "executed_by": open.by, "executed_digest": open.digest,
            "agent": open.agent.unwrap_or("the-ceo"), "authenticated": open.agent.is_some(),
            "started_at": self.world.now_ms, "ended_at": self.world.now_ms + 900,
        });
        if !executed {
            body["error"] = json!("timed out");
        }
        self.log(gate, &with(body, names));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn honest_gates_are_never_accused(steps in prop::collection::vec((0..GATES, any::<u8>(), 0..5u8), 1..60)) {
        let mut honest = Honest::new();
        for (gate, pick, what) in steps {
            match what {
                0 | 1 => honest.decide(gate, pick),
                2 | 3 => honest.go_on(gate, pick),
                _ => drop(honest.log(gate, &json!({
                    "type": "memory", "source": "mail", "trust": "untrusted", "form": "quoted", "about": ["weather"],
                }))),
            }
        }
        honest.world.seal();
        let asked = Asked { rules: RULES, at: Some(START_MS + 3_600_000), deadline_ms: Some(3_600_000) };
        prop_assert!(Rules::parse(RULES).is_ok());
        let verdict = judged(&honest.world, &asked);
        for check in &verdict.checks {
            for finding in &check.findings {
                prop_assert_ne!(finding.severity, Severity::Fail, "{}", told(&verdict));
            }
        }
        // All that is open is a call whose outcome or whose approval may still come.
        let unsettled: usize = honest.gates.iter().map(|gate| gate.open.len()).sum();
        prop_assert!(verdict.exit_code == 0 || unsettled > 0, "{}", told(&verdict));
    }
}
