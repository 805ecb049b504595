//! The action digest (section 3.3): one name for one concrete action.
//!
//! What was approved, what was decided and what was executed carry the same digest, or something
//! changed in between.

use crate::jcs::Digest;
use serde::Serialize;
use serde_json::Value;
use std::fmt;

/// One concrete action, as it is about to be approved, decided or dispatched.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Action<'a> {
    /// The normalised tool or operation.
    pub operation: &'a str,
    /// Its target.
    pub resource: &'a str,
    /// Its arguments, all of them and in the clear.
    pub args: &'a Value,
    /// The capability it is done under, if there is one.
    pub capability_id: Option<&'a str>,
    /// What makes this action unlike the same action done again; a request id serves.
    pub nonce: &'a str,
}

/// SHA-256 over JCS of `{"operation","resource","args","capability_id","nonce"}`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ActionDigest(pub Digest);

impl ActionDigest {
    /// The digest of `action`. All five members are always there, so that none can be mistaken for
    /// another; without a capability `capability_id` is `null`.
    pub fn of(action: &Action<'_>) -> Self {
        // Written straight from the parts: arguments may be long, and a copy of them costs more than the hash.
        let canonical = serde_json_canonicalizer::to_vec(action)
            .expect("members with names, strings and a Value, which has string keys and finite numbers only");
        Self(Digest::of_bytes(&canonical))
    }
}

impl fmt::Display for ActionDigest {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

impl PartialEq<Digest> for ActionDigest {
    fn eq(&self, other: &Digest) -> bool {
        self.0 == *other
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;
    use serde_json::json;

    #[test]
    fn an_action_digest_is_taken_over_the_five_sorted_members() {
        let args = json!({"to": "a@b.test", "body": "é"});
        let action = Action {
            operation: "mail.send",
            resource: "outbox",
            args: &args,
            capability_id: Some("cap_1"),
            nonce: "r-1",
        };
        let written = r#"{"args":{"body":"é","to":"a@b.test"},"capability_id":"cap_1","nonce":"r-1","operation":"mail.send","resource":"outbox"}"#;
        assert_eq!(ActionDigest::of(&action), Digest::of_bytes(written.as_bytes()));
        assert_eq!(
            ActionDigest::of(&action).to_string(),
            "sha256:20abfd18c8bc16741b782df3d1e9fc5179f93581e4ac26def735cf90adf0115b"
        );
    }

    #[test]
    fn any_change_of_an_action_changes_its_digest() {
        let (args, other_args) = (json!({"n": 1}), json!({"n": "1"}));
        let action = Action { operation: "a", resource: "b", args: &args, capability_id: Some("c"), nonce: "d" };
        let digest = ActionDigest::of(&action);
        let changed = [
            Action { operation: "x", ..action },
            Action { resource: "x", ..action },
            Action { args: &other_args, ..action },
            Action { capability_id: None, ..action },
            Action { capability_id: Some(""), ..action },
            Action { nonce: "x", ..action },
            Action { operation: "b", resource: "a", ..action },
        ];
        for other in changed {
            assert_ne!(ActionDigest::of(&other), digest, "{other:?}");
        }
    }
}
