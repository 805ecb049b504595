//! cosign: evidence of forks, and the witness's decision over tiles from anybody.

use crate::bytes::Bytes;
use crate::world::World;
use cosign::{Decision, LogFork, WitnessFork, tiles_needed};
use merkle::{EMPTY_ROOT, Hash, MemoryTree, RootHash, TileSet, TreeSize};
use note::{Checkpoint, Origin, SignedCheckpoint, SigningKey, Verified, sign_checkpoint};
use std::sync::LazyLock;

static LOG: LazyLock<SigningKey> = LazyLock::new(|| World::new().log.key.log_key());

/// Evidence, printed, is the same evidence, and is checked without a panic.
pub fn log_fork(data: &[u8]) {
    let Ok(fork) = serde_json::from_slice::<LogFork>(data) else { return };
    let again = serde_json::to_string(&fork).unwrap();
    assert_eq!(serde_json::from_str::<LogFork>(&again).unwrap(), fork);
    if let Ok(accusation) = fork.check() {
        assert_eq!(&accusation.key, fork.log());
    }
}

/// Evidence, printed, is the same evidence, and is checked without a panic.
pub fn witness_fork(data: &[u8]) {
    let Ok(fork) = serde_json::from_slice::<WitnessFork>(data) else { return };
    let again = serde_json::to_string(&fork).unwrap();
    assert_eq!(serde_json::from_str::<WitnessFork>(&again).unwrap(), fork);
    if let Ok(accusation) = fork.check() {
        assert_eq!(&accusation.key, fork.witness());
    }
}

/// Whatever a log signs and whatever tiles come, an accusation checks by itself, and an honest log is never accused:
/// not by its own heads, whoever sends the tiles.
pub fn decide(data: &[u8]) {
    let mut data = Bytes(data);
    let honest = data.byte() % 2 == 0;
    let mut tree = MemoryTree::new();
    let mut roots = vec![EMPTY_ROOT];
    for place in 0..600u64 {
        tree.push(merkle::leaf_hash(&place.to_be_bytes()));
        roots.push(tree.root());
    }
    let mut head = |honest: bool| {
        let size = if honest { data.short() as u64 % 601 } else { data.number() };
        let root = if honest { roots[size as usize] } else { RootHash(Hash(data.array())) };
        signed(TreeSize(size), root)
    };
    let (held, offered) = (head(honest), head(honest));
    let mut tiles = TileSet::new();
    for tile in tiles_needed(held.checkpoint().size, offered.checkpoint().size) {
        let from_log = tile.level == 0 && data.byte() % 4 > 0;
        let leaves = tree.leaves().get(tile.index as usize * 256..).unwrap_or_default();
        let bytes: Vec<u8> = match leaves.get(..usize::from(tile.width)) {
            Some(leaves) if from_log => leaves.iter().flat_map(|leaf| leaf.0).collect(),
            _ => data.chunk(tile.byte_len()).iter().copied().chain(std::iter::repeat(7)).take(tile.byte_len()).collect(),
        };
        assert!(tiles.insert(tile, &bytes).is_ok());
    }
    let decision = cosign::decide(&LOG.verifier(), Some(&held), offered.bytes(), &tiles);
    if let Decision::Fork(_, evidence) = &decision {
        assert!(evidence.check().is_ok());
        assert!(!honest, "an honest log was accused");
    }
    let (held, offered) = (held.checkpoint(), offered.checkpoint());
    if matches!(decision, Decision::Cosign(_)) {
        assert!(offered.size > held.size);
    }
    if matches!(decision, Decision::CosignAgain(_)) {
        assert!(offered == held);
    }
}

fn signed(size: TreeSize, root: RootHash) -> SignedCheckpoint<Verified> {
    sign_checkpoint(&Checkpoint::new(Origin::from(LOG.name()), size, root), &LOG).unwrap()
}
