//! Makes a store of receipts, 256 a commit, and checks it: how many receipts a second, by the clock and by the CPU.
//!
//! ```text
//! check_rate DIR COUNT             makes DIR/store unless it is there, checks it with and without signatures, and
//!                                  derives everything again
//! check_rate DIR COUNT with        only the first of these; or `without`
//! ```
#![allow(clippy::print_stdout)]

use counterfoil_store::{LogStore, Sealed, Snapshot, inspect, rebuild_indexes};
use merkle::{PageId, ResourcePath, TileId};
use note::{Checkpoint, KeyKind, KeyName, Origin, SigningKey, Strict, sign_checkpoint};
use receipt::{Admitted, Chain, IssuerState, UnixMillis, is_issued_under, place, presume_signature};
use std::error::Error;
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

const GATES: usize = 16;
const GROUP: usize = 256;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args_os().skip(1);
    let dir = arguments.next().map_or_else(std::env::temp_dir, PathBuf::from).join("store");
    let count = arguments.next().and_then(|count| count.to_str()?.parse().ok()).unwrap_or(200_000);
    let key = SigningKey::from_seed(KeyName::new("log.example")?, KeyKind::Ed25519, [5; 32]);
    if !dir.exists() {
        fill(&dir, &key, count)?;
    }
    one_core()?;
    let only = arguments.next();
    let wanted = |signatures: &bool| match only.as_ref().and_then(|only| only.to_str()) {
        Some("with") => *signatures,
        Some("without") => !*signatures,
        _ => true,
    };
    for signatures in [true, false].into_iter().filter(wanted) {
        let (started, cpu) = (Instant::now(), cpu_seconds());
        let report = inspect(&dir, &key.verifier(), signatures, &mut |_, _| {})?;
        let (seconds, cpu) = (started.elapsed().as_secs_f64(), cpu_seconds() - cpu);
        let entries = report.looked_at.entries as f64;
        println!(
            "signatures {signatures:5}  {:7.0}/s by the clock, {:7.0}/s a core of CPU time ({seconds:.2} s, {cpu:.2} s of CPU), {} findings",
            entries / seconds,
            entries / cpu,
            report.findings.count()
        );
        for finding in report.findings.first().iter().take(5) {
            println!("    {finding}");
        }
    }
    served(&dir, &key)?;
    if only.is_some() {
        return Ok(());
    }
    let started = Instant::now();
    rebuild_indexes(&dir, &key.verifier(), true, &mut |_, _| {})?;
    println!("everything derived again in {:.2} s", started.elapsed().as_secs_f64());
    Ok(())
}

/// What it costs to read what is served, which is compared with what is above it.
fn served(dir: &Path, key: &SigningKey) -> Result<(), Box<dyn Error>> {
    let snapshot = Snapshot::open(dir, &key.verifier())?;
    let full = snapshot.log().size().0 / 256;
    let bundle = |index: u64| ResourcePath::Entries(PageId { index, width: 256 });
    let tile = |index: u64| ResourcePath::Tile(TileId { level: 0, index, width: 256 });
    for (what, path) in [("bundle", &bundle as &dyn Fn(u64) -> ResourcePath), ("tile", &tile)] {
        let started = cpu_seconds();
        let mut bytes = 0;
        for _ in 0..5 {
            for index in 0..full {
                bytes += snapshot.log().resource(&path(index))?.map_or(0, |bytes| bytes.len());
            }
        }
        let each = (cpu_seconds() - started) / (5 * full) as f64;
        println!("a full {what} of {} bytes: {:.0} us of CPU", bytes as u64 / (5 * full), each * 1e6);
    }
    let file = fs::File::open(dir.join("entries"))?;
    let (started, mut page) = (cpu_seconds(), vec![0; 150_000]);
    let length = file.metadata()?.len();
    for begin in (0..5 * full).map(|number| number * 150_000 % (length - 150_000)) {
        file.read_exact_at(&mut page, begin)?;
    }
    println!(
        "150000 bytes read and not looked at: {:.0} us of CPU",
        (cpu_seconds() - started) / (5 * full) as f64 * 1e6
    );
    Ok(())
}

/// What one core can do, to compare with.
fn one_core() -> Result<(), Box<dyn Error>> {
    let mut gates = gates()?;
    let receipts: Vec<Admitted> =
        (0..4000).map(|number| next(&mut gates[number % GATES], number)).collect::<Result<_, _>>()?;
    let started = cpu_seconds();
    let good = receipts.iter().filter(|one| is_issued_under(&one.receipt, one.state.keys().current(), &Strict)).count();
    println!("one core: {:.0} signatures/s", good as f64 / (cpu_seconds() - started));
    let started = cpu_seconds();
    for _ in 0..20 {
        for one in &receipts {
            receipt::Receipt::parse(one.receipt.bytes())?;
        }
    }
    println!("one core: {:.0} receipts parsed/s", 20.0 * receipts.len() as f64 / (cpu_seconds() - started));
    Ok(())
}

fn fill(dir: &Path, key: &SigningKey, count: usize) -> Result<(), Box<dyn Error>> {
    LogStore::create(dir)?;
    let (mut store, _) = LogStore::open(dir, &key.verifier(), &mut |_, _| {})?;
    let mut gates = gates()?;
    for first in (0..count).step_by(GROUP) {
        let group: Vec<Admitted> = (first..count.min(first + GROUP))
            .map(|number| next(&mut gates[number % GATES], number))
            .collect::<Result<_, _>>()?;
        store.commit(&group, |size, root| {
            sign_checkpoint(&Checkpoint::new(Origin::from(key.name()), size, root), key).map(Sealed::new)
        })?;
    }
    store.catch_up()?;
    Ok(())
}

type Gate = (Chain, IssuerState, SigningKey);

fn gates() -> Result<Vec<Gate>, Box<dyn Error>> {
    let gate = |number: u8| -> Result<Gate, Box<dyn Error>> {
        let name = KeyName::new(&format!("gate.example/{number}"))?;
        let key = SigningKey::from_seed(name, KeyKind::Ed25519, [number; 32]);
        let state = IssuerState::registered(key.verifier());
        Ok((Chain::new(state.name().clone()), state, key))
    };
    (0..GATES as u8).map(gate).collect()
}

fn next((chain, state, key): &mut Gate, number: usize) -> Result<Admitted, Box<dyn Error>> {
    let at = UnixMillis(1_790_000_000_000 + number as u64);
    let receipt = if chain.next_seq().0 == 0 {
        chain.open(at, key)?
    } else {
        let body = format!(
            r#"{{"type":"decision","request_id":"r-{number}","decision":"allow","rule":"R2_PURPOSE","operation":"delete_customer","resource":"customer:{number}","action_class":"IDENTITY_MUTATION","session":"s-{}","authenticated":true,"executes":"gate","subjects":["customer:{number}"],"why":"{}"}}"#,
            number % 97,
            "x".repeat(130)
        );
        chain.append(body, at, key)?
    };
    let one = place(state, presume_signature(&receipt, state)?, &|_| None, None)?;
    *state = one.state.clone();
    Ok(one)
}

/// CPU time of this process, all threads, user and system.
fn cpu_seconds() -> f64 {
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks = |place: usize| fields.get(place).and_then(|field| field.parse::<f64>().ok()).unwrap_or(0.0);
    (ticks(11) + ticks(12)) / 100.0
}
