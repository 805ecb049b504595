//! Watching one log: fetch on schedule and on nudge, hand the answer to the keeper, tell who waits.
//!
//! Holds the loop, its timers and the queue of nudges. Does not hold the rule (`cosign`), the order of what becomes
//! durable (`keeper`) nor when a fetch is due (`schedule`).

use crate::clock::Clock;
use crate::fetch::fetch;
use crate::journal::line::Outcome;
use crate::keeper::{Answer, Broken, Keeper};
use crate::schedule::{Pace, Schedule};
use crate::view::LogView;
use client::LogClient;
use std::sync::{Arc, RwLock};
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// Nudges that wait for the next fetch of one log, and as many more in the queue behind them. Its own log sends one at a
/// time, operators a few; more are told to come back.
const MAX_NUDGES: usize = 64;

/// The HTTP side's end of a watched log.
#[derive(Debug)]
pub struct Post {
    view: RwLock<Arc<LogView>>,
    nudges: mpsc::Sender<oneshot::Sender<Answer>>,
}

/// Why a nudge was not answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NudgeRefusal {
    /// As many as can wait do already.
    TooMany,
    /// The witness is stopping.
    Stopping,
}

impl Post {
    /// The log as it was after the last fetch.
    pub fn view(&self) -> Arc<LogView> {
        Arc::clone(&self.view.read().unwrap_or_else(std::sync::PoisonError::into_inner))
    }

    /// Asks for a fetch and waits for what comes of it. Nudges that come together share one fetch; a nudge that
    /// comes during a fetch waits for the next, for what it announces may be newer.
    pub async fn nudge(&self) -> Result<Answer, NudgeRefusal> {
        let (reply, answer) = oneshot::channel();
        self.nudges.try_send(reply).map_err(|error| match error {
            mpsc::error::TrySendError::Full(_) => NudgeRefusal::TooMany,
            mpsc::error::TrySendError::Closed(_) => NudgeRefusal::Stopping,
        })?;
        answer.await.map_err(|_| NudgeRefusal::Stopping)
    }

    fn show(&self, view: LogView) {
        *self.view.write().unwrap_or_else(std::sync::PoisonError::into_inner) = Arc::new(view);
    }
}

/// One watched log.
#[derive(Debug)]
pub struct Watch {
    post: Arc<Post>,
    keeper: Keeper,
    client: LogClient,
    clock: Clock,
    schedule: Schedule,
    fetch_deadline: Duration,
    nudges: mpsc::Receiver<oneshot::Sender<Answer>>,
}

impl Watch {
    /// Nothing is fetched before [`Watch::run`].
    pub fn new(keeper: Keeper, client: LogClient, clock: Clock, pace: Pace, fetch_deadline: Duration) -> Watch {
        let (sender, nudges) = mpsc::channel(MAX_NUDGES);
        let post = Arc::new(Post { view: RwLock::new(Arc::new(keeper.view())), nudges: sender });
        Watch { post, keeper, client, clock, schedule: Schedule::new(pace), fetch_deadline, nudges }
    }

    /// The HTTP side's end.
    pub fn post(&self) -> Arc<Post> {
        Arc::clone(&self.post)
    }

    /// Watches until `stop`. A fetch under way is given up then; what was folded is written.
    ///
    /// # Errors
    /// The witness's own disk or clock failed; the process must stop, for what is durable is unknown.
    pub async fn run(mut self, stop: CancellationToken) -> Result<(), Broken> {
        let began = Instant::now();
        let mut waiting: Vec<oneshot::Sender<Answer>> = Vec::new();
        loop {
            let due = began + Duration::from_millis(self.schedule.due_at_ms());
            let fold_due = self.fold_due();
            tokio::select! {
                biased;
                () = stop.cancelled() => break,
                Some(nudge) = self.nudges.recv(), if waiting.len() < MAX_NUDGES => {
                    waiting.push(nudge);
                    self.schedule.nudge();
                    continue;
                }
                () = tokio::time::sleep_until(due) => {}
                () = sleep_for(fold_due) => {
                    let now = self.clock.now_ms();
                    self = self.at_the_disk(move |keeper| keeper.fold_due(now)).await?.0;
                    continue;
                }
            }
            // Saturates after half a billion years.
            self.schedule.begin(u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX));
            let time = self.clock.now_ms();
            let fetched = tokio::select! {
                biased;
                () = stop.cancelled() => break,
                fetched = fetch(&self.client, self.keeper.log(), self.keeper.held_size(), self.fetch_deadline) => fetched,
            };
            self.schedule.end(fetched.is_ok());
            let answer;
            (self, answer) = self.at_the_disk(move |keeper| keeper.consider(time, fetched)).await?;
            let before = self.post.view().status.last.as_ref().map(|last| last.outcome);
            self.post.show(self.keeper.view());
            log_change(self.keeper.log().name().as_str(), before, &answer);
            for nudge in waiting.drain(..) {
                // Whoever nudged may have gone away.
                let _ = nudge.send(answer.clone());
            }
        }
        self.at_the_disk(Keeper::finish).await?;
        Ok(())
    }

    /// Runs blocking work on the keeper off the runtime's threads.
    async fn at_the_disk<T: Send + 'static>(
        self,
        work: impl FnOnce(&mut Keeper) -> Result<T, Broken> + Send + 'static,
    ) -> Result<(Watch, T), Broken> {
        let Watch { post, mut keeper, client, clock, schedule, fetch_deadline, nudges } = self;
        let done = tokio::task::spawn_blocking(move || {
            let result = work(&mut keeper);
            (keeper, result)
        });
        let (keeper, result) = done.await.map_err(|_| Broken::Interrupted)?;
        Ok((Watch { post, keeper, client, clock, schedule, fetch_deadline, nudges }, result?))
    }

    /// How long until folded lines are due, if any.
    fn fold_due(&self) -> Option<Duration> {
        let due = self.keeper.fold_due_at()?;
        Some(Duration::from_millis(due.saturating_sub(self.clock.now_ms())))
    }
}

async fn sleep_for(duration: Option<Duration>) {
    match duration {
        Some(duration) => tokio::time::sleep(duration).await,
        None => std::future::pending().await,
    }
}

/// A line when things turn, not one a fetch: the journal has every fetch.
fn log_change(origin: &str, before: Option<Outcome>, answer: &Answer) {
    let was_well = matches!(before, Some(Outcome::Cosigned | Outcome::Unchanged));
    match answer {
        Answer::Cosigned { .. } if !was_well => tracing::info!(log = origin, "cosigned"),
        Answer::NotCosigned { outcome, detail } if before != Some(*outcome) => {
            tracing::warn!(log = origin, outcome = outcome.as_str(), "not cosigned: {detail}");
        }
        Answer::Cosigned { .. } | Answer::NotCosigned { .. } => {}
    }
}
