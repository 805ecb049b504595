//! What an allowed action runs in: whatever way it ends, its outcome is written.
//!
//! | how it ends | `executed` | `unknown` | `error` |
//! |---|---|---|---|
//! | [`Act::call`] or [`Act::run`] came back with `Ok` | true | | |
//! | the same, and then [`Act::failed`], a panic, or a later call that failed | true | | what failed |
//! | [`Act::not_executed`], and nothing ran | false | | the reason |
//! | the call came back with `Err`, or panicked | false | | its type and message |
//! | [`Act::not_answered`], and nothing came back with `Ok` | false | true | what failed |
//! | dropped before or inside the call | false | true | `cancelled` |
//! | the process ended | false | true | written at the next start, once the log was asked |

use super::Gate;
use super::bodies::{self, Agent, OutcomeMembers};
use super::error::GateError;
use crate::outbox::Queued;
use futures_util::FutureExt as _;
use receipt::body::{ExecutedBy, Executes};
use receipt::{Digest, Receipt, ReceiptId, SeqNo, UnixMillis};
use serde_json::Value;
use std::fmt::Display;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

/// An allowed action. Its decision is durable; its outcome is written by [`Act::finish`], or when this is dropped.
///
/// That it was executed is written only where [`Act::call`] or [`Act::run`] ran it and it came back:
///
/// ```compile_fail
/// # use counterfoil_client as client;
/// # fn end(act: client::gate::Act) {
/// let ended = client::gate::Ending { executed: true, ..act.ending };
/// # }
/// ```
#[must_use = "an action that is dropped at once is written as cancelled"]
pub struct Act {
    gate: Gate,
    /// `None` where it runs without a receipt.
    decision: Option<Queued>,
    request_id: String,
    action_digest: Digest,
    /// Where an outcome is due from the gate.
    due: Option<Due>,
}

/// What is known of an action whose outcome is due.
struct Due {
    executed_digest: Option<Digest>,
    agent: Option<Agent>,
    started_at: UnixMillis,
    ending: Ending,
}

#[derive(Default)]
struct Ending {
    /// A call came back with `Ok`.
    returned: bool,
    /// A call is running.
    calling: bool,
    /// A call left and was not answered.
    unanswered: bool,
    error: Option<String>,
    result_digest: Option<Digest>,
}

/// How a scope comes to its end.
#[derive(Clone, Copy, PartialEq, Eq)]
enum By {
    Finish,
    Drop,
    Panic,
}

pub(super) struct Decided<'a> {
    pub(super) receipt: Option<&'a Receipt>,
    pub(super) request_id: String,
    pub(super) action_digest: Digest,
    pub(super) executed_digest: Option<Digest>,
    pub(super) started_at: UnixMillis,
}

impl Act {
    pub(super) fn new(gate: Gate, decided: Decided<'_>) -> Self {
        let Decided { receipt, request_id, action_digest, executed_digest, started_at } = decided;
        let decision = receipt.and_then(|receipt| match receipt.body() {
            receipt::Body::Decision(decision) => Some((receipt, decision)),
            _ => None,
        });
        use receipt::Shown as _;
        let due = decision.filter(|(_, decision)| decision.executes.shown() == Some(&Executes::Gate)).map(
            |(receipt, decision)| Due {
                executed_digest,
                agent: bodies::agent_of(decision),
                started_at: started_at.max(receipt.issued_at()),
                ending: Ending::default(),
            },
        );
        Self { gate, decision: receipt.map(Queued::of), request_id, action_digest, due }
    }

    /// The id of the decision's receipt; `None` where the action runs without one.
    pub fn receipt_id(&self) -> Option<ReceiptId> {
        self.decision.as_ref().map(|decision| decision.id)
    }

    /// The seq of the decision's receipt; `None` where the action runs without one.
    pub fn seq(&self) -> Option<SeqNo> {
        self.decision.as_ref().map(|decision| decision.seq)
    }

    /// The request's id.
    pub fn request_id(&self) -> &str {
        &self.request_id
    }

    /// The action digest (protocol 3.1), for whoever approves the action.
    pub fn action_digest(&self) -> Digest {
        self.action_digest
    }

    /// Runs the action. The outcome says what it came to; the answer is handed on as it is.
    ///
    /// # Errors
    /// Those of `action`.
    pub fn call<T, E: Display>(&mut self, action: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
        self.begin();
        let ended = catch_unwind(AssertUnwindSafe(action));
        self.came_back(ended)
    }

    /// Runs the action, as [`Act::call`] does. Where the future that this makes is dropped with the scope before it is done,
    /// whether the action took place is not known, and the outcome says so.
    ///
    /// # Errors
    /// Those of `action`.
    pub async fn run<T, E: Display>(&mut self, action: impl Future<Output = Result<T, E>>) -> Result<T, E> {
        self.begin();
        let ended = AssertUnwindSafe(action).catch_unwind().await;
        self.came_back(ended)
    }

    /// Says what the action answered: the outcome carries the digest of this value (SHA-256 over JCS).
    pub fn result(&mut self, value: &Value) {
        self.result_digest(Digest::of_json(value));
    }

    /// Says what the action answered: the outcome carries the digest of these bytes.
    pub fn result_bytes(&mut self, bytes: &[u8]) {
        self.result_digest(Digest::of_bytes(bytes));
    }

    /// Says what the action answered, where its digest was computed elsewhere.
    pub fn result_digest(&mut self, digest: Digest) {
        if let Some(due) = &mut self.due {
            due.ending.result_digest = Some(digest);
        }
    }

    /// Says that the action is not executed after all, and why. Where a call has come back already, the outcome still says
    /// that it was.
    pub fn not_executed(&mut self, reason: &str) {
        self.note(bodies::reason_text(reason));
    }

    /// Says that something failed: the type of the error and its message.
    pub fn failed(&mut self, type_name: &str, message: &str) {
        self.note(bodies::error_text(type_name, message));
    }

    /// Writes that `by` agreed to the action, with its digest. `None` where the action runs without a receipt.
    ///
    /// # Errors
    /// [`GateError`].
    pub fn approved_by(&self, by: &str) -> Result<Option<Queued>, GateError> {
        let Some(decision) = &self.decision else { return Ok(None) };
        let body = bodies::approval(&self.request_id, &decision.id, by, &self.action_digest);
        let receipt = self.gate.core().lock_open()?.append_promised(&body)?;
        Ok(Some(Queued::of(&receipt)))
    }

    /// Writes the outcome, durably. `None` where none is due: the action runs without a receipt, or the caller executes it.
    /// Without a call before it, the outcome says that it is not known whether anything ran.
    ///
    /// # Errors
    /// [`GateError`]: it could not be written now; it will be as soon as the disk takes it.
    pub fn finish(mut self) -> Result<Option<Queued>, GateError> {
        self.end(By::Finish)
    }

    /// As [`Act::finish`], for code that must not wait for a disk: the write is done by a thread of tokio's, where there
    /// is a tokio.
    ///
    /// # Errors
    /// As [`Act::finish`].
    pub async fn finish_async(self) -> Result<Option<Queued>, GateError> {
        super::in_background(move || self.finish()).await
    }

    /// Says that a call left and was not answered, as when its library gave up waiting: unless a call comes back with `Ok`,
    /// whether the action took place is not known, whatever error `call` or `run` came back with.
    pub fn not_answered(&mut self) {
        if let Some(due) = &mut self.due {
            due.ending.unanswered = true;
        }
    }

    fn begin(&mut self) {
        if let Some(due) = &mut self.due {
            due.ending.calling = true;
        }
    }

    fn came_back<T, E: Display>(&mut self, ended: std::thread::Result<Result<T, E>>) -> Result<T, E> {
        if let Some(due) = &mut self.due {
            due.ending.calling = false;
            due.ending.returned |= matches!(ended, Ok(Ok(_)));
        }
        match ended {
            Ok(Err(error)) => {
                self.failed(short_name(std::any::type_name::<E>()), &error.to_string());
                Err(error)
            }
            Ok(answer) => answer,
            Err(panic) => {
                let text = panic.downcast_ref::<&str>().copied();
                let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
                self.failed("panic", text.unwrap_or("it gave no message"));
                resume_unwind(panic)
            }
        }
    }

    fn note(&mut self, error: String) {
        if let Some(due) = &mut self.due {
            due.ending.error = Some(error);
        }
    }

    fn end(&mut self, by: By) -> Result<Option<Queued>, GateError> {
        let (Some(due), Some(decision)) = (self.due.take(), &self.decision) else { return Ok(None) };
        let ended_at = self.gate.now().max(due.started_at);
        let outcome = bodies::outcome(&due.outcome(&self.request_id, decision.id, by, ended_at));
        self.gate.core().end_scope(decision.seq, outcome).map(|receipt| Some(Queued::of(&receipt)))
    }
}

impl Due {
    fn outcome(self, request_id: &str, decision: ReceiptId, by: By, ended_at: UnixMillis) -> OutcomeMembers {
        let (executed, unknown, error) = self.ending.told(by);
        OutcomeMembers {
            request_id: Some(request_id.to_owned()),
            decision,
            executed,
            unknown,
            executed_by: Some(ExecutedBy::Gate),
            executed_digest: self.executed_digest.filter(|_| executed),
            agent: self.agent,
            error,
            result_digest: self.ending.result_digest,
            started_at: Some(self.started_at.0),
            ended_at: Some(ended_at.0),
        }
    }
}

impl Ending {
    /// `executed`, `unknown` and `error`, row by row of the table above.
    fn told(&self, by: By) -> (bool, bool, Option<String>) {
        let Self { returned, calling, unanswered, error, .. } = self;
        let cancelled = || Some("cancelled".to_owned());
        match (calling, returned, error, by) {
            (true, true, ..) => (true, false, cancelled()),
            (true, false, ..) => (false, true, cancelled()),
            (false, true, None, By::Panic) => (true, false, Some("panic".to_owned())),
            (false, executed, Some(error), _) => (*executed, *unanswered && !executed, Some(error.clone())),
            (false, true, None, _) => (true, false, None),
            (false, false, None, _) if *unanswered => {
                (false, true, Some("outcome-unknown: the call was not answered".to_owned()))
            }
            (false, false, None, By::Panic) => (false, false, Some("panic".to_owned())),
            (false, false, None, By::Finish) => {
                (false, true, Some("outcome-unknown: the scope ended without a call".to_owned()))
            }
            (false, false, None, By::Drop) => (false, true, cancelled()),
        }
    }
}

impl Drop for Act {
    fn drop(&mut self) {
        let by = if std::thread::panicking() { By::Panic } else { By::Drop };
        if let Err(error) = self.end(by) {
            tracing::error!(%error, request_id = self.request_id, "an outcome could not be written yet");
        }
    }
}

/// The name of a type without its path and parameters.
fn short_name(type_name: &str) -> &str {
    let plain = type_name.split('<').next().unwrap_or(type_name);
    plain.rsplit("::").next().unwrap_or(plain)
}

#[cfg(test)]
mod tests;
