//! How many receipts one issuer may have committed in a second.
//!
//! A budget is asked only for a receipt that verified and stands at its place. Everything less could be sent by somebody
//! else: forged receipts, and copies of logged ones, which everybody can fetch. So nobody but the issuer spends its budget,
//! and sending a receipt again costs nothing.

use governor::clock::{Clock, DefaultClock};
use governor::middleware::NoOpMiddleware;
use governor::state::{InMemoryState, NotKeyed};
use governor::{Quota, RateLimiter};
use receipt::IssuerName;
use std::collections::HashMap;
use std::num::NonZeroU32;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

type Budget<C> = RateLimiter<NotKeyed, InMemoryState, C, NoOpMiddleware<<C as Clock>::Instant>>;

/// The budgets, one an issuer: at most as many as are listed.
pub struct IssuerRates<C: Clock = DefaultClock> {
    quota: Quota,
    clock: C,
    budgets: Mutex<HashMap<IssuerName, Budget<C>>>,
}

impl IssuerRates {
    /// `per_s` receipts a second on the long run, `burst` at once after a pause.
    pub fn new(per_s: NonZeroU32, burst: NonZeroU32) -> Self {
        Self::with_clock(per_s, burst, DefaultClock::default())
    }
}

impl<C: Clock + Clone> IssuerRates<C> {
    fn with_clock(per_s: NonZeroU32, burst: NonZeroU32, clock: C) -> Self {
        Self { quota: Quota::per_second(per_s).allow_burst(burst), clock, budgets: Mutex::default() }
    }

    /// Takes one receipt from the budget of `issuer`, who must be listed.
    ///
    /// # Errors
    /// How long until there is one again.
    pub fn take(&self, issuer: &IssuerName) -> Result<(), Duration> {
        let mut budgets = self.lock();
        let taken = match budgets.get(issuer) {
            Some(budget) => budget.check(),
            None => {
                let new = || RateLimiter::direct_with_clock(self.quota, self.clock.clone());
                budgets.entry(issuer.clone()).or_insert_with(new).check()
            }
        };
        taken.map_err(|not_yet| not_yet.wait_time_from(self.clock.now()))
    }

    /// Forgets every issuer that is not listed any more.
    pub fn keep(&self, is_listed: impl Fn(&IssuerName) -> bool) {
        self.lock().retain(|issuer, _| is_listed(issuer));
    }

    /// Nothing that runs under the lock can leave it half-changed.
    fn lock(&self) -> MutexGuard<'_, HashMap<IssuerName, Budget<C>>> {
        self.budgets.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<C: Clock> std::fmt::Debug for IssuerRates<C> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("IssuerRates").field("quota", &self.quota).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;
    use governor::clock::FakeRelativeClock;

    fn name(name: &str) -> IssuerName {
        IssuerName::new(name).unwrap()
    }

    fn rates(per_s: u32, burst: u32) -> (IssuerRates<FakeRelativeClock>, FakeRelativeClock) {
        let clock = FakeRelativeClock::default();
        let number = |number| NonZeroU32::new(number).unwrap();
        (IssuerRates::with_clock(number(per_s), number(burst), clock.clone()), clock)
    }

    #[test]
    fn a_burst_goes_through_and_what_is_beyond_it_is_told_how_long_to_wait() {
        let (rates, clock) = rates(10, 3);
        let a = name("a");
        for _ in 0..3 {
            assert!(rates.take(&a).is_ok());
        }
        let wait = rates.take(&a).unwrap_err();
        assert!(wait > Duration::ZERO && wait <= Duration::from_millis(100), "{wait:?}");
        clock.advance(wait);
        assert!(rates.take(&a).is_ok() && rates.take(&a).is_err());
    }

    #[test]
    fn one_issuers_budget_is_not_anothers() {
        let (rates, _clock) = rates(1, 1);
        assert!(rates.take(&name("a")).is_ok() && rates.take(&name("a")).is_err());
        assert!(rates.take(&name("b")).is_ok());
    }

    #[test]
    fn who_is_retired_is_forgotten() {
        let (rates, _clock) = rates(1, 1);
        for issuer in ["a", "b"] {
            rates.take(&name(issuer)).unwrap();
        }
        rates.keep(|issuer| *issuer == name("b"));
        assert_eq!(rates.lock().keys().cloned().collect::<Vec<_>>(), [name("b")]);
    }
}
