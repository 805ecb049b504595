//! Logs that push: heads with their proofs, made beforehand, sent over kept connections by one thread.

use crate::failure::Failure;
use crate::house::House;
use crate::http::{Connection, request};
use crate::process::{Shares, Usage};
use merkle::{MemoryTree, TreeSize, leaf_hash, prove_consistency};
use note::{Checkpoint, KeyKind, KeyName, Origin, SigningKey, VerifierKey, parse_cosignature_line, sign_checkpoint};
use rayon::iter::{IntoParallelIterator, ParallelIterator};
use std::net::SocketAddr;
use std::time::{Duration, Instant};
use tokio::task::JoinSet;

/// Entries that a log has before its first push: proofs are as long as those of a log in use.
const BEFORE: u64 = 1_000;
/// Entries by which a log grows between two pushes.
const GROWTH: u64 = 3;
/// One answer in so many is kept, and its cosignature checked.
const SAMPLE: usize = 16;

/// A log, its key, and the calls that push its heads.
pub(crate) struct Pusher {
    pub(crate) vkey: VerifierKey,
    calls: Vec<Call>,
}

struct Call {
    request: Vec<u8>,
    text: String,
}

/// What became of a load.
#[derive(Default)]
pub(crate) struct Pushed {
    /// Cosignatures that came.
    pub(crate) count: usize,
    /// From the first request to the last answer.
    pub(crate) wall: Duration,
    /// What each request took, ascending.
    pub(crate) took: Vec<Duration>,
    /// Who used the processors meanwhile.
    pub(crate) used: Shares,
    /// Cosignatures that were checked afterwards.
    pub(crate) checked: usize,
    kept: Vec<(String, String)>,
}

impl Pusher {
    /// Log number `number`, and so many calls.
    pub(crate) fn new(number: usize, calls: usize) -> Result<Pusher, Failure> {
        let name = KeyName::new(&format!("log.example/{number}")).map_err(Failure::unexpected)?;
        let seed = u64::try_from(number).map_err(Failure::unexpected)?.to_be_bytes().repeat(4);
        let seed = seed.try_into().map_err(|_| Failure::unexpected("four times eight is thirty-two"))?;
        let key = SigningKey::from_seed(name, KeyKind::Ed25519, seed);
        let mut tree = MemoryTree::new();
        let (mut old, mut made) = (0, Vec::with_capacity(calls));
        for size in (0..calls as u64).map(|call| BEFORE + GROWTH * call) {
            (tree.size().0..size).for_each(|index| tree.push(leaf_hash(&index.to_be_bytes())));
            let head = Checkpoint::new(Origin::from(key.name()), tree.size(), tree.root());
            let head = sign_checkpoint(&head, &key).map_err(Failure::unexpected)?;
            let mut body = format!("old {old}\n");
            if old > 0 {
                let proof = prove_consistency(&tree, TreeSize(old), TreeSize(size)).map_err(Failure::unexpected)?;
                proof.hashes().iter().for_each(|hash| body.push_str(&format!("{}\n", hash.to_base64())));
            }
            body.push('\n');
            let body = [body.as_bytes(), head.bytes()].concat();
            made.push(Call {
                request: request("POST", "/add-checkpoint", "", &body),
                text: head.note().text().to_owned(),
            });
            old = size;
        }
        Ok(Pusher { vkey: key.verifier(), calls: made })
    }

    /// So many of them, with so many calls each, made on all cores.
    pub(crate) fn many(logs: usize, calls: usize) -> Result<Vec<Pusher>, Failure> {
        (0..logs).into_par_iter().map(|number| Pusher::new(number, calls)).collect()
    }

    /// Its section in a witness's configuration.
    pub(crate) fn section(&self) -> String {
        format!("\n[[log]]\nvkey = \"{}\"\naccept_pushes = true\n", self.vkey)
    }
}

impl Pushed {
    /// Cosignatures a second.
    pub(crate) fn rate(&self) -> f64 {
        self.count as f64 / self.wall.as_secs_f64()
    }

    /// Microseconds a cosignature.
    pub(crate) fn us_each(&self, time: Duration) -> f64 {
        time.as_secs_f64() * 1e6 / self.count as f64
    }

    /// The time within which this share of the requests was answered, in milliseconds.
    pub(crate) fn quantile_ms(&self, share: f64) -> f64 {
        let place = (self.took.len().saturating_sub(1) as f64 * share).round() as usize;
        self.took.get(place).map_or(f64::NAN, |took| took.as_secs_f64() * 1e3)
    }
}

/// Lets every log push all its heads over a connection of its own, each when the one before was answered.
pub(crate) fn run(house: &House, pushers: Vec<Pusher>) -> Result<Pushed, Failure> {
    let mut pushed = crate::stand::in_one_thread(drive_all(house.address, house.id(), pushers))??;
    pushed.took.sort_unstable();
    for (text, line) in std::mem::take(&mut pushed.kept) {
        let line = parse_cosignature_line(&line).map_err(Failure::unexpected)?;
        line.verify(&text, &house.vkey).map_err(Failure::unexpected)?;
        pushed.checked += 1;
    }
    Ok(pushed)
}

async fn drive_all(address: SocketAddr, witness: u32, pushers: Vec<Pusher>) -> Result<Pushed, Failure> {
    let mut connected = Vec::with_capacity(pushers.len());
    for pusher in pushers {
        connected.push((Connection::open(address).await.map_err(Failure::Connection)?, pusher));
    }
    let before = Usage::now(witness)?;
    let began = Instant::now();
    let mut tasks = JoinSet::new();
    for (connection, pusher) in connected {
        tasks.spawn(drive(connection, pusher));
    }
    let mut pushed = Pushed::default();
    while let Some(part) = tasks.join_next().await {
        let part = part.map_err(Failure::unexpected)??;
        pushed.count += part.count;
        pushed.took.extend(part.took);
        pushed.kept.extend(part.kept);
    }
    pushed.wall = began.elapsed();
    pushed.used = Usage::now(witness)?.since(before, pushed.wall);
    Ok(pushed)
}

async fn drive(mut connection: Connection, pusher: Pusher) -> Result<Pushed, Failure> {
    let mut pushed = Pushed { took: Vec::with_capacity(pusher.calls.len()), ..Pushed::default() };
    for (place, call) in pusher.calls.into_iter().enumerate() {
        let asked = Instant::now();
        let answer = connection.exchange(&call.request).await.map_err(Failure::Connection)?;
        pushed.took.push(asked.elapsed());
        if answer.status != 200 {
            return Err(Failure::refused(answer.status, answer.body));
        }
        pushed.count += 1;
        if place.is_multiple_of(SAMPLE) {
            let lines = String::from_utf8_lossy(answer.body);
            let line = lines.lines().next().unwrap_or_default().to_owned();
            pushed.kept.push((call.text, line));
        }
    }
    Ok(pushed)
}
