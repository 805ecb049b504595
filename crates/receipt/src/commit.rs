//! Committed members (section 3.6): a value that the log can vouch for without holding it.
//!
//! ```text
//! in the receipt   "operation": {"#": "sha256:<hex>"}
//! kept by the gate {"salt":"<22 base64url characters>","name":"operation","value":"mail.send"}
//! the digest       SHA-256 over JCS of ["<salt>", "operation", "mail.send"]
//! ```
//!
//! Without the salt the value cannot be guessed from the digest; once the salt is destroyed nobody can
//! show what it was. The salt is an argument: nothing here makes randomness.

use crate::ijson::{self, Json, JsonError};
use crate::jcs::Digest;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Map, Value, json};
use std::fmt;

/// The member name that marks a committed value.
const MARK: &str = "#";

/// Replaces the value of member `name` by a commitment.
///
/// Returns what goes into the receipt and the disclosure that the gate keeps. `salt` must be fresh
/// from the operating system's randomness for each member: a salt used twice lets values be compared.
pub fn commit(name: &str, value: &Value, salt: [u8; 16]) -> (Value, Disclosure) {
    let disclosure = Disclosure { salt, name: name.to_owned(), value: value.clone() };
    (json!({ MARK: disclosure.digest() }), disclosure)
}

/// The digest in `value`, if `value` is a commitment: an object whose one member is `"#"`, holding a digest.
pub fn committed_digest(value: &Value) -> Option<Digest> {
    let members = value.as_object()?;
    match (members.len(), members.get(MARK)) {
        (1, Some(Value::String(text))) => Digest::parse(text),
        _ => None,
    }
}

/// As [`committed_digest`], of a value where it lies.
pub(crate) fn digest_committed_to(value: &Json<'_>) -> Option<Digest> {
    match value {
        Json::Object(members) if members.len() == 1 => Digest::parse(members.get(MARK)?.as_str()?),
        _ => None,
    }
}

/// What opens one commitment. Whoever holds it knows the value.
///
/// Displays as one line of JSON, which [`Disclosure::parse`] reads.
#[derive(Clone, PartialEq, Eq)]
pub struct Disclosure {
    salt: [u8; 16],
    name: String,
    value: Value,
}

/// Why a text is no disclosure.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DisclosureError {
    /// Not I-JSON, or no object.
    #[error("a disclosure is one JSON object: {0}")]
    Json(#[from] JsonError),
    /// Not exactly the three members.
    #[error("a disclosure has exactly the members \"salt\", \"name\" (a string) and \"value\"")]
    Members,
    /// The salt is not 16 bytes in base64url.
    #[error("the salt is 16 bytes in base64url without padding: 22 characters")]
    Salt,
}

impl DisclosureError {
    /// The error in one word that stays the same from version to version, for programs; `vectors/` has it for
    /// each input.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Json(error) => error.code(),
            Self::Members => "disclosure-members",
            Self::Salt => "disclosure-salt",
        }
    }
}

impl Disclosure {
    /// Reads one kept line.
    ///
    /// # Errors
    /// [`DisclosureError`]: no disclosure.
    pub fn parse(line: &str) -> Result<Self, DisclosureError> {
        let mut members = ijson::parse_object(line)?;
        match (members.len(), members.remove("salt"), members.remove("name"), members.remove("value")) {
            (3, Some(Value::String(salt)), Some(Value::String(name)), Some(value)) => {
                let salt = URL_SAFE_NO_PAD.decode(salt).ok().and_then(|bytes| bytes.try_into().ok());
                Ok(Self { salt: salt.ok_or(DisclosureError::Salt)?, name, value })
            }
            _ => Err(DisclosureError::Members),
        }
    }

    /// The name of the member whose value is committed.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The value that the receipt does not show.
    pub fn value(&self) -> &Value {
        &self.value
    }

    /// The digest that stands in the receipt.
    pub fn digest(&self) -> Digest {
        Digest::of_json(&json!([self.salt_text(), self.name, self.value]))
    }

    /// Whether this opens the commitment `committed`, a member's value as it stands in a receipt. That
    /// the member bears [`Disclosure::name`] is the caller's to check.
    ///
    /// Never for a value that JCS cannot tell from its neighbours (numbers beyond ±(2^53−1)).
    pub fn opens(&self, committed: &Value) -> bool {
        ijson::check_value(&self.value).is_ok() && committed_digest(committed) == Some(self.digest())
    }

    /// Whether this opens the member of its name in `members`.
    pub fn opens_in(&self, members: &Map<String, Value>) -> bool {
        members.get(&self.name).is_some_and(|committed| self.opens(committed))
    }

    fn salt_text(&self) -> String {
        URL_SAFE_NO_PAD.encode(self.salt)
    }
}

impl fmt::Display for Disclosure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let line = json!({"salt": self.salt_text(), "name": self.name, "value": self.value});
        write!(formatter, "{line}")
    }
}

impl fmt::Debug for Disclosure {
    /// Without salt and value: a disclosure in a log file would undo the commitment.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Disclosure(of {:?})", self.name)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;
    use proptest::prelude::*;

    const SALT: [u8; 16] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 255];

    #[test]
    fn a_commitment_is_a_known_answer() {
        let (committed, disclosure) = commit("operation", &json!("mail.send"), SALT);
        let written = r#"["AAECAwQFBgcICQoLDA0O_w","operation","mail.send"]"#;
        assert_eq!(committed, json!({"#": Digest::of_bytes(written.as_bytes()).to_string()}));
        assert_eq!(committed["#"], "sha256:ad64c99f3483d9b598a218d2d36db9019dffa32e4921b4dff9362bd92bea2b96");
        assert_eq!(
            disclosure.to_string(),
            r#"{"salt":"AAECAwQFBgcICQoLDA0O_w","name":"operation","value":"mail.send"}"#
        );
    }

    #[test]
    fn a_disclosure_opens_its_own_commitment_and_no_other() {
        let (committed, disclosure) = commit("args", &json!({"to": "a@b.test", "n": 1}), SALT);
        assert!(disclosure.opens(&committed));
        assert!(disclosure.opens_in(json!({"args": committed}).as_object().unwrap()));
        assert!(!disclosure.opens_in(json!({"argv": committed}).as_object().unwrap()));
        let others = [
            commit("args", &json!({"to": "a@b.test", "n": 2}), SALT),
            commit("argv", &json!({"to": "a@b.test", "n": 1}), SALT),
            commit("args", &json!({"to": "a@b.test", "n": 1}), [7; 16]),
        ];
        for (other, _) in others {
            assert!(!disclosure.opens(&other));
        }
        for clear in [json!({"to": "a@b.test", "n": 1}), json!(null), json!({"#": 1}), json!(committed["#"])] {
            assert!(!disclosure.opens(&clear));
        }
        let mut more = committed;
        more["and"] = json!(1);
        assert!(!disclosure.opens(&more), "a commitment has one member");
    }

    #[test]
    fn members_of_a_disclosed_value_may_stand_in_any_order() {
        let (committed, _) = commit("args", &json!({"a": 1, "b": 2}), SALT);
        let kept = r#" {"value": {"b":2.0, "a":1}, "name":"args", "salt":"AAECAwQFBgcICQoLDA0O_w"}"#;
        assert!(Disclosure::parse(kept).unwrap().opens(&committed));
    }

    #[test]
    fn numbers_that_jcs_confuses_open_nothing() {
        let (committed, disclosure) = commit("n", &json!((1_u64 << 53) + 1), SALT);
        assert!(!disclosure.opens(&committed));
    }

    #[test]
    fn what_is_no_disclosure_is_refused() {
        for line in [
            r#"{"salt":"AAECAwQFBgcICQoLDA0O_w","name":"a"}"#,
            r#"{"salt":"AAECAwQFBgcICQoLDA0O_w","name":"a","value":1,"more":1}"#,
            r#"{"salt":"AAECAwQFBgcICQoLDA0O_w","name":1,"value":1}"#,
        ] {
            assert_eq!(Disclosure::parse(line), Err(DisclosureError::Members), "{line}");
        }
        for salt in [
            "",
            "AAECAwQFBgcICQoLDA0O",
            "AAECAwQFBgcICQoLDA0O_w==",
            "AAECAwQFBgcICQoLDA0O_x",
            "AAECAwQFBgcICQoLDA0O/w",
            "AAECAwQFBgcICQoLDA0O_wAA",
        ] {
            let line = json!({"salt": salt, "name": "a", "value": 1}).to_string();
            assert_eq!(Disclosure::parse(&line), Err(DisclosureError::Salt), "{line}");
        }
        assert!(matches!(Disclosure::parse("[]"), Err(DisclosureError::Json(_))));
        assert!(matches!(
            Disclosure::parse(r#"{"name":"a","name":"b","salt":"","value":1}"#),
            Err(DisclosureError::Json(_))
        ));
    }

    #[test]
    fn debugging_a_disclosure_shows_neither_salt_nor_value() {
        let (_, disclosure) = commit("args", &json!("hunter2"), SALT);
        assert_eq!(format!("{disclosure:?}"), "Disclosure(of \"args\")");
    }

    proptest! {
        #[test]
        fn a_kept_line_opens_what_it_was_made_for(salt in any::<[u8; 16]>(), name in "[^\u{fdd0}-\u{fdef}\u{fffe}\u{ffff}]{0,12}", value in "\\PC{0,30}") {
            let value = json!(value);
            prop_assume!(ijson::check_value(&json!([name, value])).is_ok());
            let (committed, disclosure) = commit(&name, &value, salt);
            let kept = Disclosure::parse(&disclosure.to_string()).unwrap();
            prop_assert_eq!(&kept, &disclosure);
            prop_assert!(kept.opens(&committed));
        }
    }
}
