//! The offered head, shared: the committer says what was signed, witnesses' answers come in, and `/checkpoint`
//! and the submitters that wait for a quorum see the outcome. The rules are [`crate::offers`]'; this is the lock
//! and the clockwork around them.

use crate::offers::{Offers, Taken};
use bytes::Bytes;
use note::{CosignatureLine, SignedCheckpoint, Verified};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::{Notify, watch};

/// A head with the cosignatures it has.
pub type Head = Arc<SignedCheckpoint<Verified>>;

/// What is published, and when it moves.
#[derive(Debug)]
pub struct Publication {
    started: Instant,
    interval: Duration,
    offers: Mutex<Offers>,
    /// The newest durable signed head, on offer or not.
    newest: watch::Sender<Option<Head>>,
    /// What `/checkpoint` serves.
    served: watch::Sender<Option<Bytes>>,
    /// The newest head with a quorum.
    cosigned: watch::Sender<Option<Head>>,
    /// Counts the offers; witnesses are nudged at each.
    moved: watch::Sender<u64>,
    /// A head is waiting to be offered: the ticker has something to time.
    waiting: Notify,
    times: Mutex<Times>,
}

/// When what is published last moved. Durations since the start.
#[derive(Debug, Default)]
struct Times {
    signed: Duration,
    offered: Duration,
    /// By place of the witness: when its newest cosignature came, and the largest size it is known to have cosigned.
    cosigned: BTreeMap<usize, (Duration, u64)>,
}

/// How old everything published is, for whoever watches the log.
#[derive(Clone, Debug)]
pub struct Ages {
    /// Entries under the newest signed head.
    pub size: u64,
    /// Since the newest head was signed.
    pub signed: Duration,
    /// Since the head on offer was put there.
    pub offered: Duration,
    /// How long the newest signed head has been waiting to be offered.
    pub offer_lag: Duration,
    /// By place of the witness, for those that have cosigned anything since the start.
    pub cosigned: BTreeMap<usize, Cosigned>,
}

/// What is known of one witness's cosignatures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cosigned {
    /// Since its newest cosignature came.
    pub age: Duration,
    /// The largest size it cosigned.
    pub size: u64,
}

impl Publication {
    /// Publishes by the rules of `offers`, whose interval is `interval`.
    pub fn new(offers: Offers, interval: Duration) -> Self {
        Self {
            started: Instant::now(),
            interval,
            offers: Mutex::new(offers),
            newest: watch::Sender::new(None),
            served: watch::Sender::new(None),
            cosigned: watch::Sender::new(None),
            moved: watch::Sender::new(0),
            waiting: Notify::new(),
            times: Mutex::default(),
        }
    }

    /// A head was signed and is durable.
    pub fn signed(&self, head: &Head) {
        let mut offers = self.lock();
        self.newest.send_replace(Some(Arc::clone(head)));
        self.times().signed = self.started.elapsed();
        if offers.signed(head.as_ref().clone(), self.started.elapsed()) {
            self.publish(&offers, true);
        } else {
            self.waiting.notify_one();
        }
    }

    /// The witness at `place` answered with `lines`.
    pub fn cosigned(&self, place: usize, lines: &[CosignatureLine]) -> Taken {
        let mut offers = self.lock();
        let taken = offers.cosigned(place, lines);
        if taken.news {
            if let Some(size) = taken.size {
                let mut times = self.times();
                let newest = times.cosigned.entry(place).or_default();
                *newest = (self.started.elapsed(), newest.1.max(size.0));
            }
            // It may have been the last one that was waited for.
            let moved = offers.tick(self.started.elapsed());
            self.publish(&offers, moved);
        }
        taken
    }

    /// Whether the witness at `place` has cosigned the head on offer, with every key that it has.
    pub fn is_cosigned_by(&self, place: usize) -> bool {
        self.lock().is_cosigned_by(place)
    }

    /// The head on offer with the cosignatures it has, once there is one.
    pub fn offered(&self) -> Option<SignedCheckpoint<Verified>> {
        self.lock().served()
    }

    /// The checkpoint to serve, once there is one.
    pub fn served(&self) -> Option<Bytes> {
        self.served.borrow().clone()
    }

    /// The newest durable signed head.
    pub fn newest_signed(&self) -> Option<Head> {
        self.newest.borrow().clone()
    }

    /// The head by which to prove that leaf `index` is in the log: the newest one with a quorum if it covers the
    /// leaf, since that convinces more people, else the newest signed one.
    pub fn head_over(&self, index: u64) -> Option<Head> {
        let covers = |head: &Head| head.checkpoint().size.0 > index;
        let cosigned = self.cosigned.borrow().clone();
        cosigned.filter(covers).or_else(|| self.newest_signed().filter(covers))
    }

    /// Follows the offers: changes whenever another head is on offer.
    pub fn follow(&self) -> watch::Receiver<u64> {
        self.moved.subscribe()
    }

    /// Waits for a head with a quorum that covers leaf `index`.
    pub async fn cosigned_over(&self, index: u64) -> Head {
        let mut cosigned = self.cosigned.subscribe();
        let covers = |head: &Option<Head>| head.as_ref().is_some_and(|head| head.checkpoint().size.0 > index);
        match cosigned.wait_for(covers).await.map(|head| head.clone()) {
            Ok(Some(head)) => head,
            // The sender lives as long as `self`, and what was waited for is `Some`.
            Ok(None) | Err(_) => std::future::pending().await,
        }
    }

    /// Whether the offered head is at most two intervals behind the newest signed one.
    pub fn keeps_up(&self) -> bool {
        self.lock().behind(self.started.elapsed()) <= self.interval.saturating_mul(2)
    }

    /// How old everything published is.
    pub fn ages(&self) -> Ages {
        let now = self.started.elapsed();
        let offer_lag = self.lock().behind(now);
        let times = self.times();
        let cosigned = |(place, (at, size)): (&usize, &(Duration, u64))| {
            (*place, Cosigned { age: now.saturating_sub(*at), size: *size })
        };
        Ages {
            size: self.newest_signed().map_or(0, |head| head.checkpoint().size.0),
            signed: now.saturating_sub(times.signed),
            offered: now.saturating_sub(times.offered),
            offer_lag,
            cosigned: times.cosigned.iter().map(cosigned).collect(),
        }
    }

    /// Moves the offer when its interval has passed. Runs until it is dropped.
    pub async fn run_ticker(&self) {
        loop {
            let next = self.lock().next_tick();
            match next {
                Some(at) => tokio::time::sleep(at.saturating_sub(self.started.elapsed())).await,
                None => self.waiting.notified().await,
            }
            let mut offers = self.lock();
            let moved = offers.tick(self.started.elapsed());
            if moved {
                self.publish(&offers, true);
            }
        }
    }

    /// Under the lock, so that what is published never goes back.
    fn publish(&self, offers: &Offers, moved: bool) {
        if let Some(served) = offers.served() {
            metrics::gauge!("counterfoil_log_offered_size").set(served.checkpoint().size.0 as f64);
            metrics::gauge!("counterfoil_log_offered_cosignatures").set(offers.cosignatures() as f64);
            self.served.send_replace(Some(Bytes::copy_from_slice(served.bytes())));
        }
        let newest = offers.newest_cosigned();
        if newest.is_some() && *self.cosigned.borrow() != newest {
            self.cosigned.send_replace(newest);
        }
        if moved {
            self.times().offered = self.started.elapsed();
            self.moved.send_modify(|count| *count += 1);
        }
    }

    /// Taken inside [`Publication::lock`] or alone, never around it.
    fn times(&self) -> MutexGuard<'_, Times> {
        self.times.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Nothing that runs under the lock can leave the offers half-changed, so a panic elsewhere is no reason to
    /// stop serving.
    fn lock(&self) -> MutexGuard<'_, Offers> {
        self.offers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
