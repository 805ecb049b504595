//! May this subtree be vouched for? The call `sign-subtree` (C2SP tlog-witness), from bytes to a line or a refusal.
//!
//! ```text
//! subtree <start> <end>
//! <root of the subtree, base64>
//! — <key name> <base64>            at most 8: cosignatures of the subtree by others, ignored here
//! <hash, base64>                   at most 63: the proof that the subtree is part of the checkpoint's tree
//!                                  <- a blank line
//! <checkpoint>                     with at most 8 signatures, or its text alone
//! ```
//!
//! # Why this needs no state, and nothing made durable
//!
//! What may be vouched for is decided by one thing: a cosignature of the checkpoint by the very key that is to sign.
//! The witness released that only after the checkpoint was durable as the newest that it holds, and it holds nothing that is
//! inconsistent with it, then or later. A subtree that is proved part of that tree is therefore consistent with
//! everything the witness ever vouched for, and saying so adds nothing that a crash could make it forget: the proof and
//! the cosignature can be put before it again, and it says the same bytes. A cosignature of a subtree that
//! starts at leaf 0, which this call makes too, is as good as a head's here, for the same reason.
//!
//! The answer speaks of no time. Only the newest head has one, and that is not decided here.
//!
//! The one thing that can change is what the witness learns later: that the log signed another history. Then the
//! statement "consistent with all views seen" is not true any more of any of its trees, and nothing is signed for it:
//! [`Standing::Forked`].

use merkle::{Hash, ProofError, Subtree, SubtreeProof};
use note::{
    Checkpoint, CosignatureError, CosignedTree, MAX_SIGNATURES, NoteSignature, Origin, SignedCheckpoint, SigningKey,
};
use std::fmt;

/// Most proof lines of a call (tlog-witness, add-checkpoint and sign-subtree). A tree would need 2^62 leaves for more.
pub const MAX_PROOF_LINES: usize = 63;

/// Most cosignatures of the subtree, and most signatures of the checkpoint (tlog-witness, sign-subtree).
pub const MAX_SUBTREE_SIGNATURES: usize = 8;

/// Most bytes of a request: 16 signature lines of 7 kB (a name of 255 bytes, and in base64 the 5 kB that signed-note
/// expects of the largest signature) and 65 lines of 50 take 115 kB, and the checkpoint's text is short.
pub const MAX_REQUEST_LEN: usize = 128 * 1024;

const _: () = assert!(MAX_SUBTREE_SIGNATURES <= MAX_SIGNATURES);

/// A request as read. Nothing is verified.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SubtreeRequest {
    /// Which leaves.
    pub subtree: Subtree,
    /// Their root.
    pub hash: Hash,
    /// Cosignatures of the subtree by others.
    pub cosignatures: Vec<NoteSignature>,
    /// That the subtree is part of the checkpoint's tree.
    pub proof: SubtreeProof,
    /// The tree that it is part of.
    pub checkpoint: Checkpoint,
    /// The checkpoint's signatures.
    pub signatures: Vec<NoteSignature>,
}

/// What the witness thinks of a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// It does not watch the log.
    Unknown,
    /// It watches the log and knows of one history.
    Watched,
    /// It has evidence that the log signed two histories.
    Forked,
}

/// Why bytes are no request. Answered with 400.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum MalformedRequest {
    /// More than [`MAX_REQUEST_LEN`] bytes.
    #[error("the request is longer than {MAX_REQUEST_LEN} bytes")]
    TooLong,
    /// Not UTF-8.
    #[error("the request is not UTF-8")]
    NotUtf8,
    /// No blank line.
    #[error("the request has no blank line; after it follows the checkpoint that the subtree is part of")]
    NoCheckpoint,
    /// The first line is another.
    #[error("the first line is not \"subtree <start> <end>\", in decimals without leading zeroes")]
    Range,
    /// A range of no leaves, backwards, or not aligned to its length.
    #[error(
        "[{start}, {end}) is no subtree: start must be below end, and a multiple of the power of two that is not below their distance"
    )]
    NoSubtree {
        /// The first leaf.
        start: u64,
        /// The leaf after the last one.
        end: u64,
    },
    /// The second line is no hash.
    #[error("the second line is not the subtree's root, canonical base64 of 32 bytes")]
    Hash,
    /// A line that starts as a signature line and is none.
    #[error("line {0} is not a signature line \"— <key name> <base64>\"")]
    Signature(usize),
    /// A line that is neither a signature nor a hash, or a signature line after a hash.
    #[error("line {0} is not a hash, canonical base64 of 32 bytes; cosignatures of the subtree stand before the proof")]
    ProofLine(usize),
    /// Too many lines of a kind.
    #[error("at most {MAX_SUBTREE_SIGNATURES} cosignatures of the subtree and as many signatures of the checkpoint")]
    TooManySignatures,
    /// Too many proof lines.
    #[error("at most {MAX_PROOF_LINES} lines of proof")]
    ProofTooLong,
    /// What follows the blank line is no checkpoint.
    #[error("what follows the blank line is no checkpoint; send the one that this witness cosigned, as it came")]
    Checkpoint,
    /// The subtree ends beyond the checkpoint.
    #[error("the subtree ends at leaf {end}, the checkpoint has {size}; send a checkpoint that covers it")]
    BeyondCheckpoint {
        /// The leaf after the subtree's last one.
        end: u64,
        /// The checkpoint's size.
        size: u64,
    },
}

/// Why a subtree is not vouched for. In the order tested.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SubtreeRefusal {
    /// 400.
    #[error(transparent)]
    Malformed(#[from] MalformedRequest),
    /// 404: the witness does not watch the log.
    #[error("this witness does not watch the log of this checkpoint; its operator chooses its logs")]
    UnknownLog,
    /// 403: the log signed two histories.
    #[error("the log of this checkpoint signed two histories; this witness vouches for none of it any more")]
    ForkedLog,
    /// 403: no good cosignature by the key that is to sign, or a bad one under its name and id before any good one.
    #[error(
        "the checkpoint carries no good ML-DSA-44 cosignature of this witness; submit it to this witness first, and send it with the lines that it answers"
    )]
    NotCosigned,
    /// 422: the proof.
    #[error("the subtree is not shown to be part of the checkpoint's tree: {0}")]
    NotProven(ProofError),
    /// The witness's key cannot sign this; its operator's fault.
    #[error("the witness cannot sign subtrees: {0}")]
    Key(CosignatureError),
}

impl SubtreeRefusal {
    /// The HTTP status of the refusal.
    pub fn status(&self) -> u16 {
        match self {
            SubtreeRefusal::Malformed(_) => 400,
            SubtreeRefusal::UnknownLog => 404,
            SubtreeRefusal::ForkedLog | SubtreeRefusal::NotCosigned => 403,
            SubtreeRefusal::NotProven(_) => 422,
            SubtreeRefusal::Key(_) => 500,
        }
    }

    /// The stable word for programs.
    pub fn code(&self) -> &'static str {
        match self {
            SubtreeRefusal::Malformed(_) => "malformed",
            SubtreeRefusal::UnknownLog => "unknown-log",
            SubtreeRefusal::ForkedLog => "refused",
            SubtreeRefusal::NotCosigned => "not-cosigned",
            SubtreeRefusal::NotProven(_) => "not-proven",
            SubtreeRefusal::Key(_) => "wrong-key",
        }
    }
}

/// Answers a request: the body of the 200, one cosignature line with its newline. `standing` says what the witness
/// thinks of the log with an origin; `witness` is the key of type `0x06` that signs, and that must have signed before.
///
/// # Errors
/// [`SubtreeRefusal`].
pub fn sign_subtree(
    request: &[u8],
    witness: &SigningKey,
    standing: impl FnOnce(&Origin) -> Standing,
) -> Result<String, SubtreeRefusal> {
    let request = SubtreeRequest::parse(request)?;
    match standing(&request.checkpoint.origin) {
        Standing::Unknown => return Err(SubtreeRefusal::UnknownLog),
        Standing::Forked => return Err(SubtreeRefusal::ForkedLog),
        Standing::Watched => {}
    }
    let (key, tree) = (witness.verifier(), CosignedTree::of(&request.checkpoint));
    // The first line under our key decides: it is ours, or somebody else wrote it. So a request costs one check.
    let ours = request.signatures.iter().find(|line| line.claims(&key)).ok_or(SubtreeRefusal::NotCosigned)?;
    tree.verify(ours, &key).map_err(|error| match error {
        CosignatureError::WrongKeyKind => SubtreeRefusal::Key(error),
        _ => SubtreeRefusal::NotCosigned,
    })?;
    let (size, root) = (request.checkpoint.size, request.checkpoint.root);
    request.proof.verify(request.subtree, &request.hash, size, &root).map_err(SubtreeRefusal::NotProven)?;
    let signed = CosignedTree {
        origin: request.checkpoint.origin,
        start: request.subtree.start(),
        end: request.subtree.end(),
        hash: request.hash,
    };
    let line = signed.cosign(witness).map_err(SubtreeRefusal::Key)?;
    Ok(line.line() + "\n")
}

impl SubtreeRequest {
    /// Reads a request.
    ///
    /// # Errors
    /// [`MalformedRequest`].
    pub fn parse(bytes: &[u8]) -> Result<SubtreeRequest, MalformedRequest> {
        if bytes.len() > MAX_REQUEST_LEN {
            return Err(MalformedRequest::TooLong);
        }
        let text = std::str::from_utf8(bytes).map_err(|_| MalformedRequest::NotUtf8)?;
        let (head, checkpoint) = text.split_once("\n\n").ok_or(MalformedRequest::NoCheckpoint)?;
        let mut lines = head.split('\n');
        let (start, end) = lines.next().and_then(range).ok_or(MalformedRequest::Range)?;
        let subtree = Subtree::new(start, end).ok_or(MalformedRequest::NoSubtree { start, end })?;
        let hash = lines.next().and_then(Hash::from_base64).ok_or(MalformedRequest::Hash)?;
        let (mut cosignatures, mut hashes) = (Vec::new(), Vec::new());
        for (number, line) in (3..).zip(lines) {
            if line.starts_with('—') && hashes.is_empty() {
                if cosignatures.len() == MAX_SUBTREE_SIGNATURES {
                    return Err(MalformedRequest::TooManySignatures);
                }
                cosignatures.push(NoteSignature::parse(line).ok_or(MalformedRequest::Signature(number))?);
            } else {
                if hashes.len() == MAX_PROOF_LINES {
                    return Err(MalformedRequest::ProofTooLong);
                }
                hashes.push(Hash::from_base64(line).ok_or(MalformedRequest::ProofLine(number))?);
            }
        }
        let (checkpoint, signatures) = read_checkpoint(checkpoint)?;
        if end > checkpoint.size.0 {
            return Err(MalformedRequest::BeyondCheckpoint { end, size: checkpoint.size.0 });
        }
        let proof = SubtreeProof::new(hashes);
        Ok(SubtreeRequest { subtree, hash, cosignatures, proof, checkpoint, signatures })
    }
}

/// As it was read.
impl fmt::Display for SubtreeRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "subtree {} {}\n{}", self.subtree.start(), self.subtree.end(), self.hash.to_base64())?;
        for line in &self.cosignatures {
            writeln!(f, "{}", line.line())?;
        }
        for hash in self.proof.hashes() {
            writeln!(f, "{}", hash.to_base64())?;
        }
        write!(f, "\n{}", self.checkpoint)?;
        if !self.signatures.is_empty() {
            writeln!(f)?;
        }
        for line in &self.signatures {
            writeln!(f, "{}", line.line())?;
        }
        Ok(())
    }
}

fn range(line: &str) -> Option<(u64, u64)> {
    let (start, end) = line.strip_prefix("subtree ")?.split_once(' ')?;
    Some((merkle::decimal::parse_u64(start)?, merkle::decimal::parse_u64(end)?))
}

/// A signed checkpoint, or the text of one where the signatures are left out for a witness that remembers.
fn read_checkpoint(text: &str) -> Result<(Checkpoint, Vec<NoteSignature>), MalformedRequest> {
    if !text.contains("\n\n") {
        return match Checkpoint::parse(text) {
            Ok(checkpoint) => Ok((checkpoint, Vec::new())),
            Err(_) => Err(MalformedRequest::Checkpoint),
        };
    }
    let signed = SignedCheckpoint::parse(text.as_bytes()).map_err(|_| MalformedRequest::Checkpoint)?;
    let signatures = signed.note().signatures().to_vec();
    if signatures.len() > MAX_SUBTREE_SIGNATURES {
        return Err(MalformedRequest::TooManySignatures);
    }
    Ok((signed.claimed().clone(), signatures))
}
