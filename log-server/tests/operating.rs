//! Operating the log: what is measured, said and refused, and what can be changed while it runs. On real processes.

use crate::stand;
use note::VerifierKey;
use receipt::{Receipt, UnixMillis};
use rustls::pki_types::{CertificateDer, ServerName};
use serde_json::Value;
use stand::process::{Served, gate, run, stderr, stdout};
use stand::{Answer, Gate, ask, try_ask, until};
use std::collections::{HashMap, HashSet};
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const TOKEN: &str = "a-token-that-nobody-guesses-0123456789";
const HEARTBEAT: &str = r#"{"type":"heartbeat"}"#;

struct Log {
    dir: PathBuf,
    vkey: VerifierKey,
    _kept: TempDir,
}

impl Log {
    fn new(gates: &[&Gate]) -> Self {
        let kept = tempfile::tempdir().unwrap();
        let dir = kept.path().join("log");
        let made = run(&["init", "--dir", dir.to_str().unwrap(), "--origin", "log.example/agents"]);
        let vkey = stdout(&made).lines().next().unwrap().parse().unwrap();
        let log = Self { dir, vkey, _kept: kept };
        for gate in gates {
            log.issuer("add", &gate.vkey().to_string());
        }
        log
    }

    fn issuer(&self, call: &str, what: &str) {
        let done = run(&["issuer", call, "--dir", self.dir.to_str().unwrap(), what]);
        assert_eq!(done.status.code(), Some(0), "{}", stderr(&done));
    }

    fn serve(&self, set: &[&str]) -> Served {
        let assignments: Vec<&str> = set.iter().flat_map(|assignment| ["--set", assignment]).collect();
        Served::start(&self.dir, &assignments)
    }

    fn put(&self, name: &str, text: &str, mode: u32) -> PathBuf {
        let path = self.dir.join(name);
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(mode)).unwrap();
        path
    }
}

fn next(gate: &mut Gate, now: UnixMillis) -> Receipt {
    gate.chain.append(HEARTBEAT, now, &gate.key).unwrap()
}

async fn get(log: &Served, path: &str) -> Answer {
    ask(log.address, "GET", path, &[], b"").await
}

fn code(answer: &Answer) -> String {
    answer.json()["code"].as_str().unwrap_or_default().to_owned()
}

fn reasons(answer: &Answer) -> Vec<String> {
    answer.json()["reasons"].as_array().unwrap().iter().map(|code| code.as_str().unwrap().to_owned()).collect()
}

/// The samples of a Prometheus text, each line of which has to be one, or a description of one that follows.
fn parse_metrics(text: &str) -> HashMap<String, f64> {
    let (mut samples, mut typed, mut helped) = (HashMap::new(), HashMap::new(), HashSet::new());
    let is_name = |name: &str| {
        !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_')
    };
    for line in text.lines().filter(|line| !line.is_empty()) {
        if let Some(help) = line.strip_prefix("# HELP ") {
            let (name, words) = help.split_once(' ').unwrap_or_else(|| panic!("no words: {line}"));
            assert!(is_name(name) && words.len() > 5 && helped.insert(name.to_owned()), "{line}");
        } else if let Some(kind) = line.strip_prefix("# TYPE ") {
            let (name, kind) = kind.split_once(' ').unwrap();
            assert!(["counter", "gauge", "histogram"].contains(&kind), "{line}");
            assert!(typed.insert(name.to_owned(), kind.to_owned()).is_none(), "described twice: {line}");
        } else {
            let (series, value) = line.rsplit_once(' ').unwrap_or_else(|| panic!("no value: {line}"));
            let (name, labels) = series.split_once('{').map_or((series, ""), |(name, labels)| (name, labels));
            assert!(labels.is_empty() || labels.ends_with("\"}"), "{line}");
            let family = ["_bucket", "_sum", "_count"].iter().find_map(|end| {
                name.strip_suffix(end).filter(|family| typed.get(*family).is_some_and(|kind| kind == "histogram"))
            });
            let family = family.unwrap_or(name);
            assert!(is_name(name) && typed.contains_key(family), "no type before it: {line}");
            assert!(helped.contains(family), "nothing describes it: {line}");
            let value: f64 = value.parse().unwrap_or_else(|_| panic!("no number: {line}"));
            assert!(samples.insert(series.to_owned(), value).is_none(), "twice: {line}");
        }
    }
    samples
}

#[tokio::test]
async fn every_line_of_the_metrics_can_be_parsed_and_says_what_happened() {
    let ((mut first, now), (mut stranger, _)) = (gate("gate.example/a"), gate("gate.example/stranger"));
    let witness = stand::key("witness.example", note::KeyKind::CosignatureV1, 9).verifier();
    let log = Log::new(&[&first]);
    let witnesses = format!("witness=[{{vkey = \"{witness}\", url = \"http://127.0.0.1:1\"}}]");
    let served = log.serve(&[&witnesses]);
    let open = first.chain.open(now, &first.key).unwrap();
    assert_eq!(served.submit(&open).await.status, 200);
    assert_eq!(served.submit(&open).await.status, 200);
    assert_eq!(served.submit(&stranger.chain.open(now, &stranger.key).unwrap()).await.status, 403);
    assert_eq!(get(&served, "/nothing-here").await.status, 404);
    // The witness is found to be down, and the newest head offered, a moment later.
    let mut metrics = get(&served, "/metrics").await;
    until("the witness has failed, and the log is ready", async || {
        metrics = get(&served, "/metrics").await;
        let samples = parse_metrics(&metrics.text());
        samples.keys().any(|series| series.contains("witness_failures_total{"))
            && samples["counterfoil_log_ready"] == 1.0
    })
    .await;
    assert!(metrics.header("content-type").unwrap().starts_with("text/plain; version=0.0.4"));
    let samples = parse_metrics(&metrics.text());
    let version = env!("CARGO_PKG_VERSION");
    for (series, wanted) in [
        ("counterfoil_log_tree_size", 1.0),
        ("counterfoil_log_receipts_total", 1.0),
        ("counterfoil_log_batch_receipts_count", 1.0),
        ("counterfoil_log_batch_receipts_bucket{le=\"1\"}", 1.0),
        ("counterfoil_log_commit_seconds_count", 1.0),
        ("counterfoil_log_queue_submissions", 0.0),
        ("counterfoil_log_queue_capacity", 4096.0),
        ("counterfoil_log_refusals_total{code=\"unknown-issuer\"}", 1.0),
        ("counterfoil_log_witness_behind_entries{witness=\"witness.example\"}", 1.0),
        ("counterfoil_log_ready", 1.0),
        ("counterfoil_http_requests_total{route=\"/v1/receipts\",status=\"200\"}", 2.0),
        ("counterfoil_http_requests_total{route=\"/v1/receipts\",status=\"403\"}", 1.0),
        ("counterfoil_http_requests_total{route=\"none\",status=\"404\"}", 1.0),
        (&format!("counterfoil_build_info{{program=\"counterfoil-log\",version=\"{version}\"}}"), 1.0),
    ] {
        assert_eq!(samples.get(series), Some(&wanted), "{series}\n{}", metrics.text());
    }
    for series in [
        "counterfoil_log_signed_head_age_seconds",
        "counterfoil_log_offered_head_age_seconds",
        "counterfoil_log_offer_lag_seconds",
        "counterfoil_log_store_seconds_sum",
        "counterfoil_log_disk_free_bytes",
        "counterfoil_http_connections",
        "counterfoil_http_request_seconds_count{route=\"/v1/receipts\"}",
        "counterfoil_log_witness_failures_total{witness=\"witness.example\"}",
    ] {
        assert!(samples.get(series).is_some_and(|value| *value >= 0.0), "{series}\n{}", metrics.text());
    }
}

#[tokio::test]
async fn below_its_watermark_the_log_takes_nothing_says_so_and_still_serves() {
    let (mut first, now) = gate("gate.example/a");
    let log = Log::new(&[&first]);
    let served = log.serve(&["min_free_mib=1073741824"]);
    let open = first.chain.open(now, &first.key).unwrap();
    let mut bundle = Vec::new();
    merkle::encode_entry(&mut bundle, open.bytes()).unwrap();
    for (path, body) in [("/v1/receipts", open.bytes()), ("/v1/receipts/batch", bundle.as_slice())] {
        let refused = ask(served.address, "POST", path, &[("x-request-id", "complaint-7")], body).await;
        assert_eq!((refused.status, code(&refused).as_str()), (503, "no-room"), "{path}");
        assert_eq!((refused.header("retry-after"), refused.header("x-request-id")), (Some("10"), Some("complaint-7")));
    }
    let unready = get(&served, "/readyz").await;
    assert_eq!((unready.status, reasons(&unready)), (503, vec!["no-room".to_owned()]));
    assert_eq!(get(&served, "/checkpoint").await.status, 200);
    let samples = parse_metrics(&get(&served, "/metrics").await.text());
    assert_eq!(samples["counterfoil_log_refusals_total{code=\"no-room\"}"], 2.0);
    assert_eq!(samples["counterfoil_log_ready"], 0.0);
    // Two looks later it has been said once, and the failed requests stand in the log by their ids.
    tokio::time::sleep(Duration::from_millis(1200)).await;
    served.signal("-TERM");
    let (_, lines) = served.wait();
    let events: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let said = |words: &str| {
        events.iter().filter(|event| event["message"].as_str().unwrap().contains(words)).collect::<Vec<_>>()
    };
    assert_eq!(said("nearly full").len(), 1, "{lines}");
    let failed = said("not served");
    assert_eq!(failed[0]["request_id"], "complaint-7", "{lines}");
    assert_eq!((failed[0]["code"].as_str(), failed[0]["status"].as_u64()), (Some("no-room"), Some(503)));
    // The same store, with the mark where it belongs.
    assert_eq!(log.serve(&[]).submit(&open).await.status, 200);
}

#[tokio::test]
async fn an_issuer_beyond_its_budget_is_told_to_wait_and_nobody_else_is() {
    let ((mut busy, now), (mut calm, _)) = (gate("gate.example/busy"), gate("gate.example/calm"));
    let log = Log::new(&[&busy, &calm]);
    // One a minute would do; the smallest rate is one a second, so what is refused is asked for in one go.
    let served = log.serve(&["issuer_receipts_per_s=1", "issuer_burst=3"]);
    let mut receipts = vec![busy.chain.open(now, &busy.key).unwrap()];
    receipts.extend((0..40).map(|_| next(&mut busy, now)));
    let mut bundle = Vec::new();
    receipts.iter().for_each(|receipt| merkle::encode_entry(&mut bundle, receipt.bytes()).unwrap());
    merkle::encode_entry(&mut bundle, calm.chain.open(now, &calm.key).unwrap().bytes()).unwrap();
    let verdicts = ask(served.address, "POST", "/v1/receipts/batch", &[], &bundle).await;
    let verdicts: Vec<Value> = verdicts.text().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let taken = verdicts[..41].iter().filter(|verdict| verdict["status"] == "ok").count();
    // The bucket fills while they are placed, however long that takes.
    assert!((3..41).contains(&taken), "{verdicts:?}");
    assert_eq!((&verdicts[taken]["status"], &verdicts[taken]["code"]), (&"refused".into(), &"rate-limited".into()));
    assert!(verdicts[taken + 1..41].iter().all(|verdict| verdict["status"] == "skipped"), "{verdicts:?}");
    assert_eq!(verdicts[41]["status"], "ok", "another issuer pays for it");

    let mut limited = None;
    for receipt in &receipts[taken..] {
        let answer = served.submit(receipt).await;
        if answer.status == 429 {
            limited = Some(answer);
            break;
        }
    }
    let limited = limited.expect("40 receipts went through at once");
    assert_eq!((code(&limited).as_str(), limited.header("retry-after")), ("rate-limited", Some("1")));
    // What is in the log already costs nothing, whoever sends it.
    for _ in 0..20 {
        assert_eq!(served.submit(&receipts[0]).await.status, 200);
    }
    let samples = parse_metrics(&get(&served, "/metrics").await.text());
    assert!(samples["counterfoil_log_refusals_total{code=\"rate-limited\"}"] >= 2.0);
}

#[tokio::test]
async fn after_sigterm_the_log_says_draining_while_it_still_serves_and_then_stops() {
    let (mut first, now) = gate("gate.example/a");
    let log = Log::new(&[&first]);
    // A notice that does not end while this looks.
    let served = log.serve(&["drain_notice_ms=300000"]);
    assert_eq!(get(&served, "/readyz").await.status, 200);
    served.signal("-TERM");
    until("it says draining", async || get(&served, "/readyz").await.status == 503).await;
    assert_eq!(reasons(&get(&served, "/readyz").await), ["draining"]);
    assert_eq!(served.submit(&first.chain.open(now, &first.key).unwrap()).await.status, 200);
    drop(served);
    // And one that does.
    let served = log.serve(&["drain_notice_ms=100"]);
    assert_eq!(get(&served, "/readyz").await.status, 200);
    served.signal("-TERM");
    let (code, lines) = served.wait();
    assert_eq!(code, 0, "{lines}");
}

#[tokio::test]
async fn a_request_in_flight_at_sigterm_gets_its_answer() {
    let (mut first, now) = gate("gate.example/a");
    let witness = stand::key("witness.example", note::KeyKind::CosignatureV1, 9).verifier();
    let log = Log::new(&[&first]);
    let witnesses = format!("witness=[{{vkey = \"{witness}\", url = \"http://127.0.0.1:1\"}}]");
    let served = log.serve(&[&witnesses, "cosigned_wait_ms=1500"]);
    let open = first.chain.open(now, &first.key).unwrap();
    let (address, bytes) = (served.address, open.bytes().to_vec());
    let waiting =
        tokio::spawn(async move { ask(address, "POST", "/v1/receipts", &[("prefer", "wait=cosigned")], &bytes).await });
    let path = format!("/v1/receipts/{}", open.id());
    until("it is in the log", async || get(&served, &path).await.status == 200).await;
    served.signal("-TERM");
    let answer = waiting.await.unwrap();
    assert_eq!((answer.status, code(&answer).as_str()), (504, "not-cosigned-in-time"));
    assert_eq!(answer.json()["index"], 0);
    let (code, lines) = served.wait();
    assert_eq!(code, 0, "{lines}");
}

#[tokio::test]
async fn nothing_that_was_acknowledged_around_a_sigterm_is_lost() {
    let gates: Vec<(Gate, UnixMillis)> = (0..6).map(|number| gate(&format!("gate.example/{number}"))).collect();
    let log = Log::new(&gates.iter().map(|(gate, _)| gate).collect::<Vec<_>>());
    let served = log.serve(&[]);
    let address = served.address;
    let answered = Arc::new(AtomicUsize::new(0));
    let submitters: Vec<_> = gates
        .into_iter()
        .map(|(mut gate, now)| {
            let answered = Arc::clone(&answered);
            tokio::spawn(async move {
                let (mut receipt, mut acknowledged) = (gate.chain.open(now, &gate.key).unwrap(), Vec::new());
                // Until the log is gone, or says that it is going.
                while let Ok(answer) = try_ask(address, "POST", "/v1/receipts", &[], receipt.bytes()).await {
                    match answer.status {
                        200 => {
                            acknowledged.push(receipt);
                            answered.fetch_add(1, Ordering::Relaxed);
                        }
                        _ => break,
                    }
                    receipt = next(&mut gate, now);
                }
                acknowledged
            })
        })
        .collect();
    tokio::time::sleep(Duration::from_millis(500)).await;
    until("enough was answered to show something", async || answered.load(Ordering::Relaxed) > 6).await;
    served.signal("-TERM");
    let (code, lines) = served.wait();
    assert_eq!(code, 0, "{lines}");
    let served = log.serve(&[]);
    let mut count = 0;
    for submitter in submitters {
        for receipt in submitter.await.unwrap() {
            let found = get(&served, &format!("/v1/receipts/{}", receipt.id())).await;
            assert_eq!(found.json()["entry"], receipt.to_string());
            count += 1;
        }
    }
    assert!(count > 6, "too few to show anything: {count}");
}

#[tokio::test]
async fn issuers_come_and_go_by_sighup_and_nobody_else_notices() {
    let ((mut steady, now), (mut guest, _)) = (gate("gate.example/steady"), gate("gate.example/guest"));
    let log = Log::new(&[&steady]);
    let served = log.serve(&[]);
    let address = served.address;
    let (over, answered) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let (submitting, counted) = (Arc::clone(&over), Arc::clone(&answered));
    let steady = tokio::spawn(async move {
        let mut receipt = steady.chain.open(now, &steady.key).unwrap();
        while !submitting.load(Ordering::Relaxed) {
            let answer = ask(address, "POST", "/v1/receipts", &[], receipt.bytes()).await;
            assert_eq!(answer.status, 200, "{}", answer.text());
            receipt = next(&mut steady, now);
            counted.fetch_add(1, Ordering::Relaxed);
        }
    });
    let open = guest.chain.open(now, &guest.key).unwrap();
    assert_eq!(served.submit(&open).await.status, 403);
    log.issuer("add", &guest.vkey().to_string());
    served.signal("-HUP");
    until("the guest is listed", async || served.submit(&open).await.status == 200).await;
    log.issuer("retire", "gate.example/guest");
    served.signal("-HUP");
    until("the guest is retired", async || served.submit(&open).await.status == 403).await;
    let held = get(&served, &format!("/v1/receipts/{}", open.id())).await;
    assert_eq!(held.status, 200, "what a retired issuer has in the log stays");
    // A file that cannot be used changes nothing.
    std::fs::write(log.dir.join("issuers"), "rubbish\n").unwrap();
    served.signal("-HUP");
    tokio::time::sleep(Duration::from_millis(200)).await;
    until("the other went on", async || steady.is_finished() || answered.load(Ordering::Relaxed) > 2).await;
    over.store(true, Ordering::Relaxed);
    steady.await.unwrap();
    served.signal("-TERM");
    assert_eq!(served.wait().0, 0);
}

#[tokio::test]
async fn issuers_come_and_go_by_admin_calls() {
    let ((mut first, now), (mut other, _)) = (gate("gate.example/a"), gate("gate.example/b"));
    let log = Log::new(&[&first]);
    log.put("admin.token", TOKEN, 0o600);
    let served = log.serve(&["admin_token_file=admin.token"]);
    let bearer = format!("Bearer {TOKEN}");
    let call = async |method: &str, path: &str, body: &str| {
        ask(served.address, method, path, &[("authorization", &bearer)], body.as_bytes()).await
    };
    for wrong in
        [None, Some("Bearer not-the-one"), Some(TOKEN), Some(&bearer[..bearer.len() - 1]), Some(&format!("{bearer}x"))]
    {
        let headers: Vec<(&str, &str)> = wrong.iter().map(|wrong| ("authorization", *wrong)).collect();
        for (method, path) in
            [("GET", "/v1/admin/issuers"), ("POST", "/v1/admin/issuers"), ("DELETE", "/v1/admin/issuers/a")]
        {
            let refused = ask(served.address, method, path, &headers, b"").await;
            assert_eq!((refused.status, code(&refused).as_str()), (401, "unauthorized"), "{wrong:?}");
            assert!(!refused.text().contains("not-the-one") && !refused.text().contains(TOKEN));
        }
    }
    let open = other.chain.open(now, &other.key).unwrap();
    assert_eq!(served.submit(&open).await.status, 403);
    let added = call("POST", "/v1/admin/issuers", &format!("{}\n", other.vkey())).await;
    assert_eq!((added.status, added.json()["added"].as_bool()), (201, Some(true)), "{}", added.text());
    assert!(std::fs::read_to_string(log.dir.join("issuers")).unwrap().contains(&other.vkey().to_string()));
    // In force at once.
    assert_eq!(served.submit(&open).await.status, 200);
    assert_eq!(call("POST", "/v1/admin/issuers", &other.vkey().to_string()).await.status, 200);
    assert_eq!(call("GET", "/v1/admin/issuers", "").await.json()["issuers"].as_array().unwrap().len(), 2);

    let impostor = stand::key("gate.example/b", note::KeyKind::Ed25519, 77).verifier();
    for (body, status, wanted) in [
        ("rubbish".to_owned(), 400, "not-an-issuer-key"),
        (log.vkey.to_string(), 400, "not-an-issuer-key"),
        (impostor.to_string(), 409, "other-key"),
        (format!("{}\n{}", other.vkey(), first.vkey()), 400, "not-an-issuer-key"),
        ("x".repeat(5000), 413, "too-large"),
    ] {
        let refused = call("POST", "/v1/admin/issuers", &body).await;
        assert_eq!((refused.status, code(&refused).as_str()), (status, wanted), "{body:.40}");
    }

    let retired = call("DELETE", "/v1/admin/issuers/gate.example%2Fb", "").await;
    assert_eq!((retired.status, retired.json()["retired"].as_bool()), (200, Some(true)), "{}", retired.text());
    assert_eq!(served.submit(&next(&mut other, now)).await.status, 403);
    assert_eq!(call("DELETE", "/v1/admin/issuers/gate.example%2Fb", "").await.status, 404);
    // It has receipts under its key, so no other key can be put in its place, and the file stays as it was.
    let before = std::fs::read_to_string(log.dir.join("issuers")).unwrap();
    let refused = call("POST", "/v1/admin/issuers", &impostor.to_string()).await;
    assert_eq!((refused.status, code(&refused).as_str()), (409, "other-key"));
    assert_eq!(std::fs::read_to_string(log.dir.join("issuers")).unwrap(), before);
    assert_eq!(served.submit(&first.chain.open(now, &first.key).unwrap()).await.status, 200);
    served.signal("-TERM");
    let (code, lines) = served.wait();
    assert!(code == 0 && !lines.contains(TOKEN), "{lines}");
}

#[tokio::test]
async fn without_a_token_there_are_no_admin_calls_and_a_bad_token_file_stops_the_start() {
    let log = Log::new(&[]);
    let served = log.serve(&[]);
    for (method, path) in
        [("GET", "/v1/admin/issuers"), ("POST", "/v1/admin/issuers"), ("DELETE", "/v1/admin/issuers/a")]
    {
        let answer = ask(served.address, method, path, &[("authorization", "Bearer x")], b"").await;
        assert_eq!(answer.status, 404);
    }
    served.signal("-TERM");
    served.wait();
    let config = log.dir.join("config.toml");
    for (text, mode, wanted) in [(TOKEN, 0o644, "chmod 600"), ("short", 0o600, "at least 32")] {
        log.put("admin.token", text, mode);
        let refused = run(&[
            "serve",
            "--config",
            config.to_str().unwrap(),
            "--listen",
            "127.0.0.1:0",
            "--set",
            "admin_token_file=admin.token",
        ]);
        assert_eq!(refused.status.code(), Some(1));
        assert!(stderr(&refused).contains(wanted) && !stderr(&refused).contains(TOKEN), "{}", stderr(&refused));
    }
}

fn put_certificate(log: &Log) -> CertificateDer<'static> {
    let made = rcgen::generate_simple_self_signed(vec!["log.example".to_owned()]).unwrap();
    log.put("chain.pem", &made.cert.pem(), 0o644);
    log.put("key.pem", &made.signing_key.serialize_pem(), 0o600);
    made.cert.der().clone()
}

async fn ask_over_tls(address: SocketAddr, root: &CertificateDer<'static>, path: &str) -> std::io::Result<String> {
    let mut roots = rustls::RootCertStore::empty();
    roots.add(root.clone()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let config = config.with_root_certificates(roots).with_no_client_auth();
    let stream = TcpStream::connect(address).await?;
    let name = ServerName::try_from("log.example").unwrap();
    let mut stream = tokio_rustls::TlsConnector::from(Arc::new(config)).connect(name, stream).await?;
    stream
        .write_all(format!("GET {path} HTTP/1.1\r\nhost: log.example\r\nconnection: close\r\n\r\n").as_bytes())
        .await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    Ok(answer)
}

#[tokio::test]
async fn with_a_certificate_the_log_speaks_tls_and_takes_over_a_new_one_at_sighup() {
    let log = Log::new(&[]);
    let root = put_certificate(&log);
    let served = log.serve(&["tls.certificate=chain.pem", "tls.key=key.pem"]);
    let answer = ask_over_tls(served.address, &root, "/readyz").await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with("ready\n"), "{answer}");
    assert!(try_ask(served.address, "GET", "/readyz", &[], b"").await.is_err(), "it answers plain HTTP");
    let renewed = put_certificate(&log);
    served.signal("-HUP");
    until("the new certificate is taken over", async || {
        ask_over_tls(served.address, &renewed, "/healthz").await.is_ok()
    })
    .await;
    assert!(ask_over_tls(served.address, &root, "/healthz").await.is_err());
    // One that cannot be used is not taken over.
    log.put("chain.pem", "rubbish", 0o644);
    served.signal("-HUP");
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert!(ask_over_tls(served.address, &renewed, "/healthz").await.is_ok());
    served.signal("-TERM");
    assert_eq!(served.wait().0, 0);
}

#[test]
fn half_of_tls_is_wrong_usage_and_unusable_files_are_named() {
    let log = Log::new(&[]);
    put_certificate(&log);
    let serve = |set: &[&str]| {
        let config = log.dir.join("config.toml");
        let mut arguments = vec!["serve", "--config", config.to_str().unwrap(), "--listen", "127.0.0.1:0"];
        arguments.extend(set.iter().flat_map(|assignment| ["--set", assignment]));
        let output = run(&arguments);
        (output.status.code(), stderr(&output))
    };
    let (code, words) = serve(&["tls.key=key.pem"]);
    assert!(code == Some(64) && words.contains("tls.certificate is not"), "{words}");
    let (code, words) = serve(&["tls.key=key.pem", "tls.certificate=absent.pem"]);
    assert!(code == Some(1) && words.contains("absent.pem"), "{words}");
    let (code, words) = serve(&["tls.key=chain.pem", "tls.certificate=chain.pem"]);
    assert!(code == Some(1) && words.contains("everybody can read"), "{words}");
    assert!(Path::new(&log.dir).exists());
}
