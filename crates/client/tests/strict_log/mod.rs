//! A log that is stricter than the real one and misbehaves on demand: it admits by the real rule, refuses a gap or a fork
//! like the real one, counts what must never happen, and answers 503, breaks off after it has committed, or dawdles
//! when a test tells it to.
#![allow(dead_code, unreachable_pub, clippy::unwrap_used, clippy::panic)]

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use client::{BaseUrl, BoundedClient, LogClient, Timeouts, wire};
use merkle::{HashSource, LeafIndex, MemoryTree, ResourcePath, TreeSize, prove_inclusion};
use note::{Checkpoint, KeyKind, KeyName, Origin, SigningKey, TlogProof, sign_checkpoint};
use receipt::{IssuerState, Receipt, RefusalCode, admit};
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

/// What the log does with one batch, beside the right thing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Misbehaviour {
    /// 503 before anything is looked at.
    Unavailable,
    /// Commits, and the connection breaks inside the answer.
    DropAfterCommit,
    /// Commits, and answers after so long.
    Slow(Duration),
    /// 413 for more than so many receipts.
    TooLarge(usize),
    /// Refuses the receipt at this place of the batch as overloaded, and skips the rest.
    OverloadedAt(usize),
    /// Answers with proofs of other entries.
    WrongProofs,
    /// Answers with proofs under a head that another key signed.
    ForgedHeads,
}

pub struct LogState {
    pub key: SigningKey,
    pub witness: SigningKey,
    pub issuers: HashMap<String, IssuerState>,
    pub streams: HashMap<String, Vec<(u64, Vec<u8>)>>,
    pub tree: MemoryTree,
    pub script: VecDeque<Misbehaviour>,
    /// What it does when the script is at its end.
    pub otherwise: fn(u64) -> Option<Misbehaviour>,
    pub batches: u64,
    pub refusals: Vec<RefusalCode>,
    pub duplicates: u64,
    /// `wait=cosigned` is answered with cosignatures from this call on.
    pub cosigns_after: u64,
    pub cosigned_calls: u64,
    /// `wait=cosigned` is refused for good, as by a log without witnesses.
    pub has_no_witnesses: bool,
    /// What readers are shown in place of the tree.
    pub shown: Option<MemoryTree>,
    /// What is wrong with the tiles that readers get.
    pub tiles: Tiles,
    /// Who signs the head that readers get.
    pub head_key: SigningKey,
    /// Whoever asks for an issuer is never answered.
    pub is_mute: bool,
}

/// Tiles as readers get them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tiles {
    #[default]
    Right,
    Missing,
    Wrong,
}

#[derive(Clone)]
pub struct StrictLog {
    pub state: Arc<Mutex<LogState>>,
    pub url: String,
}

pub fn log_key() -> SigningKey {
    SigningKey::from_seed(KeyName::new("log.example/strict").unwrap(), KeyKind::Ed25519, [7; 32])
}

pub fn witness_key() -> SigningKey {
    SigningKey::from_seed(KeyName::new("w.example").unwrap(), KeyKind::CosignatureV1, [8; 32])
}

impl StrictLog {
    pub async fn start(issuers: &[&SigningKey]) -> Self {
        let issuers =
            issuers.iter().map(|key| (key.name().to_string(), IssuerState::registered(key.verifier()))).collect();
        let state = LogState {
            key: log_key(),
            witness: witness_key(),
            issuers,
            streams: HashMap::new(),
            tree: MemoryTree::new(),
            script: VecDeque::new(),
            otherwise: |_| None,
            batches: 0,
            refusals: Vec::new(),
            duplicates: 0,
            cosigns_after: 0,
            cosigned_calls: 0,
            has_no_witnesses: false,
            shown: None,
            tiles: Tiles::Right,
            head_key: log_key(),
            is_mute: false,
        };
        let state = Arc::new(Mutex::new(state));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/prefix", listener.local_addr().unwrap());
        let log = Self { state, url };
        let router = Router::new()
            .route("/prefix/v1/receipts/batch", post(batch))
            .route("/prefix/v1/receipts", post(single))
            .route("/prefix/v1/receipts/{id}", get(by_id))
            .route("/prefix/v1/issuers/{name}", get(issuer))
            .route("/prefix/v1/issuers/{name}/receipts/{seq}", get(by_seq))
            .route("/prefix/checkpoint", get(checkpoint))
            .route("/prefix/tile/{*rest}", get(tile))
            .with_state(log.clone());
        tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        log
    }

    /// A client that waits for longer than any machine takes.
    pub fn client(&self) -> LogClient {
        self.client_that_waits(Duration::from_secs(600))
    }

    /// A client that gives up on an answer after so long.
    pub fn client_that_waits(&self, total: Duration) -> LogClient {
        let timeouts = Timeouts { connect: Duration::from_secs(600), total };
        LogClient::new(self.url.parse::<BaseUrl>().unwrap(), BoundedClient::new(timeouts).unwrap())
    }

    pub fn lock(&self) -> MutexGuard<'_, LogState> {
        self.state.lock().unwrap()
    }

    pub fn script(&self, script: impl IntoIterator<Item = Misbehaviour>) {
        self.lock().script = script.into_iter().collect();
    }

    /// The bodies of one issuer's stream, in order of seq.
    pub fn bodies(&self, issuer: &SigningKey) -> Vec<String> {
        let state = self.lock();
        let stream = state.streams.get(issuer.name().as_str()).cloned().unwrap_or_default();
        stream.iter().map(|(_, entry)| Receipt::parse(entry).unwrap().body_text().to_owned()).collect()
    }

    /// Nothing but appends and duplicates ever happened.
    pub fn assert_spotless(&self) {
        assert_eq!(self.lock().refusals, []);
    }
}

impl LogState {
    fn next_misbehaviour(&mut self) -> Option<Misbehaviour> {
        self.batches += 1;
        self.script.pop_front().or_else(|| (self.otherwise)(self.batches))
    }

    fn take(&mut self, entry: &[u8]) -> Result<(bool, u64), receipt::Refusal> {
        let name = Receipt::parse(entry).map(|receipt| receipt.issuer().to_string()).unwrap_or_default();
        let stream = self.streams.entry(name.clone()).or_default();
        let held = |seq: receipt::SeqNo| stream.get(seq.0 as usize).map(|(_, entry)| receipt::ReceiptId::of(entry));
        match admit(self.issuers.get(&name), entry, &held, None) {
            Ok(admitted) => {
                let index = self.tree.size().0;
                stream.push((index, entry.to_vec()));
                self.tree.push(merkle::leaf_hash(entry));
                self.issuers.insert(name, admitted.state);
                Ok((true, index))
            }
            Err(refusal) if refusal.code == RefusalCode::Duplicate => {
                self.duplicates += 1;
                let seq = Receipt::parse(entry).unwrap().seq().0;
                Ok((false, stream[seq as usize].0))
            }
            Err(refusal) => {
                self.refusals.push(refusal.code);
                Err(refusal)
            }
        }
    }

    fn proof(&self, index: u64, cosigned: bool, misbehaviour: Option<Misbehaviour>) -> String {
        let forger = SigningKey::from_seed(self.key.name().clone(), KeyKind::Ed25519, [66; 32]);
        let signer = if misbehaviour == Some(Misbehaviour::ForgedHeads) { &forger } else { &self.key };
        let index =
            if misbehaviour == Some(Misbehaviour::WrongProofs) { (index + 1) % self.tree.size().0 } else { index };
        let head = Checkpoint::new(Origin::from(self.key.name()), self.tree.size(), self.tree.root());
        let mut checkpoint = sign_checkpoint(&head, signer).unwrap();
        if cosigned {
            let cosignature = note::cosign(&head.to_string(), &self.witness, 1_790_000_000).unwrap();
            checkpoint = checkpoint.with_cosignatures(&[cosignature.to_line().unwrap()]);
        }
        let inclusion = prove_inclusion(&self.tree, LeafIndex(index), TreeSize(self.tree.size().0)).unwrap();
        TlogProof { extra: None, index: LeafIndex(index), inclusion, checkpoint: checkpoint.into_unverified() }
            .to_string()
    }

    fn included(&self, entry: &[u8], index: u64, cosigned: bool, misbehaviour: Option<Misbehaviour>) -> wire::Included {
        let receipt = Receipt::parse(entry).unwrap();
        let proof = self.proof(index, cosigned, misbehaviour);
        let index = TlogProof::parse(proof.as_bytes()).unwrap().index.0;
        wire::Included {
            index,
            issuer: receipt.issuer().to_string(),
            seq: receipt.seq().0,
            id: receipt.id().to_string(),
            proof,
        }
    }
}

async fn batch(State(log): State<StrictLog>, body: Bytes) -> Response {
    let (answer, misbehaviour) = {
        let mut state = log.lock();
        let misbehaviour = state.next_misbehaviour();
        let entries = merkle::decode_entries(&body).unwrap();
        assert!(!entries.is_empty(), "an empty batch");
        match misbehaviour {
            Some(Misbehaviour::Unavailable) => return problem(StatusCode::SERVICE_UNAVAILABLE, "overloaded"),
            Some(Misbehaviour::TooLarge(most)) if entries.len() > most => {
                return problem(StatusCode::PAYLOAD_TOO_LARGE, "too-large");
            }
            _ => {}
        }
        let mut verdicts = Vec::new();
        let mut stopped: Option<String> = None;
        for (place, entry) in entries.iter().enumerate() {
            let verdict = match &stopped {
                Some(code) => Err(wire::BatchVerdict::Skipped(wire::Skipped {
                    code: code.clone(),
                    detail: "after a refusal".into(),
                })),
                None if misbehaviour == Some(Misbehaviour::OverloadedAt(place)) => {
                    stopped = Some("overloaded".into());
                    let refused = wire::Refused {
                        code: "overloaded".into(),
                        detail: "later".into(),
                        expected_seq: None,
                        expected_prev: None,
                    };
                    Err(wire::BatchVerdict::Refused(refused))
                }
                None => state.take(entry).map_err(|refusal| {
                    stopped = Some(refusal.code.as_str().into());
                    wire::BatchVerdict::Refused(wire::Refused {
                        code: refusal.code.as_str().into(),
                        detail: refusal.detail,
                        expected_seq: refusal.expected_seq.map(|seq| seq.0),
                        expected_prev: refusal.expected_prev.map(|prev| prev.to_string()),
                    })
                }),
            };
            verdicts.push((entry, verdict));
        }
        let lines = verdicts.into_iter().map(|(entry, verdict)| {
            let verdict = match verdict {
                Ok((true, index)) => wire::BatchVerdict::Ok(state.included(entry, index, false, misbehaviour)),
                Ok((false, index)) => wire::BatchVerdict::Duplicate(state.included(entry, index, false, misbehaviour)),
                Err(verdict) => verdict,
            };
            serde_json::to_string(&verdict).unwrap() + "\n"
        });
        (lines.collect::<String>(), misbehaviour)
    };
    match misbehaviour {
        Some(Misbehaviour::DropAfterCommit) => {
            let half = answer.len() / 2;
            let chunks = [Ok(Bytes::from(answer).slice(..half)), Err(std::io::Error::other("cut"))];
            Body::from_stream(futures_util::stream::iter(chunks)).into_response()
        }
        Some(Misbehaviour::Slow(pause)) => {
            tokio::time::sleep(pause).await;
            ([(header::CONTENT_TYPE, wire::NDJSON)], answer).into_response()
        }
        _ => ([(header::CONTENT_TYPE, wire::NDJSON)], answer).into_response(),
    }
}

async fn single(State(log): State<StrictLog>, headers: HeaderMap, entry: Bytes) -> Response {
    let cosigned = headers.get(wire::PREFER).is_some_and(|value| value == wire::WAIT_COSIGNED);
    let mut state = log.lock();
    if cosigned && state.has_no_witnesses {
        state.cosigned_calls += 1;
        return problem(StatusCode::NOT_IMPLEMENTED, wire::CODE_NO_WITNESSES);
    }
    let (_, index) = match state.take(&entry) {
        Ok(taken) => taken,
        Err(refusal) => return problem(StatusCode::CONFLICT, refusal.code.as_str()),
    };
    if cosigned {
        state.cosigned_calls += 1;
        if state.cosigned_calls < state.cosigns_after {
            let mut document = serde_json::to_value(state.included(&entry, index, false, None)).unwrap();
            document["code"] = wire::CODE_NOT_COSIGNED_IN_TIME.into();
            document["detail"] = "one witness of one has not answered".into();
            return (StatusCode::GATEWAY_TIMEOUT, document.to_string()).into_response();
        }
    }
    axum::Json(state.included(&entry, index, cosigned, None)).into_response()
}

async fn issuer(State(log): State<StrictLog>, Path(name): Path<String>) -> Response {
    if log.lock().is_mute {
        std::future::pending::<()>().await;
    }
    let state = log.lock();
    let Some(issuer) = state.issuers.get(&name) else { return problem(StatusCode::NOT_FOUND, "unknown-issuer") };
    let stream = state.streams.get(&name).cloned().unwrap_or_default();
    axum::Json(wire::Issuer {
        name,
        vkey: issuer.registered_key().to_string(),
        next_seq: issuer.next_seq().0,
        head: issuer.head().to_string(),
        last_issued_at: (!stream.is_empty()).then_some(issuer.last_issued_at().0),
        closed: issuer.is_closed(),
        first_index: stream.first().map(|(index, _)| *index),
        last_index: stream.last().map(|(index, _)| *index),
    })
    .into_response()
}

async fn by_seq(State(log): State<StrictLog>, Path((name, seq)): Path<(String, u64)>) -> Response {
    let state = log.lock();
    match state.streams.get(&name).and_then(|stream| stream.get(seq as usize)) {
        Some((index, entry)) => found(&state, *index, entry),
        None => problem(StatusCode::NOT_FOUND, "not-found"),
    }
}

async fn by_id(State(log): State<StrictLog>, Path(id): Path<String>) -> Response {
    let state = log.lock();
    let mut all = state.streams.values().flatten();
    match all.find(|(_, entry)| receipt::ReceiptId::of(entry).to_string() == id) {
        Some((index, entry)) => found(&state, *index, entry),
        None => problem(StatusCode::NOT_FOUND, "not-found"),
    }
}

async fn checkpoint(State(log): State<StrictLog>) -> Response {
    let state = log.lock();
    let tree = state.shown.as_ref().unwrap_or(&state.tree);
    let head = Checkpoint::new(Origin::from(state.key.name()), tree.size(), tree.root());
    sign_checkpoint(&head, &state.head_key).unwrap().into_unverified().note().bytes().to_vec().into_response()
}

async fn tile(State(log): State<StrictLog>, Path(rest): Path<String>) -> Response {
    let state = log.lock();
    let tree = state.shown.as_ref().unwrap_or(&state.tree);
    let Some(ResourcePath::Tile(tile)) = ResourcePath::parse(&format!("tile/{rest}")) else {
        return StatusCode::NOT_FOUND.into_response();
    };
    let hash = |place| tree.subtree(tile.level * 8, tile.index * 256 + place);
    let hashes: Option<Vec<_>> = (0..u64::from(tile.width)).map(hash).collect();
    match (hashes, state.tiles) {
        (None, _) | (_, Tiles::Missing) => StatusCode::NOT_FOUND.into_response(),
        (Some(hashes), Tiles::Right) => hashes.iter().flat_map(|hash| hash.0).collect::<Vec<u8>>().into_response(),
        (Some(hashes), Tiles::Wrong) => vec![7; 32 * hashes.len()].into_response(),
    }
}

fn found(state: &LogState, index: u64, entry: &[u8]) -> Response {
    let wire::Included { index, issuer, seq, id, proof } = state.included(entry, index, false, None);
    axum::Json(wire::Found { index, issuer, seq, id, proof, entry: String::from_utf8(entry.to_vec()).unwrap() })
        .into_response()
}

fn problem(status: StatusCode, code: &str) -> Response {
    let document =
        serde_json::json!({"title": code, "status": status.as_u16(), "code": code, "detail": "the strict log says so"});
    (status, [(header::CONTENT_TYPE, wire::PROBLEM_JSON), (header::RETRY_AFTER, "0")], document.to_string())
        .into_response()
}
