//! The command line of `counterfoil-verify`.

use crate::report::ReportFile;
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
  counterfoil-verify audit --policy policy --issuers issuers \\
      --report html=verdict.html,json=verdict.json bundle
  counterfoil-verify proof --policy policy r.tlog-proof r.entry
  counterfoil-verify compare --policy policy bundle-a bundle-b
  counterfoil-verify export --format cose --policy policy --key notary.key \\
      --out r.cose r.tlog-proof r.entry
  counterfoil-verify evidence fork.json
  counterfoil-verify policy policy

Exit codes: 0 ok, 1 failed, 2 not everything required was checked, 64 usage,
65 unreadable input.";

const FETCHED: &str = "\
Examples:
  counterfoil-verify fetch --policy policy --out bundle
  counterfoil-verify fetch --policy policy --out today --since yesterday

Killed or cut off, the same command goes on; what is held and verified is not
fetched again. With --since nothing is written to the earlier bundle, and full
pages take no room twice (hard links). A log of something else than receipts is
mirrored too.";

const PACKED: &str = "\
Examples:
  counterfoil-verify audit --policy policy --issuers issuers bundle
  tar -C bundle -cf - . | zstd -o bundle.tar.zst
  counterfoil-verify audit --policy policy --issuers issuers bundle.tar.zst

The forms of the issuers file and of the rules file are in PROTOCOL.md, section
9.1; what each finding means is in docs/checks.md.

An archive is unpacked into a file without a name in the temporary directory
(TMPDIR), 16 GiB at most, which needs that much room there. Memory does not grow
with it.";

/// Checks a log of receipts offline: what is in it, who vouches for it, what is missing.
#[derive(Debug, Parser)]
#[command(name = "counterfoil-verify", version, arg_required_else_help = true, max_term_width = 80, after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: Command,
    /// TOML file with any of the options, in snake_case (an option's key is its variable's name without COUNTERFOIL_);
    /// variables and flags override it. Paths in it begin at its directory.
    #[arg(long, global = true, display_order = 899, value_name = "FILE", env = "COUNTERFOIL_CONFIG", value_hint = ValueHint::FilePath)]
    pub(crate) config: Option<PathBuf>,
    /// How log lines on stderr look.
    #[arg(long, global = true, display_order = 900, env = "COUNTERFOIL_LOG_FORMAT", value_enum, default_value_t = LogFormat::Human)]
    pub(crate) log_format: LogFormat,
    /// Which log lines are shown: a level, or a list of levels by part.
    #[arg(long, global = true, display_order = 901, env = "COUNTERFOIL_LOG_LEVEL", default_value = "info")]
    pub(crate) log_level: String,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Mirror a log and its witnesses, from the addresses in the policy, into a bundle. Safe to kill and rerun.
    #[command(after_help = FETCHED)]
    Fetch(Fetch),
    /// Judge a bundle: a directory, or the same as one .tar.zst.
    #[command(after_help = PACKED)]
    Audit(Audit),
    /// Check one receipt by its proof.
    #[command(after_help = "Example: counterfoil-verify proof --policy policy --issuers issuers r.tlog-proof r.entry")]
    Proof(Proof),
    /// Compare bundles of one log that were fetched at different places or times: are they one history?
    #[command(
        after_help = "Example: counterfoil-verify compare --policy policy --issuers issuers bundle-a bundle-b.tar.zst"
    )]
    Compare(Compare),
    /// Write one receipt, once its proof is checked, in a form that other tools read: COSE (RFC 9942) or in-toto.
    #[command(
        after_help = "Example: counterfoil-verify export --format in-toto --policy policy --out r.json r.tlog-proof r.entry"
    )]
    Export(Export),
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
    /// An earlier bundle of the same log: what it holds is taken over, once verified, and not fetched. Says so, and keeps
    /// both heads, if the log no longer honours it.
    #[arg(long, value_name = "BUNDLE", env = "COUNTERFOIL_SINCE", value_hint = ValueHint::DirPath)]
    pub(crate) since: Option<PathBuf>,
    /// How long to wait for a quorum over the newest head.
    #[arg(long, value_name = "D", env = "COUNTERFOIL_WAIT", default_value = "10s")]
    pub(crate) wait: DurationArgument,
    /// How long any one answer may take; a page can have 16 MiB.
    #[arg(long, value_name = "D", env = "COUNTERFOIL_TIMEOUT", default_value = "60s")]
    pub(crate) timeout: DurationArgument,
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
    /// How long after an allow its outcome may be missing, e.g. 15m.
    #[arg(long, value_name = "D", env = "COUNTERFOIL_OUTCOME_DEADLINE")]
    pub(crate) outcome_deadline: Option<DurationArgument>,
    /// Go on from the state that an earlier audit saved: entries that it judged are not read again.
    #[arg(long, value_name = "STATE", env = "COUNTERFOIL_SINCE_STATE", value_hint = ValueHint::FilePath)]
    pub(crate) since: Option<PathBuf>,
    /// Save a state for a later audit to go on from. Keep it as you keep the policy: it is believed.
    #[arg(long, value_name = "STATE", env = "COUNTERFOIL_SAVE_STATE", value_hint = ValueHint::FilePath)]
    pub(crate) save_state: Option<PathBuf>,
    /// Threads that check signatures; all cores by default.
    #[arg(long, value_name = "N", env = "COUNTERFOIL_THREADS")]
    pub(crate) threads: Option<usize>,
    /// Also write the verdict to files: html=F (a page to read and mail), json=F, or both with a comma between.
    #[arg(long, value_name = "html=F,json=F", env = "COUNTERFOIL_REPORT")]
    pub(crate) report: Option<ReportArgument>,
    /// Also write every evidence document that was made into this new directory, a file each.
    #[arg(long, value_name = "DIR", env = "COUNTERFOIL_EVIDENCE", value_hint = ValueHint::DirPath)]
    pub(crate) evidence: Option<PathBuf>,
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
pub(crate) struct Compare {
    /// The policy: log, witnesses, quorum.
    #[arg(long, value_name = "P", env = "COUNTERFOIL_POLICY", value_hint = ValueHint::FilePath)]
    pub(crate) policy: PathBuf,
    /// The issuers you know; without it no issuer is shown to have signed two histories.
    #[arg(long, value_name = "I", env = "COUNTERFOIL_ISSUERS", value_hint = ValueHint::FilePath)]
    pub(crate) issuers: Option<PathBuf>,
    /// Threads that check signatures; all cores by default.
    #[arg(long, value_name = "N", env = "COUNTERFOIL_THREADS")]
    pub(crate) threads: Option<usize>,
    /// Print the result as JSON, with the evidence documents.
    #[arg(long)]
    pub(crate) json: bool,
    /// The bundles, two or more: directories, or .tar.zst.
    #[arg(value_name = "BUNDLE", num_args = 2.., required = true, value_hint = ValueHint::AnyPath)]
    pub(crate) bundles: Vec<PathBuf>,
}

/// The other worlds that a receipt can be written for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum ExportFormat {
    /// A COSE receipt (RFC 9942), signed by --key.
    Cose,
    /// An in-toto Statement; in a DSSE envelope signed by --key, if one is given.
    InToto,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Export {
    /// The form.
    #[arg(long, value_enum, env = "COUNTERFOIL_FORMAT")]
    pub(crate) format: ExportFormat,
    /// The policy: log, witnesses, quorum.
    #[arg(long, value_name = "P", env = "COUNTERFOIL_POLICY", value_hint = ValueHint::FilePath)]
    pub(crate) policy: PathBuf,
    /// The issuers you care about; without it the issuer's own signature is not checked.
    #[arg(long, value_name = "I", env = "COUNTERFOIL_ISSUERS", value_hint = ValueHint::FilePath)]
    pub(crate) issuers: Option<PathBuf>,
    /// The private key that signs what is written: the log's, if you operate it, else one of your own (type 0x01).
    #[arg(long, value_name = "KEY", env = "COUNTERFOIL_KEY", value_hint = ValueHint::FilePath)]
    pub(crate) key: Option<PathBuf>,
    /// Where to.
    #[arg(long, value_name = "F", env = "COUNTERFOIL_OUT", value_hint = ValueHint::FilePath)]
    pub(crate) out: PathBuf,
    /// Print what was done as JSON.
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

/// Which reports to write, and where.
#[derive(Clone, Debug)]
pub(crate) struct ReportArgument(pub(crate) Vec<ReportFile>);

impl FromStr for ReportArgument {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        const WRITE: &str = "write html=FILE, json=FILE or html=FILE,json=FILE; a FILE holds no comma";
        let mut files: Vec<ReportFile> = Vec::new();
        for part in text.split(',') {
            let file = match part.split_once('=') {
                Some(("html", file)) if !file.is_empty() => ReportFile::Html(PathBuf::from(file)),
                Some(("json", file)) if !file.is_empty() => ReportFile::Json(PathBuf::from(file)),
                _ => return Err(String::from(WRITE)),
            };
            let same_form = |other: &ReportFile| std::mem::discriminant(other) == std::mem::discriminant(&file);
            if files.iter().any(|other| same_form(other) || other.path() == file.path()) {
                return Err(String::from("write each form once, each to a file of its own"));
            }
            files.push(file);
        }
        Ok(ReportArgument(files))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn compare_takes_no_state_of_an_audit() {
        let parse = |command: &str, option: &[&str]| {
            let words = ["counterfoil-verify", command, "--policy", "p", "--issuers", "i"].into_iter();
            Arguments::try_parse_from(words.chain(option.iter().copied()).chain(["bundle"]).chain(match command {
                "compare" => Some("bundle-2"),
                _ => None,
            }))
        };
        for option in [["--since", "state"], ["--save-state", "state"]] {
            assert!(parse("audit", &option).is_ok(), "{option:?}");
            assert!(parse("compare", &option).is_err(), "{option:?}");
        }
        assert!(parse("compare", &[]).is_ok());
    }

    #[test]
    fn no_two_options_of_other_meanings_share_a_variable() {
        let command = Arguments::command();
        let of = |name: &str, option: &str| {
            let command = command.find_subcommand(name).unwrap();
            let option = command.get_arguments().find(|argument| argument.get_id() == option).unwrap();
            option.get_env().unwrap().to_owned()
        };
        assert_eq!([of("fetch", "since"), of("audit", "since")], ["COUNTERFOIL_SINCE", "COUNTERFOIL_SINCE_STATE"]);
    }

    #[test]
    fn help_fits_80_columns_and_ends_with_what_all_commands_have() {
        for name in ["fetch", "audit", "proof", "compare", "export", "evidence", "policy"] {
            let mut words = Arguments::try_parse_from(["counterfoil-verify", name, "--help"]).unwrap_err().to_string();
            // The line of usage is never broken.
            let mut lines = words.lines().filter(|line| !line.starts_with("Usage: "));
            assert!(lines.all(|line| line.chars().count() <= 80), "{words}");
            let options = words.split_off(words.find("Options:").unwrap());
            let place = |option: &str| options.find(option).unwrap_or_else(|| panic!("{option} in {options}"));
            assert!(
                place("--json") < place("--log-format") && place("--log-format") < place("--log-level"),
                "{options}"
            );
        }
    }

    #[test]
    fn reports_are_named_by_form_each_once() {
        let files = |text: &str| text.parse::<ReportArgument>().map(|argument| argument.0);
        let (html, json) = (ReportFile::Html("a=b.html".into()), ReportFile::Json("c".into()));
        assert_eq!(files("html=a=b.html,json=c"), Ok(vec![html.clone(), json.clone()]));
        assert_eq!(files("json=c,html=a=b.html"), Ok(vec![json, html]));
        for text in ["", "html", "html=", "pdf=x", "html=a,", ",json=a", "html=a,html=b", "html=a,json=a", "HTML=a"] {
            assert!(files(text).is_err(), "{text}");
        }
    }
}
