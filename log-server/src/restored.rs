//! Is this store as new as what witnesses have seen of it? Asked at start, and again of every head that a witness shows
//! later: one that was down at the start may come back with more than is here.
//!
//! A log that runs on a restored backup signs a second history over the one that was seen. Its own disk cannot tell; the
//! witnesses can, since each serves the latest head that it cosigned. The log's own signature on that head is what
//! counts, whoever hands it over: nobody else can have made it.
//!
//! A witness of another make need not serve any head. It is pushed the newest one of this store, as if it held nothing:
//! then it says what size it holds. No signature stands behind that size, so a witness that lies can keep a log from
//! starting until its section is taken out of the configuration. That is the better of two evils: a second history cannot
//! be taken back.

use crate::config::{Protocol, Witness};
use crate::ledger::Shelf;
use client::add_checkpoint::Pushed;
use client::{BoundedClient, WitnessClient};
use futures_util::stream::{FuturesUnordered, StreamExt};
use merkle::{ConsistencyProof, HashSource, MissingHash, TreeSize, root_of};
use note::{Checkpoint, Origin, SignedCheckpoint, Verified, VerifierKey};
use std::sync::Arc;
use tokio::sync::watch;

/// Why the log must not run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Restored {
    /// A head of ours covers more than we have.
    #[error(
        "witness {witness} holds a head of this log of size {seen}, and this store ends at size {own}: it is an older copy, and running it would sign a second history; bring back the newest copy of the store"
    )]
    Older {
        /// Whose word it is.
        witness: String,
        /// What it holds.
        seen: TreeSize,
        /// What we have.
        own: TreeSize,
    },
    /// A head of ours is over other receipts than we have.
    #[error(
        "witness {witness} holds a head of this log of size {seen} with another root than this store has there: a second history was signed already; keep both stores and the witness's head, and do not run either"
    )]
    OtherHistory {
        /// Whose word it is.
        witness: String,
        /// The size where the two differ.
        seen: TreeSize,
    },
    /// Our own tree cannot be read.
    #[error("the store cannot be compared with the head that witness {witness} holds: {reason}")]
    Unreadable {
        /// Whose head it is.
        witness: String,
        /// What is missing.
        reason: MissingHash,
    },
}

/// Asks every configured witness for the latest head that it cosigned and compares each with the tree in `own`, whose
/// newest head is `head`; those that heads are pushed to are also pushed that one. A witness that cannot be asked, or answers with what is not ours, is logged and does not keep the log from
/// running: otherwise any witness that is down, or hostile, could.
///
/// # Errors
/// [`Restored`]: the log must not run.
pub async fn check(
    witnesses: &[Witness],
    origin: &Origin,
    log: &VerifierKey,
    http: &BoundedClient,
    own: &dyn Shelf,
    head: &SignedCheckpoint<Verified>,
) -> Result<(), Restored> {
    let size = head.checkpoint().size;
    let asked = witnesses.iter().map(async |witness| {
        let client = WitnessClient::new(witness.url.clone(), http.clone());
        let served = client.checkpoint(origin).await;
        let pushed = match witness.protocol {
            Protocol::Counterfoil => None,
            Protocol::TlogWitness => {
                Some(client.add_checkpoint(&witness.keys, TreeSize(0), &ConsistencyProof::default(), head).await)
            }
        };
        (witness, served, pushed)
    });
    // As they answer: where one knows better, those that hang are not waited for.
    let mut answers: FuturesUnordered<_> = asked.collect();
    while let Some((witness, served, pushed)) = answers.next().await {
        let name = witness.name();
        match pushed {
            Some(Ok(Pushed::Holds(seen))) if seen > size => {
                tracing::error!(witness = %name, %seen, own = %size, "the witness says that it cosigned more of this log than is here; it signs nothing with that, so if you are sure that this is the newest copy of the store, take its [[witness]] section out");
                return Err(Restored::Older { witness: name.to_string(), seen, own: size });
            }
            Some(Err(error)) => {
                tracing::warn!(witness = %name, %error, "the witness does not say whether it has seen more of this log than is here")
            }
            Some(Ok(_)) | None => {}
        }
        match served {
            // A witness that was pushed to has been asked already, and need not serve anything.
            Ok(None) | Err(_) if witness.protocol == Protocol::TlogWitness => {}
            Ok(None) => tracing::info!(witness = %name, "the witness has cosigned nothing of this log yet"),
            Err(error) => {
                tracing::warn!(witness = %name, %error, "the witness cannot be asked whether it has seen more of this log than is here")
            }
            Ok(Some(bytes)) => match SignedCheckpoint::parse(&bytes).and_then(|head| head.verify(log)) {
                Ok(head) => compare(name.as_str(), head.checkpoint(), own, size)?,
                Err(error) => {
                    tracing::warn!(witness = %name, %error, "the witness answered with what this log never signed")
                }
            },
        }
    }
    Ok(())
}

/// Where heads that witnesses show while the log runs are compared with what the log has.
#[derive(Clone)]
pub struct Lookout {
    own: Arc<dyn Shelf>,
    log: VerifierKey,
    found: watch::Sender<Option<Restored>>,
}

impl Lookout {
    /// Over the tree in `own`, of the log with key `log`.
    pub fn new(own: Arc<dyn Shelf>, log: VerifierKey) -> Self {
        Self { own, log, found: watch::Sender::new(None) }
    }

    /// The first head that this log cannot have signed over what it has: it must stop.
    pub fn found(&self) -> watch::Receiver<Option<Restored>> {
        self.found.subscribe()
    }

    /// `witness` shows `checkpoint`; `newest` is asked for afterwards, so that it covers whatever an honest log has shown.
    pub fn see(&self, witness: &str, checkpoint: &[u8], newest: &SignedCheckpoint<Verified>) {
        let Ok(seen) = SignedCheckpoint::parse(checkpoint).and_then(|head| head.verify(&self.log)) else { return };
        if let Err(found) = compare(witness, seen.checkpoint(), self.own.as_ref(), newest.checkpoint().size) {
            self.found.send_replace(Some(found));
        }
    }
}

fn compare(witness: &str, seen: &Checkpoint, own: &dyn HashSource, size: TreeSize) -> Result<(), Restored> {
    let witness = witness.to_owned();
    if seen.size > size {
        return Err(Restored::Older { witness, seen: seen.size, own: size });
    }
    match root_of(own, seen.size) {
        Ok(root) if root == seen.root => Ok(()),
        Ok(_) => Err(Restored::OtherHistory { witness, seen: seen.size }),
        Err(reason) => Err(Restored::Unreadable { witness, reason }),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;
    use merkle::{MemoryTree, RootHash, leaf_hash};

    fn tree(size: u64, last: &[u8]) -> MemoryTree {
        let mut tree = MemoryTree::new();
        for index in 1..size {
            tree.push(leaf_hash(&index.to_be_bytes()));
        }
        tree.push(leaf_hash(last));
        tree
    }

    fn head(size: u64, root: RootHash) -> Checkpoint {
        Checkpoint::new(Origin::new("log").unwrap(), TreeSize(size), root)
    }

    #[test]
    fn a_store_that_holds_what_was_seen_may_run() {
        let own = tree(5, b"x");
        for size in 0..=5 {
            let seen = head(size, root_of(&own, TreeSize(size)).unwrap());
            assert_eq!(compare("w", &seen, &own, TreeSize(5)), Ok(()), "{size}");
        }
    }

    #[test]
    fn a_store_that_is_behind_what_was_seen_may_not_run() {
        let (own, newer) = (tree(5, b"x"), tree(6, b"y"));
        let seen = head(6, newer.root());
        let refused = compare("w", &seen, &own, TreeSize(5)).unwrap_err();
        assert_eq!(refused, Restored::Older { witness: "w".into(), seen: TreeSize(6), own: TreeSize(5) });
    }

    #[test]
    fn a_store_with_another_history_may_not_run() {
        let (own, other) = (tree(5, b"x"), tree(5, b"y"));
        let refused = compare("w", &head(5, other.root()), &own, TreeSize(5)).unwrap_err();
        assert_eq!(refused, Restored::OtherHistory { witness: "w".into(), seen: TreeSize(5) });
        let longer = tree(9, b"z");
        let mut own = tree(5, b"x");
        own.push(leaf_hash(b"more"));
        assert!(compare("w", &head(5, root_of(&longer, TreeSize(5)).unwrap()), &own, TreeSize(6)).is_err());
    }
}
