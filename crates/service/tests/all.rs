//! The tests of this crate from outside, in one program: each file is a module, and what several share is beside them.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout, clippy::print_stderr)]

extern crate counterfoil_service as service;

mod limits;
mod tls;
