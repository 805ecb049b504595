//! Documents: that the audit makes one of everything that can be proven, and what one in a bundle is worth.

use crate::world;
use audit::{Demand, MemoryBundle, Status, Verdict, check_evidence};
use merkle::{LeafIndex, ResourcePath, TreeSize};
use note::{KeyKind, SigningKey};
use receipt::{ReceiptId, ReceiptText, SeqNo, UnixMillis};
use world::{START_MS, TestGate, TestLog, World, accusations, failures, told, write_pages};

const LOG: &str = "log.example/test";
const HEARTBEAT: &str = r#"{"type":"heartbeat"}"#;

/// A log of six with two heads, of which its list has the second alone; the first is in every journal.
fn first_head_left_out() -> (World, MemoryBundle) {
    let mut world = World::new();
    world.log_heartbeats(2);
    world.seal();
    world.log_heartbeats(3);
    world.seal();
    let mut bundle = world.bundle();
    bundle.remove("log/heads/000.p/2").unwrap();
    write_pages(&mut bundle, "log/", &[world.log.heads[1].bytes().to_vec()], ResourcePath::Heads);
    (world, bundle)
}

fn of_kind<'verdict>(verdict: &'verdict Verdict, kind: &str) -> Vec<&'verdict serde_json::Value> {
    verdict.evidence.iter().filter(|document| document["kind"] == kind).collect()
}

#[test]
fn a_head_that_the_list_leaves_out_is_documented_from_a_journal() {
    let (world, bundle) = first_head_left_out();
    let verdict = world.audit(&bundle);
    assert_eq!(failures(&verdict), [(String::from("head/known-heads"), "omitted-head")], "{}", told(&verdict));
    // All three journals hold it: nobody saw it alone.
    assert_eq!((verdict.count("head-seen-alone"), verdict.completeness.log.heads_omitted), (0, 1));
    assert_eq!(accusations(&verdict), [("omitted-head", String::from(LOG))]);
    let proven = check_evidence(&verdict.evidence[0].to_string(), &[]).unwrap();
    let (size, root) = (TreeSize(3), world.log.heads[0].checkpoint().root);
    assert_eq!(proven.demand, Some(Demand::Head { size, root }));
}

#[test]
fn a_document_about_a_head_fails_the_audit_only_where_the_list_lacks_it() {
    let (world, mut without) = first_head_left_out();
    let document = world.audit(&without).evidence[0].to_string();
    let mut with = world.bundle();
    with.insert("evidence/1.json", document.clone());
    let honest = world.audit(&with);
    assert_eq!((honest.exit_code, honest.count("evidence-met")), (0, 1), "{}", told(&honest));
    without.insert("evidence/1.json", document.clone());
    let verdict = world.audit(&without);
    assert_eq!(verdict.check("head/evidence").unwrap().count("omitted-head"), 1, "{}", told(&verdict));
    let mut no_list = world.bundle();
    no_list.remove("log/heads/000.p/2").unwrap();
    no_list.insert("evidence/1.json", document);
    let verdict = world.audit(&no_list);
    assert_eq!(verdict.check("head/evidence").unwrap().count("evidence-unread"), 1, "{}", told(&verdict));
}

#[test]
fn a_head_that_one_witness_alone_shows_is_noticed() {
    let mut world = World::new();
    world.log_heartbeats(2);
    world.seal_for(&[1]);
    world.log_heartbeats(1);
    world.seal();
    let mut bundle = world.bundle();
    bundle.remove("log/heads/000.p/2").unwrap();
    write_pages(&mut bundle, "log/", &[world.log.heads[1].bytes().to_vec()], ResourcePath::Heads);
    let verdict = world.audit(&bundle);
    let check = verdict.check("head/known-heads").unwrap();
    let alone = check.findings.iter().find(|finding| finding.code == "head-seen-alone").unwrap();
    assert!(alone.shown.contains("witness-2.example") && alone.shown.contains("size 3"), "{}", alone.shown);
    let lanes: Vec<(u64, u64)> =
        verdict.completeness.witnesses.iter().map(|lane| (lane.saw_heads, lane.saw_alone)).collect();
    assert_eq!(lanes, [(1, 0), (2, 1), (1, 0)]);
}

/// A log of five, and one of `other` entries that agrees with it up to the third.
fn two_logs(other: usize) -> (World, World) {
    let mut world = World::new();
    world.log_heartbeats(2);
    let mut second = world.clone();
    world.log_heartbeats(2);
    world.seal();
    for _ in 3..other {
        second.log_body(0, r#"{"type":"heartbeat","other":1}"#);
    }
    second.seal();
    (world, second)
}

fn with_kept(world: &World, (proof, entry): (Vec<u8>, Vec<u8>)) -> MemoryBundle {
    let mut bundle = world.bundle();
    bundle.insert("proofs/kept.tlog-proof", proof);
    bundle.insert("proofs/kept.entry", entry);
    bundle
}

#[test]
fn another_entry_in_place_of_a_proven_one_convicts_the_log() {
    for other in [4, 5, 9] {
        let (world, second) = two_logs(other);
        let verdict = second.audit(&with_kept(&second, world.proof(3)));
        let documents = of_kind(&verdict, "omitted-receipt");
        assert_eq!(documents.len(), 1, "{}", told(&verdict));
        let proven = check_evidence(&documents[0].to_string(), &[]).unwrap();
        assert_eq!((proven.demand, proven.key), (None, world.log.key.log_key().verifier()));
        assert_eq!(verdict.completeness.issuers[0].unhonoured, ["\"proofs/kept.tlog-proof\""]);
        // It convicts in any bundle of that log, the other history's as well.
        let mut bundle = world.bundle();
        bundle.insert("evidence/1.json", documents[0].to_string());
        let verdict = world.audit(&bundle);
        assert_eq!(failures(&verdict), [(String::from("head/evidence"), "omitted-receipt")], "{}", told(&verdict));
    }
}

#[test]
fn a_log_that_ends_before_a_proven_entry_is_told_what_it_must_show() {
    let (world, second) = two_logs(3);
    let verdict = second.audit(&with_kept(&second, world.proof(4)));
    let documents = of_kind(&verdict, "omitted-receipt");
    let proven = check_evidence(&documents[0].to_string(), &[]).unwrap();
    let leaf = merkle::leaf_hash(&world.log.entries[4]);
    assert_eq!(proven.demand, Some(Demand::Entry { index: LeafIndex(4), leaf }));
    // The whole log shows it, the cut one does not reach to it, and a third one shows another.
    for (other, code, status) in [
        (world.clone(), "evidence-met", Status::Ok),
        (second, "evidence-unread", Status::NotChecked),
        (two_logs(5).1, "omitted-receipt", Status::Fail),
    ] {
        let mut bundle = other.bundle();
        bundle.insert("evidence/1.json", documents[0].to_string());
        let verdict = other.audit(&bundle);
        let check = verdict.check("head/evidence").unwrap();
        assert_eq!((check.status, check.count(code)), (status, 1), "{}", told(&verdict));
    }
}

#[test]
fn a_bundle_without_the_entries_makes_no_document_of_what_it_does_not_hold() {
    let mut world = World::new();
    world.log_heartbeats(300);
    world.seal();
    let mut bundle = with_kept(&world, world.proof(299));
    bundle.remove("log/tile/entries/001.p/45").unwrap();
    let verdict = world.audit(&bundle);
    assert_eq!((verdict.count("proof-beyond"), verdict.evidence.len()), (1, 0), "{}", told(&verdict));
    assert_eq!(verdict.completeness.issuers[0].unhonoured, [] as [&str; 0]);
}

fn signed(gate: &TestGate, seq: u64, prev: ReceiptId, time_ms: u64, body: &str, keys: &[&SigningKey]) -> Vec<u8> {
    let issuer = receipt::IssuerName::new(&gate.name).unwrap();
    let text = ReceiptText { issuer, seq: SeqNo(seq), prev, issued_at: UnixMillis(time_ms), body: body.to_owned() };
    let own = gate.key();
    let own = [&own];
    note::sign_note(&text.to_string(), if keys.is_empty() { &own } else { keys }).unwrap()
}

/// A log that admitted `entries`, sealed.
fn log_of(entries: Vec<Vec<u8>>) -> World {
    let mut world = World::new();
    world.log = TestLog::new(LOG, 1);
    world.now_ms += 10_000;
    entries.into_iter().for_each(|entry| world.log.push(entry));
    world.seal();
    world
}

#[test]
fn what_a_log_must_refuse_is_documented_code_by_code() {
    let mut honest = World::new();
    honest.log_heartbeats(3);
    let (gate, good) = (honest.gates[0].clone(), honest.log.entries.clone());
    let head = receipt::Receipt::parse(&good[3]).unwrap().id();
    let after = |entry: Vec<u8>| good.iter().cloned().chain([entry]).collect::<Vec<_>>();
    let next = |seq, prev, time_ms, body: &str| after(signed(&gate, seq, prev, time_ms, body, &[]));
    let now = START_MS + 4000;
    let stranger = world::key(&gate.name, KeyKind::Ed25519, 99);
    let rotate = format!(r#"{{"type":"rotate","vkey":"{}"}}"#, gate.key().verifier());
    let close = next(4, head, now, r#"{"type":"close"}"#);
    let closed = receipt::Receipt::parse(&close[4]).unwrap().id();
    let after_close: Vec<_> = close.into_iter().chain([signed(&gate, 5, closed, now, HEARTBEAT, &[])]).collect();
    for (code, entries) in [
        ("malformed", after(b"no receipt".to_vec())),
        ("bad-signature", after(signed(&gate, 4, head, now, HEARTBEAT, &[&stranger]))),
        ("duplicate", after(good[2].clone())),
        ("fork", next(2, receipt::Receipt::parse(&good[1]).unwrap().id(), now, HEARTBEAT)),
        ("fork", next(4, ReceiptId::NONE, now, HEARTBEAT)),
        ("gap", next(6, head, now, HEARTBEAT)),
        ("time-reversed", next(4, head, START_MS, HEARTBEAT)),
        ("closed", after_close),
        ("bad-open", next(4, head, now, &format!(r#"{{"type":"open","vkey":"{}"}}"#, gate.key().verifier()))),
        ("bad-rotation", after(signed(&gate, 4, head, now, &rotate, &[&gate.key(), &gate.key()]))),
    ] {
        let world = log_of(entries);
        let verdict = world.verdict();
        assert!(failures(&verdict).iter().any(|(_, found)| *found == code), "{code}: {}", told(&verdict));
        let documents = of_kind(&verdict, "log-admitted");
        assert_eq!(documents.len(), 1, "{code}: {}", told(&verdict));
        assert_eq!(documents[0]["code"], code);
        let proven = check_evidence(&documents[0].to_string(), &[]).unwrap();
        assert_eq!((proven.key, proven.demand), (world.log.key.log_key().verifier(), None));
    }
}

#[test]
fn entries_that_no_head_vouches_for_are_no_evidence_against_the_log() {
    let mut honest = World::new();
    honest.log_heartbeats(3);
    let mut entries = honest.log.entries.clone();
    entries.remove(2);
    let world = log_of(entries.clone());
    let mut bundle = world.bundle();
    // Somebody else's entries under the log's head.
    entries[2] = b"no receipt".to_vec();
    write_pages(&mut bundle, "log/", &entries, ResourcePath::Entries);
    let verdict = world.audit(&bundle);
    assert!(failures(&verdict).iter().any(|(_, code)| *code == "malformed"), "{}", told(&verdict));
    assert!(verdict.evidence.is_empty(), "{:?}", verdict.evidence);
}

#[test]
fn documents_are_few_however_much_is_wrong() {
    let mut honest = World::new();
    honest.log_heartbeats(1);
    let entries: Vec<Vec<u8>> = honest
        .log
        .entries
        .iter()
        .cloned()
        .chain((0..3000).map(|number| format!("no receipt {number}").into_bytes()))
        .collect();
    let verdict = log_of(entries).verdict();
    assert_eq!((verdict.count("malformed"), verdict.evidence.len()), (3000, 1));
}
