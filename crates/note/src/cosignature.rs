//! Witness cosignatures, Ed25519 cosignature/v1 (tlog-cosignature).
//!
//! ```text
//! line     — <witness> base64(4 bytes key id || u64 big-endian timestamp || 64 bytes signature)
//! signed   cosignature/v1\n
//!          time <timestamp, decimal seconds since the epoch>\n
//!          <the checkpoint's whole text>
//! ```
//!
//! Holds making and checking them. Does not hold when a witness may make one (the witness rule), nor whether a
//! timestamp lies in the future: no clock here.

use crate::key::{KeyId, KeyKind, SigningKey, VerifierKey};
use crate::name::KeyName;
use crate::signed::{NoteSignature, SignedNote};

/// Latest timestamp: "It MUST NOT exceed 2^63 - 1" (tlog-cosignature, Format).
pub const MAX_TIMESTAMP_S: u64 = (1 << 63) - 1;

/// Timestamp and signature, the key id apart.
const BLOB_LEN: usize = 8 + 64;

/// A signature line that has the form of a cosignature/v1. Nothing is verified.
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
    /// Not `— <name> <base64>` with 76 bytes in it.
    #[error("not a cosignature/v1 line: it must read \"— <name> <base64 of 76 bytes>\"")]
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
    #[error("the key is not of type 0x04; a witness cosigns with a key made for that alone")]
    WrongKeyKind,
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

    /// Checks that `witness` cosigned the checkpoint with this `text` (final newline included).
    pub fn verify(&self, text: &str, witness: &VerifierKey) -> Result<Cosignature, CosignatureError> {
        if witness.kind() != KeyKind::CosignatureV1 {
            return Err(CosignatureError::WrongKeyKind);
        }
        if !self.signature.claims(witness) {
            return Err(CosignatureError::OtherKey);
        }
        let signature = self.signature.blob.last_chunk::<64>().ok_or(CosignatureError::Malformed)?;
        if !witness.verify(signed_message(text, self.timestamp_s).as_bytes(), signature) {
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
        if signature.blob.len() != BLOB_LEN {
            return Err(CosignatureError::Malformed);
        }
        let timestamp = signature.blob.first_chunk::<8>().ok_or(CosignatureError::Malformed)?;
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

/// Cosigns a checkpoint's `text` (final newline included) at `timestamp_s`, with a key of type `0x04`.
///
/// Whether the text may be cosigned at all is decided before, and made durable before the result leaves the process.
pub fn cosign(text: &str, witness: &SigningKey, timestamp_s: u64) -> Result<Cosignature, CosignatureError> {
    if witness.kind() != KeyKind::CosignatureV1 {
        return Err(CosignatureError::WrongKeyKind);
    }
    let timestamp_s = allowed_timestamp(timestamp_s)?;
    let mut blob = Vec::with_capacity(BLOB_LEN);
    blob.extend_from_slice(&timestamp_s.to_be_bytes());
    blob.extend_from_slice(&witness.sign(signed_message(text, timestamp_s).as_bytes()));
    let signature = NoteSignature { name: witness.name().clone(), key_id: witness.id(), blob };
    Ok(Cosignature { key_id: signature.key_id, line: signature.line(), name: signature.name, timestamp_s })
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

/// tlog-cosignature, Ed25519 signed message.
fn signed_message(text: &str, timestamp_s: u64) -> String {
    format!("cosignature/v1\ntime {timestamp_s}\n{text}")
}
