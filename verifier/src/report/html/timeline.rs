//! The timeline: one lane for the log, one an issuer, one a witness, over one axis of time in UTC; and the same told in words.
//!
//! Places along the axis are percentages, so that the drawing has the width of the page it is read on and its letters
//! keep their size. Every mark has a form of its own, a word in the legend and a sentence when it is pointed at:
//! colours only repeat what forms say.

use super::super::words::{
    Fact, Grave, gravest, issuer_facts, log_facts, name, safe, show_span, show_span_s, witness_facts,
};
use audit::Verdict;
use audit::completeness::{BUCKETS, IssuerSpan, LogSpan, SpanMs, WitnessSpan};
use audit::time::{show_length, show_time, show_time_s};
use maud::{Markup, html};
use receipt::UnixMillis;
use service::wrap::cut_middle;

/// Issuers that have a lane, and witnesses that have one: those first of which something is missing. More lanes make
/// no picture, and a page with this many at their fullest (three kinds of [`MAX_MARKS`] each) has 3 MB.
const MAX_LANES: usize = 24;

/// Marks of one kind in a lane. A lane is at most a thousand pixels wide: marks closer than ten of them can hardly be
/// pointed at.
const MAX_MARKS: usize = 100;

/// Rows of the tables in words.
const MAX_TOLD: usize = 100;

/// Characters of a name above its lane: what fits on a phone. The whole name is in the words below.
const NAME_CHARACTERS: usize = 40;

/// Height of a lane in pixels: a line of text and the drawing under it.
const LANE: usize = 66;

/// Where the drawing of a lane begins and ends below its top.
const TOP: usize = 28;
const BOTTOM: usize = 52;

/// Height of the axis above the lanes.
const AXIS: usize = 30;

/// The section.
pub(super) fn section(verdict: &Verdict) -> Markup {
    let completeness = &verdict.completeness;
    let mut issuers: Vec<(&IssuerSpan, Vec<Fact>)> =
        completeness.issuers.iter().map(|issuer| (issuer, issuer_facts(issuer))).collect();
    let mut witnesses: Vec<(&WitnessSpan, Vec<Fact>)> =
        completeness.witnesses.iter().map(|witness| (witness, witness_facts(witness))).collect();
    // Only then, so that a usual report keeps the order of the auditor's own files.
    if issuers.len() > MAX_LANES {
        issuers.sort_by_key(|(_, facts)| gravest(facts));
    }
    if witnesses.len() > MAX_LANES {
        witnesses.sort_by_key(|(_, facts)| gravest(facts));
    }
    html! {
        section #timeline aria-labelledby="timeline-title" {
            h2 #timeline-title { "Who was seen when" }
            @match Axis::of(verdict) {
                None => { p { "There is no time to draw: no receipt of an issuer that the auditor named, and no cosignature." } }
                Some(axis) => { (figure(verdict, &axis, &issuers, &witnesses)) }
            }
            (told("Issuers", issuers.iter().map(|(issuer, facts)| (issuer.issuer.as_str(), facts)).collect()))
            (told("Witnesses", witnesses.iter().map(|(witness, facts)| (witness.witness.as_str(), facts)).collect()))
            (told_log(&completeness.log))
        }
    }
}

fn figure(
    verdict: &Verdict,
    axis: &Axis,
    issuers: &[(&IssuerSpan, Vec<Fact>)],
    witnesses: &[(&WitnessSpan, Vec<Fact>)],
) -> Markup {
    let (gates, watchers) = (issuers.len().min(MAX_LANES), witnesses.len().min(MAX_LANES));
    let height = AXIS + (1 + gates + watchers) * LANE + 6;
    let log = &verdict.completeness.log;
    let origin = verdict.coverage.log.as_deref().unwrap_or("an unknown log");
    html! {
        figure {
            figcaption #timeline-about {
                "From " (show_time(UnixMillis(axis.from_ms))) " to " (show_time(UnixMillis(axis.to_ms)))
                " (" (show_length(axis.to_ms - axis.from_ms)) "), UTC. The log's lane shows from when to when witnesses watched it; lanes of issuers when receipts were "
                "issued, by the gates' clocks; lanes of witnesses when they cosigned, by theirs. The words below say the same."
            }
            svg.chart width="100%" height=(height) role="group" aria-label="Timeline of the log, its issuers and its witnesses" aria-describedby="timeline-about" {
                (patterns())
                (axis.draw(height))
                (axis.moments(verdict, height))
                (lane(AXIS, origin, "log", log_lane(log, axis)))
                @for (place, (issuer, _)) in issuers.iter().take(MAX_LANES).enumerate() {
                    (lane(AXIS + (1 + place) * LANE, &issuer.issuer, "issuer", issuer_lane(issuer, log.issued, axis)))
                }
                @for (place, (witness, _)) in witnesses.iter().take(MAX_LANES).enumerate() {
                    (lane(AXIS + (1 + gates + place) * LANE, &witness.witness, "witness", witness_lane(witness, axis)))
                }
            }
            (legend())
            @if issuers.len() > gates || witnesses.len() > watchers {
                p.small {
                    "Drawn: " (gates) " of " (issuers.len()) " issuers and " (watchers) " of " (witnesses.len())
                    " witnesses, those first of which something is missing."
                }
            }
        }
    }
}

/// A lane: its name, its line, its marks.
fn lane(top: usize, whose: &str, kind: &str, marks: Markup) -> Markup {
    html! {
        svg x="0" y=(top) width="100%" height=(LANE) role="group" {
            title { (kind) " " (name(whose)) }
            text x="0" y="13" { tspan.kind { (kind) } " " (cut_middle(&name(whose), NAME_CHARACTERS)) }
            line.rule x1="0" x2="100%" y1=(BOTTOM) y2=(BOTTOM) {}
            (marks)
        }
    }
}

/// From when to when witnesses watched the log, and when no quorum did.
fn log_lane(log: &LogSpan, axis: &Axis) -> Markup {
    html! {
        @for span in log.not_fresh.iter().take(MAX_MARKS) {
            (axis.block("silence", span.from_s.saturating_mul(1000), span.to_s.saturating_mul(1000), Some("dots"),
                &format!("no head that a quorum saw: {}", show_span_s(*span))))
        }
        @if let (Some(from), Some(to)) = (&log.cosigned_from, &log.cosigned_to) {
            @let (from, to) = (axis.place(from.time_s.saturating_mul(1000)), axis.place(to.time_s.saturating_mul(1000)));
            line.span x1=(from) x2=(to) y1=(BOTTOM) y2=(BOTTOM) { title { "witnesses watched the log" } }
        } @else {
            text x="50%" y="46" text-anchor="middle" { "no witness watched" }
        }
    }
}

fn issuer_lane(issuer: &IssuerSpan, log: Option<SpanMs>, axis: &Axis) -> Markup {
    html! {
        @if let Some(uncovered) = issuer.uncovered {
            (axis.block("tail", uncovered.from_ms, uncovered.to_ms, None,
                &format!("not covered: {}", show_span(uncovered.from_ms, uncovered.to_ms))))
        }
        @for silence in issuer.silences.iter().take(MAX_MARKS) {
            (axis.block("silence", silence.from_ms, silence.to_ms, Some("dots"),
                &format!("silent longer than its heartbeat: {}", show_span(silence.from_ms, silence.to_ms))))
        }
        @if let (Some(first), Some(last)) = (&issuer.first, &issuer.last) {
            line.span x1=(axis.place(first.issued_at_ms)) x2=(axis.place(last.issued_at_ms)) y1=(BOTTOM) y2=(BOTTOM) {}
            @if let Some(log) = log { (activity(issuer, log, axis)) }
            @if issuer.closed {
                (axis.glyph(last.issued_at_ms, "end", "M-3 -9h6v18h-6z", BOTTOM - 4, "closed: nothing is to come"))
            }
            @for beyond in issuer.beyond.iter().take(MAX_MARKS.min(1)) {
                (axis.glyph(last.issued_at_ms, "glyph", "M4 -6l8 6l-8 6z", BOTTOM - 8,
                    &format!("there was more: seq {} is shown by {}", beyond.seq, name(&beyond.shown_by))))
            }
        } @else {
            text x="50%" y="46" text-anchor="middle" { "no receipt in the log" }
        }
        @for gap in issuer.gaps.iter().take(MAX_MARKS) {
            @let from = gap.after.map_or(gap.before.issued_at_ms, |after| after.issued_at_ms);
            @let first = gap.after.map_or(0, |after| after.seq.saturating_add(1));
            @let words = format!("missing: seq {first} to {}", gap.before.seq.saturating_sub(1));
            (axis.block("gap", from, gap.before.issued_at_ms, Some("hatch"), &words))
            (axis.glyph(axis.middle(from, gap.before.issued_at_ms), "glyph", "M-4 -4l8 8m0 -8l-8 8", TOP - 4, &words))
        }
        @for fork in issuer.forks.iter().take(MAX_MARKS) {
            (axis.glyph(fork.issued_at_ms, "glyph", "M0 7v-7l-5 -7m5 7l5 -7", TOP - 2,
                &format!("fork: a second seq {}, index {}, issued {}", fork.seq, fork.index, show_time(UnixMillis(fork.issued_at_ms)))))
        }
    }
}

/// How many receipts in each part of the log's time, as bars of one path. Heights grow with the logarithm: one receipt
/// is seen beside a thousand.
fn activity(issuer: &IssuerSpan, log: SpanMs, axis: &Axis) -> Markup {
    let most = issuer.activity.iter().copied().max().unwrap_or(0);
    let scale = |count: u64| ((count as f64).ln_1p() / (most as f64).ln_1p() * 20.0).max(2.0);
    let mut path = String::new();
    for (place, count) in issuer.activity.iter().take(BUCKETS).enumerate().filter(|(_, count)| **count > 0) {
        path.push_str(&format!("M{place} 20v-{:.1}h1v{0:.1}z", scale(*count)));
    }
    let (left, right) = (axis.percent(log.from_ms), axis.percent(log.to_ms));
    // All at one instant is one thin bar.
    let width = (right - left).max(0.4);
    html! {
        @if !path.is_empty() {
            svg x={ (format!("{left:.2}%")) } y=(BOTTOM - 20) width={ (format!("{width:.2}%")) } height="20" viewBox={ "0 0 " (BUCKETS) " 20" } preserveAspectRatio="none" {
                path.bars d=(path) {}
            }
        }
    }
}

fn witness_lane(witness: &WitnessSpan, axis: &Axis) -> Markup {
    html! {
        @for silence in witness.silences.iter().take(MAX_MARKS) {
            (axis.block("silence", silence.from_s.saturating_mul(1000), silence.to_s.saturating_mul(1000), Some("dots"),
                &format!("no cosignature: {}", show_span_s(*silence))))
        }
        @if let (Some(first), Some(last)) = (&witness.first, &witness.last) {
            @let from = first.time_s.saturating_mul(1000);
            @let to = last.time_s.saturating_mul(1000);
            line.span x1=(axis.place(from)) x2=(axis.place(to)) y1=(BOTTOM) y2=(BOTTOM) {}
            @for time_s in thinned(&witness.cosigned_at_s) {
                @let place = axis.place(time_s.saturating_mul(1000));
                line.stick x1=(place) x2=(place) y1=(BOTTOM - 16) y2=(BOTTOM) { title { "cosigned at " (show_time_s(time_s)) } }
            }
        } @else {
            text x="50%" y="46" text-anchor="middle" { "no cosignature" }
        }
    }
}

/// At most [`MAX_MARKS`] of the times, evenly, the first and the last among them.
fn thinned(times: &[u64]) -> Vec<u64> {
    if times.len() <= MAX_MARKS {
        return times.to_vec();
    }
    (0..MAX_MARKS).filter_map(|place| times.get(place * (times.len() - 1) / (MAX_MARKS - 1)).copied()).collect()
}

/// From when to when everything is drawn.
struct Axis {
    from_ms: u64,
    to_ms: u64,
}

/// Parts of the axis: ticks stand between them.
const PARTS: u64 = 4;

impl Axis {
    /// From the first to the last moment of which anything is known; `None` if nothing is.
    fn of(verdict: &Verdict) -> Option<Axis> {
        let completeness = &verdict.completeness;
        let mut times: Vec<u64> = Vec::new();
        times.extend(completeness.log.issued.iter().flat_map(|span| [span.from_ms, span.to_ms]));
        for issuer in &completeness.issuers {
            times.extend(issuer.first.iter().chain(&issuer.last).map(|placed| placed.issued_at_ms));
            times.extend(issuer.uncovered.iter().flat_map(|span| [span.from_ms, span.to_ms]));
        }
        for witness in &completeness.witnesses {
            let ends = witness.first.iter().chain(&witness.last);
            times.extend(ends.map(|placed| placed.time_s.saturating_mul(1000)));
        }
        let from_ms = times.iter().copied().min()?;
        times.extend(verdict.coverage.at_ms.filter(|at| *at >= from_ms));
        let to_ms = times.iter().copied().max()?;
        // A second at least, so that one moment is a place on it.
        Some(Axis { from_ms, to_ms: to_ms.max(from_ms.saturating_add(1000)) })
    }

    /// Where a time stands, in percent of the width; what lies outside is put at the edge.
    fn percent(&self, time_ms: u64) -> f64 {
        let length = (self.to_ms - self.from_ms).max(1) as f64;
        let along = time_ms.clamp(self.from_ms, self.to_ms) - self.from_ms;
        // The marks at both ends are as wide as half a percent of a phone.
        1.5 + along as f64 / length * 97.0
    }

    fn place(&self, time_ms: u64) -> String {
        format!("{:.2}%", self.percent(time_ms))
    }

    fn middle(&self, from_ms: u64, to_ms: u64) -> u64 {
        from_ms + to_ms.saturating_sub(from_ms) / 2
    }

    /// Lines and times at the ends, the middle and between; those between only where there is room.
    fn draw(&self, height: usize) -> Markup {
        let length = self.to_ms - self.from_ms;
        html! {
            g.tick {
                @for part in 0..=PARTS {
                    @let time = self.from_ms + (u128::from(length) * u128::from(part) / u128::from(PARTS)) as u64;
                    @let place = self.place(time);
                    @let anchor = match part { 0 => "start", PARTS => "end", _ => "middle" };
                    g class=[(part % 2 == 1).then_some("minor")] {
                        line.rule x1=(place) x2=(place) y1="18" y2=(height) {}
                        text x=(place) y="12" text-anchor=(anchor) { (tick(time, length)) }
                    }
                }
            }
        }
    }

    /// The time of the audit and that of the last quorum: lines through all lanes.
    fn moments(&self, verdict: &Verdict, height: usize) -> Markup {
        let quorum = verdict.coverage.quorum_at_s.map(|time| time.saturating_mul(1000));
        let moments =
            [(quorum, "the quorum last vouched for the head"), (verdict.coverage.at_ms, "the time of the audit")];
        html! {
            @for (time, words) in moments {
                @if let Some(time) = time.filter(|time| (self.from_ms..=self.to_ms).contains(time)) {
                    line.when x1=(self.place(time)) x2=(self.place(time)) y1="18" y2=(height) {
                        title { (words) ": " (show_time(UnixMillis(time))) }
                    }
                }
            }
        }
    }

    /// A stretch of time. `pattern` fills it; without one it is only outlined.
    fn block(&self, class: &str, from_ms: u64, to_ms: u64, pattern: Option<&str>, words: &str) -> Markup {
        let left = self.percent(from_ms);
        let width = (self.percent(to_ms) - left).max(0.3);
        let fill = pattern.map(|pattern| format!("url(#{pattern})"));
        html! {
            rect class=(class) x={ (format!("{left:.2}%")) } width={ (format!("{width:.2}%")) } y=(TOP + 4) height=(BOTTOM - TOP - 4) fill=[fill] {
                title { (safe(words)) }
            }
        }
    }

    /// A sign at a moment, drawn around its place.
    fn glyph(&self, time_ms: u64, class: &str, path: &str, y: usize, words: &str) -> Markup {
        html! {
            svg x=(self.place(time_ms)) y=(y) {
                path class=(class) d=(path) { title { (safe(words)) } }
            }
        }
    }
}

/// A time at a tick, as short as the length of the axis allows.
fn tick(time_ms: u64, length_ms: u64) -> String {
    let text = show_time(UnixMillis(time_ms));
    let parts = text.strip_suffix('Z').and_then(|text| text.split_once('T'));
    match parts {
        Some((date, _)) if length_ms >= 4 * 86_400_000 => date.to_owned(),
        Some((date, time)) if length_ms >= 86_400_000 => {
            format!("{} {}", date.get(5..).unwrap_or(date), time.get(..5).unwrap_or(time))
        }
        Some((_, time)) if length_ms < 4000 => time.get(..10).unwrap_or(time).to_owned(),
        Some((_, time)) => time.get(..8).unwrap_or(time).to_owned(),
        // Beyond the year 9999 a time is a number.
        None => text,
    }
}

fn patterns() -> Markup {
    html! {
        defs {
            pattern id="hatch" width="7" height="7" patternUnits="userSpaceOnUse" patternTransform="rotate(45)" {
                line.hatch-line x1="0" x2="0" y1="0" y2="7" {}
            }
            pattern id="dots" width="6" height="6" patternUnits="userSpaceOnUse" {
                circle.dot cx="3" cy="3" r="1.2" {}
            }
        }
    }
}

/// Every form and its word.
fn legend() -> Markup {
    let item = |drawing: Markup, words: &str| html! { li { svg width="28" height="18" aria-hidden="true" { (drawing) } span { (words) } } };
    let sign = |path: &str, class: &str| html! { svg x="14" y="9" { path class=(class) d=(path) {} } };
    html! {
        ul.legend aria-label="Legend" {
            (item(html! { path.bars d="M2 16v-8h5v8zM9 16v-13h5v13zM16 16v-5h5v5z" {} }, "receipts (logarithmic)"))
            (item(html! { line.stick x1="8" x2="8" y1="2" y2="16" {} line.stick x1="18" x2="18" y1="2" y2="16" {} }, "cosignature"))
            (item(html! { rect.gap x="2" y="2" width="24" height="14" fill="url(#hatch)" {} }, "gap, with a cross above: receipts are missing"))
            (item(sign("M0 7v-7l-5 -7m5 7l5 -7", "glyph"), "fork: two histories"))
            (item(sign("M-4 -6l8 6l-8 6z", "glyph"), "others prove more after this"))
            (item(html! { rect.silence x="2" y="2" width="24" height="14" fill="url(#dots)" {} }, "silence"))
            (item(html! { rect.tail x="2" y="2" width="24" height="14" {} }, "not covered by anything"))
            (item(sign("M-3 -8h6v16h-6z", "end"), "closed"))
            (item(html! { line.when x1="14" x2="14" y1="0" y2="18" {} }, "last quorum; time of the audit"))
        }
    }
}

fn told(title: &str, mut lanes: Vec<(&str, &Vec<Fact>)>) -> Markup {
    if lanes.len() > MAX_TOLD {
        lanes.sort_by_key(|(_, facts)| gravest(facts));
    }
    html! {
        @if !lanes.is_empty() {
            h3 { (title) }
            @for (whose, facts) in lanes.iter().take(MAX_TOLD) {
                div.lane { h4 { (name(whose)) } (facts_list(facts)) }
            }
            @if lanes.len() > MAX_TOLD { p { "And " (lanes.len() - MAX_TOLD) " more, none of them worse; the JSON report has them." } }
        }
    }
}

fn told_log(log: &LogSpan) -> Markup {
    html! {
        h3 { "Log" }
        div.lane { (facts_list(&log_facts(log))) }
    }
}

fn facts_list(facts: &[Fact]) -> Markup {
    html! {
        ul.facts {
            @for fact in facts {
                @let (class, sign, word) = match fact.grave {
                    Grave::Missing => ("fail", "\u{2715}", "missing"),
                    Grave::Uncovered | Grave::Tail => ("open", "?", "not seen"),
                    Grave::Plain => ("none", "\u{2013}", "seen"),
                };
                li { span class={ "tag " (class) } { span.sign aria-hidden="true" { (sign) } " " (word) } span { (safe(&fact.sentence)) } }
            }
        }
    }
}
