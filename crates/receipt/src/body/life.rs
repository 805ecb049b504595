//! `open`, `heartbeat`, `rotate`, `close`: the life of an issuer (section 3.4).
//!
//! The shapes only. Where these receipts may stand, and whose keys may be in them, is [`crate::admit()`]'s
//! to say; so vkeys are text here, and a vkey that is none is refused there by its own code.

use super::member::{BodyError, Fields, Member};
use crate::jcs::Digest;
use serde_json::{Map, Value};

/// The members of an `open`, the receipt at seq 0.
#[derive(Clone, Debug, PartialEq)]
pub struct Open {
    /// The issuer's first key: the registered one.
    pub vkey: Option<Member<String>>,
    /// The gate's software and version, in a shape of its own.
    pub gate: Option<Member<Value>>,
    /// The longest silence the issuer allows itself, in milliseconds.
    pub heartbeat_ms: Option<Member<u64>>,
    /// Digest of the policy the gate decides by.
    pub policy_digest: Option<Member<Digest>>,
    /// Members this version does not know.
    pub other: Map<String, Value>,
}

impl Open {
    pub(super) fn read(mut fields: Fields<'_>) -> Result<Self, BodyError> {
        Ok(Self {
            vkey: fields.optional("vkey")?,
            gate: fields.optional("gate")?,
            heartbeat_ms: fields.optional("heartbeat_ms")?,
            policy_digest: fields.optional("policy_digest")?,
            other: fields.other(),
        })
    }
}

/// A `heartbeat`: nothing but a proof of life.
#[derive(Clone, Debug, PartialEq)]
pub struct Heartbeat {
    /// Members this version does not know.
    pub other: Map<String, Value>,
}

/// The members of a `rotate`, signed by the old and the new key.
#[derive(Clone, Debug, PartialEq)]
pub struct Rotate {
    /// The key that signs every later receipt.
    pub vkey: Option<Member<String>>,
    /// Members this version does not know.
    pub other: Map<String, Value>,
}

impl Rotate {
    pub(super) fn read(mut fields: Fields<'_>) -> Result<Self, BodyError> {
        Ok(Self { vkey: fields.optional("vkey")?, other: fields.other() })
    }
}

/// A `close`: the last receipt.
#[derive(Clone, Debug, PartialEq)]
pub struct Close {
    /// Members this version does not know.
    pub other: Map<String, Value>,
}
