//! Any tiled log in memory: the log itself, a witness's journal, a liar's second history.

use super::keys::key;
use audit::MemoryBundle;
use merkle::{HashSource, LeafIndex, MemoryTree, PageId, ResourcePath, TILE_WIDTH, TileId, TreeSize};
use note::{Checkpoint, KeyKind, Origin, SignedCheckpoint, SigningKey, Verified, sign_checkpoint};
use std::sync::Arc;

/// Entries, the tree over them and the heads that were signed.
#[derive(Clone, Debug)]
pub struct TiledLog {
    /// Signs the heads; its name is the origin.
    pub key: Arc<SigningKey>,
    /// All entries, oldest first.
    pub entries: Vec<Vec<u8>>,
    /// The tree over them.
    pub tree: MemoryTree,
    /// Every head ever signed, oldest first, without cosignatures.
    pub heads: Vec<SignedCheckpoint<Verified>>,
}

impl TiledLog {
    /// An empty log of this origin.
    pub fn new(origin: &str) -> TiledLog {
        TiledLog {
            key: key(origin, KeyKind::Ed25519, 0),
            entries: Vec::new(),
            tree: MemoryTree::new(),
            heads: Vec::new(),
        }
    }

    /// A log of the same key that holds these entries and has signed nothing.
    pub fn with_entries(&self, entries: impl IntoIterator<Item = Vec<u8>>) -> TiledLog {
        let mut log = TiledLog::new(self.key.name().as_str());
        for entry in entries {
            log.push(entry);
        }
        log
    }

    /// Appends an entry; answers its index.
    pub fn push(&mut self, entry: Vec<u8>) -> LeafIndex {
        self.tree.push(merkle::leaf_hash(&entry));
        self.entries.push(entry);
        LeafIndex(self.entries.len() as u64 - 1)
    }

    /// How many entries it has.
    pub fn size(&self) -> TreeSize {
        self.tree.size()
    }

    /// Signs a head over all entries and lists it.
    pub fn seal(&mut self) -> SignedCheckpoint<Verified> {
        let head = self.head();
        self.heads.push(head.clone());
        head
    }

    /// A head over all entries that the list does not get.
    pub fn head(&self) -> SignedCheckpoint<Verified> {
        let head = Checkpoint::new(Origin::from(self.key.name()), self.tree.size(), self.tree.root());
        sign_checkpoint(&head, &self.key).expect("the key signs heads of its own origin")
    }

    /// Its entries and tiles below `prefix`, as they are served.
    pub fn write(&self, bundle: &mut MemoryBundle, prefix: &str) {
        for tile in TileId::all(self.tree.size()) {
            let first = tile.index * u64::from(TILE_WIDTH);
            let hash = |place| self.tree.subtree(tile.level * 8, place).expect("a tile of the tree holds its hashes");
            let hashes: Vec<u8> = (first..first + u64::from(tile.width)).flat_map(|place| hash(place).0).collect();
            bundle.insert(format!("{prefix}{}", ResourcePath::Tile(tile)), hashes);
        }
        write_pages(bundle, prefix, &self.entries, ResourcePath::Entries);
    }

    /// The list of its heads below `prefix`.
    pub fn write_heads(&self, bundle: &mut MemoryBundle, prefix: &str) {
        let heads: Vec<Vec<u8>> = self.heads.iter().map(|head| head.bytes().to_vec()).collect();
        write_pages(bundle, prefix, &heads, ResourcePath::Heads);
    }
}

/// Pages of these entries below `prefix`, under the paths that `path` makes.
pub fn write_pages(
    bundle: &mut MemoryBundle,
    prefix: &str,
    entries: &[Vec<u8>],
    path: impl Fn(PageId) -> ResourcePath,
) {
    let mut pages = entries.chunks(usize::from(TILE_WIDTH));
    for page in PageId::all(entries.len() as u64) {
        let mut bytes = Vec::new();
        for entry in pages.next().unwrap_or_default() {
            merkle::encode_entry(&mut bytes, entry).expect("no entry of a world is longer than a page takes");
        }
        bundle.insert(format!("{prefix}{}", path(page)), bytes);
    }
}
