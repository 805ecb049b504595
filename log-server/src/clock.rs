//! The wall clock: the one place of the log that reads it. It judges `future-dated` and nothing else; what is paced
//! (offers, deadlines) goes by the monotonic clock.

use receipt::UnixMillis;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

/// Where the time comes from.
#[derive(Clone)]
pub struct Clock(Arc<dyn Fn() -> UnixMillis + Send + Sync>);

impl Clock {
    /// The system's clock.
    pub fn system() -> Self {
        Self::from_fn(|| {
            let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            UnixMillis(u64::try_from(since_epoch.as_millis()).unwrap_or(u64::MAX))
        })
    }

    /// Any other, for tests.
    pub fn from_fn(now: impl Fn() -> UnixMillis + Send + Sync + 'static) -> Self {
        Self(Arc::new(now))
    }

    /// Milliseconds since the Unix epoch.
    pub fn now(&self) -> UnixMillis {
        (self.0)()
    }
}

impl std::fmt::Debug for Clock {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Clock")
    }
}
