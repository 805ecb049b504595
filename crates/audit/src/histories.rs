//! What the log shows of each session, resource and subject: its decisions in the order of the log, as compactly as it
//! goes, since a claim about any of them may come at any time.
//!
//! Every decision is kept once, and once more, in eight bytes, for each history that it belongs to. A history is read
//! from its end, which is where claims differ first.

use crate::key::Key;
use receipt::ReceiptId;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;

/// Most decisions, most memberships of decisions in histories, and most histories: 32, 8 and some forty bytes each.
const MAX_DECISIONS: usize = 8_000_000;
const MAX_MEMBERSHIPS: usize = 32_000_000;
const MAX_HISTORIES: usize = 8_000_000;

/// Most decisions that are read back to judge all claims of a log: about a second of work. An honest claim is found at
/// the end of its history, and costs as much as it is long.
const MAX_READ_BACK: u64 = 200_000_000;

/// No class, or the end of a history.
const NONE: u32 = u32::MAX;

/// Histories over one log.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Histories {
    decisions: Vec<Logged>,
    memberships: Vec<Membership>,
    /// The latest membership of each history.
    last: HashMap<Key, u32>,
    read_back: u64,
    /// More was logged than is remembered, or read back than is allowed: nothing is held against anybody from there on.
    pub(crate) full: bool,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Logged {
    id: Key,
    index: u64,
    issuer: u32,
    /// Number of the class of an allowed action.
    class: u32,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Membership {
    decision: u32,
    before: u32,
}

/// A history up to an index of the log.
#[derive(Clone, Copy)]
pub(crate) struct UpTo {
    pub(crate) history: Key,
    pub(crate) index: u64,
}

/// Whose decisions make a history.
#[derive(Clone, Copy)]
pub(crate) enum Counted {
    All,
    Own(u32),
    /// Everybody's among the first so many entries of the log, and behind these this issuer's own: a gate that read so
    /// much of the log, and has a memory of itself.
    Read(u64, u32),
}

impl Counted {
    fn counts(self, decision: &Logged) -> bool {
        match self {
            Counted::All => true,
            Counted::Own(issuer) => decision.issuer == issuer,
            Counted::Read(size, issuer) => decision.index < size || decision.issuer == issuer,
        }
    }
}

/// A receipt that is said to be the head of a history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Head {
    /// The history's decision at this index of the log, and none of this issuer's comes after it.
    Latest(u64),
    /// An earlier one: this issuer had itself logged a later one.
    Outdated,
    Absent,
    /// Too much would have to be read back.
    Unknown,
}

impl Histories {
    /// Adds the next decision of the log to histories. Only an allowed one has a class here.
    pub(crate) fn add(&mut self, at: (u64, ReceiptId), issuer: u32, class: Option<u32>, histories: &[Key]) {
        let is_full = self.decisions.len() >= MAX_DECISIONS
            || self.memberships.len() + histories.len() > MAX_MEMBERSHIPS
            || self.last.len() + histories.len() > MAX_HISTORIES;
        if is_full {
            self.full = true;
            return;
        }
        // Both numbers are below 2^32 by the limits above.
        let decision = self.decisions.len() as u32;
        self.decisions.push(Logged {
            id: Key::of_digest(&at.1.0.0),
            index: at.0,
            issuer,
            class: class.unwrap_or(NONE),
        });
        for history in histories {
            let own = self.memberships.len() as u32;
            let before = self.last.insert(*history, own).unwrap_or(NONE);
            self.memberships.push(Membership { decision, before });
        }
    }

    /// Whether the allowed classes of these histories, merged in the order of the log with each decision once, are
    /// exactly `classes`; by whoever counts. `None`: too much would have to be read back.
    pub(crate) fn are(&mut self, histories: &[UpTo], of: Counted, classes: &[u32]) -> Option<bool> {
        let mut rest: Vec<(u32, u64)> = histories.iter().map(|one| (self.end(one.history), one.index)).collect();
        for (place, end) in rest.iter_mut().enumerate() {
            end.0 = self.skip(end.0, histories.get(place)?.index, of)?;
        }
        for class in classes.iter().rev() {
            let decision_of = |(at, _): &(u32, u64)| self.memberships.get(*at as usize).map(|it| it.decision);
            let Some(latest) = rest.iter().filter_map(decision_of).max() else { return Some(false) };
            if self.decisions.get(latest as usize).is_none_or(|it| it.class != *class) {
                return Some(false);
            }
            for (at, index) in &mut rest {
                if let Some(Membership { decision, before }) = self.memberships.get(*at as usize).copied()
                    && decision == latest
                {
                    *at = self.skip(before, *index, of)?;
                }
            }
        }
        Some(rest.iter().all(|(at, _)| *at == NONE))
    }

    /// Whether a receipt is the head of a history, as far as an issuer can have known it.
    pub(crate) fn head(&mut self, history: Key, head: &ReceiptId, issuer: u32) -> Head {
        let id = Key::of_digest(&head.0.0);
        let (mut at, mut own_since) = (self.end(history), false);
        while let Some(Membership { decision, before }) = self.memberships.get(at as usize).copied() {
            if !self.may_read() {
                return Head::Unknown;
            }
            if let Some(logged) = self.decisions.get(decision as usize) {
                if logged.id == id {
                    return if own_since { Head::Outdated } else { Head::Latest(logged.index) };
                }
                own_since |= logged.issuer == issuer;
            }
            at = before;
        }
        Head::Absent
    }

    fn end(&self, history: Key) -> u32 {
        self.last.get(&history).copied().unwrap_or(NONE)
    }

    /// The latest membership from `at` back that counts.
    fn skip(&mut self, mut at: u32, index: u64, of: Counted) -> Option<u32> {
        while let Some(Membership { decision, before }) = self.memberships.get(at as usize).copied() {
            if !self.may_read() {
                return None;
            }
            let counts = self
                .decisions
                .get(decision as usize)
                .is_some_and(|it| it.class != NONE && it.index <= index && of.counts(it));
            if counts {
                return Some(at);
            }
            at = before;
        }
        Some(NONE)
    }

    fn may_read(&mut self) -> bool {
        self.read_back += 1;
        self.full |= self.read_back > MAX_READ_BACK;
        self.read_back <= MAX_READ_BACK
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use merkle::Hash;

    fn id(byte: u8) -> ReceiptId {
        ReceiptId(Hash([byte; 32]))
    }

    fn key(name: &str) -> Key {
        Key::new(&[name])
    }

    fn whole(name: &str) -> UpTo {
        UpTo { history: key(name), index: u64::MAX }
    }

    /// Classes 1, 2, 3, 4 at indices 10, 20, 30, 40, by issuers 0, 1, 0, 0; and a denial at 50.
    fn logged() -> Histories {
        let mut histories = Histories::default();
        for (number, (issuer, names)) in
            [(0, &["a"][..]), (1, &["a", "b"]), (0, &["b"]), (0, &["a", "b"])].into_iter().enumerate()
        {
            let keys: Vec<Key> = names.iter().map(|name| key(name)).collect();
            let number = number as u32 + 1;
            histories.add((u64::from(number) * 10, id(number as u8)), issuer, Some(number), &keys);
        }
        histories.add((50, id(5)), 0, None, &[key("a")]);
        histories
    }

    #[test]
    fn a_history_is_exactly_its_allowed_classes() {
        let mut histories = logged();
        let mut are = |names: &[&str], of: Counted, classes: &[u32]| {
            let histories_of: Vec<UpTo> = names.iter().map(|name| whole(name)).collect();
            histories.are(&histories_of, of, classes)
        };
        for (names, of, classes) in [
            (&["a"][..], Counted::All, &[1, 2, 4][..]),
            (&["b"], Counted::All, &[2, 3, 4]),
            (&["a", "b"], Counted::All, &[1, 2, 3, 4]),
            (&["a"], Counted::Own(0), &[1, 4]),
            (&["a", "b"], Counted::Own(1), &[2]),
            (&["c"], Counted::All, &[]),
            (&["a"], Counted::Own(7), &[]),
            (&["a"], Counted::Read(21, 7), &[1, 2]),
            (&["a"], Counted::Read(20, 0), &[1, 4]),
            (&["a"], Counted::Read(21, 0), &[1, 2, 4]),
            (&["a"], Counted::Read(0, 1), &[2]),
        ] {
            assert_eq!(are(names, of, classes), Some(true), "{names:?} {classes:?}");
            assert_eq!(are(names, of, &[classes, &[9]].concat()), Some(false));
            assert_eq!(are(names, of, &[&[9], classes].concat()), Some(false));
            if !classes.is_empty() {
                assert_eq!(are(names, of, &classes[1..]), Some(false));
                assert_eq!(are(names, of, &classes[..classes.len() - 1]), Some(false));
            }
        }
        let upto = [UpTo { history: key("a"), index: 20 }, UpTo { history: key("b"), index: 30 }];
        assert_eq!(histories.are(&upto, Counted::All, &[1, 2, 3]), Some(true));
    }

    #[test]
    fn a_head_is_the_latest_that_its_issuer_logged_or_any_later_one() {
        let mut histories = logged();
        let mut head = |byte, issuer| histories.head(key("a"), &id(byte), issuer);
        assert_eq!(
            [head(5, 0), head(4, 0), head(3, 0), head(9, 0)],
            [Head::Latest(50), Head::Outdated, Head::Absent, Head::Absent]
        );
        assert_eq!(
            [head(5, 1), head(4, 1), head(2, 1), head(1, 1)],
            [Head::Latest(50), Head::Latest(40), Head::Latest(20), Head::Outdated]
        );
    }

    #[test]
    fn what_would_take_too_long_to_read_back_is_not_known() {
        let mut histories = logged();
        histories.read_back = MAX_READ_BACK - 1;
        assert_eq!(histories.are(&[whole("a")], Counted::All, &[1, 2, 4]), None);
        assert_eq!(histories.head(key("a"), &id(1), 0), Head::Unknown);
        assert!(histories.full);
    }
}
