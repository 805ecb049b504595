//! A world in memory (`testkit::world`) whose log is served, and gates with outboxes that write to it.
#![allow(dead_code, unreachable_pub, clippy::unwrap_used, clippy::panic)]

use axum::Router;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use client::history::{
    DEFAULT_MAX_AGE, DEFAULT_TOTAL, History, HistoryConfig, HistoryError, HistoryMode, SubjectHistory, Whose,
};
use client::outbox::{GateDescription, Outbox};
use client::{BoundedClient, LogClient, Timeouts};
use note::SigningKey;
use receipt::{SeqNo, UnixMillis};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use testkit::world::World;
use testkit::world::gate::Gate;
use testkit::world::tiled::TiledLog;

type Files = Arc<Mutex<audit::MemoryBundle>>;

/// A world, and what its log serves now.
pub struct Served {
    pub world: World,
    pub files: Files,
    pub url: String,
    pub clock: Arc<AtomicU64>,
}

/// A gate: an outbox, and how much of it the log has.
pub struct ServedGate {
    pub outbox: Outbox,
    pub dir: PathBuf,
    delivered: u64,
    name: String,
    kept: tempfile::TempDir,
}

impl Served {
    /// A log without entries, and three witnesses of whom two must agree.
    pub async fn start() -> Self {
        let world = World::new(0, 3, 2);
        let files: Files = Arc::default();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/prefix", listener.local_addr().unwrap());
        let router = Router::new().route("/prefix/{*path}", get(resource)).with_state(Arc::clone(&files));
        tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        let clock = Arc::new(AtomicU64::new(world.now_ms));
        Self { world, files, url, clock }
    }

    /// The log signs a head over what it has, all witnesses cosign it, and it is served.
    pub fn publish(&mut self) {
        self.wait(1_000);
        self.world.seal_and_look();
        self.serve();
    }

    /// What the world's log is now, with the cosignatures of those who looked.
    pub fn serve(&mut self) {
        *self.files.lock().unwrap() = self.world.bundle();
    }

    /// Serves this log in place of the world's, under a head that the first so many witnesses cosign.
    pub fn serve_other(&mut self, log: &TiledLog, witnesses: usize) {
        let head = log.head();
        let text = head.note().text();
        let lines: Vec<_> = self
            .world
            .witnesses
            .iter()
            .take(witnesses)
            .flat_map(|witness| witness.lines(text, self.world.now_ms))
            .collect();
        let mut files = audit::MemoryBundle::new();
        log.write(&mut files, "log/");
        files.insert("log/checkpoint", head.with_cosignatures(&lines).bytes());
        *self.files.lock().unwrap() = files;
    }

    pub fn change(&self, change: impl FnOnce(&mut audit::MemoryBundle)) {
        change(&mut self.files.lock().unwrap());
    }

    pub fn wait(&mut self, ms: u64) {
        self.world.now_ms += ms;
        self.clock.store(self.world.now_ms, Ordering::SeqCst);
    }

    pub fn now(&self) -> UnixMillis {
        UnixMillis(self.world.now_ms)
    }

    /// A gate that the auditor knows.
    pub fn gate(&mut self, name: &str) -> ServedGate {
        self.world.absent.push(Gate::new(name));
        ServedGate::new(name, tempfile::tempdir().unwrap())
    }

    pub fn follower(&self, gate: &ServedGate) -> History {
        History::open(self.config(gate)).unwrap()
    }

    pub fn config(&self, gate: &ServedGate) -> HistoryConfig {
        let timeouts = Timeouts { connect: Duration::from_secs(5), total: Duration::from_secs(20) };
        HistoryConfig {
            dir: gate.dir.join("history"),
            log: LogClient::new(self.url.parse().unwrap(), BoundedClient::new(timeouts).unwrap()),
            log_key: self.world.log.key.verifier(),
            policy: self.world.policy(),
            max_age: DEFAULT_MAX_AGE,
            quorum_wait: Duration::ZERO,
            total: DEFAULT_TOTAL,
            mode: HistoryMode::FailClosed,
            whose: Whose::All,
            clock: self.world_clock(),
        }
    }

    /// The world's clock.
    pub fn world_clock(&self) -> Arc<dyn Fn() -> UnixMillis + Send + Sync> {
        let clock = Arc::clone(&self.clock);
        Arc::new(move || UnixMillis(clock.load(Ordering::SeqCst)))
    }

    /// What the gate decides, and its log has not.
    pub fn decide(&self, gate: &ServedGate, body: &Value) -> SeqNo {
        gate.outbox.append(&body.to_string(), self.now()).unwrap().seq
    }

    /// The log takes everything that the gate has for it.
    pub fn deliver(&mut self, gate: &mut ServedGate) {
        for seq in gate.delivered..gate.outbox.next_seq().unwrap().0 {
            let receipt = gate.outbox.receipt(SeqNo(seq)).unwrap().unwrap();
            self.world.log_receipt(&receipt);
        }
        gate.delivered = gate.outbox.next_seq().unwrap().0;
    }
}

impl ServedGate {
    fn new(name: &str, kept: tempfile::TempDir) -> Self {
        let dir = kept.path().join("outbox");
        let outbox = Outbox::open(&dir, key(name), GateDescription::default()).unwrap();
        Self { outbox, dir, delivered: 0, name: name.to_owned(), kept }
    }

    /// The same key with an empty disk.
    pub fn reset(self) -> Self {
        let name = self.name.clone();
        drop(self);
        Self::new(&name, tempfile::tempdir().unwrap())
    }
}

/// The key that a world's gate of this name is registered with.
pub fn key(name: &str) -> SigningKey {
    SigningKey::from_private_text(&Gate::new(name).registered.to_private_text()).unwrap()
}

/// A decision on subjects: allowed or denied.
pub fn decision(request: &str, class: &str, session: &str, subjects: &[&str], allowed: bool) -> Value {
    json!({
        "type": "decision", "request_id": request, "decision": if allowed { "allow" } else { "deny" }, "action_class": class,
        "subjects": subjects, "session": session, "authenticated": true, "executes": "none",
    })
}

/// The classes that a gate would judge by.
pub fn classes(history: &Result<SubjectHistory, HistoryError>) -> Vec<String> {
    history.as_ref().unwrap().classes().into_iter().map(str::to_owned).collect()
}

/// Entries are served never while there is a file `silent`.
async fn resource(State(files): State<Files>, Path(path): Path<String>) -> Response {
    let is_silent = path.starts_with("tile/entries/") && files.lock().unwrap().get("silent").is_some();
    if is_silent {
        std::future::pending::<()>().await;
    }
    match files.lock().unwrap().get(&format!("log/{path}")) {
        Some(bytes) => bytes.to_vec().into_response(),
        None => StatusCode::NOT_FOUND.into_response(),
    }
}
