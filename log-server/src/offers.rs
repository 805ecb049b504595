//! Which signed head the log offers at `/checkpoint`, and which cosignatures have come for it.
//!
//! Witnesses that sample on their own clocks see different sizes, and then no head gathers a quorum. So the
//! offered head moves one at a time:
//!
//! ```text
//!              signed(head)                   all witnesses cosigned it, or the interval has passed
//!   nothing ───────────────> offer ─────────────────────────────────────────────┐
//!                              ^   newest signed head is newer: offer that one  │
//!                              └────────────────────────────────────────────────┘
//!                                  it is this one: keep it (an idle log offers nothing new)
//! ```
//!
//! Earlier offers are kept for a while, because a slow witness answers with a cosignature over the head that it
//! fetched: too late to be served, in time for whoever waits for a quorum over an entry below it.
//!
//! Pure: no clock, no network. Times are durations since some start of the caller's.

use crate::quorum::Quorum;
use merkle::TreeSize;
use note::{CosignatureLine, SignedCheckpoint, Verified, VerifierKey};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

/// Earlier offers that still take cosignatures. At the shortest sensible interval (50 ms) this is more than a
/// second, by which a witness that answers at all has answered.
const EARLIER_OFFERS: usize = 24;

/// The head on offer, those before it, and the newest one signed.
#[derive(Debug)]
pub struct Offers {
    interval: Duration,
    /// The keys of all witnesses, each with the place of its witness.
    keys: Vec<(usize, VerifierKey)>,
    quorum: Quorum,
    /// Oldest first; the last one is on offer.
    offers: VecDeque<Offer>,
    /// Signed after the head on offer.
    waiting: Option<Waiting>,
    /// The newest head whose quorum is met, with its cosignatures.
    cosigned: Option<Arc<SignedCheckpoint<Verified>>>,
}

#[derive(Debug)]
struct Offer {
    head: SignedCheckpoint<Verified>,
    since: Duration,
    /// By place of the key among all keys: its newest cosignature.
    cosignatures: BTreeMap<usize, CosignatureLine>,
}

#[derive(Debug)]
struct Waiting {
    newest: SignedCheckpoint<Verified>,
    /// When the first head beyond the one on offer was signed.
    since: Duration,
}

/// What became of the lines of a witness.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Taken {
    /// At least one line is new here and verified.
    pub news: bool,
    /// Lines that are over no head that was offered lately, or not by this witness, or stale.
    pub dropped: usize,
    /// The largest size that a new line is over.
    pub size: Option<TreeSize>,
}

impl Offers {
    /// Nothing is offered yet. `witnesses` are the keys of each configured witness; `quorum` counts by the places of the
    /// keys, one witness's after the other's.
    pub fn new(interval: Duration, witnesses: Vec<Vec<VerifierKey>>, quorum: Quorum) -> Self {
        let keys = witnesses.into_iter().enumerate();
        let keys = keys.flat_map(|(witness, keys)| keys.into_iter().map(move |key| (witness, key))).collect();
        Self { interval, keys, quorum, offers: VecDeque::new(), waiting: None, cosigned: None }
    }

    /// A head was signed and is durable. True if it is on offer now: witnesses are to be nudged.
    pub fn signed(&mut self, head: SignedCheckpoint<Verified>, now: Duration) -> bool {
        let since = self.waiting.as_ref().map_or(now, |waiting| waiting.since);
        self.waiting = Some(Waiting { newest: head, since });
        self.advance(now)
    }

    /// Time has passed. True if another head is on offer now.
    pub fn tick(&mut self, now: Duration) -> bool {
        self.advance(now)
    }

    /// When [`Offers::tick`] is worth calling next, if nothing else happens.
    pub fn next_tick(&self) -> Option<Duration> {
        self.waiting.as_ref()?;
        Some(self.offers.back()?.since.saturating_add(self.interval))
    }

    /// A witness answered with `lines`. Each is kept if it verifies, under a key of that witness, over a head that is
    /// or was on offer; every other is dropped.
    pub fn cosigned(&mut self, witness: usize, lines: &[CosignatureLine]) -> Taken {
        let mut taken = Taken::default();
        for line in lines {
            match self.take(witness, line) {
                Some(size) => (taken.news, taken.size) = (true, taken.size.max(Some(size))),
                None => taken.dropped += 1,
            }
        }
        if taken.news {
            self.settle_quorum();
        }
        taken
    }

    /// The checkpoint to serve: the head on offer with every cosignature it has.
    pub fn served(&self) -> Option<SignedCheckpoint<Verified>> {
        self.offers.back().map(Offer::with_cosignatures)
    }

    /// The newest head that was on offer and whose quorum is met.
    pub fn newest_cosigned(&self) -> Option<Arc<SignedCheckpoint<Verified>>> {
        self.cosigned.clone()
    }

    /// How long the newest signed head has been waiting to be offered. Zero when it is on offer.
    pub fn behind(&self, now: Duration) -> Duration {
        self.waiting.as_ref().map_or(Duration::ZERO, |waiting| now.saturating_sub(waiting.since))
    }

    /// Whether the witness at this place cosigned the head on offer, with every key that it has.
    pub fn is_cosigned_by(&self, witness: usize) -> bool {
        let of_witness = || self.keys.iter().enumerate().filter(|(_, (of, _))| *of == witness);
        let Some(offer) = self.offers.back() else { return false };
        of_witness().next().is_some() && of_witness().all(|(place, _)| offer.cosignatures.contains_key(&place))
    }

    /// How many cosignatures the head on offer has.
    pub fn cosignatures(&self) -> usize {
        self.offers.back().map_or(0, |offer| offer.cosignatures.len())
    }

    fn advance(&mut self, now: Duration) -> bool {
        let may_move = self.offers.back().is_none_or(|offer| {
            offer.cosignatures.len() == self.keys.len() || now >= offer.since.saturating_add(self.interval)
        });
        let Some(waiting) = self.waiting.take_if(|_| may_move) else { return false };
        self.offers.push_back(Offer { head: waiting.newest, since: now, cosignatures: BTreeMap::new() });
        if self.offers.len() > 1 + EARLIER_OFFERS {
            self.offers.pop_front();
        }
        // A policy may ask for no witness at all.
        self.settle_quorum();
        true
    }

    /// The size of the head that `line` is over, if it is news.
    fn take(&mut self, witness: usize, line: &CosignatureLine) -> Option<TreeSize> {
        let is_over = |offer: &Offer, key| line.verify(offer.head.note().text(), key).is_ok();
        // Newest first; and most keys say by their id alone that the line is another's.
        let (offer, place) = self.offers.iter_mut().rev().find_map(|offer| {
            let mut keys = (0..).zip(&self.keys);
            let place = keys.find(|(_, (of, key))| *of == witness && is_over(offer, key))?.0;
            Some((offer, place))
        })?;
        let is_newer = offer.cosignatures.get(&place).is_none_or(|held| held.timestamp_s() < line.timestamp_s());
        if is_newer {
            offer.cosignatures.insert(place, line.clone());
        }
        is_newer.then(|| offer.head.checkpoint().size)
    }

    fn settle_quorum(&mut self) {
        let quorum = &self.quorum;
        let met = self.offers.iter().rev().find(|offer| quorum.is_met_by(offer.cosignatures.keys().copied()));
        if let Some(offer) = met {
            self.cosigned = Some(Arc::new(offer.with_cosignatures()));
        }
    }
}

impl Offer {
    fn with_cosignatures(&self) -> SignedCheckpoint<Verified> {
        let lines: Vec<CosignatureLine> = self.cosignatures.values().cloned().collect();
        self.head.with_cosignatures(&lines)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;
    use merkle::{Hash, RootHash};
    use note::{Checkpoint, KeyKind, KeyName, Origin, SigningKey, cosign, sign_checkpoint};

    const INTERVAL: Duration = Duration::from_millis(200);

    fn key(name: &str, kind: KeyKind) -> SigningKey {
        let mut seed = [7; 32];
        seed[..name.len()].copy_from_slice(name.as_bytes());
        SigningKey::from_seed(KeyName::new(name).unwrap(), kind, seed)
    }

    fn head(size: u64) -> SignedCheckpoint<Verified> {
        let log = key("log", KeyKind::Ed25519);
        let root = RootHash(Hash([size as u8; 32]));
        sign_checkpoint(&Checkpoint::new(Origin::new("log").unwrap(), TreeSize(size), root), &log).unwrap()
    }

    fn witness(place: usize) -> SigningKey {
        key(["w0", "w1", "w2"][place], KeyKind::CosignatureV1)
    }

    fn line(place: usize, size: u64, timestamp_s: u64) -> CosignatureLine {
        cosign(head(size).note().text(), &witness(place), timestamp_s).unwrap().to_line().unwrap()
    }

    fn offers(witnesses: usize) -> Offers {
        Offers::new(
            INTERVAL,
            (0..witnesses).map(|place| vec![witness(place).verifier()]).collect(),
            Quorum::every(witnesses),
        )
    }

    fn at(milliseconds: u64) -> Duration {
        Duration::from_millis(milliseconds)
    }

    fn served_size(offers: &Offers) -> u64 {
        offers.served().unwrap().checkpoint().size.0
    }

    #[test]
    fn the_first_signed_head_is_offered_at_once() {
        let mut offers = offers(2);
        assert!(offers.served().is_none());
        assert!(offers.signed(head(1), at(0)));
        assert_eq!(served_size(&offers), 1);
    }

    #[test]
    fn an_offer_is_kept_until_every_witness_cosigned_it() {
        let mut offers = offers(2);
        offers.signed(head(1), at(0));
        assert!(!offers.signed(head(2), at(10)));
        offers.cosigned(0, &[line(0, 1, 5)]);
        assert!(!offers.tick(at(20)));
        offers.cosigned(1, &[line(1, 1, 5)]);
        assert!(offers.tick(at(30)));
        assert_eq!(served_size(&offers), 2);
    }

    #[test]
    fn an_offer_is_kept_no_longer_than_the_interval() {
        let mut offers = offers(2);
        offers.signed(head(1), at(0));
        offers.signed(head(2), at(50));
        assert_eq!(offers.next_tick(), Some(at(200)));
        assert!(!offers.tick(at(199)));
        assert!(offers.tick(at(200)));
        assert_eq!(served_size(&offers), 2);
    }

    #[test]
    fn the_newest_signed_head_is_offered_next_and_the_ones_between_never() {
        let mut offers = offers(1);
        offers.signed(head(1), at(0));
        for size in 2..=9 {
            assert!(!offers.signed(head(size), at(size)));
        }
        assert!(offers.tick(at(200)));
        assert_eq!(served_size(&offers), 9);
    }

    #[test]
    fn an_idle_log_offers_nothing_new() {
        let mut offers = offers(1);
        offers.signed(head(1), at(0));
        assert_eq!(offers.next_tick(), None);
        assert!(!offers.tick(at(100_000)));
        assert_eq!(offers.behind(at(100_000)), Duration::ZERO);
    }

    #[test]
    fn after_a_pause_the_next_head_is_offered_at_once() {
        let mut offers = offers(1);
        offers.signed(head(1), at(0));
        assert!(offers.signed(head(2), at(5000)));
    }

    #[test]
    fn a_log_without_witnesses_offers_every_head_at_once() {
        let mut offers = offers(0);
        assert!(offers.signed(head(1), at(0)));
        assert!(offers.signed(head(2), at(1)));
        assert!(offers.newest_cosigned().is_none(), "no quorum is met by nobody");
    }

    #[test]
    fn only_lines_that_verify_over_an_offered_head_are_served() {
        let mut offers = offers(2);
        offers.signed(head(1), at(0));
        let over_another_head = line(0, 7, 5);
        let by_another_witness = line(1, 1, 5);
        assert_eq!(
            offers.cosigned(0, &[over_another_head, by_another_witness]),
            Taken { news: false, dropped: 2, size: None }
        );
        assert_eq!(offers.cosigned(5, &[line(0, 1, 5)]), Taken { news: false, dropped: 1, size: None });
        assert_eq!(offers.served().unwrap().note().signatures().len(), 1);
        assert_eq!(offers.cosigned(0, &[line(0, 1, 5)]), Taken { news: true, dropped: 0, size: Some(TreeSize(1)) });
        assert_eq!(offers.served().unwrap().note().signatures().len(), 2);
        assert!(offers.is_cosigned_by(0) && !offers.is_cosigned_by(1) && !offers.is_cosigned_by(5));
    }

    #[test]
    fn a_later_cosignature_takes_the_place_of_an_earlier_one_and_never_the_other_way_round() {
        let mut offers = offers(1);
        offers.signed(head(1), at(0));
        assert!(offers.cosigned(0, &[line(0, 1, 5)]).news);
        assert!(offers.cosigned(0, &[line(0, 1, 9)]).news);
        assert!(!offers.cosigned(0, &[line(0, 1, 7)]).news);
        let served = offers.served().unwrap();
        assert_eq!(served.note().signatures().len(), 2);
        assert_eq!(served.note().signatures()[1].line(), line(0, 1, 9).line());
    }

    #[test]
    fn a_witness_with_two_keys_has_cosigned_once_it_did_with_both() {
        let both = [KeyKind::CosignatureV1, KeyKind::MlDsa44].map(|kind| key("w0", kind));
        let keys = vec![both.iter().map(SigningKey::verifier).collect(), vec![witness(1).verifier()]];
        let mut offers = Offers::new(INTERVAL, keys, Quorum::every(3));
        offers.signed(head(1), at(0));
        let lines =
            |size| both.each_ref().map(|key| cosign(head(size).note().text(), key, 5).unwrap().to_line().unwrap());
        assert!(offers.cosigned(0, &lines(1)[..1]).news);
        assert!(!offers.is_cosigned_by(0));
        assert!(offers.cosigned(0, &lines(1)).news);
        assert!(offers.is_cosigned_by(0));
        assert_eq!(offers.cosignatures(), 2);
        assert!(offers.newest_cosigned().is_none());
        // Neither key's line counts for the witness beside it.
        assert_eq!(offers.cosigned(1, &lines(1)), Taken { news: false, dropped: 2, size: None });
        assert!(offers.cosigned(1, &[line(1, 1, 5)]).news);
        let cosigned = offers.newest_cosigned().unwrap();
        assert_eq!(cosigned.note().signatures().len(), 4);
        // With all three the next head may follow at once.
        assert!(offers.signed(head(2), at(1)));
    }

    #[test]
    fn a_quorum_over_an_earlier_offer_counts_when_it_comes_late() {
        let mut offers = offers(2);
        offers.signed(head(1), at(0));
        offers.cosigned(0, &[line(0, 1, 5)]);
        offers.signed(head(2), at(10));
        assert!(offers.tick(at(200)));
        assert!(offers.newest_cosigned().is_none());
        offers.cosigned(1, &[line(1, 1, 6)]);
        let cosigned = offers.newest_cosigned().unwrap();
        assert_eq!(cosigned.checkpoint().size.0, 1);
        assert_eq!(cosigned.note().signatures().len(), 3);
        assert_eq!(served_size(&offers), 2);
    }

    #[test]
    fn the_newest_cosigned_head_never_goes_back() {
        let mut offers = offers(1);
        offers.signed(head(1), at(0));
        offers.signed(head(2), at(10));
        offers.tick(at(200));
        offers.cosigned(0, &[line(0, 2, 5)]);
        offers.cosigned(0, &[line(0, 1, 6)]);
        assert_eq!(offers.newest_cosigned().unwrap().checkpoint().size.0, 2);
    }

    #[test]
    fn earlier_offers_are_forgotten_after_a_while() {
        let mut offers = offers(1);
        for size in 1..=200 {
            offers.signed(head(size), at(size * 1000));
        }
        assert_eq!(offers.offers.len(), 1 + EARLIER_OFFERS);
        assert_eq!(offers.cosigned(0, &[line(0, 1, 5)]), Taken { news: false, dropped: 1, size: None });
    }

    #[test]
    fn how_far_the_offer_is_behind_counts_from_the_first_head_that_waits() {
        let mut offers = offers(1);
        offers.signed(head(1), at(0));
        offers.signed(head(2), at(50));
        offers.signed(head(3), at(150));
        assert_eq!(offers.behind(at(180)), at(130));
    }
}
