//! What is remembered of one peer and one log: which of the heads that it showed are still to be held against ours.
//!
//! Holds which comparisons a look calls for and what follows from them. Pure. Does not hold the comparison itself
//! (`cosign::compare`) nor where tiles come from (`look`).
//!
//! A head that lies within our own history needs no second look: our history only grows. One that is larger than ours, or
//! that could not be compared because tiles were missing, is kept until it can be: the oldest such head and the newest one
//! that was shown, for with those two in our history all between them are, or the peer vouched for two histories.

use cosign::{Comparison, Unproven};
use merkle::TreeSize;
use note::{SignedCheckpoint, Verified};
use std::sync::Arc;

/// A head that the log signed.
pub type Head = Arc<SignedCheckpoint<Verified>>;

/// What is remembered between two looks.
#[derive(Debug, Default)]
pub struct Acquaintance {
    /// What the peer showed last.
    newest: Option<Head>,
    /// The oldest that it showed and that is not known to lie within our history.
    open: Option<Head>,
}

/// Two heads to hold against each other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pair {
    /// One of them.
    pub one: Head,
    /// The other.
    pub other: Head,
    /// Whether the peer vouched for both: then it has lied, or lost its state, if they contradict each other.
    pub both_of_the_peer: bool,
}

/// What a look came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Agreement {
    /// We hold nothing of the log yet.
    NothingHeld,
    /// All that the peer showed so far is consistent with what we hold.
    Agrees,
    /// Something that it showed, now or before, could not be compared yet.
    Unproven(Unproven),
}

impl Acquaintance {
    /// Which heads are to be compared, now that the peer shows `shown` and we hold `ours`: at most three pairs.
    pub fn pairs(&self, ours: Option<&Head>, shown: &Head) -> Vec<Pair> {
        let pair = |one: &Head, other: &Head, both_of_the_peer| Pair {
            one: Arc::clone(one),
            other: Arc::clone(other),
            both_of_the_peer,
        };
        let mut pairs = Vec::new();
        if let Some(ours) = ours {
            pairs.push(pair(ours, shown, false));
            let still_open = self.open.as_ref().filter(|open| !same(open, shown));
            pairs.extend(still_open.map(|open| pair(ours, open, false)));
        }
        if let Some(newest) = self.newest.as_ref().filter(|newest| !same(newest, shown)) {
            // Also where both are no larger than ours: of what contradicts us it is still to be told who vouched for what.
            pairs.push(pair(newest, shown, true));
        }
        pairs
    }

    /// Takes in what came of the pairs. (A fork among them is evidence, and leaves what is open to be looked at again.)
    pub fn settle(&mut self, ours: Option<&Head>, shown: &Head, compared: &[(Pair, Comparison)]) -> Agreement {
        let within = |head: &Head| {
            ours.is_some_and(|ours| size(head) <= size(ours))
                && compared.iter().any(|(pair, comparison)| {
                    !pair.both_of_the_peer && same(&pair.other, head) && *comparison == Comparison::Consistent
                })
        };
        self.open = self.open.take().filter(|open| !within(open));
        if self.open.is_none() && !within(shown) {
            self.open = Some(Arc::clone(shown));
        }
        self.newest = Some(Arc::clone(shown));
        let unproven = compared.iter().find_map(|(_, comparison)| match comparison {
            Comparison::Unproven(why) => Some(why.clone()),
            Comparison::Consistent | Comparison::Fork(_) => None,
        });
        match (ours, unproven) {
            (None, _) => Agreement::NothingHeld,
            (Some(_), Some(why)) => Agreement::Unproven(why),
            (Some(_), None) => Agreement::Agrees,
        }
    }
}

fn size(head: &Head) -> TreeSize {
    head.checkpoint().size
}

/// Whether two heads say the same of the log, whoever cosigned them when.
fn same(one: &Head, other: &Head) -> bool {
    one.checkpoint().size == other.checkpoint().size && one.checkpoint().root == other.checkpoint().root
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;
    use cosign::{compare, tiles_needed};
    use merkle::{HashSource, MemoryTree, TileSet, leaf_hash};
    use note::{Checkpoint, KeyKind, KeyName, Origin, SigningKey, sign_checkpoint};

    fn history(common: u64, own: u64, branch: u8) -> MemoryTree {
        let mut tree = MemoryTree::new();
        (0..common).for_each(|place| tree.push(leaf_hash(&place.to_be_bytes())));
        (0..own).for_each(|place| tree.push(leaf_hash(&[&[branch][..], &place.to_be_bytes()].concat())));
        tree
    }

    fn head(tree: &MemoryTree, size: u64) -> Head {
        let key = SigningKey::from_seed(KeyName::new("log.example/a").unwrap(), KeyKind::Ed25519, [1; 32]);
        let root = merkle::root_of(tree, TreeSize(size)).unwrap();
        Arc::new(sign_checkpoint(&Checkpoint::new(Origin::from(key.name()), TreeSize(size), root), &key).unwrap())
    }

    /// One look with the tiles that `log` serves, `None` while it withholds them; a fork ends it.
    fn look(
        memory: &mut Acquaintance,
        ours: Option<&Head>,
        shown: &Head,
        log: Option<&MemoryTree>,
    ) -> Result<Agreement, Pair> {
        let mut compared = Vec::new();
        for pair in memory.pairs(ours, shown) {
            let mut tiles = TileSet::new();
            for tile in tiles_needed(size(&pair.one), size(&pair.other)) {
                let places = tile.index * 256..tile.index * 256 + u64::from(tile.width);
                let hashes = log.map(|log| places.map(|place| log.subtree(8 * tile.level, place)).collect());
                let hashes: Option<Vec<_>> = hashes.flatten();
                if let Some(hashes) = hashes {
                    let bytes: Vec<u8> = hashes.iter().flat_map(|hash| hash.0).collect();
                    tiles.insert(tile, &bytes).unwrap();
                }
            }
            match compare(&pair.one, &pair.other, &tiles) {
                Comparison::Fork(_) => return Err(pair),
                comparison => compared.push((pair, comparison)),
            }
        }
        Ok(memory.settle(ours, shown, &compared))
    }

    #[test]
    fn a_head_shown_before_within_our_history_is_not_held_against_ours_again() {
        let (tree, mut memory) = (history(30, 0, 0), Acquaintance::default());
        for (ours, shown) in [(10, 10), (12, 11), (12, 12), (20, 13)] {
            let (ours, shown) = (head(&tree, ours), head(&tree, shown));
            let with_ours = memory.pairs(Some(&ours), &shown).into_iter().filter(|pair| !pair.both_of_the_peer);
            assert_eq!(with_ours.count(), 1);
            assert_eq!(look(&mut memory, Some(&ours), &shown, Some(&tree)), Ok(Agreement::Agrees));
        }
    }

    #[test]
    fn a_peer_that_leaves_our_history_for_another_is_held_to_what_it_vouched_for_before() {
        let (ours, theirs) = (history(10, 20, 1), history(5, 20, 2));
        let mut memory = Acquaintance::default();
        let before = head(&ours, 10);
        assert_eq!(look(&mut memory, Some(&head(&ours, 20)), &before, Some(&ours)), Ok(Agreement::Agrees));
        let shown = head(&theirs, 12);
        let pairs = memory.pairs(Some(&head(&ours, 20)), &shown);
        let both = |pair: &&Pair| pair.both_of_the_peer && same(&pair.one, &before) && same(&pair.other, &shown);
        assert_eq!(pairs.iter().filter(both).count(), 1, "both smaller than ours, and only one of them in our history");
    }

    #[test]
    fn a_head_beyond_ours_is_looked_at_again_once_we_have_grown() {
        let (ours, theirs) = (history(10, 20, 1), history(10, 20, 2));
        let mut memory = Acquaintance::default();
        let shown = head(&theirs, 15);
        let of_common = look(&mut memory, Some(&head(&ours, 10)), &shown, Some(&theirs));
        assert_eq!(of_common, Ok(Agreement::Agrees), "ours is a prefix of it");
        // The peer then shows the head that we know, as a liar's accomplice might; the one before is not forgotten.
        let found = look(&mut memory, Some(&head(&ours, 20)), &head(&ours, 20), Some(&ours)).unwrap_err();
        assert!(same(&found.other, &shown) && !found.both_of_the_peer);
    }

    #[test]
    fn two_heads_of_the_peers_that_are_both_beyond_ours_are_held_against_each_other() {
        let (one, two) = (history(10, 20, 1), history(10, 20, 2));
        let mut memory = Acquaintance::default();
        let ours = head(&one, 10);
        look(&mut memory, Some(&ours), &head(&one, 15), Some(&one)).unwrap();
        let found = look(&mut memory, Some(&ours), &head(&two, 18), Some(&two)).unwrap_err();
        assert!(found.both_of_the_peer);
        let mut nothing_held = Acquaintance::default();
        assert_eq!(look(&mut nothing_held, None, &head(&one, 15), Some(&one)), Ok(Agreement::NothingHeld));
        assert!(look(&mut nothing_held, None, &head(&two, 15), None).unwrap_err().both_of_the_peer);
    }

    #[test]
    fn what_missing_tiles_left_open_is_settled_when_they_come() {
        let (ours, theirs) = (history(10, 20, 1), history(10, 5, 2));
        let mut memory = Acquaintance::default();
        let shown = head(&theirs, 15);
        for held in [20, 25] {
            let agreement = look(&mut memory, Some(&head(&ours, held)), &shown, None).unwrap();
            assert!(matches!(agreement, Agreement::Unproven(_)), "{agreement:?}");
        }
        let then = look(&mut memory, Some(&head(&ours, 30)), &head(&ours, 30), Some(&ours));
        assert!(same(&then.unwrap_err().other, &shown));
    }

    #[test]
    fn a_log_with_one_history_is_never_accused_in_whatever_order_its_heads_are_seen() {
        let tree = history(40, 0, 0);
        let mut number = 7u64;
        let mut next = |most: u64| {
            number = number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            1 + (number >> 33) % most
        };
        for _ in 0..50 {
            let mut memory = Acquaintance::default();
            let mut held = next(20);
            for _ in 0..20 {
                held = (held + next(3) - 1).min(40);
                let tiles = (next(3) > 1).then_some(&tree);
                look(&mut memory, Some(&head(&tree, held)), &head(&tree, next(40)), tiles).unwrap();
            }
        }
    }
}
