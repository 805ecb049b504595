//! The tests of this crate from outside, in one program: each file is a module, and what several share is beside them.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout, clippy::print_stderr)]

extern crate counterfoil_note as note;

mod c2sp;
mod key_tables;
mod known_answers;
mod ml_dsa;
mod notes_and_keys;
mod policies;
mod proofs;
mod signed_elsewhere;
mod strict_ed25519;
