//! The newest leaves of a growing tree and what stands left of them: enough to prove those leaves from memory.
//!
//! ```text
//!  peaks of the tree of `start` leaves │ tile │ tile │ part of a tile
//!  0 ───────────────────────────── start ──────────────────────────── size
//! ```
//!
//! A log answers a whole group of submitters under one head. Their proofs share nearly all of their hashes, and all of
//! these lie at the right edge: whatever is left of `start` and stands in a proof of a leaf right of it is one of the
//! peaks (RFC 6962, section 2.1.1: it is the sibling of a node over that leaf, and complete).

use crate::frontier::Frontier;
use crate::hash::{Hash, TreeSize, node_hash};
use crate::source::HashSource;
use crate::tile::TILE_WIDTH;

const WIDTH: u64 = TILE_WIDTH as u64;
/// Height of a full tile. Subtrees up to it are kept; higher ones are put together when asked for.
const TILE_HEIGHT: usize = 8;

/// A right edge that begins at a tile's boundary.
#[derive(Clone, Debug, Default)]
pub struct EdgeTree {
    /// The tree left of the edge; its size is a multiple of [`TILE_WIDTH`].
    left: Frontier,
    /// `levels[l][i]` is the root of the i-th complete subtree of height l, counted from where the edge begins.
    levels: [Vec<Hash>; TILE_HEIGHT + 1],
}

impl EdgeTree {
    /// An edge without leaves, right of the tree that `left` is the frontier of. `None` where that does not end at
    /// the boundary of a tile.
    pub fn new(left: Frontier) -> Option<EdgeTree> {
        left.size().0.is_multiple_of(WIDTH).then(|| EdgeTree { left, levels: Default::default() })
    }

    /// Appends one leaf hash.
    pub fn push(&mut self, leaf: Hash) {
        let mut hash = leaf;
        for level in &mut self.levels {
            level.push(hash);
            match level.as_slice() {
                [.., left, right] if level.len().is_multiple_of(2) => hash = node_hash(left, right),
                _ => break,
            }
        }
    }

    /// Lets go of the tiles that are full: from now on the edge begins behind them.
    pub fn settle(&mut self) {
        let full = self.levels[TILE_HEIGHT].len() * TILE_WIDTH as usize;
        self.levels[0][..full].iter().for_each(|leaf| self.left.push(*leaf));
        for (level, hashes) in self.levels.iter_mut().enumerate() {
            hashes.drain(..full >> level);
        }
    }

    /// How many leaves the whole tree has.
    pub fn size(&self) -> TreeSize {
        TreeSize(self.start() + self.levels[0].len() as u64)
    }

    /// The first leaf that can be proven.
    fn start(&self) -> u64 {
        self.left.size().0
    }

    /// The peak of the left tree that is the complete subtree of this height and place, if it is one.
    fn peak(&self, level: u8, index: u64) -> Option<Hash> {
        let ones = self.start() >> level;
        let is_peak = ones & 1 == 1 && ones == index + 1;
        is_peak.then(|| self.left.peaks()[ones.count_ones() as usize - 1])
    }
}

impl HashSource for EdgeTree {
    fn subtree(&self, level: u8, index: u64) -> Option<Hash> {
        let end = index.checked_add(1)?.checked_shl(u32::from(level)).filter(|end| end >> level == index + 1)?;
        if end > self.size().0 {
            None
        } else if end <= self.start() {
            self.peak(level, index)
        } else if let Some(hashes) = self.levels.get(usize::from(level)) {
            // No subtree this small lies on both sides of a tile's boundary.
            hashes.get((index - (self.start() >> level)) as usize).copied()
        } else {
            Some(node_hash(&self.subtree(level - 1, 2 * index)?, &self.subtree(level - 1, 2 * index + 1)?))
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;
    use crate::hash::{LeafIndex, leaf_hash};
    use crate::proof::prove_inclusion;
    use crate::source::MemoryTree;

    fn leaf(number: u64) -> Hash {
        leaf_hash(&number.to_be_bytes())
    }

    /// The whole tree, and an edge of it that begins at the last boundary up to `start`.
    fn both(start: u64, size: u64) -> (MemoryTree, EdgeTree) {
        let (mut whole, mut left) = (MemoryTree::new(), Frontier::new());
        (0..size).for_each(|number| whole.push(leaf(number)));
        let start = start / WIDTH * WIDTH;
        (0..start).for_each(|number| left.push(leaf(number)));
        let mut edge = EdgeTree::new(left).unwrap();
        (start..size).for_each(|number| edge.push(leaf(number)));
        (whole, edge)
    }

    #[test]
    fn every_leaf_of_the_edge_has_the_proof_that_the_whole_tree_gives_at_every_size() {
        for (start, size) in [(0, 1), (0, 255), (0, 700), (256, 257), (300, 1030), (512, 2305), (1792, 2304)] {
            let (whole, edge) = both(start, size);
            for index in (edge.start()..size).step_by(7).map(LeafIndex) {
                for at in [index.0 + 1, (index.0 + size).div_ceil(2).max(index.0 + 1), size].map(TreeSize) {
                    let proof = prove_inclusion(&edge, index, at);
                    assert_eq!(proof, prove_inclusion(&whole, index, at), "leaf {index} of {at}, edge from {start}");
                }
            }
        }
    }

    #[test]
    fn what_it_knows_is_what_the_whole_tree_knows_and_never_anything_else() {
        let (whole, edge) = both(1280, 3000);
        let mut known = 0;
        for level in 0..=13 {
            for index in 0..=3000u64 >> level {
                if let Some(hash) = edge.subtree(level, index) {
                    assert_eq!(Some(hash), whole.subtree(level, index), "level {level}, place {index}");
                    known += 1;
                }
            }
        }
        // Half as many on each level as on the one below it.
        assert!(known > 1720 + 860 + 430 + 215, "{known}");
        for (level, index) in [(0, 0), (63, 1), (64, 0), (255, 0), (0, u64::MAX), (1, u64::MAX), (0, 3000)] {
            assert_eq!(edge.subtree(level, index), None, "level {level}, place {index}");
        }
    }

    #[test]
    fn settling_forgets_full_tiles_and_changes_no_later_proof() {
        let (mut whole, mut edge) = both(0, 0);
        for number in 0..3000 {
            whole.push(leaf(number));
            edge.push(leaf(number));
            if number % 97 == 0 {
                edge.settle();
                assert!(edge.levels[0].len() < TILE_WIDTH as usize);
            }
            assert_eq!(edge.size(), whole.size());
            let proof = prove_inclusion(&edge, LeafIndex(number), edge.size());
            assert_eq!(proof, prove_inclusion(&whole, LeafIndex(number), whole.size()), "leaf {number}");
        }
    }

    #[test]
    fn an_edge_begins_at_the_boundary_of_a_tile() {
        let mut left = Frontier::new();
        left.push(leaf(0));
        assert!(EdgeTree::new(left).is_none());
    }
}
