//! Proofs out of tiles: exactly the tiles that the plan names, and the same proofs as from the whole tree.

use crate::reference::{Watched, counting_tree, tile_bytes, tile_set};
use counterfoil_merkle as merkle;
use merkle::{
    Hash, HashSource, LeafIndex, TileId, TileSet, TreeSize, prove_consistency, prove_inclusion, root_of, tile_root,
    tiles_for_consistency, tiles_for_inclusion, tiles_for_root,
};
use std::collections::BTreeSet;

const SIZES: [u64; 14] = [1, 2, 3, 7, 255, 256, 257, 511, 513, 65_535, 65_536, 65_537, 65_793, 70_000];

/// That these tiles are of a tree of `size`, none twice.
fn assert_tiles_of(tiles: &[TileId], size: u64) {
    assert_eq!(tiles.iter().collect::<BTreeSet<_>>().len(), tiles.len(), "{tiles:?}");
    for tile in tiles {
        assert_eq!(TileId::at(tile.level, tile.index, TreeSize(size)), Some(*tile), "{tile} at {size}");
    }
}

#[test]
fn the_planned_tiles_are_enough_for_the_same_inclusion_proofs_and_each_is_needed() {
    let tree = counting_tree(70_000);
    for size in SIZES {
        for index in [0, 1, 128, 255, 256, 257, 32_768, 65_535, 65_536, size / 3, size / 2, size - 1] {
            if index >= size {
                continue;
            }
            let (index, size) = (LeafIndex(index), TreeSize(size));
            let tiles = tiles_for_inclusion(index, size);
            assert_tiles_of(&tiles, size.0);
            let proof = prove_inclusion(&tree, index, size).unwrap();
            assert_eq!(prove_inclusion(&tile_set(&tree, &tiles), index, size), Ok(proof), "{index} in {size}");
            for left_out in 0..tiles.len() {
                let mut fewer = tiles.clone();
                let missing = fewer.remove(left_out);
                assert!(prove_inclusion(&tile_set(&tree, &fewer), index, size).is_err(), "{index} without {missing}");
            }
        }
    }
}

#[test]
fn the_planned_tiles_are_enough_for_the_same_consistency_proofs_and_for_the_older_root() {
    let tree = counting_tree(70_000);
    for new in SIZES {
        for old in SIZES.into_iter().filter(|old| *old <= new).chain([0]) {
            let (old, new) = (TreeSize(old), TreeSize(new));
            let tiles = tiles_for_consistency(old, new);
            assert_tiles_of(&tiles, new.0);
            let set = tile_set(&tree, &tiles);
            let proof = prove_consistency(&tree, old, new).unwrap();
            assert_eq!(prove_consistency(&set, old, new), Ok(proof), "{old} to {new}");
            assert_eq!(root_of(&set, old), root_of(&tree, old), "{old} in {new}");
        }
    }
}

#[test]
fn the_planned_tiles_are_enough_for_a_root_also_out_of_a_larger_log() {
    let tree = counting_tree(70_000);
    for held in SIZES {
        for size in SIZES.into_iter().filter(|size| *size <= held) {
            let tiles = tiles_for_root(TreeSize(size), TreeSize(held));
            assert_tiles_of(&tiles, held);
            // At most the partial tile of each level, and the tile that its last hash is the root of.
            assert!(tiles.len() <= 3, "{size} in {held}: {tiles:?}");
            let set = tile_set(&tree, &tiles);
            assert_eq!(root_of(&set, TreeSize(size)), root_of(&tree, TreeSize(size)), "{size} in {held}");
        }
    }
}

#[test]
fn plans_for_what_is_not_there_are_empty_and_plans_for_absurd_sizes_are_short() {
    assert_eq!(tiles_for_inclusion(LeafIndex(5), TreeSize(5)), []);
    assert_eq!(tiles_for_consistency(TreeSize(6), TreeSize(5)), []);
    assert_eq!(tiles_for_root(TreeSize(0), TreeSize(5)), []);
    assert_eq!(tiles_for_root(TreeSize(6), TreeSize(5)), []);
    for size in [1 << 63, u64::MAX - 1, u64::MAX].map(TreeSize) {
        // At most two tiles at each of eight levels: the one on the way, and the one at the right edge.
        for tiles in [
            tiles_for_root(size, size),
            tiles_for_inclusion(LeafIndex(0), size),
            tiles_for_inclusion(LeafIndex(size.0 - 1), size),
            tiles_for_consistency(TreeSize(size.0 / 3), size),
            tiles_for_consistency(TreeSize(size.0 - 1), size),
        ] {
            assert!((1..=16).contains(&tiles.len()), "{} tiles at {size}", tiles.len());
            assert_tiles_of(&tiles, size.0);
        }
    }
}

#[test]
fn plans_name_the_tiles_of_the_hashes_that_a_proof_takes() {
    let tree = counting_tree(70_000);
    let watched = Watched { tree: &tree, asked: Default::default() };
    prove_inclusion(&watched, LeafIndex(300), TreeSize(70_000)).unwrap();
    let tiles: BTreeSet<TileId> = watched
        .asked
        .into_inner()
        .into_iter()
        .map(|(level, index)| TileId::at(level / 8, (index << (level % 8)) / 256, TreeSize(70_000)).unwrap())
        .collect();
    assert_eq!(tiles_for_inclusion(LeafIndex(300), TreeSize(70_000)), Vec::from_iter(tiles));
}

#[test]
fn a_tile_of_the_wrong_length_is_refused() {
    let tree = counting_tree(300);
    let tile = TileId::at(0, 1, TreeSize(300)).unwrap();
    let bytes = tile_bytes(&tree, tile);
    let mut set = TileSet::new();
    for wrong in [&bytes[1..], &bytes[32..], &[&bytes[..], &[0]].concat(), &[&bytes[..], &[0; 32]].concat(), &[]] {
        let refusal = set.insert(tile, wrong).unwrap_err();
        assert_eq!((refusal.tile, refusal.expected, refusal.found), (tile, 44 * 32, wrong.len()));
    }
    assert_eq!(set.subtree(0, 256), None, "a refused tile leaves nothing behind");
    assert!(set.insert(tile, &bytes).is_ok());
    assert_eq!(set.subtree(0, 256), tree.subtree(0, 256));
}

#[test]
fn the_wider_of_two_tiles_at_one_place_is_kept() {
    let tree = counting_tree(200);
    let [narrow, wide] = [100, 200].map(|size| TileId::at(0, 0, TreeSize(size)).unwrap());
    for order in [[narrow, wide], [wide, narrow]] {
        let set = tile_set(&tree, &order);
        assert_eq!(set.subtree(0, 199), tree.subtree(0, 199));
        assert_eq!(set.subtree(0, 200), None);
    }
}

#[test]
fn a_tile_knows_the_subtrees_within_it_and_none_beside_it() {
    let tree = counting_tree(300);
    let set = tile_set(&tree, &[TileId::at(0, 0, TreeSize(300)).unwrap(), TileId::at(0, 1, TreeSize(300)).unwrap()]);
    for level in 0..8u8 {
        for index in 0..(512 >> level) {
            assert_eq!(set.subtree(level, index), tree.subtree(level, index), "{level}, {index}");
        }
    }
    for (level, index) in [(8, 0), (16, 0), (63, 0), (255, 0), (0, u64::MAX), (255, u64::MAX)] {
        assert_eq!(set.subtree(level, index), None, "{level}, {index}");
    }
}

#[test]
fn the_root_of_a_full_tile_is_the_hash_above_it() {
    let tree = counting_tree(65_536);
    for (level, index) in [(0, 0), (0, 255), (1, 0)] {
        let bytes = tile_bytes(&tree, TileId { level, index, width: 256 });
        let hashes: Vec<Hash> = bytes.as_chunks::<32>().0.iter().map(|hash| Hash(*hash)).collect();
        assert_eq!(Some(tile_root(&hashes.try_into().unwrap())), tree.subtree(8 * (level + 1), index));
    }
}
