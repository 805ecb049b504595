//! What is done to a receipt before it queues for the committer: everything expensive, in any order, on all cores.
//!
//! Parsing, the issuer's standing, the signature, and the search for credentials. Whoever has no key of a listed
//! issuer gets no further than this, so keyless traffic costs neither disk nor a place in the queue.
//!
//! What was found to look like a credential is only noted here: it counts against a receipt that would otherwise be
//! placed, and that the committer alone can say. So one receipt gets one code, alone or in a batch, and a fork is a fork
//! whatever its body holds.

use crate::refusal::NotTaken;
use crate::registry::Registry;
use rayon::iter::{IntoParallelRefIterator, ParallelIterator};
use rayon::{ThreadPool, ThreadPoolBuildError, ThreadPoolBuilder};
use receipt::{
    Checked, CredentialFound, IssuerName, IssuerState, Receipt, Refusal, check_signature, find_credential_in,
};
use std::collections::HashSet;
use std::sync::Arc;
use tokio::sync::{Semaphore, oneshot};

/// Single receipts being vetted or queued for it. One takes about 0.1 ms of one core: a full queue is worth 0.1 s on
/// one core, after which a submitter would rather be told.
const AT_ONCE: usize = 1024;

/// A receipt, vetted.
#[derive(Clone, Debug)]
pub enum Vetted {
    /// It goes to the committer, which settles the rest of section 4.
    Checked {
        /// The receipt.
        checked: Box<Checked>,
        /// What in it looks like a credential: then it is not taken even if it could be placed.
        credential: Option<CredentialFound>,
    },
    /// It goes no further.
    NotTaken {
        /// Why.
        reason: NotTaken,
        /// Whose it says it is, if it says.
        issuer: Option<IssuerName>,
    },
}

impl Vetted {
    /// Whose it is, or says it is.
    pub fn issuer(&self) -> Option<&IssuerName> {
        match self {
            Self::Checked { checked, .. } => Some(checked.receipt().issuer()),
            Self::NotTaken { issuer, .. } => issuer.as_ref(),
        }
    }
}

/// Vets the entry of a submission of one, which is judged as if it had come before anything that is still queued: a
/// bad signature is final. (A gate that pipelines receipts behind a rotation sends them as a batch.)
pub fn vet_alone(entry: &[u8], registry: &Registry) -> Vetted {
    match vet(entry, registry, &BatchSoFar::default()) {
        Vetted::Checked { checked, .. } if !is_signed(&checked, registry) => bad_signature(&checked, registry),
        vetted => vetted,
    }
}

/// What is known of a batch whose first entries were vetted: enough not to compute signatures that cannot matter any more.
///
/// In a batch it depends on the rotations before a receipt under which key it should be good. But where no new rotation of
/// its issuer comes before it, a bad signature is final, and it stops the issuer: of what follows, the committer would
/// look at nothing. So whoever has no key pays for a few hundred checks a batch, and not for forty thousand.
#[derive(Clone, Debug, Default)]
pub struct BatchSoFar {
    stopped: HashSet<IssuerName>,
    rotated: HashSet<IssuerName>,
}

impl BatchSoFar {
    /// Vets the next entries of the batch, in any order; [`BatchSoFar::settle`] then takes them in.
    pub fn vet(&self, entry: &[u8], registry: &Registry) -> Vetted {
        vet(entry, registry, self)
    }

    /// Takes in what was vetted, in the batch's order: what is settled is said to be.
    pub fn settle(&mut self, vetted: Vetted, registry: &Registry) -> Vetted {
        let vetted = match vetted {
            Vetted::Checked { checked, .. }
                if !is_signed(&checked, registry) && !self.rotated.contains(checked.receipt().issuer()) =>
            {
                bad_signature(&checked, registry)
            }
            vetted => vetted,
        };
        match &vetted {
            Vetted::NotTaken { issuer: Some(issuer), .. } => _ = self.stopped.insert(issuer.clone()),
            Vetted::Checked { checked, .. } if is_new_rotation(checked, registry) => {
                self.rotated.insert(checked.receipt().issuer().clone());
            }
            Vetted::NotTaken { .. } | Vetted::Checked { .. } => {}
        }
        vetted
    }
}

fn vet(entry: &[u8], registry: &Registry, so_far: &BatchSoFar) -> Vetted {
    let (receipt, credential) = match Receipt::parse_inspecting(entry, find_credential_in) {
        Ok(parsed) => parsed,
        Err(malformed) => return Vetted::NotTaken { reason: Refusal::from(malformed).into(), issuer: None },
    };
    let not_taken =
        |reason: Refusal| Vetted::NotTaken { reason: reason.into(), issuer: Some(receipt.issuer().clone()) };
    let Some(state) = registry.submitter(receipt.issuer()) else { return not_taken(Refusal::unknown_issuer(&receipt)) };
    if so_far.stopped.contains(receipt.issuer()) {
        return not_taken(Refusal::bad_signature(&receipt, &state));
    }
    match check_signature(&receipt, &state, registry.key_tables()) {
        Ok(checked) => Vetted::Checked { credential, checked: Box::new(checked) },
        Err(refusal) => not_taken(refusal),
    }
}

/// Whether the signature is good under the key that is in force as far as the log goes now.
fn is_signed(checked: &Checked, registry: &Registry) -> bool {
    registry.submitter(checked.receipt().issuer()).is_some_and(|state| checked.is_signed_for(&state))
}

fn is_new_rotation(checked: &Checked, registry: &Registry) -> bool {
    let receipt = checked.receipt();
    let is_new = |state: Arc<IssuerState>| receipt.seq() >= state.next_seq() && checked.is_signed_for(&state);
    receipt.is_rotation() && registry.submitter(receipt.issuer()).is_some_and(is_new)
}

fn bad_signature(checked: &Checked, registry: &Registry) -> Vetted {
    let receipt = checked.receipt();
    let reason = match registry.submitter(receipt.issuer()) {
        Some(state) => Refusal::bad_signature(receipt, &state),
        None => Refusal::unknown_issuer(receipt),
    };
    Vetted::NotTaken { reason: reason.into(), issuer: Some(receipt.issuer().clone()) }
}

/// The cores, shared by all who vet.
#[derive(Debug)]
pub struct VettingPool {
    pool: Arc<ThreadPool>,
    places: Arc<Semaphore>,
}

impl VettingPool {
    /// One thread a core.
    ///
    /// # Errors
    /// The system gives no threads.
    pub fn new() -> Result<Self, ThreadPoolBuildError> {
        let pool = ThreadPoolBuilder::new().thread_name(|number| format!("vetting-{number}")).build()?;
        Ok(Self { pool: Arc::new(pool), places: Arc::new(Semaphore::new(AT_ONCE)) })
    }

    /// Has one of the cores do `work`. False, and it is not done, if too much waits for them already.
    pub fn spawn(&self, work: impl FnOnce() + Send + 'static) -> bool {
        let Ok(place) = Arc::clone(&self.places).try_acquire_owned() else { return false };
        self.pool.spawn(move || {
            work();
            drop(place);
        });
        true
    }

    /// Runs `work` over `items` on all cores, in their order. `None` if too much waits for them already.
    pub async fn map<I, T>(&self, items: Vec<I>, work: impl Fn(&I) -> T + Send + Sync + 'static) -> Option<Vec<T>>
    where
        I: Send + Sync + 'static,
        T: Send + 'static,
    {
        let (done, result) = oneshot::channel();
        let is_taken = self.spawn(move || _ = done.send(items.par_iter().map(work).collect()));
        // An error of the channel is a panic in `work`, which answers nothing and promises nothing.
        if is_taken { result.await.ok() } else { None }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;
    use note::{KeyKind, KeyName, SigningKey};
    use receipt::{Chain, SeqNo, UnixMillis};

    const NOW: UnixMillis = UnixMillis(1_800_000_000_000);
    const BODY: &str = r#"{"type":"heartbeat"}"#;

    fn key(seed: u8) -> SigningKey {
        SigningKey::from_seed(KeyName::new("gate").unwrap(), KeyKind::Ed25519, [seed; 32])
    }

    fn listed(key: &SigningKey) -> Registry {
        let registry = Registry::default();
        registry.list(&[key.verifier()]);
        registry
    }

    fn vet_all(entries: &[&Receipt], registry: &Registry, piece: usize) -> Vec<Vetted> {
        let (mut so_far, mut all) = (BatchSoFar::default(), Vec::new());
        for piece in entries.chunks(piece) {
            let vetted: Vec<Vetted> = piece.iter().map(|one| so_far.vet(one.bytes(), registry)).collect();
            all.extend(vetted.into_iter().map(|one| so_far.settle(one, registry)));
        }
        all
    }

    fn goes_on(vetted: &[Vetted]) -> Vec<bool> {
        vetted.iter().map(|one| matches!(one, Vetted::Checked { .. })).collect()
    }

    /// Four connections with batches of forty thousand forged receipts made honest batches wait for seconds.
    #[test]
    fn after_a_bad_signature_no_more_signatures_of_that_issuer_are_computed() {
        let (gate, impostor) = (key(1), key(2));
        let registry = listed(&gate);
        let mut chain = Chain::new(IssuerName::new("gate").unwrap());
        let forged: Vec<Receipt> = std::iter::once(chain.open(NOW, &impostor).unwrap())
            .chain((0..99).map(|_| chain.append(BODY, NOW, &impostor).unwrap()))
            .collect();
        let vetted = vet_all(&forged.iter().collect::<Vec<_>>(), &registry, 10);
        assert_eq!(goes_on(&vetted), [false; 100]);
        // A key that is checked sixteen times is prepared: this one was not, for only the first ten were computed.
        assert!(!registry.key_tables().is_prepared(&gate.verifier()));
    }

    #[test]
    fn behind_a_new_rotation_a_signature_is_left_to_the_committer() {
        let (gate, next) = (key(1), key(2));
        let registry = listed(&gate);
        let mut chain = Chain::new(IssuerName::new("gate").unwrap());
        let open = chain.open(NOW, &gate).unwrap();
        let rotate = chain.rotate(NOW, &gate, &next).unwrap();
        let after = Chain::after(&rotate).unwrap().append(BODY, NOW, &next).unwrap();
        assert_eq!(goes_on(&vet_all(&[&open, &rotate, &after], &registry, 1)), [true; 3]);
        assert_eq!(goes_on(&vet_all(&[&after], &registry, 1)), [false]);
        // The rotation must be the issuer's.
        let (mut forged, thief) = (Chain::new(IssuerName::new("gate").unwrap()), key(3));
        let forged_open = forged.open(NOW, &thief).unwrap();
        let forged_rotate = forged.rotate(NOW, &thief, &next).unwrap();
        assert_eq!(goes_on(&vet_all(&[&forged_rotate, &after], &registry, 1)), [false; 2]);
        assert_eq!((forged_open.seq(), forged_rotate.seq()), (SeqNo(0), SeqNo(1)));
    }
}
