//! The log and its witnesses, played by servers that are honest, silent, forgetful or lying.

use crate::stand;
use axum::Router;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::routing::{get, post};
use client::wire::CODE_NOT_COSIGNED_IN_TIME;
use counterfoil_log_server::config::{LogConfig, Protocol, Witness};
use counterfoil_log_server::restored::Restored;
use counterfoil_log_server::run::RunError;
use merkle::leaf_hash;
use note::{KeyKind, Policy, SignedCheckpoint, SigningKey, TlogProof, cosign};
use receipt::Receipt;
use stand::{Gate, LATE, Place, Running, key, log_key, until, verify};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// What a played witness does when it is nudged.
#[derive(Clone, Copy, PartialEq)]
enum Manner {
    /// Fetches, cosigns, answers with its line, serves it.
    Honest,
    /// Does not take nudges, but cosigns what it fetches now and then, and serves that.
    DeafToNudges,
    /// Answers after a while.
    Slow(Duration),
    /// Answers with a line over another text.
    Lying,
    /// Answers nothing for as long as anybody waits.
    Hanging,
    /// Says that it has cosigned nothing, and answers no nudge for as long as anybody waits.
    HangingWhenNudged,
}

struct Played {
    key: SigningKey,
    manner: Manner,
    log: Mutex<Option<SocketAddr>>,
    held: Mutex<Option<Vec<u8>>>,
    nudges: AtomicU64,
    timestamp_s: AtomicU64,
}

struct Stage {
    played: Arc<Played>,
    witness: Witness,
}

impl Stage {
    async fn new(number: u8, manner: Manner) -> Self {
        let played = Arc::new(Played {
            key: key(&format!("witness-{number}.example"), KeyKind::CosignatureV1, 100 + number),
            manner,
            log: Mutex::new(None),
            held: Mutex::new(None),
            nudges: AtomicU64::new(0),
            timestamp_s: AtomicU64::new(1_800_000_000),
        });
        let routes = Router::new()
            .route("/nudge/{hash}", post(nudge))
            .route("/{hash}/checkpoint", get(monitoring))
            .with_state(Arc::clone(&played));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap()).parse().unwrap();
        tokio::spawn(service::serve(listener, routes, service::Limits::default(), std::future::pending()));
        Self { witness: Witness { keys: vec![played.key.verifier()], url, protocol: Protocol::Counterfoil }, played }
    }

    fn watch(&self, log: &Running) {
        *self.played.log.lock().unwrap() = Some(log.address);
    }

    fn hold(&self, head: &SignedCheckpoint<note::Verified>) {
        let line = cosign(head.note().text(), &self.played.key, 1_800_000_000).unwrap().to_line().unwrap();
        *self.played.held.lock().unwrap() = Some(head.with_cosignatures(&[line]).bytes().to_vec());
    }
}

impl Played {
    async fn look(&self) -> Option<String> {
        let address = (*self.log.lock().unwrap())?;
        let text = stand::ask(address, "GET", "/checkpoint", &[], b"").await.text();
        let head = SignedCheckpoint::parse(text.as_bytes()).unwrap().verify(&log_key().verifier()).unwrap();
        let text =
            if self.manner == Manner::Lying { "something else\n".to_owned() } else { head.note().text().to_owned() };
        let cosignature = cosign(&text, &self.key, self.timestamp_s.fetch_add(1, Ordering::SeqCst)).unwrap();
        let line = cosignature.to_line().unwrap();
        *self.held.lock().unwrap() = Some(head.log_signed_only().with_cosignatures(&[line]).bytes().to_vec());
        Some(cosignature.line)
    }
}

async fn nudge(State(played): State<Arc<Played>>, Path(_): Path<String>) -> Result<String, StatusCode> {
    played.nudges.fetch_add(1, Ordering::SeqCst);
    match played.manner {
        Manner::DeafToNudges => {
            played.look().await;
            return Err(StatusCode::NOT_FOUND);
        }
        Manner::Slow(time) => tokio::time::sleep(time).await,
        Manner::Hanging | Manner::HangingWhenNudged => tokio::time::sleep(Duration::from_secs(600)).await,
        Manner::Honest | Manner::Lying => {}
    }
    played.look().await.map(|line| format!("{line}\n")).ok_or(StatusCode::SERVICE_UNAVAILABLE)
}

async fn monitoring(State(played): State<Arc<Played>>, Path(_): Path<String>) -> Result<Vec<u8>, StatusCode> {
    if played.manner == Manner::Hanging {
        tokio::time::sleep(Duration::from_secs(600)).await;
    }
    played.held.lock().unwrap().clone().ok_or(StatusCode::NOT_FOUND)
}

fn policy(stages: &[&Stage], threshold: usize) -> String {
    let mut text = format!("log {}\n", log_key().verifier());
    let names: Vec<String> = (0..stages.len()).map(|number| format!("w{number}")).collect();
    for (name, stage) in names.iter().zip(stages) {
        text.push_str(&format!("witness {name} {}\n", stage.witness.keys[0]));
    }
    format!("{text}group all {threshold} {}\nquorum all\n", names.join(" "))
}

/// Starts a log that waits long for what is to come.
async fn start(place: &Place, stages: &[&Stage], policy: Option<&str>) -> Running {
    start_with(place, stages, policy, |_| {}).await
}

async fn start_with(
    place: &Place,
    stages: &[&Stage],
    policy: Option<&str>,
    change: impl FnOnce(&mut LogConfig),
) -> Running {
    let witnesses = stages.iter().map(|stage| stage.witness.clone()).collect();
    let hangs = stages.iter().any(|stage| stage.played.manner == Manner::Hanging);
    let log = place
        .run_with(witnesses, policy, |config| {
            config.cosigned_wait_ms = 60_000;
            // A start waits that long, once, for one that hangs.
            config.witness_deadline_ms = if hangs { 2000 } else { 60_000 };
            change(config);
        })
        .await
        .unwrap_or_else(|error| panic!("{error}"));
    stages.iter().for_each(|stage| stage.watch(&log));
    log
}

fn cosigned(receipt: &Receipt, proof: &str, policy: &str) -> Vec<usize> {
    let policy = Policy::parse(policy.as_bytes()).unwrap();
    TlogProof::parse(proof.as_bytes()).unwrap().verify(&leaf_hash(receipt.bytes()), &policy).unwrap().cosigned_by
}

#[tokio::test]
async fn waiting_for_cosignatures_is_answered_once_the_quorum_is_met() {
    let mut gate = Gate::new("gate.example/a");
    let place = Place::new(&[&gate]);
    let (one, two, dead) = (
        Stage::new(1, Manner::Honest).await,
        Stage::new(2, Manner::Honest).await,
        Stage::new(3, Manner::Hanging).await,
    );
    let stages = [&one, &two, &dead];
    let policy = policy(&stages, 2);
    let log = start(&place, &stages, Some(&policy)).await;
    for receipt in [gate.open(), gate.next(), gate.next()] {
        let answer = log.post("/v1/receipts", &[("prefer", "wait=cosigned")], receipt.bytes()).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        assert_eq!(answer.header("preference-applied"), Some("wait=cosigned"));
        assert_eq!(cosigned(&receipt, &answer.text(), &policy), [0, 1]);
        // Asked again, the same proof or a later one: what is cosigned stays cosigned.
        let again = log.submit(&receipt).await;
        assert_eq!(again.status, 200);
        let found = log.get(&format!("/v1/receipts/{}", receipt.id())).await.json();
        assert_eq!(cosigned(&receipt, found["proof"].as_str().unwrap(), &policy), [0, 1]);
    }
}

#[tokio::test]
async fn a_quorum_that_is_not_met_in_time_is_504_with_the_integrated_proof() {
    let mut gate = Gate::new("gate.example/a");
    let place = Place::new(&[&gate]);
    let (one, dead) = (Stage::new(1, Manner::Honest).await, Stage::new(2, Manner::Hanging).await);
    // Without a policy, every configured witness has to cosign.
    let log = start_with(&place, &[&one, &dead], None, |config| config.cosigned_wait_ms = 1500).await;
    let receipt = gate.open();
    for accept in ["text/plain", "application/json"] {
        let answer =
            log.post("/v1/receipts", &[("prefer", "wait=cosigned"), ("accept", accept)], receipt.bytes()).await;
        assert_eq!(answer.status, 504);
        let problem = answer.json();
        assert_eq!(
            (problem["code"].as_str(), problem["index"].as_u64(), problem["seq"].as_u64()),
            (Some(CODE_NOT_COSIGNED_IN_TIME), Some(0), Some(0))
        );
        verify(&receipt, problem["proof"].as_str().unwrap());
    }
}

#[tokio::test]
async fn a_dead_witness_slows_no_submitter_down() {
    let mut gate = Gate::new("gate.example/a");
    let place = Place::new(&[&gate]);
    let dead = Stage::new(1, Manner::HangingWhenNudged).await;
    // It is waited for longer than this test lasts: so whoever waits for it shows.
    let log = start_with(&place, &[&dead], None, |config| config.witness_deadline_ms = 60_000).await;
    log.take(&gate.open()).await;
    until("it is nudged", async || dead.played.nudges.load(Ordering::SeqCst) > 0).await;
    let submitters = async {
        for _ in 0..20 {
            log.take(&gate.next()).await;
        }
        log.offered(21).await;
    };
    tokio::time::timeout(LATE, submitters).await.expect("submitters wait for a dead witness");
    until("it is ready", async || log.get("/readyz").await.status == 200).await;
}

#[tokio::test]
async fn the_checkpoint_carries_every_cosignature_that_came_and_none_that_does_not_verify() {
    let mut gate = Gate::new("gate.example/a");
    let place = Place::new(&[&gate]);
    let (honest, deaf, lying) = (
        Stage::new(1, Manner::Honest).await,
        Stage::new(2, Manner::DeafToNudges).await,
        Stage::new(3, Manner::Lying).await,
    );
    let slow = Stage::new(4, Manner::Slow(Duration::from_millis(150))).await;
    let log = start(&place, &[&honest, &deaf, &lying, &slow], None).await;
    log.take(&gate.open()).await;
    log.offered(1).await;
    let mut names = Vec::new();
    until("three have cosigned", async || {
        let text = log.checkpoint().await.1;
        names = text
            .lines()
            .filter_map(|line| line.strip_prefix("— "))
            .map(|line| line.split(' ').next().unwrap().to_owned())
            .collect();
        names.sort();
        names.len() >= 4
    })
    .await;
    assert_eq!(names, [stand::ORIGIN, "witness-1.example", "witness-2.example", "witness-4.example"]);
    assert!(lying.played.nudges.load(Ordering::SeqCst) > 0);
}

#[tokio::test]
async fn a_quiet_log_picks_up_fresh_timestamps() {
    let mut gate = Gate::new("gate.example/a");
    let place = Place::new(&[&gate]);
    let honest = Stage::new(1, Manner::Honest).await;
    let log = start(&place, &[&honest], None).await;
    log.take(&gate.open()).await;
    log.offered(1).await;
    let mut seen = std::collections::BTreeSet::new();
    until("three timestamps are served", async || {
        // The witness cosigns the unchanged head again, by its own schedule.
        honest.played.look().await;
        seen.insert(log.checkpoint().await.1);
        seen.len() >= 3
    })
    .await;
    assert!(
        seen.iter().all(|text| text.lines().filter(|line| line.starts_with('—')).count() <= 2),
        "lines must not pile up"
    );
}

/// A log of two receipts, and a copy of its store from when it had one.
struct Backup {
    place: Place,
    backup: tempfile::TempDir,
    /// Another receipt for the second place.
    other: Receipt,
    /// The head over both.
    newest: SignedCheckpoint<note::Verified>,
}

async fn backed_up() -> Backup {
    let mut gate = Gate::new("gate.example/a");
    let place = Place::new(&[&gate]);
    let log = place.run().await;
    log.take(&gate.open()).await;
    log.stop().await.unwrap();
    let backup = tempfile::tempdir().unwrap();
    copy(&place.dir.path().join("store"), &backup.path().join("store"));
    let log = place.run().await;
    let other = gate.aside(r#"{"type":"other"}"#, stand::NOW);
    log.take(&gate.next()).await;
    let newest = log.offered(2).await;
    log.stop().await.unwrap();
    let newest = SignedCheckpoint::parse(newest.as_bytes()).unwrap().verify(&log_key().verifier()).unwrap();
    Backup { place, backup, other, newest }
}

#[tokio::test]
async fn a_log_restored_from_a_backup_refuses_to_run() {
    let Backup { place, backup, other, newest } = backed_up().await;
    let witness = Stage::new(1, Manner::Honest).await;
    witness.hold(&newest);
    let dead = Stage::new(2, Manner::Hanging).await;

    let witnesses = || vec![dead.witness.clone(), witness.witness.clone()];
    // A start waits for the dead one, unless the other knows better: that one may take its time.
    let quick = |config: &mut LogConfig| config.witness_deadline_ms = 300;
    let patient = |config: &mut LogConfig| config.witness_deadline_ms = 60_000;
    let log = place
        .run_with(witnesses(), None, quick)
        .await
        .unwrap_or_else(|error| panic!("the newest copy may run: {error}"));
    log.stop().await.unwrap();

    std::fs::remove_dir_all(place.dir.path().join("store")).unwrap();
    copy(&backup.path().join("store"), &place.dir.path().join("store"));
    match place.run_with(witnesses(), None, patient).await {
        Err(RunError::Restored(Restored::Older { seen, own, .. })) => assert_eq!((seen.0, own.0), (2, 1)),
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("a restored backup ran"),
    }

    // The backup is used all the same for a while, and signs a second history: no copy may run any more.
    let log = place.run().await;
    log.take(&other).await;
    log.stop().await.unwrap();
    match place.run_with(witnesses(), None, patient).await {
        Err(RunError::Restored(Restored::OtherHistory { seen, .. })) => assert_eq!(seen.0, 2),
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("a second history ran"),
    }
}

/// A log was started on an old copy while its witness was down. It ran on when the witness came back, although that held
/// more than the log had.
#[tokio::test]
async fn a_log_restored_while_its_witness_was_down_stops_once_that_is_back() {
    let Backup { place, backup, other, newest } = backed_up().await;

    for more in [false, true] {
        std::fs::remove_dir_all(place.dir.path().join("store")).unwrap();
        copy(&backup.path().join("store"), &place.dir.path().join("store"));
        let witness = Stage::new(1, Manner::Honest).await;
        let log =
            place.run_with(vec![witness.witness.clone()], None, |_| {}).await.unwrap_or_else(|error| panic!("{error}"));
        if more {
            log.take(&other).await;
        }
        witness.hold(&newest);
        match (more, log.ended().await) {
            (false, Err(RunError::Restored(Restored::Older { seen, own, .. }))) => assert_eq!((seen.0, own.0), (2, 1)),
            (true, Err(RunError::Restored(Restored::OtherHistory { seen, .. }))) => assert_eq!(seen.0, 2),
            (_, other) => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn a_witness_that_answers_with_what_the_log_never_signed_does_not_keep_it_from_running() {
    let place = Place::new(&[]);
    let witness = Stage::new(1, Manner::Honest).await;
    let other_log = key(stand::ORIGIN, KeyKind::Ed25519, 1);
    let forged = note::Checkpoint::new(
        note::Origin::new(stand::ORIGIN).unwrap(),
        merkle::TreeSize(9),
        merkle::RootHash(leaf_hash(b"x")),
    );
    witness.hold(&note::sign_checkpoint(&forged, &other_log).unwrap());
    assert!(place.run_with(vec![witness.witness.clone()], None, |_| {}).await.is_ok());
}

fn copy(from: &std::path::Path, to: &std::path::Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target)
        } else {
            _ = std::fs::copy(entry.path(), target).unwrap()
        }
    }
}
