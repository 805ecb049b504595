//! Which cosigners are enough for `wait=cosigned`: the operator's policy, or every configured witness where there
//! is none.
//!
//! Every witness is the strict reading: an operator who wants an answer although one witness is down says so by a
//! policy, and the policy that gates check by should be the same file. With neither, nothing is ever cosigned: no
//! quorum is met by nobody, unless a policy says `quorum none` in so many words.

use note::{Policy, VerifierKey};
use std::collections::BTreeSet;

/// When a head counts as cosigned.
#[derive(Debug)]
pub struct Quorum(Rule);

#[derive(Debug)]
enum Rule {
    Every {
        witnesses: usize,
    },
    /// `places[i]` is the place in the policy of the i-th configured witness.
    Policy {
        policy: Box<Policy>,
        places: Vec<Option<usize>>,
    },
}

/// Why a policy cannot be this log's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QuorumError {
    /// The policy is about other logs.
    #[error("the policy does not list this log; add the line `log {0}` to it")]
    OtherLog(Box<VerifierKey>),
    /// Even all configured witnesses together are too few.
    #[error(
        "all configured witnesses together do not satisfy the policy's quorum; add a [[witness]] section for each of the policy's witnesses"
    )]
    NeverMet,
}

impl Quorum {
    /// Every one of `witnesses` configured witnesses must have cosigned.
    pub fn every(witnesses: usize) -> Self {
        Self(Rule::Every { witnesses })
    }

    /// As `policy` says, for the log with key `log` and these configured witnesses.
    ///
    /// # Errors
    /// [`QuorumError`]: with this policy nobody would ever get an answer.
    pub fn by_policy(policy: Policy, log: &VerifierKey, witnesses: &[VerifierKey]) -> Result<Self, QuorumError> {
        if !policy.logs().iter().any(|listed| listed.vkey == *log) {
            return Err(QuorumError::OtherLog(Box::new(log.clone())));
        }
        let places =
            witnesses.iter().map(|key| policy.witnesses().iter().position(|listed| listed.vkey == *key)).collect();
        let quorum = Self(Rule::Policy { policy: Box::new(policy), places });
        if quorum.is_met_by(0..witnesses.len()) { Ok(quorum) } else { Err(QuorumError::NeverMet) }
    }

    /// Whether the configured witnesses at these places are enough.
    pub fn is_met_by(&self, cosigners: impl Iterator<Item = usize>) -> bool {
        match &self.0 {
            Rule::Every { witnesses } => *witnesses > 0 && cosigners.collect::<BTreeSet<_>>().len() == *witnesses,
            Rule::Policy { policy, places } => {
                let listed = cosigners.filter_map(|place| places.get(place).copied().flatten()).collect();
                policy.satisfied_by(&listed)
            }
        }
    }

    /// Whether anything can ever be cosigned.
    pub fn can_be_met(&self) -> bool {
        match &self.0 {
            Rule::Every { witnesses } => *witnesses > 0,
            Rule::Policy { .. } => true,
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;
    use note::{KeyKind, KeyName, SigningKey};

    fn vkey(name: &str, kind: KeyKind) -> VerifierKey {
        let mut seed = [3; 32];
        seed[..name.len()].copy_from_slice(name.as_bytes());
        SigningKey::from_seed(KeyName::new(name).unwrap(), kind, seed).verifier()
    }

    fn witnesses() -> Vec<VerifierKey> {
        ["w1", "w2", "w3"].map(|name| vkey(name, KeyKind::CosignatureV1)).to_vec()
    }

    fn two_of_three() -> Policy {
        let mut text = format!("log {}\n", vkey("log", KeyKind::Ed25519));
        for (number, key) in witnesses().iter().enumerate() {
            text.push_str(&format!("witness n{number} {key}\n"));
        }
        text.push_str("group g 2 n0 n1 n2\nquorum g\n");
        Policy::parse(text.as_bytes()).unwrap()
    }

    #[test]
    fn without_a_policy_every_witness_must_have_cosigned_and_nobody_is_not_enough() {
        let quorum = Quorum::every(2);
        assert!(quorum.is_met_by([0, 1].into_iter()));
        assert!(!quorum.is_met_by([1, 1].into_iter()));
        assert!(!Quorum::every(0).is_met_by(std::iter::empty()));
        assert!(!Quorum::every(0).can_be_met());
    }

    #[test]
    fn a_policy_counts_witnesses_by_their_keys_wherever_they_are_configured() {
        let mut configured = witnesses();
        configured.reverse();
        configured.push(vkey("other", KeyKind::CosignatureV1));
        let quorum = Quorum::by_policy(two_of_three(), &vkey("log", KeyKind::Ed25519), &configured).unwrap();
        assert!(quorum.is_met_by([0, 2].into_iter()));
        assert!(!quorum.is_met_by([0, 3].into_iter()), "a witness that the policy does not list counts for nothing");
    }

    #[test]
    fn a_policy_that_can_never_be_met_is_refused_at_start() {
        let refused = Quorum::by_policy(two_of_three(), &vkey("log", KeyKind::Ed25519), &witnesses()[..1]);
        assert_eq!(refused.unwrap_err(), QuorumError::NeverMet);
        let refused = Quorum::by_policy(two_of_three(), &vkey("log2", KeyKind::Ed25519), &witnesses());
        assert!(matches!(refused.unwrap_err(), QuorumError::OtherLog(_)));
    }
}
