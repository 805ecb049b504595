//! `decision`: what the gate decided, before anything ran (section 3.1).
//!
//! The shape only. That `bound_agent` needs `capability_signature` among the proven, that an allow
//! should be authenticated, that a deny executes nothing: those are findings of the verifier.

use super::member::{BodyError, Fields, FromMember, Member, Moment, Named, words};
use crate::id::ReceiptId;
use crate::ijson::Json;
use crate::jcs::Digest;
use serde_json::{Map, Value};

/// The members of a `decision`.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    /// Unique per issuer; joins decision, approval and outcome.
    pub request_id: Member<String>,
    /// What was decided (member `decision`).
    pub ruling: Member<Ruling>,
    /// Code of the rule that decided.
    pub rule: Option<Member<String>>,
    /// Prose for the operator.
    pub why: Option<Member<String>>,
    /// What the caller was told, where that is less than `rule`.
    pub caller_reason: Option<Member<String>>,
    /// The normalised tool or operation.
    pub operation: Option<Member<String>>,
    /// Its target.
    pub resource: Option<Member<String>>,
    /// For example `READ` or `IDENTITY_MUTATION`.
    pub action_class: Option<Member<String>>,
    /// The risk objects touched; may be keyed hashes.
    pub subjects: Option<Member<Vec<String>>>,
    /// The agent's session.
    pub session: Option<Member<String>>,
    /// SHA-256 over JCS of the arguments.
    pub args_digest: Option<Member<Digest>>,
    /// The arguments themselves; members inside may be committed.
    pub args: Option<Member<Value>>,
    /// Whether the request's own signature verified.
    pub authenticated: Member<bool>,
    /// What had been verified when the decision was made.
    pub proven: Option<Member<Vec<Proven>>>,
    /// Who the caller says it is.
    pub claimed_agent: Option<Member<String>>,
    /// Who the verified capability is bound to.
    pub bound_agent: Option<Member<String>>,
    /// The capability presented.
    pub capability: Option<Member<Capability>>,
    /// On whose behalf and to what end.
    pub grant: Option<Member<Grant>>,
    /// What the agent had read when it asked.
    pub facts: Option<Member<Vec<Fact>>>,
    /// The history of action classes the gate judged by.
    pub prior_action_classes: Option<Member<Vec<String>>>,
    /// Subject to the head of that subject's history the gate judged by.
    pub prior_heads: Option<Member<Named<ReceiptId>>>,
    /// The log's head that this history was read under.
    pub history: Option<Member<History>>,
    /// Who performs the action if it is allowed.
    pub executes: Member<Executes>,
    /// The approval this decision rests on.
    pub approval: Option<Member<Approved>>,
    /// Members this version does not know.
    pub other: Map<String, Value>,
}

impl Decision {
    pub(super) fn read(mut fields: Fields<'_>) -> Result<Self, BodyError> {
        Ok(Self {
            request_id: fields.required("request_id")?,
            ruling: fields.required("decision")?,
            rule: fields.optional("rule")?,
            why: fields.optional("why")?,
            caller_reason: fields.optional("caller_reason")?,
            operation: fields.optional("operation")?,
            resource: fields.optional("resource")?,
            action_class: fields.optional("action_class")?,
            subjects: fields.optional("subjects")?,
            session: fields.optional("session")?,
            args_digest: fields.optional("args_digest")?,
            args: fields.optional("args")?,
            authenticated: fields.required("authenticated")?,
            proven: fields.optional("proven")?,
            claimed_agent: fields.optional("claimed_agent")?,
            bound_agent: fields.optional("bound_agent")?,
            capability: fields.optional("capability")?,
            grant: fields.optional("grant")?,
            facts: fields.optional("facts")?,
            prior_action_classes: fields.optional("prior_action_classes")?,
            prior_heads: fields.optional("prior_heads")?,
            history: fields.optional("history")?,
            executes: fields.required("executes")?,
            approval: fields.optional("approval")?,
            other: fields.other(),
        })
    }
}

words! {
    /// The two answers of a gate.
    pub enum Ruling, "\"allow\" or \"deny\"" {
        /// The action may happen.
        Allow = "allow",
        /// The action may not happen.
        Deny = "deny",
    }
}

words! {
    /// Who performs an allowed action.
    pub enum Executes, "\"gate\", \"caller\" or \"none\"" {
        /// The gate itself.
        Gate = "gate",
        /// The caller, beyond the gate's sight.
        Caller = "caller",
        /// Nobody: there is nothing to perform.
        None = "none",
    }
}

words! {
    /// Which calls `calls_used` counts.
    pub enum CallCounting, "\"dispatched\" or \"executed\"" {
        /// Every call sent, failed ones too.
        Dispatched = "dispatched",
        /// Only calls that were carried out.
        Executed = "executed",
    }
}

words! {
    /// Whether a text came from somewhere the operator answers for.
    pub enum Trust, "\"trusted\" or \"untrusted\"" {
        /// It did.
        Trusted = "trusted",
        /// It did not.
        Untrusted = "untrusted",
    }
}

/// One thing that had been verified when the decision was made.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Proven {
    /// The capability's own signature, and with it who it is bound to.
    CapabilitySignature,
    /// The request's signature.
    RequestSignature,
    /// That the nonce had not been seen before.
    NonceFresh,
    /// That the parameters are those the capability names.
    ParamsMatch,
    /// That the capability had not expired.
    NotExpired,
    /// That the capability's call budget was not spent.
    WithinBudget,
    /// Something this version does not know, which therefore proves nothing to it.
    Other(String),
}

impl FromMember for Proven {
    const EXPECTED: &'static str = "a string that names what was proven";

    fn from_member(value: Json<'_>) -> Result<Self, BodyError> {
        Ok(match value.as_str().ok_or_else(Self::wrong_type)? {
            "capability_signature" => Self::CapabilitySignature,
            "request_signature" => Self::RequestSignature,
            "nonce_fresh" => Self::NonceFresh,
            "params_match" => Self::ParamsMatch,
            "not_expired" => Self::NotExpired,
            "within_budget" => Self::WithinBudget,
            other => Self::Other(other.to_owned()),
        })
    }
}

/// `capability`: what the caller presented.
#[derive(Clone, Debug, PartialEq)]
pub struct Capability {
    /// Its id.
    pub id: Option<Member<String>>,
    /// Most calls it is good for.
    pub max_calls: Option<Member<u64>>,
    /// Calls used so far.
    pub calls_used: Option<Member<u64>>,
    /// Which calls `calls_used` counts.
    pub counts: Option<Member<CallCounting>>,
    /// When it ends.
    pub expires_at: Option<Member<Moment>>,
    /// Members this version does not know.
    pub other: Map<String, Value>,
}

impl FromMember for Capability {
    const EXPECTED: &'static str = "an object";

    fn from_member(value: Json<'_>) -> Result<Self, BodyError> {
        let mut fields = Fields::of_member::<Self>(value)?;
        Ok(Self {
            id: fields.optional("id")?,
            max_calls: fields.optional("max_calls")?,
            calls_used: fields.optional("calls_used")?,
            counts: fields.optional("counts")?,
            expires_at: fields.optional("expires_at")?,
            other: fields.other(),
        })
    }
}

/// `grant`: on whose behalf and to what end.
#[derive(Clone, Debug, PartialEq)]
pub struct Grant {
    /// The person or system that granted.
    pub principal: Option<Member<String>>,
    /// To what end.
    pub purpose: Option<Member<String>>,
    /// How the principal was verified.
    pub verified_via: Option<Member<String>>,
    /// The task it was granted for.
    pub task: Option<Member<String>>,
    /// Members this version does not know.
    pub other: Map<String, Value>,
}

impl FromMember for Grant {
    const EXPECTED: &'static str = "an object";

    fn from_member(value: Json<'_>) -> Result<Self, BodyError> {
        let mut fields = Fields::of_member::<Self>(value)?;
        Ok(Self {
            principal: fields.optional("principal")?,
            purpose: fields.optional("purpose")?,
            verified_via: fields.optional("verified_via")?,
            task: fields.optional("task")?,
            other: fields.other(),
        })
    }
}

/// `history`: the log's head that the gate read prior action classes and heads under.
#[derive(Clone, Debug, PartialEq)]
pub struct History {
    /// How many entries the log had.
    pub size: Option<Member<u64>>,
    /// The root over them, in base64.
    pub root: Option<Member<String>>,
    /// Whether a quorum of witnesses had vouched for that head, and lately enough.
    pub witnessed: Option<Member<bool>>,
    /// Why not.
    pub why: Option<Member<String>>,
    /// Members this version does not know.
    pub other: Map<String, Value>,
}

impl FromMember for History {
    const EXPECTED: &'static str = "an object";

    fn from_member(value: Json<'_>) -> Result<Self, BodyError> {
        let mut fields = Fields::of_member::<Self>(value)?;
        Ok(Self {
            size: fields.optional("size")?,
            root: fields.optional("root")?,
            witnessed: fields.optional("witnessed")?,
            why: fields.optional("why")?,
            other: fields.other(),
        })
    }
}

/// One of `facts`: something the agent had read when it asked.
#[derive(Clone, Debug, PartialEq)]
pub struct Fact {
    /// Where it came from.
    pub source: Option<Member<String>>,
    /// Whether the operator answers for that source.
    pub trust: Option<Member<Trust>>,
    /// What it said, in short.
    pub summary: Option<Member<String>>,
    /// Or the digest of what it said.
    pub digest: Option<Member<Digest>>,
    /// Members this version does not know.
    pub other: Map<String, Value>,
}

impl FromMember for Fact {
    const EXPECTED: &'static str = "an object";

    fn from_member(value: Json<'_>) -> Result<Self, BodyError> {
        let mut fields = Fields::of_member::<Self>(value)?;
        Ok(Self {
            source: fields.optional("source")?,
            trust: fields.optional("trust")?,
            summary: fields.optional("summary")?,
            digest: fields.optional("digest")?,
            other: fields.other(),
        })
    }
}

/// `approval` inside a decision: the approval it rests on.
#[derive(Clone, Debug, PartialEq)]
pub struct Approved {
    /// The action digest that was approved.
    pub digest: Option<Member<Digest>>,
    /// Who approved.
    pub by: Option<Member<String>>,
    /// When.
    pub at: Option<Member<Moment>>,
    /// Members this version does not know.
    pub other: Map<String, Value>,
}

impl FromMember for Approved {
    const EXPECTED: &'static str = "an object";

    fn from_member(value: Json<'_>) -> Result<Self, BodyError> {
        let mut fields = Fields::of_member::<Self>(value)?;
        Ok(Self {
            digest: fields.optional("digest")?,
            by: fields.optional("by")?,
            at: fields.optional("at")?,
            other: fields.other(),
        })
    }
}
