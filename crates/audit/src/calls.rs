//! The life of a call through a log: decision, approval, outcome; and what each family asks of it.
//!
//! ```text
//! decision ─┬─ claim, budget, provenance, request (capability, approval)
//!           └─ pairs ── approval ── request (approvals)
//!                    └─ outcome ─── request (pairing, digests, executor), claim, budget
//! ```
//!
//! Pairs are made within one issuer's stream. An outcome or approval by which one issuer speaks of a decision of
//! another is not paired: the receipt id leaves no doubt which decision is meant, but nothing in the log says that the
//! one may speak for the other. It neither answers the call nor accuses anybody; where it would have mattered, the
//! matter is not checked.
//!
//! Holds the order of work and what is known of each issuer. The pairing is [`crate::pairs`]; each family has its file.

use crate::budget::BudgetChecks;
use crate::bundle::ReadError;
use crate::claim::ClaimChecks;
use crate::issuer::ReadEntry;
use crate::key::Key;
use crate::pairs::{Answer, Approval, Approved, Decided, Found, New, Open, Orphan, Pairs, Performer, Ran, Settled};
use crate::provenance::ProvenanceChecks;
use crate::request::{RequestChecks, decided_digest};
use crate::rules::Rules;
use crate::verdict::{Check, CheckBuilder, ReceiptRef, Severity, Words};
use merkle::LeafIndex;
use receipt::body::{self, ApprovalVerdict, Decision, Executes, Outcome, Ruling, Shown};
use receipt::{Body, Receipt, UnixMillis};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::sync::Arc;

/// What the auditor asks of calls, and the way to receipts that are long past.
pub(crate) struct CallTerms<'audit> {
    pub(crate) rules: &'audit Rules,
    /// How long after an allow its outcome may be missing.
    pub(crate) outcome_deadline_ms: Option<u64>,
    pub(crate) read_entry: ReadEntry<'audit>,
}

/// Until when the log is known, for what is missing from it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Known {
    /// The time of the audit, else when a quorum last vouched for the log.
    pub(crate) as_of: Option<UnixMillis>,
    /// When a quorum last vouched for the log: what came later cannot be in it.
    pub(crate) vouched: Option<UnixMillis>,
    /// Whether all entries under the newest head were there to read.
    pub(crate) complete: bool,
}

/// One issuer, as far as the log has been read.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Speaker {
    next_seq: u64,
    pub(crate) last_issued_at: UnixMillis,
    /// A receipt of its stream is missing, or it only committed to the request of a decision: what is not found may be
    /// in there.
    pub(crate) patchy: bool,
    /// It wrote outcomes that cannot be paired: any of its calls may be what they are about.
    pub(crate) unpaired: bool,
}

/// Four families over one log.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct CallChecks {
    pairs: Pairs,
    numbers: HashMap<String, u32>,
    speakers: Vec<Speaker>,
    request: RequestChecks,
    claim: ClaimChecks,
    budget: BudgetChecks,
    provenance: ProvenanceChecks,
}

impl CallChecks {
    pub(crate) fn new() -> CallChecks {
        CallChecks {
            pairs: Pairs::default(),
            numbers: HashMap::new(),
            speakers: Vec::new(),
            request: RequestChecks::new(),
            claim: ClaimChecks::new(),
            budget: BudgetChecks::new(),
            provenance: ProvenanceChecks::new(),
        }
    }

    /// Takes in the next genuine receipt of the log, of whatever type.
    pub(crate) fn add(&mut self, terms: &CallTerms<'_>, at: &ReceiptRef, receipt: &Receipt) -> Result<(), ReadError> {
        let issuer = self.follow(receipt);
        match receipt.body() {
            Body::Decision(decision) => self.decision(terms, at, receipt, decision, issuer),
            Body::Outcome(outcome) => self.outcome(terms, at, receipt, outcome, issuer),
            Body::Approval(approval) => self.approval(terms, at, approval, issuer),
            Body::Memory(memory) => {
                self.provenance.memory(&terms.rules.provenance, at, memory);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Follows an issuer's stream; answers the issuer's number.
    fn follow(&mut self, receipt: &Receipt) -> u32 {
        let name = receipt.issuer().as_str();
        let issuer = match self.numbers.get(name) {
            Some(number) => *number,
            None => {
                // As many as the auditor's file names.
                let number = self.speakers.len() as u32;
                self.numbers.insert(name.to_owned(), number);
                self.speakers.push(Speaker::default());
                number
            }
        };
        let speaker = &mut self.speakers[issuer as usize];
        speaker.patchy |= receipt.seq().0 != speaker.next_seq;
        speaker.next_seq = receipt.seq().0.saturating_add(1);
        speaker.last_issued_at = speaker.last_issued_at.max(receipt.issued_at());
        issuer
    }

    fn decision(
        &mut self,
        terms: &CallTerms<'_>,
        at: &ReceiptRef,
        receipt: &Receipt,
        decision: &Decision,
        issuer: u32,
    ) -> Result<(), ReadError> {
        let key = decision.request_id.shown().map(|request| Key::within(issuer, request));
        let before = key.and_then(|key| self.pairs.approval(&key)).cloned();
        self.claim.decision(at, decision);
        let approved = decision.approval.is_some() || before.as_ref().is_some_and(|it| it.answer == Answer::Approved);
        self.provenance.decision(&terms.rules.provenance, at, decision, approved);
        let new = match decision.ruling.shown() {
            None => New::Hidden,
            Some(Ruling::Deny) => New::Denied,
            Some(Ruling::Allow) => {
                self.request.allowed(at, receipt.issued_at(), decision);
                New::Allowed(Open {
                    issued_at: receipt.issued_at(),
                    digest: self.request.digest_of(at, decision, decided_digest(decision)),
                    performer: performer(decision),
                    bound_agent: self.claim.bound_agent(decision),
                    agent_hidden: decision.bound_agent.is_committed(),
                    capability: self.budget.allowed(at, decision, issuer),
                    approval: self.request.asked(at, terms.rules, decision),
                })
            }
        };
        self.request.seen(at, decision);
        let Some(key) = key else {
            self.speakers[issuer as usize].patchy = true;
            return Ok(());
        };
        if let (New::Allowed(open), Some(before)) = (&new, &before) {
            self.request.approved_before(terms, at, open, before)?;
        }
        match self.pairs.decide(key, issuer, at, new) {
            Decided::First => {}
            Decided::Again(first) => return self.request.decided_again(terms, at, first),
            Decided::Full => {
                self.request.too_many(at);
                return Ok(());
            }
        }
        let Some((orphan, agrees)) = self.pairs.orphan(key, issuer, at) else { return Ok(()) };
        if agrees {
            self.pairs.settle_early(key, &orphan);
            self.request.outcome_before(at, &orphan);
            return Ok(());
        }
        self.pairs.confuse(key);
        self.request.contradicts(terms, at, orphan.at.index.as_slice())
    }

    fn outcome(
        &mut self,
        terms: &CallTerms<'_>,
        at: &ReceiptRef,
        receipt: &Receipt,
        outcome: &Outcome,
        issuer: u32,
    ) -> Result<(), ReadError> {
        let names = outcome.decision.shown().map(|id| Key::of_digest(&id.0.0));
        let request = outcome.request_id.shown().map(|request| Key::within(issuer, request));
        let ran = ran(outcome);
        self.request.outcome_seen(at, outcome);
        let unpaired = request.is_none() && names.is_none();
        if unpaired || ran.is_none() {
            self.speakers[issuer as usize].unpaired = true;
        }
        let Some(ran) = ran else { return Ok(()) };
        if unpaired {
            self.request.unpairable(at, outcome);
            return Ok(());
        }
        match self.pairs.find(issuer, request, names) {
            Found::Request(key) => match self.pairs.settle(key, names, at.index.unwrap_or(u64::MAX), ran) {
                Settled::Paired { decision, open, approval } => {
                    self.request.paired(
                        terms,
                        (at, receipt.issued_at()),
                        (outcome, ran),
                        decision,
                        &open,
                        approval.as_ref(),
                    )?;
                    self.claim.outcome(terms, at, outcome, decision, &open)?;
                    self.budget.outcome(terms, at, (outcome, ran), decision, &open)
                }
                settled => self.request.settled_otherwise(terms, at, ran, &settled),
            },
            Found::Contradiction(both) => {
                let mut decisions = Vec::new();
                for key in both.into_iter().flatten() {
                    decisions.extend(self.pairs.decision(key).map(|(index, _)| index));
                    self.pairs.confuse(key);
                }
                self.speakers[issuer as usize].unpaired |= decisions.is_empty();
                self.request.contradicts(terms, at, &decisions)
            }
            Found::Elsewhere(key) => match self.pairs.decision(key) {
                Some((decision, denied)) => self.request.elsewhere(terms, at, decision, denied && ran == Ran::Yes),
                None => Ok(()),
            },
            Found::Nothing => {
                let orphan = Orphan { at: at.clone(), ran, names, issuer };
                if let Some(Err(orphan)) = request.or(names).map(|key| self.pairs.wait(key, orphan)) {
                    // It is told now; should its decision come after all, that one misses no outcome.
                    self.speakers[issuer as usize].unpaired = true;
                    self.request.without_decision(&orphan, &self.speakers, self.pairs.full);
                }
                Ok(())
            }
        }
    }

    fn approval(
        &mut self,
        terms: &CallTerms<'_>,
        at: &ReceiptRef,
        approval: &body::Approval,
        issuer: u32,
    ) -> Result<(), ReadError> {
        let names = approval.decision.shown().map(|id| Key::of_digest(&id.0.0));
        let request = approval.request_id.shown().map(|request| Key::within(issuer, request));
        self.request.approval_seen(at, approval);
        let taken = |answer| Approval {
            index: at.index.unwrap_or(u64::MAX),
            answer,
            digest: approval.digest.shown().map(|digest| Key::of_digest(&digest.0)),
        };
        let answer = match approval.verdict.shown() {
            Some(ApprovalVerdict::Approved) => Answer::Approved,
            Some(ApprovalVerdict::Declined) => Answer::Declined,
            None => Answer::Unknown,
        };
        let (key, taken) = match (self.pairs.find(issuer, request, names), request) {
            (Found::Request(key), _) | (Found::Nothing, Some(key)) => (key, taken(answer)),
            (Found::Elsewhere(key), _) => (key, taken(Answer::Elsewhere)),
            (Found::Contradiction(both), _) => {
                let decisions: Vec<u64> =
                    both.into_iter().flatten().filter_map(|key| Some(self.pairs.decision(key)?.0)).collect();
                for key in both.into_iter().flatten() {
                    self.pairs.approve(key, taken(Answer::Unknown));
                }
                return self.request.contradicts(terms, at, &decisions);
            }
            (Found::Nothing, None) => return Ok(()),
        };
        let of_other = taken.answer == Answer::Elsewhere;
        match self.pairs.approve(key, taken.clone()) {
            Approved::Open { decision, open, before } if !of_other => {
                self.request.approved(terms, at, &taken, decision, &open, before.as_ref())
            }
            Approved::Late { outcome, executed: true, asked } if !of_other => {
                self.request.approved_late(terms, at, &taken, outcome, asked)
            }
            Approved::Full => {
                self.request.too_many(at);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// All checks of the four families.
    pub(crate) fn finish(mut self, terms: &CallTerms<'_>, known: Known) -> Result<Vec<Check>, ReadError> {
        for orphan in self.pairs.orphans() {
            match self.pairs.elsewhere(&orphan) {
                Some((decision, denied)) => {
                    let denied_and_ran = denied && orphan.ran == Ran::Yes;
                    self.request.elsewhere(terms, &orphan.at, decision, denied_and_ran)?;
                }
                None => self.request.without_decision(&orphan, &self.speakers, self.pairs.full),
            }
        }
        let mut checks = self.request.finish(terms, known, &self.pairs, &self.speakers)?;
        drop(self.pairs);
        checks.push(self.claim.finish());
        checks.push(self.budget.finish(terms)?);
        checks.extend(self.provenance.finish());
        Ok(checks)
    }
}

/// What an outcome says of its action; `None` where it only commits to `executed`.
fn ran(outcome: &Outcome) -> Option<Ran> {
    Some(match outcome.executed.shown()? {
        // That it says at the same time not to know is found by itself ([`RequestChecks::outcome_seen`]).
        true => Ran::Yes,
        false if outcome.unknown.shown() == Some(&true) || outcome.unknown.is_committed() => Ran::Unknown,
        false => Ran::No,
    })
}

fn performer(decision: &Decision) -> Performer {
    match decision.executes.shown() {
        Some(Executes::Gate) => Performer::Gate,
        Some(Executes::Caller) => Performer::Caller,
        Some(Executes::None) => Performer::Nobody,
        None => Performer::Hidden,
    }
}

impl CallTerms<'_> {
    /// Records a finding about receipts of which `earlier` are long past, known by their places in the log. They are
    /// read again, and only for findings that are kept.
    pub(crate) fn find(
        &self,
        check: &mut CheckBuilder,
        (code, severity): (&'static str, Severity),
        earlier: &[u64],
        at: &[&ReceiptRef],
        words: impl FnOnce() -> Words,
    ) -> Result<(), ReadError> {
        let mut receipts = Vec::new();
        if check.keeps(code, severity) {
            for index in earlier {
                receipts.extend(self.receipt_at(*index)?);
            }
        }
        let all: Vec<&ReceiptRef> = receipts.iter().chain(at.iter().copied()).collect();
        check.find(code, severity, &all, words);
        Ok(())
    }

    fn receipt_at(&self, index: u64) -> Result<Option<ReceiptRef>, ReadError> {
        let Some(entry) = (self.read_entry)(LeafIndex(index))? else { return Ok(None) };
        let Ok(receipt) = Receipt::parse(&entry) else { return Ok(None) };
        let issuer = Arc::from(receipt.issuer().as_str());
        Ok(Some(ReceiptRef::new(LeafIndex(index), &issuer, receipt.seq(), receipt.id())))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;
    use crate::action::Action;
    use crate::read_roots::{SignedTree, TreeRoot};
    use crate::sequence::SequenceChecks;
    use merkle::RootHash;
    use note::{KeyKind, KeyName, SigningKey};
    use receipt::{Chain, IssuerName};
    use std::collections::BTreeMap;

    /// A life of everything that is remembered: open, settled, denied and ambiguous calls, an approval, an outcome that
    /// waits, a budget, claimed histories.
    fn receipts() -> Vec<Receipt> {
        let name = "gate.example/support-1";
        let key = SigningKey::from_seed(KeyName::new(name).unwrap(), KeyKind::Ed25519, [1; 32]);
        let mut chain = Chain::new(IssuerName::new(name).unwrap());
        let decision = |request: &str, ruling: &str, rest: &str| {
            format!(
                r#"{{"type":"decision","request_id":"{request}","decision":"{ruling}","authenticated":true,"executes":"gate","session":"s","subjects":["u"]{rest}}}"#
            )
        };
        let outcome =
            |request: &str| format!(r#"{{"type":"outcome","request_id":"{request}","executed":true,"agent":"x"}}"#);
        let capability = r#","action_class":"IDENTITY_MUTATION","capability":{"id":"c","max_calls":1,"calls_used":0,"counts":"executed"}"#;
        let bodies = [
            decision("1", "allow", capability),
            outcome("9"),
            r#"{"type":"approval","request_id":"1","verdict":"declined"}"#.to_owned(),
            decision("2", "deny", ""),
            decision("3", "allow", ""),
            decision("3", "deny", ""),
            decision("4", "allow", capability),
            outcome("4"),
            outcome("1"),
            outcome("2"),
            outcome("3"),
            decision("9", "allow", r#","action_class":"CREDENTIAL_RECOVERY","prior_action_classes":["READ"]"#),
            outcome("1"),
            r#"{"type":"approval","request_id":"1","verdict":"approved"}"#.to_owned(),
            r#"{"type":"memory","trust":"untrusted","form":"asserted"}"#.to_owned(),
            decision("5", "allow", r#","history":{"size":9,"root":"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="}"#),
        ];
        let mut all = vec![chain.open(UnixMillis(0), &key).unwrap()];
        let times = (1..).map(|second| UnixMillis(second * 1000));
        all.extend(bodies.iter().zip(times).map(|(body, at)| chain.append(body, at, &key).unwrap()));
        all
    }

    /// Of which nothing is signed.
    struct NoTree;

    impl SignedTree for NoTree {
        fn root_at(&self, _: u64) -> Result<TreeRoot, ReadError> {
            Ok(TreeRoot::Beyond)
        }

        fn is_signed(&self, _: u64, _: RootHash) -> bool {
            false
        }
    }

    /// All checks, with what is remembered written down and read again after every receipt or never.
    fn judged(all: &[Receipt], is_interrupted: bool) -> Vec<Check> {
        let rules = Rules::built_in();
        let read_entry = |index: LeafIndex| Ok(all.get(index.0 as usize).map(|receipt| receipt.bytes().to_vec()));
        let terms = CallTerms { rules: &rules, outcome_deadline_ms: Some(500), read_entry: &read_entry };
        let (mut calls, mut sequence) = (CallChecks::new(), SequenceChecks::new(&rules));
        for (index, receipt) in all.iter().enumerate() {
            let issuer = Arc::from(receipt.issuer().as_str());
            let at = ReceiptRef::new(LeafIndex(index as u64), &issuer, receipt.seq(), receipt.id());
            calls.add(&terms, &at, receipt).unwrap();
            if let Body::Decision(decision) = receipt.body() {
                sequence.head_of(&at, decision, &BTreeMap::new());
                sequence.add(&terms, Action::of_decision(at, decision)).unwrap();
            }
            if is_interrupted {
                let written = postcard::to_extend(&(&calls, &sequence), Vec::new()).unwrap();
                (calls, sequence) = postcard::from_bytes(&written).unwrap();
            }
        }
        let known = Known { as_of: Some(UnixMillis(100_000)), vouched: Some(UnixMillis(100_000)), complete: true };
        let mut checks = calls.finish(&terms, known).unwrap();
        checks.extend(sequence.finish(&rules, &NoTree).unwrap());
        checks
    }

    #[test]
    fn what_is_remembered_can_be_written_down_at_any_place_of_a_log() {
        let all = receipts();
        let at_once = judged(&all, false);
        let codes: Vec<&str> = at_once.iter().flat_map(|check| check.counts.keys().copied()).collect();
        for code in [
            "budget-exceeded",
            "executed-after-decline",
            "executed-after-deny",
            "two-outcomes",
            "pairing-ambiguous",
            "outcome-before-decision",
            "outcome-missing",
            "approval-after-execution",
            "sequence-forbidden",
            "prior-classes-differ",
            "history-root-unjudged",
            "untrusted-memory-asserted",
        ] {
            assert!(codes.contains(&code), "{code} in {codes:?}");
        }
        assert_eq!(judged(&all, true), at_once);
    }
}
