//! A tiled log on disk: the log's own, and each witness's journal.
//!
//! ```text
//! entries  entries.offsets   every entry, oldest first (paged.rs)
//! hashes/0 … hashes/7        its tree (levels.rs)
//! heads    heads.offsets     every checkpoint ever signed, oldest first (paged.rs)
//! lock                       held by the one process that writes
//! ```
//!
//! Nothing is ever rewritten. What counts is what `heads` says: an entry that no durable head covers was never
//! logged. Order of a commit, and what a crash after each step leaves:
//!
//! 1. [`Tlog::append`]: entries and hashes written and synced -> an unsigned tail, cut off at the next start
//! 2. same call: the new entries and the tree's right edge read back from disk, root recomputed -> the same
//! 3. the caller signs the root into a [`Sealed`] checkpoint -> the same
//! 4. [`Tlog::record_head`]: checkpoint appended to `heads` and synced, **the commit point** -> the next start finds it
//! 5. same call: published to readers, the seal opened -> the same
//!
//! Any error in 1 to 4 poisons the log: what is durable is unknown until it is opened again.

use crate::append_file::{self, sync_directory};
use crate::error::StoreError;
use crate::levels::{Levels, StoredTree};
use crate::paged::PagedFile;
use crate::reader::{Published, TlogReader};
use crate::sealed::Sealed;
use bytes::Bytes;
use merkle::{EMPTY_ROOT, Frontier, Hash, PageId, RootHash, TILE_WIDTH, TreeSize, leaf_hash, root_of};
use note::{SignedCheckpoint, Verified};
use std::fs::{self, File};
use std::path::{Path, PathBuf};

/// Says what a stored checkpoint says, if it is one that this log signed; `None` for anything else.
pub type HeadCheck<'a> = &'a dyn Fn(&[u8]) -> Option<(TreeSize, RootHash)>;

/// Entries hashed at once while hashes are derived again.
const REBUILD_PAGES: u64 = 64;

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
    frontier: Frontier,
    reader: TlogReader,
    poisoned: bool,
    _lock: File,
}

impl Tlog {
    /// Makes an empty log in `dir`, which must not exist. It is made under another name and renamed when whole, so
    /// that a kill leaves nothing half-made.
    ///
    /// # Errors
    /// [`StoreError::Exists`] when there is something; [`StoreError::Io`].
    pub fn create(dir: &Path) -> Result<Tlog, StoreError> {
        Tlog::create_with(dir, |_| Ok(()))
    }

    /// As [`Tlog::create`]; `more` adds to the directory before it gets its name.
    pub(crate) fn create_with(
        dir: &Path,
        more: impl FnOnce(&Path) -> Result<(), StoreError>,
    ) -> Result<Tlog, StoreError> {
        if fs::symlink_metadata(dir).is_ok() {
            return Err(StoreError::Exists(dir.to_owned()));
        }
        let mut name = dir.file_name().unwrap_or_default().to_owned();
        name.push(".being-made");
        let unfinished = dir.with_file_name(name);
        // What a killed attempt left is nobody's: nothing was ever logged in it.
        match fs::remove_dir_all(&unfinished) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(StoreError::io(&unfinished, error));
            }
            _ => {}
        }
        fs::create_dir_all(&unfinished).map_err(|error| StoreError::io(&unfinished, error))?;
        drop((
            PagedFile::open(&unfinished, "entries")?,
            Levels::open(&unfinished)?,
            PagedFile::open(&unfinished, "heads")?,
        ));
        more(&unfinished)?;
        sync_directory(&unfinished)?;
        fs::rename(&unfinished, dir).map_err(|error| StoreError::io(dir, error))?;
        sync_directory(&parent_of(dir))?;
        Tlog::open(dir, &|_| None).map(|(log, _)| log)
    }

    /// Opens the log in `dir` and recovers: finds the last head that was signed, cuts off what it does not cover,
    /// derives missing hashes again, and checks that they lead to the head's root. What a head covers is never
    /// repaired silently: if it is not there or not right, this is an error that names the place.
    ///
    /// # Errors
    /// [`StoreError`]; [`StoreError::InUse`] while another process has it.
    pub fn open(dir: &Path, head_check: HeadCheck<'_>) -> Result<(Tlog, Recovery), StoreError> {
        if !dir.join("entries").is_file() {
            return Err(StoreError::Missing(dir.to_owned()));
        }
        let lock = lock(dir)?;
        let mut recovery = Recovery::default();
        let (mut heads, torn) = PagedFile::open(dir, "heads")?;
        recovery.torn_head_bytes = torn.bytes;
        let (latest, size, root) = last_head(&mut heads, head_check, &mut recovery)?;
        let (mut entries, _) = PagedFile::open(dir, "entries")?;
        if entries.count() < size.0 {
            let why = format!("the last signed head covers {size} entries and only {} are there", entries.count());
            return Err(StoreError::Damaged {
                path: entries.path().to_owned(),
                what: "entry",
                position: entries.count(),
                why,
            });
        }
        recovery.unsigned_entries = entries.count() - size.0;
        entries.truncate(size.0)?;
        let mut levels = Levels::open(dir)?;
        let known = levels.fit(size)?;
        recovery.rebuilt_hashes = size.0 - known.0;
        rebuild_hashes(&entries, &mut levels, known, size)?;
        let frontier = frontier_of(&levels, size)?;
        if frontier.root() != root {
            return Err(StoreError::WrongRoot { size });
        }
        let published =
            Published { size, entries_end: entries.end(), heads: heads.count(), heads_end: heads.end(), latest };
        let reader = TlogReader::new(entries.reader(), levels.reader(), heads.reader(), published);
        Ok((Tlog { entries, levels, heads, frontier, reader, poisoned: false, _lock: lock }, recovery))
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
            self.sync(before)?;
            self.read_back(before)?;
        }
        Ok(self.appended())
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
            let head = head.open();
            log.reader.publish(Published {
                size,
                entries_end: log.entries.end(),
                heads: log.heads.count(),
                heads_end: log.heads.end(),
                latest: Some(Bytes::copy_from_slice(head.bytes())),
            });
            Ok(head)
        })
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

    /// Step 1, second half: what was written behind `before` entries is durable.
    pub(crate) fn sync(&mut self, before: TreeSize) -> Result<(), StoreError> {
        self.guarded(|log| {
            log.entries.sync()?;
            log.levels.sync(before, log.frontier.size())
        })
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
    for index in from.0 / u64::from(TILE_WIDTH)..to.0.div_ceil(u64::from(TILE_WIDTH)) {
        let Some(page) = PageId::at(index, to.0) else { break };
        let first = index * u64::from(TILE_WIDTH);
        let bytes = reader.page(page, entries.end())?;
        let strings = merkle::decode_entries(&bytes).unwrap_or_default();
        let hashes = levels.leaves(first, usize::from(page.width))?;
        let skipped = from.0.saturating_sub(first) as usize;
        for place in skipped..usize::from(page.width) {
            if strings.get(place).map(|entry| leaf_hash(entry)) != hashes.get(place).copied() {
                let why = "its stored bytes do not have its stored hash".to_owned();
                return Err(StoreError::Damaged {
                    path: reader.path().to_owned(),
                    what: "entry",
                    position: first + place as u64,
                    why,
                });
            }
        }
    }
    Ok(())
}

/// The last head in the file that this log signed. A string behind it that ends in a zero byte, or is empty, is
/// what a crash leaves of a head that was being written; one that is whole and not ours is damage, and then the
/// log must not start: it might sign a second history over the one that the damaged head covered.
fn last_head(
    heads: &mut PagedFile,
    head_check: HeadCheck<'_>,
    recovery: &mut Recovery,
) -> Result<(Option<Bytes>, TreeSize, RootHash), StoreError> {
    loop {
        let Some(last) = heads.count().checked_sub(1) else { return Ok((None, TreeSize(0), EMPTY_ROOT)) };
        let page = PageId { index: last / u64::from(TILE_WIDTH), width: (last % u64::from(TILE_WIDTH) + 1) as u16 };
        let head = heads.reader().string(page, usize::from(page.width) - 1, heads.end())?;
        if let Some((size, root)) = head_check(&head) {
            return Ok((Some(Bytes::from(head)), size, root));
        }
        if head.last().is_some_and(|byte| *byte != 0) {
            let why = "it is whole, and not a checkpoint that this log's key signed".to_owned();
            return Err(StoreError::Damaged { path: heads.path().to_owned(), what: "head", position: last, why });
        }
        recovery.torn_head_bytes += 2 + head.len() as u64;
        heads.truncate(last)?;
    }
}

fn rebuild_hashes(entries: &PagedFile, levels: &mut Levels, known: TreeSize, size: TreeSize) -> Result<(), StoreError> {
    let reader = entries.reader();
    let mut done = known.0;
    while done < size.0 {
        let mut leaves = Vec::new();
        let first_page = done / u64::from(TILE_WIDTH);
        for index in first_page..first_page + REBUILD_PAGES {
            let Some(page) = PageId::at(index, size.0) else { break };
            let bytes = reader.page(page, entries.end())?;
            let skipped = done.saturating_sub(index * u64::from(TILE_WIDTH)) as usize;
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

/// The frontier of the stored tree: one subtree for each one-bit of the size.
fn frontier_of(levels: &Levels, size: TreeSize) -> Result<Frontier, StoreError> {
    let levels = levels.reader();
    let tree = StoredTree { levels: &levels, size };
    let mut peaks = Vec::new();
    let mut begin = 0;
    for level in (0..64u8).rev().filter(|level| size.0 >> level & 1 == 1) {
        let peak = merkle::HashSource::subtree(&tree, level, begin >> level).ok_or(StoreError::WrongRoot { size })?;
        peaks.push(peak);
        begin += 1 << level;
    }
    Frontier::from_peaks(size, peaks).ok_or(StoreError::WrongRoot { size })
}

fn lock(dir: &Path) -> Result<File, StoreError> {
    let path = dir.join("lock");
    let file = File::options().write(true).create(true).truncate(false).open(&path);
    let file = file.map_err(|error| StoreError::io(&path, error))?;
    append_file::lock(&file, &path, dir)?;
    Ok(file)
}

fn parent_of(dir: &Path) -> PathBuf {
    match dir.parent() {
        Some(parent) if parent != Path::new("") => parent.to_owned(),
        _ => PathBuf::from("."),
    }
}
