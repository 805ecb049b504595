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
//! * [`Cosigned`], [`TimestampFloor`]: what a witness signed, and when it may leave
//! * [`read_whole`], [`replace_whole`]: a small derived file, replaced as a whole
//! * [`EvidenceFile`]: evidence documents, for log and witness
//! * [`Sealed`]: a signature that nobody sees before it is durable
//!
//! Unix only: files are read and written at offsets, so that readers need no lock.

mod append_file;
pub mod commit;
mod cosigned;
mod count_file;
pub mod disk;
mod error;
mod evidence;
mod finding;
mod floor;
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
mod snapshot;
mod state;
mod tlog;
mod torn;
mod verify;
mod walk;
mod whole_file;

pub use cosigned::{Again, Cosigned};
pub use error::StoreError;
pub use evidence::{EVIDENCE_PAGE, EvidenceFile, EvidenceReader, MAX_DOCUMENT};
pub use finding::{Finding, Findings, Remedy};
pub use floor::{DurableTime, TimestampFloor};
pub use inspect::{StoreReport, inspect, rebuild_indexes};
pub use log_reader::LogReader;
pub use log_store::{CommittedBatch, LogInspection, LogRecovery, LogStore};
pub use reader::TlogReader;
pub use sealed::Sealed;
pub use snapshot::{Snapshot, Stream};
pub use tlog::{Appended, HeadCheck, Recovery, Tlog};
pub use verify::Inspection;
pub use whole_file::{read_whole, replace_whole};
