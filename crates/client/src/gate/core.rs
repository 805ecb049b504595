//! The one place where a gate writes: what it owes, what it may take on, and what it let run without a receipt.
//!
//! Everything goes through [`Core::write`], in one order: a hand that failed is mended first, then come the drops that the log
//! was not told of, the outcomes that are owed, and last what is new. What a failed write leaves on disk is found out
//! before anything else is written, and every call that was allowed there and runs nowhere gets the outcome `unknown`.
//!
//! Once the log has shown that it holds another history of this key, nothing more is signed, in whatever mode: every
//! further receipt would be a second one with its number. The outcomes of scopes that end then stay owed in memory and are
//! lost with it; the newest copy of the outbox, which is to be opened in this one's place, says of its own calls what it
//! knows.
//!
//! For the same reason the outcomes of calls that an earlier process left wait until the log was asked once for its stream
//! ([`Core::log_was_asked`]); where it cannot be reached, they are written without its word.

use super::bodies::{self, Agent};
use super::config::WhenFull;
use super::decision::AsOf;
use super::drops::{DropState, Untold};
use super::error::GateError;
use crate::outbox::{DropLine, DropReason, NewBody, OpenCall, OpenCalls, Outbox, OutboxError};
use crate::sender::Clock;
use receipt::{Body, Receipt, SeqNo};
use std::collections::{HashSet, VecDeque};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;
use tokio::sync::watch;

/// The open calls are saved after so many receipts: a start reads at most so many again, half a second's work.
const SAVE_OPEN_EVERY: u64 = 4096;

/// Outcomes written at once at a start: a megabyte.
const OUTCOMES_AT_ONCE: usize = 1_024;

pub(super) struct Core {
    pub(super) outbox: Outbox,
    pub(super) clock: Clock,
    when_full: WhenFull,
    max_queued: u64,
    state: Mutex<State>,
    health: Mutex<Sending>,
    /// Told whenever receipts are acknowledged or `health` changes.
    progress: Condvar,
    /// When something was written last.
    written: watch::Sender<Instant>,
}

struct State {
    open: OpenCalls,
    /// Decisions whose scopes are alive, in this process.
    live: HashSet<SeqNo>,
    owed: VecDeque<Owed>,
    /// Calls that an earlier process left, whose outcomes wait for the log to be asked.
    left: VecDeque<OpenCall>,
    /// It was.
    log_asked: bool,
    /// Calls that wait for the caller's word; read when they are first asked for.
    callers: Option<OpenCalls>,
    drops: DropState,
    /// A write failed, and what is on disk is not known.
    failed: bool,
    closed: bool,
    open_saved_at: u64,
}

/// An outcome that is to be written.
struct Owed {
    decision: SeqNo,
    text: String,
}

/// How the sender does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sending {
    /// Nothing is known to be in its way.
    Working,
    /// It tries again and again.
    Failing {
        /// The code of what happened last.
        code: String,
        /// What happened last, in a sentence.
        sentence: String,
    },
    /// It will not send again: the log did what no log does, or the two streams do not go together.
    Stopped {
        /// The code.
        code: String,
        /// What happened and what to do, in a sentence.
        sentence: String,
    },
}

/// What a decision is asked for, beside its text.
pub(super) struct Asked<'a> {
    pub(super) request_id: &'a str,
    /// Its caller executes the action.
    pub(super) by_caller: bool,
    /// The moment of the history that it was judged by.
    pub(super) as_of: Option<&'a AsOf>,
}

/// What one write put into the outbox.
pub(super) struct Written {
    /// The outcomes that were owed.
    pub(super) owed: Vec<Receipt>,
    /// What is new.
    pub(super) new: Vec<Receipt>,
}

/// How the gate itself stands.
pub(super) struct Standing {
    pub(super) dropped: u64,
    pub(super) told: u64,
    pub(super) open: u64,
    pub(super) owed: u64,
    pub(super) failed: bool,
}

impl Core {
    /// Finds what the outbox owes. Writes nothing.
    pub(super) fn open(outbox: Outbox, clock: Clock, when_full: WhenFull, max_queued: u64) -> Result<Self, GateError> {
        let open = outbox.open_calls()?;
        let mut left: VecDeque<OpenCall> = open.iter().cloned().collect();
        if !left.is_empty() && outbox.status()?.closed {
            tracing::warn!(calls = left.len(), "the stream has ended, and calls in it have no outcome and never will");
            left.clear();
        }
        if !left.is_empty() {
            let calls = left.len();
            tracing::warn!(
                calls,
                "the gate stopped before it could tell what became of calls; their outcome is unknown"
            );
        }
        let state = State {
            open,
            live: HashSet::new(),
            owed: VecDeque::new(),
            left,
            log_asked: false,
            callers: None,
            drops: DropState::of(&outbox)?,
            failed: false,
            closed: false,
            open_saved_at: 0,
        };
        Ok(Self {
            outbox,
            clock,
            when_full,
            max_queued,
            state: Mutex::new(state),
            health: Mutex::new(Sending::Working),
            progress: Condvar::new(),
            written: watch::Sender::new(Instant::now()),
        })
    }

    /// Called once the log was asked for its stream of this issuer, whatever came of it: writes the outcome `unknown` of every
    /// allowed call that a stopped gate left, unless the log holds another history.
    pub(super) fn log_was_asked(&self) {
        self.lock().log_asked = true;
        self.write_left();
        self.progress.notify_all();
    }

    /// Where the log was asked. The gate is not held up for longer than some of them take.
    fn write_left(&self) {
        loop {
            let mut state = self.lock();
            if !state.log_asked || state.left.is_empty() || self.may_sign().is_err() {
                return;
            }
            let written = self.owe_left(&mut state, OUTCOMES_AT_ONCE).and_then(|()| self.write(&mut state, &[]));
            if let Err(error) = written {
                tracing::warn!(%error, "what an earlier process owes could not be written yet");
                return;
            }
        }
    }

    /// Makes outcomes of the first so many of the calls that were left.
    fn owe_left(&self, state: &mut State, count: usize) -> Result<(), OutboxError> {
        for _ in 0..count {
            let Some(call) = state.left.front() else { break };
            let owed = Owed { decision: call.seq, text: self.unknown_outcome(call)? };
            state.owed.push_back(owed);
            state.left.pop_front();
        }
        Ok(())
    }

    pub(super) fn lock_open(&self) -> Result<Working<'_>, GateError> {
        let state = self.lock();
        if state.closed {
            return Err(GateError::Closed);
        }
        self.may_sign()?;
        Ok(Working { core: self, state })
    }

    /// Whether this is the one history that the key signs, as far as the log has told.
    fn may_sign(&self) -> Result<(), GateError> {
        match self.sending() {
            Sending::Stopped { code, sentence } if code == "streams-differ" || code == "outbox-behind" => {
                Err(GateError::Sender { code, sentence })
            }
            _ => Ok(()),
        }
    }

    /// Ends the scope of the decision at `seq` with an outcome. Where it cannot be written now, it is owed.
    pub(super) fn end_scope(&self, seq: SeqNo, outcome: String) -> Result<Receipt, GateError> {
        let mut state = self.lock();
        state.live.remove(&seq);
        state.owed.push_back(Owed { decision: seq, text: outcome });
        self.may_sign()?;
        let written = self.write(&mut state, &[])?;
        written.owed.into_iter().next_back().ok_or(GateError::Outbox(OutboxError::Stopped))
    }

    /// Writes what is owed, where the disk takes it again.
    pub(super) fn catch_up(&self) {
        if self.write_owed() {
            self.write_left();
        }
    }

    /// Whether nothing is in the way.
    fn write_owed(&self) -> bool {
        let mut state = self.lock();
        if self.may_sign().is_err() {
            return false;
        }
        // Also where it was not a receipt whose write failed, but the proof of one.
        state.failed |= self.outbox.is_stopped();
        if state.failed || !state.owed.is_empty() {
            match self.write(&mut state, &[]) {
                Ok(_) => tracing::info!("the outbox's disk takes receipts again"),
                Err(error) => {
                    tracing::warn!(%error, "the outbox's disk still refuses");
                    return false;
                }
            }
        }
        true
    }

    /// Says `heartbeat`, if nothing was written since `due` ago.
    pub(super) fn heartbeat(&self, due: std::time::Duration) {
        let mut state = self.lock();
        if state.closed || self.written.borrow().elapsed() < due {
            return;
        }
        if self.may_sign().is_err() {
            // The sender has said so. Not looked at again and again.
            self.written.send_replace(Instant::now());
            return;
        }
        let beat = NewBody { text: r#"{"type":"heartbeat"}"#, disclosures: &[] };
        let said = self.has_room(&mut state, 1).and_then(|()| Ok(self.write(&mut state, &[beat])?));
        match said {
            Ok(_) => {}
            Err(error) => {
                // Not at once again: the disk or the room may take a while.
                self.written.send_replace(Instant::now());
                tracing::warn!(%error, "a heartbeat could not be written");
            }
        }
    }

    /// Closes to everything but the outcomes of scopes that are open.
    pub(super) fn close(&self) {
        let mut state = self.lock();
        state.closed = true;
        self.save_open(&mut state, 0);
        drop(state);
        self.progress.notify_all();
    }

    pub(super) fn watch_written(&self) -> watch::Receiver<Instant> {
        self.written.subscribe()
    }

    pub(super) fn standing(&self) -> Standing {
        let state = self.lock();
        Standing {
            dropped: state.drops.count,
            told: state.drops.told,
            open: state.open.len() as u64,
            owed: (state.owed.len() + state.left.len()) as u64,
            failed: state.failed,
        }
    }

    pub(super) fn sending(&self) -> Sending {
        self.health.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Stops the sender for good. When this returns, no signature is under way that did not heed it.
    pub(super) fn stop_sending(&self, code: String, sentence: String) {
        let _nobody_writes = self.lock();
        self.set_sending(Sending::Stopped { code, sentence });
    }

    pub(super) fn set_sending(&self, now: Sending) {
        let mut health = self.health.lock().unwrap_or_else(PoisonError::into_inner);
        if !matches!(*health, Sending::Stopped { .. }) {
            *health = now;
        }
        drop(health);
        self.progress.notify_all();
    }

    /// Called when receipts were acknowledged.
    pub(super) fn note_progress(&self) {
        if matches!(self.sending(), Sending::Failing { .. }) {
            self.set_sending(Sending::Working);
        }
        self.progress.notify_all();
    }

    /// Waits until nothing waits for the log to be asked, the sender stops, or `until` comes.
    pub(super) fn wait_asked(&self, until: Option<Instant>) -> bool {
        let nothing_is_left = || self.lock().left.is_empty();
        // Whoever holds the state may want the health that is held while this waits.
        nothing_is_left()
            || self.wait(until, || self.state.try_lock().is_ok_and(|state| state.left.is_empty()))
            || nothing_is_left()
    }

    /// Waits until everything before `seq` is acknowledged, the sender stops, or `until` comes.
    pub(super) fn wait_acknowledged(&self, seq: SeqNo, until: Option<Instant>) -> bool {
        let acknowledged = self.outbox.watch_acknowledged();
        self.wait(until, || *acknowledged.borrow() >= seq.0)
    }

    fn wait(&self, until: Option<Instant>, is_there: impl Fn() -> bool) -> bool {
        let mut health = self.health.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if is_there() {
                return true;
            }
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            if matches!(*health, Sending::Stopped { .. }) || left.is_some_and(|left| left.is_zero()) {
                return false;
            }
            // It is told by another thread, which may do so just before this one waits.
            let nap = std::time::Duration::from_millis(100);
            let waited = self.progress.wait_timeout(health, left.map_or(nap, |left| left.min(nap)));
            health = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing here is left half-done by a panic that a later write does not find out from the disk.
        self.state.lock().unwrap_or_else(|poisoned| {
            let mut state = poisoned.into_inner();
            state.failed = true;
            self.state.clear_poison();
            state
        })
    }

    fn write(&self, state: &mut State, bodies: &[NewBody<'_>]) -> Result<Written, OutboxError> {
        match self.write_once(state, bodies) {
            // An acknowledgement failed to be written, not a receipt: there is nothing to be lost by looking.
            Err(OutboxError::Stopped) => {
                state.failed = true;
                self.write_once(state, bodies)
            }
            other => other,
        }
    }

    fn write_once(&self, state: &mut State, bodies: &[NewBody<'_>]) -> Result<Written, OutboxError> {
        self.mend(state)?;
        let dropped: Vec<String> = state.drops.untold.iter().map(Untold::text).collect();
        if bodies.is_empty() && state.owed.is_empty() {
            return Ok(Written { owed: Vec::new(), new: Vec::new() });
        }
        let first = dropped.iter().map(String::as_str).chain(state.owed.iter().map(|owed| owed.text.as_str()));
        let all: Vec<NewBody<'_>> =
            first.map(|text| NewBody { text, disclosures: &[] }).chain(bodies.iter().copied()).collect();
        let before = all.len() - bodies.len();
        let receipts = match self.outbox.append_new(&all, (self.clock)()) {
            Ok(receipts) => receipts,
            Err(OutboxError::Body { place, reason, .. }) => {
                return Err(OutboxError::Body { place: place.saturating_sub(before), of: bodies.len(), reason });
            }
            Err(error) => {
                state.failed |= error.is_of_the_disk();
                return Err(error);
            }
        };
        for receipt in &receipts {
            state.open.follow(receipt);
            if let Some(callers) = &mut state.callers {
                callers.follow(receipt);
            }
        }
        let owed = state.owed.len();
        state.owed.clear();
        state.drops.told += state.drops.untold.drain(..).map(|untold| untold.count).sum::<u64>();
        self.written.send_replace(Instant::now());
        self.save_open(state, SAVE_OPEN_EVERY);
        let mut receipts = receipts.into_iter().skip(before - owed);
        Ok(Written { owed: receipts.by_ref().take(owed).collect(), new: receipts.collect() })
    }

    /// After a write that failed: finds out what is on disk.
    fn mend(&self, state: &mut State) -> Result<(), OutboxError> {
        if state.failed {
            self.outbox.reopen()?;
            state.open = self.outbox.open_calls()?;
            state.callers = None;
            state.drops.reread(&self.outbox)?;
            let open = &state.open;
            state.owed.retain(|owed| open.contains(owed.decision));
            state.left.retain(|left| open.contains(left.seq));
            let (owed, left) = (state.owed.iter().map(|owed| owed.decision), state.left.iter().map(|left| left.seq));
            let known: HashSet<SeqNo> = owed.chain(left).chain(state.live.iter().copied()).collect();
            let left: Vec<OpenCall> = open.iter().filter(|call| !known.contains(&call.seq)).cloned().collect();
            for call in left {
                let text = self.unknown_outcome(&call)?;
                state.owed.push_back(Owed { decision: call.seq, text });
            }
            state.failed = false;
        }
        state.drops.write(&self.outbox).inspect_err(|error| state.failed |= error.is_of_the_disk())
    }

    /// Who acts, by the decision of a call.
    pub(super) fn agent_of(&self, call: &OpenCall) -> Result<Option<Agent>, OutboxError> {
        let decision = self.outbox.receipt(call.seq)?;
        Ok(decision.as_ref().and_then(|receipt| match receipt.body() {
            Body::Decision(decision) => bodies::agent_of(decision),
            _ => None,
        }))
    }

    fn unknown_outcome(&self, call: &OpenCall) -> Result<String, OutboxError> {
        let agent = self.agent_of(call)?;
        Ok(bodies::outcome(&bodies::outcome_left(call.request_id.clone(), call.id, agent)))
    }

    /// Whether `more` receipts can be taken on, so that the outcomes of all that is open still have room.
    fn has_room(&self, state: &mut State, more: u64) -> Result<(), GateError> {
        self.mend(state)?;
        let queued = match self.outbox.backlog() {
            Err(OutboxError::Stopped) => {
                state.failed = true;
                self.mend(state)?;
                self.outbox.backlog()?
            }
            queued => queued?,
        };
        let promised = 2 * state.open.len() as u64;
        if queued.saturating_add(promised).saturating_add(more) > self.max_queued {
            let dir = self.outbox.dir().to_owned();
            return Err(GateError::Full { dir, queued, max_queued: self.max_queued });
        }
        Ok(())
    }

    fn save_open(&self, state: &mut State, every: u64) {
        let count = *self.outbox.watch_appended().borrow();
        if count.saturating_sub(state.open_saved_at) >= every.max(1)
            && !state.failed
            && self.outbox.save_open_calls(&state.open).is_ok()
        {
            state.open_saved_at = count;
        }
    }
}

/// A gate that was found open, held by one caller.
pub(super) struct Working<'a> {
    core: &'a Core,
    state: MutexGuard<'a, State>,
}

impl Working<'_> {
    /// Writes one receipt that promises nothing. Never let through without one.
    pub(super) fn append(&mut self, body: &str) -> Result<Receipt, GateError> {
        self.core.has_room(&mut self.state, 2)?;
        self.write_one(NewBody { text: body, disclosures: &[] })
    }

    /// Writes one receipt for which there is room by promise.
    pub(super) fn append_promised(&mut self, body: &str) -> Result<Receipt, GateError> {
        self.write_one(NewBody { text: body, disclosures: &[] })
    }

    /// Writes a decision. `None` where it could not be kept and the gate was told to let it through.
    pub(super) fn decide(&mut self, body: NewBody<'_>, asked: &Asked<'_>) -> Result<Option<Receipt>, GateError> {
        let request_id = asked.request_id;
        let why = match self.take_on(body, asked) {
            Ok(receipt) => {
                if self.state.open.contains(receipt.seq()) {
                    self.state.live.insert(receipt.seq());
                }
                return Ok(Some(receipt));
            }
            Err(error) => match (&error, self.core.when_full) {
                (GateError::Full { .. }, WhenFull::FailOpen) => DropReason::Full,
                (GateError::Outbox(outbox), WhenFull::FailOpen) if outbox.is_of_the_disk() => DropReason::Disk,
                _ => return Err(error),
            },
        };
        let line = DropLine { at: (self.core.clock)().0, why, request_id: request_id.to_owned() };
        tracing::error!(request_id, why = why.as_str(), "an action runs without a receipt");
        self.state.drops.add(line);
        if !self.state.failed
            && let Err(error) = self.state.drops.write(&self.core.outbox)
        {
            self.state.failed |= error.is_of_the_disk();
        }
        Ok(None)
    }

    fn take_on(&mut self, body: NewBody<'_>, asked: &Asked<'_>) -> Result<Receipt, GateError> {
        // First, for all that follows reads the outbox; and it may have been the proof of a receipt whose write failed.
        self.state.failed |= self.core.outbox.is_stopped();
        self.core.mend(&mut self.state)?;
        self.end_left(asked.request_id)?;
        let mut is_in_use = self.state.open.of_request(asked.request_id).is_some();
        if asked.by_caller && !is_in_use {
            is_in_use = self.calls_of_callers()?.of_request(asked.request_id).is_some();
        }
        if is_in_use {
            return Err(bodies::ClaimsFault::RequestIdInUse(asked.request_id.to_owned()).into());
        }
        if let Some(as_of) = asked.as_of {
            as_of.check(&self.core.outbox)?;
        }
        self.core.has_room(&mut self.state, 2)?;
        self.write_one(body)
    }

    /// Where a process that stopped left this very request, what became of it is written in front of the new decision, which
    /// does not wait for the log either.
    fn end_left(&mut self, request_id: &str) -> Result<(), OutboxError> {
        let is_it = |call: &OpenCall| call.request_id.as_deref() == Some(request_id);
        let Some(place) = self.state.left.iter().position(is_it) else { return Ok(()) };
        self.state.left.swap(0, place);
        self.core.owe_left(&mut self.state, 1)?;
        self.core.write(&mut self.state, &[])?;
        Ok(())
    }

    /// Hands the stream over, after what is owed.
    pub(super) fn rotate(&mut self, new: note::SigningKey) -> Result<crate::outbox::Queued, GateError> {
        self.core.write(&mut self.state, &[])?;
        let rotated = self.core.outbox.rotate(new, (self.core.clock)());
        self.state.failed |= rotated.as_ref().is_err_and(OutboxError::is_of_the_disk);
        self.core.written.send_replace(Instant::now());
        Ok(rotated?)
    }

    /// The call that waits for the caller's report on this request.
    pub(super) fn call_of_caller(&mut self, request_id: &str) -> Result<OpenCall, GateError> {
        if self.state.open.of_request(request_id).is_some() {
            return Err(GateError::ScopeOnly("outcome".into()));
        }
        self.core.mend(&mut self.state)?;
        let call = self.calls_of_callers()?.of_request(request_id).cloned();
        call.ok_or_else(|| GateError::NoSuchDecision(request_id.to_owned()))
    }

    /// The first of these reads all receipts.
    fn calls_of_callers(&mut self) -> Result<&OpenCalls, OutboxError> {
        match &mut self.state.callers {
            Some(callers) => Ok(callers),
            callers => Ok(callers.insert(self.core.outbox.open_calls_of_callers()?)),
        }
    }

    /// Ends the stream.
    pub(super) fn end(&mut self) -> Result<Receipt, GateError> {
        match self.state.open.len() {
            0 => {}
            // What is merely owed is written before the end.
            open if open == self.state.owed.len() + self.state.left.len() => {
                let left = self.state.left.len();
                self.core.owe_left(&mut self.state, left)?;
            }
            open => return Err(GateError::OpenScopes(open)),
        }
        self.write_one(NewBody { text: r#"{"type":"close"}"#, disclosures: &[] })
    }

    fn write_one(&mut self, body: NewBody<'_>) -> Result<Receipt, GateError> {
        let written = self.core.write(&mut self.state, &[body])?;
        written.new.into_iter().next().ok_or(GateError::Outbox(OutboxError::Stopped))
    }
}
