//! The witness: fetches the heads of logs from the logs themselves, checks that history only grew, cosigns, and keeps
//! a public journal of what it saw.
//!
//! * [`schedule`]: when a log is fetched
//! * [`fetch`]: what is asked of it
//! * [`keeper`]: from an offer to what is durable to what may leave; the rule itself is `cosign::decide`
//! * [`watch`]: the loop around these
//! * [`journal`], [`evidence`]: what is kept for ever
//! * [`routes`], [`view`]: what is shown
//! * [`settings`], [`serve`]: how it starts
//!
//! A witness takes heads from the log only: a nudge says "look", never what there is to see.

mod arguments;
pub mod clock;
pub mod evidence;
pub mod fetch;
mod initialise;
pub mod journal;
pub mod keeper;
pub mod routes;
pub mod schedule;
pub mod serve;
pub mod settings;
mod status;
pub mod view;
pub mod watch;

use crate::arguments::{Arguments, Command};
use crate::clock::Clock;
use crate::serve::Witness;
use crate::settings::Settings;
use crate::view::WitnessStatus;
use client::{BaseUrl, BoundedClient, Request, Timeouts};
use service::config::Flags;
use service::logs::LogFormat;
use service::output::{Output, complain};
use service::{ExitStatus, arguments as command_line};
use std::ffi::OsString;
use std::fmt::Display;
use std::io::Write;
use std::process::ExitCode;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

const PROGRAM: &str = "counterfoil-witness";

/// `status` waits this long for the witness.
const STATUS_DEADLINE: Duration = Duration::from_secs(10);

/// Most bytes of a status: the most logs a witness has, 1,024, at 4 KiB each.
const MAX_STATUS_BYTES: u64 = 4 * 1024 * 1024;

/// Runs the program with these arguments, its own name first.
pub fn main_with(arguments: impl Iterator<Item = OsString>) -> ExitCode {
    let arguments: Arguments = match command_line::parse(arguments) {
        Ok(arguments) => arguments,
        Err(status) => return status.into(),
    };
    match arguments.command {
        Command::Init(init) => run_init(&init),
        Command::Serve(serve) => run_serve(&serve),
        Command::Status(status) => run_status(&status),
    }
    .unwrap_or_else(|Failure(status, reason)| {
        complain(PROGRAM, reason);
        status
    })
    .into()
}

/// Why the program ends without having done what it was asked: exit status and sentence.
struct Failure(ExitStatus, String);

fn failed(reason: impl Display) -> Failure {
    Failure(ExitStatus::Failed, reason.to_string())
}

fn usage(reason: impl Display) -> Failure {
    Failure(ExitStatus::Usage, reason.to_string())
}

fn run_init(init: &arguments::Init) -> Result<ExitStatus, Failure> {
    let made = initialise::initialise(&init.dir, &init.name, init.listen).map_err(|error| match error {
        initialise::InitError::Name(_) => usage(error),
        _ => failed(error),
    })?;
    Output::new(init.json).print(&made, |out| print_next_steps(out, &made));
    Ok(ExitStatus::Ok)
}

/// The vkey alone in the first line, so that a script need not look for it.
fn print_next_steps(out: &mut dyn Write, made: &initialise::NewWitness) -> std::io::Result<()> {
    let config = made.config.display();
    writeln!(out, "{}", made.vkey)?;
    writeln!(out)?;
    writeln!(out, "The line above is the witness's verification key: give it to logs, gates and auditors. Next:")?;
    writeln!(out, "  edit {config}    add a [[log]] section for each log to watch: its vkey and its address")?;
    writeln!(out, "  counterfoil-witness serve --config {config}")?;
    writeln!(
        out,
        "  give the log's operator this witness's vkey and address, for a [[witness]] section of the log's own"
    )
}

fn run_serve(serve: &arguments::Serve) -> Result<ExitStatus, Failure> {
    let flags = Flags::new()
        .set("listen", serve.listen.map(|address| address.to_string()))
        .set_path("witness_key", serve.witness_key.as_deref())
        .set_path("journal_key", serve.journal_key.as_deref())
        .set_path("state", serve.state.as_deref())
        .set("interval_ms", whole(serve.interval_ms)?)
        .set("nudge_gap_ms", whole(serve.nudge_gap_ms)?)
        .set("backoff_ms", whole(serve.backoff_ms)?)
        .set("fetch_deadline_ms", whole(serve.fetch_deadline_ms)?)
        .set("log_format", serve.log_format.map(log_format_name))
        .set("log_level", serve.log_level.clone());
    let settings = service::config::load::<Settings>(Some(&serve.config), flags).map_err(usage)?;
    service::logs::init(settings.values.log_format, &settings.values.log_level).map_err(usage)?;
    service::metrics::install();
    service::metrics::describe_build("counterfoil-witness", env!("CARGO_PKG_VERSION"));
    let runtime = tokio::runtime::Runtime::new().map_err(failed)?;
    runtime.block_on(async {
        // Before anything is opened: a signal that comes early must still end an orderly process.
        let signal = service::shutdown::requested().map_err(failed)?;
        let witness = Witness::open(&settings, Clock::system()).map_err(|error| match error {
            serve::StartError::Settings(_) => usage(error),
            _ => failed(error),
        })?;
        let listen = settings.values.listen;
        let listener = service::listener::bind(listen).await.map_err(|error| {
            failed(format!("cannot listen on {listen}: {error}; choose another address with --listen"))
        })?;
        let address = listener.local_addr().map_err(failed)?;
        tracing::info!(%address, logs = settings.values.log.len(), "watching");
        if settings.values.log.is_empty() {
            tracing::warn!("no [[log]] is configured: nothing is watched");
        }
        let stop = CancellationToken::new();
        let stopping = stop.clone();
        tokio::spawn(async move {
            let signal = signal.await;
            tracing::info!(signal, "stopping");
            stopping.cancel();
        });
        witness.run(listener, stop).await.map_err(failed)?;
        Ok(ExitStatus::Ok)
    })
}

fn run_status(status: &arguments::Status) -> Result<ExitStatus, Failure> {
    let base: BaseUrl = status.url.parse().map_err(usage)?;
    let url = format!("{base}/status").parse().map_err(usage)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(failed)?;
    let answer = runtime.block_on(async {
        let client = BoundedClient::new(Timeouts { connect: STATUS_DEADLINE, total: STATUS_DEADLINE })?;
        client.send(Request::get(url, MAX_STATUS_BYTES)).await
    });
    let answer: WitnessStatus = serde_json::from_slice(&answer.map_err(failed)?).map_err(|error| {
        Failure(
            ExitStatus::Unreadable,
            format!("{} does not answer like a witness ({error}); check the URL", status.url),
        )
    })?;
    Ok(status::report(&answer, Output::new(status.json)))
}

/// A number of milliseconds as a configuration value.
fn whole(milliseconds: Option<u64>) -> Result<Option<i64>, Failure> {
    milliseconds
        .map(|value| i64::try_from(value).map_err(|_| usage(format!("{value} milliseconds are too many"))))
        .transpose()
}

fn log_format_name(format: LogFormat) -> &'static str {
    match format {
        LogFormat::Human => "human",
        LogFormat::Json => "json",
    }
}
