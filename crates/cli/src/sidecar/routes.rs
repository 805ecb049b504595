//! What the sidecar answers, call by call: JSON in, JSON out.
//!
//! | call | answer |
//! |---|---|
//! | `POST /v1/decisions` | 201: the decision is durable; a scope where the caller is to act |
//! | `POST /v1/outcomes` | 201: the scope's outcome is durable |
//! | `POST /v1/reported` | 201: the word of a caller that executed by itself |
//! | `POST /v1/receipts` | 201: a receipt of another type |
//! | `GET /v1/receipts/<id or seq>/proof` | the kept tlog-proof, or 404 until the log has answered |
//! | `GET /v1/history?subject=<s>` | what the log shows of subjects, to judge by and to give to a decision |
//! | `POST /v1/flush` | 200 once the log has everything |
//! | `GET /v1/status`, `/metrics`, `/healthz`, `/readyz` | how it stands |
//!
//! Everything that waits for the disk runs on a thread of its own, and to its end, also when the caller has gone.

use super::calls;
use super::guard::{Guard, guarded};
use super::places::Places;
use super::problems::{self, malformed, no_such_scope};
use super::scopes::{Scopes, random_token};
use axum::body::Body;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Path, Query, State};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router, middleware};
use client::OutboxError;
use client::gate::{Gate, GateError, Sending, bodies};
use client::outbox::Queued;
use http::{HeaderMap, StatusCode, header};
use receipt::body::Ruling;
use receipt::{ReceiptId, SeqNo};
use serde_json::{Map, Value, json};
use service::{Problem, body, problem};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Bytes of a body: four times the largest receipt, since arguments and results that only leave a digest come whole.
pub(super) const MAX_BODY: u64 = 256 * 1024;
/// How long a flush waits when the caller does not say.
const FLUSH: Duration = Duration::from_secs(10);
/// The longest that a flush may be asked to wait.
const MAX_FLUSH: Duration = Duration::from_secs(600);

const NO_STORE: [(header::HeaderName, &str); 1] = [(header::CACHE_CONTROL, "no-store")];

/// What calls work on.
pub(super) struct Desk {
    pub(super) gate: Gate,
    pub(super) scopes: Scopes,
    pub(super) places: Places,
    pub(super) fails_open: bool,
    pub(super) max_queued: u64,
    pub(super) stopping: AtomicBool,
}

type Answer = Result<Response, Problem>;

pub(super) fn router(desk: Arc<Desk>, guard: Guard) -> Router {
    let router = Router::new()
        .route("/v1/decisions", post(decide))
        .route("/v1/outcomes", post(end))
        .route("/v1/reported", post(report))
        .route("/v1/receipts", post(append))
        .route("/v1/receipts/{id}/proof", get(proof))
        .route("/v1/history", get(history))
        .route("/v1/flush", post(flush))
        .route("/v1/status", get(status))
        .route("/metrics", get(metrics))
        .route("/healthz", get(|| async { Json(json!({"status": "ok"})) }))
        .route("/readyz", get(ready))
        .with_state(desk);
    let router = problem::with_fallbacks(router).layer(middleware::from_fn_with_state(guard, guarded));
    service::observed::observe(router)
}

async fn read(headers: &HeaderMap, body: Body) -> Result<Map<String, Value>, Problem> {
    calls::members(&body::read(headers, body, MAX_BODY).await?)
}

/// Runs what waits for the disk.
async fn on_disk<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, Problem> {
    let stopped = |error| {
        tracing::error!(%error, "a call broke off");
        Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "outbox-stopped", "The call broke off", "see the sidecar's log")
    };
    tokio::task::spawn_blocking(work).await.map_err(stopped)
}

fn created(answer: Value) -> Answer {
    Ok((StatusCode::CREATED, NO_STORE, Json(answer)).into_response())
}

fn told(receipt: Option<&Queued>) -> Map<String, Value> {
    let mut members = Map::new();
    members.insert("receipt_id".to_owned(), json!(receipt.map(|receipt| receipt.id.to_string())));
    members.insert("seq".to_owned(), json!(receipt.map(|receipt| receipt.seq.0)));
    members
}

/// `POST /v1/decisions`.
async fn decide(State(desk): State<Arc<Desk>>, headers: HeaderMap, body: Body) -> Answer {
    let call = read(&headers, body).await?;
    // Where the caller executes by itself, its word comes by `reported`, and there is nothing to hold open.
    let executes = call.get("executes").and_then(Value::as_str).unwrap_or("gate") == "gate";
    let (ruling, decision, request_id) = calls::decision(call, random_token)?;
    let gate = desk.gate.clone();
    if ruling == Ruling::Deny {
        let denied = on_disk(move || gate.deny(decision)).await?.map_err(|error| problems::of(&error))?;
        let mut answer = told(denied.as_ref());
        answer.insert("request_id".to_owned(), json!(request_id));
        answer.insert("scope".to_owned(), Value::Null);
        if denied.is_none() {
            answer.insert("dropped".to_owned(), json!(true));
        }
        return created(Value::Object(answer));
    }
    if !desk.scopes.has_room() {
        return Err(problem::overloaded("too many allowed calls wait for their outcome; end some, then try again"));
    }
    let act = on_disk(move || gate.decide(decision)).await?.map_err(|error| problems::of(&error))?;
    let mut answer = told(None);
    answer.insert("receipt_id".to_owned(), json!(act.receipt_id().map(|id| id.to_string())));
    answer.insert("seq".to_owned(), json!(act.seq().map(|seq| seq.0)));
    answer.insert("request_id".to_owned(), json!(act.request_id()));
    answer.insert("action_digest".to_owned(), json!(act.action_digest().to_string()));
    if act.receipt_id().is_none() {
        answer.insert("dropped".to_owned(), json!(true));
    }
    let scope = executes.then(|| desk.scopes.keep(act)).flatten();
    answer.insert("scope".to_owned(), json!(scope));
    created(Value::Object(answer))
}

/// `POST /v1/outcomes`.
async fn end(State(desk): State<Arc<Desk>>, headers: HeaderMap, body: Body) -> Answer {
    let (scope, ending) = calls::outcome(read(&headers, body).await?)?;
    let mut act = desk.scopes.take(&scope).ok_or_else(no_such_scope)?;
    let ended = on_disk(move || {
        let request_id = act.request_id().to_owned();
        ending.tell(&mut act);
        (request_id, act.finish())
    });
    let (request_id, written) = ended.await?;
    let written = written.map_err(|error| problems::of(&error))?;
    let mut answer = told(written.as_ref());
    answer.insert("request_id".to_owned(), json!(request_id));
    created(Value::Object(answer))
}

/// `POST /v1/reported`.
async fn report(State(desk): State<Arc<Desk>>, headers: HeaderMap, body: Body) -> Answer {
    let (request_id, report) = calls::reported(read(&headers, body).await?)?;
    let written = on_disk(move || desk.gate.reported(&request_id, &report)).await?;
    let written = written.map_err(|error| problems::of(&error))?;
    created(Value::Object(told(Some(&written))))
}

/// `POST /v1/receipts`: the receipt's body as it stands.
async fn append(State(desk): State<Arc<Desk>>, headers: HeaderMap, body: Body) -> Answer {
    let members = read(&headers, body).await?;
    let written = on_disk(move || desk.gate.append(&bodies::text(&members))).await?;
    let written = written.map_err(|error| problems::of(&error))?;
    created(Value::Object(told(Some(&written))))
}

/// `GET /v1/receipts/<id or seq>/proof`.
async fn proof(State(desk): State<Arc<Desk>>, Path(named): Path<String>) -> Answer {
    let by_id = ReceiptId::parse(&named);
    let by_seq = merkle::decimal::parse_u64(&named).map(SeqNo);
    if by_id.is_none() && by_seq.is_none() {
        return Err(malformed("name a receipt by its id, 64 lowercase hex digits, or by its seq"));
    }
    let found = on_disk(move || -> Result<_, OutboxError> {
        let outbox = desk.gate.outbox();
        let seq = match by_id {
            Some(id) => desk.places.seq_of(&outbox, &id)?,
            None => by_seq,
        };
        let Some(seq) = seq else { return Ok(None) };
        let receipt = outbox.receipt(seq)?.filter(|receipt| by_id.is_none_or(|id| receipt.id() == id));
        receipt.map(|_| outbox.kept(seq)).transpose()
    });
    match found.await?.map_err(|error| problems::of(&GateError::from(error)))? {
        Some(Some(kept)) => {
            let plain = [(header::CONTENT_TYPE, "text/plain; charset=utf-8")];
            Ok((plain, kept.proof).into_response())
        }
        Some(None) => Err(Problem::new(
            StatusCode::NOT_FOUND,
            "no-proof-yet",
            "The log has not proved this receipt yet",
            "it is safe in the outbox; ask again in a second, or POST /v1/flush first",
        )
        .retry_after_s(1)),
        None => Err(problem::not_found("no receipt of this outbox has that id or seq")),
    }
}

/// `GET /v1/history?subject=<s>`, once for each subject: `history` is what a decision's `history` takes.
async fn history(State(desk): State<Arc<Desk>>, query: Result<Query<Vec<(String, String)>>, QueryRejection>) -> Answer {
    let asked = "name each subject by `subject=`, percent-encoded, and nothing else";
    let Query(query) = query.map_err(|_| malformed(asked))?;
    if query.is_empty() || query.iter().any(|(name, _)| name != "subject") {
        return Err(malformed(asked));
    }
    let subjects: Vec<&str> = query.iter().map(|(_, subject)| subject.as_str()).collect();
    let read = desk.gate.history_async(&subjects).await.map_err(|error| problems::of(&error))?;
    let items = read.logged.iter().chain(&read.pending).map(|item| {
        json!({
            "action_class": item.action_class, "index": item.index.map(|index| index.0), "issuer": item.issuer.as_str(),
            "seq": item.seq.0, "id": item.id.to_string(), "session": item.session,
        })
    });
    let (items, witnessed_at) = (items.collect::<Vec<Value>>(), read.witnessed_at.map(|at| at.0));
    let prior = read.prior();
    let mut history = Map::new();
    history.insert("classes".to_owned(), json!(prior.action_classes));
    history.insert("heads".to_owned(), prior.heads.into_iter().map(|(subject, id)| (subject, json!(id))).collect());
    history.insert("size".to_owned(), json!(prior.size));
    history.insert("root".to_owned(), json!(prior.root));
    history.insert("witnessed".to_owned(), json!(prior.witnessed));
    history.extend(prior.why.map(|why| ("why".to_owned(), json!(why))));
    history.extend(prior.as_of.map(|as_of| ("as_of".to_owned(), json!(as_of))));
    let answer = json!({"history": history, "items": items, "witnessed_at": witnessed_at});
    Ok((NO_STORE, Json(answer)).into_response())
}

/// `POST /v1/flush`.
async fn flush(State(desk): State<Arc<Desk>>, headers: HeaderMap, body: Body) -> Answer {
    let asked = calls::timeout_ms(read(&headers, body).await?)?;
    let timeout = asked.map_or(FLUSH, Duration::from_millis).min(MAX_FLUSH);
    let acknowledged = on_disk(move || {
        desk.gate.flush(timeout)?;
        Ok::<u64, GateError>(*desk.gate.outbox().watch_acknowledged().borrow())
    });
    let acknowledged = acknowledged.await?.map_err(|error| problems::of(&error))?;
    Ok((NO_STORE, Json(json!({"acknowledged": acknowledged}))).into_response())
}

/// `GET /v1/status`.
async fn status(State(desk): State<Arc<Desk>>) -> Answer {
    let status = on_disk(move || desk.gate.status()).await?.map_err(|error| problems::of(&error))?;
    let (sender, last_error) = match status.sender {
        Sending::Working => ("working", Value::Null),
        Sending::Failing { code, sentence } => ("failing", json!({"code": code, "detail": sentence})),
        Sending::Stopped { code, sentence } => ("stopped", json!({"code": code, "detail": sentence})),
    };
    let answer = json!({
        "outbox": status.outbox,
        "drops": {"count": status.drops.count, "told": status.drops.told},
        "open_decisions": status.open_decisions,
        "owed": status.owed,
        "sender": sender,
        "last_error": last_error,
        "oldest_queued_ms": status.oldest_queued.map(|age| u64::try_from(age.as_millis()).unwrap_or(u64::MAX)),
    });
    Ok((NO_STORE, Json(answer)).into_response())
}

async fn metrics(State(desk): State<Arc<Desk>>) -> Answer {
    let of_gate = on_disk(move || desk.gate.metrics()).await?;
    let kind = [(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")];
    Ok((kind, format!("{of_gate}{}", service::metrics::text())).into_response())
}

/// Whether a decision would be taken.
async fn ready(State(desk): State<Arc<Desk>>) -> Answer {
    let mut reasons = Vec::new();
    if desk.stopping.load(Ordering::Relaxed) {
        reasons.push("draining");
    }
    let (fails_open, max_queued) = (desk.fails_open, desk.max_queued);
    match on_disk(move || desk.gate.status()).await? {
        Err(error) => {
            tracing::warn!(%error, "not ready");
            reasons.push("outbox-disk");
        }
        // The rule by which a decision is taken: its outcome, and those of all open ones, must have room.
        Ok(status) if !fails_open => {
            let waiting = status.outbox.receipts.saturating_sub(status.outbox.acknowledged);
            if waiting.saturating_add(status.open_decisions.saturating_mul(2)).saturating_add(2) > max_queued {
                reasons.push("outbox-full");
            }
        }
        Ok(_) => {}
    }
    if reasons.is_empty() {
        return Ok(Json(json!({"status": "ready"})).into_response());
    }
    let detail = format!("no decision would be taken now: {}", reasons.join(", "));
    Err(Problem::new(StatusCode::SERVICE_UNAVAILABLE, "not-ready", "The sidecar is not ready", detail)
        .with("reasons", json!(reasons))
        .retry_after_s(1))
}
