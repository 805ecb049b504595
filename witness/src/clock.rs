//! The clock, handed to whoever needs the time, and the rule for cosignature timestamps.
//!
//! [`Clock::system`] is the only place that reads the wall clock; everything else is told.

use std::fmt;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

/// Tells milliseconds since the Unix epoch.
#[derive(Clone)]
pub struct Clock(Arc<dyn Fn() -> u64 + Send + Sync>);

impl Clock {
    /// The machine's clock. A time before the epoch, or beyond the range, is told as 0: not set.
    pub fn system() -> Clock {
        Clock::new(|| {
            SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .ok()
                .and_then(|since| u64::try_from(since.as_millis()).ok())
                .unwrap_or(0)
        })
    }

    /// A clock that tells what `now_ms` says.
    pub fn new(now_ms: impl Fn() -> u64 + Send + Sync + 'static) -> Clock {
        Clock(Arc::new(now_ms))
    }

    /// Milliseconds since the epoch.
    pub fn now_ms(&self) -> u64 {
        (self.0)()
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Clock")
    }
}

/// The timestamp, in seconds since the epoch, of a cosignature made at `now_ms`, after one at `last_s` (if any) for
/// the same log. It never goes back, whatever the clock does, and is never 0: `None` if the clock is not set and
/// there is nothing to go by.
pub fn next_timestamp_s(now_ms: u64, last_s: Option<u64>) -> Option<u64> {
    let next = (now_ms / 1000).max(last_s.unwrap_or(0));
    (1..=note::MAX_TIMESTAMP_S).contains(&next).then_some(next)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timestamps_follow_the_clock_and_never_go_back() {
        assert_eq!(next_timestamp_s(1_790_000_000_999, None), Some(1_790_000_000));
        assert_eq!(next_timestamp_s(1_790_000_000_999, Some(1_789_999_999)), Some(1_790_000_000));
        assert_eq!(next_timestamp_s(1_000_000, Some(1_790_000_000)), Some(1_790_000_000));
        assert_eq!(next_timestamp_s(0, Some(5)), Some(5));
    }

    #[test]
    fn a_clock_that_is_not_set_gives_no_timestamp() {
        assert_eq!(next_timestamp_s(0, None), None);
        assert_eq!(next_timestamp_s(999, None), None);
    }

    #[test]
    fn the_system_clock_is_set() {
        assert!(Clock::system().now_ms() > 1_600_000_000_000);
    }
}
