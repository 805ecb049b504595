//! The witness's configuration file, and what it must be before anything runs.
//!
//! ```toml
//! listen = "127.0.0.1:7380"
//! interval_ms = 5000
//!
//! [[log]]
//! vkey = "log.example/agents+…"
//! url = "https://log.example/agents"
//! # acknowledged_evidence = [0]
//! ```
//!
//! Holds the keys, their defaults and their checks. Does not hold how layers are put together (`service::config`).

use crate::schedule::Pace;
use client::{AddressError, BaseUrl};
use note::{KeyKind, Origin, VerifierKey};
use serde::Deserialize;
use service::Limits;
use service::limits::LimitError;
use service::logs::LogFormat;
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Most logs of one witness: each costs a task, a few files and at most 300 kB of remembered heads.
const MAX_LOGS: usize = 1024;

/// Shortest interval and gap. A fetch costs the log and our disk; a hundred a second is more than any log moves.
const MIN_INTERVAL_MS: u64 = 10;

/// The configuration file.
#[derive(Debug, Clone, Deserialize)]
#[serde(default)]
pub struct Settings {
    /// Where to listen.
    pub listen: SocketAddr,
    /// The witness's private key, of type `0x04`.
    pub witness_key: PathBuf,
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
}

/// One log to watch.
#[derive(Debug, Clone, Deserialize)]
pub struct LogSettings {
    /// The log's key; its name is the log's origin.
    pub vkey: String,
    /// The log's own address.
    pub url: String,
    /// Numbers of evidence against this log that the operator has seen and wants to go on in spite of.
    #[serde(default)]
    pub acknowledged_evidence: BTreeSet<u64>,
}

/// One log to watch, checked.
#[derive(Debug, Clone)]
pub struct WatchedLog {
    /// Its key.
    pub vkey: VerifierKey,
    /// Where it is.
    pub url: BaseUrl,
    /// Evidence that no longer stops us.
    pub acknowledged_evidence: BTreeSet<u64>,
}

/// What is wrong with the configuration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SettingsError {
    /// A log's vkey is none.
    #[error("log number {place} in the configuration: {error}")]
    Key {
        /// Which `[[log]]`, from 1.
        place: usize,
        /// What is wrong with it.
        error: note::KeyError,
    },
    /// A log's vkey is of another kind.
    #[error("log number {0} in the configuration: its vkey is not of type 0x01; copy the vkey that the log prints")]
    KeyKind(usize),
    /// A log's URL is none.
    #[error("log number {place} in the configuration: {error}")]
    Url {
        /// Which `[[log]]`, from 1.
        place: usize,
        /// What is wrong with it.
        error: AddressError,
    },
    /// Two logs with one origin.
    #[error("the configuration lists the log {0:?} twice; keep one, a witness cosigns one history of a log")]
    Twice(Origin),
    /// Too many logs.
    #[error("the configuration lists more than {MAX_LOGS} logs; run a second witness for the others")]
    TooManyLogs,
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
            witness_key: PathBuf::from("witness.key"),
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

    /// The logs, checked.
    pub fn watched_logs(&self) -> Result<Vec<WatchedLog>, SettingsError> {
        if self.log.len() > MAX_LOGS {
            return Err(SettingsError::TooManyLogs);
        }
        let mut watched: Vec<WatchedLog> = Vec::with_capacity(self.log.len());
        for (place, log) in (1..).zip(&self.log) {
            let vkey: VerifierKey = log.vkey.parse().map_err(|error| SettingsError::Key { place, error })?;
            if vkey.kind() != KeyKind::Ed25519 {
                return Err(SettingsError::KeyKind(place));
            }
            let url = log.url.parse().map_err(|error| SettingsError::Url { place, error })?;
            if watched.iter().any(|other| other.vkey.name() == vkey.name()) {
                return Err(SettingsError::Twice(Origin::from(vkey.name())));
            }
            watched.push(WatchedLog { vkey, url, acknowledged_evidence: log.acknowledged_evidence.clone() });
        }
        Ok(watched)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;
    use note::{KeyName, SigningKey};

    fn vkey(name: &str, kind: KeyKind) -> String {
        SigningKey::from_seed(KeyName::new(name).unwrap(), kind, [1; 32]).verifier().to_string()
    }

    fn log(vkey: String, url: &str) -> LogSettings {
        LogSettings { vkey, url: url.to_owned(), acknowledged_evidence: BTreeSet::new() }
    }

    #[test]
    fn every_fault_names_the_log_it_is_in() {
        let good = || log(vkey("log.example/a", KeyKind::Ed25519), "http://log.example");
        for (logs, fault) in [
            (
                vec![good(), log("nonsense".to_owned(), "http://log.example")],
                "log number 2 in the configuration: not a key",
            ),
            (
                vec![log(vkey("w", KeyKind::CosignatureV1), "http://log.example")],
                "log number 1 in the configuration: its vkey is not of type 0x01",
            ),
            (
                vec![log(vkey("log.example/b", KeyKind::Ed25519), "log.example")],
                "log number 1 in the configuration: \"log.example\"",
            ),
            (vec![good(), good()], "the configuration lists the log \"log.example/a\" twice"),
        ] {
            let error = Settings { log: logs, ..Settings::default() }.watched_logs().unwrap_err().to_string();
            assert!(error.starts_with(fault), "{error}");
        }
    }

    #[test]
    fn a_pace_without_pause_is_refused() {
        let settings = Settings { nudge_gap_ms: 0, ..Settings::default() };
        assert_eq!(settings.pace(), Err(SettingsError::TooOften("nudge_gap_ms")));
    }
}
