//! A COSE receipt of inclusion (RFC 9942, section 5.2), signed by whoever exports it.
//!
//! ```text
//! 18([ << {1: -8, 4: kid, 15: {1: iss, 2: sub}, 395: 1} >>,
//!      {396: {-1: [ << [tree size, leaf index, [hash, …]] >> ]}},
//!      null,                                                        the root, which the reader computes
//!      signature ])
//! ```
//!
//! `alg` is EdDSA (-8) and not Ed25519 (-19, RFC 9864): readers of today know the first, and of the two curves it may
//! mean only one fits the key. `kid` is the key's thumbprint (RFC 9679, SHA-256). Of the claims (RFC 9597) `iss` is the
//! name of the key that signs, whoever holds it, and `sub` is `<origin>#<receipt id in hex>@<index>/<tree size>`. A root by
//! itself says neither which log's tree it is of nor how large that is, and one path leads to one root for several pairs of
//! index and size; so all of it is under the signature here.
//!
//! The tree is RFC 9162's as ours is RFC 6962's: the two hash alike.

use crate::export::{ExportError, Proven};
use coset::cbor::value::Value;
use coset::{CoseSign1Builder, HeaderBuilder, TaggedCborSerializable, iana};
use note::{SigningKey, VerifierKey, sign_outside_notes};
use sha2::{Digest, Sha256};

/// Header parameter `CWT Claims` (RFC 9597).
const CWT_CLAIMS: i64 = 15;
/// Header parameter `vds`, the verifiable data structure (RFC 9942, section 4.1).
const VDS: i64 = 395;
/// Header parameter `vdp`, the proofs about it (RFC 9942, section 4.2).
const VDP: i64 = 396;
/// The tree of RFC 9162 with SHA-256, in `vds`.
const RFC9162_SHA256: i64 = 1;
/// Inclusion proofs, in `vdp`.
const INCLUSION: i64 = -1;

/// The receipt in CBOR, with the tag of COSE_Sign1.
pub(crate) fn receipt(proven: &Proven<'_>, key: &SigningKey) -> Result<Vec<u8>, ExportError> {
    let checked = proven.checked;
    let head = checked.verified.checkpoint.checkpoint();
    let hashes = checked.proof.inclusion.hashes();
    if hashes.is_empty() {
        return Err(ExportError::OneEntry);
    }
    let path = hashes.iter().map(|hash| Value::from(&hash.0[..])).collect();
    let inclusion = encoded(&Value::Array(vec![head.size.0.into(), checked.proof.index.0.into(), Value::Array(path)]))?;
    let claims = Value::Map(vec![(1.into(), key.name().as_str().into()), (2.into(), subject(proven).into())]);
    let protected = HeaderBuilder::new()
        .algorithm(iana::Algorithm::EdDSA)
        .key_id(thumbprint(&key.verifier())?)
        .value(CWT_CLAIMS, claims)
        .value(VDS, RFC9162_SHA256.into());
    let proofs = Value::Map(vec![(INCLUSION.into(), Value::Array(vec![Value::Bytes(inclusion)]))]);
    CoseSign1Builder::new()
        .protected(protected.build())
        .unprotected(HeaderBuilder::new().value(VDP, proofs).build())
        .try_create_detached_signature(&head.root.0.0, b"", |message| sign_outside_notes(message, key))?
        .build()
        .to_tagged_vec()
        .map_err(|error| ExportError::Form(error.to_string()))
}

fn subject(proven: &Proven<'_>) -> String {
    let head = proven.checked.verified.checkpoint.checkpoint();
    let (id, index) = (proven.checked.leaf.to_hex(), proven.checked.proof.index);
    format!("{}#{id}@{index}/{}", head.origin.as_str(), head.size)
}

/// The key's COSE Key Thumbprint (RFC 9679): SHA-256 over its required members, deterministically encoded.
fn thumbprint(key: &VerifierKey) -> Result<Vec<u8>, ExportError> {
    // In the order of their encodings: kty OKP, crv Ed25519, x.
    let members = [(1, 1.into()), (-1, 6.into()), (-2, Value::from(key.public_key_bytes()))];
    let cose_key = Value::Map(members.into_iter().map(|(label, value)| (label.into(), value)).collect());
    Ok(Sha256::digest(encoded(&cose_key)?).to_vec())
}

fn encoded(value: &Value) -> Result<Vec<u8>, ExportError> {
    let mut bytes = Vec::new();
    coset::cbor::ser::into_writer(value, &mut bytes).map_err(|error| ExportError::Form(error.to_string()))?;
    Ok(bytes)
}
