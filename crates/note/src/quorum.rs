//! Quorum arithmetic: what a policy's quorum needs and what it survives.
//!
//! Holds the tree of groups and the exact numbers over it. Does not hold names or files (`policy`).
//!
//! Every name is a member at most once (tlog-policy, Defining a witness group), so below the quorum there is a
//! tree, no witness sits in two places, and the members of a group can be reasoned about one by one. Each number is
//! therefore a sum over members, exact without looking at subsets; the tests compare with all subsets.

use std::collections::BTreeSet;

/// A member of a group, or the quorum itself: a place in the policy's list of witnesses or of groups.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Member {
    /// A witness, by its place.
    Witness(usize),
    /// A group, by its place.
    Group(usize),
}

/// What a policy's quorum needs and survives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tolerance {
    /// Witnesses that can count towards the quorum. Witnesses the quorum does not reach are listed in vain.
    pub witnesses: usize,
    /// Fewest cosigners that satisfy the quorum. 0 for `quorum none`.
    pub min_quorum: usize,
    /// Fewest dishonest witnesses with whose help a log can show two histories, each with a quorum. An honest
    /// witness cosigns at most one of the two, a dishonest one both. 0: the log needs no helper at all.
    pub liars_for_split_view: usize,
    /// Most witnesses that may be silent, whichever they are, with the quorum still within reach of the others.
    pub max_silent: usize,
}

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

    pub(crate) fn tolerance(&self) -> Tolerance {
        let Some(quorum) = self.quorum else {
            return Tolerance { witnesses: 0, min_quorum: 0, liars_for_split_view: 0, max_silent: 0 };
        };
        let numbers = self.numbers(quorum);
        Tolerance {
            witnesses: numbers.witnesses,
            min_quorum: numbers.to_satisfy,
            liars_for_split_view: numbers.to_satisfy_twice,
            // One fewer silent witness than it takes to make the quorum impossible; at least one is always needed for that.
            max_silent: numbers.to_block - 1,
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

    fn numbers(&self, member: Member) -> Numbers {
        let Member::Group(place) = member else {
            return Numbers { witnesses: 1, to_satisfy: 1, to_block: 1, to_satisfy_twice: 1 };
        };
        let (threshold, members) = self.groups[place];
        let of_members: Vec<Numbers> = members.iter().map(|member| self.numbers(*member)).collect();
        let cheapest = |count: usize, cost: fn(&Numbers) -> usize| -> usize {
            let mut costs: Vec<usize> = of_members.iter().map(cost).collect();
            costs.sort_unstable();
            costs.iter().take(count).sum()
        };
        // In two views, satisfying a member in one view costs no liar: all its honest witnesses look there. With
        // `twice` members satisfied in both views, the other n - twice are shared out between the views, and
        // each view needs k - twice of them: 2 (k - twice) <= n - twice, so twice >= 2k - n. Costs are not
        // negative, so the fewest such members, and the cheapest ones, are best.
        let twice = (2 * threshold).saturating_sub(members.len());
        Numbers {
            witnesses: of_members.iter().map(|numbers| numbers.witnesses).sum(),
            to_satisfy: cheapest(threshold, |numbers| numbers.to_satisfy),
            to_block: cheapest(members.len() - threshold + 1, |numbers| numbers.to_block),
            to_satisfy_twice: cheapest(twice, |numbers| numbers.to_satisfy_twice),
        }
    }
}

/// The numbers of one member of the tree.
struct Numbers {
    witnesses: usize,
    /// Fewest cosigners that satisfy it.
    to_satisfy: usize,
    /// Fewest silent witnesses that make it impossible.
    to_block: usize,
    /// Fewest witnesses that must cosign twice for it to be satisfied in two views.
    to_satisfy_twice: usize,
}
