//! What the tests of this part share.

#![allow(clippy::unwrap_used, clippy::panic)]

use super::walk::{Stop, Walk};
use bytes::Bytes;
use merkle::Frontier;
use receipt::{Roll, UnixMillis};
use tokio::sync::mpsc;

#[path = "../../tests/stage/full_log.rs"]
mod full_log;
pub(crate) use full_log::*;

/// Walks entries, a few at a time.
pub(crate) fn walk(entries: &[Bytes], roll: Roll) -> (Walk, Result<(), Stop>) {
    let mut walk = Walk::new(roll, Frontier::new());
    let (sender, receiver) = mpsc::channel(entries.len() + 1);
    entries.chunks(7).for_each(|some| sender.try_send(some.to_vec()).unwrap());
    drop(sender);
    // Not on a thread of a runtime: it blocks.
    let run = move || {
        let walked = walk.run(receiver, UnixMillis(NOW));
        (walk, walked)
    };
    std::thread::spawn(run).join().unwrap()
}

pub(crate) fn walked(entries: &[Bytes], roll: Roll) -> Walk {
    let (walk, walked) = walk(entries, roll);
    assert!(walked.is_ok(), "{walked:?}");
    walk
}
