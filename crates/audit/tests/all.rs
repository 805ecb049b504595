//! The tests of this crate from outside, in one program: each file is a module, and what several share is beside them.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout, clippy::print_stderr)]

extern crate counterfoil_audit as audit;

mod attacked_worlds;
mod calls_approved;
mod calls_paired;
mod claims_budgets_provenance;
mod compare;
mod completeness;
mod damaged_bundles;
mod evidence_made;
mod foreign_records;
mod heads_and_witnesses;
mod honest_calls;
mod honest_worlds;
mod hostile_bundles;
mod issuers;
mod issuers_apart;
mod mutations;
mod samples;
mod saved_state;
mod sequence_rules;
mod signed_formats;
mod story;
mod two_keys;
mod world;
