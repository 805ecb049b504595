//! Look-ups: issuers, receipts by name or id, evidence. Answers move as the log grows, so nobody may keep them.

use super::reading;
use crate::answers;
use crate::ledger::{Shelf, StoreFault};
use crate::log::Log;
use crate::publication::Head;
use crate::registry::Known;
use axum::Json;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::response::{IntoResponse, Response};
use client::wire;
use http::{StatusCode, header};
use merkle::LeafIndex;
use note::TlogProof;
use receipt::{IssuerName, Receipt, ReceiptId, SeqNo};
use serde::Serialize;
use service::{Problem, problem};
use std::sync::Arc;

const NO_STORE: [(header::HeaderName, &str); 1] = [(header::CACHE_CONTROL, "no-store")];

/// An issuer as the log answers about it: what clients read, and what operators like to know.
#[derive(Serialize)]
struct IssuerAnswer {
    #[serde(flatten)]
    issuer: wire::Issuer,
    /// Whether the operator's list names it now: only then can it submit.
    listed: bool,
    /// Forks seen since the log was started.
    forks: u64,
}

#[derive(Serialize)]
struct IssuerAnswers {
    issuers: Vec<IssuerAnswer>,
}

/// `GET /v1/issuers`.
pub(super) async fn issuers(State(log): State<Arc<Log>>) -> Response {
    let listed = reading(&log, |log| {
        let issuers: Vec<IssuerAnswer> = log.registry.all().iter().map(answer).collect();
        serde_json::to_vec(&IssuerAnswers { issuers }).map_err(|error| StoreFault(error.to_string()))
    });
    match listed.await.and_then(|json| log.answer_bytes.body(json.into())) {
        Ok(body) => (NO_STORE, [(header::CONTENT_TYPE, wire::JSON)], body).into_response(),
        Err(failed) => failed.into_response(),
    }
}

/// `GET /v1/issuers/<name>`.
pub(super) async fn issuer(State(log): State<Arc<Log>>, name: Segments<String>) -> Response {
    match segments(name).and_then(|name| known(&log, &name)) {
        Ok(known) => (NO_STORE, Json(answer(&known))).into_response(),
        Err(problem) => problem.into_response(),
    }
}

/// `GET /v1/issuers/<name>/receipts/<seq>`.
pub(super) async fn receipt_by_seq(State(log): State<Arc<Log>>, path: Segments<(String, String)>) -> Response {
    let (name, seq) = match segments(path).and_then(|(name, seq)| Ok((known(&log, &name)?, seq))) {
        Ok((known, seq)) => (known.state.name().clone(), seq),
        Err(problem) => return problem.into_response(),
    };
    let Some(seq) = merkle::decimal::parse_u64(&seq) else {
        return problem::not_found("a seq is a decimal number without sign or leading zeroes").into_response();
    };
    found(log, move |shelf| shelf.index_of(&name, SeqNo(seq))).await
}

/// `GET /v1/receipts/<id>`.
pub(super) async fn receipt_by_id(State(log): State<Arc<Log>>, id: Segments<String>) -> Response {
    let Some(id) = segments(id).ok().and_then(|id| ReceiptId::parse(&id)) else {
        return problem::not_found("a receipt id is 64 lowercase hex digits").into_response();
    };
    found(log, move |shelf| shelf.index_of_id(&id)).await
}

/// `GET /v1/evidence/<N>`: the N-th 256 documents, one a line. The page after the last one is empty, not missing, so that
/// whoever follows it need not know how many there are.
pub(super) async fn evidence(State(log): State<Arc<Log>>, page: Segments<String>) -> Response {
    let Some(page) = segments(page).ok().and_then(|page| merkle::decimal::parse_u64(&page)) else {
        return problem::not_found("a page of evidence has a decimal number without sign or leading zeroes")
            .into_response();
    };
    // Four issuers can make a page of 64 MiB, so one page at a time is brought into memory before it is counted.
    let _place = log.evidence_reads.acquire().await;
    let lines_of = |documents: Vec<String>| documents.iter().flat_map(|document| [document.as_str(), "\n"]).collect();
    let lines: Result<String, Problem> = reading(&log, move |log| log.shelf.evidence_page(page).map(lines_of)).await;
    match lines.and_then(|lines| log.answer_bytes.body(lines.into())) {
        Ok(body) => ([(header::CONTENT_TYPE, wire::NDJSON), (header::CACHE_CONTROL, "no-store")], body).into_response(),
        Err(failed) => failed.into_response(),
    }
}

async fn found(
    log: Arc<Log>,
    index_of: impl FnOnce(&dyn Shelf) -> Result<Option<LeafIndex>, StoreFault> + Send + 'static,
) -> Response {
    match reading(&log, move |log| look_up(log, index_of)).await {
        Ok(Some(found)) => (NO_STORE, Json(found)).into_response(),
        Ok(None) => problem::not_found("the log holds no such receipt").into_response(),
        Err(failed) => failed.into_response(),
    }
}

fn look_up(
    log: &Log,
    index_of: impl FnOnce(&dyn Shelf) -> Result<Option<LeafIndex>, StoreFault>,
) -> Result<Option<wire::Found>, StoreFault> {
    let Some(index) = index_of(log.shelf.as_ref())? else { return Ok(None) };
    // Indexed, and not yet under a head that anybody has seen: as good as not there.
    let Some(head) = log.publication.head_over(index.0) else { return Ok(None) };
    let Some(entry) = log.shelf.entry(index)? else { return Ok(None) };
    let receipt = Receipt::parse(&entry).map_err(|malformed| StoreFault(format!("entry {index}: {malformed}")))?;
    let found = answers::found(log.shelf.as_ref(), &receipt, index, &head).ok();
    // The hashes were read from disk, where they may have lain for years.
    found.filter(|found| leads_to(&head, &receipt, index, &found.proof)).map(Some).ok_or_else(|| log.shelf.doubt(index))
}

fn leads_to(head: &Head, receipt: &Receipt, index: LeafIndex, proof: &str) -> bool {
    let (size, root) = (head.checkpoint().size, head.checkpoint().root);
    TlogProof::parse(proof.as_bytes())
        .is_ok_and(|proof| proof.inclusion.verify(&receipt.id().0, index, size, &root).is_ok())
}

/// What stands in a path, percent-decoded; an error where that is not UTF-8, and so names nothing here.
type Segments<T> = Result<Path<T>, PathRejection>;

fn segments<T>(path: Segments<T>) -> Result<T, Problem> {
    path.map(|Path(segments)| segments).map_err(|error| problem::not_found(format!("{error}; percent-encode UTF-8")))
}

fn known(log: &Log, name: &str) -> Result<Known, Problem> {
    let name = IssuerName::new(name)
        .map_err(|error| problem::not_found(format!("{error}; write the issuer's name, percent-encoded")))?;
    log.registry.get(&name).ok_or_else(|| {
        Problem::new(
            StatusCode::NOT_FOUND,
            wire::CODE_UNKNOWN_ISSUER,
            "This issuer is not registered here",
            "the log knows no issuer of this name; the list is at /v1/issuers",
        )
    })
}

fn answer(known: &Known) -> IssuerAnswer {
    let state = &known.state;
    let issuer = wire::Issuer {
        name: state.name().to_string(),
        vkey: state.registered_key().to_string(),
        next_seq: state.next_seq().0,
        head: state.head().to_string(),
        last_issued_at: known.last_index.map(|_| state.last_issued_at().0),
        closed: state.is_closed(),
        first_index: known.first_index.map(|index| index.0),
        last_index: known.last_index.map(|index| index.0),
    };
    IssuerAnswer { issuer, listed: known.is_listed(), forks: known.forks }
}
