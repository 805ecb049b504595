//! What the operator asks and changes from the command line: logs and evidence.

use crate::stage;
use axum::Router;
use axum::extract::Path;
use axum::routing::get;
use serde_json::Value;
use stage::{FakeLog, House, Manner};
use std::process::Output;

/// Runs the program; its exit code, standard output and standard error.
async fn run(words: &[&str]) -> (i32, String, String) {
    let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
    let done = tokio::task::spawn_blocking(move || {
        std::process::Command::new(env!("CARGO_BIN_EXE_counterfoil-witness")).args(words).output().unwrap()
    });
    let Output { status, stdout, stderr } = done.await.unwrap();
    (status.code().unwrap(), String::from_utf8(stdout).unwrap(), String::from_utf8(stderr).unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_is_looked_at_and_then_added_once() {
    let (log, house) = (FakeLog::start("log.example/agents", 300).await, House::new());
    let config = house.home().join("config.toml");
    let before = std::fs::read_to_string(&config).unwrap();
    let (vkey, config_text) = (log.vkey().to_string(), config.to_str().unwrap());
    let add = ["log", "add", &vkey, &log.url, "--config", config_text, "--private-address"];
    let (code, out, err) = run(&add).await;
    assert_eq!(code, 0, "{err}");
    let root = stage::honest_root(300).0.to_base64();
    assert!(out.contains(&format!("size 300, root {root}")) && out.contains("SIGHUP"), "{out}");
    let after = std::fs::read_to_string(&config).unwrap();
    assert!(after.starts_with(&before) && after.ends_with("private_address = true\n"), "{after}");
    let (code, out, _) = run(&["log", "list", "--config", config_text]).await;
    assert_eq!((code, out), (0, format!("log.example/agents  {}  private address\n", log.url)));

    let (code, _, err) = run(&add).await;
    assert!(code == 1 && err.contains("configured already"), "{err}");
    assert_eq!(std::fs::read_to_string(&config).unwrap(), after);
    // What was added is what a witness watches.
    let witness = house.start().await;
    assert_eq!(witness.status().await.origin, "log.example/agents");
    witness.stop().await;
    assert!(log.faults().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_that_is_not_what_it_should_be_is_not_added() {
    let (log, house) = (FakeLog::start("log.example/agents", 300).await, House::new());
    let other = FakeLog::start("log.example/other", 3).await;
    let config = house.home().join("config.toml");
    let before = std::fs::read_to_string(&config).unwrap();
    let config_text = config.to_str().unwrap();
    let (vkey, other_vkey) = (log.vkey().to_string(), other.vkey().to_string());
    let refused = async |vkey: &str, url: &str, more: &[&str], wanted: (i32, &str)| {
        let words = [&["log", "add", vkey, url, "--config", config_text], more].concat();
        let (code, out, err) = run(&words).await;
        assert!(code == wanted.0 && err.contains(wanted.1) && out.is_empty(), "{wanted:?}: {code} {err}");
        assert_eq!(std::fs::read_to_string(&config).unwrap(), before);
    };
    let private: &[&str] = &["--private-address"];
    refused(&vkey, &log.url, &[], (64, "add private_address = true")).await;
    let by_name = log.url.replace("127.0.0.1", "localhost");
    refused(&vkey, &by_name, &[], (1, "is not a public address")).await;
    refused(&other_vkey, &log.url, private, (1, "not its signed head")).await;
    refused(&vkey, &log.url, &["--private-address", "--acknowledge", "0"], (64, "holds no evidence of this number"))
        .await;
    refused("nonsense", &log.url, private, (64, "not a key")).await;
    refused(&vkey, "http://127.0.0.1:1", private, (1, "cannot connect")).await;
    for (manner, said) in [
        (Manner::WrongTiles, "hash to another root"),
        (Manner::WithoutTiles, "404"),
        (Manner::Unsigned, "not its signed head"),
        (Manner::Redirects, "redirects are refused"),
        (Manner::Portal, "not its signed head"),
        (Manner::Oversized, "larger than"),
    ] {
        log.set_manner(manner);
        refused(&vkey, &log.url, private, (1, said)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_that_only_pushes_is_added_without_being_asked() {
    let (log, house) = (FakeLog::unheard("log.example/agents"), House::new());
    let config = house.home().join("config.toml");
    let vkey = log.vkey().to_string();
    let words = ["log", "add", &vkey, "--accept-pushes", "--json", "--config", config.to_str().unwrap()];
    let (code, out, err) = run(&words).await;
    assert_eq!(code, 0, "{err}");
    let added: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((added["origin"].as_str(), added["head"].as_object()), (Some("log.example/agents"), None));
    assert!(std::fs::read_to_string(&config).unwrap().ends_with("accept_pushes = true\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn evidence_is_checked_before_it_is_shown_and_written_whole() {
    let (log, house) = (FakeLog::start("log.example/agents", 0).await, House::new());
    house.configure(&log, &[], "");
    let witness = house.start().await;
    let (code, out, _) = run(&["evidence", "list", "--url", &witness.url]).await;
    assert!(code == 0 && out.contains("no evidence against anybody"), "{out}");
    let held = log.offer(20, 0, 0);
    witness.nudge(&log, &held).await.unwrap();
    let fork = log.offer(25, 10, 1);
    witness.nudge(&log, &fork).await.unwrap_err();

    let (code, out, err) = run(&["evidence", "list", "--url", &witness.url]).await;
    assert!(code == 0 && out.contains("    0  log-fork: ") && out.contains("log.example/agents"), "{out}{err}");
    let file = house.home().join("fork.json");
    // Keys and addresses are words of their own and stay whole.
    let is_narrow = |line: &str| line.chars().count() <= 80 || line.trim().split(' ').count() == 1;
    assert!(out.lines().all(is_narrow), "{out}");
    let words = ["evidence", "show", "0", "--url", &witness.url, "--out", file.to_str().unwrap()];
    let (code, out, err) = run(&words).await;
    assert!(code == 0 && out.contains(&format!("accused    {}", log.vkey())), "{out}{err}");
    let document = std::fs::read_to_string(&file).unwrap();
    assert_eq!(document, witness.get("/evidence/0").await.unwrap());
    let (code, _, err) = run(&words).await;
    assert!(code == 1 && err.contains("never overwritten"), "{err}");
    let (code, _, err) = run(&["evidence", "show", "1", "--url", &witness.url]).await;
    assert!(code == 1 && err.contains("has no evidence 1"), "{err}");
    witness.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_witness_that_serves_nonsense_for_evidence_accuses_nobody_and_writes_nothing_to_the_terminal() {
    let pages = |Path(page): Path<u64>| async move {
        let hostile = "{\"kind\":\"log-fork\",\"log\":\"\u{1b}]0;owned\u{7}\u{202e}\"}\n{\"kind\":\"log-\u{9b}31m\"}\nno json \u{1b}[2J\n";
        if page == 0 { hostile.to_owned() } else { String::new() }
    };
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let status = r#"{"witness":"w","vkey":"","journal_vkey":"","journal_size":1,"level":"full","evidence":3,"time":1,"logs":[]}"#;
    let router =
        Router::new().route("/evidence/{page}", get(pages)).route("/status", get(move || async move { status }));
    tokio::spawn(service::serve(listener, router, service::Limits::default(), std::future::pending()));
    let words = [&["evidence", "list", "--url", &url][..], &["evidence", "show", "0", "--url", &url]];
    for words in words {
        for json in [&[][..], &["--json"]] {
            let (code, out, err) = run(&[words, json].concat()).await;
            assert_eq!(code, 1, "{err}");
            assert!(out.contains("log-fork") && !out.contains("accused"), "{out}");
            assert!(!out.chars().any(|c| c != '\n' && (c.is_control() || c == '\u{202e}')), "{out:?}");
        }
    }
    let (code, out, _) = run(&["evidence", "show", "1", "--url", &url]).await;
    assert!(code == 2 && out.replace('\n', " ").contains("cannot be checked by this version"), "{code} {out}");
}

#[tokio::test(flavor = "multi_thread")]
async fn where_no_witness_is_there_is_no_all_clear() {
    let (log, house) = (FakeLog::start("log.example/agents", 3).await, House::new());
    house.configure(&log, &[], "");
    let witness = house.start().await;
    let wrong_path = format!("{}/w1", witness.url);
    for url in [&log.url, &wrong_path] {
        for words in [&["evidence", "list", "--url", url][..], &["evidence", "show", "0", "--url", url]] {
            let (code, out, err) = run(words).await;
            assert!(code == 1 && out.is_empty() && err.contains("is no witness"), "{words:?} {code} {out}{err}");
        }
        let (code, out, err) = run(&["status", "--url", url]).await;
        assert!(code == 65 && out.is_empty() && err.contains("is no witness"), "{code} {out}{err}");
    }
    witness.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_witness_that_serves_less_evidence_than_it_holds_is_told() {
    let status = r#"{"witness":"w","vkey":"","journal_vkey":"","journal_size":1,"level":"full","evidence":3,"time":1,"logs":[]}"#;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let router = Router::new().route("/status", get(move || async move { status }));
    tokio::spawn(service::serve(listener, router, service::Limits::default(), std::future::pending()));
    let (code, out, err) = run(&["evidence", "list", "--url", &url]).await;
    assert!(code == 1 && out.is_empty() && err.contains("holds 3 documents"), "{code} {out}{err}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_of_issuers_is_read_before_a_log_is_added_with_it() {
    let (log, home) = (FakeLog::start("log.example/agents", 3).await, tempfile::tempdir().unwrap());
    let dir = home.path().join("w");
    let (code, _, err) =
        run(&["init", "--dir", dir.to_str().unwrap(), "--name", "witness.example/full", "--level", "full"]).await;
    assert_eq!(code, 0, "{err}");
    let (config, list) = (dir.join("config.toml"), dir.join("issuers"));
    let before = std::fs::read_to_string(&config).unwrap();
    let vkey = log.vkey().to_string();
    let words = ["log", "add", &vkey, &log.url, "--private-address", "--config", config.to_str().unwrap()];
    let words = [&words[..], &["--issuers", list.to_str().unwrap()]].concat();
    for (text, said) in [(None, "cannot be read"), (Some("nonsense\n"), "line 1: not a vkey")] {
        if let Some(text) = text {
            std::fs::write(&list, text).unwrap();
        }
        let (code, _, err) = run(&words).await;
        assert!(code == 64 && err.contains(said), "{code} {err}");
        assert_eq!(std::fs::read_to_string(&config).unwrap(), before);
    }
    std::fs::write(&list, format!("{vkey}\n")).unwrap();
    let (code, _, err) = run(&words).await;
    assert_eq!(code, 0, "{err}");
    let (code, out, _) = run(&["log", "list", "--config", config.to_str().unwrap()]).await;
    assert!(code == 0 && out.ends_with(&format!("  private address  issuers of {}\n", list.display())), "{out}");
}
