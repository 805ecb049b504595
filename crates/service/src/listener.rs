//! From a listening socket to a router, with a limit and a deadline on everything a peer can make us hold.
//!
//! `axum::serve` sets no header or body deadline and answers an oversized `Content-Length` late, so the
//! connections are driven by hyper's own HTTP/1 builder with a timer. (Not the version-sniffing one: its
//! sniffing reads before any deadline runs, and both daemons speak HTTP/1 only, behind whatever
//! terminates TLS.)
//!
//! Above the connection cap a peer is accepted, told 503 with `Retry-After`, and closed. Not accepting
//! instead would leave health checks and honest clients hanging in the backlog, unable to tell a full
//! server from a dead one.

use crate::body::{BoundedBody, declared_length, too_large};
use crate::connection::BoundedStream;
use crate::limits::Limits;
use crate::problem;
use axum::Router;
use axum::body::Body;
use axum::extract::ConnectInfo;
use axum::response::{IntoResponse, Response};
use http::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use std::convert::Infallible;
use std::future::Future;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

/// Peers being turned away at once; beyond that they are closed without a word.
const TURNED_AWAY_AT_ONCE: usize = 64;
/// How long turning one away may take.
const TURN_AWAY_DEADLINE: Duration = Duration::from_secs(2);
/// Pause after the system could not give us a connection (no descriptors left, usually).
const ACCEPT_RETRY: Duration = Duration::from_millis(50);

/// How a listener ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Drained {
    /// Connections that were still busy at the drain deadline and were cut.
    pub cut: usize,
}

/// Serves `router` on `listener` until `shutdown` resolves; then accepts nothing more, lets requests in
/// flight finish for at most [`Limits::drain_deadline_ms`], and cuts the rest.
///
/// Every request carries `ConnectInfo<SocketAddr>` and a body under the limits.
pub async fn serve(
    listener: TcpListener,
    router: Router,
    limits: Limits,
    shutdown: impl Future<Output = ()>,
) -> Drained {
    let places = Arc::new(Semaphore::new(limits.connections));
    let turned_away = Arc::new(Semaphore::new(TURNED_AWAY_AT_ONCE));
    let stopping = CancellationToken::new();
    let mut connections = JoinSet::new();
    let mut shutdown = pin!(shutdown);
    loop {
        let accepted = tokio::select! {
            () = &mut shutdown => break,
            accepted = listener.accept() => accepted,
            // Finished connections are collected as they end, or the set would grow for ever.
            Some(_) = connections.join_next() => continue,
        };
        let (stream, peer) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!(%error, "no connection could be accepted");
                tokio::time::sleep(ACCEPT_RETRY).await;
                continue;
            }
        };
        match Arc::clone(&places).try_acquire_owned() {
            Ok(place) => {
                let connection =
                    Connection { stream, peer, router: router.clone(), limits, stopping: stopping.clone() };
                connections.spawn(async move {
                    connection.run().await;
                    drop(place);
                });
            }
            Err(_) => {
                metrics::counter!("counterfoil_http_connections_turned_away_total").increment(1);
                if let Ok(place) = Arc::clone(&turned_away).try_acquire_owned() {
                    connections.spawn(async move {
                        let _ = timeout(TURN_AWAY_DEADLINE, turn_away(BoundedStream::new(stream, &limits))).await;
                        drop(place);
                    });
                }
            }
        }
    }
    drop(listener);
    stopping.cancel();
    let all_ended = async { while connections.join_next().await.is_some() {} };
    let _ = timeout(limits.drain_deadline(), all_ended).await;
    let cut = connections.len();
    connections.shutdown().await;
    Drained { cut }
}

struct Connection {
    stream: TcpStream,
    peer: SocketAddr,
    router: Router,
    limits: Limits,
    stopping: CancellationToken,
}

impl Connection {
    async fn run(self) {
        let Self { stream, peer, router, limits, stopping } = self;
        // An answer is one small write or a few: waiting for more to send only adds latency.
        let _ = stream.set_nodelay(true);
        let asked = AtomicBool::new(false);
        let service = service_fn(|request: Request<Incoming>| {
            asked.store(true, Ordering::Relaxed);
            answer(router.clone(), request, peer, limits)
        });
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(limits.header_deadline())
            .max_header_size(limits.header_bytes)
            .serve_connection(TokioIo::new(BoundedStream::new(stream, &limits)), service);
        let mut connection = pin!(connection);
        let ended = tokio::select! {
            ended = connection.as_mut() => ended,
            () = stopping.cancelled() => {
                if !asked.load(Ordering::Relaxed) {
                    // No request has come: nothing to finish, and hyper would wait for one.
                    return;
                }
                connection.as_mut().graceful_shutdown();
                connection.await
            }
        };
        if let Err(error) = ended {
            tracing::debug!(%peer, %error, "connection ended early");
        }
    }
}

async fn answer(
    router: Router,
    request: Request<Incoming>,
    peer: SocketAddr,
    limits: Limits,
) -> Result<Response, Infallible> {
    if declared_length(request.headers()).is_some_and(|length| length > limits.body_bytes) {
        return Ok(too_large(limits.body_bytes).into_response());
    }
    let mut request = request.map(|body| Body::new(BoundedBody::new(body, limits.body_bytes, limits.body_deadline())));
    request.extensions_mut().insert(ConnectInfo(peer));
    router.oneshot(request).await
}

/// Says 503 to a peer above the cap and closes, without reading its request.
async fn turn_away(mut stream: BoundedStream) {
    let document =
        problem::overloaded("this server has all its connections in use; try again in a second").to_json().to_string();
    let answer = format!(
        "HTTP/1.1 503 Service Unavailable\r\ncontent-type: {}\r\ncontent-length: {}\r\nretry-after: 1\r\nconnection: close\r\n\r\n{document}",
        problem::PROBLEM_JSON,
        document.len(),
    );
    if let Err(error) = async {
        stream.write_all(answer.as_bytes()).await?;
        stream.shutdown().await
    }
    .await
    {
        tracing::debug!(%error, "a peer above the connection cap could not be told");
    }
}
