//! Many seeds, on all cores: what failed is named by its seed, and fails again by it.

use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

/// Most failures that are told. They mostly have one cause.
const TOLD: usize = 3;

/// The seeds to try: `COUNTERFOIL_SEED` alone if it is set, else all of these.
pub fn wanted(all: Range<u64>) -> Range<u64> {
    let one = std::env::var("COUNTERFOIL_SEED").ok().and_then(|seed| seed.parse::<u64>().ok());
    one.map_or(all, |seed| seed..seed + 1)
}

/// Does `each` for every seed, and sums what it answers.
///
/// # Panics
/// If `each` answered an error or panicked for any of them; the message has the first few, by seed.
pub fn over<Tally: Default + Send>(
    seeds: Range<u64>,
    each: impl Fn(u64, &mut Tally) -> Result<(), String> + Sync,
    add: impl Fn(&mut Tally, Tally),
) -> Tally {
    let next = AtomicU64::new(seeds.start);
    let failures: Mutex<Vec<(u64, String)>> = Mutex::default();
    let work = || {
        let mut tally = Tally::default();
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= seeds.end {
                return tally;
            }
            let done = catch_unwind(AssertUnwindSafe(|| each(seed, &mut tally)));
            if let Err(failure) = done.unwrap_or_else(|_| Err(String::from("panicked: see above"))) {
                failures.lock().expect("nobody panics while holding it").push((seed, failure));
            }
        }
    };
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let mut sum = Tally::default();
    thread::scope(|scope| {
        let threads: Vec<_> = (0..cores).map(|_| scope.spawn(work)).collect();
        for thread in threads {
            add(&mut sum, thread.join().expect("what a seed panics with is caught"));
        }
    });
    let mut failures = failures.into_inner().expect("nobody panics while holding it");
    failures.sort();
    let told: Vec<String> = failures
        .iter()
        .take(TOLD)
        .map(|(seed, failure)| format!("seed {seed} (again: COUNTERFOIL_SEED={seed}): {failure}"))
        .collect();
    // Each in a line, for one cause may hide another; the first few in full.
    let line = |(seed, why): &(u64, String)| format!("seed {seed}: {}", why.lines().next().unwrap_or_default());
    let lines: Vec<String> = failures.iter().map(line).collect();
    assert!(failures.is_empty(), "{} seeds failed\n{}\n{}", failures.len(), lines.join("\n"), told.join("\n"));
    sum
}
