//! Subtrees against the accumulated digests of the draft's appendix, which all implementations share, and against
//! every small change of a proof.

use counterfoil_merkle as merkle;
use merkle::{
    EMPTY_ROOT, Hash, HashSource, LeafIndex, MemoryTree, ProofError, RootHash, Subtree, SubtreeProof, TreeSize,
    leaf_hash, prove_consistency, prove_inclusion, prove_subtree, root_of,
};
use sha2::{Digest, Sha256};
use std::fmt::Write;

/// Leaves of the tree that the digests are of; leaf i is the single byte i.
const LEAVES: u64 = 130;

#[test]
fn what_is_a_subtree_is_decided_as_by_others() {
    for (start, end) in [(0, 1), (4, 8), (8, 13), (0, 13), (2, 4), (6, 8), (0, u64::MAX), (1 << 63, u64::MAX)] {
        let subtree = Subtree::new(start, end).unwrap();
        assert_eq!((subtree.start(), subtree.end()), (start, end));
    }
    // Empty ranges are subtrees elsewhere; nobody can prove or sign anything about one.
    for (start, end) in [(2, 6), (5, 13), (1, 7), (7, 9), (0, 0), (5, 5), (8, 4), (1, u64::MAX), (u64::MAX, 0)] {
        assert_eq!(Subtree::new(start, end), None, "[{start}, {end})");
    }
}

#[test]
fn roots_are_those_of_the_drafts_digest() {
    let tree = tree(LEAVES);
    let mut lines = String::new();
    each_range(LEAVES, |start, end, subtree| {
        let root = subtree.map_or(EMPTY_ROOT.0, |subtree| subtree.root(&tree).unwrap());
        writeln!(lines, "[{start}, {end}) {}", hex(&root)).unwrap();
    });
    assert_eq!(digest(&lines), "b82806ad4265bb151c1119c0f4db437bb4d1a1f887b3a7fba1cd4ebf552e3e81");
}

#[test]
fn proofs_are_those_of_the_drafts_digest_and_none_changed_is_taken() {
    let tree = tree(LEAVES);
    let (mut lines, mut count) = (String::new(), 0);
    for size in 0..=LEAVES {
        let root = root_of(&tree, TreeSize(size)).unwrap();
        each_range(size, |start, end, subtree| {
            count += 1;
            write!(lines, "[{start}, {end}) {size}").unwrap();
            if let Some(subtree) = subtree {
                let proof = prove_subtree(&tree, subtree, TreeSize(size)).unwrap();
                for hash in proof.hashes() {
                    write!(lines, " {}", hex(hash)).unwrap();
                }
                check(&proof, subtree, &subtree.root(&tree).unwrap(), size, &root);
            }
            lines.push('\n');
        });
    }
    assert_eq!(count, 42_893);
    assert_eq!(digest(&lines), "10fa99b37bf9bf9ffa26b412fbd98bd75363256d0b75d61bc4538b9c9c5a0a74");
}

/// The good proof is taken; with one hash changed, added or left out, or for other numbers' roots, it is not.
fn check(proof: &SubtreeProof, subtree: Subtree, hash: &Hash, size: u64, root: &RootHash) {
    let verify = |hashes: &[Hash], hash: &Hash, root: &RootHash| {
        SubtreeProof::new(hashes.to_vec()).verify(subtree, hash, TreeSize(size), root)
    };
    let hashes = proof.hashes();
    assert_eq!(verify(hashes, hash, root), Ok(()));
    let other = Hash([0x5a; 32]);
    assert!(verify(hashes, &other, root).is_err());
    assert!(verify(hashes, hash, &RootHash(other)).is_err());
    assert!(matches!(verify(&[hashes, &[other]].concat(), hash, root), Err(ProofError::WrongLength { .. })));
    for place in 0..hashes.len() {
        let mut changed = hashes.to_vec();
        changed[place] = other;
        assert!(verify(&changed, hash, root).is_err());
        changed.remove(place);
        assert!(matches!(verify(&changed, hash, root), Err(ProofError::WrongLength { .. })));
    }
}

#[test]
fn inclusion_in_a_subtree_is_inclusion_in_the_tree_of_its_leaves() {
    let tree = tree(LEAVES);
    let (mut lines, mut count) = (String::new(), 0);
    each_range(LEAVES, |start, end, subtree| {
        let Some(subtree) = subtree else { return };
        let mut own = MemoryTree::new();
        tree.leaves()[start as usize..end as usize].iter().for_each(|leaf| own.push(*leaf));
        assert_eq!(own.root().0, subtree.root(&tree).unwrap());
        for index in start..end {
            count += 1;
            write!(lines, "{index} [{start}, {end})").unwrap();
            let proof = prove_inclusion(&own, LeafIndex(index - start), TreeSize(end - start)).unwrap();
            for hash in proof.hashes() {
                write!(lines, " {}", hex(hash)).unwrap();
            }
            lines.push('\n');
        }
    });
    assert_eq!(count, 12_807);
    assert_eq!(digest(&lines), "ac2a8f989e44d99e399db448050ff5f19757df53cfb716aa81015d3955d8163f");
}

#[test]
fn from_leaf_0_the_proof_is_the_consistency_proof_and_of_one_leaf_the_inclusion_proof() {
    let tree = tree(70);
    for size in 1..=70 {
        for old in 1..=size {
            let subtree = Subtree::new(0, old).unwrap();
            let proof = prove_subtree(&tree, subtree, TreeSize(size)).unwrap();
            let consistency = prove_consistency(&tree, TreeSize(old), TreeSize(size)).unwrap();
            assert_eq!(proof.hashes(), consistency.hashes(), "{old} {size}");
            let leaf = Subtree::new(old - 1, old).unwrap();
            let proof = prove_subtree(&tree, leaf, TreeSize(size)).unwrap();
            let inclusion = prove_inclusion(&tree, LeafIndex(old - 1), TreeSize(size)).unwrap();
            assert_eq!(proof.hashes(), inclusion.hashes(), "{old} {size}");
        }
    }
}

#[test]
fn numbers_of_any_size_are_judged_without_panic() {
    struct Nothing;
    impl HashSource for Nothing {
        fn subtree(&self, _: u8, _: u64) -> Option<Hash> {
            None
        }
    }
    let edges = [0, 1, 2, 3, 255, 256, (1 << 63) - 1, 1 << 63, (1 << 63) + 1, u64::MAX - 1, u64::MAX];
    for (start, end, size) in edges
        .iter()
        .flat_map(|start| edges.iter().map(move |end| (*start, *end)))
        .flat_map(|(start, end)| edges.map(move |size| (start, end, size)))
    {
        let Some(subtree) = Subtree::new(start, end) else { continue };
        let refused = SubtreeProof::default().verify(subtree, &Hash([1; 32]), TreeSize(size), &RootHash(Hash([2; 32])));
        match refused {
            Err(ProofError::EndBeyondSize { .. }) => assert!(end > size),
            Err(ProofError::WrongLength { expected, found: 0 }) => {
                assert!((1..=merkle::MAX_PROOF_HASHES).contains(&expected));
            }
            Err(ProofError::NewRoot) => assert_eq!((start, end), (0, size)),
            other => panic!("{other:?}"),
        }
        let whole = (start, end) == (0, size);
        assert_eq!(prove_subtree(&Nothing, subtree, TreeSize(size)).is_ok(), whole);
    }
}

fn tree(leaves: u64) -> MemoryTree {
    let mut tree = MemoryTree::new();
    (0..leaves).for_each(|leaf| tree.push(leaf_hash(&[leaf as u8])));
    tree
}

/// Every range that the draft calls a subtree, empty ones (`None`) included, in its order.
fn each_range(size: u64, mut each: impl FnMut(u64, u64, Option<Subtree>)) {
    for end in 0..=size {
        for start in 0..=end {
            let subtree = Subtree::new(start, end);
            if subtree.is_some() || start == end {
                each(start, end, subtree);
            }
        }
    }
}

fn hex(hash: &Hash) -> String {
    hash.0.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn digest(lines: &str) -> String {
    hex(&Hash(Sha256::digest(lines).into()))
}
