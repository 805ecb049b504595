//! The saved state of an audit: what a later audit of the same log goes on from, instead of reading every entry again.
//!
//! It holds what the walk over the entries remembers, the right edge of the tree they form, the log's list of heads as
//! far as it was verified, and one head that vouches for all of it. Only an audit whose entries are all vouched for by
//! signed heads is worth going on from ([`NotSaved`]). The newest head, witnesses, journals, proofs and documents are read
//! and judged anew each time: policy and quorum may change in between. What the entries were judged by may not: the state
//! is taken for the same log, issuers, rules and deadline alone. Of the list of heads only what came since is read, and
//! the page where that begins: a whole page before it that was changed meanwhile is not seen.
//!
//! ```text
//! counterfoil/audit-state/v6 LF │ SHA-256 of the rest │ postcard
//! ```
//!
//! The digest finds damage. Against whoever can write the file it protects nothing: the state is the auditor's own word,
//! and is kept where the auditor keeps the policy.

use crate::heads::ListedHeads;
use crate::judge::Terms;
use crate::pass::Edge;
use crate::walk::Walk;
use merkle::RootHash;
use note::{SignedCheckpoint, Verified, VerifierKey};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;

/// In front of every state file. The number goes up with every change of what follows, which says nothing of itself.
const MAGIC: &str = "counterfoil/audit-state/v6\n";

const DIGEST_LEN: usize = 32;

/// Largest state file: some twenty million receipts.
pub const MAX_STATE_LEN: u64 = 4 << 30;

/// What one audit found out about a log's entries, read back.
#[derive(Deserialize)]
pub struct SavedAudit {
    /// What the entries were judged by.
    terms: [u8; 32],
    /// A head of the log, as signed, over all entries that were judged.
    anchor: String,
    pub(crate) edge: Edge,
    /// Roots at the sizes of heads.
    pub(crate) roots: BTreeMap<u64, RootHash>,
    pub(crate) heads: ListedHeads,
    pub(crate) walk: Walk,
}

/// The same, about to be saved: member for member.
#[derive(Serialize)]
struct Saving<'audit> {
    terms: [u8; 32],
    anchor: String,
    judged: &'audit Judged<'audit>,
}

/// Why a state cannot be gone on from. The auditor audits in full instead.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StateError {
    /// Not a state file, or one of another version.
    #[error("this is no saved state of this version of the verifier; audit in full and save a new one")]
    Format,
    /// Its digest is not that of its content.
    #[error("the saved state is damaged; audit in full and save a new one")]
    Damaged,
    /// Made by other issuers, rules or another deadline, or about another log.
    #[error(
        "the saved state was made about another log, or with other issuers, rules or another --outcome-deadline; audit in full"
    )]
    OtherTerms,
}

/// Why an audit left no state to go on from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotSaved {
    /// The log could not be told, or no head of it was good.
    #[error("no state was saved: no signed head vouches for the entries")]
    NoHead,
    /// Entries are missing, or not those that a head was signed over.
    #[error("no state was saved: not all entries are there and vouched for by signed heads")]
    NotWhole,
}

/// What of an audit can be saved.
#[derive(Serialize)]
pub(crate) struct Judged<'audit> {
    pub(crate) edge: &'audit Edge,
    pub(crate) roots: &'audit BTreeMap<u64, RootHash>,
    pub(crate) heads: &'audit ListedHeads,
    pub(crate) walk: &'audit Walk,
}

impl Judged<'_> {
    /// The file. `anchor` vouches for all of it.
    pub(crate) fn to_file(&self, terms: &Terms<'_>, anchor: &SignedCheckpoint<Verified>) -> Result<Vec<u8>, NotSaved> {
        // In postcard a struct is its members one after the other: `judged` stands for its four.
        let saving = Saving {
            terms: digest(terms, anchor.log_key()),
            anchor: anchor.log_signed_only().note().to_string(),
            judged: self,
        };
        let start = MAGIC.len() + DIGEST_LEN;
        let mut file = postcard::to_extend(&saving, vec![0; start]).map_err(|_| NotSaved::NotWhole)?;
        let digest = Sha256::digest(&file[start..]);
        file[..MAGIC.len()].copy_from_slice(MAGIC.as_bytes());
        file[MAGIC.len()..start].copy_from_slice(&digest);
        Ok(file)
    }
}

impl SavedAudit {
    /// How many entries were judged.
    pub fn entries(&self) -> u64 {
        self.edge.size()
    }

    /// Reads a state file.
    ///
    /// # Errors
    /// [`StateError`]: it cannot be gone on from. Whether it was made by the same terms is asked when it is used.
    pub fn parse(bytes: &[u8]) -> Result<SavedAudit, StateError> {
        let (digest, content) = bytes
            .strip_prefix(MAGIC.as_bytes())
            .and_then(|rest| rest.split_first_chunk::<DIGEST_LEN>())
            .ok_or(StateError::Format)?;
        if Sha256::digest(content)[..] != *digest {
            return Err(StateError::Damaged);
        }
        let saved: SavedAudit = postcard::from_bytes(content).map_err(|_| StateError::Format)?;
        Ok(SavedAudit { walk: saved.walk.resumed(), ..saved })
    }

    /// The head that vouches for it, if it was made by these terms about this log.
    ///
    /// # Errors
    /// [`StateError::OtherTerms`]; [`StateError::Damaged`] for a head that does not vouch for the entries.
    pub(crate) fn anchor(
        &self,
        terms: &Terms<'_>,
        log: &VerifierKey,
    ) -> Result<SignedCheckpoint<Verified>, StateError> {
        if self.terms != digest(terms, log) {
            return Err(StateError::OtherTerms);
        }
        let anchor = SignedCheckpoint::parse(self.anchor.as_bytes()).and_then(|anchor| anchor.verify(log));
        let anchor = anchor.map_err(|_| StateError::Damaged)?;
        let head = anchor.checkpoint();
        match head.size.0 == self.edge.size() && self.edge.root() == Some(head.root) {
            true => Ok(anchor),
            false => Err(StateError::Damaged),
        }
    }
}

impl std::fmt::Debug for SavedAudit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "SavedAudit({} entries)", self.entries())
    }
}

/// Of everything that judging an entry goes by.
fn digest(terms: &Terms<'_>, log: &VerifierKey) -> [u8; 32] {
    let mut hasher = Sha256::new();
    let mut part = |text: &str| {
        hasher.update((text.len() as u64).to_be_bytes());
        hasher.update(text.as_bytes());
    };
    part(env!("CARGO_PKG_VERSION"));
    part(&log.to_string());
    for issuer in terms.issuers {
        part(&format!("{} {:?} {:?} {:?}", issuer.vkey, issuer.heartbeat_ms, issuer.from, issuer.until));
    }
    part(&terms.rules.canonical());
    part(&format!("{:?}", terms.outcome_deadline_ms));
    hasher.finalize().into()
}
