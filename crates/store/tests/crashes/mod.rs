//! Something goes wrong at every single call to the disk, and then the machine goes on, the process is started again,
//! or the power is cut: nothing that was ever released is gone or contradicted, and the log goes on by itself.
//!
//! `COUNTERFOIL_LONG=1` tries ten times as many seeds of chance.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stderr)]

mod every_call;
mod evidence;
mod log;
mod receipts;
mod rot;
