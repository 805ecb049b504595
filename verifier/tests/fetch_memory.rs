//! What a fetch holds in memory does not grow with the log.
//!
//! `ENTRIES=200000 LENGTH=700 cargo test -p counterfoil-verifier --test all fetch_memory -- --nocapture` measures larger ones.

use crate::served;
use served::Served;
use served::world::{TestLog, World};
use std::fs;
use std::process::{Command, Stdio};
use std::time::Instant;

/// Bytes of an entry: few, so that what is under way is little beside what might be kept.
fn length() -> usize {
    std::env::var("LENGTH").map_or(60, |length| length.parse().unwrap())
}

/// A log of `entries` entries with a head after every hundred.
fn log_of(entries: u32) -> World {
    let mut world = World::new();
    world.log = TestLog::new("log.example/test", 1);
    for number in 0..entries {
        let mut entry = b"counterfoil/receipt/v1\n".to_vec();
        entry.extend(number.to_be_bytes());
        entry.resize(length(), b'.');
        world.log.push(entry);
        if number % 100 == 99 {
            world.log.seal();
        }
    }
    world.seal();
    world
}

/// The most that a fetch of the log held, in KiB; also of one that goes over what is held.
fn peaks_kib(entries: u32) -> [u64; 2] {
    let served = Served::new(log_of(entries));
    ["fetched", "held"].map(|how| {
        let began = Instant::now();
        let mut child = Command::new(env!("CARGO_BIN_EXE_counterfoil-verify"))
            .args(["fetch", "--policy", "policy", "--out", "bundle", "--wait", "0s"])
            .current_dir(served.dir.path())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let mut peak = 0;
        let status = loop {
            let status = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap_or_default();
            let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
            peak = peak.max(line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(0));
            if let Some(status) = child.try_wait().unwrap() {
                break status;
            }
            std::thread::sleep(std::time::Duration::from_millis(5));
        };
        assert!(status.success());
        println!("{entries} entries {how} in {:.1} s, {peak} KiB", began.elapsed().as_secs_f64());
        peak
    })
}

#[test]
fn four_times_the_log_takes_no_more_memory() {
    if !std::path::Path::new("/proc/self/status").exists() {
        return;
    }
    let entries = std::env::var("ENTRIES").map_or(100_000, |entries| entries.parse().unwrap());
    let (small, large) = (peaks_kib(entries / 4), peaks_kib(entries));
    for (small, large) in small.iter().zip(large) {
        // A tree of all hashes would take 64 bytes an entry, 4,700 KiB more. An allocator does as it likes with some.
        assert!(large < small + 3072, "{small} KiB and then {large} KiB");
    }
}
