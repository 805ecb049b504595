//! Quorum arithmetic: what a policy's quorum needs and what it survives, counted in witnesses.
//!
//! Holds the tree of groups and the numbers over it. Does not hold names or files (`policy`).
//!
//! Every key is a member at most once (tlog-policy, Defining a witness group), so below the quorum there is a tree.
//! While each witness has one key in it, each number is a sum over the members of a group. A witness with several
//! keys is still one: it is honest or lies with all of them, wherever they stand. So at the lowest group that holds
//! them all, whatever such witnesses may do is tried, and below that group what each does is given. Witnesses whose
//! keys stand in the same groups are alike: only how many of them do what is tried.
//!
//! The numbers are exact as long as that takes at most `MAX_STEPS`. Beyond that, some witnesses are
//! loose: their keys act apart, each for its part of a witness. That leaves every true way open at no higher price,
//! so the numbers are never too large: nobody is promised more safety than there is.

use std::collections::{BTreeMap, BTreeSet};

/// A member of a group, or the quorum itself: a place in the policy's list of witnesses or of groups.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Member {
    /// A key of a witness, by its place.
    Witness(usize),
    /// A group, by its place.
    Group(usize),
}

/// What a policy's quorum needs and survives. A witness is all keys of one key name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tolerance {
    /// Witnesses that can count towards the quorum. Witnesses the quorum does not reach are listed in vain.
    pub witnesses: usize,
    /// Their keys that can count towards it: at least one each.
    pub keys: usize,
    /// Fewest witnesses that satisfy the quorum, each with all of its keys. 0 for `quorum none`.
    pub min_quorum: usize,
    /// Fewest keys whose cosignatures satisfy the quorum, whoever holds them. Always exact.
    pub min_keys: usize,
    /// Fewest dishonest witnesses with whose help a log can show two histories, each with a quorum. An honest
    /// witness cosigns at most one of the two, with all of its keys, a dishonest one both. 0: the log needs no
    /// helper at all, unless the number is not exact.
    pub liars_for_split_view: usize,
    /// Most witnesses that may be silent, whichever they are, with the quorum still within reach of the others.
    pub max_silent: usize,
    /// Whether `min_quorum`, `liars_for_split_view` and `max_silent` are exact. If not, none of them is too large.
    pub exact: bool,
}

/// Most steps (members looked at) that go into one number: some tenths of a second. Witnesses with two keys in two
/// groups: 97 that are alike take a million (4,851 ways over 196 members), ten that all differ more (3^10 over 22).
const MAX_STEPS: usize = 1 << 20;

/// Price of one witness. Every number of keys up to eight divides it, so that the keys of a loose witness lose nothing.
const WITNESS_PRICE: usize = 840;

/// The groups of a policy, members always of lower place than the group.
pub(crate) struct QuorumTree<'policy> {
    /// Threshold and members of each group.
    pub(crate) groups: Vec<(usize, &'policy [Member])>,
    /// `None`: `quorum none`.
    pub(crate) quorum: Option<Member>,
}

impl QuorumTree<'_> {
    pub(crate) fn satisfied_by(&self, cosigners: &BTreeSet<usize>) -> bool {
        match self.quorum {
            None => true,
            Some(member) => self.holds(member, cosigners),
        }
    }

    /// `witness_of`: for each key its witness, any number that is the same for keys of the same witness only.
    pub(crate) fn tolerance(&self, witness_of: &[usize]) -> Tolerance {
        self.tolerance_within(MAX_STEPS, witness_of)
    }

    fn tolerance_within(&self, max_steps: usize, witness_of: &[usize]) -> Tolerance {
        let Some(quorum) = self.quorum else {
            return Tolerance {
                witnesses: 0,
                keys: 0,
                min_quorum: 0,
                min_keys: 0,
                liars_for_split_view: 0,
                max_silent: 0,
                exact: true,
            };
        };
        let paths = self.paths(quorum, witness_of);
        let shared = Shared::within(max_steps, self, quorum, &paths);
        let apart = Shared::none(self);
        // A member of a group is out of reach as soon as too few of it are left: the same tree, thresholds turned.
        let to_block = QuorumTree {
            groups: self.groups.iter().map(|(threshold, members)| (members.len() + 1 - threshold, *members)).collect(),
            quorum: self.quorum,
        };
        let fewest = |tree, shared, split| Count { tree, witness_of, shared, split }.fewest(quorum);
        Tolerance {
            witnesses: paths.len(),
            keys: paths.values().map(Vec::len).sum(),
            min_quorum: fewest(self, &shared, false),
            min_keys: fewest(self, &apart, false),
            liars_for_split_view: fewest(self, &shared, true),
            // One fewer silent witness than it takes to make the quorum impossible; at least one is always needed for that.
            max_silent: fewest(&to_block, &shared, false) - 1,
            exact: shared.loose.is_empty(),
        }
    }

    fn holds(&self, member: Member, cosigners: &BTreeSet<usize>) -> bool {
        match member {
            Member::Witness(place) => cosigners.contains(&place),
            Member::Group(place) => {
                let (threshold, members) = self.groups[place];
                members.iter().filter(|member| self.holds(**member, cosigners)).count() >= threshold
            }
        }
    }

    /// For each witness below the quorum, and each of its keys there, the groups around the key, the closest first:
    /// their places ascend.
    fn paths(&self, quorum: Member, witness_of: &[usize]) -> BTreeMap<usize, Vec<Vec<usize>>> {
        let mut paths: BTreeMap<usize, Vec<Vec<usize>>> = BTreeMap::new();
        let mut open = vec![(quorum, Vec::new())];
        while let Some((member, path)) = open.pop() {
            match member {
                Member::Witness(place) => paths.entry(witness_of[place]).or_default().push(path),
                Member::Group(place) => {
                    let path: Vec<usize> = std::iter::once(place).chain(path).collect();
                    open.extend(self.groups[place].1.iter().map(|member| (*member, path.clone())));
                }
            }
        }
        paths
    }
}

/// The witnesses with several keys below the quorum, and what is done about each.
struct Shared {
    /// For each group the witnesses whose keys all stand below it and below no group of its own, those that are
    /// alike together. What they do is tried there.
    alike: Vec<Vec<Vec<usize>>>,
    /// Those whose keys are taken apart, and the price of one key.
    loose: BTreeMap<usize, usize>,
}

impl Shared {
    fn none(tree: &QuorumTree<'_>) -> Shared {
        Shared { alike: vec![Vec::new(); tree.groups.len()], loose: BTreeMap::new() }
    }

    fn within(
        max_steps: usize,
        tree: &QuorumTree<'_>,
        quorum: Member,
        paths: &BTreeMap<usize, Vec<Vec<usize>>>,
    ) -> Shared {
        let mut shared = Shared::none(tree);
        let mut by_groups: BTreeMap<(usize, Vec<usize>), Vec<usize>> = BTreeMap::new();
        for (witness, paths) in paths.iter().filter(|(_, paths)| paths.len() > 1) {
            let around_all = |place: &&usize| paths.iter().all(|path| path.binary_search(place).is_ok());
            // The quorum is around every key if there is more than one.
            let Some(lowest) = paths[0].iter().find(around_all) else { continue };
            let mut closest: Vec<usize> = paths.iter().filter_map(|path| path.first().copied()).collect();
            closest.sort_unstable();
            by_groups.entry((*lowest, closest)).or_default().push(*witness);
        }
        for ((lowest, _), witnesses) in by_groups {
            shared.alike[lowest].push(witnesses);
        }
        while shared.steps(tree, quorum) > max_steps {
            let widest = shared.alike.iter_mut().max_by_key(|alike| ways(alike));
            let Some(witness) = widest.and_then(|alike| alike.iter_mut().max_by_key(|some| some.len())?.pop()) else {
                break;
            };
            shared.loose.insert(witness, WITNESS_PRICE / paths[&witness].len());
        }
        shared
    }

    /// Members looked at for the number that takes most.
    fn steps(&self, tree: &QuorumTree<'_>, member: Member) -> usize {
        let Member::Group(place) = member else { return 1 };
        let below = tree.groups[place].1.iter().map(|member| self.steps(tree, *member));
        below.fold(1_usize, usize::saturating_add).saturating_mul(ways(&self.alike[place]))
    }
}

/// How many ways witnesses can go left, right, or both: of `n` alike, (n + 1)(n + 2) / 2.
fn ways(alike: &[Vec<usize>]) -> usize {
    alike.iter().map(|some| (some.len() + 1) * (some.len() + 2) / 2).fold(1, usize::saturating_mul)
}

/// One number: how few witnesses must cosign both views for the quorum to be satisfied in both, when the others
/// cosign one view of their choice (`split`) or none at all. The latter is how few it takes to satisfy the quorum.
struct Count<'tree> {
    tree: &'tree QuorumTree<'tree>,
    witness_of: &'tree [usize],
    shared: &'tree Shared,
    split: bool,
}

/// What a member costs. It costs nothing to have a witness in one view; and a member that can be had in both views
/// for a price when witnesses have a choice, can be had in either for nothing.
#[derive(Clone, Copy)]
struct Reach {
    left: bool,
    right: bool,
    /// `None`: never in both.
    both: Option<usize>,
}

impl Count<'_> {
    fn fewest(&self, quorum: Member) -> usize {
        let price = self.reach(quorum, &mut BTreeMap::new()).both;
        price
            .expect("whoever is everywhere satisfies any threshold up to the number of members")
            .div_ceil(WITNESS_PRICE)
    }

    /// `given`: what the witnesses do that have keys elsewhere too.
    fn reach(&self, member: Member, given: &mut BTreeMap<usize, Reach>) -> Reach {
        match member {
            Member::Witness(place) => {
                let witness = self.witness_of[place];
                let price = self.shared.loose.get(&witness).copied().unwrap_or(WITNESS_PRICE);
                let free = Reach { left: self.split, right: self.split, both: Some(price) };
                given.get(&witness).copied().unwrap_or(free)
            }
            Member::Group(place) => {
                let mut best = Reach { left: false, right: false, both: None };
                self.try_all(place, &self.shared.alike[place], 0, given, &mut best);
                best
            }
        }
    }

    /// Tries what the witnesses of `alike` can do, when those tried before include `liars`.
    fn try_all(
        &self,
        place: usize,
        alike: &[Vec<usize>],
        liars: usize,
        given: &mut BTreeMap<usize, Reach>,
        best: &mut Reach,
    ) {
        let Some((witnesses, others)) = alike.split_first() else {
            let (threshold, members) = self.tree.groups[place];
            let members: Vec<Reach> = members.iter().map(|member| self.reach(*member, given)).collect();
            let reach = together(threshold, &members);
            let both = reach.both.map(|price| price + liars * WITNESS_PRICE);
            // One view is worth no liar: whoever lies there could be honest there.
            let (left, right) = (best.left || liars == 0 && reach.left, best.right || liars == 0 && reach.right);
            *best = Reach { left, right, both: [best.both, both].into_iter().flatten().min() };
            return;
        };
        for lying in 0..=witnesses.len() {
            for left in 0..=if self.split { witnesses.len() - lying } else { 0 } {
                for (number, witness) in witnesses.iter().enumerate() {
                    let does = match number {
                        _ if number < lying => Reach { left: true, right: true, both: Some(0) },
                        _ if number < lying + left => Reach { left: true, right: false, both: None },
                        _ => Reach { left: false, right: self.split, both: None },
                    };
                    given.insert(*witness, does);
                }
                self.try_all(place, others, liars + lying, given, best);
            }
        }
    }
}

/// What a group costs, given its members.
///
/// Members that hold in either view for nothing are shared out: with `l` members needed left, `r` right and `n` of
/// them there, max(0, l + r - n) must hold in both views, and the cheapest do; more than `n` on one side is too many.
/// Of members that hold in no view for nothing, the cheapest are had in both.
fn together(threshold: usize, members: &[Reach]) -> Reach {
    let only = |left, right| members.iter().filter(move |member| (member.left, member.right) == (left, right));
    let (left_only, right_only, either) =
        (only(true, false).count(), only(false, true).count(), only(true, true).count());
    let (prices_either, prices_neither) = (running_sums(only(true, true)), running_sums(only(false, false)));
    let with = |(bought, price): (usize, &usize)| {
        let left = threshold.saturating_sub(left_only + bought);
        let right = threshold.saturating_sub(right_only + bought);
        let in_both = prices_either.get((left + right).saturating_sub(either))?;
        (left.max(right) <= either).then_some(price + in_both)
    };
    Reach {
        left: left_only + either >= threshold,
        right: right_only + either >= threshold,
        both: prices_neither.iter().enumerate().filter_map(with).min(),
    }
}

/// Prices of the cheapest none, one, two ... in both views, as far as they can be had.
fn running_sums<'member>(members: impl Iterator<Item = &'member Reach>) -> Vec<usize> {
    let mut prices: Vec<usize> = members.filter_map(|member| member.both).collect();
    prices.sort_unstable();
    let sums = prices.iter().scan(0, |sum, price| {
        *sum += price;
        Some(*sum)
    });
    std::iter::once(0).chain(sums).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    /// Groups with the witnesses of their keys, and thresholds, below one group over all of them.
    fn two_levels(groups: &[(usize, Vec<usize>)], over_all: usize, then: impl FnOnce(&QuorumTree<'_>, &[usize])) {
        let witness_of: Vec<usize> = groups.iter().flat_map(|(_, keys)| keys).copied().collect();
        let mut keys = (0..witness_of.len()).map(Member::Witness);
        let members: Vec<Vec<Member>> =
            groups.iter().map(|(_, witnesses)| keys.by_ref().take(witnesses.len()).collect()).collect();
        let top: Vec<Member> = (0..groups.len()).map(Member::Group).collect();
        let lower = groups.iter().zip(&members).map(|((threshold, _), members)| (*threshold, members.as_slice()));
        let groups: Vec<(usize, &[Member])> = lower.chain([(over_all, top.as_slice())]).collect();
        let quorum = Some(Member::Group(groups.len() - 1));
        then(&QuorumTree { groups, quorum }, &witness_of);
    }

    proptest! {
        #[test]
        fn with_fewer_steps_no_number_is_larger_and_with_enough_it_is_exact(
            groups in vec((any::<prop::sample::Index>(), vec(0_usize..7, 1..6)), 1..5),
            over_all: prop::sample::Index,
            max_steps in 0_usize..3_000,
        ) {
            let groups: Vec<(usize, Vec<usize>)> =
                groups.into_iter().map(|(index, keys)| (index.index(keys.len()) + 1, keys)).collect();
            two_levels(&groups, over_all.index(groups.len()) + 1, |tree, witness_of| {
                let exact = tree.tolerance(witness_of);
                let bound = tree.tolerance_within(max_steps, witness_of);
                assert!(exact.exact);
                assert!(bound.min_quorum <= exact.min_quorum && bound.max_silent <= exact.max_silent);
                assert!(bound.liars_for_split_view <= exact.liars_for_split_view);
                assert!(!bound.exact || bound == exact);
                assert_eq!((bound.witnesses, bound.keys, bound.min_keys), (exact.witnesses, exact.keys, exact.min_keys));
            });
        }
    }

    /// Two groups, each with a key of each of eleven witnesses, of which no two are alike: four more groups hold
    /// further keys, by the binary digits of the witness's number.
    #[test]
    fn what_is_too_much_to_try_gets_a_bound_that_says_so() {
        let mut groups = vec![(7, (0..11).collect::<Vec<usize>>()), (7, (0..11).collect())];
        groups.extend((0..4).map(|bit| (1, (0..11).filter(|witness| (witness + 1) >> bit & 1 == 1).collect())));
        two_levels(&groups, 6, |tree, witness_of| {
            let bound = tree.tolerance(witness_of);
            assert!(!bound.exact);
            // Seven of eleven in both views takes three, and the other groups have an honest member for each view.
            assert!((1..=3).contains(&bound.liars_for_split_view), "{bound:?}");
            assert_eq!((bound.witnesses, bound.keys), (11, witness_of.len()));
        });
    }
}
