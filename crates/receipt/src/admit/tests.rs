#![allow(clippy::unwrap_used, clippy::panic)]

use super::*;
use crate::sample::{Held, NAME, START, decision_body, key, name, named_key, registered, rotate_body, signed};
use note::{KeyName, KeyTables, SigningKey, Strict, sign_note};
use serde_json::json;

const HEARTBEAT: &str = r#"{"type":"heartbeat"}"#;
const CLOSE: &str = r#"{"type":"close"}"#;

fn code(held: &Held, receipt: &Receipt) -> RefusalCode {
    held.judge(receipt.bytes(), None).unwrap_err().code
}

/// The entry with its signature lines replaced.
fn with_lines(receipt: &Receipt, lines: &[String]) -> Vec<u8> {
    format!("{}\n{}\n", receipt.text(), lines.join("\n")).into_bytes()
}

fn lines_of(receipt: &Receipt) -> Vec<String> {
    receipt.signatures().iter().map(NoteSignature::line).collect()
}

#[test]
fn a_whole_life_is_admitted_receipt_by_receipt() {
    let mut held = Held::receipts(3);
    held.add_next(HEARTBEAT, &[&key(0)]);
    held.add_next(&rotate_body(1), &[&key(0), &key(1)]);
    held.add_next(r#"{"type":"x-later-version","any":1}"#, &[&key(1)]);
    held.add_next(&rotate_body(2), &[&key(1), &key(2)]);
    held.add_next(CLOSE, &[&key(2)]);
    let state = &held.state;
    assert_eq!(state.next_seq(), SeqNo(8));
    assert_eq!(state.head(), held.receipts[7].id());
    assert_eq!(state.last_issued_at(), UnixMillis(START + 7));
    assert!(state.is_closed());
    assert_eq!(state.keys().iter().count(), 3);
}

#[test]
fn codes_are_spelled_as_the_protocol_spells_them() {
    let codes = [
        (RefusalCode::Malformed, "malformed"),
        (RefusalCode::UnknownIssuer, "unknown-issuer"),
        (RefusalCode::BadSignature, "bad-signature"),
        (RefusalCode::Duplicate, "duplicate"),
        (RefusalCode::Fork, "fork"),
        (RefusalCode::Gap, "gap"),
        (RefusalCode::TimeReversed, "time-reversed"),
        (RefusalCode::FutureDated, "future-dated"),
        (RefusalCode::Closed, "closed"),
        (RefusalCode::BadOpen, "bad-open"),
        (RefusalCode::BadRotation, "bad-rotation"),
    ];
    for (code, spelling) in codes {
        assert_eq!(code.as_str(), spelling);
        assert_eq!(RefusalCode::parse(spelling), Some(code));
    }
    assert_eq!(codes.map(|(code, _)| code), RefusalCode::ALL);
    assert!(codes.is_sorted(), "declared in the order of the table");
    assert_eq!(RefusalCode::parse("Fork"), None);
}

#[test]
fn malformed_entries_are_refused_before_anything_else() {
    let refusal = admit(None, b"junk", &|_| None, None).unwrap_err();
    assert_eq!(refusal.code, RefusalCode::Malformed);
    assert_eq!(Held::nothing().judge(b"", None).unwrap_err().code, RefusalCode::Malformed);
    // A first receipt that names a previous one is malformed, not a fork: there is no second receipt to show.
    let body = json!({"type": "open", "vkey": key(0).verifier()}).to_string();
    let text =
        crate::ReceiptText { issuer: name(), seq: SeqNo(0), prev: ReceiptId::of(b"x"), issued_at: UnixMillis(0), body };
    let entry = sign_note(&text.to_string(), &[&key(0)]).unwrap();
    assert_eq!(Held::nothing().judge(&entry, None).unwrap_err().code, RefusalCode::Malformed);
}

#[test]
fn an_issuer_that_is_not_registered_is_unknown_whatever_it_signs() {
    let open = Held::receipts(1).receipts[0].clone();
    let refusal = admit(None, open.bytes(), &|_| None, None).unwrap_err();
    assert_eq!(refusal.code, RefusalCode::UnknownIssuer);
    assert!(refusal.detail.contains(NAME));
    let other = IssuerState::registered(named_key("other.example", 0).verifier());
    assert_eq!(check_signature(&open, &other, &Strict).unwrap_err().code, RefusalCode::UnknownIssuer);
    let checked = check_signature(&open, &registered(), &Strict).unwrap();
    assert_eq!(place(&other, checked, &|_| None, None).unwrap_err().code, RefusalCode::UnknownIssuer);
}

#[test]
fn only_one_good_line_of_the_key_in_force_is_a_signature() {
    let held = Held::receipts(2);
    let next = held.next(HEARTBEAT, &[&key(0)]);
    let good = lines_of(&next).remove(0);
    let of_another_key = lines_of(&held.next(HEARTBEAT, &[&key(1)])).remove(0);
    let of_another_text = lines_of(&held.next(CLOSE, &[&key(0)])).remove(0);
    let of_a_stranger =
        NoteSignature { name: KeyName::new("stranger.example").unwrap(), ..next.signatures()[0].clone() }.line();
    let mut short = next.signatures()[0].clone();
    short.blob.pop();
    let mut long = next.signatures()[0].clone();
    long.blob.push(0);
    for lines in [
        vec![of_another_key.clone()],
        vec![of_another_text],
        vec![of_a_stranger.clone()],
        vec![short.line()],
        vec![long.line()],
        vec![good.clone(), good.clone()],
        vec![good.clone(), of_another_key.clone()],
        vec![of_another_key, good.clone()],
        vec![good.clone(), of_a_stranger.clone()],
        vec![of_a_stranger, good.clone()],
    ] {
        let refusal = held.judge(&with_lines(&next, &lines), None).unwrap_err();
        assert_eq!(refusal.code, RefusalCode::BadSignature, "{lines:?}");
    }
    assert!(held.judge(&with_lines(&next, &[good]), None).is_ok());
}

#[test]
fn a_key_registered_for_cosignatures_signs_no_receipts() {
    let seed = std::array::from_fn(|place| place as u8);
    let witness = SigningKey::from_seed(name().0, KeyKind::CosignatureV1, seed);
    let state = IssuerState::registered(witness.verifier());
    let mut open = Held::receipts(1).receipts[0].signatures()[0].clone();
    open.key_id = witness.verifier().id();
    let entry = with_lines(&Held::receipts(1).receipts[0], &[open.line()]);
    assert_eq!(admit(Some(&state), &entry, &|_| None, None).unwrap_err().code, RefusalCode::BadSignature);
}

#[test]
fn the_key_in_force_at_the_seq_decides_and_no_other() {
    let mut held = Held::receipts(3);
    held.add_next(&rotate_body(1), &[&key(0), &key(1)]);
    assert_eq!(code(&held, &held.next(HEARTBEAT, &[&key(0)])), RefusalCode::BadSignature);
    held.add_next(HEARTBEAT, &[&key(1)]);
    // What was held before the rotation is still a duplicate, and still forked by the old key only.
    assert_eq!(code(&held, &held.receipts[2].clone()), RefusalCode::Duplicate);
    let (prev, at) = (held.receipts[1].id(), START + 2);
    assert_eq!(code(&held, &signed(2, prev, at, HEARTBEAT, &[&key(0)])), RefusalCode::Fork);
    assert_eq!(code(&held, &signed(2, prev, at, HEARTBEAT, &[&key(1)])), RefusalCode::BadSignature);
}

#[test]
fn the_same_bytes_again_are_a_duplicate_at_any_held_seq() {
    let mut held = Held::receipts(4);
    held.add_next(CLOSE, &[&key(0)]);
    for receipt in &held.receipts {
        let refusal = held.judge(receipt.bytes(), Some(UnixMillis(0))).unwrap_err();
        assert_eq!(refusal.code, RefusalCode::Duplicate, "even when closed, and whatever the clock says");
        assert!(refusal.fork.is_none());
    }
}

#[test]
fn other_bytes_at_a_held_seq_are_a_fork_with_both_receipts() {
    let held = Held::receipts(4);
    let other = signed(2, held.receipts[1].id(), START + 2, HEARTBEAT, &[&key(0)]);
    let refusal = held.judge(other.bytes(), None).unwrap_err();
    assert_eq!(refusal.code, RefusalCode::Fork);
    assert_eq!((refusal.expected_seq, refusal.expected_prev), (Some(SeqNo(4)), Some(held.state.head())));
    let pair = refusal.fork.unwrap();
    assert_eq!((pair.held_seq, pair.held_id, &pair.offered), (SeqNo(2), held.receipts[2].id(), &other));
    let evidence = pair.evidence(held.receipts[2].bytes()).unwrap();
    assert_eq!(evidence.check().unwrap().key, key(0).verifier());
}

#[test]
fn a_next_receipt_that_denies_the_head_is_a_fork_of_head_and_itself() {
    let held = Held::receipts(4);
    for prev in [held.receipts[2].id(), ReceiptId::NONE, ReceiptId::of(b"elsewhere")] {
        let denial = signed(4, prev, START + 4, HEARTBEAT, &[&key(0)]);
        let refusal = held.judge(denial.bytes(), None).unwrap_err();
        assert_eq!(refusal.code, RefusalCode::Fork);
        let pair = refusal.fork.unwrap();
        assert_eq!((pair.held_seq, pair.held_id), (SeqNo(3), held.state.head()));
        assert!(pair.evidence(held.receipts[3].bytes()).is_ok());
        assert_eq!(pair.evidence(held.receipts[2].bytes()), Err(crate::fork::EvidenceError::NotHeld));
    }
}

#[test]
fn a_fork_that_the_index_cannot_name_is_refused_without_evidence() {
    let held = Held::receipts(4);
    let entry = held.receipts[2].bytes();
    let refusal = admit(Some(&held.state), entry, &|_| None, None).unwrap_err();
    assert_eq!(refusal.code, RefusalCode::Fork, "not acknowledged as held either");
    assert!(refusal.fork.is_none(), "an index that has lost an entry accuses nobody");
}

#[test]
fn a_bad_signature_makes_no_fork() {
    let held = Held::receipts(4);
    let forged = signed(2, held.receipts[1].id(), START + 2, HEARTBEAT, &[&key(7)]);
    assert_eq!(code(&held, &forged), RefusalCode::BadSignature);
    let denial = signed(4, ReceiptId::NONE, START + 4, HEARTBEAT, &[&key(7)]);
    assert_eq!(code(&held, &denial), RefusalCode::BadSignature);
}

#[test]
fn nobody_can_turn_a_held_rotation_into_a_fork() {
    // Both lines stand in the log for all to read, and only the first is checked under the key in force.
    // Whoever strips or garbles the second one must not make an innocent issuer a forker.
    let mut held = Held::receipts(2);
    held.add_next(&rotate_body(1), &[&key(0), &key(1)]);
    held.add_next(HEARTBEAT, &[&key(1)]);
    let rotation = held.receipts[2].clone();
    let lines = lines_of(&rotation);
    let mut garbled = rotation.signatures()[1].clone();
    garbled.blob[9] ^= 1;
    for tampered in
        [vec![lines[0].clone()], vec![lines[0].clone(), garbled.line()], vec![lines[0].clone(), lines[0].clone()]]
    {
        let refusal = held.judge(&with_lines(&rotation, &tampered), None).unwrap_err();
        assert!(!matches!(refusal.code, RefusalCode::Fork | RefusalCode::Duplicate), "{}", refusal.code);
        assert!(refusal.fork.is_none());
    }
    assert_eq!(
        held.judge(&with_lines(&rotation, &[lines[1].clone(), lines[0].clone()]), None).unwrap_err().code,
        RefusalCode::BadSignature
    );
    assert_eq!(code(&held, &rotation), RefusalCode::Duplicate);
}

#[test]
fn a_seq_beyond_the_next_one_is_a_gap_and_says_what_to_send() {
    let held = Held::receipts(4);
    for seq in [5, 6, u64::MAX] {
        let refusal =
            held.judge(signed(seq, held.state.head(), START + 9, HEARTBEAT, &[&key(0)]).bytes(), None).unwrap_err();
        assert_eq!(refusal.code, RefusalCode::Gap);
        assert_eq!((refusal.expected_seq, refusal.expected_prev), (Some(SeqNo(4)), Some(held.state.head())));
        assert_eq!(refusal.detail, format!("seq {seq} leaves a gap: seq 4 must come first"));
    }
}

#[test]
fn time_stands_still_but_never_goes_back() {
    let mut held = Held::receipts(3);
    let (seq, head, last) = (3, held.state.head(), START + 2);
    assert_eq!(code(&held, &signed(seq, head, last - 1, HEARTBEAT, &[&key(0)])), RefusalCode::TimeReversed);
    held.offer(signed(seq, head, last, HEARTBEAT, &[&key(0)]).bytes(), None).unwrap();
}

#[test]
fn five_minutes_ahead_are_allowed_and_not_a_millisecond_more() {
    let held = Held::receipts(3);
    let next = held.next(HEARTBEAT, &[&key(0)]);
    let issued_at = START + 3;
    let judged_at = |now: u64| held.judge(next.bytes(), Some(UnixMillis(now))).map_err(|refusal| refusal.code);
    assert!(judged_at(issued_at - 300_000).is_ok());
    assert_eq!(judged_at(issued_at - 300_001).unwrap_err(), RefusalCode::FutureDated);
    assert!(judged_at(u64::MAX).is_ok(), "a receipt may be as old as it likes");
    let latest = signed(3, held.state.head(), u64::MAX, HEARTBEAT, &[&key(0)]);
    assert!(held.judge(latest.bytes(), None).is_ok(), "without a clock no time is the future");
    assert_eq!(held.judge(latest.bytes(), Some(UnixMillis(START))).unwrap_err().code, RefusalCode::FutureDated);
}

#[test]
fn nothing_follows_a_close() {
    let mut held = Held::receipts(3);
    held.add_next(CLOSE, &[&key(0)]);
    for body in [HEARTBEAT, CLOSE, &decision_body(9), r#"{"type":"open"}"#] {
        assert_eq!(code(&held, &held.next(body, &[&key(0)])), RefusalCode::Closed);
    }
    assert_eq!(code(&held, &held.next(&rotate_body(1), &[&key(0), &key(1)])), RefusalCode::Closed);
}

#[test]
fn the_first_receipt_and_no_other_is_an_open_with_the_registered_key() {
    let open = |vkey: serde_json::Value| json!({"type": "open", "vkey": vkey}).to_string();
    let right = open(json!(key(0).verifier()));
    let nothing = Held::nothing();
    for body in [
        HEARTBEAT.to_owned(),
        CLOSE.to_owned(),
        decision_body(0),
        r#"{"type":"open"}"#.to_owned(),
        open(json!(key(1).verifier())),
        open(json!(named_key("other.example", 0).verifier())),
        open(json!("no key")),
        open(json!({"#": format!("sha256:{}", "0".repeat(64))})),
    ] {
        assert_eq!(code(&nothing, &nothing.next(&body, &[&key(0)])), RefusalCode::BadOpen, "{body}");
    }
    assert_eq!(code(&nothing, &nothing.next(&rotate_body(1), &[&key(0), &key(1)])), RefusalCode::BadOpen);
    let held = Held::receipts(2);
    assert_eq!(code(&held, &held.next(&right, &[&key(0)])), RefusalCode::BadOpen);
    assert!(nothing.judge(nothing.next(&right, &[&key(0)]).bytes(), None).is_ok());
}

#[test]
fn a_rotation_hands_over_to_a_new_sound_key_that_signed_it_too() {
    let mut held = Held::receipts(2);
    held.add_next(&rotate_body(1), &[&key(0), &key(1)]);
    let rotate = |vkey: serde_json::Value| json!({"type": "rotate", "vkey": vkey}).to_string();
    let refused = |body: &str, keys: &[&SigningKey]| {
        assert_eq!(code(&held, &held.next(body, keys)), RefusalCode::BadRotation, "{body}");
    };
    refused(&rotate_body(2), &[&key(1)]);
    refused(&rotate_body(2), &[&key(1), &key(3)]);
    refused(&rotate_body(2), &[&key(1), &key(1)]);
    refused(&rotate_body(1), &[&key(1), &key(1)]);
    refused(&rotate_body(0), &[&key(1), &key(0)]);
    refused(r#"{"type":"rotate"}"#, &[&key(1), &key(2)]);
    refused(&rotate(json!("no key")), &[&key(1), &key(2)]);
    refused(&rotate(json!({"#": format!("sha256:{}", "0".repeat(64))})), &[&key(1), &key(2)]);
    // The identity point: a vkey like any other by its letters, under which anybody can sign anything.
    let mut weak = [0; 33];
    (weak[0], weak[1]) = (1, 1);
    let point: [u8; 32] = weak[1..].try_into().unwrap();
    let id = note::KeyId::of(&name().0, KeyKind::Ed25519, &point);
    refused(&rotate(json!(format!("{NAME}+{id}+{}", merkle::encode_base64(&weak)))), &[&key(1), &key(2)]);
    // Another issuer's key, and this issuer's own for cosignatures.
    let other = named_key("other.example", 2);
    refused(&rotate(json!(other.verifier())), &[&key(1), &key(2)]);
    let witness = SigningKey::from_seed(name().0, KeyKind::CosignatureV1, [9; 32]);
    refused(&rotate(json!(witness.verifier())), &[&key(1), &key(2)]);
    // The right two in the wrong order, one too many, and a foreign one: those are signatures gone wrong.
    assert_eq!(
        code(&held, &held.next(&rotate(json!(other.verifier())), &[&key(1), &other])),
        RefusalCode::BadSignature
    );
    assert_eq!(code(&held, &held.next(&rotate_body(2), &[&key(2), &key(1)])), RefusalCode::BadSignature);
    assert_eq!(code(&held, &held.next(&rotate_body(2), &[&key(1), &key(2), &key(3)])), RefusalCode::BadSignature);
    assert_eq!(
        code(&held, &held.next(&rotate_body(2), &[&key(1), &named_key("other.example", 2)])),
        RefusalCode::BadSignature
    );
    assert!(held.judge(held.next(&rotate_body(2), &[&key(1), &key(2)]).bytes(), None).is_ok());
}

#[test]
fn of_several_broken_rules_the_first_is_the_answer() {
    let mut held = Held::receipts(3);
    held.add_next(CLOSE, &[&key(0)]);
    let head = held.state.head();
    let now = Some(UnixMillis(START));
    let late = START + 10_000_000;
    let judge = |receipt: Receipt| held.judge(receipt.bytes(), now).unwrap_err().code;
    let open = json!({"type": "open", "vkey": "x"}).to_string();
    // Each row breaks everything from its own code on, as far as that is possible at once.
    assert_eq!(judge(signed(9, ReceiptId::NONE, 0, &rotate_body(0), &[&key(5), &key(0)])), RefusalCode::BadSignature);
    assert_eq!(judge(signed(4, ReceiptId::NONE, 0, &rotate_body(0), &[&key(0)])), RefusalCode::Fork);
    assert_eq!(judge(signed(9, ReceiptId::NONE, 0, &rotate_body(0), &[&key(0)])), RefusalCode::Gap);
    assert_eq!(judge(signed(4, head, 0, &rotate_body(0), &[&key(0)])), RefusalCode::TimeReversed);
    assert_eq!(judge(signed(4, head, late, &rotate_body(0), &[&key(0)])), RefusalCode::FutureDated);
    assert_eq!(judge(signed(4, head, START + 4, &rotate_body(0), &[&key(0)])), RefusalCode::Closed);
    assert_eq!(judge(signed(4, head, START + 4, &open, &[&key(0)])), RefusalCode::Closed);
    let nothing = Held::nothing();
    let refusal = nothing.judge(signed(0, ReceiptId::NONE, 0, &rotate_body(0), &[&key(0)]).bytes(), now).unwrap_err();
    assert_eq!(refusal.code, RefusalCode::BadOpen, "before bad-rotation");
}

#[test]
fn a_refusal_changes_nothing_and_a_batch_that_fails_leaves_no_trace() {
    let held = Held::receipts(3);
    let before = held.state.clone();
    let next = held.next(HEARTBEAT, &[&key(0)]);
    let admitted = held.judge(next.bytes(), None).unwrap();
    assert_eq!(held.state, before, "a new state is returned, the old one is not touched");
    assert_eq!(admitted.state.next_seq(), SeqNo(4));
    assert!(held.judge(next.bytes(), None).is_ok(), "so it can be admitted again after a failed commit");
}

#[test]
fn signatures_may_be_checked_before_the_receipts_before_them_are_placed() {
    // A batch with a rotation in it, all checked against the state before the batch.
    let mut ahead = Held::receipts(2);
    let before = ahead.clone();
    ahead.add_next(&rotate_body(1), &[&key(0), &key(1)]);
    ahead.add_next(HEARTBEAT, &[&key(1)]);
    ahead.add_next(&rotate_body(2), &[&key(1), &key(2)]);
    ahead.add_next(CLOSE, &[&key(2)]);
    let batch = ahead.receipts[2..].iter();
    let checked: Vec<Checked> =
        batch.rev().map(|receipt| check_signature(receipt, &before.state, &Strict).unwrap()).collect();
    let mut state = before.state;
    for checked in checked.into_iter().rev() {
        assert_eq!(checked.receipt().seq(), state.next_seq());
        state = place(&state, checked, &|_| None, None).unwrap().state;
    }
    assert_eq!(state, ahead.state);
}

#[test]
fn a_signature_that_was_good_under_an_old_key_does_not_count_under_a_new_one() {
    let mut held = Held::receipts(2);
    let by_the_old_key = signed(3, ReceiptId::NONE, START + 3, HEARTBEAT, &[&key(0)]);
    let checked = check_signature(&by_the_old_key, &held.state, &Strict).unwrap();
    held.add_next(&rotate_body(1), &[&key(0), &key(1)]);
    let refusal = place(&held.state, checked, &|seq| held.id_at(seq), None).unwrap_err();
    assert_eq!(refusal.code, RefusalCode::BadSignature);
}

#[test]
fn an_issuers_own_key_is_prepared_and_never_one_that_a_rotate_only_names() {
    let held = Held::receipts(2);
    let tables = KeyTables::new(2);
    let rotate = held.next(&rotate_body(1), &[&key(0), &key(1)]);
    let forged = held.next(&rotate_body(1), &[&key(1), &key(1)]);
    let codes = || {
        [&rotate, &forged].map(|receipt| {
            let checked = check_signature(receipt, &held.state, &tables).unwrap();
            place(&held.state, checked, &|_| None, None).err().map(|refusal| refusal.code)
        })
    };
    for _ in 0..40 {
        assert_eq!(codes(), [None, Some(RefusalCode::BadSignature)]);
    }
    assert!(tables.is_prepared(&key(0).verifier()) && tables.checks_by_table() > 0);
    assert!(!tables.is_prepared(&key(1).verifier()));
}

#[test]
fn held_receipts_are_asked_for_only_below_the_next_seq_and_only_for_signed_entries() {
    let held = Held::receipts(3);
    let asked = std::cell::RefCell::new(Vec::new());
    let judge = |receipt: &Receipt| {
        let lookup = |seq: SeqNo| {
            asked.borrow_mut().push(seq.0);
            held.id_at(seq)
        };
        let _ = admit(Some(&held.state), receipt.bytes(), &lookup, None);
    };
    judge(&held.next(HEARTBEAT, &[&key(0)]));
    judge(&signed(9, ReceiptId::NONE, START, HEARTBEAT, &[&key(0)]));
    judge(&signed(1, ReceiptId::NONE, START, HEARTBEAT, &[&key(5)]));
    assert!(asked.borrow().is_empty());
    judge(&held.receipts[1]);
    assert_eq!(*asked.borrow(), [1]);
}

#[test]
fn the_last_number_there_is_closes_a_stream() {
    let state = json!({
        "keys": [[0, key(0).verifier()]], "next_seq": u64::MAX, "head": ReceiptId::of(b"x"), "last_issued_at": 0, "closed": false,
    });
    let state: IssuerState = serde_json::from_value(state).unwrap();
    let last = signed(u64::MAX, state.head(), START, HEARTBEAT, &[&key(0)]);
    assert_eq!(admit(Some(&state), last.bytes(), &|_| None, None).unwrap_err().code, RefusalCode::Closed);
}
