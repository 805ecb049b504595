//! Files that are there whole or not at all.

use crate::failure::Failure;
use std::ffi::OsString;
use std::path::Path;

/// Writes `path` under another name and renames it.
pub(crate) fn write_whole(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    let mut temporary: OsString = path.as_os_str().to_owned();
    temporary.push(".new");
    let written = std::fs::write(&temporary, bytes).and_then(|()| std::fs::rename(&temporary, path));
    written.map_err(|error| Failure::failed(format!("cannot write {}: {error}", path.display())))
}
