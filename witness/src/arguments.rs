//! The command line.

use crate::settings::Level;
use clap::{Args, Parser, Subcommand};
use service::logs::LogFormat;
use std::net::SocketAddr;
use std::path::PathBuf;

/// A witness: fetches the heads of logs from the logs themselves, checks that history only grew, and cosigns.
#[derive(Debug, Parser)]
#[command(name = "counterfoil-witness", version, arg_required_else_help = true, max_term_width = 80)]
#[command(after_help = "Examples:
  counterfoil-witness init --dir w1 --name witness.example/w1
  counterfoil-witness log add VKEY https://log.example --config w1/config.toml
  counterfoil-witness serve --config w1/config.toml
  counterfoil-witness status --url http://127.0.0.1:7380")]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Make a witness: its keys, a configuration to fill in, an empty journal. Prints the witness's vkey.
    #[command(after_help = "Examples:
  counterfoil-witness init --dir w1 --name witness.example/w1
  counterfoil-witness init --dir w1 --name witness.example/w1 --mldsa
  counterfoil-witness init --dir w1 --name witness.example/w1 \\
      --ssh-agent \"$SSH_AUTH_SOCK\" --ssh-key id.pub")]
    Init(Init),
    /// Watch the configured logs and answer over HTTP until SIGTERM.
    #[command(after_help = "Examples:
  counterfoil-witness serve --config w1/config.toml
  counterfoil-witness serve --config w1/config.toml --set limits.connections=256

Flags win over COUNTERFOIL_<KEY> in the environment, and that over the file.
SIGHUP reads the file's logs again; SIGTERM stops.")]
    Serve(Serve),
    /// Ask a witness how each of its logs is. Exits 1 if any has forked or cannot be cosigned.
    #[command(after_help = "Example: counterfoil-witness status --url http://127.0.0.1:7380")]
    Status(Status),
    /// The logs in the configuration.
    #[command(
        subcommand,
        after_help = "Examples:
  counterfoil-witness log add VKEY https://log.example --config w1/config.toml
  counterfoil-witness log list --config w1/config.toml"
    )]
    Log(Log),
    /// What a witness holds against logs and witnesses.
    #[command(
        subcommand,
        after_help = "Examples:
  counterfoil-witness evidence list --url http://127.0.0.1:7380
  counterfoil-witness evidence show 0 --out fork.json \\
      --url http://127.0.0.1:7380"
    )]
    Evidence(Evidence),
}

#[derive(Debug, Subcommand)]
pub(crate) enum Log {
    /// Look at a log, check its head and its tiles, and add it to the configuration.
    #[command(after_help = "Examples:
  counterfoil-witness log add VKEY https://log.example --config w1/config.toml
  counterfoil-witness log add VKEY http://10.0.0.5:8080 --private-address \\
      --config w1/config.toml
  counterfoil-witness log add VKEY --accept-pushes --config w1/config.toml

The log's vkey comes from its operator, by a way that the log's address has no
part in.")]
    Add(LogAdd),
    /// Print the logs in the configuration.
    #[command(after_help = "Example: counterfoil-witness log list --config w1/config.toml")]
    List(LogList),
}

#[derive(Debug, Args)]
pub(crate) struct LogAdd {
    /// The log's verification key.
    #[arg(value_name = "VKEY")]
    pub(crate) vkey: String,
    /// The log's own address. Left out for a log that only pushes.
    #[arg(value_name = "URL")]
    pub(crate) url: Option<String>,
    /// The configuration file.
    #[arg(long, value_name = "FILE", default_value = "config.toml")]
    pub(crate) config: PathBuf,
    /// The log's address is in a network of your own: loopback, private and the like.
    #[arg(long)]
    pub(crate) private_address: bool,
    /// Let the log push its heads (tlog-witness, add-checkpoint).
    #[arg(long)]
    pub(crate) accept_pushes: bool,
    /// Level full: a file of the vkeys of the log's issuers, one a line.
    #[arg(long, value_name = "FILE")]
    pub(crate) issuers: Option<PathBuf>,
    /// Go on in spite of this evidence against the log, which `evidence list` shows; may be given several times.
    #[arg(long, value_name = "N")]
    pub(crate) acknowledge: Vec<u64>,
    /// Print the result as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct LogList {
    /// The configuration file.
    #[arg(long, value_name = "FILE", default_value = "config.toml")]
    pub(crate) config: PathBuf,
    /// Print the result as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Evidence {
    /// Print what each document shows. Exits 1 if one of them shows nothing, 2 if one cannot be checked here.
    #[command(after_help = "Example: counterfoil-witness evidence list --url http://127.0.0.1:7380")]
    List(EvidenceList),
    /// Check one document and print it, or write it to a file.
    #[command(after_help = "Example:
  counterfoil-witness evidence show 0 --out fork.json \\
      --url http://127.0.0.1:7380")]
    Show(EvidenceShow),
}

#[derive(Debug, Args)]
pub(crate) struct EvidenceList {
    /// The witness's address.
    #[arg(long, value_name = "U")]
    pub(crate) url: String,
    /// Print the result as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct EvidenceShow {
    /// The document's number.
    #[arg(value_name = "N")]
    pub(crate) number: u64,
    /// The witness's address.
    #[arg(long, value_name = "U")]
    pub(crate) url: String,
    /// Write the document to this file, which must not exist.
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
    /// Print the result as JSON.
    #[arg(long)]
    pub(crate) json: bool,
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
    /// Make a second key, ML-DSA-44: every cosignature then comes in two lines.
    #[arg(long)]
    pub(crate) mldsa: bool,
    /// The socket of an ssh-agent that holds the witness's key, in the place of a key file.
    #[arg(long, value_name = "SOCKET", requires = "ssh_key")]
    pub(crate) ssh_agent: Option<PathBuf>,
    /// The public half of that key, a file that ssh-keygen wrote (`ssh-ed25519 ...`). The key is for this alone.
    #[arg(long, value_name = "FILE", requires = "ssh_agent")]
    pub(crate) ssh_key: Option<PathBuf>,
    /// What its cosignatures say: that a log's history only grew, or also that every receipt in it may be there.
    #[arg(long, value_name = "LEVEL", default_value_t)]
    pub(crate) level: Level,
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
    /// Any other key of the configuration.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub(crate) assignments: Vec<String>,
}

#[derive(Debug, Args)]
pub(crate) struct Status {
    /// The witness's address.
    #[arg(long, value_name = "U")]
    pub(crate) url: String,
    /// List every log, not as many as a screen holds.
    #[arg(long)]
    pub(crate) all: bool,
    /// Print the result as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}
