//! The rule for heads that are pushed.

use crate::histories::{head, head_of, head_signed_by, key, log_key, tree};
use counterfoil_cosign::{PushDecision, decide_push};
use merkle::{ConsistencyProof, EMPTY_ROOT, MemoryTree, TreeSize, prove_consistency};
use note::{KeyKind, SignedCheckpoint, Verified};
use proptest::prelude::*;

fn proof(old: u64, tree: &MemoryTree) -> ConsistencyProof {
    if old == 0 { ConsistencyProof::default() } else { prove_consistency(tree, TreeSize(old), tree.size()).unwrap() }
}

fn push(
    held: Option<&SignedCheckpoint<Verified>>,
    old: u64,
    proof: &ConsistencyProof,
    offered: &SignedCheckpoint<Verified>,
) -> PushDecision {
    decide_push(&log_key().verifier(), &note::Strict, held, TreeSize(old), proof, offered.clone().into_unverified())
}

#[test]
fn growth_with_its_proof_is_cosigned_and_the_same_head_again() {
    let none = ConsistencyProof::default();
    let first = tree(7, 0, 0);
    assert!(matches!(push(None, 0, &none, &head(&first)), PushDecision::Cosign(_)));
    let held = head(&first);
    let grown = tree(20, 0, 0);
    assert!(matches!(push(Some(&held), 7, &proof(7, &grown), &head(&grown)), PushDecision::Cosign(_)));
    assert!(matches!(push(Some(&held), 7, &none, &held), PushDecision::CosignAgain(_)));
    let empty = head_of(TreeSize(0), EMPTY_ROOT);
    assert!(matches!(push(None, 0, &none, &empty), PushDecision::Cosign(_)));
    assert!(matches!(push(Some(&empty), 0, &none, &empty), PushDecision::CosignAgain(_)));
    assert!(matches!(push(Some(&empty), 0, &none, &head(&grown)), PushDecision::Cosign(_)));
}

#[test]
fn the_questions_come_in_the_order_of_the_specification() {
    let (held, grown) = (head(&tree(7, 0, 0)), tree(20, 0, 0));
    let good = proof(7, &grown);
    let stranger = head_signed_by(&key("log.example/one", KeyKind::Ed25519, 99), grown.size(), grown.root());
    // A signature first, whatever else is wrong.
    assert!(matches!(push(Some(&held), 30, &good, &stranger), PushDecision::BadLogSignature(_)));
    // Then sizes that cannot be, then the size held, then the proof.
    assert!(matches!(push(Some(&held), 30, &good, &head(&grown)), PushDecision::Shrinks));
    assert!(matches!(push(Some(&held), 6, &good, &head(&grown)), PushDecision::Holds(TreeSize(7))));
    assert!(matches!(push(None, 6, &good, &head(&grown)), PushDecision::Holds(TreeSize(0))));
    assert!(matches!(push(Some(&held), 7, &proof(6, &grown), &head(&grown)), PushDecision::BadProof(..)));
    let none = ConsistencyProof::default();
    assert!(matches!(push(Some(&held), 7, &none, &head(&grown)), PushDecision::BadProof(..)));
    assert!(matches!(push(None, 0, &good, &head(&grown)), PushDecision::BadProof(..)), "nothing is proven from 0");
    assert!(matches!(push(Some(&held), 7, &good, &held), PushDecision::BadProof(..)), "nor from a head to itself");
    let hollow = head_of(TreeSize(0), tree(1, 0, 0).root());
    assert!(matches!(push(None, 0, &none, &hollow), PushDecision::BadEmptyRoot(_)));
}

#[test]
fn a_second_history_is_a_fork_where_what_the_log_signed_shows_it() {
    let none = ConsistencyProof::default();
    let held = head(&tree(7, 0, 0));
    let PushDecision::Fork(_, fork) = push(Some(&held), 7, &none, &head(&tree(5, 2, 1))) else { panic!() };
    assert_eq!(fork.check().unwrap().key, log_key().verifier());
    // The proof of the other history leads from its own root at 7 to a root that the log signed.
    let other = tree(5, 15, 1);
    let PushDecision::Fork(_, fork) = push(Some(&held), 7, &proof(7, &other), &head(&other)) else { panic!() };
    assert_eq!(fork.check().unwrap().key, log_key().verifier());
    // From a power of two the proof leaves that root out, and a proof that fails may be anybody's.
    let held = head(&tree(8, 0, 0));
    assert!(matches!(push(Some(&held), 8, &proof(8, &other), &head(&other)), PushDecision::BadProof(..)));
}

proptest! {
    #[test]
    fn a_log_with_one_history_is_never_accused_whatever_proof_comes(
        old in 0u64..70, grows in 0u64..70, claimed in 0u64..140,
        hashes in proptest::collection::vec(any::<[u8; 32]>(), 0..9), flip in 0usize..9,
    ) {
        let grown = tree(old + grows, 0, 0);
        let held = (old > 0).then(|| head(&tree(old, 0, 0)));
        let random = ConsistencyProof::new(hashes.into_iter().map(merkle::Hash).collect());
        let mut damaged = proof(old, &grown).hashes().to_vec();
        if let Some(hash) = damaged.get_mut(flip) {
            hash.0[flip] ^= 1;
        }
        for proof in [random, ConsistencyProof::new(damaged)] {
            let decision = push(held.as_ref(), claimed, &proof, &head(&grown));
            prop_assert!(!matches!(decision, PushDecision::Fork(..) | PushDecision::NotShown(..)), "{decision:?}");
        }
    }
}
