//! Damaged bundles: whatever is flipped, cut, swapped or dropped, the verdict is never `ok` and nothing panics.
//!
//! Two things are no damage, because they change nothing that anybody signed: a signature line of a key that the
//! policy does not list (signed-note asks to ignore it; the verdict takes note of it), and two copies of one head
//! changing places.

use crate::samples;
use crate::world;
use audit::{BundleSource, MemoryBundle, Verdict};
use note::{SignedCheckpoint, VerifierKey};
use proptest::prelude::*;
use std::sync::LazyLock;
use world::{World, decision, told};

struct Honest {
    world: World,
    bundle: MemoryBundle,
    paths: Vec<String>,
}

/// A log of 266 entries and three heads, with native decisions and foreign records; witnesses; a kept proof.
static HONEST: LazyLock<Honest> = LazyLock::new(|| {
    let mut world = World::new();
    world.log_heartbeats(100);
    world.seal();
    world.import("sequence-attack-repro", &samples::run('E'));
    world.log_body(0, &decision("1", true, "READ", "s1", "r1", "u1").to_string());
    world.seal();
    world.log_heartbeats(160);
    world.seal();
    let mut bundle = world.bundle();
    let (proof, entry) = world.proof(42);
    bundle.insert("proofs/kept.tlog-proof", proof);
    bundle.insert("proofs/kept.entry", entry);
    let verdict = world.audit(&bundle);
    assert_eq!(verdict.exit_code, 0, "{}", told(&verdict));
    let paths = bundle.list();
    Honest { world, bundle, paths }
});

fn verdict(bundle: &MemoryBundle) -> Verdict {
    HONEST.world.audit(bundle)
}

/// Whether a checkpoint carries a signature line of a key that the auditor does not know.
fn has_strangers(bytes: &[u8]) -> bool {
    let policy = HONEST.world.policy();
    let known: Vec<VerifierKey> = policy
        .logs()
        .iter()
        .map(|log| log.vkey.clone())
        .chain(policy.witnesses().iter().map(|witness| witness.vkey.clone()))
        .collect();
    SignedCheckpoint::parse(bytes)
        .is_ok_and(|head| head.note().signatures().iter().any(|line| !known.iter().any(|key| line.claims(key))))
}

/// The place of a proof's checkpoint: signature lines stand in there.
fn checkpoint_in(path: &str, bytes: &[u8]) -> Vec<u8> {
    let start = if path.ends_with(".tlog-proof") {
        bytes.windows(2).position(|two| two == b"\n\n").map_or(0, |at| at + 2)
    } else {
        0
    };
    bytes[start..].to_vec()
}

/// The text in front of the signatures is untouched, and so is every line of a key that the auditor knows, but for
/// those that became a stranger's.
fn changes_only_a_strangers_line(path: &str, after: &[u8]) -> bool {
    let before = HONEST.bundle.get(path).unwrap();
    let (before, after) = (checkpoint_in(path, before), checkpoint_in(path, after));
    let (Ok(before), Ok(after_head)) = (SignedCheckpoint::parse(&before), SignedCheckpoint::parse(&after)) else {
        return false;
    };
    before.note().text() == after_head.note().text() && has_strangers(&after)
}

#[test]
fn a_dropped_file_is_never_ok() {
    for path in &HONEST.paths {
        // A proof is gone with its entry without a trace: nothing says how many there were.
        if path.ends_with(".tlog-proof") {
            continue;
        }
        let mut bundle = HONEST.bundle.clone();
        bundle.remove(path);
        let verdict = verdict(&bundle);
        assert_ne!(verdict.exit_code, 0, "without {path}: {}", told(&verdict));
    }
}

#[test]
fn a_file_cut_short_or_emptied_is_never_ok() {
    for path in &HONEST.paths {
        let bytes = HONEST.bundle.get(path).unwrap();
        for length in [0, 1, bytes.len() / 2, bytes.len() - 1] {
            let mut bundle = HONEST.bundle.clone();
            bundle.insert(path.clone(), &bytes[..length]);
            let verdict = verdict(&bundle);
            assert_ne!(verdict.exit_code, 0, "{path} cut to {length} bytes: {}", told(&verdict));
        }
    }
}

#[test]
fn two_files_in_each_others_place_are_never_ok() {
    for (place, one) in HONEST.paths.iter().enumerate() {
        for other in &HONEST.paths[place + 1..] {
            let mut bundle = HONEST.bundle.clone();
            let (first, second) = (bundle.remove(one).unwrap(), bundle.remove(other).unwrap());
            let text = |bytes: &[u8]| SignedCheckpoint::parse(bytes).map(|head| head.note().text().to_owned()).ok();
            let same_head = text(&first).is_some() && text(&first) == text(&second);
            bundle.insert(one.clone(), second);
            bundle.insert(other.clone(), first);
            let verdict = verdict(&bundle);
            let harmless = same_head && (one == "log/checkpoint" || other == "log/checkpoint");
            assert!(verdict.exit_code != 0 || harmless, "{one} and {other} swapped: {}", told(&verdict));
        }
    }
}

#[test]
fn bytes_put_behind_a_file_are_never_ok() {
    for path in &HONEST.paths {
        for more in [&b"\0"[..], b"\n", b"x\n"] {
            let mut bundle = HONEST.bundle.clone();
            let mut bytes = HONEST.bundle.get(path).unwrap().to_vec();
            bytes.extend_from_slice(more);
            bundle.insert(path.clone(), bytes);
            let verdict = verdict(&bundle);
            assert_ne!(verdict.exit_code, 0, "{path} and {more:?}: {}", told(&verdict));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn a_flipped_bit_is_never_ok(file in any::<prop::sample::Index>(), place in any::<prop::sample::Index>(), bit in 0u8..8) {
        let path = file.get(&HONEST.paths);
        let mut bytes = HONEST.bundle.get(path).unwrap().to_vec();
        let place = place.index(bytes.len());
        bytes[place] ^= 1 << bit;
        let mut bundle = HONEST.bundle.clone();
        bundle.insert(path.clone(), bytes.clone());
        let verdict = verdict(&bundle);
        prop_assert!(verdict.exit_code != 0 || changes_only_a_strangers_line(path, &bytes), "{path}, bit {bit} of byte {place}: {}", told(&verdict));
    }

    #[test]
    fn garbage_in_place_of_a_file_is_never_ok(file in any::<prop::sample::Index>(), garbage in prop::collection::vec(any::<u8>(), 0..600)) {
        let path = file.get(&HONEST.paths);
        let mut bundle = HONEST.bundle.clone();
        bundle.insert(path.clone(), garbage);
        prop_assert_ne!(verdict(&bundle).exit_code, 0, "{}", path);
    }
}
