//! What each vantage point saw, from when to when: lanes, silences, and what nothing covers.

use crate::world;
use audit::completeness::{BUCKETS, Beyond, JournalState, Placed, SizeAt, SpanMs, SpanS};
use audit::{MemoryBundle, Rules, Status, Verdict, witness_dir};
use note::KeyName;
use world::{START_MS, START_S, World, failures, told};

const GATE: &str = "issuer/gate.example/support-1";
const DAY_S: u64 = 86_400;

fn placed(seq: u64, index: u64) -> Placed {
    Placed { seq, index, issued_at_ms: START_MS + seq * 1000 }
}

fn audit_at(world: &World, bundle: &MemoryBundle, at_ms: Option<u64>, max_age_ms: Option<u64>) -> Verdict {
    world.audit_with(bundle, &world.policy(), &world.issuers(), &Rules::built_in(), at_ms, max_age_ms)
}

/// A log of six whose witnesses cosign its head every minute for `minutes` minutes. Their times are in `quiet` left out:
/// these witnesses say nothing from one minute to another.
fn watched(minutes: u64, quiet: &[(usize, std::ops::Range<u64>)]) -> World {
    let mut world = World::new();
    world.log_heartbeats(5);
    world.seal();
    let first_s = world.now_ms / 1000;
    for minute in 1..=minutes {
        for (number, witness) in world.witnesses.iter_mut().enumerate() {
            if !quiet.iter().any(|(who, when)| *who == number && when.contains(&minute)) {
                let time_s = first_s + 60 * minute;
                witness.unchanged(time_s, time_s, 1);
            }
        }
    }
    world.now_ms += minutes * 60_000;
    world
}

#[test]
fn an_honest_log_has_a_lane_for_everybody() {
    let mut world = World::new();
    let second = world.add_gate("gate.example/support-2");
    world.log_heartbeats(3);
    world.seal();
    world.log_body(second, r#"{"type":"heartbeat"}"#);
    world.log_heartbeats(2);
    world.seal_for(&[0, 1]);
    let verdict = audit_at(&world, &world.bundle(), Some(START_MS + 10_000), None);
    assert_eq!(verdict.exit_code, 0, "{}", told(&verdict));
    let lanes = &verdict.completeness;
    let [first, other] = lanes.issuers.as_slice() else { panic!("{lanes:?}") };
    assert_eq!((first.issuer.as_str(), first.receipts, first.closed), ("gate.example/support-1", 6, false));
    assert_eq!((first.first, first.last.map(|last| (last.seq, last.index))), (Some(placed(0, 0)), Some((5, 7))));
    assert_eq!((first.gaps.len(), first.forks.len(), first.silences.len()), (0, 0, 0));
    assert_eq!((first.activity.len(), first.activity.iter().sum::<u64>()), (BUCKETS, 6));
    assert_eq!(first.uncovered, Some(SpanMs { from_ms: START_MS + 6000, to_ms: START_MS + 10_000 }));
    assert_eq!((other.receipts, other.activity.iter().sum::<u64>()), (2, 2));
    assert_eq!(lanes.log.issued, Some(SpanMs { from_ms: START_MS, to_ms: START_MS + 6000 }));
    assert_eq!((lanes.log.entries, lanes.log.heads_listed, lanes.log.heads_omitted), (8, 2, 0));
    assert_eq!(lanes.log.cosigned_from, Some(SizeAt { size: 5, time_s: START_S + 3 }));
    assert_eq!(lanes.log.cosigned_to, Some(SizeAt { size: 8, time_s: START_S + 6 }));
    let [one, _, third] = lanes.witnesses.as_slice() else { panic!("{lanes:?}") };
    assert_eq!((one.journal, one.journal_lines, one.cosignatures), (JournalState::Read, 2, 2));
    assert_eq!(one.cosigned_at_s, [START_S + 3, START_S + 6]);
    assert_eq!((one.saw_heads, one.saw_alone, one.outcomes.get("cosigned")), (2, 0, Some(&2)));
    assert_eq!((third.cosignatures, third.last), (1, Some(SizeAt { size: 5, time_s: START_S + 3 })));
}

#[test]
fn what_is_missing_forked_or_proven_beyond_the_end_is_in_the_issuers_lane() {
    let mut world = World::new();
    world.log_heartbeats(6);
    let sealed = {
        let mut whole = world.clone();
        whole.seal();
        whole
    };
    let (proof, entry) = sealed.proof(6);
    // The log leaves out seq 3, and everything after 5.
    let entries = world.log.entries.clone();
    world.log = world::TestLog::new("log.example/test", 1);
    entries[..6].iter().enumerate().filter(|(seq, _)| *seq != 3).for_each(|(_, entry)| world.log.push(entry.clone()));
    world.seal();
    let mut bundle = world.bundle();
    bundle.insert("proofs/kept.tlog-proof", proof);
    bundle.insert("proofs/kept.entry", entry);
    let verdict = world.audit(&bundle);
    let lane = &verdict.completeness.issuers[0];
    let [gap] = lane.gaps.as_slice() else { panic!("{lane:?}") };
    assert_eq!((gap.after, gap.before), (Some(placed(2, 2)), placed(4, 3)));
    assert_eq!(lane.beyond, [Beyond { seq: 6, shown_by: String::from("\"proofs/kept.tlog-proof\"") }]);
    assert_eq!(lane.unhonoured, ["\"proofs/kept.tlog-proof\""]);
    assert!(failures(&verdict).contains(&(GATE.to_owned(), "tail-short")), "{}", told(&verdict));
}

#[test]
fn the_time_after_the_last_receipt_is_told_in_full_and_ends_with_a_close() {
    let mut world = World::new();
    world.log_heartbeats(2);
    world.seal();
    let told_at = |world: &World, at_ms| {
        let verdict = audit_at(world, &world.bundle(), at_ms, None);
        assert_eq!(verdict.exit_code, 0, "{}", told(&verdict));
        (verdict.check(GATE).unwrap().findings.clone(), verdict.completeness.issuers[0].uncovered)
    };
    let (findings, uncovered) = told_at(&world, Some(START_MS + 2000 + 3_600_000));
    assert_eq!((findings.len(), findings[0].code), (1, "tail-uncovered"));
    assert!(findings[0].shown.contains("the 1 h after the last receipt"), "{}", findings[0].shown);
    assert_eq!(uncovered, Some(SpanMs { from_ms: START_MS + 2000, to_ms: START_MS + 3_602_000 }));
    // Without a time of the audit, up to when a quorum last vouched; up to the very millisecond there is nothing.
    assert_eq!(told_at(&world, Some(START_MS + 2000)), (vec![], None));
    assert_eq!(told_at(&world, None), (vec![], None));
    world.log_body(0, r#"{"type":"close"}"#);
    world.seal();
    assert_eq!(told_at(&world, Some(START_MS + 3_600_000)), (vec![], None));
    assert!(audit_at(&world, &world.bundle(), None, None).completeness.issuers[0].closed);
}

#[test]
fn entries_that_only_a_head_tells_of_may_be_anybodys() {
    let mut world = World::new();
    world.log_heartbeats(2);
    world.seal();
    let presented = world.bundle();
    world.log_heartbeats(4);
    world.seal();
    // The log as it was, beside witnesses that have seen more.
    let mut bundle = world.bundle();
    for path in ["log/checkpoint", "log/heads/000.p/1", "log/tile/entries/000.p/3", "log/tile/0/000.p/3"] {
        bundle.insert(path, presented.get(path).unwrap());
    }
    for path in ["log/heads/000.p/2", "log/tile/entries/000.p/7", "log/tile/0/000.p/7"] {
        bundle.remove(path).unwrap();
    }
    let verdict = audit_at(&world, &bundle, Some(START_MS + 60_000), None);
    assert!(failures(&verdict).contains(&(String::from("head/known-heads"), "omitted-head")), "{}", told(&verdict));
    assert_eq!(verdict.completeness.log.heads_omitted, 1);
    let notice = verdict.check(GATE).unwrap().findings.iter().find(|finding| finding.code == "tail-uncovered").unwrap();
    assert!(notice.shown.contains("proven to have 4 further entries"), "{}", notice.shown);
}

#[test]
fn a_promised_heartbeat_is_kept_to_the_millisecond_and_its_breaches_are_in_the_lane() {
    let mut world = World::new();
    world.log_heartbeats(1);
    world.now_ms += 59_000;
    world.log_heartbeats(1);
    world.seal();
    let audit = |heartbeat: &str, at_ms| {
        let issuers =
            audit::parse_issuers(&format!("{} heartbeat={heartbeat}\n", world.issuers_text().trim_end())).unwrap();
        world.audit_with(&world.bundle(), &world.policy(), &issuers, &Rules::built_in(), Some(at_ms), None)
    };
    let end_ms = world.now_ms;
    let kept = audit("60s", end_ms + 60_000);
    assert_eq!(
        (kept.exit_code, kept.completeness.issuers[0].silences.as_slice()),
        (0, [].as_slice()),
        "{}",
        told(&kept)
    );
    let broken = audit("59999ms", end_ms + 60_000);
    // After the last receipt nothing covers the time: it is told as that.
    let silences = [SpanMs { from_ms: end_ms - 60_000, to_ms: end_ms }];
    let uncovered = Some(SpanMs { from_ms: end_ms, to_ms: end_ms + 60_000 });
    assert_eq!(broken.completeness.issuers[0].uncovered, uncovered);
    assert_eq!((broken.exit_code, broken.completeness.issuers[0].silences.as_slice()), (1, silences.as_slice()));
    assert_eq!(broken.completeness.issuers[0].heartbeat_ms, Some(59_999));
}

#[test]
fn a_witness_down_for_a_day_is_told_and_accused_of_nothing() {
    let world = watched(3 * 1440, &[(2, 1000..2440)]);
    let at = Some(world.now_ms);
    for max_age in [None, Some(3_600_000)] {
        let verdict = audit_at(&world, &world.bundle(), at, max_age);
        assert_eq!(verdict.exit_code, 0, "{}", told(&verdict));
        assert_eq!((verdict.count("witness-gap"), verdict.count("not-fresh")), (1, 0), "{}", told(&verdict));
        let lane = &verdict.completeness.witnesses[2];
        let last_s = START_S + 5 + 999 * 60;
        assert_eq!(lane.silences, [SpanS { from_s: last_s, to_s: last_s + DAY_S + 60 }]);
        assert_eq!(verdict.completeness.witnesses[0].silences, []);
        assert_eq!(lane.cosigned_at_s.len(), 500);
    }
}

#[test]
fn a_time_without_a_quorum_is_found_by_the_second() {
    // The second and third witness say nothing for five minutes: six from their last word to the next.
    let world = watched(60, &[(1, 20..25), (2, 20..25)]);
    let audit = |max_age_ms| audit_at(&world, &world.bundle(), Some(world.now_ms), max_age_ms);
    let from_s = START_S + 5 + 19 * 60;
    let kept = audit(Some(360_000));
    assert_eq!((kept.exit_code, kept.count("not-fresh")), (0, 0), "{}", told(&kept));
    assert_eq!(kept.check("head/fresh-throughout").unwrap().status, Status::Ok);
    for limit_ms in [359_000, 359_999] {
        let broken = audit(Some(limit_ms));
        assert_eq!((broken.exit_code, broken.count("not-fresh")), (2, 1), "{}", told(&broken));
        assert_eq!(broken.completeness.log.not_fresh, [SpanS { from_s, to_s: from_s + 360 }]);
        assert!(failures(&broken).is_empty());
    }
    // What nobody asked for is no reason to doubt: six minutes are within ten times the usual one.
    let unasked = audit(None);
    assert_eq!((unasked.exit_code, unasked.count("not-fresh")), (0, 0), "{}", told(&unasked));
    assert_eq!(unasked.completeness.log.fresh_limit_s, Some(600));
}

#[test]
fn without_a_limit_an_unusual_time_without_a_quorum_is_a_notice() {
    let world = watched(120, &[(1, 20..40), (2, 20..40)]);
    let verdict = audit_at(&world, &world.bundle(), None, None);
    assert_eq!(
        (verdict.exit_code, verdict.count("not-fresh"), verdict.count("witness-gap")),
        (0, 1, 2),
        "{}",
        told(&verdict)
    );
}

#[test]
fn a_journal_that_is_absent_or_not_vouched_for_is_not_checked_by_name_and_tells_no_times() {
    let world = watched(10, &[]);
    let dir = witness_dir(&KeyName::new("witness-2.example").unwrap());
    let path = format!("{dir}/journal/checkpoint");
    for (put, state, code) in [
        (None, JournalState::Absent, "journal-missing"),
        (Some(world.witnesses[1].journal.clone().seal()), JournalState::Unreadable, "journal-unusable"),
    ] {
        let mut bundle = world.bundle();
        match put {
            None => drop(bundle.remove(&path)),
            Some(head) => bundle.insert(path.clone(), head.bytes()),
        }
        let verdict = world.audit(&bundle);
        let finding = verdict.check("head/known-heads").unwrap().findings.iter().find(|finding| finding.code == code);
        assert!(finding.is_some_and(|finding| finding.shown.contains("\"witness-2.example\"")), "{}", told(&verdict));
        assert_eq!(verdict.exit_code, 2, "{}", told(&verdict));
        let lane = &verdict.completeness.witnesses[1];
        // Its own checkpoint is all that is known.
        assert_eq!((lane.journal, lane.cosignatures, lane.outcomes.len()), (state, 1, 0));
    }
}

#[test]
fn an_issuer_without_receipts_and_a_log_without_entries_have_empty_lanes_and_are_not_checked() {
    let mut world = World::new();
    world.seal();
    let absent = world::TestGate::new("gate.example/absent", 77).key().verifier();
    let issuers = audit::parse_issuers(&format!("{}{absent}\n", world.issuers_text())).unwrap();
    let verdict = world.audit_with(&world.bundle(), &world.policy(), &issuers, &Rules::built_in(), None, None);
    assert_eq!((verdict.exit_code, verdict.count("issuer-absent")), (2, 1), "{}", told(&verdict));
    let lane = &verdict.completeness.issuers[1];
    assert_eq!(
        (lane.issuer.as_str(), lane.receipts, lane.first, lane.uncovered),
        ("gate.example/absent", 0, None, None)
    );
    let mut world = World::new();
    world.log = world::TestLog::new("log.example/test", 1);
    world.seal();
    let verdict = world.verdict();
    assert_eq!((verdict.exit_code, verdict.count("empty-log")), (2, 1), "{}", told(&verdict));
    assert_eq!((verdict.completeness.log.entries, verdict.completeness.log.issued), (0, None));
}

#[test]
fn a_journal_that_another_witness_saw_longer_is_not_checked_unless_it_grew_meanwhile() {
    let tell_of = |later_s: u64, lines: u64| {
        let mut world = watched(10, &[]);
        let line = serde_json::json!({
            "time": world.now_ms + later_s * 1000, "origin": "witness-2.example/journal", "outcome": "cosigned",
            "size": lines, "root": merkle::Hash([7; 32]).to_base64(),
        });
        world.witnesses[0].journal.push(line.to_string().into_bytes());
        let verdict = world.verdict();
        (verdict.exit_code, verdict.count("journal-short"))
    };
    assert_eq!(tell_of(3600, 11), (0, 0));
    assert_eq!(tell_of(300, 12), (0, 0));
    assert_eq!(tell_of(301, 12), (2, 1));
}

#[test]
fn what_a_journal_tells_of_is_counted_by_outcome_and_an_alarm_is_passed_on() {
    let mut world = watched(3, &[]);
    let head = world.log.heads[0].clone();
    world.witnesses[1].journal_line(&head, "refused", world.now_ms / 1000);
    let verdict = world.verdict();
    assert_eq!((verdict.exit_code, verdict.count("journal-alarm")), (0, 1), "{}", told(&verdict));
    let outcomes = &verdict.completeness.witnesses[1].outcomes;
    assert_eq!(["cosigned", "unchanged", "refused"].map(|outcome| outcomes[outcome]), [1, 3, 1]);
    assert_eq!(verdict.completeness.witnesses[1].cosignatures, 4);
}

#[test]
fn a_clock_that_was_set_back_is_noticed_in_the_journal_and_folding_is_not() {
    let back_by = |seconds: u64| {
        let mut world = watched(10, &[]);
        let now_s = world.now_ms / 1000;
        world.witnesses[0].unchanged(now_s - seconds - 30, now_s - seconds, 30);
        let verdict = world.verdict();
        assert_eq!(verdict.exit_code, 0, "{}", told(&verdict));
        verdict.count("journal-time-back")
    };
    assert_eq!((back_by(300), back_by(301)), (0, 1));
}
