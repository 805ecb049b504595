//! What submit, import, outbox, fetch-proof and sidecar take from a configuration file, the environment and flags.
//!
//! ```text
//! log = "https://log.example"          COUNTERFOIL_LOG            --log
//! log_key = "log.example/agents+…"     COUNTERFOIL_LOG_KEY        --log-key
//! key = "gate.key"                     COUNTERFOIL_KEY            --key
//! outbox = "outbox"                    COUNTERFOIL_OUTBOX         --outbox
//! policy = "policy"                    COUNTERFOIL_POLICY         --policy
//! heartbeat_ms = 60000                 COUNTERFOIL_HEARTBEAT_MS   --heartbeat-ms
//! give_up_s = 60                       COUNTERFOIL_GIVE_UP_S      --give-up-s
//! when_full = "fail_closed"            COUNTERFOIL_WHEN_FULL      --when-full
//! max_queued = 1000000                 COUNTERFOIL_MAX_QUEUED     --max-queued
//! lease_s = 600                        COUNTERFOIL_LEASE_S        --lease-s
//! sidecar_listen = "127.0.0.1:7390"    COUNTERFOIL_SIDECAR_LISTEN --listen
//! sidecar_socket = "gate.sock"         COUNTERFOIL_SIDECAR_SOCKET --socket
//! sidecar_token_file = "token"         COUNTERFOIL_SIDECAR_TOKEN_FILE, or the token itself: COUNTERFOIL_SIDECAR_TOKEN
//! ```

use crate::arguments::Common;
use crate::failure::Failure;
use crate::sidecar::{Token, Where, loopback};
use client::gate::WhenFull;
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
    when_full: Option<String>,
    max_queued: Option<u64>,
    lease_s: Option<u64>,
    body_deadline_ms: Option<u64>,
    sidecar_listen: Option<String>,
    sidecar_socket: Option<PathBuf>,
    sidecar_token: Option<String>,
    sidecar_token_file: Option<PathBuf>,
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

    /// The log's address, which must be set.
    pub(crate) fn log_url_or_missing(&self) -> Result<BaseUrl, Failure> {
        self.log_url()?.ok_or_else(|| missing("the log's address", "--log", "log", "http://127.0.0.1:8080"))
    }

    /// A client of the log.
    pub(crate) fn log(&self) -> Result<LogClient, Failure> {
        self.log_at(self.log_url_or_missing()?)
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

    /// What a gate does when it cannot keep a receipt.
    pub(crate) fn when_full(&self) -> Result<WhenFull, Failure> {
        match self.0.values.when_full.as_deref() {
            None | Some("fail_closed") => Ok(WhenFull::FailClosed),
            Some("fail_open") => Ok(WhenFull::FailOpen),
            Some(other) => Err(Failure::usage(format!("when_full is {other:?}; write fail_closed or fail_open"))),
        }
    }

    /// Most receipts that may wait for the log, where that is set.
    pub(crate) fn max_queued(&self) -> Option<u64> {
        self.0.values.max_queued
    }

    /// How long a sidecar's scope may go without an outcome, where that is set.
    pub(crate) fn lease_s(&self) -> Option<u64> {
        self.0.values.lease_s
    }

    /// How long the body of a call to a sidecar may take, where that is set.
    pub(crate) fn body_deadline_ms(&self) -> Option<u64> {
        self.0.values.body_deadline_ms
    }

    /// Where a sidecar listens, and to whom.
    pub(crate) fn sidecar(&self) -> Result<Where, Failure> {
        let Keys { sidecar_listen, sidecar_socket, sidecar_token, sidecar_token_file, .. } = &self.0.values;
        let token = || match (sidecar_token, sidecar_token_file) {
            (Some(token), None) => {
                Token::new(token).map_err(|why| Failure::usage(format!("COUNTERFOIL_SIDECAR_TOKEN: {why}")))
            }
            (None, Some(path)) => Token::read(&self.0.resolve(path)).map_err(Failure::unreadable),
            (Some(_), Some(_)) => {
                Err(Failure::usage("the sidecar's token is given twice; set COUNTERFOIL_SIDECAR_TOKEN or --token-file"))
            }
            (None, None) => Err(Failure::usage(
                "at an address every user and every web page of this machine could write receipts; give a token by --token-file \
                 FILE (openssl rand -hex 32 > FILE, chmod 600 FILE) or by COUNTERFOIL_SIDECAR_TOKEN, or listen in a file by \
                 --socket PATH",
            )),
        };
        let address =
            sidecar_listen.as_deref().map(|text| Ok::<_, Failure>((loopback(text)?, token()?))).transpose()?;
        let socket = sidecar_socket.as_ref().map(|path| self.0.resolve(path));
        if address.is_none() && socket.is_none() {
            return Err(missing("where to listen", "--listen", "sidecar_listen", "127.0.0.1:7390"));
        }
        Ok(Where { address, socket })
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
