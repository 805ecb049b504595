//! Private key files: the one place that reads or writes one.
//!
//! A file holds one line, `PRIVATE+KEY+<name>+<hexid>+<base64>`, and is readable by its owner only: one
//! that others can read has to be taken for known to them, and is refused. Seeds come from the operating
//! system; copies made here are wiped.

use note::{KeyError, KeyKind, KeyName, SigningKey};
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use zeroize::Zeroizing;

/// Bytes of a key file: a name of at most 255, an id, 33 bytes in base64 and a newline are well below.
const MAX_KEY_FILE_BYTES: u64 = 1024;

/// Mode bits that let anybody but the owner at the file.
const OTHERS: u32 = 0o077;

/// Why a key file could not be read or written. Each says what to do next.
#[derive(Debug, thiserror::Error)]
pub enum KeyFileError {
    /// The system refused.
    #[error("cannot {action} the key file {path}: {source}")]
    System {
        /// "read", "create", …
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Group or others have access.
    #[error(
        "{path} can be read by others (mode {mode:04o}); run `chmod 600 {path}`, and make a new key if others may have read it"
    )]
    Exposed {
        /// The file.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// Not one line of private key text.
    #[error("{path} holds no private key: {reason}; make one with `counterfoil keygen`")]
    NotAKey {
        /// The file.
        path: PathBuf,
        /// What is wrong with the text, never the text.
        reason: KeyError,
    },
    /// A key of the other kind.
    #[error(
        "{path} is a key for another use (type byte {found:#04x} where {wanted:#04x} is wanted); check which key file was given"
    )]
    WrongKind {
        /// The file.
        path: PathBuf,
        /// Its kind.
        found: u8,
        /// The kind the caller needs.
        wanted: u8,
    },
    /// Something is there already.
    #[error("{path} exists and is never overwritten; choose another file, or move it away")]
    Exists {
        /// The file.
        path: PathBuf,
    },
    /// The system gave no randomness.
    #[error("the system gave no randomness for a new key: {0}")]
    Entropy(String),
}

impl KeyFileError {
    /// The code of the error, the same in every SDK: `key-file` where the file cannot or must not be read or written, and for a
    /// text that is no key what is wrong with it.
    pub fn code(&self) -> &'static str {
        match self {
            Self::System { .. } | Self::Exposed { .. } | Self::Exists { .. } | Self::Entropy(_) => "key-file",
            Self::NotAKey { reason, .. } => reason.code(),
            Self::WrongKind { .. } => "outbox-other-key",
        }
    }
}

/// Reads the private key in `path`, which must be of `kind`.
///
/// # Errors
/// [`KeyFileError`]; nothing of the file's content is in it.
pub fn read_signing_key(path: &Path, kind: KeyKind) -> Result<SigningKey, KeyFileError> {
    let system = |source| KeyFileError::System { action: "read", path: path.to_owned(), source };
    let file = File::open(path).map_err(system)?;
    // Of the open file, not of the path: what is checked is what is read.
    let metadata = file.metadata().map_err(system)?;
    if metadata.mode() & OTHERS != 0 {
        return Err(KeyFileError::Exposed { path: path.to_owned(), mode: metadata.mode() & 0o7777 });
    }
    let not_a_key = |reason: KeyError| KeyFileError::NotAKey { path: path.to_owned(), reason };
    // Room for all of it from the start: growing would leave copies behind.
    let mut bytes = Zeroizing::new(Vec::with_capacity(MAX_KEY_FILE_BYTES as usize + 1));
    file.take(MAX_KEY_FILE_BYTES + 1).read_to_end(&mut bytes).map_err(system)?;
    let text = std::str::from_utf8(&bytes).map_err(|_| not_a_key(KeyError::Shape))?;
    let line = text.strip_suffix('\n').unwrap_or(text);
    let key = SigningKey::from_private_text(line).map_err(not_a_key)?;
    if key.kind() != kind {
        return Err(KeyFileError::WrongKind { path: path.to_owned(), found: key.kind().byte(), wanted: kind.byte() });
    }
    Ok(key)
}

/// Makes a new key from the system's randomness.
///
/// # Errors
/// [`KeyFileError::Entropy`].
pub fn new_signing_key(name: KeyName, kind: KeyKind) -> Result<SigningKey, KeyFileError> {
    let mut seed = Zeroizing::new([0; 32]);
    getrandom::fill(&mut *seed).map_err(|error| KeyFileError::Entropy(error.to_string()))?;
    Ok(SigningKey::from_seed(name, kind, *seed))
}

/// Writes `key` to a new file `path`, mode 0600, and makes file and name durable: a key that has signed
/// once must not be lost to a power cut.
///
/// # Errors
/// [`KeyFileError`]; an existing file is left as it is, and a file that could not be written whole is removed.
pub fn write_new_signing_key(path: &Path, key: &SigningKey) -> Result<(), KeyFileError> {
    let mut file = match OpenOptions::new().write(true).create_new(true).mode(0o600).open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            return Err(KeyFileError::Exists { path: path.to_owned() });
        }
        Err(source) => return Err(KeyFileError::System { action: "create", path: path.to_owned(), source }),
    };
    let mut text = key.to_private_text();
    text.push('\n');
    let written = file.write_all(text.as_bytes()).and_then(|()| file.sync_all()).and_then(|()| sync_directory_of(path));
    written.map_err(|source| {
        // A partial key file would only be in the way of the next try.
        let _ = std::fs::remove_file(path);
        KeyFileError::System { action: "write", path: path.to_owned(), source }
    })
}

fn sync_directory_of(path: &Path) -> io::Result<()> {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(parent)?.sync_all()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn a_key(kind: KeyKind) -> SigningKey {
        new_signing_key(KeyName::new("log.example/agents").unwrap(), kind).unwrap()
    }

    #[test]
    fn a_new_key_file_is_private_and_reads_back() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log.key");
        let key = a_key(KeyKind::Ed25519);
        write_new_signing_key(&path, &key).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        assert_eq!(read_signing_key(&path, KeyKind::Ed25519).unwrap().verifier(), key.verifier());
    }

    #[test]
    fn two_new_keys_differ() {
        assert_ne!(a_key(KeyKind::Ed25519).verifier(), a_key(KeyKind::Ed25519).verifier());
    }

    #[test]
    fn an_existing_key_file_is_never_overwritten() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log.key");
        std::fs::write(&path, "precious").unwrap();
        let refused = write_new_signing_key(&path, &a_key(KeyKind::Ed25519));
        assert!(matches!(refused, Err(KeyFileError::Exists { .. })));
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "precious");
    }

    #[test]
    fn a_key_file_that_others_can_read_is_refused_with_the_command_to_run() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log.key");
        write_new_signing_key(&path, &a_key(KeyKind::Ed25519)).unwrap();
        for mode in [0o640, 0o604, 0o620, 0o601, 0o666] {
            std::fs::set_permissions(&path, PermissionsExt::from_mode(mode)).unwrap();
            let refused = read_signing_key(&path, KeyKind::Ed25519).unwrap_err();
            assert!(refused.to_string().contains(&format!("chmod 600 {}", path.display())), "{refused}");
            assert_eq!(refused.code(), "key-file");
        }
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o400)).unwrap();
        assert!(read_signing_key(&path, KeyKind::Ed25519).is_ok());
    }

    #[test]
    fn a_key_for_another_use_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("witness.key");
        write_new_signing_key(&path, &a_key(KeyKind::CosignatureV1)).unwrap();
        assert!(matches!(
            read_signing_key(&path, KeyKind::Ed25519),
            Err(KeyFileError::WrongKind { found: 4, wanted: 1, .. })
        ));
    }

    #[test]
    fn a_file_that_holds_no_key_is_refused_without_quoting_it() {
        let dir = tempfile::tempdir().unwrap();
        let good = a_key(KeyKind::Ed25519).to_private_text();
        let contents = [
            (b"hunter2-secret".to_vec(), "key-shape"),
            (Vec::new(), "key-shape"),
            (b"PRIVATE+KEY+hunter2".to_vec(), "key-shape"),
            (vec![b'x'; 5000], "key-shape"),
            (b"PRIVATE+KEY+hunter2\xff".to_vec(), "key-shape"),
            (format!("{}\n\n", *good).into_bytes(), "key-base64"),
            (format!("PRIVATE+KEY+log.example/agents+00000000+{}", "CQkJ".repeat(11)).into_bytes(), "key-kind-unknown"),
        ];
        for (number, (content, code)) in contents.iter().enumerate() {
            let path = dir.path().join(number.to_string());
            std::fs::write(&path, content).unwrap();
            std::fs::set_permissions(&path, PermissionsExt::from_mode(0o600)).unwrap();
            let refused = read_signing_key(&path, KeyKind::Ed25519).unwrap_err();
            assert!(matches!(refused, KeyFileError::NotAKey { .. }), "{refused}");
            assert_eq!(refused.code(), *code, "{number}");
            assert!(!refused.to_string().contains("hunter2"), "{refused}");
        }
        let absent = read_signing_key(&dir.path().join("absent"), KeyKind::Ed25519);
        assert!(matches!(absent, Err(KeyFileError::System { .. })));
        assert_eq!(absent.unwrap_err().code(), "key-file");
    }
}
