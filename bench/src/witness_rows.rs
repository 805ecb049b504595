//! The rows of the witness's table, each on a witness of its own.

use crate::arguments::{WitnessArguments, WitnessRow};
use crate::disk;
use crate::failure::Failure;
use crate::house::House;
use crate::idle::Idle;
use crate::machine::Machine;
use crate::process;
use crate::pushes::{Pusher, run};
use crate::report::{Bar, Figure, Report, Section, Unit, thousands};
use crate::split_view;
use std::net::TcpListener;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Logs, and connections, of the row with most cosignatures a second to reach.
const LOGS: usize = 64;
/// Calls of the lone client: a few seconds.
const LONE_CALLS: usize = 4_000;
/// Logs in which nothing happens, and how often each is fetched.
const IDLE_LOGS: usize = 1_000;
const IDLE_EVERY: Duration = Duration::from_secs(10);

/// Measures what was asked for, below `dir`.
pub(crate) fn measure(arguments: &WitnessArguments, dir: &Path) -> Result<Report, Failure> {
    let machine = Machine::look(dir)?;
    let mut rows = Vec::new();
    if arguments.asks_for(WitnessRow::Pushes) {
        rows.push(pushes(arguments, &dir.join("pushes"), machine.strict_checks_a_core)?);
    }
    if arguments.asks_for(WitnessRow::Lone) {
        rows.push(lone(arguments, &dir.join("lone"))?);
    }
    if arguments.asks_for(WitnessRow::Idle) {
        rows.push(idle(arguments, &dir.join("idle"))?);
    }
    if arguments.asks_for(WitnessRow::SplitView) {
        rows.push(split_view(arguments, &dir.join("split-view"))?);
    }
    if arguments.asks_for(WitnessRow::Full) {
        tell(&format!("filling a log of {} receipts, and catching up with it", thousands(arguments.receipts as f64)));
        rows.push(crate::full::measure(&dir.join("full"), arguments.receipts, machine.strict_checks_a_core)?);
    }
    Ok(Report { machine, receipts: None, rows })
}

fn pushes(arguments: &WitnessArguments, dir: &Path, checks: f64) -> Result<Section, Failure> {
    let each = usize::try_from(arguments.pushes).map_err(Failure::unexpected)?.div_ceil(LOGS);
    tell(&format!("making {} heads of {LOGS} logs", thousands((each * LOGS) as f64)));
    let pushers = Pusher::many(LOGS, each)?;
    let sections: String = pushers.iter().map(Pusher::section).collect();
    let house = House::build(dir, &sections)?;
    tell(&format!("pushing them; the witness is process {}", house.id()));
    let occupied = || Ok::<u64, Failure>(disk::usage(&house.state())?.values().sum());
    let before = occupied()?;
    let pushed = run(&house, pushers)?;
    let grown = occupied()?.saturating_sub(before);
    let memory = process::memory(house.id())?.resident;
    house.stop()?;
    let name = format!("pushed heads, {LOGS} logs and connections");
    let cost = pushed.us_each(pushed.used.log.total());
    let figures = vec![
        Figure::new(name.clone(), pushed.rate(), Unit::PerSecond).bar(Bar::AtLeast(5_000.0)).beside(checks),
        Figure::new(format!("{name}, p50"), pushed.quantile_ms(0.5), Unit::Milliseconds),
        Figure::new(format!("{name}, p99"), pushed.quantile_ms(0.99), Unit::Milliseconds).bar(Bar::AtMost(40.0)),
        Figure::new("  processor time of the witness, a cosignature", cost, Unit::CpuMicroseconds)
            .bar(Bar::AtMost(150.0)),
        Figure::new(
            "  processor time of the load generator",
            pushed.us_each(pushed.used.own.total()),
            Unit::CpuMicroseconds,
        ),
        Figure::new("  on disk, a cosignature", grown as f64 / pushed.count as f64, Unit::Bytes),
        Figure::new("  resident, after it", memory as f64 / 1e6, Unit::Megabytes),
    ];
    let how = format!(
        "{} heads, each durable in the journal before its cosignature leaves; every connection is one log that pushes its \
         next head when the last was answered. {} cosignatures were checked afterwards.",
        thousands(pushed.count as f64),
        thousands(pushed.checked as f64)
    );
    Ok(Section::new(WitnessRow::Pushes, figures, how).others(pushed.used.others))
}

fn lone(arguments: &WitnessArguments, dir: &Path) -> Result<Section, Failure> {
    let calls = LONE_CALLS.min(usize::try_from(arguments.pushes).map_err(Failure::unexpected)?);
    let pushers = Pusher::many(1, calls)?;
    let house = House::build(dir, &pushers[0].section())?;
    tell("one log pushes over one connection");
    let pushed = run(&house, pushers)?;
    house.stop()?;
    let figures = vec![
        Figure::new("one log, one client, p50", pushed.quantile_ms(0.5), Unit::Milliseconds).bar(Bar::AtMost(1.2)),
        Figure::new("one log, one client, p99", pushed.quantile_ms(0.99), Unit::Milliseconds),
    ];
    let how = format!("{} heads over one connection.", thousands(pushed.count as f64));
    Ok(Section::new(WitnessRow::Lone, figures, how).others(pushed.used.others))
}

fn idle(arguments: &WitnessArguments, dir: &Path) -> Result<Section, Failure> {
    let listener = TcpListener::bind("127.0.0.1:0").map_err(Failure::unexpected)?;
    let idle = Arc::new(Idle::new(IDLE_LOGS, listener.local_addr().map_err(Failure::unexpected)?)?);
    let serving = Arc::clone(&idle);
    // Ends with the process; nothing waits for it.
    std::thread::spawn(move || crate::stand::in_one_thread(serving.serve(listener)));
    // Keys before the first table in a file of TOML belong to no table: the sections come last.
    let house = House::build_with(dir, &[("interval_ms", &IDLE_EVERY.as_millis())], &idle.sections)?;
    tell(&format!("following {} logs in which nothing happens", thousands(IDLE_LOGS as f64)));
    // The first fetch of each log is not an idle one.
    std::thread::sleep(IDLE_EVERY + Duration::from_secs(2));
    let (before, asked, began) = (process::cpu_time(Some(house.id()))?, idle.asked(), Instant::now());
    std::thread::sleep(Duration::from_secs(arguments.idle_s));
    let used = process::cpu_time(Some(house.id()))?.since(before).total();
    let (wall, asked) = (began.elapsed(), idle.asked() - asked);
    let memory = process::memory(house.id())?;
    house.stop()?;
    if asked == 0 {
        return Err(Failure::Answer("the witness asked for nothing".to_owned()));
    }
    let share = used.as_secs_f64() / wall.as_secs_f64();
    let figures = vec![
        Figure::new("following 1,000 idle logs every 10 s, of one core", 100.0 * share, Unit::Percent)
            .bar(Bar::AtMost(5.0)),
        Figure::new("  processor time a fetch", used.as_secs_f64() * 1e6 / asked as f64, Unit::CpuMicroseconds),
        Figure::new("  resident", memory.resident as f64 / 1e6, Unit::Megabytes).bar(Bar::AtMost(64.0)),
        Figure::new("  most that was ever resident", memory.peak as f64 / 1e6, Unit::Megabytes),
    ];
    let how = format!(
        "{} fetches in {:.0} s, each cosigned again with the time of the fetch.",
        thousands(asked as f64),
        wall.as_secs_f64()
    );
    Ok(Section::new(WitnessRow::Idle, figures, how))
}

fn split_view(arguments: &WitnessArguments, dir: &Path) -> Result<Section, Failure> {
    let runs = usize::try_from(arguments.splits).map_err(Failure::unexpected)?;
    tell(&format!("timing {runs} split views between two witnesses each"));
    let delays = split_view::measure(dir, runs)?;
    let bar = Duration::from_secs(3);
    let in_time = 100.0 * delays.within(bar) as f64 / runs as f64;
    let mut figures = vec![
        Figure::new("split views detected within 3 s, interval 1 s", in_time, Unit::Percent).bar(Bar::AtLeast(100.0)),
    ];
    if let Some((least, median, most)) = delays.least_median_most_s() {
        figures.push(Figure::new("  shortest delay", least, Unit::Seconds));
        figures.push(Figure::new("  median delay", median, Unit::Seconds));
        figures.push(Figure::new("  longest delay", most, Unit::Seconds));
    }
    let how = format!(
        "{runs} runs, a few at a time, of two witnesses that are each other's peers, from the moment at which the log shows them \
         two histories (of one size, either one the larger, growing) until one of them serves evidence that names the log's key."
    );
    Ok(Section::new(WitnessRow::SplitView, figures, how))
}

fn tell(what: &str) {
    anstream::eprintln!("{what}");
}
