//! Adding a log to the configuration file, with everything else in it left byte for byte as it is.
//!
//! A `[[log]]` at the end of a TOML file belongs to the top whatever stands before it, so a new one is appended: comments,
//! order and spacing stay the operator's. Holds the edit and the proof that it did what it was to do. Does not hold
//! whether the log deserves it (`commands::log_add`).

use super::{Level, LogSettings, MAX_LOGS, Settings, SettingsError, WatchedLog, entries};
use note::Origin;
use service::replaced;
use std::path::{Path, PathBuf};

/// Bytes of a configuration file, as much as is read of one elsewhere: more than 1,024 logs with all their keys.
const MAX_FILE_BYTES: u64 = 1024 * 1024;

/// Why no log was added. The file is as it was.
#[derive(Debug, thiserror::Error)]
pub(crate) enum EditError {
    /// The system refused.
    #[error("cannot {action} {path}: {source}")]
    System {
        /// "read" or "change".
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// Longer than any configuration.
    #[error("{0} is larger than {MAX_FILE_BYTES} bytes; check the path")]
    TooLarge(PathBuf),
    /// The file, or the file with the log in it, is no configuration of a witness.
    #[error("{path} cannot take another [[log]]: {reason}")]
    NotTaken {
        /// The file.
        path: PathBuf,
        /// What is wrong, and what to do.
        reason: String,
    },
    /// The log is there.
    #[error(
        "the log {0:?} is configured already; to change its entry edit the configuration, a second one is never added"
    )]
    Listed(Origin),
    /// What the file would list.
    #[error(transparent)]
    Settings(#[from] SettingsError),
}

/// The logs that the file at `path` lists for a witness of this level. Refuses it where it has `log`, or no room for it.
///
/// # Errors
/// [`EditError`].
pub(crate) fn logs_without(path: &Path, log: &WatchedLog, level: Level) -> Result<Vec<WatchedLog>, EditError> {
    let listed = logs_in(path, &read(path)?, level)?;
    if listed.iter().any(|other| other.vkey.name() == log.vkey.name()) {
        return Err(EditError::Listed(Origin::from(log.vkey.name())));
    }
    if listed.len() >= MAX_LOGS {
        return Err(SettingsError::TooManyLogs.into());
    }
    Ok(listed)
}

/// Appends `entry`, which is `log` when checked for a witness of this level, to the file at `path`; durable when this
/// returns.
///
/// # Errors
/// [`EditError`]; the file is as it was.
pub(crate) fn append(path: &Path, entry: &LogSettings, log: &WatchedLog, level: Level) -> Result<(), EditError> {
    let system = |source| EditError::System { action: "change", path: path.to_owned(), source };
    let not_taken = |reason: &str| EditError::NotTaken { path: path.to_owned(), reason: reason.to_owned() };
    let _lock = replaced::lock_directory_of(path).map_err(system)?;
    let before = logs_without(path, log, level)?;
    let text = read(path)?;
    let block = toml::to_string(entry).map_err(|error| not_taken(&error.to_string()))?;
    let gap = match text.as_str() {
        "" => "",
        text if text.ends_with('\n') => "\n",
        _ => "\n\n",
    };
    let new = format!("{text}{gap}[[log]]\n{block}");
    let after = logs_in(path, &new, level).map_err(|error| match error {
        // The file was good before: it is the new section that does not go with it.
        EditError::NotTaken { .. } => not_taken("its logs are written as one list; write each as a [[log]] of its own"),
        other => other,
    })?;
    match after.split_last() {
        Some((last, others)) if last == log && others == before => {}
        _ => return Err(not_taken("with it, it would not say what it should; add the [[log]] by hand")),
    }
    replaced::replace_file(path, &new).map_err(system)
}

/// The logs in `text`, which is that of the file at `path`.
fn logs_in(path: &Path, text: &str, level: Level) -> Result<Vec<WatchedLog>, EditError> {
    let settings: Settings = toml::from_str(text).map_err(|error| {
        let before = text.get(..error.span().map_or(0, |span| span.start)).unwrap_or_default();
        let reason = format!("line {}: {}", 1 + before.matches('\n').count(), error.message());
        EditError::NotTaken { path: path.to_owned(), reason }
    })?;
    Ok(entries::watched_logs(&settings.log, level)?)
}

fn read(path: &Path) -> Result<String, EditError> {
    let system = |source| EditError::System { action: "read", path: path.to_owned(), source };
    if std::fs::metadata(path).map_err(system)?.len() > MAX_FILE_BYTES {
        return Err(EditError::TooLarge(path.to_owned()));
    }
    std::fs::read_to_string(path).map_err(system)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;
    use note::{KeyKind, KeyName, SigningKey};
    use std::collections::BTreeSet;
    use std::os::unix::fs::PermissionsExt;

    fn entry(name: &str) -> LogSettings {
        let vkey = SigningKey::from_seed(KeyName::new(name).unwrap(), KeyKind::Ed25519, [1; 32]).verifier().to_string();
        LogSettings { vkey, url: Some("https://log.example/a?\u{e9}".replace('?', "/")), ..LogSettings::default() }
    }

    fn add(text: &str, entry: &LogSettings) -> Result<String, EditError> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("config.toml");
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o640)).unwrap();
        let log = entries::watched_log(entry, Level::Consistency).unwrap();
        let done = append(&path, entry, &log, Level::Consistency);
        let after = std::fs::read_to_string(&path).unwrap();
        assert!(done.is_ok() || after == text, "a failure changed the file");
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o640);
        done.map(|()| after)
    }

    #[test]
    fn what_was_there_stays_byte_for_byte_and_the_log_is_added() {
        let with_peer = "[limits] # mine\nconnections = 5\n\n# the first\n[[log]]\nvkey = \"";
        let other = entry("log.example/other").vkey;
        for text in [
            "".to_owned(),
            "# no line end".to_owned(),
            "interval_ms   =  7000 # slow\n".to_owned(),
            format!("{with_peer}{other}\"\nurl = 'http://x' # why\n\n"),
            format!("listen = \"127.0.0.1:1\"\r\n[[log]]\r\nvkey = \"{other}\"\r\nurl = 'http://x'\r\n[limits]\r\n"),
        ] {
            let more = LogSettings {
                private_address: true,
                accept_pushes: true,
                acknowledged_evidence: BTreeSet::from([3, 7]),
                ..entry("log.example/new")
            };
            for entry in [entry("log.example/new"), more] {
                let after = add(&text, &entry).unwrap();
                assert!(after.starts_with(&text) && after.contains("[[log]]\nvkey = \"log.example/new+"), "{after}");
                assert_eq!(after.contains("private_address"), entry.private_address);
                assert!(matches!(add(&after, &entry), Err(EditError::Listed(_))), "{after}");
            }
        }
    }

    #[test]
    fn a_file_that_cannot_take_it_is_left_alone() {
        let other = entry("log.example/other").vkey;
        for (text, reason) in [
            (format!("log = [{{ vkey = \"{other}\", url = \"http://x\" }}]\n"), "write each as a [[log]]"),
            ("a = \n".to_owned(), "line 1"),
            ("interval_ms = 5\ninterval_ms = 6\n".to_owned(), "line 2"),
            ("[[log]]\nvkey = \"x\"\nurl = \"http://x\"\n".to_owned(), "log number 1"),
        ] {
            let error = add(&text, &entry("log.example/new")).unwrap_err().to_string();
            assert!(error.contains(reason), "{error}");
        }
    }
}
