//! A gate's own end of its stream: what the next receipt must say of the one before.
//!
//! Holds four values and signs; keeps nothing on disk. Whoever appends must make a receipt durable
//! before anything else learns of it, or a restart signs a second history.

use crate::id::{IssuerName, ReceiptId, SeqNo, UnixMillis};
use crate::issuer::IssuerState;
use crate::receipt::{Receipt, ReceiptText, SignError};
use note::SigningKey;
use serde_json::json;

/// Where an issuer's stream ends, and what continues it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chain {
    issuer: IssuerName,
    next_seq: SeqNo,
    head: ReceiptId,
    last_issued_at: UnixMillis,
}

impl Chain {
    /// A stream without receipts.
    pub fn new(issuer: IssuerName) -> Self {
        Self { issuer, next_seq: SeqNo(0), head: ReceiptId::NONE, last_issued_at: UnixMillis(0) }
    }

    /// The stream that ends with `receipt`, or `None` where no number follows its own.
    pub fn after(receipt: &Receipt) -> Option<Self> {
        let next_seq = receipt.seq().next()?;
        Some(Self {
            issuer: receipt.issuer().clone(),
            next_seq,
            head: receipt.id(),
            last_issued_at: receipt.issued_at(),
        })
    }

    /// The issuer.
    pub fn issuer(&self) -> &IssuerName {
        &self.issuer
    }

    /// The number the next receipt will bear.
    pub fn next_seq(&self) -> SeqNo {
        self.next_seq
    }

    /// The id of the last receipt; [`ReceiptId::NONE`] before the first.
    pub fn head(&self) -> ReceiptId {
        self.head
    }

    /// The time of the last receipt; 0 before the first.
    pub fn last_issued_at(&self) -> UnixMillis {
        self.last_issued_at
    }

    /// The text that continues the stream with `body`, unsigned.
    ///
    /// Receipts never go back in time: where the clock has stepped back behind the last receipt, the
    /// last receipt's time stands again.
    pub fn next_text(&self, body: impl Into<String>, issued_at: UnixMillis) -> ReceiptText {
        ReceiptText {
            issuer: self.issuer.clone(),
            seq: self.next_seq,
            prev: self.head,
            issued_at: issued_at.max(self.last_issued_at),
            body: body.into(),
        }
    }

    /// Signs the receipt that continues the stream with `body`, and moves on.
    ///
    /// # Errors
    /// [`SignError`]: `body` is no body, or the key not the issuer's. The chain is then as it was.
    pub fn append(
        &mut self,
        body: impl Into<String>,
        issued_at: UnixMillis,
        key: &SigningKey,
    ) -> Result<Receipt, SignError> {
        let receipt = self.next_text(body, issued_at).sign(key)?;
        self.move_past(&receipt);
        Ok(receipt)
    }

    /// As [`Chain::append`], with the shortest `open` there is; `open` with more members goes through
    /// [`Chain::append`].
    ///
    /// # Errors
    /// As [`Chain::append`].
    pub fn open(&mut self, issued_at: UnixMillis, key: &SigningKey) -> Result<Receipt, SignError> {
        self.append(json!({"type": "open", "vkey": key.verifier()}).to_string(), issued_at, key)
    }

    /// Signs the receipt that hands the stream over from `old` to `new`, and moves on.
    ///
    /// # Errors
    /// As [`Chain::append`].
    pub fn rotate(&mut self, issued_at: UnixMillis, old: &SigningKey, new: &SigningKey) -> Result<Receipt, SignError> {
        let body = json!({"type": "rotate", "vkey": new.verifier()}).to_string();
        let receipt = self.next_text(body, issued_at).sign_rotation(old, new)?;
        self.move_past(&receipt);
        Ok(receipt)
    }

    fn move_past(&mut self, receipt: &Receipt) {
        if let Some(moved) = Self::after(receipt) {
            *self = moved;
        }
    }
}

impl From<&IssuerState> for Chain {
    /// The end of the stream as a log knows it. A gate may have signed more.
    fn from(state: &IssuerState) -> Self {
        Self {
            issuer: state.name().clone(),
            next_seq: state.next_seq(),
            head: state.head(),
            last_issued_at: state.last_issued_at(),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;
    use crate::sample::{Held, START, decision_body, key, name};

    #[test]
    fn what_a_chain_appends_a_log_admits() {
        let (mut chain, mut held) = (Chain::new(name()), Held::nothing());
        let (first, second) = (key(0), key(1));
        let receipts = [
            chain.open(UnixMillis(START), &first).unwrap(),
            chain.append(decision_body(1), UnixMillis(START + 5), &first).unwrap(),
            chain.rotate(UnixMillis(START + 5), &first, &second).unwrap(),
            chain.append(decision_body(2), UnixMillis(START + 6), &second).unwrap(),
            chain.append(r#"{"type":"close"}"#, UnixMillis(START + 7), &second).unwrap(),
        ];
        for (seq, receipt) in receipts.iter().enumerate() {
            assert_eq!(receipt.seq(), SeqNo(seq as u64));
            held.offer(receipt.bytes(), None).unwrap();
        }
        assert!(held.state.is_closed());
        assert_eq!(Chain::from(&held.state), chain);
        assert_eq!(Chain::after(&receipts[4]), Some(chain));
    }

    #[test]
    fn a_clock_that_steps_back_does_not_take_the_chain_with_it() {
        let mut chain = Chain::new(name());
        chain.open(UnixMillis(START), &key(0)).unwrap();
        let receipt = chain.append(decision_body(1), UnixMillis(START - 1000), &key(0)).unwrap();
        assert_eq!(receipt.issued_at(), UnixMillis(START));
    }

    #[test]
    fn a_refused_body_leaves_the_chain_as_it_was() {
        let mut chain = Chain::new(name());
        chain.open(UnixMillis(START), &key(0)).unwrap();
        let before = chain.clone();
        assert!(chain.append("no json", UnixMillis(START), &key(0)).is_err());
        assert!(chain.append(r#"{"type":"rotate"}"#, UnixMillis(START), &key(0)).is_err());
        assert!(chain.rotate(UnixMillis(START), &key(0), &key(0)).is_err());
        assert_eq!(chain, before);
    }
}
