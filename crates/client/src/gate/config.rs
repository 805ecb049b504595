//! What a gate is made of.

use crate::address::BaseUrl;
use crate::history::HistorySettings;
use crate::http::Timeouts;
use crate::sender::{Clock, Patience};
use note::{Policy, SigningKey, VerifierKey};
use receipt::{Digest, UnixMillis};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

/// Receipts that may wait for the log unless the author says otherwise: at 500 bytes each half a gigabyte, and at ten a second
/// more than a day without a log.
pub const DEFAULT_MAX_QUEUED: u64 = 1_000_000;

/// What happens to an action whose decision cannot be kept: the outbox is full, or the disk refuses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WhenFull {
    /// No receipt, no action.
    #[default]
    FailClosed,
    /// The action runs without a receipt; that it did is counted, and told to the log as soon as it can be.
    FailOpen,
}

/// What a gate is made of. [`GateConfig::new`] takes what has no default; the rest is set field by field.
pub struct GateConfig {
    /// The outbox's directory, made if need be.
    pub dir: PathBuf,
    /// The issuer's key.
    pub key: SigningKey,
    /// Where the log is.
    pub log_url: BaseUrl,
    /// The log's key.
    pub log_key: VerifierKey,
    /// Whom the gate trusts, for histories with proof. Without it there are none.
    pub policy: Option<Policy>,
    /// How histories are read.
    pub history: HistorySettings,
    /// What happens when a receipt cannot be kept.
    pub when_full: WhenFull,
    /// Most receipts that wait for the log.
    pub max_queued: u64,
    /// The longest silence that the gate allows itself, in milliseconds: with nothing else to say it says `heartbeat` in
    /// time. It stands in the `open` receipt.
    pub heartbeat_ms: Option<u64>,
    /// Software and version, for the `open` receipt.
    pub gate: Option<String>,
    /// Digest of the policy that the gate decides by, for the `open` receipt.
    pub policy_digest: Option<Digest>,
    /// Where the time comes from.
    pub clock: Clock,
    /// The pauses between two attempts to reach the log. How long to go on is not asked: for ever.
    pub patience: Patience,
    /// How long one request to the log may take.
    pub timeouts: Timeouts,
}

impl GateConfig {
    /// A gate that keeps its outbox in `dir`, signs with `key` and submits to the log at `log_url`, whose key is `log_key`.
    pub fn new(dir: impl Into<PathBuf>, key: SigningKey, log_url: BaseUrl, log_key: VerifierKey) -> Self {
        Self {
            dir: dir.into(),
            key,
            log_url,
            log_key,
            policy: None,
            history: HistorySettings::default(),
            when_full: WhenFull::default(),
            max_queued: DEFAULT_MAX_QUEUED,
            heartbeat_ms: None,
            gate: None,
            policy_digest: None,
            clock: system_clock(),
            patience: Patience::default(),
            timeouts: Timeouts::default(),
        }
    }
}

/// The machine's clock: milliseconds since the Unix epoch; 0 where it is set before that.
pub fn system_clock() -> Clock {
    Arc::new(|| {
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        UnixMillis(u64::try_from(since_epoch.as_millis()).unwrap_or(u64::MAX))
    })
}
