//! Evidence documents, kept for ever: one JSON document a line, in the order in which they came.
//!
//! ```text
//! evidence.ndjson    <document>\n<document>\n…
//! ```
//!
//! The only thing in a log's directory that cannot be derived from the entries, so it is synced at once. A document
//! that is there already is not written again.

use crate::append_file::{AppendFile, sync_directory};
use crate::disk::{Disk, RealDisk};
use crate::error::StoreError;
use crate::finding::{Finding, Findings};
use crate::torn::lacks_a_sector;
use sha2::{Digest, Sha256};
use std::collections::HashSet;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock};

/// Documents a page (protocol, 5.2).
pub const EVIDENCE_PAGE: usize = 256;
/// The longest document: two receipts of 65,535 bytes, each byte escaped to six, and some names.
pub const MAX_DOCUMENT: usize = 1 << 20;

/// The writing end.
#[derive(Debug)]
pub struct EvidenceFile {
    file: AppendFile,
    known: HashSet<[u8; 32]>,
    reader: EvidenceReader,
    /// A write failed: what follows it in the file is unknown.
    poisoned: bool,
}

/// A reading end; cheap to clone.
#[derive(Clone, Debug)]
pub struct EvidenceReader {
    file: crate::append_file::FileReader,
    /// Where each document begins, and where the last one ends.
    bounds: Arc<RwLock<Vec<u64>>>,
}

impl EvidenceFile {
    /// Opens the file in `dir`, or makes it; a line that was being written when a crash came is cut off. What is found
    /// is durable.
    ///
    /// # Errors
    /// [`StoreError`] when it cannot be read or cut. What the lines say is the caller's to check.
    pub fn open(dir: &Path) -> Result<EvidenceFile, StoreError> {
        EvidenceFile::open_on(&RealDisk, dir)
    }

    /// As [`EvidenceFile::open`], on a disk of the caller's.
    ///
    /// # Errors
    /// As [`EvidenceFile::open`].
    pub fn open_on(disk: &dyn Disk, dir: &Path) -> Result<EvidenceFile, StoreError> {
        EvidenceFile::open_with(disk, dir, &|_| true)
    }

    /// As [`EvidenceFile::open`] on a disk of the caller's; a line that is not JSON is damage.
    ///
    /// # Errors
    /// [`StoreError`] when the file cannot be read or cut, or a whole line is not JSON.
    pub fn open_json_on(disk: &dyn Disk, dir: &Path) -> Result<EvidenceFile, StoreError> {
        EvidenceFile::open_with(disk, dir, &is_json)
    }

    fn open_with(disk: &dyn Disk, dir: &Path, is_document: &dyn Fn(&[u8]) -> bool) -> Result<EvidenceFile, StoreError> {
        let mut file = AppendFile::open(disk, dir.join("evidence.ndjson"))?;
        sync_directory(disk, dir)?;
        let mut bounds = vec![0];
        let mut known = HashSet::new();
        let mut line = Vec::new();
        let mut lines = BufReader::new(file.reader().stream());
        loop {
            line.clear();
            let read = lines.by_ref().take(MAX_DOCUMENT as u64 + 1).read_until(b'\n', &mut line);
            read.map_err(|error| StoreError::io(file.path(), error))?;
            let Some(document) = line.strip_suffix(b"\n") else { break };
            let place = known.len() as u64;
            let begin = *bounds.last().unwrap_or(&0);
            if begin + line.len() as u64 == file.len() && lacks_a_sector(&line, begin) {
                break;
            }
            if !is_document(document) {
                return Err(damaged(file.path(), place, "it is not JSON"));
            }
            known.insert(Sha256::digest(document).into());
            bounds.push(begin + line.len() as u64);
        }
        if line.len() > MAX_DOCUMENT {
            return Err(damaged(file.path(), known.len() as u64, "it is longer than any document"));
        }
        let last = bounds.len().checked_sub(2).map_or(0, |last| bounds[last]);
        file.settle_again(*bounds.last().unwrap_or(&0), last)?;
        let reader = EvidenceReader { file: file.reader().clone(), bounds: Arc::new(RwLock::new(bounds)) };
        Ok(EvidenceFile { file, known, reader, poisoned: false })
    }

    /// For those who read.
    pub fn reader(&self) -> EvidenceReader {
        self.reader.clone()
    }

    /// Keeps a document, durably. Answers whether it is new.
    ///
    /// # Errors
    /// [`StoreError::NotADocument`], and nothing has changed; any other, and it is unknown whether the document is kept:
    /// nothing more is taken before the file is opened again.
    pub fn append(&mut self, document: &str) -> Result<bool, StoreError> {
        if document.len() >= MAX_DOCUMENT || document.contains('\n') || !is_json(document.as_bytes()) {
            return Err(StoreError::NotADocument { limit: MAX_DOCUMENT });
        }
        if self.poisoned {
            return Err(StoreError::Poisoned);
        }
        let hash: [u8; 32] = Sha256::digest(document.as_bytes()).into();
        if self.known.contains(&hash) {
            return Ok(false);
        }
        self.poisoned = true;
        self.file.append(format!("{document}\n").as_bytes())?;
        self.file.sync()?;
        self.poisoned = false;
        self.known.insert(hash);
        self.reader.bounds.write().unwrap_or_else(PoisonError::into_inner).push(self.file.len());
        Ok(true)
    }
}

impl EvidenceReader {
    /// What is in the file in `dir` now, to read it, whoever has it open to write. A line without an end is not counted.
    ///
    /// # Errors
    /// [`StoreError`] when it is not there or cannot be read.
    pub fn look(dir: &Path) -> Result<EvidenceReader, StoreError> {
        let file = crate::append_file::FileReader::open(&RealDisk, dir.join("evidence.ndjson"))?;
        let mut bounds = vec![0];
        let mut lines = BufReader::new(file.stream());
        loop {
            let mut line = Vec::new();
            let read = lines.by_ref().take(MAX_DOCUMENT as u64 + 1).read_until(b'\n', &mut line);
            read.map_err(|error| StoreError::io(file.path(), error))?;
            if !line.ends_with(b"\n") {
                return Ok(EvidenceReader { file, bounds: Arc::new(RwLock::new(bounds)) });
            }
            bounds.push(bounds.last().unwrap_or(&0) + line.len() as u64);
        }
    }

    /// Documents `256 page` and up to 255 more; none beyond the last.
    ///
    /// # Errors
    /// [`StoreError`] when they cannot be read.
    pub fn page(&self, page: u64) -> Result<Vec<String>, StoreError> {
        let bounds: Vec<u64> = {
            let bounds = self.bounds.read().unwrap_or_else(PoisonError::into_inner);
            let first = usize::try_from(page).ok().and_then(|page| page.checked_mul(EVIDENCE_PAGE));
            let Some(rest) = first.and_then(|first| bounds.get(first..)) else { return Ok(Vec::new()) };
            rest.iter().take(EVIDENCE_PAGE + 1).copied().collect()
        };
        let document = |begin: u64, end: u64| -> Result<String, StoreError> {
            let bytes = self.file.read(begin, (end - begin - 1) as usize)?;
            Ok(String::from_utf8_lossy(&bytes).into_owned())
        };
        bounds.windows(2).map(|bound| document(bound[0], bound[1])).collect()
    }
}

/// Looks at the file in `dir` and changes nothing. A last line without an end was being written when a crash came.
pub(crate) fn check(dir: &Path, findings: &mut Findings) -> Result<(), StoreError> {
    let path = dir.join("evidence.ndjson");
    let Ok(file) = crate::append_file::FileReader::open(&RealDisk, path.clone()) else { return Ok(()) };
    let mut lines = BufReader::new(file.stream());
    let mut line = Vec::new();
    for number in 0.. {
        line.clear();
        let read = lines.by_ref().take(MAX_DOCUMENT as u64 + 1).read_until(b'\n', &mut line);
        read.map_err(|error| StoreError::io(&path, error))?;
        match line.strip_suffix(b"\n") {
            Some(document) if is_json(document) => {}
            Some(_) => findings.add(Finding::lost(&path, "document", number, "it is not JSON")),
            None if line.len() > MAX_DOCUMENT => {
                findings.add(Finding::lost(&path, "document", number, "it is longer than any document"));
                break;
            }
            None => break,
        }
    }
    Ok(())
}

fn is_json(document: &[u8]) -> bool {
    serde_json::from_slice::<Box<serde_json::value::RawValue>>(document).is_ok()
}

fn damaged(path: &Path, position: u64, why: &str) -> StoreError {
    StoreError::Damaged { path: path.to_owned(), what: "document", position, why: why.to_owned() }
}
