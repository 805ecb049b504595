//! The hashes of a tree, one growing file a tile level.
//!
//! ```text
//! hashes/0   leaf hashes, 32 bytes each                  tile (0, N) = bytes [8192 N, 8192 (N + 1))
//! hashes/1   roots of full level-0 tiles, 32 bytes each  …
//! ```
//!
//! All of it is derived from the entries, and not synced at a commit: what was not synced yet is derived again at
//! recovery.

use crate::append_file::{AppendFile, FileReader, sync_directory};
use crate::disk::{Disk, RealDisk};
use crate::error::StoreError;
use merkle::{HASH_LEN, Hash, HashSource, TILE_WIDTH, TileId, TreeSize, node_hash, tile_root};
use std::path::Path;

/// Tile levels that a tree of fewer than 2^64 leaves can have: 256^8 = 2^64.
const LEVELS: usize = 8;
const WIDTH: usize = TILE_WIDTH as usize;

/// The writing end.
#[derive(Debug)]
pub(crate) struct Levels {
    files: Vec<AppendFile>,
    /// The rightmost tile of each level while it is partial: fewer than 256 hashes.
    edges: Vec<Vec<Hash>>,
}

/// A reading end; cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct LevelsReader {
    files: Vec<FileReader>,
}

impl Levels {
    /// Opens the files in `dir/hashes`, making them where they are not.
    pub(crate) fn open(disk: &dyn Disk, dir: &Path) -> Result<Levels, StoreError> {
        let dir = dir.join("hashes");
        disk.create_dir_all(&dir).map_err(|error| StoreError::io(&dir, error))?;
        let open = |level: usize| AppendFile::open(disk, dir.join(level.to_string()));
        let files = (0..LEVELS).map(open).collect::<Result<_, _>>()?;
        sync_directory(disk, &dir)?;
        Ok(Levels { files, edges: vec![Vec::new(); LEVELS] })
    }

    /// For how many leaves of `size` all hashes are there: fewer when a file is too short.
    pub(crate) fn known(&self, size: TreeSize) -> TreeSize {
        let hashes = |file: &AppendFile| file.len() / HASH_LEN as u64;
        let mut known = size.0.min(hashes(&self.files[0]));
        for (level, file) in self.files.iter().enumerate().skip(1) {
            let full = |leaves: u64| leaves >> (8 * level);
            if hashes(file) < full(known) {
                // Everything below the last tile whose root is there.
                known = hashes(file) << (8 * level);
            }
        }
        TreeSize(known)
    }

    /// Cuts every file to what a tree of `size` leaves has, all of which must be known.
    pub(crate) fn fit(&mut self, size: TreeSize) -> Result<(), StoreError> {
        for (level, file) in self.files.iter_mut().enumerate() {
            let count = size.0 >> (8 * level);
            file.settle(count * HASH_LEN as u64)?;
            let edge = count % u64::from(TILE_WIDTH);
            let bytes = file.reader().read((count - edge) * HASH_LEN as u64, edge as usize * HASH_LEN)?;
            self.edges[level] = bytes.as_chunks().0.iter().map(|hash| Hash(*hash)).collect();
        }
        Ok(())
    }

    /// Appends leaf hashes, and the roots of the tiles they fill. Durable only after [`Levels::sync`].
    pub(crate) fn append(&mut self, leaves: &[Hash]) -> Result<(), StoreError> {
        let mut rising = leaves.to_vec();
        for (file, edge) in self.files.iter_mut().zip(&mut self.edges) {
            if rising.is_empty() {
                break;
            }
            let bytes: Vec<u8> = rising.iter().flat_map(|hash| hash.0).collect();
            file.append(&bytes)?;
            edge.append(&mut rising);
            let full = edge.len() / WIDTH * WIDTH;
            rising = edge[..full].as_chunks::<WIDTH>().0.iter().map(tile_root).collect();
            edge.drain(..full);
        }
        Ok(())
    }

    /// Makes everything appended durable, if it was durable for the `synced` leaves of before.
    pub(crate) fn sync(&self, synced: TreeSize, size: TreeSize) -> Result<(), StoreError> {
        let grown = |level: &usize| synced.0 >> (8 * level) != size.0 >> (8 * level);
        (0..LEVELS).filter(grown).try_for_each(|level| self.files[level].sync())
    }

    pub(crate) fn reader(&self) -> LevelsReader {
        LevelsReader { files: self.files.iter().map(|file| file.reader().clone()).collect() }
    }
}

impl LevelsReader {
    /// Opens the files in `dir/hashes`, which must be there.
    pub(crate) fn look(dir: &Path) -> Result<LevelsReader, StoreError> {
        let open = |level: usize| FileReader::open(&RealDisk, dir.join("hashes").join(level.to_string()));
        Ok(LevelsReader { files: (0..LEVELS).map(open).collect::<Result<_, _>>()? })
    }

    /// The bytes of a tile that is wholly there.
    pub(crate) fn tile(&self, tile: TileId) -> Result<Vec<u8>, StoreError> {
        self.files[usize::from(tile.level)].read(tile.index * (WIDTH * HASH_LEN) as u64, tile.byte_len())
    }

    /// `count` hashes of a level from number `first` on.
    pub(crate) fn hashes(&self, level: usize, first: u64, count: usize) -> Result<Vec<Hash>, StoreError> {
        let bytes = self.files[level].read(first * HASH_LEN as u64, count * HASH_LEN)?;
        Ok(bytes.as_chunks().0.iter().map(|hash| Hash(*hash)).collect())
    }

    pub(crate) fn path(&self, level: usize) -> &Path {
        self.files[level].path()
    }
}

/// The root of the complete subtree over `hashes`; `None` if no complete one has so many.
fn complete_root(mut hashes: Vec<Hash>) -> Option<Hash> {
    let mut count = Some(hashes.len()).filter(|count| count.is_power_of_two())?;
    while count > 1 {
        count /= 2;
        for place in 0..count {
            hashes[place] = node_hash(&hashes[2 * place], &hashes[2 * place + 1]);
        }
    }
    hashes.first().copied()
}

/// The tree of `size` leaves, of which no more is read than what is asked for. A read that fails is a missing hash.
pub(crate) struct StoredTree<'a> {
    pub(crate) levels: &'a LevelsReader,
    pub(crate) size: TreeSize,
}

impl HashSource for StoredTree<'_> {
    fn subtree(&self, level: u8, index: u64) -> Option<Hash> {
        let place = merkle::TilePlace::of(level, index);
        let tile = TileId::at(place.level, place.index, self.size)?;
        if place.first + place.count > usize::from(tile.width) {
            return None;
        }
        let first = place.index * WIDTH as u64 + place.first as u64;
        complete_root(self.levels.hashes(usize::from(place.level), first, place.count).ok()?)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;
    use merkle::{MemoryTree, leaf_hash, root_of};

    #[test]
    fn a_stored_tree_has_the_complete_subtrees_of_its_size_and_no_others() {
        let dir = tempfile::tempdir().unwrap();
        let mut levels = Levels::open(&RealDisk, dir.path()).unwrap();
        let leaves: Vec<Hash> = (0..700u64).map(|index| leaf_hash(&index.to_be_bytes())).collect();
        levels.append(&leaves).unwrap();
        let reader = levels.reader();
        let mut tree = MemoryTree::new();
        for (size, leaf) in (1u64..).zip(leaves) {
            tree.push(leaf);
            let stored = StoredTree { levels: &reader, size: TreeSize(size) };
            assert_eq!(root_of(&stored, TreeSize(size)).unwrap(), tree.root(), "{size}");
            if ![1, 2, 255, 256, 257, 511, 512, 700].contains(&size) {
                continue;
            }
            for level in 0..11 {
                for index in 0..=(size >> level) + 1 {
                    assert_eq!(stored.subtree(level, index), tree.subtree(level, index), "{size}: {level}, {index}");
                }
            }
        }
    }
}
