//! Subtrees: ranges of leaves whose root stands by itself, and proofs that one is part of a tree
//! (draft-ietf-plants-merkle-tree-certs-03, section 4).
//!
//! A range `[start, end)` is a subtree when `start` is a multiple of the smallest power of two that is not below its
//! length. The tree splits it where RFC 6962 splits a tree of that length, so its root is that tree's root; a
//! subtree that starts at leaf 0 is an earlier tree, and its proof that tree's consistency proof.
//!
//! Holds what a witness needs to judge a subtree. Does not hold the search for subtrees that cover a range, which is a
//! matter of whoever issues from a log.

use crate::hash::{Hash, RootHash, TreeSize, node_hash};
use crate::proof::{ProofError, ProveError};
use crate::source::{HashSource, MissingHash, range_root, split};

/// A range of leaves that is a subtree, and not empty.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Subtree {
    start: u64,
    end: u64,
}

/// That a subtree is part of a tree, in the order of the draft: lowest first (section 4.4).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SubtreeProof(Vec<Hash>);

impl Subtree {
    /// The leaves from `start` to before `end`, if they are a subtree and any.
    pub fn new(start: u64, end: u64) -> Option<Subtree> {
        let length = end.checked_sub(start).filter(|length| *length > 0)?;
        let aligned = match length.checked_next_power_of_two() {
            Some(width) => start.is_multiple_of(width),
            // More than 2^63 leaves: only 0 is a multiple of 2^64.
            None => start == 0,
        };
        aligned.then_some(Subtree { start, end })
    }

    /// The first leaf.
    pub fn start(&self) -> u64 {
        self.start
    }

    /// The leaf after the last one.
    pub fn end(&self) -> u64 {
        self.end
    }

    /// Its root, as `source` tells it.
    ///
    /// # Errors
    /// When the source lacks a hash.
    pub fn root(&self, source: &dyn HashSource) -> Result<Hash, MissingHash> {
        range_root(source, self.start, self.end)
    }

    /// The way from the root of the tree of `size` leaves down to where the subtree's own nodes begin.
    fn path(&self, size: TreeSize) -> Result<Path, ProofError> {
        if self.end > size.0 {
            return Err(ProofError::EndBeyondSize { end: self.end, size });
        }
        let mut steps = Vec::new();
        let (mut begin, mut end) = (0, size.0);
        // What of the subtree is not yet known to the left of here.
        let mut start = self.start;
        while (start, self.end) != (begin, end) {
            let middle = begin + split(end - begin);
            if self.end <= middle {
                steps.push(Step::RightBeside(middle, end));
                end = middle;
            } else if middle <= start {
                steps.push(Step::LeftBeside(begin, middle));
                begin = middle;
            } else {
                // The split lies inside. Then the subtree begins where this node does: anywhere to the right of that,
                // its alignment would keep it on one side.
                steps.push(Step::LeftInside(begin, middle));
                (begin, start) = (middle, middle);
            }
        }
        Ok(Path { steps, bottom: (begin, end) })
    }
}

/// The proof that `subtree` is part of the tree of `size` leaves that `source` knows.
///
/// # Errors
/// When the subtree ends beyond the size, or the source lacks a hash.
pub fn prove_subtree(source: &dyn HashSource, subtree: Subtree, size: TreeSize) -> Result<SubtreeProof, ProveError> {
    let path = subtree.path(size)?;
    let mut hashes = Vec::new();
    if path.bottom.0 != subtree.start {
        hashes.push(range_root(source, path.bottom.0, path.bottom.1)?);
    }
    for step in path.steps.iter().rev() {
        let (Step::RightBeside(begin, end) | Step::LeftBeside(begin, end) | Step::LeftInside(begin, end)) = *step;
        hashes.push(range_root(source, begin, end)?);
    }
    Ok(SubtreeProof(hashes))
}

impl SubtreeProof {
    /// A proof from its hashes, in the order of the draft.
    pub fn new(hashes: Vec<Hash>) -> SubtreeProof {
        SubtreeProof(hashes)
    }

    /// The hashes, in the order of the draft.
    pub fn hashes(&self) -> &[Hash] {
        &self.0
    }

    /// Checks that `hash` is the root of `subtree` in the tree of `size` leaves under `root`.
    ///
    /// # Errors
    /// When the subtree ends beyond the size, the proof has too few or too many hashes, or leads elsewhere.
    pub fn verify(&self, subtree: Subtree, hash: &Hash, size: TreeSize, root: &RootHash) -> Result<(), ProofError> {
        let path = subtree.path(size)?;
        let whole = path.bottom.0 == subtree.start;
        let expected = path.steps.len() + usize::from(!whole);
        if self.0.len() != expected {
            return Err(ProofError::WrongLength { expected, found: self.0.len() });
        }
        // Where the bottom is the subtree itself, the proof leaves it out: the checker has it.
        let (bottom, siblings) = match self.0.split_first() {
            Some((first, rest)) if !whole => (first, rest),
            _ => (hash, self.0.as_slice()),
        };
        let (mut implied_hash, mut implied_root) = (*bottom, *bottom);
        for (step, sibling) in path.steps.iter().rev().zip(siblings) {
            match step {
                Step::RightBeside(..) => implied_root = node_hash(&implied_root, sibling),
                Step::LeftBeside(..) => implied_root = node_hash(sibling, &implied_root),
                Step::LeftInside(..) => {
                    implied_hash = node_hash(sibling, &implied_hash);
                    implied_root = node_hash(sibling, &implied_root);
                }
            }
        }
        if implied_hash != *hash {
            Err(ProofError::SubtreeRoot)
        } else if implied_root != root.0 {
            Err(ProofError::NewRoot)
        } else {
            Ok(())
        }
    }
}

struct Path {
    /// From the root down.
    steps: Vec<Step>,
    /// The leaves of the node where the way ends: the subtree, or its right edge.
    bottom: (u64, u64),
}

/// The sibling that a step leaves behind, as its range of leaves.
enum Step {
    /// To the right, outside of the subtree.
    RightBeside(u64, u64),
    /// To the left, outside of the subtree.
    LeftBeside(u64, u64),
    /// To the left, part of the subtree.
    LeftInside(u64, u64),
}
