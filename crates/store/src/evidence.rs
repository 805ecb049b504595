//! Evidence documents, kept for ever: one JSON document a line, in the order in which they came.
//!
//! ```text
//! evidence.ndjson    <document>\n<document>\n…
//! ```
//!
//! The only thing in a log's directory that cannot be derived from the entries, so it is synced at once. A document
//! that is there already is not written again.

use crate::append_file::AppendFile;
use crate::error::StoreError;
use sha2::{Digest, Sha256};
use std::collections::HashSet;
use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock};

/// Documents a page (protocol, 5.2).
pub const EVIDENCE_PAGE: usize = 256;
/// The longest document: two receipts of 65,535 bytes, each byte escaped to six, and some names.
const MAX_DOCUMENT: usize = 1 << 20;

/// The writing end.
#[derive(Debug)]
pub struct EvidenceFile {
    file: AppendFile,
    known: HashSet<[u8; 32]>,
    reader: EvidenceReader,
}

/// A reading end; cheap to clone.
#[derive(Clone, Debug)]
pub struct EvidenceReader {
    file: crate::append_file::FileReader,
    /// Where each document begins, and where the last one ends.
    bounds: Arc<RwLock<Vec<u64>>>,
}

impl EvidenceFile {
    /// Opens the file in `dir`, or makes it; a line that was being written when a crash came is cut off. The directory
    /// is the caller's to sync when the file is new.
    ///
    /// # Errors
    /// [`StoreError`] when it cannot be read or cut.
    pub fn open(dir: &Path) -> Result<EvidenceFile, StoreError> {
        let mut file = AppendFile::open(dir.join("evidence.ndjson"))?;
        let bytes = file.reader().read(0, file.len() as usize)?;
        let mut bounds = vec![0];
        let mut known = HashSet::new();
        for line in bytes.split_inclusive(|byte| *byte == b'\n').filter(|line| line.ends_with(b"\n")) {
            known.insert(Sha256::digest(&line[..line.len() - 1]).into());
            bounds.push(bounds.last().unwrap_or(&0) + line.len() as u64);
        }
        file.truncate(*bounds.last().unwrap_or(&0))?;
        let reader = EvidenceReader { file: file.reader().clone(), bounds: Arc::new(RwLock::new(bounds)) };
        Ok(EvidenceFile { file, known, reader })
    }

    /// For those who read.
    pub fn reader(&self) -> EvidenceReader {
        self.reader.clone()
    }

    /// Keeps a document, durably. Answers whether it is new.
    ///
    /// # Errors
    /// [`StoreError`]; then it is unknown whether the document is kept.
    pub fn append(&mut self, document: &str) -> Result<bool, StoreError> {
        if document.len() > MAX_DOCUMENT || document.contains('\n') {
            let why = format!("a document is one line of at most {MAX_DOCUMENT} bytes");
            return Err(StoreError::Damaged {
                path: self.file.path().to_owned(),
                what: "document",
                position: self.known.len() as u64,
                why,
            });
        }
        if !self.known.insert(Sha256::digest(document.as_bytes()).into()) {
            return Ok(false);
        }
        self.file.append(format!("{document}\n").as_bytes())?;
        self.file.sync()?;
        self.reader.bounds.write().unwrap_or_else(PoisonError::into_inner).push(self.file.len());
        Ok(true)
    }
}

impl EvidenceReader {
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
