//! The head family: the log's signed heads against the tree recomputed from its entries.
//!
//! The entries in a bundle are worth what a signed head makes of them. The largest head whose root they reproduce
//! authenticates them; below it, a signed head with another root is a fork of the log. Above it they prove nothing:
//! a head there that they do not reproduce may be right and the entries cut.

use crate::amount::amount;
use crate::bundle::{BundleSource, ReadError};
use crate::heads::{Heads, KnownHead, ListedHead};
use crate::read_roots::{SignedTree, TreeRoot};
use crate::time::{show_duration, show_time, show_time_s};
use crate::tree::{Replayed, Resources, Stopped};
use crate::verdict::{Check, CheckBuilder, Family};
use cosign::{LogFork, implied_root};
use merkle::{LeafIndex, RootHash, TileId, TileSet, TreeSize, tiles_for_consistency, tiles_for_inclusion};
use note::{SignedCheckpoint, Verified, VerifierKey};
use receipt::{MAX_AHEAD_MS, UnixMillis};
use std::collections::BTreeSet;

/// Most forks that are turned into evidence documents; one is enough to convict.
const MAX_FORK_EVIDENCE: usize = 10;

/// Everything the head family judges by.
pub(crate) struct HeadFacts<'audit> {
    pub(crate) bundle: &'audit dyn BundleSource,
    pub(crate) resources: &'audit Resources,
    pub(crate) log: &'audit VerifierKey,
    pub(crate) checkpoint: Option<&'audit SignedCheckpoint<Verified>>,
    pub(crate) heads: &'audit Heads,
    pub(crate) replayed: &'audit Replayed,
}

/// How a head stands to the recomputed tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// Its root is the recomputed one.
    OnTree,
    /// The entries are authenticated at or beyond its size, and its root is another.
    Fork,
    /// Its root is another, and no larger head vouches for the entries.
    Mismatch,
    /// The entries do not reach to its size.
    Uncovered,
}

impl HeadFacts<'_> {
    /// Largest size at which a signed head has the recomputed root.
    pub(crate) fn authenticated_size(&self) -> u64 {
        let listed =
            self.heads.listed.iter().rev().find(|head| self.is_recomputed(head.size, head.root)).map(|head| head.size);
        let offered = self
            .checkpoint
            .map(|head| head.checkpoint())
            .filter(|head| self.is_recomputed(head.size.0, head.root))
            .map(|head| head.size.0);
        let others = self
            .heads
            .unlisted
            .iter()
            .filter(|head| self.is_recomputed(head.size(), head.root()))
            .map(KnownHead::size)
            .max();
        listed.max(offered).max(others).unwrap_or(0)
    }

    fn is_recomputed(&self, size: u64, root: RootHash) -> bool {
        self.replayed.roots.get(&size) == Some(&root)
    }

    pub(crate) fn standing(&self, size: u64, root: RootHash, authenticated: u64) -> Standing {
        match self.replayed.roots.get(&size) {
            None => Standing::Uncovered,
            Some(recomputed) if *recomputed == root => Standing::OnTree,
            Some(_) if size <= authenticated => Standing::Fork,
            Some(_) => Standing::Mismatch,
        }
    }

    /// Tiles of the bundle that tell what a head of `larger` says about `smaller`. What is missing is left out.
    pub(crate) fn tiles(&self, smaller: u64, larger: u64) -> Result<TileSet, ReadError> {
        self.resources.read_tiles(self.bundle, tiles_for_consistency(TreeSize(smaller), TreeSize(larger)))
    }

    /// Tiles of the bundle that prove entries to be in a tree of `size`. What is missing is left out.
    pub(crate) fn inclusion_tiles(
        &self,
        indices: impl Iterator<Item = LeafIndex>,
        size: TreeSize,
    ) -> Result<TileSet, ReadError> {
        let tiles: BTreeSet<TileId> = indices.flat_map(|index| tiles_for_inclusion(index, size)).collect();
        self.resources.read_tiles(self.bundle, tiles)
    }

    /// A head on the recomputed tree that vouches for at least `size`.
    pub(crate) fn anchor(
        &self,
        size: u64,
        authenticated: u64,
    ) -> Result<Option<SignedCheckpoint<Verified>>, ReadError> {
        if let Some(offered) = self.checkpoint.filter(|head| {
            head.checkpoint().size.0 >= size && self.is_recomputed(head.checkpoint().size.0, head.checkpoint().root)
        }) {
            return Ok(Some(offered.clone()));
        }
        let on_tree = |head: &&ListedHead| self.is_recomputed(head.size, head.root);
        if let Some(listed) = self.heads.listed_at(authenticated).iter().find(on_tree) {
            return self.heads.listed_note(self.bundle, self.resources, *listed, self.log);
        }
        let other = self
            .heads
            .unlisted
            .iter()
            .find(|head| head.size() == authenticated && self.is_recomputed(head.size(), head.root()));
        Ok(other.map(|head| head.checkpoint.clone()))
    }

    /// Evidence that `head` contradicts the recomputed tree, if the bundle holds what it takes.
    pub(crate) fn fork_evidence(
        &self,
        head: &SignedCheckpoint<Verified>,
        authenticated: u64,
    ) -> Result<Option<LogFork>, ReadError> {
        let Some(anchor) = self.anchor(head.checkpoint().size.0, authenticated)? else { return Ok(None) };
        let (smaller, larger) = (head.checkpoint().size, anchor.checkpoint().size);
        let implied = match smaller == larger {
            true => None,
            false => implied_root(&self.tiles(smaller.0, larger.0)?, smaller, &anchor).ok(),
        };
        Ok(LogFork::make(head, &anchor, implied).ok())
    }
}

/// The tree as far as a signed head vouches for it.
pub(crate) struct AuthenticatedTree<'facts> {
    pub(crate) facts: &'facts HeadFacts<'facts>,
    pub(crate) authenticated: u64,
}

impl SignedTree for AuthenticatedTree<'_> {
    fn root_at(&self, size: u64) -> Result<TreeRoot, ReadError> {
        if size > self.authenticated {
            return Ok(TreeRoot::Beyond);
        }
        if let Some(root) = self.facts.replayed.roots.get(&size) {
            return Ok(TreeRoot::Is(*root));
        }
        let Some(anchor) = self.facts.anchor(self.authenticated, self.authenticated)? else {
            return Ok(TreeRoot::Unknown);
        };
        let tiles = self.facts.tiles(size, anchor.checkpoint().size.0)?;
        let implied = implied_root(&tiles, TreeSize(size), &anchor);
        Ok(implied.map_or(TreeRoot::Unknown, |implied| TreeRoot::Is(implied.root)))
    }

    fn is_signed(&self, size: u64, root: RootHash) -> bool {
        let unlisted = &self.facts.heads.unlisted;
        self.facts.heads.lists(size, root) || unlisted.iter().any(|head| head.size() == size && head.root() == root)
    }
}

/// `head/root`, `head/tiles`: the tree under the heads.
pub(crate) fn judge_tree(facts: &HeadFacts<'_>, authenticated: u64, target: u64) -> [Check; 2] {
    let replayed = facts.replayed;
    let mut root = CheckBuilder::new(Family::Head, "root");
    if target == 0 {
        root.not_checked("empty-log", &[], || {
            [
                String::from("no head in the bundle speaks of any entry"),
                String::from("anything: an empty log has nothing to check"),
                String::from("audit again when the log has entries"),
            ]
        });
    }
    if authenticated > 0 {
        root.checked();
    }
    if replayed.wrong_pages.count > 0 {
        root.fail("page-wrong", &[], || {
            [
                format!("pages of entries do not hold what their paths say: {}", replayed.wrong_pages.show()),
                String::from("who cut or changed them: the log, or whoever made the bundle"),
                String::from("fetch the log from its own address"),
            ]
        });
    }
    match &replayed.stopped {
        Some(Stopped::Missing(page)) => root.not_checked("entries-missing", &[], || {
            [
                format!("{page} is not in the bundle: {} of {target} entries are there to read", replayed.entries),
                String::from("anything about the entries from there on"),
                String::from("fetch the bundle again"),
            ]
        }),
        Some(Stopped::Cut(page)) => root.fail("page-wrong", &[], || {
            [
                format!("{page} ends inside an entry: {} of {target} entries are there to read", replayed.entries),
                String::from("who cut it: the log, or whoever made the bundle"),
                String::from("fetch the log from its own address"),
            ]
        }),
        None => {}
    }
    if let Some(size) = first_mismatch(facts, authenticated) {
        root.fail("root-mismatch", &[], || {
            [
                format!("the entries in the bundle are not those that the head of size {size} was signed over; they are as far as size {authenticated}"),
                String::from("which entry differs, or who cut or changed it: the log, or whoever made the bundle"),
                String::from("fetch the log from its own address; findings about issuers and tiles below may name the place"),
            ]
        });
    }
    let mut tiles = CheckBuilder::new(Family::Head, "tiles");
    let tally = &replayed.tiles;
    if tally.compared > 0 {
        tiles.checked();
    }
    if tally.different.count > 0 {
        tiles.fail("tile-differs", &[], || {
            [
                format!("tiles differ from the hashes of the entries: {}", tally.different.show()),
                String::from("which of the two is as the log serves it"),
                String::from("fetch the log from its own address"),
            ]
        });
    }
    if tally.missing.count > 0 {
        tiles.not_checked("tile-missing", &[], || {
            [
                format!("tiles are not in the bundle: {}", tally.missing.show()),
                String::from("that the log serves them"),
                String::from("fetch the bundle again"),
            ]
        });
    }
    if tally.beyond.count > 0 {
        tiles.notice("tile-beyond", &[], || {
            [
                format!("tiles and pages reach beyond the newest head in the bundle: {}", tally.beyond.show()),
                String::from("anything that only they hold: no head in the bundle covers it, and nobody looked at it"),
                String::from("nothing to do"),
            ]
        });
    }
    [
        root.finish(format!(
            "{} recomputed; signed heads vouch for the first {authenticated}",
            amount(replayed.entries, "entry", "entries")
        )),
        tiles.finish(format!("{} compared with the recomputed tree", amount(tally.compared, "tile", "tiles"))),
    ]
}

/// Size of the smallest head, beyond what is authenticated, that the entries should reproduce and do not.
fn first_mismatch(facts: &HeadFacts<'_>, authenticated: u64) -> Option<u64> {
    // With entries cut out, the tree never reaches the heads above; they are as little reproduced as if it did.
    let cut = facts.replayed.wrong_pages.count > 0 && facts.replayed.stopped.is_none();
    let is_mismatch = |size: u64, root: RootHash| match facts.standing(size, root, authenticated) {
        Standing::Mismatch => true,
        Standing::Uncovered => cut,
        Standing::OnTree | Standing::Fork => false,
    };
    let listed = facts
        .heads
        .listed
        .iter()
        .find(|head| head.size > authenticated && is_mismatch(head.size, head.root))
        .map(|head| head.size);
    let offered = facts
        .checkpoint
        .map(|head| head.checkpoint())
        .filter(|head| head.size.0 > authenticated && is_mismatch(head.size.0, head.root));
    listed.into_iter().chain(offered.map(|head| head.size.0)).min()
}

/// Completes `head/heads`: every head of the log's own list on one tree, the offered one among them.
pub(crate) fn judge_listed(
    facts: &HeadFacts<'_>,
    authenticated: u64,
    mut check: CheckBuilder,
    evidence: &mut Vec<serde_json::Value>,
) -> Result<Check, ReadError> {
    let heads = facts.heads;
    if heads.listed.is_empty() && check.count("heads-missing") == 0 && check.count("bad-log-signature") == 0 {
        check.not_checked("heads-missing", &[], || {
            [
                String::from("the bundle holds no list of the log's heads"),
                String::from("that the log signed one history only"),
                String::from("fetch the bundle again from a log that serves /heads"),
            ]
        });
    }
    let mut on_tree = 0u64;
    for (place, head) in heads.listed.iter().enumerate() {
        match facts.standing(head.size, head.root, authenticated) {
            Standing::OnTree => on_tree += 1,
            Standing::Fork => {
                let note = match check.count("log-fork") < MAX_FORK_EVIDENCE as u64 {
                    true => heads.listed_note(facts.bundle, facts.resources, *head, facts.log)?,
                    false => None,
                };
                report_fork(
                    facts,
                    head.size,
                    "the log's own list",
                    note.as_ref(),
                    authenticated,
                    &mut check,
                    evidence,
                )?;
            }
            Standing::Mismatch | Standing::Uncovered => {
                // Two roots at one size are a fork whatever the entries say; every other case is head/root's.
                let twin = place
                    .checked_sub(1)
                    .map(|before| heads.listed[before])
                    .filter(|before| before.size == head.size && before.root != head.root);
                if let Some(twin) = twin {
                    if check.count("log-fork") >= MAX_FORK_EVIDENCE as u64 {
                        report_twins(head.size, None, &mut check, evidence);
                        continue;
                    }
                    let one = heads.listed_note(facts.bundle, facts.resources, *head, facts.log)?;
                    let other = heads.listed_note(facts.bundle, facts.resources, twin, facts.log)?;
                    if let (Some(one), Some(other)) = (one, other) {
                        report_twins(head.size, Some((&one, &other)), &mut check, evidence);
                    }
                }
            }
        }
    }
    if let Some(offered) = facts
        .checkpoint
        .filter(|head| !heads.listed.is_empty() && !heads.lists(head.checkpoint().size.0, head.checkpoint().root))
    {
        check.fail("omitted-head", &[], || {
            [
                format!(
                    "the log offers a head of size {} that its own list of heads does not have",
                    offered.checkpoint().size
                ),
                String::from("who left it out: the log, or whoever made the bundle"),
                String::from("fetch the list from the log itself"),
            ]
        });
    }
    Ok(check.finish(format!(
        "{} in the log's list, {on_tree} on the recomputed tree",
        amount(heads.listed.len() as u64, "head", "heads")
    )))
}

pub(crate) fn report_fork(
    facts: &HeadFacts<'_>,
    size: u64,
    found_in: &str,
    note: Option<&SignedCheckpoint<Verified>>,
    authenticated: u64,
    check: &mut CheckBuilder,
    evidence: &mut Vec<serde_json::Value>,
) -> Result<(), ReadError> {
    let mut made = false;
    if let Some(note) = note.filter(|_| check.count("log-fork") < MAX_FORK_EVIDENCE as u64)
        && let Some(fork) = facts.fork_evidence(note, authenticated)?
    {
        evidence.extend(serde_json::to_value(fork).ok());
        made = true;
    }
    check.fail("log-fork", &[], || {
        [
            format!("the log signed two histories: a head in {found_in} of size {size} has another root than the tree that the log signed at size {authenticated}"),
            String::from("which of the two is the true one, and who was shown which"),
            String::from(if made { "publish the evidence document in this report; anybody can check it" } else { "fetch the log's tiles to make evidence that anybody can check" }),
        ]
    });
    Ok(())
}

pub(crate) fn report_twins(
    size: u64,
    twins: Option<(&SignedCheckpoint<Verified>, &SignedCheckpoint<Verified>)>,
    check: &mut CheckBuilder,
    evidence: &mut Vec<serde_json::Value>,
) {
    if let Some(fork) = twins
        .filter(|_| check.count("log-fork") < MAX_FORK_EVIDENCE as u64)
        .and_then(|(one, other)| LogFork::make(one, other, None).ok())
    {
        evidence.extend(serde_json::to_value(fork).ok());
    }
    check.fail("log-fork", &[], || {
        [
            format!("the log signed two histories: two heads of size {size} with two roots"),
            String::from("which of the two is the true one, and who was shown which"),
            String::from("publish the evidence document in this report; anybody can check it"),
        ]
    });
}

/// `head/freshness`: the time at which a quorum last vouched for the head, against the auditor's limit.
pub(crate) fn judge_freshness(at: Option<UnixMillis>, max_age_ms: Option<u64>, quorum_at_s: Option<u64>) -> Check {
    let mut check = CheckBuilder::new(Family::Head, "freshness");
    let Some(max_age_ms) = max_age_ms else {
        check.required(false);
        return check.finish("no --max-age was given");
    };
    let (Some(at), Some(vouched_s)) = (at, quorum_at_s) else {
        check.not_checked("age-unknown", &[], || {
            [
                String::from(if at.is_none() {
                    "the time of the audit is not known"
                } else {
                    "no quorum of witnesses vouched for the head at any time"
                }),
                String::from("how old the head is"),
                String::from(if at.is_none() {
                    "give the time of the audit with --at"
                } else {
                    "fetch again when a quorum has cosigned"
                }),
            ]
        });
        return check.finish("nothing to compare");
    };
    let vouched_ms = vouched_s.saturating_mul(1000);
    if vouched_ms > at.0.saturating_add(MAX_AHEAD_MS) {
        check.not_checked("age-unknown", &[], || {
            [
                format!("a quorum vouched for this head at {}, after the time that was given", show_time_s(vouched_s)),
                String::from("how old the head was then: the bundle is of a later time"),
                String::from("give the time at which the bundle was fetched with --at"),
            ]
        });
        return check.finish("the time that was given is before the bundle's");
    }
    check.checked();
    let age_ms = at.0.saturating_sub(vouched_ms);
    if age_ms > max_age_ms {
        check.fail("stale", &[], || {
            [
                format!(
                    "a quorum last vouched for this head at {}, {} before {}; the limit is {}",
                    show_time_s(vouched_s),
                    show_duration(age_ms),
                    show_time(at),
                    show_duration(max_age_ms)
                ),
                String::from("whether the log stands still or newer heads were left out"),
                String::from(
                    "fetch the bundle again; if the witnesses still vouch for nothing newer, ask the log's operator",
                ),
            ]
        });
    }
    check.finish(format!("vouched for {} before {}", show_duration(age_ms), show_time(at)))
}
