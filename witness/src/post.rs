//! The post of one log: the one door through which everything about it comes, and the order in which it becomes durable.
//!
//! ```text
//! judge -> sign -> line and seal to the committer -> durable -> hold, show, answer
//!       \-> evidence durable -> line durable -> refuse from now on
//! ```
//!
//! All of that is one step under the log's lock: who asks meanwhile is judged by what this step leaves. A kill before the
//! commit: nothing happened. After it: the head is held, and the next start reads so in the journal. The step runs in a
//! task of its own, so that a peer who hangs up cannot end it half-way.
//!
//! What follows when somebody is shown to have lied is in `accusations`. Does not hold the rule (`cosign`, `keeper`), nor
//! anything about fetching.

mod accusations;

use crate::broken::Broken;
use crate::evidence::Evidence;
use crate::fetch::{Offer, Trouble};
use crate::instruments::Judged;
use crate::journal::book::{Record, Seal};
use crate::journal::committer::Committer;
use crate::journal::fold::{SeenHead, Sighting};
use crate::journal::line::{JournalLine, Outcome};
use crate::keeper::{Keeper, Verdict, sighting};
use crate::push::{Push, PushRefusal};
use crate::settings::WatchedLog;
use crate::signer::{Signer, SignerError};
use crate::view::{LogStatus, LogView, PeerStatus};
use note::{KeyName, KeyTables, SignedCheckpoint, Verified};
use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};
use store::Cosigned;
use tokio::sync::{Mutex, mpsc, oneshot, watch};
use tokio_util::sync::CancellationToken;

/// What came of something, for whoever asked for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// The head is held and cosigned; these are the lines, each with its newline.
    Cosigned {
        /// The cosignature lines.
        lines: String,
    },
    /// It is not.
    NotCosigned {
        /// What came of it.
        outcome: Outcome,
        /// Why, and what to do.
        detail: String,
    },
}

/// What a peer showed of a log.
#[derive(Debug, Clone)]
pub struct PeerSighting {
    /// The peer's name.
    pub peer: String,
    /// What came of it.
    pub outcome: Outcome,
    /// The head, where it showed one that the log signed.
    pub head: Option<SeenHead>,
    /// What went wrong.
    pub trouble: Option<(&'static str, String)>,
}

/// What the posts of all logs share.
#[derive(Debug, Clone)]
pub struct Shared {
    /// Who cosigns.
    pub signer: Arc<Signer>,
    /// Who writes.
    pub committer: Committer,
    /// The evidence.
    pub evidence: Arc<Evidence>,
    /// The keys of the logs that push most, prepared.
    pub tables: Arc<KeyTables>,
    /// Cancelled when a step broke off: the process must stop.
    pub broken: CancellationToken,
}

/// Nudges that wait for the next fetch of one log. Its own log sends one at a time, operators a few; more are told to come
/// back.
const MAX_NUDGES: usize = 64;

/// The post of one log.
#[derive(Debug)]
pub struct Post {
    name: KeyName,
    keeper: Mutex<Guarded>,
    view: RwLock<Arc<LogView>>,
    nudges: RwLock<mpsc::Sender<oneshot::Sender<Answer>>>,
    /// The size held, for who has something to do when it changes.
    size: watch::Sender<u64>,
    /// What peers hold, by their names.
    peers: RwLock<BTreeMap<String, PeerStatus>>,
    judged: Judged,
    shared: Shared,
}

/// Nudges, for whoever fetches.
pub type Nudges = mpsc::Receiver<oneshot::Sender<Answer>>;

#[derive(Debug)]
struct Guarded {
    keeper: Keeper,
    /// A step began and did not end: what is durable is unknown, and nothing may be answered any more.
    ended: bool,
}

/// Why a nudge was not answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NudgeRefusal {
    /// As many as can wait do already.
    TooMany,
    /// Nothing fetches this log: it pushes.
    NotFetched,
}

impl Post {
    /// A post for what `keeper` knows. There must be no other of this log in the process, ever: two would not know what
    /// the other one has cosigned.
    pub fn new(keeper: Keeper, shared: Shared) -> Arc<Post> {
        // Nobody fetches yet.
        let (sender, _) = mpsc::channel(MAX_NUDGES);
        Arc::new(Post {
            name: keeper.log().vkey.name().clone(),
            view: RwLock::new(Arc::new(keeper.view())),
            size: watch::Sender::new(keeper.held_size().0),
            peers: RwLock::default(),
            judged: Judged::default(),
            keeper: Mutex::new(Guarded { keeper, ended: false }),
            nudges: RwLock::new(sender),
            shared,
        })
    }

    /// The nudges from now on, for whoever fetches from now on.
    pub fn nudges(&self) -> Nudges {
        let (sender, nudges) = mpsc::channel(MAX_NUDGES);
        *self.nudges.write().unwrap_or_else(PoisonError::into_inner) = sender;
        nudges
    }

    /// The log as it is configured.
    pub async fn configured(&self) -> WatchedLog {
        self.keeper.lock().await.keeper.log().clone()
    }

    /// Takes over another configuration of the same log, acknowledged evidence included.
    ///
    /// # Errors
    /// [`Broken`].
    pub async fn configure(self: &Arc<Post>, log: WatchedLog) -> Result<(), Broken> {
        let post = Arc::clone(self);
        let step = async move {
            let mut guarded = post.begin().await?;
            let forked = post.shared.evidence.first_against(&log.vkey, &log.acknowledged_evidence);
            guarded.keeper.configure(log, forked);
            post.end(&mut guarded);
            Ok(())
        };
        self.run_whole(step).await
    }

    /// The log's name, which is its origin.
    pub fn name(&self) -> &KeyName {
        &self.name
    }

    /// The log as it was after the last step. All of it was durable before.
    pub fn view(&self) -> Arc<LogView> {
        Arc::clone(&self.view.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// What `/status` says of the log, and of what its peers hold of it.
    pub fn status(&self) -> LogStatus {
        let peers = self.peers.read().unwrap_or_else(PoisonError::into_inner).values().cloned().collect();
        LogStatus { peers, ..self.view().status() }
    }

    /// Shows what a peer was found to hold.
    pub fn show_peer(&self, status: PeerStatus) {
        self.peers.write().unwrap_or_else(PoisonError::into_inner).insert(status.peer.clone(), status);
    }

    /// Tells whenever the size of the head held has changed.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.size.subscribe()
    }

    /// The head held, as the log signed it.
    pub async fn held(&self) -> Option<SignedCheckpoint<Verified>> {
        self.keeper.lock().await.keeper.held().map(|held| held.checkpoint().clone())
    }

    /// Asks for a fetch and waits for what comes of it. Nudges that come together share one fetch; a nudge that
    /// comes during a fetch waits for the next, for what it announces may be newer.
    ///
    /// # Errors
    /// [`NudgeRefusal`].
    pub async fn nudge(&self) -> Result<Answer, NudgeRefusal> {
        let (reply, answer) = oneshot::channel();
        let nudges = self.nudges.read().unwrap_or_else(PoisonError::into_inner).clone();
        nudges.try_send(reply).map_err(|error| match error {
            mpsc::error::TrySendError::Full(_) => NudgeRefusal::TooMany,
            mpsc::error::TrySendError::Closed(_) => NudgeRefusal::NotFetched,
        })?;
        answer.await.map_err(|_| NudgeRefusal::NotFetched)
    }

    /// Takes in what a fetch that began at `time_ms` (milliseconds since the epoch) brought, and returns what may leave
    /// because of it. Everything returned is durable.
    ///
    /// # Errors
    /// [`Broken`]: the process must stop.
    pub async fn consider(self: &Arc<Post>, time_ms: u64, fetched: Result<Offer, Trouble>) -> Result<Answer, Broken> {
        let post = Arc::clone(self);
        let step = async move {
            let mut guarded = post.begin().await?;
            let verdict = guarded.keeper.judge(fetched);
            let answer = post.carry_out(&mut guarded.keeper, time_ms, verdict).await?;
            post.end(&mut guarded);
            Ok(answer)
        };
        self.run_whole(step).await
    }

    /// Takes in a head that was pushed at `time_ms`.
    ///
    /// # Errors
    /// [`Broken`]: the process must stop. The inner error is for whoever pushed.
    pub async fn push(self: &Arc<Post>, time_ms: u64, push: Push) -> Result<Result<Answer, PushRefusal>, Broken> {
        let post = Arc::clone(self);
        let step = async move {
            let mut guarded = post.begin().await?;
            let verdict = match guarded.keeper.judge_push(push, &post.shared.tables) {
                Ok(verdict) => verdict,
                Err(refusal) => {
                    guarded.ended = false;
                    return Ok(Err(refusal));
                }
            };
            let answer = post.carry_out(&mut guarded.keeper, time_ms, verdict).await?;
            post.end(&mut guarded);
            Ok(Ok(answer))
        };
        self.run_whole(step).await
    }

    /// Journals what a peer showed at `time_ms`.
    ///
    /// # Errors
    /// [`Broken`].
    pub async fn observe_peer(self: &Arc<Post>, time_ms: u64, seen: PeerSighting) -> Result<(), Broken> {
        let PeerSighting { peer, outcome, head, trouble } = seen;
        let sighting = Sighting { outcome, peer: Some(peer), cosigned_at: None, head, trouble, evidence: None };
        self.write(move |keeper| keeper.note_peer(time_ms, sighting)).await
    }

    /// Journals the folded lines that are due at `time_ms`.
    ///
    /// # Errors
    /// [`Broken`].
    pub async fn fold_due(self: &Arc<Post>, time_ms: u64) -> Result<(), Broken> {
        self.write(move |keeper| keeper.due(time_ms)).await
    }

    /// Journals all that is folded, before the witness stops.
    ///
    /// # Errors
    /// [`Broken`].
    pub async fn finish(self: &Arc<Post>) -> Result<(), Broken> {
        self.write(Keeper::flush).await
    }

    /// Writes lines that release nothing.
    async fn write(
        self: &Arc<Post>,
        lines: impl FnOnce(&mut Keeper) -> Vec<JournalLine> + Send + 'static,
    ) -> Result<(), Broken> {
        let post = Arc::clone(self);
        let step = async move {
            let mut guarded = post.begin().await?;
            let lines = lines(&mut guarded.keeper);
            post.journal(lines).await?;
            guarded.ended = false;
            Ok(())
        };
        self.run_whole(step).await
    }

    /// Runs a step to its end, whatever becomes of whoever asked for it.
    async fn run_whole<T: Send + 'static>(
        &self,
        step: impl Future<Output = Result<T, Broken>> + Send + 'static,
    ) -> Result<T, Broken> {
        let broken = self.shared.broken.clone();
        let whole = tokio::spawn(async move {
            // Dropped early, by an error or a panic, it says so.
            let alarm = broken.drop_guard();
            let done = step.await?;
            alarm.disarm();
            Ok(done)
        });
        whole.await.unwrap_or(Err(Broken::Interrupted))
    }

    async fn begin(&self) -> Result<tokio::sync::MutexGuard<'_, Guarded>, Broken> {
        let mut guarded = self.keeper.lock().await;
        if std::mem::replace(&mut guarded.ended, true) { Err(Broken::Ended) } else { Ok(guarded) }
    }

    fn end(&self, guarded: &mut Guarded) {
        *self.view.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(guarded.keeper.view());
        let held = guarded.keeper.held_size().0;
        self.size.send_if_modified(|size| std::mem::replace(size, held) != held);
        guarded.ended = false;
    }

    async fn carry_out(&self, keeper: &mut Keeper, time_ms: u64, verdict: Verdict) -> Result<Answer, Broken> {
        let (outcome, answer) = match verdict {
            Verdict::Cosign(outcome, head) => self.cosign(keeper, time_ms, outcome, *head).await?,
            Verdict::Accuse(head, fork) => {
                let (_, sentence) = self.record_fork(keeper, time_ms, None, &head, *fork).await?;
                (Outcome::Fork, Answer::NotCosigned { outcome: Outcome::Fork, detail: sentence })
            }
            Verdict::Inadmissible(head, breaks) => {
                let outcome = Outcome::Inadmissible;
                let sentence = self.record_breaks(keeper, time_ms, &head, *breaks).await?;
                (outcome, Answer::NotCosigned { outcome, detail: sentence })
            }
            Verdict::Refuse(outcome, head, trouble) => {
                let detail = trouble.sentence.clone();
                let lines = keeper.note(time_ms, sighting(outcome, head.as_deref(), None, Some(trouble)));
                self.journal(lines).await?;
                (outcome, Answer::NotCosigned { outcome, detail })
            }
        };
        self.judged.count(&self.name, outcome);
        Ok(answer)
    }

    async fn cosign(
        &self,
        keeper: &mut Keeper,
        time_ms: u64,
        outcome: Outcome,
        head: SignedCheckpoint<Verified>,
    ) -> Result<(Outcome, Answer), Broken> {
        // Only what the log signed is kept: lines that others added, ours included, are not believed.
        let head = if head.note().signatures().len() == 1 { head } else { head.log_signed_only() };
        let seen = SeenHead::of(&head);
        let Some(timestamp_s) = keeper.timestamp_s(time_ms) else {
            let sentence = "the witness's clock is not set; set it, a cosignature states its time".to_owned();
            return self.withhold(keeper, time_ms, seen, "clock", sentence).await;
        };
        let already = keeper.held().filter(|held| *held.checkpoint() == head && held.timestamp_s() == timestamp_s);
        let seal = match already {
            Some(_) => None,
            None => match self.seal(keeper.held(), outcome, head, timestamp_s).await {
                Ok(seal) => Some(seal),
                Err(error) => return self.withhold(keeper, time_ms, seen, "signer", error.to_string()).await,
            },
        };
        let lines =
            keeper.note(time_ms, Sighting { head: Some(seen), ..sighting(outcome, None, Some(timestamp_s), None) });
        if seal.is_some() || !lines.is_empty() {
            let released = self.shared.committer.commit(Record { lines, seal }).await?;
            released.into_iter().for_each(|cosigned| keeper.took(cosigned));
        }
        Ok((outcome, Answer::Cosigned { lines: keeper.lines() }))
    }

    /// The witness cannot cosign for a reason of its own: nothing is durable and nothing leaves.
    async fn withhold(
        &self,
        keeper: &mut Keeper,
        time_ms: u64,
        head: SeenHead,
        code: &'static str,
        sentence: String,
    ) -> Result<(Outcome, Answer), Broken> {
        let outcome = Outcome::Withheld;
        let trouble = Trouble { code, sentence: sentence.clone() };
        let seen = Sighting { head: Some(head), ..sighting(outcome, None, None, Some(trouble)) };
        self.journal(keeper.note(time_ms, seen)).await?;
        Ok((outcome, Answer::NotCosigned { outcome, detail: sentence }))
    }

    /// Cosigns `head`, into a seal that what is durable opens.
    async fn seal(
        &self,
        held: Option<&Cosigned>,
        outcome: Outcome,
        head: SignedCheckpoint<Verified>,
        timestamp_s: u64,
    ) -> Result<Seal, SignerError> {
        let cosignatures = self.shared.signer.cosign(head.note().text(), timestamp_s).await?;
        let again = held.filter(|_| outcome == Outcome::Unchanged);
        let again = again.and_then(|held| held.again(head.clone(), timestamp_s, cosignatures.clone()));
        Ok(match again {
            Some(again) => Seal::Again(Box::new(again)),
            None => Seal::New(Box::new(Cosigned::sealed(head, timestamp_s, cosignatures))),
        })
    }

    async fn journal(&self, lines: Vec<JournalLine>) -> Result<(), Broken> {
        if !lines.is_empty() {
            self.shared.committer.commit(Record { lines, seal: None }).await?;
        }
        Ok(())
    }
}
