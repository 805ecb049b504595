//! Who may have a connection, and who has to give one up: the places of a listener, counted in all and by peer.
//!
//! ```text
//! new connection ── peer has its share ──> turned away
//!               └── a place is free ─────> takes it
//!               └── none is free ────────> takes that of the oldest peer that has never finished a request;
//!                                          if there is none, that of the peer that has let us wait the longest,
//!                                          if that is a while; else turned away
//! ```
//!
//! We wait for a peer while it owes us something: a request's headers, the rest of its body, or the reading of its answer.
//! While we owe it an answer its place is never given away. So connections that are opened and not used keep nobody out, and
//! cost nobody a connection that he used before; the others keep nobody out for longer than [`PATIENCE`].

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;

/// How long a peer that was answered before may let us wait until its place can be given to another. A gate that sends its next receipt as it
/// gets the answer to the last one is never so long without; a client that finds its connection closed makes a new one.
const PATIENCE: Duration = Duration::from_secs(1);

/// Nothing is waited for: it is our turn.
const BUSY: u64 = u64::MAX;

/// The places of one listener.
#[derive(Debug)]
pub(crate) struct Places {
    most: usize,
    most_of_one: usize,
    spare_loopback: bool,
    started: Instant,
    taken: Mutex<Taken>,
}

#[derive(Debug, Default)]
struct Taken {
    next: u64,
    seats: HashMap<u64, Arc<Seat>>,
    by_peer: HashMap<IpAddr, usize>,
}

/// Why there is no place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Full {
    /// All are taken, by busy peers.
    All,
    /// This peer has its share.
    Peer,
}

impl Full {
    /// As a metric's label.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::All => "connections",
            Self::Peer => "connections_per_peer",
        }
    }
}

/// What a connection tells of itself.
#[derive(Debug)]
pub(crate) struct Seat {
    peer: IpAddr,
    started: Instant,
    /// Milliseconds from `started` to when the peer's turn began, or [`BUSY`].
    waiting_since: AtomicU64,
    /// It has sent a whole request, and we have answered.
    answered: AtomicBool,
    /// Cancelled when the place is given to another.
    given_away: CancellationToken,
}

/// A place, held until it is dropped.
#[derive(Debug)]
pub(crate) struct Place {
    places: Arc<Places>,
    number: u64,
    seat: Arc<Seat>,
}

impl Places {
    /// `most` in all, and `most_of_one` for one peer, unless it is on this machine and `spare_loopback` holds.
    pub(crate) fn new(most: usize, most_of_one: usize, spare_loopback: bool) -> Arc<Self> {
        Arc::new(Self { most, most_of_one, spare_loopback, started: Instant::now(), taken: Mutex::default() })
    }

    /// A place for `peer`.
    pub(crate) fn take(self: &Arc<Self>, peer: SocketAddr) -> Result<Place, Full> {
        self.take_at(peer, self.started.elapsed())
    }

    fn take_at(self: &Arc<Self>, peer: SocketAddr, now: Duration) -> Result<Place, Full> {
        let address = peer.ip().to_canonical();
        let peer = household(address);
        let mut taken = self.lock();
        let of_this_peer = taken.by_peer.get(&peer).copied().unwrap_or(0);
        if of_this_peer >= self.most_of_one && !(self.spare_loopback && address.is_loopback()) {
            return Err(Full::Peer);
        }
        if taken.seats.len() >= self.most {
            let longest = taken.longest_waiting(now).ok_or(Full::All)?;
            if let Some(seat) = taken.remove(longest) {
                seat.given_away.cancel();
            }
        }
        let seat = Arc::new(Seat {
            peer,
            started: self.started,
            waiting_since: AtomicU64::new(millis(now)),
            answered: AtomicBool::new(false),
            given_away: CancellationToken::new(),
        });
        let number = taken.next;
        taken.next += 1;
        taken.seats.insert(number, Arc::clone(&seat));
        *taken.by_peer.entry(peer).or_default() += 1;
        Ok(Place { places: Arc::clone(self), number, seat })
    }

    /// Places that are taken.
    pub(crate) fn in_use(&self) -> usize {
        self.lock().seats.len()
    }

    /// Nothing that runs under the lock can leave it half-changed.
    fn lock(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Taken {
    fn longest_waiting(&self, now: Duration) -> Option<u64> {
        let standing =
            |seat: &Seat| (seat.answered.load(Ordering::Relaxed), seat.waiting_since.load(Ordering::Relaxed));
        let waiting = self.seats.iter().map(|(number, seat)| (standing(seat), *number));
        let ((answered, since), number) = waiting.filter(|((_, since), _)| *since != BUSY).min()?;
        let waited = millis(now).saturating_sub(since);
        (!answered || waited >= millis(PATIENCE)).then_some(number)
    }

    fn remove(&mut self, number: u64) -> Option<Arc<Seat>> {
        let seat = self.seats.remove(&number)?;
        if let Some(count) = self.by_peer.get_mut(&seat.peer) {
            *count -= 1;
            if *count == 0 {
                self.by_peer.remove(&seat.peer);
            }
        }
        Some(seat)
    }
}

impl Seat {
    /// A whole request has come, or some of its answer was taken: it is our turn.
    pub(crate) fn is_busy(&self) {
        self.waiting_since.store(BUSY, Ordering::Relaxed);
    }

    /// The next request is waited for.
    pub(crate) fn waits(&self) {
        self.waiting_since.store(millis(self.started.elapsed()), Ordering::Relaxed);
    }

    /// The headers of a request have come. Who was answered before gets new patience for the body; who was not has to be
    /// done with all of it.
    pub(crate) fn has_asked(&self) {
        if self.answered.load(Ordering::Relaxed) {
            self.waits();
        }
    }

    /// There is an answer to a request.
    pub(crate) fn is_answered(&self) {
        self.answered.store(true, Ordering::Relaxed);
    }

    /// The peer does not read its answer. How long that lasts counts from the first time.
    pub(crate) fn stalls(&self) {
        let now = millis(self.started.elapsed());
        let _waits_already = self.waiting_since.compare_exchange(BUSY, now, Ordering::Relaxed, Ordering::Relaxed);
    }
}

impl Place {
    /// For the connection to say what it does.
    pub(crate) fn seat(&self) -> Arc<Seat> {
        Arc::clone(&self.seat)
    }

    /// Resolves when the place was given to another.
    pub(crate) async fn given_away(&self) {
        self.seat.given_away.cancelled().await;
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // Gone already if it was given away.
        self.places.lock().remove(self.number);
    }
}

/// Whom an address is counted as. Who has one IPv6 address has a /64 of them.
fn household(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(_) => address,
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() >> 64 << 64).into(),
    }
}

fn millis(duration: Duration) -> u64 {
    // Millions of years; one less than BUSY at most.
    u64::try_from(duration.as_millis()).unwrap_or(BUSY - 1)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;

    fn peer(address: &str) -> SocketAddr {
        SocketAddr::new(address.parse().unwrap(), 1)
    }

    const NOW: Duration = Duration::from_secs(10);

    #[test]
    fn one_peer_gets_its_share_and_others_the_rest() {
        let places = Places::new(4, 2, true);
        let held: Vec<Place> = (0..2).map(|_| places.take_at(peer("192.0.2.1"), NOW).unwrap()).collect();
        assert_eq!(places.take_at(peer("192.0.2.1"), NOW).unwrap_err(), Full::Peer);
        // The same peer, by the other spelling of its address.
        assert_eq!(places.take_at(peer("::ffff:192.0.2.1"), NOW).unwrap_err(), Full::Peer);
        let other = places.take_at(peer("192.0.2.2"), NOW).unwrap();
        drop(held);
        assert!(places.take_at(peer("192.0.2.1"), NOW).is_ok());
        drop(other);
        assert_eq!(places.in_use(), 0);
        assert!(places.lock().by_peer.is_empty());
    }

    #[test]
    fn neighbours_in_one_ipv6_network_are_one_peer() {
        let places = Places::new(9, 1, true);
        let _held = places.take_at(peer("2001:db8:1:2::1"), NOW).unwrap();
        assert_eq!(places.take_at(peer("2001:db8:1:2:ffff::9"), NOW).unwrap_err(), Full::Peer);
        assert!(places.take_at(peer("2001:db8:1:3::1"), NOW).is_ok());
    }

    #[test]
    fn this_machine_is_spared_if_so_wanted() {
        let (sparing, strict) = (Places::new(9, 1, true), Places::new(9, 1, false));
        for address in ["127.0.0.1", "127.0.0.2", "::1"] {
            let _held = (sparing.take_at(peer(address), NOW).unwrap(), strict.take_at(peer(address), NOW).unwrap());
            assert!(sparing.take_at(peer(address), NOW).is_ok());
            assert_eq!(strict.take_at(peer(address), NOW).unwrap_err(), Full::Peer);
        }
    }

    #[test]
    fn the_longest_silent_connection_gives_way_when_all_places_are_taken() {
        let places = Places::new(2, 9, true);
        let first = places.take_at(peer("192.0.2.1"), NOW).unwrap();
        let second = places.take_at(peer("192.0.2.2"), NOW + Duration::from_millis(500)).unwrap();
        first.seat.is_answered();
        second.seat.is_answered();
        let third = peer("192.0.2.3");
        assert_eq!(places.take_at(third, NOW + Duration::from_millis(999)).unwrap_err(), Full::All);
        let third = places.take_at(third, NOW + PATIENCE).unwrap();
        assert!(first.seat.given_away.is_cancelled() && !second.seat.given_away.is_cancelled());
        // The end of the one that gave way frees nothing more.
        drop(first);
        assert_eq!((places.in_use(), places.lock().by_peer.len()), (2, 2));
        drop((second, third));
        assert_eq!(places.in_use(), 0);
    }

    #[test]
    fn who_never_finished_a_request_gives_way_before_anybody_who_did_and_at_once() {
        let places = Places::new(3, 9, true);
        let used = places.take_at(peer("192.0.2.1"), NOW).unwrap();
        used.seat.is_answered();
        let older = places.take_at(peer("192.0.2.2"), NOW + Duration::from_millis(1)).unwrap();
        let newer = places.take_at(peer("192.0.2.3"), NOW + Duration::from_millis(2)).unwrap();
        older.seat.has_asked();
        let much_later = NOW + Duration::from_secs(9);
        let _newcomer = places.take_at(peer("192.0.2.4"), much_later).unwrap();
        let _another = places.take_at(peer("192.0.2.5"), much_later).unwrap();
        let gone = [&used, &older, &newer].map(|place| place.seat.given_away.is_cancelled());
        assert_eq!(gone, [false, true, true]);
    }

    #[test]
    fn a_peer_that_does_not_read_its_answer_is_waited_for_from_when_it_stopped() {
        let places = Places::new(1, 9, true);
        let held = places.take_at(peer("192.0.2.1"), NOW).unwrap();
        held.seat.is_busy();
        held.seat.is_answered();
        held.seat.stalls();
        let stalled = held.seat.waiting_since.load(Ordering::Relaxed);
        assert_ne!(stalled, BUSY);
        std::thread::sleep(Duration::from_millis(3));
        held.seat.stalls();
        assert_eq!(held.seat.waiting_since.load(Ordering::Relaxed), stalled);
    }

    #[test]
    fn a_busy_connection_never_gives_way() {
        let places = Places::new(1, 9, true);
        let held = places.take_at(peer("192.0.2.1"), NOW).unwrap();
        held.seat().is_busy();
        assert_eq!(places.take_at(peer("192.0.2.2"), NOW + Duration::from_secs(60)).unwrap_err(), Full::All);
        held.seat().waits();
        assert!(places.take_at(peer("192.0.2.2"), NOW + Duration::from_secs(60)).is_ok());
        assert!(held.seat.given_away.is_cancelled());
    }
}
