//! `counterfoil-witness status`: how each log is, on one screen.
//!
//! Holds the wording, the order and the exit status. Forks are shouted before anything else; logs in trouble come before
//! those that are well; what does not fit on the screen is counted. No line is wider than the terminal, but for keys and
//! commands, which are for copying.

use crate::evidence::Crime;
use crate::view::{LogStatus, PeerStatus, WitnessStatus};
use audit::amount::amount;
use audit::quote::plain;
use service::wrap::{columns, cut_middle, hanging_within};
use service::{ExitStatus, output::Output};
use std::collections::BTreeMap;
use std::io::{self, Write};

/// Lines of the table on a screen of 24: what is above and below it, a fork's shout and the prompt take the others.
const TABLE_LINES: usize = 13;

/// Of these, lines for peers.
const PEER_LINES: usize = 4;

/// Forks that are shouted one by one.
const SHOUTS: usize = 3;

/// Columns of the table beside a log's name, with the longest word for what came of a fetch.
const OTHER_COLUMNS: usize = 41;

/// How it is to be printed.
#[derive(Clone, Copy)]
struct Screen {
    /// All logs and whole sentences, or as many as a screen holds.
    all: bool,
    /// Its columns.
    width: usize,
}

/// Prints the `status` of the witness at `url` and says how the program should end: failed if any log has forked or is not
/// being cosigned. `all` logs are listed, with whole sentences, or as many as a screen holds.
pub(crate) fn report(status: &WitnessStatus, url: &str, all: bool, output: Output) -> ExitStatus {
    let screen = Screen { all, width: columns() };
    output.print(status, |out| write_words(status, url, screen, out));
    if status.logs.iter().any(LogStatus::is_in_trouble) { ExitStatus::Failed } else { ExitStatus::Ok }
}

fn write_words(status: &WitnessStatus, url: &str, screen: Screen, out: &mut dyn Write) -> io::Result<()> {
    let Screen { all, width } = screen;
    let forked: Vec<(&LogStatus, u64)> = status.logs.iter().filter_map(|log| Some((log, log.forked?))).collect();
    let shouts = if all { forked.len() } else { SHOUTS };
    for (log, evidence) in forked.iter().take(shouts) {
        let (shout, did) = match log.crime {
            Some(Crime::LogAdmitted) => ("RULES", "ADMITTED WHAT IT MUST REFUSE"),
            Some(Crime::LogFork) | None => ("FORK", "SIGNED TWO HISTORIES"),
        };
        let name = plain(&log.origin);
        let name = cut_middle(&name, width.saturating_sub(shout.len() + did.len() + 7));
        writeln!(out, "!!! {shout}: {name} {did}")?;
        writeln!(out, "!!!   counterfoil-witness evidence show {evidence} --url {url}")?;
    }
    if forked.len() > shouts {
        writeln!(out, "!!! and {} more", forked.len() - shouts)?;
    }
    // What is watched of peers stands with the peers.
    let (logs, journals): (Vec<&LogStatus>, Vec<_>) = status.logs.iter().partition(|log| log.journal_of.is_none());
    writeln!(out, "witness {}, level {}", cut_middle(&plain(&status.witness), width.saturating_sub(27)), status.level)?;
    writeln!(out, "journal of {} under the key", amount(status.journal_size, "entry", "entries"))?;
    writeln!(out, "{}", plain(&status.journal_vkey))?;
    writeln!(out, "evidence: {} held", amount(status.evidence, "document", "documents"))?;
    let mut peers = peer_rows(status, width);
    if !all && peers.len() > PEER_LINES {
        let hidden = peers.split_off(PEER_LINES - 1).len();
        peers.push(format!("and {hidden} more peers; --all shows them"));
    }
    peers.iter().try_for_each(|line| writeln!(out, "{line}"))?;
    let accused = journals.iter().filter(|journal| journal.forked.is_some()).count() as u64;
    if accused > 0 {
        writeln!(out, "{} of a peer accused", amount(accused, "journal", "journals"))?;
    }
    if logs.is_empty() {
        return writeln!(out, "no log is configured; add one:\n  counterfoil-witness log add VKEY URL --config FILE");
    }
    let troubled = logs.iter().filter(|log| log.is_in_trouble()).count();
    let (well, forked) = (logs.len() - troubled, logs.iter().filter(|log| log.forked.is_some()).count());
    writeln!(out, "logs: {well} cosigned, {troubled} not cosigned, {forked} of these accused")?;
    let name_width = width.saturating_sub(OTHER_COLUMNS);
    writeln!(out, "\n{:<name_width$} {:>12} {:>8}  LAST FETCH", "LOG", "SIZE HELD", "COSIGNED")?;
    let mut in_order = logs;
    // Stable: within a class the order is the configuration's.
    in_order.sort_by_key(|log| (log.forked.is_none(), !log.is_in_trouble()));
    let mut room = if all { usize::MAX } else { TABLE_LINES - peers.len() };
    let (mut shown, mut is_cut) = (0, false);
    for log in &in_order {
        let lines = rows(log, status.time / 1000, screen, &mut is_cut);
        let Some(left) = room.checked_sub(lines.len()) else { break };
        room = left;
        shown += 1;
        lines.iter().try_for_each(|line| writeln!(out, "{line}"))?;
    }
    if let Some(hidden) = in_order.get(shown..).filter(|hidden| !hidden.is_empty()) {
        let in_trouble = hidden.iter().filter(|log| log.is_in_trouble()).count();
        writeln!(out, "... and {} more, {in_trouble} of them not cosigned; --all shows them", hidden.len())?;
    } else if is_cut {
        writeln!(out, "... --all shows these sentences whole")?;
    }
    Ok(())
}

/// A line for each peer: on how many logs it was found to agree, and what is wrong with one of the others.
fn peer_rows(status: &WitnessStatus, width: usize) -> Vec<String> {
    let mut peers: BTreeMap<&str, Vec<&PeerStatus>> = BTreeMap::new();
    for log in status.logs.iter().filter(|log| log.journal_of.is_none()) {
        log.peers.iter().for_each(|peer| peers.entry(&peer.peer).or_default().push(peer));
    }
    let row = |(name, on): (&str, Vec<&PeerStatus>)| {
        let agreeing = on.iter().filter(|peer| peer.agreed_at.is_some() && peer.code.is_none()).count();
        let last = on.iter().filter_map(|peer| peer.agreed_at).max();
        let last = last
            .map_or_else(|| "never yet".to_owned(), |at| format!("last {} ago", age(status.time / 1000, at / 1000)));
        // A log that forked or a peer that is down is worth more than one that holds nothing.
        let troubles = || on.iter().filter_map(|peer| peer.code.as_deref());
        let trouble = troubles().find(|code| *code == "forked").or_else(|| troubles().next());
        let trouble = trouble.map_or_else(String::new, |code| {
            let code = cut_middle(&plain(code), 20);
            format!("; not on {}: {code}", troubles().count())
        });
        let said = format!(": agrees on {agreeing} of {} logs, {last}{trouble}", on.len());
        let room = width.saturating_sub("peer ".len() + said.chars().count());
        format!("peer {}{said}", cut_middle(&plain(name), room))
    };
    peers.into_iter().map(row).collect()
}

/// One line for a log that is well, and others that say what is wrong with a log that is not. Tells whether a sentence
/// `is_cut`.
fn rows(log: &LogStatus, now_s: u64, screen: Screen, is_cut: &mut bool) -> Vec<String> {
    let Screen { all, width } = screen;
    let name_width = width.saturating_sub(OTHER_COLUMNS);
    let name = plain(&log.origin);
    let size = log.size.map_or_else(|| "none".to_owned(), |size| size.to_string());
    let cosigned = log.cosigned_at.map_or_else(|| "never".to_owned(), |at| age(now_s, at));
    let outcome = log.last.as_ref().map_or("not fetched yet", |last| last.outcome.as_str());
    // The largest sizes take some of the name's columns.
    let name_width = name_width.saturating_sub(size.len().saturating_sub(12));
    let (mut rows, name) = if all && name.chars().count() > name_width {
        (vec![name], String::new())
    } else {
        (Vec::new(), cut_middle(&name, name_width))
    };
    rows.push(format!("{name:<name_width$} {size:>12} {cosigned:>8}  {outcome}"));
    if let Some(error) = log.last.as_ref().and_then(|last| last.error.as_deref()) {
        let error = plain(error).replace('\n', " ");
        if all {
            rows.extend(hanging_within(width, "    ", &error));
        } else {
            *is_cut |= error.chars().count() > width - 4;
            rows.push(format!("    {}", cut(&error, width - 4)));
        }
    }
    rows
}

/// At most `width` characters of `text`, with a sign where some are left out.
fn cut(text: &str, width: usize) -> String {
    match text.char_indices().nth(width) {
        None => text.to_owned(),
        Some(_) => text.chars().take(width - 3).chain("...".chars()).collect(),
    }
}

/// Seconds between two times, in the largest unit that fits.
pub(crate) fn age(now_s: u64, then_s: u64) -> String {
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
    use crate::settings::Level;
    use crate::view::LastFetch;
    use service::wrap::WIDTH;

    fn log(outcome: Outcome, forked: Option<u64>) -> LogStatus {
        LogStatus {
            origin: "log.example/a".to_owned(),
            url: Some("http://log.example".to_owned()),
            size: Some(15),
            root: None,
            cosigned_at: Some(1000),
            last: Some(LastFetch { time: 1_000_000, outcome, code: None, error: None }),
            forked,
            journal_of: None,
            peers: Vec::new(),
            crime: None,
        }
    }

    fn words(logs: Vec<LogStatus>, all: bool) -> String {
        let status = WitnessStatus {
            witness: "w".to_owned(),
            vkey: String::new(),
            mldsa_vkey: None,
            journal_vkey: "w/journal+k".to_owned(),
            journal_size: 3,
            level: Level::Consistency,
            evidence: 2,
            time: 1_090_000,
            logs,
        };
        let mut out = Vec::new();
        write_words(&status, "http://w", Screen { all, width: WIDTH }, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    fn named(name: &str, log: LogStatus) -> LogStatus {
        LogStatus { origin: name.to_owned(), ..log }
    }

    fn failing(sentence: &str) -> LogStatus {
        let error = Some(sentence.to_owned());
        let last =
            LastFetch { time: 1_000_000, outcome: Outcome::Unreachable, code: Some("connect".to_owned()), error };
        LogStatus { last: Some(last), ..log(Outcome::Unreachable, None) }
    }

    #[test]
    fn peers_are_told_in_a_line_each_and_their_journals_are_no_logs_of_ours() {
        let agrees =
            |peer: &str| PeerStatus { agreed_at: Some(1_080_000), agreed_size: Some(15), ..PeerStatus::new(peer) };
        let down = PeerStatus { code: Some("connect".to_owned()), ..PeerStatus::new("w.example/3") };
        let well = log(Outcome::Unchanged, None);
        let logs = vec![
            LogStatus {
                peers: vec![agrees("w.example/2"), agrees("w.example/3")],
                ..named("log.example/a", well.clone())
            },
            LogStatus { peers: vec![agrees("w.example/2"), down], ..named("log.example/b", well) },
            LogStatus {
                journal_of: Some("w.example/2".to_owned()),
                ..named("w.example/2/journal", log(Outcome::Unreachable, None))
            },
        ];
        assert!(logs.iter().all(|log| !log.is_in_trouble()), "a peer that is down is its own operator's trouble");
        let said = words(logs, false);
        assert!(said.contains("\npeer w.example/2: agrees on 2 of 2 logs, last 10 s ago\n"), "{said}");
        assert!(
            said.contains("\npeer w.example/3: agrees on 1 of 2 logs, last 10 s ago; not on 1: connect\n"),
            "{said}"
        );
        assert!(said.contains("logs: 2 cosigned, 0 not cosigned") && !said.contains("journal  "), "{said}");
        let forked =
            LogStatus { journal_of: Some("w".to_owned()), ..named("w/journal", log(Outcome::Refused, Some(3))) };
        let said = words(vec![forked.clone()], false);
        assert!(forked.is_in_trouble() && said.starts_with("!!! FORK: w/journal SIGNED TWO"), "{said}");
        assert!(said.contains("\n1 journal of a peer accused\n"), "{said}");
    }

    #[test]
    fn a_quiet_witness_says_size_and_age() {
        let text = words(vec![log(Outcome::Unchanged, None)], false);
        let row = text.lines().last().unwrap();
        assert_eq!(row.split_whitespace().collect::<Vec<_>>(), ["log.example/a", "15", "90", "s", "unchanged"]);
        assert!(text.contains("logs: 1 cosigned, 0 not cosigned") && !text.contains("FORK"), "{text}");
    }

    #[test]
    fn a_fork_is_shouted_first_and_its_log_listed_first() {
        let forked = named("log.example/forked", log(Outcome::Refused, Some(300)));
        let text = words(vec![log(Outcome::Unchanged, None), failing("no"), forked.clone()], false);
        assert!(text.starts_with("!!! FORK: log.example/forked SIGNED TWO HISTORIES"), "{text}");
        assert!(text.contains("evidence show 300 --url http://w\n"), "{text}");
        let places =
            ["\nlog.example/forked ", "refused", "unreachable", "unchanged"].map(|word| text.find(word).unwrap());
        assert!(places.is_sorted(), "{text}");
        let many = words(vec![forked; 10], false);
        assert_eq!(many.matches("SIGNED TWO").count(), SHOUTS);
        assert!(many.contains("!!! and 7 more"), "{many}");
    }

    #[test]
    fn a_thousand_logs_fit_on_one_screen_and_all_of_them_are_there_when_asked_for() {
        let hostile = named(&"log.example/\u{1b}[31m\u{202e}".repeat(9), failing(&"cannot\nconnect \u{7} ".repeat(40)));
        let mut logs =
            vec![named(&"l".repeat(200), LogStatus { size: Some(u64::MAX / 2), ..log(Outcome::Unchanged, None) }); 990];
        logs.extend(vec![hostile; 10]);
        let text = words(logs.clone(), false);
        assert!(text.lines().count() <= 22, "{text}");
        for line in text.lines() {
            assert!(line.chars().count() <= WIDTH && !line.contains(|c: char| c.is_control()), "{line}");
        }
        assert!(text.contains("logs: 990 cosigned, 10 not cosigned, 0 of these accused"), "{text}");
        assert!(text.ends_with("... and 994 more, 4 of them not cosigned; --all shows them\n"), "{text}");
        let whole = words(logs, true);
        assert!(whole.lines().count() > 1010);
        assert!(whole.contains(&"l".repeat(200)));
        assert_eq!(whole.matches("cannot").count(), 400, "whole sentences");
    }

    #[test]
    fn the_key_of_the_journal_level_and_evidence_are_told_even_where_nothing_is_watched() {
        let said = words(Vec::new(), false);
        for line in [
            "witness w, level consistency",
            "journal of 3 entries under the key\nw/journal+k",
            "evidence: 2 documents held",
        ] {
            assert!(said.contains(&format!("{line}\n")), "{said}");
        }
        assert!(said.contains("no log is configured"), "{said}");
    }

    #[test]
    fn names_that_begin_alike_are_told_apart_and_a_cut_sentence_says_how_to_read_it() {
        let long =
            |end: &str| named(&format!("log.example/{}/{end}", "a".repeat(60)), failing(&"no answer ".repeat(20)));
        let said = words(vec![long("one"), long("two")], false);
        assert!(said.contains("a/one ") && said.contains("a/two "), "{said}");
        assert!(said.ends_with("... --all shows these sentences whole\n"), "{said}");
        let whole = words(vec![long("one")], true);
        assert!(!whole.contains("...") && whole.lines().all(|line| line.chars().count() <= WIDTH), "{whole}");
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
