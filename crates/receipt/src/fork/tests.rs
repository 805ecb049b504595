#![allow(clippy::unwrap_used, clippy::panic)]

use super::*;
use crate::sample::{Held, NAME, START, decision_body, key, named_key, rotate_body, signed};
use proptest::prelude::*;
use serde_json::{Value, json};

const HEARTBEAT: &str = r#"{"type":"heartbeat"}"#;

fn vkey(number: u8) -> VerifierKey {
    key(number).verifier()
}

fn against(number: u8, one: &Receipt, other: &Receipt) -> Result<IssuerForkEvidence, EvidenceError> {
    IssuerForkEvidence::make(&vkey(number), one.bytes(), other.bytes())
}

/// The receipt with other signature lines, as any third party can write it.
fn with_lines(receipt: &Receipt, lines: &[&NoteSignature]) -> Receipt {
    let lines: String = lines.iter().map(|line| line.line() + "\n").collect();
    Receipt::parse(format!("{}\n{lines}", receipt.text()).as_bytes()).unwrap()
}

#[test]
fn two_receipts_at_one_seq_show_that_the_issuer_lied() {
    let held = Held::receipts(3);
    let (one, other) = (held.next(HEARTBEAT, &[&key(0)]), held.next(&decision_body(7), &[&key(0)]));
    let evidence = against(0, &one, &other).unwrap();
    let accusation = evidence.check().unwrap();
    assert_eq!(accusation.key, vkey(0));
    assert_eq!(accusation.sentence, format!("the holder of {NAME}'s key signed two different receipts with seq 3"));
    assert!(accusation.not_shown.starts_with("which of the two is true"));
}

#[test]
fn a_receipt_and_a_successor_that_denies_it_show_that_the_issuer_lied() {
    let held = Held::receipts(3);
    let denial = signed(3, held.receipts[1].id(), START + 3, HEARTBEAT, &[&key(0)]);
    for (one, other) in [(&held.receipts[2], &denial), (&denial, &held.receipts[2])] {
        let accusation = against(0, one, other).unwrap().check().unwrap();
        assert_eq!(
            accusation.sentence,
            format!("the holder of {NAME}'s key signed the receipt with seq 2 and a successor that denies it")
        );
    }
}

#[test]
fn an_honest_chain_shows_nothing() {
    let mut held = Held::receipts(3);
    held.add_next(&rotate_body(1), &[&key(0), &key(1)]);
    held.add_next(HEARTBEAT, &[&key(1)]);
    held.add_next(HEARTBEAT, &[&key(1)]);
    for one in &held.receipts {
        for other in &held.receipts {
            for number in [0, 1] {
                assert!(against(number, one, other).is_err(), "{one:?} {other:?}");
                let made = IssuerForkEvidence::make_across_rotation(
                    &vkey(number),
                    &vkey(1 - number),
                    one.bytes(),
                    other.bytes(),
                );
                assert!(made.is_err());
            }
        }
    }
    assert_eq!(against(0, &held.receipts[1], &held.receipts[1]), Err(EvidenceError::NotAFork));
    assert_eq!(against(0, &held.receipts[1], &held.receipts[2]), Err(EvidenceError::NotAFork));
    assert_eq!(against(1, &held.receipts[3], &held.receipts[5]), Err(EvidenceError::NotAFork), "a gap is no denial");
}

#[test]
fn only_what_the_named_key_signed_counts() {
    let held = Held::receipts(3);
    let (one, other) = (held.next(HEARTBEAT, &[&key(0)]), held.next(&decision_body(7), &[&key(1)]));
    assert_eq!(against(0, &one, &other), Err(EvidenceError::NotSigned { which: "second" }));
    assert_eq!(against(1, &one, &other), Err(EvidenceError::NotSigned { which: "first" }));
    assert_eq!(against(2, &one, &other), Err(EvidenceError::NotSigned { which: "first" }));
    let stranger = named_key("other.example", 0).verifier();
    let made = IssuerForkEvidence::make(&stranger, one.bytes(), other.bytes());
    assert_eq!(made, Err(EvidenceError::OtherIssuer { which: "first" }));
    let witness = note::SigningKey::from_seed(key(0).name().clone(), KeyKind::CosignatureV1, [0; 32]).verifier();
    let made = IssuerForkEvidence::make(&witness, one.bytes(), other.bytes());
    assert_eq!(made, Err(EvidenceError::OtherIssuer { which: "first" }));
    assert!(matches!(
        IssuerForkEvidence::make(&vkey(0), b"", one.bytes()),
        Err(EvidenceError::Malformed { which: "first", .. })
    ));
    assert!(matches!(
        IssuerForkEvidence::make(&vkey(0), one.bytes(), b""),
        Err(EvidenceError::Malformed { which: "second", .. })
    ));
}

#[test]
fn nobody_can_accuse_an_issuer_with_its_own_receipts_rearranged() {
    // The lines of a rotation are public. Stripped, swapped, doubled or garbled they change its id, so that
    // it seems to be another receipt at its seq, and its true successor seems to deny it.
    let mut held = Held::receipts(2);
    held.add_next(&rotate_body(1), &[&key(0), &key(1)]);
    held.add_next(HEARTBEAT, &[&key(1)]);
    let (before, rotation, after) = (&held.receipts[1], &held.receipts[2], &held.receipts[3]);
    let [old, new] = rotation.signatures() else { panic!() };
    let (mut garbled_old, mut garbled_new) = (old.clone(), new.clone());
    garbled_old.blob[9] ^= 1;
    garbled_new.blob[9] ^= 1;
    let mine = sign_line(rotation, &key(7));
    for lines in [
        vec![old],
        vec![new],
        vec![new, old],
        vec![old, old],
        vec![old, new, new],
        vec![&garbled_old, new],
        vec![old, &garbled_new],
        vec![&mine, new],
        vec![old, &mine],
        vec![old, new, &mine],
    ] {
        let tampered = with_lines(rotation, &lines);
        assert_ne!(tampered.id(), rotation.id());
        for number in [0, 1] {
            assert!(against(number, rotation, &tampered).is_err(), "{lines:?}");
            assert!(against(number, &tampered, after).is_err(), "{lines:?}");
            assert!(against(number, before, &tampered).is_err(), "{lines:?}");
            for named_before in [vkey(0), vkey(1)] {
                let made = IssuerForkEvidence::make_across_rotation(
                    &vkey(number),
                    &named_before,
                    tampered.bytes(),
                    after.bytes(),
                );
                assert!(made.is_err(), "{lines:?}");
            }
        }
    }
    // A decision has one line; with another one it is no receipt that anybody would hold.
    let doubled = with_lines(before, &[&before.signatures()[0], &mine]);
    assert!(against(0, &doubled, rotation).is_err());
    assert!(against(0, before, &doubled).is_err());
}

fn sign_line(receipt: &Receipt, key: &note::SigningKey) -> NoteSignature {
    let blob = key.sign(receipt.text().as_bytes()).to_vec();
    NoteSignature { name: key.name().clone(), key_id: key.id(), blob }
}

#[test]
fn a_fork_before_at_or_after_a_rotation_is_shown_by_the_key_that_signed_both() {
    let mut held = Held::receipts(2);
    let rotation = held.next(&rotate_body(1), &[&key(0), &key(1)]);
    // The old key: rotated to two keys; rotated and went on; went on and denied the rotation.
    let elsewhere = held.next(&rotate_body(2), &[&key(0), &key(2)]);
    assert!(against(0, &rotation, &elsewhere).is_ok());
    assert!(against(0, &rotation, &held.next(HEARTBEAT, &[&key(0)])).is_ok());
    assert!(against(0, &rotation, &signed(3, held.receipts[1].id(), START + 3, HEARTBEAT, &[&key(0)])).is_ok());
    // The new key, after the rotation.
    held.offer(rotation.bytes(), None).unwrap();
    held.add_next(HEARTBEAT, &[&key(1)]);
    let other = signed(3, rotation.id(), START + 3, &decision_body(9), &[&key(1)]);
    assert!(against(1, &held.receipts[3], &other).is_ok());
    assert_eq!(against(0, &held.receipts[3], &other), Err(EvidenceError::NotSigned { which: "first" }));
}

#[test]
fn one_text_signed_twice_with_other_bytes_is_a_fork_by_whoever_signed_it_again() {
    // Ed25519 leaves the signer free to use another nonce; nobody else can make a second good signature.
    // Both ids can be continued from, so both histories are the signer's doing.
    let entry = |name: &str| {
        let path =
            std::path::PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("vectors").join(name).with_extension("receipt");
        std::fs::read(path).unwrap()
    };
    let mut held = Held::nothing();
    for (name, again, signer) in [("decision", "decision-signed-again", 0), ("rotate", "rotate-signed-again", 1)] {
        if held.receipts.is_empty() {
            held.offer(&entry("open"), None).unwrap();
        }
        held.offer(&entry(name), None).unwrap();
        let refusal = held.judge(&entry(again), None).unwrap_err();
        let evidence = refusal.fork.unwrap().evidence(&entry(name)).unwrap();
        assert_eq!(evidence.check().unwrap().key, vkey(signer), "{again}");
    }
}

#[test]
fn a_denied_rotation_needs_the_key_before_it_and_says_so() {
    let mut held = Held::receipts(2);
    held.add_next(&rotate_body(1), &[&key(0), &key(1)]);
    let denial = signed(3, held.receipts[1].id(), START + 3, HEARTBEAT, &[&key(1)]);
    let rotation = held.receipts[2].clone();
    assert_eq!(against(1, &rotation, &denial), Err(EvidenceError::OtherSigner));
    // The log knows the key before, and the evidence it keeps names it.
    let pair = held.judge(denial.bytes(), None).unwrap_err().fork.unwrap();
    let evidence = pair.evidence(rotation.bytes()).unwrap();
    assert_eq!(evidence.issuer_before(), Some(&vkey(0)));
    assert_eq!(evidence.check(), Err(EvidenceError::UnknownKeyBefore { key: Box::new(vkey(0)) }));
    assert_eq!(evidence.check_knowing(&[vkey(5), vkey(0)]).unwrap().key, vkey(1));
    let json = serde_json::to_value(&evidence).unwrap();
    assert_eq!(json["issuer_before"], json!(vkey(0)));
    assert_eq!(serde_json::from_value::<IssuerForkEvidence>(json).unwrap(), evidence);
    let wrong = IssuerForkEvidence::make_across_rotation(&vkey(1), &vkey(5), rotation.bytes(), denial.bytes());
    assert_eq!(wrong, Err(EvidenceError::OtherSigner));
}

#[test]
fn a_rotation_signed_anew_by_a_strangers_key_convinces_nobody_who_knows_the_issuers() {
    let mut held = Held::receipts(2);
    held.add_next(&rotate_body(1), &[&key(0), &key(1)]);
    held.add_next(HEARTBEAT, &[&key(1)]);
    let (rotation, after) = (&held.receipts[2], &held.receipts[3]);
    let forged = with_lines(rotation, &[&sign_line(rotation, &key(7)), &rotation.signatures()[1]]);
    let evidence = IssuerForkEvidence::make_across_rotation(&vkey(1), &vkey(7), forged.bytes(), after.bytes()).unwrap();
    for known in [vec![], vec![vkey(0)], vec![vkey(0), vkey(1)]] {
        assert_eq!(evidence.check_knowing(&known), Err(EvidenceError::UnknownKeyBefore { key: Box::new(vkey(7)) }));
    }
}

#[test]
fn a_rotation_signed_anew_by_another_issuers_key_convinces_nobody_who_knows_that_issuer_too() {
    let mut held = Held::receipts(2);
    held.add_next(&rotate_body(1), &[&key(0), &key(1)]);
    held.add_next(HEARTBEAT, &[&key(1)]);
    let (rotation, after) = (&held.receipts[2], &held.receipts[3]);
    let other = named_key("other.example", 7);
    let forged = with_lines(rotation, &[&sign_line(rotation, &other), &rotation.signatures()[1]]);
    let made = IssuerForkEvidence::make_across_rotation(&vkey(1), &other.verifier(), forged.bytes(), after.bytes());
    assert_eq!(made, Err(EvidenceError::OtherSigner));
}

#[test]
fn evidence_is_one_json_document_that_stands_by_itself() {
    let held = Held::receipts(3);
    let (one, other) = (held.next(HEARTBEAT, &[&key(0)]), held.next(&decision_body(7), &[&key(0)]));
    let evidence = against(0, &one, &other).unwrap();
    let json = serde_json::to_string(&evidence).unwrap();
    let expected =
        json!({"kind": "issuer-fork", "issuer": vkey(0), "first": one.to_string(), "second": other.to_string()});
    assert_eq!(json, expected.to_string());
    let read: IssuerForkEvidence = serde_json::from_str(&json).unwrap();
    assert_eq!(read, evidence);
    assert_eq!(read.issuer(), &vkey(0));
    assert!(read.check().is_ok());
    for (name, value) in [
        ("kind", json!("log-fork")),
        ("kind", Value::Null),
        ("issuer", json!("x")),
        ("more", json!(1)),
        ("first", json!(1)),
    ] {
        let mut changed = expected.clone();
        changed[name] = value;
        assert!(serde_json::from_value::<IssuerForkEvidence>(changed).is_err(), "{name}");
    }
    let mut swapped = expected.clone();
    swapped["second"] = expected["first"].clone();
    assert_eq!(serde_json::from_value::<IssuerForkEvidence>(swapped).unwrap().check(), Err(EvidenceError::NotAFork));
}

proptest! {
    #[test]
    fn a_changed_copy_of_a_receipt_accuses_nobody(place in any::<prop::sample::Index>(), byte in any::<u8>(), second in any::<bool>()) {
        let held = Held::receipts(3);
        let honest = held.next(HEARTBEAT, &[&key(0)]);
        let mut bytes = honest.to_string().into_bytes();
        let place = place.index(bytes.len());
        bytes[place] = byte;
        let (one, other) = if second { (honest.bytes(), &bytes[..]) } else { (&bytes[..], honest.bytes()) };
        prop_assert!(IssuerForkEvidence::make(&vkey(0), one, other).is_err(), "a changed copy is no second receipt");
    }
}
