//! `sdk/python`: its own tests, and every example that is written in Python, against the programs built here.
//!
//! Runs where Python 3.10 is, with what the package needs or a way to fetch it. Elsewhere it says SKIPPED on standard error.
#![allow(clippy::unwrap_used, clippy::panic)]

use counterfoil_tests::sdk;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// All programs in one.
const EXECUTABLE: &str = env!("CARGO_BIN_EXE_counterfoil-under-test");

/// Each example with words of the last thing that its reader wants to see.
const EXAMPLES: [(&str, &str); 5] = [
    ("quickstart.py", "The log holds all of them"),
    ("mcp_server.py", "The log holds all of them"),
    ("mcp_client.py", "The log holds all of them"),
    ("logging_handler.py", "The log holds all of them"),
    ("opentelemetry_span.py", "The log holds all of them"),
];

fn scratch() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("sdk-python")
}

/// Made once, whichever test comes first.
fn python() -> Result<&'static Path, &'static str> {
    static PYTHON: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    PYTHON.get_or_init(|| sdk::python(&scratch())).as_deref().map_err(String::as_str)
}

#[test]
fn the_python_package_passes_its_own_tests() {
    let python = match python() {
        Ok(python) => python,
        Err(reason) => return sdk::skipped("the tests of sdk/python were not run", reason),
    };
    let mut tests = Command::new(python);
    tests.args(["-m", "pytest", "-q", "-p", "no:cacheprovider"]).current_dir(sdk::repository().join("sdk/python"));
    tests.env("COUNTERFOIL_BIN", EXECUTABLE);
    match sdk::run(&mut tests, &scratch().join("pytest.log")) {
        Ok(said) => sdk::tell_left_out("tests of sdk/python were not run", &said),
        Err(said) => panic!("{said}"),
    }
}

#[test]
fn every_example_in_python_runs_with_one_command_and_shows_what_it_promises() {
    let python = match python() {
        Ok(python) => python,
        Err(reason) => return sdk::skipped("the examples in Python were not run", reason),
    };
    let examples = sdk::repository().join("examples");
    for (example, promised) in EXAMPLES {
        let mut run = Command::new(python);
        run.arg(examples.join(example)).current_dir(&examples).env("COUNTERFOIL_BIN", EXECUTABLE);
        match sdk::run(&mut run, &scratch().join(example).with_extension("log")) {
            Ok(said) => assert!(said.contains(promised), "{example}: {said}"),
            Err(said) => panic!("{example}: {said}"),
        }
    }
}

#[test]
fn no_example_in_python_is_left_out_and_each_has_its_line_in_the_list() {
    let examples = sdk::repository().join("examples");
    let list = std::fs::read_to_string(examples.join("README.md")).unwrap();
    for entry in std::fs::read_dir(&examples).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        if name.ends_with(".py") && name != "local_log.py" {
            assert!(EXAMPLES.iter().any(|(example, _)| *example == name), "{name} is run by no test");
            assert!(list.contains(&format!("`{name}`")), "{name} has no line in examples/README.md");
        }
    }
}
