#![allow(clippy::unwrap_used, clippy::panic)]

use super::*;
use crate::body::Shown as _;
use crate::ijson::Json;
use crate::sample::{NAME, START, decision_body, key, name, named_key, signed};
use merkle::encode_base64;
use proptest::prelude::*;
use serde_json::{Map, Value, json};

/// Made with other software (Ed25519 and SHA-256 of a general library), from the seeds 00…1f and 20…3f.
const OPEN: &str = include_str!("../../vectors/open.receipt");
const DECISION: &str = include_str!("../../vectors/decision.receipt");
const ROTATE: &str = include_str!("../../vectors/rotate.receipt");

const OPEN_ID: &str = "b8239677412971dac5732c803ac383a64831fb783ad9086a8e88ab3766a943f5";
const DECISION_ID: &str = "583f3d5a0f38aa2f73919de1577acb67d88f1f4b53623414d1242404f45c374e";
const ROTATE_ID: &str = "c6ee34babd60f0f9ad1bd4d6dadace479d160f0ce5ef451c46e1ee5b2a4eac02";

/// An entry with one part of the text replaced; its signature is then no longer good, but it parses or not
/// by its shape alone.
fn altered(from: &str, to: &str) -> Result<Receipt, Malformed> {
    assert_eq!(DECISION.matches(from).count(), 1, "{from:?} must stand once");
    Receipt::parse(DECISION.replace(from, to).as_bytes())
}

fn with_body(body: &str) -> Result<Receipt, Malformed> {
    let text = ReceiptText {
        issuer: name(),
        seq: SeqNo(1),
        prev: ReceiptId::NONE,
        issued_at: UnixMillis(1),
        body: body.to_owned(),
    };
    let entry = sign_note(&text.to_string(), &[&key(0)])?;
    Receipt::parse(&entry)
}

#[test]
fn a_receipt_made_by_other_software_reads_as_it_was_written() {
    let receipt = Receipt::parse(DECISION.as_bytes()).unwrap();
    assert_eq!(receipt.issuer().as_str(), NAME);
    assert_eq!(receipt.seq(), SeqNo(1));
    assert_eq!(receipt.prev().to_string(), OPEN_ID);
    assert_eq!(receipt.issued_at(), UnixMillis(1_790_000_000_123));
    assert_eq!(receipt.id().to_string(), DECISION_ID);
    assert_eq!(receipt.bytes(), DECISION.as_bytes());
    assert_eq!(receipt.to_string(), DECISION);
    assert!(receipt.body_text().starts_with(r#"{"type":"decision","request_id":"r-7f3a""#));
    assert!(receipt.body_text().ends_with(r#""executes":"none"}"#));
    let why_of = |members: &Members<'_>| members.get("why").and_then(Json::as_str).map(str::to_owned);
    let (_, why) = Receipt::parse_inspecting(DECISION.as_bytes(), why_of).unwrap();
    assert_eq!(why.unwrap(), "prüfen ✓");
    let Body::Decision(decision) = receipt.body() else { panic!("{:?}", receipt.body()) };
    assert_eq!(decision.request_id.shown().unwrap(), "r-7f3a");
    assert!(decision.operation.is_committed());
    assert_eq!(receipt.signatures().len(), 1);
    assert_eq!(Receipt::parse(ROTATE.as_bytes()).unwrap().signatures().len(), 2);
}

#[test]
fn our_receipts_are_byte_for_byte_those_of_other_software() {
    let (first, second) = (key(0), key(1));
    let open = json!({"type": "open", "vkey": first.verifier(), "heartbeat_ms": 60000}).to_string();
    let open =
        ReceiptText { issuer: name(), seq: SeqNo(0), prev: ReceiptId::NONE, issued_at: UnixMillis(START), body: open };
    let open = open.sign(&first).unwrap();
    assert_eq!((open.to_string().as_str(), open.id().to_string().as_str()), (OPEN, OPEN_ID));

    let body = Receipt::parse(DECISION.as_bytes()).unwrap().body_text().to_owned();
    let decision =
        ReceiptText { issuer: name(), seq: SeqNo(1), prev: open.id(), issued_at: UnixMillis(START + 123), body };
    let decision = decision.sign(&first).unwrap();
    assert_eq!((decision.to_string().as_str(), decision.id().to_string().as_str()), (DECISION, DECISION_ID));

    let body = json!({"type": "rotate", "vkey": second.verifier()}).to_string();
    let rotate =
        ReceiptText { issuer: name(), seq: SeqNo(2), prev: decision.id(), issued_at: UnixMillis(START + 124), body };
    let rotate = rotate.sign_rotation(&first, &second).unwrap();
    assert_eq!((rotate.to_string().as_str(), rotate.id().to_string().as_str()), (ROTATE, ROTATE_ID));
}

#[test]
fn numbers_and_hashes_have_one_spelling() {
    for (from, to) in [
        ("\n1\n", "\n01\n"),
        ("\n1\n", "\n+1\n"),
        ("\n1\n", "\n-1\n"),
        ("\n1\n", "\n 1\n"),
        ("\n1\n", "\n18446744073709551616\n"),
    ] {
        assert_eq!(altered(from, to), Err(Malformed::Seq), "{to:?}");
    }
    for time in ["01790000000123", "1790000000123.0", "1.79e12", "18446744073709551616", "-1"] {
        assert_eq!(altered("1790000000123", time), Err(Malformed::IssuedAt), "{time}");
    }
    // Section 1 lets every decimal be any u64.
    assert_eq!(altered("\n1\n", "\n18446744073709551615\n").unwrap().seq(), SeqNo(u64::MAX));
    assert_eq!(altered("1790000000123", "18446744073709551615").unwrap().issued_at(), UnixMillis(u64::MAX));
    assert_eq!(altered("1790000000123", "0").unwrap().issued_at(), UnixMillis(0));
    let prev = "uCOWd0EpcdrFcyyAOsODpkgx+3g62QhqjoirN2apQ/U=";
    for other in [
        "",
        "uCOWd0EpcdrFcyyAOsODpkgx+3g62QhqjoirN2apQ/U",
        "uCOWd0EpcdrFcyyAOsODpkgx+3g62QhqjoirN2apQ/V=",
        "uCOWd0EpcdrFcyyAOsODpkgx-3g62QhqjoirN2apQ_U=",
        "uCOWd0EpcdrFcyyAOsODpkgx+3g62QhqjoirN2apQw==",
        OPEN_ID,
        "uCOWd0EpcdrFcyyAOsODpkgx+3g62QhqjoirN2apQ/UA",
    ] {
        assert_eq!(altered(prev, other), Err(Malformed::Prev), "{other:?}");
    }
}

#[test]
fn the_text_has_exactly_six_lines_after_the_magic_one() {
    for magic in
        ["counterfoil/receipt/v2", "Counterfoil/receipt/v1", "counterfoil/receipt/v1 ", " counterfoil/receipt/v1"]
    {
        assert_eq!(altered("counterfoil/receipt/v1", magic), Err(Malformed::Magic), "{magic}");
    }
    for (from, to) in [
        ("}\n\n", "}\n{}\n\n"),
        ("\n1\n", "\n\n1\n"),
        ("\n1\n", "\n"),
        ("}\n\n", "}\n\n\n"),
        ("{\"type\"", "{\n\"type\""),
    ] {
        assert_eq!(altered(from, to), Err(Malformed::Lines), "{to:?}");
    }
    assert!(matches!(altered("}\n\n", "}\n"), Err(Malformed::Note(_))));
    assert!(matches!(altered("}\n\n", "}\r\n\n"), Err(Malformed::Note(_))));
    assert!(matches!(Receipt::parse(b""), Err(Malformed::Note(_))));
    assert!(matches!(Receipt::parse(b"\xff"), Err(Malformed::Note(_))));
    let unsigned = &DECISION[..DECISION.find('—').unwrap()];
    assert!(matches!(Receipt::parse(unsigned.as_bytes()), Err(Malformed::Note(_))));
    assert!(matches!(Receipt::parse(DECISION.trim_end().as_bytes()), Err(Malformed::Note(_))));
    assert!(matches!(Receipt::parse(format!("{DECISION}\n").as_bytes()), Err(Malformed::Note(_))));
}

#[test]
fn an_issuer_is_a_key_name_of_at_most_255_bytes() {
    for bad in ["gate example", "gate+example", "", " "] {
        assert!(
            matches!(altered("v1\ngate.example/support-1", &format!("v1\n{bad}")), Err(Malformed::Issuer(_))),
            "{bad:?}"
        );
    }
    let longest = "g".repeat(255);
    assert_eq!(altered("v1\ngate.example/support-1", &format!("v1\n{longest}")).unwrap().issuer().as_str(), longest);
    assert!(matches!(
        altered("v1\ngate.example/support-1", &format!("v1\n{longest}g")),
        Err(Malformed::Issuer(NameError::TooLong))
    ));
}

#[test]
fn the_first_receipt_names_nothing_before_it() {
    assert_eq!(altered("\n1\n", "\n0\n"), Err(Malformed::PrevOfFirst));
    assert!(Receipt::parse(OPEN.as_bytes()).is_ok());
    // A zero prev later on is well formed; admission finds that it denies the head.
    assert!(
        altered("uCOWd0EpcdrFcyyAOsODpkgx+3g62QhqjoirN2apQ/U=", "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=").is_ok()
    );
}

#[test]
fn a_body_is_one_object_with_nothing_around_it() {
    for body in
        ["", "[]", "null", "\"{}\"", " {\"type\":\"heartbeat\"}", "{\"type\":\"heartbeat\"} ", "{}x", "\u{feff}{}"]
    {
        assert_eq!(with_body(body), Err(Malformed::BodyLine), "{body:?}");
    }
    assert!(matches!(with_body("{}{}"), Err(Malformed::Json(JsonError::Syntax { .. }))));
    assert!(matches!(
        with_body(r#"{"type":"close","type":"close"}"#),
        Err(Malformed::Json(JsonError::DuplicateMember { .. }))
    ));
    assert!(
        matches!(with_body("{\"type\":\t\"heartbeat\"}"), Err(Malformed::Note(_))),
        "no control characters, between tokens neither"
    );
    assert!(with_body("{ \"type\" : \"heartbeat\" }").is_ok(), "spaces are the gate's own");
    let deep = |levels: usize| format!(r#"{{"type":"x","y":{}{}}}"#, "[".repeat(levels), "]".repeat(levels));
    assert!(with_body(&deep(31)).is_ok());
    assert!(matches!(with_body(&deep(32)), Err(Malformed::Json(JsonError::TooDeep { .. }))));
}

#[test]
fn a_refusal_names_the_member_and_not_its_value() {
    let said = with_body(r#"{"type":"outcome","executed":"hunter2"}"#).unwrap_err().to_string();
    assert_eq!(said, "the body: /executed is of the wrong type; expected true or false");
    let said = with_body(r#"{"type":"decision","request_id":"a"}"#).unwrap_err().to_string();
    assert_eq!(said, "the body: /decision is missing; expected \"allow\" or \"deny\"");
}

#[test]
fn an_entry_is_at_most_65535_bytes() {
    let room = MAX_ENTRY - with_body(r#"{"type":"x","y":""}"#).unwrap().bytes().len();
    let body = |length: usize| format!(r#"{{"type":"x","y":"{}"}}"#, "y".repeat(length));
    assert_eq!(with_body(&body(room)).unwrap().bytes().len(), MAX_ENTRY);
    assert_eq!(with_body(&body(room + 1)), Err(Malformed::TooLong { length: MAX_ENTRY + 1 }));
}

#[test]
fn lines_of_other_keys_do_not_make_a_receipt_malformed() {
    let stranger = named_key("stranger.example", 3);
    let entry = sign_note(Receipt::parse(DECISION.as_bytes()).unwrap().text(), &[&key(0), &stranger]).unwrap();
    assert_eq!(Receipt::parse(&entry).unwrap().signatures().len(), 2);
    assert!(matches!(altered("— gate", "- gate"), Err(Malformed::Note(_))));
    let short = DECISION.find("— ").unwrap();
    let blob = encode_base64(&[1, 2, 3, 4, 5]);
    let entry = format!("{}— {NAME} {blob}\n", &DECISION[..short]);
    assert!(Receipt::parse(entry.as_bytes()).is_ok(), "a signature of another length is a bad one");
}

#[test]
fn only_the_issuers_own_keys_sign_and_a_rotate_takes_two() {
    let text = |body: String| ReceiptText {
        issuer: name(),
        seq: SeqNo(1),
        prev: ReceiptId::NONE,
        issued_at: UnixMillis(1),
        body,
    };
    let decision = text(decision_body(1));
    assert!(matches!(decision.sign(&named_key("other.example", 0)), Err(SignError::OtherIssuer { .. })));
    assert_eq!(decision.sign_rotation(&key(0), &key(1)), Err(SignError::Signers));
    let rotate = text(crate::sample::rotate_body(1));
    assert_eq!(rotate.sign(&key(0)), Err(SignError::Signers));
    assert_eq!(rotate.sign_rotation(&key(0), &key(2)), Err(SignError::NewKey));
    assert_eq!(rotate.sign_rotation(&key(1), &key(1)), Err(SignError::NewKey));
    assert!(rotate.sign_rotation(&key(0), &key(1)).is_ok());
    assert_eq!(text("[]".into()).sign(&key(0)), Err(SignError::Malformed(Malformed::BodyLine)));
    assert!(matches!(text("{\n}".into()).sign(&key(0)), Err(SignError::Malformed(Malformed::Lines))));
    let witness = SigningKey::from_seed(name().0, note::KeyKind::CosignatureV1, [0; 32]);
    assert_eq!(decision.sign(&witness), Err(SignError::Malformed(Malformed::Note(NoteError::WrongKeyKind))));
}

/// Anything a parser could stumble over: valid texts are rare among random ones, so they are built.
fn any_text() -> impl Strategy<Value = ReceiptText> {
    let name = "[^\\s+\\p{Cc}]{1,60}";
    let member = prop_oneof![
        any::<bool>().prop_map(Value::from),
        any::<u32>().prop_map(Value::from),
        "\\PC{0,20}".prop_map(Value::from)
    ];
    let body = prop::collection::vec(("[a-z]{1,6}", member), 0..5);
    (name, any::<u64>(), any::<[u8; 32]>(), any::<u64>(), body).prop_map(|(name, seq, prev, issued_at, members)| {
        let mut object: Map<String, Value> = members.into_iter().collect();
        object.insert("type".into(), Value::from("x-any"));
        ReceiptText {
            issuer: IssuerName::new(&name).unwrap(),
            seq: SeqNo(seq),
            prev: if seq == 0 { ReceiptId::NONE } else { ReceiptId(Hash(prev)) },
            issued_at: UnixMillis(issued_at),
            body: Value::Object(object).to_string(),
        }
    })
}

proptest! {
    #[test]
    fn what_is_printed_parses_to_what_was_printed(text in any_text(), number in 0_u8..4) {
        prop_assume!(ijson::parse_object(&text.body).is_ok());
        let receipt = text.sign(&named_key(text.issuer.as_str(), number)).unwrap();
        prop_assert_eq!(&ReceiptText::from(&receipt), &text);
        prop_assert_eq!(receipt.text(), text.to_string());
        let again = Receipt::parse(receipt.bytes()).unwrap();
        prop_assert_eq!(again.id(), ReceiptId::of(receipt.bytes()));
        prop_assert_eq!(&again, &receipt);
    }

    #[test]
    fn what_parses_prints_as_it_was(place in 0..DECISION.len(), byte in any::<u8>(), which in 0..3_usize) {
        let mut entry = [OPEN, DECISION, ROTATE][which].as_bytes().to_vec();
        let place = place % entry.len();
        entry[place] = byte;
        if let Ok(receipt) = Receipt::parse(&entry) {
            let lines: String = receipt.signatures().iter().map(|line| line.line() + "\n").collect();
            let printed = format!("{}\n{lines}", ReceiptText::from(&receipt));
            prop_assert_eq!(printed.as_bytes(), &entry[..]);
        }
    }

    #[test]
    fn no_bytes_make_the_parser_panic(head in 0..DECISION.len(), tail in prop::collection::vec(any::<u8>(), 0..80)) {
        let mut entry = DECISION.as_bytes()[..head].to_vec();
        entry.extend(tail);
        let _ = Receipt::parse(&entry);
    }
}

#[test]
fn every_one_bit_change_of_a_receipt_is_refused_or_unsigned() {
    for entry in [OPEN, DECISION, ROTATE] {
        let good = Receipt::parse(entry.as_bytes()).unwrap();
        for place in 0..entry.len() {
            for bit in 0..8 {
                let mut changed = entry.as_bytes().to_vec();
                changed[place] ^= 1 << bit;
                let Ok(receipt) = Receipt::parse(&changed) else { continue };
                assert_ne!(receipt.id(), good.id());
                let first =
                    crate::admit::is_signed_by(&receipt, &receipt.signatures()[0], &key(0).verifier(), &note::Strict);
                let second = !receipt.is_rotation() || crate::admit::new_key_of(&receipt).is_some();
                assert!(!(first && second), "byte {place}, bit {bit}: a changed receipt verifies");
            }
        }
    }
}

#[test]
fn receipts_with_one_text_and_other_signatures_have_other_ids() {
    let one = signed(1, ReceiptId::NONE, 1, &decision_body(1), &[&key(0)]);
    let other = signed(1, ReceiptId::NONE, 1, &decision_body(1), &[&key(1)]);
    assert_eq!(one.text(), other.text());
    assert_ne!(one.id(), other.id());
    assert_ne!(one, other);
}
