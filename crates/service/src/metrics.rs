//! Metrics: one recorder a process, shown as Prometheus text.
//!
//! The recorder keeps every value that a histogram is given, sixteen bytes each, until somebody folds them into its buckets.
//! Where nobody asks for `/metrics` that is nobody: so a thread does it.

use axum::Router;
use axum::routing::get;
use http::header;
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use std::io;
use std::sync::OnceLock;
use std::thread;
use std::time::Duration;

/// Upper bounds of the latency histograms, in seconds: an answer from memory takes well under a
/// millisecond, one that waits for an fsync a few, one that waits for witnesses up to seconds.
const LATENCY_BUCKETS_S: [f64; 12] = [0.000_5, 0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 2.5, 10.0];

/// Upper bounds of histograms that count (whose name ends in `_receipts` or `_records`): powers of four up to the largest group of a commit, and one above
/// it for the largest batch.
const COUNT_BUCKETS: [f64; 9] = [1.0, 4.0, 16.0, 64.0, 256.0, 1024.0, 4096.0, 16_384.0, 65_536.0];

/// How often values are folded: at 20,000 requests a second what waits for it is a third of a megabyte.
const FOLD_EVERY: Duration = Duration::from_secs(1);

const BUILD: &str = "counterfoil_build_info";

static RECORDER: OnceLock<Option<PrometheusHandle>> = OnceLock::new();

/// Starts recording; calling it again is harmless. `false` if another recorder was installed before.
pub fn install() -> bool {
    handle().is_some()
}

/// Says which program this is, in a metric whose value is always 1.
pub fn describe_build(program: &'static str, version: &'static str) {
    metrics::describe_gauge!(BUILD, "Always 1; the labels say what runs");
    metrics::gauge!(BUILD, "program" => program, "version" => version).set(1.0);
}

/// `GET /metrics`, as a router to merge.
pub fn routes<S: Clone + Send + Sync + 'static>() -> Router<S> {
    routes_after(|| {})
}

/// The same; `read_off` is called before each answer, to set the gauges that nobody sets as they change.
pub fn routes_after<S: Clone + Send + Sync + 'static>(
    read_off: impl Fn() + Clone + Send + Sync + 'static,
) -> Router<S> {
    Router::new().route(
        "/metrics",
        get(|| async move {
            read_off();
            ([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], text())
        }),
    )
}

/// All metrics of this process, as Prometheus text.
pub fn text() -> String {
    handle().map_or_else(String::new, |handle| {
        handle.run_upkeep();
        handle.render()
    })
}

fn handle() -> Option<&'static PrometheusHandle> {
    RECORDER
        .get_or_init(|| {
            let builder = PrometheusBuilder::new().set_buckets(&LATENCY_BUCKETS_S).ok()?;
            let builder = ["_receipts", "_records"].into_iter().try_fold(builder, |builder, counts| {
                builder.set_buckets_for_metric(Matcher::Suffix(counts.to_owned()), &COUNT_BUCKETS)
            });
            let recorder = builder.ok()?.build_recorder();
            let handle = recorder.handle();
            // Where the system gives no thread nothing is measured, rather than everything kept.
            let folding = handle.clone();
            fold_every(FOLD_EVERY, move || folding.run_upkeep()).ok()?;
            metrics::set_global_recorder(recorder).ok()?;
            Some(handle)
        })
        .as_ref()
}

/// Has `fold` done again and again, for as long as the process lives.
fn fold_every(time: Duration, fold: impl Fn() + Send + 'static) -> io::Result<()> {
    let again = move || loop {
        thread::sleep(time);
        fold();
    };
    thread::Builder::new().name("metrics".to_owned()).spawn(again).map(drop)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;

    /// Values recorded at once: four megabytes, until they are folded.
    const AT_ONCE: u64 = 250_000;
    const ROUNDS: u64 = 16;

    /// Nothing to say where there is no proc(5).
    fn resident_kib() -> Option<u64> {
        let status = std::fs::read_to_string("/proc/self/status").ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
        line.trim().strip_suffix(" kB")?.trim().parse().ok()
    }

    /// A daemon that nobody asked for its metrics grew by sixteen bytes a request and commit, for ever.
    #[test]
    fn what_is_recorded_takes_no_memory_when_nobody_asks_for_it() {
        assert!(install());
        let Some(before) = resident_kib() else { return };
        let seconds = metrics::histogram!("counterfoil_unread_seconds");
        let mut most = before;
        for _ in 0..ROUNDS {
            (0..AT_ONCE).for_each(|_| seconds.record(0.001));
            let now = resident_kib().unwrap();
            if now > most + 1024 {
                // Nothing was let go that this could take: give it the time.
                most = now;
                thread::sleep(2 * FOLD_EVERY);
            }
        }
        let kept = ROUNDS * AT_ONCE * 16 / 1024;
        assert!(most - before < kept / 2, "{} KiB more are resident, of {kept} that were recorded", most - before);
    }
}
