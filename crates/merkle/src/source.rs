//! Where proofs take their hashes from: anything that knows the roots of complete subtrees.

use crate::frontier::Frontier;
use crate::hash::{EMPTY_ROOT, Hash, RootHash, TreeSize, node_hash};

/// Knows hashes of a tree. An untrusted one (tiles off the network) may know the wrong ones: whatever is
/// computed from it has to be compared with something that was signed.
pub trait HashSource {
    /// The root of the complete subtree over the leaves `[index << level, (index + 1) << level)`; level 0 is
    /// a leaf hash. `None` where the source does not know it.
    fn subtree(&self, level: u8, index: u64) -> Option<Hash>;
}

/// A hash that the source does not have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the hash at level {level}, place {index} is missing")]
pub struct MissingHash {
    /// Height of the subtree.
    pub level: u8,
    /// Its place among the subtrees of that height.
    pub index: u64,
}

/// The root of the tree of `size` leaves, as `source` tells it.
///
/// # Errors
/// When the source lacks a hash.
pub fn root_of(source: &dyn HashSource, size: TreeSize) -> Result<RootHash, MissingHash> {
    if size.0 == 0 { Ok(EMPTY_ROOT) } else { range_root(source, 0, size.0).map(RootHash) }
}

/// The root over the leaves `[begin, end)`, which are not none, and where `begin` is a multiple of every power
/// of two that the recursion splits by: true for all ranges that RFC 6962 proofs are made of.
pub(crate) fn range_root(source: &dyn HashSource, begin: u64, end: u64) -> Result<Hash, MissingHash> {
    let length = end - begin;
    if length.is_power_of_two() {
        let level = length.trailing_zeros() as u8;
        let index = begin >> level;
        return source.subtree(level, index).ok_or(MissingHash { level, index });
    }
    let middle = begin + split(length);
    Ok(node_hash(&range_root(source, begin, middle)?, &range_root(source, middle, end)?))
}

/// The largest power of two below `length`, which is at least 2 (RFC 6962, section 2.1).
pub(crate) fn split(length: u64) -> u64 {
    1 << (63 - (length - 1).leading_zeros())
}

/// A whole tree in memory: small trees, fakes, and the reference in tests.
#[derive(Clone, Debug, Default)]
pub struct MemoryTree {
    frontier: Frontier,
    /// `levels[l][i]` is the root of the i-th complete subtree of height l.
    levels: Vec<Vec<Hash>>,
}

impl MemoryTree {
    /// The empty tree.
    pub fn new() -> MemoryTree {
        MemoryTree::default()
    }

    /// Appends one leaf hash.
    pub fn push(&mut self, leaf: Hash) {
        self.frontier.push(leaf);
        let mut hash = leaf;
        for level in 0.. {
            if self.levels.len() == level {
                self.levels.push(Vec::new());
            }
            self.levels[level].push(hash);
            match self.levels[level].as_slice() {
                [.., left, right] if self.levels[level].len().is_multiple_of(2) => hash = node_hash(left, right),
                _ => break,
            }
        }
    }

    /// How many leaves it has.
    pub fn size(&self) -> TreeSize {
        self.frontier.size()
    }

    /// The root over all leaves.
    pub fn root(&self) -> RootHash {
        self.frontier.root()
    }

    /// The leaf hashes, oldest first.
    pub fn leaves(&self) -> &[Hash] {
        self.levels.first().map_or(&[], Vec::as_slice)
    }
}

impl HashSource for MemoryTree {
    fn subtree(&self, level: u8, index: u64) -> Option<Hash> {
        self.levels.get(usize::from(level))?.get(usize::try_from(index).ok()?).copied()
    }
}
