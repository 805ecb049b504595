//! What peers hold of our own journal: the one thing that can tell a restored state directory from the newest.
//!
//! An older copy of the state is consistent in itself: nothing in it says that more was signed after it. But peers watch this
//! witness's journal as they watch logs, and the journal's own key signed what they hold. A head of it that our journal does
//! not contain shows that this key has signed for a state that is not this one, and then nothing may be signed with this one:
//! the head held for some log may be older than one that was cosigned, and the lines of the journal would be written twice.
//! Losing the disk means a new key.
//!
//! Before anything is cosigned or served, every peer is asked, all at once, within [`START_DEADLINE`]. Where none answers, the
//! witness starts all the same. To wait for an answer without a limit would put the quorum of every log into the hands of
//! whoever can keep two witnesses apart, and two witnesses that start after one power cut would wait for each other for ever:
//! each serves only once it has started. What is lost by starting can be shown: what is signed meanwhile is in the journal,
//! and the peer that holds the other branch of it has evidence against the journal's key at its next look. So the question
//! stays open for as long as the witness runs: a peer that answers later, or a second process that runs on a copy of the
//! state, ends it with the same sentence.
//!
//! Holds the rule and the asking. Does not hold what ends a process (`serve`).

use crate::broken::Broken;
use crate::journal::book::JournalReader;
use crate::peers::look::Peer;
use client::WitnessClient;
use merkle::{RootHash, TreeSize, root_of};
use note::{Checkpoint, Origin, SignedCheckpoint, VerifierKey};
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

/// How long a start waits for peers: any that is up answers a request of some hundred bytes well within this, and a witness
/// that starts without them is no later than this.
pub const START_DEADLINE: Duration = Duration::from_secs(5);

/// How often a peer is asked that has answered before.
const ASKED_AGAIN: Duration = Duration::from_secs(60);

/// Our journal is older than what was signed with its key, or another one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "this is an older copy of the state directory, or another process works on a second copy of it
peer {peer} holds a head of this witness's own journal, signed with its
key at size {theirs}, that the journal here (size {ours}) does not contain
the key must not be used again with this state, so nothing is cosigned:
1. stop any other process that runs this witness
2. bring back the newest state directory and start again
3. if that is lost, make a new witness with a new key and a new name
   (counterfoil-witness init), and tell the logs and auditors that rely
   on this one that it is replaced"
)]
pub struct RolledBack {
    /// Who holds it.
    pub peer: String,
    /// Its size there.
    pub theirs: TreeSize,
    /// The size of our journal.
    pub ours: TreeSize,
}

/// What a peer answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Held {
    /// It holds this head of our journal, under our journal's good signature.
    Head(Box<Checkpoint>),
    /// It holds none: it does not watch us, or has not yet seen anything.
    Nothing,
    /// Nothing that says anything, and why.
    NoAnswer(String),
}

/// Whether a journal of `size` whose root at each smaller size is told by `root_at` (`None` where it cannot be read) contains
/// the head `theirs` that `peer` holds.
///
/// # Errors
/// [`Broken::RolledBack`] when it does not, [`Broken::UnreadableJournal`] when that cannot be told.
pub fn judge(
    peer: &str,
    theirs: &Checkpoint,
    size: TreeSize,
    root_at: impl FnOnce(TreeSize) -> Option<RootHash>,
) -> Result<(), Broken> {
    if theirs.size <= size && root_at(theirs.size).ok_or(Broken::UnreadableJournal(theirs.size))? == theirs.root {
        return Ok(());
    }
    Err(RolledBack { peer: peer.to_owned(), theirs: theirs.size, ours: size }.into())
}

/// What a peer's answer says, taken for nothing that `journal` did not sign.
pub fn read(answer: Option<&[u8]>, journal: &VerifierKey) -> Held {
    let Some(answer) = answer else { return Held::Nothing };
    match SignedCheckpoint::parse(answer).and_then(|head| head.verify(journal)) {
        Ok(head) => Held::Head(Box::new(head.checkpoint().clone())),
        Err(error) => Held::NoAnswer(format!("its answer is no head of our journal: {error}")),
    }
}

/// Asks a peer what it holds of the journal with this key.
pub async fn ask(peer: &WitnessClient, journal: &VerifierKey) -> Held {
    match peer.checkpoint(&Origin::from(journal.name())).await {
        Ok(answer) => read(answer.as_deref(), journal),
        Err(error) => Held::NoAnswer(error.to_string()),
    }
}

/// Asks all peers at once, within [`START_DEADLINE`], whether our journal is the newest.
///
/// # Errors
/// [`Broken::RolledBack`], from the first peer that shows it.
pub async fn check_at_start(peers: &[Arc<Peer>], journal: &JournalReader) -> Result<(), Broken> {
    let mut asking: JoinSet<(Arc<Peer>, Held)> = JoinSet::new();
    for peer in peers {
        let (peer, vkey) = (Arc::clone(peer), journal.vkey().clone());
        asking.spawn(async move {
            let held = ask(peer.client(), &vkey).await;
            (peer, held)
        });
    }
    let mut answered = 0;
    let all = async {
        while let Some(asked) = asking.join_next().await {
            if let Ok((peer, held)) = asked {
                answered += usize::from(take(&peer, held, journal)?);
            }
        }
        Ok(())
    };
    if let Ok(Err(broken)) = timeout(START_DEADLINE, all).await {
        return Err(broken);
    }
    if answered == 0 && !peers.is_empty() {
        tracing::warn!(
            "no peer could say whether this state directory is the newest; starting all the same, and asking on. If it was \
             restored from a copy, stop this witness now"
        );
    }
    Ok(())
}

/// Asks one peer again and again, for as long as the witness runs: `until_answered` apart until it has answered, then once
/// in [`ASKED_AGAIN`].
///
/// # Errors
/// [`Broken::RolledBack`]: the witness must stop.
pub async fn keep_asking(
    peer: Arc<Peer>,
    journal: JournalReader,
    until_answered: Duration,
    stop: CancellationToken,
) -> Result<(), Broken> {
    let mut pause = until_answered;
    loop {
        tokio::select! {
            biased;
            () = stop.cancelled() => return Ok(()),
            () = tokio::time::sleep(pause) => {}
        }
        let held = tokio::select! {
            biased;
            () = stop.cancelled() => return Ok(()),
            held = ask(peer.client(), journal.vkey()) => held,
        };
        pause = if take(&peer, held, &journal)? { ASKED_AGAIN.max(until_answered) } else { until_answered };
    }
}

/// What a peer's answer means for us; whether it is one.
fn take(peer: &Peer, held: Held, journal: &JournalReader) -> Result<bool, Broken> {
    let name = peer.name().as_str();
    match held {
        Held::Head(theirs) => {
            // Our size is read after the answer came: what the peer has from us is never larger.
            let size = journal.log().size();
            judge(name, &theirs, size, |size| root_of(journal.log(), size).ok())?;
            tracing::debug!(peer = name, size = theirs.size.0, "the peer's head of our journal is in our journal");
            Ok(true)
        }
        Held::Nothing => Ok(true),
        Held::NoAnswer(reason) => {
            tracing::debug!(peer = name, "cannot ask what the peer holds of our journal: {reason}");
            Ok(false)
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;
    use merkle::{EMPTY_ROOT, MemoryTree, leaf_hash};
    use note::{KeyKind, KeyName, SigningKey, sign_checkpoint};

    fn tree(size: u64, branch: u8) -> MemoryTree {
        let mut tree = MemoryTree::new();
        (0..size).for_each(|place| tree.push(leaf_hash(&[&[branch][..], &place.to_be_bytes()].concat())));
        tree
    }

    fn head(tree: &MemoryTree) -> Checkpoint {
        Checkpoint::new(Origin::new("witness.example/w/journal").unwrap(), tree.size(), tree.root())
    }

    fn judged(ours: &MemoryTree, theirs: &Checkpoint) -> Result<(), Broken> {
        judge("witness.example/p", theirs, ours.size(), |size| root_of(ours, size).ok())
    }

    #[test]
    fn a_head_that_our_journal_contains_is_well() {
        let ours = tree(20, 1);
        for size in [0, 1, 8, 19, 20] {
            judged(&ours, &head(&tree(size, 1))).unwrap();
        }
        let empty = Checkpoint { root: EMPTY_ROOT, ..head(&tree(0, 1)) };
        judged(&MemoryTree::new(), &empty).unwrap();
    }

    #[test]
    fn a_head_that_is_larger_or_another_tells_an_older_copy() {
        let ours = tree(20, 1);
        for theirs in [tree(21, 1), tree(20, 2), tree(5, 2), tree(300, 2)] {
            let broken = judged(&ours, &head(&theirs)).unwrap_err();
            let Broken::RolledBack(rolled_back) = &broken else { panic!("{broken}") };
            assert_eq!((rolled_back.theirs, rolled_back.ours), (theirs.size(), TreeSize(20)));
            let sentence = broken.to_string();
            for word in ["older copy", "must not be used again", "new key and a new name"] {
                assert!(sentence.contains(word), "{sentence}");
            }
        }
    }

    #[test]
    fn a_tree_that_cannot_be_read_is_not_called_an_older_copy() {
        let broken = judge("p", &head(&tree(5, 1)), TreeSize(20), |_| None).unwrap_err();
        assert!(matches!(broken, Broken::UnreadableJournal(TreeSize(5))), "{broken}");
    }

    #[test]
    fn what_our_journals_key_did_not_sign_says_nothing() {
        let key = |seed| {
            SigningKey::from_seed(KeyName::new("witness.example/w/journal").unwrap(), KeyKind::Ed25519, [seed; 32])
        };
        let (ours, other) = (key(1), key(2));
        let theirs = head(&tree(9, 1));
        let signed = |key| sign_checkpoint(&theirs, key).unwrap();
        assert_eq!(read(Some(signed(&ours).bytes()), &ours.verifier()), Held::Head(Box::new(theirs.clone())));
        assert_eq!(read(None, &ours.verifier()), Held::Nothing);
        for answer in [signed(&other).bytes(), b"<html>", b""] {
            assert!(matches!(read(Some(answer), &ours.verifier()), Held::NoAnswer(_)));
        }
    }
}
