//! The verifier: an auditor's verdict, offline; and the mirror that makes what it reads.
//!
//! * `arguments`: the command line
//! * [`dir_bundle`], [`archive`]: a bundle as a directory, or as one `.tar.zst`
//! * `fetch`: log and witnesses, from their own addresses, into a bundle
//! * `judge`, `one_proof`, `documents`: what the other commands do
//! * [`report`]: a verdict on a screen; `ascii_json`: the same for machines
//!
//! What is wrong with a log is decided in the crate `audit`; here bytes are read, and sentences are printed.

pub mod archive;
mod arguments;
mod ascii_json;
pub mod dir_bundle;
mod documents;
mod failure;
mod fetch;
mod judge;
mod one_proof;
pub mod report;
mod wrap;

use crate::arguments::{Arguments, Command};
use service::ExitStatus;
use service::output::complain;
use std::ffi::OsString;
use std::process::ExitCode;

const PROGRAM: &str = "counterfoil-verify";

/// Runs the program with these arguments, its own name first.
pub fn main_with(arguments: impl Iterator<Item = OsString>) -> ExitCode {
    let arguments: Arguments = match service::arguments::parse(arguments) {
        Ok(arguments) => arguments,
        Err(status) => return status.into(),
    };
    run(&arguments).into()
}

fn run(arguments: &Arguments) -> ExitStatus {
    if let Err(reason) = service::logs::init(arguments.log_format, &arguments.log_level) {
        complain(PROGRAM, reason);
        return ExitStatus::Usage;
    }
    let ended = match &arguments.command {
        Command::Fetch(fetch) => fetch::run(fetch),
        Command::Audit(audit) => judge::run(audit),
        Command::Proof(proof) => one_proof::run(proof),
        Command::Evidence(evidence) => documents::run_evidence(evidence),
        Command::Policy(policy) => documents::run_policy(policy),
    };
    ended.unwrap_or_else(|failure| {
        // The reason may quote a hostile server or file.
        complain(PROGRAM, audit::quote::plain(&failure.reason));
        failure.status
    })
}
