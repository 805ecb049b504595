//! Submissions: one receipt, or a batch of them.

use super::store_failed;
use crate::answers::{self, EdgeFirst};
use crate::committer::Outcome;
use crate::ledger::Committed;
use crate::located::Located;
use crate::log::Log;
use crate::negotiation::{Form, Wait};
use crate::publication::Head;
use crate::refusal::NotTaken;
use axum::Json;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use client::wire;
use futures_util::stream;
use http::{HeaderName, StatusCode, header};
use merkle::EdgeTree;
use receipt::MAX_ENTRY;
use service::{Problem, body};
use std::io;
use std::sync::Arc;
use std::time::Duration;
use std::vec;

/// Receipts in one batch. No receipt is shorter than 200 bytes (six lines, an id, a signature line), so a batch of
/// more holds something else, and would be answered with many times its own size.
const MAX_BATCH_RECEIPTS: usize = wire::MAX_BATCH_BYTES / 200;

/// Verdicts written as one piece: about 64 KiB of proofs.
const VERDICTS_AT_ONCE: usize = 64;

/// How long whoever has shown no issuer's key waits for the refusal.
const KEYLESS_WAIT: Duration = Duration::from_millis(250);

/// RFC 7240's answer to `Prefer`.
const PREFERENCE_APPLIED: HeaderName = HeaderName::from_static("preference-applied");

/// `POST /v1/receipts`.
pub(super) async fn submit(State(log): State<Arc<Log>>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let (wait, form) = (Wait::of(&parts.headers), Form::of(&parts.headers));
    if wait == Wait::Cosigned && !log.can_be_cosigned {
        return Problem::new(
            StatusCode::NOT_IMPLEMENTED,
            wire::CODE_NO_WITNESSES,
            "This log has no witnesses",
            "nothing was taken; submit with `Prefer: wait=integrated`, or have the operator configure witnesses",
        )
        .into_response();
    }
    let entry = match body::read(&parts.headers, body, MAX_ENTRY as u64).await {
        Ok(entry) => entry,
        Err(problem) => return problem.into_response(),
    };
    let (located, Committed { head, edge }) = match log.submit(entry).await {
        Outcome::Included { located, under, .. } => (located, under),
        Outcome::NotTaken(reason) => {
            slow_down_if(reason.is_keyless()).await;
            return reason.to_problem().into_response();
        }
        // Nothing comes before the only one.
        Outcome::Skipped(_) => return NotTaken::Stopping.to_problem().into_response(),
    };
    match wait {
        Wait::Integrated => included(&log, &edge, &located, &head, form),
        Wait::Cosigned => match tokio::time::timeout(log.cosigned_wait, log.publication.cosigned_over(located.index.0))
            .await
        {
            Ok(cosigned) => {
                let mut response = included(&log, &edge, &located, &cosigned, form);
                response.headers_mut().insert(PREFERENCE_APPLIED, http::HeaderValue::from_static(wire::WAIT_COSIGNED));
                response
            }
            Err(_) => not_cosigned_in_time(&log, &edge, &located, &head),
        },
    }
}

/// Lets keyless traffic wait for its answer: a flood of it then costs at most four signature checks a second and
/// connection, and a gate that is not listed yet notices nothing.
async fn slow_down_if(is_keyless: bool) {
    if is_keyless {
        tokio::time::sleep(KEYLESS_WAIT).await;
    }
}

fn included(log: &Log, edge: &EdgeTree, located: &Located, head: &Head, form: Form) -> Response {
    let answer = match answers::included(&EdgeFirst { edge, store: log.shelf.as_ref() }, located, head) {
        Ok(answer) => answer,
        Err(error) => return store_failed(&error).into_response(),
    };
    let no_store = [(header::CACHE_CONTROL, "no-store"), (header::VARY, "accept, prefer")];
    match form {
        Form::Text => (no_store, [(header::CONTENT_TYPE, wire::TEXT)], answer.proof).into_response(),
        Form::Json => (no_store, Json(answer)).into_response(),
    }
}

/// The receipt is in the log, and the proof says so; only the quorum is missing. A problem document in either form, since
/// what the submitter asked for it did not get.
fn not_cosigned_in_time(log: &Log, edge: &EdgeTree, located: &Located, head: &Head) -> Response {
    let answer = match answers::included(&EdgeFirst { edge, store: log.shelf.as_ref() }, located, head) {
        Ok(answer) => answer,
        Err(error) => return store_failed(&error).into_response(),
    };
    Problem::new(
        StatusCode::GATEWAY_TIMEOUT,
        wire::CODE_NOT_COSIGNED_IN_TIME,
        "The quorum was not met in time",
        "the receipt is in the log and `proof` shows it; look the receipt up later for a cosigned proof",
    )
    .with("index", answer.index)
    .with("issuer", answer.issuer)
    .with("seq", answer.seq)
    .with("id", answer.id)
    .with("proof", answer.proof)
    .into_response()
}

/// `POST /v1/receipts/batch`.
pub(super) async fn submit_batch(State(log): State<Arc<Log>>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let limit = wire::MAX_BATCH_BYTES as u64;
    let (bundle, taken) = match body::read_within(&parts.headers, body, limit, &log.batch_bytes).await {
        Ok(bundle) => bundle,
        Err(problem) => return problem.into_response(),
    };
    let entries = match entries_of(&bundle) {
        Ok(entries) => entries,
        Err(problem) => return problem.into_response(),
    };
    let outcomes = match log.submit_batch(entries).await {
        Ok(outcomes) => outcomes,
        Err(reason) => return reason.to_problem().into_response(),
    };
    slow_down_if(outcomes.iter().any(|outcome| matches!(outcome, Outcome::NotTaken(reason) if reason.is_keyless())))
        .await;
    // The outcomes hold at most about as much as the batch did, for as long as the verdicts are being read.
    let state = (Arc::clone(&log), outcomes.into_iter(), taken);
    let lines = stream::unfold(state, |(log, mut rest, taken)| async move {
        let piece = next_piece(&mut rest)?;
        // An error ends the connection inside the answer: a client that counts its verdicts sees it.
        let written = log.reading(move |log| write_verdicts(log.shelf.as_ref(), &piece)).await;
        let written = written.unwrap_or_else(|| Err(io::Error::other("a read ended unexpectedly")));
        Some((written, (log, rest, taken)))
    });
    ([(header::CONTENT_TYPE, wire::NDJSON), (header::CACHE_CONTROL, "no-store")], Body::from_stream(lines))
        .into_response()
}

fn entries_of(bundle: &Bytes) -> Result<Vec<Bytes>, Problem> {
    if count_entries(bundle) > MAX_BATCH_RECEIPTS {
        return Err(Problem::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            "too-many",
            "The batch holds too many strings",
            format!("send at most {MAX_BATCH_RECEIPTS} receipts in one batch"),
        ));
    }
    let entries = merkle::decode_entries(bundle).map_err(|cut| {
        Problem::new(
            StatusCode::BAD_REQUEST,
            "malformed",
            "These bytes are no batch",
            format!("{cut}; a batch is u16 length, entry, and so on"),
        )
    })?;
    Ok(entries.into_iter().map(|entry| bundle.slice_ref(entry)).collect())
}

/// How many strings a bundle holds, at most. Counted before anything is set aside for them.
fn count_entries(bundle: &[u8]) -> usize {
    let (mut count, mut rest) = (0, bundle);
    while let [high, low, after @ ..] = rest {
        count += 1;
        rest = after.get(usize::from(u16::from_be_bytes([*high, *low]))..).unwrap_or_default();
    }
    count
}

fn next_piece(rest: &mut vec::IntoIter<Outcome>) -> Option<Vec<Outcome>> {
    let piece: Vec<Outcome> = rest.by_ref().take(VERDICTS_AT_ONCE).collect();
    (!piece.is_empty()).then_some(piece)
}

fn write_verdicts(hashes: &dyn merkle::HashSource, outcomes: &[Outcome]) -> io::Result<Bytes> {
    let mut lines = Vec::new();
    for outcome in outcomes {
        let verdict = answers::verdict(hashes, outcome).map_err(io::Error::other)?;
        serde_json::to_writer(&mut lines, &verdict).map_err(io::Error::other)?;
        lines.push(b'\n');
    }
    Ok(lines.into())
}
