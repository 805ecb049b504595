//! A witness of level full watches logs over HTTP: it cosigns what every receipt of was admitted, refuses the rest, and
//! accuses a log of what it can show.

use crate::full_log;
use crate::stage;
use axum::body::Body;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use client::WitnessClient;
use counterfoil_witness::broken::Broken;
use counterfoil_witness::evidence::Crime;
use counterfoil_witness::journal::line::Outcome;
use counterfoil_witness::serve::StartError;
use full_log::{FakeLog, Gate, Meddle, bytes_of, in_turns, log_key};
use merkle::{ResourcePath, TreeSize};
use note::{Origin, SignedCheckpoint};
use receipt::{IssuerForkEvidence, LogAdmitted, Receipt, ReceiptId, RefusalCode};
use stage::{House, Program, Running, reopened};
use std::time::Duration;

const SOON: Duration = Duration::from_secs(60);
const BEAT: &str = r#"{"type":"heartbeat"}"#;

fn configure(house: &House, log: &FakeLog, level: &str, more: &str) {
    let text = format!(
        "level = \"{level}\"\ninterval_ms = 3600000\nnudge_gap_ms = 10\nfetch_deadline_ms = 60000\n[[log]]\nvkey = \"{}\"\nurl = \"{}\"\nprivate_address = true\n{more}\n",
        log_key().verifier(),
        log.url
    );
    std::fs::write(house.home().join("config.toml"), text).unwrap();
}

fn origin() -> Origin {
    Origin::from(log_key().name())
}

/// What comes of a nudge: nothing if the log's head is cosigned, or the code; one that is still being checked is asked again.
async fn nudge(witness: &Running) -> Result<(), String> {
    loop {
        match witness.client.nudge(&origin()).await.map_err(|error| stage::code(&error)) {
            Err(code) if code == "withheld" => tokio::time::sleep(Duration::from_millis(50)).await,
            other => return other.map(drop),
        }
    }
}

async fn cosigned_size(client: &WitnessClient) -> Option<TreeSize> {
    let bytes = client.checkpoint(&origin()).await.unwrap()?;
    Some(SignedCheckpoint::parse(&bytes).unwrap().verify(&log_key().verifier()).unwrap().checkpoint().size)
}

fn honest() -> Vec<Bytes> {
    in_turns(&[Gate::new(1).entries(300), Gate::new(2).entries(200)])
}

/// The documents of evidence.
async fn evidence(witness: &Running) -> Vec<String> {
    witness.get("/evidence/0").await.map(|page| page.lines().map(str::to_owned).collect()).unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_honest_log_is_cosigned_as_it_grows_and_after_a_restart() {
    let (log, house) = (FakeLog::start(&honest()[..100], SOON).await, House::new());
    configure(&house, &log, "full", "");
    let witness = house.start().await;
    nudge(&witness).await.unwrap();
    assert_eq!(cosigned_size(&witness.client).await, Some(TreeSize(100)));
    log.append(&honest()[100..]);
    nudge(&witness).await.unwrap();
    assert_eq!(cosigned_size(&witness.client).await, Some(TreeSize(500)));
    witness.stop().await;
    let witness = house.start().await;
    log.append(&Gate::new(3).entries(40));
    nudge(&witness).await.unwrap();
    assert_eq!(cosigned_size(&witness.client).await, Some(TreeSize(540)));
    assert!(!witness.status().await.is_in_trouble());
    assert_eq!(evidence(&witness).await, Vec::<String>::new());
    witness.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_that_withholds_its_entries_keeps_what_was_cosigned_and_gets_nothing_new() {
    let (log, house) = (FakeLog::start(&honest()[..100], SOON).await, House::new());
    configure(&house, &log, "full", "");
    let witness = house.start().await;
    nudge(&witness).await.unwrap();
    let gone: fn() -> Meddle =
        || Box::new(|path| matches!(path, ResourcePath::Entries(_)).then(|| StatusCode::NOT_FOUND.into_response()));
    log.meddle(Some(gone()));
    nudge(&witness).await.unwrap();
    log.append(&honest()[100..]);
    assert_eq!(nudge(&witness).await, Err("unproven".to_owned()));
    assert_eq!(evidence(&witness).await, Vec::<String>::new());
    witness.stop().await;
    // The head that it holds cannot be checked again, and was checked before it was cosigned.
    let first = FakeLog::start(&honest()[..100], SOON).await;
    first.meddle(Some(gone()));
    configure(&house, &first, "full", "");
    let witness = house.start().await;
    nudge(&witness).await.unwrap();
    assert_eq!(cosigned_size(&witness.client).await, Some(TreeSize(100)));
    witness.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_that_admitted_what_it_must_refuse_is_accused_once_and_refused_for_ever() {
    let (gate, stream) = (Gate::new(1), Gate::new(1).stream(50));
    let at = |seq: u64, prev: ReceiptId, time: u64| bytes_of(&gate.receipt(seq, prev, time, BEAT, &[&gate.key(0)]));
    let head = stream[49].id();
    for (bad, code) in [
        (Bytes::from_static(b"no receipt"), RefusalCode::Malformed),
        (bytes_of(&gate.receipt(50, head, 50, BEAT, &[&gate.key(1)])), RefusalCode::BadSignature),
        (bytes_of(&stream[7]), RefusalCode::Duplicate),
        (at(7, stream[6].id(), 8), RefusalCode::Fork),
        (at(51, head, 51), RefusalCode::Gap),
        (at(50, head, 3), RefusalCode::TimeReversed),
        (bytes_of(&gate.receipt(50, head, 50, &gate.open_body(), &[&gate.key(0)])), RefusalCode::BadOpen),
        (bytes_of(&gate.receipt(50, head, 50, r#"{"type":"rotate"}"#, &[&gate.key(0)])), RefusalCode::BadRotation),
    ] {
        let entries: Vec<Bytes> = stream.iter().map(bytes_of).collect();
        let (log, house) = (FakeLog::start(&entries, SOON).await, House::new());
        configure(&house, &log, "full", "");
        let witness = house.start().await;
        nudge(&witness).await.unwrap();
        log.append(std::slice::from_ref(&bad));
        assert_eq!(nudge(&witness).await, Err("inadmissible".to_owned()), "{code}");
        let documents = evidence(&witness).await;
        let admitted: LogAdmitted = serde_json::from_str(&documents[0]).unwrap();
        assert_eq!((admitted.code(), admitted.check().unwrap().key), (code, log_key().verifier()));
        if code == RefusalCode::Fork {
            let fork: IssuerForkEvidence = serde_json::from_str(&documents[1]).unwrap();
            assert_eq!(fork.check().unwrap().key, gate.vkey());
        }
        let count = documents.len();
        assert_eq!(count, if code == RefusalCode::Fork { 2 } else { 1 }, "{code}");
        // Whatever comes now, from now on.
        log.append(&Gate::new(2).entries(3));
        assert_eq!(nudge(&witness).await, Err("refused".to_owned()));
        assert_eq!(cosigned_size(&witness.client).await, Some(TreeSize(50)), "what was cosigned stays to be seen");
        let status = witness.status().await;
        assert_eq!((status.forked, status.crime), (Some(0), Some(Crime::LogAdmitted)));
        let journal = witness.journal().await;
        let told: Vec<_> = journal.iter().filter(|line| line.outcome == Outcome::Inadmissible).collect();
        assert_eq!((told.len(), told[0].evidence, told[0].code.as_deref()), (1, Some(0), Some(code.as_str())));
        witness.stop().await;
        // An operator who acknowledges it has seen it; the head is not cosigned at this level for all that.
        for more in ["", "acknowledged_evidence = [0]"] {
            configure(&house, &log, "full", more);
            let witness = house.start().await;
            let expected = if more.is_empty() { "refused" } else { "inadmissible" };
            assert_eq!(nudge(&witness).await, Err(expected.to_owned()), "{code}");
            assert_eq!(nudge(&witness).await, Err(expected.to_owned()), "{code}");
            assert_eq!(evidence(&witness).await.len(), count, "{code}");
            witness.stop().await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_issuer_that_is_not_listed_is_refused_without_evidence_until_it_is() {
    let (log, house) = (FakeLog::start(&honest(), SOON).await, House::new());
    let list = house.home().join("issuers");
    configure(&house, &log, "full", "issuers = \"issuers\"");
    assert!(matches!(house.open().await, Err(StartError::Broken(Broken::Issuers(_)))), "the list is not there");
    std::fs::write(&list, format!("{}\n", Gate::new(1).vkey())).unwrap();
    let witness = house.start().await;
    assert_eq!(nudge(&witness).await, Err("inadmissible".to_owned()));
    assert_eq!(evidence(&witness).await, Vec::<String>::new());
    let last = witness.journal().await.into_iter().last().unwrap();
    assert_eq!(
        (last.outcome, last.code.as_deref(), last.evidence),
        (Outcome::Inadmissible, Some("unknown-issuer"), None)
    );
    let said = last.error.unwrap();
    let named = format!("{}, who is not listed here", Gate::new(2).vkey().name());
    assert!(said.contains(&named) && said.contains("issuers file of this [[log]] and send SIGHUP"), "{said}");
    assert!(!said.contains("ask the operator"), "{said}");
    assert_eq!(witness.status().await.forked, None);
    witness.stop().await;
    std::fs::write(&list, format!("{}\n{}\n", Gate::new(1).vkey(), Gate::new(2).vkey())).unwrap();
    let witness = house.start().await;
    nudge(&witness).await.unwrap();
    witness.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn while_a_check_takes_long_nudges_are_answered_and_its_end_is_cosigned_without_one() {
    let (log, house) = (FakeLog::start(&honest(), SOON).await, House::new());
    let (open, opened) = tokio::sync::watch::channel(false);
    let mut bundle = Vec::new();
    honest()[256..].iter().for_each(|entry| merkle::encode_entry(&mut bundle, entry).unwrap());
    // The second bundle comes when the test says so.
    let held_back: Meddle = Box::new(move |path| {
        let (mut opened, bundle) = (opened.clone(), Bytes::from(bundle.clone()));
        let late = async move {
            opened.wait_for(|open| *open).await.unwrap();
            Ok::<_, std::io::Error>(bundle)
        };
        matches!(path, ResourcePath::Entries(page) if page.index == 1)
            .then(|| Response::new(Body::from_stream(futures_util::stream::once(late))).into_response())
    });
    log.meddle(Some(held_back));
    configure(&house, &log, "full", "");
    let witness = house.start().await;
    let refused = witness.client.nudge(&origin()).await.unwrap_err();
    let refusal = refused.refusal().unwrap();
    assert_eq!((refusal.status, refusal.retry_after), (503, Some(Duration::from_secs(5))));
    assert!(refusal.problem().unwrap().detail.contains(" of 500 was checked so far"), "{refusal}");
    open.send(true).unwrap();
    while cosigned_size(&witness.client).await != Some(TreeSize(500)) {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    witness.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_state_of_one_level_is_not_taken_by_a_witness_of_the_other() {
    for (first, then) in [("consistency", "full"), ("full", "consistency")] {
        let (log, house) = (FakeLog::start(&honest()[..10], SOON).await, House::new());
        configure(&house, &log, first, "");
        let witness = house.start().await;
        nudge(&witness).await.unwrap();
        witness.stop().await;
        configure(&house, &log, then, "");
        assert!(matches!(house.open().await, Err(StartError::Level { .. })), "{first} then {then}");
        configure(&house, &log, first, "");
        reopened(&house).await.stop().await;
    }
}

/// The real program, killed as soon as it has saved something, with a log of more entries than it checks before that.
#[tokio::test(flavor = "multi_thread")]
async fn killed_in_the_middle_of_a_catch_up_it_goes_on_from_what_it_saved() {
    const ENTRIES: u64 = 75_000;
    let streams = std::thread::scope(|scope| {
        let sign = |number: u8| scope.spawn(move || Gate::new(number).entries(ENTRIES / 2));
        [sign(1), sign(2)].map(|thread| thread.join().unwrap())
    });
    let (log, house) = (FakeLog::start(&in_turns(&streams), SOON).await, House::new());
    configure(&house, &log, "full", "");
    let saved = house.home().join("state").join(format!("{}.full", client::witness::origin_hash(&origin())));
    let mut program = Program::start(&house);
    while !saved.exists() {
        program.assert_runs();
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    drop(program);
    log.asked();
    // A month later.
    log.append(&Gate::new(3).entries(600));
    let mut program = Program::start(&house);
    let witness = program.client().await;
    let is_done = |bytes: &[u8]| {
        let head = SignedCheckpoint::parse(bytes).unwrap().verify(&log_key().verifier()).unwrap();
        head.checkpoint().size == TreeSize(ENTRIES + 600)
    };
    loop {
        program.assert_runs();
        let _ = witness.nudge(&origin()).await;
        if let Ok(Some(held)) = witness.checkpoint(&origin()).await
            && is_done(&held)
        {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let first_pages =
        log.asked().into_iter().filter(|path| matches!(path, ResourcePath::Entries(page) if page.index < 200));
    assert_eq!(first_pages.count(), 0, "what was saved was checked again");
}

#[test]
fn a_receipt_of_these_gates_is_one() {
    let stream = Gate::new(1).stream(3);
    assert_eq!(Receipt::parse(stream[2].bytes()).unwrap().prev(), stream[1].id());
}
