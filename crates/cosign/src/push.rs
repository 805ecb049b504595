//! The witness's rule for a head that is pushed to it with a proof (C2SP tlog-witness, `add-checkpoint`), in the order in
//! which that text asks.
//!
//! Pure. The proof comes from a stranger: it vouches for the log, and accuses it, only as far as it leads to a root that
//! the log signed.

use crate::evidence::{EvidenceError, LogFork};
use crate::implied::Implied;
use merkle::{ConsistencyProof, EMPTY_ROOT, ProofError, TreeSize};
use note::{CheckpointError, SignatureCheck, SignedCheckpoint, Verified, VerifierKey};
use std::cmp::Ordering;

/// What a witness answers to a pushed head.
#[derive(Debug, Clone)]
pub enum PushDecision {
    /// A head not held before, and the held one is a prefix of it: hold it, then cosign it.
    Cosign(Box<SignedCheckpoint<Verified>>),
    /// The head already held: cosign it again with a new timestamp.
    CosignAgain(Box<SignedCheckpoint<Verified>>),
    /// Not a head of this log.
    BadLogSignature(CheckpointError),
    /// A head smaller than the one it is said to have grown out of.
    Shrinks,
    /// The caller believes that another size is held than this one.
    Holds(TreeSize),
    /// A head of size 0 whose root is not the hash of the empty string: no tree has it.
    BadEmptyRoot(Box<SignedCheckpoint<Verified>>),
    /// The proof does not verify: that says nothing about the log.
    BadProof(Box<SignedCheckpoint<Verified>>, ProofError),
    /// The head contradicts the one held, and no one key answers for both.
    NotShown(Box<SignedCheckpoint<Verified>>, Box<EvidenceError>),
    /// The log signed two histories, and here is the evidence, which checks.
    Fork(Box<SignedCheckpoint<Verified>>, Box<LogFork>),
}

/// The whole rule. `held` is the newest head that this witness cosigned for the log, `None` before the first; `old` and
/// `proof` are what the caller sent with the head. `by` does the arithmetic of the log's signature.
pub fn decide_push(
    log: &VerifierKey,
    by: &impl SignatureCheck,
    held: Option<&SignedCheckpoint<Verified>>,
    old: TreeSize,
    proof: &ConsistencyProof,
    offered: SignedCheckpoint<note::Unverified>,
) -> PushDecision {
    let offered = match offered.verify_by(log, by) {
        Ok(head) => Box::new(head),
        Err(error) => return PushDecision::BadLogSignature(error),
    };
    let (size, root) = (offered.checkpoint().size, offered.checkpoint().root);
    let (held_size, held_root) =
        held.map_or((TreeSize(0), EMPTY_ROOT), |held| (held.checkpoint().size, held.checkpoint().root));
    if size < old {
        return PushDecision::Shrinks;
    }
    if old != held_size {
        return PushDecision::Holds(held_size);
    }
    if size == TreeSize(0) && root != EMPTY_ROOT {
        return PushDecision::BadEmptyRoot(offered);
    }
    // Everything grows out of nothing, and a head out of itself: there is nothing to prove, and no proof to send.
    if (old == TreeSize(0) || size == old) && !proof.hashes().is_empty() {
        let error = ProofError::WrongLength { expected: 0, found: proof.hashes().len() };
        return PushDecision::BadProof(offered, error);
    }
    let Some(held) = held else { return PushDecision::Cosign(offered) };
    match size.cmp(&held_size) {
        Ordering::Equal if root == held_root => PushDecision::CosignAgain(offered),
        Ordering::Equal => fork(held, offered, None),
        _ if held_size == TreeSize(0) => PushDecision::Cosign(offered),
        _ => match proof.implied_roots(held_size, &held_root, size) {
            Ok((implied, leads_to)) if leads_to == root && implied == held_root => PushDecision::Cosign(offered),
            Ok((implied, leads_to)) if leads_to == root => {
                fork(held, offered, Some(Implied { root: implied, proof: proof.clone() }))
            }
            Ok(_) => PushDecision::BadProof(offered, ProofError::NewRoot),
            Err(error) => PushDecision::BadProof(offered, error),
        },
    }
}

fn fork(
    held: &SignedCheckpoint<Verified>,
    offered: Box<SignedCheckpoint<Verified>>,
    implied: Option<Implied>,
) -> PushDecision {
    match LogFork::make(held, &offered, implied) {
        Ok(evidence) => PushDecision::Fork(offered, Box::new(evidence)),
        Err(error) => PushDecision::NotShown(offered, Box::new(error)),
    }
}
