//! The judgement: one bundle in, one verdict out. The order of work, and nothing else.
//!
//! ```text
//! log/checkpoint ── the log's key ── /heads, witnesses, journals, kept proofs     everything signed
//!        entries ── chunk by chunk ── signatures on all cores ── in order: issuers, calls, sequence, foreign
//!                 └ recomputed tree ── heads, quorum                              everything that follows
//! ```

use crate::admitted;
use crate::amount::amount;
use crate::bundle::{BundleSource, MAX_NOTE_BYTES, MAX_PAGE_BYTES, ReadError, read_part};
use crate::calls::{CallTerms, Known};
use crate::completeness::{Completeness, SpanMs};
use crate::documents::{Answer, Held, judge_documents};
use crate::evidence::Demand;
use crate::head::{AuthenticatedTree, HeadFacts, judge_freshness, judge_listed, judge_tree};
use crate::heads::{Heads, KnownHead, ListedHeads, NoLog, Source, choose_log};
use crate::issuer::LogEnd;
use crate::issuers::AuditedIssuer;
use crate::kept::{self, KeptProofs};
use crate::known::judge_known;
use crate::members;
use crate::pass::{Edge, Pass};
use crate::quorum::{Vouched, judge_newest, judge_silence, judge_watches, judge_witnessed, judge_witnesses};
use crate::quote::{plain, quoted};
use crate::rules::Rules;
use crate::state::{Judged, NotSaved, SavedAudit, StateError};
use crate::threads;
use crate::tree::Resources;
use crate::verdict::{Check, CheckBuilder, Coverage, Family, Verdict};
use crate::walk::Walk;
use crate::watch;
use crate::witnesses::{Cosignatures, Witnesses, read_witnesses};
use cosign::implied_root;
use merkle::{
    LeafIndex, ResourcePath, RootHash, TreeSize, prove_inclusion, tiles_for_consistency, tiles_for_inclusion,
};
use note::{Policy, SignedCheckpoint, VerifierKey};
use receipt::{Receipt, SeqNo, UnixMillis};
use std::collections::BTreeMap;

/// What the auditor brings: all trust comes from here, none from the bundle.
pub struct Terms<'auditor> {
    /// The log, the witnesses and the quorum.
    pub policy: &'auditor Policy,
    /// The issuers that the auditor cares about.
    pub issuers: &'auditor [AuditedIssuer],
    /// The rules over actions.
    pub rules: &'auditor Rules,
    /// The time of the audit. The audit itself has no clock.
    pub at: Option<UnixMillis>,
    /// How old the newest head may be, in milliseconds. Needs `at`.
    pub max_age_ms: Option<u64>,
    /// How long after an allow its outcome may still be missing, in milliseconds.
    pub outcome_deadline_ms: Option<u64>,
    /// On how many threads signatures are checked.
    pub threads: usize,
    /// Told how many entries have been judged, of how many. Called by any thread.
    pub progress: &'auditor (dyn Fn(u64, u64) + Sync),
}

/// Judges a bundle.
///
/// # Errors
/// [`ReadError`]: the bundle cannot be read; nothing is concluded. Whatever is wrong with what was read is in the
/// verdict.
pub fn audit(bundle: &dyn BundleSource, terms: &Terms<'_>) -> Result<Verdict, ReadError> {
    Ok(audit_since(bundle, terms, None, false)?.verdict)
}

/// What an audit leaves.
#[derive(Debug)]
pub struct Audited {
    /// The verdict.
    pub verdict: Verdict,
    /// The state file for a later audit to go on from, if one was asked for.
    pub state: Option<Result<Vec<u8>, NotSaved>>,
}

/// Judges a bundle, going on from what an earlier audit of the same log saved: entries that it judged are not read again,
/// and [`Coverage::since`] says so; nor are heads of the log's list that it verified. Everything else that is signed is judged
/// anew. `save`: whether to make a state of this one.
///
/// # Errors
/// [`ReadError`]: the bundle cannot be read, or the state is one of other terms.
pub fn audit_since(
    bundle: &dyn BundleSource,
    terms: &Terms<'_>,
    since: Option<SavedAudit>,
    save: bool,
) -> Result<Audited, ReadError> {
    threads::on(terms.threads, || judge(bundle, terms, since, save))
}

fn judge(
    bundle: &dyn BundleSource,
    terms: &Terms<'_>,
    since: Option<SavedAudit>,
    save: bool,
) -> Result<Audited, ReadError> {
    let paths = bundle.list();
    let mut coverage = Coverage {
        at_ms: terms.at.map(|at| at.0),
        ignored: members::ignored(bundle, &paths, terms.policy),
        ..Coverage::default()
    };
    let tolerance = terms.policy.tolerance().into();
    let checkpoint = read_part(bundle, "log/checkpoint", MAX_NOTE_BYTES)?;
    let mut signature = CheckBuilder::new(Family::Head, "log-signature");
    let log = match choose_log(terms.policy, checkpoint.as_deref()) {
        Ok(log) => log,
        Err(why) => {
            report_no_log(&why, &mut signature);
            let checks = vec![signature.finish("no key to judge the log by; nothing in the bundle was checked")];
            let verdict = Verdict::conclude(coverage, tolerance, checks, Vec::new());
            return Ok(Audited { verdict, state: save.then_some(Err(NotSaved::NoHead)) });
        }
    };
    coverage.log = Some(plain(log.name().as_str()));
    let offered = verify_offered(checkpoint, log, &mut signature);
    let mut checks = vec![signature.finish(match &offered {
        Some(offered) => format!("head of size {} of {}", offered.checkpoint().size, quoted(log.name().as_str())),
        None => String::from("no head of the log"),
    })];
    let mut completeness = Completeness::default();
    let since = since.map(|since| Ok::<_, StateError>((since.anchor(terms, log)?, since))).transpose()?;
    let (audit, since) = Audit::read_signed(bundle, &paths, terms, log, offered, since)?;
    let Outcome { checks: judged, evidence, state } =
        audit.judge(&paths, &mut coverage, &mut completeness, since, save)?;
    checks.extend(judged);
    // Stable: within a family the order in which the checks were made.
    checks.sort_by_key(|check| check.family);
    let verdict = Verdict::conclude(coverage, tolerance, checks, evidence);
    Ok(Audited { verdict: Verdict { completeness, ..verdict }, state })
}

/// What is concluded from everything below the offered head's own signature.
struct Outcome {
    checks: Vec<Check>,
    evidence: Vec<serde_json::Value>,
    state: Option<Result<Vec<u8>, NotSaved>>,
}

/// What an audit goes on from, besides what was read of the log's list.
#[derive(Default)]
struct Since {
    edge: Edge,
    roots: BTreeMap<u64, RootHash>,
    walk: Option<Walk>,
    anchor: Option<SignedCheckpoint<note::Verified>>,
}

/// An audit under way: everything signed has been read and verified.
struct Audit<'audit> {
    bundle: &'audit dyn BundleSource,
    terms: &'audit Terms<'audit>,
    log: &'audit VerifierKey,
    resources: Resources,
    offered: Option<SignedCheckpoint<note::Verified>>,
    heads: Heads,
    cosignatures: Cosignatures,
    kept: KeptProofs,
    witnesses: Witnesses,
    /// Checks in the making: the log's list, heads that others know, cosignature lines.
    listed: CheckBuilder,
    known: CheckBuilder,
    lines: CheckBuilder,
}

impl<'audit> Audit<'audit> {
    fn read_signed(
        bundle: &'audit dyn BundleSource,
        paths: &[String],
        terms: &'audit Terms<'audit>,
        log: &'audit VerifierKey,
        offered: Option<SignedCheckpoint<note::Verified>>,
        since: Option<(SignedCheckpoint<note::Verified>, SavedAudit)>,
    ) -> Result<(Audit<'audit>, Since), ReadError> {
        let resources = Resources::below("log/", paths);
        let nothing_listed = || ListedHeads::none(CheckBuilder::new(Family::Head, "heads"));
        let (since, listed) = match since {
            None => (Since::default(), nothing_listed()),
            Some((anchor, saved)) => match continues(bundle, &resources, offered.as_ref(), &anchor)? {
                true => {
                    let SavedAudit { edge, roots, heads, walk, .. } = saved;
                    (Since { edge, roots, walk: Some(walk), anchor: Some(anchor) }, heads)
                }
                // Another history, or none to be seen: everything is read, and the earlier audit's head held against it.
                false => (Since { anchor: Some(anchor), ..Since::default() }, nothing_listed()),
            },
        };
        let mut known = CheckBuilder::new(Family::Head, "known-heads");
        let mut lines = CheckBuilder::new(Family::Quorum, "lines");
        let (mut heads, listed) = Heads::read(bundle, &resources, log, listed)?;
        if let Some(anchor) = &since.anchor {
            heads.learn(KnownHead::new(anchor.clone(), String::from("the earlier audit"), Source::Kept));
        }
        let mut cosignatures = Cosignatures::default();
        if let Some(offered) = &offered {
            cosignatures.read(terms.policy, log, offered, "log/checkpoint", &mut lines);
        }
        let found = (&mut known, &mut lines);
        let mut witnesses = read_witnesses(bundle, paths, terms.policy, log, &mut heads, &mut cosignatures, found)?;
        let kept = KeptProofs::read(bundle, paths, terms.policy, log, &mut heads, &mut cosignatures, &mut lines)?;
        witnesses.complete(&cosignatures);
        let audit = Audit {
            bundle,
            terms,
            log,
            resources,
            offered,
            heads,
            cosignatures,
            kept,
            witnesses,
            listed,
            known,
            lines,
        };
        Ok((audit, since))
    }

    fn judge(
        self,
        paths: &[String],
        coverage: &mut Coverage,
        completeness: &mut Completeness,
        since: Since,
        save: bool,
    ) -> Result<Outcome, ReadError> {
        let terms = self.terms;
        let wanted = self.wanted_sizes();
        let Audit { mut kept, listed, known, lines, .. } = self;
        let offered_size = self.offered.as_ref().map(|head| head.checkpoint().size.0);
        let began_at = since.edge.size();
        // What was judged before counts, also where the log shows less now: the earlier audit's head says that it was there.
        let target = offered_size.max(self.heads.largest_listed()).unwrap_or(0).max(began_at);
        let anchor = since.anchor.as_ref().filter(|_| began_at > 0);
        let read_entry = |index: LeafIndex| -> Result<Option<Vec<u8>>, ReadError> {
            let entry = read_entry(self.bundle, &self.resources, target, index)?;
            match (anchor.filter(|_| index.0 < began_at), entry) {
                // Its page was not judged this time, and may be anybody's.
                (Some(anchor), Some(entry)) => {
                    let is_in = is_in_tree(self.bundle, &self.resources, anchor, index, &entry)?;
                    Ok(is_in.then_some(entry))
                }
                (_, entry) => Ok(entry),
            }
        };
        let mut walk = since.walk.unwrap_or_else(|| Walk::new(terms));
        let mut pass = Pass::begin(&self.resources, self.bundle, target, &wanted, since.edge);
        let calls_terms =
            CallTerms { rules: terms.rules, outcome_deadline_ms: terms.outcome_deadline_ms, read_entry: &read_entry };
        walk.run(&mut pass, &mut kept, &calls_terms, &|judged| (terms.progress)(judged, target))?;
        let (mut replayed, edge) = pass.finish()?;
        replayed.roots.extend(since.roots);
        if let Some(anchor) = anchor {
            roots_before(self.bundle, &self.resources, anchor, &wanted, &mut replayed.roots)?;
            kept.compare_before(began_at, &replayed.roots, &read_entry)?;
        }
        let facts = HeadFacts {
            bundle: self.bundle,
            resources: &self.resources,
            log: self.log,
            checkpoint: self.offered.as_ref(),
            heads: &self.heads,
            replayed: &replayed,
        };
        let authenticated = facts.authenticated_size();
        let state = match facts.anchor(authenticated, authenticated)?.filter(|_| save) {
            None => save.then_some(Err(NotSaved::NoHead)),
            Some(_) if authenticated != edge.size() || !replayed.is_whole() => Some(Err(NotSaved::NotWhole)),
            Some(anchor) => {
                let heads = ListedHeads::of(&self.heads, listed.clone());
                let judged = Judged { edge: &edge, roots: &replayed.roots, heads: &heads, walk: &walk };
                Some(judged.to_file(terms, &anchor))
            }
        };
        let Walk { issuers, foreign, sequence, calls } = walk;
        let vouched = Vouched::of(&facts, authenticated, terms.policy, &self.cosignatures);
        let mut evidence = Vec::new();
        let list_is_whole = !self.heads.listed.is_empty() && listed.count("heads-missing") == 0;
        let mut checks = Vec::from(judge_tree(&facts, authenticated, target));
        checks.push(judge_listed(&facts, authenticated, listed, &mut evidence)?);
        checks.push(judge_known(&facts, authenticated, &self.witnesses, known, list_is_whole, &mut evidence)?);
        // All that were not kept apart are one finding.
        let more = if list_is_whole { self.heads.unlisted_more.saturating_sub(1) } else { 0 };
        completeness.log.heads_omitted = checks.last().map_or(0, |known| known.count("omitted-head")) + more;
        checks.push(judge_witnessed(&facts, terms.policy, &vouched));
        checks.push(judge_freshness(terms.at, terms.max_age_ms, vouched.quorum_at_s));
        checks.push(judge_watches(terms, &self.witnesses.watches, &self.heads, completeness));
        let (kept_check, kept_receipts) = kept.finish(replayed.entries);
        checks.push(kept_check);
        let complete = replayed.stopped.is_none();
        evidence.extend(kept::documents(&facts, authenticated, &kept_receipts, complete)?);
        checks.push(judge_newest(&facts, terms.policy, &vouched));
        checks.push(lines.finish(format!(
            "of the policy's witnesses, {} good",
            amount(self.cosignatures.good.len() as u64, "cosignature is", "cosignatures are")
        )));
        checks.push(judge_witnesses(&facts, authenticated, terms.policy, &self.cosignatures, &mut evidence)?);
        let limit_ms = watch::limit_ms(terms.max_age_ms, &self.witnesses.watches);
        let watched = (self.witnesses.watches.as_slice(), limit_ms);
        checks.push(judge_silence(terms.policy, &self.cosignatures, watched, terms.at, terms.max_age_ms));
        let demanded = |demand: &Demand| -> Result<Answer, ReadError> {
            Ok(match demand {
                Demand::Head { size, root } if self.heads.lists(size.0, *root) => Answer::There,
                Demand::Head { .. } if list_is_whole => Answer::Missing,
                Demand::Head { .. } => Answer::Unread,
                Demand::Entry { index, leaf } => match read_entry(*index)? {
                    Some(entry) if merkle::leaf_hash(&entry) == *leaf => Answer::There,
                    Some(_) => Answer::Missing,
                    None => Answer::Unread,
                },
                Demand::Rotation { issuer, seq, text } => {
                    let entry = issuers.index_of(issuer, SeqNo(*seq)).map(read_entry).transpose()?.flatten();
                    match entry.and_then(|entry| Receipt::parse(&entry).ok()) {
                        Some(held) if held.text() == text => Answer::There,
                        Some(_) => Answer::Missing,
                        None => Answer::Unread,
                    }
                }
            })
        };
        let keys = issuers.keys();
        checks.push(judge_documents(
            &Held {
                bundle: self.bundle,
                paths,
                terms,
                log: self.log,
                issuer_keys: &keys,
                is_of_receipts: !issuers.are_of_something_else(),
            },
            &demanded,
        )?);

        coverage.issued_at_ms = issuers.issued_at_ms();
        completeness.log.entries = replayed.entries;
        completeness.log.heads_listed = self.heads.listed.len() as u64;
        completeness.log.issued = coverage.issued_at_ms.map(|[from_ms, to_ms]| SpanMs { from_ms, to_ms });
        let shown_until = vouched.quorum_at_s.map(|time| UnixMillis(time.saturating_mul(1000)));
        let as_of = terms.at.map(|at| (at, "the time of the audit"));
        let as_of = as_of.or(shown_until.map(|time| (time, "when a quorum last vouched for the head")));
        let unseen = self.heads.largest_other.max(target).saturating_sub(replayed.entries);
        let end = LogEnd { as_of, shown_until, kept: &kept_receipts, complete, unseen };
        let issuers = issuers.finish(&end, self.bundle, &read_entry)?;
        checks.extend(issuers.checks);
        let known = Known {
            as_of: as_of.map(|(time, _)| time),
            vouched: vouched.quorum_at_s.map(|time| UnixMillis(time.saturating_mul(1000))),
            complete: complete && unseen == 0,
        };
        checks.extend(calls.finish(&calls_terms, known)?);
        checks.extend(sequence.finish(terms.rules, &AuthenticatedTree { facts: &facts, authenticated })?);
        checks.extend(foreign.finish());
        completeness.issuers = issuers.lanes;
        evidence.extend(issuers.evidence);
        evidence.extend(admitted::documents(&facts, authenticated, &issuers.breaches)?);

        coverage.entries = replayed.entries;
        coverage.since = (began_at > 0).then_some(began_at);
        coverage.authenticated_size = authenticated;
        coverage.head_size = offered_size;
        coverage.largest_known_size = target.max(self.heads.largest_other);
        coverage.heads = self.heads.listed.len() as u64;
        coverage.cosigned_sizes = vouched.sizes;
        coverage.cosigned_at_s = vouched.times_s;
        coverage.quorum_at_s = vouched.quorum_at_s;
        Ok(Outcome { checks, evidence, state })
    }

    /// Sizes of all heads, ascending: the recomputed root is wanted at each.
    fn wanted_sizes(&self) -> Vec<u64> {
        let offered = self.offered.iter().map(|head| head.checkpoint().size.0);
        let listed = self.heads.listed.iter().map(|head| head.size);
        let unlisted = self.heads.unlisted.iter().map(|head| head.size());
        let cosigned = self.cosignatures.good.iter().map(|cosigned| cosigned.size);
        let mut sizes: Vec<u64> = offered.chain(listed).chain(unlisted).chain(cosigned).collect();
        sizes.sort_unstable();
        sizes.dedup();
        sizes
    }
}

/// Whether the head that the log offers is one of the history that `anchor` vouches for, as far as the bundle's tiles prove.
fn continues(
    bundle: &dyn BundleSource,
    resources: &Resources,
    offered: Option<&SignedCheckpoint<note::Verified>>,
    anchor: &SignedCheckpoint<note::Verified>,
) -> Result<bool, ReadError> {
    let Some(offered) = offered else { return Ok(false) };
    let (held, shown) = (anchor.checkpoint(), offered.checkpoint());
    if shown.size <= held.size {
        return Ok((shown.size, shown.root) == (held.size, held.root));
    }
    let tiles = resources.read_tiles(bundle, tiles_for_consistency(held.size, shown.size))?;
    Ok(implied_root(&tiles, held.size, offered).is_ok_and(|implied| implied.root == held.root))
}

/// Roots that are wanted at sizes before the entries that were read now, and that the earlier audit had no reason to compute:
/// from the bundle's tiles, as far as these prove them to be of the tree that `anchor` vouches for.
fn roots_before(
    bundle: &dyn BundleSource,
    resources: &Resources,
    anchor: &SignedCheckpoint<note::Verified>,
    wanted: &[u64],
    roots: &mut BTreeMap<u64, RootHash>,
) -> Result<(), ReadError> {
    let size = anchor.checkpoint().size;
    for wanted in wanted.iter().copied().filter(|wanted| (1..size.0).contains(wanted)) {
        if !roots.contains_key(&wanted) {
            let tiles = resources.read_tiles(bundle, tiles_for_consistency(TreeSize(wanted), size))?;
            roots.extend(implied_root(&tiles, TreeSize(wanted), anchor).ok().map(|implied| (wanted, implied.root)));
        }
    }
    Ok(())
}

/// Whether an entry is in the tree that `anchor` vouches for, as far as the bundle's tiles prove.
fn is_in_tree(
    bundle: &dyn BundleSource,
    resources: &Resources,
    anchor: &SignedCheckpoint<note::Verified>,
    index: LeafIndex,
    entry: &[u8],
) -> Result<bool, ReadError> {
    let (size, root) = (anchor.checkpoint().size, anchor.checkpoint().root);
    let tiles = resources.read_tiles(bundle, tiles_for_inclusion(index, size))?;
    let proof = prove_inclusion(&tiles, index, size);
    Ok(proof.is_ok_and(|proof| proof.verify(&merkle::leaf_hash(entry), index, size, &root).is_ok()))
}

pub(crate) fn verify_offered(
    checkpoint: Option<Vec<u8>>,
    log: &VerifierKey,
    check: &mut CheckBuilder,
) -> Option<SignedCheckpoint<note::Verified>> {
    let Some(bytes) = checkpoint else {
        check.not_checked("checkpoint-missing", &[], || {
            [
                String::from("the bundle holds no log/checkpoint"),
                String::from("anything about the log's newest head"),
                String::from("fetch the bundle again"),
            ]
        });
        return None;
    };
    match SignedCheckpoint::parse(&bytes).and_then(|checkpoint| checkpoint.verify(log)) {
        Ok(checkpoint) => {
            check.checked();
            Some(checkpoint)
        }
        Err(error) => {
            check.fail("bad-log-signature", &[], || {
                [
                    format!(
                        "log/checkpoint is no head of {}: {}",
                        quoted(log.name().as_str()),
                        plain(&error.to_string())
                    ),
                    String::from("who changed it: the log, or whoever made the bundle"),
                    String::from("fetch it from the log's own address; compare the log's vkey in the policy"),
                ]
            });
            None
        }
    }
}

fn report_no_log(why: &NoLog, check: &mut CheckBuilder) {
    let (shown, next) = match why {
        NoLog::PolicyHasNone => (String::from("the policy names no log"), "add a line: log <vkey>"),
        NoLog::NotPinned(origin) => (
            format!("the bundle is about the log {origin}, which the policy does not list"),
            "add the log's vkey to the policy if you trust it, from its operator and not from the bundle",
        ),
        NoLog::Ambiguous => (
            String::from("log/checkpoint is missing or cannot be read, and the policy lists several logs"),
            "fetch the bundle again",
        ),
    };
    check.not_checked("log-not-pinned", &[], || {
        [shown, String::from("anything: without the log's key nothing is signed"), String::from(next)]
    });
}

/// One entry of a tiled log, read again.
pub(crate) fn read_entry(
    bundle: &dyn BundleSource,
    resources: &Resources,
    size: u64,
    index: LeafIndex,
) -> Result<Option<Vec<u8>>, ReadError> {
    let Some(page) = resources.entries_page(index.0 / u64::from(merkle::TILE_WIDTH), size) else { return Ok(None) };
    let bytes = read_part(bundle, &resources.path(ResourcePath::Entries(page)), MAX_PAGE_BYTES)?.unwrap_or_default();
    let entries = merkle::decode_entries(&bytes).unwrap_or_default();
    Ok(entries.get((index.0 % u64::from(merkle::TILE_WIDTH)) as usize).map(|entry| entry.to_vec()))
}
