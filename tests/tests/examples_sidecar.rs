//! `examples/sidecar` runs as it stands, and leaves in the outbox and the log what it says.
#![allow(clippy::unwrap_used, clippy::panic)]

use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use testkit::stage::{Setup, Stage};

const TOKEN: &str = "0123456789abcdef0123456789abcdef";

fn program() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_counterfoil-under-test"))
}

/// A log, and a directory with a gate's configuration.
struct Scene {
    dir: tempfile::TempDir,
    stage: Stage,
}

impl Scene {
    fn new() -> Scene {
        let dir = tempfile::tempdir().unwrap();
        let at = dir.path().join("stage");
        let setup = Setup { dir: &at, executable: program(), port: None, witnesses: 0, more_issuers: &[] };
        let mut stage = Stage::build(&setup).unwrap();
        stage.start_log().unwrap();
        stage.wait_until_ready().unwrap();
        let config = format!(
            "log = {:?}\nlog_key = {:?}\nkey = {:?}\noutbox = \"outbox\"\n",
            stage.log_url(),
            stage.log_vkey(),
            stage.issuer_key_file()
        );
        fs::write(dir.path().join("gate.toml"), config).unwrap();
        Scene { dir, stage }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// What the log holds, as `counterfoil verify` sees it: nothing may be wrong with it.
    fn audit(&self) -> Value {
        let bundle = self.path("bundle");
        let policy = self.stage.policy_file();
        let fetched = Command::new(program())
            .args(["verify", "fetch", "--policy"])
            .arg(&policy)
            .arg("--out")
            .arg(&bundle)
            .output()
            .unwrap();
        assert!(fetched.status.success(), "{}", String::from_utf8_lossy(&fetched.stderr));
        let audited = Command::new(program())
            .args(["verify", "audit", "--json", "--policy"])
            .arg(&policy)
            .arg("--issuers")
            .arg(self.stage.issuers_file())
            .arg(&bundle)
            .output()
            .unwrap();
        let verdict: Value = serde_json::from_slice(&audited.stdout).unwrap();
        assert_ne!(verdict["overall"], "fail", "{verdict}");
        verdict
    }
}

/// Whether a program is there; where it is not, that is said.
fn is_there(name: &str) -> bool {
    let found = Command::new(name).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    let is_there = found.is_ok_and(|status| status.success());
    if !is_there {
        counterfoil_tests::go::skipped("an example of the sidecar was not run", &format!("there is no {name}"));
    }
    is_there
}

fn example(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/sidecar").join(name)
}

fn covers(verdict: &Value, name: &str) -> String {
    let checks = verdict["checks"].as_array().unwrap();
    let check = checks.iter().find(|check| check["family"] == "request" && check["name"] == name).unwrap();
    check["covers"].as_str().unwrap().to_owned()
}

#[test]
fn the_shell_script_decides_acts_and_shows_a_proof() {
    if !is_there("curl") {
        return;
    }
    let scene = Scene::new();
    let ran = Command::new(example("run.sh"))
        .arg(scene.path("gate.toml"))
        .env("COUNTERFOIL", program())
        .current_dir(scene.dir.path())
        .output()
        .unwrap();
    let (said, complaints) = (String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
    assert!(ran.status.success(), "{said}{complaints}");
    assert!(said.contains("allowed: host.name, receipt ") && said.ends_with("c2sp.org/tlog-proof@v1\n"), "{said}");
    let pairing = covers(&scene.audit(), "pairing");
    assert!(pairing.starts_with("2 decisions and 1 outcome; 1 paired"), "{pairing}");
}

#[test]
fn the_node_program_leaves_an_outcome_for_what_fails_too() {
    if !is_there("node") {
        return;
    }
    let scene = Scene::new();
    fs::write(scene.path("token"), TOKEN).unwrap();
    fs::set_permissions(scene.path("token"), fs::Permissions::from_mode(0o600)).unwrap();
    let mut sidecar = Ended(
        Command::new(program())
            .args(["sidecar", "--listen", "127.0.0.1:0", "--config"])
            .arg(scene.path("gate.toml"))
            .arg("--token-file")
            .arg(scene.path("token"))
            .stderr(Stdio::piped())
            .spawn()
            .unwrap(),
    );
    let mut lines = BufReader::new(sidecar.0.stderr.take().unwrap()).lines();
    let address = lines.find_map(|line| line.unwrap().strip_prefix("listening on ").map(str::to_owned)).unwrap();
    let ran = Command::new("node")
        .arg(example("gate.mjs"))
        .envs([("SIDECAR", address.as_str()), ("SIDECAR_TOKEN", TOKEN)])
        .output()
        .unwrap();
    let (said, complaints) = (String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
    assert!(ran.status.success(), "{said}{complaints}");
    assert!(said.contains("calc.add = 5") && said.contains("failed: mail.send, no such mailbox"), "{said}");
    // Told to stop, it hands over what is left.
    Command::new("kill").arg(sidecar.0.id().to_string()).status().unwrap();
    assert!(sidecar.0.wait().unwrap().success());
    let pairing = covers(&scene.audit(), "pairing");
    assert!(
        pairing.starts_with("3 decisions and 2 outcomes; 2 paired by request id or decision id, 1 of them failed"),
        "{pairing}"
    );
}

/// A process that does not outlive the test.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        // Gone already, or killed now.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
