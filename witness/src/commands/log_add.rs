//! `counterfoil-witness log add`: a log is looked at before it is watched.
//!
//! Holds what is asked of the log and what is said of it: that it is there, that the key is its key, that its newest head has
//! the root that its tiles hash to, and whose cosignatures it shows. Does not hold the file (`settings::file`).

use crate::arguments::LogAdd;
use crate::broken::Broken;
use crate::clock::Clock;
use crate::commands::log_list::reach_note;
use crate::evidence::{self, NotAcknowledgeable};
use crate::full::{IssuersError, read_issuers};
use crate::journal::fold::SeenHead;
use crate::journal::line::MAX_HEAD_LEN;
use crate::settings::file::{self, EditError};
use crate::settings::{EntryFault, LogSettings, Settings, SettingsError, WatchedLog, watched_log};
use crate::status::age;
use client::{BoundedClient, FetchError, LogClient, Timeouts};
use merkle::{MissingHash, RootHash, TreeSize, root_of, tiles_for_root};
use note::{CheckpointError, CosignatureLine, SignedCheckpoint, Verified};
use serde::Serialize;
use service::ExitStatus;
use service::config::{ConfigError, Flags, Loaded};
use service::output::Output;
use std::io::{self, Write};
use std::time::Duration;

/// How long each request may take. Whoever adds a log waits for it.
const PATIENCE: Timeouts = Timeouts { connect: Duration::from_secs(5), total: Duration::from_secs(20) };

/// Why a log was not added.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AddError {
    /// The configuration.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A list in the configuration.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// What was given.
    #[error("{0}")]
    Entry(#[from] EntryFault),
    /// The file.
    #[error(transparent)]
    Edit(#[from] EditError),
    /// The environment has the logs, so the file's are not read.
    #[error("the environment sets `log`, so the logs in {0} are not read; unset COUNTERFOIL_LOG, or add the log there")]
    Overridden(String),
    /// The list of issuers.
    #[error(transparent)]
    Issuers(#[from] IssuersError),
    /// What is acknowledged.
    #[error(transparent)]
    Acknowledged(#[from] NotAcknowledgeable),
    /// The evidence cannot be looked at.
    #[error("cannot tell whether there is such evidence: {0}")]
    Evidence(#[from] Broken),
    /// The log is not there, or not as a log is.
    #[error("the log was not added: {0}")]
    Fetch(#[from] FetchError),
    /// What it offers is not its head.
    #[error("the log was not added, for what it offers is not its signed head: {0}")]
    Head(#[from] CheckpointError),
    /// Its head is longer than the journal keeps.
    #[error(
        "the log was not added: its head is longer than the {MAX_HEAD_LEN} bytes that a journal keeps of one; its extension lines must go"
    )]
    HeadTooLong,
    /// Its tiles are another tree's.
    #[error("the log was not added: {0}")]
    Tiles(String),
    /// No runtime.
    #[error("this machine gives no resources for requests: {0}")]
    System(#[from] io::Error),
}

impl AddError {
    /// Wrong usage, or a failure.
    pub(crate) fn status(&self) -> ExitStatus {
        match self {
            Self::Config(_)
            | Self::Settings(_)
            | Self::Entry(_)
            | Self::Overridden(_)
            | Self::Acknowledged(_)
            | Self::Issuers(_) => ExitStatus::Usage,
            Self::Edit(EditError::NotTaken { .. } | EditError::Settings(_)) => ExitStatus::Usage,
            _ => ExitStatus::Failed,
        }
    }
}

/// What was found and done.
#[derive(Debug, Serialize)]
struct Added {
    origin: String,
    url: Option<String>,
    config: String,
    /// The head that the log offers; absent for a log that only pushes, which cannot be asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    head: Option<FoundHead>,
}

/// A head that was found good.
#[derive(Debug, Serialize)]
struct FoundHead {
    size: u64,
    /// Base64.
    root: String,
    /// Lines that are not the log's, unchecked: whose keys they are is not known here.
    cosignatures: Vec<FoundLine>,
}

/// One line under another name than the log's.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct FoundLine {
    name: String,
    key_id: String,
    /// The time it states, seconds since the epoch, where it has the form of a cosignature.
    #[serde(skip_serializing_if = "Option::is_none")]
    time: Option<u64>,
}

/// Looks at the log and adds it.
pub(crate) fn run(call: &LogAdd) -> Result<ExitStatus, AddError> {
    let loaded: Loaded<Settings> = service::config::load(Some(&call.config), Flags::new())?;
    let entry = LogSettings {
        vkey: call.vkey.clone(),
        url: call.url.clone(),
        private_address: call.private_address,
        accept_pushes: call.accept_pushes,
        // The file's paths begin at the file, the command line's here.
        issuers: call.issuers.as_ref().map(std::path::absolute).transpose()?,
        acknowledged_evidence: call.acknowledge.iter().copied().collect(),
    };
    let log = watched_log(&entry, loaded.values.level)?;
    if file::logs_without(&call.config, &log, loaded.values.level)? != loaded.values.watched_logs()? {
        return Err(AddError::Overridden(call.config.display().to_string()));
    }
    check_files(&loaded, &log)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let head = runtime.block_on(look_at(&log))?;
    file::append(&call.config, &entry, &log, loaded.values.level)?;
    let added = Added {
        origin: log.vkey.name().to_string(),
        url: log.url.as_ref().map(ToString::to_string),
        config: call.config.display().to_string(),
        head,
    };
    let now_s = Clock::system().now_ms() / 1000;
    Output::new(call.json).print(&added, |out| write_words(&added, &log, now_s, out));
    Ok(ExitStatus::Ok)
}

/// What the entry speaks of must be there now: a witness that runs would refuse the whole file.
fn check_files(loaded: &Loaded<Settings>, log: &WatchedLog) -> Result<(), AddError> {
    if let Some(issuers) = &log.issuers {
        read_issuers(&loaded.resolve(issuers))?;
    }
    if !log.acknowledged_evidence.is_empty() {
        let documents = evidence::look(&loaded.resolve(&loaded.values.state))?;
        evidence::check_acknowledged(log, |place| documents.get(place))?;
    }
    Ok(())
}

/// Fetches the head and what it takes to see that its root is the root of the tree that the log serves.
async fn look_at(log: &WatchedLog) -> Result<Option<FoundHead>, AddError> {
    let Some(url) = log.url.clone() else { return Ok(None) };
    let client = LogClient::new(url, BoundedClient::with_reach(PATIENCE, log.reach)?);
    let head = SignedCheckpoint::parse(&client.checkpoint().await?)?.verify(&log.vkey)?;
    if SeenHead::is_too_long(&head) {
        return Err(AddError::HeadTooLong);
    }
    let size = head.checkpoint().size;
    let tiles = client.tiles(&tiles_for_root(size, size)).await?;
    check_root(head.checkpoint().root, size, root_of(&tiles, size)).map_err(AddError::Tiles)?;
    Ok(Some(FoundHead {
        size: size.0,
        root: head.checkpoint().root.0.to_base64(),
        cosignatures: lines_of_others(&head),
    }))
}

/// Nothing that goes wrong here accuses the log: what is between us may have changed the tiles.
fn check_root(signed: RootHash, size: TreeSize, found: Result<RootHash, MissingHash>) -> Result<(), String> {
    match found {
        Ok(root) if root == signed => Ok(()),
        Ok(_) => Err(format!(
            "the tiles it serves for size {size} hash to another root than the one it signed; a mirror or cache in between may have changed them, try again or ask the log's operator"
        )),
        Err(missing) => Err(format!("its tiles for size {size} are not whole ({missing}); ask the log's operator")),
    }
}

fn lines_of_others(head: &SignedCheckpoint<Verified>) -> Vec<FoundLine> {
    let others = head.note().signatures().iter().filter(|line| !line.claims(head.log_key()));
    let found = others.map(|line| FoundLine {
        name: line.name.to_string(),
        key_id: line.key_id.to_string(),
        time: CosignatureLine::try_from(line).ok().map(|line| line.timestamp_s()),
    });
    found.collect()
}

fn write_words(added: &Added, log: &WatchedLog, now_s: u64, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "log        {}{}", added.origin, reach_note(log))?;
    match &added.head {
        None => writeln!(out, "           not asked: it has no url and will push its heads")?,
        Some(head) => {
            writeln!(out, "head       size {}, root {}", head.size, head.root)?;
            writeln!(out, "           signed by this key, and its tiles hash to this root")?;
            for line in &head.cosignatures {
                let when = line.time.map(|time| format!(", {} ago", age(now_s, time))).unwrap_or_default();
                writeln!(out, "cosigned   {} ({}){when}, not checked here", line.name, line.key_id)?;
            }
            if head.cosignatures.is_empty() {
                writeln!(out, "cosigned   by nobody yet")?;
            }
        }
    }
    writeln!(out, "added to   {}", added.config)?;
    writeln!(
        out,
        "next       a witness that runs takes it up at SIGHUP (systemctl reload\n           counterfoil-witness), any other at its start"
    )
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;
    use merkle::{Hash, HashSource, MemoryTree, leaf_hash};

    #[test]
    fn tiles_of_another_tree_or_none_at_all_are_told_without_blame() {
        let mut tree = MemoryTree::new();
        tree.push(leaf_hash(b"a"));
        let (root, size) = (tree.root(), TreeSize(1));
        assert_eq!(check_root(root, size, root_of(&tree, size)), Ok(()));
        let other = check_root(RootHash(Hash([1; 32])), size, root_of(&tree, size)).unwrap_err();
        assert!(other.contains("a mirror or cache"), "{other}");
        assert!(tree.subtree(0, 1).is_none());
        assert!(check_root(root, TreeSize(2), root_of(&tree, TreeSize(2))).unwrap_err().contains("not whole"));
    }
}
