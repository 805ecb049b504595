//! The foreign family, and the sequence family over foreign records: against the real case files where they lie
//! beside the checkout, against samples made here always.

use crate::samples;
use crate::world;
use audit::{Rules, Severity, Status, Verdict};
use samples::{CAPBROKER_AFTER, CAPBROKER_BEFORE, published, run};
use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::PathBuf;
use world::{World, told};

const RELATIONS: &str = "[[relation]]\nsubject = \"customer:cust_77\"\nresources = [\"contact_77\", \"auth_77\"]\n";

/// The real file of this name, or `None`, loudly, where the case files are not there.
fn case(name: &str) -> Option<String> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/cases").join(name);
    match std::fs::read_to_string(&path) {
        Ok(text) => Some(text),
        Err(_) => {
            // Not eprintln!: the harness keeps that to itself, and a skipped check has to be seen.
            let mut stderr = std::io::stderr();
            writeln!(stderr, "SKIPPED: {name} is not beside the checkout; only our own samples were checked").unwrap();
            None
        }
    }
}

/// Our own sample, and the real file where there is one.
fn versions(own: String, name: &str) -> Vec<String> {
    std::iter::once(own).chain(case(name)).collect()
}

fn runs(letter: char) -> Vec<String> {
    versions(run(letter), &format!("sequence-attack-repro/run-{letter}.jsonl"))
}

fn imported(format: &str, lines: &str) -> World {
    let mut world = World::new();
    world.import(format, lines);
    world.seal();
    world
}

fn by_relations(world: &World) -> Verdict {
    world.audit_by(&world.bundle(), &Rules::parse(RELATIONS).unwrap())
}

/// Exact numbers of all findings of two families, by code, without the notice that every record earns.
fn found(verdict: &Verdict) -> BTreeMap<String, u64> {
    let judged =
        verdict.checks.iter().filter(|check| matches!(check.family, audit::Family::Sequence | audit::Family::Foreign));
    let counts = judged.flat_map(|check| {
        let counts =
            check.counts.iter().filter(|(code, _)| **code != "decided-at-unproven" && **code != "scope-absent");
        counts.map(|(code, count)| (format!("{} {code}", check.name), *count)).collect::<Vec<_>>()
    });
    counts.collect()
}

fn expected(findings: &[(&str, u64)]) -> BTreeMap<String, u64> {
    findings.iter().map(|(finding, count)| ((*finding).to_owned(), *count)).collect()
}

/// Verdict over one run of the ladder, with the checks that must hold for each of them.
fn ladder(letter: char, records: u64, lines: &str) -> Verdict {
    let world = imported("sequence-attack-repro", lines);
    let verdict = by_relations(&world);
    let digests = verdict.check("foreign/sequence-attack-repro/digest").unwrap();
    assert_eq!(
        (digests.status, digests.count("decided-at-unproven")),
        (Status::Ok, records),
        "{letter}: {}",
        told(&verdict)
    );
    assert_eq!(
        verdict.check("foreign/sequence-attack-repro/chain").unwrap().status,
        Status::Ok,
        "{letter}: {}",
        told(&verdict)
    );
    verdict
}

#[test]
fn legitimate_runs_have_no_finding() {
    // E is recovery before mutation: a rule that fires there blocks too much.
    for (letter, records) in [('B', 3), ('C', 2), ('D', 3), ('E', 3)] {
        for lines in runs(letter) {
            let verdict = ladder(letter, records, &lines);
            assert_eq!(found(&verdict), expected(&[]), "{letter}: {}", told(&verdict));
            assert_eq!(verdict.exit_code, 0, "{letter}: {}", told(&verdict));
        }
    }
}

#[test]
fn run_f_passes_each_session_and_fails_by_subject() {
    for lines in runs('F') {
        let verdict = ladder('F', 2, &lines);
        let fires =
            expected(&[("R4_SEQUENCE/resource sequence-forbidden", 1), ("R4_SEQUENCE/subject sequence-forbidden", 1)]);
        assert_eq!(found(&verdict), fires, "{}", told(&verdict));
        assert_eq!(verdict.check("sequence/R4_SEQUENCE/session").unwrap().status, Status::Ok);
        assert_eq!(verdict.exit_code, 1);
        let shown = &verdict.check("sequence/R4_SEQUENCE/subject").unwrap().findings[0].shown;
        assert!(shown.ends_with("in subject \"customer:cust_77\""), "{shown}");
    }
}

#[test]
fn run_g_was_caught_by_its_gate_and_its_prior_list_spans_sessions() {
    for lines in runs('G') {
        let verdict = ladder('G', 2, &lines);
        assert_eq!(found(&verdict), expected(&[]), "{}", told(&verdict));
        let covers = &verdict.check("sequence/R4_SEQUENCE/resource").unwrap().covers;
        assert!(covers.contains("would have completed the sequence: 1;"), "{covers}");
        assert!(
            verdict
                .check("sequence/R4_SEQUENCE/session")
                .unwrap()
                .covers
                .contains("would have completed the sequence: 0;")
        );
        assert_eq!(verdict.check("sequence/prior-action-classes").unwrap().status, Status::Ok);
    }
}

#[test]
fn run_h_is_missed_by_resource_and_caught_by_subject() {
    for lines in runs('H') {
        let verdict = ladder('H', 4, &lines);
        assert_eq!(found(&verdict), expected(&[("R4_SEQUENCE/subject sequence-forbidden", 1)]), "{}", told(&verdict));
        let finding = &verdict.check("sequence/R4_SEQUENCE/subject").unwrap().findings[0];
        // The first pair; the second was denied by a gate that judged by customer.
        assert_eq!(finding.receipts.iter().map(|receipt| receipt.index).collect::<Vec<_>>(), [Some(1), Some(2)]);
        assert!(
            verdict
                .check("sequence/R4_SEQUENCE/subject")
                .unwrap()
                .covers
                .contains("would have completed the sequence: 1;"),
            "{}",
            told(&verdict)
        );
    }
}

#[test]
fn run_i_claims_an_empty_prior_that_the_log_contradicts() {
    for lines in runs('I') {
        let verdict = ladder('I', 4, &lines);
        let findings = expected(&[
            ("R4_SEQUENCE/session sequence-forbidden", 1),
            ("R4_SEQUENCE/subject sequence-forbidden", 1),
            ("prior-action-classes history-restarted", 1),
            ("prior-action-classes prior-classes-differ", 2),
        ]);
        assert_eq!(found(&verdict), findings, "{}", told(&verdict));
        let prior = verdict.check("sequence/prior-action-classes").unwrap();
        let told_of: Vec<_> =
            prior.findings.iter().map(|finding| (finding.code, finding.severity, finding.receipts[0].index)).collect();
        // I-1's reset went through; I-2 begins a new history, and its reset was denied.
        let right = [
            ("prior-classes-differ", Severity::Fail, Some(2)),
            ("history-restarted", Severity::Notice, Some(3)),
            ("prior-classes-differ", Severity::Notice, Some(4)),
        ];
        assert_eq!(told_of, right);
    }
}

#[test]
fn the_denied_half_of_run_i_alone_is_no_sequence_finding() {
    for lines in runs('I') {
        let half: String = lines.lines().skip(2).map(|line| format!("{line}\n")).collect();
        let verdict = ladder('I', 2, &half);
        assert_eq!(
            found(&verdict),
            expected(&[("prior-action-classes prior-classes-differ", 1)]),
            "{}",
            told(&verdict)
        );
        assert_eq!(verdict.exit_code, 0, "{}", told(&verdict));
    }
}

#[test]
fn the_subject_of_a_customers_own_record_needs_no_relation() {
    for lines in runs('F') {
        let world = imported("sequence-attack-repro", &lines);
        assert_eq!(world.verdict().check("sequence/R4_SEQUENCE/subject").unwrap().count("sequence-forbidden"), 1);
    }
    for lines in runs('H') {
        let verdict = imported("sequence-attack-repro", &lines).verdict();
        assert_eq!(verdict.count("sequence-forbidden"), 0, "{}", told(&verdict));
        assert_eq!(verdict.check("sequence/R4_SEQUENCE/subject").unwrap().count("scope-absent"), 2);
    }
}

#[test]
fn a_rule_of_the_auditors_file_says_where_a_gate_judged_by_less() {
    let rules = format!(
        "{RELATIONS}[[sequence]]\ncode = \"TAKEOVER\"\nfirst = [\"IDENTITY_MUTATION\"]\nthen = [\"CREDENTIAL_RECOVERY\"]\nscope = \"subject\"\n"
    );
    for lines in runs('H') {
        let world = imported("sequence-attack-repro", &lines);
        let verdict = world.audit_by(&world.bundle(), &Rules::parse(&rules).unwrap());
        let check = verdict.check("sequence/TAKEOVER/subject").unwrap();
        assert_eq!((check.count("sequence-forbidden"), check.count("scope-narrower")), (1, 1), "{}", told(&verdict));
    }
}

#[test]
fn the_whole_ladder_in_one_log_is_judged_run_by_run_and_across_runs() {
    let own: String = ('B'..='I').map(run).collect();
    let real = ('B'..='I')
        .map(|letter| case(&format!("sequence-attack-repro/run-{letter}.jsonl")))
        .collect::<Option<String>>();
    for lines in std::iter::once(own).chain(real) {
        let verdict = by_relations(&imported("sequence-attack-repro", &lines));
        let findings = expected(&[
            // I-1 alone.
            ("R4_SEQUENCE/session sequence-forbidden", 1),
            // E's and F's resets, after C's and D's mutations of the same record.
            ("R4_SEQUENCE/resource sequence-forbidden", 2),
            // Those, H-2's and I-1's.
            ("R4_SEQUENCE/subject sequence-forbidden", 4),
            ("prior-action-classes history-restarted", 1),
            ("prior-action-classes prior-classes-differ", 2),
        ]);
        assert_eq!(found(&verdict), findings, "{}", told(&verdict));
        assert_eq!(verdict.count("decided-at-unproven"), 23);
    }
}

#[test]
fn a_ladder_imported_twice_restarts_its_histories_and_lies_no_more_than_before() {
    for lines in runs('G').into_iter().chain(runs('D')) {
        let verdict = by_relations(&imported("sequence-attack-repro", &format!("{lines}{lines}")));
        let codes = found(&verdict);
        assert!(codes.contains_key("prior-action-classes history-restarted"), "{}", told(&verdict));
        assert_eq!(
            verdict.count("prior-classes-differ") + verdict.count("link-broken") + verdict.count("sequence-gap"),
            0,
            "{}",
            told(&verdict)
        );
    }
}

#[test]
fn a_gate_that_judges_by_resource_and_forgets_it_is_found() {
    // G's second session, as if the gate had shown itself an empty list and let the reset pass.
    let forgetful = samples::Gate::new("G", "ResourceGate")
        .allow("G-1", "IDENTITY_MUTATION", samples::Kept::Resource("cust_77"), &[])
        .allow("G-2", "CREDENTIAL_RECOVERY", samples::Kept::Resource("cust_77"), &[])
        .lines();
    let verdict = by_relations(&imported("sequence-attack-repro", &forgetful));
    assert_eq!(
        verdict.check("sequence/prior-action-classes").unwrap().count("prior-classes-differ"),
        1,
        "{}",
        told(&verdict)
    );
}

#[test]
fn the_published_record_is_a_content_digest_and_no_chain() {
    for line in versions(published(), "sequence-attack-repro/published.json") {
        let verdict = by_relations(&imported("sequence-attack-repro", &line));
        let findings =
            expected(&[("sequence-attack-repro/chain no-chain", 1), ("prior-action-classes prior-unjudged", 1)]);
        assert_eq!(found(&verdict), findings, "{}", told(&verdict));
        assert_eq!(verdict.check("foreign/sequence-attack-repro/digest").unwrap().status, Status::Ok);
        let chain = verdict.check("foreign/sequence-attack-repro/chain").unwrap();
        assert_eq!(chain.status, Status::NotChecked);
        assert!(chain.findings[0].shown.contains("content digest and no chain"));
        assert_eq!(verdict.count("decided-at-unproven"), 0);
        assert_eq!(verdict.exit_code, 2);
    }
}

#[test]
fn changed_cut_and_repeated_foreign_records_are_told_apart() {
    for lines in runs('D') {
        let lines: Vec<&str> = lines.lines().collect();
        let over = |lines: &[&str]| by_relations(&imported("sequence-attack-repro", &lines.join("\n")));
        let changed = over(&[lines[0], &lines[1].replace("new@somewhere.test", "old@somewhere.test"), lines[2]]);
        assert_eq!(
            found(&changed),
            expected(&[
                ("sequence-attack-repro/digest digest-mismatch", 1),
                ("sequence-attack-repro/chain link-broken", 1)
            ]),
            "{}",
            told(&changed)
        );
        let untimed = over(&[&lines[0].replace("2026-11-29T", "2027-11-29T"), lines[1], lines[2]]);
        assert_eq!(found(&untimed), expected(&[]), "decided_at is covered by nothing");
        let cut = over(&[lines[0], lines[2]]);
        // The denied reset claims a mutation that is no longer there.
        let gap = expected(&[
            ("sequence-attack-repro/chain sequence-gap", 1),
            ("prior-action-classes prior-classes-differ", 1),
        ]);
        assert_eq!(found(&cut), gap, "{}", told(&cut));
        assert_eq!(cut.exit_code, 1);
        let headless = over(&[lines[1], lines[2]]);
        assert_eq!(
            headless.check("foreign/sequence-attack-repro/chain").unwrap().count("link-broken"),
            1,
            "{}",
            told(&headless)
        );
    }
}

#[test]
fn a_foreign_record_that_is_none_of_its_format_fails() {
    let mut world = World::new();
    world.log_body(0, r#"{"type":"foreign","format":"sequence-attack-repro","receipt":{"tool":"x"}}"#);
    world.log_body(0, r#"{"type":"foreign","format":"capbroker","receipt":{"event":"x"}}"#);
    world.log_body(0, r#"{"type":"foreign","format":"unheard-of","receipt":{}}"#);
    world.log_body(0, r#"{"type":"foreign","format":"capbroker"}"#);
    world.log_body(0, r#"{"type":"foreign","format":"capbroker","receipt_b64":"e30="}"#);
    world.log_body(0, r#"{"type":"foreign","format":"capbroker","receipt_b64":"e30"}"#.replace("e30", "//8=").as_str());
    world.seal();
    let verdict = world.verdict();
    let findings = expected(&[
        ("carried carried-unreadable", 2),
        ("carried format-unknown", 1),
        ("capbroker/record record-malformed", 2),
        ("sequence-attack-repro/digest record-malformed", 1),
        // The one record was none, so that there is no chain.
        ("sequence-attack-repro/chain nothing-to-check", 1),
    ]);
    assert_eq!(found(&verdict), findings, "{}", told(&verdict));
    assert_eq!(verdict.exit_code, 1);
}

#[test]
fn capbroker_before_its_fix_leaves_everything_unknown() {
    for lines in versions(CAPBROKER_BEFORE.to_owned(), "capbroker/before.jsonl") {
        let verdict = imported("capbroker", &lines).verdict();
        let findings = expected(&[
            ("capbroker/authentication authentication-unknown", 7),
            ("capbroker/execution execution-unknown", 3),
            ("capbroker/execution executor-unknown", 3),
            ("capbroker/denials denied-by-policy", 3),
            ("capbroker/denials denied-by-person", 1),
        ]);
        assert_eq!(found(&verdict), findings, "{}", told(&verdict));
        assert_eq!(verdict.exit_code, 2);
        assert!(
            verdict
                .check("foreign/capbroker/denials")
                .unwrap()
                .covers
                .contains("4 denials: 3 by policy, 1 by a person")
        );
        for name in ["execution", "authentication"] {
            assert_eq!(verdict.check(&format!("foreign/capbroker/{name}")).unwrap().status, Status::NotChecked);
        }
    }
}

#[test]
fn capbroker_after_its_fix_is_read_for_no_more_than_it_says() {
    for lines in versions(CAPBROKER_AFTER.to_owned(), "capbroker/after.jsonl") {
        let verdict = imported("capbroker", &lines).verdict();
        let findings = expected(&[
            // Lines 1, 3, 6, 7 and 10: an ALLOW does not say that the request was authenticated.
            ("capbroker/authentication authentication-unknown", 5),
            // Lines 4, 5 and 12.
            ("capbroker/authentication agent-claimed", 3),
            ("capbroker/execution executed-by-caller", 1),
            ("capbroker/execution pairing-ambiguous", 1),
            ("capbroker/budget budget-spent-by-failed-execution", 1),
            ("capbroker/denials denied-by-policy", 3),
        ]);
        assert_eq!(found(&verdict), findings, "{}", told(&verdict));
        // Entry 0 is the issuer's open, so that line n of the file is entry n of the log.
        let lines_of = |check: &str, code: &str| -> Vec<Vec<u64>> {
            let findings = verdict.check(check).unwrap().findings.iter().filter(|finding| finding.code == code);
            findings.map(|finding| finding.receipts.iter().filter_map(|receipt| receipt.index).collect()).collect()
        };
        assert_eq!(lines_of("foreign/capbroker/execution", "executed-by-caller"), [[3]]);
        assert_eq!(lines_of("foreign/capbroker/execution", "pairing-ambiguous"), [[6, 7, 8, 9]]);
        assert_eq!(lines_of("foreign/capbroker/budget", "budget-spent-by-failed-execution"), [[10, 11, 12]]);
        assert_eq!(lines_of("foreign/capbroker/authentication", "agent-claimed"), [[4], [5], [12]]);
        let claimed: Vec<&str> = verdict
            .check("foreign/capbroker/authentication")
            .unwrap()
            .findings
            .iter()
            .filter(|finding| finding.code == "agent-claimed")
            .map(|finding| finding.shown.as_str())
            .collect();
        assert!(
            claimed[0].contains("\"the-ceo\", is a claim") && claimed[0].contains("nothing had been verified"),
            "{}",
            claimed[0]
        );
        assert!(claimed[1].contains("the capability's own signature had been verified"), "{}", claimed[1]);
        assert_eq!(verdict.exit_code, 2);
    }
}

#[test]
fn an_outcome_belongs_to_the_only_decision_it_can_belong_to() {
    const ALLOW: &str = r#"{"event":"decision","agent_id":"a","operation":"o","resource":"r","capability_id":"c","decision":"ALLOW","reason":"within_capability","executed_by":"broker"}"#;
    const DONE: &str =
        r#"{"event":"execution_result","operation":"o","resource":"r","capability_id":"c","executed":true}"#;
    let over = |lines: &[&str]| {
        let verdict = imported("capbroker", &lines.join("\n")).verdict();
        ["pairing-ambiguous", "execution-unknown", "outcome-without-decision"].map(|code| verdict.count(code))
    };
    assert_eq!(over(&[ALLOW, DONE, ALLOW, DONE]), [0, 0, 0]);
    assert_eq!(over(&[ALLOW, ALLOW, DONE, DONE, ALLOW, DONE]), [1, 0, 0]);
    assert_eq!(over(&[ALLOW, ALLOW, DONE]), [1, 0, 0]);
    assert_eq!(over(&[ALLOW, ALLOW]), [0, 2, 0]);
    assert_eq!(over(&[DONE, ALLOW]), [0, 1, 1]);
    assert_eq!(over(&[ALLOW, &DONE.replace("\"c\"", "\"d\"")]), [0, 1, 1]);
}
