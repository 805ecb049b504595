//! The receipts that a page shows, read from the bundle once more.
//!
//! A receipt is known by its id, which is the hash of its bytes: what does not hash to it is not shown. So nothing
//! here is trusted for having been judged before.

use super::selection::Selection;
use audit::{BundleSource, ReadError, Verdict};
use merkle::{Hash, PageId, ResourcePath, TILE_WIDTH};
use receipt::Receipt;
use std::collections::BTreeMap;

/// Receipts whose body is read: a page that shows more of them is searched, not read, and each costs a page of the log.
pub const MAX_BODIES: usize = 100;

/// Largest page of entries: 256 times a two-byte length and the 65,535 bytes it can say.
const MAX_PAGE_BYTES: u64 = 256 * (2 + 65_535);

/// Bodies of receipts by id, as they stand in the log.
pub type Bodies = BTreeMap<[u8; 32], String>;

/// Reads the bodies of the receipts that a page about `verdict` shows; of entries that are no receipts, nothing.
///
/// # Errors
/// [`ReadError`]: the bundle cannot be read any more.
pub fn read_bodies(bundle: &dyn BundleSource, verdict: &Verdict) -> Result<Bodies, ReadError> {
    let selection = Selection::of(verdict);
    let wanted: Vec<(u64, Hash)> = selection
        .receipts
        .iter()
        .filter_map(|receipt| receipt.index.map(|index| (index, receipt.id)))
        .take(MAX_BODIES)
        .collect();
    let mut bodies = Bodies::new();
    if wanted.is_empty() {
        return Ok(bodies);
    }
    let pages = pages_of(&bundle.list());
    // In the log's order, so that each page is read once.
    for page in wanted.chunk_by(|one, next| page_of(one.0) == page_of(next.0)) {
        let Some(first) = page.first() else { continue };
        for width in pages.get(&page_of(first.0)).into_iter().flatten() {
            let path = format!("log/{}", ResourcePath::Entries(PageId { index: page_of(first.0), width: *width }));
            let bytes = match bundle.read(&path, MAX_PAGE_BYTES) {
                Ok(bytes) => bytes.unwrap_or_default(),
                // What is larger than any page is none.
                Err(ReadError::TooLarge { .. }) => continue,
                Err(error) => return Err(error),
            };
            let entries = merkle::decode_entries(&bytes).unwrap_or_default();
            for (index, id) in page {
                let place = (index % u64::from(TILE_WIDTH)) as usize;
                let Some(entry) = entries.get(place).filter(|entry| merkle::leaf_hash(entry) == *id) else { continue };
                if let Ok(receipt) = Receipt::parse(entry) {
                    bodies.insert(id.0, receipt.body_text().to_owned());
                }
            }
        }
    }
    Ok(bodies)
}

fn page_of(index: u64) -> u64 {
    index / u64::from(TILE_WIDTH)
}

/// The pages of entries that the bundle has, each with its widths.
fn pages_of(paths: &[String]) -> BTreeMap<u64, Vec<u16>> {
    let mut pages: BTreeMap<u64, Vec<u16>> = BTreeMap::new();
    for path in paths {
        if let Some(ResourcePath::Entries(page)) = path.strip_prefix("log/").and_then(ResourcePath::parse) {
            pages.entry(page.index).or_default().push(page.width);
        }
    }
    pages
}
