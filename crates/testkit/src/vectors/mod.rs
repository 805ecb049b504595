//! The vectors: what every implementation of the formats must agree on, made by this one and kept in `vectors/` as JSON.
//!
//! One module a subject, one file a subject. Inputs are written out here by hand, hostile ones above all; what becomes
//! of them is asked of the code itself, except in [`bodies`], whose texts are written by hand so that the builder of
//! bodies is held against them. Nothing here is random: the same source makes the same files.
//!
//! Does not hold the vectors that need a disk (`outbox.json`) or a log's follower (`history.json`): those are made where
//! these live, in the client's tests.

mod bodies;
mod credentials;
mod digests;
mod ijson;
mod keys;
mod notes;
mod policies;
mod proofs;
mod receipts;
mod streams;
mod trees;

use note::{KeyKind, KeyName, SigningKey};
use serde_json::{Map, Value, json};

/// One file of vectors.
#[derive(Clone, Debug, PartialEq)]
pub struct VectorFile {
    /// Its name in the folder `vectors/`.
    pub name: &'static str,
    /// What an implementation must do with the cases, in a sentence.
    pub about: &'static str,
    /// The cases, each a JSON object.
    pub cases: Vec<Value>,
}

impl VectorFile {
    /// The file's text: JSON with one case a line, so that a changed case is a changed line.
    pub fn text(&self) -> String {
        let cases: Vec<String> = self.cases.iter().map(Value::to_string).collect();
        let mut cases = cases.join(",\n");
        if self.name == credentials::NAME {
            cases = credentials::disguised(&cases);
        }
        format!("{{\"about\":{},\"cases\":[\n{cases}\n]}}\n", json!(self.about))
    }
}

/// All files that need neither a disk nor a follower.
pub fn vector_files() -> Vec<VectorFile> {
    vec![
        ijson::ijson(),
        digests::jcs(),
        digests::commitments(),
        digests::actions(),
        keys::keys(),
        keys::ed25519(),
        receipts::receipts(),
        streams::streams(),
        credentials::credentials(),
        bodies::bodies(),
        notes::notes(),
        trees::trees(),
        trees::tiles(),
        policies::policies(),
        proofs::proofs(),
    ]
}

/// The issuer of most cases.
const ISSUER: &str = "gate.example/support-1";

/// When its stream begins, milliseconds since the epoch.
const START: u64 = 1_790_000_000_000;

/// A seed of 32 bytes that count up from 32 times `number`: what the known receipts of `crates/receipt/vectors` use.
fn seed(number: u8) -> [u8; 32] {
    std::array::from_fn(|place| number.wrapping_mul(32).wrapping_add(place as u8))
}

/// A key of `name` with [`seed`] `number`.
fn key(name: &str, kind: KeyKind, number: u8) -> SigningKey {
    SigningKey::from_seed(KeyName::new(name).expect("the names of the vectors are names"), kind, seed(number))
}

/// The issuer's key number `number`.
fn issuer_key(number: u8) -> SigningKey {
    key(ISSUER, KeyKind::Ed25519, number)
}

fn b64(bytes: &[u8]) -> String {
    merkle::encode_base64(bytes)
}

/// A JSON object out of another with one member more.
fn with(mut value: Value, name: &str, member: Value) -> Value {
    if let Some(members) = value.as_object_mut() {
        members.insert(name.to_owned(), member);
    }
    value
}

/// The members of an object; none of anything else.
fn members(value: &Value) -> Map<String, Value> {
    value.as_object().cloned().unwrap_or_default()
}
