//! What the clients send, seen from the server's end of the connection.

use client::{BoundedClient, LogClient, Pushed, Timeouts, WitnessClient};
use merkle::{ConsistencyProof, EMPTY_ROOT, TreeSize};
use note::{Checkpoint, KeyKind, KeyName, Origin, SigningKey, cosign, sign_checkpoint};
use std::sync::{Arc, Mutex};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// The heads of the requests, one list a connection.
type Seen = Arc<Mutex<Vec<Vec<String>>>>;

/// Answers every request with these bytes, and keeps each connection open.
async fn listen(answer: String) -> (String, Seen) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/below", listener.local_addr().unwrap());
    let seen = Seen::default();
    let heard = Arc::clone(&seen);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let number = heard.lock().unwrap().len();
            heard.lock().unwrap().push(Vec::new());
            tokio::spawn(attend(stream, answer.clone(), Arc::clone(&heard), number));
        }
    });
    (url, seen)
}

async fn attend(mut stream: TcpStream, answer: String, heard: Seen, number: usize) {
    let mut bytes = Vec::new();
    loop {
        if let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            let head = String::from_utf8(bytes[..end].to_vec()).unwrap().to_ascii_lowercase();
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
            let length: usize = length.map_or(0, |length| length.parse().unwrap());
            if bytes.len() >= end + 4 + length {
                bytes.drain(..end + 4 + length);
                heard.lock().unwrap()[number].push(head);
                let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", answer.len());
                stream.write_all(format!("{head}{answer}").as_bytes()).await.unwrap();
                continue;
            }
        }
        if stream.read_buf(&mut bytes).await.unwrap_or(0) == 0 {
            return;
        }
    }
}

#[tokio::test]
async fn pushes_to_a_witness_go_by_post_below_its_prefix_over_one_connection() {
    let log = SigningKey::from_seed(KeyName::new("log.example").unwrap(), KeyKind::Ed25519, [1; 32]);
    let witness = SigningKey::from_seed(KeyName::new("w.example").unwrap(), KeyKind::CosignatureV1, [2; 32]);
    let empty = Checkpoint::new(Origin::new("log.example").unwrap(), TreeSize(0), EMPTY_ROOT);
    let head = sign_checkpoint(&empty, &log).unwrap();
    let line = cosign(head.note().text(), &witness, 5).unwrap().line;
    let (url, seen) = listen(format!("{line}\n")).await;
    let client = WitnessClient::new(url.parse().unwrap(), BoundedClient::new(Timeouts::default()).unwrap());
    for _ in 0..5 {
        let proof = ConsistencyProof::default();
        let pushed = client.add_checkpoint(&[witness.verifier()], TreeSize(0), &proof, &head).await.unwrap();
        assert!(matches!(pushed, Pushed::Taken { lines, dropped: 0 } if lines.len() == 1));
    }
    let seen = seen.lock().unwrap().clone();
    assert_eq!(seen.iter().map(Vec::len).collect::<Vec<_>>(), [5], "requests on each connection");
    assert!(seen[0].iter().all(|head| head.starts_with("post /below/add-checkpoint http/1.1\r\n")), "{seen:?}");
}

#[tokio::test]
async fn static_resources_are_asked_for_compressed_and_over_one_connection() {
    let (url, seen) = listen("a checkpoint".to_owned()).await;
    let client = LogClient::new(url.parse().unwrap(), BoundedClient::new(Timeouts::default()).unwrap());
    for _ in 0..3 {
        assert_eq!(client.checkpoint().await.unwrap(), "a checkpoint", "not compressed, and taken too");
    }
    let seen = seen.lock().unwrap().clone();
    assert_eq!(seen.iter().map(Vec::len).collect::<Vec<_>>(), [3], "requests on each connection");
    for head in &seen[0] {
        assert!(head.starts_with("get /below/checkpoint http/1.1\r\n"), "{head}");
        let accepted = head.lines().find_map(|line| line.strip_prefix("accept-encoding: ")).unwrap();
        // "identity" is accepted wherever it is not excluded (RFC 9110, section 12.5.3).
        assert!(accepted.split(',').any(|encoding| encoding.trim() == "gzip"), "{accepted}");
        assert!(!accepted.contains("q=0"), "{accepted}");
    }
}
