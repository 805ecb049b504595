//! The right edge of a growing tree: enough to append to it and to know its root, in at most 64 hashes.

use crate::hash::{EMPTY_ROOT, Hash, RootHash, TreeSize, node_hash};

/// The largest size that a frontier goes on from: nobody lives to push the other 2^63 leaves that a u64 counts, so
/// the size never overflows, whoever said where to start.
const MAX_START: u64 = 1 << 63;

/// The roots of the complete subtrees that a tree of some size falls into, largest (oldest) first: one for
/// each one-bit of the size.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Frontier {
    size: u64,
    peaks: Vec<Hash>,
}

impl Frontier {
    /// The frontier of the empty tree.
    pub fn new() -> Frontier {
        Frontier::default()
    }

    /// A frontier from its parts, largest subtree first; `None` when their number is not the number of
    /// one-bits in `size`, or `size` is above 2^63.
    pub fn from_peaks(size: TreeSize, peaks: Vec<Hash>) -> Option<Frontier> {
        (size.0 <= MAX_START && peaks.len() == size.0.count_ones() as usize).then_some(Frontier { size: size.0, peaks })
    }

    /// Appends one leaf hash.
    pub fn push(&mut self, leaf: Hash) {
        let mut hash = leaf;
        for _ in 0..self.size.trailing_ones() {
            let left = self.peaks.pop().expect("there is a peak for each one-bit of the size");
            hash = node_hash(&left, &hash);
        }
        self.peaks.push(hash);
        self.size += 1;
    }

    /// How many leaves were appended.
    pub fn size(&self) -> TreeSize {
        TreeSize(self.size)
    }

    /// The root over all leaves so far.
    pub fn root(&self) -> RootHash {
        let folded = self.peaks.iter().rev().copied().reduce(|right, left| node_hash(&left, &right));
        folded.map_or(EMPTY_ROOT, RootHash)
    }

    /// The subtree roots, largest first.
    pub fn peaks(&self) -> &[Hash] {
        &self.peaks
    }
}
