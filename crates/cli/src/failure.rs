//! Why a call ends without having done what it was asked, and the exit code for each reason.

use client::gate::GateError;
use client::sender::CosignedError;
use client::{FetchError, OutboxError, SendError};
use service::ExitStatus;
use service::config::ConfigError;
use service::keys::KeyFileError;
use std::fmt::Display;

/// Exit status and sentence.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) status: ExitStatus,
    pub(crate) reason: String,
}

impl Failure {
    /// The command line or the configuration is wrong: 64.
    pub(crate) fn usage(reason: impl Display) -> Self {
        Self { status: ExitStatus::Usage, reason: reason.to_string() }
    }

    /// The input cannot be read: 65.
    pub(crate) fn unreadable(reason: impl Display) -> Self {
        Self { status: ExitStatus::Unreadable, reason: reason.to_string() }
    }

    /// It could not be done, or a check failed: 1.
    pub(crate) fn failed(reason: impl Display) -> Self {
        Self { status: ExitStatus::Failed, reason: reason.to_string() }
    }

    /// Nothing failed, and something asked for could not be established: 2.
    pub(crate) fn not_checked(reason: impl Display) -> Self {
        Self { status: ExitStatus::NotChecked, reason: reason.to_string() }
    }
}

impl From<ConfigError> for Failure {
    fn from(error: ConfigError) -> Self {
        Self::usage(error)
    }
}

impl From<KeyFileError> for Failure {
    fn from(error: KeyFileError) -> Self {
        match error {
            KeyFileError::Exists { .. } | KeyFileError::WrongKind { .. } => Self::usage(error),
            KeyFileError::Exposed { .. } | KeyFileError::NotAKey { .. } => Self::unreadable(error),
            KeyFileError::System { action: "read", .. } => Self::unreadable(error),
            KeyFileError::System { .. } | KeyFileError::Entropy(_) => Self::failed(error),
        }
    }
}

impl From<OutboxError> for Failure {
    fn from(error: OutboxError) -> Self {
        match error {
            OutboxError::OtherKey { .. }
            | OutboxError::WrongKeyKind
            | OutboxError::OtherLog { .. }
            | OutboxError::NoLog(_)
            | OutboxError::NoKey
            | OutboxError::Absent(_) => Self::usage(error),
            OutboxError::Body { .. } => Self::unreadable(error),
            OutboxError::Acknowledgement { .. }
            | OutboxError::Busy(_)
            | OutboxError::OtherWriter(_)
            | OutboxError::LogFork { .. }
            | OutboxError::Damaged { .. }
            | OutboxError::Disk { .. }
            | OutboxError::Stopped
            | OutboxError::Unframeable(_) => Self::failed(error),
        }
    }
}

impl From<SendError> for Failure {
    fn from(error: SendError) -> Self {
        match error {
            SendError::Outbox(error) => error.into(),
            error => Self::failed(error),
        }
    }
}

impl From<GateError> for Failure {
    fn from(error: GateError) -> Self {
        match error {
            GateError::Outbox(error) => error.into(),
            GateError::Send(error) => error.into(),
            error => Self::failed(error),
        }
    }
}

impl From<CosignedError> for Failure {
    fn from(error: CosignedError) -> Self {
        match error {
            CosignedError::Send(error) => error.into(),
            CosignedError::NotInTime { .. } | CosignedError::NoWitnesses => Self::not_checked(error),
            CosignedError::Policy(_) => Self::usage(error),
        }
    }
}

impl From<FetchError> for Failure {
    fn from(error: FetchError) -> Self {
        Self::failed(error)
    }
}
