//! A log in this process, on a real socket and a real disk; gates that sign; and an HTTP client of its own, so that the
//! log is not judged by the client it was written with.
#![allow(clippy::unwrap_used, clippy::panic, dead_code, unreachable_pub, missing_docs)]

pub mod process;
pub mod pushed;

use counterfoil_log_server::clock::Clock;
use counterfoil_log_server::config::{LogConfig, Witness};
use counterfoil_log_server::run::{self, RunError, Setup};
use counterfoil_log_server::{quorum::Quorum, stored};
use merkle::{LeafIndex, leaf_hash};
use note::{KeyKind, KeyName, Policy, SigningKey, TlogProof, VerifiedProof, VerifierKey};
use receipt::{Chain, IssuerName, Receipt, ReceiptText, UnixMillis};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;

/// The log's clock and the gates' own, unless a test says otherwise.
pub const NOW: u64 = 1_800_000_000_000;
pub const ORIGIN: &str = "log.example/agents";
/// How long anything is waited for, on a machine that does much else: longer than the log ever rests between two requests to a
/// witness that fails.
pub const LATE: Duration = Duration::from_secs(180);

/// Waits until `holds`; fails after a while.
pub async fn until(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let deadline = Instant::now() + LATE;
    while !holds().await {
        assert!(Instant::now() < deadline, "it never came true: {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

pub fn key(name: &str, kind: KeyKind, seed: u8) -> SigningKey {
    SigningKey::from_seed(KeyName::new(name).unwrap(), kind, [seed; 32])
}

pub fn log_key() -> SigningKey {
    key(ORIGIN, KeyKind::Ed25519, 200)
}

/// A gate: a key and its end of the chain.
#[derive(Clone)]
pub struct Gate {
    pub key: Arc<SigningKey>,
    pub chain: Chain,
}

impl Gate {
    pub fn new(name: &str) -> Self {
        let seed = name.bytes().fold(1u8, |seed, byte| seed.wrapping_mul(31).wrapping_add(byte));
        Self { key: Arc::new(key(name, KeyKind::Ed25519, seed)), chain: Chain::new(IssuerName::new(name).unwrap()) }
    }

    pub fn vkey(&self) -> VerifierKey {
        self.key.verifier()
    }

    pub fn open(&mut self) -> Receipt {
        self.chain.open(UnixMillis(NOW), &self.key).unwrap()
    }

    pub fn next(&mut self) -> Receipt {
        self.say(r#"{"type":"heartbeat"}"#)
    }

    pub fn say(&mut self, body: &str) -> Receipt {
        self.chain.append(body, UnixMillis(NOW), &self.key).unwrap()
    }

    /// What would come next, at another time or with other words; the chain stays where it is.
    pub fn aside(&self, body: &str, issued_at: u64) -> Receipt {
        let text = ReceiptText {
            issuer: self.chain.issuer().clone(),
            seq: self.chain.next_seq(),
            prev: self.chain.head(),
            issued_at: UnixMillis(issued_at),
            body: body.to_owned(),
        };
        text.sign(&self.key).unwrap()
    }
}

/// A log's directory, which outlives its runs.
pub struct Place {
    pub dir: TempDir,
    now: Arc<AtomicU64>,
}

pub struct Running {
    pub address: SocketAddr,
    stop: oneshot::Sender<()>,
    reload: watch::Sender<u64>,
    ended: JoinHandle<Result<(), RunError>>,
}

pub struct Answer {
    pub status: u16,
    pub head: String,
    pub body: Vec<u8>,
}

impl Place {
    pub fn new(gates: &[&Gate]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        store::LogStore::create(&dir.path().join("store")).unwrap();
        let place = Self { dir, now: Arc::new(AtomicU64::new(NOW)) };
        place.list(gates);
        place
    }

    pub fn list(&self, gates: &[&Gate]) {
        let lines: String = gates.iter().map(|gate| format!("{}\n", gate.vkey())).collect();
        std::fs::write(self.issuers(), lines).unwrap();
    }

    pub fn set_clock(&self, now: u64) {
        self.now.store(now, Ordering::SeqCst);
    }

    fn issuers(&self) -> PathBuf {
        self.dir.path().join("issuers")
    }

    pub async fn run(&self) -> Running {
        self.run_with(Vec::new(), None, |_| {}).await.unwrap_or_else(|error| panic!("{error}"))
    }

    /// `Err` if the log refuses to run.
    pub async fn run_with(
        &self,
        witnesses: Vec<Witness>,
        policy: Option<&str>,
        change: impl FnOnce(&mut LogConfig),
    ) -> Result<Running, RunError> {
        let mut config: LogConfig = toml_config();
        change(&mut config);
        let (ledger, known) = stored::open(&self.dir.path().join("store"), log_key()).unwrap();
        let keys: Vec<VerifierKey> = witnesses.iter().flat_map(|witness| witness.keys.clone()).collect();
        let quorum = match policy {
            Some(policy) => {
                Quorum::by_policy(Policy::parse(policy.as_bytes()).unwrap(), &log_key().verifier(), &keys).unwrap()
            }
            None => Quorum::every(witnesses.len()),
        };
        let now = Arc::clone(&self.now);
        let clock = Clock::from_fn(move || UnixMillis(now.load(Ordering::SeqCst)));
        let setup = Setup {
            ledger,
            known,
            key: log_key().verifier(),
            issuers: self.issuers(),
            witnesses,
            quorum,
            config,
            clock,
        };
        let (listener, address) = run::bind("127.0.0.1:0").await.unwrap();
        let (stop, stopped) = oneshot::channel();
        let (reload, reloaded) = watch::channel(0);
        let mut ended = tokio::spawn(run::run(setup, listener, async { _ = stopped.await }, reloaded));
        loop {
            tokio::select! {
                early = &mut ended => return Err(early.unwrap().expect_err("it cannot have stopped cleanly")),
                answer = try_ask(address, "GET", "/healthz", &[], b"") => {
                    if answer.is_ok_and(|answer| answer.status == 200) { break }
                }
            }
        }
        Ok(Running { address, stop, reload, ended })
    }
}

fn toml_config() -> LogConfig {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("config.toml");
    std::fs::write(&path, "listen = \"unused\"\nwitness_poll_ms = 300\n").unwrap();
    counterfoil_log_server::config::load(&path, service::config::Flags::new()).unwrap().values
}

impl Running {
    pub async fn get(&self, path: &str) -> Answer {
        ask(self.address, "GET", path, &[], b"").await
    }

    pub async fn post(&self, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Answer {
        ask(self.address, "POST", path, headers, body).await
    }

    pub async fn submit(&self, receipt: &Receipt) -> Answer {
        self.post("/v1/receipts", &[("content-type", "text/plain")], receipt.bytes()).await
    }

    /// Submits and checks the proof that comes back.
    pub async fn take(&self, receipt: &Receipt) -> VerifiedProof {
        let answer = self.submit(receipt).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        verify(receipt, &answer.text())
    }

    pub async fn batch(&self, receipts: &[&[u8]]) -> Vec<serde_json::Value> {
        let mut bundle = Vec::new();
        for receipt in receipts {
            merkle::encode_entry(&mut bundle, receipt).unwrap();
        }
        let answer = self.post("/v1/receipts/batch", &[], &bundle).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        answer.text().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// Size and text of the checkpoint on offer.
    pub async fn checkpoint(&self) -> (u64, String) {
        let text = self.get("/checkpoint").await.text();
        let size = text.lines().nth(1).unwrap().parse().unwrap();
        (size, text)
    }

    /// Waits until the head on offer has this size.
    pub async fn offered(&self, size: u64) -> String {
        let mut offered = (0, String::new());
        until(&format!("a head of size {size} is on offer"), async || {
            offered = self.checkpoint().await;
            offered.0 == size
        })
        .await;
        offered.1
    }

    pub fn reload(&self) {
        self.reload.send_modify(|count| *count += 1);
    }

    /// Waits until it ends by itself.
    pub async fn ended(self) -> Result<(), RunError> {
        let Self { stop: _never, ended, .. } = self;
        tokio::time::timeout(LATE, ended).await.expect("it ends by itself").unwrap()
    }

    pub async fn stop(self) -> Result<(), RunError> {
        _ = self.stop.send(());
        self.ended.await.unwrap()
    }
}

impl Answer {
    pub fn text(&self) -> String {
        String::from_utf8(self.body.clone()).unwrap()
    }

    pub fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.text()))
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| {
            line.split_once(": ").filter(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value)
        })
    }
}

/// One request on a connection of its own.
pub async fn ask(address: SocketAddr, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Answer {
    try_ask(address, method, path, headers, body).await.unwrap_or_else(|error| panic!("{method} {path}: {error}"))
}

/// The same where the log may be about to stop.
pub async fn try_ask(
    address: SocketAddr,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &[u8],
) -> std::io::Result<Answer> {
    let length = body.len();
    let mut request =
        format!("{method} {path} HTTP/1.1\r\nhost: log\r\nconnection: close\r\ncontent-length: {length}\r\n");
    for (name, value) in headers {
        request.push_str(&format!("{name}: {value}\r\n"));
    }
    request.push_str("\r\n");
    let mut stream = TcpStream::connect(address).await?;
    stream.write_all(request.as_bytes()).await?;
    // A refusal may come before the body is taken.
    let _ = stream.write_all(body).await;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await?;
    let end = answer.windows(4).position(|window| window == b"\r\n\r\n");
    let end = end.ok_or_else(|| std::io::Error::other("the connection was closed without an answer"))?;
    let head = String::from_utf8(answer[..end].to_vec()).unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    let body = answer.split_off(end + 4);
    let chunked = head.to_ascii_lowercase().contains("transfer-encoding: chunked");
    Ok(Answer { status, head, body: if chunked { unchunked(&body) } else { body } })
}

fn unchunked(mut chunks: &[u8]) -> Vec<u8> {
    let mut body = Vec::new();
    loop {
        let end = chunks.windows(2).position(|window| window == b"\r\n").expect("a chunk's size");
        let size = usize::from_str_radix(std::str::from_utf8(&chunks[..end]).unwrap(), 16).unwrap();
        if size == 0 {
            return body;
        }
        body.extend_from_slice(&chunks[end + 2..end + 2 + size]);
        chunks = &chunks[end + 4 + size..];
    }
}

/// A policy that trusts the log alone.
pub fn log_only() -> Policy {
    Policy::parse(format!("log {}\nquorum none\n", log_key().verifier()).as_bytes()).unwrap()
}

/// Checks a proof as a gate would.
pub fn verify(receipt: &Receipt, proof: &str) -> VerifiedProof {
    let proof = TlogProof::parse(proof.as_bytes()).unwrap_or_else(|error| panic!("{error}: {proof}"));
    proof.verify(&leaf_hash(receipt.bytes()), &log_only()).unwrap_or_else(|error| panic!("{error}"))
}

pub fn index_of(proof: &str) -> LeafIndex {
    TlogProof::parse(proof.as_bytes()).unwrap().index
}
