//! Who may write to an outbox's directory. Node.js has no `flock`, so what it made is locked by means of its own, and what
//! it made nobody else writes to.

use super::OutboxError;
use std::path::Path;

/// Refuses a directory that says who alone writes to it.
pub(super) fn refuse_other(dir: &Path) -> Result<(), OutboxError> {
    let path = dir.join("writer");
    match path.try_exists() {
        Ok(false) => Ok(()),
        Ok(true) => Err(OutboxError::OtherWriter(dir.to_owned())),
        Err(error) => Err(OutboxError::disk("look for", &path, error)),
    }
}
