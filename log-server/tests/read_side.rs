//! The read side, as a stranger with a tlog-tiles client meets it.

use crate::stand;
use merkle::{
    HashSource, MemoryTree, PageId, ResourcePath, TileId, TileSet, TreeSize, leaf_hash, prove_consistency, root_of,
};
use note::{Checkpoint, SignedCheckpoint};
use receipt::Receipt;
use stand::{Gate, Place, Running, log_key};

const IMMUTABLE: &str = "public, max-age=31536000, immutable";

async fn filled(log: &Running, gate: &mut Gate, count: usize) -> Vec<Receipt> {
    let mut receipts = Vec::new();
    for seq in 0..count {
        receipts.push(if seq == 0 { gate.open() } else { gate.next() });
    }
    for piece in receipts.chunks(97) {
        let verdicts = log.batch(&piece.iter().map(Receipt::bytes).collect::<Vec<_>>()).await;
        assert!(verdicts.iter().all(|verdict| verdict["status"] == "ok"));
    }
    receipts
}

fn tree_of(receipts: &[Receipt]) -> MemoryTree {
    let mut tree = MemoryTree::new();
    receipts.iter().for_each(|receipt| tree.push(leaf_hash(receipt.bytes())));
    tree
}

#[tokio::test]
async fn the_checkpoint_is_signed_not_cached_and_over_the_tree_of_all_entries() {
    let mut gate = Gate::new("gate.example/a");
    let place = Place::new(&[&gate]);
    let log = place.run().await;
    let receipts = filled(&log, &mut gate, 300).await;
    let text = log.offered(300).await;
    let head = SignedCheckpoint::parse(text.as_bytes()).unwrap().verify(&log_key().verifier()).unwrap();
    assert_eq!(head.checkpoint().root, tree_of(&receipts).root());
    assert_eq!(head.checkpoint().extensions, [""; 0], "no monitor could audit them");
    let answer = log.get("/checkpoint").await;
    assert_eq!(answer.header("cache-control"), Some("no-store"));
    assert_eq!(answer.header("content-type"), Some("text/plain; charset=utf-8"));
}

#[tokio::test]
async fn tiles_and_bundles_are_those_of_the_tree_and_immutable() {
    let mut gate = Gate::new("gate.example/a");
    let place = Place::new(&[&gate]);
    let log = place.run().await;
    let receipts = filled(&log, &mut gate, 600).await;
    let tree = tree_of(&receipts);
    let mut tiles = TileSet::new();
    for tile in TileId::all(TreeSize(600)) {
        let answer = log.get(&format!("/{}", ResourcePath::Tile(tile))).await;
        assert_eq!((answer.status, answer.header("cache-control")), (200, Some(IMMUTABLE)));
        assert_eq!(answer.header("content-type"), Some("application/octet-stream"));
        tiles.insert(tile, &answer.body).unwrap();
    }
    assert_eq!(root_of(&tiles, TreeSize(600)).unwrap(), tree.root());
    for index in [0, 255, 256, 599] {
        assert_eq!(tiles.subtree(0, index), tree.subtree(0, index));
    }
    let mut entries = Vec::new();
    for page in PageId::all(600) {
        let answer = log.get(&format!("/{}", ResourcePath::Entries(page))).await;
        assert_eq!((answer.status, answer.header("cache-control")), (200, Some(IMMUTABLE)));
        entries.extend(merkle::decode_entries(&answer.body).unwrap().into_iter().map(<[u8]>::to_vec));
    }
    assert!(entries.iter().map(Vec::as_slice).eq(receipts.iter().map(Receipt::bytes)));
}

#[tokio::test]
async fn a_partial_tile_is_served_in_every_width_the_log_covers_and_no_wider() {
    let mut gate = Gate::new("gate.example/a");
    let place = Place::new(&[&gate]);
    let log = place.run().await;
    filled(&log, &mut gate, 270).await;
    let full = log.get("/tile/0/000").await.body;
    for (path, found) in [
        ("/tile/0/000", true),
        ("/tile/0/000.p/7", true),
        ("/tile/0/001.p/14", true),
        ("/tile/0/001.p/3", true),
        ("/tile/1/000.p/1", true),
        ("/tile/entries/000", true),
        ("/tile/entries/001.p/14", true),
        ("/tile/0/001.p/15", false),
        ("/tile/0/001", false),
        ("/tile/0/002.p/1", false),
        ("/tile/1/000.p/2", false),
        ("/tile/1/000", false),
        ("/tile/entries/001.p/15", false),
        ("/tile/entries/001", false),
        ("/heads/001", false),
        ("/heads/000.p/255", false),
        ("/tile/0/1", false),
        ("/tile/0/000.p/0", false),
        ("/tile/0/000.p/256", false),
        ("/tile/0/000.p/07", false),
        ("/tile/64/000", false),
        ("/tile/0/x000/000", false),
        ("/tile/0/%30%30%30", false),
        ("/tile/0/000/", false),
        ("/tile/../checkpoint", false),
    ] {
        let answer = log.get(path).await;
        assert_eq!(answer.status, if found { 200 } else { 404 }, "{path}");
        if !found {
            assert_eq!(answer.header("cache-control"), Some("no-store"), "{path} may exist a moment later");
        }
    }
    assert_eq!(log.get("/tile/0/000.p/7").await.body, full[..7 * 32]);
    assert_eq!(log.get("/tile/0/000?width=7").await.body, full, "a query changes nothing");
    assert_eq!(stand::ask(log.address, "POST", "/tile/0/000", &[], b"").await.status, 405);
    let head = stand::ask(log.address, "HEAD", "/tile/0/000", &[], b"").await;
    assert_eq!((head.status, head.header("content-length"), head.body.len()), (200, Some("8192"), 0));
}

#[tokio::test]
async fn every_signed_head_is_listed_and_consistent_with_the_next() {
    let mut gate = Gate::new("gate.example/a");
    let place = Place::new(&[&gate]);
    let mut receipts = Vec::new();
    let mut answered = Vec::new();
    for _ in 0..3 {
        let log = place.run().await;
        for _ in 0..9 {
            receipts.push(if receipts.is_empty() { gate.open() } else { gate.next() });
            answered.push(log.take(receipts.last().unwrap()).await.checkpoint.checkpoint().clone());
        }
        log.stop().await.unwrap();
    }
    let log = place.run().await;
    let tree = tree_of(&receipts);
    let page = log.get(&format!("/heads/000.p/{}", receipts.len() + 1)).await;
    assert_eq!(page.status, 200);
    let heads: Vec<Checkpoint> = merkle::decode_entries(&page.body)
        .unwrap()
        .into_iter()
        .map(|head| SignedCheckpoint::parse(head).unwrap().verify(&log_key().verifier()).unwrap().checkpoint().clone())
        .collect();
    assert_eq!(log.get(&format!("/heads/000.p/{}", receipts.len() + 2)).await.status, 404, "a restart signs nothing");
    assert_eq!(heads[0].size, TreeSize(0));
    for pair in heads.windows(2) {
        let proof = prove_consistency(&tree, pair[0].size, pair[1].size).unwrap();
        proof.verify(pair[0].size, &pair[0].root, pair[1].size, &pair[1].root).unwrap();
        assert!(pair[0].size < pair[1].size);
    }
    for head in answered {
        assert!(heads.contains(&head), "a head was answered with that is not listed: {head}");
    }
}

#[tokio::test]
async fn answers_are_compressed_for_those_who_accept_it() {
    let mut gate = Gate::new("gate.example/a");
    let place = Place::new(&[&gate]);
    let log = place.run().await;
    filled(&log, &mut gate, 256).await;
    let plain = log.get("/tile/entries/000").await;
    assert_eq!(plain.header("content-encoding"), None);
    for encoding in ["gzip", "zstd"] {
        let answer = stand::ask(log.address, "GET", "/tile/entries/000", &[("accept-encoding", encoding)], b"").await;
        assert_eq!(answer.header("content-encoding"), Some(encoding));
        assert_eq!(answer.header("cache-control"), Some(IMMUTABLE));
        assert!(answer.header("vary").is_some_and(|vary| vary.contains("accept-encoding")));
        assert!(answer.body.len() < plain.body.len(), "{} of {}", answer.body.len(), plain.body.len());
    }
}

#[tokio::test]
async fn a_log_says_how_it_is() {
    let place = Place::new(&[]);
    let log = place.run().await;
    assert_eq!(log.get("/healthz").await.text(), "ok\n");
    assert_eq!(log.get("/readyz").await.text(), "ready\n");
    let metrics = log.get("/metrics").await;
    assert!(metrics.header("content-type").is_some_and(|kind| kind.starts_with("text/plain")));
    assert!(metrics.text().contains("counterfoil_http_requests_total"), "{}", metrics.text());
}

#[tokio::test]
async fn an_idle_log_signs_and_offers_nothing_new() {
    let mut gate = Gate::new("gate.example/a");
    let place = Place::new(&[&gate]);
    let log = place.run().await;
    log.take(&gate.open()).await;
    let before = log.offered(1).await;
    tokio::time::sleep(std::time::Duration::from_millis(700)).await;
    assert_eq!(log.checkpoint().await.1, before);
    assert_eq!(log.get("/heads/000.p/3").await.status, 404);
}

#[tokio::test]
async fn a_restart_keeps_everything() {
    let (mut a, mut b) = (Gate::new("gate.example/a"), Gate::new("gate.example/b"));
    let place = Place::new(&[&a, &b]);
    let log = place.run().await;
    let receipts = [a.open(), b.open(), a.next(), b.next()];
    for receipt in &receipts {
        log.take(receipt).await;
    }
    let before = log.offered(4).await;
    let issuers = log.get("/v1/issuers").await.text();
    log.stop().await.unwrap();
    let log = place.run().await;
    assert_eq!(log.checkpoint().await.1, before);
    assert_eq!(log.get("/v1/issuers").await.text(), issuers);
    for (index, receipt) in receipts.iter().enumerate() {
        let found = log.get(&format!("/v1/receipts/{}", receipt.id())).await.json();
        assert_eq!(found["index"], index);
        stand::verify(receipt, found["proof"].as_str().unwrap());
        assert_eq!(log.submit(receipt).await.status, 200);
    }
    log.take(&a.next()).await;
}
