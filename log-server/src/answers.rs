//! What the log answers about receipts that it has: proofs, and the JSON around them.

use crate::committer::Outcome;
use crate::ledger::Committed;
use crate::located::Located;
use crate::publication::Head;
use client::wire;
use merkle::{EdgeTree, Hash, HashSource, LeafIndex, ProveError, prove_inclusion};
use receipt::Receipt;

/// The hashes of a right edge in memory, and behind them those of the whole store.
pub struct EdgeFirst<'a> {
    /// Asked first.
    pub edge: &'a EdgeTree,
    /// Asked for what that does not know.
    pub store: &'a dyn HashSource,
}

impl HashSource for EdgeFirst<'_> {
    fn subtree(&self, level: u8, index: u64) -> Option<Hash> {
        self.edge.subtree(level, index).or_else(|| self.store.subtree(level, index))
    }
}

/// The proof that leaf `index` is under `head`, as `tlog-proof` text.
///
/// # Errors
/// [`ProveError`]: the store does not have the hashes that its own head covers.
pub fn proof_text(hashes: &dyn HashSource, index: LeafIndex, head: &Head) -> Result<String, ProveError> {
    let inclusion = prove_inclusion(hashes, index, head.checkpoint().size)?;
    Ok(note::proof_text(index, &inclusion, head))
}

/// That a receipt is where it is, as JSON.
///
/// # Errors
/// As [`proof_text`].
pub fn included(hashes: &dyn HashSource, located: &Located, head: &Head) -> Result<wire::Included, ProveError> {
    Ok(wire::Included {
        index: located.index.0,
        issuer: located.issuer.to_string(),
        seq: located.seq.0,
        id: located.id.to_string(),
        proof: proof_text(hashes, located.index, head)?,
    })
}

/// That, and the entry itself.
///
/// # Errors
/// As [`proof_text`].
pub fn found(
    hashes: &dyn HashSource,
    receipt: &Receipt,
    index: LeafIndex,
    head: &Head,
) -> Result<wire::Found, ProveError> {
    let located = Located::new(receipt, index);
    let wire::Included { index, issuer, seq, id, proof } = included(hashes, &located, head)?;
    Ok(wire::Found { index, issuer, seq, id, proof, entry: receipt.to_string() })
}

/// The verdict on one receipt of a batch.
///
/// # Errors
/// As [`proof_text`].
pub fn verdict(store: &dyn HashSource, outcome: &Outcome) -> Result<wire::BatchVerdict, ProveError> {
    Ok(match outcome {
        Outcome::Included { located, duplicate, under: Committed { head, edge } } => {
            let included = included(&EdgeFirst { edge, store }, located, head)?;
            if *duplicate { wire::BatchVerdict::Duplicate(included) } else { wire::BatchVerdict::Ok(included) }
        }
        Outcome::NotTaken(reason) => wire::BatchVerdict::Refused(reason.to_verdict()),
        Outcome::Skipped(code) => wire::BatchVerdict::Skipped(wire::Skipped {
            code: (*code).to_owned(),
            detail: format!(
                "an earlier receipt of this issuer in this batch was refused ({code}); deal with that one, then send this one again"
            ),
        }),
    })
}
