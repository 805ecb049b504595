//! A witness watches a log over HTTP: what it cosigns, what it refuses, whom it accuses.

use crate::stage;
use cosign::LogFork;
use counterfoil_witness::journal::line::Outcome;
use merkle::TreeSize;
use note::{Cosignature, KeyKind, KeyName, SigningKey};
use stage::{FakeLog, House, Manner, NOON_S, Running, honest_root};
use std::time::Duration;

const ORIGIN: &str = "log.example/agents";

#[tokio::test(flavor = "multi_thread")]
async fn honest_growth_is_cosigned_head_by_head() {
    let (log, house) = (FakeLog::start(ORIGIN, 0).await, House::new());
    house.configure(&log, &[], "");
    let witness = house.start().await;
    for size in [0, 1, 2, 5, 255, 256, 257, 700, 65_536, 70_000] {
        let head = log.offer(size, 0, 0);
        assert_eq!(witness.nudge(&log, &head).await, Ok(NOON_S), "size {size}");
        let (cosigned, timestamp) = witness.cosigned(&log).await.unwrap();
        assert_eq!((cosigned.size, cosigned.root, timestamp), (TreeSize(size), honest_root(size), NOON_S));
    }
    assert!(log.faults().is_empty(), "{:?}", log.faults());
    assert!(!witness.status().await.is_in_trouble());
    witness.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_root_at_the_same_size_is_a_fork_with_evidence() {
    refuses_the_fork(20, 20, 10).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_larger_head_of_another_history_is_a_fork_with_evidence() {
    refuses_the_fork(20, 300, 10).await;
    // The size held is a power of two: the proof leaves the implied root out.
    refuses_the_fork(256, 600, 255).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_smaller_head_of_another_history_is_a_fork_with_evidence() {
    let (log, house) = (FakeLog::start(ORIGIN, 300).await, House::new());
    house.configure(&log, &[], "");
    let witness = house.start().await;
    let held = log.offer(300, 0, 0);
    assert_eq!(witness.nudge(&log, &held).await, Ok(NOON_S));
    // The tiles are still those of the history held: only the head is another's.
    let other = FakeLog::start(ORIGIN, 0).await;
    let head = other.offer(20, 10, 1);
    log.offer_head(20, head.checkpoint().root);
    assert_eq!(witness.nudge(&log, &head).await, Err("fork".to_owned()));
    assert_accuses(&witness, &log, 1).await;
    witness.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_that_forked_is_refused_until_an_operator_acts() {
    let (log, house) = (FakeLog::start(ORIGIN, 0).await, House::new());
    house.configure(&log, &[], "");
    let witness = house.start().await;
    let held = log.offer(20, 0, 0);
    witness.nudge(&log, &held).await.unwrap();
    let fork = log.offer(20, 10, 1);
    assert_eq!(witness.nudge(&log, &fork).await, Err("fork".to_owned()));
    let grown = log.offer(30, 0, 0);
    assert_eq!(witness.nudge(&log, &grown).await, Err("refused".to_owned()), "back to the honest history, and refused");
    let another = log.offer(30, 5, 2);
    assert_eq!(witness.nudge(&log, &another).await, Err("refused".to_owned()));
    assert_accuses(&witness, &log, 1).await;
    assert_eq!(witness.cosigned(&log).await.unwrap().0.size, TreeSize(20), "what was cosigned stays to be seen");
    let journal = witness.journal().await;
    let whole: Vec<_> = journal.iter().filter_map(|line| line.checkpoint.clone()).collect();
    for head in [&held, &fork, &grown, &another] {
        assert!(whole.contains(&head.note().to_string()), "every head is in the journal whole");
    }
    witness.stop().await;

    let witness = house.start().await;
    let again = log.offer(30, 0, 0);
    assert_eq!(witness.nudge(&log, &again).await, Err("refused".to_owned()), "a restart is not an operator");
    assert_eq!(witness.status().await.forked, Some(0));
    witness.stop().await;

    house.configure(&log, &[], "acknowledged_evidence = [0]");
    let witness = house.start().await;
    assert_eq!(witness.nudge(&log, &again).await, Ok(NOON_S));
    let fork = log.offer(40, 5, 1);
    assert_eq!(witness.nudge(&log, &fork).await, Err("fork".to_owned()), "a further fork is further evidence");
    assert_accuses(&witness, &log, 2).await;
    witness.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_smaller_head_of_the_same_history_is_stale_and_not_cosigned() {
    let (log, house) = (FakeLog::start(ORIGIN, 0).await, House::new());
    house.configure(&log, &[], "");
    let witness = house.start().await;
    let held = log.offer(300, 0, 0);
    witness.nudge(&log, &held).await.unwrap();
    log.offer_head(20, honest_root(20));
    assert_eq!(witness.nudge(&log, &held).await, Err("stale".to_owned()));
    log.offer_head(0, honest_root(0));
    assert_eq!(witness.nudge(&log, &held).await, Err("stale".to_owned()));
    assert_accuses_nobody(&witness).await;
    assert_eq!(witness.cosigned(&log).await.unwrap().0.size, TreeSize(300));
    witness.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn tiles_that_are_missing_or_wrong_prove_nothing_against_anyone() {
    let (log, house) = (FakeLog::start(ORIGIN, 0).await, House::new());
    house.configure(&log, &[], "");
    let witness = house.start().await;
    let held = log.offer(20, 0, 0);
    witness.nudge(&log, &held).await.unwrap();
    let grown = log.offer(300, 0, 0);
    for manner in [Manner::WithoutTiles, Manner::WrongTiles] {
        log.set_manner(manner);
        assert_eq!(witness.nudge(&log, &grown).await, Err("unproven".to_owned()), "{manner:?}");
        assert_accuses_nobody(&witness).await;
    }
    log.set_manner(Manner::Honest);
    assert_eq!(witness.nudge(&log, &grown).await, Ok(NOON_S));
    witness.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_that_does_not_answer_as_a_log_is_never_accused() {
    let (log, house) = (FakeLog::start(ORIGIN, 0).await, House::new());
    house.configure(&log, &[], "");
    let witness = house.start().await;
    let held = log.offer(20, 0, 0);
    witness.nudge(&log, &held).await.unwrap();
    log.offer(300, 0, 0);
    let is_not_accused = async |witness: &Running, (manner, outcome, fault): (Manner, &str, &str)| {
        log.set_manner(manner);
        assert_eq!(witness.nudge(&log, &held).await, Err(outcome.to_owned()), "{manner:?}");
        let last = witness.status().await.last.unwrap();
        assert_eq!(last.code.as_deref(), Some(fault), "{manner:?}");
        assert_accuses_nobody(witness).await;
        assert_eq!(witness.cosigned(&log).await.unwrap().0.size, TreeSize(20), "{manner:?}");
    };
    for case in [
        (Manner::Fails, "unreachable", "status-5xx"),
        (Manner::Oversized, "unreachable", "too-large"),
        (Manner::Redirects, "unreachable", "redirect"),
        (Manner::Unsigned, "bad-log-signature", "bad-signature"),
        (Manner::Portal, "bad-log-signature", "not-a-checkpoint"),
    ] {
        is_not_accused(&witness, case).await;
    }
    witness.stop().await;
    // The one that is not answered has to be given up soon; an answer would not come in time on every machine.
    house.configure(&log, &[("fetch_deadline_ms", 400)], "");
    log.set_manner(Manner::Hangs);
    let witness = house.start().await;
    is_not_accused(&witness, (Manner::Hangs, "unreachable", "timeout")).await;
    assert!(log.faults().is_empty(), "nothing was followed elsewhere: {:?}", log.faults());
    witness.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_head_under_another_origin_or_key_is_not_the_logs() {
    let (log, other, house) =
        (FakeLog::start(ORIGIN, 0).await, FakeLog::start("log.example/other", 5).await, House::new());
    let mut misplaced = FakeLog::unheard(ORIGIN);
    misplaced.url.clone_from(&other.url);
    house.configure(&misplaced, &[], "");
    let witness = house.start().await;
    let head = log.offer(5, 0, 0);
    assert_eq!(witness.nudge(&log, &head).await, Err("bad-log-signature".to_owned()));
    assert_eq!(witness.status().await.last.unwrap().code.as_deref(), Some("wrong-origin"));
    assert_eq!(witness.cosigned(&log).await, None);
    witness.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn lines_under_the_witnesss_own_name_in_a_fetched_head_are_dropped() {
    let (log, house) = (FakeLog::start(ORIGIN, 0).await, House::new());
    house.configure(&log, &[], "");
    let witness = house.start().await;
    let head = log.offer(20, 0, 0);
    // Under the witness's name and key id, with the latest time there is, and by another key.
    let stranger = SigningKey::from_seed(KeyName::new("witness.example/w1").unwrap(), KeyKind::CosignatureV1, [9; 32]);
    let Cosignature { line, .. } = note::cosign(head.note().text(), &stranger, note::MAX_TIMESTAMP_S).unwrap();
    let mut forged = note::parse_cosignature_line(&line).unwrap().signature().clone();
    forged.key_id = house.vkey.id();
    log.add_lines(&format!("{}\n{line}\n", forged.line()));
    assert_eq!(witness.nudge(&log, &head).await, Ok(NOON_S));
    // `cosigned` asserts that the log's and the witness's lines are the only ones.
    assert_eq!(witness.cosigned(&log).await.unwrap().1, NOON_S);
    assert!(
        witness.journal().await.iter().all(|entry| !entry
            .checkpoint
            .as_deref()
            .unwrap_or("")
            .contains("witness.example/w1"))
    );
    witness.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unchanged_head_is_cosigned_again_at_every_interval_with_later_times() {
    let (log, house) = (FakeLog::start(ORIGIN, 20).await, House::new());
    house.configure(&log, &[("interval_ms", 20)], "");
    let witness = house.start().await;
    let mut last = 0;
    for second in [NOON_S, NOON_S + 1, NOON_S + 30] {
        house.set_clock_s(second);
        while last < second {
            tokio::time::sleep(Duration::from_millis(10)).await;
            last = witness.cosigned(&log).await.map_or(0, |(_, timestamp)| timestamp);
        }
        assert_eq!(last, second);
    }
    witness.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restart_keeps_the_head_held_and_timestamps_never_go_back() {
    let (log, house) = (FakeLog::start(ORIGIN, 0).await, House::new());
    house.configure(&log, &[], "");
    let head = log.offer(20, 0, 0);
    let witness = house.start().await;
    assert_eq!(witness.nudge(&log, &head).await, Ok(NOON_S));
    witness.kill().await;

    house.set_clock_s(NOON_S - 3600);
    log.set_manner(Manner::Fails);
    let witness = stage::reopened(&house).await;
    assert_eq!(witness.cosigned(&log).await.unwrap().0.size, TreeSize(20), "held before any fetch");
    log.set_manner(Manner::Honest);
    assert_eq!(witness.nudge(&log, &head).await, Ok(NOON_S), "the clock went back, the timestamp does not");
    let fork = log.offer(30, 10, 1);
    assert_eq!(witness.nudge(&log, &fork).await, Err("fork".to_owned()));
    witness.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_witness_whose_clock_is_not_set_cosigns_nothing() {
    let (log, house) = (FakeLog::start(ORIGIN, 0).await, House::new());
    house.configure(&log, &[], "");
    house.set_clock_s(0);
    let witness = house.start().await;
    let head = log.offer(20, 0, 0);
    assert_eq!(witness.nudge(&log, &head).await, Err("withheld".to_owned()));
    assert_eq!(witness.cosigned(&log).await, None);
    house.set_clock_s(NOON_S);
    assert_eq!(witness.nudge(&log, &head).await, Ok(NOON_S));
    witness.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn however_many_nudges_come_the_log_is_asked_once_a_gap() {
    let (log, house) = (FakeLog::start(ORIGIN, 20).await, House::new());
    house.configure(&log, &[("nudge_gap_ms", 250)], "");
    let witness = std::sync::Arc::new(house.start().await);
    let began = std::time::Instant::now();
    let nudges: Vec<_> = (0..200)
        .map(|_| {
            let (witness, log) = (witness.clone(), log.clone());
            tokio::spawn(async move { witness.client.nudge(&log.origin()).await.map_err(|error| stage::code(&error)) })
        })
        .collect();
    let (mut answered, mut turned_away) = (0, 0);
    for nudge in nudges {
        match nudge.await.unwrap() {
            Ok(lines) => {
                assert_eq!(lines.len(), 1);
                answered += 1;
            }
            Err(code) => {
                assert_eq!(code, "too-many-nudges");
                turned_away += 1;
            }
        }
    }
    let gaps = u64::try_from(began.elapsed().as_millis()).unwrap() / 250;
    assert!(log.checkpoints_asked() <= gaps + 2, "{} fetches in {gaps} gaps", log.checkpoints_asked());
    assert!(answered > 0 && answered + turned_away == 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn nudges_carry_nothing_and_name_a_log_that_is_watched() {
    let (log, house) = (FakeLog::start(ORIGIN, 20).await, House::new());
    house.configure(&log, &[], "");
    let witness = house.start().await;
    let hash = client::witness::origin_hash(&log.origin());
    assert_eq!(witness.post(&format!("/nudge/{hash}"), "a head, from a gate").await, Err("too-large".to_owned()));
    assert_eq!(witness.post(&format!("/nudge/{}", "0".repeat(64)), "").await, Err("unknown-log".to_owned()));
    assert_eq!(witness.post(&format!("/nudge/{}", hash.to_uppercase()), "").await, Err("unknown-log".to_owned()));
    assert_eq!(stage::code(&witness.get(&format!("/nudge/{hash}")).await.unwrap_err()), "method-not-allowed");
    assert_eq!(stage::code(&witness.get("/nothing").await.unwrap_err()), "not-found");
    for path in ["/healthz", "/readyz", "/metrics"] {
        witness.get(path).await.unwrap();
    }
    witness.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_journal_holds_every_fetch_and_is_a_log_that_anybody_can_check() {
    let (log, house) = (FakeLog::start(ORIGIN, 0).await, House::new());
    house.configure(&log, &[], "");
    let witness = house.start().await;
    let head = log.offer(20, 0, 0);
    for second in 0..10 {
        house.set_clock_s(NOON_S + second);
        witness.nudge(&log, &head).await.unwrap();
    }
    log.set_manner(Manner::Fails);
    for second in 10..15 {
        house.set_clock_s(NOON_S + second);
        assert!(witness.nudge(&log, &head).await.is_err());
    }
    let fetched = log.checkpoints_asked();
    witness.stop().await;

    let witness = stage::reopened(&house).await;
    let journal = witness.journal().await;
    assert!(journal.iter().all(|line| line.origin == ORIGIN));
    assert_eq!(journal[0].outcome, Outcome::Started);
    let restart = journal.iter().skip(1).position(|line| line.outcome == Outcome::Started).unwrap() + 1;
    assert_eq!(journal[restart].checkpoint, Some(head.note().to_string()), "what is held is said whole at every start");
    let counted: u64 = journal[..restart]
        .iter()
        .filter(|line| line.outcome != Outcome::Started)
        .map(|line| line.count.unwrap_or(1))
        .sum();
    assert_eq!(counted, fetched, "the fold was written at the stop: {journal:#?}");
    let of = |outcome| {
        journal[..restart]
            .iter()
            .filter(|line| line.outcome == outcome)
            .map(|line| line.count.unwrap_or(1))
            .sum::<u64>()
    };
    assert_eq!(of(Outcome::Unreachable), 5);
    witness.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_state_belongs_to_one_process() {
    let (log, house) = (FakeLog::start(ORIGIN, 20).await, House::new());
    house.configure(&log, &[], "");
    let first = house.open().await.unwrap();
    let second = house.open().await.unwrap_err().to_string();
    assert!(second.contains("in use by another process"), "{second}");
    drop(first);
    house.open().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn acknowledged_evidence_shown_again_refuses_the_head_and_not_the_log() {
    let (log, house) = (FakeLog::start(ORIGIN, 0).await, House::new());
    house.configure(&log, &[], "");
    let witness = house.start().await;
    let held = log.offer(20, 0, 0);
    witness.nudge(&log, &held).await.unwrap();
    let fork = log.offer(20, 10, 1);
    assert_eq!(witness.nudge(&log, &fork).await, Err("fork".to_owned()));
    witness.stop().await;
    house.configure(&log, &[], "acknowledged_evidence = [0]");
    let witness = house.start().await;
    for _ in 0..3 {
        let fork = log.offer(20, 10, 1);
        assert_eq!(witness.nudge(&log, &fork).await, Err("fork".to_owned()));
        let status = witness.status().await;
        assert_eq!(status.forked, Some(0), "while the log shows its other history, that is what is to be seen of it");
        assert!(status.is_in_trouble());
        log.offer(20, 0, 0);
        assert_eq!(witness.nudge(&log, &held).await, Ok(NOON_S));
        assert_eq!(witness.status().await.forked, None);
    }
    assert_eq!(witness.get("/evidence/0").await.unwrap().lines().count(), 1);
    witness.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn evidence_that_is_not_there_or_not_against_the_log_cannot_be_acknowledged() {
    let (log, house) = (FakeLog::start(ORIGIN, 0).await, House::new());
    house.configure(&log, &[], "acknowledged_evidence = [0]");
    let refused = house.open().await.unwrap_err().to_string();
    assert!(
        refused.contains("evidence 0 cannot be acknowledged") && refused.contains("holds no evidence"),
        "{refused}"
    );
    house.configure(&log, &[], "");
    let witness = house.start().await;
    // Neither can a witness that runs be told to close its eyes to what will come.
    house.configure(&log, &[], "acknowledged_evidence = [0]");
    witness.reload(&house).await;
    let held = log.offer(20, 0, 0);
    witness.nudge(&log, &held).await.unwrap();
    let fork = log.offer(20, 10, 1);
    assert_eq!(witness.nudge(&log, &fork).await, Err("fork".to_owned()));
    log.offer(20, 0, 0);
    assert_eq!(witness.nudge(&log, &held).await, Err("refused".to_owned()));
    witness.stop().await;
    let other = FakeLog::start("log.example/other", 0).await;
    house.configure(&other, &[], "acknowledged_evidence = [0]");
    let refused = house.open().await.unwrap_err().to_string();
    assert!(refused.contains("not against this log"), "{refused}");
}

/// Holds a head of `held` entries, is offered one of `offered` entries that differs from entry `branch` on.
async fn refuses_the_fork(held: u64, offered: u64, branch: u64) {
    let (log, house) = (FakeLog::start(ORIGIN, 0).await, House::new());
    house.configure(&log, &[], "");
    let witness = house.start().await;
    let honest = log.offer(held, 0, 0);
    assert_eq!(witness.nudge(&log, &honest).await, Ok(NOON_S));
    let fork = log.offer(offered, branch, 1);
    assert_eq!(witness.nudge(&log, &fork).await, Err("fork".to_owned()));
    assert_accuses(&witness, &log, 1).await;
    assert!(witness.status().await.is_in_trouble());
    assert_eq!(witness.cosigned(&log).await.unwrap().0.root, honest_root(held));
    witness.stop().await;
}

async fn assert_accuses(witness: &Running, log: &FakeLog, documents: usize) {
    let evidence = witness.get("/evidence/0").await.unwrap();
    assert_eq!(evidence.lines().count(), documents);
    for document in evidence.lines() {
        let accusation = serde_json::from_str::<LogFork>(document).unwrap().check().unwrap();
        assert_eq!(accusation.key, log.vkey());
    }
    let (status, journal) = (witness.status().await, witness.journal().await);
    let number = documents as u64 - 1;
    assert_eq!(status.forked, Some(number));
    assert!(
        journal
            .iter()
            .any(|line| line.outcome == Outcome::Fork && line.evidence == Some(number) && line.checkpoint.is_some())
    );
}

async fn assert_accuses_nobody(witness: &Running) {
    assert_eq!(stage::code(&witness.get("/evidence/0").await.unwrap_err()), "not-found");
    assert_eq!(witness.status().await.forked, None);
    assert!(witness.journal().await.iter().all(|line| line.outcome != Outcome::Fork));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_journals_head_carries_the_witnesss_own_cosignature() {
    // The journal's key stands in no policy: without this line an auditor had nothing to hold the witness to it by.
    let (log, house) = (FakeLog::start(ORIGIN, 0).await, House::new());
    house.configure(&log, &[], "");
    let witness = house.start().await;
    for size in [1, 5] {
        let head = log.offer(size, 0, 0);
        witness.nudge(&log, &head).await.unwrap();
        let journal = witness.get("/journal/checkpoint").await.unwrap();
        let head = note::SignedCheckpoint::parse(journal.as_bytes()).unwrap();
        let lines = note::verified_cosignatures(head.note(), std::slice::from_ref(&house.vkey));
        let times: Vec<u64> = lines.into_iter().map(|line| line.unwrap().1.timestamp_s).collect();
        assert_eq!(times, [NOON_S]);
    }
    witness.stop().await;
}
