//! The witness's decision, and evidence of forks that anybody can check.
//!
//! Pure. [`decide`] is the whole rule on one screen; [`LogFork`] and [`WitnessFork`] are the documents that it and
//! the verifier leave behind. Fetching, storing, timestamps and the signature itself are the shell's.

mod decide;
mod evidence;
mod implied;

pub use decide::{Decision, Unproven, decide, tiles_needed};
pub use evidence::{Accusation, EvidenceError, LogFork, WitnessFork};
pub use implied::{Implied, implied_root};
