//! C2SP signed notes, vkeys, checkpoints, cosignatures, proofs and policies.
//!
//! Everything signed in this project is a note: receipts, tree heads, witnesses' cosignatures. One parser and one
//! strict verifier serve all of them.
//!
//! | module | spec |
//! |---|---|
//! | [`name`], [`key`], `ml_dsa`, [`signed`] | signed-note |
//! | [`checkpoint`] | tlog-checkpoint |
//! | [`cosignature`], [`subtree`] | tlog-cosignature, Ed25519 and ML-DSA-44 |
//! | [`proof`] | tlog-proof |
//! | [`policy`], [`quorum`] | tlog-policy, and what a quorum tolerates |
//! | [`outside`] | none: signatures for other worlds' envelopes, which no note can be taken for |
//! | [`check`], [`tables`] | who does the arithmetic of a check: plainly, or with prepared keys |
//!
//! Pure: no files, clock, randomness or network. Parsers accept only what the printers print (a policy, which has no
//! printed form of its own, apart), and every input is bounded.

pub mod check;
pub mod checkpoint;
pub mod cosignature;
pub mod key;
mod ml_dsa;
pub mod name;
pub mod outside;
pub mod policy;
pub mod proof;
pub mod quorum;
pub mod signed;
pub mod subtree;
pub mod tables;

pub use check::{SignatureCheck, Strict};
pub use checkpoint::{
    Checkpoint, CheckpointError, Origin, SignedCheckpoint, TextError, Unverified, Verified, sign_checkpoint,
};
pub use cosignature::{
    BadCosignature, Cosignature, CosignatureError, CosignatureLine, MAX_COSIGNATURE_LINE_LEN, MAX_TIMESTAMP_S, cosign,
    cosign_with, parse_cosignature_line, verified_cosignatures,
};
pub use key::{KeyError, KeyId, KeyKind, SigningKey, VerifierKey};
pub use name::{KeyName, MAX_NAME_LEN, NameError};
pub use outside::{OutsideError, sign_outside_notes};
pub use policy::{
    MAX_OF_EACH, MAX_POLICY_LEN, Policy, PolicyError, PolicyErrorKind, PolicyGroup, PolicyLog, PolicyName,
    PolicyWitness,
};
pub use proof::{MAX_PROOF_LEN, ProofFormatError, ProofRefusal, TlogProof, VerifiedProof, proof_text};
pub use quorum::{Member, Tolerance};
pub use signed::{MAX_NOTE_LEN, MAX_SIGNATURES, NoteError, NoteSignature, SignatureError, SignedNote, sign_note};
pub use subtree::CosignedTree;
pub use tables::{KeyTables, PREPARED_KEY_BYTES};
