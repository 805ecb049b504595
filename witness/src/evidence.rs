//! Evidence: what this witness can show to anybody, kept for ever and numbered in the order found.
//!
//! Holds which document is against which log. Does not hold what a document says (`cosign::LogFork`,
//! `receipt::LogAdmitted`) nor how it is stored (`store::EvidenceFile`).

use crate::broken::Broken;
use crate::full::Breaks;
use crate::settings::WatchedLog;
use bytes::Bytes;
use cosign::{LogFork, WitnessFork};
use note::{Origin, VerifierKey};
use receipt::{IssuerForkEvidence, LogAdmitted};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use store::disk::{Disk, RealDisk};
use store::{EVIDENCE_PAGE, EvidenceFile, EvidenceReader};

/// All evidence. A log adds one document until an operator acknowledges it, so there are few, and all are kept in
/// memory.
#[derive(Debug)]
pub struct Evidence(Mutex<Kept>);

#[derive(Debug)]
struct Kept {
    file: EvidenceFile,
    /// The documents as they stand in the file.
    documents: Vec<(String, Document)>,
}

/// One document. Each kind knows its own `kind`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Document {
    /// Against a log that signed two histories.
    Log(Box<LogFork>),
    /// Against a log that admitted what it must refuse.
    Admitted(Box<LogAdmitted>),
    /// Against a peer.
    Witness(Box<WitnessFork>),
    /// Against an issuer; found in a log.
    Issuer(Box<IssuerForkEvidence>),
}

/// Evidence that stands against a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Standing {
    /// Its number.
    pub number: u64,
    /// What the log is shown to have done.
    pub crime: Crime,
}

/// What a log can be shown to have done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Crime {
    /// It signed two histories.
    LogFork,
    /// It admitted what it must refuse.
    LogAdmitted,
}

impl Crime {
    /// What it did, after "the log ".
    pub fn told(self) -> &'static str {
        match self {
            Crime::LogFork => "signed two histories",
            Crime::LogAdmitted => "admitted a receipt that it must refuse",
        }
    }
}

/// What is acknowledged is not there to be acknowledged.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "evidence {number} cannot be acknowledged for the log {log:?}: {}. Acknowledge only what \
     `counterfoil-witness evidence list` shows against it", if *.held { "it is not against this log" } else { "this witness holds no evidence of this number" }
)]
pub struct NotAcknowledgeable {
    /// The number.
    pub number: u64,
    /// The log that it is acknowledged for.
    pub log: Origin,
    /// Whether there is such a document, which then is against somebody else.
    pub held: bool,
}

/// The documents of the witness whose state directory is `state`, which may be running: nothing is made or changed.
///
/// # Errors
/// [`Broken`]: they cannot be read, or one of them is no evidence.
pub fn look(state: &Path) -> Result<Vec<Document>, Broken> {
    let documents = read(&EvidenceReader::look(state).map_err(Broken::Store)?)?;
    Ok(documents.into_iter().map(|(_, document)| document).collect())
}

/// Whether what is acknowledged for `log` is among `documents`, which are all that there are, and against that log. Nobody
/// can have seen what is not there yet: whatever came to stand under that number would stop nothing.
///
/// # Errors
/// [`NotAcknowledgeable`]: the first that is not.
pub fn check_acknowledged<'a>(
    log: &WatchedLog,
    documents: impl Fn(usize) -> Option<&'a Document>,
) -> Result<(), NotAcknowledgeable> {
    for &number in &log.acknowledged_evidence {
        let document = usize::try_from(number).ok().and_then(&documents);
        if document.and_then(Document::against).is_none_or(|(accused, _)| *accused != log.vkey) {
            let (log, held) = (Origin::from(log.vkey.name()), document.is_some());
            return Err(NotAcknowledgeable { number, log, held });
        }
    }
    Ok(())
}

impl Document {
    /// The log that it accuses, and of what.
    fn against(&self) -> Option<(&VerifierKey, Crime)> {
        match self {
            Document::Log(fork) => Some((fork.log(), Crime::LogFork)),
            Document::Admitted(admitted) => Some((admitted.log(), Crime::LogAdmitted)),
            Document::Witness(_) | Document::Issuer(_) => None,
        }
    }
}

impl From<&LogFork> for Document {
    fn from(fork: &LogFork) -> Document {
        Document::Log(Box::new(fork.clone()))
    }
}

impl From<&WitnessFork> for Document {
    fn from(fork: &WitnessFork) -> Document {
        Document::Witness(Box::new(fork.clone()))
    }
}

impl Evidence {
    /// Opens the evidence in the directory `state`.
    ///
    /// # Errors
    /// [`Broken`]: it cannot be read, or one of the documents is no evidence.
    pub fn open(state: &Path) -> Result<Evidence, Broken> {
        Evidence::open_on(&RealDisk, state)
    }

    /// As [`Evidence::open`], on a disk of the caller's.
    ///
    /// # Errors
    /// As [`Evidence::open`].
    pub fn open_on(disk: &dyn Disk, state: &Path) -> Result<Evidence, Broken> {
        let file = EvidenceFile::open_on(disk, state).map_err(Broken::Store)?;
        let documents = read(&file.reader())?;
        Ok(Evidence(Mutex::new(Kept { file, documents })))
    }

    /// Keeps a document, if neither it nor another one about the same is kept yet; durable when this returns its number.
    ///
    /// # Errors
    /// [`Broken`].
    pub fn record(&self, found: impl Into<Document>) -> Result<u64, Broken> {
        let found = found.into();
        let sample = found.clone();
        self.kept().record(found, |other| match (other, &sample) {
            (Document::Log(other), Document::Log(fork)) => fork.is_about_the_same(other),
            (Document::Witness(other), Document::Witness(fork)) => fork.is_about_the_same(other),
            _ => false,
        })
    }

    /// Keeps what shows that a log admitted what it must refuse, if nothing about that entry is kept yet, and an issuer's
    /// fork that was found with it. Durable when this returns the number of the first.
    ///
    /// # Errors
    /// [`Broken`].
    pub fn record_breaks(&self, breaks: &Breaks) -> Result<u64, Broken> {
        let mut kept = self.kept();
        let admitted = &breaks.admitted;
        let same = |other: &Document| matches!(other, Document::Admitted(other) if other.is_about_the_same(admitted));
        let number = kept.record(Document::Admitted(Box::new(admitted.clone())), same)?;
        if let Some(fork) = &breaks.issuer_fork {
            kept.record(Document::Issuer(fork.clone()), |_| false)?;
        }
        Ok(number)
    }

    /// Whether all that is acknowledged for `logs` is there, and against that log.
    ///
    /// # Errors
    /// [`NotAcknowledgeable`]: the first that is not.
    pub fn check_acknowledged(&self, logs: &[WatchedLog]) -> Result<(), NotAcknowledgeable> {
        let kept = self.kept();
        let document = |place: usize| kept.documents.get(place).map(|(_, document)| document);
        logs.iter().try_for_each(|log| check_acknowledged(log, document))
    }

    /// How many documents there are.
    pub fn count(&self) -> u64 {
        self.kept().documents.len() as u64
    }

    /// The first document against `log` that is not among those acknowledged.
    pub fn first_against(&self, log: &VerifierKey, acknowledged: &BTreeSet<u64>) -> Option<Standing> {
        let kept = self.kept();
        let mut accusing = (0..).zip(&kept.documents).filter_map(|(number, (_, document))| {
            let (accused, crime) = document.against()?;
            (accused == log).then_some(Standing { number, crime })
        });
        accusing.find(|standing| !acknowledged.contains(&standing.number))
    }

    /// The number of the first document that shows `log` to have signed two histories.
    pub fn first_fork(&self, log: &VerifierKey) -> Option<u64> {
        let kept = self.kept();
        let is_fork = |(_, document): &(String, Document)| matches!(document, Document::Log(fork) if fork.log() == log);
        kept.documents.iter().position(is_fork).map(|place| place as u64)
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

/// All documents, as they stand in the file and as what they are.
fn read(reader: &EvidenceReader) -> Result<Vec<(String, Document)>, Broken> {
    let mut documents = Vec::new();
    for page in 0.. {
        let lines = reader.page(page).map_err(Broken::Store)?;
        let full = lines.len() == EVIDENCE_PAGE;
        for line in lines {
            let number = documents.len() as u64;
            let document: Document =
                serde_json::from_str(&line).map_err(|error| Broken::Evidence { number, reason: error.to_string() })?;
            documents.push((line, document));
        }
        if !full {
            break;
        }
    }
    Ok(documents)
}

impl Kept {
    /// Keeps a document, if neither it nor one that is the `same` is kept yet. Answers with the number of that or of it.
    fn record(&mut self, document: Document, same: impl Fn(&Document) -> bool) -> Result<u64, Broken> {
        let number = self.documents.len() as u64;
        let text =
            serde_json::to_string(&document).map_err(|error| Broken::Evidence { number, reason: error.to_string() })?;
        if let Some(place) = self.documents.iter().position(|(other, kept)| *other == text || same(kept)) {
            return Ok(place as u64);
        }
        self.file.append(&text).map_err(Broken::Store)?;
        self.documents.push((text, document));
        Ok(number)
    }
}
