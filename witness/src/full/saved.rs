//! What a walk knows, on disk: so that a start does not begin at a log's first entry.
//!
//! ```text
//! counterfoil/full/v1 <vkey of the log>
//! {"size":41,"root":"<base64>","peaks":["<base64>",…]}
//! {"keys":…}                                        a line an issuer, by name
//! ```
//!
//! The file is replaced as a whole, and carries a checksum ([`store::replace_whole`]). All of it can be derived again from the log. So a file that is missing, damaged, another log's or of other issuers says
//! nothing, and whether it speaks of this log's tree at all is for the caller to ask the log ([`super::Checker`]).

use super::walk::Walk;
use merkle::{Frontier, Hash, RootHash, TreeSize};
use note::VerifierKey;
use receipt::{IssuerState, Roll};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::sync::Arc;
use store::disk::Disk;
use store::{StoreError, read_whole, replace_whole};

/// First line; `v1` changes when the format does, or the rule of admission in what it lets pass.
const MAGIC: &str = "counterfoil/full/v1";

/// The second line.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Tree {
    size: u64,
    root: Hash,
    peaks: Vec<Hash>,
}

/// Where one log's walk is kept.
#[derive(Debug, Clone)]
pub(crate) struct SavedWalk {
    disk: Arc<dyn Disk>,
    path: PathBuf,
    log: VerifierKey,
}

impl SavedWalk {
    /// The file of `log` at `path`.
    pub(crate) fn at(disk: Arc<dyn Disk>, path: PathBuf, log: VerifierKey) -> SavedWalk {
        SavedWalk { disk, path, log }
    }

    /// The walk as it was saved last, over the issuers of `roll`; `None` where the file says nothing, or nothing of these.
    pub(crate) fn read(&self, mut roll: Roll) -> Option<Walk> {
        let text = match read_whole(&*self.disk, &self.path) {
            Ok(Some(bytes)) => String::from_utf8(bytes).unwrap_or_default(),
            Ok(None) => return None,
            Err(error) => {
                tracing::warn!(%error, "what was checked of the log cannot be read; checking it again from its first entry");
                return None;
            }
        };
        let walk = self.parse(&text).filter(|(_, states)| roll.resume(states.iter().cloned()));
        if walk.is_none() {
            tracing::warn!(path = %self.path.display(), "what was checked of the log was checked for other issuers; checking it again from its first entry");
        }
        walk.map(|(frontier, _)| Walk::new(roll, frontier))
    }

    /// Saves a walk, which must be known to be over the log's own entries. A crash leaves the file before or this one.
    ///
    /// # Errors
    /// [`StoreError`]; nothing but time is lost then.
    pub(crate) fn write(&self, walk: &Walk) -> Result<(), StoreError> {
        replace_whole(&*self.disk, &self.path, self.print(walk).as_bytes())
    }

    fn print(&self, walk: &Walk) -> String {
        let tree = Tree { size: walk.size().0, root: walk.root().0, peaks: walk.frontier().peaks().to_vec() };
        let mut text = format!("{MAGIC} {}\n{}\n", self.log, line(&tree));
        let mut states: Vec<&IssuerState> = walk.states().collect();
        states.sort_unstable_by_key(|state| state.name());
        for state in states {
            text.push_str(&line(state));
            text.push('\n');
        }
        text
    }

    fn parse(&self, text: &str) -> Option<(Frontier, Vec<IssuerState>)> {
        let mut lines = text.lines();
        if lines.next()? != format!("{MAGIC} {}", self.log) {
            return None;
        }
        let tree: Tree = serde_json::from_str(lines.next()?).ok()?;
        let frontier = Frontier::from_peaks(TreeSize(tree.size), tree.peaks)?;
        let states = lines.map(serde_json::from_str).collect::<Result<Vec<IssuerState>, _>>().ok()?;
        // Every entry is a receipt of one of them.
        let counted: u128 = states.iter().map(|state| u128::from(state.next_seq().0)).sum();
        (frontier.root() == RootHash(tree.root) && counted == u128::from(tree.size)).then_some((frontier, states))
    }
}

fn line(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("numbers, strings and base64 always have a JSON form")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;
    use crate::full::sample::{Gate, log_key, walked};
    use std::fs;
    use store::disk::RealDisk;

    fn at(path: PathBuf, log: VerifierKey) -> SavedWalk {
        SavedWalk::at(RealDisk::shared(), path, log)
    }

    #[test]
    fn what_is_saved_is_read_back_as_it_was() {
        let dir = tempfile::tempdir().unwrap();
        let saved = at(dir.path().join("a.full"), log_key().verifier());
        assert!(saved.read(Roll::of_openers()).is_none());
        let walk = walked(&Gate::new(1).entries(5), Roll::of_openers());
        saved.write(&walk).unwrap();
        saved.write(&walk).unwrap();
        let read = saved.read(Roll::of_openers()).unwrap();
        assert_eq!((read.size(), read.root()), (walk.size(), walk.root()));
        assert_eq!(read.states().collect::<Vec<_>>(), walk.states().collect::<Vec<_>>());
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_file_that_is_damaged_or_foreign_says_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.full");
        let saved = at(path.clone(), log_key().verifier());
        let gate = Gate::new(1);
        saved.write(&walked(&gate.entries(5), Roll::of_openers())).unwrap();
        let good = fs::read(&path).unwrap();
        for place in 0..good.len() {
            let mut bad = good.clone();
            bad[place] ^= 1;
            fs::write(&path, &bad).unwrap();
            assert!(saved.read(Roll::of_openers()).is_none(), "byte {place}");
            fs::write(&path, &good[..place]).unwrap();
            assert!(saved.read(Roll::of_openers()).is_none(), "cut at {place}");
        }
        fs::write(&path, &good).unwrap();
        assert!(at(path.clone(), Gate::new(9).vkey()).read(Roll::of_openers()).is_none(), "of another log");
        assert!(saved.read(Roll::of_registered([Gate::new(2).vkey()])).is_none(), "of another issuer");
        assert!(saved.read(Roll::of_registered([gate.vkey(), Gate::new(2).vkey()])).is_some());
    }
}
