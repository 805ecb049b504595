//! `audit`: a bundle is opened, judged, and the verdict shown.

use crate::archive::ArchiveBundle;
use crate::arguments::Audit;
use crate::dir_bundle::DirBundle;
use crate::failure::{Failure, failed, read_issuers, read_policy, read_text, unreadable};
use crate::{ascii_json, report};
use audit::quote::one_line;
use audit::{BundleSource, ReadError, Rules, Terms, Verdict};
use service::ExitStatus;
use service::progress::Progress;
use std::io::Write;
use std::path::Path;

pub(crate) fn run(arguments: &Audit) -> Result<ExitStatus, Failure> {
    let policy = read_policy(&arguments.policy)?;
    let issuers = read_issuers(&arguments.issuers)?;
    let rules = match &arguments.rules {
        None => Rules::built_in(),
        Some(path) => {
            Rules::parse(&read_text(path)?).map_err(|error| unreadable(format!("{}: {error}", path.display())))?
        }
    };
    let bundle = open(&arguments.bundle)?;
    let verdict = {
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
            threads: arguments.threads.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from)),
            progress: &tell,
        };
        audit::audit(bundle.as_ref(), &terms).map_err(|error| unreadable(one_line(&error.to_string())))?
    };
    if let Some(report) = &arguments.report {
        write_json(&report.0, &verdict)?;
    }
    show(&verdict, arguments.json)?;
    Ok(match verdict.exit_code {
        0 => ExitStatus::Ok,
        1 => ExitStatus::Failed,
        _ => ExitStatus::NotChecked,
    })
}

fn open(path: &Path) -> Result<Box<dyn BundleSource>, Failure> {
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

fn show(verdict: &Verdict, json: bool) -> Result<(), Failure> {
    let mut text = Vec::new();
    match json {
        true => writeln!(text, "{}", ascii_json::to_string(verdict).map_err(failed)?),
        false => report::write_report(verdict, &mut text),
    }
    .map_err(failed)?;
    // A reader that has gone away (`| head`) has what it wanted.
    let mut stdout = anstream::stdout().lock();
    let _reader_gone = stdout.write_all(&text).and_then(|()| stdout.flush());
    Ok(())
}

/// Writes the verdict beside its place and then puts it there, so that no half report is ever read.
fn write_json(path: &Path, verdict: &Verdict) -> Result<(), Failure> {
    let cannot = |error: &dyn std::fmt::Display| failed(format!("cannot write the report {}: {error}", path.display()));
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut file = tempfile::NamedTempFile::new_in(parent).map_err(|error| cannot(&error))?;
    let json = ascii_json::to_string(verdict).map_err(|error| cannot(&error))?;
    writeln!(file, "{json}").map_err(|error| cannot(&error))?;
    file.persist(path).map_err(|error| cannot(&error))?;
    Ok(())
}
