//! Records of sequence-attack-repro, by that format's own rules.
//!
//! ```text
//! {"run","gate","session","receipt":{…}}   as the suite prints them, or the inner object alone
//! chain_sha256     hex SHA-256 over all members but itself and decided_at, in the form of `sorted_json`
//! previous_head    the chain_sha256 before it in its chain, or null; absent together with
//! sequence_number  from 0
//! sequence_scope   by what the gate keeps its prior list: absent (session), "resource", "customer"
//! ```
//!
//! Chains run by session, and by customer (`risk_key`) where the scope is the customer. Nothing is signed: that a
//! record is its gate's rests on the receipt that carries it alone.
//!
//! Holds the parse, the digest, the links. Does not judge the order of actions: a record becomes an
//! [`Action`](crate::action::Action) for that.

use super::sorted_json;
use crate::action::{Action, ChainedHistory, History, KeptBy, Prior};
use crate::amount::amount;
use crate::key::Key;
use crate::quote::quoted;
use crate::verdict::{Check, CheckBuilder, Family, ReceiptRef};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};
use std::borrow::Cow;
use std::collections::HashMap;

pub(super) const FORMAT: &str = "sequence-attack-repro";

/// A customer's record is named like this in the suite, also where the record has no `customer` member.
const CUSTOMER_RECORD: &str = "cust_";

/// One record, read.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Record {
    gate: Option<String>,
    session: Option<String>,
    resource: Option<String>,
    customer: Option<String>,
    kept_by: KeptBy,
    action_class: String,
    allowed: bool,
    prior: Vec<String>,
    link: Option<Link>,
    said_digest: String,
    digest: String,
    has_decided_at: bool,
}

#[derive(Clone, Debug, PartialEq)]
struct Link {
    previous: Option<String>,
    number: u64,
}

impl Record {
    /// Reads a carried value. The error completes "not a record: …".
    pub(crate) fn parse(value: &Value) -> Result<Record, &'static str> {
        let outer = value.as_object().ok_or("it is no JSON object")?;
        let (wrapper, members) = match outer.get("receipt") {
            Some(Value::Object(inner)) if !outer.contains_key("chain_sha256") => (Some(outer), inner),
            _ => (None, outer),
        };
        let of_wrapper = |name| match wrapper.and_then(|wrapper| wrapper.get(name)) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.clone())),
            Some(_) => Err("gate or session is no string"),
        };
        let decision = members.get("decision").and_then(Value::as_object).ok_or("decision is missing or no object")?;
        Ok(Record {
            gate: of_wrapper("gate")?,
            session: of_wrapper("session")?,
            resource: resource(members)?,
            customer: text(members, "risk_key")?.or(text(members, "customer")?),
            kept_by: match text(members, "sequence_scope")?.as_deref() {
                None => KeptBy::Session,
                Some("resource") => KeptBy::Resource,
                Some("customer") => KeptBy::Customer,
                Some(_) => return Err("sequence_scope is neither \"resource\" nor \"customer\""),
            },
            action_class: text(members, "action_class")?.ok_or("action_class is missing")?,
            allowed: decision
                .get("allow")
                .and_then(Value::as_bool)
                .ok_or("decision.allow is missing or neither true nor false")?,
            prior: prior(members)?,
            link: link(members)?,
            said_digest: text(members, "chain_sha256")?.ok_or("chain_sha256 is missing")?,
            digest: hex::encode(Sha256::digest(sorted_json::sorted_without(members, &["chain_sha256", "decided_at"]))),
            has_decided_at: members.contains_key("decided_at"),
        })
    }

    /// The view that the sequence rules judge.
    pub(crate) fn action(&self, at: ReceiptRef) -> Action<'static> {
        let customer = self
            .customer
            .clone()
            .or_else(|| self.resource.clone().filter(|resource| resource.starts_with(CUSTOMER_RECORD)));
        Action {
            at,
            session: self.session.clone().map(Cow::Owned),
            resource: self.resource.clone().map(Cow::Owned),
            subjects: customer.map(|customer| Cow::Owned(format!("customer:{customer}"))).into_iter().collect(),
            action_class: Some(Cow::Owned(self.action_class.clone())),
            allowed: self.allowed,
            prior: Some(Prior { classes: Some(Cow::Owned(self.prior.clone())), history: self.history() }),
            committed: Vec::new(),
        }
    }

    fn history(&self) -> History<'static> {
        let of = match self.kept_by {
            KeptBy::Session => &self.session,
            KeptBy::Resource => &self.resource,
            KeptBy::Customer => &self.customer,
        };
        let (Some(of), Some(chain)) = (of, self.chain()) else { return History::Unnamed };
        let starts_chain = self.link.as_ref().is_some_and(Link::starts);
        History::Chained(ChainedHistory {
            gate: self.gate.clone(),
            kept_by: self.kept_by,
            of: of.clone(),
            chain,
            starts_chain,
        })
    }

    /// The chain this record belongs to: whether by customer, and of which session or customer.
    fn chain(&self) -> Option<(bool, String)> {
        match self.kept_by {
            KeptBy::Customer => self.customer.clone().map(|customer| (true, customer)),
            KeptBy::Session | KeptBy::Resource => self.session.clone().map(|session| (false, session)),
        }
    }
}

impl Link {
    fn starts(&self) -> bool {
        self.previous.is_none() && self.number == 0
    }
}

fn text(members: &Map<String, Value>, name: &'static str) -> Result<Option<String>, &'static str> {
    match members.get(name) {
        None => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.clone())),
        Some(_) => Err(
            "a member that must be a string is none (sequence_scope, action_class, customer, risk_key, chain_sha256)",
        ),
    }
}

/// `resource`, or what the call names as its `id`.
fn resource(members: &Map<String, Value>) -> Result<Option<String>, &'static str> {
    match members.get("resource").or_else(|| members.get("args").and_then(|args| args.get("id"))) {
        Some(Value::String(text)) => Ok(Some(text.clone())),
        Some(Value::Number(number)) => Ok(Some(number.to_string())),
        None => Ok(None),
        Some(_) => Err("the resource is neither a string nor a number"),
    }
}

fn prior(members: &Map<String, Value>) -> Result<Vec<String>, &'static str> {
    const WRONG: &str = "prior_action_classes is missing or no array of strings";
    let classes = members.get("prior_action_classes").and_then(Value::as_array).ok_or(WRONG)?;
    classes.iter().map(|class| class.as_str().map(str::to_owned).ok_or(WRONG)).collect()
}

fn link(members: &Map<String, Value>) -> Result<Option<Link>, &'static str> {
    let previous = match members.get("previous_head") {
        None if members.contains_key("sequence_number") => return Err("sequence_number without previous_head"),
        None => return Ok(None),
        Some(Value::Null) => None,
        Some(Value::String(head)) => Some(head.clone()),
        Some(_) => return Err("previous_head is neither a string nor null"),
    };
    let number = members
        .get("sequence_number")
        .and_then(Value::as_u64)
        .ok_or("sequence_number is missing or no whole number")?;
    Ok(Some(Link { previous, number }))
}

/// The format's checks over all its records in a log, in the order of the log.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct SequenceAttackChecks {
    digests: CheckBuilder,
    chains: CheckBuilder,
    /// Head and next number of each chain, by carrying issuer, gate and chain.
    heads: HashMap<Key, (String, u64)>,
    records: u64,
    links: u64,
    restarts: u64,
}

impl SequenceAttackChecks {
    pub(super) fn new() -> SequenceAttackChecks {
        SequenceAttackChecks {
            digests: CheckBuilder::new(Family::Foreign, format!("{FORMAT}/digest")),
            chains: CheckBuilder::new(Family::Foreign, format!("{FORMAT}/chain")),
            heads: HashMap::new(),
            records: 0,
            links: 0,
            restarts: 0,
        }
    }

    /// Checks one carried value; returns the record for the sequence rules if it is one.
    pub(super) fn add(&mut self, at: &ReceiptRef, value: &Value) -> Option<Record> {
        self.records += 1;
        let record = match Record::parse(value) {
            Ok(record) => record,
            Err(why) => {
                self.digests.fail("record-malformed", &[at], || {
                    [
                        format!("what the issuer carried here as {FORMAT} is not a record: {why}"),
                        String::from("what the carrying gate meant by it"),
                        String::from("ask the operator of the carrying gate for the original record"),
                    ]
                });
                return None;
            }
        };
        self.check_digest(at, &record);
        self.check_link(at, &record);
        Some(record)
    }

    fn check_digest(&mut self, at: &ReceiptRef, record: &Record) {
        self.digests.checked();
        if record.said_digest != record.digest {
            self.digests.fail("digest-mismatch", &[at], || {
                [
                    format!(
                        "the record says chain_sha256 {}, and its members hash to {}",
                        quoted(&record.said_digest),
                        record.digest
                    ),
                    String::from("which member was changed, and by whom: the format signs nothing"),
                    String::from("compare with the record that the gate itself kept"),
                ]
            });
        }
        if record.has_decided_at {
            self.digests.notice("decided-at-unproven", &[at], || {
                [
                    String::from("decided_at is covered by no hash of the record: the time in it is unproven"),
                    String::from(
                        "when the gate decided; the carrying receipt shows when it was issued, by its issuer's clock",
                    ),
                    String::from("rely on the carrying receipt and the cosignatures over it for times"),
                ]
            });
        }
    }

    fn check_link(&mut self, at: &ReceiptRef, record: &Record) {
        let Some(link) = &record.link else {
            self.chains.not_checked("no-chain", &[at], || {
                [
                    String::from("the record has neither previous_head nor sequence_number: its chain_sha256 is a content digest and no chain"),
                    String::from("that nothing came before or after it, or was left out"),
                    String::from("rely on the carrying issuer's own numbering for completeness"),
                ]
            });
            return;
        };
        let Some((by_customer, of)) = record.chain() else {
            self.chains.not_checked("chain-unnamed", &[at], || {
                [
                    String::from(
                        "the record is chained, and names neither the session nor the customer whose chain it is",
                    ),
                    String::from("whether it links"),
                    String::from("import the records as the suite prints them, with run, gate and session"),
                ]
            });
            return;
        };
        self.chains.checked();
        self.links += 1;
        let key = Key::new(&[
            issuer_of(at),
            record.gate.as_deref().unwrap_or(""),
            if by_customer { "customer" } else { "session" },
            &of,
        ]);
        let next = (record.digest.clone(), link.number.saturating_add(1));
        let Some((head, expected)) = self.heads.insert(key, next) else {
            if !link.starts() {
                self.chains.fail("link-broken", &[at], || {
                    [
                        format!(
                            "the first record of the chain of {} in the log says it is number {} and continues {}",
                            quoted(&of),
                            link.number,
                            shown_head(link)
                        ),
                        String::from("what the missing records said"),
                        String::from("ask for the records before it; without them the chain has no beginning"),
                    ]
                });
            }
            return;
        };
        if link.starts() {
            // A new history of the same name. The sequence family reports it where it judges prior lists.
            self.restarts += 1;
        } else if link.number != expected {
            self.chains.fail("sequence-gap", &[at], || {
                [
                    format!(
                        "in the chain of {} the next number is {expected}, the record says {}",
                        quoted(&of),
                        link.number
                    ),
                    String::from(
                        "what the missing records said, or which of two records of one number is the true one",
                    ),
                    String::from("ask for the records between"),
                ]
            });
        } else if link.previous.as_deref() != Some(&head) {
            self.chains.fail("link-broken", &[at], || {
                [
                    format!(
                        "in the chain of {} the record before has digest {head}, and this one continues {}",
                        quoted(&of),
                        shown_head(link)
                    ),
                    String::from("which of the two was replaced"),
                    String::from("compare both with the records that the gate itself kept"),
                ]
            });
        }
    }

    pub(super) fn finish(self) -> Vec<Check> {
        if self.records == 0 {
            return Vec::new();
        }
        vec![
            self.digests.finish(format!(
                "the digest of each of {} of {FORMAT} recomputed over its own members",
                amount(self.records, "record", "records")
            )),
            self.chains.finish(format!(
                "{} links and numbers in {} chains; {} times a chain starts again from nothing",
                self.links,
                self.heads.len(),
                self.restarts
            )),
        ]
    }
}

fn issuer_of(at: &ReceiptRef) -> &str {
    at.issuer.as_deref().unwrap_or("")
}

fn shown_head(link: &Link) -> String {
    link.previous.as_deref().map_or_else(|| String::from("nothing"), quoted)
}
