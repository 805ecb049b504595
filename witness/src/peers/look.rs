//! One look at what a peer holds of a log.
//!
//! Holds what is asked, of whom, and the bounds on it. Does not hold which heads are compared (`acquaintance`), how
//! (`cosign::compare`), nor when (`watch`).
//!
//! The peer is asked for one checkpoint; tiles come from the log's own address. A peer's answer that is not a head signed by
//! the log and cosigned by the peer says nothing about the log.

use crate::fetch::Trouble;
use crate::journal::fold::SeenHead;
use crate::journal::line::MAX_HEAD_LEN;
use crate::peers::acquaintance::{Acquaintance, Agreement, Head, Pair};
use client::{LogClient, WitnessClient};
use cosign::{Comparison, LogFork, WitnessComparison, WitnessFork, compare, compare_cosigned, tiles_needed};
use merkle::TileSet;
use note::{KeyName, SignedCheckpoint, VerifierKey, verified_cosignatures};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;

/// Requests to one peer under way at once: what a peer that answers nobody can hold of ours.
const REQUESTS_AT_ONCE: usize = 8;

/// A peer, as all that look at it share it.
#[derive(Debug)]
pub struct Peer {
    /// Its key.
    pub vkey: VerifierKey,
    client: WitnessClient,
    places: Semaphore,
}

/// A log, as whoever compares heads of it needs it.
#[derive(Debug, Clone)]
pub struct ComparedLog {
    /// Its key.
    pub vkey: VerifierKey,
    /// Where its tiles are; `None` for a log that only pushes.
    pub client: Option<LogClient>,
}

/// What a look found.
#[derive(Debug)]
pub enum Found {
    /// The peer holds nothing of this log.
    Nothing,
    /// No answer, or none that says anything of the log.
    Unusable(Trouble),
    /// A head that the log signed and the peer cosigned.
    Head(Seen),
}

/// A head that a peer holds, and what holding it against others came to.
#[derive(Debug)]
pub struct Seen {
    /// The head: text, the log's signature lines, and the peer's.
    pub head: Head,
    /// How it agrees with what was known.
    pub agreement: Agreement,
    /// Why tiles could not be had, where they could not.
    pub tile_trouble: Option<Trouble>,
    /// That the log signed two histories.
    pub fork: Option<Box<LogFork>>,
    /// That the peer vouched for two.
    pub witness_fork: Option<Box<WitnessFork>>,
}

impl Peer {
    /// A peer that has not been asked anything.
    pub fn new(vkey: VerifierKey, client: WitnessClient) -> Peer {
        Peer { vkey, client, places: Semaphore::new(REQUESTS_AT_ONCE) }
    }

    /// Its name.
    pub fn name(&self) -> &KeyName {
        self.vkey.name()
    }

    /// How it is asked.
    pub fn client(&self) -> &WitnessClient {
        &self.client
    }

    /// What the peer holds of `log`.
    ///
    /// # Errors
    /// [`Found::Nothing`] and [`Found::Unusable`].
    async fn head(&self, log: &VerifierKey) -> Result<Head, Found> {
        // Never closed.
        let _place = self.places.acquire().await;
        let answer = self.client.checkpoint(&note::Origin::from(log.name())).await;
        let answer = answer.map_err(|error| Found::Unusable(Trouble::from(&error)))?.ok_or(Found::Nothing)?;
        read(&answer, log, &self.vkey).map_err(Found::Unusable)
    }
}

/// A head of `log` that `peer` cosigned: text, the log's signature lines, and the peer's.
///
/// # Errors
/// Why the answer is none.
pub fn read(answer: &[u8], log: &VerifierKey, peer: &VerifierKey) -> Result<Head, Trouble> {
    let head = SignedCheckpoint::parse(answer).and_then(|head| head.verify(log)).map_err(|error| Trouble {
        code: "not-the-logs",
        sentence: format!("the peer shows something that the log did not sign: {error}"),
    })?;
    let cosignatures = verified_cosignatures(head.note(), std::slice::from_ref(peer));
    let lines: Vec<_> = cosignatures.into_iter().flatten().filter_map(|(_, line)| line.to_line().ok()).collect();
    if lines.is_empty() {
        let sentence = "the peer shows a head without a good cosignature of its own; check its vkey".to_owned();
        return Err(Trouble { code: "not-cosigned", sentence });
    }
    if SeenHead::is_too_long(&head) {
        let sentence =
            format!("the peer shows a head longer than the {MAX_HEAD_LEN} bytes that the journal keeps of one");
        return Err(Trouble { code: "too-large", sentence });
    }
    Ok(Arc::new(head.log_signed_only().with_cosignatures(&lines)))
}

/// Looks at what `peer` holds of `log` and compares it with what we hold, which `ours` tells once the peer has answered: so
/// that it is never older than what the peer may have from us. The peer gets `deadline`, and so does the log for each
/// comparison: a log that stalls keeps nobody from knowing what the peer showed.
pub async fn look(
    peer: &Peer,
    log: &ComparedLog,
    memory: &mut Acquaintance,
    ours: impl Future<Output = Option<Head>>,
    deadline: Duration,
) -> Found {
    let shown = match tokio::time::timeout(deadline, peer.head(&log.vkey)).await {
        Ok(Ok(shown)) => shown,
        Ok(Err(found)) => return found,
        Err(_) => return Found::Unusable(too_slow("the peer gives no answer", deadline)),
    };
    let ours = ours.await;
    let (mut compared, mut tile_trouble, mut fork, mut witness_fork) = (Vec::new(), None, None, None);
    for pair in memory.pairs(ours.as_ref(), &shown) {
        let tiles = match tokio::time::timeout(deadline, tiles(log, &pair)).await {
            Ok(Ok(tiles)) => tiles,
            Ok(Err(trouble)) => {
                tile_trouble = Some(trouble);
                TileSet::new()
            }
            Err(_) => {
                tile_trouble = Some(too_slow("the log gives no tiles", deadline));
                TileSet::new()
            }
        };
        let comparison = compare(&pair.one, &pair.other, &tiles);
        if pair.both_of_the_peer
            && let WitnessComparison::Fork(found) = compare_cosigned(&peer.vkey, &pair.one, &pair.other, &tiles)
        {
            witness_fork = Some(found);
        }
        if let Comparison::Fork(found) = &comparison {
            fork = fork.or_else(|| Some(found.clone()));
        }
        compared.push((pair, comparison));
    }
    let agreement = memory.settle(ours.as_ref(), &shown, &compared);
    Found::Head(Seen { head: shown, agreement, tile_trouble, fork, witness_fork })
}

/// The tiles that two heads are compared by.
///
/// # Errors
/// Why they are not to be had.
async fn tiles(log: &ComparedLog, pair: &Pair) -> Result<TileSet, Trouble> {
    let needed = tiles_needed(pair.one.checkpoint().size, pair.other.checkpoint().size);
    match &log.client {
        _ if needed.is_empty() => Ok(TileSet::new()),
        Some(client) => client.tiles(&needed).await.map_err(|error| Trouble::from(&error)),
        None => Err(Trouble {
            code: "no-url",
            sentence: "the log has no url in the configuration, so its tiles cannot be fetched".to_owned(),
        }),
    }
}

fn too_slow(what: &str, deadline: Duration) -> Trouble {
    Trouble { code: "timeout", sentence: format!("{what} within {} ms", deadline.as_millis()) }
}
