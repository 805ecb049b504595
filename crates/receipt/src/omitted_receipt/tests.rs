#![allow(clippy::unwrap_used, clippy::panic)]
use super::*;
use crate::sample::Held;
use merkle::{MemoryTree, RootHash, TreeSize};
use note::{Checkpoint, KeyKind, KeyName, Origin, SigningKey, sign_checkpoint};

fn log_key(byte: u8) -> SigningKey {
    SigningKey::from_seed(KeyName::new("log.example/a").unwrap(), KeyKind::Ed25519, [byte; 32])
}

fn head(size: TreeSize, root: RootHash, byte: u8) -> SignedCheckpoint<Verified> {
    let key = log_key(byte);
    sign_checkpoint(&Checkpoint::new(Origin::from(key.name()), size, root), &key).unwrap()
}

fn tree_of(entries: &[Vec<u8>]) -> MemoryTree {
    let mut tree = MemoryTree::new();
    entries.iter().for_each(|entry| tree.push(leaf_hash(entry)));
    tree
}

fn entries(count: u64) -> Vec<Vec<u8>> {
    Held::receipts(count).receipts.iter().map(|receipt| receipt.bytes().to_vec()).collect()
}

/// The log's first five entries, and a proof of the fourth that somebody kept.
fn kept() -> (TlogProof, Vec<u8>) {
    let entries = entries(5);
    let tree = tree_of(&entries);
    let proof = TlogProof {
        extra: Some(b"not signed".to_vec()),
        index: LeafIndex(3),
        inclusion: prove_inclusion(&tree, LeafIndex(3), tree.size()).unwrap(),
        checkpoint: head(tree.size(), tree.root(), 1).into_unverified(),
    };
    (proof, entries[3].clone())
}

/// The same log grown to `size`, with another entry in place of the fourth.
fn other(size: u64) -> MemoryTree {
    let mut entries = entries(size);
    if let Some(fourth) = entries.get_mut(3) {
        *fourth = b"another".to_vec();
    }
    tree_of(&entries)
}

fn made(tree: &MemoryTree) -> Result<OmittedReceipt, OmittedReceiptError> {
    let (proof, entry) = kept();
    OmittedReceipt::make(&log_key(1).verifier(), &proof, &entry, Some((&head(tree.size(), tree.root(), 1), tree)))
}

#[test]
fn another_entry_at_the_index_convicts_the_log_at_whatever_sizes() {
    for size in [4, 5, 8, 300] {
        let document = made(&other(size)).unwrap();
        assert!(document.convicts());
        let text = serde_json::to_string(&document).unwrap();
        assert!(text.starts_with(r#"{"kind":"omitted-receipt","log":"log.example/a+"#), "{text}");
        assert!(!text.contains("extra "), "{text}");
        let read: OmittedReceipt = serde_json::from_str(&text).unwrap();
        assert_eq!(read, document);
        let accusation = read.check().unwrap();
        assert_eq!(accusation.key, log_key(1).verifier());
        let told = &accusation.sentence;
        assert!(told.contains("at size 5 its entry 3 is the receipt of gate.example/support-1 with seq 3"), "{told}");
        assert!(told.contains(&format!("at size {size} its entry 3 is another one")), "{told}");
    }
}

#[test]
fn a_log_that_still_holds_the_entry_or_ends_before_it_is_not_convicted() {
    let honest = tree_of(&entries(9));
    assert_eq!(made(&honest), Err(OmittedReceiptError::Same(LeafIndex(3))));
    // A tree of three is an older one, and honest.
    assert!(matches!(
        made(&other(3)),
        Err(OmittedReceiptError::Unproven(_)
            | OmittedReceiptError::Missing(_)
            | OmittedReceiptError::NotIncluded { .. })
    ));
}

#[test]
fn without_what_the_log_presented_it_says_where_to_look_and_convicts_nobody() {
    let (proof, entry) = kept();
    let document = OmittedReceipt::make(&log_key(1).verifier(), &proof, &entry, None).unwrap();
    assert!(!document.convicts());
    let accusation = document.check().unwrap();
    assert!(accusation.not_shown.contains("Ask the log for its entry 3"), "{}", accusation.not_shown);
    assert_eq!(document.proven().map(|(index, entry)| (index, entry.to_vec())), Some((LeafIndex(3), entry)));
}

#[test]
fn heads_of_another_key_and_entries_that_are_not_there_prove_nothing() {
    let (proof, entry) = kept();
    let (log, tree) = (log_key(1).verifier(), other(5));
    let by_another = head(tree.size(), tree.root(), 2);
    assert!(matches!(
        OmittedReceipt::make(&log, &proof, &entry, Some((&by_another, &tree))),
        Err(OmittedReceiptError::NotSigned { which: "presented", .. })
    ));
    assert!(matches!(
        OmittedReceipt::make(&log_key(2).verifier(), &proof, &entry, None),
        Err(OmittedReceiptError::NotSigned { which: "proven", .. })
    ));
    assert!(matches!(
        OmittedReceipt::make(&log, &proof, b"another", None),
        Err(OmittedReceiptError::NotIncluded { which: "proven", .. })
    ));
    // The tree's hashes are those of another head than the one given.
    assert!(matches!(
        OmittedReceipt::make(&log, &proof, &entry, Some((&head(tree.size(), RootHash(Hash([7; 32])), 1), &tree))),
        Err(OmittedReceiptError::NotIncluded { which: "presented", .. })
    ));
}

#[test]
fn no_single_change_of_a_document_leaves_it_standing() {
    let text = serde_json::to_string(&made(&other(8)).unwrap()).unwrap();
    for place in 0..text.len() {
        for by in [1, 0x20] {
            let mut changed = text.clone().into_bytes();
            changed[place] ^= by;
            let Ok(changed) = String::from_utf8(changed) else { continue };
            let Ok(read) = serde_json::from_str::<OmittedReceipt>(&changed) else { continue };
            assert!(read.check().is_err(), "{changed}");
        }
    }
}
