//! The tests of this crate from outside, in one program: each file is a module, and what several share is beside them.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout, clippy::print_stderr)]

mod add_checkpoint;
mod addresses;
mod agent;
mod commands;
mod crashes;
#[path = "../../crates/store/tests/crashes/every_call.rs"]
mod every_call;
mod exchange;
mod full;
#[path = "stage/full_log.rs"]
mod full_log;
mod journal_paths;
mod killed;
mod metrics;
mod program;
mod pusher;
mod races;
mod reloading;
mod stage;
mod stalled;
mod strangers;
mod two_keys;
mod watching;
