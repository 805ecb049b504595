//! merkle: paths, bundles of entries, proofs.

use crate::bytes::Bytes;
use merkle::{
    ConsistencyProof, Hash, InclusionProof, LeafIndex, MAX_PROOF_HASHES, PageId, ResourcePath, RootHash, Subtree,
    SubtreeProof, TileSet, TreeSize, decode_entries, encode_entry, leaf_hash, prove_consistency, prove_inclusion,
    root_of, tiles_for_consistency, tiles_for_inclusion, tiles_for_root,
};

/// A path parses only from what it prints.
pub fn path(data: &[u8]) {
    let Ok(text) = str::from_utf8(data) else { return };
    let Some(path) = ResourcePath::parse(text) else { return };
    assert_eq!(path.to_string(), text);
    if let ResourcePath::Tile(tile) = path {
        assert!(TileSet::new().insert(tile, &vec![0; tile.byte_len()]).is_ok());
    }
}

/// A bundle is exactly its entries, each behind its length.
pub fn entries(data: &[u8]) {
    let Ok(entries) = decode_entries(data) else { return };
    let mut bundle = Vec::new();
    for entry in entries {
        assert!(encode_entry(&mut bundle, entry).is_ok());
    }
    assert_eq!(bundle, data);
}

/// No proof leads to a root that nobody computed, at any size; what a proof implies is what it verifies against.
pub fn proof(data: &[u8]) {
    let mut data = Bytes(data);
    let [first, second] = [data.number(), data.number()];
    let (index, old, size) = (LeafIndex(first), TreeSize(first), TreeSize(second));
    let hashes: Vec<Hash> = data.0.as_chunks().0.iter().take(MAX_PROOF_HASHES + 1).copied().map(Hash).collect();
    let never = RootHash(Hash([0; 32]));
    let some = leaf_hash(b"some leaf");
    assert!(InclusionProof::new(hashes.clone()).verify(&some, index, size, &never).is_err());
    assert!(ConsistencyProof::new(hashes.clone()).verify(old, &RootHash(some), size, &never).is_err());
    if let Some(subtree) = Subtree::new(first, first.saturating_add(u64::from(data.0.first().copied().unwrap_or(1)))) {
        assert!(SubtreeProof::new(hashes.clone()).verify(subtree, &some, size, &never).is_err());
    }
    let implied = ConsistencyProof::new(hashes.clone()).implied_roots(old, &RootHash(some), size);
    if let Ok((old_root, new_root)) = implied {
        assert!(ConsistencyProof::new(hashes.clone()).verify(old, &old_root, size, &new_root).is_ok());
    }
}

/// Plans for proofs are short at any size, and from the tiles that were planned the proof can be made.
pub fn tiles(data: &[u8]) {
    let mut data = Bytes(data);
    let [first, second] = [data.number(), data.number()];
    let (index, old, size) = (LeafIndex(first), TreeSize(first), TreeSize(second));
    let included = tiles_for_inclusion(index, size);
    let consistent = tiles_for_consistency(old, size);
    assert!(included.len() <= 16 && consistent.len() <= 16);
    let mut tiles = TileSet::new();
    for tile in included.iter().chain(&consistent).chain(&tiles_for_root(old, size)) {
        assert!(PageId::at(tile.index, u64::MAX).is_some());
        assert!(tiles.insert(*tile, &data.array::<32>().repeat(usize::from(tile.width))).is_ok());
    }
    assert_eq!(prove_inclusion(&tiles, index, size).is_ok(), index.0 < size.0);
    assert_eq!(prove_consistency(&tiles, old, size).is_ok(), old <= size);
    assert!(root_of(&tiles, old).is_ok() || old > size);
}
