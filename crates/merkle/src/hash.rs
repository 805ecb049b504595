//! Hashes of RFC 6962, section 2.1, and the numbers that go with them.
//!
//! A leaf is hashed behind a zero byte and a node behind a one byte, so that neither can pass for the other.

use crate::encoding::{decode_base64, encode_base64};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sha2::{Digest, Sha256};
use std::fmt;

/// Bytes in a SHA-256 hash.
pub const HASH_LEN: usize = 32;

/// A SHA-256 hash of a leaf or a node. Prints as base64, as checkpoints and proofs do.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Hash(pub [u8; HASH_LEN]);

impl Hash {
    /// Lowercase hex, 64 digits.
    pub fn to_hex(&self) -> String {
        hex::encode(self.0)
    }

    /// Parses 64 lowercase hex digits; `None` for anything else.
    pub fn from_hex(text: &str) -> Option<Hash> {
        if text.bytes().any(|byte| byte.is_ascii_uppercase()) {
            return None;
        }
        let mut bytes = [0; HASH_LEN];
        hex::decode_to_slice(text, &mut bytes).ok()?;
        Some(Hash(bytes))
    }

    /// Canonical base64, 44 characters.
    pub fn to_base64(&self) -> String {
        encode_base64(&self.0)
    }

    /// Parses canonical base64 of exactly 32 bytes; `None` for anything else.
    pub fn from_base64(text: &str) -> Option<Hash> {
        Some(Hash(decode_base64(text)?.try_into().ok()?))
    }
}

impl fmt::Display for Hash {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.to_base64())
    }
}

impl fmt::Debug for Hash {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.to_hex())
    }
}

/// Base64 in formats that people read, the 32 bytes in others.
impl Serialize for Hash {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match serializer.is_human_readable() {
            true => serializer.serialize_str(&self.to_base64()),
            false => serializer.serialize_bytes(&self.0),
        }
    }
}

impl<'de> Deserialize<'de> for Hash {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Hash, D::Error> {
        if deserializer.is_human_readable() {
            let text = std::borrow::Cow::<str>::deserialize(deserializer)?;
            return Hash::from_base64(&text)
                .ok_or_else(|| serde::de::Error::custom("expected the canonical base64 of 32 bytes"));
        }
        let bytes = <&[u8]>::deserialize(deserializer)?;
        bytes.try_into().map(Hash).map_err(|_| serde::de::Error::custom("expected 32 bytes"))
    }
}

/// The root hash of a tree.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RootHash(pub Hash);

impl fmt::Display for RootHash {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(out)
    }
}

/// The place of a leaf in its log; the first is 0.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct LeafIndex(pub u64);

impl fmt::Display for LeafIndex {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(out)
    }
}

/// How many leaves a tree has.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TreeSize(pub u64);

impl fmt::Display for TreeSize {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(out)
    }
}

/// The root of the tree without leaves: the hash of the empty string.
pub const EMPTY_ROOT: RootHash = RootHash(Hash([
    0xe3, 0xb0, 0xc4, 0x42, 0x98, 0xfc, 0x1c, 0x14, 0x9a, 0xfb, 0xf4, 0xc8, 0x99, 0x6f, 0xb9, 0x24, 0x27, 0xae, 0x41,
    0xe4, 0x64, 0x9b, 0x93, 0x4c, 0xa4, 0x95, 0x99, 0x1b, 0x78, 0x52, 0xb8, 0x55,
]));

/// The hash of a leaf that holds `data`.
pub fn leaf_hash(data: &[u8]) -> Hash {
    Hash(Sha256::new().chain_update([0]).chain_update(data).finalize().into())
}

/// The hash of the node over `left` and `right`.
pub fn node_hash(left: &Hash, right: &Hash) -> Hash {
    Hash(Sha256::new().chain_update([1]).chain_update(left.0).chain_update(right.0).finalize().into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_constants_are_those_of_rfc_6962() {
        assert_eq!(EMPTY_ROOT.0.0, <[u8; 32]>::from(Sha256::digest(b"")));
        assert_eq!(leaf_hash(b"").to_hex(), "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d");
        assert_eq!(leaf_hash(b"L123456").to_hex(), "395aa064aa4c29f7010acfe3f25db9485bbd4b91897b6ad7ad547639252b4d56");
    }

    #[test]
    fn hashes_print_and_parse_one_way_only() {
        let hash = leaf_hash(b"one");
        assert_eq!(Hash::from_hex(&hash.to_hex()), Some(hash));
        assert_eq!(Hash::from_base64(&hash.to_base64()), Some(hash));
        assert_eq!(Hash::from_hex(&hash.to_hex().to_uppercase()), None);
        assert_eq!(Hash::from_hex(&hash.to_hex()[1..]), None);
        assert_eq!(Hash::from_base64("AAE="), None);
    }
}
