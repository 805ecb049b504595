//! What a gate signs that it must not, and a log admits that it must refuse.

use super::Stage;
use crate::world::gate::Gate;
use note::sign_note;
use receipt::{Receipt, ReceiptId, ReceiptText, SeqNo, UnixMillis};
use serde_json::{Value, json};
use std::sync::Arc;

fn heartbeat() -> Value {
    json!({"type": "heartbeat"})
}

pub(super) fn gap(stage: &mut Stage) {
    let now_ms = stage.world.now_ms;
    drop(stage.world.gates[stage.gate].issue(&heartbeat(), now_ms));
    stage.grow_by(stage.gate);
    stage.go_on();
}

pub(super) fn fork(stage: &mut Stage) {
    let now_ms = stage.world.now_ms;
    let mut other = stage.world.gates[stage.gate].clone();
    let second = other.issue(&json!({"type": "heartbeat", "other": stage.random.below(1000)}), now_ms);
    stage.world.say(stage.gate, &heartbeat());
    stage.grow();
    stage.world.log_receipt(&second);
    stage.go_on();
}

pub(super) fn deny_head(stage: &mut Stage) {
    stage.world.say(stage.gate, &heartbeat());
    let gate = &stage.world.gates[stage.gate];
    let (seq, now_ms) = (gate.chain.next_seq(), stage.world.now_ms.max(gate.last_ms()));
    let denial = signed(gate, seq, ReceiptId::NONE, now_ms, &heartbeat());
    let gate = &mut stage.world.gates[stage.gate];
    gate.chain = receipt::Chain::after(&denial).expect("a seq follows");
    stage.world.log_receipt(&denial);
    stage.go_on();
}

pub(super) fn fork_in_kept_proof(stage: &mut Stage) {
    let now_ms = stage.world.now_ms;
    let mut other = stage.world.gates[stage.gate].clone();
    let second = other.issue(&json!({"type": "heartbeat", "other": stage.random.below(1000)}), now_ms);
    let index = stage.world.log.entries.len() as u64;
    let history = stage
        .world
        .log
        .with_entries(stage.world.log.entries.iter().cloned().chain([second.bytes().to_vec()]).collect::<Vec<_>>());
    stage.world.say(stage.gate, &heartbeat());
    stage.keep_from(&history, index);
    stage.go_on();
}

pub(super) fn bad_signature(stage: &mut Stage) {
    let now_ms = stage.world.now_ms;
    let receipt = stage.world.gates[stage.gate].issue(&heartbeat(), now_ms);
    let changed = String::from_utf8_lossy(receipt.bytes()).replace("heartbeat", "heartbeaT");
    stage.world.log.push(changed.into_bytes());
    stage.grow_by(stage.gate);
    stage.go_on();
}

pub(super) fn line_too_many(stage: &mut Stage) {
    let gate = &mut stage.world.gates[stage.gate];
    let text = gate.chain.next_text(heartbeat().to_string(), UnixMillis(stage.world.now_ms));
    let stranger = Gate::new("gate.example/stranger");
    let note = sign_note(&text.to_string(), &[&gate.key, &stranger.key]).expect("two keys sign");
    stage.world.log.push(note);
    stage.go_on();
}

pub(super) fn duplicate(stage: &mut Stage) {
    let said = stage.world.say(stage.gate, &heartbeat());
    if stage.random.once_in(2) {
        stage.grow();
    }
    stage.world.log_receipt(&said.receipt);
    stage.go_on();
}

pub(super) fn malformed(stage: &mut Stage) {
    let text = format!("no receipt, {}", stage.random.bits());
    stage.world.log.push(text.into_bytes());
    stage.go_on();
}

pub(super) fn reorder(stage: &mut Stage) {
    let now_ms = stage.world.now_ms;
    let gate = &mut stage.world.gates[stage.gate];
    let (one, two) = (gate.issue(&heartbeat(), now_ms), gate.issue(&heartbeat(), now_ms));
    stage.world.log_receipt(&two);
    stage.world.log_receipt(&one);
    stage.go_on();
}

pub(super) fn time_reversed(stage: &mut Stage) {
    stage.world.say(stage.gate, &heartbeat());
    let gate = &stage.world.gates[stage.gate];
    let early_ms = gate.last_ms() - stage.random.between(1, 5000);
    let early = signed(gate, gate.chain.next_seq(), gate.chain.head(), early_ms, &heartbeat());
    let gate = &mut stage.world.gates[stage.gate];
    gate.chain = receipt::Chain::after(&early).expect("a seq follows");
    stage.world.log_receipt(&early);
    stage.go_on();
}

pub(super) fn after_close(stage: &mut Stage) {
    stage.world.say(stage.gate, &json!({"type": "close"}));
    stage.world.say(stage.gate, &heartbeat());
    stage.go_on();
}

pub(super) fn open_twice(stage: &mut Stage) {
    let vkey = stage.world.gates[stage.gate].key.verifier();
    stage.world.say(stage.gate, &json!({"type": "open", "vkey": vkey}));
    stage.go_on();
}

pub(super) fn replaced_by_stranger(stage: &mut Stage) {
    let now_ms = stage.world.now_ms;
    drop(stage.world.gates[stage.gate].issue(&heartbeat(), now_ms));
    let stranger = Gate::new("gate.example/stranger").open(now_ms);
    stage.world.log_receipt(&stranger);
    stage.grow_by(stage.gate);
    stage.go_on();
}

const PROMISED_MS: u64 = 3_600_000;

/// A gate that promised to speak every hour, and then does not.
fn mute(stage: &mut Stage, silent_ms: u64) {
    let number = stage.world.gates.len();
    let mut gate = Gate::new("gate.example/quiet");
    gate.heartbeat_ms = Some(PROMISED_MS);
    stage.gate = stage.world.add_gate(gate);
    debug_assert_eq!(stage.gate, number);
    stage.go_on();
    stage.world.gates[stage.gate].muted = true;
    stage.world.wait(silent_ms);
}

pub(super) fn silent(stage: &mut Stage) {
    let silent_ms = PROMISED_MS + stage.random.between(1000, PROMISED_MS);
    mute(stage, silent_ms);
    stage.world.gates[stage.gate].muted = false;
    stage.world.say(stage.gate, &heartbeat());
    stage.go_on();
}

pub(super) fn silent_at_end(stage: &mut Stage) {
    let silent_ms = 2 * PROMISED_MS + stage.random.below(PROMISED_MS);
    mute(stage, silent_ms);
    stage.go_on();
}

fn signed(gate: &Gate, seq: SeqNo, prev: ReceiptId, issued_at_ms: u64, body: &Value) -> Receipt {
    let text = ReceiptText {
        issuer: gate.chain.issuer().clone(),
        seq,
        prev,
        issued_at: UnixMillis(issued_at_ms),
        body: body.to_string(),
    };
    text.sign(&Arc::clone(&gate.key)).expect("a body of a world is a body")
}
