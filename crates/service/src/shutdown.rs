//! Signals: SIGTERM and SIGINT stop a daemon, SIGHUP makes it read its lists again.
//!
//! Handlers are in place when these functions return, not when their futures are first polled, so a signal
//! that comes early is not the default's to handle.

use std::future::Future;
use std::io;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Resolves with the signal's name at the first SIGTERM or SIGINT.
///
/// # Errors
/// The system refused a handler.
pub fn requested() -> io::Result<impl Future<Output = &'static str> + Send + 'static> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => "SIGTERM",
            _ = interrupt.recv() => "SIGINT",
        }
    })
}

/// The SIGHUPs of this process.
#[derive(Debug)]
pub struct Reloads(Signal);

impl Reloads {
    /// Waits for the next SIGHUP. Several that come while one is being served count as one.
    pub async fn next(&mut self) -> Option<()> {
        self.0.recv().await
    }
}

/// Takes over SIGHUP.
///
/// # Errors
/// The system refused the handler.
pub fn reloads() -> io::Result<Reloads> {
    Ok(Reloads(signal(SignalKind::hangup())?))
}
