//! Proofs made and checked: all of them in small trees, broken in every way, and at sizes no tree will have.

use crate::reference::{Watched, counting_tree, naive_consistency, naive_inclusion, way_down};
use counterfoil_merkle as merkle;
use merkle::{
    ConsistencyProof, EMPTY_ROOT, Hash, InclusionProof, LeafIndex, MAX_PROOF_HASHES, MemoryTree, ProofError,
    ProveError, RootHash, TreeSize, prove_consistency, prove_inclusion, root_of,
};
use proptest::prelude::*;

const LARGEST: u64 = 130;

fn roots(tree: &MemoryTree) -> Vec<RootHash> {
    (0..=tree.size().0).map(|size| root_of(tree, TreeSize(size)).unwrap()).collect()
}

/// Every proof that one slip makes out of `hashes`: another bit, a hash less or more or in another place.
fn broken(hashes: &[Hash]) -> Vec<Vec<Hash>> {
    let mut made = Vec::new();
    for place in 0..hashes.len() {
        for bit in [place, 255 - place] {
            let mut copy = hashes.to_vec();
            copy[place] = flipped(copy[place], bit);
            made.push(copy);
        }
        let mut copy = hashes.to_vec();
        copy.remove(place);
        made.push(copy);
        let mut copy = hashes.to_vec();
        copy.insert(place, hashes[place]);
        made.push(copy);
        if place + 1 < hashes.len() {
            let mut copy = hashes.to_vec();
            copy.swap(place, place + 1);
            made.push(copy);
        }
    }
    for extra in [Hash([0; 32]), EMPTY_ROOT.0] {
        made.push([hashes, &[extra]].concat());
        made.push([&[extra], hashes].concat());
    }
    if !hashes.is_empty() {
        made.push(Vec::new());
        made.push([hashes, hashes].concat());
    }
    made
}

fn flipped(mut hash: Hash, bit: usize) -> Hash {
    hash.0[bit / 8] ^= 1 << (bit % 8);
    hash
}

fn flipped_root(root: RootHash, bit: usize) -> RootHash {
    RootHash(flipped(root.0, bit))
}

#[test]
fn every_inclusion_proof_is_the_one_of_the_definition_and_no_slip_passes() {
    let tree = counting_tree(LARGEST);
    let roots = roots(&tree);
    for size in 1..=LARGEST {
        let root = &roots[size as usize];
        for index in 0..size {
            let proof = prove_inclusion(&tree, LeafIndex(index), TreeSize(size)).unwrap();
            assert_eq!(proof.hashes(), naive_inclusion(index as usize, &tree.leaves()[..size as usize]));
            let leaf = tree.leaves()[index as usize];
            let holds = |proof: &InclusionProof, leaf: &Hash, index, size, root: &RootHash| {
                proof.verify(leaf, LeafIndex(index), TreeSize(size), root).is_ok()
            };
            assert!(holds(&proof, &leaf, index, size, root), "leaf {index} of {size}");
            for hashes in broken(proof.hashes()) {
                assert!(!holds(&InclusionProof::new(hashes), &leaf, index, size, root), "leaf {index} of {size}");
            }
            assert!(!holds(&proof, &flipped(leaf, 7), index, size, root));
            assert!(!holds(&proof, &leaf, index, size, &flipped_root(*root, 7)));
            for other in [index.wrapping_sub(1), index + 1, index ^ 64, u64::MAX - index] {
                assert!(!holds(&proof, &leaf, other, size, root), "leaf {index} of {size} as leaf {other}");
            }
            // A root does not say its size. Where the way up is the same, the same hash comes out: that is why a
            // size counts only from the signed head that also has the root.
            for other in [size - 1, size + 1] {
                let same_way = index < other && way_down(index, other, true) == way_down(index, size, true);
                assert_eq!(holds(&proof, &leaf, index, other, root), same_way, "leaf {index} of {size} as of {other}");
            }
        }
    }
}

#[test]
fn every_consistency_proof_is_the_one_of_the_definition_and_no_slip_passes() {
    let tree = counting_tree(LARGEST);
    let roots = roots(&tree);
    for new in 1..=LARGEST {
        for old in 1..=new {
            let (old_root, new_root) = (roots[old as usize], roots[new as usize]);
            let proof = prove_consistency(&tree, TreeSize(old), TreeSize(new)).unwrap();
            assert_eq!(proof.hashes(), naive_consistency(old as usize, &tree.leaves()[..new as usize], true));
            let holds = |proof: &ConsistencyProof, old, old_root: &RootHash, new, new_root: &RootHash| {
                proof.verify(TreeSize(old), old_root, TreeSize(new), new_root).is_ok()
            };
            assert!(holds(&proof, old, &old_root, new, &new_root), "{old} to {new}");
            for hashes in broken(proof.hashes()) {
                let proof = ConsistencyProof::new(hashes);
                assert!(!holds(&proof, old, &old_root, new, &new_root), "{old} to {new}: {proof:?}");
            }
            assert!(!holds(&proof, old, &flipped_root(old_root, 0), new, &new_root));
            assert!(!holds(&proof, old, &old_root, new, &flipped_root(new_root, 255)));
            if old < new {
                assert!(!holds(&proof, old, &new_root, new, &old_root), "{old} to {new} with the roots swapped");
                assert!(!holds(&proof, new, &old_root, old, &new_root), "{old} to {new} with the sizes swapped");
                for other in [old - 1, old + 1] {
                    assert!(!holds(&proof, other, &old_root, new, &new_root), "{old} to {new} as from {other}");
                }
                for other in [new - 1, new + 1] {
                    let same_way = old < other && way_down(old - 1, other, false) == way_down(old - 1, new, false);
                    let held = holds(&proof, old, &old_root, other, &new_root);
                    assert_eq!(held, same_way, "{old} to {new} as to {other}");
                }
            } else {
                assert!(!holds(&proof, old, &old_root, new + 1, &new_root));
            }
        }
    }
}

#[test]
fn the_roots_that_a_proof_implies_are_those_of_the_tree() {
    let tree = counting_tree(LARGEST);
    let roots = roots(&tree);
    for (old, new) in (1..=LARGEST).flat_map(|new| (1..=new).map(move |old| (old, new))) {
        let proof = prove_consistency(&tree, TreeSize(old), TreeSize(new)).unwrap();
        let real = (roots[old as usize], roots[new as usize]);
        assert_eq!(proof.implied_roots(TreeSize(old), &real.0, TreeSize(new)), Ok(real), "{old} to {new}");
        if !old.is_power_of_two() && old < new {
            // The proof alone implies both: what the caller believes is not looked at.
            assert_eq!(proof.implied_roots(TreeSize(old), &EMPTY_ROOT, TreeSize(new)), Ok(real), "{old} to {new}");
        }
    }
}

#[test]
fn from_the_empty_tree_only_the_empty_proof_and_the_empty_root_hold() {
    let tree = counting_tree(5);
    let (five, empty) = (tree.root(), ConsistencyProof::default());
    assert_eq!(prove_consistency(&tree, TreeSize(0), TreeSize(5)), Ok(empty.clone()));
    assert_eq!(prove_consistency(&tree, TreeSize(0), TreeSize(0)), Ok(empty.clone()));
    assert_eq!(empty.verify(TreeSize(0), &EMPTY_ROOT, TreeSize(5), &five), Ok(()));
    assert_eq!(empty.verify(TreeSize(0), &five, TreeSize(5), &five), Err(ProofError::OldRoot));
    let excess = ConsistencyProof::new(vec![five.0]);
    for new in [0, 5, u64::MAX] {
        assert_eq!(
            excess.verify(TreeSize(0), &EMPTY_ROOT, TreeSize(new), &five),
            Err(ProofError::WrongLength { expected: 0, found: 1 }),
            "{new}"
        );
    }
    for new in [0, 5, u64::MAX].map(TreeSize) {
        assert_eq!(empty.implied_roots(TreeSize(0), &five, new), Err(ProofError::NothingShown));
    }
}

#[test]
fn a_tree_without_leaves_has_only_one_root() {
    let (empty, five) = (ConsistencyProof::default(), counting_tree(5).root());
    assert_eq!(empty.verify(TreeSize(0), &EMPTY_ROOT, TreeSize(0), &EMPTY_ROOT), Ok(()));
    assert_eq!(empty.verify(TreeSize(0), &EMPTY_ROOT, TreeSize(0), &five), Err(ProofError::NewRoot));
    assert_eq!(empty.verify(TreeSize(0), &five, TreeSize(0), &EMPTY_ROOT), Err(ProofError::OldRoot));
    assert_eq!(empty.verify(TreeSize(0), &five, TreeSize(0), &five), Err(ProofError::OldRoot));
}

#[test]
fn what_is_not_in_the_tree_cannot_be_proved() {
    let tree = counting_tree(5);
    for (index, size) in [(0, 0), (5, 5), (6, 5), (u64::MAX, 5), (u64::MAX, u64::MAX)] {
        let (index, size) = (LeafIndex(index), TreeSize(size));
        let beyond = ProofError::IndexBeyondSize { index, size };
        assert_eq!(prove_inclusion(&tree, index, size), Err(ProveError::Range(beyond)));
        assert_eq!(InclusionProof::default().verify(&Hash([0; 32]), index, size, &EMPTY_ROOT), Err(beyond));
    }
    let (old, new) = (TreeSize(6), TreeSize(5));
    let reversed = ProofError::SizesReversed { old, new };
    assert_eq!(prove_consistency(&tree, old, new), Err(ProveError::Range(reversed)));
    assert_eq!(ConsistencyProof::default().verify(old, &EMPTY_ROOT, new, &EMPTY_ROOT), Err(reversed));
    assert!(matches!(prove_inclusion(&tree, LeafIndex(0), TreeSize(6)), Err(ProveError::Missing(_))));
    assert!(matches!(prove_consistency(&tree, TreeSize(3), TreeSize(6)), Err(ProveError::Missing(_))));
}

const ABSURD: [u64; 12] = [
    1,
    2,
    3,
    (1 << 32) - 1,
    1 << 32,
    (1 << 62) + 1,
    (1 << 63) - 1,
    1 << 63,
    (1 << 63) + 1,
    u64::MAX - 2,
    u64::MAX - 1,
    u64::MAX,
];

/// The number of hashes that a refusal said it wanted.
fn wanted(refusal: ProofError) -> usize {
    match refusal {
        ProofError::WrongLength { expected, .. } => expected,
        other => panic!("{other}"),
    }
}

#[test]
fn absurd_sizes_are_answered_at_once_and_proofs_for_them_stay_within_the_bound() {
    let long = vec![Hash([7; 32]); MAX_PROOF_HASHES + 1];
    let some_root = counting_tree(3).root();
    for size in ABSURD {
        for index in ABSURD.into_iter().flat_map(|number| [number - 1, number]) {
            let (index, size) = (LeafIndex(index), TreeSize(size));
            let judge = |hashes: &[Hash]| {
                InclusionProof::new(hashes.to_vec()).verify(&Hash([1; 32]), index, size, &some_root).unwrap_err()
            };
            if index.0 >= size.0 {
                assert_eq!(judge(&long), ProofError::IndexBeyondSize { index, size });
            } else {
                let length = wanted(judge(&long));
                assert_eq!(length, way_length(index.0, size.0));
                assert!(length <= MAX_PROOF_HASHES);
                assert_eq!(judge(&long[..length]), ProofError::NewRoot, "{index} in {size}");
            }
        }
        for old in ABSURD {
            let (old, new) = (TreeSize(old), TreeSize(size));
            let judge = |hashes: &[Hash]| {
                ConsistencyProof::new(hashes.to_vec()).verify(old, &some_root, new, &EMPTY_ROOT).unwrap_err()
            };
            if old > new {
                assert_eq!(judge(&long), ProofError::SizesReversed { old, new });
                continue;
            }
            let length = wanted(judge(&long));
            assert!(length <= MAX_PROOF_HASHES, "{old} to {new}");
            let refusal = judge(&long[..length]);
            assert!(matches!(refusal, ProofError::OldRoot | ProofError::NewRoot), "{old} to {new}: {refusal}");
            if length > 0 {
                assert_eq!(wanted(judge(&long[..length - 1])), length, "{old} to {new}");
            }
            assert_eq!(wanted(judge(&long[..length + 1])), length, "{old} to {new}");
        }
    }
}

/// How far leaf `index` is from the root, by walking down.
fn way_length(index: u64, size: u64) -> usize {
    let (mut begin, mut end, mut steps) = (0, size, 0);
    while end - begin > 1 {
        let middle = begin + ((end - begin - 1).checked_ilog2().map_or(1, |power| 1 << power));
        if index < middle {
            end = middle
        } else {
            begin = middle
        }
        steps += 1;
    }
    steps
}

#[test]
fn proofs_for_absurd_sizes_ask_for_few_hashes() {
    let tree = counting_tree(0);
    for size in ABSURD {
        let watched = Watched { tree: &tree, asked: Default::default() };
        assert!(prove_inclusion(&watched, LeafIndex(size - 1), TreeSize(size)).is_err() || size == 1);
        assert!(prove_consistency(&watched, TreeSize(size / 2 + 1), TreeSize(size)).is_err() || size < 3);
        assert!(root_of(&watched, TreeSize(size)).is_err());
        assert!(watched.asked.into_inner().len() < 4, "it stops at the first hash that is missing");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn every_leaf_proves_into_every_tree_and_no_other_leaf_does(size in 1..2_000u64, pick in any::<u64>()) {
        let (tree, index) = (counting_tree(size), pick % size);
        let proof = prove_inclusion(&tree, LeafIndex(index), TreeSize(size)).unwrap();
        let root = tree.root();
        for (other, leaf) in tree.leaves().iter().enumerate() {
            let verified = proof.verify(leaf, LeafIndex(index), TreeSize(size), &root);
            prop_assert_eq!(verified.is_ok(), other as u64 == index);
        }
    }

    #[test]
    fn every_prefix_proves_consistent_and_no_other_root_does(new in 1..2_000u64, pick in any::<u64>(), bit in 0..256usize) {
        let (tree, old) = (counting_tree(new), pick % new + 1);
        let old_root = root_of(&tree, TreeSize(old)).unwrap();
        let proof = prove_consistency(&tree, TreeSize(old), TreeSize(new)).unwrap();
        prop_assert_eq!(proof.verify(TreeSize(old), &old_root, TreeSize(new), &tree.root()), Ok(()));
        let wrong = flipped_root(old_root, bit);
        prop_assert!(proof.verify(TreeSize(old), &wrong, TreeSize(new), &tree.root()).is_err());
    }

    #[test]
    fn no_hashes_make_a_proof_of_something_that_was_not_logged(
        hashes in prop::collection::vec(any::<[u8; 32]>().prop_map(Hash), 0..12),
        index in 0..1_000u64,
        size in 1..1_000u64,
        old in 1..1_000u64,
    ) {
        let root = RootHash(Hash([9; 32]));
        let included = InclusionProof::new(hashes.clone());
        prop_assert!(included.verify(&Hash([8; 32]), LeafIndex(index), TreeSize(size), &root).is_err());
        let consistent = ConsistencyProof::new(hashes);
        let old_root = RootHash(Hash([8; 32]));
        prop_assert!(consistent.verify(TreeSize(old), &old_root, TreeSize(size), &root).is_err());
    }
}
