//! Witness cosignatures of checkpoints (tlog-cosignature), Ed25519 cosignature/v1 and ML-DSA-44.
//!
//! ```text
//! line     — <witness> base64(4 bytes key id || u64 big-endian timestamp || signature)
//!
//! 0x04     64 bytes of Ed25519 over   cosignature/v1\n
//!                                     time <timestamp, decimal seconds since the epoch>\n
//!                                     <the checkpoint's whole text>
//! 0x06     2420 bytes of ML-DSA-44 over what `subtree` says: names, time, size and root, no extension lines
//! ```
//!
//! A witness with both keys signs with each, in lines of their own; their names may be the same, their ids never are.
//!
//! Holds making and checking them. Does not hold when a witness may make one (the witness rule), nor whether a
//! timestamp lies in the future: no clock here.

use crate::checkpoint::Checkpoint;
use crate::key::{KeyId, KeyKind, SigningKey, VerifierKey};
use crate::ml_dsa;
use crate::name::KeyName;
use crate::signed::{NoteSignature, SignedNote};
use crate::subtree::{CosignedTree, timestamped};

/// Latest timestamp: "It MUST NOT exceed 2^63 - 1" (tlog-cosignature, Format).
pub const MAX_TIMESTAMP_S: u64 = (1 << 63) - 1;

/// Bytes of the timestamp before the signature.
const TIMESTAMP_LEN: usize = 8;

/// Most bytes of a cosignature line, its newline included: dash and spaces 5, a name 255, and in base64 a key id, a
/// timestamp and an ML-DSA-44 signature.
pub const MAX_COSIGNATURE_LINE_LEN: usize =
    5 + crate::MAX_NAME_LEN + (4 + TIMESTAMP_LEN + ml_dsa::SIGNATURE_LEN).div_ceil(3) * 4 + 1;

/// A signature line that has the form of a cosignature of a checkpoint. Nothing is verified.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct CosignatureLine {
    signature: NoteSignature,
    timestamp_s: u64,
}

/// A cosignature that was verified, or made, over some checkpoint text.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Cosignature {
    /// The witness's key id.
    pub key_id: KeyId,
    /// The witness's key name.
    pub name: KeyName,
    /// When the witness signed, seconds since the epoch by its clock. Never 0.
    pub timestamp_s: u64,
    /// The signature line, without its newline.
    pub line: String,
}

/// A line under a known witness's name and key id that is not its cosignature of this text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the cosignature line of witness {witness} (counted from 0) is bad: {reason}")]
pub struct BadCosignature {
    /// Place of the witness in the list of keys that was given.
    pub witness: usize,
    /// What is wrong.
    pub reason: CosignatureError,
}

/// Why there is no cosignature.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CosignatureError {
    /// Not `— <name> <base64>` with as many bytes in it as the key's kind calls for.
    #[error(
        "not a cosignature line of this kind: it must read \"— <name> <base64>\", of 76 bytes for Ed25519, of 2432 for ML-DSA-44"
    )]
    Malformed,
    /// A timestamp of 0: it claims no time, so it cannot say that a head was the newest.
    #[error("the timestamp is 0; a witness states when it looked")]
    ZeroTimestamp,
    /// A timestamp beyond [`MAX_TIMESTAMP_S`].
    #[error("the timestamp exceeds 2^63 - 1")]
    TimestampTooLarge,
    /// Another key's name or id.
    #[error("the line is not under this witness's name and key id")]
    OtherKey,
    /// The signature does not verify over this text at this time.
    #[error("the signature does not verify; the line belongs to another checkpoint, was altered or is forged")]
    BadSignature,
    /// The key is not a witness key.
    #[error("the key is not of type 0x04 or 0x06; a witness cosigns with a key made for that alone")]
    WrongKeyKind,
    /// ML-DSA-44 covers a tree, and the text is no checkpoint.
    #[error("the text is not a checkpoint, so there is no tree that an ML-DSA-44 cosignature could cover")]
    NotACheckpoint,
    /// The format has one byte for the length of the log's origin.
    #[error("the log's origin is longer than 255 bytes; ML-DSA-44 cosignatures have no room for it")]
    OriginTooLong,
    /// A time beside a subtree that does not start at leaf 0, which is never the newest tree.
    #[error("the timestamp of a subtree that does not start at leaf 0 must be 0")]
    TimedSubtree,
}

impl CosignatureLine {
    /// The signature line, parsed.
    pub fn signature(&self) -> &NoteSignature {
        &self.signature
    }

    /// The name of the witness key that is said to have signed.
    pub fn name(&self) -> &KeyName {
        &self.signature.name
    }

    /// The id of that key.
    pub fn key_id(&self) -> KeyId {
        self.signature.key_id
    }

    /// The stated time, seconds since the epoch: 1 to [`MAX_TIMESTAMP_S`].
    pub fn timestamp_s(&self) -> u64 {
        self.timestamp_s
    }

    /// The line, without its newline.
    pub fn line(&self) -> String {
        self.signature.line()
    }

    /// Checks that `witness` cosigned the checkpoint with this `text` (final newline included). With ML-DSA-44 that
    /// holds for every text with the same first three lines: the lines after them are not covered (see
    /// [`crate::subtree`]).
    pub fn verify(&self, text: &str, witness: &VerifierKey) -> Result<Cosignature, CosignatureError> {
        if !witness.kind().cosigns() {
            return Err(CosignatureError::WrongKeyKind);
        }
        if !self.signature.claims(witness) {
            return Err(CosignatureError::OtherKey);
        }
        let signature = &self.signature.blob[TIMESTAMP_LEN..];
        if kind_of_signature(signature) != Some(witness.kind()) {
            return Err(CosignatureError::Malformed);
        }
        let message = signed_message(text, witness.kind(), witness.name(), self.timestamp_s)?;
        if !witness.verify(&message, signature) {
            return Err(CosignatureError::BadSignature);
        }
        Ok(Cosignature {
            key_id: self.key_id(),
            name: self.name().clone(),
            timestamp_s: self.timestamp_s,
            line: self.line(),
        })
    }
}

impl TryFrom<&NoteSignature> for CosignatureLine {
    type Error = CosignatureError;

    fn try_from(signature: &NoteSignature) -> Result<CosignatureLine, CosignatureError> {
        let (timestamp, rest) =
            signature.blob.split_first_chunk::<TIMESTAMP_LEN>().ok_or(CosignatureError::Malformed)?;
        kind_of_signature(rest).ok_or(CosignatureError::Malformed)?;
        let timestamp_s = allowed_timestamp(u64::from_be_bytes(*timestamp))?;
        Ok(CosignatureLine { signature: signature.clone(), timestamp_s })
    }
}

impl Cosignature {
    /// The line, parsed, as [`crate::SignedCheckpoint::with_cosignatures`] takes it.
    pub fn to_line(&self) -> Result<CosignatureLine, CosignatureError> {
        parse_cosignature_line(&self.line)
    }
}

/// Reads one cosignature line, with or without the newline that ends it in a note or a witness's answer.
pub fn parse_cosignature_line(line: &str) -> Result<CosignatureLine, CosignatureError> {
    let line = line.strip_suffix('\n').unwrap_or(line);
    let signature = NoteSignature::parse(line).ok_or(CosignatureError::Malformed)?;
    CosignatureLine::try_from(&signature)
}

/// Cosigns a checkpoint's `text` (final newline included) at `timestamp_s`, with a key of type `0x04` or `0x06`.
///
/// Whether the text may be cosigned at all is decided before, and made durable before the result leaves the process.
pub fn cosign(text: &str, witness: &SigningKey, timestamp_s: u64) -> Result<Cosignature, CosignatureError> {
    let whose = (witness.name(), witness.id(), witness.kind());
    signed_by(text, whose, timestamp_s, |message| Ok(witness.sign(message)))
}

/// The same with the private half of `witness` somewhere else: `sign` is handed the message and answers its signature,
/// which is believed only as far as it verifies.
///
/// # Errors
/// Those of [`cosign`], those of `sign`, and [`CosignatureError::BadSignature`] where it answers something else.
pub fn cosign_with<E: From<CosignatureError>>(
    text: &str,
    witness: &VerifierKey,
    timestamp_s: u64,
    sign: impl FnOnce(&[u8]) -> Result<Vec<u8>, E>,
) -> Result<Cosignature, E> {
    let whose = (witness.name(), witness.id(), witness.kind());
    let unchecked = signed_by(text, whose, timestamp_s, sign)?;
    Ok(unchecked.to_line()?.verify(text, witness)?)
}

fn signed_by<E: From<CosignatureError>>(
    text: &str,
    (name, key_id, kind): (&KeyName, KeyId, KeyKind),
    timestamp_s: u64,
    sign: impl FnOnce(&[u8]) -> Result<Vec<u8>, E>,
) -> Result<Cosignature, E> {
    if !kind.cosigns() {
        return Err(CosignatureError::WrongKeyKind.into());
    }
    let timestamp_s = allowed_timestamp(timestamp_s)?;
    let message = signed_message(text, kind, name, timestamp_s)?;
    let blob = timestamped(timestamp_s, &sign(&message)?);
    let signature = NoteSignature { name: name.clone(), key_id, blob };
    Ok(Cosignature { key_id, line: signature.line(), name: signature.name, timestamp_s })
}

/// Checks every line of `note` that stands under the name and id of one of `witnesses`, in the note's order: the
/// witness's place with the cosignature, or what is bad about the line. Lines of other keys are ignored. A witness
/// with several lines appears several times.
pub fn verified_cosignatures(
    note: &SignedNote,
    witnesses: &[VerifierKey],
) -> Vec<Result<(usize, Cosignature), BadCosignature>> {
    let mut found = Vec::new();
    for signature in note.signatures() {
        for (place, witness) in witnesses.iter().enumerate().filter(|(_, witness)| signature.claims(witness)) {
            let checked = CosignatureLine::try_from(signature).and_then(|line| line.verify(note.text(), witness));
            found.push(match checked {
                Ok(cosignature) => Ok((place, cosignature)),
                Err(reason) => Err(BadCosignature { witness: place, reason }),
            });
        }
    }
    found
}

fn allowed_timestamp(timestamp_s: u64) -> Result<u64, CosignatureError> {
    match timestamp_s {
        0 => Err(CosignatureError::ZeroTimestamp),
        1..=MAX_TIMESTAMP_S => Ok(timestamp_s),
        _ => Err(CosignatureError::TimestampTooLarge),
    }
}

/// The kind of key that makes signatures of this length.
fn kind_of_signature(signature: &[u8]) -> Option<KeyKind> {
    match signature.len() {
        64 => Some(KeyKind::CosignatureV1),
        ml_dsa::SIGNATURE_LEN => Some(KeyKind::MlDsa44),
        _ => None,
    }
}

/// tlog-cosignature, the signed message of the kind.
fn signed_message(
    text: &str,
    kind: KeyKind,
    cosigner: &KeyName,
    timestamp_s: u64,
) -> Result<Vec<u8>, CosignatureError> {
    match kind {
        KeyKind::Ed25519 => Err(CosignatureError::WrongKeyKind),
        KeyKind::CosignatureV1 => Ok(format!("cosignature/v1\ntime {timestamp_s}\n{text}").into_bytes()),
        KeyKind::MlDsa44 => {
            let checkpoint = Checkpoint::parse(text).map_err(|_| CosignatureError::NotACheckpoint)?;
            CosignedTree::of(&checkpoint).message(cosigner, timestamp_s)
        }
    }
}
