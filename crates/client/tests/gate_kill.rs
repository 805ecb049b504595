//! A gate that is killed 200 times at random instants, while it decides, acts, ends scopes and sends: every decision that was
//! returned is in the log with one outcome, none says that something was executed which did not run, and the log sees one
//! stream without a gap, a fork or a second copy.
//!
//! The gate is this very test program, run again with a directory in the environment.

use crate::strict_log;
use client::Patience;
use client::gate::{Decision, Gate, GateConfig};
use client::outbox::OutboxView;
use note::{KeyKind, KeyName, SigningKey};
use serde_json::Value;
use std::collections::{HashMap, HashSet};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;
use strict_log::{Misbehaviour, StrictLog, log_key};

const KILLS: u64 = 200;
/// Gates that are killed side by side, each with an outbox and a log of its own: most of a gate's short life is waiting for disks.
const GATES: u64 = 4;
/// Most actions that a gate lets run before its life is counted, and the longest that is then, in milliseconds.
const MOST_ALLOWED: u64 = 8;
const LONGEST_LIFE_MS: u64 = 120;
/// One in so many is killed earlier: before, while or just after it opens its outbox.
const STILLBORN: u64 = 5;
const DIRECTORY: &str = "COUNTERFOIL_GATE_KILL_DIRECTORY";
const LOG: &str = "COUNTERFOIL_GATE_KILL_LOG";
const ROUND: &str = "COUNTERFOIL_GATE_KILL_ROUND";

fn key() -> SigningKey {
    SigningKey::from_seed(KeyName::new("gate.example/killed").unwrap(), KeyKind::Ed25519, [1; 32])
}

fn gate(dir: &Path, url: &str, heartbeat_ms: Option<u64>, total: Duration) -> Gate {
    let mut config = GateConfig::new(dir, key(), url.parse().unwrap(), log_key().verifier());
    config.patience = Patience {
        first_pause: Duration::from_millis(1),
        longest_pause: Duration::from_millis(10),
        ..Patience::default()
    };
    config.timeouts.total = total;
    config.heartbeat_ms = heartbeat_ms;
    Gate::open(config).unwrap()
}

fn say(line: &str) {
    let mut stdout = std::io::stdout().lock();
    writeln!(stdout, "\n{line}").unwrap();
    stdout.flush().unwrap();
}

/// The gate. Acts until it is killed, and says on stdout what was returned to it and what ran.
#[test]
fn gate_that_is_killed() {
    let Ok(dir) = std::env::var(DIRECTORY) else { return };
    let (url, round) = (std::env::var(LOG).unwrap(), std::env::var(ROUND).unwrap());
    let gate = gate(Path::new(&dir), &url, Some(60), Duration::from_millis(500));
    let threads: Vec<_> = (0..3)
        .map(|thread| {
            let (gate, round) = (gate.clone(), round.clone());
            std::thread::spawn(move || {
                for number in 0u64.. {
                    let request = format!("r-{round}-{thread}-{number}");
                    let decision = Decision::new(true).request_id(&request).operation("refund").claimed_agent("a-7");
                    if number % 4 == 3 {
                        let denied = gate.deny(decision).unwrap().unwrap();
                        say(&format!("DENIED {request} {}", denied.id));
                        continue;
                    }
                    let mut act = gate.decide(decision.commit(["operation"])).unwrap();
                    say(&format!("ALLOWED {request} {}", act.receipt_id().unwrap()));
                    let failed = act.call(|| {
                        say(&format!("RAN {request}"));
                        if number % 5 == 1 { Err("no such order") } else { Ok(()) }
                    });
                    act.finish().unwrap();
                    say(&format!("ENDED {request} {}", if failed.is_ok() { "true" } else { "false" }));
                }
            })
        })
        .collect();
    for thread in threads {
        let _: Result<_, _> = thread.join();
    }
    eprintln!("THE GATE STOPPED");
    std::process::exit(1);
}

#[tokio::test(flavor = "multi_thread")]
async fn gates_killed_two_hundred_times_lose_no_decision_and_leave_none_without_its_outcome() {
    let seed = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().subsec_nanos();
    eprintln!("seed {seed}");
    let gates: Vec<_> = (0..GATES).map(|gate| tokio::spawn(kill_and_look(u64::from(seed) + gate))).collect();
    let (mut allowed, mut unknown) = (0, 0);
    for gate in gates {
        let counts = gate.await.unwrap();
        (allowed, unknown) = (allowed + counts.0, unknown + counts.1);
    }
    // All but the stillborn let something run, and are killed while three threads act.
    assert!(allowed >= KILLS / 2 && unknown > 10, "{allowed} allowed, {unknown} of them unknown: nothing was tested");
}

/// One gate's share of the kills. Answers how many decisions were allowed, and of how many it is not known what became.
async fn kill_and_look(mut random: u64) -> (u64, u64) {
    let dir = tempfile::tempdir().unwrap();
    let log = StrictLog::start(&[&key()]).await;
    log.lock().otherwise = |batch| match batch % 11 {
        2 => Some(Misbehaviour::Unavailable),
        5 => Some(Misbehaviour::DropAfterCommit),
        8 => Some(Misbehaviour::Slow(Duration::from_millis(60))),
        9 => Some(Misbehaviour::OverloadedAt(1)),
        _ => None,
    };
    let mut said: Vec<String> = Vec::new();
    for round in 0..KILLS / GATES {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let life = Duration::from_millis((random >> 33) % LONGEST_LIFE_MS);
        let allowed = if round.is_multiple_of(STILLBORN) { 0 } else { 1 + (random >> 21) % MOST_ALLOWED };
        let (dir, url) = (dir.path().to_owned(), log.url.clone());
        said.extend(
            tokio::task::spawn_blocking(move || run_and_kill(&dir, &url, round, (allowed, life))).await.unwrap(),
        );
    }
    log.lock().otherwise = |_| None;
    let (path, url) = (dir.path().to_owned(), log.url.clone());
    let ample = Duration::from_secs(600);
    tokio::task::spawn_blocking(move || gate(&path, &url, None, ample).flush(ample).unwrap()).await.unwrap();
    log.assert_spotless();

    let entries = log.lock().streams["gate.example/killed"].clone();
    let ids: HashSet<String> = entries.iter().map(|(_, entry)| receipt::ReceiptId::of(entry).to_string()).collect();
    assert_eq!(ids.len(), entries.len(), "a receipt is in the log twice");
    let bodies: Vec<Value> = log.bodies(&key()).iter().map(|body| serde_json::from_str(body).unwrap()).collect();
    let mut outcomes: HashMap<String, Value> = HashMap::new();
    for outcome in bodies.iter().filter(|body| body["type"] == "outcome") {
        let first = outcomes.insert(outcome["decision"].as_str().unwrap().to_owned(), outcome.clone());
        assert!(first.is_none(), "two outcomes of one decision: {outcome}");
    }
    let ran: HashSet<&str> = said.iter().filter_map(|line| line.strip_prefix("RAN ")).collect();
    let ended: HashMap<&str, &str> =
        said.iter().filter_map(|line| line.strip_prefix("ENDED ")?.split_once(' ')).collect();
    let (mut allowed, mut unknown) = (0, 0);
    for line in &said {
        let Some((word, (request, id))) =
            line.split_once(' ').and_then(|(word, rest)| Some((word, rest.split_once(' ')?)))
        else {
            continue;
        };
        match word {
            "DENIED" | "ALLOWED" => assert!(ids.contains(id), "{line}: lost"),
            _ => continue,
        }
        if word == "ALLOWED" {
            allowed += 1;
            let outcome = outcomes.get(id).unwrap_or_else(|| panic!("{line}: no outcome"));
            assert_eq!(outcome["request_id"], *request);
            match ended.get(request) {
                Some(executed) => assert_eq!(outcome["executed"].to_string(), **executed, "{outcome}"),
                None => unknown += u64::from(outcome.get("unknown").is_some()),
            }
        }
    }
    // Also of those that nobody was told of any more.
    for decision in bodies.iter().zip(&entries).filter(|(body, _)| body["decision"] == "allow") {
        let outcome = &outcomes[&receipt::ReceiptId::of(&decision.1.1).to_string()];
        let request = outcome["request_id"].as_str().unwrap();
        assert!(outcome["executed"] == false || ran.contains(request), "executed, and it never ran: {outcome}");
    }
    let verification = OutboxView::open(dir.path()).unwrap().verify(Some(&key().verifier()), &mut || {}).unwrap();
    let count = entries.len() as u64;
    assert_eq!(
        (verification.receipts, verification.proofs, verification.faults),
        (count, count, 0),
        "{verification:?}"
    );
    eprintln!(
        "{count} receipts over {} kills, {allowed} allowed, {unknown} cut short, {} sent twice",
        KILLS / GATES,
        log.lock().duplicates
    );
    (allowed, unknown)
}

/// Lets the gate live until it has let so many actions run, and then for a while, kills it with SIGKILL, and answers the whole
/// lines that it said. How much a gate did before it was killed is no matter of how fast the machine is.
fn run_and_kill(dir: &Path, url: &str, round: u64, (allowed, life): (u64, Duration)) -> Vec<String> {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "gate_kill::gate_that_is_killed", "--nocapture", "--test-threads", "1"])
        .envs([(DIRECTORY, dir.to_str().unwrap()), (LOG, url), (ROUND, &round.to_string())])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    let (said, one_more) = std::sync::mpsc::channel();
    let reader = std::thread::spawn(move || {
        let mut lines = Vec::new();
        let mut line = String::new();
        // A line that the kill cut has no end.
        while stdout.read_line(&mut line).unwrap() > 0 {
            lines.extend(line.strip_suffix('\n').map(str::to_owned));
            if line.starts_with("ALLOWED ") {
                let _: Result<_, _> = said.send(());
            }
            line.clear();
        }
        lines
    });
    for _ in 0..allowed {
        one_more.recv().expect("the gate ended before it was killed");
    }
    std::thread::sleep(life);
    assert_eq!(child.try_wait().unwrap(), None, "the gate ended before it was killed");
    child.kill().unwrap();
    child.wait().unwrap();
    reader.join().unwrap()
}
