#![allow(clippy::unwrap_used, clippy::panic)]
use super::*;
use crate::admit::RefusalCode::*;
use crate::id::{ReceiptId, UnixMillis};
use crate::receipt::ReceiptText;
use crate::roll::Roll;
use crate::sample::{Held, NAME, START, decision_body, key, named_key, rotate_body, signed};
use note::{SigningKey, sign_note};
use serde_json::json;

const OTHER: &str = "gate.example/other";

/// A receipt of the second issuer.
fn of_other(seq: u64, prev: ReceiptId, body: &str) -> Receipt {
    let issuer = IssuerName::new(OTHER).unwrap();
    let text = ReceiptText { issuer, seq: SeqNo(seq), prev, issued_at: UnixMillis(START), body: body.to_owned() };
    text.sign(&named_key(OTHER, 5)).unwrap()
}

/// An honest log of two issuers, one of which rotates twice and closes.
fn honest() -> Vec<Vec<u8>> {
    let mut held = Held::receipts(3);
    held.add_next(&rotate_body(1), &[&key(0), &key(1)]);
    held.add_next(&decision_body(4), &[&key(1)]);
    held.add_next(&rotate_body(2), &[&key(1), &key(2)]);
    held.add_next(r#"{"type":"close"}"#, &[&key(2)]);
    let mut entries: Vec<Vec<u8>> = held.receipts.iter().map(|receipt| receipt.bytes().to_vec()).collect();
    let open = json!({"type": "open", "vkey": named_key(OTHER, 5).verifier()}).to_string();
    let mut prev = ReceiptId::NONE;
    for (place, body) in [open, decision_body(1), decision_body(2)].iter().enumerate() {
        let receipt = of_other(place as u64, prev, body);
        prev = receipt.id();
        entries.insert(2 * place, receipt.bytes().to_vec());
    }
    let mut roll = Roll::of_openers();
    for (index, entry) in (0..).map(LeafIndex).zip(&entries) {
        let placed = roll.place(index, Receipt::parse(entry).unwrap(), None).unwrap();
        assert!(placed.is_good(&Strict));
    }
    entries
}

fn exhibits(log: &[Vec<u8>], places: &[usize]) -> Vec<Exhibit<'static>> {
    let leak = |entry: &Vec<u8>| -> &'static [u8] { Box::leak(entry.clone().into_boxed_slice()) };
    places.iter().map(|place| Exhibit { index: LeafIndex(*place as u64), entry: leak(&log[*place]) }).collect()
}

#[test]
fn nothing_picked_from_an_honest_log_accuses_it() {
    let log = honest();
    let keys: Vec<SigningKey> = (0..3).map(key).chain([named_key(OTHER, 5)]).collect();
    let keys: Vec<Option<VerifierKey>> = keys.iter().map(|key| Some(key.verifier())).chain([None]).collect();
    let mut picks: Vec<Vec<usize>> = Vec::new();
    for last in 0..log.len() {
        picks.push(vec![last]);
        picks.extend((0..last).map(|first| vec![first, last]));
        picks.extend((0..last).map(|first| (first..=last).collect::<Vec<_>>()));
        picks.extend((0..last).map(|first| vec![0, first, last]));
    }
    for pick in &picks {
        for code in RefusalCode::ALL {
            for key in &keys {
                let shown = breaks(code, &exhibits(&log, pick), key.as_ref());
                assert!(shown.is_err(), "{code} by {pick:?} under {key:?}: {shown:?}");
            }
        }
    }
    // And what is planned against one of its entries leads nowhere.
    for entry in &log {
        let nothing = Roll::of_openers().refusal(&Receipt::parse(entry).unwrap(), None, None);
        for plan in nothing.iter().flat_map(|refusal| plans(entry, refusal)) {
            assert!(!matches!(plan, Plan::Alone(_)), "{plan:?}");
        }
    }
}

/// What a reader of `log` who stops at its last entry can show: the code refused by, and those that plans show.
fn shown(log: &[Vec<u8>], registered: Option<Vec<VerifierKey>>) -> (RefusalCode, Vec<RefusalCode>) {
    let mut roll = registered.map_or_else(Roll::of_openers, Roll::of_registered);
    let last = log.len() - 1;
    for (index, entry) in (0..).map(LeafIndex).zip(&log[..last]) {
        roll.place(index, Receipt::parse(entry).unwrap(), None).unwrap();
    }
    let Ok(receipt) = Receipt::parse(&log[last]) else {
        let refusal = Refusal::from(Receipt::parse(&log[last]).unwrap_err());
        return (refusal.code, carried_out(log, &plans(&log[last], &refusal)));
    };
    let now = Some(UnixMillis(START));
    let held = |other: &&Receipt| other.issuer() == receipt.issuer() && other.seq() == receipt.seq();
    let all: Vec<Receipt> = log[..last].iter().map(|entry| Receipt::parse(entry).unwrap()).collect();
    let refusal = roll.refusal(&receipt, all.iter().find(held).map(Receipt::id), now).unwrap();
    (refusal.code, carried_out(log, &plans(&log[last], &refusal)))
}

fn carried_out(log: &[Vec<u8>], plans: &[Plan]) -> Vec<RefusalCode> {
    let last = log.len() - 1;
    let issuer = Receipt::parse(&log[last]).map(|receipt| receipt.issuer().clone());
    let nearest = |wanted: &dyn Fn(&Receipt) -> bool| {
        (0..last).rev().find(|place| Receipt::parse(&log[*place]).is_ok_and(|other| wanted(&other)))
    };
    let mut codes = Vec::new();
    for plan in plans {
        let (code, places) = match plan {
            Plan::Alone(code) => (*code, vec![last]),
            Plan::With(code, earlier) => match nearest(&|other| earlier.is(issuer.as_ref().unwrap(), other)) {
                Some(place) => (*code, vec![place, last]),
                None => continue,
            },
            Plan::Run => {
                let first = nearest(&|other| other.issuer() == issuer.as_ref().unwrap()).unwrap_or(0);
                (Gap, (first..=last).collect())
            }
        };
        let keys = [None].into_iter().chain((0..3).map(|number| Some(key(number).verifier())));
        codes.extend(keys.filter_map(|key| breaks(code, &exhibits(log, &places), key.as_ref()).ok()).map(|_| code));
    }
    codes
}

#[test]
fn every_breach_that_can_be_shown_is_shown_by_its_own_code() {
    let honest = honest();
    let with = |keep: usize, bad: Vec<u8>| [honest[..keep].to_vec(), vec![bad]].concat();
    let receipts: Vec<Receipt> =
        honest.iter().map(|entry| Receipt::parse(entry).unwrap()).filter(|one| one.issuer().as_str() == NAME).collect();
    let (head, closed) = (receipts[2].id(), receipts[6].id());
    // The first issuer's receipts 0, 1 and 2 are entries 1, 3 and 5, all before 6.
    let at = |seq: u64, prev: ReceiptId, time: u64, body: &str, keys: &[&SigningKey]| {
        signed(seq, prev, START + time, body, keys).bytes().to_vec()
    };
    let body = &decision_body(3);
    let next = |keys: &[&SigningKey]| at(3, head, 3, body, keys);
    let foreign = {
        let text = Receipt::parse(&next(&[&key(0)])).unwrap();
        sign_note(text.text(), &[&key(0), &named_key(OTHER, 5)]).unwrap()
    };
    let stripped = {
        let rotate = &receipts[3];
        let cut = rotate.bytes().len() - rotate.signatures()[1].line().len() - 1;
        rotate.bytes()[..cut].to_vec()
    };
    let stranger = named_key("gate.example/stranger", 4);
    let to_stranger = json!({"type": "rotate", "vkey": stranger.verifier()}).to_string();
    let reopened = json!({"type": "open", "vkey": key(0).verifier()}).to_string();
    for (log, code) in [
        (with(6, b"no receipt".to_vec()), Malformed),
        (with(6, next(&[&key(1)])), BadSignature),
        (with(6, foreign), BadSignature),
        // After the first rotation, the key before it.
        (with(7, at(4, receipts[3].id(), 4, body, &[&key(0)])), BadSignature),
        (with(6, receipts[1].bytes().to_vec()), Duplicate),
        (with(6, at(1, receipts[0].id(), 1, body, &[&key(0)])), Fork),
        (with(6, at(3, receipts[1].id(), 3, body, &[&key(0)])), Fork),
        (with(6, at(4, head, 4, body, &[&key(0)])), Gap),
        (with(6, at(3, head, 1, body, &[&key(0)])), TimeReversed),
        (with(10, at(7, closed, 9, body, &[&key(2)])), Closed),
        (with(0, at(0, ReceiptId::NONE, 0, body, &[&key(0)])), BadOpen),
        (with(6, at(3, head, 3, &reopened, &[&key(0)])), BadOpen),
        (with(6, at(3, head, 3, &json!({"type": "rotate"}).to_string(), &[&key(0), &key(1)])), BadRotation),
        (with(6, stripped), BadRotation),
        (with(6, at(3, head, 3, &to_stranger, &[&key(0), &stranger])), BadSignature),
        (with(6, at(3, head, 3, &rotate_body(0), &[&key(0), &key(0)])), BadRotation),
        (with(8, at(5, receipts[4].id(), 5, &rotate_body(0), &[&key(1), &key(0)])), BadRotation),
    ] {
        let registered =
            (code == BadOpen || log.len() == 1).then(|| vec![key(0).verifier(), named_key(OTHER, 5).verifier()]);
        let (refused, codes) = shown(&log, registered);
        assert_eq!((refused, codes.first()), (code, Some(&code)), "{}", String::from_utf8_lossy(log.last().unwrap()));
    }
}

#[test]
fn an_open_that_its_own_key_did_not_sign_is_shown_alone() {
    let open = json!({"type": "open", "vkey": key(0).verifier()}).to_string();
    let log = [signed(0, ReceiptId::NONE, START, &open, &[&key(1)]).bytes().to_vec()];
    assert_eq!(shown(&log, None), (BadSignature, vec![BadSignature]));
}

#[test]
fn an_issuer_that_never_opened_is_shown_by_everything_before_it() {
    let honest = honest();
    let other = named_key("gate.example/other-2", 3);
    let issuer = IssuerName::from(other.name().clone());
    let text =
        ReceiptText { issuer, seq: SeqNo(3), prev: ReceiptId::NONE, issued_at: UnixMillis(0), body: decision_body(1) };
    let log = [honest, vec![text.sign(&other).unwrap().bytes().to_vec()]].concat();
    assert_eq!(shown(&log, None), (UnknownIssuer, vec![Gap]));
    // Without the first entry it shows nothing.
    let places: Vec<usize> = (1..log.len()).collect();
    assert_eq!(breaks(Gap, &exhibits(&log, &places), None), Err(NotShown::Code(Gap)));
}

#[test]
fn what_hangs_on_a_list_or_a_clock_is_shown_to_nobody() {
    let honest = honest();
    let head = Receipt::parse(&honest[5]).unwrap().id();
    let early = signed(3, head, START + 3 + crate::MAX_AHEAD_MS, &decision_body(3), &[&key(0)]);
    let log = [honest[..6].to_vec(), vec![early.bytes().to_vec()]].concat();
    assert_eq!(shown(&log, None), (FutureDated, vec![]));
    // An issuer of its own making, sound in everything, and one registered with another key.
    let opened = &honest[1..2];
    assert_eq!(shown(opened, Some(vec![])), (UnknownIssuer, vec![]));
    assert_eq!(shown(opened, Some(vec![key(1).verifier()])), (BadSignature, vec![]));
}

#[test]
fn a_key_that_plays_no_part_and_entries_out_of_order_show_nothing() {
    let honest = honest();
    let reversed = exhibits(&honest, &[3, 1]);
    assert_eq!(breaks(Fork, &reversed, None), Err(NotShown::Order));
    assert_eq!(breaks(Fork, &[], None), Err(NotShown::Order));
    let bad = [Exhibit { index: LeafIndex(0), entry: b"no receipt" }];
    assert!(breaks(Malformed, &bad, None).is_ok());
    assert!(breaks(Malformed, &bad, Some(&key(0).verifier())).is_err());
    let again = exhibits(&[honest[1].clone(), honest[1].clone()], &[0, 1]);
    assert!(breaks(Duplicate, &again, None).is_ok());
    assert!(breaks(Duplicate, &again, Some(&key(0).verifier())).is_err());
}
