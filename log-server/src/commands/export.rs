//! `counterfoil-log export`: a static copy of a log that any web server or bucket can serve, at the same paths.
//!
//! ```text
//! tile/entries/…  tile/<L>/…  heads/…  v1/evidence/<N>  v1/issuers  and, when all of it is durable: checkpoint
//! ```
//!
//! Every file is written under another name and renamed. What is read is compared with what is above it in the tree, up
//! to the head that the copy is of.

use super::PROGRAM;
use super::place::{self, PlaceError};
use crate::arguments::Export;
use crate::issuers_file::{self, IssuersError};
use client::wire;
use merkle::{PageId, ResourcePath, RootHash, TILE_WIDTH, TileId, TreeSize, root_of};
use note::{SignedCheckpoint, VerifierKey};
use rayon::prelude::*;
use serde::Serialize;
use service::ExitStatus;
use service::output::{Output, complain};
use service::progress::Progress;
use std::collections::HashSet;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use store::{EVIDENCE_PAGE, Snapshot, StoreError};

#[derive(Debug, thiserror::Error)]
enum ExportError {
    #[error(transparent)]
    Place(#[from] PlaceError),
    #[error("the log could not be read: {0}")]
    Open(StoreError),
    #[error("the copy was left as it was: {0}; run `counterfoil-log fsck` when the log has stopped")]
    Read(StoreError),
    #[error("the log has signed no head yet; start it once")]
    NoHead,
    #[error("the hashes on disk do not lead to the newest head, and nothing was copied; run `counterfoil-log fsck`")]
    WrongRoot,
    #[error(transparent)]
    Issuers(#[from] IssuersError),
    #[error("{0} holds a copy of something else: {1}; give an empty directory, or find out what it is")]
    OtherCopy(PathBuf, String),
    #[error("cannot write {0}: {1}")]
    Write(PathBuf, std::io::Error),
}

#[derive(Serialize)]
struct Report {
    origin: String,
    out: PathBuf,
    size: u64,
    heads: u64,
    issuers: usize,
    evidence: u64,
    files_written: u64,
}

#[derive(Serialize)]
struct ListedIssuer {
    #[serde(flatten)]
    issuer: wire::Issuer,
    /// Whether the operator's list names it.
    listed: bool,
}

#[derive(Serialize)]
struct IssuerList {
    issuers: Vec<ListedIssuer>,
}

pub(crate) fn export(arguments: &Export) -> ExitStatus {
    match copy(arguments) {
        Ok(report) => {
            Output::new(arguments.json).print(&report, |to| {
                writeln!(
                    to,
                    "{}: {} entries, {} heads, {} issuers, {} evidence documents in {}; {} files written",
                    report.origin,
                    report.size,
                    report.heads,
                    report.issuers,
                    report.evidence,
                    report.out.display(),
                    report.files_written
                )
            });
            ExitStatus::Ok
        }
        Err(error) => {
            complain(PROGRAM, &error);
            match error {
                ExportError::Place(error) => error.status(),
                ExportError::Open(_) => ExitStatus::Unreadable,
                _ => ExitStatus::Failed,
            }
        }
    }
}

fn copy(arguments: &Export) -> Result<Report, ExportError> {
    let place = place::find(&arguments.dir, arguments.log_key.as_deref())?;
    let log = Snapshot::open(&place.store, &place.key).map_err(ExportError::Open)?;
    let checkpoint = log.log().latest_head().ok_or(ExportError::NoHead)?;
    let head = SignedCheckpoint::parse(&checkpoint).and_then(|head| head.verify(&place.key));
    let root = head.map_err(|_| ExportError::WrongRoot)?.checkpoint().root;
    let size = log.log().size();
    if root_of(log.log(), size).ok() != Some(root) {
        return Err(ExportError::WrongRoot);
    }
    let copy = StaticCopy::new(&arguments.out);
    copy.check_what_is_there(&place.key, &log)?;

    let heads = log.log().head_count();
    let progress = Progress::new(size.0, "entries copied");
    let pages = PageId::all(size.0).map(|page| (ResourcePath::Entries(page), u64::from(page.width)));
    let tiles = TileId::all(size).map(|tile| (ResourcePath::Tile(tile), 0));
    let head_pages = PageId::all(heads).map(|page| (ResourcePath::Heads(page), 0));
    pages.chain(tiles).chain(head_pages).par_bridge().try_for_each(|(path, entries)| {
        copy.resource(&log, &path)?;
        progress.advance(entries);
        Ok::<(), ExportError>(())
    })?;
    drop(progress);
    let evidence = copy.evidence(&log)?;
    let issuers = issuers_of(&log, &place.issuers)?;
    let count = issuers.issuers.len();
    let list = serde_json::to_vec(&issuers).map_err(|error| copy.failed("v1/issuers", error.into()))?;
    copy.write("v1/issuers", &list)?;
    copy.sync_names()?;
    copy.write("checkpoint", &checkpoint)?;
    copy.sync_names()?;
    copy.remove_outgrown()?;
    Ok(Report {
        origin: place.key.name().to_string(),
        out: arguments.out.clone(),
        size: size.0,
        heads,
        issuers: count,
        evidence,
        files_written: copy.written.load(Ordering::Relaxed),
    })
}

/// What `/v1/issuers` answers, but for what only a running log knows.
fn issuers_of(log: &Snapshot, list: &Path) -> Result<IssuerList, ExportError> {
    let listed = issuers_file::read(list, None)?;
    let is_listed = |name: &str| listed.iter().any(|key| key.name().as_str() == name);
    let mut issuers: Vec<ListedIssuer> = Vec::new();
    for stream in log.streams().map_err(ExportError::Read)? {
        let name = stream.issuer.to_string();
        let listed = is_listed(&name);
        let issuer = wire::Issuer {
            name,
            vkey: stream.vkey,
            next_seq: stream.count,
            head: stream.head.to_string(),
            last_issued_at: Some(stream.last_issued_at.0),
            closed: stream.closed,
            first_index: Some(stream.first.0),
            last_index: Some(stream.last.0),
        };
        issuers.push(ListedIssuer { issuer, listed });
    }
    let with_receipts: HashSet<String> = issuers.iter().map(|listed| listed.issuer.name.clone()).collect();
    for key in listed.iter().filter(|key| !with_receipts.contains(key.name().as_str())) {
        let issuer = wire::Issuer {
            name: key.name().to_string(),
            vkey: key.to_string(),
            next_seq: 0,
            head: receipt::ReceiptId::NONE.to_string(),
            last_issued_at: None,
            closed: false,
            first_index: None,
            last_index: None,
        };
        issuers.push(ListedIssuer { issuer, listed: true });
    }
    issuers.sort_by(|one, other| one.issuer.name.as_bytes().cmp(other.issuer.name.as_bytes()));
    Ok(IssuerList { issuers })
}

/// The directory that is written.
struct StaticCopy<'a> {
    out: &'a Path,
    written: AtomicU64,
    /// Directories in which names are new.
    touched: Mutex<HashSet<PathBuf>>,
    /// Directories of partial pages whose full page is there now.
    outgrown: Mutex<Vec<PathBuf>>,
}

impl<'a> StaticCopy<'a> {
    fn new(out: &'a Path) -> Self {
        Self { out, written: AtomicU64::new(0), touched: Mutex::default(), outgrown: Mutex::default() }
    }

    /// A copy that is there already must be of this log, and of an earlier moment of it.
    fn check_what_is_there(&self, key: &VerifierKey, log: &Snapshot) -> Result<(), ExportError> {
        let other = |why: &str| Err(ExportError::OtherCopy(self.out.to_owned(), why.to_owned()));
        let bytes = match fs::read(self.out.join("checkpoint")) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(self.failed("checkpoint", error)),
        };
        let Ok(head) = SignedCheckpoint::parse(&bytes).and_then(|head| head.verify(key)) else {
            return other("its checkpoint is not this log's");
        };
        let (size, root): (TreeSize, RootHash) = (head.checkpoint().size, head.checkpoint().root);
        if size > log.log().size() {
            return other("its checkpoint is newer than this log: was the log restored from a backup?");
        }
        if root_of(log.log(), size).ok() != Some(root) {
            return other("its checkpoint is of another history than this log's");
        }
        Ok(())
    }

    /// A tile, a bundle or a page of heads; a full one that is there is left alone.
    fn resource(&self, log: &Snapshot, path: &ResourcePath) -> Result<(), ExportError> {
        let name = path.to_string();
        let width = match path {
            ResourcePath::Tile(tile) => tile.width,
            ResourcePath::Entries(page) | ResourcePath::Heads(page) => page.width,
            ResourcePath::Checkpoint => return Ok(()),
        };
        let is_full = width == TILE_WIDTH;
        if is_full && fs::metadata(self.out.join(&name)).is_ok_and(|file| file.len() == log.byte_len(path)) {
            return Ok(());
        }
        let Some(bytes) = log.log().resource(path).map_err(ExportError::Read)? else { return Ok(()) };
        self.write(&name, &bytes)?;
        if is_full {
            let partial = self.out.join(format!("{name}.p"));
            self.outgrown.lock().unwrap_or_else(PoisonError::into_inner).push(partial);
        }
        Ok(())
    }

    /// All pages of evidence, and the empty one behind them. Answers how many documents there are.
    fn evidence(&self, log: &Snapshot) -> Result<u64, ExportError> {
        let mut count = 0;
        for page in 0.. {
            let documents = log.evidence_page(page).map_err(ExportError::Read)?;
            let lines: String = documents.iter().flat_map(|document| [document.as_str(), "\n"]).collect();
            let name = format!("v1/evidence/{page}");
            let is_there = || fs::metadata(self.out.join(&name)).is_ok_and(|file| file.len() == lines.len() as u64);
            if documents.len() < EVIDENCE_PAGE || !is_there() {
                self.write(&name, lines.as_bytes())?;
            }
            count += documents.len() as u64;
            if documents.is_empty() {
                break;
            }
        }
        Ok(count)
    }

    /// Writes a file under another name, and gives it its name when it is durable.
    fn write(&self, name: &str, bytes: &[u8]) -> Result<(), ExportError> {
        let path = self.out.join(name);
        let dir = path.parent().unwrap_or(self.out).to_owned();
        let file_name = path.file_name().unwrap_or_default().to_string_lossy();
        let unfinished = dir.join(format!(".{file_name}.being-made"));
        let write = || {
            fs::create_dir_all(&dir)?;
            let mut file = File::create(&unfinished)?;
            file.write_all(bytes)?;
            file.sync_all()?;
            fs::rename(&unfinished, &path)
        };
        write().map_err(|error| self.failed(name, error))?;
        self.written.fetch_add(1, Ordering::Relaxed);
        self.touched.lock().unwrap_or_else(PoisonError::into_inner).insert(dir);
        Ok(())
    }

    /// Makes the new names durable, and those of the directories that they are in.
    fn sync_names(&self) -> Result<(), ExportError> {
        let touched = std::mem::take(&mut *self.touched.lock().unwrap_or_else(PoisonError::into_inner));
        let all: HashSet<&Path> =
            touched.iter().flat_map(|dir| dir.ancestors().take_while(|dir| dir.starts_with(self.out))).collect();
        all.into_iter().try_for_each(|dir| {
            File::open(dir).and_then(|dir| dir.sync_all()).map_err(|error| ExportError::Write(dir.to_owned(), error))
        })
    }

    /// Who reads an older checkpoint takes the full page instead (tlog-tiles, "Partial Tiles").
    fn remove_outgrown(&self) -> Result<(), ExportError> {
        let outgrown = std::mem::take(&mut *self.outgrown.lock().unwrap_or_else(PoisonError::into_inner));
        outgrown.into_iter().try_for_each(|dir| match fs::remove_dir_all(&dir) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(ExportError::Write(dir, error)),
            _ => Ok(()),
        })
    }

    fn failed(&self, name: &str, error: std::io::Error) -> ExportError {
        ExportError::Write(self.out.join(name), error)
    }
}
