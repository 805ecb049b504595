//! How long a split view lives: a log that begins to show two witnesses two histories, and the time until their evidence of it
//! stands where anybody can fetch it.
//!
//! Each run has a log of its own and two witnesses, processes of their own, that are each other's peers. They hold one history
//! and have found each other in agreement; then, at some moment of their interval, the log shows each another one. The clock
//! runs from there: until each witness has been shown its side is part of the delay.

use crate::failure::Failure;
use crate::stand::UNDER_TEST;
use client::{BoundedClient, Request, Timeouts};
use cosign::LogFork;
use note::{KeyKind, VerifierKey};
use serde_json::Value;
use std::fs::{self, File};
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};
use testkit::liar::{Liar, Showing};
use tokio::task::JoinSet;

/// Between two fetches of a witness.
const INTERVAL: Duration = Duration::from_secs(1);
/// Runs at the same time: ten witnesses, which fetch and answer ten times a second together.
const AT_ONCE: usize = 5;
/// How often a witness is asked for evidence: what the figure may be too large by.
const GLANCE: Duration = Duration::from_millis(10);
/// How long anything is waited for before a run counts as undetected.
const PATIENCE: Duration = Duration::from_secs(30);
/// Most bytes of a witness's status or evidence: one log, one document.
const MOST_BYTES: u64 = 64 * 1024;

/// How the two histories stand to each other, by turns.
#[derive(Clone, Copy, Debug)]
enum Split {
    /// One size: the two heads are the evidence, and both witnesses find it.
    SameSize,
    /// The first witness's is larger: it alone has tiles to prove it by.
    FirstLarger,
    /// The second's is.
    SecondLarger,
    /// Both grow, each at its own pace, all the time.
    Growing,
}

const SPLITS: [Split; 4] = [Split::SameSize, Split::FirstLarger, Split::SecondLarger, Split::Growing];

/// What came of all runs.
#[derive(Debug)]
pub(crate) struct Delays {
    /// Until the first witness had evidence, shortest first; runs without any are missing.
    pub(crate) detected: Vec<Duration>,
}

impl Delays {
    /// How many runs were detected within `bar`.
    pub(crate) fn within(&self, bar: Duration) -> usize {
        self.detected.iter().filter(|delay| **delay <= bar).count()
    }

    /// The shortest, the median and the longest, in seconds; `None` where nothing was detected.
    pub(crate) fn least_median_most_s(&self) -> Option<(f64, f64, f64)> {
        let (least, most) = (self.detected.first()?, self.detected.last()?);
        let median = self.detected.get(self.detected.len() / 2)?;
        Some((least.as_secs_f64(), median.as_secs_f64(), most.as_secs_f64()))
    }
}

/// Runs so many splits, a few at a time, each in a directory of its own below `dir`.
pub(crate) fn measure(dir: &Path, runs: usize) -> Result<Delays, Failure> {
    fs::create_dir_all(dir).map_err(Failure::io(dir))?;
    let executable = dir.join(UNDER_TEST);
    let own = std::env::current_exe().map_err(Failure::io(&executable))?;
    symlink(own, &executable).map_err(Failure::io(&executable))?;
    crate::stand::in_one_thread(async {
        let (mut running, mut started, mut detected) = (JoinSet::new(), 0, Vec::new());
        loop {
            while running.len() < AT_ONCE && started < runs {
                running.spawn(one(dir.to_owned(), executable.clone(), started));
                started += 1;
            }
            match running.join_next().await {
                Some(delay) => detected.extend(delay.map_err(Failure::unexpected)??),
                None => break,
            }
        }
        detected.sort_unstable();
        Ok(Delays { detected })
    })?
}

/// One run; `None` where nobody noticed.
async fn one(dir: PathBuf, executable: PathBuf, number: usize) -> Result<Option<Duration>, Failure> {
    let liar = Liar::start("log.example/split", number as u64).await.map_err(Failure::unexpected)?;
    let grow = |history, count| liar.grow(history, count).map_err(Failure::unexpected);
    grow(0, 20)?;
    let askers = ["first", "second"];
    // Whatever grows before the split is shown to nobody.
    askers.iter().for_each(|asker| liar.show(asker, Showing::newest(0).at(20)));
    let (dir, log) = (dir.join(format!("run-{number:03}")), Arc::clone(&liar));
    // Programs are waited for, and the liars of other runs must answer meanwhile.
    let pair = tokio::task::spawn_blocking(move || Pair::start(&dir, &executable, &log, askers)).await;
    let pair = pair.map_err(Failure::unexpected)??;
    pair.wait_for_agreement(20).await?;

    let other = liar.branch(0, 20).map_err(Failure::unexpected)?;
    let split = SPLITS[number % SPLITS.len()];
    let (of_first, of_second) = match split {
        Split::SameSize => (10, 10),
        Split::FirstLarger => (300, 10),
        Split::SecondLarger => (10, 300),
        Split::Growing => (1, 2),
    };
    grow(0, of_first)?;
    grow(other, of_second)?;
    // Somewhere in the witnesses' interval, elsewhere in every run.
    tokio::time::sleep(INTERVAL * ((number * 37) % 100) as u32 / 100).await;
    let began = Instant::now();
    liar.show(askers[0], Showing::newest(0));
    liar.show(askers[1], Showing::newest(other));
    let mut ticks = 0;
    while began.elapsed() < PATIENCE {
        if pair.accuses(&liar.vkey()).await? {
            return Ok(Some(began.elapsed()));
        }
        ticks += 1;
        if matches!(split, Split::Growing) && ticks % 10 == 0 {
            grow(0, 2)?;
            grow(other, 3)?;
        }
        tokio::time::sleep(GLANCE).await;
    }
    anstream::eprintln!("run {number} ({split:?}): nobody noticed within {} s", PATIENCE.as_secs());
    Ok(None)
}

/// Two witnesses that are each other's peers.
struct Pair {
    addresses: [SocketAddr; 2],
    http: BoundedClient,
    _processes: Vec<Process>,
}

/// A child that does not outlive the run.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        // Gone already, or killed now.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Pair {
    fn start(dir: &Path, executable: &Path, liar: &Arc<Liar>, names: [&str; 2]) -> Result<Pair, Failure> {
        fs::create_dir_all(dir).map_err(Failure::io(dir))?;
        let listen = || TcpListener::bind("127.0.0.1:0").map_err(Failure::unexpected);
        // Both at once, so that they are two; freed for the witnesses.
        let listeners = [listen()?, listen()?];
        let address = |listener: &TcpListener| listener.local_addr().map_err(Failure::unexpected);
        let addresses = [address(&listeners[0])?, address(&listeners[1])?];
        let mut keys = Vec::new();
        for name in names {
            let home = dir.join(name);
            let init = ["witness", "init", "--name", &format!("witness.example/{name}"), "--dir"];
            let made = Command::new(executable).args(init).arg(&home).output().map_err(Failure::io(executable))?;
            if !made.status.success() {
                return Err(Failure::unexpected(String::from_utf8_lossy(&made.stderr)));
            }
            let key = |file: &str, kind| service::keys::read_signing_key(&home.join(file), kind);
            let witness = key("witness.key", KeyKind::CosignatureV1).map_err(Failure::unexpected)?.verifier();
            let journal = key("journal.key", KeyKind::Ed25519).map_err(Failure::unexpected)?.verifier();
            keys.push((witness, journal));
        }
        drop(listeners);
        let mut processes = Vec::new();
        for (place, name) in names.iter().enumerate() {
            let ((peer, peer_journal), peer_address) = (&keys[1 - place], addresses[1 - place]);
            let (listen, interval, log, url) = (addresses[place], INTERVAL.as_millis(), liar.vkey(), liar.url(name));
            let text = format!(
                "listen = \"{listen}\"\ninterval_ms = {interval}\n\
                 [[log]]\nvkey = \"{log}\"\nurl = \"{url}\"\nprivate_address = true\n\
                 [[peer]]\nvkey = \"{peer}\"\njournal_vkey = \"{peer_journal}\"\nurl = \"http://{peer_address}\"\n\
                 private_address = true\n"
            );
            let config = dir.join(name).join("config.toml");
            fs::write(&config, text).map_err(Failure::io(&config))?;
            let messages = dir.join(format!("{name}.stderr"));
            let messages = File::create(&messages).map_err(Failure::io(&messages))?;
            let mut serve = Command::new(executable);
            serve.args(["witness", "serve", "--config"]).arg(&config).stdin(Stdio::null()).stderr(messages);
            processes.push(Process(serve.spawn().map_err(Failure::io(executable))?));
        }
        let http = BoundedClient::new(Timeouts::default()).map_err(Failure::unexpected)?;
        Ok(Pair { addresses, http, _processes: processes })
    }

    /// Waits until each says that the other holds what it holds, at that size.
    async fn wait_for_agreement(&self, size: u64) -> Result<(), Failure> {
        let began = Instant::now();
        loop {
            let mut agreeing = 0;
            for witness in 0..2 {
                let status = self.get(witness, "/status").await.unwrap_or_default();
                let status: Value = serde_json::from_slice(&status).unwrap_or_default();
                let peer = &status["logs"][0]["peers"][0];
                agreeing += usize::from(peer["agreed_size"] == size && peer["code"].is_null());
            }
            if agreeing == 2 {
                return Ok(());
            }
            if began.elapsed() > PATIENCE {
                return Err(Failure::unexpected("two witnesses of one log do not come to agree"));
            }
            tokio::time::sleep(GLANCE).await;
        }
    }

    /// Whether one of them has evidence; it must be against this log, and hold.
    async fn accuses(&self, log: &VerifierKey) -> Result<bool, Failure> {
        for witness in 0..2 {
            let Some(page) = self.get(witness, "/evidence/0").await else { continue };
            let first = page.split(|byte| *byte == b'\n').next().unwrap_or_default();
            let fork: LogFork = serde_json::from_slice(first).map_err(Failure::unexpected)?;
            let accused = fork.check().map_err(Failure::unexpected)?.key;
            return if accused == *log { Ok(true) } else { Err(Failure::unexpected("somebody else is accused")) };
        }
        Ok(false)
    }

    async fn get(&self, witness: usize, path: &str) -> Option<Vec<u8>> {
        let url = format!("http://{}{path}", self.addresses[witness]).parse().ok()?;
        Some(self.http.send(Request::get(url, MOST_BYTES)).await.ok()?.to_vec())
    }
}
