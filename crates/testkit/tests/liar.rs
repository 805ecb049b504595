//! The liar is a fixture that others are judged by: it shows what it was told to show, and nothing else.

use counterfoil_testkit::liar::{Gates, How, Liar, On, Showing, When};
use merkle::{MemoryTree, TileId, TileSet, TreeSize, leaf_hash, prove_consistency, tiles_for_consistency};
use note::SignedCheckpoint;
use receipt::UnixMillis;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

const ORIGIN: &str = "log.example/liar";

/// The answer as it stands on the wire, headers included, up to the end of the connection.
async fn raw(liar: &Liar, asker: &str, path: &str) -> Vec<u8> {
    let url = liar.url(asker);
    let (host, prefix) = url.strip_prefix("http://").unwrap().split_once('/').unwrap();
    let mut connection = TcpStream::connect(host).await.unwrap();
    let request = format!("GET /{prefix}/{path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n");
    connection.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    // A connection that breaks off is an answer too.
    let _ = connection.read_to_end(&mut answer).await;
    answer
}

async fn get(liar: &Liar, asker: &str, path: &str) -> (u16, Vec<u8>) {
    let answer = raw(liar, asker, path).await;
    let end = answer.windows(4).position(|four| four == b"\r\n\r\n").unwrap();
    let status = std::str::from_utf8(&answer[9..12]).unwrap().parse().unwrap();
    (status, answer[end + 4..].to_vec())
}

/// Size of the head shown, which must be the liar's own.
async fn size_shown(liar: &Liar, asker: &str) -> u64 {
    let (status, body) = get(liar, asker, "checkpoint").await;
    assert_eq!(status, 200);
    SignedCheckpoint::parse(&body).unwrap().verify(&liar.vkey()).unwrap().checkpoint().size.0
}

#[tokio::test]
async fn each_asker_is_shown_its_own_history_and_each_is_true_by_itself() {
    let liar = Liar::start(ORIGIN, 1).await.unwrap();
    liar.grow(0, 300).unwrap();
    let second = liar.branch(0, 200).unwrap();
    liar.grow(second, 400).unwrap();
    for (asker, history, size) in [("w1", 0, 300), ("w2", second, 600)] {
        liar.show(asker, Showing::newest(history));
        assert_eq!(size_shown(&liar, asker).await, size);
        let mut tiles = TileSet::new();
        for tile in tiles_for_consistency(TreeSize(200), TreeSize(size)) {
            let (status, bytes) = get(&liar, asker, &merkle::ResourcePath::Tile(tile).to_string()).await;
            assert_eq!(status, 200);
            tiles.insert(tile, &bytes).unwrap();
        }
        let proof = prove_consistency(&tiles, TreeSize(200), TreeSize(size)).unwrap();
        let [old, new] = [200, size].map(|size| liar.head(history, size).unwrap().checkpoint().root);
        proof.verify(TreeSize(200), &old, TreeSize(size), &new).unwrap();
    }
    let (of_first, of_second) = (liar.head(0, 250).unwrap(), liar.head(second, 250).unwrap());
    assert_ne!(of_first.checkpoint().root, of_second.checkpoint().root);
    assert_eq!(get(&liar, "stranger", "checkpoint").await.0, 404);
}

#[tokio::test]
async fn a_script_goes_by_the_fetches_of_its_asker() {
    let liar = Liar::start(ORIGIN, 2).await.unwrap();
    liar.grow(0, 20).unwrap();
    let script = vec![
        (When::Fetch(0), Showing::newest(0)),
        (When::Fetch(2), Showing::newest(0).at(5)),
        (When::Fetch(3), Showing::newest(0).but(On::Checkpoint, How::Status(500))),
    ];
    liar.play("w1", script);
    assert_eq!([size_shown(&liar, "w1").await, size_shown(&liar, "w1").await], [20, 20]);
    assert_eq!(size_shown(&liar, "w1").await, 5, "the third fetch is rolled back");
    assert_eq!(get(&liar, "w1", "checkpoint").await.0, 500);
    assert_eq!(liar.fetches("w1"), 4);
}

#[tokio::test]
async fn every_mishap_is_what_it_says() {
    let liar = Liar::start(ORIGIN, 3).await.unwrap();
    liar.grow(0, 20).unwrap();
    let second = liar.branch(0, 10).unwrap();
    liar.grow(second, 10).unwrap();
    let tile = TileId { level: 0, index: 0, width: 20 };
    let path = "tile/0/000.p/20";
    liar.show("well", Showing::newest(0));
    let (_, whole) = get(&liar, "well", path).await;
    assert_eq!(whole.len(), 640);

    liar.show("w", Showing::newest(0).but(On::Tile(tile), How::Withheld));
    assert_eq!(get(&liar, "w", path).await.0, 404);
    assert_eq!(size_shown(&liar, "w").await, 20, "the mishap is with one tile only");
    liar.show("w", Showing::newest(0).but(On::Level(0), How::BreaksOff));
    let answer = raw(&liar, "w", path).await;
    assert!(String::from_utf8_lossy(&answer).contains("content-length: 640") && answer.ends_with(&whole[..320]));
    liar.show("w", Showing::newest(0).but(On::Tiles, How::CutShort));
    assert_eq!(get(&liar, "w", path).await, (200, whole[..320].to_vec()));
    liar.show("w", Showing::newest(0).but(On::Tiles, How::Drips(100, Duration::from_millis(1))));
    assert_eq!(get(&liar, "w", path).await, (200, whole.clone()));
    liar.show("w", Showing::newest(0).but(On::Tiles, How::OfHistory(second)));
    let (_, other) = get(&liar, "w", path).await;
    assert_eq!((&other[..320], other[320..] == whole[320..]), (&whole[..320], false));
    liar.show("w", Showing::newest(0).but(On::Tiles, How::Garbage));
    let (_, garbage) = get(&liar, "w", path).await;
    assert_eq!((garbage.len(), &garbage), (640, &get(&liar, "w", path).await.1), "garbage is the same each time");
    liar.show("w", Showing::newest(0).but(On::Checkpoint, How::OneBit));
    let (_, changed) = get(&liar, "w", "checkpoint").await;
    assert!(SignedCheckpoint::parse(&changed).and_then(|head| head.verify(&liar.vkey())).is_err());
    liar.show("w", Showing::newest(0).but(On::Everything, How::Stalls));
    assert!(timeout(Duration::from_millis(100), get(&liar, "w", path)).await.is_err());
}

#[tokio::test]
async fn receipts_of_one_set_of_gates_fill_two_histories_that_are_each_dense() {
    let liar = Liar::start(ORIGIN, 4).await.unwrap();
    let mut gates = Gates::new(3, UnixMillis(1_790_000_000_000)).unwrap();
    liar.extend(0, (0..9).map(|_| gates.entry().unwrap()).collect()).unwrap();
    let second = liar.branch(0, 9).unwrap();
    let mut others = gates.clone();
    others.skip();
    for (history, gates) in [(0, &mut gates), (second, &mut others)] {
        liar.extend(history, (0..6).map(|_| gates.entry().unwrap()).collect()).unwrap();
        let entries = get(&liar, "straight", "tile/entries/000.p/15").await.1;
        let mut tree = MemoryTree::new();
        for entry in merkle::decode_entries(&entries).unwrap() {
            receipt::Receipt::parse(entry).unwrap();
            tree.push(leaf_hash(entry));
        }
        assert_eq!(tree.root(), liar.head(0, 15).unwrap().checkpoint().root);
    }
    assert_ne!(liar.head(0, 10).unwrap().checkpoint().root, liar.head(second, 10).unwrap().checkpoint().root);
}
