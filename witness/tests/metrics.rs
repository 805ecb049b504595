//! What the witness measures is described where it is shown, and explained where its operator looks.

use crate::stage;
use stage::{FakeLog, House};
use std::collections::BTreeSet;

/// The names that begin like the witness's, without what Prometheus adds to a histogram's.
fn names(text: &str) -> BTreeSet<String> {
    let words = text.split(|character: char| !(character.is_ascii_alphanumeric() || character == '_'));
    let ours = words.filter(|word| word.starts_with("counterfoil_witness_"));
    let bare = |word: &str| {
        let cut = ["_bucket", "_sum", "_count"].iter().find_map(|suffix| word.strip_suffix(suffix));
        cut.unwrap_or(word).to_owned()
    };
    ours.map(bare).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_metric_is_described_and_documented_and_nothing_else_is() {
    service::metrics::install();
    counterfoil_witness::instruments::describe();
    let (log, house) = (FakeLog::start("log.example/agents", 20).await, House::new());
    house.configure(&log, &[], "");
    let witness = house.start().await;
    witness.nudge(&log, &log.offer(20, 0, 0)).await.unwrap();
    let text = witness.get("/metrics").await.unwrap();
    let shown = names(&text);
    let described = text.lines().filter_map(|line| line.strip_prefix("# HELP ")).collect::<Vec<_>>().join("\n");
    assert_eq!(names(&described), shown);
    // A witness of this level checks no entries.
    let mut documented = names(include_str!("../../docs/witness.md"));
    assert!(documented.remove(counterfoil_witness::instruments::ENTRIES_CHECKED));
    assert_eq!(documented, shown);
    for line in [
        "counterfoil_witness_logs 1",
        "counterfoil_witness_logs_not_cosigned 0",
        "counterfoil_witness_held_size{log=\"log.example/agents\"} 20",
        "counterfoil_witness_peer_journals_accused 0",
        "counterfoil_witness_forked{log=\"log.example/agents\"} 0",
    ] {
        assert!(text.lines().any(|shown| shown == line), "{line}\n{text}");
    }

    std::fs::write(house.home().join("config.toml"), "interval_ms = 3600000\n").unwrap();
    witness.reload(&house).await;
    let gone = "counterfoil_witness_held_size{log=\"log.example/agents\"} NaN";
    while !witness.get("/metrics").await.unwrap().lines().any(|shown| shown == gone) {
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    witness.stop().await;
}
