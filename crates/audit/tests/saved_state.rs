//! An audit that goes on from what an earlier one saved ends like one that reads everything.

use crate::world;
use audit::{
    Audited, AuditedIssuer, MemoryBundle, ReadError, Rules, SavedAudit, StateError, Status, Terms, Verdict, audit_since,
};
use receipt::UnixMillis;
use serde_json::json;
use world::{START_MS, World, decision};

/// Audits with `world`'s policy and issuers.
fn audited(
    world: &World,
    bundle: &MemoryBundle,
    deadline_ms: Option<u64>,
    since: Option<SavedAudit>,
) -> Result<Audited, ReadError> {
    audited_by(world, bundle, &world.issuers(), &Rules::built_in(), deadline_ms, since)
}

fn audited_by(
    world: &World,
    bundle: &MemoryBundle,
    issuers: &[AuditedIssuer],
    rules: &Rules,
    deadline_ms: Option<u64>,
    since: Option<SavedAudit>,
) -> Result<Audited, ReadError> {
    let policy = world.policy();
    let terms = Terms {
        policy: &policy,
        issuers,
        rules,
        at: Some(UnixMillis(world.now_ms + 1000)),
        max_age_ms: Some(3_600_000),
        outcome_deadline_ms: deadline_ms,
        threads: 2,
        progress: &|_, _| {},
    };
    audit_since(bundle, &terms, since, true)
}

fn state_of(world: &World, bundle: &MemoryBundle) -> Vec<u8> {
    audited(world, bundle, Some(60_000), None).unwrap().state.unwrap().unwrap()
}

/// All that a reader acts on: how each check ended, and every finding with its receipts. What a check covered may be told
/// in other numbers: an audit that goes on compares only what is new.
fn conclusions(verdict: &Verdict) -> Vec<String> {
    let of_check = |check: &audit::Check| {
        let findings: Vec<String> = check.findings.iter().map(|finding| format!("{finding:?}")).collect();
        format!("{} {} {:?} {findings:#?}", check.id(), check.status, check.counts)
    };
    verdict.checks.iter().map(of_check).collect()
}

/// A world that goes on for `steps` in the way that `seed` says, honest or not.
fn go_on(world: &mut World, seed: u64, steps: u64) {
    for step in 0..steps {
        let number = world.log.entries.len() as u64;
        let session = format!("s-{}", step % 3);
        let classes = ["READ", "IDENTITY_MUTATION", "CREDENTIAL_RECOVERY", "SEND"];
        let class = classes[(seed.wrapping_mul(step + 7) % 4) as usize];
        match (seed + step) % 7 {
            // An allow that nobody says the end of.
            0 => drop(world.log_body(0, &call(number, class, &session))),
            1 => drop(world.log_body(0, r#"{"type":"heartbeat"}"#)),
            // A gap.
            2 if seed.is_multiple_of(3) => drop(world.gates[0].issue(r#"{"type":"heartbeat"}"#, world.now_ms)),
            3 if seed.is_multiple_of(5) => world.log.push(b"no receipt".to_vec()),
            _ => {
                let index = world.log_body(0, &call(number, class, &session));
                let id = merkle::leaf_hash(&world.log.entries[index as usize]).to_hex();
                let outcome = json!({"type": "outcome", "request_id": format!("r-{number}"), "decision": id,
                    "executed": true, "executed_by": "gate"});
                world.log_body(0, &outcome.to_string());
            }
        }
        if step % 4 == 3 {
            world.seal();
        }
    }
    world.seal();
}

fn call(number: u64, class: &str, session: &str) -> String {
    decision(&format!("r-{number}"), true, class, session, &format!("record-{}", number % 5), "customer:77").to_string()
}

#[test]
fn going_on_ends_like_reading_everything_whatever_the_log_holds() {
    for seed in 0..40 {
        let mut world = World::new();
        go_on(&mut world, seed, 5 + seed * 9);
        let state = state_of(&world, &world.bundle());
        go_on(&mut world, seed + 1, seed % 6);
        let bundle = world.bundle();
        let full = audited(&world, &bundle, Some(60_000), None).unwrap();
        let further = audited(&world, &bundle, Some(60_000), Some(SavedAudit::parse(&state).unwrap())).unwrap();
        assert_eq!(conclusions(&further.verdict), conclusions(&full.verdict), "seed {seed}");
        assert_eq!(further.verdict.evidence, full.verdict.evidence, "seed {seed}");
        assert_eq!(further.verdict.completeness, full.verdict.completeness, "seed {seed}");
        assert!(further.verdict.coverage.since.is_some_and(|since| since > 0));
        assert_eq!(full.verdict.coverage.since, None);
        // Its own state is as good.
        let again = SavedAudit::parse(&further.state.unwrap().unwrap()).unwrap();
        assert_eq!(again.entries(), world.log.entries.len() as u64);
        let again = audited(&world, &bundle, Some(60_000), Some(again)).unwrap();
        assert_eq!(conclusions(&again.verdict), conclusions(&full.verdict), "seed {seed}");
    }
}

#[test]
fn entries_that_were_judged_are_not_read_again() {
    let mut world = World::new();
    world.log_heartbeats(600);
    world.seal();
    let state = state_of(&world, &world.bundle());
    world.log_heartbeats(300);
    world.seal();
    let mut bundle = world.bundle();
    assert!(bundle.remove("log/tile/entries/000").is_some());
    assert!(bundle.remove("log/tile/entries/001").is_some());
    let further = audited(&world, &bundle, Some(60_000), Some(SavedAudit::parse(&state).unwrap())).unwrap();
    assert_eq!(further.verdict.check("head/root").unwrap().status, Status::Ok);
    assert_eq!(further.verdict.coverage.since, Some(601));
    assert_eq!(further.verdict.coverage.entries, 901);
}

#[test]
fn a_log_that_goes_back_or_on_otherwise_is_found_by_the_earlier_audits_head() {
    let mut world = World::new();
    world.log_heartbeats(20);
    world.seal();
    let before = world.clone();
    world.log_heartbeats(20);
    world.seal();
    let state = state_of(&world, &world.bundle());
    let since = || Some(SavedAudit::parse(&state).unwrap());
    // Back to where it was.
    let back = audited(&before, &before.bundle(), Some(60_000), since()).unwrap().verdict;
    assert_eq!((back.overall, back.count("omitted-head")), (Status::Fail, 1));
    // And on in another way, to beyond where it was.
    let mut other = before.clone();
    other.now_ms += 5;
    other.log_heartbeats(30);
    other.seal();
    let other = audited(&other, &other.bundle(), Some(60_000), since()).unwrap().verdict;
    assert_eq!(other.overall, Status::Fail);
    assert!(other.evidence.iter().any(|document| document["kind"] == "log-fork"), "{:#?}", other.checks);
}

#[test]
fn a_proof_that_turns_up_later_is_held_against_what_was_judged_before() {
    let mut world = World::new();
    world.log_heartbeats(300);
    world.seal();
    let (proof, entry) = world.proof(17);
    world.log_heartbeats(10);
    world.seal();
    let state = state_of(&world, &world.bundle());
    let mut bundle = world.bundle();
    bundle.insert("proofs/a.tlog-proof", proof);
    bundle.insert("proofs/a.entry", entry);
    let verdict = audited(&world, &bundle, Some(60_000), Some(SavedAudit::parse(&state).unwrap())).unwrap().verdict;
    let check = verdict.check("head/kept-proofs").unwrap();
    assert_eq!((check.status, &check.findings), (Status::Ok, &Vec::new()));
}

#[test]
fn a_proof_of_another_history_that_turns_up_later_is_held_against_what_was_judged_before() {
    let mut before = World::new();
    before.log_heartbeats(20);
    before.seal();
    let mut world = before.clone();
    world.log_heartbeats(20);
    world.seal();
    let (proof, entry) = world.proof(30);
    let mut other = before;
    other.now_ms += 5;
    other.log_heartbeats(30);
    other.seal();
    let state = state_of(&other, &other.bundle());
    let mut bundle = other.bundle();
    bundle.insert("proofs/a.tlog-proof", proof);
    bundle.insert("proofs/a.entry", entry);
    let verdict = audited(&other, &bundle, Some(60_000), Some(SavedAudit::parse(&state).unwrap())).unwrap().verdict;
    assert_eq!((verdict.coverage.since, verdict.count("omitted-receipt")), (Some(51), 1), "{:#?}", verdict.checks);
}

#[test]
fn a_state_is_taken_only_for_the_log_and_the_terms_it_was_made_by() {
    let mut world = World::new();
    world.log_heartbeats(3);
    world.seal();
    let bundle = world.bundle();
    let state = state_of(&world, &bundle);
    let parsed = || Some(SavedAudit::parse(&state).unwrap());
    assert!(audited(&world, &bundle, Some(60_000), parsed()).is_ok());
    let other_terms = |result: Result<Audited, ReadError>| {
        assert_eq!(result.unwrap_err(), ReadError::State(StateError::OtherTerms));
    };
    other_terms(audited(&world, &bundle, Some(60_001), parsed()));
    other_terms(audited(&world, &bundle, None, parsed()));
    let mut more = world.clone();
    more.add_gate("gate.example/more");
    other_terms(audited(&more, &bundle, Some(60_000), parsed()));
    let by = |issuers: &[AuditedIssuer], rules: &str| {
        audited_by(&world, &bundle, issuers, &Rules::parse(rules).unwrap(), Some(60_000), parsed())
    };
    assert!(by(&world.issuers(), "").is_ok());
    other_terms(by(
        &world.issuers(),
        "[[sequence]]\ncode = \"MINE\"\nfirst = [\"A\"]\nthen = [\"B\"]\nscope = \"session\"\n",
    ));
    for option in ["heartbeat=60s", "from=2020-01-01T00:00:00Z", "until=2090-01-01T00:00:00Z"] {
        let issuers = format!("{} {option}\n", world.issuers_text().trim_end());
        other_terms(by(&audit::parse_issuers(&issuers).unwrap(), ""));
    }
    for place in 0..state.len() {
        let mut damaged = state.clone();
        damaged[place] ^= 1;
        let error = SavedAudit::parse(&damaged).unwrap_err();
        assert!(matches!(error, StateError::Format | StateError::Damaged), "{place}: {error}");
    }
    for length in [0, 10, state.len() - 1] {
        assert!(SavedAudit::parse(&state[..length]).is_err());
    }
    assert!(START_MS < world.now_ms);
}

#[test]
fn only_entries_that_signed_heads_vouch_for_are_saved() {
    let mut world = World::new();
    world.log_heartbeats(300);
    world.seal();
    let state_of = |bundle: &MemoryBundle| audited(&world, bundle, None, None).unwrap().state.unwrap();
    assert!(state_of(&world.bundle()).is_ok());
    for path in ["log/tile/entries/000", "log/tile/entries/001.p/45", "log/tile/0/000", "log/tile/1/000.p/1"] {
        let mut bundle = world.bundle();
        assert!(bundle.remove(path).is_some(), "{path}");
        assert!(state_of(&bundle).is_err(), "{path}");
    }
    let mut bundle = world.bundle();
    bundle.remove("log/checkpoint");
    bundle.remove("log/heads/000.p/1");
    assert!(state_of(&bundle).is_err());
}

#[test]
fn a_list_of_heads_that_begins_otherwise_than_before_is_found() {
    let mut world = World::new();
    for _ in 0..3 {
        world.log_heartbeats(2);
        world.seal();
    }
    let state = state_of(&world, &world.bundle());
    for _ in 0..2 {
        world.log_heartbeats(2);
        world.seal();
    }
    // The second head is left out from now on; the list is longer than it was all the same.
    world.log.heads.remove(1);
    let mut bundle = world.bundle();
    for witness in 1..=3 {
        bundle.remove(&format!("witness/witness-{witness}.example/journal/checkpoint"));
    }
    let further = audited(&world, &bundle, Some(60_000), Some(SavedAudit::parse(&state).unwrap())).unwrap().verdict;
    assert_eq!(further.check("head/heads").unwrap().status, Status::Fail, "{:#?}", further.check("head/heads"));
}

#[test]
fn findings_about_entries_that_are_not_read_again_name_the_receipts_that_the_log_holds() {
    let mut world = World::new();
    world.add_gate("gate.example/honest");
    let open =
        json!({"type": "decision", "request_id": "1", "decision": "allow", "authenticated": true, "executes": "gate"});
    let index = world.log_body(0, &open.to_string()) as usize;
    world.log_heartbeats(300);
    world.seal();
    let state = state_of(&world, &world.bundle());
    world.log_heartbeats(100);
    world.seal();
    // Whoever made the bundle puts a receipt that nobody signed in the place of the one that has no outcome.
    let mut forged = world.clone();
    let mut liar = world::TestGate::new("gate.example/honest", 99);
    liar.open(START_MS);
    forged.log.entries[index] = liar.issue(&open.to_string(), START_MS).bytes().to_vec();
    let mut bundle = world.bundle();
    let mut pages = MemoryBundle::new();
    world::write_pages(&mut pages, "log/", &forged.log.entries, merkle::ResourcePath::Entries);
    bundle.insert("log/tile/entries/000", pages.get("log/tile/entries/000").unwrap());
    let verdict = audited(&world, &bundle, Some(60_000), Some(SavedAudit::parse(&state).unwrap())).unwrap().verdict;
    let check = verdict.check("request/outcomes").unwrap();
    assert_eq!(check.count("outcome-missing"), 1);
    let named: Vec<_> = check.findings[0].receipts.iter().map(|receipt| receipt.issuer.as_deref()).collect();
    assert!(!named.contains(&Some("gate.example/honest")), "{named:?}");
}
