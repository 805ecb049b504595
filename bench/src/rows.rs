//! The rows of the table, in the order in which they are measured: one log grows from empty to the size that was asked
//! for, and each row takes its turn at the size that it needs. The row with witnesses has a log of its own.

use crate::arguments::{LogArguments, Row};
use crate::disk;
use crate::failure::Failure;
use crate::load::Load;
use crate::machine::Machine;
use crate::process;
use crate::report::{Bar, Figure, Report, Section, Unit, thousands};
use crate::stand::{BATCH, BATCH_CONNECTIONS, KILLS, Stand};
use merkle::{PageId, ResourcePath, TileId, TreeSize};
use std::ffi::OsStr;
use std::path::Path;
use std::time::{Duration, Instant};
use testkit::stage::StageError;

/// Connections of the row with most single receipts a second to reach.
const CONNECTIONS: usize = 256;
/// Connections of the wider one, and of the open load: one of them is due every half second at the rate below.
const MANY_CONNECTIONS: usize = 1024;
const OPEN_CONNECTIONS: usize = 512;
/// Receipts a second that are due in the row with witnesses.
const OFFERED: f64 = 1_000.0;
const WITNESSES: usize = 3;
/// Receipts of one measurement: enough for seconds, few enough to be signed at once (35 MB).
const WINDOW: u64 = 50_000;
/// The small log with which a large one is compared.
const SMALL: u64 = 100_000;
/// The sizes of log that the bars are for.
const MILLION: u64 = 1_000_000;
const TEN_MILLIONS: u64 = 10_000_000;
/// Look-ups of each kind before memory is looked at again.
const LOOKUPS: u64 = 1_000;
/// A store that has not changed its size for this long is at rest; one that does not come to it is taken as it is.
const AT_REST: Duration = Duration::from_secs(2);
const RESTLESS: Duration = Duration::from_secs(60);

/// Measures what was asked for in logs below `dir`.
pub(crate) fn measure(arguments: &LogArguments, dir: &Path) -> Result<Report, Failure> {
    let machine = Machine::look(dir)?;
    let mut plan = Plan { arguments, checks: machine.strict_checks_a_core, rows: Vec::new() };
    if arguments.only.is_empty() || arguments.only.iter().any(|row| *row != Row::Cosigned) {
        plan.one_growing_log(&dir.join("plain"))?;
    }
    if arguments.asks_for(Row::Cosigned) {
        plan.cosigned(&dir.join("witnessed"))?;
    }
    Ok(Report { machine, receipts: Some(arguments.receipts), rows: plan.rows })
}

struct Plan<'a> {
    arguments: &'a LogArguments,
    /// Strict checks a second of one core.
    checks: f64,
    rows: Vec<Section>,
}

impl Plan<'_> {
    fn one_growing_log(&mut self, dir: &Path) -> Result<(), Failure> {
        let (size, asks) = (self.arguments.receipts, |row| self.arguments.asks_for(row));
        let mut stand = Stand::build(dir, 0)?;
        tell(&format!("the log is process {}", stand.log_process()?));
        if asks(Row::Lone) {
            self.lone(&mut stand)?;
        }
        if asks(Row::Cost) {
            tell("filling the log to the size with which a large one is compared");
            stand.fill(SMALL.min(size / 2))?;
        }
        let at_first = stand.size;
        let mut first = None;
        if asks(Row::Single) || asks(Row::Cost) {
            let measured = self.single(&mut stand, CONNECTIONS)?;
            if asks(Row::Single) {
                self.single_row(Row::Single, CONNECTIONS, &measured);
            }
            first = Some(measured);
        }
        if asks(Row::Single1024) {
            let measured = self.single(&mut stand, MANY_CONNECTIONS)?;
            self.single_row(Row::Single1024, MANY_CONNECTIONS, &measured);
        }
        if asks(Row::Batch) {
            self.batch(&mut stand)?;
        }
        if asks(Row::Audit) {
            self.audit(&stand)?;
        }
        if [Row::Disk, Row::Memory, Row::Cost, Row::Start, Row::Fsck].into_iter().any(asks) {
            for milestone in [Some(MILLION).filter(|million| *million < size), Some(size)].into_iter().flatten() {
                tell(&format!("filling the log to {} receipts", thousands(milestone as f64)));
                stand.fill(milestone)?;
                self.at_rest(&stand)?;
            }
        }
        if let Some(first) = first.filter(|_| asks(Row::Cost)) {
            self.cost(&mut stand, at_first, &first)?;
        }
        if asks(Row::Start) {
            self.cold_start(&mut stand)?;
        }
        if asks(Row::Fsck) {
            self.fsck(&mut stand)?;
        }
        Ok(())
    }

    fn lone(&mut self, stand: &mut Stand) -> Result<(), Failure> {
        tell("one lone client");
        let count = (self.arguments.receipts / 200).clamp(20, 2_000);
        let measured = stand.singles(1, usize::try_from(count).map_err(Failure::unexpected)?)?;
        let at = |share| measured.quantile_ms(share);
        let figures = vec![
            Figure::new("one lone client, p50 to its proof", at(0.5), Unit::Milliseconds).bar(Bar::AtMost(8.0)),
            Figure::new("one lone client, p99", at(0.99), Unit::Milliseconds).bar(Bar::AtMost(25.0)),
            Figure::new("one lone client, rate", measured.rate(), Unit::PerSecond).beside(self.checks),
        ];
        let how = format!(
            "{count} receipts over one connection, the next sent when the last was answered. {}",
            checked(&measured)
        );
        self.rows.push(Section::new(Row::Lone, figures, how).others(measured.used.others));
        Ok(())
    }

    fn single(&self, stand: &mut Stand, connections: usize) -> Result<Load, Failure> {
        tell(&format!("single receipts over {connections} connections"));
        stand.singles(connections, each(self.window(), connections as u64)?)
    }

    fn single_row(&mut self, row: Row, connections: usize, measured: &Load) {
        let at = |share| measured.quantile_ms(share);
        let name = format!("single receipts, {} connections", thousands(connections as f64));
        let mut rate = Figure::new(name.clone(), measured.rate(), Unit::PerSecond).beside(self.checks);
        let mut slowest = Figure::new(format!("{name}, p99"), at(0.99), Unit::Milliseconds);
        if row == Row::Single {
            (rate, slowest) = (rate.bar(Bar::AtLeast(15_000.0)), slowest.bar(Bar::AtMost(60.0)));
        }
        let median = Figure::new(format!("{name}, p50"), at(0.5), Unit::Milliseconds);
        let mut figures = vec![rate, median, slowest];
        figures.extend(cpu_figures(measured));
        let how = format!(
            "{} receipts, one a request; every connection is an issuer and sends its next when its last was answered with \
             a proof under a durable signed head. {}",
            thousands(measured.indices.len() as f64),
            checked(measured)
        );
        self.rows.push(Section::new(row, figures, how).others(measured.used.others));
    }

    fn batch(&mut self, stand: &mut Stand) -> Result<(), Failure> {
        tell("batches");
        let receipts = (self.arguments.receipts / 10).min(4 * WINDOW);
        let measured = stand.batches(each(receipts, (BATCH * BATCH_CONNECTIONS) as u64)?)?;
        let rate = Figure::new("batches of 256, 8 connections", measured.rate(), Unit::PerSecond);
        let mut figures = vec![
            rate.bar(Bar::AtLeast(25_000.0)).beside(self.checks),
            Figure::new("batches of 256, p50 of a batch", measured.quantile_ms(0.5), Unit::Milliseconds),
            Figure::new("batches of 256, p99 of a batch", measured.quantile_ms(0.99), Unit::Milliseconds),
        ];
        figures.extend(cpu_figures(&measured));
        let how = format!(
            "{} receipts; every connection is an issuer and sends its next batch when its last was answered with a proof \
             for each receipt. {}",
            thousands(measured.indices.len() as f64),
            checked(&measured)
        );
        self.rows.push(Section::new(Row::Batch, figures, how).others(measured.used.others));
        Ok(())
    }

    fn cosigned(&mut self, dir: &Path) -> Result<(), Failure> {
        tell("submit to cosigned proof, with three witnesses");
        let mut stand = Stand::build(dir, WITNESSES)?;
        let receipts = (self.arguments.receipts / 10).min(20_000);
        let measured = stand.cosigned(OPEN_CONNECTIONS, each(receipts, OPEN_CONNECTIONS as u64)?, OFFERED)?;
        let at = |share| measured.quantile_ms(share);
        let figures = vec![
            Figure::new("submit to cosigned proof at 1,000/s, p50", at(0.5), Unit::Milliseconds).bar(Bar::AtMost(60.0)),
            Figure::new("submit to cosigned proof at 1,000/s, p99", at(0.99), Unit::Milliseconds)
                .bar(Bar::AtMost(250.0)),
            Figure::new("receipts cosigned a second", measured.rate(), Unit::PerSecond),
        ];
        let how = format!(
            "{} receipts with `Prefer: wait=cosigned`, one due every millisecond whatever was answered (open loop), over {} \
             connections; timed from when it was due. Witnesses in processes of their own on this machine, quorum {} of \
             {WITNESSES}; they and all other processes used {:.1} cores. {}",
            thousands(measured.indices.len() as f64),
            OPEN_CONNECTIONS,
            WITNESSES / 2 + 1,
            measured.used.others,
            checked(&measured)
        );
        // The witnesses are among the others, so others do not tell whether the machine was idle.
        self.rows.push(Section::new(Row::Cosigned, figures, how));
        Ok(())
    }

    fn audit(&mut self, stand: &Stand) -> Result<(), Failure> {
        tell("fetching and auditing a copy");
        let stage = &stand.stage;
        let (policy, issuers, bundle) = (stage.policy_file(), stage.issuers_file(), stage.dir().join("bundle"));
        let fetch = ["verify", "fetch", "--policy"].map(OsStr::new);
        let (code, said) = stage.call(&[&fetch[..], &[policy.as_ref(), "--out".as_ref(), bundle.as_ref()]].concat())?;
        if code != 0 {
            return Err(Failure::Answer(format!("fetching a copy ended with {code}: {said}")));
        }
        let audit = ["verify", "audit", "--json", "--policy"].map(OsStr::new);
        let of = [policy.as_ref(), "--issuers".as_ref(), issuers.as_ref(), bundle.as_os_str()];
        let (ended, timed) = process::timed(|| stage.call(&[&audit[..], &of].concat()))?;
        let (_, said) = ended?;
        let verdict: Verdict = serde_json::from_str(&said).map_err(Failure::unexpected)?;
        if verdict.overall == "fail" || verdict.coverage.entries != stand.size {
            return Err(Failure::Answer(format!("the audit of an honest log ended in {}", verdict.overall)));
        }
        let rate = Figure::new("audit", stand.size as f64 / timed.wall.as_secs_f64(), Unit::PerSecond);
        let how = format!(
            "`counterfoil-verify audit` over a copy of {} receipts as a process, start to end; it used {:.1} cores.",
            thousands(stand.size as f64),
            timed.cores
        );
        self.rows.push(Section::new(Row::Audit, vec![rate.beside(self.checks)], how).others(timed.others));
        Ok(())
    }

    /// Disk and memory, once the log has done what it does behind its answers.
    fn at_rest(&mut self, stand: &Stand) -> Result<(), Failure> {
        let (disk, memory) = (self.arguments.asks_for(Row::Disk), self.arguments.asks_for(Row::Memory));
        if !(disk || memory) {
            return Ok(());
        }
        let settled = wait_until_at_rest(&stand.stage.log_dir().join("store"))?;
        if disk {
            self.disk(stand, settled)?;
        }
        if memory {
            self.memory(stand)?;
        }
        Ok(())
    }

    fn disk(&mut self, stand: &Stand, settled: bool) -> Result<(), Failure> {
        let found = disk::usage(&stand.stage.log_dir().join("store"))?;
        let a_receipt = |bytes: f64| bytes / stand.size as f64;
        let total: u64 = found.values().sum();
        let beyond = a_receipt(total as f64 - stand.entry_bytes as f64);
        let what = format!("bytes beyond the entry, at {}", thousands(stand.size as f64));
        let figure = Figure::new(what, beyond, Unit::Bytes).bar_from(Bar::AtMost(120.0), MILLION, stand.size);
        let files: Vec<String> = found
            .iter()
            .map(|(name, bytes)| {
                let own = if name == "entries" { stand.entry_bytes as f64 } else { 0.0 };
                format!("{name} {:.1}", a_receipt(*bytes as f64 - own))
            })
            .collect();
        let how = format!(
            "Blocks allocated to the store's files ({} bytes), without the entries' own bytes ({}). Of each file: {}.{}",
            thousands(total as f64),
            thousands(stand.entry_bytes as f64),
            files.join(", "),
            if settled { "" } else { " The store was still growing after a minute." }
        );
        self.rows.push(Section::new(Row::Disk, vec![figure], how));
        Ok(())
    }

    fn memory(&mut self, stand: &Stand) -> Result<(), Failure> {
        let written = process::memory(stand.log_process()?)?;
        look_around(stand)?;
        let read = process::memory(stand.log_process()?)?;
        let size = thousands(stand.size as f64);
        let megabytes = |bytes: u64| bytes as f64 / 1e6;
        let bar = |figure: Figure| figure.bar_from(Bar::AtMost(120.0), MILLION, stand.size);
        let figures = vec![
            bar(Figure::new(
                format!("resident at {size}, after writing"),
                megabytes(written.resident),
                Unit::Megabytes,
            )),
            bar(Figure::new(format!("resident at {size}, after reading"), megabytes(read.resident), Unit::Megabytes)),
            Figure::new(format!("most that was ever resident, by {size}"), megabytes(read.peak), Unit::Megabytes),
        ];
        let how = format!(
            "VmRSS and VmHWM of the log's process, {:.1} and {:.1} MB of the first two without mapped files; read were {} \
             receipts by number and by id, and as many entry bundles and tiles, all over the log.",
            megabytes(written.anonymous),
            megabytes(read.anonymous),
            thousands(LOOKUPS as f64)
        );
        self.rows.push(Section::new(Row::Memory, figures, how));
        Ok(())
    }

    fn cost(&mut self, stand: &mut Stand, at_first: u64, first: &Load) -> Result<(), Failure> {
        let at = stand.size;
        let second = self.single(stand, CONNECTIONS)?;
        let [small, large] = [first, &second].map(|measured| measured.us_a_receipt(measured.used.log.total()));
        let (from, to) = (thousands(at_first as f64), thousands(at as f64));
        let ratio = Figure::new(format!("cost a receipt at {to} against {from}"), large / small, Unit::Times);
        let figures = vec![
            ratio.bar_from(Bar::AtMost(1.1), TEN_MILLIONS, at),
            Figure::new(format!("log's processor time a receipt at {from}"), small, Unit::CpuMicroseconds),
            Figure::new(format!("log's processor time a receipt at {to}"), large, Unit::CpuMicroseconds),
            Figure::new("rate by the clock, large against small", second.rate() / first.rate(), Unit::Times),
        ];
        let how = format!(
            "The row of {CONNECTIONS} connections at both sizes, {} receipts each time; the bar is for 10,000,000.",
            thousands(second.indices.len() as f64)
        );
        self.rows.push(Section::new(Row::Cost, figures, how).others(second.used.others.max(first.used.others)));
        Ok(())
    }

    fn cold_start(&mut self, stand: &mut Stand) -> Result<(), Failure> {
        tell("killing and starting the log");
        let batches = usize::try_from(self.arguments.receipts / 25_000).map_err(Failure::unexpected)?.clamp(1, 8);
        let (mut took, mut at_work) = (Vec::new(), 0);
        for round in 0..KILLS {
            let (time, cut_off) = stand.kill_and_start(round, batches)?;
            took.push(time);
            at_work += usize::from(cut_off);
        }
        took.sort_unstable();
        let size = thousands(stand.size as f64);
        let of = |place: usize| took.get(place).map_or(f64::NAN, Duration::as_secs_f64);
        let worst = Figure::new(format!("cold start at {size}, slowest"), of(KILLS - 1), Unit::Seconds);
        let figures = vec![
            worst.bar_from(Bar::AtMost(1.0), MILLION, stand.size),
            Figure::new(format!("cold start at {size}, median"), of(KILLS / 2), Unit::Seconds),
        ];
        let how = format!(
            "{KILLS} times kill -9 after a load of batches over 8 connections, {at_work} times in the midst of it; from the start of the process to the answer, with a \
             proof, to the first receipt. The store's files were in the system's cache."
        );
        self.rows.push(Section::new(Row::Start, figures, how));
        Ok(())
    }

    fn fsck(&mut self, stand: &mut Stand) -> Result<(), Failure> {
        tell("fsck");
        stand.stage.stop_log();
        let log_dir = stand.stage.log_dir();
        let call = [OsStr::new("log"), "fsck".as_ref(), "--dir".as_ref(), log_dir.as_os_str()];
        for (with, bar, options) in
            [("with signatures", 40_000.0, &[][..]), ("without signatures", 400_000.0, &["--skip-signatures"][..])]
        {
            let options: Vec<&OsStr> = call.iter().copied().chain(options.iter().map(OsStr::new)).collect();
            let (ended, timed) = process::timed(|| stand.stage.call(&options))?;
            let section = match ended {
                Ok((0, _)) => {
                    let rate = Figure::new(
                        format!("fsck {with}"),
                        stand.size as f64 / timed.wall.as_secs_f64(),
                        Unit::PerSecond,
                    );
                    let rate = rate.bar(Bar::AtLeast(bar)).beside(self.checks);
                    let how = format!(
                        "`counterfoil-log fsck{}` over {} receipts as a process, start to end; it used {:.1} cores.",
                        if with.starts_with("without") { " --skip-signatures" } else { "" },
                        thousands(stand.size as f64),
                        timed.cores
                    );
                    Section::new(Row::Fsck, vec![rate], how).others(timed.others)
                }
                Err(StageError::Call { code: Some(64), said, .. }) => {
                    let said = said.lines().next().unwrap_or_default();
                    Section::not_measured(Row::Fsck, format!("fsck {with}"), format!("the program says: {said}"))
                }
                Ok((code, said)) => return Err(Failure::Answer(format!("fsck {with} ended with {code}: {said}"))),
                Err(error) => return Err(error.into()),
            };
            self.rows.push(section);
        }
        Ok(())
    }

    fn window(&self) -> u64 {
        (self.arguments.receipts / 10).min(WINDOW)
    }
}

/// What the processors did for one receipt.
fn cpu_figures(measured: &Load) -> [Figure; 2] {
    let of = |time| measured.us_a_receipt(time);
    [
        Figure::new("  processor time of the log, a receipt", of(measured.used.log.total()), Unit::CpuMicroseconds),
        Figure::new("  processor time of the load generator", of(measured.used.own.total()), Unit::CpuMicroseconds),
    ]
}

fn checked(measured: &Load) -> String {
    let system = measured.us_a_receipt(measured.used.log.system);
    format!(
        "{} of the proofs checked afterwards, all right; the log grew by exactly these receipts. Of the log's time \
         {system:.1} us a receipt were the kernel's.",
        thousands(measured.proofs_checked as f64)
    )
}

/// So many for each that at least `total` come together, and one at the least.
fn each(total: u64, connections: u64) -> Result<usize, Failure> {
    usize::try_from(total.div_ceil(connections).max(1)).map_err(Failure::unexpected)
}

/// False: it was still changing.
fn wait_until_at_rest(store: &Path) -> Result<bool, Failure> {
    let began = Instant::now();
    let (mut last, mut since) = (disk::usage(store)?, Instant::now());
    while began.elapsed() < RESTLESS {
        std::thread::sleep(Duration::from_millis(100));
        let now = disk::usage(store)?;
        if now != last {
            (last, since) = (now, Instant::now());
        } else if since.elapsed() > AT_REST {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Reads here and there, as auditors and witnesses do.
fn look_around(stand: &Stand) -> Result<(), Failure> {
    let mut by_id = Vec::new();
    let gates = BATCH_CONNECTIONS as u64;
    let by_number = (0..LOOKUPS).map(|lookup| {
        let gate = (lookup % gates) as usize;
        stand.receipt_path(gate, stand.receipts_of(gate).saturating_sub(1) * lookup / LOOKUPS)
    });
    stand.get_each(by_number, |answer| {
        if let Ok(found) = serde_json::from_slice::<Found>(answer) {
            by_id.push(format!("/v1/receipts/{}", found.id));
        }
    })?;
    if by_id.len() as u64 != LOOKUPS {
        return Err(Failure::Answer("the log answered a look-up without an id".to_owned()));
    }
    stand.get_each(by_id, |_| {})?;
    let bundles = stand.size.div_ceil(u64::from(merkle::TILE_WIDTH));
    let static_files = (0..LOOKUPS).flat_map(|lookup| {
        let index = bundles * lookup / LOOKUPS;
        let (page, tile) = (PageId::at(index, stand.size), TileId::at(0, index, TreeSize(stand.size)));
        [page.map(ResourcePath::Entries), tile.map(ResourcePath::Tile)]
    });
    stand.get_each(static_files.flatten().map(|path| format!("/{path}")), |_| {})
}

#[derive(serde::Deserialize)]
struct Verdict {
    overall: String,
    coverage: Coverage,
}

#[derive(serde::Deserialize)]
struct Coverage {
    entries: u64,
}

#[derive(serde::Deserialize)]
struct Found {
    id: String,
}

fn tell(what: &str) {
    anstream::eprintln!("{what}");
}
