//! What submit, import, outbox and fetch-proof take from a configuration file, the environment and flags.
//!
//! ```text
//! log = "https://log.example"          COUNTERFOIL_LOG            --log
//! log_key = "log.example/agents+…"     COUNTERFOIL_LOG_KEY        --log-key
//! key = "gate.key"                     COUNTERFOIL_KEY            --key
//! outbox = "outbox"                    COUNTERFOIL_OUTBOX         --outbox
//! policy = "policy"                    COUNTERFOIL_POLICY         --policy
//! heartbeat_ms = 60000                 COUNTERFOIL_HEARTBEAT_MS   --heartbeat-ms
//! give_up_s = 60                       COUNTERFOIL_GIVE_UP_S      --give-up-s
//! ```

use crate::arguments::Common;
use crate::failure::Failure;
use client::sender::Patience;
use client::{BaseUrl, BoundedClient, LogClient, Timeouts};
use note::{KeyKind, Policy, SigningKey, VerifierKey};
use serde::Deserialize;
use service::config::{Flags, Loaded, load};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long a call goes on trying to reach the log when nobody says otherwise: longer than a log takes to restart.
const GIVE_UP_S: u64 = 60;

#[derive(Debug, Deserialize)]
struct Keys {
    log: Option<String>,
    log_key: Option<String>,
    key: Option<PathBuf>,
    outbox: Option<PathBuf>,
    policy: Option<PathBuf>,
    heartbeat_ms: Option<u64>,
    give_up_s: Option<u64>,
}

/// The settings of one call.
#[derive(Debug)]
pub(crate) struct Settings(Loaded<Keys>);

impl Settings {
    /// Reads file, environment and flags, in that order.
    pub(crate) fn load(common: &Common, flags: Flags) -> Result<Self, Failure> {
        Ok(Self(load(common.config.as_deref(), flags)?))
    }

    /// The log's address, where one is set.
    pub(crate) fn log_url(&self) -> Result<Option<BaseUrl>, Failure> {
        self.0.values.log.as_deref().map(|text| text.parse().map_err(Failure::usage)).transpose()
    }

    /// A client of the log at `base`.
    pub(crate) fn log_at(&self, base: BaseUrl) -> Result<LogClient, Failure> {
        Ok(LogClient::new(base, BoundedClient::new(Timeouts::default())?))
    }

    /// A client of the log.
    pub(crate) fn log(&self) -> Result<LogClient, Failure> {
        let base =
            self.log_url()?.ok_or_else(|| missing("the log's address", "--log", "log", "http://127.0.0.1:8080"))?;
        self.log_at(base)
    }

    /// The log's vkey, where one is set.
    pub(crate) fn log_key_if_any(&self) -> Result<Option<VerifierKey>, Failure> {
        let parse = |text: &str| match text.parse::<VerifierKey>() {
            Ok(key) if key.kind() == KeyKind::Ed25519 => Ok(key),
            Ok(_) => Err(Failure::usage(
                "the vkey given as the log's is a witness's; copy the one that `counterfoil-log init` printed",
            )),
            Err(error) => Err(Failure::usage(format!("the log's vkey: {error}"))),
        };
        self.0.values.log_key.as_deref().map(parse).transpose()
    }

    /// The log's vkey.
    pub(crate) fn log_key(&self) -> Result<VerifierKey, Failure> {
        self.log_key_if_any()?
            .ok_or_else(|| missing("the log's vkey", "--log-key", "log_key", "log.example/agents+1b2c3d4e+AX…"))
    }

    /// The issuer's private key.
    pub(crate) fn key(&self) -> Result<SigningKey, Failure> {
        let path =
            self.0.values.key.as_ref().ok_or_else(|| missing("the issuer's key file", "--key", "key", "gate.key"))?;
        Ok(service::keys::read_signing_key(&self.0.resolve(path), KeyKind::Ed25519)?)
    }

    /// The outbox's directory.
    pub(crate) fn outbox(&self) -> Result<PathBuf, Failure> {
        let path = self
            .0
            .values
            .outbox
            .as_ref()
            .ok_or_else(|| missing("the outbox's directory", "--outbox", "outbox", "outbox"))?;
        Ok(self.0.resolve(path))
    }

    /// The policy, where one is set.
    pub(crate) fn policy(&self) -> Result<Option<Policy>, Failure> {
        self.0.values.policy.as_ref().map(|path| read_policy(&self.0.resolve(path))).transpose()
    }

    /// The longest silence the gate promises, where one is set.
    pub(crate) fn heartbeat_ms(&self) -> Option<u64> {
        self.0.values.heartbeat_ms
    }

    /// How long to go on trying.
    pub(crate) fn patience(&self) -> Patience {
        let give_up = Duration::from_secs(self.0.values.give_up_s.unwrap_or(GIVE_UP_S));
        Patience { give_up_after: Some(give_up), ..Patience::default() }
    }
}

fn read_policy(path: &Path) -> Result<Policy, Failure> {
    let octets = std::fs::read(path)
        .map_err(|error| Failure::unreadable(format!("cannot read the policy {}: {error}", path.display())))?;
    Policy::parse(&octets).map_err(|error| Failure::unreadable(format!("{}: {error}", path.display())))
}

fn missing(what: &str, flag: &str, key: &str, example: &str) -> Failure {
    let variable = key.to_uppercase();
    Failure::usage(format!(
        "{what} is not set; give {flag} {example}, or set COUNTERFOIL_{variable}, or {key} in the file given by --config"
    ))
}
