//! `outcome`: what happened, after it happened or failed (section 3.2).

use super::member::{BodyError, Fields, Member, Moment, words};
use crate::id::ReceiptId;
use crate::jcs::Digest;
use serde_json::{Map, Value};

/// The members of an `outcome`.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// The request this is the end of.
    pub request_id: Option<Member<String>>,
    /// The decision it follows.
    pub decision: Option<Member<ReceiptId>>,
    /// Whether the action took place.
    pub executed: Member<bool>,
    /// The gate does not know whether it took place: it stopped, or was stopped, before it could tell.
    pub unknown: Option<Member<bool>>,
    /// Who performed it.
    pub executed_by: Option<Member<ExecutedBy>>,
    /// The action digest, recomputed from what was really dispatched.
    pub executed_digest: Option<Member<Digest>>,
    /// The bound agent, else the claimed one, then with `authenticated: false`.
    pub agent: Option<Member<String>>,
    /// Whether `agent` is more than a claim.
    pub authenticated: Option<Member<bool>>,
    /// What went wrong.
    pub error: Option<Member<String>>,
    /// Digest of the result.
    pub result_digest: Option<Member<Digest>>,
    /// When it began.
    pub started_at: Option<Member<Moment>>,
    /// When it ended.
    pub ended_at: Option<Member<Moment>>,
    /// Members this version does not know.
    pub other: Map<String, Value>,
}

impl Outcome {
    pub(super) fn read(mut fields: Fields<'_>) -> Result<Self, BodyError> {
        Ok(Self {
            request_id: fields.optional("request_id")?,
            decision: fields.optional("decision")?,
            executed: fields.required("executed")?,
            unknown: fields.optional("unknown")?,
            executed_by: fields.optional("executed_by")?,
            executed_digest: fields.optional("executed_digest")?,
            agent: fields.optional("agent")?,
            authenticated: fields.optional("authenticated")?,
            error: fields.optional("error")?,
            result_digest: fields.optional("result_digest")?,
            started_at: fields.optional("started_at")?,
            ended_at: fields.optional("ended_at")?,
            other: fields.other(),
        })
    }
}

words! {
    /// Who performed an action.
    pub enum ExecutedBy, "\"gate\" or \"caller\"" {
        /// The gate itself.
        Gate = "gate",
        /// The caller, by its own word.
        Caller = "caller",
    }
}
