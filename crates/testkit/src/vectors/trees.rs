//! `trees.json` and `tiles.json`: roots, proofs, and the paths of a log's resources.

use super::VectorFile;
use merkle::tile::{PageId, ResourcePath};
use merkle::{
    ConsistencyProof, Hash, InclusionProof, LeafIndex, MemoryTree, ProofError, RootHash, TreeSize, leaf_hash,
};
use serde_json::{Value, json};

/// Sizes at which trees look different: around powers of two, and around a tile.
const SIZES: [u64; 16] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 15, 16, 17, 255, 256, 257, 300];

pub(super) fn trees() -> VectorFile {
    let mut cases: Vec<Value> = SIZES
        .iter()
        .map(|size| json!({"name": format!("the tree of {size}"), "leaves": size, "root_hex": tree(*size).root().0.to_hex()}))
        .collect();
    for (index, size) in
        [(0, 1), (0, 2), (1, 2), (2, 3), (0, 7), (5, 7), (6, 7), (15, 16), (16, 17), (255, 257), (256, 257), (130, 300)]
    {
        cases.extend(inclusions(index, size));
    }
    for (old, new) in [
        (1, 2),
        (2, 3),
        (3, 4),
        (3, 7),
        (4, 7),
        (6, 7),
        (8, 16),
        (7, 8),
        (15, 17),
        (256, 257),
        (255, 256),
        (129, 300),
        (5, 5),
    ] {
        cases.extend(consistencies(old, new));
    }
    cases.extend(odd_cases());
    VectorFile {
        name: "trees.json",
        about: "Leaf i is the leaf hash of i as decimal text. With leaves: the root of that many. inclusion: whether proof (hex, leaf's sibling first) shows leaf_hex at index in the tree of size with root_hex. consistency: whether proof shows that the tree of old with old_root_hex is a prefix of that of new with new_root_hex. code null: it does; else why not.",
        cases,
    }
}

fn tree(size: u64) -> MemoryTree {
    let mut tree = MemoryTree::new();
    (0..size).for_each(|leaf| tree.push(leaf_of(leaf)));
    tree
}

fn leaf_of(leaf: u64) -> Hash {
    leaf_hash(leaf.to_string().as_bytes())
}

/// A valid proof, and the same in every way wrong.
fn inclusions(index: u64, size: u64) -> Vec<Value> {
    let tree = tree(size);
    let (leaf, root) = (leaf_of(index), tree.root());
    let proof = merkle::prove_inclusion(&tree, LeafIndex(index), TreeSize(size)).map(|proof| proof.hashes().to_vec());
    let proof = proof.unwrap_or_default();
    let of = |what: &str, leaf: Hash, index: u64, size: u64, root: RootHash, proof: &[Hash]| {
        inclusion(&format!("leaf {index} of {size}{what}"), &leaf, index, size, &root, proof)
    };
    let mut cases = vec![of("", leaf, index, size, root, &proof)];
    if size == 7 || size == 257 {
        let other = leaf_of(1_000);
        let mut changed = proof.clone();
        changed[0] = other;
        let mut swapped = proof.clone();
        swapped.reverse();
        let longer = [&proof[..], &[other]].concat();
        cases.extend([
            of(", another leaf", other, index, size, root, &proof),
            of(", another root", leaf, index, size, RootHash(other), &proof),
            of(", a hash changed", leaf, index, size, root, &changed),
            of(", hashes reversed", leaf, index, size, root, &swapped),
            of(", a hash missing", leaf, index, size, root, &proof[1..]),
            of(", a hash more", leaf, index, size, root, &longer),
            inclusion(
                &format!("leaf {index} of {size}, said to be of {}", size + 1),
                &leaf,
                index,
                size + 1,
                &root,
                &proof,
            ),
            inclusion(&format!("leaf {index} of {size}, said to be {size}"), &leaf, size, size, &root, &proof),
            inclusion(&format!("leaf {index} of {size}, said to be 2^64 - 1"), &leaf, u64::MAX, size, &root, &proof),
        ]);
        let neighbour = index ^ 1;
        if neighbour < size {
            let name = format!("leaf {index} of {size}, said to be {neighbour}");
            cases.push(inclusion(&name, &leaf, neighbour, size, &root, &proof));
        }
    }
    cases
}

fn inclusion(name: &str, leaf: &Hash, index: u64, size: u64, root: &RootHash, proof: &[Hash]) -> Value {
    let verdict = InclusionProof::new(proof.to_vec()).verify(leaf, LeafIndex(index), TreeSize(size), root);
    json!({
        "name": name,
        "inclusion": {"leaf_hex": leaf.to_hex(), "index": index.to_string(), "size": size.to_string(), "root_hex": root.0.to_hex(), "proof": hexed(proof)},
        "code": code(verdict),
    })
}

fn consistencies(old: u64, new: u64) -> Vec<Value> {
    let (before, after) = (tree(old), tree(new));
    let proof = merkle::prove_consistency(&after, TreeSize(old), TreeSize(new)).map(|proof| proof.hashes().to_vec());
    let proof = proof.unwrap_or_default();
    let (old_root, new_root) = (before.root(), after.root());
    let of = |what: &str, old_root: RootHash, new_root: RootHash, proof: &[Hash]| {
        consistency(&format!("from {old} to {new}{what}"), old, new, &old_root, &new_root, proof)
    };
    let mut cases = vec![of("", old_root, new_root, &proof)];
    if new == 7 || new == 300 || old == new {
        let other = RootHash(leaf_of(1_000));
        let longer = [&proof[..], &[other.0]].concat();
        cases.extend([
            of(", another old root", other, new_root, &proof),
            of(", another new root", old_root, other, &proof),
            of(", roots swapped", new_root, old_root, &proof),
            of(", a hash more", old_root, new_root, &longer),
        ]);
    }
    if let Some((_, shorter)) = proof.split_first() {
        cases.push(of(", a hash missing", old_root, new_root, shorter));
    }
    cases
}

fn consistency(name: &str, old: u64, new: u64, old_root: &RootHash, new_root: &RootHash, proof: &[Hash]) -> Value {
    let proof_of = ConsistencyProof::new(proof.to_vec());
    let verdict = proof_of.verify(TreeSize(old), old_root, TreeSize(new), new_root);
    json!({
        "name": name,
        "consistency": {"old": old.to_string(), "new": new.to_string(), "old_root_hex": old_root.0.to_hex(), "new_root_hex": new_root.0.to_hex(), "proof": hexed(proof)},
        "code": code(verdict),
    })
}

/// Where sizes themselves are the trouble.
fn odd_cases() -> Vec<Value> {
    let (empty, three, seven) = (tree(0).root(), tree(3).root(), tree(7).root());
    vec![
        consistency("from nothing to seven", 0, 7, &empty, &seven, &[]),
        consistency("from nothing to seven, with a hash", 0, 7, &empty, &seven, &[seven.0]),
        consistency("from seven to three", 7, 3, &seven, &three, &[]),
        consistency("from nothing to nothing", 0, 0, &empty, &empty, &[]),
        inclusion("a leaf of nothing", &leaf_of(0), 0, 0, &empty, &[]),
        inclusion("an empty proof in a tree of 2^64 - 1", &leaf_of(0), 0, u64::MAX, &seven, &[]),
        inclusion("sixty-six hashes", &leaf_of(0), 0, u64::MAX, &seven, &[seven.0; 66]),
    ]
}

fn hexed(proof: &[Hash]) -> Vec<String> {
    proof.iter().map(Hash::to_hex).collect()
}

fn code(verdict: Result<(), ProofError>) -> Option<&'static str> {
    verdict.err().map(|error| error.code())
}

pub(super) fn tiles() -> VectorFile {
    let cases = PATHS.iter().map(|path| {
        let page = |kind: &str, page: PageId| json!({"kind": kind, "n": page.index.to_string(), "width": page.width});
        let read = match ResourcePath::parse(path) {
            None => return json!({"name": path, "path": path, "code": "no-resource"}),
            Some(ResourcePath::Checkpoint) => json!({"kind": "checkpoint"}),
            Some(ResourcePath::Tile(tile)) => {
                super::with(page("tile", PageId { index: tile.index, width: tile.width }), "level", json!(tile.level))
            }
            Some(ResourcePath::Entries(entries)) => page("entries", entries),
            Some(ResourcePath::Heads(heads)) => page("heads", heads),
        };
        json!({"name": path, "path": path, "read": read})
    });
    VectorFile {
        name: "tiles.json",
        about: "Read path as a resource of a log below its prefix; printing what was read gives path again. code where it names none.",
        cases: cases.collect(),
    }
}

const PATHS: &[&str] = &[
    "checkpoint",
    "tile/0/000",
    "tile/0/000.p/1",
    "tile/0/000.p/255",
    "tile/0/001",
    "tile/1/255",
    "tile/0/999",
    "tile/0/x001/000",
    "tile/0/x001/x234/067",
    "tile/63/000",
    "tile/8/x001/000.p/17",
    "tile/0/x018/x446/x744/x073/x709/x551/615",
    "tile/entries/000",
    "tile/entries/x001/x234/067",
    "tile/entries/x001/x234/067.p/9",
    "heads/000",
    "heads/x001/000.p/128",
    // None of these names a resource.
    "",
    "/checkpoint",
    "checkpoint/",
    "Checkpoint",
    "checkpoint?",
    "tile",
    "tile/",
    "tile/0",
    "tile/0/",
    "tile/0/0",
    "tile/0/00",
    "tile/0/0000",
    "tile/0/1000",
    "tile/0/x000/001",
    "tile/0/001/000",
    "tile/0/x001",
    "tile/0/x001/x002",
    "tile/0/X001/000",
    "tile/0/x1/000",
    "tile/0/x001//000",
    "tile/0/-01",
    "tile/0/+01",
    "tile/0/ 01",
    "tile/0/0a1",
    "tile/00/000",
    "tile/64/000",
    "tile/256/000",
    "tile/-1/000",
    "tile/0x0/000",
    "tile/0/000.p/0",
    "tile/0/000.p/256",
    "tile/0/000.p/01",
    "tile/0/000.p/",
    "tile/0/000.p",
    "tile/0/000.p/1/",
    "tile/0/000.p/1.p/1",
    "tile/0/000/.p/1",
    "tile/0/x018/x446/x744/x073/x709/x551/616",
    "tile/0/x001/x018/x446/x744/x073/x709/x551/615",
    "tile/entries",
    "tile/entries/",
    "tile/entries/0",
    "tile/entries/000.p/256",
    "tile/data/000",
    "heads/",
    "heads/0",
    "heads/000.p/0",
    "heads/000/",
    "tile/0/٠٠١",
    "tile/0/000%2Ep/1",
    "tile/0/../0/000",
];

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;

    #[test]
    fn what_is_read_prints_as_it_was_written() {
        for path in PATHS {
            if let Some(read) = ResourcePath::parse(path) {
                assert_eq!(read.to_string(), **path);
            }
        }
        let refused = tiles().cases.iter().filter(|case| case["code"].is_string()).count();
        assert_eq!(refused, PATHS.len() - 17);
    }

    #[test]
    fn every_refusal_of_a_proof_is_shown() {
        let codes: std::collections::BTreeSet<String> =
            trees().cases.iter().filter_map(|case| case["code"].as_str().map(str::to_owned)).collect();
        let known = ["index-beyond-size", "new-root", "old-root", "sizes-reversed", "wrong-length"];
        assert_eq!(codes.into_iter().collect::<Vec<_>>(), known);
    }
}
