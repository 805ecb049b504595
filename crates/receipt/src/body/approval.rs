//! `approval`: a person said yes or no (section 3.3).

use super::member::{BodyError, Fields, Member, words};
use crate::id::ReceiptId;
use crate::jcs::Digest;
use serde_json::{Map, Value};

/// The members of an `approval`.
#[derive(Clone, Debug, PartialEq)]
pub struct Approval {
    /// The request it is about.
    pub request_id: Option<Member<String>>,
    /// The decision it is about.
    pub decision: Option<Member<ReceiptId>>,
    /// What the person said.
    pub verdict: Option<Member<ApprovalVerdict>>,
    /// Who.
    pub by: Option<Member<String>>,
    /// The action digest of what the person was shown ([`crate::action`]).
    pub digest: Option<Member<Digest>>,
    /// Members this version does not know.
    pub other: Map<String, Value>,
}

impl Approval {
    pub(super) fn read(mut fields: Fields<'_>) -> Result<Self, BodyError> {
        Ok(Self {
            request_id: fields.optional("request_id")?,
            decision: fields.optional("decision")?,
            verdict: fields.optional("verdict")?,
            by: fields.optional("by")?,
            digest: fields.optional("digest")?,
            other: fields.other(),
        })
    }
}

words! {
    /// The two answers of a person.
    pub enum ApprovalVerdict, "\"approved\" or \"declined\"" {
        /// Yes.
        Approved = "approved",
        /// No.
        Declined = "declined",
    }
}
