//! Random sequences of entries, judged by the rule and by a naive model side by side.
//!
//! The model keeps nothing but the bytes of what was admitted and works everything out again from the first
//! receipt on, with string operations and a generic JSON reader: slow, and written in another way on purpose.

#![allow(clippy::unwrap_used, clippy::panic)]

use crate::id::{ReceiptId, UnixMillis};
use crate::receipt::Receipt;
use crate::sample::{Held, NAME, START, decision_body, key, named_key, rotate_body, signed};
use merkle::{decode_base64, encode_base64};
use note::{NoteSignature, SigningKey, VerifierKey};
use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::TestRunner;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use std::collections::BTreeSet;

/// An entry, taken apart with nothing but string operations.
struct Plain {
    text: String,
    seq: usize,
    prev: String,
    issued_at: u64,
    body: Value,
    /// Name, key id and signature of each line.
    lines: Vec<(String, Vec<u8>, Vec<u8>)>,
}

fn plain(entry: &[u8]) -> Option<Plain> {
    let entry = std::str::from_utf8(entry).ok()?;
    let (text, lines) = entry.rsplit_once("\n\n")?;
    let fields: Vec<&str> = text.split('\n').collect();
    if fields.first() != Some(&"counterfoil/receipt/v1") {
        return None;
    }
    let lines = lines.lines().map(|line| {
        let words: Vec<&str> = line.split(' ').collect();
        let blob = decode_base64(words[2]).unwrap();
        (words[1].to_owned(), blob[..4].to_vec(), blob[4..].to_vec())
    });
    Some(Plain {
        text: format!("{text}\n"),
        seq: fields[2].parse().unwrap(),
        prev: fields[3].to_owned(),
        issued_at: fields[4].parse().unwrap(),
        body: serde_json::from_str(fields[5]).unwrap(),
        lines: lines.collect(),
    })
}

fn verifies(plain: &Plain, line: usize, vkey: &str) -> bool {
    let (Some((name, id, signature)), Ok(vkey)) = (plain.lines.get(line), vkey.parse::<VerifierKey>()) else {
        return false;
    };
    let Ok(signature) = <[u8; 64]>::try_from(signature.as_slice()) else { return false };
    vkey.name().as_str() == name
        && vkey.id().0.as_slice() == id.as_slice()
        && vkey.verify(plain.text.as_bytes(), &signature)
}

/// What section 4 says of `entry`, given everything admitted so far.
fn model(registered: &str, admitted: &[Vec<u8>], entry: &[u8], now: Option<u64>) -> Result<(), &'static str> {
    let Some(offered) = plain(entry) else { return Err("malformed") };
    // The key of every receipt so far, and of all to come.
    let mut keys = vec![registered.to_owned()];
    for receipt in admitted {
        let body = plain(receipt).unwrap().body;
        let last = keys.last().unwrap().clone();
        keys.push(if body["type"] == "rotate" { body["vkey"].as_str().unwrap().to_owned() } else { last });
    }
    let is_rotate = offered.body["type"] == "rotate";
    if offered.lines.len() > 1 + usize::from(is_rotate) || offered.lines.iter().any(|(name, _, _)| name != NAME) {
        return Err("bad-signature");
    }
    let in_force = keys.get(offered.seq).unwrap_or(keys.last().unwrap());
    if !verifies(&offered, 0, in_force) {
        return Err("bad-signature");
    }
    let new_key = offered.body["vkey"].as_str().unwrap_or_default();
    let lacks_second_signature = is_rotate && !verifies(&offered, 1, new_key);
    if let Some(held) = admitted.get(offered.seq) {
        if held == entry {
            return Err("duplicate");
        }
        if !lacks_second_signature {
            return Err("fork");
        }
    }
    if offered.seq == admitted.len() {
        let head =
            admitted.last().map_or(vec![0; 32], |last| Sha256::digest([&[0], last.as_slice()].concat()).to_vec());
        if offered.prev != encode_base64(&head) {
            return Err("fork");
        }
    }
    if offered.seq > admitted.len() {
        return Err("gap");
    }
    if admitted.iter().any(|held| plain(held).unwrap().issued_at > offered.issued_at) {
        return Err("time-reversed");
    }
    if now.is_some_and(|now| offered.issued_at > now + 300_000) {
        return Err("future-dated");
    }
    if admitted.iter().any(|held| plain(held).unwrap().body["type"] == "close") {
        return Err("closed");
    }
    let is_open = offered.body["type"] == "open";
    if is_open != (offered.seq == 0) || is_open && offered.body["vkey"] != registered {
        return Err("bad-open");
    }
    if is_rotate && (lacks_second_signature || keys.iter().any(|used| used == new_key)) {
        return Err("bad-rotation");
    }
    Ok(())
}

/// What somebody does next. Numbers pick among what there is.
#[derive(Clone, Debug)]
enum Step {
    Next { body: u8, signers: u8, time: i8 },
    Again { which: u8 },
    Tamper { which: u8, how: u8 },
    AtHeldSeq { which: u8, body: u8 },
    OtherPrev { prev: u8, body: u8, signers: u8 },
    Ahead { by: u8, body: u8 },
    Junk,
}

fn any_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (any::<u8>(), any::<u8>(), -2_i8..30).prop_map(|(body, signers, time)| Step::Next { body, signers, time }),
        1 => any::<u8>().prop_map(|which| Step::Again { which }),
        1 => (any::<u8>(), any::<u8>()).prop_map(|(which, how)| Step::Tamper { which, how }),
        1 => (any::<u8>(), any::<u8>()).prop_map(|(which, body)| Step::AtHeldSeq { which, body }),
        1 => (any::<u8>(), any::<u8>(), any::<u8>()).prop_map(|(prev, body, signers)| Step::OtherPrev { prev, body, signers }),
        1 => (any::<u8>(), any::<u8>()).prop_map(|(by, body)| Step::Ahead { by, body }),
        1 => Just(Step::Junk),
    ]
}

fn body(pick: u8, held: &Held) -> String {
    if held.receipts.is_empty() && !pick.is_multiple_of(8) {
        return json!({"type": "open", "vkey": key(0).verifier()}).to_string();
    }
    match pick % 32 {
        0 => json!({"type": "open", "vkey": key(pick / 32 % 2).verifier()}).to_string(),
        1 => r#"{"type":"close"}"#.to_owned(),
        2 => r#"{"type":"rotate"}"#.to_owned(),
        3..=9 => rotate_body(pick / 32 % 4),
        10..=16 => r#"{"type":"heartbeat"}"#.to_owned(),
        _ => decision_body(pick.into()),
    }
}

/// Signs as the issuer should, or nearly so.
fn signers(pick: u8, body: &str, held: &Held) -> Vec<SigningKey> {
    let numbered = |vkey: &str| (0..4).find(|number| key(*number).verifier().to_string() == vkey);
    let in_force = numbered(&held.state.keys().current().to_string()).unwrap();
    let body: Value = serde_json::from_str(body).unwrap();
    let second = if body["type"] == "rotate" { body["vkey"].as_str().and_then(numbered) } else { None };
    let mut numbers = vec![in_force];
    numbers.extend(second);
    match pick % 16 {
        0 => numbers.truncate(1),
        1 => numbers.reverse(),
        2 => numbers.push(pick / 16 % 4),
        3 => numbers[0] = pick / 16 % 4,
        _ => {}
    }
    let mut keys: Vec<SigningKey> = numbers.into_iter().map(key).collect();
    match pick % 16 {
        4 => keys[0] = named_key("stranger.example", 0),
        5 => keys.push(named_key("stranger.example", 0)),
        6 if keys.len() == 2 => keys[1] = named_key("stranger.example", 0),
        _ => {}
    }
    keys
}

fn entry(step: &Step, held: &Held) -> Vec<u8> {
    let count = held.receipts.len() as u64;
    let last = held.state.last_issued_at().0.max(START);
    let build = |seq: u64, prev: ReceiptId, issued_at: u64, body: &str, keys: Vec<SigningKey>| {
        let prev = if seq == 0 { ReceiptId::NONE } else { prev };
        let keys: Vec<&SigningKey> = keys.iter().collect();
        signed(seq, prev, issued_at, body, &keys).bytes().to_vec()
    };
    let pick = |which: u8| held.receipts.get(usize::from(which) % held.receipts.len().max(1));
    match *step {
        Step::Next { body: picked, signers: by, time } => {
            let body = body(picked, held);
            // Mostly a little later; sometimes before, sometimes beyond what any clock allows.
            let issued_at = if time > 27 { last + 10_000_000 } else { last.saturating_add_signed(time.into()) };
            build(count, held.state.head(), issued_at, &body, signers(by, &body, held))
        }
        Step::Again { which } => pick(which).map_or(b"junk".to_vec(), |receipt| receipt.bytes().to_vec()),
        Step::Tamper { which, how } => pick(which).map_or(b"junk".to_vec(), |receipt| tampered(receipt, how)),
        Step::AtHeldSeq { which, body: picked } => {
            let body = body(picked, held);
            let by = signers(15, &body, held);
            let receipt = pick(which);
            let prev = receipt.map_or(ReceiptId::NONE, Receipt::prev);
            build(receipt.map_or(0, |receipt| receipt.seq().0), prev, last, &body, by)
        }
        Step::OtherPrev { prev, body: picked, signers: by } => {
            let body = body(picked, held);
            let prev = pick(prev).map_or(ReceiptId::NONE, Receipt::id);
            build(count, prev, last, &body, signers(by, &body, held))
        }
        Step::Ahead { by, body: picked } => {
            let body = body(picked, held);
            build(count + 1 + u64::from(by % 3), held.state.head(), last, &body, signers(15, &body, held))
        }
        Step::Junk => b"counterfoil".to_vec(),
    }
}

/// What a third party can make of a receipt it has read.
fn tampered(receipt: &Receipt, how: u8) -> Vec<u8> {
    let mut lines: Vec<NoteSignature> = receipt.signatures().to_vec();
    match how % 4 {
        0 => lines.truncate(1),
        1 => lines.reverse(),
        2 => lines.last_mut().unwrap().blob[usize::from(how / 4)] ^= 1,
        _ => lines.push(lines[0].clone()),
    }
    let lines: String = lines.iter().map(|line| line.line() + "\n").collect();
    format!("{}\n{lines}", receipt.text()).into_bytes()
}

/// Plays the steps against a log and the model, and returns the answers, which were the same.
fn play(steps: &[Step], now: Option<u64>) -> Result<Vec<&'static str>, TestCaseError> {
    let registered = key(0).verifier().to_string();
    let mut held = Held::nothing();
    let mut admitted: Vec<Vec<u8>> = Vec::new();
    let mut answers = Vec::new();
    for step in steps {
        let entry = entry(step, &held);
        let expected = model(&registered, &admitted, &entry, now);
        let before = held.state.clone();
        let judged = held.offer(&entry, now.map(UnixMillis));
        prop_assert_eq!(judged.as_ref().map_err(|refusal| refusal.code.as_str()).copied(), expected, "{:?}", step);
        match judged {
            Ok(()) => admitted.push(entry),
            Err(refusal) => {
                prop_assert_eq!(&held.state, &before);
                // Every fork comes with evidence that stands by itself, and nothing else does.
                let evidence =
                    refusal.fork.map(|pair| pair.evidence(held.receipts[pair.held_seq.0 as usize].bytes()).unwrap());
                prop_assert_eq!(evidence.is_some(), refusal.code.as_str() == "fork");
                if let Some(evidence) = evidence {
                    prop_assert!(evidence.check_knowing(evidence.issuer_before().cloned().as_slice()).is_ok());
                }
            }
        }
        prop_assert_eq!(held.state.next_seq().0 as usize, admitted.len());
        answers.push(expected.err().unwrap_or("admitted"));
    }
    Ok(answers)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn the_rule_and_a_naive_model_never_disagree(steps in prop::collection::vec(any_step(), 1..24), has_clock in any::<bool>()) {
        play(&steps, has_clock.then_some(START + 600))?;
    }
}

#[test]
fn the_random_sequences_reach_every_answer() {
    let mut runner = TestRunner::deterministic();
    let mut reached = BTreeSet::new();
    for _ in 0..100 {
        let steps = prop::collection::vec(any_step(), 24).new_tree(&mut runner).unwrap().current();
        reached.extend(play(&steps, Some(START + 600)).unwrap());
    }
    let all = [
        "admitted",
        "bad-open",
        "bad-rotation",
        "bad-signature",
        "closed",
        "duplicate",
        "fork",
        "future-dated",
        "gap",
        "malformed",
        "time-reversed",
    ];
    assert_eq!(reached, all.into());
}
