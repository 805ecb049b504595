//! Measures a log on this machine: `cargo run --release -p counterfoil-log-server --example load`.
//!
//! Starts a log in a temporary directory on the loopback address and sends it receipts that were signed beforehand, for a
//! bounded time: one gate alone, many gates at once, and batches. Client and server share the cores, so the figures are
//! for comparing settings with each other, not machines.

use counterfoil_log_server::clock::Clock;
use counterfoil_log_server::config;
use counterfoil_log_server::quorum::Quorum;
use counterfoil_log_server::run::{self, Setup};
use counterfoil_log_server::stored;
use note::{KeyKind, KeyName, SigningKey};
use receipt::{Chain, IssuerName, Receipt, UnixMillis};
use service::config::Flags;
use std::error::Error;
use std::io::Write;
use std::net::SocketAddr;
use std::time::{Duration, Instant, SystemTime};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::{oneshot, watch};

type Failure = Box<dyn Error + Send + Sync>;

const ORIGIN: &str = "log.example/load";
const BODY: &str = r#"{"type":"decision","request_id":"r-7f3a11c2","decision":"allow","operation":"read_customer","resource":"customer:77","action_class":"READ","subjects":["customer:77"],"session":"s-1","authenticated":true,"proven":["capability_signature","request_signature","nonce_fresh"],"claimed_agent":"support-1","bound_agent":"support-1","executes":"gate"}"#;

/// Submissions a second one gate makes at most in these measurements; signed beforehand.
const ALONE: usize = 2_000;
const GATES: usize = 64;
const EACH: usize = 300;
const BATCHES: usize = 12;
const BATCH: usize = 2_000;

fn main() -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(measure())
}

async fn measure() -> Result<(), Failure> {
    let out = &mut std::io::stdout();
    for linger_ms in [0, 2, 10] {
        let alone = Stream::signed("gate.example/alone", ALONE)?;
        let many = (0..GATES)
            .map(|number| Stream::signed(&format!("gate.example/{number}"), EACH))
            .collect::<Result<Vec<_>, _>>()?;
        let batched = Stream::signed("gate.example/batched", BATCHES * BATCH)?;
        let keys =
            many.iter().chain([&alone, &batched]).map(|stream| stream.vkey.clone()).collect::<Vec<_>>().join("\n");
        let log = Log::start(&keys, linger_ms).await?;

        let started = Instant::now();
        let times = submit_all(log.address, &alone.receipts).await?;
        report(out, &format!("linger {linger_ms:2} ms, one gate alone"), times, started.elapsed(), 1)?;

        let started = Instant::now();
        let tasks: Vec<_> = many
            .into_iter()
            .map(|stream| tokio::spawn(async move { submit_all(log.address, &stream.receipts).await }))
            .collect();
        let mut times = Vec::new();
        for task in tasks {
            times.extend(task.await??);
        }
        report(out, &format!("linger {linger_ms:2} ms, {GATES} gates at once"), times, started.elapsed(), 1)?;

        let started = Instant::now();
        let mut times = Vec::new();
        for batch in batched.receipts.chunks(BATCH) {
            let mut bundle = Vec::new();
            for receipt in batch {
                merkle::encode_entry(&mut bundle, receipt.bytes())?;
            }
            let asked = Instant::now();
            post(&mut TcpStream::connect(log.address).await?, "/v1/receipts/batch", &bundle).await?;
            times.push(asked.elapsed());
        }
        report(out, &format!("linger {linger_ms:2} ms, batches of {BATCH}"), times, started.elapsed(), BATCH)?;
        log.stop().await?;
    }
    Ok(())
}

struct Stream {
    vkey: String,
    receipts: Vec<Receipt>,
}

impl Stream {
    fn signed(name: &str, count: usize) -> Result<Self, Failure> {
        let seed = name.bytes().fold([1u8; 32], |mut seed, byte| {
            seed[usize::from(byte) % 32] = seed[0].wrapping_mul(31).wrapping_add(byte);
            seed.rotate_left(1);
            seed
        });
        let key = SigningKey::from_seed(KeyName::new(name)?, KeyKind::Ed25519, seed);
        let mut chain = Chain::new(IssuerName::new(name)?);
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?;
        let now = UnixMillis(u64::try_from(now.as_millis())?);
        let mut receipts = vec![chain.open(now, &key)?];
        for _ in 1..count {
            receipts.push(chain.append(BODY, now, &key)?);
        }
        Ok(Self { vkey: key.verifier().to_string(), receipts })
    }
}

struct Log {
    address: SocketAddr,
    stop: oneshot::Sender<()>,
    ended: tokio::task::JoinHandle<Result<(), run::RunError>>,
    _reload: watch::Sender<u64>,
    _dir: tempfile::TempDir,
}

impl Log {
    async fn start(keys: &str, linger_ms: u32) -> Result<Self, Failure> {
        let dir = tempfile::tempdir()?;
        let (store, issuers, file) =
            (dir.path().join("store"), dir.path().join("issuers"), dir.path().join("config.toml"));
        std::fs::write(&issuers, keys)?;
        std::fs::write(&file, "listen = \"127.0.0.1:0\"")?;
        let config = config::load(&file, Flags::new().set("linger_ms", Some(linger_ms)))?.values;
        store::LogStore::create(&store)?;
        let key = SigningKey::from_seed(KeyName::new(ORIGIN)?, KeyKind::Ed25519, [9; 32]);
        let verifier = key.verifier();
        let (ledger, known) = stored::open(&store, key)?;
        let quorum = Quorum::every(0);
        let setup = Setup {
            ledger,
            known,
            key: verifier,
            issuers,
            witnesses: Vec::new(),
            quorum,
            config,
            clock: Clock::system(),
        };
        let (listener, address) = run::bind("127.0.0.1:0").await?;
        let (stop, stopped) = oneshot::channel();
        let (reload, reloaded) = watch::channel(0);
        let ended = tokio::spawn(run::run(setup, listener, async { _ = stopped.await }, reloaded));
        Ok(Self { address, stop, ended, _reload: reload, _dir: dir })
    }

    async fn stop(self) -> Result<(), Failure> {
        let _already_stopped = self.stop.send(());
        Ok(self.ended.await??)
    }
}

/// One receipt after the other on one connection; how long each took.
async fn submit_all(address: SocketAddr, receipts: &[Receipt]) -> Result<Vec<Duration>, Failure> {
    let mut stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    let mut times = Vec::with_capacity(receipts.len());
    for receipt in receipts {
        let asked = Instant::now();
        post(&mut stream, "/v1/receipts", receipt.bytes()).await?;
        times.push(asked.elapsed());
    }
    Ok(times)
}

async fn post(stream: &mut TcpStream, path: &str, body: &[u8]) -> Result<(), Failure> {
    let mut request =
        format!("POST {path} HTTP/1.1\r\nhost: log\r\ncontent-length: {}\r\n\r\n", body.len()).into_bytes();
    request.extend_from_slice(body);
    stream.write_all(&request).await?;
    let mut answer = Vec::with_capacity(4096);
    loop {
        if stream.read_buf(&mut answer).await? == 0 {
            return Err("the log closed the connection".into());
        }
        let Some(end) = answer.windows(4).position(|window| window == b"\r\n\r\n") else { continue };
        let head = String::from_utf8_lossy(&answer[..end]).to_ascii_lowercase();
        if !head.starts_with("http/1.1 200") {
            return Err(format!("refused: {}", String::from_utf8_lossy(&answer)).into());
        }
        let complete = match head.lines().find_map(|line| line.strip_prefix("content-length: ")) {
            Some(length) => answer.len() - end - 4 >= length.parse()?,
            None => answer.ends_with(b"\r\n0\r\n\r\n"),
        };
        if complete {
            return Ok(());
        }
    }
}

fn report(
    out: &mut dyn Write,
    what: &str,
    mut times: Vec<Duration>,
    elapsed: Duration,
    receipts_each: usize,
) -> Result<(), Failure> {
    times.sort_unstable();
    let at = |share: usize| times.get((times.len() * share / 100).min(times.len() - 1)).copied().unwrap_or_default();
    let rate = (times.len() * receipts_each) as f64 / elapsed.as_secs_f64();
    writeln!(
        out,
        "{what:36} {rate:8.0} receipts/s   p50 {:6.2} ms   p99 {:6.2} ms",
        at(50).as_secs_f64() * 1e3,
        at(99).as_secs_f64() * 1e3
    )?;
    Ok(())
}
