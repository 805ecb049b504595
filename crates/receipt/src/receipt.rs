//! The receipt itself (section 2): six lines of text, signed as a note.
//!
//! ```text
//! counterfoil/receipt/v1                          magic
//! gate.example/support-1                          issuer: a key name, at most 255 bytes
//! 41                                              seq: strict decimal
//! mH0cN2H7gk5mJm0cB4m7T1mB3R3c0n7j2oB2m9mC0vA=    prev: base64 of the previous receipt's id
//! 1790000000123                                   issued_at: milliseconds since the Unix epoch
//! {"type":"decision", ...}                        body: one I-JSON object on one line
//!                                                 blank line
//! — gate.example/support-1 base64(key id || Ed25519 signature)
//! ```
//!
//! The bytes, signature included, are the log entry, and their RFC 6962 leaf hash is the receipt's id.
//! A [`Receipt`] is well formed and nothing more: whether its signature is good, and whether it stands
//! where it should, is [`crate::admit()`]'s to say. So a receipt with a wrong number of signature lines,
//! or with lines of other keys, is still a receipt here and a `bad-signature` there (section 4).

use crate::body::{Body, BodyError};
use crate::id::{IssuerName, ReceiptId, SeqNo, UnixMillis};
use crate::ijson::{self, JsonError, Members};
use merkle::Hash;
use merkle::decimal::parse_u64;
use note::{NameError, NoteError, NoteSignature, SignedNote, SigningKey, sign_note};
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

/// Line 1 of every receipt.
pub const MAGIC: &str = "counterfoil/receipt/v1";

/// Longest receipt, signature lines included, in bytes: tlog-tiles writes an entry's length in 16 bits.
pub const MAX_ENTRY: usize = 65_535;

/// A well-formed receipt. Immutable and cheap to clone; owns the exact bytes it was parsed from.
#[derive(Clone)]
pub struct Receipt(Arc<Parsed>);

struct Parsed {
    note: SignedNote,
    id: ReceiptId,
    issuer: IssuerName,
    seq: SeqNo,
    prev: ReceiptId,
    issued_at: UnixMillis,
    /// Where in the note's text the body stands.
    body_text: Range<usize>,
    body: Body,
}

/// Why bytes are not a receipt. The issuer is to blame. Never holds a value of the body.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// More than [`MAX_ENTRY`] bytes.
    #[error(
        "the receipt is {length} bytes long; at most {MAX_ENTRY} fit a log entry: commit to long values or carry their digests"
    )]
    TooLong {
        /// Its length in bytes.
        length: usize,
    },
    /// Not a signed note.
    #[error("not a signed note: {0}")]
    Note(#[from] NoteError),
    /// The text does not have six lines.
    #[error("the text of a receipt has six lines, each ended by a newline")]
    Lines,
    /// Another first line.
    #[error("line 1 must read {MAGIC}")]
    Magic,
    /// Line 2 is no key name.
    #[error("line 2 must be the issuer's name: {0}")]
    Issuer(NameError),
    /// Line 3 is no sequence number.
    #[error("line 3 must be the sequence number, in decimal without leading zeroes")]
    Seq,
    /// Line 4 is no receipt id.
    #[error("line 4 must be the previous receipt's id: 32 bytes in padded standard base64")]
    Prev,
    /// The first receipt names a previous one.
    #[error("line 4 of the receipt at seq 0 must be 32 zero bytes in base64: nothing comes before it")]
    PrevOfFirst,
    /// Line 5 is no time.
    #[error("line 5 must be the time of issue in milliseconds since the Unix epoch, in decimal without leading zeroes")]
    IssuedAt,
    /// Line 6 does not begin with `{` and end with `}`.
    #[error("line 6 must be one JSON object with nothing before or after it")]
    BodyLine,
    /// The body is not I-JSON.
    #[error("the body: {0}")]
    Json(#[from] JsonError),
    /// The body does not have the shape of its type.
    #[error("the body: {0}")]
    Body(#[from] BodyError),
}

impl Malformed {
    /// The error in one word that stays the same from version to version, for programs; `vectors/` has it for
    /// each input.
    pub fn code(&self) -> &'static str {
        match self {
            Self::TooLong { .. } => "entry-too-long",
            Self::Note(error) => error.code(),
            Self::Lines => "six-lines",
            Self::Magic => "magic",
            Self::Issuer(error) => error.code(),
            Self::Seq => "seq",
            Self::Prev => "prev",
            Self::PrevOfFirst => "prev-of-first",
            Self::IssuedAt => "issued-at",
            Self::BodyLine => "body-line",
            Self::Json(error) => error.code(),
            Self::Body(error) => error.code(),
        }
    }
}

impl Receipt {
    /// Parses an entry. Accepts exactly what [`ReceiptText`] prints and a note signer signs.
    ///
    /// # Errors
    /// [`Malformed`]: not a receipt as in section 2. That includes a `prev` other than 32 zero bytes at
    /// seq 0: it is no fork, since an issuer's only receipt contradicts no other.
    pub fn parse(entry: &[u8]) -> Result<Self, Malformed> {
        Ok(Self::parse_inspecting(entry, |_| ())?.0)
    }

    /// The same, for who wants to look at the members of the body as they stand, `type` included, before they become a
    /// [`Body`]; answers what `inspect` makes of them as well.
    ///
    /// # Errors
    /// As [`Receipt::parse`].
    pub fn parse_inspecting<T>(entry: &[u8], inspect: impl FnOnce(&Members<'_>) -> T) -> Result<(Self, T), Malformed> {
        if entry.len() > MAX_ENTRY {
            return Err(Malformed::TooLong { length: entry.len() });
        }
        let note = SignedNote::parse(entry)?;
        let text = note.text();
        let mut lines = text.strip_suffix('\n').ok_or(Malformed::Lines)?.split('\n');
        let mut line = || lines.next().ok_or(Malformed::Lines);
        let [magic, issuer, seq, prev, issued_at, body_text] = [line()?, line()?, line()?, line()?, line()?, line()?];
        if lines.next().is_some() {
            return Err(Malformed::Lines);
        }
        if magic != MAGIC {
            return Err(Malformed::Magic);
        }
        let issuer = IssuerName::new(issuer).map_err(Malformed::Issuer)?;
        let seq = parse_u64(seq).map(SeqNo).ok_or(Malformed::Seq)?;
        let prev = Hash::from_base64(prev).map(ReceiptId).ok_or(Malformed::Prev)?;
        if seq == SeqNo(0) && prev != ReceiptId::NONE {
            return Err(Malformed::PrevOfFirst);
        }
        let issued_at = parse_u64(issued_at).map(UnixMillis).ok_or(Malformed::IssuedAt)?;
        if !(body_text.starts_with('{') && body_text.ends_with('}')) {
            return Err(Malformed::BodyLine);
        }
        let members = ijson::parse_members(body_text)?;
        let inspected = inspect(&members);
        let body = Body::from_members(members)?;
        let body_end = text.len() - "\n".len();
        let body_text = body_end - body_text.len()..body_end;
        let id = ReceiptId::of(entry);
        Ok((Self(Arc::new(Parsed { note, id, issuer, seq, prev, issued_at, body_text, body })), inspected))
    }

    /// Who issued it (line 2).
    pub fn issuer(&self) -> &IssuerName {
        &self.0.issuer
    }

    /// Its number in the issuer's stream (line 3).
    pub fn seq(&self) -> SeqNo {
        self.0.seq
    }

    /// The id of the receipt before it (line 4); [`ReceiptId::NONE`] at seq 0.
    pub fn prev(&self) -> ReceiptId {
        self.0.prev
    }

    /// When, by the gate's clock (line 5).
    pub fn issued_at(&self) -> UnixMillis {
        self.0.issued_at
    }

    /// What it says (line 6), read.
    pub fn body(&self) -> &Body {
        &self.0.body
    }

    /// What it says (line 6), byte for byte.
    pub fn body_text(&self) -> &str {
        &self.text()[self.0.body_text.clone()]
    }

    /// The signed text: six lines, the last newline included.
    pub fn text(&self) -> &str {
        self.0.note.text()
    }

    /// The entry: the bytes that are logged and hashed.
    pub fn bytes(&self) -> &[u8] {
        self.0.note.bytes()
    }

    /// The RFC 6962 leaf hash of [`Receipt::bytes`].
    pub fn id(&self) -> ReceiptId {
        self.0.id
    }

    /// The signature lines, unverified, at least one.
    pub fn signatures(&self) -> &[NoteSignature] {
        self.0.note.signatures()
    }

    /// Whether it hands the issuer's name over to a next key, and so carries two signatures.
    pub fn is_rotation(&self) -> bool {
        matches!(self.body(), Body::Rotate(_))
    }
}

impl PartialEq for Receipt {
    fn eq(&self, other: &Self) -> bool {
        self.bytes() == other.bytes()
    }
}

impl Eq for Receipt {}

impl fmt::Display for Receipt {
    /// The whole entry.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.note.fmt(formatter)
    }
}

impl fmt::Debug for Receipt {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Receipt({} seq {} id {})", self.issuer(), self.seq(), self.id())
    }
}

/// What a gate is about to sign: the six lines. Displays as the text that is signed.
///
/// A gate that goes on from receipt to receipt wants a [`crate::chain::Chain`], which fills in the rest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReceiptText {
    /// Line 2.
    pub issuer: IssuerName,
    /// Line 3.
    pub seq: SeqNo,
    /// Line 4; [`ReceiptId::NONE`] at seq 0.
    pub prev: ReceiptId,
    /// Line 5.
    pub issued_at: UnixMillis,
    /// Line 6: one JSON object on one line, signed as it stands.
    pub body: String,
}

/// Why a text cannot be signed. Our own caller is to blame.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SignError {
    /// The result would not be a receipt.
    #[error(transparent)]
    Malformed(#[from] Malformed),
    /// The key bears another name than line 2.
    #[error("the key is {key}'s and cannot sign for {issuer}; use the issuer's own key")]
    OtherIssuer {
        /// The name of the key.
        key: String,
        /// The issuer.
        issuer: IssuerName,
    },
    /// `rotate` takes two keys and everything else one.
    #[error("a rotate is signed by the old and the new key, every other receipt by one; call the function for it")]
    Signers,
    /// A `rotate` must hand over to the key that signs it second.
    #[error("the \"vkey\" of a rotate must be that of the new key, and not the old key's")]
    NewKey,
}

impl ReceiptText {
    /// Signs any receipt but a `rotate`.
    ///
    /// # Errors
    /// [`SignError`]: the text is no receipt, is a `rotate`, or the key is not the issuer's.
    pub fn sign(&self, key: &SigningKey) -> Result<Receipt, SignError> {
        let receipt = self.signed_by(&[key])?;
        if receipt.is_rotation() { Err(SignError::Signers) } else { Ok(receipt) }
    }

    /// Signs a `rotate`, by the old and the new key in that order.
    ///
    /// # Errors
    /// [`SignError`]: the text is no receipt, is no `rotate`, names another key than `new`, or a key is
    /// not the issuer's.
    pub fn sign_rotation(&self, old: &SigningKey, new: &SigningKey) -> Result<Receipt, SignError> {
        use crate::body::Shown as _;
        let receipt = self.signed_by(&[old, new])?;
        match receipt.body() {
            Body::Rotate(rotate) if old.verifier() != new.verifier() => match rotate.vkey.shown() {
                Some(vkey) if *vkey == new.verifier().to_string() => Ok(receipt),
                _ => Err(SignError::NewKey),
            },
            Body::Rotate(_) => Err(SignError::NewKey),
            _ => Err(SignError::Signers),
        }
    }

    fn signed_by(&self, keys: &[&SigningKey]) -> Result<Receipt, SignError> {
        if let Some(other) = keys.iter().find(|key| *key.name() != self.issuer.0) {
            return Err(SignError::OtherIssuer { key: other.name().to_string(), issuer: self.issuer.clone() });
        }
        let entry = sign_note(&self.to_string(), keys).map_err(Malformed::Note)?;
        Ok(Receipt::parse(&entry)?)
    }
}

impl fmt::Display for ReceiptText {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { issuer, seq, prev, issued_at, body } = self;
        let prev = prev.0.to_base64();
        write!(formatter, "{MAGIC}\n{issuer}\n{seq}\n{prev}\n{issued_at}\n{body}\n")
    }
}

impl From<&Receipt> for ReceiptText {
    fn from(receipt: &Receipt) -> Self {
        Self {
            issuer: receipt.issuer().clone(),
            seq: receipt.seq(),
            prev: receipt.prev(),
            issued_at: receipt.issued_at(),
            body: receipt.body_text().to_owned(),
        }
    }
}

#[cfg(test)]
mod tests;
