//! Everything in an outbox, checked again from nothing: the receipts by the rule that every log applies, the proofs by
//! the log's key.

use super::OutboxError;
use super::store::{Store, first_key};
use crate::proof::OfferedProof;
use merkle::{RootHash, TreeSize};
use note::VerifierKey;
use receipt::{IssuerState, admit};
use serde::Serialize;
use std::collections::BTreeMap;

/// Faults listed in full; the rest is counted. A damaged byte early in a stream makes a fault of every later receipt.
const MAX_LISTED: usize = 100;

/// What was found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Verification {
    /// Receipts checked.
    pub receipts: u64,
    /// Proofs checked.
    pub proofs: u64,
    /// Receipts without a proof: they are not acknowledged yet.
    pub unproven: u64,
    /// Faults found, listed or not.
    pub faults: u64,
    /// The first of them.
    pub listed: Vec<Fault>,
}

/// One thing that is not as it should be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Fault {
    /// The receipt concerned.
    pub seq: u64,
    /// `receipt` or `proof`.
    pub what: &'static str,
    /// What is wrong, in a sentence.
    pub detail: String,
}

impl Verification {
    fn find(&mut self, seq: u64, what: &'static str, detail: impl std::fmt::Display) {
        self.faults += 1;
        if self.listed.len() < MAX_LISTED {
            self.listed.push(Fault { seq, what, detail: detail.to_string() });
        }
    }
}

pub(super) fn verify(
    store: &Store,
    issuer: Option<&VerifierKey>,
    progress: &mut dyn FnMut(),
) -> Result<Verification, OutboxError> {
    let mut found = Verification::default();
    verify_receipts(store, issuer, &mut found, progress)?;
    verify_proofs(store, &mut found, progress)?;
    Ok(found)
}

fn verify_receipts(
    store: &Store,
    issuer: Option<&VerifierKey>,
    found: &mut Verification,
    progress: &mut dyn FnMut(),
) -> Result<(), OutboxError> {
    let mut state: Option<IssuerState> = issuer.map(|key| IssuerState::registered(key.clone()));
    for seq in 0..store.count() {
        let entry = store.entry(seq)?.unwrap_or_default();
        if state.is_none() {
            state = first_key(&entry).map(IssuerState::registered);
        }
        // `held` answers nothing: a receipt at a seq that is already passed then reads as a fork, which it would be.
        match admit(state.as_ref(), &entry, &|_| None, None) {
            Ok(admitted) => state = Some(admitted.state),
            Err(refusal) => found.find(seq, "receipt", refusal),
        }
        found.receipts += 1;
        progress();
    }
    Ok(())
}

fn verify_proofs(store: &Store, found: &mut Verification, progress: &mut dyn FnMut()) -> Result<(), OutboxError> {
    let mut roots: BTreeMap<TreeSize, RootHash> = BTreeMap::new();
    let mut previous: Option<u64> = None;
    for seq in 0..store.acknowledged_count() {
        let (Some(entry), Some(kept)) = (store.entry(seq)?, store.proof(seq)?) else { continue };
        let Some(log) = store.log() else {
            found.find(seq, "proof", "no log was ever named, so no proof can be checked");
            break;
        };
        match OfferedProof::parse(&kept.proof).and_then(|offered| offered.check(&entry, &log.vkey)) {
            Ok(proof) => {
                let head = proof.checkpoint().checkpoint();
                if *roots.entry(head.size).or_insert(head.root) != head.root {
                    found.find(
                        seq,
                        "proof",
                        format!("the log signed two different trees of size {}: a fork; keep both proofs", head.size.0),
                    );
                }
                if proof.index().0 != kept.index {
                    found.find(
                        seq,
                        "proof",
                        format!("acknowledged at index {}, proven at {}", kept.index, proof.index().0),
                    );
                }
                if previous.is_some_and(|previous| previous >= proof.index().0) {
                    found.find(seq, "proof", "the log holds it before the receipt that precedes it");
                }
                previous = Some(proof.index().0);
            }
            Err(fault) => found.find(seq, "proof", fault),
        }
        found.proofs += 1;
        progress();
    }
    found.unproven = store.count() - store.acknowledged_count();
    Ok(())
}
