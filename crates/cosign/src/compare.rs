//! Two heads of one log, and whether one history contains both.
//!
//! The one place where heads are held against each other: a witness's rule (`decide`), its look at what other witnesses
//! hold, and evidence against a witness all come here. Pure. Whoever sent the tiles is not believed: they count only as
//! far as they hash to the root of the larger head, which was signed. Tiles that do not accuse nobody.

use crate::evidence::{EvidenceError, LogFork, WitnessFork};
use crate::implied::{Implied, implied_root};
use merkle::{HashSource, MissingHash, TileId, TreeSize, tiles_for_consistency};
use note::{SignedCheckpoint, Verified, VerifierKey};
use std::cmp::Ordering;

/// What two heads signed by one log say about each other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Comparison {
    /// The smaller is a prefix of the larger, or they are one head.
    Consistent,
    /// The log signed two histories, and here is the evidence, which checks.
    Fork(Box<LogFork>),
    /// Neither is shown.
    Unproven(Unproven),
}

/// What two heads cosigned by one witness say about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WitnessComparison {
    /// One history contains both.
    Consistent,
    /// It vouched for two histories, and here is the evidence, which checks.
    Fork(Box<WitnessFork>),
    /// Neither is shown.
    Unproven(Unproven),
}

/// Why two heads could not be compared, or their difference not be shown to anybody.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unproven {
    /// A tile did not come.
    #[error("the log's tiles are not all there: {0}")]
    Missing(#[from] MissingHash),
    /// The tiles hash to another root than the one that was signed: whoever sent them.
    #[error("the tiles that came do not hash to the signed root at size {0}")]
    OtherRoot(TreeSize),
    /// The heads contradict each other, but not in the name of one key: one was signed under a key that the log has
    /// replaced, or no tree has it. Nobody can be shown to have signed both.
    #[error("the two heads contradict each other, and no one key answers for both; look at both by hand: {0}")]
    NotShown(Box<EvidenceError>),
}

/// Compares two heads of one log, in either order; `tiles` are those of [`tiles_needed`], as far as they came, from
/// whoever they came.
pub fn compare(
    one: &SignedCheckpoint<Verified>,
    other: &SignedCheckpoint<Verified>,
    tiles: &dyn HashSource,
) -> Comparison {
    match relate(one, other, tiles) {
        Relation::Consistent => Comparison::Consistent,
        Relation::Unproven(why) => Comparison::Unproven(why),
        // Nobody is accused of what does not pass the check that everybody else will put it to.
        Relation::Contradiction(implied) => match LogFork::make(one, other, implied) {
            Ok(fork) => Comparison::Fork(Box::new(fork)),
            Err(error) => Comparison::Unproven(Unproven::NotShown(Box::new(error))),
        },
    }
}

/// Compares two heads that carry good cosignatures of `witness`, in either order; `tiles` as for [`compare`].
pub fn compare_cosigned(
    witness: &VerifierKey,
    one: &SignedCheckpoint<Verified>,
    other: &SignedCheckpoint<Verified>,
    tiles: &dyn HashSource,
) -> WitnessComparison {
    match relate(one, other, tiles) {
        Relation::Consistent => WitnessComparison::Consistent,
        Relation::Unproven(why) => WitnessComparison::Unproven(why),
        Relation::Contradiction(implied) => match WitnessFork::make(witness, one, other, implied) {
            Ok(fork) => WitnessComparison::Fork(Box::new(fork)),
            Err(error) => WitnessComparison::Unproven(Unproven::NotShown(Box::new(error))),
        },
    }
}

/// The tiles of the larger tree that heads of these two sizes are compared by; none when they are equal or one is
/// empty.
pub fn tiles_needed(one: TreeSize, other: TreeSize) -> Vec<TileId> {
    let (old, new) = (one.min(other), one.max(other));
    if old == new || old == TreeSize(0) { Vec::new() } else { tiles_for_consistency(old, new) }
}

/// How two heads stand to each other, whoever signed them.
enum Relation {
    Consistent,
    /// No history has both; of two sizes, with what the larger says about the smaller.
    Contradiction(Option<Implied>),
    Unproven(Unproven),
}

fn relate(one: &SignedCheckpoint<Verified>, other: &SignedCheckpoint<Verified>, tiles: &dyn HashSource) -> Relation {
    let (smaller, larger) = match one.checkpoint().size.cmp(&other.checkpoint().size) {
        Ordering::Equal if one.checkpoint().root == other.checkpoint().root => return Relation::Consistent,
        Ordering::Equal => return Relation::Contradiction(None),
        Ordering::Less => (one.checkpoint(), other),
        Ordering::Greater => (other.checkpoint(), one),
    };
    match implied_root(tiles, smaller.size, larger) {
        Ok(implied) if implied.root == smaller.root => Relation::Consistent,
        Ok(implied) => Relation::Contradiction(Some(implied)),
        Err(unproven) => Relation::Unproven(unproven),
    }
}
