//! What one issuer says of another's calls neither answers for that other one, nor accuses it, nor covers for it.

use crate::story;
use crate::world;
use audit::Rules;
use audit::Severity::{Fail, NotChecked};
use serde_json::json;
use story::{Asked, allow, approval, deny, found, id, judged, outcome};
use world::{World, decision, failures, told};

fn two_gates() -> World {
    let mut world = World::new();
    world.add_gate("executor.example/1");
    world
}

#[test]
fn an_outcome_of_another_issuer_that_is_logged_before_the_decision_is_not_the_deciders() {
    let mut world = two_gates();
    world.log_heartbeats(5);
    world.now_ms += 1000;
    // Decided and handed on; the gate's outbox is slower than the executor's.
    let decision = world.gates[0].issue(&allow("1").to_string(), world.now_ms);
    let executed = json!({"type": "outcome", "decision": decision.id().to_string(), "executed": true});
    world.log_body(1, &executed.to_string());
    world.log.push(decision.bytes().to_vec());
    world.log_body(0, &outcome("1", true).to_string());
    world.seal();
    let verdict = judged(&world, &Asked::default());
    let expected = vec![(String::from("request/pairing"), "outcome-elsewhere", NotChecked)];
    assert_eq!(found(&verdict), expected, "{}", told(&verdict));
}

#[test]
fn an_outcome_of_another_issuer_with_a_request_of_its_own_covers_for_nobody() {
    let mut world = two_gates();
    let denied = world.log_body(0, &deny("1").to_string());
    world.log_body(1, &allow("x").to_string());
    let both = json!({"type": "outcome", "request_id": "x", "decision": id(&world, denied), "executed": true});
    world.log_body(1, &both.to_string());
    world.log_body(0, &outcome("1", true).to_string());
    world.seal();
    let verdict = judged(&world, &Asked::default());
    let expected = vec![
        (String::from("request/pairing"), "pairing-ambiguous", NotChecked),
        (String::from("request/pairing"), "executed-after-deny", Fail),
    ];
    assert_eq!(found(&verdict), expected, "{}", told(&verdict));
}

#[test]
fn what_another_issuer_says_that_a_person_said_takes_nothing_from_what_the_decider_says() {
    let bodies = |request: &str, decision: &str| {
        [
            json!({"type": "approval", "decision": decision, "verdict": "approved"}),
            json!({"type": "approval", "request_id": request, "decision": decision, "verdict": "approved"}),
        ]
    };
    for which in [0, 1] {
        for before in [true, false] {
            let mut world = two_gates();
            let allowed = world.log_body(0, &allow("1").to_string());
            world.log_body(1, &allow("x").to_string());
            world.log_body(1, &outcome("x", true).to_string());
            let elsewhere = bodies("x", &id(&world, allowed))[which].to_string();
            if before {
                world.log_body(1, &elsewhere);
            }
            world.log_body(0, &approval("1", "declined").to_string());
            if !before {
                world.log_body(1, &elsewhere);
            }
            world.log_body(0, &outcome("1", true).to_string());
            world.seal();
            let verdict = judged(&world, &Asked::default());
            let declined = (String::from("request/approvals"), "executed-after-decline", Fail);
            assert!(found(&verdict).contains(&declined), "{which} {before} {}", told(&verdict));
        }
    }
}

#[test]
fn a_gate_that_judged_by_receipts_of_an_issuer_that_the_auditor_did_not_name_is_not_accused() {
    let mut world = two_gates();
    let first = world.log_body(1, &decision("1", true, "READ", "", "", "customer:77").to_string());
    let mut then = decision("2", true, "SEND", "", "", "customer:77");
    then["prior_heads"] = json!({"customer:77": id(&world, first)});
    then["prior_action_classes"] = json!(["READ"]);
    world.log_body(0, &then.to_string());
    world.seal();
    let named = &world.issuers()[..1];
    let verdict = world.audit_with(&world.bundle(), &world.policy(), named, &Rules::built_in(), None, None);
    assert_eq!(failures(&verdict), [], "{}", told(&verdict));
    assert_eq!((verdict.count("prior-heads-unjudged"), verdict.count("prior-unjudged")), (1, 1), "{}", told(&verdict));
    let verdict = world.verdict();
    assert_eq!((failures(&verdict), verdict.count("prior-unjudged")), (vec![], 0), "{}", told(&verdict));
}
