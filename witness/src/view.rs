//! What the witness shows of itself, log by log: the JSON of `/status`, which `counterfoil-witness status` reads.
//!
//! Holds shapes. Everything in a view was durable before it got here.

use crate::evidence::{Crime, Standing};
use crate::journal::line::Outcome;
use crate::settings::{Level, WatchedLog};
use bytes::Bytes;
use note::CosignatureLine;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use store::Cosigned;

/// The whole witness.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WitnessStatus {
    /// Its name.
    pub witness: String,
    /// Its vkey.
    pub vkey: String,
    /// Its vkey of type `0x06`, where it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mldsa_vkey: Option<String>,
    /// The vkey of its journal.
    pub journal_vkey: String,
    /// The journal's size.
    pub journal_size: u64,
    /// What its cosignatures say.
    pub level: Level,
    /// How many documents of evidence it holds, against anybody, acknowledged or not.
    pub evidence: u64,
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
    /// Where it is fetched; absent for a log that only pushes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
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
    /// The number of the evidence because of which nothing of this log is cosigned, or that the last look at it gave again
    /// although it was acknowledged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forked: Option<u64>,
    /// What that evidence shows the log to have done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub crime: Option<Crime>,
    /// The peer whose journal this is, where it is no log of the configuration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub journal_of: Option<String>,
    /// What each peer holds of it, in the order of their names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub peers: Vec<PeerStatus>,
}

/// What a peer holds of a log, beside what we hold.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PeerStatus {
    /// The peer's name.
    pub peer: String,
    /// When it was last found to agree, milliseconds since the epoch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agreed_at: Option<u64>,
    /// The size of the head that it held then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agreed_size: Option<u64>,
    /// Why it does not agree now, in a word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// Why it does not agree now, in a sentence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
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
    /// The log.
    pub log: Arc<WatchedLog>,
    /// What came of the last fetch.
    pub last: Option<LastFetch>,
    /// The head held, with the witness's cosignatures; `None` before the first.
    pub held: Option<Arc<Cosigned>>,
    /// The evidence that is to be seen of it.
    pub accused: Option<Standing>,
    /// Whether nothing of it is cosigned until an operator acts.
    pub refused: bool,
}

impl LogView {
    /// What `/status` says, but for the peers. Put together when somebody asks, as the checkpoint is: far less often than heads
    /// are cosigned.
    pub fn status(&self) -> LogStatus {
        let head = self.held.as_ref().map(|held| held.checkpoint().checkpoint());
        LogStatus {
            origin: self.log.vkey.name().to_string(),
            url: self.log.url.as_ref().map(ToString::to_string),
            size: head.map(|head| head.size.0),
            root: head.map(|head| head.root.0.to_base64()),
            cosigned_at: self.held.as_ref().map(|held| held.timestamp_s()),
            last: self.last.clone(),
            forked: self.accused.map(|standing| standing.number),
            crime: self.accused.map(|standing| standing.crime),
            journal_of: self.log.journal_of.as_ref().map(ToString::to_string),
            peers: Vec::new(),
        }
    }

    /// The latest cosigned checkpoint, whole: the log's lines and the witness's; `None` before the first.
    pub fn cosigned(&self) -> Option<Bytes> {
        let held = self.held.as_ref()?;
        let lines = held.cosignatures().iter().filter_map(|cosignature| cosignature.to_line().ok());
        let lines: Vec<CosignatureLine> = lines.collect();
        Some(Bytes::copy_from_slice(held.checkpoint().with_cosignatures(&lines).bytes()))
    }
}

impl LogStatus {
    /// Whether an operator should look: a fork, or a last fetch that was not cosigned. A peer that is down is its own
    /// operator's trouble.
    pub fn is_in_trouble(&self) -> bool {
        let cosigned = |last: &LastFetch| matches!(last.outcome, Outcome::Cosigned | Outcome::Unchanged);
        self.forked.is_some() || self.journal_of.is_none() && !self.last.as_ref().is_some_and(cosigned)
    }
}

impl PeerStatus {
    /// Not asked yet.
    pub fn new(peer: &str) -> PeerStatus {
        PeerStatus { peer: peer.to_owned(), agreed_at: None, agreed_size: None, code: None, error: None }
    }
}
