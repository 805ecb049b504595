//! Proofs that an entry is in a witnessed log, checkable offline (tlog-proof).
//!
//! ```text
//! c2sp.org/tlog-proof@v1
//! extra <base64>                       (only if there is any)
//! index <decimal>
//! <inclusion proof, base64, one hash a line, leaf's sibling first>
//!                                      (an empty line)
//! <the signed checkpoint, verbatim>
//! ```
//!
//! Holds the format and the whole check of one proof against a policy. Does not hold what the entry says, nor
//! joining cosignatures over different heads (the bundle verifier has the consistency proofs for that).

use crate::checkpoint::{CheckpointError, Origin, SignedCheckpoint, Unverified, Verified};
use crate::cosignature::{BadCosignature, Cosignature, verified_cosignatures};
use crate::key::VerifierKey;
use crate::name::KeyName;
use crate::policy::Policy;
use crate::signed::{MAX_NOTE_LEN, SignedNote};
use merkle::{Hash, InclusionProof, LeafIndex, MAX_PROOF_HASHES, ProofError};
use std::collections::BTreeSet;
use std::fmt;

/// Largest proof in bytes: the largest note, and as much again for hashes (64 lines of 45 bytes) and extra data.
pub const MAX_PROOF_LEN: usize = 2 * MAX_NOTE_LEN;

const MAGIC: &str = "c2sp.org/tlog-proof@v1";

/// A proof as read. Nothing is verified; `extra` stays unauthenticated even after [`TlogProof::verify`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlogProof {
    /// Opaque data of the application. Empty data is the same as none. Never authenticated.
    pub extra: Option<Vec<u8>>,
    /// Where in the log the entry is said to be.
    pub index: LeafIndex,
    /// From the entry's sibling up to the root's child.
    pub inclusion: InclusionProof,
    /// The head whose tree holds the entry.
    pub checkpoint: SignedCheckpoint<Unverified>,
}

/// What a proof proves, once the policy's log signed the head and the entry is under it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VerifiedProof {
    /// The head, signed by a listed log.
    pub checkpoint: SignedCheckpoint<Verified>,
    /// Place of that log in the policy.
    pub log: usize,
    /// Places in the policy of the witnesses that cosigned this head, ascending, each once.
    pub cosigned_by: Vec<usize>,
    /// Their cosignatures, each with the witness's place, in the note's order.
    pub cosignatures: Vec<(usize, Cosignature)>,
    /// Lines under a listed witness's key that are bad. Somebody made them; report them.
    pub bad_cosignatures: Vec<BadCosignature>,
    /// Whether `cosigned_by` satisfies the policy's quorum. Always true after [`TlogProof::verify`].
    pub quorum_met: bool,
}

/// Why bytes are no proof.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProofFormatError {
    /// More than [`MAX_PROOF_LEN`] bytes.
    #[error("the proof is longer than {MAX_PROOF_LEN} bytes")]
    TooLong,
    /// Not UTF-8.
    #[error("the proof is not UTF-8")]
    NotUtf8,
    /// The first line is another.
    #[error("not a tlog-proof: its first line must be {MAGIC:?}")]
    Magic,
    /// The `extra` line is not canonical base64 of at least one byte.
    #[error("the proof's extra line is not \"extra <base64>\"; leave the line out if there is no extra data")]
    Extra,
    /// No `index` line with a decimal number.
    #[error("the proof's index line is not \"index <decimal number without leading zeroes>\"")]
    Index,
    /// A hash line that is not canonical base64 of 32 bytes.
    #[error("hash {0} of the proof is not canonical base64 of 32 bytes")]
    Hash(usize),
    /// More hashes than any tree is high.
    #[error("the proof has more than {MAX_PROOF_HASHES} hashes")]
    TooManyHashes,
    /// No empty line before the checkpoint.
    #[error("the proof ends before its checkpoint")]
    Truncated,
    /// What follows the empty line is no checkpoint.
    #[error("the proof's checkpoint: {0}")]
    Checkpoint(#[from] CheckpointError),
}

/// Why a proof does not convince under a policy. In the order tested.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProofRefusal {
    /// No signature line is by any log of the policy.
    #[error(
        "no log of the policy signed this checkpoint of {origin:?}; add the log's vkey to the policy if you trust it"
    )]
    NoListedLog {
        /// What the checkpoint says.
        origin: Origin,
    },
    /// A listed log's line stands under another log's origin.
    #[error("the checkpoint carries a line of log {log}, but its origin is {origin:?}; it is not that log's head")]
    WrongOrigin {
        /// What the checkpoint says.
        origin: Origin,
        /// The listed log's name.
        log: KeyName,
    },
    /// A line under a listed log's key does not verify.
    #[error("the signature line of log {log} does not verify; the checkpoint was altered or forged")]
    BadLogSignature {
        /// The listed log's name.
        log: KeyName,
    },
    /// The entry is not under the head: other entry, other index, other proof.
    #[error("the entry is not at index {index} of the checkpoint's tree: {error}")]
    NotIncluded {
        /// Where it was said to be.
        index: LeafIndex,
        /// What the Merkle check found.
        error: ProofError,
    },
    /// The head is the log's and holds the entry, but too few witnesses vouch for it.
    #[error("the entry is in the log, but the witnesses that cosigned ({}) do not satisfy the policy's quorum; fetch the proof again once more have", .0.cosigned_by.len())]
    QuorumNotMet(Box<VerifiedProof>),
}

impl ProofFormatError {
    /// The error in one word that stays the same from version to version, for programs; `vectors/` has it for
    /// each input.
    pub fn code(&self) -> &'static str {
        match self {
            Self::TooLong => "proof-too-long",
            Self::NotUtf8 => "not-utf8",
            Self::Magic => "proof-magic",
            Self::Extra => "proof-extra",
            Self::Index => "proof-index",
            Self::Hash(_) => "proof-hash",
            Self::TooManyHashes => "proof-too-many-hashes",
            Self::Truncated => "proof-truncated",
            Self::Checkpoint(error) => error.code(),
        }
    }
}

impl ProofRefusal {
    /// The error in one word that stays the same from version to version, for programs; `vectors/` has it for
    /// each input.
    pub fn code(&self) -> &'static str {
        match self {
            Self::NoListedLog { .. } => "no-listed-log",
            Self::WrongOrigin { .. } => "wrong-origin",
            Self::BadLogSignature { .. } => "bad-log-signature",
            Self::NotIncluded { .. } => "not-included",
            Self::QuorumNotMet(_) => "quorum-not-met",
        }
    }
}

impl TlogProof {
    /// Reads a proof (tlog-proof, Format).
    pub fn parse(bytes: &[u8]) -> Result<TlogProof, ProofFormatError> {
        if bytes.len() > MAX_PROOF_LEN {
            return Err(ProofFormatError::TooLong);
        }
        let text = std::str::from_utf8(bytes).map_err(|_| ProofFormatError::NotUtf8)?;
        let (head, checkpoint) = text.split_once("\n\n").ok_or(ProofFormatError::Truncated)?;
        let mut lines = head.split('\n');
        if lines.next() != Some(MAGIC) {
            return Err(ProofFormatError::Magic);
        }
        let mut line = lines.next().ok_or(ProofFormatError::Index)?;
        let mut extra = None;
        if let Some(encoded) = line.strip_prefix("extra ") {
            let data = merkle::decode_base64(encoded).filter(|data| !data.is_empty());
            extra = Some(data.ok_or(ProofFormatError::Extra)?);
            line = lines.next().ok_or(ProofFormatError::Index)?;
        }
        let index = line.strip_prefix("index ").and_then(merkle::decimal::parse_u64).ok_or(ProofFormatError::Index)?;
        let mut hashes = Vec::new();
        for line in lines {
            if hashes.len() == MAX_PROOF_HASHES {
                return Err(ProofFormatError::TooManyHashes);
            }
            hashes.push(Hash::from_base64(line).ok_or(ProofFormatError::Hash(hashes.len() + 1))?);
        }
        let checkpoint = SignedCheckpoint::parse(checkpoint.as_bytes())?;
        Ok(TlogProof { extra, index: LeafIndex(index), inclusion: InclusionProof::new(hashes), checkpoint })
    }

    /// Checks everything: a listed log signed the head, `leaf` (the entry's leaf hash) is at the index, and the
    /// witnesses that cosigned satisfy the policy's quorum.
    pub fn verify(&self, leaf: &Hash, policy: &Policy) -> Result<VerifiedProof, ProofRefusal> {
        let verified = self.verify_inclusion(leaf, policy)?;
        if verified.quorum_met { Ok(verified) } else { Err(ProofRefusal::QuorumNotMet(Box::new(verified))) }
    }

    /// The same without asking for the quorum: whoever calls this looks at `quorum_met`, or joins cosignatures of
    /// later heads, before calling the entry witnessed.
    pub fn verify_inclusion(&self, leaf: &Hash, policy: &Policy) -> Result<VerifiedProof, ProofRefusal> {
        let (log, checkpoint) = self.listed_log(policy)?;
        let head = checkpoint.checkpoint();
        self.inclusion
            .verify(leaf, self.index, head.size, &head.root)
            .map_err(|error| ProofRefusal::NotIncluded { index: self.index, error })?;
        let witnesses: Vec<VerifierKey> = policy.witnesses().iter().map(|witness| witness.vkey.clone()).collect();
        let (mut cosignatures, mut bad_cosignatures) = (Vec::new(), Vec::new());
        for line in verified_cosignatures(checkpoint.note(), &witnesses) {
            match line {
                Ok(good) => cosignatures.push(good),
                Err(bad) => bad_cosignatures.push(bad),
            }
        }
        let cosigners: BTreeSet<usize> = cosignatures.iter().map(|(witness, _)| *witness).collect();
        let quorum_met = policy.satisfied_by(&cosigners);
        let cosigned_by = cosigners.into_iter().collect();
        Ok(VerifiedProof { checkpoint, log, cosigned_by, cosignatures, bad_cosignatures, quorum_met })
    }

    /// The listed log that signed the head. A bad line under any listed log's key refuses the whole, as
    /// signed-note advises.
    fn listed_log(&self, policy: &Policy) -> Result<(usize, SignedCheckpoint<Verified>), ProofRefusal> {
        let origin = &self.checkpoint.claimed().origin;
        let mut signed_by = None;
        for (place, log) in policy.logs().iter().enumerate() {
            match self.checkpoint.clone().verify(&log.vkey) {
                Ok(checkpoint) => signed_by = signed_by.or(Some((place, checkpoint))),
                Err(CheckpointError::BadSignature) => {
                    return Err(ProofRefusal::BadLogSignature { log: log.vkey.name().clone() });
                }
                Err(_) => {}
            }
        }
        if let Some(found) = signed_by {
            return Ok(found);
        }
        let claimed = policy.logs().iter().find(|log| self.checkpoint.note().signatures_by(&log.vkey).next().is_some());
        Err(match claimed {
            Some(log) => ProofRefusal::WrongOrigin { origin: origin.clone(), log: log.vkey.name().clone() },
            None => ProofRefusal::NoListedLog { origin: origin.clone() },
        })
    }
}

impl fmt::Display for TlogProof {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_proof(f, self.extra.as_deref(), self.index, &self.inclusion, self.checkpoint.note())
    }
}

/// The text of a proof without extra data, as [`TlogProof`] prints it; for a log, which has the parts at hand.
pub fn proof_text(index: LeafIndex, inclusion: &InclusionProof, head: &SignedCheckpoint<Verified>) -> String {
    // Index and magic take two short lines, a hash 45 bytes.
    let mut text = String::with_capacity(64 + 45 * inclusion.hashes().len() + head.bytes().len());
    write_proof(&mut text, None, index, inclusion, head.note()).expect("writing to a string does not fail");
    text
}

fn write_proof(
    to: &mut dyn fmt::Write,
    extra: Option<&[u8]>,
    index: LeafIndex,
    inclusion: &InclusionProof,
    head: &SignedNote,
) -> fmt::Result {
    writeln!(to, "{MAGIC}")?;
    if let Some(extra) = extra.filter(|extra| !extra.is_empty()) {
        writeln!(to, "extra {}", merkle::encode_base64(extra))?;
    }
    writeln!(to, "index {}", index.0)?;
    for hash in inclusion.hashes() {
        to.write_str(&hash.to_base64())?;
        to.write_char('\n')?;
    }
    write!(to, "\n{head}")
}
