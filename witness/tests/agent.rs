//! A witness whose key OpenSSH's agent holds, from `init` to a cosignature, and without its agent.

use crate::stage;
use counterfoil_witness::agent::parse_public_line;
use note::{KeyKind, KeyName, VerifierKey};
use stage::{FakeLog, House};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

struct Agent(Child);

impl Agent {
    /// `None` where OpenSSH is not installed.
    fn start(socket: &Path) -> Option<Agent> {
        // What another one left.
        let _ = std::fs::remove_file(socket);
        let agent = Command::new("ssh-agent").arg("-D").arg("-a").arg(socket).stdout(Stdio::null()).spawn().ok()?;
        while std::os::unix::net::UnixStream::connect(socket).is_err() {
            std::thread::sleep(Duration::from_millis(20));
        }
        Some(Agent(agent))
    }

    fn add(&self, socket: &Path, key: &Path) {
        let add = Command::new("ssh-add").arg("-q").arg(key).env("SSH_AUTH_SOCK", socket).status().unwrap();
        assert!(add.success());
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

fn init(home: &Path, socket: &Path, public: &Path) -> (bool, String) {
    let made = Command::new(env!("CARGO_BIN_EXE_counterfoil-witness"))
        .args(["init", "--name", "witness.example/w1", "--mldsa", "--dir"])
        .arg(home)
        .arg("--ssh-agent")
        .arg(socket)
        .arg("--ssh-key")
        .arg(public)
        .output()
        .unwrap();
    (made.status.success(), String::from_utf8([made.stdout, made.stderr].concat()).unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_in_an_ssh_agent_cosigns_and_without_its_agent_heads_are_withheld() {
    let dir = tempfile::tempdir().unwrap();
    let (socket, key): (PathBuf, PathBuf) = (dir.path().join("agent"), dir.path().join("id"));
    let Some(agent) = Agent::start(&socket) else {
        eprintln!("SKIPPED: ssh-agent is not installed; no witness was run with one");
        return;
    };
    let words = ["-q", "-t", "ed25519", "-N", "", "-f"];
    assert!(Command::new("ssh-keygen").args(words).arg(&key).status().unwrap().success());
    let public = key.with_extension("pub");
    let mut house = House::new();
    let made_with_file = house.home();
    std::fs::remove_dir_all(&made_with_file).unwrap();
    let (ok, said) = init(&house.home(), &socket, &public);
    assert!(!ok && said.contains("does not hold the key") && !house.home().exists(), "{said}");
    agent.add(&socket, &key);
    let (ok, said) = init(&house.home(), &socket, &public);
    assert!(ok && !house.home().join("witness.key").exists(), "{said}");
    house.vkey = said.lines().next().unwrap().parse().unwrap();
    let point = parse_public_line(&std::fs::read_to_string(&public).unwrap()).unwrap();
    let name = KeyName::new("witness.example/w1").unwrap();
    assert_eq!(house.vkey, VerifierKey::new(name, KeyKind::CosignatureV1, &point).unwrap());

    let log = FakeLog::start("log.example/agents", 0).await;
    let config = house.home().join("config.toml");
    let made = std::fs::read_to_string(&config).unwrap().replace("interval_ms = 5000", "interval_ms = 3600000");
    let section = format!("[[log]]\nvkey = \"{}\"\nurl = \"{}\"\nprivate_address = true\n", log.vkey(), log.url);
    std::fs::write(&config, format!("{made}\n{section}")).unwrap();
    let witness = house.start().await;
    let head = log.offer(20, 0, 0);
    let lines = witness.client.nudge(&log.origin()).await.unwrap();
    assert_eq!(lines.len(), 2, "Ed25519 by the agent, ML-DSA-44 by the file");
    lines[0].verify(head.note().text(), &house.vkey).unwrap();

    drop(agent);
    let head = log.offer(30, 0, 0);
    assert_eq!(witness.nudge(&log, &head).await, Err("withheld".to_owned()));
    let status = witness.status().await;
    let last = status.last.unwrap();
    assert!(status.size == Some(20) && last.error.as_ref().unwrap().contains("ssh-agent"), "{last:?}");
    let agent = Agent::start(&socket).unwrap();
    agent.add(&socket, &key);
    // The agent is asked again after its rest.
    while witness.client.nudge(&log.origin()).await.is_err() {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(witness.status().await.size, Some(30));
    witness.stop().await;
    drop(agent);
    assert!(house.open().await.unwrap_err().to_string().contains("no ssh-agent answers"));
}
