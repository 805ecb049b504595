//! The witness over HTTP.
//!
//! | call | answer |
//! |---|---|
//! | `GET /<sha256(origin) hex>/checkpoint` | the latest cosigned checkpoint |
//! | `POST /nudge/<sha256(origin) hex>`, no body | fetches, then the cosignature lines over the head found |
//! | `POST /add-checkpoint` | takes a head that is pushed with its proof (C2SP tlog-witness) |
//! | `POST /sign-subtree` | cosigns a part of a tree that it cosigned, where it has an ML-DSA-44 key (C2SP tlog-witness) |
//! | `GET /journal/…` | the journal, as the static resources of a tiled log |
//! | `GET /evidence/<N>` | page N of the evidence, 256 documents, one a line |
//! | `GET /status` | every log: held size, last outcome, forks |
//! | `GET /healthz`, `/readyz`, `/metrics` | |
//!
//! Holds paths, headers and the one mapping of outcomes to statuses. Everything served was durable before.

use crate::clock::Clock;
use crate::evidence::Evidence;
use crate::instruments::Dials;
use crate::journal::book::JournalReader;
use crate::journal::line::{MAX_HEAD_LEN, Outcome};
use crate::post::{Answer, NudgeRefusal, Post};
use crate::posts::Posts;
use crate::push::{MAX_PUSH_BYTES, Push, PushRefusal};
use crate::settings::Level;
use crate::signer::Signer;
use crate::subtree;
use crate::view::WitnessStatus;
use axum::Router;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use bytes::Bytes;
use client::add_checkpoint::SIZE_TYPE;
use http::{HeaderMap, HeaderValue, StatusCode, header};
use merkle::ResourcePath;
use service::budget::ByteBudget;
use service::{Problem, compression, problem};
use std::sync::Arc;
use tokio::sync::{Mutex, Semaphore};

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
    signer: Arc<Signer>,
    journal: JournalReader,
    evidence: Arc<Evidence>,
    posts: Posts,
    clock: Clock,
    level: Level,
    shares: Shares,
    /// The journal's head that was cosigned last, without and with the witness's lines.
    journal_head: Mutex<Option<(Bytes, Bytes)>>,
}

impl Desk {
    /// A desk for these, of a witness of this level.
    pub fn new(
        signer: Arc<Signer>,
        journal: JournalReader,
        evidence: Arc<Evidence>,
        posts: Posts,
        clock: Clock,
        level: Level,
    ) -> Desk {
        Desk {
            signer,
            journal,
            evidence,
            posts,
            clock,
            level,
            shares: Shares::default(),
            journal_head: Mutex::default(),
        }
    }

    /// The posts of all logs.
    pub fn posts(&self) -> &Posts {
        &self.posts
    }

    /// The witness's journal.
    pub fn journal(&self) -> &JournalReader {
        &self.journal
    }

    /// The time.
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// The journal's newest head. With the witness's own cosignature, so that whoever trusts the witness's key, from a
    /// policy, needs no second key to hold it to its journal: a cosigned head can never be taken back.
    async fn journal_head(&self) -> Result<Bytes, Problem> {
        let mut last = self.journal_head.lock().await;
        let bare = self.journal.resource(&ResourcePath::Checkpoint).ok().flatten().ok_or_else(unreadable)?;
        if let Some((_, cosigned)) = last.as_ref().filter(|(cosigned_last, _)| *cosigned_last == bare) {
            return Ok(cosigned.clone());
        }
        let Some((head, floor_s)) = self.journal.latest() else { return Ok(bare) };
        let sealed = self.signer.cosign(head.note().text(), floor_s).await.map_err(|_| cannot_sign())?;
        let cosignatures = self.journal.durable().release(floor_s, sealed).ok_or_else(unreadable)?;
        let lines: Vec<_> = cosignatures.iter().filter_map(|cosignature| cosignature.to_line().ok()).collect();
        let cosigned = Bytes::copy_from_slice(head.with_cosignatures(&lines).bytes());
        *last = Some((Bytes::copy_from_slice(head.bytes()), cosigned.clone()));
        Ok(cosigned)
    }
}

/// All routes. `dials` are read off for `/metrics`.
pub fn router(desk: Arc<Desk>, dials: Dials) -> Router {
    let journal = compression::compressed(Router::new().route("/journal/{*path}", get(journal)));
    let subtrees = subtree::routes_of(desk.signer.mldsa(), desk.posts.clone());
    let router = Router::new()
        .route("/{log}/checkpoint", get(checkpoint))
        .route("/nudge/{log}", post(nudge))
        .route("/add-checkpoint", post(add_checkpoint))
        .route("/evidence/{page}", get(evidence))
        .route("/status", get(status))
        .route("/healthz", get(|| async { "ok\n" }))
        // Everything is open and durable before the listener starts, and a disk that fails stops the process.
        .route("/readyz", get(|| async { "ready\n" }))
        .merge(journal)
        .with_state(desk)
        .merge(subtrees)
        .merge(service::metrics::routes_after(move || dials.read_off()));
    service::observed::observe(problem::with_fallbacks(router))
}

async fn checkpoint(State(desk): State<Arc<Desk>>, Path(log): Path<String>) -> Result<Response, Problem> {
    let view = desk.posts.by_hash(&log).ok_or_else(unknown_log)?.view();
    match view.cosigned() {
        Some(cosigned) => Ok(answer(TEXT, NEVER_STORED, cosigned)),
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
    let log = desk.posts.by_hash(&log).ok_or_else(unknown_log)?;
    // A nudge carries nothing: a witness takes heads from the log itself only.
    service::body::read(&headers, body, 0).await?;
    match log.nudge().await {
        Ok(Answer::Cosigned { lines }) => Ok(answer(TEXT, NEVER_STORED, Bytes::from(lines))),
        Ok(Answer::NotCosigned { outcome: Outcome::Withheld, detail }) => {
            Err(not_cosigned(Outcome::Withheld, detail).retry_after_s(5))
        }
        Ok(Answer::NotCosigned { outcome, detail }) => Err(not_cosigned(outcome, detail)),
        Err(NudgeRefusal::TooMany) => Err(Problem::new(
            StatusCode::TOO_MANY_REQUESTS,
            "too-many-nudges",
            "Too many nudges wait for this log",
            "wait for the answers to those already sent",
        )
        .retry_after_s(1)),
        Err(NudgeRefusal::NotFetched) => Err(Problem::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "not-fetched",
            "Nothing fetches this log now",
            "the witness is stopping, or the log is one that pushes its heads; try again once it is back",
        )
        .retry_after_s(5)),
    }
}

async fn add_checkpoint(State(desk): State<Arc<Desk>>, headers: HeaderMap, body: Body) -> Result<Response, Problem> {
    let body = service::body::read(&headers, body, MAX_PUSH_BYTES).await?;
    let push = Push::parse(&body).map_err(|malformed| {
        Problem::new(StatusCode::BAD_REQUEST, "malformed", "This is no add-checkpoint call", malformed.to_string())
    })?;
    let log: Arc<Post> = desk.posts.by_origin(push.origin()).ok_or_else(not_pushed)?;
    match log.push(desk.clock.now_ms(), push).await.map_err(|_| unreadable())? {
        Ok(Answer::Cosigned { lines }) => Ok(answer(TEXT, NEVER_STORED, Bytes::from(lines))),
        Ok(Answer::NotCosigned { outcome, detail }) => Err(not_taken(outcome, detail)),
        Err(refusal) => refused_push(refusal),
    }
}

async fn journal(State(desk): State<Arc<Desk>>, Path(path): Path<String>) -> Result<Response, Problem> {
    let path = ResourcePath::parse(&path).ok_or_else(|| problem::not_found("this is no path of a tiled log"))?;
    if path == ResourcePath::Checkpoint {
        return Ok(answer(TEXT, NEVER_STORED, desk.journal_head().await?));
    }
    // Never closed. Held until the answer is counted.
    let _place = desk.shares.reads.acquire().await;
    let reader = desk.journal.clone();
    // Reading a page is a system call that may wait for the disk.
    let read = tokio::task::spawn_blocking(move || reader.resource(&path)).await;
    match read {
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
        witness: desk.signer.verifier().name().to_string(),
        vkey: desk.signer.verifier().to_string(),
        mldsa_vkey: desk.signer.mldsa().map(|key| key.verifier().to_string()),
        journal_vkey: desk.journal.vkey().to_string(),
        journal_size: desk.journal.size(),
        level: desk.level,
        evidence: desk.evidence.count(),
        time: desk.clock.now_ms(),
        logs: desk.posts.all().iter().map(|log| log.status()).collect(),
    };
    let json = serde_json::to_vec(&status).map_err(|_| unreadable())?;
    Ok(answer(JSON, NEVER_STORED, desk.shares.answers.body(json.into())?))
}

fn unknown_log() -> Problem {
    Problem::new(
        StatusCode::NOT_FOUND,
        "unknown-log",
        "This witness does not watch this log",
        "the path is the lowercase hex of the SHA-256 of the log's origin; the witness's operator chooses its logs",
    )
}

fn not_pushed() -> Problem {
    Problem::new(
        StatusCode::NOT_FOUND,
        "unknown-log",
        "This witness takes no pushed heads of this log",
        "the witness's operator chooses its logs, and which of them may push (accept_pushes)",
    )
}

/// Which refusal of a pushed head is answered how, all of them (tlog-witness, add-checkpoint).
fn refused_push(refusal: PushRefusal) -> Result<Response, Problem> {
    match refusal {
        PushRefusal::UnknownLog => Err(not_pushed()),
        PushRefusal::BadSignature(error) => Err(Problem::new(
            StatusCode::FORBIDDEN,
            "bad-log-signature",
            "The checkpoint carries no good signature of the log",
            error.to_string(),
        )),
        PushRefusal::Shrinks => Err(Problem::new(
            StatusCode::BAD_REQUEST,
            "shrinks",
            "The old size is larger than the checkpoint's",
            "a log only grows; name the size of the checkpoint that this one grew out of",
        )),
        PushRefusal::TooLong => Err(Problem::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            "too-large",
            "The head is longer than what a witness keeps of one",
            format!("it may have {MAX_HEAD_LEN} bytes with one signature; its extension lines must go"),
        )),
        PushRefusal::Unproven(detail) => Err(Problem::new(
            StatusCode::UNPROCESSABLE_ENTITY,
            Outcome::Unproven.as_str(),
            "The consistency proof does not verify",
            detail,
        )),
        PushRefusal::Refused(detail) => {
            Err(Problem::new(StatusCode::FORBIDDEN, Outcome::Refused.as_str(), "The log is refused", detail))
        }
        PushRefusal::Holds(size) => {
            let headers = [(header::CONTENT_TYPE, HeaderValue::from_static(SIZE_TYPE))];
            Ok((StatusCode::CONFLICT, headers, format!("{size}\n")).into_response())
        }
    }
}

/// Which outcome of a push is answered how, all of them.
fn not_taken(outcome: Outcome, detail: String) -> Problem {
    let (status, title) = match outcome {
        Outcome::Refused => (StatusCode::FORBIDDEN, "Evidence stands against the log"),
        Outcome::Fork => (StatusCode::UNPROCESSABLE_ENTITY, "The log signed two histories"),
        Outcome::BadEmptyRoot => (StatusCode::UNPROCESSABLE_ENTITY, "The empty head is not the empty tree's"),
        Outcome::Unproven => (StatusCode::UNPROCESSABLE_ENTITY, "The consistency proof does not verify"),
        _ => (StatusCode::SERVICE_UNAVAILABLE, "The witness cannot cosign now"),
    };
    Problem::new(status, outcome.as_str(), title, detail)
}

/// Which outcome of a fetch is answered how, all of them.
fn not_cosigned(outcome: Outcome, detail: String) -> Problem {
    let (status, title) = match outcome {
        Outcome::Fork => (StatusCode::CONFLICT, "The log signed two histories"),
        Outcome::Refused => (StatusCode::CONFLICT, "Evidence stands against the log"),
        Outcome::Inadmissible => (StatusCode::CONFLICT, "The log holds a receipt that is not admitted here"),
        Outcome::Stale => (StatusCode::CONFLICT, "The log offers an older head than the one held"),
        Outcome::Unproven => (StatusCode::BAD_GATEWAY, "The log's tiles do not prove that its history only grew"),
        Outcome::BadLogSignature => (StatusCode::BAD_GATEWAY, "The log's checkpoint is not signed by the log"),
        Outcome::BadEmptyRoot => (StatusCode::BAD_GATEWAY, "The log's empty head is not the empty tree's"),
        Outcome::Unreachable => (StatusCode::BAD_GATEWAY, "The log did not answer as a log does"),
        Outcome::Withheld | Outcome::Started | Outcome::Cosigned | Outcome::Seen | Outcome::Unchanged => {
            (StatusCode::SERVICE_UNAVAILABLE, "The witness cannot cosign now")
        }
    };
    Problem::new(status, outcome.as_str(), title, detail)
}

fn cannot_sign() -> Problem {
    Problem::new(
        StatusCode::SERVICE_UNAVAILABLE,
        "cannot-sign",
        "The witness cannot sign now",
        "its key is where it does not answer; the witness's operator finds the reason in the status of the logs",
    )
    .retry_after_s(5)
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
