//! The one thread that owns the store: takes what is queued, places it in order, commits it as a group, answers.
//!
//! ```text
//! queue ──gather──> submissions ──stage──> admitted + refusals ──commit──> head ──answer──> every submitter
//!                    (a few ms more        section 4, issuer by   append, sync, read back,
//!                     if under load)       issuer, in memory      sign, record (the store)
//! ```
//!
//! Nothing staged is visible before its commit, and a commit that fails ends the thread: then what is on the disk is
//! unknown, nobody is answered, and only a restart can tell. Every receipt gets exactly one outcome.

use crate::clock::Clock;
use crate::fork_log::{ForkLog, Keep};
use crate::ledger::{Committed, Ledger, Shelf, StoreFault};
use crate::located::Located;
use crate::publication::{Head, Publication};
use crate::refusal::NotTaken;
use crate::registry::Registry;
use crate::vetting::Vetted;
use merkle::LeafIndex;
use note::VerifierKey;
use receipt::{
    Admitted, Checked, CredentialFound, ForkPair, IssuerName, IssuerState, Receipt, ReceiptId, Refusal, RefusalCode,
    SeqNo, UnixMillis, place,
};
use std::cell::Cell;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError};
use std::time::{Duration, Instant};
use tokio::sync::oneshot;

/// Receipts after which a group is not grown any more. Twice what one core commits in the shortest head interval, so
/// that a group never takes longer than anybody waits for a head; one submission (a batch of 8 MiB) may be larger.
const GROUP: usize = 4096;

/// What the committer is asked to do.
#[derive(Debug)]
pub enum Command {
    /// Commit these receipts.
    Submit(Submission),
    /// From now on these issuers may submit.
    List {
        /// Their registered keys.
        keys: Vec<VerifierKey>,
        /// Told when it is done; an error says why nothing has changed.
        done: oneshot::Sender<Result<(), ListError>>,
    },
    /// Commit what came before, and end.
    Stop,
}

/// Receipts to commit, in order, and who waits for the outcomes.
#[derive(Debug)]
pub struct Submission {
    /// Vetted receipts. A refused one stops later ones of its issuer in this submission, not in others.
    pub receipts: Vec<Vetted>,
    /// Gets one outcome a receipt, in order. Dropped unanswered if the store fails.
    pub reply: oneshot::Sender<Vec<Outcome>>,
}

/// What became of one receipt.
#[derive(Clone, Debug)]
pub enum Outcome {
    /// It is in the log.
    Included {
        /// Which, and where.
        located: Located,
        /// Whether it was there before.
        duplicate: bool,
        /// A durable signed head that covers it, and the tree's right edge under that.
        under: Committed,
    },
    /// It is not.
    NotTaken(NotTaken),
    /// It was not looked at: an earlier receipt of its issuer in the same submission was refused with this code.
    Skipped(&'static str),
}

/// Outcomes, and who waits for them.
type Answer = (Vec<Outcome>, oneshot::Sender<Vec<Outcome>>);

/// Why a list of issuers was not taken over.
#[derive(Clone, Debug, thiserror::Error)]
#[error(
    "{name} is registered with another key; an issuer changes its key by a rotate receipt, so put its registered key back into the file"
)]
pub struct ListError {
    /// The issuer.
    pub name: IssuerName,
}

/// The thread's state.
pub struct Committer<L> {
    ledger: L,
    shelf: Arc<dyn Shelf>,
    registry: Arc<Registry>,
    publication: Arc<Publication>,
    clock: Clock,
    forks: ForkLog,
    newest: Committed,
    linger: Duration,
}

impl<L: Ledger> Committer<L> {
    /// Commits to `ledger`, whose newest head is `head`. `forks` are those whose evidence it keeps already.
    pub fn new(
        ledger: L,
        head: Head,
        registry: Arc<Registry>,
        publication: Arc<Publication>,
        clock: Clock,
        forks: ForkLog,
        linger: Duration,
    ) -> Self {
        let shelf = ledger.shelf();
        // What is there already is proven from the store.
        let newest = Committed { head, edge: Arc::default() };
        Self { ledger, shelf, registry, publication, clock, forks, newest, linger }
    }

    /// Works until it is told to stop, or nobody can tell it anything any more.
    ///
    /// # Errors
    /// [`StoreFault`]: the store failed; no submission after the last answered one has been promised anything.
    pub fn run(mut self, queue: &Receiver<Command>) -> Result<(), StoreFault> {
        let mut next = None;
        loop {
            // Only what had queued up before anybody was answered shows load: a lone gate that sends its next receipt as
            // soon as it has its answer does not, and must not pay the linger.
            let linger = if next.is_some() { self.linger } else { Duration::ZERO };
            let command = match next.take() {
                Some(command) => command,
                None => match queue.recv() {
                    Ok(command) => command,
                    Err(_) => return Ok(()),
                },
            };
            match command {
                Command::Stop => return Ok(()),
                Command::List { keys, done } => {
                    let listed = self.list(&keys)?;
                    let _nobody_waits = done.send(listed);
                }
                Command::Submit(first) => {
                    let (group, left_over) = gather(first, queue, linger);
                    let answers = self.commit(group)?;
                    next = left_over.or_else(|| queue.try_recv().ok());
                    for (outcomes, reply) in answers {
                        let _submitter_gone = reply.send(outcomes);
                    }
                }
            }
        }
    }

    /// From now on exactly `keys` may submit. The inner error says why nothing has changed.
    ///
    /// # Errors
    /// [`StoreFault`].
    pub fn list(&mut self, keys: &[VerifierKey]) -> Result<Result<(), ListError>, StoreFault> {
        if let Some(key) = self.registry.conflicting(keys) {
            return Ok(Err(ListError { name: IssuerName(key.name().clone()) }));
        }
        for key in self.registry.missing(keys) {
            self.ledger.register(&key)?;
        }
        self.registry.list(keys);
        Ok(Ok(()))
    }

    /// Commits a group and says what to answer to whom.
    fn commit(&mut self, group: Vec<Submission>) -> Result<Vec<Answer>, StoreFault> {
        let started = Instant::now();
        let now = self.clock.now();
        let mut staged = Staged::default();
        let mut judged = Vec::with_capacity(group.len());
        for submission in group {
            judged.push((self.stage_all(submission.receipts, &mut staged, now)?, submission.reply));
        }
        let base = self.newest.head.checkpoint().size.0;
        if !staged.admitted.is_empty() {
            self.newest = self.ledger.commit(&staged.admitted)?;
            self.registry.advance(staged.advanced(base));
            self.publication.signed(&self.newest.head);
            metrics::histogram!("counterfoil_log_commit_seconds").record(started.elapsed().as_secs_f64());
            metrics::counter!("counterfoil_log_receipts_total").increment(staged.admitted.len() as u64);
            metrics::histogram!(crate::instruments::BATCH).record(staged.admitted.len() as f64);
        }
        let mut kept = Vec::with_capacity(staged.forks.len());
        for pair in &staged.forks {
            kept.push(self.keep_evidence(pair)?);
        }
        let outcomes =
            |verdicts: Vec<Judged>| verdicts.into_iter().map(|verdict| self.outcome(verdict, base, &staged, &kept));
        Ok(judged.into_iter().map(|(verdicts, reply)| (outcomes(verdicts).collect(), reply)).collect())
    }

    /// One submission, receipt by receipt.
    fn stage_all(
        &self,
        receipts: Vec<Vetted>,
        staged: &mut Staged,
        now: UnixMillis,
    ) -> Result<Vec<Judged>, StoreFault> {
        // Few are ever refused, so this stays empty and costs nothing.
        let mut stopped: HashMap<IssuerName, &'static str> = HashMap::new();
        let mut judged = Vec::with_capacity(receipts.len());
        for vetted in receipts {
            let stop = vetted.issuer().and_then(|issuer| stopped.get(issuer).copied());
            let issuer = vetted.issuer().cloned();
            let verdict = match (stop, vetted) {
                (Some(code), _) => Judged::Skipped(code),
                (None, Vetted::NotTaken { reason, .. }) => Judged::NotTaken(reason),
                (None, Vetted::Checked { checked, credential }) => self.stage(*checked, credential, staged, now)?,
            };
            if let Some(code) = verdict.refused_with() {
                metrics::counter!(crate::instruments::REFUSALS, "code" => code).increment(1);
                stopped.extend(issuer.map(|issuer| (issuer, code)));
            }
            judged.push(verdict);
        }
        Ok(judged)
    }

    fn stage(
        &self,
        checked: Checked,
        credential: Option<CredentialFound>,
        staged: &mut Staged,
        now: UnixMillis,
    ) -> Result<Judged, StoreFault> {
        let receipt = checked.receipt().clone();
        let issuer = receipt.issuer();
        let known = staged.issuers.get(issuer).map(|staged| Arc::clone(&staged.state));
        let Some(state) = known.or_else(|| self.registry.submitter(issuer)) else {
            return Ok(Judged::NotTaken(Refusal::unknown_issuer(&receipt).into()));
        };
        let (fault, place_of_it) = (Cell::new(None), Cell::new(None));
        let held = |seq| {
            let in_store = || self.held(issuer, seq, receipt.id()).map_err(|found| fault.set(Some(found))).ok();
            staged.id_at(issuer, seq).or_else(|| {
                let (index, id) = in_store()?;
                place_of_it.set(Some(index));
                Some(id)
            })
        };
        let placed = place(&state, checked, &held, Some(now));
        if let Some(fault) = fault.take() {
            return Err(fault);
        }
        match placed {
            Ok(admitted) => {
                Ok(match credential.map(NotTaken::Credential).or_else(|| self.registry.over_budget(issuer)) {
                    Some(reason) => Judged::NotTaken(reason),
                    None => Judged::Staged { offset: staged.push(admitted), duplicate: false },
                })
            }
            Err(refusal) if refusal.code == RefusalCode::Duplicate => match staged.offset_of(issuer, receipt.seq()) {
                Some(offset) => Ok(Judged::Staged { offset, duplicate: true }),
                None => {
                    let index = place_of_it.get().map_or_else(|| self.held_index(issuer, receipt.seq()), Ok)?;
                    Ok(Judged::Held { located: Located::new(&receipt, index) })
                }
            },
            Err(mut refusal) => match refusal.fork.take() {
                Some(pair) => {
                    self.registry.count_fork(issuer);
                    staged.forks.push(*pair);
                    Ok(Judged::Forked { refusal: Box::new(refusal), pair: staged.forks.len() - 1 })
                }
                None => Ok(Judged::NotTaken(refusal.into())),
            },
        }
    }

    fn outcome(&self, verdict: Judged, base: u64, staged: &Staged, kept: &[Kept]) -> Outcome {
        match verdict {
            Judged::NotTaken(reason) => Outcome::NotTaken(reason),
            Judged::Forked { mut refusal, pair } => {
                refusal.detail = format!("{}; {}", refusal.detail, kept[pair].in_words());
                Outcome::NotTaken(NotTaken::Rules(refusal))
            }
            Judged::Skipped(code) => Outcome::Skipped(code),
            Judged::Held { located } => Outcome::Included { located, duplicate: true, under: self.newest.clone() },
            Judged::Staged { offset, duplicate } => {
                let index = LeafIndex(base + offset as u64);
                let located = Located::new(&staged.admitted[offset].receipt, index);
                Outcome::Included { located, duplicate, under: self.newest.clone() }
            }
        }
    }

    fn keep_evidence(&mut self, pair: &ForkPair) -> Result<Kept, StoreFault> {
        let issuer = pair.offered.issuer();
        let index = self.held_index(issuer, pair.held_seq)?;
        let held =
            self.shelf.entry(index)?.ok_or_else(|| StoreFault(format!("entry {index} is missing from the store")))?;
        let held_receipt =
            Receipt::parse(&held).map_err(|_| StoreFault(format!("entry {index} of the store is no receipt")))?;
        let kept = match self.forks.judge(&held_receipt, &pair.offered) {
            Keep::Already => Kept::Before,
            Keep::Enough => Kept::Others,
            Keep::Yes => match pair.evidence(&held) {
                Ok(evidence) => {
                    let document = serde_json::to_string(&evidence).map_err(|error| StoreFault(error.to_string()))?;
                    self.ledger.append_evidence(&document)?;
                    self.forks.kept(&held_receipt, &pair.offered);
                    tracing::warn!(%issuer, seq = pair.offered.seq().0, "the issuer signed two histories; the evidence is kept");
                    Kept::Now
                }
                // Somebody else can have garbled a line of it: refused all the same, and nothing to hold against the issuer.
                Err(reason) => {
                    tracing::warn!(%issuer, %reason, "a fork that proves nothing against its issuer");
                    Kept::ProvesNothing
                }
            },
        };
        metrics::counter!("counterfoil_log_forks_total", "kept" => if kept == Kept::Now { "yes" } else { "no" })
            .increment(1);
        Ok(kept)
    }

    fn held_index(&self, issuer: &IssuerName, seq: SeqNo) -> Result<LeafIndex, StoreFault> {
        let missing = || StoreFault(format!("the store has lost its index of seq {seq} of {issuer}"));
        self.shelf.index_of(issuer, seq)?.ok_or_else(missing)
    }

    /// Which receipt of `issuer` is held at `seq`, and where. Anybody can send copies of what is logged, so the receipt that
    /// is `offered` again is told by the hash at its place alone: no entry is read.
    fn held(&self, issuer: &IssuerName, seq: SeqNo, offered: ReceiptId) -> Result<(LeafIndex, ReceiptId), StoreFault> {
        if let Some(said) = self.shelf.said_at(issuer, seq)?.filter(|(_, id)| *id == offered) {
            return Ok(said);
        }
        let index = self.held_index(issuer, seq)?;
        // A leaf's hash is its receipt's id. Without it a duplicate could not be told from a fork.
        let missing = || StoreFault(format!("the hash of entry {index} cannot be read from the store"));
        self.shelf.subtree(0, index.0).map(|leaf| (index, ReceiptId(leaf))).ok_or_else(missing)
    }
}

/// A verdict before its commit.
#[derive(Debug)]
enum Judged {
    Staged {
        offset: usize,
        duplicate: bool,
    },
    Held {
        located: Located,
    },
    NotTaken(NotTaken),
    /// `pair` is its place among the group's forks.
    Forked {
        refusal: Box<Refusal>,
        pair: usize,
    },
    Skipped(&'static str),
}

impl Judged {
    /// The code, where it was looked at and refused.
    fn refused_with(&self) -> Option<&'static str> {
        match self {
            Self::NotTaken(reason) => Some(reason.code()),
            Self::Forked { refusal, .. } => Some(refusal.code.as_str()),
            Self::Staged { .. } | Self::Held { .. } | Self::Skipped(_) => None,
        }
    }
}

/// What became of the two receipts of a fork.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kept {
    Now,
    Before,
    /// Enough others of the same issuer.
    Others,
    ProvesNothing,
}

impl Kept {
    /// What the submitter is told, and no more than is true.
    fn in_words(self) -> &'static str {
        match self {
            Self::Now => "both are kept as evidence",
            Self::Before => "both were kept as evidence before",
            Self::Others => {
                "this one is counted only, since as much evidence against this issuer as is ever kept is there"
            }
            Self::ProvesNothing => {
                "nothing is kept, since anybody can have garbled a signature line and so it proves nothing against the issuer"
            }
        }
    }
}

/// What a group will add, if it is committed.
#[derive(Debug, Default)]
struct Staged {
    admitted: Vec<Admitted>,
    issuers: HashMap<IssuerName, StagedIssuer>,
    forks: Vec<ForkPair>,
}

/// What a group will add of one issuer: receipts without a gap, since nothing else is admitted.
#[derive(Debug)]
struct StagedIssuer {
    state: Arc<IssuerState>,
    first: SeqNo,
    /// Offsets in `admitted`, seq by seq.
    offsets: Vec<usize>,
}

impl Staged {
    fn push(&mut self, admitted: Admitted) -> usize {
        let (offset, seq) = (self.admitted.len(), admitted.receipt.seq());
        let state = Arc::new(admitted.state.clone());
        match self.issuers.get_mut(admitted.receipt.issuer()) {
            Some(issuer) => {
                issuer.state = state;
                issuer.offsets.push(offset);
            }
            None => {
                let new = StagedIssuer { state, first: seq, offsets: vec![offset] };
                self.issuers.insert(admitted.receipt.issuer().clone(), new);
            }
        }
        self.admitted.push(admitted);
        offset
    }

    fn offset_of(&self, issuer: &IssuerName, seq: SeqNo) -> Option<usize> {
        let issuer = self.issuers.get(issuer)?;
        issuer.offsets.get(usize::try_from(seq.0.checked_sub(issuer.first.0)?).ok()?).copied()
    }

    fn id_at(&self, issuer: &IssuerName, seq: SeqNo) -> Option<ReceiptId> {
        self.offset_of(issuer, seq).map(|offset| self.admitted[offset].receipt.id())
    }

    /// Each issuer's new state, with the leaf indices of its newest receipt and, where it is new, its first.
    fn advanced(&self, base: u64) -> impl Iterator<Item = (Arc<IssuerState>, LeafIndex, Option<LeafIndex>)> {
        self.issuers.values().filter_map(move |issuer| {
            let index = |offset: &usize| LeafIndex(base + *offset as u64);
            let first = issuer.offsets.first().filter(|_| issuer.first == SeqNo(0));
            Some((Arc::clone(&issuer.state), index(issuer.offsets.last()?), first.map(index)))
        })
    }
}

/// Takes what is queued behind `first`, waiting up to `linger` for more. Also returns a command that does not fit in.
fn gather(first: Submission, queue: &Receiver<Command>, linger: Duration) -> (Vec<Submission>, Option<Command>) {
    let deadline = Instant::now() + linger;
    let mut receipts = first.receipts.len();
    let mut group = vec![first];
    while receipts < GROUP {
        let next = match queue.try_recv() {
            Ok(next) => next,
            Err(TryRecvError::Disconnected) => break,
            Err(TryRecvError::Empty) => match queue.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(next) => next,
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => break,
            },
        };
        match next {
            Command::Submit(submission) => {
                receipts += submission.receipts.len();
                group.push(submission);
            }
            other => return (group, Some(other)),
        }
    }
    (group, None)
}

#[cfg(test)]
mod tests;
