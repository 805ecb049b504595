//! The table: figures, the bars they are held against, and how each was measured. Nothing is measured here.

use crate::machine::Machine;
use serde::Serialize;
use std::io::{self, Write};

/// Columns of the table, of which every line keeps within.
const WIDTH: usize = 100;
/// A machine on which others used more than this many processors was not idle.
const IDLE: f64 = 0.1;

/// Everything that was found out.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    /// Where.
    pub(crate) machine: Machine,
    /// The size that was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) receipts: Option<u64>,
    /// One section for each row that was asked for.
    pub(crate) rows: Vec<Section>,
}

/// One row of the table.
#[derive(Debug, Serialize)]
pub(crate) struct Section {
    pub(crate) row: String,
    pub(crate) figures: Vec<Figure>,
    pub(crate) how: String,
    /// What there should be a figure of; `how` says why there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) not_measured: Option<String>,
    /// What others used of the machine meanwhile, in processors, where that was counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) others: Option<f64>,
}

/// One figure.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Figure {
    pub(crate) what: String,
    pub(crate) value: f64,
    pub(crate) unit: Unit,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) bar: Option<Bar>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) verdict: Option<Verdict>,
    /// The value beside strict signature checks a second of one core, where it is receipts a second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) of_strict_checks: Option<f64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Unit {
    PerSecond,
    Milliseconds,
    Seconds,
    /// Microseconds of processor time a receipt.
    CpuMicroseconds,
    Bytes,
    /// 1,000,000 bytes.
    Megabytes,
    Times,
    Percent,
}

/// What must be reached.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Bar {
    AtLeast(f64),
    AtMost(f64),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Verdict {
    Met,
    Missed,
    /// The bar is for a larger log than this one.
    TooFew,
}

impl Figure {
    /// A figure without a bar.
    pub(crate) fn new(what: impl Into<String>, value: f64, unit: Unit) -> Figure {
        Figure { what: what.into(), value, unit, bar: None, verdict: None, of_strict_checks: None }
    }

    /// Holds it against a bar.
    pub(crate) fn bar(self, bar: Bar) -> Figure {
        self.bar_from(bar, 0, 0)
    }

    /// Holds it against a bar that is for a log of at least `least` receipts; this one has `size`.
    pub(crate) fn bar_from(mut self, bar: Bar, least: u64, size: u64) -> Figure {
        let met = match bar {
            Bar::AtLeast(least) => self.value >= least,
            Bar::AtMost(most) => self.value <= most,
        };
        self.verdict = Some(match met {
            _ if size < least => Verdict::TooFew,
            true => Verdict::Met,
            false => Verdict::Missed,
        });
        self.bar = Some(bar);
        self
    }

    /// Names its share of what one core checks.
    pub(crate) fn beside(mut self, checks: f64) -> Figure {
        self.of_strict_checks = Some(self.value / checks);
        self
    }
}

impl Section {
    /// A row that was measured.
    pub(crate) fn new(row: impl ToString, figures: Vec<Figure>, how: String) -> Section {
        Section { row: row.to_string(), figures, how, not_measured: None, others: None }
    }

    /// What others used of the machine meanwhile, in processors.
    pub(crate) fn others(mut self, others: f64) -> Section {
        self.others = Some(others);
        self
    }

    /// A row for which there is nothing to show, and why.
    pub(crate) fn not_measured(row: impl ToString, what: impl Into<String>, why: impl Into<String>) -> Section {
        Section {
            row: row.to_string(),
            figures: Vec::new(),
            how: why.into(),
            not_measured: Some(what.into()),
            others: None,
        }
    }
}

impl Report {
    /// The table for people.
    pub(crate) fn write(&self, to: &mut dyn Write) -> io::Result<()> {
        let Machine { cores, cpu, kernel, file_system, fsync_median_us, strict_checks_a_core } = &self.machine;
        let fsync = thousands(*fsync_median_us);
        let machine = format!(
            "{cores} cores, {cpu}; Linux {kernel}; {file_system}, fsync {fsync} us (median); {} strict signature checks \
             a second of one core, which is what \"x check\" compares with. Load generator and what is measured share the machine.",
            thousands(*strict_checks_a_core)
        );
        wrapped(to, "", &machine)?;
        writeln!(to)?;
        line(to, ["figure", "measured", "bar", "", "x check"])?;
        for section in &self.rows {
            if let Some(what) = &section.not_measured {
                line(to, [what, "NOT MEASURED", "", "", ""])?;
            }
            for figure in &section.figures {
                let bar = figure.bar.map(|bar| match bar {
                    Bar::AtLeast(value) => format!(">= {}", figure.unit.of(value)),
                    Bar::AtMost(value) => format!("<= {}", figure.unit.of(value)),
                });
                let verdict = figure.verdict.map_or("", |verdict| match verdict {
                    Verdict::Met => "met",
                    Verdict::Missed => "MISSED",
                    Verdict::TooFew => "too few",
                });
                let beside = figure.of_strict_checks.map(|share| format!("{share:.2}x"));
                let measured = figure.unit.of(figure.value);
                line(to, [&figure.what, &measured, &bar.unwrap_or_default(), verdict, &beside.unwrap_or_default()])?;
            }
            wrapped(to, "    ", &section.how)?;
            if let Some(others) = section.others.filter(|others| *others > IDLE) {
                wrapped(to, "    ", &format!("NOT IDLE: other processes used {others:.1} cores meanwhile."))?;
            }
        }
        Ok(())
    }
}

impl Unit {
    fn of(self, value: f64) -> String {
        match self {
            Unit::PerSecond => format!("{}/s", thousands(value)),
            Unit::Milliseconds => format!("{value:.1} ms"),
            Unit::Seconds => format!("{value:.2} s"),
            Unit::CpuMicroseconds => format!("{value:.1} us"),
            Unit::Bytes => format!("{value:.1} B"),
            Unit::Megabytes => format!("{value:.1} MB"),
            Unit::Times => format!("{value:.2}x"),
            Unit::Percent => format!("{value:.1} %"),
        }
    }
}

/// A whole number with a comma between its thousands.
pub(crate) fn thousands(value: f64) -> String {
    let digits = format!("{value:.0}");
    let mut out = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place) % 3 == 0 {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

fn line(to: &mut dyn Write, [what, measured, bar, verdict, beside]: [&str; 5]) -> io::Result<()> {
    let line = format!("{what:<50} {measured:>14} {bar:>14} {verdict:>8} {beside:>8}");
    writeln!(to, "{}", line.trim_end())
}

/// Breaks at spaces. What has none is not broken.
fn wrapped(to: &mut dyn Write, indent: &str, text: &str) -> io::Result<()> {
    let mut line = indent.to_owned();
    for word in text.split(' ') {
        let begun = line.len() > indent.len();
        if begun && line.chars().count() + 1 + word.chars().count() > WIDTH {
            writeln!(to, "{line}")?;
            line = indent.to_owned();
        } else if begun {
            line.push(' ');
        }
        line.push_str(word);
    }
    writeln!(to, "{line}")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;
    use crate::arguments::Row;

    fn report(rows: Vec<Section>) -> String {
        let machine = Machine {
            cores: 2,
            cpu: "A processor with a long name @ 2.00GHz".to_owned(),
            kernel: "6.1".to_owned(),
            file_system: "ext4".to_owned(),
            fsync_median_us: 1234.0,
            strict_checks_a_core: 20_000.0,
        };
        let mut text = Vec::new();
        Report { machine, receipts: Some(1000), rows }.write(&mut text).unwrap();
        String::from_utf8(text).unwrap()
    }

    #[test]
    fn a_bar_is_met_or_missed_and_not_judged_where_the_log_is_too_small_for_it() {
        let verdict = |value, bar, least| Figure::new("", value, Unit::Bytes).bar_from(bar, least, 1000).verdict;
        assert_eq!(verdict(120.0, Bar::AtMost(120.0), 0), Some(Verdict::Met));
        assert_eq!(verdict(120.1, Bar::AtMost(120.0), 1000), Some(Verdict::Missed));
        assert_eq!(verdict(119.0, Bar::AtLeast(120.0), 0), Some(Verdict::Missed));
        assert_eq!(verdict(1.0, Bar::AtMost(120.0), 1001), Some(Verdict::TooFew));
        assert_eq!(verdict(f64::NAN, Bar::AtMost(120.0), 0), Some(Verdict::Missed));
    }

    #[test]
    fn the_table_says_how_and_what_was_not_measured_and_keeps_its_width() {
        let rate = Figure::new("single receipts, 256 connections", 15_000.4, Unit::PerSecond);
        let figures = vec![rate.bar(Bar::AtLeast(15_000.0)).beside(20_000.0)];
        let how = "a sentence that is repeated ".repeat(9).trim_end().to_owned();
        let table = report(vec![
            Section::new(Row::Single, figures, how).others(1.5),
            Section::not_measured(Row::Fsck, "fsck", "there is no such command"),
        ]);
        assert!(table.contains("15,000/s    >= 15,000/s      met    0.75x\n"), "{table}");
        assert!(table.contains("NOT MEASURED\n    there is no such command\n"), "{table}");
        assert!(table.contains("NOT IDLE: other processes used 1.5 cores"), "{table}");
        assert!(table.lines().all(|line| line.chars().count() <= WIDTH), "{table}");
    }
}
