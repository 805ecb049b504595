//! What a process took, as Linux counts it in `/proc`.

use crate::failure::Failure;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

/// Ticks a second in `/proc/*/stat`: part of Linux's interface to programs on every architecture that Rust has a
/// standard library for, whatever the kernel's own clock does.
const TICKS_PER_S: u64 = 100;

/// Processor time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct CpuTime {
    /// In the program's own code.
    pub(crate) user: Duration,
    /// In the kernel, for it.
    pub(crate) system: Duration,
}

impl CpuTime {
    /// Both.
    pub(crate) fn total(self) -> Duration {
        self.user + self.system
    }

    /// What came on top of `before`.
    pub(crate) fn since(self, before: CpuTime) -> CpuTime {
        CpuTime { user: self.user.saturating_sub(before.user), system: self.system.saturating_sub(before.system) }
    }
}

/// What a process, all its threads together, has used so far. `None`: this one.
pub(crate) fn cpu_time(process: Option<u32>) -> Result<CpuTime, Failure> {
    two_times(process, 14)
}

/// What was seen of a program that ran from its start to its end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timed {
    pub(crate) wall: Duration,
    /// Processors that it used.
    pub(crate) cores: f64,
    /// Processors that all others used.
    pub(crate) others: f64,
}

/// Times `call`, which starts programs and waits for them.
pub(crate) fn timed<T>(call: impl FnOnce() -> T) -> Result<(T, Timed), Failure> {
    let used = || Ok::<_, Failure>((children_cpu_time()?, machine_busy()?));
    let (before, started) = (used()?, Instant::now());
    let returned = call();
    let (wall, after) = (started.elapsed(), used()?);
    let own = after.0.since(before.0).total();
    let others = after.1.saturating_sub(before.1).saturating_sub(own);
    let cores = |time: Duration| time.as_secs_f64() / wall.as_secs_f64();
    Ok((returned, Timed { wall, cores: cores(own), others: cores(others) }))
}

/// What all children that this process has waited for used.
fn children_cpu_time() -> Result<CpuTime, Failure> {
    two_times(None, 16)
}

/// A field of `stat`, counted from 1 as in proc(5), and the next, as times.
fn two_times(process: Option<u32>, field: usize) -> Result<CpuTime, Failure> {
    let stat = read(&place(process, "stat"))?;
    // The name in brackets may hold anything; the 3rd field follows it.
    let fields = stat.rsplit_once(')').map_or("", |(_, rest)| rest).split_whitespace().skip(field - 3);
    let mut ticks = fields.map_while(|field| field.parse().ok()).map(ticks);
    match (ticks.next(), ticks.next()) {
        (Some(user), Some(system)) => Ok(CpuTime { user, system }),
        _ => Err(Failure::unexpected("/proc/<pid>/stat looks other than Linux writes it")),
    }
}

/// What the log, this process and the machine have used up to a moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Usage {
    log: CpuTime,
    own: CpuTime,
    machine: Duration,
}

/// Who used how much between two moments.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Shares {
    pub(crate) log: CpuTime,
    /// This process: the load generator.
    pub(crate) own: CpuTime,
    /// All other processes, in processors.
    pub(crate) others: f64,
}

impl Usage {
    /// Up to now, of the log in that process.
    pub(crate) fn now(log: u32) -> Result<Usage, Failure> {
        Ok(Usage { log: cpu_time(Some(log))?, own: cpu_time(None)?, machine: machine_busy()? })
    }

    /// Since `before`, which was so long ago.
    pub(crate) fn since(self, before: Usage, wall: Duration) -> Shares {
        let (log, own) = (self.log.since(before.log), self.own.since(before.own));
        let others = self.machine.saturating_sub(before.machine).saturating_sub(log.total() + own.total());
        Shares { log, own, others: others.as_secs_f64() / wall.as_secs_f64() }
    }
}

/// What all processors of the machine were busy with so far, idling and waiting left out.
fn machine_busy() -> Result<Duration, Failure> {
    let stat = read("/proc/stat")?;
    let line = stat.lines().next().unwrap_or_default();
    let numbers: Vec<u64> = line.split_whitespace().skip(1).map_while(|field| field.parse().ok()).collect();
    // user nice system idle iowait irq softirq steal
    let busy = numbers.iter().enumerate().filter(|(place, _)| !matches!(place, 3 | 4) && *place < 8);
    Ok(ticks(busy.map(|(_, count)| count).sum()))
}

/// Memory of a process, in bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Memory {
    /// Resident now.
    pub(crate) resident: u64,
    /// The most that ever was.
    pub(crate) peak: u64,
    /// The part of `resident` that is no file.
    pub(crate) anonymous: u64,
}

/// What a process occupies.
pub(crate) fn memory(process: u32) -> Result<Memory, Failure> {
    let status = read(&place(Some(process), "status"))?;
    let of = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        let kib = line.and_then(|line| line.trim().strip_suffix(" kB")).and_then(|kib| kib.trim().parse::<u64>().ok());
        kib.map(|kib| kib * 1024).ok_or_else(|| Failure::unexpected(format!("/proc/<pid>/status has no {name}")))
    };
    Ok(Memory { resident: of("VmRSS")?, peak: of("VmHWM")?, anonymous: of("RssAnon")? })
}

fn place(process: Option<u32>, file: &str) -> String {
    match process {
        Some(id) => format!("/proc/{id}/{file}"),
        None => format!("/proc/self/{file}"),
    }
}

fn read(path: &str) -> Result<String, Failure> {
    fs::read_to_string(path).map_err(Failure::io(Path::new(path)))
}

fn ticks(count: u64) -> Duration {
    Duration::from_millis(count * 1000 / TICKS_PER_S)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;
    use std::hint::black_box;

    #[test]
    fn work_shows_up_in_the_processs_own_time_and_in_the_machines() {
        let (own, machine) = (cpu_time(None).unwrap(), machine_busy().unwrap());
        let mut spent = CpuTime::default();
        while spent.user < Duration::from_millis(50) {
            black_box((0..1_000_000u64).map(black_box).sum::<u64>());
            spent = cpu_time(None).unwrap().since(own);
        }
        assert!(machine_busy().unwrap() > machine);
        assert!(cpu_time(Some(std::process::id())).unwrap().since(own).total() >= spent.total());
    }

    #[test]
    fn memory_is_at_most_its_peak() {
        let memory = memory(std::process::id()).unwrap();
        assert!(memory.anonymous <= memory.resident && memory.resident <= memory.peak && memory.anonymous > 0);
    }
}
