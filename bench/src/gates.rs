//! Gates that sign ahead: receipts of one size, made over all cores before any clock starts.

use crate::failure::Failure;
use note::{KeyKind, KeyName, SigningKey};
use rayon::prelude::*;
use receipt::{Chain, IssuerName, Receipt, UnixMillis};
use std::time::SystemTime;

/// Bytes of every receipt but an issuer's first: the entry size of the measurements that the bars come from.
pub(crate) const ENTRY_BYTES: usize = 700;

/// An issuer and the end of its stream.
pub(crate) struct Gate {
    key: SigningKey,
    chain: Chain,
    /// Bytes of a receipt that are neither its body nor the digits of its number; known once the first is signed.
    frame: usize,
}

impl Gate {
    /// The gate of that number, always with the same key, without receipts.
    pub(crate) fn new(number: usize) -> Result<Gate, Failure> {
        let name = KeyName::new(&format!("gate.example/bench-{number:04}")).map_err(Failure::unexpected)?;
        let mut seed = [0; 32];
        seed[..8].copy_from_slice(&(number as u64 + 1).to_be_bytes());
        let key = SigningKey::from_seed(name.clone(), KeyKind::Ed25519, seed);
        Ok(Gate { key, chain: Chain::new(IssuerName(name)), frame: 0 })
    }

    /// What the log's operator is given.
    pub(crate) fn vkey(&self) -> String {
        self.key.verifier().to_string()
    }

    /// Its name.
    pub(crate) fn name(&self) -> &str {
        self.key.name().as_str()
    }

    /// How many receipts it has signed.
    pub(crate) fn receipts(&self) -> u64 {
        self.chain.next_seq().0
    }

    /// Signs the receipt that comes next.
    pub(crate) fn next(&mut self) -> Result<Receipt, Failure> {
        let at = now();
        let seq = self.chain.next_seq().0;
        if seq == 0 {
            let receipt = self.chain.open(at, &self.key).map_err(Failure::unexpected)?;
            self.frame = receipt.bytes().len() - receipt.body_text().len() - 1;
            return Ok(receipt);
        }
        let body = decision(seq, ENTRY_BYTES - self.frame - seq.to_string().len());
        self.chain.append(body, at, &self.key).map_err(Failure::unexpected)
    }
}

/// The next `each` receipts of every gate, signed over all cores.
pub(crate) fn sign_ahead(gates: &mut [Gate], each: usize) -> Result<Vec<Vec<Receipt>>, Failure> {
    gates.par_iter_mut().map(|gate| (0..each).map(|_| gate.next()).collect()).collect()
}

/// A decision of so many bytes.
fn decision(seq: u64, bytes: usize) -> String {
    let (head, tail) = (
        format!(
            r#"{{"type":"decision","request_id":"r-{seq}","decision":"allow","authenticated":true,"executes":"gate","why":""#
        ),
        r#""}"#,
    );
    let padding = bytes.saturating_sub(head.len() + tail.len());
    format!("{head}{:x<padding$}{tail}", "")
}

fn now() -> UnixMillis {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    UnixMillis(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;

    #[test]
    fn every_receipt_after_the_first_has_the_size_that_the_figures_are_for() {
        let mut gates = vec![Gate::new(0).unwrap(), Gate::new(1023).unwrap()];
        for receipts in sign_ahead(&mut gates, 120).unwrap() {
            assert!(receipts[1..].iter().all(|receipt| receipt.bytes().len() == ENTRY_BYTES));
        }
    }
}
