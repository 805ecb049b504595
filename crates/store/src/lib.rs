//! The durable store of a tiled log. The only crate, besides the gate's outbox, that writes files.
//!
//! Append-only data lies in append-only files, and those files are the log: an entry bundle is a byte range of
//! `entries`, a tile is a byte range of `hashes/<level>`. There is no second write-ahead log beside them.
//!
//! * [`Tlog`], [`TlogReader`]: a tiled log of opaque entries; serves the log and each witness's journal
//! * [`LogStore`], [`LogReader`]: the same for receipts, with look-up by issuer and seq and by receipt id
//! * [`Inspection`], [`LogInspection`]: what reading all of it again found
//! * [`inspect`], [`rebuild_indexes`]: the same for a store that nobody has open, place by place; and what is derived anew
//! * [`Snapshot`]: a log read beside whoever writes it
//! * [`commit`]: the order of a commit, as a machine
//! * [`disk`]: what is asked of a disk, so that tests can put another one underneath
//! * [`HeadSlots`]: the head that a witness holds for one log
//! * [`EvidenceFile`]: evidence documents, for log and witness
//! * [`Sealed`]: a signature that nobody sees before it is durable
//!
//! Unix only: files are read and written at offsets, so that readers need no lock.

mod append_file;
pub mod commit;
mod count_file;
pub mod disk;
mod error;
mod evidence;
mod finding;
mod ids;
mod ids_check;
mod ids_failure;
mod inspect;
mod issuer_index;
mod levels;
mod log_reader;
mod log_store;
mod look;
mod paged;
mod reader;
mod replay;
mod saver;
mod sealed;
mod served;
mod slots;
mod snapshot;
mod state;
mod tlog;
mod torn;
mod verify;
mod walk;

pub use error::StoreError;
pub use evidence::{EVIDENCE_PAGE, EvidenceFile, EvidenceReader};
pub use finding::{Finding, Findings, Remedy};
pub use inspect::{StoreReport, inspect, rebuild_indexes};
pub use log_reader::LogReader;
pub use log_store::{CommittedBatch, LogInspection, LogRecovery, LogStore};
pub use reader::TlogReader;
pub use sealed::Sealed;
pub use slots::{Cosigned, HeadSlots};
pub use snapshot::{Snapshot, Stream};
pub use tlog::{Appended, HeadCheck, Recovery, Tlog};
pub use verify::Inspection;
