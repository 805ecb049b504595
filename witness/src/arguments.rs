//! The command line.

use clap::{Args, Parser, Subcommand};
use service::logs::LogFormat;
use std::net::SocketAddr;
use std::path::PathBuf;

/// A witness: fetches the heads of logs from the logs themselves, checks that history only grew, and cosigns.
#[derive(Debug, Parser)]
#[command(name = "counterfoil-witness", version, arg_required_else_help = true)]
#[command(after_help = "Examples:
  counterfoil-witness init --dir ./w1 --name witness.example/w1
  counterfoil-witness serve --config ./w1/config.toml
  counterfoil-witness status --url http://127.0.0.1:7380")]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Make a witness: its keys, a configuration to fill in, an empty journal. Prints the witness's vkey.
    #[command(after_help = "Example: counterfoil-witness init --dir ./w1 --name witness.example/w1")]
    Init(Init),
    /// Watch the configured logs and answer over HTTP until SIGTERM.
    #[command(after_help = "Example: counterfoil-witness serve --config ./w1/config.toml")]
    Serve(Serve),
    /// Ask a witness how each of its logs is. Exits 1 if any has forked or cannot be cosigned.
    #[command(after_help = "Example: counterfoil-witness status --url http://127.0.0.1:7380")]
    Status(Status),
}

#[derive(Debug, Args)]
pub(crate) struct Init {
    /// The directory to make; it must not exist.
    #[arg(long, value_name = "D")]
    pub(crate) dir: PathBuf,
    /// The witness's name, as it stands before its cosignatures; best a URL without a scheme.
    #[arg(long, value_name = "N")]
    pub(crate) name: String,
    /// The address to listen on.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:7380")]
    pub(crate) listen: SocketAddr,
    /// Print the result as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Serve {
    /// The configuration file.
    #[arg(long, value_name = "FILE")]
    pub(crate) config: PathBuf,
    /// Where to listen.
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub(crate) listen: Option<SocketAddr>,
    /// The witness's private key file.
    #[arg(long, value_name = "FILE")]
    pub(crate) witness_key: Option<PathBuf>,
    /// The journal's private key file.
    #[arg(long, value_name = "FILE")]
    pub(crate) journal_key: Option<PathBuf>,
    /// The directory of everything the witness remembers.
    #[arg(long, value_name = "D")]
    pub(crate) state: Option<PathBuf>,
    /// Milliseconds between two fetches of a log of our own accord.
    #[arg(long, value_name = "MS")]
    pub(crate) interval_ms: Option<u64>,
    /// Milliseconds between any two fetches of a log, nudged or not.
    #[arg(long, value_name = "MS")]
    pub(crate) nudge_gap_ms: Option<u64>,
    /// The longest wait between two fetches of a log that fails.
    #[arg(long, value_name = "MS")]
    pub(crate) backoff_ms: Option<u64>,
    /// Milliseconds after which a fetch is given up.
    #[arg(long, value_name = "MS")]
    pub(crate) fetch_deadline_ms: Option<u64>,
    /// How log lines look.
    #[arg(long, value_name = "FORMAT")]
    pub(crate) log_format: Option<LogFormat>,
    /// Which log lines there are: error, warn, info, debug, or a list by module.
    #[arg(long, value_name = "FILTER")]
    pub(crate) log_level: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct Status {
    /// The witness's address.
    #[arg(long, value_name = "U")]
    pub(crate) url: String,
    /// Print the result as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}
