//! Consistency proofs for witnesses that are pushed to: one for each distinct old size, however many witnesses are at it.
//!
//! Every proof is checked against the signed root before it is handed out. A witness may keep a wrong one as a sign of a
//! log that misbehaves, and a store whose hashes have rotted should be found here and not there.

use merkle::{ConsistencyProof, HashSource, MissingHash, ProofError, ProveError, TreeSize, prove_consistency, root_of};
use note::{SignedCheckpoint, Verified};
use std::collections::VecDeque;
use std::sync::Arc;
use tokio::sync::Mutex;

/// Proofs kept: as many as there can be witnesses (63), all at different sizes, and one more. At most 63 hashes of 32
/// bytes each, 130 kB.
const MAX_KEPT: usize = 64;

/// Why there is no proof.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoProof {
    /// The store lacks a hash, or the old size is beyond the head's.
    #[error("{0}")]
    Unmade(#[from] ProveError),
    /// The hashes in the store are not those under the signed head.
    #[error("the hashes in the store do not lead to the signed root at size {size}: {reason}")]
    Wrong {
        /// The head's size.
        size: TreeSize,
        /// What the check found.
        reason: ProofError,
    },
    /// The process is ending.
    #[error("the log is stopping")]
    Stopping,
}

impl From<MissingHash> for NoProof {
    fn from(missing: MissingHash) -> Self {
        Self::Unmade(missing.into())
    }
}

/// The hashes under every committed head.
pub type Hashes = Arc<dyn HashSource + Send + Sync>;

/// Makes proofs out of the hashes in a store.
pub struct Proofs {
    hashes: Hashes,
    /// Newest last, by old and new size. Locked while a proof is made, so that whoever wants the same one waits for it.
    kept: Mutex<VecDeque<(TreeSize, TreeSize, Arc<ConsistencyProof>)>>,
}

impl Proofs {
    /// Over these hashes.
    pub fn new(hashes: Hashes) -> Self {
        Self { hashes, kept: Mutex::default() }
    }

    /// The proof that `head`, a head of this store's log, grew out of its head of size `old`. Empty where there is nothing
    /// to show: from nothing, or from the same size.
    ///
    /// # Errors
    /// [`NoProof`].
    pub async fn between(
        &self,
        old: TreeSize,
        head: &SignedCheckpoint<Verified>,
    ) -> Result<Arc<ConsistencyProof>, NoProof> {
        let new = head.checkpoint().size;
        if old.0 == 0 || old == new {
            return Ok(Arc::default());
        }
        let mut kept = self.kept.lock().await;
        if let Some((_, _, proof)) = kept.iter().find(|(from, to, _)| (*from, *to) == (old, new)) {
            return Ok(Arc::clone(proof));
        }
        let (hashes, root) = (Arc::clone(&self.hashes), head.checkpoint().root);
        let made = move || {
            let proof = prove_consistency(hashes.as_ref(), old, new)?;
            let old_root = root_of(hashes.as_ref(), old)?;
            proof.verify(old, &old_root, new, &root).map_err(|reason| NoProof::Wrong { size: new, reason })?;
            Ok::<_, NoProof>(Arc::new(proof))
        };
        let proof = tokio::task::spawn_blocking(made).await.map_err(|_| NoProof::Stopping)??;
        if kept.len() == MAX_KEPT {
            kept.pop_front();
        }
        kept.push_back((old, new, Arc::clone(&proof)));
        Ok(proof)
    }
}

impl std::fmt::Debug for Proofs {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Proofs")
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;
    use merkle::{Hash, MemoryTree, leaf_hash};
    use note::{Checkpoint, KeyKind, KeyName, Origin, SigningKey, sign_checkpoint};
    use std::sync::atomic::{AtomicU64, Ordering};

    /// Counts what is read, and has one hash wrong if told to.
    struct Counting {
        tree: MemoryTree,
        reads: AtomicU64,
        rotten: bool,
    }

    impl HashSource for Counting {
        fn subtree(&self, level: u8, index: u64) -> Option<Hash> {
            self.reads.fetch_add(1, Ordering::SeqCst);
            if self.rotten && (level, index) == (2, 1) {
                return Some(leaf_hash(b"rotten"));
            }
            self.tree.subtree(level, index)
        }
    }

    fn tree(size: u64) -> MemoryTree {
        let mut tree = MemoryTree::new();
        (0..size).for_each(|index| tree.push(leaf_hash(&index.to_be_bytes())));
        tree
    }

    fn head(tree: &MemoryTree) -> SignedCheckpoint<Verified> {
        let log = SigningKey::from_seed(KeyName::new("log").unwrap(), KeyKind::Ed25519, [1; 32]);
        let checkpoint = Checkpoint::new(Origin::new("log").unwrap(), tree.size(), tree.root());
        sign_checkpoint(&checkpoint, &log).unwrap()
    }

    fn proofs(size: u64, rotten: bool) -> (Arc<Proofs>, Arc<Counting>) {
        let counting = Arc::new(Counting { tree: tree(size), reads: AtomicU64::new(0), rotten });
        (Arc::new(Proofs::new(Arc::clone(&counting) as Hashes)), counting)
    }

    #[tokio::test]
    async fn witnesses_at_one_size_share_one_proof_and_others_get_their_own() {
        let (proofs, counting) = proofs(100, false);
        let (older, newest) = (tree(70), head(&tree(100)));
        let alone = proofs.between(TreeSize(70), &newest).await.unwrap();
        alone.verify(TreeSize(70), &older.root(), TreeSize(100), &newest.checkpoint().root).unwrap();
        let once = counting.reads.load(Ordering::SeqCst);
        let mut together = tokio::task::JoinSet::new();
        for _ in 0..20 {
            let (proofs, newest) = (Arc::clone(&proofs), newest.clone());
            together.spawn(async move { proofs.between(TreeSize(70), &newest).await.unwrap() });
        }
        for proof in together.join_all().await {
            assert_eq!(proof, alone);
        }
        assert_eq!(counting.reads.load(Ordering::SeqCst), once);
        assert_ne!(proofs.between(TreeSize(71), &newest).await.unwrap(), alone);
        assert!(counting.reads.load(Ordering::SeqCst) > once);
    }

    #[tokio::test]
    async fn from_nothing_and_from_the_same_size_there_is_nothing_to_show_and_nothing_kept() {
        let (proofs, counting) = proofs(9, false);
        for old in [0, 9] {
            assert_eq!(*proofs.between(TreeSize(old), &head(&tree(9))).await.unwrap(), ConsistencyProof::default());
        }
        assert_eq!(counting.reads.load(Ordering::SeqCst), 0);
        assert!(proofs.between(TreeSize(10), &head(&tree(9))).await.is_err());
    }

    #[tokio::test]
    async fn what_is_kept_is_bounded() {
        let (proofs, _) = proofs(200, false);
        let newest = head(&tree(200));
        for old in 1..200 {
            proofs.between(TreeSize(old), &newest).await.unwrap();
        }
        assert_eq!(proofs.kept.lock().await.len(), MAX_KEPT);
    }

    #[tokio::test]
    async fn a_proof_from_rotten_hashes_is_not_handed_out() {
        let (proofs, _) = proofs(9, true);
        let refused = proofs.between(TreeSize(3), &head(&tree(9))).await.unwrap_err();
        assert!(matches!(refused, NoProof::Wrong { size: TreeSize(9), .. }), "{refused}");
    }
}
