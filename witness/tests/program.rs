//! The program as its users meet it: init, serve's configuration, status.

use crate::stage;
use counterfoil_witness::main_with;
use stage::{FakeLog, House};
use std::os::unix::fs::PermissionsExt;
use std::process::ExitCode;

fn run(words: &[&str]) -> String {
    format!("{:?}", main_with(std::iter::once("counterfoil-witness").chain(words.iter().copied()).map(Into::into)))
}

fn exit(code: u8) -> String {
    format!("{:?}", ExitCode::from(code))
}

#[tokio::test(flavor = "multi_thread")]
async fn init_makes_private_keys_and_a_configuration_that_loads_and_never_overwrites() {
    let house = House::new();
    for key in ["witness.key", "journal.key"] {
        let mode = std::fs::metadata(house.home().join(key)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{key}");
    }
    house.open().await.unwrap();
    let before = std::fs::read(house.home().join("witness.key")).unwrap();
    let home = house.home();
    assert_eq!(run(&["init", "--dir", home.to_str().unwrap(), "--name", "witness.example/w1"]), exit(1));
    assert_eq!(std::fs::read(house.home().join("witness.key")).unwrap(), before);
}

#[test]
fn init_prints_the_vkey_alone_in_its_first_line_and_then_the_next_steps() {
    let dir = tempfile::tempdir().unwrap();
    let made = std::process::Command::new(env!("CARGO_BIN_EXE_counterfoil-witness"))
        .args(["init", "--dir", "w", "--name", "witness.example/w1", "--mldsa"])
        .current_dir(dir.path())
        .output()
        .unwrap();
    let text = String::from_utf8(made.stdout).unwrap();
    let first: note::VerifierKey = text.lines().next().unwrap().parse().unwrap();
    assert_eq!(first.name().as_str(), "witness.example/w1");
    let journal = text.lines().find(|line| line.starts_with("witness.example/w1/journal+")).unwrap();
    let key = service::keys::read_signing_key(&dir.path().join("w/journal.key"), note::KeyKind::Ed25519).unwrap();
    assert_eq!(journal, key.verifier().to_string());
    assert!(text.contains("mldsa_vkey") && text.contains("journal_vkey"), "{text}");
    assert!(text.contains("Next") && text.contains("counterfoil-witness serve --config w/config.toml"), "{text}");
}

#[test]
fn an_init_that_was_killed_leaves_nothing_in_the_way() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(dir.path().join("w.unfinished/state")).unwrap();
    let home = dir.path().join("w");
    assert_eq!(run(&["init", "--dir", home.to_str().unwrap(), "--name", "witness.example/w1", "--json"]), exit(0));
    assert!(home.join("config.toml").exists() && !dir.path().join("w.unfinished").exists());
}

#[test]
fn wrong_usage_and_wrong_configuration_exit_64() {
    let house = House::new();
    let config = house.home().join("config.toml");
    for words in [
        &["init", "--dir", "/nowhere/w", "--name", "two words"][..],
        &["serve"],
        &["watch"],
        &["status", "--url", "not a url"],
        &["serve", "--config", "/nowhere/config.toml"],
    ] {
        assert_eq!(run(words), exit(64), "{words:?}");
    }
    for text in ["intervall_ms = 5\n", "interval_ms = 0\n", "[[log]]\nvkey = \"x\"\nurl = \"http://a\"\n"] {
        std::fs::write(&config, text).unwrap();
        assert_eq!(run(&["serve", "--config", config.to_str().unwrap()]), exit(64), "{text}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_of_two_witnesses_do_not_go_together() {
    let (one, other) = (House::new(), tempfile::tempdir().unwrap());
    let home = other.path().join("w");
    run(&["init", "--dir", home.to_str().unwrap(), "--name", "witness.example/w2"]);
    std::fs::copy(home.join("journal.key"), one.home().join("journal.key")).unwrap();
    let error = one.open().await.unwrap_err().to_string();
    assert!(error.contains("must be named witness.example/w1/journal"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn status_exits_0_while_all_is_well_and_1_after_a_fork() {
    let (log, house) = (FakeLog::start("log.example/agents", 0).await, House::new());
    house.configure(&log, &[], "");
    let witness = house.start().await;
    let held = log.offer(20, 0, 0);
    witness.nudge(&log, &held).await.unwrap();
    let url = witness.url.clone();
    let status = move || {
        let url = url.clone();
        tokio::task::spawn_blocking(move || {
            (run(&["status", "--url", &url]), run(&["status", "--url", &url, "--json"]))
        })
    };
    assert_eq!(status().await.unwrap(), (exit(0), exit(0)));
    let fork = log.offer(20, 10, 1);
    witness.nudge(&log, &fork).await.unwrap_err();
    assert_eq!(status().await.unwrap(), (exit(1), exit(1)));
    witness.stop().await;
    assert_eq!(status().await.unwrap(), (exit(1), exit(1)), "nobody there");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_state_that_is_lost_means_a_new_key_and_nothing_is_made_in_its_place() {
    let house = House::new();
    let state = house.home().join("state");
    for is_there in [true, false] {
        std::fs::remove_dir_all(&state).unwrap();
        if is_there {
            std::fs::create_dir(&state).unwrap();
        }
        let error = house.open().await.unwrap_err().to_string();
        assert!(
            error.contains("holds no state of this witness") && error.contains("new key and a new name"),
            "{error}"
        );
        assert_eq!(state.exists(), is_there);
        assert!(!is_there || std::fs::read_dir(&state).unwrap().next().is_none());
    }
}

#[test]
fn every_help_fits_a_screen_of_80_columns_and_shows_an_example() {
    for command in [
        &[][..],
        &["init"],
        &["serve"],
        &["status"],
        &["log"],
        &["log", "add"],
        &["log", "list"],
        &["evidence"],
        &["evidence", "list"],
        &["evidence", "show"],
    ] {
        let words = command.iter().chain(&["--help"]);
        let made = std::process::Command::new(env!("CARGO_BIN_EXE_counterfoil-witness")).args(words).output().unwrap();
        let text = String::from_utf8(made.stdout).unwrap();
        let (_, examples) = text.split_once("Example").unwrap_or_else(|| panic!("{command:?}: {text}"));
        assert!(examples.lines().all(|line| line.chars().count() <= 80), "{examples}");
        assert!(examples.contains("counterfoil-witness "), "{examples}");
    }
}

#[test]
fn every_key_of_the_configuration_has_a_flag() {
    let dir = tempfile::tempdir().unwrap();
    let run = |words: &[&str]| {
        let program = env!("CARGO_BIN_EXE_counterfoil-witness");
        let done = std::process::Command::new(program).args(words).current_dir(dir.path()).output().unwrap();
        (done.status.code().unwrap(), String::from_utf8(done.stderr).unwrap())
    };
    assert_eq!(run(&["init", "--dir", "w", "--name", "witness.example/w1"]).0, 0);
    for (assignment, said) in [
        ("level=\"fuller\"", "is no level"),
        ("limits.connections=0", "connections"),
        ("ssh_agent=/nowhere", "witness_vkey"),
        ("peer=[{vkey = \"x\", journal_vkey = \"x\", url = \"x\"}]", "peer number 1"),
        ("nonsense=1", "no known key"),
        ("nonsense", "KEY=VALUE"),
    ] {
        let (code, err) = run(&["serve", "--config", "w/config.toml", "--set", assignment]);
        assert!(code == 64 && err.contains(said), "{assignment}: {code} {err}");
    }
    let (code, err) = run(&["log", "list"]);
    assert!(code == 64 && err.contains("--config"), "{err}");
}
