//! A gate that is killed at random moments, over and over, while it appends and sends: nothing that was returned is
//! lost, nothing is signed twice, and the log sees one stream without a gap, a fork or a second copy.
//!
//! The gate is this very test program, run again with a directory in the environment.

use crate::strict_log;
use client::outbox::{GateDescription, Outbox, OutboxView};
use client::{BaseUrl, BoundedClient, LogClient, Patience, Sender, Timeouts};
use note::{KeyKind, KeyName, SigningKey};
use receipt::{SeqNo, UnixMillis};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;
use strict_log::{Misbehaviour, StrictLog, log_key};

const ROUNDS: u64 = 20;
/// Most receipts that a gate is told of before its life is counted; one in so many is killed whether it was told or not.
const MOST_RETURNED: u64 = 40;
const STILLBORN: u64 = 5;
const DIRECTORY: &str = "COUNTERFOIL_KILL_TEST_DIRECTORY";
const LOG: &str = "COUNTERFOIL_KILL_TEST_LOG";
const ROUND: &str = "COUNTERFOIL_KILL_TEST_ROUND";

fn key() -> SigningKey {
    SigningKey::from_seed(KeyName::new("gate.example/killed").unwrap(), KeyKind::Ed25519, [1; 32])
}

fn sender(outbox: Outbox, log: LogClient, give_up_after: Option<Duration>) -> Sender {
    let patience =
        Patience { first_pause: Duration::from_millis(1), longest_pause: Duration::from_millis(10), give_up_after };
    Sender::new(outbox, log, log_key().verifier(), patience, Arc::new(|| UnixMillis(0))).unwrap()
}

/// The gate. Appends until it is killed, and says on stdout what was returned to it.
#[tokio::test(flavor = "multi_thread")]
async fn gate_that_is_killed() {
    let Ok(dir) = std::env::var(DIRECTORY) else { return };
    let (log, round) = (std::env::var(LOG).unwrap(), std::env::var(ROUND).unwrap());
    let outbox = Outbox::open(Path::new(&dir), key(), GateDescription::default()).unwrap();
    let timeouts = Timeouts { connect: Duration::from_secs(1), total: Duration::from_millis(300) };
    let client = LogClient::new(log.parse::<BaseUrl>().unwrap(), BoundedClient::new(timeouts).unwrap());
    let mut sending = sender(outbox.clone(), client, None);
    let sent = tokio::spawn(async move { sending.run(std::future::pending()).await });
    let appending = tokio::task::spawn_blocking(move || {
        for number in 0u64.. {
            let bodies: Vec<String> = (0..1 + number % 3)
                .map(|part| format!(r#"{{"type":"heartbeat","round":{round},"number":{number},"part":{part}}}"#))
                .collect();
            for (queued, body) in
                outbox.append_all(&bodies, UnixMillis(1_790_000_000_000)).unwrap().into_iter().zip(bodies)
            {
                let mut stdout = std::io::stdout().lock();
                writeln!(stdout, "RETURNED {} {} {body}", queued.seq, queued.id).unwrap();
                stdout.flush().unwrap();
            }
        }
    });
    // Whichever ends first has failed.
    tokio::select! {
        stopped = sent => eprintln!("THE SENDER STOPPED: {stopped:?}"),
        stopped = appending => eprintln!("THE GATE STOPPED: {stopped:?}"),
    }
    std::process::exit(1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gate_killed_at_random_moments_loses_nothing_forks_nothing_and_repeats_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let log = StrictLog::start(&[&key()]).await;
    log.lock().otherwise = |batch| match batch % 11 {
        2 => Some(Misbehaviour::Unavailable),
        5 => Some(Misbehaviour::DropAfterCommit),
        8 => Some(Misbehaviour::Slow(Duration::from_millis(400))),
        9 => Some(Misbehaviour::OverloadedAt(1)),
        _ => None,
    };
    let seed = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().subsec_nanos();
    eprintln!("seed {seed}");
    let mut random = u64::from(seed);
    let mut returned: Vec<(u64, String, String)> = Vec::new();
    let mut awaited = 0;
    for round in 0..ROUNDS {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let life = Duration::from_millis(20 + (random >> 33) % 250);
        let least = if round.is_multiple_of(STILLBORN) { 0 } else { 1 + (random >> 21) % MOST_RETURNED };
        awaited += least;
        let (dir, url) = (dir.path().to_owned(), log.url.clone());
        returned
            .extend(tokio::task::spawn_blocking(move || run_and_kill(&dir, &url, round, (least, life))).await.unwrap());
    }
    let outbox = Outbox::open(dir.path(), key(), GateDescription::default()).unwrap();
    log.lock().otherwise = |_| None;
    sender(outbox.clone(), log.client(), None).flush().await.unwrap();
    assert!(returned.len() as u64 >= awaited, "only {} receipts of {awaited}", returned.len());
    for (seq, id, body) in &returned {
        let receipt =
            outbox.receipt(SeqNo(*seq)).unwrap().unwrap_or_else(|| panic!("seq {seq} was returned and is lost"));
        assert_eq!((receipt.id().to_string(), receipt.body_text()), (id.clone(), body.as_str()));
    }
    let status = outbox.status().unwrap();
    assert_eq!((status.acknowledged, status.alarms), (status.receipts, 0), "{status:?}");
    // One stream, dense and once: what the log holds is what the outbox holds.
    log.assert_spotless();
    let logged = log.bodies(&key());
    let ours: Vec<String> =
        (0..status.receipts).map(|seq| outbox.receipt(SeqNo(seq)).unwrap().unwrap().body_text().to_owned()).collect();
    assert_eq!(logged, ours);
    assert_eq!(log.lock().tree.size().0, status.receipts);
    let verification = OutboxView::open(dir.path()).unwrap().verify(Some(&key().verifier()), &mut || {}).unwrap();
    assert_eq!(
        (verification.receipts, verification.proofs, verification.faults),
        (status.receipts, status.receipts, 0),
        "{verification:?}"
    );
    eprintln!(
        "{} receipts returned over {ROUNDS} kills, {} torn tails, {} sent twice",
        returned.len(),
        status.dropped,
        log.lock().duplicates
    );
}

/// Lets the gate live until it was told of so many receipts, and then for a while, kills it with SIGKILL, and answers what it
/// had been told: seq, id, body.
fn run_and_kill(dir: &Path, url: &str, round: u64, (least, life): (u64, Duration)) -> Vec<(u64, String, String)> {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "kill::gate_that_is_killed", "--nocapture", "--test-threads", "1"])
        .envs([(DIRECTORY, dir.to_str().unwrap()), (LOG, url), (ROUND, &round.to_string())])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let stdout = child.stdout.take().unwrap();
    let (said, one_more) = std::sync::mpsc::channel();
    let reader = std::thread::spawn(move || {
        let lines = BufReader::new(stdout).lines().map_while(Result::ok);
        // The last line may have been cut by the kill: one that is whole ends its body.
        let told = lines.filter_map(|line| returned(&line));
        // Nobody listens any more once there were enough.
        told.inspect(|_| {
            let _: Result<_, _> = said.send(());
        })
        .collect::<Vec<_>>()
    });
    for _ in 0..least {
        one_more.recv().expect("the gate ended before it was killed");
    }
    std::thread::sleep(life);
    assert_eq!(child.try_wait().unwrap(), None, "the gate ended before it was killed");
    child.kill().unwrap();
    child.wait().unwrap();
    reader.join().unwrap()
}

fn returned(line: &str) -> Option<(u64, String, String)> {
    let (_, rest) = line.split_once("RETURNED ")?;
    let mut words = rest.splitn(3, ' ');
    let (seq, id, body) = (words.next()?, words.next()?, words.next()?);
    body.ends_with('}').then(|| (seq.parse().unwrap(), id.to_owned(), body.to_owned()))
}
