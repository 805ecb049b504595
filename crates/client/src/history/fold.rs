//! A log read from its first entry on: the tree over it, the streams in it, and the decisions by subject. Pure.
//!
//! Nothing is left out: every entry goes into the tree, and whoever asks compares its root with one that the log signed.
//! Of the entries only those count that the rule of admission (protocol, section 4) lets stand; a log that took others has
//! a full witness and every auditor against it, and no say here.

use super::index::{Index, Mention};
use merkle::{Frontier, Hash, LeafIndex, RootHash, TreeSize, leaf_hash};
use receipt::{Body, IssuerName, IssuerState, Receipt, Roll};
use serde::{Deserialize, Serialize};

/// What is known of a log after its first so many entries.
#[derive(Clone, Debug, Default)]
pub(super) struct Fold {
    frontier: Frontier,
    roll: Roll,
    pub(super) index: Index,
    refused: u64,
}

/// Entries that are read and hashed, and do not count yet: whether the log signed them is to be asked first.
pub(super) struct Batch {
    entries: Vec<bytes::Bytes>,
    frontier: Frontier,
}

/// A fold on disk. Rebuilt from the log where it does not fit.
#[derive(Serialize, Deserialize)]
pub(super) struct Snapshot {
    size: u64,
    peaks: Vec<Hash>,
    states: Vec<IssuerState>,
    index: Index,
    refused: u64,
}

impl Fold {
    pub(super) fn size(&self) -> TreeSize {
        self.frontier.size()
    }

    pub(super) fn root(&self) -> RootHash {
        self.frontier.root()
    }

    /// Entries that the rule refuses, and that count for nothing.
    pub(super) fn refused(&self) -> u64 {
        self.refused
    }

    /// Where a stream of the log stands.
    pub(super) fn state(&self, issuer: &IssuerName) -> Option<&IssuerState> {
        self.roll.states().get(issuer)
    }

    /// Hashes the entries that come next.
    pub(super) fn batch(&self, entries: Vec<bytes::Bytes>) -> Batch {
        let mut frontier = self.frontier.clone();
        entries.iter().for_each(|entry| frontier.push(leaf_hash(entry)));
        Batch { entries, frontier }
    }

    /// Takes a batch of entries, whose root the caller has compared with what the log signed.
    pub(super) fn take(&mut self, batch: &Batch) {
        for (entry, index) in batch.entries.iter().zip(self.size().0..) {
            if !self.admit(LeafIndex(index), entry) {
                self.refused += 1;
            }
        }
        self.frontier = batch.frontier.clone();
    }

    fn admit(&mut self, index: LeafIndex, entry: &[u8]) -> bool {
        let Ok(receipt) = Receipt::parse(entry) else { return false };
        // A second receipt at a held seq is refused whichever is held: no look-up.
        if self.roll.refusal(&receipt, None, None).is_some() || self.roll.place(index, receipt.clone(), None).is_err() {
            return false;
        }
        if let Body::Decision(decision) = receipt.body()
            && let Some(mention) = Mention::of(decision)
        {
            self.index.add(index, &receipt, &mention);
        }
        true
    }

    pub(super) fn snapshot(&self) -> Snapshot {
        Snapshot {
            size: self.size().0,
            peaks: self.frontier.peaks().to_vec(),
            states: self.roll.states().values().cloned().collect(),
            index: self.index.clone(),
            refused: self.refused,
        }
    }

    /// The fold that a snapshot was taken of; `None` where its parts do not fit each other.
    pub(super) fn of(snapshot: Snapshot) -> Option<Self> {
        let frontier = Frontier::from_peaks(TreeSize(snapshot.size), snapshot.peaks)?;
        let mut roll = Roll::of_openers();
        roll.resume(snapshot.states).then_some(Self {
            frontier,
            roll,
            index: snapshot.index,
            refused: snapshot.refused,
        })
    }
}

impl Batch {
    pub(super) fn size(&self) -> TreeSize {
        self.frontier.size()
    }

    pub(super) fn root(&self) -> RootHash {
        self.frontier.root()
    }
}
