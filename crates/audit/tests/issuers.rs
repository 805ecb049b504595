//! The issuer family over whole bundles: every code of admission, silence, tails, the auditor's file.

use crate::world;
use audit::{Rules, Status, Verdict, check_evidence, parse_issuers};
use receipt::{ReceiptText, SeqNo, UnixMillis};
use world::{START_MS, TestGate, World, accusations, failures, told};

const GATE: &str = "issuer/gate.example/support-1";
const HEARTBEAT: &str = r#"{"type":"heartbeat"}"#;

/// What the issuer's own check found over a log that holds exactly these entries.
fn verdict_over(world: &mut World, entries: Vec<Vec<u8>>) -> Verdict {
    world.log = world::TestLog::new("log.example/test", 1);
    entries.into_iter().for_each(|entry| world.log.push(entry));
    world.seal();
    world.verdict()
}

/// Index and seq of a receipt.
type Place = (Option<u64>, Option<u64>);

/// The only failing finding: its check, code and the (index, seq) of its receipts.
fn only_failure(verdict: &Verdict) -> (String, &'static str, Vec<Place>) {
    let failing = failures(verdict);
    assert_eq!(failing.len(), 1, "{}", told(verdict));
    let (check, code) = failing[0].clone();
    let finding = verdict.check(&check).unwrap().findings.iter().find(|finding| finding.code == code).unwrap();
    (check, code, finding.receipts.iter().map(|receipt| (receipt.index, receipt.seq)).collect())
}

fn entries_of(world: &mut World, receipts: usize) -> Vec<Vec<u8>> {
    world.log_heartbeats(receipts);
    world.log.entries.clone()
}

fn signed(gate: &TestGate, seq: u64, prev: receipt::ReceiptId, time_ms: u64, body: &str) -> Vec<u8> {
    let text = ReceiptText {
        issuer: gate.chain.issuer().clone(),
        seq: SeqNo(seq),
        prev,
        issued_at: UnixMillis(time_ms),
        body: body.to_owned(),
    };
    text.sign(&gate.key()).unwrap().bytes().to_vec()
}

#[test]
fn a_receipt_cut_from_the_middle_of_a_stream_is_a_root_mismatch_and_a_named_gap() {
    // Within a page, over a page boundary, and with the following pages repacked.
    for cut in [2usize, 255, 256, 300] {
        let mut world = World::new();
        world.log_heartbeats(99);
        world.seal();
        world.log_heartbeats(500);
        world.seal();
        let mut bundle = world.bundle();
        let mut entries = world.log.entries.clone();
        entries.remove(cut);
        let paths = audit::BundleSource::list(&bundle);
        for path in paths.iter().filter(|path| path.starts_with("log/tile/entries/")) {
            bundle.remove(path);
        }
        let mut pages = audit::MemoryBundle::new();
        world::write_pages(&mut pages, "log/", &entries, merkle::ResourcePath::Entries);
        for path in audit::BundleSource::list(&pages) {
            // Under the path of the whole log, so that only the content is short.
            let named = path.replace(".p/87", ".p/88");
            bundle.insert(named, pages.get(&path).unwrap());
        }
        let verdict = world.audit(&bundle);
        assert_eq!(verdict.exit_code, 1, "{}", told(&verdict));
        assert_eq!(verdict.check("head/root").unwrap().count("root-mismatch"), 1, "{cut}: {}", told(&verdict));
        let check = verdict.check(GATE).unwrap();
        assert_eq!(check.count("gap"), 1, "{cut}: {}", told(&verdict));
        let gap = check.findings.iter().find(|finding| finding.code == "gap").unwrap();
        assert!(
            gap.shown.contains(&format!("seq {} leaves a gap: seq {cut} must come first", cut + 1)),
            "{}",
            gap.shown
        );
        assert_eq!((gap.receipts[0].index, gap.receipts[0].seq), (Some(cut as u64), Some(cut as u64 + 1)));
        // Cut entries accuse nobody of a fork.
        assert_eq!(verdict.count("log-fork") + verdict.count("fork"), 0, "{}", told(&verdict));
    }
}

#[test]
fn a_gap_that_the_log_itself_admitted_is_named_once() {
    let mut world = World::new();
    let mut entries = entries_of(&mut world, 6);
    entries.remove(3);
    let verdict = verdict_over(&mut world, entries);
    assert_eq!(only_failure(&verdict), (GATE.to_owned(), "gap", vec![(Some(3), Some(4))]));
    assert_eq!(verdict.check("head/root").unwrap().status, Status::Ok);
}

#[test]
fn receipts_out_of_order_are_a_gap_and_the_late_one_named() {
    let mut world = World::new();
    let mut entries = entries_of(&mut world, 4);
    entries.swap(2, 3);
    let verdict = verdict_over(&mut world, entries);
    let codes: Vec<&str> = failures(&verdict).into_iter().map(|(_, code)| code).collect();
    assert_eq!(codes, ["gap", "out-of-order"], "{}", told(&verdict));
    assert_eq!(accusations(&verdict), [("log-admitted", world.log.key.name.clone())], "{}", told(&verdict));
}

#[test]
fn the_same_receipt_twice_is_a_duplicate() {
    let mut world = World::new();
    let mut entries = entries_of(&mut world, 3);
    entries.push(entries[2].clone());
    let verdict = verdict_over(&mut world, entries);
    assert_eq!(only_failure(&verdict), (GATE.to_owned(), "duplicate", vec![(Some(2), Some(2)), (Some(4), Some(2))]));
}

#[test]
fn two_receipts_of_one_seq_are_evidence_against_the_issuer() {
    let mut world = World::new();
    let before = world.gates[0].clone();
    let mut entries = entries_of(&mut world, 2);
    let other = before.clone().issue(r#"{"type":"heartbeat","other":1}"#, START_MS + 1000);
    entries.push(other.bytes().to_vec());
    let verdict = verdict_over(&mut world, entries);
    assert_eq!(only_failure(&verdict), (GATE.to_owned(), "fork", vec![(Some(1), Some(1)), (Some(3), Some(1))]));
    let proven = check_evidence(&verdict.evidence[0].to_string(), &[]).unwrap();
    assert_eq!((proven.kind, proven.key), ("issuer-fork", before.key().verifier()));
}

#[test]
fn a_successor_that_denies_the_head_is_evidence_and_the_stream_goes_on() {
    let mut world = World::new();
    let mut entries = entries_of(&mut world, 1);
    let gate = world.gates[0].clone();
    entries.push(signed(&gate, 2, receipt::ReceiptId::NONE, START_MS + 2000, HEARTBEAT));
    let denied = receipt::Receipt::parse(entries.last().unwrap()).unwrap();
    entries.push(signed(&gate, 3, denied.id(), START_MS + 3000, HEARTBEAT));
    let verdict = verdict_over(&mut world, entries);
    assert_eq!(only_failure(&verdict), (GATE.to_owned(), "fork", vec![(Some(1), Some(1)), (Some(2), Some(2))]));
    assert_eq!(check_evidence(&verdict.evidence[0].to_string(), &[]).unwrap().kind, "issuer-fork");
}

#[test]
fn an_altered_entry_is_a_bad_signature_and_leaves_a_gap() {
    let mut world = World::new();
    let mut entries = entries_of(&mut world, 4);
    let place = entries[2].windows(9).position(|window| window == b"heartbeat").unwrap();
    entries[2][place] = b'H';
    let verdict = verdict_over(&mut world, entries);
    let codes: Vec<&str> = failures(&verdict).into_iter().map(|(_, code)| code).collect();
    assert_eq!(codes, ["bad-signature", "gap"], "{}", told(&verdict));
    // The log took what it must refuse; the issuer did nothing. The receipt after it stands behind one of the seq before.
    assert_eq!(accusations(&verdict), [("log-admitted", world.log.key.name.clone())], "{}", told(&verdict));
}

#[test]
fn an_entry_that_is_no_receipt_is_malformed() {
    let mut world = World::new();
    let mut entries = entries_of(&mut world, 2);
    entries.insert(1, b"\x1b[31mhello\xff".to_vec());
    let verdict = verdict_over(&mut world, entries);
    assert_eq!(only_failure(&verdict), (String::from("issuer/entries"), "malformed", vec![(Some(1), None)]));
}

#[test]
fn a_receipt_of_an_unknown_type_is_counted_and_fails_nothing() {
    let mut world = World::new();
    world.log_body(0, r#"{"type":"weather","wind":3}"#);
    world.seal();
    let verdict = world.verdict();
    assert_eq!((verdict.exit_code, verdict.count("unknown-type")), (0, 1), "{}", told(&verdict));
}

#[test]
fn time_that_runs_backwards_is_found() {
    let mut world = World::new();
    let mut entries = entries_of(&mut world, 2);
    let gate = world.gates[0].clone();
    entries.push(signed(&gate, 3, gate.chain.head(), START_MS, HEARTBEAT));
    let verdict = verdict_over(&mut world, entries);
    assert_eq!(only_failure(&verdict), (GATE.to_owned(), "time-reversed", vec![(Some(3), Some(3))]));
}

#[test]
fn receipts_after_a_close_are_found_each() {
    let mut world = World::new();
    world.log_body(0, r#"{"type":"close"}"#);
    world.log_heartbeats(2);
    world.seal();
    let verdict = world.verdict();
    assert_eq!(verdict.check(GATE).unwrap().count("closed"), 2, "{}", told(&verdict));
    assert_eq!(failures(&verdict).len(), 2);
}

#[test]
fn a_stream_that_does_not_open_or_opens_twice_is_found() {
    let mut world = World::new();
    let gate = world.gates[0].clone();
    let first = signed(&gate, 0, receipt::ReceiptId::NONE, START_MS, HEARTBEAT);
    let id = receipt::ReceiptId::of(&first);
    let again = format!(r#"{{"type":"open","vkey":"{}"}}"#, gate.key().verifier());
    let verdict = verdict_over(&mut world, vec![first, signed(&gate, 1, id, START_MS, &again)]);
    assert_eq!(verdict.check(GATE).unwrap().count("bad-open"), 2, "{}", told(&verdict));
}

#[test]
fn a_rotation_is_followed_and_a_bad_one_found() {
    let mut world = World::new();
    let gate = world.gates[0].clone();
    let new = world::key(&gate.name, note::KeyKind::Ed25519, 200);
    let mut chain = gate.chain.clone();
    let rotate = chain.rotate(UnixMillis(START_MS + 1), &gate.key(), &new).unwrap();
    let after = chain.append(HEARTBEAT, UnixMillis(START_MS + 2), &new).unwrap();
    let mut entries = world.log.entries.clone();
    entries.extend([rotate.bytes().to_vec(), after.bytes().to_vec()]);
    let verdict = verdict_over(&mut world, entries.clone());
    assert_eq!(verdict.exit_code, 0, "{}", told(&verdict));

    // The second line, by the new key, is cut off.
    let text = String::from_utf8(rotate.bytes().to_vec()).unwrap();
    let cut = text.lines().take(text.lines().count() - 1).map(|line| format!("{line}\n")).collect::<String>();
    entries[1] = cut.into_bytes();
    let verdict = verdict_over(&mut world, entries);
    assert_eq!(verdict.check(GATE).unwrap().count("bad-rotation"), 1, "{}", told(&verdict));
    assert_eq!(verdict.check(GATE).unwrap().count("bad-signature"), 1);
}

#[test]
fn an_issuer_that_the_auditor_does_not_know_is_not_checked() {
    let mut world = World::new();
    world.log_heartbeats(2);
    world.add_gate("gate.example/other");
    world.log_body(1, HEARTBEAT);
    world.seal();
    let issuers =
        parse_issuers(&world.issuers_text().lines().take(1).map(|line| format!("{line}\n")).collect::<String>())
            .unwrap();
    let verdict = world.audit_with(&world.bundle(), &world.policy(), &issuers, &Rules::built_in(), None, None);
    assert_eq!((verdict.exit_code, verdict.count("unknown-issuer")), (2, 1), "{}", told(&verdict));
    assert_eq!(verdict.check(GATE).unwrap().status, Status::Ok);
}

#[test]
fn an_issuer_that_the_auditor_knows_and_the_log_does_not_is_not_checked() {
    let mut world = World::new();
    world.seal();
    world.gates.push(TestGate::new("gate.example/absent", 99));
    let verdict = world.verdict();
    assert_eq!(
        (verdict.exit_code, verdict.check("issuer/gate.example/absent").unwrap().count("issuer-absent")),
        (2, 1),
        "{}",
        told(&verdict)
    );
}

#[test]
fn an_issuers_file_with_another_key_of_the_name_fails() {
    let mut world = World::new();
    world.log_heartbeats(2);
    world.seal();
    let issuers =
        parse_issuers(&format!("{}\n", world::key("gate.example/support-1", note::KeyKind::Ed25519, 250).verifier()))
            .unwrap();
    let verdict = world.audit_with(&world.bundle(), &world.policy(), &issuers, &Rules::built_in(), None, None);
    assert_eq!(verdict.check(GATE).unwrap().count("bad-signature"), 3, "{}", told(&verdict));
}

fn audit_with_options(world: &World, options: &str, at_ms: Option<u64>) -> Verdict {
    let issuers = parse_issuers(&format!("{} {options}\n", world.issuers_text().trim_end())).unwrap();
    world.audit_with(&world.bundle(), &world.policy(), &issuers, &Rules::built_in(), at_ms, None)
}

#[test]
fn an_issuer_silent_beyond_its_heartbeat_is_found_inside_and_at_the_end() {
    let mut world = World::new();
    world.log_heartbeats(2);
    world.now_ms += 60_001 - 1000;
    world.log_heartbeats(1);
    world.seal();
    let verdict = audit_with_options(&world, "heartbeat=60s", None);
    assert_eq!(only_failure(&verdict), (GATE.to_owned(), "silent", vec![(Some(2), Some(2)), (Some(3), Some(3))]));

    // At the end: when the witnesses last vouched, or the time of the audit if that is earlier. Two clocks may differ.
    assert_eq!(audit_with_options(&world, "heartbeat=61s", None).exit_code, 0);
    let limit_ms = world.now_ms + 61_000 + receipt::MAX_AHEAD_MS;
    for witness in &mut world.witnesses {
        let head = witness.checkpoint.clone().unwrap().log_signed_only();
        witness.cosign(&head, limit_ms / 1000 + 10);
    }
    let told = |at_ms| {
        let verdict = audit_with_options(&world, "heartbeat=61s", at_ms);
        (failures(&verdict), verdict.count("silence-not-judged"))
    };
    let silent = || (vec![(GATE.to_owned(), "silent")], 0);
    assert_eq!(told(None), silent());
    assert_eq!(told(Some(limit_ms + 1)), silent());
    assert_eq!(told(Some(limit_ms)), (vec![], 1));
    assert_eq!(told(Some(world.now_ms + 61_001)), (vec![], 1));
    assert_eq!(told(Some(world.now_ms + 61_000)), (vec![], 0));
}

#[test]
fn a_silence_that_the_bundle_does_not_reach_to_is_not_checked_and_accuses_nobody() {
    let mut world = World::new();
    world.log_heartbeats(2);
    world.seal();
    let audit = |at_ms| audit_with_options(&world, "heartbeat=60s", Some(at_ms));
    let limit_ms = world.now_ms + 60_000;
    assert_eq!(audit(limit_ms).exit_code, 0);
    let soon = audit(limit_ms + 1);
    assert_eq!((soon.exit_code, soon.count("silence-not-judged")), (0, 1), "{}", told(&soon));
    let late = audit(limit_ms + receipt::MAX_AHEAD_MS + 1);
    assert_eq!((late.exit_code, late.count("silence-not-judged")), (2, 1), "{}", told(&late));
    assert_eq!(late.completeness.issuers[0].silences, []);
}

#[test]
fn an_issuers_own_word_on_its_heartbeat_counts_and_a_close_ends_it() {
    let mut world = World::new();
    world.log = world::TestLog::new("log.example/test", 1);
    world.gates[0] = TestGate::new("gate.example/support-1", 30);
    let open = format!(r#"{{"type":"open","vkey":"{}","heartbeat_ms":5000}}"#, world.gates[0].key().verifier());
    world.log_body(0, &open);
    world.now_ms += 6000 + receipt::MAX_AHEAD_MS;
    world.seal();
    assert_eq!(only_failure(&world.verdict()).1, "silent");
    world.now_ms -= 6000 + receipt::MAX_AHEAD_MS;
    world.log_body(0, r#"{"type":"close"}"#);
    world.now_ms += 6000 + receipt::MAX_AHEAD_MS;
    world.seal();
    assert_eq!(world.verdict().exit_code, 0, "{}", told(&world.verdict()));
}

#[test]
fn receipts_outside_the_time_an_issuer_is_given_are_found() {
    let mut world = World::new();
    world.log_heartbeats(3);
    world.seal();
    let time = |seconds: u64| audit::time::show_time(UnixMillis(START_MS + seconds * 1000));
    let verdict = audit_with_options(&world, &format!("from={} until={}", time(1), time(3)), None);
    let check = verdict.check(GATE).unwrap();
    let outside: Vec<Option<u64>> = check.findings.iter().map(|finding| finding.receipts[0].seq).collect();
    assert_eq!((outside, check.count("outside-validity")), (vec![Some(0), Some(3)], 2), "{}", told(&verdict));
    assert_eq!(audit_with_options(&world, &format!("from={} until={}", time(0), time(4)), None).exit_code, 0);
}

#[test]
fn a_kept_receipt_that_contradicts_the_stream_is_evidence() {
    let mut world = World::new();
    let before = world.gates[0].clone();
    world.log_heartbeats(3);
    // A second history of log and gate, of which somebody kept a proof.
    let mut second = world.clone();
    second.log.entries.truncate(1);
    let mut gate = before;
    let other = gate.issue(r#"{"type":"heartbeat","other":1}"#, START_MS + 500);
    let kept_entries = vec![second.log.entries[0].clone(), other.bytes().to_vec()];
    second.log = world::TestLog::new("log.example/test", 1);
    kept_entries.into_iter().for_each(|entry| second.log.push(entry));
    second.seal_for(&[]);
    let (proof, entry) = second.proof(1);
    world.seal();
    let mut bundle = world.bundle();
    bundle.insert("proofs/kept.tlog-proof", proof);
    bundle.insert("proofs/kept.entry", entry);
    let verdict = world.audit(&bundle);
    assert_eq!(verdict.check(GATE).unwrap().count("fork"), 1, "{}", told(&verdict));
    let kinds: Vec<&str> =
        verdict.evidence.iter().map(|document| check_evidence(&document.to_string(), &[]).unwrap().kind).collect();
    assert_eq!(kinds, ["log-fork", "omitted-receipt", "issuer-fork"]);
}

#[test]
fn every_finding_is_safe_to_print_whatever_the_receipts_say() {
    let mut world = World::new();
    let hostile = "\u{202e}\u{1b}[31m\u{9b}";
    let mut body = world::decision("r-1", true, "IDENTITY_MUTATION", hostile, hostile, hostile);
    world.log_body(0, &body.to_string());
    body["action_class"] = "CREDENTIAL_RECOVERY".into();
    world.log_body(0, &body.to_string());
    world.log_body(0, &format!(r#"{{"type":"foreign","format":"{}","receipt":1}}"#, "\\u202e\\u001b"));
    world.seal();
    let verdict = world.verdict();
    assert_eq!(verdict.count("sequence-forbidden"), 3, "{}", told(&verdict));
    assert_eq!(verdict.count("format-unknown"), 1);
    let text = serde_json::to_string(&verdict).unwrap();
    assert!(text.chars().all(|character| character.is_ascii() && !character.is_ascii_control()), "{text}");
}

#[test]
fn a_key_of_an_issuers_name_is_not_the_issuers() {
    let mut world = World::new();
    world.log_heartbeats(3);
    world.seal();
    // Anybody makes a key of that name, and signs two histories with it.
    let mut impostor = TestGate::new(&world.gates[0].name, 99);
    impostor.open(START_MS);
    let mut other = impostor.clone();
    let (one, two) = (impostor.issue(HEARTBEAT, START_MS + 1), other.issue(HEARTBEAT, START_MS + 2));
    let forged = receipt::IssuerForkEvidence::make(&impostor.key().verifier(), one.bytes(), two.bytes()).unwrap();
    let mut bundle = world.bundle();
    bundle.insert("evidence/forged.json", serde_json::to_vec(&forged).unwrap());
    let verdict = world.audit(&bundle);
    let check = verdict.check("head/evidence").unwrap();
    assert_eq!((verdict.exit_code, check.count("issuer-fork")), (0, 1), "{}", told(&verdict));
    assert!(check.findings[0].next.contains(&impostor.key().verifier().to_string()));
}

#[test]
fn a_denied_rotation_convicts_only_beside_another_text_of_it() {
    let mut world = World::new();
    let gate = world.gates[0].clone();
    let new = world::key(&gate.name, note::KeyKind::Ed25519, 200);
    let mut chain = gate.chain.clone();
    let rotate = chain.rotate(UnixMillis(START_MS + 1), &gate.key(), &new).unwrap();
    let text = ReceiptText {
        issuer: rotate.issuer().clone(),
        seq: SeqNo(2),
        prev: receipt::ReceiptId::NONE,
        issued_at: UnixMillis(START_MS + 2),
        body: HEARTBEAT.to_owned(),
    };
    let denial = text.sign(&new).unwrap();
    let mut entries = world.log.entries.clone();
    entries.extend([rotate.bytes().to_vec(), denial.bytes().to_vec()]);
    let verdict = verdict_over(&mut world, entries.clone());
    let document = verdict.evidence[0].to_string();
    assert!(matches!(check_evidence(&document, &[]), Err(audit::EvidenceError::NeedsKey { .. })));
    assert_eq!(check_evidence(&document, &[gate.key().verifier()]).unwrap().key, new.verifier());

    // In a bundle of the honest half the same document convicts nobody: who held the key before could have made it alone.
    entries.pop();
    let mut honest = World::new();
    honest.log = world::TestLog::new("log.example/test", 1);
    entries.into_iter().for_each(|entry| honest.log.push(entry));
    honest.seal();
    let mut bundle = honest.bundle();
    bundle.insert("evidence/fork.json", document.clone());
    let verdict = honest.audit(&bundle);
    let check = verdict.check("head/evidence").unwrap();
    assert_eq!((check.status, check.count("evidence-unproven")), (Status::NotChecked, 1), "{}", told(&verdict));

    // A rotation of another text does convict: the new key signed both.
    let mut other = World::new();
    let mut chain = gate.chain.clone();
    let rotate = chain.rotate(UnixMillis(START_MS + 7), &gate.key(), &new).unwrap();
    other.log.push(rotate.bytes().to_vec());
    other.seal();
    let mut bundle = other.bundle();
    bundle.insert("evidence/fork.json", document);
    let verdict = other.audit(&bundle);
    let check = verdict.check("head/evidence").unwrap();
    assert_eq!((check.status, check.count("issuer-fork")), (Status::Fail, 1), "{}", told(&verdict));
}

#[test]
fn what_a_gate_let_through_without_receipts_is_not_checked_under_its_name() {
    let mut world = World::new();
    let body = r#"{"type":"dropped","count":3,"since":1790000000000,"until":1790000001000,"why":"full"}"#;
    world.log_body(0, body);
    world.seal();
    let verdict = world.verdict();
    assert_eq!((verdict.exit_code, verdict.count("receipts-dropped")), (2, 1), "{}", told(&verdict));
    let finding =
        verdict.checks.iter().flat_map(|check| &check.findings).find(|it| it.code == "receipts-dropped").unwrap();
    assert!(finding.shown.contains("3 actions through without receipts between 20"), "{}", finding.shown);
    assert_eq!(finding.receipts[0].seq, Some(1));
    assert_eq!(verdict.count("unknown-type"), 0);
}
