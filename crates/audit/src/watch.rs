//! What each witness did, in time: its lane in [`crate::completeness`], its silences, and when too few of all vouched.
//!
//! A witness cosigns the head it holds again and again; when it does not, a log that stands still and one that is hidden
//! look alike. How long it may not is the auditor's limit (`--max-age`), or else ten times what is usual in this bundle.
//!
//! Silences in the past are told by journals alone: a checkpoint shows but a witness's newest cosignature. Pure; holds no
//! reading.

use crate::completeness::{JournalState, LogSpan, MAX_LISTED, SizeAt, SpanS, WitnessSpan};
use crate::quote::plain;
use crate::trace::push;
use merkle::RootHash;
use note::{KeyName, Policy};
use std::collections::{BTreeMap, BTreeSet, HashSet};

/// Most times, and most distinct heads, kept for one witness: a journal of a line a minute has as many in two years; 24 and
/// 48 bytes each.
pub(crate) const MAX_TIMES: usize = 1_000_000;

/// Without a limit of the auditor's, a silence is this many times longer than the usual interval, and at least
/// [`LEAST_LIMIT_MS`].
const UNUSUAL: u64 = 10;

/// Ten times the minute for which a journal folds what it saw into one line.
const LEAST_LIMIT_MS: u64 = 600_000;

/// One witness, by name.
#[derive(Debug)]
pub(crate) struct Watch {
    pub(crate) name: KeyName,
    /// Its keys, by place in the policy.
    pub(crate) places: Vec<usize>,
    pub(crate) journal: JournalState,
    pub(crate) journal_lines: u64,
    /// Looks at this log by outcome, in a journal that is read.
    pub(crate) outcomes: BTreeMap<String, u64>,
    cosigned: Vec<Cosigning>,
    /// Cosignatures that were not kept apart, beyond [`MAX_TIMES`].
    uncounted: u64,
    heads: HashSet<(u64, RootHash)>,
}

/// Cosignatures that a witness gave without a pause.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Cosigning {
    pub(crate) from_s: u64,
    pub(crate) to_s: u64,
    pub(crate) size: u64,
    /// How many; 0 where a line of the journal tells of it as well.
    pub(crate) count: u64,
}

/// When a witness vouched at least every so often, ascending, with the gaps between.
type Awake = Vec<SpanS>;

impl Watch {
    pub(crate) fn new(name: &KeyName, places: Vec<usize>) -> Watch {
        Watch {
            name: name.clone(),
            places,
            journal: JournalState::Absent,
            journal_lines: 0,
            outcomes: BTreeMap::new(),
            cosigned: Vec::new(),
            uncounted: 0,
            heads: HashSet::new(),
        }
    }

    /// The witness cosigned.
    pub(crate) fn cosigned(&mut self, cosigning: Cosigning) {
        if self.cosigned.len() < MAX_TIMES {
            self.cosigned.push(cosigning);
        } else {
            self.uncounted = self.uncounted.saturating_add(cosigning.count);
        }
    }

    /// The witness holds a head that the log signed, or says so.
    pub(crate) fn saw(&mut self, size: u64, root: RootHash) {
        if self.heads.len() < MAX_TIMES {
            self.heads.insert((size, root));
        }
    }

    /// Whether its silences can be told.
    fn is_known(&self) -> bool {
        self.journal == JournalState::Read && self.uncounted == 0
    }

    /// Its cosignings in order. Those on notes that its journal tells of as well count once.
    fn in_order(&self) -> Vec<Cosigning> {
        let mut cosigned = self.cosigned.clone();
        // Of the same time the one with the larger count comes first.
        cosigned.sort_unstable_by_key(|cosigning| {
            (cosigning.from_s, u64::MAX - cosigning.to_s, u64::MAX - cosigning.count)
        });
        let mut reach: Option<u64> = None;
        for cosigning in &mut cosigned {
            if cosigning.from_s == cosigning.to_s && reach.is_some_and(|reach| cosigning.to_s <= reach) {
                cosigning.count = 0;
            }
            reach = reach.max(Some(cosigning.to_s));
        }
        cosigned
    }

    /// The times in which it was never silent for longer than `limit_ms`.
    fn awake(&self, limit_ms: u64) -> Awake {
        let mut awake: Awake = Vec::new();
        for cosigning in self.in_order() {
            match awake.last_mut() {
                Some(last) if !is_longer(last.to_s, cosigning.from_s, limit_ms) => {
                    last.to_s = last.to_s.max(cosigning.to_s)
                }
                _ => awake.push(SpanS { from_s: cosigning.from_s, to_s: cosigning.to_s }),
            }
        }
        awake
    }

    /// Its silences longer than `limit_ms`, none where they cannot be told.
    pub(crate) fn silences(&self, limit_ms: u64) -> Vec<SpanS> {
        if !self.is_known() {
            return Vec::new();
        }
        let between = |pair: &[SpanS]| SpanS { from_s: pair[0].to_s, to_s: pair[1].from_s };
        self.awake(limit_ms).windows(2).map(between).collect()
    }

    /// Its lane. `saw_alone`: how many heads nothing else in the bundle shows.
    pub(crate) fn lane(&self, limit_ms: Option<u64>, saw_alone: u64) -> WitnessSpan {
        let cosigned = self.in_order();
        let mut lane = WitnessSpan {
            witness: plain(self.name.as_str()),
            keys: self.places.len() as u64,
            journal: self.journal,
            journal_lines: self.journal_lines,
            outcomes: self.outcomes.clone(),
            // A witness may write any count into its journal.
            cosignatures: cosigned.iter().fold(self.uncounted, |sum, cosigning| sum.saturating_add(cosigning.count)),
            first: self.first(),
            last: self.last(),
            cosigned_at_s: thinned(&cosigned),
            saw_heads: self.heads.len() as u64,
            saw_alone,
            ..WitnessSpan::default()
        };
        for silence in limit_ms.map(|limit_ms| self.silences(limit_ms)).unwrap_or_default() {
            push(&mut lane.silences, &mut lane.silences_more, silence);
        }
        lane
    }

    fn first(&self) -> Option<SizeAt> {
        let first = self.cosigned.iter().min_by_key(|cosigning| (cosigning.from_s, cosigning.size))?;
        Some(SizeAt { size: first.size, time_s: first.from_s })
    }

    fn last(&self) -> Option<SizeAt> {
        let last = self.cosigned.iter().max_by_key(|cosigning| (cosigning.to_s, cosigning.size))?;
        Some(SizeAt { size: last.size, time_s: last.to_s })
    }
}

/// Whether more than `limit_ms` lie between two times.
fn is_longer(from_s: u64, to_s: u64, limit_ms: u64) -> bool {
    u128::from(to_s.saturating_sub(from_s)) * 1000 > u128::from(limit_ms)
}

/// Beginnings and ends, each time once, evenly thinned, the first and the last among them.
fn thinned(cosigned: &[Cosigning]) -> Vec<u64> {
    let times: BTreeSet<u64> = cosigned.iter().flat_map(|cosigning| [cosigning.from_s, cosigning.to_s]).collect();
    let times: Vec<u64> = times.into_iter().collect();
    if times.len() <= MAX_LISTED {
        return times;
    }
    (0..MAX_LISTED).map(|step| times[step * (times.len() - 1) / (MAX_LISTED - 1)]).collect()
}

/// The longest silence that is nothing unusual, in milliseconds: the auditor's word, or else what the journals show.
/// `None`: no journal tells of two cosignatures.
pub(crate) fn limit_ms(max_age_ms: Option<u64>, watches: &[Watch]) -> Option<u64> {
    max_age_ms.or_else(|| {
        let mut pauses: Vec<u64> = Vec::new();
        for watch in watches.iter().filter(|watch| watch.is_known()) {
            let pause = |pair: &[Cosigning]| pair[1].from_s.saturating_sub(pair[0].to_s);
            pauses.extend(watch.in_order().windows(2).map(pause).filter(|pause| *pause > 0));
        }
        let middle = pauses.len().checked_sub(1)? / 2;
        let (_, usual_s, _) = pauses.select_nth_unstable(middle);
        Some(usual_s.saturating_mul(1000 * UNUSUAL).max(LEAST_LIMIT_MS))
    })
}

/// The times, ascending, in which so many witnesses were silent for longer than `limit_ms` that the rest is no quorum:
/// from when the last quorum had vouched until one had again. Before the first quorum and after the last nothing is said.
/// A witness whose silences cannot be told counts as never silent. `None`: none can be told, or there is no quorum.
pub(crate) fn quorum_silences(policy: &Policy, watches: &[Watch], limit_ms: u64) -> Option<Vec<SpanS>> {
    policy.quorum()?;
    let mut vouching: BTreeSet<usize> =
        watches.iter().filter(|watch| !watch.is_known()).flat_map(|watch| watch.places.iter().copied()).collect();
    // Millisecond at which a witness begins to vouch, or its last word grows too old. It counts until that one included.
    let mut turns: Vec<(u128, bool, usize)> = Vec::new();
    for (place, watch) in watches.iter().enumerate().filter(|(_, watch)| watch.is_known()) {
        for awake in watch.awake(limit_ms) {
            turns.push((u128::from(awake.from_s) * 1000, false, place));
            turns.push((u128::from(awake.to_s) * 1000 + u128::from(limit_ms), true, place));
        }
    }
    if turns.is_empty() {
        return None;
    }
    turns.sort_unstable();
    let seconds = |millis: u128| u64::try_from(millis / 1000).unwrap_or(u64::MAX);
    let mut silences = Vec::new();
    let (mut met, mut lost_at) = (policy.satisfied_by(&vouching), None);
    for (at, ends, place) in turns {
        for key in &watches[place].places {
            match ends {
                true => vouching.remove(key),
                false => vouching.insert(*key),
            };
        }
        let meets = policy.satisfied_by(&vouching);
        match (met, meets, lost_at) {
            (true, false, _) => lost_at = Some(at.saturating_sub(u128::from(limit_ms))),
            (false, true, Some(lost)) => silences.push(SpanS { from_s: seconds(lost), to_s: seconds(at) }),
            _ => {}
        }
        met = meets;
    }
    Some(silences)
}

/// The part of the log's lane that the witnesses tell.
pub(crate) fn log_lane(watches: &[Watch], limit_ms: Option<u64>, silences: &[SpanS]) -> LogSpan {
    let mut lane = LogSpan {
        cosigned_from: watches.iter().filter_map(Watch::first).min_by_key(|at| (at.time_s, at.size)),
        cosigned_to: watches.iter().filter_map(Watch::last).max_by_key(|at| (at.time_s, at.size)),
        fresh_limit_s: limit_ms.map(|limit_ms| limit_ms / 1000),
        ..LogSpan::default()
    };
    for silence in silences {
        push(&mut lane.not_fresh, &mut lane.not_fresh_more, *silence);
    }
    lane
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;
    use note::{KeyKind, SigningKey};

    /// Witnesses a, b and c, of which two must agree, cosigning at these times (each in its journal).
    fn watches(times: [&[u64]; 3]) -> (Policy, Vec<Watch>) {
        let mut text = String::new();
        let mut watches = Vec::new();
        for (place, times) in times.iter().enumerate() {
            let name = KeyName::new(&format!("w{place}.example")).unwrap();
            let key = SigningKey::from_seed(name.clone(), KeyKind::CosignatureV1, [place as u8 + 1; 32]).verifier();
            text.push_str(&format!("witness w{place} {key}\n"));
            let mut watch = Watch::new(&name, vec![place]);
            watch.journal = JournalState::Read;
            for time in *times {
                watch.cosigned(Cosigning { from_s: *time, to_s: *time, size: *time, count: 1 });
            }
            watches.push(watch);
        }
        text.push_str("group all 2 w0 w1 w2\nquorum all\n");
        (Policy::parse(text.as_bytes()).unwrap(), watches)
    }

    fn span(from_s: u64, to_s: u64) -> SpanS {
        SpanS { from_s, to_s }
    }

    #[test]
    fn a_silence_as_long_as_the_limit_is_none_and_a_second_more_is_one() {
        let (_, watches) = watches([&[100, 160, 221], &[], &[]]);
        assert_eq!(watches[0].silences(60_000), [span(160, 221)]);
        assert_eq!(watches[0].silences(61_000), []);
        assert_eq!(watches[0].silences(60_999), [span(160, 221)]);
    }

    #[test]
    fn one_silent_witness_of_three_leaves_a_quorum_and_two_do_not() {
        let steady: Vec<u64> = (0..=20).map(|step| 100 + 10 * step).collect();
        let (policy, with_one) = watches([&steady, &steady, &[100, 300]]);
        assert_eq!(quorum_silences(&policy, &with_one, 10_000), Some(vec![]));
        assert_eq!(with_one[2].silences(10_000), [span(100, 300)]);
        let (policy, with_two) = watches([&steady, &[100, 150, 160, 290, 300], &[100, 300]]);
        // The second one's word of 160 holds until 170; the third one's last word was of 100.
        assert_eq!(quorum_silences(&policy, &with_two, 10_000), Some(vec![span(100, 150), span(160, 290)]));
    }

    #[test]
    fn a_quorum_that_changes_hands_in_the_same_second_is_not_lost() {
        let (policy, watches) = watches([&[100, 110, 120, 130, 140], &[100, 110], &[120, 130, 140]]);
        assert_eq!(quorum_silences(&policy, &watches, 10_000), Some(vec![]));
        assert_eq!(quorum_silences(&policy, &watches, 9_999).unwrap().len(), 4);
    }

    #[test]
    fn before_the_first_quorum_and_after_the_last_nothing_is_said() {
        let (policy, watches) = watches([&[100, 500, 510], &[500, 510], &[]]);
        assert_eq!(quorum_silences(&policy, &watches, 10_000), Some(vec![]));
    }

    #[test]
    fn witnesses_without_a_journal_are_never_called_silent() {
        let (policy, mut watches) = watches([&[100, 200, 300], &[100, 300], &[100, 300]]);
        assert_eq!(quorum_silences(&policy, &watches, 100_000).unwrap(), [span(100, 300)]);
        watches[1].journal = JournalState::Absent;
        assert_eq!(quorum_silences(&policy, &watches, 100_000).unwrap(), []);
        assert_eq!(watches[1].silences(100_000), []);
        watches[0].journal = JournalState::Unreadable;
        watches[2].journal = JournalState::Absent;
        assert_eq!(quorum_silences(&policy, &watches, 100_000), None);
    }

    #[test]
    fn without_a_limit_ten_times_the_usual_pause_is_one_and_ten_minutes_at_least() {
        let (_, slow) = watches([&[0, 100, 200, 300, 1500, 2501], &[], &[]]);
        assert_eq!(limit_ms(None, &slow), Some(1_000_000));
        assert_eq!(slow[0].silences(1_000_000), [span(300, 1500), span(1500, 2501)]);
        let (_, fast) = watches([&[0, 1, 2, 3], &[], &[]]);
        assert_eq!(limit_ms(None, &fast), Some(LEAST_LIMIT_MS));
        assert_eq!(limit_ms(Some(5), &fast), Some(5));
        let (_, never) = watches([&[], &[], &[]]);
        assert_eq!(limit_ms(None, &never), None);
    }

    #[test]
    fn a_cosignature_on_a_note_that_the_journal_tells_of_counts_once() {
        let (_, mut watches) = watches([&[100, 160], &[], &[]]);
        watches[0].cosigned(Cosigning { from_s: 200, to_s: 260, size: 9, count: 60 });
        for time in [100, 260, 261] {
            watches[0].cosigned(Cosigning { from_s: time, to_s: time, size: 9, count: 1 });
        }
        let lane = watches[0].lane(Some(60_000), 0);
        assert_eq!(lane.cosignatures, 2 + 60 + 1);
        assert_eq!(lane.cosigned_at_s, [100, 160, 200, 260, 261]);
        assert_eq!(
            (lane.first, lane.last),
            (Some(SizeAt { size: 9, time_s: 100 }), Some(SizeAt { size: 9, time_s: 261 }))
        );
    }

    #[test]
    fn many_times_are_thinned_and_the_first_and_last_stay() {
        let times: Vec<u64> = (0..10_000).collect();
        let (_, watches) = watches([&times, &[], &[]]);
        let lane = watches[0].lane(None, 0);
        assert_eq!(lane.cosigned_at_s.len(), MAX_LISTED);
        assert_eq!((lane.cosigned_at_s[0], lane.cosigned_at_s[MAX_LISTED - 1]), (0, 9_999));
        assert!(lane.cosigned_at_s.is_sorted());
    }
}
