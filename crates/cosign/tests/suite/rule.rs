//! Every row of the table in the protocol's section 6.

use crate::histories::{ask, evidence, head, head_of, head_signed_by, key, log_key, tiles, tree};
use counterfoil_cosign::{Decision, EvidenceError, Unproven, decide, tiles_needed};
use merkle::{EMPTY_ROOT, RootHash, TileSet, TreeSize, leaf_hash};
use note::{Checkpoint, KeyKind, Origin};

#[test]
fn a_first_head_is_cosigned() {
    let decision = decide(&log_key().verifier(), None, head(&tree(5, 0, 0)).bytes(), &TileSet::new());
    assert!(matches!(decision, Decision::Cosign(_)));
}

#[test]
fn a_head_that_is_not_the_logs_is_refused() {
    let stranger = key("log.example/one", KeyKind::Ed25519, 8);
    let head = head(&tree(5, 0, 0));
    let decision = decide(&stranger.verifier(), None, head.bytes(), &TileSet::new());
    assert!(matches!(decision, Decision::BadLogSignature(_)));
    let other_origin = key("log.example/two", KeyKind::Ed25519, 7);
    let decision = decide(&other_origin.verifier(), None, head.bytes(), &TileSet::new());
    assert!(matches!(decision, Decision::BadLogSignature(_)));
    for cut in 0..head.bytes().len() {
        let decision = decide(&log_key().verifier(), None, &head.bytes()[..cut], &TileSet::new());
        assert!(matches!(decision, Decision::BadLogSignature(_)), "{cut}");
    }
}

#[test]
fn an_empty_head_must_have_the_empty_root() {
    let log = log_key().verifier();
    let empty = head_of(TreeSize(0), EMPTY_ROOT);
    assert!(matches!(decide(&log, None, empty.bytes(), &TileSet::new()), Decision::Cosign(_)));
    let lie = head_of(TreeSize(0), RootHash(leaf_hash(b"")));
    assert!(matches!(decide(&log, None, lie.bytes(), &TileSet::new()), Decision::BadEmptyRoot(_)));
    assert!(matches!(decide(&log, Some(&empty), lie.bytes(), &TileSet::new()), Decision::BadEmptyRoot(_)));
}

#[test]
fn the_same_head_is_cosigned_again() {
    assert!(matches!(ask(&tree(5, 0, 0), &tree(5, 0, 0)), Decision::CosignAgain(_)));
}

#[test]
fn a_second_root_at_one_size_is_a_fork_by_itself() {
    let fork = evidence(ask(&tree(3, 2, 1), &tree(3, 2, 2)));
    assert!(fork.check().unwrap().sentence.contains("log.example/one"));
}

#[test]
fn growth_out_of_the_empty_tree_needs_no_tiles() {
    let decision =
        decide(&log_key().verifier(), Some(&head(&tree(0, 0, 0))), head(&tree(9, 0, 0)).bytes(), &TileSet::new());
    assert!(matches!(decision, Decision::Cosign(_)));
    assert_eq!(tiles_needed(TreeSize(0), TreeSize(9)), []);
}

#[test]
fn a_smaller_head_of_the_same_history_is_stale() {
    assert!(matches!(ask(&tree(9, 0, 0), &tree(5, 0, 0)), Decision::Stale(_)));
    assert!(matches!(ask(&tree(9, 0, 0), &tree(0, 0, 0)), Decision::Stale(_)));
}

#[test]
fn a_smaller_head_of_another_history_is_a_fork() {
    evidence(ask(&tree(9, 0, 0), &tree(4, 1, 1))).check().unwrap();
}

#[test]
fn missing_tiles_prove_nothing() {
    for (held, offered) in [(5, 9), (9, 5), (256, 300), (4, 8)] {
        let (held, offered) = (head(&tree(held, 0, 0)), head(&tree(offered, 0, 0)));
        let decision = decide(&log_key().verifier(), Some(&held), offered.bytes(), &TileSet::new());
        assert!(matches!(decision, Decision::Unproven(_, Unproven::Missing(_))));
    }
}

#[test]
fn tiles_of_another_tree_accuse_nobody() {
    // Somebody between log and witness swaps tiles: both heads are honest, the tiles hash to neither.
    for (held, offered) in [(5u64, 9u64), (4, 8), (9, 5), (200, 300)] {
        let (small, large) = (held.min(offered), held.max(offered));
        let forged = tiles(&tree(small - 1, large - small + 1, 1), &tiles_needed(TreeSize(held), TreeSize(offered)));
        let decision =
            decide(&log_key().verifier(), Some(&head(&tree(held, 0, 0))), head(&tree(offered, 0, 0)).bytes(), &forged);
        assert!(matches!(decision, Decision::Unproven(_, Unproven::OtherRoot(_))), "{held} {offered}: {decision:?}");
    }
}

#[test]
fn smaller_heads_with_no_tiles_to_compare_them_by_are_not_even_called_stale() {
    let decision =
        decide(&log_key().verifier(), Some(&head(&tree(9, 0, 0))), head(&tree(5, 0, 0)).bytes(), &TileSet::new());
    assert!(matches!(decision, Decision::Unproven(_, Unproven::Missing(_))), "{decision:?}");
}

#[test]
fn extension_lines_do_not_hide_a_second_root() {
    let head = |root: &[u8], extension: &str| {
        let mut head = Checkpoint::new(Origin::new("log.example/one").unwrap(), TreeSize(5), RootHash(leaf_hash(root)));
        head.extensions.push(extension.to_owned());
        note::sign_checkpoint(&head, &log_key()).unwrap()
    };
    let log = log_key().verifier();
    let held = head(b"a", "one");
    let decision = decide(&log, Some(&held), head(b"a", "two").bytes(), &TileSet::new());
    assert!(matches!(decision, Decision::CosignAgain(_)), "{decision:?}");
    evidence(decide(&log, Some(&held), head(b"b", "one").bytes(), &TileSet::new())).check().unwrap();
}

// A witness whose operator had replaced the log's key held a head signed under the old one. Its next contradiction
// came out as a fork whose evidence nobody could check, because no one key had signed both heads.
#[test]
fn heads_under_two_keys_that_contradict_each_other_accuse_neither_key() {
    let old_key = key("log.example/one", KeyKind::Ed25519, 8);
    let log = log_key().verifier();
    for (held, offered) in [((3, 2, 1), (3, 2, 2)), ((3, 1, 1), (3, 5, 2)), ((3, 5, 2), (3, 1, 1))] {
        let [held, offered] = [held, offered].map(|(common, own, fork)| tree(common, own, fork));
        let larger = if held.size() > offered.size() { &held } else { &offered };
        let tiles = tiles(larger, &tiles_needed(held.size(), offered.size()));
        let held = head_signed_by(&old_key, held.size(), held.root());
        let decision = decide(&log, Some(&held), head(&offered).bytes(), &tiles);
        let Decision::Unproven(_, Unproven::NotShown(reason)) = decision else { panic!("{decision:?}") };
        assert!(matches!(*reason, EvidenceError::NotSigned { .. }), "{reason:?}");
    }
}

#[test]
fn a_log_that_only_changed_its_key_goes_on_being_cosigned() {
    let old_key = key("log.example/one", KeyKind::Ed25519, 8);
    let (held, offered) = (tree(5, 0, 0), tree(9, 0, 0));
    let tiles = tiles(&offered, &tiles_needed(held.size(), offered.size()));
    let held = head_signed_by(&old_key, held.size(), held.root());
    let decision = decide(&log_key().verifier(), Some(&held), head(&offered).bytes(), &tiles);
    assert!(matches!(decision, Decision::Cosign(_)), "{decision:?}");
}

#[test]
fn an_impossible_head_held_is_never_grown_from_and_accuses_nobody() {
    // No decision lets such a head be held; a shell that made one up must still not get evidence out of it.
    let impossible = head_of(TreeSize(0), RootHash(leaf_hash(b"")));
    let decision = decide(&log_key().verifier(), Some(&impossible), head(&tree(9, 0, 0)).bytes(), &TileSet::new());
    assert!(matches!(decision, Decision::Unproven(_, Unproven::NotShown(_))), "{decision:?}");
}

#[test]
fn the_largest_sizes_there_are_end_in_a_decision() {
    let log = log_key().verifier();
    let root = RootHash(leaf_hash(b"x"));
    for (held, offered) in
        [(1, u64::MAX), (u64::MAX - 1, u64::MAX), (1 << 63, u64::MAX), (u64::MAX, 1), (u64::MAX, 1 << 63)]
    {
        assert!(tiles_needed(TreeSize(held), TreeSize(offered)).len() < 32);
        let (held, offered) = (head_of(TreeSize(held), root), head_of(TreeSize(offered), root));
        let decision = decide(&log, Some(&held), offered.bytes(), &TileSet::new());
        assert!(matches!(decision, Decision::Unproven(_, Unproven::Missing(_))), "{decision:?}");
    }
}
