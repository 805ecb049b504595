//! A log from its parts to its end: opens, asks its witnesses whether it is the newest copy of itself, serves, drains,
//! stops. Starting and stopping are all there is here; what happens in between is the other modules'.

use crate::admin::{AdminToken, ChangeError, IssuerList};
use crate::clock::Clock;
use crate::committer::{Command, Committer, ListError};
use crate::config::{LogConfig, Witness};
use crate::fork_log::ForkLog;
use crate::instruments::{self, Gauges};
use crate::issuers_file::{self, IssuersError};
use crate::ledger::{Ledger, Shelf, StoreFault};
use crate::log::{Log, Parts};
use crate::offers::Offers;
use crate::proofs::Proofs;
use crate::publication::Publication;
use crate::quorum::Quorum;
use crate::registry::{Known, Registry};
use crate::restored::{self, Lookout, Restored};
use crate::room::{Room, Watch};
use crate::routes::{self, Vitals};
use crate::vetting::VettingPool;
use crate::witnesses::{self, Surroundings};
use note::{KeyName, Origin, VerifierKey};
use receipt::{IssuerState, SeqNo};
use service::listener::Server;
use service::tls::Tls;
use std::future::Future;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use tokio::net::TcpListener;
use tokio::sync::{oneshot, watch};
use tokio::task::JoinSet;

/// What a log is run with.
pub struct Setup<L> {
    /// Its store.
    pub ledger: L,
    /// The issuers that the store knows, in any order.
    pub known: Vec<IssuerState>,
    /// Its public key, whose name is its origin.
    pub key: VerifierKey,
    /// The file that says which issuers may submit.
    pub issuers: PathBuf,
    /// The witnesses.
    pub witnesses: Vec<Witness>,
    /// When a head counts as cosigned.
    pub quorum: Quorum,
    /// Everything else.
    pub config: LogConfig,
    /// The wall clock.
    pub clock: Clock,
}

/// What an operator adds to that. Without it a log runs as it is: over plain HTTP, with no watch over its disk, and nobody
/// can change anything while it runs.
#[derive(Debug, Default)]
pub struct Operation {
    /// A directory on the store's disk, whose free space is watched.
    pub store_dir: Option<PathBuf>,
    /// TLS for the listener.
    pub tls: Option<Arc<Tls>>,
    /// What admin calls have to show.
    pub admin: Option<AdminToken>,
}

/// Why a log does not run, or no longer.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The list of issuers cannot be used.
    #[error(transparent)]
    Issuers(#[from] IssuersError),
    /// The list of issuers contradicts the store.
    #[error("the issuers file cannot be used: {0}")]
    Registered(#[from] ListError),
    /// Witnesses have seen more.
    #[error(transparent)]
    Restored(#[from] Restored),
    /// The store failed.
    #[error("the store failed, and the log has stopped: {0}")]
    Store(#[from] StoreFault),
    /// Something that was read is not what was signed over.
    #[error(
        "the log has stopped: {0}. Nothing more is served from a store that is damaged; run `counterfoil-log fsck --dir DIR`, which \
         finds everything that is and says what to do about it"
    )]
    Damaged(StoreFault),
    /// The system gives no threads, sockets or the like.
    #[error("the system refuses what the log needs: {0}")]
    System(String),
}

/// [`run_operated`] with nothing added.
///
/// # Errors
/// As there.
pub async fn run<L: Ledger>(
    setup: Setup<L>,
    listener: TcpListener,
    stop: impl Future<Output = ()>,
    reload: watch::Receiver<u64>,
) -> Result<(), RunError> {
    run_operated(setup, Operation::default(), listener, stop, reload).await
}

/// Runs a log on `listener` until `stop` resolves or its store fails. `reload` is followed: at each change the issuers
/// file and the certificate are read again.
///
/// # Errors
/// [`RunError`]; `Ok` after a clean stop.
pub async fn run_operated<L: Ledger>(
    setup: Setup<L>,
    operation: Operation,
    listener: TcpListener,
    stop: impl Future<Output = ()>,
    reload: watch::Receiver<u64>,
) -> Result<(), RunError> {
    let Setup { mut ledger, known, key, issuers, witnesses, quorum, config, clock } = setup;
    let Operation { store_dir, tls, admin } = operation;
    service::metrics::install();
    service::metrics::describe_build("counterfoil-log", env!("CARGO_PKG_VERSION"));
    instruments::describe();
    let system = |error: &dyn std::fmt::Display| RunError::System(error.to_string());
    let shelf = ledger.shelf();
    let head = match shelf.head()? {
        Some(head) => Arc::new(head),
        // A new log says at once that it is there, and that it is empty.
        None => ledger.commit(&[])?.head,
    };
    let origin = Origin::from(key.name());
    let http = witnesses::client(config.witness_deadline()).map_err(|error| system(&error))?;
    restored::check(&witnesses, &origin, &key, &http, shelf.as_ref(), &head).await?;

    let registry = Arc::new(registry_of(known, shelf.as_ref())?.with_rates(config.issuer_rates()));
    let witness_names: Vec<KeyName> = witnesses.iter().map(|witness| witness.name().clone()).collect();
    let witness_keys = witnesses.iter().map(|witness| witness.keys.clone()).collect();
    let can_be_cosigned = quorum.can_be_met();
    let offers = Offers::new(config.head_interval(), witness_keys, quorum);
    let publication = Arc::new(Publication::new(offers, config.head_interval()));
    let room = Arc::new(Room::new(config.min_free_bytes()));
    let _watch = match store_dir {
        Some(dir) => Some(Watch::start(Arc::clone(&room), dir).map_err(|error| system(&error))?),
        None => None,
    };
    let forks = recall_forks(shelf.as_ref())?;
    let mut committer = Committer::new(
        ledger,
        Arc::clone(&head),
        Arc::clone(&registry),
        Arc::clone(&publication),
        clock,
        forks,
        config.linger(),
    );
    committer.list(&issuers_file::read(&issuers, Some(&key))?)??;
    publication.signed(&head);

    let (queue, commands) = mpsc::sync_channel(config.queue);
    let (still_committing, committing) = watch::channel(true);
    let (damage, stop_taking) = (shelf.damage(), still_committing.clone());
    let (ended, committer_ended) = oneshot::channel();
    let thread = std::thread::Builder::new().name("committer".to_owned()).spawn(move || {
        // Dropped, and so seen as an end, even if the thread panics.
        let _committing = CommittingUntilDropped(still_committing);
        let _nobody_waits = ended.send(committer.run(&commands));
    });
    let thread = thread.map_err(|error| system(&error))?;

    let proofs = Arc::new(Proofs::new(shelf.clone()));
    let lookout = Lookout::new(shelf.clone(), key.clone());
    let beyond = lookout.found();
    let mut beside = JoinSet::new();
    let surroundings = Surroundings {
        origin,
        http,
        publication: Arc::clone(&publication),
        proofs,
        lookout,
        poll: config.witness_poll(),
    };
    for (place, witness) in witnesses.into_iter().enumerate() {
        beside.spawn(witnesses::follow(place, witness, surroundings.clone()));
    }
    let ticking = Arc::clone(&publication);
    beside.spawn(async move { ticking.run_ticker().await });
    let list = Arc::new(IssuerList::new(issuers, key.clone(), queue.clone()));
    beside.spawn(follow_reloads(Arc::clone(&list), tls.clone(), reload));
    beside.spawn(stop_at_damage(damage.clone(), stop_taking.clone()));
    beside.spawn(stop_at_beyond(beyond.clone(), stop_taking));

    let pool = VettingPool::new().map_err(|error| system(&error))?;
    let gauges = Gauges::new(Arc::clone(&publication), Arc::clone(&room), &witness_names, config.queue);
    let parts = Parts {
        shelf,
        registry,
        publication,
        can_be_cosigned,
        cosigned_wait: config.cosigned_wait(),
        queue: queue.clone(),
        committing: committing.clone(),
        pool,
    };
    let draining = Arc::new(AtomicBool::new(false));
    let vitals = Vitals { log: Arc::new(Log::new(parts)), room, draining: Arc::clone(&draining), gauges };
    let router = routes::router(vitals, admin.map(|token| (list, token)));
    let mut committing = committing;
    let failed = async move { _ = committing.wait_for(|committing| !committing).await };
    let notice = config.drain_notice();
    let stop = async {
        let noticed = async {
            stop.await;
            draining.store(true, Ordering::Relaxed);
            tokio::time::sleep(notice).await;
        };
        tokio::select! {
            () = noticed => {}
            () = failed => {}
        }
        draining.store(true, Ordering::Relaxed);
    };
    let drained = Server { listener: listener.into(), router, limits: config.limits, tls }.serve(stop).await;
    tracing::info!(cut = drained.cut, "the listener has stopped");
    beside.shutdown().await;

    // Fails only if the committer has ended by itself. What was queued before is still committed.
    let _ = tokio::task::spawn_blocking(move || queue.send(Command::Stop)).await;
    let result = committer_ended
        .await
        .unwrap_or_else(|_| Err(StoreFault("the committer ended unexpectedly; see the messages above".to_owned())));
    let _ = tokio::task::spawn_blocking(move || thread.join()).await;
    match (beyond.borrow().clone(), damage.borrow().clone()) {
        (Some(beyond), _) => Err(RunError::Restored(beyond)),
        (None, Some(damage)) => Err(RunError::Damaged(damage)),
        (None, None) => Ok(result?),
    }
}

/// Takes no more receipts, and so ends the log, as soon as something that was read is damaged.
async fn stop_at_damage(mut damage: watch::Receiver<Option<StoreFault>>, stop_taking: watch::Sender<bool>) {
    if let Ok(found) = damage.wait_for(Option::is_some).await {
        tracing::error!(
            damage = found.as_ref().map(tracing::field::display),
            "the store is damaged; the log takes no more receipts and stops"
        );
        stop_taking.send_replace(false);
    }
    std::future::pending().await
}

/// Takes no more receipts, and so ends the log, as soon as a witness shows a head of ours that this store does not lead to.
async fn stop_at_beyond(mut beyond: watch::Receiver<Option<Restored>>, stop_taking: watch::Sender<bool>) {
    if let Ok(found) = beyond.wait_for(Option::is_some).await {
        tracing::error!(
            found = found.as_ref().map(tracing::field::display),
            "a witness has seen another history of this log; the log takes no more receipts and stops"
        );
        stop_taking.send_replace(false);
    }
    std::future::pending().await
}

struct CommittingUntilDropped(watch::Sender<bool>);

impl Drop for CommittingUntilDropped {
    fn drop(&mut self) {
        self.0.send_replace(false);
    }
}

fn registry_of(known: Vec<IssuerState>, shelf: &dyn Shelf) -> Result<Registry, StoreFault> {
    let mut issuers = Vec::with_capacity(known.len());
    for state in known {
        let newest = state.next_seq().0.checked_sub(1);
        let index = |seq: Option<u64>| seq.map_or(Ok(None), |seq| shelf.index_of(state.name(), SeqNo(seq)));
        let (first, last) = (index(newest.map(|_| 0))?, index(newest)?);
        issuers.push(Known::new(state, first, last));
    }
    Ok(Registry::new(issuers))
}

fn recall_forks(shelf: &dyn Shelf) -> Result<ForkLog, StoreFault> {
    let mut forks = ForkLog::default();
    for page in 0.. {
        let documents = shelf.evidence_page(page)?;
        documents.iter().for_each(|document| forks.recall(document));
        if documents.is_empty() {
            break;
        }
    }
    Ok(forks)
}

/// Takes over the issuers file and the certificate whenever `reload` changes. What cannot be used changes nothing.
async fn follow_reloads(list: Arc<IssuerList>, tls: Option<Arc<Tls>>, mut reload: watch::Receiver<u64>) {
    while reload.changed().await.is_ok() {
        match list.reload().await {
            Ok(issuers) => tracing::info!(issuers, "the issuers file was read again"),
            Err(ChangeError::Stopping) => {}
            Err(error) => tracing::error!(%error, "the issuers file was not taken over; the list is as it was"),
        }
        let Some(tls) = tls.clone() else { continue };
        match tokio::task::spawn_blocking(move || tls.reload()).await {
            Ok(Ok(())) => tracing::info!("the certificate was read again; new connections get it"),
            Ok(Err(error)) => tracing::error!(%error, "the certificate was not taken over; the old one stays in use"),
            Err(_) => {}
        }
    }
    // Nobody reloads any more; the log goes on.
    std::future::pending().await
}

/// Binds the address of a configuration.
///
/// # Errors
/// [`RunError::System`] with the address in it.
pub async fn bind(address: &str) -> Result<(TcpListener, SocketAddr), RunError> {
    let failed = |error: std::io::Error| {
        RunError::System(format!("cannot listen on {address}: {error}; choose another with --listen"))
    };
    let listener = service::listener::bind(address).await.map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    Ok((listener, address))
}

#[cfg(test)]
mod tests;
