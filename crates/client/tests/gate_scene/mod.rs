//! A gate whose clock stands still and whose patience is short, and what it left on its disk.
#![allow(dead_code, unreachable_pub, clippy::unwrap_used, clippy::panic)]

use crate::strict_log::log_key;
use client::gate::{Decision, Gate, GateConfig};
use client::outbox::Outbox;
use client::{GateDescription, Patience, Timeouts};
use note::{KeyKind, KeyName, SigningKey};
use receipt::{Receipt, SeqNo, UnixMillis};
use serde_json::Value;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

pub const NOW: u64 = 1_790_000_000_000;
/// More than any machine takes.
pub const LONG: Duration = Duration::from_secs(600);

pub fn key() -> SigningKey {
    named_key(1)
}

pub fn named_key(seed: u8) -> SigningKey {
    SigningKey::from_seed(KeyName::new("gate.example/support-1").unwrap(), KeyKind::Ed25519, [seed; 32])
}

/// A gate whose log is nowhere.
pub fn config(dir: &Path) -> GateConfig {
    to(dir, "http://127.0.0.1:9/")
}

pub fn to(dir: &Path, url: &str) -> GateConfig {
    let mut config = GateConfig::new(dir, key(), url.parse().unwrap(), log_key().verifier());
    config.clock = Arc::new(|| UnixMillis(NOW));
    config.timeouts = Timeouts { connect: LONG, total: LONG };
    config.patience = Patience {
        first_pause: Duration::from_millis(2),
        longest_pause: Duration::from_millis(20),
        ..Patience::default()
    };
    config
}

pub fn open(dir: &Path) -> Gate {
    Gate::open(config(dir)).unwrap()
}

pub fn allow(request_id: &str) -> Decision {
    Decision::new(true).request_id(request_id)
}

/// Looks until something is there, however long that takes.
pub fn wait_for<T>(mut look: impl FnMut() -> Option<T>) -> T {
    loop {
        if let Some(found) = look() {
            return found;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Waits until the outcomes that an earlier process left are written.
pub fn wait_until_nothing_is_owed(gate: &Gate) {
    wait_for(|| (gate.status().unwrap().owed == 0).then_some(()));
}

pub fn body(receipt: &Receipt) -> Value {
    serde_json::from_str(receipt.body_text()).unwrap()
}

/// The bodies from seq 1 on.
pub fn bodies(dir: &Path) -> Vec<Value> {
    let outbox = Outbox::open(dir, key(), GateDescription::default()).unwrap();
    (1..outbox.next_seq().unwrap().0).map(|seq| body(&outbox.receipt(SeqNo(seq)).unwrap().unwrap())).collect()
}

/// A copy of an outbox as it is now, with nothing of what its log proved.
pub fn copy_of(dir: &Path) -> tempfile::TempDir {
    let copy = tempfile::tempdir().unwrap();
    std::fs::copy(dir.join("receipts"), copy.path().join("receipts")).unwrap();
    copy
}
