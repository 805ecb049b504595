//! What the outbox's lock guards: signing, chaining and acknowledging, each durable before it is answered.

use super::store::{Acknowledged, KeptHead, Store};
use super::{BodyFault, GateDescription, NewBody, OutboxError, disclosures};
use crate::proof::CheckedProof;
use note::{SigningKey, Strict};
use receipt::{
    Chain, Disclosure, IssuerState, Receipt, ReceiptId, SeqNo, UnixMillis, check_signature, find_credential, ijson,
    place,
};
use serde_json::{Map, Value, json};

#[derive(Debug)]
pub(super) struct Inner {
    pub(super) store: Store,
    pub(super) signer: Option<Signer>,
    /// The key of a hand-over whose receipt may or may not be on disk.
    pub(super) next_key: Option<SigningKey>,
    /// A write failed: what is on disk is unknown.
    pub(super) stopped: bool,
}

#[derive(Debug)]
pub(super) struct Signer {
    pub(super) key: SigningKey,
    pub(super) gate: GateDescription,
}

impl Inner {
    pub(super) fn append_all(&mut self, bodies: &[NewBody<'_>], now: UnixMillis) -> Result<Vec<Receipt>, OutboxError> {
        let Some(signer) = &self.signer else { return Err(OutboxError::NoKey) };
        let mut state = match self.store.state() {
            Some(state) => state.clone(),
            None => IssuerState::registered(signer.key.verifier()),
        };
        let mut receipts = Vec::with_capacity(bodies.len() + 1);
        let mut returned_from = 0;
        if state.next_seq() == SeqNo(0) && !bodies.first().is_some_and(|body| is_open(body.text)) {
            let receipt = sign(&mut state, &signer.open_body(), now, &signer.key)
                .map_err(|reason| OutboxError::Body { place: 0, of: 1, reason })?;
            receipts.push(receipt);
            returned_from = 1;
        }
        for (place, body) in bodies.iter().enumerate() {
            let receipt = sign(&mut state, body.text, now, &signer.key).map_err(|reason| OutboxError::Body {
                place,
                of: bodies.len(),
                reason,
            })?;
            receipts.push(receipt);
        }
        let opened: Vec<(SeqNo, &[Disclosure])> = receipts[returned_from..]
            .iter()
            .zip(bodies)
            .filter(|(_, body)| !body.disclosures.is_empty())
            .map(|(receipt, body)| (receipt.seq(), body.disclosures))
            .collect();
        if !receipts.is_empty() {
            self.write(|store| {
                for (seq, disclosures) in opened {
                    disclosures::write(&store.dir, seq, disclosures)?;
                }
                store.append_receipts(&receipts, state)
            })?;
        }
        Ok(receipts.split_off(returned_from))
    }

    pub(super) fn rotate(&mut self, new: SigningKey, now: UnixMillis) -> Result<Receipt, OutboxError> {
        if self.store.count() == 0 {
            self.append_all(&[], now)?;
        }
        let (Some(signer), Some(state)) = (&self.signer, self.store.state()) else { return Err(OutboxError::NoKey) };
        let body = |reason| OutboxError::Body { place: 0, of: 1, reason };
        let receipt = Chain::from(state).rotate(now, &signer.key, &new).map_err(|error| body(error.into()))?;
        let state = admitted(state, &receipt).map_err(body)?;
        self.next_key = Some(new);
        self.write(|store| store.append_receipts(std::slice::from_ref(&receipt), state))?;
        if let (Some(signer), Some(new)) = (&mut self.signer, self.next_key.take()) {
            signer.key = new;
        }
        Ok(receipt)
    }

    pub(super) fn reopen(&mut self) -> Result<(), OutboxError> {
        let store = self.store.open_again()?;
        // What was durable has to be there still: to sign its seqs again would be a second history.
        if let (Some(held), Some(last)) = (self.store.state(), self.store.count().checked_sub(1))
            && store.entry(last)?.is_none_or(|entry| ReceiptId::of(&entry) != held.head())
        {
            let reason =
                "the receipt that was signed last is not here any more: the file is an older copy or another one";
            return Err(OutboxError::damaged(&store.dir.join("receipts"), format!("at seq {last}"), reason));
        }
        if let (Some(signer), Some(state)) = (&mut self.signer, store.state()) {
            let held = state.keys().current();
            // A hand-over that failed while it was written is on disk after all, or it is not.
            if let Some(next) = self.next_key.take_if(|next| next.verifier() == *held) {
                signer.key = next;
            }
            if *held != signer.key.verifier() {
                let (held, given) = (held.to_string(), signer.key.verifier().to_string());
                return Err(OutboxError::OtherKey { dir: store.dir.clone(), held, given });
            }
        }
        self.next_key = None;
        self.store = store;
        self.stopped = false;
        Ok(())
    }

    pub(super) fn acknowledge(&mut self, proofs: &[(SeqNo, CheckedProof)]) -> Result<(), OutboxError> {
        let mut next = self.store.acknowledged_count();
        let mut newest: Option<KeptHead> = self.store.newest_head().cloned();
        let mut lines = Vec::with_capacity(proofs.len());
        for (seq, proof) in proofs {
            let refuse = |reason| OutboxError::Acknowledgement { seq: *seq, reason };
            let entry = self.store.entry(seq.0)?.ok_or_else(|| refuse("there is no such receipt in the outbox"))?;
            if proof.leaf() != merkle::leaf_hash(&entry) {
                return Err(refuse("the proof is another receipt's"));
            }
            match self.store.log() {
                None => return Err(OutboxError::NoLog(self.store.dir.clone())),
                Some(log) if log.vkey != *proof.log_key() => return Err(refuse("the proof is another log's")),
                Some(_) => {}
            }
            if seq.0 > next {
                return Err(refuse("an earlier receipt is not acknowledged yet"));
            }
            next = next.max(seq.0 + 1);
            let head = proof.checkpoint().checkpoint();
            if let Some(held) = newest.as_ref().filter(|held| held.size == head.size && held.root != head.root) {
                let offered = proof.checkpoint().note().to_string();
                return Err(OutboxError::LogFork { size: head.size, held: held.checkpoint.clone(), offered });
            }
            if newest.as_ref().is_none_or(|held| held.size != head.size) {
                let checkpoint = proof.checkpoint().note().to_string();
                newest = Some(KeptHead { size: head.size, root: head.root, checkpoint });
            }
            lines.push(Acknowledged { seq: seq.0, index: proof.index().0, proof: proof.text().to_owned() });
        }
        if lines.is_empty() { Ok(()) } else { self.write(|store| store.append_acknowledged(&lines, newest)) }
    }

    /// Writes; after an error nothing more is written by this process.
    pub(super) fn write(
        &mut self,
        write: impl FnOnce(&mut Store) -> Result<(), OutboxError>,
    ) -> Result<(), OutboxError> {
        let written = write(&mut self.store);
        self.stopped = written.is_err();
        written
    }
}

impl Signer {
    fn open_body(&self) -> String {
        let mut body = Map::new();
        body.insert("type".into(), json!("open"));
        body.insert("vkey".into(), json!(self.key.verifier().to_string()));
        let GateDescription { gate, heartbeat_ms, policy_digest } = &self.gate;
        body.extend(gate.as_ref().map(|gate| ("gate".to_owned(), json!(gate))));
        body.extend(heartbeat_ms.map(|heartbeat_ms| ("heartbeat_ms".to_owned(), json!(heartbeat_ms))));
        body.extend(policy_digest.as_ref().map(|digest| ("policy_digest".to_owned(), json!(digest.to_string()))));
        Value::Object(body).to_string()
    }
}

/// Signs the receipt that continues `state`, and moves it on. Looks for credentials before anything is signed.
fn sign(state: &mut IssuerState, body: &str, now: UnixMillis, key: &SigningKey) -> Result<Receipt, BodyFault> {
    let members = ijson::parse_object(body)?;
    if let Some(found) = find_credential(&members) {
        return Err(BodyFault::Credential(found));
    }
    let receipt = Chain::from(&*state).next_text(body, now).sign(key)?;
    *state = admitted(state, &receipt)?;
    Ok(receipt)
}

/// The state after `receipt`, by the rule that the log will apply: what it would refuse is never written.
fn admitted(state: &IssuerState, receipt: &Receipt) -> Result<IssuerState, BodyFault> {
    let checked = check_signature(receipt, state, &Strict).map_err(BodyFault::Rule)?;
    Ok(place(state, checked, &|_| None, None).map_err(BodyFault::Rule)?.state)
}

pub(super) fn is_open(body: &str) -> bool {
    ijson::parse_object(body).is_ok_and(|members| members.get("type") == Some(&json!("open")))
}
