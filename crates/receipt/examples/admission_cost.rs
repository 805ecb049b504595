//! What one receipt costs at each step of admission, on one core, as a share of a strict check.
//!
//! ```text
//! cargo run --release -p counterfoil-receipt --example admission_cost [bytes a receipt, default 700]
//! ```
#![allow(clippy::print_stdout, clippy::unwrap_used)]

use counterfoil_receipt::{
    self as receipt, Chain, IssuerName, IssuerState, Receipt, UnixMillis, check_signature, find_credential_in, place,
};
use note::{KeyKind, KeyName, KeyTables, SigningKey, Strict};
use std::hint::black_box;
use std::time::{Duration, Instant};

/// Receipts that are gone through in turn.
const RECEIPTS: usize = 500;
/// Times that each step goes through all receipts. The shortest time counts: the others met somebody else's work.
const ROUNDS: usize = 20;

fn main() {
    let bytes = std::env::args().nth(1).map_or(700, |bytes| bytes.parse().unwrap());
    let key = SigningKey::from_seed(KeyName::new("gate.example/cost").unwrap(), KeyKind::Ed25519, [1; 32]);
    let mut chain = Chain::new(IssuerName(key.name().clone()));
    let mut state = IssuerState::registered(key.verifier());
    let open = chain.open(UnixMillis(1), &key).unwrap();
    state = receipt::admit(Some(&state), open.bytes(), &|_| None, None).unwrap().state;
    let receipts: Vec<Receipt> =
        (0..RECEIPTS).map(|number| chain.append(body(number, bytes), UnixMillis(2), &key).unwrap()).collect();
    let entries: Vec<&[u8]> = receipts.iter().map(Receipt::bytes).collect();
    let tables = KeyTables::new(1);
    tables.prepare(&key.verifier());
    let checked: Vec<_> = receipts.iter().map(|receipt| check_signature(receipt, &state, &tables).unwrap()).collect();

    let strict = fastest(&receipts, |receipt| {
        black_box(check_signature(receipt, &state, &Strict).is_ok());
    });
    println!("receipts of {} bytes, one core", entries.last().map_or(0, |entry| entry.len()));
    let show = |what: &str, took: Duration| {
        let share = took.as_secs_f64() / strict.as_secs_f64();
        println!("{what:<28} {:>8.2} us {share:>7.3} of a strict check", took.as_secs_f64() * 1e6);
    };
    show("parse", fastest(&entries, |entry| drop(black_box(Receipt::parse(entry)))));
    show("check, strict", strict);
    show(
        "check, prepared key",
        fastest(&receipts, |receipt| {
            black_box(check_signature(receipt, &state, &tables).is_ok());
        }),
    );
    // All but the first are placed on a state that is not theirs: the work is the same until the verdict.
    show(
        "place, refused",
        fastest(&checked, |checked| drop(black_box(place(&state, checked.clone(), &|_| None, None)))),
    );
    let first = &checked[..1];
    show("place, admitted", fastest(first, |checked| drop(black_box(place(&state, checked.clone(), &|_| None, None)))));
    show(
        "parse, look for credentials",
        fastest(&entries, |entry| drop(black_box(Receipt::parse_inspecting(entry, find_credential_in)))),
    );
    show("prepare a key", fastest(first, |_| KeyTables::new(1).prepare(&key.verifier())));
}

/// The shortest time that any of `items` took in any round, the clock's own few hundredths of a microsecond included.
fn fastest<T>(items: &[T], mut step: impl FnMut(&T)) -> Duration {
    let mut timed = |item: &T| {
        let started = Instant::now();
        step(item);
        started.elapsed()
    };
    (0..ROUNDS).filter_map(|_| items.iter().map(&mut timed).min()).min().unwrap_or_default()
}

/// A decision as gates write them, filled up to `bytes` bytes of receipt.
fn body(number: usize, bytes: usize) -> String {
    let start = format!(
        r#"{{"type":"decision","request_id":"r-{number}","decision":"allow","rule":"allow-listed","operation":"mail.send","resource":"customer/4711","session":"s-17","authenticated":true,"proven":["capability_signature","nonce_fresh"],"executes":"gate","why":""#
    );
    let filling = bytes.saturating_sub(start.len() + 247);
    format!("{start}{}\"}}", "x".repeat(filling))
}
