//! The tests of this crate from outside, in one program: each file is a module, and what several share is beside them.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout, clippy::print_stderr)]

extern crate counterfoil_client as client;

mod gate;
mod gate_kill;
mod gate_scene;
mod gate_sending;
mod history;
mod history_vectors;
mod honour;
mod http;
mod kill;
mod outbox;
mod outbox_vectors;
mod requests;
mod sender;
mod served_world;
mod strict_log;
