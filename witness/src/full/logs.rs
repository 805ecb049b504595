//! What checks the entries of which log: made from the configuration, log by log.

use super::checker::Checker;
use super::issuers::{IssuersError, read_issuers};
use super::underway::Checks;
use crate::settings::{Level, WatchedLog};
use client::witness::origin_hash;
use note::{KeyName, Origin, VerifierKey};
use std::collections::HashMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use store::disk::Disk;

/// The issuers that exist, by the log's name, of each log that has a list.
pub type Lists = HashMap<KeyName, Arc<[VerifierKey]>>;

/// Makes checks of logs' entries.
pub struct EntryChecks {
    disk: Arc<dyn Disk>,
    state: PathBuf,
    base: PathBuf,
}

impl EntryChecks {
    /// Checks that keep what they know in the directory `state` on `disk`, for a configuration in the directory `base`.
    pub fn new(disk: Arc<dyn Disk>, state: PathBuf, base: PathBuf) -> EntryChecks {
        EntryChecks { disk, state, base }
    }

    /// Reads the lists of issuers of `logs`.
    ///
    /// # Errors
    /// [`IssuersError`]: the first that cannot be used.
    pub fn read_lists(&self, logs: &[WatchedLog]) -> Result<Lists, IssuersError> {
        let listed = logs.iter().filter_map(|log| Some((log.vkey.name().clone(), log.issuers.as_ref()?)));
        listed.map(|(name, path)| Ok((name, read_issuers(&self.base.join(path))?.into()))).collect()
    }

    /// The checks of `log`, in which the issuers of `list` exist; none at a level that does not look at entries.
    pub fn of(&self, log: &WatchedLog, list: Option<&Arc<[VerifierKey]>>) -> Option<Checks> {
        if log.level != Level::Full {
            return None;
        }
        let path = self.state.join(format!("{}.full", origin_hash(&Origin::from(log.vkey.name()))));
        let (disk, log, list) = (Arc::clone(&self.disk), log.vkey.clone(), list.cloned());
        let make = move || {
            let issuers = list.as_ref().map(|list| list.to_vec());
            Checker::new(Arc::clone(&disk), path.clone(), log.clone(), issuers)
        };
        Some(Checks::new(make))
    }
}

impl fmt::Debug for EntryChecks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "EntryChecks({})", self.state.display())
    }
}
