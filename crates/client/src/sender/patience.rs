//! How long to go on trying, and how long to wait between two tries.

use rand::Rng;
use std::time::{Duration, Instant};

/// The longest that a server's `Retry-After` is obeyed: one that says "tomorrow" is not to be believed.
const LONGEST_RETRY_AFTER: Duration = Duration::from_secs(120);

/// How long to go on trying.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience {
    /// The first pause is at most this; each further one at most twice the one before.
    pub first_pause: Duration,
    /// No pause is longer.
    pub longest_pause: Duration,
    /// Stop when nothing was acknowledged for so long; `None` never stops.
    pub give_up_after: Option<Duration>,
}

impl Default for Patience {
    /// 100 ms, doubling up to 10 s, for ever: for a gate that runs on.
    fn default() -> Self {
        Self { first_pause: Duration::from_millis(100), longest_pause: Duration::from_secs(10), give_up_after: None }
    }
}

/// The pauses since something last went well.
#[derive(Debug)]
pub(crate) struct Waiting {
    patience: Patience,
    since: Instant,
    ceiling: Duration,
}

impl Waiting {
    pub(crate) fn new(patience: Patience) -> Self {
        Self { patience, since: Instant::now(), ceiling: patience.first_pause }
    }

    /// The next pause, or `None` when it is time to give up.
    pub(crate) fn next(&mut self, retry_after: Option<Duration>) -> Option<Duration> {
        let ceiling = self.ceiling.min(self.patience.longest_pause);
        self.ceiling = ceiling.saturating_mul(2);
        let pause = pause(ceiling, retry_after, rand::rng().random());
        match self.patience.give_up_after {
            Some(limit) if self.since.elapsed().saturating_add(pause) > limit => None,
            _ => Some(pause),
        }
    }
}

/// Anything from half the ceiling to all of it, as `entropy` goes from nothing to all it can be, so that gates that lost one
/// log together do not come back together; behind what the server asks for.
fn pause(ceiling: Duration, retry_after: Option<Duration>, entropy: u64) -> Duration {
    let half = ceiling / 2;
    let nanos = u64::try_from(half.as_nanos()).unwrap_or(u64::MAX);
    // The product of two numbers of 64 bits, and its upper half.
    let share = (u128::from(nanos) * u128::from(entropy)) >> 64;
    let jittered = (ceiling - half).saturating_add(Duration::from_nanos(share as u64));
    let asked = retry_after.map_or(Duration::ZERO, |asked| asked.min(LONGEST_RETRY_AFTER));
    asked.saturating_add(jittered)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;

    /// Some of everything, and the ends.
    fn entropies() -> impl Iterator<Item = u64> {
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let more = std::iter::repeat_with(move || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            state
        });
        [0, 1, u64::MAX / 2, u64::MAX - 1, u64::MAX].into_iter().chain(more.take(1_000))
    }

    #[test]
    fn a_pause_lies_between_half_the_ceiling_and_all_of_it_whatever_is_drawn_and_behind_what_was_asked_for() {
        let ceilings = [
            Duration::ZERO,
            Duration::from_nanos(1),
            Duration::from_millis(100),
            Duration::from_secs(10),
            Duration::from_secs(1 << 40),
            Duration::MAX,
        ];
        let asked = [None, Some(Duration::ZERO), Some(Duration::from_millis(1_500)), Some(Duration::MAX)];
        for ceiling in ceilings {
            for retry_after in asked {
                let least = retry_after.unwrap_or_default().min(LONGEST_RETRY_AFTER);
                for entropy in entropies() {
                    let pause = pause(ceiling, retry_after, entropy);
                    let bounds = least.saturating_add(ceiling / 2)..=least.saturating_add(ceiling);
                    assert!(bounds.contains(&pause), "{ceiling:?} {retry_after:?} {entropy}: {pause:?}");
                }
            }
        }
    }

    #[test]
    fn gates_that_draw_differently_come_back_at_different_times_over_the_whole_range() {
        let ceiling = Duration::from_secs(10);
        let pauses: Vec<Duration> = (0..64).map(|gate| pause(ceiling, None, gate << 58)).collect();
        // In order, and evenly: a 64th of the range apart, but for what rounding to a nanosecond takes.
        for two in pauses.windows(2) {
            let apart = two[1] - two[0];
            assert!(apart.abs_diff(ceiling / 128) <= Duration::from_nanos(1), "{two:?}");
        }
        assert_eq!(pauses[0], ceiling / 2);
        assert!(pause(ceiling, None, u64::MAX) >= ceiling - Duration::from_nanos(1));
    }

    #[test]
    fn pauses_double_up_to_the_longest_and_never_fall_below_half_of_that() {
        let patience = Patience { longest_pause: Duration::from_millis(500), ..Patience::default() };
        let mut waiting = Waiting::new(patience);
        for ceiling_ms in [100, 200, 400, 500, 500] {
            let pause = waiting.next(None).unwrap();
            assert!(
                pause >= Duration::from_millis(ceiling_ms / 2) && pause <= Duration::from_millis(ceiling_ms),
                "{pause:?} {ceiling_ms}"
            );
        }
    }

    #[test]
    fn what_the_server_asks_for_is_waited_at_least_within_reason() {
        let mut waiting = Waiting::new(Patience::default());
        assert!(waiting.next(Some(Duration::from_secs(3))).unwrap() >= Duration::from_secs(3));
        assert!(waiting.next(Some(Duration::from_secs(86_400))).unwrap() <= Duration::from_secs(130));
    }

    #[test]
    fn it_gives_up_rather_than_wait_beyond_its_limit() {
        let patience = Patience { give_up_after: Some(Duration::from_millis(250)), ..Patience::default() };
        let mut waiting = Waiting::new(patience);
        assert!(waiting.next(None).is_some());
        assert_eq!(waiting.next(Some(Duration::from_secs(1))), None);
    }
}
