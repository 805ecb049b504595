//! Bodies: what a receipt says, by type (section 3).
//!
//! One struct a type, one member a field. A member is in the clear or committed ([`Member`]); members
//! that section 3 does not name are kept in `other`; types it does not name are kept whole. A member of
//! the wrong type makes the receipt malformed, because two readers would make two things of it.
//!
//! Required is what section 3 calls required, no more: everything else may be absent, and whether its
//! absence means anything is for the verifier to say. So is whether members agree with each other.

mod approval;
mod decision;
mod dropped;
mod foreign;
mod life;
mod member;
mod memory;
mod outcome;

pub use approval::{Approval, ApprovalVerdict};
pub use decision::{
    Approved, CallCounting, Capability, Decision, Executes, Fact, Grant, History, Proven, Ruling, Trust,
};
pub use dropped::{Dropped, DroppedWhy};
pub use foreign::{ExactBytes, Foreign};
pub use life::{Close, Heartbeat, Open, Rotate};
pub use member::{BodyError, Member, Moment, Named, Shown};
pub use memory::{Memory, MemoryForm};
pub use outcome::{ExecutedBy, Outcome};

use crate::ijson::{Json, Members};
use crate::path::MemberPath;
use serde_json::{Map, Value};

/// What a receipt says.
#[derive(Clone, Debug, PartialEq)]
pub enum Body {
    /// What the gate decided, before anything ran.
    Decision(Box<Decision>),
    /// What happened, after it happened or failed.
    Outcome(Box<Outcome>),
    /// A person said yes or no.
    Approval(Box<Approval>),
    /// The issuer's first receipt.
    Open(Open),
    /// Proof of life.
    Heartbeat(Heartbeat),
    /// The issuer's next key.
    Rotate(Rotate),
    /// The issuer's last receipt.
    Close(Close),
    /// What the agent keeps.
    Memory(Box<Memory>),
    /// What a gate let through without receipts.
    Dropped(Dropped),
    /// Another system's receipt.
    Foreign(Foreign),
    /// A type that this version does not know: logged, counted, never refused.
    Unknown {
        /// Its `type`.
        type_name: String,
        /// Its other members.
        other: Map<String, Value>,
    },
}

impl Body {
    /// Takes the members of a body.
    ///
    /// # Errors
    /// [`BodyError`]: `type` is missing or no string (it may not be committed: it says how to read the
    /// rest), a required member is missing, or a member has the wrong type.
    pub fn from_members(mut members: Members<'_>) -> Result<Self, BodyError> {
        const TYPE: &str = "type";
        let expected = "a string that names the type of the body";
        let type_name = match members.take(TYPE) {
            None => return Err(BodyError::Missing { path: MemberPath::member(TYPE), expected }),
            Some(Json::String(type_name)) => type_name,
            Some(_) => return Err(BodyError::WrongType { path: MemberPath::member(TYPE), expected }),
        };
        let fields = member::Fields::of(members);
        Ok(match &*type_name {
            "decision" => Self::Decision(Box::new(Decision::read(fields)?)),
            "outcome" => Self::Outcome(Box::new(Outcome::read(fields)?)),
            "approval" => Self::Approval(Box::new(Approval::read(fields)?)),
            "open" => Self::Open(Open::read(fields)?),
            "heartbeat" => Self::Heartbeat(Heartbeat { other: fields.other() }),
            "rotate" => Self::Rotate(Rotate::read(fields)?),
            "close" => Self::Close(Close { other: fields.other() }),
            "memory" => Self::Memory(Box::new(Memory::read(fields)?)),
            "dropped" => Self::Dropped(Dropped::read(fields)?),
            "foreign" => Self::Foreign(Foreign::read(fields)?),
            _ => Self::Unknown { type_name: type_name.into_owned(), other: fields.other() },
        })
    }

    /// The body's `type`.
    pub fn type_name(&self) -> &str {
        match self {
            Self::Decision(_) => "decision",
            Self::Outcome(_) => "outcome",
            Self::Approval(_) => "approval",
            Self::Open(_) => "open",
            Self::Heartbeat(_) => "heartbeat",
            Self::Rotate(_) => "rotate",
            Self::Close(_) => "close",
            Self::Memory(_) => "memory",
            Self::Dropped(_) => "dropped",
            Self::Foreign(_) => "foreign",
            Self::Unknown { type_name, .. } => type_name,
        }
    }

    /// The members that section 3 does not name for this type.
    pub fn other(&self) -> &Map<String, Value> {
        match self {
            Self::Decision(body) => &body.other,
            Self::Outcome(body) => &body.other,
            Self::Approval(body) => &body.other,
            Self::Open(body) => &body.other,
            Self::Heartbeat(body) => &body.other,
            Self::Rotate(body) => &body.other,
            Self::Close(body) => &body.other,
            Self::Memory(body) => &body.other,
            Self::Dropped(body) => &body.other,
            Self::Foreign(body) => &body.other,
            Self::Unknown { other, .. } => other,
        }
    }
}

#[cfg(test)]
mod tests;
