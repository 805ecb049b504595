//! What witnesses do, and what is done in their names.

use super::Stage;
use crate::world::namesake_accused;
use audit::MemoryBundle;
use merkle::LeafIndex;
use serde_json::json;

pub(super) fn two_histories(stage: &mut Stage) {
    stage.grow();
    let size = stage.world.log.entries.len();
    stage.seal();
    stage.world.keep("cosigned-by-all", LeafIndex(size as u64 - 1));
    stage.captured = true;
    let second = stage.second_history(size - 1, 1);
    let now_ms = stage.world.now_ms;
    stage.world.witnesses[stage.witness].look(&second.head(), now_ms);
    if stage.random.once_in(2) {
        stage.go_on();
    }
}

pub(super) fn hide_cosigned(stage: &mut Stage) {
    stage.grow();
    let before = stage.world.witnesses[stage.witness].journal.clone();
    stage.seal();
    stage.world.witnesses[stage.witness].journal = before;
}

pub(super) fn rewrite_journal(stage: &mut Stage) {
    stage.go_on();
    let witness = &stage.world.witnesses[stage.witness];
    let mut served = MemoryBundle::new();
    let mut rewritten = witness.clone();
    let line = json!({"time": stage.world.now_ms, "origin": crate::world::ORIGIN, "outcome": "unreachable"});
    rewritten.journal.entries[0] = line.to_string().into_bytes();
    let journal = rewritten.journal.with_entries(rewritten.journal.entries.clone());
    let prefix = format!("{}/journal/", witness.dir());
    let mut honest = MemoryBundle::new();
    witness.write(&mut honest, stage.world.now_ms);
    // The page that the honest journal has, with another first line.
    journal.write(&mut served, &prefix);
    let paths = audit::BundleSource::list(&honest);
    for path in paths.iter().filter(|path| path.contains("/tile/entries/")) {
        let mut bytes = Vec::new();
        let mut lines = merkle::decode_entries(honest.get(path).unwrap_or_default()).unwrap_or_default();
        lines[0] = &rewritten.journal.entries[0];
        lines.iter().for_each(|line| merkle::encode_entry(&mut bytes, line).expect("a short line"));
        stage.replaced.insert(path.clone(), Some(bytes));
    }
}

pub(super) fn forge_line(stage: &mut Stage) {
    stage.go_on();
    let (Some(offered), Some(other)) = (stage.world.offered.clone(), stage.world.log.heads.first()) else { return };
    // The right name and key id over another head, and so a signature that does not fit this one.
    let lines = stage.world.witnesses[0].lines(other.note().text(), stage.world.now_ms);
    let mut note = String::from_utf8_lossy(stage.world.with_cosignatures(&offered).bytes()).into_owned();
    for line in lines.into_iter().take(1) {
        note.push_str(&line.line());
        note.push('\n');
    }
    let path = format!("{}/checkpoint", stage.world.witnesses[stage.witness].dir());
    stage.replaced.insert(path, Some(note.into_bytes()));
}

pub(super) fn miss_quorum(stage: &mut Stage) {
    stage.grow();
    stage.world.wait(200);
    stage.world.seal();
    let seeing = stage.seeing();
    stage.world.look(seeing.into_iter().take(stage.world.quorum - 1));
}

pub(super) fn unwitnessed(stage: &mut Stage) {
    stage.grow();
    stage.world.seal();
}

pub(super) fn forged_accusation(stage: &mut Stage) {
    stage.go_on();
    let document = namesake_accused(&stage.world.gates[stage.gate].name, stage.world.now_ms);
    stage.world.beside.insert(String::from("evidence/forged.json"), document);
}

pub(super) fn made_up_proof(stage: &mut Stage) {
    stage.go_on();
    let index = LeafIndex(stage.random.below(stage.world.log.size().0));
    let Some((proof, mut entry)) = stage.world.proof(index) else { return };
    let last = entry.len() - 2;
    entry[last] ^= 1;
    stage.world.beside.insert(String::from("proofs/made-up.tlog-proof"), proof);
    stage.world.beside.insert(String::from("proofs/made-up.entry"), entry);
}
