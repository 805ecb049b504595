//! The log's list of heads mirrored. Nothing says how long it is, so its end is felt for.
//!
//! A log that runs serves a page at every width up to its own: its end is found from the width that is held already, or
//! by halves. A static copy serves each page at one width only, which is then looked for.

use super::sources::{Broken, Sources, Whence, is_whole};
use crate::failure::Failure;
use audit::quote::plain;
use bytes::Bytes;
use client::FetchError;
use futures_util::future::try_join_all;
use futures_util::{StreamExt, stream};
use merkle::{PageId, ResourcePath, RootHash, TILE_WIDTH};
use note::{KeyTables, SignedCheckpoint, VerifierKey};
use service::progress::Progress;

/// Most pages of heads: sixteen million heads, one for every commit of a log that takes a receipt a second for half a
/// year without ever batching two. A log that shows more does not want to be mirrored.
const MAX_PAGES: u64 = 65_536;

/// Full pages asked for at once, of which all but one may lie beyond the end: first one, then more up to this.
const MAX_PAGES_AT_ONCE: u64 = 8;

/// Widths of one page asked for at once where a static copy's is looked for.
const WIDTHS_AT_ONCE: usize = 16;

/// Most heads that are said to be none; the rest are counted.
const MAX_FAULTS: usize = 16;

/// The list of heads.
#[derive(Default)]
pub(super) struct MirroredHeads {
    pub(super) count: u64,
    /// The pages, as they lie in the bundle.
    pub(super) pages: Vec<PageId>,
    /// The largest.
    pub(super) newest: Option<(u64, RootHash)>,
    pub(super) faults: Vec<String>,
    bad: u64,
}

/// Mirrors the list. `is_listed` says whether it is worth looking for the one width of a static copy: a log of
/// something else than receipts has no such list.
pub(super) async fn mirror(sources: &Sources<'_>, log: &VerifierKey, is_listed: bool) -> Result<MirroredHeads, Broken> {
    let mut heads = MirroredHeads::default();
    let tables = KeyTables::new(1);
    tables.prepare(log);
    let log = (log, &tables);
    let progress = Progress::counting("heads");
    let (mut index, mut at_once) = (0, 1);
    'full: loop {
        let pages = (index..(index + at_once).min(MAX_PAGES)).map(|index| full_page(sources, index));
        for page in try_join_all(pages).await? {
            let Some((bytes, whence)) = page else { break 'full };
            heads.take(sources, PageId { index, width: TILE_WIDTH }, &bytes, whence, log)?;
            progress.advance(u64::from(TILE_WIDTH));
            index += 1;
            // Behind the pages that are held the end may be near.
            at_once = if whence == Whence::Server { (at_once * 2).min(MAX_PAGES_AT_ONCE) } else { 1 };
        }
        if index == MAX_PAGES {
            let fault = format!("the log's list has more than {MAX_PAGES} pages of heads; the rest was left there");
            heads.faults.push(fault);
            return Ok(heads.told());
        }
    }
    let held = sources.dir.partial_widths(&sources.path(ResourcePath::Heads(PageId { index, width: TILE_WIDTH })))?;
    let held = held.into_iter().rfind(|width| (1..TILE_WIDTH).contains(width));
    let found = widest(sources, index, held, is_listed).await?;
    let shown = found.as_ref().map_or(0, |(width, _)| *width);
    if let Some(held) = held.filter(|held| *held > shown) {
        heads.faults.push(format!(
            "page {index} of the log's list of heads now shows {shown}, and showed {held} before; what is held is kept"
        ));
    }
    if let Some((width, bytes)) = found {
        heads.take(sources, PageId { index, width }, &bytes, Whence::Server, log)?;
    }
    Ok(heads.told())
}

/// A full page: a copy on this machine, or the log's.
async fn full_page(sources: &Sources<'_>, index: u64) -> Result<Option<(Bytes, Whence)>, Broken> {
    let page = PageId { index, width: TILE_WIDTH };
    match sources.local(ResourcePath::Heads(page))?.filter(|(bytes, _)| are_heads(bytes)) {
        Some(found) => Ok(Some(found)),
        None => Ok(sources.served_heads(page).await?.map(|bytes| (bytes, Whence::Server))),
    }
}

/// Whether a page holds nothing but heads, whoever signed them.
fn are_heads(page: &[u8]) -> bool {
    let notes = merkle::decode_entries(page).unwrap_or_default();
    notes.iter().all(|note| SignedCheckpoint::parse(note).is_ok())
}

/// The widest partial page at `index`, if there is any. `held` is the widest that is held.
async fn widest(
    sources: &Sources<'_>,
    index: u64,
    held: Option<u16>,
    is_listed: bool,
) -> Result<Option<(u16, Bytes)>, Broken> {
    let at = |width: u16| sources.served_heads(PageId { index, width });
    let mut found = None;
    for first in [held, Some(1)].into_iter().flatten() {
        found = at(first).await?.map(|page| (first, page));
        if found.is_some() {
            break;
        }
    }
    if let Some((width, page)) = found {
        // From what was held the end is near; from the beginning it is anywhere.
        let step = if held == Some(width) { 1 } else { TILE_WIDTH / 2 };
        return Ok(Some(grown(at, (width, page), step).await?));
    }
    if !is_listed {
        return Ok(None);
    }
    // A static copy, which serves the widths that it was made with: the widest is the list, others are older ones.
    let mut asked = stream::iter((2..TILE_WIDTH).rev())
        .map(|width| async move { at(width).await.map(|page| page.map(|page| (width, page))) })
        .buffered(WIDTHS_AT_ONCE);
    while let Some(answer) = asked.next().await {
        if let Some(found) = answer? {
            return Ok(Some(found));
        }
    }
    Ok(None)
}

/// The widest page from one that is there: in growing steps to where there is none, then by halves.
async fn grown<Ask>(at: impl Fn(u16) -> Ask, mut found: (u16, Bytes), mut step: u16) -> Result<(u16, Bytes), FetchError>
where
    Ask: Future<Output = Result<Option<Bytes>, FetchError>>,
{
    let mut beyond = TILE_WIDTH;
    while found.0 + 1 < beyond {
        let next = if step > 0 && beyond == TILE_WIDTH {
            (found.0 + step).min(TILE_WIDTH - 1)
        } else {
            found.0.midpoint(beyond)
        };
        match at(next).await? {
            Some(page) => found = (next, page),
            None => beyond = next,
        }
        step = step.saturating_mul(2);
    }
    Ok(found)
}

/// Puts a page in place. No hash says what it must be, so that a whole copy that is held stays, whatever comes later.
fn put(sources: &Sources<'_>, resource: ResourcePath, bytes: &[u8], whence: Whence) -> Result<Vec<String>, Failure> {
    let (dir, path) = (sources.dir, sources.path(resource));
    let mut faults = Vec::new();
    match (whence, sources.earlier) {
        (Whence::Held, _) => {}
        (Whence::Earlier, Some(earlier)) => dir.take_over(earlier, &path, bytes)?,
        _ => {
            let held = dir.read(&path, client::log::max_bytes(&resource))?;
            if held.is_some_and(|held| !is_whole(resource, &held) || !are_heads(&held)) {
                // A failing machine left it so; and if the log did, it had signed nothing of it.
                dir.remove(&path)?;
            }
            faults.extend(dir.put_immutable(&path, bytes)?);
        }
    }
    faults.extend(dir.tidy(&path, bytes)?);
    Ok(faults)
}

impl MirroredHeads {
    fn take(
        &mut self,
        sources: &Sources<'_>,
        page: PageId,
        bytes: &[u8],
        whence: Whence,
        (log, tables): (&VerifierKey, &KeyTables),
    ) -> Result<(), Failure> {
        let resource = ResourcePath::Heads(page);
        let notes = merkle::decode_entries(bytes).unwrap_or_default();
        if notes.len() != usize::from(page.width) {
            self.faults.push(format!("page {} of the log's heads holds {} of {}", page.index, notes.len(), page.width));
        }
        for note in notes {
            self.count += 1;
            // What is held was verified when it came, and the audit verifies it again.
            let head = SignedCheckpoint::parse(note).and_then(|head| match whence {
                Whence::Held => Ok((head.claimed().size.0, head.claimed().root)),
                Whence::Earlier | Whence::Server => {
                    head.verify_by(log, tables).map(|head| (head.checkpoint().size.0, head.checkpoint().root))
                }
            });
            match head {
                Ok(head) => self.newest = self.newest.max(Some(head)),
                Err(error) => {
                    self.bad += 1;
                    if self.bad <= MAX_FAULTS as u64 {
                        let place = self.count - 1;
                        self.faults.push(format!("head {place} of the log's list: {}", plain(&error.to_string())));
                    }
                }
            }
        }
        self.pages.push(page);
        self.faults.extend(put(sources, resource, bytes, whence)?);
        Ok(())
    }

    fn told(mut self) -> MirroredHeads {
        if let Some(more) = self.bad.checked_sub(MAX_FAULTS as u64 + 1) {
            self.faults.push(format!("... and {} more of the log's list are no heads of it", more + 1));
        }
        self
    }
}
