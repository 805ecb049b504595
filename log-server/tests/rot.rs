//! Bits that rot while a log runs: whoever asks for them gets no wrong answer, and the log stops and says where.

use crate::stand;
use receipt::Receipt;
use stand::{Gate, Place, Running, until};
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// More than one full page.
const COUNT: usize = 300;

async fn filled(place: &Place, gate: &mut Gate) -> (Running, Vec<Receipt>) {
    let log = place.run().await;
    let receipts: Vec<Receipt> = (0..COUNT).map(|number| if number == 0 { gate.open() } else { gate.next() }).collect();
    let bytes: Vec<&[u8]> = receipts.iter().map(Receipt::bytes).collect();
    assert!(log.batch(&bytes).await.iter().all(|verdict| verdict["status"] == "ok"));
    log.offered(COUNT as u64).await;
    (log, receipts)
}

fn flip(path: &Path, byte: u64) {
    let file = fs::File::options().read(true).write(true).open(path).unwrap();
    let mut one = [0];
    file.read_exact_at(&mut one, byte).unwrap();
    file.write_all_at(&[one[0] ^ 4], byte).unwrap();
}

/// The paths that lead to the damage, where in which file it is, and how the log names the place.
async fn assert_stops(ask: &[String], damage: impl Fn(&Path, &[Receipt]) -> (PathBuf, u64), named: &str) {
    for path in ask {
        let mut gate = Gate::new("gate.example/a");
        let place = Place::new(&[&gate]);
        let (log, receipts) = filled(&place, &mut gate).await;
        assert_eq!(log.get(path).await.status, 200, "{path}");
        let (file, byte) = damage(&place.dir.path().join("store"), &receipts);
        flip(&file, byte);
        assert_stops_at(log, &mut gate, path, named, &file).await;
    }
}

/// That asking for `path` is answered 500, and that the log then ends with a sentence that names place and file.
async fn assert_stops_at(log: Running, gate: &mut Gate, path: &str, named: &str, file: &Path) {
    let answer = log.get(path).await;
    assert_eq!((answer.status, answer.json()["code"].as_str()), (500, Some("store")), "{path}: {}", answer.text());
    // Whoever comes while it stops is told so, or finds it gone; nothing more is taken.
    let late = stand::try_ask(log.address, "POST", "/v1/receipts", &[], gate.next().bytes()).await;
    assert!(late.is_err() || late.is_ok_and(|late| late.status == 503), "{path}: a receipt was taken");
    let sentence = log.ended().await.unwrap_err().to_string();
    assert!(sentence.contains(named) && sentence.contains("fsck"), "{path}: {sentence}");
    assert!(sentence.contains(&file.display().to_string()), "{path}: {sentence}");
}

fn offset_of(receipts: &[Receipt], index: usize) -> u64 {
    receipts[..index].iter().map(|receipt| receipt.bytes().len() as u64 + 2).sum()
}

fn by_seq(seq: usize) -> String {
    format!("/v1/issuers/gate.example%2Fa/receipts/{seq}")
}

#[tokio::test]
async fn a_rotten_entry_is_not_served_and_stops_the_log() {
    let paths = ["/tile/entries/000".to_owned(), "/tile/entries/000.p/20".to_owned(), by_seq(9)];
    let damage = |store: &Path, receipts: &[Receipt]| (store.join("entries"), offset_of(receipts, 9) + 150);
    assert_stops(&paths, damage, "entry 9").await;
}

#[tokio::test]
async fn a_rotten_leaf_hash_is_not_served_and_stops_the_log() {
    let paths = ["/tile/0/000".to_owned(), "/tile/entries/000".to_owned(), by_seq(9), by_seq(8)];
    assert_stops(&paths, |store, _| (store.join("hashes/0"), 9 * 32), "hash 9").await;
}

#[tokio::test]
async fn a_rotten_hash_further_up_is_not_served_and_stops_the_log() {
    let paths = ["/tile/0/000".to_owned(), "/tile/1/000.p/1".to_owned(), by_seq(280)];
    assert_stops(&paths, |store, _| (store.join("hashes/1"), 7), "hash 0").await;
}

#[tokio::test]
async fn a_rotten_place_in_an_index_stops_the_log() {
    let mut gate = Gate::new("gate.example/a");
    let place = Place::new(&[&gate]);
    let (log, _) = filled(&place, &mut gate).await;
    // At the latest when it stops a log writes what its arrays lack.
    log.stop().await.unwrap();
    let arrays = place.dir.path().join("store/issuers");
    let array = fs::read_dir(arrays).unwrap().next().unwrap().unwrap().path();
    flip(&array, 8 * 9 + 7);
    let log = place.run().await;
    assert_eq!(log.get(&by_seq(8)).await.status, 200);
    assert_stops_at(log, &mut gate, &by_seq(9), "place 9", &array).await;
}

#[tokio::test]
async fn a_submitter_of_what_is_held_meets_rot_as_well() {
    let mut gate = Gate::new("gate.example/a");
    let place = Place::new(&[&gate]);
    let (log, receipts) = filled(&place, &mut gate).await;
    flip(&place.dir.path().join("store/hashes/0"), 9 * 32);
    // The same receipt again: to tell a duplicate from a fork the log looks at the hash, and at the entry where that is
    // another.
    let answer = stand::try_ask(log.address, "POST", "/v1/receipts", &[], receipts[9].bytes()).await;
    assert!(answer.is_err() || answer.is_ok_and(|answer| answer.status >= 500));
    assert!(log.ended().await.unwrap_err().to_string().contains("hash 9"));
}

/// Logged receipts are public, and a thousand copies of one made the log read its page a thousand times, while everybody
/// waited.
#[tokio::test]
async fn copies_of_what_is_held_are_told_without_reading_entries() {
    let mut gate = Gate::new("gate.example/a");
    let place = Place::new(&[&gate]);
    let (log, receipts) = filled(&place, &mut gate).await;
    // Whoever reads the entry stops the log.
    flip(&place.dir.path().join("store/entries"), offset_of(&receipts, 9) + 150);
    let copies = vec![receipts[9].bytes(); 1000];
    let verdicts = log.batch(&copies).await;
    assert!(verdicts.iter().all(|verdict| verdict["status"] == "duplicate" && verdict["index"] == 9));
    assert_eq!(verdicts.len(), 1000);
    log.stop().await.unwrap();
}

#[tokio::test]
async fn a_rotten_id_that_leads_elsewhere_stops_the_log() {
    let mut gate = Gate::new("gate.example/a");
    let place = Place::new(&[&gate]);
    let (log, receipts) = filled(&place, &mut gate).await;
    let by_id = format!("/v1/receipts/{}", receipts[9].id());
    let ids = place.dir.path().join("store/ids.redb");
    // The first half of an id is what it is found by.
    let key = &receipts[9].id().0.0[..16];
    // It is indexed half a second behind the commit.
    let mut found = None;
    until("it is indexed", async || {
        found = fs::read(&ids).unwrap().windows(16).position(|window| window == key);
        found.is_some()
    })
    .await;
    log.stop().await.unwrap();
    // Values lie behind all keys of their page, little-endian: the 9 of this key is the one whose neighbours are 8 and 10
    // by some order; every 8 bytes that read 9 are made to say 13.
    let mut bytes = fs::read(&ids).unwrap();
    let page = found.unwrap() / 4096 * 4096;
    for at in page..(page + 32_768).min(bytes.len() - 8) {
        if bytes[at..at + 8] == 9u64.to_le_bytes() {
            bytes[at] = 13;
        }
    }
    fs::write(&ids, bytes).unwrap();
    assert_stops_at(place.run().await, &mut gate, &by_id, "leaf", &ids).await;
}
