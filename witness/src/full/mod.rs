//! Level `full`: every entry of a log fetched and put to the rule of admission before its head is cosigned (protocol,
//! sections 4 and 6).
//!
//! * [`Checker`]: one log's, from the last size that was checked to the head's
//! * [`Checks`]: the same beside a loop that goes on
//! * [`EntryChecks`]: these for each log of a configuration
//! * `walk`: the rule over entries in order, on all cores
//! * `saved`: what is known after them, on disk
//! * `accuse`: documents for whoever does not believe us
//! * [`read_issuers`]: the list of those who exist
//!
//! An entry that breaks the rule is the log's fault only if it is in a tree that the log signed. Bundles that do not hash to
//! the head, come late or not at all accuse nobody.

mod accuse;
mod checker;
mod issuers;
mod logs;
#[cfg(test)]
mod sample;
mod saved;
#[cfg(test)]
mod tests;
mod underway;
mod walk;

pub use accuse::Breaks;
pub use checker::{CatchUp, Checker, EntriesCheck};
pub use issuers::{IssuersError, read_issuers};
pub use logs::{EntryChecks, Lists};
pub use underway::Checks;
