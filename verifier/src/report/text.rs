//! A verdict on a screen: plain words within 80 columns, colour only on top of them, the worst first.
//!
//! What is in order takes a line a family; what failed, and what could not be checked, is told with its findings, of
//! one kind a few and then a count. The JSON form has them all.

use super::selection::{notices, of_severity};
use super::words::{
    Fact, Grave, Outcome, Tally, cosigned, entries_read, gravest, headline, issuer_facts, log_facts, name, quorum,
    receipt_name, safe, severity_words, witness_facts, word_of,
};
use crate::tolerance;
use anstyle::{AnsiColor, Style};
use audit::amount::amount;
use audit::time::show_time;
use audit::{Check, Finding, Severity, Status, Verdict};
use receipt::UnixMillis;
use service::wrap::{cut_middle, fitted};
use std::io::{self, Write};

/// How many findings of one code in one check are shown whole.
const SHOWN_FAILURES: usize = 5;
/// Receipts that a notice names.
const SHOWN_NOTICED: usize = 3;
/// Issuers, and witnesses, that are shown: those first of which something is missing.
const SHOWN_LANES: usize = 12;
/// The same for those of which nothing is: the rest is told by a count.
const SHOWN_CALM: usize = 3;
/// Facts shown of each of them.
const SHOWN_FACTS: usize = 8;
/// Checks that are shown of those that failed, and of those that were not checked. A screen of the same says no more
/// than its count.
const SHOWN_CHECKS: usize = 40;
/// Names of checks in order that are shown of a family.
const SHOWN_NAMES: usize = 20;
/// Findings that are shown in all. Who needs more than these wants a file.
const SHOWN_FINDINGS: usize = 60;
/// Columns of a name within a list of names.
const NAME_COLUMNS: usize = 60;

/// Writes the report. Colours are written as terminal escapes; an `anstream` takes them out where nobody sees them.
///
/// # Errors
/// What writing to `out` fails with.
pub fn write_text(verdict: &Verdict, out: &mut dyn Write) -> io::Result<()> {
    let style = style_of(verdict.overall);
    let word = word_of(verdict.overall);
    // The escapes of a style have no width: the line is broken before they are put around its first word.
    let lines = fitted("", &format!("{word}: {}", headline(verdict))).join("\n");
    writeln!(out, "{style}{word}{style:#}{}", lines.get(word.len()..).unwrap_or_default())?;
    let tally = Tally::of(verdict);
    let room = &mut { SHOWN_FINDINGS };
    write_checks(verdict, Outcome::Failed, &format!("Failed ({})", tally.failed), room, out)?;
    write_checks(
        verdict,
        Outcome::NotChecked,
        &format!("Required, and not checked ({})", tally.not_checked),
        room,
        out,
    )?;
    writeln!(out, "\nWhat this verdict is about")?;
    write_coverage(verdict, out)?;
    write_completeness(verdict, out)?;
    write_notices(verdict, room, out)?;
    write_names(verdict, Outcome::Ok, &format!("In order ({})", tally.ok), out)?;
    write_not_needed(verdict, tally.not_needed, out)?;
    write_evidence(verdict, out)
}

/// The checks that ended in `outcome`, each with its findings.
fn write_checks(
    verdict: &Verdict,
    outcome: Outcome,
    title: &str,
    room: &mut usize,
    out: &mut dyn Write,
) -> io::Result<()> {
    let checks: Vec<&Check> = verdict.checks.iter().filter(|check| Outcome::of(check) == outcome).collect();
    if checks.is_empty() {
        return Ok(());
    }
    writeln!(out, "\n{title}")?;
    for check in checks.iter().take(SHOWN_CHECKS) {
        let style = style_of(check.status);
        let id = fitted("               ", &name(&check.id())).join("\n");
        writeln!(out, "  {style}{:<13}{style:#}{}", outcome.word(), id.trim_start())?;
        write_lines(out, &fitted("               ", &safe(&check.covers)))?;
        write_findings(check, &[Severity::Fail, Severity::NotChecked], room, out)?;
    }
    write_more(checks.len(), SHOWN_CHECKS, "check", "checks", out)
}

/// Notices of all checks, whatever these ended in: of each code one, and then how many more. Every issuer has some.
fn write_notices(verdict: &Verdict, room: &mut usize, out: &mut dyn Write) -> io::Result<()> {
    let by_code = notices(verdict);
    if by_code.is_empty() {
        return Ok(());
    }
    writeln!(out, "\nWorth knowing (changes nothing; --json says more)")?;
    let mut last = None;
    for noticed in &by_code {
        if *room == 0 {
            writeln!(out, "  and notices of further codes")?;
            break;
        }
        *room -= 1;
        let id = noticed.check.id();
        if last.as_ref() != Some(&id) {
            write_lines(out, &fitted("  ", &name(&id)))?;
        }
        last = Some(id);
        write_finding(noticed.finding, out)?;
        if let Some(rest) = noticed.rest() {
            writeln!(out, "      {rest}")?;
        }
    }
    Ok(())
}

fn write_findings(check: &Check, severities: &[Severity], room: &mut usize, out: &mut dyn Write) -> io::Result<()> {
    for (code, total) in &check.counts {
        for severity in severities {
            let (kept, dropped) = of_severity(check, code, *total, *severity);
            let limit = SHOWN_FAILURES.min(*room);
            *room -= limit.min(kept.len());
            for finding in kept.iter().take(limit) {
                write_finding(finding, out)?;
            }
            let more = (kept.len().saturating_sub(limit) as u64).saturating_add(dropped);
            if more > 0 {
                writeln!(out, "      and {more} more {code}")?;
            }
        }
    }
    Ok(())
}

fn write_finding(finding: &Finding, out: &mut dyn Write) -> io::Result<()> {
    let (mark, _) = severity_words(finding.severity);
    let style = match finding.severity {
        Severity::Fail => style_of(Status::Fail),
        Severity::NotChecked => style_of(Status::NotChecked),
        Severity::Notice => Style::new(),
    };
    writeln!(out, "    {style}{mark} {}{style:#}", finding.code)?;
    write_lines(out, &fitted("      ", &safe(&finding.shown)))?;
    let named = if finding.severity == Severity::Notice { SHOWN_NOTICED } else { finding.receipts.len() };
    let mut receipts: Vec<String> = finding.receipts.iter().take(named).map(receipt_name).collect();
    let more = (finding.receipts.len().saturating_sub(named) as u64).saturating_add(finding.more_receipts);
    if more > 0 {
        receipts.push(format!("and {more} more"));
    }
    if !receipts.is_empty() {
        write_lines(out, &fitted("      receipts   ", &receipts.join("; ")))?;
    }
    if finding.severity == Severity::Notice {
        // What is not shown changes nothing here; what to do may, as where a witness raised an alarm.
        return match finding.next.starts_with("nothing to do") {
            true => Ok(()),
            false => write_lines(out, &fitted("      next       ", &safe(&finding.next))),
        };
    }
    if !finding.not_shown.is_empty() {
        write_lines(out, &fitted("      not shown  ", &safe(&finding.not_shown)))?;
    }
    write_lines(out, &fitted("      next       ", &safe(&finding.next)))
}

fn write_coverage(verdict: &Verdict, out: &mut dyn Write) -> io::Result<()> {
    let coverage = &verdict.coverage;
    let mut line = |name: &str, text: String| write_lines(out, &fitted(&format!("  {name:<11}"), &safe(&text)));
    line("log", coverage.log.clone().unwrap_or_else(|| String::from("not known")))?;
    let entries = entries_read(coverage);
    line("entries", format!("{entries}; signed heads vouch for the first {}", coverage.authenticated_size))?;
    let beyond = coverage.largest_known_size.saturating_sub(coverage.entries);
    let beyond = match beyond {
        0 => String::new(),
        beyond => format!(
            "; heads speak of {}",
            amount(beyond, "more entry, not in the bundle", "more entries, not in the bundle")
        ),
    };
    let head = coverage.head_size.map_or_else(|| String::from("none"), |size| format!("size {size}"));
    line("head", format!("{head}; {} in the log's list{beyond}", amount(coverage.heads, "head", "heads")))?;
    line("cosigned", cosigned(coverage))?;
    line("quorum", quorum(coverage))?;
    if let Some([first, last]) = coverage.issued_at_ms {
        let (first, last) = (show_time(UnixMillis(first)), show_time(UnixMillis(last)));
        line("issued", format!("from {first} to {last}, by the gates' clocks"))?;
    }
    let no_time = || String::from("no time given: how old the newest head is was not judged");
    line("audited at", coverage.at_ms.map_or_else(no_time, |at| show_time(UnixMillis(at))))?;
    line("policy", tolerance::in_short(&verdict.tolerance))?;
    if !coverage.ignored.is_empty() {
        line("ignored", coverage.ignored.join(", "))?;
    }
    Ok(())
}

fn write_completeness(verdict: &Verdict, out: &mut dyn Write) -> io::Result<()> {
    let completeness = &verdict.completeness;
    if completeness.issuers.is_empty() && completeness.witnesses.is_empty() {
        return Ok(());
    }
    let issuers = completeness.issuers.iter().map(|issuer| (issuer.issuer.as_str(), issuer_facts(issuer)));
    write_lanes("Issuers", ["issuer", "issuers"], issuers.collect(), out)?;
    let witnesses = completeness.witnesses.iter().map(|witness| (witness.witness.as_str(), witness_facts(witness)));
    write_lanes("Witnesses", ["witness", "witnesses"], witnesses.collect(), out)?;
    let facts: Vec<Fact> = log_facts(&completeness.log).into_iter().filter(|fact| fact.grave != Grave::Plain).collect();
    if !facts.is_empty() {
        writeln!(out, "\nLog")?;
        write_facts(&facts, out)?;
    }
    Ok(())
}

fn write_lanes(
    title: &str,
    [one, several]: [&str; 2],
    mut lanes: Vec<(&str, Vec<Fact>)>,
    out: &mut dyn Write,
) -> io::Result<()> {
    if lanes.is_empty() {
        return Ok(());
    }
    // Stable: the auditor's order within each kind.
    lanes.sort_by_key(|(_, facts)| gravest(facts));
    writeln!(out, "\n{title}")?;
    // Those of whom the same is to be said share a place: witnesses at work mostly do.
    let (torn, calm) = lanes.split_at(lanes.partition_point(|(_, facts)| gravest(facts) < Grave::Tail));
    for (lanes, most, about) in [(torn, SHOWN_LANES, ""), (calm, SHOWN_CALM, " of which nothing is missing")] {
        let within = lanes.get(..SHOWN_LANES).unwrap_or(lanes);
        let mut told = 0;
        // Those of whom the same is to be said share a place: witnesses at work mostly do.
        for alike in within.chunk_by(|one, next| one.1 == next.1).take(most) {
            let names: Vec<String> = alike.iter().map(|(lane, _)| name(lane)).collect();
            write_lines(out, &fitted("  ", &names.join(", ")))?;
            if let Some((_, facts)) = alike.first() {
                write_facts(facts, out)?;
            }
            told += alike.len();
        }
        write_more(lanes.len(), told, &format!("{one}{about}"), &format!("{several}{about}"), out)?;
    }
    Ok(())
}

fn write_facts(facts: &[Fact], out: &mut dyn Write) -> io::Result<()> {
    for fact in facts.iter().take(SHOWN_FACTS) {
        let style = match fact.grave {
            Grave::Missing => style_of(Status::Fail),
            Grave::Uncovered | Grave::Tail => style_of(Status::NotChecked),
            Grave::Plain => Style::new(),
        };
        let text = fitted("      ", &safe(&fact.sentence)).join("\n");
        writeln!(out, "    {style}{}{style:#} {}", fact.grave.mark(), text.trim_start())?;
    }
    Ok(())
}

/// Names of the checks that ended in `outcome`, a paragraph a family.
fn write_names(verdict: &Verdict, outcome: Outcome, title: &str, out: &mut dyn Write) -> io::Result<()> {
    let checks: Vec<&Check> = verdict.checks.iter().filter(|check| Outcome::of(check) == outcome).collect();
    if checks.is_empty() {
        return Ok(());
    }
    writeln!(out, "\n{title}")?;
    for family in checks.chunk_by(|one, next| one.family == next.family) {
        let title = family.first().map_or("", |check| check.family.as_str());
        let mut names: Vec<String> = family.iter().take(SHOWN_NAMES).map(|check| short_name(check)).collect();
        if family.len() > SHOWN_NAMES {
            names.push(format!("and {} more", family.len() - SHOWN_NAMES));
        }
        let style = style_of(Status::Ok);
        let text = fitted("                  ", &names.join(", ")).join("\n");
        writeln!(out, "  {style}{:<4}{style:#}{title:<12}{}", outcome.word(), text.trim_start())?;
    }
    Ok(())
}

/// What the verdict did not need, by the reason why it was not looked at.
fn write_not_needed(verdict: &Verdict, count: u64, out: &mut dyn Write) -> io::Result<()> {
    let mut by_reason: Vec<(&str, Vec<&Check>)> = Vec::new();
    for check in verdict.checks.iter().filter(|check| Outcome::of(check) == Outcome::NotNeeded) {
        match by_reason.iter().position(|(reason, _)| *reason == check.covers) {
            Some(place) => by_reason[place].1.push(check),
            // One beyond what is shown tells that there are more.
            None if by_reason.len() <= SHOWN_CHECKS => by_reason.push((&check.covers, vec![check])),
            None => {}
        }
    }
    if by_reason.is_empty() {
        return Ok(());
    }
    writeln!(out, "\nNot required, and not checked ({count})")?;
    for (reason, checks) in by_reason.iter().take(SHOWN_CHECKS) {
        let id = |check: &&Check| format!("{}/{}", check.family.as_str(), short_name(check));
        let mut ids: Vec<String> = checks.iter().take(SHOWN_NAMES).map(id).collect();
        if checks.len() > SHOWN_NAMES {
            ids.push(format!("and {} more", checks.len() - SHOWN_NAMES));
        }
        write_lines(out, &fitted("  -   ", &format!("{}: {}", safe(reason), ids.join(", "))))?;
    }
    match by_reason.len() > SHOWN_CHECKS {
        true => writeln!(out, "  and others, for other reasons; --json has them"),
        false => Ok(()),
    }
}

fn write_evidence(verdict: &Verdict, out: &mut dyn Write) -> io::Result<()> {
    if verdict.evidence.is_empty() {
        return Ok(());
    }
    let made = amount(verdict.evidence.len() as u64, "evidence document was made", "evidence documents were made");
    let next = "write each into a file with --evidence DIR, and check it with: counterfoil-verify evidence FILE";
    writeln!(out)?;
    write_lines(out, &fitted("", &format!("{made}; {next}")))
}

/// A check's name in a list of names.
fn short_name(check: &Check) -> String {
    cut_middle(&name(&check.name), NAME_COLUMNS)
}

fn write_more(all: usize, shown: usize, one: &str, several: &str, out: &mut dyn Write) -> io::Result<()> {
    match all.saturating_sub(shown) {
        0 => Ok(()),
        1 => writeln!(out, "  and 1 more {one}; --json has it"),
        more => writeln!(out, "  and {more} more {several}; --json has them"),
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
