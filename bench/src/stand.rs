//! The log under test, its gates, and what is asked of it: a process of its own on loopback, made and configured as an
//! operator would.

use crate::failure::Failure;
use crate::gates::{Gate, sign_ahead};
use crate::http::{self, Connection};
use crate::load::{self, Load, Submission};
use crate::process::{self, CpuTime};
use note::{Policy, SignedCheckpoint};
use receipt::Receipt;
use std::fs;
use std::future::Future;
use std::net::SocketAddr;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::{Duration, Instant};
use testkit::stage::{Setup, Stage};

/// Under this name the bench's executable is `counterfoil`, whose hidden subcommands are all the other programs.
pub(crate) const UNDER_TEST: &str = "counterfoil";
/// Gates that the log knows: one for each connection of the widest load, and one that only asks after a restart.
const GATES: usize = 1025;
/// Receipts in a batch.
pub(crate) const BATCH: usize = 256;
/// Connections that send batches.
pub(crate) const BATCH_CONNECTIONS: usize = 8;
/// Batches a connection that are signed at once while a log is filled: 8 * 16 * 256 receipts are 23 MB.
const FILL_BATCHES: u64 = 16;
/// How long the log may take until it shows a head over everything it has acknowledged.
const PATIENCE: Duration = Duration::from_secs(10);

/// A log that runs, and gates with open streams.
pub(crate) struct Stand {
    pub(crate) stage: Stage,
    gates: Vec<Gate>,
    policy: Policy,
    address: SocketAddr,
    /// Receipts that the log has acknowledged: no other ones are in it.
    pub(crate) size: u64,
    /// Their bytes together.
    pub(crate) entry_bytes: u64,
}

/// A load, and what was used meanwhile.
pub(crate) struct Measured {
    pub(crate) load: Load,
    /// By the log.
    pub(crate) log: CpuTime,
    /// By the load generator: this process.
    pub(crate) generator: CpuTime,
    /// By everybody else on the machine, in processors.
    pub(crate) others: f64,
}

impl Measured {
    /// Microseconds of processor time a receipt.
    pub(crate) fn us_a_receipt(&self, time: Duration) -> f64 {
        time.as_secs_f64() * 1e6 / self.load.indices.len() as f64
    }
}

impl Stand {
    /// Makes a log in `dir` with so many witnesses, starts everything, and opens the gates' streams.
    pub(crate) fn build(dir: &Path, witnesses: usize) -> Result<Stand, Failure> {
        fs::create_dir_all(dir).map_err(Failure::io(dir))?;
        let executable = dir.join(UNDER_TEST);
        let own = std::env::current_exe().map_err(Failure::io(&executable))?;
        symlink(own, &executable).map_err(Failure::io(&executable))?;
        let gates = (0..GATES).map(Gate::new).collect::<Result<Vec<_>, _>>()?;
        let vkeys: Vec<String> = gates.iter().map(Gate::vkey).collect();
        let setup = Setup { dir, executable: &executable, port: None, witnesses, more_issuers: &vkeys };
        let mut stage = Stage::build(&setup)?;
        let policy = fs::read(stage.policy_file()).map_err(Failure::io(&stage.policy_file()))?;
        let policy = Policy::parse(&policy).map_err(Failure::unexpected)?;
        let url = stage.log_url();
        let address = url.strip_prefix("http://").and_then(|address| address.parse().ok());
        let address = address.ok_or_else(|| Failure::unexpected(format!("{url} is no address on this machine")))?;
        stage.start_log()?;
        stage.start_witnesses()?;
        stage.wait_until_ready()?;
        let mut stand = Stand { stage, gates, policy, address, size: 0, entry_bytes: 0 };
        let opens: Vec<Receipt> = sign_ahead(&mut stand.gates, 1)?.concat();
        let opens = opens.chunks(BATCH).map(Submission::batch).collect::<Result<Vec<_>, _>>()?;
        stand.measure(vec![opens], None, false)?;
        Ok(stand)
    }

    /// The log's process.
    pub(crate) fn log_process(&self) -> Result<u32, Failure> {
        self.stage.log_process().ok_or_else(|| Failure::unexpected("the log does not run"))
    }

    /// `each` receipts over each of so many connections, one a request; every connection is an issuer.
    pub(crate) fn singles(&mut self, connections: usize, each: usize) -> Result<Measured, Failure> {
        let receipts = sign_ahead(&mut self.gates[..connections], each)?;
        let work = receipts.iter().map(|of_one| of_one.iter().map(Submission::single).collect()).collect();
        self.measure(work, None, false)
    }

    /// `each` batches over each of eight connections; every connection is an issuer.
    pub(crate) fn batches(&mut self, each: usize) -> Result<Measured, Failure> {
        let receipts = sign_ahead(&mut self.gates[..BATCH_CONNECTIONS], each * BATCH)?;
        let batches = |of_one: &Vec<Receipt>| of_one.chunks(BATCH).map(Submission::batch).collect();
        let work = receipts.iter().map(batches).collect::<Result<Vec<_>, _>>()?;
        self.measure(work, None, false)
    }

    /// Runs one load and checks what came of it: sampled proofs, and that the log grew by what it acknowledged.
    fn measure(
        &mut self,
        work: Vec<Vec<Submission>>,
        a_second: Option<f64>,
        cosigned: bool,
    ) -> Result<Measured, Failure> {
        let entry_bytes: usize = work.iter().flatten().map(Submission::entry_bytes).sum();
        let process = self.log_process()?;
        let usage = || {
            Ok::<_, Failure>((process::cpu_time(Some(process))?, process::cpu_time(None)?, process::machine_busy()?))
        };
        let before = usage()?;
        let load = in_one_thread(async {
            match a_second {
                Some(a_second) => load::open(self.address, work, a_second).await,
                None => load::closed(self.address, work).await,
            }
        })?;
        let after = usage()?;
        let mut load = load?;
        let (log, generator) = (after.0.since(before.0), after.1.since(before.1));
        let others = after.2.saturating_sub(before.2).saturating_sub(log.total() + generator.total());
        load.check(&self.policy, cosigned)?;
        self.account_for(&load)?;
        self.entry_bytes += entry_bytes as u64;
        let others = others.as_secs_f64() / load.wall.as_secs_f64();
        Ok(Measured { load, log, generator, others })
    }

    /// The log grew by what it acknowledged, no more and no less, and in these very places.
    fn account_for(&mut self, load: &Load) -> Result<(), Failure> {
        let before = self.size;
        self.size += load.indices.len() as u64;
        if !load.indices.iter().copied().eq(before..self.size) {
            return Err(Failure::Answer(format!("the log acknowledged other places than {before} to {}", self.size)));
        }
        let asked = Instant::now();
        loop {
            let shown = self.head_size()?;
            if shown == self.size {
                return Ok(());
            }
            if shown > self.size || asked.elapsed() > PATIENCE {
                let size = self.size;
                return Err(Failure::Answer(format!("the log acknowledged {size} receipts and shows {shown}")));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// The size that the log's checkpoint says.
    fn head_size(&self) -> Result<u64, Failure> {
        let head = self.get("/checkpoint")?;
        Ok(SignedCheckpoint::parse(&head).map_err(Failure::unexpected)?.claimed().size.0)
    }

    /// What the log has at `path`.
    pub(crate) fn get(&self, path: &str) -> Result<Vec<u8>, Failure> {
        in_one_thread(async {
            let mut connection = Connection::open(self.address).await?;
            let answer = connection.exchange(&http::request("GET", path, "", b"")).await?;
            Ok((answer.status, answer.body.to_vec()))
        })?
        .map_err(Failure::Connection)
        .and_then(|(status, body)| if status == 200 { Ok(body) } else { Err(Failure::refused(status, &body)) })
    }

    /// Fills the log with batches until it has at least `size` receipts.
    pub(crate) fn fill(&mut self, size: u64) -> Result<(), Failure> {
        let round = (BATCH * BATCH_CONNECTIONS) as u64;
        while self.size < size {
            let each = (size - self.size).div_ceil(round).min(FILL_BATCHES);
            self.batches(usize::try_from(each).map_err(Failure::unexpected)?)?;
        }
        Ok(())
    }
}

/// The load generator is one thread: it never takes more than one processor from the log.
fn in_one_thread<T>(work: impl Future<Output = T>) -> Result<T, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    Ok(runtime.map_err(Failure::unexpected)?.block_on(work))
}
