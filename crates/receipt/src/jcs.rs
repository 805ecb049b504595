//! Digests of JSON values: `sha256:` and 64 lowercase hex digits, taken over RFC 8785 (JCS).
//!
//! Receipts themselves are signed and hashed as bytes and never canonicalised. JCS serves only where
//! two JSON values must be compared without carrying them: `args_digest`, action digests, commitments.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use std::fmt;
use std::str::FromStr;

const PREFIX: &str = "sha256:";

/// The RFC 8785 text of `value`.
///
/// JCS knows numbers as doubles, so it writes 2^53 and 2^53 + 1 alike. Values that came through
/// [`crate::ijson`] hold no such numbers; pass any other value through [`crate::ijson::check_value`]
/// first.
pub fn canonical(value: &Value) -> String {
    serde_json_canonicalizer::to_string(value).expect("a Value has string keys and finite numbers only")
}

/// A SHA-256 digest as bodies carry it: `sha256:` and 64 lowercase hex digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest(pub [u8; 32]);

impl Digest {
    /// SHA-256 over the RFC 8785 text of `value` (on its numbers, see [`canonical`]).
    pub fn of_json(value: &Value) -> Self {
        Self::of_bytes(canonical(value).as_bytes())
    }

    /// SHA-256 over `bytes` as they are.
    pub fn of_bytes(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// Parses exactly what `Display` writes.
    pub fn parse(text: &str) -> Option<Self> {
        let digits = text.strip_prefix(PREFIX)?;
        if digits.bytes().any(|digit| digit.is_ascii_uppercase()) {
            return None;
        }
        let mut bytes = [0; 32];
        hex::decode_to_slice(digits, &mut bytes).ok()?;
        Some(Self(bytes))
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{PREFIX}{}", hex::encode(self.0))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Digest({self})")
    }
}

/// The text is no `sha256:` digest with 64 lowercase hex digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected \"sha256:\" and 64 lowercase hex digits")]
pub struct NotADigest;

impl FromStr for Digest {
    type Err = NotADigest;

    fn from_str(text: &str) -> Result<Self, NotADigest> {
        Self::parse(text).ok_or(NotADigest)
    }
}

impl Serialize for Digest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Digest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;
    use serde_json::json;

    #[test]
    fn canonical_text_is_that_of_rfc_8785() {
        // The example of RFC 8785, sections 3.2.2 to 3.2.3.
        let value: Value = serde_json::from_str(
            r#"{"numbers":[333333333.33333329,1E30,4.50,2e-3,0.000000000000000000000000001],"string":"\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/","literals":[null,true,false]}"#,
        )
        .unwrap();
        assert_eq!(
            canonical(&value),
            r#"{"literals":[null,true,false],"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27],"string":"€$\u000f\nA'B\"\\\\\"/"}"#
        );
    }

    #[test]
    fn canonical_members_are_sorted_by_utf_16_units() {
        // RFC 8785, section 3.2.3: U+1F600 (a surrogate pair, D83D) sorts before U+FB33.
        let value = json!({"\u{20ac}": 1, "\r": 2, "\u{fb33}": 3, "1": 4, "\u{1f600}": 5, "\u{80}": 6, "\u{f6}": 7});
        assert_eq!(
            canonical(&value),
            "{\"\\r\":2,\"1\":4,\"\u{80}\":6,\"\u{f6}\":7,\"\u{20ac}\":1,\"\u{1f600}\":5,\"\u{fb33}\":3}"
        );
    }

    #[test]
    fn one_number_has_one_canonical_text() {
        for (written, canonical_text) in
            [("1.0", "1"), ("-0", "0"), ("1e2", "100"), ("1E-7", "1e-7"), ("9007199254740991", "9007199254740991")]
        {
            let value: Value = serde_json::from_str(written).unwrap();
            assert_eq!(canonical(&value), canonical_text);
        }
    }

    #[test]
    fn the_digest_of_the_empty_object_is_a_known_answer() {
        let digest = Digest::of_json(&json!({}));
        assert_eq!(digest.to_string(), "sha256:44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a");
        assert_eq!(digest, Digest::of_bytes(b"{}"));
    }

    #[test]
    fn a_digest_parses_only_as_it_prints() {
        let digits = "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a";
        let text = format!("sha256:{digits}");
        assert_eq!(Digest::parse(&text).unwrap().to_string(), text);
        for other in [
            digits.to_owned(),
            format!("sha256:{}", digits.to_uppercase()),
            format!("SHA256:{digits}"),
            format!("sha256:{digits} "),
            format!("sha256:{digits}00"),
            format!("sha512:{digits}"),
            "sha256:".to_owned(),
            String::new(),
        ] {
            assert_eq!(Digest::parse(&other), None, "{other}");
        }
    }

    #[test]
    fn a_digest_is_a_string_in_json() {
        let digest = Digest::of_bytes(b"");
        let json = serde_json::to_value(digest).unwrap();
        assert_eq!(json, json!("sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"));
        assert_eq!(serde_json::from_value::<Digest>(json).unwrap(), digest);
        assert!(serde_json::from_value::<Digest>(json!("sha256:00")).is_err());
    }
}
