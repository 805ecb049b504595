//! What this gate decided and the log does not show under the head yet: its own memory, which only ever adds.

use super::index::{Item, Mention};
use crate::outbox::{Outbox, OutboxError};
use receipt::{Body, IssuerState, Receipt, ReceiptId, SeqNo};
use std::collections::{BTreeSet, VecDeque};

/// Own decisions, oldest first, from a seq on.
#[derive(Debug, Default)]
pub(super) struct Pending {
    /// The first seq that is covered.
    first: u64,
    /// The first that is not.
    next: u64,
    own: VecDeque<Own>,
}

#[derive(Debug)]
struct Own {
    item: Item,
    /// Whether it is part of a history: allowed, with a class. Others only move the head.
    counts: bool,
    subjects: BTreeSet<String>,
}

/// What is pending on some subjects.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct OnSubjects {
    pub(super) items: Vec<Item>,
    /// Subject, and the newest pending receipt that names it.
    pub(super) heads: Vec<(String, ReceiptId)>,
}

impl Pending {
    /// Reads what the outbox holds beyond what the log holds of its stream. `logged` is where that stream stands in the log, as
    /// far as it was read.
    ///
    /// # Errors
    /// [`OutboxError`].
    pub(super) fn catch_up(&mut self, outbox: &Outbox, logged: Option<&IssuerState>) -> Result<SeqNo, OutboxError> {
        let count = outbox.next_seq()?;
        let shared = match logged {
            // What the log holds of a stream that is not this outbox's is no reason to forget one's own.
            Some(state) if is_of(outbox, state)? => state.next_seq().0.min(count.0),
            _ => 0,
        };
        if shared < self.first {
            *self = Self { first: shared, next: shared, own: VecDeque::new() };
        }
        self.first = shared;
        while self.own.front().is_some_and(|own| own.item.seq.0 < shared) {
            self.own.pop_front();
        }
        for seq in self.next.max(shared)..count.0 {
            if let Some(receipt) = outbox.receipt(SeqNo(seq))? {
                self.own.extend(Own::of(&receipt));
            }
        }
        self.next = count.0;
        Ok(count)
    }

    pub(super) fn on(&self, subjects: &[String]) -> OnSubjects {
        let touches = |own: &&Own| subjects.iter().any(|subject| own.subjects.contains(subject));
        let items = self.own.iter().filter(touches).filter(|own| own.counts).map(|own| own.item.clone()).collect();
        let newest = |subject: &String| {
            let own = self.own.iter().rev().find(|own| own.subjects.contains(subject))?;
            Some((subject.clone(), own.item.id))
        };
        OnSubjects { items, heads: subjects.iter().filter_map(newest).collect() }
    }
}

impl Own {
    fn of(receipt: &Receipt) -> Option<Self> {
        let Body::Decision(decision) = receipt.body() else { return None };
        let mention = Mention::of(decision)?;
        Some(Self {
            item: Item {
                action_class: mention.class.unwrap_or_default().to_owned(),
                index: None,
                issuer: receipt.issuer().clone(),
                seq: receipt.seq(),
                id: receipt.id(),
                session: mention.session.map(str::to_owned),
            },
            counts: mention.class.is_some(),
            subjects: mention.subjects.iter().map(|subject| (*subject).to_owned()).collect(),
        })
    }
}

/// Whether the stream that the log holds is the beginning of the outbox's.
fn is_of(outbox: &Outbox, state: &IssuerState) -> Result<bool, OutboxError> {
    let Some(last) = state.next_seq().0.checked_sub(1) else { return Ok(true) };
    Ok(outbox.receipt(SeqNo(last))?.is_some_and(|receipt| receipt.id() == state.head()))
}
