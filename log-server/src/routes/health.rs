//! Whether the log lives, whether it does its work, and how it is.

use crate::instruments::Gauges;
use crate::log::Log;
use crate::readiness::Condition;
use crate::room::Room;
use axum::Router;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use http::{StatusCode, header};
use service::{Problem, metrics};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// What is asked when somebody wants to know how the log is.
#[derive(Clone)]
pub struct Vitals {
    /// The log.
    pub log: Arc<Log>,
    /// The room on its disk.
    pub room: Arc<Room>,
    /// True once it has been told to stop.
    pub draining: Arc<AtomicBool>,
    /// Its gauges.
    pub gauges: Gauges,
}

impl Vitals {
    fn condition(&self) -> Condition {
        Condition {
            committing: self.log.is_committing(),
            head_offered: self.log.publication.served().is_some(),
            offer_keeps_up: self.log.publication.keeps_up(),
            room: self.room.is_enough(),
            draining: self.draining.load(Ordering::Relaxed),
        }
    }
}

/// `/healthz`, `/readyz` and `/metrics`.
pub(super) fn routes(vitals: Vitals) -> Router {
    let watched = vitals.clone();
    Router::new()
        .route("/healthz", get(alive))
        .route("/readyz", get(ready))
        .with_state(vitals)
        .merge(metrics::routes_after(move || watched.gauges.set(watched.condition().reasons().is_empty())))
}

/// `GET /healthz`: the process answers.
async fn alive() -> impl IntoResponse {
    ([(header::CACHE_CONTROL, "no-store")], "ok\n")
}

/// `GET /readyz`: 200 while receipts are taken and heads offered; else 503, and every reason by name.
async fn ready(State(vitals): State<Vitals>) -> Response {
    let reasons = vitals.condition().reasons();
    let Some((_, gravest)) = reasons.first() else {
        return ([(header::CACHE_CONTROL, "no-store")], "ready\n").into_response();
    };
    let codes: Vec<&str> = reasons.iter().map(|(code, _)| *code).collect();
    Problem::new(StatusCode::SERVICE_UNAVAILABLE, "not-ready", "The log is not ready", *gravest)
        .with("reasons", codes)
        .retry_after_s(1)
        .into_response()
}
