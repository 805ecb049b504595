//! The log's list of heads mirrored. Nothing says how long it is, so its end is felt for: a page is there up to the
//! width that the log has.

use super::bundle_dir::BundleDir;
use crate::failure::Failure;
use audit::quote::plain;
use bytes::Bytes;
use client::{FetchError, LogClient};
use merkle::{PageId, ResourcePath, RootHash, TILE_WIDTH};
use note::{SignedCheckpoint, VerifierKey};

/// Most pages of heads: sixteen million heads, one for every commit of a log that takes a receipt a second for half a
/// year without ever batching two. A log that shows more does not want to be mirrored.
const MAX_PAGES: u64 = 65_536;

/// The list of heads.
#[derive(Default)]
pub(super) struct MirroredHeads {
    pub(super) count: u64,
    /// Size and root of each, as far as they are heads of this log.
    pub(super) all: Vec<(u64, RootHash)>,
    /// The largest.
    pub(super) newest: Option<(u64, RootHash)>,
    pub(super) faults: Vec<String>,
}

/// Mirrors the list. The outer error is the log's.
pub(super) async fn mirror(
    client: &LogClient,
    dir: &BundleDir,
    log: &VerifierKey,
) -> Result<Result<MirroredHeads, Failure>, FetchError> {
    let mut heads = MirroredHeads::default();
    for index in 0..=MAX_PAGES {
        if index == MAX_PAGES {
            heads
                .faults
                .push(format!("the log's list has more than {MAX_PAGES} pages of heads; the rest was left there"));
            break;
        }
        let full = ResourcePath::Heads(PageId { index, width: TILE_WIDTH });
        let page = match held(dir, &full) {
            Ok(Some(page)) => Some(page),
            Ok(None) => client.resource(&full).await?,
            Err(failure) => return Ok(Err(failure)),
        };
        if let Some(page) = page {
            if let Err(failure) = heads.take(dir, index, TILE_WIDTH, &page, log) {
                return Ok(Err(failure));
            }
            continue;
        }
        if let Some((width, page)) = widest(client, index).await?
            && let Err(failure) = heads.take(dir, index, width, &page, log)
        {
            return Ok(Err(failure));
        }
        break;
    }
    Ok(Ok(heads))
}

/// A full page that an earlier fetch left, which never changes.
fn held(dir: &BundleDir, full: &ResourcePath) -> Result<Option<Bytes>, Failure> {
    let page = dir.read(&format!("log/{full}"), client::log::max_bytes(full))?;
    let is_full =
        |page: &Vec<u8>| merkle::decode_entries(page).is_ok_and(|heads| heads.len() == usize::from(TILE_WIDTH));
    Ok(page.filter(is_full).map(Bytes::from))
}

/// The widest partial page at `index`, if there is any.
async fn widest(client: &LogClient, index: u64) -> Result<Option<(u16, Bytes)>, FetchError> {
    let at = |width: u16| ResourcePath::Heads(PageId { index, width });
    let mut found = None;
    let (mut low, mut high) = (1, TILE_WIDTH - 1);
    while low <= high {
        let middle = low.midpoint(high);
        match client.resource(&at(middle)).await? {
            Some(page) => {
                found = Some((middle, page));
                low = middle + 1;
            }
            None => high = middle - 1,
        }
    }
    if found.is_some() {
        return Ok(found);
    }
    // A static copy of a log serves the one width it was made with.
    for width in (1..TILE_WIDTH).rev() {
        if let Some(page) = client.resource(&at(width)).await? {
            return Ok(Some((width, page)));
        }
    }
    Ok(None)
}

impl MirroredHeads {
    fn take(&mut self, dir: &BundleDir, index: u64, width: u16, page: &[u8], log: &VerifierKey) -> Result<(), Failure> {
        let path = format!("log/{}", ResourcePath::Heads(PageId { index, width }));
        self.faults.extend(dir.put_immutable(&path, page)?);
        let notes = merkle::decode_entries(page).unwrap_or_default();
        if notes.len() != usize::from(width) {
            self.faults.push(format!("page {index} of the log's heads holds {} of {width}", notes.len()));
        }
        for note in notes {
            self.count += 1;
            match SignedCheckpoint::parse(note).and_then(|head| head.verify(log)) {
                Ok(head) => {
                    let head = (head.checkpoint().size.0, head.checkpoint().root);
                    self.newest = self.newest.max(Some(head));
                    self.all.push(head);
                }
                Err(error) => self.faults.push(format!(
                    "head {} of the log's list: {}",
                    self.count - 1,
                    plain(&error.to_string())
                )),
            }
        }
        Ok(())
    }
}
