//! cosign: evidence of forks, and the witness's decision over tiles from anybody.

use crate::bytes::Bytes;
use crate::world::World;
use cosign::{Decision, LogFork, OmittedHead, WitnessFork, tiles_needed};
use merkle::{EMPTY_ROOT, Hash, HashSource, MemoryTree, RootHash, TileSet, TreeSize};
use note::{Checkpoint, Origin, SignedCheckpoint, SigningKey, Verified, sign_checkpoint};
use std::sync::LazyLock;

static LOG: LazyLock<SigningKey> = LazyLock::new(|| World::new().log.key.log_key());

/// The history of an honest log, and its root at every size.
static HONEST: LazyLock<(MemoryTree, Vec<RootHash>)> = LazyLock::new(|| {
    let mut tree = MemoryTree::new();
    let mut roots = vec![EMPTY_ROOT];
    for place in 0..600u64 {
        tree.push(merkle::leaf_hash(&place.to_be_bytes()));
        roots.push(tree.root());
    }
    (tree, roots)
});

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

/// Evidence, printed, is the same evidence, and is checked without a panic; what it says is left out is a head.
pub fn omitted_head(data: &[u8]) {
    let Ok(omitted) = serde_json::from_slice::<OmittedHead>(data) else { return };
    let again = serde_json::to_string(&omitted).unwrap();
    assert_eq!(serde_json::from_str::<OmittedHead>(&again).unwrap(), omitted);
    if let Ok(accusation) = omitted.check() {
        assert_eq!(&accusation.key, omitted.log());
        assert_eq!(omitted.head().unwrap().log_key(), omitted.log());
    }
}

/// Whatever a log signs and whatever tiles come, an accusation checks by itself, and an honest log is never accused:
/// not by its own heads, whoever sends the tiles.
pub fn decide(data: &[u8]) {
    let mut data = Bytes(data);
    let honest = data.byte() % 2 == 0;
    let (tree, roots) = &*HONEST;
    let mut head = |honest: bool| {
        let size = if honest { data.short() as u64 % 601 } else { data.number() };
        let root = if honest { roots[size as usize] } else { RootHash(Hash(data.array())) };
        signed(TreeSize(size), root)
    };
    let (held, offered) = (head(honest), head(honest));
    let (mut tiles, mut honest_tiles) = (TileSet::new(), true);
    for tile in tiles_needed(held.checkpoint().size, offered.checkpoint().size) {
        let mut places = tile.index * 256..tile.index * 256 + u64::from(tile.width);
        let real: Option<Vec<u8>> = places.try_fold(Vec::new(), |bytes, place| {
            Some([bytes, tree.subtree(8 * tile.level, place)?.0.to_vec()].concat())
        });
        let bytes = real.filter(|_| data.byte() % 4 > 0).unwrap_or_else(|| {
            honest_tiles = false;
            let sent = data.chunk(tile.byte_len()).iter().copied();
            sent.chain(std::iter::repeat(7)).take(tile.byte_len()).collect()
        });
        assert!(tiles.insert(tile, &bytes).is_ok());
    }
    let decision = cosign::decide(&LOG.verifier(), Some(&held), offered.bytes(), &tiles);
    if let Decision::Fork(_, evidence) = &decision {
        assert!(evidence.check().is_ok());
        assert!(!honest, "an honest log was accused");
    }
    let (held, offered) = (held.checkpoint(), offered.checkpoint());
    if honest_tiles && honest {
        assert!(!matches!(decision, Decision::Unproven(..)), "an honest log was doubted");
    }
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
