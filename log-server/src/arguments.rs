//! The command line of `counterfoil-log`.

use clap::{Parser, Subcommand, ValueHint};
use service::config::Flags;
use service::logs::LogFormat;
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  counterfoil-log init --dir log --origin log.example/agents
  counterfoil-log issuer add --dir log gate.example/support-1+1b2c3d4e+AX…
  counterfoil-log serve --config log/config.toml
  counterfoil-log status --url http://127.0.0.1:8080
  counterfoil-log fsck --dir log
  counterfoil-log export --dir log --out /srv/www/log

Exit codes: 0 done, 1 it could not be done, or fsck found something wrong, 64 wrong usage or configuration, 65 what fsck or
export has to read cannot be read.";

/// Runs an append-only log of receipts.
#[derive(Debug, Parser)]
#[command(name = "counterfoil-log", version, max_term_width = 80, after_help = EXAMPLES)]
pub struct Arguments {
    /// What to do.
    #[command(subcommand)]
    pub command: Call,
}

/// The subcommands.
#[derive(Debug, Subcommand)]
pub enum Call {
    /// Make a new log: its key, its configuration, an empty store
    Init(Init),
    /// Run a log
    Serve(Box<Serve>),
    /// Say which issuers may submit
    #[command(subcommand)]
    Issuer(Issuer),
    /// Ask a running log how it is
    Status(Status),
    /// Check everything that a stopped log has on disk, from its entries up
    Fsck(Fsck),
    /// Write a copy in plain files, for any web server or bucket
    Export(Export),
}

/// Arguments of `init`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: counterfoil-log init --dir log --origin log.example/agents --listen 127.0.0.1:8080")]
pub struct Init {
    /// Directory to make; it must not exist
    #[arg(long, value_hint = ValueHint::DirPath)]
    pub dir: PathBuf,
    /// The log's origin: the name its heads are signed under, for ever. A schema-less URL that you control
    #[arg(long)]
    pub origin: String,
    /// Address to listen on
    #[arg(long, default_value = "127.0.0.1:8080")]
    pub listen: String,
    /// Print the result as JSON
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `serve`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example: counterfoil-log serve --config log/config.toml --listen 0.0.0.0:8080 --set limits.connections=256\n\
    Flags win over COUNTERFOIL_<KEY> in the environment, and that over the file. SIGHUP reads the issuers file and the certificate again; SIGTERM stops."
)]
pub struct Serve {
    /// The configuration file
    #[arg(long, value_hint = ValueHint::FilePath)]
    pub config: PathBuf,
    /// Address to listen on
    #[arg(long)]
    listen: Option<String>,
    /// The log's private key
    #[arg(long, value_hint = ValueHint::FilePath)]
    key: Option<PathBuf>,
    /// Directory of the store
    #[arg(long, value_hint = ValueHint::DirPath)]
    store: Option<PathBuf>,
    /// The list of issuers
    #[arg(long, value_hint = ValueHint::FilePath)]
    issuers: Option<PathBuf>,
    /// Policy that says when a head counts as cosigned; without it every configured witness must have cosigned
    #[arg(long, value_hint = ValueHint::FilePath)]
    policy: Option<PathBuf>,
    /// The longest that one head stays on offer while newer ones are signed
    #[arg(long, value_name = "MS")]
    head_interval_ms: Option<u32>,
    /// How long `Prefer: wait=cosigned` waits
    #[arg(long, value_name = "MS")]
    cosigned_wait_ms: Option<u32>,
    /// How often a quiet log asks its witnesses for fresh cosignatures
    #[arg(long, value_name = "MS")]
    witness_poll_ms: Option<u32>,
    /// How long one request to a witness may take
    #[arg(long, value_name = "MS")]
    witness_deadline_ms: Option<u32>,
    /// How long a commit waits for more receipts while the log is under load
    #[arg(long, value_name = "MS")]
    linger_ms: Option<u32>,
    /// Submissions that may wait to be committed
    #[arg(long, value_name = "COUNT")]
    queue: Option<u32>,
    /// How log lines look
    #[arg(long)]
    log_format: Option<LogFormat>,
    /// Which log lines are written: a level, or a list such as info,hyper=warn
    #[arg(long, value_name = "FILTER")]
    log_level: Option<String>,
    /// Any other key of the configuration
    #[arg(long = "set", value_name = "KEY=VALUE")]
    assignments: Vec<String>,
}

impl Serve {
    /// The flags as the uppermost layer of the configuration.
    ///
    /// # Errors
    /// A sentence about an assignment that is none.
    pub fn flags(&self) -> Result<Flags, String> {
        let log_format = self.log_format.map(|format| match format {
            LogFormat::Human => "human",
            LogFormat::Json => "json",
        });
        let flags = Flags::new()
            .set("listen", self.listen.clone())
            .set_path("key", self.key.as_deref())
            .set_path("store", self.store.as_deref())
            .set_path("issuers", self.issuers.as_deref())
            .set_path("policy", self.policy.as_deref())
            .set("head_interval_ms", self.head_interval_ms)
            .set("cosigned_wait_ms", self.cosigned_wait_ms)
            .set("witness_poll_ms", self.witness_poll_ms)
            .set("witness_deadline_ms", self.witness_deadline_ms)
            .set("linger_ms", self.linger_ms)
            .set("queue", self.queue)
            .set("log_format", log_format)
            .set("log_level", self.log_level.clone());
        self.assignments.iter().try_fold(flags, |flags, assignment| flags.assign(assignment))
    }
}

/// The subcommands of `issuer`.
#[derive(Debug, Subcommand)]
pub enum Issuer {
    /// Let an issuer submit receipts
    #[command(after_help = "Example: counterfoil-log issuer add --dir log gate.example/support-1+1b2c3d4e+AX…")]
    Add {
        /// The log's directory
        #[arg(long, value_hint = ValueHint::DirPath)]
        dir: PathBuf,
        /// The issuer's verification key, as `counterfoil keygen --kind issuer` prints it
        vkey: String,
        /// Print the result as JSON
        #[arg(long)]
        json: bool,
    },
    /// Let an issuer submit no more; what it has in the log stays, and it can be added again
    #[command(after_help = "Example: counterfoil-log issuer retire --dir log gate.example/support-1")]
    Retire {
        /// The log's directory
        #[arg(long, value_hint = ValueHint::DirPath)]
        dir: PathBuf,
        /// The issuer's name
        name: String,
        /// Print the result as JSON
        #[arg(long)]
        json: bool,
    },
    /// Show the issuers that may submit, and those that were retired
    #[command(after_help = "Example: counterfoil-log issuer list --dir log --json")]
    List {
        /// The log's directory
        #[arg(long, value_hint = ValueHint::DirPath)]
        dir: PathBuf,
        /// Print the result as JSON
        #[arg(long)]
        json: bool,
    },
}

/// Arguments of `fsck`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Every hash is made again from the entries and compared; every head's signature and root, every receipt by the rule of
admission, the issuers' arrays, the id index and the saved states are checked. Nothing is changed without --repair-index.
A log that runs has to be stopped first.

Examples:
  counterfoil-log fsck --dir log
  counterfoil-log fsck --dir log --repair-index
  counterfoil-log fsck --dir copy --log-key log.example/agents+1b2c3d4e+AX… --json

Exit codes: 0 all is right, 1 something is wrong, 64 wrong usage or configuration, 65 it could not be looked at.")]
pub struct Fsck {
    /// The log's directory
    #[arg(long, value_hint = ValueHint::DirPath)]
    pub dir: PathBuf,
    /// The log's vkey; without it the private key file is read for it
    #[arg(long, value_name = "VKEY")]
    pub log_key: Option<String>,
    /// Delete what is derived from the entries and derive it again, then check again; refused where an entry or a head is
    /// damaged, which only a copy mends
    #[arg(long)]
    pub repair_index: bool,
    /// Leave the signatures of receipts and heads out, but for the newest head's, and what receipts say: a log that took them
    /// has checked that, and the hashes show that they are the same still. Many times faster
    #[arg(long)]
    pub skip_signatures: bool,
    /// Print the result as JSON
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `export`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
The log may run meanwhile: the copy ends at the newest head that is durable when it begins. Run again, it adds what is new;
full tiles and bundles are never written again. The checkpoint comes last, so that a copy that is served while it is made is
whole at every moment.

Example: counterfoil-log export --dir log --out /srv/www/log

Exit codes: 0 done, 1 it could not be written, or the log is damaged, 64 wrong usage or configuration, 65 the log could not
be read.")]
pub struct Export {
    /// The log's directory
    #[arg(long, value_hint = ValueHint::DirPath)]
    pub dir: PathBuf,
    /// Where the copy goes; made if it is not there
    #[arg(long, value_hint = ValueHint::DirPath)]
    pub out: PathBuf,
    /// The log's vkey; without it the private key file is read for it
    #[arg(long, value_name = "VKEY")]
    pub log_key: Option<String>,
    /// Print the result as JSON
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `status`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: counterfoil-log status --url http://127.0.0.1:8080 --json")]
pub struct Status {
    /// The log's address
    #[arg(long)]
    pub url: String,
    /// Print the result as JSON
    #[arg(long)]
    pub json: bool,
}
