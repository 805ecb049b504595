//! Evidence that a log admitted what section 4 refuses (section 7, `log-admitted`).
//!
//! ```text
//! {"kind":"log-admitted","log":"<vkey>","checkpoint":"<checkpoint>","code":"time-reversed",
//!  "entries":[{"index":40,"entry":"<base64>","proof":["<base64>",…]},…]}
//! ```
//!
//! The last of `entries` is the accused one. Those before it are what it is held against, in the log's order
//! ([`crate::breach`] says which); each is in the tree under the checkpoint, by its own proof. With `bad-signature` and a
//! receipt before it, `key` is the key that signed that one, unless it is a `rotate`.
//!
//! Everything needed to check a document is in it, but for the reader's belief in the log's key.

use crate::admit::RefusalCode;
use crate::breach::{Exhibit, NotShown, breaks};
use crate::fork::Accusation;
use merkle::{
    Hash, HashSource, InclusionProof, LeafIndex, ProofError, ProveError, decode_base64, encode_base64, leaf_hash,
    prove_inclusion,
};
use note::{CheckpointError, SignedCheckpoint, Verified, VerifierKey};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Entries under a head that a log signed, which show that it admitted what it must refuse.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LogAdmitted {
    kind: Kind,
    log: VerifierKey,
    checkpoint: String,
    code: RefusalCode,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    key: Option<VerifierKey>,
    entries: Vec<Included>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Kind {
    #[serde(rename = "log-admitted")]
    LogAdmitted,
}

/// An entry, and that it is in the tree.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Included {
    index: u64,
    entry: EntryBytes,
    proof: Vec<Hash>,
}

/// Any bytes: what a log admitted wrongly need not be text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct EntryBytes(pub(crate) Vec<u8>);

/// Why a document is no evidence. Whoever presents it is to blame, never the log it names.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LogAdmittedError {
    /// The head is not the log's.
    #[error("the checkpoint is not one that the named key signed: {0}")]
    NotSigned(#[from] CheckpointError),
    /// The log is a witness's journal.
    #[error("the log is a witness's journal by its name, which holds no receipts and must refuse nothing")]
    Journal,
    /// An entry is not in the tree.
    #[error("entry {index} is not shown to be in the tree under the checkpoint: {reason}")]
    NotIncluded {
        /// Which one.
        index: u64,
        /// What is wrong with its proof.
        reason: ProofError,
    },
    /// A hash for a proof is missing.
    #[error("an entry cannot be proven to be in the tree: {0}")]
    Unproven(#[from] ProveError),
    /// The entries may all stand where they stand.
    #[error(transparent)]
    NotShown(#[from] NotShown),
}

impl LogAdmitted {
    /// Evidence that the last of `exhibits` breaks section 4 with `code`, held against those before it; all of them under
    /// `head`, by hashes out of `tree`, which need not be trusted. `key` as for [`breaks`].
    ///
    /// # Errors
    /// [`LogAdmittedError`]: it does not, or not provably so.
    pub fn make(
        head: &SignedCheckpoint<Verified>,
        code: RefusalCode,
        exhibits: &[Exhibit<'_>],
        key: Option<&VerifierKey>,
        tree: &dyn HashSource,
    ) -> Result<LogAdmitted, LogAdmittedError> {
        let include = |exhibit: &Exhibit<'_>| -> Result<Included, LogAdmittedError> {
            let proof = prove_inclusion(tree, exhibit.index, head.checkpoint().size)?;
            let entry = EntryBytes(exhibit.entry.to_vec());
            Ok(Included { index: exhibit.index.0, entry, proof: proof.hashes().to_vec() })
        };
        let document = LogAdmitted {
            kind: Kind::LogAdmitted,
            log: head.log_key().clone(),
            // Others' lines would only blur it.
            checkpoint: String::from_utf8_lossy(head.log_signed_only().bytes()).into_owned(),
            code,
            key: key.cloned(),
            entries: exhibits.iter().map(include).collect::<Result<_, _>>()?,
        };
        document.check().map(|_| document)
    }

    /// The log that is accused. Not checked: [`LogAdmitted::check`] does that.
    pub fn log(&self) -> &VerifierKey {
        &self.log
    }

    /// What the log should have answered.
    pub fn code(&self) -> RefusalCode {
        self.code
    }

    /// Where the accused entry stands, and its bytes.
    pub fn accused(&self) -> Option<(LeafIndex, &[u8])> {
        self.entries.last().map(|last| (LeafIndex(last.index), last.entry.0.as_slice()))
    }

    /// Whether both accuse one log of one entry, be it under different heads.
    pub fn is_about_the_same(&self, other: &LogAdmitted) -> bool {
        self.log == other.log && self.accused() == other.accused()
    }

    /// Checks the document by itself.
    ///
    /// # Errors
    /// [`LogAdmittedError`]: it shows nothing.
    pub fn check(&self) -> Result<Accusation, LogAdmittedError> {
        if self.log.name().as_str().ends_with("/journal") {
            return Err(LogAdmittedError::Journal);
        }
        let head = SignedCheckpoint::parse(self.checkpoint.as_bytes())?.verify(&self.log)?;
        let head = head.checkpoint();
        for Included { index, entry, proof } in &self.entries {
            let proof = InclusionProof::new(proof.clone());
            let included = proof.verify(&leaf_hash(&entry.0), LeafIndex(*index), head.size, &head.root);
            included.map_err(|reason| LogAdmittedError::NotIncluded { index: *index, reason })?;
        }
        let exhibit = |one: &'_ Included| -> (LeafIndex, Vec<u8>) { (LeafIndex(one.index), one.entry.0.clone()) };
        let owned: Vec<_> = self.entries.iter().map(exhibit).collect();
        let exhibits: Vec<_> = owned.iter().map(|(index, entry)| Exhibit { index: *index, entry }).collect();
        let shown = breaks(self.code, &exhibits, self.key.as_ref())?;
        let index = exhibits.last().map_or(0, |last| last.index.0);
        Ok(Accusation {
            key: self.log.clone(),
            sentence: format!(
                "The log {} admitted what it must refuse as {}: as entry {index} of {} that it signed for, {shown}.",
                self.log.name(),
                self.code,
                head.size
            ),
            not_shown: format!(
                "{} Nor is it shown that this key is that of a log of receipts: of any other log it says nothing.",
                not_shown(self.code)
            ),
        })
    }
}

fn not_shown(code: RefusalCode) -> &'static str {
    match code {
        RefusalCode::Gap => {
            "It is not shown that the receipts in between exist, nor why the log took this one without them."
        }
        RefusalCode::Fork | RefusalCode::Duplicate => {
            "It is not shown which of the two should not be there, nor whether the issuer signed both."
        }
        RefusalCode::BadSignature => {
            "It is not shown who made the receipt, nor that the receipt it is held against was the issuer's: one of the two should not be there."
        }
        _ => "It is not shown why the log took it, nor that the issuer had a part in it.",
    }
}

impl Serialize for EntryBytes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&encode_base64(&self.0))
    }
}

impl<'de> Deserialize<'de> for EntryBytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let bytes = decode_base64(&text).ok_or_else(|| serde::de::Error::custom("an entry is padded base64"))?;
        Ok(EntryBytes(bytes))
    }
}

#[cfg(test)]
mod tests;
