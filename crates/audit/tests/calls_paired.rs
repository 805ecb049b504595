//! The request family: pairs and times. Each code on one side of its boundary, nothing on the other.

use crate::story;
use crate::world;
use audit::Severity::{Fail, NotChecked, Notice};
use audit::{BundleSource, Family, Status};
use serde_json::{Value, json};
use story::{Asked, allow, deny, expect, found, hidden, id, judged, logged, outcome, with};
use world::{START_MS, World, told};

#[test]
fn an_ordinary_life_is_ok() {
    let verdict = expect(
        &[allow("1"), outcome("1", true), deny("2"), allow("3"), outcome("3", false), allow("4"), outcome("4", true)],
        &[],
    );
    assert_eq!(verdict.exit_code, 0, "{}", told(&verdict));
    for check in ["request/pairing", "request/outcomes", "claim/agents"] {
        assert_eq!(verdict.check(check).unwrap().status, Status::Ok, "{check}");
    }
    for check in ["request/digests", "request/approvals", "budget/calls", "provenance/changes", "provenance/memory"] {
        let check = verdict.check(check).unwrap();
        assert_eq!((check.status, check.required), (Status::NotChecked, false), "{}", check.id());
    }
}

#[test]
fn a_log_without_calls_asks_nothing_of_these_families() {
    let verdict = judged(&logged(&[json!({"type": "heartbeat"})]), &Asked { deadline_ms: Some(1), ..Asked::default() });
    for check in verdict.checks.iter().filter(|check| check.family == Family::Request) {
        assert_eq!((check.status, check.required), (Status::NotChecked, false), "{}", check.id());
    }
    assert_eq!(verdict.exit_code, 0, "{}", told(&verdict));
}

#[test]
fn an_outcome_needs_a_decision() {
    for executed in [true, false] {
        expect(&[outcome("1", executed)], &[("request/pairing", "outcome-without-decision", Fail)]);
    }
    // The decision may be in what is missing, or its request is hidden.
    let mut world = World::new();
    world.gates[0].issue(&allow("1").to_string(), START_MS);
    world.log_body(0, &outcome("1", true).to_string());
    world.seal();
    let expected = vec![(String::from("request/pairing"), "outcome-without-decision", NotChecked)];
    assert_eq!(found(&judged(&world, &Asked::default())), expected);
    expect(
        &[with(allow("1"), json!({"request_id": hidden()})), outcome("1", true)],
        &[
            ("request/pairing", "member-committed", NotChecked),
            ("request/pairing", "outcome-without-decision", NotChecked),
        ],
    );
}

#[test]
fn a_decision_has_one_outcome() {
    for (first, second, severity) in
        [(true, true, Fail), (true, false, Fail), (false, true, Fail), (false, false, Notice)]
    {
        let verdict = expect(
            &[allow("1"), outcome("1", first), with(outcome("1", second), json!({"error": "again"}))],
            &[("request/pairing", "two-outcomes", severity)],
        );
        let receipts: Vec<_> = verdict.check("request/pairing").unwrap().findings[0]
            .receipts
            .iter()
            .map(|it| (it.index, it.seq))
            .collect();
        assert_eq!(receipts, [1, 2, 3].map(|place| (Some(place), Some(place))));
    }
}

#[test]
fn a_decision_comes_before_its_outcome() {
    for executed in [true, false] {
        let verdict =
            expect(&[outcome("1", executed), allow("1")], &[("request/pairing", "outcome-before-decision", Fail)]);
        assert_eq!(verdict.check("request/pairing").unwrap().findings[0].receipts.len(), 2);
    }
    // By the gate's numbers, not by the order in which the log admitted them.
    let mut world = World::new();
    let decision = world.gates[0].issue(&allow("1").to_string(), START_MS + 1);
    let executed = world.gates[0].issue(&outcome("1", true).to_string(), START_MS + 2);
    world.log.push(executed.bytes().to_vec());
    world.log.push(decision.bytes().to_vec());
    world.seal();
    let verdict = judged(&world, &Asked::default());
    assert_eq!(
        found(&verdict),
        [(String::from("request/pairing"), "pairing-ambiguous", NotChecked)],
        "{}",
        told(&verdict)
    );
}

#[test]
fn what_was_denied_is_not_executed() {
    expect(&[deny("1"), outcome("1", true)], &[("request/pairing", "executed-after-deny", Fail)]);
    let verdict = expect(&[deny("1"), outcome("1", false)], &[("request/pairing", "outcome-after-deny", Notice)]);
    assert_eq!(verdict.exit_code, 0, "{}", told(&verdict));
}

#[test]
fn two_decisions_of_one_request_are_not_paired_by_order() {
    let ambiguous = ("request/pairing", "pairing-ambiguous", NotChecked);
    let verdict = expect(&[allow("1"), deny("1"), outcome("1", true)], &[ambiguous]);
    assert_eq!(verdict.exit_code, 2);
    expect(&[allow("1"), outcome("1", true), allow("1"), outcome("1", true)], &[ambiguous]);
    // An outcome that names the denial leaves nothing open.
    let mut world = logged(&[allow("1"), deny("1")]);
    let denial = id(&world, 2);
    world.log_body(0, &with(outcome("1", true), json!({"decision": denial})).to_string());
    world.seal();
    let verdict = judged(&world, &Asked::default());
    let codes: Vec<_> = found(&verdict).into_iter().map(|(_, code, _)| code).collect();
    assert_eq!(codes, ["pairing-ambiguous", "executed-after-deny"], "{}", told(&verdict));
}

#[test]
fn an_outcome_may_name_its_decision_by_id_alone() {
    for (decision, code) in [(allow("1"), None), (deny("1"), Some("executed-after-deny"))] {
        let mut world = logged(&[decision]);
        let named = id(&world, 1);
        let by_id = with(outcome("1", true), json!({"decision": named, "request_id": null}));
        world.log_body(0, &by_id.to_string());
        world.seal();
        let verdict = judged(&world, &Asked::default());
        assert_eq!(found(&verdict).first().map(|(_, code, _)| *code), code, "{}", told(&verdict));
        assert!(!verdict.check("request/outcomes").unwrap().covers.contains(", 1 of them"), "{}", told(&verdict));
        world.log_body(0, &with(by_id, json!({"error": "again"})).to_string());
        world.seal();
        let twice = judged(&world, &Asked::default());
        assert_eq!(twice.count("two-outcomes"), u64::from(code.is_none()), "{}", told(&twice));
    }
}

#[test]
fn an_outcome_whose_two_names_disagree_is_ambiguous_and_so_are_both_requests() {
    let mut world = logged(&[allow("1"), allow("2")]);
    let (second, nobody) = (id(&world, 2), "0".repeat(64));
    for (named, receipts) in [(second.as_str(), 3), (nobody.as_str(), 2)] {
        let mut world = world.clone();
        world.log_body(0, &with(outcome("1", true), json!({"decision": named})).to_string());
        world.now_ms += 60_000;
        world.log_heartbeats(1);
        world.seal();
        let verdict = judged(&world, &Asked { deadline_ms: Some(1000), ..Asked::default() });
        let pairing = &verdict.check("request/pairing").unwrap().findings;
        assert_eq!(
            pairing.iter().map(|it| (it.code, it.receipts.len())).collect::<Vec<_>>(),
            [("pairing-ambiguous", receipts)]
        );
        // Nobody is accused of an outcome that may be this one; the request that nothing names is still judged.
        assert_eq!(verdict.count("outcome-missing"), u64::from(receipts == 2), "{}", told(&verdict));
    }
    // A request that was never decided, with the decision of another.
    world.log_body(0, &with(outcome("3", true), json!({"decision": second})).to_string());
    world.seal();
    let verdict = judged(&world, &Asked::default());
    assert_eq!(
        found(&verdict),
        [(String::from("request/pairing"), "pairing-ambiguous", NotChecked)],
        "{}",
        told(&verdict)
    );
}

#[test]
fn an_outcome_that_names_nothing_is_ambiguous_and_keeps_its_gate_from_blame() {
    let nothing = with(outcome("1", true), json!({"request_id": null}));
    expect(&[allow("1"), nothing.clone()], &[("request/pairing", "pairing-ambiguous", NotChecked)]);
    let only_committed = with(nothing.clone(), json!({"request_id": hidden()}));
    expect(&[allow("1"), only_committed], &[("request/pairing", "member-committed", NotChecked)]);
    let mut world = logged(&[allow("1"), nothing]);
    world.now_ms += 60_000;
    world.log_heartbeats(1);
    world.seal();
    let verdict = judged(&world, &Asked { deadline_ms: Some(1000), ..Asked::default() });
    let missing = &verdict.check("request/outcomes").unwrap().findings;
    assert_eq!(missing.iter().map(|it| (it.code, it.severity)).collect::<Vec<_>>(), [("outcome-missing", NotChecked)]);
}

#[test]
fn receipts_of_two_issuers_are_not_paired() {
    let mut world = World::new();
    let executor = world.add_gate("gate.example/executor");
    for (decision, denied) in [(allow("1"), false), (deny("2"), true)] {
        let index = world.log_body(0, &decision.to_string());
        let named = id(&world, index);
        world.log_body(executor, &with(outcome("x", true), json!({"decision": named, "request_id": null})).to_string());
        world.seal();
        let verdict = judged(&world, &Asked::default());
        let last = verdict.check("request/pairing").unwrap().findings.last().unwrap().clone();
        assert_eq!((last.code, last.severity, last.receipts.len()), ("outcome-elsewhere", NotChecked, 2));
        assert_eq!(last.shown.contains("denied"), denied, "{}", last.shown);
    }
    // The same request id in another stream is another request.
    world.log_body(executor, &outcome("1", true).to_string());
    world.seal();
    assert_eq!(judged(&world, &Asked::default()).count("outcome-without-decision"), 1);
}

#[test]
fn what_is_only_committed_to_is_not_checked() {
    let committed = ("request/pairing", "member-committed", NotChecked);
    expect(&[with(allow("1"), json!({"decision": hidden()})), outcome("1", true)], &[committed]);
    expect(&[allow("1"), with(outcome("1", true), json!({"executed": hidden()}))], &[committed]);
}

// Times.

#[test]
fn an_outcome_is_missing_once_its_deadline_has_passed_to_the_millisecond() {
    // Allowed at START + 1 s; a quorum vouches at START + 10 s.
    let mut world = logged(&[allow("1")]);
    world.now_ms = START_MS + 10_000;
    world.seal();
    let missing = |at: Option<u64>, deadline_ms: u64| {
        let verdict = judged(&world, &Asked { at, deadline_ms: Some(deadline_ms), ..Asked::default() });
        let check = verdict.check("request/outcomes").unwrap();
        assert!(check.required);
        check.findings.iter().map(|it| (it.code, it.severity)).collect::<Vec<_>>()
    };
    let (fails, unknown) = (vec![("outcome-missing", Fail)], vec![("outcome-missing", NotChecked)]);
    assert_eq!(missing(None, 9000), []);
    assert_eq!(missing(None, 8999), fails);
    assert_eq!(missing(Some(START_MS + 6000), 5000), []);
    assert_eq!(missing(Some(START_MS + 6001), 5000), fails);
    assert_eq!(missing(Some(START_MS + 11_000), 10_000), []);
    // Overdue by the auditor's clock, and the bundle ends before the deadline did.
    assert_eq!(missing(Some(START_MS + 11_001), 10_000), unknown);
    assert_eq!(missing(Some(START_MS + 11_001), u64::MAX), []);
}

#[test]
fn the_gates_own_later_receipts_show_that_an_outcome_is_missing() {
    let mut world = logged(&[allow("1")]);
    world.now_ms = START_MS + 60_000;
    world.log.seal();
    for (later, severity) in [(false, NotChecked), (true, Fail)] {
        if later {
            world.log_heartbeats(1);
            world.log.seal();
        }
        let verdict =
            judged(&world, &Asked { at: Some(START_MS + 90_000), deadline_ms: Some(10_000), ..Asked::default() });
        let check = verdict.check("request/outcomes").unwrap();
        assert_eq!(check.findings.iter().map(|it| it.severity).collect::<Vec<_>>(), [severity], "{}", told(&verdict));
    }
}

#[test]
fn a_missing_outcome_accuses_nobody_who_may_not_owe_it() {
    let judge = |bodies: &[Value]| {
        let mut world = logged(bodies);
        world.now_ms += 60_000;
        world.log_heartbeats(1);
        world.seal();
        let verdict = judged(&world, &Asked { deadline_ms: Some(1000), ..Asked::default() });
        let check = verdict.check("request/outcomes").unwrap().clone();
        (check.status, check.findings.iter().map(|it| (it.code, it.severity)).collect::<Vec<_>>())
    };
    assert_eq!(judge(&[with(allow("1"), json!({"executes": "none"}))]), (Status::Ok, vec![]));
    let not_owed = (Status::NotChecked, vec![("outcome-missing", NotChecked)]);
    assert_eq!(judge(&[with(allow("1"), json!({"executes": "caller"}))]), not_owed);
    assert_eq!(judge(&[with(allow("1"), json!({"executes": hidden()}))]), not_owed);
    assert_eq!(judge(&[deny("1")]), (Status::NotChecked, vec![]));
    assert_eq!(judge(&[allow("1"), outcome("1", false)]), (Status::Ok, vec![]));
}

#[test]
fn without_a_deadline_an_open_call_is_noticed_once() {
    let bodies: Vec<Value> = (0..20).map(|number| allow(&number.to_string())).collect();
    let verdict = judged(&logged(&bodies), &Asked::default());
    let check = verdict.check("request/outcomes").unwrap();
    assert_eq!((check.status, check.required, check.count("outcome-open")), (Status::NotChecked, false, 1));
    assert_eq!(check.findings[0].receipts.len(), 16);
    assert!(check.findings[0].shown.contains("20 allowed calls"), "{}", check.findings[0].shown);
    assert_eq!(verdict.exit_code, 0);
}

#[test]
fn without_any_time_nothing_is_overdue() {
    let mut world = World::new();
    world.log_body(0, &allow("1").to_string());
    world.log.seal();
    let verdict = judged(&world, &Asked { deadline_ms: Some(0), ..Asked::default() });
    assert_eq!(found(&verdict), [(String::from("request/outcomes"), "outcome-time-unknown", NotChecked)]);
}

#[test]
fn a_late_outcome_is_noticed_and_accuses_nobody() {
    for (deadline_ms, late) in [(1000, 0), (999, 1)] {
        let world = logged(&[allow("1"), outcome("1", true)]);
        let verdict = judged(&world, &Asked { deadline_ms: Some(deadline_ms), ..Asked::default() });
        assert_eq!((verdict.count("outcome-late"), verdict.exit_code), (late, 0), "{}", told(&verdict));
    }
}

#[test]
fn an_action_that_began_before_its_decision_was_decided_afterwards() {
    // Decided at START + 1 s.
    let decided = START_MS + 1000;
    let began = |started_at: Value, rest: Value| {
        let verdict = judged(
            &logged(&[allow("1"), with(with(outcome("1", true), json!({"started_at": started_at})), rest)]),
            &Asked::default(),
        );
        found(&verdict).into_iter().map(|(_, code, severity)| (code, severity)).collect::<Vec<_>>()
    };
    let five_minutes = 5 * 60 * 1000;
    let early = |severity| vec![("started-before-decision", severity)];
    assert_eq!(began(json!(decided), json!({})), []);
    assert_eq!(began(json!(decided - 1), json!({})), early(Notice));
    assert_eq!(began(json!(decided - five_minutes), json!({})), early(Notice));
    assert_eq!(began(json!(decided - five_minutes - 1), json!({})), early(Fail));
    assert_eq!(began(json!(decided - five_minutes - 1), json!({"executed": false})), []);
    assert_eq!(began(json!("2026-11-29T12:00:01Z"), json!({})), []);
    assert_eq!(began(json!("2026-11-29T12:00:00Z"), json!({})), early(Notice));
    assert_eq!(began(json!("2026-11-29T11:55:00Z"), json!({})), early(Fail));
    assert_eq!(began(json!("yesterday"), json!({})), []);
    // The caller's clock is not the gate's.
    let verdict = judged(
        &logged(&[
            with(allow("1"), json!({"executes": "caller"})),
            with(outcome("1", true), json!({"executed_by": "caller", "started_at": 5})),
        ]),
        &Asked::default(),
    );
    assert_eq!(found(&verdict).last().map(|it| it.2), Some(Notice), "{}", told(&verdict));
}

#[test]
fn a_capability_has_expired_a_millisecond_after_its_end() {
    let decided = START_MS + 1000;
    let under = |expires_at: Value, allowed: &str| {
        let body = with(allow("1"), json!({"decision": allowed, "capability": {"id": "c", "expires_at": expires_at}}));
        found(&judged(&logged(&[body]), &Asked::default())).into_iter().map(|(_, code, _)| code).collect::<Vec<_>>()
    };
    assert!(under(json!(decided), "allow").is_empty());
    assert_eq!(under(json!(decided - 1), "allow"), ["decided-after-expiry"]);
    assert!(under(json!(decided - 1), "deny").is_empty());
    assert!(under(json!("2026-11-29T12:00:01Z"), "allow").is_empty());
    assert_eq!(under(json!("2026-11-29T12:00:00Z"), "allow"), ["decided-after-expiry"]);
    assert_eq!(under(json!("next week"), "allow"), ["expiry-unreadable"]);
    assert_eq!(under(hidden(), "allow"), ["member-committed"]);
}

#[test]
fn every_finding_names_its_receipts_as_the_log_holds_them() {
    let world = logged(&[deny("1"), outcome("1", true)]);
    let verdict = judged(&world, &Asked::default());
    let finding = &verdict.check("request/pairing").unwrap().findings[0];
    assert_eq!(finding.receipts.len(), 2);
    for (receipt, index) in finding.receipts.iter().zip([1u64, 2]) {
        let logged = receipt::Receipt::parse(&world.log.entries[index as usize]).unwrap();
        assert_eq!((receipt.index, receipt.seq), (Some(index), Some(logged.seq().0)));
        assert_eq!((receipt.id, receipt.issuer.as_deref()), (logged.id().0, Some(logged.issuer().as_str())));
    }
}

#[test]
fn nobody_is_overdue_by_what_the_bundle_does_not_reach_to() {
    let mut world = World::new();
    world.log_body(0, &allow("1").to_string());
    let allowed_ms = world.now_ms;
    world.log_heartbeats(300);
    world.log_body(0, &outcome("1", true).to_string());
    world.seal();
    let overdue = |world: &World, bundle: &audit::MemoryBundle, deadline_ms: u64| {
        let (policy, issuers, rules) = (world.policy(), world.issuers(), audit::Rules::built_in());
        let terms = audit::Terms {
            policy: &policy,
            issuers: &issuers,
            rules: &rules,
            at: Some(receipt::UnixMillis(world.now_ms + 3_600_000)),
            max_age_ms: None,
            outcome_deadline_ms: Some(deadline_ms),
            threads: 1,
            progress: &|_, _| {},
        };
        let verdict = audit::audit(bundle, &terms).unwrap();
        let check = verdict.check("request/outcomes").unwrap().clone();
        check.findings.into_iter().map(|finding| (finding.code, finding.severity)).collect::<Vec<_>>()
    };
    let missing = |severity| vec![("outcome-missing", severity)];
    // The page with the outcome is not there: the entries end early, under a head that speaks of more.
    let mut cut = world.bundle();
    assert!(cut.remove("log/tile/entries/001.p/47").is_some());
    assert_eq!(overdue(&world, &cut, 1000), missing(NotChecked));
    // The head is not there either, and only witnesses know of more entries.
    let mut short = World::new();
    short.log_body(0, &allow("1").to_string());
    short.log_heartbeats(30);
    short.seal();
    let mut longer = short.clone();
    longer.log_body(0, &outcome("1", true).to_string());
    longer.seal();
    let mut back = short.bundle();
    let known = longer.bundle();
    for path in known.list().into_iter().filter(|path| path.starts_with("witness/")) {
        back.insert(path.clone(), known.get(&path).unwrap());
    }
    assert_eq!(overdue(&short, &back, 1000), missing(NotChecked));
    // What a quorum vouches for at the very moment of the deadline says nothing of the time after it.
    let mut still = World::new();
    still.log_body(0, &allow("1").to_string());
    still.seal();
    assert_eq!(still.now_ms, allowed_ms);
    still.now_ms += 5000;
    still.seal();
    assert_eq!(overdue(&still, &still.bundle(), 5000), missing(NotChecked));
    assert_eq!(overdue(&still, &still.bundle(), 4999), missing(Fail));
}

/// The outcome of a gate that was killed before it could tell.
fn unknown(request: &str) -> Value {
    with(
        outcome(request, false),
        json!({"unknown": true, "error": "outcome-unknown: the gate stopped before it could tell"}),
    )
}

#[test]
fn an_outcome_that_the_gate_does_not_know_settles_its_decision_and_accuses_nobody() {
    let world = logged(&[allow("1"), unknown("1"), deny("2"), unknown("2"), json!({"type": "heartbeat"})]);
    let asked = |deadline_ms| Asked { deadline_ms, at: Some(START_MS + 60_000), ..Asked::default() };
    for deadline_ms in [None, Some(1)] {
        let verdict = judged(&world, &asked(deadline_ms));
        assert_eq!(
            found(&verdict).into_iter().filter(|(_, code, _)| *code != "outcome-late").collect::<Vec<_>>(),
            [
                (String::from("request/pairing"), "outcome-after-deny", Notice),
                (String::from("request/outcomes"), "outcome-unknown", NotChecked)
            ],
            "{}",
            told(&verdict)
        );
        assert_eq!(verdict.count("outcome-missing") + verdict.count("outcome-open"), 0);
        let outcomes = verdict.check("request/outcomes").unwrap();
        assert_eq!(outcomes.status, Status::NotChecked, "unknown is never ok");
        assert_eq!(outcomes.findings[0].receipts.len(), 2, "decision and outcome");
        // Who asks what became of the calls is told that it is not known.
        assert_eq!(verdict.exit_code, if deadline_ms.is_some() { 2 } else { 0 }, "{}", told(&verdict));
    }
}

#[test]
fn an_unknown_outcome_says_nothing_of_approvals_executors_and_digests() {
    let other = format!("sha256:{}", "0".repeat(64));
    let says_much = json!({"executed_by": "caller", "executed_digest": other});
    let approved = with(story::approval("1", "declined"), json!({"digest": format!("sha256:{}", "1".repeat(64))}));
    expect(
        &[allow("1"), approved, with(unknown("1"), says_much)],
        &[("request/outcomes", "outcome-unknown", NotChecked)],
    );
    let rules = "[[approval]]\ncode = \"R\"\noperations = [\"mail.send\"]\n";
    story::expect_by(
        rules,
        &[with(allow("1"), json!({"operation": "mail.send"})), unknown("1")],
        &[("request/outcomes", "outcome-unknown", NotChecked), ("request/approvals", "approval-missing", NotChecked)],
    );
}

#[test]
fn what_ran_is_not_unknown() {
    let both = with(outcome("1", true), json!({"unknown": true}));
    expect(&[allow("1"), both], &[("request/pairing", "outcome-contradicts", Fail)]);
    expect(&[allow("1"), with(outcome("1", true), json!({"unknown": false}))], &[]);
    expect(
        &[allow("1"), with(outcome("1", false), json!({"unknown": hidden()}))],
        &[("request/pairing", "member-committed", NotChecked), ("request/outcomes", "outcome-unknown", NotChecked)],
    );
}

#[test]
fn a_second_outcome_beside_an_unknown_one_is_no_contradiction_until_there_are_two_that_ran() {
    let again = |executed| with(outcome("1", executed), json!({"error": "again"}));
    for (second, severity) in [(again(true), NotChecked), (again(false), Notice)] {
        expect(
            &[allow("1"), unknown("1"), second],
            &[("request/pairing", "two-outcomes", severity), ("request/outcomes", "outcome-unknown", NotChecked)],
        );
    }
    expect(
        &[allow("1"), unknown("1"), again(true), outcome("1", true)],
        &[
            ("request/pairing", "two-outcomes", NotChecked),
            ("request/pairing", "two-outcomes", Fail),
            ("request/outcomes", "outcome-unknown", NotChecked),
        ],
    );
}
