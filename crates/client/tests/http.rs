//! Clients against servers that are hostile, broken or merely tiled.

use axum::Router;
use axum::body::{Body, Bytes};
use axum::http::{StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use client::{BaseUrl, BoundedClient, Fault, FetchError, LogClient, Request, Timeouts, Wait, WitnessClient};
use merkle::{HashSource, MemoryTree, PageId, ResourcePath, TileId, TreeSize, root_of, tiles_for_root};
use note::{KeyKind, KeyName, Origin, SigningKey};
use receipt::IssuerName;
use std::collections::HashMap;
use std::future::Future;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// More than any machine takes.
const AMPLE: Duration = Duration::from_secs(600);

fn http() -> BoundedClient {
    BoundedClient::new(Timeouts { connect: AMPLE, total: AMPLE }).unwrap()
}

/// Serves every path by `answer`; returns the address.
async fn serve<F, R>(answer: F) -> String
where
    F: Fn(Uri) -> R + Clone + Send + Sync + 'static,
    R: Future<Output = Response> + Send + 'static,
{
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, Router::new().fallback(answer)).await.unwrap() });
    url
}

async fn fetch(url: &str, max_bytes: u64) -> Result<Bytes, FetchError> {
    http().send(Request::get(url.parse().unwrap(), max_bytes)).await
}

#[tokio::test]
async fn redirects_are_refused_and_never_followed() {
    let followed = Arc::new(Mutex::new(0));
    let counter = Arc::clone(&followed);
    let elsewhere = serve(move |_| {
        *counter.lock().unwrap() += 1;
        async { "secret".into_response() }
    })
    .await;
    for status in [301u16, 302, 303, 307, 308, 300, 399] {
        let location = elsewhere.clone();
        let url = serve(move |_| {
            let location = location.clone();
            async move { (StatusCode::from_u16(status).unwrap(), [(header::LOCATION, location)]).into_response() }
        })
        .await;
        let error = fetch(&url, 100).await.unwrap_err();
        assert_eq!(error.fault, Fault::Redirect { status, location: elsewhere.clone() });
        assert!(!error.may_pass());
    }
    assert_eq!(*followed.lock().unwrap(), 0);
}

#[tokio::test]
async fn an_answer_larger_than_allowed_is_refused_whether_declared_streamed_or_compressed() {
    let url = serve(|uri: Uri| async move {
        match uri.path() {
            "/declared" => vec![b'x'; 101].into_response(),
            "/streamed" => {
                // Endless: only the bound ends it.
                let chunk = Bytes::from(vec![b'x'; 64]);
                Body::from_stream(futures_util::stream::repeat_with(move || Ok::<_, std::io::Error>(chunk.clone())))
                    .into_response()
            }
            "/compressed" => {
                let bomb = zstd::encode_all(&vec![0u8; 50_000_000][..], 3).unwrap();
                assert!(bomb.len() < 10_000);
                ([(header::CONTENT_ENCODING, "zstd")], bomb).into_response()
            }
            _ => ([(header::CONTENT_ENCODING, "zstd")], zstd::encode_all(&[b'x'; 100][..], 3).unwrap()).into_response(),
        }
    })
    .await;
    for path in ["declared", "streamed", "compressed"] {
        let error = fetch(&format!("{url}/{path}"), 100).await.unwrap_err();
        assert_eq!(error.fault, Fault::TooLarge(100), "{path}");
    }
    assert_eq!(fetch(&format!("{url}/just"), 100).await.unwrap().len(), 100);
}

#[tokio::test]
async fn a_server_that_answers_too_slowly_or_not_at_all_is_left() {
    let url = serve(|uri: Uri| async move {
        if uri.path() == "/silent" {
            std::future::pending::<()>().await;
        }
        // A byte every 50 ms: each read is quick, the whole is not.
        let drip = futures_util::stream::unfold((), |()| async {
            tokio::time::sleep(Duration::from_millis(50)).await;
            Some((Ok::<_, std::io::Error>(Bytes::from_static(b"x")), ()))
        });
        Body::from_stream(drip).into_response()
    })
    .await;
    let total = Duration::from_millis(400);
    let hurried = BoundedClient::new(Timeouts { connect: AMPLE, total }).unwrap();
    for path in ["silent", "dripping"] {
        // Neither would end before this test is given up on.
        let asked = Request::get(format!("{url}/{path}").parse().unwrap(), 1_000_000_000);
        let error = hurried.send(asked).await.unwrap_err();
        assert_eq!(error.fault, Fault::Timeout(total), "{path}");
        assert!(error.may_pass(), "{path}");
    }
}

#[tokio::test]
async fn nobody_there_and_a_connection_that_breaks_are_told_apart() {
    // Held, so that nobody else gets it, and not listened at.
    let held = tokio::net::TcpSocket::new_v4().unwrap();
    held.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let free = format!("http://{}", held.local_addr().unwrap());
    let error = fetch(&free, 10).await.unwrap_err();
    assert!(matches!(error.fault, Fault::Connect(_)) && error.may_pass(), "{error}");

    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let _read = stream.read(&mut [0; 1024]).await.unwrap();
            stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nhalf").await.unwrap();
        }
    });
    let error = fetch(&url, 1000).await.unwrap_err();
    assert!(matches!(error.fault, Fault::Interrupted(_)) && error.may_pass(), "{error}");

    let error = fetch("https://127.0.0.1:1/", 10).await.unwrap_err();
    assert!(matches!(error.fault, Fault::Connect(_) | Fault::Request(_)), "{error}");
    let error = fetch("ftp://127.0.0.1/", 10).await.unwrap_err();
    assert!(matches!(error.fault, Fault::Request(_)) && !error.may_pass(), "{error}");
}

#[tokio::test]
async fn a_refusal_carries_its_problem_document_and_says_whether_to_try_again() {
    let url = serve(|uri: Uri| async move {
        let status = StatusCode::from_u16(uri.path()[1..].parse().unwrap()).unwrap();
        let document = format!(
            r#"{{"title":"t","status":{},"code":"gap","detail":"send seq 4 first","expected_seq":4}}"#,
            status.as_u16()
        );
        (status, [(header::RETRY_AFTER, "7")], document).into_response()
    })
    .await;
    for (status, may_pass) in [
        (400, false),
        (401, false),
        (403, false),
        (404, false),
        (409, false),
        (413, false),
        (422, false),
        (408, true),
        (429, true),
        (500, true),
        (503, true),
    ] {
        let error = fetch(&format!("{url}/{status}"), 10).await.unwrap_err();
        let refusal = error.refusal().unwrap();
        assert_eq!((refusal.status, refusal.retry_after), (status, Some(Duration::from_secs(7))));
        assert_eq!(refusal.problem().unwrap().expected_seq, Some(4));
        assert_eq!((error.may_pass(), error.is_missing()), (may_pass, status == 404));
        assert!(error.to_string().contains("send seq 4 first"), "{error}");
    }
    let plain = serve(|_| async { (StatusCode::NOT_FOUND, "<html>".repeat(100_000)).into_response() }).await;
    let error = fetch(&plain, 10).await.unwrap_err();
    assert!(error.to_string().contains("check the address"), "{error}");
}

/// A tiled log of `size` leaves; `hidden` paths are not there.
async fn tiled(size: u64, hidden: &'static [&'static str]) -> (LogClient, MemoryTree) {
    let mut tree = MemoryTree::new();
    let mut entries = Vec::new();
    for number in 0..size {
        entries.push(format!("entry {number}").into_bytes());
        tree.push(merkle::leaf_hash(&entries[number as usize]));
    }
    let served = tree.clone();
    let url = serve(move |uri: Uri| {
        let answer = match ResourcePath::parse(uri.path().strip_prefix("/log/").unwrap()) {
            Some(path) if !hidden.contains(&path.to_string().as_str()) => resource(&served, &entries, &path),
            _ => None,
        };
        async move { answer.map_or_else(|| StatusCode::NOT_FOUND.into_response(), IntoResponse::into_response) }
    })
    .await;
    (LogClient::new(format!("{url}/log").parse().unwrap(), http()), tree)
}

fn resource(tree: &MemoryTree, entries: &[Vec<u8>], path: &ResourcePath) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    match *path {
        ResourcePath::Checkpoint => bytes.extend_from_slice(b"a checkpoint"),
        ResourcePath::Tile(tile) => {
            for place in 0..u64::from(tile.width) {
                bytes.extend_from_slice(&tree.subtree(8 * tile.level, 256 * tile.index + place)?.0);
            }
        }
        ResourcePath::Entries(page) | ResourcePath::Heads(page) => {
            let first = 256 * page.index as usize;
            for entry in entries.get(first..first + usize::from(page.width))? {
                merkle::encode_entry(&mut bytes, entry).unwrap();
            }
        }
    }
    Some(bytes)
}

#[tokio::test]
async fn tiles_come_together_and_give_the_root() {
    let (log, tree) = tiled(1_000, &[]).await;
    for size in [1, 255, 256, 257, 700, 1_000] {
        let tiles = tiles_for_root(TreeSize(size), TreeSize(1_000));
        let set = log.tiles(&tiles).await.unwrap();
        assert_eq!(root_of(&set, TreeSize(size)).unwrap(), root_of(&tree, TreeSize(size)).unwrap());
    }
    let beyond = TileId { level: 0, index: 9, width: 256 };
    assert!(log.tiles(&[beyond]).await.unwrap_err().is_missing());
}

#[tokio::test]
async fn a_partial_page_that_is_gone_is_cut_from_the_full_one() {
    let (log, tree) = tiled(600, &["tile/0/001.p/10", "tile/entries/001.p/10", "tile/entries/002.p/88"]).await;
    let tile = TileId { level: 0, index: 1, width: 10 };
    let bytes = log.tile(tile).await.unwrap();
    assert_eq!((bytes.len(), &bytes[..32]), (320, &tree.subtree(0, 256).unwrap().0[..]));
    let entries = log.page(&ResourcePath::Entries(PageId { index: 1, width: 10 })).await.unwrap();
    assert_eq!((entries.len(), &entries[9][..]), (10, &b"entry 265"[..]));
    // The path itself is not made up, and where there is no full page either it is missing.
    assert_eq!(log.resource(&ResourcePath::Tile(tile)).await.unwrap(), None);
    assert!(log.page(&ResourcePath::Entries(PageId { index: 2, width: 88 })).await.unwrap_err().is_missing());
    assert_eq!(&log.checkpoint().await.unwrap()[..], b"a checkpoint");
}

#[tokio::test]
async fn a_resource_that_has_not_its_own_size_is_refused() {
    let url = serve(|uri: Uri| async move {
        match uri.path() {
            "/tile/0/000.p/2" => vec![0u8; 63].into_response(),
            "/tile/0/000.p/3" => vec![0u8; 97].into_response(),
            "/tile/entries/000.p/2" => b"\x00\x01a".to_vec().into_response(),
            "/tile/entries/000.p/1" => b"\x00\x05abc".to_vec().into_response(),
            _ => vec![b'n'; 1 << 21].into_response(),
        }
    })
    .await;
    let log = LogClient::new(url.parse().unwrap(), http());
    let tile = |width| log.tile(TileId { level: 0, index: 0, width });
    assert!(matches!(tile(2).await.unwrap_err().fault, Fault::BadBody(_)));
    assert!(matches!(tile(3).await.unwrap_err().fault, Fault::TooLarge(96)));
    for width in [1, 2] {
        let page = ResourcePath::Entries(PageId { index: 0, width });
        assert!(matches!(log.page(&page).await.unwrap_err().fault, Fault::BadBody(_)));
    }
    assert!(matches!(log.checkpoint().await.unwrap_err().fault, Fault::TooLarge(_)));
}

#[tokio::test]
async fn a_witness_answers_a_nudge_with_its_lines_and_has_a_journal() {
    let witness = SigningKey::from_seed(KeyName::new("w.example").unwrap(), KeyKind::CosignatureV1, [8; 32]);
    let text = "log.example/a\n0\n47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=\n";
    let line = note::cosign(text, &witness, 1_790_000_000).unwrap().line;
    let origin = Origin::new("log.example/a").unwrap();
    let hash = client::witness::origin_hash(&origin);
    let answers: HashMap<String, String> = [
        (format!("/w/nudge/{hash}"), format!("{line}\n")),
        (format!("/w/{hash}/checkpoint"), "cosigned".into()),
        ("/w/journal/checkpoint".into(), "journal head".into()),
    ]
    .into();
    let url = serve(move |uri: Uri| {
        let answer = answers.get(uri.path()).cloned();
        async move { answer.map_or_else(|| StatusCode::NOT_FOUND.into_response(), IntoResponse::into_response) }
    })
    .await;
    let client = WitnessClient::new(format!("{url}/w").parse::<BaseUrl>().unwrap(), http());
    let lines = client.nudge(&origin).await.unwrap();
    assert_eq!(lines.len(), 1);
    lines[0].verify(text, &witness.verifier()).unwrap();
    assert_eq!(client.checkpoint(&origin).await.unwrap().as_deref(), Some(&b"cosigned"[..]));
    assert_eq!(client.checkpoint(&Origin::new("log.example/b").unwrap()).await.unwrap(), None);
    assert_eq!(&client.journal().checkpoint().await.unwrap()[..], b"journal head");
}

#[tokio::test]
async fn answers_of_another_shape_or_about_something_else_are_refused() {
    let issuer = |name: &str| {
        format!(r#"{{"name":"{name}","vkey":"v","next_seq":1,"head":"{}","closed":false}}"#, "0".repeat(64))
    };
    let answers: HashMap<&str, String> = [
        ("/v1/issuers", format!("{{\"issuers\":[{},{}]}}", issuer("a"), issuer("b"))),
        ("/v1/issuers/right", issuer("right")),
        ("/v1/issuers/wrong", issuer("right")),
        ("/v1/evidence/0", "{\"kind\":\"log-fork\"}\n{\"kind\":\"issuer-fork\"}\n".into()),
        ("/v1/evidence/1", String::new()),
        ("/v1/evidence/2", "{\"kind\":\"cut".into()),
        ("/v1/receipts", "{}".into()),
        ("/v1/receipts/batch", "{\"status\":\"skipped\",\"code\":\"gap\",\"detail\":\"d\"}\n".into()),
    ]
    .into();
    let url = serve(move |uri: Uri| {
        let answer = answers.get(uri.path()).cloned();
        async move { answer.map_or_else(|| StatusCode::NOT_FOUND.into_response(), IntoResponse::into_response) }
    })
    .await;
    let log = LogClient::new(url.parse().unwrap(), http());
    let name = |text| IssuerName::new(text).unwrap();
    assert_eq!(log.issuers().await.unwrap().len(), 2);
    assert_eq!(log.issuer(&name("right")).await.unwrap().unwrap().next_seq, 1);
    assert!(log.issuer(&name("nobody")).await.unwrap_err().is_missing(), "no log says 404 without its code");
    assert!(matches!(log.issuer(&name("wrong")).await.unwrap_err().fault, Fault::BadBody(_)));
    assert_eq!(log.evidence_page(0).await.unwrap(), [r#"{"kind":"log-fork"}"#, r#"{"kind":"issuer-fork"}"#]);
    assert!(log.evidence_page(1).await.unwrap().is_empty() && log.evidence_page(9).await.unwrap().is_empty());
    assert!(matches!(log.evidence_page(2).await.unwrap_err().fault, Fault::BadBody(_)));
    assert!(matches!(log.submit(b"entry", Wait::Integrated).await.unwrap_err().fault, Fault::BadBody(_)));
    assert_eq!(log.submit_batch(&[b"entry"]).await.unwrap().len(), 1);
    let too_few = log.submit_batch(&[b"entry", b"other"]).await.unwrap_err();
    assert!(too_few.to_string().contains("1 verdict came for 2 receipts"), "{too_few}");
}
