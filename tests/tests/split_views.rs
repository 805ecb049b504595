//! A log that shows different histories to different witnesses, to witnesses and clients, or to one witness at different
//! times: what can be detected is, and names the log's key. And a log that merely fails is never accused.
#![allow(clippy::unwrap_used, clippy::panic)]

use client::{BoundedClient, LogClient, Timeouts};
use cosign::{Comparison, compare, tiles_needed};
use counterfoil_tests::witnesses::{House, Running, Tempo, until};
use note::SignedCheckpoint;
use receipt::UnixMillis;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use testkit::liar::{Gates, How, Liar, On, Showing, When};
use tokio::task::JoinHandle;
use witness::journal::line::Outcome;

const ORIGIN: &str = "log.example/liar";
/// Everything of a liar comes from this number.
const SEED: u64 = 20_261_129;
/// Nothing is given up because the machine was busy.
const TEMPO: Tempo = Tempo { interval_ms: 400, deadline_ms: 60_000 };
/// For a log that lets its askers wait.
const HASTY: Tempo = Tempo { interval_ms: 400, deadline_ms: 2_000 };
/// Intervals in which a split that can be detected is: one until a witness is shown its side, and two from there.
const INTERVALS: u64 = 3;

/// Two witnesses that watch one liar and each other.
struct Pair {
    liar: Arc<Liar>,
    one: Running,
    two: Running,
    houses: [House; 2],
}

impl Pair {
    /// Both hold the first 20 entries of history 0, and whatever grows now is shown to nobody before a test says so.
    async fn in_agreement() -> Pair {
        let liar = Liar::start(ORIGIN, SEED).await.unwrap();
        liar.grow(0, 20).unwrap();
        Pair::watching(liar, TEMPO).await
    }

    async fn watching(liar: Arc<Liar>, tempo: Tempo) -> Pair {
        let mut houses = [House::new("one"), House::new("two")];
        for house in &houses {
            liar.show(&house.name, Showing::newest(0).at(20));
        }
        houses[0].configure(&liar, &[&houses[1]], tempo);
        houses[1].configure(&liar, &[&houses[0]], tempo);
        let [first, second] = &mut houses;
        let (one, two) = (first.start().await, second.start().await);
        let pair = Pair { liar, one, two, houses };
        until("the witnesses agree", || async {
            let [of_two, of_one] = [pair.of_two().await, pair.of_one().await];
            of_two.is_some() && of_one.is_some()
        })
        .await;
        pair
    }

    /// The size at which witness one found witness two to agree.
    async fn of_two(&self) -> Option<u64> {
        let status = self.one.peer(&self.liar.vkey(), &self.houses[1]).await?;
        status.agreed_size.filter(|_| status.code.is_none())
    }

    async fn of_one(&self) -> Option<u64> {
        let status = self.two.peer(&self.liar.vkey(), &self.houses[0]).await?;
        status.agreed_size.filter(|_| status.code.is_none())
    }

    /// A second history that shares the first 20 entries.
    fn branch(&self) -> usize {
        self.liar.branch(0, 20).unwrap()
    }

    /// Whether each of them accuses the log, and nobody else.
    async fn accusing(&self) -> [bool; 2] {
        let log = self.liar.vkey();
        [self.one.accuses(&log).await, self.two.accuses(&log).await]
    }

    /// Waits until `is_found` of what the witnesses accuse, and asserts that not both had begun more intervals since the split
    /// than they are allowed. Intervals are counted by the fetches that begin them: a loaded machine makes them longer, not
    /// more. Fetches, looks at the peer, the peer's answers and the log's run in one thread (the tests' runtimes have no
    /// more), so none of them can be held up while the others go on. What waits for a witness's own disk does, and with it
    /// that witness's fetches: hence not the more impatient of the two counts, but the other.
    async fn detects(&self, is_found: impl Fn([bool; 2]) -> bool) {
        let begun = AtomicU64::new(0);
        until("the split is detected", || async {
            let now = self.liar.fetches("one").min(self.liar.fetches("two"));
            let found = is_found(self.accusing().await);
            if !found {
                begun.store(now, Ordering::Relaxed);
            }
            found
        })
        .await;
        let begun = begun.into_inner();
        assert!(begun <= INTERVALS, "seed {SEED}: not detected after {begun} intervals");
        until("the log is refused", || async {
            let mut refused = true;
            for (witness, accuses) in [&self.one, &self.two].into_iter().zip(self.accusing().await) {
                refused &= witness.log(&self.liar.vkey()).await.forked.is_some() == accuses;
            }
            refused
        })
        .await;
    }

    async fn accuse_nobody(&self) {
        for witness in [&self.one, &self.two] {
            assert_eq!(witness.evidence().await, []);
        }
    }

    async fn stop(self) {
        self.one.stop().await;
        self.two.stop().await;
    }
}

#[tokio::test]
async fn two_histories_of_one_size_are_found_by_both_witnesses() {
    let pair = Pair::in_agreement().await;
    let second = pair.branch();
    pair.liar.grow(0, 10).unwrap();
    pair.liar.grow(second, 10).unwrap();
    pair.liar.show("one", Showing::newest(0));
    pair.liar.show("two", Showing::newest(second));
    pair.detects(|accusing| accusing == [true, true]).await;
    pair.stop().await;
}

#[tokio::test]
async fn of_two_histories_of_different_sizes_the_witness_with_the_larger_one_finds_it() {
    // Each is served the tiles of its own history, so the one with the smaller head has none to prove anything by.
    for (sizes, expected) in [((30, 25), [true, false]), ((25, 30), [false, true]), ((300, 21), [true, false])] {
        let pair = Pair::in_agreement().await;
        let second = pair.branch();
        pair.liar.grow(0, sizes.0 - 20).unwrap();
        pair.liar.grow(second, sizes.1 - 20).unwrap();
        pair.liar.show("one", Showing::newest(0));
        pair.liar.show("two", Showing::newest(second));
        pair.detects(|accusing| accusing == expected).await;
        pair.stop().await;
    }
}

#[tokio::test]
async fn histories_that_grow_apart_while_they_are_watched_are_found_by_both() {
    let pair = Pair::in_agreement().await;
    let second = pair.branch();
    pair.liar.grow(second, 1).unwrap();
    let growing = grow(&pair.liar, vec![(0, 3), (second, 2)], Duration::from_millis(130));
    pair.liar.show("one", Showing::newest(0));
    pair.liar.show("two", Showing::newest(second));
    pair.detects(|accusing| accusing[0] || accusing[1]).await;
    growing.abort();
    pair.stop().await;
}

#[tokio::test]
async fn heads_of_two_histories_that_take_turns_in_being_the_larger_are_found() {
    let pair = Pair::in_agreement().await;
    let second = pair.branch();
    pair.liar.grow(0, 200).unwrap();
    pair.liar.grow(second, 200).unwrap();
    let steps = |history: usize, first: u64| {
        (0..50).map(|fetch| (When::Fetch(fetch), Showing::newest(history).at(first + 2 * fetch))).collect()
    };
    pair.liar.play("one", steps(0, 21));
    pair.liar.play("two", steps(second, 22));
    pair.detects(|accusing| accusing[0] || accusing[1]).await;
    pair.stop().await;
}

#[tokio::test]
async fn one_witness_that_is_shown_two_histories_in_turn_finds_it_alone() {
    let pair = Pair::in_agreement().await;
    let second = pair.branch();
    pair.liar.grow(0, 10).unwrap();
    pair.liar.grow(second, 30).unwrap();
    let script = vec![(When::Fetch(0), Showing::newest(0)), (When::Fetch(1), Showing::newest(second))];
    pair.liar.play("one", script);
    pair.liar.show("two", Showing::newest(0).but(On::Everything, How::Status(503)));
    pair.detects(|accusing| accusing[0]).await;
    pair.stop().await;
}

#[tokio::test]
async fn a_log_that_rolls_back_is_not_accused_until_it_signs_another_history() {
    let pair = Pair::in_agreement().await;
    let second = pair.liar.branch(0, 10).unwrap();
    pair.liar.grow(second, 8).unwrap();
    for asker in ["one", "two"] {
        pair.liar.show(asker, Showing::newest(0).at(10));
    }
    until("the rollback is seen", || async {
        pair.one.log(&pair.liar.vkey()).await.last.unwrap().outcome == Outcome::Stale
    })
    .await;
    pair.accuse_nobody().await;
    assert_eq!(pair.one.held_size(&pair.liar.vkey()).await, 20, "what was held stays held");
    // It grows again, differently: even to less than what it was, its old tiles speak against it.
    let lie = Showing::newest(second).but(On::Tiles, How::OfHistory(0));
    pair.liar.show("one", lie.clone());
    pair.liar.show("two", lie);
    pair.detects(|accusing| accusing == [true, true]).await;
    pair.stop().await;
}

#[tokio::test]
async fn a_split_behind_withheld_tiles_accuses_nobody_and_is_found_as_soon_as_they_come() {
    let pair = Pair::in_agreement().await;
    let second = pair.branch();
    pair.liar.grow(0, 10).unwrap();
    pair.liar.grow(second, 5).unwrap();
    // For the witness's own growth the log has to show tiles, or nothing is cosigned; then it withholds them.
    let grown = Showing::newest(0);
    let withholding = grown.clone().but(On::Tiles, How::Withheld);
    pair.liar.show("one", grown);
    until("one has grown", || async { pair.one.held_size(&pair.liar.vkey()).await == 30 }).await;
    pair.liar.show("one", withholding);
    pair.liar.show("two", Showing::newest(second));
    until("two has grown", || async { pair.two.held_size(&pair.liar.vkey()).await == 25 }).await;
    until("one cannot compare", || async {
        let seen = pair.one.peer(&pair.liar.vkey(), &pair.houses[1]).await;
        seen.is_some_and(|seen| seen.code.as_deref() == Some("status-404"))
    })
    .await;
    pair.accuse_nobody().await;
    pair.liar.show("one", Showing::newest(0));
    pair.detects(|accusing| accusing[0]).await;
    pair.stop().await;
}

#[tokio::test]
async fn real_receipts_left_out_for_one_witness_are_found_though_each_history_is_admissible() {
    let liar = Liar::start(ORIGIN, SEED).await.unwrap();
    let mut gates = Gates::new(3, UnixMillis(1_790_000_000_000)).unwrap();
    liar.extend(0, (0..20).map(|_| gates.entry().unwrap()).collect()).unwrap();
    let pair = Pair::watching(liar, TEMPO).await;
    let second = pair.branch();
    let mut others = gates.clone();
    others.skip();
    for (history, gates) in [(0, &mut gates), (second, &mut others)] {
        pair.liar.extend(history, (0..10).map(|_| gates.entry().unwrap()).collect()).unwrap();
    }
    pair.liar.show("one", Showing::newest(0));
    pair.liar.show("two", Showing::newest(second));
    pair.detects(|accusing| accusing == [true, true]).await;
    pair.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_is_shown_another_history_than_the_witnesses_can_prove_it() {
    let pair = Pair::in_agreement().await;
    let log = pair.liar.vkey();
    let second = pair.branch();
    pair.liar.grow(0, 10).unwrap();
    pair.liar.grow(second, 40).unwrap();
    for asker in ["one", "two"] {
        pair.liar.show(asker, Showing::newest(0));
    }
    pair.liar.show("client", Showing::newest(second));
    until("the witnesses have grown", || async { pair.one.held_size(&log).await == 30 }).await;
    let client =
        LogClient::new(pair.liar.url("client").parse().unwrap(), BoundedClient::new(Timeouts::default()).unwrap());
    let shown = SignedCheckpoint::parse(&client.checkpoint().await.unwrap()).unwrap().verify(&log).unwrap();
    let held = pair.one.held(&log).await.unwrap();
    let tiles = client.tiles(&tiles_needed(held.checkpoint().size, shown.checkpoint().size)).await.unwrap();
    let Comparison::Fork(fork) = compare(&held, &shown, &tiles) else { panic!("no fork") };
    let document = serde_json::to_string(&fork).unwrap();
    assert_eq!(audit::check_evidence(&document, &[]).unwrap().key, log);
    pair.accuse_nobody().await;
    pair.stop().await;
}

/// Whatever goes wrong with one history is nobody's lie. Each round the log grows and fails in another way for one of the
/// witnesses or both; then it recovers, and all agree.
#[tokio::test(flavor = "multi_thread")]
async fn a_log_that_merely_fails_is_never_accused() {
    let liar = Liar::start(ORIGIN, SEED).await.unwrap();
    liar.grow(0, 20).unwrap();
    let pair = Pair::watching(liar, HASTY).await;
    let log = pair.liar.vkey();
    let slow = How::Drips(64, Duration::from_millis(300));
    let failures = [
        (On::Everything, How::Status(500)),
        (On::Everything, How::Stalls),
        (On::Everything, How::Redirects),
        (On::Checkpoint, How::CutShort),
        (On::Checkpoint, How::BreaksOff),
        (On::Checkpoint, How::OneBit),
        (On::Checkpoint, How::Garbage),
        (On::Checkpoint, How::Endless),
        (On::Checkpoint, slow.clone()),
        (On::Tiles, How::Withheld),
        (On::Tiles, How::Stalls),
        (On::Tiles, How::Status(500)),
        (On::Tiles, How::CutShort),
        (On::Tiles, How::BreaksOff),
        (On::Tiles, How::OneBit),
        (On::Tiles, How::Garbage),
        (On::Tiles, slow),
        (On::Level(0), How::Garbage),
    ];
    for (round, (on, how)) in failures.into_iter().enumerate() {
        pair.liar.grow(0, 7).unwrap();
        let failing = Showing::newest(0).but(on, how.clone());
        // A head of the past for the one, and failure for the other: what a lagging mirror behind a bad line looks like.
        let other = if round % 2 == 0 { Showing::newest(0) } else { failing.clone() };
        pair.liar.show("one", failing);
        pair.liar.show("two", other);
        until("a few fetches", || async { pair.liar.fetches("one") >= 2 && pair.liar.fetches("two") >= 2 }).await;
        pair.accuse_nobody().await;
        let size = pair.liar.grow(0, 0).unwrap();
        for asker in ["one", "two"] {
            pair.liar.show(asker, Showing::newest(0));
        }
        until(&format!("both agree at {size} after {on:?} {how:?}"), || async {
            pair.of_two().await == Some(size) && pair.of_one().await == Some(size)
        })
        .await;
    }
    assert!(pair.one.log(&log).await.forked.is_none() && pair.two.log(&log).await.forked.is_none());
    pair.accuse_nobody().await;
    pair.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_peer_showed_is_in_the_journal_whole_once_and_under_its_own_cosignature() {
    let pair = Pair::in_agreement().await;
    let log = pair.liar.vkey();
    for asker in ["one", "two"] {
        pair.liar.show(asker, Showing::newest(0));
    }
    for _ in 0..3 {
        let size = pair.liar.grow(0, 5).unwrap();
        until("both have grown", || async { pair.of_two().await == Some(size) && pair.of_one().await == Some(size) })
            .await;
    }
    let two = &pair.houses[1].vkey;
    let journal = pair.one.journal().await;
    let shown: Vec<_> = journal.iter().filter(|line| line.peer.as_deref() == Some(two.name().as_str())).collect();
    let of_log: Vec<_> = shown.iter().filter(|line| line.origin == log.name().as_str()).collect();
    let mut sizes: Vec<_> =
        of_log.iter().filter(|line| line.checkpoint.is_some()).filter_map(|line| line.size).collect();
    for line in of_log.iter().filter_map(|line| line.checkpoint.as_ref()) {
        let head = SignedCheckpoint::parse(line.as_bytes()).unwrap().verify(&log).unwrap();
        let lines = note::verified_cosignatures(head.note(), std::slice::from_ref(two));
        assert!(lines.len() == 1 && lines[0].is_ok(), "{line}");
    }
    let before = sizes.len();
    sizes.dedup();
    assert_eq!((before, sizes.last()), (sizes.len(), Some(&35)), "each head once");
    pair.stop().await;
}

/// Lets histories grow by so many entries at every tick, until aborted.
fn grow(liar: &Arc<Liar>, histories: Vec<(usize, u64)>, tick: Duration) -> JoinHandle<()> {
    let liar = Arc::clone(liar);
    tokio::spawn(async move {
        loop {
            tokio::time::sleep(tick).await;
            for (history, entries) in &histories {
                liar.grow(*history, *entries).unwrap();
            }
        }
    })
}
