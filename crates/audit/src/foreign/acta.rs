//! Decision receipts of acta (APS gateways, version 2), by that format's own rules.
//!
//! ```text
//! {"v":2,"type","algorithm":"ed25519","kid","issuer","issued_at","payload":{…},"signature":"<128 hex digits>"}
//! signature            over RFC 8785 of all other members
//! previousReceiptHash  "sha256:" and hex of SHA-256 over RFC 8785 of the whole receipt before, signature included;
//!                      in the receipt or its payload; a first receipt has none, nor has one that stands by itself
//! ```
//!
//! A payload may hold `state_hash_at_signing`, the hash of the delegation's state when the receipt was signed. That state
//! as it was at execution, a JSON object with the same `delegation_id`, is carried as a record of its own behind the
//! receipt; then the two are compared. Such a state is signed by nobody: it is the word of the gate that carries it.
//!
//! Holds the parse and the states. A tool has no action class, so no sequence rule judges these receipts.

use super::pinned::PinnedKeys;
use super::signed::{Closing, Place, Signed, SignedChecks, Unread, signature_of_hex, strict_json};
use crate::key::Key;
use crate::quote::quoted;
use crate::verdict::{Check, CheckBuilder, Family, ReceiptRef};
use receipt::jcs::{self, Digest};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::HashMap;

pub(super) const FORMAT: &str = "acta";

const LINK: &str = "previousReceiptHash";

/// One carried record, read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Record {
    Receipt {
        signed: Box<Signed>,
        /// The delegation, and the hash of its state that was signed.
        state: Option<(String, String)>,
    },
    /// A delegation's state.
    State { delegation: String, hash: String },
}

impl Record {
    /// Reads a carried text.
    pub(super) fn parse(text: &str) -> Result<Record, Unread> {
        Ok(Record::read(&strict_json(text)?)?)
    }

    /// Reads a value that came through a strict parser. The error completes "not a receipt: …".
    pub(super) fn read(value: &Value) -> Result<Record, &'static str> {
        let members = value.as_object().ok_or("it is no JSON object")?;
        let is_receipt = ["v", "type", "algorithm", "kid", "payload", "signature"];
        if let (Some(Value::String(delegation)), false) =
            (members.get("delegation_id"), is_receipt.iter().any(|name| members.contains_key(*name)))
        {
            return Ok(Record::State { delegation: delegation.clone(), hash: Digest::of_json(value).to_string() });
        }
        if members.get("v").and_then(Value::as_u64) != Some(2) {
            return Err("v is not 2");
        }
        if text(members, "algorithm", "algorithm is missing or no string")? != "ed25519" {
            return Err("algorithm is not \"ed25519\"");
        }
        text(members, "type", "type is missing or no string")?;
        text(members, "issued_at", "issued_at is missing or no string")?;
        let payload = members.get("payload").and_then(Value::as_object).ok_or("payload is missing or no object")?;
        let signature = text(members, "signature", "it is not signed")?;
        let mut unsigned = members.clone();
        unsigned.remove("signature");
        let signed = Signed {
            issuer: text(members, "issuer", "issuer is missing or no string")?.to_owned(),
            kid: text(members, "kid", "kid is missing or no string")?.to_owned(),
            message: jcs::canonical(&Value::Object(unsigned)).into_bytes(),
            signature: signature_of_hex(signature).ok_or("signature is not 128 lowercase hex digits")?,
            beside: String::new(),
            place: Place {
                chain: None,
                number: None,
                previous: previous(members, payload)?,
                link: Digest::of_json(value).to_string(),
                respelt: false,
                closes: Closing::No,
            },
            uncovered: None,
        };
        Ok(Record::Receipt { signed: Box::new(signed), state: signed_state(payload)? })
    }
}

fn text<'value>(
    members: &'value Map<String, Value>,
    name: &str,
    missing: &'static str,
) -> Result<&'value str, &'static str> {
    members.get(name).and_then(Value::as_str).filter(|text| !text.is_empty()).ok_or(missing)
}

fn previous(members: &Map<String, Value>, payload: &Map<String, Value>) -> Result<Option<String>, &'static str> {
    match (members.get(LINK), payload.get(LINK)) {
        (None, None) => Ok(None),
        (Some(Value::String(link)), None) | (None, Some(Value::String(link))) if Digest::parse(link).is_some() => {
            Ok(Some(link.clone()))
        }
        (Some(_), Some(_)) => Err("previousReceiptHash stands in the receipt and in its payload"),
        _ => Err("previousReceiptHash is no digest; a first receipt leaves it out"),
    }
}

fn signed_state(payload: &Map<String, Value>) -> Result<Option<(String, String)>, &'static str> {
    match (payload.get("state_hash_at_signing"), payload.get("delegation_id")) {
        (None, _) => Ok(None),
        (Some(Value::String(hash)), Some(Value::String(delegation))) if Digest::parse(hash).is_some() => {
            Ok(Some((delegation.clone(), hash.clone())))
        }
        _ => Err("state_hash_at_signing is no digest, or comes without delegation_id"),
    }
}

/// The format's checks over all its records in a log, in the order of the log.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct ActaChecks {
    signed: SignedChecks,
    states: CheckBuilder,
    /// The latest receipt of each delegation that signed a state, by carrying gate.
    awaited: HashMap<Key, Awaited>,
    compared: u64,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Awaited {
    at: ReceiptRef,
    hash: String,
    compared: bool,
}

impl ActaChecks {
    pub(super) fn new() -> ActaChecks {
        ActaChecks {
            signed: SignedChecks::new(FORMAT),
            states: CheckBuilder::new(Family::Foreign, format!("{FORMAT}/state")),
            awaited: HashMap::new(),
            compared: 0,
        }
    }

    /// Checks one carried record.
    pub(super) fn add(&mut self, at: &ReceiptRef, record: Result<Record, Unread>, pins: &PinnedKeys) {
        match record {
            Err(why) => self.signed.unread(at, &why),
            Ok(Record::Receipt { signed, state }) => {
                let verified = self.signed.add(at, &signed, pins);
                // What anybody could have written awaits nothing, and takes no proven receipt's place.
                if let Some((delegation, hash)) = state.filter(|_| verified) {
                    let awaited = Awaited { at: at.clone(), hash, compared: false };
                    if let Some(earlier) = self.awaited.insert(state_key(at, &delegation), awaited) {
                        report_unseen(&mut self.states, &earlier);
                    }
                }
            }
            Ok(Record::State { delegation, hash }) => {
                self.signed.other_record();
                self.compare(at, &delegation, &hash);
            }
        }
    }

    fn compare(&mut self, at: &ReceiptRef, delegation: &str, hash: &str) {
        let Some(awaited) = self.awaited.get_mut(&state_key(at, delegation)) else { return };
        awaited.compared = true;
        self.compared += 1;
        self.states.checked();
        if awaited.hash != hash {
            self.states.fail("state-drift", &[&awaited.at, at], || {
                [
                    format!("the receipt was signed over the state {} of the delegation {}, and its state at execution is {hash}", awaited.hash, quoted(delegation)),
                    String::from("whether the call went through all the same; that this was the state is the carrying gate's word"),
                    String::from("a call on a changed delegation must be stopped: look for its outcome"),
                ]
            });
        }
    }

    pub(super) fn finish(self) -> Vec<Check> {
        let ActaChecks { signed, mut states, awaited, compared } = self;
        let mut checks = signed.finish();
        let mut awaited: Vec<Awaited> = awaited.into_values().collect();
        if !awaited.is_empty() {
            // In the order of the log, the same in every run.
            awaited.sort_by_key(|awaited| awaited.at.index);
            awaited.iter().for_each(|awaited| report_unseen(&mut states, awaited));
            checks.push(
                states
                    .finish(format!("{compared} states at execution against the ones that receipts were signed over")),
            );
        }
        checks
    }
}

fn report_unseen(states: &mut CheckBuilder, awaited: &Awaited) {
    if awaited.compared {
        return;
    }
    states.not_checked("state-unseen", &[&awaited.at], || {
        [
            String::from(
                "the receipt was signed over a state of its delegation, and the state at execution is not in the log",
            ),
            String::from("that the delegation was still the same when the call was made"),
            String::from("have the gate carry the delegation's state at execution behind the receipt"),
        ]
    });
}

fn state_key(at: &ReceiptRef, delegation: &str) -> Key {
    Key::new(&[at.issuer.as_deref().unwrap_or(""), delegation])
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;
    use std::io::Write as _;

    #[test]
    fn what_is_signed_is_the_canonical_text_of_all_other_members() {
        let dir = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/cases/foreign/acta");
        let file = |name: &str| std::fs::read_to_string(dir.join(name));
        let Ok(text) = file("receipt.json") else {
            let mut stderr = std::io::stderr();
            writeln!(stderr, "SKIPPED: acta's receipt is not beside the checkout; its text was not compared").unwrap();
            return;
        };
        let Record::Receipt { signed, state: None } = Record::parse(&text).unwrap() else { panic!() };
        assert_eq!(String::from_utf8(signed.message.clone()).unwrap(), file("canonical.txt").unwrap().trim_end());
        let expected: Value = serde_json::from_str(&file("expected-output.json").unwrap()).unwrap();
        let digest = Digest::of_bytes(&signed.message).to_string();
        assert_eq!(digest, format!("sha256:{}", expected["receipt_canonical_sha256"].as_str().unwrap()));
    }

    #[test]
    fn a_link_stands_in_one_place_and_is_a_digest() {
        let link = serde_json::json!(format!("sha256:{}", "0".repeat(64)));
        let members =
            |link: Option<&Value>| link.map(|link| (LINK.to_owned(), link.clone())).into_iter().collect::<Map<_, _>>();
        let (with, without) = (members(Some(&link)), members(None));
        assert_eq!(previous(&without, &without), Ok(None));
        assert_eq!(previous(&with, &without), previous(&without, &with));
        assert!(previous(&with, &with).is_err());
        for bad in [Value::Null, serde_json::json!("genesis"), serde_json::json!("0".repeat(64))] {
            assert!(previous(&members(Some(&bad)), &without).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_state_is_an_object_with_a_delegation_and_nothing_of_a_receipt() {
        assert!(matches!(Record::parse(r#"{"delegation_id":"d","status":"active"}"#), Ok(Record::State { .. })));
        for text in [
            r#"{"delegation_id":"d","payload":{}}"#,
            r#"{"delegation_id":"d","signature":"00"}"#,
            r#"{"delegation_id":1}"#,
            r#"["delegation_id"]"#,
            "1",
        ] {
            assert!(Record::parse(text).is_err(), "{text}");
        }
    }
}
