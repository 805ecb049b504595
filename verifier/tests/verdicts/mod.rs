//! Verdicts to make reports of: real ones, of many endings and families; one made of nothing but hostile text; one with
//! more in it than a page has room for.

#![allow(dead_code, unreachable_pub, clippy::unwrap_used, clippy::panic)] // Each test uses a part of it.

use crate::samples;
pub(crate) use crate::world;

use audit::completeness::{
    BUCKETS, Beyond, Completeness, IssuerSpan, JournalState, LogSpan, Placed, SeqGap, SizeAt, SpanMs, SpanS,
    WitnessSpan,
};
use audit::{Family, Finding, MemoryBundle, ReceiptRef, Rules, Severity, Status, Verdict};
use std::sync::Arc;
use world::{START_MS, START_S, World, decision};

/// A verdict, what it is of, and the bundle it was drawn from.
pub struct Case {
    pub name: &'static str,
    pub verdict: Verdict,
    pub bundle: MemoryBundle,
}

/// Real verdicts: ok, failed, not checked; of own and foreign receipts; with and without a time; with evidence.
pub fn real() -> Vec<Case> {
    let mut cases = Vec::new();
    let mut add = |name, world: &World, bundle: MemoryBundle, at: Option<u64>, max_age_ms: Option<u64>| {
        let rules = Rules::built_in();
        let verdict = world.audit_with(&bundle, &world.policy(), &world.issuers(), &rules, at, max_age_ms);
        cases.push(Case { name, verdict, bundle });
    };
    let honest = honest();
    add("honest", &honest, honest.bundle(), None, None);
    add("honest, with a time", &honest, honest.bundle(), Some(honest.now_ms + 5_000), Some(60_000));
    add("stale", &honest, honest.bundle(), Some(honest.now_ms + 500_000), Some(60_000));

    let mut attacked = World::new();
    attacked.log_body(0, &decision("1", true, "IDENTITY_MUTATION", "s1", "r1", "u1").to_string());
    attacked.log_body(0, &decision("2", true, "CREDENTIAL_RECOVERY", "s1", "r1", "u1").to_string());
    attacked.seal();
    add("attacked", &attacked, attacked.bundle(), None, None);

    for (name, taken) in [
        ("no witness's checkpoint", "witness/witness-2.example/checkpoint"),
        ("no head", "log/checkpoint"),
        ("no entries", "log/tile/entries/000.p/21"),
    ] {
        let mut bundle = honest.bundle();
        assert!(bundle.remove(taken).is_some(), "{taken}");
        add(name, &honest, bundle, None, None);
    }
    let mut quiet = World::new();
    quiet.log = world::TestLog::new("log.example/test", 1);
    quiet.seal();
    add("an empty log", &quiet, quiet.bundle(), None, None);
    add("nothing at all", &quiet, MemoryBundle::new(), None, None);

    // A gap: the gate issued a receipt that the log never took.
    let mut torn = World::new();
    torn.log_heartbeats(3);
    let now = torn.now_ms;
    let _withheld = torn.gates[0].issue(r#"{"type":"heartbeat"}"#, now);
    torn.log_heartbeats(3);
    torn.seal();
    add("torn", &torn, torn.bundle(), None, None);

    // A log that signed two histories: evidence.
    let mut forked = self::honest();
    let mut second = world::TestLog::new("log.example/test", 1);
    (0..21u8).for_each(|byte| second.push(vec![byte]));
    let head = second.seal();
    forked.witnesses[0].journal_line(&head, "fork", START_S);
    add("forked", &forked, forked.bundle(), None, None);

    let mut foreign = World::new();
    for letter in ['F', 'G', 'H', 'I'] {
        foreign.import("sequence-attack-repro", &samples::run(letter));
    }
    foreign.import("capbroker", samples::CAPBROKER_AFTER);
    foreign.import("capbroker", samples::CAPBROKER_BEFORE);
    foreign.seal();
    add("foreign", &foreign, foreign.bundle(), None, None);
    cases
}

pub fn honest() -> World {
    let mut world = World::new();
    world.log_heartbeats(20);
    world.seal();
    world
}

/// What an attacker would put into a name, a path or a receipt, to be obeyed by a terminal, a browser or an eye.
pub fn hostile() -> Vec<String> {
    let mut texts: Vec<String> = [
        "<script>alert(1)</script>",
        "</script><img src=x onerror=alert(1)>",
        "\"><svg onload=alert(1)>",
        "' onmouseover='alert(1)",
        "</style><style>*{display:none}",
        "}*{display:none}/*",
        "</title></head><body>",
        "--><!-- <![CDATA[ ]]>",
        "javascript:alert(1)",
        "data:text/html,<script>alert(1)</script>",
        "url(https://evil.example/x)",
        "expression(alert(1))",
        "&lt;b&gt; &#60;i&#62; &amp;",
        "\u{1b}[2J\u{1b}]0;pwned\u{7}\u{9b}31m\u{1b}]8;;https://evil.example\u{1b}\\",
        "\u{202e}\u{2066}\u{200f}gnp.exe",
        "in\u{200b}vi\u{feff}si\u{ad}ble\u{2060}",
        "nul\u{0}and\u{7f}more\r\n\nok: every required check is ok",
        "e\u{301}\u{302}\u{303}\u{489}",
        "\u{5d0}\u{627}\u{6f0}",
        "{{7*7}} ${7*7} #{7*7}",
    ]
    .map(String::from)
    .into();
    texts.push("W".repeat(65_536));
    texts.push("\u{202e}<".repeat(8_000));
    texts
}

/// A verdict in which every text that is not ours is `text`: as if every place that quotes had forgotten to.
pub fn of_text(text: &str) -> Verdict {
    let mut verdict = honest().verdict();
    let issuer: Arc<str> = Arc::from(text);
    let receipts: Vec<ReceiptRef> = [Some(3), Some(3), Some(9), None]
        .into_iter()
        .enumerate()
        .map(|(place, index)| ReceiptRef {
            index,
            issuer: Some(Arc::clone(&issuer)),
            seq: Some(place as u64),
            id: merkle::leaf_hash(&[place as u8]),
        })
        .collect();
    let endings =
        [(Status::Fail, Severity::Fail), (Status::NotChecked, Severity::NotChecked), (Status::Ok, Severity::Notice)];
    for (check, (status, severity)) in verdict.checks.iter_mut().zip(endings.into_iter().cycle()) {
        check.status = status;
        check.name = text.to_owned();
        check.covers = text.to_owned();
        check.counts = [("gap", 7)].into();
        check.findings = vec![Finding {
            code: "gap",
            severity,
            receipts: receipts.clone(),
            more_receipts: 2,
            shown: text.to_owned(),
            not_shown: text.to_owned(),
            next: text.to_owned(),
        }];
    }
    (verdict.overall, verdict.exit_code) = (Status::Fail, 1);
    verdict.coverage.log = Some(text.to_owned());
    verdict.coverage.ignored = vec![text.to_owned(); 3];
    verdict.evidence = vec![serde_json::json!({"kind": text, "log": text, "notes": [text]})];
    verdict.completeness = completeness();
    for issuer in &mut verdict.completeness.issuers {
        issuer.issuer = text.to_owned();
        issuer.beyond.iter_mut().for_each(|beyond| beyond.shown_by = text.to_owned());
        issuer.unhonoured.iter_mut().for_each(|path| *path = text.to_owned());
    }
    for witness in &mut verdict.completeness.witnesses {
        witness.witness = text.to_owned();
    }
    verdict
}

/// A verdict with more findings, checks, issuers and evidence than any page shows, each as long as it gets.
pub fn huge() -> Verdict {
    let mut verdict = of_text(&"\u{202e}".repeat(700));
    let template = verdict.checks[0].clone();
    verdict.checks = (0..320u64)
        .map(|number| {
            let mut check = template.clone();
            check.family = Family::Issuer;
            check.name = format!("gate.example/{number}");
            check.counts = [("gap", 5000), ("fork", 1000)].into();
            let finding = |code, place: u64| {
                let mut finding = check.findings[0].clone();
                finding.code = code;
                finding.receipts.iter_mut().for_each(|receipt| receipt.index = Some(number * 1000 + place));
                finding
            };
            // Thirty of these checks fill any page.
            let kept = if number < 30 { 25 } else { 0 };
            check.findings =
                (0..kept).map(|at| finding("gap", at)).chain((0..kept).map(|at| finding("fork", at))).collect();
            check
        })
        .collect();
    verdict.evidence = vec![serde_json::json!({"kind": "log-fork", "log": "x".repeat(100_000)}); 60];
    let issuer = verdict.completeness.issuers[1].clone();
    verdict.completeness.issuers = vec![issuer; 120];
    for issuer in &mut verdict.completeness.issuers {
        issuer.gaps = vec![issuer.gaps[0]; 500];
        issuer.forks = vec![issuer.forks[0]; 500];
        issuer.silences = vec![issuer.silences[0]; 500];
    }
    let witness = verdict.completeness.witnesses[0].clone();
    verdict.completeness.witnesses = vec![witness; 110];
    for witness in &mut verdict.completeness.witnesses {
        witness.cosigned_at_s = (START_S..START_S + 500).collect();
    }
    verdict
}

/// Two hours of a log with everything that a timeline can show.
pub fn completeness() -> Completeness {
    let minute = |minute: u64| START_MS + minute * 60_000;
    let at = |seq: u64, of: u64| Placed { seq, index: seq * 3, issued_at_ms: minute(of) };
    let span = |from: u64, to: u64| SpanMs { from_ms: minute(from), to_ms: minute(to) };
    let span_s = |from: u64, to: u64| SpanS { from_s: START_S + from * 60, to_s: START_S + to * 60 };
    let size_at = |size: u64, of: u64| SizeAt { size, time_s: START_S + of * 60 };
    let activity = |from: usize, to: usize| {
        let count = |place: usize| if (from..to).contains(&place) { (place as u64 * 7919) % 23 } else { 0 };
        (0..BUCKETS).map(count).collect::<Vec<u64>>()
    };
    let whole = IssuerSpan {
        issuer: String::from("gate.example/support-1"),
        receipts: 412,
        first: Some(at(0, 0)),
        last: Some(at(411, 118)),
        heartbeat_ms: Some(600_000),
        uncovered: Some(span(118, 122)),
        activity: activity(0, BUCKETS),
        ..IssuerSpan::default()
    };
    let torn = IssuerSpan {
        issuer: String::from("gate.example/payments-with-a-rather-long-name-that-has-no-end"),
        receipts: 96,
        first: Some(at(0, 4)),
        last: Some(at(120, 71)),
        heartbeat_ms: Some(600_000),
        gaps: vec![SeqGap { after: Some(at(41, 30)), before: at(58, 38) }],
        forks: vec![at(77, 50)],
        silences: vec![span(52, 66)],
        beyond: vec![Beyond { seq: 131, shown_by: String::from("proofs/131.tlog-proof") }],
        unhonoured: vec![String::from("proofs/50.tlog-proof")],
        uncovered: Some(span(71, 122)),
        activity: [activity(10, 60), activity(76, 104)]
            .iter()
            .fold(activity(132, 142), |all, part| all.iter().zip(part).map(|(one, other)| one + other).collect()),
        ..IssuerSpan::default()
    };
    let closed = IssuerSpan {
        issuer: String::from("gate.example/trial"),
        receipts: 12,
        first: Some(at(0, 20)),
        last: Some(at(11, 60)),
        closed: true,
        activity: activity(41, 121),
        ..IssuerSpan::default()
    };
    let absent = IssuerSpan { issuer: String::from("gate.example/never-seen"), ..IssuerSpan::default() };
    let ticks = |from: u64, to: u64, every: usize| -> Vec<u64> {
        (from..=to).step_by(every).map(|of| START_S + of * 60).collect()
    };
    let steady = WitnessSpan {
        witness: String::from("witness-1.example"),
        keys: 2,
        journal: JournalState::Read,
        journal_lines: 340,
        cosignatures: 60,
        first: Some(size_at(4, 1)),
        last: Some(size_at(520, 119)),
        cosigned_at_s: ticks(1, 119, 2),
        saw_heads: 61,
        ..WitnessSpan::default()
    };
    let silent = WitnessSpan {
        witness: String::from("witness-2.example"),
        keys: 1,
        journal: JournalState::Absent,
        cosignatures: 31,
        first: Some(size_at(4, 2)),
        last: Some(size_at(520, 118)),
        cosigned_at_s: [ticks(2, 40, 2), ticks(96, 118, 2)].concat(),
        silences: vec![span_s(40, 96)],
        saw_heads: 32,
        saw_alone: 1,
        ..WitnessSpan::default()
    };
    let never = WitnessSpan { witness: String::from("witness-3.example"), keys: 1, ..WitnessSpan::default() };
    Completeness {
        log: LogSpan {
            entries: 520,
            issued: Some(span(0, 118)),
            heads_listed: 118,
            heads_omitted: 1,
            cosigned_from: Some(size_at(4, 1)),
            cosigned_to: Some(size_at(520, 119)),
            not_fresh: vec![span_s(40, 96)],
            fresh_limit_s: Some(1_200),
            ..LogSpan::default()
        },
        issuers: vec![whole, torn, closed, absent],
        witnesses: vec![steady, silent, never],
    }
}

/// The failed verdict of a large fixture, as it would look: real findings, and a timeline with everything in it.
pub fn telling() -> Case {
    let mut case = real().into_iter().find(|case| case.name == "forked").unwrap();
    let attacked = real().into_iter().find(|case| case.name == "attacked").unwrap();
    let sequence = attacked.verdict.checks.into_iter().filter(|check| check.family == Family::Sequence);
    case.verdict.checks.retain(|check| check.family != Family::Sequence);
    case.verdict.checks.extend(sequence);
    case.verdict.checks.sort_by_key(|check| check.family);
    case.verdict.completeness = completeness();
    case.verdict.coverage.at_ms = Some(START_MS + 122 * 60_000);
    case.verdict.coverage.quorum_at_s = Some(START_S + 119 * 60);
    case
}
