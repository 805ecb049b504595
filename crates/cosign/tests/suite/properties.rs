//! The properties behind the table: over random and over all small histories.

use crate::histories::{ask, evidence, head, log_key, tile_bytes, tiles, tree, tree_with_one_leaf_altered};
use counterfoil_cosign::{Decision, LogFork, decide, tiles_needed};
use merkle::TileSet;
use proptest::prelude::*;
use std::cmp::Ordering;

/// Exhaustive where it is affordable: all pairs of sizes, so every power of two and its neighbours among them.
#[test]
fn of_all_small_histories_the_honest_are_never_accused_and_the_forked_always_are() {
    for one in 1..=33u64 {
        for other in 1..=33u64 {
            let decision = ask(&tree(one, 0, 0), &tree(other, 0, 0));
            match one.cmp(&other) {
                Ordering::Less => assert!(matches!(decision, Decision::Cosign(_)), "{one} {other}"),
                Ordering::Equal => assert!(matches!(decision, Decision::CosignAgain(_)), "{one} {other}"),
                Ordering::Greater => assert!(matches!(decision, Decision::Stale(_)), "{one} {other}"),
            }
            // The leaf in which the histories differ, and no other: first, in the middle, and last of the smaller.
            let last = one.min(other) - 1;
            for altered in [0, last / 2, last] {
                let fork = evidence(ask(&tree(one, 0, 0), &tree_with_one_leaf_altered(other, altered)));
                assert_eq!(fork.check().unwrap().key, log_key().verifier(), "{one} {other} {altered}");
            }
        }
    }
}

#[test]
fn a_leaf_altered_behind_the_smaller_head_is_growth_and_not_a_fork() {
    for small in [1u64, 2, 3, 4, 7, 8, 9] {
        let large = tree_with_one_leaf_altered(small + 5, small);
        assert!(matches!(ask(&tree(small, 0, 0), &large), Decision::Cosign(_)), "{small}");
        assert!(matches!(ask(&large, &tree(small, 0, 0)), Decision::Stale(_)), "{small}");
    }
}

/// Sizes around the places where proofs and tiles change shape.
fn sizes() -> impl Strategy<Value = u64> {
    prop_oneof![1u64..40, prop::sample::select(vec![64u64, 127, 128, 129, 255, 256, 257, 511, 512, 513, 600])]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(192))]

    #[test]
    fn an_honest_log_is_cosigned_or_stale_and_never_accused(one in sizes(), other in sizes()) {
        let decision = ask(&tree(one, 0, 0), &tree(other, 0, 0));
        match one.cmp(&other) {
            Ordering::Less => prop_assert!(matches!(decision, Decision::Cosign(_))),
            Ordering::Equal => prop_assert!(matches!(decision, Decision::CosignAgain(_))),
            Ordering::Greater => prop_assert!(matches!(decision, Decision::Stale(_))),
        }
    }

    #[test]
    fn a_forked_log_is_always_accused_and_no_changed_evidence_checks(
        common in 0u64..300, one in sizes(), other in sizes(), flip in any::<prop::sample::Index>(),
    ) {
        let fork = evidence(ask(&tree(common, one, 1), &tree(common, other, 2)));
        prop_assert_eq!(fork.check().unwrap().key, log_key().verifier());
        let text = serde_json::to_vec(&fork).unwrap();
        let mut changed = text.clone();
        let place = flip.index(text.len());
        changed[place] ^= 1;
        if let Ok(changed) = serde_json::from_slice::<LogFork>(&changed) {
            prop_assert!(changed.check().is_err(), "byte {} of {}", place, String::from_utf8_lossy(&text));
        }
    }

    #[test]
    fn whatever_the_tiles_say_a_prefix_is_never_called_a_fork(
        small in 1u64..300, more in 1u64..300, place in any::<prop::sample::Index>(), bit in 0u8..8, grows in any::<bool>(),
    ) {
        let (small, large) = (tree(small, 0, 0), tree(small + more, 0, 0));
        let wanted = tiles_needed(small.size(), large.size());
        let damaged = wanted[place.index(wanted.len())];
        let mut set = TileSet::new();
        for tile in &wanted {
            let mut bytes = tile_bytes(&large, *tile);
            if *tile == damaged {
                let at = place.index(bytes.len());
                bytes[at] ^= 1 << bit;
            }
            set.insert(*tile, &bytes).unwrap();
        }
        let (held, offered) = if grows { (&small, &large) } else { (&large, &small) };
        let decision = decide(&log_key().verifier(), Some(&head(held)), head(offered).bytes(), &set);
        // The damage may lie in hashes that this comparison does not need.
        let honest = match decision {
            Decision::Unproven(..) => true,
            Decision::Cosign(_) => grows,
            Decision::Stale(_) => !grows,
            _ => false,
        };
        prop_assert!(honest, "{:?}", decision);
    }

    #[test]
    fn tiles_of_a_forked_history_never_get_its_head_cosigned(
        common in 0u64..300, one in sizes(), other in sizes(), served in 0u8..3,
    ) {
        // The log signed two histories and may serve the tiles of either, or of a third.
        let (held, offered) = (tree(common, one, 1), tree(common, other, 2));
        let size = held.size().max(offered.size());
        let of_third = tree(common, size.0 - common, served);
        let wanted = tiles_needed(held.size(), offered.size());
        let decision = decide(&log_key().verifier(), Some(&head(&held)), head(&offered).bytes(), &tiles(&of_third, &wanted));
        prop_assert!(matches!(decision, Decision::Fork(..) | Decision::Unproven(..)), "{:?}", decision);
        if let Decision::Fork(_, fork) = decision {
            prop_assert!(fork.check().is_ok());
        }
    }
}
