//! Evidence of forks: what this witness can show to anybody, kept for ever and numbered in the order found.
//!
//! Holds which document is against which log. Does not hold what a document says (`cosign::LogFork`) nor how it is
//! stored (`store::EvidenceFile`).

use crate::keeper::Broken;
use bytes::Bytes;
use cosign::LogFork;
use note::VerifierKey;
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use store::{EVIDENCE_PAGE, EvidenceFile};

/// All evidence. A log adds one document until an operator acknowledges it, so there are few, and all are kept in
/// memory.
#[derive(Debug)]
pub struct Evidence(Mutex<Kept>);

#[derive(Debug)]
struct Kept {
    file: EvidenceFile,
    /// The documents as they stand in the file, each with the log it accuses.
    documents: Vec<(String, VerifierKey)>,
}

impl Evidence {
    /// Opens the evidence in the directory `state`.
    ///
    /// # Errors
    /// [`Broken`]: it cannot be read, or one of the documents is no evidence.
    pub fn open(state: &Path) -> Result<Evidence, Broken> {
        let file = EvidenceFile::open(state).map_err(Broken::Store)?;
        let mut documents = Vec::new();
        for page in 0.. {
            let lines = file.reader().page(page).map_err(Broken::Store)?;
            let full = lines.len() == EVIDENCE_PAGE;
            for line in lines {
                let number = documents.len() as u64;
                let fork: LogFork = serde_json::from_str(&line)
                    .map_err(|error| Broken::Evidence { number, reason: error.to_string() })?;
                documents.push((line, fork.log().clone()));
            }
            if !full {
                break;
            }
        }
        Ok(Evidence(Mutex::new(Kept { file, documents })))
    }

    /// Keeps a document, if it is not kept yet; durable when this returns its number.
    ///
    /// # Errors
    /// [`Broken`].
    pub fn record(&self, fork: &LogFork) -> Result<u64, Broken> {
        let mut kept = self.kept();
        let number = kept.documents.len() as u64;
        let document =
            serde_json::to_string(fork).map_err(|error| Broken::Evidence { number, reason: error.to_string() })?;
        if let Some(place) = kept.documents.iter().position(|(other, _)| *other == document) {
            return Ok(place as u64);
        }
        kept.file.append(&document).map_err(Broken::Store)?;
        kept.documents.push((document, fork.log().clone()));
        Ok(number)
    }

    /// The number of the first document against `log` that is not among those acknowledged.
    pub fn first_against(&self, log: &VerifierKey, acknowledged: &BTreeSet<u64>) -> Option<u64> {
        let kept = self.kept();
        let mut accusing =
            (0..).zip(&kept.documents).filter(|(_, (_, accused))| accused == log).map(|(number, _)| number);
        accusing.find(|number| !acknowledged.contains(number))
    }

    /// Page `page` of the documents, one a line; `None` where there is none.
    pub fn page(&self, page: u64) -> Option<Bytes> {
        let kept = self.kept();
        let documents = kept.documents.chunks(EVIDENCE_PAGE).nth(usize::try_from(page).ok()?)?;
        Some(documents.iter().map(|(document, _)| format!("{document}\n")).collect::<String>().into())
    }

    fn kept(&self) -> std::sync::MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
