//! Watching what one peer holds of one log: at every interval, and at once when our own head has changed.
//!
//! Holds the loop, and what is written down and shown of each look. Does not hold the look (`look`).
//!
//! A look costs the peer a request, and us two signature checks; written down is what is new, and what stays the same once
//! in [`REPEATED_MS`]: a thousand logs with three peers that agree are five lines a second.

use crate::broken::Broken;
use crate::clock::Clock;
use crate::fetch::Trouble;
use crate::journal::fold::SeenHead;
use crate::journal::line::Outcome;
use crate::peers::acquaintance::{Acquaintance, Agreement, Head};
use crate::peers::look::{ComparedLog, Found, Peer, Seen, look};
use crate::post::{PeerSighting, Post};
use crate::schedule::{Pace, Schedule};
use crate::view::PeerStatus;
use merkle::{RootHash, TreeSize};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// How long a peer that goes on showing the same is not written down again.
const REPEATED_MS: u64 = 10 * 60 * 1000;

/// A peer's checkpoint has some hundred bytes and a comparison takes a few tiles: what takes longer is not answered.
const LONGEST_LOOK: Duration = Duration::from_secs(5);

/// Shortest pause between two looks however often our head changes, as a part of the interval: a log that moves many times a
/// second would else be as many requests to every peer.
const LOOKS_AN_INTERVAL: u64 = 4;

/// What one peer holds of one log, watched.
#[derive(Debug)]
pub struct PeerWatch {
    peer: Arc<Peer>,
    log: ComparedLog,
    post: Arc<Post>,
    clock: Clock,
    pace: Pace,
    deadline: Duration,
    memory: Acquaintance,
    shown: PeerStatus,
    /// What was written down last, and when.
    written: Option<(Written, u64)>,
}

/// What makes two looks alike.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Written {
    outcome: Outcome,
    head: Option<(TreeSize, RootHash)>,
    code: Option<&'static str>,
}

impl PeerWatch {
    /// Nothing is asked before [`PeerWatch::run`]. `pace` and `fetch_deadline` are those at which the log itself is fetched.
    pub fn new(
        peer: Arc<Peer>,
        log: ComparedLog,
        post: Arc<Post>,
        clock: Clock,
        pace: Pace,
        fetch_deadline: Duration,
    ) -> PeerWatch {
        let gap = (pace.interval_ms / LOOKS_AN_INTERVAL).max(pace.nudge_gap_ms);
        let shown = PeerStatus::new(peer.name().as_str());
        PeerWatch {
            peer,
            log,
            post,
            clock,
            pace: Pace { nudge_gap_ms: gap, ..pace },
            deadline: LONGEST_LOOK.min(fetch_deadline),
            memory: Acquaintance::default(),
            shown,
            written: None,
        }
    }

    /// Watches until `stop`. A look under way is given up then.
    ///
    /// # Errors
    /// [`Broken`]: the witness's own disk failed.
    pub async fn run(mut self, stop: CancellationToken) -> Result<(), Broken> {
        let began = Instant::now();
        let mut schedule = Schedule::new(self.pace);
        let mut changes = self.post.changes();
        loop {
            let due = began + Duration::from_millis(schedule.due_at_ms());
            tokio::select! {
                biased;
                () = stop.cancelled() => return Ok(()),
                // The post is ours as long as we run: there is always somebody to tell of a change.
                Ok(()) = changes.changed() => {
                    schedule.nudge();
                    continue;
                }
                () = tokio::time::sleep_until(due) => {}
            }
            // Saturates after half a billion years.
            schedule.begin(u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX));
            let time_ms = self.clock.now_ms();
            let post = Arc::clone(&self.post);
            let ours = async move { post.held().await.map(Arc::new) };
            let found = tokio::select! {
                biased;
                () = stop.cancelled() => return Ok(()),
                found = look(&self.peer, &self.log, &mut self.memory, ours, self.deadline) => found,
            };
            schedule.end(!matches!(found, Found::Unusable(_)));
            self.take_in(time_ms, found).await?;
        }
    }

    async fn take_in(&mut self, time_ms: u64, found: Found) -> Result<(), Broken> {
        let (outcome, head, trouble) = match found {
            Found::Nothing => {
                let sentence = "the peer holds nothing of this log".to_owned();
                self.show(Some(Trouble { code: "nothing-held", sentence }));
                return Ok(());
            }
            Found::Unusable(trouble) => (Outcome::Unreachable, None, Some(trouble)),
            Found::Head(Seen { head, agreement, tile_trouble, fork, witness_fork }) => {
                if let Some(fork) = witness_fork {
                    self.post.accuse_peer(*fork).await?;
                }
                match (fork, agreement) {
                    (Some(fork), _) => {
                        let trouble = self.accuse(time_ms, &head, *fork).await?;
                        (Outcome::Refused, Some(head), Some(trouble))
                    }
                    (None, Agreement::NothingHeld) => {
                        let sentence = "we hold nothing of this log yet".to_owned();
                        (Outcome::Seen, Some(head), Some(Trouble { code: "nothing-held", sentence }))
                    }
                    (None, Agreement::Agrees) => (Outcome::Seen, Some(head), None),
                    (None, Agreement::Unproven(why)) => {
                        let because = Trouble { code: "tiles", sentence: why.to_string() };
                        (Outcome::Unproven, Some(head), Some(tile_trouble.unwrap_or(because)))
                    }
                }
            }
        };
        if let (Outcome::Seen, Some(head), None) = (outcome, &head, &trouble) {
            self.shown.agreed_at = Some(time_ms);
            self.shown.agreed_size = Some(head.checkpoint().size.0);
        }
        // Durable first: what is shown cannot be taken back.
        self.write_down(time_ms, outcome, head, trouble.clone()).await?;
        self.show(trouble);
        Ok(())
    }

    /// Keeps the evidence, unless some is there already: one piece refuses a log for ever, and a peer that holds the other
    /// history would add one at every look.
    async fn accuse(&self, time_ms: u64, head: &Head, fork: cosign::LogFork) -> Result<Trouble, Broken> {
        let number = match self.post.first_fork(&self.log.vkey) {
            Some(number) => number,
            None => {
                let (peer, head) = (self.peer.name().to_string(), head.as_ref().clone());
                self.post.accuse(time_ms, Some(peer), head, fork).await?
            }
        };
        let sentence =
            format!("the peer's head and ours are of two histories, which is evidence {number} of this witness");
        Ok(Trouble { code: "forked", sentence })
    }

    fn show(&mut self, trouble: Option<Trouble>) {
        let (code, error) = trouble.map(|trouble| (trouble.code.to_owned(), trouble.sentence)).unzip();
        if code != self.shown.code {
            let (peer, log) = (self.peer.name().as_str(), self.log.vkey.name().as_str());
            match &error {
                Some(error) => tracing::warn!(peer, log, "no agreement with the peer: {error}"),
                None => tracing::info!(peer, log, "in agreement with the peer"),
            }
        }
        (self.shown.code, self.shown.error) = (code, error);
        self.post.show_peer(self.shown.clone());
    }

    /// Journals what is new, and what is not once in a while.
    async fn write_down(
        &mut self,
        time_ms: u64,
        outcome: Outcome,
        head: Option<Head>,
        trouble: Option<Trouble>,
    ) -> Result<(), Broken> {
        let written = Written {
            outcome,
            head: head.as_ref().map(|head| (head.checkpoint().size, head.checkpoint().root)),
            code: trouble.as_ref().map(|trouble| trouble.code),
        };
        let is_known = |(last, at): &(Written, u64)| *last == written && time_ms.saturating_sub(*at) < REPEATED_MS;
        if self.written.as_ref().is_some_and(is_known) {
            return Ok(());
        }
        self.written = Some((written, time_ms));
        let seen = PeerSighting {
            peer: self.peer.name().to_string(),
            outcome,
            head: head.map(|head| SeenHead::cosigned(&head)),
            trouble: trouble.map(|trouble| (trouble.code, trouble.sentence)),
        };
        self.post.observe_peer(time_ms, seen).await
    }
}
