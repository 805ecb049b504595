//! The witness's decision, and evidence of forks that anybody can check.
//!
//! Pure. [`decide`] is the whole rule on one screen, [`decide_push`] the same for heads that are pushed, [`subtree`] the
//! smaller one for parts of a tree, [`compare`] how two heads of a log stand to each other; [`LogFork`] and [`WitnessFork`]
//! are the documents that they and the verifier leave behind, [`OmittedHead`] one that says where to look. Fetching, storing, timestamps and the signature itself are
//! the shell's.

mod compare;
mod decide;
mod evidence;
mod implied;
mod omitted_head;
mod push;
mod push_body;
pub mod subtree;

pub use compare::{Comparison, Unproven, WitnessComparison, compare, compare_cosigned, tiles_needed};
pub use decide::{Decision, decide};
pub use evidence::{Accusation, EvidenceError, LogFork, WitnessFork};
pub use implied::{Implied, implied_root};
pub use omitted_head::{OmittedHead, OmittedHeadError};
pub use push::{PushDecision, decide_push};
pub use push_body::{MAX_PUSH_BYTES, Malformed, Push};
