//! One fetch: the checkpoint and the tiles it takes to judge it, from the log's own address.
//!
//! Holds what is asked for and the bounds on it. Does not hold what is made of the answer (`keeper`). Nothing that
//! comes back here accuses anybody: a log that is down, slow, huge or somewhere else proves nothing.

use crate::full::EntriesCheck;
use crate::journal::fold::SeenHead;
use crate::journal::line::{MAX_HEAD_LEN, bounded_sentence};
use bytes::Bytes;
use client::{Fault, FetchError, LogClient};
use merkle::{TileSet, TreeSize};
use note::{SignedCheckpoint, VerifierKey};
use std::time::Duration;

/// What a log offered.
#[derive(Debug)]
pub struct Offer {
    /// The answer at `/checkpoint`, whatever it is.
    pub checkpoint: Bytes,
    /// The tiles that a proof against the held head takes; none where none were needed or they could not be had.
    pub tiles: TileSet,
    /// Why tiles could not be had.
    pub tile_trouble: Option<Trouble>,
    /// What is known of the entries under the head.
    pub entries: EntriesCheck,
}

/// What went wrong on the way, in a word out of a fixed set and a sentence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trouble {
    /// The word.
    pub code: &'static str,
    /// The sentence; may quote the log.
    pub sentence: String,
}

/// Fetches the newest head and what it takes to compare it with one of `held_size`, within `deadline` in all.
/// Tiles are fetched only for a head that the log signed.
pub async fn fetch(
    client: &LogClient,
    log: &VerifierKey,
    held_size: TreeSize,
    deadline: Duration,
) -> Result<Offer, Trouble> {
    match tokio::time::timeout(deadline, fetch_without_deadline(client, log, held_size)).await {
        Ok(result) => result,
        Err(_) => Err(Trouble {
            code: "timeout",
            sentence: format!(
                "no head and tiles within {} ms; check the log's load, or raise fetch_deadline_ms",
                deadline.as_millis()
            ),
        }),
    }
}

async fn fetch_without_deadline(client: &LogClient, log: &VerifierKey, held_size: TreeSize) -> Result<Offer, Trouble> {
    let checkpoint = client.checkpoint().await.map_err(|error| Trouble::from(&error))?;
    let mut offer = Offer { checkpoint, tiles: TileSet::new(), tile_trouble: None, entries: EntriesCheck::NotAsked };
    let Ok(head) = SignedCheckpoint::parse(&offer.checkpoint).and_then(|parsed| parsed.verify(log)) else {
        return Ok(offer);
    };
    if SeenHead::is_too_long(&head) {
        return Err(Trouble {
            code: "too-large",
            sentence: format!(
                "the head is longer than the {MAX_HEAD_LEN} bytes that the journal keeps of one; its extension lines must go"
            ),
        });
    }
    let needed = cosign::tiles_needed(held_size, head.checkpoint().size);
    match client.tiles(&needed).await {
        Ok(tiles) => offer.tiles = tiles,
        Err(error) => offer.tile_trouble = Some(Trouble::from(&error)),
    }
    Ok(offer)
}

impl From<&FetchError> for Trouble {
    fn from(error: &FetchError) -> Trouble {
        let code = match &error.fault {
            Fault::Request(_) => "request",
            Fault::Connect(_) => "connect",
            Fault::PrivateAddress(_) => "private-address",
            Fault::Timeout(_) => "timeout",
            Fault::Interrupted(_) => "interrupted",
            Fault::TooLarge(_) => "too-large",
            Fault::Redirect { .. } => "redirect",
            Fault::BadBody(_) => "bad-body",
            Fault::Refused(refusal) => match refusal.status {
                404 => "status-404",
                429 => "status-429",
                500.. => "status-5xx",
                _ => "status-4xx",
            },
        };
        Trouble { code, sentence: bounded_sentence(&error.to_string()) }
    }
}
