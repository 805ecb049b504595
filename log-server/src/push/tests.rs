//! The rule against a model of a witness, under every mixture of faults.
#![allow(clippy::unwrap_used, clippy::panic)]
use super::*;
use proptest::prelude::*;

const FRESH: Duration = Duration::from_secs(10);

fn at(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

fn size(size: u64) -> TreeSize {
    TreeSize(size)
}

fn asked(old: u64, new: u64) -> Asked {
    Asked { old: size(old), new: size(new), signed: size(new) }
}

fn pushes(step: Step) -> Option<u64> {
    match step {
        Step::Push { old } => Some(old.0),
        Step::Wait { .. } => None,
    }
}

#[test]
fn a_witness_of_which_nothing_is_known_is_asked_from_nothing_and_then_from_what_it_names() {
    let mut push = Push::new(FRESH);
    assert_eq!(push.next(size(9), at(0)), Step::Push { old: size(0) });
    assert_eq!(push.answered(asked(0, 9), Answer::Holds(size(4)), at(1), 0.5), None);
    assert_eq!(push.next(size(9), at(1)), Step::Push { old: size(4) });
    assert_eq!(push.answered(asked(4, 9), Answer::Cosigned, at(2), 0.5), None);
    assert_eq!(push.next(size(9), at(2)), Step::Wait { until: at(2) + FRESH });
    assert_eq!(push.next(size(12), at(3)), Step::Push { old: size(9) });
}

#[test]
fn an_idle_log_pushes_the_same_size_once_in_each_freshness_interval_and_nothing_else() {
    let mut push = Push::new(FRESH);
    let mut sent = Vec::new();
    for now in (0..35_000).step_by(100) {
        if let Some(old) = pushes(push.next(size(5), at(now))) {
            sent.push((now, old));
            push.answered(asked(old, 5), Answer::Cosigned, at(now), 0.0);
        }
    }
    assert_eq!(sent, [(0, 0), (10_000, 5), (20_000, 5), (30_000, 5)]);
}

#[test]
fn a_witness_that_claims_more_than_was_signed_is_reported_once_and_asked_again_without_haste() {
    let mut push = Push::new(FRESH);
    let ahead = Trouble::Ahead { seen: size(70) };
    assert_eq!(push.answered(asked(0, 9), Answer::Holds(size(70)), at(0), 0.0), Some(Notice::Trouble(ahead)));
    assert_eq!(pushes(push.next(size(9), at(0))), None);
    // Not even another head hastens it, and what is named then is never beyond the head.
    assert_eq!(pushes(push.next(size(10), at(100))), None);
    assert_eq!(pushes(push.next(size(10), at(125))), Some(10));
    assert_eq!(push.answered(asked(10, 10), Answer::Holds(size(70)), at(125), 0.0), None);
    assert!(ahead.to_string().contains("70"));
    // The log has grown beyond it, as one does whose witness took another's word.
    assert_eq!(pushes(push.next(size(90), at(10_000))), Some(70));
    assert_eq!(push.answered(asked(70, 90), Answer::Cosigned, at(10_000), 0.0), Some(Notice::Recovered));
}

#[test]
fn a_witness_to_which_somebody_else_pushed_a_signed_head_is_met_when_that_is_on_offer() {
    let mut push = Push::new(FRESH);
    let asked = Asked { old: size(0), new: size(9), signed: size(12) };
    assert_eq!(push.answered(asked, Answer::Holds(size(12)), at(0), 0.0), None);
    assert_eq!(pushes(push.next(size(9), at(1))), None);
    assert_eq!(pushes(push.next(size(14), at(2))), Some(12));
}

#[test]
fn a_409_with_the_size_that_was_sent_is_a_contradiction_and_no_loop() {
    let mut push = Push::new(FRESH);
    let notice = push.answered(asked(0, 9), Answer::Holds(size(0)), at(0), 1.0);
    assert_eq!(notice, Some(Notice::Trouble(Trouble::Contradicts { size: size(0) })));
    assert_eq!(push.next(size(9), at(1)), Step::Wait { until: FIRST_REST });
}

#[test]
fn a_witness_that_names_another_size_each_time_rests_after_a_few() {
    let mut push = Push::new(FRESH);
    let mut named = 100;
    // After the rest it gets as many again.
    for now in [at(0), at(125)] {
        let mut sent = 0;
        while let Some(old) = pushes(push.next(size(1000), now)) {
            sent += 1;
            named += 1;
            push.answered(asked(old, 1000), Answer::Holds(size(named)), now, 0.0);
        }
        assert_eq!(sent, MAX_CORRECTIONS + 1);
    }
    assert_eq!(push.trouble, Some(Trouble::Flaps));
}

/// Found by the property below: two feeders and one wrong size are three corrections, and the right one is a fourth.
#[test]
fn a_true_size_after_too_many_corrections_is_kept_through_the_rest() {
    let mut push = Push::new(FRESH);
    for (old, named) in [(0, 31), (31, 39), (39, 0)] {
        assert_eq!(push.answered(asked(old, 39), Answer::Holds(size(named)), at(0), 0.0), None);
    }
    assert_eq!(push.answered(asked(0, 39), Answer::Holds(size(39)), at(0), 0.0), Some(Notice::Trouble(Trouble::Flaps)));
    assert_eq!(push.next(size(39), at(124)), Step::Wait { until: at(125) });
    assert_eq!(push.next(size(39), at(125)), Step::Push { old: size(39) });
    assert_eq!(push.answered(asked(39, 39), Answer::Cosigned, at(125), 0.0), Some(Notice::Recovered));
}

#[test]
fn the_wait_that_a_witness_asks_for_is_kept_and_bounded() {
    for (asked_for, kept) in [(5, 5), (86_400 * 365, 600)] {
        let mut push = Push::new(FRESH);
        let refused = Answer::Refused { status: 429, retry_after: Some(Duration::from_secs(asked_for)) };
        push.answered(asked(0, 9), refused, at(0), 0.0);
        assert_eq!(push.next(size(10), at(1)), Step::Wait { until: Duration::from_secs(kept) });
    }
}

/// What happens to one push in the model.
#[derive(Clone, Copy, Debug)]
enum Fault {
    None,
    /// The witness never hears of it.
    Lost,
    /// It acts, and the answer is lost.
    AnswerLost,
    /// Any answer at all, whatever the witness holds.
    Nonsense(Answer),
    /// Somebody else pushes first.
    Feeder,
}

fn any_answer() -> impl Strategy<Value = Answer> {
    let any_size = prop_oneof![0..60u64, Just(u64::MAX)];
    prop_oneof![
        Just(Answer::NothingUsable),
        any_size.prop_map(|size| Answer::Holds(TreeSize(size))),
        (400..600u16, proptest::option::of(0..10_000u64))
            .prop_map(|(status, seconds)| Answer::Refused { status, retry_after: seconds.map(Duration::from_secs) }),
        Just(Answer::Nothing),
        Just(Answer::NoProof),
    ]
}

fn any_fault() -> impl Strategy<Value = Fault> {
    prop_oneof![
        Just(Fault::None),
        Just(Fault::Lost),
        Just(Fault::AnswerLost),
        Just(Fault::Feeder),
        any_answer().prop_map(Fault::Nonsense),
    ]
}

/// A witness that does as tlog-witness says.
fn model(holds: &mut u64, old: u64, new: u64) -> Answer {
    if old != *holds {
        return Answer::Holds(TreeSize(*holds));
    }
    *holds = new;
    Answer::Cosigned
}

proptest! {
    /// Whatever happened, once the faults end the witness cosigns the head on offer after two rests at most, with two pushes after each; and
    /// all the while no size beyond the head is named, no rest is broken and none is longer than allowed.
    #[test]
    fn whatever_happened_an_honest_witness_is_met_again(
        faults in proptest::collection::vec((any_fault(), 0..20u64, 0..100_000u64, 0.0..1.0f64), 0..40),
        held in 0..30u64,
        roll in 0.0..1.0f64,
    ) {
        let mut push = Push::new(FRESH);
        let (mut holds, mut offered, mut now) = (held, 30u64, 0u64);
        let mut last_notice = None;
        for (fault, growth, passed, roll) in faults {
            now += passed;
            offered += growth;
            let Step::Push { old } = push.next(TreeSize(offered), at(now)) else {
                let Step::Wait { until } = push.next(TreeSize(offered), at(now)) else { panic!("it changed its mind") };
                prop_assert!(until > at(now) && until <= at(now) + LONGEST_RETRY_AFTER);
                continue;
            };
            prop_assert!(old.0 <= offered);
            let answer = match fault {
                Fault::None => model(&mut holds, old.0, offered),
                Fault::Lost => Answer::Nothing,
                Fault::AnswerLost => { model(&mut holds, old.0, offered); Answer::Nothing }
                Fault::Nonsense(answer) => answer,
                Fault::Feeder => { holds = offered; model(&mut holds, old.0, offered) }
            };
            let asked = Asked { old, new: TreeSize(offered), signed: TreeSize(offered) };
            let notice = push.answered(asked, answer, at(now), roll);
            if notice.is_some() {
                prop_assert_ne!(notice, last_notice, "said twice");
                last_notice = notice;
            }
        }

        // Corrections from before count with the first one here, and may make it the one too many: then a second rest.
        for _ in 0..2 {
            now += LONGEST_RETRY_AFTER.as_millis() as u64;
            let mut sent = 0;
            while let Step::Push { old } = push.next(TreeSize(offered), at(now)) {
                sent += 1;
                let answer = model(&mut holds, old.0, offered);
                let asked = Asked { old, new: TreeSize(offered), signed: TreeSize(offered) };
                push.answered(asked, answer, at(now), roll);
                prop_assert!(sent <= 2, "one correction is enough");
            }
            if push.trouble.is_none() {
                break;
            }
        }
        prop_assert_eq!(holds, offered);
        prop_assert_eq!(push.trouble, None);
    }

    /// Without time passing and without another head, no witness, whatever it answers, gets more than a few pushes.
    #[test]
    fn no_answers_make_the_log_push_in_a_loop(answers in proptest::collection::vec(any_answer(), 20), roll in 0.0..1.0f64) {
        let mut push = Push::new(FRESH);
        let mut sent = 0;
        for answer in answers {
            let Step::Push { old } = push.next(TreeSize(50), at(0)) else { break };
            sent += 1;
            push.answered(Asked { old, new: TreeSize(50), signed: TreeSize(55) }, answer, at(0), roll);
        }
        prop_assert!(sent <= MAX_CORRECTIONS + 1);
    }

    #[test]
    fn rests_grow_with_failures_and_stay_between_their_bounds(failures in 1..u32::MAX, roll in 0.0..1.0f64) {
        let rest = rest_after(failures, roll);
        prop_assert!(rest >= FIRST_REST / 2 && rest <= LONGEST_REST);
        prop_assert!(rest_after(failures.saturating_add(1), roll) >= rest);
    }
}
