//! What the gate refuses, as problem documents: the codes are the same in every SDK, the status is said here.

use client::gate::GateError;
use http::StatusCode;
use service::Problem;

/// The refusal that an error of the gate is answered with.
pub(super) fn of(error: &GateError) -> Problem {
    let code = error.code();
    let (status, title) = match code {
        "malformed" => (StatusCode::BAD_REQUEST, "This cannot become a receipt"),
        "credential-shaped" => (StatusCode::UNPROCESSABLE_ENTITY, "A value looks like a credential"),
        "decision-claims" => (StatusCode::UNPROCESSABLE_ENTITY, "The decision claims what it must not"),
        "scope-only" | "reserved-type" => (StatusCode::UNPROCESSABLE_ENTITY, "The gate writes this receipt by itself"),
        "no-such-decision" => (StatusCode::CONFLICT, "No decision waits for this"),
        "history-moved" => (StatusCode::CONFLICT, "The gate has decided on a subject since its history was read"),
        "history-too-large" => (StatusCode::UNPROCESSABLE_ENTITY, "The history is too large"),
        "history-unavailable" => (StatusCode::SERVICE_UNAVAILABLE, "No head of the log can be believed now"),
        "outbox-full" => (StatusCode::SERVICE_UNAVAILABLE, "The outbox is full"),
        "outbox-disk" => (StatusCode::SERVICE_UNAVAILABLE, "The disk refuses"),
        "outbox-stopped" => (StatusCode::SERVICE_UNAVAILABLE, "The gate has stopped"),
        "log-unreachable" => (StatusCode::GATEWAY_TIMEOUT, "The log has not taken everything yet"),
        "not-a-log" | "streams-differ" | "outbox-behind" | "log-lost" | "bad-proof" | "log-fork"
        | "log-rolled-back" => (StatusCode::BAD_GATEWAY, "The log does what no log does"),
        "closed" => (StatusCode::CONFLICT, "The stream has ended"),
        _ => (StatusCode::INTERNAL_SERVER_ERROR, "The gate failed"),
    };
    if status.is_server_error() {
        tracing::warn!(code, %error, "a call was refused");
    }
    let problem = Problem::new(status, code, title, error.to_string());
    if status == StatusCode::SERVICE_UNAVAILABLE { problem.retry_after_s(1) } else { problem }
}

/// The caller wrote something that is no call.
pub(super) fn malformed(detail: impl Into<String>) -> Problem {
    Problem::new(StatusCode::BAD_REQUEST, "malformed", "This is no call", detail)
}

/// A scope that is not open.
pub(super) fn no_such_scope() -> Problem {
    Problem::new(
        StatusCode::NOT_FOUND,
        "no-such-decision",
        "No open scope has this token",
        "the scope was ended, its lease ran out, the sidecar was started again since, or it never was; its outcome, if one was \
         due, is written: ask nothing more of it",
    )
}
