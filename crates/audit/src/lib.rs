//! Bundle in, verdict out: the offline audit of a log of receipts (protocol 8).
//!
//! [`audit()`] reads a bundle through [`BundleSource`], trusts nothing but what the auditor brings ([`Terms`]: policy,
//! issuers, rules, a time), and returns a [`Verdict`]: every check by name, `ok`, `fail` or `not_checked`, with
//! findings in sentences. Nothing is ever `ok` because there was nothing to check.
//!
//! | module | subject |
//! |---|---|
//! | [`judge`] | the order of work: start reading here |
//! | `head`, `heads`, `tree`, `kept` | the log's heads, its tree recomputed from entries, what others know of it |
//! | `quorum`, `witnesses` | the witnesses' cosignatures and journals |
//! | `issuer`, `stream`, [`issuers`] | each issuer's stream by the rules of admission |
//! | `sequence`, `prior`, [`action`], [`rules`] | order of actions, claimed histories |
//! | [`foreign`] | other systems' receipts, carried whole |
//! | [`evidence`] | evidence documents, one door for all kinds |
//! | [`verdict`], [`quote`], [`amount`], [`time`] | what comes out, safe to print |
//!
//! Pure: no files, no clock, no randomness, no network. Threads are used for signatures and end with the call. Memory
//! grows by some hundred bytes a receipt, not by its length: entries are judged page by page.

pub mod action;
pub mod amount;
pub mod bundle;
pub mod evidence;
pub mod foreign;
mod head;
mod heads;
mod issuer;
pub mod issuers;
pub mod judge;
mod kept;
mod key;
mod parallel;
mod prior;
mod quorum;
pub mod quote;
pub mod rules;
mod sequence;
mod stream;
pub mod time;
mod tree;
pub mod verdict;
mod witnesses;

pub use bundle::{BundleSource, MemoryBundle, ReadError, witness_dir};
pub use evidence::{EVIDENCE_KINDS, EvidenceError, ProvenEvidence, check_evidence};
pub use foreign::{FORMATS, ImportError, ImportedRecord, import_lines};
pub use issuers::{AuditedIssuer, IssuersError, parse_issuers};
pub use judge::{Terms, audit};
pub use rules::{Rules, RulesError};
pub use verdict::{Check, Coverage, Family, Finding, ReceiptRef, Severity, Status, Verdict};
