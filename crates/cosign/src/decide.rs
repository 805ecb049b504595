//! The witness's rule: what to do with a head that a log offers.
//!
//! Pure: the shell fetches the head and the tiles, and does what the decision says. Nothing that is not signed
//! by the log accuses the log: tiles count only when they hash to a root that it signed.

use crate::compare::{Comparison, Unproven, compare};
use crate::evidence::LogFork;
use merkle::{EMPTY_ROOT, HashSource, TreeSize};
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

/// The whole rule (protocol, section 6). `held` is the newest head that this witness cosigned for the log, `None`
/// before the first; `tiles` are those of [`crate::tiles_needed`], as far as they came, from whoever they came.
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
    match (compare(held, &offered, tiles), size.cmp(&held.checkpoint().size)) {
        (Comparison::Consistent, Ordering::Greater) => Decision::Cosign(offered),
        (Comparison::Consistent, Ordering::Equal) => Decision::CosignAgain(offered),
        (Comparison::Consistent, Ordering::Less) => Decision::Stale(offered),
        (Comparison::Fork(evidence), _) => Decision::Fork(offered, evidence),
        (Comparison::Unproven(why), _) => Decision::Unproven(offered, why),
    }
}
