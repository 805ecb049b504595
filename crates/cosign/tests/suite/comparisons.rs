//! Two heads held against each other, as a witness holds its own against another witness's.

use crate::histories::{cosigned, head, log_key, tile_bytes, tiles, tree, witness_key};
use counterfoil_cosign::{
    Comparison, EvidenceError, Unproven, WitnessComparison, compare, compare_cosigned, tiles_needed,
};
use merkle::{MemoryTree, TileSet, TreeSize};
use proptest::prelude::*;

/// Sizes around the places where proofs and tiles change shape.
fn sizes() -> impl Strategy<Value = u64> {
    prop_oneof![0u64..40, prop::sample::select(vec![64u64, 127, 128, 129, 255, 256, 257, 511, 512, 513, 600])]
}

/// What a network, a mirror or the log itself may make of one tile.
#[derive(Debug, Clone)]
enum Came {
    Whole,
    Never,
    Damaged(prop::sample::Index, u8),
    OfAnother,
    Garbage(u8),
}

fn came() -> impl Strategy<Value = Came> {
    prop_oneof![
        3 => Just(Came::Whole),
        1 => Just(Came::Never),
        1 => (any::<prop::sample::Index>(), 0u8..8).prop_map(|(at, bit)| Came::Damaged(at, bit)),
        1 => Just(Came::OfAnother),
        1 => any::<u8>().prop_map(Came::Garbage),
    ]
}

/// The tiles that two heads of these sizes need, of a log with history `own`, as they came.
fn tiles_that_came(own: &MemoryTree, another: &MemoryTree, other_size: TreeSize, came: &[Came]) -> TileSet {
    let mut set = TileSet::new();
    for (tile, came) in tiles_needed(own.size(), other_size).into_iter().zip(came.iter().cycle()) {
        let mut bytes = tile_bytes(own, tile);
        match came {
            Came::Whole => {}
            Came::Never => continue,
            Came::Damaged(at, bit) => {
                let at = at.index(bytes.len());
                bytes[at] ^= 1 << bit;
            }
            Came::OfAnother => bytes = tile_bytes(another, tile),
            Came::Garbage(byte) => bytes.fill(*byte),
        }
        set.insert(tile, &bytes).unwrap();
    }
    set
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn a_log_with_one_history_is_never_accused_whatever_tiles_come(
        one in sizes(), other in sizes(), branch in 0u64..600, how in prop::collection::vec(came(), 1..6),
    ) {
        let (larger, smaller) = (one.max(other), one.min(other));
        let (large, small) = (tree(larger, 0, 0), tree(smaller, 0, 0));
        let branch = branch.min(larger);
        let another = tree(branch, larger - branch, 1);
        let came = tiles_that_came(&large, &another, small.size(), &how);
        let compared = compare(&head(&large), &head(&small), &came);
        prop_assert!(!matches!(compared, Comparison::Fork(_)), "{:?}", compared);
        let witness = witness_key();
        let [large, small] = [&large, &small].map(|tree| cosigned(tree, &[&witness]));
        let compared = compare_cosigned(&witness.verifier(), &large, &small, &came);
        prop_assert!(!matches!(compared, WitnessComparison::Fork(_)), "{:?}", compared);
    }

    #[test]
    fn a_log_with_two_histories_is_always_accused_once_the_tiles_of_the_larger_are_there(
        common in 0u64..300, one in 1u64..300, other in 1u64..300,
    ) {
        let (one, other) = (tree(common, one, 1), tree(common, other, 2));
        let larger = if one.size() > other.size() { &one } else { &other };
        let tiles = tiles(larger, &tiles_needed(one.size(), other.size()));
        let compared = compare(&head(&one), &head(&other), &tiles);
        let Comparison::Fork(fork) = &compared else { panic!("{compared:?}") };
        prop_assert_eq!(fork.check().unwrap().key, log_key().verifier());
        prop_assert_eq!(&compare(&head(&other), &head(&one), &tiles), &compared, "in whichever order they come");

        let witness = witness_key();
        let compared = compare_cosigned(&witness.verifier(), &cosigned(&one, &[&witness]), &cosigned(&other, &[&witness]), &tiles);
        let WitnessComparison::Fork(fork) = &compared else { panic!("{compared:?}") };
        prop_assert_eq!(fork.check().unwrap().key, witness.verifier());
    }

    #[test]
    fn two_histories_are_never_called_one_whatever_tiles_come(
        common in 0u64..300, one in 1u64..300, other in 1u64..300, how in prop::collection::vec(came(), 1..6),
    ) {
        let (one, other) = (tree(common, one, 1), tree(common, other, 2));
        let (larger, smaller) = if one.size() > other.size() { (&one, &other) } else { (&other, &one) };
        let another = tree(common, larger.size().0 - common, 3);
        let came = tiles_that_came(larger, &another, smaller.size(), &how);
        let compared = compare(&head(&one), &head(&other), &came);
        prop_assert!(!matches!(compared, Comparison::Consistent), "{:?}", compared);
    }
}

#[test]
fn tiles_of_the_smaller_head_accuse_nobody() {
    // The log serves each witness the history that it shows it: the one with the smaller head can prove nothing.
    let (small, large) = (tree(5, 15, 1), tree(5, 95, 2));
    let of_small_history = tiles(&tree(5, 95, 1), &tiles_needed(small.size(), large.size()));
    let compared = compare(&head(&small), &head(&large), &of_small_history);
    assert_eq!(compared, Comparison::Unproven(Unproven::OtherRoot(TreeSize(100))));
}

#[test]
fn a_witness_that_did_not_cosign_both_is_not_accused_of_it() {
    let witness = witness_key();
    let (one, other) = (cosigned(&tree(3, 2, 1), &[&witness]), head(&tree(3, 2, 2)));
    let compared = compare_cosigned(&witness.verifier(), &one, &other, &TileSet::new());
    let WitnessComparison::Unproven(Unproven::NotShown(why)) = compared else { panic!("{compared:?}") };
    assert!(matches!(*why, EvidenceError::NotCosigned { .. }), "{why:?}");
}
