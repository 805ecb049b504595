//! The wall clock: the one place of this program that reads it. It dates receipts and alarms.

use receipt::UnixMillis;
use std::time::{SystemTime, UNIX_EPOCH};

/// Milliseconds since the Unix epoch by this machine's clock; 0 where that is set before it.
pub(crate) fn now() -> UnixMillis {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    UnixMillis(u64::try_from(since_epoch.as_millis()).unwrap_or(u64::MAX))
}
