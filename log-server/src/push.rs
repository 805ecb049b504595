//! When a head is pushed to a witness, from which size on, and what its answers change (C2SP tlog-witness).
//!
//! A witness takes a head only with the proof from exactly the size that it holds, and says which size that is where the
//! guess was wrong. So what it holds is believed, never known:
//!
//! ```text
//!            another head on offer, or the last cosignature is no longer fresh
//!          ┌──────────────────────────────────────────────────────────────────┐
//!          v                                                                  │
//!   push, old = the size believed ──> cosigned: believe the head's size ──> rest
//!     ^  ^                       │
//!     │  └── another size, of ours: believe it, at most a few times in a row ─┤
//!     │                          │
//!     └── rest, longer each time ┴─ it fails, refuses, contradicts itself, or claims more than this log has signed
//! ```
//!
//! A claim to hold more is an alarm for the operator (this store may be an older copy) and accuses nobody: no signature
//! stands behind it. Nothing that a witness says stops the log.
//!
//! Pure: no clock, no network, no randomness. Times are durations since some start of the caller's.

use merkle::TreeSize;
use std::time::Duration;

/// Sizes that a witness may correct in a row before it rests. One is the rule after a start, a second where somebody else
/// pushed meanwhile; a third makes room for two such feeders.
pub const MAX_CORRECTIONS: u32 = 3;

/// Rest after a first failure.
pub const FIRST_REST: Duration = Duration::from_millis(250);
/// The longest rest after failures in a row: how late a witness that came back, or an operator who has just listed this
/// log, is noticed.
pub const LONGEST_REST: Duration = Duration::from_secs(60);
/// The longest rest that a witness itself may ask for.
pub const LONGEST_RETRY_AFTER: Duration = Duration::from_secs(600);

/// What is believed of one witness, and when it is asked again.
#[derive(Clone, Debug)]
pub struct Push {
    fresh: Duration,
    held: TreeSize,
    corrections: u32,
    failures: u32,
    trouble: Option<Trouble>,
    rest: Rest,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Rest {
    until: Duration,
    /// Ends before that when a head of another size than this is on offer.
    satisfied_with: Option<TreeSize>,
}

/// What to do now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Push the head on offer, with the proof from this size. Never larger than the head.
    Push {
        /// The size to name.
        old: TreeSize,
    },
    /// Nothing before this time. Ask again whenever the offer moves.
    Wait {
        /// On the caller's clock.
        until: Duration,
    },
}

/// What was pushed, and how much this log had signed when the answer came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asked {
    /// The size that was named.
    pub old: TreeSize,
    /// The size of the head that was pushed.
    pub new: TreeSize,
    /// The size of the newest signed head. Somebody else may push any signed head, offered or not.
    pub signed: TreeSize,
}

/// What came back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// At least one good cosignature of the head.
    Cosigned,
    /// It took the head, and no line that came with that is a cosignature by the key it is configured with.
    NothingUsable,
    /// It says that it holds this size.
    Holds(TreeSize),
    /// It refuses, and maybe says for how long.
    Refused {
        /// The HTTP status.
        status: u16,
        /// The `Retry-After`.
        retry_after: Option<Duration>,
    },
    /// No answer, or none that makes sense.
    Nothing,
    /// Nothing was sent: the proof cannot be made.
    NoProof,
}

/// Why there is no cosignature. One sentence each, for the operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Trouble {
    /// Larger than anything that this log signed.
    #[error(
        "it says that it cosigned a head of size {seen}, and this log has signed none as large: this store may be an older copy of itself; stop the log and compare before more is signed"
    )]
    Ahead {
        /// The size it names.
        seen: TreeSize,
    },
    /// Names as the right size the one that was sent.
    #[error(
        "it refuses the head as if it held another size than {size}, and says that it holds {size}: it may hold another root there, or it is broken; ask its operator"
    )]
    Contradicts {
        /// The size.
        size: TreeSize,
    },
    /// A new size again and again.
    #[error("it names another size each time; does something else push heads of this log to it?")]
    Flaps,
    /// See [`Answer::NothingUsable`].
    #[error("it answers with no cosignature by its configured key; compare the vkey in its [[witness]] section")]
    NothingUsable,
    /// See [`Answer::Refused`].
    #[error("it refuses with status {0}; {advice}", advice = advice(*.0))]
    Refused(u16),
    /// See [`Answer::Nothing`].
    #[error("it does not answer as a witness does; its cosignatures are missing until it does")]
    Nothing,
    /// See [`Answer::NoProof`].
    #[error("the proof for it cannot be made from this store; check the store")]
    NoProof,
}

/// What the operator should hear, each time once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notice {
    /// Something is wrong that was not before.
    Trouble(Trouble),
    /// It cosigns again.
    Recovered,
}

impl Push {
    /// Nothing is known of the witness. A head that stays on offer is pushed again for a fresh cosignature after `fresh`.
    pub fn new(fresh: Duration) -> Self {
        let rest = Rest { until: Duration::ZERO, satisfied_with: None };
        Self { fresh, held: TreeSize(0), corrections: 0, failures: 0, trouble: None, rest }
    }

    /// What to do `now`, with a head of size `offered` on offer.
    pub fn next(&self, offered: TreeSize, now: Duration) -> Step {
        let another_head = self.rest.satisfied_with.is_some_and(|size| size != offered);
        if now >= self.rest.until || another_head {
            // Where it claims more than is on offer, asking from the offered size makes it say again what it holds.
            Step::Push { old: self.held.min(offered) }
        } else {
            Step::Wait { until: self.rest.until }
        }
    }

    /// An answer came `now`. `roll`, random in `[0, 1)`, spreads the rests of many logs that failed at once.
    pub fn answered(&mut self, asked: Asked, answer: Answer, now: Duration, roll: f64) -> Option<Notice> {
        let trouble = match answer {
            Answer::Cosigned => {
                self.held = asked.new;
                (self.corrections, self.failures) = (0, 0);
                self.rest_until_offer(asked.new, now.saturating_add(self.fresh));
                return self.trouble.take().map(|_| Notice::Recovered);
            }
            Answer::Holds(size) if size > asked.signed => {
                self.held = size;
                Trouble::Ahead { seen: size }
            }
            Answer::Holds(size) if size == asked.old => Trouble::Contradicts { size },
            Answer::Holds(size) => {
                self.held = size;
                self.corrections += 1;
                if self.corrections <= MAX_CORRECTIONS {
                    // What it holds beyond the offer was signed here, and will be on offer soon.
                    let until = if size > asked.new { now.saturating_add(self.fresh) } else { now };
                    self.rest_until_offer(asked.new, until);
                    return None;
                }
                Trouble::Flaps
            }
            Answer::NothingUsable => {
                self.held = asked.new;
                Trouble::NothingUsable
            }
            Answer::Refused { status, .. } => Trouble::Refused(status),
            Answer::Nothing => Trouble::Nothing,
            Answer::NoProof => Trouble::NoProof,
        };
        self.corrections = 0;
        self.failures = self.failures.saturating_add(1);
        let asked_for = match answer {
            Answer::Refused { retry_after, .. } => retry_after.unwrap_or_default().min(LONGEST_RETRY_AFTER),
            _ => Duration::ZERO,
        };
        let rest = rest_after(self.failures, roll).max(asked_for);
        self.rest = Rest { until: now.saturating_add(rest), satisfied_with: None };
        let news = self.trouble != Some(trouble);
        self.trouble = Some(trouble);
        news.then_some(Notice::Trouble(trouble))
    }

    fn rest_until_offer(&mut self, size: TreeSize, until: Duration) {
        self.rest = Rest { until, satisfied_with: Some(size) };
    }
}

/// Between half and all of a time that doubles with each failure.
fn rest_after(failures: u32, roll: f64) -> Duration {
    // 250 ms doubled eight times is 64 s, beyond the longest.
    let doubled = FIRST_REST.saturating_mul(1 << failures.saturating_sub(1).min(8)).min(LONGEST_REST);
    doubled.mul_f64(0.5 + roll.clamp(0.0, 1.0) / 2.0)
}

fn advice(status: u16) -> &'static str {
    match status {
        403 | 404 => "ask its operator to list this log under its vkey, and check the url",
        422 => {
            "the proof that was sent does not fit what it holds: it may have seen another history of this log; stop and compare"
        }
        409 => "it may hold another root at this size: stop and compare",
        400 => "it takes heads of another form, or this is not its add-checkpoint address",
        429 => "it is asked too often; raise head_interval_ms or witness_poll_ms",
        500.. => "it has a fault of its own; it is asked again",
        _ => "check that the url is that of a tlog-witness",
    }
}

#[cfg(test)]
mod tests;
