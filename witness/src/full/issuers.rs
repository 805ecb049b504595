//! The list of issuers of a log: one vkey a line, as a log's operator and an auditor keep it too.
//!
//! Blank lines and lines that begin with `#` are skipped. An issuer whose receipts are in the log stays in the list for as
//! long as the log is watched, retired or not: the list says who exists, and what was admitted is never taken back.

use note::{KeyError, KeyKind, VerifierKey};
use std::collections::HashSet;
use std::io;
use std::path::{Path, PathBuf};

/// Why a list cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum IssuersError {
    /// The file.
    #[error("the list of issuers {path} cannot be read: {error}")]
    Io {
        /// Which file.
        path: PathBuf,
        /// What the system says.
        error: io::Error,
    },
    /// A line is no vkey.
    #[error("{path}, line {line}: not a vkey ({error}); copy the line that keygen printed")]
    Key {
        /// Which file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// What is wrong with it.
        error: KeyError,
    },
    /// A vkey of another kind.
    #[error("{path}, line {line}: the key is not of type 0x01; use the issuer's vkey, not a witness's")]
    KeyKind {
        /// Which file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
    },
    /// An issuer stands there twice.
    #[error(
        "{path}, line {line}: this issuer stands in the list twice; keep the line with the key that it opened with"
    )]
    Twice {
        /// Which file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
    },
}

/// Reads the list in the file at `path`.
///
/// # Errors
/// [`IssuersError`].
pub fn read_issuers(path: &Path) -> Result<Vec<VerifierKey>, IssuersError> {
    let text = std::fs::read_to_string(path).map_err(|error| IssuersError::Io { path: path.to_owned(), error })?;
    let (mut keys, mut names) = (Vec::new(), HashSet::new());
    for (line, vkey) in (1..).zip(text.lines()).filter(|(_, vkey)| !vkey.is_empty() && !vkey.starts_with('#')) {
        let path = || path.to_owned();
        let key: VerifierKey = vkey.parse().map_err(|error| IssuersError::Key { path: path(), line, error })?;
        if key.kind() != KeyKind::Ed25519 {
            return Err(IssuersError::KeyKind { path: path(), line });
        }
        if !names.insert(key.name().clone()) {
            return Err(IssuersError::Twice { path: path(), line });
        }
        keys.push(key);
    }
    Ok(keys)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;
    use crate::full::sample::Gate;
    use note::{KeyName, SigningKey};

    fn read(text: &str) -> Result<Vec<VerifierKey>, IssuersError> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("issuers");
        std::fs::write(&path, text).unwrap();
        read_issuers(&path)
    }

    #[test]
    fn a_list_is_a_vkey_a_line_and_every_other_line_is_named() {
        let [one, two] = [1, 2].map(|number| Gate::new(number).vkey());
        assert_eq!(read(&format!("# ours\n{one}\n\n{two}\n")).unwrap(), [one.clone(), two.clone()]);
        assert_eq!(read("").unwrap(), []);
        let witness = SigningKey::from_seed(KeyName::new("w").unwrap(), KeyKind::CosignatureV1, [1; 32]).verifier();
        let again = Gate::new(1).key(1).verifier();
        assert!(matches!(read(&format!("{one}\n{two} heartbeat=60s\n")), Err(IssuersError::Key { line: 2, .. })));
        assert!(matches!(read(&format!("{witness}\n")), Err(IssuersError::KeyKind { line: 1, .. })));
        assert!(matches!(read(&format!("{one}\n#\n{again}\n")), Err(IssuersError::Twice { line: 3, .. })));
        assert!(matches!(read_issuers(Path::new("/nonexistent/issuers")), Err(IssuersError::Io { .. })));
    }
}
