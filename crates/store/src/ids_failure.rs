//! What it means for the id index that redb failed: whether its file may be opened again. Does not hold what is done then.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Too many open files, in this process and in the system.
const EMFILE: i32 = 24;
const ENFILE: i32 = 23;

/// What redb did not do.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    pub(crate) why: String,
    /// The file is to blame, not what the system could not give at that moment.
    pub(crate) is_rot: bool,
}

impl Failure {
    /// Something that another attempt may not meet.
    pub(crate) fn passing(why: impl ToString) -> Failure {
        Failure { why: why.to_string(), is_rot: false }
    }
}

impl From<redb::Error> for Failure {
    /// What there was no room, memory or file for may be sound; everything else is rather made again than believed.
    fn from(error: redb::Error) -> Failure {
        let is_rot = match &error {
            redb::Error::Io(source) => {
                let wants = matches!(
                    source.kind(),
                    io::ErrorKind::StorageFull
                        | io::ErrorKind::QuotaExceeded
                        | io::ErrorKind::ReadOnlyFilesystem
                        | io::ErrorKind::OutOfMemory
                );
                !wants && !matches!(source.raw_os_error(), Some(EMFILE | ENFILE))
            }
            redb::Error::PreviousIo
            | redb::Error::DatabaseClosed
            | redb::Error::DatabaseAlreadyOpen
            | redb::Error::LockProtocolMismatch => false,
            _ => true,
        };
        Failure { why: error.to_string(), is_rot }
    }
}

/// Does it; redb panics over some pages that have rotted.
pub(crate) fn guarded<T>(work: impl FnOnce() -> Result<T, Failure>) -> Result<T, Failure> {
    let panicked = || Failure { why: "redb panicked".to_owned(), is_rot: true };
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| Err(panicked()))
}
