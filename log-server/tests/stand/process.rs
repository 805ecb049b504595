//! The log as a process: started, signalled, waited for.

use super::{Answer, Gate, LATE, ask};
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

pub fn program(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_counterfoil-log"));
    command.args(arguments).env_remove("RUST_BACKTRACE");
    command
}

pub fn run(arguments: &[&str]) -> Output {
    program(arguments).output().unwrap()
}

pub fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

pub fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

pub struct Served {
    pub child: Child,
    pub address: SocketAddr,
    log: Option<std::thread::JoinHandle<String>>,
}

impl Served {
    pub fn start(dir: &Path, more: &[&str]) -> Self {
        let config = dir.join("config.toml");
        let mut arguments =
            vec!["serve", "--config", config.to_str().unwrap(), "--listen", "127.0.0.1:0", "--log-format", "json"];
        arguments.extend(more);
        let mut child = program(&arguments).stderr(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let mut seen = String::new();
        let address = loop {
            let line = lines.next().unwrap_or_else(|| panic!("it never listened: {seen}")).unwrap();
            let event: serde_json::Value =
                serde_json::from_str(&line).unwrap_or_else(|_| panic!("a log line is no JSON: {line}"));
            seen.push_str(&line);
            if let Some(address) = event["address"].as_str() {
                break address.parse().unwrap();
            }
        };
        let log = std::thread::spawn(move || lines.map_while(Result::ok).collect::<Vec<_>>().join("\n"));
        Self { child, address, log: Some(log) }
    }

    pub fn signal(&self, signal: &str) {
        assert!(Command::new("kill").args([signal, &self.child.id().to_string()]).status().unwrap().success());
    }

    pub async fn submit(&self, receipt: &receipt::Receipt) -> Answer {
        ask(self.address, "POST", "/v1/receipts", &[], receipt.bytes()).await
    }

    pub fn wait(mut self) -> (i32, String) {
        let deadline = Instant::now() + LATE;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return (status.code().unwrap_or(-1), self.log.take().unwrap().join().unwrap());
            }
            assert!(Instant::now() < deadline, "it does not stop");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// A test that fails leaves no log behind.
impl Drop for Served {
    fn drop(&mut self) {
        let _ended_already = self.child.kill();
        let _ended_already = self.child.wait();
    }
}

/// The program goes by the real clock, so this gate does too.
pub fn gate(name: &str) -> (Gate, receipt::UnixMillis) {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis() as u64;
    (Gate::new(name), receipt::UnixMillis(now))
}
