//! What a gate does when the outbox's disk refuses. (All else is tested from outside, in `tests/gate.rs`.)
#![allow(clippy::unwrap_used, clippy::panic)]

use super::*;
use note::{KeyKind, KeyName};
use receipt::{ReceiptId, SeqNo};
use serde_json::{Value, json};
use std::convert::Infallible;
use std::path::Path;

fn config(dir: &Path, when_full: WhenFull) -> GateConfig {
    let key = |name, seed| SigningKey::from_seed(KeyName::new(name).unwrap(), KeyKind::Ed25519, [seed; 32]);
    let log_key = key("log.example/a", 7).verifier();
    let mut config = GateConfig::new(dir, key("gate.example/a", 1), "http://127.0.0.1:9/".parse().unwrap(), log_key);
    (config.when_full, config.clock) = (when_full, Arc::new(|| UnixMillis(1_790_000_000_000)));
    config
}

fn open(dir: &Path, when_full: WhenFull) -> Gate {
    Gate::open(config(dir, when_full)).unwrap()
}

fn allow(request_id: &str) -> Decision {
    Decision::new(true).request_id(request_id)
}

/// The bodies from seq 1 on.
fn bodies(gate: &Gate) -> Vec<Value> {
    let outbox = gate.outbox();
    let body = |seq| serde_json::from_str(outbox.receipt(SeqNo(seq)).unwrap().unwrap().body_text()).unwrap();
    (1..outbox.next_seq().unwrap().0).map(body).collect()
}

fn told(body: &Value) -> [&Value; 3] {
    ["type", "request_id", "executed"].map(|name| &body[name])
}

/// Takes the disk away: `receipts` is a directory, until [`give_back`].
fn take_away(dir: &Path) {
    std::fs::rename(dir.join("receipts"), dir.join("away")).unwrap();
    std::fs::create_dir(dir.join("receipts")).unwrap();
}

fn give_back(dir: &Path) {
    std::fs::remove_dir(dir.join("receipts")).unwrap();
    std::fs::rename(dir.join("away"), dir.join("receipts")).unwrap();
}

#[test]
fn while_the_disk_refuses_a_gate_that_fails_closed_lets_nothing_run_and_then_goes_on_by_itself() {
    let dir = tempfile::tempdir().unwrap();
    let gate = open(dir.path(), WhenFull::FailClosed);
    gate.deny(allow("r-0")).unwrap();
    take_away(dir.path());
    gate.core().outbox.refuse_receipts();
    for number in 1..4 {
        let refused = gate.decide(allow(&format!("r-{number}"))).map(|_| ()).unwrap_err();
        assert_eq!(refused.code(), "outbox-disk", "{refused}");
        assert_eq!(gate.append(r#"{"type":"note"}"#).unwrap_err().code(), "outbox-disk");
        assert!(gate.metrics().contains("counterfoil_gate_disk_failing{issuer=\"gate.example/a\"} 1\n"));
    }
    give_back(dir.path());
    gate.deny(allow("r-4")).unwrap();
    assert_eq!(bodies(&gate).iter().map(|body| body["request_id"].clone()).collect::<Vec<_>>(), ["r-0", "r-4"]);
    assert_eq!(gate.status().unwrap().drops.count, 0);
}

#[test]
fn what_ran_while_the_disk_refused_is_told_in_front_of_the_next_receipt() {
    let dir = tempfile::tempdir().unwrap();
    let gate = open(dir.path(), WhenFull::FailOpen);
    gate.deny(allow("r-0")).unwrap();
    take_away(dir.path());
    gate.core().outbox.refuse_receipts();
    for number in 1..4 {
        let mut act = gate.decide(allow(&format!("r-{number}"))).unwrap();
        assert_eq!((act.receipt_id(), act.call(|| Ok::<_, Infallible>(7)).unwrap()), (None, 7));
        assert_eq!((act.approved_by("user:bob").unwrap(), act.finish().unwrap()), (None, None));
    }
    assert!(!dir.path().join("drops").exists() || std::fs::read(dir.path().join("drops")).unwrap().is_empty());
    give_back(dir.path());
    gate.deny(allow("r-4")).unwrap().unwrap();
    let written = bodies(&gate);
    assert_eq!(
        (&written[1]["type"], &written[1]["count"], &written[1]["why"]),
        (&json!("dropped"), &json!(3), &json!("disk"))
    );
    assert_eq!((written.len(), &written[2]["request_id"]), (3, &json!("r-4")));
    let lines = std::fs::read_to_string(dir.path().join("drops")).unwrap();
    assert!(lines.lines().count() == 3 && lines.contains("\"r-3\""), "{lines}");
    // Counted once, also by the next gate.
    drop(gate);
    let gate = open(dir.path(), WhenFull::FailOpen);
    assert_eq!(gate.status().unwrap().drops, DropCounts { count: 3, told: 3 });
}

#[test]
fn an_outcome_that_the_disk_refuses_is_owed_until_it_is_written() {
    let dir = tempfile::tempdir().unwrap();
    let gate = open(dir.path(), WhenFull::FailClosed);
    let mut act = gate.decide(allow("r-1")).unwrap();
    let alive = gate.decide(allow("r-2")).unwrap();
    take_away(dir.path());
    gate.core().outbox.refuse_receipts();
    act.call(|| Ok::<_, Infallible>(())).unwrap();
    assert_eq!(act.finish().unwrap_err().code(), "outbox-disk");
    give_back(dir.path());
    gate.deny(allow("r-3")).unwrap();
    drop(alive);
    let written = bodies(&gate);
    assert_eq!(told(&written[2]), [&json!("outcome"), &json!("r-1"), &json!(true)]);
    assert_eq!(told(&written[3]), [&json!("decision"), &json!("r-3"), &Value::Null]);
    assert_eq!(told(&written[4]), [&json!("outcome"), &json!("r-2"), &json!(false)]);
    assert_eq!((written.len(), gate.status().unwrap().open_decisions), (5, 0));
}

#[test]
fn a_decision_that_reached_the_disk_although_its_write_failed_gets_an_outcome() {
    let dir = tempfile::tempdir().unwrap();
    let gate = open(dir.path(), WhenFull::FailClosed);
    gate.deny(allow("r-0")).unwrap();
    let before = std::fs::read(dir.path().join("receipts")).unwrap();
    let lost = gate.decide(allow("r-1")).unwrap();
    let id: ReceiptId = lost.receipt_id().unwrap();
    let after = std::fs::read(dir.path().join("receipts")).unwrap();
    std::mem::forget(lost);
    // The same once more, by a gate that wrote it and was told that it had not.
    let copy = tempfile::tempdir().unwrap();
    std::fs::write(copy.path().join("receipts"), before).unwrap();
    let gate = open(copy.path(), WhenFull::FailClosed);
    gate.core().outbox.refuse_receipts();
    assert_eq!(gate.decide(allow("r-1")).map(|_| ()).unwrap_err().code(), "outbox-disk");
    std::fs::write(copy.path().join("receipts"), after).unwrap();
    gate.deny(allow("r-2")).unwrap();
    let written = bodies(&gate);
    assert_eq!(told(&written[1]), [&json!("decision"), &json!("r-1"), &Value::Null]);
    assert_eq!(told(&written[2]), [&json!("outcome"), &json!("r-1"), &json!(false)]);
    assert_eq!((&written[2]["unknown"], &written[2]["decision"]), (&json!(true), &json!(id.to_string())));
    assert_eq!(told(&written[3]), [&json!("decision"), &json!("r-2"), &Value::Null]);
}

#[test]
fn a_hand_over_whose_write_failed_goes_on_with_whichever_key_is_on_disk() {
    for reached_the_disk in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        let new = || SigningKey::from_seed(KeyName::new("gate.example/a").unwrap(), KeyKind::Ed25519, [2; 32]);
        let gate = open(dir.path(), WhenFull::FailClosed);
        gate.deny(allow("r-0")).unwrap();
        drop(gate);
        let copy = tempfile::tempdir().unwrap();
        std::fs::copy(dir.path().join("receipts"), copy.path().join("receipts")).unwrap();
        let other = open(copy.path(), WhenFull::FailClosed);
        other.rotate(new()).unwrap();
        let gate = open(dir.path(), WhenFull::FailClosed);
        gate.core().outbox.refuse_receipts();
        assert_eq!(gate.rotate(new()).unwrap_err().code(), "outbox-disk");
        if reached_the_disk {
            std::fs::copy(copy.path().join("receipts"), dir.path().join("receipts")).unwrap();
        }
        gate.deny(allow("r-1")).unwrap();
        let current = gate.status().unwrap().outbox.vkey.unwrap();
        assert_eq!(current == new().verifier().to_string(), reached_the_disk, "{current}");
        let verification = crate::OutboxView::open(dir.path()).unwrap().verify(None, &mut || {}).unwrap();
        assert_eq!(verification.faults, 0, "{verification:?}");
    }
}

#[test]
fn an_older_copy_of_the_receipts_that_a_disk_came_back_with_is_not_signed_on_from() {
    let dir = tempfile::tempdir().unwrap();
    let gate = open(dir.path(), WhenFull::FailOpen);
    gate.deny(allow("r-0")).unwrap();
    let older = std::fs::read(dir.path().join("receipts")).unwrap();
    gate.deny(allow("r-1")).unwrap();
    gate.core().outbox.refuse_receipts();
    assert_eq!(gate.deny(allow("r-2")).unwrap(), None);
    let newest = std::fs::read(dir.path().join("receipts")).unwrap();
    std::fs::write(dir.path().join("receipts"), older).unwrap();
    assert_eq!(gate.deny(allow("r-3")).unwrap_err().code(), "outbox-damaged");
    std::fs::write(dir.path().join("receipts"), newest).unwrap();
    assert_eq!(gate.deny(allow("r-4")).unwrap().unwrap().seq, SeqNo(4));
}

#[test]
fn an_outcome_that_cannot_be_signed_as_it_is_goes_without_what_stands_in_the_way() {
    // As an outbox of another program may hold one: its decision just fits an entry, and what its outcome says beside the
    // request does not.
    let long = "r".repeat(65_200);
    let decision = format!(
        r#"{{"type":"decision","request_id":"{long}","decision":"allow","authenticated":true,"executes":"gate"}}"#
    );
    let dir = tempfile::tempdir().unwrap();
    let config = config(dir.path(), WhenFull::FailClosed);
    let outbox = Outbox::open(dir.path(), config.key, GateDescription::default()).unwrap();
    let id = outbox.append(&decision, UnixMillis(1_790_000_000_000)).unwrap().id;
    drop(outbox);
    let gate = open(dir.path(), WhenFull::FailClosed);
    while gate.status().unwrap().owed > 0 {
        std::thread::sleep(Duration::from_millis(5));
    }
    let written = bodies(&gate);
    assert_eq!(told(&written[1]), [&json!("outcome"), &Value::Null, &json!(false)]);
    assert_eq!((&written[1]["decision"], &written[1]["unknown"]), (&json!(id.to_string()), &json!(true)));
}

#[test]
fn a_decision_judged_by_a_history_while_the_disk_refuses_is_a_drop_like_any_other() {
    let dir = tempfile::tempdir().unwrap();
    let gate = open(dir.path(), WhenFull::FailOpen);
    let judged = |request_id: &str, next_seq| {
        let as_of = Some(AsOf { subjects: vec!["cust_7".into()], next_seq });
        allow(request_id).subjects(["cust_7"]).history(PriorHistory { as_of, ..PriorHistory::default() })
    };
    gate.deny(allow("r-0").subjects(["cust_7"])).unwrap();
    take_away(dir.path());
    gate.core().outbox.refuse_receipts();
    for number in 1..4 {
        let act = gate.decide(judged(&format!("r-{number}"), 2)).unwrap();
        assert_eq!(act.finish().unwrap(), None);
    }
    give_back(dir.path());
    assert_eq!(gate.decide(judged("r-4", 1)).map(|_| ()).unwrap_err().code(), "history-moved");
    gate.deny(judged("r-4", 2)).unwrap().unwrap();
    assert_eq!(gate.status().unwrap().drops, DropCounts { count: 3, told: 3 });
}

#[test]
fn no_credential_comes_into_an_outcome_by_the_type_of_an_error_or_by_where_it_is_cut() {
    let dir = tempfile::tempdir().unwrap();
    let gate = open(dir.path(), WhenFull::FailClosed);
    let token = "ghp_0123456789abcdefghijklmnopqrstuvwxyz";
    let cut = format!("{} AKIA{}", "x".repeat(273), "A".repeat(40));
    for (type_name, message, error) in [(token, "m", "Error"), ("Type", cut.as_str(), "Type")] {
        let mut act = gate.decide(allow("r-1")).unwrap();
        act.failed(type_name, message);
        act.finish().unwrap();
        assert_eq!(bodies(&gate).last().unwrap()["error"], error);
    }
    gate.deny(allow("r-2")).unwrap();
}

#[test]
fn a_heartbeat_that_comes_too_early_because_something_was_written_since_is_left_out() {
    let dir = tempfile::tempdir().unwrap();
    let gate = open(dir.path(), WhenFull::FailClosed);
    gate.deny(allow("r-0")).unwrap();
    gate.core().heartbeat(Duration::from_secs(3_600));
    assert_eq!(bodies(&gate).len(), 1);
    gate.core().heartbeat(Duration::ZERO);
    assert_eq!(bodies(&gate)[1], json!({"type": "heartbeat"}));
}

#[test]
fn what_opens_a_commitment_is_on_disk_before_its_receipt() {
    let dir = tempfile::tempdir().unwrap();
    let gate = open(dir.path(), WhenFull::FailClosed);
    gate.deny(allow("r-0")).unwrap();
    let committed = || Decision::new(true).why("so").commit(["why"]);
    std::fs::write(dir.path().join("disclosures"), "no directory").unwrap();
    assert_eq!(gate.deny(committed()).unwrap_err().code(), "outbox-disk");
    assert_eq!(crate::OutboxView::open(dir.path()).unwrap().status().receipts, 2);
    std::fs::remove_file(dir.path().join("disclosures")).unwrap();
    gate.deny(committed()).unwrap();
}
