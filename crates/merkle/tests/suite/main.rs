//! What the crate promises, checked from outside: against published vectors, against another implementation, and
//! exhaustively where the numbers are small enough.

#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stderr)]

mod frontiers;
mod known_answers;
mod oracle;
mod paths;
mod proofs;
mod reference;
mod subtrees;
mod tiles;
mod vectors;
