//! `memory`: what the agent keeps (section 3.5).

use super::decision::Trust;
use super::member::{BodyError, Fields, Member, words};
use crate::jcs::Digest;
use serde_json::{Map, Value};

/// The members of a `memory`.
#[derive(Clone, Debug, PartialEq)]
pub struct Memory {
    /// Digest of the note.
    pub note_digest: Option<Member<Digest>>,
    /// Where the text came from.
    pub source: Option<Member<String>>,
    /// Whether the operator answers for that source.
    pub trust: Option<Member<Trust>>,
    /// In whose voice it is kept.
    pub form: Option<Member<MemoryForm>>,
    /// What it is about: `ownership`, `permission` and the like.
    pub about: Option<Member<Vec<String>>>,
    /// Members this version does not know.
    pub other: Map<String, Value>,
}

impl Memory {
    pub(super) fn read(mut fields: Fields<'_>) -> Result<Self, BodyError> {
        Ok(Self {
            note_digest: fields.optional("note_digest")?,
            source: fields.optional("source")?,
            trust: fields.optional("trust")?,
            form: fields.optional("form")?,
            about: fields.optional("about")?,
            other: fields.other(),
        })
    }
}

words! {
    /// In whose voice a note is kept.
    pub enum MemoryForm, "\"quoted\" or \"asserted\"" {
        /// As something somebody else said.
        Quoted = "quoted",
        /// As something the agent itself holds.
        Asserted = "asserted",
    }
}
