//! Histories of a log, honest and forked, the heads it signs over them and the tiles it serves.

use counterfoil_cosign::{Decision, LogFork, decide, tiles_needed};
use merkle::{HashSource, MemoryTree, RootHash, TileId, TileSet, TreeSize, leaf_hash};
use note::{Checkpoint, KeyKind, KeyName, Origin, SignedCheckpoint, SigningKey, Verified, parse_cosignature_line};

pub(crate) fn key(name: &str, kind: KeyKind, seed: u8) -> SigningKey {
    SigningKey::from_seed(KeyName::new(name).unwrap(), kind, [seed; 32])
}

pub(crate) fn log_key() -> SigningKey {
    key("log.example/one", KeyKind::Ed25519, 7)
}

pub(crate) fn witness_key() -> SigningKey {
    key("witness.example", KeyKind::CosignatureV1, 3)
}

/// A history of `common` leaves that all share and `own` that only the fork with this number has.
pub(crate) fn tree(common: u64, own: u64, fork: u8) -> MemoryTree {
    let mut tree = MemoryTree::new();
    for leaf in 0..common {
        tree.push(leaf_hash(&leaf.to_be_bytes()));
    }
    for leaf in 0..own {
        tree.push(leaf_hash(&[&[fork][..], &leaf.to_be_bytes()].concat()));
    }
    tree
}

/// The honest history of `size` leaves but for the one leaf `altered`.
pub(crate) fn tree_with_one_leaf_altered(size: u64, altered: u64) -> MemoryTree {
    let mut tree = MemoryTree::new();
    for leaf in 0..size {
        let told = if leaf == altered { u64::MAX } else { leaf };
        tree.push(leaf_hash(&told.to_be_bytes()));
    }
    tree
}

pub(crate) fn head_signed_by(log: &SigningKey, size: TreeSize, root: RootHash) -> SignedCheckpoint<Verified> {
    note::sign_checkpoint(&Checkpoint::new(Origin::from(log.name()), size, root), log).unwrap()
}

pub(crate) fn head_of(size: TreeSize, root: RootHash) -> SignedCheckpoint<Verified> {
    head_signed_by(&log_key(), size, root)
}

pub(crate) fn head(tree: &MemoryTree) -> SignedCheckpoint<Verified> {
    head_of(tree.size(), tree.root())
}

/// The head with a good cosignature by each of `witnesses`.
pub(crate) fn cosigned(tree: &MemoryTree, witnesses: &[&SigningKey]) -> SignedCheckpoint<Verified> {
    let head = head(tree);
    let lines: Vec<_> = witnesses
        .iter()
        .map(|witness| note::cosign(head.note().text(), witness, 1_700_000_000).unwrap().line)
        .map(|line| parse_cosignature_line(&line).unwrap())
        .collect();
    head.with_cosignatures(&lines)
}

/// The bytes of one tile as a log with that history serves it.
pub(crate) fn tile_bytes(tree: &MemoryTree, tile: TileId) -> Vec<u8> {
    let first = tile.index * 256;
    (first..first + u64::from(tile.width)).flat_map(|place| tree.subtree(8 * tile.level, place).unwrap().0).collect()
}

/// The tiles as a log with that history serves them.
pub(crate) fn tiles(tree: &MemoryTree, wanted: &[TileId]) -> TileSet {
    let mut set = TileSet::new();
    for tile in wanted {
        set.insert(*tile, &tile_bytes(tree, *tile)).unwrap();
    }
    set
}

/// What a witness that holds the head of one history decides about the head of another, given the larger's tiles.
pub(crate) fn ask(held: &MemoryTree, offered: &MemoryTree) -> Decision {
    let larger = if held.size() > offered.size() { held } else { offered };
    let tiles = tiles(larger, &tiles_needed(held.size(), offered.size()));
    decide(&log_key().verifier(), Some(&head(held)), head(offered).bytes(), &tiles)
}

pub(crate) fn evidence(decision: Decision) -> LogFork {
    match decision {
        Decision::Fork(_, fork) => *fork,
        other => panic!("expected a fork, got {other:?}"),
    }
}
