//! The families of claim, budget and provenance: each code on one side of its boundary, nothing on the other.

use crate::story;
use crate::world;
use audit::Severity::{self, Fail, NotChecked, Notice};
use serde_json::{Value, json};
use story::{Asked, allow, approval, deny, expect, expect_by, found, hidden, judged, logged, outcome, with};
use world::{START_MS, told};

// Claims.

#[test]
fn an_allowed_call_was_authenticated() {
    let fails = [("claim/agents", "allowed-unauthenticated", Fail)];
    expect(&[with(allow("1"), json!({"authenticated": false})), outcome("1", true)], &fails);
    expect(&[with(deny("1"), json!({"authenticated": false}))], &[]);
    expect(
        &[with(allow("1"), json!({"authenticated": hidden()}))],
        &[("claim/agents", "member-committed", NotChecked)],
    );
    expect(&[with(deny("1"), json!({"authenticated": hidden()}))], &[]);
}

#[test]
fn a_bound_agent_stands_on_a_verified_capability() {
    let bound = |decision: Value, proven: Value| with(decision, json!({"bound_agent": "billing", "proven": proven}));
    let fails = [("claim/agents", "agent-unproven", Fail)];
    expect(&[bound(allow("1"), json!(["capability_signature"]))], &[]);
    expect(&[bound(allow("1"), json!(["request_signature", "something_new"]))], &fails);
    expect(&[bound(allow("1"), json!(null))], &fails);
    expect(&[bound(deny("1"), json!([]))], &fails);
    expect(&[bound(allow("1"), hidden())], &[("claim/agents", "member-committed", NotChecked)]);
}

#[test]
fn a_claimed_agent_with_nothing_proven_is_a_claim() {
    let claimed =
        |decision: Value, proven: Value| with(decision, json!({"claimed_agent": "the-ceo", "proven": proven}));
    let notice = [("claim/agents", "agent-claimed", Notice)];
    expect(&[claimed(deny("1"), json!(null))], &notice);
    assert_eq!(expect(&[claimed(allow("1"), json!([]))], &notice).exit_code, 0);
    expect(&[claimed(allow("1"), json!(["request_signature"]))], &[]);
    expect(&[with(claimed(allow("1"), json!(["capability_signature"])), json!({"bound_agent": "billing"}))], &[]);
}

#[test]
fn an_outcome_shows_the_bound_agent_or_says_that_it_is_a_claim() {
    let bound = with(allow("1"), json!({"bound_agent": "billing", "proven": ["capability_signature"]}));
    let by = |agent: &str, authenticated: Value| {
        with(outcome("1", true), json!({"agent": agent, "authenticated": authenticated}))
    };
    let check = |decision: &Value, outcome: Value, expected: Option<(&'static str, Severity)>| {
        let expected: Vec<_> = expected.map(|(code, severity)| ("claim/agents", code, severity)).into_iter().collect();
        expect(&[decision.clone(), outcome], &expected);
    };
    check(&bound, by("billing", json!(true)), None);
    check(&bound, by("billing", json!(null)), None);
    check(&bound, by("the-ceo", json!(true)), Some(("agent-differs", Fail)));
    check(&bound, by("the-ceo", json!(null)), Some(("agent-differs", Fail)));
    check(&bound, by("the-ceo", json!(false)), Some(("agent-differs", Notice)));
    check(&allow("1"), by("the-ceo", json!(false)), None);
    check(&allow("1"), by("the-ceo", json!(true)), Some(("claim-as-fact", Fail)));
    check(&allow("1"), by("the-ceo", json!(null)), Some(("agent-standing-unknown", NotChecked)));
    check(&bound, by("billing", hidden()), Some(("member-committed", NotChecked)));
    check(
        &with(bound.clone(), json!({"bound_agent": hidden()})),
        by("the-ceo", json!(true)),
        Some(("member-committed", NotChecked)),
    );
}

// Budgets.

fn under(request: &str, capability: Value) -> Value {
    with(allow(request), json!({"capability": capability}))
}

fn budget(used: u64, max: u64, counts: &str) -> Value {
    json!({"id": "cap-1", "max_calls": max, "calls_used": used, "counts": counts})
}

#[test]
fn calls_are_counted_by_the_log() {
    for (max, expected) in [(2, &[][..]), (1, &[("budget/calls", "budget-exceeded", Fail)])] {
        let bodies = [
            under("1", budget(0, max, "executed")),
            outcome("1", true),
            // By the gate's word within the budget, and by the log beyond it.
            under("2", with(budget(1, max, "executed"), json!({}))),
            outcome("2", true),
        ];
        let verdict = expect(&bodies, expected);
        assert!(verdict.check("budget/calls").unwrap().required);
    }
    // Another capability, and another issuer's of the same name, have their own.
    let mut world = logged(&[under("1", budget(0, 1, "executed")), outcome("1", true)]);
    let second = world.add_gate("gate.example/support-2");
    world.log_body(second, &under("1", budget(0, 1, "executed")).to_string());
    world.log_body(second, &outcome("1", true).to_string());
    world.log_body(0, &under("2", with(budget(0, 1, "executed"), json!({"id": "cap-2"}))).to_string());
    world.log_body(0, &outcome("2", true).to_string());
    world.seal();
    assert_eq!(found(&judged(&world, &Asked::default())), []);
}

#[test]
fn a_failed_call_spends_a_budget_of_dispatched_calls_alone() {
    let bodies = |counts: &str, failure: &Value, used: u64| {
        vec![under("1", budget(0, 1, counts)), failure.clone(), under("2", budget(used, 1, counts)), outcome("2", true)]
    };
    let failed = outcome("1", false);
    let dispatched = with(failed.clone(), json!({"started_at": START_MS + 1500}));
    expect(&bodies("executed", &failed, 0), &[]);
    expect(&bodies("executed", &dispatched, 0), &[]);
    let spent = ("budget/calls", "budget-spent-by-failed-execution", Notice);
    // Whether it was dispatched is not said.
    expect(&bodies("dispatched", &failed, 0), &[spent, ("budget/calls", "budget-unknown", NotChecked)]);
    expect(&bodies("dispatched", &dispatched, 1), &[spent, ("budget/calls", "budget-exceeded", Fail)]);
    let kept = [
        under("1", budget(0, 2, "dispatched")),
        dispatched,
        under("2", budget(1, 2, "dispatched")),
        outcome("2", true),
    ];
    let verdict = expect(&kept, &[spent]);
    assert_eq!(verdict.exit_code, 0, "{}", told(&verdict));
    assert!(verdict.check("budget/calls").unwrap().findings[0].shown.contains("1 of 2"));
}

#[test]
fn the_gates_count_is_at_least_the_logs() {
    let third = |used: u64| {
        vec![
            under("1", budget(0, 9, "executed")),
            outcome("1", true),
            under("2", budget(1, 9, "executed")),
            outcome("2", true),
            under("3", budget(used, 9, "executed")),
            outcome("3", false),
        ]
    };
    expect(&third(2), &[]);
    expect(&third(5), &[]);
    expect(&third(1), &[("budget/calls", "calls-used-low", Fail)]);
    // Counting the call being decided is as good.
    expect(&[under("1", budget(1, 1, "executed")), outcome("1", true)], &[]);
    expect(
        &[
            under("1", budget(5, 9, "executed")),
            outcome("1", true),
            under("2", budget(4, 9, "executed")),
            outcome("2", true),
        ],
        &[("budget/calls", "calls-used-back", NotChecked)],
    );
    expect(
        &[under("1", budget(3, 2, "executed")), outcome("1", true)],
        &[("budget/calls", "allowed-beyond-budget", Fail)],
    );
    expect(&[under("1", budget(2, 2, "executed")), outcome("1", true)], &[]);
    expect(&[with(under("1", budget(3, 2, "executed")), json!({"decision": "deny"}))], &[]);
}

#[test]
fn a_budget_says_what_it_counts_and_whose_it_is() {
    let judge = |change: Value, code: &'static str| {
        let capability = with(budget(0, 3, "executed"), change);
        expect(&[under("1", capability), outcome("1", true)], &[("budget/calls", code, NotChecked)]);
    };
    judge(json!({"counts": null}), "counts-missing");
    judge(json!({"counts": hidden()}), "member-committed");
    judge(json!({"id": null}), "capability-unnamed");
    judge(json!({"id": hidden()}), "member-committed");
    judge(json!({"max_calls": hidden()}), "member-committed");
    expect(&[under("1", json!({"id": "cap-1"})), outcome("1", true)], &[]);
    let changed = [
        under("1", budget(0, 1, "executed")),
        outcome("1", true),
        under("2", budget(1, 2, "executed")),
        outcome("2", true),
    ];
    expect(&changed, &[("budget/calls", "budget-changed", Notice)]);
}

#[test]
fn a_call_whose_outcome_is_not_known_accuses_nobody_of_spending() {
    let verdict = expect(
        &[under("1", budget(0, 1, "executed")), under("2", budget(0, 1, "executed")), outcome("2", true)],
        &[("budget/calls", "budget-unknown", NotChecked)],
    );
    assert_eq!(verdict.exit_code, 2);
    expect(&[under("1", budget(0, 1, "executed"))], &[]);
    // Nor does one that the gate itself does not know; it is counted apart from what was executed or failed.
    let unknown = with(outcome("1", false), json!({"unknown": true, "started_at": START_MS + 1500}));
    for counts in ["executed", "dispatched"] {
        let spent = budget(0, 1, counts);
        let verdict = expect(
            &[under("1", spent.clone()), unknown.clone(), under("2", spent), outcome("2", true)],
            &[("request/outcomes", "outcome-unknown", NotChecked), ("budget/calls", "budget-unknown", NotChecked)],
        );
        let covers = &verdict.check("budget/calls").unwrap().covers;
        assert!(covers.contains("1 executed, 0 failed, 1 unknown"), "{covers}");
    }
    expect(&[under("1", budget(0, 1, "executed")), unknown], &[("request/outcomes", "outcome-unknown", NotChecked)]);
}

// Provenance.

#[test]
fn a_change_stands_on_something_trusted() {
    let fact = |trust: &str| json!({"source": "mail", "trust": trust, "summary": "x"});
    let judge = |facts: Value, rest: Value, expected: &[(&str, &'static str, Severity)]| {
        let body = with(with(allow("1"), json!({"action_class": "IDENTITY_MUTATION", "facts": facts})), rest);
        expect(&[body, outcome("1", true)], expected)
    };
    let found = |code: &'static str, severity| [("provenance/changes", code, severity)];
    let untrusted = json!([fact("untrusted"), fact("untrusted")]);
    judge(untrusted.clone(), json!({}), &found("untrusted-change", Fail));
    judge(untrusted.clone(), json!({"action_class": "PERMISSION_CHANGE"}), &found("untrusted-change", Fail));
    judge(untrusted.clone(), json!({"action_class": "READ"}), &[]);
    judge(
        untrusted.clone(),
        json!({"grant": {"principal": "x", "verified_via": "otp"}}),
        &found("untrusted-change", Fail),
    );
    judge(untrusted.clone(), json!({"approval": {"by": "alex"}}), &found("untrusted-change", Notice));
    judge(json!([fact("trusted"), fact("untrusted")]), json!({}), &found("mixed-facts-change", NotChecked));
    judge(json!([{"source": "mail"}]), json!({}), &found("fact-trust-unknown", NotChecked));
    judge(json!([fact("trusted"), {"source": "mail"}]), json!({}), &found("fact-trust-unknown", NotChecked));
    judge(json!([fact("trusted")]), json!({}), &[]);
    judge(json!([]), json!({}), &[]);
    judge(hidden(), json!({}), &found("member-committed", NotChecked));
    judge(
        untrusted.clone(),
        json!({"action_class": hidden()}),
        &[("provenance/changes", "member-committed", NotChecked)],
    );
    judge(json!([fact("trusted")]), json!({"action_class": hidden()}), &[]);
    let denied = with(deny("1"), json!({"action_class": "IDENTITY_MUTATION", "facts": untrusted}));
    expect(std::slice::from_ref(&denied), &[]);
    // The rule file's own classes.
    let rules = "[provenance]\nclasses = [\"REFUND\"]\n";
    expect_by(rules, &[with(denied.clone(), json!({"decision": "allow"}))], &[]);
    let refund = with(denied, json!({"decision": "allow", "action_class": "REFUND"}));
    expect_by(rules, std::slice::from_ref(&refund), &found("untrusted-change", Fail));
    // A person's yes before the decision.
    expect_by(rules, &[approval("1", "approved"), refund], &found("untrusted-change", Notice));
}

#[test]
fn an_untrusted_note_stays_a_quotation_about_nothing_that_matters() {
    let note = |trust: Value, form: Value, about: Value| {
        with(json!({"type": "memory", "source": "mail"}), json!({"trust": trust, "form": form, "about": about}))
    };
    let judge = |note: Value, expected: &[(&'static str, Severity)]| {
        let expected: Vec<_> =
            expected.iter().map(|(code, severity)| ("provenance/memory", *code, *severity)).collect();
        expect(&[note], &expected);
    };
    let (asserted, about) = (("untrusted-memory-asserted", Fail), ("untrusted-memory-about", Fail));
    judge(note(json!("untrusted"), json!("quoted"), json!(["weather"])), &[]);
    judge(note(json!("untrusted"), json!("quoted"), json!(null)), &[]);
    judge(note(json!("untrusted"), json!("asserted"), json!(["weather"])), &[asserted]);
    judge(note(json!("untrusted"), json!("quoted"), json!(["weather", "ownership"])), &[about]);
    judge(note(json!("untrusted"), json!("asserted"), json!(["permission"])), &[asserted, about]);
    judge(note(json!("trusted"), json!("asserted"), json!(["ownership"])), &[]);
    judge(note(json!(null), json!("quoted"), json!(["weather"])), &[]);
    judge(note(json!(null), json!("asserted"), json!(null)), &[("memory-unclear", NotChecked)]);
    judge(note(json!("untrusted"), json!(null), json!(null)), &[("memory-unclear", NotChecked)]);
    judge(note(json!("untrusted"), json!("quoted"), hidden()), &[("member-committed", NotChecked)]);
    judge(note(hidden(), json!("asserted"), json!(null)), &[("member-committed", NotChecked)]);
    judge(note(json!("trusted"), hidden(), json!(null)), &[]);
}
