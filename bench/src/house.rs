//! The witness under test: a process of its own on loopback, made and configured as an operator would.

use crate::failure::Failure;
use crate::http::{self, Connection};
use crate::stand::UNDER_TEST;
use note::VerifierKey;
use std::fmt::Display;
use std::fs::{self, File};
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How long the witness may take to start.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long it may take to stop once it was told to.
const PARTING: Duration = Duration::from_secs(30);

/// A witness that runs until this is dropped.
pub(crate) struct House {
    dir: PathBuf,
    process: Child,
    /// Where it listens.
    pub(crate) address: SocketAddr,
    /// Its key.
    pub(crate) vkey: VerifierKey,
}

impl House {
    /// Makes a witness in `dir`, which must not exist, whose configuration ends with `more`, and starts it.
    pub(crate) fn build(dir: &Path, more: &str) -> Result<House, Failure> {
        House::build_with(dir, &[], more)
    }

    /// As [`House::build`], with these values in place of those that `init` wrote.
    pub(crate) fn build_with(dir: &Path, values: &[(&str, &dyn Display)], more: &str) -> Result<House, Failure> {
        fs::create_dir_all(dir).map_err(Failure::io(dir))?;
        let executable = dir.join(UNDER_TEST);
        let own = std::env::current_exe().map_err(Failure::io(&executable))?;
        symlink(own, &executable).map_err(Failure::io(&executable))?;
        let port = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
        let address = port.map_err(Failure::unexpected)?;
        let home = dir.join("w");
        let made = Command::new(&executable)
            .args(["witness", "init", "--name", "witness.example/bench", "--listen", &address.to_string(), "--dir"])
            .arg(&home)
            .output()
            .map_err(Failure::io(&executable))?;
        let said = String::from_utf8_lossy(&made.stdout).into_owned();
        let vkey = said.lines().next().unwrap_or_default().parse();
        let vkey = vkey.map_err(|_| Failure::unexpected(String::from_utf8_lossy(&made.stderr)))?;
        let config = home.join("config.toml");
        let text = fs::read_to_string(&config).map_err(Failure::io(&config))?;
        let is_replaced = |line: &str| values.iter().any(|(key, _)| line.starts_with(&format!("{key} ")));
        let kept: String = text.lines().filter(|line| !is_replaced(line)).map(|line| format!("{line}\n")).collect();
        let values: String = values.iter().map(|(key, value)| format!("{key} = {value}\n")).collect();
        fs::write(&config, format!("{values}{kept}{more}")).map_err(Failure::io(&config))?;
        let messages = dir.join("witness.stderr");
        let messages = File::create(&messages).map_err(Failure::io(&messages))?;
        let mut serve = Command::new(&executable);
        serve.args(["witness", "serve", "--config"]).arg(&config).stdin(Stdio::null()).stderr(messages);
        let process = serve.spawn().map_err(Failure::io(&executable))?;
        let house = House { dir: home, process, address, vkey };
        house.wait_until_ready()?;
        Ok(house)
    }

    /// Its process.
    pub(crate) fn id(&self) -> u32 {
        self.process.id()
    }

    /// Where its journal and everything else it remembers is.
    pub(crate) fn state(&self) -> PathBuf {
        self.dir.join("state")
    }

    fn wait_until_ready(&self) -> Result<(), Failure> {
        let began = Instant::now();
        let request = http::request("GET", "/healthz", "", b"");
        crate::stand::in_one_thread(async {
            loop {
                let asked = async { Connection::open(self.address).await?.exchange(&request).await.map(|_| ()) };
                match asked.await {
                    Ok(()) => return Ok(()),
                    Err(error) if began.elapsed() > PATIENCE => return Err(Failure::Connection(error)),
                    Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
                }
            }
        })?
    }

    /// Tells it to stop and waits until it has.
    pub(crate) fn stop(mut self) -> Result<(), Failure> {
        let id = self.id().to_string();
        Command::new("kill").arg(&id).status().map_err(Failure::unexpected)?;
        let began = Instant::now();
        while began.elapsed() < PARTING {
            if let Some(status) = self.process.try_wait().map_err(Failure::unexpected)? {
                return if status.success() { Ok(()) } else { Err(Failure::unexpected("the witness failed")) };
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Err(Failure::unexpected("the witness does not stop"))
    }
}

impl Drop for House {
    fn drop(&mut self) {
        // Gone already, or killed now.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
