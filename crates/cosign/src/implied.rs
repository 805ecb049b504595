//! What a signed head says about every smaller size: the root there, told by tiles that hash to the head's root.

use crate::compare::Unproven;
use merkle::{ConsistencyProof, EMPTY_ROOT, HashSource, ProveError, RootHash, TreeSize, prove_consistency, root_of};
use note::{SignedCheckpoint, Verified};

/// The root that a larger head implies at a smaller size, with the proof that it does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Implied {
    /// The implied root.
    pub root: RootHash,
    /// Leads from the implied root to the root of the larger head.
    pub proof: ConsistencyProof,
}

/// The root that `larger` implies at `size`, which is smaller. The tiles are not trusted: only what hashes to the
/// root of `larger` is believed.
///
/// # Errors
/// [`Unproven`]: a tile is missing, or the tiles are not those of `larger`.
pub fn implied_root(
    tiles: &dyn HashSource,
    size: TreeSize,
    larger: &SignedCheckpoint<Verified>,
) -> Result<Implied, Unproven> {
    let (larger_size, larger_root) = (larger.checkpoint().size, larger.checkpoint().root);
    if size == TreeSize(0) {
        return Ok(Implied { root: EMPTY_ROOT, proof: ConsistencyProof::default() });
    }
    let claimed = root_of(tiles, size)?;
    let proof = prove_consistency(tiles, size, larger_size).map_err(|error| match error {
        ProveError::Missing(missing) => Unproven::Missing(missing),
        ProveError::Range(_) => Unproven::OtherRoot(larger_size),
    })?;
    // For a power of two `claimed` goes into the larger root as it is; for other sizes the proof brings its own
    // account of the smaller root, and that is the one that goes in.
    let (root, leads_to) =
        proof.implied_roots(size, &claimed, larger_size).map_err(|_| Unproven::OtherRoot(larger_size))?;
    if leads_to == larger_root { Ok(Implied { root, proof }) } else { Err(Unproven::OtherRoot(larger_size)) }
}
