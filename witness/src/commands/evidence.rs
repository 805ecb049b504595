//! `counterfoil-witness evidence list` and `show`: what a witness holds against logs and witnesses, checked here.
//!
//! Every document is checked before a word of it is repeated, by the same code as the auditor's and without the network:
//! what a document says counts, not who serves it. Holds the calls and the wording. Does not hold the checks (`audit`).

use crate::arguments::{EvidenceList, EvidenceShow};
use crate::inquiry::{self, InquiryError};
use audit::quote::plain;
use audit::{EvidenceError, ProvenEvidence, check_evidence};
use client::{AddressError, BoundedClient, FetchError, Timeouts, WitnessClient};
use serde::Serialize;
use service::ExitStatus;
use service::output::Output;
use service::wrap::hanging;
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;
use store::EVIDENCE_PAGE;

/// How long each request may take. A full page of the longest documents (64 MiB) at 1 MB/s.
const PATIENCE: Timeouts = Timeouts { connect: Duration::from_secs(5), total: Duration::from_secs(60) };

/// Most pages that are listed: more evidence than a witness keeps of 1,024 logs, unless it never ends.
const MAX_PAGES: u64 = 64;

/// Why there is no evidence to show.
#[derive(Debug, thiserror::Error)]
pub(crate) enum EvidenceFailure {
    /// The address.
    #[error(transparent)]
    Address(#[from] AddressError),
    /// Nobody there, or no witness.
    #[error(transparent)]
    Inquiry(#[from] InquiryError),
    /// Fewer documents than it says it holds.
    #[error("{url} says that it holds {held} documents of evidence and serves {served}; ask again, or whoever runs it")]
    Fewer {
        /// Which witness.
        url: String,
        /// By its status.
        held: u64,
        /// How many came.
        served: u64,
    },
    /// The witness.
    #[error(transparent)]
    Fetch(#[from] FetchError),
    /// No document of that number.
    #[error("the witness has no evidence {0}; `counterfoil-witness evidence list` says what it has")]
    None(u64),
    /// The file.
    #[error("cannot write {path}: {source}; an existing file is never overwritten")]
    Out {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// No runtime.
    #[error("this machine gives no resources for requests: {0}")]
    System(#[from] io::Error),
}

impl EvidenceFailure {
    /// Wrong usage, or a failure.
    pub(crate) fn status(&self) -> ExitStatus {
        match self {
            Self::Address(_) => ExitStatus::Usage,
            _ => ExitStatus::Failed,
        }
    }
}

/// One document, checked.
#[derive(Debug, Serialize)]
struct Checked {
    number: u64,
    #[serde(flatten)]
    finding: Finding,
}

/// What its check found.
#[derive(Debug, Serialize)]
#[serde(untagged)]
enum Finding {
    Shown {
        kind: &'static str,
        /// Whose key it accuses.
        accused: String,
        shown: String,
        not_shown: String,
    },
    NothingShown {
        reason: String,
        /// Whether another version, or a reader who knows more keys, might see more in it.
        not_checked: bool,
    },
}

/// Prints what each document shows.
pub(crate) fn list(call: &EvidenceList) -> Result<ExitStatus, EvidenceFailure> {
    let witness = witness(&call.url)?;
    let documents = runtime()?.block_on(async {
        let held = inquiry::status(&witness).await?.evidence;
        let mut documents = Vec::new();
        for page in 0..MAX_PAGES {
            let more = witness.evidence_page(page).await?;
            let full = more.len() == EVIDENCE_PAGE;
            documents.extend(more);
            if !full {
                break;
            }
        }
        let served = documents.len() as u64;
        if served < held.min(MAX_PAGES * EVIDENCE_PAGE as u64) {
            return Err(EvidenceFailure::Fewer { url: call.url.clone(), held, served });
        }
        Ok(documents)
    })?;
    let checked: Vec<Checked> = (0..).zip(&documents).map(|(number, text)| Checked::of(number, text)).collect();
    Output::new(call.json).print(&checked, |out| write_list(&checked, &call.url, out));
    Ok(worst(&checked))
}

/// Prints one document, or writes it to a file.
pub(crate) fn show(call: &EvidenceShow) -> Result<ExitStatus, EvidenceFailure> {
    let witness = witness(&call.url)?;
    let page = EVIDENCE_PAGE as u64;
    let documents = runtime()?.block_on(async {
        inquiry::status(&witness).await?;
        Ok::<_, EvidenceFailure>(witness.evidence_page(call.number / page).await?)
    })?;
    let place = usize::try_from(call.number % page).unwrap_or(usize::MAX);
    let document = documents.get(place).ok_or(EvidenceFailure::None(call.number))?;
    let checked = Checked::of(call.number, document);
    if let Some(path) = &call.out {
        write_new(path, document).map_err(|source| EvidenceFailure::Out { path: path.clone(), source })?;
    }
    #[derive(Serialize)]
    struct Whole<'a> {
        #[serde(flatten)]
        checked: &'a Checked,
        document: &'a str,
    }
    let whole = Whole { checked: &checked, document };
    Output::new(call.json).print(&whole, |out| write_one(&checked, document, call.out.as_deref(), out));
    Ok(worst(std::slice::from_ref(&checked)))
}

impl Checked {
    fn of(number: u64, document: &str) -> Checked {
        let finding = match check_evidence(document, &[]) {
            Ok(ProvenEvidence { kind, key, sentence, not_shown, demand: None }) => {
                Finding::Shown { kind, accused: key.to_string(), shown: sentence, not_shown }
            }
            Ok(ProvenEvidence { kind, sentence, .. }) => Finding::NothingShown {
                reason: format!("{kind} by itself convicts nobody; {sentence}"),
                not_checked: true,
            },
            Err(error) => Finding::NothingShown {
                reason: error.to_string(),
                not_checked: matches!(error, EvidenceError::UnknownKind(_) | EvidenceError::NeedsKey { .. }),
            },
        };
        Checked { number, finding }
    }
}

/// A document that shows nothing is a failure of the witness that serves it; one that was not checked may show something.
fn worst(checked: &[Checked]) -> ExitStatus {
    let found = |wanted: bool| {
        checked
            .iter()
            .any(|one| matches!(one.finding, Finding::NothingShown { not_checked, .. } if not_checked == wanted))
    };
    if found(false) {
        ExitStatus::Failed
    } else if found(true) {
        ExitStatus::NotChecked
    } else {
        ExitStatus::Ok
    }
}

fn write_list(checked: &[Checked], url: &str, out: &mut dyn Write) -> io::Result<()> {
    if checked.is_empty() {
        return writeln!(out, "{url} holds no evidence against anybody");
    }
    for one in checked {
        let said = match &one.finding {
            Finding::Shown { kind, shown, .. } => format!("{kind}: {shown}"),
            Finding::NothingShown { reason, .. } => format!("shows nothing: {reason}"),
        };
        lines(out, &format!("{:>5}  ", one.number), &said)?;
    }
    writeln!(out, "\nnext   counterfoil-witness evidence show N --out FILE \\\n         --url {url}")
}

fn write_one(checked: &Checked, document: &str, written: Option<&Path>, out: &mut dyn Write) -> io::Result<()> {
    match &checked.finding {
        Finding::Shown { kind, accused, shown, not_shown } => {
            lines(out, "", &format!("{kind}: {shown}"))?;
            lines(out, "accused    ", accused)?;
            lines(out, "not shown  ", not_shown)?;
            let next = "compare the key with the one you know; the document proves nothing about any other";
            lines(out, "next       ", next)?;
        }
        Finding::NothingShown { reason, .. } => {
            lines(out, "", &format!("evidence {} shows nothing: {reason}", checked.number))?;
        }
    }
    match written {
        Some(path) => {
            writeln!(out, "written    {}; whoever it is shown to checks it with", path.display())?;
            writeln!(out, "           counterfoil-verify evidence {}", path.display())
        }
        None => writeln!(out, "\n{document}"),
    }
}

/// `text`, most of which the witness wrote, within the width of a screen.
fn lines(out: &mut dyn Write, head: &str, text: &str) -> io::Result<()> {
    hanging(head, &plain(text)).iter().try_for_each(|line| writeln!(out, "{line}"))
}

fn write_new(path: &Path, document: &str) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).open(path)?;
    writeln!(file, "{document}")?;
    file.sync_all()
}

fn witness(url: &str) -> Result<WitnessClient, EvidenceFailure> {
    Ok(WitnessClient::new(url.parse()?, BoundedClient::new(PATIENCE)?))
}

fn runtime() -> io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()
}
