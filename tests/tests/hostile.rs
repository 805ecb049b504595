//! Hostile peers against a real log while honest gates submit. How long these wait is printed, not judged: the machine that
//! runs tests may be busy. `cargo run --release -p counterfoil-tests --bin hostile-load` measures it.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout)]

use counterfoil_tests::gates::Gate;
use counterfoil_tests::history::History;
use counterfoil_tests::hostile::{Attack, half_a_request, honest};
use counterfoil_tests::process::LogProgram;
use note::VerifierKey;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::time::{Duration, Instant};
use testkit::stage::{Setup, Stage};
use tokio::runtime::Runtime;

const GATES: u64 = 6;
const EVERY: Duration = Duration::from_millis(100);
const LASTING: Duration = Duration::from_secs(3);
/// More than the log serves at once by default.
const HALF_OPEN: usize = 2000;
/// Open files, fewer than there are peers.
const DESCRIPTORS: u32 = 256;
/// What the log may hold for its peers beyond what it held before: 64 MiB for 1,024 connections (`limits.rs`), and as much
/// again for what an allocator keeps, and for the receipts that went through.
const HELD_FOR_PEERS: u64 = 128 * 1024 * 1024;
/// For everything that has a deadline, on a machine that does much else.
const LATE: Duration = Duration::from_secs(30);

struct Scene {
    _dir: tempfile::TempDir,
    program: LogProgram,
    key: VerifierKey,
    gates: Vec<Gate>,
    runtime: Runtime,
}

impl Scene {
    fn new() -> Scene {
        let gates: Vec<Gate> = (0..GATES).map(|number| Gate::new(number, 1, 0)).collect();
        let vkeys: Vec<String> = gates.iter().map(Gate::vkey).collect();
        let dir = tempfile::tempdir().unwrap();
        let executable = Path::new(env!("CARGO_BIN_EXE_counterfoil-under-test"));
        let setup = Setup { dir: dir.path(), executable, port: None, witnesses: 0, more_issuers: &vkeys };
        let stage = Stage::build(&setup).unwrap();
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
        let program = LogProgram::of(&stage, executable).flag("--log-level", "warn");
        Scene { key: stage.log_vkey().parse().unwrap(), program, gates, runtime, _dir: dir }
    }

    /// Honest gates for a while; every submission must be answered. Answers the time within which 99 of 100 were.
    fn honest(&mut self, what: &str) -> Duration {
        let gates = std::mem::take(&mut self.gates);
        let (gates, experience) = self.runtime.block_on(honest(gates, &self.program, &self.key, EVERY, LASTING));
        self.gates = gates;
        let p99 = experience.within(0.99);
        println!(
            "{what}: {} receipts, p99 {p99:?}, told to come later {} times, cut {} times",
            experience.waited.len(),
            experience.turned_away,
            experience.broken_off
        );
        p99
    }

    /// All that was promised is there.
    fn assert_all_there(&self) {
        let mut history = History::new(self.key.clone());
        self.runtime.block_on(history.extend(&self.program.client()));
        self.gates.iter().for_each(|gate| history.assert_holds(gate.acknowledged()));
    }
}

#[test]
fn honest_gates_are_served_while_thousands_of_connections_stay_half_open_and_others_flood() {
    let mut scene = Scene::new();
    let mut log = scene.program.start_ready().unwrap();
    let in_peace = scene.honest("in peace");
    let before = log.resident_bytes();
    let attack = Attack { half_open: HALF_OPEN, half_bodies: HALF_OPEN, slow_readers: 32, floods: 4 };
    let under_way = {
        let _inside = scene.runtime.enter();
        attack.begin(&log.address(), &scene.gates[0])
    };
    std::thread::sleep(Duration::from_secs(1));
    let attacked = scene.honest("attacked");
    println!("p99 ratio {:.2}", attacked.as_secs_f64() / in_peace.as_secs_f64());
    if let (Some(before), Some(after)) = (before, log.resident_bytes()) {
        println!("resident {before} and then {after} bytes");
        assert!(after < before + HELD_FOR_PEERS, "{before} bytes were resident, and under attack {after}");
    }
    drop(under_way);
    assert!(log.is_running(), "{}", log.said());
    scene.assert_all_there();
}

#[test]
fn half_open_connections_are_cut_at_their_deadlines() {
    let scene = Scene::new();
    let program = scene.program.clone().flag("--set", "limits.header_deadline_ms=1000");
    let log = program.flag("--set", "limits.body_deadline_ms=1500").start_ready().unwrap();
    let peers: Vec<TcpStream> = (0..300)
        .map(|number| {
            let mut peer = TcpStream::connect(log.address()).unwrap();
            peer.write_all(half_a_request(number)).unwrap();
            peer
        })
        .collect();
    let opened = Instant::now();
    for mut peer in peers {
        peer.set_read_timeout(Some(LATE)).unwrap();
        let mut said = Vec::new();
        match peer.read_to_end(&mut said) {
            Err(error) if matches!(error.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut) => {
                panic!("still open after {:?}", opened.elapsed())
            }
            _ended => assert!(said.is_empty() || said.starts_with(b"HTTP/1.1 4"), "{}", String::from_utf8_lossy(&said)),
        }
    }
}

#[test]
fn a_log_that_may_open_fewer_files_than_it_has_peers_keeps_serving_and_keeps_its_store() {
    let mut scene = Scene::new();
    scene.program = scene.program.descriptors(DESCRIPTORS);
    let mut log = scene.program.start_ready().unwrap();
    // Honest connections from before the attack make the log open files of its store in the middle of it.
    let gates = std::mem::take(&mut scene.gates);
    let known = gates[0].clone();
    let (program, key) = (scene.program.clone(), scene.key.clone());
    let served = scene.runtime.spawn(async move { honest(gates, &program, &key, EVERY, 2 * LASTING).await });
    std::thread::sleep(LASTING / 2);
    let attack = Attack { half_open: 400, half_bodies: 0, slow_readers: 0, floods: 2 };
    let under_way = {
        let _inside = scene.runtime.enter();
        attack.begin(&log.address(), &known)
    };
    let (gates, experience) = scene.runtime.block_on(served).unwrap();
    scene.gates = gates;
    println!("with {DESCRIPTORS} descriptors: {} receipts, p99 {:?}", experience.waited.len(), experience.within(0.99));
    assert!(log.is_running(), "{}", log.said());
    drop(under_way);
    scene.assert_all_there();
}
