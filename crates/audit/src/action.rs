//! One view of an action for all formats: what a native `decision` and a foreign record have in common, so that the
//! sequence rules judge both by the same code.
//!
//! Holds the view and how a native decision becomes one. Foreign formats make theirs in their own module. Does not
//! judge anything.

use crate::verdict::ReceiptRef;
use receipt::ReceiptId;
use receipt::body::{Decision, Ruling, Shown};
use std::borrow::Cow;

/// One call that a gate decided.
#[derive(Clone, Debug, PartialEq)]
pub struct Action<'record> {
    /// Where its receipt is.
    pub at: ReceiptRef,
    /// The conversation it belongs to.
    pub session: Option<Cow<'record, str>>,
    /// What it acts on.
    pub resource: Option<Cow<'record, str>>,
    /// The risk objects it touches, as the record names them; relations of the rule file come on top.
    pub subjects: Vec<Cow<'record, str>>,
    /// Its class, e.g. `IDENTITY_MUTATION`.
    pub action_class: Option<Cow<'record, str>>,
    /// Whether the gate allowed it.
    pub allowed: bool,
    /// The history that the gate says it judged by.
    pub prior: Option<Prior<'record>>,
    /// Members that matter here and that the receipt only commits to, by name.
    pub committed: Vec<&'static str>,
}

/// The history that a gate says it judged by.
#[derive(Clone, Debug, PartialEq)]
pub struct Prior<'record> {
    /// Classes of the allowed actions in that history, oldest first.
    pub classes: Option<Cow<'record, [String]>>,
    /// Which history.
    pub history: History<'record>,
}

/// Which history a record claims to continue.
#[derive(Clone, Debug, PartialEq)]
pub enum History<'record> {
    /// A native decision. With heads: the histories of these subjects, each up to that receipt. Without: its
    /// session's, its resource's or its subjects', whichever the gate keeps; the record does not say.
    Native {
        /// Subject and head.
        heads: Vec<(&'record str, ReceiptId)>,
        /// How many entries of the log the gate had read, where it says so (`history`, its `size`).
        read: Option<u64>,
    },
    /// A foreign record that names its history and chains its records.
    Chained(ChainedHistory),
    /// The record does not say.
    Unnamed,
}

/// A history of a foreign gate that chains its records.
#[derive(Clone, Debug, PartialEq)]
pub struct ChainedHistory {
    /// The gate, where the record names it; histories of different gates are different histories.
    pub gate: Option<String>,
    /// What the gate keeps its prior list by.
    pub kept_by: KeptBy,
    /// The value of that: the session, the resource or the customer.
    pub of: String,
    /// The chain that the record continues or starts: `(is a customer's, session or customer)`.
    pub chain: (bool, String),
    /// The record says that nothing came before it in its chain.
    pub starts_chain: bool,
}

/// What a gate keeps its prior list by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum KeptBy {
    /// The session.
    Session,
    /// The resource.
    Resource,
    /// The customer, or whatever else is a subject.
    Customer,
}

impl<'record> Action<'record> {
    /// The view of a native decision.
    pub(crate) fn of_decision(at: ReceiptRef, decision: &'record Decision) -> Action<'record> {
        let mut committed = Vec::new();
        let mut note_committed = |name, is_committed: bool| {
            if is_committed {
                committed.push(name);
            }
        };
        note_committed("decision", decision.ruling.is_committed());
        note_committed("action_class", decision.action_class.is_committed());
        note_committed("session", decision.session.is_committed());
        note_committed("resource", decision.resource.is_committed());
        note_committed("subjects", decision.subjects.is_committed());
        let heads = decision.prior_heads.shown().map(|heads| {
            let clear = heads.0.iter().filter_map(|(subject, head)| Some((subject.as_str(), *head.clear()?)));
            clear.collect::<Vec<_>>()
        });
        let classes = decision.prior_action_classes.shown().map(|classes| Cow::Borrowed(classes.as_slice()));
        let prior = (classes.is_some() || heads.is_some()).then(|| Prior {
            classes,
            history: History::Native { heads: heads.unwrap_or_default(), read: read_size(decision) },
        });
        Action {
            at,
            session: borrowed(decision.session.shown()),
            resource: borrowed(decision.resource.shown()),
            subjects: decision
                .subjects
                .shown()
                .into_iter()
                .flatten()
                .map(|subject| Cow::Borrowed(&**subject))
                .collect(),
            action_class: borrowed(decision.action_class.shown()),
            // A ruling that is only committed to may have been an allow; `committed` says that it is unknown.
            allowed: decision.ruling.shown() == Some(&Ruling::Allow),
            prior,
            committed,
        }
    }
}

/// The size in `history`.
fn read_size(decision: &Decision) -> Option<u64> {
    decision.history.shown()?.size.shown().copied()
}

fn borrowed(text: Option<&String>) -> Option<Cow<'_, str>> {
    text.map(|text| Cow::Borrowed(text.as_str()))
}
