//! Allowed calls that have no outcome: what a gate that stopped owes the log.
//!
//! Derived from the receipts. `open` says what it comes to after the first so many of them, so that a start need not read
//! all; it is believed where it fits, and may be lost.

use super::store::Store;
use super::{Outbox, OutboxError};
use receipt::body::{Executes, Ruling};
use receipt::{Body, Receipt, ReceiptId, SeqNo, Shown};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap};

/// The file `open`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct OpenFile {
    next_seq: u64,
    open: Vec<u64>,
}

/// An allowed call that has no outcome yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenCall {
    /// The decision's seq.
    pub seq: SeqNo,
    /// The decision's id.
    pub id: ReceiptId,
    /// The request; none where the decision does not show it.
    pub request_id: Option<String>,
}

/// The calls that are open, whose decision says that so-and-so executes.
#[derive(Clone, Debug)]
pub struct OpenCalls {
    executes: Executes,
    by_seq: BTreeMap<SeqNo, OpenCall>,
    by_id: HashMap<ReceiptId, SeqNo>,
    by_request: HashMap<String, SeqNo>,
}

impl OpenCalls {
    /// None are.
    pub fn none(executes: Executes) -> Self {
        Self { executes, by_seq: BTreeMap::new(), by_id: HashMap::new(), by_request: HashMap::new() }
    }

    /// What `receipt`, the next one in order, makes of it.
    pub fn follow(&mut self, receipt: &Receipt) {
        match receipt.body() {
            Body::Decision(decision)
                if decision.ruling.shown() == Some(&Ruling::Allow)
                    && decision.executes.shown() == Some(&self.executes) =>
            {
                let (seq, id, request_id) = (receipt.seq(), receipt.id(), decision.request_id.shown().cloned());
                self.by_id.insert(id, seq);
                self.by_request.extend(request_id.clone().map(|request_id| (request_id, seq)));
                self.by_seq.insert(seq, OpenCall { seq, id, request_id });
            }
            Body::Outcome(outcome) => {
                let ended = match (outcome.decision.shown(), outcome.request_id.shown()) {
                    (Some(id), _) => self.by_id.get(id),
                    (None, Some(request_id)) => self.by_request.get(request_id),
                    (None, None) => None,
                };
                if let Some(call) = ended.copied().and_then(|seq| self.by_seq.remove(&seq)) {
                    self.by_id.remove(&call.id);
                    if let Some(request_id) = call.request_id {
                        self.by_request.remove(&request_id);
                    }
                }
            }
            _ => {}
        }
    }

    /// Oldest first.
    pub fn iter(&self) -> impl Iterator<Item = &OpenCall> {
        self.by_seq.values()
    }

    /// How many.
    pub fn len(&self) -> usize {
        self.by_seq.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.by_seq.is_empty()
    }

    /// Whether the decision at `seq` is one.
    pub fn contains(&self, seq: SeqNo) -> bool {
        self.by_seq.contains_key(&seq)
    }

    /// The one of this request.
    pub fn of_request(&self, request_id: &str) -> Option<&OpenCall> {
        self.by_seq.get(self.by_request.get(request_id)?)
    }
}

impl Outbox {
    /// The allowed calls that the gate itself executes and that have no outcome.
    ///
    /// # Errors
    /// [`OutboxError`].
    pub fn open_calls(&self) -> Result<OpenCalls, OutboxError> {
        let inner = self.working()?;
        let store = &inner.store;
        let (mut calls, from) = saved(store)?.unwrap_or((OpenCalls::none(Executes::Gate), 0));
        follow_from(store, from, &mut calls)?;
        Ok(calls)
    }

    /// The allowed calls that the caller executes and that have no outcome. Reads all receipts.
    ///
    /// # Errors
    /// [`OutboxError`].
    pub fn open_calls_of_callers(&self) -> Result<OpenCalls, OutboxError> {
        let inner = self.working()?;
        let mut calls = OpenCalls::none(Executes::Caller);
        follow_from(&inner.store, 0, &mut calls)?;
        Ok(calls)
    }

    /// Remembers which calls are open after all receipts there are, to spare the next start. Where that fails, the next start reads
    /// more.
    ///
    /// # Errors
    /// [`OutboxError::Stopped`].
    pub fn save_open_calls(&self, calls: &OpenCalls) -> Result<(), OutboxError> {
        let inner = self.working()?;
        let open = calls.by_seq.keys().map(|seq| seq.0).collect();
        if let Err(error) = inner.store.save_open(&OpenFile { next_seq: inner.store.count(), open }) {
            tracing::debug!(%error, "the open calls could not be saved; the next start reads more receipts");
        }
        Ok(())
    }
}

/// What `open` says, where it fits the receipts, and from which seq on they have to be read.
fn saved(store: &Store) -> Result<Option<(OpenCalls, u64)>, OutboxError> {
    let Some(file) = store.saved_open().filter(|file| file.next_seq <= store.count()) else { return Ok(None) };
    let mut calls = OpenCalls::none(Executes::Gate);
    for seq in &file.open {
        if let Some(receipt) = super::receipt(store, SeqNo(*seq))? {
            calls.follow(&receipt);
        }
    }
    let fits = calls.len() == file.open.len() && file.open.iter().all(|seq| *seq < file.next_seq);
    Ok(fits.then_some((calls, file.next_seq)))
}

fn follow_from(store: &Store, from: u64, calls: &mut OpenCalls) -> Result<(), OutboxError> {
    for seq in from..store.count() {
        if let Some(receipt) = super::receipt(store, SeqNo(seq))? {
            calls.follow(&receipt);
        }
    }
    Ok(())
}
