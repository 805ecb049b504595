//! The log's store: receipts found by issuer and seq and by id, indexes that come back when they are lost, and a
//! process that is killed at any moment.

use counterfoil_store::{Inspection, LogInspection, LogReader, LogRecovery, LogStore, Sealed, StoreError};
use merkle::{LeafIndex, RootHash, TreeSize, leaf_hash, root_of};
use note::{Checkpoint, CheckpointError, KeyKind, KeyName, Origin, SignedCheckpoint, SigningKey, Verified};
use receipt::{Admitted, Chain, IssuerName, IssuerState, ReceiptId, SeqNo, UnixMillis, admit};
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

fn key(name: &str, seed: u8) -> SigningKey {
    SigningKey::from_seed(KeyName::new(name).unwrap(), KeyKind::Ed25519, [seed; 32])
}

fn log_key() -> SigningKey {
    key("log.example", 5)
}

fn sign(size: TreeSize, root: RootHash) -> Result<Sealed<SignedCheckpoint<Verified>>, CheckpointError> {
    let head = Checkpoint::new(Origin::new("log.example").unwrap(), size, root);
    note::sign_checkpoint(&head, &log_key()).map(Sealed::new)
}

fn open(dir: &Path) -> Result<(LogStore, LogRecovery), StoreError> {
    LogStore::open(dir, &log_key().verifier(), &mut |_, _| {})
}

/// A gate with its key, its own end of its stream, and the log's view of it.
struct Gate {
    key: SigningKey,
    chain: Chain,
    state: IssuerState,
}

impl Gate {
    fn new(name: &str, seed: u8) -> Gate {
        let key = key(name, seed);
        let state = IssuerState::registered(key.verifier());
        Gate { chain: Chain::new(state.name().clone()), state, key }
    }

    fn next(&mut self) -> Admitted {
        let at = UnixMillis(1_790_000_000_000 + self.chain.next_seq().0);
        let receipt = match self.chain.next_seq() {
            SeqNo(0) => self.chain.open(at, &self.key).unwrap(),
            seq => self.chain.append(format!("{{\"type\":\"note\",\"n\":{seq}}}"), at, &self.key).unwrap(),
        };
        let admitted = admit(Some(&self.state), receipt.bytes(), &|_| None, None).unwrap();
        self.state = admitted.state.clone();
        admitted
    }
}

fn name(text: &str) -> IssuerName {
    IssuerName(KeyName::new(text).unwrap())
}

/// Two gates taking turns, in batches of the sizes given; answers where every receipt is.
fn fill(store: &mut LogStore, batches: &[usize]) -> Vec<(IssuerName, SeqNo, ReceiptId)> {
    let mut gates = [Gate::new("gate.example/a", 1), Gate::new("gate.example/b", 2)];
    for gate in &gates {
        store.register(&gate.key.verifier());
    }
    let mut placed = Vec::new();
    for batch in batches {
        let mut admitted = Vec::new();
        for _ in 0..*batch {
            let next = gates[usize::from(placed.len() % 3 == 0)].next();
            placed.push((next.receipt.issuer().clone(), next.receipt.seq(), next.receipt.id()));
            admitted.push(next);
        }
        let first = store.commit(&admitted, sign).unwrap().first_index;
        assert_eq!(first.0 as usize, placed.len() - batch);
    }
    placed
}

fn assert_found(reader: &LogReader, placed: &[(IssuerName, SeqNo, ReceiptId)]) {
    assert_eq!(reader.size().0 as usize, placed.len());
    for (index, (issuer, seq, id)) in placed.iter().enumerate() {
        assert_eq!(reader.index_of(issuer, *seq).unwrap(), Some(LeafIndex(index as u64)));
        assert_eq!(reader.held_id(issuer, *seq).unwrap(), Some(*id));
        assert_eq!(reader.index_of_id(id).unwrap(), Some(LeafIndex(index as u64)));
        assert_eq!(leaf_hash(&reader.entry(LeafIndex(index as u64)).unwrap().unwrap()), id.0);
    }
    for issuer in [name("gate.example/a"), name("gate.example/b")] {
        let count = placed.iter().filter(|(owner, _, _)| *owner == issuer).count() as u64;
        assert_eq!(reader.issuer(&issuer).map(|state| state.next_seq()), Some(SeqNo(count)));
        assert_eq!(reader.index_of(&issuer, SeqNo(count)).unwrap(), None);
    }
    assert_eq!(reader.index_of(&name("gate.example/nobody"), SeqNo(0)).unwrap(), None);
    assert_eq!(reader.index_of_id(&ReceiptId(leaf_hash(b"nothing"))).unwrap(), None);
    // The index knows ids by their first half: who asks for one that only begins like another finds nothing, and has
    // not found damage either.
    for (_, _, id) in &placed[..1] {
        let mut other = *id;
        other.0.0[31] ^= 1;
        assert_eq!(reader.index_of_id(&other).unwrap(), None);
    }
}

#[test]
fn receipts_are_found_by_issuer_and_seq_and_by_id_after_every_restart() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store");
    LogStore::create(&path).unwrap();
    let placed = {
        let (mut store, recovery) = open(&path).unwrap();
        assert_eq!(recovery, LogRecovery::default());
        let placed = fill(&mut store, &[1, 40, 1, 250, 60]);
        assert_found(&store.reader(), &placed);
        placed
    };
    for _ in 0..2 {
        let (store, recovery) = open(&path).unwrap();
        assert_eq!(recovery.replayed_receipts, 0);
        assert_found(&store.reader(), &placed);
    }
}

#[test]
fn whatever_can_be_derived_is_derived_again_when_it_is_lost_or_garbage() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store");
    LogStore::create(&path).unwrap();
    let placed = fill(&mut open(&path).unwrap().0, &[30, 270]);
    let lose: [(&str, &dyn Fn()); 6] = [
        ("state", &|| fs::remove_dir_all(path.join("state")).unwrap()),
        ("state is garbage", &|| {
            fs::remove_dir_all(path.join("state")).unwrap();
            fs::create_dir(path.join("state")).unwrap();
            for file in ["conf", "db"] {
                fs::write(path.join("state").join(file), vec![0xa5; 4096]).unwrap();
            }
        }),
        ("issuers", &|| fs::remove_dir_all(path.join("issuers")).unwrap()),
        ("an index is short", &|| {
            let file = fs::read_dir(path.join("issuers")).unwrap().next().unwrap().unwrap().path();
            fs::File::options().write(true).open(file).unwrap().set_len(9).unwrap();
        }),
        ("ids", &|| fs::remove_file(path.join("ids.redb")).unwrap()),
        ("ids are garbage", &|| fs::write(path.join("ids.redb"), vec![0xa5; 9000]).unwrap()),
    ];
    for (what, lose) in lose {
        lose();
        let (store, _) = open(&path).unwrap_or_else(|error| panic!("{what}: {error}"));
        assert_found(&store.reader(), &placed);
    }
}

#[test]
fn states_of_another_tree_are_not_believed() {
    let dir = tempfile::tempdir().unwrap();
    let (one, other) = (dir.path().join("one"), dir.path().join("other"));
    for path in [&one, &other] {
        LogStore::create(path).unwrap();
    }
    let placed = fill(&mut open(&one).unwrap().0, &[30]);
    fill(&mut open(&other).unwrap().0, &[10]);
    fs::remove_dir_all(one.join("state")).unwrap();
    fs::rename(other.join("state"), one.join("state")).unwrap();
    let (store, recovery) = open(&one).unwrap();
    // The first ten receipts are the same in both: then the state may be believed; what counts is the outcome.
    assert!(recovery.replayed_receipts > 0);
    assert_found(&store.reader(), &placed);
}

#[test]
fn evidence_is_kept_once_in_order_and_a_torn_line_is_cut_off() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store");
    LogStore::create(&path).unwrap();
    let document = |number: usize| format!("{{\"kind\":\"test\",\"n\":{number}}}");
    {
        let (mut store, _) = open(&path).unwrap();
        for number in 0..300 {
            assert!(store.append_evidence(&document(number)).unwrap());
            assert!(!store.append_evidence(&document(number / 2)).unwrap());
        }
        assert!(store.append_evidence("two\nlines").is_err());
    }
    let mut file = fs::File::options().append(true).open(path.join("evidence.ndjson")).unwrap();
    file.write_all(b"{\"kind\":\"torn").unwrap();
    let (mut store, _) = open(&path).unwrap();
    assert!(!store.append_evidence(&document(7)).unwrap());
    let pages: Vec<usize> = (0..3).map(|page| store.reader().evidence_page(page).unwrap().len()).collect();
    assert_eq!(pages, [256, 44, 0]);
    assert_eq!(store.reader().evidence_page(1).unwrap()[43], document(299));
    assert_eq!(store.reader().evidence_page(u64::MAX).unwrap().len(), 0);
}

#[test]
fn a_store_of_another_log_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store");
    LogStore::create(&path).unwrap();
    fill(&mut open(&path).unwrap().0, &[3]);
    let other = key("log.example", 6).verifier();
    assert!(matches!(LogStore::open(&path, &other, &mut |_, _| {}), Err(StoreError::Damaged { what: "head", .. })));
}

#[test]
fn everything_can_be_checked_and_whatever_an_index_has_wrong_is_found_and_mended() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store");
    LogStore::create(&path).unwrap();
    let placed = fill(&mut open(&path).unwrap().0, &[30, 270, 1]);
    let (store, _) = open(&path).unwrap();
    let mut heard = Vec::new();
    let found = store.verify_all(&mut |done, of| heard.push((done, of))).unwrap();
    let log = Inspection { entries: 301, heads: 3 };
    assert_eq!(found, LogInspection { log, issuers: 2, wrong_in_indexes: 0 });
    assert_eq!(heard.last(), Some(&(301, 301)));
    assert!(heard.is_sorted());
    drop(store);
    // Two places swapped: no length tells, but every look-up reads the entry, and does not find the receipt there.
    let array = fs::read_dir(path.join("issuers")).unwrap().next().unwrap().unwrap().path();
    let mut bytes = fs::read(&array).unwrap();
    bytes[..16].rotate_left(8);
    fs::write(&array, bytes).unwrap();
    let (store, _) = open(&path).unwrap();
    assert_eq!(store.verify_all(&mut |_, _| {}).unwrap().wrong_in_indexes, 2);
    let asked = |name: &str| store.reader().index_of(&IssuerName::new(name).unwrap(), SeqNo(0));
    assert!([asked("gate.example/a"), asked("gate.example/b")].iter().any(Result::is_err));
    store.forget_indexes().unwrap();
    let (store, recovery) = open(&path).unwrap();
    assert_eq!((recovery.replayed_receipts, recovery.rebuilt), (301, true));
    assert_eq!(store.verify_all(&mut |_, _| {}).unwrap(), found);
    assert_found(&store.reader(), &placed);
}

#[test]
fn a_receipt_out_of_place_is_refused_before_anything_is_written() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store");
    LogStore::create(&path).unwrap();
    let (mut store, _) = open(&path).unwrap();
    let mut gate = Gate::new("gate.example/a", 1);
    store.register(&gate.key.verifier());
    let receipts: Vec<Admitted> = (0..4).map(|_| gate.next()).collect();
    let refused = |outcome| matches!(outcome, Err(StoreError::OutOfPlace { .. }));
    assert!(refused(store.commit(&receipts[1..], sign).map(drop)), "the first one is missing");
    store.commit(&receipts[..2], sign).unwrap();
    assert!(refused(store.commit(&receipts[1..], sign).map(drop)), "one is there already");
    let gap = [receipts[2].clone(), receipts[2].clone()];
    assert!(refused(store.commit(&gap, sign).map(drop)), "one comes twice");
    store.commit(&receipts[2..], sign).unwrap();
    assert_eq!(store.reader().size(), TreeSize(4));
}

#[test]
fn more_issuers_than_a_process_may_have_files_are_no_trouble() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store");
    LogStore::create(&path).unwrap();
    let mut gates: Vec<Gate> = (0..1100).map(|number| Gate::new(&format!("gate.example/{number}"), 1)).collect();
    let mut placed = Vec::new();
    for round in 0..2 {
        let (mut store, recovery) = open(&path).unwrap();
        assert_eq!(recovery.replayed_receipts, 0, "round {round}");
        gates.iter().for_each(|gate| store.register(&gate.key.verifier()));
        let admitted: Vec<Admitted> = gates.iter_mut().map(Gate::next).collect();
        placed.extend(admitted.iter().map(|one| (one.receipt.issuer().clone(), one.receipt.seq())));
        store.commit(&admitted, sign).unwrap();
        for (index, (issuer, seq)) in (0..).zip(&placed) {
            assert_eq!(store.reader().index_of(issuer, *seq).unwrap(), Some(LeafIndex(index)));
        }
    }
    fs::remove_dir_all(path.join("state")).unwrap();
    let (store, recovery) = open(&path).unwrap();
    assert!(recovery.rebuilt);
    assert_eq!(store.verify_all(&mut |_, _| {}).unwrap().issuers, 1100);
}

#[test]
fn a_store_that_has_lost_its_last_heads_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store");
    LogStore::create(&path).unwrap();
    fill(&mut open(&path).unwrap().0, &[3, 4]);
    let heads = fs::read(path.join("heads")).unwrap();
    for left in [0, heads.len() / 2, heads.len() - 1] {
        fs::write(path.join("heads"), &heads[..left]).unwrap();
        assert!(matches!(open(&path), Err(StoreError::Damaged { what: "head", .. })), "{left} bytes are left");
    }
    fs::write(path.join("heads"), heads).unwrap();
    assert_eq!(open(&path).unwrap().0.reader().size(), TreeSize(7));
}

#[test]
fn a_line_of_evidence_that_was_changed_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store");
    LogStore::create(&path).unwrap();
    {
        let (mut store, _) = open(&path).unwrap();
        for document in ["{\"n\":0}", "{\"n\":1}"] {
            store.append_evidence(document).unwrap();
        }
        assert!(matches!(store.append_evidence("{"), Err(StoreError::NotADocument { .. })));
        assert!(store.append_evidence("{\"n\":2}").unwrap());
    }
    fs::write(path.join("evidence.ndjson"), "{\"n\":0}\n{\"n\":1\x5d\n{\"n\":2}\n").unwrap();
    assert!(matches!(open(&path), Err(StoreError::Damaged { what: "document", position: 1, .. })));
}

/// Commits for ever, and says on standard output what it was answered. Run by the test below in a process of its own.
#[test]
fn child_that_commits_until_it_is_killed() {
    let Some(path) = std::env::var_os("COUNTERFOIL_TEST_STORE") else { return };
    let (mut store, _) = open(Path::new(&path)).unwrap();
    let mut gate = Gate::new("gate.example/a", 1);
    store.register(&gate.key.verifier());
    for _ in 0..store.reader().size().0 {
        gate.next();
    }
    for batch in [1usize, 7, 64, 3].into_iter().cycle() {
        let admitted: Vec<Admitted> = (0..batch).map(|_| gate.next()).collect();
        let committed = store.commit(&admitted, sign).unwrap();
        let head = committed.head.checkpoint();
        println!("answered {} {}", head.size, head.root);
    }
}

#[test]
fn a_process_killed_while_it_commits_loses_nothing_it_answered() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store");
    LogStore::create(&path).unwrap();
    let mut answered: Vec<(TreeSize, RootHash)> = Vec::new();
    for round in 0..10u64 {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "receipts::child_that_commits_until_it_is_killed", "--nocapture"])
            .env("COUNTERFOIL_TEST_STORE", &path)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
        let mut take = |line: String| {
            if let [_, size, root] = line.split(' ').collect::<Vec<_>>()[..]
                && let (Some(size), Some(root)) = (merkle::decimal::parse_u64(size), merkle::Hash::from_base64(root))
            {
                answered.push((TreeSize(size), RootHash(root)));
            }
        };
        // The harness prints some lines of its own; the clock of the kill runs from the second commit on, so that every round
        // shows something.
        lines.by_ref().filter(|line| line.starts_with("answered")).take(2).for_each(&mut take);
        let wait = Duration::from_millis(3 + round * 7 % 40);
        let killer = std::thread::spawn(move || {
            std::thread::sleep(wait);
            child.kill().unwrap();
            child.wait().unwrap();
        });
        lines.for_each(take);
        killer.join().unwrap();
        let (store, _) = open(&path).unwrap_or_else(|error| panic!("round {round}: {error}"));
        let reader = store.reader();
        let found = store.verify_all(&mut |_, _| {}).unwrap_or_else(|error| panic!("round {round}: {error}"));
        assert_eq!((found.log.entries, found.wrong_in_indexes), (reader.size().0, 0), "round {round}");
        for (size, root) in &answered {
            assert!(*size <= reader.size(), "round {round}: {size} was answered and {} is there", reader.size());
            assert_eq!(root_of(&reader, *size).unwrap(), *root, "round {round}: another history at {size}");
        }
    }
    assert!(answered.len() >= 20, "only {} commits were answered", answered.len());
}
