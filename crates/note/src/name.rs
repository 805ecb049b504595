//! Key names: who signed, as a signature line and a vkey spell it.
//!
//! Holds the one rule for them (signed-note, Format) and the length limit that `receipt` and ML-DSA
//! cosignatures share. Does not hold what a name means: it need not resolve to anything.

use std::fmt;
use std::str::FromStr;

/// Longest key name in bytes. ML-DSA-44 cosigned messages carry the cosigner's name and the origin as
/// `opaque<1..2^8-1>` (tlog-cosignature), so a longer name could never move to that key kind.
pub const MAX_NAME_LEN: usize = 255;

/// A key name: 1 to 255 bytes of UTF-8 without Unicode spaces, `+` or control characters
/// (signed-note, Format).
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct KeyName(String);

/// Why a text is no key name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// Nothing there.
    #[error("a key name must not be empty")]
    Empty,
    /// More than [`MAX_NAME_LEN`] bytes.
    #[error("a key name has at most {MAX_NAME_LEN} bytes; shorten it")]
    TooLong,
    /// A Unicode space, `+` or a control character.
    #[error("a key name holds no spaces, plus signs or control characters; remove {0:?}")]
    Forbidden(char),
}

impl NameError {
    /// The error in one word that stays the same from version to version, for programs; `vectors/` has it for
    /// each input.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Empty => "name-empty",
            Self::TooLong => "name-too-long",
            Self::Forbidden(_) => "name-character",
        }
    }
}

impl KeyName {
    /// Takes `name` if it is one.
    pub fn new(name: &str) -> Result<KeyName, NameError> {
        if name.is_empty() {
            return Err(NameError::Empty);
        }
        if name.len() > MAX_NAME_LEN {
            return Err(NameError::TooLong);
        }
        // Nearly every name is all of these, none of which is forbidden.
        let is_plain = name.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'+');
        let forbidden = if is_plain { None } else { name.chars().find(|&character| is_forbidden(character)) };
        match forbidden {
            Some(character) => Err(NameError::Forbidden(character)),
            None => Ok(KeyName(name.to_owned())),
        }
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Unicode spaces and `+` by the key name rule, control characters by the rule for whole notes.
fn is_forbidden(character: char) -> bool {
    character.is_whitespace() || character == '+' || character < ' '
}

impl fmt::Display for KeyName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for KeyName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.0)
    }
}

impl FromStr for KeyName {
    type Err = NameError;

    fn from_str(name: &str) -> Result<KeyName, NameError> {
        KeyName::new(name)
    }
}

impl AsRef<str> for KeyName {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl serde::Serialize for KeyName {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de> serde::Deserialize<'de> for KeyName {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<KeyName, D::Error> {
        let text = String::deserialize(deserializer)?;
        KeyName::new(&text).map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;

    #[test]
    fn names_seen_in_the_wild_are_names() {
        for name in [
            "example.com/foo",
            "gate.example/support-1",
            "transparency.dev/DEV:witness-little-garden",
            "oid/1.3.6.1",
            "müller.example",
            "x",
        ] {
            assert_eq!(KeyName::new(name).unwrap().as_str(), name);
        }
    }

    #[test]
    fn spaces_of_any_script_plus_and_controls_are_refused() {
        for (name, character) in [
            ("a b", ' '),
            ("a+b", '+'),
            ("a\u{a0}b", '\u{a0}'),
            ("a\u{2003}", '\u{2003}'),
            ("a\u{85}", '\u{85}'),
            ("\u{3000}", '\u{3000}'),
            ("a\n", '\n'),
            ("a\0", '\0'),
        ] {
            assert_eq!(KeyName::new(name), Err(NameError::Forbidden(character)), "{name:?}");
        }
        assert_eq!(KeyName::new(""), Err(NameError::Empty));
    }

    #[test]
    fn the_longest_name_has_255_bytes() {
        assert!(KeyName::new(&"n".repeat(255)).is_ok());
        assert_eq!(KeyName::new(&"n".repeat(256)), Err(NameError::TooLong));
    }
}
