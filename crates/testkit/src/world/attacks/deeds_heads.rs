//! What a log does with its heads, and what is shown of it.

use super::Stage;
use crate::world::Asked;
use crate::world::gate::Gate;
use crate::world::tiled::TiledLog;
use serde_json::json;

/// Some receipts are logged; the stage's witness sees another history from where it last was, `more` entries longer or
/// shorter than the true one. All others see the true one.
fn split(stage: &mut Stage, more: i64) -> TiledLog {
    stage.grow();
    let seen = stage.world.witnesses[stage.witness].held.as_ref().map_or(0, |held| held.checkpoint().size.0) as usize;
    let length = stage.world.log.entries.len() - seen;
    let second = stage.second_history(seen, length.saturating_add_signed(more as isize).max(1));
    stage.captured = true;
    stage.seal();
    let now_ms = stage.world.now_ms;
    stage.world.witnesses[stage.witness].look(&second.head(), now_ms);
    second
}

pub(super) fn fork_same_size(stage: &mut Stage) {
    split(stage, 0);
}

pub(super) fn fork_smaller(stage: &mut Stage) {
    split(stage, -1);
    stage.go_on();
}

pub(super) fn fork_larger(stage: &mut Stage) {
    split(stage, 40);
}

pub(super) fn fork_listed(stage: &mut Stage) {
    stage.grow();
    let size = stage.world.log.entries.len();
    let second = stage.second_history(size - 1, 1);
    stage.world.log.heads.push(second.head());
    stage.go_on();
}

pub(super) fn omit_head(stage: &mut Stage) {
    stage.grow();
    let head = stage.seal();
    stage.go_on();
    stage.world.log.heads.retain(|listed| listed.checkpoint() != head.checkpoint());
}

pub(super) fn omit_head_with_helper(stage: &mut Stage) {
    stage.grow();
    let before = stage.world.witnesses[stage.witness].journal.clone();
    let head = stage.seal();
    // It saw the head, and its journal says nothing of it.
    stage.world.witnesses[stage.witness].journal = before;
    stage.go_on();
    stage.world.log.heads.retain(|listed| listed.checkpoint() != head.checkpoint());
}

pub(super) fn roll_back(stage: &mut Stage) {
    stage.go_on();
    let (log, offered) = (stage.world.log.clone(), stage.world.offered.clone());
    let checkpoint = offered.as_ref().map(|head| stage.world.with_cosignatures(head).bytes().to_vec());
    stage.world.wait(1000);
    stage.go_on();
    (stage.world.log, stage.world.offered) = (log, offered);
    stage.replaced.insert(String::from("log/checkpoint"), checkpoint);
}

pub(super) fn cut_tail(stage: &mut Stage) {
    stage.go_on();
    let mut shown = stage.world.bundle();
    stage.grow_by(stage.gate);
    stage.seal();
    let last = merkle::LeafIndex(stage.world.log.entries.len() as u64 - 1);
    if let Some((proof, entry)) = stage.world.proof(last) {
        shown.insert("proofs/newer.tlog-proof", proof);
        shown.insert("proofs/newer.entry", entry);
    }
    stage.shown = Some(shown);
}

pub(super) fn list_goes_back(stage: &mut Stage) {
    stage.grow();
    let smaller = stage.seal();
    stage.grow();
    stage.seal();
    stage.world.log.heads.push(smaller);
    stage.go_on();
}

pub(super) fn stale_replay(stage: &mut Stage) {
    stage.go_on();
    let at_ms = stage.world.now_ms + 24 * 3_600_000;
    stage.world.asked = Asked { at_ms: Some(at_ms), max_age_ms: Some(3_600_000), outcome_deadline_ms: None };
}

pub(super) fn kept_from_second_history(stage: &mut Stage) {
    second_history_kept(stage);
    stage.go_on();
    stage.go_on();
}

/// The gate is no liar: the log signed the head that it read, and a proof under it was kept.
pub(super) fn judged_under_second_history(stage: &mut Stage) {
    let second = second_history_kept(stage);
    stage.go_on();
    let call = stage.world.call("x", "crm.read", "READ", "customer:x");
    let mut body = call.decision(true);
    body["history"] = json!({"size": second.size(), "root": second.tree.root().0.to_base64(), "witnessed": true});
    let decision = stage.world.say(stage.gate, &body);
    stage.world.conclude(stage.gate, &call, &decision, true);
    stage.go_on();
}

fn second_history_kept(stage: &mut Stage) -> TiledLog {
    stage.grow();
    let size = stage.world.log.entries.len();
    // The last entry of the true history stands one place further on in the other.
    let mut entries = stage.world.log.entries.clone();
    let stranger = Gate::new("gate.example/stranger").open(stage.world.now_ms);
    entries.insert(size - 1, stranger.bytes().to_vec());
    let second = stage.world.log.with_entries(entries);
    stage.keep_from(&second, size as u64);
    second
}

pub(super) fn change_entry(stage: &mut Stage) {
    stage.go_on();
    let mut log = stage.world.log.clone();
    let gate = stage.world.gates[stage.gate].name.as_bytes();
    let is_its = |entry: &Vec<u8>| entry.windows(gate.len()).any(|window| window == gate);
    let place = (0..log.entries.len()).rev().find(|place| is_its(&log.entries[*place])).unwrap_or(0);
    let entry = &mut log.entries[place];
    // The last digit of the time, at the end of the fifth line: what stands there stays a receipt.
    let newlines = entry.iter().enumerate().filter(|(_, byte)| **byte == b'\n').map(|(place, _)| place);
    let digit = newlines.take(5).last().unwrap_or(1) - 1;
    entry[digit] = if entry[digit] == b'9' { b'8' } else { entry[digit] + 1 };
    let mut bundle = stage.world.bundle();
    crate::world::tiled::write_pages(&mut bundle, "log/", &log.entries, merkle::ResourcePath::Entries);
    stage.shown = Some(bundle);
}
