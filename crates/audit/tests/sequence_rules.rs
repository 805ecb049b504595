//! The sequence family over native decisions, and over samples of the seed scenarios made here.

use crate::world;
use audit::{MemoryBundle, Rules, Severity, Status, Verdict};
use serde_json::{Value, json};
use world::{World, decision, told};

const MUTATION: &str = "IDENTITY_MUTATION";
const RECOVERY: &str = "CREDENTIAL_RECOVERY";

fn logged(bodies: &[Value]) -> World {
    let mut world = World::new();
    for body in bodies {
        world.log_body(0, &body.to_string());
    }
    world.seal();
    world
}

/// How often R4 fires by session, resource and subject.
fn fired(verdict: &Verdict) -> [u64; 3] {
    ["session", "resource", "subject"]
        .map(|scope| verdict.check(&format!("sequence/R4_SEQUENCE/{scope}")).unwrap().count("sequence-forbidden"))
}

#[test]
fn recovery_after_mutation_fires_in_each_scope_they_share() {
    let cases: [(&[&str; 3], &[&str; 3], [u64; 3]); 5] = [
        (&["s1", "r1", "u1"], &["s1", "r1", "u1"], [1, 1, 1]),
        (&["s1", "r1", "u1"], &["s2", "r1", "u1"], [0, 1, 1]),
        (&["s1", "r1", "u1"], &["s2", "r2", "u1"], [0, 0, 1]),
        (&["s1", "r1", "u1"], &["s1", "r2", "u2"], [1, 0, 0]),
        (&["s1", "r1", "u1"], &["s2", "r2", "u2"], [0, 0, 0]),
    ];
    for (first, then, expected) in cases {
        let world = logged(&[
            decision("1", true, MUTATION, first[0], first[1], first[2]),
            decision("2", true, RECOVERY, then[0], then[1], then[2]),
        ]);
        let verdict = world.verdict();
        assert_eq!(fired(&verdict), expected, "{}", told(&verdict));
        assert_eq!(verdict.exit_code, if expected == [0, 0, 0] { 0 } else { 1 });
    }
}

#[test]
fn a_finding_names_both_receipts() {
    let world = logged(&[
        decision("1", true, MUTATION, "s1", "", ""),
        decision("2", true, "READ", "s1", "", ""),
        decision("3", true, RECOVERY, "s1", "", ""),
    ]);
    let verdict = world.verdict();
    let finding = &verdict.check("sequence/R4_SEQUENCE/session").unwrap().findings[0];
    let places: Vec<_> = finding
        .receipts
        .iter()
        .map(|receipt| (receipt.index, receipt.seq, receipt.issuer.as_deref().map(str::to_owned)))
        .collect();
    let gate = Some(String::from("gate.example/support-1"));
    assert_eq!(places, [(Some(1), Some(1), gate.clone()), (Some(3), Some(3), gate)]);
}

#[test]
fn sessions_of_one_name_at_two_gates_accuse_nobody_and_are_told() {
    let mut world = World::new();
    let second = world.add_gate("gate.example/support-2");
    let log = |world: &mut World, gate, number: &str, class, subject: &str| {
        world.log_body(gate, &decision(number, true, class, "s1", &format!("record of {subject}"), subject).to_string())
    };
    log(&mut world, 0, "1", MUTATION, "u1");
    log(&mut world, second, "1", RECOVERY, "u2");
    world.seal();
    let verdict = world.verdict();
    assert_eq!((fired(&verdict), verdict.exit_code), ([0, 0, 0], 2), "{}", told(&verdict));
    assert_eq!(verdict.count("sequence-across-gates"), 1);
    // What each gate did within its own session is judged as ever, whichever came last.
    log(&mut world, second, "2", MUTATION, "u3");
    log(&mut world, 0, "2", RECOVERY, "u4");
    world.seal();
    let verdict = world.verdict();
    assert_eq!((fired(&verdict), verdict.exit_code), ([1, 0, 0], 1), "{}", told(&verdict));
}

#[test]
fn recovery_before_mutation_does_not_fire() {
    let world =
        logged(&[decision("1", true, RECOVERY, "s1", "r1", "u1"), decision("2", true, MUTATION, "s1", "r1", "u1")]);
    assert_eq!(world.verdict().exit_code, 0, "{}", told(&world.verdict()));
}

#[test]
fn denied_calls_neither_fire_nor_prepare() {
    let denied_second = logged(&[
        decision("1", true, MUTATION, "s1", "r1", "u1"),
        decision("2", false, RECOVERY, "s1", "r1", "u1"),
        decision("3", true, "READ", "s1", "r1", "u1"),
    ]);
    let verdict = denied_second.verdict();
    assert_eq!((fired(&verdict), verdict.exit_code), ([0, 0, 0], 0), "{}", told(&verdict));
    assert!(
        verdict.check("sequence/R4_SEQUENCE/subject").unwrap().covers.contains("would have completed the sequence: 1;")
    );
    let denied_first =
        logged(&[decision("1", false, MUTATION, "s1", "r1", "u1"), decision("2", true, RECOVERY, "s1", "r1", "u1")]);
    assert_eq!(fired(&denied_first.verdict()), [0, 0, 0]);
}

#[test]
fn the_rule_spans_gates() {
    let mut world = World::new();
    let second = world.add_gate("gate.example/support-2");
    world.log_body(0, &decision("1", true, MUTATION, "s1", "r1", "u1").to_string());
    world.log_body(second, &decision("1", true, RECOVERY, "s2", "r2", "u1").to_string());
    world.seal();
    assert_eq!(fired(&world.verdict()), [0, 0, 1]);
}

#[test]
fn an_action_fires_once_however_many_subjects_agree() {
    let mut first = decision("1", true, MUTATION, "", "", "");
    let mut then = decision("2", true, RECOVERY, "", "", "");
    first["subjects"] = json!(["a", "b"]);
    then["subjects"] = json!(["a", "b"]);
    let verdict = logged(&[first, then]).verdict();
    assert_eq!(fired(&verdict), [0, 0, 1], "{}", told(&verdict));
}

#[test]
fn a_scope_that_nothing_carries_is_not_checked_and_not_required_of_the_built_in_rule() {
    let world = logged(&[decision("1", true, MUTATION, "s1", "", ""), decision("2", true, RECOVERY, "s2", "", "")]);
    let verdict = world.verdict();
    let check = verdict.check("sequence/R4_SEQUENCE/subject").unwrap();
    assert_eq!(
        (check.status, check.required, check.count("scope-absent")),
        (Status::NotChecked, false, 2),
        "{}",
        told(&verdict)
    );
    assert_eq!(verdict.exit_code, 0);

    // The auditor's own file asks for it.
    let rules = Rules::parse("[[sequence]]\ncode = \"R4_SEQUENCE\"\nfirst = [\"IDENTITY_MUTATION\"]\nthen = [\"CREDENTIAL_RECOVERY\"]\nscope = \"subject\"\n").unwrap();
    let verdict = world.audit_by(&world.bundle(), &rules);
    assert_eq!(verdict.exit_code, 2, "{}", told(&verdict));
    assert!(verdict.check("sequence/R4_SEQUENCE/session").is_none());
}

#[test]
fn a_relation_gives_resources_their_subject() {
    let world = logged(&[
        decision("1", true, MUTATION, "s1", "contact_77", ""),
        decision("2", true, RECOVERY, "s2", "auth_77", ""),
    ]);
    assert_eq!(fired(&world.verdict()), [0, 0, 0]);
    let rules =
        Rules::parse("[[relation]]\nsubject = \"customer:cust_77\"\nresources = [\"contact_77\", \"auth_77\"]\n")
            .unwrap();
    assert_eq!(fired(&world.audit_by(&world.bundle(), &rules)), [0, 0, 1]);
}

#[test]
fn without_actions_nothing_of_the_family_is_required() {
    let verdict = logged(&[json!({"type": "heartbeat"})]).verdict();
    assert_eq!(verdict.exit_code, 0);
    for check in verdict.checks.iter().filter(|check| check.family == audit::Family::Sequence) {
        assert_eq!(
            (check.status, check.required, check.covers.as_str()),
            (Status::NotChecked, false, "nothing of this kind in the log")
        );
    }
}

#[test]
fn a_class_that_is_only_committed_to_is_not_checked() {
    let mut body = decision("1", true, RECOVERY, "s1", "", "");
    body["action_class"] = json!({"#": format!("sha256:{}", "0".repeat(64))});
    let verdict = logged(&[decision("0", true, MUTATION, "s1", "", ""), body]).verdict();
    assert_eq!(
        (verdict.exit_code, verdict.check("sequence/R4_SEQUENCE/session").unwrap().count("member-committed")),
        (2, 1),
        "{}",
        told(&verdict)
    );
}

fn with_prior(mut body: Value, classes: &[&str]) -> Value {
    body["prior_action_classes"] = json!(classes);
    body
}

fn prior_codes(verdict: &Verdict) -> Vec<(&'static str, Severity)> {
    verdict
        .check("sequence/prior-action-classes")
        .unwrap()
        .findings
        .iter()
        .map(|finding| (finding.code, finding.severity))
        .collect()
}

#[test]
fn a_claimed_history_is_that_of_the_session_the_resource_or_the_subjects() {
    let base = [
        decision("1", true, "READ", "s1", "r1", "u1"),
        decision("2", true, "WRITE", "s1", "r2", "u1"),
        decision("3", true, "SEND", "s2", "r2", "u2"),
    ];
    let judged = |claim: &[&str]| {
        let mut bodies = base.to_vec();
        bodies.push(with_prior(decision("4", true, "READ", "s1", "r2", "u2"), claim));
        prior_codes(&logged(&bodies).verdict())
    };
    for true_claim in [&["READ", "WRITE"][..], &["WRITE", "SEND"], &["SEND"]] {
        assert_eq!(judged(true_claim), [], "{true_claim:?}");
    }
    for false_claim in [&[][..], &["READ"], &["WRITE", "READ"], &["READ", "WRITE", "SEND"]] {
        assert_eq!(judged(false_claim), [("prior-classes-differ", Severity::Fail)], "{false_claim:?}");
    }
}

#[test]
fn a_wrong_claim_of_a_denied_call_is_only_noticed() {
    let verdict = logged(&[
        decision("1", true, MUTATION, "s1", "", ""),
        with_prior(decision("2", false, RECOVERY, "s1", "", ""), &[]),
    ])
    .verdict();
    assert_eq!(prior_codes(&verdict), [("prior-classes-differ", Severity::Notice)]);
    assert_eq!(verdict.exit_code, 0, "{}", told(&verdict));
}

#[test]
fn denials_do_not_enter_a_claimed_history() {
    let verdict = logged(&[
        decision("1", true, "READ", "s1", "", ""),
        decision("2", false, MUTATION, "s1", "", ""),
        with_prior(decision("3", true, "READ", "s1", "", ""), &["READ"]),
    ])
    .verdict();
    assert_eq!((prior_codes(&verdict), verdict.exit_code), (Vec::new(), 0), "{}", told(&verdict));
}

#[test]
fn a_gate_may_judge_by_its_own_receipts_or_by_all() {
    let mut world = World::new();
    let second = world.add_gate("gate.example/support-2");
    world.log_body(0, &decision("1", true, "READ", "s1", "", "").to_string());
    world.log_body(second, &decision("1", true, "WRITE", "s1", "", "").to_string());
    world.log_body(second, &with_prior(decision("2", true, "SEND", "s1", "", ""), &["WRITE"]).to_string());
    world.log_body(0, &with_prior(decision("2", true, "SEND", "s1", "", ""), &["READ", "WRITE", "SEND"]).to_string());
    world.log_body(0, &with_prior(decision("3", true, "SEND", "s1", "", ""), &["WRITE"]).to_string());
    world.seal();
    let verdict = world.verdict();
    assert_eq!(prior_codes(&verdict), [("prior-classes-differ", Severity::Fail)], "{}", told(&verdict));
}

/// The receipt id of an entry of the world's log.
fn id(world: &World, index: u64) -> String {
    receipt::ReceiptId::of(&world.log.entries[index as usize]).to_string()
}

#[test]
fn claimed_heads_are_looked_up_in_the_subjects_histories() {
    let mut world = World::new();
    world.log_body(0, &decision("1", true, MUTATION, "s1", "", "u1").to_string());
    world.log_body(0, &decision("2", false, RECOVERY, "s1", "", "u1").to_string());
    world.log_body(0, &decision("3", true, "READ", "s1", "", "u2").to_string());
    let heads: [(&str, String, bool); 5] = [
        // A denial advances the head.
        ("u1", id(&world, 2), true),
        ("u2", id(&world, 3), true),
        ("u1", id(&world, 1), false),
        ("u1", id(&world, 3), false),
        ("u1", "0".repeat(64), false),
    ];
    for (subject, head, is_true) in heads {
        let mut judged = world.clone();
        let mut body = decision("4", true, "READ", "s9", "", subject);
        body["prior_heads"] = json!({subject: head});
        judged.log_body(0, &body.to_string());
        judged.seal();
        let verdict = judged.verdict();
        assert_eq!(verdict.count("prior-heads-differ"), u64::from(!is_true), "{subject} {head}: {}", told(&verdict));
    }
}

/// The second gate judges by a receipt of the first, which reaches the log after it or not at all; with or without the
/// class of that receipt.
fn overtaken(comes: bool, allowed: bool, classes: Option<&[&str]>) -> World {
    let mut world = World::new();
    let second = world.add_gate("gate.example/support-2");
    let slow = decision("1", true, MUTATION, "s1", "", "u1");
    // What the first gate signs, and hands to the log later.
    let entry = world.gates[0].issue(&slow.to_string(), world.now_ms).bytes().to_vec();
    let mut body = decision("1", allowed, "WRITE", "s2", "", "u1");
    if let Some(classes) = classes {
        body = with_prior(body, classes);
    }
    body["prior_heads"] = json!({"u1": receipt::ReceiptId::of(&entry).to_string()});
    world.log_body(second, &body.to_string());
    if comes {
        world.log.push(entry);
    }
    world.seal();
    world
}

#[test]
fn a_gate_that_judged_by_a_receipt_slower_to_reach_the_log_is_not_accused() {
    let verdict = overtaken(true, true, None).verdict();
    assert_eq!((verdict.exit_code, verdict.count("prior-heads-unjudged")), (0, 1), "{}", told(&verdict));
    // Nor by the classes that it claims beside the head, which are then not judged.
    let verdict = overtaken(true, true, Some(&[MUTATION])).verdict();
    assert_eq!((verdict.exit_code, verdict.count("prior-unjudged")), (2, 1), "{}", told(&verdict));
    assert_eq!(verdict.count("prior-heads-differ") + verdict.count("prior-classes-differ"), 0, "{}", told(&verdict));
    let verdict = overtaken(true, false, Some(&[MUTATION])).verdict();
    assert_eq!(verdict.exit_code, 0, "{}", told(&verdict));
    // If it never comes, the gate judged by a history of its own.
    for classes in [None, Some(&[MUTATION][..])] {
        let verdict = overtaken(false, true, classes).verdict();
        assert_eq!(verdict.exit_code, 1, "{}", told(&verdict));
        assert_eq!(verdict.count("prior-heads-differ"), 1, "{}", told(&verdict));
        assert_eq!(verdict.count("prior-classes-differ"), u64::from(classes.is_some()), "{}", told(&verdict));
    }
}

#[test]
fn classes_claimed_beside_heads_are_judged_up_to_those_heads() {
    let mut world = World::new();
    let second = world.add_gate("gate.example/support-2");
    world.log_body(0, &decision("1", true, MUTATION, "s1", "", "u1").to_string());
    let head = id(&world, 2);
    world.log_body(0, &decision("2", true, "READ", "s1", "", "u1").to_string());
    // The second gate had read the log as far as the mutation.
    let mut body = with_prior(decision("1", true, "WRITE", "s2", "", "u1"), &[MUTATION]);
    body["prior_heads"] = json!({"u1": head});
    let mut honest = world.clone();
    honest.log_body(second, &body.to_string());
    honest.seal();
    assert_eq!(honest.verdict().exit_code, 0, "{}", told(&honest.verdict()));
    body["prior_action_classes"] = json!(["READ"]);
    world.log_body(second, &body.to_string());
    world.seal();
    assert_eq!(prior_codes(&world.verdict()), [("prior-classes-differ", Severity::Fail)]);
}

#[test]
fn a_claim_that_names_no_history_is_not_judged() {
    let verdict = logged(&[with_prior(decision("1", true, "READ", "", "", ""), &[])]).verdict();
    assert_eq!(prior_codes(&verdict), [("prior-unjudged", Severity::NotChecked)]);
    assert_eq!(verdict.exit_code, 2);
}

#[test]
fn a_claim_about_a_history_that_is_only_committed_to_is_not_judged() {
    let mut hidden = decision("1", true, MUTATION, "s1", "", "");
    hidden["action_class"] = json!({"#": format!("sha256:{}", "0".repeat(64))});
    let verdict = logged(&[hidden, with_prior(decision("2", true, "READ", "s1", "", ""), &[MUTATION])]).verdict();
    assert_eq!(prior_codes(&verdict), [("prior-unjudged", Severity::NotChecked)], "{}", told(&verdict));
    assert_eq!(verdict.exit_code, 2);
}

#[test]
fn a_head_whose_subjects_are_not_in_the_clear_accuses_nobody() {
    let many: Vec<String> = (0..65).map(|number| format!("customer:{number}")).collect();
    for subjects in [json!({"#": format!("sha256:{}", "0".repeat(64))}), json!(many)] {
        let mut world = World::new();
        let mut hidden = decision("1", true, MUTATION, "s1", "", "");
        hidden["subjects"] = subjects;
        let index = world.log_body(0, &hidden.to_string()) as usize;
        let head = merkle::leaf_hash(&world.log.entries[index]).to_hex();
        let mut next = decision("2", true, "READ", "s2", "", "customer:1");
        next["prior_heads"] = json!({"customer:1": head});
        world.log_body(0, &next.to_string());
        world.seal();
        let verdict = world.verdict();
        let heads = verdict.check("sequence/prior-heads").unwrap();
        let codes: Vec<_> = heads.findings.iter().map(|finding| (finding.code, finding.severity)).collect();
        assert_eq!(codes, [("prior-heads-unjudged", Severity::NotChecked)], "{}", told(&verdict));
        let by_subject = verdict.check("sequence/R4_SEQUENCE/subject").unwrap();
        assert_eq!(by_subject.count("member-committed"), 1, "{}", told(&verdict));
    }
}

#[test]
fn a_scope_that_every_receipt_only_commits_to_is_not_ok() {
    let mut hidden = decision("1", true, MUTATION, "s1", "", "");
    hidden["subjects"] = json!({"#": format!("sha256:{}", "0".repeat(64))});
    let verdict = logged(&[hidden]).verdict();
    assert!(verdict.check("sequence/R4_SEQUENCE/subject").unwrap().required);
    assert_eq!(verdict.exit_code, 2, "{}", told(&verdict));
}

#[test]
fn a_gate_that_judges_by_less_than_the_rule_asks_for_is_noticed() {
    let rules = |scope: &str| {
        Rules::parse(&format!(
            "[[sequence]]\ncode = \"R4_SEQUENCE\"\nfirst = [\"{MUTATION}\"]\nthen = [\"{RECOVERY}\"]\nscope = \"{scope}\"\n"
        ))
        .unwrap()
    };
    let before = [decision("1", true, "READ", "s1", "r1", "u1"), decision("2", true, "WRITE", "s2", "r1", "u1")];
    let last = decision("3", true, "SEND", "s2", "r2", "u1");
    // What the session, the resource and the subject of the fourth call show before it.
    let cases: [(&[&str], [u64; 3]); 3] =
        [(&["WRITE", "SEND"], [0, 1, 1]), (&["READ", "WRITE"], [0, 0, 1]), (&["READ", "WRITE", "SEND"], [0, 0, 0])];
    for (claim, expected) in cases {
        let fourth = with_prior(decision("4", true, RECOVERY, "s2", "r1", "u1"), claim);
        let world = logged(&[before[0].clone(), before[1].clone(), last.clone(), fourth]);
        let narrower = ["session", "resource", "subject"]
            .map(|scope| world.audit_by(&world.bundle(), &rules(scope)).count("scope-narrower"));
        assert_eq!(narrower, expected, "{claim:?}");
        assert_eq!(world.audit_by(&world.bundle(), &rules("subject")).exit_code, 0);
        // The built-in rule asks for no scope before another.
        assert_eq!(world.verdict().count("scope-narrower"), 0);
    }
}

#[test]
fn a_history_read_under_a_head_that_nobody_vouched_for_is_told() {
    for (witnessed, notices) in [("false", 1), ("true", 0)] {
        let mut world = World::new();
        world.log_body(0, &format!(r#"{{"type":"decision","request_id":"1","decision":"allow","authenticated":true,"executes":"none","subjects":["u"],"prior_action_classes":[],"history":{{"size":1,"witnessed":{witnessed}}}}}"#));
        world.seal();
        let verdict = world.verdict();
        assert_eq!((verdict.exit_code, verdict.count("history-unwitnessed")), (0, notices), "{}", told(&verdict));
    }
}

/// A decision of the world's first gate, judged under this root of the log's first so many entries.
fn judged_under(size: u64, root: &str, allowed: bool) -> Value {
    let mut body = decision("9", allowed, "READ", "s1", "", "u1");
    body["history"] = json!({"size": size, "root": root, "witnessed": true});
    body
}

/// The root of the world's log at a size.
fn root(world: &World, size: u64) -> String {
    merkle::root_of(&world.log.tree, merkle::TreeSize(size)).unwrap().0.to_base64()
}

/// A log of 700 entries and two heads, so that most sizes have none.
fn long_world() -> World {
    let mut world = World::new();
    for _ in 0..400 {
        world.log_body(0, r#"{"type":"heartbeat"}"#);
    }
    world.seal();
    for _ in 0..299 {
        world.log_body(0, r#"{"type":"heartbeat"}"#);
    }
    world
}

#[test]
fn the_root_that_a_gate_judged_under_is_held_against_the_logs_at_any_size() {
    let world = long_world();
    for size in [0, 1, 2, 255, 256, 257, 401, 512, 699, 700] {
        let other = root(&world, if size == 7 { 8 } else { 7 });
        for (claimed, found) in [(root(&world, size), 0), (other, 1)] {
            for allowed in [true, false] {
                let mut world = world.clone();
                world.log_body(0, &judged_under(size, &claimed, allowed).to_string());
                world.seal();
                let verdict = world.verdict();
                let check = verdict.check("sequence/history-roots").unwrap();
                assert_eq!(check.count("history-root-differs"), found, "{size} {allowed}: {}", told(&verdict));
                assert_eq!(check.count("history-root-unjudged"), 0, "{size}: {}", told(&verdict));
                // Nothing was let through by a denial.
                assert_eq!(verdict.exit_code, u8::from(found > 0 && allowed), "{size} {allowed}: {}", told(&verdict));
                assert_eq!(check.status == Status::Ok, found == 0, "{size} {allowed}: {}", told(&verdict));
            }
        }
    }
}

#[test]
fn a_root_that_the_bundle_cannot_tell_is_not_checked_and_accuses_nobody() {
    type Damage = fn(&mut MemoryBundle);
    let cases: [(&str, u64, Damage); 3] = [
        ("vouches for so many", 5_000, |_| {}),
        ("tiles that tell the root there are not in the bundle", 300, |bundle| {
            for path in ["log/tile/0/001", "log/tile/0/000"] {
                assert!(bundle.remove(path).is_some(), "{path}");
            }
        }),
        ("is no hash in base64", 300, |_| {}),
    ];
    for (why, size, damage) in cases {
        for (allowed, severity) in [(true, Severity::NotChecked), (false, Severity::Notice)] {
            let mut world = long_world();
            let claimed = if why.contains("base64") { "no root".to_owned() } else { root(&world, 7) };
            world.log_body(0, &judged_under(size, &claimed, allowed).to_string());
            world.seal();
            let mut bundle = world.bundle();
            damage(&mut bundle);
            let verdict = world.audit(&bundle);
            let check = verdict.check("sequence/history-roots").unwrap();
            let found: Vec<_> = check.findings.iter().map(|finding| (finding.code, finding.severity)).collect();
            assert_eq!(found, [("history-root-unjudged", severity)], "{why}: {}", told(&verdict));
            assert!(check.findings[0].shown.contains(why), "{}", told(&verdict));
            assert_eq!(check.required, allowed);
        }
    }
}

#[test]
fn a_gate_that_judged_under_a_head_that_the_log_signed_of_another_history_is_not_accused() {
    let mut world = long_world();
    let mut second = world.clone();
    second.log_body(0, r#"{"type":"heartbeat","other":true}"#);
    let other = second.log.seal();
    world.log_body(0, r#"{"type":"heartbeat"}"#);
    let size = other.checkpoint().size.0;
    world.log_body(0, &judged_under(size, &root(&second, size), true).to_string());
    world.seal();
    // Nobody else saw that head.
    let alone = world.verdict();
    assert_eq!((alone.exit_code, alone.count("history-root-differs")), (1, 1), "{}", told(&alone));
    let finding = &alone.check("sequence/history-roots").unwrap().findings[0];
    assert!(finding.not_shown.contains("or the log showed it another history"), "{finding:?}");
    world.log.heads.insert(1, other);
    let verdict = world.verdict();
    assert_eq!((verdict.count("history-root-differs"), verdict.count("log-fork")), (0, 1), "{}", told(&verdict));
}
