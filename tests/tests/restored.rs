//! One directory, two lives: a log restored from a backup, and two servers at once. Both would sign a second history.
#![allow(clippy::unwrap_used, clippy::panic)]

use client::{BoundedClient, Timeouts, WitnessClient};
use counterfoil_tests::gates::{Gate, InFlight};
use counterfoil_tests::history::History;
use counterfoil_tests::process::LogProgram;
use note::{Origin, SignedCheckpoint, VerifierKey};
use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use testkit::stage::{ORIGIN, Setup, Stage, wait_for};
use tokio::runtime::Runtime;

const EXECUTABLE: &str = env!("CARGO_BIN_EXE_counterfoil-under-test");

fn copy(from: &Path, to: &Path) {
    assert!(Command::new("cp").arg("-a").arg(from).arg(to).status().unwrap().success());
}

/// The size of the head that witness `number` serves.
fn witnessed(stage: &Stage, number: usize, runtime: &Runtime) -> Option<u64> {
    let http = BoundedClient::new(Timeouts::default()).unwrap();
    let witness = WitnessClient::new(stage.witness_url(number).parse().unwrap(), http);
    let head = runtime.block_on(witness.checkpoint(&Origin::new(ORIGIN).unwrap())).ok()??;
    Some(SignedCheckpoint::parse(&head).unwrap().claimed().size.0)
}

#[test]
fn a_log_restored_from_a_backup_refuses_to_start_and_names_both_sizes() {
    let dir = tempfile::tempdir().unwrap();
    let mut gate = Gate::new(1, 1, 0);
    let vkeys = [gate.vkey()];
    let setup =
        Setup { dir: dir.path(), executable: EXECUTABLE.as_ref(), port: None, witnesses: 2, more_issuers: &vkeys };
    let mut stage = Stage::build(&setup).unwrap();
    let key: VerifierKey = stage.log_vkey().parse().unwrap();
    // However long a witness takes to answer, on a machine that does much else.
    let program = LogProgram::of(&stage, EXECUTABLE.as_ref()).flag("--set", "witness_deadline_ms=60000");
    let (store, backup, newest) = (stage.log_dir().join("store"), dir.path().join("backup"), dir.path().join("newest"));
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let submit = |gate: &mut Gate, program: &LogProgram, count: usize| {
        for _ in 0..count {
            runtime.block_on(gate.submit(&program.client(), &key, &InFlight::default())).unwrap();
        }
    };
    stage.start_witnesses().unwrap();
    let log = program.start_ready().unwrap();
    submit(&mut gate, &program, 3);
    log.kill();
    copy(&store, &backup);
    // The gate as it was then, which will sign other receipts than it does now.
    let mut aside = gate.clone();
    aside.filling = 1;

    let log = program.start_ready().unwrap();
    submit(&mut gate, &program, 4);
    for number in 0..2 {
        wait_for("a cosignature", || Ok(witnessed(&stage, number, &runtime) == Some(7))).unwrap();
    }
    log.kill();
    fs::rename(&store, &newest).unwrap();

    // The backup, with all witnesses there and with one of them down.
    let refused = |own: &str, what: &str| {
        let ended = program.start_ready().expect_err(what);
        let last = ended.stderr.trim().lines().last().unwrap_or_default();
        assert_eq!(ended.code, Some(1), "{}", ended.stderr);
        assert!(last.contains("size 7") && last.contains(own), "{what}: {}", ended.stderr);
    };
    copy(&backup, &store);
    refused("ends at size 3", "a backup started");
    stage.stop_witness(0);
    refused("ends at size 3", "a backup started while a witness was down");

    // The newest copy starts, in spite of the witness that is down.
    fs::remove_dir_all(&store).unwrap();
    copy(&newest, &store);
    let log = program.start_ready().unwrap_or_else(|ended| panic!("the newest copy: {}", ended.stderr));
    submit(&mut gate, &program, 1);
    log.kill();

    // A backup that was used without witnesses until it was as long as what they have seen, and longer.
    fs::remove_dir_all(&store).unwrap();
    copy(&backup, &store);
    let config = fs::read_to_string(stage.log_dir().join("config.toml")).unwrap();
    let alone = config.split("\n[[witness]]").next().unwrap();
    fs::write(stage.log_dir().join("config.toml"), alone).unwrap();
    let log = program.start_ready().unwrap();
    submit(&mut aside, &program, 5);
    log.kill();
    fs::write(stage.log_dir().join("config.toml"), &config).unwrap();
    let ended = program.start_ready().expect_err("a second history started");
    let last = ended.stderr.trim().lines().last().unwrap_or_default();
    assert!(ended.code == Some(1) && last.contains("another root"), "{}", ended.stderr);
}

#[test]
fn a_second_server_on_the_directory_refuses_and_the_first_goes_on_undisturbed() {
    let dir = tempfile::tempdir().unwrap();
    let mut gate = Gate::new(1, 1, 0);
    let vkeys = [gate.vkey()];
    let setup =
        Setup { dir: dir.path(), executable: EXECUTABLE.as_ref(), port: None, witnesses: 0, more_issuers: &vkeys };
    let stage = Stage::build(&setup).unwrap();
    let key: VerifierKey = stage.log_vkey().parse().unwrap();
    let program = LogProgram::of(&stage, EXECUTABLE.as_ref());
    let mut log = program.start_ready().unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let (client, in_flight) = (program.client(), InFlight::default());
    let stop = Arc::new(AtomicBool::new(false));
    let (watched, submitting_key) = (Arc::clone(&stop), key.clone());
    let submitting = runtime.spawn(async move {
        while !watched.load(Ordering::SeqCst) {
            gate.submit(&client, &submitting_key, &in_flight).await.unwrap();
        }
        gate
    });
    // Two at once: the first one's lock must survive their fight as well.
    let second = program.clone().stderr("second.stderr").flag("--listen", "127.0.0.1:0");
    let third = program.clone().stderr("third.stderr").flag("--listen", "127.0.0.1:0");
    let attempts = [second.start(), third.start()];
    for attempt in attempts {
        let ended = attempt.wait();
        assert_eq!(ended.code, Some(1), "{}", ended.stderr);
        assert!(ended.stderr.contains("store is in use by another process; stop that one first"), "{}", ended.stderr);
    }
    stop.store(true, Ordering::SeqCst);
    let gate = runtime.block_on(submitting).unwrap();
    assert!(log.is_running() && gate.promised() > 0);
    let mut history = History::new(key);
    runtime.block_on(history.extend(&program.client()));
    history.assert_holds(gate.acknowledged());
}
