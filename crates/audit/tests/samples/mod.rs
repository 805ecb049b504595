//! Samples of other systems' records, made here in the shapes those systems write, for when their own files are not
//! at hand. The digest writer is one of its own, so that the verifier is not checked against itself.

#![allow(dead_code, unreachable_pub, clippy::unwrap_used, clippy::panic)] // Each test uses a part of it.

use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::collections::HashMap;

const READ: &str = "READ";
const MUTATION: &str = "IDENTITY_MUTATION";
const RECOVERY: &str = "CREDENTIAL_RECOVERY";

/// By what a gate keeps its history.
#[derive(Clone, Copy)]
pub enum Kept<'a> {
    /// The session; the call is on this record.
    Session(&'a str),
    Resource(&'a str),
    /// Resource and customer.
    Customer(&'a str, &'a str),
}

/// A gate of the ladder, writing records.
pub struct Gate {
    run: &'static str,
    gate: &'static str,
    heads: HashMap<String, (String, u64)>,
    lines: String,
}

impl Gate {
    pub fn new(run: &'static str, gate: &'static str) -> Gate {
        Gate { run, gate, heads: HashMap::new(), lines: String::new() }
    }

    pub fn allow(self, session: &str, class: &str, kept: Kept<'_>, prior: &[&str]) -> Gate {
        self.decide(session, class, kept, prior, true, "PASS")
    }

    pub fn deny(self, session: &str, class: &str, kept: Kept<'_>, prior: &[&str], rule: &str) -> Gate {
        self.decide(session, class, kept, prior, false, rule)
    }

    pub fn lines(self) -> String {
        self.lines
    }

    fn decide(mut self, session: &str, class: &str, kept: Kept<'_>, prior: &[&str], allow: bool, rule: &str) -> Gate {
        let (resource, chain) = match kept {
            Kept::Session(resource) | Kept::Resource(resource) => (resource, session),
            Kept::Customer(resource, customer) => (resource, customer),
        };
        let (previous, number) = match self.heads.get(chain) {
            Some((head, number)) => (json!(head), number + 1),
            None => (Value::Null, 0),
        };
        let mut receipt = json!({
            "tool": class.to_lowercase(), "args": {"id": resource, "email": "new@somewhere.test"}, "action_class": class,
            "grant": {"principal": "the caller — as it says"}, "prior_action_classes": prior,
            "decision": {"allow": allow, "rule": rule}, "previous_head": previous, "sequence_number": number,
        });
        match kept {
            Kept::Session(_) => {}
            Kept::Resource(_) => {
                receipt["sequence_scope"] = json!("resource");
                receipt["resource"] = json!(resource);
            }
            Kept::Customer(_, customer) => {
                receipt["sequence_scope"] = json!("customer");
                receipt["resource"] = json!(resource);
                receipt["customer"] = json!(customer);
                receipt["risk_key"] = json!(customer);
            }
        }
        let digest = digest(&receipt);
        receipt["chain_sha256"] = json!(digest);
        receipt["decided_at"] = json!("2026-11-29T12:00:00");
        self.heads.insert(chain.to_owned(), (digest, number));
        let line = json!({"run": self.run, "gate": self.gate, "session": session, "receipt": receipt});
        self.lines.push_str(&format!("{line}\n"));
        self
    }
}

/// One run of the ladder.
pub fn run(letter: char) -> String {
    let whole = Kept::Session("cust_77");
    let by_resource = Kept::Resource("cust_77");
    let (contact, auth) = (Kept::Customer("contact_77", "cust_77"), Kept::Customer("auth_77", "cust_77"));
    let gate = match letter {
        'B' => Gate::new("B", "PurposeGate")
            .allow("B-1", READ, Kept::Session("1042"), &[])
            .allow("B-1", READ, whole, &[READ])
            .deny("B-1", MUTATION, whole, &[READ, READ], "R2_PURPOSE"),
        'C' => Gate::new("C", "PurposeGate").allow("C-1", READ, whole, &[]).allow("C-1", MUTATION, whole, &[READ]),
        'D' => Gate::new("D", "PurposeGate")
            .allow("D-1", READ, whole, &[])
            .allow("D-1", MUTATION, whole, &[READ])
            .deny("D-1", RECOVERY, whole, &[READ, MUTATION], "R4_SEQUENCE"),
        'E' => Gate::new("E", "PurposeGate")
            .allow("E-1", READ, whole, &[])
            .allow("E-1", RECOVERY, whole, &[READ])
            .allow("E-1", MUTATION, whole, &[READ, RECOVERY]),
        'F' => Gate::new("F", "PurposeGate").allow("F-1", MUTATION, whole, &[]).allow("F-2", RECOVERY, whole, &[]),
        'G' => Gate::new("G", "ResourceGate").allow("G-1", MUTATION, by_resource, &[]).deny(
            "G-2",
            RECOVERY,
            by_resource,
            &[MUTATION],
            "R4_SEQUENCE",
        ),
        'H' => {
            let by_resource = Gate::new("H", "ResourceGate")
                .allow("H-1", MUTATION, Kept::Resource("contact_77"), &[])
                .allow("H-2", RECOVERY, Kept::Resource("auth_77"), &[])
                .lines();
            let by_customer = Gate::new("H", "CustomerGate")
                .allow("H-3", MUTATION, contact, &[])
                .deny("H-4", RECOVERY, auth, &[MUTATION], "R4_SEQUENCE")
                .lines();
            return by_resource + &by_customer;
        }
        'I' => {
            let forked = Gate::new("I", "ForkingCustomerGate")
                .allow("I-1", MUTATION, contact, &[])
                .allow("I-1", RECOVERY, auth, &[])
                .lines();
            let witnessed = Gate::new("I", "ForkingCustomerGate")
                .allow("I-2", MUTATION, contact, &[])
                .deny("I-2", RECOVERY, auth, &[], "W1_FORK")
                .lines();
            return forked + &witnessed;
        }
        _ => panic!("no run {letter}"),
    };
    gate.lines()
}

/// A record as an article shows it: a digest, and neither head nor number.
pub fn published() -> String {
    let mut record = json!({
        "tool": "send_password_reset", "args": {"id": "cust_1"}, "action_class": RECOVERY, "prior_action_classes": [READ, MUTATION],
        "decision": {"allow": false, "rule": "R4_SEQUENCE"}, "why": "an account takeover in two steps",
    });
    record["chain_sha256"] = json!(digest(&record));
    record.to_string()
}

/// Hex SHA-256 over the record with sorted members, without spaces, non-ASCII as UTF-16 escapes. Through a sorted map
/// and the plain JSON writer, whose escapes agree for the characters that these samples hold.
fn digest(record: &Value) -> String {
    fn sorted(value: &Value) -> String {
        match value {
            Value::Object(members) => {
                let sorted_members: std::collections::BTreeMap<_, _> = members.iter().collect();
                let members: Vec<String> = sorted_members
                    .into_iter()
                    .map(|(name, value)| format!("{}:{}", Value::from(name.as_str()), sorted(value)))
                    .collect();
                format!("{{{}}}", members.join(","))
            }
            Value::Array(elements) => format!("[{}]", elements.iter().map(sorted).collect::<Vec<_>>().join(",")),
            other => other.to_string(),
        }
    }
    let escaped: String = sorted(record)
        .chars()
        .map(
            |character| {
                if character.is_ascii() { character.to_string() } else { format!("\\u{:04x}", u32::from(character)) }
            },
        )
        .collect();
    Sha256::digest(escaped).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Audit lines in the shape before that broker's fix.
pub const CAPBROKER_BEFORE: &str = r#"{"event":"decision","agent_id":"bot-1","operation":"notes.write","resource":"team/wiki","capability_id":"k1","decision":"ALLOW","reason":"within_capability"}
{"event":"decision","agent_id":"bot-1","operation":"notes.write","resource":"team/wiki","capability_id":"k1","decision":"ALLOW","reason":"within_capability"}
{"event":"decision","agent_id":"boss","operation":"wiki.drop","resource":"team/wiki","capability_id":"k9","decision":"DENY","reason":"unknown_capability"}
{"event":"decision","agent_id":"bot-1","operation":"wiki.drop","resource":"team/wiki","capability_id":"k1","decision":"DENY","reason":"operation_not_permitted"}
{"event":"decision","agent_id":"bot-1","operation":"members.add","resource":"team/wiki","capability_id":"k2","decision":"DENY","reason":"denied_by_operator"}
{"event":"decision","agent_id":"bot-1","operation":"notes.close","resource":"team/wiki","capability_id":"k3","decision":"ALLOW","reason":"within_capability"}
{"event":"decision","agent_id":"bot-1","operation":"notes.close","resource":"team/wiki","capability_id":"k3","decision":"DENY","reason":"call_limit_exceeded"}
"#;

/// Audit lines in the shape after it.
pub const CAPBROKER_AFTER: &str = r#"{"event":"decision","agent_id":"bot-1","operation":"notes.write","resource":"team/wiki","capability_id":"k1","decision":"ALLOW","reason":"within_capability","executed_by":"broker"}
{"event":"execution_result","operation":"notes.write","resource":"team/wiki","capability_id":"k1","executed":true}
{"event":"decision","agent_id":"bot-1","operation":"notes.write","resource":"team/wiki","capability_id":"k1","decision":"ALLOW","reason":"within_capability","executed_by":"caller"}
{"event":"decision","agent_id":"the-ceo","operation":"wiki.drop","resource":"team/wiki","capability_id":"k9","decision":"DENY","reason":"unknown_capability","authenticated":false}
{"event":"decision","agent_id":"bot-2","operation":"notes.write","resource":"team/wiki","capability_id":"k4","decision":"DENY","reason":"call_limit_exceeded","authenticated":false}
{"event":"decision","agent_id":"bot-1","operation":"notes.label","resource":"team/wiki","capability_id":"k5","decision":"ALLOW","reason":"within_capability","executed_by":"broker"}
{"event":"decision","agent_id":"bot-1","operation":"notes.label","resource":"team/wiki","capability_id":"k5","decision":"ALLOW","reason":"within_capability","executed_by":"broker"}
{"event":"execution_result","operation":"notes.label","resource":"team/wiki","capability_id":"k5","executed":false,"error":"upstream 502"}
{"event":"execution_result","operation":"notes.label","resource":"team/wiki","capability_id":"k5","executed":true}
{"event":"decision","agent_id":"bot-1","operation":"notes.close","resource":"team/wiki","capability_id":"k3","decision":"ALLOW","reason":"within_capability","executed_by":"broker"}
{"event":"execution_result","operation":"notes.close","resource":"team/wiki","capability_id":"k3","executed":false,"error":"connector raised"}
{"event":"decision","agent_id":"bot-1","operation":"notes.close","resource":"team/wiki","capability_id":"k3","decision":"DENY","reason":"call_limit_exceeded","authenticated":false}
"#;
