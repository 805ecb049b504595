//! Programs in Go, as peers that share no line with ours.
//!
//! They are built once and kept in the target directory. A machine that cannot build them says SKIPPED, and why.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// A cold build takes most of a minute on two idle cores.
const BUILD_PATIENCE: Duration = Duration::from_secs(300);

/// Where a program is, or what is missing here. `needs` are other programs that it takes, each with an argument under
/// which it ends at once.
///
/// # Errors
/// A sentence for [`skipped`].
pub fn built(program: &Path, needs: &[(&str, &str)], arguments: &[&str], folder: &Path) -> Result<PathBuf, String> {
    for (needed, argument) in [("go", "version")].iter().chain(needs) {
        // Whatever they say to that: they can be started.
        let quiet = Command::new(needed).arg(argument).stdin(Stdio::null()).output();
        quiet.map_err(|error| format!("{needed} cannot be started: {error}"))?;
    }
    let dir = program.parent().unwrap();
    fs::create_dir_all(dir).unwrap();
    let said = program.with_extension("build.log");
    let mut build = Command::new("go")
        .args(arguments)
        .current_dir(folder)
        .env("GOBIN", dir)
        // What is installed builds it, or nothing does: a test fetches no compilers.
        .env("GOTOOLCHAIN", "local")
        .stdin(Stdio::null())
        .stderr(File::create(&said).unwrap())
        .spawn()
        .map_err(|error| error.to_string())?;
    let started = Instant::now();
    let ended = loop {
        if let Some(status) = build.try_wait().unwrap() {
            break status;
        }
        if started.elapsed() > BUILD_PATIENCE {
            let _already_gone = build.kill();
            let _already_gone = build.wait();
            return Err("the Go program takes too long to build".to_owned());
        }
        std::thread::sleep(Duration::from_millis(100));
    };
    if ended.success() { Ok(program.to_owned()) } else { Err(fs::read_to_string(said).unwrap_or_default()) }
}

/// Says on standard error, captured or not, that something was not tried.
pub fn skipped(what: &str, reason: &str) {
    // Not through `eprintln!`, which the test runner keeps to itself.
    std::io::stderr().write_all(format!("SKIPPED: {what}: {}\n", reason.trim()).as_bytes()).unwrap();
}
