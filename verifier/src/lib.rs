//! The verifier: an auditor's verdict, offline; and the mirror that makes what it reads.
//!
//! * `arguments`: the command line
//! * [`dir_bundle`], [`archive`]: a bundle as a directory, or as one `.tar.zst`; `rooted`: files below a directory, never
//!   through a link
//! * `fetch`: log and witnesses, from their own addresses, into a bundle
//! * `compare`: several bundles against each other
//! * `export`: one receipt for other worlds
//! * `judge`, `one_proof`, `documents`: what the other commands do
//! * [`report`]: a verdict on a screen, as JSON for machines, as a page to mail
//! * `tolerance`: what a policy tolerates, in words
//!
//! What is wrong with a log is decided in the crate `audit`; here bytes are read, and sentences are printed.

pub mod archive;
mod arguments;
mod compare;
pub mod dir_bundle;
mod documents;
mod evidence_dir;
mod export;
mod failure;
mod fetch;
mod judge;
mod one_proof;
pub mod report;
mod rooted;
mod tolerance;

use crate::arguments::{Arguments, Command};
use service::ExitStatus;
use service::ascii_json;
use service::output::complain;
use service::wrap::cut_middle;
use std::ffi::OsString;
use std::process::ExitCode;

const PROGRAM: &str = "counterfoil-verify";

/// Most characters of the sentence about why nothing came of a command: what is wrong stands in front, what to do behind.
const MAX_REASON: usize = 800;

/// Runs the program with these arguments, its own name first.
pub fn main_with(arguments: impl Iterator<Item = OsString>) -> ExitCode {
    let arguments: Arguments = match service::arguments::parse_configured(arguments, PROGRAM) {
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
        Command::Compare(arguments) => compare::run(arguments),
        Command::Export(arguments) => export::run(arguments),
        Command::Evidence(evidence) => documents::run_evidence(evidence),
        Command::Policy(policy) => documents::run_policy(policy),
    };
    ended.unwrap_or_else(|failure| {
        // The reason may quote a hostile server or file, or a file that was meant for something else.
        complain(PROGRAM, cut_middle(&audit::quote::plain(&failure.reason), MAX_REASON));
        failure.status
    })
}
