//! Report files: whole or not there.

use std::fs::Permissions;
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// A report that was asked for on the command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ReportFile {
    Html(PathBuf),
    Json(PathBuf),
}

impl ReportFile {
    pub(crate) fn path(&self) -> &Path {
        match self {
            ReportFile::Html(path) | ReportFile::Json(path) => path,
        }
    }
}

/// Writes `text` beside `path` and then puts it there, so that nobody ever reads half of it. Readable for those for
/// whom new files are: a report is made to be handed on.
pub(crate) fn write_file(path: &Path, content: impl AsRef<[u8]>) -> io::Result<()> {
    replace(path, 0o666, content.as_ref()).map_err(unnamed)
}

/// The same, readable for nobody else.
pub(crate) fn write_private(path: &Path, content: impl AsRef<[u8]>) -> io::Result<()> {
    replace(path, 0o600, content.as_ref()).map_err(unnamed)
}

fn replace(path: &Path, mode: u32, content: &[u8]) -> io::Result<()> {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut file = tempfile::Builder::new().permissions(Permissions::from_mode(mode)).tempfile_in(parent)?;
    file.write_all(content)?;
    file.as_file().sync_all()?;
    file.persist(path).map_err(|error| error.error)?;
    Ok(())
}

/// What the system said, without the name of the file beside it, which is no concern of the reader's: the caller names the
/// one that was asked for. `tempfile` gives the name in its message only.
fn unnamed(error: io::Error) -> io::Error {
    match (error.get_ref(), error.to_string().split_once(" at path ")) {
        (Some(_), Some((said, _))) => io::Error::new(error.kind(), said),
        _ => error,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;

    #[test]
    fn a_report_takes_the_place_of_another_and_leaves_nothing_beside_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("report.html");
        write_file(&path, "one").unwrap();
        write_file(&path, "two").unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "two");
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
        let nowhere = dir.path().join("nowhere/report");
        for refused in [write_file(&nowhere, "x"), write_private(&nowhere, "x")] {
            let error = refused.unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::NotFound);
            let said = error.to_string();
            assert!(said.starts_with("No such file") && !said.contains(" at path "), "{said}");
        }
        // In the place of a directory nothing can be put, and nothing stays behind.
        std::fs::create_dir(dir.path().join("folder")).unwrap();
        assert!(write_file(&dir.path().join("folder"), "x").is_err());
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 2);
    }
}
