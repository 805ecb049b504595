#![allow(clippy::unwrap_used, clippy::panic)]

use super::*;
use crate::commit::commit;
use crate::id::{ReceiptId, UnixMillis};
use crate::jcs::Digest;
use serde_json::json;

const HEX: &str = "583f3d5a0f38aa2f73919de1577acb67d88f1f4b53623414d1242404f45c374e";

fn read(body: &Value) -> Result<Body, BodyError> {
    Body::from_members(body.as_object().unwrap().into())
}

fn digest() -> String {
    format!("sha256:{HEX}")
}

/// One body of each type, every member of section 3 in it.
fn full_bodies() -> Vec<Value> {
    vec![
        json!({
            "type": "decision", "request_id": "r-7f3a", "decision": "allow", "rule": "PASS", "why": "within envelope",
            "caller_reason": "ok", "operation": "mail.send", "resource": "outbox", "action_class": "IDENTITY_MUTATION",
            "subjects": ["customer:77"], "session": "s-1", "args_digest": digest(), "args": {"to": "a@b.test", "body": {"#": digest()}},
            "authenticated": true,
            "proven": ["capability_signature", "request_signature", "nonce_fresh", "params_match", "not_expired", "within_budget", "moon_phase"],
            "claimed_agent": "triage-bot", "bound_agent": "triage-bot",
            "capability": {"id": "cap_01", "max_calls": 3, "calls_used": 1, "counts": "dispatched", "expires_at": 1790000000000_u64, "more": 1},
            "grant": {"principal": "agent_12", "purpose": "resolve_ticket", "verified_via": "session_token", "task": "t-1"},
            "facts": [
                {"source": "ticket.body", "trust": "untrusted", "summary": "hi"},
                {"source": "crm", "trust": "trusted", "digest": digest()}
            ],
            "prior_action_classes": ["READ"], "prior_heads": {"customer:77": HEX, "customer:78": {"#": digest()}},
            "history": {"size": 7, "root": "AAAA", "witnessed": false, "why": "no quorum vouched for it"},
            "executes": "gate", "approval": {"digest": digest(), "by": "ops", "at": "2026-11-29T12:00:00Z"},
        }),
        json!({
            "type": "outcome", "request_id": "r-7f3a", "decision": HEX, "executed": false, "unknown": true, "executed_by": "caller",
            "executed_digest": digest(), "agent": "triage-bot", "authenticated": false, "error": "upstream 502",
            "result_digest": digest(), "started_at": 1, "ended_at": 2,
        }),
        json!({"type": "approval", "request_id": "r-7f3a", "decision": HEX, "verdict": "approved", "by": "ops", "digest": digest()}),
        json!({"type": "open", "vkey": "v", "gate": "gate 1.0", "heartbeat_ms": 60000, "policy_digest": digest()}),
        json!({"type": "heartbeat"}),
        json!({"type": "rotate", "vkey": "v"}),
        json!({"type": "close"}),
        json!({
            "type": "memory", "note_digest": digest(), "source": "ticket.body", "trust": "untrusted", "form": "asserted",
            "about": ["ownership", "permission"],
        }),
        json!({"type": "foreign", "format": "capbroker", "receipt": {"event": "decision"}, "receipt_b64": "AAE="}),
        json!({"type": "dropped", "count": 3, "since": 1, "until": 2, "why": "full"}),
    ]
}

#[test]
fn every_member_of_section_3_is_read_and_none_is_left_over() {
    for body in full_bodies() {
        let read = read(&body).unwrap();
        assert_eq!(read.type_name(), body["type"]);
        assert!(read.other().is_empty(), "left over: {:?}", read.other());
        assert!(!matches!(read, Body::Unknown { .. }));
    }
}

#[test]
fn members_come_out_as_what_they_say() {
    let bodies = full_bodies();
    let Body::Decision(decision) = read(&bodies[0]).unwrap() else { panic!() };
    assert_eq!(decision.ruling, Member::Clear(Ruling::Allow));
    assert_eq!(decision.executes.shown(), Some(&Executes::Gate));
    assert_eq!(decision.args_digest.shown().unwrap().to_string(), digest());
    assert_eq!(decision.args.shown().unwrap()["to"], "a@b.test");
    let proven = decision.proven.shown().unwrap();
    assert_eq!(proven[0], Proven::CapabilitySignature);
    assert_eq!(proven[6], Proven::Other("moon_phase".into()));
    let capability = decision.capability.shown().unwrap();
    assert_eq!((capability.max_calls.shown(), capability.counts.shown()), (Some(&3), Some(&CallCounting::Dispatched)));
    assert_eq!(capability.expires_at.shown(), Some(&Moment::Millis(UnixMillis(1_790_000_000_000))));
    assert_eq!(capability.other["more"], 1);
    assert_eq!(decision.facts.shown().unwrap()[0].trust.shown(), Some(&Trust::Untrusted));
    let heads = decision.prior_heads.shown().unwrap();
    assert_eq!(heads.get("customer:77").unwrap().clear(), ReceiptId::parse(HEX).as_ref());
    assert!(heads.get("customer:78").unwrap().is_committed());
    assert_eq!(heads.get("customer:79"), None);
    assert_eq!(decision.approval.shown().unwrap().at.shown(), Some(&Moment::Text("2026-11-29T12:00:00Z".into())));
    let Body::Outcome(outcome) = read(&bodies[1]).unwrap() else { panic!() };
    assert_eq!((outcome.executed.shown(), outcome.executed_by.shown()), (Some(&false), Some(&ExecutedBy::Caller)));
    assert_eq!((outcome.decision.shown(), outcome.unknown.shown()), (ReceiptId::parse(HEX).as_ref(), Some(&true)));
    let history = decision.history.shown().unwrap();
    assert_eq!((history.size.shown(), history.witnessed.shown()), (Some(&7), Some(&false)));
    let Body::Dropped(dropped) = read(&bodies[9]).unwrap() else { panic!() };
    assert_eq!((dropped.count.shown(), dropped.why.shown()), (Some(&3), Some(&DroppedWhy::Full)));
    let Body::Foreign(foreign) = read(&bodies[8]).unwrap() else { panic!() };
    assert_eq!(foreign.receipt_b64.shown(), Some(&ExactBytes(vec![0, 1])));
}

#[test]
fn every_member_may_be_committed_but_the_type() {
    for body in full_bodies() {
        let members = body.as_object().unwrap();
        for name in members.keys().filter(|name| *name != "type") {
            let mut committed = body.clone();
            committed[name] = commit(name, &members[name], [1; 16]).0;
            let read = read(&committed).unwrap_or_else(|error| panic!("{name}: {error}"));
            assert!(read.other().is_empty(), "{name} is still known when committed");
        }
        let mut hidden = body.clone();
        hidden["type"] = json!({"#": digest()});
        let said = read(&hidden).unwrap_err().to_string();
        assert_eq!(said, "/type is of the wrong type; expected a string that names the type of the body");
    }
}

#[test]
fn members_of_nested_objects_may_be_committed_too() {
    let committed = json!({"#": digest()});
    let mut body = full_bodies()[0].clone();
    body["capability"]["max_calls"] = committed.clone();
    body["grant"]["principal"] = committed.clone();
    body["facts"][0]["summary"] = committed.clone();
    body["approval"]["by"] = committed.clone();
    let Body::Decision(decision) = read(&body).unwrap() else { panic!() };
    assert!(decision.capability.shown().unwrap().max_calls.is_committed());
    assert!(decision.grant.shown().unwrap().principal.is_committed());
    assert!(decision.facts.shown().unwrap()[0].summary.is_committed());
    let by = &decision.approval.shown().unwrap().by;
    assert_eq!((by.shown(), by.as_ref().and_then(Member::committed)), (None, Digest::parse(&digest()).as_ref()));
}

#[test]
fn what_is_almost_a_commitment_is_a_value_of_the_wrong_type() {
    for almost in [
        json!({"#": "sha256:00"}),
        json!({"#": digest(), "x": 1}),
        json!({"#": HEX}),
        json!({"##": digest()}),
        json!({}),
    ] {
        let mut body = full_bodies()[0].clone();
        body["rule"] = almost;
        assert_eq!(read(&body).unwrap_err().to_string(), "/rule is of the wrong type; expected a string");
    }
}

#[test]
fn a_member_of_the_wrong_type_is_refused_by_name_in_every_body() {
    for body in full_bodies() {
        let members = body.as_object().unwrap();
        // `args`, `gate` and `receipt` may be anything.
        for name in members.keys().filter(|name| !["args", "gate", "receipt"].contains(&name.as_str())) {
            // No member is a number below zero, and none is null: absent is absent.
            for wrong in [json!(-1), json!(null)] {
                let mut body = body.clone();
                body[name] = wrong;
                match read(&body) {
                    Err(BodyError::WrongType { path, .. }) => assert_eq!(path.to_string(), format!("/{name}")),
                    other => panic!("{name}: {other:?}"),
                }
            }
        }
    }
}

#[test]
fn the_place_of_a_wrong_type_is_named_to_the_innermost_member() {
    let said = |pointer: &str, wrong: Value| {
        let mut body = full_bodies()[0].clone();
        *body.pointer_mut(pointer).unwrap() = wrong;
        read(&body).unwrap_err().to_string()
    };
    let table = [
        ("/decision", json!("ALLOW"), "/decision is of the wrong type; expected \"allow\" or \"deny\""),
        ("/authenticated", json!("true"), "/authenticated is of the wrong type; expected true or false"),
        ("/subjects/0", json!(77), "/subjects/0 is of the wrong type; expected a string"),
        ("/proven", json!("nonce_fresh"), "/proven is of the wrong type; expected an array"),
        ("/proven/2", json!({}), "/proven/2 is of the wrong type; expected a string that names what was proven"),
        ("/capability", json!([]), "/capability is of the wrong type; expected an object"),
        (
            "/capability/max_calls",
            json!(1.5),
            "/capability/max_calls is of the wrong type; expected a whole number from 0 to 2^53−1",
        ),
        (
            "/capability/counts",
            json!("calls"),
            "/capability/counts is of the wrong type; expected \"dispatched\" or \"executed\"",
        ),
        ("/facts/1/trust", json!("some"), "/facts/1/trust is of the wrong type; expected \"trusted\" or \"untrusted\""),
        (
            "/facts/1/digest",
            json!(HEX),
            "/facts/1/digest is of the wrong type; expected a digest: \"sha256:\" and 64 lowercase hex digits",
        ),
        (
            "/prior_heads/customer:77",
            json!(digest()),
            "/prior_heads/customer:77 is of the wrong type; expected a receipt id: 64 lowercase hex digits",
        ),
        (
            "/approval/at",
            json!(false),
            "/approval/at is of the wrong type; expected a time: whole milliseconds since the Unix epoch, or text",
        ),
    ];
    for (pointer, wrong, expected) in table {
        assert_eq!(said(pointer, wrong), expected);
    }
}

#[test]
fn only_what_section_3_calls_required_must_be_there() {
    let required = [
        ("decision", vec!["request_id", "decision", "authenticated", "executes"]),
        ("outcome", vec!["executed"]),
        ("dropped", vec!["count"]),
    ];
    for body in full_bodies() {
        let type_name = body["type"].as_str().unwrap().to_owned();
        let required =
            required.iter().find(|(name, _)| *name == type_name).map(|(_, names)| names.as_slice()).unwrap_or_default();
        for name in body.as_object().unwrap().keys().filter(|name| *name != "type") {
            let mut without = body.clone();
            without.as_object_mut().unwrap().remove(name);
            match read(&without) {
                Ok(_) => assert!(!required.contains(&name.as_str()), "{type_name} without {name}"),
                Err(BodyError::Missing { path, .. }) => {
                    assert_eq!(path.to_string(), format!("/{name}"));
                    assert!(required.contains(&name.as_str()), "{type_name} without {name}");
                }
                Err(other) => panic!("{other}"),
            }
        }
    }
    assert!(matches!(read(&json!({})), Err(BodyError::Missing { .. })));
}

#[test]
fn unknown_members_and_unknown_types_are_kept_as_they_stand() {
    let known = read(&json!({"z": [1, {"#": digest()}], "type": "close", "a": null})).unwrap();
    assert_eq!(Value::Object(known.other().clone()), json!({"z": [1, {"#": digest()}], "a": null}));
    let unknown = read(&json!({"type": "seal", "request_id": 7, "decision": "perhaps"})).unwrap();
    assert_eq!(unknown.type_name(), "seal");
    assert_eq!(
        unknown,
        Body::Unknown {
            type_name: "seal".into(),
            other: json!({"request_id": 7, "decision": "perhaps"}).as_object().unwrap().clone()
        }
    );
    assert_eq!(read(&json!({"type": "Decision"})).unwrap().type_name(), "Decision", "types are case-sensitive");
}

#[test]
fn a_bound_agent_without_proof_is_well_formed() {
    let body = json!({
        "type": "decision", "request_id": "r", "decision": "allow", "authenticated": false, "executes": "none",
        "bound_agent": "the-ceo", "proven": [],
    });
    assert!(read(&body).is_ok(), "what it claims is for the verifier to find");
}

#[test]
fn whole_numbers_count_however_they_are_written() {
    for written in ["3", "3.0", "0.3e1", "30e-1"] {
        let text = format!(r#"{{"type":"open","heartbeat_ms":{written}}}"#);
        let members = crate::ijson::parse_members(&text).unwrap();
        let Body::Open(open) = Body::from_members(members).unwrap() else { panic!() };
        assert_eq!(open.heartbeat_ms.shown(), Some(&3), "{written}");
    }
}
