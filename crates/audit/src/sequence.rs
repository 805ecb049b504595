//! The sequence family: rules over the order of actions, one check a rule and scope; and whether the history a gate
//! says it judged by is the one the log shows ([`crate::prior`]).
//!
//! A rule spans the whole log, whichever gate and session an action came through: that is what the log is for.
//! Denied calls neither fire nor prepare. An action fires a rule once, however many prepared it or however many of
//! its subjects agree.

use crate::action::{Action, History, KeptBy};
use crate::key::Key;
use crate::prior::PriorChecks;
use crate::quote::quoted;
use crate::rules::{Rules, Scope, SequenceRule};
use crate::verdict::{Check, CheckBuilder, Family, ReceiptRef};
use std::collections::HashMap;

/// Most subjects of one decision that are followed. A call touches a handful; an entry has room for sixteen thousand,
/// each of which would take a hundred times its bytes.
pub(crate) const MAX_SUBJECTS: usize = 64;

/// Most values of its scope that one rule remembers: some hundred bytes each.
const MAX_PREPARED: usize = 4_000_000;

/// The sequence family over one log.
pub(crate) struct SequenceChecks<'rules> {
    rules: &'rules Rules,
    evaluated: Vec<RuleState<'rules>>,
    prior: PriorChecks,
    /// Actions with a class, or whose class is only committed to.
    actions: u64,
}

/// One rule while it is evaluated.
struct RuleState<'rules> {
    rule: &'rules SequenceRule,
    check: CheckBuilder,
    /// The latest allowed preparing action within each value of the scope.
    prepared: HashMap<Key, ReceiptRef>,
    /// Actions that carry the scope.
    judged: u64,
    /// Allowed preparing or completing actions that do not.
    without_scope: u64,
    /// Denied calls that would have completed the sequence.
    stopped: u64,
}

impl<'rules> SequenceChecks<'rules> {
    pub(crate) fn new(rules: &'rules Rules) -> SequenceChecks<'rules> {
        let state = |rule: &'rules SequenceRule| RuleState {
            rule,
            check: CheckBuilder::new(Family::Sequence, format!("{}/{}", rule.code, rule.scope.as_str())),
            prepared: HashMap::new(),
            judged: 0,
            without_scope: 0,
            stopped: 0,
        };
        SequenceChecks {
            rules,
            evaluated: rules.sequences.iter().map(state).collect(),
            prior: PriorChecks::new(),
            actions: 0,
        }
    }

    /// Judges the next action of the log.
    pub(crate) fn add(&mut self, mut action: Action) {
        if action.subjects.len() > MAX_SUBJECTS {
            // Whatever hangs on its subjects is as little known as if they were only committed to.
            action.subjects = Vec::new();
            action.committed.push("subjects");
        }
        if let Some(resource) = &action.resource {
            let related = self.rules.subjects_of(resource);
            let new: Vec<String> =
                related.iter().filter(|subject| !action.subjects.contains(subject)).cloned().collect();
            action.subjects.extend(new);
        }
        let unknown_class = action.committed.contains(&"action_class") || action.committed.contains(&"decision");
        if action.action_class.is_some() || unknown_class {
            self.actions += 1;
            for state in &mut self.evaluated {
                state.judge(&action, unknown_class, self.rules.from_file);
            }
        }
        self.prior.add(&action);
    }

    pub(crate) fn finish(self) -> Vec<Check> {
        let (actions, from_file) = (self.actions, self.rules.from_file);
        let mut checks: Vec<Check> = self.evaluated.into_iter().map(|state| state.finish(actions, from_file)).collect();
        checks.extend(self.prior.finish());
        checks
    }
}

impl RuleState<'_> {
    fn judge(&mut self, action: &Action, unknown_class: bool, from_file: bool) {
        let class = action.action_class.as_deref().unwrap_or_default();
        let is_among = |classes: &[String]| classes.iter().any(|one| one == class);
        let (prepares, completes) = (is_among(&self.rule.first), is_among(&self.rule.then));
        let values = scope_values(action, self.rule.scope);
        let scope_committed = action.committed.contains(&committed_name(self.rule.scope));
        if unknown_class || ((prepares || completes) && scope_committed && action.allowed) {
            self.check.not_checked("member-committed", &[&action.at], || {
                [
                    format!("the receipt only commits to its decision, class or scope, or names more than {MAX_SUBJECTS} subjects"),
                    String::from("whether the rule holds for this action"),
                    String::from("ask the gate for the disclosure of these members"),
                ]
            });
        }
        if values.is_empty() {
            if action.allowed && (prepares || completes) && !scope_committed {
                self.without_scope += 1;
                self.report_without_scope(action, class, from_file);
            }
            return;
        }
        self.judged += 1;
        self.check.checked();
        let keys: Vec<Key> = values.iter().map(|value| Key::new(&[value])).collect();
        if completes {
            let prior = keys.iter().zip(&values).find_map(|(key, value)| Some((self.prepared.get(key)?, *value)));
            match prior {
                Some((first, value)) if action.allowed => {
                    let rule = self.rule;
                    self.check.fail("sequence-forbidden", &[first, &action.at], || {
                        [
                            format!(
                                "{}: an allowed {} follows an allowed action of {} in {} {}",
                                rule.code,
                                quoted(class),
                                rule.first.join(" or "),
                                rule.scope.as_str(),
                                quoted(value)
                            ),
                            String::from("that either action alone was wrong, or that anybody meant harm"),
                            String::from("look at both receipts; undo the second action if nobody can answer for it"),
                        ]
                    });
                }
                Some(_) => self.stopped += 1,
                None => {}
            }
            if action.allowed && from_file {
                self.report_narrower(action);
            }
        }
        if prepares && action.allowed {
            for key in keys {
                if self.prepared.len() < MAX_PREPARED || self.prepared.contains_key(&key) {
                    self.prepared.insert(key, action.at.clone());
                } else {
                    self.report_too_many(action);
                }
            }
        }
    }

    fn report_without_scope(&mut self, action: &Action, class: &str, from_file: bool) {
        let rule = self.rule;
        let words = || {
            [
                format!("an allowed {} names no {}", quoted(class), rule.scope.as_str()),
                format!("whether it belongs to a sequence that {} forbids", rule.code),
                match rule.scope {
                    Scope::Session => String::from("have the gate write the session"),
                    Scope::Resource => String::from("have the gate write the resource"),
                    Scope::Subject => String::from(
                        "have the gate write subjects, or name the resource's subject in a [[relation]] of the rule file",
                    ),
                },
            ]
        };
        // What the auditor's own file asks for must be checked for every action. The built-in rule looks at all scopes
        // so that one of them fits; but only the subject, the widest, catches what was spread over the others, so an
        // action without one leaves that open.
        match from_file || rule.scope == Scope::Subject {
            true => self.check.not_checked("scope-absent", &[&action.at], words),
            false => self.check.notice("scope-absent", &[&action.at], words),
        }
    }

    fn report_too_many(&mut self, action: &Action) {
        let scope = self.rule.scope.as_str();
        self.check.not_checked("scope-too-many", &[&action.at], || {
            [
                format!("the log has preparing actions in more than {MAX_PREPARED} values of {scope}; this one is not remembered"),
                String::from("whether a later action completes a sequence that this one began"),
                String::from("audit the log in parts, or ask why its gates write so many"),
            ]
        });
    }

    /// The gate judged by less than the auditor's rule asks for.
    fn report_narrower(&mut self, action: &Action) {
        let Some(History::Chained(history)) = action.prior.as_ref().map(|prior| &prior.history) else { return };
        let narrower = match (history.kept_by, self.rule.scope) {
            (KeptBy::Session, Scope::Resource | Scope::Subject) => "session",
            (KeptBy::Resource, Scope::Subject) => "resource",
            _ => return,
        };
        let rule = self.rule;
        self.check.notice("scope-narrower", &[&action.at], || {
            [
                format!(
                    "the gate judged this call by the history of its {narrower}; {} asks for that of its {}",
                    rule.code,
                    rule.scope.as_str()
                ),
                String::from("that this call was wrong"),
                format!("have the gate keep its history by {}", rule.scope.as_str()),
            ]
        });
    }

    fn finish(mut self, actions: u64, from_file: bool) -> Check {
        let scope = self.rule.scope.as_str();
        // A scope that is there and hidden is one that the rule asks for.
        let is_hidden = self.check.count("member-committed") > 0;
        self.check.required(actions > 0 && (from_file || is_hidden || self.judged > 0));
        let covers = match (actions, self.judged) {
            (0, _) => String::from("nothing of this kind in the log"),
            (_, 0) => format!("none of {actions} actions carries a {scope}"),
            (_, judged) => format!(
                "actions that carry a {scope}: {judged} of {actions}; denied calls that would have completed the sequence: {}; allowed ones of its classes without a {scope}: {}",
                self.stopped, self.without_scope
            ),
        };
        self.check.finish(covers)
    }
}

fn scope_values(action: &Action, scope: Scope) -> Vec<&str> {
    match scope {
        Scope::Session => action.session.iter().map(String::as_str).collect(),
        Scope::Resource => action.resource.iter().map(String::as_str).collect(),
        Scope::Subject => action.subjects.iter().map(String::as_str).collect(),
    }
}

fn committed_name(scope: Scope) -> &'static str {
    match scope {
        Scope::Session => "session",
        Scope::Resource => "resource",
        Scope::Subject => "subjects",
    }
}
