//! The command line of `counterfoil`.

use crate::demo::DemoArgs;
use clap::{Args, Parser, Subcommand, ValueEnum, ValueHint};
use receipt::{IssuerName, ReceiptId};
use service::config::Flags;
use service::logs::LogFormat;
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  counterfoil demo
  counterfoil keygen --kind issuer --name gate.example/support-1 \\
    --out gate.key
  counterfoil submit --log http://127.0.0.1:8080 \\
    --log-key log.example/agents+1b2c3d4e+AX… --key gate.key --outbox outbox \\
    decisions.jsonl
  counterfoil outbox status --outbox outbox

Exit codes: 0 done, 1 it could not be done or a check failed, 2 something asked
for could not be established, 64 wrong usage or configuration, 65 input that
cannot be read.

The other programs are in here too: counterfoil log|witness|verify is
counterfoil-log, counterfoil-witness, counterfoil-verify.";

const SUBMIT_NOTES: &str = "\
Each line is signed, chained to the receipt before it and on disk in the outbox
before anything is sent. One line comes out for each line that went in, in
order, once the log has proved that it holds the receipt: seq, id, index.

Safe to kill and run again. For a FILE the outbox remembers which lines it has:
run again with the same FILE (also if lines were added at its end) and the lines
whose receipts are in the outbox are not signed again, only listed; from the
first line that differs on, everything is new. --again signs all of them once
more. What comes from standard input has no name by which it could be
recognised: give it one with --source, or run again with empty input
(< /dev/null), which sends what was read before.

Examples:
  counterfoil submit --log http://127.0.0.1:8080 --log-key VKEY \\
    --key gate.key --outbox outbox decisions.jsonl
  tail -f decisions.jsonl | counterfoil submit --config gate.toml -
  counterfoil submit --config gate.toml --wait cosigned --policy policy \\
    decisions.jsonl";

const IMPORT_NOTES: &str = "\
The records go into receipts as they stand, byte for byte. One that is no record
of the format stops everything before anything is signed. Otherwise as submit,
also for being run again: the same FILE, grown at its end, is carried on from
where it was. A record that comes in two files is carried twice, and an auditor
is told so.

Of capbroker and sequence-attack-repro one record stands on each line. Of the
signed formats (acta, obsigna, pipelock) a file may also hold receipts that are
spread over many lines, several of them, or an array of them. Whether a receipt
is good, `counterfoil-verify audit --rules FILE` says, by the keys that the
auditor pins in that file ([[foreign_key]]; PROTOCOL.md, section 9.1).

Examples:
  counterfoil import --format capbroker --config gate.toml audit.jsonl
  counterfoil import --format obsigna --config gate.toml receipt.json";

/// Receipts for what gates decide: sign them, send them, prove that a log holds them.
#[derive(Debug, Parser)]
#[command(name = "counterfoil", version, max_term_width = 80, after_help = EXAMPLES)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Start a log, three witnesses, a gate and an auditor on this machine, and show what they find
    Demo(DemoArgs),
    /// Make a private key; prints its vkey
    Keygen(Keygen),
    /// Sign bodies as receipts, one JSON object a line, and send them to the log
    Submit(Submit),
    /// Carry another system's records into the log as they stand, each in a receipt
    Import(Import),
    /// Look at an outbox, or send what is in it
    #[command(subcommand)]
    Outbox(Outbox),
    /// Fetch the proof that the log holds a receipt, and the receipt
    FetchProof(FetchProof),
    /// A gate for programs in any language: JSON over loopback HTTP or a Unix socket
    Sidecar(Sidecar),
}

/// What every call takes.
#[derive(Debug, Args)]
pub(crate) struct Common {
    /// TOML file with the settings below, in snake_case; COUNTERFOIL_<KEY> and flags override it
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) config: Option<PathBuf>,
    /// Print results as JSON, one object a line
    #[arg(long)]
    pub(crate) json: bool,
    /// How log lines on stderr look
    #[arg(long, value_enum, default_value_t = LogFormat::Human)]
    pub(crate) log_format: LogFormat,
}

#[derive(Debug, Args)]
#[command(after_help = "Example: counterfoil keygen --kind issuer --name gate.example/support-1 --out gate.key")]
pub(crate) struct Keygen {
    /// What the key is for
    #[arg(long, value_enum)]
    pub(crate) kind: KeyPurpose,
    /// Whose it is: a schema-less URL that you control; for a log its origin
    #[arg(long)]
    pub(crate) name: String,
    /// The file to write the private key to; it must not exist
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) out: PathBuf,
    /// Print the result as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum KeyPurpose {
    /// Signs receipts
    Issuer,
    /// Signs a log's heads
    Log,
    /// Cosigns logs' heads
    Witness,
    /// Cosigns logs' heads with ML-DSA-44, beside a key of the same name for `witness`
    WitnessMldsa,
}

/// The log that a gate writes to.
#[derive(Debug, Args)]
pub(crate) struct WhichLog {
    /// The log's address
    #[arg(long, value_name = "URL")]
    pub(crate) log: Option<String>,
    /// The log's vkey
    #[arg(long, value_name = "VKEY")]
    pub(crate) log_key: Option<String>,
}

/// The log, and how long to try to reach it.
#[derive(Debug, Args)]
pub(crate) struct ToLog {
    #[command(flatten)]
    pub(crate) log: WhichLog,
    /// Seconds after which a log that cannot be reached is given up; the receipts stay in the outbox [default: 60]
    #[arg(long, value_name = "N")]
    pub(crate) give_up_s: Option<u64>,
    /// What to wait for before a receipt is listed
    #[arg(long, value_enum, default_value_t = WaitFor::Integrated)]
    pub(crate) wait: WaitFor,
    /// The witnesses to wait for, as a tlog-policy file
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) policy: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum WaitFor {
    /// The log's own signed head holds the receipt
    Integrated,
    /// So many witnesses vouch for that head as the policy asks for
    Cosigned,
}

/// Whose receipts they are, and where they are kept.
#[derive(Debug, Args)]
pub(crate) struct WhichStream {
    /// The issuer's private key file
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) key: Option<PathBuf>,
    /// The outbox's directory; made if need be
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) outbox: Option<PathBuf>,
}

/// The stream, and how lines go into it.
#[derive(Debug, Args)]
pub(crate) struct FromGate {
    #[command(flatten)]
    pub(crate) stream: WhichStream,
    /// For the stream's first receipt: the longest silence the gate allows itself, in milliseconds
    #[arg(long, value_name = "N")]
    pub(crate) heartbeat_ms: Option<u64>,
    /// Sign lines once more that the outbox already has from this input
    #[arg(long)]
    pub(crate) again: bool,
}

#[derive(Debug, Args)]
#[command(after_help = SUBMIT_NOTES)]
pub(crate) struct Submit {
    #[command(flatten)]
    pub(crate) common: Common,
    #[command(flatten)]
    pub(crate) to_log: ToLog,
    #[command(flatten)]
    pub(crate) gate: FromGate,
    /// The name by which this input is recognised when it is submitted again [default: the file's path]
    #[arg(long, value_name = "NAME")]
    pub(crate) source: Option<String>,
    /// The bodies, one JSON object a line; - is standard input
    #[arg(value_name = "FILE", default_value = "-", value_hint = ValueHint::FilePath)]
    pub(crate) file: PathBuf,
}

#[derive(Debug, Args)]
#[command(after_help = IMPORT_NOTES)]
pub(crate) struct Import {
    #[command(flatten)]
    pub(crate) common: Common,
    #[command(flatten)]
    pub(crate) to_log: ToLog,
    #[command(flatten)]
    pub(crate) gate: FromGate,
    /// The format of the records
    #[arg(long, value_parser = audit::foreign::FORMATS)]
    pub(crate) format: String,
    /// The name by which this input is recognised when it is imported again [default: the file's path]
    #[arg(long, value_name = "NAME")]
    pub(crate) source: Option<String>,
    /// The records; - is standard input
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) file: PathBuf,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Outbox {
    /// Say what is queued, sent and acknowledged, and what was dropped
    Status(OutboxStatus),
    /// Send what is not acknowledged, to the log that the outbox remembers
    Flush(OutboxFlush),
    /// Check every receipt and every kept proof again
    Verify(OutboxVerify),
    /// Write the kept proofs, each beside its entry, for a bundle
    Proofs(OutboxProofs),
}

#[derive(Debug, Args)]
#[command(
    after_help = "May be asked while another process uses the outbox.\n\nExample: counterfoil outbox status --outbox outbox --json"
)]
pub(crate) struct OutboxStatus {
    #[command(flatten)]
    pub(crate) common: Common,
    #[command(flatten)]
    pub(crate) which: WhichOutbox,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Needs no key: what is in the outbox is signed.\n\nExample: counterfoil outbox flush --outbox outbox"
)]
pub(crate) struct OutboxFlush {
    #[command(flatten)]
    pub(crate) common: Common,
    #[command(flatten)]
    pub(crate) which: WhichOutbox,
    #[command(flatten)]
    pub(crate) to_log: ToLog,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Exits 1 if something is wrong, 2 if receipts have no proof yet.\n\nExample: counterfoil outbox verify --outbox outbox"
)]
pub(crate) struct OutboxVerify {
    #[command(flatten)]
    pub(crate) common: Common,
    #[command(flatten)]
    pub(crate) which: WhichOutbox,
    /// The vkey the issuer is registered with [default: what the first receipt says]
    #[arg(long, value_name = "VKEY")]
    pub(crate) issuer_key: Option<String>,
}

#[derive(Debug, Args)]
#[command(after_help = "Example: counterfoil outbox proofs --outbox outbox --out bundle/proofs")]
pub(crate) struct OutboxProofs {
    #[command(flatten)]
    pub(crate) common: Common,
    #[command(flatten)]
    pub(crate) which: WhichOutbox,
    /// The directory to write to; made if need be
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) out: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct WhichOutbox {
    /// The outbox's directory
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) outbox: Option<PathBuf>,
}

#[derive(Debug, Args)]
#[command(after_help = "\
The proof is checked against the receipt, and, with --log-key or --policy, the
head in it against the log's vkey. The receipt is written beside FILE, under its
name with .entry in place of .tlog-proof.

Examples:
  counterfoil fetch-proof --log http://127.0.0.1:8080 \\
    --receipt 395aa064aa4c… --out r.tlog-proof
  counterfoil fetch-proof --log http://127.0.0.1:8080 \\
    --issuer gate.example/support-1 --seq 41 --out r41.tlog-proof")]
pub(crate) struct FetchProof {
    #[command(flatten)]
    pub(crate) common: Common,
    /// The log's address
    #[arg(long, value_name = "URL")]
    pub(crate) log: Option<String>,
    /// The log's vkey, to check the head
    #[arg(long, value_name = "VKEY")]
    pub(crate) log_key: Option<String>,
    /// A tlog-policy file, to check head and quorum
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) policy: Option<PathBuf>,
    /// The receipt's id, 64 hex digits
    #[arg(long, value_name = "ID", conflicts_with_all = ["issuer", "seq"], required_unless_present = "issuer")]
    pub(crate) receipt: Option<ReceiptId>,
    /// The receipt's issuer
    #[arg(long, value_name = "NAME", requires = "seq", value_parser = IssuerName::new)]
    pub(crate) issuer: Option<IssuerName>,
    /// The receipt's seq
    #[arg(long, value_name = "N", requires = "issuer", value_parser = decimal)]
    pub(crate) seq: Option<u64>,
    /// The file to write the proof to
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) out: PathBuf,
}

#[derive(Debug, Args)]
#[command(after_help = "\
A decision is durable in the outbox when it is answered; only then act. Then say
what became of it, with the scope that was answered, once:

  POST /v1/decisions  {\"decision\":\"allow\",\"authenticated\":true,
                       \"operation\":\"mail.send\",\"args\":{\"to\":\"a@b.example\"}}
    201 {\"receipt_id\":\"...\",\"seq\":1,\"request_id\":\"...\",\"scope\":\"...\"}
  POST /v1/outcomes   {\"scope\":\"...\",\"result\":{\"sent\":1}}
    result or result_digest, or nothing  it came back: executed true
    error                                it failed: executed false; beside a
                                         result: it came back, then failed
    not_executed, a reason               it was not done after all
    cancelled, true                      nobody knows: unknown

and /v1/receipts, /v1/reported, /v1/receipts/<id>/proof, /v1/flush, /v1/status,
/metrics, /healthz, /readyz. With a policy, GET /v1/history?subject=... answers
what the log shows of a subject; its \"history\" goes into the next decision.
A scope without outcome is closed as unknown after --lease-s, when the sidecar
stops, and at its next start if it was killed.

--socket is its owner's alone (mode 0600). At an address, which must be of this
machine, callers show the token: Authorization: Bearer TOKEN. The token is in
--token-file, or in COUNTERFOIL_SIDECAR_TOKEN.

Examples:
  counterfoil sidecar --config gate.toml --socket gate.sock
  counterfoil sidecar --config gate.toml --listen 127.0.0.1:7390 \\
    --token-file token
  curl --unix-socket gate.sock -H 'Content-Type: application/json' \\
    -d '{\"decision\":\"deny\",\"authenticated\":false}' \\
    http://localhost/v1/decisions")]
pub(crate) struct Sidecar {
    #[command(flatten)]
    pub(crate) common: Common,
    #[command(flatten)]
    pub(crate) log: WhichLog,
    #[command(flatten)]
    pub(crate) stream: WhichStream,
    /// Whom to trust for histories, as a tlog-policy file
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) policy: Option<PathBuf>,
    /// The longest silence the gate allows itself, in milliseconds: it says heartbeat in time
    #[arg(long, value_name = "N")]
    pub(crate) heartbeat_ms: Option<u64>,
    /// Listen at this loopback address
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) listen: Option<String>,
    /// Listen in this file, a Unix socket
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath)]
    pub(crate) socket: Option<PathBuf>,
    /// The file with the token that callers at the address show
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) token_file: Option<PathBuf>,
    /// Seconds after which a scope without outcome is closed as unknown [default: 600]
    #[arg(long, value_name = "N")]
    pub(crate) lease_s: Option<u64>,
    /// What becomes of an action whose decision cannot be kept [default: fail_closed]
    #[arg(long, value_name = "WHAT", value_parser = ["fail_closed", "fail_open"])]
    pub(crate) when_full: Option<String>,
    /// Most receipts that may wait for the log [default: 1000000]
    #[arg(long, value_name = "N")]
    pub(crate) max_queued: Option<u64>,
}

impl Sidecar {
    /// As configuration.
    pub(crate) fn set_in(&self, flags: Flags) -> Flags {
        self.stream
            .set_in(self.log.set_in(flags))
            .set_path("policy", self.policy.as_deref())
            .set("heartbeat_ms", self.heartbeat_ms.map(seconds))
            .set("sidecar_listen", self.listen.clone())
            .set_path("sidecar_socket", self.socket.as_deref())
            .set_path("sidecar_token_file", self.token_file.as_deref())
            .set("lease_s", self.lease_s.map(seconds))
            .set("when_full", self.when_full.clone())
            .set("max_queued", self.max_queued.map(seconds))
    }
}

impl Outbox {
    pub(crate) fn common(&self) -> &Common {
        match self {
            Self::Status(arguments) => &arguments.common,
            Self::Flush(arguments) => &arguments.common,
            Self::Verify(arguments) => &arguments.common,
            Self::Proofs(arguments) => &arguments.common,
        }
    }
}

impl WhichLog {
    fn set_in(&self, flags: Flags) -> Flags {
        flags.set("log", self.log.clone()).set("log_key", self.log_key.clone())
    }
}

impl WhichStream {
    fn set_in(&self, flags: Flags) -> Flags {
        flags.set_path("key", self.key.as_deref()).set_path("outbox", self.outbox.as_deref())
    }
}

impl ToLog {
    /// As configuration.
    pub(crate) fn set_in(&self, flags: Flags) -> Flags {
        self.log.set_in(flags).set("give_up_s", self.give_up_s.map(seconds)).set_path("policy", self.policy.as_deref())
    }
}

impl FromGate {
    /// As configuration.
    pub(crate) fn set_in(&self, flags: Flags) -> Flags {
        self.stream.set_in(flags).set("heartbeat_ms", self.heartbeat_ms.map(seconds))
    }
}

/// TOML's integers are signed; whoever wants more than 2^63 gets that.
fn seconds(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn decimal(text: &str) -> Result<u64, String> {
    merkle::decimal::parse_u64(text).ok_or_else(|| "not a decimal number without leading zeroes".to_owned())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_sound_and_every_call_shows_an_example() {
        let command = Arguments::command();
        command.clone().debug_assert();
        let mut calls: Vec<_> = command.get_subcommands().filter(|call| !call.is_hide_set()).cloned().collect();
        let outbox = calls.iter().position(|call| call.get_name() == "outbox").unwrap();
        calls.extend(calls[outbox].get_subcommands().cloned().collect::<Vec<_>>());
        calls.remove(outbox);
        for mut call in calls {
            let help = call.render_long_help().to_string();
            assert!(help.contains("Example"), "{}: {help}", call.get_name());
        }
    }

    #[test]
    fn a_receipt_is_named_by_its_id_or_by_issuer_and_seq() {
        let id = "ab".repeat(32);
        let parse = |words: &[&str]| {
            Arguments::try_parse_from(["counterfoil", "fetch-proof", "--out", "o"].iter().chain(words))
        };
        assert!(parse(&["--receipt", &id]).is_ok());
        assert!(parse(&["--issuer", "a", "--seq", "0"]).is_ok());
        for words in [
            &[][..],
            &["--issuer", "a"],
            &["--seq", "1"],
            &["--receipt", "ab"],
            &["--receipt", &id, "--seq", "1"],
            &["--issuer", "a", "--seq", "01"],
        ] {
            assert!(parse(words).is_err(), "{words:?}");
        }
    }
}
