//! Receipts of the signed formats (`acta`, `obsigna`, `pipelock`), made here with keys from fixed seeds, for when their own
//! samples are not at hand and for what an attacker would make of them.
//!
//! The writers of their canonical forms are of their own and know only what these samples hold (ASCII names, whole
//! numbers), so that the verifier is not checked against itself.

use note::{KeyKind, KeyName, SigningKey};
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;

/// The issuer in the samples of `acta` and `obsigna`.
pub const ISSUER: &str = "gateway:sample";

/// The name of its key in them.
pub const KID: &str = "gateway:sample#key-1";

/// The key of a seed.
pub fn key(seed: u8) -> SigningKey {
    SigningKey::from_seed(KeyName::new("sample").expect("a name without spaces"), KeyKind::Ed25519, [seed; 32])
}

/// Its public half in hex.
pub fn key_hex(seed: u8) -> String {
    hex::encode(key(seed).verifier().public_key_bytes())
}

/// The lines of a rule file that pin a seed's key for a format.
pub fn pin(format: &str, seed: u8) -> String {
    let whose = match format {
        "pipelock" => String::new(),
        _ => format!("kid = \"{KID}\"\nissuer = \"{ISSUER}\"\n"),
    };
    format!("[[foreign_key]]\nformat = \"{format}\"\n{whose}key = \"{}\"\n", key_hex(seed))
}

/// A chain of so many receipts of a format, under a seed's key.
pub fn chain(format: &str, seed: u8, count: u64) -> Vec<Value> {
    let mut receipts: Vec<Value> = Vec::new();
    for number in 0..count {
        let before = receipts.last().map(|receipt| link(format, receipt));
        receipts.push(sign(format, seed, unsigned(format, number, before, "reports/q3.csv")));
    }
    receipts
}

/// A receipt without signature: the `number`th (from 0) of a chain, about a resource.
pub fn unsigned(format: &str, number: u64, before: Option<String>, resource: &str) -> Value {
    match format {
        "acta" => {
            let mut receipt = json!({
                "v": 2, "type": "decision_receipt", "algorithm": "ed25519", "kid": KID, "issuer": ISSUER,
                "issued_at": format!("2026-11-29T12:00:{number:02}Z"),
                "payload": {
                    "decision": "allow", "request_id": format!("req-{number}"), "agent_id": "bot-1",
                    "delegation_id": "dlg-1", "tool": "file.read", "resource": resource,
                },
            });
            if let Some(before) = before {
                receipt["payload"]["previousReceiptHash"] = json!(before);
            }
            receipt
        }
        "obsigna" => json!({
            "@context": ["https://www.w3.org/ns/credentials/v2", "https://agentreceipts.ai/context/v1"],
            "id": format!("urn:receipt:00000000-0000-4000-8000-{number:012}"),
            "type": ["VerifiableCredential", "AgentReceipt"],
            "version": "0.2.1",
            "issuer": {"id": ISSUER},
            "issuanceDate": format!("2026-11-29T12:00:{number:02}Z"),
            "credentialSubject": {
                "principal": {"id": "did:user:sample"},
                "action": {"type": "filesystem.file.read", "risk_level": "low", "target": {"resource": resource}},
                "outcome": {"status": "success"},
                "chain": {"sequence": number + 1, "previous_receipt_hash": before, "chain_id": "chain-1"},
            },
        }),
        // In the order that the format signs.
        _ => json!({
            "version": 1, "action_id": format!("act-{number}"), "action_type": "read",
            "timestamp": format!("2026-11-29T12:00:{number:02}Z"), "principal": "org:sample", "actor": "agent:sample",
            "delegation_chain": ["grant-1"], "target": format!("https://api.example.test/?a=<1>&b={resource}"),
            "side_effect_class": "none", "reversibility": "full", "policy_hash": "sha256:00", "verdict": "allow",
            "transport": "https", "method": "GET",
            "chain_prev_hash": before.unwrap_or_else(|| String::from("genesis")), "chain_seq": number,
        }),
    }
}

/// Signs it under a seed's key.
pub fn sign(format: &str, seed: u8, unsigned: Value) -> Value {
    let key = key(seed);
    let mut receipt = unsigned;
    match format {
        "acta" => receipt["signature"] = json!(hex::encode(key.sign(sorted(&receipt).as_bytes()))),
        "obsigna" => {
            let signature = merkle::encode_base64(&key.sign(sorted(&receipt).as_bytes()));
            let signature = signature.replace('+', "-").replace('/', "_").replace('=', "");
            receipt["proof"] = json!({
                "type": "Ed25519Signature2020", "created": "2026-11-29T12:00:00Z", "verificationMethod": KID,
                "proofPurpose": "assertionMethod", "proofValue": format!("u{signature}"),
            });
        }
        _ => {
            let signature = key.sign(&Sha256::digest(go(&receipt)));
            receipt = json!({
                "version": 1, "action_record": receipt, "signature": format!("ed25519:{}", hex::encode(signature)),
                "signer_key": key_hex(seed),
            });
        }
    }
    receipt
}

/// What the next receipt of its chain says of it.
pub fn link(format: &str, receipt: &Value) -> String {
    match format {
        "acta" => format!("sha256:{}", hex::encode(Sha256::digest(sorted(receipt)))),
        "obsigna" => {
            let mut unsigned = receipt.clone();
            unsigned.as_object_mut().map(|members| members.remove("proof"));
            format!("sha256:{}", hex::encode(Sha256::digest(sorted(&unsigned))))
        }
        _ => hex::encode(Sha256::digest(go(receipt))),
    }
}

/// JSON with sorted members, without spaces.
pub fn sorted(value: &Value) -> String {
    fn in_order(value: &Value) -> Value {
        match value {
            Value::Object(members) => {
                let members: BTreeMap<&String, Value> =
                    members.iter().map(|(name, value)| (name, in_order(value))).collect();
                Value::Object(members.into_iter().map(|(name, value)| (name.clone(), value)).collect::<Map<_, _>>())
            }
            Value::Array(elements) => Value::Array(elements.iter().map(in_order).collect()),
            other => other.clone(),
        }
    }
    in_order(value).to_string()
}

/// JSON in the order in which it stands, with the escapes of Go for the characters in these samples.
fn go(value: &Value) -> String {
    value.to_string().replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_makes_the_same_chain_and_each_receipt_another_link() {
        for format in ["acta", "obsigna", "pipelock"] {
            let receipts = chain(format, 1, 3);
            assert_eq!(receipts, chain(format, 1, 3));
            let links: std::collections::BTreeSet<String> =
                receipts.iter().map(|receipt| link(format, receipt)).collect();
            assert_eq!(links.len(), 3, "{format}");
        }
    }
}
