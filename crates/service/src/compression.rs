//! Compressed answers, `gzip` or `zstd`, for clients that accept them.

use axum::Router;
use tower_http::CompressionLevel;
use tower_http::compression::CompressionLayer;

/// Lets the answers of `router` be compressed where the request accepts it. Meant for what many fetch and what is
/// large; a small answer that is made for one client is faster as it is.
///
/// At the fastest level: bundles of receipts shrink to a third or less with any, and answering is not to become the
/// most expensive thing that a peer can ask for.
pub fn compressed<S: Clone + Send + Sync + 'static>(router: Router<S>) -> Router<S> {
    router.layer(CompressionLayer::new().gzip(true).zstd(true).quality(CompressionLevel::Fastest))
}
