//! The gate and its log: what is sent and when, what stops it, what it says when it has nothing to say.

use crate::{gate_scene, strict_log};
use client::gate::{Decision, Gate, Sending, WhenFull};
use gate_scene::{LONG, NOW, allow, bodies, config, copy_of, key, named_key, open, to, wait_for};
use receipt::{SeqNo, UnixMillis};
use serde_json::{Value, json};
use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use strict_log::{Misbehaviour, StrictLog};

#[tokio::test(flavor = "multi_thread")]
async fn what_a_gate_let_through_is_counted_and_told_to_the_log_before_anything_else() {
    let dir = tempfile::tempdir().unwrap();
    let log = StrictLog::start(&[&key()]).await;
    log.lock().otherwise = |_| Some(Misbehaviour::Unavailable);
    let url = log.url.clone();
    let path = dir.path().to_owned();
    let log_again = log.clone();
    let ran = tokio::task::spawn_blocking(move || {
        let now = Arc::new(AtomicU64::new(NOW));
        let clock = Arc::clone(&now);
        let mut config = to(&path, &url);
        config.clock = Arc::new(move || UnixMillis(clock.fetch_add(1, Ordering::Relaxed)));
        (config.max_queued, config.when_full) = (6, WhenFull::FailOpen);
        let gate = Gate::open(config).unwrap();
        let mut ran = 0;
        for number in 0..10 {
            let mut act = gate.decide(allow(&format!("r-{number}"))).unwrap();
            ran += u64::from(act.call(|| Ok::<_, Infallible>(1)).unwrap() == 1);
            assert_eq!(act.finish().unwrap().is_some(), number < 2, "{number}");
        }
        let status = gate.status().unwrap();
        assert_eq!((status.drops.count, status.drops.told, status.outbox.receipts), (8, 0, 5));
        assert!(
            gate.metrics().contains("counterfoil_gate_dropped_total{issuer=\"gate.example/support-1\"} 8"),
            "{}",
            gate.metrics()
        );
        drop(gate);
        // What was let through is not forgotten by a gate that was stopped since.
        let lines = std::fs::read_to_string(path.join("drops")).unwrap();
        assert_eq!(lines.lines().count(), 8);
        assert!(lines.starts_with("{\"at\":179") && lines.contains(r#""why":"full","request_id":"r-2"}"#), "{lines}");
        let mut config = to(&path, &url);
        (config.max_queued, config.when_full) = (6, WhenFull::FailOpen);
        let gate = Gate::open(config).unwrap();
        assert_eq!(gate.status().unwrap().drops.count, 8);
        log_again.lock().otherwise = |_| None;
        gate.flush(LONG).unwrap();
        gate.deny(Decision::new(true).request_id("r-10")).unwrap().unwrap();
        let status = gate.status().unwrap();
        assert_eq!((status.drops.count, status.drops.told), (8, 8));
        gate.flush(LONG).unwrap();
        drop(gate);
        assert_eq!(open(&path).status().unwrap().drops, client::gate::DropCounts { count: 8, told: 8 });
        ran
    });
    assert_eq!(ran.await.unwrap(), 10);
    let bodies = log.bodies(&key());
    let dropped: Value = serde_json::from_str(&bodies[5]).unwrap();
    assert_eq!((&dropped["type"], &dropped["count"], &dropped["why"]), (&json!("dropped"), &json!(8), &json!("full")));
    assert!(dropped["since"].as_u64() < dropped["until"].as_u64(), "{dropped}");
    assert!(bodies[6].contains("r-10"), "{}", bodies[6]);
    assert_eq!(bodies.len(), 7);
    log.assert_spotless();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_is_handed_over_and_ended_and_the_log_has_all_of_it() {
    let dir = tempfile::tempdir().unwrap();
    let log = StrictLog::start(&[&key()]).await;
    let (path, url) = (dir.path().to_owned(), log.url.clone());
    tokio::task::spawn_blocking(move || {
        let gate = Gate::open(to(&path, &url)).unwrap();
        gate.deny(Decision::new(true)).unwrap();
        gate.rotate(named_key(2)).unwrap();
        gate.deny(Decision::new(true)).unwrap();
        let end = gate.end(LONG).unwrap();
        assert_eq!(end.seq, SeqNo(4));
        drop(gate);
        let mut config = to(&path, &url);
        config.key = named_key(2);
        let gate = Gate::open(config).unwrap();
        assert_eq!(gate.deny(Decision::new(true)).unwrap_err().code(), "closed");
        assert_eq!(gate.status().unwrap().outbox.acknowledged, 5);
    })
    .await
    .unwrap();
    assert_eq!(log.bodies(&key()).len(), 5);
    log.assert_spotless();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_silent_gate_says_heartbeat_and_a_busy_one_does_not() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().to_owned();
    tokio::task::spawn_blocking(move || {
        let mut config = config(&path);
        config.heartbeat_ms = Some(50);
        let gate = Gate::open(config).unwrap();
        // However slow the machine is, they come.
        wait_for(|| (gate.outbox().next_seq().unwrap() >= SeqNo(4)).then_some(()));
        drop(gate);
        assert!(bodies(&path).iter().all(|body| *body == json!({"type": "heartbeat"})));
        let quiet = tempfile::tempdir().unwrap();
        let mut config = self::config(quiet.path());
        config.heartbeat_ms = Some(3_600_000);
        let gate = Gate::open(config).unwrap();
        for _ in 0..50 {
            gate.deny(Decision::new(true)).unwrap();
        }
        drop(gate);
        assert!(bodies(quiet.path()).iter().all(|body| body["type"] == "decision"));
    })
    .await
    .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_that_is_away_does_not_know_the_gate_or_fails_is_told_and_tried_again_until_it_takes_everything_in_order()
{
    let dir = tempfile::tempdir().unwrap();
    let log = StrictLog::start(&[&key()]).await;
    let stranger = log.lock().issuers.remove("gate.example/support-1").unwrap();
    let (path, url, log_again) = (dir.path().to_owned(), log.url.clone(), log.clone());
    let ids = tokio::task::spawn_blocking(move || {
        let gate = Gate::open(to(&path, &url)).unwrap();
        let mut ids = Vec::new();
        for number in 0..1_500 {
            ids.push(gate.deny(Decision::new(true).request_id(format!("r-{number}"))).unwrap().unwrap().id);
        }
        let (code, sentence) = wait_for(|| match gate.status().unwrap().sender {
            Sending::Failing { code, sentence } => Some((code, sentence)),
            _ => None,
        });
        assert_eq!(gate.flush(Duration::from_millis(10)).unwrap_err().code(), "log-unreachable");
        assert_eq!(code, "unknown-issuer");
        assert!(sentence.contains("issuer add"), "{sentence}");
        assert!(gate.metrics().contains("counterfoil_gate_sender_failing{issuer=\"gate.example/support-1\"} 1"));
        {
            let mut log = log_again.lock();
            log.issuers.insert("gate.example/support-1".into(), stranger);
            log.otherwise = |batch| match batch {
                1 | 2 => Some(Misbehaviour::Unavailable),
                4 => Some(Misbehaviour::DropAfterCommit),
                5 => Some(Misbehaviour::OverloadedAt(3)),
                _ => None,
            };
        }
        gate.flush(LONG).unwrap();
        let status = gate.status().unwrap();
        assert_eq!((status.outbox.acknowledged, status.sender, status.oldest_queued), (1_501, Sending::Working, None));
        drop(gate);
        ids
    })
    .await
    .unwrap();
    log.assert_spotless();
    let state = log.lock();
    let logged: Vec<_> = state.streams["gate.example/support-1"]
        .iter()
        .skip(1)
        .map(|(_, entry)| receipt::ReceiptId::of(entry))
        .collect();
    assert_eq!(logged, ids);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_older_copy_of_an_outbox_signs_nothing_once_the_log_has_told_not_even_what_it_owes() {
    let dir = tempfile::tempdir().unwrap();
    let log = StrictLog::start(&[&key()]).await;
    let (path, url) = (dir.path().to_owned(), log.url.clone());
    tokio::task::spawn_blocking(move || {
        let gate = Gate::open(to(&path, &url)).unwrap();
        let act = gate.decide(allow("r-0")).unwrap();
        let copy = copy_of(&path);
        drop(act);
        gate.flush(LONG).unwrap();
        drop(gate);
        let gate = Gate::open(to(copy.path(), &url)).unwrap();
        assert_eq!(gate.flush(LONG).unwrap_err().code(), "outbox-behind");
        let refused = gate.decide(allow("r-1")).map(|_| ()).unwrap_err();
        assert_eq!(refused.code(), "outbox-behind");
        assert!(refused.to_string().contains("newest copy"), "{refused}");
        // Asked once more, as the worker does.
        assert_eq!(gate.flush(LONG).unwrap_err().code(), "outbox-behind");
        let status = gate.status().unwrap();
        assert_eq!((status.owed, status.open_decisions, status.outbox.receipts), (1, 1, 2));
    })
    .await
    .unwrap();
    assert_eq!(log.bodies(&key()).len(), 3);
    log.assert_spotless();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_older_copy_of_an_outbox_is_not_ended_before_the_log_was_asked() {
    let dir = tempfile::tempdir().unwrap();
    let log = StrictLog::start(&[&key()]).await;
    let (path, url) = (dir.path().to_owned(), log.url.clone());
    tokio::task::spawn_blocking(move || {
        let gate = Gate::open(to(&path, &url)).unwrap();
        let act = gate.decide(allow("r-0")).unwrap();
        let copy = copy_of(&path);
        drop(act);
        gate.flush(LONG).unwrap();
        drop(gate);
        let gate = Gate::open(to(copy.path(), &url)).unwrap();
        assert_eq!(gate.end(LONG).unwrap_err().code(), "outbox-behind");
        assert_eq!(gate.status().unwrap().outbox.receipts, 2);
    })
    .await
    .unwrap();
    assert_eq!(log.bodies(&key()).len(), 3);
    log.assert_spotless();
}

#[tokio::test(flavor = "multi_thread")]
async fn where_the_log_is_convicted_before_it_has_told_its_stream_what_a_stopped_gate_left_waits_no_longer() {
    let dir = tempfile::tempdir().unwrap();
    let log = StrictLog::start(&[&key()]).await;
    let (path, url, state) = (dir.path().to_owned(), log.url.clone(), log.clone());
    tokio::task::spawn_blocking(move || {
        let gate = Gate::open(to(&path, &url)).unwrap();
        std::mem::forget(gate.decide(allow("r-0")).unwrap());
        gate.flush(LONG).unwrap();
        gate.close();
        let copy = copy_of(&path);
        // With what the log proved.
        for name in ["acknowledged", "log"] {
            std::fs::copy(path.join(name), copy.path().join(name)).unwrap();
        }
        let mut other = merkle::MemoryTree::new();
        (0..2).for_each(|_| other.push(merkle::leaf_hash(b"another history")));
        let mut told = state.lock();
        (told.is_mute, told.shown) = (true, Some(other));
        drop(told);
        let gate = Gate::open(to(copy.path(), &url)).unwrap();
        gate_scene::wait_until_nothing_is_owed(&gate);
        assert_eq!(gate.flush(Duration::ZERO).unwrap_err().code(), "log-fork");
        assert_eq!(gate.status().unwrap().outbox.receipts, 3);
    })
    .await
    .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_stopped_gate_left_is_signed_once_the_log_has_shown_the_same_stream() {
    let dir = tempfile::tempdir().unwrap();
    let log = StrictLog::start(&[&key()]).await;
    let (path, url) = (dir.path().to_owned(), log.url.clone());
    tokio::task::spawn_blocking(move || {
        let gate = Gate::open(to(&path, &url)).unwrap();
        for number in 0..3 {
            std::mem::forget(gate.decide(allow(&format!("r-{number}"))).unwrap());
        }
        gate.flush(LONG).unwrap();
        gate.close();
        let copy = copy_of(&path);
        let gate = Gate::open(to(copy.path(), &url)).unwrap();
        // Waits for what is left, too.
        gate.flush(LONG).unwrap();
        let status = gate.status().unwrap();
        assert_eq!((status.owed, status.open_decisions, status.outbox.acknowledged), (0, 0, 7));
    })
    .await
    .unwrap();
    let unknown = log.bodies(&key()).iter().filter(|body| body.contains(r#""unknown":true"#)).count();
    assert_eq!((log.bodies(&key()).len(), unknown), (7, 3));
    log.assert_spotless();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gate_whose_key_signed_another_stream_signs_nothing_more_whatever_it_does_when_it_is_full() {
    for when_full in [WhenFull::FailClosed, WhenFull::FailOpen] {
        let dir = tempfile::tempdir().unwrap();
        let log = StrictLog::start(&[&key()]).await;
        let (path, url) = (dir.path().to_owned(), log.url.clone());
        tokio::task::spawn_blocking(move || {
            let gate = Gate::open(to(&path, &url)).unwrap();
            gate.deny(allow("r-0")).unwrap();
            let copy = copy_of(&path);
            gate.deny(allow("r-1")).unwrap();
            gate.flush(LONG).unwrap();
            drop(gate);
            // What it holds is behind first, and then another history.
            let mut config = to(copy.path(), &url);
            (config.when_full, config.heartbeat_ms) = (when_full, Some(20));
            let gate = Gate::open(config).unwrap();
            let scope = gate.decide(allow("r-2"));
            let waiting = gate.decide(allow("r-3").executes(receipt::body::Executes::Caller));
            let stopped = gate.flush(LONG).unwrap_err().code().to_owned();
            assert!(["streams-differ", "outbox-behind"].contains(&stopped.as_str()), "{stopped}");
            let signed = gate.outbox().next_seq().unwrap();
            assert_eq!(gate.decide(allow("r-4")).map(|_| ()).unwrap_err().code(), stopped);
            assert_eq!(gate.deny(allow("r-5")).unwrap_err().code(), stopped);
            assert_eq!(gate.append(r#"{"type":"note"}"#).unwrap_err().code(), stopped);
            assert_eq!(gate.reported("r-3", &Default::default()).unwrap_err().code(), stopped);
            assert_eq!(gate.rotate(named_key(2)).unwrap_err().code(), stopped);
            assert_eq!(gate.end(LONG).unwrap_err().code(), stopped);
            let ran = scope.is_ok();
            if let Ok(mut scope) = scope {
                scope.call(|| Ok::<_, Infallible>(())).unwrap();
                assert_eq!(scope.finish().unwrap_err().code(), stopped);
            }
            drop(waiting);
            // Longer than a heartbeat and a look at what is owed take.
            std::thread::sleep(Duration::from_millis(1_500));
            assert_eq!((gate.outbox().next_seq().unwrap(), gate.status().unwrap().drops.count), (signed, 0));
            // What ran is owed, and lost with the process: the newest copy says of its own calls what it knows.
            let owed = u64::from(ran);
            assert_eq!(gate.status().unwrap().owed, owed);
            let metric = format!("counterfoil_gate_owed{{issuer=\"gate.example/support-1\"}} {owed}\n");
            assert!(gate.metrics().contains(&metric), "{}", gate.metrics());
        })
        .await
        .unwrap();
        log.assert_spotless();
    }
}
