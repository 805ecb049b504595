//! The rows of the gate's table: what a decision costs before its action may run, how fast an outbox gets rid of what has
//! gathered in it, and how fast a log is read for a history. Gates are the SDKs' own, the log is a process of its own on this machine.

use crate::arguments::{GateArguments, GateRow};
use crate::failure::Failure;
use crate::machine::Machine;
use crate::report::{Bar, Figure, Report, Section, Unit, thousands};
use crate::stand::UNDER_TEST;
use client::gate::{Decision, Gate, GateConfig};
use client::history::{History, HistoryConfig, HistorySettings};
use client::{BoundedClient, GateDescription, LogClient, Outbox, Timeouts};
use note::{KeyKind, KeyName, Policy, SignedCheckpoint, SigningKey};
use receipt::{SeqNo, UnixMillis};
use serde::Deserialize;
use serde_json::json;
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};
use testkit::stage::{Setup, Stage};

/// Receipts that the outage's bar is for: an hour of ten calls a second, each a decision and an outcome.
const OUTAGE_LEAST: u64 = 72_000;
/// Receipts that the bar of the drained outbox is for: some seconds of work.
const DRAINED_LEAST: u64 = 50_000;
/// Bodies signed in one write where nothing is timed.
const AT_ONCE: u64 = 1_024;
/// How long a log may take until it has taken everything; slower, and the row fails.
const PATIENCE: Duration = Duration::from_secs(600);
/// What `gate.py` exits with where the SDK cannot be imported.
const NO_SDK: i32 = 3;

/// Measures what was asked for, below `dir`.
pub(crate) fn measure(arguments: &GateArguments, dir: &Path) -> Result<Report, Failure> {
    let machine = Machine::look(dir)?;
    let mut rows = Vec::new();
    if arguments.asks_for(GateRow::Decision) {
        rows.push(decision(arguments, &dir.join("decision"))?);
    }
    if arguments.asks_for(GateRow::Python) {
        rows.push(python(arguments, &dir.join("python"))?);
    }
    if arguments.asks_for(GateRow::Drain) {
        rows.push(drain(arguments, &dir.join("drain"))?);
    }
    if arguments.asks_for(GateRow::Outage) {
        rows.push(outage(arguments, &dir.join("outage"))?);
    }
    if arguments.asks_for(GateRow::History) {
        rows.push(history(arguments, &dir.join("history"))?);
    }
    Ok(Report { machine, receipts: None, rows })
}

/// A log, and where the gate's outbox is.
struct Scene {
    stage: Stage,
    outbox: PathBuf,
}

fn key() -> Result<SigningKey, Failure> {
    let name = KeyName::new("gate.example/bench").map_err(Failure::unexpected)?;
    Ok(SigningKey::from_seed(name, KeyKind::Ed25519, [9; 32]))
}

impl Scene {
    fn build(dir: &Path, witnesses: usize) -> Result<Scene, Failure> {
        fs::create_dir_all(dir).map_err(Failure::io(dir))?;
        let executable = dir.join(UNDER_TEST);
        let own = std::env::current_exe().map_err(Failure::io(&executable))?;
        symlink(own, &executable).map_err(Failure::io(&executable))?;
        let vkeys = [key()?.verifier().to_string()];
        let setup = Setup { dir, executable: &executable, port: None, witnesses, more_issuers: &vkeys };
        let stage = Stage::build(&setup)?;
        Ok(Scene { stage, outbox: dir.join("outbox") })
    }

    fn start_log(&mut self) -> Result<(), Failure> {
        self.stage.start_log()?;
        Ok(self.stage.wait_until_ready()?)
    }

    fn gate(&self) -> Result<Gate, Failure> {
        let url = self.stage.log_url().parse().map_err(Failure::unexpected)?;
        let log_key = self.stage.log_vkey().parse().map_err(Failure::unexpected)?;
        Gate::open(GateConfig::new(&self.outbox, key()?, url, log_key)).map_err(Failure::unexpected)
    }

    /// Asserts that the log holds the first `receipts` of the gate's receipts, one after the other and nothing in between, by
    /// the proofs that the outbox kept.
    fn check_order(&self, gate: &Gate, receipts: u64) -> Result<(), Failure> {
        let mut first = None;
        for seq in 0..receipts {
            let kept = gate.outbox().kept(SeqNo(seq)).map_err(Failure::unexpected)?;
            let index = kept.ok_or_else(|| Failure::Answer(format!("there is no proof of seq {seq}")))?.index.0;
            let first = *first.get_or_insert(index);
            if index != first + seq {
                return Err(Failure::Answer(format!("seq {seq} is at index {index} of the log: out of order")));
            }
        }
        Ok(())
    }
}

fn decide(gate: &Gate, number: usize) -> Result<client::gate::Act, Failure> {
    let decision = Decision::new(true)
        .rule("R1_WITHIN_LIMITS")
        .operation("payments.refund")
        .resource(format!("order/{number}"))
        .args(json!({"amount": number, "currency": "EUR"}))
        .session(format!("session-{}", number % 100));
    gate.decide(decision).map_err(Failure::unexpected)
}

fn end(mut act: client::gate::Act) -> Result<(), Failure> {
    act.call(|| Ok::<(), Failure>(()))?;
    act.finish().map_err(Failure::unexpected)?;
    Ok(())
}

/// One write and fdatasync after the other, of as many bytes as a receipt has.
struct Syncs(File, PathBuf);

impl Syncs {
    fn create(path: PathBuf) -> Result<Syncs, Failure> {
        Ok(Syncs(File::create(&path).map_err(Failure::io(&path))?, path))
    }

    fn one(&mut self) -> Result<f64, Failure> {
        let began = Instant::now();
        let written = self.0.write_all(&[b'x'; crate::gates::ENTRY_BYTES]).and_then(|()| self.0.sync_data());
        written.map_err(Failure::io(&self.1))?;
        Ok(ms(began))
    }
}

fn decision(arguments: &GateArguments, dir: &Path) -> Result<Section, Failure> {
    tell("a decision, until it is durable");
    let mut scene = Scene::build(dir, 0)?;
    scene.start_log()?;
    let gate = scene.gate()?;
    let mut syncs = Syncs::create(dir.join("sync-probe"))?;
    let (mut took, mut synced) = (Vec::new(), Vec::new());
    for number in 0..arguments.decisions {
        let began = Instant::now();
        let act = decide(&gate, number)?;
        took.push(ms(began));
        end(act)?;
        synced.push(syncs.one()?);
    }
    gate.flush(PATIENCE).map_err(Failure::unexpected)?;
    let receipts = gate.outbox().next_seq().map_err(Failure::unexpected)?.0;
    scene.check_order(&gate, receipts)?;
    let how = format!(
        "{} decisions one after the other, each with its outcome (not timed) and one write with fdatasync to the same disk in \
         between; a sender submits them to a log meanwhile. All {} receipts were proved by the log, in order.",
        thousands(arguments.decisions as f64),
        thousands(receipts as f64)
    );
    Ok(Section::new(GateRow::Decision, latency_figures("decision durable, Rust", took, synced, 1.5), how))
}

fn latency_figures(what: &str, mut took: Vec<f64>, mut synced: Vec<f64>, bar: f64) -> Vec<Figure> {
    took.sort_unstable_by(f64::total_cmp);
    synced.sort_unstable_by(f64::total_cmp);
    vec![
        Figure::new(format!("{what}, p50"), at(&took, 0.5), Unit::Milliseconds).bar(Bar::AtMost(bar)),
        Figure::new(format!("{what}, p99"), at(&took, 0.99), Unit::Milliseconds),
        Figure::new("  one fdatasync of this disk, p50", at(&synced, 0.5), Unit::Milliseconds),
        Figure::new("  one fdatasync of this disk, p99", at(&synced, 0.99), Unit::Milliseconds),
        Figure::new("  decision beside fdatasync, p50", at(&took, 0.5) / at(&synced, 0.5), Unit::Times),
    ]
}

/// What `gate.py` prints.
#[derive(Deserialize)]
struct Told {
    decide_ms: Vec<f64>,
    sync_ms: Vec<f64>,
}

fn python(arguments: &GateArguments, dir: &Path) -> Result<Section, Failure> {
    const WHAT: &str = "decision durable, Python";
    tell("the same through the Python SDK");
    let mut scene = Scene::build(dir, 0)?;
    scene.start_log()?;
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let python = std::env::var_os("COUNTERFOIL_PYTHON").unwrap_or_else(|| "python3".into());
    let mut call = Command::new(&python);
    call.arg(here.join("gate.py"))
        .arg(&scene.outbox)
        .arg(scene.stage.issuer_key_file())
        .args([&scene.stage.log_url(), scene.stage.log_vkey(), &arguments.decisions.to_string()])
        .env("PYTHONPATH", here.join("../sdk/python/src"));
    let skipped = |why: String| {
        tell(&format!("SKIPPED: {why}"));
        Ok(Section::not_measured(GateRow::Python, WHAT, why))
    };
    let Output { status, stdout, stderr } = match call.output() {
        Ok(output) => output,
        Err(error) => return skipped(format!("{} does not run: {error}", python.display())),
    };
    let said = String::from_utf8_lossy(&stderr);
    let last = said.lines().last().unwrap_or_default();
    if status.code() == Some(NO_SDK) {
        return skipped(format!("{last}; name an interpreter that can import it by COUNTERFOIL_PYTHON"));
    }
    if !status.success() {
        return Err(Failure::Answer(format!("gate.py: {last}")));
    }
    let told: Told = serde_json::from_slice(&stdout).map_err(Failure::unexpected)?;
    let how = format!("`bench/gate.py`: {} decisions as above.", thousands(told.decide_ms.len() as f64));
    Ok(Section::new(GateRow::Python, latency_figures(WHAT, told.decide_ms, told.sync_ms, 3.0), how))
}

/// Receipts that wait, and then a log that takes them.
fn drain(arguments: &GateArguments, dir: &Path) -> Result<Section, Failure> {
    let receipts = arguments.drained;
    tell(&format!("an outbox with {} receipts, and a log", thousands(receipts as f64)));
    let mut scene = Scene::build(dir, 0)?;
    fill(&scene, receipts, nothing_to_do)?;
    scene.start_log()?;
    let began = Instant::now();
    let gate = scene.gate()?;
    gate.flush(PATIENCE).map_err(Failure::unexpected)?;
    let took = began.elapsed();
    scene.check_order(&gate, receipts)?;
    let rate =
        Figure::new("receipts drained to a log, in batches", receipts as f64 / took.as_secs_f64(), Unit::PerSecond);
    let how = format!(
        "{} receipts in the outbox; from the opening of the gate until the last proof was checked and kept. Outbox and log \
         share the machine and its disk. Their order in the log was checked by every proof.",
        thousands(receipts as f64)
    );
    Ok(Section::new(GateRow::Drain, vec![rate.bar_from(Bar::AtLeast(10_000.0), DRAINED_LEAST, receipts)], how))
}

fn fill(scene: &Scene, receipts: u64, body: fn(u64) -> String) -> Result<(), Failure> {
    let outbox = Outbox::open(&scene.outbox, key()?, GateDescription::default());
    let outbox = outbox.map_err(Failure::unexpected)?;
    while let next = outbox.next_seq().map_err(Failure::unexpected)?.0
        && next < receipts
    {
        // The stream's first receipt comes by itself.
        let more = (receipts - next.max(1)).min(AT_ONCE);
        let bodies: Vec<String> = (next.max(1)..next.max(1) + more).map(body).collect();
        outbox.append_all(&bodies, now()).map_err(Failure::unexpected)?;
    }
    Ok(())
}

/// A decision that owes no outcome, so long that its receipt has about the size that the other figures are for.
fn nothing_to_do(seq: u64) -> String {
    format!(
        r#"{{"type":"decision","request_id":"r-{seq}","decision":"allow","authenticated":true,"executes":"none","why":"{:x<260}"}}"#,
        ""
    )
}

/// An hour of traffic that no log takes, and then one does.
fn outage(arguments: &GateArguments, dir: &Path) -> Result<Section, Failure> {
    let calls = usize::try_from(arguments.outage_receipts / 2).map_err(Failure::unexpected)?;
    tell(&format!("{} calls while the log is down", thousands(calls as f64)));
    let mut scene = Scene::build(dir, 0)?;
    let gate = scene.gate()?;
    for number in 0..calls {
        end(decide(&gate, number)?)?;
    }
    let receipts = gate.outbox().next_seq().map_err(Failure::unexpected)?.0;
    tell("the log comes up");
    scene.start_log()?;
    let began = Instant::now();
    // Nobody tells the gate: it finds out at its next attempt.
    let mut acknowledged = gate.outbox().watch_acknowledged();
    crate::stand::in_one_thread(async {
        let caught_up = acknowledged.wait_for(|count| *count >= receipts);
        tokio::time::timeout(PATIENCE, caught_up).await.map(|_| ())
    })?
    .map_err(|_| Failure::Answer(String::from("the gate does not catch up")))?;
    let took = began.elapsed();
    scene.check_order(&gate, receipts)?;
    let what = format!("caught up after an outage of {} receipts", thousands(receipts as f64));
    let figure = Figure::new(what, took.as_secs_f64(), Unit::Seconds);
    let how = format!(
        "{} calls, each a decision and an outcome, while nothing listened where the log should; from the log's first answer \
         to the last proof kept, the gate's pause between two attempts (10 s at most) included. Their order in the log was \
         checked by every proof.",
        thousands(calls as f64)
    );
    Ok(Section::new(GateRow::Outage, vec![figure.bar_from(Bar::AtMost(60.0), OUTAGE_LEAST, receipts)], how))
}

/// A log whose first history is asked for, and then the same once more.
fn history(arguments: &GateArguments, dir: &Path) -> Result<Section, Failure> {
    let entries = arguments.followed;
    tell(&format!("a history, from a log of {} entries", thousands(entries as f64)));
    let mut scene = Scene::build(dir, 1)?;
    fill(&scene, entries, on_a_subject)?;
    scene.start_log()?;
    scene.stage.start_witnesses()?;
    let gate = scene.gate()?;
    gate.flush(PATIENCE).map_err(Failure::unexpected)?;
    gate.close();
    let log_url = scene.stage.log_url().parse().map_err(Failure::unexpected)?;
    let log = LogClient::new(log_url, BoundedClient::new(Timeouts::default()).map_err(Failure::unexpected)?);
    let policy = fs::read(scene.stage.policy_file()).map_err(Failure::io(&scene.stage.policy_file()))?;
    let settings = HistorySettings::default();
    let config = HistoryConfig {
        dir: dir.join("followed"),
        log: log.clone(),
        log_key: scene.stage.log_vkey().parse().map_err(Failure::unexpected)?,
        policy: Policy::parse(&policy).map_err(Failure::unexpected)?,
        mode: settings.mode,
        whose: settings.whose,
        max_age: PATIENCE,
        quorum_wait: settings.quorum_wait,
        total: PATIENCE,
        clock: Arc::new(now),
    };
    let asker = KeyName::new("gate.example/asker").map_err(Failure::unexpected)?;
    let asker = SigningKey::from_seed(asker, KeyKind::Ed25519, [8; 32]);
    let own = Outbox::open(&dir.join("own"), asker, GateDescription::default()).map_err(Failure::unexpected)?;
    let mut follower = History::open(config).map_err(Failure::unexpected)?;
    let (took, mut again) = crate::stand::in_one_thread(async {
        wait_until_cosigned(&log, entries).await?;
        let began = Instant::now();
        let first = follower.of(&[SUBJECT], &own).await.map_err(Failure::unexpected)?;
        let took = began.elapsed();
        // Seq 0 opens the stream.
        let expected = (1..entries).filter(|seq| seq % SUBJECT_EVERY == 1).count();
        if (first.size.0, first.logged.len()) != (entries, expected) {
            let read = format!("{} of {entries} entries, {} of {expected} actions", first.size, first.logged.len());
            return Err(Failure::Answer(format!("the history is not all of it: {read}")));
        }
        let mut again = Vec::new();
        for _ in 0..100 {
            let began = Instant::now();
            follower.of(&[SUBJECT], &own).await.map_err(Failure::unexpected)?;
            again.push(ms(began));
        }
        Ok::<_, Failure>((took, again))
    })??;
    again.sort_unstable_by(f64::total_cmp);
    let figures = vec![
        Figure::new("entries followed for a history", entries as f64 / took.as_secs_f64(), Unit::PerSecond),
        Figure::new("  the same history again, p50", at(&again, 0.5), Unit::Milliseconds),
    ];
    let how = format!(
        "A gate that has read nothing asks for the history of one of {SUBJECT_EVERY} subjects in a log of {} entries on the same \
         machine, under a head that a witness cosigned: every entry is fetched, hashed into the tree, checked with its \
         signature and indexed. Then a hundred times again, when nothing is new.",
        thousands(entries as f64)
    );
    Ok(Section::new(GateRow::History, figures, how))
}

const SUBJECT: &str = "customer:1";
/// One decision in so many is on each subject.
const SUBJECT_EVERY: u64 = 10;

/// An allowed action with a class, on a subject, that owes no outcome.
fn on_a_subject(seq: u64) -> String {
    let subject = seq % SUBJECT_EVERY;
    format!(
        r#"{{"type":"decision","request_id":"r-{seq}","decision":"allow","action_class":"READ","subjects":["customer:{subject}"],"authenticated":true,"executes":"none","why":"{:x<200}"}}"#,
        ""
    )
}

/// Until the log serves a head over all entries, with a witness's line.
async fn wait_until_cosigned(log: &LogClient, entries: u64) -> Result<(), Failure> {
    let began = Instant::now();
    while began.elapsed() < PATIENCE {
        let head = log.checkpoint().await.map_err(Failure::unexpected)?;
        let head = SignedCheckpoint::parse(&head).map_err(Failure::unexpected)?;
        if head.claimed().size.0 == entries && head.note().signatures().len() > 1 {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    Err(Failure::Answer(String::from("no witness cosigns the log's head")))
}

fn at(sorted: &[f64], share: f64) -> f64 {
    let place = (sorted.len() as f64 * share) as usize;
    sorted.get(place.min(sorted.len().saturating_sub(1))).copied().unwrap_or(f64::NAN)
}

fn ms(began: Instant) -> f64 {
    began.elapsed().as_secs_f64() * 1e3
}

fn now() -> UnixMillis {
    let since_epoch = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    UnixMillis(u64::try_from(since_epoch.as_millis()).unwrap_or(u64::MAX))
}

fn tell(what: &str) {
    anstream::eprintln!("{what}");
}
