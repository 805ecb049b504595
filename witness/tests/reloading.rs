//! A configuration that changes while the witness runs.

use crate::stage;
use counterfoil_witness::journal::line::Outcome;
use stage::{FakeLog, House, Program, Running};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

/// Configures these logs, each with more lines of its own.
fn configure(house: &House, logs: &[(&FakeLog, &str)]) {
    let mut text = "interval_ms = 3600000\nnudge_gap_ms = 10\n".to_owned();
    for (log, more) in logs {
        text += &format!("[[log]]\nvkey = \"{}\"\nurl = \"{}\"\nprivate_address = true\n{more}\n", log.vkey(), log.url);
    }
    std::fs::write(house.home().join("config.toml"), text).unwrap();
}

async fn logs(size: u64) -> (Arc<FakeLog>, Arc<FakeLog>) {
    (FakeLog::start("log.example/a", size).await, FakeLog::start("log.example/b", size).await)
}

/// The origins in `/status`, once there are `count`.
async fn origins(witness: &Running, count: usize) -> Vec<String> {
    loop {
        let status: serde_json::Value = serde_json::from_str(&witness.get("/status").await.unwrap()).unwrap();
        let logs = status["logs"].as_array().unwrap();
        if logs.len() == count {
            return logs.iter().map(|log| log["origin"].as_str().unwrap().to_owned()).collect();
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_log_is_watched_at_once_and_a_removed_one_no_more() {
    let ((a, b), house) = (logs(20).await, House::new());
    configure(&house, &[(&a, "")]);
    let head = a.offer(20, 0, 0);
    let witness = house.start().await;
    while witness.cosigned(&a).await.is_none() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    configure(&house, &[(&b, ""), (&a, "")]);
    witness.reload(&house).await;
    assert_eq!(origins(&witness, 2).await, ["log.example/b", "log.example/a"]);
    // Nobody nudges: the first fetch is due at once.
    while witness.cosigned(&b).await.is_none() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(a.checkpoints_asked(), 1, "the log that stays is not fetched anew");

    configure(&house, &[(&b, "")]);
    witness.reload(&house).await;
    origins(&witness, 1).await;
    assert_eq!(witness.nudge(&a, &head).await, Err("unknown-log".to_owned()));
    assert!(witness.get(&format!("/{}/checkpoint", client::witness::origin_hash(&a.origin()))).await.is_err());
    assert_eq!(a.checkpoints_asked(), 1);
    assert!(witness.nudge(&b, &b.offer(30, 0, 0)).await.is_ok());
    let started = witness.journal().await.iter().filter(|line| line.outcome == Outcome::Started).count();
    assert_eq!(started, 2);
    witness.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_that_comes_back_finds_its_first_history_remembered() {
    let ((a, b), house) = (logs(20).await, House::new());
    configure(&house, &[(&a, ""), (&b, "")]);
    let witness = house.start().await;
    witness.nudge(&a, &a.offer(20, 0, 0)).await.unwrap();
    configure(&house, &[(&b, "")]);
    witness.reload(&house).await;
    origins(&witness, 1).await;
    let other = a.offer(25, 10, 1);
    configure(&house, &[(&a, ""), (&b, "")]);
    witness.reload(&house).await;
    origins(&witness, 2).await;
    let refusal = witness.nudge(&a, &other).await.unwrap_err();
    assert!(["fork", "refused"].contains(&refusal.as_str()), "{refusal}");
    witness.stop().await;

    // The same for one that this process has never watched: what it held is in the journal alone.
    let (_, house) = ((), House::new());
    configure(&house, &[(&a, ""), (&b, "")]);
    // Before the start: the first fetch comes at once, and would find the other history.
    let first = a.offer(20, 0, 0);
    let witness = house.start().await;
    witness.nudge(&a, &first).await.unwrap();
    witness.stop().await;
    configure(&house, &[(&b, "")]);
    let witness = house.start().await;
    origins(&witness, 1).await;
    let other = a.offer(25, 10, 1);
    configure(&house, &[(&b, ""), (&a, "")]);
    witness.reload(&house).await;
    origins(&witness, 2).await;
    let refusal = witness.nudge(&a, &other).await.unwrap_err();
    assert!(["fork", "refused"].contains(&refusal.as_str()), "{refusal}");
    assert_eq!(witness.cosigned(&a).await.unwrap().0.size.0, 20);
    witness.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn evidence_that_is_acknowledged_stops_the_log_no_more_and_evidence_that_is_not_does_again() {
    let ((a, _), house) = (logs(20).await, House::new());
    configure(&house, &[(&a, "")]);
    let witness = house.start().await;
    witness.nudge(&a, &a.offer(20, 0, 0)).await.unwrap();
    assert_eq!(witness.nudge(&a, &a.offer(25, 10, 1)).await, Err("fork".to_owned()));
    let good = a.offer(30, 0, 0);
    assert_eq!(witness.nudge(&a, &good).await, Err("refused".to_owned()));
    configure(&house, &[(&a, "acknowledged_evidence = [0]")]);
    witness.reload(&house).await;
    while witness.status().await.forked.is_some() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    witness.nudge(&a, &good).await.unwrap();
    configure(&house, &[(&a, "")]);
    witness.reload(&house).await;
    while witness.status().await.forked != Some(0) {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(witness.nudge(&a, &good).await, Err("refused".to_owned()));
    witness.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_under_another_key_changes_nothing_at_all() {
    let ((a, b), house) = (logs(20).await, House::new());
    configure(&house, &[(&a, "")]);
    let witness = house.start().await;
    let head = a.offer(20, 0, 0);
    witness.nudge(&a, &head).await.unwrap();
    let other = note::SigningKey::from_seed(a.key.name().clone(), note::KeyKind::Ed25519, [99; 32]).verifier();
    let config = house.home().join("config.toml");
    configure(&house, &[(&b, ""), (&a, "")]);
    let text = std::fs::read_to_string(&config).unwrap().replace(&a.vkey().to_string(), &other.to_string());
    std::fs::write(&config, text).unwrap();
    witness.reload(&house).await;
    // The next one is taken over only once that one was refused.
    configure(&house, &[(&a, "accept_pushes = true")]);
    witness.reload(&house).await;
    witness.reload(&house).await;
    assert_eq!(origins(&witness, 1).await, ["log.example/a"]);
    witness.nudge(&a, &head).await.unwrap();
    assert_eq!(b.checkpoints_asked(), 0);
    witness.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sighup_reads_the_file_again_and_a_bad_one_changes_nothing() {
    let ((a, b), house) = (logs(20).await, House::new());
    configure(&house, &[(&a, "")]);
    let config = house.home().join("config.toml");
    let mut program = Program::start(&house);
    let witness = program.client().await;
    let cosigns = async |log: &FakeLog| {
        while !matches!(witness.checkpoint(&log.origin()).await, Ok(Some(_))) {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    cosigns(&a).await;
    std::fs::write(&config, "[[log]]\nvkey = 5\n").unwrap();
    program.hang_up();
    while !program.said().contains("nothing has changed") {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    // What would not start a witness does not change one that runs, and it is told what is wrong.
    for (fault, told) in [
        ("interval_ms = 0\n", "interval_ms is below"),
        ("[[peer]]\nvkey = \"nonsense\"\njournal_vkey = \"\"\nurl = \"\"\n", "peer number 1"),
    ] {
        std::fs::write(&config, fault).unwrap();
        program.hang_up();
        let is_told = |text: String| text.lines().any(|line| line.contains("ERROR") && line.contains(told));
        while !is_told(program.said()) {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
    let words =
        ["log", "add", &b.vkey().to_string(), &b.url, "--private-address", "--config", config.to_str().unwrap()]
            .map(str::to_owned);
    configure(&house, &[(&a, "")]);
    let added = tokio::task::spawn_blocking(|| {
        Command::new(env!("CARGO_BIN_EXE_counterfoil-witness")).args(words).stdout(Stdio::null()).status().unwrap()
    });
    assert!(added.await.unwrap().success());
    program.hang_up();
    cosigns(&b).await;
    cosigns(&a).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fork_that_was_acknowledged_and_is_shown_again_and_again_is_logged_once() {
    let ((log, _), house) = (logs(20).await, House::new());
    house.configure(&log, &[("interval_ms", 20)], "");
    let program = Program::start(&house);
    let told = |words: &str| program.said().matches(words).count();
    let is_told = async |words: &str| {
        while told(words) == 0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    is_told("cosigned").await;
    log.offer(25, 10, 1);
    is_told("FORK: the log signed two histories").await;
    house.configure(&log, &[("interval_ms", 20)], "acknowledged_evidence = [0]");
    program.hang_up();
    is_told("configured anew").await;
    let before = log.checkpoints_asked();
    while log.checkpoints_asked() < before + 5 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(told("FORK: the log signed two histories"), 1);
}
