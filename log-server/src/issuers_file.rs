//! The operator's list of issuers: a file of vkeys.
//!
//! ```text
//! # one vkey a line; blank lines and lines that begin with # are skipped
//! gate.example/support-1+a1b2c3d4+AY1…
//! # retired: gate.example/old+5e6f7a8b+AY1…
//! ```
//!
//! Which issuers exist is this file's word. An issuer that is taken out of it can submit nothing more; what it has
//! in the log stays. A comment keeps the vkey of one that was retired, for whoever reads the list later.

use note::{KeyKind, VerifierKey};
use service::replaced::{self, DirectoryLock};
use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// Bytes of an issuers file: a vkey has at most 320 bytes, so this is more than 50,000 issuers.
const MAX_FILE_BYTES: u64 = 16 * 1024 * 1024;

/// What a new file begins with.
pub const HEADER: &str = "# Issuers whose receipts this log takes: one vkey a line.\n# Add one with `counterfoil-log issuer add`, then send the log a SIGHUP.\n";

/// How the line of a retired issuer begins.
const RETIRED: &str = "# retired: ";

/// Why a list of issuers cannot be used. Each says where and what to do.
#[derive(Debug, thiserror::Error)]
pub enum IssuersError {
    /// The system refused.
    #[error("cannot {action} the issuers file {path}: {source}")]
    System {
        /// "read" or "write".
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// Larger than the limit.
    #[error("the issuers file {path} is larger than {MAX_FILE_BYTES} bytes; check the path")]
    TooLarge {
        /// The file.
        path: PathBuf,
    },
    /// What is to be added is no vkey of an issuer.
    #[error("{reason}; give the vkey as `counterfoil keygen --kind issuer` prints it")]
    NotAKey {
        /// What is wrong.
        reason: String,
    },
    /// A line is no vkey of an issuer.
    #[error(
        "line {line} of the issuers file: {reason}; each line is one vkey as `counterfoil keygen --kind issuer` prints it"
    )]
    Line {
        /// Counted from 1.
        line: usize,
        /// What is wrong.
        reason: String,
    },
    /// What is to be added is the log's own key, or a key of its name.
    #[error(
        "{0} is this log's own key or name, not an issuer's; give the vkey of a gate, as `counterfoil keygen --kind issuer` prints it"
    )]
    OwnKey(String),
    /// Who is to be retired is not listed.
    #[error("{0} is not in the issuers file; `counterfoil-log issuer list` shows who is")]
    NotListed(String),
    /// A line is the log's own key, or a key of its name.
    #[error(
        "line {line} of the issuers file holds this log's own key or name, {name}; a gate has a key and a name of its own: take the line \
         out, and put in the vkey that `counterfoil keygen --kind issuer` prints at the gate"
    )]
    OwnLine {
        /// Counted from 1.
        line: usize,
        /// The name in it.
        name: String,
    },
    /// What is to be added has another key than its name has in the file.
    #[error("{name} is listed with another key; an issuer has one registered key, and changes it by a rotate receipt")]
    OtherKey {
        /// The name.
        name: String,
    },
    /// One name with two keys, or one key twice.
    #[error(
        "line {line} of the issuers file names {name} again (first in line {first}); an issuer has one registered key, and changes it by a rotate receipt"
    )]
    Twice {
        /// Counted from 1.
        line: usize,
        /// Where it stands first.
        first: usize,
        /// The name.
        name: String,
    },
}

/// Reads the issuers file of the log with key `own`; without it, whether a line is the log's own is not checked.
///
/// # Errors
/// [`IssuersError`].
pub fn read(path: &Path, own: Option<&VerifierKey>) -> Result<Vec<VerifierKey>, IssuersError> {
    let system = |source| IssuersError::System { action: "read", path: path.to_owned(), source };
    if std::fs::metadata(path).map_err(system)?.len() > MAX_FILE_BYTES {
        return Err(IssuersError::TooLarge { path: path.to_owned() });
    }
    parse(&std::fs::read_to_string(path).map_err(system)?, own)
}

/// Parses the text of an issuers file, of the log with key `own`.
///
/// # Errors
/// [`IssuersError`].
pub fn parse(text: &str, own: Option<&VerifierKey>) -> Result<Vec<VerifierKey>, IssuersError> {
    let mut keys = Vec::new();
    let mut lines_by_name = HashMap::new();
    for (number, line) in text.lines().enumerate().map(|(index, line)| (index + 1, line.trim())) {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let key = parse_key(line).map_err(|reason| IssuersError::Line { line: number, reason })?;
        if is_own(&key, own) {
            return Err(IssuersError::OwnLine { line: number, name: key.name().to_string() });
        }
        if let Some(first) = lines_by_name.insert(key.name().clone(), number) {
            return Err(IssuersError::Twice { line: number, first, name: key.name().to_string() });
        }
        keys.push(key);
    }
    Ok(keys)
}

/// What a call did to the file.
#[derive(Debug)]
pub enum Change {
    /// It was as wanted already.
    None,
    /// It is another one now.
    Made(Made),
}

impl Change {
    /// Whether the file is another one now.
    pub fn is_made(&self) -> bool {
        matches!(self, Self::Made(_))
    }
}

/// A change that can still be undone. Until it is dropped nobody else changes the file by this module.
#[derive(Debug)]
pub struct Made {
    path: PathBuf,
    before: String,
    after: String,
    _lock: DirectoryLock,
}

impl Made {
    /// Puts back what was there. What somebody who heeds no lock, an editor say, has made of the file meanwhile stays.
    ///
    /// # Errors
    /// [`IssuersError::System`].
    pub fn undo(self) -> Result<(), IssuersError> {
        let system = |source| IssuersError::System { action: "read", path: self.path.clone(), source };
        match std::fs::read_to_string(&self.path).map_err(system)? == self.after {
            true => write(&self.path, &self.before),
            false => Ok(()),
        }
    }
}

/// Adds `vkey` at the end of the file of the log with key `own`; answers the key, and whether it is new there.
///
/// # Errors
/// [`IssuersError`]; the file is as it was.
pub fn add(path: &Path, vkey: &str, own: Option<&VerifierKey>) -> Result<(VerifierKey, Change), IssuersError> {
    let key = parse_key(vkey).map_err(|reason| IssuersError::NotAKey { reason })?;
    if is_own(&key, own) {
        return Err(IssuersError::OwnKey(key.name().to_string()));
    }
    let change = change(path, own, |keys, text| {
        if keys.contains(&key) {
            return Ok(None);
        }
        if let Some(other) = keys.iter().find(|other| other.name() == key.name()) {
            return Err(IssuersError::OtherKey { name: other.name().to_string() });
        }
        // One that is added back is retired no more.
        let kept = text.lines().filter(|line| retired_key(line).as_ref() != Some(&key));
        Ok(Some(kept.flat_map(|line| [line, "\n"]).chain([key.to_string().as_str(), "\n"]).collect()))
    })?;
    Ok((key, change))
}

/// Turns the line of the issuer `name` in the file of the log with key `own` into a comment, so that it may submit no
/// more. No change if it was retired before.
///
/// # Errors
/// [`IssuersError`]; the file is as it was.
pub fn retire(path: &Path, name: &str, own: Option<&VerifierKey>) -> Result<(VerifierKey, Change), IssuersError> {
    let mut found = None;
    let change = change(path, own, |keys, text| {
        if let Some(key) = keys.iter().find(|key| key.name().as_str() == name) {
            found = Some(key.clone());
            let is_its = |line: &str| parse_key(line.trim()).is_ok_and(|other| other == *key);
            let line = |line| if is_its(line) { format!("{RETIRED}{key}\n") } else { format!("{line}\n") };
            return Ok(Some(text.lines().map(line).collect()));
        }
        found = text.lines().rev().filter_map(retired_key).find(|key| key.name().as_str() == name);
        Ok(None)
    })?;
    found.map(|key| (key, change)).ok_or_else(|| IssuersError::NotListed(name.to_owned()))
}

/// The issuers that were retired, as far as the file remembers, and that are not listed again.
///
/// # Errors
/// [`IssuersError`].
pub fn read_retired(path: &Path) -> Result<Vec<VerifierKey>, IssuersError> {
    let listed = read(path, None)?;
    let system = |source| IssuersError::System { action: "read", path: path.to_owned(), source };
    let text = std::fs::read_to_string(path).map_err(system)?;
    let is_listed = |key: &VerifierKey| listed.iter().any(|listed| listed.name() == key.name());
    Ok(text.lines().filter_map(retired_key).filter(|key| !is_listed(key)).collect())
}

fn retired_key(line: &str) -> Option<VerifierKey> {
    parse_key(line.trim().strip_prefix(RETIRED)?).ok()
}

/// Lets `edit` make another text of the keys and the text that are there, and nobody else do the same meanwhile or before
/// the change that is answered is dropped.
fn change(
    path: &Path,
    own: Option<&VerifierKey>,
    edit: impl FnOnce(&[VerifierKey], &str) -> Result<Option<String>, IssuersError>,
) -> Result<Change, IssuersError> {
    let system = |source| IssuersError::System { action: "write", path: path.to_owned(), source };
    let lock = replaced::lock_directory_of(path).map_err(system)?;
    let keys = read(path, own)?;
    let before = std::fs::read_to_string(path).map_err(system)?;
    let Some(text) = edit(&keys, &before)? else { return Ok(Change::None) };
    // Nothing is written that could not be read again.
    parse(&text, own)?;
    write(path, &text)?;
    Ok(Change::Made(Made { path: path.to_owned(), before, after: text, _lock: lock }))
}

/// Puts `text` in the place of the file, in one step that survives a power cut: a log that reads it meanwhile reads either.
///
/// # Errors
/// [`IssuersError::System`].
pub fn write(path: &Path, text: &str) -> Result<(), IssuersError> {
    replaced::replace_file(path, text).map_err(|source| IssuersError::System {
        action: "write",
        path: path.to_owned(),
        source,
    })
}

/// Whether `key` is the log's, under whatever name, or another key under the log's name: either would make one signer's words
/// look like another's.
fn is_own(key: &VerifierKey, own: Option<&VerifierKey>) -> bool {
    own.is_some_and(|own| key.name() == own.name() || key.public_key_bytes() == own.public_key_bytes())
}

fn parse_key(text: &str) -> Result<VerifierKey, String> {
    let key: VerifierKey = text.parse().map_err(|error: note::KeyError| error.to_string())?;
    match key.kind() {
        KeyKind::Ed25519 => Ok(key),
        // Witnesses' keys, and kinds that are yet to come.
        _ => Err("this is a key for another use, not an issuer's".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;
    use note::{KeyName, SigningKey};

    fn vkey(name: &str, seed: u8, kind: KeyKind) -> VerifierKey {
        SigningKey::from_seed(KeyName::new(name).unwrap(), kind, [seed; 32]).verifier()
    }

    #[test]
    fn comments_and_blank_lines_are_skipped() {
        let (a, b) = (vkey("gate/a", 1, KeyKind::Ed25519), vkey("gate/b", 2, KeyKind::Ed25519));
        assert_eq!(parse(&format!("{HEADER}\n{a}\n  \n# more\n{b}"), None).unwrap(), [a, b]);
        assert!(parse(HEADER, None).unwrap().is_empty());
    }

    #[test]
    fn a_line_that_is_no_issuers_key_is_named() {
        let witness = vkey("w", 1, KeyKind::CosignatureV1);
        for text in
            ["\nnot a key".to_owned(), format!("\n{witness}"), format!("\n{} trailing", vkey("a", 1, KeyKind::Ed25519))]
        {
            assert!(matches!(parse(&text, None), Err(IssuersError::Line { line: 2, .. })), "{text}");
        }
    }

    #[test]
    fn a_name_stands_once() {
        let text = format!("{}\n{}\n", vkey("a", 1, KeyKind::Ed25519), vkey("a", 2, KeyKind::Ed25519));
        assert!(matches!(parse(&text, None), Err(IssuersError::Twice { line: 2, first: 1, .. })));
    }

    #[test]
    fn adding_keeps_what_is_there_and_adds_each_once() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("issuers");
        std::fs::write(&path, "# mine").unwrap();
        let (a, again) = (vkey("a", 1, KeyKind::Ed25519), vkey("a", 2, KeyKind::Ed25519));
        assert!(add(&path, &a.to_string(), None).unwrap().1.is_made());
        assert!(!add(&path, &a.to_string(), None).unwrap().1.is_made());
        assert_eq!(std::fs::read_to_string(&path).unwrap(), format!("# mine\n{a}\n"));
        assert!(matches!(add(&path, &again.to_string(), None), Err(IssuersError::OtherKey { .. })));
        assert!(add(&path, "nonsense", None).is_err());
        assert_eq!(read(&path, None).unwrap(), [a]);
    }

    #[test]
    fn a_retired_issuer_is_remembered_submits_nothing_and_can_come_back() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("issuers");
        let (a, b) = (vkey("a", 1, KeyKind::Ed25519), vkey("b", 2, KeyKind::Ed25519));
        std::fs::write(&path, format!("# mine\n  {a}\n{b}")).unwrap();
        let (key, change) = retire(&path, "a", None).unwrap();
        assert!(key == a && change.is_made());
        drop(change);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), format!("# mine\n# retired: {a}\n{b}\n"));
        let (key, change) = retire(&path, "a", None).unwrap();
        assert!(key == a && !change.is_made());
        assert_eq!((read(&path, None).unwrap(), read_retired(&path).unwrap()), (vec![b.clone()], vec![a.clone()]));
        assert!(matches!(retire(&path, "c", None), Err(IssuersError::NotListed(name)) if name == "c"));
        assert!(add(&path, &a.to_string(), None).unwrap().1.is_made());
        assert_eq!((read(&path, None).unwrap(), read_retired(&path).unwrap()), (vec![b, a], vec![]));
    }

    #[test]
    fn the_logs_own_key_and_name_are_nobodys_else() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("issuers");
        std::fs::write(&path, "").unwrap();
        let log = vkey("log", 1, KeyKind::Ed25519);
        for taken in [log.clone(), vkey("gate", 1, KeyKind::Ed25519), vkey("log", 2, KeyKind::Ed25519)] {
            let refused = add(&path, &taken.to_string(), Some(&log)).unwrap_err();
            assert!(matches!(refused, IssuersError::OwnKey(_)), "{refused}");
            assert!(refused.to_string().contains("counterfoil keygen --kind issuer"), "{refused}");
            let listed = parse(&format!("# gates\n{taken}\n"), Some(&log));
            assert!(matches!(listed, Err(IssuersError::OwnLine { line: 2, .. })), "{taken}");
        }
        assert!(read(&path, Some(&log)).unwrap().is_empty());
        assert!(add(&path, &vkey("gate", 2, KeyKind::Ed25519).to_string(), Some(&log)).unwrap().1.is_made());
    }

    #[test]
    fn retiring_takes_out_the_one_and_leaves_comments_and_the_others() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("issuers");
        let (a, b) = (vkey("a", 1, KeyKind::Ed25519), vkey("b", 2, KeyKind::Ed25519));
        std::fs::write(&path, format!("# gates\n{a}\n  {b}  \n# the end")).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).unwrap();
        assert!(retire(&path, "b", None).unwrap().1.is_made());
        assert_eq!(std::fs::read_to_string(&path).unwrap(), format!("# gates\n{a}\n# retired: {b}\n# the end\n"));
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o640);
        assert!(!retire(&path, "b", None).unwrap().1.is_made());
    }

    #[test]
    fn many_who_change_the_file_at_once_lose_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("issuers");
        std::fs::write(&path, HEADER).unwrap();
        std::thread::scope(|scope| {
            for seed in 0..8 {
                let path = &path;
                scope.spawn(move || {
                    add(path, &vkey(&format!("gate/{seed}"), seed, KeyKind::Ed25519).to_string(), None).unwrap()
                });
            }
        });
        assert_eq!(read(&path, None).unwrap().len(), 8);
    }

    #[test]
    fn a_change_that_is_undone_leaves_the_file_as_it_was_or_as_an_editor_made_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("issuers");
        let (a, b) = (vkey("a", 1, KeyKind::Ed25519), vkey("b", 2, KeyKind::Ed25519));
        let undo = |changed: Result<(VerifierKey, Change), IssuersError>, meanwhile: Option<&str>| {
            let Change::Made(made) = changed.unwrap().1 else { panic!("nothing was changed") };
            if let Some(text) = meanwhile {
                std::fs::write(&path, text).unwrap();
            }
            made.undo().unwrap();
            std::fs::read_to_string(&path).unwrap()
        };
        let text = format!("# mine\n{RETIRED}{a}\n  {b}");
        std::fs::write(&path, &text).unwrap();
        assert_eq!(undo(add(&path, &a.to_string(), None), None), text);
        assert_eq!(undo(retire(&path, "b", None), None), text);
        assert_eq!(undo(add(&path, &a.to_string(), None), Some("# edited\n")), "# edited\n");
    }

    #[test]
    fn a_linked_file_stays_linked() {
        let dir = tempfile::tempdir().unwrap();
        let (path, link) = (dir.path().join("real"), dir.path().join("issuers"));
        std::fs::write(&path, "").unwrap();
        std::os::unix::fs::symlink(&path, &link).unwrap();
        add(&link, &vkey("a", 1, KeyKind::Ed25519).to_string(), None).unwrap();
        assert!(std::fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(read(&path, None).unwrap().len(), 1);
    }
}
