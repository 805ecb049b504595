//! What the log answers about receipts that it has: proofs, and the JSON around them.

use crate::committer::Outcome;
use crate::publication::Head;
use client::wire;
use merkle::{HashSource, LeafIndex, ProveError, prove_inclusion};
use note::TlogProof;
use receipt::Receipt;

/// The proof that leaf `index` is under `head`, as `tlog-proof` text.
///
/// # Errors
/// [`ProveError`]: the store does not have the hashes that its own head covers.
pub fn proof_text(hashes: &dyn HashSource, index: LeafIndex, head: &Head) -> Result<String, ProveError> {
    let inclusion = prove_inclusion(hashes, index, head.checkpoint().size)?;
    let checkpoint = head.as_ref().clone().into_unverified();
    Ok(TlogProof { extra: None, index, inclusion, checkpoint }.to_string())
}

/// That `receipt` is at `index`, as JSON.
///
/// # Errors
/// As [`proof_text`].
pub fn included(
    hashes: &dyn HashSource,
    receipt: &Receipt,
    index: LeafIndex,
    head: &Head,
) -> Result<wire::Included, ProveError> {
    Ok(wire::Included {
        index: index.0,
        issuer: receipt.issuer().to_string(),
        seq: receipt.seq().0,
        id: receipt.id().to_string(),
        proof: proof_text(hashes, index, head)?,
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
    let wire::Included { index, issuer, seq, id, proof } = included(hashes, receipt, index, head)?;
    Ok(wire::Found { index, issuer, seq, id, proof, entry: receipt.to_string() })
}

/// The verdict on one receipt of a batch.
///
/// # Errors
/// As [`proof_text`].
pub fn verdict(hashes: &dyn HashSource, outcome: &Outcome) -> Result<wire::BatchVerdict, ProveError> {
    Ok(match outcome {
        Outcome::Included { receipt, index, duplicate: false, head } => {
            wire::BatchVerdict::Ok(included(hashes, receipt, *index, head)?)
        }
        Outcome::Included { receipt, index, duplicate: true, head } => {
            wire::BatchVerdict::Duplicate(included(hashes, receipt, *index, head)?)
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
