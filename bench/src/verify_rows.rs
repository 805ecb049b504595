//! The rows of the verifier's table, over one bundle that is made for them.

use crate::arguments::{VerifyArguments, VerifyRow};
use crate::bundle::{self, Made};
use crate::failure::Failure;
use crate::machine::Machine;
use crate::process;
use crate::report::{Bar, Figure, Report, Section, Unit, thousands};
use merkle::{PageId, ResourcePath};
use note::{KeyTables, SignatureCheck, SignedNote, VerifierKey};
use rayon::prelude::*;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Receipts that the bars are for.
const LEAST: u64 = 1_000_000;
const ISSUERS: usize = 20;
const WITNESSES: usize = 5;
/// How often `proof` is run.
const PROOFS: usize = 101;
/// What is measured.
const PROGRAM: &str = "counterfoil-verify";
/// Between two looks at a process.
const GLANCE: Duration = Duration::from_millis(2);

/// Measures what was asked for, below `dir`.
pub(crate) fn measure(arguments: &VerifyArguments, dir: &Path) -> Result<Report, Failure> {
    let machine = Machine::look(dir)?;
    tell(&format!("making a bundle of {} receipts", thousands(arguments.receipts as f64)));
    let made = bundle::make(dir, arguments.receipts, ISSUERS, WITNESSES)?;
    let executable = verifier()?;
    let verify = Verify { executable: &executable, made: &made };
    let mut rows = Vec::new();
    if arguments.asks_for(VerifyRow::Audit) {
        rows.push(verify.audit()?);
    }
    if arguments.asks_for(VerifyRow::Since) {
        rows.push(verify.since()?);
    }
    if arguments.asks_for(VerifyRow::Proof) {
        rows.push(verify.proof()?);
    }
    Ok(Report { machine, receipts: Some(arguments.receipts), rows })
}

struct Verify<'run> {
    executable: &'run Path,
    made: &'run Made,
}

/// A process that ran to its end.
struct Ran {
    wall: Duration,
    peak: u64,
    cores: f64,
    others: f64,
}

impl Verify<'_> {
    fn audit(&self) -> Result<Section, Failure> {
        tell("checking the signatures alone");
        let pure = self.pure_cost()?;
        tell("auditing");
        let ran = self.run_audit(&[])?;
        let (size, wall) = (self.made.receipts, ran.wall.as_secs_f64());
        let figures = vec![
            Figure::new("full audit", wall, Unit::Seconds).bar_from(Bar::AtMost(35.0), LEAST, size),
            Figure::new("  against its signature checks alone", wall / pure.as_secs_f64(), Unit::Times).bar_from(
                Bar::AtMost(1.3),
                LEAST,
                size,
            ),
            Figure::new("  the signature checks alone", pure.as_secs_f64(), Unit::Seconds),
            Figure::new("  most that was ever resident", ran.peak as f64 / 1e6, Unit::Megabytes).bar_from(
                Bar::AtMost(500.0),
                LEAST,
                size,
            ),
        ];
        let how = format!(
            "`counterfoil-verify audit` as a process, start to end, over {} receipts ({:.0} bytes each) of {ISSUERS} issuers, \
             {} heads and {WITNESSES} witnesses whose journals have a line for each; it used {:.1} cores. The signature checks \
             alone: those of the receipts, with a table a key, over all cores, nothing else timed.",
            thousands(size as f64),
            self.made.bytes as f64 / size as f64,
            thousands(self.made.heads as f64),
            ran.cores
        );
        Ok(Section::new(VerifyRow::Audit, figures, how).others(ran.others))
    }

    fn since(&self) -> Result<Section, Failure> {
        tell("auditing again without changes");
        let state = self.made.dir.join("state");
        self.run_audit(&["--save-state".as_ref(), state.as_ref()])?;
        let ran = self.run_audit(&["--since".as_ref(), state.as_ref()])?;
        let bytes = fs::metadata(&state).map_err(Failure::io(&state))?.len();
        let size = self.made.receipts;
        let figures = vec![
            Figure::new("audit --since, nothing new", ran.wall.as_secs_f64(), Unit::Seconds).bar_from(
                Bar::AtMost(1.0),
                LEAST,
                size,
            ),
            Figure::new("  most that was ever resident", ran.peak as f64 / 1e6, Unit::Megabytes),
            Figure::new("  saved state, a receipt", bytes as f64 / size as f64, Unit::Bytes),
        ];
        let how = String::from("The same bundle again, with the state that the audit before it saved, as a process.");
        Ok(Section::new(VerifyRow::Since, figures, how).others(ran.others))
    }

    fn proof(&self) -> Result<Section, Failure> {
        let [proof, entry] = self.made.proof();
        let (policy, issuers) = (self.made.policy(), self.made.issuers());
        let of: [&OsStr; 6] = [
            "--policy".as_ref(),
            policy.as_ref(),
            "--issuers".as_ref(),
            issuers.as_ref(),
            proof.as_ref(),
            entry.as_ref(),
        ];
        let mut took = Vec::with_capacity(PROOFS);
        for _ in 0..PROOFS {
            let started = Instant::now();
            let ended = self.command("proof", &of).output().map_err(Failure::io(self.executable))?;
            took.push(started.elapsed());
            if !ended.status.success() {
                return Err(Failure::Answer(format!("the proof ended with {}", ended.status)));
            }
        }
        took.sort_unstable();
        let ms = |place: usize| took[place].as_secs_f64() * 1e3;
        let figures = vec![
            Figure::new("one proof with 3 cosignatures, p50", ms(PROOFS / 2), Unit::Milliseconds).bar(Bar::AtMost(5.0)),
            Figure::new("one proof with 3 cosignatures, p90", ms(PROOFS * 9 / 10), Unit::Milliseconds),
        ];
        let how = format!("`counterfoil-verify proof` as a process, start to end, {PROOFS} times.");
        Ok(Section::new(VerifyRow::Proof, figures, how))
    }

    /// The receipts' signatures under their keys, a page of them at a time: only the checks are timed.
    fn pure_cost(&self) -> Result<Duration, Failure> {
        let issuers = self.made.issuers();
        let text = fs::read_to_string(&issuers).map_err(Failure::io(&issuers))?;
        let keys =
            text.lines().map(str::parse).collect::<Result<Vec<VerifierKey>, _>>().map_err(Failure::unexpected)?;
        let tables = KeyTables::new(ISSUERS);
        let mut spent = Duration::ZERO;
        let pages: Vec<PageId> = PageId::all(self.made.receipts).collect();
        for pages in pages.chunks(64) {
            let mut notes = Vec::new();
            for page in pages {
                let path = self.made.bundle().join("log").join(ResourcePath::Entries(*page).to_string());
                let bytes = fs::read(&path).map_err(Failure::io(&path))?;
                for entry in merkle::decode_entries(&bytes).map_err(Failure::unexpected)? {
                    let note = SignedNote::parse(entry).map_err(Failure::unexpected)?;
                    let line = note.signatures().first().ok_or_else(|| Failure::unexpected("an unsigned receipt"))?;
                    let key = keys.iter().find(|key| line.claims(key)).ok_or_else(|| Failure::unexpected("whose?"))?;
                    let signature: [u8; 64] = line.blob.as_slice().try_into().map_err(Failure::unexpected)?;
                    notes.push((note.text().to_owned(), signature, key));
                }
            }
            let started = Instant::now();
            let good = notes.par_iter().all(|(text, signature, key)| tables.verify(key, text.as_bytes(), signature));
            spent += started.elapsed();
            if !good {
                return Err(Failure::unexpected("a good signature did not verify"));
            }
        }
        Ok(spent)
    }

    fn run_audit(&self, more: &[&OsStr]) -> Result<Ran, Failure> {
        let (policy, issuers, bundle) = (self.made.policy(), self.made.issuers(), self.made.bundle());
        let of: [&OsStr; 5] =
            ["--policy".as_ref(), policy.as_ref(), "--issuers".as_ref(), issuers.as_ref(), bundle.as_ref()];
        let out = self.made.dir.join("verdict.txt");
        let file = fs::File::create(&out).map_err(Failure::io(&out))?;
        let mut command = self.command("audit", &[&of[..], more].concat());
        let mut child = command.stdout(file).spawn().map_err(Failure::io(self.executable))?;
        let mut peak = 0;
        let (status, timed) = process::timed(|| {
            loop {
                // The last look before its end sees all but its last moments; the most that was resident never shrinks.
                peak = process::memory(child.id()).map_or(peak, |memory| memory.peak.max(peak));
                match child.try_wait() {
                    Ok(None) => std::thread::sleep(GLANCE),
                    ended => break ended,
                }
            }
        })?;
        match status.map_err(Failure::io(self.executable))? {
            Some(status) if status.success() => {
                Ok(Ran { wall: timed.wall, peak, cores: timed.cores, others: timed.others })
            }
            _ => Err(Failure::Answer(format!("the audit of an honest bundle did not end well; see {}", out.display()))),
        }
    }

    fn command(&self, name: &str, arguments: &[&OsStr]) -> Command {
        let mut command = Command::new(self.executable);
        command.arg(name).args(arguments).stdin(Stdio::null());
        command
    }
}

/// The verifier's own program, which has another allocator than this one: built anew if cargo runs this, else the one
/// that lies beside it.
fn verifier() -> Result<PathBuf, Failure> {
    let own = std::env::current_exe().map_err(Failure::io(Path::new(PROGRAM)))?;
    if let Some(cargo) = std::env::var_os("CARGO") {
        tell("building the verifier");
        let mut command = Command::new(&cargo);
        command.args(["build", "--release", "--locked", "--quiet", "-p", "counterfoil-verifier"]);
        let built = command.status().map_err(Failure::io(Path::new(&cargo)))?;
        if !built.success() {
            return Err(Failure::Answer(String::from("the verifier could not be built")));
        }
    }
    let executable = own.with_file_name(PROGRAM);
    match executable.is_file() {
        true => Ok(executable),
        false => Err(Failure::Answer(format!(
            "{} is missing; build it with: cargo build --release -p counterfoil-verifier",
            executable.display()
        ))),
    }
}

fn tell(what: &str) {
    anstream::eprintln!("{what}");
}
