//! The first thing a newcomer runs, as he runs it.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::process::Command;

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
