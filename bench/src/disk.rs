//! What a store occupies, file by file.

use crate::failure::Failure;
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Bytes of a block in `stat`, whatever the file system's own blocks are.
const BLOCK: u64 = 512;

/// Bytes on disk under `dir`, by the name of what lies in it: allocated blocks, as `du` counts them.
pub(crate) fn usage(dir: &Path) -> Result<BTreeMap<String, u64>, Failure> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(dir).map_err(Failure::io(dir))? {
        let path = entry.map_err(Failure::io(dir))?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        found.insert(name, occupied(&path)?);
    }
    Ok(found)
}

fn occupied(path: &Path) -> Result<u64, Failure> {
    let status = match fs::symlink_metadata(path) {
        Ok(status) => status,
        // A log that runs may replace a file while it is looked at.
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(0),
        Err(error) => return Err(Failure::io(path)(error)),
    };
    let mut bytes = status.blocks() * BLOCK;
    if status.is_dir() {
        for entry in fs::read_dir(path).map_err(Failure::io(path))? {
            bytes += occupied(&entry.map_err(Failure::io(path))?.path())?;
        }
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;

    #[test]
    fn what_lies_deeper_counts_for_the_name_at_the_top() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join("a/b")).unwrap();
        fs::write(dir.path().join("a/b/c"), vec![1; 100_000]).unwrap();
        fs::write(dir.path().join("d"), vec![1; 10_000]).unwrap();
        let found = usage(dir.path()).unwrap();
        assert_eq!(found.keys().collect::<Vec<_>>(), ["a", "d"]);
        assert!(found["a"] >= 100_000 && found["d"] < found["a"], "{found:?}");
    }
}
