//! Asking a witness, from the command line, how it is. Whatever else is asked of it is asked only once it has answered
//! this as a witness does: on any other server nothing is found, and that would look like good news.

use crate::view::WitnessStatus;
use client::{FetchError, WitnessClient};

/// Why there is no status.
#[derive(Debug, thiserror::Error)]
pub(crate) enum InquiryError {
    /// Nobody answers, or with a failure.
    #[error(transparent)]
    Fetch(#[from] FetchError),
    /// Something else is there.
    #[error("{url} is no witness: {why}; check the URL, its path too")]
    NoWitness {
        /// Where.
        url: String,
        /// What its /status is.
        why: String,
    },
}

/// The status of a witness.
///
/// # Errors
/// [`InquiryError`].
pub(crate) async fn status(witness: &WitnessClient) -> Result<WitnessStatus, InquiryError> {
    let no_witness = |why: String| InquiryError::NoWitness { url: witness.base().to_string(), why };
    let answer = witness.status().await?.ok_or_else(|| no_witness("it has no /status".to_owned()))?;
    serde_json::from_slice(&answer).map_err(|error| no_witness(format!("its /status is not a witness's ({error})")))
}
