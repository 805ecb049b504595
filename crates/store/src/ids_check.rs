//! The id index compared with the leaf hashes, whole: every id that it holds must begin the hash of the leaf that it names,
//! and there must be as many as leaves that it says it knows. So one pass over it, in its own order, shows both that
//! nothing in it is wrong and that nothing is missing.
//!
//! A file is looked at through a backend that keeps in memory what redb would write, which it does even to open one that
//! was not closed.

use crate::append_file::FileReader;
use crate::disk::RealDisk;
use crate::finding::{Finding, Findings};
use crate::ids::{CACHE_BYTES, IDS, KEY_LEN, key_of, through};
use crate::reader::TlogReader;
use merkle::LeafIndex;
use rayon::prelude::*;
use redb::{Database, ReadableDatabase, StorageBackend};
use std::collections::BTreeMap;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

/// Parts that the ids are looked at in, side by side.
const PARTS: u16 = 64;
/// Leaves that are named as not found, at most.
const MAX_NAMED: usize = 1000;
/// What is overwritten is kept by blocks of this size.
const BLOCK: u64 = 4096;

/// Checks the file at `path`, if there is one, and changes nothing.
pub(crate) fn check_file(path: &Path, log: &TlogReader, findings: &mut Findings) {
    let Ok(file) = FileReader::open(&RealDisk, path.to_owned()) else { return };
    let look = || -> Result<(), String> {
        let backend = Shadow::over(file).map_err(|error| error.to_string())?;
        let builder = || Database::builder().set_cache_size(CACHE_BYTES).create_with_backend(backend);
        let mut database = builder().map_err(|error| error.to_string())?;
        let before = findings.count();
        check(&database, path, log, findings)?;
        // Reads all pages once more: what leads to the ids can be wrong where they are not.
        match database.check_integrity() {
            Ok(true) => Ok(()),
            Ok(false) | Err(_) if findings.count() > before => Ok(()),
            Ok(false) => Err("its checksums do not fit".to_owned()),
            Err(error) => Err(error.to_string()),
        }
    };
    // redb panics over some files that were changed by others.
    let looked = catch_unwind(AssertUnwindSafe(look)).unwrap_or_else(|_| Err("redb panicked".to_owned()));
    if let Err(why) = looked {
        findings.add(Finding::derived(path, "byte", 0, format!("it is no sound database: {why}")));
    }
}

/// Checks an open database.
pub(crate) fn check(database: &Database, path: &Path, log: &TlogReader, findings: &mut Findings) -> Result<(), String> {
    let known = through(database)?;
    if known > log.size().0 {
        let why = format!("it speaks of {known} receipts and {} are there", log.size());
        findings.add(Finding::derived(path, "leaf", log.size().0, why));
        return Ok(());
    }
    let parts: Vec<u16> = (0..PARTS).collect();
    let parts: Result<Vec<Part>, redb::Error> =
        parts.into_par_iter().map(|part| look_at(database, part, known, log)).collect();
    let parts = parts.map_err(|error| error.to_string())?;
    let good: u64 = parts.iter().map(|part| part.good).sum();
    let wrong: Vec<u64> = parts.into_iter().flat_map(|part| part.wrong).collect();
    if good == known && wrong.is_empty() {
        return Ok(());
    }
    let missing = missing(database, known, log).map_err(|error| error.to_string())?;
    for place in &missing {
        findings.add(Finding::derived(path, "leaf", *place, "its receipt is not found by its id"));
    }
    for place in wrong.iter().filter(|place| !missing.contains(place)) {
        findings.add(Finding::derived(path, "leaf", *place, "an id that is not its receipt's leads to it"));
    }
    Ok(())
}

struct Part {
    good: u64,
    wrong: Vec<u64>,
}

/// The ids that begin with some bytes.
fn look_at(database: &Database, part: u16, known: u64, log: &TlogReader) -> Result<Part, redb::Error> {
    let table = database.begin_read()?.open_table(IDS)?;
    let width = 256 / PARTS;
    let (mut first, mut last) = ([0; KEY_LEN], [0xff; KEY_LEN]);
    first[0] = (part * width) as u8;
    last[0] = (part * width + width - 1) as u8;
    let mut found = Part { good: 0, wrong: Vec::new() };
    for row in table.range::<&[u8; KEY_LEN]>(&first..=&last)? {
        let (id, index) = row?;
        let (id, index) = (id.value(), index.value());
        let is_there =
            index < known && log.leaf(LeafIndex(index)).is_ok_and(|leaf| leaf.is_some_and(|leaf| key_of(&leaf) == id));
        if is_there {
            found.good += 1;
        } else if found.wrong.len() < MAX_NAMED {
            found.wrong.push(index);
        }
    }
    Ok(found)
}

/// The first leaves below `known` that are not found by their hashes.
fn missing(database: &Database, known: u64, log: &TlogReader) -> Result<Vec<u64>, redb::Error> {
    let table = database.begin_read()?.open_table(IDS)?;
    let mut missing = Vec::new();
    for index in 0..known {
        let Ok(Some(leaf)) = log.leaf(LeafIndex(index)) else { continue };
        if table.get(key_of(&leaf))?.map(|found| found.value()) != Some(index) {
            missing.push(index);
            if missing.len() == MAX_NAMED {
                break;
            }
        }
    }
    Ok(missing)
}

/// A file, and in memory what was written over it.
#[derive(Debug)]
struct Shadow {
    file: FileReader,
    over: Mutex<Over>,
}

#[derive(Debug)]
struct Over {
    length: u64,
    /// How much of the file still shows.
    shows: u64,
    blocks: BTreeMap<u64, Vec<u8>>,
}

impl Shadow {
    fn over(file: FileReader) -> Result<Shadow, crate::StoreError> {
        let length = file.len()?;
        Ok(Shadow { file, over: Mutex::new(Over { length, shows: length, blocks: BTreeMap::new() }) })
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Over> {
        self.over.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A block as it is now.
    fn block(&self, over: &Over, number: u64) -> io::Result<Vec<u8>> {
        if let Some(block) = over.blocks.get(&number) {
            return Ok(block.clone());
        }
        let shown = over.shows.saturating_sub(number * BLOCK).min(BLOCK);
        let mut block = self.file.read(number * BLOCK, shown as usize).map_err(io::Error::other)?;
        block.resize(BLOCK as usize, 0);
        Ok(block)
    }
}

impl StorageBackend for Shadow {
    fn len(&self) -> io::Result<u64> {
        Ok(self.lock().length)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let over = self.lock();
        let end = offset + out.len() as u64;
        if end > over.length {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let blocks = offset / BLOCK..end.div_ceil(BLOCK);
        if end <= over.shows && over.blocks.range(blocks.clone()).next().is_none() {
            drop(over);
            out.copy_from_slice(&self.file.read(offset, out.len()).map_err(io::Error::other)?);
            return Ok(());
        }
        for number in blocks {
            let block = self.block(&over, number)?;
            let (begin, until) = (offset.max(number * BLOCK), end.min((number + 1) * BLOCK));
            let from = &block[(begin - number * BLOCK) as usize..(until - number * BLOCK) as usize];
            out[(begin - offset) as usize..(until - offset) as usize].copy_from_slice(from);
        }
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let mut over = self.lock();
        if len < over.length {
            // What lies behind the new end must be zeroes if it grows again.
            over.shows = over.shows.min(len);
            over.blocks.split_off(&len.div_ceil(BLOCK));
            if let Some(block) = over.blocks.get_mut(&(len / BLOCK)) {
                block[(len % BLOCK) as usize..].fill(0);
            }
        }
        over.length = len;
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut over = self.lock();
        let end = offset + data.len() as u64;
        over.length = over.length.max(end);
        for number in offset / BLOCK..end.div_ceil(BLOCK) {
            let mut block = self.block(&over, number)?;
            let (begin, until) = (offset.max(number * BLOCK), end.min((number + 1) * BLOCK));
            let into = &mut block[(begin - number * BLOCK) as usize..(until - number * BLOCK) as usize];
            into.copy_from_slice(&data[(begin - offset) as usize..(until - offset) as usize]);
            over.blocks.insert(number, block);
        }
        Ok(())
    }
}
