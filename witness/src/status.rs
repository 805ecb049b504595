//! `counterfoil-witness status`: how each log is, in words.
//!
//! Holds the wording and the exit status. Forks are shouted, on a line of their own, before anything else.

use crate::view::{LogStatus, WitnessStatus};
use service::{ExitStatus, output::Output};
use std::io::{self, Write};

/// Prints `status` and says how the program should end: failed if any log has forked or is not being cosigned.
pub(crate) fn report(status: &WitnessStatus, output: Output) -> ExitStatus {
    output.print(status, |out| write_words(status, out));
    if status.logs.iter().any(LogStatus::is_in_trouble) { ExitStatus::Failed } else { ExitStatus::Ok }
}

fn write_words(status: &WitnessStatus, out: &mut dyn Write) -> io::Result<()> {
    for log in &status.logs {
        if let Some(evidence) = log.forked {
            writeln!(
                out,
                "!!! FORK: {} SIGNED TWO HISTORIES. Evidence {evidence}; nothing of it is cosigned any more.",
                log.origin
            )?;
            writeln!(
                out,
                "!!! Fetch the evidence at /evidence/{}, check it with `counterfoil-verify evidence FILE`, and show it to whoever relies on this log.",
                evidence / store::EVIDENCE_PAGE as u64
            )?;
        }
    }
    writeln!(out, "witness {}  journal of {} entries", status.witness, status.journal_size)?;
    if status.logs.is_empty() {
        writeln!(out, "no logs configured; add a [[log]] with vkey and url to the configuration")?;
    }
    for log in &status.logs {
        let held = match (log.size, log.cosigned_at) {
            (Some(size), Some(at)) => format!("size {size}, cosigned {} ago", age(status.time / 1000, at)),
            _ => "no head yet".to_owned(),
        };
        let last = match &log.last {
            None => "not fetched yet".to_owned(),
            Some(last) => match &last.error {
                None => last.outcome.as_str().to_owned(),
                Some(error) => format!("{}: {error}", last.outcome.as_str()),
            },
        };
        writeln!(out, "{}  {held}; last fetch {last}", log.origin)?;
    }
    Ok(())
}

/// Seconds between two times, in the largest unit that fits.
fn age(now_s: u64, then_s: u64) -> String {
    match now_s.saturating_sub(then_s) {
        seconds @ 0..120 => format!("{seconds} s"),
        seconds @ 120..7200 => format!("{} min", seconds / 60),
        seconds @ 7200..172_800 => format!("{} h", seconds / 3600),
        seconds => format!("{} d", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;
    use crate::journal::line::Outcome;
    use crate::view::LastFetch;

    fn log(outcome: Outcome, forked: Option<u64>) -> LogStatus {
        LogStatus {
            origin: "log.example/a".to_owned(),
            url: "http://log.example".to_owned(),
            size: Some(15),
            root: None,
            cosigned_at: Some(1000),
            last: Some(LastFetch { time: 1_000_000, outcome, code: None, error: None }),
            forked,
        }
    }

    fn words(logs: Vec<LogStatus>) -> (String, bool) {
        let trouble = logs.iter().any(LogStatus::is_in_trouble);
        let status = WitnessStatus {
            witness: "w".to_owned(),
            vkey: String::new(),
            journal_vkey: String::new(),
            journal_size: 3,
            time: 1_090_000,
            logs,
        };
        let mut out = Vec::new();
        write_words(&status, &mut out).unwrap();
        (String::from_utf8(out).unwrap(), trouble)
    }

    #[test]
    fn a_quiet_witness_says_size_and_age() {
        let (text, trouble) = words(vec![log(Outcome::Unchanged, None)]);
        assert!(text.contains("log.example/a  size 15, cosigned 90 s ago; last fetch unchanged"), "{text}");
        assert!(!trouble && !text.contains("FORK"));
    }

    #[test]
    fn a_fork_is_shouted_first_and_is_trouble() {
        let (text, trouble) = words(vec![log(Outcome::Unchanged, None), log(Outcome::Refused, Some(300))]);
        assert!(text.starts_with("!!! FORK: log.example/a SIGNED TWO HISTORIES. Evidence 300"), "{text}");
        assert!(text.contains("/evidence/1") && trouble);
    }

    #[test]
    fn a_log_that_is_not_cosigned_is_trouble() {
        for outcome in
            [Outcome::Unreachable, Outcome::Unproven, Outcome::BadLogSignature, Outcome::Stale, Outcome::Withheld]
        {
            assert!(log(outcome, None).is_in_trouble(), "{outcome:?}");
        }
        assert!(LogStatus { last: None, ..log(Outcome::Cosigned, None) }.is_in_trouble());
    }
}
