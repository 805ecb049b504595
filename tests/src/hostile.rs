//! Peers that want the log to stop serving others, and what honest gates experience meanwhile.

use crate::gates::{Gate, InFlight};
use crate::process::LogProgram;
use note::{KeyKind, KeyName, SigningKey, VerifierKey};
use receipt::{Chain, IssuerName, UnixMillis};
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

/// How long a peer that was cut waits before it comes back.
const COMES_BACK: Duration = Duration::from_secs(1);
/// Requests that a slow reader sends and whose answers it leaves.
const LEFT_UNREAD: usize = 64;
/// How often an honest gate tries one submission. A log that turns it away for so long serves nobody.
const ATTEMPTS: u32 = 30;

/// What an attack is made of. All of it comes back as often as it is cut.
#[derive(Debug, Clone, Copy, Default)]
pub struct Attack {
    /// Connections that send nothing, half a header, or half a body, a third each.
    pub half_open: usize,
    /// Connections that send half a body, all of them.
    pub half_bodies: usize,
    /// Connections that ask for much and read nothing.
    pub slow_readers: usize,
    /// Connections that send receipts of unknown issuers and with bad signatures, as fast as they are refused.
    pub floods: usize,
}

/// An attack under way. Dropping it ends it.
#[derive(Debug)]
pub struct UnderWay(JoinSet<()>);

impl Attack {
    /// Begins it against the log at `address`. The issuer of `known` is one that the log lists.
    pub fn begin(self, address: &str, known: &Gate) -> UnderWay {
        let mut peers = JoinSet::new();
        for number in 0..self.half_open {
            peers.spawn(half_open(address.to_owned(), number));
        }
        for _ in 0..self.half_bodies {
            peers.spawn(half_open(address.to_owned(), HALF_A_BODY));
        }
        for _ in 0..self.slow_readers {
            peers.spawn(slow_reader(address.to_owned()));
        }
        for number in 0..self.floods {
            peers.spawn(flood(address.to_owned(), refused_receipts(known, number)));
        }
        UnderWay(peers)
    }
}

impl UnderWay {
    /// How many peers there are.
    pub fn peers(&self) -> usize {
        self.0.len()
    }
}

/// A number for which [`half_a_request`] is half a body.
const HALF_A_BODY: usize = 2;

/// What one half-open peer sends, and then no more: nothing, half a header, half a body, by its number.
pub fn half_a_request(number: usize) -> &'static [u8] {
    match number % 3 {
        0 => b"",
        1 => b"POST /v1/receipts HTTP/1.1\r\nhost: t\r\ncontent-le",
        _ => b"POST /v1/receipts HTTP/1.1\r\nhost: t\r\ncontent-length: 700\r\n\r\ncounterfoil/receipt/v1\n",
    }
}

async fn half_open(address: String, number: usize) {
    loop {
        if let Ok(mut stream) = TcpStream::connect(&address).await {
            let _cut_already = stream.write_all(half_a_request(number)).await;
            let mut end = [0; 512];
            while stream.read(&mut end).await.is_ok_and(|read| read > 0) {}
        }
        tokio::time::sleep(COMES_BACK).await;
    }
}

async fn slow_reader(address: String) {
    loop {
        if let Ok(mut stream) = TcpStream::connect(&address).await {
            let request =
                "GET /v1/issuers HTTP/1.1\r\nhost: t\r\n\r\nGET /tile/entries/000 HTTP/1.1\r\nhost: t\r\n\r\n";
            let _cut_already = stream.write_all(request.repeat(LEFT_UNREAD).as_bytes()).await;
            // It notices that it was cut when it sends, not by reading.
            while stream.write_all(request.as_bytes()).await.is_ok() {
                tokio::time::sleep(COMES_BACK).await;
            }
        }
        tokio::time::sleep(COMES_BACK).await;
    }
}

async fn flood(address: String, requests: Vec<Vec<u8>>) {
    loop {
        if let Ok(mut stream) = TcpStream::connect(&address).await {
            let mut answer = [0; 4096];
            for request in requests.iter().cycle() {
                if stream.write_all(request).await.is_err()
                    || !stream.read(&mut answer).await.is_ok_and(|read| read > 0)
                {
                    break;
                }
            }
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Requests with receipts that look right and are refused: of an issuer that nobody listed, and of one that is listed,
/// signed by somebody else.
fn refused_receipts(known: &Gate, number: usize) -> Vec<Vec<u8>> {
    let key = |name: &KeyName| SigningKey::from_seed(name.clone(), KeyKind::Ed25519, [0xee; 32]);
    let unknown = KeyName::new(&format!("stranger.example/{number}")).unwrap();
    [&unknown, &known.name().0]
        .into_iter()
        .map(|name| {
            let receipt = Chain::new(IssuerName(name.clone())).open(UnixMillis(1), &key(name)).unwrap();
            let head =
                format!("POST /v1/receipts HTTP/1.1\r\nhost: t\r\ncontent-length: {}\r\n\r\n", receipt.bytes().len());
            [head.as_bytes(), receipt.bytes()].concat()
        })
        .collect()
}

/// What honest gates experienced.
#[derive(Debug, Default)]
pub struct Experience {
    /// From the first attempt of each submission to its answer.
    pub waited: Vec<Duration>,
    /// Attempts that were answered with "later".
    pub turned_away: usize,
    /// Attempts whose connection broke or could not be made.
    pub broken_off: usize,
}

impl Experience {
    /// The time within which `share` of the submissions were answered.
    pub fn within(&self, share: f64) -> Duration {
        let mut waited = self.waited.clone();
        waited.sort();
        waited[((waited.len() - 1) as f64 * share) as usize]
    }
}

/// Honest gates that submit one receipt every `every` for `lasting`. Every second gate keeps its connection; the others come
/// anew each time. A refusal that may pass is waited for, as `Retry-After` says.
pub async fn honest(
    gates: Vec<Gate>,
    program: &LogProgram,
    log: &VerifierKey,
    every: Duration,
    lasting: Duration,
) -> (Vec<Gate>, Experience) {
    let mut tasks = Vec::new();
    for (number, gate) in gates.into_iter().enumerate() {
        let (program, log) = (program.clone(), log.clone());
        tasks.push(tokio::spawn(honest_gate(gate, program, log, every, lasting, number % 2 == 0)));
    }
    let (mut gates, mut all) = (Vec::new(), Experience::default());
    for task in tasks {
        let (gate, experience) = task.await.unwrap();
        gates.push(gate);
        all.waited.extend(experience.waited);
        all.turned_away += experience.turned_away;
        all.broken_off += experience.broken_off;
    }
    (gates, all)
}

async fn honest_gate(
    mut gate: Gate,
    program: LogProgram,
    log: VerifierKey,
    every: Duration,
    lasting: Duration,
    keeps_its_connection: bool,
) -> (Gate, Experience) {
    let mut experience = Experience::default();
    let mut client = program.client();
    let started = Instant::now();
    let mut ticks = tokio::time::interval(every);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    while started.elapsed() < lasting {
        ticks.tick().await;
        let asked = Instant::now();
        for attempt in 1.. {
            if !keeps_its_connection {
                client = program.client();
            }
            let Err(error) = gate.submit(&client, &log, &InFlight::default()).await else { break };
            assert!(error.may_pass(), "an honest submission was refused for good: {error}");
            assert!(attempt < ATTEMPTS, "an honest submission failed {attempt} times, the last time so: {error}");
            match error.refusal() {
                Some(refusal) => {
                    experience.turned_away += 1;
                    tokio::time::sleep(refusal.retry_after.unwrap_or(COMES_BACK)).await;
                }
                None => {
                    experience.broken_off += 1;
                    tokio::time::sleep(every).await;
                }
            }
        }
        experience.waited.push(asked.elapsed());
    }
    (gate, experience)
}
