//! A log that shows one history to one auditor and another to the next: each finds it in order, and together they convict it.
#![allow(clippy::unwrap_used, clippy::panic)]

use receipt::UnixMillis;
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};
use std::sync::Arc;
use testkit::liar::{Gates, Liar, Showing};

const ORIGIN: &str = "log.example/liar";
const SEED: u64 = 20_261_130;

fn verify(dir: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_counterfoil-under-test"));
    command.current_dir(dir).arg("verify").args(arguments).output().unwrap()
}

fn told(output: &Output) -> String {
    String::from_utf8_lossy(&[&output.stdout[..], &output.stderr[..]].concat()).into_owned()
}

fn receipts(gates: &mut Gates, count: usize) -> Vec<Vec<u8>> {
    (0..count).map(|_| gates.entry().unwrap()).collect()
}

/// Each auditor fetches with a policy of his own, which differs in the address alone.
async fn fetched(liar: &Arc<Liar>, dir: &Path, auditor: &str) {
    let policy = format!("log {} {}\nquorum none\n", liar.vkey(), liar.url(auditor));
    fs::write(dir.join(format!("policy-{auditor}")), policy).unwrap();
    let (dir, auditor) = (dir.to_owned(), auditor.to_owned());
    let output = tokio::task::spawn_blocking(move || {
        verify(&dir, &["fetch", "--policy", &format!("policy-{auditor}"), "--out", &auditor, "--wait", "1s"])
    });
    let output = output.await.unwrap();
    assert!(matches!(output.status.code(), Some(0 | 2)), "{}", told(&output));
}

#[tokio::test(flavor = "multi_thread")]
async fn two_auditors_who_were_shown_two_histories_convict_the_log() {
    let liar = Liar::start(ORIGIN, SEED).await.unwrap();
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let mut gates = Gates::new(2, UnixMillis(1_795_953_600_000)).unwrap();
    liar.extend(0, receipts(&mut gates, 40)).unwrap();
    let second = liar.branch(0, 40).unwrap();
    let mut elsewhere = gates.clone();
    elsewhere.skip();
    liar.extend(0, receipts(&mut gates, 300)).unwrap();
    liar.extend(second, receipts(&mut elsewhere, 20)).unwrap();
    for (auditor, history) in [("one", 0), ("copy", 0), ("two", second)] {
        liar.show(auditor, Showing::newest(history));
        fetched(&liar, dir, auditor).await;
    }
    let same = verify(dir, &["compare", "--policy", "policy-one", "one", "copy"]);
    assert_eq!(same.status.code(), Some(0), "{}", told(&same));

    let differ = verify(dir, &["compare", "--json", "--policy", "policy-one", "one", "two"]);
    assert_eq!(differ.status.code(), Some(1), "{}", told(&differ));
    let found: Value = serde_json::from_slice(&differ.stdout).unwrap();
    let documents = found["evidence"].as_array().unwrap();
    let fork = documents.iter().find(|document| document["kind"] == "log-fork").unwrap_or_else(|| panic!("{found}"));
    fs::write(dir.join("fork.json"), fork.to_string()).unwrap();
    let checked = verify(dir, &["evidence", "--json", "fork.json"]);
    assert_eq!(checked.status.code(), Some(0), "{}", told(&checked));
    let checked: Value = serde_json::from_slice(&checked.stdout).unwrap();
    assert_eq!(checked["key"], liar.vkey().to_string());
}
