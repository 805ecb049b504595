//! What a large bundle costs. Ignored by default: it signs as many receipts as it then checks.
//!
//! `RECEIPTS=1000000 cargo test --release -p counterfoil-verifier --test all scale -- --ignored --nocapture`

use crate::world;
use audit::BundleSource;
use std::fs;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use world::{World, decision};

/// Memory that an audit may take, in KiB.
const MAX_MEMORY_KIB: u64 = 500_000;

#[test]
#[ignore = "takes minutes; see the module's comment"]
fn a_large_bundle_is_judged_within_500_mb() {
    let receipts: u64 = std::env::var("RECEIPTS").ok().and_then(|count| count.parse().ok()).unwrap_or(50_000);
    let mut world = World::new();
    let classes = ["READ", "READ", "WRITE", "SEND"];
    for number in 0..receipts {
        let (session, customer) = (format!("session-{}", number / 20), format!("customer:{}", number % 30_000));
        let mut body = decision(
            &format!("r-{number}"),
            number % 17 != 0,
            classes[number as usize % 4],
            &session,
            &format!("record-{}", number % 50_000),
            &customer,
        );
        body["why"] = "within the envelope of the purpose that was granted for this task".into();
        world.log_body(0, &body.to_string());
        if number % 1000 == 999 {
            world.log.seal();
        }
    }
    world.seal();
    let dir = tempfile::tempdir().unwrap();
    let bundle = world.bundle();
    for path in bundle.list() {
        let place = dir.path().join("bundle").join(&path);
        fs::create_dir_all(place.parent().unwrap()).unwrap();
        fs::write(place, bundle.get(&path).unwrap()).unwrap();
    }
    fs::write(dir.path().join("policy"), world.policy_text()).unwrap();
    fs::write(dir.path().join("issuers"), world.issuers_text()).unwrap();
    drop((world, bundle));

    let began = Instant::now();
    let mut child = Command::new(env!("CARGO_BIN_EXE_counterfoil-verify"))
        .args(["audit", "--policy", "policy", "--issuers", "issuers", "bundle"])
        .current_dir(dir.path())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let mut peak_kib = 0;
    let code = loop {
        let status = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kib = line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(0);
        peak_kib = peak_kib.max(kib);
        if let Some(status) = child.try_wait().unwrap() {
            break status.code();
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    let seconds = began.elapsed().as_secs_f64();
    println!(
        "{receipts} receipts in {seconds:.1} s, {:.0} a second, {} MB",
        receipts as f64 / seconds,
        peak_kib / 1000
    );
    assert_eq!(code, Some(0));
    assert!(peak_kib < MAX_MEMORY_KIB, "{peak_kib} KiB");
}
