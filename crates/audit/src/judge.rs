//! The judgement: one bundle in, one verdict out. The order of work, and nothing else.
//!
//! ```text
//! log/checkpoint ── the log's key ── /heads, witnesses, journals, kept proofs     everything signed
//!        entries ── chunk by chunk ── signatures on all cores ── in order: issuers, foreign, sequence
//!                 └ recomputed tree ── heads, quorum                              everything that follows
//! ```

use crate::action::Action;
use crate::amount::amount;
use crate::bundle::{
    BundleSource, MAX_EVIDENCE_BYTES, MAX_NOTE_BYTES, MAX_PAGE_BYTES, ReadError, read_part, witness_dir,
};
use crate::evidence::{EvidenceError, check_evidence};
use crate::foreign::ForeignChecks;
use crate::head::{HeadFacts, judge_freshness, judge_known, judge_listed, judge_tree};
use crate::heads::{Heads, NoLog, choose_log};
use crate::issuer::{IssuerChecks, LogEnd};
use crate::issuers::AuditedIssuer;
use crate::kept::{KeptProofs, is_kept};
use crate::parallel;
use crate::quorum::{Vouched, judge_newest, judge_silence, judge_witnessed, judge_witnesses};
use crate::quote::{one_line, plain, quoted};
use crate::rules::Rules;
use crate::sequence::SequenceChecks;
use crate::tree::{Entry, Resources};
use crate::verdict::{Check, CheckBuilder, Coverage, Family, Verdict};
use crate::witnesses::{Cosignatures, read_witnesses};
use merkle::{LeafIndex, ResourcePath};
use note::{Policy, SignedCheckpoint, VerifierKey};
use receipt::{Body, UnixMillis};
use std::collections::BTreeSet;

/// Most files of a bundle that the coverage names as ignored.
const MAX_IGNORED: usize = 100;

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
    /// On how many threads signatures are checked.
    pub threads: usize,
    /// Told how many entries have been judged, of how many.
    pub progress: &'auditor dyn Fn(u64, u64),
}

/// Judges a bundle.
///
/// # Errors
/// [`ReadError`]: the bundle cannot be read; nothing is concluded. Whatever is wrong with what was read is in the
/// verdict.
pub fn audit(bundle: &dyn BundleSource, terms: &Terms<'_>) -> Result<Verdict, ReadError> {
    let paths = bundle.list();
    let mut coverage = Coverage {
        at_ms: terms.at.map(|at| at.0),
        ignored: ignored_files(&paths, terms.policy),
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
            return Ok(Verdict::conclude(coverage, tolerance, checks, Vec::new()));
        }
    };
    coverage.log = Some(plain(log.name().as_str()));
    let offered = verify_offered(checkpoint, log, &mut signature);
    let mut checks = vec![signature.finish(match &offered {
        Some(offered) => format!("head of size {} of {}", offered.checkpoint().size, quoted(log.name().as_str())),
        None => String::from("no head of the log"),
    })];
    let (judged, evidence) = Audit::read_signed(bundle, &paths, terms, log, offered)?.judge(&paths, &mut coverage)?;
    checks.extend(judged);
    // Stable: within a family the order in which the checks were made.
    checks.sort_by_key(|check| check.family);
    Ok(Verdict::conclude(coverage, tolerance, checks, evidence))
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
    ) -> Result<Audit<'audit>, ReadError> {
        let resources = Resources::below("log/", paths);
        let mut listed = CheckBuilder::new(Family::Head, "heads");
        let mut known = CheckBuilder::new(Family::Head, "known-heads");
        let mut lines = CheckBuilder::new(Family::Quorum, "lines");
        let mut heads = Heads::read(bundle, &resources, log, terms.threads, &mut listed)?;
        let mut cosignatures = Cosignatures::default();
        if let Some(offered) = &offered {
            cosignatures.read(terms.policy, log, offered, "log/checkpoint", &mut lines);
        }
        read_witnesses(bundle, paths, terms.policy, log, &mut heads, &mut cosignatures, (&mut known, &mut lines))?;
        let kept = KeptProofs::read(bundle, paths, terms.policy, log, &mut heads, &mut cosignatures, &mut lines)?;
        Ok(Audit { bundle, terms, log, resources, offered, heads, cosignatures, kept, listed, known, lines })
    }

    fn judge(
        self,
        paths: &[String],
        coverage: &mut Coverage,
    ) -> Result<(Vec<Check>, Vec<serde_json::Value>), ReadError> {
        let terms = self.terms;
        let wanted = self.wanted_sizes();
        let Audit { mut kept, listed, known, lines, .. } = self;
        let offered_size = self.offered.as_ref().map(|head| head.checkpoint().size.0);
        let target = offered_size.max(self.heads.largest_listed()).unwrap_or(0);
        let mut issuers = IssuerChecks::new(terms.issuers);
        let mut foreign = ForeignChecks::new();
        let mut sequence = SequenceChecks::new(terms.rules);
        let read_entry = |index: LeafIndex| read_entry(self.bundle, &self.resources, target, index);
        let mut judged = 0;
        let replayed = self.resources.replay(self.bundle, target, &wanted, &mut |entries: &[Entry]| {
            let prepared = parallel::map(terms.threads, entries, |entry| issuers.prepare(entry));
            for (entry, prepared) in entries.iter().zip(prepared) {
                kept.compare(LeafIndex(entry.index), &entry.leaf);
                let Some((at, receipt)) = issuers.place(entry, prepared, &read_entry)? else { continue };
                let action = match receipt.body() {
                    Body::Decision(decision) => Some(Action::of_decision(at, decision)),
                    Body::Foreign(carried) => foreign.add(&at, carried),
                    Body::Unknown { type_name, .. } => {
                        issuers.count_unknown_type(&at, type_name);
                        None
                    }
                    _ => None,
                };
                if let Some(action) = action {
                    sequence.add(action);
                }
            }
            judged += entries.len() as u64;
            (terms.progress)(judged, target);
            Ok(())
        })?;

        let facts = HeadFacts {
            bundle: self.bundle,
            resources: &self.resources,
            log: self.log,
            checkpoint: self.offered.as_ref(),
            heads: &self.heads,
            replayed: &replayed,
        };
        let authenticated = facts.authenticated_size();
        let vouched = Vouched::of(&facts, authenticated, terms.policy, &self.cosignatures);
        let mut evidence = Vec::new();
        let list_is_whole = !self.heads.listed.is_empty() && listed.count("heads-missing") == 0;
        let mut checks = Vec::from(judge_tree(&facts, authenticated, target));
        checks.push(judge_listed(&facts, authenticated, listed, &mut evidence)?);
        checks.push(judge_known(&facts, authenticated, known, list_is_whole, &mut evidence)?);
        checks.push(judge_witnessed(&facts, terms.policy, &vouched));
        checks.push(judge_freshness(terms.at, terms.max_age_ms, vouched.quorum_at_s));
        let (kept_check, kept_receipts) = kept.finish(replayed.entries);
        checks.push(kept_check);
        checks.push(judge_newest(&facts, terms.policy, &vouched));
        checks.push(lines.finish(format!(
            "of the policy's witnesses, {} good",
            amount(self.cosignatures.good.len() as u64, "cosignature is", "cosignatures are")
        )));
        checks.push(judge_witnesses(&facts, authenticated, terms.policy, &self.cosignatures, &mut evidence)?);
        checks.push(judge_silence(terms.policy, &self.cosignatures, terms.at, terms.max_age_ms));
        checks.push(judge_evidence(self.bundle, paths, terms, self.log, &issuers.keys())?);

        coverage.issued_at_ms = issuers.issued_at_ms();
        let as_of = terms.at.map(|at| (at, "the time of the audit"));
        let as_of = as_of.or(vouched
            .quorum_at_s
            .map(|time| (UnixMillis(time.saturating_mul(1000)), "when a quorum last vouched for the head")));
        let end = LogEnd { as_of, kept: &kept_receipts, complete: replayed.stopped.is_none() };
        let (issuer_checks, issuer_evidence) = issuers.finish(&end, self.bundle, &read_entry)?;
        checks.extend(issuer_checks);
        checks.extend(sequence.finish());
        checks.extend(foreign.finish());
        evidence.extend(issuer_evidence);

        coverage.entries = replayed.entries;
        coverage.authenticated_size = authenticated;
        coverage.head_size = offered_size;
        coverage.largest_known_size = target.max(self.heads.largest_other);
        coverage.heads = self.heads.listed.len() as u64;
        coverage.cosigned_sizes = vouched.sizes;
        coverage.cosigned_at_s = vouched.times_s;
        coverage.quorum_at_s = vouched.quorum_at_s;
        coverage.ignored.extend(self.resources.stray.iter().map(|path| one_line(path)));
        cap_ignored(&mut coverage.ignored);
        Ok((checks, evidence))
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

fn verify_offered(
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

/// One entry of the log, read again.
fn read_entry(
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

/// `head/evidence`: accusations that lie in the bundle, each checked by itself. A good one against a key that this
/// audit relies on fails it: against the key, and not the name, which anybody can give a key of his own to accuse
/// its bearer. `issuer_keys` are those that the auditor's issuers have or had.
fn judge_evidence(
    bundle: &dyn BundleSource,
    paths: &[String],
    terms: &Terms<'_>,
    log: &VerifierKey,
    issuer_keys: &[VerifierKey],
) -> Result<Check, ReadError> {
    let mut check = CheckBuilder::new(Family::Head, "evidence");
    let mut files = 0;
    for path in paths.iter().filter(|path| is_evidence(path)) {
        let Some(bytes) = read_part(bundle, path, MAX_EVIDENCE_BYTES)? else { continue };
        files += 1;
        check.checked();
        let shown = std::str::from_utf8(&bytes)
            .map_err(|_| String::from("it is not UTF-8"))
            .and_then(|text| check_evidence(text, issuer_keys).map_err(|error: EvidenceError| error.to_string()));
        match shown {
            Err(why) => check.not_checked("evidence-unproven", &[], || {
                [
                    format!("{}: {why}", quoted(path)),
                    String::from("anything against anyone"),
                    String::from("ask whoever put it there; take it out of the bundle if it shows nothing"),
                ]
            }),
            Ok(shown) => {
                let is_relied_on = shown.key == *log
                    || terms.policy.witnesses().iter().any(|witness| witness.vkey == shown.key)
                    || issuer_keys.contains(&shown.key);
                match is_relied_on {
                    true => check.fail(shown.kind, &[], || {
                        [
                            format!("{}: {}", quoted(path), shown.sentence),
                            shown.not_shown.clone(),
                            String::from("publish it; it stands by itself"),
                        ]
                    }),
                    false => check.notice(shown.kind, &[], || {
                        [
                            format!(
                                "{}, against a key that this audit does not rely on: {}",
                                quoted(path),
                                shown.sentence
                            ),
                            String::from(
                                "anything against anybody whose key you know: anybody can make a key of this name",
                            ),
                            format!(
                                "compare the key it names, {}, with the one you know",
                                plain(&shown.key.to_string())
                            ),
                        ]
                    }),
                }
            }
        }
    }
    check.required(files > 0);
    Ok(check.finish(match files {
        0 => String::from("nothing of this kind in the bundle"),
        files => format!("{files} evidence documents, each checked by itself"),
    }))
}

fn is_evidence(path: &str) -> bool {
    path.starts_with("evidence/") && path.ends_with(".json")
}

/// Files that nothing was concluded from: copies of the auditor's own files, witnesses that the policy does not list,
/// older heads of journals.
fn ignored_files(paths: &[String], policy: &Policy) -> Vec<String> {
    let witnesses: BTreeSet<String> =
        policy.witnesses().iter().map(|witness| format!("{}/", witness_dir(witness.vkey.name()))).collect();
    let is_read = |path: &str| {
        path.starts_with("log/")
            || is_kept(path)
            || is_evidence(path)
            || witnesses.iter().any(|dir| {
                path.strip_prefix(dir.as_str()).is_some_and(|rest| {
                    rest == "checkpoint" || (rest.starts_with("journal/") && !rest.starts_with("journal/heads/"))
                })
            })
    };
    let mut ignored: Vec<String> = paths.iter().filter(|path| !is_read(path)).map(|path| one_line(path)).collect();
    ignored.sort_unstable();
    ignored
}

fn cap_ignored(ignored: &mut Vec<String>) {
    if ignored.len() > MAX_IGNORED {
        let more = ignored.len() - MAX_IGNORED;
        ignored.truncate(MAX_IGNORED);
        ignored.push(format!("... and {more} more"));
    }
}
