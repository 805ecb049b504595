//! The command line of the bench.

use clap::{Parser, Subcommand, ValueEnum, ValueHint};
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  cargo run --release -p counterfoil-bench -- log
  cargo run --release -p counterfoil-bench -- log --receipts 1000000
  cargo run --release -p counterfoil-bench -- log --only single,batch --keep /tmp/profiled
  cargo run --release -p counterfoil-bench -- witness
  cargo run --release -p counterfoil-bench -- verify
  cargo run --release -p counterfoil-bench -- gate";

/// Measures a log, a witness, the verifier or a gate on this machine and prints what was found beside what must be reached.
#[derive(Debug, Parser)]
#[command(name = "counterfoil-bench", version, after_help = EXAMPLES)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) what: What,
}

/// What is measured.
#[derive(Debug, Subcommand)]
pub(crate) enum What {
    /// The log: how much it takes, how fast, and what that costs
    Log(LogArguments),
    /// The witness: what it cosigns, how fast, and what it costs to run
    Witness(WitnessArguments),
    /// The verifier: what an audit costs, and what it costs beside the signatures it has to check
    Verify(VerifyArguments),
    /// The gate: what a decision costs before its action may run, and how fast an outbox catches up
    Gate(GateArguments),
}

/// Where it is measured, and how it is told.
#[derive(Debug, clap::Args)]
pub(crate) struct Place {
    /// Directory in which all is made, and removed at the end; its file system is what is measured [default: the
    /// system's temporary one]
    #[arg(long, value_hint = ValueHint::DirPath, conflicts_with = "keep")]
    pub(crate) dir: Option<PathBuf>,
    /// Make all in this new directory and leave it there
    #[arg(long, value_hint = ValueHint::DirPath)]
    pub(crate) keep: Option<PathBuf>,
    /// Print the result as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Arguments of `verify`.
#[derive(Debug, clap::Args)]
pub(crate) struct VerifyArguments {
    /// Receipts in the bundle; the bars are for 1000000
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(LEAST_RECEIPTS..))]
    pub(crate) receipts: u64,
    /// Only these rows
    #[arg(long, value_enum, value_delimiter = ',', value_name = "ROW")]
    pub(crate) only: Vec<VerifyRow>,
    #[command(flatten)]
    pub(crate) place: Place,
}

/// A row of the verifier's table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum VerifyRow {
    /// A full audit
    Audit,
    /// The same again with the state that the first one saved
    Since,
    /// One receipt by its proof
    Proof,
}

impl std::fmt::Display for VerifyRow {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&spelled(self))
    }
}

impl VerifyArguments {
    /// Whether a row is asked for.
    pub(crate) fn asks_for(&self, row: VerifyRow) -> bool {
        self.only.is_empty() || self.only.contains(&row)
    }
}

/// Arguments of `gate`.
#[derive(Debug, clap::Args)]
pub(crate) struct GateArguments {
    /// Decisions that are timed
    #[arg(long, default_value_t = 2_000, value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(20..))]
    pub(crate) decisions: usize,
    /// Receipts in the outbox that is drained
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u64).range(100..))]
    pub(crate) drained: u64,
    /// Receipts that gather while the log is down; 72000 are an hour of ten decisions a second with their outcomes
    #[arg(long, default_value_t = 72_000, value_parser = clap::value_parser!(u64).range(20..))]
    pub(crate) outage_receipts: u64,
    /// Entries of the log that is followed for a history
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u64).range(100..))]
    pub(crate) followed: u64,
    /// Only these rows
    #[arg(long, value_enum, value_delimiter = ',', value_name = "ROW")]
    pub(crate) only: Vec<GateRow>,
    #[command(flatten)]
    pub(crate) place: Place,
}

/// A row of the gate's table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum GateRow {
    /// A decision, until it is durable
    Decision,
    /// The same through the Python SDK
    Python,
    /// An outbox that is drained to a log
    Drain,
    /// An hour of traffic with the log down
    Outage,
    /// A log that is followed from its first entry, for the history of a subject
    History,
}

impl std::fmt::Display for GateRow {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&spelled(self))
    }
}

impl GateArguments {
    /// Whether a row is asked for.
    pub(crate) fn asks_for(&self, row: GateRow) -> bool {
        self.only.is_empty() || self.only.contains(&row)
    }
}

/// Arguments of `witness`.
#[derive(Debug, clap::Args)]
pub(crate) struct WitnessArguments {
    /// Heads that are pushed in the row with 64 logs
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u64).range(640..))]
    pub(crate) pushes: u64,
    /// Seconds during which idle logs are followed: all of them are fetched once in ten
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u64).range(10..))]
    pub(crate) idle_s: u64,
    /// Split views that are timed
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) splits: u64,
    /// Receipts in the log that a witness of level full catches up with
    #[arg(long, default_value_t = 200_000, value_parser = clap::value_parser!(u64).range(LEAST_RECEIPTS..))]
    pub(crate) receipts: u64,
    /// Only these rows
    #[arg(long, value_enum, value_delimiter = ',', value_name = "ROW")]
    pub(crate) only: Vec<WitnessRow>,
    #[command(flatten)]
    pub(crate) place: Place,
}

/// A row of the witness's table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum WitnessRow {
    /// Heads pushed by 64 logs over 64 connections
    Pushes,
    /// Heads pushed by one log over one connection
    Lone,
    /// A thousand logs in which nothing happens
    Idle,
    /// A log that shows two witnesses two histories
    SplitView,
    /// Level full: catching up with a log from its first receipt
    Full,
}

impl std::fmt::Display for WitnessRow {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&spelled(self))
    }
}

impl WitnessArguments {
    /// Whether a row is asked for.
    pub(crate) fn asks_for(&self, row: WitnessRow) -> bool {
        self.only.is_empty() || self.only.contains(&row)
    }
}

/// Arguments of `log`.
#[derive(Debug, clap::Args)]
pub(crate) struct LogArguments {
    /// Receipts that the log grows to, for the rows that depend on it; the bars are for 1000000 and 10000000
    #[arg(long, default_value_t = 200_000, value_parser = clap::value_parser!(u64).range(LEAST_RECEIPTS..))]
    pub(crate) receipts: u64,
    /// Only these rows
    #[arg(long, value_enum, value_delimiter = ',', value_name = "ROW")]
    pub(crate) only: Vec<Row>,
    #[command(flatten)]
    pub(crate) place: Place,
}

/// Enough for every row to have something to measure.
const LEAST_RECEIPTS: u64 = 1_000;

/// A row of the table. Some have several figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Row {
    /// One lone client
    Lone,
    /// Single-receipt requests over 256 connections
    Single,
    /// Single-receipt requests over 1,024 connections
    Single1024,
    /// Batches of 256
    Batch,
    /// Auditing a copy of the log
    Audit,
    /// Submit to quorum-cosigned proof
    Cosigned,
    /// Bytes on disk
    Disk,
    /// Resident memory
    Memory,
    /// Cost a receipt in a large log against a small one
    Cost,
    /// Cold start after kill -9
    Start,
    /// `counterfoil-log fsck`
    Fsck,
}

impl std::fmt::Display for Row {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&spelled(self))
    }
}

impl LogArguments {
    /// Whether a row is asked for.
    pub(crate) fn asks_for(&self, row: Row) -> bool {
        self.only.is_empty() || self.only.contains(&row)
    }
}

/// A row as it is spelled on the command line.
fn spelled(row: &impl ValueEnum) -> String {
    row.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
}
