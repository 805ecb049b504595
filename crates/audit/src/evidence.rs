//! Evidence documents (protocol 7): one door for all kinds.
//!
//! A document names its `kind`; the crate that makes that kind checks it. What is checked here is worth as much as the
//! reader's belief in the key that the document names. A name is no key: anybody can make a key of any name.

use crate::quote::{plain, quoted};
use cosign::{LogFork, WitnessFork};
use note::VerifierKey;
use receipt::{EvidenceError as IssuerForkError, IssuerForkEvidence, JsonError, ijson};
use serde::de::DeserializeOwned;
use serde_json::Value;

/// The kinds that can be checked.
pub const EVIDENCE_KINDS: [&str; 3] = ["log-fork", "issuer-fork", "witness-fork"];

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
    match members.get("kind").and_then(Value::as_str) {
        None => Err(EvidenceError::NoKind),
        Some("log-fork") => {
            let fork: LogFork = read("log-fork", members)?;
            let shown = fork.check().map_err(|error| unproven("log-fork", &error))?;
            Ok(ProvenEvidence {
                kind: "log-fork",
                key: shown.key,
                sentence: plain(&shown.sentence),
                not_shown: plain(&shown.not_shown),
            })
        }
        Some("witness-fork") => {
            let fork: WitnessFork = read("witness-fork", members)?;
            let shown = fork.check().map_err(|error| unproven("witness-fork", &error))?;
            Ok(ProvenEvidence {
                kind: "witness-fork",
                key: shown.key,
                sentence: plain(&shown.sentence),
                not_shown: plain(&shown.not_shown),
            })
        }
        Some("issuer-fork") => {
            let fork: IssuerForkEvidence = read("issuer-fork", members)?;
            let shown = fork.check_knowing(known).map_err(|error| match error {
                IssuerForkError::UnknownKeyBefore { key } => EvidenceError::NeedsKey {
                    reason: format!(
                        "counts only if {key} was the issuer's key before; give the issuers file that lists it"
                    ),
                },
                error => unproven("issuer-fork", &error),
            })?;
            Ok(ProvenEvidence {
                kind: "issuer-fork",
                key: shown.key,
                sentence: plain(&shown.sentence),
                not_shown: plain(&shown.not_shown),
            })
        }
        Some(other) => Err(EvidenceError::UnknownKind(quoted(other))),
    }
}

fn read<Document: DeserializeOwned>(
    kind: &'static str,
    members: serde_json::Map<String, Value>,
) -> Result<Document, EvidenceError> {
    serde_json::from_value(Value::Object(members))
        .map_err(|error| EvidenceError::Shape { kind, reason: plain(&error.to_string()) })
}

fn unproven(kind: &'static str, error: &dyn std::error::Error) -> EvidenceError {
    EvidenceError::Unproven { kind, reason: plain(&error.to_string()) }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;
    use cosign::LogFork;
    use merkle::{Hash, RootHash, TreeSize};
    use note::{Checkpoint, KeyKind, KeyName, Origin, SigningKey, sign_checkpoint};

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
    fn what_proves_nothing_says_why() {
        let document = fork_document();
        let check_evidence = |text: &str| check_evidence(text, &[]);
        assert!(matches!(check_evidence("["), Err(EvidenceError::Json(_))));
        assert_eq!(check_evidence("{}"), Err(EvidenceError::NoKind));
        assert_eq!(
            check_evidence(r#"{"kind":"omitted-head"}"#),
            Err(EvidenceError::UnknownKind(String::from("\"omitted-head\"")))
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
