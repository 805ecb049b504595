//! What an ML-DSA-44 cosignature covers (tlog-cosignature, ML-DSA-44 signed message), and cosignatures of subtrees.
//!
//! ```text
//! line     — <witness> base64(4 bytes key id || u64 big-endian timestamp || 2420 bytes signature)
//! signed   "subtree/v1\n\0" || u8 length, cosigner's name || u64 timestamp || u8 length, log's origin
//!          || u64 start || u64 end || 32 bytes hash                             (all numbers big-endian)
//! ```
//!
//! A checkpoint is the subtree from leaf 0 to its size. *Its extension lines are not in the message*: of two
//! checkpoints that differ in nothing else, the same line is a good cosignature of both. That takes nothing away from
//! what a cosignature says, which is about the tree: the log's own signature covers the whole text, and nobody is
//! asked to believe an extension line because of a witness. It does mean that an ML-DSA line is no evidence that the
//! witness saw a certain text, where an Ed25519 line is.
//!
//! Holds the bytes, and cosignatures with a timestamp of 0, which speak of a subtree and of no time. Does not hold
//! cosignatures of checkpoints with a time (`cosignature`), nor when either may be made.

use crate::checkpoint::{Checkpoint, Origin};
use crate::cosignature::CosignatureError;
use crate::key::{KeyKind, SigningKey, VerifierKey};
use crate::ml_dsa::SIGNATURE_LEN;
use crate::name::KeyName;
use crate::signed::NoteSignature;
use merkle::Hash;

const LABEL: &[u8; 12] = b"subtree/v1\n\0";

/// A range of a log's leaves with its root. Data: who says so is a matter of signatures.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CosignedTree {
    /// Which log.
    pub origin: Origin,
    /// The first leaf.
    pub start: u64,
    /// The leaf after the last one. For a checkpoint its size, and so 0 for an empty tree.
    pub end: u64,
    /// The root over the leaves from `start` to before `end`.
    pub hash: Hash,
}

impl CosignedTree {
    /// The whole tree under a checkpoint: everything that it says, its extension lines apart.
    pub fn of(checkpoint: &Checkpoint) -> CosignedTree {
        CosignedTree { origin: checkpoint.origin.clone(), start: 0, end: checkpoint.size.0, hash: checkpoint.root.0 }
    }

    /// Cosigns the tree at no time: the line for an answer of `sign-subtree`.
    ///
    /// Whether the tree may be cosigned at all is decided before.
    ///
    /// # Errors
    /// When the key is not of type `0x06`, or the origin too long for the format.
    pub fn cosign(&self, witness: &SigningKey) -> Result<NoteSignature, CosignatureError> {
        if witness.kind() != KeyKind::MlDsa44 {
            return Err(CosignatureError::WrongKeyKind);
        }
        let blob = timestamped(0, &witness.sign(&self.message(witness.name(), 0)?));
        Ok(NoteSignature { name: witness.name().clone(), key_id: witness.id(), blob })
    }

    /// Checks that `line` is a cosignature of this tree by `witness`, and returns its time in seconds since the epoch;
    /// 0 where it speaks of none.
    ///
    /// # Errors
    /// When it is not, and for a time beyond [`crate::MAX_TIMESTAMP_S`], or one other than 0 with a subtree that does
    /// not start at leaf 0.
    pub fn verify(&self, line: &NoteSignature, witness: &VerifierKey) -> Result<u64, CosignatureError> {
        if witness.kind() != KeyKind::MlDsa44 {
            return Err(CosignatureError::WrongKeyKind);
        }
        if !line.claims(witness) {
            return Err(CosignatureError::OtherKey);
        }
        let (timestamp, signature) = line.blob.split_first_chunk::<8>().ok_or(CosignatureError::Malformed)?;
        if signature.len() != SIGNATURE_LEN {
            return Err(CosignatureError::Malformed);
        }
        let timestamp_s = u64::from_be_bytes(*timestamp);
        let message = self.message(witness.name(), timestamp_s)?;
        if witness.verify(&message, signature) { Ok(timestamp_s) } else { Err(CosignatureError::BadSignature) }
    }

    /// The `cosigned_message`.
    pub(crate) fn message(&self, cosigner: &KeyName, timestamp_s: u64) -> Result<Vec<u8>, CosignatureError> {
        if timestamp_s > crate::MAX_TIMESTAMP_S {
            return Err(CosignatureError::TimestampTooLarge);
        }
        if self.start != 0 && timestamp_s != 0 {
            return Err(CosignatureError::TimedSubtree);
        }
        let mut message = LABEL.to_vec();
        push_name(&mut message, cosigner.as_str())?;
        message.extend_from_slice(&timestamp_s.to_be_bytes());
        push_name(&mut message, self.origin.as_str())?;
        message.extend_from_slice(&self.start.to_be_bytes());
        message.extend_from_slice(&self.end.to_be_bytes());
        message.extend_from_slice(&self.hash.0);
        Ok(message)
    }
}

/// The `timestamped_signature` of either kind.
pub(crate) fn timestamped(timestamp_s: u64, signature: &[u8]) -> Vec<u8> {
    let mut blob = Vec::with_capacity(8 + signature.len());
    blob.extend_from_slice(&timestamp_s.to_be_bytes());
    blob.extend_from_slice(signature);
    blob
}

/// One byte of length, and the name. Key names are at most 255 bytes, origins of other makes may be longer.
fn push_name(message: &mut Vec<u8>, name: &str) -> Result<(), CosignatureError> {
    message.push(u8::try_from(name.len()).map_err(|_| CosignatureError::OriginTooLong)?);
    message.extend_from_slice(name.as_bytes());
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;
    use sha2::{Digest, Sha256};

    #[test]
    fn the_signed_message_is_that_of_other_makes() {
        let name = KeyName::new("example.com/mldsa-log").unwrap();
        let tree = CosignedTree {
            origin: Origin::new(name.as_str()).unwrap(),
            start: 0,
            end: 1,
            hash: merkle::leaf_hash(b"testonly"),
        };
        let message = tree.message(&name, 0).unwrap();
        assert_eq!(message.len(), 112);
        assert_eq!(
            hex::encode(Sha256::digest(&message)),
            "06d5bc790cbc8cfadfab7ea5c5e9b7ef0c377a6693b55d3429328ce2c61ba267"
        );
    }

    #[test]
    fn no_number_and_no_name_can_be_taken_for_another() {
        let tree = |origin: &str, start, end| CosignedTree {
            origin: Origin::new(origin).unwrap(),
            start,
            end,
            hash: Hash([7; 32]),
        };
        let (w, wl) = (KeyName::new("w").unwrap(), KeyName::new("wl").unwrap());
        let mut messages: Vec<Vec<u8>> = [
            tree("lo", 0, 2).message(&w, 0),
            tree("lo", 1, 2).message(&w, 0),
            tree("lo", 2, 1).message(&w, 0),
            tree("lo", 0, 2).message(&w, 1),
            tree("o", 0, 2).message(&wl, 0),
            tree("olo", 0, 2).message(&w, 0),
        ]
        .into_iter()
        .map(Result::unwrap)
        .collect();
        messages.sort();
        messages.dedup();
        assert_eq!(messages.len(), 6);
    }

    #[test]
    fn what_the_format_cannot_say_is_refused() {
        let w = KeyName::new("w").unwrap();
        let tree = |origin: String, start| CosignedTree {
            origin: Origin::new(&origin).unwrap(),
            start,
            end: 9,
            hash: Hash([7; 32]),
        };
        assert!(tree("x".repeat(255), 0).message(&w, crate::MAX_TIMESTAMP_S).is_ok());
        assert_eq!(tree("x".repeat(256), 0).message(&w, 1), Err(CosignatureError::OriginTooLong));
        assert_eq!(tree("x".into(), 0).message(&w, 1 << 63), Err(CosignatureError::TimestampTooLarge));
        assert_eq!(tree("x".into(), 8).message(&w, 1), Err(CosignatureError::TimedSubtree));
    }
}
