//! Allowed actions whose outcome is to come, by a token that nobody can guess and that is good for one outcome.
//!
//! Whoever does not come back in time has its scope closed: the outcome says that it is not known whether the action ran.

use super::routes::Desk;
use client::gate::Act;
use rand::TryRngCore as _;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Scopes that are open at once: about a kilobyte each; at most four, since a gate's names have at most one
/// ([`client::gate::bodies::MAX_CLAIM_BYTES`]) and an error 300 characters.
const MAX_OPEN: usize = 65_536;
/// How often it is looked for scopes whose time is up, at most.
const LOOK: Duration = Duration::from_secs(1);

pub(super) struct Scopes {
    lease: Duration,
    open: Mutex<HashMap<String, Open>>,
}

struct Open {
    act: Act,
    until: Instant,
}

impl Scopes {
    pub(super) fn new(lease: Duration) -> Scopes {
        Scopes { lease, open: Mutex::default() }
    }

    /// Whether another scope may be opened.
    pub(super) fn has_room(&self) -> bool {
        self.lock().len() < MAX_OPEN
    }

    /// Keeps an action; answers its token. Without random bytes there is none, and the action is cancelled.
    pub(super) fn keep(&self, act: Act) -> Option<String> {
        let token = random_token()?;
        let until = Instant::now() + self.lease;
        self.lock().insert(token.clone(), Open { act, until });
        Some(token)
    }

    /// Hands an action over, once.
    pub(super) fn take(&self, token: &str) -> Option<Act> {
        self.lock().remove(token).map(|open| open.act)
    }

    /// All of them.
    pub(super) fn take_all(&self) -> Vec<Act> {
        self.lock().drain().map(|(_, open)| open.act).collect()
    }

    fn take_overdue(&self, now: Instant) -> Vec<Act> {
        self.lock().extract_if(|_, open| open.until <= now).map(|(_, open)| open.act).collect()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Open>> {
        // Nothing under this lock panics half-way.
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Closes scopes whose time is up, for ever.
pub(super) async fn close_overdue(desk: Arc<Desk>) {
    let mut look = tokio::time::interval((desk.scopes.lease / 4).clamp(Duration::from_millis(20), LOOK));
    look.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        look.tick().await;
        let overdue = desk.scopes.take_overdue(Instant::now());
        if overdue.is_empty() {
            continue;
        }
        tracing::warn!(calls = overdue.len(), "nobody said what became of calls in time; their outcome is unknown");
        // Nobody waits for it but the next look.
        let _ = tokio::task::spawn_blocking(move || {
            for act in overdue {
                if let Err(error) = act.finish() {
                    tracing::error!(%error, "an outcome could not be written yet");
                }
            }
        })
        .await;
    }
}

/// 128 bits from the operating system, in hex.
pub(super) fn random_token() -> Option<String> {
    let mut bytes = [0; 16];
    rand::rngs::OsRng.try_fill_bytes(&mut bytes).ok()?;
    Some(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}
