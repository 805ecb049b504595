//! What an auditor holds (protocol 8): files by path, from a directory, an archive or memory.
//!
//! ```text
//! log/checkpoint  log/tile/…  log/tile/entries/…  log/heads/…
//! witness/<name>/checkpoint
//! witness/<name>/journal/…       a tiled log of its own, same paths as under log/
//! proofs/*.tlog-proof            each beside its .entry
//! evidence/*.json
//! ```
//!
//! Holds the trait through which the audit reads, the layout and the size limits. Does not read any disk.

use note::KeyName;
use std::collections::BTreeMap;

/// Largest checkpoint, proof or head note worth reading: the note format's own limit.
pub(crate) const MAX_NOTE_BYTES: u64 = note::MAX_NOTE_LEN as u64;

/// Largest tile: 256 hashes of 32 bytes.
pub(crate) const MAX_TILE_BYTES: u64 = 256 * 32;

/// Largest page of entries or heads: 256 times a two-byte length and the 65,535 bytes it can say.
pub(crate) const MAX_PAGE_BYTES: u64 = 256 * (2 + 65_535);

/// Largest kept entry.
pub(crate) const MAX_ENTRY_BYTES: u64 = 65_535;

/// Largest evidence document: the JSON parser's own limit.
pub(crate) const MAX_EVIDENCE_BYTES: u64 = receipt::ijson::MAX_JSON_LEN as u64;

/// Longest directory name made from a witness's name. File systems allow 255 bytes.
const MAX_DIRECTORY_NAME: usize = 200;

/// Files of a bundle by path: relative, `/` between parts, no `.` or `..`.
///
/// An implementation must not follow symbolic links out of the bundle, and must be the same bytes on every call.
pub trait BundleSource: Sync {
    /// The file at `path`, or `None` if there is none.
    ///
    /// # Errors
    /// [`ReadError`]: the file is there and cannot be read, or is larger than `max` bytes.
    fn read(&self, path: &str, max: u64) -> Result<Option<Vec<u8>>, ReadError>;

    /// Paths of all files, in any order.
    fn list(&self) -> Vec<String>;

    /// What lies in the bundle and is no file of it: links, devices, names that are no text. Nothing reads it.
    fn left_out(&self) -> LeftOut {
        LeftOut::default()
    }
}

/// Things in a bundle that are no files of it. The first are named; all are counted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LeftOut {
    /// Each in words: what it is, and where. Foreign text: quote it before it is printed.
    pub named: Vec<String>,
    /// How many there are.
    pub count: u64,
}

impl LeftOut {
    /// Most that are named: as many as a verdict shows.
    const MAX_NAMED: usize = 100;

    /// One more.
    pub fn add(&mut self, name: impl FnOnce() -> String) {
        self.count += 1;
        if self.named.len() < LeftOut::MAX_NAMED {
            self.named.push(name());
        }
    }
}

/// Reads a file for the audit. One that is larger than anything of its kind is none of its kind: it is taken as an
/// empty one, which is none either, so that one large file does not keep the auditor from judging the rest.
pub(crate) fn read_part(bundle: &dyn BundleSource, path: &str, max: u64) -> Result<Option<Vec<u8>>, ReadError> {
    match bundle.read(path, max) {
        Err(ReadError::TooLarge { .. }) => Ok(Some(Vec::new())),
        read => read,
    }
}

/// Why nothing can be concluded (exit 65).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// Larger than anything of its kind can be.
    #[error("{path} is larger than {max} bytes, more than any file of its kind; fetch the bundle again")]
    TooLarge {
        /// Which file.
        path: String,
        /// What would have been read.
        max: u64,
    },
    /// The saved state of an earlier audit cannot be gone on from.
    #[error(transparent)]
    State(#[from] crate::state::StateError),
    /// The disk or the archive failed, or the path leads out of the bundle.
    #[error("{path} cannot be read: {reason}")]
    Unreadable {
        /// Which file.
        path: String,
        /// What the system said.
        reason: String,
    },
}

/// A bundle in memory, for tests and for small archives.
#[derive(Clone, Debug, Default)]
pub struct MemoryBundle {
    files: BTreeMap<String, Vec<u8>>,
}

impl MemoryBundle {
    /// An empty bundle.
    pub fn new() -> MemoryBundle {
        MemoryBundle::default()
    }

    /// Puts a file in, or in place of another.
    pub fn insert(&mut self, path: impl Into<String>, bytes: impl Into<Vec<u8>>) {
        self.files.insert(path.into(), bytes.into());
    }

    /// Takes a file out.
    pub fn remove(&mut self, path: &str) -> Option<Vec<u8>> {
        self.files.remove(path)
    }

    /// The bytes of a file.
    pub fn get(&self, path: &str) -> Option<&[u8]> {
        self.files.get(path).map(Vec::as_slice)
    }
}

impl BundleSource for MemoryBundle {
    fn read(&self, path: &str, max: u64) -> Result<Option<Vec<u8>>, ReadError> {
        match self.files.get(path) {
            Some(bytes) if bytes.len() as u64 > max => Err(ReadError::TooLarge { path: path.to_owned(), max }),
            found => Ok(found.cloned()),
        }
    }

    fn list(&self) -> Vec<String> {
        self.files.keys().cloned().collect()
    }
}

/// The directory of a witness in a bundle, without a slash at its end.
///
/// A witness's name may hold slashes and much else: every byte but letters, digits, `-`, `_` and inner dots is
/// written `%XX`; a name too long for a directory is replaced by its hash.
pub fn witness_dir(name: &KeyName) -> String {
    let mut encoded = String::new();
    for (place, byte) in name.as_str().bytes().enumerate() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' => encoded.push(char::from(byte)),
            b'.' if place > 0 => encoded.push('.'),
            _ => encoded.push_str(&format!("%{byte:02X}")),
        }
    }
    if encoded.len() > MAX_DIRECTORY_NAME {
        encoded = format!("%{}", merkle::leaf_hash(name.as_str().as_bytes()).to_hex());
    }
    format!("witness/{encoded}")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;

    fn dir(name: &str) -> String {
        witness_dir(&KeyName::new(name).unwrap())
    }

    #[test]
    fn a_witness_directory_is_one_path_part_whatever_the_name() {
        assert_eq!(dir("witness-1.example"), "witness/witness-1.example");
        assert_eq!(dir("witness.example/w1"), "witness/witness.example%2Fw1");
        assert_eq!(dir(".."), "witness/%2E.");
        assert_eq!(dir("%2F"), "witness/%252F");
        assert!(dir(&"/".repeat(255)).len() < 100);
    }

    #[test]
    fn a_file_beyond_its_limit_is_an_error_not_a_cut_file() {
        let mut bundle = MemoryBundle::new();
        bundle.insert("a", *b"12345");
        assert_eq!(bundle.read("a", 5).unwrap().unwrap(), b"12345");
        assert!(matches!(bundle.read("a", 4), Err(ReadError::TooLarge { .. })));
        assert_eq!(bundle.read("b", 4).unwrap(), None);
    }
}
