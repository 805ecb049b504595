//! What is remembered of one issuer's stream for its lane in [`crate::completeness`], while the log goes by.
//!
//! Holds the collecting and its bounds: some words a receipt at most, a fixed length for the rest. Does not hold what is
//! a finding: the issuer family calls these as it finds.

use crate::completeness::{BUCKETS, Beyond, IssuerSpan, MAX_LISTED, Placed, SeqGap, SpanMs};
use serde::{Deserialize, Serialize};

/// Most steps of one issuer's activity before two become one: twice what is drawn, so that a step is never wider than a
/// drawn part of a time that the issuer fills.
const MAX_STEPS: usize = 2 * BUCKETS;

/// The collector of one issuer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct IssuerTrace {
    span: IssuerSpan,
    activity: Activity,
}

/// How many receipts in each step of time, from the first receipt on. Steps are a second wide and double as needed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Activity {
    start_ms: u64,
    /// A step is a second, doubled so often.
    doubled: u32,
    counts: Vec<u32>,
}

impl IssuerTrace {
    /// A genuine receipt that is new at its seq.
    pub(crate) fn saw(&mut self, at: Placed) {
        self.span.receipts += 1;
        self.activity.add(at.issued_at_ms);
        match self.span.last {
            Some(last) if at.seq < last.seq => self.fill(at),
            last => {
                let expected = last.map_or(0, |last| last.seq.saturating_add(1));
                if at.seq > expected {
                    push(&mut self.span.gaps, &mut self.span.gaps_more, SeqGap { after: last, before: at });
                }
                self.span.last = Some(at);
            }
        }
        if self.span.first.is_none_or(|first| at.seq < first.seq) {
            self.span.first = Some(at);
        }
    }

    /// A receipt that contradicts another.
    pub(crate) fn forks(&mut self, at: Placed) {
        push(&mut self.span.forks, &mut self.span.forks_more, at);
    }

    /// The issuer said nothing for longer than it may.
    pub(crate) fn silent(&mut self, from_ms: u64, to_ms: u64) {
        push(&mut self.span.silences, &mut self.span.silences_more, SpanMs { from_ms, to_ms });
    }

    /// A file of the bundle, quoted, proves a receipt beyond the stream's end.
    pub(crate) fn beyond(&mut self, seq: u64, shown_by: String) {
        push(&mut self.span.beyond, &mut self.span.beyond_more, Beyond { seq, shown_by });
    }

    /// A kept proof, by its quoted path, whose receipt is not where it proves it.
    pub(crate) fn unhonoured(&mut self, path: String) {
        push(&mut self.span.unhonoured, &mut self.span.unhonoured_more, path);
    }

    /// The lane. `issued` is the span of time that the activity of all issuers is cut by; `uncovered` and the rest are what
    /// only the end of the log tells.
    pub(crate) fn finish(
        self,
        issuer: String,
        closed: bool,
        heartbeat_ms: Option<u64>,
        uncovered: Option<SpanMs>,
        issued: Option<SpanMs>,
    ) -> IssuerSpan {
        let activity = issued.map(|issued| self.activity.resampled(issued)).unwrap_or_default();
        IssuerSpan { issuer, closed, heartbeat_ms, uncovered, activity, ..self.span }
    }

    /// A receipt that comes late: it fills a gap, or a part of one.
    fn fill(&mut self, at: Placed) {
        let is_within = |gap: &SeqGap| gap.before.seq > at.seq && gap.after.is_none_or(|after| after.seq < at.seq);
        let Some(place) = self.span.gaps.iter().position(is_within) else { return };
        let gap = self.span.gaps.remove(place);
        let parts = [SeqGap { after: gap.after, before: at }, SeqGap { after: Some(at), before: gap.before }];
        let is_open = |gap: &SeqGap| gap.before.seq > gap.after.map_or(0, |after| after.seq.saturating_add(1));
        for (step, part) in parts.into_iter().filter(is_open).enumerate() {
            self.span.gaps.insert(place + step, part);
        }
        // One gap may have become two.
        if self.span.gaps.len() > MAX_LISTED {
            self.span.gaps.pop();
            self.span.gaps_more += 1;
        }
    }
}

impl Activity {
    fn add(&mut self, time_ms: u64) {
        if self.counts.is_empty() {
            self.start_ms = time_ms;
        }
        let place = loop {
            // A time before the first one, by a clock that went back, counts as the first.
            let place = time_ms.saturating_sub(self.start_ms) / self.step_ms();
            match usize::try_from(place).ok().filter(|place| *place < MAX_STEPS) {
                Some(place) => break place,
                None => self.double(),
            }
        };
        if self.counts.len() <= place {
            self.counts.resize(place + 1, 0);
        }
        self.counts[place] = self.counts[place].saturating_add(1);
    }

    /// A millisecond count fits 64 bits, so that a step stops doubling long before it would overflow.
    fn step_ms(&self) -> u64 {
        1000_u64.saturating_mul(1_u64.checked_shl(self.doubled).unwrap_or(u64::MAX))
    }

    fn double(&mut self) {
        self.doubled += 1;
        self.counts =
            self.counts.chunks(2).map(|pair| pair.iter().fold(0, |sum, count| count.saturating_add(sum))).collect();
    }

    /// In [`BUCKETS`] equal parts of `issued`; each step counts where its middle is.
    fn resampled(&self, issued: SpanMs) -> Vec<u64> {
        let mut parts = vec![0; if self.counts.is_empty() { 0 } else { BUCKETS }];
        let width = u128::from(issued.to_ms.saturating_sub(issued.from_ms)) + 1;
        for (step, count) in (0..).zip(&self.counts) {
            let middle =
                self.start_ms.saturating_add(self.step_ms().saturating_mul(step)).saturating_add(self.step_ms() / 2);
            let within = u128::from(middle.clamp(issued.from_ms, issued.to_ms.max(issued.from_ms)) - issued.from_ms);
            parts[(within * BUCKETS as u128 / width) as usize] += u64::from(*count);
        }
        parts
    }
}

/// Puts one more into a list of a lane, or only counts it.
pub(crate) fn push<Item>(list: &mut Vec<Item>, more: &mut u64, item: Item) {
    if list.len() < MAX_LISTED {
        list.push(item);
    } else {
        *more += 1;
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;
    use proptest::prelude::*;

    fn at(seq: u64) -> Placed {
        Placed { seq, index: 10 * seq, issued_at_ms: 1000 * seq }
    }

    fn lane(trace: IssuerTrace) -> IssuerSpan {
        let issued = SpanMs { from_ms: 0, to_ms: 1_000_000 };
        trace.finish(String::from("gate"), false, None, None, Some(issued))
    }

    fn after_seqs(seqs: impl IntoIterator<Item = u64>) -> IssuerSpan {
        let mut trace = IssuerTrace::default();
        seqs.into_iter().for_each(|seq| trace.saw(at(seq)));
        lane(trace)
    }

    fn gaps(span: &IssuerSpan) -> Vec<(Option<u64>, u64)> {
        span.gaps.iter().map(|gap| (gap.after.map(|after| after.seq), gap.before.seq)).collect()
    }

    #[test]
    fn gaps_are_what_is_missing_in_the_end_however_late_receipts_come() {
        assert_eq!(gaps(&after_seqs([0, 1, 2])), []);
        assert_eq!(gaps(&after_seqs([2, 5])), [(None, 2), (Some(2), 5)]);
        assert_eq!(gaps(&after_seqs([0, 5, 3])), [(Some(0), 3), (Some(3), 5)]);
        assert_eq!(gaps(&after_seqs([0, 3, 1, 2])), []);
        assert_eq!(gaps(&after_seqs([1, 0])), []);
        let span = after_seqs([3, 0, 7]);
        assert_eq!((span.first, span.last, span.receipts), (Some(at(0)), Some(at(7)), 3));
    }

    #[test]
    fn lists_are_bounded_and_the_rest_is_counted() {
        let span = after_seqs((0..MAX_LISTED as u64 + 3).map(|seq| 2 * seq));
        assert_eq!((span.gaps.len(), span.gaps_more), (MAX_LISTED, 2));
    }

    #[test]
    fn an_issuer_without_receipts_has_an_empty_lane() {
        let span = after_seqs([]);
        assert_eq!((span.first, span.last, span.receipts, span.activity), (None, None, 0, Vec::new()));
    }

    proptest! {
        #[test]
        fn no_receipt_is_lost_from_the_activity_whatever_the_times(times in proptest::collection::vec(any::<u64>(), 1..200)) {
            let mut trace = IssuerTrace::default();
            for (seq, time) in (0..).zip(&times) {
                trace.saw(Placed { seq, index: seq, issued_at_ms: *time });
            }
            prop_assert!(trace.activity.counts.len() <= MAX_STEPS);
            let issued = SpanMs { from_ms: *times.iter().min().unwrap(), to_ms: *times.iter().max().unwrap() };
            let span = trace.finish(String::new(), false, None, None, Some(issued));
            prop_assert_eq!(span.activity.len(), BUCKETS);
            prop_assert_eq!(span.activity.iter().sum::<u64>(), times.len() as u64);
        }

        #[test]
        fn gaps_agree_with_the_seqs_that_are_missing(seqs in proptest::collection::btree_set(0_u64..40, 1..30)) {
            let mut order: Vec<u64> = seqs.iter().copied().collect();
            order.reverse();
            let span = after_seqs(order);
            let covered = |seq: u64| span.gaps.iter().any(|gap| gap.before.seq > seq && gap.after.is_none_or(|after| after.seq < seq));
            for seq in 0..*seqs.last().unwrap() {
                prop_assert_eq!(covered(seq), !seqs.contains(&seq), "{}", seq);
            }
        }
    }

    #[test]
    fn steady_activity_is_spread_evenly() {
        let mut trace = IssuerTrace::default();
        for seq in 0..100_000 {
            trace.saw(Placed { seq, index: seq, issued_at_ms: seq * 100 });
        }
        let span = trace.finish(String::new(), false, None, None, Some(SpanMs { from_ms: 0, to_ms: 9_999_900 }));
        let mean = 100_000 / BUCKETS as u64;
        assert!(span.activity.iter().all(|count| *count > 0 && *count < 3 * mean), "{:?}", span.activity);
    }
}
