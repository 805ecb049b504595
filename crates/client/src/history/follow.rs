//! Following a log: fetching its head and its entries, and believing no more than what its root vouches for.

use super::error::HistoryError;
use super::fold::Fold;
use super::keep::Folder;
use crate::log::LogClient;
use bytes::Bytes;
use cosign::{Comparison, compare, implied_root, tiles_needed};
use futures_util::{StreamExt as _, stream};
use merkle::{PageId, ResourcePath, TILE_WIDTH, TileSet, TreeSize};
use note::{SignedCheckpoint, Verified, VerifierKey};
use std::time::Duration;
use tokio::time::Instant;

/// Pages of entries fetched at once: 64 MiB where every entry is as long as one can be.
const PAGES_AT_ONCE: usize = 4;

/// Entries that are hashed before their root is compared with the log's: as many pages, or as soon as there are so many
/// bytes.
const BATCH_PAGES: usize = 16;
const BATCH_BYTES: usize = 16 << 20;
/// Or as soon as they took so long: a call whose time is up has lost no more than this, so that a slow log is read to its end
/// by many calls.
const BATCH_TIME: Duration = Duration::from_secs(2);

/// For ever: as far as tokio's own clock goes without overflow anywhere.
const FAR_OFF: Duration = Duration::from_secs(30 * 365 * 86_400);

/// A snapshot is written when so much was read since the last, and a fifth of everything: an entry is written five times
/// in all, however large the log.
const SNAPSHOT_EVERY: u64 = 4096;

/// A log as far as it was read, and the largest head of it that was believed.
pub(super) struct Follower {
    log: LogClient,
    log_key: VerifierKey,
    folder: Folder,
    pub(super) fold: Fold,
    pub(super) largest: Option<SignedCheckpoint<Verified>>,
    snapshot_at: u64,
    /// How long a call may take, and when the present one's time is up.
    total: Duration,
    until: Instant,
}

impl Follower {
    pub(super) fn open(
        log: LogClient,
        log_key: VerifierKey,
        folder: Folder,
        total: Duration,
    ) -> Result<Self, HistoryError> {
        let largest = folder.head(&log_key)?;
        let mut fold = folder.fold();
        // The head is durable first: a fold beyond it is another log's, or a copy's.
        if largest.as_ref().is_none_or(|head| head.checkpoint().size < fold.size()) {
            fold = Fold::default();
        }
        let snapshot_at = fold.size().0;
        Ok(Self { log, log_key, folder, fold, largest, snapshot_at, total, until: Instant::now() })
    }

    /// Gives the log its time, from when the call came.
    pub(super) fn begin(&mut self, asked: Instant) {
        self.until = asked.checked_add(self.total).unwrap_or_else(|| asked + FAR_OFF);
    }

    pub(super) fn log_key(&self) -> &VerifierKey {
        &self.log_key
    }

    pub(super) fn log(&self) -> &LogClient {
        &self.log
    }

    /// The head that the log offers now, signed by its key. It is not believed yet.
    pub(super) async fn offered(&self) -> Result<SignedCheckpoint<Verified>, HistoryError> {
        let bytes = self.in_time(self.fold.size(), self.log.checkpoint()).await??;
        Ok(SignedCheckpoint::parse(&bytes)?.verify(&self.log_key)?)
    }

    /// Reads the log up to this head, if it goes on from the largest one seen.
    ///
    /// # Errors
    /// [`HistoryError`]; what was read and fits stays.
    pub(super) async fn believe(&mut self, head: &SignedCheckpoint<Verified>) -> Result<(), HistoryError> {
        let size = head.checkpoint().size;
        if let Some(held) = &self.largest {
            let tiles = self.tiles(held.checkpoint().size, size).await;
            match compare(held, head, tiles.as_ref().unwrap_or(&TileSet::new())) {
                Comparison::Fork(evidence) => return Err(self.fork(held, head, &evidence)?),
                Comparison::Unproven(why) => {
                    tiles?;
                    return Err(HistoryError::Unproven(why.to_string()));
                }
                Comparison::Consistent if size < held.checkpoint().size => {
                    return Err(HistoryError::RolledBack { held: held.checkpoint().size.0, offered: size.0 });
                }
                Comparison::Consistent => {}
            }
        }
        self.check_fold(head).await?;
        while self.fold.size() < size {
            self.read_on(head).await?;
        }
        if self.largest.as_ref().is_none_or(|held| held.checkpoint().size < size) {
            let (folder, kept) = (self.folder.clone(), head.clone());
            in_background(move || folder.keep_head(&kept)).await?;
        }
        // Also of the size held: it may carry cosignatures of today.
        self.largest = Some(head.clone());
        if size.0 >= self.snapshot_at + SNAPSHOT_EVERY.max(size.0 / 5) {
            let (folder, fold) = (self.folder.clone(), self.fold.clone());
            in_background(move || folder.keep_fold(&fold)).await;
            self.snapshot_at = size.0;
        }
        Ok(())
    }

    /// What was read before must be what the head says it was; it may have come from a damaged disk.
    async fn check_fold(&mut self, head: &SignedCheckpoint<Verified>) -> Result<(), HistoryError> {
        if self.fold.size() > head.checkpoint().size || !self.is_under(head, self.fold.size(), self.fold.root()).await?
        {
            tracing::warn!(
                size = self.fold.size().0,
                "what was kept of the log is not what the log holds; it is read anew"
            );
            self.fold = Fold::default();
            self.snapshot_at = 0;
        }
        Ok(())
    }

    /// Reads the next pages, and takes them if the head vouches for them.
    async fn read_on(&mut self, head: &SignedCheckpoint<Verified>) -> Result<(), HistoryError> {
        let (from, size) = (self.fold.size().0, head.checkpoint().size.0);
        let width = u64::from(TILE_WIDTH);
        let log = &self.log;
        let pages = (from / width..size.div_ceil(width)).filter_map(|index| PageId::at(index, size)).take(BATCH_PAGES);
        let mut fetched = stream::iter(pages)
            .map(|page| async move { log.page(&ResourcePath::Entries(page)).await })
            .buffered(PAGES_AT_ONCE);
        let (mut entries, mut bytes): (Vec<Bytes>, usize) = (Vec::new(), 0);
        let begun = Instant::now();
        while let Some(page) = self.in_time(head.checkpoint().size, fetched.next()).await? {
            let page = page?;
            bytes += page.iter().map(Bytes::len).sum::<usize>();
            entries.extend(page);
            if bytes >= BATCH_BYTES || begun.elapsed() >= BATCH_TIME {
                break;
            }
        }
        drop(fetched);
        // The first page may begin with entries that were read when it was narrower.
        let known = usize::try_from(from % width).unwrap_or(usize::MAX).min(entries.len());
        let batch = self.fold.batch(entries.split_off(known));
        if batch.size() <= self.fold.size() || !self.is_under(head, batch.size(), batch.root()).await? {
            let what = format!("entries {from} to {} hash to another root than the log signed", batch.size().0);
            return Err(HistoryError::Unproven(what));
        }
        // Signatures take a while; nobody else may wait for them. A follower whose caller went away reads again.
        let mut fold = std::mem::take(&mut self.fold);
        self.fold = in_background(move || {
            fold.take(&batch);
            fold
        })
        .await;
        Ok(())
    }

    /// Whether the tree of the head had this root at this size.
    async fn is_under(
        &self,
        head: &SignedCheckpoint<Verified>,
        size: TreeSize,
        root: merkle::RootHash,
    ) -> Result<bool, HistoryError> {
        if size == head.checkpoint().size {
            return Ok(root == head.checkpoint().root);
        }
        let tiles = self.tiles(size, head.checkpoint().size).await?;
        let implied = implied_root(&tiles, size, head).map_err(|why| HistoryError::Unproven(why.to_string()))?;
        Ok(implied.root == root)
    }

    async fn tiles(&self, one: TreeSize, other: TreeSize) -> Result<TileSet, HistoryError> {
        Ok(self.in_time(one.max(other), self.log.tiles(&tiles_needed(one, other))).await??)
    }

    /// Waits for the log as long as the call may. Nothing but what is fetched may be waited for by this: what stops in the middle
    /// is lost.
    async fn in_time<T>(&self, size: TreeSize, asked: impl Future<Output = T>) -> Result<T, HistoryError> {
        let (total, read) = (self.total, self.fold.size().0);
        let answer = tokio::time::timeout_at(self.until, asked).await;
        answer.map_err(|_| HistoryError::TooSlow { total, read, size: size.0 })
    }

    /// Keeps the evidence, and answers what to say of it.
    fn fork(
        &self,
        held: &SignedCheckpoint<Verified>,
        offered: &SignedCheckpoint<Verified>,
        evidence: &cosign::LogFork,
    ) -> Result<HistoryError, HistoryError> {
        let document = serde_json::to_vec(evidence).unwrap_or_default();
        let kept = self.folder.keep_evidence(&document)?;
        let (held, offered) = (held.checkpoint().size.0, offered.checkpoint().size.0);
        Ok(HistoryError::Fork { held, offered, kept, evidence: Box::new(evidence.clone()) })
    }
}

/// Does work that takes long without holding up the runtime.
async fn in_background<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(failed) => match failed.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            // The runtime is shutting down, and with it whoever waits here.
            Err(_) => std::future::pending().await,
        },
    }
}
