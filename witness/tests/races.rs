//! Many pushes of one log at once: what is answered is one history, whoever comes first.

use crate::exchange;
use crate::pusher;
use crate::stage;
use exchange::Connection;
use pusher::{Pusher, held, monitored, witness};
use stage::House;
use std::sync::Arc;
use tokio::task::JoinHandle;

const ORIGIN: &str = "log.example/pushed";

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_many_pushes_at_once_those_that_are_answered_make_one_growing_history() {
    const PUSHERS: u64 = 12;
    const EACH: u64 = 20;
    let (house, log) = (House::new(), Arc::new(Pusher::new(ORIGIN)));
    let witness = witness(&house, &[log.key.verifier()]).await;
    // Everybody pushes from where it believes the witness to be, and believes the witness's 409.
    let pushers: Vec<JoinHandle<Vec<(u64, u64)>>> = (0..PUSHERS)
        .map(|pusher| {
            let (url, log) = (witness.url.clone(), Arc::clone(&log));
            tokio::spawn(async move {
                let mut connection = Connection::open(&url).await;
                let (mut old, mut taken) = (0, Vec::new());
                for step in 1..=EACH {
                    let size = old + 1 + (pusher + step) % 5;
                    let answer = connection.ask("POST", "/add-checkpoint", &log.call(old, size)).await;
                    if answer.status == 200 {
                        taken.push((old, size));
                        old = size;
                    } else {
                        let now = held(&answer).trim_end().parse().unwrap();
                        assert_ne!(now, old, "it was said to be there");
                        old = now;
                    }
                }
                taken
            })
        })
        .collect();
    let mut taken = Vec::new();
    for pusher in pushers {
        taken.extend(pusher.await.unwrap());
    }
    taken.sort_unstable();
    assert_eq!(taken[0].0, 0);
    assert!(taken.windows(2).all(|steps| steps[0].1 == steps[1].0), "each grew out of the one before: {taken:?}");
    let (_, newest) = *taken.last().unwrap();
    assert_eq!(monitored(&witness, ORIGIN).await.unwrap().0, log.checkpoint(newest, 0).to_string());
    witness.stop().await;
}
