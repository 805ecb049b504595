//! A verdict on a screen: plain words within 80 columns, colour only on top of them.
//!
//! Everything that comes from receipts was quoted where the finding was made; what is printed here besides is escaped
//! here. Findings of one kind are shown a few times and then counted: the JSON form has them all.

use crate::wrap::hanging;
use anstyle::{AnsiColor, Style};
use audit::amount::amount;
use audit::quote::plain;
use audit::time::{show_time, show_time_s};
use audit::{Check, Finding, Severity, Status, Verdict};
use receipt::UnixMillis;
use std::io::{self, Write};

/// How many findings of one code in one check are shown whole.
const SHOWN_FAILURES: usize = 5;
/// The same for notices, which all say much the same.
const SHOWN_NOTICES: usize = 1;

/// In front of a check that had nothing to check and did not need to.
const NOTHING: &str = "-";

/// Writes the report. Colours are written as terminal escapes; an `anstream` takes them out where nobody sees them.
///
/// # Errors
/// What writing to `out` fails with.
pub fn write_report(verdict: &Verdict, out: &mut dyn Write) -> io::Result<()> {
    let style = style_of(verdict.overall);
    let sentence = match verdict.overall {
        Status::Ok => "every required check is ok",
        Status::Fail => "at least one check failed",
        Status::NotChecked => "nothing failed, but not everything required was checked",
    };
    writeln!(out, "{style}{}{style:#}: {sentence}", word_of(verdict.overall))?;
    writeln!(out)?;
    write_coverage(verdict, out)?;
    let mut family = None;
    for check in &verdict.checks {
        if family != Some(check.family) {
            family = Some(check.family);
            writeln!(out, "\n{}", check.family.as_str())?;
        }
        write_check(check, out)?;
    }
    if verdict.checks.iter().any(|check| mark_of(check) == NOTHING) {
        writeln!(out, "\n{NOTHING} means: nothing of this kind, and not required")?;
    }
    if !verdict.evidence.is_empty() {
        let count = verdict.evidence.len() as u64;
        let made = amount(count, "evidence document was made; write it", "evidence documents were made; write them");
        writeln!(out)?;
        let text = format!(
            "{made} with --report json=FILE (member \"evidence\") and check each with: counterfoil-verify evidence"
        );
        write_lines(out, &hanging("", &text))?;
    }
    Ok(())
}

fn write_coverage(verdict: &Verdict, out: &mut dyn Write) -> io::Result<()> {
    let coverage = &verdict.coverage;
    let mut line = |name: &str, text: String| write_lines(out, &hanging(&format!("{name:<12}"), &plain(&text)));
    line("log", coverage.log.clone().unwrap_or_else(|| String::from("not known")))?;
    line(
        "entries",
        format!("{} read; signed heads vouch for the first {}", coverage.entries, coverage.authenticated_size),
    )?;
    let head = coverage.head_size.map_or_else(|| String::from("none"), |size| format!("size {size}"));
    line(
        "head",
        format!(
            "{head}; {} in the log's list; largest size known {}",
            amount(coverage.heads, "head", "heads"),
            coverage.largest_known_size
        ),
    )?;
    if let (Some([from, to]), Some([first, last])) = (coverage.cosigned_sizes, coverage.cosigned_at_s) {
        line("cosigned", format!("sizes {from} to {to}, from {} to {}", show_time_s(first), show_time_s(last)))?;
    }
    if let Some(quorum) = coverage.quorum_at_s {
        line("quorum", format!("last at {}", show_time_s(quorum)))?;
    }
    if let Some([first, last]) = coverage.issued_at_ms {
        line(
            "issued",
            format!("from {} to {}, by the gates' clocks", show_time(UnixMillis(first)), show_time(UnixMillis(last))),
        )?;
    }
    line("audited at", coverage.at_ms.map_or_else(|| String::from("no time given"), |at| show_time(UnixMillis(at))))?;
    let tolerance = &verdict.tolerance;
    line(
        "policy",
        format!(
            "{}, at least {} must agree; a split view needs {} dishonest; any {} may be silent",
            amount(tolerance.witnesses as u64, "witness counts", "witnesses count"),
            tolerance.min_quorum,
            tolerance.liars_for_split_view,
            tolerance.max_silent
        ),
    )?;
    if !coverage.ignored.is_empty() {
        line("ignored", coverage.ignored.join(", "))?;
    }
    Ok(())
}

fn write_check(check: &Check, out: &mut dyn Write) -> io::Result<()> {
    let word = mark_of(check);
    let style = if word == NOTHING { Style::new() } else { style_of(check.status) };
    // The escapes of a style have no width, so that the name is wrapped apart from the word in front of it.
    let name = hanging("              ", &plain(&check.name)).join("\n");
    writeln!(out, "  {style}{word:<12}{style:#}{}", name.trim_start())?;
    write_lines(out, &hanging("              ", &plain(&check.covers)))?;
    for (code, total) in &check.counts {
        let kept: Vec<&Finding> = check.findings.iter().filter(|finding| finding.code == *code).collect();
        for severity in [Severity::Fail, Severity::NotChecked, Severity::Notice] {
            let of_severity: Vec<&&Finding> = kept.iter().filter(|finding| finding.severity == severity).collect();
            let limit = if severity == Severity::Notice { SHOWN_NOTICES } else { SHOWN_FAILURES };
            for finding in of_severity.iter().take(limit) {
                write_finding(finding, out)?;
            }
            let more = of_severity.len().saturating_sub(limit);
            if more > 0 {
                writeln!(out, "      and {more} more {code}")?;
            }
        }
        let dropped = total.saturating_sub(kept.len() as u64);
        if dropped > 0 {
            writeln!(out, "      and {dropped} more {code} that were only counted")?;
        }
    }
    Ok(())
}

fn write_finding(finding: &Finding, out: &mut dyn Write) -> io::Result<()> {
    let (mark, style) = match finding.severity {
        Severity::Fail => ("!", style_of(Status::Fail)),
        Severity::NotChecked => ("?", style_of(Status::NotChecked)),
        Severity::Notice => ("i", Style::new()),
    };
    writeln!(out, "    {style}{mark} {}{style:#}", finding.code)?;
    write_lines(out, &hanging("      ", &finding.shown))?;
    let receipts: Vec<String> = finding.receipts.iter().map(show_receipt).collect();
    if !receipts.is_empty() {
        let more =
            if finding.more_receipts > 0 { format!("; and {} more", finding.more_receipts) } else { String::new() };
        write_lines(out, &hanging("      receipts   ", &format!("{}{more}", receipts.join("; "))))?;
    }
    if !finding.not_shown.is_empty() {
        write_lines(out, &hanging("      not shown  ", &finding.not_shown))?;
    }
    write_lines(out, &hanging("      next       ", &finding.next))
}

fn show_receipt(receipt: &audit::ReceiptRef) -> String {
    let index = receipt.index.map_or_else(|| String::from("not in the log"), |index| format!("index {index}"));
    let of = match (&receipt.issuer, receipt.seq) {
        (Some(issuer), Some(seq)) => format!(", {} seq {seq}", plain(issuer)),
        _ => String::new(),
    };
    let id = receipt.id.to_hex();
    format!("{index}{of}, {}", id.get(..16).unwrap_or(&id))
}

/// The word in front of a check.
fn mark_of(check: &Check) -> &'static str {
    match check.required || check.status != Status::NotChecked {
        true => word_of(check.status),
        false => NOTHING,
    }
}

fn word_of(status: Status) -> &'static str {
    match status {
        Status::Ok => "ok",
        Status::Fail => "FAIL",
        Status::NotChecked => "not checked",
    }
}

fn style_of(status: Status) -> Style {
    match status {
        Status::Ok => AnsiColor::Green.on_default(),
        Status::Fail => AnsiColor::Red.on_default().bold(),
        Status::NotChecked => AnsiColor::Yellow.on_default(),
    }
}

fn write_lines(out: &mut dyn Write, lines: &[String]) -> io::Result<()> {
    lines.iter().try_for_each(|line| writeln!(out, "{line}"))
}
