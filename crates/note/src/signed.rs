//! Signed notes: text, a blank line, signature lines.
//!
//! ```text
//! <text, any lines, ends in a newline>
//!                                            <- the LAST blank line ends the text
//! — <key name> <base64(4 bytes key id || signature)>
//! — <key name> <base64(4 bytes key id || signature)>
//! ```
//!
//! Holds splitting, the limits and the check of plain Ed25519 (`0x01`) signatures over the text. Does not
//! hold what the text says (`checkpoint`, and receipts elsewhere) nor timestamped cosignatures.

use crate::check::{SignatureCheck, Strict};
use crate::key::{KeyId, KeyKind, SigningKey, VerifierKey};
use crate::name::KeyName;
use std::fmt;
use std::ops::Range;

/// Largest note in bytes: 64 signatures of nearly 5 kB, the most signed-note expects of a post-quantum
/// one, and 16 times the largest receipt beside them fit.
pub const MAX_NOTE_LEN: usize = 1 << 20;

/// Most signature lines in a note. signed-note asks for at least 16; a log and as many witnesses as a
/// policy has any use for stay below 64.
pub const MAX_SIGNATURES: usize = 64;

/// What every signature line starts with: em dash, space.
const LINE_START: &str = "— ";

/// A well-formed note. Nothing in it is verified: ask [`SignedNote::verify`] with a key you trust.
#[derive(Clone, PartialEq, Eq)]
pub struct SignedNote {
    /// The whole note, as it came.
    whole: String,
    /// Length of the text, its final newline included.
    text_len: usize,
    signatures: Vec<NoteSignature>,
}

/// One signature line. Unverified.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct NoteSignature {
    /// The name of the key that is said to have signed.
    pub name: KeyName,
    /// The id of that key.
    pub key_id: KeyId,
    /// What follows the key id: for Ed25519 64 bytes, for a cosignature 72 or, with ML-DSA-44, 2428. At least one byte.
    pub blob: Vec<u8>,
}

/// Why bytes are no signed note, or a text cannot become one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NoteError {
    /// More than [`MAX_NOTE_LEN`] bytes.
    #[error("the note is longer than {MAX_NOTE_LEN} bytes")]
    TooLong,
    /// Not UTF-8.
    #[error("the note is not UTF-8")]
    NotUtf8,
    /// A control character other than newline.
    #[error("the note holds a control character at byte {0}; only newlines are allowed")]
    Control(usize),
    /// No blank line with signature lines after it, or the last line does not end.
    #[error(
        "the note has no signatures: it needs text, a blank line and at least one signature line, each ending in a newline"
    )]
    Unsigned,
    /// A line after the last blank line that is no signature line.
    #[error("signature line {0} is malformed: it must read \"— <key name> <base64>\" in canonical base64")]
    BadLine(usize),
    /// More than [`MAX_SIGNATURES`] signature lines.
    #[error("the note has more than {MAX_SIGNATURES} signature lines")]
    TooManySignatures,
    /// To be signed, a text must end in a newline.
    #[error("a text to be signed must end in a newline")]
    TextUnfinished,
    /// Only Ed25519 keys (`0x01`) sign and check note texts; witness keys sign through `cosign`.
    #[error("this key signs cosignatures, not note texts; use a key of type 0x01")]
    WrongKeyKind,
}

/// Why a note is not signed by a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SignatureError {
    /// The note carries no line with the key's name and id.
    #[error("the note is not signed by this key")]
    Missing,
    /// A line with the key's name and id does not verify: the note was altered, or somebody else wrote it.
    #[error("a signature line under this key's name and id does not verify; the note was altered or the line forged")]
    Bad,
    /// The key does not sign note texts.
    #[error("this key signs cosignatures, not note texts")]
    WrongKeyKind,
}

impl NoteError {
    /// The error in one word that stays the same from version to version, for programs; `vectors/` has it for
    /// each input.
    pub fn code(&self) -> &'static str {
        match self {
            Self::TooLong => "note-too-long",
            Self::NotUtf8 => "not-utf8",
            Self::Control(_) => "control-character",
            Self::Unsigned => "unsigned",
            Self::BadLine(_) => "bad-signature-line",
            Self::TooManySignatures => "too-many-signatures",
            Self::TextUnfinished => "text-unfinished",
            Self::WrongKeyKind => "wrong-key-kind",
        }
    }
}

impl SignatureError {
    /// The error in one word that stays the same from version to version, for programs; `vectors/` has it for
    /// each input.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Missing => "signature-missing",
            Self::Bad => "signature-bad",
            Self::WrongKeyKind => "wrong-key-kind",
        }
    }
}

impl SignedNote {
    /// Splits a note. Accepts exactly what signed-note's Format section describes, within the limits above.
    pub fn parse(bytes: &[u8]) -> Result<SignedNote, NoteError> {
        if bytes.len() > MAX_NOTE_LEN {
            return Err(NoteError::TooLong);
        }
        let whole = std::str::from_utf8(bytes).map_err(|_| NoteError::NotUtf8)?;
        refuse_controls(whole)?;
        let blank_line = bytes.windows(2).rposition(|pair| pair == b"\n\n").ok_or(NoteError::Unsigned)?;
        let text_len = blank_line + 1;
        let lines = whole[text_len + 1..].strip_suffix('\n').ok_or(NoteError::Unsigned)?;
        let mut signatures = Vec::new();
        for (place, line) in lines.split('\n').enumerate() {
            if place == MAX_SIGNATURES {
                return Err(NoteError::TooManySignatures);
            }
            signatures.push(NoteSignature::parse(line).ok_or(NoteError::BadLine(place + 1))?);
        }
        Ok(SignedNote { whole: whole.to_owned(), text_len, signatures })
    }

    /// The signed text, its final newline included.
    pub fn text(&self) -> &str {
        &self.whole[self.text_range()]
    }

    /// The whole note, byte for byte as parsed.
    pub fn bytes(&self) -> &[u8] {
        self.whole.as_bytes()
    }

    /// The signature lines in order.
    pub fn signatures(&self) -> &[NoteSignature] {
        &self.signatures
    }

    /// The lines with the name and the id of `key`: those that claim to be its.
    pub fn signatures_by<'note>(
        &'note self,
        key: &'note VerifierKey,
    ) -> impl Iterator<Item = &'note NoteSignature> + 'note {
        self.signatures.iter().filter(move |signature| signature.claims(key))
    }

    /// Whether `key` (of type `0x01`) signed the text: at least one line under its name and id, and every such
    /// line good. Lines of other keys are ignored, as signed-note asks.
    pub fn verify(&self, key: &VerifierKey) -> Result<(), SignatureError> {
        self.verify_by(key, &Strict)
    }

    /// As [`SignedNote::verify`], with the arithmetic done by `by`.
    pub fn verify_by(&self, key: &VerifierKey, by: &impl SignatureCheck) -> Result<(), SignatureError> {
        if key.kind() != KeyKind::Ed25519 {
            return Err(SignatureError::WrongKeyKind);
        }
        let mut good: Vec<&[u8]> = Vec::new();
        for signature in self.signatures_by(key) {
            // The same line again costs its sender nothing, and shall not cost us a check.
            if good.contains(&signature.blob.as_slice()) {
                continue;
            }
            if !by.verify(key, self.text().as_bytes(), &signature.blob) {
                return Err(SignatureError::Bad);
            }
            good.push(&signature.blob);
        }
        if good.is_empty() { Err(SignatureError::Missing) } else { Ok(()) }
    }

    fn text_range(&self) -> Range<usize> {
        0..self.text_len
    }
}

impl fmt::Display for SignedNote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.whole)
    }
}

impl fmt::Debug for SignedNote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SignedNote({:?})", self.whole)
    }
}

impl NoteSignature {
    /// Reads one signature line, without its newline. `None` if it is none.
    pub fn parse(line: &str) -> Option<NoteSignature> {
        // A name holds no space, so the first one ends it; base64 holds none either.
        let (name, encoded) = line.strip_prefix(LINE_START)?.split_once(' ')?;
        let name = KeyName::new(name).ok()?;
        let mut blob = merkle::decode_base64(encoded)?;
        let key_id = KeyId(*blob.first_chunk()?);
        blob.drain(..key_id.0.len());
        if blob.is_empty() {
            return None;
        }
        Some(NoteSignature { name, key_id, blob })
    }

    /// The line as it stands in a note, without its newline.
    pub fn line(&self) -> String {
        let mut bytes = Vec::with_capacity(4 + self.blob.len());
        bytes.extend_from_slice(&self.key_id.0);
        bytes.extend_from_slice(&self.blob);
        format!("{LINE_START}{} {}", self.name, merkle::encode_base64(&bytes))
    }

    /// Whether the line claims to be by `key`: same name and same id.
    pub fn claims(&self, key: &VerifierKey) -> bool {
        self.key_id == key.id() && self.name == *key.name()
    }

    /// Whether both lines claim to be by one key.
    pub(crate) fn same_key(&self, other: &NoteSignature) -> bool {
        self.key_id == other.key_id && self.name == other.name
    }
}

/// Signs `text` (which must end in a newline) by each key, lines in the keys' order, and returns the note.
/// Keys must be of type `0x01`.
pub fn sign_note(text: &str, keys: &[&SigningKey]) -> Result<Vec<u8>, NoteError> {
    refuse_controls(text)?;
    if !text.ends_with('\n') {
        return Err(NoteError::TextUnfinished);
    }
    let mut signatures = Vec::with_capacity(keys.len());
    for key in keys {
        if key.kind() != KeyKind::Ed25519 {
            return Err(NoteError::WrongKeyKind);
        }
        let blob = key.sign(text.as_bytes());
        signatures.push(NoteSignature { name: key.name().clone(), key_id: key.id(), blob });
    }
    // What we print must be what we accept: no signatures, too many of them, too long a text end here.
    let note = assemble(text, signatures.iter().map(NoteSignature::line));
    SignedNote::parse(note.as_bytes())?;
    Ok(note.into_bytes())
}

/// A note from its text and its signature lines (without newlines).
pub(crate) fn assemble(text: &str, lines: impl Iterator<Item = String>) -> String {
    let mut note = format!("{text}\n");
    for line in lines {
        note.push_str(&line);
        note.push('\n');
    }
    note
}

fn refuse_controls(text: &str) -> Result<(), NoteError> {
    /// Bytes that are looked at together, which the compiler makes a few instructions of.
    const BLOCK: usize = 64;
    let is_control = |byte: &u8| *byte < b' ' && *byte != b'\n';
    let holds_one = |block: &[u8]| block.iter().fold(false, |found, byte| found | is_control(byte));
    let bytes = text.as_bytes();
    let Some(block) = bytes.chunks(BLOCK).position(holds_one) else { return Ok(()) };
    let place = bytes.iter().skip(block * BLOCK).position(is_control);
    Err(NoteError::Control(block * BLOCK + place.unwrap_or_default()))
}
