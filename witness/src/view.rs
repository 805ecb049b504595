//! What the witness shows of itself, log by log: the JSON of `/status`, which `counterfoil-witness status` reads.
//!
//! Holds shapes. Everything in a view was durable before it got here.

use crate::journal::line::Outcome;
use bytes::Bytes;
use serde::{Deserialize, Serialize};

/// The whole witness.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WitnessStatus {
    /// Its name.
    pub witness: String,
    /// Its vkey.
    pub vkey: String,
    /// The vkey of its journal.
    pub journal_vkey: String,
    /// The journal's size.
    pub journal_size: u64,
    /// Its clock, milliseconds since the epoch.
    pub time: u64,
    /// Each log, in the order of the configuration.
    pub logs: Vec<LogStatus>,
}

/// One log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogStatus {
    /// Its origin.
    pub origin: String,
    /// Where it is fetched.
    pub url: String,
    /// The size of the head held; absent before the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
    /// Its root, base64.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub root: Option<String>,
    /// When it was last cosigned, seconds since the epoch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cosigned_at: Option<u64>,
    /// What came of the last fetch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last: Option<LastFetch>,
    /// The number of the evidence because of which nothing of this log is cosigned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forked: Option<u64>,
}

/// What came of the last fetch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LastFetch {
    /// When it began, milliseconds since the epoch.
    pub time: u64,
    /// What came of it.
    pub outcome: Outcome,
    /// What went wrong, in a word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// What went wrong, in a sentence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// One log as the HTTP side sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogView {
    /// What `/status` says.
    pub status: LogStatus,
    /// The latest cosigned checkpoint, whole; `None` before the first.
    pub cosigned: Option<Bytes>,
}

impl LogStatus {
    /// Whether an operator should look: a fork, or a last fetch that was not cosigned.
    pub fn is_in_trouble(&self) -> bool {
        let cosigned = |last: &LastFetch| matches!(last.outcome, Outcome::Cosigned | Outcome::Unchanged);
        self.forked.is_some() || !self.last.as_ref().is_some_and(cosigned)
    }
}
