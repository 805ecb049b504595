//! The first thing a newcomer runs, as he runs it.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

#[test]
fn the_demo_ends_every_scene_as_it_must() {
    let dir = tempfile::tempdir().unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_counterfoil-under-test"))
        .args(["demo", "--once", "--dir"])
        .arg(dir.path().join("demo"))
        .output()
        .unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    let complained = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(0), "{said}\n{complained}");
    let scenes: Vec<&str> = said.lines().filter(|line| line.starts_with("ok  ")).collect();
    let expected = [
        ("honest run", "every check"),
        ("receipt torn out", "gap"),
        ("heads left out", "omitted-head"),
        ("split takeover", "sequence-forbidden"),
        ("false history", "prior-classes-differ"),
        ("second history", "3 of 3 witnesses"),
    ];
    assert_eq!(scenes.len(), expected.len(), "{said}");
    for (line, (name, check)) in scenes.iter().zip(expected) {
        assert!(line.chars().count() <= 80, "wider than a terminal: {line}");
        assert!(line.contains(name) && line.contains(check), "{line}");
    }
}

/// A demo that is left running; interrupted in the end, it ends its processes.
struct Left(Child);

impl Drop for Left {
    fn drop(&mut self) {
        let _ = Command::new("kill").args(["-INT", &self.0.id().to_string()]).status();
        let _ = self.0.wait();
    }
}

/// After the last scene the log shows one of its two histories, and publishes nothing against itself: its witnesses do.
#[test]
fn left_running_it_says_how_an_auditor_finds_out_what_the_witnesses_know() {
    let program = env!("CARGO_BIN_EXE_counterfoil-under-test");
    let dir = tempfile::tempdir().unwrap();
    let mut demo = Left(
        Command::new(program)
            .args(["demo", "--dir", "demo"])
            .current_dir(dir.path())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap(),
    );
    let said = BufReader::new(demo.0.stdout.take().unwrap()).lines().map(Result::unwrap);
    let said: Vec<String> = said.take_while(|line| !line.starts_with("Ctrl-C")).collect();
    let elsewhere = tempfile::tempdir().unwrap();
    // As a shell reads them, whose lines go on after a backslash.
    let said = said.join("\n").replace(" \\\n    ", " ");
    let commands = said.lines().filter_map(|line| line.strip_prefix("  counterfoil verify "));
    let run = |command: &str| {
        Command::new(program).arg("verify").args(command.split(' ')).current_dir(elsewhere.path()).output().unwrap()
    };
    let [fetched, audited] = commands.map(run).collect::<Vec<_>>().try_into().unwrap();
    assert_eq!(fetched.status.code(), Some(0), "{}", String::from_utf8_lossy(&fetched.stdout));
    let told = String::from_utf8_lossy(&audited.stdout);
    assert_eq!(audited.status.code(), Some(1), "{told}");
    for witness in 1..=3 {
        assert!(told.contains(&format!("\"evidence/witness-{witness}.example-000000.json\": The log")), "{told}");
    }
    assert_eq!(told.matches("! log-fork").count(), 3, "{told}");
}

#[test]
fn the_demo_does_not_touch_a_directory_that_holds_something() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("mine"), "precious").unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_counterfoil-under-test"))
        .args(["demo", "--once", "--dir"])
        .arg(dir.path())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("not empty"));
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
}
