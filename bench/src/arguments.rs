//! The command line of the bench.

use clap::{Parser, Subcommand, ValueEnum, ValueHint};
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  cargo run --release -p counterfoil-bench -- log
  cargo run --release -p counterfoil-bench -- log --receipts 1000000
  cargo run --release -p counterfoil-bench -- log --only single,batch --keep /tmp/profiled";

/// Measures a log on this machine and prints what was found beside what must be reached.
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
    /// Directory in which the logs are made, and removed at the end; its file system is what is measured [default: the
    /// system's temporary one]
    #[arg(long, value_hint = ValueHint::DirPath, conflicts_with = "keep")]
    pub(crate) dir: Option<PathBuf>,
    /// Make the logs in this new directory and leave them there
    #[arg(long, value_hint = ValueHint::DirPath)]
    pub(crate) keep: Option<PathBuf>,
    /// Print the result as JSON
    #[arg(long)]
    pub(crate) json: bool,
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
        f.write_str(self.to_possible_value().as_ref().map_or("", |value| value.get_name()))
    }
}

impl LogArguments {
    /// Whether a row is asked for.
    pub(crate) fn asks_for(&self, row: Row) -> bool {
        self.only.is_empty() || self.only.contains(&row)
    }
}
