//! The outbox and its sender against a strict log that misbehaves.

use crate::strict_log;
use client::outbox::{GateDescription, Outbox, OutboxError, OutboxView};
use client::sender::CosignedError;
use client::{BoundedClient, LogClient, Patience, SendError, Sender, Timeouts, Wait};
use note::{KeyKind, KeyName, Policy, SigningKey};
use receipt::{SeqNo, UnixMillis};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use strict_log::{Misbehaviour, StrictLog, log_key, witness_key};

const NOW: UnixMillis = UnixMillis(1_790_000_000_000);

fn issuer_key() -> SigningKey {
    SigningKey::from_seed(KeyName::new("gate.example/support-1").unwrap(), KeyKind::Ed25519, [1; 32])
}

fn open(dir: &Path) -> Outbox {
    Outbox::open(dir, issuer_key(), GateDescription { gate: Some("test 1".into()), ..GateDescription::default() })
        .unwrap()
}

fn quick() -> Patience {
    Patience {
        first_pause: Duration::from_millis(2),
        longest_pause: Duration::from_millis(20),
        give_up_after: Some(Duration::from_secs(600)),
    }
}

fn sender(outbox: &Outbox, log: &StrictLog) -> Sender {
    Sender::new(outbox.clone(), log.client(), log_key().verifier(), quick(), Arc::new(|| NOW)).unwrap()
}

fn bodies(from: usize, to: usize) -> Vec<String> {
    (from..to).map(|number| format!(r#"{{"type":"decision","request_id":"r-{number}","decision":"deny","authenticated":true,"executes":"none"}}"#)).collect()
}

fn append(outbox: &Outbox, from: usize, to: usize) {
    outbox.append_all(&bodies(from, to), NOW).unwrap();
}

/// Everything but the `open`.
fn logged(log: &StrictLog) -> Vec<String> {
    log.bodies(&issuer_key()).split_off(1)
}

#[tokio::test]
async fn everything_arrives_once_in_order_and_every_proof_is_kept() {
    let dir = tempfile::tempdir().unwrap();
    let log = StrictLog::start(&[&issuer_key()]).await;
    let outbox = open(dir.path());
    append(&outbox, 0, 600);
    let acknowledged = sender(&outbox, &log).flush().await.unwrap();
    assert_eq!(acknowledged, 601);
    assert_eq!(logged(&log), bodies(0, 600));
    log.assert_spotless();
    let kept = outbox.kept(SeqNo(600)).unwrap().unwrap();
    assert_eq!((kept.index.0, kept.receipt.seq()), (600, SeqNo(600)));
    let status = outbox.status().unwrap();
    assert_eq!((status.receipts, status.queued, status.sent, status.acknowledged, status.alarms), (601, 0, 0, 601, 0));
    let verification =
        OutboxView::open(dir.path()).unwrap().verify(Some(&issuer_key().verifier()), &mut || {}).unwrap();
    assert_eq!(
        (verification.receipts, verification.proofs, verification.unproven, verification.faults),
        (601, 601, 0, 0),
        "{verification:?}"
    );
}

#[tokio::test]
async fn a_log_that_is_away_breaks_off_dawdles_or_wants_less_gets_everything_once() {
    let dir = tempfile::tempdir().unwrap();
    let log = StrictLog::start(&[&issuer_key()]).await;
    log.script([
        Misbehaviour::Unavailable,
        Misbehaviour::DropAfterCommit,
        Misbehaviour::Unavailable,
        Misbehaviour::Slow(Duration::from_secs(3_600)),
        Misbehaviour::OverloadedAt(3),
        Misbehaviour::OverloadedAt(0),
        Misbehaviour::TooLarge(10),
        Misbehaviour::TooLarge(10),
    ]);
    let outbox = open(dir.path());
    append(&outbox, 0, 300);
    // An honest answer that takes longer than this is one that dawdles, and asked for again.
    let (hurried, patience) = (Duration::from_secs(2), Patience { give_up_after: None, ..quick() });
    let log_key = log_key().verifier();
    let sender = Sender::new(outbox.clone(), log.client_that_waits(hurried), log_key, patience, Arc::new(|| NOW));
    sender.unwrap().flush().await.unwrap();
    assert_eq!(logged(&log), bodies(0, 300));
    log.assert_spotless();
    assert!(log.lock().duplicates >= 256, "the receipts whose answers were lost were sent again");
    assert_eq!(outbox.status().unwrap().acknowledged, 301);
}

#[tokio::test]
async fn a_log_that_stays_away_is_given_up_and_nothing_is_lost() {
    let dir = tempfile::tempdir().unwrap();
    let log = StrictLog::start(&[&issuer_key()]).await;
    log.lock().otherwise = |_| Some(Misbehaviour::Unavailable);
    let outbox = open(dir.path());
    append(&outbox, 0, 3);
    let patience = Patience { give_up_after: Some(Duration::from_millis(50)), ..quick() };
    let mut sender =
        Sender::new(outbox.clone(), log.client(), log_key().verifier(), patience, Arc::new(|| NOW)).unwrap();
    let error = sender.flush().await.unwrap_err();
    assert!(matches!(error, SendError::GaveUp { unsent: 4, .. }), "{error}");
    assert!(error.to_string().contains("counterfoil outbox flush --outbox"), "{error}");
    assert_eq!(outbox.status().unwrap().sent, 4);
    log.lock().otherwise = |_| None;
    sender.flush().await.unwrap();
    assert_eq!(logged(&log), bodies(0, 3));
}

#[tokio::test]
async fn a_gate_that_runs_on_has_its_receipts_sent_as_they_come() {
    let dir = tempfile::tempdir().unwrap();
    let log = StrictLog::start(&[&issuer_key()]).await;
    let outbox = open(dir.path());
    let mut sender = sender(&outbox, &log);
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let running = tokio::spawn(async move { sender.run(async { drop(stopped.await) }).await });
    let mut acknowledged = outbox.watch_acknowledged();
    for round in 0..5 {
        append(&outbox, round, round + 1);
        acknowledged.wait_for(|count| *count == round as u64 + 2).await.unwrap();
    }
    stop.send(()).unwrap();
    running.await.unwrap().unwrap();
    assert_eq!(logged(&log), bodies(0, 5));
}

#[tokio::test]
async fn a_proof_that_does_not_hold_is_an_alarm_that_is_kept_and_acknowledges_nothing() {
    for misbehaviour in [Misbehaviour::WrongProofs, Misbehaviour::ForgedHeads] {
        let dir = tempfile::tempdir().unwrap();
        let log = StrictLog::start(&[&issuer_key()]).await;
        log.script([misbehaviour]);
        let outbox = open(dir.path());
        append(&outbox, 0, 3);
        let error = sender(&outbox, &log).flush().await.unwrap_err();
        assert!(error.is_alarm() && matches!(error, SendError::BadProof { seq: SeqNo(0), .. }), "{error}");
        let status = outbox.status().unwrap();
        assert_eq!((status.acknowledged, status.alarms), (0, 1));
        let alarms = OutboxView::open(dir.path()).unwrap().alarms().unwrap();
        assert!(alarms[0].contains("\"what\":\"bad-proof\"") && alarms[0].contains("tlog-proof@v1"), "{alarms:?}");
        // An honest answer later is taken.
        sender(&outbox, &log).flush().await.unwrap();
        assert_eq!(outbox.status().unwrap().acknowledged, 4);
    }
}

#[tokio::test]
async fn an_outbox_restored_from_an_old_copy_is_refused_before_it_forks_the_stream() {
    let (dir, old) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let log = StrictLog::start(&[&issuer_key()]).await;
    {
        let outbox = open(dir.path());
        append(&outbox, 0, 2);
        sender(&outbox, &log).flush().await.unwrap();
        copy(dir.path(), old.path());
        append(&outbox, 2, 5);
        sender(&outbox, &log).flush().await.unwrap();
    }
    let restored = open(old.path());
    let error = sender(&restored, &log).compare().await.unwrap_err();
    assert!(matches!(error, SendError::OutboxBehind { log_has: SeqNo(6), outbox_has: SeqNo(3), .. }), "{error}");
    // One that signed on regardless, until it is longer than the log's stream, is still told apart.
    append(&restored, 100, 110);
    let error = sender(&restored, &log).flush().await.unwrap_err();
    assert!(matches!(error, SendError::StreamsDiffer { seq: SeqNo(5), .. }), "{error}");
    log.assert_spotless();
    assert_eq!(logged(&log), bodies(0, 5));
}

#[tokio::test]
async fn two_copies_of_one_outbox_that_both_sign_are_caught_by_the_log_and_the_second_one_stops() {
    let (dir, copied) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let log = StrictLog::start(&[&issuer_key()]).await;
    let outbox = open(dir.path());
    append(&outbox, 0, 2);
    let mut first = sender(&outbox, &log);
    first.flush().await.unwrap();
    copy(dir.path(), copied.path());
    let copied = open(copied.path());
    let mut second = sender(&copied, &log);
    second.compare().await.unwrap();
    // Both agreed with the log a moment ago.
    append(&outbox, 2, 3);
    first.flush().await.unwrap();
    append(&copied, 3, 5);
    let error = second.flush().await.unwrap_err();
    assert!(matches!(error, SendError::StreamsDiffer { seq: SeqNo(3), .. }), "{error}");
    assert!(error.to_string().contains("signed two histories"), "{error}");
    let status = copied.status().unwrap();
    assert_eq!((status.acknowledged, status.alarms), (3, 1));
    assert_eq!(logged(&log), bodies(0, 3));
}

#[tokio::test]
async fn a_single_receipt_is_submitted_and_its_proof_checked_by_whoever_has_the_key() {
    let dir = tempfile::tempdir().unwrap();
    let log = StrictLog::start(&[&issuer_key()]).await;
    let outbox = open(dir.path());
    append(&outbox, 0, 1);
    for _twice_is_the_same in 0..2 {
        for seq in 0..2 {
            let receipt = outbox.receipt(SeqNo(seq)).unwrap().unwrap();
            let inclusion = log.client().submit(receipt.bytes(), Wait::Integrated).await.unwrap();
            assert_eq!((inclusion.index.0, inclusion.seq, inclusion.id), (seq, SeqNo(seq), receipt.id()));
            let checked = inclusion.proof.check(receipt.bytes(), &log_key().verifier()).unwrap();
            assert_eq!(checked.leaf(), receipt.id().0);
        }
    }
    assert!(outbox.unsent().count() == 2, "whoever submits by hand also acknowledges by hand");
}

#[tokio::test]
async fn a_new_outbox_for_a_key_that_the_log_knows_is_refused() {
    let (dir, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let log = StrictLog::start(&[&issuer_key()]).await;
    let outbox = open(dir.path());
    append(&outbox, 0, 1);
    sender(&outbox, &log).flush().await.unwrap();
    let error = sender(&open(other.path()), &log).compare().await.unwrap_err();
    assert!(matches!(error, SendError::OutboxNew { log_has: SeqNo(2), .. }), "{error}");
    assert!(error.to_string().contains("is new") && error.to_string().contains("signed 2 receipts"), "{error}");
}

#[tokio::test]
async fn a_log_that_lost_what_it_proved_is_an_alarm() {
    let dir = tempfile::tempdir().unwrap();
    let log = StrictLog::start(&[&issuer_key()]).await;
    let outbox = open(dir.path());
    append(&outbox, 0, 3);
    sender(&outbox, &log).flush().await.unwrap();
    let empty = StrictLog::start(&[&issuer_key()]).await;
    append(&outbox, 3, 4);
    let error = sender(&outbox, &empty).flush().await.unwrap_err();
    assert!(
        error.is_alarm() && matches!(error, SendError::LogLost { log_has: SeqNo(0), acknowledged: SeqNo(4), .. }),
        "{error}"
    );
    assert_eq!(outbox.status().unwrap().alarms, 1);
}

#[tokio::test]
async fn a_log_that_loses_what_it_proved_between_two_batches_is_an_alarm() {
    let dir = tempfile::tempdir().unwrap();
    let log = StrictLog::start(&[&issuer_key()]).await;
    let at_first = log.lock().issuers.clone();
    let outbox = open(dir.path());
    append(&outbox, 0, 3);
    let mut sender = sender(&outbox, &log);
    sender.flush().await.unwrap();
    log.lock().issuers = at_first;
    append(&outbox, 3, 4);
    let error = sender.flush().await.unwrap_err();
    assert!(matches!(error, SendError::LogLost { log_has: SeqNo(0), acknowledged: SeqNo(4), .. }), "{error}");
    assert_eq!(outbox.status().unwrap().alarms, 1);
}

#[tokio::test]
async fn a_log_that_signs_two_roots_for_one_size_is_an_alarm_with_both_heads() {
    let dir = tempfile::tempdir().unwrap();
    let other_issuer = SigningKey::from_seed(KeyName::new("gate.example/other").unwrap(), KeyKind::Ed25519, [2; 32]);
    let honest = StrictLog::start(&[&issuer_key()]).await;
    let outbox = open(dir.path());
    append(&outbox, 0, 2);
    sender(&outbox, &honest).flush().await.unwrap();
    append(&outbox, 2, 3);
    // The same key, another tree of the same size: somebody else's entry stands where ours did.
    let forked = StrictLog::start(&[&issuer_key(), &other_issuer]).await;
    {
        let mut state = forked.lock();
        let stream: Vec<(u64, Vec<u8>)> = honest.lock().streams.values().next().unwrap().clone();
        state.issuers = honest.lock().issuers.clone();
        state.tree.push(merkle::leaf_hash(b"somebody else's"));
        state.tree.push(merkle::leaf_hash(&stream[0].1));
        state.streams.insert(issuer_key().name().to_string(), stream);
    }
    let error = sender(&outbox, &forked).flush().await.unwrap_err();
    assert!(error.is_alarm() && matches!(error, SendError::Outbox(OutboxError::LogFork { .. })), "{error}");
    let alarm = OutboxView::open(dir.path()).unwrap().alarms().unwrap().remove(0);
    let alarm: serde_json::Value = serde_json::from_str(&alarm).unwrap();
    assert_eq!(alarm["what"], "log-fork");
    assert_ne!(alarm["held"], alarm["offered"]);
    assert_eq!(outbox.status().unwrap().acknowledged, 3);
}

#[tokio::test]
async fn an_outbox_goes_to_one_log_for_ever() {
    let dir = tempfile::tempdir().unwrap();
    let log = StrictLog::start(&[&issuer_key()]).await;
    let outbox = open(dir.path());
    drop(sender(&outbox, &log));
    let other = SigningKey::from_seed(KeyName::new("log.example/other").unwrap(), KeyKind::Ed25519, [9; 32]).verifier();
    let refused = Sender::new(outbox.clone(), log.client(), other, quick(), Arc::new(|| NOW)).err().unwrap();
    assert!(refused.to_string().contains("use one outbox directory a log"), "{refused}");
    // The same log may move.
    let moved = StrictLog::start(&[&issuer_key()]).await;
    drop(sender(&outbox, &moved));
    assert_eq!(outbox.log().unwrap().unwrap().url, moved.url);
}

#[tokio::test]
async fn an_unregistered_issuer_is_told_what_to_have_registered() {
    let dir = tempfile::tempdir().unwrap();
    let log = StrictLog::start(&[]).await;
    let outbox = open(dir.path());
    append(&outbox, 0, 1);
    let error = sender(&outbox, &log).flush().await.unwrap_err().to_string();
    assert!(error.contains("issuer add") && error.contains(&issuer_key().verifier().to_string()), "{error}");
}

#[tokio::test]
async fn a_server_that_is_no_log_is_not_said_to_be_a_log_that_does_not_know_the_issuer() {
    let dir = tempfile::tempdir().unwrap();
    let log = StrictLog::start(&[&issuer_key()]).await;
    let outbox = open(dir.path());
    append(&outbox, 0, 1);
    let elsewhere = format!("{}/elsewhere", log.url).parse().unwrap();
    let client = LogClient::new(elsewhere, BoundedClient::new(Timeouts::default()).unwrap());
    let mut sender = Sender::new(outbox, client, log_key().verifier(), quick(), Arc::new(|| NOW)).unwrap();
    let error = sender.flush().await.unwrap_err();
    assert!(matches!(error, SendError::NotALog { .. }), "{error}");
    assert!(error.to_string().contains("is not a log") && error.to_string().contains("--log"), "{error}");
}

#[tokio::test]
async fn a_closed_stream_takes_nothing_more() {
    let dir = tempfile::tempdir().unwrap();
    let log = StrictLog::start(&[&issuer_key()]).await;
    let outbox = open(dir.path());
    outbox.append(r#"{"type":"close"}"#, NOW).unwrap();
    assert!(outbox.append(&bodies(0, 1)[0], NOW).unwrap_err().to_string().contains("closed"));
    sender(&outbox, &log).flush().await.unwrap();
    assert!(outbox.status().unwrap().closed);
}

#[tokio::test]
async fn a_rotated_key_continues_the_stream_here_and_in_the_log() {
    let dir = tempfile::tempdir().unwrap();
    let log = StrictLog::start(&[&issuer_key()]).await;
    let new_key = || SigningKey::from_seed(issuer_key().name().clone(), KeyKind::Ed25519, [3; 32]);
    {
        let outbox = open(dir.path());
        append(&outbox, 0, 2);
        outbox.rotate(new_key(), NOW).unwrap();
        append(&outbox, 2, 3);
        sender(&outbox, &log).flush().await.unwrap();
    }
    let old = Outbox::open(dir.path(), issuer_key(), GateDescription::default()).unwrap_err();
    assert!(matches!(old, OutboxError::OtherKey { .. }), "{old}");
    let outbox = Outbox::open(dir.path(), new_key(), GateDescription::default()).unwrap();
    append(&outbox, 3, 4);
    sender(&outbox, &log).flush().await.unwrap();
    log.assert_spotless();
    let verification = OutboxView::open(dir.path()).unwrap().verify(None, &mut || {}).unwrap();
    assert_eq!((verification.receipts, verification.faults), (6, 0), "{verification:?}");
}

#[tokio::test]
async fn a_cosigned_proof_takes_the_place_of_the_first_one_once_the_quorum_is_met() {
    let dir = tempfile::tempdir().unwrap();
    let log = StrictLog::start(&[&issuer_key()]).await;
    log.lock().cosigns_after = 3;
    let outbox = open(dir.path());
    append(&outbox, 0, 2);
    let mut sender = sender(&outbox, &log);
    sender.flush().await.unwrap();
    let policy = format!("log {}\nwitness w1 {}\nquorum w1\n", log_key().verifier(), witness_key().verifier());
    let policy = Policy::parse(policy.as_bytes()).unwrap();
    sender.wait_cosigned(SeqNo(1), &policy).await.unwrap();
    assert_eq!(log.lock().cosigned_calls, 3);
    let kept = outbox.kept(SeqNo(1)).unwrap().unwrap();
    assert!(kept.proof.contains("— w.example "), "{}", kept.proof);
    // It is not asked for again, also not after a restart; and all that is kept still holds.
    sender.wait_cosigned(SeqNo(1), &policy).await.unwrap();
    assert_eq!(log.lock().cosigned_calls, 3);
    drop((sender, outbox));
    let outbox = open(dir.path());
    assert!(outbox.kept(SeqNo(1)).unwrap().unwrap().proof.contains("— w.example "));
    let verification = OutboxView::open(dir.path()).unwrap().verify(None, &mut || {}).unwrap();
    assert_eq!((verification.proofs, verification.faults), (3, 0), "{verification:?}");
}

#[tokio::test]
async fn a_quorum_that_is_not_met_in_time_is_said_and_the_first_proof_stays() {
    let dir = tempfile::tempdir().unwrap();
    let log = StrictLog::start(&[&issuer_key()]).await;
    log.lock().cosigns_after = u64::MAX;
    let outbox = open(dir.path());
    append(&outbox, 0, 1);
    let patience = Patience { give_up_after: Some(Duration::from_millis(60)), ..quick() };
    let mut sender =
        Sender::new(outbox.clone(), log.client(), log_key().verifier(), patience, Arc::new(|| NOW)).unwrap();
    sender.flush().await.unwrap();
    let policy = format!("log {}\nwitness w1 {}\nquorum w1\n", log_key().verifier(), witness_key().verifier());
    let policy = Policy::parse(policy.as_bytes()).unwrap();
    let error = sender.wait_cosigned(SeqNo(1), &policy).await.unwrap_err();
    assert!(matches!(error, CosignedError::NotInTime { seq: SeqNo(1), .. }), "{error}");
    let other = Policy::parse(format!("log {}\nquorum none\n", issuer_key().verifier()).as_bytes()).unwrap();
    assert!(matches!(sender.wait_cosigned(SeqNo(1), &other).await, Err(CosignedError::Policy(_))));
    assert!(outbox.kept(SeqNo(1)).unwrap().is_some());
}

#[tokio::test]
async fn a_receipt_is_found_by_its_id_and_by_its_place() {
    let dir = tempfile::tempdir().unwrap();
    let log = StrictLog::start(&[&issuer_key()]).await;
    let outbox = open(dir.path());
    append(&outbox, 0, 3);
    sender(&outbox, &log).flush().await.unwrap();
    let issuer = outbox.issuer().unwrap().unwrap();
    let by_place = log.client().receipt_at(&issuer, SeqNo(2)).await.unwrap().unwrap();
    assert_eq!(by_place.receipt, outbox.receipt(SeqNo(2)).unwrap().unwrap());
    by_place.inclusion.proof.check(by_place.receipt.bytes(), &log_key().verifier()).unwrap();
    let by_id = log.client().receipt_by_id(&by_place.receipt.id()).await.unwrap().unwrap();
    assert_eq!(by_id, by_place);
    assert_eq!(log.client().receipt_at(&issuer, SeqNo(99)).await.unwrap(), None);
    assert_eq!(log.client().issuer(&issuer).await.unwrap().unwrap().next_seq, 4);
}

fn copy(from: &Path, to: &Path) {
    for file in std::fs::read_dir(from).unwrap() {
        let file = file.unwrap();
        std::fs::copy(file.path(), to.join(file.file_name())).unwrap();
    }
}
