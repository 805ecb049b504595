//! Who may have a connection, and who has to give one up: the places of a listener, counted in all and by peer.
//!
//! ```text
//! new connection ── peer has its share ──> turned away
//!               └── a place is free ─────> takes it
//!               └── none is free ────────> takes that of the oldest peer that has never finished a request;
//!                                          if there is none, that of the peer that has let us wait the longest,
//!                                          if that is a while; else that of a peer that is between two requests,
//!                                          from the address that holds the most, if that is more than the newcomer's
//!                                          then would; else, now and then, that of the one that has had its place
//!                                          the longest; else turned away
//! ```
//!
//! We wait for a peer while it owes us something: a request's headers, the rest of its body, or the reading of its answer.
//! While we owe it an answer its place is never given away. So connections that are opened and not used keep nobody out, and
//! cost nobody a connection that he used before; the others keep nobody out for longer than [`PATIENCE`]. Who asks again within
//! that time, for ever, keeps out neither those of other addresses, if he has more places than they, nor anybody for long: the
//! places go round ([`ROUND`]).

use std::cmp::Reverse;
use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;

/// How long a peer that was answered before may let us wait until its place can be given to another. A gate that sends its next receipt as it
/// gets the answer to the last one is never so long without; a client that finds its connection closed makes a new one.
const PATIENCE: Duration = Duration::from_secs(1);

/// How long it takes at the least until as many peers that keep asking as there are places have lost theirs to newcomers: as long
/// as a kept-alive connection may be idle by default, so that a stream of newcomers costs an honest client about as many new
/// connections as a quiet minute does. One place goes round every so many parts of it as there are places: with 1,024 of them
/// every 15 ms, with 64 every 234 ms, which is four newcomers in the second after which one that is turned away comes again.
const ROUND: Duration = Duration::from_secs(15);

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
    /// When a place went round last.
    went_round: Option<Duration>,
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
    /// From `started` to when the place was taken.
    taken: Duration,
    /// Milliseconds from `started` to when the peer's turn began, or [`BUSY`].
    waiting_since: AtomicU64,
    /// It is between two requests: it has read an answer, and nothing was heard of a next request.
    between: AtomicBool,
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
            let gives_way = taken.longest_waiting(now).or_else(|| taken.of_the_richest(of_this_peer + 1));
            let gives_way = gives_way.or_else(|| taken.next_in_the_round(peer, of_this_peer + 1, now, self.most));
            if let Some(seat) = taken.remove(gives_way.ok_or(Full::All)?) {
                seat.given_away.cancel();
            }
        }
        let seat = Arc::new(Seat {
            peer,
            started: self.started,
            taken: now,
            waiting_since: AtomicU64::new(millis(now)),
            between: AtomicBool::new(false),
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

    /// Of the seats between two requests whose peer has more than `wanted` places, those of the peer with the most; of these the
    /// one that has been so the longest.
    fn of_the_richest(&self, wanted: usize) -> Option<u64> {
        let richer = self.between().filter(|(held, ..)| *held > wanted);
        let longest = richer
            .min_by_key(|(held, number, seat)| (Reverse(*held), seat.waiting_since.load(Ordering::Relaxed), *number));
        longest.map(|(_, number, _)| number)
    }

    /// The seat that has been taken the longest, of those between two requests. Not before a place has been held for
    /// [`PATIENCE`], not before it is time for one to go round, and never from a peer that has fewer than the newcomer would.
    fn next_in_the_round(&mut self, peer: IpAddr, wanted: usize, now: Duration, most: usize) -> Option<u64> {
        let interval = ROUND / u32::try_from(most).unwrap_or(u32::MAX).max(1);
        if self.went_round.is_some_and(|last| now < last + interval) {
            return None;
        }
        let may = |held: usize, seat: &Seat| {
            (seat.peer == peer || held >= wanted) && now.saturating_sub(seat.taken) >= PATIENCE
        };
        // Numbers go up, so the lowest is the oldest.
        let oldest = self.between().filter(|(held, _, seat)| may(*held, seat)).map(|(_, number, _)| number).min()?;
        self.went_round = Some(now);
        Some(oldest)
    }

    /// The seats between two requests, with how many their peer has.
    fn between(&self) -> impl Iterator<Item = (usize, u64, &Seat)> {
        let between = self.seats.iter().filter(|(_, seat)| seat.between.load(Ordering::Relaxed));
        between.map(|(number, seat)| (self.by_peer.get(&seat.peer).copied().unwrap_or(0), *number, &**seat))
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
        self.between.store(false, Ordering::Relaxed);
        self.waiting_since.store(BUSY, Ordering::Relaxed);
    }

    /// The next request is waited for.
    pub(crate) fn waits(&self) {
        self.waits_at(self.started.elapsed());
    }

    fn waits_at(&self, now: Duration) {
        self.waiting_since.store(millis(now), Ordering::Relaxed);
        self.between.store(self.answered.load(Ordering::Relaxed), Ordering::Relaxed);
    }

    /// The headers of a request have come. Who was answered before gets new patience for the body; who was not has to be
    /// done with all of it.
    pub(crate) fn has_asked(&self) {
        self.has_asked_at(self.started.elapsed());
    }

    fn has_asked_at(&self, now: Duration) {
        self.between.store(false, Ordering::Relaxed);
        if self.answered.load(Ordering::Relaxed) {
            self.waiting_since.store(millis(now), Ordering::Relaxed);
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

    /// A place of a peer that asks again within [`PATIENCE`] for ever, as it is between two requests.
    fn kept(places: &Arc<Places>, address: &str, taken: Duration, last: Duration) -> Place {
        let place = places.take_at(peer(address), taken).unwrap();
        place.seat.is_answered();
        place.seat.waits_at(last);
        place
    }

    fn gone<'a>(places: impl IntoIterator<Item = &'a Place>) -> Vec<bool> {
        places.into_iter().map(|place| place.seat.given_away.is_cancelled()).collect()
    }

    #[test]
    fn who_asks_often_on_many_connections_makes_room_for_those_who_have_fewer() {
        let places = Places::new(4, 9, true);
        let ms = |ms| NOW + Duration::from_millis(ms);
        let many = [5, 3, 4].map(|last| kept(&places, "192.0.2.1", NOW, ms(last)));
        let one = kept(&places, "192.0.2.2", NOW, ms(1));
        // The longest between two requests is one that is the only one of its peer; next comes the second of the many.
        let _newcomer = kept(&places, "192.0.2.3", ms(6), ms(6));
        assert_eq!((gone(&many), gone([&one])), (vec![false, true, false], vec![false]));
        // One that has sent the headers of its next request is not between two.
        many[2].seat.has_asked_at(ms(6));
        let _another = kept(&places, "192.0.2.4", ms(7), ms(7));
        assert_eq!((gone(&many), gone([&one])), (vec![true, true, false], vec![false]));
        // Now nobody has more than a newcomer would.
        assert_eq!(places.take_at(peer("192.0.2.5"), ms(8)).unwrap_err(), Full::All);
    }

    #[test]
    fn places_of_peers_that_keep_asking_go_round_and_not_faster_than_in_a_round() {
        let (one, several) = (vec!["127.0.0.1".to_owned(); 6], (1..7).map(|last| format!("192.0.2.{last}")).collect());
        for addresses in [one, several] {
            let places = Places::new(3, 9, true);
            let mut held: Vec<Place> =
                addresses[..3].iter().map(|address| kept(&places, address, NOW, NOW + PATIENCE)).collect();
            let newcomer = peer(&addresses[3]);
            // Nobody is cut off in its first moments.
            let soon = NOW + PATIENCE - Duration::from_millis(1);
            assert_eq!(places.take_at(newcomer, soon).unwrap_err(), Full::All);
            // The first is the oldest, but its next request is on the way in.
            held[0].seat.has_asked_at(NOW + PATIENCE);
            let begun = NOW + PATIENCE;
            held.push(kept(&places, &addresses[3], begun, begun));
            assert_eq!(gone(&held), [false, true, false, false]);
            // However many come, one a third of a round gets a place, from the one that has had its own the longest.
            let mut let_in = 0;
            for ms in (0..15_000).step_by(100) {
                let now = begun + Duration::from_millis(ms);
                for place in &held {
                    place.seat.is_answered();
                    place.seat.waits_at(now);
                }
                if let Ok(place) = places.take_at(peer(&addresses[held.len().min(5)]), now) {
                    let_in += 1;
                    held.push(place);
                    held.last().unwrap().seat.is_answered();
                }
            }
            assert_eq!((let_in, gone(&held)), (2, vec![true, true, true, false, false, false]));
        }
    }

    #[test]
    fn a_peer_with_many_places_takes_none_from_one_with_fewer() {
        let places = Places::new(3, 9, true);
        let later = NOW + PATIENCE * 9;
        let few = kept(&places, "192.0.2.2", NOW, later);
        let many = [kept(&places, "192.0.2.1", NOW, later), kept(&places, "192.0.2.1", NOW, later)];
        assert!(places.take_at(peer("192.0.2.1"), later).is_ok());
        assert_eq!((gone([&few]), gone(&many)), (vec![false], vec![true, false]));
    }
}
