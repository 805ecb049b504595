//! The log is killed while gates submit. Nothing it acknowledged may be missing, and no two heads may conflict.
#![allow(clippy::unwrap_used, clippy::panic)]

use client::{BaseUrl, BoundedClient, LogClient, Timeouts, Wait};
use merkle::{PageId, ResourcePath, TILE_WIDTH, prove_consistency};
use note::{KeyKind, KeyName, SignedCheckpoint, SigningKey, VerifierKey};
use receipt::{Chain, IssuerName, ReceiptId, UnixMillis};
use std::path::PathBuf;
use std::time::{Duration, SystemTime};
use testkit::stage::{Setup, Stage};

/// Kills. Each comes at another moment of a commit; a long test with many more belongs to the store.
const ROUNDS: u64 = 5;
const GATES: u8 = 4;

fn now() -> UnixMillis {
    UnixMillis(SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_millis() as u64)
}

fn gate_key(gate: u8) -> SigningKey {
    let name = KeyName::new(&format!("gate.example/killed-{gate}")).unwrap();
    SigningKey::from_seed(name, KeyKind::Ed25519, [gate; 32])
}

/// A gate that submits until the log no longer answers, and goes on where the log says it is.
async fn submit_until_the_log_dies(client: LogClient, key: SigningKey) -> Vec<(ReceiptId, u64)> {
    let name = IssuerName(key.name().clone());
    let mut chain = Chain::new(name.clone());
    if let Some(state) = client.issuer(&name).await.unwrap().filter(|state| state.next_seq > 0) {
        let seq = receipt::SeqNo(state.next_seq - 1);
        chain = Chain::after(&client.receipt_at(&name, seq).await.unwrap().unwrap().receipt).unwrap();
    }
    let mut acknowledged = Vec::new();
    loop {
        let receipt = match chain.next_seq().0 {
            0 => chain.open(now(), &key).unwrap(),
            seq => chain.append(format!("{{\"type\":\"heartbeat\",\"n\":{seq}}}"), now(), &key).unwrap(),
        };
        match client.submit(receipt.bytes(), Wait::Integrated).await {
            Ok(inclusion) => {
                let proof = inclusion.proof.check_inclusion(receipt.bytes());
                assert!(proof.is_ok(), "an acknowledged receipt without a proof: {proof:?}");
                acknowledged.push((receipt.id(), inclusion.index.0));
            }
            Err(_) => return acknowledged,
        }
    }
}

/// All heads the log lists are signed by it, and each is a prefix of the newest.
async fn assert_one_history(client: &LogClient, log: &VerifierKey) -> u64 {
    let newest = client.checkpoint().await.unwrap();
    let newest = SignedCheckpoint::parse(&newest).unwrap().verify(log).unwrap();
    let size = newest.checkpoint().size;
    let mut tree = merkle::MemoryTree::new();
    for page in PageId::all(size.0) {
        for entry in client.page(&ResourcePath::Entries(page)).await.unwrap() {
            tree.push(merkle::leaf_hash(&entry));
        }
    }
    assert_eq!(tree.root(), newest.checkpoint().root);
    let mut heads = 0;
    for index in 0.. {
        let page = PageId { index, width: TILE_WIDTH };
        let full = client.resource(&ResourcePath::Heads(page)).await.unwrap();
        let widest = match full {
            Some(_) => Some(page),
            None => {
                let mut width = TILE_WIDTH - 1;
                while width > 0
                    && client.resource(&ResourcePath::Heads(PageId { index, width })).await.unwrap().is_none()
                {
                    width -= 1;
                }
                (width > 0).then_some(PageId { index, width })
            }
        };
        let Some(widest) = widest else { break };
        for head in client.page(&ResourcePath::Heads(widest)).await.unwrap() {
            let head = SignedCheckpoint::parse(&head).unwrap().verify(log).unwrap();
            let (old, root) = (head.checkpoint().size, head.checkpoint().root);
            prove_consistency(&tree, old, size).unwrap().verify(old, &root, size, &tree.root()).unwrap();
            heads += 1;
        }
        if widest.width < TILE_WIDTH {
            break;
        }
    }
    heads
}

#[test]
fn a_log_killed_under_load_keeps_every_receipt_it_acknowledged_in_one_history() {
    let dir = tempfile::tempdir().unwrap();
    let executable = PathBuf::from(env!("CARGO_BIN_EXE_counterfoil-under-test"));
    let vkeys: Vec<String> = (1..=GATES).map(|gate| gate_key(gate).verifier().to_string()).collect();
    let setup = Setup { dir: dir.path(), executable: &executable, port: None, witnesses: 0, more_issuers: &vkeys };
    let mut stage = Stage::build(&setup).unwrap();
    let log: VerifierKey = stage.log_vkey().parse().unwrap();
    let base: BaseUrl = stage.log_url().parse().unwrap();
    let client = LogClient::new(base, BoundedClient::new(Timeouts::default()).unwrap());
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let mut acknowledged = Vec::new();
    for round in 0..ROUNDS {
        stage.start_log().unwrap();
        stage.wait_until_ready().unwrap();
        let gates: Vec<_> =
            (1..=GATES).map(|gate| runtime.spawn(submit_until_the_log_dies(client.clone(), gate_key(gate)))).collect();
        std::thread::sleep(Duration::from_millis(150 + 37 * round));
        stage.stop_log();
        for gate in gates {
            acknowledged.extend(runtime.block_on(gate).unwrap());
        }
    }
    assert!(acknowledged.len() > 20, "only {} receipts went through: this shows nothing", acknowledged.len());
    stage.start_log().unwrap();
    stage.wait_until_ready().unwrap();
    runtime.block_on(async {
        for (id, index) in &acknowledged {
            let found = client.receipt_by_id(id).await.unwrap().unwrap_or_else(|| panic!("receipt {id} is gone"));
            assert_eq!(found.inclusion.index.0, *index);
        }
        assert!(assert_one_history(&client, &log).await >= ROUNDS);
    });
}
