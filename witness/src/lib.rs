//! The witness: fetches the heads of logs from the logs themselves, checks that history only grew, cosigns, and keeps
//! a public journal of what it saw.
//!
//! * [`schedule`]: when a log is fetched
//! * [`fetch`]: what is asked of it
//! * [`full`]: level `full`: every entry, by the rule of admission
//! * [`keeper`]: what is known of one log, and what is made of what comes; the rule itself is `cosign::decide`
//! * [`post`]: in which order that becomes durable, and what may leave then
//! * [`watch`]: the loop that fetches; [`push`]: heads that are pushed
//! * [`peers`]: what other witnesses hold, held against what we do
//! * [`journal`], [`evidence`]: what is kept for ever
//! * [`roster`]: which logs that is done for, and how that changes
//! * [`routes`], [`view`], [`instruments`]: what is shown
//! * [`agent`]: a key that is not in this process
//! * [`settings`], [`serve`]: how it starts
//! * `commands`, `status`: what its operator asks and changes
//!
//! A witness takes heads from the log only: a nudge says "look", never what there is to see.

pub mod agent;
mod arguments;
pub mod broken;
pub mod clock;
mod commands;
pub mod evidence;
pub mod fetch;
pub mod full;
mod initialise;
mod inquiry;
pub mod instruments;
pub mod journal;
pub mod keeper;
mod level;
pub mod peers;
pub mod post;
pub mod posts;
pub mod push;
pub mod roster;
pub mod routes;
pub mod schedule;
pub mod serve;
pub mod settings;
pub mod signer;
mod status;
pub mod subtree;
pub mod view;
pub mod watch;

use crate::arguments::{Arguments, Command, Evidence, Log};
use crate::broken::Broken;
use crate::clock::Clock;
use crate::initialise::InitError;
use crate::inquiry::InquiryError;
use crate::serve::Witness;
use crate::settings::Settings;
use client::{BaseUrl, BoundedClient, Timeouts, WitnessClient};
use service::config::Flags;
use service::logs::LogFormat;
use service::output::{Output, complain};
use service::shutdown::Reloads;
use service::{ExitStatus, arguments as command_line};
use std::ffi::OsString;
use std::fmt::Display;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

const PROGRAM: &str = "counterfoil-witness";

/// `status` waits this long for the witness.
const STATUS_DEADLINE: Duration = Duration::from_secs(10);

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
        Command::Log(Log::Add(add)) => {
            commands::log_add::run(&add).map_err(|error| Failure(error.status(), error.to_string()))
        }
        Command::Log(Log::List(list)) => commands::log_list::run(&list).map_err(usage),
        Command::Evidence(Evidence::List(list)) => {
            commands::evidence::list(&list).map_err(|error| Failure(error.status(), error.to_string()))
        }
        Command::Evidence(Evidence::Show(show)) => {
            commands::evidence::show(&show).map_err(|error| Failure(error.status(), error.to_string()))
        }
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
    let made = initialise::initialise(init).map_err(|error| match error {
        InitError::Name(_) | InitError::PublicKey(_) => usage(error),
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
    writeln!(out, "The line above is the witness's vkey: give it to logs, gates and auditors.")?;
    if let Some(mldsa) = &made.mldsa_vkey {
        writeln!(out, "\nIts second key (ML-DSA-44), for policies that want both or either, and for the")?;
        writeln!(out, "mldsa_vkey of a log's [[witness]] section:\n{mldsa}")?;
    }
    writeln!(out, "\nIts journal's key, the journal_vkey of other witnesses' [[peer]] sections:")?;
    writeln!(out, "{}", made.journal_vkey)?;
    writeln!(out, "\nNext, for each log to watch, and then once:")?;
    writeln!(out, "  counterfoil-witness log add VKEY URL --config {config}")?;
    writeln!(out, "  counterfoil-witness serve --config {config}")?;
    writeln!(out, "Each log's operator puts its vkey and address into a [[witness]] section.")?;
    writeln!(out)?;
    writeln!(out, "Never start this witness from an older copy of its directory, and never run it")?;
    writeln!(out, "twice at a time: it would vouch for two histories. A lost disk means a new")?;
    writeln!(out, "witness, with a new key under a new name.")
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
    let flags =
        serve.assignments.iter().try_fold(flags, |flags, assignment| flags.assign(assignment)).map_err(usage)?;
    let settings = service::config::load::<Settings>(Some(&serve.config), flags.clone()).map_err(usage)?;
    service::logs::init(settings.values.log_format, &settings.values.log_level).map_err(usage)?;
    service::metrics::install();
    instruments::describe();
    service::metrics::describe_build("counterfoil-witness", env!("CARGO_PKG_VERSION"));
    let runtime = tokio::runtime::Runtime::new().map_err(failed)?;
    runtime.block_on(async {
        // Before anything is opened: a signal that comes early must still end an orderly process.
        let signal = service::shutdown::requested().map_err(failed)?;
        let reloads = service::shutdown::reloads().map_err(failed)?;
        let witness = Witness::open(&settings, Clock::system()).await.map_err(|error| match error {
            serve::StartError::Settings(_) | serve::StartError::Broken(Broken::Acknowledged(_)) => usage(error),
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
        let (reload, reloaded) = mpsc::channel(1);
        tokio::spawn(read_again(reloads, serve.config.clone(), flags, reload));
        let stop = CancellationToken::new();
        let stopping = stop.clone();
        tokio::spawn(async move {
            let signal = signal.await;
            tracing::info!(signal, "stopping");
            stopping.cancel();
        });
        witness.run_reloading(listener, stop, reloaded).await.map_err(failed)?;
        Ok(ExitStatus::Ok)
    })
}

/// Reads the configuration again at each SIGHUP. A file that cannot be used is said so, and goes no further.
async fn read_again(mut hangups: Reloads, config: PathBuf, flags: Flags, reload: mpsc::Sender<Settings>) {
    while hangups.next().await.is_some() {
        match service::config::load::<Settings>(Some(&config), flags.clone()) {
            Ok(loaded) => {
                if reload.send(loaded.values).await.is_err() {
                    return;
                }
            }
            Err(error) => tracing::error!("the configuration was not taken over, nothing has changed: {error}"),
        }
    }
}

fn run_status(status: &arguments::Status) -> Result<ExitStatus, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(failed)?;
    let timeouts = Timeouts { connect: STATUS_DEADLINE, total: STATUS_DEADLINE };
    let base: BaseUrl = status.url.parse().map_err(usage)?;
    let witness = WitnessClient::new(base, BoundedClient::new(timeouts).map_err(failed)?);
    let answer = runtime.block_on(inquiry::status(&witness)).map_err(|error| match error {
        InquiryError::NoWitness { .. } => Failure(ExitStatus::Unreadable, error.to_string()),
        InquiryError::Fetch(_) => failed(error),
    })?;
    Ok(status::report(&answer, &status.url, status.all, Output::new(status.json)))
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
