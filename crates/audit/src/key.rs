//! Keys of the tables that grow with the log: a digest of their parts instead of the parts.
//!
//! Sessions, resources and subjects are as long as whoever wrote the receipt liked, and there may be millions.
//! Sixteen bytes of SHA-256 each keep a table of a million within a few dozen megabytes, and nobody can find two
//! that collide with less than 2^64 tries.

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// A digest of a few strings, told apart by their lengths; or the first half of a digest that is one already.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct Key([u8; 16]);

impl Key {
    pub(crate) fn new(parts: &[&str]) -> Key {
        let mut hasher = Sha256::new();
        for part in parts {
            hasher.update((part.len() as u64).to_be_bytes());
            hasher.update(part.as_bytes());
        }
        Key::of_digest(&hasher.finalize().into())
    }

    /// A text within something that has a number. For tables of such keys alone.
    pub(crate) fn within(number: u32, text: &str) -> Key {
        let mut hasher = Sha256::new();
        hasher.update(number.to_be_bytes());
        hasher.update(text.as_bytes());
        Key::of_digest(&hasher.finalize().into())
    }

    /// The first half of a digest.
    pub(crate) fn of_digest(digest: &[u8; 32]) -> Key {
        let mut key = [0; 16];
        key.copy_from_slice(&digest[..16]);
        Key(key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_do_not_run_together() {
        assert_ne!(Key::new(&["ab", "c"]), Key::new(&["a", "bc"]));
        assert_ne!(Key::new(&["ab"]), Key::new(&["ab", ""]));
        assert_eq!(Key::new(&["ab", "c"]), Key::new(&["ab", "c"]));
        assert_ne!(Key::within(1, "ab"), Key::within(2, "ab"));
    }
}
