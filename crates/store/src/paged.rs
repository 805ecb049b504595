//! Length-prefixed strings in one growing file, found by page: the entries of a log, and its heads.
//!
//! ```text
//! <name>           u16 length, big-endian | bytes | u16 length | bytes | …
//! <name>.offsets   sixteen bytes a page of 256 strings: u64 big-endian, where the page begins in <name>
//!                  | the first 8 bytes of SHA-256(u64 page number, u64 offset)
//! ```
//!
//! A page is a byte range of the file and is served as it lies there. The offsets are derived: they are never
//! synced, and from the first one on that is missing or wrong (which its checksum tells: a wrong offset would be
//! believed) they are found again by walking the file. In memory they take 8 bytes a page.
//!
//! Opening changes nothing. Whoever opens decides, once everything else has been looked at, how many strings
//! count ([`PagedFile::settle`]); only then is the rest cut off.

use crate::append_file::{AppendFile, FileReader};
use crate::disk::Disk;
use crate::error::StoreError;
use merkle::{PageId, TILE_WIDTH, encode_entry};
use sha2::{Digest, Sha256};
use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock};

const PREFIX_LEN: u64 = 2;
const OFFSET_LEN: usize = 16;
/// Read at once while walking: larger than any string, small beside the memory of any machine.
const WALK_CHUNK: usize = 1 << 20;

/// The writing end.
#[derive(Debug)]
pub(crate) struct PagedFile {
    data: AppendFile,
    offsets: AppendFile,
    count: u64,
    /// Where the last whole string ends.
    end: u64,
    pages: Arc<RwLock<Vec<u64>>>,
}

/// A reading end; cheap to clone. The caller knows how many strings are published and where they end.
#[derive(Clone, Debug)]
pub(crate) struct PagedReader {
    data: FileReader,
    /// Where each page begins.
    pages: Arc<RwLock<Vec<u64>>>,
}

impl PagedFile {
    /// Opens the file, or makes it empty, and counts its whole strings.
    pub(crate) fn open(disk: &dyn Disk, dir: &Path, name: &str) -> Result<PagedFile, StoreError> {
        let data = AppendFile::open(disk, dir.join(name))?;
        PagedFile::over(data, AppendFile::open(disk, dir.join(format!("{name}.offsets")))?)
    }

    /// Opens a file that is there, to read it; its offsets need not be there.
    pub(crate) fn look(dir: &Path, name: &str) -> Result<PagedFile, StoreError> {
        let data = AppendFile::look(dir.join(name))?;
        let offsets = AppendFile::look(dir.join(format!("{name}.offsets"))).unwrap_or_else(|_| data.as_empty());
        PagedFile::over(data, offsets)
    }

    fn over(data: AppendFile, offsets: AppendFile) -> Result<PagedFile, StoreError> {
        let mut pages = known_pages(&data, &offsets)?;
        if !last_full_page_is_whole(&data, &pages)? {
            pages.clear();
        }
        let mut end = pages.pop().unwrap_or(0);
        let mut count = pages.len() as u64 * u64::from(TILE_WIDTH);
        walk(&data, end, |begin, next| {
            if count.is_multiple_of(u64::from(TILE_WIDTH)) {
                pages.push(begin);
            }
            count += 1;
            end = next;
        })?;
        Ok(PagedFile { data, offsets, count, end, pages: Arc::new(RwLock::new(pages)) })
    }

    /// How many whole strings there are.
    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// Where the last whole string ends.
    pub(crate) fn end(&self) -> u64 {
        self.end
    }

    /// The bytes behind `begin`, where a string begins; there are none behind the last one after
    /// [`PagedFile::settle`].
    pub(crate) fn rest(&self, begin: u64) -> Result<Vec<u8>, StoreError> {
        self.data.reader().read(begin, (self.data.len() - begin) as usize)
    }

    /// Bytes in the file, whole or not.
    pub(crate) fn byte_len(&self) -> u64 {
        self.data.len()
    }

    pub(crate) fn path(&self) -> &Path {
        self.data.path()
    }

    pub(crate) fn reader(&self) -> PagedReader {
        PagedReader { data: self.data.reader().clone(), pages: Arc::clone(&self.pages) }
    }

    /// Where string number `count` begins, or would begin.
    pub(crate) fn end_of(&self, count: u64) -> Result<u64, StoreError> {
        let page = count / u64::from(TILE_WIDTH);
        let begin = self.reader().begin_of(page, self.end);
        match PageId::at(page, count) {
            None => Ok(begin),
            Some(page) => Ok(begin + self.reader().page(page, self.end)?.len() as u64),
        }
    }

    /// Cuts the file behind the first `count` strings, if there is more, and makes them durable, the last one come
    /// what may. From now on it can be appended to.
    pub(crate) fn settle(&mut self, count: u64) -> Result<(), StoreError> {
        if count < self.count {
            self.end = self.end_of(count)?;
            self.count = count;
            let kept = count.div_ceil(u64::from(TILE_WIDTH)) as usize;
            self.pages.write().unwrap_or_else(PoisonError::into_inner).truncate(kept);
        }
        let begin = self.end_of(self.count.saturating_sub(1))?;
        self.data.settle_again(self.end, begin)?;
        let pages = self.pages.read().unwrap_or_else(PoisonError::into_inner);
        let bytes: Vec<u8> = (0..).zip(pages.iter()).flat_map(|(page, begin)| offset_record(page, *begin)).collect();
        if self.offsets.reader().read(0, self.offsets.len() as usize)? != bytes {
            self.offsets.settle(0)?;
            self.offsets.append(&bytes)?;
        }
        Ok(())
    }

    /// The first page whose offset is stored, and not as the strings have it. Those that are not stored are found again.
    pub(crate) fn wrong_offset(&self) -> Result<Option<u64>, StoreError> {
        let pages = self.pages.read().unwrap_or_else(PoisonError::into_inner);
        let stored = self.offsets.reader().read(0, self.offsets.len() as usize)?;
        let stored = stored.as_chunks::<OFFSET_LEN>().0.iter();
        let is_wrong = |((page, begin), record): ((u64, &u64), &[u8; OFFSET_LEN])| {
            (offset_record(page, *begin) != *record).then_some(page)
        };
        Ok((0..).zip(pages.iter()).zip(stored).find_map(is_wrong))
    }

    /// Appends; durable only after [`PagedFile::sync`].
    pub(crate) fn append(&mut self, strings: &[impl AsRef<[u8]>]) -> Result<(), StoreError> {
        let mut bytes = Vec::new();
        let mut begun = Vec::new();
        let mut count = self.count;
        for string in strings {
            if count.is_multiple_of(u64::from(TILE_WIDTH)) {
                begun.push((count / u64::from(TILE_WIDTH), self.end + bytes.len() as u64));
            }
            encode_entry(&mut bytes, string.as_ref())?;
            count += 1;
        }
        self.data.append(&bytes)?;
        let records: Vec<u8> = begun.iter().flat_map(|(page, begin)| offset_record(*page, *begin)).collect();
        if !records.is_empty() {
            self.offsets.append(&records)?;
        }
        self.pages.write().unwrap_or_else(PoisonError::into_inner).extend(begun.iter().map(|(_, begin)| begin));
        self.count = count;
        self.end = self.data.len();
        Ok(())
    }

    /// Reads the last string again, which must be `string`.
    pub(crate) fn read_back(&self, string: &[u8]) -> Result<(), StoreError> {
        let mut written = Vec::new();
        encode_entry(&mut written, string)?;
        if self.rest(self.end - written.len() as u64)? == written {
            return Ok(());
        }
        Err(StoreError::Damaged {
            path: self.path().to_owned(),
            what: "string",
            position: self.count - 1,
            why: "it does not come back as it was written".to_owned(),
        })
    }

    pub(crate) fn sync(&self) -> Result<(), StoreError> {
        self.data.sync()
    }
}

impl PagedReader {
    pub(crate) fn path(&self) -> &Path {
        self.data.path()
    }

    /// The bytes of a page that is wholly there; `end` is where the published part of the file ends.
    pub(crate) fn page(&self, page: PageId, end: u64) -> Result<Vec<u8>, StoreError> {
        let begin = self.begin_of(page.index, end);
        let next = self.begin_of(page.index + 1, end);
        let mut bytes = self.data.read(begin, (next - begin) as usize)?;
        let mut length = 0;
        for place in 0..u64::from(page.width) {
            let prefix = bytes.get(length..).and_then(|rest| rest.first_chunk::<2>());
            let string = prefix.map(|prefix| length + 2 + usize::from(u16::from_be_bytes(*prefix)));
            length = string.filter(|end| *end <= bytes.len()).ok_or_else(|| self.damaged(page, place))?;
        }
        if page.width == TILE_WIDTH && length != bytes.len() {
            return Err(self.damaged(page, u64::from(page.width)));
        }
        bytes.truncate(length);
        Ok(bytes)
    }

    /// How long a page is.
    pub(crate) fn byte_len(&self, page: PageId, end: u64) -> u64 {
        self.begin_of(page.index + 1, end).saturating_sub(self.begin_of(page.index, end))
    }

    /// String number `place` on `page`.
    pub(crate) fn string(&self, page: PageId, place: usize, end: u64) -> Result<Vec<u8>, StoreError> {
        let bytes = self.page(page, end)?;
        let strings = merkle::decode_entries(&bytes).map_err(|cut| self.damaged(page, cut.entry as u64))?;
        strings.get(place).map(|string| string.to_vec()).ok_or_else(|| self.damaged(page, place as u64))
    }

    /// Where a page begins; behind the last one, where the file ends.
    fn begin_of(&self, page: u64, end: u64) -> u64 {
        let pages = self.pages.read().unwrap_or_else(PoisonError::into_inner);
        usize::try_from(page).ok().and_then(|page| pages.get(page).copied()).unwrap_or(end).min(end)
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

fn offset_record(page: u64, begin: u64) -> [u8; OFFSET_LEN] {
    let checksum = Sha256::new().chain_update(page.to_be_bytes()).chain_update(begin.to_be_bytes()).finalize();
    let mut record = [0; OFFSET_LEN];
    record[..8].copy_from_slice(&begin.to_be_bytes());
    record[8..].copy_from_slice(&checksum[..8]);
    record
}

/// The offsets as far as they can be believed: with a good checksum, rising, and within the file.
fn known_pages(data: &AppendFile, offsets: &AppendFile) -> Result<Vec<u64>, StoreError> {
    let bytes = offsets.reader().read(0, offsets.len() as usize)?;
    let mut pages: Vec<u64> = Vec::new();
    for record in bytes.as_chunks::<OFFSET_LEN>().0 {
        let begin = record.first_chunk::<8>().map_or(0, |begin| u64::from_be_bytes(*begin));
        let rises = pages.last().map_or(begin == 0, |last| *last < begin);
        if !rises || begin >= data.len() || *record != offset_record(pages.len() as u64, begin) {
            break;
        }
        pages.push(begin);
    }
    Ok(pages)
}

/// Whether the last page but one holds exactly a page of strings: offsets of another file would not.
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
