//! `foreign`: another system's receipt, carried whole (section 3.7).
//!
//! Nothing here knows any format: the verifier re-checks each carried receipt by its own format's rules.

use super::member::{BodyError, Fields, FromMember, Member};
use crate::ijson::Json;
use serde_json::{Map, Value};

/// The members of a `foreign`. One of `receipt` and `receipt_b64` should be there.
#[derive(Clone, Debug, PartialEq)]
pub struct Foreign {
    /// Whose receipt it is: `capbroker`, `obsigna` and so on.
    pub format: Option<Member<String>>,
    /// The receipt, where its bytes do not matter.
    pub receipt: Option<Member<Value>>,
    /// The receipt's exact bytes (in the body: base64).
    pub receipt_b64: Option<Member<ExactBytes>>,
    /// Members this version does not know.
    pub other: Map<String, Value>,
}

impl Foreign {
    pub(super) fn read(mut fields: Fields<'_>) -> Result<Self, BodyError> {
        Ok(Self {
            format: fields.optional("format")?,
            receipt: fields.optional("receipt")?,
            receipt_b64: fields.optional("receipt_b64")?,
            other: fields.other(),
        })
    }
}

/// Bytes that stand in a body as strict base64.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExactBytes(pub Vec<u8>);

impl FromMember for ExactBytes {
    const EXPECTED: &'static str = "bytes in standard, padded, canonical base64";

    fn from_member(value: Json<'_>) -> Result<Self, BodyError> {
        value.as_str().and_then(merkle::decode_base64).map(Self).ok_or_else(Self::wrong_type)
    }
}
