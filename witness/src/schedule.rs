//! When to fetch: at every interval, sooner when nudged, later while a log fails.
//!
//! Holds the rule for one log, on a clock of milliseconds that only goes forward and is told. Does not hold timers.

/// The pace at which a log is fetched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pace {
    /// Between the starts of two fetches of our own accord.
    pub interval_ms: u64,
    /// Between the starts of any two fetches, however many nudges come: what a nudger can cost the log and us.
    pub nudge_gap_ms: u64,
    /// The longest wait of our own accord while a log fails.
    pub backoff_ms: u64,
}

/// The schedule of one log.
#[derive(Debug)]
pub struct Schedule {
    pace: Pace,
    /// When the last fetch began; `None` before the first.
    last_start_ms: Option<u64>,
    /// Fetches in a row that brought no usable answer.
    failures: u32,
    nudged: bool,
}

impl Schedule {
    /// Due at once.
    pub fn new(pace: Pace) -> Schedule {
        Schedule { pace, last_start_ms: None, failures: 0, nudged: false }
    }

    /// There may be something new. Several nudges before a fetch are one.
    pub fn nudge(&mut self) {
        self.nudged = true;
    }

    /// When the next fetch is due.
    pub fn due_at_ms(&self) -> u64 {
        let Some(last) = self.last_start_ms else {
            return 0;
        };
        let wait = if self.nudged { self.pace.nudge_gap_ms } else { self.own_wait_ms() };
        last.saturating_add(wait.max(self.pace.nudge_gap_ms))
    }

    /// A fetch begins; it answers all nudges so far.
    pub fn begin(&mut self, now_ms: u64) {
        self.last_start_ms = Some(now_ms);
        self.nudged = false;
    }

    /// The fetch ended, with or without a usable answer.
    pub fn end(&mut self, usable: bool) {
        self.failures = if usable { 0 } else { self.failures.saturating_add(1) };
    }

    /// Twice as long after each failure, up to the limit (which never makes it shorter than the interval).
    fn own_wait_ms(&self) -> u64 {
        let doubled = self.pace.interval_ms.saturating_mul(1 << self.failures.min(32));
        doubled.min(self.pace.backoff_ms.max(self.pace.interval_ms))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PACE: Pace = Pace { interval_ms: 1000, nudge_gap_ms: 100, backoff_ms: 60_000 };

    #[test]
    fn the_first_fetch_is_due_at_once_and_then_one_an_interval() {
        let mut schedule = Schedule::new(PACE);
        assert_eq!(schedule.due_at_ms(), 0);
        schedule.begin(5000);
        schedule.end(true);
        assert_eq!(schedule.due_at_ms(), 6000);
    }

    #[test]
    fn a_nudge_brings_the_next_fetch_forward_but_not_below_the_gap() {
        let mut schedule = Schedule::new(PACE);
        schedule.begin(5000);
        schedule.end(true);
        schedule.nudge();
        schedule.nudge();
        assert_eq!(schedule.due_at_ms(), 5100);
        schedule.begin(5100);
        schedule.end(true);
        assert_eq!(schedule.due_at_ms(), 6100, "both nudges were answered by one fetch");
    }

    #[test]
    fn however_many_nudges_come_fetches_stay_a_gap_apart() {
        let mut schedule = Schedule::new(PACE);
        let mut fetches = 0;
        for now in 0..10_000 {
            schedule.nudge();
            if now >= schedule.due_at_ms() {
                schedule.begin(now);
                schedule.end(now % 2 == 0);
                fetches += 1;
            }
        }
        assert_eq!(fetches, 100);
    }

    #[test]
    fn a_log_that_fails_is_asked_ever_less_often_until_it_answers() {
        let mut schedule = Schedule::new(PACE);
        let mut waits = Vec::new();
        for _ in 0..8 {
            schedule.begin(0);
            schedule.end(false);
            waits.push(schedule.due_at_ms());
        }
        assert_eq!(waits, [2000, 4000, 8000, 16_000, 32_000, 60_000, 60_000, 60_000]);
        for _ in 0..100 {
            schedule.end(false);
        }
        assert_eq!(schedule.due_at_ms(), 60_000);
        schedule.nudge();
        assert_eq!(schedule.due_at_ms(), 100, "a nudge is answered all the same");
        schedule.begin(0);
        schedule.end(true);
        assert_eq!(schedule.due_at_ms(), 1000);
    }

    #[test]
    fn a_backoff_below_the_interval_changes_nothing() {
        let mut schedule = Schedule::new(Pace { backoff_ms: 10, ..PACE });
        schedule.begin(0);
        schedule.end(false);
        assert_eq!(schedule.due_at_ms(), 1000);
    }
}
