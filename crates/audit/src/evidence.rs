//! Evidence documents (protocol 7): one door for all kinds.
//!
//! A document names its `kind`; the crate that makes that kind checks it. What is checked here is worth as much as the
//! reader's belief in the key that the document names. A name is no key: anybody can make a key of any name.
//!
//! A document of an omission may not convict by itself ([`Demand`]): it then says what the log must show, and whoever holds
//! a copy of the log, as an auditor does, can tell.

use crate::quote::{plain, quoted};
use cosign::{LogFork, OmittedHead, WitnessFork};
use merkle::{Hash, LeafIndex, RootHash, TreeSize, leaf_hash};
use note::VerifierKey;
use receipt::{EvidenceError as IssuerForkError, IssuerForkEvidence, JsonError, LogAdmitted, OmittedReceipt, ijson};
use serde::de::DeserializeOwned;
use serde_json::Value;

/// The kinds that can be checked.
pub const EVIDENCE_KINDS: [&str; 6] =
    ["log-fork", "issuer-fork", "witness-fork", "log-admitted", "omitted-head", "omitted-receipt"];

/// What a document shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProvenEvidence {
    /// The document's kind, one of [`EVIDENCE_KINDS`].
    pub kind: &'static str,
    /// Who is shown to have lied.
    pub key: VerifierKey,
    /// What it is shown to have done.
    pub sentence: String,
    /// What is not shown.
    pub not_shown: String,
    /// Where the document convicts nobody by itself: what the log must show to whoever looks. `None`: it convicts.
    pub demand: Option<Demand>,
}

/// What a log must show, by a document that cannot prove that it does not: nobody signs what is not there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Demand {
    /// A head in its list.
    Head {
        /// Its size.
        size: TreeSize,
        /// Its root.
        root: RootHash,
    },
    /// An entry in its place.
    Entry {
        /// The place.
        index: LeafIndex,
        /// The entry's leaf hash.
        leaf: Hash,
    },
    /// A rotation of this text in its place. The document denies one of another id; and whoever held the key before could
    /// make that alone, by signing the same text again.
    Rotation {
        /// The issuer.
        issuer: String,
        /// The rotation's number.
        seq: u64,
        /// What both keys signed.
        text: String,
    },
}

/// Why a document shows nothing. Whoever presents it is to blame.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EvidenceError {
    /// Not strict JSON.
    #[error("not an evidence document: {0}")]
    Json(#[from] JsonError),
    /// No `kind`.
    #[error("not an evidence document: it has no \"kind\"")]
    NoKind,
    /// A kind that this version does not check.
    #[error("evidence of kind {0} cannot be checked by this version; known: {list}", list = EVIDENCE_KINDS.join(", "))]
    UnknownKind(String),
    /// Members are missing, surplus or of the wrong type.
    #[error("not a {kind} document: {reason}")]
    Shape {
        /// Its kind.
        kind: &'static str,
        /// What is wrong with its members.
        reason: String,
    },
    /// It has the right shape and shows nothing.
    #[error("this {kind} document proves nothing against anyone: {reason}")]
    Unproven {
        /// Its kind.
        kind: &'static str,
        /// Why it proves nothing.
        reason: String,
    },
    /// It shows something only to those who know another key of the issuer's: the receipt that is denied is the
    /// rotation from that key.
    #[error("this issuer-fork document {reason}")]
    NeedsKey {
        /// Which key, and what to do.
        reason: String,
    },
}

/// Checks one evidence document. `known` are keys that the reader knows to be issuers'; only an `issuer-fork` across a
/// rotation asks for them, every other document stands by itself.
///
/// # Errors
/// [`EvidenceError`]: it shows nothing, and why.
pub fn check_evidence(text: &str, known: &[VerifierKey]) -> Result<ProvenEvidence, EvidenceError> {
    let members = ijson::parse_object(text)?;
    let kind = members.get("kind").and_then(Value::as_str).ok_or(EvidenceError::NoKind)?;
    let kind =
        *EVIDENCE_KINDS.iter().find(|known| **known == kind).ok_or_else(|| EvidenceError::UnknownKind(quoted(kind)))?;
    let unproven = |error: &dyn std::error::Error| EvidenceError::Unproven { kind, reason: plain(&error.to_string()) };
    let proven = |(key, sentence, not_shown): (VerifierKey, String, String), demand| ProvenEvidence {
        kind,
        key,
        sentence: plain(&sentence),
        not_shown: plain(&not_shown),
        demand,
    };
    let by_log = |shown: cosign::Accusation| (shown.key, shown.sentence, shown.not_shown);
    let by_receipt = |shown: receipt::Accusation| (shown.key, shown.sentence, shown.not_shown);
    match kind {
        "log-fork" => {
            let fork: LogFork = read(kind, members)?;
            Ok(proven(by_log(fork.check().map_err(|error| unproven(&error))?), None))
        }
        "witness-fork" => {
            let fork: WitnessFork = read(kind, members)?;
            Ok(proven(by_log(fork.check().map_err(|error| unproven(&error))?), None))
        }
        "issuer-fork" => {
            let fork: IssuerForkEvidence = read(kind, members)?;
            let shown = fork.check_knowing(known).map_err(|error| match error {
                IssuerForkError::UnknownKeyBefore { key } => EvidenceError::NeedsKey {
                    reason: format!(
                        "counts only if {key} was the issuer's key before; give the issuers file that lists it"
                    ),
                },
                error => unproven(&error),
            })?;
            let demand = fork.issuer_before().and_then(|_| fork.first()).map(|first| Demand::Rotation {
                issuer: first.issuer().to_string(),
                seq: first.seq().0,
                text: first.text().to_owned(),
            });
            Ok(proven(by_receipt(shown), demand))
        }
        "log-admitted" => {
            let admitted: LogAdmitted = read(kind, members)?;
            Ok(proven(by_receipt(admitted.check().map_err(|error| unproven(&error))?), None))
        }
        "omitted-head" => {
            let omitted: OmittedHead = read(kind, members)?;
            let shown = omitted.check().map_err(|error| unproven(&error))?;
            let head = omitted.head().map_err(|error| unproven(&error))?;
            let demand = Demand::Head { size: head.checkpoint().size, root: head.checkpoint().root };
            Ok(proven(by_log(shown), Some(demand)))
        }
        _ => {
            let omitted: OmittedReceipt = read(kind, members)?;
            let shown = omitted.check().map_err(|error| unproven(&error))?;
            let demand = match (omitted.convicts(), omitted.proven()) {
                (false, Some((index, entry))) => Some(Demand::Entry { index, leaf: leaf_hash(entry) }),
                _ => None,
            };
            Ok(proven(by_receipt(shown), demand))
        }
    }
}

fn read<Document: DeserializeOwned>(
    kind: &'static str,
    members: serde_json::Map<String, Value>,
) -> Result<Document, EvidenceError> {
    serde_json::from_value(Value::Object(members))
        .map_err(|error| EvidenceError::Shape { kind, reason: plain(&error.to_string()) })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;
    use cosign::LogFork;
    use merkle::MemoryTree;
    use note::{Checkpoint, KeyKind, KeyName, Origin, SigningKey, sign_checkpoint};
    use receipt::RefusalCode;
    use receipt::breach::Exhibit;

    fn fork_document() -> String {
        let key = SigningKey::from_seed(KeyName::new("log.example").unwrap(), KeyKind::Ed25519, [1; 32]);
        let head = |byte| {
            sign_checkpoint(&Checkpoint::new(Origin::from(key.name()), TreeSize(5), RootHash(Hash([byte; 32]))), &key)
                .unwrap()
        };
        serde_json::to_string(&LogFork::make(&head(1), &head(2), None).unwrap()).unwrap()
    }

    #[test]
    fn a_fork_of_a_log_accuses_its_key() {
        let proven = check_evidence(&fork_document(), &[]).unwrap();
        assert_eq!((proven.kind, proven.key.name().as_str()), ("log-fork", "log.example"));
    }

    #[test]
    fn a_log_that_admitted_what_it_must_refuse_is_accused_by_its_key() {
        let key = SigningKey::from_seed(KeyName::new("log.example").unwrap(), KeyKind::Ed25519, [1; 32]);
        let mut tree = MemoryTree::new();
        tree.push(leaf_hash(b"nonsense"));
        let head = sign_checkpoint(&Checkpoint::new(Origin::from(key.name()), tree.size(), tree.root()), &key).unwrap();
        let exhibit = Exhibit { index: LeafIndex(0), entry: b"nonsense" };
        let document = LogAdmitted::make(&head, RefusalCode::Malformed, &[exhibit], None, &tree).unwrap();
        let document = serde_json::to_string(&document).unwrap();
        let proven = check_evidence(&document, &[]).unwrap();
        assert_eq!((proven.kind, proven.key), ("log-admitted", key.verifier()));
        let other = document.replace("bm9uc2Vuc2U=", "bm9uc2Vuc2Ux");
        assert!(matches!(check_evidence(&other, &[]), Err(EvidenceError::Unproven { kind: "log-admitted", .. })));
    }

    #[test]
    fn what_proves_nothing_says_why() {
        let document = fork_document();
        let check_evidence = |text: &str| check_evidence(text, &[]);
        assert!(matches!(check_evidence("["), Err(EvidenceError::Json(_))));
        assert_eq!(check_evidence("{}"), Err(EvidenceError::NoKind));
        assert_eq!(
            check_evidence(r#"{"kind":"perjury"}"#),
            Err(EvidenceError::UnknownKind(String::from("\"perjury\"")))
        );
        assert!(matches!(
            check_evidence(&document.replace("\"first\"", "\"frist\"")),
            Err(EvidenceError::Shape { .. })
        ));
        assert!(matches!(check_evidence(&document.replace("\\n5\\n", "\\n6\\n")), Err(EvidenceError::Unproven { .. })));
        assert!(matches!(
            check_evidence(&document.replace("{\"kind\"", "{\"kind\":\"x\",\"kind\"")),
            Err(EvidenceError::Json(_))
        ));
    }
}
