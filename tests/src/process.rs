//! A log as a process of its own: started, killed, asked to stop, and questioned about how it ended.
//!
//! [`Stage`] makes keys and configuration; it always kills. Here the signal, the exit code and the last words matter.

use client::{BaseUrl, BoundedClient, LogClient, Timeouts};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};
use testkit::stage::Stage;

/// How long anything here is waited for. It takes well under a second; a loaded machine gets a hundred times that.
const PATIENCE: Duration = Duration::from_secs(60);
const GLANCE: Duration = Duration::from_millis(10);

/// How a log of a stage is started.
#[derive(Debug, Clone)]
pub struct LogProgram {
    executable: PathBuf,
    config: PathBuf,
    stderr: PathBuf,
    flags: Vec<String>,
    environment: Vec<(String, String)>,
    descriptors: Option<u32>,
    url: BaseUrl,
}

/// A log that runs. Dropping it kills it.
#[derive(Debug)]
pub struct LogProcess {
    child: Child,
    stderr: PathBuf,
    url: BaseUrl,
}

/// How a process ended.
#[derive(Debug)]
pub struct Ended {
    /// Its exit code; `None` when a signal ended it.
    pub code: Option<i32>,
    /// Everything it wrote to its standard error.
    pub stderr: String,
}

impl LogProgram {
    /// The log of `stage`, run by `executable`.
    pub fn of(stage: &Stage, executable: &Path) -> LogProgram {
        LogProgram {
            executable: executable.to_owned(),
            config: stage.log_dir().join("config.toml"),
            stderr: stage.dir().join("log.stderr"),
            flags: Vec::new(),
            environment: Vec::new(),
            descriptors: None,
            url: stage.log_url().parse().unwrap(),
        }
    }

    /// The same with another flag of `serve` and its value.
    #[must_use]
    pub fn flag(mut self, flag: &str, value: &str) -> LogProgram {
        self.flags.extend([flag.to_owned(), value.to_owned()]);
        self
    }

    /// The same with a key of the configuration set by the environment.
    #[must_use]
    pub fn environment(mut self, key: &str, value: &str) -> LogProgram {
        self.environment.push((key.to_owned(), value.to_owned()));
        self
    }

    /// The same with another file for its standard error: for a second process beside the first.
    #[must_use]
    pub fn stderr(mut self, name: &str) -> LogProgram {
        self.stderr.set_file_name(name);
        self
    }

    /// The same where the system allows it so many open files (sh(1), `ulimit -n`).
    #[must_use]
    pub fn descriptors(mut self, count: u32) -> LogProgram {
        self.descriptors = Some(count);
        self
    }

    /// Starts it, and does not wait until it is ready.
    pub fn start(&self) -> LogProcess {
        let mut command = match self.descriptors {
            None => Command::new(&self.executable),
            Some(count) => {
                let mut shell = Command::new("sh");
                shell.args(["-c", &format!("ulimit -n {count} && exec \"$0\" \"$@\"")]).arg(&self.executable);
                shell
            }
        };
        let child = command
            .args(["log", "serve", "--config"])
            .arg(&self.config)
            .args(&self.flags)
            .envs(self.environment.iter().map(|(key, value)| (key, value)))
            .env_remove("RUST_BACKTRACE")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(File::create(&self.stderr).unwrap())
            .spawn()
            .unwrap();
        LogProcess { child, stderr: self.stderr.clone(), url: self.url.clone() }
    }

    /// Starts it and waits until it takes receipts.
    ///
    /// # Errors
    /// How it ended, if it did.
    pub fn start_ready(&self) -> Result<LogProcess, Ended> {
        let mut log = self.start();
        let client = self.client();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let started = Instant::now();
        loop {
            if let Some(status) = log.child.try_wait().unwrap() {
                return Err(log.ended(status));
            }
            if runtime.block_on(client.checkpoint()).is_ok() {
                return Ok(log);
            }
            assert!(started.elapsed() < PATIENCE, "the log does not get ready: {}", log.said());
            std::thread::sleep(GLANCE);
        }
    }

    /// A client of it with connections of its own.
    pub fn client(&self) -> LogClient {
        LogClient::new(self.url.clone(), BoundedClient::new(Timeouts::default()).unwrap())
    }
}

impl LogProcess {
    /// Its process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// `host:port` of it.
    pub fn address(&self) -> String {
        self.url.to_string().trim_start_matches("http://").to_owned()
    }

    /// `kill -9`, now.
    pub fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// SIGTERM, and how it ended.
    pub fn terminate(self) -> Ended {
        assert!(Command::new("kill").args(["-TERM", &self.id().to_string()]).status().unwrap().success());
        self.wait()
    }

    /// Waits until it has ended by itself.
    pub fn wait(mut self) -> Ended {
        let started = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return self.ended(status);
            }
            assert!(started.elapsed() < PATIENCE, "the log does not end: {}", self.said());
            std::thread::sleep(GLANCE);
        }
    }

    /// Whether it still runs.
    pub fn is_running(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    /// What it has written to its standard error so far.
    pub fn said(&self) -> String {
        fs::read_to_string(&self.stderr).unwrap()
    }

    /// Its resident memory, in bytes (`VmRSS` of proc(5)); `None` where there is no such file.
    pub fn resident_bytes(&self) -> Option<u64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.id())).ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
        line.trim().strip_suffix(" kB")?.parse::<u64>().ok().map(|kib| kib * 1024)
    }

    fn ended(&self, status: ExitStatus) -> Ended {
        Ended { code: status.code(), stderr: self.said() }
    }
}

impl Drop for LogProcess {
    fn drop(&mut self) {
        // Both fail only when it is already gone.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
