//! `tlog-tiles`, and the heads in the same shape: path-only, immutable, cacheable for long.
//!
//! A partial tile is served in every width that a committed head covers, and in no other: it exists as soon as its
//! hashes do. A wider one than the log has is 404, and that answer is not to be kept, since it may exist a moment later.

use super::{path_of, reading};
use crate::log::Log;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use client::wire;
use http::header;
use merkle::ResourcePath;
use service::problem;
use std::sync::Arc;

/// What never changes may be kept for a year, which is how HTTP says "for ever".
const IMMUTABLE: &str = "public, max-age=31536000, immutable";

/// `GET /checkpoint`: the head on offer, with every cosignature it has. Moves, so nobody may keep it.
pub(super) async fn checkpoint(State(log): State<Arc<Log>>) -> Response {
    match log.publication.served() {
        Some(checkpoint) => {
            ([(header::CONTENT_TYPE, wire::TEXT), (header::CACHE_CONTROL, "no-store")], checkpoint).into_response()
        }
        None => problem::not_found("the log has signed no head yet; ask again in a moment").into_response(),
    }
}

/// `GET /tile/…` and `GET /heads/…`.
pub(super) async fn resource(State(log): State<Arc<Log>>, request: Request) -> Response {
    let Some(path) = ResourcePath::parse(path_of(&request)) else {
        return problem::not_found("this is no path of a tile, a bundle or a page of heads (see c2sp.org/tlog-tiles)")
            .into_response();
    };
    let body = match reading(&log, move |log| log.shelf.resource(&path)).await {
        Ok(Some(bytes)) => log.answer_bytes.body(bytes),
        Ok(None) => {
            return problem::not_found("the log does not reach this far; look at the size in its checkpoint")
                .into_response();
        }
        Err(failed) => return failed.into_response(),
    };
    match body {
        Ok(body) => ([(header::CONTENT_TYPE, wire::OCTETS), (header::CACHE_CONTROL, IMMUTABLE)], body).into_response(),
        Err(overloaded) => overloaded.into_response(),
    }
}
