//! RFC 6962 Merkle trees for logs: hashing, frontier, proofs, tile maths and paths.
//!
//! Pure: no IO. Everything that checks something refuses what it was not asked for, excess included;
//! everything that parses accepts only what the matching printer prints.
//!
//! * [`hash`]: leaf and node hashes, and the numbers that go with them
//! * [`frontier`]: the right edge of a growing tree
//! * [`edge`]: the newest leaves in memory, and proofs of them
//! * [`source`]: where proofs take hashes from; a whole tree in memory
//! * [`proof`]: inclusion and consistency, made and checked
//! * [`subtree`]: ranges of leaves that have a root of their own
//! * [`tile`]: tiles, pages, paths
//! * [`bundle`]: length-prefixed entries
//! * [`decimal`], [`encoding`]: the only spellings of numbers and bytes

pub mod bundle;
pub mod decimal;
pub mod edge;
pub mod encoding;
pub mod frontier;
pub mod hash;
pub mod proof;
pub mod source;
pub mod subtree;
pub mod tile;

pub use bundle::{BundleCut, EntryTooLong, MAX_ENTRY_LEN, decode_entries, encode_entry};
pub use edge::EdgeTree;
pub use encoding::{decode_base64, encode_base64};
pub use frontier::Frontier;
pub use hash::{EMPTY_ROOT, HASH_LEN, Hash, LeafIndex, RootHash, TreeSize, leaf_hash, node_hash};
pub use proof::{
    ConsistencyProof, InclusionProof, MAX_PROOF_HASHES, ProofError, ProveError, prove_consistency, prove_inclusion,
};
pub use source::{HashSource, MemoryTree, MissingHash, root_of};
pub use subtree::{Subtree, SubtreeProof, prove_subtree};
pub use tile::{
    PageId, ResourcePath, TILE_WIDTH, TileId, TileLength, TilePlace, TileSet, tile_root, tiles_for_consistency,
    tiles_for_inclusion, tiles_for_root,
};
