//! The tests of this crate from outside, in one program: each file is a module, and what several share is beside them.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout, clippy::print_stderr)]

mod at_rest;
mod batches;
mod operating;
mod process;
mod pushes;
mod read_side;
mod rot;
mod stand;
mod submissions;
mod witnesses;
