//! The log under test, its gates, and what is asked of it: a process of its own on loopback, made and configured as an
//! operator would.

use crate::failure::Failure;
use crate::gates::{Gate, sign_ahead};
use crate::http::{self, Connection};
use crate::load::{self, Load, Pace, Submission};
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
/// Gates that the log knows: one for each connection of the widest load, then those below.
const GATES: usize = 1024;
/// Gates that submit while the log is killed. They do not know what became of it, and are not used again.
const DOOMED: usize = KILLS * BATCH_CONNECTIONS;
/// How often the log is killed.
pub(crate) const KILLS: usize = 3;
/// Receipts in a batch.
pub(crate) const BATCH: usize = 256;
/// Connections that send batches.
pub(crate) const BATCH_CONNECTIONS: usize = 8;
/// Batches a connection that are signed at once while a log is filled: 8 * 16 * 256 receipts are 23 MB.
const FILL_BATCHES: u64 = 16;
/// How long the log is under load before it is killed.
const KILLED_AFTER: Duration = Duration::from_millis(250);
/// How long the log may take until it shows a head over everything it has acknowledged.
const PATIENCE: Duration = Duration::from_secs(60);

/// A log that runs, and gates with open streams.
pub(crate) struct Stand {
    pub(crate) stage: Stage,
    gates: Vec<Gate>,
    /// How many of them have begun their stream.
    opened: usize,
    policy: Policy,
    address: SocketAddr,
    /// Receipts that the log has acknowledged: no other ones are in it.
    pub(crate) size: u64,
    /// Their bytes together.
    pub(crate) entry_bytes: u64,
}

impl Stand {
    /// Makes a log in `dir` with so many witnesses, more than half of which are its quorum, and starts everything.
    pub(crate) fn build(dir: &Path, witnesses: usize) -> Result<Stand, Failure> {
        fs::create_dir_all(dir).map_err(Failure::io(dir))?;
        let executable = dir.join(UNDER_TEST);
        let own = std::env::current_exe().map_err(Failure::io(&executable))?;
        symlink(own, &executable).map_err(Failure::io(&executable))?;
        // And one that only asks after a restart.
        let gates = (0..GATES + DOOMED + 1).map(Gate::new).collect::<Result<Vec<_>, _>>()?;
        let vkeys: Vec<String> = gates.iter().map(Gate::vkey).collect();
        let setup = Setup { dir, executable: &executable, port: None, witnesses, more_issuers: &vkeys };
        let mut stage = Stage::build(&setup)?;
        let policy = fs::read(stage.policy_file()).map_err(Failure::io(&stage.policy_file()))?;
        let policy = Policy::parse(&policy).map_err(Failure::unexpected)?;
        if witnesses > 0 {
            let config = stage.log_dir().join("config.toml");
            let sections = fs::read_to_string(&config).map_err(Failure::io(&config))?;
            let with_quorum = format!("policy = {:?}\n{sections}", stage.policy_file());
            fs::write(&config, with_quorum).map_err(Failure::io(&config))?;
        }
        let url = stage.log_url();
        let address = url.strip_prefix("http://").and_then(|address| address.parse().ok());
        let address = address.ok_or_else(|| Failure::unexpected(format!("{url} is no address on this machine")))?;
        stage.start_log()?;
        stage.start_witnesses()?;
        stage.wait_until_ready()?;
        Ok(Stand { stage, gates, opened: 0, policy, address, size: 0, entry_bytes: 0 })
    }

    /// The log's process.
    pub(crate) fn log_process(&self) -> Result<u32, Failure> {
        self.stage.log_process().ok_or_else(|| Failure::unexpected("the log does not run"))
    }

    /// `each` receipts over each of so many connections, one a request; every connection is an issuer.
    pub(crate) fn singles(&mut self, connections: usize, each: usize) -> Result<Load, Failure> {
        self.open_streams(connections)?;
        let receipts = sign_ahead(&mut self.gates[..connections], each)?;
        let work = receipts.iter().map(|of_one| of_one.iter().map(Submission::single).collect()).collect();
        self.measure(work, Pace::Closed, false)
    }

    /// `each` receipts over each of so many connections, of which so many are due a second, each answered when the
    /// quorum has cosigned.
    pub(crate) fn cosigned(&mut self, connections: usize, each: usize, a_second: f64) -> Result<Load, Failure> {
        self.open_streams(connections)?;
        let receipts = sign_ahead(&mut self.gates[..connections], each)?;
        let work = receipts.iter().map(|of_one| of_one.iter().map(Submission::cosigned).collect()).collect();
        self.measure(work, Pace::Open(a_second), true)
    }

    /// `each` batches over each of eight connections; every connection is an issuer.
    pub(crate) fn batches(&mut self, each: usize) -> Result<Load, Failure> {
        self.open_streams(BATCH_CONNECTIONS)?;
        let work = batches_of(&mut self.gates[..BATCH_CONNECTIONS], each)?;
        self.measure(work, Pace::Closed, false)
    }

    /// Lets the first gates begin their streams, if they have not.
    fn open_streams(&mut self, gates: usize) -> Result<(), Failure> {
        if self.opened < gates {
            let opens: Vec<Receipt> = sign_ahead(&mut self.gates[self.opened..gates], 1)?.concat();
            self.opened = gates;
            let opens = opens.chunks(BATCH).map(Submission::batch).collect::<Result<Vec<_>, _>>()?;
            self.measure(vec![opens], Pace::Closed, false)?;
        }
        Ok(())
    }

    /// Kills the log while eight connections send `each` batches, starts it again, and tells the time from there to the
    /// first receipt that it takes, and whether the log was at work when it was killed. `round` is below [`KILLS`].
    pub(crate) fn kill_and_start(&mut self, round: usize, each: usize) -> Result<(Duration, bool), Failure> {
        let first = GATES + round * BATCH_CONNECTIONS;
        let work = batches_of(&mut self.gates[first..first + BATCH_CONNECTIONS], each)?;
        let probe = self.gates.last_mut().ok_or_else(|| Failure::unexpected("there are gates"))?.next()?;
        let (address, before, log) = (self.address, self.size, self.log_process()?);
        let doomed = std::thread::spawn(move || in_one_thread(load::run(address, log, work, Pace::Closed)));
        std::thread::sleep(KILLED_AFTER);
        self.stage.stop_log();
        let at_work = !matches!(doomed.join(), Ok(Ok(Ok(_))));
        let started = Instant::now();
        self.stage.start_log()?;
        let (submission, log) = (Submission::single(&probe), self.log_process()?);
        let taken = in_one_thread(async {
            loop {
                match load::run(address, log, vec![vec![submission.clone()]], Pace::Closed).await {
                    Err(Failure::Connection(_)) if started.elapsed() < PATIENCE => {
                        tokio::time::sleep(Duration::from_millis(1)).await;
                    }
                    other => return other.map(|load| (load, started.elapsed())),
                }
            }
        })?;
        let (mut load, took) = taken?;
        load.check(&self.policy, false)?;
        self.size = load.indices[0] + 1;
        if self.size <= before {
            return Err(Failure::Answer(format!(
                "the log had acknowledged {before} receipts; now it has {}",
                self.size
            )));
        }
        Ok((took, at_work))
    }

    /// Runs one load and checks what came of it: sampled proofs, and that the log grew by what it acknowledged.
    fn measure(&mut self, work: Vec<Vec<Submission>>, pace: Pace, cosigned: bool) -> Result<Load, Failure> {
        let entry_bytes: usize = work.iter().flatten().map(Submission::entry_bytes).sum();
        let mut load = in_one_thread(load::run(self.address, self.log_process()?, work, pace))??;
        load.check(&self.policy, cosigned)?;
        self.account_for(&load)?;
        self.entry_bytes += entry_bytes as u64;
        Ok(load)
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

    fn get(&self, path: &str) -> Result<Vec<u8>, Failure> {
        let mut got = None;
        self.get_each([path.to_owned()], |body| got = Some(body.to_vec()))?;
        got.ok_or_else(|| Failure::unexpected("an answer without a body"))
    }

    /// Gets one path after the other over one connection.
    pub(crate) fn get_each(
        &self,
        paths: impl IntoIterator<Item = String>,
        mut got: impl FnMut(&[u8]),
    ) -> Result<(), Failure> {
        in_one_thread(async {
            let mut connection = Connection::open(self.address).await.map_err(Failure::Connection)?;
            for path in paths {
                let request = http::request("GET", &path, "", b"");
                let answer = connection.exchange(&request).await.map_err(Failure::Connection)?;
                if answer.status != 200 {
                    return Err(Failure::refused(answer.status, answer.body));
                }
                got(answer.body);
            }
            Ok(())
        })?
    }

    /// The path of the receipt that a gate gave this number.
    pub(crate) fn receipt_path(&self, gate: usize, seq: u64) -> String {
        format!("/v1/issuers/{}/receipts/{seq}", self.gates[gate].name().replace('/', "%2F"))
    }

    /// Receipts that a gate has in the log.
    pub(crate) fn receipts_of(&self, gate: usize) -> u64 {
        self.gates[gate].receipts()
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

impl Stand {
    /// Fills the log with batches by so many gates at the same time until it has at least `size` receipts.
    pub(crate) fn fill_by(&mut self, gates: usize, size: u64) -> Result<(), Failure> {
        self.open_streams(gates)?;
        while self.size < size {
            let work = batches_of(&mut self.gates[..gates], 1)?;
            self.measure(work, Pace::Closed, false)?;
        }
        Ok(())
    }
}

fn batches_of(gates: &mut [Gate], each: usize) -> Result<Vec<Vec<Submission>>, Failure> {
    let receipts = sign_ahead(gates, each * BATCH)?;
    receipts.iter().map(|of_one| of_one.chunks(BATCH).map(Submission::batch).collect()).collect()
}

/// The load generator is one thread: it never takes more than one processor from the log.
pub(crate) fn in_one_thread<T>(work: impl Future<Output = T>) -> Result<T, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    Ok(runtime.map_err(Failure::unexpected)?.block_on(work))
}
