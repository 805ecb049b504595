//! The log's store: receipts of several issuers and evidence, with the two databases as a crash may leave them: whole,
//! gone, or as they were at some moment before.

use super::every_call::{at_every_call, seeds};
use crate::stage::{key, sign};
use counterfoil_store::{LogStore, Sealed, StoreError};
use merkle::{LeafIndex, RootHash, TreeSize, root_of};
use note::{KeyKind, KeyName, SigningKey};
use receipt::{Admitted, Chain, IssuerName, IssuerState, SeqNo, UnixMillis, admit};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use testkit::faulty_disk::{Call, Extent, FaultyDisk};

const DIR: &str = "/log/store";

/// All that three gates will ever send, each in its order.
struct Gates(Vec<(SigningKey, Vec<Admitted>)>);

impl Gates {
    fn new() -> Gates {
        let gate = |number: u8| {
            let name = KeyName::new(&format!("gate.example/{number}")).unwrap();
            let key = SigningKey::from_seed(name, KeyKind::Ed25519, [number; 32]);
            let mut state = IssuerState::registered(key.verifier());
            let mut chain = Chain::new(state.name().clone());
            let mut sent = Vec::new();
            for seq in 0..12u64 {
                let at = UnixMillis(1_790_000_000_000 + seq);
                let receipt = match seq {
                    0 => chain.open(at, &key).unwrap(),
                    _ => chain
                        .append(format!("{{\"type\":\"note\",\"text\":\"{}\"}}", "x".repeat(300)), at, &key)
                        .unwrap(),
                };
                let one = admit(Some(&state), receipt.bytes(), &|_| None, None).unwrap();
                state = one.state.clone();
                sent.push(one);
            }
            (key, sent)
        };
        Gates((1..4).map(gate).collect())
    }

    /// What these gates send next, as the store stands.
    fn next(&self, store: &LogStore, gates: &[usize]) -> Vec<Admitted> {
        let mut next: BTreeMap<usize, usize> = BTreeMap::new();
        let mut batch = Vec::new();
        for gate in gates {
            let name = IssuerName(self.0[*gate].0.name().clone());
            let known = store.reader().issuer(&name).map_or(0, |state| state.next_seq().0 as usize);
            let place = next.entry(*gate).or_insert(known);
            batch.push(self.0[*gate].1[*place].clone());
            *place += 1;
        }
        batch
    }
}

/// What was answered to anybody.
#[derive(Clone, Default)]
struct Answered {
    receipts: Vec<(LeafIndex, IssuerName, SeqNo)>,
    heads: BTreeMap<u64, RootHash>,
    evidence: Vec<String>,
}

impl Answered {
    fn commit(&mut self, store: &mut LogStore, batch: &[Admitted]) -> Result<(), StoreError> {
        let committed = store.commit(batch, |size, root| Ok(Sealed::new(sign(size, root))))?;
        let places = (committed.first_index.0..).map(LeafIndex);
        self.receipts.extend(places.zip(batch).map(|(at, one)| (at, one.receipt.issuer().clone(), one.receipt.seq())));
        let head = committed.head.checkpoint();
        self.see(head.size, head.root);
        Ok(())
    }

    fn see(&mut self, size: TreeSize, root: RootHash) {
        assert_eq!(*self.heads.entry(size.0).or_insert(root), root, "two histories of {size}");
    }

    fn assert_kept(&self, store: &LogStore) {
        let reader = store.reader();
        for (index, issuer, seq) in &self.receipts {
            assert_eq!(reader.index_of(issuer, *seq).unwrap(), Some(*index), "{issuer} {seq}");
            let id = reader.held_id(issuer, *seq).unwrap().unwrap();
            assert_eq!(reader.index_of_id(&id).unwrap(), Some(*index));
        }
        for (size, root) in &self.heads {
            assert!(*size <= reader.size().0, "{size} receipts were answered for, and {} are there", reader.size());
            assert_eq!(root_of(&reader, TreeSize(*size)).unwrap(), *root, "another history at {size}");
        }
        let evidence = reader.evidence_page(0).unwrap();
        assert!(self.evidence.iter().all(|document| evidence.contains(document)), "{evidence:?}");
        assert_eq!(store.verify_all(&mut |_, _| {}).unwrap().wrong_in_indexes, 0);
    }
}

/// Directories in memory, where there are such: the databases sync at every turn.
fn scratch() -> tempfile::TempDir {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() { tempfile::tempdir_in(memory).unwrap() } else { tempfile::tempdir().unwrap() }
}

fn open(disk: &FaultyDisk, databases: &Path) -> Result<LogStore, StoreError> {
    let opened = LogStore::open_on(&disk.shared(), Path::new(DIR), databases, &key().verifier(), &mut |_, _| {});
    opened.map(|(store, _)| store)
}

fn copy(from: &Path, to: &Path) {
    for (path, bytes) in crate::stage::snapshot(from) {
        fs::create_dir_all(to.join(&path).parent().unwrap()).unwrap();
        fs::write(to.join(path), bytes).unwrap();
    }
}

/// Four batches with two documents between them. Answers whether anything went wrong before the store was closed.
fn live(disk: &FaultyDisk, databases: &Path, gates: &Gates, answered: &mut Answered) -> Result<bool, StoreError> {
    let mut store = open(disk, databases)?;
    for (key, _) in &gates.0 {
        store.register(&key.verifier());
    }
    for (turn, senders) in [&[0, 1, 0][..], &[2], &[], &[1, 1, 2, 0]].into_iter().enumerate() {
        let batch = gates.next(&store, senders);
        let document = format!("{{\"turn\":{turn},\"text\":\"{}\"}}", "x".repeat(600));
        let kept = if turn % 2 == 0 { store.append_evidence(&document).map(drop) } else { Ok(()) };
        if kept.is_ok() && turn % 2 == 0 {
            answered.evidence.push(document);
        }
        if let Err(error) = kept.and_then(|()| answered.commit(&mut store, &batch)) {
            let more = store.commit(&[], |size, root| Ok(Sealed::new(sign(size, root))));
            assert!(matches!(more, Err(StoreError::Poisoned)), "after {error} it commits");
            assert!(
                matches!(store.append_evidence("{}"), Err(StoreError::Poisoned)),
                "after {error} it keeps evidence"
            );
            return Err(error);
        }
    }
    Ok(disk.met().is_some())
}

#[test]
fn trouble_at_any_call_loses_no_receipt_that_was_answered_whatever_the_databases_hold() {
    let gates = Gates::new();
    let disk = FaultyDisk::new();
    LogStore::create_on(&disk, Path::new(DIR)).unwrap();
    let before = scratch();
    let mut first = Answered::default();
    {
        let mut store = open(&disk, before.path()).unwrap();
        gates.0.iter().for_each(|(key, _)| store.register(&key.verifier()));
        let batch = gates.next(&store, &[0, 1, 0]);
        first.commit(&mut store, &batch).unwrap();
    }
    let start = disk.after_power_cut(0);
    let running: RefCell<Option<(tempfile::TempDir, PathBuf)>> = RefCell::default();
    let act = |disk: &FaultyDisk| {
        let dir = scratch();
        let databases = dir.path().join("now");
        copy(before.path(), &databases);
        let mut answered = first.clone();
        let lived = live(disk, &databases, &gates, &mut answered);
        // What is saved while the store is closed only saves the next start some work: nobody hears that it failed.
        let is_done = lived.is_ok_and(|went_wrong| went_wrong || disk.met().is_none());
        *running.borrow_mut() = Some((dir, databases));
        (answered, is_done)
    };
    let judge = |disk: &FaultyDisk, answered: Answered, seed: u64| {
        let (dir, now) = running.take().unwrap();
        for (turn, cut) in [None, Some(seed)].into_iter().chain((1..seeds(1)).map(|more| Some(seed + more))).enumerate()
        {
            let found = cut.map_or_else(|| disk.after_kill(), |seed| disk.after_power_cut(seed));
            let databases = dir.path().join(format!("{turn}"));
            fs::create_dir(&databases).unwrap();
            match (seed + turn as u64) % 3 {
                0 => {}
                1 => copy(before.path(), &databases),
                _ => copy(&now, &databases),
            }
            let mut answered = answered.clone();
            let mut store =
                open(&found, &databases).unwrap_or_else(|error| panic!("{cut:?}: it does not start: {error}"));
            answered.assert_kept(&store);
            gates.0.iter().for_each(|(key, _)| store.register(&key.verifier()));
            let batch = gates.next(&store, &[2, 0]);
            answered.commit(&mut store, &batch).unwrap();
            drop(store);
            answered.assert_kept(&open(&found.after_power_cut(0), &databases).unwrap());
        }
    };
    let covered = at_every_call(&start, &[Extent::Part], act, judge);
    assert!(covered.calls > 150, "{covered:?}");
    let all =
        [Call::Open, Call::Find, Call::List, Call::CreateDir, Call::Read, Call::Write, Call::Sync, Call::SyncDirectory];
    assert!(all.iter().all(|call| covered.met.contains(call)), "{covered:?}");
}

#[test]
fn a_wrong_place_in_an_issuers_array_is_noticed_when_it_is_looked_up() {
    let gates = Gates::new();
    let disk = FaultyDisk::new();
    LogStore::create_on(&disk, Path::new(DIR)).unwrap();
    let databases = scratch();
    live(&disk, databases.path(), &gates, &mut Answered::default()).unwrap();
    let arrays: Vec<PathBuf> =
        disk.files().into_iter().filter(|path| path.starts_with(Path::new(DIR).join("issuers"))).collect();
    assert_eq!(arrays.len(), 3);
    for array in arrays {
        for byte in 0..disk.bytes(&array).unwrap().len() as u64 {
            let rotten = disk.copy();
            rotten.flip_bit(&array, byte, (byte % 8) as u32).unwrap();
            // A copy: sled gives up its lock some time after it was dropped, and what is locked is derived again.
            let copied = scratch();
            copy(databases.path(), copied.path());
            let store = open(&rotten, copied.path()).unwrap();
            let found = gates.0.iter().map(|(key, _)| {
                let name = IssuerName(key.name().clone());
                store.reader().index_of(&name, SeqNo(byte / 8))
            });
            let wrong: Vec<StoreError> = found.filter_map(Result::err).collect();
            let [wrong @ StoreError::Misleading { what: "place", .. }] = &wrong[..] else {
                panic!("{array:?} byte {byte}: {wrong:?}")
            };
            assert!(wrong.is_damage(), "{wrong}");
            // No copy is needed for what can be derived again.
            let sentence = wrong.to_string();
            assert!(sentence.contains("--repair-index") && !sentence.contains("restore"), "{sentence}");
        }
    }
}
