//! The log's root that a gate says it read a history under, against the tree that the log signed.
//!
//! A claim is told at once where the tree had that root when the walk came by that size. All others wait until the entries are
//! known to be those that a head was signed over: only then does a root that differs say anything. What differs may be the
//! gate's word or another tree that the log showed the gate, and a receipt does not hold what would tell the two apart. A root
//! that the log did sign, of whatever tree, is no fault of the gate's.

use crate::bundle::ReadError;
use crate::verdict::{Check, CheckBuilder, Family, ReceiptRef, Severity};
use merkle::{EMPTY_ROOT, Hash, RootHash};
use receipt::body::{Decision, Ruling, Shown};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Most claims that wait: some two hundred bytes each. Gates read under heads that the log signed, which are told at once.
const MAX_WAITING: usize = 100_000;

/// Most sizes at which the tree is asked for its root when all entries are read: a few tiles each.
const MAX_ASKED: usize = 4_096;

const CODE_UNJUDGED: &str = "history-root-unjudged";

/// A claim that could not be told at once.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Claim {
    at: ReceiptRef,
    allowed: bool,
    size: u64,
    root: Hash,
}

/// Roots that gates say they read under.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct ReadRoots {
    check: CheckBuilder,
    waiting: Vec<Claim>,
    claims: u64,
    allowed_claims: u64,
}

/// What the tree says of a size.
pub(crate) enum TreeRoot {
    /// Its root there.
    Is(RootHash),
    /// No signed head vouches for entries that far.
    Beyond,
    /// The tiles that it takes are not in the bundle.
    Unknown,
}

/// The log's tree, as far as a signed head vouches for it.
pub(crate) trait SignedTree {
    /// Its root at a size.
    fn root_at(&self, size: u64) -> Result<TreeRoot, ReadError>;

    /// Whether the log signed this root for this size, in any head that is known.
    fn is_signed(&self, size: u64, root: RootHash) -> bool;
}

impl ReadRoots {
    pub(crate) fn new() -> ReadRoots {
        let check = CheckBuilder::new(Family::Sequence, "history-roots");
        ReadRoots { check, waiting: Vec::new(), claims: 0, allowed_claims: 0 }
    }

    /// What a decision claims. `roots` are those of the tree so far, at some sizes.
    pub(crate) fn add(&mut self, at: &ReceiptRef, decision: &Decision, roots: &BTreeMap<u64, RootHash>) {
        let Some(history) = decision.history.shown() else { return };
        let (Some(size), Some(text)) = (history.size.shown().copied(), history.root.shown()) else { return };
        let allowed = decision.ruling.shown() == Some(&Ruling::Allow);
        self.claims += 1;
        self.allowed_claims += u64::from(allowed);
        let Some(root) = Hash::from_base64(text) else {
            return self.unjudged(at, allowed, size, "what it gives as the root is no hash in base64");
        };
        if roots.get(&size).is_some_and(|known| known.0 == root) {
            self.check.checked();
        } else if self.waiting.len() < MAX_WAITING {
            self.waiting.push(Claim { at: at.clone(), allowed, size, root });
        } else {
            self.unjudged(at, allowed, size, "more such heads are named than are remembered");
        }
    }

    fn unjudged(&mut self, at: &ReceiptRef, allowed: bool, size: u64, why: &str) {
        let severity = if allowed { Severity::NotChecked } else { Severity::Notice };
        self.check.find(CODE_UNJUDGED, severity, &[at], || {
            [
                format!("the gate says under which head of the log, of size {size}, it read the history that it judged by, and {why}"),
                String::from("whether the log had that root"),
                String::from("fetch the bundle again, with all tiles; or ask the gate for that head as the log signed it"),
            ]
        });
    }

    /// Judges what waits.
    pub(crate) fn finish(mut self, tree: &dyn SignedTree) -> Result<Check, ReadError> {
        let mut asked: BTreeMap<u64, TreeRoot> = BTreeMap::from([(0, TreeRoot::Is(EMPTY_ROOT))]);
        for claim in std::mem::take(&mut self.waiting) {
            let Claim { at, allowed, size, root } = claim;
            if !asked.contains_key(&size) && asked.len() <= MAX_ASKED {
                asked.insert(size, tree.root_at(size)?);
            }
            match asked.get(&size) {
                Some(TreeRoot::Is(held)) if held.0 == root || tree.is_signed(size, RootHash(root)) => {
                    self.check.checked();
                }
                Some(TreeRoot::Is(held)) => self.differs(&at, allowed, (size, root), *held),
                Some(TreeRoot::Beyond) => {
                    self.unjudged(&at, allowed, size, "no signed head in the bundle vouches for so many");
                }
                Some(TreeRoot::Unknown) => {
                    self.unjudged(&at, allowed, size, "the tiles that tell the root there are not in the bundle");
                }
                None => self.unjudged(&at, allowed, size, "more such heads are named than are looked at"),
            }
        }
        self.check.required(self.allowed_claims > 0);
        Ok(self.check.finish(match self.claims {
            0 => String::from("nothing of this kind in the log"),
            1 => String::from("1 decision that says which root of the log it was judged under"),
            claims => format!("{claims} decisions that say which root of the log they were judged under"),
        }))
    }

    fn differs(&mut self, at: &ReceiptRef, allowed: bool, (size, root): (u64, Hash), held: RootHash) {
        let severity = if allowed { Severity::Fail } else { Severity::Notice };
        self.check.find("history-root-differs", severity, &[at], || {
            [
                format!(
                    "the gate says it judged by the log at size {size} under the root {}; the log's root at that size is {}",
                    root.to_base64(),
                    held.0.to_base64()
                ),
                String::from("who is wrong: the gate made it up, or the log showed it another history"),
                String::from(
                    "ask the gate for the head that it read: if the log signed it, compare and evidence convict the log; if it has none, judge this call anew",
                ),
            ]
        });
    }
}
