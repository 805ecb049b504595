//! How much one peer, and all peers together, can make a daemon hold. One section of every daemon's
//! configuration; the listener enforces all of it.

use serde::{Deserialize, Serialize};
use std::time::Duration;

/// The limits of a listener. Every member has a default, so a configuration file names only what it changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Limits {
    /// Connections served at once. A further one is answered 503 and closed.
    pub connections: usize,
    /// Milliseconds from the first wait for a request to the end of its headers. It is also how long an
    /// idle kept-alive connection may stay open.
    pub header_deadline_ms: u64,
    /// Bytes of request line and headers together.
    pub header_bytes: usize,
    /// Bytes of a request body, whatever the route; routes set tighter limits of their own.
    pub body_bytes: u64,
    /// Milliseconds from the end of the headers to the end of the body.
    pub body_deadline_ms: u64,
    /// Milliseconds that a peer may leave an answer unread beyond what [`Limits::write_bytes_per_s`] allows it.
    pub write_deadline_ms: u64,
    /// The slowest reading rate that never runs into [`Limits::write_deadline_ms`].
    pub write_bytes_per_s: u64,
    /// Milliseconds that requests in flight get at shutdown before their connections are cut.
    pub drain_deadline_ms: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            // A connection costs two buffers of at most 16 KiB and a task: 1,024 of them stay below 64 MiB.
            connections: 1024,
            header_deadline_ms: 15_000,
            header_bytes: 16 * 1024,
            // The largest body of any call: a batch of receipts.
            body_bytes: 8 * 1024 * 1024,
            // 8 MiB in 60 s asks for 140 kB/s, which any link that a gate runs on has.
            body_deadline_ms: 60_000,
            write_deadline_ms: 10_000,
            // A full bundle of the longest entries is 16 MiB: at this rate, half a megabit, a peer may hold it for
            // four minutes and no longer, and a peer that reads nothing is cut after the deadline alone.
            write_bytes_per_s: 64 * 1024,
            drain_deadline_ms: 10_000,
        }
    }
}

impl Limits {
    pub(crate) fn header_deadline(&self) -> Duration {
        Duration::from_millis(self.header_deadline_ms)
    }

    pub(crate) fn body_deadline(&self) -> Duration {
        Duration::from_millis(self.body_deadline_ms)
    }

    pub(crate) fn drain_deadline(&self) -> Duration {
        Duration::from_millis(self.drain_deadline_ms)
    }
}
