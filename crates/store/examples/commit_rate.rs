//! How many records a second are committed: `cargo run --release -p counterfoil-store --example commit_rate [DIR]`.
//!
//! The tiled log alone, with records of 700 bytes in groups of 1, 16, 256 and 4096; then the log's store, with
//! receipts that were signed and admitted beforehand. Every group is signed and durable before the next.
#![allow(clippy::print_stdout)]

use counterfoil_store::{LogStore, Sealed, Tlog};
use merkle::{RootHash, TreeSize};
use note::{Checkpoint, CheckpointError, KeyKind, KeyName, Origin, SignedCheckpoint, SigningKey, Verified};
use receipt::{Admitted, Chain, IssuerState, UnixMillis, admit};
use std::error::Error;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

const RECORD_LEN: usize = 700;
const TAKES: Duration = Duration::from_secs(3);

fn main() -> Result<(), Box<dyn Error>> {
    let dir = std::env::args_os().nth(1).map_or_else(std::env::temp_dir, PathBuf::from);
    let dir = tempfile::tempdir_in(dir)?;
    let key = SigningKey::from_seed(KeyName::new("log.example")?, KeyKind::Ed25519, [5; 32]);
    for group in [1, 16, 256, 4096] {
        tiled_log(&dir.path().join(format!("log-{group}")), &key, group)?;
    }
    for group in [1, 256, 4096] {
        log_store(&dir.path().join(format!("store-{group}")), &key, group)?;
    }
    Ok(())
}

fn tiled_log(dir: &Path, key: &SigningKey, group: usize) -> Result<(), Box<dyn Error>> {
    let mut log = Tlog::create(dir)?;
    let started = Instant::now();
    while started.elapsed() < TAKES {
        let first = log.reader().size().0;
        let records: Vec<Vec<u8>> = (first..first + group as u64).map(record).collect();
        let appended = log.append(&records)?;
        log.record_head(head(appended.size, appended.root, key)?)?;
    }
    report("tiled log", group, log.reader().size(), started.elapsed());
    let started = Instant::now();
    let size = log.reader().size();
    drop(log);
    let ours = key.verifier();
    let check = |head: &[u8]| {
        let head = SignedCheckpoint::parse(head).and_then(|head| head.verify(&ours)).ok()?;
        Some((head.checkpoint().size, head.checkpoint().root))
    };
    let (log, _) = Tlog::open(dir, &check)?;
    println!("           opened again in {:?}", started.elapsed());
    let started = Instant::now();
    log.verify_all(&check, &mut |_, _| {})?;
    println!("           everything read and checked in {:?}, of {size} records", started.elapsed());
    Ok(())
}

fn log_store(dir: &Path, key: &SigningKey, group: usize) -> Result<(), Box<dyn Error>> {
    LogStore::create(dir)?;
    let (mut store, _) = LogStore::open(dir, &key.verifier(), &mut |_, _| {})?;
    let count = if group == 1 { 2_000 } else { 40_960 };
    let receipts = receipts(count)?;
    let started = Instant::now();
    for group in receipts.chunks(group) {
        store.commit(group, |size, root| head(size, root, key))?;
    }
    report("log store", group, store.reader().size(), started.elapsed());
    let started = Instant::now();
    store.forget_indexes()?;
    LogStore::open(dir, &key.verifier(), &mut |_, _| {})?;
    println!("           indexes derived from nothing in {:?}", started.elapsed());
    Ok(())
}

fn head(
    size: TreeSize,
    root: RootHash,
    key: &SigningKey,
) -> Result<Sealed<SignedCheckpoint<Verified>>, CheckpointError> {
    note::sign_checkpoint(&Checkpoint::new(Origin::from(key.name()), size, root), key).map(Sealed::new)
}

fn record(number: u64) -> Vec<u8> {
    let mut record = number.to_string().into_bytes();
    record.resize(RECORD_LEN, b'x');
    record
}

fn receipts(count: usize) -> Result<Vec<Admitted>, Box<dyn Error>> {
    let mut gates = Vec::new();
    for number in 0..16u8 {
        let key =
            SigningKey::from_seed(KeyName::new(&format!("gate.example/{number}"))?, KeyKind::Ed25519, [number; 32]);
        let state = IssuerState::registered(key.verifier());
        gates.push((Chain::new(state.name().clone()), state, key));
    }
    let places = gates.len();
    let mut admitted = Vec::with_capacity(count);
    for number in 0..count {
        let (chain, state, key) = &mut gates[number % places];
        let at = UnixMillis(1_790_000_000_000 + number as u64);
        let receipt = if chain.next_seq().0 == 0 {
            chain.open(at, key)?
        } else {
            chain.append(format!(r#"{{"type":"note","text":"{}"}}"#, "x".repeat(450)), at, key)?
        };
        let one = admit(Some(state), receipt.bytes(), &|_| None, None)?;
        *state = one.state.clone();
        admitted.push(one);
    }
    Ok(admitted)
}

fn report(what: &str, group: usize, size: TreeSize, took: Duration) {
    let seconds = took.as_secs_f64();
    let commits = size.0 as f64 / group as f64 / seconds;
    println!("{what}  groups of {group:4}: {:8.0} records/s ({commits:.0} commits/s)", size.0 as f64 / seconds);
}
