#![allow(clippy::unwrap_used, clippy::panic)]

use super::sample::{FakeLog, Gate, NOW, START, bytes_of, in_turns, log_key, walk, walked};
use super::walk::Stop;
use super::{Breaks, Checker, EntriesCheck};
use axum::body::Body;
use axum::http::{Response, StatusCode};
use axum::response::IntoResponse;
use bytes::Bytes;
use merkle::{ResourcePath, TreeSize};
use note::SigningKey;
use receipt::{Receipt, RefusalCode, Roll};
use serde_json::json;
use std::path::Path;
use std::time::Duration;

const SOON: Duration = Duration::from_secs(60);

fn checker(dir: &Path, issuers: Option<Vec<note::VerifierKey>>) -> Checker {
    Checker::new(store::disk::RealDisk::shared(), dir.join("log.full"), log_key().verifier(), issuers)
}

/// Two gates' streams in turns, of which the first gate's is 300 receipts.
fn honest() -> Vec<Bytes> {
    in_turns(&[Gate::new(1).entries(300), Gate::new(2).entries(200)])
}

fn admitted(check: &EntriesCheck) -> Option<TreeSize> {
    match check {
        EntriesCheck::Admitted { size, .. } => Some(*size),
        _ => None,
    }
}

fn trouble(check: &EntriesCheck) -> &'static str {
    match check {
        EntriesCheck::Trouble(trouble) | EntriesCheck::NotAdmitted(trouble) => trouble.code,
        other => panic!("{other:?}"),
    }
}

fn broken(check: EntriesCheck) -> Breaks {
    match check {
        EntriesCheck::Breaks(breaks) => *breaks,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_walk_ends_in_the_state_after_the_last_entry_wherever_it_was_interrupted() {
    let entries = honest();
    let whole = walked(&entries, Roll::of_openers());
    assert_eq!(whole.size(), TreeSize(500));
    let mut seqs: Vec<u64> = whole.states().map(|state| state.next_seq().0).collect();
    seqs.sort_unstable();
    assert_eq!(seqs, [200, 300]);
}

#[test]
fn the_first_breach_in_the_order_of_the_log_stops_a_walk() {
    let mut entries = honest();
    let gate = Gate::new(1);
    let last = Receipt::parse(entries.last().unwrap()).unwrap();
    let forged = gate.receipt(300, last.id(), 400, r#"{"type":"heartbeat"}"#, &[&gate.key(1)]);
    entries.push(bytes_of(&forged));
    entries.push(Bytes::from_static(b"nonsense"));
    let (walk, stopped) = walk(&entries, Roll::of_openers());
    let Err(Stop::Breach(breach)) = stopped else { panic!("{stopped:?}") };
    assert_eq!((breach.index.0, breach.refusal.code), (500, RefusalCode::BadSignature));
    assert!(!breach.stopped(&walk), "the forged receipt was taken for good meanwhile");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_is_checked_from_where_it_was_left_also_after_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let entries = honest();
    let log = FakeLog::start(&entries[..300], SOON).await;
    let mut first = checker(dir.path(), None);
    assert_eq!(admitted(&first.advance(&log.client, &log.head(), NOW).await), Some(TreeSize(300)));
    log.append(&entries[300..]);
    log.asked();
    assert_eq!(admitted(&first.advance(&log.client, &log.head(), NOW).await), Some(TreeSize(500)));
    let bundle = |path: &ResourcePath| matches!(path, ResourcePath::Entries(page) if page.index == 0);
    assert!(!log.asked().iter().any(bundle), "the first bundle was fetched again");
    // The same head again costs nothing.
    assert_eq!(admitted(&first.advance(&log.client, &log.head(), NOW).await), Some(TreeSize(500)));
    assert_eq!(log.asked(), []);
    // What was not saved is checked again.
    drop(first);
    let mut second = checker(dir.path(), None);
    assert_eq!(admitted(&second.advance(&log.client, &log.head(), NOW).await), Some(TreeSize(500)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_saved_state_of_another_tree_is_not_gone_on_from() {
    let dir = tempfile::tempdir().unwrap();
    let saved =
        super::saved::SavedWalk::at(store::disk::RealDisk::shared(), dir.path().join("log.full"), log_key().verifier());
    let log = FakeLog::start(&honest()[..40], SOON).await;
    for other in [Gate::new(3).entries(7), Gate::new(3).entries(40), Gate::new(3).entries(90)] {
        saved.write(&walked(&other, Roll::of_openers())).unwrap();
        let check = checker(dir.path(), None).advance(&log.client, &log.head(), NOW).await;
        assert_eq!(admitted(&check), Some(TreeSize(40)), "{check:?}");
    }
    // One of this tree is.
    saved.write(&walked(&honest()[..33], Roll::of_openers())).unwrap();
    log.asked();
    let check = checker(dir.path(), None).advance(&log.client, &log.head(), NOW).await;
    assert_eq!(admitted(&check), Some(TreeSize(40)), "{check:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_that_fails_or_lies_in_its_bundles_is_never_accused_and_is_admitted_once_it_does_not() {
    let entries = honest();
    let mut wrong = entries.clone();
    wrong[256 + 7] = Bytes::from_static(b"nonsense");
    let other_stream = in_turns(&[Gate::new(3).entries(300), Gate::new(2).entries(200)]);
    let bundle = |entries: &[Bytes]| {
        let mut bytes = Vec::new();
        entries.iter().for_each(|entry| merkle::encode_entry(&mut bytes, entry).unwrap());
        bytes
    };
    let second = |bytes: Vec<u8>| -> super::sample::Meddle {
        Box::new(move |path| {
            matches!(path, ResourcePath::Entries(page) if page.index == 1)
                .then(|| Response::new(Body::from(bytes.clone())).into_response())
        })
    };
    let cut = {
        let mut bytes = bundle(&entries[256..]);
        bytes.pop();
        bytes
    };
    let cases: Vec<(super::sample::Meddle, &str)> = vec![
        (second(bundle(&wrong[256..])), "entries"),
        (second(bundle(&other_stream[256..])), "entries"),
        (second(bundle(&entries[255..499])), "entries"),
        (second(cut), "bad-body"),
        (second(bundle(&entries[256..499])), "bad-body"),
        (second(vec![0xff; 256 * 65_537 + 1]), "too-large"),
        (second(Vec::new()), "bad-body"),
        (
            Box::new(|path| matches!(path, ResourcePath::Entries(_)).then(|| StatusCode::NOT_FOUND.into_response())),
            "status-404",
        ),
        (
            Box::new(|path| {
                matches!(path, ResourcePath::Entries(_)).then(|| StatusCode::INTERNAL_SERVER_ERROR.into_response())
            }),
            "status-5xx",
        ),
        (
            Box::new(|path| {
                let never = Body::from_stream(futures_util::stream::pending::<Result<Bytes, std::io::Error>>());
                matches!(path, ResourcePath::Entries(page) if page.index == 1)
                    .then(|| Response::new(never).into_response())
            }),
            "timeout",
        ),
    ];
    for (meddle, code) in cases {
        let dir = tempfile::tempdir().unwrap();
        let log = FakeLog::start(&entries, SOON).await;
        let mut checker = checker(dir.path(), None);
        log.meddle(Some(meddle));
        // Only what never comes is not waited for.
        let hasty = (code == "timeout").then(|| log.client_within(Duration::from_millis(500)));
        let check = checker.advance(hasty.as_ref().unwrap_or(&log.client), &log.head(), NOW).await;
        assert_eq!(trouble(&check), code, "{check:?}");
        log.meddle(None);
        let mut last = checker.advance(&log.client, &log.head(), NOW).await;
        if matches!(last, EntriesCheck::Trouble(_)) {
            // What was in memory rested on the wrong bundle.
            last = checker.advance(&log.client, &log.head(), NOW).await;
        }
        assert_eq!(admitted(&last), Some(log.size()), "after {code}: {last:?}");
    }
}

/// A log that admits `bad` after so many of its honest entries, and more behind it.
async fn log_that_admitted(keep: usize, bad: Bytes) -> FakeLog {
    let mut entries = honest()[..keep].to_vec();
    entries.push(bad);
    entries.extend(Gate::new(5).entries(30));
    FakeLog::start(&entries, SOON).await
}

#[tokio::test(flavor = "multi_thread")]
async fn every_code_that_can_be_shown_becomes_evidence_that_names_the_logs_key() {
    let gate = Gate::new(1);
    let stream = gate.stream(200);
    // After 401 entries the first gate has 201 receipts and the second has 200; after 400, each has 200.
    let (head, key) = (stream[199].id(), gate.key(0));
    let beat = r#"{"type":"heartbeat"}"#;
    let at = |seq: u64, prev, time: u64, body: &str, keys: &[&SigningKey]| {
        bytes_of(&gate.receipt(seq, prev, time, body, keys))
    };
    let rotate = json!({"type": "rotate", "vkey": gate.vkey()}).to_string();
    let other_gate = Gate::new(7);
    let cases: Vec<(Bytes, RefusalCode)> = vec![
        (Bytes::from_static(b"\xff nonsense"), RefusalCode::Malformed),
        (at(200, head, 200, beat, &[&gate.key(1)]), RefusalCode::BadSignature),
        (bytes_of(&stream[3]), RefusalCode::Duplicate),
        (at(3, stream[2].id(), 3, &rotate.replace("rotate", "heartbeat"), &[&key]), RefusalCode::Fork),
        (at(200, stream[198].id(), 200, beat, &[&key]), RefusalCode::Fork),
        (at(201, head, 201, beat, &[&key]), RefusalCode::Gap),
        (at(200, head, 198, beat, &[&key]), RefusalCode::TimeReversed),
        (at(200, head, 200, &gate.open_body(), &[&key]), RefusalCode::BadOpen),
        (
            bytes_of(&other_gate.receipt(0, receipt::ReceiptId::NONE, 0, beat, &[&other_gate.key(0)])),
            RefusalCode::UnknownIssuer,
        ),
        (at(200, head, 200, &rotate, &[&key, &key]), RefusalCode::BadRotation),
    ];
    for (bad, code) in cases {
        let log = log_that_admitted(400, bad.clone()).await;
        let dir = tempfile::tempdir().unwrap();
        let mut checker = checker(dir.path(), None);
        let breaks = broken(checker.advance(&log.client, &log.head(), NOW).await);
        // An issuer that no open made known can be shown by its first receipt, which is none.
        let shown = if code == RefusalCode::UnknownIssuer { RefusalCode::BadOpen } else { code };
        assert_eq!(breaks.admitted.code(), shown);
        assert_eq!(
            breaks.admitted.accused().map(|(index, entry)| (index.0, entry.to_vec())),
            Some((400, bad.to_vec()))
        );
        assert_eq!(breaks.admitted.check().unwrap().key, log_key().verifier());
        assert_eq!(breaks.issuer_fork.is_some(), code == RefusalCode::Fork, "{code}");
        if let Some(fork) = &breaks.issuer_fork {
            assert_eq!(fork.check().unwrap().key, gate.vkey());
        }
        // It stays refused, by the same document, also under a larger head.
        log.append(&Gate::new(6).entries(3));
        assert_eq!(broken(checker.advance(&log.client, &log.head(), NOW).await), breaks);
        // ... and after a restart, by one about the same entry.
        let again = broken(self::checker(dir.path(), None).advance(&log.client, &log.head(), NOW).await);
        assert!(again.admitted.is_about_the_same(&breaks.admitted));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_receipt_after_a_close_is_shown_with_the_close() {
    let gate = Gate::new(1);
    let key = gate.key(0);
    let mut stream = gate.stream(3);
    let close = gate.receipt(3, stream[2].id(), 3, r#"{"type":"close"}"#, &[&key]);
    let after = gate.receipt(4, close.id(), 4, r#"{"type":"heartbeat"}"#, &[&key]);
    stream.extend([close, after]);
    let log = FakeLog::start(&stream.iter().map(bytes_of).collect::<Vec<_>>(), SOON).await;
    let dir = tempfile::tempdir().unwrap();
    let breaks = broken(checker(dir.path(), None).advance(&log.client, &log.head(), NOW).await);
    assert_eq!(breaks.admitted.code(), RefusalCode::Closed);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_hangs_on_our_list_or_our_clock_is_refused_without_an_accusation_and_passes_when_they_change() {
    let dir = tempfile::tempdir().unwrap();
    let log = FakeLog::start(&honest(), SOON).await;
    let one = || Some(vec![Gate::new(1).vkey()]);
    assert_eq!(trouble(&checker(dir.path(), one()).advance(&log.client, &log.head(), NOW).await), "unknown-issuer");
    let both = Some(vec![Gate::new(1).vkey(), Gate::new(2).vkey()]);
    assert_eq!(admitted(&checker(dir.path(), both).advance(&log.client, &log.head(), NOW).await), Some(TreeSize(500)));
    let wrong_key = Some(vec![Gate::new(1).vkey(), Gate::new(2).key(1).verifier()]);
    assert_eq!(trouble(&checker(dir.path(), wrong_key).advance(&log.client, &log.head(), NOW).await), "bad-signature");

    let mut checker = checker(&dir.path().join("nowhere"), None);
    let early = START - receipt::MAX_AHEAD_MS + 100;
    assert_eq!(trouble(&checker.advance(&log.client, &log.head(), early).await), "future-dated");
    log.asked();
    // The clock goes on, and so does the check, from where it was.
    assert_eq!(admitted(&checker.advance(&log.client, &log.head(), NOW).await), Some(TreeSize(500)));
    assert!(log.asked().iter().any(|path| matches!(path, ResourcePath::Entries(page) if page.index == 1)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gap_behind_too_much_of_others_is_refused_and_cannot_be_shown() {
    let (gate, key) = (Gate::new(1), Gate::new(1).key(0));
    let stream = gate.stream(2);
    let gap = gate.receipt(3, stream[1].id(), 900, r#"{"type":"heartbeat"}"#, &[&key]);
    let mut entries: Vec<Bytes> = stream.iter().map(bytes_of).collect();
    entries.extend(Gate::new(2).entries(400));
    entries.push(bytes_of(&gap));
    let log = FakeLog::start(&entries, SOON).await;
    let dir = tempfile::tempdir().unwrap();
    let check = checker(dir.path(), None).advance(&log.client, &log.head(), NOW).await;
    assert_eq!(trouble(&check), "gap", "{check:?}");
}
