//! Witnesses that watch a log and each other: in this process, on sockets, disks and clocks of their own.
//!
//! Each is made by `init` and configured as an operator would; only the process around it is missing, so that dozens of them
//! can run beside each other. The log is a [`Liar`], which shows each witness what it was told to.

use client::witness::origin_hash;
use client::{BoundedClient, LogClient, Request, Timeouts, WitnessClient};
use cosign::LogFork;
use note::{KeyKind, Origin, SignedCheckpoint, Verified, VerifierKey};
use service::config::{Flags, load_with_environment};
use std::ffi::OsString;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tempfile::TempDir;
use testkit::liar::Liar;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use witness::broken::Broken;
use witness::clock::Clock;
use witness::journal::line::JournalLine;
use witness::serve::{StartError, Witness};
use witness::settings::Settings;
use witness::view::{LogStatus, PeerStatus, WitnessStatus};

/// How long anything here is waited for. It takes a second or two; a loaded machine gets thirty times that.
const PATIENCE: Duration = Duration::from_secs(60);
const GLANCE: Duration = Duration::from_millis(20);

/// A witness's directory and address. The witness may be started on it again and again.
#[derive(Debug)]
pub struct House {
    dir: TempDir,
    /// Its name, by which the liar knows it, too.
    pub name: String,
    address: SocketAddr,
    /// Kept so that nobody else is given the address before the witness first starts.
    kept: Option<std::net::TcpListener>,
    /// Its key.
    pub vkey: VerifierKey,
    /// Its journal's key.
    pub journal_vkey: VerifierKey,
}

/// A witness that runs. Dropping it ends it as a kill would, as far as one process can show that.
#[derive(Debug)]
pub struct Running {
    /// Where it is.
    pub url: String,
    /// How it is asked.
    pub client: WitnessClient,
    http: BoundedClient,
    journal_vkey: VerifierKey,
    stop: CancellationToken,
    task: Option<JoinHandle<Result<(), Broken>>>,
}

/// What a configuration says beside the witness's logs and peers.
#[derive(Debug, Clone, Copy)]
pub struct Tempo {
    /// Between two fetches.
    pub interval_ms: u64,
    /// Until a fetch is given up.
    pub deadline_ms: u64,
}

impl House {
    /// A new witness of this name, on a free port.
    pub fn new(name: &str) -> House {
        let dir = TempDir::new().unwrap();
        let home = dir.path().join("w");
        let full_name = format!("witness.example/{name}");
        let words = ["witness", "init", "--dir", home.to_str().unwrap(), "--name", &full_name];
        let ended = witness::main_with(words.into_iter().map(OsString::from));
        assert_eq!(format!("{ended:?}"), format!("{:?}", std::process::ExitCode::SUCCESS));
        let key = |file, kind| service::keys::read_signing_key(&home.join(file), kind).unwrap().verifier();
        let kept = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        House {
            vkey: key("witness.key", KeyKind::CosignatureV1),
            journal_vkey: key("journal.key", KeyKind::Ed25519),
            name: name.to_owned(),
            address: kept.local_addr().unwrap(),
            kept: Some(kept),
            dir,
        }
    }

    /// Where it is, or will be.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The directory of everything it remembers.
    pub fn state(&self) -> PathBuf {
        self.dir.path().join("w/state")
    }

    /// Writes its configuration: the liar's log, at the prefix that is named like the witness, and `peers`.
    pub fn configure(&self, liar: &Liar, peers: &[&House], tempo: Tempo) {
        let peers: Vec<_> = peers.iter().map(|peer| (&peer.vkey, &peer.journal_vkey, peer.url())).collect();
        self.configure_with(liar, &peers, tempo);
    }

    /// The same with peers by key, journal's key and address.
    pub fn configure_with(&self, liar: &Liar, peers: &[(&VerifierKey, &VerifierKey, String)], tempo: Tempo) {
        let Tempo { interval_ms, deadline_ms } = tempo;
        let mut text =
            format!("interval_ms = {interval_ms}\nbackoff_ms = {interval_ms}\nfetch_deadline_ms = {deadline_ms}\n");
        let (vkey, url) = (liar.vkey(), liar.url(&self.name));
        text += &format!("[[log]]\nvkey = \"{vkey}\"\nurl = \"{url}\"\nprivate_address = true\n");
        for (vkey, journal, url) in peers {
            text += &format!(
                "[[peer]]\nvkey = \"{vkey}\"\njournal_vkey = \"{journal}\"\nurl = \"{url}\"\nprivate_address = true\n"
            );
        }
        fs::write(self.dir.path().join("w/config.toml"), text).unwrap();
    }

    /// Starts it.
    ///
    /// # Errors
    /// Why it does not start.
    pub async fn try_start(&mut self) -> Result<Running, StartError> {
        let file = self.dir.path().join("w/config.toml");
        let settings = load_with_environment::<Settings>(Some(&file), std::iter::empty(), Flags::new()).unwrap();
        let witness = Witness::open(&settings, Clock::system()).await?;
        let listener = match self.kept.take() {
            Some(kept) => {
                kept.set_nonblocking(true).unwrap();
                TcpListener::from_std(kept).unwrap()
            }
            None => service::listener::bind(self.address).await.unwrap(),
        };
        let stop = CancellationToken::new();
        let task = tokio::spawn(witness.run(listener, stop.clone()));
        let http = BoundedClient::new(Timeouts::default()).unwrap();
        let url = self.url();
        let client = WitnessClient::new(url.parse().unwrap(), http.clone());
        Ok(Running { url, client, http, journal_vkey: self.journal_vkey.clone(), stop, task: Some(task) })
    }

    /// Starts it, which must succeed.
    pub async fn start(&mut self) -> Running {
        self.try_start().await.unwrap()
    }
}

impl Running {
    /// A document from it.
    pub async fn get(&self, path: &str) -> Option<Vec<u8>> {
        let url = format!("{}{path}", self.url).parse().unwrap();
        self.http.send(Request::get(url, 1 << 24)).await.ok().map(|bytes| bytes.to_vec())
    }

    /// Its status.
    pub async fn status(&self) -> WitnessStatus {
        serde_json::from_slice(&self.get("/status").await.unwrap()).unwrap()
    }

    /// Its status of one log.
    pub async fn log(&self, log: &VerifierKey) -> LogStatus {
        let status = self.status().await;
        status.logs.into_iter().find(|status| status.origin == log.name().as_str()).unwrap()
    }

    /// What it says of what a peer holds of a log.
    pub async fn peer(&self, log: &VerifierKey, peer: &House) -> Option<PeerStatus> {
        self.log(log).await.peers.into_iter().find(|status| status.peer == peer.vkey.name().as_str())
    }

    /// Its evidence, each document checked by both that check it.
    pub async fn evidence(&self) -> Vec<LogFork> {
        let Some(page) = self.get("/evidence/0").await else { return Vec::new() };
        let page = String::from_utf8(page).unwrap();
        page.lines()
            .map(|line| {
                let fork: LogFork = serde_json::from_str(line).unwrap();
                let accused = fork.check().unwrap().key;
                let proven = audit::check_evidence(line, &[]).unwrap();
                assert_eq!((proven.kind, &proven.key), ("log-fork", &accused), "{line}");
                fork
            })
            .collect()
    }

    /// Whether it accuses this key, and no other.
    pub async fn accuses(&self, key: &VerifierKey) -> bool {
        let evidence = self.evidence().await;
        assert!(evidence.iter().all(|fork| fork.log() == key), "somebody else is accused: {evidence:?}");
        !evidence.is_empty()
    }

    /// The head of a log that it cosigned last, under the log's good signature.
    pub async fn held(&self, log: &VerifierKey) -> Option<SignedCheckpoint<Verified>> {
        let bytes = self.client.checkpoint(&Origin::from(log.name())).await.ok()??;
        Some(SignedCheckpoint::parse(&bytes).unwrap().verify(log).unwrap())
    }

    /// The size of that head, 0 before the first.
    pub async fn held_size(&self, log: &VerifierKey) -> u64 {
        self.held(log).await.map_or(0, |head| head.checkpoint().size.0)
    }

    /// Makes it fetch a log now; whether it cosigned what it found.
    pub async fn nudge(&self, log: &VerifierKey) -> bool {
        self.client.nudge(&Origin::from(log.name())).await.is_ok()
    }

    /// Every line of its journal.
    pub async fn journal(&self) -> Vec<JournalLine> {
        let journal: LogClient = self.client.journal();
        let head = SignedCheckpoint::parse(&journal.checkpoint().await.unwrap()).unwrap();
        let head = head.verify(&self.journal_vkey).unwrap();
        let mut lines = Vec::new();
        for page in merkle::PageId::all(head.checkpoint().size.0) {
            let page = journal.page(&merkle::ResourcePath::Entries(page)).await.unwrap();
            lines.extend(page.iter().map(|entry| JournalLine::parse(entry).unwrap()));
        }
        lines
    }

    /// Stops it as an operator does.
    pub async fn stop(mut self) {
        self.stop.cancel();
        self.task.take().unwrap().await.unwrap().unwrap();
    }

    /// Waits until it stops by itself; the reason.
    pub async fn stopped(mut self) -> Broken {
        let task = self.task.take().unwrap();
        tokio::time::timeout(PATIENCE, task).await.expect("the witness runs on").unwrap().unwrap_err()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.cancel();
        if let Some(task) = &self.task {
            task.abort();
        }
    }
}

/// Waits until something has arrived.
pub async fn until<F: Future<Output = bool>>(what: &str, mut arrived: impl FnMut() -> F) {
    let started = Instant::now();
    while !arrived().await {
        assert!(started.elapsed() < PATIENCE, "{what}: not after {PATIENCE:?}");
        tokio::time::sleep(GLANCE).await;
    }
}

/// Copies a directory, for a state that is brought back later.
pub fn copy_dir(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy_dir(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

/// The path at which a witness shows what it holds of a log.
pub fn monitoring_path(log: &VerifierKey) -> String {
    format!("/{}/checkpoint", origin_hash(&Origin::from(log.name())))
}
