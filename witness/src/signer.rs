//! The witness's keys, and what they say over a head: one line each, all for one time.
//!
//! Holds the signing. Does not hold when a head may be signed (`cosign`) nor when the signature may leave (`store`).

use crate::agent::{Agent, AgentError};
use note::{Cosignature, CosignatureError, KeyName, SigningKey, VerifierKey};
use std::sync::Arc;
use store::Sealed;
use tokio::sync::Semaphore;

/// Who cosigns.
#[derive(Debug)]
pub struct Signer {
    key: Key,
    verifier: VerifierKey,
    mldsa: Option<Arc<SigningKey>>,
    /// Turns at the agent.
    turns: Semaphore,
}

/// Questions to an agent under way: it answers one after the other, and each holds a thread meanwhile.
const AT_ONCE: usize = 4;

/// Where the private half of the key of type `0x04` is.
#[derive(Debug)]
enum Key {
    Here(Box<SigningKey>),
    Elsewhere(Arc<Agent>),
}

/// Why nothing is signed now.
#[derive(Debug, thiserror::Error)]
pub enum SignerError {
    /// A key does not sign what it must: keys and configuration do not fit together.
    #[error("{0}; check witness_key and mldsa_key")]
    Key(#[from] CosignatureError),
    /// The agent that holds the key.
    #[error(transparent)]
    Agent(#[from] AgentError),
    /// The work was interrupted.
    #[error("the signing was interrupted; the reason is in the lines above")]
    Interrupted,
}

/// A second key that cannot be this witness's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "the ML-DSA-44 key is named {found}, and the witness {witness}; both keys of a witness have its name, so check mldsa_key"
)]
pub struct OtherName {
    /// The witness's name.
    pub witness: KeyName,
    /// The key's.
    pub found: KeyName,
}

impl Signer {
    /// Cosigns with `key`, of type `0x04`.
    pub fn new(key: SigningKey) -> Signer {
        Signer { verifier: key.verifier(), key: Key::Here(Box::new(key)), mldsa: None, turns: Semaphore::new(AT_ONCE) }
    }

    /// Cosigns with a key that `agent` holds.
    pub fn in_agent(agent: Agent) -> Signer {
        let verifier = agent.vkey().clone();
        Signer { verifier, key: Key::Elsewhere(Arc::new(agent)), mldsa: None, turns: Semaphore::new(AT_ONCE) }
    }

    /// Cosigns with `key`, of type `0x06`, too.
    ///
    /// # Errors
    /// [`OtherName`].
    pub fn with_mldsa(self, key: SigningKey) -> Result<Signer, OtherName> {
        if key.name() != self.verifier.name() {
            return Err(OtherName { witness: self.verifier.name().clone(), found: key.name().clone() });
        }
        Ok(Signer { mldsa: Some(Arc::new(key)), ..self })
    }

    /// The key of type `0x06`, where there is one.
    pub fn mldsa(&self) -> Option<&Arc<SigningKey>> {
        self.mldsa.as_ref()
    }

    /// The witness's vkey.
    pub fn verifier(&self) -> &VerifierKey {
        &self.verifier
    }

    /// Cosigns a checkpoint's `text`, with each key that there is, at `timestamp_s`. Sealed: what is durable decides when the
    /// lines may leave.
    ///
    /// # Errors
    /// [`SignerError`].
    pub async fn cosign(&self, text: &str, timestamp_s: u64) -> Result<Sealed<Vec<Cosignature>>, SignerError> {
        let mut lines = vec![match &self.key {
            Key::Here(key) => note::cosign(text, key, timestamp_s)?,
            Key::Elsewhere(agent) => {
                // An agent answers one at a time; who waits for it must not wait on a thread that others need.
                let _turn = self.turns.acquire().await.map_err(|_| SignerError::Interrupted)?;
                let (agent, text) = (Arc::clone(agent), text.to_owned());
                let asked = tokio::task::spawn_blocking(move || agent.cosign(&text, timestamp_s)).await;
                asked.map_err(|_| SignerError::Interrupted)??
            }
        }];
        if let Some(key) = self.mldsa.clone() {
            // Half a millisecond and now and then several: not on the threads that answer everybody.
            let text = text.to_owned();
            let signed = tokio::task::spawn_blocking(move || note::cosign(&text, &key, timestamp_s)).await;
            lines.push(signed.map_err(|_| SignerError::Interrupted)??);
        }
        Ok(Sealed::new(lines))
    }
}
