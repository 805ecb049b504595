//! The log over HTTP: which path is answered by whom. The read side lies at the log's prefix, the write side and the
//! look-ups under `/v1`.

mod admin;
mod health;
mod lookups;
mod read_side;
mod write_side;

use crate::admin::{AdminToken, IssuerList};
use crate::ledger::StoreFault;
use crate::log::Log;
use crate::room::WhileThereIsRoom;
use axum::Router;
use axum::extract::Request;
use axum::routing::{get, post};
pub use health::Vitals;
use http::StatusCode;
use service::{Problem, compression, observed, problem};
use std::sync::Arc;

/// All routes of the log that `vitals` are of; those of `admin` if there is a token for them.
pub fn router(vitals: Vitals, admin: Option<(Arc<IssuerList>, AdminToken)>) -> Router {
    let log = Arc::clone(&vitals.log);
    let room = WhileThereIsRoom(Arc::clone(&vitals.room));
    let read_side = Router::new()
        .route("/checkpoint", get(read_side::checkpoint))
        .route("/tile/{*path}", get(read_side::resource))
        .route("/heads/{*path}", get(read_side::resource))
        .route("/v1/evidence/{page}", get(lookups::evidence));
    let write_side = Router::new()
        .route("/v1/receipts", post(write_side::submit).layer(room.clone()))
        .route("/v1/receipts/batch", post(write_side::submit_batch).layer(room))
        .route("/v1/receipts/{id}", get(lookups::receipt_by_id))
        .route("/v1/issuers", get(lookups::issuers))
        .route("/v1/issuers/{name}", get(lookups::issuer))
        .route("/v1/issuers/{name}/receipts/{seq}", get(lookups::receipt_by_seq));
    let served = compression::compressed(read_side).merge(write_side).with_state(log).merge(health::routes(vitals));
    let all = admin.into_iter().fold(served, |served, (list, token)| served.merge(admin::routes(list, token)));
    observed::observe(problem::with_fallbacks(all))
}

/// The store could not be read: our fault, and not one that asking again mends.
fn store_failed(error: &dyn std::fmt::Display) -> Problem {
    tracing::error!(%error, "the store could not be read");
    Problem::new(
        StatusCode::INTERNAL_SERVER_ERROR,
        "store",
        "The log's store could not be read",
        "tell the log's operator; the log's own messages say what is wrong",
    )
}

/// Runs a read of the store where it may take its time.
async fn reading<T: Send + 'static>(
    log: &Arc<Log>,
    read: impl FnOnce(&Log) -> Result<T, StoreFault> + Send + 'static,
) -> Result<T, Problem> {
    match log.reading(read).await {
        Some(Ok(read)) => Ok(read),
        Some(Err(fault)) => Err(store_failed(&fault)),
        None => Err(store_failed(&"a read ended unexpectedly")),
    }
}

/// The path as it stands in the request, without its slash in front: matched byte for byte, so that no two spellings
/// name one resource.
fn path_of(request: &Request) -> &str {
    request.uri().path().strip_prefix('/').unwrap_or_default()
}
