//! The tests of this crate from outside, in one program: each file is a module, and what several share is beside them.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout, clippy::print_stderr)]

mod browser;
mod comparing;
mod exports;
mod fetch_memory;
mod fetching;
mod hostile_servers;
mod mirroring;
mod program;
mod reports;
#[path = "../../crates/audit/tests/samples/mod.rs"]
mod samples;
mod scale;
mod served;
mod verdicts;
#[path = "../../crates/audit/tests/world/mod.rs"]
mod world;
