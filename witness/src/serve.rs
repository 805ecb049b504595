//! `counterfoil-witness serve`: everything opened, watched and answered, until told to stop.
//!
//! Holds the putting together, and what stops the whole process: a disk that fails. Does not read the environment.

use crate::agent::{Agent, AgentError};
use crate::broken::Broken;
use crate::clock::Clock;
use crate::evidence::Evidence;
use crate::full::EntryChecks;
use crate::instruments::Dials;
use crate::journal::book::{Journal, Record, journal_name};
use crate::journal::committer::Committer;
use crate::level;
use crate::peers::{self, own_journal};
use crate::post::Shared;
use crate::posts::Posts;
use crate::roster::{Changes, Kit, Roster, remember, started};
use crate::routes::{Desk, router};
use crate::settings::{KeySource, Level, Settings, SettingsError, WatchedLog, WatchedPeer};
use crate::signer::{OtherName, Signer};
use client::{BoundedClient, FetchError, Reach, Timeouts};
use note::{KeyKind, KeyName, KeyTables};
use service::config::Loaded;
use service::keys::{KeyFileError, read_signing_key};
use std::sync::Arc;
use std::time::Duration;
use store::disk::{Disk, RealDisk};
use tokio::net::TcpListener;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

/// How long the journal's thread may take to say why it ended.
const LAST_WORD: Duration = Duration::from_secs(1);

/// Keys of logs that push, prepared: 7 MB at most. Logs that are fetched are checked too rarely to need it.
const PREPARED_KEYS: usize = 128;

/// Folded lines are looked for this often; a minute's fold is closed at most so much late.
const FOLD_LOOK: Duration = Duration::from_secs(2);

/// A connection to a log is made within this, or not at all: any path to a server that is up.
const CONNECT_DEADLINE: Duration = Duration::from_secs(5);

/// Longest pause between two questions to a peer that has not yet said what it holds of our journal.
const OWN_JOURNAL_ASKED: Duration = Duration::from_secs(5);

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
    /// The second key is another witness's.
    #[error(transparent)]
    MlDsaKey(#[from] OtherName),
    /// The witness is among its own peers.
    #[error("{0} is this witness itself; take it out of its own [[peer]] sections")]
    OwnPeer(KeyName),
    /// What is on disk.
    #[error(transparent)]
    Broken(#[from] Broken),
    /// The agent that holds the witness's key.
    #[error(transparent)]
    Agent(#[from] AgentError),
    /// The state was made at another level.
    #[error(
        "this witness has cosigned at level {recorded}, and the configuration says {configured}: what its key means never changes. Put level = \"{recorded}\" back, or make a new witness, with a new key and a new name, for the other level"
    )]
    Level {
        /// The state's.
        recorded: Level,
        /// The configuration's.
        configured: Level,
    },
    /// No HTTP client.
    #[error(transparent)]
    Client(#[from] FetchError),
    /// No thread.
    #[error("no thread can be started ({0}); look at the limits on this user's processes")]
    Thread(std::io::Error),
}

/// A witness, opened and ready to watch.
#[derive(Debug)]
pub struct Witness {
    desk: Arc<Desk>,
    dials: Dials,
    roster: Roster,
    committer: Committer,
    /// Cancelled when a step at some log's post broke off.
    broken: CancellationToken,
    /// When and why the committer ended.
    written: oneshot::Receiver<Result<(), Broken>>,
    /// The configuration that is in force.
    settings: Settings,
}

impl Witness {
    /// Opens keys, journal, evidence and the head held for each log. Nothing is fetched yet.
    ///
    /// # Errors
    /// [`StartError`].
    pub async fn open(settings: &Loaded<Settings>, clock: Clock) -> Result<Witness, StartError> {
        Witness::open_on(RealDisk::shared(), settings, clock).await
    }

    /// As [`Witness::open`], on a disk of the caller's.
    ///
    /// # Errors
    /// As [`Witness::open`].
    pub async fn open_on(
        disk: Arc<dyn Disk>,
        settings: &Loaded<Settings>,
        clock: Clock,
    ) -> Result<Witness, StartError> {
        settings.values.check()?;
        let (pace, mut logs) = (settings.values.pace()?, settings.values.watched_logs()?);
        let signer = Arc::new(signer(settings).await?);
        let journal_key = read_signing_key(&settings.resolve(&settings.values.journal_key), KeyKind::Ed25519)?;
        let name = signer.verifier().name();
        if journal_name(name).ok().as_ref() != Some(journal_key.name()) {
            return Err(StartError::JournalKey { witness: name.clone(), found: journal_key.name().clone() });
        }
        let state = settings.resolve(&settings.values.state);
        // Evidence is made where there is none, and a state is not.
        if !Journal::is_there(&*disk, &state)? {
            return Err(Broken::NoState(state).into());
        }
        let evidence = Arc::new(Evidence::open_on(&*disk, &state)?);
        evidence.check_acknowledged(&logs).map_err(Broken::from)?;
        let mut journal = Journal::open(Arc::clone(&disk), &state, journal_key, evidence.count())?;
        let (is_new, configured) = (journal.reader().size() == 0, settings.values.level);
        let recorded = level::recorded(&*disk, &state, is_new, configured)?;
        if recorded != configured {
            return Err(StartError::Level { recorded, configured });
        }
        let fetch_deadline = Duration::from_millis(settings.values.fetch_deadline_ms);
        let timeouts = Timeouts { connect: CONNECT_DEADLINE.min(fetch_deadline), total: fetch_deadline };
        let public = BoundedClient::with_reach(timeouts, Reach::Public)?;
        let anywhere = BoundedClient::with_reach(timeouts, Reach::Any)?;
        let (mut peers, mut peer_journals) = (Vec::new(), Vec::new());
        for peer in others(&settings.values, name)? {
            let http = match peer.reach {
                Reach::Public => &public,
                Reach::Any => &anywhere,
            };
            let (peer, its_journal) = peers::peer(&peer, http);
            peers.push(peer);
            peer_journals.push(its_journal);
        }
        peers::add_journals(&mut logs, &peer_journals);
        // Before the first line is written: a journal that is not the newest must not be signed on.
        own_journal::check_at_start(&peers, &journal.reader()).await?;
        let entries = EntryChecks::new(disk, state.clone(), settings.resolve(""));
        let lists = entries.read_lists(&logs).map_err(Broken::from)?;
        let (mut keepers, mut lines) = (Vec::with_capacity(logs.len()), Vec::with_capacity(logs.len()));
        for log in logs {
            let remembered = journal.memory().held(log.vkey.name().as_str()).cloned();
            let mut keeper = remember(&signer, &evidence, remembered, &journal.durable(), log).await?;
            lines.extend(started(&mut keeper, clock.now_ms()));
            keepers.push(keeper);
        }
        journal.commit(vec![Record { lines, seal: None }])?;
        let reader = journal.reader();
        let (committer, written) = Committer::start(journal).map_err(StartError::Thread)?;
        let broken = CancellationToken::new();
        let shared = Shared {
            signer: Arc::clone(&signer),
            committer: committer.clone(),
            evidence: Arc::clone(&evidence),
            tables: Arc::new(KeyTables::new(PREPARED_KEYS)),
            broken: broken.clone(),
        };
        let kit = Kit {
            shared,
            journal: reader.clone(),
            public,
            anywhere,
            peers,
            peer_journals,
            clock: clock.clone(),
            pace,
            fetch_deadline,
            entries,
        };
        let roster = Roster::new(kit, keepers, lists);
        let posts = roster.posts().clone();
        let dials = Dials { posts: posts.clone(), journal: reader.clone(), evidence: Arc::clone(&evidence), state };
        let desk = Arc::new(Desk::new(signer, reader, evidence, posts, clock, configured));
        Ok(Witness { desk, dials, roster, committer, broken, written, settings: settings.values.clone() })
    }

    /// Watches and answers on `listener` until `stop`, which this also cancels when the witness itself fails.
    ///
    /// # Errors
    /// [`Broken`]: the witness's own disk failed; nothing was answered that is not durable.
    pub async fn run(self, listener: TcpListener, stop: CancellationToken) -> Result<(), Broken> {
        let (_, none) = mpsc::channel(1);
        self.run_reloading(listener, stop, none).await
    }

    /// The same, and takes over each configuration that comes from `reloads`, as far as a running witness can: its logs. What
    /// cannot be taken over, or only by a restart, is said in the logs, and changes nothing.
    ///
    /// # Errors
    /// As [`Witness::run`].
    pub async fn run_reloading(
        self,
        listener: TcpListener,
        stop: CancellationToken,
        mut reloads: mpsc::Receiver<Settings>,
    ) -> Result<(), Broken> {
        let Witness { desk, dials, mut roster, committer, broken, mut written, mut settings } = self;
        // Whoever drops this future, as a test does that kills, must not leave the thread with the files.
        let _ends_with_us = committer.abandoned_on_drop();
        roster.start(&stop).await;
        for peer in roster.peers().to_vec() {
            let pause = OWN_JOURNAL_ASKED.min(Duration::from_millis(settings.interval_ms));
            roster.spawn(own_journal::keep_asking(peer, desk.journal().clone(), pause, stop.clone()));
        }
        roster.spawn(look_at_folds(roster.posts().clone(), desk.clock().clone(), stop.clone()));
        let limits = settings.limits;
        let answering =
            tokio::spawn(service::serve(listener, router(desk, dials), limits, stop.clone().cancelled_owned()));
        let mut failed = None;
        loop {
            tokio::select! {
                ended = roster.ended() => match ended {
                    Some(Ok(())) => {}
                    Some(Err(reason)) => {
                        // One log's post failed on the disk that all share.
                        failed = failed.or(Some(reason));
                        stop.cancel();
                    }
                    None => break,
                },
                Some(new) = reloads.recv(), if !stop.is_cancelled() => {
                    if let Err(reason) = take_over(&mut settings, new, &mut roster, &stop).await {
                        failed = failed.or(Some(reason));
                        stop.cancel();
                    }
                }
                () = broken.cancelled(), if failed.is_none() => {
                    failed = Some(Broken::Interrupted);
                    stop.cancel();
                }
                ended = &mut written => {
                    failed = ended.unwrap_or(Err(Broken::Interrupted)).err().or(failed);
                    stop.cancel();
                    break;
                }
            }
        }
        while roster.ended().await.is_some() {}
        // What was cut at the deadline was told so by its connection; there is nothing left to do about it.
        let _drained = answering.await;
        if let Some(broken) = failed {
            // Whoever waited hears that the thread is gone, a moment before the thread says why.
            let is_silent = matches!(broken, Broken::Ended | Broken::Interrupted) && !written.is_terminated();
            let reason = if is_silent { timeout(LAST_WORD, &mut written).await.ok() } else { None };
            return Err(match reason {
                Some(Ok(Err(reason))) => reason,
                _ => broken,
            });
        }
        for post in roster.ever_known() {
            post.finish().await?;
        }
        committer.finish().await;
        written.await.unwrap_or(Err(Broken::Interrupted))
    }
}

/// Who signs, by the configuration.
async fn signer(settings: &Loaded<Settings>) -> Result<Signer, StartError> {
    let signer = match settings.values.key_source()? {
        KeySource::File(path) => Signer::new(read_signing_key(&settings.resolve(path), KeyKind::CosignatureV1)?),
        KeySource::Agent { socket, vkey } => {
            let socket = settings.resolve(socket);
            // It may let us wait.
            let opened = tokio::task::spawn_blocking(move || Agent::open(&socket, &vkey)).await;
            Signer::in_agent(opened.map_err(|_| Broken::Interrupted)??)
        }
    };
    match &settings.values.mldsa_key {
        None => Ok(signer),
        Some(path) => Ok(signer.with_mldsa(read_signing_key(&settings.resolve(path), KeyKind::MlDsa44)?)?),
    }
}

/// The peers, among which there must not be the witness of this `name` itself.
fn others(settings: &Settings, name: &KeyName) -> Result<Vec<WatchedPeer>, StartError> {
    let peers = settings.watched_peers()?;
    if peers.iter().any(|peer| peer.vkey.name() == name) { Err(StartError::OwnPeer(name.clone())) } else { Ok(peers) }
}

/// The logs of a configuration that would start the witness of this `name`.
fn usable(settings: &Settings, name: &KeyName) -> Result<Vec<WatchedLog>, StartError> {
    settings.check()?;
    others(settings, name)?;
    Ok(settings.watched_logs()?)
}

/// Takes over the logs of `new`, and says what else of it needs a restart.
async fn take_over(
    settings: &mut Settings,
    new: Settings,
    roster: &mut Roster,
    stop: &CancellationToken,
) -> Result<(), Broken> {
    // At the level that is in force: another one takes a restart.
    let in_force = Settings { level: settings.level, ..new.clone() };
    let logs = match usable(&in_force, roster.witness()) {
        Ok(logs) => logs,
        Err(error) => {
            tracing::error!("the configuration was not taken over, nothing has changed: {error}");
            return Ok(());
        }
    };
    match roster.change(logs, stop).await? {
        Err(error) => tracing::error!("the configuration was not taken over, nothing has changed: {error}"),
        Ok(changes) => {
            log_changes(&changes, new.log.len());
            let waiting = settings.differs_from(&new);
            if !waiting.is_empty() {
                tracing::warn!(keys = waiting.join(", "), "these settings have changed and need a restart");
            }
            settings.log = new.log;
        }
    }
    Ok(())
}

fn log_changes(Changes { added, removed, changed }: &Changes, logs: usize) {
    for (what, names) in [("watched from now on", added), ("no longer watched", removed), ("configured anew", changed)]
    {
        for name in names {
            tracing::info!(log = name.as_str(), "{what}");
        }
    }
    let (added, removed, changed) = (added.len(), removed.len(), changed.len());
    tracing::info!(logs, added, removed, changed, "the configuration was read again");
}

async fn look_at_folds(posts: Posts, clock: Clock, stop: CancellationToken) -> Result<(), Broken> {
    loop {
        tokio::select! {
            () = stop.cancelled() => return Ok(()),
            () = tokio::time::sleep(FOLD_LOOK) => {}
        }
        // Together: the lines of all logs share a commit.
        let mut writing = JoinSet::new();
        for post in posts.all() {
            let now = clock.now_ms();
            writing.spawn(async move { post.fold_due(now).await });
        }
        while let Some(done) = writing.join_next().await {
            done.unwrap_or(Err(Broken::Interrupted))?;
        }
    }
}
