//! A file that is replaced as a whole: either all of the old bytes or all of the new ones are there, whatever happens.
//!
//! ```text
//! <name>    <bytes> | 32 bytes SHA-256 of them
//! ```
//!
//! For what can be derived again and should not have to be: a file that is missing, cut or damaged reads as nothing.

use crate::append_file::sync_directory;
use crate::disk::{Disk, Found, OpenFor};
use crate::error::StoreError;
use sha2::{Digest, Sha256};
use std::io::ErrorKind;
use std::path::Path;

const CHECKSUM_LEN: usize = 32;

/// The bytes of the file at `path`; `None` where there is none, or another than what was written.
///
/// # Errors
/// [`StoreError::Io`] when the disk cannot say.
pub fn read_whole(disk: &dyn Disk, path: &Path) -> Result<Option<Vec<u8>>, StoreError> {
    let failed = |error| StoreError::io(path, error);
    let Some(Found::File(length)) = disk.find(path).map_err(failed)? else { return Ok(None) };
    let file = disk.open(path, OpenFor::Reading).map_err(failed)?;
    let mut bytes = vec![0; usize::try_from(length).unwrap_or(usize::MAX)];
    match file.read_exact_at(&mut bytes, 0) {
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(None),
        read => read.map_err(failed)?,
    }
    let Some((content, checksum)) = bytes.split_last_chunk::<CHECKSUM_LEN>() else { return Ok(None) };
    if Sha256::digest(content).as_slice() != checksum {
        return Ok(None);
    }
    bytes.truncate(bytes.len() - CHECKSUM_LEN);
    Ok(Some(bytes))
}

/// Puts `bytes` in place of the file at `path`. Durable when this returns; a crash before that leaves the old file or
/// the new one.
///
/// # Errors
/// [`StoreError::Io`]; the old file is still there, or the new one.
pub fn replace_whole(disk: &dyn Disk, path: &Path, bytes: &[u8]) -> Result<(), StoreError> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".new");
    let unfinished = path.with_file_name(name);
    let failed = |error| StoreError::io(&unfinished, error);
    let file = disk.open(&unfinished, OpenFor::Writing).map_err(failed)?;
    file.set_len(0).map_err(failed)?;
    file.write_all_at(&[bytes, Sha256::digest(bytes).as_slice()].concat(), 0).map_err(failed)?;
    file.sync_data().map_err(failed)?;
    drop(file);
    disk.rename(&unfinished, path).map_err(|error| StoreError::io(path, error))?;
    sync_directory(disk, path.parent().unwrap_or(Path::new(".")))
}
