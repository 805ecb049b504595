//! The log's configuration: what may stand in `config.toml`, and how it is checked.
//!
//! ```toml
//! listen = "127.0.0.1:8080"
//! head_interval_ms = 200
//!
//! [[witness]]
//! vkey = "witness.example+…"
//! url = "http://127.0.0.1:7380"
//! protocol = "counterfoil"
//! ```

use crate::quorum::{Quorum, QuorumError};
use client::{AddressError, BaseUrl};
use note::{KeyKind, Policy, PolicyError, VerifierKey};
use serde::{Deserialize, Serialize};
use service::Limits;
use service::config::{ConfigError, Flags, Loaded};
use service::limits::LimitError;
use service::logs::LogFormat;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Most witnesses of one log: a note takes 64 signature lines, and one is the log's own.
pub const MAX_WITNESSES: usize = 63;

/// Every key of the configuration file.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct LogConfig {
    /// Address to listen on.
    pub listen: String,
    /// The log's private key.
    #[serde(default = "default_key")]
    pub key: PathBuf,
    /// The store's directory.
    #[serde(default = "default_store")]
    pub store: PathBuf,
    /// The list of issuers.
    #[serde(default = "default_issuers")]
    pub issuers: PathBuf,
    /// When a head counts as cosigned (C2SP tlog-policy). Without it: when every configured witness cosigned it.
    pub policy: Option<PathBuf>,
    /// The longest that one head stays on offer while newer ones are signed.
    #[serde(default = "default_head_interval_ms")]
    pub head_interval_ms: u64,
    /// How long `wait=cosigned` waits before it answers 504 with the integrated proof.
    #[serde(default = "default_cosigned_wait_ms")]
    pub cosigned_wait_ms: u64,
    /// How often a quiet log asks its witnesses for fresh cosignatures of the unchanged head.
    #[serde(default = "default_witness_poll_ms")]
    pub witness_poll_ms: u64,
    /// How long one request to a witness may take.
    #[serde(default = "default_witness_deadline_ms")]
    pub witness_deadline_ms: u64,
    /// How long the committer waits for more receipts while it is under load, before it syncs.
    #[serde(default = "default_linger_ms")]
    pub linger_ms: u64,
    /// Submissions that may wait for the committer. A further one is answered 503.
    #[serde(default = "default_queue")]
    pub queue: usize,
    /// How log lines look.
    #[serde(default)]
    pub log_format: LogFormat,
    /// Which log lines are written.
    #[serde(default = "default_log_level")]
    pub log_level: String,
    /// Limits of the listener.
    #[serde(default)]
    pub limits: Limits,
    /// The witnesses to nudge, or to push to, and to ask for cosignatures.
    #[serde(default)]
    pub witness: Vec<WitnessConfig>,
}

/// One witness.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct WitnessConfig {
    /// Its key.
    pub vkey: String,
    /// Its address; for a `tlog-witness` its submission prefix.
    pub url: String,
    /// How it gets to see heads.
    #[serde(default)]
    pub protocol: Protocol,
}

/// How a witness gets to see heads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", try_from = "String")]
pub enum Protocol {
    /// It is nudged and fetches by itself, as `counterfoil-witness` does.
    #[default]
    Counterfoil,
    /// Each head is pushed to it, with the proof from the one it holds (C2SP tlog-witness, `add-checkpoint`).
    TlogWitness,
}

/// A word that names no [`Protocol`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is no protocol of witnesses; write \"counterfoil\", or \"tlog-witness\" for one that heads are pushed to"
)]
pub struct UnknownProtocol(String);

impl TryFrom<String> for Protocol {
    type Error = UnknownProtocol;

    fn try_from(word: String) -> Result<Self, UnknownProtocol> {
        match word.as_str() {
            "counterfoil" => Ok(Self::Counterfoil),
            "tlog-witness" => Ok(Self::TlogWitness),
            _ => Err(UnknownProtocol(word)),
        }
    }
}

fn default_key() -> PathBuf {
    "log.key".into()
}

fn default_store() -> PathBuf {
    "store".into()
}

fn default_issuers() -> PathBuf {
    "issuers".into()
}

fn default_head_interval_ms() -> u64 {
    200
}

fn default_cosigned_wait_ms() -> u64 {
    10_000
}

fn default_witness_poll_ms() -> u64 {
    10_000
}

fn default_witness_deadline_ms() -> u64 {
    3_000
}

fn default_linger_ms() -> u64 {
    2
}

fn default_queue() -> usize {
    4096
}

fn default_log_level() -> String {
    "info".into()
}

/// Why a configuration cannot be used. Each says what to write instead.
#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    /// File, environment or flags.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A number outside what makes sense.
    #[error("{key} is {value}; it must be {wanted}")]
    Number {
        /// The key.
        key: &'static str,
        /// Its value.
        value: u64,
        /// What it must be.
        wanted: &'static str,
    },
    /// A limit outside what makes sense.
    #[error(transparent)]
    Limit(#[from] LimitError),
    /// A witness's key is none.
    #[error(
        "the vkey of [[witness]] number {number} cannot be used: {reason}; write the line that `counterfoil-witness init` printed"
    )]
    WitnessKey {
        /// Counted from 1.
        number: usize,
        /// What is wrong.
        reason: String,
    },
    /// A witness's address is none.
    #[error("the url of [[witness]] number {number} cannot be used: {reason}")]
    WitnessUrl {
        /// Counted from 1.
        number: usize,
        /// What is wrong.
        reason: AddressError,
    },
    /// One witness twice, or too many of them.
    #[error("{0}")]
    Witnesses(String),
    /// The policy file cannot be read.
    #[error("cannot read the policy file {path}: {reason}")]
    PolicyFile {
        /// The file.
        path: PathBuf,
        /// What the system said.
        reason: std::io::Error,
    },
    /// The policy file is no policy.
    #[error("the policy file {path} is no tlog-policy: {reason}")]
    Policy {
        /// The file.
        path: PathBuf,
        /// Line and reason.
        reason: PolicyError,
    },
    /// The policy is not for this log.
    #[error("the policy file {path} cannot be used: {reason}")]
    Quorum {
        /// The file.
        path: PathBuf,
        /// Why not.
        reason: QuorumError,
    },
}

/// A witness whose key and address have been checked.
#[derive(Clone, Debug)]
pub struct Witness {
    /// Its key.
    pub key: VerifierKey,
    /// Its address.
    pub url: BaseUrl,
    /// How it gets to see heads.
    pub protocol: Protocol,
}

/// Loads the configuration in `file` with the environment and `flags` on top.
///
/// # Errors
/// [`SetupError`].
pub fn load(file: &Path, flags: Flags) -> Result<Loaded<LogConfig>, SetupError> {
    let loaded: Loaded<LogConfig> = service::config::load(Some(file), flags)?;
    loaded.values.check()?;
    Ok(loaded)
}

impl LogConfig {
    fn check(&self) -> Result<(), SetupError> {
        self.limits.check()?;
        let rows = [
            ("head_interval_ms", self.head_interval_ms, 10, 60_000, "between 10 and 60000"),
            ("cosigned_wait_ms", self.cosigned_wait_ms, 1, 300_000, "between 1 and 300000"),
            ("witness_poll_ms", self.witness_poll_ms, 100, 3_600_000, "between 100 and 3600000"),
            ("witness_deadline_ms", self.witness_deadline_ms, 10, 60_000, "between 10 and 60000"),
            ("linger_ms", self.linger_ms, 0, 100, "at most 100"),
            ("queue", self.queue as u64, 1, 1_000_000, "between 1 and 1000000"),
        ];
        match rows.into_iter().find(|(_, value, least, most, _)| value < least || value > most) {
            Some((key, value, _, _, wanted)) => Err(SetupError::Number { key, value, wanted }),
            None => Ok(()),
        }
    }

    /// The configured witnesses.
    ///
    /// # Errors
    /// [`SetupError`]: the first one that cannot be used.
    pub fn witnesses(&self) -> Result<Vec<Witness>, SetupError> {
        if self.witness.len() > MAX_WITNESSES {
            return Err(SetupError::Witnesses(format!(
                "{} witnesses are configured; a checkpoint carries at most {MAX_WITNESSES}",
                self.witness.len()
            )));
        }
        let mut witnesses: Vec<Witness> = Vec::new();
        for (number, witness) in self.witness.iter().enumerate().map(|(index, witness)| (index + 1, witness)) {
            let key: VerifierKey = witness
                .vkey
                .parse()
                .map_err(|error: note::KeyError| SetupError::WitnessKey { number, reason: error.to_string() })?;
            if key.kind() != KeyKind::CosignatureV1 {
                return Err(SetupError::WitnessKey { number, reason: "it is not a witness's key".to_owned() });
            }
            if witnesses.iter().any(|other| other.key == key) {
                return Err(SetupError::Witnesses(format!(
                    "[[witness]] number {number} names {} again; remove one of the two",
                    key.name()
                )));
            }
            let url = witness.url.parse().map_err(|reason| SetupError::WitnessUrl { number, reason })?;
            witnesses.push(Witness { key, url, protocol: witness.protocol });
        }
        Ok(witnesses)
    }

    /// When a head of the log with key `log` counts as cosigned; `policy` is the policy file's path, resolved.
    ///
    /// # Errors
    /// [`SetupError`].
    pub fn quorum(policy: Option<&Path>, log: &VerifierKey, witnesses: &[Witness]) -> Result<Quorum, SetupError> {
        let Some(path) = policy else { return Ok(Quorum::every(witnesses.len())) };
        let octets = std::fs::read(path).map_err(|reason| SetupError::PolicyFile { path: path.to_owned(), reason })?;
        let policy = Policy::parse(&octets).map_err(|reason| SetupError::Policy { path: path.to_owned(), reason })?;
        let keys: Vec<VerifierKey> = witnesses.iter().map(|witness| witness.key.clone()).collect();
        Quorum::by_policy(policy, log, &keys).map_err(|reason| SetupError::Quorum { path: path.to_owned(), reason })
    }

    /// [`LogConfig::head_interval_ms`] as a duration.
    pub fn head_interval(&self) -> Duration {
        Duration::from_millis(self.head_interval_ms)
    }

    /// [`LogConfig::cosigned_wait_ms`] as a duration.
    pub fn cosigned_wait(&self) -> Duration {
        Duration::from_millis(self.cosigned_wait_ms)
    }

    /// [`LogConfig::witness_poll_ms`] as a duration.
    pub fn witness_poll(&self) -> Duration {
        Duration::from_millis(self.witness_poll_ms)
    }

    /// [`LogConfig::witness_deadline_ms`] as a duration.
    pub fn witness_deadline(&self) -> Duration {
        Duration::from_millis(self.witness_deadline_ms)
    }

    /// [`LogConfig::linger_ms`] as a duration.
    pub fn linger(&self) -> Duration {
        Duration::from_millis(self.linger_ms)
    }
}

/// The text of a new log's `config.toml`.
pub fn initial_text(listen: &str) -> String {
    format!(
        "# Configuration of counterfoil-log. Every key can be overridden by COUNTERFOIL_<KEY> in the environment and\n\
         # by a flag of `counterfoil-log serve`; paths are relative to this file.\n\
         listen = {listen:?}\n\
         \n\
         # The longest that one head stays on offer while newer ones are signed.\n\
         # head_interval_ms = 200\n\
         # When `Prefer: wait=cosigned` is answered. Without it: once every witness below has cosigned.\n\
         # policy = \"policy\"\n\
         \n\
         # One section for each witness:\n\
         # [[witness]]\n\
         # vkey = \"witness.example+…\"\n\
         # url = \"http://127.0.0.1:7380\"\n\
         # A witness of another make, that heads are pushed to (C2SP tlog-witness):\n\
         # protocol = \"tlog-witness\"\n"
    )
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;
    use note::{KeyName, SigningKey};

    fn load_text(text: &str) -> Result<Loaded<LogConfig>, SetupError> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("config.toml");
        std::fs::write(&path, text).unwrap();
        load(&path, Flags::new())
    }

    fn witness_section(name: &str, kind: KeyKind, url: &str) -> String {
        let key = SigningKey::from_seed(KeyName::new(name).unwrap(), kind, [9; 32]).verifier();
        format!("\n[[witness]]\nvkey = \"{key}\"\nurl = \"{url}\"\n")
    }

    #[test]
    fn a_new_logs_configuration_is_usable_as_it_is_and_takes_sections_at_its_end() {
        let text = initial_text("127.0.0.1:8080");
        let config = load_text(&text).unwrap().values;
        assert_eq!((config.listen.as_str(), config.head_interval_ms, config.witness.len()), ("127.0.0.1:8080", 200, 0));
        let text = format!("{text}{}", witness_section("w", KeyKind::CosignatureV1, "http://127.0.0.1:1"));
        assert_eq!(load_text(&text).unwrap().values.witnesses().unwrap().len(), 1);
    }

    #[test]
    fn numbers_that_make_no_sense_are_refused_with_what_they_must_be() {
        let error = load_text("listen = \"a\"\nhead_interval_ms = 0").unwrap_err().to_string();
        assert_eq!(error, "head_interval_ms is 0; it must be between 10 and 60000");
    }

    #[test]
    fn a_witness_needs_a_witness_key_an_address_and_stands_once() {
        let listed = |sections: &[String]| {
            load_text(&format!("listen = \"a\"\n{}", sections.concat())).unwrap().values.witnesses()
        };
        let good = witness_section("w", KeyKind::CosignatureV1, "http://w.example");
        assert!(listed(std::slice::from_ref(&good)).is_ok());
        assert!(matches!(listed(&[good.clone(), good]), Err(SetupError::Witnesses(_))));
        assert!(matches!(
            listed(&[witness_section("w", KeyKind::Ed25519, "http://w.example")]),
            Err(SetupError::WitnessKey { number: 1, .. })
        ));
        assert!(matches!(
            listed(&[witness_section("w", KeyKind::CosignatureV1, "w.example")]),
            Err(SetupError::WitnessUrl { number: 1, .. })
        ));
    }

    #[test]
    fn a_witness_is_nudged_unless_its_section_says_that_it_is_pushed_to() {
        let section = witness_section("w", KeyKind::CosignatureV1, "http://w.example");
        let protocol = |line: &str| {
            load_text(&format!("listen = \"a\"\n{section}{line}\n")).map(|loaded| loaded.values.witness[0].protocol)
        };
        assert_eq!(protocol("").unwrap(), Protocol::Counterfoil);
        assert_eq!(protocol("protocol = \"counterfoil\"").unwrap(), Protocol::Counterfoil);
        assert_eq!(protocol("protocol = \"tlog-witness\"").unwrap(), Protocol::TlogWitness);
        let error = protocol("protocol = \"add-checkpoint\"").unwrap_err().to_string();
        assert!(error.contains("write \"counterfoil\", or \"tlog-witness\""), "{error}");
    }
}
