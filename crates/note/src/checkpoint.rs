//! Checkpoints: a log's signed tree head (tlog-checkpoint).
//!
//! ```text
//! <origin>
//! <tree size, decimal>
//! <root hash, base64 of 32 bytes>
//! <extension lines, if any>
//!
//! — <log> <base64>
//! — <witness> <base64>
//! ```
//!
//! Holds the parse, the log's signature and what may be done with a checkpoint that carries it. Does not hold
//! whether one checkpoint is consistent with another (`merkle` proofs, the witness rule), nor cosignatures.

use crate::check::{SignatureCheck, Strict};
use crate::cosignature::CosignatureLine;
use crate::key::{KeyKind, SigningKey, VerifierKey};
use crate::name::KeyName;
use crate::signed::{
    MAX_NOTE_LEN, MAX_SIGNATURES, NoteError, NoteSignature, SignatureError, SignedNote, assemble, sign_note,
};
use merkle::{Hash, RootHash, TreeSize};
use std::fmt;

/// The identity of a log, the first line of its checkpoints: any non-empty line (tlog-checkpoint, Note text).
/// Our own logs' origins are also key names.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Origin(String);

/// What a tree head says. Data without a signature; trust only one that [`SignedCheckpoint::verify`] returned.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Checkpoint {
    /// Which log.
    pub origin: Origin,
    /// Number of leaves.
    pub size: TreeSize,
    /// RFC 6962 root over them.
    pub root: RootHash,
    /// Opaque lines after the root, non-empty each. Ours have none; no monitor can audit them. The log signs them, a
    /// witness says nothing about them, and its ML-DSA-44 line does not even cover them ([`crate::subtree`]).
    pub extensions: Vec<String>,
}

/// State of a [`SignedCheckpoint`] whose signatures nobody has checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unverified;

/// State of a [`SignedCheckpoint`] that carries a good signature by its log; remembers by which key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verified {
    log: VerifierKey,
}

/// A checkpoint with its note, byte for byte. Becomes `Verified` only by [`SignedCheckpoint::verify`] or by
/// being signed here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignedCheckpoint<State = Unverified> {
    note: SignedNote,
    checkpoint: Checkpoint,
    state: State,
}

/// Why bytes are no checkpoint, or a checkpoint is not this log's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CheckpointError {
    /// Not a signed note.
    #[error("not a signed note: {0}")]
    Note(#[from] NoteError),
    /// A note, and its text is no tree head.
    #[error("not a checkpoint: {0}")]
    Text(#[from] TextError),
    /// A checkpoint of another log.
    #[error("the checkpoint's origin is {origin:?}, the log's key is named {log:?}; ask the right log or fix the key")]
    WrongOrigin {
        /// What the checkpoint says.
        origin: Origin,
        /// What the key says.
        log: KeyName,
    },
    /// No line by the log's key.
    #[error("the checkpoint carries no signature by the log's key; it proves nothing")]
    Unsigned,
    /// A line under the log's name and key id does not verify.
    #[error("a signature line under the log's key does not verify; the checkpoint was altered or forged")]
    BadSignature,
    /// Logs sign with keys of type `0x01`.
    #[error("the key configured for the log is not of type 0x01; use the vkey that the log prints")]
    WrongKeyKind,
}

/// Why a text is no tree head.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TextError {
    /// Fewer than three lines, or the last one does not end in a newline.
    #[error("a checkpoint has at least three lines: origin, tree size, root hash, each ending in a newline")]
    TooShort,
    /// An empty line.
    #[error("a checkpoint has no empty lines")]
    EmptyLine,
    /// A control character, which no note can carry.
    #[error("a checkpoint holds no control characters")]
    Control,
    /// The size is no decimal number without leading zeroes below 2^64.
    #[error("the tree size is not a decimal number without leading zeroes")]
    Size,
    /// The root is not canonical base64 of 32 bytes.
    #[error("the root hash is not canonical base64 of 32 bytes")]
    Root,
}

impl CheckpointError {
    /// The error in one word that stays the same from version to version, for programs; `vectors/` has it for
    /// each input.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Note(error) => error.code(),
            Self::Text(error) => error.code(),
            Self::WrongOrigin { .. } => "wrong-origin",
            Self::Unsigned => "signature-missing",
            Self::BadSignature => "signature-bad",
            Self::WrongKeyKind => "wrong-key-kind",
        }
    }
}

impl TextError {
    /// The error in one word that stays the same from version to version, for programs; `vectors/` has it for
    /// each input.
    pub fn code(&self) -> &'static str {
        match self {
            Self::TooShort => "checkpoint-too-short",
            Self::EmptyLine => "checkpoint-empty-line",
            Self::Control => "control-character",
            Self::Size => "checkpoint-size",
            Self::Root => "checkpoint-root",
        }
    }
}

impl Origin {
    /// Takes one non-empty line without control characters. Limited by the note that carries it.
    pub fn new(line: &str) -> Result<Origin, TextError> {
        if line.is_empty() {
            return Err(TextError::EmptyLine);
        }
        if line.chars().any(|character| character < ' ') {
            return Err(TextError::Control);
        }
        Ok(Origin(line.to_owned()))
    }

    /// The line.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<&KeyName> for Origin {
    fn from(name: &KeyName) -> Origin {
        Origin(name.as_str().to_owned())
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.0)
    }
}

impl PartialEq<KeyName> for Origin {
    fn eq(&self, name: &KeyName) -> bool {
        self.0 == name.as_str()
    }
}

impl Checkpoint {
    /// A head without extension lines.
    pub fn new(origin: Origin, size: TreeSize, root: RootHash) -> Checkpoint {
        Checkpoint { origin, size, root, extensions: Vec::new() }
    }

    /// Reads a note text (tlog-checkpoint, Note text), final newline included.
    pub fn parse(text: &str) -> Result<Checkpoint, TextError> {
        let mut lines = text.strip_suffix('\n').ok_or(TextError::TooShort)?.split('\n');
        let origin = Origin::new(lines.next().ok_or(TextError::TooShort)?)?;
        let size = merkle::decimal::parse_u64(lines.next().ok_or(TextError::TooShort)?).ok_or(TextError::Size)?;
        let root = Hash::from_base64(lines.next().ok_or(TextError::TooShort)?).ok_or(TextError::Root)?;
        let extensions = lines.map(|line| Origin::new(line).map(|Origin(line)| line)).collect::<Result<_, _>>()?;
        Ok(Checkpoint { origin, size: TreeSize(size), root: RootHash(root), extensions })
    }
}

/// The note text, final newline included.
impl fmt::Display for Checkpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}\n{}\n{}\n", self.origin, self.size.0, self.root.0.to_base64())?;
        for line in &self.extensions {
            writeln!(f, "{line}")?;
        }
        Ok(())
    }
}

impl SignedCheckpoint<Unverified> {
    /// Reads a signed checkpoint. Says nothing about who signed it.
    pub fn parse(bytes: &[u8]) -> Result<SignedCheckpoint<Unverified>, CheckpointError> {
        let note = SignedNote::parse(bytes)?;
        let checkpoint = Checkpoint::parse(note.text())?;
        Ok(SignedCheckpoint { note, checkpoint, state: Unverified })
    }

    /// Checks that this is a head of the log whose key is `log`: its origin is the key's name, at least one line is
    /// by the key and none under the key's name and id is bad. Lines of all other keys are kept and ignored.
    pub fn verify(self, log: &VerifierKey) -> Result<SignedCheckpoint<Verified>, CheckpointError> {
        self.verify_by(log, &Strict)
    }

    /// As [`SignedCheckpoint::verify`], with the arithmetic done by `by`.
    pub fn verify_by(
        self,
        log: &VerifierKey,
        by: &impl SignatureCheck,
    ) -> Result<SignedCheckpoint<Verified>, CheckpointError> {
        if self.checkpoint.origin != *log.name() {
            return Err(CheckpointError::WrongOrigin { origin: self.checkpoint.origin, log: log.name().clone() });
        }
        match self.note.verify_by(log, by) {
            Ok(()) => Ok(SignedCheckpoint {
                note: self.note,
                checkpoint: self.checkpoint,
                state: Verified { log: log.clone() },
            }),
            Err(SignatureError::Missing) => Err(CheckpointError::Unsigned),
            Err(SignatureError::Bad) => Err(CheckpointError::BadSignature),
            Err(SignatureError::WrongKeyKind) => Err(CheckpointError::WrongKeyKind),
        }
    }
}

impl<State> SignedCheckpoint<State> {
    /// The whole note, byte for byte.
    pub fn bytes(&self) -> &[u8] {
        self.note.bytes()
    }

    /// The note, with all its signature lines.
    pub fn note(&self) -> &SignedNote {
        &self.note
    }

    /// What the checkpoint says, whether or not anybody checked who says it.
    pub fn claimed(&self) -> &Checkpoint {
        &self.checkpoint
    }
}

impl SignedCheckpoint<Verified> {
    /// What the log said.
    pub fn checkpoint(&self) -> &Checkpoint {
        &self.checkpoint
    }

    /// The key that signed it.
    pub fn log_key(&self) -> &VerifierKey {
        &self.state.log
    }

    /// Forgets who signed it, as a reader of the bytes would have it.
    pub fn into_unverified(self) -> SignedCheckpoint<Unverified> {
        SignedCheckpoint { note: self.note, checkpoint: self.checkpoint, state: Unverified }
    }

    /// The same checkpoint with `lines` added; text and log's lines stay as they are.
    ///
    /// The caller has verified the lines: what is added here is served to others. So a given line takes the place of
    /// those already there under its name and key id (who knows who put them there), and of several given under
    /// one key the latest stays; re-cosigning does not pile up lines. Lines under the log's own key, and lines
    /// beyond the note's limits ([`crate::MAX_SIGNATURES`], [`crate::MAX_NOTE_LEN`]), are left out.
    pub fn with_cosignatures(&self, lines: &[CosignatureLine]) -> SignedCheckpoint<Verified> {
        let mut signatures = self.note.signatures().to_vec();
        let mut latest: Vec<&CosignatureLine> = Vec::new();
        for line in lines.iter().filter(|line| !line.signature().claims(&self.state.log)) {
            match latest.iter_mut().find(|other| other.signature().same_key(line.signature())) {
                Some(other) if other.timestamp_s() < line.timestamp_s() => *other = line,
                Some(_) => {}
                None => latest.push(line),
            }
        }
        for line in latest {
            let others: Vec<_> = signatures.iter().filter(|other| !other.same_key(line.signature())).cloned().collect();
            let length: usize = others.iter().map(|other| other.line().len() + 1).sum();
            if others.len() < MAX_SIGNATURES && self.note.text().len() + 1 + length + line.line().len() < MAX_NOTE_LEN {
                signatures = others;
                signatures.push(line.signature().clone());
            }
        }
        self.reassembled(signatures.iter().map(NoteSignature::line))
    }

    /// The text with one signature line of the log: what the log said, and nothing anybody added. A note may carry its
    /// log's line many times over, which says nothing more and would leave no room for others.
    pub fn log_signed_only(&self) -> SignedCheckpoint<Verified> {
        if self.note.signatures().len() == 1 {
            return self.clone();
        }
        self.reassembled(self.note.signatures_by(&self.state.log).take(1).map(|signature| signature.line()))
    }

    fn reassembled(&self, lines: impl Iterator<Item = String>) -> SignedCheckpoint<Verified> {
        let note = assemble(self.note.text(), lines);
        let note =
            SignedNote::parse(note.as_bytes()).expect("text and lines came from parsed notes, within the limits");
        SignedCheckpoint { note, checkpoint: self.checkpoint.clone(), state: self.state.clone() }
    }
}

/// Signs a head. The key must be of type `0x01` and named as the origin; everything a reader would refuse is
/// refused here.
pub fn sign_checkpoint(
    checkpoint: &Checkpoint,
    log: &SigningKey,
) -> Result<SignedCheckpoint<Verified>, CheckpointError> {
    if log.kind() != KeyKind::Ed25519 {
        return Err(CheckpointError::WrongKeyKind);
    }
    if checkpoint.origin != *log.name() {
        return Err(CheckpointError::WrongOrigin { origin: checkpoint.origin.clone(), log: log.name().clone() });
    }
    let text = checkpoint.to_string();
    // An extension "line" with a newline in it would print as two: print, read, compare.
    if Checkpoint::parse(&text)? != *checkpoint {
        return Err(TextError::Control.into());
    }
    let note = SignedNote::parse(&sign_note(&text, &[log])?)?;
    Ok(SignedCheckpoint { note, checkpoint: checkpoint.clone(), state: Verified { log: log.verifier() } })
}
