//! The same trees by rs_merkle, an independent implementation; and three things that it accepts and we must not.

use crate::reference::counting_tree;
use counterfoil_merkle as merkle;
use merkle::{
    Hash, InclusionProof, LeafIndex, MemoryTree, ProofError, RootHash, TreeSize, leaf_hash, prove_inclusion, root_of,
};
use rs_merkle::{Hasher, MerkleProof, MerkleTree};
use sha2::{Digest, Sha256};

/// When one of the three is fixed over there, the reason why it never verifies anything here should be read again.
const NO_LONGER: &str = "rs_merkle no longer accepts this: say so in Cargo.toml";

#[derive(Clone)]
struct Rfc6962;

impl Hasher for Rfc6962 {
    type Hash = [u8; 32];

    fn hash(data: &[u8]) -> [u8; 32] {
        Sha256::new().chain_update([0]).chain_update(data).finalize().into()
    }

    fn concat_and_hash(left: &[u8; 32], right: Option<&[u8; 32]>) -> [u8; 32] {
        right.map_or(*left, |right| {
            Sha256::new().chain_update([1]).chain_update(left).chain_update(right).finalize().into()
        })
    }
}

fn other_tree(tree: &MemoryTree, size: u64) -> MerkleTree<Rfc6962> {
    let leaves: Vec<[u8; 32]> = tree.leaves()[..size as usize].iter().map(|leaf| leaf.0).collect();
    MerkleTree::from_leaves(&leaves)
}

#[test]
fn roots_and_inclusion_proofs_are_those_of_another_implementation_at_every_size() {
    let tree = counting_tree(1_100);
    for size in 1..=1_100u64 {
        let other = other_tree(&tree, size);
        let root = RootHash(Hash(other.root().unwrap()));
        assert_eq!(root_of(&tree, TreeSize(size)), Ok(root), "{size}");
        // The edges, the middle, and a leaf that wanders through the tree as the sizes grow.
        for index in [0, size / 2, size - 1, size * 7_919 % size.next_power_of_two() % size] {
            let proof = prove_inclusion(&tree, LeafIndex(index), TreeSize(size)).unwrap();
            let other_proof: Vec<Hash> =
                other.proof(&[index as usize]).proof_hashes().iter().map(|hash| Hash(*hash)).collect();
            assert_eq!(proof.hashes(), other_proof, "{index} in {size}");
            let leaf = tree.leaves()[index as usize];
            assert_eq!(proof.verify(&leaf, LeafIndex(index), TreeSize(size), &root), Ok(()), "{index} in {size}");
        }
    }
}

#[test]
fn hashes_behind_a_proof_are_refused_though_the_other_implementation_ignores_them() {
    let (tree, bogus) = (counting_tree(11), [0xab; 32]);
    let other = other_tree(&tree, 11);
    let root = other.root().unwrap();
    let leaf = tree.leaves()[5];
    let mut hashes = other.proof(&[5]).proof_hashes().to_vec();
    hashes.push(bogus);
    assert!(MerkleProof::<Rfc6962>::new(hashes.clone()).verify(root, &[5], &[leaf.0], 11), "{NO_LONGER}");
    let proof = InclusionProof::new(hashes.into_iter().map(Hash).collect());
    assert_eq!(
        proof.verify(&leaf, LeafIndex(5), TreeSize(11), &RootHash(Hash(root))),
        Err(ProofError::WrongLength { expected: 4, found: 5 })
    );
}

#[test]
fn a_leaf_beyond_the_tree_is_refused_though_the_other_implementation_accepts_it_beside_a_real_one() {
    let (tree, junk) = (counting_tree(11), [0xab; 32]);
    let other = other_tree(&tree, 11);
    let root = other.root().unwrap();
    let (leaf, bogus) = (tree.leaves()[5], leaf_hash(b"never logged"));
    // A path for the leaf that does not exist beside the path of the one that does: only the latter is looked at.
    let hashes: Vec<[u8; 32]> = other.proof(&[5]).proof_hashes().iter().flat_map(|hash| [*hash, junk]).collect();
    let accepted = MerkleProof::<Rfc6962>::new(hashes).verify(root, &[5, 1_000], &[leaf.0, bogus.0], 11);
    assert!(accepted, "{NO_LONGER}");
    // A proof of ours is of one leaf, and that one is never beyond the tree, whatever the hashes.
    let proof = prove_inclusion(&tree, LeafIndex(5), TreeSize(11)).unwrap();
    for index in [11, 12, 16, 1_000, u64::MAX].map(LeafIndex) {
        for leaf in [leaf, bogus] {
            let verified = proof.verify(&leaf, index, TreeSize(11), &RootHash(Hash(root)));
            assert_eq!(verified, Err(ProofError::IndexBeyondSize { index, size: TreeSize(11) }));
        }
    }
}

#[test]
fn a_bogus_leaf_is_refused_though_the_other_implementation_accepts_it_when_its_index_is_given_twice() {
    let tree = counting_tree(11);
    let other = other_tree(&tree, 11);
    let root = other.root().unwrap();
    let bogus = leaf_hash(b"never logged");
    // Asked for the sibling of leaf 5 twice, the proof gives leaves 4 and 5, and nobody looks at what was claimed.
    let [sibling, leaf] = [tree.leaves()[4], tree.leaves()[5]];
    let above = other.proof(&[5]).proof_hashes()[1..].to_vec();
    let hashes = [vec![sibling.0, leaf.0], above].concat();
    let accepted = MerkleProof::<Rfc6962>::new(hashes.clone()).verify(root, &[5, 5], &[bogus.0, bogus.0], 11);
    assert!(accepted, "{NO_LONGER}");
    let root = RootHash(Hash(root));
    let verify = |hashes: &[[u8; 32]], leaf: &Hash| {
        let hashes = hashes.iter().copied().map(Hash).collect();
        InclusionProof::new(hashes).verify(leaf, LeafIndex(5), TreeSize(11), &root)
    };
    assert_eq!(verify(&hashes, &bogus), Err(ProofError::WrongLength { expected: 4, found: 5 }));
    let honest = [&hashes[..1], &hashes[2..]].concat();
    assert_eq!(verify(&honest, &bogus), Err(ProofError::NewRoot));
    assert_eq!(verify(&honest, &leaf), Ok(()));
}
