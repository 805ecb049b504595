//! A log whose store fails.
#![allow(clippy::unwrap_used, clippy::panic)]
use super::*;
use crate::memory_ledger::MemoryLedger;
use note::{KeyKind, KeyName, SigningKey};
use receipt::{Chain, IssuerName, UnixMillis};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const NOW: UnixMillis = UnixMillis(1_800_000_000_000);

async fn ask(address: SocketAddr, request: String) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer
}

fn submission(entry: &str) -> String {
    format!(
        "POST /v1/receipts HTTP/1.1\r\nhost: t\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{entry}",
        entry.len()
    )
}

#[tokio::test]
async fn a_log_whose_store_fails_answers_no_more_ok_and_ends_with_a_sentence() {
    let dir = tempfile::tempdir().unwrap();
    let issuers = dir.path().join("issuers");
    let gate = SigningKey::from_seed(KeyName::new("gate").unwrap(), KeyKind::Ed25519, [1; 32]);
    std::fs::write(&issuers, format!("{}\n", gate.verifier())).unwrap();
    let config_file = dir.path().join("config.toml");
    std::fs::write(&config_file, "listen = \"127.0.0.1:0\"").unwrap();
    let config = crate::config::load(&config_file, service::config::Flags::new()).unwrap().values;
    let ledger = MemoryLedger::new();
    // The empty head and one receipt go through; what comes then does not.
    ledger.fail_after(3);
    let key = SigningKey::from_seed(KeyName::new("log.example").unwrap(), KeyKind::Ed25519, [5; 32]).verifier();
    let setup = Setup {
        ledger,
        known: Vec::new(),
        key,
        issuers,
        witnesses: Vec::new(),
        quorum: Quorum::every(0),
        config,
        clock: Clock::from_fn(|| NOW),
    };
    let (listener, address) = bind("127.0.0.1:0").await.unwrap();
    let (_reload, reloaded) = watch::channel(0);
    let running = tokio::spawn(run(setup, listener, std::future::pending(), reloaded));

    let mut chain = Chain::new(IssuerName::new("gate").unwrap());
    let open = chain.open(NOW, &gate).unwrap().to_string();
    let next = chain.append(r#"{"type":"heartbeat"}"#, NOW, &gate).unwrap().to_string();
    assert!(ask(address, submission(&open)).await.starts_with("HTTP/1.1 200"));

    // A connection from before the failure is still answered while the listener drains.
    let mut kept = TcpStream::connect(address).await.unwrap();
    kept.write_all(b"GET /readyz HTTP/1.1\r\nhost: t\r\n\r\nGET /ready").await.unwrap();
    let refused = ask(address, submission(&next)).await;
    assert!(refused.starts_with("HTTP/1.1 503") && refused.contains("\"code\":\"stopping\""), "{refused}");
    kept.write_all(b"z HTTP/1.1\r\nhost: t\r\nconnection: close\r\n\r\n").await.unwrap();
    let mut answers = String::new();
    kept.read_to_string(&mut answers).await.unwrap();
    let statuses: Vec<&str> = answers.lines().filter_map(|line| line.strip_prefix("HTTP/1.1 ")).collect();
    assert!(statuses[0].starts_with("200"), "{answers}");
    // Cut or told so, but never told that the log is ready.
    assert!(statuses.get(1).is_none_or(|status| status.starts_with("503")), "{answers}");

    let ended = tokio::time::timeout(Duration::from_secs(60), running).await.expect("it ends by itself").unwrap();
    let sentence = ended.unwrap_err().to_string();
    assert!(sentence.contains("the store failed") && sentence.contains("no space left on device"), "{sentence}");
}
