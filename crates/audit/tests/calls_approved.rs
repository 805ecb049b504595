//! The request family: digests, approvals, executors. Each code on one side of its boundary, nothing on the other.

use crate::story;
use crate::world;
use audit::Severity::{Fail, NotChecked, Notice};
use audit::Status;
use receipt::{Action, ActionDigest};
use serde_json::{Value, json};
use story::{Asked, allow, approval, deny, expect, expect_by, found, hidden, id, judged, outcome, with};
use world::{World, told};

/// An allowed call with everything that its digest is made of, and that digest.
fn whole(request: &str) -> (Value, String) {
    let args = json!({"to": "a@b.test"});
    let body = with(allow(request), json!({"operation": "mail.send", "resource": "outbox", "args": args}));
    let action =
        Action { operation: "mail.send", resource: "outbox", args: &args, capability_id: None, nonce: request };
    (body, ActionDigest::of(&action).to_string())
}

fn other_digest() -> String {
    format!("sha256:{}", "1".repeat(64))
}

#[test]
fn what_was_executed_is_what_was_decided() {
    let (decision, digest) = whole("1");
    let executed = |digest: &Value| with(outcome("1", true), json!({"executed_digest": digest}));
    let verdict = expect(&[decision.clone(), executed(&json!(digest))], &[]);
    assert_eq!(verdict.check("request/digests").unwrap().status, Status::Ok);
    let differs = [("request/digests", "executed-other-than-decided", Fail)];
    expect(&[decision.clone(), executed(&json!(other_digest()))], &differs);
    // A failed call was dispatched all the same.
    expect(&[decision.clone(), with(executed(&json!(other_digest())), json!({"executed": false}))], &differs);
    // The digest that the decision states.
    let stated = with(allow("1"), json!({"approval": {"digest": digest, "by": "alex"}}));
    expect(&[stated.clone(), executed(&json!(digest))], &[]);
    expect(&[stated, executed(&json!(other_digest()))], &differs);
}

#[test]
fn what_was_executed_is_not_compared_with_what_cannot_be_told() {
    let (decision, digest) = whole("1");
    let executed = with(outcome("1", true), json!({"executed_digest": digest}));
    let unknown = [("request/digests", "digest-unknown", NotChecked)];
    let changes = [
        json!({"args": null}),
        json!({"args": {"to": hidden()}}),
        json!({"operation": null}),
        json!({"resource": hidden()}),
        json!({"nonce": "n-1"}),
    ];
    for change in changes {
        let partial = with(decision.clone(), change.clone());
        let verdict = expect(&[partial.clone(), executed.clone()], &unknown);
        assert_eq!(verdict.exit_code, 2, "{change}");
        expect(&[partial, outcome("1", true)], &[]);
    }
    expect(
        &[decision, with(executed, json!({"executed_digest": hidden()}))],
        &[("request/digests", "member-committed", NotChecked)],
    );
}

#[test]
fn what_was_approved_is_what_was_decided() {
    let (decision, digest) = whole("1");
    let other = [("request/approvals", "approval-for-other-action", Fail)];
    let approved = |digest: &str| with(approval("1", "approved"), json!({"digest": digest}));
    expect(&[approved(&digest), decision.clone(), outcome("1", true)], &[]);
    expect(&[decision.clone(), approved(&digest), outcome("1", true)], &[]);
    expect(&[approved(&other_digest()), decision.clone(), outcome("1", true)], &other);
    expect(&[decision.clone(), approved(&other_digest()), outcome("1", true)], &other);
    // By the decision's own members.
    let stating = |digest: &str| with(decision.clone(), json!({"approval": {"digest": digest, "by": "alex"}}));
    expect(&[stating(&digest), outcome("1", true)], &[]);
    expect(&[stating(&other_digest()), outcome("1", true)], &other);
    expect(&[with(stating(&other_digest()), json!({"decision": "deny"}))], &[]);
    // A decision that shows no digest: what was executed is compared with what was approved.
    let executed = with(outcome("1", true), json!({"executed_digest": digest}));
    expect(&[approved(&digest), allow("1"), executed.clone()], &[]);
    expect(
        &[approved(&other_digest()), allow("1"), executed],
        &[("request/digests", "executed-other-than-approved", Fail)],
    );
}

#[test]
fn a_no_ends_a_call() {
    expect(
        &[approval("1", "declined"), allow("1"), outcome("1", false)],
        &[("request/approvals", "allowed-after-decline", Fail)],
    );
    expect(&[approval("1", "declined"), deny("1")], &[]);
    expect(
        &[allow("1"), approval("1", "declined"), outcome("1", true)],
        &[("request/approvals", "executed-after-decline", Fail)],
    );
    expect(&[allow("1"), approval("1", "declined"), outcome("1", false)], &[]);
}

const FOUR_EYES: &str =
    "[[approval]]\ncode = \"FOUR_EYES\"\nclasses = [\"PAYMENT\"]\noperations = [\"bank.transfer\"]\n";

#[test]
fn an_approval_that_a_rule_asks_for_is_there_before_the_action() {
    let (whole, digest) = whole("1");
    let pay = with(whole, json!({"action_class": "PAYMENT"}));
    let approved = with(approval("1", "approved"), json!({"digest": digest}));
    let missing = |severity| [("request/approvals", "approval-missing", severity)];
    expect_by(FOUR_EYES, &[pay.clone(), outcome("1", true)], &missing(Fail));
    expect_by(
        FOUR_EYES,
        &[with(allow("1"), json!({"operation": "bank.transfer"})), outcome("1", true)],
        &missing(Fail),
    );
    expect_by(FOUR_EYES, std::slice::from_ref(&pay), &missing(NotChecked));
    expect_by(FOUR_EYES, &[pay.clone(), outcome("1", false)], &[]);
    expect_by(FOUR_EYES, &[with(pay.clone(), json!({"decision": "deny"}))], &[]);
    expect_by(FOUR_EYES, &[with(pay.clone(), json!({"executes": "none"}))], &[]);
    expect_by(FOUR_EYES, &[with(pay.clone(), json!({"action_class": "READ"})), outcome("1", true)], &[]);
    expect_by(FOUR_EYES, &[approved.clone(), pay.clone(), outcome("1", true)], &[]);
    expect_by(FOUR_EYES, &[pay.clone(), approved.clone(), outcome("1", true)], &[]);
    expect_by(FOUR_EYES, &[with(pay.clone(), json!({"approval": {"digest": digest}})), outcome("1", true)], &[]);
    // A second yes takes nothing from the first.
    let again = with(approved.clone(), json!({"by": "kim"}));
    expect_by(
        FOUR_EYES,
        &[approved.clone(), pay.clone(), outcome("1", true), again],
        &[("request/approvals", "approval-after-execution", Notice)],
    );
    expect_by(
        FOUR_EYES,
        &[pay.clone(), outcome("1", true), approved],
        &[("request/approvals", "approval-missing", Fail), ("request/approvals", "approval-after-execution", Fail)],
    );
    let without = [("request/approvals", "approval-without-digest", NotChecked)];
    expect_by(FOUR_EYES, &[approval("1", "approved"), pay.clone(), outcome("1", true)], &without);
    expect_by(FOUR_EYES, &[with(pay.clone(), json!({"approval": {"by": "alex"}})), outcome("1", true)], &without);
    let committed = [("request/approvals", "member-committed", NotChecked)];
    expect_by(FOUR_EYES, &[with(pay.clone(), json!({"approval": hidden()})), outcome("1", true)], &committed);
    expect_by(FOUR_EYES, &[with(pay, json!({"action_class": hidden()})), outcome("1", true)], &committed);
}

#[test]
fn what_a_person_said_twice_and_differently_is_unclear() {
    let unclear = [("request/approvals", "approval-unclear", NotChecked)];
    expect(&[approval("1", "approved"), approval("1", "declined"), allow("1"), outcome("1", true)], &unclear);
    expect(&[allow("1"), approval("1", "approved"), approval("1", "declined"), outcome("1", true)], &unclear);
    expect(
        &[
            allow("1"),
            approval("1", "approved"),
            with(approval("1", "approved"), json!({"by": "kim"})),
            outcome("1", true),
        ],
        &[],
    );
}

#[test]
fn an_approval_in_another_issuers_stream_neither_counts_nor_accuses() {
    let mut world = World::new();
    let desk = world.add_gate("gate.example/approvals");
    let index = world.log_body(0, &with(allow("1"), json!({"action_class": "PAYMENT"})).to_string());
    let named = id(&world, index);
    world.log_body(desk, &with(approval("x", "approved"), json!({"request_id": null, "decision": named})).to_string());
    world.log_body(0, &outcome("1", true).to_string());
    world.seal();
    let verdict = judged(&world, &Asked { rules: FOUR_EYES, ..Asked::default() });
    assert_eq!(
        found(&verdict),
        [(String::from("request/approvals"), "approval-unclear", NotChecked)],
        "{}",
        told(&verdict)
    );
}

#[test]
fn the_one_executes_who_was_to() {
    let differs = [("request/executor", "executor-differs", Fail)];
    for (executes, by, expected) in [
        ("gate", json!("gate"), &[][..]),
        ("gate", json!("caller"), &differs),
        ("caller", json!("gate"), &differs),
        ("caller", json!("caller"), &[]),
        ("none", json!("gate"), &differs),
        ("none", json!(null), &differs),
        ("gate", json!(null), &[]),
    ] {
        let bodies =
            [with(allow("1"), json!({"executes": executes})), with(outcome("1", true), json!({"executed_by": by}))];
        expect(&bodies, expected);
        expect(&[bodies[0].clone(), with(bodies[1].clone(), json!({"executed": false}))], &[]);
    }
}
