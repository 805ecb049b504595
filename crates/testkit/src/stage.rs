//! A stage to act on: a log, witnesses and a gate's key in one directory, each daemon a process of its own on loopback.
//!
//! What the daemons are given is what an operator would give them: `init`, a few lines of configuration, `serve`. All
//! programs are one executable, which takes `log`, `witness` and `verify` as hidden subcommands.

use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The log's origin, which is also its key's name.
pub const ORIGIN: &str = "log.example/demo";
/// The gate's name.
pub const ISSUER: &str = "gate.example/support-1";
/// How often the witnesses look by themselves: often, so that nobody has to wait for them.
const WITNESS_INTERVAL_MS: &str = "500";
/// How long [`wait_for`] waits. Everything here takes well under a second; a loaded machine gets a hundred times that.
const PATIENCE: Duration = Duration::from_secs(60);
/// How often it looks.
const GLANCE: Duration = Duration::from_millis(50);

/// Why the stage could not be set.
#[derive(Debug, thiserror::Error)]
pub enum StageError {
    /// The system refused.
    #[error("{path}: {source}")]
    Io {
        /// The file, directory or address.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Not so many ports.
    #[error("the ports after {0} do not exist; name a smaller one")]
    Port(u16),
    /// A program did not do what it was called for.
    #[error("`counterfoil {what}` ended with {code:?}: {said}")]
    Call {
        /// Its arguments.
        what: String,
        /// Its exit code; `None` when it was killed.
        code: Option<i32>,
        /// What it said.
        said: String,
    },
    /// Something did not happen.
    #[error("{0} did not get there within a minute; its log is the .stderr file in the stage's directory")]
    Patience(String),
}

impl StageError {
    /// What the system said about `path`.
    pub fn io(path: &Path, source: io::Error) -> StageError {
        StageError::Io { path: path.to_owned(), source }
    }
}

/// What is wanted on the stage.
#[derive(Debug, Clone)]
pub struct Setup<'a> {
    /// Where everything goes.
    pub dir: &'a Path,
    /// The executable that is all programs.
    pub executable: &'a Path,
    /// The log's port, the witnesses take those after it; `None` takes free ones.
    pub port: Option<u16>,
    /// How many witnesses; more than half of them make a quorum. None: no cosignature is asked for.
    pub witnesses: usize,
    /// vkeys of issuers besides the gate whose key is on the stage.
    pub more_issuers: &'a [String],
}

/// Where everything is, and the processes that run. Dropping it ends them.
#[derive(Debug)]
pub struct Stage {
    dir: PathBuf,
    executable: PathBuf,
    ports: Vec<u16>,
    log_key: String,
    issuer_key: String,
    log: Option<Process>,
    witnesses: Vec<Process>,
}

/// A child that does not outlive the stage. It is killed, not asked: every store here survives that, and the scenes
/// rely on it.
#[derive(Debug)]
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        // Both fail only when the child is already gone.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Stage {
    /// Makes keys, configuration and empty stores.
    ///
    /// # Errors
    /// [`StageError`].
    pub fn build(setup: &Setup<'_>) -> Result<Stage, StageError> {
        let dir = setup.dir;
        fs::create_dir_all(dir).map_err(|error| StageError::io(dir, error))?;
        let count = 1 + setup.witnesses;
        let ports = match setup.port {
            Some(first) => (0..count)
                .map(|offset| {
                    u16::try_from(offset)
                        .ok()
                        .and_then(|offset| first.checked_add(offset))
                        .ok_or(StageError::Port(first))
                })
                .collect::<Result<_, _>>()?,
            None => free_ports(count)?,
        };
        let mut stage = Stage {
            dir: dir.to_owned(),
            executable: setup.executable.to_owned(),
            ports,
            log_key: String::new(),
            issuer_key: String::new(),
            log: None,
            witnesses: Vec::new(),
        };
        let key_file = stage.issuer_key_file();
        let keygen = ["keygen", "--kind", "issuer", "--name", ISSUER, "--out"].map(OsStr::new);
        stage.issuer_key = stage.first_line_of(&[&keygen[..], &[key_file.as_os_str()]].concat())?;
        stage.build_log(setup.more_issuers)?;
        stage.build_witnesses(setup.witnesses)?;
        Ok(stage)
    }

    fn build_log(&mut self, more_issuers: &[String]) -> Result<(), StageError> {
        let (dir, address) = (self.log_dir(), self.address(0));
        let init = [OsStr::new("log"), "init".as_ref(), "--dir".as_ref(), dir.as_os_str()];
        let more = ["--origin", ORIGIN, "--listen", &address].map(OsStr::new);
        self.log_key = self.first_line_of(&[&init[..], &more[..]].concat())?;
        let add = [
            OsStr::new("log"),
            "issuer".as_ref(),
            "add".as_ref(),
            "--dir".as_ref(),
            dir.as_os_str(),
            self.issuer_key.as_ref(),
        ];
        self.run(&add)?;
        let more: String = more_issuers.iter().map(|vkey| format!("{vkey}\n")).collect();
        append(&dir.join("issuers"), &more)?;
        write(&self.issuers_file(), &format!("{}\n{more}", self.issuer_key))
    }

    fn build_witnesses(&self, count: usize) -> Result<(), StageError> {
        let mut policy = format!("log {} {}\n", self.log_key, self.log_url());
        let mut names = String::new();
        for number in 0..count {
            let (dir, address, url) = (self.witness_dir(number), self.address(number + 1), self.witness_url(number));
            let init = [OsStr::new("witness"), "init".as_ref(), "--dir".as_ref(), dir.as_os_str()];
            let name = witness_name(number);
            let more = ["--name", &name, "--listen", &address].map(OsStr::new);
            let key = self.first_line_of(&[&init[..], &more[..]].concat())?;
            append(
                &dir.join("config.toml"),
                &format!(
                    "\n[[log]]\nvkey = \"{}\"\nurl = \"{}\"\nprivate_address = true\n",
                    self.log_key,
                    self.log_url()
                ),
            )?;
            append(
                &self.log_dir().join("config.toml"),
                &format!("\n[[witness]]\nvkey = \"{key}\"\nurl = \"{url}\"\n"),
            )?;
            policy.push_str(&format!("witness w{number} {key} {url}\n"));
            names.push_str(&format!(" w{number}"));
        }
        policy.push_str(&match count {
            0 => "quorum none\n".to_owned(),
            _ => format!("group witnesses {}{names}\nquorum witnesses\n", count / 2 + 1),
        });
        write(&self.policy_file(), &policy)
    }

    /// Where everything is.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The log's directory.
    pub fn log_dir(&self) -> PathBuf {
        self.dir.join("log")
    }

    /// The directory of one witness, counted from 0.
    pub fn witness_dir(&self, number: usize) -> PathBuf {
        self.dir.join(format!("witness-{}", number + 1))
    }

    /// The auditor's policy: this log, these witnesses.
    pub fn policy_file(&self) -> PathBuf {
        self.dir.join("policy")
    }

    /// The auditor's list of issuers.
    pub fn issuers_file(&self) -> PathBuf {
        self.dir.join("issuers")
    }

    /// The gate's private key.
    pub fn issuer_key_file(&self) -> PathBuf {
        self.dir.join("gate.key")
    }

    /// The log's vkey.
    pub fn log_vkey(&self) -> &str {
        &self.log_key
    }

    /// Where the log is.
    pub fn log_url(&self) -> String {
        format!("http://{}", self.address(0))
    }

    /// Where one witness is, counted from 0.
    pub fn witness_url(&self, number: usize) -> String {
        format!("http://{}", self.address(number + 1))
    }

    fn address(&self, place: usize) -> String {
        format!("127.0.0.1:{}", self.ports[place])
    }

    /// Starts the log.
    ///
    /// # Errors
    /// [`StageError`].
    pub fn start_log(&mut self) -> Result<(), StageError> {
        let config = self.log_dir().join("config.toml");
        self.log =
            Some(self.spawn("log", &["log".as_ref(), "serve".as_ref(), "--config".as_ref(), config.as_os_str()])?);
        Ok(())
    }

    /// The process of the log, while it runs.
    pub fn log_process(&self) -> Option<u32> {
        self.log.as_ref().map(|process| process.0.id())
    }

    /// Kills the log.
    pub fn stop_log(&mut self) {
        self.log = None;
    }

    /// Starts all witnesses.
    ///
    /// # Errors
    /// [`StageError`].
    pub fn start_witnesses(&mut self) -> Result<(), StageError> {
        for number in 0..self.ports.len() - 1 {
            let config = self.witness_dir(number).join("config.toml");
            let name = format!("witness-{}", number + 1);
            let process =
                self.spawn(&name, &["witness".as_ref(), "serve".as_ref(), "--config".as_ref(), config.as_os_str()])?;
            self.witnesses.push(process);
        }
        Ok(())
    }

    /// Kills one witness, counted from 0 among those that run.
    pub fn stop_witness(&mut self, number: usize) {
        self.witnesses.remove(number);
    }

    /// Runs the executable to its end and answers its exit code, if it is 0, 1 or 2, and its standard output.
    ///
    /// # Errors
    /// [`StageError`]; any other exit code.
    pub fn call(&self, arguments: &[&OsStr]) -> Result<(i32, String), StageError> {
        let output = Command::new(&self.executable)
            .args(arguments)
            .stdin(Stdio::null())
            .output()
            .map_err(|error| StageError::io(&self.executable, error))?;
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        match output.status.code() {
            Some(code @ 0..=2) => Ok((code, said)),
            code => Err(StageError::Call {
                what: arguments.iter().map(|argument| argument.to_string_lossy()).collect::<Vec<_>>().join(" "),
                code,
                said: String::from_utf8_lossy(&output.stderr).trim().to_owned(),
            }),
        }
    }

    fn run(&self, arguments: &[&OsStr]) -> Result<String, StageError> {
        match self.call(arguments)? {
            (0, said) => Ok(said),
            (code, said) => Err(StageError::Call {
                what: arguments.iter().map(|argument| argument.to_string_lossy()).collect::<Vec<_>>().join(" "),
                code: Some(code),
                said,
            }),
        }
    }

    /// Waits until log and witnesses answer.
    ///
    /// # Errors
    /// [`StageError`].
    pub fn wait_until_ready(&self) -> Result<(), StageError> {
        let log = self.log_url();
        let answers = |call: &[&OsStr]| Ok(self.call(call).is_ok_and(|(code, _)| code == 0));
        wait_for("the log", || answers(&["log", "status", "--url", &log].map(OsStr::new)))?;
        for number in 0..self.ports.len() - 1 {
            let url = self.witness_url(number);
            // A witness that has not cosigned anything yet answers with 1, and is up all the same.
            wait_for(&witness_name(number), || {
                Ok(self.call(&["witness", "status", "--url", &url].map(OsStr::new)).is_ok())
            })?;
        }
        Ok(())
    }

    /// The vkey that `init` and `keygen` print first.
    fn first_line_of(&self, arguments: &[&OsStr]) -> Result<String, StageError> {
        Ok(self.run(arguments)?.lines().next().unwrap_or_default().to_owned())
    }

    fn spawn(&self, name: &str, arguments: &[&OsStr]) -> Result<Process, StageError> {
        let file = self.dir.join(format!("{name}.stderr"));
        let stderr = File::create(&file).map_err(|error| StageError::io(&file, error))?;
        Command::new(&self.executable)
            .args(arguments)
            .env("COUNTERFOIL_INTERVAL_MS", WITNESS_INTERVAL_MS)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(stderr)
            .spawn()
            .map(Process)
            .map_err(|error| StageError::io(&self.executable, error))
    }
}

/// The name of a witness, counted from 0.
pub fn witness_name(number: usize) -> String {
    format!("witness-{}.example", number + 1)
}

/// Looks every now and then until something has arrived.
///
/// # Errors
/// [`StageError::Patience`] after a minute; what looking answers.
pub fn wait_for(what: &str, mut arrived: impl FnMut() -> Result<bool, StageError>) -> Result<(), StageError> {
    let started = Instant::now();
    while !arrived()? {
        if started.elapsed() > PATIENCE {
            return Err(StageError::Patience(what.to_owned()));
        }
        std::thread::sleep(GLANCE);
    }
    Ok(())
}

/// Ports that were free a moment ago. They are all held until the last is found, so they differ.
fn free_ports(count: usize) -> Result<Vec<u16>, StageError> {
    let listeners: Vec<TcpListener> = (0..count)
        .map(|_| TcpListener::bind(SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0)))
        .collect::<Result<_, _>>()
        .map_err(|error| StageError::io(Path::new("127.0.0.1"), error))?;
    listeners
        .iter()
        .map(|listener| {
            Ok(listener.local_addr().map_err(|error| StageError::io(Path::new("127.0.0.1"), error))?.port())
        })
        .collect()
}

fn write(file: &Path, text: &str) -> Result<(), StageError> {
    fs::write(file, text).map_err(|error| StageError::io(file, error))
}

fn append(file: &Path, text: &str) -> Result<(), StageError> {
    let mut open = OpenOptions::new().append(true).open(file).map_err(|error| StageError::io(file, error))?;
    open.write_all(text.as_bytes()).map_err(|error| StageError::io(file, error))
}
