//! `audit`: a bundle is opened, judged, and the verdict shown.

use crate::PROGRAM;
use crate::archive::ArchiveBundle;
use crate::arguments::Audit;
use crate::dir_bundle::DirBundle;
use crate::evidence_dir;
use crate::failure::{Failure, failed, read_file, read_issuers, read_policy, read_text, unreadable};
use crate::report::{ReportFile, html, json, named, text, write_file};
use audit::quote::one_line;
use audit::{BundleSource, MAX_STATE_LEN, ReadError, Rules, SavedAudit, Terms, Verdict};
use service::ExitStatus;
use service::output::complain;
use service::progress::Progress;
use std::io::Write;
use std::path::Path;

pub(crate) fn run(arguments: &Audit) -> Result<ExitStatus, Failure> {
    let policy = read_policy(&arguments.policy)?;
    let issuers = read_issuers(&arguments.issuers)?;
    let rules = match &arguments.rules {
        None => Rules::built_in(),
        Some(path) => read_rules(path)?,
    };
    let bundle = open(&arguments.bundle)?;
    arguments.evidence.as_deref().map(evidence_dir::prepare).transpose()?;
    let since = arguments.since.as_deref().map(read_state).transpose()?;
    let audited = {
        let progress = Progress::new(0, "entries");
        let tell = |done: u64, total: u64| {
            progress.set_total(total);
            progress.advance(done.saturating_sub(progress.done()));
        };
        let terms = Terms {
            policy: &policy,
            issuers: &issuers,
            rules: &rules,
            at: arguments.at.map(|at| at.0),
            max_age_ms: arguments.max_age.map(|age| age.0),
            outcome_deadline_ms: arguments.outcome_deadline.map(|deadline| deadline.0),
            threads: arguments.threads.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from)),
            progress: &tell,
        };
        audit::audit_since(bundle.as_ref(), &terms, since, arguments.save_state.is_some())
            .map_err(|error| unreadable(one_line(&error.to_string())))?
    };
    let verdict = audited.verdict;
    if let (Some(path), Some(state)) = (&arguments.save_state, audited.state) {
        match state {
            Ok(state) => write_file(path, &state)
                .map_err(|error| failed(format!("cannot write the state {}: {error}", path.display())))?,
            Err(not_saved) => complain(PROGRAM, not_saved),
        }
    }
    if let Some(report) = &arguments.report {
        report.0.iter().try_for_each(|file| write_report(file, &verdict, bundle.as_ref()))?;
    }
    if let Some(dir) = &arguments.evidence {
        evidence_dir::write(dir, &verdict.evidence)?;
    }
    show(&verdict, arguments.json)?;
    Ok(match verdict.exit_code {
        0 => ExitStatus::Ok,
        1 => ExitStatus::Failed,
        _ => ExitStatus::NotChecked,
    })
}

/// The rule file; a file that it names lies beside it.
fn read_rules(path: &Path) -> Result<Rules, Failure> {
    let beside = path.parent().unwrap_or(Path::new(""));
    let mut read = |name: &str| read_text(&beside.join(name)).map_err(|failure| failure.reason);
    Rules::parse_with(&read_text(path)?, &mut read).map_err(|error| unreadable(format!("{}: {error}", path.display())))
}

fn read_state(path: &Path) -> Result<SavedAudit, Failure> {
    let bytes = read_file(path, MAX_STATE_LEN)?;
    SavedAudit::parse(&bytes).map_err(|error| unreadable(format!("{}: {error}", path.display())))
}

pub(crate) fn open(path: &Path) -> Result<Box<dyn BundleSource>, Failure> {
    // A path within the bundle may hold line breaks.
    let cannot = |error: ReadError| unreadable(one_line(&error.to_string()));
    let bundle: Box<dyn BundleSource> = match path.is_dir() {
        true => Box::new(DirBundle::open(path).map_err(cannot)?),
        false => Box::new(ArchiveBundle::open(path).map_err(cannot)?),
    };
    if !bundle.list().iter().any(|file| file.starts_with("log/")) {
        return Err(unreadable(format!(
            "{} is no bundle: there is no log/ in it; give the directory that fetch wrote with --out",
            path.display()
        )));
    }
    Ok(bundle)
}

fn show(verdict: &Verdict, as_json: bool) -> Result<(), Failure> {
    let mut out = Vec::new();
    match as_json {
        true => writeln!(out, "{}", json::verdict_json(verdict).map_err(failed)?),
        false => text::write_text(verdict, &mut out),
    }
    .map_err(failed)?;
    // A reader that has gone away (`| head`) has what it wanted.
    let mut stdout = anstream::stdout().lock();
    let _reader_gone = stdout.write_all(&out).and_then(|()| stdout.flush());
    Ok(())
}

fn write_report(file: &ReportFile, verdict: &Verdict, bundle: &dyn BundleSource) -> Result<(), Failure> {
    let report = match file {
        ReportFile::Json(_) => format!("{}\n", json::verdict_json(verdict).map_err(failed)?),
        ReportFile::Html(_) => {
            let bodies =
                named::read_bodies(bundle, verdict).map_err(|error| unreadable(one_line(&error.to_string())))?;
            html::page(verdict, &bodies)
        }
    };
    let path = file.path();
    write_file(path, &report).map_err(|error| {
        failed(format!("cannot write the report {}: {error}; name a file in a directory that exists", path.display()))
    })
}
