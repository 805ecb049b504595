//! The spec ledger: `docs/spec-ledger.tsv` names, for every requirement of seven C2SP texts, the tests that show it
//! here, or says why it is not ours. This test keeps it true; it reads the repository and nothing else.
//!
//! How to add a row. Put it beside its neighbours of the same text and section, six cells apart by tabs:
//!
//! | cell | what stands in it |
//! |---|---|
//! | spec | one of [`TEXTS`] |
//! | section | the heading that the requirement stands under |
//! | requirement | what is asked, in our own words and once; begins with `SHOULD: ` where the text only recommends it |
//! | who | who has to keep it: `log`, `witness`, `client`, `verifier` or `nobody here` |
//! | test | `path::test_name`, several apart by `, `; `-` where no test of ours can show it |
//! | note | why there is no test, or where we are stricter; `-` for nothing to say |
//!
//! A sentence that asks for two things is two rows. A test that is renamed or removed fails here until its rows are
//! right again. When a text changes, read the new one, mend the rows and move its commit in [`TEXTS`].
#![allow(clippy::unwrap_used, clippy::panic)]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

const LEDGER: &str = "docs/spec-ledger.tsv";

/// The texts, and the newest state of each that was read for its rows: a commit of the repository that publishes them,
/// and changes that were merged there later.
const TEXTS: [(&str, &str); 7] = [
    ("signed-note", "055287621bf3; verifier keys by c8760d3db28e; type 0x06 by change 237"),
    ("tlog-checkpoint", "2793893976c8"),
    ("tlog-cosignature", "01194db11950"),
    ("tlog-witness", "change 245, then 273 (monitoring) and 280 (sizes that are zero or equal)"),
    ("tlog-tiles", "0ad71eb1f1b9"),
    ("tlog-proof", "0065ea5b7161, then change 193 (verification)"),
    ("tlog-policy", "13027eee7f3f"),
];

const HEADER: &str = "spec\tsection\trequirement\twho\ttest\tnote";
const WHO: [&str; 5] = ["log", "witness", "client", "verifier", "nobody here"];
const NOTHING: &str = "-";

/// A reason is a sentence, not a shrug.
const SHORTEST_REASON: usize = 12;

/// Lines above a `fn` in which its attributes may stand; none here has more.
const ATTRIBUTE_LINES: usize = 6;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Everything wrong with a ledger, each fault with its line. `read` gives the source file at a path of the repository.
fn faults(ledger: &str, read: impl Fn(&str) -> Option<String>) -> Vec<String> {
    let mut lines = (1..).zip(ledger.lines());
    let mut found = Vec::new();
    if lines.next().map(|(_, line)| line) != Some(HEADER) {
        found.push(format!("line 1: the header is not {HEADER:?}"));
    }
    let mut sources: BTreeMap<String, Option<String>> = BTreeMap::new();
    let (mut seen, mut specs) = (BTreeSet::new(), BTreeSet::new());
    for (number, line) in lines {
        let mut fault = |what: String| found.push(format!("line {number}: {what}"));
        let cells: Vec<&str> = line.split('\t').collect();
        let [spec, section, requirement, who, tests, note] = cells[..] else {
            fault(format!("{} cells, not 6", cells.len()));
            continue;
        };
        if cells.iter().any(|cell| cell.trim() != *cell || cell.is_empty()) {
            fault("a cell is empty, or begins or ends with a blank".into());
        }
        if TEXTS.iter().all(|(text, _)| *text != spec) {
            fault(format!("{spec:?} is none of the texts"));
        }
        specs.insert(spec.to_owned());
        if !WHO.contains(&who) {
            fault(format!("{who:?} is nobody who could keep it"));
        }
        if !seen.insert((spec.to_owned(), section.to_owned(), requirement.to_owned())) {
            fault("the row is there twice".into());
        }
        if tests == NOTHING {
            if note.chars().count() < SHORTEST_REASON {
                fault("no test and no reason".into());
            }
            continue;
        }
        if who == "nobody here" {
            fault("a test for what nobody here does".into());
        }
        let named: Vec<&str> = tests.split(", ").collect();
        if named.iter().collect::<BTreeSet<_>>().len() < named.len() {
            fault("a test is named twice".into());
        }
        for test in named {
            let Some((path, name)) = test.rsplit_once("::") else {
                fault(format!("{test:?} is not path::test_name"));
                continue;
            };
            match sources.entry(path.to_owned()).or_insert_with(|| read(path)) {
                None => fault(format!("there is no file {path}")),
                Some(source) if !has_test(source, name) => fault(format!("{path} has no test {name}")),
                Some(_) => {}
            }
        }
    }
    let missing = TEXTS.iter().filter(|(text, _)| !specs.contains(*text));
    found.extend(missing.map(|(text, _)| format!("no row of {text}")));
    found
}

/// Whether the source has a function of this name under an attribute that makes it a test, and none that skips it.
fn has_test(source: &str, name: &str) -> bool {
    let lines: Vec<&str> = source.lines().map(str::trim).collect();
    let opens = [format!("fn {name}("), format!("async fn {name}(")];
    lines.iter().enumerate().any(|(place, line)| {
        let attributes: Vec<&&str> = lines[place.saturating_sub(ATTRIBUTE_LINES)..place]
            .iter()
            .rev()
            .take_while(|line| line.starts_with("#[") || line.starts_with("//"))
            .collect();
        let is_test = |line: &str| line == "#[test]" || line.starts_with("#[tokio::test");
        opens.iter().any(|open| line.starts_with(open.as_str()))
            && attributes.iter().any(|line| is_test(line))
            && !attributes.iter().any(|line| line.starts_with("#[ignore"))
    })
}

#[test]
fn every_row_of_the_ledger_names_a_test_that_exists_or_says_why_there_is_none() {
    let ledger = std::fs::read_to_string(root().join(LEDGER)).unwrap();
    let found = faults(&ledger, |path| {
        // Inside the repository, and spelt in one way.
        let plain = path.ends_with(".rs") && path.split('/').all(|part| !part.is_empty() && !part.starts_with('.'));
        std::fs::read_to_string(root().join(path)).ok().filter(|_| plain)
    });
    assert!(found.is_empty(), "{LEDGER}:\n{}", found.join("\n"));
}

const SOURCE: &str = "\
    #[test]\n    fn shown() {}\n\n    #[tokio::test(flavor = \"multi_thread\")]\n    async fn shown_in_time() {}\n\n    \
    fn a_helper() {}\n\n    #[test]\n    #[ignore = \"slow\"]\n    fn skipped() {}\n";

/// A ledger without a fault: a row of each text.
fn good() -> String {
    let rows: String = TEXTS
        .iter()
        .map(|(text, _)| format!("{text}\tFormat\tmust be so\tlog\ta/b.rs::shown, a/b.rs::shown_in_time\t-\n"))
        .collect();
    format!("{HEADER}\n{rows}tlog-tiles\tPruning\tmust not\tnobody here\t-\tnothing is pruned here\n")
}

fn faults_of(ledger: &str) -> Vec<String> {
    faults(ledger, |path| (path == "a/b.rs").then(|| SOURCE.to_owned()))
}

#[test]
fn each_fault_of_a_ledger_is_found() {
    assert_eq!(faults_of(&good()), [""; 0]);
    let last = "tlog-tiles\tPruning\tmust not\tnobody here\t-\tnothing is pruned here\n";
    for (from, to, says) in [
        (HEADER, "spec\tsection", "the header is not"),
        ("nothing is pruned here", "-", "no test and no reason"),
        ("a/b.rs::shown,", "a/b.rs::shown_elsewhere,", "a/b.rs has no test shown_elsewhere"),
        ("a/b.rs::shown,", "a/b.rs::show,", "a/b.rs has no test show"),
        ("a/b.rs::shown,", "a/b.rs::a_helper,", "a/b.rs has no test a_helper"),
        ("a/b.rs::shown,", "a/b.rs::skipped,", "a/b.rs has no test skipped"),
        ("a/b.rs::shown,", "a/c.rs::shown,", "there is no file a/c.rs"),
        ("a/b.rs::shown,", "shown,", "is not path::test_name"),
        ("a/b.rs::shown,", "a/b.rs::shown_in_time,", "named twice"),
        ("\tlog\t", "\tsomebody\t", "is nobody who could keep it"),
        ("\tlog\t", "\tnobody here\t", "a test for what nobody here does"),
        ("signed-note\t", "signed-notes\t", "no row of signed-note"),
        ("signed-note\t", "signed-notes\t", "is none of the texts"),
        ("signed-note\tFormat", "signed-note\t Format", "begins or ends with a blank"),
        ("signed-note\tFormat\t", "signed-note\t\t", "a cell is empty"),
        ("signed-note\tFormat\t", "signed-note\tFormat\tmore\t", "7 cells, not 6"),
        (last, "\n", "1 cells, not 6"),
        (last, &format!("{last}{last}"), "the row is there twice"),
    ] {
        assert!(good().contains(from), "{from:?}");
        let found = faults_of(&good().replacen(from, to, 1));
        assert!(found.iter().any(|fault| fault.contains(says)), "{from:?} to {to:?}: {found:?}");
    }
}
