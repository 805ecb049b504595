//! The log pushes to litewitness, an implementation of tlog-witness that shares no line with this one.
//!
//! Runs where Go, OpenSSH's agent and the `sqlite3` program are installed and Go can fetch and build the module (once;
//! the program is kept in the target directory). Elsewhere it says SKIPPED on standard error, captured or not.
#![allow(clippy::unwrap_used, clippy::panic)]

use client::{BaseUrl, BoundedClient, LogClient, Timeouts, Wait};
use counterfoil_tests::go;
use merkle::{EMPTY_ROOT, leaf_hash};
use note::{KeyKind, KeyName, Policy, SigningKey};
use receipt::{Chain, IssuerName, UnixMillis};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::SystemTime;
use testkit::stage::{ORIGIN, Setup, Stage, wait_for};

/// The newest version that the Go of two years ago builds.
const VERSION: &str = "v0.6.1";
const PACKAGE: &str = "filippo.io/torchwood/cmd/litewitness";
const WITNESS: &str = "witness.example/go";

/// A child that ends with the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _already_gone = self.0.kill();
        let _already_gone = self.0.wait();
    }
}

fn litewitness() -> Result<PathBuf, String> {
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("litewitness-{VERSION}")).join("litewitness");
    if program.exists() {
        return Ok(program);
    }
    let needs = [("sqlite3", "-version"), ("ssh-agent", "-h"), ("ssh-add", "-h")];
    go::built(&program, &needs, &["install", &format!("{PACKAGE}@{VERSION}")], Path::new("."))
}

fn quiet(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{program}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// The Go witness, with a key in an agent of its own. It knows the log once its database says so.
struct GoWitness {
    _agent: Running,
    _witness: Running,
    database: String,
    vkey: String,
    url: String,
}

impl GoWitness {
    fn start(program: &Path, dir: &Path) -> Self {
        let path = |name: &str| dir.join(name).to_str().unwrap().to_owned();
        let (key, socket, database) = (path("witness-key"), path("agent"), path("witness.db"));
        quiet("ssh-keygen", &["-q", "-t", "ed25519", "-N", "", "-C", "witness", "-f", &key]);
        let agent = Command::new("ssh-agent").args(["-D", "-a", &socket]).stdout(Stdio::null()).spawn().unwrap();
        let agent = Running(agent);
        wait_for("the agent", || Ok(Path::new(&socket).exists())).unwrap();
        let added = Command::new("ssh-add").args(["-q", &key]).env("SSH_AUTH_SOCK", &socket).status().unwrap();
        assert!(added.success());
        let fingerprint = quiet("ssh-keygen", &["-l", "-f", &key]).split(' ').nth(1).unwrap().to_owned();
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let (address, said) = (format!("127.0.0.1:{port}"), path("witness.stderr"));
        let arguments = ["-db", &database, "-ssh-agent", &socket, "-listen", &address, "-name", WITNESS];
        let witness = Command::new(program)
            .args(arguments)
            .args(["-key", &fingerprint])
            .stdin(Stdio::null())
            .stderr(std::fs::File::create(&said).unwrap())
            .spawn()
            .unwrap();
        let witness = Running(witness);
        let mut vkey = String::new();
        wait_for("the Go witness", || {
            let text = std::fs::read_to_string(&said).unwrap_or_default();
            let word = text.split_ascii_whitespace().find_map(|word| word.strip_prefix("vkey="));
            vkey = word.unwrap_or_default().trim_matches('"').to_owned();
            Ok(text.contains("listening") && !vkey.is_empty())
        })
        .unwrap();
        Self { _agent: agent, _witness: witness, database, vkey, url: format!("http://{address}") }
    }

    fn sql(&self, statement: &str) -> String {
        quiet("sqlite3", &["-cmd", ".timeout 10000", &self.database, statement]).trim().to_owned()
    }

    /// As its operator does for a log that he takes on.
    fn list(&self, log: &str) {
        let empty = EMPTY_ROOT.0.to_base64();
        self.sql(&format!(
            "INSERT INTO log VALUES ('{ORIGIN}', 0, '{empty}'); INSERT INTO key VALUES ('{ORIGIN}', '{log}');"
        ));
    }

    fn size(&self) -> String {
        self.sql(&format!("SELECT tree_size FROM log WHERE origin = '{ORIGIN}'"))
    }
}

fn now() -> UnixMillis {
    UnixMillis(SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_millis() as u64)
}

/// Submits `count` receipts, each of which must come back with the Go witness's cosignature.
fn submit(client: &LogClient, chain: &mut Chain, key: &SigningKey, policy: &Policy, count: u64) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    for _ in 0..count {
        let receipt = match chain.next_seq().0 {
            0 => chain.open(now(), key).unwrap(),
            _ => chain.append(r#"{"type":"heartbeat"}"#, now(), key).unwrap(),
        };
        let inclusion = runtime.block_on(client.submit(receipt.bytes(), Wait::Cosigned)).unwrap();
        let proved = inclusion.proof.proof().verify(&leaf_hash(receipt.bytes()), policy).unwrap();
        assert_eq!(proved.cosigned_by, [0]);
    }
}

#[test]
fn a_witness_written_in_go_cosigns_what_the_log_pushes_and_keeps_an_older_copy_of_the_log_from_running() {
    let program = match litewitness() {
        Ok(program) => program,
        Err(reason) => {
            return go::skipped(&format!("the log was not tried against the Go witness {PACKAGE}"), &reason);
        }
    };
    let dir = tempfile::tempdir().unwrap();
    let executable = PathBuf::from(env!("CARGO_BIN_EXE_counterfoil-under-test"));
    let gate = KeyName::new("gate.example/pushed").unwrap();
    let key = SigningKey::from_seed(gate, KeyKind::Ed25519, [3; 32]);
    let vkeys = [key.verifier().to_string()];
    let setup = Setup { dir: dir.path(), executable: &executable, port: None, witnesses: 0, more_issuers: &vkeys };
    let mut stage = Stage::build(&setup).unwrap();
    let witness = GoWitness::start(&program, dir.path());
    let config = stage.log_dir().join("config.toml");
    let text = std::fs::read_to_string(&config).unwrap();
    let (vkey, url) = (&witness.vkey, &witness.url);
    let section = format!("[[witness]]\nvkey = \"{vkey}\"\nurl = \"{url}\"\nprotocol = \"tlog-witness\"\n");
    // Longer than usual, because the witness is asked seldom while it refuses.
    std::fs::write(&config, format!("cosigned_wait_ms = 50000\n{text}\n{section}")).unwrap();
    let policy = format!("log {}\nwitness go {vkey}\nquorum go\n", stage.log_vkey());
    let policy = Policy::parse(policy.as_bytes()).unwrap();
    let base: BaseUrl = stage.log_url().parse().unwrap();
    let client = LogClient::new(base, BoundedClient::new(Timeouts::default()).unwrap());
    let mut chain = Chain::new(IssuerName(key.name().clone()));

    // The log is there before the witness's operator has heard of it, and is taken on while it runs.
    stage.start_log().unwrap();
    stage.wait_until_ready().unwrap();
    witness.list(stage.log_vkey());
    submit(&client, &mut chain, &key, &policy, 20);
    assert_eq!(witness.size(), "20");

    // After a start the log knows nothing of the witness, and learns from its 409 where it is.
    stage.stop_log();
    stage.start_log().unwrap();
    stage.wait_until_ready().unwrap();
    submit(&client, &mut chain, &key, &policy, 3);
    assert_eq!(witness.size(), "23");

    // The witness has seen more than this copy of the store.
    stage.stop_log();
    witness.sql("UPDATE log SET tree_size = 1000");
    stage.start_log().unwrap();
    let refusal = "of size 1000, and this store ends at size 23";
    wait_for("the refusal to run", || {
        Ok(std::fs::read_to_string(dir.path().join("log.stderr")).unwrap_or_default().contains(refusal))
    })
    .unwrap();
}
