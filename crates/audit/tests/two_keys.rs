//! A witness with an ML-DSA-44 key beside its Ed25519 key: policies that ask for either and for both.

use crate::world;
use audit::{MemoryBundle, Rules, Status, Verdict, witness_dir};
use note::{
    Checkpoint, CosignatureLine, KeyKind, Policy, SignedCheckpoint, SigningKey, cosign, parse_cosignature_line,
};
use world::{World, failures, key, told};

/// Only the first witness counts here.
const NAME: &str = "witness-1.example";

fn mldsa() -> SigningKey {
    key(NAME, KeyKind::MlDsa44, 99)
}

fn log_checkpoint() -> String {
    "log/checkpoint".to_owned()
}

fn own_checkpoint() -> String {
    format!("{}/checkpoint", witness_dir(mldsa().name()))
}

fn journal_checkpoint() -> String {
    format!("{}/journal/checkpoint", witness_dir(mldsa().name()))
}

fn everywhere() -> Vec<String> {
    vec![log_checkpoint(), own_checkpoint(), journal_checkpoint()]
}

fn world() -> World {
    let mut world = World::new();
    world.log_heartbeats(5);
    world.seal_for(&[0]);
    world.log_body(0, r#"{"type":"close"}"#);
    world.seal_for(&[0]);
    world.witnesses.truncate(1);
    world
}

/// The world's bundle, with the witness's ML-DSA-44 lines on the checkpoints at `paths`.
fn bundle(world: &World, paths: &[String]) -> MemoryBundle {
    let mut bundle = world.bundle();
    for path in paths {
        let note = String::from_utf8(bundle.get(path).unwrap().to_vec()).unwrap();
        let head = SignedCheckpoint::parse(note.as_bytes()).unwrap();
        let line = cosign(head.note().text(), &mldsa(), world.now_ms / 1000).unwrap().line;
        bundle.insert(path, format!("{note}{line}\n"));
    }
    bundle
}

/// The lines of the witness's Ed25519 key taken off.
fn without_ed25519(world: &World, mut bundle: MemoryBundle) -> MemoryBundle {
    let old = world.witnesses[0].key();
    for path in everywhere() {
        let head = SignedCheckpoint::parse(bundle.get(&path).unwrap()).unwrap();
        let kept = head.note().signatures().iter().filter(|line| line.key_id != old.id());
        let lines: String = kept.map(|line| line.line() + "\n").collect();
        let note = format!("{}\n{lines}", head.note().text());
        bundle.insert(path, note);
    }
    bundle
}

fn policy(world: &World, threshold: &str) -> Policy {
    let text = format!(
        "log {}\nwitness old {}\nwitness new {}\ngroup w {threshold} old new\nquorum w\n",
        world.log.key.log_key().verifier(),
        world.witnesses[0].key().verifier(),
        mldsa().verifier()
    );
    Policy::parse(text.as_bytes()).unwrap()
}

fn verdict(world: &World, bundle: &MemoryBundle, threshold: &str) -> Verdict {
    world.audit_with(bundle, &policy(world, threshold), &world.issuers(), &Rules::built_in(), None, None)
}

#[test]
fn with_both_lines_a_policy_of_either_and_one_of_both_are_satisfied() {
    let world = world();
    let bundle = bundle(&world, &everywhere());
    for threshold in ["any", "all"] {
        let verdict = verdict(&world, &bundle, threshold);
        assert_eq!(verdict.overall, Status::Ok, "{threshold}: {}", told(&verdict));
        assert!(
            told(&verdict).contains("\"witness-1.example\", \"witness-1.example\" (ML-DSA-44)"),
            "{}",
            told(&verdict)
        );
    }
}

#[test]
fn with_one_line_of_either_kind_a_policy_of_either_is_satisfied_and_one_of_both_is_not() {
    let world = world();
    let both = bundle(&world, &everywhere());
    for bundle in [world.bundle(), without_ed25519(&world, both)] {
        let either = verdict(&world, &bundle, "any");
        assert_eq!(either.overall, Status::Ok, "{}", told(&either));
        let both = verdict(&world, &bundle, "all");
        assert_eq!(failures(&both), [("quorum/newest-head".to_owned(), "quorum-missing")], "{}", told(&both));
    }
}

#[test]
fn a_witness_vouches_for_its_journal_with_every_key_that_it_uses() {
    let world = world();
    for shown in [vec![log_checkpoint(), own_checkpoint()], vec![log_checkpoint()], vec![own_checkpoint()]] {
        let verdict = verdict(&world, &bundle(&world, &shown), "any");
        assert_eq!(verdict.overall, Status::NotChecked, "{}", told(&verdict));
        assert!(told(&verdict).contains("(ML-DSA-44) did not cosign it"), "{}", told(&verdict));
    }
}

#[test]
fn a_witness_whose_keys_vouch_for_a_history_each_is_accused() {
    let world = world();
    let mut bundle = world.bundle();
    let held = SignedCheckpoint::parse(bundle.get("log/checkpoint").unwrap()).unwrap();
    let other = Checkpoint { root: merkle::RootHash(merkle::Hash([7; 32])), ..held.claimed().clone() };
    let other = note::sign_checkpoint(&other, &world.log.key.log_key()).unwrap();
    let line = cosign(other.note().text(), &mldsa(), world.now_ms / 1000).unwrap().to_line().unwrap();
    bundle.insert(own_checkpoint(), other.with_cosignatures(&[line]).bytes());
    let verdict = verdict(&world, &bundle, "any");
    assert_eq!(verdict.check("quorum/witnesses").unwrap().count("witness-fork"), 1, "{}", told(&verdict));
    assert!(
        told(&verdict).contains("a head of size 7 and, as \"witness-1.example\", one of size 7"),
        "{}",
        told(&verdict)
    );
    assert!(verdict.evidence.iter().all(|document| document["kind"] == "log-fork"), "no document convicts two keys");
}

#[test]
fn the_two_keys_of_a_witness_are_counted_as_one_witness() {
    let world = world();
    for (threshold, min_keys) in [("any", 1), ("all", 2)] {
        let tolerance = verdict(&world, &bundle(&world, &everywhere()), threshold).tolerance;
        assert_eq!((tolerance.witnesses, tolerance.keys), (1, 2));
        assert_eq!((tolerance.min_quorum, tolerance.min_keys), (1, min_keys));
        assert_eq!((tolerance.liars_for_split_view, tolerance.max_silent), (1, 0));
    }
}

#[test]
fn a_forged_ml_dsa_line_is_reported_and_does_not_count() {
    let world = world();
    let mut forged = bundle(&world, &everywhere());
    let note = String::from_utf8(world.bundle().get("log/checkpoint").unwrap().to_vec()).unwrap();
    let line = cosign(SignedCheckpoint::parse(note.as_bytes()).unwrap().note().text(), &mldsa(), 7).unwrap().line;
    let mut line = parse_cosignature_line(&line).unwrap().signature().clone();
    line.blob[1000] ^= 1;
    forged.insert(log_checkpoint(), format!("{note}{}\n", line.line()));
    forged.insert(own_checkpoint(), note);
    let verdict = verdict(&world, &forged, "all");
    let found = failures(&verdict);
    assert!(found.iter().any(|(_, code)| *code == "bad-cosignature"), "{}", told(&verdict));
    assert!(found.iter().any(|(_, code)| *code == "quorum-missing"), "{}", told(&verdict));
}

/// The ML-DSA-44 line holds for every text with the same three lines. It is the log's signature that a head stands on,
/// and the head is the same tree: no verdict changes.
#[test]
fn other_extension_lines_under_a_genuine_ml_dsa_line_change_nothing_about_the_tree() {
    let world = world();
    let mut moved = bundle(&world, &everywhere());
    let head = SignedCheckpoint::parse(moved.get("log/checkpoint").unwrap()).unwrap();
    let line = head.note().signatures().iter().find(|line| line.key_id == mldsa().id()).unwrap();
    let line = CosignatureLine::try_from(line).unwrap();
    let other = Checkpoint { extensions: vec!["all is well, says the witness".into()], ..head.claimed().clone() };
    let other = note::sign_checkpoint(&other, &world.log.key.log_key()).unwrap().with_cosignatures(&[line]);
    moved.insert(log_checkpoint(), other.bytes());
    let either = verdict(&world, &moved, "any");
    assert!(failures(&either).is_empty(), "{}", told(&either));
    assert!(!told(&either).contains("all is well"), "{}", told(&either));
    // Without the log's signature over them there is no head.
    let unsigned = head.note().to_string().replacen("\n\n", "\nall is well, says the witness\n\n", 1);
    moved.insert(log_checkpoint(), unsigned);
    assert_ne!(verdict(&world, &moved, "any").overall, Status::Ok);
}
