//! Many receipts at a time, and many submitters at a time.

use crate::stand;
use receipt::Receipt;
use serde_json::Value;
use stand::{Gate, NOW, Place, index_of, verify};
use std::collections::BTreeMap;
use std::sync::Arc;

fn statuses(verdicts: &[Value]) -> Vec<&str> {
    verdicts.iter().map(|verdict| verdict["status"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn every_receipt_of_a_batch_gets_its_verdict_in_order_and_its_proof() {
    let mut gate = Gate::new("gate.example/a");
    let place = Place::new(&[&gate]);
    let log = place.run().await;
    let receipts: Vec<Receipt> = std::iter::once(gate.open()).chain((1..700).map(|_| gate.next())).collect();
    let verdicts = log.batch(&receipts.iter().map(Receipt::bytes).collect::<Vec<_>>()).await;
    assert_eq!(verdicts.len(), receipts.len());
    for (seq, (verdict, receipt)) in verdicts.iter().zip(&receipts).enumerate() {
        assert_eq!(
            (verdict["status"].as_str(), verdict["index"].as_u64(), verdict["seq"].as_u64()),
            (Some("ok"), Some(seq as u64), Some(seq as u64))
        );
        assert_eq!(
            (verdict["issuer"].as_str(), verdict["id"].as_str()),
            (Some("gate.example/a"), Some(receipt.id().to_string().as_str()))
        );
        verify(receipt, verdict["proof"].as_str().unwrap());
    }
    let again = log.batch(&receipts.iter().map(Receipt::bytes).take(3).collect::<Vec<_>>()).await;
    assert_eq!(statuses(&again), ["duplicate"; 3]);
    for (verdict, receipt) in again.iter().zip(&receipts) {
        verify(receipt, verdict["proof"].as_str().unwrap());
    }
}

#[tokio::test]
async fn a_refusal_stops_its_issuer_in_the_batch_and_nobody_else() {
    let (mut a, mut b) = (Gate::new("gate.example/a"), Gate::new("gate.example/b"));
    let mut stranger = Gate::new("gate.example/stranger");
    let place = Place::new(&[&a, &b]);
    let log = place.run().await;
    let (a0, a1, a2, a3) = (a.open(), a.next(), a.next(), a.next());
    let (b0, b1) = (b.open(), b.next());
    let (s0, s1) = (stranger.open(), stranger.next());
    let batch =
        [a0.bytes(), b"nonsense", s0.bytes(), a2.bytes(), b0.bytes(), a1.bytes(), s1.bytes(), b1.bytes(), a3.bytes()];
    let verdicts = log.batch(&batch).await;
    assert_eq!(
        statuses(&verdicts),
        ["ok", "refused", "refused", "refused", "ok", "skipped", "skipped", "ok", "skipped"]
    );
    assert_eq!((verdicts[3]["code"].as_str(), verdicts[3]["expected_seq"].as_u64()), (Some("gap"), Some(1)));
    assert_eq!(verdicts[3]["expected_prev"], a0.id().to_string());
    assert_eq!(verdicts[1]["code"], "malformed");
    assert_eq!(
        (verdicts[2]["code"].as_str(), verdicts[6]["code"].as_str()),
        (Some("unknown-issuer"), Some("unknown-issuer"))
    );
    assert!(verdicts[5]["detail"].as_str().is_some_and(|detail| detail.contains("gap")));
    let rest = log.batch(&[a1.bytes(), a2.bytes(), a3.bytes()]).await;
    assert_eq!(statuses(&rest), ["ok"; 3]);
}

#[tokio::test]
async fn receipts_behind_a_rotation_are_taken_in_the_same_batch() {
    let mut gate = Gate::new("gate.example/a");
    let place = Place::new(&[&gate]);
    let log = place.run().await;
    let open = gate.open();
    let new = stand::key("gate.example/a", note::KeyKind::Ed25519, 77);
    let rotate = gate.chain.rotate(receipt::UnixMillis(NOW), &gate.key, &new).unwrap();
    gate.key = Arc::new(new);
    let next = gate.next();
    let forged = Gate::new("gate.example/a").aside(r#"{"type":"heartbeat"}"#, NOW);
    let verdicts = log.batch(&[open.bytes(), rotate.bytes(), next.bytes(), forged.bytes()]).await;
    assert_eq!(statuses(&verdicts), ["ok", "ok", "ok", "refused"]);
}

#[tokio::test]
async fn what_is_no_batch_is_refused_as_a_whole() {
    let place = Place::new(&[]);
    let log = place.run().await;
    let answer = log.post("/v1/receipts/batch", &[], &[0, 5, b'x']).await;
    assert_eq!((answer.status, answer.json()["code"].as_str().unwrap().to_owned()), (400, "malformed".to_owned()));
    let answer = log.post("/v1/receipts/batch", &[], &vec![0; 8 * 1024 * 1024]).await;
    assert_eq!((answer.status, answer.json()["code"].as_str().unwrap().to_owned()), (413, "too-many".to_owned()));
    let answer = log.post("/v1/receipts/batch", &[], &vec![0; 8 * 1024 * 1024 + 1]).await;
    assert_eq!((answer.status, answer.json()["code"].as_str().unwrap().to_owned()), (413, "too-large".to_owned()));
    assert_eq!(log.batch(&[]).await.len(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sixteen_submitters_of_one_issuer_get_one_verdict_each_and_the_stream_is_dense() {
    const SUBMITTERS: usize = 16;
    const RECEIPTS: u64 = 120;
    let mut gate = Gate::new("gate.example/a");
    let place = Place::new(&[&gate]);
    let log = Arc::new(place.run().await);
    let receipts: Arc<Vec<Receipt>> =
        Arc::new((0..RECEIPTS).map(|seq| if seq == 0 { gate.open() } else { gate.next() }).collect());
    // Each submitter sends all receipts it has not seen in the log yet, from wherever the log says to go on.
    let mut tasks = Vec::new();
    for _ in 0..SUBMITTERS {
        let (log, receipts) = (Arc::clone(&log), Arc::clone(&receipts));
        tasks.push(tokio::spawn(async move {
            let mut verdicts: BTreeMap<u16, usize> = BTreeMap::new();
            let mut seq = 0;
            while seq < RECEIPTS {
                let answer = log.submit(&receipts[seq as usize]).await;
                *verdicts.entry(answer.status).or_default() += 1;
                match answer.status {
                    200 => {
                        verify(&receipts[seq as usize], &answer.text());
                        assert_eq!(
                            index_of(&answer.text()).0,
                            seq,
                            "the only issuer's receipts are the log's, in order"
                        );
                        seq += 1;
                    }
                    409 => seq = answer.json()["expected_seq"].as_u64().unwrap(),
                    other => panic!("{other}: {}", answer.text()),
                }
            }
            verdicts
        }));
    }
    for task in tasks {
        task.await.unwrap();
    }
    let issuer = log.get("/v1/issuers/gate.example%2Fa").await.json();
    assert_eq!(issuer["next_seq"], RECEIPTS);
    assert_eq!(issuer["last_index"], RECEIPTS - 1);
    assert_eq!(issuer["forks"], 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_same_receipts_sent_by_many_at_once_are_in_the_log_once() {
    let mut gates: Vec<Gate> = (0..8).map(|number| Gate::new(&format!("gate.example/{number}"))).collect();
    let place = Place::new(&gates.iter().collect::<Vec<_>>());
    let log = Arc::new(place.run().await);
    let batches: Vec<Vec<Receipt>> = gates
        .iter_mut()
        .map(|gate| std::iter::once(gate.open()).chain((0..49).map(|_| gate.next())).collect())
        .collect();
    let batches = Arc::new(batches);
    let mut tasks = Vec::new();
    for sender in 0..16 {
        let (log, batches) = (Arc::clone(&log), Arc::clone(&batches));
        tasks.push(tokio::spawn(async move {
            let batch = &batches[sender % batches.len()];
            let verdicts = log.batch(&batch.iter().map(Receipt::bytes).collect::<Vec<_>>()).await;
            assert!(
                verdicts.iter().all(|verdict| matches!(verdict["status"].as_str(), Some("ok" | "duplicate"))),
                "{verdicts:?}"
            );
            verdicts.iter().filter(|verdict| verdict["status"] == "ok").count()
        }));
    }
    let mut appended = 0;
    for task in tasks {
        appended += task.await.unwrap();
    }
    assert_eq!(appended, 8 * 50);
    let total: u64 = log.get("/v1/issuers").await.json()["issuers"]
        .as_array()
        .unwrap()
        .iter()
        .map(|issuer| issuer["next_seq"].as_u64().unwrap())
        .sum();
    assert_eq!(total, 8 * 50);
}
