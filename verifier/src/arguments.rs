//! The command line of `counterfoil-verify`.

use clap::{Parser, Subcommand, ValueHint};
use receipt::UnixMillis;
use service::logs::LogFormat;
use std::path::PathBuf;
use std::str::FromStr;

const EXAMPLES: &str = "\
Examples:
  counterfoil-verify fetch --policy policy --out bundle
  counterfoil-verify audit --policy policy --issuers issuers bundle
  counterfoil-verify audit --policy policy --issuers issuers \\
      --at 2026-11-29T12:00:00Z --max-age 10m bundle
  counterfoil-verify proof --policy policy r.tlog-proof r.entry
  counterfoil-verify evidence fork.json
  counterfoil-verify policy policy

Exit codes: 0 ok, 1 failed, 2 not everything required was checked, 64 usage,
65 unreadable input.";

/// Checks a log of receipts offline: what is in it, who vouches for it, what is missing.
#[derive(Debug, Parser)]
#[command(name = "counterfoil-verify", version, arg_required_else_help = true, after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: Command,
    /// How log lines on stderr look.
    #[arg(long, global = true, env = "COUNTERFOIL_LOG_FORMAT", value_enum, default_value_t = LogFormat::Human)]
    pub(crate) log_format: LogFormat,
    /// Which log lines are shown: a level, or a list of levels by part.
    #[arg(long, global = true, env = "COUNTERFOIL_LOG_LEVEL", default_value = "info")]
    pub(crate) log_level: String,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Mirror a log and its witnesses, from the addresses in the policy, into a bundle. Safe to kill and rerun.
    #[command(after_help = "Example: counterfoil-verify fetch --policy policy --out bundle")]
    Fetch(Fetch),
    /// Judge a bundle: a directory, or the same as one .tar.zst.
    #[command(after_help = "Example: counterfoil-verify audit --policy policy --issuers issuers bundle")]
    Audit(Audit),
    /// Check one receipt by its proof.
    #[command(after_help = "Example: counterfoil-verify proof --policy policy --issuers issuers r.tlog-proof r.entry")]
    Proof(Proof),
    /// Check one evidence document and say who is shown to have done what.
    #[command(after_help = "Example: counterfoil-verify evidence --issuers issuers fork.json")]
    Evidence(Evidence),
    /// Say what a policy tolerates: how many must agree, how many must lie for a split view.
    #[command(after_help = "Example: counterfoil-verify policy policy")]
    Policy(Policy),
}

#[derive(Debug, clap::Args)]
pub(crate) struct Fetch {
    /// The policy: log and witnesses with their addresses.
    #[arg(long, value_name = "P", env = "COUNTERFOIL_POLICY", value_hint = ValueHint::FilePath)]
    pub(crate) policy: PathBuf,
    /// The bundle's directory: new, empty, or a bundle to bring up to date.
    #[arg(long, value_name = "BUNDLE", env = "COUNTERFOIL_OUT", value_hint = ValueHint::DirPath)]
    pub(crate) out: PathBuf,
    /// How long to wait for a quorum over the newest head.
    #[arg(long, value_name = "D", env = "COUNTERFOIL_WAIT", default_value = "10s")]
    pub(crate) wait: DurationArgument,
    /// Print the result as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Audit {
    /// The policy: log, witnesses, quorum.
    #[arg(long, value_name = "P", env = "COUNTERFOIL_POLICY", value_hint = ValueHint::FilePath)]
    pub(crate) policy: PathBuf,
    /// The issuers you care about: one vkey a line, with optional heartbeat=60s from=TIME until=TIME.
    #[arg(long, value_name = "I", env = "COUNTERFOIL_ISSUERS", value_hint = ValueHint::FilePath)]
    pub(crate) issuers: PathBuf,
    /// Rules over actions (TOML); without it the built-in ones.
    #[arg(long, value_name = "R", env = "COUNTERFOIL_RULES", value_hint = ValueHint::FilePath)]
    pub(crate) rules: Option<PathBuf>,
    /// The time of the audit, e.g. 2026-11-29T12:00:00Z. No other clock is used.
    #[arg(long, value_name = "T", env = "COUNTERFOIL_AT")]
    pub(crate) at: Option<TimeArgument>,
    /// How old the newest head may be, e.g. 10m. Needs --at.
    #[arg(long, value_name = "D", env = "COUNTERFOIL_MAX_AGE", requires = "at")]
    pub(crate) max_age: Option<DurationArgument>,
    /// Threads that check signatures; all cores by default.
    #[arg(long, value_name = "N", env = "COUNTERFOIL_THREADS")]
    pub(crate) threads: Option<usize>,
    /// Also write the verdict to a file: json=FILE.
    #[arg(long, value_name = "json=F", env = "COUNTERFOIL_REPORT")]
    pub(crate) report: Option<ReportArgument>,
    /// Print the verdict as JSON.
    #[arg(long)]
    pub(crate) json: bool,
    /// The bundle: a directory, or a .tar.zst.
    #[arg(value_hint = ValueHint::AnyPath)]
    pub(crate) bundle: PathBuf,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Proof {
    /// The policy: log, witnesses, quorum.
    #[arg(long, value_name = "P", env = "COUNTERFOIL_POLICY", value_hint = ValueHint::FilePath)]
    pub(crate) policy: PathBuf,
    /// The issuers you care about; without it the issuer's own signature is not checked.
    #[arg(long, value_name = "I", env = "COUNTERFOIL_ISSUERS", value_hint = ValueHint::FilePath)]
    pub(crate) issuers: Option<PathBuf>,
    /// Print the result as JSON.
    #[arg(long)]
    pub(crate) json: bool,
    /// The proof.
    #[arg(value_name = "FILE.tlog-proof", value_hint = ValueHint::FilePath)]
    pub(crate) proof: PathBuf,
    /// The entry it is about.
    #[arg(value_name = "FILE.entry", value_hint = ValueHint::FilePath)]
    pub(crate) entry: PathBuf,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Evidence {
    /// The issuers you know: an issuer's fork across a rotation counts only for those who know its key before.
    #[arg(long, value_name = "I", env = "COUNTERFOIL_ISSUERS", value_hint = ValueHint::FilePath)]
    pub(crate) issuers: Option<PathBuf>,
    /// Print the result as JSON.
    #[arg(long)]
    pub(crate) json: bool,
    /// The document.
    #[arg(value_hint = ValueHint::FilePath)]
    pub(crate) file: PathBuf,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Policy {
    /// Print the result as JSON.
    #[arg(long)]
    pub(crate) json: bool,
    /// The policy.
    #[arg(value_name = "P", value_hint = ValueHint::FilePath)]
    pub(crate) policy: PathBuf,
}

/// A point in time on the command line: RFC 3339, any offset.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TimeArgument(pub(crate) UnixMillis);

impl FromStr for TimeArgument {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let time: jiff::Timestamp = text.parse().map_err(|_| String::from("write a time as 2026-11-29T12:00:00Z"))?;
        let millis = u64::try_from(time.as_millisecond()).map_err(|_| String::from("write a time after 1970"))?;
        Ok(TimeArgument(UnixMillis(millis)))
    }
}

/// A duration on the command line, in milliseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DurationArgument(pub(crate) u64);

impl FromStr for DurationArgument {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let millis = audit::time::parse_duration(text);
        millis.map(DurationArgument).ok_or_else(|| String::from("write a duration as 90s, 10m, 2h or 1d"))
    }
}

/// Where a report goes, and in what form.
#[derive(Clone, Debug)]
pub(crate) struct ReportArgument(pub(crate) PathBuf);

impl FromStr for ReportArgument {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once('=') {
            Some(("json", file)) if !file.is_empty() => Ok(ReportArgument(PathBuf::from(file))),
            _ => Err(String::from("write json=FILE; it is the only form of a report")),
        }
    }
}
