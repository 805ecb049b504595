//! The history that a gate says it judged by, against the one the log shows.
//!
//! Every claim is judged within the history that the record itself claims to continue:
//!
//! * A chained foreign record names it: by session, resource or customer, of one gate of one issuer. A record that
//!   starts a chain seen before begins a new history of that name; that is reported (`history-restarted`), because a
//!   gate that forgets looks just like that. Where the chain restarts and the prior list does not (a list kept by
//!   resource, over sessions), the list may go on.
//! * A native decision with `prior_heads` names subjects and how far it had read. One without does not say what its
//!   gate keeps its list by, so the list must be that of its session, its resource or its subjects.
//! * "What the log shows" is what this issuer logged, or what all did: a gate may judge by either.
//!
//! Only allowed actions with a class enter a history; denials advance its head. A wrong claim of an allowed call is
//! a fault of the gate; of a denied one it is worth knowing.

use crate::action::{Action, ChainedHistory, History, KeptBy, Prior};
use crate::key::Key;
use crate::quote::quoted;
use crate::sequence::MAX_SUBJECTS;
use crate::verdict::{Check, CheckBuilder, Family, Severity};
use receipt::ReceiptId;
use std::collections::{HashMap, HashSet};

/// Most subjects of one decision whose histories are merged to judge its claim.
const MAX_MERGED: usize = MAX_SUBJECTS;

/// Most histories, and most pairs of subject and receipt, that are remembered: some two hundred bytes and forty.
const MAX_HISTORIES: usize = 4_000_000;
const MAX_TOUCHED: usize = 16_000_000;

/// The checks of claimed histories over one log.
pub(crate) struct PriorChecks {
    classes: CheckBuilder,
    heads: CheckBuilder,
    /// Numbers for class names and issuers, so that histories hold four bytes each.
    names: HashMap<Key, u32>,
    chained: HashMap<Key, Vec<u32>>,
    chains: HashSet<Key>,
    native: HashMap<Key, NativeHistory>,
    /// Index in the log of the latest decision by subject and issuer.
    latest: HashMap<(Key, u32), u64>,
    /// Index in the log of every decision by subject and receipt id.
    touched: HashMap<Key, u64>,
    /// Issuers that only committed to a class, a ruling or a scope: their histories are not all in the clear.
    hiding: HashSet<u32>,
    /// Decisions whose subjects are not in the clear: each may be any subject's head.
    hidden: HashSet<ReceiptId>,
    /// More was logged than is remembered: nothing is held against anybody from there on.
    full: bool,
    claims: u64,
    head_claims: u64,
    allowed_claims: u64,
    allowed_head_claims: u64,
}

/// Allowed classes of one session, resource or subject, with their indices in the log, by everybody and by issuer.
struct NativeHistory {
    by_all: Vec<(u64, u32)>,
    first_issuer: u32,
    /// `None` while `first_issuer` is the only one: then its history is `by_all`.
    by_issuer: Option<HashMap<u32, Vec<(u64, u32)>>>,
}

impl PriorChecks {
    pub(crate) fn new() -> PriorChecks {
        PriorChecks {
            classes: CheckBuilder::new(Family::Sequence, "prior-action-classes"),
            heads: CheckBuilder::new(Family::Sequence, "prior-heads"),
            names: HashMap::new(),
            chained: HashMap::new(),
            chains: HashSet::new(),
            native: HashMap::new(),
            latest: HashMap::new(),
            touched: HashMap::new(),
            hiding: HashSet::new(),
            hidden: HashSet::new(),
            full: false,
            claims: 0,
            head_claims: 0,
            allowed_claims: 0,
            allowed_head_claims: 0,
        }
    }

    /// Judges what the next action of the log claims, then adds it to the histories it belongs to.
    pub(crate) fn add(&mut self, action: &Action) {
        let issuer = self.number(&["issuer", action.at.issuer.as_deref().unwrap_or_default()]);
        let class = action.action_class.as_deref().map(|class| self.number(&["class", class]));
        match &action.prior {
            Some(Prior { classes, history: History::Chained(history) }) => {
                self.judge_chained(action, classes.as_deref().unwrap_or_default(), history, class);
            }
            Some(Prior { classes, history: History::Native { heads } }) => {
                if let Some(claimed) = classes {
                    self.judge_native(action, claimed, heads, issuer);
                }
                self.judge_heads(action, heads, issuer);
            }
            Some(Prior { classes: Some(claimed), history: History::Unnamed }) => {
                self.count_claim(action);
                self.report_unjudged(action, claimed, "the record does not name the history it continues");
            }
            Some(Prior { classes: None, history: History::Unnamed }) | None => {}
        }
        self.record(action, issuer, class);
    }

    fn judge_chained(&mut self, action: &Action, claimed: &[String], history: &ChainedHistory, class: Option<u32>) {
        self.count_claim(action);
        self.classes.checked();
        let (issuer, gate) =
            (action.at.issuer.as_deref().unwrap_or_default(), history.gate.as_deref().unwrap_or_default());
        let (by_customer, of) = &history.chain;
        let chain = Key::new(&[issuer, gate, if *by_customer { "customer" } else { "session" }, of]);
        let restarted = !self.chains.insert(chain) && history.starts_chain;
        let kept_by = match history.kept_by {
            KeptBy::Session => "session",
            KeptBy::Resource => "resource",
            KeptBy::Customer => "customer",
        };
        let key = Key::new(&[issuer, gate, kept_by, &history.of]);
        let claimed_numbers: Vec<u32> = claimed.iter().map(|class| self.number(&["class", class])).collect();
        let logged = self.chained.entry(key).or_default();
        let goes_on = *logged == claimed_numbers;
        let begins_anew = restarted && claimed_numbers.is_empty();
        let logged_length = logged.len();
        if restarted && !goes_on {
            logged.clear();
        }
        if let Some(class) = class.filter(|_| action.allowed) {
            logged.push(class);
        }
        if restarted {
            self.classes.notice("history-restarted", &[&action.at], || {
                [
                    format!(
                        "the gate's chain of {} starts again from nothing, though the log holds an earlier one",
                        quoted(of)
                    ),
                    String::from("whether the gate forgot, was restarted, or forks its own history"),
                    String::from(
                        "the rules look at the whole log all the same; ask the operator why the gate began anew",
                    ),
                ]
            });
        }
        if !goes_on && !begins_anew {
            self.report_differs(
                action,
                claimed,
                logged_length,
                &format!("the history of {kept_by} {}", quoted(&history.of)),
            );
        }
    }

    fn judge_native(&mut self, action: &Action, claimed: &[String], heads: &[(String, ReceiptId)], issuer: u32) {
        self.count_claim(action);
        if action.subjects.len().max(heads.len()) > MAX_MERGED {
            self.report_unjudged(action, claimed, "it touches more subjects than are judged together");
            return;
        }
        let claimed_numbers: Vec<u32> = claimed.iter().map(|class| self.number(&["class", class])).collect();
        // Each candidate: the histories to merge, and up to which index of the log they were read.
        let mut candidates: Vec<Vec<(Key, u64)>> = Vec::new();
        let what = if heads.is_empty() {
            candidates.extend(action.session.iter().map(|session| vec![(native_key("session", session), u64::MAX)]));
            candidates
                .extend(action.resource.iter().map(|resource| vec![(native_key("resource", resource), u64::MAX)]));
            if !action.subjects.is_empty() {
                candidates
                    .push(action.subjects.iter().map(|subject| (native_key("subject", subject), u64::MAX)).collect());
            }
            "its session, its resource and its subjects"
        } else {
            // A head that the log does not hold is reported by itself; here it limits nothing.
            let upto = |(subject, head): &(String, ReceiptId)| {
                (
                    native_key("subject", subject),
                    self.touched.get(&touched_key(subject, head)).copied().unwrap_or(u64::MAX),
                )
            };
            candidates.push(heads.iter().map(upto).collect());
            "the subjects whose heads it names"
        };
        if candidates.is_empty() {
            self.report_unjudged(action, claimed, "the decision names neither session nor resource nor subjects");
            return;
        }
        self.classes.checked();
        let matches = candidates.iter().any(|candidate| {
            let by_all: Vec<&[(u64, u32)]> = candidate
                .iter()
                .map(|(key, upto)| up_to(self.native.get(key).map_or(&[][..], |history| &history.by_all), *upto))
                .collect();
            let by_issuer: Vec<&[(u64, u32)]> = candidate
                .iter()
                .map(|(key, upto)| up_to(self.native.get(key).map_or(&[][..], |history| history.of(issuer)), *upto))
                .collect();
            is_merged(&by_all, &claimed_numbers) || is_merged(&by_issuer, &claimed_numbers)
        });
        if matches {
            return;
        }
        if self.full {
            self.report_unjudged(action, claimed, "the log has more histories than are remembered");
            return;
        }
        if self.hiding.contains(&issuer) || !action.committed.is_empty() {
            self.report_unjudged(action, claimed, "the issuer only commits to members that tell its histories apart");
            return;
        }
        let longest = candidates.iter().flatten().filter_map(|(key, _)| Some(self.native.get(key)?.by_all.len())).max();
        self.report_differs(action, claimed, longest.unwrap_or(0), what);
    }

    fn judge_heads(&mut self, action: &Action, heads: &[(String, ReceiptId)], issuer: u32) {
        for (subject, head) in heads {
            self.head_claims += 1;
            self.allowed_head_claims += u64::from(action.allowed);
            self.heads.checked();
            let latest = self.latest.get(&(native_key("subject", subject), issuer)).copied();
            let found = self.touched.get(&touched_key(subject, head)).copied();
            if found.is_none() && (self.full || self.hidden.contains(head)) {
                self.report_head_unjudged(action, subject, head);
                continue;
            }
            let fault = match (found, latest) {
                (None, _) => "is no earlier decision on that subject in this log",
                (Some(found), Some(latest)) if found < latest => {
                    "is older than the latest one this gate had itself logged"
                }
                (Some(_), _) => continue,
            };
            self.heads.find("prior-heads-differ", severity(action), &[&action.at], || {
                [
                    format!(
                        "the gate says it judged {} by the history up to receipt {}, which {fault}",
                        quoted(subject),
                        head.0.to_hex()
                    ),
                    String::from("why: the gate may have lost its state, or shown itself another history"),
                    String::from("compare the gate's own store with the log; look at what it allowed since"),
                ]
            });
        }
    }

    fn record(&mut self, action: &Action, issuer: u32, class: Option<u32>) {
        let index = action.at.index.unwrap_or(u64::MAX);
        if !action.committed.is_empty() {
            self.hiding.insert(issuer);
        }
        if action.committed.contains(&"subjects") {
            self.hidden.insert(ReceiptId(action.at.id));
        }
        if self.native.len() >= MAX_HISTORIES || self.touched.len() >= MAX_TOUCHED {
            self.full = true;
            return;
        }
        if let Some(class) = class.filter(|_| action.allowed) {
            let session = action.session.iter().map(|session| native_key("session", session));
            let resource = action.resource.iter().map(|resource| native_key("resource", resource));
            let subjects = action.subjects.iter().map(|subject| native_key("subject", subject));
            let keys: HashSet<Key> = session.chain(resource).chain(subjects).collect();
            for key in keys {
                let history = self.native.entry(key).or_insert_with(|| NativeHistory {
                    by_all: Vec::new(),
                    first_issuer: issuer,
                    by_issuer: None,
                });
                history.push(issuer, index, class);
            }
        }
        for subject in &action.subjects {
            self.latest.insert((native_key("subject", subject), issuer), index);
            self.touched.insert(touched_key(subject, &ReceiptId(action.at.id)), index);
        }
    }

    fn report_head_unjudged(&mut self, action: &Action, subject: &str, head: &ReceiptId) {
        let severity = if action.allowed { Severity::NotChecked } else { Severity::Notice };
        self.heads.find("prior-heads-unjudged", severity, &[&action.at], || {
            [
                format!(
                    "the gate says it judged {} by the history up to receipt {}, whose subjects are not in the clear, or more than are remembered",
                    quoted(subject),
                    head.0.to_hex()
                ),
                String::from("whether that is the head of the subject's history"),
                String::from("ask the gate for the disclosure of the subjects"),
            ]
        });
    }

    fn count_claim(&mut self, action: &Action) {
        self.claims += 1;
        self.allowed_claims += u64::from(action.allowed);
    }

    fn number(&mut self, name: &[&str]) -> u32 {
        // Names come from receipts, at most a few thousand in each of at most 2^32 of them; a table that full has
        // long since exhausted memory.
        let next = u32::try_from(self.names.len()).unwrap_or(u32::MAX);
        *self.names.entry(Key::new(name)).or_insert(next)
    }

    fn report_differs(&mut self, action: &Action, claimed: &[String], logged: usize, what: &str) {
        self.classes.find("prior-classes-differ", severity(action), &[&action.at], || {
            [
                format!(
                    "the gate says it judged by the prior classes {}; the log shows others ({logged}) for {what}",
                    show_classes(claimed)
                ),
                String::from("why: the gate may have lost its state, or shown itself another history"),
                if action.allowed {
                    String::from("judge this call by the history in the log")
                } else {
                    String::from("nothing was let through; find out why the gate's history is wrong")
                },
            ]
        });
    }

    fn report_unjudged(&mut self, action: &Action, claimed: &[String], why: &str) {
        let severity = if action.allowed { Severity::NotChecked } else { Severity::Notice };
        self.classes.find("prior-unjudged", severity, &[&action.at], || {
            [
                format!("the gate says it judged by the prior classes {}, and {why}", show_classes(claimed)),
                String::from("whether that is the history in the log"),
                String::from("have the gate write the session, resource or subjects it keeps its history by"),
            ]
        });
    }

    pub(crate) fn finish(mut self) -> [Check; 2] {
        self.classes.required(self.allowed_claims > 0);
        self.heads.required(self.allowed_head_claims > 0);
        let covers = |claims: u64, what: &str| match claims {
            0 => String::from("nothing of this kind in the log"),
            claims => format!("{claims} decisions and records that say which {what} they were judged by"),
        };
        let (classes, heads) = (covers(self.claims, "prior classes"), covers(self.head_claims, "heads"));
        [self.classes.finish(classes), self.heads.finish(heads)]
    }
}

impl NativeHistory {
    fn of(&self, issuer: u32) -> &[(u64, u32)] {
        match &self.by_issuer {
            Some(by_issuer) => by_issuer.get(&issuer).map(Vec::as_slice).unwrap_or_default(),
            None if issuer == self.first_issuer => &self.by_all,
            None => &[],
        }
    }

    fn push(&mut self, issuer: u32, index: u64, class: u32) {
        if issuer != self.first_issuer && self.by_issuer.is_none() {
            self.by_issuer = Some(HashMap::from([(self.first_issuer, self.by_all.clone())]));
        }
        if let Some(by_issuer) = &mut self.by_issuer {
            by_issuer.entry(issuer).or_default().push((index, class));
        }
        self.by_all.push((index, class));
    }
}

/// A wrong claim matters where something was let through by it.
fn severity(action: &Action) -> Severity {
    if action.allowed { Severity::Fail } else { Severity::Notice }
}

fn native_key(scope: &str, value: &str) -> Key {
    Key::new(&[scope, value])
}

fn touched_key(subject: &str, id: &ReceiptId) -> Key {
    Key::new(&["touched", subject, &id.0.to_hex()])
}

/// The part of a history up to and including an index of the log.
fn up_to(history: &[(u64, u32)], index: u64) -> &[(u64, u32)] {
    &history[..history.partition_point(|(at, _)| *at <= index)]
}

/// Whether the histories, merged in the order of the log with each action once, are exactly these classes. Looks at
/// no more of them than the claim is long.
fn is_merged(histories: &[&[(u64, u32)]], classes: &[u32]) -> bool {
    let mut rest = histories.to_vec();
    let mut take_next = || {
        let next = rest.iter().filter_map(|history| history.first()).min().copied()?;
        for history in &mut rest {
            if history.first() == Some(&next) {
                *history = &history[1..];
            }
        }
        Some(next.1)
    };
    classes.iter().all(|class| take_next() == Some(*class)) && take_next().is_none()
}

fn show_classes(classes: &[String]) -> String {
    const SHOWN: usize = 8;
    let mut shown: Vec<String> = classes.iter().take(SHOWN).map(|class| quoted(class)).collect();
    if classes.len() > SHOWN {
        shown.push(format!("... {} in all", classes.len()));
    }
    format!("[{}]", shown.join(", "))
}
