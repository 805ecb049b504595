//! What the log's JSON answers look like, shared by the log that writes them and the clients that read them.
//!
//! ```text
//! POST /v1/receipts (Accept: application/json)        Included
//! POST /v1/receipts/batch                             one BatchVerdict a line, in the order of the entries
//! GET  /v1/receipts/<id hex>                          Found
//! GET  /v1/issuers/<name, percent-encoded>/receipts/<seq>   Found
//! GET  /v1/issuers/<name, percent-encoded>            Issuer
//! GET  /v1/issuers                                    IssuerList
//! any refusal                                         ProblemDocument (RFC 9457)
//! ```
//!
//! Holds shapes only: nothing here is checked beyond being JSON of that shape, and members that are not named
//! here are ignored, so that a log may say more. Receipt ids are 64 lowercase hex digits wherever they stand in
//! JSON (`id`, `head`, `expected_prev`); proofs and entries are their exact text.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Media type of a single JSON answer.
pub const JSON: &str = "application/json";
/// Media type of answers with one JSON document a line: batch verdicts and evidence pages.
pub const NDJSON: &str = "application/x-ndjson";
/// Media type of an entry, and of a `tlog-proof`.
pub const TEXT: &str = "text/plain; charset=utf-8";
/// Media type of a batch of entries and of all binary static resources.
pub const OCTETS: &str = "application/octet-stream";
/// Media type of a refusal.
pub const PROBLEM_JSON: &str = "application/problem+json";

/// The header by which a submitter says what to wait for (RFC 7240).
pub const PREFER: &str = "prefer";
/// Value of [`PREFER`]: answer as soon as a durable signed head covers the entry. The default.
pub const WAIT_INTEGRATED: &str = "wait=integrated";
/// Value of [`PREFER`]: answer once an offered head that covers the entry has the policy's quorum.
pub const WAIT_COSIGNED: &str = "wait=cosigned";

/// Most bytes of one batch, framing included (protocol, 5.2).
pub const MAX_BATCH_BYTES: usize = 8 * 1024 * 1024;

/// Evidence documents a page (protocol, 5.2).
pub const EVIDENCE_PAGE: usize = 256;

/// `code` of the 504 with which the log answers `wait=cosigned` when the quorum was not met in time. The problem
/// document then also carries the members of [`Included`]: the entry is in the log, and here is the proof so far.
pub const CODE_NOT_COSIGNED_IN_TIME: &str = "not-cosigned-in-time";

/// `code` of the 501 with which the log answers `wait=cosigned` where no quorum can exist: asking again does not help.
pub const CODE_NO_WITNESSES: &str = "no-witnesses";
/// `code` of the 404 for an issuer that the log does not know, and of the 403 for its receipts. A server that is no log answers
/// its 404 with another code, or with none.
pub const CODE_UNKNOWN_ISSUER: &str = "unknown-issuer";

/// `code` of a refusal that says nothing about the entry: too much is queued. The same entry may be sent again.
pub const CODE_OVERLOADED: &str = "overloaded";
/// `code` of a refusal that says nothing about the entry: the log stops. The same entry may be sent again.
pub const CODE_STOPPING: &str = "stopping";

/// `code` of a refusal that says nothing about the entry: the issuer sends more than its share. The same entry may be sent
/// again later.
pub const CODE_RATE_LIMITED: &str = "rate-limited";
/// `code` of a refusal that says nothing about the entry: the log's disk is nearly full. The same entry may be sent again
/// once there is room.
pub const CODE_NO_ROOM: &str = "no-room";

/// An entry is in the log: where, and the proof.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Included {
    /// Leaf index.
    pub index: u64,
    /// The issuer's name.
    pub issuer: String,
    /// The receipt's seq.
    pub seq: u64,
    /// The receipt id, hex.
    pub id: String,
    /// The `tlog-proof`, its text.
    pub proof: String,
}

/// The answer to a look-up: as [`Included`], with the entry itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Found {
    /// Leaf index.
    pub index: u64,
    /// The issuer's name.
    pub issuer: String,
    /// The receipt's seq.
    pub seq: u64,
    /// The receipt id, hex.
    pub id: String,
    /// The `tlog-proof`, its text.
    pub proof: String,
    /// The entry, its text.
    pub entry: String,
}

/// One line of the answer to a batch: what became of the entry at that place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "status", rename_all = "lowercase")]
pub enum BatchVerdict {
    /// Appended now.
    Ok(Included),
    /// Byte-identical to what the log already holds at that seq.
    Duplicate(Included),
    /// Refused; nothing changed (a fork adds evidence).
    Refused(Refused),
    /// Not looked at, because an earlier receipt of the same issuer in this batch was refused.
    Skipped(Skipped),
}

/// Why an entry of a batch was refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refused {
    /// A code of protocol section 4, or `credential-shaped`.
    pub code: String,
    /// The sentence for people.
    pub detail: String,
    /// The seq the log expects next of this issuer, where that helps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected_seq: Option<u64>,
    /// The id the next receipt's `prev` must carry, hex, where that helps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected_prev: Option<String>,
}

/// Why an entry of a batch was not looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Skipped {
    /// The code of the refusal that this one follows.
    pub code: String,
    /// The sentence for people.
    pub detail: String,
}

/// What the log knows of one issuer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Issuer {
    /// Its name.
    pub name: String,
    /// The vkey it was registered with. (Later keys are in its `rotate` receipts.)
    pub vkey: String,
    /// The seq the log expects next; the number of its receipts in the log.
    pub next_seq: u64,
    /// The id of its newest receipt, hex; 64 zeros while it has none.
    pub head: String,
    /// `issued_at` of its newest receipt, in milliseconds; null while it has none.
    #[serde(default)]
    pub last_issued_at: Option<u64>,
    /// Whether its newest receipt is `close`.
    pub closed: bool,
    /// Leaf index of its first receipt; null while it has none.
    #[serde(default)]
    pub first_index: Option<u64>,
    /// Leaf index of its newest receipt; null while it has none.
    #[serde(default)]
    pub last_index: Option<u64>,
}

/// All issuers the log knows.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct IssuerList {
    /// In the order of their names' bytes.
    pub issuers: Vec<Issuer>,
}

/// A refusal (RFC 9457), as read. Every member may be missing: the answer may come from something in between.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ProblemDocument {
    /// Sentence that is the same for every refusal of this code.
    pub title: String,
    /// HTTP status.
    pub status: u16,
    /// Sentence for this refusal.
    pub detail: String,
    /// The stable word for programs.
    pub code: String,
    /// The seq the log expects next of this issuer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expected_seq: Option<u64>,
    /// The id the next receipt's `prev` must carry, hex.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expected_prev: Option<String>,
    /// All other members.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;

    fn included() -> Included {
        Included { index: 7, issuer: "gate.example/a".into(), seq: 3, id: "ab".into(), proof: "p\n".into() }
    }

    #[test]
    fn a_verdict_is_told_by_its_status() {
        let line = serde_json::to_string(&BatchVerdict::Ok(included())).unwrap();
        assert_eq!(line, r#"{"status":"ok","index":7,"issuer":"gate.example/a","seq":3,"id":"ab","proof":"p\n"}"#);
        let refused = r#"{"status":"refused","code":"gap","detail":"send seq 4 first","expected_seq":4}"#;
        let verdict: BatchVerdict = serde_json::from_str(refused).unwrap();
        assert_eq!(serde_json::to_string(&verdict).unwrap(), refused);
        for line in [
            r#"{"status":"skipped","code":"gap","detail":"d"}"#,
            r#"{"status":"duplicate","issuer":"i","seq":0,"id":"x","index":1,"proof":"","more":1}"#,
        ] {
            serde_json::from_str::<BatchVerdict>(line).unwrap();
        }
        for line in
            ["{}", r#"{"status":"maybe"}"#, r#"{"status":"ok","index":-1,"issuer":"i","seq":0,"id":"x","proof":""}"#]
        {
            assert!(serde_json::from_str::<BatchVerdict>(line).is_err(), "{line}");
        }
    }

    #[test]
    fn a_problem_document_keeps_the_members_it_does_not_know() {
        let text = r#"{"type":"urn:x","title":"t","status":504,"detail":"d","code":"not-cosigned-in-time","index":7,"proof":"p"}"#;
        let problem: ProblemDocument = serde_json::from_str(text).unwrap();
        assert_eq!((problem.code.as_str(), problem.status), (CODE_NOT_COSIGNED_IN_TIME, 504));
        assert_eq!(problem.other["index"], 7);
        assert_eq!(serde_json::from_str::<ProblemDocument>("{}").unwrap(), ProblemDocument::default());
    }

    #[test]
    fn an_issuer_without_receipts_has_no_indices() {
        let text = format!(r#"{{"name":"a","vkey":"v","next_seq":0,"head":"{}","closed":false}}"#, "0".repeat(64));
        let issuer: Issuer = serde_json::from_str(&text).unwrap();
        assert_eq!((issuer.first_index, issuer.last_index, issuer.last_issued_at), (None, None, None));
    }
}
