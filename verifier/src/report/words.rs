//! What the forms of a report say alike, in harmless sentences.
//!
//! Holds the verdict in one sentence, the words and marks of statuses, and what [`Completeness`](audit::Completeness)
//! says of an issuer, a witness and the log. Does not hold any layout.

use audit::amount::amount;
use audit::completeness::{IssuerSpan, JournalState, LogSpan, SizeAt, SpanS, WitnessSpan};
use audit::quote::one_line;
use audit::time::{show_length, show_time, show_time_s};
use audit::{Check, Coverage, ReceiptRef, Severity, Status, Verdict};
use receipt::UnixMillis;

/// Most characters of one sentence that a text or a page shows. Sentences quote at most a few names of
/// `audit::quote::MAX_QUOTED` characters each; anything longer was made to be long. The JSON has it whole.
pub const MAX_SENTENCE: usize = 2000;

/// Most characters of a name: a key's name has at most 255 bytes, and few of those need escapes.
const MAX_NAME: usize = 300;

/// Items of one list that a sentence names; the rest are counted.
const MAX_NAMED: usize = 3;

/// The status of a check as a reader needs it: of what was not checked he must know whether it had to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Outcome {
    Failed,
    NotChecked,
    NotNeeded,
    Ok,
}

impl Outcome {
    pub(crate) fn of(check: &Check) -> Outcome {
        match (check.status, check.required) {
            (Status::Ok, _) => Outcome::Ok,
            (Status::Fail, _) => Outcome::Failed,
            (Status::NotChecked, true) => Outcome::NotChecked,
            (Status::NotChecked, false) => Outcome::NotNeeded,
        }
    }

    /// The word in front of a check. It says everything that a colour says.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Outcome::Failed => "FAIL",
            Outcome::NotChecked => "not checked",
            Outcome::NotNeeded => "-",
            Outcome::Ok => "ok",
        }
    }
}

/// How many checks ended how.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tally {
    pub(crate) failed: u64,
    pub(crate) not_checked: u64,
    pub(crate) not_needed: u64,
    pub(crate) ok: u64,
}

impl Tally {
    pub(crate) fn of(verdict: &Verdict) -> Tally {
        let mut tally = Tally::default();
        for check in &verdict.checks {
            *match Outcome::of(check) {
                Outcome::Failed => &mut tally.failed,
                Outcome::NotChecked => &mut tally.not_checked,
                Outcome::NotNeeded => &mut tally.not_needed,
                Outcome::Ok => &mut tally.ok,
            } += 1;
        }
        tally
    }
}

/// The overall status as a word.
pub(crate) fn word_of(status: Status) -> &'static str {
    match status {
        Status::Ok => "ok",
        Status::Fail => "FAIL",
        Status::NotChecked => "not checked",
    }
}

/// The verdict in one sentence, without its word.
pub(crate) fn headline(verdict: &Verdict) -> String {
    let Tally { failed, not_checked, not_needed, ok } = Tally::of(verdict);
    let could_not = amount(not_checked, "required check could not be made", "required checks could not be made");
    match verdict.overall {
        Status::Ok => {
            let made =
                if ok == 1 { String::from("the one check made is ok") } else { format!("all {ok} checks made are ok") };
            match not_needed {
                0 => made,
                1 => format!("{made}; 1 other was not required and not made"),
                others => format!("{made}; {others} others were not required and not made"),
            }
        }
        Status::Fail => {
            let failed = amount(failed, "check failed", "checks failed");
            match not_checked {
                0 => format!("{failed}; every other required one was made"),
                _ => format!("{failed}; {could_not}"),
            }
        }
        Status::NotChecked if not_checked == 0 => {
            String::from("nothing failed, but there was nothing that had to be checked")
        }
        Status::NotChecked => format!("nothing failed, but {could_not}"),
    }
}

/// The word for a finding's severity, and the sign in front of it.
pub(crate) fn severity_words(severity: Severity) -> (&'static str, &'static str) {
    match severity {
        Severity::Fail => ("!", "fails"),
        Severity::NotChecked => ("?", "not checked"),
        Severity::Notice => ("i", "notice"),
    }
}

/// A foreign or composed text on one line, harmless, at most [`MAX_SENTENCE`] characters of it.
pub(crate) fn safe(text: &str) -> String {
    cut(one_line(text), MAX_SENTENCE)
}

/// A name or a path, harmless, at most [`MAX_NAME`] characters of it.
pub(crate) fn name(text: &str) -> String {
    cut(one_line(text), MAX_NAME)
}

fn cut(text: String, most: usize) -> String {
    match text.char_indices().nth(most) {
        None => text,
        Some((end, _)) => format!("{}... ({} bytes)", &text[..end], text.len()),
    }
}

/// A receipt by its place.
pub(crate) fn receipt_name(receipt: &ReceiptRef) -> String {
    let index = receipt.index.map_or_else(|| String::from("not in the log"), |index| format!("index {index}"));
    let of = match (&receipt.issuer, receipt.seq) {
        (Some(issuer), Some(seq)) => format!(", {} seq {seq}", name(issuer)),
        _ => String::new(),
    };
    format!("{index}{of}, {}", short_id(receipt))
}

/// The beginning of a receipt's id: enough to find it by.
pub(crate) fn short_id(receipt: &ReceiptRef) -> String {
    let id = receipt.id.to_hex();
    id.get(..16).unwrap_or(&id).to_owned()
}

/// How many entries there are, and who read them.
pub(crate) fn entries_read(coverage: &Coverage) -> String {
    let entries = amount(coverage.entries, "entry", "entries");
    match coverage.since {
        None => format!("{entries} read"),
        Some(before) => format!(
            "{entries}: {before} judged by the earlier audit whose saved state was given, and {} read",
            coverage.entries.saturating_sub(before)
        ),
    }
}

/// What witnesses cosigned, and when.
pub(crate) fn cosigned(coverage: &Coverage) -> String {
    match (coverage.cosigned_sizes, coverage.cosigned_at_s) {
        (Some([from, to]), Some([first, last])) => {
            between(&SizeAt { size: from, time_s: first }, &SizeAt { size: to, time_s: last })
        }
        _ => String::from("no good cosignature over any head that these entries reproduce"),
    }
}

/// When a quorum last vouched.
pub(crate) fn quorum(coverage: &Coverage) -> String {
    match coverage.quorum_at_s {
        Some(time_s) => format!("last vouched for the newest head at {}", show_time_s(time_s)),
        None => String::from("never: the newest head lacks the cosignatures that the policy asks for"),
    }
}

/// How many checks ended how; what was not checked is never left out.
pub(crate) fn tally_words(tally: Tally) -> String {
    let failed = match tally.failed {
        0 => String::from("nothing failed"),
        failed => amount(failed, "check failed", "checks failed"),
    };
    let not_checked = match tally.not_checked {
        0 => String::from("every required check was made"),
        checks => amount(checks, "required check could not be made", "required checks could not be made"),
    };
    let ok = amount(tally.ok, "check is ok", "checks are ok");
    let others =
        amount(tally.not_needed, "other was neither required nor made", "others were neither required nor made");
    format!("{failed}; {not_checked}; {ok}; {others}")
}

/// Something that is known of an issuer, a witness or the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fact {
    pub(crate) grave: Grave,
    pub(crate) sentence: String,
}

/// What a fact means for whoever relies on the log. Findings of checks decide the verdict; these only say where to look.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Grave {
    /// Something was there and is not.
    Missing,
    /// Nothing tells.
    Uncovered,
    /// Nothing tells yet, as of every stream that is not closed: what came after its last receipt.
    Tail,
    /// As it should be.
    Plain,
}

impl Grave {
    pub(crate) fn mark(self) -> &'static str {
        match self {
            Grave::Missing => "!",
            Grave::Uncovered | Grave::Tail => "?",
            Grave::Plain => " ",
        }
    }
}

/// What is known of an issuer; the first fact is how much there is.
pub(crate) fn issuer_facts(issuer: &IssuerSpan) -> Vec<Fact> {
    let mut facts = Facts::default();
    match (&issuer.first, &issuer.last) {
        (Some(first), Some(last)) => facts.add(
            Grave::Plain,
            format!(
                "{}, seq {} to {}, issued {} to {}{}",
                amount(issuer.receipts, "receipt", "receipts"),
                first.seq,
                last.seq,
                show_time(UnixMillis(first.issued_at_ms)),
                show_time(UnixMillis(last.issued_at_ms)),
                if issuer.closed { "; closed: nothing is to come" } else { "" }
            ),
        ),
        _ => facts.add(Grave::Uncovered, String::from("no receipt in the log: nothing is known of this issuer")),
    }
    let gaps = issuer.gaps.iter().map(|gap| {
        let first = gap.after.map_or(0, |after| after.seq.saturating_add(1));
        match gap.before.seq.saturating_sub(1) {
            last if last > first => format!("seq {first} to {last}"),
            _ => format!("seq {first}"),
        }
    });
    facts.list(Grave::Missing, gaps, issuer.gaps_more, ["gap", "gaps"], "missing: ");
    let forks = issuer.forks.iter().map(|fork| format!("seq {} at index {}", fork.seq, fork.index));
    let fork_words = ["receipt contradicts", "receipts contradict"];
    facts.list(Grave::Missing, forks, issuer.forks_more, fork_words, "another of the stream: ");
    let beyond = issuer.beyond.iter().map(|beyond| format!("seq {} by {}", beyond.seq, name(&beyond.shown_by)));
    let beyond_words = ["receipt beyond the last one", "receipts beyond the last one"];
    facts.list(Grave::Missing, beyond, issuer.beyond_more, beyond_words, "proven by others: ");
    let unhonoured = issuer.unhonoured.iter().map(|path| name(path));
    let proof_words = ["kept proof", "kept proofs"];
    facts.list(Grave::Missing, unhonoured, issuer.unhonoured_more, proof_words, "that the log does not honour: ");
    let silences = issuer.silences.iter().map(|span| show_span(span.from_ms, span.to_ms));
    let heartbeat = issuer.heartbeat_ms.map_or_else(
        || String::from("longer than its heartbeat: "),
        |heartbeat| format!("longer than its heartbeat of {}: ", show_length(heartbeat)),
    );
    facts.list(Grave::Uncovered, silences, issuer.silences_more, ["silence", "silences"], &heartbeat);
    if let Some(uncovered) = &issuer.uncovered {
        facts.add(
            Grave::Tail,
            format!(
                "nothing covers the {} after its last receipt",
                show_length(uncovered.to_ms.saturating_sub(uncovered.from_ms))
            ),
        );
    }
    facts.0
}

/// What is known of a witness; the first fact is how much it cosigned.
pub(crate) fn witness_facts(witness: &WitnessSpan) -> Vec<Fact> {
    let mut facts = Facts::default();
    let cosigned = amount(witness.cosignatures, "cosignature", "cosignatures");
    match (&witness.first, &witness.last) {
        (Some(first), Some(last)) => {
            facts.add(Grave::Plain, format!("{cosigned}, {}", between(first, last)));
        }
        _ => facts.add(Grave::Uncovered, String::from("no cosignature of this log: it vouches for nothing")),
    }
    let lines = amount(witness.journal_lines, "line", "lines");
    match witness.journal {
        JournalState::Read => {
            let heads = amount(witness.saw_heads, "head", "heads");
            facts.add(Grave::Plain, format!("its journal was read: {lines}; it saw {heads} of the log"));
        }
        JournalState::Absent => facts.add(Grave::Uncovered, String::from("its journal is not in the bundle")),
        JournalState::Unreadable => facts.add(
            Grave::Uncovered,
            format!("its journal could not be read whole, or is not its own word ({lines} read)"),
        ),
    }
    if witness.saw_alone > 0 {
        let heads = amount(witness.saw_alone, "head", "heads");
        facts
            .add(Grave::Missing, format!("it alone shows {heads}: not in the log's list, and nobody else has seen it"));
    }
    let silences = witness.silences.iter().map(|span| show_span_s(*span));
    facts.list(Grave::Uncovered, silences, witness.silences_more, ["silence", "silences"], "without a cosignature: ");
    facts.0
}

/// What is known of the log beside the coverage.
pub(crate) fn log_facts(log: &LogSpan) -> Vec<Fact> {
    let mut facts = Facts::default();
    if log.heads_omitted > 0 {
        let heads = amount(log.heads_omitted, "head that others hold is", "heads that others hold are");
        facts.add(Grave::Missing, format!("{heads} missing from the log's list of {}", log.heads_listed));
    }
    match (&log.cosigned_from, &log.cosigned_to) {
        (Some(from), Some(to)) => facts.add(Grave::Plain, format!("witnesses watched {}", between(from, to))),
        _ => facts.add(Grave::Uncovered, String::from("no witness's cosignature is known: nobody watched")),
    }
    let limit = log
        .fresh_limit_s
        .map_or_else(String::new, |limit| format!("longer than {} ", show_length(limit.saturating_mul(1000))));
    let spans = log.not_fresh.iter().map(|span| show_span_s(*span));
    let what = format!("{limit}without a head that a quorum saw: ");
    facts.list(Grave::Uncovered, spans, log.not_fresh_more, ["interval", "intervals"], &what);
    facts.0
}

/// The gravest of some facts.
pub(crate) fn gravest(facts: &[Fact]) -> Grave {
    facts.iter().map(|fact| fact.grave).min().unwrap_or(Grave::Plain)
}

/// How long a span of milliseconds is, and which.
pub(crate) fn show_span(from_ms: u64, to_ms: u64) -> String {
    let length = show_length(to_ms.saturating_sub(from_ms));
    format!("{} to {} ({length})", show_time(UnixMillis(from_ms)), show_time(UnixMillis(to_ms)))
}

/// The same for seconds.
pub(crate) fn show_span_s(span: SpanS) -> String {
    show_span(span.from_s.saturating_mul(1000), span.to_s.saturating_mul(1000))
}

fn between(first: &SizeAt, last: &SizeAt) -> String {
    let sizes = match first.size == last.size {
        true => format!("size {}", first.size),
        false => format!("sizes {} to {}", first.size, last.size),
    };
    match first.time_s == last.time_s {
        true => format!("{sizes}, at {}", show_time_s(first.time_s)),
        false => format!("{sizes}, from {} to {}", show_time_s(first.time_s), show_time_s(last.time_s)),
    }
}

#[derive(Default)]
struct Facts(Vec<Fact>);

impl Facts {
    fn add(&mut self, grave: Grave, sentence: String) {
        self.0.push(Fact { grave, sentence });
    }

    /// `2 gaps missing: a; b`, the first few of them; nothing where there is nothing.
    fn list(
        &mut self,
        grave: Grave,
        items: impl ExactSizeIterator<Item = String>,
        more: u64,
        [one, several]: [&str; 2],
        what: &str,
    ) {
        let all = (items.len() as u64).saturating_add(more);
        if all == 0 {
            return;
        }
        let mut named: Vec<String> = items.take(MAX_NAMED).collect();
        let rest = all.saturating_sub(named.len() as u64);
        if rest > 0 {
            named.push(format!("and {rest} more"));
        }
        self.add(grave, format!("{} {what}{}", amount(all, one, several), named.join("; ")));
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;
    use audit::completeness::{Beyond, Placed, SeqGap, SpanMs};

    fn placed(seq: u64) -> Placed {
        Placed { seq, index: seq * 2, issued_at_ms: 1_000 * seq }
    }

    #[test]
    fn a_torn_stream_says_which_numbers_are_missing_and_what_nothing_covers() {
        let issuer = IssuerSpan {
            receipts: 5,
            first: Some(placed(1)),
            last: Some(placed(9)),
            gaps: vec![
                SeqGap { after: None, before: placed(1) },
                SeqGap { after: Some(placed(3)), before: placed(7) },
                SeqGap { after: Some(placed(7)), before: placed(9) },
            ],
            gaps_more: 2,
            beyond: vec![Beyond { seq: 12, shown_by: String::from("\u{1b}proofs/x") }],
            uncovered: Some(SpanMs { from_ms: 9_000, to_ms: 99_500 }),
            ..IssuerSpan::default()
        };
        let told: Vec<String> =
            issuer_facts(&issuer).iter().map(|fact| format!("{}{}", fact.grave.mark(), fact.sentence)).collect();
        assert_eq!(
            told,
            [
                " 5 receipts, seq 1 to 9, issued 1970-01-01T00:00:01Z to 1970-01-01T00:00:09Z",
                "!5 gaps missing: seq 0; seq 4 to 6; seq 8; and 2 more",
                "!1 receipt beyond the last one proven by others: seq 12 by \\u{1b}proofs/x",
                "?nothing covers the 1 min 30 s after its last receipt",
            ]
        );
        assert_eq!(gravest(&issuer_facts(&issuer)), Grave::Missing);
    }

    #[test]
    fn nothing_known_is_said_and_not_left_out() {
        assert_eq!(gravest(&issuer_facts(&IssuerSpan::default())), Grave::Uncovered);
        let witness = witness_facts(&WitnessSpan::default());
        assert!(witness[0].sentence.starts_with("no cosignature") && witness[1].sentence.contains("not in the bundle"));
        assert_eq!(gravest(&log_facts(&LogSpan::default())), Grave::Uncovered);
    }

    #[test]
    fn a_text_made_to_be_long_is_cut_and_its_length_said() {
        let long = safe(&"\u{202e}".repeat(70_000));
        assert!(long.len() < MAX_SENTENCE + 40 && long.ends_with("... (560000 bytes)"), "{}", long.len());
    }
}
