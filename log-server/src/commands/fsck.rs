//! `counterfoil-log fsck`: everything that a stopped log has on disk, checked from its entries up.

use super::PROGRAM;
use super::place::{self, LogPlace, PlaceError};
use crate::arguments::Fsck;
use serde::Serialize;
use service::ExitStatus;
use service::output::{Output, complain};
use service::progress::Progress;
use std::io::Write;
use std::path::PathBuf;
use std::time::Instant;
use store::{Finding, Remedy, StoreError, StoreReport};

#[derive(Debug, thiserror::Error)]
enum FsckError {
    #[error(transparent)]
    Place(#[from] PlaceError),
    #[error("the store could not be looked at: {0}")]
    Look(StoreError),
    #[error("what is derived could not be derived again: {0}")]
    Repair(StoreError),
}

#[derive(Serialize)]
struct Report {
    ok: bool,
    entries: u64,
    heads: u64,
    issuers: u64,
    signatures_checked: bool,
    /// Not judged because of damage before them.
    receipts_not_judged: u64,
    states_saved_at: Option<u64>,
    seconds: f64,
    repaired: bool,
    findings: Vec<Shown>,
    findings_in_all: u64,
}

#[derive(Serialize)]
struct Shown {
    file: PathBuf,
    what: &'static str,
    position: u64,
    why: String,
    remedy: &'static str,
    next: String,
}

pub(crate) fn fsck(arguments: &Fsck) -> ExitStatus {
    match check(arguments) {
        Ok(report) => {
            Output::new(arguments.json).print(&report, |to| print(to, arguments, &report));
            if report.ok { ExitStatus::Ok } else { ExitStatus::Failed }
        }
        Err(error) => {
            complain(PROGRAM, &error);
            match error {
                FsckError::Place(error) => error.status(),
                FsckError::Look(_) => ExitStatus::Unreadable,
                FsckError::Repair(_) => ExitStatus::Failed,
            }
        }
    }
}

fn check(arguments: &Fsck) -> Result<Report, FsckError> {
    let place = place::find(&arguments.dir, arguments.log_key.as_deref())?;
    let started = Instant::now();
    let mut found = look(&place, arguments)?;
    let may_repair = found.findings.to_restore() == 0;
    let repaired = arguments.repair_index && may_repair;
    if repaired {
        with_progress("receipts replayed", |progress| {
            store::rebuild_indexes(&place.store, &place.key, found.findings.in_hashes(), progress)
        })
        .map_err(FsckError::Repair)?;
        found = look(&place, arguments)?;
    }
    Ok(Report {
        ok: found.findings.is_empty(),
        entries: found.looked_at.entries,
        heads: found.looked_at.heads,
        issuers: found.issuers,
        signatures_checked: !arguments.skip_signatures,
        receipts_not_judged: found.unjudged,
        states_saved_at: found.states_saved_at.map(|size| size.0),
        seconds: started.elapsed().as_secs_f64(),
        repaired,
        findings: found.findings.first().iter().map(|finding| shown(finding, arguments)).collect(),
        findings_in_all: found.findings.count(),
    })
}

fn look(place: &LogPlace, arguments: &Fsck) -> Result<StoreReport, FsckError> {
    with_progress("receipts checked", |progress| {
        store::inspect(&place.store, &place.key, !arguments.skip_signatures, progress)
    })
    .map_err(FsckError::Look)
}

fn with_progress<T>(what: &'static str, work: impl FnOnce(&mut dyn FnMut(u64, u64)) -> T) -> T {
    let progress = Progress::new(0, what);
    work(&mut |done, of| {
        progress.set_total(of);
        progress.advance(done.saturating_sub(progress.done()));
    })
}

fn shown(finding: &Finding, arguments: &Fsck) -> Shown {
    let Finding { path, what, position, why, remedy } = finding.clone();
    let (remedy, next) = match remedy {
        Remedy::Restore => (
            "restore",
            "do not start the log; keep this file, and put the same file of a copy (a backup, a mirror) in its place"
                .to_owned(),
        ),
        Remedy::Rebuild => {
            ("rebuild", format!("it is derived: counterfoil-log fsck --dir {} --repair-index", arguments.dir.display()))
        }
    };
    Shown { file: path, what, position, why, remedy, next }
}

fn print(to: &mut dyn Write, arguments: &Fsck, report: &Report) -> std::io::Result<()> {
    let mut last_advice = "";
    for finding in &report.findings {
        writeln!(to, "{}: {} {}: {}", finding.file.display(), finding.what, finding.position, finding.why)?;
        if finding.next != last_advice {
            writeln!(to, "    {}", finding.next)?;
        }
        last_advice = &finding.next;
    }
    let unnamed = report.findings_in_all - report.findings.len() as u64;
    if unnamed > 0 {
        writeln!(to, "… and {unnamed} more")?;
    }
    if report.receipts_not_judged > 0 {
        writeln!(
            to,
            "{} receipts were not judged: what comes before them in their issuers' streams is damaged",
            report.receipts_not_judged
        )?;
    }
    if arguments.repair_index && !report.repaired {
        writeln!(to, "not repaired: an entry or a head is damaged, and the rest is derived from those")?;
    }
    let verdict = match (report.ok, report.repaired) {
        (true, true) => "repaired, and all is right".to_owned(),
        (true, false) => "all is right".to_owned(),
        (false, _) if report.findings_in_all == 1 => "one thing is wrong".to_owned(),
        (false, _) => format!("{} things are wrong", report.findings_in_all),
    };
    let signatures = if report.signatures_checked { "" } else { "; signatures were left out" };
    writeln!(
        to,
        "{verdict}: {} entries, {} heads, {} issuers in {:.1} s{signatures}",
        report.entries, report.heads, report.issuers, report.seconds
    )
}
