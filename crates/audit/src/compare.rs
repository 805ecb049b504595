//! Bundles of one log from several vantage points: are they one history?
//!
//! ```text
//! each bundle: everything signed ─┬─ heads of each against the tree of each      history, lists
//!                                 ├─ cosignatures of all                          witnesses
//!                                 └─ journals, line by line                       journal/<witness>
//! entries of all, side by side ───── page by page                                 entries, issuers
//! ```
//!
//! A log that shows two histories shows each of them whole and in order: no audit of one bundle can find it. Here the
//! signed heads of one bundle meet the entries of another, and its own. Nothing else that an audit of each bundle by
//! itself finds is looked for again: each still needs one. But what could not be read is said, for it could not be
//! compared. Bundles are named by their place, from 1.

mod entries;
mod history;
mod journals;
mod view;

use crate::bundle::{BundleSource, MAX_TILE_BYTES, ReadError, read_part};
use crate::head::HeadFacts;
use crate::heads::NoLog;
use crate::issuers::AuditedIssuer;
use crate::pass::{Edge, Page, Pass};
use crate::quorum::judge_witnesses;
use crate::quote::{plain, quoted};
use crate::threads;
use crate::tree::{Replayed, Resources};
use crate::verdict::{Check, CheckBuilder, Family, Status};
use crate::witnesses::Cosignatures;
use entries::EntryComparison;
use merkle::{Hash, ResourcePath, TileSet, TreeSize};
use note::{Policy, VerifierKey};
use rayon::prelude::*;
use serde::Serialize;
use std::collections::{BTreeSet, VecDeque};
use view::View;

/// Most bundles that are compared at once. Of each a chunk of entries and all heads are in memory.
pub const MAX_BUNDLES: usize = 16;

/// What the auditor brings to a comparison.
pub struct Comparing<'auditor> {
    /// The log and the witnesses.
    pub policy: &'auditor Policy,
    /// The issuers whose keys the auditor knows; without one of them its forks are not shown.
    pub issuers: &'auditor [AuditedIssuer],
    /// On how many threads signatures are checked.
    pub threads: usize,
    /// Told how many entries have been compared, of how many.
    pub progress: &'auditor (dyn Fn(u64, u64) + Sync),
}

/// What one bundle speaks of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct BundleSpan {
    /// Its place among those given, from 1.
    pub number: usize,
    /// Entries that were read.
    pub entries: u64,
    /// Largest head in it whose root its own entries reproduce.
    pub authenticated_size: u64,
    /// Size of the head in its `log/checkpoint`.
    pub head_size: Option<u64>,
    /// Heads in the log's list.
    pub heads: u64,
    /// Largest size of any head in it.
    pub largest_known_size: u64,
}

/// Whether the bundles are one history.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// `fail` if any check failed; else `not_checked` if a required one is; else `ok`.
    pub overall: Status,
    /// 0, 1 or 2 (protocol 8).
    pub exit_code: u8,
    /// The log, by origin.
    pub log: String,
    /// Each bundle, in the order given.
    pub bundles: Vec<BundleSpan>,
    /// All checks: first what could be read of each bundle, then what the comparison found.
    pub checks: Vec<Check>,
    /// Evidence documents, each of which anybody can check by itself (protocol 7).
    pub evidence: Vec<serde_json::Value>,
}

impl Comparison {
    /// The check with this id (`family/name`), if there is one.
    pub fn check(&self, id: &str) -> Option<&Check> {
        self.checks.iter().find(|check| check.id() == id)
    }

    /// How many findings of `code` there are over all checks.
    pub fn count(&self, code: &str) -> u64 {
        self.checks.iter().map(|check| check.count(code)).sum()
    }
}

/// Why nothing was compared.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CompareError {
    /// One bundle, or none, or too many.
    #[error("{0} bundles were given; compare takes from 2 to {MAX_BUNDLES} bundles of one log")]
    Number(usize),
    /// Two bundles are of two logs.
    #[error("bundle 1 is of the log {first} and bundle {number} of the log {other}: nothing of one binds the other")]
    DifferentLogs {
        /// The log of the first bundle, quoted.
        first: String,
        /// Which bundle is of another log.
        number: usize,
        /// That log, quoted.
        other: String,
    },
    /// The policy has no key for a bundle.
    #[error("bundle {number} cannot be compared: {reason}")]
    NoLog {
        /// Which bundle.
        number: usize,
        /// Why there is no key, and what to do.
        reason: String,
    },
    /// A bundle cannot be read.
    #[error("bundle {number}: {error}")]
    Read {
        /// Which bundle.
        number: usize,
        /// What the system said.
        error: ReadError,
    },
}

/// Compares bundles of one log.
///
/// # Errors
/// [`CompareError`]: nothing was compared.
pub fn compare(bundles: &[&dyn BundleSource], terms: &Comparing<'_>) -> Result<Comparison, CompareError> {
    if !(2..=MAX_BUNDLES).contains(&bundles.len()) {
        return Err(CompareError::Number(bundles.len()));
    }
    threads::on(terms.threads, || run(bundles, terms))
}

fn run(bundles: &[&dyn BundleSource], terms: &Comparing<'_>) -> Result<Comparison, CompareError> {
    let log = one_log(bundles, terms.policy)?;
    let mut checks = Vec::new();
    let mut views = Vec::new();
    let mut cosignatures = Cosignatures::default();
    for (bundle, number) in bundles.iter().zip(1..) {
        let read = View::read(*bundle, number, terms.policy, log, &mut cosignatures, &mut checks);
        views.push(read.map_err(|error| CompareError::Read { number, error })?);
    }
    let judged = judge(&views, &cosignatures, log, terms);
    let (spans, compared, evidence) =
        judged.map_err(|Unread { number, error }| CompareError::Read { number, error })?;
    checks.extend(compared);
    let overall = Status::of(&checks);
    Ok(Comparison {
        overall,
        exit_code: overall.exit_code(),
        log: plain(log.name().as_str()),
        bundles: spans,
        checks,
        evidence,
    })
}

/// The key of the one log that all bundles are of.
fn one_log<'policy>(
    bundles: &[&dyn BundleSource],
    policy: &'policy Policy,
) -> Result<&'policy VerifierKey, CompareError> {
    let mut first: Option<&VerifierKey> = None;
    for (bundle, number) in bundles.iter().zip(1..) {
        let log = view::log_of(*bundle, policy).map_err(|error| CompareError::Read { number, error })?;
        let log = log.map_err(|why| CompareError::NoLog { number, reason: in_words(&why) })?;
        match first {
            Some(first) if first != log => {
                let [first, other] = [first, log].map(|log| quoted(log.name().as_str()));
                return Err(CompareError::DifferentLogs { first, number, other });
            }
            _ => first = Some(log),
        }
    }
    first.ok_or(CompareError::Number(0))
}

fn in_words(why: &NoLog) -> String {
    match why {
        NoLog::PolicyHasNone => String::from("the policy names no log; add a line: log <vkey>"),
        NoLog::NotPinned(origin) => format!(
            "it is of the log {origin}, which the policy does not list; add the log's vkey if you trust it, from its operator"
        ),
        NoLog::Ambiguous => String::from(
            "its log/checkpoint is missing or cannot be read, and the policy lists several logs; fetch it again",
        ),
    }
}

/// A bundle that failed while it was read.
pub(crate) struct Unread {
    number: usize,
    error: ReadError,
}

type Judged = (Vec<BundleSpan>, Vec<Check>, Vec<serde_json::Value>);

fn judge(
    views: &[View<'_>],
    cosignatures: &Cosignatures,
    log: &VerifierKey,
    terms: &Comparing<'_>,
) -> Result<Judged, Unread> {
    let mut wanted: Vec<u64> = views.iter().flat_map(View::sizes).collect();
    wanted.extend(cosignatures.good.iter().map(|cosigned| cosigned.size));
    wanted.sort_unstable();
    wanted.dedup();
    let sources: Vec<Source<'_>> = views.iter().map(View::entries).collect();
    let total = views.iter().map(|view| view.target).max().unwrap_or(0);
    let mut comparison = EntryComparison::new();
    let mut compared = 0;
    let replayed = side_by_side(&sources, &wanted, &mut |entries| {
        comparison.add(entries);
        compared += 1;
        if compared % 4096 == 0 || compared == total {
            (terms.progress)(compared, total);
        }
    })?;

    let facts: Vec<HeadFacts<'_>> =
        views.iter().zip(&replayed).map(|(view, replayed)| view.facts(log, replayed)).collect();
    let authenticated: Vec<u64> = facts.iter().map(HeadFacts::authenticated_size).collect();
    let mut evidence = Vec::new();
    let mut checks = history::judge(views, &facts, &authenticated, log, &mut evidence)?;
    checks.push(witnesses(&facts, &authenticated, terms.policy, cosignatures, &mut evidence)?);
    checks.extend(journals::judge(views, terms.policy, &mut evidence)?);
    checks.extend(comparison.finish(views, terms.issuers, &mut evidence)?);
    let spans = views.iter().zip(&replayed).zip(&authenticated);
    let spans = spans.map(|((view, replayed), authenticated)| BundleSpan {
        number: view.number,
        entries: replayed.entries,
        authenticated_size: *authenticated,
        head_size: view.offered.as_ref().map(|head| head.checkpoint().size.0),
        heads: view.heads.listed.len() as u64,
        largest_known_size: view.target.max(view.heads.largest_other),
    });
    Ok((spans.collect(), checks, evidence))
}

/// `compare/witnesses`: no witness vouches for two histories, over the cosignatures of all bundles.
fn witnesses(
    facts: &[HeadFacts<'_>],
    authenticated: &[u64],
    policy: &Policy,
    cosignatures: &Cosignatures,
    evidence: &mut Vec<serde_json::Value>,
) -> Result<Check, Unread> {
    let mut check = CheckBuilder::new(Family::Compare, "witnesses");
    check.required(!policy.witnesses().is_empty());
    let mut said = BTreeSet::new();
    let mut covers = String::new();
    for ((facts, authenticated), number) in facts.iter().zip(authenticated).zip(1..) {
        let mut documents = Vec::new();
        let of_tree = judge_witnesses(facts, *authenticated, policy, cosignatures, &mut documents)
            .map_err(|error| Unread { number, error })?;
        if of_tree.status != Status::NotChecked {
            check.checked();
        }
        // What one tree shows another may show too, in the same words.
        let mut fresh = false;
        for finding in of_tree.findings.into_iter().filter(|finding| said.insert(finding.shown.clone())) {
            fresh = true;
            check.find(finding.code, finding.severity, &[], || [finding.shown, finding.not_shown, finding.next]);
        }
        if fresh {
            evidence.extend(documents);
        }
        covers = of_tree.covers;
    }
    Ok(check.finish(format!("{covers}, over all bundles")))
}

/// A tiled log in one bundle, as far as `size`.
#[derive(Clone, Copy)]
pub(crate) struct Source<'view> {
    number: usize,
    bundle: &'view dyn BundleSource,
    resources: &'view Resources,
    size: u64,
}

/// One entry, hashed.
struct Leaf {
    index: u64,
    hash: Hash,
    bytes: Vec<u8>,
}

/// A tiled log while it is read beside others.
struct Reading<'view> {
    number: usize,
    pass: Pass<'view>,
    /// Read, and not handed on.
    waiting: VecDeque<Leaf>,
}

impl Reading<'_> {
    fn next(&mut self) -> Result<Option<Leaf>, Unread> {
        if self.waiting.is_empty() {
            self.read().map_err(|error| Unread { number: self.number, error })?;
        }
        Ok(self.waiting.pop_front())
    }

    fn read(&mut self) -> Result<(), ReadError> {
        let pages = self.pass.next_chunk()?.unwrap_or_default();
        let entries: Vec<(u64, &[u8])> = pages.iter().flat_map(Page::entries).collect();
        let hashed =
            |(index, bytes): (u64, &[u8])| Leaf { index, hash: merkle::leaf_hash(bytes), bytes: bytes.to_vec() };
        let leaves: Vec<Leaf> = entries.into_par_iter().map(hashed).collect();
        leaves.iter().try_for_each(|leaf| self.pass.grow(leaf.hash))?;
        self.waiting.extend(leaves);
        Ok(())
    }
}

/// Reads several tiled logs at the same time and hands on the entries of each index, `None` for those that have ended.
/// Of each a chunk is in memory. Answers what became of each, with the roots at the `wanted` sizes.
fn side_by_side(
    sources: &[Source<'_>],
    wanted: &[u64],
    visit: &mut dyn FnMut(&[Option<Leaf>]),
) -> Result<Vec<Replayed>, Unread> {
    let mut readings = Vec::new();
    for Source { number, bundle, resources, size } in sources {
        // A root beyond its end is never reached.
        let wanted = &wanted[..wanted.partition_point(|wanted| wanted <= size)];
        let pass = Pass::begin(resources, *bundle, *size, wanted, Edge::default());
        readings.push(Reading { number: *number, pass, waiting: VecDeque::new() });
    }
    loop {
        let row = readings.iter_mut().map(Reading::next).collect::<Result<Vec<_>, Unread>>()?;
        if row.iter().all(Option::is_none) {
            break;
        }
        visit(&row);
    }
    let finish = |Reading { number, pass, .. }: Reading<'_>| {
        pass.finish().map(|(replayed, _)| replayed).map_err(|error| Unread { number, error })
    };
    readings.into_iter().map(finish).collect()
}

/// The tiles by which heads of these two sizes are compared, as far as a bundle has them.
fn tiles_between(source: &Source<'_>, one: TreeSize, other: TreeSize) -> Result<TileSet, Unread> {
    let mut tiles = TileSet::new();
    for tile in cosign::tiles_needed(one, other).into_iter().filter_map(|tile| source.resources.tile_at(tile)) {
        let path = source.resources.path(ResourcePath::Tile(tile));
        let bytes = read_part(source.bundle, &path, MAX_TILE_BYTES)
            .map_err(|error| Unread { number: source.number, error })?
            .unwrap_or_default();
        // A tile of the wrong length is as good as none.
        let _ = tiles.insert(tile, &bytes);
    }
    Ok(tiles)
}
