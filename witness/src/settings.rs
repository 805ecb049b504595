//! The witness's configuration file, and what it must be before anything runs.
//!
//! ```toml
//! listen = "127.0.0.1:7380"
//! interval_ms = 5000
//!
//! level = "consistency"            # or "full"
//! witness_key = "witness.key"      # or ssh_agent = "/path/of/socket" with witness_vkey = "…"
//! mldsa_key = "witness-mldsa.key"  # optional
//!
//! [[log]]
//! vkey = "log.example/agents+…"
//! url = "https://log.example/agents"
//! # private_address = true
//! # accept_pushes = true
//! # issuers = "issuers.txt"
//! # acknowledged_evidence = [0]
//!
//! [[peer]]
//! vkey = "other.example/w+…"
//! journal_vkey = "other.example/w/journal+…"
//! url = "https://other.example/w"
//! ```
//!
//! Holds the keys, their defaults and their checks. Does not hold how layers are put together (`service::config`).

mod entries;
pub(crate) mod file;

pub(crate) use entries::watched_log;
pub use entries::{EntryFault, LogSettings, MAX_LOGS, MAX_PEERS, PeerSettings, Section, WatchedLog, WatchedPeer};

use crate::schedule::Pace;
use note::{KeyKind, VerifierKey};
use serde::{Deserialize, Serialize};
use service::Limits;
use service::limits::LimitError;
use service::logs::LogFormat;
use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Shortest interval and gap. A fetch costs the log and our disk; a hundred a second is more than any log moves.
const MIN_INTERVAL_MS: u64 = 10;

/// Where the private key is, where the file does not say.
pub(crate) const WITNESS_KEY: &str = "witness.key";

/// What a cosignature of this witness says. It is the witness's and not a log's: one key, one meaning.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase", try_from = "String")]
pub enum Level {
    /// The log's history only grew.
    #[default]
    Consistency,
    /// And every entry of it may be in a log of receipts.
    Full,
}

/// Who signs with the witness's Ed25519 key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeySource {
    /// This process, with the private key in this file.
    File(PathBuf),
    /// An ssh-agent that listens on `socket`, with the private half of `vkey`.
    Agent {
        /// The agent's socket.
        socket: PathBuf,
        /// The witness's key.
        vkey: Box<VerifierKey>,
    },
}

/// The configuration file.
#[derive(Debug, Clone, Deserialize)]
#[serde(default)]
pub struct Settings {
    /// Where to listen.
    pub listen: SocketAddr,
    /// What a cosignature of this witness says.
    pub level: Level,
    /// The witness's private key, of type `0x04`; `witness.key` where nothing is said.
    pub witness_key: Option<PathBuf>,
    /// In its place: the socket of an ssh-agent that holds the key.
    pub ssh_agent: Option<PathBuf>,
    /// The vkey that the agent signs for.
    pub witness_vkey: Option<String>,
    /// A second private key, of type `0x06` and of the same name: every cosignature then comes in two lines.
    pub mldsa_key: Option<PathBuf>,
    /// The private key of the journal, of type `0x01`, named `<witness name>/journal`.
    pub journal_key: PathBuf,
    /// The directory of everything the witness remembers.
    pub state: PathBuf,
    /// Milliseconds between two fetches of a log of our own accord; also how often an unchanged head is cosigned
    /// again.
    pub interval_ms: u64,
    /// Milliseconds between any two fetches of a log, nudged or not.
    pub nudge_gap_ms: u64,
    /// The longest wait, in milliseconds, between two fetches of a log that fails.
    pub backoff_ms: u64,
    /// Milliseconds after which a fetch, tiles included, is given up.
    pub fetch_deadline_ms: u64,
    /// How log lines look.
    pub log_format: LogFormat,
    /// Which log lines there are.
    pub log_level: String,
    /// The limits of the listener.
    pub limits: Limits,
    /// The logs to watch.
    pub log: Vec<LogSettings>,
    /// Other witnesses to compare with.
    pub peer: Vec<PeerSettings>,
}

/// What is wrong with the configuration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SettingsError {
    /// An entry.
    #[error("{section} number {place} in the configuration: {fault}")]
    Entry {
        /// Of which section.
        section: Section,
        /// Which one there, from 1.
        place: usize,
        /// What is wrong with it.
        fault: EntryFault,
    },
    /// Too many logs.
    #[error("the configuration lists more than {MAX_LOGS} logs; run a second witness for the others")]
    TooManyLogs,
    /// Too many peers.
    #[error("the configuration lists more than {MAX_PEERS} peers; a few, run by others, are enough to be seen by")]
    TooManyPeers,
    /// A key file and an agent.
    #[error("witness_key and ssh_agent are both set; keep the one that holds the witness's key")]
    TwoKeys,
    /// One of the two without the other.
    #[error("{present} is set without {missing}; an agent's key takes both, its socket and the witness's vkey")]
    HalfAnAgent {
        /// What is there.
        present: &'static str,
        /// What is not.
        missing: &'static str,
    },
    /// The vkey for the agent is no witness's.
    #[error("witness_vkey: {0}")]
    AgentKey(String),
    /// A time that is too short.
    #[error("{0} is below {MIN_INTERVAL_MS} milliseconds; raise it")]
    TooOften(&'static str),
    /// A limit outside what makes sense.
    #[error(transparent)]
    Limit(#[from] LimitError),
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            listen: SocketAddr::from(([127, 0, 0, 1], 7380)),
            level: Level::default(),
            witness_key: None,
            ssh_agent: None,
            witness_vkey: None,
            mldsa_key: None,
            journal_key: PathBuf::from("journal.key"),
            state: PathBuf::from("state"),
            interval_ms: 5_000,
            nudge_gap_ms: 50,
            backoff_ms: 60_000,
            fetch_deadline_ms: 20_000,
            log_format: LogFormat::default(),
            log_level: "info".to_owned(),
            limits: Limits::default(),
            log: Vec::new(),
            peer: Vec::new(),
        }
    }
}

impl Settings {
    /// How often logs are fetched.
    pub fn pace(&self) -> Result<Pace, SettingsError> {
        for (name, value) in [
            ("interval_ms", self.interval_ms),
            ("nudge_gap_ms", self.nudge_gap_ms),
            ("fetch_deadline_ms", self.fetch_deadline_ms),
        ] {
            if value < MIN_INTERVAL_MS {
                return Err(SettingsError::TooOften(name));
            }
        }
        Ok(Pace { interval_ms: self.interval_ms, nudge_gap_ms: self.nudge_gap_ms, backoff_ms: self.backoff_ms })
    }

    /// Everything but the logs that can be found wrong without looking at anything else. A file that would not start a witness
    /// does not change one that runs either.
    ///
    /// # Errors
    /// [`SettingsError`]: the first fault.
    pub fn check(&self) -> Result<(), SettingsError> {
        self.limits.check()?;
        self.pace()?;
        self.watched_peers()?;
        self.key_source()?;
        Ok(())
    }

    /// The logs, checked.
    pub fn watched_logs(&self) -> Result<Vec<WatchedLog>, SettingsError> {
        entries::watched_logs(&self.log, self.level)
    }

    /// The peers, checked. Whether one of them is this witness itself shows when its key is read.
    pub fn watched_peers(&self) -> Result<Vec<WatchedPeer>, SettingsError> {
        entries::watched_peers(&self.peer)
    }

    /// The keys whose values differ in `other`, logs apart.
    pub fn differs_from(&self, other: &Settings) -> Vec<&'static str> {
        // Every one by name, so that none is forgotten.
        let Settings {
            listen,
            level,
            witness_key,
            ssh_agent,
            witness_vkey,
            mldsa_key,
            journal_key,
            state,
            interval_ms,
            nudge_gap_ms,
            backoff_ms,
            fetch_deadline_ms,
            log_format,
            log_level,
            limits,
            log: _,
            peer,
        } = self;
        let differing = [
            ("listen", *listen != other.listen),
            ("level", *level != other.level),
            ("witness_key", *witness_key != other.witness_key),
            ("ssh_agent", *ssh_agent != other.ssh_agent),
            ("witness_vkey", *witness_vkey != other.witness_vkey),
            ("mldsa_key", *mldsa_key != other.mldsa_key),
            ("journal_key", *journal_key != other.journal_key),
            ("state", *state != other.state),
            ("interval_ms", *interval_ms != other.interval_ms),
            ("nudge_gap_ms", *nudge_gap_ms != other.nudge_gap_ms),
            ("backoff_ms", *backoff_ms != other.backoff_ms),
            ("fetch_deadline_ms", *fetch_deadline_ms != other.fetch_deadline_ms),
            ("log_format", *log_format != other.log_format),
            ("log_level", *log_level != other.log_level),
            ("limits", *limits != other.limits),
            ("peer", *peer != other.peer),
        ];
        differing.into_iter().filter_map(|(key, differs)| differs.then_some(key)).collect()
    }

    /// Who signs with the witness's key. Paths are as the configuration has them.
    pub fn key_source(&self) -> Result<KeySource, SettingsError> {
        let half = |present, missing| Err(SettingsError::HalfAnAgent { present, missing });
        match (&self.ssh_agent, &self.witness_vkey) {
            (None, None) => Ok(KeySource::File(self.witness_key.clone().unwrap_or_else(|| PathBuf::from(WITNESS_KEY)))),
            (Some(_), None) => half("ssh_agent", "witness_vkey"),
            (None, Some(_)) => half("witness_vkey", "ssh_agent"),
            (Some(_), Some(_)) if self.witness_key.is_some() => Err(SettingsError::TwoKeys),
            (Some(socket), Some(vkey)) => {
                let vkey: VerifierKey =
                    vkey.parse().map_err(|error: note::KeyError| SettingsError::AgentKey(error.to_string()))?;
                if vkey.kind() != KeyKind::CosignatureV1 {
                    let reason = "it is not of type 0x04; give the vkey that the witness's cosignatures are under";
                    return Err(SettingsError::AgentKey(reason.to_owned()));
                }
                Ok(KeySource::Agent { socket: socket.clone(), vkey: Box::new(vkey) })
            }
        }
    }
}

impl TryFrom<String> for Level {
    type Error = String;

    fn try_from(text: String) -> Result<Level, String> {
        match text.as_str() {
            "consistency" => Ok(Level::Consistency),
            "full" => Ok(Level::Full),
            _ => Err(format!("{text:?} is no level; write \"consistency\" or \"full\"")),
        }
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Level::Consistency => "consistency",
            Level::Full => "full",
        })
    }
}

#[cfg(test)]
mod tests;
