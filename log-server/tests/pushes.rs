//! The log and witnesses of other makes, to which it pushes its heads: honest ones, and every kind of fault.

use crate::stand;
use crate::stand::pushed;
use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::post;
use counterfoil_log_server::config::{LogConfig, Protocol, Witness};
use counterfoil_log_server::restored::Restored;
use counterfoil_log_server::run::RunError;
use merkle::leaf_hash;
use note::{KeyKind, Policy, TlogProof, cosign};
use pushed::{Call, Manner, Pushed, signed};
use receipt::Receipt;
use stand::{Gate, Place, Running, key, log_key, until};
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// What `stand` configures.
const POLL: Duration = Duration::from_millis(300);

fn policy(witnesses: &[&Witness], threshold: usize) -> String {
    let mut text = format!("log {}\n", log_key().verifier());
    let names: Vec<String> = (0..witnesses.len()).map(|number| format!("w{number}")).collect();
    for (name, witness) in names.iter().zip(witnesses) {
        text.push_str(&format!("witness {name} {}\n", witness.keys[0]));
    }
    format!("{text}group all {threshold} {}\nquorum all\n", names.join(" "))
}

/// For witnesses that never answer, and for one that does after a while.
fn quick(config: &mut LogConfig) {
    config.witness_deadline_ms = 1500;
}

/// Waits long for what is to come.
fn patient(config: &mut LogConfig) {
    config.witness_deadline_ms = 60_000;
    config.cosigned_wait_ms = 60_000;
}

async fn start(place: &Place, witnesses: &[&Witness], policy: Option<&str>, change: fn(&mut LogConfig)) -> Running {
    let witnesses = witnesses.iter().map(|witness| (*witness).clone()).collect();
    let changed = |config: &mut LogConfig| {
        patient(config);
        change(config);
    };
    place.run_with(witnesses, policy, changed).await.unwrap_or_else(|error| panic!("{error}"))
}

/// Submits, waits for the quorum, and returns who cosigned.
async fn take_cosigned(log: &Running, receipt: &Receipt, policy: &str) -> Vec<usize> {
    let answer = log.post("/v1/receipts", &[("prefer", "wait=cosigned")], receipt.bytes()).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert_eq!(answer.header("preference-applied"), Some("wait=cosigned"));
    let policy = Policy::parse(policy.as_bytes()).unwrap();
    let proof = TlogProof::parse(answer.text().as_bytes()).unwrap();
    proof.verify(&leaf_hash(receipt.bytes()), &policy).unwrap().cosigned_by
}

/// Names on the signature lines of the checkpoint on offer, sorted.
async fn signers(log: &Running) -> Vec<String> {
    let text = log.checkpoint().await.1;
    let lines = text.lines().filter_map(|line| line.strip_prefix("— "));
    let mut names: Vec<String> = lines.map(|line| line.split(' ').next().unwrap().to_owned()).collect();
    names.sort();
    names
}

/// A witness of our own make, as far as this needs one: cosigns what it fetches when it is nudged.
async fn nudged() -> (Witness, Arc<Mutex<Option<SocketAddr>>>) {
    let log = Arc::new(Mutex::new(None));
    let routes = Router::new().route("/nudge/{hash}", post(cosign_what_is_served)).with_state(Arc::clone(&log));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap()).parse().unwrap();
    tokio::spawn(service::serve(listener, routes, service::Limits::default(), std::future::pending()));
    (Witness { keys: vec![nudged_key().verifier()], url, protocol: Protocol::Counterfoil }, log)
}

fn nudged_key() -> note::SigningKey {
    key("nudged.example", KeyKind::CosignatureV1, 40)
}

async fn cosign_what_is_served(State(log): State<Arc<Mutex<Option<SocketAddr>>>>) -> Result<String, StatusCode> {
    let address = log.lock().unwrap().ok_or(StatusCode::SERVICE_UNAVAILABLE)?;
    let text = stand::ask(address, "GET", "/checkpoint", &[], b"").await.text();
    let cosignature = cosign(signed(&text).note().text(), &nudged_key(), 1_800_000_000).unwrap();
    Ok(format!("{}\n", cosignature.line))
}

#[tokio::test]
async fn pushed_and_nudged_witnesses_make_one_quorum() {
    let mut gate = Gate::new("gate.example/a");
    let place = Place::new(&[&gate]);
    let (one, two) = (Pushed::new(1, Manner::Honest).await, Pushed::new(2, Manner::InCompany).await);
    let (third, address) = nudged().await;
    let witnesses = [&one.witness, &third, &two.witness];
    let policy = policy(&witnesses, 3);
    let log = start(&place, &witnesses, Some(&policy), |_| {}).await;
    *address.lock().unwrap() = Some(log.address);
    for receipt in [gate.open(), gate.next(), gate.next(), gate.next(), gate.next()] {
        assert_eq!(take_cosigned(&log, &receipt, &policy).await, [0, 1, 2]);
    }
    assert_eq!(signers(&log).await, [stand::ORIGIN, "nudged.example", "pushed-1.example", "pushed-2.example"]);
    for pushed in [&one, &two] {
        assert_eq!(pushed.held(), 5);
        // From the first success on every push names the right size: no call is wasted, and none is against the format.
        let calls = pushed.calls();
        let first = calls.iter().position(|call| call.status == 200).unwrap();
        assert!(calls[first..].iter().all(|call| call.status == 200), "{calls:?}");
        assert!(calls.iter().all(|call| matches!(call.status, 200 | 409)), "{calls:?}");
    }
}

#[tokio::test]
async fn an_idle_log_pushes_only_the_same_size_once_in_each_interval_and_serves_the_fresh_timestamps() {
    let mut gate = Gate::new("gate.example/a");
    let place = Place::new(&[&gate]);
    let pushed = Pushed::new(1, Manner::Honest).await;
    let log = start(&place, &[&pushed.witness], None, |_| {}).await;
    log.take(&gate.open()).await;
    until("it is cosigned", async || signers(&log).await.len() == 2 && pushed.held() == 1).await;
    let (before, started) = (pushed.calls().len(), Instant::now());
    let mut served = BTreeSet::new();
    until("three fresh timestamps", async || {
        served.insert(log.checkpoint().await.1);
        served.len() >= 3
    })
    .await;
    let calls = pushed.calls();
    let most = started.elapsed().as_millis() / POLL.as_millis() + 2;
    assert!(((calls.len() - before) as u128) <= most, "{} calls, at most {most}", calls.len() - before);
    assert!(calls[before..].iter().all(|call| *call == Call { old: 1, new: 1, status: 200 }), "{calls:?}");
    assert!(served.iter().all(|text| text.lines().filter(|line| line.starts_with('—')).count() == 2), "{served:?}");
}

#[tokio::test]
async fn no_fault_of_a_witness_stops_the_log_or_gets_anything_served() {
    let faults = [
        Manner::Foreign,
        Manner::Garbage,
        Manner::GarbageSize,
        Manner::Flapping,
        Manner::Contradicting,
        Manner::Endless,
        Manner::EndlessConflict,
        Manner::Hanging,
        Manner::Trickling,
        Manner::Status(500),
        Manner::Status(503),
        Manner::Status(429),
        Manner::Status(422),
        Manner::Status(409),
        Manner::Status(204),
        Manner::Redirecting,
        Manner::Stranger,
        Manner::OtherKey,
    ];
    let mut gate = Gate::new("gate.example/a");
    let place = Place::new(&[&gate]);
    let honest = Pushed::new(0, Manner::Honest).await;
    let mut faulty = Vec::new();
    for (number, fault) in faults.into_iter().enumerate() {
        faulty.push((fault, Pushed::new(1 + number as u8, fault).await));
    }
    let mut witnesses = vec![&honest.witness];
    witnesses.extend(faulty.iter().map(|(_, pushed)| &pushed.witness));
    let policy = policy(&witnesses, 1);
    let started = Instant::now();
    let log = start(&place, &witnesses, Some(&policy), quick).await;
    for receipt in [gate.open(), gate.next(), gate.next()] {
        assert_eq!(take_cosigned(&log, &receipt, &policy).await, [0]);
    }
    until("each was asked", async || faulty.iter().all(|(_, pushed)| pushed.calls().len() >= 3)).await;
    until("it is ready", async || log.get("/readyz").await.status == 200).await;
    assert_eq!(signers(&log).await, [stand::ORIGIN, "pushed-0.example"]);
    let called: Vec<(Manner, Vec<Call>)> = faulty.iter().map(|(fault, pushed)| (*fault, pushed.calls())).collect();
    let elapsed = started.elapsed();
    for (fault, calls) in called {
        assert!(calls.iter().all(|call| call.old <= call.new && call.status != 400), "{fault:?}: {calls:?}");
        // Rests double from an eighth of a second on; one that names sizes gets four calls between two rests.
        let (mut most, mut waited) = (2, Duration::from_millis(125));
        while waited <= elapsed {
            (most, waited) = (most + 1, waited * 2);
        }
        assert!(calls.len() <= 4 * most, "{fault:?}: {} calls in {elapsed:?}", calls.len());
    }

    // Each of them becomes what it should be, and is met again.
    faulty.iter().for_each(|(_, pushed)| pushed.turn(Manner::Honest));
    until("all cosign", async || signers(&log).await.len() == 2 + faulty.len()).await;
}

#[tokio::test]
async fn a_size_that_somebody_else_pushed_is_learned_from_the_witness() {
    let mut gate = Gate::new("gate.example/a");
    let place = Place::new(&[&gate]);
    let log = place.run().await;
    log.take(&gate.open()).await;
    let mut heads = Vec::new();
    for size in 2..=9 {
        log.take(&gate.next()).await;
        heads.push(signed(&log.offered(size).await));
    }
    log.stop().await.unwrap();

    // It was fed a head from long ago, and while the log runs a feeder is faster than the log.
    let pushed = Pushed::new(1, Manner::Honest).await;
    pushed.hold(heads[1].checkpoint().size, heads[1].checkpoint().root);
    let witnesses = [&pushed.witness];
    let policy = policy(&witnesses, 1);
    let log = start(&place, &witnesses, Some(&policy), |_| {}).await;
    until("it has caught up", async || pushed.held() == 9).await;
    assert!(pushed.calls().contains(&Call { old: 3, new: 9, status: 200 }), "{:?}", pushed.calls());
    pushed.hold(heads[4].checkpoint().size, heads[4].checkpoint().root);
    assert_eq!(take_cosigned(&log, &gate.next(), &policy).await, [0]);
    // With the new head, or with the old one where that was just due again.
    assert!(pushed.calls().iter().any(|call| call.old == 6 && call.status == 200), "{:?}", pushed.calls());
}

#[tokio::test]
async fn a_log_does_not_run_behind_the_size_that_a_pushed_witness_names() {
    let mut gate = Gate::new("gate.example/a");
    let place = Place::new(&[&gate]);
    let pushed = Pushed::new(1, Manner::Honest).await;
    let hanging = Pushed::new(2, Manner::Hanging).await;
    let log = start(&place, &[&hanging.witness, &pushed.witness], None, quick).await;
    log.take(&gate.open()).await;
    until("it holds the head", async || pushed.held() == 1).await;
    log.stop().await.unwrap();

    // The newest copy may run.
    let log = start(&place, &[&hanging.witness, &pushed.witness], None, quick).await;
    log.stop().await.unwrap();

    pushed.turn(Manner::Claiming(2));
    // The one that hangs is not waited for where the other knows better.
    match place.run_with(vec![hanging.witness.clone(), pushed.witness.clone()], None, patient).await {
        Err(RunError::Restored(Restored::Older { witness, seen, own })) => {
            assert_eq!((witness.as_str(), seen.0, own.0), ("pushed-1.example", 2, 1));
        }
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("a restored backup ran"),
    }
}

#[tokio::test]
async fn a_witness_that_claims_more_while_the_log_runs_is_no_reason_to_stop_and_is_never_sent_more_than_there_is() {
    let mut gate = Gate::new("gate.example/a");
    let place = Place::new(&[&gate]);
    let (honest, claiming) = (Pushed::new(1, Manner::Honest).await, Pushed::new(2, Manner::Honest).await);
    let witnesses = [&honest.witness, &claiming.witness];
    let policy = policy(&witnesses, 1);
    let log = start(&place, &witnesses, Some(&policy), |_| {}).await;
    claiming.turn(Manner::Claiming(u64::MAX));
    for receipt in [gate.open(), gate.next(), gate.next()] {
        take_cosigned(&log, &receipt, &policy).await;
    }
    until("it was asked", async || claiming.calls().iter().filter(|call| call.status == 409).count() >= 2).await;
    assert!(claiming.calls().iter().all(|call| call.old <= call.new && call.new <= 3), "{:?}", claiming.calls());
    until("it is ready", async || log.get("/readyz").await.status == 200).await;
    log.stop().await.unwrap();
}
