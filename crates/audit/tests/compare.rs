//! Bundles of one log from several vantage points.

use crate::world;
use audit::{
    AuditedIssuer, BundleSource, CompareError, Comparing, Comparison, MemoryBundle, Severity, check_evidence, compare,
};
use note::{KeyKind, Policy, SignedCheckpoint};
use receipt::UnixMillis;
use std::collections::BTreeSet;
use world::{World, key};

const HEARTBEAT: &str = r#"{"type":"heartbeat"}"#;

fn sealed(receipts: usize) -> World {
    let mut world = World::new();
    world.log_heartbeats(receipts);
    world.seal();
    world
}

/// The world goes on with `receipts` more and a head.
fn grown(world: &World, receipts: usize) -> World {
    let mut world = world.clone();
    world.log_heartbeats(receipts);
    world.seal();
    world
}

/// A second history after `world`: the log drops its newest receipt and takes those of another gate in its place.
fn forked(world: &World, receipts: usize) -> World {
    let mut other = world.clone();
    other.log.entries.truncate(world.log.entries.len());
    other.add_gate("gate.example/other");
    for _ in 0..receipts {
        other.log_body(1, HEARTBEAT);
    }
    other.seal();
    other
}

fn try_with(bundles: &[&MemoryBundle], policy: &Policy, issuers: &[AuditedIssuer]) -> Result<Comparison, CompareError> {
    let bundles: Vec<&dyn BundleSource> = bundles.iter().map(|bundle| *bundle as &dyn BundleSource).collect();
    compare(&bundles, &Comparing { policy, issuers, threads: 2, progress: &|_, _| {} })
}

fn compared(world: &World, bundles: &[&MemoryBundle]) -> Comparison {
    try_with(bundles, &world.policy(), &world.issuers()).unwrap()
}

fn told(comparison: &Comparison) -> String {
    let mut out = String::new();
    for check in &comparison.checks {
        out.push_str(&format!("{} {} required={}: {}\n", check.id(), check.status, check.required, check.covers));
        for finding in &check.findings {
            out.push_str(&format!("    {} {:?}: {}\n", finding.code, finding.severity, finding.shown));
        }
    }
    out
}

/// Codes of the findings of a severity, each once.
fn codes(comparison: &Comparison, severity: Severity) -> BTreeSet<&'static str> {
    let findings = comparison.checks.iter().flat_map(|check| &check.findings);
    findings.filter(|finding| finding.severity == severity).map(|finding| finding.code).collect()
}

/// Who is convicted by the evidence, and by which kinds of documents. Every document must check by itself.
fn convicted(comparison: &Comparison) -> BTreeSet<(&'static str, String)> {
    let check = |document: &serde_json::Value| {
        let proven = check_evidence(&document.to_string(), &[]).unwrap_or_else(|error| panic!("{error}: {document}"));
        (proven.kind, proven.key.to_string())
    };
    comparison.evidence.iter().map(check).collect()
}

fn log_key(world: &World) -> String {
    world.log.key.log_key().verifier().to_string()
}

fn without(bundle: &MemoryBundle, is_out: impl Fn(&str) -> bool) -> MemoryBundle {
    let mut left = bundle.clone();
    for path in bundle.list().iter().filter(|path| is_out(path)) {
        left.remove(path);
    }
    left
}

#[test]
fn two_copies_of_one_bundle_are_one_history() {
    for receipts in [1, 300] {
        let world = sealed(receipts);
        let bundle = world.bundle();
        let comparison = compared(&world, &[&bundle, &bundle, &bundle]);
        assert_eq!(comparison.exit_code, 0, "{}", told(&comparison));
        assert_eq!(comparison.count("older-copy"), 0);
        assert_eq!(comparison.bundles.len(), 3);
        assert_eq!(comparison.bundles[2].authenticated_size, receipts as u64 + 1);
        assert!(comparison.evidence.is_empty());
    }
}

#[test]
fn an_older_copy_is_said_to_be_one_and_accuses_nobody() {
    let mut world = sealed(20);
    for more in [1, 250, 300] {
        let old = world.bundle();
        world = grown(&world, more);
        world.now_ms += 60_000;
        for pair in [[&old, &world.bundle()], [&world.bundle(), &old]] {
            let comparison = compared(&world, &pair);
            assert_eq!(comparison.exit_code, 0, "{}", told(&comparison));
            assert_eq!((comparison.count("older-copy"), comparison.evidence.len()), (1, 0));
            assert_eq!(codes(&comparison, Severity::Fail), BTreeSet::new());
        }
    }
}

#[test]
fn a_witness_that_was_down_or_lags_in_one_bundle_is_no_finding_against_anybody() {
    let mut world = sealed(10);
    let one = world.bundle();
    world.log_heartbeats(5);
    world.seal_for(&[0, 1]);
    let other = world.bundle();
    let comparison = compared(&world, &[&one, &other]);
    assert_eq!(comparison.exit_code, 0, "{}", told(&comparison));
}

#[test]
fn two_histories_of_one_size_convict_the_log() {
    let world = sealed(20);
    let (one, other) = (grown(&world, 11), forked(&world, 10));
    assert_eq!(one.log.entries.len(), other.log.entries.len());
    let comparison = compared(&one, &[&one.bundle(), &other.bundle()]);
    assert_eq!(comparison.exit_code, 1, "{}", told(&comparison));
    assert!(comparison.check("compare/history").unwrap().count("log-fork") >= 1, "{}", told(&comparison));
    assert!(convicted(&comparison).contains(&("log-fork", log_key(&one))));
    assert_eq!(comparison.count("entry-differs"), 11);
    let first = &comparison.check("compare/entries").unwrap().findings[0];
    assert_eq!(first.receipts[0].index, Some(21));
    assert_eq!(first.receipts.len(), 2);
    // Both bundles by themselves are in order.
    for world in [&one, &other] {
        assert_eq!(world.verdict().exit_code, 0, "{}", world::told(&world.verdict()));
    }
}

#[test]
fn two_histories_of_different_sizes_convict_the_log_whichever_is_larger() {
    let world = sealed(20);
    for (one, other) in [(5, 9), (9, 5), (300, 2), (2, 300)] {
        let (one, other) = (grown(&world, one), forked(&world, other));
        let comparison = compared(&one, &[&one.bundle(), &other.bundle()]);
        assert_eq!(comparison.exit_code, 1, "{}", told(&comparison));
        let documents = convicted(&comparison);
        assert!(documents.contains(&("log-fork", log_key(&one))), "{documents:?}\n{}", told(&comparison));
    }
}

#[test]
fn a_fork_is_found_by_tiles_where_no_bundle_has_the_entries() {
    let world = sealed(20);
    let (one, other) = (grown(&world, 5), forked(&world, 30));
    let no_entries = |world: &World| without(&world.bundle(), |path| path.starts_with("log/tile/entries/"));
    let comparison = compared(&one, &[&no_entries(&one), &no_entries(&other)]);
    assert_eq!(comparison.exit_code, 1, "{}", told(&comparison));
    assert!(convicted(&comparison).contains(&("log-fork", log_key(&one))));
    // One history, by the same tiles.
    let (old, new) = (world.bundle(), grown(&world, 30).bundle());
    let bare = |bundle: &MemoryBundle| without(bundle, |path| path.starts_with("log/tile/entries/"));
    let comparison = compared(&world, &[&bare(&old), &bare(&new)]);
    assert_eq!(codes(&comparison, Severity::Fail), BTreeSet::new(), "{}", told(&comparison));
    assert_eq!(comparison.check("compare/history").unwrap().count("older-copy"), 1, "{}", told(&comparison));
}

#[test]
fn what_cannot_be_compared_is_said_and_not_ok() {
    let world = sealed(20);
    let (old, new) = (world.bundle(), grown(&world, 30).bundle());
    let bare = |bundle: &MemoryBundle| without(bundle, |path| path.starts_with("log/tile/"));
    let comparison = compared(&world, &[&bare(&old), &bare(&new)]);
    assert_eq!(comparison.exit_code, 2, "{}", told(&comparison));
    assert_eq!(comparison.check("compare/history").unwrap().count("not-comparable"), 1);
    assert_eq!(comparison.check("compare/entries").unwrap().count("not-comparable"), 1);
    // The entries of one of them are enough.
    let comparison = compared(&world, &[&bare(&old), &new]);
    assert_eq!(comparison.check("compare/history").unwrap().count("not-comparable"), 0, "{}", told(&comparison));

    let no_journals = without(&new, |path| path.contains("/journal/"));
    let comparison = compared(&world, &[&no_journals, &new]);
    assert_eq!(comparison.exit_code, 2, "{}", told(&comparison));
    assert_eq!(comparison.count("journal-not-compared"), 3);

    let mut growing = World::new();
    let entries = std::mem::take(&mut growing.log.entries);
    growing.log = world::TestLog::new("log.example/test", 1);
    growing.seal();
    let empty = growing.bundle();
    entries.into_iter().for_each(|entry| growing.log.push(entry));
    growing.seal();
    let comparison = compared(&growing, &[&empty, &growing.bundle()]);
    assert_eq!(comparison.exit_code, 2, "{}", told(&comparison));
    assert_eq!(codes(&comparison, Severity::Fail), BTreeSet::new(), "{}", told(&comparison));
}

#[test]
fn one_head_that_cannot_be_placed_hides_nothing_of_what_both_vouch_for() {
    let world = sealed(18);
    // The witnesses of one bundle have seen a later head, whose entries and tiles nobody has.
    let (size, alone, later) = (world.log.entries.len(), world.bundle(), grown(&world, 6));
    let (mut ahead, of_later) = (alone.clone(), later.bundle());
    for path in of_later.list().iter().filter(|path| !path.starts_with("log/")) {
        ahead.insert(path.as_str(), of_later.get(path).unwrap());
    }
    for pair in [[&alone, &ahead], [&ahead, &alone]] {
        let comparison = compared(&world, &pair);
        let history = comparison.check("compare/history").unwrap();
        assert_eq!(history.covers, format!("1 of 1 pair of bundles shown to be of one history, up to size {size}"));
        assert!(!history.findings.is_empty(), "{}", told(&comparison));
        let open = &history.findings[0];
        assert_eq!((open.code, open.severity), ("not-comparable", Severity::NotChecked), "{}", told(&comparison));
        assert!(open.shown.contains(&format!("one history up to size {size}; ")), "{}", open.shown);
        assert!(open.shown.contains(&format!("a head of size {} in ", later.log.entries.len())), "{}", open.shown);
    }
}

#[test]
fn a_trimmed_list_is_found_by_the_other_bundle_and_a_shorter_one_is_not_trimmed() {
    let mut world = sealed(5);
    let mut old = None;
    for _ in 0..3 {
        world = grown(&world, 5);
        old = old.or(Some(world.bundle()));
    }
    let whole = world.bundle();
    let mut trimmed = world.clone();
    trimmed.log.heads.remove(1);
    let mut cut = without(&whole, |path| path.starts_with("log/heads/"));
    trimmed.log.write_heads(&mut cut, "log/");
    for pair in [[&whole, &cut], [&cut, &whole]] {
        let comparison = compared(&world, &pair);
        assert_eq!(codes(&comparison, Severity::Fail), BTreeSet::from(["omitted-head"]), "{}", told(&comparison));
        assert_eq!(comparison.check("compare/lists").unwrap().count("omitted-head"), 1);
    }
    // The end is missing: an older list.
    let comparison = compared(&world, &[&whole, &old.unwrap()]);
    assert_eq!(comparison.count("omitted-head"), 0, "{}", told(&comparison));
}

#[test]
fn a_head_that_only_a_witness_of_one_bundle_holds_is_missed_in_the_list_of_the_other() {
    let mut world = sealed(5);
    world.log_heartbeats(1);
    world.seal_for(&[2]);
    let hidden = world.log.heads.pop().unwrap();
    let one = world.bundle();
    world.witnesses[2].cosign(&world.log.heads[0].clone(), world.now_ms / 1000);
    let mut world_later = grown(&world, 5);
    world_later.witnesses[2].journal = world::TestLog::new("witness-3.example/journal", 23);
    let newest = world_later.log.heads.last().unwrap().clone();
    let time_s = world_later.now_ms / 1000;
    world_later.witnesses[2].cosign(&newest, time_s);
    let comparison = compared(&world, &[&one, &world_later.bundle()]);
    let lists = comparison.check("compare/lists").unwrap();
    // The list of the bundle that the witness is in lacks it as well.
    assert_eq!(lists.count("omitted-head"), 2, "{}", told(&comparison));
    assert!(lists.findings[0].shown.contains(&format!("size {}", hidden.checkpoint().size)), "{}", told(&comparison));
}

#[test]
fn heads_that_a_bundles_own_witnesses_show_and_its_list_lacks_are_no_older_copy() {
    let mut world = sealed(5);
    for _ in 0..3 {
        world = grown(&world, 5);
    }
    // The end of the list, the offered head and their entries are left out, or a head in the middle.
    let mut short = world.clone();
    short.log.heads.truncate(2);
    let size = short.log.heads[1].checkpoint().size.0;
    short.log.entries.truncate(size as usize);
    let mut trimmed = world.clone();
    trimmed.log.heads.remove(1);
    for (left_out, heads) in [(&short, 2), (&trimmed, 1)] {
        let bundle = left_out.bundle();
        assert_eq!(left_out.verdict().count("omitted-head"), heads, "{}", world::told(&left_out.verdict()));
        // Beside a copy of itself nobody else has the heads.
        for other in [&world.bundle(), &bundle] {
            let comparison = compared(&world, &[&bundle, other]);
            assert_eq!(comparison.exit_code, 1, "{}", told(&comparison));
            let lists = comparison.check("compare/lists").unwrap();
            let is_own = |finding: &&audit::Finding| {
                finding.shown.contains("that same bundle") || finding.shown.contains("in that bundle")
            };
            assert!(lists.findings.iter().filter(is_own).count() as u64 >= heads, "{}", told(&comparison));
            assert_eq!(codes(&comparison, Severity::Fail), BTreeSet::from(["omitted-head"]), "{}", told(&comparison));
            for check in &comparison.checks {
                let name = check.id().replace("bundle-1/", "").replace("bundle-2/", "");
                assert!(left_out.verdict().check(&name).is_none(), "{name} is a check of an audit");
            }
        }
    }
    let comparison = compared(&world, &[&short.bundle(), &world.bundle()]);
    let older = &comparison.check("compare/history").unwrap().findings[0];
    assert_eq!(older.code, "older-copy");
    assert!(older.shown.contains(&format!("ends at size {size},")), "{}", older.shown);
}

#[test]
fn a_witness_that_vouched_for_both_histories_is_convicted_and_others_are_not() {
    let world = sealed(20);
    let mut one = world.clone();
    one.log_heartbeats(5);
    one.seal_for(&[0, 1]);
    let mut other = forked(&world, 1);
    other.log_body(1, HEARTBEAT);
    other.witnesses = world.witnesses.clone();
    other.seal_for(&[1, 2]);
    let comparison = compared(&one, &[&one.bundle(), &other.bundle()]);
    assert_eq!(comparison.exit_code, 1, "{}", told(&comparison));
    let documents = convicted(&comparison);
    let witness = |place: usize| world.witnesses[place].key().verifier().to_string();
    assert!(documents.contains(&("witness-fork", witness(1))), "{documents:?}\n{}", told(&comparison));
    assert!(!documents.contains(&("witness-fork", witness(0))) && !documents.contains(&("witness-fork", witness(2))));
    assert_eq!(comparison.check("compare/witnesses").unwrap().count("witness-fork"), 1, "{}", told(&comparison));
}

#[test]
fn two_journals_of_one_witness_are_told_from_an_older_one() {
    let world = sealed(5);
    let (mut one, mut other) = (world.clone(), world.clone());
    let head = world.log.heads[0].clone();
    one.witnesses[0].journal_line(&head, "unchanged", 1_795_954_000);
    other.witnesses[0].journal_line(&head, "stale", 1_795_954_001);
    let comparison = compared(&world, &[&one.bundle(), &other.bundle()]);
    let journal = "compare/journal/witness-1.example";
    assert_eq!(comparison.exit_code, 1, "{}", told(&comparison));
    assert_eq!(comparison.check(journal).unwrap().count("journal-differs"), 1);
    assert!(comparison.evidence.is_empty(), "the journal's key is not known");
    // Pinned, its key is convicted; also where one is longer.
    let pinned = world.witnesses[0].journal.key.log_key().verifier();
    other.witnesses[0].journal_line(&head, "unchanged", 1_795_954_002);
    let policy = Policy::parse(format!("log {pinned}\n{}", world.policy_text()).as_bytes()).unwrap();
    let comparison = try_with(&[&one.bundle(), &other.bundle()], &policy, &world.issuers()).unwrap();
    assert_eq!(convicted(&comparison), BTreeSet::from([("log-fork", pinned.to_string())]), "{}", told(&comparison));

    // Longer, and the beginning is the same.
    let comparison = compared(&world, &[&world.bundle(), &one.bundle()]);
    assert_eq!(comparison.exit_code, 0, "{}", told(&comparison));
    // The shorter was vouched for later.
    let mut later = world.clone();
    later.now_ms += 3_600_000;
    let comparison = compared(&world, &[&later.bundle(), &one.bundle()]);
    assert_eq!(codes(&comparison, Severity::Fail), BTreeSet::from(["journal-rollback"]), "{}", told(&comparison));
}

#[test]
fn an_issuer_that_signed_two_streams_is_convicted_if_its_key_is_known() {
    let world = sealed(4);
    let fork = |operation: &str| {
        let mut world = world.clone();
        world.log_body(0, &world::decision("r", true, operation, "s", "", "").to_string());
        world.log_heartbeats(3);
        world.seal();
        world
    };
    let (one, other) = (fork("READ"), fork("WRITE"));
    let comparison = compared(&world, &[&one.bundle(), &other.bundle()]);
    let issuer = world.gates[0].key().verifier().to_string();
    assert!(convicted(&comparison).contains(&("issuer-fork", issuer)), "{}", told(&comparison));
    let issuers = comparison.check("compare/issuers").unwrap();
    assert_eq!(issuers.count("issuer-fork"), 1, "one finding an issuer");
    assert_eq!(issuers.findings[0].receipts[0].seq, Some(5));
    // Without its key nobody is accused but the log.
    let comparison = try_with(&[&one.bundle(), &other.bundle()], &world.policy(), &[]).unwrap();
    let issuers = comparison.check("compare/issuers").unwrap();
    assert_eq!((issuers.count("issuer-fork"), issuers.count("stream-differs")), (0, 1), "{}", told(&comparison));
    assert!(convicted(&comparison).iter().all(|(kind, _)| *kind != "issuer-fork"));
}

#[test]
fn an_issuers_fork_after_a_rotation_is_shown_by_the_key_that_it_rotated_to() {
    let mut world = sealed(2);
    let (old, new) = (world.gates[0].key(), key("gate.example/support-1", KeyKind::Ed25519, 77));
    let rotation = world.gates[0].chain.rotate(UnixMillis(world.now_ms), &old, &new).unwrap();
    world.log.push(rotation.bytes().to_vec());
    world.seal();
    let issuers = world.issuers();
    let fork = |body: &str| {
        let mut world = world.clone();
        world.now_ms += 1000;
        let receipt = world.gates[0].chain.append(body, UnixMillis(world.now_ms), &new).unwrap();
        world.log.push(receipt.bytes().to_vec());
        world.seal();
        world
    };
    let (one, other) = (fork(HEARTBEAT), fork(r#"{"type":"close"}"#));
    let comparison = try_with(&[&one.bundle(), &other.bundle()], &world.policy(), &issuers).unwrap();
    assert!(convicted(&comparison).contains(&("issuer-fork", new.verifier().to_string())), "{}", told(&comparison));
}

#[test]
fn the_same_receipts_in_another_order_are_no_issuers_fault() {
    let mut world = World::new();
    world.add_gate("gate.example/other");
    world.seal();
    let (mut one, mut other) = (world.clone(), world.clone());
    for step in 0..6 {
        one.log_body(step % 2, HEARTBEAT);
        // The other gate first, at the same times.
        other.now_ms = one.now_ms + if step % 2 == 0 { 1000 } else { 0 } - 1000;
        other.log_body((step + 1) % 2, HEARTBEAT);
    }
    // The clocks are set so that the receipts are the same, whoever comes first.
    let receipts = |world: &World| world.log.entries.iter().cloned().collect::<BTreeSet<_>>();
    let mut shuffled = one.clone();
    shuffled.log = world.log.clone();
    for pair in one.log.entries[world.log.entries.len()..].chunks(2) {
        shuffled.log.push(pair[1].clone());
        shuffled.log.push(pair[0].clone());
    }
    one.seal();
    shuffled.seal();
    assert_eq!(receipts(&one), receipts(&shuffled));
    let comparison = compared(&world, &[&one.bundle(), &shuffled.bundle()]);
    assert_eq!(comparison.exit_code, 1);
    assert_eq!(comparison.check("compare/issuers").unwrap().findings, [], "{}", told(&comparison));
    assert!(convicted(&comparison).contains(&("log-fork", log_key(&world))));
}

#[test]
fn an_entry_changed_in_one_bundle_is_a_difference_and_convicts_nobody() {
    let world = sealed(30);
    let bundle = world.bundle();
    let mut changed = world.clone();
    let last = changed.log.entries[7].len() - 10;
    changed.log.entries[7][last] ^= 1;
    let mut other = without(&bundle, |path| path.starts_with("log/tile/entries/"));
    world::write_pages(&mut other, "log/", &changed.log.entries, merkle::ResourcePath::Entries);
    let comparison = compared(&world, &[&bundle, &other]);
    assert_eq!(comparison.exit_code, 1, "{}", told(&comparison));
    assert_eq!(comparison.count("entry-differs"), 1);
    assert_eq!((comparison.count("log-fork"), comparison.evidence.len()), (0, 0), "{}", told(&comparison));
}

#[test]
fn bundles_of_two_logs_and_single_ones_are_refused() {
    let world = sealed(3);
    let mut elsewhere = World::new();
    elsewhere.log = world::TestLog::new("log.example/elsewhere", 2);
    elsewhere.log_heartbeats(3);
    elsewhere.seal();
    let (one, other) = (world.bundle(), elsewhere.bundle());
    let vkey = elsewhere.log.key.log_key().verifier();
    let policy = Policy::parse(format!("log {vkey}\n{}", world.policy_text()).as_bytes()).unwrap();
    let refused = |bundles: &[&MemoryBundle], policy: &Policy| try_with(bundles, policy, &[]).unwrap_err();
    let error = refused(&[&one, &one, &other], &policy);
    assert!(matches!(error, CompareError::DifferentLogs { number: 3, .. }), "{error}");
    assert!(error.to_string().contains("log.example/elsewhere"), "{error}");
    assert!(matches!(refused(&[&one, &other], &world.policy()), CompareError::NoLog { number: 2, .. }));
    assert_eq!(refused(&[&one], &policy), CompareError::Number(1));
    assert_eq!(refused(&[&one; 17], &policy), CompareError::Number(17));
}

#[test]
fn a_cosignature_of_nobodys_key_and_a_forged_head_add_nothing() {
    let world = sealed(5);
    let bundle = world.bundle();
    let mut forged = bundle.clone();
    let mut bytes = bundle.get("log/checkpoint").unwrap().to_vec();
    let place = bytes.len() - 5;
    bytes[place] ^= 1;
    forged.insert("witness/witness-1.example/checkpoint", bytes);
    let stranger = key("log.example/test", KeyKind::Ed25519, 99);
    let head = note::Checkpoint::new(note::Origin::from(stranger.name()), merkle::TreeSize(9), merkle::EMPTY_ROOT);
    let head: SignedCheckpoint<_> = note::sign_checkpoint(&head, &stranger).unwrap();
    forged.insert("witness/witness-2.example/checkpoint", head.bytes());
    let comparison = compared(&world, &[&bundle, &forged]);
    assert_eq!(comparison.count("log-fork") + comparison.count("witness-fork"), 0, "{}", told(&comparison));
    assert!(comparison.evidence.is_empty());
    assert_ne!(comparison.exit_code, 0, "a copy that cannot be used is said to be none");
}
