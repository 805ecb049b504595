//! `compare/journal/<witness>`: whether the bundles hold one journal of each witness.
//!
//! A journal is a log of the witness's own. What it says is read where a bundle is read; here only its lines are held
//! against each other, and its heads with their times: a witness told one story if the shorter journal is the beginning
//! of the longer, and if the shorter was not cosigned later.

use super::view::View;
use super::{Source, Unread, side_by_side, tiles_between};
use crate::amount::amount;
use crate::bundle::{MAX_NOTE_BYTES, read_part, witness_dir};
use crate::quote::quoted;
use crate::time::show_time_s;
use crate::tree::Resources;
use crate::verdict::{Check, CheckBuilder, Family};
use cosign::{Comparison, compare};
use note::{KeyName, Policy, SignedCheckpoint, Unverified, VerifierKey, verified_cosignatures};
use std::collections::BTreeSet;

/// One witness's journal in one bundle.
struct Journal<'view> {
    view: &'view View<'view>,
    resources: Resources,
    head: SignedCheckpoint<Unverified>,
    /// When the witness last cosigned this head, Unix seconds; `None` where its key is pinned instead.
    cosigned_at_s: Option<u64>,
}

impl Journal<'_> {
    fn size(&self) -> u64 {
        self.head.claimed().size.0
    }

    fn source(&self) -> Source<'_> {
        Source { number: self.view.number, bundle: self.view.bundle, resources: &self.resources, size: self.size() }
    }
}

/// Every witness of the policy.
pub(super) fn judge(
    views: &[View<'_>],
    policy: &Policy,
    evidence: &mut Vec<serde_json::Value>,
) -> Result<Vec<Check>, Unread> {
    let names: BTreeSet<&KeyName> = policy.witnesses().iter().map(|witness| witness.vkey.name()).collect();
    names.into_iter().map(|name| judge_one(views, policy, name, evidence)).collect()
}

fn judge_one(
    views: &[View<'_>],
    policy: &Policy,
    name: &KeyName,
    evidence: &mut Vec<serde_json::Value>,
) -> Result<Check, Unread> {
    let mut check = CheckBuilder::new(Family::Compare, format!("journal/{name}"));
    let mut journals = Vec::new();
    for view in views {
        match read(view, policy, name)? {
            Some(journal) => journals.push(journal),
            None => check.not_checked("journal-not-compared", &[], || {
                [
                    format!(
                        "bundle {} holds no journal of witness {} that the witness vouches for",
                        view.number,
                        quoted(name.as_str())
                    ),
                    String::from("whether the witness told there what it told elsewhere"),
                    String::from("fetch that bundle again while the witness answers"),
                ]
            }),
        }
    }
    let sources: Vec<Source<'_>> = journals.iter().map(Journal::source).collect();
    let sizes: Vec<u64> = journals.iter().map(Journal::size).collect();
    // The first line in which each two differ.
    let mut differ = vec![vec![None; journals.len()]; journals.len()];
    let mut lines = 0u64;
    let replayed = side_by_side(&sources, &sorted(&sizes), &mut |row| {
        lines += 1;
        for (first, one) in row.iter().enumerate() {
            for (second, other) in row.iter().enumerate().skip(first + 1) {
                if let (Some(one), Some(other)) = (one, other)
                    && one.hash != other.hash
                {
                    differ[first][second].get_or_insert(one.index);
                }
            }
        }
    })?;
    for (first, one) in journals.iter().enumerate() {
        for (second, other) in journals.iter().enumerate().skip(first + 1) {
            check.checked();
            let whole = [first, second].map(|place| {
                let claimed = journals[place].head.claimed();
                replayed[place].roots.get(&claimed.size.0) == Some(&claimed.root)
            });
            let contradict = one.size() == other.size() && one.head.claimed().root != other.head.claimed().root;
            match differ[first][second] {
                Some(line) => report_difference(&mut check, policy, (one, other), Some(line), whole, evidence)?,
                None if contradict => report_difference(&mut check, policy, (one, other), None, whole, evidence)?,
                None => report_rollback(&mut check, name, one, other),
            }
        }
    }
    let covers = match journals.len() as u64 {
        0 | 1 => String::from("nothing to compare"),
        count => format!("{} of up to {}", amount(count, "journal", "journals"), amount(lines, "line", "lines")),
    };
    Ok(check.finish(covers))
}

/// A journal whose head the witness cosigned with one of its keys, or whose own key the policy lists as a log.
fn read<'view>(view: &'view View<'view>, policy: &Policy, name: &KeyName) -> Result<Option<Journal<'view>>, Unread> {
    let prefix = format!("{}/journal/", witness_dir(name));
    let bytes = read_part(view.bundle, &format!("{prefix}checkpoint"), MAX_NOTE_BYTES)
        .map_err(|error| Unread { number: view.number, error })?
        .unwrap_or_default();
    let Ok(head) = SignedCheckpoint::parse(&bytes) else { return Ok(None) };
    if head.claimed().origin.as_str() != format!("{name}/journal") {
        return Ok(None);
    }
    let keys: Vec<VerifierKey> =
        policy.witnesses().iter().map(|witness| &witness.vkey).filter(|key| key.name() == name).cloned().collect();
    let times = verified_cosignatures(head.note(), &keys).into_iter().flatten();
    let cosigned_at_s = times.map(|(_, cosignature)| cosignature.timestamp_s).max();
    let is_pinned = pinned(policy, &head).is_some_and(|key| head.clone().verify(key).is_ok());
    if cosigned_at_s.is_none() && !is_pinned {
        return Ok(None);
    }
    Ok(Some(Journal { view, resources: Resources::below(&prefix, &view.paths), head, cosigned_at_s }))
}

/// The journal's key, if the policy lists it.
fn pinned<'policy>(policy: &'policy Policy, head: &SignedCheckpoint<Unverified>) -> Option<&'policy VerifierKey> {
    policy.logs().iter().map(|log| &log.vkey).find(|key| head.claimed().origin == *key.name())
}

fn report_difference(
    check: &mut CheckBuilder,
    policy: &Policy,
    (one, other): (&Journal<'_>, &Journal<'_>),
    line: Option<u64>,
    whole: [bool; 2],
    evidence: &mut Vec<serde_json::Value>,
) -> Result<(), Unread> {
    let document = match pinned(policy, &one.head) {
        Some(key) => fork(key, one, other)?,
        None => None,
    };
    let next = match &document {
        Some(_) => "publish the evidence document in this report; take the witness out of the policy",
        None => "keep both bundles: both heads are signed by the journal's key; ask the witness's operator",
    };
    evidence.extend(document);
    let numbers = [one.view.number, other.view.number];
    let (shown, not_shown) = match (whole, line) {
        ([true, true], Some(line)) => (
            format!(
                "the journals in bundles {} and {} differ in line {line}, and each is as its head was signed: the witness told two stories",
                numbers[0], numbers[1]
            ),
            "which of the two is the true one",
        ),
        ([true, true], None) | (_, None) => (
            format!(
                "the journals in bundles {} and {} have two heads of one size with two roots: the witness told two stories",
                numbers[0], numbers[1]
            ),
            "which of the two is the true one",
        ),
        (_, Some(line)) => (
            format!(
                "the journals in bundles {} and {} differ in line {line}, and not both are as their heads were signed",
                numbers[0], numbers[1]
            ),
            "who changed a line: the witness, or whoever made the bundle",
        ),
    };
    check.fail("journal-differs", &[], || [shown, String::from(not_shown), String::from(next)]);
    Ok(())
}

/// Evidence against the journal's key.
fn fork(key: &VerifierKey, one: &Journal<'_>, other: &Journal<'_>) -> Result<Option<serde_json::Value>, Unread> {
    let (Ok(first), Ok(second)) = (one.head.clone().verify(key), other.head.clone().verify(key)) else {
        return Ok(None);
    };
    let larger = if one.size() > other.size() { one } else { other };
    let tiles = tiles_between(&larger.source(), first.checkpoint().size, second.checkpoint().size)?;
    match compare(&first, &second, &tiles) {
        Comparison::Fork(fork) => Ok(serde_json::to_value(fork).ok()),
        Comparison::Consistent | Comparison::Unproven(_) => Ok(None),
    }
}

/// A shorter journal that was cosigned later than the longer one.
fn report_rollback(check: &mut CheckBuilder, name: &KeyName, one: &Journal<'_>, other: &Journal<'_>) {
    let (shorter, longer) = if one.size() < other.size() { (one, other) } else { (other, one) };
    let (Some(later), Some(earlier)) = (shorter.cosigned_at_s, longer.cosigned_at_s) else { return };
    if shorter.size() < longer.size() && later > earlier {
        check.fail("journal-rollback", &[], || {
            [
                format!(
                    "witness {} vouched at {} for a journal of {} (bundle {}), and before, at {}, for one of {} (bundle {})",
                    quoted(name.as_str()),
                    show_time_s(later),
                    amount(shorter.size(), "line", "lines"),
                    shorter.view.number,
                    show_time_s(earlier),
                    amount(longer.size(), "line", "lines"),
                    longer.view.number
                ),
                String::from("whether it lied, or lost its newest state"),
                String::from("keep both bundles; ask the witness's operator; take the witness out of the policy"),
            ]
        });
    }
}

fn sorted(sizes: &[u64]) -> Vec<u64> {
    let mut sizes = sizes.to_vec();
    sizes.sort_unstable();
    sizes.dedup();
    sizes
}
