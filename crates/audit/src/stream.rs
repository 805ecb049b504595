//! One issuer's stream as an audit follows it through a log: admission's state, and where each receipt is.
//!
//! The state is the one that `receipt::admit` keeps. An auditor, unlike a log, must go on after a refusal, or one
//! missing receipt would hide everything behind it: [`Stream::resume_after`] takes a refused but genuine receipt as
//! the new end of the stream.

use crate::issuers::AuditedIssuer;
use crate::trace::IssuerTrace;
use crate::verdict::{CheckBuilder, Family, ReceiptRef};
use merkle::LeafIndex;
use receipt::{IssuerState, Receipt, ReceiptId, SeqNo, UnixMillis};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;

/// An issuer that the auditor cares about, followed through a log.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Stream {
    pub(crate) audited: AuditedIssuer,
    pub(crate) name: Arc<str>,
    pub(crate) state: IssuerState,
    pub(crate) check: CheckBuilder,
    pub(crate) held: Held,
    pub(crate) trace: IssuerTrace,
    pub(crate) receipts: u64,
    /// The latest genuine receipt in the order of the log, and when it was issued.
    pub(crate) last: Option<(ReceiptRef, UnixMillis)>,
    /// The longest silence allowed, in milliseconds: the auditor's word, else the issuer's own in its `open`.
    pub(crate) heartbeat_ms: Option<u64>,
}

impl Stream {
    pub(crate) fn new(audited: &AuditedIssuer) -> Stream {
        let name = audited.vkey.name().as_str();
        Stream {
            audited: audited.clone(),
            name: Arc::from(name),
            state: IssuerState::registered(audited.vkey.clone()),
            check: CheckBuilder::new(Family::Issuer, name),
            held: Held::default(),
            trace: IssuerTrace::default(),
            receipts: 0,
            last: None,
            heartbeat_ms: audited.heartbeat_ms,
        }
    }

    /// Reference to a receipt that is held.
    pub(crate) fn held_ref(&self, seq: SeqNo) -> Option<ReceiptRef> {
        let (id, index) = self.held.get(seq)?;
        Some(ReceiptRef::new(LeafIndex(index), &self.name, seq, id))
    }

    /// Takes a receipt whose signature is good as the end of the stream, though admission refused it there. Keys
    /// and a `close` stay what admission last found.
    pub(crate) fn resume_after(&mut self, receipt: &Receipt) {
        let Some(next) = receipt.seq().next() else { return };
        // The state's own text form is the one door by which a state is built from its parts; it checks them.
        let resumed = serde_json::to_value(&self.state).ok().and_then(|mut state| {
            state["next_seq"] = serde_json::to_value(next).ok()?;
            state["head"] = serde_json::to_value(receipt.id()).ok()?;
            state["last_issued_at"] = serde_json::to_value(receipt.issued_at()).ok()?;
            serde_json::from_value(state).ok()
        });
        if let Some(resumed) = resumed {
            self.state = resumed;
        }
    }
}

/// Receipt ids and log indices by seq: dense runs, because seqs are.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Held {
    /// By the first seq of each run.
    runs: BTreeMap<u64, Vec<(ReceiptId, u64)>>,
}

impl Held {
    pub(crate) fn get(&self, seq: SeqNo) -> Option<(ReceiptId, u64)> {
        let (first, run) = self.runs.range(..=seq.0).next_back()?;
        run.get(usize::try_from(seq.0 - first).ok()?).copied()
    }

    /// Adds a receipt at a seq where none is held.
    pub(crate) fn add(&mut self, seq: SeqNo, id: ReceiptId, index: LeafIndex) {
        let run = self.runs.range_mut(..=seq.0).next_back();
        match run.filter(|(first, run)| **first + run.len() as u64 == seq.0) {
            Some((_, run)) => run.push((id, index.0)),
            None => drop(self.runs.insert(seq.0, vec![(id, index.0)])),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;
    use merkle::Hash;

    fn id(byte: u8) -> ReceiptId {
        ReceiptId(Hash([byte; 32]))
    }

    #[test]
    fn receipts_are_found_by_seq_across_gaps() {
        let mut held = Held::default();
        for (seq, byte) in [(0, 1), (1, 2), (5, 6), (6, 7), (2, 3), (3, 4)] {
            assert_eq!(held.get(SeqNo(seq)), None, "{seq}");
            held.add(SeqNo(seq), id(byte), LeafIndex(u64::from(byte) * 10));
        }
        for seq in [0, 1, 2, 3, 5, 6] {
            assert_eq!(held.get(SeqNo(seq)), Some((id(seq as u8 + 1), (seq + 1) * 10)));
        }
        for seq in [4, 7, u64::MAX] {
            assert_eq!(held.get(SeqNo(seq)), None);
        }
    }
}
