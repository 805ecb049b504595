//! The running log as its request handlers see it: where receipts go in, and what is there to be read.

use crate::committer::{Command, Outcome, Submission};
use crate::instruments::{queued, refused};
use crate::ledger::Shelf;
use crate::publication::Publication;
use crate::refusal::NotTaken;
use crate::registry::Registry;
use crate::vetting::{BatchSoFar, Vetted, VettingPool, vet_alone};
use bytes::Bytes;
use receipt::IssuerName;
use service::budget::ByteBudget;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, TrySendError};
use std::time::Duration;
use tokio::sync::{Semaphore, oneshot, watch};

/// Bytes of batches, and of large answers, that are held at once. Thirty-two batches of the largest size, sixteen
/// bundles of the longest entries.
const HELD_BYTES: u32 = 256 * 1024 * 1024;
/// Reads of the store under way at once. Each may bring 16 MiB into memory before anybody has counted it.
const READS_AT_ONCE: usize = 16;
/// Bytes of batches being vetted and committed at once: two of the largest size, so that while one is committed the next
/// is vetted. Their parsed receipts take some ten times as much.
const BATCH_BYTES_AT_ONCE: usize = 16 * 1024 * 1024;
/// Receipts of a batch that are vetted as one piece: about 10 ms on two cores, which is how long a single receipt may
/// have to wait behind a batch.
const VETTED_AT_ONCE: usize = 256;

/// Everything a handler needs.
pub struct Log {
    /// What is committed.
    pub shelf: Arc<dyn Shelf>,
    /// The issuers.
    pub registry: Arc<Registry>,
    /// The offered head.
    pub publication: Arc<Publication>,
    /// Whether `wait=cosigned` can ever be answered.
    pub can_be_cosigned: bool,
    /// How long it waits.
    pub cosigned_wait: Duration,
    queue: SyncSender<Command>,
    committing: watch::Receiver<bool>,
    pool: VettingPool,
    /// For what batches and their verdicts hold.
    pub batch_bytes: ByteBudget,
    /// For what large answers hold.
    pub answer_bytes: ByteBudget,
    /// For pages of evidence on their way into memory.
    pub evidence_reads: Semaphore,
    reads: Semaphore,
    batches: Semaphore,
}

/// The parts of a [`Log`].
pub struct Parts {
    /// See [`Log::shelf`].
    pub shelf: Arc<dyn Shelf>,
    /// See [`Log::registry`].
    pub registry: Arc<Registry>,
    /// See [`Log::publication`].
    pub publication: Arc<Publication>,
    /// See [`Log::can_be_cosigned`].
    pub can_be_cosigned: bool,
    /// See [`Log::cosigned_wait`].
    pub cosigned_wait: Duration,
    /// To the committer.
    pub queue: SyncSender<Command>,
    /// True while the committer works.
    pub committing: watch::Receiver<bool>,
    /// The cores.
    pub pool: VettingPool,
}

impl Log {
    /// Puts the parts together.
    pub fn new(parts: Parts) -> Self {
        let Parts { shelf, registry, publication, can_be_cosigned, cosigned_wait, queue, committing, pool } = parts;
        Self {
            shelf,
            registry,
            publication,
            can_be_cosigned,
            cosigned_wait,
            queue,
            committing,
            pool,
            batch_bytes: ByteBudget::new(HELD_BYTES),
            answer_bytes: ByteBudget::new(HELD_BYTES),
            evidence_reads: Semaphore::new(1),
            reads: Semaphore::new(READS_AT_ONCE),
            batches: Semaphore::new(BATCH_BYTES_AT_ONCE),
        }
    }

    /// Whether the log can commit, as far as it knows.
    pub fn is_committing(&self) -> bool {
        *self.committing.borrow()
    }

    /// Submits one receipt and waits for what becomes of it.
    pub async fn submit(&self, entry: Bytes) -> Outcome {
        if !self.is_committing() {
            return Outcome::NotTaken(NotTaken::Stopping);
        }
        let (reply, outcomes) = oneshot::channel();
        let (registry, queue) = (Arc::clone(&self.registry), self.queue.clone());
        // From the vetting straight on to the committer, which answers: the submitter is woken once.
        let vet_and_queue = move || match vet_alone(&entry, &registry) {
            Vetted::NotTaken { reason, .. } => {
                let _submitter_gone = reply.send(vec![Outcome::NotTaken(refused(reason))]);
            }
            checked => {
                if let Err((reason, reply)) = enqueue(&queue, vec![checked], reply) {
                    let _submitter_gone = reply.send(vec![Outcome::NotTaken(reason)]);
                }
            }
        };
        if !self.pool.spawn(vet_and_queue) {
            return Outcome::NotTaken(refused(NotTaken::Overloaded));
        }
        match self.outcomes(outcomes).await {
            Ok(mut outcomes) => outcomes.pop().unwrap_or(Outcome::NotTaken(NotTaken::Stopping)),
            Err(reason) => Outcome::NotTaken(reason),
        }
    }

    /// Runs a read of the store where it may take its time. `None` if it panicked.
    pub async fn reading<T: Send + 'static>(
        self: &Arc<Self>,
        read: impl FnOnce(&Self) -> T + Send + 'static,
    ) -> Option<T> {
        let _place = self.reads.acquire().await.ok()?;
        let log = Arc::clone(self);
        tokio::task::spawn_blocking(move || read(&log)).await.ok()
    }

    /// Submits the entries of a batch, in order, and waits for one outcome each.
    ///
    /// # Errors
    /// [`NotTaken::Overloaded`] or [`NotTaken::Stopping`], for the batch as a whole.
    pub async fn submit_batch(&self, entries: Vec<Bytes>) -> Result<Vec<Outcome>, NotTaken> {
        let bytes: usize = entries.iter().map(Bytes::len).sum();
        let places = u32::try_from(bytes.min(BATCH_BYTES_AT_ONCE)).unwrap_or(u32::MAX);
        let _places = self.batches.acquire_many(places).await.map_err(|_| NotTaken::Stopping)?;
        let (mut vetted, mut so_far) = (Vec::with_capacity(entries.len()), Arc::new(BatchSoFar::default()));
        for piece in entries.chunks(VETTED_AT_ONCE) {
            let (registry, known) = (Arc::clone(&self.registry), Arc::clone(&so_far));
            let piece = self.pool.map(piece.to_vec(), move |entry| known.vet(entry, &registry)).await;
            let piece = piece.ok_or_else(|| refused(NotTaken::Overloaded))?;
            let so_far = Arc::make_mut(&mut so_far);
            vetted.extend(piece.into_iter().map(|one| so_far.settle(one, &self.registry)));
        }
        // Keyless traffic takes no place in the queue.
        match refused_outright(vetted) {
            Ok(outcomes) => Ok(outcomes),
            Err(vetted) => self.commit(vetted).await,
        }
    }

    async fn commit(&self, receipts: Vec<Vetted>) -> Result<Vec<Outcome>, NotTaken> {
        if !self.is_committing() {
            return Err(NotTaken::Stopping);
        }
        let (reply, outcomes) = oneshot::channel();
        enqueue(&self.queue, receipts, reply).map_err(|(reason, _)| reason)?;
        self.outcomes(outcomes).await
    }

    /// What the committer answers; [`NotTaken::Stopping`] if it ended before it did.
    async fn outcomes(&self, outcomes: oneshot::Receiver<Vec<Outcome>>) -> Result<Vec<Outcome>, NotTaken> {
        let _queued = queued();
        match outcomes.await {
            Ok(outcomes) => Ok(outcomes),
            Err(_) => {
                self.seen_to_end().await;
                Err(NotTaken::Stopping)
            }
        }
    }

    /// A committer that fails drops its replies a moment before it has ended. Who is told that the log stops must not
    /// then find that `/readyz` still says otherwise.
    async fn seen_to_end(&self) {
        let mut committing = self.committing.clone();
        let ended = committing.wait_for(|committing| !committing);
        // Its end is a few instructions away; the bound is for what nobody thought of.
        let _ended_or_late = tokio::time::timeout(Duration::from_secs(1), ended).await;
    }
}

/// The outcomes of a batch in which nothing goes on to the committer; else the batch.
fn refused_outright(vetted: Vec<Vetted>) -> Result<Vec<Outcome>, Vec<Vetted>> {
    let mut stopped: HashMap<&IssuerName, &'static str> = HashMap::new();
    let mut outcomes = Vec::with_capacity(vetted.len());
    for one in &vetted {
        let Vetted::NotTaken { reason, issuer } = one else { return Err(vetted) };
        outcomes.push(match issuer.as_ref().and_then(|issuer| stopped.get(issuer)) {
            Some(code) => Outcome::Skipped(code),
            None => Outcome::NotTaken(reason.clone()),
        });
        if let Some(issuer) = issuer {
            stopped.entry(issuer).or_insert(reason.code());
        }
    }
    for outcome in &outcomes {
        if let Outcome::NotTaken(reason) = outcome {
            let _counted = refused(reason.clone());
        }
    }
    Ok(outcomes)
}

/// Queues receipts for the committer, or says why not, to whom it would have answered.
fn enqueue(
    queue: &SyncSender<Command>,
    receipts: Vec<Vetted>,
    reply: oneshot::Sender<Vec<Outcome>>,
) -> Result<(), (NotTaken, oneshot::Sender<Vec<Outcome>>)> {
    let (reason, command) = match queue.try_send(Command::Submit(Submission { receipts, reply })) {
        Ok(()) => return Ok(()),
        Err(TrySendError::Full(command)) => (refused(NotTaken::Overloaded), command),
        Err(TrySendError::Disconnected(command)) => (NotTaken::Stopping, command),
    };
    match command {
        Command::Submit(submission) => Err((reason, submission.reply)),
        Command::List { .. } | Command::Stop => unreachable!("it is the submission that was handed back"),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;
    use crate::ledger::Ledger;
    use crate::memory_ledger::MemoryLedger;
    use crate::offers::Offers;
    use crate::quorum::Quorum;
    use note::{KeyKind, KeyName, SigningKey};
    use receipt::{Chain, IssuerName, UnixMillis};
    use std::sync::mpsc::{Receiver, sync_channel};

    const QUEUE: usize = 3;

    /// A log whose committer takes nothing from the queue.
    fn stuck(committing: bool) -> (Arc<Log>, Receiver<Command>, Bytes) {
        let key = SigningKey::from_seed(KeyName::new("gate").unwrap(), KeyKind::Ed25519, [1; 32]);
        let registry = Arc::new(Registry::default());
        registry.list(&[key.verifier()]);
        let interval = Duration::from_millis(200);
        let (queue, commands) = sync_channel(QUEUE);
        let parts = Parts {
            shelf: MemoryLedger::new().shelf(),
            registry,
            publication: Arc::new(Publication::new(Offers::new(interval, Vec::new(), Quorum::every(0)), interval)),
            can_be_cosigned: false,
            cosigned_wait: interval,
            queue,
            committing: watch::channel(committing).1,
            pool: VettingPool::new().unwrap(),
        };
        let open = Chain::new(IssuerName::new("gate").unwrap()).open(UnixMillis(1), &key).unwrap();
        (Arc::new(Log::new(parts)), commands, Bytes::copy_from_slice(open.bytes()))
    }

    #[tokio::test]
    async fn a_full_queue_takes_nothing_on_and_says_so() {
        let (log, commands, open) = stuck(true);
        let mut waiting = Vec::new();
        for _ in 0..QUEUE {
            let (log, open) = (Arc::clone(&log), open.clone());
            waiting.push(tokio::spawn(async move { log.submit(open).await }));
        }
        let refused = loop {
            match tokio::time::timeout(Duration::from_millis(100), log.submit(open.clone())).await {
                Ok(outcome) => break outcome,
                Err(_) => continue,
            }
        };
        assert!(matches!(refused, Outcome::NotTaken(NotTaken::Overloaded)), "{refused:?}");
        let batch = log.submit_batch(vec![open.clone()]).await;
        assert!(matches!(batch, Err(NotTaken::Overloaded)), "{batch:?}");
        // The store fails: whoever waits is told that nothing is known, and so is everybody after.
        drop(commands);
        assert!(matches!(log.submit(open).await, Outcome::NotTaken(NotTaken::Stopping)));
    }

    /// A single receipt still reached the committer of a log that had met damage and was stopping.
    #[tokio::test]
    async fn a_log_that_stops_takes_neither_a_receipt_nor_a_batch() {
        let (log, commands, open) = stuck(false);
        let alone = tokio::time::timeout(Duration::from_secs(60), log.submit(open.clone())).await;
        assert!(matches!(alone, Ok(Outcome::NotTaken(NotTaken::Stopping))), "{alone:?}");
        let batch = tokio::time::timeout(Duration::from_secs(60), log.submit_batch(vec![open])).await;
        assert!(matches!(batch, Ok(Err(NotTaken::Stopping))), "{batch:?}");
        assert!(commands.try_recv().is_err());
    }

    #[tokio::test]
    async fn keyless_traffic_does_not_reach_the_queue() {
        let (log, commands, open) = stuck(true);
        let impostor = SigningKey::from_seed(KeyName::new("gate").unwrap(), KeyKind::Ed25519, [2; 32]);
        let forged = Chain::new(IssuerName::new("gate").unwrap()).open(UnixMillis(1), &impostor).unwrap();
        let stranger = SigningKey::from_seed(KeyName::new("stranger").unwrap(), KeyKind::Ed25519, [3; 32]);
        let unknown = Chain::new(IssuerName::new("stranger").unwrap()).open(UnixMillis(1), &stranger).unwrap();
        for bytes in [b"nonsense".as_slice(), &open[1..], forged.bytes(), unknown.bytes()] {
            let outcome = log.submit(Bytes::copy_from_slice(bytes)).await;
            assert!(matches!(outcome, Outcome::NotTaken(NotTaken::Rules(_))), "{outcome:?}");
        }
        assert!(commands.try_recv().is_err());
    }
}
