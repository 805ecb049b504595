//! Evidence that a log leaves out an entry that it proved to hold (section 7, `omitted-receipt`).
//!
//! ```text
//! {"kind":"omitted-receipt","log":"<vkey>","proof":"<tlog-proof>","entry":"<base64>",
//!  "presented":{"checkpoint":"<checkpoint>","leaf":"<base64>","proof":["<base64>",…]}}
//! ```
//!
//! `proof` is the kept proof: an index, a head that the log signed, and that `entry` is there under it. With `presented`
//! the document convicts the log by its key alone: under a second head that it signed, the leaf at the same index is
//! another one, and no append-only log has two entries in one place. No consistency proof is needed, whatever the two
//! sizes are.
//!
//! Without `presented` it convicts nobody by itself. That what the log showed somebody ends before the index has no
//! signature under it: a smaller head that the log signed is an older one, and honest. Such a document says what must
//! be at the index, and whoever reads it can look there.

use crate::fork::Accusation;
use crate::log_admitted::EntryBytes;
use crate::receipt::Receipt;
use merkle::{Hash, HashSource, InclusionProof, LeafIndex, ProofError, ProveError, leaf_hash, prove_inclusion};
use note::{CheckpointError, ProofFormatError, SignedCheckpoint, TlogProof, Verified, VerifierKey};
use serde::{Deserialize, Serialize};

/// An entry that a log proved to hold, and what it presented in its place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OmittedReceipt {
    kind: Kind,
    log: VerifierKey,
    proof: String,
    entry: EntryBytes,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    presented: Option<Presented>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Kind {
    #[serde(rename = "omitted-receipt")]
    OmittedReceipt,
}

/// The other leaf at the index, under another head.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Presented {
    checkpoint: String,
    leaf: Hash,
    proof: Vec<Hash>,
}

/// Why a document is no evidence. Whoever presents it is to blame, never the log it names.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OmittedReceiptError {
    /// The kept proof is none, or not in its one form.
    #[error("the kept proof is none: {0}")]
    Proof(#[from] ProofFormatError),
    /// The kept proof carries what nobody signed, which could be changed without anybody noticing.
    #[error("the kept proof carries an extra line, which nobody signed; leave it out")]
    Extra,
    /// A head is not the log's.
    #[error("the {which} head is not one that the named key signed: {reason}")]
    NotSigned {
        /// `proven` or `presented`.
        which: &'static str,
        /// What is wrong with it.
        reason: CheckpointError,
    },
    /// An entry is not shown to be at the index.
    #[error("the {which} entry is not shown to be at index {index} under its head: {reason}")]
    NotIncluded {
        /// `proven` or `presented`.
        which: &'static str,
        /// The index of the kept proof.
        index: LeafIndex,
        /// What is wrong with its proof.
        reason: ProofError,
    },
    /// The log presented the very entry.
    #[error("what the log presented at index {0} is the entry itself: nothing is left out")]
    Same(LeafIndex),
    /// A hash for a proof is missing.
    #[error("what the log presented cannot be proven: {0}")]
    Unproven(#[from] ProveError),
    /// The leaf itself is missing from the tree it is to be shown in.
    #[error("what the log presented at index {0} cannot be proven: its leaf hash is missing")]
    Missing(LeafIndex),
}

impl OmittedReceipt {
    /// Evidence that `entry`, which `kept` proves to be in the log of `log`, is left out. `presented` is a head that the
    /// log signed too, with the hashes of its tree, which need not be trusted; without it the document convicts nobody.
    ///
    /// # Errors
    /// [`OmittedReceiptError`]: the entry is not proven, or `presented` does not prove another one in its place.
    pub fn make(
        log: &VerifierKey,
        kept: &TlogProof,
        entry: &[u8],
        presented: Option<(&SignedCheckpoint<Verified>, &dyn HashSource)>,
    ) -> Result<OmittedReceipt, OmittedReceiptError> {
        let reason = |reason| OmittedReceiptError::NotSigned { which: "proven", reason };
        let signed = kept.checkpoint.clone().verify(log).map_err(reason)?;
        // Others' lines would only blur it, and what is unsigned has no place in it.
        let proof = TlogProof { extra: None, checkpoint: signed.log_signed_only().into_unverified(), ..kept.clone() };
        let present = |(head, tree): (&SignedCheckpoint<Verified>, &dyn HashSource)| {
            Ok::<_, OmittedReceiptError>(Presented {
                checkpoint: String::from_utf8_lossy(head.log_signed_only().bytes()).into_owned(),
                leaf: tree.subtree(0, kept.index.0).ok_or(OmittedReceiptError::Missing(kept.index))?,
                proof: prove_inclusion(tree, kept.index, head.checkpoint().size)?.hashes().to_vec(),
            })
        };
        let document = OmittedReceipt {
            kind: Kind::OmittedReceipt,
            log: log.clone(),
            proof: proof.to_string(),
            entry: EntryBytes(entry.to_vec()),
            presented: presented.map(present).transpose()?,
        };
        document.check().map(|_| document)
    }

    /// The log it is about. Not checked: [`OmittedReceipt::check`] does that.
    pub fn log(&self) -> &VerifierKey {
        &self.log
    }

    /// Whether the document, if it checks, shows a lie by itself. Otherwise it says what must be at an index, and the
    /// reader has to look.
    pub fn convicts(&self) -> bool {
        self.presented.is_some()
    }

    /// Where the entry was proven to be, and its bytes. Not checked.
    pub fn proven(&self) -> Option<(LeafIndex, &[u8])> {
        Some((TlogProof::parse(self.proof.as_bytes()).ok()?.index, self.entry.0.as_slice()))
    }

    /// Checks the document by itself.
    ///
    /// # Errors
    /// [`OmittedReceiptError`]: it shows nothing.
    pub fn check(&self) -> Result<Accusation, OmittedReceiptError> {
        let kept = TlogProof::parse(self.proof.as_bytes())?;
        if kept.extra.is_some() {
            return Err(OmittedReceiptError::Extra);
        }
        let index = kept.index;
        let leaf = leaf_hash(&self.entry.0);
        let not_included = |which| move |reason| OmittedReceiptError::NotIncluded { which, index, reason };
        let head = self.signed("proven", kept.checkpoint)?;
        let (size, root) = (head.checkpoint().size, head.checkpoint().root);
        kept.inclusion.verify(&leaf, index, size, &root).map_err(not_included("proven"))?;
        let name = self.log.name();
        let what = self.told();
        let Some(presented) = &self.presented else {
            return Ok(Accusation {
                key: self.log.clone(),
                sentence: format!("The log {name} signed at size {size} that its entry {index} is {what}."),
                not_shown: format!(
                    "That the log leaves it out: nobody signs what is not there. Ask the log for its entry {index}; \
                     any other answer than this entry, or none under its newest head, is the lie."
                ),
            });
        };
        if presented.leaf == leaf {
            return Err(OmittedReceiptError::Same(index));
        }
        let other = SignedCheckpoint::parse(presented.checkpoint.as_bytes());
        let other = other.map_err(|reason| OmittedReceiptError::NotSigned { which: "presented", reason })?;
        let other = self.signed("presented", other)?;
        let (other_size, other_root) = (other.checkpoint().size, other.checkpoint().root);
        let proof = InclusionProof::new(presented.proof.clone());
        proof.verify(&presented.leaf, index, other_size, &other_root).map_err(not_included("presented"))?;
        Ok(Accusation {
            key: self.log.clone(),
            sentence: format!(
                "The log {name} signed two histories: at size {size} its entry {index} is {what}, and at size \
                 {other_size} its entry {index} is another one, with the leaf hash {}.",
                presented.leaf.to_hex()
            ),
            not_shown: "Which of the two is the true one, and what the other one says.".to_owned(),
        })
    }

    fn signed(
        &self,
        which: &'static str,
        head: SignedCheckpoint,
    ) -> Result<SignedCheckpoint<Verified>, OmittedReceiptError> {
        head.verify(&self.log).map_err(|reason| OmittedReceiptError::NotSigned { which, reason })
    }

    fn told(&self) -> String {
        match Receipt::parse(&self.entry.0) {
            Ok(receipt) => {
                format!("the receipt of {} with seq {}, id {}", receipt.issuer(), receipt.seq(), receipt.id())
            }
            Err(_) => format!("the entry with the leaf hash {}", leaf_hash(&self.entry.0).to_hex()),
        }
    }
}

#[cfg(test)]
mod tests;
