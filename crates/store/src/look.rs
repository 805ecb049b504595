//! A log's files opened to be read only: nothing is made, cut or written, and another process may have the log open.

use crate::append_file;
use crate::count_file::CountFile;
use crate::error::StoreError;
use crate::levels::LevelsReader;
use crate::paged::PagedFile;
use crate::reader::{Published, TlogReader};
use crate::tlog::{HEAD_COUNT, HeadCheck, LastHead, last_head};
use bytes::Bytes;
use merkle::{PageId, TILE_WIDTH};
use std::fs::File;
use std::path::Path;

/// Which head is the newest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Newest {
    /// The one that a start would find.
    Recorded,
    /// The newest that is known to be durable, which while a log runs is not always the one that is in the file. One that
    /// is not must not be shown to anybody.
    Durable,
}

/// What was opened.
pub(crate) struct Look {
    pub(crate) reader: TlogReader,
    pub(crate) entries: PagedFile,
    pub(crate) heads: PagedFile,
}

/// Opens the log in `dir`.
pub(crate) fn look(dir: &Path, head_check: HeadCheck<'_>, newest: Newest) -> Result<Look, StoreError> {
    let is_there = |name: &str| dir.join(name).is_file();
    if !is_there("entries") && !is_there("heads") {
        return Err(StoreError::Missing(dir.to_owned()));
    }
    for name in ["entries", "heads"] {
        if !is_there(name) {
            return Err(damaged(&dir.join(name), "byte", 0, "the file is gone".to_owned()));
        }
    }
    let durable = CountFile::look(&dir.join(HEAD_COUNT));
    let heads = PagedFile::look(dir, "heads")?;
    let last = match newest {
        Newest::Durable if durable > 0 => head_number(&heads, durable - 1, head_check)?,
        Newest::Durable | Newest::Recorded => last_head(&heads, durable, head_check)?,
    };
    let entries = PagedFile::look(dir, "entries")?;
    if entries.count() < last.size.0 {
        let why = format!("the last signed head covers {} entries and only {} are there", last.size, entries.count());
        return Err(damaged(entries.path(), "entry", entries.count(), why));
    }
    let published = Published {
        size: last.size,
        root: last.root,
        entries_end: entries.end_of(last.size.0)?,
        heads: last.count,
        heads_end: heads.end_of(last.count)?,
        latest: last.latest,
    };
    let reader = TlogReader::new(entries.reader(), LevelsReader::look(dir)?, heads.reader(), published);
    Ok(Look { reader, entries, heads })
}

fn head_number(heads: &PagedFile, number: u64, head_check: HeadCheck<'_>) -> Result<LastHead, StoreError> {
    let page = PageId::at(number / u64::from(TILE_WIDTH), number + 1).filter(|_| number < heads.count());
    let page =
        page.ok_or_else(|| damaged(heads.path(), "head", number, "it was signed and is not there".to_owned()))?;
    let head = heads.reader().string(page, usize::from(page.width) - 1, heads.end())?;
    match head_check(&head) {
        Some((size, root)) => Ok(LastHead { count: number + 1, latest: Some(Bytes::from(head)), size, root }),
        None => {
            Err(damaged(heads.path(), "head", number, "it is not a checkpoint that this log's key signed".to_owned()))
        }
    }
}

/// Keeps every process from writing to the log in `dir` for as long as the file is open. A log that was never opened has
/// nothing to lock, and nobody who writes.
pub(crate) fn keep_still(dir: &Path) -> Result<Option<File>, StoreError> {
    let path = dir.join("lock");
    match File::open(&path) {
        Ok(file) => append_file::lock(&file, &path, dir).map(|()| Some(file)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(StoreError::io(&path, error)),
    }
}

fn damaged(path: &Path, what: &'static str, position: u64, why: String) -> StoreError {
    StoreError::Damaged { path: path.to_owned(), what, position, why }
}
