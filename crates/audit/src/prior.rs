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
//! * "What the log shows" is what this issuer logged, or what all did: a gate may judge by either. One that says how much
//!   of the log it had read (`history`) may judge by what all had logged by then, and by what it logged itself since.
//!
//! A head that the log does not hold yet may come later: another gate's receipt that was slower to reach it. Such a claim
//! is set aside until the log has been read, together with the classes claimed beside it.
//!
//! Only allowed actions with a class enter a history; denials advance its head. A wrong claim of an allowed call is
//! a fault of the gate; of a denied one it is worth knowing.

use crate::action::{Action, ChainedHistory, History, KeptBy, Prior};
use crate::histories::{Counted, Head, Histories, UpTo};
use crate::key::Key;
use crate::quote::quoted;
use crate::sequence::MAX_SUBJECTS;
use crate::verdict::{Check, CheckBuilder, Family, ReceiptRef, Severity};
use receipt::ReceiptId;
use serde::{Deserialize, Serialize};
use std::collections::{HashMap, HashSet};

/// Most subjects of one decision whose histories are merged to judge its claim.
const MAX_MERGED: usize = MAX_SUBJECTS;

/// No issuer's number.
const NOBODY: u32 = u32::MAX;

/// Most bytes of claims that name heads which the log does not hold, and wait for these: some hundred thousand claims of
/// one head, or five hundred receipts' worth of names at 64 KiB each.
const MAX_WAITING_BYTES: usize = 32 << 20;

/// About what a claim takes besides its names: the reference to its receipt, and the tables' slots.
const WAITING_BYTES: usize = 256;

/// Whose claim it is, and whether something was let through by it.
type Who<'claim> = (&'claim ReceiptRef, bool);

/// A claim that names heads which the log does not hold so far.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Waiting {
    at: ReceiptRef,
    allowed: bool,
    /// Subject and head.
    absent: Vec<(String, ReceiptId)>,
    /// The classes claimed beside them, if the log so far shows others, and for what.
    classes: Option<(Vec<String>, String)>,
}

impl Waiting {
    fn bytes(&self) -> usize {
        let heads: usize = self.absent.iter().map(|(subject, _)| subject.len() + WAITING_BYTES).sum();
        let classes = self.classes.iter().flat_map(|(classes, _)| classes);
        // A name takes 24 bytes besides its own.
        classes.map(|class| class.len() + 24).sum::<usize>() + heads + WAITING_BYTES
    }
}

/// A head of a subject's history.
fn awaited((subject, head): &(String, ReceiptId)) -> (Key, Key) {
    (native_key("subject", subject), Key::of_digest(&head.0.0))
}

/// The checks of claimed histories over one log.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct PriorChecks {
    classes: CheckBuilder,
    heads: CheckBuilder,
    /// Numbers for class names, so that histories hold four bytes each.
    names: HashMap<Key, u32>,
    /// Numbers for issuers: as many as the auditor's file names.
    issuers: HashMap<String, u32>,
    chained: HashMap<Key, Vec<u32>>,
    chains: HashSet<Key>,
    native: Histories,
    /// Issuers that only committed to a class, a ruling or a scope: their histories are not all in the clear.
    hiding: HashSet<u32>,
    /// Decisions whose subjects are not in the clear: each may be any subject's head.
    hidden: HashSet<Key>,
    /// Issuers that the auditor did not name have receipts in the log: a gate that judges by all may have judged by these.
    others: bool,
    waiting: Vec<Waiting>,
    waiting_bytes: usize,
    /// The heads that they wait for, and those of them that came.
    awaited: HashSet<(Key, Key)>,
    came: HashSet<(Key, Key)>,
    claims: u64,
    head_claims: u64,
    allowed_claims: u64,
    allowed_head_claims: u64,
}

/// How the classes that a native decision claims stand to the log so far.
enum Native {
    Is(KeptBy),
    /// The log shows others, for what.
    Differs(&'static str),
    /// Reported.
    Unjudged,
}

impl PriorChecks {
    pub(crate) fn new() -> PriorChecks {
        PriorChecks {
            classes: CheckBuilder::new(Family::Sequence, "prior-action-classes"),
            heads: CheckBuilder::new(Family::Sequence, "prior-heads"),
            names: HashMap::new(),
            issuers: HashMap::new(),
            chained: HashMap::new(),
            chains: HashSet::new(),
            native: Histories::default(),
            hiding: HashSet::new(),
            hidden: HashSet::new(),
            others: false,
            waiting: Vec::new(),
            waiting_bytes: 0,
            awaited: HashSet::new(),
            came: HashSet::new(),
            claims: 0,
            head_claims: 0,
            allowed_claims: 0,
            allowed_head_claims: 0,
        }
    }

    /// See [`crate::sequence::SequenceChecks::others_before`].
    pub(crate) fn others_before(&mut self) {
        self.others = true;
    }

    /// A gate says that no quorum vouched for the head that it read its history under.
    pub(crate) fn unwitnessed(&mut self, at: &ReceiptRef) {
        self.classes.notice("history-unwitnessed", &[at], || {
            [
                String::from("the gate judged by a head of the log that, by its own word, no quorum of witnesses had vouched for lately"),
                String::from("that the log showed the gate the history that it shows everybody; this copy is judged by itself"),
                String::from("find out why the gate could get no fresh witnessed head; have it fail closed if none may be judged without"),
            ]
        });
    }

    /// Judges what the next action of the log claims, then adds it to the histories it belongs to. Answers what the gate
    /// keeps its history by, where that can be told.
    pub(crate) fn add(&mut self, action: &Action<'_>) -> Option<KeptBy> {
        let issuer = self.issuer(action.at.issuer.as_deref().unwrap_or_default());
        let class = action.action_class.as_deref().map(|class| self.number(class));
        let kept_by = match &action.prior {
            Some(Prior { classes, history: History::Chained(history) }) => {
                self.judge_chained(action, classes.as_deref().unwrap_or_default(), history, class);
                Some(history.kept_by)
            }
            Some(Prior { classes, history: History::Native { heads, read } }) => {
                // Everybody's, or the gate's own; or everybody's as far as it read the log, and its own behind that.
                let of = [Some(Counted::All), Some(Counted::Own(issuer)), read.map(|size| Counted::Read(size, issuer))];
                let judged = classes.as_ref().map(|claimed| (claimed, self.judge_native(action, claimed, heads, &of)));
                let differs = match &judged {
                    Some((claimed, Native::Differs(what))) => Some((&claimed[..], *what)),
                    _ => None,
                };
                self.judge_heads(action, heads, issuer, differs);
                match judged {
                    Some((_, Native::Is(kept_by))) => Some(kept_by),
                    _ => None,
                }
            }
            Some(Prior { classes: Some(claimed), history: History::Unnamed }) => {
                self.count_claim(action);
                self.report_unjudged(
                    (&action.at, action.allowed),
                    claimed,
                    "the record does not name the history it continues",
                );
                None
            }
            Some(Prior { classes: None, history: History::Unnamed }) | None => None,
        };
        self.record(action, issuer, class);
        kept_by
    }

    fn judge_chained(&mut self, action: &Action<'_>, claimed: &[String], history: &ChainedHistory, class: Option<u32>) {
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
        let claimed_numbers: Vec<u32> = claimed.iter().map(|class| self.number(class)).collect();
        let logged = self.chained.entry(key).or_default();
        let goes_on = *logged == claimed_numbers;
        let begins_anew = restarted && claimed_numbers.is_empty();
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
                (&action.at, action.allowed),
                claimed,
                &format!("the history of {kept_by} {}", quoted(&history.of)),
            );
        }
    }

    fn judge_native(
        &mut self,
        action: &Action<'_>,
        claimed: &[String],
        heads: &[(&str, ReceiptId)],
        of: &[Option<Counted>],
    ) -> Native {
        let issuer = self.issuer(action.at.issuer.as_deref().unwrap_or_default());
        self.count_claim(action);
        if action.subjects.len().max(heads.len()) > MAX_MERGED {
            self.report_unjudged(
                (&action.at, action.allowed),
                claimed,
                "it touches more subjects than are judged together",
            );
            return Native::Unjudged;
        }
        let claimed_numbers: Vec<u32> = claimed.iter().map(|class| self.number(class)).collect();
        // Each candidate: the histories to merge, and up to which index of the log they were read. The widest first.
        let mut candidates: Vec<(KeptBy, Vec<UpTo>)> = Vec::new();
        let whole = |scope, value: &str| UpTo { history: native_key(scope, value), index: u64::MAX };
        let what = if heads.is_empty() {
            if !action.subjects.is_empty() {
                let subjects = action.subjects.iter().map(|subject| whole("subject", subject));
                candidates.push((KeptBy::Customer, subjects.collect()));
            }
            let resource = action.resource.iter().map(|resource| vec![whole("resource", resource)]);
            candidates.extend(resource.map(|history| (KeptBy::Resource, history)));
            let session = action.session.iter().map(|session| vec![whole("session", session)]);
            candidates.extend(session.map(|history| (KeptBy::Session, history)));
            "its session, its resource and its subjects"
        } else {
            // A head that the log does not hold is reported by itself; here it limits nothing. An outdated one does,
            // and is found anew as anybody's.
            let mut upto = |(subject, head): &(&str, ReceiptId)| {
                let history = native_key("subject", subject);
                let index = match self.native.head(history, head, NOBODY) {
                    Head::Latest(index) => index,
                    _ => u64::MAX,
                };
                UpTo { history, index }
            };
            candidates.push((KeptBy::Customer, heads.iter().map(&mut upto).collect()));
            "the subjects whose heads it names"
        };
        if candidates.is_empty() {
            self.report_unjudged(
                (&action.at, action.allowed),
                claimed,
                "the decision names neither session nor resource nor subjects",
            );
            return Native::Unjudged;
        }
        self.classes.checked();
        let mut is_history = |candidate: &[UpTo]| {
            of.iter().flatten().any(|of| self.native.are(candidate, *of, &claimed_numbers) == Some(true))
        };
        if let Some((kept_by, _)) = candidates.iter().find(|(_, candidate)| is_history(candidate)) {
            return Native::Is(*kept_by);
        }
        if self.native.full {
            self.report_unjudged(
                (&action.at, action.allowed),
                claimed,
                "the log has more histories than are remembered or read back",
            );
            return Native::Unjudged;
        }
        if self.hiding.contains(&issuer) || !action.committed.is_empty() {
            self.report_unjudged(
                (&action.at, action.allowed),
                claimed,
                "the issuer only commits to members that tell its histories apart",
            );
            return Native::Unjudged;
        }
        if self.others {
            self.report_unjudged(
                (&action.at, action.allowed),
                claimed,
                "the log holds receipts of issuers that the issuers file does not list",
            );
            return Native::Unjudged;
        }
        Native::Differs(what)
    }

    fn judge_heads(
        &mut self,
        action: &Action<'_>,
        heads: &[(&str, ReceiptId)],
        issuer: u32,
        classes: Option<(&[String], &'static str)>,
    ) {
        let mut absent = Vec::new();
        for (subject, head) in heads {
            self.head_claims += 1;
            self.allowed_head_claims += u64::from(action.allowed);
            self.heads.checked();
            match self.native.head(native_key("subject", subject), head, issuer) {
                Head::Latest(_) => {}
                Head::Outdated => self.report_head_differs(
                    (&action.at, action.allowed),
                    (subject, head),
                    "is older than the latest one this gate had itself logged",
                ),
                Head::Absent => absent.push((String::from(*subject), *head)),
                Head::Unknown => self.report_head_unjudged((&action.at, action.allowed), subject, head),
            }
        }
        match classes {
            Some((claimed, what)) if absent.is_empty() => {
                self.report_differs((&action.at, action.allowed), claimed, what);
            }
            _ if absent.is_empty() => {}
            classes => {
                let classes = classes.map(|(claimed, what)| (claimed.to_vec(), String::from(what)));
                self.wait(Waiting { at: action.at.clone(), allowed: action.allowed, absent, classes });
            }
        }
    }

    /// Sets a claim aside until the log has been read; beyond what is remembered it is not judged.
    fn wait(&mut self, claim: Waiting) {
        let bytes = self.waiting_bytes.saturating_add(claim.bytes());
        if bytes > MAX_WAITING_BYTES {
            return self.report_unawaited(&claim);
        }
        self.waiting_bytes = bytes;
        self.awaited.extend(claim.absent.iter().map(awaited));
        self.waiting.push(claim);
    }

    fn report_unawaited(&mut self, claim: &Waiting) {
        let who = (&claim.at, claim.allowed);
        for (subject, head) in &claim.absent {
            self.report_head_unjudged(who, subject, head);
        }
        if let Some((claimed, _)) = &claim.classes {
            self.report_unjudged(who, claimed, "more claims name heads that are not in the log than are remembered");
        }
    }

    /// What was set aside, now that all of the log is known.
    fn judge_waiting(&mut self) {
        for claim in std::mem::take(&mut self.waiting) {
            let who = (&claim.at, claim.allowed);
            let mut all_came = true;
            for absent in &claim.absent {
                let (subject, head) = absent;
                if self.came.contains(&awaited(absent)) {
                    self.report_head_late(&claim.at, subject, head);
                    continue;
                }
                all_came = false;
                if self.native.full || self.others || self.hidden.contains(&Key::of_digest(&head.0.0)) {
                    self.report_head_unjudged(who, subject, head);
                } else {
                    self.report_head_differs(who, (subject, head), "is no other decision on that subject in this log");
                }
            }
            match &claim.classes {
                Some((claimed, _)) if all_came => {
                    self.report_unjudged(who, claimed, "that history holds receipts that came into the log only later");
                }
                Some((claimed, what)) => self.report_differs(who, claimed, what),
                None => {}
            }
        }
    }

    fn report_head_differs(&mut self, who: Who<'_>, (subject, head): (&str, &ReceiptId), fault: &str) {
        self.heads.find("prior-heads-differ", severity(who.1), &[who.0], || {
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

    /// Another gate's receipt may have been on its way to the log for longer than the one that was judged by it.
    fn report_head_late(&mut self, at: &ReceiptRef, subject: &str, head: &ReceiptId) {
        self.heads.notice("prior-heads-unjudged", &[at], || {
            [
                format!(
                    "the gate says it judged {} by the history up to receipt {}, which came into the log only later",
                    quoted(subject),
                    head.0.to_hex()
                ),
                String::from(
                    "that anything is wrong: the gate knew a receipt before its issuer had handed it to the log",
                ),
                String::from("if it happens often, find out why that issuer's receipts are slow to reach the log"),
            ]
        });
    }

    fn record(&mut self, action: &Action<'_>, issuer: u32, class: Option<u32>) {
        let index = action.at.index.unwrap_or(u64::MAX);
        if !action.committed.is_empty() {
            self.hiding.insert(issuer);
        }
        if action.committed.contains(&"subjects") {
            self.hidden.insert(Key::of_digest(&action.at.id.0));
        }
        let class = class.filter(|_| action.allowed);
        let mut histories = Vec::with_capacity(2 + action.subjects.len());
        if class.is_some() {
            histories.extend(action.session.iter().map(|session| native_key("session", session)));
            histories.extend(action.resource.iter().map(|resource| native_key("resource", resource)));
        }
        // Subjects have heads, which denials and actions of no class advance too.
        for subject in &action.subjects {
            let key = native_key("subject", subject);
            if !self.awaited.is_empty() {
                let head = (key, Key::of_digest(&action.at.id.0));
                if self.awaited.remove(&head) {
                    self.came.insert(head);
                }
            }
            if !histories.contains(&key) {
                histories.push(key);
            }
        }
        if !histories.is_empty() {
            self.native.add((index, ReceiptId(action.at.id)), issuer, class, &histories);
        }
    }

    fn report_head_unjudged(&mut self, (at, allowed): Who<'_>, subject: &str, head: &ReceiptId) {
        let severity = if allowed { Severity::NotChecked } else { Severity::Notice };
        self.heads.find("prior-heads-unjudged", severity, &[at], || {
            [
                format!(
                    "the gate says it judged {} by the history up to receipt {}, whose subjects are not in the clear, whose issuer the issuers file may not list, or more than are remembered",
                    quoted(subject),
                    head.0.to_hex()
                ),
                String::from("whether that is the head of the subject's history"),
                String::from("ask the gate for the disclosure of the subjects"),
            ]
        });
    }

    fn count_claim(&mut self, action: &Action<'_>) {
        self.claims += 1;
        self.allowed_claims += u64::from(action.allowed);
    }

    fn issuer(&mut self, name: &str) -> u32 {
        if let Some(number) = self.issuers.get(name) {
            return *number;
        }
        let number = self.issuers.len() as u32;
        self.issuers.insert(name.to_owned(), number);
        number
    }

    fn number(&mut self, class: &str) -> u32 {
        // Names come from receipts, at most a few thousand in each of at most 2^32 of them; a table that full has
        // long since exhausted memory.
        let next = u32::try_from(self.names.len()).unwrap_or(u32::MAX);
        *self.names.entry(Key::new(&[class])).or_insert(next)
    }

    fn report_differs(&mut self, (at, allowed): Who<'_>, claimed: &[String], what: &str) {
        self.classes.find("prior-classes-differ", severity(allowed), &[at], || {
            [
                format!(
                    "the gate says it judged by the prior classes {}; the log shows others for {what}",
                    show_classes(claimed)
                ),
                String::from("why: the gate may have lost its state, or shown itself another history"),
                if allowed {
                    String::from("judge this call by the history in the log")
                } else {
                    String::from("nothing was let through; find out why the gate's history is wrong")
                },
            ]
        });
    }

    fn report_unjudged(&mut self, (at, allowed): Who<'_>, claimed: &[String], why: &str) {
        let severity = if allowed { Severity::NotChecked } else { Severity::Notice };
        self.classes.find("prior-unjudged", severity, &[at], || {
            [
                format!("the gate says it judged by the prior classes {}, and {why}", show_classes(claimed)),
                String::from("whether that is the history in the log"),
                String::from("have the gate write the session, resource or subjects it keeps its history by"),
            ]
        });
    }

    pub(crate) fn finish(mut self) -> [Check; 2] {
        self.judge_waiting();
        self.classes.required(self.allowed_claims > 0);
        self.heads.required(self.allowed_head_claims > 0);
        let covers = |claims: u64, what: &str| match claims {
            0 => String::from("nothing of this kind in the log"),
            1 => format!("1 decision or record that says which {what} it was judged by"),
            claims => format!("{claims} decisions and records that say which {what} they were judged by"),
        };
        let (classes, heads) = (covers(self.claims, "prior classes"), covers(self.head_claims, "heads"));
        [self.classes.finish(classes), self.heads.finish(heads)]
    }
}

/// A wrong claim matters where something was let through by it.
fn severity(allowed: bool) -> Severity {
    if allowed { Severity::Fail } else { Severity::Notice }
}

fn native_key(scope: &str, value: &str) -> Key {
    Key::new(&[scope, value])
}

fn show_classes(classes: &[String]) -> String {
    const SHOWN: usize = 8;
    let mut shown: Vec<String> = classes.iter().take(SHOWN).map(|class| quoted(class)).collect();
    if classes.len() > SHOWN {
        shown.push(format!("... {} in all", classes.len()));
    }
    format!("[{}]", shown.join(", "))
}
