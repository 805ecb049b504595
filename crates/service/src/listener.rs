//! From a listening socket to a router, with a limit and a deadline on everything a peer can make us hold.
//!
//! `axum::serve` waits for headers and bodies for ever and reads what is too large before it says so, so the
//! connections are driven by hyper's own HTTP/1 builder with a timer. (Not the version-sniffing one: its
//! sniffing reads before any deadline runs, and both daemons speak HTTP/1 only.)
//!
//! Who gets a place, and who has to give one up, is [`crate::places`]' to say. A peer for whom there is none is
//! accepted, told 503 with `Retry-After`, and closed. Not accepting instead would leave health checks and honest
//! clients hanging in the backlog, unable to tell a full server from a dead one. (Under TLS it is closed without a
//! word: a handshake is more than a peer without a place is given.)

use crate::body::BoundedBody;
use crate::connection::{BoundedStream, Standing};
use crate::descriptors;
use crate::limits::Limits;
use crate::places::{Place, Places};
use crate::problem;
use crate::socket::{Listening, Socket};
use crate::tls::Tls;
use axum::Router;
use axum::body::Body;
use axum::extract::ConnectInfo;
use axum::response::Response;
use http::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, ToSocketAddrs};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

const CONNECTIONS: &str = "counterfoil_http_connections";
const TURNED_AWAY: &str = "counterfoil_http_connections_turned_away_total";
const GAVE_WAY: &str = "counterfoil_http_connections_gave_way_total";

/// Peers being turned away at once; beyond that they are closed without a word.
const TURNED_AWAY_AT_ONCE: usize = 64;
/// How long turning one away may take.
const TURN_AWAY_DEADLINE: Duration = Duration::from_secs(2);
/// Pause after the system could not give us a connection (no descriptors left, usually).
const ACCEPT_RETRY: Duration = Duration::from_millis(50);

/// Connections that may wait to be accepted: Linux's own default bound (`net.core.somaxconn`). A crowd that comes at once
/// is taken in faster than that fills; beyond it the system drops a peer's first packet, which costs him a second.
const BACKLOG: u32 = 4096;

/// Listens on `address`: a host and a port, as text or resolved.
///
/// # Errors
/// What the system says of the last address that the host has.
pub async fn bind(address: impl ToSocketAddrs) -> io::Result<TcpListener> {
    let mut last = io::Error::new(io::ErrorKind::AddrNotAvailable, "the host has no address");
    for resolved in tokio::net::lookup_host(address).await? {
        match listen(resolved) {
            Ok(listener) => return Ok(listener),
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    // Or a log that is started again could not listen while connections of the one before linger in the system.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// How a listener ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Drained {
    /// Connections that were still busy at the drain deadline and were cut.
    pub cut: usize,
}

/// [`Server::serve`] over plain HTTP.
pub async fn serve(
    listener: impl Into<Listening>,
    router: Router,
    limits: Limits,
    shutdown: impl Future<Output = ()>,
) -> Drained {
    Server { listener: listener.into(), router, limits, tls: None }.serve(shutdown).await
}

/// What is served where.
#[derive(Debug)]
pub struct Server {
    /// Where connections come from.
    pub listener: Listening,
    /// What answers them.
    pub router: Router,
    /// What they may make us hold.
    pub limits: Limits,
    /// With it every connection is TLS; without it every one is plain.
    pub tls: Option<Arc<Tls>>,
}

impl Server {
    /// Serves until `shutdown` resolves; then accepts nothing more, lets requests in flight finish for at most
    /// [`Limits::drain_deadline_ms`], and cuts the rest.
    ///
    /// Every request carries `ConnectInfo<SocketAddr>` and a body under the limits.
    pub async fn serve(self, shutdown: impl Future<Output = ()>) -> Drained {
        let Self { listener, router, limits, tls } = self;
        describe();
        let places = Places::new(
            descriptors::make_room_for(limits.connections),
            limits.connections_per_peer,
            limits.spare_loopback,
        );
        let turned_away = Arc::new(Semaphore::new(TURNED_AWAY_AT_ONCE));
        let stopping = CancellationToken::new();
        let mut connections = JoinSet::new();
        let in_use = metrics::gauge!(CONNECTIONS);
        let mut shutdown = pin!(shutdown);
        loop {
            let accepted = tokio::select! {
                () = &mut shutdown => break,
                accepted = listener.accept() => accepted,
                // Finished connections are collected as they end, or the set would grow for ever.
                Some(_) = connections.join_next() => {
                    in_use.set(places.in_use() as f64);
                    continue;
                }
            };
            let (stream, peer) = match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    tracing::warn!(%error, "no connection could be accepted");
                    tokio::time::sleep(ACCEPT_RETRY).await;
                    continue;
                }
            };
            match places.take(peer) {
                Ok(place) => {
                    in_use.set(places.in_use() as f64);
                    let connection = Connection {
                        stream,
                        peer,
                        place,
                        router: router.clone(),
                        limits,
                        tls: tls.clone(),
                        stopping: stopping.clone(),
                    };
                    connections.spawn(connection.run());
                }
                Err(full) => {
                    metrics::counter!(TURNED_AWAY, "limit" => full.as_str()).increment(1);
                    if tls.is_some() {
                        continue;
                    }
                    if let Ok(permit) = Arc::clone(&turned_away).try_acquire_owned() {
                        connections.spawn(async move {
                            let _ = timeout(TURN_AWAY_DEADLINE, turn_away(BoundedStream::new(stream, &limits))).await;
                            drop(permit);
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
        in_use.set(0.0);
        Drained { cut }
    }
}

fn describe() {
    metrics::describe_gauge!(CONNECTIONS, "Connections that are up");
    metrics::describe_counter!(TURNED_AWAY, "Connections for which there was no place, by the limit that was met");
    metrics::describe_counter!(GAVE_WAY, "Connections without a request that were closed in favour of new ones");
}

struct Connection {
    stream: Socket,
    peer: SocketAddr,
    place: Place,
    router: Router,
    limits: Limits,
    tls: Option<Arc<Tls>>,
    stopping: CancellationToken,
}

impl Connection {
    /// Holds its place to its end.
    async fn run(self) {
        let Self { stream, peer, place, router, limits, tls, stopping } = self;
        let standing = Standing::new(place.seat());
        let stream = BoundedStream::new(stream.without_delay(), &limits).telling(standing.clone());
        let exchange = Exchange { peer, router, limits, standing, stopping: stopping.clone() };
        let served = async {
            let Some(tls) = tls else { return exchange.run(stream).await };
            // The handshake is part of what has to be said before the deadline for headers.
            let handshake = timeout(limits.header_deadline(), tls.acceptor().accept(stream));
            let secured = tokio::select! {
                secured = handshake => secured,
                // No request has come: nothing to finish.
                () = stopping.cancelled() => return,
            };
            match secured {
                Ok(Ok(secured)) => exchange.run(secured).await,
                Ok(Err(error)) => tracing::debug!(%peer, %error, "no TLS could be agreed"),
                Err(_) => tracing::debug!(%peer, "the TLS handshake took too long"),
            }
        };
        tokio::select! {
            () = served => {}
            () = place.given_away() => {
                metrics::counter!(GAVE_WAY).increment(1);
                tracing::debug!(%peer, "closed while it let us wait, in favour of another connection");
            }
        }
    }
}

/// Requests and answers over one stream.
struct Exchange {
    peer: SocketAddr,
    router: Router,
    limits: Limits,
    standing: Standing,
    stopping: CancellationToken,
}

impl Exchange {
    async fn run(self, stream: impl AsyncRead + AsyncWrite + Unpin + Send) {
        let Self { peer, router, limits, standing, stopping } = self;
        let asked = AtomicBool::new(false);
        let service = service_fn(|request: Request<Incoming>| {
            asked.store(true, Ordering::Relaxed);
            standing.serving();
            let (answering, standing) = (answer(router.clone(), request, peer, limits, standing.clone()), &standing);
            async move {
                let answer = answering.await;
                standing.served();
                answer
            }
        });
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(limits.header_deadline())
            .max_header_size(limits.header_bytes)
            .serve_connection(TokioIo::new(stream), service);
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
    standing: Standing,
) -> Result<Response, Infallible> {
    let bounded = |body| BoundedBody::new(body, limits.body_bytes, limits.body_deadline(), standing);
    let mut request = request.map(|body| Body::new(bounded(body)));
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
