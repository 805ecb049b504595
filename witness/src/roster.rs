//! Which logs are watched now, and how that changes while the witness runs.
//!
//! A log has one post for as long as the process lives, whether it is watched or not: what a post has cosigned no other
//! may be ignorant of. So a log that is taken out of the configuration keeps its post, unlisted and unfetched, and gets it
//! back if it returns. Holds the posts, the watches and the order of a change. Does not hold the file (`settings`) nor
//! what a post does.

use crate::broken::Broken;
use crate::clock::Clock;
use crate::evidence::Evidence;
use crate::full::{EntryChecks, Lists};
use crate::instruments;
use crate::journal::book::{JournalReader, Record};
use crate::journal::line::{JournalLine, Outcome};
use crate::journal::memory::Remembered;
use crate::keeper::{Keeper, sighting};
use crate::peers;
use crate::peers::look::{ComparedLog, Peer};
use crate::peers::watch::PeerWatch;
use crate::post::{Post, Shared};
use crate::posts::Posts;
use crate::schedule::Pace;
use crate::settings::WatchedLog;
use crate::signer::Signer;
use crate::watch::Watch;
use client::{BoundedClient, LogClient, Reach};
use note::{KeyName, Origin, SignedCheckpoint};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use store::{Cosigned, DurableTime};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// What every watch and every post is made with.
#[derive(Debug)]
pub struct Kit {
    /// What posts share.
    pub shared: Shared,
    /// The journal, for its floor.
    pub journal: JournalReader,
    /// For logs at public addresses.
    pub public: BoundedClient,
    /// For logs at any address.
    pub anywhere: BoundedClient,
    /// Who is asked what they hold of each log.
    pub peers: Vec<Arc<Peer>>,
    /// Their journals, which are watched beside the logs.
    pub peer_journals: Vec<WatchedLog>,
    /// The time.
    pub clock: Clock,
    /// How often logs are fetched.
    pub pace: Pace,
    /// After this a fetch is given up.
    pub fetch_deadline: Duration,
    /// What checks entries, at level full.
    pub entries: EntryChecks,
}

/// The logs of a running witness.
#[derive(Debug)]
pub struct Roster {
    kit: Kit,
    /// What is shown.
    posts: Posts,
    /// Every post that there ever was in this process, by the log's name.
    known: HashMap<KeyName, Arc<Post>>,
    watches: HashMap<KeyName, Watching>,
    /// The issuers that exist, log by log, at level full.
    lists: Lists,
    tasks: JoinSet<Result<(), Broken>>,
}

/// A watch under way.
#[derive(Debug)]
struct Watching {
    stop: CancellationToken,
    ended: CancellationToken,
}

/// What a change did.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// Logs that are watched now and were not.
    pub added: Vec<KeyName>,
    /// Logs that are no longer watched.
    pub removed: Vec<KeyName>,
    /// Logs with other settings.
    pub changed: Vec<KeyName>,
}

impl Roster {
    /// Lists these logs, with the issuers that exist in each; nothing is fetched before [`Roster::start`].
    pub fn new(kit: Kit, keepers: Vec<Keeper>, lists: Lists) -> Roster {
        let listed: Vec<Arc<Post>> = keepers.into_iter().map(|keeper| Post::new(keeper, kit.shared.clone())).collect();
        let known = listed.iter().map(|post| (post.name().clone(), Arc::clone(post))).collect();
        let posts = Posts::default();
        posts.replace(listed);
        Roster { kit, posts, known, watches: HashMap::new(), lists, tasks: JoinSet::new() }
    }

    /// The name of the witness.
    pub fn witness(&self) -> &KeyName {
        self.kit.shared.signer.verifier().name()
    }

    /// Who is asked what they hold of each log.
    pub fn peers(&self) -> &[Arc<Peer>] {
        &self.kit.peers
    }

    /// What is shown.
    pub fn posts(&self) -> &Posts {
        &self.posts
    }

    /// Every post, of logs no longer watched too: what they have folded is still to be written when the witness stops.
    pub fn ever_known(&self) -> impl Iterator<Item = &Arc<Post>> {
        self.known.values()
    }

    /// A task of the witness's that is waited for with the watches.
    pub fn spawn(&mut self, task: impl Future<Output = Result<(), Broken>> + Send + 'static) {
        self.tasks.spawn(task);
    }

    /// Fetches the logs that are listed, until `stop`.
    pub async fn start(&mut self, stop: &CancellationToken) {
        for post in self.posts.all() {
            self.watch(&post, stop).await;
        }
    }

    /// The next task that ended, and how; `None` when none is left.
    pub async fn ended(&mut self) -> Option<Result<(), Broken>> {
        Some(self.tasks.join_next().await?.unwrap_or(Err(Broken::Interrupted)))
    }

    /// Watches `logs` from now on, the peers' journals beside them, and no others. Everything that can be wrong with them is found before anything changes.
    ///
    /// # Errors
    /// The outer [`Broken`] ends the process. The inner one is about `logs`: nothing has changed.
    pub async fn change(
        &mut self,
        mut logs: Vec<WatchedLog>,
        stop: &CancellationToken,
    ) -> Result<Result<Changes, Broken>, Broken> {
        peers::add_journals(&mut logs, &self.kit.peer_journals);
        if let Err(unusable) = self.kit.shared.evidence.check_acknowledged(&logs) {
            return Ok(Err(unusable.into()));
        }
        let lists = match self.kit.entries.read_lists(&logs) {
            Ok(lists) => lists,
            Err(unusable) => return Ok(Err(unusable.into())),
        };
        let mut new = Vec::new();
        for log in &logs {
            match self.known.get(log.vkey.name()) {
                Some(post) if post.configured().await.vkey != log.vkey => {
                    return Ok(Err(Broken::OtherLogKey(Origin::from(post.name()))));
                }
                Some(_) => {}
                None => {
                    let remembered = self.kit.shared.committer.recall(log.vkey.name().as_str()).await?;
                    let Shared { signer, evidence, .. } = &self.kit.shared;
                    match remember(signer, evidence, remembered, self.kit.journal.durable(), log.clone()).await {
                        Ok(keeper) => new.push(keeper),
                        Err(unusable) => return Ok(Err(unusable)),
                    }
                }
            }
        }
        let mut lines = Vec::new();
        for keeper in &mut new {
            lines.extend(started(keeper, self.kit.clock.now_ms()));
        }
        if !lines.is_empty() {
            self.kit.shared.committer.commit(Record { lines, seal: None }).await?;
        }
        for keeper in new {
            let post = Post::new(keeper, self.kit.shared.clone());
            self.known.insert(post.name().clone(), post);
        }
        let mut changes = Changes::default();
        let before = self.posts.all();
        for post in &before {
            if !logs.iter().any(|log| log.vkey.name() == post.name()) {
                self.unwatch(post.name()).await;
                changes.removed.push(post.name().clone());
            }
        }
        let mut listed = Vec::with_capacity(logs.len());
        for log in logs {
            let Some(post) = self.known.get(log.vkey.name()).cloned() else { continue };
            let old = post.configured().await;
            if self.lists.get(post.name()) != lists.get(post.name()) {
                self.unwatch(post.name()).await;
                changes.changed.push(post.name().clone());
            }
            if old != log {
                if !is_fetched_alike(&old, &log) {
                    self.unwatch(post.name()).await;
                }
                post.configure(log).await?;
                changes.changed.push(post.name().clone());
            }
            if !before.iter().any(|other| other.name() == post.name()) {
                changes.added.push(post.name().clone());
            }
            listed.push(post);
        }
        changes.changed.retain(|name| !changes.added.contains(name));
        changes.changed.dedup();
        self.lists = lists;
        self.posts.replace(listed);
        self.start(stop).await;
        for name in &changes.removed {
            if let Some(post) = self.known.get(name) {
                post.finish().await?;
            }
            instruments::no_more(name);
        }
        Ok(Ok(changes))
    }

    /// Fetches the log of `post`, unless it has no address and pushes, and what peers hold of it; unless that is done already.
    async fn watch(&mut self, post: &Arc<Post>, stop: &CancellationToken) {
        if self.watches.contains_key(post.name()) {
            return;
        }
        let configured = post.configured().await;
        let checks = self.kit.entries.of(&configured, self.lists.get(post.name()));
        let WatchedLog { vkey: log, url, reach, journal_of, .. } = configured;
        let http = match reach {
            Reach::Public => &self.kit.public,
            Reach::Any => &self.kit.anywhere,
        };
        let client = url.map(|url| LogClient::new(url, http.clone()));
        let pace = if journal_of.is_some() { peers::journal_pace(self.kit.pace) } else { self.kit.pace };
        let watching = Watching { stop: stop.child_token(), ended: CancellationToken::new() };
        let ended = Arc::new(watching.ended.clone().drop_guard());
        // What a peer holds of its own journal is the journal itself.
        for peer in self.kit.peers.iter().filter(|peer| journal_of.as_ref() != Some(peer.name())) {
            let compared = ComparedLog { vkey: log.clone(), client: client.clone() };
            let (peer, clock, deadline) = (Arc::clone(peer), self.kit.clock.clone(), self.kit.fetch_deadline);
            let watch = PeerWatch::new(peer, compared, Arc::clone(post), clock, pace, deadline);
            let (stop, ended) = (watching.stop.clone(), Arc::clone(&ended));
            self.tasks.spawn(async move {
                let _ended = ended;
                watch.run(stop).await
            });
        }
        if let Some(client) = client {
            let watch = Watch {
                post: Arc::clone(post),
                log,
                client,
                clock: self.kit.clock.clone(),
                pace,
                fetch_deadline: self.kit.fetch_deadline,
                nudges: post.nudges(),
                checks,
            };
            let (stop, ended) = (watching.stop.clone(), ended);
            self.tasks.spawn(async move {
                let _ended = ended;
                watch.run(stop).await
            });
        }
        self.watches.insert(post.name().clone(), watching);
    }

    /// Fetches a log no more; a step at its post that is under way is waited for.
    async fn unwatch(&mut self, name: &KeyName) {
        if let Some(watching) = self.watches.remove(name) {
            watching.stop.cancel();
            watching.ended.cancelled().await;
        }
    }
}

/// A log as the journal remembers it, for a witness that has released nothing later than `durable`. The cosignatures over the
/// head held are made again for the very time that they had: nothing is said that was not said before.
///
/// # Errors
/// [`Broken`]: the head held is another key's, or cannot be cosigned again.
pub async fn remember(
    signer: &Signer,
    evidence: &Evidence,
    remembered: Option<Remembered>,
    durable: &DurableTime,
    log: WatchedLog,
) -> Result<Keeper, Broken> {
    let held = match remembered {
        None => None,
        Some(Remembered { checkpoint, timestamp }) => {
            let head = SignedCheckpoint::parse(checkpoint.as_bytes()).and_then(|head| head.verify(&log.vkey));
            let head = head.map_err(|_| Broken::OtherLogKey(Origin::from(log.vkey.name())))?;
            let cosignatures = signer.cosign(head.note().text(), timestamp).await?;
            let origin = || Origin::from(log.vkey.name());
            let held = Cosigned::restored(head, timestamp, cosignatures, durable);
            Some(held.ok_or_else(|| Broken::Unjournalled(origin()))?)
        }
    };
    let forked = evidence.first_against(&log.vkey, &log.acknowledged_evidence);
    Ok(Keeper::new(log, held, durable.seconds(), forked))
}

/// The line that says that the log is watched from now on, and what is held of it.
pub fn started(keeper: &mut Keeper, time_ms: u64) -> Vec<JournalLine> {
    let head = keeper.held().map(|held| held.checkpoint().clone());
    let mut seen = sighting(Outcome::Started, head.as_ref(), None, None);
    seen.evidence = keeper.forked().map(|standing| standing.number);
    keeper.note(time_ms, seen)
}

/// Whether a watch of the one does for the other.
fn is_fetched_alike(one: &WatchedLog, other: &WatchedLog) -> bool {
    (&one.url, one.reach, &one.issuers) == (&other.url, other.reach, &other.issuers)
}
