//! A gate that answers agents' calls and says so in receipts, each about one concrete action.

use super::keys::key;
use merkle::LeafIndex;
use note::{KeyKind, SigningKey};
use receipt::{Action, ActionDigest, Chain, IssuerName, Receipt, ReceiptId, UnixMillis};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A gate: its key, the end of its stream, what it remembers of what it allowed.
#[derive(Clone, Debug)]
pub struct Gate {
    /// Its name.
    pub name: String,
    /// The key in force.
    pub key: Arc<SigningKey>,
    /// The key that it was registered with.
    pub registered: Arc<SigningKey>,
    /// The end of its stream.
    pub chain: Chain,
    /// How far its clock is ahead of the world's, in milliseconds; behind, if negative.
    pub skew_ms: i64,
    /// The longest silence it allows itself.
    pub heartbeat_ms: Option<u64>,
    /// It has said its last.
    pub closed: bool,
    /// It sends no heartbeats, whatever it promised.
    pub muted: bool,
    /// Classes of what it allowed, by session.
    pub allowed: BTreeMap<String, Vec<String>>,
    /// The latest decision that touched a subject.
    pub subject_heads: BTreeMap<String, ReceiptId>,
    rotations: u32,
}

/// Where a receipt is, once it is logged.
#[derive(Clone, Debug)]
pub struct Logged {
    /// In the log.
    pub index: LeafIndex,
    /// The receipt.
    pub receipt: Receipt,
}

impl Gate {
    /// A gate that has said nothing.
    ///
    /// # Panics
    /// If `name` is no issuer's name.
    pub fn new(name: &str) -> Gate {
        let first = key(name, KeyKind::Ed25519, 0);
        Gate {
            name: name.to_owned(),
            key: Arc::clone(&first),
            registered: first,
            chain: Chain::new(IssuerName::new(name).expect("the names of a world are issuers' names")),
            skew_ms: 0,
            heartbeat_ms: None,
            closed: false,
            muted: false,
            allowed: BTreeMap::new(),
            subject_heads: BTreeMap::new(),
            rotations: 0,
        }
    }

    /// The receipt that continues its stream; not yet in any log.
    ///
    /// # Panics
    /// If `body` is no body.
    pub fn issue(&mut self, body: &Value, now_ms: u64) -> Receipt {
        let at = self.clock(now_ms);
        let receipt = self.chain.append(body.to_string(), at, &self.key).expect("the bodies of a world are bodies");
        self.closed |= body["type"] == "close";
        self.remember(body, receipt.id());
        receipt
    }

    /// The first receipt.
    pub fn open(&mut self, now_ms: u64) -> Receipt {
        let mut body = json!({"type": "open", "vkey": self.key.verifier(), "gate": "testkit"});
        if let Some(heartbeat_ms) = self.heartbeat_ms {
            body["heartbeat_ms"] = heartbeat_ms.into();
        }
        self.issue(&body, now_ms)
    }

    /// Hands the stream over to its next key.
    pub fn rotate(&mut self, now_ms: u64) -> Receipt {
        self.rotations += 1;
        let next = key(&self.name, KeyKind::Ed25519, self.rotations);
        let at = self.clock(now_ms);
        let receipt = self.chain.rotate(at, &self.key, &next).expect("keys of one name follow each other");
        self.key = next;
        receipt
    }

    /// When it last said something, by its own clock.
    pub fn last_ms(&self) -> u64 {
        self.chain.last_issued_at().0
    }

    /// The time by its clock.
    pub fn clock(&self, now_ms: u64) -> UnixMillis {
        UnixMillis(now_ms.saturating_add_signed(self.skew_ms))
    }

    fn remember(&mut self, body: &Value, id: ReceiptId) {
        if body["type"] != "decision" {
            return;
        }
        for subject in body["subjects"].as_array().into_iter().flatten().filter_map(Value::as_str) {
            self.subject_heads.insert(subject.to_owned(), id);
        }
        if let (Some(session), Some(class), "allow") =
            (body["session"].as_str(), body["action_class"].as_str(), body["decision"].as_str().unwrap_or_default())
        {
            self.allowed.entry(session.to_owned()).or_default().push(class.to_owned());
        }
    }
}

/// A call that an agent makes and a gate answers. Everything about it fits together unless a test makes it not.
#[derive(Clone, Debug)]
pub struct Call {
    /// Unique for the gate.
    pub request: String,
    /// The agent's session.
    pub session: String,
    /// What it does.
    pub operation: &'static str,
    /// The class of that.
    pub class: &'static str,
    /// The target.
    pub resource: String,
    /// Whose it is.
    pub subject: String,
    /// The capability: its id and how many calls it is good for.
    pub capability: Option<(String, u64)>,
    /// How many of these calls were used before this one.
    pub used: u64,
    /// Whether a person has to agree.
    pub approved: bool,
}

impl Call {
    fn args(&self) -> Value {
        json!({"target": self.resource, "reason": "as asked"})
    }

    /// The digest of what is decided, approved and executed.
    pub fn digest(&self) -> String {
        let args = self.args();
        let action = Action {
            operation: self.operation,
            resource: &self.resource,
            args: &args,
            capability_id: self.capability.as_ref().map(|(id, _)| id.as_str()),
            nonce: &self.request,
        };
        ActionDigest::of(&action).to_string()
    }

    /// The decision on it.
    pub fn decision(&self, allow: bool) -> Value {
        let mut body = json!({
            "type": "decision",
            "request_id": self.request,
            "decision": if allow { "allow" } else { "deny" },
            "rule": if allow { "R0_ALLOWED" } else { "R2_PURPOSE" },
            "operation": self.operation,
            "resource": self.resource,
            "action_class": self.class,
            "subjects": [self.subject],
            "session": self.session,
            "args": self.args(),
            "authenticated": true,
            "proven": ["request_signature", "nonce_fresh"],
            "claimed_agent": "agent-7",
            "grant": {"principal": "user:ann", "purpose": "support", "verified_via": "sso", "task": "t-1"},
            "facts": [{"source": "crm", "trust": "trusted", "summary": "the customer's own record"}],
            "executes": "gate",
        });
        if let Some((id, max_calls)) = &self.capability {
            body["proven"] = json!([
                "capability_signature",
                "request_signature",
                "nonce_fresh",
                "params_match",
                "not_expired",
                "within_budget"
            ]);
            body["bound_agent"] = "agent-7".into();
            body["capability"] = json!({"id": id, "max_calls": max_calls, "calls_used": self.used, "counts": "dispatched", "expires_at": 4_000_000_000_000_u64});
        }
        if self.approved {
            body["approval"] = json!({"digest": self.digest(), "by": "user:bob", "at": 1_795_953_000_000_u64});
        }
        body
    }

    /// That a person agreed to it.
    pub fn approval(&self, decision: ReceiptId) -> Value {
        json!({
            "type": "approval",
            "request_id": self.request,
            "decision": decision.to_string(),
            "verdict": "approved",
            "by": "user:bob",
            "digest": self.digest(),
        })
    }

    /// What became of it, executed or failed, at a time by the gate's clock.
    pub fn outcome(&self, decision: ReceiptId, executed: bool, now_ms: u64) -> Value {
        let mut body = json!({
            "type": "outcome",
            "request_id": self.request,
            "decision": decision.to_string(),
            "executed": executed,
            "executed_by": "gate",
            "executed_digest": self.digest(),
            "agent": "agent-7",
            "started_at": now_ms,
            "ended_at": now_ms + 40,
        });
        if self.capability.is_none() {
            body["authenticated"] = false.into();
        }
        if !executed {
            body["error"] = "upstream 502".into();
        }
        body
    }
}
