//! The log is killed while gates submit. Nothing it acknowledged may be missing, no two heads may conflict, and it starts
//! by itself.
//!
//! 20 kills; `COUNTERFOIL_LONG=1 cargo test -p counterfoil-tests --test killed -- --nocapture` makes it 200. A run that fails
//! has printed its seed: `COUNTERFOIL_SEED=…` makes the same choices again, though not the same races.
#![allow(clippy::unwrap_used, clippy::panic)]

use counterfoil_tests::gates::{Gate, InFlight};
use counterfoil_tests::history::History;
use counterfoil_tests::process::LogProgram;
use note::VerifierKey;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use std::ffi::OsStr;
use std::path::Path;
use std::time::Duration;
use testkit::stage::{Setup, Stage};

/// Receipts that each gate sends at once: singles, which meet in one commit, and batches, which fill pages.
const BATCHES: [usize; 9] = [1, 1, 1, 1, 1, 1, 5, 20, 80];
/// Receipts a kill that must have been answered for, or it shows little.
const ENOUGH: usize = 20;
/// Look-ups by id after each kill; all receipts are compared with the entries served, these are also asked for.
const LOOKED_UP: usize = 20;

fn number_from(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().map(|text| text.parse().unwrap())
}

#[test]
fn a_log_killed_under_load_keeps_every_receipt_it_acknowledged_in_one_history() {
    let rounds = if std::env::var_os("COUNTERFOIL_LONG").is_some() { 200 } else { 20 };
    let seed = number_from("COUNTERFOIL_SEED").unwrap_or_else(rand::random);
    println!("seed {seed}");
    let mut random = StdRng::seed_from_u64(seed);
    let mut gates: Vec<Gate> =
        BATCHES.iter().enumerate().map(|(number, batch)| Gate::new(number as u64, *batch, seed)).collect();
    let vkeys: Vec<String> = gates.iter().map(Gate::vkey).collect();
    let dir = tempfile::tempdir().unwrap();
    let executable = Path::new(env!("CARGO_BIN_EXE_counterfoil-under-test"));
    let setup = Setup { dir: dir.path(), executable, port: None, witnesses: 0, more_issuers: &vkeys };
    let mut stage = Stage::build(&setup).unwrap();
    let key: VerifierKey = stage.log_vkey().parse().unwrap();
    let program = LogProgram::of(&stage, executable);
    let client = program.client();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let mut history = History::new(key.clone());
    let mut checked = vec![0; gates.len()];
    let (mut under_load, mut killed_at_start) = (0, 0);
    let in_flight = InFlight::default();
    for round in 0..=rounds {
        if random.random_bool(0.25) {
            // Recovery is a time to be killed at as well.
            let log = program.start();
            std::thread::sleep(Duration::from_millis(random.random_range(0..80)));
            log.kill();
            killed_at_start += 1;
        }
        let log = program.start_ready().unwrap_or_else(|ended| panic!("round {round}: it does not start: {ended:?}"));
        runtime.block_on(async {
            history.extend(&client).await;
            for (gate, checked) in gates.iter_mut().zip(&mut checked) {
                gate.resume(&client).await;
                let new = &gate.acknowledged()[*checked..];
                history.assert_holds(new);
                for one in new.choose_multiple(&mut random, LOOKED_UP.div_ceil(BATCHES.len())) {
                    let found = client.receipt_by_id(&one.id).await.unwrap().expect("an acknowledged id is unknown");
                    assert_eq!(found.inclusion.index.0, one.index);
                }
                *checked = gate.acknowledged().len();
            }
        });
        if round == rounds {
            break;
        }
        let loads: Vec<_> = gates
            .drain(..)
            .map(|gate| runtime.spawn(gate.submit_until_it_fails(program.client(), key.clone(), in_flight.clone())))
            .collect();
        std::thread::sleep(Duration::from_millis(random.random_range(20..400)));
        in_flight.wait_for(ENOUGH * (round as usize + 1));
        under_load += u64::from(in_flight.count() > 0);
        log.kill();
        gates.extend(loads.into_iter().map(|load| runtime.block_on(load).unwrap()));
    }

    // Once more from nothing: what was served round by round is served as a whole, and an auditor agrees.
    let mut whole = History::new(key);
    stage.start_log().unwrap_or_else(|error| panic!("{error}"));
    let acknowledged: usize = gates.iter().map(Gate::promised).sum();
    println!(
        "{acknowledged} receipts acknowledged under {} heads; {under_load} of {rounds} kills with requests in flight, {killed_at_start} more at start",
        history.heads()
    );
    stage.wait_until_ready().unwrap();
    runtime.block_on(async {
        whole.extend(&client).await;
        gates.iter().for_each(|gate| whole.assert_holds(gate.acknowledged()));
    });
    let (policy, issuers, bundle) = (stage.policy_file(), stage.issuers_file(), dir.path().join("bundle"));
    let fetch = ["verify", "fetch", "--policy"].map(OsStr::new);
    let out = [policy.as_os_str(), "--out".as_ref(), bundle.as_os_str()];
    assert_eq!(stage.call(&[&fetch[..], &out].concat()).unwrap().0, 0);
    let audit = ["verify", "audit", "--json", "--policy"].map(OsStr::new);
    let of = [policy.as_os_str(), "--issuers".as_ref(), issuers.as_os_str(), bundle.as_os_str()];
    let verdict: serde_json::Value = serde_json::from_str(&stage.call(&[&audit[..], &of].concat()).unwrap().1).unwrap();
    assert_ne!(verdict["overall"], "fail", "{verdict:#}");
    assert_eq!(verdict["coverage"]["entries"].as_u64(), Some(whole.size()));

    assert!(acknowledged as u64 >= rounds * ENOUGH as u64, "only {acknowledged} receipts went through");
    assert!(under_load * 10 >= rounds * 8, "only {under_load} of {rounds} kills met requests in flight");
}
