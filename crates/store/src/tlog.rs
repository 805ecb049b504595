//! A tiled log on disk: the log's own, and each witness's journal.
//!
//! ```text
//! entries  entries.offsets   every entry, oldest first (paged.rs)
//! hashes/0 … hashes/7        its tree (levels.rs)
//! heads    heads.offsets     every checkpoint ever signed, oldest first (paged.rs)
//! heads.count                how many of them there are at least (count_file.rs)
//! hashes.count               how many leaves have durable hashes at least
//! lock                       held by the one process that writes
//! ```
//!
//! Nothing is ever rewritten. What counts is what `heads` says: an entry that no durable head covers was never
//! logged. Order of a commit, and what a crash after each step leaves:
//!
//! 1. [`Tlog::append`]: entries and hashes written, entries synced -> an unsigned tail, cut off at the next start
//! 2. same call: the new entries and the tree's right edge read back from disk, root recomputed -> the same
//! 3. the caller signs the root into a [`Sealed`] checkpoint -> the same
//! 4. [`Tlog::record_head`]: checkpoint appended to `heads`, synced and read back, **the commit point** -> the next start finds it
//! 5. same call: published to readers, the seal opened -> the same
//!
//! Any error in 1 to 4 poisons the log: what is durable is unknown until it is opened again.

use crate::append_file::{self, sync_directory, sync_way_to};
use crate::count_file::CountFile;
use crate::disk::{Disk, DiskFile, Found, OpenFor, RealDisk};
use crate::error::StoreError;
use crate::levels::{Levels, StoredTree};
use crate::paged::PagedFile;
use crate::reader::{Published, TlogReader};
use crate::sealed::Sealed;
use crate::torn::lacks_a_sector;
use crate::verify::Inspection;
use bytes::Bytes;
use merkle::{EMPTY_ROOT, Frontier, Hash, HashSource, PageId, RootHash, TILE_WIDTH, TreeSize, leaf_hash, root_of};
use note::{SignedCheckpoint, Verified};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Says what a stored checkpoint says, if it is one that this log signed; `None` for anything else.
pub type HeadCheck<'a> = &'a (dyn Fn(&[u8]) -> Option<(TreeSize, RootHash)> + Sync);

/// Entries a page.
const PAGE: u64 = TILE_WIDTH as u64;
/// Leaf hashes that a start may have to derive again, which takes some hundredths of a second.
const SYNC_HASHES_AFTER: u64 = 8_192;
pub(crate) const HEAD_COUNT: &str = "heads.count";
pub(crate) const HASH_COUNT: &str = "hashes.count";
/// Pages hashed at once while hashes are derived again: some 10 MB of entries.
const REBUILD_PAGES: u64 = 64;
/// Lines that a recorded head has at most: three, extensions, a blank one, signatures. Ours have five.
const MAX_HEAD_LINES: usize = 64;

/// What a log was found to be at its start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Recovery {
    /// Entries that no durable head covered, cut off: nobody was ever answered for them.
    pub unsigned_entries: u64,
    /// Bytes of a head that was being written, cut off: nobody ever saw it.
    pub torn_head_bytes: u64,
    /// Leaf hashes that were derived again from the entries.
    pub rebuilt_hashes: u64,
}

/// What was appended: durable and read back, but not yet committed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Appended {
    /// The size of the tree with it.
    pub size: TreeSize,
    /// The root of the tree with it, recomputed from stored bytes.
    pub root: RootHash,
}

/// The writing end of a log. Dropping it frees the directory for another process.
#[derive(Debug)]
pub struct Tlog {
    entries: PagedFile,
    levels: Levels,
    heads: PagedFile,
    head_count: CountFile,
    hash_count: CountFile,
    /// How many leaves have durable hashes.
    synced_hashes: TreeSize,
    frontier: Frontier,
    reader: TlogReader,
    poisoned: bool,
    dir: PathBuf,
    _lock: Arc<dyn DiskFile>,
}

impl Tlog {
    /// Makes an empty log in `dir`, which must not exist. The directory gets its name in the last step: a creation
    /// that is killed leaves no log.
    ///
    /// # Errors
    /// [`StoreError::Exists`] when there is something; [`StoreError::Io`].
    pub fn create(dir: &Path) -> Result<Tlog, StoreError> {
        Tlog::create_on(&RealDisk, dir)
    }

    /// As [`Tlog::create`], on a disk of the caller's.
    ///
    /// # Errors
    /// As [`Tlog::create`].
    pub fn create_on(disk: &dyn Disk, dir: &Path) -> Result<Tlog, StoreError> {
        Tlog::create_with(disk, dir, |_| Ok(()))
    }

    /// As [`Tlog::create`]; `more` adds to the directory before it gets its name.
    pub(crate) fn create_with(
        disk: &dyn Disk,
        dir: &Path,
        more: impl FnOnce(&Path) -> Result<(), StoreError>,
    ) -> Result<Tlog, StoreError> {
        if disk.find(dir).map_err(|error| StoreError::io(dir, error))?.is_some() {
            return Err(StoreError::Exists(dir.to_owned()));
        }
        let mut name = dir.file_name().unwrap_or_default().to_owned();
        name.push(".being-made");
        let unfinished = dir.with_file_name(name);
        // What a killed attempt left is nobody's: nothing was ever logged in it.
        match disk.remove_dir_all(&unfinished) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(StoreError::io(&unfinished, error));
            }
            _ => {}
        }
        disk.create_dir_all(&unfinished).map_err(|error| StoreError::io(&unfinished, error))?;
        drop((PagedFile::open(disk, &unfinished, "entries")?, PagedFile::open(disk, &unfinished, "heads")?));
        drop((Levels::open(disk, &unfinished)?, CountFile::open(disk, &unfinished, HEAD_COUNT)?));
        more(&unfinished)?;
        sync_directory(disk, &unfinished)?;
        disk.rename(&unfinished, dir).map_err(|error| StoreError::io(dir, error))?;
        Tlog::open_on(disk, dir, &|_| None).map(|(log, _)| log)
    }

    /// Opens the log in `dir` and recovers: finds the last head that was signed, cuts off what it does not cover,
    /// derives missing hashes again, and checks that they lead to the head's root. What a head covers is never
    /// repaired silently: if it is not there or not right, this is an error that names the place.
    ///
    /// # Errors
    /// [`StoreError`]; [`StoreError::InUse`] while another process has it.
    pub fn open(dir: &Path, head_check: HeadCheck<'_>) -> Result<(Tlog, Recovery), StoreError> {
        Tlog::open_on(&RealDisk, dir, head_check)
    }

    /// As [`Tlog::open`], on a disk of the caller's.
    ///
    /// # Errors
    /// As [`Tlog::open`].
    pub fn open_on(disk: &dyn Disk, dir: &Path, head_check: HeadCheck<'_>) -> Result<(Tlog, Recovery), StoreError> {
        let truth = ["entries", "heads"];
        let mut is_there = [false; 2];
        for (name, is_there) in truth.iter().zip(&mut is_there) {
            let path = dir.join(name);
            let found = disk.find(&path).map_err(|error| StoreError::io(&path, error))?;
            *is_there = matches!(found, Some(Found::File(_)));
        }
        if is_there == [false; 2] {
            return Err(StoreError::Missing(dir.to_owned()));
        }
        let lock = lock(disk, dir)?;
        for (name, is_there) in truth.iter().zip(is_there) {
            if !is_there {
                return Err(damaged(&dir.join(name), "byte", 0, "the file is gone"));
            }
        }
        sync_way_to(disk, dir)?;
        // Nothing but derived files is changed before everything has been looked at.
        let mut heads = PagedFile::open(disk, dir, "heads")?;
        let (head_count, at_least) = CountFile::open(disk, dir, HEAD_COUNT)?;
        let last = last_head(&heads, at_least, head_check)?;
        let (size, root) = (last.size, last.root);
        let mut entries = PagedFile::open(disk, dir, "entries")?;
        if entries.count() < size.0 {
            let why = format!("the last signed head covers {size} entries and only {} are there", entries.count());
            return Err(damaged(entries.path(), "entry", entries.count(), &why));
        }
        let mut levels = Levels::open(disk, dir)?;
        let (hash_count, synced) = CountFile::open(disk, dir, HASH_COUNT)?;
        let published = Published {
            size,
            root,
            entries_end: entries.end_of(size.0)?,
            heads: last.count,
            heads_end: heads.end_of(last.count)?,
            latest: last.latest,
        };
        let torn_head_bytes = heads.byte_len() - published.heads_end;
        let unsigned_entries = entries.count() - size.0;
        let reader = TlogReader::new(entries.reader(), levels.reader(), heads.reader(), published);
        let known = levels.known(size);
        let mut begin = TreeSize(known.0.min(synced));
        if let Err(error) = leads_to(&entries, &levels, begin, size, root) {
            if leads_to(&entries, &levels, TreeSize(0), size, root).is_err() {
                levels.fit(known)?;
                rebuild_hashes(&entries, &mut levels, known, size)?;
                reader.verify(head_check, &mut |_, _| {})?;
                return Err(error);
            }
            tracing::warn!(path = %dir.display(), %error, "the entries lead to the signed root; deriving all hashes again");
            begin = TreeSize(0);
        }
        levels.fit(begin)?;
        rebuild_hashes(&entries, &mut levels, begin, size)?;
        let frontier = frontier_of(&StoredTree { levels: &levels.reader(), size }, size)?;
        if frontier.root() != root {
            return Err(StoreError::WrongRoot { size });
        }
        heads.settle(last.count)?;
        entries.settle(size.0)?;
        // Only now: a count that outlived the head would speak of hashes that the next history has not synced.
        hash_count.write(size.0)?;
        head_count.write(last.count)?;
        sync_directory(disk, dir)?;
        let recovery = Recovery { unsigned_entries, torn_head_bytes, rebuilt_hashes: size.0 - begin.0 };
        let dir = dir.to_owned();
        let log = Tlog {
            entries,
            levels,
            heads,
            head_count,
            hash_count,
            synced_hashes: size,
            frontier,
            reader,
            poisoned: false,
            dir,
            _lock: lock,
        };
        Ok((log, recovery))
    }

    /// Derives everything again from the entries and compares: every leaf hash, the root of every tile, every head's
    /// signature and root. `progress` hears how many entries of how many are done. Reads the whole log.
    ///
    /// # Errors
    /// [`StoreError::Damaged`] with the first place that is wrong, and what to do about it.
    pub fn verify_all(
        &self,
        head_check: HeadCheck<'_>,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Inspection, StoreError> {
        self.reader.verify(head_check, progress)
    }

    /// For those who read. They see what is committed, and nothing else.
    pub fn reader(&self) -> TlogReader {
        self.reader.clone()
    }

    /// Appends entries and makes them durable; reads them and the tree's right edge back, and recomputes the root
    /// from what was read. Nothing is committed yet. With no entries it answers the tree as it is.
    ///
    /// # Errors
    /// [`StoreError`]; after any but [`StoreError::TooLong`] the log is poisoned.
    pub fn append(&mut self, entries: &[impl AsRef<[u8]>]) -> Result<Appended, StoreError> {
        let before = self.frontier.size();
        if !entries.is_empty() {
            self.write(entries)?;
            self.sync()?;
            self.read_back(before)?;
        }
        Ok(self.appended())
    }

    /// Where the log lies.
    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    /// The tree as it is in memory: what was appended last, committed or not.
    pub(crate) fn appended(&self) -> Appended {
        Appended { size: self.frontier.size(), root: self.frontier.root() }
    }

    /// Commits: appends the signed head over what was appended last to `heads`, makes it durable, publishes it, and
    /// only then opens the seal.
    ///
    /// # Errors
    /// [`StoreError::OtherHead`] when it is not the head over what was appended last; [`StoreError`] otherwise, and
    /// the log is poisoned.
    pub fn record_head(
        &mut self,
        head: Sealed<SignedCheckpoint<Verified>>,
    ) -> Result<SignedCheckpoint<Verified>, StoreError> {
        let (size, root) = (head.peek().checkpoint().size, head.peek().checkpoint().root);
        if (size, root) != (self.frontier.size(), self.frontier.root()) {
            return Err(StoreError::OtherHead { appended: self.frontier.size() });
        }
        self.guarded(|log| {
            log.heads.append(&[head.peek().bytes()])?;
            log.heads.sync()?;
            log.heads.read_back(head.peek().bytes())?;
            log.head_count.write(log.heads.count())?;
            let head = head.open();
            log.reader.publish(Published {
                size,
                root,
                entries_end: log.entries.end(),
                heads: log.heads.count(),
                heads_end: log.heads.end(),
                latest: Some(Bytes::copy_from_slice(head.bytes())),
            });
            Ok(head)
        })
    }

    /// Appends entries, has a head over them signed, commits it, and only then opens what was sealed with the entries.
    ///
    /// # Errors
    /// [`StoreError`]; nothing was opened, and after any but [`StoreError::TooLong`] the log is poisoned.
    pub fn commit<T>(
        &mut self,
        entries: &[impl AsRef<[u8]>],
        sealed: Vec<Sealed<T>>,
        sign: impl FnOnce(Appended) -> Result<Sealed<SignedCheckpoint<Verified>>, note::CheckpointError>,
    ) -> Result<Vec<T>, StoreError> {
        let appended = self.append(entries)?;
        self.record_head(sign(appended)?)?;
        Ok(sealed.into_iter().map(Sealed::open).collect())
    }

    fn guarded<T>(&mut self, write: impl FnOnce(&mut Tlog) -> Result<T, StoreError>) -> Result<T, StoreError> {
        if self.poisoned {
            return Err(StoreError::Poisoned);
        }
        // Whatever ends `write` early, a panic included, leaves the log poisoned.
        self.poisoned = true;
        let written = write(self)?;
        self.poisoned = false;
        Ok(written)
    }

    /// Step 1, first half: the bytes are written.
    pub(crate) fn write(&mut self, entries: &[impl AsRef<[u8]>]) -> Result<(), StoreError> {
        if let Some(long) = entries.iter().find(|entry| entry.as_ref().len() > merkle::MAX_ENTRY_LEN) {
            return Err(merkle::EntryTooLong { length: long.as_ref().len() }.into());
        }
        self.guarded(|log| {
            let leaves: Vec<Hash> = entries.iter().map(|entry| leaf_hash(entry.as_ref())).collect();
            log.entries.append(entries)?;
            log.levels.append(&leaves)?;
            leaves.into_iter().for_each(|leaf| log.frontier.push(leaf));
            Ok(())
        })
    }

    /// Step 1, second half: the entries that were written are durable.
    pub(crate) fn sync(&mut self) -> Result<(), StoreError> {
        self.guarded(|log| {
            log.entries.sync()?;
            log.sync_hashes_if_due()
        })
    }

    /// Hashes can be derived again, so they cost a commit no sync of their own: now and then is enough to have little to
    /// derive at the next start. Only of what is committed it may be said that it is durable: the rest may yet be cut
    /// off and be replaced.
    fn sync_hashes_if_due(&mut self) -> Result<(), StoreError> {
        let committed = self.reader.size();
        if committed.0 - self.synced_hashes.0 < SYNC_HASHES_AFTER {
            return Ok(());
        }
        self.levels.sync(self.synced_hashes, self.frontier.size())?;
        self.hash_count.write(committed.0)?;
        self.synced_hashes = committed;
        Ok(())
    }

    /// Step 2: what was written has to come back from the files, entry by entry, and lead to the root that is to be
    /// signed.
    pub(crate) fn read_back(&mut self, before: TreeSize) -> Result<(), StoreError> {
        self.guarded(|log| {
            let size = log.frontier.size();
            check_entries(&log.entries, &log.levels, before, size)?;
            let levels = log.levels.reader();
            let stored = root_of(&StoredTree { levels: &levels, size }, size);
            let leads_there = stored.is_ok_and(|root| root == log.frontier.root());
            if leads_there { Ok(()) } else { Err(StoreError::WrongRoot { size }) }
        })
    }
}

/// Compares the leaf hashes of entries `from..to` as stored with their hashes as stored.
fn check_entries(entries: &PagedFile, levels: &Levels, from: TreeSize, to: TreeSize) -> Result<(), StoreError> {
    let (reader, levels) = (entries.reader(), levels.reader());
    for index in from.0 / PAGE..to.0.div_ceil(PAGE) {
        let Some(page) = PageId::at(index, to.0) else { break };
        let first = index * PAGE;
        let bytes = reader.page(page, entries.end())?;
        let strings = merkle::decode_entries(&bytes).unwrap_or_default();
        let hashes = levels.hashes(0, first, usize::from(page.width))?;
        let skipped = from.0.saturating_sub(first) as usize;
        for place in skipped..usize::from(page.width) {
            if strings.get(place).map(|entry| leaf_hash(entry)) != hashes.get(place).copied() {
                let why = "its stored bytes do not have its stored hash";
                return Err(damaged(reader.path(), "entry", first + place as u64, why));
            }
        }
    }
    Ok(())
}

/// The last head that was recorded.
pub(crate) struct LastHead {
    pub(crate) count: u64,
    pub(crate) latest: Option<Bytes>,
    pub(crate) size: TreeSize,
    pub(crate) root: RootHash,
}

/// The last head in the file that this log signed. What a crash leaves behind it of a head that was being written is
/// cut short or lacks a sector. Anything else there is damage, and so are fewer heads than were counted; then the log
/// must not start: it might sign a second history over one that it released.
pub(crate) fn last_head(heads: &PagedFile, at_least: u64, head_check: HeadCheck<'_>) -> Result<LastHead, StoreError> {
    let mut count = heads.count();
    let last = loop {
        let Some(last) = count.checked_sub(1) else {
            break LastHead { count, latest: None, size: TreeSize(0), root: EMPTY_ROOT };
        };
        let page = PageId { index: last / PAGE, width: (last % PAGE + 1) as u16 };
        let head = heads.reader().string(page, usize::from(page.width) - 1, heads.end())?;
        if let Some((size, root)) = head_check(&head) {
            break LastHead { count, latest: Some(Bytes::from(head)), size, root };
        }
        count = last;
    };
    let end = heads.end_of(last.count)?;
    let rest = heads.rest(end)?;
    if let Some((length, head)) = rest.split_first_chunk::<2>()
        && !lacks_a_sector(&rest, end)
    {
        let is_whole = usize::from(u16::from_be_bytes(*length)) <= head.len();
        let why = if holds_a_head(head, head_check) {
            "it is whole, and its length is not"
        } else {
            "it is whole, and not a checkpoint that this log's key signed: if the key file is another log's, give the right one"
        };
        if is_whole || holds_a_head(head, head_check) {
            return Err(damaged(heads.path(), "head", last.count, why));
        }
    }
    if last.count < at_least {
        let why = format!("{at_least} heads were signed and only {} are there", last.count);
        return Err(damaged(heads.path(), "head", last.count, &why));
    }
    Ok(last)
}

/// Whether the bytes begin with a head that was signed: its end is the end of one of the first lines.
fn holds_a_head(bytes: &[u8], head_check: HeadCheck<'_>) -> bool {
    let ends = (1..=bytes.len()).filter(|end| bytes[end - 1] == b'\n');
    ends.take(MAX_HEAD_LINES).any(|end| head_check(&bytes[..end]).is_some())
}

fn rebuild_hashes(entries: &PagedFile, levels: &mut Levels, known: TreeSize, size: TreeSize) -> Result<(), StoreError> {
    let reader = entries.reader();
    let mut done = known.0;
    while done < size.0 {
        let mut leaves = Vec::new();
        let first_page = done / PAGE;
        for index in first_page..first_page + REBUILD_PAGES {
            let Some(page) = PageId::at(index, size.0) else { break };
            let bytes = reader.page(page, entries.end())?;
            let skipped = done.saturating_sub(index * PAGE) as usize;
            leaves.extend(
                merkle::decode_entries(&bytes).unwrap_or_default().iter().skip(skipped).map(|entry| leaf_hash(entry)),
            );
        }
        if leaves.is_empty() {
            return Err(StoreError::WrongRoot { size });
        }
        levels.append(&leaves)?;
        done += leaves.len() as u64;
    }
    levels.sync(known, size)
}

/// Whether the stored hashes of the first `begin` leaves, and the entries from there on, lead to the root. Changes
/// nothing: where they do not, the stored hashes tell which entry is wrong.
fn leads_to(
    entries: &PagedFile,
    levels: &Levels,
    begin: TreeSize,
    size: TreeSize,
    root: RootHash,
) -> Result<(), StoreError> {
    let reader = entries.reader();
    let mut frontier = frontier_of(&StoredTree { levels: &levels.reader(), size: begin }, begin)?;
    for index in begin.0 / PAGE..size.0.div_ceil(PAGE) {
        let Some(page) = PageId::at(index, size.0) else { break };
        let bytes = reader.page(page, entries.end())?;
        let strings = merkle::decode_entries(&bytes).unwrap_or_default();
        let skipped = begin.0.saturating_sub(index * PAGE) as usize;
        strings.iter().skip(skipped).for_each(|entry| frontier.push(leaf_hash(entry)));
    }
    if frontier.root() != root {
        return Err(StoreError::WrongRoot { size });
    }
    // A tile that was full before is in the frontier by its root only.
    check_entries(entries, levels, TreeSize(begin.0.saturating_sub(1) / PAGE * PAGE), begin)
}

/// The frontier of a tree that is stored: one subtree for each one-bit of the size.
pub(crate) fn frontier_of(tree: &dyn HashSource, size: TreeSize) -> Result<Frontier, StoreError> {
    let one_bits = (0..64u8).rev().filter(|level| size.0 >> level & 1 == 1);
    let peaks: Option<Vec<_>> = one_bits.map(|level| tree.subtree(level, (size.0 >> level) - 1)).collect();
    peaks.and_then(|peaks| Frontier::from_peaks(size, peaks)).ok_or(StoreError::WrongRoot { size })
}

fn damaged(path: &Path, what: &'static str, position: u64, why: &str) -> StoreError {
    StoreError::Damaged { path: path.to_owned(), what, position, why: why.to_owned() }
}

fn lock(disk: &dyn Disk, dir: &Path) -> Result<Arc<dyn DiskFile>, StoreError> {
    let path = dir.join("lock");
    let file = disk.open(&path, OpenFor::Writing).map_err(|error| StoreError::io(&path, error))?;
    append_file::lock(&*file, &path, dir)?;
    Ok(file)
}
