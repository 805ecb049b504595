//! The sequence family: rules over the order of actions, one check a rule and scope; and whether the history a gate
//! says it judged by is the one the log shows ([`crate::prior`]), under a root that the log had ([`crate::read_roots`]).
//!
//! A rule spans the whole log, whichever gate and session an action came through: that is what the log is for. Only a
//! session is a gate's own word: across gates of one session's name it is not judged.
//! Denied calls neither fire nor prepare. An action fires a rule once, however many prepared it or however many of
//! its subjects agree.

use crate::action::{Action, KeptBy};
use crate::bundle::ReadError;
use crate::calls::CallTerms;
use crate::key::Key;
use crate::prior::PriorChecks;
use crate::quote::quoted;
use crate::read_roots::{ReadRoots, SignedTree};
use crate::rules::{Rules, Scope, SequenceRule};
use crate::verdict::{Check, CheckBuilder, Family, ReceiptRef, Severity};
use merkle::RootHash;
use receipt::body::{Decision, Shown};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};

/// Most subjects of one decision that are followed. A call touches a handful; an entry has room for sixteen thousand,
/// each of which would take a hundred times its bytes.
pub(crate) const MAX_SUBJECTS: usize = 64;

/// Most values of its scope that one rule remembers: some forty bytes each.
const MAX_PREPARED: usize = 4_000_000;

/// The sequence family over one log. Rules are the auditor's and stay outside: what is remembered holds for exactly the
/// rules that it began with.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct SequenceChecks {
    /// One a rule, in the order of the rules.
    evaluated: Vec<RuleState>,
    prior: PriorChecks,
    read_roots: ReadRoots,
    /// Actions with a class, or whose class is only committed to.
    actions: u64,
}

/// One rule while it is evaluated.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct RuleState {
    check: CheckBuilder,
    /// The latest allowed preparing action within each value of the scope, by its place in the log.
    prepared: HashMap<Key, u64>,
    /// Actions that carry the scope.
    judged: u64,
    /// Allowed preparing or completing actions that do not.
    without_scope: u64,
    /// Denied calls that would have completed the sequence.
    stopped: u64,
}

impl SequenceChecks {
    pub(crate) fn new(rules: &Rules) -> SequenceChecks {
        let state = |rule: &SequenceRule| RuleState {
            check: CheckBuilder::new(Family::Sequence, format!("{}/{}", rule.code, rule.scope.as_str())),
            prepared: HashMap::new(),
            judged: 0,
            without_scope: 0,
            stopped: 0,
        };
        SequenceChecks {
            evaluated: rules.sequences.iter().map(state).collect(),
            prior: PriorChecks::new(),
            read_roots: ReadRoots::new(),
            actions: 0,
        }
    }

    /// The log holds receipts whose issuers the auditor did not name: what they say is not known here.
    pub(crate) fn others_before(&mut self) {
        self.prior.others_before();
    }

    /// What a native decision says of the head that it read its history under. `roots` are those of the tree so far, at some
    /// sizes.
    pub(crate) fn head_of(&mut self, at: &ReceiptRef, decision: &Decision, roots: &BTreeMap<u64, RootHash>) {
        self.read_roots.add(at, decision, roots);
        let history = decision.history.shown();
        if history.is_some_and(|history| history.witnessed.shown() == Some(&false)) {
            self.prior.unwitnessed(at);
        }
    }

    /// Judges the next action of the log.
    pub(crate) fn add(&mut self, terms: &CallTerms<'_>, mut action: Action<'_>) -> Result<(), ReadError> {
        if action.subjects.len() > MAX_SUBJECTS {
            // Whatever hangs on its subjects is as little known as if they were only committed to.
            action.subjects = Vec::new();
            action.committed.push("subjects");
        }
        if let Some(resource) = &action.resource {
            for subject in terms.rules.subjects_of(resource) {
                if !action.subjects.contains(&Cow::Borrowed(subject)) {
                    action.subjects.push(Cow::Owned(subject.clone()));
                }
            }
        }
        let kept_by = self.prior.add(&action);
        let unknown_class = action.committed.contains(&"action_class") || action.committed.contains(&"decision");
        if action.action_class.is_some() || unknown_class {
            self.actions += 1;
            for (state, rule) in self.evaluated.iter_mut().zip(&terms.rules.sequences) {
                state.judge(terms, rule, &action, unknown_class, kept_by)?;
            }
        }
        Ok(())
    }

    pub(crate) fn finish(self, rules: &Rules, tree: &dyn SignedTree) -> Result<Vec<Check>, ReadError> {
        let states = self.evaluated.into_iter().zip(&rules.sequences);
        let mut checks: Vec<Check> =
            states.map(|(state, rule)| state.finish(rule, self.actions, rules.from_file)).collect();
        checks.extend(self.prior.finish());
        checks.push(self.read_roots.finish(tree)?);
        Ok(checks)
    }
}

impl RuleState {
    fn judge(
        &mut self,
        terms: &CallTerms<'_>,
        rule: &SequenceRule,
        action: &Action<'_>,
        unknown_class: bool,
        kept_by: Option<KeptBy>,
    ) -> Result<(), ReadError> {
        let from_file = terms.rules.from_file;
        let class = action.action_class.as_deref().unwrap_or_default();
        let is_among = |classes: &[String]| classes.iter().any(|one| one == class);
        let (prepares, completes) = (is_among(&rule.first), is_among(&rule.then));
        let values = scope_values(action, rule.scope);
        let scope_committed = action.committed.contains(&committed_name(rule.scope));
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
                self.report_without_scope(rule, action, class, from_file);
            }
            return Ok(());
        }
        self.judged += 1;
        self.check.checked();
        if !prepares && !completes {
            return Ok(());
        }
        // A session is one gate's word: two gates that give a session one name need not mean the same conversation.
        let issuer = action.at.issuer.as_deref().filter(|_| rule.scope == Scope::Session);
        let own_key = |value: &str| issuer.map_or(Key::new(&[value]), |issuer| Key::new(&[issuer, value]));
        if completes {
            let prior_by = |key: &dyn Fn(&str) -> Key| {
                values.iter().find_map(|value| Some((*self.prepared.get(&key(value))?, value)))
            };
            let (own, any) = (prior_by(&own_key), prior_by(&|value| Key::new(&[value])));
            match own.or(any) {
                Some((first, value)) if action.allowed && own.is_none() => {
                    let code = ("sequence-across-gates", Severity::NotChecked);
                    terms.find(&mut self.check, code, &[first], &[&action.at], || {
                        [
                            format!(
                                "{}: an allowed {} follows an allowed action of {} that another gate allowed in a session of the same name, {}",
                                rule.code,
                                quoted(class),
                                rule.first.join(" or "),
                                quoted(value)
                            ),
                            String::from("whether both gates mean one conversation: each names its sessions itself"),
                            String::from("ask the gates' operators; a rule by subject tells without asking"),
                        ]
                    })?;
                }
                Some((first, value)) if action.allowed => {
                    let code = ("sequence-forbidden", Severity::Fail);
                    terms.find(&mut self.check, code, &[first], &[&action.at], || {
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
                    })?;
                }
                Some(_) => self.stopped += 1,
                None => {}
            }
            if action.allowed && from_file {
                self.report_narrower(rule, action, kept_by);
            }
        }
        if prepares && action.allowed {
            let any = values.iter().filter(|_| issuer.is_some()).map(|value| Key::new(&[value]));
            let keys: Vec<Key> = values.iter().map(|value| own_key(value)).chain(any).collect();
            for key in keys {
                if self.prepared.len() < MAX_PREPARED || self.prepared.contains_key(&key) {
                    self.prepared.insert(key, action.at.index.unwrap_or(u64::MAX));
                } else {
                    self.report_too_many(rule, action);
                }
            }
        }
        Ok(())
    }

    fn report_without_scope(&mut self, rule: &SequenceRule, action: &Action<'_>, class: &str, from_file: bool) {
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

    fn report_too_many(&mut self, rule: &SequenceRule, action: &Action<'_>) {
        let scope = rule.scope.as_str();
        self.check.not_checked("scope-too-many", &[&action.at], || {
            [
                format!("the log has preparing actions in more than {MAX_PREPARED} values of {scope}; this one is not remembered"),
                String::from("whether a later action completes a sequence that this one began"),
                String::from("audit the log in parts, or ask why its gates write so many"),
            ]
        });
    }

    /// The gate judged by less than the auditor's rule asks for.
    fn report_narrower(&mut self, rule: &SequenceRule, action: &Action<'_>, kept_by: Option<KeptBy>) {
        let narrower = match (kept_by, rule.scope) {
            (Some(KeptBy::Session), Scope::Resource | Scope::Subject) => "session",
            (Some(KeptBy::Resource), Scope::Subject) => "resource",
            _ => return,
        };
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

    fn finish(mut self, rule: &SequenceRule, actions: u64, from_file: bool) -> Check {
        let scope = rule.scope.as_str();
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

fn scope_values<'action>(action: &'action Action<'_>, scope: Scope) -> &'action [Cow<'action, str>] {
    match scope {
        Scope::Session => action.session.as_slice(),
        Scope::Resource => action.resource.as_slice(),
        Scope::Subject => &action.subjects,
    }
}

fn committed_name(scope: Scope) -> &'static str {
    match scope {
        Scope::Session => "session",
        Scope::Resource => "resource",
        Scope::Subject => "subjects",
    }
}
