//! `counterfoil-witness serve`: everything opened, watched and answered, until told to stop.
//!
//! Holds the putting together, and what stops the whole process: a disk that fails. Does not read the environment.

use crate::clock::Clock;
use crate::evidence::Evidence;
use crate::initialise::JOURNAL;
use crate::journal::book::{Journal, journal_name};
use crate::keeper::{Broken, Keeper, Shared};
use crate::routes::{Desk, Shares, router};
use crate::settings::{Settings, SettingsError};
use crate::watch::Watch;
use client::witness::origin_hash;
use client::{BoundedClient, FetchError, LogClient, Timeouts};
use note::{KeyKind, KeyName, Origin};
use service::Limits;
use service::config::Loaded;
use service::keys::{KeyFileError, read_signing_key};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// A connection to a log is made within this, or not at all: any path to a server that is up.
const CONNECT_DEADLINE: Duration = Duration::from_secs(5);

/// Why the witness does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The configuration.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// A key file.
    #[error(transparent)]
    Key(#[from] KeyFileError),
    /// The journal's key is another witness's.
    #[error(
        "the journal's key is named {found}, and that of {witness} must be named {witness}/journal; check witness_key and journal_key"
    )]
    JournalKey {
        /// The witness's name.
        witness: KeyName,
        /// The key's name.
        found: KeyName,
    },
    /// What is on disk.
    #[error(transparent)]
    Broken(#[from] Broken),
    /// No HTTP client.
    #[error(transparent)]
    Client(#[from] FetchError),
}

/// A witness, opened and ready to watch.
#[derive(Debug)]
pub struct Witness {
    desk: Arc<Desk>,
    watches: Vec<Watch>,
    limits: Limits,
}

impl Witness {
    /// Opens keys, journal, evidence and the head held for each log. Nothing is fetched yet.
    ///
    /// # Errors
    /// [`StartError`].
    pub fn open(settings: &Loaded<Settings>, clock: Clock) -> Result<Witness, StartError> {
        settings.values.limits.check().map_err(SettingsError::from)?;
        let (pace, logs) = (settings.values.pace()?, settings.values.watched_logs()?);
        let key = read_signing_key(&settings.resolve(&settings.values.witness_key), KeyKind::CosignatureV1)?;
        let journal_key = read_signing_key(&settings.resolve(&settings.values.journal_key), KeyKind::Ed25519)?;
        if journal_name(key.name()).ok().as_ref() != Some(journal_key.name()) {
            return Err(StartError::JournalKey { witness: key.name().clone(), found: journal_key.name().clone() });
        }
        let state = settings.resolve(&settings.values.state);
        let witness = key.verifier();
        let key = Arc::new(key);
        let journal = Arc::new(Journal::open(&state.join(JOURNAL), journal_key, Arc::clone(&key))?);
        let evidence = Arc::new(Evidence::open(&state)?);
        let shared = Shared { key, journal: Arc::clone(&journal), evidence: Arc::clone(&evidence) };
        let fetch_deadline = Duration::from_millis(settings.values.fetch_deadline_ms);
        let http =
            BoundedClient::new(Timeouts { connect: CONNECT_DEADLINE.min(fetch_deadline), total: fetch_deadline })?;
        let mut watches = Vec::with_capacity(logs.len());
        let mut by_hash = std::collections::HashMap::new();
        for log in logs {
            by_hash.insert(origin_hash(&Origin::from(log.vkey.name())), watches.len());
            let client = LogClient::new(log.url.clone(), http.clone());
            let keeper = Keeper::open(&state, log, shared.clone(), clock.now_ms())?;
            watches.push(Watch::new(keeper, client, clock.clone(), pace, fetch_deadline));
        }
        let logs = watches.iter().map(Watch::post).collect();
        let desk =
            Desk { witness, journal: journal.reader(), evidence, logs, by_hash, clock, shares: Shares::default() };
        Ok(Witness { desk: Arc::new(desk), watches, limits: settings.values.limits })
    }

    /// Watches and answers on `listener` until `stop`, which this also cancels when the witness itself fails.
    ///
    /// # Errors
    /// [`Broken`]: the witness's own disk failed; nothing was answered that is not durable.
    pub async fn run(self, listener: TcpListener, stop: CancellationToken) -> Result<(), Broken> {
        let mut watching = JoinSet::new();
        for watch in self.watches {
            let stop = stop.clone();
            watching.spawn(watch.run(stop));
        }
        let answering =
            tokio::spawn(service::serve(listener, router(self.desk), self.limits, stop.clone().cancelled_owned()));
        let mut result = Ok(());
        while let Some(ended) = watching.join_next().await {
            let ended = ended.unwrap_or(Err(Broken::Interrupted));
            if ended.is_err() {
                // One log's keeper failed on the disk that all share.
                stop.cancel();
            }
            result = result.and(ended);
        }
        // Without logs nothing was watched; there is still the journal to read.
        stop.cancelled().await;
        // What was cut at the deadline was told so by its connection; there is nothing left to do about it.
        let _drained = answering.await;
        result
    }
}
