//! What is done with a log's directory beside or after its runs: fsck, export, retire.

use crate::stand;
use axum::Router;
use axum::http::{StatusCode, Uri};
use axum::response::IntoResponse;
use receipt::UnixMillis;
use serde_json::Value;
use stand::process::{Served, gate, run, stderr, stdout};
use stand::{Gate, ask, until};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// A log's directory with one issuer listed, and the log's vkey.
fn made(dir: &Path, gate: &Gate) -> (PathBuf, String) {
    let dir = dir.join("log");
    let place = dir.to_str().unwrap();
    let made = run(&["init", "--dir", place, "--origin", "log.example/agents"]);
    assert_eq!(made.status.code(), Some(0), "{}", stderr(&made));
    assert_eq!(run(&["issuer", "add", "--dir", place, &gate.vkey().to_string()]).status.code(), Some(0));
    let vkey = stdout(&made).lines().next().unwrap().to_owned();
    (dir, vkey)
}

async fn submit(log: &Served, gate: &mut Gate, now: UnixMillis, count: usize) {
    let mut bundle = Vec::new();
    for _ in 0..count {
        let receipt = match gate.chain.next_seq().0 {
            0 => gate.chain.open(now, &gate.key).unwrap(),
            _ => gate.chain.append(r#"{"type":"heartbeat"}"#, now, &gate.key).unwrap(),
        };
        merkle::encode_entry(&mut bundle, receipt.bytes()).unwrap();
    }
    let answer = ask(log.address, "POST", "/v1/receipts/batch", &[], &bundle).await;
    assert!(answer.text().lines().all(|line| line.contains("\"status\":\"ok\"")), "{}", answer.text());
}

fn fsck(dir: &Path, more: &[&str]) -> (i32, Value, String) {
    let mut arguments = vec!["fsck", "--json", "--dir", dir.to_str().unwrap()];
    arguments.extend(more);
    let output = run(&arguments);
    let value = serde_json::from_str(&stdout(&output)).unwrap_or(Value::Null);
    (output.status.code().unwrap(), value, stderr(&output))
}

fn flip(path: &Path, byte: usize) {
    let mut bytes = fs::read(path).unwrap();
    bytes[byte] ^= 4;
    fs::write(path, bytes).unwrap();
}

#[tokio::test]
async fn fsck_says_what_is_wrong_and_mends_what_is_derived() {
    let dir = tempfile::tempdir().unwrap();
    let (mut gate, now) = gate("gate.example/a");
    let (dir, vkey) = made(dir.path(), &gate);
    let log = Served::start(&dir, &[]);
    submit(&log, &mut gate, now, 300).await;
    let (code, _, complaint) = fsck(&dir, &[]);
    assert!(code == 65 && complaint.contains("in use"), "{code} {complaint}");
    log.signal("-TERM");
    assert_eq!(log.wait().0, 0);

    let (code, report, _) = fsck(&dir, &[]);
    assert_eq!(
        (code, &report["ok"], &report["entries"], &report["issuers"]),
        (0, &true.into(), &300.into(), &1.into())
    );
    assert_eq!(fsck(&dir, &["--skip-signatures"]).1["signatures_checked"], false);

    // An index: found, mended.
    let array = fs::read_dir(dir.join("store/issuers")).unwrap().next().unwrap().unwrap().path();
    flip(&array, 8 * 20 + 7);
    let (code, report, _) = fsck(&dir, &[]);
    assert_eq!(
        (code, &report["findings"][0]["position"], &report["findings"][0]["remedy"]),
        (1, &20.into(), &"rebuild".into())
    );
    let said = run(&["fsck", "--dir", dir.to_str().unwrap()]);
    assert!(stdout(&said).contains("place 20") && stdout(&said).contains("--repair-index"), "{}", stdout(&said));
    let (code, report, _) = fsck(&dir, &["--repair-index"]);
    assert_eq!((code, &report["repaired"]), (0, &true.into()), "{report}");

    // An entry: found, not mended, and nothing is deleted for it.
    let entry = 9 * (fs::metadata(dir.join("store/entries")).unwrap().len() as usize / 300);
    flip(&dir.join("store/entries"), entry);
    let (code, report, _) = fsck(&dir, &["--repair-index"]);
    assert_eq!((code, &report["repaired"], &report["findings"][0]["remedy"]), (1, &false.into(), &"restore".into()));
    let said = run(&["fsck", "--dir", dir.to_str().unwrap(), "--repair-index"]);
    assert!(stdout(&said).contains("not repaired") && stdout(&said).contains("copy"), "{}", stdout(&said));
    assert!(array.exists());
    flip(&dir.join("store/entries"), entry);

    // The public key is enough.
    fs::remove_file(dir.join("log.key")).unwrap();
    let (code, _, complaint) = fsck(&dir, &[]);
    assert!(code == 65 && complaint.contains("--log-key"), "{complaint}");
    assert_eq!(fsck(&dir, &["--log-key", &vkey]).0, 0);
    assert_eq!(fsck(&dir, &["--log-key", &gate.vkey().to_string()]).1["findings"][0]["what"], "head");
    assert_eq!(fsck(&dir, &["--log-key", "nonsense"]).0, 64);
    assert_eq!(fsck(&dir.join("nowhere"), &[]).0, 65);
}

#[tokio::test]
async fn a_retired_issuer_submits_no_more_until_it_is_added_again() {
    let dir = tempfile::tempdir().unwrap();
    let (mut gate, now) = gate("gate.example/a");
    let (dir, _) = made(dir.path(), &gate);
    let place = dir.to_str().unwrap();
    let log = Served::start(&dir, &[]);
    submit(&log, &mut gate, now, 3).await;
    let retired = run(&["issuer", "retire", "--dir", place, "gate.example/a"]);
    assert!(retired.status.success() && stdout(&retired).contains("SIGHUP"), "{}", stdout(&retired));
    let listed = run(&["issuer", "list", "--dir", place, "--json"]);
    let listed: Value = serde_json::from_str(&stdout(&listed)).unwrap();
    assert_eq!((&listed[0]["name"], &listed[0]["retired"]), (&"gate.example/a".into(), &true.into()));
    let next = gate.chain.append(r#"{"type":"heartbeat"}"#, now, &gate.key).unwrap();
    for (change, status) in [(None, 403), (Some(gate.vkey().to_string()), 200)] {
        if let Some(vkey) = change {
            assert!(run(&["issuer", "add", "--dir", place, &vkey]).status.success());
        }
        log.signal("-HUP");
        until("SIGHUP changes the list", async || log.submit(&next).await.status == status).await;
        // What it has in the log stays.
        assert_eq!(ask(log.address, "GET", "/v1/issuers/gate.example%2Fa/receipts/2", &[], b"").await.status, 200);
    }
    assert_eq!(run(&["issuer", "retire", "--dir", place, "gate.example/b"]).status.code(), Some(1));
    log.signal("-TERM");
    assert_eq!(log.wait().0, 0);
}

/// Serves the files of a directory, as any web server would.
async fn serve_files(dir: PathBuf) -> SocketAddr {
    let serve = move |uri: Uri| {
        let path = dir.join(uri.path().trim_start_matches('/'));
        async move {
            let is_file = path.is_file();
            let bytes = if is_file { fs::read(path).ok() } else { None };
            bytes.map_or_else(|| StatusCode::NOT_FOUND.into_response(), IntoResponse::into_response)
        }
    };
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let router = Router::new().fallback(serve);
    tokio::spawn(service::serve(listener, router, service::Limits::default(), std::future::pending()));
    address
}

async fn verify(arguments: Vec<String>) -> ExitCode {
    let all = std::iter::once("counterfoil-verify".to_owned()).chain(arguments).map(OsString::from);
    let all: Vec<OsString> = all.collect();
    tokio::task::spawn_blocking(|| verifier::main_with(all.into_iter())).await.unwrap()
}

/// Fetches from `address` into `bundle`, and audits that.
async fn fetch_and_audit(work: &Path, vkey: &str, gate: &Gate, address: SocketAddr, bundle: &str) -> [ExitCode; 2] {
    let at = |name: &str| work.join(name).to_str().unwrap().to_owned();
    let policy = format!("policy-{bundle}");
    fs::write(at(&policy), format!("log {vkey} http://{address}\nquorum none\n")).unwrap();
    fs::write(at("issuers"), format!("{}\n", gate.vkey())).unwrap();
    let fetch = ["fetch", "--policy", &at(&policy), "--out", &at(bundle)].map(str::to_owned).to_vec();
    let audit =
        ["audit", "--policy", &at(&policy), "--issuers", &at("issuers"), &at(bundle)].map(str::to_owned).to_vec();
    [verify(fetch).await, verify(audit).await]
}

fn files(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut files = BTreeMap::new();
    let mut dirs = vec![dir.to_owned()];
    while let Some(next) = dirs.pop() {
        for file in fs::read_dir(next).unwrap() {
            let path = file.unwrap().path();
            if path.is_dir() {
                dirs.push(path);
            } else {
                files.insert(path.strip_prefix(dir).unwrap().to_owned(), fs::read(&path).unwrap());
            }
        }
    }
    files
}

#[tokio::test(flavor = "multi_thread")]
async fn a_static_copy_is_the_log_for_whoever_fetches_it() {
    let work = tempfile::tempdir().unwrap();
    let (mut gate, now) = gate("gate.example/a");
    let (dir, vkey) = made(work.path(), &gate);
    let (place, out) = (dir.to_str().unwrap(), work.path().join("copy"));
    let export = || run(&["export", "--dir", place, "--out", out.to_str().unwrap(), "--json"]);
    let log = Served::start(&dir, &[]);
    let copied = serve_files(out.clone()).await;

    let mut before: BTreeMap<PathBuf, Vec<u8>> = BTreeMap::new();
    for (round, count) in [3, 290, 240].into_iter().enumerate() {
        submit(&log, &mut gate, now, count).await;
        // While the log runs.
        let size = format!("\n{}\n", gate.chain.next_seq());
        until("a head over all of it is on offer", async || {
            ask(log.address, "GET", "/checkpoint", &[], b"").await.text().contains(&size)
        })
        .await;
        let exported = export();
        assert_eq!(exported.status.code(), Some(0), "{}", stderr(&exported));
        let report: Value = serde_json::from_str(&stdout(&exported)).unwrap();
        assert_eq!(report["size"], gate.chain.next_seq().0);
        let [live, still] = [("live", log.address), ("still", copied)];
        let mut outcomes = Vec::new();
        for (name, address) in [live, still] {
            outcomes.push(fetch_and_audit(work.path(), &vkey, &gate, address, &format!("{name}-{round}")).await);
        }
        assert_eq!(outcomes[1], outcomes[0], "round {round}");
        let bundle = |name: &str| files(&work.path().join(format!("{name}-{round}")));
        assert_eq!(bundle("still"), bundle("live"), "round {round}: the copy is not what the log serves");
        assert!(bundle("still").len() >= 4, "{:?}", bundle("still").keys());
        // Full tiles and bundles are left alone.
        let now_there = files(&out);
        for full in before.keys().filter(|path| !path.to_str().unwrap().contains(".p/") && path.starts_with("tile")) {
            assert_eq!(now_there.get(full), before.get(full), "{full:?}");
        }
        before = now_there;
        let issuers = ask(copied, "GET", "/v1/issuers", &[], b"").await.json();
        let served = ask(log.address, "GET", "/v1/issuers", &[], b"").await.json();
        for member in
            ["name", "vkey", "next_seq", "head", "last_issued_at", "closed", "first_index", "last_index", "listed"]
        {
            assert_eq!(issuers["issuers"][0][member], served["issuers"][0][member], "{member}");
        }
    }
    assert!(!out.join("tile/entries/000.p").exists(), "a partial bundle stays behind the full one");
    log.signal("-TERM");
    assert_eq!(log.wait().0, 0);

    // Nothing is new: only what may differ is written, and no damage is copied.
    let again: Value = serde_json::from_str(&stdout(&export())).unwrap();
    assert!(again["files_written"].as_u64().unwrap() < 12, "{again}");
    fs::remove_dir_all(&out).unwrap();
    let entry = 9 * (fs::metadata(dir.join("store/entries")).unwrap().len() as usize / 533);
    flip(&dir.join("store/entries"), entry);
    let refused = export();
    assert_eq!(refused.status.code(), Some(1));
    assert!(stderr(&refused).contains("entry ") && stderr(&refused).contains("fsck"), "{}", stderr(&refused));
    assert!(!out.join("checkpoint").exists());
    flip(&dir.join("store/entries"), entry);

    // A copy of another log, or of another history, is not written over.
    fs::create_dir_all(&out).unwrap();
    fs::write(out.join("checkpoint"), "something else").unwrap();
    let refused = export();
    assert_eq!(refused.status.code(), Some(1));
    assert!(stderr(&refused).contains("copy of something else"), "{}", stderr(&refused));
}
