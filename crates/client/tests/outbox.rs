//! The outbox by itself: what it refuses, and what it makes of files that a crash or an accident left behind.

use client::outbox::{BodyFault, GateDescription, Outbox, OutboxError, OutboxView};
use note::{KeyKind, KeyName, SigningKey};
use receipt::{Body, Digest, SeqNo, Shown, UnixMillis};
use std::path::Path;

const NOW: UnixMillis = UnixMillis(1_790_000_000_000);
const HEARTBEAT: &str = r#"{"type":"heartbeat"}"#;

fn key() -> SigningKey {
    SigningKey::from_seed(KeyName::new("gate.example/support-1").unwrap(), KeyKind::Ed25519, [1; 32])
}

fn open(dir: &Path) -> Result<Outbox, OutboxError> {
    Outbox::open(dir, key(), GateDescription::default())
}

fn faults(dir: &Path) -> u64 {
    OutboxView::open(dir).unwrap().verify(Some(&key().verifier()), &mut || {}).unwrap().faults
}

#[test]
fn the_first_receipt_is_an_open_that_describes_the_gate() {
    let dir = tempfile::tempdir().unwrap();
    let policy = Digest::of_json(&serde_json::json!({"rules": []}));
    let gate = GateDescription {
        gate: Some("refund-gate 1.2".into()),
        heartbeat_ms: Some(60_000),
        policy_digest: Some(policy),
    };
    let outbox = Outbox::open(dir.path(), key(), gate).unwrap();
    let queued = outbox.append(HEARTBEAT, NOW).unwrap();
    assert_eq!(queued.seq, SeqNo(1));
    let first = outbox.receipt(SeqNo(0)).unwrap().unwrap();
    let Body::Open(body) = first.body() else { panic!("{first}") };
    assert_eq!(body.vkey.shown(), Some(&key().verifier().to_string()));
    assert_eq!((body.heartbeat_ms.shown(), body.policy_digest.shown()), (Some(&60_000), Some(&policy)));
    assert_eq!(outbox.receipt(SeqNo(1)).unwrap().unwrap().prev(), first.id());
}

#[test]
fn an_open_of_the_callers_own_is_taken_as_the_first_receipt_and_never_later() {
    let dir = tempfile::tempdir().unwrap();
    let outbox = open(dir.path()).unwrap();
    let own = serde_json::json!({"type": "open", "vkey": key().verifier(), "gate": {"made": "here"}}).to_string();
    assert_eq!(outbox.append(&own, NOW).unwrap().seq, SeqNo(0));
    let again = outbox.append(&own, NOW).unwrap_err();
    assert!(again.to_string().contains("seq 0 and no other"), "{again}");
}

#[test]
fn time_never_goes_back_within_a_stream_nor_over_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let outbox = open(dir.path()).unwrap();
    outbox.append(HEARTBEAT, NOW).unwrap();
    assert_eq!(outbox.append(HEARTBEAT, UnixMillis(NOW.0 - 5_000)).unwrap().issued_at, NOW);
    drop(outbox);
    let outbox = open(dir.path()).unwrap();
    assert_eq!(outbox.append(HEARTBEAT, UnixMillis(0)).unwrap().issued_at, NOW);
    assert_eq!(outbox.append(HEARTBEAT, UnixMillis(NOW.0 + 1)).unwrap().issued_at, UnixMillis(NOW.0 + 1));
}

#[test]
fn a_credential_is_refused_before_anything_is_signed_and_its_value_is_not_repeated() {
    let dir = tempfile::tempdir().unwrap();
    let outbox = open(dir.path()).unwrap();
    let secret = "ghp_abcdefghijklmnopqrstuvwxyz0123456789";
    let body = format!(r#"{{"type":"note","args":{{"header":"Bearer {secret}"}}}}"#);
    let refused = outbox.append_all(&[HEARTBEAT, &body], NOW).unwrap_err();
    assert!(matches!(refused, OutboxError::Body { place: 1, of: 2, reason: BodyFault::Credential(_) }), "{refused}");
    assert!(refused.to_string().starts_with("body 2 cannot be signed: /args/header"), "{refused}");
    assert!(!refused.to_string().contains(secret), "{refused}");
    let refused = outbox.append(&body, NOW).unwrap_err();
    assert!(refused.to_string().starts_with("the body cannot be signed: "), "{refused}");
    // Of the list, nothing was signed.
    assert_eq!(
        (outbox.next_seq().unwrap(), std::fs::metadata(dir.path().join("receipts")).unwrap().len()),
        (SeqNo(0), 0)
    );
}

#[test]
fn bodies_that_are_no_receipt_are_refused_and_leave_no_trace() {
    let dir = tempfile::tempdir().unwrap();
    let outbox = open(dir.path()).unwrap();
    outbox.append(HEARTBEAT, NOW).unwrap();
    let long = format!(r#"{{"type":"x","y":"{}"}}"#, "a".repeat(66_000));
    let bodies = [
        "",
        "7",
        "{}",
        r#"{"type":7}"#,
        r#"{"type":"x","type":"y"}"#,
        "{\"type\":\n\"x\"}",
        r#" {"type":"x"}"#,
        r#"{"type":"x","n":9007199254740993}"#,
        r#"{"type":"rotate","vkey":"x"}"#,
        r#"{"type":"decision"}"#,
        &long,
    ];
    for body in bodies {
        let refused = outbox.append(body, NOW).unwrap_err();
        assert!(matches!(refused, OutboxError::Body { place: 0, .. }), "{body}: {refused}");
    }
    assert_eq!(outbox.next_seq().unwrap(), SeqNo(2));
    drop(outbox);
    assert_eq!(faults(dir.path()), 0);
}

#[test]
fn a_second_writer_is_refused_and_a_reader_is_not() {
    let dir = tempfile::tempdir().unwrap();
    let outbox = open(dir.path()).unwrap();
    outbox.append(HEARTBEAT, NOW).unwrap();
    let second = open(dir.path()).unwrap_err();
    assert!(matches!(second, OutboxError::Busy(_)) && second.to_string().contains("one writer at a time"), "{second}");
    assert!(matches!(Outbox::open_to_send(dir.path()), Err(OutboxError::Busy(_))));
    let status = OutboxView::open(dir.path()).unwrap().status();
    assert_eq!((status.receipts, status.queued, status.issuer.as_deref()), (2, 2, Some("gate.example/support-1")));
    drop(outbox);
    assert!(open(dir.path()).is_ok());
}

#[test]
fn another_key_does_not_continue_the_stream() {
    let dir = tempfile::tempdir().unwrap();
    open(dir.path()).unwrap().append(HEARTBEAT, NOW).unwrap();
    for (name, seed) in [("gate.example/support-1", 2), ("gate.example/other", 1)] {
        let other = SigningKey::from_seed(KeyName::new(name).unwrap(), KeyKind::Ed25519, [seed; 32]);
        assert!(matches!(
            Outbox::open(dir.path(), other, GateDescription::default()),
            Err(OutboxError::OtherKey { .. })
        ));
    }
    let witness = SigningKey::from_seed(KeyName::new("w").unwrap(), KeyKind::CosignatureV1, [1; 32]);
    assert!(matches!(Outbox::open(dir.path(), witness, GateDescription::default()), Err(OutboxError::WrongKeyKind)));
}

#[test]
fn without_a_key_nothing_is_signed_and_what_is_there_can_be_sent() {
    let dir = tempfile::tempdir().unwrap();
    assert!(matches!(Outbox::open_to_send(dir.path()), Err(OutboxError::Absent(_))));
    assert!(matches!(OutboxView::open(&dir.path().join("nowhere")), Err(OutboxError::Absent(_))));
    open(dir.path()).unwrap().append(HEARTBEAT, NOW).unwrap();
    let outbox = Outbox::open_to_send(dir.path()).unwrap();
    assert!(matches!(outbox.append(HEARTBEAT, NOW), Err(OutboxError::NoKey)));
    assert_eq!(outbox.unsent().count(), 2);
}

#[test]
fn a_file_cut_at_any_byte_loses_no_whole_receipt_and_goes_on_without_a_fork() {
    let dir = tempfile::tempdir().unwrap();
    let outbox = open(dir.path()).unwrap();
    for number in 0..3 {
        outbox.append(&format!(r#"{{"type":"heartbeat","number":{number}}}"#), NOW).unwrap();
    }
    let ids: Vec<_> = (0..4).map(|seq| outbox.receipt(SeqNo(seq)).unwrap().unwrap().id()).collect();
    drop(outbox);
    let receipts = dir.path().join("receipts");
    let whole = std::fs::read(&receipts).unwrap();
    // Every cut near a record's edge, and every seventh elsewhere.
    let ends = ends(&whole);
    let near = |length: usize| ends.iter().chain([&0]).any(|end| length.abs_diff(*end) < 5);
    for length in (0..whole.len()).filter(|length| near(*length) || length % 7 == 0) {
        for name in ["receipts", "dropped", "sent", "state"] {
            let _absent_is_fine = std::fs::remove_file(dir.path().join(name));
        }
        std::fs::write(&receipts, &whole[..length]).unwrap();
        let outbox = open(dir.path()).unwrap();
        let kept = outbox.next_seq().unwrap().0;
        assert_eq!(kept as usize, ends.iter().filter(|end| **end <= length).count(), "{length}");
        let torn = length > 0 && !ends.contains(&length);
        assert_eq!(outbox.status().unwrap().dropped, u64::from(torn), "{length}");
        for seq in 0..kept {
            assert_eq!(outbox.receipt(SeqNo(seq)).unwrap().unwrap().id(), ids[seq as usize]);
        }
        outbox.append(HEARTBEAT, NOW).unwrap();
        drop(outbox);
        assert_eq!(faults(dir.path()), 0, "{length}");
    }
}

#[test]
fn a_torn_tail_is_told_once_however_often_its_removal_is_interrupted() {
    let dir = tempfile::tempdir().unwrap();
    open(dir.path()).unwrap().append(HEARTBEAT, NOW).unwrap();
    let receipts = dir.path().join("receipts");
    let mut torn = std::fs::read(&receipts).unwrap();
    torn.extend_from_slice(b"\x01\x00counterfoil");
    for _ in 0..2 {
        // As if the process had died between the line in `dropped` and the cut.
        std::fs::write(&receipts, &torn).unwrap();
        assert_eq!(open(dir.path()).unwrap().status().unwrap().dropped, 1);
    }
}

#[test]
fn a_changed_byte_is_damage_and_is_not_repaired() {
    let dir = tempfile::tempdir().unwrap();
    let outbox = open(dir.path()).unwrap();
    outbox.append_all(&[HEARTBEAT; 3], NOW).unwrap();
    drop(outbox);
    let receipts = dir.path().join("receipts");
    let whole = std::fs::read(&receipts).unwrap();
    for place in 0..whole.len() {
        let mut damaged = whole.clone();
        damaged[place] ^= 1 << (place % 8);
        std::fs::write(&receipts, &damaged).unwrap();
        let error = open(dir.path()).err().unwrap_or_else(|| panic!("byte {place}"));
        assert!(matches!(error, OutboxError::Damaged { .. }), "{place}: {error}");
        assert!(std::fs::read(&receipts).unwrap() == damaged, "{place} was changed");
    }
}

#[test]
fn a_sent_receipt_that_is_gone_is_damage_and_its_seq_is_not_signed_again() {
    let dir = tempfile::tempdir().unwrap();
    let outbox = open(dir.path()).unwrap();
    outbox.append_all(&[HEARTBEAT; 3], NOW).unwrap();
    outbox.mark_sent(SeqNo(4)).unwrap();
    drop(outbox);
    let receipts = dir.path().join("receipts");
    let mut bytes = std::fs::read(&receipts).unwrap();
    bytes.truncate(ends(&bytes)[2] + 9);
    std::fs::write(&receipts, &bytes).unwrap();
    let error = open(dir.path()).unwrap_err();
    assert!(error.to_string().contains("4 receipts were sent and only 3 are here"), "{error}");
    assert_eq!(std::fs::read(&receipts).unwrap(), bytes);
}

#[test]
fn a_saved_state_spares_a_start_the_checks_and_is_believed_only_where_it_fits() {
    let (dir, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    for path in [dir.path(), other.path()] {
        let outbox = open(path).unwrap();
        outbox.append_all(&vec![HEARTBEAT; 2_000], UnixMillis(NOW.0 + u64::from(path == other.path()))).unwrap();
        drop(outbox);
        drop(open(path).unwrap());
        assert!(path.join("state").exists(), "a start that checked many receipts saves what it found");
    }
    let mut expected = 2_000;
    // Another stream's state, and garbage, are passed over.
    let own = std::fs::read(dir.path().join("state")).unwrap();
    for state in [std::fs::read(other.path().join("state")).unwrap(), b"{".to_vec(), own] {
        std::fs::write(dir.path().join("state"), state).unwrap();
        let outbox = open(dir.path()).unwrap();
        expected += 1;
        assert_eq!(outbox.append(HEARTBEAT, NOW).unwrap().seq.0, expected);
        drop(outbox);
        assert_eq!(faults(dir.path()), 0);
    }
    // It does not hide damage from `verify`.
    let receipts = dir.path().join("receipts");
    let mut bytes = std::fs::read(&receipts).unwrap();
    let place = ends(&bytes)[5] + 40;
    bytes[place] ^= 1;
    std::fs::write(&receipts, &bytes).unwrap();
    assert!(open(dir.path()).is_ok());
    assert!(faults(dir.path()) > 0);
}

#[test]
fn an_input_that_was_taken_in_part_goes_on_where_it_stopped() {
    let dir = tempfile::tempdir().unwrap();
    let lines: Vec<String> = (0..5).map(|number| format!(r#"{{"type":"heartbeat","number":{number}}}"#)).collect();
    {
        let outbox = open(dir.path()).unwrap();
        outbox.ensure_open_before(&lines[0], NOW).unwrap();
        outbox.begin_input("a.jsonl", 0).unwrap();
        outbox.append_all(&lines[..3], NOW).unwrap();
    }
    let outbox = open(dir.path()).unwrap();
    let input = outbox.submitted_input("a.jsonl").unwrap();
    let taken: Vec<_> = (0..5).map(|line| input.seq_of(line)).collect();
    assert_eq!(taken, [Some(SeqNo(1)), Some(SeqNo(2)), Some(SeqNo(3)), None, None]);
    assert!(outbox.says(SeqNo(3), &lines[2]).unwrap() && !outbox.says(SeqNo(3), &lines[1]).unwrap());
    // Another input in between, then the rest.
    outbox.begin_input("b.jsonl", 0).unwrap();
    outbox.append(HEARTBEAT, NOW).unwrap();
    outbox.begin_input("a.jsonl", 3).unwrap();
    outbox.append_all(&lines[3..], NOW).unwrap();
    let input = outbox.submitted_input("a.jsonl").unwrap();
    let taken: Vec<_> = (0..6).map(|line| input.seq_of(line).map(|seq| seq.0)).collect();
    assert_eq!(taken, [Some(1), Some(2), Some(3), Some(5), Some(6), None]);
    assert_eq!(outbox.submitted_input("c.jsonl").unwrap().seq_of(0), None);
}

#[test]
fn an_outbox_is_nobody_elses_business() {
    use std::os::unix::fs::PermissionsExt;
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("outbox");
    open(&dir).unwrap().append(HEARTBEAT, NOW).unwrap();
    for path in std::fs::read_dir(&dir).unwrap().map(|file| file.unwrap().path()).chain([dir.clone()]) {
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o077, 0, "{}", path.display());
    }
}

/// Where each record of the file ends.
fn ends(bytes: &[u8]) -> Vec<usize> {
    let mut ends = Vec::new();
    let mut place = 0;
    while let Some(length) = bytes.get(place..place + 2) {
        place += 2 + usize::from(u16::from_be_bytes([length[0], length[1]]));
        ends.push(place);
    }
    ends
}
