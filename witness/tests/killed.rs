//! The real program, killed again and again at any moment: it never goes back on what it cosigned.

use crate::stage;
use note::{SignedCheckpoint, verified_cosignatures};
use stage::{FakeLog, House, Manner, Program};
use std::time::Duration;

const ROUNDS: u64 = 12;

#[tokio::test(flavor = "multi_thread")]
async fn killed_at_any_moment_it_holds_at_least_what_it_ever_answered_with() {
    let (log, house) = (FakeLog::start("log.example/agents", 1).await, House::new());
    house.configure(&log, &[("interval_ms", 20)], "");
    let (mut answered_size, mut answered_at, mut size) = (0, 0, 1);
    for round in 0..ROUNDS {
        // What is served first is what was durable: the log is silent.
        log.set_manner(Manner::Fails);
        let mut program = Program::start(&house);
        let witness = program.client().await;
        if let Some(held) = witness.checkpoint(&log.origin()).await.unwrap() {
            let held = SignedCheckpoint::parse(&held).unwrap().verify(&log.vkey()).unwrap();
            let line = verified_cosignatures(held.note(), std::slice::from_ref(&house.vkey)).remove(0).unwrap().1;
            assert!(held.checkpoint().size.0 >= answered_size, "round {round}");
            assert!(line.timestamp_s >= answered_at, "round {round}");
        } else {
            assert_eq!(answered_size, 0);
        }
        log.set_manner(Manner::Honest);
        // A different moment each round, some of them in the middle of a write: every other time from the start on, else from
        // the first answer on, however late a busy machine lets it come.
        let kill_after = Duration::from_micros(20_000 + round * 3_700);
        let (answered, answer) = tokio::sync::oneshot::channel::<()>();
        let mut answered = Some(answered);
        let killed = tokio::spawn(async move {
            if round % 2 == 1 {
                answer.await.unwrap();
            }
            tokio::time::sleep(kill_after).await;
            program.kill();
        });
        while !killed.is_finished() {
            size += 7;
            let head = log.offer(size, 0, 0);
            if let Ok(lines) = witness.nudge(&log.origin()).await {
                let cosignature = lines[0].verify(head.note().text(), &house.vkey).unwrap();
                assert!(cosignature.timestamp_s >= answered_at, "round {round}");
                (answered_size, answered_at) = (size, cosignature.timestamp_s);
                let _ = answered.take().map(|answered| answered.send(()));
            }
        }
        killed.await.unwrap();
    }
    assert!(answered_size > 0, "nothing was ever cosigned");
}
