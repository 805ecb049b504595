//! Watching one log: fetch on schedule and on nudge, hand the answer to the post, tell who waits.
//!
//! Holds the loop and its timers. Does not hold the rule (`cosign`), the order of what becomes durable (`post`) nor when
//! a fetch is due (`schedule`).

use crate::broken::Broken;
use crate::clock::Clock;
use crate::fetch::fetch;
use crate::full::Checks;
use crate::journal::line::Outcome;
use crate::post::{Answer, Nudges, Post};
use crate::schedule::{Pace, Schedule};
use client::LogClient;
use merkle::TreeSize;
use note::VerifierKey;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// Nudges that wait for one fetch.
const MAX_WAITING: usize = 64;

/// At least this long between two lines about one log.
const TOLD_GAP: Duration = Duration::from_secs(5);

/// One watched log.
#[derive(Debug)]
pub struct Watch {
    /// Where what was fetched goes.
    pub post: Arc<Post>,
    /// The log's key.
    pub log: VerifierKey,
    /// Where the log is.
    pub client: LogClient,
    /// The time.
    pub clock: Clock,
    /// How often.
    pub pace: Pace,
    /// After this a fetch is given up.
    pub fetch_deadline: Duration,
    /// Who wants a fetch now.
    pub nudges: Nudges,
    /// At level full: the checks of the log's entries.
    pub checks: Option<Checks>,
}

impl Watch {
    /// Watches until `stop`. A fetch under way is given up then.
    ///
    /// # Errors
    /// [`Broken`]: the witness's own disk or clock failed; the process must stop, for what is durable is unknown.
    pub async fn run(mut self, stop: CancellationToken) -> Result<(), Broken> {
        let began = Instant::now();
        let mut schedule = Schedule::new(self.pace);
        let mut waiting: Vec<oneshot::Sender<Answer>> = Vec::new();
        let mut told = Told::default();
        loop {
            let due = began + Duration::from_millis(schedule.due_at_ms());
            tokio::select! {
                biased;
                () = stop.cancelled() => return Ok(()),
                Some(nudge) = self.nudges.recv(), if waiting.len() < MAX_WAITING => {
                    waiting.push(nudge);
                    schedule.nudge();
                    continue;
                }
                () = tokio::time::sleep_until(due) => {}
                // What was found out is considered with the head that the log offers now.
                () = finished(&mut self.checks) => {}
            }
            // Saturates after half a billion years.
            schedule.begin(u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX));
            let mut time = self.clock.now_ms();
            let held = self.post.held().await.map_or(TreeSize(0), |held| held.checkpoint().size);
            let mut fetched = tokio::select! {
                biased;
                () = stop.cancelled() => return Ok(()),
                fetched = fetch(&self.client, &self.log, held, self.fetch_deadline) => fetched,
            };
            schedule.end(fetched.is_ok());
            // Of a log that is refused nothing more has to be known.
            let refused = self.post.view().refused;
            if let (Some(checks), Ok(offer), false) = (&mut self.checks, &mut fetched, refused) {
                offer.entries = tokio::select! {
                    biased;
                    () = stop.cancelled() => return Ok(()),
                    entries = checks.look(&self.client, &self.log, &offer.checkpoint, time) => entries,
                };
                // A cosignature is made now, not when a check began.
                time = self.clock.now_ms();
            }
            let answer = self.post.consider(time, fetched).await?;
            told.tell(self.log.name().as_str(), &answer);
            for nudge in waiting.drain(..) {
                // Whoever nudged may have gone away.
                let _ = nudge.send(answer.clone());
            }
        }
    }
}

async fn finished(checks: &mut Option<Checks>) {
    match checks {
        Some(checks) => checks.finished().await,
        None => std::future::pending().await,
    }
}

/// What was said of a log last, and when. A line when things turn, not one a fetch: the journal has every fetch. And not
/// more than one in [`TOLD_GAP`], however often a log turns.
#[derive(Default)]
struct Told {
    outcome: Option<Outcome>,
    at: Option<Instant>,
}

impl Told {
    fn tell(&mut self, origin: &str, answer: &Answer) {
        let outcome = match answer {
            Answer::Cosigned { .. } => Outcome::Cosigned,
            Answer::NotCosigned { outcome, .. } => *outcome,
        };
        if self.outcome == Some(outcome) || self.at.is_some_and(|at| at.elapsed() < TOLD_GAP) {
            return;
        }
        (self.outcome, self.at) = (Some(outcome), Some(Instant::now()));
        match answer {
            Answer::Cosigned { .. } => tracing::info!(log = origin, "cosigned"),
            Answer::NotCosigned { detail, .. } => {
                tracing::warn!(log = origin, outcome = outcome.as_str(), "not cosigned: {detail}");
            }
        }
    }
}
