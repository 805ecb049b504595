//! The packages for other languages, and the programs that their own tests run in.
//!
//! A machine without the language, or without a way to its package index, says SKIPPED and why. Where
//! `COUNTERFOIL_SDKS=required` (as in `.ci/run`), that is a failure.

use crate::go;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// What a whole test run of a package, or fetching what it needs, may take: half a minute on two idle cores.
const PATIENCE: Duration = Duration::from_secs(900);

/// The repository.
pub fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize().unwrap()
}

/// Runs it with its output in `said`, and does not wait for ever.
///
/// # Errors
/// Everything that it said, when it did not end well, or why it could not be started.
pub fn run(command: &mut Command, said: &Path) -> Result<String, String> {
    fs::create_dir_all(said.parent().unwrap()).unwrap();
    let output = File::create(said).unwrap();
    let program = command.get_program().to_string_lossy().into_owned();
    let mut child = command
        .stdin(Stdio::null())
        .stdout(output.try_clone().unwrap())
        .stderr(output)
        .spawn()
        .map_err(|error| format!("{program} cannot be started: {error}"))?;
    let started = Instant::now();
    let ended = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status.to_string();
        }
        if started.elapsed() > PATIENCE {
            let _already_gone = child.kill();
            let _already_gone = child.wait();
            break format!("{program} took longer than {} s", PATIENCE.as_secs());
        }
        std::thread::sleep(Duration::from_millis(50));
    };
    let text = String::from_utf8_lossy(&fs::read(said).unwrap()).into_owned();
    if ended == "exit status: 0" { Ok(text) } else { Err(format!("{ended}\n{text}")) }
}

/// A Python that has `sdk/python` with everything its tests need: the one that `COUNTERFOIL_PYTHON` names, or an
/// environment made for it in `dir` and kept there.
///
/// # Errors
/// A sentence for [`skipped`].
pub fn python(dir: &Path) -> Result<PathBuf, String> {
    if let Some(python) = std::env::var_os("COUNTERFOIL_PYTHON") {
        return Ok(PathBuf::from(python));
    }
    let (package, environment) = (repository().join("sdk/python"), dir.join("venv"));
    let (python, stamp) = (environment.join("bin/python"), dir.join("made-of.toml"));
    let wanted = fs::read(package.join("pyproject.toml")).map_err(|error| error.to_string())?;
    if fs::read(&stamp).is_ok_and(|made| made == wanted) && python.is_file() {
        return Ok(python);
    }
    let make = ["-m", "venv", "--clear"];
    run(Command::new("python3").args(make).arg(&environment), &dir.join("venv.log"))?;
    let install = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--editable"];
    let what = format!("{}[dev]", package.display());
    run(Command::new(&python).args(install).arg(what), &dir.join("pip.log"))?;
    fs::write(stamp, wanted).unwrap();
    Ok(python)
}

/// What `sdk/typescript` needs from npm, fetched as its lock file says.
///
/// # Errors
/// A sentence for [`skipped`].
pub fn npm(dir: &Path) -> Result<(), String> {
    let package = repository().join("sdk/typescript");
    let (lock, stamp) = (package.join("package-lock.json"), package.join("node_modules/.made-of.json"));
    let wanted = fs::read(lock).map_err(|error| error.to_string())?;
    if fs::read(&stamp).is_ok_and(|made| made == wanted) {
        return Ok(());
    }
    let fetch = ["ci", "--no-audit", "--no-fund"];
    run(Command::new("npm").args(fetch).current_dir(&package), &dir.join("npm-ci.log"))?;
    fs::write(stamp, wanted).unwrap();
    Ok(())
}

/// Says which of a package's own tests were not run: pytest (`-ra`) and Node's runner end well all the same. Never a failure:
/// what they leave out wants programs beside the languages, such as a browser.
pub fn tell_left_out(what: &str, said: &str) {
    let is_left_out = |line: &&str| line.starts_with("SKIPPED") || line.contains("# SKIP");
    let lines: Vec<&str> = said.lines().map(str::trim).filter(is_left_out).collect();
    if !lines.is_empty() {
        go::skipped(what, &lines.join("; "));
    }
}

/// Says that something was not tried.
///
/// # Panics
/// Where nothing may be left out.
pub fn skipped(what: &str, reason: &str) {
    let required = std::env::var("COUNTERFOIL_SDKS").is_ok_and(|word| word == "required");
    assert!(!required, "{what}, and COUNTERFOIL_SDKS=required: {reason}");
    go::skipped(what, reason);
}
