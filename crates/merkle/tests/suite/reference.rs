//! RFC 6962 as its definitions are written, slow and recursive, and the trees that the other tests look at.

use counterfoil_merkle as merkle;
use merkle::{EMPTY_ROOT, Hash, HashSource, MemoryTree, RootHash, TileId, TileSet, encode_entry, leaf_hash, node_hash};
use std::cell::RefCell;
use std::collections::BTreeSet;

/// A tree whose leaf i holds what `data` says.
pub(crate) fn tree_of(size: u64, data: impl Fn(u64) -> Vec<u8>) -> MemoryTree {
    let mut tree = MemoryTree::new();
    for index in 0..size {
        tree.push(leaf_hash(&data(index)));
    }
    tree
}

/// A tree whose leaf i holds i, as eight bytes, big-endian.
pub(crate) fn counting_tree(size: u64) -> MemoryTree {
    tree_of(size, |index| index.to_be_bytes().to_vec())
}

/// MTH of RFC 6962, section 2.1.
pub(crate) fn naive_root(leaves: &[Hash]) -> RootHash {
    match leaves {
        [] => EMPTY_ROOT,
        [leaf] => RootHash(*leaf),
        _ => {
            let (left, right) = leaves.split_at(largest_power_below(leaves.len()));
            RootHash(node_hash(&naive_root(left).0, &naive_root(right).0))
        }
    }
}

/// PATH of RFC 6962, section 2.1.1.
pub(crate) fn naive_inclusion(index: usize, leaves: &[Hash]) -> Vec<Hash> {
    if leaves.len() == 1 {
        return Vec::new();
    }
    let middle = largest_power_below(leaves.len());
    let (left, right) = leaves.split_at(middle);
    let (mut path, sibling) = if index < middle {
        (naive_inclusion(index, left), naive_root(right))
    } else {
        (naive_inclusion(index - middle, right), naive_root(left))
    };
    path.push(sibling.0);
    path
}

/// SUBPROOF of RFC 6962, section 2.1.2.
pub(crate) fn naive_consistency(old: usize, leaves: &[Hash], whole: bool) -> Vec<Hash> {
    if old == leaves.len() {
        return if whole { Vec::new() } else { vec![naive_root(leaves).0] };
    }
    let middle = largest_power_below(leaves.len());
    let (left, right) = leaves.split_at(middle);
    let (mut proof, sibling) = if old <= middle {
        (naive_consistency(old, left, whole), naive_root(right))
    } else {
        (naive_consistency(old - middle, right, false), naive_root(left))
    };
    proof.push(sibling.0);
    proof
}

/// On which side of its sibling each node stands on the way from the root down to the node that ends with leaf
/// `last`: the leaf itself, or the largest subtree that ends with it. A verifier that climbs the same way computes
/// the same hash, whatever size it was told.
pub(crate) fn way_down(last: u64, size: u64, to_leaf: bool) -> Vec<bool> {
    let (mut begin, mut end) = (0, size);
    let mut way = Vec::new();
    while end - begin > 1 && (to_leaf || last + 1 != end) {
        let middle = begin + largest_power_below((end - begin) as usize) as u64;
        way.push(last < middle);
        if last < middle { end = middle } else { begin = middle }
    }
    way
}

fn largest_power_below(length: usize) -> usize {
    let mut power = 1;
    while power * 2 < length {
        power *= 2;
    }
    power
}

/// The bytes of a tile, as a log would serve it.
pub(crate) fn tile_bytes(tree: &MemoryTree, tile: TileId) -> Vec<u8> {
    let first = tile.index * 256;
    (first..first + u64::from(tile.width)).flat_map(|index| tree.subtree(tile.level * 8, index).unwrap().0).collect()
}

/// The bytes of the first entry bundle of the tree whose leaf i holds i.
pub(crate) fn first_counting_bundle() -> Vec<u8> {
    let mut bundle = Vec::new();
    for index in 0..256u64 {
        encode_entry(&mut bundle, &index.to_be_bytes()).unwrap();
    }
    bundle
}

/// A set of exactly these tiles of the tree.
pub(crate) fn tile_set(tree: &MemoryTree, tiles: &[TileId]) -> TileSet {
    let mut set = TileSet::new();
    for tile in tiles {
        set.insert(*tile, &tile_bytes(tree, *tile)).unwrap();
    }
    set
}

/// Remembers which hashes were asked for.
pub(crate) struct Watched<'tree> {
    pub(crate) tree: &'tree MemoryTree,
    pub(crate) asked: RefCell<BTreeSet<(u8, u64)>>,
}

impl HashSource for Watched<'_> {
    fn subtree(&self, level: u8, index: u64) -> Option<Hash> {
        self.asked.borrow_mut().insert((level, index));
        self.tree.subtree(level, index)
    }
}
