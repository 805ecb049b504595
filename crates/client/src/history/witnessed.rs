//! Whether, and since when, enough witnesses vouch for a head. Pure.

use note::{Policy, SignedCheckpoint, Verified, VerifierKey, verified_cosignatures};
use receipt::UnixMillis;
use receipt::admit::MAX_AHEAD_MS;
use std::collections::{BTreeMap, BTreeSet};

/// Why a head is not witnessed well enough.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotWitnessed {
    /// Too few cosignatures.
    #[error("{0} of the policy's keys cosigned the log's head, and that is not its quorum")]
    TooFew(usize),
    /// The quorum is there, and was there too long ago.
    #[error("the log's head was last vouched for {age_s} seconds ago, and {max_age_s} are allowed")]
    TooOld {
        /// Seconds since the quorum vouched for it.
        age_s: u64,
        /// Seconds allowed.
        max_age_s: u64,
    },
}

/// The latest time, in milliseconds, of which a quorum says that this was the log's head: a quorum cosigned it then or later.
/// Of a policy without a quorum it is `now`, when the log itself said so.
///
/// Times ahead of `now` by more than a clock may be off are no times: one liar with a date far in the future does not keep
/// an old head fresh for ever. Nor does one that is alone with its fresh date: the quorum's other members must have been
/// there.
pub(super) fn witnessed_at(
    head: &SignedCheckpoint<Verified>,
    policy: &Policy,
    now: UnixMillis,
) -> Result<UnixMillis, NotWitnessed> {
    if policy.quorum().is_none() {
        return Ok(now);
    }
    let keys: Vec<VerifierKey> = policy.witnesses().iter().map(|witness| witness.vkey.clone()).collect();
    let latest = now.0.saturating_add(MAX_AHEAD_MS);
    let mut newest: BTreeMap<usize, u64> = BTreeMap::new();
    for (place, line) in verified_cosignatures(head.note(), &keys).into_iter().flatten() {
        let at = line.timestamp_s.saturating_mul(1000);
        if at <= latest {
            let held = newest.entry(place).or_default();
            *held = at.max(*held);
        }
    }
    let mut by_time: Vec<(u64, usize)> = newest.into_iter().map(|(place, at)| (at, place)).collect();
    by_time.sort_unstable_by(|one, other| other.cmp(one));
    let mut together = BTreeSet::new();
    for (at, place) in &by_time {
        together.insert(*place);
        if policy.satisfied_by(&together) {
            return Ok(UnixMillis(*at));
        }
    }
    Err(NotWitnessed::TooFew(together.len()))
}

/// Whether what was witnessed at `at` may still be believed.
pub(super) fn is_fresh(at: UnixMillis, now: UnixMillis, max_age_ms: u64) -> Result<(), NotWitnessed> {
    let age = now.0.saturating_sub(at.0);
    if age <= max_age_ms {
        return Ok(());
    }
    Err(NotWitnessed::TooOld { age_s: age / 1000, max_age_s: max_age_ms / 1000 })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;
    use merkle::{EMPTY_ROOT, TreeSize};
    use note::{Checkpoint, KeyKind, KeyName, Origin, SigningKey, cosign, sign_checkpoint};

    const NOW: UnixMillis = UnixMillis(1_790_000_000_000);

    fn key(name: &str, kind: KeyKind) -> SigningKey {
        SigningKey::from_seed(KeyName::new(name).unwrap(), kind, [name.len() as u8; 32])
    }

    fn witnesses() -> [SigningKey; 3] {
        ["w", "w2", "w-3"].map(|name| key(name, KeyKind::CosignatureV1))
    }

    fn policy(quorum: &str) -> Policy {
        let lines: Vec<String> = witnesses()
            .iter()
            .zip(1..)
            .map(|(key, number)| format!("witness w{number} {}\n", key.verifier()))
            .collect();
        Policy::parse(format!("{}{quorum}", lines.concat()).as_bytes()).unwrap()
    }

    /// The head cosigned by witnesses so many seconds before now.
    fn head(ages: &[(usize, i64)]) -> SignedCheckpoint<Verified> {
        let log = key("log.example/a", KeyKind::Ed25519);
        let head = Checkpoint::new(Origin::from(log.name()), TreeSize(0), EMPTY_ROOT);
        let head = sign_checkpoint(&head, &log).unwrap();
        let lines = ages.iter().map(|(place, age)| {
            let at = NOW.0 as i64 / 1000 - age;
            cosign(head.note().text(), &witnesses()[*place], at as u64).unwrap().to_line().unwrap()
        });
        head.with_cosignatures(&lines.collect::<Vec<_>>())
    }

    #[test]
    fn a_head_was_witnessed_when_the_last_member_of_its_newest_quorum_was_there() {
        let two = policy("group q 2 w1 w2 w3\nquorum q\n");
        let at = |ages: &[(usize, i64)]| witnessed_at(&head(ages), &two, NOW).map(|at| (NOW.0 - at.0) / 1000);
        assert_eq!(at(&[(0, 10), (1, 700), (2, 30)]), Ok(30));
        assert_eq!(at(&[(0, 10), (1, 700)]), Ok(700));
        assert_eq!(at(&[(0, 10)]), Err(NotWitnessed::TooFew(1)));
        assert_eq!(at(&[]), Err(NotWitnessed::TooFew(0)));
    }

    #[test]
    fn a_date_in_the_future_is_none() {
        let one = policy("quorum w1\n");
        assert_eq!(witnessed_at(&head(&[(0, -301)]), &one, NOW), Err(NotWitnessed::TooFew(0)));
        assert_eq!(witnessed_at(&head(&[(0, -299)]), &one, NOW), Ok(UnixMillis(NOW.0 + 299_000)));
    }

    #[test]
    fn without_a_quorum_the_logs_own_word_counts_now() {
        assert_eq!(witnessed_at(&head(&[]), &policy("quorum none\n"), NOW), Ok(NOW));
    }

    #[test]
    fn freshness_ends_at_the_age_allowed() {
        let at = UnixMillis(NOW.0 - 600_000);
        assert_eq!(is_fresh(at, NOW, 600_000), Ok(()));
        let refused = is_fresh(at, UnixMillis(NOW.0 + 1_000), 600_000);
        assert_eq!(refused, Err(NotWitnessed::TooOld { age_s: 601, max_age_s: 600 }));
    }
}
