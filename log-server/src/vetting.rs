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
use receipt::{Checked, CredentialFound, IssuerName, Receipt, Refusal, RefusalCode, check_signature, place};
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

/// Vets the entry of a submission of one, which is judged as if it had come before anything that is still queued: a
/// bad signature is final. (A gate that pipelines receipts behind a rotation sends them as a batch.)
pub fn vet_alone(entry: &[u8], registry: &Registry) -> Vetted {
    vet(entry, registry, |checked| keyless(checked, registry).map(NotTaken::from))
}

/// Vets one entry of a batch, except for a signature that is merely bad: under which key it should be good depends on
/// the rotations before it, and only the committer has seen all of those.
pub fn vet_in_batch(entry: &[u8], registry: &Registry) -> Vetted {
    vet(entry, registry, |_| None)
}

fn vet(entry: &[u8], registry: &Registry, settle_signature: impl Fn(&Checked) -> Option<NotTaken>) -> Vetted {
    let receipt = match Receipt::parse(entry) {
        Ok(receipt) => receipt,
        Err(malformed) => return Vetted::NotTaken { reason: Refusal::from(malformed).into(), issuer: None },
    };
    let not_taken = |reason| Vetted::NotTaken { reason, issuer: Some(receipt.issuer().clone()) };
    let checked = match registry.submitter(receipt.issuer()) {
        Some(state) => check_signature(&receipt, &state, registry.key_tables()),
        None => Err(Refusal::unknown_issuer(&receipt)),
    };
    let checked = match checked {
        Ok(checked) => checked,
        Err(refusal) => return not_taken(refusal.into()),
    };
    match settle_signature(&checked) {
        Some(reason) => not_taken(reason),
        None => Vetted::Checked { credential: receipt.credential(), checked: Box::new(checked) },
    }
}

/// The refusal of a receipt that nobody with the issuer's key has signed.
fn keyless(checked: &Checked, registry: &Registry) -> Option<Refusal> {
    let Some(state) = registry.submitter(checked.receipt().issuer()) else {
        return Some(Refusal::unknown_issuer(checked.receipt()));
    };
    let placed = place(&state, checked.clone(), &|_| None, None);
    placed.err().filter(|refusal| matches!(refusal.code, RefusalCode::UnknownIssuer | RefusalCode::BadSignature))
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

    /// Runs `work` on one of the cores. `None` if too much waits for them already.
    pub async fn run<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
        let place = Arc::clone(&self.places).try_acquire_owned().ok()?;
        let (done, result) = oneshot::channel();
        self.pool.spawn(move || {
            let _gone = done.send(work());
            drop(place);
        });
        // An error here is a panic in `work`, which answers nothing and promises nothing.
        result.await.ok()
    }

    /// Runs `work` over `items` on all cores, in their order. `None` as for [`VettingPool::run`].
    pub async fn map<I, T>(&self, items: Vec<I>, work: impl Fn(&I) -> T + Send + Sync + 'static) -> Option<Vec<T>>
    where
        I: Send + Sync + 'static,
        T: Send + 'static,
    {
        self.run(move || items.par_iter().map(work).collect()).await
    }
}
