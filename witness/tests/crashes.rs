//! What a kill, a power cut or a failing disk leaves behind at each step between an offer and its answer.

use crate::every_call;
use crate::stage;

use cosign::{Decision, LogFork, decide};
use counterfoil_witness::broken::Broken;
use counterfoil_witness::evidence::Evidence;
use counterfoil_witness::fetch::Offer;
use counterfoil_witness::full::EntriesCheck;
use counterfoil_witness::journal::book::{Journal, Record, Seal, journal_name};
use counterfoil_witness::journal::fold::Fold;
use counterfoil_witness::journal::line::Outcome;
use counterfoil_witness::keeper::sighting;
use counterfoil_witness::serve::StartError;
use every_call::{at_every_call, seeds};
use merkle::{MemoryTree, TileSet};
use note::{KeyKind, KeyName, SignedCheckpoint, SigningKey, Verified};
use stage::{FakeLog, House, Manner, NOON_S};
use std::path::Path;
use store::disk::{Disk, RealDisk};
use store::{Cosigned, Sealed, StoreError};
use testkit::faulty_disk::{Call, Extent, FaultyDisk};

const STATE: &str = "/state";

fn witness_key() -> SigningKey {
    SigningKey::from_seed(KeyName::new("witness.example/w1").unwrap(), KeyKind::CosignatureV1, [5; 32])
}

/// A disk with the state of a witness that has seen nothing.
fn fresh() -> FaultyDisk {
    let disk = FaultyDisk::new();
    disk.create_dir_all(Path::new(STATE)).unwrap();
    disk.sync_directory(Path::new("/")).unwrap();
    Journal::create(&disk, Path::new(STATE)).unwrap();
    disk
}

fn open(disk: &FaultyDisk) -> Result<Journal, Broken> {
    let key = SigningKey::from_seed(journal_name(witness_key().name()).unwrap(), KeyKind::Ed25519, [6; 32]);
    Journal::open(disk.shared(), Path::new(STATE), key, 0)
}

/// A line about `head`, cosigned at `timestamp_s`, and the seal that waits for it.
fn record(fold: &mut Fold, head: &SignedCheckpoint<Verified>, timestamp_s: u64) -> Record {
    let cosignatures = Sealed::new(vec![note::cosign(head.note().text(), &witness_key(), timestamp_s).unwrap()]);
    let lines = fold.observe(timestamp_s * 1000, sighting(Outcome::Cosigned, Some(head), Some(timestamp_s), None));
    let seal = Cosigned::sealed(head.clone(), timestamp_s, cosignatures);
    Record { lines, seal: Some(Seal::New(Box::new(seal))) }
}

/// The same head again, a second later.
fn again(held: &Cosigned, timestamp_s: u64) -> Record {
    let head = held.checkpoint().clone();
    let cosignatures = Sealed::new(vec![note::cosign(head.note().text(), &witness_key(), timestamp_s).unwrap()]);
    let seal = held.again(head, timestamp_s, cosignatures).unwrap();
    Record { lines: Vec::new(), seal: Some(Seal::Again(Box::new(seal))) }
}

/// The size of the head held of the log, as the journal tells it.
fn held_size(journal: &Journal, log: &FakeLog) -> u64 {
    journal.memory().held(log.origin().as_str()).map_or(0, |held| {
        SignedCheckpoint::parse(held.checkpoint.as_bytes()).unwrap().verify(&log.vkey()).unwrap().checkpoint().size.0
    })
}

#[test]
fn trouble_at_any_call_never_makes_a_witness_forget_a_head_or_a_time() {
    let log = FakeLog::unheard("log.example/agents");
    let empty = fresh();
    // Also from a state that holds heads already.
    let holding = empty.copy();
    let mut journal = open(&holding).unwrap();
    let mut fold = Fold::new(log.origin().as_str());
    for size in 1..3 {
        journal.commit(vec![record(&mut fold, &log.history(size, 0, 0).0, NOON_S + 10 * size)]).unwrap();
    }
    journal.finish().unwrap();
    drop(journal);
    for (start, before) in [(empty, 0), (holding.after_power_cut(0), 2)] {
        let act = |disk: &FaultyDisk| {
            let mut released = (before, 0);
            let mut run = || -> Result<(), Broken> {
                let mut journal = open(disk)?;
                let mut fold = Fold::new(log.origin().as_str());
                released.0 = held_size(&journal, &log);
                for size in released.0 + 1..4 {
                    let time = NOON_S + 10 * size;
                    let head = log.history(size, 0, 0).0;
                    let committed = journal.commit(vec![record(&mut fold, &head, time)]);
                    let Ok(mut opened) = committed else {
                        let more = journal.commit(vec![record(&mut fold, &log.history(9, 0, 0).0, time)]);
                        assert!(matches!(more, Err(Broken::Store(StoreError::Poisoned))), "it takes more");
                        return committed.map(drop);
                    };
                    let held = opened.remove(0).unwrap();
                    released = (size, time);
                    journal.commit(vec![again(&held, time + 5)])?;
                    released = (size, time + 5);
                }
                journal.finish()
            };
            let is_done = run().is_ok();
            (released, is_done)
        };
        let covered = at_every_call(&start, &Extent::ALL, act, |disk, (size, time), seed| {
            let found = std::iter::once(disk.after_kill());
            for disk in
                found.chain([0, 1].into_iter().chain(seed..seed + seeds(1)).map(|seed| disk.after_power_cut(seed)))
            {
                let journal = open(&disk).unwrap();
                let held = held_size(&journal, &log);
                assert!((size..=size + 1).contains(&held), "{held} is held after {size} was given back");
                assert!(journal.durable().seconds() >= time, "a time may go back");
                drop(journal);
                let again = open(&disk.after_power_cut(0)).unwrap();
                assert_eq!(held_size(&again, &log), held, "what a start has shown stays");
            }
        });
        assert!(covered.calls > 40, "{covered:?}");
        let all = [Call::Open, Call::Len, Call::Read, Call::Write, Call::Sync, Call::SyncDirectory, Call::Lock];
        assert!(all.iter().all(|call| covered.met.contains(call)), "{covered:?}");
    }
}

#[test]
fn without_the_snapshot_or_with_a_rotten_one_the_lines_tell_the_same() {
    let log = FakeLog::unheard("log.example/agents");
    let disk = fresh();
    let mut journal = open(&disk).unwrap();
    let mut fold = Fold::new(log.origin().as_str());
    for size in 1..600 {
        journal.commit(vec![record(&mut fold, &log.history(size, 0, 0).0, NOON_S + size)]).unwrap();
    }
    journal.finish().unwrap();
    let memory = journal.memory().clone();
    drop(journal);
    let snapshot = Path::new(STATE).join("held");
    assert_eq!(open(&disk).unwrap().memory(), &memory);
    let rotten = disk.copy();
    rotten.flip_bit(&snapshot, 40, 3).unwrap();
    assert_eq!(open(&rotten).unwrap().memory(), &memory);
    let gone = disk.copy();
    gone.remove_file(&snapshot).unwrap();
    assert_eq!(open(&gone).unwrap().memory(), &memory);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_older_copy_of_the_journal_under_what_was_derived_from_it_is_refused() {
    let (log, house) = (FakeLog::start("log.example/agents", 0).await, House::new());
    house.configure(&log, &[], "");
    let copied = tempfile::tempdir().unwrap();
    let (journal, copy) = (house.home().join("state/journal"), copied.path().join("journal"));
    let grow = async |size: u64| {
        let witness = house.start().await;
        let head = log.offer(size, 0, 0);
        witness.nudge(&log, &head).await.unwrap();
        witness.stop().await;
    };
    grow(5).await;
    copy_all(&journal, &copy);
    grow(9).await;
    std::fs::remove_dir_all(&journal).unwrap();
    copy_all(&copy, &journal);
    let error = house.open().await.unwrap_err();
    assert!(matches!(error, StartError::Broken(Broken::OlderJournal(_))), "{error}");
    assert!(error.to_string().contains("new key and a new name"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn evidence_that_the_journal_speaks_of_must_be_there() {
    let (log, house) = (FakeLog::start("log.example/agents", 0).await, House::new());
    house.configure(&log, &[], "");
    let witness = house.start().await;
    let held = log.offer(20, 0, 0);
    witness.nudge(&log, &held).await.unwrap();
    let fork = log.offer(20, 10, 1);
    witness.nudge(&log, &fork).await.unwrap_err();
    witness.stop().await;
    std::fs::remove_file(house.home().join("state/evidence.ndjson")).unwrap();
    let error = house.open().await.unwrap_err();
    assert!(matches!(error, StartError::Broken(Broken::MissingEvidence { journalled: 1, held: 0 })), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_kill_the_time_does_not_go_back_whatever_the_clock_does() {
    let (log, house) = (FakeLog::start("log.example/agents", 0).await, House::new());
    house.configure(&log, &[], "");
    let head = log.offer(20, 0, 0);
    let witness = house.start().await;
    assert_eq!(witness.nudge(&log, &head).await, Ok(NOON_S));
    house.set_clock_s(NOON_S + 7);
    assert_eq!(
        witness.nudge(&log, &head).await,
        Ok(NOON_S + 7),
        "unchanged: no line says so before the minute is over"
    );
    witness.kill().await;
    house.set_clock_s(NOON_S - 100);
    let witness = stage::reopened(&house).await;
    assert_eq!(witness.nudge(&log, &head).await, Ok(NOON_S + 7));
    witness.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_that_is_no_longer_watched_is_not_forgotten() {
    let (log, house) = (FakeLog::start("log.example/agents", 0).await, House::new());
    let other = FakeLog::start("log.example/other", 5).await;
    house.configure(&log, &[], "");
    let witness = house.start().await;
    let held = log.offer(20, 0, 0);
    witness.nudge(&log, &held).await.unwrap();
    witness.stop().await;
    house.configure(&other, &[], "");
    house.start().await.stop().await;
    house.configure(&log, &[], "");
    let witness = house.start().await;
    let fork = log.offer(30, 10, 1);
    // The first fetch of its own accord may have come first: then it is refused already.
    witness.nudge(&log, &fork).await.unwrap_err();
    assert_eq!(witness.status().await.forked, Some(0));
    witness.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_whose_key_was_exchanged_under_a_head_held_is_refused_at_start() {
    let (log, house) = (FakeLog::start("log.example/agents", 0).await, House::new());
    house.configure(&log, &[], "");
    let witness = house.start().await;
    let held = log.offer(20, 0, 0);
    witness.nudge(&log, &held).await.unwrap();
    witness.stop().await;
    let config = house.home().join("config.toml");
    let text = std::fs::read_to_string(&config).unwrap();
    let other = SigningKey::from_seed(log.key.name().clone(), KeyKind::Ed25519, [99; 32]).verifier();
    std::fs::write(&config, text.replace(&log.vkey().to_string(), &other.to_string())).unwrap();
    let error = house.open().await.unwrap_err().to_string();
    assert!(error.contains("put back the vkey"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_between_evidence_and_journal_the_log_stays_refused() {
    let (log, house) = (FakeLog::start("log.example/agents", 0).await, House::new());
    house.configure(&log, &[], "");
    let ((held, _), (fork, tree)) = (log.history(20, 0, 0), log.history(20, 10, 1));
    let evidence = Evidence::open(&house.home().join("state")).unwrap();
    assert_eq!(evidence.record(&fork_of(&log, &held, &fork, &tree)).unwrap(), 0);
    drop(evidence);
    let witness = house.start().await;
    assert_eq!(witness.status().await.forked, Some(0));
    let head = log.offer(20, 0, 0);
    assert_eq!(witness.nudge(&log, &head).await, Err("refused".to_owned()));
    witness.stop().await;
}

#[test]
fn evidence_cut_short_by_a_kill_is_dropped_and_whole_evidence_is_kept() {
    let log = FakeLog::unheard("log.example/agents");
    let dir = tempfile::tempdir().unwrap();
    let (held, _) = log.history(20, 0, 0);
    let [first, second] = [(30, 10), (40, 5)].map(|(size, branch)| {
        let (fork, tree) = log.history(size, branch, 1);
        fork_of(&log, &held, &fork, &tree)
    });
    let file = dir.path().join("evidence.ndjson");
    let whole = {
        let kept = Evidence::open(dir.path()).unwrap();
        assert_eq!(kept.record(&first).unwrap(), 0);
        assert_eq!(kept.record(&first).unwrap(), 0, "the same evidence again is the same evidence");
        kept.page(0).unwrap()
    };
    for cut in (0..whole.len()).step_by(97) {
        std::fs::write(&file, [&whole[..], &whole[..cut]].concat()).unwrap();
        let kept = Evidence::open(dir.path()).unwrap();
        assert_eq!(kept.page(0).unwrap(), whole, "cut at {cut}");
        assert_eq!(kept.record(&second).unwrap(), 1, "the next document begins a line of its own");
        drop(kept);
        let kept = Evidence::open(dir.path()).unwrap();
        assert_eq!(kept.page(0).unwrap().split(|byte| *byte == b'\n').count(), 3);
    }
    std::fs::write(&file, "not evidence\n").unwrap();
    assert!(matches!(Evidence::open(dir.path()), Err(Broken::Evidence { number: 0, .. })), "damage is never skipped");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_disk_that_does_not_keep_what_was_written_ends_the_witness_without_an_answer() {
    let (log, house) = (FakeLog::start("log.example/agents", 0).await, House::new());
    house.configure(&log, &[], "");
    let witness = house.open_on(RealDisk::shared()).await.unwrap();
    let witness = house.run(witness).await;
    // Somebody empties the journal's entries behind our back.
    std::fs::OpenOptions::new()
        .write(true)
        .open(house.home().join("state/journal/entries"))
        .unwrap()
        .set_len(0)
        .unwrap();
    let head = log.offer(20, 0, 0);
    assert!(witness.client.nudge(&log.origin()).await.is_err());
    log.set_manner(Manner::Fails);
    let ended = witness.ended().await.unwrap_err();
    assert!(matches!(ended, Broken::Store(_)), "{ended}");
    assert!(head.checkpoint().size.0 == 20);
}

/// The offer of a head, with all the tiles that its log has.
fn offer(head: &SignedCheckpoint<Verified>, tree: &MemoryTree) -> Offer {
    let mut tiles = TileSet::new();
    for tile in merkle::TileId::all(tree.size()) {
        tiles.insert(tile, &stage::tile_bytes(tree, tile).unwrap()).unwrap();
    }
    Offer { checkpoint: head.bytes().to_vec().into(), tiles, tile_trouble: None, entries: EntriesCheck::NotAsked }
}

fn fork_of(
    log: &FakeLog,
    held: &SignedCheckpoint<Verified>,
    fork: &SignedCheckpoint<Verified>,
    tree: &MemoryTree,
) -> LogFork {
    let offer = offer(fork, tree);
    match decide(&log.vkey(), Some(held), &offer.checkpoint, &offer.tiles) {
        Decision::Fork(_, fork) => *fork,
        other => panic!("{other:?}"),
    }
}

fn copy_all(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy_all(&entry.path(), &to);
        } else {
            std::fs::copy(entry.path(), to).unwrap();
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_state_that_is_gone_is_said_to_end_the_witness_and_nothing_is_made_in_its_place() {
    let (log, house) = (FakeLog::start("log.example/agents", 0).await, House::new());
    house.configure(&log, &[], "");
    let state = house.home().join("state");
    std::fs::remove_dir_all(&state).unwrap();
    let error = house.open().await.unwrap_err();
    assert!(matches!(error, StartError::Broken(Broken::NoState(_))), "{error}");
    assert!(error.to_string().contains("a new key and a new name"), "{error}");
    assert!(!state.exists());
    std::fs::create_dir(&state).unwrap();
    assert!(matches!(house.open().await.unwrap_err(), StartError::Broken(Broken::NoState(_))));
    assert_eq!(std::fs::read_dir(&state).unwrap().count(), 0);
}

#[test]
fn a_floor_that_is_gone_is_raised_again_to_what_the_lines_tell() {
    let log = FakeLog::unheard("log.example/agents");
    let disk = fresh();
    let mut journal = open(&disk).unwrap();
    let mut fold = Fold::new(log.origin().as_str());
    journal.commit(vec![record(&mut fold, &log.history(5, 0, 0).0, NOON_S + 3)]).unwrap();
    drop(journal);
    disk.remove_file(&Path::new(STATE).join("floor")).unwrap();
    assert_eq!(open(&disk).unwrap().durable().seconds(), NOON_S + 3);
}
