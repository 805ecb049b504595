//! The quorum family: do enough of the policy's witnesses vouch for the newest head, and does any of them vouch for
//! two histories.
//!
//! Witnesses that look at their own times cosign different heads. One that cosigned a later head vouched for every
//! earlier one on the same tree, and the tree was recomputed from entries: so it counts for the earlier one too
//! (joined quorum).

use crate::amount::{amount, witnesses};
use crate::bundle::ReadError;
use crate::completeness::{Completeness, LogSpan};
use crate::head::{HeadFacts, Standing};
use crate::heads::Heads;
use crate::judge::Terms;
use crate::quote::{quoted, witness_name};
use crate::time::{show_duration, show_time, show_time_s};
use crate::verdict::{Check, CheckBuilder, Family, Severity};
use crate::watch::{self, Watch};
use crate::witnesses::{Cosignatures, Cosigned};
use cosign::{WitnessFork, implied_root};
use merkle::{RootHash, TreeSize};
use note::{KeyName, Policy};
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
    let name_of = |witness: &usize| witness_name(&policy.witnesses()[*witness].vkey);
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
pub(crate) fn judge_witnesses<'cosigned>(
    facts: &HeadFacts<'_>,
    authenticated: u64,
    policy: &Policy,
    cosignatures: &'cosigned Cosignatures,
    evidence: &mut Vec<serde_json::Value>,
) -> Result<Check, ReadError> {
    let mut check = CheckBuilder::new(Family::Quorum, "witnesses");
    let mut of_key: BTreeMap<usize, BTreeMap<(u64, RootHash), &Cosigned>> = BTreeMap::new();
    for cosigned in &cosignatures.good {
        check.checked();
        of_key.entry(cosigned.witness).or_default().entry((cosigned.size, cosigned.root)).or_insert(cosigned);
    }
    let fork_in = |heads: &BTreeMap<(u64, RootHash), &'cosigned Cosigned>| {
        contradiction(facts, authenticated, &heads.values().copied().collect::<Vec<_>>())
    };
    let mut forks: Vec<(&Cosigned, &Cosigned)> = of_key.values().filter_map(fork_in).collect();
    let name_of = |key: usize| policy.witnesses()[key].vkey.name();
    let names: BTreeSet<&KeyName> = of_key.keys().map(|key| name_of(*key)).collect();
    for name in &names {
        // A witness lies also when each of its keys tells one story.
        let of_name = of_key.iter().filter(|(key, _)| name_of(**key) == *name);
        if of_name.clone().count() > 1 && !forks.iter().any(|(one, _)| name_of(one.witness) == *name) {
            forks.extend(fork_in(&of_name.flat_map(|(_, heads)| heads).map(|(head, by)| (*head, *by)).collect()));
        }
    }
    for fork in forks {
        let vkeys = [fork.0, fork.1].map(|cosigned| &policy.witnesses()[cosigned.witness].vkey);
        // A document convicts one key: that two keys are of one witness is the policy's word.
        let notes = (cosignatures.note_of(fork.0), cosignatures.note_of(fork.1));
        if let (true, (Some(smaller), Some(larger))) = (vkeys[0] == vkeys[1], notes) {
            let implied = match fork.0.size == fork.1.size {
                true => None,
                false => implied_root(&facts.tiles(fork.0.size, fork.1.size)?, TreeSize(fork.0.size), larger).ok(),
            };
            if let Ok(document) = WitnessFork::make(vkeys[0], smaller, larger, implied) {
                evidence.extend(serde_json::to_value(document).ok());
            }
        }
        let (other_key, next) = match vkeys[0] == vkeys[1] {
            true => (String::new(), "publish the evidence; take the witness out of the policy"),
            false => (
                format!(", as {},", witness_name(vkeys[1])),
                "publish the bundle: no document convicts two keys; take the witness out of the policy",
            ),
        };
        check.fail("witness-fork", &[], || {
            [
                format!("witness {} vouched for two histories: a head of size {} and{} one of size {} that contradict each other", witness_name(vkeys[0]), fork.0.size, other_key, fork.1.size),
                String::from("whether it lied, lost its state or lost its key"),
                String::from(next),
            ]
        });
    }
    Ok(check.finish(format!(
        "{} of {} compared with each other",
        amount(cosignatures.good.len() as u64, "good cosignature", "good cosignatures"),
        witnesses(names.len(), of_key.len())
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

/// `head/fresh-throughout`: whether a quorum vouched for a head at least every so often, from the first time that one did
/// to the last. Fills the lanes of log and witnesses.
///
/// With `--max-age` the auditor asks for heads never older than that, and a time when none was is not checked: nobody
/// could then tell a log that stands still from one that is hidden, and when the receipts of that time were written is
/// the gates' word alone. It is no fault of the log's: its later heads were found to hold the earlier ones, and who
/// stopped is not known. Without `--max-age` it is only said. One witness that is silent while the others are a quorum is
/// never more than a notice (`witness-gap`): that is what the quorum is for.
pub(crate) fn judge_watches(
    terms: &Terms<'_>,
    watches: &[Watch],
    heads: &Heads,
    completeness: &mut Completeness,
) -> Check {
    let mut check = CheckBuilder::new(Family::Head, "fresh-throughout");
    let limit_ms = watch::limit_ms(terms.max_age_ms, watches);
    let silences = limit_ms.and_then(|limit_ms| watch::quorum_silences(terms.policy, watches, limit_ms));
    let told = silences.as_deref().unwrap_or_default();
    let lane = watch::log_lane(watches, limit_ms, told);
    completeness.log = LogSpan {
        cosigned_from: lane.cosigned_from,
        cosigned_to: lane.cosigned_to,
        fresh_limit_s: lane.fresh_limit_s,
        not_fresh: lane.not_fresh,
        not_fresh_more: lane.not_fresh_more,
        ..std::mem::take(&mut completeness.log)
    };
    let lane_of = |(number, watch): (usize, &Watch)| watch.lane(limit_ms, heads.seen_alone_by(number).count() as u64);
    completeness.witnesses = watches.iter().enumerate().map(lane_of).collect();
    check.required(silences.is_some() && terms.max_age_ms.is_some());
    let (Some(limit_ms), Some(silences)) = (limit_ms, silences) else {
        return check.finish("needs journals that tell of more than one cosignature: nothing else tells of the past");
    };
    check.checked();
    let severity = if terms.max_age_ms.is_some() { Severity::NotChecked } else { Severity::Notice };
    for silence in &silences {
        check.find("not-fresh", severity, &[], || {
            [
                format!(
                    "from {} to {} too few witnesses vouched for any head to be a quorum; {} is {}",
                    show_time_s(silence.from_s),
                    show_time_s(silence.to_s),
                    show_duration(silence.to_s.saturating_sub(silence.from_s).saturating_mul(1000)),
                    longer_than(terms.max_age_ms, limit_ms)
                ),
                String::from("whether the log stood still, was hidden, or the witnesses stood still; and that receipts said to be issued in that time were written then"),
                String::from("ask the operators of the log and of the witnesses what happened"),
            ]
        });
    }
    let first = completeness.log.cosigned_from.map_or_else(String::new, |first| {
        format!("; witnesses vouched from {} on, first at size {}", show_time_s(first.time_s), first.size)
    });
    check.finish(format!(
        "{} without a quorum's word for {}{first}",
        amount(silences.len() as u64, "time", "times"),
        longer_than(terms.max_age_ms, limit_ms)
    ))
}

fn longer_than(max_age_ms: Option<u64>, limit_ms: u64) -> String {
    match max_age_ms {
        Some(_) => format!("longer than {}", show_duration(limit_ms)),
        None => format!("longer than {}, ten times what is usual here", show_duration(limit_ms)),
    }
}

/// `quorum/silent-witnesses`: whether every witness of the policy still vouched for anything within the auditor's
/// limit. A quorum may do without one that is silent; what that one would have seen is not checked all the same.
/// Silences in the past, by its journal, are notices.
pub(crate) fn judge_silence(
    policy: &Policy,
    cosignatures: &Cosignatures,
    (watches, limit_ms): (&[Watch], Option<u64>),
    at: Option<UnixMillis>,
    max_age_ms: Option<u64>,
) -> Check {
    let mut check = CheckBuilder::new(Family::Quorum, "silent-witnesses");
    let gaps = |check: &mut CheckBuilder| {
        for watch in watches {
            limit_ms.into_iter().for_each(|limit_ms| report_gaps(check, watch, max_age_ms, limit_ms));
        }
    };
    let (Some(at), Some(max_age_ms)) = (at, max_age_ms) else {
        gaps(check.required(false));
        return check.finish("whether they are silent now needs --at and --max-age");
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
                    witness_name(&witness.vkey),
                    show_duration(max_age_ms)
                ),
                String::from("whether the witness stood still, or saw something that it did not vouch for"),
                String::from("ask the witness's operator; look at its journal"),
            ]
        });
    }
    gaps(&mut check);
    check.finish(format!(
        "{}, each key by the time of its newest cosignature",
        witnesses(policy.witness_names().len(), policy.witnesses().len())
    ))
}

/// `witness-gap`: one finding a witness, with its longest silence.
fn report_gaps(check: &mut CheckBuilder, watch: &Watch, max_age_ms: Option<u64>, limit_ms: u64) {
    let silences = watch.silences(limit_ms);
    let Some(longest) = silences.iter().max_by_key(|silence| silence.to_s.saturating_sub(silence.from_s)) else {
        return;
    };
    check.notice("witness-gap", &[], || {
        [
            format!(
                "witness {} vouched for nothing in {} {}; the longest is from {} to {}",
                quoted(watch.name.as_str()),
                amount(silences.len() as u64, "time", "times"),
                longer_than(max_age_ms, limit_ms),
                show_time_s(longest.from_s),
                show_time_s(longest.to_s)
            ),
            String::from(
                "whether it stood still, could not reach the log, or saw what it did not vouch for: its journal says",
            ),
            String::from("nothing to do while the others are a quorum; else ask its operator"),
        ]
    });
}
