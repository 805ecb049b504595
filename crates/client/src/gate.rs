//! The gate: one line to decide, one scope to act in, and receipts that nothing loses.
//!
//! ```no_run
//! # use counterfoil_client as client;
//! use client::gate::{Decision, Gate, GateConfig};
//! # fn gate(key: note::SigningKey, log_key: note::VerifierKey) -> Result<(), Box<dyn std::error::Error>> {
//! let gate = Gate::open(GateConfig::new("outbox", key, "https://log.example".parse()?, log_key))?;
//!
//! // On disk, signed and chained, when it returns. Only then does anything run.
//! let mut act = gate.decide(Decision::new(true).rule("R1_OWNER").operation("refund").resource("order/17"))?;
//! let answer = act.call(|| std::fs::read_to_string("order-17"))?;
//! act.finish()?;
//!
//! gate.deny(Decision::new(false).rule("R2_UNSIGNED").operation("delete_customer"))?;
//! # drop(answer);
//! # Ok(())
//! # }
//! ```
//!
//! A gate is an outbox ([`crate::outbox`]), a sender that never gives up and a heartbeat, on a thread of its own, and the
//! scope that allowed actions run in ([`Act`]). It can be used from code with and without a runtime, from any number of
//! threads; clones are one gate. Nothing here waits for the log but [`Gate::flush`], [`Gate::end`] and [`Gate::history`].
//!
//! * [`bodies`]: the exact text of what is signed; pure.
//! * [`GateConfig`], [`Decision`], [`Act`], [`GateError`]: what goes in, and what can go wrong.
//! * [`GateStatus`]: how it stands, also as metrics.

pub mod bodies;
mod config;
mod core;
mod decision;
mod drops;
mod error;
mod histories;
mod scope;
mod status;
mod worker;

pub use self::core::Sending;
pub use config::{DEFAULT_MAX_QUEUED, GateConfig, WhenFull, system_clock};
pub use decision::{ArgsMode, AsOf, Decision, PriorHistory};
pub use error::GateError;
pub use scope::Act;
pub use status::{DropCounts, GateStatus};

use crate::history::{History, HistoryConfig, HistorySettings};
use crate::http::BoundedClient;
use crate::log::LogClient;
use crate::outbox::{GateDescription, NewBody, Outbox, OutboxError, OutboxReader, Queued};
use crate::sender::{Honour, Patience, Sender};
use bodies::DecisionText;
use core::{Asked, Core};
use histories::SharedHistory;
use note::SigningKey;
use rand::TryRngCore as _;
use receipt::body::Ruling;
use receipt::{Digest, Receipt, UnixMillis, ijson};
use scope::Decided;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::time::{Duration, Instant};
use worker::Worker;

/// A gate. Cheap to clone; the last clone, and the last [`Act`], that is dropped closes it.
#[derive(Clone)]
pub struct Gate(Arc<Running>);

struct Running {
    core: Arc<Core>,
    worker: Worker,
    /// Where the gate has a policy.
    history: Option<SharedHistory>,
}

/// What the caller of an action says became of it, for [`Gate::reported`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Whether it was executed, by the caller's word.
    pub executed: bool,
    /// What went wrong, if anything did.
    pub error: Option<String>,
    /// The action digest of what was dispatched, by the caller's word.
    pub executed_digest: Option<Digest>,
}

impl Gate {
    /// Opens the gate: takes the outbox's lock, and starts to send. The log need not be there. Once it was asked for its stream
    /// of this issuer, reached or not, the outcome `unknown` of every allowed action that an earlier process left is
    /// written; it waits for that, as an older copy of an outbox must not sign on.
    ///
    /// # Errors
    /// [`GateError`]: another process has the outbox, its files do not fit the key or the log, or the disk refuses.
    pub fn open(config: GateConfig) -> Result<Self, GateError> {
        let GateConfig { dir, key, log_url, log_key, when_full, max_queued, heartbeat_ms, clock, .. } = config;
        let description = GateDescription { gate: config.gate, heartbeat_ms, policy_digest: config.policy_digest };
        let outbox = Outbox::open(&dir, key, description)?;
        let http = BoundedClient::new(config.timeouts).map_err(|error| GateError::NoWorker(error.to_string()))?;
        let log = LogClient::new(log_url, http);
        // How long to wait is for the worker to say, which also says what it waits for.
        let at_once = Patience { give_up_after: Some(Duration::ZERO), ..config.patience };
        let sender = Sender::new(outbox.clone(), log.clone(), log_key.clone(), at_once, Arc::clone(&clock))?;
        let honour = Honour::new(outbox.clone(), log.clone(), log_key.clone(), Arc::clone(&clock));
        let history = config.policy.map(|policy| {
            let HistorySettings { mode, whose, max_age, quorum_wait, total } = config.history;
            let (dir, clock) = (dir.join("history"), Arc::clone(&clock));
            History::open(HistoryConfig { dir, log, log_key, policy, mode, whose, max_age, quorum_wait, total, clock })
        });
        let history = history.transpose()?.map(SharedHistory::new);
        let core = Arc::new(Core::open(outbox, clock, when_full, max_queued)?);
        let heartbeat = heartbeat_ms.map(Duration::from_millis);
        let worker = Worker::start(Arc::clone(&core), sender, honour, heartbeat, config.patience);
        let worker = worker.map_err(|error| GateError::NoWorker(error.to_string()))?;
        Ok(Self(Arc::new(Running { core, worker, history })))
    }

    /// Allows an action. When this returns, the decision is signed and durable, and what it returns is the scope to run
    /// the action in.
    ///
    /// # Errors
    /// [`GateError`]; the action must not run then. With [`WhenFull::FailOpen`] a full outbox and a disk that refuses are no
    /// errors: the scope has no receipt.
    pub fn decide(&self, decision: Decision) -> Result<Act, GateError> {
        let (receipt, request_id, text) = self.sign(Ruling::Allow, &decision)?;
        let DecisionText { action_digest, executed_digest, .. } = text;
        let decided =
            Decided { receipt: receipt.as_ref(), request_id, action_digest, executed_digest, started_at: self.now() };
        Ok(Act::new(self.clone(), decided))
    }

    /// As [`Gate::decide`], for code that must not wait for a disk: the work is done by a thread of tokio's, where there is
    /// a tokio.
    ///
    /// # Errors
    /// As [`Gate::decide`].
    pub async fn decide_async(&self, decision: Decision) -> Result<Act, GateError> {
        let gate = self.clone();
        in_background(move || gate.decide(decision)).await
    }

    /// Denies an action. `None` where the denial could not be kept and the gate fails open: the action is denied all the
    /// same.
    ///
    /// # Errors
    /// [`GateError`]; the action is denied all the same.
    pub fn deny(&self, decision: Decision) -> Result<Option<Queued>, GateError> {
        let (receipt, ..) = self.sign(Ruling::Deny, &decision)?;
        Ok(receipt.as_ref().map(Queued::of))
    }

    /// Signs a receipt of another type: `memory`, `approval`, `foreign`, or a type of one's own. `body` is one JSON object on
    /// one line, signed as it stands.
    ///
    /// # Errors
    /// [`GateError`]: decisions and outcomes, and what the gate writes by itself, are refused.
    pub fn append(&self, body: &str) -> Result<Queued, GateError> {
        let members =
            ijson::parse_object(body).map_err(|fault| OutboxError::Body { place: 0, of: 1, reason: fault.into() })?;
        match members.get("type").and_then(serde_json::Value::as_str) {
            Some(scoped @ ("outcome" | "decision")) => return Err(GateError::ScopeOnly(scoped.to_owned())),
            Some(reserved @ ("open" | "close" | "rotate" | "heartbeat" | "dropped")) => {
                return Err(GateError::ReservedType(reserved.to_owned()));
            }
            _ => {}
        }
        Ok(Queued::of(&self.core().lock_open()?.append(body)?))
    }

    /// Writes what the caller says became of an action that it executes itself (`executes: caller`). It names no agent: who
    /// executed it, the gate does not know.
    ///
    /// # Errors
    /// [`GateError`]: no such decision waits for a report, or the gate itself executes it.
    pub fn reported(&self, request_id: &str, report: &Report) -> Result<Queued, GateError> {
        let mut working = self.core().lock_open()?;
        let call = working.call_of_caller(request_id)?;
        let outcome = bodies::outcome(&bodies::outcome_reported(call.request_id, call.id, report));
        Ok(Queued::of(&working.append_promised(&outcome)?))
    }

    /// Hands the stream over to `new`, a key of the same name. Keep the old key until the log has the receipt; open the
    /// outbox with the new one from now on.
    ///
    /// # Errors
    /// [`GateError`].
    pub fn rotate(&self, new: SigningKey) -> Result<Queued, GateError> {
        self.core().lock_open()?.rotate(new)
    }

    /// Waits until the log has taken and proved everything that is signed now or that an earlier process left to be, at most
    /// `timeout`.
    ///
    /// # Errors
    /// [`GateError::NotInTime`], or [`GateError::Sender`] where the sender has stopped. Nothing is lost.
    pub fn flush(&self, timeout: Duration) -> Result<(), GateError> {
        let core = self.core();
        let until = Instant::now().checked_add(timeout);
        self.0.worker.send_now();
        let asked = core.wait_asked(until);
        let seq = core.outbox.next_seq()?;
        if asked && core.wait_acknowledged(seq, until) {
            return Ok(());
        }
        let unsent = seq.0.saturating_sub(*core.outbox.watch_acknowledged().borrow());
        match core.sending() {
            Sending::Stopped { code, sentence } => Err(GateError::Sender { code, sentence }),
            Sending::Failing { sentence, .. } => Err(GateError::NotInTime { unsent, waited: timeout, last: sentence }),
            Sending::Working => {
                Err(GateError::NotInTime { unsent, waited: timeout, last: "the log is still at it".into() })
            }
        }
    }

    /// Ends the stream: signs `close`, its last receipt, sends everything within `timeout`, and closes the gate. For a gate
    /// that will not come back under this name; one that is merely restarted is closed ([`Gate::close`]). Where an earlier process
    /// left calls, it first waits, within the same time, until the log was asked.
    ///
    /// # Errors
    /// [`GateError::OpenScopes`]: allowed actions are still running. [`GateError::NotInTime`]: the end is signed, and what the log
    /// has not taken is in the outbox.
    pub fn end(&self, timeout: Duration) -> Result<Queued, GateError> {
        let begun = Instant::now();
        // An older copy of an outbox would end the stream for the newest one too.
        self.0.worker.send_now();
        self.core().wait_asked(begun.checked_add(timeout));
        let receipt = self.core().lock_open()?.end()?;
        let flushed = self.flush(timeout.saturating_sub(begun.elapsed()));
        self.close();
        flushed.map(|()| Queued::of(&receipt))
    }

    /// Stops the heartbeat and the sender and takes no more decisions; the stream goes on when the outbox is opened again.
    /// Scopes that are open still write their outcomes. The outbox is unlocked when the last clone and the last scope
    /// are dropped.
    pub fn close(&self) {
        self.core().close();
        self.0.worker.stop();
    }

    /// The outbox, to look things up in: receipts, proofs, disclosures. Only the gate itself signs:
    ///
    /// ```compile_fail
    /// # use counterfoil_client as client;
    /// # fn around(gate: &client::Gate) {
    /// gate.outbox().append(r#"{"type":"outcome","executed":true}"#, receipt::UnixMillis(0));
    /// # }
    /// ```
    pub fn outbox(&self) -> OutboxReader {
        self.core().outbox.reader()
    }

    fn core(&self) -> &Core {
        &self.0.core
    }

    fn now(&self) -> UnixMillis {
        (self.core().clock)()
    }

    fn sign(&self, ruling: Ruling, decision: &Decision) -> Result<(Option<Receipt>, String, DecisionText), GateError> {
        let request_id = match &decision.request_id {
            Some(request_id) => request_id.clone(),
            None => hex::encode(random_bytes()?),
        };
        let salts: Result<Vec<[u8; 16]>, GateError> = decision.commit.iter().map(|_| random_bytes()).collect();
        let mut salts = salts?.into_iter();
        // One salt was drawn for each name.
        let text = bodies::decision(ruling, decision, &request_id, &mut || salts.next().unwrap_or_default())?;
        let body = NewBody { text: &text.text, disclosures: &text.disclosures };
        let asked =
            Asked { request_id: &request_id, by_caller: decision.is_by_caller(), as_of: decision.as_of.as_ref() };
        let receipt = self.core().lock_open()?.decide(body, &asked)?;
        Ok((receipt, request_id, text))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.core.close();
        self.worker.stop();
    }
}

/// 128 bits from the operating system.
fn random_bytes() -> Result<[u8; 16], GateError> {
    let mut bytes = [0; 16];
    let filled = rand::rngs::OsRng.try_fill_bytes(&mut bytes);
    filled.map_err(|error| GateError::NoWorker(format!("the system gives no random bytes: {error}")))?;
    Ok(bytes)
}

/// Does work that waits for a disk without holding up a runtime, where there is one.
async fn in_background<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    let Ok(runtime) = tokio::runtime::Handle::try_current() else { return work() };
    match runtime.spawn_blocking(work).await {
        Ok(done) => done,
        Err(failed) => match failed.try_into_panic() {
            Ok(panic) => resume_unwind(panic),
            // The runtime is shutting down, and with it whoever waits here.
            Err(_) => std::future::pending().await,
        },
    }
}

#[cfg(test)]
mod tests;
