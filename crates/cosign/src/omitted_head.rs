//! Evidence of a head that a log signed and that its own list must have (protocol, section 7, `omitted-head`).
//!
//! ```text
//! {"kind":"omitted-head","log":"<vkey>","witness":"<vkey>","journal":"<checkpoint>",
//!  "index":12,"line":"<the journal's entry>","proof":["<base64>",…]}
//! ```
//!
//! `line` is an entry of a witness's journal whose `checkpoint` member is a head that the log signed; `proof` leads from
//! it to `journal`, a head of the journal. That is the witness's word by `witness`: a key of its own (type `0x04` or
//! `0x06`) that cosigned the journal under the journal's origin `<its name>/journal`, or the journal's own key (`0x01`).
//!
//! What this shows: the log signed the head, and the witness saw it by the time in the line. A log keeps every head it
//! ever signed in `/heads`, so the head must be there, now and for ever. What it cannot show: that it is not. No
//! signature covers that list, so no document can. Whoever reads the document looks there; a head that contradicts
//! the log's tree is a `log-fork`, which needs no list.

use crate::evidence::Accusation;
use merkle::{Hash, HashSource, InclusionProof, LeafIndex, ProofError, ProveError, leaf_hash, prove_inclusion};
use note::{CheckpointError, KeyKind, SignedCheckpoint, Verified, VerifierKey, verified_cosignatures};
use serde::{Deserialize, Serialize};

/// What follows a witness's name in the name of its journal.
const JOURNAL_SUFFIX: &str = "/journal";

/// A head that a log signed, in a witness's journal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OmittedHead {
    kind: Kind,
    log: VerifierKey,
    witness: VerifierKey,
    journal: String,
    index: u64,
    line: String,
    proof: Vec<Hash>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
enum Kind {
    #[serde(rename = "omitted-head")]
    OmittedHead,
}

/// What of a journal line is looked at; it has other members besides.
#[derive(Deserialize)]
struct Line {
    time: u64,
    checkpoint: String,
}

/// Why a document shows nothing. Whoever presents it is to blame, never a key it names.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OmittedHeadError {
    /// The journal's head is none.
    #[error("the journal's head is none: {0}")]
    Journal(CheckpointError),
    /// The journal's head is that of another log than this witness's journal.
    #[error("the journal's head is of {0}, which is not the journal of the named witness")]
    OtherJournal(String),
    /// The named key vouches for no such journal head.
    #[error("the named witness key does not vouch for the journal's head")]
    NotVouched,
    /// The line is not in the journal.
    #[error("the line is not shown to be line {index} of the journal: {reason}")]
    NotIncluded {
        /// Where it is said to be.
        index: LeafIndex,
        /// What is wrong with its proof.
        reason: ProofError,
    },
    /// The line holds no head.
    #[error("the line is no journal line that holds a head whole")]
    Line,
    /// The head in the line is not the log's.
    #[error("the head in the line is not one that the named log signed: {0}")]
    NotSigned(CheckpointError),
    /// A hash for the proof is missing.
    #[error("the line cannot be proven to be in the journal: {0}")]
    Unproven(#[from] ProveError),
}

impl OmittedHead {
    /// A document about the head that line `index` of a journal holds. `journal` is the journal's head, `tree` the
    /// hashes under it, which need not be trusted.
    ///
    /// # Errors
    /// [`OmittedHeadError`]: it shows nothing.
    pub fn make(
        log: &VerifierKey,
        witness: &VerifierKey,
        journal: &SignedCheckpoint,
        index: LeafIndex,
        line: &str,
        tree: &dyn HashSource,
    ) -> Result<OmittedHead, OmittedHeadError> {
        let document = OmittedHead {
            kind: Kind::OmittedHead,
            log: log.clone(),
            witness: witness.clone(),
            journal: vouched_only(journal, witness)?,
            index: index.0,
            line: line.to_owned(),
            proof: prove_inclusion(tree, index, journal.claimed().size)?.hashes().to_vec(),
        };
        document.check().map(|_| document)
    }

    /// The log it is about. Not checked: [`OmittedHead::check`] does that.
    pub fn log(&self) -> &VerifierKey {
        &self.log
    }

    /// The head that the log's list must have.
    ///
    /// # Errors
    /// [`OmittedHeadError`]: the line holds none that the log signed.
    pub fn head(&self) -> Result<SignedCheckpoint<Verified>, OmittedHeadError> {
        self.read_line().map(|(_, head)| head)
    }

    /// Checks the document by itself: that the log signed the head, and that the witness journalled it. It convicts
    /// nobody; whether the list has the head is for the reader to look up.
    ///
    /// # Errors
    /// [`OmittedHeadError`]: it shows nothing.
    pub fn check(&self) -> Result<Accusation, OmittedHeadError> {
        let journal = SignedCheckpoint::parse(self.journal.as_bytes()).map_err(OmittedHeadError::Journal)?;
        vouched_only(&journal, &self.witness)?;
        let (index, journal) = (LeafIndex(self.index), journal.claimed());
        InclusionProof::new(self.proof.clone())
            .verify(&leaf_hash(self.line.as_bytes()), index, journal.size, &journal.root)
            .map_err(|reason| OmittedHeadError::NotIncluded { index, reason })?;
        let (time, head) = self.read_line()?;
        let (log, head) = (self.log.name(), head.checkpoint());
        Ok(Accusation {
            key: self.log.clone(),
            sentence: format!(
                "The log {log} signed a head of size {} with the root {}; line {index} of {}, written for a look at \
                 {time} (milliseconds since 1970, by the witness's clock), holds it.",
                head.size, head.root, journal.origin
            ),
            not_shown: String::from(
                "That the log leaves it out: no signature covers the log's list of heads. Look for it in /heads at the \
                 log's own address; if it is not there, the log hides what it signed.",
            ),
        })
    }

    fn read_line(&self) -> Result<(u64, SignedCheckpoint<Verified>), OmittedHeadError> {
        let Line { time, checkpoint } = serde_json::from_str(&self.line).map_err(|_| OmittedHeadError::Line)?;
        let head = SignedCheckpoint::parse(checkpoint.as_bytes()).and_then(|head| head.verify(&self.log));
        Ok((time, head.map_err(OmittedHeadError::NotSigned)?))
    }
}

/// The journal's head with one good line by `key` and no other: a line that the check does not look at could be changed
/// without anybody noticing.
fn vouched_only(journal: &SignedCheckpoint, key: &VerifierKey) -> Result<String, OmittedHeadError> {
    let origin = journal.claimed().origin.as_str();
    if key.kind() == KeyKind::Ed25519 {
        if !key.name().as_str().ends_with(JOURNAL_SUFFIX) {
            return Err(OmittedHeadError::OtherJournal(origin.to_owned()));
        }
        let signed = journal.clone().verify(key).map_err(OmittedHeadError::Journal)?;
        return Ok(String::from_utf8_lossy(signed.log_signed_only().bytes()).into_owned());
    }
    if origin.strip_suffix(JOURNAL_SUFFIX) != Some(key.name().as_str()) {
        return Err(OmittedHeadError::OtherJournal(origin.to_owned()));
    }
    let lines = verified_cosignatures(journal.note(), std::slice::from_ref(key));
    let (_, line) = lines.into_iter().find_map(Result::ok).ok_or(OmittedHeadError::NotVouched)?;
    Ok(format!("{}\n{}\n", journal.note().text(), line.line))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;
    use merkle::{MemoryTree, RootHash, TreeSize};
    use note::{Checkpoint, KeyName, Origin, SigningKey, cosign, sign_checkpoint};

    fn key(name: &str, kind: KeyKind, seed: u8) -> SigningKey {
        SigningKey::from_seed(KeyName::new(name).unwrap(), kind, [seed; 32])
    }

    fn log() -> SigningKey {
        key("log.example/a", KeyKind::Ed25519, 1)
    }

    fn witness() -> SigningKey {
        key("w.example", KeyKind::CosignatureV1, 2)
    }

    fn line_with(signer: &SigningKey) -> String {
        let head = Checkpoint::new(Origin::from(signer.name()), TreeSize(7), RootHash(Hash([7; 32])));
        let head = sign_checkpoint(&head, signer).unwrap();
        let head = String::from_utf8(head.bytes().to_vec()).unwrap();
        serde_json::json!({"time": 1_790_000_000_123_u64, "outcome": "cosigned", "checkpoint": head}).to_string()
    }

    /// A journal of five lines of which the third is `line`, and its head, signed by the journal and cosigned.
    fn journal(line: &str) -> (MemoryTree, SignedCheckpoint) {
        let mut tree = MemoryTree::new();
        ["a", "b", line, "c", "d"].iter().for_each(|line| tree.push(leaf_hash(line.as_bytes())));
        let key = key("w.example/journal", KeyKind::Ed25519, 3);
        let head = Checkpoint::new(Origin::from(key.name()), tree.size(), tree.root());
        let head = sign_checkpoint(&head, &key).unwrap();
        let lines = [witness(), self::key("x.example", KeyKind::CosignatureV1, 4)]
            .map(|witness| cosign(head.note().text(), &witness, 1_790_000_000).unwrap().to_line().unwrap());
        (tree, head.with_cosignatures(&lines).into_unverified())
    }

    fn made(by: &SigningKey, line: &str) -> Result<OmittedHead, OmittedHeadError> {
        let (tree, head) = journal(line);
        OmittedHead::make(&log().verifier(), &by.verifier(), &head, LeafIndex(2), line, &tree)
    }

    #[test]
    fn a_document_shows_who_signed_the_head_and_who_saw_it_when_and_no_more() {
        let vouchers = [witness(), key("w.example/journal", KeyKind::Ed25519, 3)];
        for by in &vouchers {
            let document = made(by, &line_with(&log())).unwrap();
            let text = serde_json::to_string(&document).unwrap();
            assert!(text.starts_with(r#"{"kind":"omitted-head","log":"log.example/a+"#), "{text}");
            assert_eq!(document.journal.lines().filter(|line| line.starts_with('—')).count(), 1, "{text}");
            let read: OmittedHead = serde_json::from_str(&text).unwrap();
            assert_eq!(read, document);
            let shown = read.check().unwrap();
            assert_eq!(shown.key, log().verifier());
            assert!(
                shown.sentence.contains("a head of size 7") && shown.sentence.contains("1790000000123"),
                "{}",
                shown.sentence
            );
            assert!(shown.not_shown.contains("no signature covers the log's list"), "{}", shown.not_shown);
            assert_eq!(read.head().unwrap().checkpoint().size, TreeSize(7));
        }
    }

    #[test]
    fn a_journal_that_its_witness_does_not_vouch_for_shows_nothing() {
        let line = line_with(&log());
        let not = |by: &SigningKey| made(by, &line).unwrap_err();
        // A witness that cosigned another's journal, one of the name and another key, and the log itself.
        assert!(matches!(not(&key("x.example", KeyKind::CosignatureV1, 4)), OmittedHeadError::OtherJournal(_)));
        assert_eq!(not(&key("w.example", KeyKind::CosignatureV1, 9)), OmittedHeadError::NotVouched);
        assert!(matches!(not(&log()), OmittedHeadError::OtherJournal(_)));
        assert!(matches!(not(&key("w.example/journal", KeyKind::Ed25519, 9)), OmittedHeadError::Journal(_)));
    }

    #[test]
    fn a_line_without_a_head_of_the_log_shows_nothing() {
        assert!(matches!(
            made(&witness(), &line_with(&key("log.example/a", KeyKind::Ed25519, 9))),
            Err(OmittedHeadError::NotSigned(_))
        ));
        for line in ["{}", r#"{"time":1,"size":7}"#, "no line"] {
            assert_eq!(made(&witness(), line).unwrap_err(), OmittedHeadError::Line, "{line}");
        }
        let (tree, head) = journal(&line_with(&log()));
        let elsewhere =
            OmittedHead::make(&log().verifier(), &witness().verifier(), &head, LeafIndex(3), &line_with(&log()), &tree);
        assert!(matches!(elsewhere, Err(OmittedHeadError::NotIncluded { .. })));
    }

    #[test]
    fn no_single_change_of_a_document_leaves_it_standing() {
        let text = serde_json::to_string(&made(&witness(), &line_with(&log())).unwrap()).unwrap();
        for place in 0..text.len() {
            for by in [1, 0x20] {
                let mut changed = text.clone().into_bytes();
                changed[place] ^= by;
                let Ok(changed) = String::from_utf8(changed) else { continue };
                let Ok(read) = serde_json::from_str::<OmittedHead>(&changed) else { continue };
                assert!(read.check().is_err(), "{changed}");
            }
        }
    }
}
