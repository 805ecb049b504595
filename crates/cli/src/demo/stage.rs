//! The demo's stage: directories, keys, configuration and the four daemons, each a process of its own.
//!
//! The daemons are this very executable, run again with a hidden subcommand; what they are given is what an
//! operator would give them: `init`, a few lines of configuration, `serve`.

use super::DemoError;
use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// Three witnesses, of which two must agree: the smallest set that survives one silent witness.
pub(super) const WITNESSES: [&str; 3] = ["witness-1.example", "witness-2.example", "witness-3.example"];
/// The log's origin, which is also its key's name.
pub(super) const ORIGIN: &str = "log.example/demo";
/// The gate's name.
pub(super) const ISSUER: &str = "gate.example/support-1";

/// How often the witnesses look by themselves: often, so that nobody has to wait for the last scene.
const WITNESS_INTERVAL_MS: &str = "500";

/// Where everything is, and the processes that run. Dropping it ends them.
pub(super) struct Stage {
    dir: PathBuf,
    executable: PathBuf,
    ports: Vec<u16>,
    log_key: String,
    issuer_key: String,
    log: Option<Process>,
    witnesses: Vec<Process>,
}

/// A child that does not outlive the demo. It is killed, not asked: every store here survives that, and
/// the demo relies on it.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        // Both fail only when the child is already gone.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Stage {
    /// Makes keys, configuration and empty stores below `dir`; `port` is the log's, the witnesses take
    /// the three after it; without one, free ports are taken.
    pub(super) fn build(dir: &Path, port: Option<u16>) -> Result<Stage, DemoError> {
        fs::create_dir_all(dir).map_err(|error| DemoError::io(dir, error))?;
        let executable = std::env::current_exe().map_err(|error| DemoError::io(Path::new("/proc/self/exe"), error))?;
        let ports = match port {
            Some(first) => (0..4)
                .map(|offset| first.checked_add(offset).ok_or(DemoError::Port(first)))
                .collect::<Result<_, _>>()?,
            None => free_ports(4)?,
        };
        let mut stage = Stage {
            dir: dir.to_owned(),
            executable,
            ports,
            log_key: String::new(),
            issuer_key: String::new(),
            log: None,
            witnesses: Vec::new(),
        };
        let issuer = stage.issuer_key_file();
        stage.issuer_key = stage.first_line_of(&[
            "keygen".as_ref(),
            "--kind".as_ref(),
            "issuer".as_ref(),
            "--name".as_ref(),
            ISSUER.as_ref(),
            "--out".as_ref(),
            issuer.as_os_str(),
        ])?;
        let log_dir = stage.log_dir();
        let address = stage.address(0);
        stage.log_key = stage.first_line_of(&[
            "log".as_ref(),
            "init".as_ref(),
            "--dir".as_ref(),
            log_dir.as_os_str(),
            "--origin".as_ref(),
            ORIGIN.as_ref(),
            "--listen".as_ref(),
            address.as_ref(),
        ])?;
        let issuer_key = stage.issuer_key.clone();
        stage.run(&[
            "log".as_ref(),
            "issuer".as_ref(),
            "add".as_ref(),
            "--dir".as_ref(),
            log_dir.as_os_str(),
            issuer_key.as_ref(),
        ])?;
        let mut log_config = String::new();
        let mut policy = format!("log {} {}\n", stage.log_key, stage.log_url());
        for (number, name) in WITNESSES.iter().enumerate() {
            let witness_dir = stage.witness_dir(number);
            let address = stage.address(number + 1);
            let key = stage.first_line_of(&[
                "witness".as_ref(),
                "init".as_ref(),
                "--dir".as_ref(),
                witness_dir.as_os_str(),
                "--name".as_ref(),
                name.as_ref(),
                "--listen".as_ref(),
                address.as_ref(),
            ])?;
            let url = stage.witness_url(number);
            append(
                &witness_dir.join("config.toml"),
                &format!("\n[[log]]\nvkey = \"{}\"\nurl = \"{}\"\n", stage.log_key, stage.log_url()),
            )?;
            log_config.push_str(&format!("\n[[witness]]\nvkey = \"{key}\"\nurl = \"{url}\"\n"));
            policy.push_str(&format!("witness w{} {key} {url}\n", number + 1));
        }
        policy.push_str("group witnesses 2 w1 w2 w3\nquorum witnesses\n");
        append(&log_dir.join("config.toml"), &log_config)?;
        write(&stage.policy_file(), &policy)?;
        write(&stage.issuers_file(), &format!("{}\n", stage.issuer_key))?;
        Ok(stage)
    }

    pub(super) fn dir(&self) -> &Path {
        &self.dir
    }

    pub(super) fn log_dir(&self) -> PathBuf {
        self.dir.join("log")
    }

    pub(super) fn witness_dir(&self, number: usize) -> PathBuf {
        self.dir.join(format!("witness-{}", number + 1))
    }

    pub(super) fn policy_file(&self) -> PathBuf {
        self.dir.join("policy")
    }

    pub(super) fn issuers_file(&self) -> PathBuf {
        self.dir.join("issuers")
    }

    pub(super) fn issuer_key_file(&self) -> PathBuf {
        self.dir.join("gate.key")
    }

    pub(super) fn log_vkey(&self) -> &str {
        &self.log_key
    }

    pub(super) fn log_url(&self) -> String {
        format!("http://{}", self.address(0))
    }

    pub(super) fn witness_url(&self, number: usize) -> String {
        format!("http://{}", self.address(number + 1))
    }

    /// The address the log listens on; the malicious log takes it over.
    pub(super) fn log_address(&self) -> String {
        self.address(0)
    }

    fn address(&self, place: usize) -> String {
        format!("127.0.0.1:{}", self.ports[place])
    }

    pub(super) fn start_log(&mut self) -> Result<(), DemoError> {
        let config = self.log_dir().join("config.toml");
        self.log =
            Some(self.spawn("log", &["log".as_ref(), "serve".as_ref(), "--config".as_ref(), config.as_os_str()])?);
        Ok(())
    }

    pub(super) fn stop_log(&mut self) {
        self.log = None;
    }

    pub(super) fn start_witnesses(&mut self) -> Result<(), DemoError> {
        for number in 0..WITNESSES.len() {
            let config = self.witness_dir(number).join("config.toml");
            let name = format!("witness-{}", number + 1);
            let process =
                self.spawn(&name, &["witness".as_ref(), "serve".as_ref(), "--config".as_ref(), config.as_os_str()])?;
            self.witnesses.push(process);
        }
        Ok(())
    }

    /// Runs this executable to its end and answers its exit code and standard output.
    pub(super) fn call(&self, arguments: &[&OsStr]) -> Result<(i32, String), DemoError> {
        let output = Command::new(&self.executable)
            .args(arguments)
            .stdin(Stdio::null())
            .output()
            .map_err(|error| DemoError::io(&self.executable, error))?;
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        match output.status.code() {
            Some(code @ 0..=2) => Ok((code, said)),
            code => Err(DemoError::Call {
                what: arguments.iter().map(|argument| argument.to_string_lossy()).collect::<Vec<_>>().join(" "),
                code,
                said: String::from_utf8_lossy(&output.stderr).trim().to_owned(),
            }),
        }
    }

    fn run(&self, arguments: &[&OsStr]) -> Result<String, DemoError> {
        match self.call(arguments)? {
            (0, said) => Ok(said),
            (code, said) => Err(DemoError::Call {
                what: arguments.iter().map(|argument| argument.to_string_lossy()).collect::<Vec<_>>().join(" "),
                code: Some(code),
                said,
            }),
        }
    }

    /// The vkey that `init` and `keygen` print first.
    fn first_line_of(&self, arguments: &[&OsStr]) -> Result<String, DemoError> {
        Ok(self.run(arguments)?.lines().next().unwrap_or_default().to_owned())
    }

    fn spawn(&self, name: &str, arguments: &[&OsStr]) -> Result<Process, DemoError> {
        let file = self.dir.join(format!("{name}.stderr"));
        let stderr = File::create(&file).map_err(|error| DemoError::io(&file, error))?;
        Command::new(&self.executable)
            .args(arguments)
            .env("COUNTERFOIL_INTERVAL_MS", WITNESS_INTERVAL_MS)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(stderr)
            .spawn()
            .map(Process)
            .map_err(|error| DemoError::io(&self.executable, error))
    }
}

/// Ports that were free a moment ago. They are all held until the last is found, so they differ.
fn free_ports(count: usize) -> Result<Vec<u16>, DemoError> {
    let listeners: Vec<TcpListener> = (0..count)
        .map(|_| TcpListener::bind(SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0)))
        .collect::<Result<_, _>>()
        .map_err(|error| DemoError::io(Path::new("127.0.0.1"), error))?;
    listeners
        .iter()
        .map(|listener| Ok(listener.local_addr().map_err(|error| DemoError::io(Path::new("127.0.0.1"), error))?.port()))
        .collect()
}

fn write(file: &Path, text: &str) -> Result<(), DemoError> {
    fs::write(file, text).map_err(|error| DemoError::io(file, error))
}

fn append(file: &Path, text: &str) -> Result<(), DemoError> {
    let mut open = OpenOptions::new().append(true).open(file).map_err(|error| DemoError::io(file, error))?;
    open.write_all(text.as_bytes()).map_err(|error| DemoError::io(file, error))
}
