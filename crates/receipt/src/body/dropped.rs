//! `dropped`: what a gate let through without receipts (section 3).

use super::member::{BodyError, Fields, Member, Moment, words};
use serde_json::{Map, Value};

/// The members of a `dropped`.
#[derive(Clone, Debug, PartialEq)]
pub struct Dropped {
    /// How many actions.
    pub count: Member<u64>,
    /// When the first of them was let through.
    pub since: Option<Member<Moment>>,
    /// When the last of them was.
    pub until: Option<Member<Moment>>,
    /// What kept the receipts from being written.
    pub why: Option<Member<DroppedWhy>>,
    /// Members this version does not know.
    pub other: Map<String, Value>,
}

impl Dropped {
    pub(super) fn read(mut fields: Fields<'_>) -> Result<Self, BodyError> {
        Ok(Self {
            count: fields.required("count")?,
            since: fields.optional("since")?,
            until: fields.optional("until")?,
            why: fields.optional("why")?,
            other: fields.other(),
        })
    }
}

words! {
    /// What keeps a receipt from being written.
    pub enum DroppedWhy, "\"full\" or \"disk\"" {
        /// The outbox held as many receipts that wait for the log as it may.
        Full = "full",
        /// The disk refused.
        Disk = "disk",
    }
}
