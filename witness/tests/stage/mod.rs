//! A log to watch, strict where it is honest and able to misbehave in every way a witness must withstand; and a
//! witness to watch it.
#![allow(clippy::unwrap_used, clippy::panic, dead_code)]

use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use client::http::{BoundedClient, FetchError, Request as Call, Timeouts};
use client::{LogClient, WitnessClient};
use counterfoil_witness::broken::Broken;
use counterfoil_witness::clock::Clock;
use counterfoil_witness::journal::line::JournalLine;
use counterfoil_witness::serve::{StartError, Witness};
use counterfoil_witness::settings::Settings;
use counterfoil_witness::view::{LogStatus, WitnessStatus};
use http::{Method, Request, StatusCode, header};
use merkle::{EMPTY_ROOT, Hash, HashSource, MemoryTree, ResourcePath, RootHash, TileId, TreeSize, leaf_hash};
use note::{
    Checkpoint, KeyKind, KeyName, Origin, SignedCheckpoint, SigningKey, Verified, VerifierKey, sign_checkpoint,
};
use service::Limits;
use service::config::{Flags, Loaded, load_with_environment};
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use store::StoreError;
use store::disk::{Disk, RealDisk};
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// How the log answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Manner {
    Honest,
    /// Status 500 everywhere.
    Fails,
    /// Accepts the connection and never answers.
    Hangs,
    /// More bytes than any checkpoint has.
    Oversized,
    /// Points elsewhere, to a good copy of itself.
    Redirects,
    /// The checkpoint is there, tiles are not.
    WithoutTiles,
    /// Tiles of another tree.
    WrongTiles,
    /// A checkpoint with one byte of its root changed after signing.
    Unsigned,
    /// HTML, as a captive portal sends.
    Portal,
}

/// A log, its tree, and what it was asked.
#[derive(Debug)]
pub(crate) struct FakeLog {
    pub(crate) key: SigningKey,
    pub(crate) url: String,
    scene: Mutex<Scene>,
    checkpoints_asked: AtomicU64,
}

#[derive(Debug)]
struct Scene {
    manner: Manner,
    tree: MemoryTree,
    head: SignedCheckpoint<Verified>,
    /// Lines added to the head, as a log adds those of its witnesses.
    added: String,
    faults: BTreeSet<String>,
}

impl FakeLog {
    /// A log with this origin and `size` entries, listening.
    pub(crate) async fn start(origin: &str, size: u64) -> Arc<FakeLog> {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let log = Arc::new(FakeLog { url, ..FakeLog::unheard(origin) });
        log.offer(size, 0, 0);
        let router = Router::new().fallback(answer).with_state(Arc::clone(&log));
        tokio::spawn(service::serve(listener, router, Limits::default(), std::future::pending()));
        log
    }

    /// A log with this origin that listens nowhere.
    pub(crate) fn unheard(origin: &str) -> FakeLog {
        let key = SigningKey::from_seed(KeyName::new(origin).unwrap(), KeyKind::Ed25519, [11; 32]);
        let tree = tree(0, 0, 0);
        let head = head_of(&key, &tree);
        let scene = Scene { manner: Manner::Honest, tree, head, added: String::new(), faults: BTreeSet::new() };
        FakeLog { key, url: String::new(), scene: Mutex::new(scene), checkpoints_asked: AtomicU64::new(0) }
    }

    pub(crate) fn vkey(&self) -> VerifierKey {
        self.key.verifier()
    }

    pub(crate) fn origin(&self) -> Origin {
        Origin::from(self.key.name())
    }

    /// Shows the first `size` entries of the history that branches off the honest one at `branch` (`branch` 0 of
    /// `variant` 0 is the honest one), and offers its head.
    pub(crate) fn offer(&self, size: u64, branch: u64, variant: u8) -> SignedCheckpoint<Verified> {
        let (head, tree) = self.history(size, branch, variant);
        let mut scene = self.scene.lock().unwrap();
        scene.tree = tree;
        scene.head = head.clone();
        head
    }

    /// A head and its tree, without offering them.
    pub(crate) fn history(&self, size: u64, branch: u64, variant: u8) -> (SignedCheckpoint<Verified>, MemoryTree) {
        let tree = tree(size, branch, variant);
        (head_of(&self.key, &tree), tree)
    }

    /// Offers this head, whatever the tree.
    pub(crate) fn offer_head(&self, size: u64, root: RootHash) {
        let head = Checkpoint::new(self.origin(), TreeSize(size), root);
        self.scene.lock().unwrap().head = sign_checkpoint(&head, &self.key).unwrap();
    }

    /// Serves the head with these lines added.
    pub(crate) fn add_lines(&self, lines: &str) {
        self.scene.lock().unwrap().added = lines.to_owned();
    }

    pub(crate) fn set_manner(&self, manner: Manner) {
        self.scene.lock().unwrap().manner = manner;
    }

    /// How often `/checkpoint` was asked for.
    pub(crate) fn checkpoints_asked(&self) -> u64 {
        self.checkpoints_asked.load(Ordering::SeqCst)
    }

    /// Requests that no proper witness makes.
    pub(crate) fn faults(&self) -> BTreeSet<String> {
        self.scene.lock().unwrap().faults.clone()
    }
}

/// The root of the honest history at `size`.
pub(crate) fn honest_root(size: u64) -> RootHash {
    if size == 0 { EMPTY_ROOT } else { tree(size, 0, 0).root() }
}

fn tree(size: u64, branch: u64, variant: u8) -> MemoryTree {
    let mut tree = MemoryTree::new();
    for index in 0..size {
        let mut entry = index.to_be_bytes().to_vec();
        entry.push(if index >= branch { variant } else { 0 });
        tree.push(leaf_hash(&entry));
    }
    tree
}

fn head_of(key: &SigningKey, tree: &MemoryTree) -> SignedCheckpoint<Verified> {
    sign_checkpoint(&Checkpoint::new(Origin::from(key.name()), tree.size(), tree.root()), key).unwrap()
}

async fn answer(State(log): State<Arc<FakeLog>>, request: Request<Body>) -> Response {
    let (manner, response) = log.answer_now(&request);
    if manner == Manner::Hangs {
        tokio::time::sleep(Duration::from_secs(3600)).await;
    }
    response
}

impl FakeLog {
    fn answer_now(&self, request: &Request<Body>) -> (Manner, Response) {
        let mut scene = self.scene.lock().unwrap();
        let path = ResourcePath::parse(&request.uri().path()[1..]);
        let proper = request.method() == Method::GET
            && request.uri().query().is_none()
            && matches!(path, Some(ResourcePath::Checkpoint | ResourcePath::Tile(_)));
        if !proper {
            scene.faults.insert(format!("{} {}", request.method(), request.uri()));
            return (Manner::Honest, StatusCode::NOT_FOUND.into_response());
        }
        let path = path.unwrap();
        if path == ResourcePath::Checkpoint {
            self.checkpoints_asked.fetch_add(1, Ordering::SeqCst);
        }
        let response = match (scene.manner, path) {
            (Manner::Fails, _) => (StatusCode::INTERNAL_SERVER_ERROR, "no").into_response(),
            (Manner::Redirects, _) => {
                (StatusCode::FOUND, [(header::LOCATION, format!("{}/elsewhere", self.url))]).into_response()
            }
            (Manner::Portal, _) => {
                ([(header::CONTENT_TYPE, "text/html")], "<html>Welcome! Please log in.</html>\n").into_response()
            }
            (Manner::Oversized, ResourcePath::Checkpoint) => "x".repeat(2 << 20).into_response(),
            (Manner::Unsigned, ResourcePath::Checkpoint) => {
                let text = scene.head.note().to_string();
                let root = scene.head.checkpoint().root.0.to_base64();
                text.replace(&root, &Hash([9; 32]).to_base64()).into_response()
            }
            (_, ResourcePath::Checkpoint) => format!("{}{}", scene.head.note(), scene.added).into_response(),
            (Manner::WithoutTiles, _) => StatusCode::NOT_FOUND.into_response(),
            (Manner::WrongTiles, ResourcePath::Tile(tile)) => vec![7; tile.byte_len()].into_response(),
            (_, ResourcePath::Tile(tile)) => match tile_bytes(&scene.tree, tile) {
                Some(bytes) => bytes.into_response(),
                None => {
                    scene.faults.insert(format!("no such tile: {path}"));
                    StatusCode::NOT_FOUND.into_response()
                }
            },
            (_, ResourcePath::Entries(_) | ResourcePath::Heads(_)) => StatusCode::NOT_FOUND.into_response(),
        };
        (scene.manner, response)
    }
}

/// The tile, if the tree has all of it.
pub(crate) fn tile_bytes(tree: &MemoryTree, tile: TileId) -> Option<Vec<u8>> {
    let first = tile.index * 256;
    let mut bytes = Vec::new();
    for index in first..first + u64::from(tile.width) {
        bytes.extend_from_slice(&tree.subtree(8 * tile.level, index)?.0);
    }
    Some(bytes)
}

/// A witness's directory and clock; the witness may be started on it again and again.
pub(crate) struct House {
    dir: TempDir,
    clock_ms: Arc<AtomicU64>,
    pub(crate) vkey: VerifierKey,
}

/// A running witness.
pub(crate) struct Running {
    pub(crate) url: String,
    pub(crate) client: WitnessClient,
    http: BoundedClient,
    vkey: VerifierKey,
    stop: CancellationToken,
    reload: mpsc::Sender<Settings>,
    task: JoinHandle<Result<(), Broken>>,
}

/// When the tests take place.
pub(crate) const NOON_S: u64 = 1_790_000_000;

impl House {
    /// A new witness, as `init` makes it.
    pub(crate) fn new() -> House {
        let dir = TempDir::new().unwrap();
        let home = dir.path().join("w");
        let words = ["counterfoil-witness", "init", "--dir", home.to_str().unwrap(), "--name", "witness.example/w1"];
        let ended = counterfoil_witness::main_with(words.into_iter().map(Into::into));
        assert_eq!(format!("{ended:?}"), format!("{:?}", std::process::ExitCode::SUCCESS));
        let key = service::keys::read_signing_key(&home.join("witness.key"), KeyKind::CosignatureV1).unwrap();
        House { dir, clock_ms: Arc::new(AtomicU64::new(NOON_S * 1000)), vkey: key.verifier() }
    }

    pub(crate) fn home(&self) -> PathBuf {
        self.dir.path().join("w")
    }

    pub(crate) fn set_clock_s(&self, seconds: u64) {
        self.clock_ms.store(seconds * 1000, Ordering::SeqCst);
    }

    pub(crate) fn clock(&self) -> Clock {
        let clock = Arc::clone(&self.clock_ms);
        Clock::new(move || clock.load(Ordering::SeqCst))
    }

    /// Writes a configuration that watches `log` on nudges only, but for what `more` changes.
    pub(crate) fn configure(&self, log: &FakeLog, more: &[(&str, u64)], log_more: &str) {
        // A fetch that is given up because the machine was busy would be told as the log's failure.
        let mut values = vec![("interval_ms", 3_600_000), ("nudge_gap_ms", 10), ("fetch_deadline_ms", 60_000)];
        values.retain(|(key, _)| more.iter().all(|(other, _)| other != key));
        let lines: String = values.iter().chain(more).map(|(key, value)| format!("{key} = {value}\n")).collect();
        let text = format!(
            "{lines}[[log]]\nvkey = \"{}\"\nurl = \"{}\"\nprivate_address = true\n{log_more}\n",
            log.vkey(),
            log.url
        );
        std::fs::write(self.home().join("config.toml"), text).unwrap();
    }

    /// Writes a configuration that takes pushes of `log`, and fetches nothing.
    pub(crate) fn configure_pushing(&self, log: &FakeLog) {
        let text = format!("[[log]]\nvkey = \"{}\"\naccept_pushes = true\n", log.vkey());
        std::fs::write(self.home().join("config.toml"), text).unwrap();
    }

    /// The witness of another house, with a copy of its state.
    pub(crate) fn with_state_of(other: &House, state: &std::path::Path) -> House {
        let house = House::new();
        for file in ["config.toml", "witness.key", "journal.key"] {
            std::fs::copy(other.home().join(file), house.home().join(file)).unwrap();
        }
        std::fs::remove_dir_all(house.home().join("state")).unwrap();
        std::fs::rename(state, house.home().join("state")).unwrap();
        House { vkey: other.vkey.clone(), ..house }
    }

    /// The configuration as it is now.
    pub(crate) fn settings(&self) -> Loaded<Settings> {
        load_with_environment::<Settings>(Some(&self.home().join("config.toml")), std::iter::empty(), Flags::new())
            .unwrap()
    }

    pub(crate) async fn open(&self) -> Result<Witness, StartError> {
        self.open_on(RealDisk::shared()).await
    }

    /// Opens the witness on another disk.
    pub(crate) async fn open_on(&self, disk: Arc<dyn Disk>) -> Result<Witness, StartError> {
        Witness::open_on(disk, &self.settings(), self.clock()).await
    }

    pub(crate) async fn start(&self) -> Running {
        self.run(self.open().await.unwrap()).await
    }

    pub(crate) async fn run(&self, witness: Witness) -> Running {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let stop = CancellationToken::new();
        let stopping = stop.clone();
        let (reload, reloaded) = mpsc::channel(1);
        let task = tokio::spawn(witness.run_reloading(listener, stopping, reloaded));
        let http = BoundedClient::new(Timeouts::default()).unwrap();
        let client = WitnessClient::new(url.parse().unwrap(), http.clone());
        Running { url, client, http, vkey: self.vkey.clone(), stop, reload, task }
    }
}

impl Running {
    /// Hands the configuration over again, as SIGHUP does.
    pub(crate) async fn reload(&self, house: &House) {
        self.reload.send(house.settings().values).await.unwrap();
    }

    /// Nudges; the timestamp of the cosignature over `head`, or the code of the refusal.
    pub(crate) async fn nudge(&self, log: &FakeLog, head: &SignedCheckpoint<Verified>) -> Result<u64, String> {
        match self.client.nudge(&log.origin()).await {
            Ok(lines) => {
                assert_eq!(lines.len(), 1);
                Ok(lines[0].verify(head.note().text(), &self.vkey).unwrap().timestamp_s)
            }
            Err(error) => Err(code(&error)),
        }
    }

    /// The head on the monitoring path, which must carry the log's and the witness's good signatures and nothing else.
    pub(crate) async fn cosigned(&self, log: &FakeLog) -> Option<(Checkpoint, u64)> {
        let bytes = self.client.checkpoint(&log.origin()).await.unwrap()?;
        let head = SignedCheckpoint::parse(&bytes).unwrap().verify(&log.vkey()).unwrap();
        assert_eq!(head.note().signatures().len(), 2);
        let line = note::verified_cosignatures(head.note(), std::slice::from_ref(&self.vkey)).remove(0).unwrap().1;
        Some((head.checkpoint().clone(), line.timestamp_s))
    }

    pub(crate) async fn get(&self, path: &str) -> Result<String, FetchError> {
        let url = format!("{}{path}", self.url).parse().unwrap();
        Ok(String::from_utf8(self.http.send(Call::get(url, 1 << 24)).await?.to_vec()).unwrap())
    }

    pub(crate) async fn post(&self, path: &str, body: &'static str) -> Result<String, String> {
        let url = format!("{}{path}", self.url).parse().unwrap();
        let sent = self.http.send(Call::post(url, "text/plain", body.into(), 1 << 20)).await;
        sent.map(|bytes| String::from_utf8(bytes.to_vec()).unwrap()).map_err(|error| code(&error))
    }

    /// Pushes: an add-checkpoint call; status and body of the answer.
    pub(crate) async fn push(&self, body: Vec<u8>) -> (u16, String) {
        let url = format!("{}/add-checkpoint", self.url).parse().unwrap();
        match self.http.send(Call::post(url, "text/plain", body.into(), 1 << 20)).await {
            Ok(bytes) => (200, String::from_utf8(bytes.to_vec()).unwrap()),
            Err(error) => {
                let refusal = error.refusal().unwrap_or_else(|| panic!("{error}"));
                (refusal.status, String::from_utf8(refusal.body.to_vec()).unwrap())
            }
        }
    }

    pub(crate) async fn status(&self) -> LogStatus {
        let status: WitnessStatus = serde_json::from_str(&self.get("/status").await.unwrap()).unwrap();
        status.logs.into_iter().next().unwrap()
    }

    /// The whole journal, read as anybody reads a tiled log, and checked against its signed head.
    pub(crate) async fn journal(&self) -> Vec<JournalLine> {
        let status: WitnessStatus = serde_json::from_str(&self.get("/status").await.unwrap()).unwrap();
        read_journal(&self.client.journal(), &status.journal_vkey.parse().unwrap()).await
    }

    pub(crate) async fn stop(self) {
        self.stop.cancel();
        self.task.await.unwrap().unwrap();
    }

    /// Waits until it ends by itself.
    pub(crate) async fn ended(self) -> Result<(), Broken> {
        self.task.await.unwrap()
    }

    /// Ends it as a kill would, as far as one process can show it: nothing is flushed or answered any more.
    pub(crate) async fn kill(self) {
        self.task.abort();
        let _ = self.task.await;
    }
}

/// The real program, on a port that nobody else has: the system gives it one as it listens. Killed with this.
pub(crate) struct Program {
    process: Child,
    stderr: PathBuf,
}

impl Program {
    /// `serve` with the configuration of `house`.
    pub(crate) fn start(house: &House) -> Program {
        let stderr = house.home().join("stderr");
        let process = Command::new(env!("CARGO_BIN_EXE_counterfoil-witness"))
            .args(["serve", "--listen", "127.0.0.1:0", "--config"])
            .arg(house.home().join("config.toml"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(std::fs::File::create(&stderr).unwrap())
            .spawn();
        Program { process: process.unwrap(), stderr }
    }

    /// A client of it, once it listens.
    pub(crate) async fn client(&mut self) -> WitnessClient {
        loop {
            // Half a line may be there.
            let said = self.said();
            let lines = said.split_inclusive('\n').filter(|line| line.ends_with('\n') && line.contains("watching"));
            let mut words = lines.flat_map(str::split_whitespace);
            if let Some(address) = words.find_map(|word| word.strip_prefix("address=")) {
                let http = BoundedClient::new(Timeouts::default()).unwrap();
                return WitnessClient::new(format!("http://{address}").parse().unwrap(), http);
            }
            self.assert_runs();
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Everything it wrote to its standard error.
    pub(crate) fn said(&self) -> String {
        std::fs::read_to_string(&self.stderr).unwrap()
    }

    pub(crate) fn assert_runs(&mut self) {
        assert!(self.process.try_wait().unwrap().is_none(), "it ended: {}", self.said());
    }

    /// SIGHUP.
    pub(crate) fn hang_up(&self) {
        let id = self.process.id().to_string();
        assert!(Command::new("kill").args(["-HUP", &id]).status().unwrap().success());
    }

    /// SIGKILL; one that is gone already is as good.
    pub(crate) fn kill(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A witness started again; the files of the one before may be let go a moment later.
pub(crate) async fn reopened(house: &House) -> Running {
    loop {
        match house.open().await {
            Ok(witness) => return house.run(witness).await,
            Err(StartError::Broken(Broken::Store(StoreError::InUse(_)))) => {}
            Err(error) => panic!("{error}"),
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

async fn read_journal(journal: &LogClient, vkey: &VerifierKey) -> Vec<JournalLine> {
    let head = SignedCheckpoint::parse(&journal.checkpoint().await.unwrap()).unwrap().verify(vkey).unwrap();
    let (mut lines, mut tree) = (Vec::new(), MemoryTree::new());
    for page in merkle::PageId::all(head.checkpoint().size.0) {
        for entry in journal.page(&ResourcePath::Entries(page)).await.unwrap() {
            tree.push(leaf_hash(&entry));
            lines.push(JournalLine::parse(&entry).unwrap());
        }
    }
    assert_eq!((tree.size(), tree.root()), (head.checkpoint().size, head.checkpoint().root));
    lines
}

/// The `code` of a problem document.
pub(crate) fn code(error: &FetchError) -> String {
    let refusal = error.refusal().unwrap_or_else(|| panic!("{error}"));
    refusal.problem().unwrap_or_else(|| panic!("{error}")).code
}
