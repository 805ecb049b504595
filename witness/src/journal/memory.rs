//! The heads held, as the journal's lines tell them: what a start has to know before it cosigns anything.
//!
//! ```text
//! state/held                     a snapshot, so that a start reads only the lines behind it
//!
//! {"size":N,"last":"<base64>",   how many lines it covers, and the leaf hash of the last of them
//!  "evidence":K,                 how many documents of evidence they speak of
//!  "latest_s":S,                 the latest time that they speak of
//!  "heads":{"<origin>":{"checkpoint":"<text>","timestamp":T},…}}
//! ```
//!
//! Holds the rule by which a line changes what is held, and the snapshot's bytes. Derived: without a snapshot the lines
//! tell everything. Logs that are no longer watched are remembered too: who comes back must not find a second history
//! cosigned.

use crate::journal::line::{JournalLine, Outcome};
use merkle::Hash;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What the journal says up to some line.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Memory {
    /// How many lines it covers.
    pub size: u64,
    /// The leaf hash of the last of them.
    pub last: Hash,
    /// How many documents of evidence they speak of.
    pub evidence: u64,
    /// The latest time that they speak of, seconds since the epoch.
    pub latest_s: u64,
    heads: BTreeMap<String, Remembered>,
}

/// A head held.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Remembered {
    /// Text and the log's signature lines.
    pub checkpoint: String,
    /// When it was cosigned, seconds since the epoch, as far as the journal tells: unchanged heads are cosigned again up
    /// to a minute before a line says so.
    pub timestamp: u64,
}

impl Memory {
    /// Takes in the next line.
    pub fn observe(&mut self, line: &JournalLine) {
        self.size += 1;
        let timestamp = line.cosigned_at.unwrap_or(line.until.unwrap_or(line.time) / 1000);
        self.latest_s = self.latest_s.max(timestamp);
        self.evidence = self.evidence.max(line.evidence.map_or(0, |number| number + 1));
        if !matches!(line.outcome, Outcome::Cosigned | Outcome::Unchanged) || line.peer.is_some() {
            return;
        }
        match (&line.checkpoint, self.heads.get_mut(&line.origin)) {
            (Some(checkpoint), held) => {
                let timestamp = timestamp.max(held.map_or(0, |held| held.timestamp));
                let head = Remembered { checkpoint: checkpoint.clone(), timestamp };
                self.heads.insert(line.origin.clone(), head);
            }
            (None, Some(held)) => held.timestamp = held.timestamp.max(timestamp),
            (None, None) => {}
        }
    }

    /// The head held for the log with this origin.
    pub fn held(&self, origin: &str) -> Option<&Remembered> {
        self.heads.get(origin)
    }

    /// The snapshot's bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("numbers, strings and base64 always have a JSON form")
    }

    /// Reads a snapshot; `None` for what is none.
    pub fn parse(bytes: &[u8]) -> Option<Memory> {
        serde_json::from_slice(bytes).ok()
    }
}
