//! The head and quorum families over whole bundles.

use crate::world;
use audit::{BundleSource, MemoryBundle, Rules, Status, check_evidence};
use merkle::ResourcePath;
use note::Policy;
use world::{START_MS, START_S, World, failures, told, write_pages};

fn sealed(receipts: usize) -> World {
    let mut world = World::new();
    world.log_heartbeats(receipts);
    world.seal();
    world
}

#[test]
fn an_honest_log_is_ok_in_every_required_check() {
    let mut world = World::new();
    for _ in 0..4 {
        world.log_heartbeats(150);
        world.seal();
    }
    let verdict = world.verdict();
    assert_eq!(verdict.exit_code, 0, "{}", told(&verdict));
    assert_eq!(verdict.coverage.entries, 601);
    assert_eq!(verdict.coverage.authenticated_size, 601);
    assert_eq!(verdict.coverage.heads, 4);
    assert_eq!(verdict.coverage.cosigned_sizes, Some([601, 601]));
    assert_eq!(verdict.coverage.issued_at_ms, Some([START_MS, START_MS + 600_000]));
    assert_eq!((verdict.tolerance.min_quorum, verdict.tolerance.liars_for_split_view), (2, 1));
    assert!(verdict.checks.iter().all(|check| check.status == Status::Ok || !check.required));
}

#[test]
fn an_empty_log_is_not_checked_and_says_so() {
    let mut world = World::new();
    world.log = world::TestLog::new("log.example/test", 1);
    world.seal();
    let verdict = world.verdict();
    assert_eq!(verdict.exit_code, 2, "{}", told(&verdict));
    assert_eq!(verdict.check("head/root").unwrap().count("empty-log"), 1);
    assert_eq!(verdict.check("issuer/gate.example/support-1").unwrap().count("issuer-absent"), 1);
}

#[test]
fn a_bundle_of_nothing_is_not_checked() {
    let world = sealed(3);
    let verdict = world.audit(&MemoryBundle::new());
    assert_eq!(verdict.exit_code, 2, "{}", told(&verdict));
    assert!(failures(&verdict).is_empty());
}

#[test]
fn a_log_that_the_policy_does_not_pin_is_not_checked() {
    let world = sealed(3);
    let text = world.policy_text().replacen("log.example/test", "log.example/other", 1);
    let other = world::key("log.example/other", note::KeyKind::Ed25519, 1).verifier();
    let text = text.lines().skip(1).fold(format!("log {other}\n"), |text, line| format!("{text}{line}\n"));
    let policy = Policy::parse(text.as_bytes()).unwrap();
    let verdict = world.audit_with(&world.bundle(), &policy, &world.issuers(), &Rules::built_in(), None, None);
    assert_eq!((verdict.exit_code, verdict.count("log-not-pinned")), (2, 1), "{}", told(&verdict));
}

#[test]
fn a_bundle_without_journals_is_not_checked() {
    let world = sealed(3);
    let mut bundle = world.bundle();
    for path in BundleSource::list(&bundle).iter().filter(|path| path.contains("/journal/")) {
        bundle.remove(path);
    }
    let verdict = world.audit(&bundle);
    assert_eq!((verdict.exit_code, verdict.count("journal-missing")), (2, 3), "{}", told(&verdict));
}

#[test]
fn a_journal_whose_key_nobody_vouches_for_is_not_relied_on() {
    let world = sealed(3);
    let mut bundle = world.bundle();
    let path = "witness/witness-1.example/journal/checkpoint";
    let head = note::SignedCheckpoint::parse(bundle.get(path).unwrap()).unwrap();
    let journal_key = world.witnesses[0].journal.key.log_key().verifier();
    bundle.insert(path, head.verify(&journal_key).unwrap().log_signed_only().bytes());
    let verdict = world.audit(&bundle);
    assert_eq!((verdict.exit_code, verdict.count("journal-unusable")), (2, 1), "{}", told(&verdict));
    // Pinned in the policy, it counts.
    let policy = Policy::parse(format!("log {journal_key}\n{}", world.policy_text()).as_bytes()).unwrap();
    let verdict = world.audit_with(&bundle, &policy, &world.issuers(), &Rules::built_in(), None, None);
    assert_eq!(verdict.exit_code, 0, "{}", told(&verdict));
}

#[test]
fn the_newest_heads_left_out_of_a_bundle_are_found_by_what_witnesses_hold() {
    let mut world = sealed(5);
    let old = world.bundle();
    world.log_heartbeats(5);
    world.seal();
    let mut bundle = world.bundle();
    // The log as it was, the witnesses as they are.
    for path in BundleSource::list(&bundle).iter().filter(|path| path.starts_with("log/")) {
        bundle.remove(path);
    }
    for path in BundleSource::list(&old).iter().filter(|path| path.starts_with("log/")) {
        bundle.insert(path.clone(), old.get(path).unwrap());
    }
    let verdict = world.audit(&bundle);
    assert_eq!(verdict.exit_code, 1, "{}", told(&verdict));
    assert_eq!(failures(&verdict), [(String::from("head/known-heads"), "omitted-head")]);

    // Only the journal of one witness knows.
    for number in 1..=3 {
        let path = format!("witness/witness-{number}.example/checkpoint");
        bundle.insert(path.clone(), old.get(&path).unwrap());
    }
    for number in 2..=3 {
        for path in BundleSource::list(&bundle)
            .iter()
            .filter(|path| path.starts_with(&format!("witness/witness-{number}.example/journal")))
        {
            bundle.remove(path);
        }
        for path in BundleSource::list(&old)
            .iter()
            .filter(|path| path.starts_with(&format!("witness/witness-{number}.example/journal")))
        {
            bundle.insert(path.clone(), old.get(path).unwrap());
        }
    }
    let verdict = world.audit(&bundle);
    assert_eq!(failures(&verdict), [(String::from("head/known-heads"), "omitted-head")], "{}", told(&verdict));

    // Only a kept proof knows.
    let mut bundle = old;
    let (proof, entry) = world.proof(8);
    bundle.insert("proofs/a.tlog-proof", proof);
    bundle.insert("proofs/a.entry", entry);
    let verdict = world.audit(&bundle);
    let expected = [
        (String::from("head/known-heads"), "omitted-head"),
        (String::from("issuer/gate.example/support-1"), "tail-short"),
    ];
    assert_eq!(failures(&verdict), expected, "{}", told(&verdict));
}

#[test]
fn a_head_that_the_logs_list_leaves_out_is_found() {
    let mut world = World::new();
    for _ in 0..3 {
        world.log_heartbeats(4);
        world.seal();
    }
    let mut bundle = world.bundle();
    let heads: Vec<Vec<u8>> = [0, 2].map(|place| world.log.heads[place].bytes().to_vec()).to_vec();
    bundle.remove("log/heads/000.p/3");
    write_pages(&mut bundle, "log/", &heads, ResourcePath::Heads);
    let verdict = world.audit(&bundle);
    assert_eq!((verdict.exit_code, verdict.count("omitted-head")), (1, 1), "{}", told(&verdict));
}

#[test]
fn a_list_that_does_not_have_the_offered_head_is_found() {
    let mut world = sealed(3);
    world.log_heartbeats(3);
    world.seal();
    let mut bundle = world.bundle();
    bundle.remove("log/heads/000.p/2");
    write_pages(&mut bundle, "log/", &[world.log.heads[0].bytes().to_vec()], ResourcePath::Heads);
    let verdict = world.audit(&bundle);
    assert_eq!(verdict.check("head/heads").unwrap().count("omitted-head"), 1, "{}", told(&verdict));
    assert_eq!(verdict.exit_code, 1);
}

/// A second history of the same log: the first `keep` entries, then others of another gate.
fn second_history(world: &World, keep: usize, more: usize) -> World {
    let mut second = world.clone();
    second.log.entries.truncate(keep);
    second.log.tree = merkle::MemoryTree::new();
    for entry in &second.log.entries {
        second.log.tree.push(merkle::leaf_hash(entry));
    }
    second.log.heads.clear();
    let mut gate = world::TestGate::new("gate.example/second", 77);
    let open = gate.open(START_MS);
    second.log.push(open.bytes().to_vec());
    for number in 1..more as u64 {
        let receipt = gate.issue(r#"{"type":"heartbeat"}"#, START_MS + number);
        second.log.push(receipt.bytes().to_vec());
    }
    second
}

#[test]
fn a_second_history_shown_to_a_witness_becomes_evidence_against_the_log() {
    // The forked head is smaller, equal, and equal to a power of two.
    for (honest, keep, more) in [(20, 5, 3), (20, 5, 16), (20, 4, 4), (300, 100, 157)] {
        let mut world = sealed(honest);
        let mut second = second_history(&world, keep, more);
        let forked = second.log.seal();
        world.witnesses[2].journal_line(&forked, "fork", world.now_ms / 1000);
        let verdict = world.verdict();
        assert_eq!(verdict.exit_code, 1, "{}", told(&verdict));
        assert_eq!(verdict.check("head/known-heads").unwrap().count("log-fork"), 1, "{}", told(&verdict));
        assert_eq!(verdict.evidence.len(), 1);
        let proven = check_evidence(&verdict.evidence[0].to_string(), &[]).unwrap();
        assert_eq!((proven.kind, proven.key), ("log-fork", world.log.key.log_key().verifier()));
    }
}

#[test]
fn a_fork_inside_the_logs_own_list_becomes_evidence() {
    let mut world = sealed(20);
    let mut second = second_history(&world, 5, 3);
    let forked = second.log.seal();
    world.log.heads.insert(0, forked);
    let verdict = world.verdict();
    assert_eq!(verdict.check("head/heads").unwrap().count("log-fork"), 1, "{}", told(&verdict));
    assert_eq!(check_evidence(&verdict.evidence[0].to_string(), &[]).unwrap().kind, "log-fork");
}

#[test]
fn a_longer_second_history_is_a_head_that_the_presented_log_leaves_out() {
    let mut world = sealed(20);
    let mut second = second_history(&world, 5, 40);
    let forked = second.log.seal();
    world.witnesses[0].cosign(&forked, START_S + 100);
    let verdict = world.verdict();
    assert_eq!(failures(&verdict), [(String::from("head/known-heads"), "omitted-head")], "{}", told(&verdict));
}

#[test]
fn a_log_that_goes_back_in_its_list_is_found() {
    let mut world = sealed(3);
    world.log_heartbeats(3);
    world.seal();
    world.log.heads.swap(0, 1);
    let head = world.log.heads[0].clone();
    world.log.heads.push(head);
    let verdict = world.verdict();
    assert_eq!(verdict.check("head/heads").unwrap().count("heads-rollback"), 1, "{}", told(&verdict));
}

#[test]
fn freshness_is_the_time_at_which_a_quorum_last_vouched() {
    let mut world = sealed(10);
    let cosigned_s = world.now_ms / 1000;
    // One witness alone cannot make it fresher.
    let head = world.log.heads[0].clone();
    world.witnesses[0].cosign(&head, cosigned_s + 1000);
    let verdict = |at_s: u64, max_age_ms| {
        world.audit_with(
            &world.bundle(),
            &world.policy(),
            &world.issuers(),
            &Rules::built_in(),
            Some(at_s * 1000),
            Some(max_age_ms),
        )
    };
    let fresh = verdict(cosigned_s + 60, 60_000);
    assert_eq!((fresh.exit_code, fresh.coverage.quorum_at_s), (0, Some(cosigned_s)), "{}", told(&fresh));
    let stale = verdict(cosigned_s + 61, 60_000);
    assert_eq!(failures(&stale), [(String::from("head/freshness"), "stale")], "{}", told(&stale));
    let timeless =
        world.audit_with(&world.bundle(), &world.policy(), &world.issuers(), &Rules::built_in(), None, Some(60_000));
    assert_eq!((timeless.exit_code, timeless.count("age-unknown")), (2, 1));
    // Clocks may differ by five minutes; beyond that the time given is not one at which the bundle was there.
    assert_eq!(verdict(cosigned_s - 300, 60_000).check("head/freshness").unwrap().status, Status::Ok);
    let before = verdict(cosigned_s - 301, 60_000).check("head/freshness").unwrap().clone();
    assert_eq!((before.status, before.count("age-unknown")), (Status::NotChecked, 1));
}

#[test]
fn a_quorum_is_joined_from_witnesses_that_cosigned_later_heads() {
    let mut world = sealed(4);
    world.witnesses.iter_mut().for_each(|witness| witness.checkpoint = None);
    world.log_heartbeats(4);
    let middle = world.seal_for(&[0]);
    world.log_heartbeats(4);
    world.seal_for(&[1]);
    world.witnesses[2].cosign(&world.log.heads[0].clone(), world.now_ms / 1000);
    // The log still offers the middle head: one direct, one joined, one that looked at an earlier head only.
    let mut bundle = world.bundle();
    bundle.insert("log/checkpoint", world.with_cosignatures(&middle).bytes());
    let verdict = world.audit(&bundle);
    assert_eq!(verdict.exit_code, 0, "{}", told(&verdict));
    let covers = &verdict.check("quorum/newest-head").unwrap().covers;
    assert!(covers.contains("cosigned by: \"witness-1.example\"; by a later head: \"witness-2.example\""), "{covers}");

    // Without the later head's cosignature there is no quorum.
    bundle.insert("witness/witness-2.example/checkpoint", world.witnesses[2].checkpoint.as_ref().unwrap().bytes());
    let verdict = world.audit(&bundle);
    assert_eq!(failures(&verdict), [(String::from("quorum/newest-head"), "quorum-missing")], "{}", told(&verdict));
}

#[test]
fn a_later_cosignature_of_another_history_joins_no_quorum() {
    let mut world = sealed(4);
    world.witnesses.iter_mut().for_each(|witness| witness.checkpoint = None);
    let mut other = world.clone();
    world.log_heartbeats(4);
    world.seal_for(&[0]);
    other.now_ms += 7;
    other.log_heartbeats(8);
    let later = other.log.seal();
    for beyond in [false, true] {
        let mut world = world.clone();
        match beyond {
            // A head of the other history ...
            false => world.witnesses[1].cosign(&later, world.now_ms / 1000),
            // ... or one of which nothing shows that it continues this one.
            true => {
                let mut longer = world.clone();
                longer.log_heartbeats(4);
                world.witnesses[1].cosign(&longer.log.seal(), world.now_ms / 1000);
            }
        }
        let verdict = world.verdict();
        assert_eq!(verdict.check("quorum/newest-head").unwrap().count("quorum-missing"), 1, "{}", told(&verdict));
        assert_eq!(verdict.exit_code, 1);
    }
}

#[test]
fn a_head_that_no_witness_cosigned_fails() {
    let mut world = World::new();
    world.log_heartbeats(3);
    world.seal_for(&[]);
    let verdict = world.verdict();
    let codes: Vec<&str> = failures(&verdict).into_iter().map(|(_, code)| code).collect();
    assert_eq!(codes, ["never-witnessed", "quorum-missing"], "{}", told(&verdict));
}

#[test]
fn a_bad_line_under_a_known_key_is_found_and_an_unknown_one_noticed() {
    let world = sealed(3);
    let mut bundle = world.bundle();
    let mut head = String::from_utf8(bundle.get("log/checkpoint").unwrap().to_vec()).unwrap();
    let line = world::key("witness-1.example", note::KeyKind::CosignatureV1, 11);
    let stolen = note::cosign("another text\n", &line, START_S).unwrap();
    head.push_str(&format!("{}\n", stolen.line));
    bundle.insert("log/checkpoint", head.clone());
    let verdict = world.audit(&bundle);
    assert_eq!(failures(&verdict), [(String::from("quorum/lines"), "bad-cosignature")], "{}", told(&verdict));

    let stranger = note::cosign(
        world.log.heads[0].note().text(),
        &world::key("stranger.example", note::KeyKind::CosignatureV1, 99),
        START_S,
    )
    .unwrap();
    let head = head.replace(&stolen.line, &stranger.line);
    bundle.insert("log/checkpoint", head);
    let verdict = world.audit(&bundle);
    assert_eq!((verdict.exit_code, verdict.count("unknown-signature-line")), (0, 1), "{}", told(&verdict));
}

#[test]
fn a_witness_that_vouches_for_two_histories_is_accused() {
    for (keep, more) in [(5, 3), (5, 16)] {
        let mut world = sealed(20);
        let mut second = second_history(&world, keep, more);
        let forked = second.log.seal();
        // It cosigned the log's newest head, which stands in log/checkpoint, and then the other history.
        let newest = world.with_cosignatures(&world.log.heads[0]);
        world.witnesses[1].cosign(&forked, START_S + 100);
        let mut bundle = world.bundle();
        bundle.insert("log/checkpoint", newest.bytes());
        let verdict = world.audit(&bundle);
        assert_eq!(verdict.check("quorum/witnesses").unwrap().count("witness-fork"), 1, "{}", told(&verdict));
        let kinds: Vec<&str> =
            verdict.evidence.iter().map(|document| check_evidence(&document.to_string(), &[]).unwrap().kind).collect();
        assert_eq!(kinds, ["log-fork", "witness-fork"]);
    }
}

#[test]
fn a_policy_without_a_quorum_is_not_checked() {
    let world = sealed(3);
    let policy =
        Policy::parse(format!("log {}\nquorum none\n", world.log.key.log_key().verifier()).as_bytes()).unwrap();
    let verdict = world.audit_with(&world.bundle(), &policy, &world.issuers(), &Rules::built_in(), None, None);
    assert_eq!((verdict.exit_code, verdict.count("quorum-none")), (2, 1), "{}", told(&verdict));
}

#[test]
fn heads_signed_but_not_yet_offered_are_checked_and_noticed() {
    let mut world = sealed(5);
    let offered = world.with_cosignatures(&world.log.heads[0]);
    world.log_heartbeats(5);
    world.seal_for(&[]);
    let mut bundle = world.bundle();
    bundle.insert("log/checkpoint", offered.bytes());
    let verdict = world.audit(&bundle);
    assert_eq!((verdict.exit_code, verdict.count("not-yet-offered")), (0, 1), "{}", told(&verdict));
    assert_eq!((verdict.coverage.head_size, verdict.coverage.authenticated_size), (Some(6), 11));
}

#[test]
fn an_offered_head_behind_what_a_witness_holds_is_noticed() {
    let mut world = sealed(5);
    let offered = world.with_cosignatures(&world.log.heads[0]);
    world.log_heartbeats(5);
    world.seal();
    let mut bundle = world.bundle();
    bundle.insert("log/checkpoint", offered.bytes());
    let verdict = world.audit(&bundle);
    assert_eq!((verdict.exit_code, verdict.count("offered-behind")), (0, 1), "{}", told(&verdict));
}

#[test]
fn kept_proofs_are_compared_and_bad_ones_prove_nothing() {
    let world = sealed(300);
    let mut bundle = world.bundle();
    let (proof, entry) = world.proof(280);
    bundle.insert("proofs/a.tlog-proof", proof.clone());
    bundle.insert("proofs/a.entry", entry.clone());
    let verdict = world.audit(&bundle);
    assert_eq!(
        (verdict.exit_code, verdict.check("head/kept-proofs").unwrap().status),
        (0, Status::Ok),
        "{}",
        told(&verdict)
    );

    let mut damaged = entry.clone();
    damaged[0] ^= 1;
    bundle.insert("proofs/a.entry", damaged);
    let verdict = world.audit(&bundle);
    assert_eq!((verdict.exit_code, verdict.count("proof-unverified")), (2, 1), "{}", told(&verdict));

    bundle.remove("proofs/a.entry");
    assert_eq!(world.audit(&bundle).count("proof-unverified"), 1);
}

#[test]
fn a_receipt_that_was_proven_and_is_not_there_is_found() {
    let world = sealed(20);
    let mut second = second_history(&world, 5, 16);
    second.seal();
    second.gates.push(world::TestGate::new("gate.example/second", 77));
    let mut bundle = second.bundle();
    let (proof, entry) = world.proof(10);
    bundle.insert("proofs/a.tlog-proof", proof);
    bundle.insert("proofs/a.entry", entry);
    let verdict = second.audit(&bundle);
    assert_eq!((verdict.exit_code, verdict.count("omitted-receipt")), (1, 1), "{}", told(&verdict));
    assert!(verdict.count("log-fork") >= 1);
    assert_eq!(verdict.count("tail-short"), 1);
}

#[test]
fn evidence_in_a_bundle_counts_when_it_stands() {
    let mut world = sealed(20);
    let mut second = second_history(&world, 5, 16);
    let forked = second.log.seal();
    let document = serde_json::to_string(&cosign::LogFork::make(&forked, &world.log.heads[0], None).unwrap()).unwrap();
    world.log.heads.truncate(1);
    let mut bundle = world.bundle();
    bundle.insert("evidence/1.json", document.clone());
    let verdict = world.audit(&bundle);
    assert_eq!(failures(&verdict), [(String::from("head/evidence"), "log-fork")], "{}", told(&verdict));
    bundle.insert("evidence/1.json", document.replace("first", "frist"));
    assert_eq!(world.audit(&bundle).exit_code, 2);
}

#[test]
fn copies_of_the_auditors_files_are_ignored_and_reported() {
    let world = sealed(3);
    let mut bundle = world.bundle();
    bundle.insert("policy", "quorum none\n");
    bundle.insert("issuers", "");
    bundle.insert("witness/stranger.example/checkpoint", "x");
    bundle.insert("log/notes.txt", "x");
    let verdict = world.audit(&bundle);
    assert_eq!(verdict.exit_code, 0, "{}", told(&verdict));
    assert_eq!(verdict.coverage.ignored, ["issuers", "log/notes.txt", "policy", "witness/stranger.example/checkpoint"]);
}

#[test]
fn an_old_journal_of_a_witness_is_not_enough() {
    let mut world = sealed(5);
    let old = world.bundle();
    world.log_heartbeats(5);
    world.seal();
    let mut bundle = world.bundle();
    assert_eq!(world.audit(&bundle).exit_code, 0);
    let dir = "witness/witness-2.example/journal/";
    let put_back = |bundle: &mut MemoryBundle| {
        bundle.list().iter().filter(|path| path.starts_with(dir)).for_each(|path| drop(bundle.remove(path)));
        old.list()
            .iter()
            .filter(|path| path.starts_with(dir))
            .for_each(|path| bundle.insert(path.as_str(), old.get(path).unwrap()));
    };
    put_back(&mut bundle);
    let verdict = world.audit(&bundle);
    assert_eq!((verdict.exit_code, verdict.count("journal-behind")), (2, 1), "{}", told(&verdict));

    // The head is the same all day, and the journal is that of the morning.
    let mut world = sealed(5);
    world.now_ms += 86_400_000;
    let head = world.log.heads[0].clone();
    let time_s = world.now_ms / 1000;
    world.witnesses.iter_mut().for_each(|witness| witness.cosign(&head, time_s));
    let mut bundle = world.bundle();
    assert_eq!(world.audit(&bundle).exit_code, 0, "{}", told(&world.audit(&bundle)));
    put_back(&mut bundle);
    let verdict = world.audit(&bundle);
    assert_eq!((verdict.exit_code, verdict.count("journal-behind")), (2, 1), "{}", told(&verdict));
}

#[test]
fn a_silent_witness_is_named_though_the_quorum_can_do_without_it() {
    let mut world = sealed(5);
    world.now_ms += 600_000;
    world.log_heartbeats(1);
    world.seal_for(&[0, 1]);
    let audit = |at, max_age_ms| {
        let (policy, issuers) = (world.policy(), world.issuers());
        world.audit_with(&world.bundle(), &policy, &issuers, &Rules::built_in(), at, max_age_ms)
    };
    let verdict = audit(Some(world.now_ms), Some(60_000));
    let check = verdict.check("quorum/silent-witnesses").unwrap();
    assert_eq!((check.status, check.required, check.count("silent-witness")), (Status::NotChecked, true, 1));
    assert!(check.findings[0].shown.contains("witness-3.example"), "{}", check.findings[0].shown);
    assert_eq!(verdict.exit_code, 2, "{}", told(&verdict));
    assert_eq!(audit(Some(world.now_ms), Some(3_600_000)).exit_code, 0);
    let unasked = audit(Some(world.now_ms), None);
    let check = unasked.check("quorum/silent-witnesses").unwrap();
    assert_eq!((check.status, check.required, unasked.exit_code), (Status::NotChecked, false, 0));
}

#[test]
fn what_is_beside_the_bundle_is_named_as_ignored_on_one_line() {
    let world = sealed(5);
    let mut bundle = world.bundle();
    for path in ["evidence/fork.JSON", "proofs/r.tlog-prooF", "notes\nok: every required check is ok"] {
        bundle.insert(path, "x");
    }
    let verdict = world.audit(&bundle);
    assert_eq!(
        verdict.coverage.ignored,
        ["evidence/fork.JSON", "notes\\u{a}ok: every required check is ok", "proofs/r.tlog-prooF"]
    );
}

#[test]
fn what_lies_beside_a_journal_or_is_a_kept_entry_without_its_proof_is_named_as_ignored() {
    let world = sealed(5);
    let mut bundle = world.bundle();
    let dir = audit::witness_dir(world.witnesses[0].key().name());
    let journal = [format!("{dir}/journal/README"), format!("{dir}/journal/tile/entries/000.p/2.old")];
    let ignored = [vec![String::from("proofs/alone.entry")], journal.to_vec()].concat();
    ignored.iter().for_each(|path| bundle.insert(path, "x"));
    let verdict = world.audit(&bundle);
    assert_eq!((verdict.exit_code, verdict.coverage.ignored.clone()), (0, ignored), "{}", told(&verdict));
}

#[test]
fn pages_and_tiles_beyond_a_journals_own_head_are_named() {
    let world = sealed(5);
    let mut bundle = world.bundle();
    let dir = audit::witness_dir(world.witnesses[0].key().name());
    let beyond = [format!("{dir}/journal/tile/entries/007"), format!("{dir}/journal/tile/0/000.p/99")];
    beyond.iter().for_each(|path| bundle.insert(path, "x"));
    let verdict = world.audit(&bundle);
    let known = verdict.check("head/known-heads").unwrap();
    let told_of = known.findings.iter().find(|finding| finding.code == "tile-beyond");
    assert!(beyond.iter().all(|path| told_of.unwrap().shown.contains(path)), "{}", told(&verdict));
    assert_eq!(verdict.exit_code, 0);
}

#[test]
fn what_nobody_looked_at_is_named_and_nothing_else_changes() {
    let world = sealed(5);
    let mut bundle = world.bundle();
    let mut wider = bundle.remove("log/tile/entries/000.p/6").unwrap();
    merkle::encode_entry(&mut wider, b"junk").unwrap();
    bundle.insert("log/tile/entries/000.p/7", wider);
    bundle.insert("log/tile/entries/004", "x");
    bundle.insert("log/tile/5/077", "x");
    let head = world.log.heads[0].bytes().to_vec();
    bundle.remove("log/heads/000.p/1");
    write_pages(&mut bundle, "log/", &[head.clone(), head], ResourcePath::Heads);
    let verdict = world.audit(&bundle);
    assert_eq!((verdict.exit_code, verdict.count("heads-repeated")), (0, 1), "{}", told(&verdict));
    let tiles = verdict.check("head/tiles").unwrap();
    let beyond = tiles.findings.iter().find(|finding| finding.code == "tile-beyond").unwrap();
    for path in ["log/tile/entries/000.p/7", "log/tile/entries/004", "log/tile/5/077"] {
        assert!(beyond.shown.contains(path), "{}", beyond.shown);
    }
}

#[test]
fn a_log_that_serves_no_list_of_heads_is_not_accused_of_the_many_that_witnesses_saw() {
    let mut world = World::new();
    for _ in 0..1100 {
        world.log_heartbeats(1);
        world.seal();
    }
    let whole = world.verdict();
    assert_eq!(whole.exit_code, 0, "{}", told(&whole));
    let mut bundle = world.bundle();
    let pages: Vec<String> = bundle.list().into_iter().filter(|path| path.starts_with("log/heads/")).collect();
    pages.iter().for_each(|page| drop(bundle.remove(page)));
    let without = world.audit(&bundle);
    assert_eq!((without.exit_code, failures(&without)), (2, vec![]), "{}", told(&without));
    assert_eq!((without.count("heads-missing"), without.count("head-uncovered")), (1, 1));
    assert_eq!(without.completeness.log.heads_omitted, 0);
    // A list that begins later than witnesses saw heads is one with heads left out.
    let dense = world.log.heads.clone();
    world.log.heads = dense[1050..].to_vec();
    let trimmed = world.verdict();
    assert_eq!(trimmed.count("omitted-head"), 1001);
    assert!(trimmed.completeness.log.heads_omitted >= 1050);
}
