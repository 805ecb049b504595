//! A real log and two real witnesses, one of each level: the one that checks every receipt cosigns what the other does, after a
//! kill as well, until the log takes receipts of somebody whom its own list does not name.
#![allow(clippy::unwrap_used, clippy::panic)]

use client::{BoundedClient, Timeouts, WitnessClient};
use counterfoil_tests::gates::{Gate, InFlight};
use counterfoil_tests::process::LogProgram;
use note::{Origin, SignedCheckpoint, VerifierKey};
use std::fs;
use testkit::stage::{ORIGIN, Setup, Stage, wait_for};
use tokio::runtime::Runtime;

const EXECUTABLE: &str = env!("CARGO_BIN_EXE_counterfoil-under-test");
const FULL: usize = 1;

fn witness(stage: &Stage, number: usize) -> WitnessClient {
    WitnessClient::new(stage.witness_url(number).parse().unwrap(), BoundedClient::new(Timeouts::default()).unwrap())
}

fn witnessed(stage: &Stage, number: usize, runtime: &Runtime) -> Option<u64> {
    let head = runtime.block_on(witness(stage, number).checkpoint(&Origin::new(ORIGIN).unwrap())).ok()??;
    Some(SignedCheckpoint::parse(&head).unwrap().claimed().size.0)
}

#[test]
fn both_levels_cosign_an_honest_log_and_only_one_minds_an_issuer_that_it_does_not_know() {
    let dir = tempfile::tempdir().unwrap();
    let mut gates: Vec<Gate> = (1..4).map(|number| Gate::new(number, 64, 0)).collect();
    let vkeys: Vec<String> = gates.iter().map(Gate::vkey).collect();
    let setup =
        Setup { dir: dir.path(), executable: EXECUTABLE.as_ref(), port: None, witnesses: 2, more_issuers: &vkeys };
    let mut stage = Stage::build(&setup).unwrap();
    // The third gate is the log's alone.
    fs::write(dir.path().join("known"), format!("# the first two\n{}\n{}\n", vkeys[0], vkeys[1])).unwrap();
    let config = stage.witness_dir(FULL).join("config.toml");
    let before = fs::read_to_string(&config).unwrap();
    let full = before.replace("level = \"consistency\"", "level = \"full\"");
    assert_ne!(full, before);
    fs::write(&config, format!("{full}issuers = {:?}\n", dir.path().join("known"))).unwrap();

    let key: VerifierKey = stage.log_vkey().parse().unwrap();
    let program = LogProgram::of(&stage, EXECUTABLE.as_ref());
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let submit = |gate: &mut Gate| {
        runtime.block_on(gate.submit(&program.client(), &key, &InFlight::default())).unwrap();
    };
    let both_at = |stage: &Stage, size: u64| {
        for number in 0..2 {
            wait_for(&format!("witness {number} at {size}"), || Ok(witnessed(stage, number, &runtime) == Some(size)))
                .unwrap();
        }
    };
    stage.start_witnesses().unwrap();
    let log = program.start_ready().unwrap();
    let mut size = 0;
    for _ in 0..3 {
        gates[..2].iter_mut().for_each(&submit);
        size += 128;
    }
    both_at(&stage, size);

    // Killed, and back after the log went on.
    stage.stop_witness(FULL);
    stage.stop_witness(0);
    gates[..2].iter_mut().for_each(&submit);
    size += 128;
    stage.start_witnesses().unwrap();
    both_at(&stage, size);

    submit(&mut gates[2]);
    wait_for("the other witness", || Ok(witnessed(&stage, 0, &runtime) == Some(size + 64))).unwrap();
    let refused = runtime.block_on(witness(&stage, FULL).nudge(&Origin::new(ORIGIN).unwrap())).unwrap_err();
    assert!(refused.has_code("inadmissible"), "{refused}");
    assert_eq!(witnessed(&stage, FULL, &runtime), Some(size));
    log.kill();
}
