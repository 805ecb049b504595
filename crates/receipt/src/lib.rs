//! Receipts: the bytes, the bodies, and the one rule that admits them.
//!
//! A gate's receipt is a note of six lines that the gate signed (protocol, section 2). This crate reads and
//! writes it, gives its body types (section 3), and holds the decision that log, full witness and verifier
//! share: [`admit()`], which is [`Receipt::parse`], [`check_signature`] and [`place`] in a row (section 4).
//!
//! * [`id`], [`receipt`], [`chain`]: a receipt's head, its bytes, and a gate's own end of its stream
//! * [`body`], [`mod@commit`], [`action`]: what receipts say, what they only commit to, what names an action
//! * [`issuer`], [`mod@admit`], [`fork`]: what is known of an issuer, what it may add, what shows that it lied
//! * [`breach`], [`log_admitted`], [`omitted_receipt`]: what shows that a log admitted what it must refuse, or leaves out
//!   what it held
//! * [`roll`], [`relay`]: a whole log read in order: all its issuers, and their signatures on all cores
//! * [`ijson`], [`jcs`], [`path`]: the only way JSON gets in, digests of it, places in it
//! * [`credential`]: what has no place in a log that is for ever
//!
//! Pure: no files, no clock, no randomness, no network; [`relay`] alone uses threads. Keys come from `note`, hashes from `merkle`.

pub mod action;
pub mod admit;
pub mod body;
pub mod breach;
pub mod chain;
pub mod commit;
pub mod credential;
pub mod fork;
pub mod heading;
pub mod id;
pub mod ijson;
pub mod issuer;
pub mod jcs;
pub mod log_admitted;
pub mod omitted_receipt;
pub mod path;
pub mod receipt;
pub mod relay;
pub mod roll;
#[cfg(test)]
mod sample;

pub use action::{Action, ActionDigest};
pub use admit::{
    Admitted, Checked, MAX_AHEAD_MS, Refusal, RefusalCode, admit, check_signature, is_issued_under, place,
    presume_signature,
};
pub use body::{Body, BodyError, Member, Shown};
pub use chain::Chain;
pub use commit::{Disclosure, commit};
pub use credential::{CredentialFound, CredentialKind, find_credential, find_credential_in};
pub use fork::{Accusation, EvidenceError, ForkPair, IssuerForkEvidence};
pub use heading::Heading;
pub use id::{IssuerName, ReceiptId, SeqNo, UnixMillis};
pub use ijson::JsonError;
pub use issuer::{IssuerState, KeyHistory};
pub use jcs::Digest;
pub use log_admitted::{LogAdmitted, LogAdmittedError};
pub use omitted_receipt::{OmittedReceipt, OmittedReceiptError};
pub use path::MemberPath;
pub use receipt::{MAGIC, MAX_ENTRY, Malformed, Receipt, ReceiptText, SignError};
pub use relay::{Judge, Relay};
pub use roll::{Roll, Unsigned};
