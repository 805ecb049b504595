//! Metrics: one recorder a process, shown as Prometheus text; and what every daemon measures about HTTP.

use axum::Router;
use axum::extract::{MatchedPath, Request};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use http::header;
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};
use std::sync::OnceLock;
use std::time::Instant;

/// Upper bounds of the latency histogram, in seconds: an answer from memory takes well under a
/// millisecond, one that waits for an fsync a few, one that waits for witnesses up to seconds.
const LATENCY_BUCKETS_S: [f64; 12] = [0.000_5, 0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 2.5, 10.0];

static RECORDER: OnceLock<Option<PrometheusHandle>> = OnceLock::new();

/// Starts recording; calling it again is harmless. `false` if another recorder was installed before.
pub fn install() -> bool {
    handle().is_some()
}

/// `GET /metrics`, as a router to merge.
pub fn routes<S: Clone + Send + Sync + 'static>() -> Router<S> {
    Router::new().route("/metrics", get(|| async { render().into_response() }))
}

/// Counts and times every request of `router`, by route (not by path: paths are unbounded).
pub fn observe(router: Router) -> Router {
    router.layer(middleware::from_fn(observe_one))
}

async fn observe_one(request: Request, next: Next) -> Response {
    let route =
        request.extensions().get::<MatchedPath>().map_or_else(|| "none".to_owned(), |path| path.as_str().to_owned());
    let started = Instant::now();
    let response = next.run(request).await;
    let status = response.status().as_u16().to_string();
    metrics::histogram!("counterfoil_http_request_seconds", "route" => route.clone())
        .record(started.elapsed().as_secs_f64());
    metrics::counter!("counterfoil_http_requests_total", "route" => route, "status" => status).increment(1);
    response
}

fn render() -> impl IntoResponse {
    let text = handle().map(|handle| {
        handle.run_upkeep();
        handle.render()
    });
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], text.unwrap_or_default())
}

fn handle() -> Option<&'static PrometheusHandle> {
    RECORDER
        .get_or_init(|| {
            let recorder = PrometheusBuilder::new().set_buckets(&LATENCY_BUCKETS_S).ok()?.build_recorder();
            let handle = recorder.handle();
            metrics::set_global_recorder(recorder).ok()?;
            Some(handle)
        })
        .as_ref()
}
