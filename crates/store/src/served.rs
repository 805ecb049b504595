//! What is read to be served is compared with its hash first: old bytes may have rotted since they were signed over.
//!
//! ```text
//! entry, bundle        each entry with its leaf hash
//! tile of a full one   its root with the hash in the tile above
//! tile that grows      the root of the whole tree, from the right edge as it is stored, with the newest head's
//! ```
//!
//! One bundle of 700-byte entries costs about as much as copying it; a tile 256 hashes. When something disagrees, the
//! place is looked for from there down, however long that takes: it is the last thing that this log does.

use crate::error::StoreError;
use crate::levels::StoredTree;
use crate::reader::{Published, TlogReader};
use merkle::{
    Frontier, Hash, HashSource, LeafIndex, PageId, TILE_WIDTH, TileId, TreeSize, leaf_hash, root_of, tile_root,
};

const WIDTH: u64 = TILE_WIDTH as u64;
/// Tile levels in a tree of fewer than 2^64 leaves.
const LEVELS: u8 = 8;

impl TlogReader {
    /// The bytes of a bundle, whose every entry has its leaf hash.
    pub(crate) fn sound_bundle(&self, page: PageId, published: &Published) -> Result<Vec<u8>, StoreError> {
        let bytes = self.entries.page(page, published.entries_end)?;
        let first = page.index * WIDTH;
        let leaves = self.levels.hashes(0, first, usize::from(page.width))?;
        let entries = merkle::decode_entries(&bytes).unwrap_or_default();
        let is_sound = |(entry, leaf): (&&[u8], &Hash)| leaf_hash(entry) == *leaf;
        match entries.iter().zip(&leaves).position(|pair| !is_sound(pair)) {
            None => Ok(bytes),
            Some(place) => Err(self.entry_or_hash(first + place as u64, published)),
        }
    }

    /// One entry, which has its leaf hash.
    pub(crate) fn sound_entry(&self, page: PageId, place: usize, published: &Published) -> Result<Vec<u8>, StoreError> {
        let entry = self.entries.string(page, place, published.entries_end)?;
        let index = page.index * WIDTH + place as u64;
        if self.levels.hashes(0, index, 1)? == [leaf_hash(&entry)] {
            Ok(entry)
        } else {
            Err(self.entry_or_hash(index, published))
        }
    }

    /// The bytes of a tile, which leads to what is above it.
    pub(crate) fn sound_tile(&self, tile: TileId, published: &Published) -> Result<Vec<u8>, StoreError> {
        let is_full = TileId::at(tile.level, tile.index, published.size).is_some_and(|held| held.width == TILE_WIDTH);
        if !is_full {
            let bytes = self.levels.tile(tile)?;
            let tree = StoredTree { levels: &self.levels, size: published.size };
            let leads_there = root_of(&tree, published.size).is_ok_and(|root| root == published.root);
            return if leads_there { Ok(bytes) } else { Err(self.damage_on_edge(published)) };
        }
        let mut bytes = self.levels.tile(tile.full())?;
        if self.root_above(tile.level, tile.index)? != root_of_bytes(&bytes) {
            let found = self.damage_below(tile.level, tile.index, published)?;
            return Err(found.unwrap_or_else(|| self.wrong_hash(tile.level + 1, tile.index)));
        }
        bytes.truncate(tile.byte_len());
        Ok(bytes)
    }

    /// For a proof of the leaf at `index` that does not lead to its head: where the hashes of it are damaged.
    pub(crate) fn damage_around(&self, index: LeafIndex) -> StoreError {
        let published = self.published();
        for level in 0..LEVELS {
            match TileId::at(level, index.0.checked_shr(8 * (u32::from(level) + 1)).unwrap_or(0), published.size) {
                Some(tile) if tile.width == TILE_WIDTH => {
                    if let Err(damage) = self.sound_tile(tile, &published) {
                        return damage;
                    }
                }
                _ => break,
            }
        }
        self.damage_on_edge(&published)
    }

    fn damage_on_edge(&self, published: &Published) -> StoreError {
        for level in (0..LEVELS).rev() {
            let count = published.size.0.checked_shr(8 * u32::from(level)).unwrap_or(0);
            match self.damage_below(level, count / WIDTH, published) {
                Ok(None) => {}
                Ok(Some(damage)) | Err(damage) => return damage,
            }
        }
        StoreError::WrongRoot { size: published.size }
    }

    /// The first hash of the tile, or below it, that is not what the entries make, if there is one.
    fn damage_below(&self, level: u8, index: u64, published: &Published) -> Result<Option<StoreError>, StoreError> {
        let Some(tile) = TileId::at(level, index, published.size) else { return Ok(None) };
        let hashes = self.levels.hashes(usize::from(level), index * WIDTH, usize::from(tile.width))?;
        for (place, hash) in (index * WIDTH..).zip(hashes) {
            let Some(lower) = level.checked_sub(1) else {
                let page = PageId { index, width: tile.width };
                return Ok(self.sound_bundle(page, published).err());
            };
            let below = TileId { level: lower, index: place, width: TILE_WIDTH };
            if root_of_bytes(&self.levels.tile(below)?) != hash {
                let deeper = self.damage_below(lower, place, published)?;
                return Ok(Some(deeper.unwrap_or_else(|| self.wrong_hash(level, place))));
            }
        }
        Ok(None)
    }

    /// An entry and its leaf hash disagree: which of them is it? What is above them says.
    fn entry_or_hash(&self, index: u64, published: &Published) -> StoreError {
        let leads = |from_entries: bool| -> Result<bool, StoreError> {
            let Some(page) = PageId::at(index / WIDTH, published.size.0) else { return Ok(false) };
            let leaves = if from_entries {
                let bytes = self.entries.page(page, published.entries_end)?;
                merkle::decode_entries(&bytes).unwrap_or_default().iter().map(|entry| leaf_hash(entry)).collect()
            } else {
                self.levels.hashes(0, page.index * WIDTH, usize::from(page.width))?
            };
            match <&[Hash; WIDTH as usize]>::try_from(leaves.as_slice()) {
                Ok(full) => Ok(self.root_above(0, page.index)? == tile_root(full)),
                Err(_) => {
                    let before = self.frontier_at(TreeSize(page.index * WIDTH));
                    let grown = before.map(|mut frontier| {
                        leaves.into_iter().for_each(|leaf| frontier.push(leaf));
                        frontier.root()
                    });
                    Ok(grown == Some(published.root))
                }
            }
        };
        if leads(true).unwrap_or(false) {
            return self.wrong_hash(0, index);
        }
        let why = match leads(false) {
            Ok(true) => "its bytes do not have its stored hash",
            _ => "neither its bytes nor its stored hash lead to what is above them",
        };
        damaged(self.entries.path(), "entry", index, why)
    }

    fn frontier_at(&self, size: TreeSize) -> Option<Frontier> {
        let tree = StoredTree { levels: &self.levels, size };
        let mut begin = 0;
        let mut peaks = Vec::new();
        for level in (0..64u8).rev().filter(|level| size.0 >> level & 1 == 1) {
            peaks.push(tree.subtree(level, begin >> level)?);
            begin += 1 << level;
        }
        Frontier::from_peaks(size, peaks)
    }

    fn root_above(&self, level: u8, index: u64) -> Result<Hash, StoreError> {
        let above = self.levels.hashes(usize::from(level) + 1, index, 1)?;
        above.first().copied().ok_or_else(|| self.wrong_hash(level + 1, index))
    }

    fn wrong_hash(&self, level: u8, place: u64) -> StoreError {
        damaged(self.levels.path(usize::from(level)), "hash", place, "it is not what the entries below it make")
    }
}

fn root_of_bytes(tile: &[u8]) -> Hash {
    let hashes: Vec<Hash> = tile.as_chunks().0.iter().map(|hash| Hash(*hash)).collect();
    <&[Hash; WIDTH as usize]>::try_from(hashes.as_slice()).map_or(Hash([0; 32]), tile_root)
}

fn damaged(path: &std::path::Path, what: &'static str, position: u64, why: &str) -> StoreError {
    StoreError::Damaged { path: path.to_owned(), what, position, why: why.to_owned() }
}
