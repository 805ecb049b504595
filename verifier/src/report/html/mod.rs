//! A verdict as one page that can be mailed: no script, nothing fetched, readable on a phone and on paper, by eyes that
//! see no colours and by screen readers.
//!
//! A pure function: verdict and bodies in, page out. The template library escapes everything that is put into the page;
//! before that everything foreign has gone through `words::safe` or `audit::quote`. No attribute holds a word of
//! anybody's but ours: anchors are made of numbers and hashes. The page's own policy forbids it scripts, pictures,
//! fonts, frames and forms, and any style but the one in it, by hash.
//!
//! Tables are laid out as blocks on a phone and say by their roles that they are tables still.
//!
//! * here: the frame, what was checked and what was not, what the system cannot show
//! * `timeline`: the lanes of issuers and witnesses, drawn and told
//! * `findings`: findings, the receipts they name, evidence documents

mod findings;
mod timeline;

use super::named::Bodies;
use super::selection::Selection;
use super::words::{Outcome, Tally, cosigned, entries_read, headline, name, quorum, safe, tally_words, word_of};
use crate::tolerance;
use audit::amount::amount;
use audit::time::show_time;
use audit::{Check, Status, Verdict};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use maud::{DOCTYPE, Markup, PreEscaped, html};
use receipt::UnixMillis;
use sha2::{Digest, Sha256};

const STYLE: &str = include_str!("style.css");

/// Most checks in the table of all checks. A verdict has a few dozen and one for each of the auditor's issuers.
const MAX_CHECKS: usize = 300;

/// No page is larger, whatever the verdict, so that it can be mailed: 2 MB each for findings, receipts, bodies and
/// evidence, 3 MB for the timeline, and the tables.
pub const MAX_PAGE_BYTES: usize = 14 << 20;

/// The page. `bodies` are those that [`super::named::read_bodies`] read for the same verdict; none at all is fine.
pub fn page(verdict: &Verdict, bodies: &Bodies) -> String {
    let selection = Selection::of(verdict);
    let log = verdict.coverage.log.as_deref().map_or_else(|| String::from("an unknown log"), name);
    let word = word_of(verdict.overall);
    let markup = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta http-equiv="Content-Security-Policy" content=(policy());
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                meta name="referrer" content="no-referrer";
                title { "Counterfoil: " (word) ", " (log) }
                style { (PreEscaped(STYLE)) }
            }
            body {
                (header(verdict, &log, &selection))
                main {
                    (checked(verdict))
                    (coverage(verdict))
                    (timeline::section(verdict))
                    (findings::section(&selection))
                    (all_checks(verdict))
                    (findings::receipts(&selection, bodies))
                    (findings::evidence(verdict))
                    (limits())
                }
                footer {
                    p {
                        "Made by counterfoil-verify " (env!("CARGO_PKG_VERSION")) " from a bundle, offline. This page proves nothing by "
                        "itself: whoever has the bundle can make it again with "
                        code { "counterfoil-verify audit --policy POLICY --issuers ISSUERS --report html=FILE BUNDLE" }
                        ". All times are UTC."
                    }
                }
            }
        }
    };
    markup.into_string()
}

/// Nothing may be fetched or run; the one style is known by its hash.
fn policy() -> String {
    let hash = STANDARD.encode(Sha256::digest(STYLE.as_bytes()));
    format!("default-src 'none'; style-src 'sha256-{hash}'; base-uri 'none'; form-action 'none'")
}

fn header(verdict: &Verdict, log: &str, selection: &Selection<'_>) -> Markup {
    let (class, sign) = overall_look(verdict.overall);
    let at = verdict.coverage.at_ms.map(|at| show_time(UnixMillis(at)));
    html! {
        header {
            p.kicker { "Counterfoil audit report" }
            h1 {
                span class={ "tag " (class) } { span.sign aria-hidden="true" { (sign) } " " (word_of(verdict.overall)) ":" }
                " " (headline(verdict))
            }
            p.lead {
                "Log " strong { (log) } ", " (entries_read(&verdict.coverage)) ", "
                @match at {
                    Some(at) => { "audited as of " (at) "." }
                    None => { "audited without a time: how old the newest head is was not judged." }
                }
            }
            nav aria-label="Parts of this report" {
                ul {
                    li { a href="#checked" { "What was checked" } }
                    li { a href="#coverage" { "What it is about" } }
                    li { a href="#timeline" { "Timeline" } }
                    @if selection.has_findings() { li { a href="#findings" { "Findings" } } }
                    li { a href="#checks" { "All checks" } }
                    @if !selection.receipts.is_empty() { li { a href="#receipts" { "Receipts" } } }
                    @if !verdict.evidence.is_empty() { li { a href="#evidence" { "Evidence" } } }
                    li { a href="#limits" { "What nobody can see here" } }
                }
            }
        }
    }
}

/// One row a family: how many checks ended how, and which were not made.
fn checked(verdict: &Verdict) -> Markup {
    let tally = Tally::of(verdict);
    html! {
            section #checked aria-labelledby="checked-title" {
                h2 #checked-title { "What was checked, and what was not" }
                p {
    (capital(&tally_words(tally))) "."
                }
                table role="table" {
                    caption { "By family. A family is as good as the worst of its checks." }
                    thead role="rowgroup" { tr role="row" {
                        th scope="col" role="columnheader" { "Family" }
                        th scope="col" role="columnheader" { "Result" }
                        th scope="col" role="columnheader" { "Ok" }
                        th scope="col" role="columnheader" { "Failed or not made" }
                    } }
                    tbody role="rowgroup" {
                        @for family in verdict.checks.chunk_by(|one, next| one.family == next.family) {
                            (family_row(family))
                        }
                    }
                }
            }
        }
}

/// Names of checks that a row of the table by family shows.
const MAX_NAMES: usize = 8;

fn family_row(checks: &[Check]) -> Markup {
    let family = checks.first().map_or("", |check| check.family.as_str());
    let worst = checks.iter().map(Outcome::of).min_by_key(|outcome| match outcome {
        // What was not required says nothing about the rest.
        Outcome::NotNeeded => 4,
        other => *other as u8,
    });
    let ok = checks.iter().filter(|check| Outcome::of(check) == Outcome::Ok).count();
    let others: Vec<&Check> = checks.iter().filter(|check| Outcome::of(check) != Outcome::Ok).collect();
    html! {
        tr role="row" {
            th scope="row" role="rowheader" { (family) }
            td role="cell" { (tag(worst.unwrap_or(Outcome::NotNeeded))) }
            td.number role="cell" { (ok) " of " (checks.len()) " ok" }
            td role="cell" {
                @if others.is_empty() { span.none { "nothing: all were made, all are ok" } }
                @for (place, check) in others.iter().take(MAX_NAMES).enumerate() {
                    @if place > 0 { br; }
                    (tag(Outcome::of(check))) " " (name(&check.name))
                }
                @if others.len() > MAX_NAMES { br; "and " (others.len() - MAX_NAMES) " more" }
            }
        }
    }
}

fn coverage(verdict: &Verdict) -> Markup {
    let coverage = &verdict.coverage;
    let beyond = coverage.largest_known_size.saturating_sub(coverage.entries);
    let heads = amount(coverage.heads, "head", "heads");
    html! {
        section #coverage aria-labelledby="coverage-title" {
            h2 #coverage-title { "What this verdict is about" }
            dl {
                dt { "Entries" }
                dd {
                    (entries_read(coverage)) ". "
                    @if coverage.authenticated_size >= coverage.entries { "Signed heads vouch for all of them." }
                    @else {
                        "Signed heads vouch for the first " (coverage.authenticated_size)
                        "; what comes after these is vouched for by nothing."
                    }
                    @if beyond > 0 { " Heads speak of " (amount(beyond, "more entry", "more entries")) ", not in the bundle." }
                }
                dt { "Newest head" }
                dd {
                    @match coverage.head_size {
                        Some(size) => { "Size " (size) "; " (heads) " in the log's own list." }
                        None => { "None; " (heads) " in the log's own list." }
                    }
                }
                dt { "Cosigned" }
                dd { (capital(&cosigned(coverage))) "." }
                dt { "Quorum" }
                dd { (capital(&quorum(coverage))) "." }
                dt { "Issued" }
                dd {
                    @match coverage.issued_at_ms {
                        Some([first, last]) => {
                            "From " (show_time(UnixMillis(first))) " to " (show_time(UnixMillis(last)))
                            ", by the gates' own clocks."
                        }
                        None => { "No genuine receipt of an issuer that the auditor named." }
                    }
                }
                dt { "Policy" }
                dd { (capital(&tolerance::in_short(&verdict.tolerance))) "." }
                @if !coverage.ignored.is_empty() {
                    dt { "Not looked at" }
                    dd {
                        @for (place, path) in coverage.ignored.iter().enumerate() {
                            @if place > 0 { ", " }
                            code { (name(path)) }
                        }
                    }
                }
            }
        }
    }
}

fn all_checks(verdict: &Verdict) -> Markup {
    let mut checks: Vec<&Check> = verdict.checks.iter().collect();
    if checks.len() > MAX_CHECKS {
        // Only then, so that a usual report keeps the order of families.
        checks.sort_by_key(|check| Outcome::of(check));
    }
    html! {
        section #checks aria-labelledby="checks-title" {
            h2 #checks-title { "All checks" }
            table role="table" {
                caption { "A dash is for what the verdict did not need: it was not looked at, or there was nothing to look at." }
                thead role="rowgroup" { tr role="row" {
                    th scope="col" role="columnheader" { "Check" }
                    th scope="col" role="columnheader" { "Result" }
                    th scope="col" role="columnheader" { "What it looked at" }
                } }
                tbody role="rowgroup" {
                    @for check in checks.iter().take(MAX_CHECKS) {
                        tr role="row" {
                            th scope="row" role="rowheader" { (check.family.as_str()) "/" wbr; (name(&check.name)) }
                            td role="cell" { (tag(Outcome::of(check))) }
                            td role="cell" { (safe(&check.covers)) }
                        }
                    }
                }
            }
            @if checks.len() > MAX_CHECKS {
                p { "And " (checks.len() - MAX_CHECKS) " more, none of them worse than those above; the JSON report has them." }
            }
        }
    }
}

/// What no verdict can say, so that nobody reads it into this one.
fn limits() -> Markup {
    html! {
        section #limits aria-labelledby="limits-title" {
            h2 #limits-title { "What nobody can see here" }
            ul {
                li { "What a gate never submitted. A receipt that was never made, or never sent, leaves no trace beyond the "
                    "silence after the last one; that silence is drawn as not covered, and an " code { "ok" } " does not speak about it." }
                li { "A gate, its log and enough witnesses for the quorum that lie together. How many that takes is said "
                    "under " a href="#coverage" { "what it is about" } "." }
                li { "Whether what a receipt says is true. Its signature shows who said it, its place when at the latest." }
                li { "A gate's clock. Times of receipts are the gates' word; times of cosignatures are the witnesses'." }
            }
        }
    }
}

/// Sign and word of how a check ended.
fn tag(outcome: Outcome) -> Markup {
    let (class, sign, word) = match outcome {
        Outcome::Failed => ("fail", "\u{2715}", outcome.word()),
        Outcome::NotChecked => ("open", "?", outcome.word()),
        Outcome::NotNeeded => ("none", "\u{2013}", "not needed"),
        Outcome::Ok => ("ok", "\u{2713}", outcome.word()),
    };
    html! { span class={ "tag " (class) } { span.sign aria-hidden="true" { (sign) } " " (word) } }
}

fn overall_look(status: Status) -> (&'static str, &'static str) {
    match status {
        Status::Ok => ("ok", "\u{2713}"),
        Status::Fail => ("fail", "\u{2715}"),
        Status::NotChecked => ("open", "?"),
    }
}

/// A sentence with a capital.
fn capital(sentence: &str) -> String {
    let mut characters = sentence.chars();
    characters.next().map_or_else(String::new, |first| first.to_uppercase().chain(characters).collect())
}
