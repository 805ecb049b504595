//! Whether the log lives, and whether it does its work.

use crate::log::Log;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::{StatusCode, header};
use service::Problem;
use std::sync::Arc;

/// `GET /healthz`: the process answers.
pub(super) async fn alive() -> impl IntoResponse {
    ([(header::CACHE_CONTROL, "no-store")], "ok\n")
}

/// `GET /readyz`: 200 while commits go through and `/checkpoint` lags the newest signed head by no more than two intervals.
pub(super) async fn ready(State(log): State<Arc<Log>>) -> Response {
    let not_ready = |detail: &str| {
        Problem::new(StatusCode::SERVICE_UNAVAILABLE, "not-ready", "The log is not ready", detail)
            .retry_after_s(1)
            .into_response()
    };
    if !log.is_committing() {
        return not_ready("the log can no longer commit and is about to stop; start it again and look at its messages");
    }
    if log.publication.served().is_none() {
        return not_ready("the log has no head on offer yet; ask again in a moment");
    }
    if !log.publication.keeps_up() {
        return not_ready(
            "the offered head is more than two intervals behind the newest signed one; look at the log's load",
        );
    }
    ([(header::CACHE_CONTROL, "no-store")], "ready\n").into_response()
}
