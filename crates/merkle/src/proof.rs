//! Inclusion and consistency proofs of RFC 6962, sections 2.1.1 and 2.1.2: made, and checked exactly.
//!
//! A proof of any length but the one that its numbers call for is refused, whatever it hashes to.

use crate::hash::{EMPTY_ROOT, Hash, LeafIndex, RootHash, TreeSize, node_hash};
use crate::source::{HashSource, MissingHash, range_root, split};

/// The most hashes that a proof can have: a tree of fewer than 2^64 leaves is at most 64 high, and a
/// consistency proof starts with one hash more than it climbs levels.
pub const MAX_PROOF_HASHES: usize = 65;

/// That a leaf is in a tree: the siblings on the way from the leaf to the root, lowest first.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct InclusionProof(Vec<Hash>);

/// That a tree is a prefix of another (RFC 6962, section 2.1.2).
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct ConsistencyProof(Vec<Hash>);

/// Why a proof proves nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ProofError {
    /// The leaf's index is not below the tree's size.
    #[error("leaf {index} is not in a tree of {size}")]
    IndexBeyondSize {
        /// The index.
        index: LeafIndex,
        /// The tree's size.
        size: TreeSize,
    },
    /// The old tree is larger than the new one.
    #[error("a tree of {old} leaves cannot be a prefix of a tree of {new}")]
    SizesReversed {
        /// The size said to be the older.
        old: TreeSize,
        /// The size said to be the newer.
        new: TreeSize,
    },
    /// The subtree ends beyond the tree.
    #[error("a subtree that ends at leaf {end} is no part of a tree of {size}")]
    EndBeyondSize {
        /// The leaf after the subtree's last one.
        end: u64,
        /// The tree's size.
        size: TreeSize,
    },
    /// A proof for these numbers has exactly so many hashes, and this one does not.
    #[error("the proof has {found} hashes, these sizes call for {expected}")]
    WrongLength {
        /// Hashes that the sizes call for.
        expected: usize,
        /// Hashes in the proof.
        found: usize,
    },
    /// The older tree is empty: no proof says anything about the newer one.
    #[error("a proof from the empty tree shows nothing")]
    NothingShown,
    /// The proof does not lead to the older root.
    #[error("the proof does not lead to the older root")]
    OldRoot,
    /// The proof does not lead to the subtree's root.
    #[error("the proof does not lead to the subtree's root")]
    SubtreeRoot,
    /// The proof does not lead to the root (of the newer tree).
    #[error("the proof does not lead to the root")]
    NewRoot,
}

impl ProofError {
    /// The error in one word that stays the same from version to version, for programs; `vectors/` has it for
    /// each input.
    pub fn code(&self) -> &'static str {
        match self {
            Self::IndexBeyondSize { .. } => "index-beyond-size",
            Self::SizesReversed { .. } => "sizes-reversed",
            Self::EndBeyondSize { .. } => "end-beyond-size",
            Self::WrongLength { .. } => "wrong-length",
            Self::NothingShown => "nothing-shown",
            Self::OldRoot => "old-root",
            Self::SubtreeRoot => "subtree-root",
            Self::NewRoot => "new-root",
        }
    }
}

/// Why a proof could not be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ProveError {
    /// The caller asked for a leaf or a size that is not there.
    #[error(transparent)]
    Range(#[from] ProofError),
    /// The source lacks a hash.
    #[error(transparent)]
    Missing(#[from] MissingHash),
}

/// The proof that leaf `index` is in the tree of `size` leaves that `source` knows.
///
/// # Errors
/// When there is no such leaf, or the source lacks a hash.
pub fn prove_inclusion(
    source: &dyn HashSource,
    index: LeafIndex,
    size: TreeSize,
) -> Result<InclusionProof, ProveError> {
    if index.0 >= size.0 {
        return Err(ProofError::IndexBeyondSize { index, size }.into());
    }
    let mut siblings = Vec::new();
    let (mut begin, mut end) = (0, size.0);
    while end - begin > 1 {
        let middle = begin + split(end - begin);
        if index.0 < middle {
            siblings.push(range_root(source, middle, end)?);
            end = middle;
        } else {
            siblings.push(range_root(source, begin, middle)?);
            begin = middle;
        }
    }
    siblings.reverse();
    Ok(InclusionProof(siblings))
}

/// The proof that the tree of `old` leaves is a prefix of the tree of `new` leaves that `source` knows.
///
/// # Errors
/// When `old` is larger than `new`, or the source lacks a hash.
pub fn prove_consistency(
    source: &dyn HashSource,
    old: TreeSize,
    new: TreeSize,
) -> Result<ConsistencyProof, ProveError> {
    if old > new {
        return Err(ProofError::SizesReversed { old, new }.into());
    }
    if old.0 == 0 || old == new {
        return Ok(ConsistencyProof(Vec::new()));
    }
    let mut hashes = Vec::new();
    let (mut begin, mut end) = (0, new.0);
    while old.0 < end {
        let middle = begin + split(end - begin);
        if old.0 <= middle {
            hashes.push(range_root(source, middle, end)?);
            end = middle;
        } else {
            hashes.push(range_root(source, begin, middle)?);
            begin = middle;
        }
    }
    // The old root itself is left out when it is a subtree of the new tree: the checker has it.
    if begin > 0 {
        hashes.push(range_root(source, begin, end)?);
    }
    hashes.reverse();
    Ok(ConsistencyProof(hashes))
}

impl InclusionProof {
    /// A proof from its hashes, lowest first.
    pub fn new(hashes: Vec<Hash>) -> InclusionProof {
        InclusionProof(hashes)
    }

    /// The hashes, lowest first.
    pub fn hashes(&self) -> &[Hash] {
        &self.0
    }

    /// Checks that the leaf with hash `leaf` stands at `index` in the tree of `size` leaves under `root`.
    ///
    /// # Errors
    /// When the index is beyond the size, the proof has too few or too many hashes, or leads elsewhere.
    pub fn verify(&self, leaf: &Hash, index: LeafIndex, size: TreeSize, root: &RootHash) -> Result<(), ProofError> {
        if index.0 >= size.0 {
            return Err(ProofError::IndexBeyondSize { index, size });
        }
        let (inner, border) = path_lengths(index.0, size.0);
        let (low, high) = split_exactly(&self.0, inner, border)?;
        if climb_border(climb_inner(*leaf, low, index.0), high) == root.0 { Ok(()) } else { Err(ProofError::NewRoot) }
    }
}

impl ConsistencyProof {
    /// A proof from its hashes, in the order of RFC 6962.
    pub fn new(hashes: Vec<Hash>) -> ConsistencyProof {
        ConsistencyProof(hashes)
    }

    /// The hashes, in the order of RFC 6962.
    pub fn hashes(&self) -> &[Hash] {
        &self.0
    }

    /// Checks that the tree of `old` leaves under `old_root` is a prefix of the one of `new` leaves under `new_root`.
    ///
    /// # Errors
    /// When the sizes are reversed, the proof has too few or too many hashes, or leads to another root.
    pub fn verify(
        &self,
        old: TreeSize,
        old_root: &RootHash,
        new: TreeSize,
        new_root: &RootHash,
    ) -> Result<(), ProofError> {
        if old.0 == 0 {
            // Everything grows out of nothing: the proof is empty, and so is every tree without leaves.
            split_exactly(&self.0, 0, 0)?;
            return match (*old_root == EMPTY_ROOT, new.0 > 0 || *new_root == EMPTY_ROOT) {
                (false, _) => Err(ProofError::OldRoot),
                (true, false) => Err(ProofError::NewRoot),
                (true, true) => Ok(()),
            };
        }
        let (implied_old, implied_new) = self.implied_roots(old, old_root, new)?;
        if implied_old != *old_root {
            Err(ProofError::OldRoot)
        } else if implied_new != *new_root {
            Err(ProofError::NewRoot)
        } else {
            Ok(())
        }
    }

    /// The roots that the proof leads to: of the tree of `old` leaves and of the one of `new` leaves. Where `old`
    /// is a power of two (or equals `new`) the proof leaves the older root out, and `old_root` is taken as given;
    /// elsewhere it is not looked at.
    ///
    /// # Errors
    /// When the sizes are reversed, the older tree is empty (then a proof shows nothing), or the proof has too few
    /// or too many hashes.
    pub fn implied_roots(
        &self,
        old: TreeSize,
        old_root: &RootHash,
        new: TreeSize,
    ) -> Result<(RootHash, RootHash), ProofError> {
        if old > new {
            return Err(ProofError::SizesReversed { old, new });
        }
        if old.0 == 0 {
            return Err(ProofError::NothingShown);
        }
        if old == new {
            split_exactly(&self.0, 0, 0)?;
            return Ok((*old_root, *old_root));
        }
        let skipped = old.0.trailing_zeros() as usize;
        let (inner, border) = path_lengths(old.0 - 1, new.0);
        let inner = inner - skipped;
        let (start, rest) = if old.0.is_power_of_two() {
            (old_root.0, self.0.as_slice())
        } else {
            let short = ProofError::WrongLength { expected: 1 + inner + border, found: 0 };
            let (first, rest) = self.0.split_first().ok_or(short)?;
            (*first, rest)
        };
        let extra = usize::from(!old.0.is_power_of_two());
        let (low, high) = split_exactly(rest, inner, border).map_err(|error| match error {
            ProofError::WrongLength { expected, found } => {
                ProofError::WrongLength { expected: expected + extra, found: found + extra }
            }
            other => other,
        })?;
        let path = (old.0 - 1) >> skipped;
        let implied_old = climb_border(climb_inner_left_only(start, low, path), high);
        let implied_new = climb_border(climb_inner(start, low, path), high);
        Ok((RootHash(implied_old), RootHash(implied_new)))
    }
}

/// How many siblings the path from leaf `index` meets below the point where it joins the tree's right edge, and
/// how many above. Above, a sibling is always on the left.
fn path_lengths(index: u64, size: u64) -> (usize, usize) {
    let inner = 64 - (index ^ (size - 1)).leading_zeros();
    let border = index.checked_shr(inner).unwrap_or(0).count_ones();
    (inner as usize, border as usize)
}

fn split_exactly(hashes: &[Hash], inner: usize, border: usize) -> Result<(&[Hash], &[Hash]), ProofError> {
    if hashes.len() == inner + border {
        Ok(hashes.split_at(inner))
    } else {
        Err(ProofError::WrongLength { expected: inner + border, found: hashes.len() })
    }
}

fn climb_inner(start: Hash, siblings: &[Hash], path: u64) -> Hash {
    siblings.iter().enumerate().fold(start, |hash, (level, sibling)| {
        if path >> level & 1 == 0 { node_hash(&hash, sibling) } else { node_hash(sibling, &hash) }
    })
}

fn climb_inner_left_only(start: Hash, siblings: &[Hash], path: u64) -> Hash {
    siblings.iter().enumerate().fold(
        start,
        |hash, (level, sibling)| {
            if path >> level & 1 == 0 { hash } else { node_hash(sibling, &hash) }
        },
    )
}

fn climb_border(start: Hash, siblings: &[Hash]) -> Hash {
    siblings.iter().fold(start, |hash, sibling| node_hash(sibling, &hash))
}
