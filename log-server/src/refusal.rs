//! Why the log does not take a receipt, and the status that each reason is answered with.
//!
//! | status | codes |
//! |---|---|
//! | 400 | `malformed` |
//! | 401 | `bad-signature` |
//! | 403 | `unknown-issuer` |
//! | 409 | `gap`, `fork`, `closed`, `time-reversed` |
//! | 422 | `credential-shaped`, `future-dated`, `bad-open`, `bad-rotation` |
//! | 429 | `rate-limited` |
//! | 503 | `overloaded`, `stopping`, `no-room` |
//!
//! (413 is the body's, before there is a receipt; `duplicate` is no refusal to a submitter: it is answered 200 with
//! its proof.)

use client::wire;
use http::StatusCode;
use receipt::{CredentialFound, Refusal, RefusalCode};
use service::Problem;
use std::time::Duration;

/// The code of a receipt that holds something credential-shaped.
pub const CODE_CREDENTIAL: &str = "credential-shaped";

/// Why a receipt was not taken.
#[derive(Clone, Debug)]
pub enum NotTaken {
    /// The issuer rules say no (protocol, section 4).
    Rules(Box<Refusal>),
    /// A value looks like a credential. A log is for ever, so it never gets in.
    Credential(CredentialFound),
    /// More is queued than can be promised. Nothing was taken on.
    Overloaded,
    /// The issuer has sent more than its share. Nothing was taken on.
    RateLimited {
        /// Until its next receipt can be taken.
        wait: Duration,
    },
    /// The store's disk is nearly full. Nothing was taken on.
    NoRoom,
    /// The log can no longer commit; whether this receipt got in is for the next start to tell.
    Stopping,
}

impl NotTaken {
    /// The stable word for programs.
    pub fn code(&self) -> &'static str {
        self.row().1
    }

    /// The sentence for people. Never holds a value of the receipt.
    pub fn detail(&self) -> String {
        match self {
            Self::Rules(refusal) => refusal.detail.clone(),
            Self::Credential(found) => format!(
                "the member {} looks like {}; take it out, or commit to it instead of showing it",
                found.path,
                found.kind.as_str()
            ),
            Self::Overloaded => String::from("nothing was taken; send the same receipt again in a second"),
            Self::RateLimited { wait } => format!(
                "nothing was taken: this issuer sends more than the log's operator allows it; send the same receipt again in {} s",
                whole_seconds(*wait)
            ),
            Self::NoRoom => String::from(
                "nothing was taken: the log's disk is nearly full; send the same receipt again once its operator has made room",
            ),
            Self::Stopping => String::from(
                "the log is stopping; once it runs again send the same receipt again, it will be a duplicate if it got in",
            ),
        }
    }

    /// Status, code and title: the one place that maps reasons to statuses.
    fn row(&self) -> (StatusCode, &'static str, &'static str) {
        match self {
            Self::Rules(refusal) => match refusal.code {
                RefusalCode::Malformed => (StatusCode::BAD_REQUEST, "malformed", "These bytes are no receipt"),
                RefusalCode::BadSignature => {
                    (StatusCode::UNAUTHORIZED, "bad-signature", "The signature is not the issuer's")
                }
                RefusalCode::UnknownIssuer => {
                    (StatusCode::FORBIDDEN, "unknown-issuer", "This issuer is not registered here")
                }
                RefusalCode::Fork => (StatusCode::CONFLICT, "fork", "The issuer signed two histories"),
                RefusalCode::Gap => (StatusCode::CONFLICT, "gap", "Receipts are missing before this one"),
                RefusalCode::Closed => (StatusCode::CONFLICT, "closed", "The issuer has closed its stream"),
                RefusalCode::TimeReversed => (StatusCode::CONFLICT, "time-reversed", "The issuer's clock went back"),
                RefusalCode::FutureDated => {
                    (StatusCode::UNPROCESSABLE_ENTITY, "future-dated", "The receipt is dated in the future")
                }
                RefusalCode::BadOpen => {
                    (StatusCode::UNPROCESSABLE_ENTITY, "bad-open", "A stream opens with one open receipt")
                }
                RefusalCode::BadRotation => {
                    (StatusCode::UNPROCESSABLE_ENTITY, "bad-rotation", "The key was not handed over properly")
                }
                // Answered with its proof before it gets here; were it not, it would still be no fault of the submitter's.
                RefusalCode::Duplicate => (StatusCode::OK, "duplicate", "The log holds this receipt already"),
            },
            Self::Credential(_) => (
                StatusCode::UNPROCESSABLE_ENTITY,
                CODE_CREDENTIAL,
                "The receipt holds something that looks like a credential",
            ),
            Self::Overloaded => (StatusCode::SERVICE_UNAVAILABLE, "overloaded", "Too much is queued already"),
            Self::RateLimited { .. } => {
                (StatusCode::TOO_MANY_REQUESTS, wire::CODE_RATE_LIMITED, "The issuer sends more than its share")
            }
            Self::NoRoom => (StatusCode::SERVICE_UNAVAILABLE, wire::CODE_NO_ROOM, "The log's disk is nearly full"),
            Self::Stopping => (StatusCode::SERVICE_UNAVAILABLE, "stopping", "The log is stopping"),
        }
    }

    /// Whether whoever sent it has shown no key of a listed issuer.
    pub fn is_keyless(&self) -> bool {
        let keyless = [RefusalCode::Malformed, RefusalCode::UnknownIssuer, RefusalCode::BadSignature];
        matches!(self, Self::Rules(refusal) if keyless.contains(&refusal.code))
    }

    /// As the answer to a submission of one receipt.
    pub fn to_problem(&self) -> Problem {
        let (status, code, title) = self.row();
        let problem = Problem::new(status, code, title, self.detail());
        match self {
            Self::Rules(refusal) => {
                let problem = match refusal.expected_seq {
                    Some(seq) => problem.with("expected_seq", seq.0),
                    None => problem,
                };
                match refusal.expected_prev {
                    Some(prev) => problem.with("expected_prev", prev.to_string()),
                    None => problem,
                }
            }
            Self::Credential(found) => problem.with("member", found.path.to_string()),
            Self::Overloaded | Self::Stopping => problem.retry_after_s(1),
            Self::RateLimited { wait } => problem.retry_after_s(whole_seconds(*wait)),
            // Nobody makes room within a second.
            Self::NoRoom => problem.retry_after_s(10),
        }
    }

    /// As the verdict on one receipt of a batch.
    pub fn to_verdict(&self) -> wire::Refused {
        let (expected_seq, expected_prev) = match self {
            Self::Rules(refusal) => {
                (refusal.expected_seq.map(|seq| seq.0), refusal.expected_prev.map(|prev| prev.to_string()))
            }
            _ => (None, None),
        };
        wire::Refused { code: self.code().to_owned(), detail: self.detail(), expected_seq, expected_prev }
    }
}

/// Rounded up: whoever waits that long is not refused again.
fn whole_seconds(wait: Duration) -> u64 {
    wait.as_secs().saturating_add(u64::from(wait.subsec_nanos() > 0)).max(1)
}

impl From<Refusal> for NotTaken {
    fn from(refusal: Refusal) -> Self {
        Self::Rules(Box::new(refusal))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;
    use merkle::Hash;
    use receipt::{CredentialKind, MemberPath, ReceiptId, SeqNo};

    fn by_rules(code: RefusalCode) -> NotTaken {
        NotTaken::Rules(Box::new(Refusal {
            code,
            detail: "why".into(),
            expected_seq: None,
            expected_prev: None,
            fork: None,
        }))
    }

    #[test]
    fn every_code_has_the_status_of_the_protocol() {
        let table = [
            (RefusalCode::Malformed, 400),
            (RefusalCode::BadSignature, 401),
            (RefusalCode::UnknownIssuer, 403),
            (RefusalCode::Gap, 409),
            (RefusalCode::Fork, 409),
            (RefusalCode::Closed, 409),
            (RefusalCode::TimeReversed, 409),
            (RefusalCode::FutureDated, 422),
            (RefusalCode::BadOpen, 422),
            (RefusalCode::BadRotation, 422),
            (RefusalCode::Duplicate, 200),
        ];
        for (code, status) in table {
            let problem = by_rules(code).to_problem();
            assert_eq!((problem.status().as_u16(), problem.code()), (status, code.as_str()));
        }
    }

    #[test]
    fn what_is_expected_is_told_in_problems_and_in_verdicts() {
        let refusal = Refusal {
            code: RefusalCode::Gap,
            detail: "send seq 4 first".into(),
            expected_seq: Some(SeqNo(4)),
            expected_prev: Some(ReceiptId(Hash([0xab; 32]))),
            fork: None,
        };
        let not_taken = NotTaken::from(refusal);
        let document = not_taken.to_problem().to_json();
        assert_eq!(document["expected_seq"], 4);
        assert_eq!(document["expected_prev"], "ab".repeat(32));
        let verdict = not_taken.to_verdict();
        assert_eq!((verdict.expected_seq, verdict.expected_prev), (Some(4), Some("ab".repeat(32))));
    }

    #[test]
    fn who_is_to_come_again_is_told_when() {
        for (reason, status, code, retry_after) in [
            (NotTaken::Overloaded, 503, "overloaded", "1"),
            (NotTaken::Stopping, 503, "stopping", "1"),
            (NotTaken::NoRoom, 503, "no-room", "10"),
            (NotTaken::RateLimited { wait: Duration::from_millis(1) }, 429, "rate-limited", "1"),
            (NotTaken::RateLimited { wait: Duration::from_millis(2001) }, 429, "rate-limited", "3"),
        ] {
            use axum::response::IntoResponse;
            let problem = reason.to_problem();
            assert_eq!((problem.status().as_u16(), problem.code()), (status, code));
            assert_eq!(problem.into_response().headers()["retry-after"], retry_after, "{code}");
        }
    }

    #[test]
    fn a_credential_is_named_by_the_place_it_stands_in() {
        let found = CredentialFound { path: MemberPath::root(), kind: CredentialKind::ApiToken };
        let problem = NotTaken::Credential(found).to_problem();
        assert_eq!((problem.status().as_u16(), problem.code()), (422, CODE_CREDENTIAL));
        assert!(problem.to_json()["member"].is_string());
    }
}
