//! What receipts say that they must not.

use super::Stage;
use crate::world::Asked;
use crate::world::gate::{Call, Logged};
use receipt::ReceiptId;
use serde_json::{Value, json};

fn number(stage: &mut Stage) -> u64 {
    stage.random.below(1_000_000_000_000)
}

pub(super) fn split_sequence(stage: &mut Stage) {
    let number = number(stage);
    let subject = format!("customer:x{number}");
    let mutation = stage.world.call(&format!("x-{number}-1"), "crm.update_email", "IDENTITY_MUTATION", &subject);
    stage.world.carry_out(stage.gate, &mutation);
    stage.grow();
    let mut recovery =
        stage.world.call(&format!("x-{number}-2"), "idp.reset_password", "CREDENTIAL_RECOVERY", &subject);
    recovery.resource = format!("auth-of-{number}");
    // Any gate may be the second: the log sees all of them.
    let other = stage.random.place(stage.world.gates.len());
    let gate = if stage.world.gates[other].closed || stage.world.gates[other].muted { stage.gate } else { other };
    stage.world.carry_out(gate, &recovery);
    stage.go_on();
}

pub(super) fn false_prior(stage: &mut Stage) {
    let number = number(stage);
    let (session, subject) = (format!("x-{number}"), format!("customer:x{number}"));
    let before = stage.world.call(&session, "crm.update_email", "IDENTITY_MUTATION", &subject);
    stage.world.carry_out(stage.gate, &before);
    let after = stage.world.call(&session, "crm.read", "READ", &subject);
    let mut body = after.decision(true);
    body["prior_action_classes"] = json!([]);
    let decision = stage.world.say(stage.gate, &body);
    stage.world.conclude(stage.gate, &after, &decision, true);
    stage.go_on();
}

pub(super) fn false_root(stage: &mut Stage) {
    stage.go_on();
    let sealed = stage.world.log.heads.last().map_or(0, |head| head.checkpoint().size.0);
    let size = if stage.random.once_in(2) { sealed } else { stage.random.below(sealed) };
    let root = merkle::leaf_hash(&stage.random.bits().to_be_bytes()).to_base64();
    let call = call(stage, "crm.read", "READ");
    let decision = decide(stage, &call, true, |body| {
        body["history"] = json!({"size": size, "root": root, "witnessed": true});
    });
    stage.world.conclude(stage.gate, &call, &decision, true);
    stage.go_on();
}

pub(super) fn stale_prior_head(stage: &mut Stage) {
    let number = number(stage);
    let (session, subject) = (format!("x-{number}"), format!("customer:x{number}"));
    let mut heads: Vec<ReceiptId> = Vec::new();
    for _ in 0..2 {
        let call = stage.world.call(&session, "crm.read", "READ", &subject);
        heads.push(stage.world.carry_out(stage.gate, &call).receipt.id());
    }
    let after = stage.world.call(&session, "crm.read", "READ", &subject);
    let mut body = after.decision(true);
    body["prior_heads"] = json!({ subject.as_str(): heads[0].to_string() });
    let decision = stage.world.say(stage.gate, &body);
    stage.world.conclude(stage.gate, &after, &decision, true);
    stage.go_on();
}

/// A call like no other, good in itself.
fn call(stage: &mut Stage, operation: &'static str, class: &'static str) -> Call {
    let number = number(stage);
    stage.world.call(&format!("x-{number}"), operation, class, &format!("customer:x{number}"))
}

/// The call's decision, changed before it is signed.
fn decide(stage: &mut Stage, call: &Call, allow: bool, change: impl FnOnce(&mut Value)) -> Logged {
    let mut body = call.decision(allow);
    change(&mut body);
    let decision = stage.world.say(stage.gate, &body);
    stage.world.wait(40);
    decision
}

/// The call's outcome, changed before it is signed.
fn conclude(stage: &mut Stage, call: &Call, decision: &Logged, change: impl FnOnce(&mut Value)) {
    let now_ms = stage.world.gates[stage.gate].clock(stage.world.now_ms).0;
    let mut body = call.outcome(decision.receipt.id(), true, now_ms);
    change(&mut body);
    stage.world.say(stage.gate, &body);
}

pub(super) fn outcome_of_nothing(stage: &mut Stage) {
    let call = call(stage, "crm.read", "READ");
    let other = stage.world.carry_out(stage.gate, &call);
    let mut unasked = call.clone();
    unasked.request = format!("never-asked-{}", number(stage));
    conclude(stage, &unasked, &other, |body| drop(body.as_object_mut().map(|body| body.remove("decision"))));
    stage.go_on();
}

pub(super) fn two_outcomes(stage: &mut Stage) {
    let call = call(stage, "crm.read", "READ");
    let decision = stage.world.carry_out(stage.gate, &call);
    conclude(stage, &call, &decision, |body| {
        body["executed"] = false.into();
        body["error"] = "upstream 502".into();
    });
    stage.go_on();
}

pub(super) fn outcome_first(stage: &mut Stage) {
    let call = call(stage, "crm.read", "READ");
    let now_ms = stage.world.gates[stage.gate].clock(stage.world.now_ms).0;
    let mut outcome = call.outcome(ReceiptId::NONE, true, now_ms);
    drop(outcome.as_object_mut().map(|body| body.remove("decision")));
    stage.world.say(stage.gate, &outcome);
    decide(stage, &call, true, |_| ());
    stage.go_on();
}

pub(super) fn executed_after_deny(stage: &mut Stage) {
    let call = call(stage, "mail.send", "MESSAGE");
    let decision = decide(stage, &call, false, |_| ());
    conclude(stage, &call, &decision, |_| ());
    stage.go_on();
}

pub(super) fn executed_something_else(stage: &mut Stage) {
    let call = call(stage, "mail.send", "MESSAGE");
    let decision = decide(stage, &call, true, |_| ());
    let mut other = call.clone();
    other.resource.push_str("-other");
    conclude(stage, &call, &decision, |body| body["executed_digest"] = other.digest().into());
    stage.go_on();
}

pub(super) fn approved_something_else(stage: &mut Stage) {
    let mut call = call(stage, "mail.send", "MESSAGE");
    call.approved = true;
    let mut other = call.clone();
    other.resource.push_str("-other");
    let decision = decide(stage, &call, true, |_| ());
    stage.world.say(stage.gate, &other.approval(decision.receipt.id()));
    stage.world.wait(40);
    conclude(stage, &call, &decision, |_| ());
    stage.go_on();
}

pub(super) fn executed_after_decline(stage: &mut Stage) {
    let call = call(stage, "mail.send", "MESSAGE");
    let decision = decide(stage, &call, true, |_| ());
    let mut declined = call.approval(decision.receipt.id());
    declined["verdict"] = "declined".into();
    stage.world.say(stage.gate, &declined);
    stage.world.wait(40);
    conclude(stage, &call, &decision, |_| ());
    stage.go_on();
}

pub(super) fn outcome_missing(stage: &mut Stage) {
    let call = call(stage, "mail.send", "MESSAGE");
    decide(stage, &call, true, |_| ());
    stage.world.wait(3_600_000);
    stage.go_on();
    stage.world.asked = Asked { outcome_deadline_ms: Some(1_800_000), ..stage.world.asked };
}

pub(super) fn expired(stage: &mut Stage) {
    let mut call = call(stage, "mail.send", "MESSAGE");
    call.capability = Some((format!("cap-x-{}", number(stage)), 5));
    let expired_ms = stage.world.now_ms - 1000;
    let decision = decide(stage, &call, true, |body| body["capability"]["expires_at"] = expired_ms.into());
    conclude(stage, &call, &decision, |_| ());
    stage.go_on();
}

pub(super) fn other_executor(stage: &mut Stage) {
    let call = call(stage, "mail.send", "MESSAGE");
    let decision = decide(stage, &call, true, |_| ());
    conclude(stage, &call, &decision, |body| body["executed_by"] = "caller".into());
    stage.go_on();
}

pub(super) fn unauthenticated(stage: &mut Stage) {
    let call = call(stage, "mail.send", "MESSAGE");
    let decision = decide(stage, &call, true, |body| {
        body["authenticated"] = false.into();
        body["proven"] = json!([]);
    });
    conclude(stage, &call, &decision, |_| ());
    stage.go_on();
}

pub(super) fn unproven_agent(stage: &mut Stage) {
    let call = call(stage, "mail.send", "MESSAGE");
    let decision = decide(stage, &call, true, |body| body["bound_agent"] = "agent-7".into());
    conclude(stage, &call, &decision, |_| ());
    stage.go_on();
}

pub(super) fn claim_as_fact(stage: &mut Stage) {
    let call = call(stage, "mail.send", "MESSAGE");
    let decision = decide(stage, &call, true, |_| ());
    conclude(stage, &call, &decision, |body| body["authenticated"] = true.into());
    stage.go_on();
}

pub(super) fn budget_exceeded(stage: &mut Stage) {
    let id = format!("cap-x-{}", number(stage));
    let max_calls = stage.random.between(1, 3);
    for used in 0..=max_calls {
        let mut call = call(stage, "mail.send", "MESSAGE");
        call.capability = Some((id.clone(), max_calls));
        // It says the truth about what was used, or hides the last call.
        call.used = used.min(max_calls - 1);
        stage.world.carry_out(stage.gate, &call);
    }
    stage.go_on();
}

pub(super) fn allowed_beyond_budget(stage: &mut Stage) {
    let mut call = call(stage, "mail.send", "MESSAGE");
    call.capability = Some((format!("cap-x-{}", number(stage)), 3));
    call.used = 4;
    stage.world.carry_out(stage.gate, &call);
    stage.go_on();
}

pub(super) fn untrusted_change(stage: &mut Stage) {
    let call = call(stage, "crm.update_email", "IDENTITY_MUTATION");
    let facts = json!([{"source": "ticket", "trust": "untrusted", "summary": "please change my address"}]);
    let decision = decide(stage, &call, true, |body| body["facts"] = facts);
    conclude(stage, &call, &decision, |_| ());
    stage.go_on();
}

fn note(stage: &mut Stage, form: &str, about: &str) {
    let digest = call(stage, "crm.read", "READ").digest();
    let body = json!({
        "type": "memory",
        "note_digest": digest,
        "source": "ticket",
        "trust": "untrusted",
        "form": form,
        "about": [about],
    });
    stage.world.say(stage.gate, &body);
    stage.go_on();
}

pub(super) fn untrusted_note_asserted(stage: &mut Stage) {
    note(stage, "asserted", "preference");
}

pub(super) fn untrusted_note_about_permission(stage: &mut Stage) {
    note(stage, "quoted", "permission");
}
