//! The tests of this crate from outside, in one program: each file is a module, and what several share is beside them.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout, clippy::print_stderr)]

mod crashes;
mod damage;
mod inspect;
mod log;
mod receipts;
mod stage;
