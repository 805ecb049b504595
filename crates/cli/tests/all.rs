//! The tests of this crate from outside, in one program: each file is a module, and what several share is beside them.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout, clippy::print_stderr)]

mod programs;
mod sidecar;
#[path = "../../client/tests/strict_log/mod.rs"]
mod strict_log;
