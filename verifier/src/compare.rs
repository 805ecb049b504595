//! `compare`: bundles are opened, held against each other, and what that shows is printed.
//!
//! Holds reading and words. What contradicts what is decided in the crate `audit` ([`audit::compare`]).

use crate::arguments;
use crate::documents::print;
use crate::failure::{Failure, failed, read_issuers, read_policy, unreadable, usage};
use crate::judge::open;
use audit::amount::amount;
use audit::quote::{one_line, plain};
use audit::{BundleSource, Check, CompareError, Comparing, Comparison, Finding, Severity, Status};
use service::ExitStatus;
use service::progress::Progress;
use service::wrap::hanging;

/// How many findings of one code in one check are shown whole.
const SHOWN: usize = 3;

pub(crate) fn run(arguments: &arguments::Compare) -> Result<ExitStatus, Failure> {
    let policy = read_policy(&arguments.policy)?;
    let issuers = arguments.issuers.as_deref().map(read_issuers).transpose()?.unwrap_or_default();
    let bundles = arguments.bundles.iter().map(|path| open(path)).collect::<Result<Vec<_>, Failure>>()?;
    let bundles: Vec<&dyn BundleSource> = bundles.iter().map(AsRef::as_ref).collect();
    let compared = {
        let progress = Progress::new(0, "entries");
        let tell = |done: u64, total: u64| {
            progress.set_total(total);
            progress.advance(done.saturating_sub(progress.done()));
        };
        let terms = Comparing {
            policy: &policy,
            issuers: &issuers,
            threads: arguments.threads.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from)),
            progress: &tell,
        };
        audit::compare(&bundles, &terms)
    };
    let comparison = compared.map_err(|error| {
        let reason = one_line(&error.to_string());
        match error {
            CompareError::Number(_) | CompareError::DifferentLogs { .. } => usage(reason),
            CompareError::NoLog { .. } => Failure { status: ExitStatus::NotChecked, reason },
            CompareError::Read { .. } => unreadable(reason),
        }
    })?;
    let paths: Vec<String> = arguments.bundles.iter().map(|path| path.display().to_string()).collect();
    let mut value = serde_json::to_value(&comparison).map_err(failed)?;
    for (place, path) in paths.iter().enumerate() {
        value["bundles"][place]["path"] = path.as_str().into();
    }
    print(arguments.json, &value, &in_words(&comparison, &paths))?;
    Ok(match comparison.exit_code {
        0 => ExitStatus::Ok,
        1 => ExitStatus::Failed,
        _ => ExitStatus::NotChecked,
    })
}

/// The worst first; what is in order takes a line.
fn in_words(comparison: &Comparison, paths: &[String]) -> Vec<String> {
    let sentence = match comparison.overall {
        Status::Ok => "ok: the bundles are one history; each of them still needs an audit of its own",
        Status::Fail => "FAIL: the bundles contradict each other, or something in one of them is wrong",
        Status::NotChecked => "not checked: no contradiction was found, but not everything could be compared",
    };
    let mut lines = hanging("", sentence);
    lines.push(String::new());
    lines.extend(hanging("log         ", &plain(&comparison.log)));
    for (span, path) in comparison.bundles.iter().zip(paths) {
        let said = format!(
            "{}: {} read, vouched for up to size {}; {} in the log's list; largest size known {}",
            one_line(path),
            amount(span.entries, "entry", "entries"),
            span.authenticated_size,
            amount(span.heads, "head", "heads"),
            span.largest_known_size
        );
        lines.extend(hanging(&format!("bundle {:<5}", span.number), &said));
    }
    for (status, word) in [(Status::Fail, "FAIL"), (Status::NotChecked, "not checked"), (Status::Ok, "ok")] {
        for check in comparison.checks.iter().filter(|check| check.status == status) {
            // Nothing to check, and not needed.
            let word = if status == Status::NotChecked && !check.required { "-" } else { word };
            if status == Status::Ok && check.findings.is_empty() {
                lines.extend(hanging(&format!("{word:<12}"), &plain(&format!("{}: {}", check.id(), check.covers))));
                continue;
            }
            lines.push(String::new());
            lines.extend(hanging(&format!("{word:<12}"), &plain(&format!("{}: {}", check.id(), check.covers))));
            write_findings(check, &mut lines);
        }
    }
    if !comparison.evidence.is_empty() {
        let count = comparison.evidence.len() as u64;
        let made = amount(count, "evidence document was made; print it", "evidence documents were made; print them");
        lines.push(String::new());
        let next = format!("{made} with --json (member \"evidence\") and check each with: counterfoil-verify evidence");
        lines.extend(hanging("", &next));
    }
    lines
}

fn write_findings(check: &Check, lines: &mut Vec<String>) {
    for (code, total) in &check.counts {
        let of_code = check.findings.iter().filter(|finding| finding.code == *code);
        of_code.take(SHOWN).for_each(|finding| write_finding(finding, lines));
        let more = total.saturating_sub(SHOWN as u64);
        if more > 0 {
            lines.push(format!("      and {more} more {code}"));
        }
    }
}

fn write_finding(finding: &Finding, lines: &mut Vec<String>) {
    let mark = match finding.severity {
        Severity::Fail => "!",
        Severity::NotChecked => "?",
        Severity::Notice => "i",
    };
    lines.push(format!("    {mark} {}", finding.code));
    lines.extend(hanging("      ", &finding.shown));
    for receipt in &finding.receipts {
        let index = receipt.index.map_or_else(|| String::from("-"), |index| index.to_string());
        let of = match (&receipt.issuer, receipt.seq) {
            (Some(issuer), Some(seq)) => format!(", {} seq {seq}", plain(issuer)),
            _ => String::new(),
        };
        lines.extend(hanging("      receipt    ", &format!("index {index}{of}, {}", receipt.id.to_hex())));
    }
    if !finding.not_shown.is_empty() {
        lines.extend(hanging("      not shown  ", &finding.not_shown));
    }
    lines.extend(hanging("      next       ", &finding.next));
}
