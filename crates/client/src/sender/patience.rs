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

    /// The next pause, or `None` when it is time to give up. Anything from half the ceiling to all of it, so that gates
    /// that lost one log together do not come back together.
    pub(crate) fn next(&mut self, retry_after: Option<Duration>) -> Option<Duration> {
        let ceiling = self.ceiling.min(self.patience.longest_pause);
        self.ceiling = ceiling.saturating_mul(2);
        let jittered = rand::rng().random_range(ceiling / 2..=ceiling);
        let pause = retry_after.map_or(jittered, |asked| asked.min(LONGEST_RETRY_AFTER).saturating_add(jittered));
        match self.patience.give_up_after {
            Some(limit) if self.since.elapsed().saturating_add(pause) > limit => None,
            _ => Some(pause),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;

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
