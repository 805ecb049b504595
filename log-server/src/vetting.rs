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
use receipt::{Checked, CredentialFound, IssuerName, Receipt, Refusal, check_signature};
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
    vet(entry, registry, true)
}

/// Vets one entry of a batch, except for a signature that is merely bad: under which key it should be good depends on
/// the rotations before it, and only the committer has seen all of those.
pub fn vet_in_batch(entry: &[u8], registry: &Registry) -> Vetted {
    vet(entry, registry, false)
}

fn vet(entry: &[u8], registry: &Registry, signature_is_final: bool) -> Vetted {
    let receipt = match Receipt::parse(entry) {
        Ok(receipt) => receipt,
        Err(malformed) => return Vetted::NotTaken { reason: Refusal::from(malformed).into(), issuer: None },
    };
    let not_taken =
        |reason: Refusal| Vetted::NotTaken { reason: reason.into(), issuer: Some(receipt.issuer().clone()) };
    let Some(state) = registry.submitter(receipt.issuer()) else { return not_taken(Refusal::unknown_issuer(&receipt)) };
    match check_signature(&receipt, &state, registry.key_tables()) {
        Ok(checked) if signature_is_final && !checked.is_signed_for(&state) => {
            not_taken(Refusal::bad_signature(&receipt, &state))
        }
        Ok(checked) => Vetted::Checked { credential: receipt.credential(), checked: Box::new(checked) },
        Err(refusal) => not_taken(refusal),
    }
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
