//! What a check of a whole store found, place by place.

use std::fmt;
use std::path::{Path, PathBuf};

/// Findings that are kept. A disk that fails makes millions of them, and nobody reads more than the first few.
const MAX_FINDINGS: usize = 1000;

/// How stored hashes are counted in [`Finding::what`].
pub(crate) const HASH: &str = "hash";

/// What mends it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Remedy {
    /// It is part of the log itself, and only a copy of it can.
    Restore,
    /// It is derived from the entries, and can be derived again.
    Rebuild,
}

/// One thing that is not as it must be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The file.
    pub path: PathBuf,
    /// What is counted: entries, hashes, heads, ….
    pub what: &'static str,
    /// Which one.
    pub position: u64,
    /// What is wrong with it.
    pub why: String,
    /// What mends it.
    pub remedy: Remedy,
}

/// The first thousand findings, and how many there are.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Findings {
    kept: Vec<Finding>,
    count: u64,
    restore: u64,
    in_hashes: bool,
}

impl Finding {
    /// Something of the log itself.
    pub(crate) fn lost(path: &Path, what: &'static str, position: u64, why: impl Into<String>) -> Finding {
        Finding { path: path.to_owned(), what, position, why: why.into(), remedy: Remedy::Restore }
    }

    /// Something that is derived.
    pub(crate) fn derived(path: &Path, what: &'static str, position: u64, why: impl Into<String>) -> Finding {
        Finding { path: path.to_owned(), what, position, why: why.into(), remedy: Remedy::Rebuild }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}: {} {}: {}", self.path.display(), self.what, self.position, self.why)
    }
}

impl Findings {
    pub(crate) fn add(&mut self, finding: Finding) {
        self.count += 1;
        self.in_hashes |= finding.what == HASH;
        self.restore += u64::from(finding.remedy == Remedy::Restore);
        // The first one that nothing here can mend is worth more than the thousandth that something can.
        if self.kept.len() < MAX_FINDINGS || finding.remedy == Remedy::Restore && self.restore == 1 {
            self.kept.push(finding);
        }
    }

    /// The first ones, in the order in which they were found.
    pub fn first(&self) -> &[Finding] {
        &self.kept
    }

    /// How many there are, kept or not.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// How many of them only a copy mends.
    pub fn to_restore(&self) -> u64 {
        self.restore
    }

    /// Whether a stored hash is among them.
    pub fn in_hashes(&self) -> bool {
        self.in_hashes
    }

    /// Nothing was found.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }
}
