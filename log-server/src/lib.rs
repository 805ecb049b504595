//! The log: admits receipts, commits them, signs heads, offers them to witnesses.
//!
//! ```text
//!  POST /v1/receipts ──> vetting ──> committer ──> store ──> head signed ──> answer with proof
//!                        (all cores)  (one thread)               │
//!  GET /checkpoint  <── publication <── offers <─────────────────┘
//!                           └── witnesses: nudge or push, cosignatures back
//! ```
//!
//! Pure decisions: [`offers`] (which head is offered), [`push`] (what a witness of another make is sent), [`quorum`]
//! (when it counts as cosigned), [`refusal`] (which status says no), [`readiness`] (whether the log is, and why not),
//! [`fork_log`] (which evidence is kept), [`negotiation`]; the issuer rules themselves are `receipt`'s.
//! Shells around them: [`committer`], [`publication`], [`witnesses`], [`pusher`], [`routes`], [`run`]. What an operator
//! sees and does: [`instruments`], [`room`], [`issuer_rates`], [`admin`]. What a store is to all of
//! these is [`ledger`].

pub mod admin;
pub mod answers;
pub mod arguments;
pub mod clock;
mod commands;
pub mod committer;
pub mod config;
pub mod fork_log;
pub mod instruments;
pub mod issuer_rates;
pub mod issuers_file;
pub mod ledger;
pub mod located;
pub mod log;
#[cfg(test)]
mod memory_ledger;
pub mod negotiation;
pub mod offers;
pub mod proofs;
pub mod publication;
pub mod push;
pub mod pusher;
pub mod quorum;
pub mod readiness;
pub mod refusal;
pub mod registry;
pub mod restored;
pub mod room;
pub mod routes;
pub mod run;
pub mod stored;
pub mod vetting;
pub mod witnesses;

use arguments::{Arguments, Call};
use std::ffi::OsString;
use std::process::ExitCode;

/// The program `counterfoil-log`, with the program's name first in `arguments`.
pub fn main_with(arguments: impl Iterator<Item = OsString>) -> ExitCode {
    let arguments: Arguments = match service::arguments::parse(arguments) {
        Ok(arguments) => arguments,
        Err(status) => return status.into(),
    };
    let status = match arguments.command {
        Call::Init(arguments) => commands::init(&arguments),
        Call::Serve(arguments) => commands::serve(&arguments),
        Call::Issuer(arguments) => commands::issuer(&arguments),
        Call::Status(arguments) => commands::status(&arguments),
        Call::Fsck(arguments) => commands::fsck(&arguments),
        Call::Export(arguments) => commands::export(&arguments),
    };
    status.into()
}
