//! The quorum family: do enough of the policy's witnesses vouch for the newest head, and does any of them vouch for
//! two histories.
//!
//! Witnesses that look at their own times cosign different heads. One that cosigned a later head vouched for every
//! earlier one on the same tree, and the tree was recomputed from entries: so it counts for the earlier one too
//! (joined quorum).

use crate::amount::amount;
use crate::bundle::ReadError;
use crate::head::{HeadFacts, Standing};
use crate::quote::quoted;
use crate::time::{show_duration, show_time, show_time_s};
use crate::verdict::{Check, CheckBuilder, Family};
use crate::witnesses::{Cosignatures, Cosigned};
use cosign::{WitnessFork, implied_root};
use merkle::{RootHash, TreeSize};
use note::Policy;
use receipt::UnixMillis;
use std::collections::{BTreeMap, BTreeSet};

/// What the cosignatures say about the newest head.
#[derive(Debug, Default)]
pub(crate) struct Vouched {
    /// Latest time of each witness that vouched for the newest head, itself or by a later one.
    at_s: BTreeMap<usize, u64>,
    direct: BTreeSet<usize>,
    /// Latest time by which a quorum had vouched.
    pub(crate) quorum_at_s: Option<u64>,
    /// Smallest and largest cosigned size on the tree.
    pub(crate) sizes: Option<[u64; 2]>,
    /// Earliest and latest cosignature on the tree.
    pub(crate) times_s: Option<[u64; 2]>,
}

impl Vouched {
    pub(crate) fn of(
        facts: &HeadFacts<'_>,
        authenticated: u64,
        policy: &Policy,
        cosignatures: &Cosignatures,
    ) -> Vouched {
        let mut vouched = Vouched::default();
        let newest = facts.checkpoint.map(|head| (head.checkpoint().size.0, head.checkpoint().root));
        let newest_stands = newest.map(|(size, root)| facts.standing(size, root, authenticated));
        for cosigned in &cosignatures.good {
            let on_tree = facts.standing(cosigned.size, cosigned.root, authenticated) == Standing::OnTree;
            if on_tree {
                let [smallest, largest] = vouched.sizes.unwrap_or([cosigned.size; 2]);
                vouched.sizes = Some([smallest.min(cosigned.size), largest.max(cosigned.size)]);
                let [first, last] = vouched.times_s.unwrap_or([cosigned.timestamp_s; 2]);
                vouched.times_s = Some([first.min(cosigned.timestamp_s), last.max(cosigned.timestamp_s)]);
            }
            let direct = newest == Some((cosigned.size, cosigned.root));
            let joined = on_tree
                && newest_stands == Some(Standing::OnTree)
                && newest.is_some_and(|(size, _)| cosigned.size > size);
            if direct || joined {
                let at_s = vouched.at_s.entry(cosigned.witness).or_insert(0);
                *at_s = (*at_s).max(cosigned.timestamp_s);
            }
            if direct {
                vouched.direct.insert(cosigned.witness);
            }
        }
        // Of all times: the latest at or after which a quorum's members still vouched.
        let times: BTreeSet<u64> = vouched.at_s.values().copied().collect();
        vouched.quorum_at_s = times.into_iter().rev().find(|time| {
            let since: BTreeSet<usize> =
                vouched.at_s.iter().filter(|(_, at)| *at >= time).map(|(witness, _)| *witness).collect();
            policy.quorum().is_some() && policy.satisfied_by(&since)
        });
        vouched
    }
}

/// `quorum/newest-head`.
pub(crate) fn judge_newest(facts: &HeadFacts<'_>, policy: &Policy, vouched: &Vouched) -> Check {
    let mut check = CheckBuilder::new(Family::Quorum, "newest-head");
    let name_of = |witness: &usize| quoted(policy.witnesses()[*witness].vkey.name().as_str());
    let counted: BTreeSet<usize> = vouched.at_s.keys().copied().collect();
    let joined: Vec<String> = counted.difference(&vouched.direct).map(name_of).collect();
    match (facts.checkpoint, policy.quorum()) {
        (None, _) => {}
        (Some(_), None) => check.not_checked("quorum-none", &[], || {
            [
                String::from("the policy asks for no witness (quorum none)"),
                String::from("that anybody but the log vouches for this head"),
                String::from("name witnesses and a quorum in the policy"),
            ]
        }),
        (Some(head), Some(_)) => {
            check.checked();
            if !policy.satisfied_by(&counted) {
                let absent: Vec<String> = (0..policy.witnesses().len())
                    .filter(|witness| !counted.contains(witness))
                    .map(|witness| name_of(&witness))
                    .collect();
                check.fail("quorum-missing", &[], || {
                    [
                        format!(
                            "the head of size {} lacks its quorum; no cosignature of {} in the bundle vouches for it",
                            head.checkpoint().size,
                            absent.join(", ")
                        ),
                        String::from("that the log shows this head to everybody"),
                        String::from("fetch again when the witnesses have cosigned; ask those that do not why"),
                    ]
                });
            }
        }
    }
    let covers = match facts.checkpoint {
        None => String::from("no head of the log in the bundle"),
        Some(head) => {
            let by: Vec<String> = vouched.direct.iter().map(name_of).collect();
            let joined =
                if joined.is_empty() { String::new() } else { format!("; by a later head: {}", joined.join(", ")) };
            let when =
                vouched.quorum_at_s.map(|time| format!("; a quorum at {}", show_time_s(time))).unwrap_or_default();
            format!(
                "head of size {}; cosigned by: {}{joined}{when}",
                head.checkpoint().size,
                if by.is_empty() { String::from("nobody") } else { by.join(", ") }
            )
        }
    };
    check.finish(covers)
}

/// `head/witnessed`: how far the witnesses vouch for the log.
pub(crate) fn judge_witnessed(facts: &HeadFacts<'_>, policy: &Policy, vouched: &Vouched) -> Check {
    let mut check = CheckBuilder::new(Family::Head, "witnessed");
    let offered = facts.checkpoint.map_or(0, |head| head.checkpoint().size.0);
    let cosigned = vouched.sizes.map_or(0, |[_, largest]| largest);
    if offered > 0 && !policy.witnesses().is_empty() {
        check.checked();
        if vouched.at_s.is_empty() {
            check.fail("never-witnessed", &[], || {
                [
                    format!("no witness of the policy ever cosigned the head of size {offered}; cosignatures reach to size {cosigned}"),
                    String::from("that the log shows the rest to everybody"),
                    String::from("fetch again when the witnesses have cosigned"),
                ]
            });
        }
    }
    let newest = facts.heads.largest_listed().unwrap_or(0);
    if newest > offered.max(cosigned) && offered > 0 {
        check.notice("not-yet-offered", &[], || {
            [
                format!("the log has signed a head of size {newest} and offers one of size {offered} for cosigning"),
                format!("that a witness has seen the entries from {offered} on"),
                String::from("nothing to do: the log offers one head at a time"),
            ]
        });
    }
    check.finish(match vouched.sizes {
        None => String::from("no good cosignature over any head on the tree"),
        Some([smallest, largest]) => format!(
            "cosignatures exist from size {smallest} to size {largest}; entries before it are vouched for by them too"
        ),
    })
}

/// `quorum/witnesses`: no witness vouches for two histories of the log.
pub(crate) fn judge_witnesses(
    facts: &HeadFacts<'_>,
    authenticated: u64,
    policy: &Policy,
    cosignatures: &Cosignatures,
    evidence: &mut Vec<serde_json::Value>,
) -> Result<Check, ReadError> {
    let mut check = CheckBuilder::new(Family::Quorum, "witnesses");
    let mut of_witness: BTreeMap<usize, BTreeMap<(u64, RootHash), &Cosigned>> = BTreeMap::new();
    for cosigned in &cosignatures.good {
        check.checked();
        of_witness.entry(cosigned.witness).or_default().entry((cosigned.size, cosigned.root)).or_insert(cosigned);
    }
    for (witness, heads) in &of_witness {
        let heads: Vec<&Cosigned> = heads.values().copied().collect();
        let Some(fork) = contradiction(facts, authenticated, &heads) else { continue };
        let vkey = &policy.witnesses()[*witness].vkey;
        if let (Some(smaller), Some(larger)) = (cosignatures.note_of(fork.0), cosignatures.note_of(fork.1)) {
            let implied = match fork.0.size == fork.1.size {
                true => None,
                false => implied_root(&facts.tiles(fork.0.size, fork.1.size)?, TreeSize(fork.0.size), larger).ok(),
            };
            if let Ok(document) = WitnessFork::make(vkey, smaller, larger, implied) {
                evidence.extend(serde_json::to_value(document).ok());
            }
        }
        check.fail("witness-fork", &[], || {
            [
                format!("witness {} vouched for two histories: a head of size {} and one of size {} that contradict each other", quoted(vkey.name().as_str()), fork.0.size, fork.1.size),
                String::from("whether it lied, lost its state or lost its key"),
                String::from("publish the evidence; take the witness out of the policy"),
            ]
        });
    }
    Ok(check.finish(format!(
        "{} of {} compared with each other",
        amount(cosignatures.good.len() as u64, "good cosignature", "good cosignatures"),
        amount(of_witness.len() as u64, "witness", "witnesses")
    )))
}

/// Two heads that one witness cosigned and no history holds both, the smaller first. `heads` are ascending by size.
fn contradiction<'heads>(
    facts: &HeadFacts<'_>,
    authenticated: u64,
    heads: &[&'heads Cosigned],
) -> Option<(&'heads Cosigned, &'heads Cosigned)> {
    let twins = heads.windows(2).find(|pair| pair[0].size == pair[1].size);
    twins.map(|pair| (pair[0], pair[1])).or_else(|| {
        let stands = |head: &Cosigned| facts.standing(head.size, head.root, authenticated);
        let forked = heads.iter().find(|head| stands(head) == Standing::Fork)?;
        let later = heads.iter().find(|head| stands(head) == Standing::OnTree && head.size > forked.size)?;
        Some((*forked, *later))
    })
}

/// `quorum/silent-witnesses`: whether every witness of the policy still vouched for anything within the auditor's
/// limit. A quorum may do without one that is silent; what that one would have seen is not checked all the same.
pub(crate) fn judge_silence(
    policy: &Policy,
    cosignatures: &Cosignatures,
    at: Option<UnixMillis>,
    max_age_ms: Option<u64>,
) -> Check {
    let mut check = CheckBuilder::new(Family::Quorum, "silent-witnesses");
    let (Some(at), Some(max_age_ms)) = (at, max_age_ms) else {
        check.required(false);
        return check.finish("needs --at and --max-age");
    };
    let mut newest_s: BTreeMap<usize, u64> = BTreeMap::new();
    for cosigned in &cosignatures.good {
        let newest = newest_s.entry(cosigned.witness).or_insert(0);
        *newest = (*newest).max(cosigned.timestamp_s);
    }
    for (place, witness) in policy.witnesses().iter().enumerate() {
        check.checked();
        let newest_s = newest_s.get(&place).copied();
        let age_ms = newest_s.map(|newest_s| at.0.saturating_sub(newest_s.saturating_mul(1000)));
        if age_ms.is_some_and(|age_ms| age_ms <= max_age_ms) {
            continue;
        }
        check.not_checked("silent-witness", &[], || {
            let since = match (newest_s, age_ms) {
                (Some(newest_s), Some(age_ms)) => {
                    format!("since {}, {} before {}", show_time_s(newest_s), show_duration(age_ms), show_time(at))
                }
                _ => String::from("at any time"),
            };
            [
                format!(
                    "witness {} vouched for no head of this log {since}; the limit is {}",
                    quoted(witness.vkey.name().as_str()),
                    show_duration(max_age_ms)
                ),
                String::from("whether the witness stood still, or saw something that it did not vouch for"),
                String::from("ask the witness's operator; look at its journal"),
            ]
        });
    }
    check.finish(format!(
        "{}, each by the time of its newest cosignature",
        amount(policy.witnesses().len() as u64, "witness", "witnesses")
    ))
}
