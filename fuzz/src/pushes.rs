//! cosign: bodies of `add-checkpoint`, and the decision about what they push.

use crate::world::World;
use cosign::{Push, PushDecision, decide_push};
use merkle::{MemoryTree, TreeSize, leaf_hash};
use note::{Checkpoint, Origin, SignedCheckpoint, SigningKey, Verified, sign_checkpoint};
use std::sync::LazyLock;

/// How many entries the witness holds of the log.
pub const HELD: u64 = 5;

static LOG: LazyLock<SigningKey> = LazyLock::new(|| World::new().log.key.log_key());
static HEAD: LazyLock<SignedCheckpoint<Verified>> = LazyLock::new(|| signed(&LOG, HELD, 0));

/// The head of `size` entries of one of the log's histories, for whoever writes the seeds.
pub fn signed(log: &SigningKey, size: u64, variant: u8) -> SignedCheckpoint<Verified> {
    let tree = history(size, variant);
    sign_checkpoint(&Checkpoint::new(Origin::from(log.name()), tree.size(), tree.root()), log).unwrap()
}

/// The tree under it.
pub fn history(size: u64, variant: u8) -> MemoryTree {
    let mut tree = MemoryTree::new();
    (0..size).for_each(|place| tree.push(leaf_hash(&[&place.to_be_bytes()[..], &[variant]].concat())));
    tree
}

/// A call prints as it was read; what is cosigned because of it grew out of what is held, and what is accused was signed.
pub fn call(data: &[u8]) {
    let Ok(push) = Push::parse(data) else { return };
    let hashes: String = push.proof.hashes().iter().map(|hash| format!("{}\n", hash.to_base64())).collect();
    let printed = [format!("old {}\n{hashes}\n", push.old).as_bytes(), push.checkpoint.bytes()].concat();
    assert_eq!(printed, data);
    for held in [None, Some(&*HEAD)] {
        let head = held.map_or((TreeSize(0), merkle::EMPTY_ROOT), |head| {
            let Checkpoint { size, root, .. } = head.checkpoint();
            (*size, *root)
        });
        match decide_push(&LOG.verifier(), &note::Strict, held, push.old, &push.proof, push.checkpoint.clone()) {
            PushDecision::Cosign(next) => {
                let (size, root) = (next.checkpoint().size, next.checkpoint().root);
                assert_eq!(push.old, head.0);
                if head.0 == TreeSize(0) {
                    assert!(push.proof.hashes().is_empty());
                } else {
                    assert!(push.proof.verify(head.0, &head.1, size, &root).is_ok());
                }
            }
            PushDecision::CosignAgain(again) => assert_eq!((again.checkpoint().size, again.checkpoint().root), head),
            PushDecision::Fork(_, evidence) => assert!(evidence.check().is_ok()),
            PushDecision::Holds(size) => assert!(size == head.0 && push.old != size),
            PushDecision::Shrinks
            | PushDecision::BadLogSignature(_)
            | PushDecision::BadEmptyRoot(_)
            | PushDecision::BadProof(..)
            | PushDecision::NotShown(..) => {}
        }
    }
}
