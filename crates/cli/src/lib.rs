//! The program `counterfoil`: keys, receipts and their outbox, for gates and newcomers.
//!
//! ```text
//! demo                        all of it at once, on one machine
//! keygen                      a private key
//! submit, import              bodies -> outbox -> log, one line a receipt
//! outbox status|flush|verify|proofs
//! fetch-proof                 the proof that a log holds a receipt
//! sidecar                     a gate for programs in any language
//! log, witness, verify        hidden: the other programs, so that one executable is enough to try everything
//! ```
//!
//! Shells only: what a receipt is, when it is acknowledged and what a proof proves is decided in `receipt`, `client`
//! and `note`.

mod arguments;
mod clock;
mod demo;
mod failure;
mod fetch_proof;
mod files;
mod input;
mod keygen;
mod listing;
mod outbox;
mod settings;
mod sidecar;
mod submission;

use arguments::{Arguments, Command, Common};
use failure::Failure;
use service::ExitStatus;
use service::output::complain;
use std::ffi::{OsStr, OsString};
use std::process::ExitCode;

const PROGRAM: &str = "counterfoil";

/// Runs the program with these arguments, its own name first.
pub fn main_with(arguments: impl Iterator<Item = OsString>) -> ExitCode {
    let arguments: Vec<OsString> = arguments.collect();
    if let Some(program) = other_program(arguments.get(1).map(OsString::as_os_str)) {
        let name = OsString::from(format!("{PROGRAM} {}", arguments[1].to_string_lossy()));
        return program(&mut std::iter::once(name).chain(arguments.into_iter().skip(2)));
    }
    let arguments: Arguments = match service::arguments::parse(arguments) {
        Ok(arguments) => arguments,
        Err(status) => return status.into(),
    };
    let ended = match &arguments.command {
        Command::Demo(arguments) => Ok(demo::run(arguments)),
        Command::Keygen(arguments) => keygen::run(arguments),
        Command::Submit(arguments) => with_logs(&arguments.common, || submission::submit(arguments)),
        Command::Import(arguments) => with_logs(&arguments.common, || submission::import(arguments)),
        Command::Outbox(call) => with_logs(call.common(), || outbox::run(call)),
        Command::FetchProof(arguments) => with_logs(&arguments.common, || fetch_proof::run(arguments)),
        Command::Sidecar(arguments) => with_logs(&arguments.common, || sidecar::run(arguments)),
    };
    ended
        .unwrap_or_else(|Failure { status, reason }| {
            complain(PROGRAM, reason);
            status
        })
        .into()
}

type Program = fn(&mut dyn Iterator<Item = OsString>) -> ExitCode;

/// The hidden subcommands: other programs, whose arguments are theirs alone.
fn other_program(first: Option<&OsStr>) -> Option<Program> {
    match first?.to_str()? {
        "log" => Some(|arguments| log_server::main_with(arguments)),
        "witness" => Some(|arguments| witness::main_with(arguments)),
        "verify" => Some(|arguments| verifier::main_with(arguments)),
        _ => None,
    }
}

fn with_logs(common: &Common, call: impl FnOnce() -> Result<ExitStatus, Failure>) -> Result<ExitStatus, Failure> {
    service::logs::init(common.log_format, "warn").map_err(Failure::usage)?;
    call()
}

fn runtime() -> Result<tokio::runtime::Runtime, Failure> {
    tokio::runtime::Runtime::new()
        .map_err(|error| Failure::failed(format!("the system gave no resources to run: {error}")))
}
