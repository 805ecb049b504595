//! The provenance family: what the agent had read when it asked, and what it keeps of it.
//!
//! A change of identity, permission or ownership that was allowed where everything the agent had read is untrusted
//! fails: nothing that the operator answers for stands behind it. A person's approval of that very call does, so with
//! one it is noticed only; a grant does not, since it says on whose behalf the agent works and not who made it ask.
//! Where trusted and untrusted facts stand side by side, which of them caused the call cannot be told.
//!
//! A note from an untrusted source that the agent keeps in its own voice, or that is about ownership or permission,
//! fails (protocol 3.5): once kept it will be read as the agent's own.

use crate::amount::amount;
use crate::quote::quoted;
use crate::request::committed;
use crate::rules::ProvenanceRule;
use crate::verdict::{Check, CheckBuilder, Family, ReceiptRef, Severity};
use receipt::body::{Decision, Fact, Memory, MemoryForm, Ruling, Shown, Trust};
use serde::{Deserialize, Serialize};

use Severity::{Fail, NotChecked, Notice};

/// The provenance family over one log.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct ProvenanceChecks {
    changes: CheckBuilder,
    memory: CheckBuilder,
    allowed_changes: u64,
    with_facts: u64,
    notes: u64,
    untrusted_notes: u64,
}

impl ProvenanceChecks {
    pub(crate) fn new() -> ProvenanceChecks {
        let check = |name: &str| CheckBuilder::new(Family::Provenance, name);
        ProvenanceChecks {
            changes: check("changes"),
            memory: check("memory"),
            allowed_changes: 0,
            with_facts: 0,
            notes: 0,
            untrusted_notes: 0,
        }
    }

    /// An allowed change against what the agent had read. `approved`: a person said yes before.
    pub(crate) fn decision(&mut self, rule: &ProvenanceRule, at: &ReceiptRef, decision: &Decision, approved: bool) {
        if decision.ruling.shown() != Some(&Ruling::Allow) {
            return;
        }
        let class = decision.action_class.shown();
        let facts = decision.facts.shown().map(Vec::as_slice).unwrap_or_default();
        if decision.action_class.is_committed() {
            // Facts that are all trusted cause nothing that this family asks about, whatever the class.
            if decision.facts.is_committed() || facts.iter().any(|fact| trust(fact) != Some(Trust::Trusted)) {
                committed(&mut self.changes, at, "action_class");
            }
            return;
        }
        let Some(class) = class.filter(|class| rule.classes.contains(class)) else { return };
        self.allowed_changes += 1;
        if decision.facts.is_committed() {
            committed(&mut self.changes, at, "facts");
            return;
        }
        if facts.is_empty() {
            return;
        }
        self.with_facts += 1;
        self.changes.checked();
        let count = |wanted: Option<Trust>| facts.iter().filter(|fact| trust(fact) == wanted).count();
        let (trusted, untrusted, unknown) = (count(Some(Trust::Trusted)), count(Some(Trust::Untrusted)), count(None));
        let (code, severity) = match (trusted, untrusted, unknown) {
            (_, 0, 0) => return,
            (0, _, 0) => ("untrusted-change", Fail),
            (_, 0, _) => ("fact-trust-unknown", NotChecked),
            _ => ("mixed-facts-change", NotChecked),
        };
        self.changes.find(code, if approved { Notice } else { severity }, &[at], || {
            let sources: Vec<String> = facts
                .iter()
                .filter(|fact| trust(fact) != Some(Trust::Trusted))
                .filter_map(|fact| fact.source.shown().map(|source| quoted(source)))
                .take(4)
                .collect();
            [
                format!(
                    "the gate allowed {}; of what the agent had read, {untrusted} came from untrusted sources, {unknown} from sources of unknown trust, {trusted} from trusted ones{}{}{}",
                    quoted(class),
                    if sources.is_empty() { "" } else { "; not trusted: " },
                    sources.join(", "),
                    if approved { "; a person approved it" } else { "" }
                ),
                String::from("that these facts made the agent ask, or that the change was wrong"),
                String::from("ask the one whose identity or permission changed; undo the change if nobody wanted it"),
            ]
        });
    }

    /// A note that the agent keeps.
    pub(crate) fn memory(&mut self, rule: &ProvenanceRule, at: &ReceiptRef, memory: &Memory) {
        self.notes += 1;
        self.memory.checked();
        let hidden = [
            ("trust", memory.trust.is_committed()),
            ("form", memory.form.is_committed()),
            ("about", memory.about.is_committed()),
        ];
        if memory.trust.shown() == Some(&Trust::Trusted) {
            return;
        }
        if let Some((member, _)) = hidden.iter().find(|(_, is_committed)| *is_committed) {
            committed(&mut self.memory, at, member);
        }
        let asserted = memory.form.shown() == Some(&MemoryForm::Asserted);
        let about = memory.about.shown().and_then(|about| about.iter().find(|word| rule.about.contains(word)));
        let untrusted = memory.trust.shown() == Some(&Trust::Untrusted);
        self.untrusted_notes += u64::from(untrusted);
        if memory.trust.is_none() && (asserted || about.is_some()) {
            self.report_unclear(at, "trust");
        }
        if untrusted && memory.form.is_none() {
            self.report_unclear(at, "form");
        }
        if !untrusted {
            return;
        }
        let words = |how: String| {
            let source = memory.source.shown().map_or(String::new(), |source| format!(", {}", quoted(source)));
            [
                format!("the agent keeps a note from an untrusted source{source}, {how}"),
                String::from("that anything was done because of it"),
                String::from("have the note removed; look at what the agent did since"),
            ]
        };
        if asserted {
            self.memory.fail("untrusted-memory-asserted", &[at], || words(String::from("in its own voice")));
        }
        if let Some(about) = about {
            self.memory.fail("untrusted-memory-about", &[at], || words(format!("about {}", quoted(about))));
        }
    }

    fn report_unclear(&mut self, at: &ReceiptRef, member: &'static str) {
        self.memory.not_checked("memory-unclear", &[at], || {
            [
                format!("the receipt of a note that the agent keeps does not say its {member}"),
                String::from("whether the agent may keep it so"),
                format!("have the gate write {member}"),
            ]
        });
    }

    pub(crate) fn finish(mut self) -> [Check; 2] {
        let is_hidden = |check: &CheckBuilder| check.count("member-committed") > 0;
        self.changes.required(self.with_facts > 0 || is_hidden(&self.changes));
        self.memory.required(self.notes > 0);
        let nothing = || String::from("nothing of this kind in the log");
        let changes = match self.allowed_changes {
            0 => nothing(),
            allowed => format!(
                "{} of identity, permission or ownership, {} of them with what the agent had read",
                amount(allowed, "allowed change", "allowed changes"),
                self.with_facts
            ),
        };
        let notes = match self.notes {
            0 => nothing(),
            notes => {
                format!("{}, {} from untrusted sources", amount(notes, "note kept", "notes kept"), self.untrusted_notes)
            }
        };
        [self.changes.finish(changes), self.memory.finish(notes)]
    }
}

fn trust(fact: &Fact) -> Option<Trust> {
    fact.trust.shown().copied()
}
