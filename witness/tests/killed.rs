//! The real program, killed again and again at any moment: it never goes back on what it cosigned.

use crate::stage;
use client::http::{BoundedClient, Timeouts};
use client::witness::WitnessClient;
use note::{SignedCheckpoint, verified_cosignatures};
use stage::{FakeLog, House, Manner};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

const ROUNDS: u64 = 12;

#[tokio::test(flavor = "multi_thread")]
async fn killed_at_any_moment_it_holds_at_least_what_it_ever_answered_with() {
    let (log, house) = (FakeLog::start("log.example/agents", 1).await, House::new());
    house.configure(&log, &[("interval_ms", 20)], "");
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let http = BoundedClient::new(Timeouts { connect: Duration::from_secs(1), total: Duration::from_secs(5) }).unwrap();
    let witness = WitnessClient::new(format!("http://127.0.0.1:{port}").parse().unwrap(), http);
    let (mut answered_size, mut answered_at, mut size) = (0, 0, 1);
    for round in 0..ROUNDS {
        // What is served first is what was durable: the log is silent.
        log.set_manner(Manner::Fails);
        let mut process = Process::start(&house, port);
        let held = loop {
            match witness.checkpoint(&log.origin()).await {
                Ok(held) => break held,
                Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
            }
        };
        if let Some(held) = held {
            let held = SignedCheckpoint::parse(&held).unwrap().verify(&log.vkey()).unwrap();
            let line = verified_cosignatures(held.note(), std::slice::from_ref(&house.vkey)).remove(0).unwrap().1;
            assert!(held.checkpoint().size.0 >= answered_size, "round {round}");
            assert!(line.timestamp_s >= answered_at, "round {round}");
        } else {
            assert_eq!(answered_size, 0);
        }
        log.set_manner(Manner::Honest);
        // A different moment each round, some of them in the middle of a write.
        let kill_after = Duration::from_micros(20_000 + round * 3_700);
        let killed = tokio::spawn(async move {
            tokio::time::sleep(kill_after).await;
            process.kill();
        });
        while !killed.is_finished() {
            size += 7;
            let head = log.offer(size, 0, 0);
            if let Ok(lines) = witness.nudge(&log.origin()).await {
                let cosignature = lines[0].verify(head.note().text(), &house.vkey).unwrap();
                assert!(cosignature.timestamp_s >= answered_at, "round {round}");
                (answered_size, answered_at) = (size, cosignature.timestamp_s);
            }
        }
        killed.await.unwrap();
    }
    assert!(answered_size > 0, "nothing was ever cosigned");
}

/// The program, killed when the test ends, however it ends.
struct Process(Child);

impl Process {
    fn start(house: &House, port: u16) -> Process {
        let mut command = Command::new(env!("CARGO_BIN_EXE_counterfoil-witness"));
        command.args(["serve", "--listen", &format!("127.0.0.1:{port}"), "--log-level", "error", "--config"]);
        Process(command.arg(house.home().join("config.toml")).stdin(Stdio::null()).spawn().unwrap())
    }

    fn kill(&mut self) {
        // SIGKILL; a child that is gone already is as good.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}
