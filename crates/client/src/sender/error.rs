//! Why a sender stopped, and what to do about it.

use crate::amount::{amount, receipts};
use crate::http::FetchError;
use crate::outbox::OutboxError;
use crate::proof::ProofFault;
use crate::wire;
use receipt::{IssuerName, RefusalCode, SeqNo};
use std::path::PathBuf;

/// Why a sender stopped. What is in the outbox stays in it.
#[derive(Debug, thiserror::Error)]
pub enum SendError {
    /// The outbox itself.
    #[error(transparent)]
    Outbox(#[from] OutboxError),
    /// The log could not be reached, or is overloaded, for too long.
    #[error(
        "{} safe in the outbox {dir} and not yet in the log; run `counterfoil outbox flush --outbox {dir}` later ({last})",
        amount(*.unsent, "receipt is", "receipts are")
    )]
    GaveUp {
        /// Receipts not acknowledged.
        unsent: u64,
        /// The outbox.
        dir: PathBuf,
        /// What happened last.
        last: FetchError,
    },
    /// The log does not answer as a log does; trying again will not help.
    #[error("the log does not answer as a log should: {0}")]
    Log(FetchError),
    /// What answers knows nothing of issuers at all.
    #[error(
        "{url} is not a log: asked for this gate's issuer it answers {answer:?}, which no log does (one that does not know an issuer answers 404 {}); check --log",
        wire::CODE_UNKNOWN_ISSUER
    )]
    NotALog {
        /// The address asked.
        url: String,
        /// Status and code of the answer.
        answer: String,
    },
    /// The log does not know the issuer.
    #[error(
        "the log does not know {issuer}; ask its operator to add the issuer (`counterfoil-log issuer add`) with this vkey: {vkey}"
    )]
    UnknownIssuer {
        /// The issuer.
        issuer: IssuerName,
        /// The vkey to register.
        vkey: String,
    },
    /// The log refuses a receipt.
    #[error("the log refuses the receipt at seq {seq} ({code}): {detail}; {}", advice(.code))]
    Refused {
        /// Which.
        seq: SeqNo,
        /// The log's code.
        code: String,
        /// The log's sentence.
        detail: String,
    },
    /// The outbox is empty, and the log holds receipts by its key.
    #[error(
        "the outbox {dir} is new, and {issuer}'s key has already signed {} elsewhere, which the log holds; signing from here would make \
         a second history, so nothing was signed: use the outbox they are in, or make a new issuer key under a new name",
        receipts(.log_has.0)
    )]
    OutboxNew {
        /// The outbox.
        dir: PathBuf,
        /// Whose key it is.
        issuer: IssuerName,
        /// The log's next seq.
        log_has: SeqNo,
    },
    /// The log holds more of this stream than the outbox.
    #[error(
        "the log holds {} of this issuer and the outbox {dir} only {outbox_has}: it is an older copy; signing from here would \
         make a second history, so nothing was sent: use the newest copy of the outbox, or make a new issuer key under a new name",
        receipts(.log_has.0)
    )]
    OutboxBehind {
        /// The outbox.
        dir: PathBuf,
        /// The log's next seq.
        log_has: SeqNo,
        /// Ours.
        outbox_has: SeqNo,
    },
    /// The log holds another receipt at a seq of ours.
    #[error(
        "the log holds another receipt than the outbox {dir} at seq {seq} ({detail}): this key signed two histories; stop the gate, find the other \
         outbox that used this key, and make a new issuer key under a new name"
    )]
    StreamsDiffer {
        /// Where.
        seq: SeqNo,
        /// The outbox.
        dir: PathBuf,
        /// What the log says.
        detail: String,
    },
    /// The log no longer holds what it proved to hold. An alarm.
    #[error(
        "the log proved to hold the receipts before seq {acknowledged} and now says that it holds those before seq {log_has}: it lost or withholds \
         receipts; keep the outbox {dir}, its proofs are evidence, and tell the log's operator and auditors"
    )]
    LogLost {
        /// What the log now expects.
        log_has: SeqNo,
        /// What we have proofs for.
        acknowledged: SeqNo,
        /// The outbox.
        dir: PathBuf,
    },
    /// The log's head does not honour one that it proved something under: it signed two histories. An alarm.
    #[error(
        "the log signed two histories: its head of {present} entries does not contain the one of {kept} that it proved our receipts under; the evidence is kept in {dir}/alarms: tell the log's operator, its witnesses and its auditors"
    )]
    LogFork {
        /// Size of the head that was kept.
        kept: u64,
        /// Size of the head that it shows now.
        present: u64,
        /// The outbox.
        dir: PathBuf,
    },
    /// A proof does not verify. An alarm.
    #[error(
        "the log's proof for the receipt at seq {seq} does not hold: {fault}; it is kept in {dir}/alarms and the receipt stays unacknowledged: check the log's vkey, then tell its operator"
    )]
    BadProof {
        /// Which.
        seq: SeqNo,
        /// The outbox.
        dir: PathBuf,
        /// What is wrong with it.
        fault: ProofFault,
    },
}

impl SendError {
    /// Whether the log did what no honest log does. Kept in the outbox.
    pub fn is_alarm(&self) -> bool {
        matches!(
            self,
            Self::LogLost { .. }
                | Self::LogFork { .. }
                | Self::BadProof { .. }
                | Self::Outbox(OutboxError::LogFork { .. })
        )
    }

    /// The code of the error, the same in every SDK; of a refusal, the log's own.
    pub fn code(&self) -> &str {
        match self {
            Self::Outbox(error) => error.code(),
            Self::GaveUp { .. } => "log-unreachable",
            Self::Log(error) if error.may_pass() => "log-unreachable",
            Self::Log(_) | Self::NotALog { .. } => "not-a-log",
            Self::UnknownIssuer { .. } => RefusalCode::UnknownIssuer.as_str(),
            Self::Refused { code, .. } => code,
            Self::OutboxNew { .. } | Self::OutboxBehind { .. } => "outbox-behind",
            Self::StreamsDiffer { .. } => "streams-differ",
            Self::LogLost { .. } => "log-lost",
            Self::LogFork { .. } => "log-fork",
            Self::BadProof { .. } => "bad-proof",
        }
    }

    /// The request that failed, where one did.
    pub(crate) fn fetch_error(&self) -> Option<&FetchError> {
        match self {
            Self::GaveUp { last: error, .. } | Self::Log(error) => Some(error),
            _ => None,
        }
    }
}

/// What to do after a refusal. The outbox applies the same rules before it signs, so most of these say that
/// the two sides do not have the same rules or the same clock.
fn advice(code: &str) -> &'static str {
    match code {
        "closed" => "the stream has ended: go on under a new issuer name, with a new key and a new outbox",
        "future-dated" => "set this machine's clock, and flush again once the time has come; nothing is lost",
        "credential-shaped" => {
            "a receipt cannot be taken out of its stream: take the value out of the gate's bodies and go on under a new issuer name, with a new key and a new outbox"
        }
        "bad-open" => "check that the log has this issuer's first vkey registered",
        "bad-signature" => "check that the log has this issuer's vkey registered, and run `counterfoil outbox verify`",
        wire::CODE_OVERLOADED | wire::CODE_STOPPING => "try again",
        _ => {
            "run `counterfoil outbox verify`; if it finds nothing, log and gate are of versions that do not go together"
        }
    }
}
