//! What a log holds of each subject: its decisions in the order of the log. Pure.
//!
//! A decision counts where an auditor counts it: in the clear, with its subjects named. Allowed ones with a class are the
//! subject's history; denials and decisions of no class only move its head.

use merkle::{Hash, LeafIndex, TreeSize};
use receipt::body::{Decision, Ruling};
use receipt::{IssuerName, Receipt, ReceiptId, SeqNo, Shown as _};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeSet, HashMap};

/// Most decisions that are remembered: 72 bytes each, and four more for each of their subjects.
pub const MAX_ITEMS: usize = 2_000_000;

/// Most subjects.
pub const MAX_SUBJECTS: usize = 1_000_000;

/// Most entries of subjects' lists: four bytes each. Two subjects a decision are many.
pub const MAX_MENTIONS: usize = 4 * MAX_ITEMS;

/// Most bytes of names (subjects, classes, issuers, sessions) in all.
pub const MAX_NAME_BYTES: usize = 128 << 20;

/// Most subjects of one question: as many as an auditor merges (`counterfoil_audit`, claims of prior classes).
pub const MAX_ASKED: usize = 64;

/// What an index may grow to.
#[derive(Clone, Copy)]
struct Limits {
    items: usize,
    subjects: usize,
    mentions: usize,
    name_bytes: usize,
}

const LIMITS: Limits =
    Limits { items: MAX_ITEMS, subjects: MAX_SUBJECTS, mentions: MAX_MENTIONS, name_bytes: MAX_NAME_BYTES };

/// The number that stands for no name.
const NONE: u32 = u32::MAX;

/// A decision on a subject, as the log or the outbox holds it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    /// The class of the action.
    pub action_class: String,
    /// Where in the log it stands; `None` while it does not.
    pub index: Option<LeafIndex>,
    /// Who decided.
    pub issuer: IssuerName,
    /// Its number in that issuer's stream.
    pub seq: SeqNo,
    /// The receipt.
    pub id: ReceiptId,
    /// The agent's session, where the decision shows it.
    pub session: Option<String>,
}

/// What a decision says of its subjects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Mention<'a> {
    pub(super) subjects: BTreeSet<&'a str>,
    /// The class of an allowed action.
    pub(super) class: Option<&'a str>,
    pub(super) session: Option<&'a str>,
}

impl<'a> Mention<'a> {
    /// `None` for a decision that names no subject in the clear.
    pub(super) fn of(decision: &'a Decision) -> Option<Self> {
        let subjects: BTreeSet<&str> = decision.subjects.shown()?.iter().map(String::as_str).collect();
        let is_allowed = decision.ruling.shown() == Some(&Ruling::Allow);
        let class = decision.action_class.shown().filter(|_| is_allowed).map(String::as_str);
        let session = decision.session.shown().map(String::as_str);
        (!subjects.is_empty()).then_some(Self { subjects, class, session })
    }
}

/// The decisions of a log, by subject.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Index {
    items: Vec<Logged>,
    of_subject: HashMap<String, Vec<u32>>,
    names: Names,
    mentions: usize,
    subject_bytes: usize,
    /// Something was left out: nothing is known for certain any more.
    is_full: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Logged {
    index: u64,
    id: Hash,
    issuer: u32,
    seq: u64,
    class: u32,
    session: u32,
}

/// Names by number.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Vec<String>", into = "Vec<String>")]
struct Names {
    names: Vec<String>,
    numbers: HashMap<String, u32>,
    bytes: usize,
}

impl Names {
    fn number(&mut self, name: &str) -> u32 {
        if let Some(number) = self.numbers.get(name) {
            return *number;
        }
        // Bounded by MAX_NAME_BYTES and MAX_ITEMS, far below 2^32.
        let number = self.names.len() as u32;
        self.bytes += name.len();
        self.names.push(name.to_owned());
        self.numbers.insert(name.to_owned(), number);
        number
    }

    fn name(&self, number: u32) -> Option<&str> {
        self.names.get(number as usize).map(String::as_str)
    }
}

impl From<Vec<String>> for Names {
    fn from(names: Vec<String>) -> Self {
        let mut all = Self::default();
        for name in &names {
            all.number(name);
        }
        all
    }
}

impl From<Names> for Vec<String> {
    fn from(names: Names) -> Self {
        names.names
    }
}

/// What is asked: these subjects, below this size, of this issuer alone or of all.
#[derive(Clone, Copy, Debug)]
pub(super) struct Question<'a> {
    pub(super) subjects: &'a [String],
    pub(super) below: TreeSize,
    pub(super) issuer: Option<&'a IssuerName>,
}

/// The answer, in the order of the log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) items: Vec<Item>,
    /// Subject, and the newest receipt that names it, for those that any names.
    pub(super) heads: Vec<(String, ReceiptId)>,
}

impl Index {
    /// Whether a log was larger than fits, so that no answer is whole.
    pub(super) fn is_full(&self) -> bool {
        self.is_full
    }

    /// Adds the receipt that stands at `index`; later ones must stand behind it.
    pub(super) fn add(&mut self, index: LeafIndex, receipt: &Receipt, mention: &Mention<'_>) {
        self.add_within(LIMITS, index, receipt, mention);
    }

    fn add_within(&mut self, limits: Limits, index: LeafIndex, receipt: &Receipt, mention: &Mention<'_>) {
        let is_new = |subject: &&&str| !self.of_subject.contains_key(**subject);
        let new_subjects = mention.subjects.iter().filter(is_new).count();
        let new_bytes: usize = mention.subjects.iter().filter(is_new).map(|subject| subject.len()).sum();
        let others = [mention.class, mention.session, Some(receipt.issuer().as_str())];
        let other_bytes: usize = others.into_iter().flatten().map(str::len).sum();
        self.is_full |= self.items.len() >= limits.items
            || self.of_subject.len() + new_subjects > limits.subjects
            || self.mentions + mention.subjects.len() > limits.mentions
            || self.subject_bytes + self.names.bytes + new_bytes + other_bytes > limits.name_bytes;
        if self.is_full {
            return;
        }
        let number = self.items.len() as u32;
        let mut of = |name: Option<&str>| name.map_or(NONE, |name| self.names.number(name));
        let (issuer, class, session) = (of(Some(receipt.issuer().as_str())), of(mention.class), of(mention.session));
        self.items.push(Logged { index: index.0, id: receipt.id().0, issuer, seq: receipt.seq().0, class, session });
        self.mentions += mention.subjects.len();
        self.subject_bytes += new_bytes;
        for subject in &mention.subjects {
            self.of_subject.entry((*subject).to_owned()).or_default().push(number);
        }
    }

    /// What the log holds below a size.
    pub(super) fn find(&self, question: Question<'_>) -> Found {
        let (mut numbers, mut heads) = (BTreeSet::new(), Vec::new());
        for subject in question.subjects {
            let listed = self.of_subject.get(subject).map(Vec::as_slice).unwrap_or_default();
            let counts =
                |number: &&u32| self.items.get(**number as usize).is_some_and(|item| self.counts(item, question));
            if let Some(newest) = listed.iter().rev().find(counts).and_then(|number| self.items.get(*number as usize)) {
                heads.push((subject.clone(), ReceiptId(newest.id)));
            }
            numbers.extend(listed.iter().filter(counts).copied());
        }
        let items = numbers.into_iter().filter_map(|number| self.item(self.items.get(number as usize)?)).collect();
        Found { items, heads }
    }

    /// The receipts of `issuer` on any of `subjects` at or behind a size, oldest first: with their class, where they are part of
    /// a history.
    pub(super) fn beyond(&self, question: Question<'_>) -> Found {
        let beyond = Question { below: TreeSize(u64::MAX), ..question };
        let all = self.find(beyond);
        let is_beyond = |item: &Item| item.index.is_some_and(|index| index.0 >= question.below.0);
        let before = self.find(question).heads;
        Found {
            items: all.items.into_iter().filter(is_beyond).collect(),
            heads: all.heads.into_iter().filter(|head| !before.contains(head)).collect(),
        }
    }

    fn counts(&self, item: &Logged, question: Question<'_>) -> bool {
        item.index < question.below.0
            && question.issuer.is_none_or(|issuer| self.names.name(item.issuer) == Some(issuer.as_str()))
    }

    /// `None` for what is no part of a history.
    fn item(&self, logged: &Logged) -> Option<Item> {
        Some(Item {
            action_class: self.names.name(logged.class)?.to_owned(),
            index: Some(LeafIndex(logged.index)),
            issuer: IssuerName::new(self.names.name(logged.issuer)?).ok()?,
            seq: SeqNo(logged.seq),
            id: ReceiptId(logged.id),
            session: self.names.name(logged.session).map(str::to_owned),
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;
    use note::{KeyKind, KeyName, SigningKey};
    use receipt::{Body, Chain, UnixMillis};
    use serde_json::json;

    /// The decisions of one gate on these subjects, each of a class of its own.
    fn decisions(subjects: &[&[&str]]) -> Vec<Receipt> {
        let key = SigningKey::from_seed(KeyName::new("gate.example/1").unwrap(), KeyKind::Ed25519, [1; 32]);
        let mut chain = Chain::new(IssuerName::new("gate.example/1").unwrap());
        chain.open(UnixMillis(1), &key).unwrap();
        let mut sign = |(number, subjects): (usize, &&[&str])| {
            let body = json!({
                "type": "decision", "request_id": number.to_string(), "decision": "allow", "action_class": format!("C{number}"),
                "subjects": subjects, "authenticated": true, "executes": "none",
            });
            chain.append(body.to_string(), UnixMillis(1), &key).unwrap()
        };
        subjects.iter().enumerate().map(&mut sign).collect()
    }

    fn added(limits: Limits, receipts: &[Receipt]) -> Index {
        let mut index = Index::default();
        for (receipt, at) in receipts.iter().zip(0..) {
            let Body::Decision(decision) = receipt.body() else { panic!("a decision is one") };
            index.add_within(limits, LeafIndex(at), receipt, &Mention::of(decision).unwrap());
        }
        index
    }

    fn classes(index: &Index, subjects: &[&str], below: u64) -> Vec<String> {
        let subjects: Vec<String> = subjects.iter().map(|subject| (*subject).to_owned()).collect();
        let question = Question { subjects: &subjects, below: TreeSize(below), issuer: None };
        index.find(question).items.into_iter().map(|item| item.action_class).collect()
    }

    #[test]
    fn histories_of_several_subjects_are_merged_in_the_logs_order_and_end_where_it_is_said() {
        let index = added(LIMITS, &decisions(&[&["a"], &["b"], &["a", "b"], &["b", "b"], &["c"]]));
        assert_eq!(classes(&index, &["b", "a"], 9), ["C0", "C1", "C2", "C3"]);
        assert_eq!(classes(&index, &["b", "a"], 3), ["C0", "C1", "C2"]);
        assert_eq!(classes(&index, &["b"], 9), ["C1", "C2", "C3"]);
        assert_eq!(classes(&index, &["nobody"], 9), Vec::<String>::new());
    }

    #[test]
    fn an_index_that_left_something_out_says_so() {
        let receipts = decisions(&[&["a"], &["b"], &["a", "b"]]);
        assert!(!added(LIMITS, &receipts).is_full());
        for limits in [
            Limits { items: 2, ..LIMITS },
            Limits { subjects: 1, ..LIMITS },
            Limits { mentions: 3, ..LIMITS },
            Limits { name_bytes: 20, ..LIMITS },
        ] {
            assert!(added(limits, &receipts).is_full());
        }
    }

    #[test]
    fn an_index_read_back_is_the_one_that_was_kept() {
        let index = added(LIMITS, &decisions(&[&["a"], &["b"], &["a", "b"]]));
        let kept: Index = serde_json::from_slice(&serde_json::to_vec(&index).unwrap()).unwrap();
        assert_eq!(kept, index);
    }
}
