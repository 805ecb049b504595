//! A witness with an ML-DSA-44 key beside its Ed25519 key: every cosignature in two lines, and `sign-subtree`.

use crate::stage;
use client::WitnessClient;
use client::add_checkpoint::Pushed;
use client::http::{BoundedClient, Timeouts};
use cosign::subtree::SubtreeRequest;
use counterfoil_witness::serve::StartError;
use counterfoil_witness::view::WitnessStatus;
use merkle::{ConsistencyProof, Subtree, TreeSize, prove_subtree};
use note::{
    CosignedTree, KeyKind, KeyName, NoteSignature, SignedCheckpoint, SigningKey, VerifierKey, verified_cosignatures,
};
use stage::{FakeLog, House, NOON_S, Running};

const ORIGIN: &str = "log.example/agents";

/// A second key for the witness of `house`, of this name and kind, in the file that the configuration names.
fn second_key(house: &House, name: &str, kind: KeyKind) -> VerifierKey {
    let key = SigningKey::from_seed(KeyName::new(name).unwrap(), kind, [44; 32]);
    let file = house.home().join("witness-mldsa.key");
    let _ = std::fs::remove_file(&file);
    service::keys::write_new_signing_key(&file, &key).unwrap();
    let config = house.home().join("config.toml");
    let text = std::fs::read_to_string(&config).unwrap();
    std::fs::write(&config, format!("mldsa_key = \"witness-mldsa.key\"\n{text}")).unwrap();
    key.verifier()
}

/// A log of 20 entries and a witness with both keys.
async fn both() -> (std::sync::Arc<FakeLog>, House, VerifierKey) {
    let (log, house) = (FakeLog::start(ORIGIN, 20).await, House::new());
    house.configure(&log, &[], "accept_pushes = true");
    let mldsa = second_key(&house, "witness.example/w1", KeyKind::MlDsa44);
    (log, house, mldsa)
}

/// The times on a checkpoint by each of these keys, each of which must have one good line.
fn times(checkpoint: &[u8], keys: &[VerifierKey]) -> Vec<u64> {
    let head = SignedCheckpoint::parse(checkpoint).unwrap();
    let lines: Vec<_> = verified_cosignatures(head.note(), keys).into_iter().map(Result::unwrap).collect();
    (0..keys.len())
        .map(|place| {
            let mut of_key = lines.iter().filter(|(by, _)| *by == place);
            let time = of_key.next().unwrap().1.timestamp_s;
            assert!(of_key.next().is_none());
            time
        })
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_cosignature_is_two_lines_of_one_time_wherever_it_is_shown() {
    let (log, house, mldsa) = both().await;
    let keys = [house.vkey.clone(), mldsa.clone()];
    let witness = house.start().await;
    let lines = witness.client.nudge(&log.origin()).await.unwrap();
    let head = log.offer(20, 0, 0);
    assert_eq!(lines.len(), 2);
    for (line, key) in lines.iter().zip(&keys) {
        assert_eq!(line.verify(head.note().text(), key).unwrap().timestamp_s, NOON_S);
    }
    let checkpoint = witness.client.checkpoint(&log.origin()).await.unwrap().unwrap();
    assert_eq!(times(&checkpoint, &keys), [NOON_S, NOON_S]);
    let journal = witness.get("/journal/checkpoint").await.unwrap();
    assert_eq!(times(journal.as_bytes(), &keys), [NOON_S, NOON_S]);
    let status: WitnessStatus = serde_json::from_str(&witness.get("/status").await.unwrap()).unwrap();
    assert_eq!(status.mldsa_vkey, Some(mldsa.to_string()));
    // The answer to a push, too.
    let (pushed, tree) = log.history(30, 0, 0);
    let proof = merkle::prove_consistency(&tree, TreeSize(20), TreeSize(30)).unwrap();
    let answer = push(&witness, &keys, TreeSize(20), &proof, &pushed).await;
    assert!(matches!(answer, Pushed::Taken { lines, dropped: 0 } if lines.len() == 2));
    witness.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restart_keeps_both_lines_to_the_byte() {
    let (log, house, mldsa) = both().await;
    let witness = house.start().await;
    witness.client.nudge(&log.origin()).await.unwrap();
    let before = witness.client.checkpoint(&log.origin()).await.unwrap().unwrap();
    witness.kill().await;
    log.set_manner(stage::Manner::Fails);
    let witness = stage::reopened(&house).await;
    let after = witness.client.checkpoint(&log.origin()).await.unwrap().unwrap();
    assert_eq!(after, before);
    assert_eq!(times(&after, &[house.vkey.clone(), mldsa]), [NOON_S, NOON_S]);
    witness.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_witness_that_gets_its_second_key_later_says_the_same_of_the_head_held_with_both() {
    let (log, house) = (FakeLog::start(ORIGIN, 20).await, House::new());
    house.configure(&log, &[], "");
    let witness = house.start().await;
    witness.client.nudge(&log.origin()).await.unwrap();
    let before = witness.client.checkpoint(&log.origin()).await.unwrap().unwrap();
    assert_eq!(times(&before, std::slice::from_ref(&house.vkey)), [NOON_S]);
    witness.stop().await;
    let mldsa = second_key(&house, "witness.example/w1", KeyKind::MlDsa44);
    house.set_clock_s(NOON_S + 60);
    log.set_manner(stage::Manner::Fails);
    let witness = stage::reopened(&house).await;
    let after = witness.client.checkpoint(&log.origin()).await.unwrap().unwrap();
    assert_eq!(times(&after, &[house.vkey.clone(), mldsa]), [NOON_S, NOON_S]);
    witness.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_key_of_another_name_or_kind_keeps_the_witness_from_starting() {
    let (log, house) = (FakeLog::start(ORIGIN, 20).await, House::new());
    for (name, kind) in [("witness.example/w2", KeyKind::MlDsa44), ("witness.example/w1", KeyKind::CosignatureV1)] {
        house.configure(&log, &[], "");
        second_key(&house, name, kind);
        let error = house.open().await.unwrap_err();
        match kind {
            KeyKind::MlDsa44 => assert!(matches!(error, StartError::MlDsaKey(_)), "{error}"),
            _ => assert!(error.to_string().contains("0x04 where 0x06 is wanted"), "{error}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_part_of_a_cosigned_tree_is_cosigned_until_the_log_forks() {
    let (log, house, mldsa) = both().await;
    let witness = house.start().await;
    witness.client.nudge(&log.origin()).await.unwrap();
    let cosigned = witness.client.checkpoint(&log.origin()).await.unwrap().unwrap();
    let (_, tree) = log.history(20, 0, 0);
    let (subtree, head) = (Subtree::new(8, 13).unwrap(), SignedCheckpoint::parse(&cosigned).unwrap());
    let request = SubtreeRequest {
        subtree,
        hash: subtree.root(&tree).unwrap(),
        cosignatures: vec![],
        proof: prove_subtree(&tree, subtree, TreeSize(20)).unwrap(),
        checkpoint: head.claimed().clone(),
        signatures: head.note().signatures().to_vec(),
    };
    let line = sign_subtree(&witness, &request).await.unwrap();
    let line = NoteSignature::parse(line.strip_suffix('\n').unwrap()).unwrap();
    let signed = CosignedTree { origin: log.origin(), start: 8, end: 13, hash: request.hash };
    assert_eq!(signed.verify(&line, &mldsa), Ok(0));
    let bare = SubtreeRequest { signatures: vec![], ..request.clone() };
    assert_eq!(sign_subtree(&witness, &bare).await, Err("not-cosigned".to_owned()));
    let elsewhere =
        note::Checkpoint { origin: note::Origin::new("log.example/other").unwrap(), ..request.checkpoint.clone() };
    let elsewhere = SubtreeRequest { checkpoint: elsewhere, ..request.clone() };
    assert_eq!(sign_subtree(&witness, &elsewhere).await, Err("unknown-log".to_owned()));
    log.offer(30, 10, 1);
    assert!(witness.client.nudge(&log.origin()).await.is_err());
    assert_eq!(sign_subtree(&witness, &request).await, Err("refused".to_owned()));
    witness.stop().await;
}

/// A head with as many ML-DSA-44 lines of other witnesses as it may carry is 220 kB; the journal keeps the log's word only.
#[tokio::test(flavor = "multi_thread")]
async fn a_head_that_carries_the_longest_lines_of_many_witnesses_is_fetched_and_cosigned() {
    let (log, house, _) = both().await;
    let head = log.offer(20, 0, 0);
    let lines: String = (0..62)
        .map(|number| {
            let name = KeyName::new(&format!("{number:0255}")).unwrap();
            NoteSignature { name, key_id: note::KeyId([number; 4]), blob: vec![number; 2428] }.line() + "\n"
        })
        .collect();
    assert!(lines.len() > 200_000);
    log.add_lines(&lines);
    let witness = house.start().await;
    let answer = witness.client.nudge(&log.origin()).await.unwrap();
    assert_eq!(answer.len(), 2);
    assert!(answer[0].verify(head.note().text(), &house.vkey).is_ok());
    witness.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_witness_without_the_key_does_not_have_the_call() {
    let (log, house) = (FakeLog::start(ORIGIN, 20).await, House::new());
    house.configure(&log, &[], "");
    let witness = house.start().await;
    assert_eq!(witness.post("/sign-subtree", "subtree 0 1\n").await, Err("not-found".to_owned()));
    witness.stop().await;
}

async fn sign_subtree(witness: &Running, request: &SubtreeRequest) -> Result<String, String> {
    // What is sent lives as long as the test.
    witness.post("/sign-subtree", request.to_string().leak()).await
}

async fn push(
    witness: &Running,
    keys: &[VerifierKey],
    old: TreeSize,
    proof: &ConsistencyProof,
    head: &SignedCheckpoint<note::Verified>,
) -> Pushed {
    let http = BoundedClient::new(Timeouts::default()).unwrap();
    WitnessClient::new(witness.url.parse().unwrap(), http).add_checkpoint(keys, old, proof, head).await.unwrap()
}
