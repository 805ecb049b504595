//! The four words of a receipt's head: who, which, when, and the name of the whole.
//!
//! Types instead of strings and numbers, so that a sequence number is never taken for a time or a
//! receipt's id for a tree's root.

use merkle::Hash;
use note::{KeyName, NameError};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::str::FromStr;

/// A gate's name: the name of its key, line 2 of each of its receipts. At most 255 bytes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct IssuerName(pub KeyName);

impl IssuerName {
    /// Takes `name` if it is a key name (signed-note).
    ///
    /// # Errors
    /// [`NameError`]: empty, longer than 255 bytes, or with a character no key name holds.
    pub fn new(name: &str) -> Result<Self, NameError> {
        KeyName::new(name).map(Self)
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }
}

impl fmt::Display for IssuerName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

impl From<KeyName> for IssuerName {
    fn from(name: KeyName) -> Self {
        Self(name)
    }
}

/// A receipt's number in its issuer's stream: 0 for the first, then one more each time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SeqNo(pub u64);

impl SeqNo {
    /// The number after this one, or `None` after the last one there is.
    pub fn next(self) -> Option<Self> {
        self.0.checked_add(1).map(Self)
    }
}

impl fmt::Display for SeqNo {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}", self.0)
    }
}

/// Milliseconds since the Unix epoch, by whatever clock the context names.
///
/// Any u64, as section 1 says of every decimal. A tighter bound here would add nothing: what keeps a
/// time plausible is the rule against future-dated receipts, which knows a clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct UnixMillis(pub u64);

impl fmt::Display for UnixMillis {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}", self.0)
    }
}

/// The name of a receipt: the RFC 6962 leaf hash of its bytes, signature included.
///
/// Displays and serialises as 64 lowercase hex digits; on line 4 of the next receipt the same hash
/// stands in base64.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ReceiptId(pub Hash);

impl ReceiptId {
    /// What stands as `prev` where nothing came before: 32 zero bytes.
    pub const NONE: Self = Self(Hash([0; 32]));

    /// The id of an entry, by its bytes.
    pub fn of(entry: &[u8]) -> Self {
        Self(merkle::leaf_hash(entry))
    }

    /// Parses 64 lowercase hex digits.
    pub fn parse(text: &str) -> Option<Self> {
        Hash::from_hex(text).map(Self)
    }
}

impl fmt::Display for ReceiptId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0.to_hex())
    }
}

impl fmt::Debug for ReceiptId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "ReceiptId({self})")
    }
}

/// The text is no receipt id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected a receipt id: 64 lowercase hex digits")]
pub struct NotAReceiptId;

impl FromStr for ReceiptId {
    type Err = NotAReceiptId;

    fn from_str(text: &str) -> Result<Self, NotAReceiptId> {
        Self::parse(text).ok_or(NotAReceiptId)
    }
}

/// Hex in formats that people read, the 32 bytes in others.
impl Serialize for ReceiptId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match serializer.is_human_readable() {
            true => serializer.collect_str(self),
            false => self.0.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for ReceiptId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        if !deserializer.is_human_readable() {
            return Hash::deserialize(deserializer).map(ReceiptId);
        }
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;

    #[test]
    fn an_id_is_the_leaf_hash_and_reads_as_hex() {
        // RFC 6962 leaf hash of "L123456".
        let id = ReceiptId::of(b"L123456");
        assert_eq!(id.to_string(), "395aa064aa4c29f7010acfe3f25db9485bbd4b91897b6ad7ad547639252b4d56");
        assert_eq!(ReceiptId::parse(&id.to_string()), Some(id));
        assert_eq!(serde_json::from_str::<ReceiptId>(&serde_json::to_string(&id).unwrap()).unwrap(), id);
    }

    #[test]
    fn an_id_in_any_other_writing_is_refused() {
        let id = ReceiptId::of(b"").to_string();
        for other in [id.to_uppercase(), format!("{id} "), format!("sha256:{id}"), id[1..].to_owned(), String::new()] {
            assert!(other.parse::<ReceiptId>().is_err(), "{other}");
        }
    }

    #[test]
    fn no_number_follows_the_last_one() {
        assert_eq!(SeqNo(41).next(), Some(SeqNo(42)));
        assert_eq!(SeqNo(u64::MAX).next(), None);
    }
}
