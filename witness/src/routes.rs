//! The witness over HTTP.
//!
//! | call | answer |
//! |---|---|
//! | `GET /<sha256(origin) hex>/checkpoint` | the latest cosigned checkpoint |
//! | `POST /nudge/<sha256(origin) hex>`, no body | fetches, then the cosignature lines over the head found |
//! | `GET /journal/…` | the journal, as the static resources of a tiled log |
//! | `GET /evidence/<N>` | page N of the evidence, 256 documents, one a line |
//! | `GET /status` | every log: held size, last outcome, forks |
//! | `GET /healthz`, `/readyz`, `/metrics` | |
//!
//! Holds paths, headers and the one mapping of outcomes to statuses. Everything served was durable before.

use crate::clock::Clock;
use crate::evidence::Evidence;
use crate::journal::book::JournalReader;
use crate::journal::line::Outcome;
use crate::keeper::Answer;
use crate::view::WitnessStatus;
use crate::watch::{NudgeRefusal, Post};
use axum::Router;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, StatusCode, header};
use merkle::ResourcePath;
use note::VerifierKey;
use service::budget::ByteBudget;
use service::{Problem, compression, problem};
use std::collections::HashMap;
use std::sync::Arc;
use tokio::sync::Semaphore;

const TEXT: &str = "text/plain; charset=utf-8";
const OCTETS: &str = "application/octet-stream";
const NDJSON: &str = "application/x-ndjson";
const JSON: &str = "application/json";

/// Heads and status move; whoever asks wants the newest.
const NEVER_STORED: &str = "no-store";

/// Tiles and pages never change under their path (tlog-tiles).
const STORED_FOR_A_YEAR: &str = "public, max-age=31536000, immutable";

/// Bytes of large answers held at once: sixteen of the largest bundles of a journal.
const HELD_BYTES: u32 = 256 * 1024 * 1024;

/// Reads of the journal under way at once. Each may bring 16 MiB into memory before anybody has counted it.
const READS_AT_ONCE: usize = 16;

/// How much all peers together may hold.
#[derive(Debug)]
pub struct Shares {
    answers: ByteBudget,
    reads: Semaphore,
}

impl Default for Shares {
    fn default() -> Self {
        Self { answers: ByteBudget::new(HELD_BYTES), reads: Semaphore::new(READS_AT_ONCE) }
    }
}

/// What the routes answer from.
#[derive(Debug)]
pub struct Desk {
    /// The witness's key.
    pub witness: VerifierKey,
    /// Its journal.
    pub journal: JournalReader,
    /// Its evidence.
    pub evidence: Arc<Evidence>,
    /// The logs, in the order of the configuration.
    pub logs: Vec<Arc<Post>>,
    /// Their places by hex of the SHA-256 of the origin.
    pub by_hash: HashMap<String, usize>,
    /// For `/status`.
    pub clock: Clock,
    /// What answers may take.
    pub shares: Shares,
}

/// All routes.
pub fn router(desk: Arc<Desk>) -> Router {
    let journal = compression::compressed(Router::new().route("/journal/{*path}", get(journal)));
    let router = Router::new()
        .route("/{log}/checkpoint", get(checkpoint))
        .route("/nudge/{log}", post(nudge))
        .route("/evidence/{page}", get(evidence))
        .route("/status", get(status))
        .route("/healthz", get(|| async { "ok\n" }))
        // Everything is open and durable before the listener starts, and a disk that fails stops the process.
        .route("/readyz", get(|| async { "ready\n" }))
        .merge(journal)
        .with_state(desk)
        .merge(service::metrics::routes());
    service::observed::observe(problem::with_fallbacks(router))
}

async fn checkpoint(State(desk): State<Arc<Desk>>, Path(log): Path<String>) -> Result<Response, Problem> {
    let view = desk.log(&log).ok_or_else(unknown_log)?.view();
    match &view.cosigned {
        Some(cosigned) => Ok(answer(TEXT, NEVER_STORED, cosigned.clone())),
        None => Err(Problem::new(
            StatusCode::NOT_FOUND,
            "no-head-yet",
            "No head of this log was cosigned yet",
            "nudge the witness, or ask again after its next fetch",
        )),
    }
}

async fn nudge(
    State(desk): State<Arc<Desk>>,
    Path(log): Path<String>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    let log = Arc::clone(desk.log(&log).ok_or_else(unknown_log)?);
    // A nudge carries nothing: a witness takes heads from the log itself only.
    service::body::read(&headers, body, 0).await?;
    match log.nudge().await {
        Ok(Answer::Cosigned { lines }) => Ok(answer(TEXT, NEVER_STORED, Bytes::from(lines))),
        Ok(Answer::NotCosigned { outcome, detail }) => Err(not_cosigned(outcome, detail)),
        Err(NudgeRefusal::TooMany) => Err(Problem::new(
            StatusCode::TOO_MANY_REQUESTS,
            "too-many-nudges",
            "Too many nudges wait for this log",
            "wait for the answers to those already sent",
        )
        .retry_after_s(1)),
        Err(NudgeRefusal::Stopping) => Err(Problem::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "stopping",
            "The witness is stopping",
            "try again once it is back",
        )
        .retry_after_s(5)),
    }
}

async fn journal(State(desk): State<Arc<Desk>>, Path(path): Path<String>) -> Result<Response, Problem> {
    let path = ResourcePath::parse(&path).ok_or_else(|| problem::not_found("this is no path of a tiled log"))?;
    // Never closed. Held until the answer is counted.
    let _place = desk.shares.reads.acquire().await;
    let reader = desk.journal.clone();
    // Reading a page is a system call that may wait for the disk.
    let read = tokio::task::spawn_blocking(move || reader.resource(&path)).await;
    match read {
        Ok(Ok(Some(bytes))) if path == ResourcePath::Checkpoint => Ok(answer(TEXT, NEVER_STORED, bytes)),
        Ok(Ok(Some(bytes))) => Ok(answer(OCTETS, STORED_FOR_A_YEAR, desk.shares.answers.body(bytes)?)),
        Ok(Ok(None)) => {
            Err(problem::not_found("the journal has nothing of this path; its size is in /journal/checkpoint"))
        }
        Ok(Err(_)) | Err(_) => Err(unreadable()),
    }
}

async fn evidence(State(desk): State<Arc<Desk>>, Path(page): Path<String>) -> Result<Response, Problem> {
    let page =
        merkle::decimal::parse_u64(&page).ok_or_else(|| problem::not_found("pages of evidence are numbered from 0"))?;
    let lines = desk.evidence.page(page).ok_or_else(|| problem::not_found("there is no evidence of this number"))?;
    Ok(answer(NDJSON, NEVER_STORED, desk.shares.answers.body(lines)?))
}

async fn status(State(desk): State<Arc<Desk>>) -> Result<Response, Problem> {
    let status = WitnessStatus {
        witness: desk.witness.name().to_string(),
        vkey: desk.witness.to_string(),
        journal_vkey: desk.journal.vkey().to_string(),
        journal_size: desk.journal.size(),
        time: desk.clock.now_ms(),
        logs: desk.logs.iter().map(|log| log.view().status.clone()).collect(),
    };
    let json = serde_json::to_vec(&status).map_err(|_| unreadable())?;
    Ok(answer(JSON, NEVER_STORED, desk.shares.answers.body(json.into())?))
}

impl Desk {
    fn log(&self, hash: &str) -> Option<&Arc<Post>> {
        self.logs.get(*self.by_hash.get(hash)?)
    }
}

fn unknown_log() -> Problem {
    Problem::new(
        StatusCode::NOT_FOUND,
        "unknown-log",
        "This witness does not watch this log",
        "the path is the lowercase hex of the SHA-256 of the log's origin; the witness's operator chooses its logs",
    )
}

/// Which outcome is answered how, all of them.
fn not_cosigned(outcome: Outcome, detail: String) -> Problem {
    let (status, title) = match outcome {
        Outcome::Fork | Outcome::Refused => (StatusCode::CONFLICT, "The log signed two histories"),
        Outcome::Stale => (StatusCode::CONFLICT, "The log offers an older head than the one held"),
        Outcome::Unproven => (StatusCode::BAD_GATEWAY, "The log's tiles do not prove that its history only grew"),
        Outcome::BadLogSignature => (StatusCode::BAD_GATEWAY, "The log's checkpoint is not signed by the log"),
        Outcome::BadEmptyRoot => (StatusCode::BAD_GATEWAY, "The log's empty head is not the empty tree's"),
        Outcome::Unreachable => (StatusCode::BAD_GATEWAY, "The log did not answer as a log does"),
        Outcome::Withheld | Outcome::Started | Outcome::Cosigned | Outcome::Unchanged => {
            (StatusCode::SERVICE_UNAVAILABLE, "The witness cannot cosign now")
        }
    };
    Problem::new(status, outcome.as_str(), title, detail)
}

fn unreadable() -> Problem {
    Problem::new(
        StatusCode::INTERNAL_SERVER_ERROR,
        "unreadable",
        "The witness cannot read its own files",
        "the witness's operator finds the reason in its logs",
    )
}

fn answer(content_type: &'static str, cached: &'static str, body: impl Into<Body>) -> Response {
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static(content_type)),
        (header::CACHE_CONTROL, HeaderValue::from_static(cached)),
    ];
    (headers, body.into()).into_response()
}
