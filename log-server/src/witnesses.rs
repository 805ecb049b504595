//! The witnesses, one task each: nudge at every offer, take the cosignatures that come back, look at the witness's
//! monitoring path where that was not enough. Those that want heads pushed are [`crate::pusher`]'s.
//!
//! ```text
//! offer ──> POST nudge ──> lines over the head on offer: wait for the next offer, or the poll interval
//!                    └──> none, or an error: GET <origin hash>/checkpoint, then wait a little and try again
//! ```
//!
//! At most one request to a witness is under way, each with a deadline, so a witness that hangs costs nothing but
//! its own cosignatures. A nudge carries no head: the witness fetches by itself.

use crate::config::{Protocol, Witness};
use crate::proofs::Proofs;
use crate::publication::Publication;
use crate::pusher;
use crate::restored::Lookout;
use client::{BoundedClient, FetchError, Timeouts, WitnessClient};
use note::{CosignatureLine, Origin, SignedNote};
use std::sync::Arc;
use std::time::Duration;

/// Wait after a witness answered without cosigning the head on offer, and after a first failure.
const RETRY: Duration = Duration::from_millis(250);
/// The longest wait after failures in a row.
const LONGEST_RETRY: Duration = Duration::from_secs(2);

/// An HTTP client for witnesses, each of whose requests ends within `deadline`.
///
/// # Errors
/// [`FetchError`]: the system gives no resources for one.
pub fn client(deadline: Duration) -> Result<BoundedClient, FetchError> {
    BoundedClient::new(Timeouts { connect: deadline, total: deadline })
}

/// What every witness is followed with.
#[derive(Clone)]
pub struct Surroundings {
    /// The log's.
    pub origin: Origin,
    /// How a witness is talked to.
    pub http: BoundedClient,
    /// The head on offer, and where cosignatures go.
    pub publication: Arc<Publication>,
    /// Consistency proofs, for those that heads are pushed to.
    pub proofs: Arc<Proofs>,
    /// Where heads that a witness shows are compared.
    pub lookout: Lookout,
    /// How often a witness is asked when nothing is on offer for it.
    pub poll: Duration,
}

/// Keeps asking the witness at `place`, in the way it is configured for. Runs until it is dropped.
pub async fn follow(place: usize, witness: Witness, with: Surroundings) {
    match witness.protocol {
        Protocol::Counterfoil => nudge(place, witness, with).await,
        Protocol::TlogWitness => {
            pusher::run(place, witness, with.http, with.publication, with.proofs, with.poll).await;
        }
    }
}

async fn nudge(place: usize, witness: Witness, with: Surroundings) {
    let Surroundings { origin, http, publication, lookout, poll, .. } = with;
    let client = WitnessClient::new(witness.url.clone(), http);
    let name = witness.name().clone();
    let mut offers = publication.follow();
    let mut failures = 0u32;
    loop {
        offers.borrow_and_update();
        if publication.served().is_some() {
            match ask(&client, (place, name.as_str()), &origin, &publication, &lookout).await {
                Ok(()) => {
                    if failures > 0 {
                        tracing::info!(witness = %name, "the witness answers again");
                    }
                    failures = 0;
                }
                Err(error) => {
                    metrics::counter!("counterfoil_log_witness_failures_total", "witness" => name.to_string())
                        .increment(1);
                    if failures == 0 {
                        tracing::warn!(witness = %name, %error, "the witness does not answer; its cosignatures are missing until it does");
                    }
                    failures = failures.saturating_add(1);
                }
            }
        }
        if failures > 0 {
            // Not cut short by offers: a witness that is down is not asked five times a second.
            tokio::time::sleep(RETRY.saturating_mul(1 << failures.min(10)).min(LONGEST_RETRY)).await;
            continue;
        }
        let wait = if publication.is_cosigned_by(place) || publication.served().is_none() {
            poll
        } else {
            RETRY.saturating_mul(4)
        };
        tokio::select! {
            _ = offers.changed() => {}
            () = tokio::time::sleep(wait) => {}
        }
    }
}

/// One round: nudge, and where that did not bring a cosignature of the head on offer, the monitoring path.
async fn ask(
    client: &WitnessClient,
    (place, name): (usize, &str),
    origin: &Origin,
    publication: &Publication,
    lookout: &Lookout,
) -> Result<(), FetchError> {
    // A quiet log wants fresh timestamps, which the witness makes by itself: no nudge is needed for them.
    let quiet = publication.is_cosigned_by(place);
    let nudged = if quiet { Ok(()) } else { client.nudge(origin).await.map(|lines| take(publication, place, &lines)) };
    if publication.is_cosigned_by(place) && !quiet {
        return Ok(());
    }
    match client.checkpoint(origin).await {
        Ok(Some(checkpoint)) => {
            take(publication, place, &lines_of(&checkpoint));
            if let Some(newest) = publication.newest_signed() {
                lookout.see(name, &checkpoint, &newest);
            }
        }
        Ok(None) => {}
        // A witness that refuses nudges but serves what it cosigned is doing its duty, and the other way round.
        Err(error) if nudged.is_err() || quiet => return Err(error),
        Err(_) => {}
    }
    Ok(())
}

fn take(publication: &Publication, place: usize, lines: &[CosignatureLine]) {
    let taken = publication.cosigned(place, lines);
    tracing::debug!(place, news = taken.news, dropped = taken.dropped, "cosignature lines from a witness");
}

/// The lines of a checkpoint that have the form of a cosignature. Nothing is verified here: each is tried, under the
/// witness's key, against the heads that were offered.
pub fn lines_of(checkpoint: &[u8]) -> Vec<CosignatureLine> {
    let Ok(note) = SignedNote::parse(checkpoint) else { return Vec::new() };
    note.signatures().iter().filter_map(|signature| CosignatureLine::try_from(signature).ok()).collect()
}
