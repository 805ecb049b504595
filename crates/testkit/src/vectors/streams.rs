//! `streams.json`: what one issuer sends, in order, and the answer to each.

use super::{ISSUER, START, VectorFile, b64, issuer_key, key};
use note::{KeyKind, SigningKey, sign_note};
use receipt::{IssuerName, IssuerState, ReceiptId, ReceiptText, SeqNo, UnixMillis, admit};
use serde_json::{Value, json};

pub(super) fn streams() -> VectorFile {
    VectorFile {
        name: "streams.json",
        about: "Judge entries_b64 in order by the rule of PROTOCOL.md section 4, for the issuer whose registered key is vkey. An admitted entry moves the state on and is held; a refused one changes nothing. now is the judge's clock, null for a judge without one. answers: ok, or the code.",
        cases: scenarios().into_iter().map(|scenario| scenario.case()).collect(),
    }
}

/// A stream under construction: what was sent, and what a log holds of it.
struct Scenario {
    name: &'static str,
    now: Option<u64>,
    sent: Vec<Vec<u8>>,
    answers: Vec<String>,
    state: IssuerState,
    held: Vec<ReceiptId>,
}

impl Scenario {
    fn new(name: &'static str) -> Self {
        let state = IssuerState::registered(issuer_key(0).verifier());
        Self { name, now: None, sent: Vec::new(), answers: Vec::new(), state, held: Vec::new() }
    }

    /// A stream that begins as it should.
    fn opened(name: &'static str) -> Self {
        let mut scenario = Self::new(name);
        scenario.next(&open_body(), &[&issuer_key(0)]);
        scenario
    }

    fn at(mut self, now: u64) -> Self {
        self.now = Some(now);
        self
    }

    /// Sends an entry, whatever it is.
    fn send(&mut self, entry: Vec<u8>) -> &mut Self {
        let held = |seq: SeqNo| usize::try_from(seq.0).ok().and_then(|place| self.held.get(place)).copied();
        let answer = match admit(Some(&self.state), &entry, &held, self.now.map(UnixMillis)) {
            Ok(admitted) => {
                self.held.push(admitted.receipt.id());
                self.state = admitted.state;
                "ok".to_owned()
            }
            Err(refusal) => refusal.code.to_string(),
        };
        self.answers.push(answer);
        self.sent.push(entry);
        self
    }

    /// Sends what continues the stream.
    fn next(&mut self, body: &str, keys: &[&SigningKey]) -> &mut Self {
        self.next_at(START + self.state.next_seq().0, body, keys)
    }

    fn next_at(&mut self, at: u64, body: &str, keys: &[&SigningKey]) -> &mut Self {
        let entry = entry(self.state.next_seq().0, self.state.head(), at, body, keys);
        self.send(entry)
    }

    /// Sends a receipt with another number or another `prev` than the next one's.
    fn other(&mut self, seq: u64, prev: ReceiptId, body: &str, keys: &[&SigningKey]) -> &mut Self {
        self.send(entry(seq, prev, START + 100, body, keys))
    }

    fn case(&self) -> Value {
        json!({
            "name": self.name, "vkey": issuer_key(0).verifier(), "now": self.now,
            "entries_b64": self.sent.iter().map(|entry| b64(entry)).collect::<Vec<_>>(), "answers": self.answers,
        })
    }
}

fn entry(seq: u64, prev: ReceiptId, at: u64, body: &str, keys: &[&SigningKey]) -> Vec<u8> {
    let issuer = keys.first().map_or(ISSUER, |key| key.name().as_str());
    let issuer = IssuerName::new(issuer).expect("the name of a key is a name");
    let text = ReceiptText { issuer, seq: SeqNo(seq), prev, issued_at: UnixMillis(at), body: body.to_owned() };
    sign_note(&text.to_string(), keys).expect("the text of a receipt can be signed")
}

fn open_body() -> String {
    json!({"type": "open", "vkey": issuer_key(0).verifier()}).to_string()
}

fn rotate_body(number: u8) -> String {
    json!({"type": "rotate", "vkey": issuer_key(number).verifier()}).to_string()
}

const BEAT: &str = r#"{"type":"heartbeat"}"#;
const CLOSE: &str = r#"{"type":"close"}"#;

fn scenarios() -> Vec<Scenario> {
    let (first, second, third) = (issuer_key(0), issuer_key(1), issuer_key(2));
    let some = ReceiptId::of(b"another receipt");
    let mut all = Vec::new();

    let mut plain = Scenario::opened("open, receipts, close, and what follows");
    plain
        .next(BEAT, &[&first])
        .next(BEAT, &[&first])
        .next(CLOSE, &[&first])
        .next(BEAT, &[&first])
        .next(CLOSE, &[&first]);
    all.push(plain);

    let mut again = Scenario::opened("the same bytes again, anywhere");
    again.next(BEAT, &[&first]);
    let (zeroth, last) = (again.sent[0].clone(), again.sent[1].clone());
    again.send(last.clone()).send(zeroth).next(CLOSE, &[&first]).send(last);
    all.push(again);

    let mut forks = Scenario::opened("two receipts at one number");
    forks.next(BEAT, &[&first]).next(BEAT, &[&first]);
    let head = forks.state.head();
    forks
        .other(1, forks.held[0], r#"{"type":"note"}"#, &[&first])
        .other(3, some, BEAT, &[&first])
        .other(0, ReceiptId::NONE, &open_body(), &[&first])
        .other(2, some, BEAT, &[&first])
        .other(3, head, BEAT, &[&first]);
    all.push(forks);

    let mut gaps = Scenario::opened("numbers that are not next");
    let head = gaps.state.head();
    gaps.other(2, head, BEAT, &[&first]).other(u64::MAX, head, BEAT, &[&first]).other(1, head, BEAT, &[&first]);
    all.push(gaps);

    let mut first_is_late = Scenario::new("the first receipt is not number 0");
    first_is_late.other(1, some, BEAT, &[&first]).next(&open_body(), &[&first]);
    all.push(first_is_late);

    let mut times = Scenario::opened("times that go back").at(START);
    times
        .next_at(START + 50, BEAT, &[&first])
        .next_at(START + 49, BEAT, &[&first])
        .next_at(START + 50, BEAT, &[&first])
        .next_at(START + 300_001, BEAT, &[&first])
        .next_at(START + 300_000, BEAT, &[&first])
        .next_at(u64::MAX, BEAT, &[&first]);
    all.push(times);

    let mut no_clock = Scenario::opened("a judge without a clock");
    no_clock.next_at(u64::MAX, BEAT, &[&first]).next_at(u64::MAX - 1, BEAT, &[&first]).next_at(
        u64::MAX,
        CLOSE,
        &[&first],
    );
    all.push(no_clock);

    let mut signatures = Scenario::opened("signatures that are not the issuer's");
    let head = signatures.state.head();
    let good = entry(1, head, START + 1, BEAT, &[&first]);
    let mut spoilt = good.clone();
    let place = spoilt.len() - 20;
    spoilt[place] = if spoilt[place] == b'A' { b'B' } else { b'A' };
    let other_name = key("gate.example/support-2", KeyKind::Ed25519, 0);
    let foreign = {
        let text =
            String::from_utf8_lossy(&good).split_once("\n\n").map(|(text, _)| format!("{text}\n")).unwrap_or_default();
        sign_note(&text, &[&other_name]).expect("the text of a receipt can be signed")
    };
    signatures
        .send(spoilt)
        .send(foreign)
        .send(entry(1, head, START + 1, BEAT, &[&second]))
        .send(entry(1, head, START + 1, BEAT, &[&first, &second]))
        .send(entry(1, head, START + 1, BEAT, &[&first, &other_name]))
        .send(good);
    all.push(signatures);

    let mut unknown = Scenario::opened("another issuer's receipt");
    unknown.other(1, unknown.state.head(), BEAT, &[&other_name]).next(BEAT, &[&first]);
    all.push(unknown);

    let mut malformed = Scenario::opened("bytes that are no receipt");
    let head = malformed.state.head();
    malformed
        .send(b"no receipt".to_vec())
        .send(entry(1, head, START + 1, r#"{"type":"decision"}"#, &[&first]))
        .send(entry(1, head, START + 1, r#"{"type":"note","a":1,"a":1}"#, &[&first]))
        .send(entry(0, some, START, &open_body(), &[&first]))
        .next(BEAT, &[&first]);
    all.push(malformed);

    let mut no_open = Scenario::new("a stream that does not begin with an open");
    let other_key = json!({"type": "open", "vkey": second.verifier()}).to_string();
    no_open
        .next(BEAT, &[&first])
        .next(CLOSE, &[&first])
        .next(r#"{"type":"open"}"#, &[&first])
        .next(&other_key, &[&first])
        .next(r#"{"type":"open","vkey":"no vkey"}"#, &[&first])
        .next(&open_body(), &[&second])
        .next(&open_body(), &[&first])
        .next(&open_body(), &[&first]);
    all.push(no_open);

    all.extend([rotations(&first, &second, &third), bad_rotations(&first, &second), stripped(&first, &second)]);

    let mut closed = Scenario::opened("closed, then followed by what other rows catch first");
    closed.next(CLOSE, &[&first]);
    let head = closed.state.head();
    closed
        .other(2, head, BEAT, &[&first])
        .other(2, some, BEAT, &[&first])
        .other(3, head, BEAT, &[&first])
        .send(entry(2, head, START - 1, BEAT, &[&first]))
        .other(2, head, &open_body(), &[&first])
        .next(&rotate_body(1), &[&first, &second]);
    all.push(closed);
    all
}

fn rotations(first: &SigningKey, second: &SigningKey, third: &SigningKey) -> Scenario {
    let mut scenario = Scenario::opened("keys handed over");
    scenario.next(BEAT, &[first]).next(&rotate_body(1), &[first, second]).next(BEAT, &[first]).next(BEAT, &[second]);
    scenario.next(&rotate_body(2), &[second, third]).next(BEAT, &[second]).next(BEAT, &[third]);
    // What is held under old keys is judged by the key of its own number.
    let (old, rotate) = (scenario.sent[1].clone(), scenario.sent[2].clone());
    let opened = scenario.held[0];
    scenario.send(old).send(rotate).other(1, opened, r#"{"type":"note"}"#, &[first]);
    scenario.other(1, opened, r#"{"type":"note"}"#, &[third]).next(CLOSE, &[third]);
    scenario
}

fn bad_rotations(first: &SigningKey, second: &SigningKey) -> Scenario {
    let mut scenario = Scenario::opened("rotates that hand over nothing");
    let body = |vkey: &str| json!({"type": "rotate", "vkey": vkey}).to_string();
    let other_name = key("gate.example/support-2", KeyKind::Ed25519, 1);
    let witness = key(ISSUER, KeyKind::CosignatureV1, 1);
    // The neutral point, with the id that belongs to it.
    let weak = {
        let material = [&[1u8, 1][..], &[0; 31]].concat();
        let id = receipt::Digest::of_bytes(&[ISSUER.as_bytes(), b"\n", &material].concat()).0;
        format!("{ISSUER}+{}+{}", hex::encode(&id[..4]), b64(&material))
    };
    scenario
        .next(r#"{"type":"rotate"}"#, &[first, second])
        .next(&body("no vkey"), &[first, second])
        .next(&body(&first.verifier().to_string()), &[first, first])
        .next(&body(&other_name.verifier().to_string()), &[first, second])
        .next(&body(&witness.verifier().to_string()), &[first, second])
        .next(&body(&weak), &[first, second])
        .next(&rotate_body(1), &[first])
        .next(&rotate_body(1), &[second, first])
        .next(&rotate_body(2), &[first, second])
        .next(&rotate_body(1), &[first, second, &issuer_key(2)])
        .next(&rotate_body(1), &[first, second])
        .next(&rotate_body(0), &[second, first])
        .next(&rotate_body(1), &[second, second]);
    scenario
}

fn stripped(first: &SigningKey, second: &SigningKey) -> Scenario {
    let mut scenario = Scenario::opened("a held rotate again, its second line gone or spoilt");
    scenario.next(&rotate_body(1), &[first, second]);
    let (rotate, opened) = (scenario.sent[1].clone(), scenario.held[0]);
    let text = String::from_utf8_lossy(&rotate).into_owned();
    let lines: Vec<&str> = text.trim_end().lines().collect();
    let without = format!("{}\n", lines[..lines.len() - 1].join("\n"));
    let mut spoilt = rotate.clone();
    let place = spoilt.len() - 20;
    spoilt[place] = if spoilt[place] == b'A' { b'B' } else { b'A' };
    let swapped =
        [&lines[..lines.len() - 2], &[lines[lines.len() - 1], lines[lines.len() - 2]]].concat().join("\n") + "\n";
    scenario
        .send(without.into_bytes())
        .send(spoilt)
        .send(swapped.into_bytes())
        .send(rotate)
        .other(1, opened, &rotate_body(2), &[first, &issuer_key(2)])
        .next(BEAT, &[second]);
    scenario
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;
    use receipt::{Receipt, RefusalCode};
    use std::collections::BTreeSet;

    #[test]
    fn every_code_of_the_rule_is_answered_somewhere() {
        let answered: BTreeSet<String> = scenarios().into_iter().flat_map(|scenario| scenario.answers).collect();
        for code in RefusalCode::ALL {
            assert!(answered.contains(code.as_str()), "{code}");
        }
    }

    #[test]
    fn the_state_that_a_stream_leaves_is_its_receipts_own() {
        let scenario = &scenarios()[0];
        assert_eq!(scenario.answers, ["ok", "ok", "ok", "ok", "closed", "closed"]);
        assert_eq!(Receipt::parse(&scenario.sent[3]).unwrap().id(), scenario.state.head());
    }
}
