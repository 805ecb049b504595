//! Bundles by whose members an honest party would be accused, or the audit stopped.

use crate::world;
use audit::{Status, witness_dir};
use merkle::LeafIndex;
use note::KeyName;
use receipt::breach::Exhibit;
use receipt::{LogAdmitted, RefusalCode};
use world::{START_S, TestLog, World, told};

#[test]
fn counts_beyond_all_measure_do_not_stop_the_audit() {
    let mut world = World::new();
    world.seal();
    for step in 0..2100 {
        world.witnesses[0].unchanged(START_S + step, START_S + step, (1 << 53) - 1);
    }
    let verdict = world.verdict();
    assert_eq!(verdict.completeness.witnesses[0].cosignatures, u64::MAX, "{}", told(&verdict));
}

#[test]
fn without_the_logs_list_no_number_of_journalled_heads_accuses_it() {
    let mut world = World::new();
    for _ in 0..1010 {
        world.log_heartbeats(1);
        let head = world.log.seal();
        let time_s = world.now_ms / 1000;
        world.witnesses[0].cosign(&head, time_s);
    }
    world.seal();
    let mut bundle = world.bundle();
    let heads: Vec<String> =
        audit::BundleSource::list(&bundle).into_iter().filter(|path| path.starts_with("log/heads/")).collect();
    assert!(!heads.is_empty());
    heads.iter().for_each(|path| drop(bundle.remove(path)));
    let verdict = world.audit(&bundle);
    assert_eq!((verdict.count("omitted-head"), verdict.overall), (0, Status::NotChecked), "{}", told(&verdict));
    assert_eq!(verdict.completeness.log.heads_omitted, 0);
    assert!(bundle.get(&format!("{}/checkpoint", witness_dir(&KeyName::new("witness-1.example").unwrap()))).is_some());
}

#[test]
fn a_log_of_something_else_is_not_accused_of_admitting_what_is_no_receipt() {
    let mut world = World::new();
    world.log = TestLog::new("log.example/test", 1);
    world.log.push(b"example.com v1.0.0 h1:abc".to_vec());
    let head = world.seal();
    let entry = world.log.entries[0].clone();
    let exhibit = Exhibit { index: LeafIndex(0), entry: &entry };
    let document = LogAdmitted::make(&head, RefusalCode::Malformed, &[exhibit], None, &world.log.tree).unwrap();
    let mut bundle = world.bundle();
    bundle.insert("evidence/1.json", serde_json::to_vec(&document).unwrap());
    let verdict = world.audit(&bundle);
    assert_eq!((verdict.count("no-receipts"), verdict.overall), (1, Status::NotChecked), "{}", told(&verdict));

    // Nor does it become a log of receipts by what anybody may write to it: what only begins as one, and a whole one of
    // an issuer that nobody named.
    let mut stranger = world::TestGate::new("gate.example/stranger", 77);
    world.log.push(b"counterfoil/receipt/v1\njunk".to_vec());
    world.log.push(stranger.open(world.now_ms).bytes().to_vec());
    world.seal();
    let mut bundle = world.bundle();
    bundle.insert("evidence/1.json", serde_json::to_vec(&document).unwrap());
    let verdict = world.audit(&bundle);
    assert_eq!((verdict.count("no-receipts"), verdict.overall), (1, Status::NotChecked), "{}", told(&verdict));
    assert_eq!((verdict.count("malformed"), verdict.count("log-admitted")), (0, 0), "{}", told(&verdict));
    assert!(verdict.evidence.is_empty());

    // A receipt of an issuer that the auditor named does.
    world.log_heartbeats(1);
    world.seal();
    assert_eq!(world.verdict().count("malformed"), 2, "{}", told(&world.verdict()));
}
