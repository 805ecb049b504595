//! Receipts of `acta`, `obsigna` and `pipelock` in a log: good ones are believed under pinned keys alone, and each attack
//! that is known on such receipts is found out. Samples are made here; the formats' own lie beside the checkout.

use crate::world;
use audit::{ImportError, Rules, Severity, Status, Verdict, import_lines};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use std::io::Write as _;
use testkit::signed_records::{ISSUER, KID, chain, key_hex, link, pin, sign, unsigned};
use world::{World, told};

const FORMATS: [&str; 3] = ["acta", "obsigna", "pipelock"];

/// The auditor's key, and an attacker's.
const GOOD: u8 = 41;
const EVIL: u8 = 66;

fn text(receipts: &[Value]) -> String {
    receipts.iter().map(|receipt| format!("{receipt}\n")).collect()
}

/// What the gate imported.
fn imported(format: &str, text: &str) -> World {
    let mut world = World::new();
    world.import(format, text);
    world.seal();
    world
}

/// What a gate carried without asking the importer.
fn carried(format: &str, texts: &[&str]) -> World {
    let mut world = World::new();
    for text in texts {
        carry(&mut world, 0, format, text);
    }
    world.seal();
    world
}

fn carry(world: &mut World, gate: usize, format: &str, text: &str) {
    let body =
        json!({"type": "foreign", "format": format, "receipt_b64": merkle::encode_base64(text.as_bytes())}).to_string();
    world.log_body(gate, &body);
}

fn judged(world: &World, rules: &str) -> Verdict {
    let verdict = world.audit_by(&world.bundle(), &Rules::parse(rules).unwrap());
    // Whatever is carried: the gate that carries it did nothing wrong.
    assert_eq!(verdict.check("issuer/gate.example/support-1").unwrap().status, Status::Ok, "{}", told(&verdict));
    verdict
}

fn of(format: &str, receipts: &[Value]) -> Verdict {
    judged(&imported(format, &text(receipts)), &pin(format, GOOD))
}

fn status(verdict: &Verdict, format: &str, check: &str) -> Status {
    verdict.check(&format!("foreign/{format}/{check}")).unwrap().status
}

/// Codes of the findings of a severity that are about this format.
fn codes(verdict: &Verdict, format: &str, severity: Severity) -> Vec<&'static str> {
    let checks = verdict.checks.iter().filter(|check| check.id().starts_with(&format!("foreign/{format}/")));
    let findings = checks.flat_map(|check| &check.findings).filter(|finding| finding.severity == severity);
    findings.map(|finding| finding.code).collect()
}

fn failing(verdict: &Verdict, format: &str) -> Vec<&'static str> {
    codes(verdict, format, Severity::Fail)
}

/// The `number`th of a chain, otherwise than the chain has it.
fn other(format: &str, seed: u8, number: u64, before: &Value) -> Value {
    sign(format, seed, unsigned(format, number, Some(link(format, before)), "somewhere/else"))
}

#[test]
fn a_chain_under_a_pinned_key_is_believed_and_its_end_is_not() {
    for format in FORMATS {
        let verdict = of(format, &chain(format, GOOD, 4));
        for check in ["record", "signature", "chain"] {
            assert_eq!(status(&verdict, format, check), Status::Ok, "{}", told(&verdict));
        }
        assert_eq!(verdict.exit_code, 0, "{}", told(&verdict));
        // A cut tail looks like this, and the verdict says that it would.
        let chain = verdict.check(&format!("foreign/{format}/chain")).unwrap();
        assert_eq!(chain.count("tail-unseen"), 1, "{}", told(&verdict));
        assert!(chain.findings[0].not_shown.contains("cut off"), "{}", chain.findings[0].not_shown);
    }
}

#[test]
fn without_a_pinned_key_nothing_is_believed() {
    for format in FORMATS {
        let world = imported(format, &text(&chain(format, GOOD, 2)));
        for rules in [String::new(), pin(format, EVIL)] {
            let verdict = judged(&world, &rules);
            assert_ne!(status(&verdict, format, "signature"), Status::Ok, "{}", told(&verdict));
            assert_ne!(status(&verdict, format, "chain"), Status::Ok, "{}", told(&verdict));
            assert_ne!(verdict.exit_code, 0);
        }
        let verdict = judged(&world, "");
        assert_eq!(verdict.count("foreign-key-unpinned"), 2, "{}", told(&verdict));
        assert_eq!(verdict.exit_code, 2, "{}", told(&verdict));
    }
}

#[test]
fn a_key_from_inside_the_receipt_is_never_believed() {
    for format in FORMATS {
        // The whole chain is the attacker's, under the pinned name where keys have names.
        let verdict = of(format, &chain(format, EVIL, 2));
        match format {
            "pipelock" => assert_eq!(verdict.count("foreign-key-unpinned"), 2, "{}", told(&verdict)),
            _ => assert_eq!(verdict.count("foreign-signature-bad"), 2, "{}", told(&verdict)),
        }
        assert_ne!(verdict.exit_code, 0);
        // The attacker goes on where the pinned key stopped.
        let mut receipts = chain(format, GOOD, 2);
        receipts.push(other(format, EVIL, 2, &receipts[1]));
        let verdict = of(format, &receipts);
        assert_eq!(verdict.exit_code, 1, "{}", told(&verdict));
        let expected = if format == "pipelock" { "signer-changed" } else { "foreign-signature-bad" };
        assert_eq!(verdict.count(expected), 1, "{}", told(&verdict));
    }
    // The attacker names a key of its own for an issuer that is pinned.
    for format in ["acta", "obsigna"] {
        let receipts = chain(format, EVIL, 1);
        let renamed = text(&receipts).replace(KID, "attacker#key");
        let verdict = judged(&imported(format, &renamed), &pin(format, GOOD));
        assert_eq!(failing(&verdict, format), ["foreign-key-other"], "{}", told(&verdict));
    }
}

#[test]
fn a_key_inside_a_jwk_or_a_did_is_not_looked_at() {
    let mut receipt = unsigned("acta", 0, None, "x");
    receipt["payload"]["jwk"] = json!({"kty": "OKP", "crv": "Ed25519", "x": "AAAA"});
    receipt["payload"]["public_key"] = json!(key_hex(EVIL));
    let verdict = of("acta", &[sign("acta", EVIL, receipt)]);
    assert_eq!(failing(&verdict, "acta"), ["foreign-signature-bad"], "{}", told(&verdict));
}

#[test]
fn nothing_is_imported_from_nothing_and_a_format_without_receipts_has_no_check() {
    for format in FORMATS {
        for empty in ["", "\n \n", "[]", "[ ]\n"] {
            assert_eq!(import_lines(format, empty), Err(ImportError::Empty), "{format} {empty:?}");
        }
        let mut world = World::new();
        world.log_heartbeats(1);
        world.seal();
        let verdict = judged(&world, &pin(format, GOOD));
        assert!(verdict.checks.iter().all(|check| !check.id().starts_with(&format!("foreign/{format}"))));
        // Something was carried, and no receipt among it: no check over it is ok.
        let verdict = judged(&carried(format, &["{}"]), &pin(format, GOOD));
        for check in ["record", "signature", "chain"] {
            assert_ne!(status(&verdict, format, check), Status::Ok, "{}", told(&verdict));
        }
    }
}

#[test]
fn an_unsigned_receipt_is_none() {
    for format in FORMATS {
        let member = if format == "obsigna" { "proof" } else { "signature" };
        let mut receipt = chain(format, GOOD, 1).remove(0);
        receipt.as_object_mut().unwrap().remove(member);
        for unsigned in [receipt.clone(), with(&receipt, member, json!("")), with(&receipt, member, Value::Null)] {
            assert!(import_lines(format, &unsigned.to_string()).is_err(), "{unsigned}");
            let verdict = judged(&carried(format, &[&unsigned.to_string()]), &pin(format, GOOD));
            assert_eq!(failing(&verdict, format), ["record-malformed"], "{}", told(&verdict));
        }
    }
}

fn with(receipt: &Value, member: &str, value: Value) -> Value {
    let mut receipt = receipt.clone();
    receipt[member] = value;
    receipt
}

#[test]
fn a_changed_member_is_found_wherever_it_stands() {
    for format in FORMATS {
        let receipts = chain(format, GOOD, 3);
        let mut changed: Vec<String> = receipts.iter().map(Value::to_string).collect();
        changed[1] = changed[1].replace("q3.csv", "q4.csv");
        let verdict = judged(&imported(format, &changed.join("\n")), &pin(format, GOOD));
        assert!(failing(&verdict, format).contains(&"foreign-signature-bad"), "{}", told(&verdict));
        // Its successor lost the receipt it continues.
        assert_eq!(status(&verdict, format, "chain"), Status::Fail, "{}", told(&verdict));
    }
}

#[test]
fn a_member_outside_the_signature_can_say_nothing_unnoticed() {
    let first = |format| chain(format, GOOD, 1).remove(0);
    // acta signs all there is.
    let verdict = of("acta", &[with(&first("acta"), "note", json!("approved by a person"))]);
    assert_eq!(failing(&verdict, "acta"), ["foreign-signature-bad"], "{}", told(&verdict));
    // obsigna signs nothing of its proof: what must be there is fixed or told of, and nothing else may be.
    for (member, value, expected) in [
        ("note", json!("approved"), Some("record-malformed")),
        ("type", json!("DataIntegrityProof"), Some("record-malformed")),
        ("proofPurpose", json!("authentication"), Some("record-malformed")),
        ("verificationMethod", json!("did:agent:other#key"), Some("foreign-key-other")),
        ("created", json!("1999-01-01T00:00:00Z"), None),
    ] {
        let mut receipt = first("obsigna");
        receipt["proof"][member] = value;
        let verdict = judged(&carried("obsigna", &[&receipt.to_string()]), &pin("obsigna", GOOD));
        assert_eq!(failing(&verdict, "obsigna"), expected.into_iter().collect::<Vec<_>>(), "{}", told(&verdict));
        if expected.is_none() {
            assert_eq!(verdict.count("member-unsigned"), 1, "{}", told(&verdict));
        }
    }
    // pipelock signs its record; beside it only ext may be unknown, and that is told of.
    for (path, expected) in [
        ("/note", "record-malformed"),
        ("/action_record/note", "record-malformed"),
        ("/action_record/Verdict", "record-malformed"),
    ] {
        let mut receipt = first("pipelock");
        let (parent, name) = path.rsplit_once('/').unwrap();
        receipt.pointer_mut(parent).unwrap()[name] = json!("block");
        let verdict = judged(&carried("pipelock", &[&receipt.to_string()]), &pin("pipelock", GOOD));
        assert_eq!(failing(&verdict, "pipelock"), [expected], "{}", told(&verdict));
    }
}

#[test]
fn an_empty_struct_that_was_signed_verifies_and_one_that_was_put_in_does_not() {
    let gos = "<redaction, a pointer to a struct whose members are all zero>";
    for name in ["redaction", "shield"] {
        let mut record = unsigned("pipelock", 0, None, gos);
        // Where the struct has it: before the links of the chain.
        let tail: Vec<(String, Value)> = ["chain_prev_hash", "chain_seq"]
            .map(|name| (name.to_owned(), record.as_object_mut().unwrap().remove(name).unwrap()))
            .into();
        record[name] = json!({});
        record.as_object_mut().unwrap().extend(tail);
        let honest = sign("pipelock", GOOD, record);
        let verdict = of("pipelock", std::slice::from_ref(&honest));
        assert_eq!(failing(&verdict, "pipelock"), Vec::<&str>::new(), "{}", told(&verdict));
        for (receipt, put) in [(&honest, None), (&chain("pipelock", GOOD, 1)[0], Some(json!({})))] {
            let mut changed = receipt.clone();
            let record = changed["action_record"].as_object_mut().unwrap();
            match put {
                Some(put) => drop(record.insert(name.to_owned(), put)),
                None => drop(record.remove(name)),
            }
            let verdict = of("pipelock", &[changed]);
            assert_eq!(failing(&verdict, "pipelock"), ["foreign-signature-bad"], "{}", told(&verdict));
        }
    }
}

#[test]
fn unsigned_ext_is_told_of_and_its_change_breaks_the_next_link() {
    let mut first = chain("pipelock", GOOD, 1).remove(0);
    first["ext"] = json!({"note": "<b>"});
    let second = other("pipelock", GOOD, 1, &first);
    let whole = text(&[first, second]);
    let verdict = judged(&imported("pipelock", &whole), &pin("pipelock", GOOD));
    assert_eq!((failing(&verdict, "pipelock"), verdict.count("member-unsigned")), (vec![], 1), "{}", told(&verdict));
    for changed in [whole.replace("<b>", "<i>"), whole.replace(r#","ext":{"note":"<b>"}"#, "")] {
        let verdict = judged(&imported("pipelock", &changed), &pin("pipelock", GOOD));
        assert_eq!(failing(&verdict, "pipelock"), ["link-broken"], "{}", told(&verdict));
    }
    // Spaces, and escapes that the other system keeps as they are, change no link; another spelling does.
    let spaced = whole.replace(r#"{"note":"<b>"}"#, r#"{ "note" : "<b>" }"#);
    let verdict = judged(&imported("pipelock", &spaced), &pin("pipelock", GOOD));
    assert_eq!(failing(&verdict, "pipelock"), Vec::<&str>::new(), "{}", told(&verdict));
    let spelt = whole.replace("<b>", "<\\u0062>");
    let verdict = judged(&imported("pipelock", &spelt), &pin("pipelock", GOOD));
    assert_eq!(failing(&verdict, "pipelock"), ["link-broken"], "{}", told(&verdict));
}

#[test]
fn where_ext_is_not_carried_as_it_was_spelt_nothing_is_said_of_the_next_link() {
    let mut first = chain("pipelock", GOOD, 1).remove(0);
    first["ext"] = json!({"note": "ab"});
    // The other system wrote it so, and its next receipt continues that.
    let spelt = text(&[first.clone()]).replace("\"ab\"", "\"\\u0061b\"");
    let as_signed = link("pipelock", &first).len();
    assert_eq!(as_signed, 64);
    let before = {
        let line = spelt.trim_end();
        hex::encode(Sha256::digest(line.replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026")))
    };
    let second = sign("pipelock", GOOD, unsigned("pipelock", 1, Some(before), "x"));
    let third = other("pipelock", GOOD, 2, &second);
    let carry_value = |receipts: &[&Value]| {
        let mut world = World::new();
        for receipt in receipts {
            world.log_body(0, &json!({"type": "foreign", "format": "pipelock", "receipt": receipt}).to_string());
        }
        world.seal();
        judged(&world, &pin("pipelock", GOOD))
    };
    // As bytes it is whole.
    let whole = format!("{spelt}{}", text(&[second.clone(), third.clone()]));
    let verdict = judged(&imported("pipelock", &whole), &pin("pipelock", GOOD));
    assert_eq!(failing(&verdict, "pipelock"), Vec::<&str>::new(), "{}", told(&verdict));
    // As a value nobody knows how it was spelt.
    let verdict = carry_value(&[&first, &second, &third]);
    assert_eq!(failing(&verdict, "pipelock"), Vec::<&str>::new(), "{}", told(&verdict));
    assert_eq!(codes(&verdict, "pipelock", Severity::NotChecked), ["link-respelt"], "{}", told(&verdict));
    // What is left out is found all the same, and so is a broken link where there is no ext.
    assert_eq!(failing(&carry_value(&[&first, &third]), "pipelock"), ["sequence-gap"]);
    let plain = chain("pipelock", GOOD, 1).remove(0);
    assert_eq!(failing(&carry_value(&[&plain, &second, &third]), "pipelock"), ["link-broken"]);
}

#[test]
fn what_two_readers_could_read_differently_is_refused_by_importer_and_verifier() {
    for format in FORMATS {
        let good = chain(format, GOOD, 1).remove(0).to_string();
        let hostile = [
            // A member twice: outside, and deep inside, spelt with an escape.
            good.replacen('{', r#"{"version":1,"version":1,"#, 1),
            good.replacen('{', r#"{"a":{"b":1,"\u0062":2},"#, 1),
            // Half a character.
            good.replace("q3.csv", "q3\\ud800.csv"),
            good.replace("q3.csv", "q3\\udc00\\ud800.csv"),
            // Something behind it, and a mark before it.
            format!("{good}]"),
            format!("\u{feff}{good}"),
        ];
        for text in hostile {
            assert!(import_lines(format, &text).is_err(), "{text}");
            let verdict = judged(&carried(format, &[&text]), &pin(format, GOOD));
            assert_eq!(failing(&verdict, format), ["record-malformed"], "{text} {}", told(&verdict));
        }
        let mut world = World::new();
        let bytes = [&b"\xff"[..], good.as_bytes()].concat();
        let body = json!({"type": "foreign", "format": format, "receipt_b64": merkle::encode_base64(&bytes)});
        world.log_body(0, &body.to_string());
        world.seal();
        assert_eq!(failing(&judged(&world, &pin(format, GOOD)), format), ["record-malformed"]);
        // Beyond our own limits nothing is held against anybody.
        let deep = format!(r#"{{"a":{}1{}}}"#, "[".repeat(40), "]".repeat(40));
        let verdict = judged(&carried(format, &[&deep]), &pin(format, GOOD));
        assert_eq!((failing(&verdict, format), verdict.count("carried-unreadable")), (vec![], 1), "{}", told(&verdict));
        assert_ne!(verdict.exit_code, 0);
    }
}

#[test]
fn receipts_out_of_order_left_out_and_shown_twice_are_told_apart() {
    for format in FORMATS {
        let receipts = chain(format, GOOD, 4);
        let pick =
            |places: &[usize]| of(format, &places.iter().map(|place| receipts[*place].clone()).collect::<Vec<_>>());
        let counted = format != "acta";
        let cases: [(&[usize], &[&str]); 3] = [
            (&[0, 2, 1, 3], if counted { &["sequence-gap", "receipt-reordered"] } else { &["link-broken"] }),
            (&[0, 1, 3], if counted { &["sequence-gap"] } else { &["link-broken"] }),
            (&[1, 2, 3], if counted { &["sequence-gap"] } else { &["link-broken"] }),
        ];
        for (places, expected) in cases {
            let verdict = pick(places);
            assert_eq!(failing(&verdict, format), expected, "{format} {places:?} {}", told(&verdict));
        }
        // Files that overlap, and the whole import once more: no lie, and told.
        for (places, repeated) in [(&[0, 1, 1, 2, 3][..], 1), (&[0, 1, 2, 1, 2, 3], 2), (&[0, 1, 2, 3, 0, 1, 2, 3], 4)]
        {
            let verdict = pick(places);
            assert_eq!(failing(&verdict, format), Vec::<&str>::new(), "{format} {places:?} {}", told(&verdict));
            assert_eq!((verdict.count("receipt-repeated"), verdict.exit_code), (repeated, 0), "{}", told(&verdict));
        }
    }
}

#[test]
fn two_copies_of_one_receipt_that_differ_where_no_signature_looks_are_told() {
    for format in ["obsigna", "pipelock"] {
        let receipts = chain(format, GOOD, 3);
        let mut changed = receipts[1].clone();
        match format {
            "obsigna" => changed["proof"]["created"] = json!("2026-01-01T00:00:00Z"),
            _ => changed["ext"] = json!({"note": "approved by the board"}),
        }
        let [original, changed] = [&receipts[1], &changed].map(Value::to_string);
        let last = receipts[2].to_string();
        for gate in [0, 1] {
            let mut world = World::new();
            world.add_gate("gate.example/support-2");
            for text in [&receipts[0].to_string(), &original, &last] {
                carry(&mut world, 0, format, text);
            }
            carry(&mut world, gate, format, &changed);
            world.seal();
            let verdict = judged(&world, &pin(format, GOOD));
            assert_eq!(failing(&verdict, format), ["receipt-repeated"], "{}", told(&verdict));
        }
    }
    // Another spelling of the same is the same.
    for format in FORMATS {
        let receipts = chain(format, GOOD, 2);
        let spaced = serde_json::to_string_pretty(&receipts[0]).unwrap();
        let texts = [receipts[0].to_string(), receipts[1].to_string(), spaced];
        let verdict = judged(&carried(format, &texts.each_ref().map(String::as_str)), &pin(format, GOOD));
        assert_eq!(failing(&verdict, format), Vec::<&str>::new(), "{format} {}", told(&verdict));
        assert_eq!(verdict.count("receipt-repeated"), 1, "{}", told(&verdict));
    }
}

#[test]
fn a_copy_that_differs_is_told_also_where_it_is_carried_as_a_value() {
    let receipts = chain("pipelock", GOOD, 2);
    let noted = |note: &str| with(&receipts[1], "ext", json!({"note": note}));
    let (first, second) = (noted("approved by nobody"), noted("approved by the board"));
    let spelt = |world: &mut World, receipt: &Value| carry(world, 0, "pipelock", &receipt.to_string());
    let value = |world: &mut World, receipt: &Value| {
        world.log_body(0, &json!({"type": "foreign", "format": "pipelock", "receipt": receipt}).to_string());
    };
    type Carry<'a> = &'a dyn Fn(&mut World, &Value);
    let ways: [(Carry<'_>, Carry<'_>); 4] = [(&spelt, &spelt), (&spelt, &value), (&value, &spelt), (&value, &value)];
    for (place, (one, other)) in ways.into_iter().enumerate() {
        for (copy, expected) in
            [(&second, vec!["receipt-repeated"]), (&receipts[1], vec!["receipt-repeated"]), (&first, vec![])]
        {
            let mut world = World::new();
            spelt(&mut world, &receipts[0]);
            one(&mut world, &first);
            other(&mut world, copy);
            world.seal();
            let verdict = judged(&world, &pin("pipelock", GOOD));
            assert_eq!(failing(&verdict, "pipelock"), expected, "{place} {}", told(&verdict));
            assert_eq!(verdict.count("receipt-repeated"), 1, "{place} {}", told(&verdict));
        }
    }
}

#[test]
fn two_gates_may_carry_one_chain_and_may_not_carry_two() {
    for format in FORMATS {
        let receipts = chain(format, GOOD, 3);
        let mut world = World::new();
        world.add_gate("gate.example/support-2");
        for receipt in &receipts {
            carry(&mut world, 0, format, &receipt.to_string());
            carry(&mut world, 1, format, &receipt.to_string());
        }
        world.seal();
        let verdict = judged(&world, &pin(format, GOOD));
        assert_eq!(failing(&verdict, format), Vec::<&str>::new(), "{}", told(&verdict));
        assert_eq!(verdict.count("receipt-repeated"), 3, "{}", told(&verdict));
        carry(&mut world, 1, format, &other(format, GOOD, 2, &receipts[1]).to_string());
        world.seal();
        let verdict = judged(&world, &pin(format, GOOD));
        assert_eq!(failing(&verdict, format), ["chain-fork"], "{}", told(&verdict));
    }
}

#[test]
fn two_receipts_of_one_place_are_a_fork_only_of_who_signed_both() {
    for format in FORMATS {
        let mut receipts = chain(format, GOOD, 3);
        receipts.insert(2, other(format, GOOD, 2, &receipts[1]));
        let verdict = of(format, &receipts);
        assert_eq!(failing(&verdict, format), ["chain-fork"], "{}", told(&verdict));
        // One of the two is anybody's.
        receipts[2] = other(format, EVIL, 2, &receipts[1]);
        let verdict = of(format, &receipts);
        assert!(!failing(&verdict, format).contains(&"chain-fork"), "{}", told(&verdict));
        assert_eq!(verdict.count("chain-fork"), 1, "{}", told(&verdict));
        assert!(codes(&verdict, format, Severity::NotChecked).contains(&"chain-fork"), "{}", told(&verdict));
    }
    // Two beginnings: of a chain with a name a fork, of a key's chains possibly another run.
    for (format, expected, notices) in
        [("obsigna", vec!["chain-fork"], 0), ("pipelock", vec![], 1), ("acta", vec![], 0)]
    {
        let mut receipts = chain(format, GOOD, 2);
        receipts.push(sign(format, GOOD, unsigned(format, 0, None, "somewhere/else")));
        let verdict = of(format, &receipts);
        assert_eq!(failing(&verdict, format), expected, "{}", told(&verdict));
        assert_eq!(verdict.count("chain-restarted"), notices, "{}", told(&verdict));
    }
}

#[test]
fn nothing_follows_a_terminal_receipt_and_a_closed_chain_has_no_unseen_tail() {
    let mut receipts = chain("obsigna", GOOD, 1);
    let mut last = unsigned("obsigna", 1, Some(link("obsigna", &receipts[0])), "x");
    last["credentialSubject"]["chain"]["terminal"] = json!(true);
    receipts.push(sign("obsigna", GOOD, last));
    let verdict = of("obsigna", &receipts);
    assert_eq!((verdict.exit_code, verdict.count("tail-unseen")), (0, 0), "{}", told(&verdict));
    receipts.push(other("obsigna", GOOD, 2, &receipts[1]));
    let verdict = of("obsigna", &receipts);
    assert_eq!(failing(&verdict, "obsigna"), ["after-terminal"], "{}", told(&verdict));
    // A closed run of pipelock may be continued by the next one.
    let mut receipts = chain("pipelock", GOOD, 1);
    let mut close = unsigned("pipelock", 1, Some(link("pipelock", &receipts[0])), "x");
    close["session_control"] = json!({"kind": "close", "close": {"run_nonce": "a", "open_nonce": "b", "final_seq": 1,
        "root_hash": "c", "receipt_count": 2, "close_reason": "d", "fsync_errors_gated": 0, "durability_blocks": 0}});
    receipts.push(sign("pipelock", GOOD, close));
    let verdict = of("pipelock", &receipts);
    assert_eq!((verdict.exit_code, verdict.count("tail-unseen")), (0, 0), "{}", told(&verdict));
    receipts.push(other("pipelock", GOOD, 2, &receipts[1]));
    let verdict = of("pipelock", &receipts);
    assert_eq!((verdict.exit_code, verdict.count("tail-unseen")), (0, 1), "{}", told(&verdict));
}

/// S + L, where S is the second half of a signature and L the order of the group: what a lax verifier takes as well.
fn with_order_added(signature: &[u8]) -> Vec<u8> {
    const ORDER: [u8; 32] = [
        0xed, 0xd3, 0xf5, 0x5c, 0x1a, 0x63, 0x12, 0x58, 0xd6, 0x9c, 0xf7, 0xa2, 0xde, 0xf9, 0xde, 0x14, 0, 0, 0, 0, 0,
        0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x10,
    ];
    let mut carry = 0;
    let sums = signature[32..].iter().zip(ORDER).map(|(byte, order)| {
        let sum = u16::from(*byte) + u16::from(order) + carry;
        carry = sum >> 8;
        sum as u8
    });
    [&signature[..32], &sums.collect::<Vec<_>>()].concat()
}

#[test]
fn another_signature_made_out_of_a_good_one_is_none() {
    for format in FORMATS {
        let good = chain(format, GOOD, 1).remove(0);
        let (written, bytes) = match format {
            "obsigna" => {
                let written = good["proof"]["proofValue"].as_str().unwrap().to_owned();
                let base64 = written[1..].replace('-', "+").replace('_', "/") + "==";
                (written, merkle::decode_base64(&base64).unwrap())
            }
            _ => {
                let written = good["signature"].as_str().unwrap().to_owned();
                let digits = written.trim_start_matches("ed25519:");
                let bytes = (0..64).map(|place| u8::from_str_radix(&digits[2 * place..2 * place + 2], 16).unwrap());
                (written.clone(), bytes.collect())
            }
        };
        let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        let spelt = |bytes: &[u8]| match format {
            "obsigna" => {
                format!("u{}", merkle::encode_base64(bytes).replace('+', "-").replace('/', "_").replace('=', ""))
            }
            "pipelock" => format!("ed25519:{}", hex(bytes)),
            _ => hex(bytes),
        };
        assert_eq!(spelt(&bytes), written);
        let malleable = good.to_string().replace(&written, &spelt(&with_order_added(&bytes)));
        let verdict = judged(&imported(format, &malleable), &pin(format, GOOD));
        assert_eq!(failing(&verdict, format), ["foreign-signature-bad"], "{}", told(&verdict));
        // Other spellings of the same bytes.
        let shouted = match format {
            "obsigna" => format!("{written}=="),
            _ => written.to_uppercase().replace("ED25519:", "ed25519:"),
        };
        for other in [shouted, written[..written.len() - 2].to_owned(), format!("{written}00")] {
            let text = good.to_string().replace(&written, &other);
            assert!(import_lines(format, &text).is_err(), "{text}");
            let verdict = judged(&carried(format, &[&text]), &pin(format, GOOD));
            assert_eq!(failing(&verdict, format), ["record-malformed"], "{}", told(&verdict));
        }
    }
}

#[test]
fn another_algorithm_is_not_taken_for_the_one_that_is_known() {
    for algorithm in ["none", "HS256", "Ed25519", "ed448", ""] {
        let mut receipt = unsigned("acta", 0, None, "x");
        receipt["algorithm"] = json!(algorithm);
        let receipt = sign("acta", GOOD, receipt).to_string();
        assert!(import_lines("acta", &receipt).is_err());
        let verdict = judged(&carried("acta", &[&receipt]), &pin("acta", GOOD));
        assert_eq!(failing(&verdict, "acta"), ["record-malformed"], "{}", told(&verdict));
    }
    let good = chain("pipelock", GOOD, 1).remove(0).to_string();
    for prefix in ["", "hmac:", "ED25519:", "ed25519ph:"] {
        let text = good.replace("ed25519:", prefix);
        let verdict = judged(&carried("pipelock", &[&text]), &pin("pipelock", GOOD));
        assert_eq!(failing(&verdict, "pipelock"), ["record-malformed"], "{}", told(&verdict));
    }
    // A version whose signed form is not known here is not read as one that is.
    for (format, from, to) in [("acta", "\"v\":2", "\"v\":3"), ("pipelock", "\"version\":1", "\"version\":2")] {
        let text = chain(format, GOOD, 1).remove(0).to_string().replace(from, to);
        let verdict = judged(&carried(format, &[&text]), &pin(format, GOOD));
        assert_eq!(failing(&verdict, format), ["record-malformed"], "{}", told(&verdict));
    }
}

#[test]
fn a_key_of_small_order_cannot_be_pinned() {
    for format in FORMATS {
        let rules = pin(format, GOOD).replace(&key_hex(GOOD), &format!("01{}", "00".repeat(31)));
        let error = Rules::parse(&rules).unwrap_err().to_string();
        assert!(error.starts_with("foreign_key 1: "), "{error}");
    }
}

#[test]
fn a_key_speaks_for_its_own_format_and_issuer_alone() {
    let receipts = text(&chain("acta", GOOD, 1));
    let world = imported("acta", &receipts);
    let verdict = judged(&world, &pin("obsigna", GOOD));
    assert_eq!(verdict.count("foreign-key-unpinned"), 1, "{}", told(&verdict));
    let verdict = judged(&world, &pin("acta", GOOD).replace(ISSUER, "gateway:other"));
    assert_eq!(verdict.count("foreign-key-unpinned"), 1, "{}", told(&verdict));
    // Pinned by its name alone it is believed, whatever issuer the receipt names.
    let verdict = judged(&world, &pin("acta", GOOD).replace(&format!("issuer = \"{ISSUER}\"\n"), ""));
    assert_eq!(verdict.exit_code, 0, "{}", told(&verdict));
}

#[test]
fn a_receipt_that_stands_by_itself_is_ok_without_being_a_chain() {
    let verdict = of("acta", &chain("acta", GOOD, 1));
    assert_eq!(verdict.exit_code, 0, "{}", told(&verdict));
    let chain = verdict.check("foreign/acta/chain").unwrap();
    assert_eq!((chain.status, chain.required, chain.count("no-chain")), (Status::NotChecked, false, 1));
}

#[test]
fn the_state_of_a_delegation_at_execution_is_held_against_the_one_that_was_signed() {
    let state = |status: &str| json!({"delegation_id": "dlg-1", "scope": ["file.read"], "status": status});
    let hash = |state: &Value| receipt::Digest::of_json(state).to_string();
    let mut signed = unsigned("acta", 0, None, "x");
    signed["payload"]["state_hash_at_signing"] = json!(hash(&state("active")));
    let signed = sign("acta", GOOD, signed);
    let same = of("acta", &[signed.clone(), state("active")]);
    assert_eq!((status(&same, "acta", "state"), same.exit_code), (Status::Ok, 0), "{}", told(&same));
    let drift = of("acta", &[signed.clone(), state("revoked")]);
    assert_eq!(failing(&drift, "acta"), ["state-drift"], "{}", told(&drift));
    assert_eq!(status(&drift, "acta", "signature"), Status::Ok);
    // Both states carried: the later one counts.
    let both = of("acta", &[signed.clone(), state("active"), state("revoked")]);
    assert_eq!(failing(&both, "acta"), ["state-drift"], "{}", told(&both));
    let unseen = of("acta", std::slice::from_ref(&signed));
    assert_eq!((unseen.count("state-unseen"), unseen.exit_code), (1, 2), "{}", told(&unseen));
    let elsewhere = json!({"delegation_id": "dlg-2", "status": "active"});
    assert_eq!(of("acta", &[signed.clone(), elsewhere]).count("state-unseen"), 1);
    // A receipt without its signature is no state.
    let mut unsigned = signed;
    unsigned.as_object_mut().unwrap().remove("signature");
    unsigned["delegation_id"] = json!("dlg-1");
    assert!(import_lines("acta", &unsigned.to_string()).is_err());
}

#[test]
fn a_file_may_be_lines_one_value_spread_out_several_or_an_array() {
    for format in FORMATS {
        let receipts = chain(format, GOOD, 2);
        let pretty: Vec<String> = receipts.iter().map(|one| serde_json::to_string_pretty(one).unwrap()).collect();
        let array = serde_json::to_string_pretty(&receipts).unwrap();
        let lines_of = |text: &str| import_lines(format, text).unwrap().iter().map(|one| one.line).collect::<Vec<_>>();
        assert_eq!(lines_of(&text(&receipts)), [1, 2]);
        assert_eq!(lines_of(&pretty[0]), [1]);
        assert_eq!(lines_of(&format!("\n{}\r\n\n{}", pretty[0], pretty[1])), [2, pretty[0].lines().count() + 3]);
        assert_eq!(lines_of(&array).len(), 2);
        for whole in [pretty.join("\n"), array, format!("{}{}", text(&receipts[..1]), pretty[1])] {
            let verdict = judged(&imported(format, &whole), &pin(format, GOOD));
            assert_eq!(verdict.exit_code, 0, "{}", told(&verdict));
        }
        // The exact bytes of each, and nothing around them.
        let record = import_lines(format, &format!("  {}\n", pretty[0])).unwrap().remove(0);
        let body: Value = serde_json::from_str(&record.body_json).unwrap();
        let bytes = merkle::decode_base64(body["receipt_b64"].as_str().unwrap()).unwrap();
        assert_eq!(String::from_utf8(bytes).unwrap(), pretty[0]);
        // What is wrong is named by its line.
        let error = import_lines(format, &format!("{}\n{{\"a\":1}}\n", receipts[0])).unwrap_err().to_string();
        assert!(error.starts_with("line 2: not a record of this format: "), "{error}");
        let error = import_lines(format, &format!("{}\n{{\"a\":}}\n", receipts[0])).unwrap_err().to_string();
        assert!(error.starts_with("line 2: "), "{error}");
    }
}

#[test]
fn a_value_carried_in_the_clear_is_read_as_well() {
    for format in FORMATS {
        let mut world = World::new();
        for receipt in chain(format, GOOD, 2) {
            world.log_body(0, &json!({"type": "foreign", "format": format, "receipt": receipt}).to_string());
        }
        world.seal();
        let verdict = judged(&world, &pin(format, GOOD));
        assert_eq!(verdict.exit_code, 0, "{}", told(&verdict));
    }
}

#[test]
fn a_pinned_jwks_may_be_written_in_or_read_from_beside() {
    let x = merkle::encode_base64(testkit::signed_records::key(GOOD).verifier().public_key_bytes());
    let x = x.replace('+', "-").replace('/', "_").replace('=', "");
    let jwks = format!(r#"{{"keys":[{{"kty":"OKP","crv":"Ed25519","kid":"{KID}","x":"{x}"}}]}}"#);
    let world = imported("acta", &text(&chain("acta", GOOD, 1)));
    let inline = Rules::parse(&format!("[[foreign_jwks]]\nformat = \"acta\"\njwks = '{jwks}'\n")).unwrap();
    assert_eq!(world.audit_by(&world.bundle(), &inline).exit_code, 0);
    let named = "[[foreign_jwks]]\nformat = \"acta\"\njwks_file = \"keys.json\"\n";
    assert!(Rules::parse(named).is_err(), "no file is read here");
    let read = Rules::parse_with(named, &mut |name| {
        assert_eq!(name, "keys.json");
        Ok(jwks.clone())
    });
    assert_eq!(world.audit_by(&world.bundle(), &read.unwrap()).exit_code, 0);
    for both in [format!("{named}jwks = '{jwks}'\n"), "[[foreign_jwks]]\nformat = \"acta\"\n".to_owned()] {
        assert!(Rules::parse(&both).is_err());
    }
}

#[test]
fn going_on_from_a_saved_state_ends_like_reading_everything() {
    for format in FORMATS {
        let receipts = chain(format, GOOD, 5);
        // A fork, a replay and a gap on either side of the save.
        let mut world = World::new();
        let carry_all = |world: &mut World, receipts: &[&Value]| {
            receipts.iter().for_each(|receipt| carry(world, 0, format, &receipt.to_string()));
            world.seal();
        };
        let fork = other(format, GOOD, 1, &receipts[0]);
        carry_all(&mut world, &[&receipts[0], &receipts[1]]);
        let audit = |world: &World, seed: u8, since: Option<audit::SavedAudit>| {
            let (policy, issuers, rules) = (world.policy(), world.issuers(), Rules::parse(&pin(format, seed)).unwrap());
            let terms = audit::Terms {
                policy: &policy,
                issuers: &issuers,
                rules: &rules,
                at: None,
                max_age_ms: None,
                outcome_deadline_ms: None,
                threads: 1,
                progress: &|_, _| {},
            };
            audit::audit_since(&world.bundle(), &terms, since, true)
        };
        let state = audit(&world, GOOD, None).unwrap().state.unwrap().unwrap();
        let saved = || Some(audit::SavedAudit::parse(&state).unwrap());
        carry_all(&mut world, &[&fork, &receipts[1], &receipts[2], &receipts[4]]);
        let further = audit(&world, GOOD, saved()).unwrap().verdict;
        let full = audit(&world, GOOD, None).unwrap().verdict;
        let told_of = |verdict: &Verdict| -> Vec<String> {
            let checks = verdict.checks.iter().filter(|check| check.id().starts_with("foreign/"));
            checks
                .map(|check| format!("{} {} {} {:?}", check.id(), check.status, check.covers, check.findings))
                .collect()
        };
        assert_eq!(told_of(&further), told_of(&full));
        let gap = if format == "acta" { "link-broken" } else { "sequence-gap" };
        assert_eq!(failing(&full, format), ["chain-fork", gap], "{}", told(&full));
        // What was judged under another key is not gone on from.
        assert!(audit(&world, EVIL, saved()).is_err());
    }
}

/// The real file of this name, or `None`, loudly, where the case files are not there.
fn case(name: &str) -> Option<String> {
    let file = testkit::shared_dir().map(|shared| shared.join("cases/foreign").join(name));
    let text = file.and_then(|file| std::fs::read_to_string(file).ok());
    if text.is_none() {
        // Not eprintln!: the harness keeps that to itself, and a skipped check has to be seen.
        let mut stderr = std::io::stderr();
        writeln!(stderr, "SKIPPED: {name} is not beside the checkout; only our own samples were checked").unwrap();
    }
    text
}

#[test]
fn the_real_receipt_of_acta_is_ok_under_its_jwks_and_the_drift_pair_is_told() {
    let Some(jwks) = case("acta/jwks.json") else { return };
    let rules = format!("[[foreign_jwks]]\nformat = \"acta\"\nissuer = \"aps:gateway:test\"\njwks = '''{jwks}'''\n");
    let file = |name: &str| case(&format!("acta/{name}")).unwrap();
    let receipt = file("receipt.json");
    let verdict = judged(&imported("acta", &receipt), &rules);
    assert_eq!(verdict.exit_code, 0, "{}", told(&verdict));
    assert_eq!(status(&verdict, "acta", "signature"), Status::Ok);
    let changed = receipt.replace("\"allow\"", "\"deny\"");
    assert_eq!(failing(&judged(&imported("acta", &changed), &rules), "acta"), ["foreign-signature-bad"]);
    let pair = |state: &str| {
        let records = format!("{}\n{}", file("drift-receipt.json"), file(state));
        judged(&imported("acta", &records), &rules)
    };
    let drift = pair("drift-state-at-execution.json");
    assert_eq!(failing(&drift, "acta"), ["state-drift"], "{}", told(&drift));
    let expected: Value = serde_json::from_str(&file("drift-expected-output.json")).unwrap();
    let shown = &drift.check("foreign/acta/state").unwrap().findings[0].shown;
    for hash in ["state_hash_at_signing", "state_hash_at_execution"] {
        assert!(shown.contains(expected[hash].as_str().unwrap()), "{shown}");
    }
    // The receipt itself is good: the world changed.
    assert_eq!(status(&drift, "acta", "signature"), Status::Ok);
    assert_eq!(pair("drift-state-at-signing.json").exit_code, 0);
}

#[test]
fn the_real_vectors_of_obsigna_verify_and_its_example_chain_does_not_link() {
    let Some(vectors) = case("obsigna/v050_vectors.json") else { return };
    let vectors: Value = serde_json::from_str(&vectors).unwrap();
    let pem = vectors["keys"]["publicKey"].as_str().unwrap();
    let rules = |kid: &str| format!("[[foreign_key]]\nformat = \"obsigna\"\nkid = \"{kid}\"\nkey = '''{pem}'''\n");
    for name in ["runtimeReceipt", "extendedRuntimeReceipt", "rootAgentReceipt"] {
        let receipt = &vectors[name]["receipt"];
        assert_eq!(vectors[name]["expectedValid"], true);
        let world = imported("obsigna", &receipt.to_string());
        let verdict = judged(&world, &rules("did:agent:test#key-1"));
        assert_eq!(verdict.exit_code, 0, "{name} {}", told(&verdict));
        assert_eq!(judged(&world, &rules("did:agent:other#key-1")).exit_code, 2, "{name}");
    }
    let go: Value = serde_json::from_str(&case("obsigna/go_vectors.json").unwrap()).unwrap();
    let signed = go["signing"]["signed"].to_string();
    let verdict = judged(&imported("obsigna", &signed), &rules("did:agent:test-agent#key-1"));
    assert_eq!(verdict.exit_code, 0, "{}", told(&verdict));
    let chain: String = (1..=3).map(|number| case(&format!("obsigna/chain-receipt-{number}.json")).unwrap()).collect();
    let verdict = judged(&imported("obsigna", &chain), "");
    assert_eq!(failing(&verdict, "obsigna"), ["link-broken", "link-broken"], "{}", told(&verdict));
    // Its signatures are placeholders too, whatever key is pinned.
    let verdict = judged(&imported("obsigna", &chain), &rules("did:agent:file-manager-agent-001#key-1"));
    assert_eq!(verdict.count("foreign-signature-bad"), 3, "{}", told(&verdict));
}

#[test]
fn the_real_chains_of_pipelock_hold_and_break_at_the_right_link() {
    let Some(key) = case("pipelock/test-key.json") else { return };
    let key: Value = serde_json::from_str(&key).unwrap();
    let rules = format!("[[foreign_key]]\nformat = \"pipelock\"\nkey = {}\n", key["public_key_hex"]);
    let file = |name: &str| imported("pipelock", &case(&format!("pipelock/{name}")).unwrap());
    for name in ["valid-single.json", "valid-chain.jsonl"] {
        let verdict = judged(&file(name), &rules);
        assert_eq!(verdict.exit_code, 0, "{name} {}", told(&verdict));
        for check in ["record", "signature", "chain"] {
            assert_eq!(status(&verdict, "pipelock", check), Status::Ok, "{name}");
        }
        // The receipts name their key themselves, and that is worth nothing.
        let verdict = judged(&file(name), "");
        assert_eq!((verdict.exit_code, status(&verdict, "pipelock", "signature")), (2, Status::NotChecked), "{name}");
    }
    let verdict = judged(&file("broken-chain.jsonl"), &rules);
    assert_eq!(status(&verdict, "pipelock", "signature"), Status::Ok);
    let chain = verdict.check("foreign/pipelock/chain").unwrap();
    let broken: Vec<_> = chain.findings.iter().filter(|finding| finding.code == "link-broken").collect();
    // Entry 0 is the gate's own first receipt; number 3 of the chain is the fourth line.
    assert_eq!(broken[0].receipts[0].index, Some(4), "{}", told(&verdict));
    assert!(broken[0].shown.contains("deadbeef"), "{}", broken[0].shown);
}
