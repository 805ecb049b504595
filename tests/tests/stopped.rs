//! SIGTERM under load: what was answered is there, what was not is answered or cut, and it ends in time and well.
#![allow(clippy::unwrap_used, clippy::panic)]

use counterfoil_tests::gates::{Gate, InFlight};
use counterfoil_tests::history::History;
use counterfoil_tests::process::LogProgram;
use note::VerifierKey;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::time::{Duration, Instant};
use testkit::stage::{Setup, Stage};

/// Time that requests under way get, in the configuration of this test.
const DRAIN: Duration = Duration::from_secs(2);
const ROUNDS: u64 = 3;

#[test]
fn a_log_asked_to_stop_under_load_keeps_what_it_answered_and_ends_well() {
    let mut gates: Vec<Gate> =
        [1, 1, 1, 1, 8, 50].iter().zip(0..).map(|(batch, number)| Gate::new(number, *batch, 0)).collect();
    let vkeys: Vec<String> = gates.iter().map(Gate::vkey).collect();
    let dir = tempfile::tempdir().unwrap();
    let executable = Path::new(env!("CARGO_BIN_EXE_counterfoil-under-test"));
    let setup = Setup { dir: dir.path(), executable, port: None, witnesses: 0, more_issuers: &vkeys };
    let stage = Stage::build(&setup).unwrap();
    let key: VerifierKey = stage.log_vkey().parse().unwrap();
    let program =
        LogProgram::of(&stage, executable).flag("--set", &format!("limits.drain_deadline_ms={}", DRAIN.as_millis()));
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let mut history = History::new(key.clone());
    let mut under_load = 0;
    for round in 0..=ROUNDS {
        let log = program.start_ready().unwrap_or_else(|ended| panic!("it does not start again: {}", ended.stderr));
        let client = program.client();
        runtime.block_on(async {
            history.extend(&client).await;
            for gate in &mut gates {
                gate.resume(&client).await;
                history.assert_holds(gate.acknowledged());
            }
        });
        if round == ROUNDS {
            break;
        }
        let in_flight = InFlight::default();
        let loads: Vec<_> = gates
            .drain(..)
            .map(|gate| runtime.spawn(gate.submit_until_it_fails(program.client(), key.clone(), in_flight.clone())))
            .collect();
        // One peer that says nothing and one that will never send the rest.
        let mut stalled: Vec<TcpStream> = (0..2).map(|_| TcpStream::connect(log.address()).unwrap()).collect();
        stalled[1].write_all(b"POST /v1/receipts HTTP/1.1\r\nhost: t\r\ncontent-length: 500\r\n\r\nhalf").unwrap();
        std::thread::sleep(Duration::from_millis(200 + 90 * round));
        in_flight.wait_for(20);
        under_load += u64::from(in_flight.count() > 0);
        let asked = Instant::now();
        let ended = log.terminate();
        let took = asked.elapsed();
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
        assert!(ended.stderr.contains("the log has stopped"), "{}", ended.stderr);
        // The stalled upload is cut at the drain deadline; the rest is for a machine that does much else.
        assert!(took < DRAIN + Duration::from_secs(30), "it took {took:?} to stop");
        // Every request has an end: an answer, a refusal that may pass, or a closed connection.
        gates.extend(loads.into_iter().map(|load| runtime.block_on(load).unwrap()));
        assert_eq!(in_flight.count(), 0);
        for mut stalled in stalled {
            let mut said = Vec::new();
            let _reset_is_an_end_too = stalled.read_to_end(&mut said);
            assert!(!said.starts_with(b"HTTP/1.1 200"));
        }
        println!("stopped in {took:?}");
    }
    let promised: usize = gates.iter().map(Gate::promised).sum();
    println!("{promised} receipts were answered; {under_load} of {ROUNDS} stops met requests in flight");
    assert!(promised >= 20 && under_load > 0);
}
