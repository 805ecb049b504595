//! Seeds, keys and hostile peers: what tests and the demo share, and what no production program links
//! except `counterfoil demo`, which needs something to catch.
//!
//! * [`faulty_disk`]: a disk in memory that fails, stops or forgets where a test wants it to.
//! * [`seeds`]: records in the shape of the sequence-attack scenarios, made by code of our own.
//! * [`malicious`]: a log that signs a second history.
//! * [`stage`]: a log, witnesses and a gate's key, each daemon a process of its own.
//! * [`shared_dir`]: where the known answers lie, when they lie beside the checkout.

pub mod faulty_disk;
pub mod malicious;
pub mod seeds;
pub mod stage;

use std::path::PathBuf;

/// The folder `shared/` beside the checkout, with known answers and real records, or `None` where the
/// checkout stands alone. A test that gets `None` says loudly on stderr that it checked less.
pub fn shared_dir() -> Option<PathBuf> {
    let dir = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared");
    dir.is_dir().then_some(dir)
}
