//! What hostile peers cost honest gates: `cargo run --release -p counterfoil-tests --bin hostile-load [SECONDS]`, on a machine
//! that does nothing else.
//!
//! Honest gates submit at a modest rate, half of them over a new connection each time. For each kind of attack, and for all
//! at once, it prints how long they wait, and the ratio to how long they wait in peace. It is all programs itself, so that
//! nothing else has to be built.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout)]

use counterfoil_tests::gates::Gate;
use counterfoil_tests::hostile::{Attack, Experience, honest};
use counterfoil_tests::process::LogProgram;
use note::VerifierKey;
use std::process::ExitCode;
use std::time::Duration;
use testkit::stage::{Setup, Stage};

/// Honest gates, and how often each submits: 160 receipts a second.
const GATES: u64 = 16;
const EVERY: Duration = Duration::from_millis(100);
/// Until an attack is in place.
const SETTLES: Duration = Duration::from_secs(2);
const ATTACKS: [(&str, Attack); 5] = [
    ("2000 half-open connections", Attack { half_open: 2000, half_bodies: 0, slow_readers: 0, floods: 0 }),
    ("2000 half bodies", Attack { half_open: 0, half_bodies: 2000, slow_readers: 0, floods: 0 }),
    ("64 slow readers", Attack { half_open: 0, half_bodies: 0, slow_readers: 64, floods: 0 }),
    ("flood over 8 connections", Attack { half_open: 0, half_bodies: 0, slow_readers: 0, floods: 8 }),
    ("all of it at once", Attack { half_open: 2000, half_bodies: 0, slow_readers: 64, floods: 8 }),
];

fn main() -> ExitCode {
    let first = std::env::args().nth(1);
    match first.as_deref().map(str::parse::<u64>) {
        Some(Err(_)) => cli::main_with(std::env::args_os()),
        Some(Ok(seconds)) => measure(Duration::from_secs(seconds)),
        None => measure(Duration::from_secs(15)),
    }
}

fn measure(lasting: Duration) -> ExitCode {
    let gates: Vec<Gate> = (0..GATES).map(|number| Gate::new(number, 1, 0)).collect();
    let vkeys: Vec<String> = gates.iter().map(Gate::vkey).collect();
    let dir = tempfile::tempdir().unwrap();
    let executable = std::env::current_exe().unwrap();
    let setup = Setup { dir: dir.path(), executable: &executable, port: None, witnesses: 0, more_issuers: &vkeys };
    let stage = Stage::build(&setup).unwrap();
    let key: VerifierKey = stage.log_vkey().parse().unwrap();
    let program = LogProgram::of(&stage, &executable).flag("--log-level", "warn");
    let log = program.start_ready().unwrap_or_else(|ended| panic!("{}", ended.stderr));
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let (gates, in_peace) = runtime.block_on(honest(gates, &program, &key, EVERY, lasting));
    report("in peace", &in_peace, &in_peace, log.resident_bytes());
    let mut gates = gates;
    for (name, attack) in ATTACKS {
        let known = &gates[0];
        let under_way = {
            let _inside = runtime.enter();
            attack.begin(&log.address(), known)
        };
        std::thread::sleep(SETTLES);
        let (back, experience) = runtime.block_on(honest(gates, &program, &key, EVERY, lasting));
        gates = back;
        report(name, &experience, &in_peace, log.resident_bytes());
        drop(under_way);
        std::thread::sleep(SETTLES);
    }
    ExitCode::SUCCESS
}

fn report(name: &str, experience: &Experience, in_peace: &Experience, resident: Option<u64>) {
    let ms = |duration: Duration| duration.as_secs_f64() * 1e3;
    let (p50, p99) = (experience.within(0.5), experience.within(0.99));
    println!(
        "{name:<28} {:>6} receipts  p50 {:>8.2} ms  p99 {:>8.2} ms ({:>5.2}x)  503: {:>4}  broken: {:>4}  resident {} MB",
        experience.waited.len(),
        ms(p50),
        ms(p99),
        ms(p99) / ms(in_peace.within(0.99)),
        experience.turned_away,
        experience.broken_off,
        resident.unwrap_or_default() / 1_000_000,
    );
}
