//! A client that shares no line with this repository reads what a log and a witness serve, and a log of its own is
//! witnessed (`tests/go`).
//!
//! Runs where Go is installed and can fetch two modules (once). Elsewhere it says SKIPPED on standard error.
#![allow(clippy::unwrap_used, clippy::panic)]

use client::{BoundedClient, LogClient, Request, Timeouts, WitnessClient};
use counterfoil_tests::gates::{Gate, InFlight};
use counterfoil_tests::go;
use merkle::{RootHash, TreeSize};
use note::{
    Checkpoint, KeyKind, KeyName, Origin, Policy, SignedCheckpoint, SigningKey, VerifierKey, cosign,
    parse_cosignature_line, sign_checkpoint,
};
use serde_json::Value;
use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use testkit::stage::{ORIGIN, Setup, Stage, wait_for, witness_name};
use tokio::runtime::Runtime;

const EXECUTABLE: &str = env!("CARGO_BIN_EXE_counterfoil-under-test");

/// The Go program. Go itself knows whether it has to be built again.
fn peer() -> Result<PathBuf, String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("go");
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join("go-peer").join("peer");
    go::built(&program, &[], &["build", "-mod=readonly", "-o", program.to_str().unwrap(), "."], &folder)
}

/// Waits until somebody listens at `url`: a process that was started a moment ago may not yet.
fn wait_for_listener(url: &str) {
    let address = url.strip_prefix("http://").unwrap().split('/').next().unwrap();
    let began = std::time::Instant::now();
    while std::net::TcpStream::connect(address).is_err() {
        assert!(began.elapsed() < std::time::Duration::from_secs(30), "nobody listens at {url}");
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
}

/// What the Go program found.
fn ask(peer: &Path, arguments: &[&str]) -> Value {
    arguments
        .iter()
        .filter(|argument| argument.starts_with("http://127.0.0.1:"))
        .for_each(|url| wait_for_listener(url));
    let output = Command::new(peer).args(arguments).output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap()
}

fn http() -> BoundedClient {
    BoundedClient::new(Timeouts::default()).unwrap()
}

#[test]
fn a_client_written_in_go_reads_the_log_and_the_witnesss_journal_and_proves_what_it_read() {
    let peer = match peer() {
        Ok(peer) => peer,
        Err(reason) => return go::skipped("log and witness were not read by a client written in Go", &reason),
    };
    let dir = tempfile::tempdir().unwrap();
    let mut gate = Gate::new(1, 60, 0);
    let vkeys = [gate.vkey()];
    let setup =
        Setup { dir: dir.path(), executable: EXECUTABLE.as_ref(), port: None, witnesses: 1, more_issuers: &vkeys };
    let mut stage = Stage::build(&setup).unwrap();
    stage.start_log().unwrap();
    stage.start_witnesses().unwrap();
    stage.wait_until_ready().unwrap();
    let (runtime, key) = (runtime(), stage.log_vkey().parse::<VerifierKey>().unwrap());
    let log = LogClient::new(stage.log_url().parse().unwrap(), http());
    // Over more than one tile.
    for _ in 0..5 {
        runtime.block_on(gate.submit(&log, &key, &InFlight::default())).unwrap();
    }
    let mut acknowledged = gate.acknowledged().to_vec();
    acknowledged.sort_by_key(|receipt| receipt.index);
    let size = acknowledged.len();
    assert!(size > 256);
    wait_for("the cosigned head", || {
        let head = SignedCheckpoint::parse(&runtime.block_on(log.checkpoint()).unwrap()).unwrap();
        Ok(head.claimed().size.0 == size as u64 && head.note().signatures().len() == 2)
    })
    .unwrap();

    let policy = Policy::parse(&std::fs::read(stage.policy_file()).unwrap()).unwrap();
    let witness_vkey = policy.witnesses()[0].vkey.to_string();
    let found = ask(&peer, &["read", &stage.log_url(), stage.log_vkey(), &witness_vkey]);
    assert_eq!((found["origin"].as_str(), found["size"].as_u64()), (Some(ORIGIN), Some(size as u64)), "{found}");
    assert_eq!(found["lines"], 2, "the log's and the witness's");
    let leaves: Vec<String> = acknowledged.iter().map(|receipt| receipt.id.to_string()).collect();
    assert_eq!(found["leaves"], serde_json::json!(leaves));
    assert_eq!((found["proved"].as_u64(), found["prefixes"].as_u64()), (Some(6), Some(6)));

    // The journal, with a key of its own and the witness's cosignature.
    let url = stage.witness_url(0);
    let status = Request::get(format!("{url}/status").parse().unwrap(), 1 << 20);
    let status: Value = serde_json::from_slice(&runtime.block_on(http().send(status)).unwrap()).unwrap();
    let journal_vkey = status["journal_vkey"].as_str().unwrap();
    let found = ask(&peer, &["read", &format!("{url}/journal"), journal_vkey, &witness_vkey]);
    assert_eq!(found["origin"], format!("{}/journal", witness_name(0)));
    assert!(found["size"].as_u64() >= status["journal_size"].as_u64() && found["size"].as_u64() > Some(0), "{found}");
    assert_eq!(found["leaves"].as_array().unwrap().len() as u64, found["size"].as_u64().unwrap());
    // Its lines are what the witness's own client reads.
    let journal = WitnessClient::new(url.parse().unwrap(), http()).journal();
    let page = merkle::ResourcePath::Entries(merkle::PageId::at(0, found["size"].as_u64().unwrap()).unwrap());
    let entries = runtime.block_on(journal.page(&page)).unwrap();
    assert_eq!(found["leaves"][0], hex(&merkle::leaf_hash(&entries[0]).0));
    let line: Value = serde_json::from_slice(&entries[0]).unwrap();
    assert_eq!(line["origin"], Origin::new(ORIGIN).unwrap().as_str());
}

fn write_private(path: &Path, key: &str) {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path).unwrap();
    writeln!(file, "{key}").unwrap();
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn a_log_written_in_go_is_witnessed_and_what_it_must_not_ask_for_is_refused() {
    let peer = match peer() {
        Ok(peer) => peer,
        Err(reason) => return go::skipped("the witness was not pushed to by a log written in Go", &reason),
    };
    let dir = tempfile::tempdir().unwrap();
    let setup = Setup { dir: dir.path(), executable: EXECUTABLE.as_ref(), port: None, witnesses: 1, more_issuers: &[] };
    let mut stage = Stage::build(&setup).unwrap();
    let name = KeyName::new("log.example/go").unwrap();
    let key = SigningKey::from_seed(name.clone(), KeyKind::Ed25519, [77; 32]);
    let config = stage.witness_dir(0).join("config.toml");
    let section = format!("\n[[log]]\nvkey = \"{}\"\naccept_pushes = true\n", key.verifier());
    let text = std::fs::read_to_string(&config).unwrap();
    std::fs::write(&config, format!("mldsa_key = \"mldsa.key\"\n{text}{section}")).unwrap();
    let mldsa = SigningKey::from_seed(KeyName::new(&witness_name(0)).unwrap(), KeyKind::MlDsa44, [78; 32]);
    write_private(&stage.witness_dir(0).join("mldsa.key"), &mldsa.to_private_text());
    stage.start_log().unwrap();
    stage.start_witnesses().unwrap();
    stage.wait_until_ready().unwrap();
    let policy = Policy::parse(&std::fs::read(stage.policy_file()).unwrap()).unwrap();
    let witness = &policy.witnesses()[0].vkey;
    let url = stage.witness_url(0);
    let keys = [witness.clone(), mldsa.verifier()];
    let found = ask(&peer, &["push", &url, &keys[0].to_string(), &keys[1].to_string(), &key.to_private_text()]);
    assert_eq!((found["origin"].as_str(), found["size"].as_u64()), (Some("log.example/go"), Some(5000)), "{found}");
    assert_eq!((found["taken"].as_u64(), found["refused"].as_u64()), (Some(29), Some(10)));
    assert_eq!(found["connections"], 1, "kept alive from the first call to the last, refusals included");

    // The same head here, by the log's key and both of the witness's.
    let client = WitnessClient::new(url.parse().unwrap(), http());
    let head = runtime().block_on(client.checkpoint(&Origin::from(&name))).unwrap().unwrap();
    let head = SignedCheckpoint::parse(&head).unwrap().verify(&key.verifier()).unwrap();
    assert_eq!(head.checkpoint().size.0, 5000);
    let lines = note::verified_cosignatures(head.note(), &keys);
    let (places, times): (Vec<usize>, Vec<u64>) =
        lines.into_iter().map(Result::unwrap).map(|(place, line)| (place, line.timestamp_s)).unzip();
    assert_eq!(places, [0, 1]);
    assert_eq!(times, [found["newest"].as_u64().unwrap(); 2], "one time for both");
}

#[test]
fn a_cosignature_of_either_kind_is_good_to_another_make_and_its_own_is_good_here() {
    let peer = match peer() {
        Ok(peer) => peer,
        Err(reason) => return go::skipped("cosignatures were not compared with those of another make", &reason),
    };
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("head");
    let path = file.to_str().unwrap();
    let key = |name: &str, kind, seed| SigningKey::from_seed(KeyName::new(name).unwrap(), kind, [seed; 32]);
    let log = key("log.example/compared", KeyKind::Ed25519, 1);
    let witness = [KeyKind::CosignatureV1, KeyKind::MlDsa44].map(|kind| key("w.example", kind, 2));
    for size in [0, 1, u64::from(u32::MAX)] {
        let root = if size == 0 { merkle::EMPTY_ROOT } else { RootHash(merkle::leaf_hash(b"entry")) };
        let head = Checkpoint::new(Origin::from(log.name()), TreeSize(size), root);
        let signed = sign_checkpoint(&head, &log).unwrap();
        let lines = witness.each_ref().map(|key| cosign(signed.note().text(), key, 1_790_000_000).unwrap());
        let signed = signed.with_cosignatures(&lines.map(|line| line.to_line().unwrap()));
        std::fs::write(&file, signed.bytes()).unwrap();
        let vkeys = [&log, &witness[0], &witness[1]].map(|key| key.verifier().to_string());
        let found = ask(&peer, &["open", path, &vkeys[0], &vkeys[1], &vkeys[2]]);
        assert_eq!((found["size"].as_u64(), found["lines"].as_u64()), (Some(size), Some(3)));
        assert_eq!(found["root"], root.0.to_base64());

        let made = ask(&peer, &["cosign", path, "w.example", &hex(&[2; 32])]);
        assert_eq!(made["vkey"], vkeys[2], "one seed makes one key in both makes");
        let line = parse_cosignature_line(made["line"].as_str().unwrap()).unwrap();
        assert!(line.verify(signed.note().text(), &witness[1].verifier()).unwrap().timestamp_s > 1_700_000_000);
    }
}

/// A program that is killed when it is no longer looked at.
struct Killed(std::process::Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _already_gone = self.0.kill();
        let _already_gone = self.0.wait();
    }
}

#[test]
fn a_log_written_in_go_is_mirrored_and_its_head_judged_though_it_holds_no_receipts() {
    let peer = match peer() {
        Ok(peer) => peer,
        Err(reason) => return go::skipped("a log written in Go was not mirrored", &reason),
    };
    let dir = tempfile::tempdir().unwrap();
    let key = SigningKey::from_seed(KeyName::new("log.example/go").unwrap(), KeyKind::Ed25519, [79; 32]);
    let files = dir.path().join("files");
    let mut child = Command::new(peer)
        .args(["serve", files.to_str().unwrap(), "70000", &key.to_private_text()])
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(child.stdout.take().unwrap()), &mut line).unwrap();
    let _child = Killed(child);
    let served: Value = serde_json::from_str(&line).unwrap();
    let policy = format!("log {} {}\nquorum none\n", key.verifier(), served["url"].as_str().unwrap());
    std::fs::write(dir.path().join("policy"), policy).unwrap();
    std::fs::write(dir.path().join("issuers"), "").unwrap();
    let verify = |arguments: &[&str]| {
        let output = Command::new(EXECUTABLE).arg("verify").args(arguments).current_dir(dir.path()).output().unwrap();
        (output.status.code(), serde_json::from_slice::<Value>(&output.stdout).unwrap())
    };
    let (code, fetched) = verify(&["fetch", "--policy", "policy", "--out", "bundle", "--json"]);
    assert_eq!(
        (code, &fetched["entries"], &fetched["receipts"]),
        (Some(0), &70_000.into(), &false.into()),
        "{fetched}"
    );
    let (code, verdict) = verify(&["audit", "--policy", "policy", "--issuers", "issuers", "--json", "bundle"]);
    assert_eq!(code, Some(2), "{verdict}");
    let checks = verdict["checks"].as_array().unwrap();
    let status = |name: &str| checks.iter().find(|check| check["name"] == name).unwrap()["status"].as_str().unwrap();
    assert_eq!((status("log-signature"), status("root"), status("tiles")), ("ok", "ok", "ok"));
    assert_eq!(verdict["coverage"]["authenticated_size"], 70_000);
    let codes: Vec<&str> = checks
        .iter()
        .flat_map(|check| check["findings"].as_array().unwrap())
        .map(|finding| finding["code"].as_str().unwrap())
        .collect();
    assert!(codes.contains(&"no-receipts") && !codes.contains(&"malformed"), "{codes:?}");
}
