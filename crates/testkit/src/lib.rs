//! Seeds, keys and hostile peers: what tests and the demo share, and what no production program links
//! except `counterfoil demo`, which needs something to catch.
//!
//! * [`faulty_disk`]: a disk in memory that fails, stops or forgets where a test wants it to.
//! * [`seeds`]: records in the shape of the sequence-attack scenarios, made by code of our own.
//! * [`signed_records`]: receipts of the signed formats of other systems, made by code and with keys of our own.
//! * [`liar`]: a log with several histories and a script of who is shown which, or that merely fails.
//! * [`malicious`]: a second history made out of a copy of an honest log.
//! * [`vectors`]: what every implementation of the formats must agree on, as files of JSON.
//! * [`world`]: whole worlds in memory from a seed, honest, attacked and damaged, and the bundles of them.
//! * [`stage`]: a log, witnesses and a gate's key, each daemon a process of its own.
//! * [`shared_dir`]: where the known answers lie, when they lie beside the checkout.

#[cfg(feature = "peers")]
pub mod faulty_disk;
#[cfg(feature = "peers")]
pub mod liar;
#[cfg(feature = "peers")]
pub mod malicious;
pub mod seeds;
pub mod signed_records;
#[cfg(feature = "peers")]
pub mod stage;
pub mod vectors;
pub mod world;

use std::path::PathBuf;

/// The folder `shared/` beside the checkout, with known answers and real records, or `None` where the
/// checkout stands alone. A test that gets `None` says loudly on stderr that it checked less.
pub fn shared_dir() -> Option<PathBuf> {
    let dir = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared");
    dir.is_dir().then_some(dir)
}
