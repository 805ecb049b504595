//! A log that no longer honours what it proved is convicted by what it signed; one that merely fails is not accused.

use crate::strict_log;
use client::gate::{Decision, Gate, GateConfig, Sending};
use client::outbox::{GateDescription, Outbox, OutboxView};
use client::sender::{Honour, Honoured};
use client::{Patience, SendError, Sender};
use cosign::LogFork;
use merkle::MemoryTree;
use note::{KeyKind, KeyName, SigningKey};
use receipt::UnixMillis;
use serde_json::Value;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use strict_log::{StrictLog, Tiles, log_key};

const NOW: UnixMillis = UnixMillis(1_790_000_000_000);

fn key() -> SigningKey {
    SigningKey::from_seed(KeyName::new("gate.example/support-1").unwrap(), KeyKind::Ed25519, [1; 32])
}

struct Stage {
    dir: tempfile::TempDir,
    log: StrictLog,
    outbox: Outbox,
    sender: Sender,
    honour: Honour,
}

impl Stage {
    async fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let log = StrictLog::start(&[&key()]).await;
        let outbox = Outbox::open(dir.path(), key(), GateDescription::default()).unwrap();
        let sender =
            Sender::new(outbox.clone(), log.client(), log_key().verifier(), Patience::default(), Arc::new(|| NOW));
        let honour = Honour::new(outbox.clone(), log.client(), log_key().verifier(), Arc::new(|| NOW));
        Self { dir, log, outbox, sender: sender.unwrap(), honour }
    }

    async fn submit(&mut self, count: usize) {
        self.outbox.append_all(&vec![r#"{"type":"note"}"#; count], NOW).unwrap();
        self.sender.flush().await.unwrap();
    }

    fn alarms(&self) -> Vec<Value> {
        alarms(self.dir.path())
    }
}

fn alarms(dir: &Path) -> Vec<Value> {
    OutboxView::open(dir).unwrap().alarms().unwrap().iter().map(|alarm| serde_json::from_str(alarm).unwrap()).collect()
}

/// A tree that differs from the log's in its leaf at `place`, and has so many leaves.
fn other_tree(log: &StrictLog, place: u64, leaves: u64) -> MemoryTree {
    let state = log.lock();
    let mut tree = MemoryTree::new();
    for index in 0..leaves {
        let is_same = index != place && index < state.tree.size().0;
        let held = is_same.then(|| merkle::HashSource::subtree(&state.tree, 0, index)).flatten();
        tree.push(held.unwrap_or_else(|| merkle::leaf_hash(&index.to_be_bytes())));
    }
    tree
}

/// The alarm holds both notes, and evidence that convicts the log and nobody else.
fn assert_convicted(alarms: &[Value]) {
    let [alarm] = alarms else { panic!("{alarms:?}") };
    assert_eq!(alarm["what"], "log-fork");
    let evidence: LogFork = serde_json::from_value(alarm["evidence"].clone()).unwrap();
    assert_eq!(evidence.check().unwrap().key, log_key().verifier());
    assert!(alarm["held"].is_string() && alarm["offered"].is_string());
}

#[tokio::test]
async fn a_log_that_only_grows_honours_its_proofs_also_where_its_head_lags() {
    let mut stage = Stage::new().await;
    assert_eq!(stage.honour.check().await.unwrap(), Honoured::NothingKept);
    stage.submit(300).await;
    assert_eq!(stage.honour.check().await.unwrap(), Honoured::Yes);
    stage.log.lock().tree.push(merkle::leaf_hash(b"somebody else's"));
    assert_eq!(stage.honour.check().await.unwrap(), Honoured::Yes);
    stage.submit(300).await;
    let earlier = other_tree(&stage.log, u64::MAX, 290);
    stage.log.lock().shown = Some(earlier);
    let lagging = stage.honour.check().await.unwrap();
    assert!(matches!(lagging, Honoured::NotShown(_)), "the tiles of the larger head are not served: {lagging:?}");
    assert_eq!(stage.alarms(), Vec::<Value>::new());
}

#[tokio::test]
async fn a_log_whose_head_implies_another_root_at_a_kept_size_is_convicted() {
    for leaves in [301, 302, 512, 700, 260] {
        let mut stage = Stage::new().await;
        stage.submit(300).await;
        let other = other_tree(&stage.log, 17, leaves);
        stage.log.lock().shown = Some(other);
        let found = stage.honour.check().await;
        if leaves == 260 {
            // Its tiles cannot be had for the head that was kept: that is no proof of anything.
            assert!(matches!(found, Ok(Honoured::NotShown(_))), "{found:?}");
            assert_eq!(stage.alarms(), Vec::<Value>::new());
            continue;
        }
        let error = found.unwrap_err();
        assert!(matches!(error, SendError::LogFork { kept: 301, present, .. } if present == leaves), "{error}");
        assert!(error.is_alarm() && error.code() == "log-fork");
        assert_convicted(&stage.alarms());
    }
}

#[tokio::test]
async fn a_log_that_goes_on_from_another_history_is_convicted_by_the_head_it_was_seen_with() {
    let mut stage = Stage::new().await;
    stage.submit(300).await;
    assert_eq!(stage.honour.check().await.unwrap(), Honoured::Yes);
    // From now on all its proofs are under the other history, and every one of them verifies.
    let other = other_tree(&stage.log, 17, 301);
    stage.log.lock().tree = other;
    stage.submit(20).await;
    let error = stage.honour.check().await.unwrap_err();
    assert!(matches!(error, SendError::LogFork { kept: 301, present: 321, .. }), "{error}");
    assert_convicted(&stage.alarms());
}

#[tokio::test]
async fn missing_tiles_wrong_tiles_and_a_strangers_head_accuse_nobody() {
    let mut stage = Stage::new().await;
    stage.submit(300).await;
    let other = other_tree(&stage.log, 17, 700);
    for tiles in [Tiles::Missing, Tiles::Wrong] {
        (stage.log.lock().shown, stage.log.lock().tiles) = (Some(other.clone()), tiles);
        assert!(matches!(stage.honour.check().await.unwrap(), Honoured::NotShown(_)), "{tiles:?}");
    }
    stage.log.lock().tiles = Tiles::Right;
    stage.log.lock().head_key = SigningKey::from_seed(log_key().name().clone(), KeyKind::Ed25519, [66; 32]);
    assert!(matches!(stage.honour.check().await.unwrap(), Honoured::NotShown(_)));
    assert_eq!(stage.alarms(), Vec::<Value>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gate_whose_log_forked_sends_nothing_more_keeps_the_evidence_and_goes_on_deciding() {
    let dir = tempfile::tempdir().unwrap();
    let log = StrictLog::start(&[&key()]).await;
    let (path, url) = (dir.path().to_owned(), log.url.clone());
    let open = move || Gate::open(GateConfig::new(&path, key(), url.parse().unwrap(), log_key().verifier())).unwrap();
    let other = log.clone();
    tokio::task::spawn_blocking(move || {
        let gate = open();
        gate.deny(Decision::new(true)).unwrap();
        gate.flush(Duration::from_secs(60)).unwrap();
        drop(gate);
        let tree = other_tree(&other, 1, 9);
        other.lock().shown = Some(tree);
        let gate = open();
        let code = loop {
            match gate.status().unwrap().sender {
                Sending::Stopped { code, .. } => break code,
                _ => std::thread::sleep(Duration::from_millis(5)),
            }
        };
        assert_eq!(code, "log-fork");
        gate.deny(Decision::new(true)).unwrap();
        assert_eq!(gate.flush(Duration::from_secs(60)).unwrap_err().code(), "log-fork");
        let metrics = gate.metrics();
        for line in ["sender_failing", "alarms_total", "queued"] {
            let line = format!("counterfoil_gate_{line}{{issuer=\"gate.example/support-1\"}} 1\n");
            assert!(metrics.contains(&line), "{line}{metrics}");
        }
    })
    .await
    .unwrap();
    assert_convicted(&alarms(dir.path()));
    assert_eq!(log.bodies(&key()).len(), 2);
}
