#![allow(clippy::unwrap_used, clippy::panic)]
use super::*;
use crate::receipt::Receipt;
use crate::sample::{Held, START, decision_body, key, signed};
use merkle::{MemoryTree, RootHash, TreeSize};
use note::{Checkpoint, KeyKind, KeyName, Origin, SigningKey, sign_checkpoint};

fn log_key(byte: u8) -> SigningKey {
    SigningKey::from_seed(KeyName::new("log.example/a").unwrap(), KeyKind::Ed25519, [byte; 32])
}

fn head(size: TreeSize, root: RootHash) -> SignedCheckpoint<Verified> {
    let key = log_key(1);
    sign_checkpoint(&Checkpoint::new(Origin::from(key.name()), size, root), &key).unwrap()
}

/// A log of five, of which the fourth is time-reversed, and what is wrong with it.
fn log() -> (Vec<Receipt>, MemoryTree) {
    let mut receipts = Held::receipts(3).receipts;
    for (seq, time) in [(3, 1), (4, 5)] {
        let prev = receipts.last().unwrap().id();
        receipts.push(signed(seq, prev, START + time, &decision_body(seq), &[&key(0)]));
    }
    let mut tree = MemoryTree::new();
    receipts.iter().for_each(|receipt| tree.push(receipt.id().0));
    (receipts, tree)
}

fn made(places: &[usize], code: RefusalCode) -> Result<LogAdmitted, LogAdmittedError> {
    let (receipts, tree) = log();
    let exhibit = |place: &usize| Exhibit { index: LeafIndex(*place as u64), entry: receipts[*place].bytes() };
    let exhibits: Vec<_> = places.iter().map(exhibit).collect();
    LogAdmitted::make(&head(tree.size(), tree.root()), code, &exhibits, None, &tree)
}

#[test]
fn a_document_stands_by_itself_and_names_the_logs_key() {
    let document = made(&[2, 3], RefusalCode::TimeReversed).unwrap();
    let text = serde_json::to_string(&document).unwrap();
    assert!(text.starts_with(r#"{"kind":"log-admitted","log":"log.example/a+"#), "{text}");
    let read: LogAdmitted = serde_json::from_str(&text).unwrap();
    assert_eq!(read, document);
    let accusation = read.check().unwrap();
    assert_eq!(accusation.key, log_key(1).verifier());
    assert!(
        accusation.sentence.contains(
            "as entry 3 of 5 that it signed for, the receipt of gate.example/support-1 with seq 3, issued at"
        ),
        "{}",
        accusation.sentence
    );
    assert_eq!(read.accused().map(|(index, _)| index), Some(LeafIndex(3)));
}

#[test]
fn nothing_is_made_of_what_the_log_did_right() {
    for places in [[1, 2], [3, 4], [2, 4]] {
        assert_eq!(
            made(&places, RefusalCode::TimeReversed),
            Err(NotShown::Code(RefusalCode::TimeReversed).into()),
            "{places:?}"
        );
    }
}

#[test]
fn entries_that_do_not_hash_to_a_head_that_the_log_signed_accuse_nobody() {
    let (receipts, tree) = log();
    let exhibits = [2, 3].map(|place| Exhibit { index: LeafIndex(place as u64), entry: receipts[place].bytes() });
    let other = head(tree.size(), RootHash(Hash([7; 32])));
    let made = LogAdmitted::make(&other, RefusalCode::TimeReversed, &exhibits, None, &tree);
    assert!(matches!(made, Err(LogAdmittedError::NotIncluded { index: 2, .. })), "{made:?}");
    let cut = LogAdmitted::make(&head(TreeSize(3), tree.root()), RefusalCode::TimeReversed, &exhibits, None, &tree);
    assert!(matches!(cut, Err(LogAdmittedError::NotIncluded { .. } | LogAdmittedError::Unproven(_))), "{cut:?}");
}

#[test]
fn no_single_change_of_a_document_leaves_it_standing() {
    let document = made(&[2, 3], RefusalCode::TimeReversed).unwrap();
    let text = serde_json::to_string(&document).unwrap();
    for place in 0..text.len() {
        let mut bytes = text.clone().into_bytes();
        bytes[place] = if bytes[place] == b'A' { b'B' } else { b'A' };
        let Ok(changed) = String::from_utf8(bytes) else { continue };
        let read = serde_json::from_str::<LogAdmitted>(&changed);
        assert!(read.is_err() || read.is_ok_and(|read| read.check().is_err()), "{changed}");
    }
    let other_log = text.replace(&log_key(1).verifier().to_string(), &log_key(2).verifier().to_string());
    assert!(serde_json::from_str::<LogAdmitted>(&other_log).unwrap().check().is_err());
    let more = text.replace("\"kind\"", "\"more\":1,\"kind\"");
    assert!(serde_json::from_str::<LogAdmitted>(&more).is_err());
}

#[test]
fn two_documents_about_one_entry_are_about_the_same_whatever_the_head() {
    let document = made(&[2, 3], RefusalCode::TimeReversed).unwrap();
    let (receipts, tree) = log();
    let mut smaller = MemoryTree::new();
    receipts[..4].iter().for_each(|receipt| smaller.push(receipt.id().0));
    let exhibits = [2, 3].map(|place| Exhibit { index: LeafIndex(place as u64), entry: receipts[place].bytes() });
    let small = head(smaller.size(), smaller.root());
    let again = LogAdmitted::make(&small, RefusalCode::TimeReversed, &exhibits, None, &smaller).unwrap();
    assert!(again != document && again.is_about_the_same(&document));
    assert_eq!(tree.size(), TreeSize(5));
}
