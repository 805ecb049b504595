//! Gates whose receipts fill a liar's histories, so that the whole path can be run on them: each history is admissible by
//! itself, and only the two together show the lie.

use note::{KeyKind, KeyName, SigningKey, VerifierKey};
use receipt::{Chain, IssuerName, SignError, UnixMillis};
use std::sync::Arc;

/// Some gates that take turns. A clone goes on where the original was: what a branch of a history needs.
#[derive(Clone)]
pub struct Gates {
    gates: Vec<(Arc<SigningKey>, Chain)>,
    turn: usize,
    now: UnixMillis,
}

impl Gates {
    /// So many gates, with keys by their numbers, whose first receipt is of `now`, and each further one of a millisecond
    /// later.
    ///
    /// # Errors
    /// Never for fewer gates than there are numbers of six digits.
    pub fn new(count: u8, now: UnixMillis) -> Result<Gates, note::NameError> {
        let gate = |number: u8| {
            let name = KeyName::new(&format!("gate.example/lied-to-{number}"))?;
            let key = SigningKey::from_seed(name.clone(), KeyKind::Ed25519, [number; 32]);
            Ok((Arc::new(key), Chain::new(IssuerName(name))))
        };
        Ok(Gates { gates: (1..=count).map(gate).collect::<Result<_, _>>()?, turn: 0, now })
    }

    /// The keys that a log's operator is given.
    pub fn keys(&self) -> Vec<VerifierKey> {
        self.gates.iter().map(|(key, _)| key.verifier()).collect()
    }

    /// Leaves out the gate whose turn it is: the history lacks what it would have said.
    pub fn skip(&mut self) {
        self.turn += 1;
    }

    /// The next receipt of the gate whose turn it is, as the log's entry: an `open` first, then decisions.
    ///
    /// # Errors
    /// When the receipt cannot be signed.
    pub fn entry(&mut self) -> Result<Vec<u8>, SignError> {
        let turn = self.turn % self.gates.len().max(1);
        let (key, chain) = &mut self.gates[turn];
        self.turn += 1;
        self.now.0 += 1;
        let seq = chain.next_seq().0;
        let receipt = if seq == 0 {
            chain.open(self.now, key)?
        } else {
            let body = format!(
                r#"{{"type":"decision","request_id":"r-{seq}","decision":"allow","authenticated":true,"executes":"gate"}}"#
            );
            chain.append(body, self.now, key)?
        };
        Ok(receipt.bytes().to_vec())
    }
}
