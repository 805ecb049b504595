//! The journal as a tiled log (C2SP tlog-tiles): paths, types and caching of its static resources.

use crate::exchange;
use crate::stage;
use exchange::ask;
use merkle::{HashSource, PageId, ResourcePath, TileId, TileSet, TreeSize, leaf_hash, root_of};
use note::{SignedCheckpoint, VerifierKey};
use stage::{FakeLog, House, NOON_S};

const IMMUTABLE: &str = "public, max-age=31536000, immutable";

#[tokio::test(flavor = "multi_thread")]
async fn the_journal_is_served_as_the_static_resources_of_a_tiled_log() {
    let (log, house) = (FakeLog::start("log.example/agents", 0).await, House::new());
    house.configure(&log, &[], "");
    let witness = house.start().await;
    for size in 1..=12 {
        let head = log.offer(size, 0, 0);
        assert_eq!(witness.nudge(&log, &head).await, Ok(NOON_S));
    }
    let checkpoint = ask(&witness.url, "GET", "/journal/checkpoint", b"").await;
    assert_eq!((checkpoint.status, checkpoint.header("cache-control")), (200, Some("no-store")));
    assert_eq!(checkpoint.header("content-type"), Some("text/plain; charset=utf-8"));
    let status: serde_json::Value =
        serde_json::from_slice(&ask(&witness.url, "GET", "/status", b"").await.body).unwrap();
    let key: VerifierKey = status["journal_vkey"].as_str().unwrap().parse().unwrap();
    let head = SignedCheckpoint::parse(&checkpoint.body).unwrap().verify(&key).unwrap();
    let size = head.checkpoint().size;
    assert!(size.0 >= 12, "a head each, and the start");

    let mut tiles = TileSet::new();
    for tile in TileId::all(size) {
        let answer = ask(&witness.url, "GET", &format!("/journal/{}", ResourcePath::Tile(tile)), b"").await;
        assert_eq!((answer.status, answer.header("cache-control")), (200, Some(IMMUTABLE)), "{tile}");
        assert_eq!(answer.header("content-type"), Some("application/octet-stream"));
        tiles.insert(tile, &answer.body).unwrap();
    }
    assert_eq!(root_of(&tiles, size).unwrap(), head.checkpoint().root);
    let page = ResourcePath::Entries(PageId::at(0, size.0).unwrap());
    let answer = ask(&witness.url, "GET", &format!("/journal/{page}"), b"").await;
    assert_eq!((answer.status, answer.header("cache-control")), (200, Some(IMMUTABLE)));
    assert_eq!(answer.header("content-type"), Some("application/octet-stream"));
    let entries = merkle::decode_entries(&answer.body).unwrap();
    assert_eq!(entries.len() as u64, size.0);
    for (index, entry) in (0..).zip(entries) {
        assert_eq!(tiles.subtree(0, index), Some(leaf_hash(entry)));
    }

    // Every width up to the size, for the heads that had it; nothing wider, nothing empty, nothing spelt otherwise.
    let TreeSize(size) = size;
    for (path, found) in [
        (format!("tile/0/000.p/{}", size - 1), true),
        ("tile/0/000.p/1".to_owned(), true),
        ("tile/entries/000.p/1".to_owned(), true),
        (format!("tile/0/000.p/{}", size + 1), false),
        (format!("tile/entries/000.p/{}", size + 1), false),
        ("tile/0/000".to_owned(), false),
        ("tile/0/000.p/0".to_owned(), false),
        ("tile/0/000.p/01".to_owned(), false),
        ("tile/0/001.p/1".to_owned(), false),
        ("tile/1/000.p/1".to_owned(), false),
        ("tile/64/000.p/1".to_owned(), false),
        ("tile/00/000.p/1".to_owned(), false),
    ] {
        let answer = ask(&witness.url, "GET", &format!("/journal/{path}"), b"").await;
        assert_eq!(answer.status, if found { 200 } else { 404 }, "{path}");
        if !found {
            assert_eq!(answer.header("cache-control"), Some("no-store"), "{path} may exist a moment later");
        }
    }
    witness.stop().await;
}
