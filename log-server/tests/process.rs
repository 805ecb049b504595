//! The program itself: real processes, signals and exit codes.

use crate::stand;
use note::VerifierKey;
use stand::process::{Served, gate, program, run, stderr, stdout};
use stand::{ask, until};

#[tokio::test]
async fn a_log_is_made_fed_killed_started_again_and_stopped() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path().join("log");
    let place = dir.to_str().unwrap();
    let made = run(&["init", "--dir", place, "--origin", "log.example/agents"]);
    assert_eq!(made.status.code(), Some(0), "{}", stderr(&made));
    let vkey: VerifierKey = stdout(&made).lines().next().unwrap().parse().unwrap();
    assert_eq!(vkey.name().as_str(), "log.example/agents");

    let ((mut first, now), (mut second, _)) = (gate("gate.example/a"), gate("gate.example/b"));
    assert_eq!(run(&["issuer", "add", "--dir", place, &first.vkey().to_string()]).status.code(), Some(0));
    let log = Served::start(&dir, &[]);
    let open = first.chain.open(now, &first.key).unwrap();
    let answer = log.submit(&open).await;
    assert_eq!(answer.status, 200, "{}", answer.text());

    // The list is read again at SIGHUP, and not before.
    let other = second.chain.open(now, &second.key).unwrap();
    assert_eq!(run(&["issuer", "add", "--dir", place, &second.vkey().to_string()]).status.code(), Some(0));
    assert_eq!(log.submit(&other).await.status, 403);
    log.signal("-HUP");
    until("SIGHUP changes the list", async || log.submit(&other).await.status == 200).await;

    let status = run(&["status", "--url", &format!("http://{}", log.address), "--json"]);
    let report: serde_json::Value = serde_json::from_str(&stdout(&status)).unwrap();
    assert_eq!(
        (status.status.code(), report["origin"].as_str(), report["issuers"].as_u64()),
        (Some(0), Some("log.example/agents"), Some(2))
    );

    // Killed, it keeps what it answered for.
    log.signal("-KILL");
    log.wait();
    let log = Served::start(&dir, &[]);
    for receipt in [&open, &other] {
        let found = ask(log.address, "GET", &format!("/v1/receipts/{}", receipt.id()), &[], b"").await;
        assert_eq!(found.status, 200);
        assert_eq!(found.json()["entry"], receipt.to_string());
    }
    let next = first.chain.append(r#"{"type":"heartbeat"}"#, now, &first.key).unwrap();
    assert_eq!(log.submit(&next).await.status, 200);

    // Stopped, it says so and exits 0.
    log.signal("-TERM");
    let (code, messages) = log.wait();
    assert_eq!(code, 0, "{messages}");
    assert!(messages.contains("the log has stopped"), "{messages}");
}

#[test]
fn init_makes_no_log_over_anything_and_leaves_a_private_key_file() {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().unwrap();
    let place = dir.path().join("log");
    let place = place.to_str().unwrap();
    let made = run(&["init", "--dir", place, "--origin", "log.example/agents", "--json"]);
    let report: serde_json::Value = serde_json::from_str(&stdout(&made)).unwrap();
    assert!(report["vkey"].as_str().unwrap().parse::<VerifierKey>().is_ok());
    let mode = std::fs::metadata(format!("{place}/log.key")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let again = run(&["init", "--dir", place, "--origin", "log.example/agents"]);
    assert_eq!(again.status.code(), Some(1));
    assert!(stderr(&again).contains("exists"), "{}", stderr(&again));
    assert_eq!(run(&["init", "--dir", "/nonexistent/deeper/log", "--origin", "a b"]).status.code(), Some(64));
}

#[test]
fn wrong_usage_and_wrong_configuration_exit_64_with_one_sentence() {
    let dir = tempfile::tempdir().unwrap();
    let place = dir.path().join("log");
    let config = place.join("config.toml");
    let (place, config) = (place.to_str().unwrap(), config.to_str().unwrap());
    assert_eq!(run(&["init", "--dir", place, "--origin", "log.example/agents"]).status.code(), Some(0));
    for arguments in [
        &["serve"][..],
        &["unknown"],
        &[],
        &["init", "--dir", place],
        &["serve", "--config", config, "--linger-ms", "x"],
    ] {
        assert_eq!(run(arguments).status.code(), Some(64), "{arguments:?}");
    }
    let misspelt = run(&["serve", "--config", config, "--set", "head_intervall_ms=3"]);
    assert_eq!(misspelt.status.code(), Some(64));
    assert!(stderr(&misspelt).contains("did you mean `head_interval_ms`?"), "{}", stderr(&misspelt));
    let out_of_range =
        program(&["serve", "--config", config]).env("COUNTERFOIL_HEAD_INTERVAL_MS", "0").output().unwrap();
    assert_eq!(out_of_range.status.code(), Some(64));
    assert_eq!(run(&["issuer", "add", "--dir", place, "nonsense"]).status.code(), Some(64));
    assert_eq!(run(&["status", "--url", "nonsense"]).status.code(), Some(64));
    for arguments in [&["--help"][..], &["--version"], &["serve", "--help"]] {
        assert_eq!(run(arguments).status.code(), Some(0), "{arguments:?}");
    }
}

#[test]
fn what_cannot_be_done_exits_1_with_one_sentence() {
    let dir = tempfile::tempdir().unwrap();
    let place = dir.path().join("log");
    let (key, config) = (place.join("log.key"), place.join("config.toml"));
    assert_eq!(
        run(&["init", "--dir", place.to_str().unwrap(), "--origin", "log.example/agents"]).status.code(),
        Some(0)
    );
    let log = Served::start(&place, &[]);
    let second = run(&["serve", "--config", config.to_str().unwrap(), "--listen", "127.0.0.1:0"]);
    assert_eq!(second.status.code(), Some(1));
    assert!(stderr(&second).contains("in use"), "{}", stderr(&second));
    log.signal("-INT");
    assert_eq!(log.wait().0, 0);

    std::fs::set_permissions(&key, std::os::unix::fs::PermissionsExt::from_mode(0o644)).unwrap();
    let exposed = run(&["serve", "--config", config.to_str().unwrap(), "--listen", "127.0.0.1:0"]);
    assert_eq!(exposed.status.code(), Some(1));
    assert!(stderr(&exposed).contains("chmod 600"), "{}", stderr(&exposed));
    assert_eq!(run(&["status", "--url", "http://127.0.0.1:1"]).status.code(), Some(1));
}
