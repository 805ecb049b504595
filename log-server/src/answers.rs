//! What the log answers about receipts that it has: proofs, and the JSON around them.

use crate::committer::Outcome;
use crate::located::Located;
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
pub fn verdict(hashes: &dyn HashSource, outcome: &Outcome) -> Result<wire::BatchVerdict, ProveError> {
    Ok(match outcome {
        Outcome::Included { located, duplicate, head } => {
            let included = included(hashes, located, head)?;
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
