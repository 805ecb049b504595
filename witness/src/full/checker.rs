//! One log's entries, from the last size that was checked to the head's.
//!
//! ```text
//! state ── fetch bundles (a few at a time) ── walk ── root the head's? ── save
//!                        leg by leg; after each, the tree so far must be the head's
//! ```
//!
//! Holds what is fetched when, what is believed, and what is kept. What is saved is known to be of a tree that the log
//! signed; what is only in memory may rest on wrong bundles, and is dropped when a root turns out to be another.

use super::accuse::{Breaks, accuse};
use super::saved::SavedWalk;
use super::walk::{Breach, MAX_ISSUERS, Stop, Walk};
use crate::fetch::Trouble;
use crate::instruments::ENTRIES_CHECKED;
use bytes::Bytes;
use client::LogClient;
use cosign::{Unproven, implied_root, tiles_needed};
use futures_util::{StreamExt, stream};
use merkle::{Frontier, PageId, ResourcePath, RootHash, TILE_WIDTH, TreeSize};
use note::{SignedCheckpoint, Verified, VerifierKey};
use receipt::{Receipt, RefusalCode, Roll, UnixMillis};
use service::progress::Progress;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use store::disk::Disk;
use tokio::sync::{Semaphore, mpsc};

const WIDTH: u64 = TILE_WIDTH as u64;
/// Bundles of one log under way or waiting to be read: 16 MiB each at most, 180 kB as a rule.
const BUNDLES_AT_ONCE: usize = 4;
/// Entries after which the tree so far is compared with the head's: two seconds of checking.
const LEG: u64 = 1 << 16;
/// The longest leg. Others get their turn, and what a slow log has shown so far is saved.
const LEG_TIME: Duration = Duration::from_secs(30);
/// Logs that are caught up with at a time, so that the memory for bundles is bounded: a few hundred MiB if all of them send
/// the largest there are. A log that is at most [`AT_HAND`] ahead waits for nobody.
const CATCH_UPS: usize = 4;
/// Entries that are no catching up: two bundles.
const AT_HAND: u64 = 2 * WIDTH;
static TURNS: Semaphore = Semaphore::const_new(CATCH_UPS);
/// Entries and time after which a walk is saved: what is lost with it is checked again. Entries also for each issuer: to
/// write an issuer's state costs a hundredth of checking so many.
const SAVE_AFTER: u64 = 1 << 16;
const SAVE_AFTER_AN_ISSUER: u64 = 4;
const SAVE_AFTER_TIME: Duration = Duration::from_secs(60);
/// How often somebody who waits is told how far it is.
const TELL_EVERY: Duration = Duration::from_secs(10);
/// Entries that are worth a progress bar: more than a second's.
const LONG: u64 = 1 << 15;

/// What came of the entries under a head.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EntriesCheck {
    /// Nobody asked: level `consistency`.
    NotAsked,
    /// Every entry of the tree of this size and root was admitted.
    Admitted {
        /// The size.
        size: TreeSize,
        /// The root.
        root: RootHash,
    },
    /// They are being checked.
    UnderWay {
        /// Entries checked, from the log's first on.
        done: u64,
        /// Entries to check.
        total: u64,
    },
    /// The entries could not be had, or are not those under the head: proves nothing against anyone.
    Trouble(Trouble),
    /// One of them is not admitted here, which cannot be shown to anybody else: accuses nobody.
    NotAdmitted(Trouble),
    /// The log admitted what it must refuse, and here is the evidence, which checks.
    Breaks(Box<Breaks>),
}

/// How far a long check is; shared with whoever is asked meanwhile.
#[derive(Debug, Default)]
pub struct CatchUp {
    done: AtomicU64,
    /// 0 while no check is under way.
    total: AtomicU64,
}

impl CatchUp {
    /// Entries checked and entries to be checked, both counted from the log's first, while a check is under way.
    pub fn now(&self) -> Option<(u64, u64)> {
        let total = self.total.load(Ordering::Relaxed);
        (total > 0).then(|| (self.done.load(Ordering::Relaxed), total))
    }
}

/// Checks one log's entries.
#[derive(Debug)]
pub struct Checker {
    log: VerifierKey,
    saved: SavedWalk,
    /// Before the first entry: who exists.
    roll: Roll,
    /// How far it is; `None` before the file was read, and after what was known proved wrong.
    walk: Option<Walk>,
    /// Size and time of the last save.
    last_save: (u64, Instant),
    /// What the log admitted, and the smallest head that is known to be over it. History only grows: so are all larger ones.
    broken: Option<(TreeSize, Breaks)>,
    catch_up: Arc<CatchUp>,
}

impl Checker {
    /// The checker of `log`, which keeps what it knows in the file `path` on `disk`. `issuers` are those that exist; without them an
    /// issuer is who its `open` says.
    pub fn new(disk: Arc<dyn Disk>, path: PathBuf, log: VerifierKey, issuers: Option<Vec<VerifierKey>>) -> Checker {
        Checker {
            saved: SavedWalk::at(disk, path, log.clone()),
            log,
            roll: issuers.map_or_else(Roll::of_openers, Roll::of_registered),
            walk: None,
            last_save: (0, Instant::now()),
            broken: None,
            catch_up: Arc::default(),
        }
    }

    /// How far the check is that is under way.
    pub fn catch_up(&self) -> Arc<CatchUp> {
        Arc::clone(&self.catch_up)
    }

    /// Checks every entry under `head` that was not checked yet, judged at `now_ms`. Takes as long as it takes; each answer
    /// of the log has the client's deadline. May be dropped at any time: what was not saved is then checked again.
    pub async fn advance(
        &mut self,
        client: &LogClient,
        head: &SignedCheckpoint<Verified>,
        now_ms: u64,
    ) -> EntriesCheck {
        let (size, root) = (head.checkpoint().size, head.checkpoint().root);
        if let Some((_, breaks)) = self.broken.as_ref().filter(|(at, _)| *at <= size) {
            return EntriesCheck::Breaks(Box::new(breaks.clone()));
        }
        let done = self.advance_to(client, head, UnixMillis(now_ms)).await;
        self.catch_up.total.store(0, Ordering::Relaxed);
        match done {
            Ok(Found::Nothing) => EntriesCheck::Admitted { size, root },
            Ok(Found::NotAdmitted(trouble)) => EntriesCheck::NotAdmitted(trouble),
            Ok(Found::Breaks(breaks)) => {
                self.broken = Some((size, (*breaks).clone()));
                EntriesCheck::Breaks(breaks)
            }
            Err(trouble) => EntriesCheck::Trouble(trouble),
        }
    }

    async fn advance_to(
        &mut self,
        client: &LogClient,
        head: &SignedCheckpoint<Verified>,
        now: UnixMillis,
    ) -> Result<Found, Trouble> {
        let size = head.checkpoint().size;
        let mut walk = match self.walk.take() {
            Some(walk) if walk.size() <= size => walk,
            _ => self.saved_under(client, head).await?,
        };
        let mut tell = Tell::new(&self.log, walk.size().0, size.0);
        while walk.size() < size || walk.root() != head.checkpoint().root {
            if walk.size() == size {
                return Err(wrong_entries(size));
            }
            self.catch_up.done.store(walk.size().0, Ordering::Relaxed);
            self.catch_up.total.store(size.0, Ordering::Relaxed);
            let leg_end = TreeSize(size.0.min(walk.size().0.saturating_add(LEG)));
            let leg = Leg { client, size, leg_end, now, catch_up: &self.catch_up };
            let (walked, stopped, trouble) = leg.run(walk, &mut tell).await?;
            walk = walked;
            match stopped {
                Some(Stop::Breach(breach)) => return self.judge(client, head, walk, &breach).await,
                Some(Stop::TooManyIssuers) => {
                    return Ok(Found::NotAdmitted(Trouble {
                        code: "issuers",
                        sentence: format!(
                            "the log has receipts of more than {MAX_ISSUERS} issuers; name those that exist in a file (issuers)"
                        ),
                    }));
                }
                None => {}
            }
            if let Some(trouble) = trouble {
                self.walk = Some(walk);
                return Err(trouble);
            }
            if !is_under(client, head, (walk.size(), walk.root())).await? {
                return Err(wrong_entries(walk.size()));
            }
            metrics::gauge!(ENTRIES_CHECKED, "log" => self.log.name().to_string()).set(walk.size().0 as f64);
            walk = self.save_if_due(walk).await?;
        }
        self.walk = Some(walk);
        Ok(Found::Nothing)
    }

    /// What a breach comes to. It is the log's if all entries so far are those under the head.
    async fn judge(
        &mut self,
        client: &LogClient,
        head: &SignedCheckpoint<Verified>,
        walk: Walk,
        breach: &Breach,
    ) -> Result<Found, Trouble> {
        if !is_under(client, head, breach.seen).await? {
            return Err(wrong_entries(breach.seen.0));
        }
        if breach.stopped(&walk) {
            // A list may grow, and a clock goes on: the next check begins here.
            self.walk = Some(walk);
        }
        match accuse(client, head, breach).await? {
            Some(breaks) => Ok(Found::Breaks(Box::new(breaks))),
            None => {
                Ok(Found::NotAdmitted(Trouble { code: breach.refusal.code.as_str(), sentence: not_admitted(breach) }))
            }
        }
    }

    /// The walk as it was saved, if that is of the tree under `head`; else from the first entry.
    async fn saved_under(&mut self, client: &LogClient, head: &SignedCheckpoint<Verified>) -> Result<Walk, Trouble> {
        let (saved, roll) = (self.saved.clone(), self.roll.clone());
        let read = tokio::task::spawn_blocking(move || saved.read(roll)).await.map_err(interrupted)?;
        if let Some(walk) = read.filter(|walk| walk.size() <= head.checkpoint().size)
            && is_under(client, head, (walk.size(), walk.root())).await?
        {
            self.last_save = (walk.size().0, Instant::now());
            return Ok(walk);
        }
        self.last_save = (0, Instant::now());
        Ok(Walk::new(self.roll.clone(), Frontier::new()))
    }

    async fn save_if_due(&mut self, walk: Walk) -> Result<Walk, Trouble> {
        let (size, when) = self.last_save;
        let grown = walk.size().0.saturating_sub(size);
        let many = SAVE_AFTER.max(SAVE_AFTER_AN_ISSUER * walk.states().count() as u64);
        if grown < many && (grown == 0 || when.elapsed() < SAVE_AFTER_TIME) {
            return Ok(walk);
        }
        self.last_save = (walk.size().0, Instant::now());
        let saved = self.saved.clone();
        let save = move || {
            if let Err(error) = saved.write(&walk) {
                tracing::warn!(%error, "what was checked of a log cannot be saved; after a restart it is checked again");
            }
            walk
        };
        tokio::task::spawn_blocking(save).await.map_err(interrupted)
    }
}

/// Why nothing is cosigned because of an entry that accuses nobody, and what this witness's operator can do about it.
fn not_admitted(Breach { index, entry, refusal, .. }: &Breach) -> String {
    let issuer = Receipt::parse(entry).map(|receipt| receipt.issuer().to_string());
    match (refusal.code, issuer) {
        (RefusalCode::UnknownIssuer, Ok(issuer)) => format!(
            "entry {index} of the log is of the issuer {issuer}, who is not listed here, so nothing of the log is cosigned: once you know its vkey from its operator, add it to the issuers file of this [[log]] and send SIGHUP"
        ),
        (RefusalCode::FutureDated, _) => format!(
            "entry {index} of the log is dated in the future ({refusal}), so nothing of the log is cosigned for now: look at this machine's clock"
        ),
        _ => format!(
            "entry {index} of the log is not admitted here ({refusal}), which cannot be shown to others; while that is so nothing of the log is cosigned: look at the issuers file of this [[log]] and at this machine's clock"
        ),
    }
}

/// What an advance found.
enum Found {
    /// Nothing wrong.
    Nothing,
    NotAdmitted(Trouble),
    Breaks(Box<Breaks>),
}

/// A part of the way to the head.
struct Leg<'a> {
    client: &'a LogClient,
    size: TreeSize,
    leg_end: TreeSize,
    now: UnixMillis,
    catch_up: &'a CatchUp,
}

impl Leg<'_> {
    /// Fetches and walks. Answers the walk, why it stopped by the rule, and why entries did not come.
    async fn run(&self, mut walk: Walk, tell: &mut Tell) -> Result<(Walk, Option<Stop>, Option<Trouble>), Trouble> {
        let begin = walk.size().0;
        let _turn = match self.size.0 - begin {
            0..=AT_HAND => None,
            // It is never closed.
            _ => TURNS.acquire().await.ok(),
        };
        let (sender, receiver) = mpsc::channel::<Vec<Bytes>>(1);
        let now = self.now;
        let walking = tokio::task::spawn_blocking(move || {
            let stopped = walk.run(receiver, now).err();
            (walk, stopped)
        });
        let trouble = self.fetch(begin, sender, tell).await;
        let (walk, stopped) = walking.await.map_err(interrupted)?;
        Ok((walk, stopped, trouble))
    }

    /// Hands on the entries from `begin` on, until the leg ends or nobody takes them any more. Answers why they did not come.
    async fn fetch(&self, begin: u64, entries: mpsc::Sender<Vec<Bytes>>, tell: &mut Tell) -> Option<Trouble> {
        let began = Instant::now();
        let pages = (begin / WIDTH..self.leg_end.0.div_ceil(WIDTH)).filter_map(|page| PageId::at(page, self.size.0));
        let fetch = |page: PageId| async move { (page, self.client.page(&ResourcePath::Entries(page)).await) };
        let mut pages = std::pin::pin!(stream::iter(pages).map(fetch).buffered(BUNDLES_AT_ONCE));
        while let Some((page, fetched)) = pages.next().await {
            let mut bundle = match fetched {
                Ok(bundle) => bundle,
                Err(error) => return Some(Trouble::from(&error)),
            };
            let first = page.index * WIDTH;
            bundle.drain(..usize::try_from(begin.saturating_sub(first)).unwrap_or(usize::MAX).min(bundle.len()));
            if entries.send(bundle).await.is_err() {
                return None;
            }
            let done = first + u64::from(page.width);
            self.catch_up.done.store(done, Ordering::Relaxed);
            tell.done(done);
            if began.elapsed() > LEG_TIME {
                return None;
            }
        }
        None
    }
}

/// Whether the tree of this size and root is the one under `head`, as the log's tiles have it.
async fn is_under(
    client: &LogClient,
    head: &SignedCheckpoint<Verified>,
    (size, root): (TreeSize, RootHash),
) -> Result<bool, Trouble> {
    let whole = head.checkpoint();
    if size == whole.size {
        return Ok(root == whole.root);
    }
    let tiles = client.tiles(&tiles_needed(size, whole.size)).await.map_err(|error| Trouble::from(&error))?;
    match implied_root(&tiles, size, head) {
        Ok(implied) => Ok(implied.root == root),
        Err(unproven @ (Unproven::Missing(_) | Unproven::OtherRoot(_) | Unproven::NotShown(_))) => {
            Err(Trouble { code: "tiles", sentence: unproven.to_string() })
        }
    }
}

fn wrong_entries(size: TreeSize) -> Trouble {
    Trouble {
        code: "entries",
        sentence: format!(
            "the entries up to {size} that came do not hash to the tree that the log signed; a mirror or cache in between may be wrong"
        ),
    }
}

fn interrupted(_: tokio::task::JoinError) -> Trouble {
    Trouble { code: "interrupted", sentence: "checking the entries was interrupted; it is tried again".to_owned() }
}

/// Tells the operator how far a long check is.
struct Tell {
    log: String,
    from: u64,
    total: u64,
    began: Instant,
    told: Instant,
    bar: Option<(Progress, u64)>,
}

impl Tell {
    fn new(log: &VerifierKey, from: u64, total: u64) -> Tell {
        let left = total.saturating_sub(from);
        let bar = (left >= LONG).then(|| (Progress::new(left, "entries"), from));
        let now = Instant::now();
        Tell { log: log.name().to_string(), from, total, began: now, told: now, bar }
    }

    fn done(&mut self, done: u64) {
        if let Some((bar, shown)) = &mut self.bar {
            bar.advance(done.saturating_sub(*shown));
            *shown = done;
        }
        if self.told.elapsed() < TELL_EVERY {
            return;
        }
        self.told = Instant::now();
        let rate = done.saturating_sub(self.from) as f64 / self.began.elapsed().as_secs_f64();
        let left_s = (self.total.saturating_sub(done) as f64 / rate.max(1.0)).ceil();
        tracing::info!(
            log = self.log,
            checked = done,
            of = self.total,
            rate = format!("{rate:.0}/s"),
            left = format!("{left_s:.0} s"),
            "checking the log's entries"
        );
    }
}
