//! The clockwork around [`crate::push`]: one task a witness of another make. At most one request to it is under way, with
//! a deadline, so a witness that hangs costs nothing but its own cosignatures.

use crate::config::Witness;
use crate::proofs::Proofs;
use crate::publication::Publication;
use crate::push::{Answer, Asked, Notice, Push, Step, Trouble};
use client::add_checkpoint::Pushed;
use client::{BoundedClient, FetchError, WitnessClient};
use merkle::TreeSize;
use note::{SignedCheckpoint, Verified};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Keeps pushing what is on offer to the witness at `place`, and the unchanged head again after `fresh`. Runs until it is
/// dropped.
pub async fn run(
    place: usize,
    witness: Witness,
    http: BoundedClient,
    publication: Arc<Publication>,
    proofs: Arc<Proofs>,
    fresh: Duration,
) {
    let client = WitnessClient::new(witness.url.clone(), http);
    let mut offers = publication.follow();
    let mut push = Push::new(fresh);
    let started = Instant::now();
    loop {
        offers.borrow_and_update();
        let Some(head) = publication.offered() else {
            _ = offers.changed().await;
            continue;
        };
        let new = head.checkpoint().size;
        match push.next(new, started.elapsed()) {
            Step::Wait { until } => {
                tokio::select! {
                    _ = offers.changed() => {}
                    () = tokio::time::sleep(until.saturating_sub(started.elapsed())) => {}
                }
            }
            Step::Push { old } => {
                let (answer, why) = ask(&client, place, &witness, &proofs, &publication, old, &head).await;
                let signed = publication.newest_signed().map_or(new, |newest| newest.checkpoint().size);
                let asked = Asked { old, new, signed };
                if let Some(notice) = push.answered(asked, answer, started.elapsed(), rand::random()) {
                    say(&witness, notice, &why);
                }
            }
        }
    }
}

/// One push: its answer, and in words what went wrong.
async fn ask(
    client: &WitnessClient,
    place: usize,
    witness: &Witness,
    proofs: &Proofs,
    publication: &Publication,
    old: TreeSize,
    head: &SignedCheckpoint<Verified>,
) -> (Answer, String) {
    let name = witness.name();
    let proof = match proofs.between(old, head).await {
        Ok(proof) => proof,
        Err(error) => return (Answer::NoProof, error.to_string()),
    };
    match client.add_checkpoint(&witness.keys, old, &proof, head).await {
        Ok(Pushed::Taken { lines, dropped }) => {
            if dropped > 0 {
                metrics::counter!("counterfoil_log_witness_lines_dropped_total", "witness" => name.to_string())
                    .increment(dropped as u64);
            }
            let taken = publication.cosigned(place, &lines);
            tracing::debug!(witness = %name, news = taken.news, dropped, "a head was pushed");
            (if lines.is_empty() { Answer::NothingUsable } else { Answer::Cosigned }, String::new())
        }
        Ok(Pushed::Holds(size)) => (Answer::Holds(size), String::new()),
        Err(error) => {
            metrics::counter!("counterfoil_log_witness_failures_total", "witness" => name.to_string()).increment(1);
            (answer_of(&error), error.to_string())
        }
    }
}

fn answer_of(error: &FetchError) -> Answer {
    match error.refusal() {
        Some(refusal) => Answer::Refused { status: refusal.status, retry_after: refusal.retry_after },
        None => Answer::Nothing,
    }
}

fn say(witness: &Witness, notice: Notice, why: &str) {
    let name = witness.name();
    match notice {
        Notice::Recovered => tracing::info!(witness = %name, "the witness cosigns again"),
        // Whoever runs the log has to look at these: its own store may be the one that is wrong.
        Notice::Trouble(
            trouble @ (Trouble::Ahead { .. }
            | Trouble::Contradicts { .. }
            | Trouble::Refused(409 | 422)
            | Trouble::NoProof),
        ) => tracing::error!(witness = %name, why, "no cosignature from the witness: {trouble}"),
        Notice::Trouble(trouble) => {
            tracing::warn!(witness = %name, why, "no cosignature from the witness: {trouble}")
        }
    }
}
