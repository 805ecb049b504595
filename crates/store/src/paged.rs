//! Length-prefixed strings in one growing file, found by page: the entries of a log, and its heads.
//!
//! ```text
//! <name>           u16 length, big-endian | bytes | u16 length | bytes | …
//! <name>.offsets   u64 big-endian: where page 0 begins, where page 1 begins, …   (256 strings a page)
//! ```
//!
//! A page is a byte range of the file and is served as it lies there. The offsets are derived: they are never
//! synced, and what is missing or wrong of them is found again by walking the file.

use crate::append_file::{AppendFile, FileReader};
use crate::error::StoreError;
use merkle::{PageId, TILE_WIDTH, encode_entry};
use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock};

const PREFIX_LEN: u64 = 2;
const OFFSET_LEN: u64 = 8;
/// Read at once while walking: larger than any string, small beside the memory of any machine.
const WALK_CHUNK: usize = 1 << 20;

/// The writing end.
#[derive(Debug)]
pub(crate) struct PagedFile {
    data: AppendFile,
    offsets: AppendFile,
    count: u64,
    pages: Arc<RwLock<Vec<u64>>>,
}

/// A reading end; cheap to clone. The caller knows how many strings are published and where they end.
#[derive(Clone, Debug)]
pub(crate) struct PagedReader {
    data: FileReader,
    /// Where each page begins.
    pages: Arc<RwLock<Vec<u64>>>,
}

/// What lies behind the last whole string of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TornTail {
    /// Bytes that are no whole string.
    pub(crate) bytes: u64,
}

impl PagedFile {
    /// Opens the file and counts its strings. A tail that is no whole string is cut off and reported.
    pub(crate) fn open(dir: &Path, name: &str) -> Result<(PagedFile, TornTail), StoreError> {
        let mut data = AppendFile::open(dir.join(name))?;
        let mut offsets = AppendFile::open(dir.join(format!("{name}.offsets")))?;
        let mut pages = known_pages(&data, &offsets)?;
        if !last_full_page_is_whole(&data, &pages)? {
            pages.clear();
        }
        let last = pages.pop().unwrap_or(0);
        let mut count = pages.len() as u64 * u64::from(TILE_WIDTH);
        let mut end = last;
        walk(&data, last, |begin, next| {
            if count.is_multiple_of(u64::from(TILE_WIDTH)) {
                pages.push(begin);
            }
            count += 1;
            end = next;
        })?;
        let torn = TornTail { bytes: data.len() - end };
        data.truncate(end)?;
        let bytes: Vec<u8> = pages.iter().flat_map(|page| page.to_be_bytes()).collect();
        offsets.truncate(0)?;
        offsets.append(&bytes)?;
        Ok((PagedFile { data, offsets, count, pages: Arc::new(RwLock::new(pages)) }, torn))
    }

    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// Where the file ends, which is where the string after the last one will begin.
    pub(crate) fn end(&self) -> u64 {
        self.data.len()
    }

    pub(crate) fn path(&self) -> &Path {
        self.data.path()
    }

    pub(crate) fn reader(&self) -> PagedReader {
        PagedReader { data: self.data.reader().clone(), pages: Arc::clone(&self.pages) }
    }

    /// Appends; durable only after [`PagedFile::sync`].
    pub(crate) fn append(&mut self, strings: &[impl AsRef<[u8]>]) -> Result<(), StoreError> {
        let mut bytes = Vec::new();
        let mut begun = Vec::new();
        for string in strings {
            if self.count.is_multiple_of(u64::from(TILE_WIDTH)) {
                begun.push(self.data.len() + bytes.len() as u64);
            }
            encode_entry(&mut bytes, string.as_ref())?;
            self.count += 1;
        }
        self.data.append(&bytes)?;
        let offsets: Vec<u8> = begun.iter().flat_map(|page| page.to_be_bytes()).collect();
        self.offsets.append(&offsets)?;
        self.pages.write().unwrap_or_else(PoisonError::into_inner).extend(begun);
        Ok(())
    }

    pub(crate) fn sync(&self) -> Result<(), StoreError> {
        self.data.sync()
    }

    /// Drops all strings from number `count` on: an unsigned tail, at recovery only.
    pub(crate) fn truncate(&mut self, count: u64) -> Result<(), StoreError> {
        if count >= self.count {
            return Ok(());
        }
        let end = match PageId::at(count / u64::from(TILE_WIDTH), count) {
            None => self.reader().begin_of(count / u64::from(TILE_WIDTH), self.end())?,
            Some(page) => {
                let begin = self.reader().begin_of(page.index, self.end())?;
                begin + self.reader().page(page, self.end())?.len() as u64
            }
        };
        self.data.truncate(end)?;
        self.count = count;
        let kept = count.div_ceil(u64::from(TILE_WIDTH));
        self.offsets.truncate(kept * OFFSET_LEN)?;
        self.pages.write().unwrap_or_else(PoisonError::into_inner).truncate(kept as usize);
        Ok(())
    }
}

impl PagedReader {
    pub(crate) fn path(&self) -> &Path {
        self.data.path()
    }

    /// The bytes of a page that is wholly there; `end` is where the published part of the file ends.
    pub(crate) fn page(&self, page: PageId, end: u64) -> Result<Vec<u8>, StoreError> {
        let begin = self.begin_of(page.index, end)?;
        let next = self.begin_of(page.index + 1, end)?;
        let bytes = self.data.read(begin, (next - begin) as usize)?;
        let mut length = 0;
        for place in 0..u64::from(page.width) {
            let prefix = bytes.get(length..).and_then(|rest| rest.first_chunk::<2>());
            let string = prefix.map(|prefix| length + 2 + usize::from(u16::from_be_bytes(*prefix)));
            length = string.filter(|end| *end <= bytes.len()).ok_or_else(|| self.damaged(page, place))?;
        }
        if page.width == TILE_WIDTH && length != bytes.len() {
            return Err(self.damaged(page, u64::from(page.width)));
        }
        let mut bytes = bytes;
        bytes.truncate(length);
        Ok(bytes)
    }

    /// String number `place` on `page`.
    pub(crate) fn string(&self, page: PageId, place: usize, end: u64) -> Result<Vec<u8>, StoreError> {
        let bytes = self.page(page, end)?;
        let strings = merkle::decode_entries(&bytes).map_err(|cut| self.damaged(page, cut.entry as u64))?;
        strings.get(place).map(|string| string.to_vec()).ok_or_else(|| self.damaged(page, place as u64))
    }

    /// Where a page begins; behind the last one, where the file ends.
    fn begin_of(&self, page: u64, end: u64) -> Result<u64, StoreError> {
        let pages = self.pages.read().unwrap_or_else(PoisonError::into_inner);
        let begin = usize::try_from(page).ok().and_then(|page| pages.get(page).copied()).unwrap_or(end);
        Ok(begin.min(end))
    }

    fn damaged(&self, page: PageId, place: u64) -> StoreError {
        StoreError::Damaged {
            path: self.data.path().to_owned(),
            what: "string",
            position: page.index * u64::from(TILE_WIDTH) + place,
            why: "its length does not fit its page".to_owned(),
        }
    }
}

/// The offsets as far as they can be believed: rising, and within the file.
fn known_pages(data: &AppendFile, offsets: &AppendFile) -> Result<Vec<u64>, StoreError> {
    let bytes = offsets.reader().read(0, offsets.len() as usize)?;
    let mut pages: Vec<u64> = Vec::new();
    for offset in bytes.as_chunks::<8>().0 {
        let offset = u64::from_be_bytes(*offset);
        let rises = pages.last().map_or(offset == 0, |last| *last < offset);
        if !rises || offset >= data.len() {
            break;
        }
        pages.push(offset);
    }
    Ok(pages)
}

/// Whether the last page but one holds exactly a page of strings: an offset that points elsewhere would not.
fn last_full_page_is_whole(data: &AppendFile, pages: &[u64]) -> Result<bool, StoreError> {
    let [.., begin, end] = pages else { return Ok(true) };
    let bytes = data.reader().read(*begin, (end - begin) as usize)?;
    Ok(merkle::decode_entries(&bytes).is_ok_and(|strings| strings.len() == usize::from(TILE_WIDTH)))
}

/// Calls `found(begin, end)` for every whole string from `begin` on.
fn walk(data: &AppendFile, begin: u64, mut found: impl FnMut(u64, u64)) -> Result<(), StoreError> {
    let mut offset = begin;
    while data.len() - offset >= PREFIX_LEN {
        let chunk = data.reader().read(offset, WALK_CHUNK.min((data.len() - offset) as usize))?;
        let mut place = 0;
        while let Some(prefix) = chunk.get(place..).and_then(|rest| rest.first_chunk::<2>()) {
            let next = place + 2 + usize::from(u16::from_be_bytes(*prefix));
            if next > chunk.len() {
                break;
            }
            found(offset + place as u64, offset + next as u64);
            place = next;
        }
        if place == 0 {
            break;
        }
        offset += place as u64;
    }
    Ok(())
}
