//! Findings by check, the receipts they name, and the evidence documents.

use super::super::named::{Bodies, MAX_BODIES};
use super::super::selection::{Selection, Shown};
use super::super::words::{Outcome, name, receipt_name, safe, severity_words, short_id};
use super::tag;
use audit::amount::amount;
use audit::quote::plain;
use audit::{Finding, ReceiptRef, Severity, Verdict};
use maud::{Markup, html};
use service::ascii_json;

/// Most characters of a receipt's body that are shown, escapes counted as they are written. Most bodies have some
/// hundreds; with as many receipts as a page names it is 2 MB.
const MAX_BODY: usize = 4000;

/// Most bytes of evidence documents on the page: a thousand usual ones. Each is whole or left out: half a document
/// shows nothing.
const MAX_EVIDENCE_BYTES: usize = 2 << 20;

/// All findings that are shown, the worst check first.
pub(super) fn section(selection: &Selection<'_>) -> Markup {
    html! {
        @if selection.has_findings() {
            section #findings aria-labelledby="findings-title" {
                h2 #findings-title { "Findings" }
                @for shown in &selection.checks { (of_check(shown, selection)) }
                @if !selection.notices.is_empty() {
                    h3 { "Worth knowing" }
                    p.soft { "Changes nothing. Of each kind the first is shown; the JSON report has the rest." }
                    @for noticed in &selection.notices {
                        p.soft { (name(&noticed.check.id())) }
                        (of_finding(noticed.finding, selection))
                        @if let Some(rest) = noticed.rest() { p { (rest) } }
                    }
                }
            }
        }
    }
}

fn of_check(shown: &Shown<'_>, selection: &Selection<'_>) -> Markup {
    html! {
        h3 { (tag(Outcome::of(shown.check))) " " (name(&shown.check.id())) }
        p.soft { (safe(&shown.check.covers)) }
        @for finding in &shown.findings { (of_finding(finding, selection)) }
        @for (code, count) in &shown.left_out {
            p { "And " (count) " more of " code { (code) } ". The JSON report has up to a thousand of each code." }
        }
    }
}

fn of_finding(finding: &Finding, selection: &Selection<'_>) -> Markup {
    let (sign, word) = severity_words(finding.severity);
    let (class, look) = match finding.severity {
        Severity::Fail => ("fail", "finding is-fail"),
        Severity::NotChecked => ("open", "finding is-open"),
        Severity::Notice => ("none", "finding"),
    };
    html! {
        article class=(look) {
            h4 {
                span class={ "tag " (class) } { span.sign aria-hidden="true" { (sign) } " " (word) }
                " " code { (finding.code) }
            }
            p { (safe(&finding.shown)) }
            dl {
                @if !finding.receipts.is_empty() {
                    dt { "Receipts" }
                    dd { (links(finding, selection)) }
                }
                @if !finding.not_shown.is_empty() {
                    dt { "Not shown" }
                    dd { (safe(&finding.not_shown)) }
                }
                dt { "Next" }
                dd { (safe(&finding.next)) }
            }
        }
    }
}

fn links(finding: &Finding, selection: &Selection<'_>) -> Markup {
    html! {
        @for (place, receipt) in finding.receipts.iter().enumerate() {
            @if place > 0 { br; }
            @match selection.anchor(receipt) {
                Some(anchor) => { a href={ "#" (anchor) } { (receipt_name(receipt)) } }
                None => { (receipt_name(receipt)) }
            }
        }
        @if finding.more_receipts > 0 { br; "and " (finding.more_receipts) " more" }
    }
}

/// The receipts that the findings shown name.
pub(super) fn receipts(selection: &Selection<'_>, bodies: &Bodies) -> Markup {
    html! {
        @if !selection.receipts.is_empty() {
            section #receipts aria-labelledby="receipts-title" {
                h2 #receipts-title { "Receipts that findings name" }
                p {
                    "What a receipt says is its issuer's word. It is shown as text; whatever is no plain letter or sign is written as "
                    code { "\\u{...}" } "."
                }
                ul.receipts {
                    @for receipt in &selection.receipts { (of_receipt(receipt, selection, bodies)) }
                }
                @if selection.more_receipts > 0 {
                    p { "And " (amount(selection.more_receipts as u64, "more receipt", "more receipts")) "; the JSON report names them." }
                }
                @if selection.receipts.len() > MAX_BODIES {
                    p { "The bodies of the first " (MAX_BODIES) " in the log are shown; all are in the bundle." }
                }
            }
        }
    }
}

fn of_receipt(receipt: &ReceiptRef, selection: &Selection<'_>, bodies: &Bodies) -> Markup {
    html! {
        li.receipt id=[selection.anchor(receipt)] {
            h3 {
                @match receipt.index {
                    Some(index) => { "Index " (index) }
                    None => { "Not in the log: " (short_id(receipt)) }
                }
            }
            dl {
                dt { "Issuer" }
                dd { @match &receipt.issuer { Some(issuer) => { (name(issuer)) } None => { "none: this entry is no receipt" } } }
                @if let Some(seq) = receipt.seq { dt { "Seq" } dd { (seq) } }
                dt { "Id" }
                dd.mono { (receipt.id.to_hex()) }
                @if let Some(body) = bodies.get(&receipt.id.0) {
                    dt { "Body" }
                    dd { details open[body.len() < 600] { summary { (amount(body.len() as u64, "byte", "bytes")) } pre { (shown_body(body)) } } }
                }
            }
        }
    }
}

fn shown_body(body: &str) -> String {
    // A body of 64 KiB is not escaped whole to be cut.
    let start: String = body.chars().take(MAX_BODY).collect();
    let shown = plain(&start);
    match shown.char_indices().nth(MAX_BODY) {
        None if start.len() == body.len() => shown,
        cut => {
            let end = cut.map_or(shown.len(), |(end, _)| end);
            format!("{}... (cut; {} bytes in all)", &shown[..end], body.len())
        }
    }
}

/// Evidence documents, each as text that can be copied into a file.
pub(super) fn evidence(verdict: &Verdict) -> Markup {
    let mut room = MAX_EVIDENCE_BYTES;
    let mut documents = Vec::new();
    for document in &verdict.evidence {
        // A document is what serde_json read or made: it serialises.
        let Ok(text) = ascii_json::to_string(document) else { continue };
        if text.len() > room {
            continue;
        }
        room -= text.len();
        let kind = document.get("kind").and_then(serde_json::Value::as_str).unwrap_or("unknown kind");
        documents.push((name(kind), text));
    }
    let left_out = verdict.evidence.len().saturating_sub(documents.len());
    html! {
        @if !verdict.evidence.is_empty() {
            section #evidence aria-labelledby="evidence-title" {
                h2 #evidence-title { "Evidence" }
                p {
                    "Each document stands by itself: whoever knows the keys it names can check it without this report, "
                    "the bundle or the log. Copy one into a file and run:"
                }
                pre { code { "counterfoil-verify evidence FILE" } }
                @for (place, (kind, text)) in documents.iter().enumerate() {
                    details {
                        summary { "Document " (place + 1) ": " code { (kind) } ", " (amount(text.len() as u64, "byte", "bytes")) }
                        pre { (text) }
                    }
                }
                @if left_out > 0 {
                    p { "And " (amount(left_out as u64, "more document", "more documents")) "; the JSON report has them whole." }
                }
            }
        }
    }
}
