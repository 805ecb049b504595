//! Proofs as a log offers them, and the one way in which they become proofs that are kept.
//!
//! An [`OfferedProof`] is text that parsed. A [`CheckedProof`] is one whose checkpoint the log's key signed and
//! whose tree holds a certain entry; only that can acknowledge a receipt. Whether witnesses vouch for the head is
//! asked with a policy (`note::TlogProof::verify`), not here.

use merkle::{Hash, LeafIndex, ProofError};
use note::{CheckpointError, ProofFormatError, SignedCheckpoint, TlogProof, Verified, VerifierKey};
use std::sync::Arc;

/// A proof as it came from a log. Nothing is verified.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OfferedProof {
    text: String,
    proof: TlogProof,
}

/// A proof that was checked: the log's key signed the head, and the entry is in its tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckedProof {
    text: String,
    leaf: Hash,
    index: LeafIndex,
    checkpoint: Arc<SignedCheckpoint<Verified>>,
}

/// Checks proofs of one log. A batch is answered with many proofs under one head: its signature is computed once.
#[derive(Debug)]
pub struct ProofCheck {
    log: VerifierKey,
    /// The head that was found good last.
    last: Option<Arc<SignedCheckpoint<Verified>>>,
}

/// Why an offered proof does not prove that the log holds the entry. The log, or whoever answered in its place,
/// is to blame.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProofFault {
    /// Not a `tlog-proof`.
    #[error("what the log sent as a proof is none: {0}")]
    Format(#[from] ProofFormatError),
    /// The head is not the log's.
    #[error("the proof's checkpoint is not this log's: {0}")]
    Head(#[from] CheckpointError),
    /// The entry is not in the tree.
    #[error("the proof does not show the entry at index {index}: {error}")]
    NotIncluded {
        /// Where it was said to be.
        index: LeafIndex,
        /// What the Merkle check found.
        error: ProofError,
    },
}

impl OfferedProof {
    /// Reads a proof.
    ///
    /// # Errors
    /// [`ProofFault::Format`].
    pub fn parse(text: &str) -> Result<Self, ProofFault> {
        Ok(Self { proof: TlogProof::parse(text.as_bytes())?, text: text.to_owned() })
    }

    /// The proof, byte for byte.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The proof, read.
    pub fn proof(&self) -> &TlogProof {
        &self.proof
    }

    /// Checks that `log` signed the head and that `entry` is in its tree.
    ///
    /// # Errors
    /// [`ProofFault`].
    pub fn check(&self, entry: &[u8], log: &VerifierKey) -> Result<CheckedProof, ProofFault> {
        ProofCheck::new(log.clone()).check(self, entry)
    }

    /// The Merkle half of [`OfferedProof::check`]: that `entry` is under the head, whoever signed that. Returns the
    /// entry's leaf hash.
    ///
    /// # Errors
    /// [`ProofFault::NotIncluded`].
    pub fn check_inclusion(&self, entry: &[u8]) -> Result<Hash, ProofFault> {
        let leaf = merkle::leaf_hash(entry);
        let (index, head) = (self.proof.index, self.proof.checkpoint.claimed());
        match self.proof.inclusion.verify(&leaf, index, head.size, &head.root) {
            Ok(()) => Ok(leaf),
            Err(error) => Err(ProofFault::NotIncluded { index, error }),
        }
    }
}

impl ProofCheck {
    /// For proofs of `log`.
    pub fn new(log: VerifierKey) -> Self {
        Self { log, last: None }
    }

    /// Checks that the log signed the head of `offered` and that `entry` is in its tree.
    ///
    /// # Errors
    /// [`ProofFault`].
    pub fn check(&mut self, offered: &OfferedProof, entry: &[u8]) -> Result<CheckedProof, ProofFault> {
        let head = &offered.proof.checkpoint;
        // The same bytes under the same key: the same answer.
        let checkpoint = match &self.last {
            Some(last) if last.note() == head.note() => Arc::clone(last),
            _ => Arc::clone(self.last.insert(Arc::new(head.clone().verify(&self.log)?))),
        };
        let leaf = offered.check_inclusion(entry)?;
        Ok(CheckedProof { text: offered.text.clone(), leaf, index: offered.proof.index, checkpoint })
    }
}

impl CheckedProof {
    /// The proof, byte for byte.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The leaf hash of the entry that it proves, which is the receipt's id.
    pub fn leaf(&self) -> Hash {
        self.leaf
    }

    /// Where in the log the entry is.
    pub fn index(&self) -> LeafIndex {
        self.index
    }

    /// The head whose tree holds it.
    pub fn checkpoint(&self) -> &SignedCheckpoint<Verified> {
        &self.checkpoint
    }

    /// The log that signed the head.
    pub fn log_key(&self) -> &VerifierKey {
        self.checkpoint.log_key()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;
    use merkle::{MemoryTree, TreeSize, prove_inclusion};
    use note::{Checkpoint, KeyKind, KeyName, Origin, SigningKey, sign_checkpoint};

    fn log_key(name: &str, seed: u8) -> SigningKey {
        SigningKey::from_seed(KeyName::new(name).unwrap(), KeyKind::Ed25519, [seed; 32])
    }

    fn proof_of(index: u64, log: &SigningKey) -> OfferedProof {
        let mut tree = MemoryTree::new();
        for number in 0..5u8 {
            tree.push(merkle::leaf_hash(&[number]));
        }
        let head = Checkpoint::new(Origin::from(log.name()), TreeSize(5), tree.root());
        let checkpoint = sign_checkpoint(&head, log).unwrap().into_unverified();
        let inclusion = prove_inclusion(&tree, LeafIndex(index), TreeSize(5)).unwrap();
        let proof = TlogProof { extra: None, index: LeafIndex(index), inclusion, checkpoint };
        OfferedProof::parse(&proof.to_string()).unwrap()
    }

    #[test]
    fn a_proof_of_the_entry_under_the_logs_own_head_is_kept_byte_for_byte() {
        let log = log_key("log.example/a", 1);
        let offered = proof_of(3, &log);
        let checked = offered.check(&[3], &log.verifier()).unwrap();
        assert_eq!(
            (checked.index(), checked.leaf(), checked.text()),
            (LeafIndex(3), merkle::leaf_hash(&[3]), offered.text())
        );
    }

    #[test]
    fn a_head_that_was_found_good_vouches_for_no_other_head_and_for_no_other_entry() {
        let (log, forger) = (log_key("log.example/a", 1), log_key("log.example/a", 2));
        let mut check = ProofCheck::new(log.verifier());
        for index in 0..5 {
            assert_eq!(check.check(&proof_of(index, &log), &[index as u8]).unwrap().index(), LeafIndex(index));
            assert!(matches!(check.check(&proof_of(index, &log), &[9]), Err(ProofFault::NotIncluded { .. })));
            let forged = check.check(&proof_of(index, &forger), &[index as u8]);
            assert!(matches!(forged, Err(ProofFault::Head(CheckpointError::Unsigned))), "{forged:?}");
        }
    }

    #[test]
    fn a_proof_of_another_entry_or_under_another_logs_head_is_refused() {
        let log = log_key("log.example/a", 1);
        let offered = proof_of(3, &log);
        assert!(matches!(
            offered.check(&[4], &log.verifier()),
            Err(ProofFault::NotIncluded { index: LeafIndex(3), .. })
        ));
        let same_name = log_key("log.example/a", 2).verifier();
        assert!(matches!(offered.check(&[3], &same_name), Err(ProofFault::Head(CheckpointError::Unsigned))));
        let other = log_key("log.example/b", 1).verifier();
        assert!(matches!(offered.check(&[3], &other), Err(ProofFault::Head(CheckpointError::WrongOrigin { .. }))));
        assert!(matches!(OfferedProof::parse("no proof"), Err(ProofFault::Format(_))));
    }
}
