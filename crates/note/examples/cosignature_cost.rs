//! What cosignatures of either kind cost to make and to check, on one core, as a multiple of a strict Ed25519 check.
//!
//! ```text
//! cargo run --release -p counterfoil-note --example cosignature_cost
//! ```
#![allow(clippy::print_stdout, clippy::unwrap_used)]

use counterfoil_note as note;
use merkle::{Hash, RootHash, TreeSize};
use note::{Checkpoint, CosignatureLine, KeyKind, KeyName, Origin, SigningKey, VerifierKey, cosign};
use std::hint::black_box;
use std::time::{Duration, Instant};

/// Heads that are gone through in turn: an ML-DSA signature takes one to dozens of attempts, so one head says nothing.
const HEADS: u64 = 400;
/// Times that each step goes through all heads. The shortest time counts: the others met somebody else's work.
const ROUNDS: usize = 10;

fn main() {
    let texts: Vec<String> = (1..=HEADS).map(head).collect();
    let [old, new] = [KeyKind::CosignatureV1, KeyKind::MlDsa44]
        .map(|kind| SigningKey::from_seed(KeyName::new("witness.example/cost").unwrap(), kind, [1; 32]));
    let strict = check(&texts, &old);
    let show = |what: &str, took: Duration| {
        let share = took.as_secs_f64() / strict.as_secs_f64();
        println!("{what:<28} {:>8.1} us {share:>7.2} strict checks", took.as_secs_f64() * 1e6);
    };
    show("Ed25519, check", strict);
    show("Ed25519, cosign", fastest(&texts, |text| drop(black_box(cosign(text, &old, 1)))));
    show("ML-DSA-44, check", check(&texts, &new));
    show("ML-DSA-44, cosign", fastest(&texts, |text| drop(black_box(cosign(text, &new, 1)))));
    let vkey = new.verifier().to_string();
    show("ML-DSA-44, read a vkey", fastest(&texts, |_| drop(black_box(vkey.parse::<VerifierKey>()))));
    let seed = |number: &String| [number.len() as u8; 32];
    show(
        "ML-DSA-44, key from seed",
        fastest(&texts, |text| {
            drop(black_box(SigningKey::from_seed(new.name().clone(), KeyKind::MlDsa44, seed(text))))
        }),
    );
}

fn head(size: u64) -> String {
    Checkpoint::new(Origin::new("log.example/cost").unwrap(), TreeSize(size), RootHash(Hash([7; 32]))).to_string()
}

fn check(texts: &[String], key: &SigningKey) -> Duration {
    let public = key.verifier();
    let lines: Vec<(&String, CosignatureLine)> =
        texts.iter().map(|text| (text, cosign(text, key, 1).unwrap().to_line().unwrap())).collect();
    fastest(&lines, |(text, line)| assert!(line.verify(text, &public).is_ok()))
}

/// The time for one of `things`, in the fastest of all rounds over them.
fn fastest<T>(things: &[T], step: impl Fn(&T)) -> Duration {
    let rounds = (0..ROUNDS).map(|_| {
        let started = Instant::now();
        things.iter().for_each(&step);
        started.elapsed() / things.len() as u32
    });
    rounds.min().unwrap_or_default()
}
