//! Receipts of obsigna (agent-receipts), by that format's own rules.
//!
//! ```text
//! {"@context","id","type","version","issuer":{"id"},"issuanceDate","credentialSubject":{…,"chain":{…}},"proof":{…}}
//! chain   sequence, from 1; previous_receipt_hash, null in the first; chain_id; terminal, true in the last
//! proof   type "Ed25519Signature2020", created, verificationMethod, proofPurpose "assertionMethod",
//!         proofValue: "u" and base64url of a signature over the rest in canonical form
//! ```
//!
//! Canonical form: RFC 8785 after members that are null are left out, `previous_receipt_hash` alone excepted. The link is
//! `sha256:` and hex of SHA-256 over the same bytes, so it covers no signature, and nothing else in `proof` is signed.
//!
//! Holds the parse. Its action types are not the classes of the auditor's rules, and it records what was done, not what
//! was allowed: so no sequence rule judges these receipts.

use super::pinned::{PinnedKeys, decode_base64url};
use super::signed::{Closing, Place, Signed, SignedChecks, Unread, strict_json};
use crate::verdict::{Check, ReceiptRef};
use receipt::jcs::{self, Digest};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

pub(super) const FORMAT: &str = "obsigna";

/// The one member that is written where it is null.
const KEPT_NULL: &str = "previous_receipt_hash";

/// All members of a proof.
const PROOF_MEMBERS: [&str; 5] = ["type", "created", "verificationMethod", "proofPurpose", "proofValue"];

/// Reads a carried text.
pub(super) fn parse(text: &str) -> Result<Signed, Unread> {
    Ok(read(&strict_json(text)?)?)
}

/// Reads a value that came through a strict parser. The error completes "not a receipt: …".
pub(super) fn read(value: &Value) -> Result<Signed, &'static str> {
    let members = value.as_object().ok_or("it is no JSON object")?;
    let text = |members: &Map<String, Value>, name: &str, missing: &'static str| {
        members.get(name).and_then(Value::as_str).map(str::to_owned).ok_or(missing)
    };
    let object = |members: &Map<String, Value>, name: &str, missing: &'static str| {
        members.get(name).and_then(Value::as_object).cloned().ok_or(missing)
    };
    let issuer = object(members, "issuer", "issuer is missing or no object")?;
    let subject = object(members, "credentialSubject", "credentialSubject is missing or no object")?;
    let chain = object(&subject, "chain", "credentialSubject.chain is missing or no object")?;
    let proof = object(members, "proof", "it has no proof: it is not signed")?;
    if proof.keys().any(|name| !PROOF_MEMBERS.contains(&name.as_str())) {
        return Err("proof holds a member that the format does not have, and that no signature covers");
    }
    if text(&proof, "type", "proof.type is missing or no string")? != "Ed25519Signature2020" {
        return Err("proof.type is not \"Ed25519Signature2020\"");
    }
    if text(&proof, "proofPurpose", "proof.proofPurpose is missing or no string")? != "assertionMethod" {
        return Err("proof.proofPurpose is not \"assertionMethod\"");
    }
    text(&proof, "created", "proof.created is missing or no string")?;
    let mut unsigned = members.clone();
    unsigned.remove("proof");
    let message = canonical(&Value::Object(unsigned)).into_bytes();
    Ok(Signed {
        issuer: text(&issuer, "id", "issuer.id is missing or no string")?,
        kid: text(&proof, "verificationMethod", "proof.verificationMethod is missing or no string")?,
        place: place(&chain, Digest::of_bytes(&message).to_string())?,
        message,
        beside: canonical(&Value::Object(proof.clone())),
        signature: text(&proof, "proofValue", "proof.proofValue is missing or no string")?
            .strip_prefix('u')
            .and_then(decode_base64url)
            .and_then(|bytes| bytes.try_into().ok())
            .ok_or("proof.proofValue is not \"u\" and base64url of 64 bytes")?,
        uncovered: Some("proof.created and proof.verificationMethod"),
    })
}

fn place(chain: &Map<String, Value>, link: String) -> Result<Place, &'static str> {
    let number = chain.get("sequence").and_then(Value::as_u64).filter(|number| *number > 0);
    let number = number.ok_or("chain.sequence is missing or no whole number from 1")?;
    let previous = match chain.get(KEPT_NULL) {
        Some(Value::Null) => None,
        Some(Value::String(link)) if Digest::parse(link).is_some() => Some(link.clone()),
        _ => return Err("chain.previous_receipt_hash is missing, or neither null nor a digest"),
    };
    if (number == 1) != previous.is_none() {
        return Err("of number 1 and no previous receipt chain has one without the other");
    }
    Ok(Place {
        chain: Some(
            chain.get("chain_id").and_then(Value::as_str).ok_or("chain.chain_id is missing or no string")?.to_owned(),
        ),
        number: Some(number),
        previous,
        link,
        respelt: false,
        closes: match chain.get("terminal") {
            None | Some(Value::Null | Value::Bool(false)) => Closing::No,
            Some(Value::Bool(true)) => Closing::Ends,
            Some(_) => return Err("chain.terminal is neither true nor false"),
        },
    })
}

/// The canonical text of a value.
pub(super) fn canonical(value: &Value) -> String {
    let mut value = value.clone();
    drop_nulls(&mut value);
    jcs::canonical(&value)
}

/// Depth is bounded by the parser that made the value.
fn drop_nulls(value: &mut Value) {
    match value {
        Value::Object(members) => {
            members.retain(|name, value| !value.is_null() || name == KEPT_NULL);
            members.values_mut().for_each(drop_nulls);
        }
        Value::Array(elements) => elements.iter_mut().for_each(drop_nulls),
        _ => {}
    }
}

/// The format's checks over all its receipts in a log, in the order of the log.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct ObsignaChecks(SignedChecks);

impl ObsignaChecks {
    pub(super) fn new() -> ObsignaChecks {
        ObsignaChecks(SignedChecks::new(FORMAT))
    }

    /// Checks one carried receipt.
    pub(super) fn add(&mut self, at: &ReceiptRef, read: Result<Signed, Unread>, pins: &PinnedKeys) {
        match read {
            Err(why) => self.0.unread(at, &why),
            Ok(signed) => drop(self.0.add(at, &signed, pins)),
        }
    }

    pub(super) fn finish(self) -> Vec<Check> {
        self.0.finish()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;
    use std::io::Write as _;

    fn vectors(name: &str) -> Option<Value> {
        let dir = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/cases/foreign/obsigna");
        match std::fs::read_to_string(dir.join(name)) {
            // Not through the strict parser: the vectors hold numbers that no record may hold.
            Ok(text) => Some(serde_json::from_str(&text).unwrap()),
            Err(_) => {
                let mut stderr = std::io::stderr();
                writeln!(stderr, "SKIPPED: {name} is not beside the checkout; only own values were checked").unwrap();
                None
            }
        }
    }

    fn hash(value: &Value) -> String {
        Digest::of_bytes(canonical(value).as_bytes()).to_string()
    }

    #[test]
    fn nulls_are_left_out_and_the_previous_hash_alone_is_kept() {
        let value = serde_json::json!({
            "z": null, "a": {"b": null, "previous_receipt_hash": null, "c": [null, {"d": null}]}, "<": "\u{2028}&",
        });
        assert_eq!(canonical(&value), "{\"<\":\"\u{2028}&\",\"a\":{\"c\":[null,{}],\"previous_receipt_hash\":null}}");
    }

    #[test]
    fn every_canonicalization_vector_reproduces() {
        let Some(vectors) = vectors("canonicalization_vectors.json") else { return };
        let cases = vectors["canonicalization_vectors"].as_array().unwrap();
        for case in cases {
            let canonical = canonical(&case["input"]);
            assert_eq!(canonical, case["canonical"].as_str().unwrap(), "{}", case["name"]);
            if let Some(expected) = case.get("expectedHash") {
                assert_eq!(Digest::of_bytes(canonical.as_bytes()).to_string(), expected.as_str().unwrap());
            }
        }
        let receipts = vectors["receipt_hash_vectors"].as_array().unwrap();
        let baseline = receipts[0]["expectedHash"].as_str().unwrap();
        let mut hashed = 0;
        for case in receipts.iter().filter(|case| case.get("receipt").is_some()) {
            let expected = case["expectedHash"].as_str().unwrap();
            let expected = if expected == "SAME_AS_receipt_all_optional_absent" { baseline } else { expected };
            assert_eq!(hash(&case["receipt"]), expected, "{}", case["name"]);
            if let Some(part) = case.get("mustContainSubstring") {
                assert!(canonical(&case["receipt"]).contains(part.as_str().unwrap()), "{}", case["name"]);
            }
            hashed += 1;
        }
        // All but the one that names a file of another repository.
        assert_eq!((cases.len() > 20, hashed), (true, receipts.len() - 1));
    }

    #[test]
    fn the_vectors_of_the_other_libraries_reproduce() {
        let Some(go) = vectors("go_vectors.json") else { return };
        let forms = &go["canonicalization"];
        assert_eq!(canonical(&forms["simpleInput"]), forms["simpleExpected"].as_str().unwrap());
        assert_eq!(canonical(&forms["receiptInput"]), forms["receiptExpected"].as_str().unwrap());
        assert_eq!(hash(&forms["receiptInput"]), go["hashing"]["receiptExpected"].as_str().unwrap());
        let simple = go["hashing"]["simpleInput"].as_str().unwrap();
        assert_eq!(Digest::of_bytes(simple.as_bytes()).to_string(), go["hashing"]["simpleExpected"].as_str().unwrap());
        let v050 = vectors("v050_vectors.json").unwrap();
        for name in ["runtimeReceipt", "extendedRuntimeReceipt", "rootAgentReceipt"] {
            let signed = read(&v050[name]["receipt"]).unwrap();
            assert_eq!(signed.place.link, v050[name]["expectedReceiptHash"].as_str().unwrap(), "{name}");
        }
    }

    #[test]
    fn a_place_that_contradicts_itself_is_none() {
        let place = |chain: Value| place(chain.as_object().unwrap(), String::new());
        let hash = format!("sha256:{}", "0".repeat(64));
        let chain = |sequence: Value, previous: Value| serde_json::json!({"sequence": sequence, "previous_receipt_hash": previous, "chain_id": "c"});
        assert!(place(chain(1.into(), Value::Null)).is_ok());
        assert!(place(chain(2.into(), hash.clone().into())).is_ok());
        for bad in [
            chain(0.into(), Value::Null),
            chain(1.into(), hash.clone().into()),
            chain(2.into(), Value::Null),
            chain(1.5.into(), Value::Null),
            chain("1".into(), Value::Null),
            chain(2.into(), "genesis".into()),
            serde_json::json!({"sequence": 1, "chain_id": "c"}),
            serde_json::json!({"sequence": 1, "previous_receipt_hash": null}),
            serde_json::json!({"sequence": 1, "previous_receipt_hash": null, "chain_id": "c", "terminal": "yes"}),
        ] {
            assert!(place(bad.clone()).is_err(), "{bad}");
        }
    }
}
