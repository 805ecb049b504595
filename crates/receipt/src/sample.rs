//! What the tests of this crate share: one issuer, its keys, and a first few receipts.

#![allow(clippy::unwrap_used, clippy::panic)]

use crate::admit::{Refusal, admit};
use crate::id::{IssuerName, ReceiptId, SeqNo, UnixMillis};
use crate::issuer::IssuerState;
use crate::receipt::{Receipt, ReceiptText};
use note::{KeyKind, KeyName, SigningKey, sign_note};
use serde_json::json;

/// The issuer's name.
pub(crate) const NAME: &str = "gate.example/support-1";

/// When its stream begins.
pub(crate) const START: u64 = 1_790_000_000_000;

pub(crate) fn name() -> IssuerName {
    IssuerName::new(NAME).unwrap()
}

/// The issuer's key number `number`. The first is 0.
pub(crate) fn key(number: u8) -> SigningKey {
    named_key(NAME, number)
}

pub(crate) fn named_key(name: &str, number: u8) -> SigningKey {
    let seed: [u8; 32] = std::array::from_fn(|place| number * 32 + place as u8);
    SigningKey::from_seed(KeyName::new(name).unwrap(), KeyKind::Ed25519, seed)
}

/// The issuer as registered, without receipts.
pub(crate) fn registered() -> IssuerState {
    IssuerState::registered(key(0).verifier())
}

pub(crate) fn decision_body(request: u64) -> String {
    json!({"type": "decision", "request_id": format!("r-{request}"), "decision": "allow", "authenticated": true, "executes": "gate"})
        .to_string()
}

/// A text at any place of the issuer's stream, signed by `keys` without any of the checks of `ReceiptText::sign`.
pub(crate) fn signed(seq: u64, prev: ReceiptId, issued_at: u64, body: &str, keys: &[&SigningKey]) -> Receipt {
    let text =
        ReceiptText { issuer: name(), seq: SeqNo(seq), prev, issued_at: UnixMillis(issued_at), body: body.to_owned() };
    Receipt::parse(&sign_note(&text.to_string(), keys).unwrap()).unwrap()
}

/// What a log holds of the issuer: its receipts, and its state by [`admit`].
#[derive(Clone, Debug)]
pub(crate) struct Held {
    pub(crate) state: IssuerState,
    pub(crate) receipts: Vec<Receipt>,
}

impl Held {
    pub(crate) fn nothing() -> Self {
        Self { state: registered(), receipts: Vec::new() }
    }

    /// `open` and then decisions: `count` receipts.
    pub(crate) fn receipts(count: u64) -> Self {
        let mut held = Self::nothing();
        held.add_next(&json!({"type": "open", "vkey": key(0).verifier()}).to_string(), &[&key(0)]);
        for seq in 1..count {
            held.add_next(&decision_body(seq), &[&key(0)]);
        }
        held
    }

    /// The receipt that continues the stream a millisecond later, not yet admitted.
    pub(crate) fn next(&self, body: &str, keys: &[&SigningKey]) -> Receipt {
        let seq = self.state.next_seq().0;
        signed(seq, self.state.head(), START + seq, body, keys)
    }

    pub(crate) fn add_next(&mut self, body: &str, keys: &[&SigningKey]) {
        let next = self.next(body, keys);
        self.offer(next.bytes(), None).unwrap();
    }

    /// Admits and keeps, as a log does.
    pub(crate) fn offer(&mut self, entry: &[u8], now: Option<UnixMillis>) -> Result<(), Refusal> {
        let admitted = self.judge(entry, now)?;
        self.state = admitted.state;
        self.receipts.push(admitted.receipt);
        Ok(())
    }

    pub(crate) fn judge(&self, entry: &[u8], now: Option<UnixMillis>) -> Result<crate::admit::Admitted, Refusal> {
        admit(Some(&self.state), entry, &|seq| self.id_at(seq), now)
    }

    pub(crate) fn id_at(&self, seq: SeqNo) -> Option<ReceiptId> {
        self.receipts.get(usize::try_from(seq.0).unwrap()).map(Receipt::id)
    }
}

/// A `rotate` body that names the key `number`.
pub(crate) fn rotate_body(number: u8) -> String {
    json!({"type": "rotate", "vkey": key(number).verifier()}).to_string()
}
