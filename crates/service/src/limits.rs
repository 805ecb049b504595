//! How much one peer, and all peers together, can make a daemon hold. One section of every daemon's
//! configuration; the listener enforces all of it.

use serde::{Deserialize, Serialize};
use std::time::Duration;

/// The limits of a listener. Every member has a default, so a configuration file names only what it changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Limits {
    /// Connections served at once, fewer where the limit on open files is low. A further one takes the place of a peer that lets
    /// us wait; while all of them wait for us, it is answered 503 and closed.
    pub connections: usize,
    /// Connections of one address (of one /64, where it is an IPv6 address). A further one is answered 503 and closed. Where all
    /// clients come through one proxy on another machine, set it to [`Limits::connections`].
    pub connections_per_peer: usize,
    /// Whether peers on this machine may have more than [`Limits::connections_per_peer`]: they are proxies or our own.
    pub spare_loopback: bool,
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
            // A quarter: four addresses together can take all places, and one alone cannot keep the others out.
            connections_per_peer: 256,
            spare_loopback: true,
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

/// A limit with which no listener could do its work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("limits.{key} is {value}; it must be between {least} and {most}")]
pub struct LimitError {
    key: &'static str,
    value: u64,
    least: u64,
    most: u64,
}

impl Limits {
    /// Whether a listener can work with these: every daemon asks before it listens.
    ///
    /// # Errors
    /// [`LimitError`]: the first limit that is too small to answer anybody, or so large that it limits nothing.
    pub fn check(&self) -> Result<(), LimitError> {
        let a_day_ms = 24 * 60 * 60 * 1000;
        let rows = [
            ("connections", self.connections as u64, 1, 1 << 20),
            ("connections_per_peer", self.connections_per_peer as u64, 1, 1 << 20),
            ("header_deadline_ms", self.header_deadline_ms, 1, a_day_ms),
            // hyper reads into no less than 8 KiB, and a megabyte of headers on every connection is no limit any more.
            ("header_bytes", self.header_bytes as u64, 8 * 1024, 1 << 20),
            ("body_bytes", self.body_bytes, 1, 1 << 30),
            ("body_deadline_ms", self.body_deadline_ms, 1, a_day_ms),
            ("write_deadline_ms", self.write_deadline_ms, 1, a_day_ms),
            ("write_bytes_per_s", self.write_bytes_per_s, 1, 1 << 40),
            ("drain_deadline_ms", self.drain_deadline_ms, 0, a_day_ms),
        ];
        match rows.into_iter().find(|(_, value, least, most)| value < least || value > most) {
            Some((key, value, least, most)) => Err(LimitError { key, value, least, most }),
            None => Ok(()),
        }
    }

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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;

    #[test]
    fn limits_that_would_answer_nobody_or_limit_nothing_are_refused_by_name() {
        assert_eq!(Limits::default().check(), Ok(()));
        for (limits, key) in [
            (Limits { connections: 0, ..Limits::default() }, "limits.connections is 0"),
            // A semaphore of that many panics.
            (Limits { connections: usize::MAX >> 1, ..Limits::default() }, "limits.connections"),
            (Limits { header_bytes: 0, ..Limits::default() }, "limits.header_bytes is 0"),
            (Limits { body_bytes: 0, ..Limits::default() }, "limits.body_bytes"),
            (Limits { body_deadline_ms: u64::MAX, ..Limits::default() }, "limits.body_deadline_ms"),
        ] {
            let error = limits.check().unwrap_err().to_string();
            assert!(error.contains(key) && error.contains("between"), "{error}");
        }
    }
}
