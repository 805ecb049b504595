//! What a kill leaves behind at each step between an offer and its answer.
#![allow(clippy::unwrap_used, clippy::panic)]

mod stage;

use cosign::{Decision, LogFork, decide};
use counterfoil_witness::evidence::Evidence;
use counterfoil_witness::fetch::Offer;
use counterfoil_witness::journal::book::{Journal, journal_name};
use counterfoil_witness::journal::line::{JournalLine, Outcome};
use counterfoil_witness::keeper::{Answer, Broken, Keeper, Shared};
use counterfoil_witness::settings::WatchedLog;
use merkle::{LeafIndex, MemoryTree, TileSet, TreeSize};
use note::{KeyKind, KeyName, SignedCheckpoint, SigningKey, Verified};
use stage::{FakeLog, NOON_S};
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use store::{Cosigned, HeadSlots, Sealed};
use tempfile::TempDir;

/// The state of a witness on disk, opened and let go again and again.
struct Disk {
    dir: TempDir,
    log: FakeLog,
}

impl Disk {
    fn new() -> Disk {
        let dir = TempDir::new().unwrap();
        Journal::create(&dir.path().join("journal")).unwrap();
        Disk { dir, log: FakeLog::unheard("log.example/agents") }
    }

    fn witness(&self) -> SigningKey {
        SigningKey::from_seed(KeyName::new("witness.example/w1").unwrap(), KeyKind::CosignatureV1, [5; 32])
    }

    fn shared(&self) -> Shared {
        let key = Arc::new(self.witness());
        let journal = SigningKey::from_seed(journal_name(key.name()).unwrap(), KeyKind::Ed25519, [6; 32]);
        Shared {
            journal: Arc::new(Journal::open(&self.dir.path().join("journal"), journal, Arc::clone(&key)).unwrap()),
            key,
            evidence: Arc::new(Evidence::open(self.dir.path()).unwrap()),
        }
    }

    fn evidence(&self) -> PathBuf {
        self.dir.path().join("evidence.ndjson")
    }

    fn slots(&self) -> PathBuf {
        self.dir.path().join(format!("{}.head", client::witness::origin_hash(&self.log.origin())))
    }

    fn keeper(&self) -> Keeper {
        let log = WatchedLog {
            vkey: self.log.vkey(),
            url: "http://127.0.0.1:1".parse().unwrap(),
            acknowledged_evidence: BTreeSet::new(),
        };
        Keeper::open(self.dir.path(), log, self.shared(), NOON_S * 1000).unwrap()
    }

    /// The last line of the journal.
    fn last_line(&self) -> JournalLine {
        let vkey = self.shared().journal.reader().vkey().clone();
        let check = |head: &[u8]| {
            let head = SignedCheckpoint::parse(head).and_then(|head| head.verify(&vkey)).ok()?;
            Some((head.checkpoint().size, head.checkpoint().root))
        };
        let (log, _) = store::Tlog::open(&self.dir.path().join("journal"), &check).unwrap();
        let reader = log.reader();
        JournalLine::parse(&reader.entry(LeafIndex(reader.size().0 - 1)).unwrap().unwrap()).unwrap()
    }
}

/// The offer of a head, with all the tiles that its log has.
fn offer(head: &SignedCheckpoint<Verified>, tree: &MemoryTree) -> Offer {
    let mut tiles = TileSet::new();
    for tile in merkle::TileId::all(tree.size()) {
        tiles.insert(tile, &stage::tile_bytes(tree, tile).unwrap()).unwrap();
    }
    Offer { checkpoint: head.bytes().to_vec().into(), tiles, tile_trouble: None }
}

#[test]
fn killed_before_the_head_is_durable_nothing_happened() {
    let disk = Disk::new();
    drop(disk.keeper());
    let mut keeper = disk.keeper();
    assert_eq!(keeper.held_size(), TreeSize(0));
    let (head, tree) = disk.log.history(20, 0, 0);
    assert!(matches!(keeper.consider(NOON_S * 1000, Ok(offer(&head, &tree))).unwrap(), Answer::Cosigned { .. }));
}

#[test]
fn killed_between_persist_and_journal_the_head_is_held_and_gets_into_the_journal_at_the_next_start() {
    let disk = Disk::new();
    let (head, _) = disk.log.history(20, 0, 0);
    let witness = disk.witness();
    let (mut slots, _) = HeadSlots::open(&disk.slots(), &disk.log.vkey(), &witness.verifier()).unwrap();
    let cosignature = note::cosign(head.note().text(), &witness, NOON_S).unwrap();
    slots.persist(Sealed::new(Cosigned::new(head.clone(), cosignature))).unwrap();
    drop(slots);

    drop(disk.keeper());
    let line = disk.last_line();
    assert_eq!((line.outcome, line.checkpoint), (Outcome::Started, Some(head.note().to_string())));
    let mut keeper = disk.keeper();
    let (fork, tree) = disk.log.history(30, 10, 1);
    let answer = keeper.consider(NOON_S * 1000, Ok(offer(&fork, &tree))).unwrap();
    assert!(
        matches!(answer, Answer::NotCosigned { outcome: Outcome::Fork, .. }),
        "no second history, although nobody ever saw the first cosignature"
    );
}

#[test]
fn killed_between_persist_and_answer_the_timestamp_does_not_go_back() {
    let disk = Disk::new();
    let (head, tree) = disk.log.history(20, 0, 0);
    let mut keeper = disk.keeper();
    let _never_sent = keeper.consider(NOON_S * 1000, Ok(offer(&head, &tree))).unwrap();
    drop(keeper);
    let mut keeper = disk.keeper();
    let Answer::Cosigned { lines } = keeper.consider((NOON_S - 100) * 1000, Ok(offer(&head, &tree))).unwrap() else {
        panic!("the head held is cosigned again");
    };
    let line =
        note::parse_cosignature_line(&lines).unwrap().verify(head.note().text(), &disk.witness().verifier()).unwrap();
    assert_eq!(line.timestamp_s, NOON_S);
}

#[test]
fn killed_between_evidence_and_journal_the_log_stays_refused() {
    let disk = Disk::new();
    let ((held, _), (fork, tree)) = (disk.log.history(20, 0, 0), disk.log.history(20, 10, 1));
    let evidence = fork_of(&disk, &held, &fork, &tree);
    assert_eq!(disk.shared().evidence.record(&evidence).unwrap(), 0);

    let mut keeper = disk.keeper();
    assert_eq!(keeper.view().status.forked, Some(0));
    let (head, tree) = disk.log.history(20, 0, 0);
    let answer = keeper.consider(NOON_S * 1000, Ok(offer(&head, &tree))).unwrap();
    assert!(matches!(answer, Answer::NotCosigned { outcome: Outcome::Refused, .. }));
}

#[test]
fn evidence_cut_short_by_a_kill_is_dropped_and_whole_evidence_is_kept() {
    let disk = Disk::new();
    let (held, _) = disk.log.history(20, 0, 0);
    let [first, second] = [(30, 10), (40, 5)].map(|(size, branch)| {
        let (fork, tree) = disk.log.history(size, branch, 1);
        fork_of(&disk, &held, &fork, &tree)
    });
    let whole = {
        let kept = disk.shared().evidence;
        assert_eq!(kept.record(&first).unwrap(), 0);
        assert_eq!(kept.record(&first).unwrap(), 0, "the same evidence again is the same evidence");
        kept.page(0).unwrap()
    };
    for cut in (0..whole.len()).step_by(97) {
        std::fs::write(disk.evidence(), [&whole[..], &whole[..cut]].concat()).unwrap();
        let kept = Evidence::open(disk.dir.path()).unwrap();
        assert_eq!(kept.page(0).unwrap(), whole, "cut at {cut}");
        assert_eq!(kept.record(&second).unwrap(), 1, "the next document begins a line of its own");
        drop(kept);
        let kept = Evidence::open(disk.dir.path()).unwrap();
        assert_eq!(kept.page(0).unwrap().split(|byte| *byte == b'\n').count(), 3);
    }
    std::fs::write(disk.evidence(), "not evidence\n").unwrap();
    assert!(
        matches!(Evidence::open(disk.dir.path()), Err(Broken::Evidence { number: 0, .. })),
        "damage is never skipped"
    );
}

#[test]
fn a_disk_that_does_not_keep_what_was_written_ends_the_witness_without_an_answer() {
    let disk = Disk::new();
    let mut keeper = disk.keeper();
    // Somebody empties the journal's entries behind our back.
    std::fs::OpenOptions::new().write(true).open(disk.dir.path().join("journal/entries")).unwrap().set_len(0).unwrap();
    let (head, tree) = disk.log.history(20, 0, 0);
    assert!(matches!(keeper.consider(NOON_S * 1000, Ok(offer(&head, &tree))), Err(Broken::Store(_))));
    assert!(matches!(keeper.consider(NOON_S * 1000, Ok(offer(&head, &tree))), Err(Broken::Ended)), "and it stays so");
}

fn fork_of(
    disk: &Disk,
    held: &SignedCheckpoint<Verified>,
    fork: &SignedCheckpoint<Verified>,
    tree: &MemoryTree,
) -> LogFork {
    let offer = offer(fork, tree);
    match decide(&disk.log.vkey(), Some(held), &offer.checkpoint, &offer.tiles) {
        Decision::Fork(_, fork) => *fork,
        other => panic!("{other:?}"),
    }
}
