//! Gates, and a log that admits whatever it is told to and answers as it is told to: for the tests of level full, inside the
//! crate and outside.

#![allow(clippy::unwrap_used, clippy::panic, dead_code)]

use axum::Router;
use axum::body::Body;
use axum::http::{StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use client::{BoundedClient, LogClient, Timeouts};
use merkle::{HashSource, MemoryTree, ResourcePath, TreeSize};
use note::{
    Checkpoint, KeyKind, KeyName, Origin, SignedCheckpoint, SigningKey, Verified, VerifierKey, sign_checkpoint,
    sign_note,
};
use receipt::{IssuerName, Receipt, ReceiptId, ReceiptText, SeqNo, UnixMillis};
use serde_json::json;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// When every gate began, and a time after all receipts here.
pub(crate) const START: u64 = 1_790_000_000_000;
pub(crate) const NOW: u64 = START + 1_000_000;

pub(crate) fn log_key() -> SigningKey {
    SigningKey::from_seed(KeyName::new("log.example/a").unwrap(), KeyKind::Ed25519, [200; 32])
}

/// A gate and its keys.
pub(crate) struct Gate(pub(crate) u8);

impl Gate {
    pub(crate) fn new(number: u8) -> Gate {
        Gate(number)
    }

    pub(crate) fn key(&self, number: u8) -> SigningKey {
        let name = KeyName::new(&format!("gate.example/{}", self.0)).unwrap();
        SigningKey::from_seed(name, KeyKind::Ed25519, [self.0 * 8 + number; 32])
    }

    pub(crate) fn vkey(&self) -> VerifierKey {
        self.key(0).verifier()
    }

    pub(crate) fn open_body(&self) -> String {
        json!({"type": "open", "vkey": self.vkey()}).to_string()
    }

    /// Any receipt, signed by these keys.
    pub(crate) fn receipt(&self, seq: u64, prev: ReceiptId, time: u64, body: &str, keys: &[&SigningKey]) -> Receipt {
        let issuer = IssuerName::from(self.vkey().name().clone());
        let issued_at = UnixMillis(START + time);
        let text = ReceiptText { issuer, seq: SeqNo(seq), prev, issued_at, body: body.to_owned() };
        Receipt::parse(&sign_note(&text.to_string(), keys).unwrap()).unwrap()
    }

    /// Its stream: an `open` and heartbeats, one a millisecond.
    pub(crate) fn stream(&self, count: u64) -> Vec<Receipt> {
        let mut prev = ReceiptId::NONE;
        let one = |seq: u64| {
            let body = if seq == 0 { self.open_body() } else { r#"{"type":"heartbeat"}"#.to_owned() };
            let receipt = self.receipt(seq, prev, seq, &body, &[&self.key(0)]);
            prev = receipt.id();
            receipt
        };
        (0..count).map(one).collect()
    }

    pub(crate) fn entries(&self, count: u64) -> Vec<Bytes> {
        self.stream(count).iter().map(bytes_of).collect()
    }
}

pub(crate) fn bytes_of(receipt: &Receipt) -> Bytes {
    Bytes::copy_from_slice(receipt.bytes())
}

/// Streams taken in turns, the first of each first.
pub(crate) fn in_turns(streams: &[Vec<Bytes>]) -> Vec<Bytes> {
    let longest = streams.iter().map(Vec::len).max().unwrap();
    (0..longest).flat_map(|place| streams.iter().filter_map(move |stream| stream.get(place).cloned())).collect()
}

/// What a log does with a resource instead of serving it.
pub(crate) type Meddle = Box<dyn Fn(&ResourcePath) -> Option<Response> + Send + Sync>;

/// A log on loopback.
pub(crate) struct FakeLog {
    held: Arc<Mutex<Held>>,
    pub(crate) client: LogClient,
    pub(crate) url: String,
}

struct Held {
    entries: Vec<Bytes>,
    tree: MemoryTree,
    meddle: Option<Meddle>,
    asked: Vec<ResourcePath>,
}

impl FakeLog {
    /// A log with these entries. Its answers are waited for this long.
    pub(crate) async fn start(entries: &[Bytes], deadline: Duration) -> FakeLog {
        let held = Held { entries: Vec::new(), tree: MemoryTree::new(), meddle: None, asked: Vec::new() };
        let held = Arc::new(Mutex::new(held));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let served = Arc::clone(&held);
        let router = Router::new().fallback(move |uri: Uri| {
            let answer = served.lock().unwrap().answer(uri.path());
            async move { answer }
        });
        tokio::spawn(async move { axum::serve(listener, router).await });
        let log = FakeLog { held, client: client(&url, deadline), url };
        log.append(entries);
        log
    }

    /// A client that waits no longer than this.
    pub(crate) fn client_within(&self, deadline: Duration) -> LogClient {
        client(&self.url, deadline)
    }

    /// More entries.
    pub(crate) fn append(&self, entries: &[Bytes]) {
        let mut held = self.held.lock().unwrap();
        for entry in entries {
            held.tree.push(merkle::leaf_hash(entry));
            held.entries.push(entry.clone());
        }
    }

    /// From now on, this instead of an honest answer wherever it answers something.
    pub(crate) fn meddle(&self, meddle: Option<Meddle>) {
        self.held.lock().unwrap().meddle = meddle;
    }

    /// What was asked for since the last time.
    pub(crate) fn asked(&self) -> Vec<ResourcePath> {
        std::mem::take(&mut self.held.lock().unwrap().asked)
    }

    /// The head over all entries.
    pub(crate) fn head(&self) -> SignedCheckpoint<Verified> {
        let held = self.held.lock().unwrap();
        sign(held.tree.size(), &held.tree)
    }

    pub(crate) fn size(&self) -> TreeSize {
        self.held.lock().unwrap().tree.size()
    }
}

fn client(url: &str, deadline: Duration) -> LogClient {
    let http = BoundedClient::new(Timeouts { connect: deadline, total: deadline }).unwrap();
    LogClient::new(url.parse().unwrap(), http)
}

/// The log's head over a tree.
pub(crate) fn sign(size: TreeSize, tree: &MemoryTree) -> SignedCheckpoint<Verified> {
    let key = log_key();
    let root = merkle::root_of(tree, size).unwrap();
    sign_checkpoint(&Checkpoint::new(Origin::from(key.name()), size, root), &key).unwrap()
}

impl Held {
    fn answer(&mut self, path: &str) -> Response {
        let Some(path) = path.strip_prefix('/').and_then(ResourcePath::parse) else {
            return StatusCode::NOT_FOUND.into_response();
        };
        self.asked.push(path);
        if let Some(meddled) = self.meddle.as_ref().and_then(|meddle| meddle(&path)) {
            return meddled;
        }
        match self.resource(&path) {
            Some(bytes) => Body::from(bytes).into_response(),
            None => StatusCode::NOT_FOUND.into_response(),
        }
    }

    fn resource(&self, path: &ResourcePath) -> Option<Vec<u8>> {
        match path {
            ResourcePath::Tile(tile) => {
                let places = tile.index * 256..tile.index * 256 + u64::from(tile.width);
                let hashes: Option<Vec<_>> = places.map(|place| self.tree.subtree(8 * tile.level, place)).collect();
                Some(hashes?.iter().flat_map(|hash| hash.0).collect())
            }
            ResourcePath::Entries(page) => {
                let first = page.index as usize * 256;
                let mut bundle = Vec::new();
                for entry in self.entries.get(first..first + usize::from(page.width))? {
                    merkle::encode_entry(&mut bundle, entry).unwrap();
                }
                Some(bundle)
            }
            ResourcePath::Checkpoint => Some(sign(self.tree.size(), &self.tree).bytes().to_vec()),
            ResourcePath::Heads(_) => None,
        }
    }
}
