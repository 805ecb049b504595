//! Other witnesses: what they hold of the logs that we watch, and what they hold of us (protocol, section 6, cross-check).
//!
//! ```text
//! every interval, and when our own head changed:
//!   GET <peer>/<sha256(origin)>/checkpoint -> signed by the log, cosigned by the peer
//!   the tiles of the larger of its head and ours, from the log's own address
//!   -> compared (cosign::compare) -> journalled, shown in the status; a fork is evidence, and the log is refused
//! ```
//!
//! * [`acquaintance`]: what is remembered of a peer and a log, and which heads are held against each other
//! * [`look`]: one look at what a peer holds
//! * [`watch`]: the loop around these
//! * [`own_journal`]: what a peer holds of our own journal, which tells a restored state directory
//!
//! A peer is believed nothing: what the log did not sign accuses nobody, and no head of a peer's becomes ours. A peer that is
//! down, slow or hostile costs some of its own connections and a line in the journal.

pub mod acquaintance;
pub mod look;
pub mod own_journal;
pub mod watch;

use crate::peers::look::Peer;
use crate::schedule::Pace;
use crate::settings::{Level, WatchedLog, WatchedPeer};
use client::{BoundedClient, WitnessClient};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Milliseconds between two fetches of a peer's journal: it grows with every line, and a line a minute is what it folds to.
const JOURNAL_INTERVAL_MS: u64 = 60_000;

/// The pace at which peers' journals are fetched, by a witness that fetches logs at `pace`.
pub fn journal_pace(pace: Pace) -> Pace {
    let interval_ms = pace.interval_ms.max(JOURNAL_INTERVAL_MS);
    Pace { interval_ms, backoff_ms: pace.backoff_ms.max(interval_ms), ..pace }
}

/// A peer to ask over `http`, which connects to addresses within its reach, and its journal, which is watched like a log: at
/// level `consistency` whatever the witness's level, for there are no receipts in it.
pub fn peer(settings: &WatchedPeer, http: &BoundedClient) -> (Arc<Peer>, WatchedLog) {
    let client = WitnessClient::new(settings.url.clone(), http.clone());
    let journal = WatchedLog {
        vkey: settings.journal_vkey.clone(),
        url: Some(client.journal().base().clone()),
        reach: settings.reach,
        accept_pushes: false,
        issuers: None,
        acknowledged_evidence: BTreeSet::new(),
        // No receipts are in it.
        level: Level::Consistency,
        journal_of: Some(settings.vkey.name().clone()),
    };
    (Arc::new(Peer::new(settings.vkey.clone(), client)), journal)
}

/// Adds the journals of peers to the logs of the configuration, but for those that it lists already.
pub fn add_journals(logs: &mut Vec<WatchedLog>, journals: &[WatchedLog]) {
    for journal in journals {
        if logs.iter().all(|log| log.vkey.name() != journal.vkey.name()) {
            logs.push(journal.clone());
        }
    }
}
