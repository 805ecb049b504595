//! `receipts.json`: entries that are receipts to the byte, and entries that are none.

use super::{ISSUER, START, VectorFile, b64, issuer_key, key, seed, with};
use note::{KeyKind, SigningKey, Strict, VerifierKey, sign_note};
use receipt::{
    IssuerName, IssuerState, MAX_ENTRY, Receipt, ReceiptId, ReceiptText, SeqNo, UnixMillis, check_signature,
    is_issued_under,
};
use serde_json::{Value, json};

pub(super) fn receipts() -> VectorFile {
    let mut cases = good();
    cases.extend(hostile().into_iter().map(|(name, entry)| judged(&name, &entry)));
    VectorFile {
        name: "receipts.json",
        about: "With seed_hex: signing the text gives entry_b64 (two seeds: a rotate, old key first), which reads back, has id_hex and is signed under vkey. With code: why entry_b64 is no receipt; or bad-signature or unknown-issuer, where it is one and not the issuer's whose only key is vkey.",
        cases,
    }
}

/// An entry's case: what reading it gives, and then checking its signature lines under the first key.
fn judged(name: &str, entry: &[u8]) -> Value {
    let vkey = issuer_key(0).verifier();
    json!({"name": name, "vkey": vkey, "entry_b64": b64(entry), "code": code(entry, &vkey)})
}

fn code(entry: &[u8], vkey: &VerifierKey) -> Option<&'static str> {
    let receipt = match Receipt::parse(entry) {
        Ok(receipt) => receipt,
        Err(malformed) => return Some(malformed.code()),
    };
    let state = IssuerState::registered(vkey.clone());
    match check_signature(&receipt, &state, &Strict) {
        Err(refusal) => Some(refusal.code.as_str()),
        Ok(_) if is_issued_under(&receipt, vkey, &Strict) => None,
        Ok(_) => Some("bad-signature"),
    }
}

fn good() -> Vec<Value> {
    let first = issuer_key(0).verifier();
    let some = ReceiptId::of(b"another receipt");
    let open = json!({"type": "open", "vkey": first}).to_string();
    let padding =
        "x".repeat(MAX_ENTRY - text(7, some, START, r#"{"type":"note","pad":""}"#).to_string().len() - LINE_LEN);
    let table = [
        ("an open", 0, ReceiptId::NONE, START, open),
        ("a decision", 1, some, START + 5, r#"{"type":"decision","request_id":"r-1","decision":"allow","authenticated":true,"executes":"gate"}"#.to_owned()),
        ("a body with spaces and escapes, signed as it stands", 2, some, START, "{ \"type\" : \"note\" , \"a\\u0062c\" : [ 1.50 , \"\\/ prüfen ✓\" ] }".to_owned()),
        ("an unknown type with unknown members", 3, some, START, r#"{"type":"x/y","n":-0.0,"o":{"p":[null]}}"#.to_owned()),
        ("a heartbeat", 4, some, START, r#"{"type":"heartbeat"}"#.to_owned()),
        ("the greatest seq and time", u64::MAX, some, u64::MAX, r#"{"type":"heartbeat"}"#.to_owned()),
        ("time zero", 5, some, 0, r#"{"type":"heartbeat"}"#.to_owned()),
        ("a committed member", 6, some, START, json!({"type": "decision", "request_id": "r-2", "decision": "deny", "operation": {"#": format!("sha256:{}", "ab".repeat(32))}, "authenticated": true, "executes": "none"}).to_string()),
        ("the longest entry", 7, some, START, format!(r#"{{"type":"note","pad":"{padding}"}}"#)),
    ];
    let mut cases: Vec<Value> = table
        .into_iter()
        .map(|(name, seq, prev, at, body)| made(name, &text(seq, prev, at, &body), &[(0, &issuer_key(0))]))
        .collect();
    let rotate = json!({"type": "rotate", "vkey": issuer_key(1).verifier()}).to_string();
    cases.push(made("a rotate", &text(8, some, START, &rotate), &[(0, &issuer_key(0)), (1, &issuer_key(1))]));
    cases
}

/// Bytes of the signature line of the issuer's key, with the blank line before it.
const LINE_LEN: usize = 1 + "— ".len() + ISSUER.len() + 1 + 92 + 1;

fn text(seq: u64, prev: ReceiptId, at: u64, body: &str) -> ReceiptText {
    let issuer = IssuerName::new(ISSUER).expect("the issuer's name is a name");
    ReceiptText { issuer, seq: SeqNo(seq), prev, issued_at: UnixMillis(at), body: body.to_owned() }
}

fn made(name: &str, text: &ReceiptText, keys: &[(u8, &SigningKey)]) -> Value {
    let signers: Vec<&SigningKey> = keys.iter().map(|(_, key)| *key).collect();
    let entry = sign_note(&text.to_string(), &signers).expect("the texts of the vectors can be signed");
    let vkey = issuer_key(0).verifier();
    assert_eq!(code(&entry, &vkey), None, "{name}");
    let case = json!({
        "name": name, "vkey": vkey, "seed_hex": hex::encode(seed(0)), "issuer": text.issuer, "seq": text.seq.to_string(),
        "prev_b64": text.prev.0.to_base64(), "issued_at": text.issued_at.to_string(), "body": text.body,
        "entry_b64": b64(&entry), "id_hex": ReceiptId::of(&entry),
    });
    match keys.get(1) {
        Some((number, _)) => with(case, "next_seed_hex", json!(hex::encode(seed(*number)))),
        None => case,
    }
}

const HEARTBEAT: &str = r#"{"type":"heartbeat"}"#;

fn hostile() -> Vec<(String, Vec<u8>)> {
    let signed = |text: &str| sign_note(text, &[&issuer_key(0)]).expect("only texts that can be signed");
    let lines = |lines: [&str; 6]| signed(&format!("{}\n", lines.join("\n")));
    let prev = ReceiptId::of(b"another receipt").0.to_base64();
    let zeroes = ReceiptId::NONE.0.to_base64();
    let magic = receipt::MAGIC;
    let of = |seq: &str, prev: &str, at: &str, body: &str| lines([magic, ISSUER, seq, prev, at, body]);
    let body = |body: &str| of("1", &prev, "1790000000000", body);
    let good = body(HEARTBEAT);
    let good_text = String::from_utf8(good.clone()).expect("a note is UTF-8");
    let spliced = |from: &str, to: &str| good_text.replacen(from, to, 1).into_bytes();

    let mut cases: Vec<(String, Vec<u8>)> = vec![
        ("the receipt that the others are made of".into(), good.clone()),
        ("nothing".into(), Vec::new()),
        ("seven lines".into(), signed(&format!("{magic}\n{ISSUER}\n1\n{prev}\n1\n{HEARTBEAT}\nmore\n"))),
        ("five lines".into(), signed(&format!("{magic}\n{ISSUER}\n1\n{prev}\n{HEARTBEAT}\n"))),
        ("an empty seventh line".into(), signed(&format!("{magic}\n{ISSUER}\n1\n{prev}\n1\n{HEARTBEAT}\n\n"))),
        ("the body on two lines".into(), body("{\"type\":\n\"heartbeat\"}")),
        ("another version".into(), lines(["counterfoil/receipt/v2", ISSUER, "1", &prev, "1", HEARTBEAT])),
        ("the first line in upper case".into(), lines(["Counterfoil/receipt/v1", ISSUER, "1", &prev, "1", HEARTBEAT])),
        (
            "a space behind the first line".into(),
            lines(["counterfoil/receipt/v1 ", ISSUER, "1", &prev, "1", HEARTBEAT]),
        ),
        ("an empty issuer".into(), lines([magic, "", "1", &prev, "1", HEARTBEAT])),
        ("an issuer with a space".into(), lines([magic, "gate example", "1", &prev, "1", HEARTBEAT])),
        ("an issuer with a plus".into(), lines([magic, "gate+example", "1", &prev, "1", HEARTBEAT])),
        ("an issuer with a no-break space".into(), lines([magic, "gate\u{a0}example", "1", &prev, "1", HEARTBEAT])),
        (
            "an issuer with an ogham space mark".into(),
            lines([magic, "gate\u{1680}example", "1", &prev, "1", HEARTBEAT]),
        ),
        (
            "an issuer with a narrow no-break space".into(),
            lines([magic, "gate\u{202f}example", "1", &prev, "1", HEARTBEAT]),
        ),
        (
            "an issuer with a next line character".into(),
            lines([magic, "gate\u{85}example", "1", &prev, "1", HEARTBEAT]),
        ),
        ("an issuer of 256 bytes".into(), lines([magic, &"n".repeat(256), "1", &prev, "1", HEARTBEAT])),
        ("another issuer".into(), lines([magic, "gate.example/support-2", "1", &prev, "1", HEARTBEAT])),
        ("an issuer that differs in case".into(), lines([magic, "Gate.example/support-1", "1", &prev, "1", HEARTBEAT])),
    ];
    let heads: [(&str, &str, &str, &str); 26] = [
        ("a leading zero in seq", "01", &prev, "1"),
        ("a double zero as seq", "00", &zeroes, "1"),
        ("a sign in seq", "+1", &prev, "1"),
        ("a negative seq", "-1", &prev, "1"),
        ("an empty seq", "", &prev, "1"),
        ("a space before seq", " 1", &prev, "1"),
        ("a space behind seq", "1 ", &prev, "1"),
        ("a seq of 2^64", "18446744073709551616", &prev, "1"),
        ("a seq of thirty digits", "100000000000000000000000000001", &prev, "1"),
        ("a seq with a fraction", "1.0", &prev, "1"),
        ("a seq with an exponent", "1e3", &prev, "1"),
        ("a hexadecimal seq", "0x1", &prev, "1"),
        ("digits of another script in seq", "\u{661}", &prev, "1"),
        ("full-width digits in seq", "\u{ff11}", &prev, "1"),
        ("an underscore in seq", "1_0", &prev, "1"),
        ("an empty prev", "1", "", "1"),
        ("a prev without padding", "1", prev.trim_end_matches('='), "1"),
        ("a prev in hex", "1", "5d92c50332615f7def021f7059da39bc84e8a125c69b7af1817c941e5ce0488b", "1"),
        ("a prev of 31 bytes", "1", "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA==", "1"),
        ("a prev of 33 bytes", "1", "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA", "1"),
        ("unused bits in prev", "1", "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAB=", "1"),
        ("a prev in the other alphabet", "1", "__________________________________________8=", "1"),
        ("a prev at seq 0", "0", &prev, "1"),
        ("a leading zero in the time", "1", &prev, "01790000000000"),
        ("a time of 2^64", "1", &prev, "18446744073709551616"),
        ("a time as text", "1", &prev, "2026-09-21T14:13:20Z"),
    ];
    cases.extend(heads.into_iter().map(|(name, seq, prev, at)| (name.to_owned(), of(seq, prev, at, HEARTBEAT))));
    cases.push(("a time with a fraction".into(), of("1", &prev, "1.5", HEARTBEAT)));
    cases.push(("an empty time".into(), of("1", &prev, "", HEARTBEAT)));
    cases.extend(BODIES.iter().map(|(name, text)| ((*name).to_owned(), body(text))));
    cases.extend([
        ("a carriage return behind a line".into(), spliced("\n1\n", "\r\n1\n")),
        ("carriage returns behind all lines".into(), good_text.replace('\n', "\r\n").into_bytes()),
        ("a tab in the body".into(), spliced("{\"type\"", "{\t\"type\"")),
        ("a zero byte in the body".into(), spliced("heart", "he\0rt")),
        (
            "a delete character in the body, which is no control here".into(),
            body("{\"type\":\"note\",\"a\":\"\u{7f}\"}"),
        ),
        ("bytes that are no UTF-8".into(), [&good[..30], b"\xff", &good[30..]].concat()),
        ("an overlong line end".into(), [&good[..22], b"\xc0\x8a", &good[22..]].concat()),
        ("a byte order mark".into(), [b"\xef\xbb\xbf", &good[..]].concat()),
        ("a trailing newline".into(), [&good[..], b"\n"].concat()),
        ("a trailing byte".into(), [&good[..], b"x"].concat()),
        ("the last newline missing".into(), good[..good.len() - 1].to_vec()),
        ("no signature".into(), spliced(good_text.split("\n\n").nth(1).unwrap_or_default(), "")),
        ("no blank line".into(), good_text.replace("\n\n", "\n").into_bytes()),
        ("two blank lines".into(), good_text.replace("\n\n", "\n\n\n").into_bytes()),
    ]);
    cases.extend(signatures(&good_text, &prev));
    cases.extend(lengths(&prev));
    cases
}

/// Bodies that are no bodies, and a few odd ones that are.
const BODIES: &[(&str, &str)] = &[
    ("an array as body", "[]"),
    ("a space before the body", " {\"type\":\"heartbeat\"}"),
    ("a space behind the body", "{\"type\":\"heartbeat\"} "),
    ("two objects in the body", "{\"type\":\"heartbeat\"}{}"),
    ("an object and a comma and an object", "{\"type\":\"heartbeat\"},{}"),
    ("a body that is cut", "{\"type\":\"heartbeat\",}"),
    ("an empty body", "{}"),
    ("a type that is no string", "{\"type\":1}"),
    (
        "a committed type",
        "{\"type\":{\"#\":\"sha256:0000000000000000000000000000000000000000000000000000000000000000\"}}",
    ),
    ("an empty type", "{\"type\":\"\"}"),
    ("a member twice", "{\"type\":\"note\",\"a\":1,\"a\":1}"),
    ("the type twice, once escaped", "{\"type\":\"note\",\"\\u0074ype\":\"heartbeat\"}"),
    ("a lone surrogate in the body", "{\"type\":\"note\",\"a\":\"\\ud800\"}"),
    ("a noncharacter in the body", "{\"type\":\"note\",\"a\":\"\u{ffff}\"}"),
    ("a number beyond the bound in the body", "{\"type\":\"note\",\"a\":9007199254740993}"),
    ("a number beyond every double in the body", "{\"type\":\"note\",\"a\":1e400}"),
    (
        "a body nested too deep",
        "{\"type\":\"note\",\"a\":[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]}",
    ),
    (
        "a decision without a request",
        "{\"type\":\"decision\",\"decision\":\"allow\",\"authenticated\":true,\"executes\":\"gate\"}",
    ),
    (
        "a decision of another word",
        "{\"type\":\"decision\",\"request_id\":\"r\",\"decision\":\"permit\",\"authenticated\":true,\"executes\":\"gate\"}",
    ),
    (
        "a decision with a number for a bool",
        "{\"type\":\"decision\",\"request_id\":\"r\",\"decision\":\"allow\",\"authenticated\":1,\"executes\":\"gate\"}",
    ),
    (
        "null is not absent",
        "{\"type\":\"decision\",\"request_id\":\"r\",\"decision\":\"allow\",\"authenticated\":true,\"executes\":\"gate\",\"why\":null}",
    ),
    (
        "a subject that is no string",
        "{\"type\":\"decision\",\"request_id\":\"r\",\"decision\":\"allow\",\"authenticated\":true,\"executes\":\"gate\",\"subjects\":[\"a\",1]}",
    ),
    (
        "a digest in upper case",
        "{\"type\":\"decision\",\"request_id\":\"r\",\"decision\":\"allow\",\"authenticated\":true,\"executes\":\"gate\",\"args_digest\":\"sha256:ABCDEF0000000000000000000000000000000000000000000000000000000000\"}",
    ),
    (
        "a prior head that is no id",
        "{\"type\":\"decision\",\"request_id\":\"r\",\"decision\":\"allow\",\"authenticated\":true,\"executes\":\"gate\",\"prior_heads\":{\"a\":\"b\"}}",
    ),
    (
        "a commitment with a member more, where a string belongs",
        "{\"type\":\"decision\",\"request_id\":\"r\",\"decision\":\"allow\",\"authenticated\":true,\"executes\":\"gate\",\"why\":{\"#\":\"sha256:0000000000000000000000000000000000000000000000000000000000000000\",\"a\":1}}",
    ),
    (
        "max_calls written as a fraction, which is whole",
        "{\"type\":\"decision\",\"request_id\":\"r\",\"decision\":\"allow\",\"authenticated\":true,\"executes\":\"gate\",\"capability\":{\"max_calls\":0.3e1}}",
    ),
    (
        "max_calls that is not whole",
        "{\"type\":\"decision\",\"request_id\":\"r\",\"decision\":\"allow\",\"authenticated\":true,\"executes\":\"gate\",\"capability\":{\"max_calls\":1.5}}",
    ),
    (
        "max_calls below zero",
        "{\"type\":\"decision\",\"request_id\":\"r\",\"decision\":\"allow\",\"authenticated\":true,\"executes\":\"gate\",\"capability\":{\"max_calls\":-1}}",
    ),
    (
        "max_calls of minus zero",
        "{\"type\":\"decision\",\"request_id\":\"r\",\"decision\":\"allow\",\"authenticated\":true,\"executes\":\"gate\",\"capability\":{\"max_calls\":-0}}",
    ),
    ("an outcome without executed", "{\"type\":\"outcome\",\"request_id\":\"r\"}"),
    ("an outcome of a decision that is no id", "{\"type\":\"outcome\",\"executed\":false,\"decision\":\"r-1\"}"),
    ("an approval of another word", "{\"type\":\"approval\",\"verdict\":\"yes\"}"),
    ("an open without vkey, which is refused at admission only", "{\"type\":\"open\"}"),
    ("a foreign receipt that is no base64", "{\"type\":\"foreign\",\"receipt_b64\":\"a\"}"),
    ("a dropped receipt without a count", "{\"type\":\"dropped\",\"why\":\"full\"}"),
    ("a dropped receipt of another word", "{\"type\":\"dropped\",\"count\":1,\"why\":\"tired\"}"),
    ("an outcome that is unknown", "{\"type\":\"outcome\",\"executed\":false,\"unknown\":true}"),
    ("an outcome whose unknown is no bool", "{\"type\":\"outcome\",\"executed\":false,\"unknown\":\"yes\"}"),
    (
        "a history that is no object",
        "{\"type\":\"decision\",\"request_id\":\"r\",\"decision\":\"allow\",\"authenticated\":true,\"executes\":\"gate\",\"history\":12}",
    ),
    (
        "a history whose size is no number",
        "{\"type\":\"decision\",\"request_id\":\"r\",\"decision\":\"allow\",\"authenticated\":true,\"executes\":\"gate\",\"history\":{\"size\":\"12\"}}",
    ),
    (
        "a dropped receipt",
        "{\"type\":\"dropped\",\"count\":3,\"since\":1790000000000,\"until\":1790000000001,\"why\":\"full\"}",
    ),
];

/// Signature lines that are wrong in every way we could think of.
fn signatures(good: &str, prev: &str) -> Vec<(String, Vec<u8>)> {
    let text = good.split_once("\n\n").map(|(text, _)| format!("{text}\n")).unwrap_or_default();
    let line = good.split("\n\n").nth(1).unwrap_or_default().trim_end().to_owned();
    let lines = |lines: &[&str]| format!("{text}\n{}\n", lines.join("\n")).into_bytes();
    let other_name = key("gate.example/support-2", KeyKind::Ed25519, 0);
    let second_key = issuer_key(1);
    let (name, blob) = line.rsplit_once(' ').unwrap_or_default();
    let bytes = merkle::decode_base64(blob).unwrap_or_default();
    let with_bytes = |bytes: &[u8]| format!("{name} {}", b64(bytes));
    let mut flipped = bytes.clone();
    flipped[40] ^= 1;
    let mut other_id = bytes.clone();
    other_id[0] ^= 1;
    let sign = |keys: &[&SigningKey]| sign_note(&text, keys).expect("the text of a receipt can be signed");
    let witness = key(ISSUER, KeyKind::CosignatureV1, 0);
    let cosignature_like = [&witness.verifier().id().0[..], &[0, 0, 0, 0, 0, 0, 0, 1], &bytes[4..]].concat();
    let heartbeat = |keys: &[&SigningKey]| {
        let rotate = json!({"type": "rotate", "vkey": second_key.verifier()}).to_string();
        let text = format!("{}\n{ISSUER}\n1\n{prev}\n1\n{rotate}\n", receipt::MAGIC);
        sign_note(&text, keys).expect("the text of a receipt can be signed")
    };
    let first = issuer_key(0);
    vec![
        ("a bit of the signature changed".into(), lines(&[&with_bytes(&flipped)])),
        (
            "the signature of another key under this one's id".into(),
            lines(&[&with_bytes(&[&bytes[..4], &signature_of(&sign(&[&second_key]))[..]].concat())]),
        ),
        ("an unknown key id under the issuer's name".into(), lines(&[&with_bytes(&other_id)])),
        ("the issuer's next key".into(), sign(&[&second_key])),
        ("a line under another name".into(), sign(&[&other_name])),
        ("a second line of the same key".into(), lines(&[&line, &line])),
        ("a second line of the next key".into(), sign(&[&first, &second_key])),
        ("a second line under another name".into(), sign(&[&first, &other_name])),
        ("another name's line first".into(), sign(&[&other_name, &first])),
        ("a line of an unknown kind behind".into(), lines(&[&line, &with_bytes(&cosignature_like)])),
        ("a line of an unknown kind alone".into(), lines(&[&with_bytes(&cosignature_like)])),
        ("a signature of 63 bytes".into(), lines(&[&with_bytes(&bytes[..67])])),
        ("a signature of 65 bytes".into(), lines(&[&with_bytes(&[&bytes[..], &[0]].concat())])),
        ("a key id alone".into(), lines(&[&with_bytes(&bytes[..4])])),
        ("three bytes".into(), lines(&[&with_bytes(&bytes[..3])])),
        ("a hyphen in place of the dash".into(), lines(&[&line.replace('—', "-")])),
        ("two spaces in the line".into(), lines(&[&line.replacen("— ", "—  ", 1)])),
        ("a no-break space in the line".into(), lines(&[&line.replacen("— ", "—\u{a0}", 1)])),
        ("a space behind the line".into(), lines(&[&format!("{line} ")])),
        ("a signature without padding".into(), lines(&[line.trim_end_matches('=')])),
        (
            "a signature in the other alphabet".into(),
            lines(&[&line
                .replace('+', "-")
                .replace("gate.example/", "gate.example#")
                .replace('/', "_")
                .replace('#', "/")]),
        ),
        ("64 lines".into(), lines(&vec![line.as_str(); 64])),
        ("65 lines".into(), lines(&vec![line.as_str(); 65])),
        ("a rotate with one line".into(), heartbeat(&[&first])),
        ("a rotate with three lines".into(), heartbeat(&[&first, &second_key, &issuer_key(2)])),
        ("a rotate with the new key's line first".into(), heartbeat(&[&second_key, &first])),
        ("a rotate with a line under another name".into(), heartbeat(&[&first, &other_name])),
    ]
}

fn signature_of(note: &[u8]) -> Vec<u8> {
    let note = note::SignedNote::parse(note).expect("a note that was just signed");
    note.signatures().first().map(|line| line.blob.clone()).unwrap_or_default()
}

/// One byte too many; that the longest entry is one is among the good ones.
fn lengths(prev: &str) -> Vec<(String, Vec<u8>)> {
    let entry = |length: usize| {
        let with_pad = |pad: usize| {
            let text = format!(
                "{}\n{ISSUER}\n1\n{prev}\n1\n{{\"type\":\"note\",\"pad\":\"{}\"}}\n",
                receipt::MAGIC,
                "x".repeat(pad)
            );
            sign_note(&text, &[&issuer_key(0)]).expect("the text of a receipt can be signed")
        };
        with_pad(length - with_pad(0).len())
    };
    vec![(format!("an entry of {} bytes", MAX_ENTRY + 1), entry(MAX_ENTRY + 1))]
}
