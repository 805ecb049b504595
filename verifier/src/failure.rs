//! Why a command ends without a result: exit status and sentence. And the reading of the auditor's own files, where
//! most of it comes from.

use audit::AuditedIssuer;
use note::Policy;
use service::ExitStatus;
use std::fmt::Display;
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// Largest of the auditor's own files: a hundred thousand issuers of a usual length.
const MAX_FILE_BYTES: u64 = 64 << 20;

/// Exit status and sentence.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) status: ExitStatus,
    pub(crate) reason: String,
}

/// It could not be done.
pub(crate) fn failed(reason: impl Display) -> Failure {
    Failure { status: ExitStatus::Failed, reason: reason.to_string() }
}

/// Wrong usage.
pub(crate) fn usage(reason: impl Display) -> Failure {
    Failure { status: ExitStatus::Usage, reason: reason.to_string() }
}

/// Input that cannot be read.
pub(crate) fn unreadable(reason: impl Display) -> Failure {
    Failure { status: ExitStatus::Unreadable, reason: reason.to_string() }
}

/// Reads a file of at most `max` bytes.
pub(crate) fn read_file(path: &Path, max: u64) -> Result<Vec<u8>, Failure> {
    let cannot = |reason: &dyn Display| unreadable(format!("cannot read {}: {reason}", path.display()));
    let file = File::open(path).map_err(|error| cannot(&error))?;
    let mut bytes = Vec::new();
    file.take(max.saturating_add(1)).read_to_end(&mut bytes).map_err(|error| cannot(&error))?;
    if bytes.len() as u64 > max {
        return Err(cannot(&format!("it is larger than {max} bytes")));
    }
    Ok(bytes)
}

/// Reads a text file of the auditor's.
pub(crate) fn read_text(path: &Path) -> Result<String, Failure> {
    let bytes = read_file(path, MAX_FILE_BYTES)?;
    String::from_utf8(bytes).map_err(|_| unreadable(format!("{} is not UTF-8 text", path.display())))
}

/// Reads the policy.
pub(crate) fn read_policy(path: &Path) -> Result<Policy, Failure> {
    let octets = read_file(path, MAX_FILE_BYTES)?;
    Policy::parse(&octets).map_err(|error| unreadable(format!("{}: {error}", path.display())))
}

/// Reads the issuers file.
pub(crate) fn read_issuers(path: &Path) -> Result<Vec<AuditedIssuer>, Failure> {
    audit::parse_issuers(&read_text(path)?).map_err(|error| unreadable(format!("{}: {error}", path.display())))
}
