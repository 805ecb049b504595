//! The witness's rule: what to do with a head that a log offers.
//!
//! Pure: the shell fetches the head and the tiles, and does what the decision says. Nothing that is not signed
//! by the log accuses the log: tiles count only when they hash to a root that it signed.

use crate::evidence::{EvidenceError, LogFork};
use crate::implied::{Implied, implied_root};
use merkle::{EMPTY_ROOT, HashSource, MissingHash, TileId, TreeSize, tiles_for_consistency};
use note::{CheckpointError, SignedCheckpoint, Verified, VerifierKey};
use std::cmp::Ordering;

/// What a witness answers to an offered head.
#[derive(Debug, Clone)]
pub enum Decision {
    /// A head not held before, and the held one is a prefix of it: hold it, then cosign it.
    Cosign(Box<SignedCheckpoint<Verified>>),
    /// The head already held: cosign it again with a new timestamp.
    CosignAgain(Box<SignedCheckpoint<Verified>>),
    /// Smaller than the head held, and a prefix of it: journal it, do not cosign.
    Stale(Box<SignedCheckpoint<Verified>>),
    /// Nothing that the log signed shows that its history only grew, nor that it did not: tiles are missing, or belong
    /// to neither head. Proves nothing against anyone; try again.
    Unproven(Box<SignedCheckpoint<Verified>>, Unproven),
    /// The log signed two histories, and here is the evidence, which checks.
    Fork(Box<SignedCheckpoint<Verified>>, Box<LogFork>),
    /// Not a head of this log: nothing of it is worth keeping.
    BadLogSignature(CheckpointError),
    /// A head of size 0 whose root is not the hash of the empty string: no tree has it.
    BadEmptyRoot(Box<SignedCheckpoint<Verified>>),
}

/// Why two heads could not be compared, or their difference not be shown to anybody.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unproven {
    /// A tile did not come.
    #[error("the log's tiles are not all there: {0}")]
    Missing(#[from] MissingHash),
    /// The tiles hash to another root than the one that was signed: whoever sent them.
    #[error("the tiles that came do not hash to the signed root at size {0}")]
    OtherRoot(TreeSize),
    /// The heads contradict each other, but not in the name of one key: the head held was signed under a key that
    /// the log has replaced, or no tree has it. Nobody can be shown to have signed both.
    #[error("the offered head contradicts the one held, and no one key answers for both; look at both by hand: {0}")]
    NotShown(Box<EvidenceError>),
}

/// The whole rule (protocol, section 6). `held` is the newest head that this witness cosigned for the log, `None`
/// before the first; `tiles` are those of [`tiles_needed`], as far as they came, from whoever they came.
pub fn decide(
    log: &VerifierKey,
    held: Option<&SignedCheckpoint<Verified>>,
    offered: &[u8],
    tiles: &dyn HashSource,
) -> Decision {
    let offered = match SignedCheckpoint::parse(offered).and_then(|head| head.verify(log)) {
        Ok(head) => Box::new(head),
        Err(error) => return Decision::BadLogSignature(error),
    };
    let (size, root) = (offered.checkpoint().size, offered.checkpoint().root);
    if size == TreeSize(0) && root != EMPTY_ROOT {
        return Decision::BadEmptyRoot(offered);
    }
    let Some(held) = held else { return Decision::Cosign(offered) };
    let (held_size, held_root) = (held.checkpoint().size, held.checkpoint().root);

    match size.cmp(&held_size) {
        Ordering::Equal if root == held_root => Decision::CosignAgain(offered),
        Ordering::Equal => fork(held, offered, None),
        Ordering::Greater => match implied_root(tiles, held_size, &offered) {
            Ok(Implied { root, .. }) if root == held_root => Decision::Cosign(offered),
            Ok(other) => fork(held, offered, Some(other)),
            Err(unproven) => Decision::Unproven(offered, unproven),
        },
        Ordering::Less => match implied_root(tiles, size, held) {
            Ok(Implied { root: implied, .. }) if implied == root => Decision::Stale(offered),
            Ok(other) => fork(held, offered, Some(other)),
            Err(unproven) => Decision::Unproven(offered, unproven),
        },
    }
}

/// The tiles of the larger tree that [`decide`] compares heads of these two sizes by; none when they are equal or
/// one is empty.
pub fn tiles_needed(one: TreeSize, other: TreeSize) -> Vec<TileId> {
    let (old, new) = (one.min(other), one.max(other));
    if old == new || old == TreeSize(0) { Vec::new() } else { tiles_for_consistency(old, new) }
}

/// A fork, once its evidence has passed the check that everybody else will put it to: nobody is accused of what
/// cannot be shown.
fn fork(
    held: &SignedCheckpoint<Verified>,
    offered: Box<SignedCheckpoint<Verified>>,
    implied: Option<Implied>,
) -> Decision {
    match LogFork::make(held, &offered, implied) {
        Ok(evidence) => Decision::Fork(offered, Box::new(evidence)),
        Err(error) => Decision::Unproven(offered, Unproven::NotShown(Box::new(error))),
    }
}
