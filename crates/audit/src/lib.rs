//! Bundle in, verdict out: the offline audit of a log of receipts (protocol 8).
//!
//! [`audit()`] reads a bundle through [`BundleSource`], trusts nothing but what the auditor brings ([`Terms`]: policy,
//! issuers, rules, a time), and returns a [`Verdict`]: every check by name, `ok`, `fail` or `not_checked`, with
//! findings in sentences. Nothing is ever `ok` because there was nothing to check.
//!
//! | module | subject |
//! |---|---|
//! | [`judge`] | the order of work: start reading here |
//! | `walk` | the entries one by one, past every family |
//! | [`state`] | what a later audit goes on from |
//! | `head`, `heads`, `known`, `tree`, `pass`, `kept` | the log's heads, its tree recomputed from entries, what others know of it |
//! | `quorum`, `witnesses`, `journal`, `watch` | the witnesses' cosignatures and journals; their silences |
//! | [`compare`] | several bundles of one log: are they one history? |
//! | [`completeness`], `trace` | what each vantage point saw, from when to when, for reports |
//! | `issuer`, `signers`, `stream`, `silence`, [`issuers`] | each issuer's stream by the rules of admission |
//! | `calls`, `pairs` | the life of a call, and which receipts are of one call |
//! | `request`, `claim`, `budget`, `provenance` | what is asked of it: one file a family |
//! | `sequence`, `prior`, `histories`, [`action`], [`rules`] | order of actions, claimed histories |
//! | [`foreign`] | other systems' receipts, carried whole |
//! | [`evidence`], `documents`, `admitted` | evidence documents, one door for all kinds; those in the bundle; those about what the log admitted |
//! | `no_receipts` | whether the log is one of receipts at all |
//! | `members` | what in a bundle nothing looks at |
//! | [`verdict`], [`codes`], [`quote`], [`amount`], [`time`] | what comes out, safe to print |
//!
//! Pure: no files, no clock, no randomness, no network. Threads are used for signatures and end with the call. Memory
//! grows by some hundred bytes a receipt, not by its length: entries are judged page by page.

pub mod action;
mod admitted;
pub mod amount;
mod budget;
pub mod bundle;
mod calls;
mod claim;
pub mod codes;
pub mod compare;
pub mod completeness;
mod documents;
pub mod evidence;
pub mod foreign;
mod head;
mod heads;
mod histories;
mod issuer;
pub mod issuers;
mod journal;
pub mod judge;
mod kept;
mod key;
mod known;
mod members;
mod no_receipts;
mod pairs;
mod pass;
mod prior;
mod provenance;
mod quorum;
pub mod quote;
mod read_roots;
mod request;
pub mod rules;
mod sequence;
mod signers;
mod silence;
pub mod state;
mod stream;
mod threads;
pub mod time;
mod trace;
mod tree;
pub mod verdict;
mod walk;
mod watch;
mod witnesses;

pub use bundle::{BundleSource, LeftOut, MemoryBundle, ReadError, witness_dir};
pub use compare::{BundleSpan, CompareError, Comparing, Comparison, compare};
pub use completeness::Completeness;
pub use evidence::{Demand, EVIDENCE_KINDS, EvidenceError, ProvenEvidence, check_evidence};
pub use foreign::{FORMATS, ImportError, ImportedRecord, import_lines};
pub use issuers::{AuditedIssuer, IssuersError, parse_issuers};
pub use judge::{Audited, Terms, audit, audit_since};
pub use rules::{Rules, RulesError};
pub use state::{MAX_STATE_LEN, NotSaved, SavedAudit, StateError};
pub use verdict::{Check, Coverage, Family, Finding, ReceiptRef, Severity, Status, ToleranceReport, Verdict};
