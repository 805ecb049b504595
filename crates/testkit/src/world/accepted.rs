//! Why a bundle that is not as it was may be accepted all the same: proven for each file that was changed, or not at all.

use super::mutation::{FileKind, is_genuine_narrower};
use audit::quote::one_line;
use audit::{BundleSource, MemoryBundle, Severity, Verdict};
use note::{NoteSignature, SignedCheckpoint};
use std::collections::{BTreeMap, BTreeSet};

/// What an accepted change is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Accepted {
    /// The verdict names the file: among those that it ignored, or in a notice about what was changed.
    Named,
    /// A copy of what is there, byte for byte what the log served when it was smaller; or good lines over the same
    /// heads, only on other copies of them.
    Neutral,
    /// What the witness or the log itself served earlier, or a head with fewer lines: an honest fetch brings the same.
    Honest,
    /// A kept proof or a document that nothing else in a bundle speaks of.
    Gone,
}

/// An honest bundle, and the verdict over it.
#[derive(Clone, Debug)]
pub struct Base {
    bundle: MemoryBundle,
    /// The same world's, fetched earlier.
    older: MemoryBundle,
    notices: Notices,
    /// Every line over every head, by the head's text.
    lines: BTreeSet<(String, String)>,
}

type Notices = BTreeSet<(&'static str, String)>;

impl Base {
    /// What changes are compared with.
    pub fn new(bundle: MemoryBundle, older: MemoryBundle, verdict: &Verdict) -> Base {
        let lines = lines_in(&bundle);
        Base { bundle, older, notices: notices(verdict), lines }
    }

    /// Why `changed` may be accepted with this verdict, by file.
    ///
    /// # Errors
    /// A file of which it is not known why: it was accepted as if it were whole.
    pub fn why(&self, changed: &MemoryBundle, verdict: &Verdict) -> Result<BTreeMap<String, Accepted>, String> {
        let now = notices(verdict);
        let same_lines = lines_in(changed) == self.lines;
        let mut why = BTreeMap::new();
        let paths: BTreeSet<String> = self.bundle.list().into_iter().chain(changed.list()).collect();
        for path in paths {
            let accepted = match (self.bundle.get(&path), changed.get(&path)) {
                (before, after) if before == after => continue,
                (_, None) => is_untold(&path, changed, verdict).then_some(Accepted::Gone),
                (_, Some(_)) if self.is_named(&path, verdict, &now) => Some(Accepted::Named),
                (_, Some(after)) if self.is_copy(&path, after) => Some(Accepted::Neutral),
                (Some(before), Some(after)) if self.is_same_head(&path, before, after) => {
                    // A journal's own line is nobody's where the policy pins no journal.
                    let neutral = same_lines || FileKind::of(&path) == Some(FileKind::JournalCheckpoint);
                    Some(if neutral { Accepted::Neutral } else { Accepted::Honest })
                }
                (_, Some(after)) => self.is_older(&path, after).then_some(Accepted::Honest),
            };
            why.insert(path.clone(), accepted.ok_or_else(|| format!("accepted as whole: {path}"))?);
        }
        Ok(why)
    }

    /// What the log served at that width; or a kept proof, its entry or a document under another name.
    fn is_copy(&self, path: &str, after: &[u8]) -> bool {
        let kind = FileKind::of(path);
        let is_loose = matches!(kind, Some(FileKind::KeptProof | FileKind::KeptEntry | FileKind::Evidence));
        let is_it = |other: &String| FileKind::of(other) == kind && self.bundle.get(other) == Some(after);
        is_genuine_narrower(&self.bundle, path, after)
            || self.bundle.get(path).is_none() && is_loose && self.bundle.list().iter().any(is_it)
    }

    fn is_named(&self, path: &str, verdict: &Verdict, now: &Notices) -> bool {
        let codes: &[&str] = match FileKind::of(path) {
            Some(FileKind::Checkpoint | FileKind::WitnessCheckpoint | FileKind::KeptProof) => {
                &["unknown-signature-line", "offered-behind"]
            }
            Some(FileKind::Entries | FileKind::Tile | FileKind::JournalEntries | FileKind::JournalTile) => {
                &["tile-beyond"]
            }
            _ => &[],
        };
        verdict.coverage.ignored.contains(&one_line(path))
            || now.difference(&self.notices).any(|(code, _)| codes.contains(code))
            // An accusation that shows what it says is told with its path, whoever is to be accused.
            || now.iter().any(|(code, shown)| *code == "issuer-fork" && shown.contains(path))
    }

    /// The same head as before, under lines that the honest bundle has over it.
    fn is_same_head(&self, path: &str, before: &[u8], after: &[u8]) -> bool {
        let (Some((front, head)), Some((old_front, old))) = (head_in(path, after), head_in(path, before)) else {
            return false;
        };
        let is_journal = FileKind::of(path) == Some(FileKind::JournalCheckpoint);
        let is_good = |line: &NoteSignature| {
            is_journal && head.claimed().origin.as_str() == line.name.as_str()
                || self.lines.contains(&(head.note().text().to_owned(), line.line()))
        };
        front == old_front && head.note().text() == old.note().text() && head.note().signatures().iter().all(is_good)
    }

    fn is_older(&self, path: &str, after: &[u8]) -> bool {
        FileKind::of(path) == Some(FileKind::WitnessCheckpoint) && self.older.get(path) == Some(after)
    }
}

/// Whether nothing tells that this file is gone, because nothing ever tells that there was one.
fn is_untold(path: &str, changed: &MemoryBundle, verdict: &Verdict) -> bool {
    match FileKind::of(path) {
        Some(FileKind::Evidence) => true,
        Some(FileKind::KeptProof) => {
            let entry = path.replace(".tlog-proof", ".entry");
            changed.get(&entry).is_none() || verdict.coverage.ignored.contains(&one_line(&entry))
        }
        Some(FileKind::KeptEntry) => changed.get(&path.replace(".entry", ".tlog-proof")).is_none(),
        _ => false,
    }
}

fn notices(verdict: &Verdict) -> Notices {
    let findings = verdict.checks.iter().flat_map(|check| &check.findings);
    let notices = findings.filter(|finding| finding.severity == Severity::Notice);
    notices.map(|finding| (finding.code, finding.shown.clone())).collect()
}

/// The signed head in a file, and what a kept proof has in front of it.
fn head_in(path: &str, bytes: &[u8]) -> Option<(Vec<u8>, SignedCheckpoint)> {
    let start = match path.ends_with(".tlog-proof") {
        true => bytes.windows(2).position(|two| two == b"\n\n")? + 2,
        false => 0,
    };
    Some((bytes[..start].to_vec(), SignedCheckpoint::parse(&bytes[start..]).ok()?))
}

fn lines_in(bundle: &MemoryBundle) -> BTreeSet<(String, String)> {
    let mut lines = BTreeSet::new();
    for path in bundle.list() {
        let Some((_, head)) = head_in(&path, bundle.get(&path).unwrap_or_default()) else { continue };
        let text = head.note().text();
        lines.extend(head.note().signatures().iter().map(|line| (text.to_owned(), line.line())));
    }
    lines
}
