//! Which forks are kept as evidence. A fork is never dropped, but the same fork sent again is one fork, and whoever
//! holds an issuer's key can make as many as it likes: so each pair of texts is kept once, and of one issuer a bounded
//! number. One is enough to convict; the rest are counted.

use merkle::{Hash, leaf_hash};
use receipt::{IssuerName, Receipt};
use std::collections::{HashMap, HashSet};

/// Documents kept of one issuer. A document holds two receipts of at most 64 KiB, so at most 8 MiB an issuer (a little
/// more where JSON escapes).
pub const KEPT_OF_ONE_ISSUER: usize = 64;

/// The forks that have been kept.
#[derive(Debug, Default)]
pub struct ForkLog {
    kept: HashSet<(Hash, Hash)>,
    of_issuer: HashMap<IssuerName, usize>,
}

/// What to do with a fork.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// Keep it.
    Yes,
    /// It is kept already.
    Already,
    /// Enough of this issuer's are kept.
    Enough,
}

impl ForkLog {
    /// Whether the fork of these two receipts is to be kept.
    pub fn judge(&self, one: &Receipt, other: &Receipt) -> Keep {
        if self.kept.contains(&pair(one, other)) {
            Keep::Already
        } else if self.of_issuer.get(one.issuer()).is_some_and(|kept| *kept >= KEPT_OF_ONE_ISSUER) {
            Keep::Enough
        } else {
            Keep::Yes
        }
    }

    /// It has been kept, now or before the last start.
    pub fn kept(&mut self, one: &Receipt, other: &Receipt) {
        if self.kept.insert(pair(one, other)) {
            *self.of_issuer.entry(one.issuer().clone()).or_default() += 1;
        }
    }

    /// Recalls what a kept document holds; a document of another kind, or one that cannot be read, holds nothing for us.
    pub fn recall(&mut self, document: &str) {
        let Ok(document) = receipt::ijson::parse_object(document) else { return };
        let receipt_in = |member: &str| Receipt::parse(document.get(member)?.as_str()?.as_bytes()).ok();
        if let (Some(one), Some(other)) = (receipt_in("first"), receipt_in("second")) {
            self.kept(&one, &other);
        }
    }
}

/// By what was signed, not by signature lines: those of a `rotate` can be garbled by anybody, and every garbling would
/// count as another fork.
fn pair(one: &Receipt, other: &Receipt) -> (Hash, Hash) {
    let (one, other) = (leaf_hash(one.text().as_bytes()), leaf_hash(other.text().as_bytes()));
    if one <= other { (one, other) } else { (other, one) }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;
    use note::{KeyKind, KeyName, SigningKey};
    use receipt::{Chain, IssuerForkEvidence, UnixMillis};

    fn key() -> SigningKey {
        SigningKey::from_seed(KeyName::new("gate").unwrap(), KeyKind::Ed25519, [1; 32])
    }

    fn variant(number: u64) -> Receipt {
        let mut chain = Chain::new(IssuerName::new("gate").unwrap());
        chain.open(UnixMillis(1), &key()).unwrap();
        chain.append(format!(r#"{{"type":"x","number":{number}}}"#), UnixMillis(2), &key()).unwrap()
    }

    #[test]
    fn the_same_fork_is_kept_once_in_whatever_order_it_comes() {
        let mut forks = ForkLog::default();
        let (a, b) = (variant(1), variant(2));
        assert_eq!(forks.judge(&a, &b), Keep::Yes);
        forks.kept(&a, &b);
        assert_eq!(forks.judge(&a, &b), Keep::Already);
        assert_eq!(forks.judge(&b, &a), Keep::Already);
        assert_eq!(forks.judge(&a, &variant(3)), Keep::Yes);
    }

    #[test]
    fn of_one_issuer_a_bounded_number_is_kept() {
        let mut forks = ForkLog::default();
        let held = variant(0);
        for number in 1..=KEPT_OF_ONE_ISSUER as u64 {
            assert_eq!(forks.judge(&held, &variant(number)), Keep::Yes);
            forks.kept(&held, &variant(number));
        }
        assert_eq!(forks.judge(&held, &variant(9999)), Keep::Enough);
        assert_eq!(forks.judge(&held, &variant(1)), Keep::Already);
    }

    #[test]
    fn a_kept_document_is_recalled_after_a_restart() {
        let (a, b) = (variant(1), variant(2));
        let evidence = IssuerForkEvidence::make(&key().verifier(), a.bytes(), b.bytes()).unwrap();
        let mut forks = ForkLog::default();
        forks.recall(&serde_json::to_string(&evidence).unwrap());
        forks.recall("{}");
        forks.recall("not json");
        assert_eq!(forks.judge(&a, &b), Keep::Already);
    }
}
