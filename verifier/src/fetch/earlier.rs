//! What was there before: an earlier bundle of the log, and the question whether the log still honours it.
//!
//! The question is put before anything is taken from it, to the log's own tiles, and answered by the witness's rule.

use super::bundle_dir::BundleDir;
use crate::failure::{Failure, unreadable, usage};
use crate::rooted::{Found, Rooted};
use audit::quote::{one_line, quoted};
use client::{FetchError, LogClient};
use cosign::{Comparison, LogFork, compare, tiles_needed};
use merkle::{ResourcePath, RootHash, TileSet, TreeSize, root_of, tiles_for_consistency};
use note::{MAX_NOTE_LEN, SignedCheckpoint, Verified, VerifierKey};
use std::path::Path;

/// An earlier bundle of the same log.
pub(super) struct Earlier {
    pub(super) root: Rooted,
    pub(super) head: SignedCheckpoint<Verified>,
}

/// How the log's new head stands to one that it signed before.
pub(super) enum Standing {
    /// It contains it.
    Honoured,
    /// It is contained in it: the log shows less than it did.
    WentBack,
    /// The log signed two histories.
    Fork(Box<LogFork>),
    /// Neither is shown, in a sentence.
    Unproven(String),
}

impl Earlier {
    /// Opens an earlier bundle and refuses one of another log.
    pub(super) fn open(path: &Path, log: &VerifierKey) -> Result<Earlier, Failure> {
        let shown = path.display();
        if path.is_file() {
            return Err(usage(format!("{shown} is no directory; unpack it, and give --since the directory")));
        }
        let cannot = |error: std::io::Error| unreadable(format!("cannot read {shown}: {error}"));
        let root = Rooted::open(path).map_err(cannot)?;
        let Found::File(bytes) = root.read("log/checkpoint", MAX_NOTE_LEN as u64).map_err(cannot)? else {
            return Err(unreadable(format!(
                "{shown} holds no log/checkpoint, so it is no bundle that was fetched to the end; finish it first, or leave --since out"
            )));
        };
        Ok(Earlier { root, head: head_of(&bytes, log).map_err(|why| refused(path, &why))? })
    }
}

/// The head in the bundle that is fetched into, if it has one.
pub(super) fn held_head(
    dir: &BundleDir,
    path: &Path,
    log: &VerifierKey,
) -> Result<Option<SignedCheckpoint<Verified>>, Failure> {
    let held = dir.read("log/checkpoint", MAX_NOTE_LEN as u64)?;
    held.map(|bytes| head_of(&bytes, log)).transpose().map_err(|why| refused(path, &why))
}

fn head_of(bytes: &[u8], log: &VerifierKey) -> Result<SignedCheckpoint<Verified>, String> {
    let head = SignedCheckpoint::parse(bytes).map_err(|error| one_line(&error.to_string()))?;
    let origin = quoted(head.claimed().origin.as_str());
    head.verify(log).map_err(|error| format!("its origin is {origin}, and {}", one_line(&error.to_string())))
}

fn refused(path: &Path, why: &str) -> Failure {
    usage(format!(
        "the head in {} is none of the log in the policy: {why}; give the bundle of this log, or none",
        path.display()
    ))
}

/// Asks the log's tiles, or those of the earlier bundle where the log shows less than it did. `local` reads that bundle.
pub(super) async fn stand(
    client: &LogClient,
    local: impl Fn(&str, u64) -> Option<Vec<u8>>,
    before: &SignedCheckpoint<Verified>,
    now: &SignedCheckpoint<Verified>,
) -> Result<Standing, FetchError> {
    let (size_before, size_now) = (before.checkpoint().size, now.checkpoint().size);
    let needed = tiles_needed(size_before, size_now);
    let tiles = if size_before <= size_now {
        match client.tiles(&needed).await {
            Err(error) if error.is_missing() => return Ok(Standing::Unproven(error.to_string())),
            other => other?,
        }
    } else {
        let mut tiles = TileSet::new();
        for tile in needed {
            let copies = [tile, tile.full()].map(|tile| ResourcePath::Tile(tile).to_string());
            let copy = copies.iter().find_map(|path| local(&format!("log/{path}"), tile.full().byte_len() as u64));
            // What is missing or too short the comparison says.
            let _ = tiles.insert(tile, copy.unwrap_or_default().get(..tile.byte_len()).unwrap_or_default());
        }
        tiles
    };
    Ok(match compare(before, now, &tiles) {
        Comparison::Consistent if size_before <= size_now => Standing::Honoured,
        Comparison::Consistent => Standing::WentBack,
        Comparison::Fork(evidence) => Standing::Fork(evidence),
        Comparison::Unproven(why) => Standing::Unproven(why.to_string()),
    })
}

/// Whether a tiled log whose key nobody named, a journal, still contains what it showed before: by its own tiles.
pub(super) async fn grew(
    client: &LogClient,
    (size_before, root_before): (u64, RootHash),
    (size_now, root_now): (u64, RootHash),
) -> Result<bool, FetchError> {
    if size_before > size_now || (size_before == size_now && root_before != root_now) {
        return Ok(false);
    }
    if size_before == size_now || size_before == 0 {
        return Ok(true);
    }
    let (before, now) = (TreeSize(size_before), TreeSize(size_now));
    let tiles = client.tiles(&tiles_for_consistency(before, now)).await?;
    Ok(root_of(&tiles, now) == Ok(root_now) && root_of(&tiles, before) == Ok(root_before))
}
