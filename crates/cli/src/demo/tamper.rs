//! What a dishonest operator does to a bundle before an auditor gets it.
//!
//! The forgeries are as good as they can be without the log's key: bundles, tiles and lists of heads agree
//! with each other; only what somebody signed does not.

use super::DemoError;
use merkle::{HASH_LEN, PageId, ResourcePath, TILE_WIDTH, TileId};
use std::fs;
use std::path::{Path, PathBuf};

/// Copies a directory tree of plain files.
pub(super) fn copy_tree(from: &Path, to: &Path) -> Result<(), DemoError> {
    fs::create_dir_all(to).map_err(|error| DemoError::io(to, error))?;
    for entry in fs::read_dir(from).map_err(|error| DemoError::io(from, error))? {
        let entry = entry.map_err(|error| DemoError::io(from, error))?;
        let (source, target) = (entry.path(), to.join(entry.file_name()));
        if source.is_dir() {
            copy_tree(&source, &target)?;
        } else {
            fs::copy(&source, &target).map_err(|error| DemoError::io(&source, error))?;
        }
    }
    Ok(())
}

/// Takes the entry at `index` out of a bundle of fewer than 256 entries and closes the ranks behind it.
pub(super) fn cut_entry(bundle: &Path, index: usize) -> Result<(), DemoError> {
    rewrite_page(bundle, ResourcePath::Entries, |entries| drop(entries.remove(index)))?;
    rewrite_leaf_tile(bundle, |hashes| drop(hashes.drain(index * HASH_LEN..(index + 1) * HASH_LEN)))
}

/// Leaves the newest heads out of a bundle of fewer than 256 entries and heads, with the entries that only they
/// cover: the bundle of an earlier day.
pub(super) fn leave_out_heads(bundle: &Path, keep: impl Fn(&[u8]) -> Option<u64>) -> Result<(), DemoError> {
    let mut newest = (0, Vec::new());
    rewrite_page(bundle, ResourcePath::Heads, |heads| {
        heads.retain(|head| keep(head).is_some());
        if let Some(head) = heads.last() {
            newest = (keep(head).unwrap_or(0), head.clone());
        }
    })?;
    let (size, head) = newest;
    let size = usize::try_from(size).map_err(|_| DemoError::Bundle(bundle.to_owned()))?;
    let checkpoint = bundle.join("log/checkpoint");
    fs::write(&checkpoint, head).map_err(|error| DemoError::io(&checkpoint, error))?;
    rewrite_page(bundle, ResourcePath::Entries, |entries| entries.truncate(size))?;
    rewrite_leaf_tile(bundle, |hashes| hashes.truncate(size * HASH_LEN))
}

/// Changes the only page of its kind and files it under its new width.
fn rewrite_page(
    bundle: &Path,
    kind: fn(PageId) -> ResourcePath,
    change: impl FnOnce(&mut Vec<Vec<u8>>),
) -> Result<(), DemoError> {
    let (old, bytes) = only_page(bundle, kind)?;
    let damaged = || DemoError::Bundle(bundle.to_owned());
    let mut items: Vec<Vec<u8>> =
        merkle::decode_entries(&bytes).map_err(|_| damaged())?.into_iter().map(<[u8]>::to_vec).collect();
    change(&mut items);
    let mut bytes = Vec::new();
    for item in &items {
        merkle::encode_entry(&mut bytes, item).map_err(|_| damaged())?;
    }
    let page = PageId::at(0, items.len() as u64).ok_or_else(damaged)?;
    replace(&old, &resource_file(bundle, kind(page)), &bytes)
}

fn rewrite_leaf_tile(bundle: &Path, change: impl FnOnce(&mut Vec<u8>)) -> Result<(), DemoError> {
    let tile = |page: PageId| ResourcePath::Tile(TileId { level: 0, index: page.index, width: page.width });
    let (old, mut hashes) = only_page(bundle, tile)?;
    change(&mut hashes);
    let page = PageId::at(0, (hashes.len() / HASH_LEN) as u64).ok_or_else(|| DemoError::Bundle(bundle.to_owned()))?;
    replace(&old, &resource_file(bundle, tile(page)), &hashes)
}

/// The file and the bytes of the widest page 0 of a kind.
fn only_page(bundle: &Path, kind: impl Fn(PageId) -> ResourcePath) -> Result<(PathBuf, Vec<u8>), DemoError> {
    for width in (1..=TILE_WIDTH).rev() {
        let file = resource_file(bundle, kind(PageId { index: 0, width }));
        if file.is_file() {
            let bytes = fs::read(&file).map_err(|error| DemoError::io(&file, error))?;
            return Ok((file, bytes));
        }
    }
    Err(DemoError::Bundle(bundle.to_owned()))
}

fn replace(old: &Path, new: &Path, bytes: &[u8]) -> Result<(), DemoError> {
    fs::remove_file(old).map_err(|error| DemoError::io(old, error))?;
    fs::write(new, bytes).map_err(|error| DemoError::io(new, error))
}

fn resource_file(bundle: &Path, resource: ResourcePath) -> PathBuf {
    bundle.join("log").join(resource.to_string())
}
