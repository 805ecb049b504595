//! `counterfoil sidecar`: a gate beside a program in any language, over loopback HTTP or a Unix socket.
//!
//! ```text
//! program ── JSON ──> guard (token, Host, Origin) ──> routes ──> client::Gate ──> outbox ··> log
//!                                                        └── scopes: allowed actions whose outcome is to come
//! ```
//!
//! Holds the settings, the sockets and the order of start and stop. What a decision or an outcome is, when it is durable and
//! how it gets to the log is `client::gate`'s.

mod calls;
mod guard;
mod places;
mod problems;
mod routes;
mod scopes;
mod sockets;

use crate::arguments::Sidecar as Arguments;
use crate::failure::Failure;
use crate::settings::Settings;
use client::gate::{Gate, GateConfig, WhenFull};
use guard::Guard;
pub(crate) use guard::Token;
use routes::Desk;
use scopes::Scopes;
use service::config::Flags;
use service::{ExitStatus, Limits, shutdown};
pub(crate) use sockets::{Where, loopback};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// How long a scope may go without an outcome when nobody says otherwise: longer than any call that a person waits for.
const LEASE_S: u64 = 600;
/// How long the last receipts may take to the log when the sidecar stops: they are safe in the outbox, and a supervisor
/// kills after some ten seconds.
const LAST_FLUSH: Duration = Duration::from_secs(3);
/// Milliseconds in which a body has to come: all callers are on this machine.
const BODY_DEADLINE_MS: u64 = 10_000;
/// Connections at once, of programs on this machine: with bodies of [`routes::MAX_BODY`] they hold 64 MiB at most.
const CONNECTIONS: usize = 256;

/// Serves until it is told to stop.
pub(crate) fn run(arguments: &Arguments) -> Result<ExitStatus, Failure> {
    let settings = Settings::load(&arguments.common, arguments.set_in(Flags::new()))?;
    let (where_to, lease) = (settings.sidecar()?, Duration::from_secs(settings.lease_s().unwrap_or(LEASE_S)));
    let mut config =
        GateConfig::new(settings.outbox()?, settings.key()?, settings.log_url_or_missing()?, settings.log_key()?);
    config.policy = settings.policy()?;
    config.heartbeat_ms = settings.heartbeat_ms();
    config.gate = Some(format!("counterfoil sidecar {}", env!("CARGO_PKG_VERSION")));
    config.max_queued = settings.max_queued().unwrap_or(config.max_queued);
    config.when_full = settings.when_full()?;
    let fails_open = config.when_full == WhenFull::FailOpen;
    let max_queued = config.max_queued;
    let limits = Limits {
        connections: CONNECTIONS,
        connections_per_peer: CONNECTIONS,
        body_bytes: routes::MAX_BODY,
        body_deadline_ms: settings.body_deadline_ms().unwrap_or(BODY_DEADLINE_MS),
        ..Limits::default()
    };
    limits.check().map_err(Failure::usage)?;
    service::metrics::install();
    service::metrics::describe_build("counterfoil sidecar", env!("CARGO_PKG_VERSION"));
    crate::runtime()?.block_on(async {
        let stopped = shutdown::requested().map_err(Failure::failed)?;
        // First the outbox's lock: whoever has it may take the place of a socket that a killed sidecar left.
        let gate = Gate::open(config)?;
        let bound = sockets::bind(&where_to).await?;
        let desk = Arc::new(Desk {
            gate: gate.clone(),
            scopes: Scopes::new(lease),
            places: places::Places::default(),
            fails_open,
            max_queued,
            stopping: AtomicBool::new(false),
        });
        let stop = CancellationToken::new();
        let mut serving = tokio::task::JoinSet::new();
        for (listener, said, token) in bound {
            let guard = Guard { token, by_address: said.is_address };
            let router = routes::router(Arc::clone(&desk), guard);
            anstream::eprintln!("listening on {}", said.text);
            serving.spawn(service::serve(listener, router, limits, stop.clone().cancelled_owned()));
        }
        let leases = tokio::spawn(scopes::close_overdue(Arc::clone(&desk)));
        let signal = stopped.await;
        tracing::info!(signal, "stopping");
        desk.stopping.store(true, std::sync::atomic::Ordering::Relaxed);
        stop.cancel();
        while serving.join_next().await.is_some() {}
        leases.abort();
        let open = desk.scopes.take_all();
        if !open.is_empty() {
            tracing::warn!(calls = open.len(), "calls have no outcome; it is written as unknown");
        }
        let parting = tokio::task::spawn_blocking(move || {
            for act in open {
                if let Err(error) = act.finish() {
                    tracing::error!(%error, "an outcome could not be written yet");
                }
            }
            if let Err(error) = gate.flush(LAST_FLUSH) {
                tracing::warn!(%error, "not everything has reached the log");
            }
            gate.close();
        });
        parting.await.map_err(Failure::failed)?;
        sockets::remove(&where_to);
        Ok(ExitStatus::Ok)
    })
}
