//! A verdict for machines: one line of JSON in ASCII, as `docs/verdict.schema.json` describes it.

use audit::Verdict;
use service::ascii_json;

/// The verdict as one line of ASCII JSON, without a line end.
///
/// # Errors
/// Only what serialising can fail with; a verdict holds nothing that does.
pub fn verdict_json(verdict: &Verdict) -> Result<String, serde_json::Error> {
    ascii_json::to_string(verdict)
}
