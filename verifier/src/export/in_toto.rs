//! An in-toto Statement (v1) about one receipt, bare or in a DSSE envelope.
//!
//! ```text
//! {"_type":"https://in-toto.io/Statement/v1",
//!  "subject":[{"name":"<issuer>#<seq>","digest":{"sha256":"<of the entry's bytes>"}}],
//!  "predicateType":"urn:uuid:…",
//!  "predicate":{"receipt":{"id":…},"log":{…},"inclusion":{…},"checkpoint":"<note>","cosignatures":[…],"tlogProof":"…"}}
//! ```
//!
//! The digest is the plain SHA-256 of the `.entry` file, which any tool computes; the receipt's id is the leaf hash, over
//! one byte more, and stands in the predicate. What the predicate says stands in it twice, in parts and as the proof itself;
//! the proof is what counts. Holds the forms and no check.

use crate::ascii_json;
use crate::export::{ExportError, Proven};
use base64::Engine;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use note::{SigningKey, VerifierKey, sign_outside_notes};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

/// The form of the predicate. A UUID, because this project owns no domain to name it under; another form gets another.
pub(crate) const PREDICATE_TYPE: &str = "urn:uuid:b066f594-9980-4283-913b-3c40d5bd8d6e";

const STATEMENT_TYPE: &str = "https://in-toto.io/Statement/v1";

/// What in-toto calls a statement inside an envelope.
const PAYLOAD_TYPE: &str = "application/vnd.in-toto+json";

/// The statement as one line of JSON, with a line end.
pub(crate) fn statement(proven: &Proven<'_>) -> Result<Vec<u8>, ExportError> {
    let line = value(proven).and_then(|value| ascii_json::to_string(&value));
    Ok(format!("{}\n", line.map_err(form)?).into_bytes())
}

/// The statement in a DSSE envelope (v1), signed by `key`, as one line of JSON with a line end.
pub(crate) fn envelope(proven: &Proven<'_>, key: &SigningKey) -> Result<Vec<u8>, ExportError> {
    // Without a line end: with one, what is signed could be read as a note's text, and would not be signed.
    let payload = value(proven).and_then(|value| ascii_json::to_string(&value)).map_err(form)?;
    let signature = sign_outside_notes(&pre_authentication(PAYLOAD_TYPE, &payload), key)?;
    let envelope = json!({
        "payloadType": PAYLOAD_TYPE,
        "payload": merkle::encode_base64(payload.as_bytes()),
        "signatures": [{"keyid": fingerprint(&key.verifier()), "sig": merkle::encode_base64(&signature)}],
    });
    Ok(format!("{}\n", ascii_json::to_string(&envelope).map_err(form)?).into_bytes())
}

/// The key's fingerprint as SSH has it (RFC 4253, section 6.6; RFC 8709). DSSE calls a key id a hint, but its library in Go
/// passes over every signature whose id is not this, unless it is told another.
fn fingerprint(key: &VerifierKey) -> String {
    let mut wire = Vec::new();
    for part in [&b"ssh-ed25519"[..], key.public_key_bytes()] {
        // Two lengths that fit many times over: 11 and 32.
        wire.extend((part.len() as u32).to_be_bytes());
        wire.extend(part);
    }
    format!("SHA256:{}", STANDARD_NO_PAD.encode(Sha256::digest(wire)))
}

fn form(error: serde_json::Error) -> ExportError {
    ExportError::Form(error.to_string())
}

/// What DSSE signs: PAE(type, payload).
fn pre_authentication(payload_type: &str, payload: &str) -> Vec<u8> {
    format!("DSSEv1 {} {payload_type} {} {payload}", payload_type.len(), payload.len()).into_bytes()
}

fn value(proven: &Proven<'_>) -> Result<Value, serde_json::Error> {
    let (checked, receipt) = (proven.checked, proven.receipt);
    let body: Value = serde_json::from_str(receipt.body_text())?;
    let head = checked.verified.checkpoint.checkpoint();
    let witnesses = checked.policy.witnesses();
    let cosignatures: Vec<Value> = checked
        .verified
        .cosignatures
        .iter()
        .map(|(place, cosignature)| {
            json!({"witness": witnesses[*place].vkey.to_string(), "timestamp": cosignature.timestamp_s})
        })
        .collect();
    let path: Vec<String> = checked.proof.inclusion.hashes().iter().map(|hash| hash.to_base64()).collect();
    Ok(json!({
        "_type": STATEMENT_TYPE,
        "subject": [{
            "name": format!("{}#{}", receipt.issuer().as_str(), receipt.seq()),
            "digest": {"sha256": merkle::Hash(Sha256::digest(&checked.entry).into()).to_hex()},
        }],
        "predicateType": PREDICATE_TYPE,
        "predicate": {
            "receipt": {
                "id": checked.leaf.to_hex(),
                "issuer": receipt.issuer().as_str(),
                "seq": receipt.seq().0,
                "prev": receipt.prev().to_string(),
                "issuedAtMs": receipt.issued_at().0,
                "body": body,
                "entry": merkle::encode_base64(&checked.entry),
            },
            "log": {"origin": head.origin.as_str(), "vkey": checked.verified.checkpoint.log_key().to_string()},
            "inclusion": {
                "index": checked.proof.index.0,
                "treeSize": head.size.0,
                "rootHash": head.root.0.to_base64(),
                "path": path,
            },
            "checkpoint": String::from_utf8_lossy(checked.verified.checkpoint.bytes()),
            "cosignatures": cosignatures,
            "tlogProof": checked.proof.to_string(),
        },
    }))
}
