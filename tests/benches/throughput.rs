//! What the log does a second, and how long a gate waits: `cargo bench -p counterfoil-tests`.
//!
//! Log, load and verifier share the machine. Every acknowledged receipt is signed, checked, in its issuer's order,
//! synced to disk and covered by a durable signed head. Absolute figures belong to the machine; the first line, strict
//! signature checks on one core, is what to compare the others with.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

use client::{BaseUrl, BoundedClient, LogClient, Timeouts, Verdict, Wait};
use note::{KeyKind, KeyName, SigningKey, Strict};
use receipt::{Chain, IssuerName, IssuerState, Receipt, UnixMillis, check_signature};
use std::ffi::OsStr;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime};
use testkit::stage::{Setup, Stage};

/// Bytes of an entry, as in the measurements that the design refers to.
const ENTRY_BYTES: usize = 700;

fn main() {
    // Run by anything but `cargo bench`, it only shows that it works.
    let scale = if std::env::args().any(|argument| argument == "--bench") { 1 } else { 8 };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let dir = tempfile::tempdir().unwrap();
    let gates: Vec<Gate> = (0..256).map(Gate::new).collect();
    let vkeys: Vec<String> = gates.iter().map(|gate| gate.key.verifier().to_string()).collect();
    let executable = Path::new(env!("CARGO_BIN_EXE_counterfoil-under-test"));
    let setup = Setup { dir: dir.path(), executable, port: None, witnesses: 0, more_issuers: &vkeys };
    let mut stage = Stage::build(&setup).unwrap();
    stage.start_log().unwrap();
    stage.wait_until_ready().unwrap();

    let checks = strict_checks(4000 / scale);
    println!("{:<42} {checks:>7.0}/s", "strict signature checks, one core");
    let base: BaseUrl = stage.log_url().parse().unwrap();
    let client = LogClient::new(base, BoundedClient::new(Timeouts::default()).unwrap());
    let (lone, single, batch) = runtime.block_on(async {
        let mut gates = gates;
        let lone = lone_client(&client, &mut gates[0], 400 / scale).await;
        let (gates, single) = single_receipts(&client, gates, 80 / scale).await;
        let batch = batches(&client, gates, 256, 16 / scale).await;
        (lone, single, batch)
    });
    report("one client, one receipt at a time", &lone, checks);
    report("256 connections, one receipt a request", &single, checks);
    report("8 connections, 256 receipts a request", &batch, checks);
    let (receipts, seconds) = audit(&stage);
    let rate = receipts as f64 / seconds;
    println!("{:<42} {rate:>7.0}/s {:>6.2}x", format!("audit of {receipts} receipts, whole process"), rate / checks);
}

/// What a load measured: how many receipts in how long, and each request's time.
struct Measured {
    receipts: usize,
    took: Duration,
    requests: Vec<Duration>,
}

fn report(what: &str, measured: &Measured, checks: f64) {
    let mut requests = measured.requests.clone();
    requests.sort();
    let at = |share: f64| requests[((requests.len() - 1) as f64 * share) as usize].as_secs_f64() * 1e3;
    let rate = measured.receipts as f64 / measured.took.as_secs_f64();
    println!("{what:<42} {rate:>7.0}/s {:>6.2}x   p50 {:>7.2} ms   p99 {:>7.2} ms", rate / checks, at(0.5), at(0.99));
}

/// A gate that signs ahead.
struct Gate {
    key: SigningKey,
    chain: Chain,
}

impl Gate {
    fn new(number: usize) -> Gate {
        let name = KeyName::new(&format!("gate.example/bench-{number}")).unwrap();
        let mut seed = [0; 32];
        seed[..8].copy_from_slice(&(number as u64 + 1).to_be_bytes());
        let key = SigningKey::from_seed(name.clone(), KeyKind::Ed25519, seed);
        Gate { key, chain: Chain::new(IssuerName(name)) }
    }

    fn next(&mut self) -> Receipt {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
        let at = UnixMillis(now.as_millis() as u64);
        if self.chain.next_seq().0 == 0 {
            return self.chain.open(at, &self.key).unwrap();
        }
        let seq = self.chain.next_seq();
        let mut body = format!(
            "{{\"type\":\"decision\",\"request_id\":\"r-{seq}\",\"decision\":\"allow\",\"authenticated\":true,\"executes\":\"gate\",\"why\":\"\"}}"
        );
        let padding = ENTRY_BYTES.saturating_sub(body.len() + 230);
        body.insert_str(body.len() - 2, &"x".repeat(padding));
        self.chain.append(body, at, &self.key).unwrap()
    }
}

fn strict_checks(count: usize) -> f64 {
    let mut gate = Gate::new(0);
    let state = IssuerState::registered(gate.key.verifier());
    let receipts: Vec<Receipt> = (0..count).map(|_| gate.next()).collect();
    let started = Instant::now();
    for receipt in &receipts {
        std::hint::black_box(check_signature(receipt, &state, &Strict)).unwrap();
    }
    count as f64 / started.elapsed().as_secs_f64()
}

async fn lone_client(client: &LogClient, gate: &mut Gate, count: usize) -> Measured {
    let receipts: Vec<Receipt> = (0..count).map(|_| gate.next()).collect();
    let started = Instant::now();
    let requests = submit_each(client, &receipts).await;
    Measured { receipts: count, took: started.elapsed(), requests }
}

async fn single_receipts(client: &LogClient, gates: Vec<Gate>, each: usize) -> (Vec<Gate>, Measured) {
    let mut ready = Vec::new();
    for mut gate in gates {
        let receipts: Vec<Receipt> = (0..each).map(|_| gate.next()).collect();
        ready.push((gate, receipts));
    }
    let started = Instant::now();
    let tasks: Vec<_> = ready
        .into_iter()
        .map(|(gate, receipts)| {
            let client = client.clone();
            tokio::spawn(async move { (gate, submit_each(&client, &receipts).await) })
        })
        .collect();
    let (mut gates, mut requests) = (Vec::new(), Vec::new());
    for task in tasks {
        let (gate, took) = task.await.unwrap();
        gates.push(gate);
        requests.extend(took);
    }
    let took = started.elapsed();
    (gates, Measured { receipts: requests.len(), took, requests })
}

async fn submit_each(client: &LogClient, receipts: &[Receipt]) -> Vec<Duration> {
    let mut requests = Vec::with_capacity(receipts.len());
    for receipt in receipts {
        let asked = Instant::now();
        client.submit(receipt.bytes(), Wait::Integrated).await.unwrap();
        requests.push(asked.elapsed());
    }
    requests
}

async fn batches(client: &LogClient, gates: Vec<Gate>, batch: usize, each: usize) -> Measured {
    let mut ready: Vec<Vec<Vec<Vec<u8>>>> = Vec::new();
    for mut gate in gates.into_iter().take(8) {
        ready.push((0..each).map(|_| (0..batch).map(|_| gate.next().bytes().to_vec()).collect()).collect());
    }
    let started = Instant::now();
    let tasks: Vec<_> = ready
        .into_iter()
        .map(|batches| {
            let client = client.clone();
            tokio::spawn(async move {
                let mut requests = Vec::new();
                for batch in batches {
                    let asked = Instant::now();
                    let verdicts = client.submit_batch(&batch).await.unwrap();
                    assert!(verdicts.iter().all(|verdict| matches!(verdict, Verdict::Appended(_))));
                    requests.push(asked.elapsed());
                }
                requests
            })
        })
        .collect();
    let mut requests = Vec::new();
    for task in tasks {
        requests.extend(task.await.unwrap());
    }
    Measured { receipts: requests.len() * batch, took: started.elapsed(), requests }
}

/// Fetches everything and audits it: the number of receipts, and the seconds that the audit took as a process.
fn audit(stage: &Stage) -> (u64, f64) {
    let (policy, issuers, bundle) = (stage.policy_file(), stage.issuers_file(), stage.dir().join("bundle"));
    let fetch = ["verify", "fetch", "--policy"].map(OsStr::new);
    let out = [policy.as_os_str(), "--out".as_ref(), bundle.as_os_str()];
    assert_eq!(stage.call(&[&fetch[..], &out].concat()).unwrap().0, 0);
    let audit = ["verify", "audit", "--json", "--policy"].map(OsStr::new);
    let of = [policy.as_os_str(), "--issuers".as_ref(), issuers.as_os_str(), bundle.as_os_str()];
    let started = Instant::now();
    let (_, said) = stage.call(&[&audit[..], &of].concat()).unwrap();
    let seconds = started.elapsed().as_secs_f64();
    let verdict: serde_json::Value = serde_json::from_str(&said).unwrap();
    assert_ne!(verdict["overall"], "fail");
    (verdict["coverage"]["entries"].as_u64().unwrap(), seconds)
}
