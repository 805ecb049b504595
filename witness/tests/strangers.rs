//! What strangers, and logs that mean harm, can do with heads that a log once signed: nothing that lasts.

use crate::stage;
use merkle::{MemoryTree, TreeSize, prove_consistency};
use note::{Checkpoint, SignedCheckpoint, Verified, sign_checkpoint};
use stage::{FakeLog, House, Running};
use std::sync::Arc;

fn call(old: u64, head: &[u8], tree: &MemoryTree) -> Vec<u8> {
    let mut body = format!("old {old}\n");
    if old > 0 && TreeSize(old) < tree.size() {
        let proof = prove_consistency(tree, TreeSize(old), tree.size()).unwrap();
        proof.hashes().iter().for_each(|hash| body.push_str(&format!("{}\n", hash.to_base64())));
    }
    body.push('\n');
    [body.as_bytes(), head].concat()
}

/// The head with the log's own line so many times.
fn repeated(head: &SignedCheckpoint<Verified>, times: usize) -> Vec<u8> {
    let line = format!("{}\n", head.note().signatures()[0].line());
    format!("{}\n{}", head.note().text(), line.repeat(times)).into_bytes()
}

async fn pushing() -> (Arc<FakeLog>, House, Running) {
    let (log, house) = (FakeLog::start("log.example/agents", 0).await, House::new());
    house.configure_pushing(&log);
    let witness = house.start().await;
    (log, house, witness)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_head_that_carries_its_logs_line_64_times_is_shown_with_the_witnesss_line() {
    // A note has room for 64 lines: with as many of the log's own there was none for ours, and peers saw no cosignature.
    let (log, _house, witness) = pushing().await;
    let (head, tree) = log.history(10, 0, 0);
    assert_eq!(witness.push(call(0, &repeated(&head, 64), &tree)).await.0, 200);
    assert_eq!(witness.cosigned(&log).await.unwrap().0.size, TreeSize(10), "two lines, one of them ours");
    for times in [1, 2, 63] {
        assert_eq!(witness.push(call(10, &repeated(&head, times), &tree)).await.0, 200);
    }
    let heads = witness.journal().await.into_iter().filter(|line| line.checkpoint.is_some()).count();
    assert_eq!(heads, 1, "one head, however often its line is repeated");
    witness.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pushed_head_that_is_too_long_for_the_journal_is_refused_and_the_witness_goes_on() {
    let (log, _house, witness) = pushing().await;
    let (head, tree) = log.history(10, 0, 0);
    for bytes in [25_000, 100_000] {
        let mut long = Checkpoint::clone(head.checkpoint());
        long.extensions = vec!["x".repeat(bytes)];
        let long = sign_checkpoint(&long, &log.key).unwrap();
        let (status, body) = witness.push(call(0, long.bytes(), &tree)).await;
        assert_eq!(status, 413, "{body}");
    }
    assert_eq!(witness.push(call(0, head.bytes(), &tree)).await.0, 200);
    witness.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_stranger_can_send_again_and_again_is_not_written_down() {
    let (log, _house, witness) = pushing().await;
    let (head, tree) = log.history(10, 0, 0);
    assert_eq!(witness.push(call(0, head.bytes(), &tree)).await.0, 200);
    let before = witness.journal().await.len();
    let newer: Vec<_> = (11..40).map(|size| log.history(size, 0, 0).0).collect();
    for head in newer.iter().cycle().take(90) {
        // Heads that the log signed, with no proof, or said to have grown out of something else.
        assert_eq!(witness.push(call(10, head.bytes(), &MemoryTree::new())).await.0, 422);
        assert_eq!(witness.push(call(9, head.bytes(), &MemoryTree::new())).await.0, 409);
    }
    assert_eq!(witness.journal().await.len(), before);
    witness.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn evidence_that_was_acknowledged_is_not_new_because_a_line_is_repeated() {
    let (log, house, witness) = pushing().await;
    let ((held, tree), (fork, other)) = (log.history(20, 0, 0), log.history(20, 10, 1));
    assert_eq!(witness.push(call(0, held.bytes(), &tree)).await.0, 200);
    assert_eq!(witness.push(call(20, fork.bytes(), &other)).await.0, 422);
    witness.stop().await;
    let config = house.home().join("config.toml");
    let text = std::fs::read_to_string(&config).unwrap();
    std::fs::write(&config, format!("{text}acknowledged_evidence = [0]\n")).unwrap();
    let witness = house.start().await;
    for times in [1, 2, 3, 64] {
        assert_eq!(witness.push(call(20, &repeated(&fork, times), &other)).await.0, 422);
        assert_eq!(witness.push(call(20, held.bytes(), &tree)).await.0, 200, "{times}");
    }
    assert_eq!(witness.get("/evidence/0").await.unwrap().lines().count(), 1);
    witness.stop().await;
}
