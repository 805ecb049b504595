//! Evidence that a log, or a witness, vouched for two histories (protocol, section 7).
//!
//! ```text
//! {"kind":"log-fork","log":"<vkey>","first":"<checkpoint>","second":"<checkpoint>",
//!  "implied_root":"<base64>","proof":["<base64>",…]}
//! {"kind":"witness-fork","witness":"<vkey>", … the same}
//! ```
//!
//! Two heads of one size with two roots contradict each other by themselves; `implied_root` and `proof` are absent
//! then. Of two sizes, `first` is the smaller, and `proof` leads from `implied_root` at the first size to the
//! second's root: the second head says that the first one's root was another. The implied root has to be there,
//! because a consistency proof from a power of two leaves it out.
//!
//! Everything needed to check a document is in it, but for the reader's belief in the key it names.

use crate::implied::Implied;
use merkle::{ConsistencyProof, Hash, ProofError, RootHash, TreeSize};
use note::{Checkpoint, CheckpointError, SignedCheckpoint, Verified, VerifierKey, verified_cosignatures};
use serde::{Deserialize, Serialize};
use std::cmp::Ordering;

/// Two heads signed by one log that no single history contains.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LogFork {
    kind: LogForkKind,
    log: VerifierKey,
    first: String,
    second: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    implied_root: Option<Hash>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    proof: Option<Vec<Hash>>,
}

/// Two heads cosigned by one witness that no single history contains.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WitnessFork {
    kind: WitnessForkKind,
    witness: VerifierKey,
    first: String,
    second: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    implied_root: Option<Hash>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    proof: Option<Vec<Hash>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
enum LogForkKind {
    #[serde(rename = "log-fork")]
    LogFork,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
enum WitnessForkKind {
    #[serde(rename = "witness-fork")]
    WitnessFork,
}

/// Who is shown to have lied, and what is not shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Accusation {
    /// The key that signed both heads.
    pub key: VerifierKey,
    /// What it is shown to have done.
    pub sentence: String,
    /// What this evidence leaves open.
    pub not_shown: String,
}

/// Why a document is no evidence. Whoever presents it is to blame, never the key it names.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EvidenceError {
    /// One of the two is not a head signed by the key.
    #[error("the {which} head is not one that the named key signed: {reason}")]
    NotSigned {
        /// `first` or `second`.
        which: &'static str,
        /// What is wrong with it.
        reason: CheckpointError,
    },
    /// One of the two carries no good cosignature of the witness.
    #[error("the {which} head carries no cosignature that verifies under the named witness key")]
    NotCosigned {
        /// `first` or `second`.
        which: &'static str,
    },
    /// The heads are of two logs.
    #[error("the two heads are of different logs ({0} and {1}); nothing binds one to the other")]
    TwoLogs(String, String),
    /// The heads agree.
    #[error("the two heads have one size and one root: they agree")]
    SameHead,
    /// The smaller head has to come first.
    #[error("the first head is the larger one; the smaller has to come first")]
    WrongOrder,
    /// Two sizes, and the implied root or the proof is not there; or one size, and one of them is.
    #[error("heads of two sizes need implied_root and proof, heads of one size must have neither")]
    Members,
    /// Every tree begins empty, so an empty head contradicts nothing.
    #[error("a head of size 0 contradicts no other")]
    Empty,
    /// The implied root is the first head's root: the heads are consistent.
    #[error("the implied root is the first head's own: the two heads are consistent")]
    Consistent,
    /// The proof does not lead from the implied root to the second head's.
    #[error("the proof does not lead from the implied root to the second head: {0}")]
    Proof(#[from] ProofError),
}

impl LogFork {
    /// Evidence of two heads that contradict each other, in either order; `implied` is what the larger says about
    /// the smaller's size, `None` for one size.
    ///
    /// # Errors
    /// [`EvidenceError`] when the heads do not contradict each other, or not provably so.
    pub fn make(
        one: &SignedCheckpoint<Verified>,
        other: &SignedCheckpoint<Verified>,
        implied: Option<Implied>,
    ) -> Result<LogFork, EvidenceError> {
        let (first, second) = in_order(one, other);
        // Cosignatures are left out: the accusation is the log's, and others' lines would only blur it.
        let text =
            |head: &SignedCheckpoint<Verified>| String::from_utf8_lossy(head.log_signed_only().bytes()).into_owned();
        let (implied_root, proof) = split_implied(implied);
        let fork = LogFork {
            kind: LogForkKind::LogFork,
            log: first.log_key().clone(),
            first: text(first),
            second: text(second),
            implied_root,
            proof,
        };
        fork.check().map(|_| fork)
    }

    /// The log that is accused.
    pub fn log(&self) -> &VerifierKey {
        &self.log
    }

    /// Whether `other` shows the same: the same two heads of the same log, whatever else stands in the two documents.
    pub fn is_about_the_same(&self, other: &LogFork) -> bool {
        let heads = |fork: &LogFork| Some([claimed(&fork.first)?, claimed(&fork.second)?]);
        self.log == other.log && heads(self).is_some() && heads(self) == heads(other)
    }

    /// Checks the document by itself.
    ///
    /// # Errors
    /// [`EvidenceError`]: it shows nothing.
    pub fn check(&self) -> Result<Accusation, EvidenceError> {
        let signed = |which, text: &str| {
            let head = SignedCheckpoint::parse(text.as_bytes()).and_then(|head| head.verify(&self.log));
            head.map(|head| head.checkpoint().clone()).map_err(|reason| EvidenceError::NotSigned { which, reason })
        };
        let (first, second) = (signed("first", &self.first)?, signed("second", &self.second)?);
        contradict(&first, &second, self.implied_root, self.proof.as_deref())?;
        Ok(Accusation {
            key: self.log.clone(),
            sentence: format!("The log {} signed two histories: {}.", self.log.name(), told(&first, &second)),
            not_shown: "It is not shown which of the two is the true one, nor who besides the log was shown which."
                .to_owned(),
        })
    }
}

/// The size and root that a head claims.
fn claimed(head: &str) -> Option<(TreeSize, RootHash)> {
    let head = SignedCheckpoint::parse(head.as_bytes()).ok()?;
    Some((head.claimed().size, head.claimed().root))
}

/// The smaller head first; of one size, the one with the smaller root. So the same two heads always make the same document.
fn in_order<'a>(
    one: &'a SignedCheckpoint<Verified>,
    other: &'a SignedCheckpoint<Verified>,
) -> (&'a SignedCheckpoint<Verified>, &'a SignedCheckpoint<Verified>) {
    let key = |head: &SignedCheckpoint<Verified>| (head.checkpoint().size, head.checkpoint().root.0);
    if key(one) <= key(other) { (one, other) } else { (other, one) }
}

impl WitnessFork {
    /// Evidence of two heads with a cosignature of `witness` each, in either order; `implied` as for [`LogFork::make`].
    ///
    /// # Errors
    /// [`EvidenceError`] when the witness did not cosign both, or they do not provably contradict each other.
    pub fn make(
        witness: &VerifierKey,
        one: &SignedCheckpoint<Verified>,
        other: &SignedCheckpoint<Verified>,
        implied: Option<Implied>,
    ) -> Result<WitnessFork, EvidenceError> {
        let (first, second) = in_order(one, other);
        let (implied_root, proof) = split_implied(implied);
        let fork = WitnessFork {
            kind: WitnessForkKind::WitnessFork,
            witness: witness.clone(),
            first: cosigned_only("first", first, witness)?,
            second: cosigned_only("second", second, witness)?,
            implied_root,
            proof,
        };
        fork.check().map(|_| fork)
    }

    /// Whether `other` accuses the same witness over the same log. One such document says all: a witness and a log that
    /// work together can make as many of them as they like.
    pub fn is_about_the_same(&self, other: &WitnessFork) -> bool {
        let origin = |fork: &WitnessFork| fork.first.lines().next().map(str::to_owned);
        self.witness == other.witness && origin(self) == origin(other)
    }

    /// The witness that is accused.
    pub fn witness(&self) -> &VerifierKey {
        &self.witness
    }

    /// Checks the document by itself. The log's signatures play no part: a cosignature covers the text.
    ///
    /// # Errors
    /// [`EvidenceError`]: it shows nothing.
    pub fn check(&self) -> Result<Accusation, EvidenceError> {
        let cosigned = |which, text: &str| {
            let head = SignedCheckpoint::parse(text.as_bytes())
                .map_err(|reason| EvidenceError::NotSigned { which, reason })?;
            let lines = verified_cosignatures(head.note(), std::slice::from_ref(&self.witness));
            let good = lines.iter().any(Result::is_ok);
            if good { Ok(head.claimed().clone()) } else { Err(EvidenceError::NotCosigned { which }) }
        };
        let (first, second) = (cosigned("first", &self.first)?, cosigned("second", &self.second)?);
        contradict(&first, &second, self.implied_root, self.proof.as_deref())?;
        Ok(Accusation {
            key: self.witness.clone(),
            sentence: format!(
                "The witness {} vouched for two histories of {}: {}.",
                self.witness.name(),
                first.origin,
                told(&first, &second)
            ),
            not_shown: "It is not shown whether it lied, lost its state or lost its key; its cosignatures are worth \
                        nothing from the earlier of the two on."
                .to_owned(),
        })
    }
}

/// The head's text with one good cosignature of `witness` and no other line, not the log's either: a cosignature covers
/// the text alone, and a line that the check does not look at could be changed without anybody noticing.
fn cosigned_only(
    which: &'static str,
    head: &SignedCheckpoint<Verified>,
    witness: &VerifierKey,
) -> Result<String, EvidenceError> {
    let mut lines = verified_cosignatures(head.note(), std::slice::from_ref(witness)).into_iter();
    let (_, cosignature) = lines.find_map(Result::ok).ok_or(EvidenceError::NotCosigned { which })?;
    Ok(format!("{}\n{}\n", head.note().text(), cosignature.line))
}

/// Whether no single history contains both heads: one rule for logs and for witnesses.
fn contradict(
    first: &Checkpoint,
    second: &Checkpoint,
    implied_root: Option<Hash>,
    proof: Option<&[Hash]>,
) -> Result<(), EvidenceError> {
    if first.origin != second.origin {
        return Err(EvidenceError::TwoLogs(first.origin.to_string(), second.origin.to_string()));
    }
    match (first.size.cmp(&second.size), implied_root, proof) {
        (Ordering::Equal, None, None) if first.root == second.root => Err(EvidenceError::SameHead),
        (Ordering::Equal, None, None) => Ok(()),
        (Ordering::Less, _, _) if first.size == TreeSize(0) => Err(EvidenceError::Empty),
        (Ordering::Less, Some(implied), Some(proof)) => {
            if implied == first.root.0 {
                return Err(EvidenceError::Consistent);
            }
            // Refused before anything is hashed unless it has exactly the length that the sizes call for.
            let proof = ConsistencyProof::new(proof.to_vec());
            Ok(proof.verify(first.size, &RootHash(implied), second.size, &second.root)?)
        }
        (Ordering::Greater, _, _) => Err(EvidenceError::WrongOrder),
        (Ordering::Equal | Ordering::Less, _, _) => Err(EvidenceError::Members),
    }
}

fn told(first: &Checkpoint, second: &Checkpoint) -> String {
    if first.size == second.size {
        format!("at size {} the roots {} and {}", first.size, first.root, second.root)
    } else {
        format!(
            "at size {} the root {}, and at size {} a root whose tree has another root at size {}",
            first.size, first.root, second.size, first.size
        )
    }
}

fn split_implied(implied: Option<Implied>) -> (Option<Hash>, Option<Vec<Hash>>) {
    implied.map_or((None, None), |implied| (Some(implied.root.0), Some(implied.proof.hashes().to_vec())))
}
