//! Room on the store's disk: below a watermark the log takes no receipts, so that it stops before it has promised anything
//! and not in the middle of a commit, where only a restart can tell what is on the disk.
//!
//! Holds the decision, the thread that looks, and the refusal in front of the submissions. Reads go on: they need no room.

use crate::instruments::refused;
use crate::refusal::NotTaken;
use axum::extract::Request;
use axum::response::{IntoResponse, Response};
use futures_util::future::{Either, Ready, ready};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError, SyncSender};
use std::task::{Context, Poll};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;
use tower::{Layer, Service};

/// How often the free space is looked at. At 100 MB/s, more than a log of this make writes, half a second is 50 MB: a fifth of
/// the default watermark.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// Whether receipts are to be taken with `free` bytes left, if at the last look they were (`took`). Stops below `least`, begins
/// again a tenth above it: a disk at the mark must not make the log change its mind at every look.
pub fn takes_receipts(took: bool, free: u64, least: u64) -> bool {
    let enough = if took { least } else { least.saturating_add(least / 10) };
    free >= enough
}

/// What is known of the room.
#[derive(Debug)]
pub struct Room {
    least: u64,
    free: AtomicU64,
    enough: AtomicBool,
}

impl Room {
    /// Receipts are taken while `least` bytes are free. Until the first look there is room.
    pub fn new(least: u64) -> Self {
        Self { least, free: AtomicU64::new(u64::MAX), enough: AtomicBool::new(true) }
    }

    /// Whether receipts are taken.
    pub fn is_enough(&self) -> bool {
        self.enough.load(Ordering::Relaxed)
    }

    /// Free bytes at the last look; `None` before it.
    pub fn free(&self) -> Option<u64> {
        Some(self.free.load(Ordering::Relaxed)).filter(|free| *free != u64::MAX)
    }

    /// Takes over what a look found. A change is logged, once.
    pub fn found(&self, free: u64) {
        self.free.store(free, Ordering::Relaxed);
        let took = self.is_enough();
        let takes = takes_receipts(took, free, self.least);
        self.enough.store(takes, Ordering::Relaxed);
        match (took, takes) {
            (true, false) => tracing::error!(
                free_bytes = free,
                least_bytes = self.least,
                "the store's disk is nearly full: no receipts are taken until there is room again (min_free_mib)"
            ),
            (false, true) => tracing::info!(free_bytes = free, "there is room again: receipts are taken"),
            _ => {}
        }
    }
}

/// Bytes that the file system of `path` has left for those who are not root.
///
/// # Errors
/// What the system says.
pub fn free_bytes(path: &Path) -> io::Result<u64> {
    let system = rustix::fs::statvfs(path)?;
    Ok(system.f_bavail.saturating_mul(system.f_frsize))
}

/// The thread that looks. It ends when this is dropped.
#[derive(Debug)]
pub struct Watch {
    stop: Option<SyncSender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Watch {
    /// Looks at the file system of `dir` once, and then twice a second. A look that fails changes nothing.
    ///
    /// # Errors
    /// The system gives no thread.
    pub fn start(room: Arc<Room>, dir: PathBuf) -> io::Result<Self> {
        let (stop, stopped) = mpsc::sync_channel::<()>(0);
        let mut readable = true;
        let mut look = move || match free_bytes(&dir) {
            Ok(free) => {
                readable = true;
                room.found(free);
            }
            Err(error) => {
                if std::mem::replace(&mut readable, false) {
                    tracing::error!(%error, dir = %dir.display(), "the free space of the store's disk cannot be read");
                }
            }
        };
        look();
        let thread = Builder::new().name("room".to_owned()).spawn(move || {
            while stopped.recv_timeout(LOOK_EVERY) == Err(RecvTimeoutError::Timeout) {
                look();
            }
        })?;
        Ok(Self { stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _panicked = thread.join();
        }
    }
}

/// Puts [`NotTaken::NoRoom`] in front of a service for as long as there is no room: before the body is read.
#[derive(Clone, Debug)]
pub struct WhileThereIsRoom(pub Arc<Room>);

/// A service with the refusal in front.
#[derive(Clone, Debug)]
pub struct RefusesWithoutRoom<S> {
    room: Arc<Room>,
    inner: S,
}

impl<S> Layer<S> for WhileThereIsRoom {
    type Service = RefusesWithoutRoom<S>;

    fn layer(&self, inner: S) -> Self::Service {
        RefusesWithoutRoom { room: Arc::clone(&self.0), inner }
    }
}

impl<S: Service<Request, Response = Response>> Service<Request> for RefusesWithoutRoom<S> {
    type Response = Response;
    type Error = S::Error;
    type Future = Either<S::Future, Ready<Result<Response, S::Error>>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request) -> Self::Future {
        if self.room.is_enough() {
            return Either::Left(self.inner.call(request));
        }
        Either::Right(ready(Ok(refused(NotTaken::NoRoom).to_problem().into_response())))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;

    #[test]
    fn receipts_stop_below_the_mark_and_come_back_a_tenth_above_it() {
        for (took, free, takes) in [
            (true, 1000, true),
            (true, 999, false),
            (false, 1000, false),
            (false, 1099, false),
            (false, 1100, true),
            (true, 0, false),
            (false, u64::MAX, true),
        ] {
            assert_eq!(takes_receipts(took, free, 1000), takes, "took {took}, free {free}");
        }
    }

    #[test]
    fn a_mark_of_nothing_never_stops_and_one_beyond_every_disk_always_does() {
        assert!(takes_receipts(true, 0, 0) && takes_receipts(false, 0, 0));
        assert!(!takes_receipts(true, u64::MAX - 1, u64::MAX) && !takes_receipts(false, u64::MAX - 1, u64::MAX));
    }

    #[test]
    fn the_room_remembers_on_which_side_of_the_mark_it_was() {
        let room = Room::new(100);
        assert!(room.is_enough() && room.free().is_none());
        for (free, enough) in [(100, true), (99, false), (109, false), (110, true), (100, true)] {
            room.found(free);
            assert_eq!((room.is_enough(), room.free()), (enough, Some(free)));
        }
    }

    #[test]
    fn the_watch_looks_at_once_and_ends_when_it_is_dropped() {
        let dir = tempfile::tempdir().unwrap();
        let room = Arc::new(Room::new(u64::MAX));
        let watch = Watch::start(Arc::clone(&room), dir.path().to_owned()).unwrap();
        assert!(room.free().is_some() && !room.is_enough());
        drop(watch);
        assert_eq!(Arc::strong_count(&room), 1);
    }
}
