//! Refusals as problem documents (RFC 9457), the one shape in which both daemons say no.
//!
//! ```json
//! {"type":"urn:counterfoil:problem:gap","title":"Receipts are missing before this one","status":409,
//!  "detail":"gate.example/a is at seq 4; send seq 4 first","code":"gap","expected_seq":4}
//! ```
//!
//! `code` is the stable word that programs switch on; `detail` is the sentence that tells a person what to
//! do next. Which code gets which status is decided by each daemon, in one function of its own.

use axum::Router;
use axum::response::{IntoResponse, Response};
use http::{HeaderValue, StatusCode, header};
use serde_json::{Map, Value};

/// The media type of a problem document.
pub const PROBLEM_JSON: &str = "application/problem+json";

/// The code of the problem that an answer holds, beside it for whoever logs answers.
#[derive(Clone, Debug)]
pub(crate) struct ProblemCode(String);

impl ProblemCode {
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

/// One refusal, ready to be sent.
#[derive(Clone, Debug, PartialEq)]
pub struct Problem(Box<Parts>);

/// Boxed, so that it is cheap to be the error of a `Result`.
#[derive(Clone, Debug, PartialEq)]
struct Parts {
    status: StatusCode,
    code: String,
    title: String,
    detail: String,
    retry_after_s: Option<u64>,
    members: Map<String, Value>,
}

impl Problem {
    /// A refusal with `status`, the stable word `code`, a `title` that is the same for every refusal of
    /// that code, and a `detail` sentence for this one that says what to do next.
    pub fn new(
        status: StatusCode,
        code: impl Into<String>,
        title: impl Into<String>,
        detail: impl Into<String>,
    ) -> Self {
        let (code, title, detail) = (code.into(), title.into(), detail.into());
        Self(Box::new(Parts { status, code, title, detail, retry_after_s: None, members: Map::new() }))
    }

    /// Adds an extension member. The five standing members cannot be overwritten by it.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.0.members.insert(name.to_owned(), value.into());
        self
    }

    /// Adds `Retry-After`, in seconds.
    #[must_use]
    pub fn retry_after_s(mut self, seconds: u64) -> Self {
        self.0.retry_after_s = Some(seconds);
        self
    }

    /// The status it will be answered with.
    pub fn status(&self) -> StatusCode {
        self.0.status
    }

    /// The stable word for programs.
    pub fn code(&self) -> &str {
        &self.0.code
    }

    /// The sentence for people.
    pub fn detail(&self) -> &str {
        &self.0.detail
    }

    /// The document itself.
    pub fn to_json(&self) -> Value {
        let mut document = Map::new();
        document.insert("type".into(), format!("urn:counterfoil:problem:{}", self.0.code).into());
        document.insert("title".into(), self.0.title.clone().into());
        document.insert("status".into(), self.0.status.as_u16().into());
        document.insert("detail".into(), self.0.detail.clone().into());
        document.insert("code".into(), self.0.code.clone().into());
        for (name, value) in &self.0.members {
            document.entry(name.clone()).or_insert_with(|| value.clone());
        }
        Value::Object(document)
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let mut response = (self.0.status, self.to_json().to_string()).into_response();
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(PROBLEM_JSON));
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        if let Some(seconds) = self.0.retry_after_s {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        response.extensions_mut().insert(ProblemCode(self.0.code));
        response
    }
}

/// Nothing is served at this path.
pub fn not_found(detail: impl Into<String>) -> Problem {
    Problem::new(StatusCode::NOT_FOUND, "not-found", "Nothing is served at this path", detail)
}

/// More work is queued than can be promised; nothing was taken on.
pub fn overloaded(detail: impl Into<String>) -> Problem {
    Problem::new(StatusCode::SERVICE_UNAVAILABLE, "overloaded", "Too much is queued already", detail).retry_after_s(1)
}

/// Makes `router` answer unknown paths and wrong methods with problem documents too.
pub fn with_fallbacks<S: Clone + Send + Sync + 'static>(router: Router<S>) -> Router<S> {
    router.fallback(|| async { not_found("check the path; it is matched byte for byte") }).method_not_allowed_fallback(
        || async {
            Problem::new(
                StatusCode::METHOD_NOT_ALLOWED,
                "method-not-allowed",
                "This path does not take this method",
                "use one of the methods that the Allow header names",
            )
        },
    )
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;

    #[test]
    fn a_problem_carries_its_code_its_sentence_and_its_extension_members() {
        let problem = Problem::new(StatusCode::CONFLICT, "gap", "Receipts are missing", "send seq 4 first")
            .with("expected_seq", 4);
        assert_eq!(
            problem.to_json().to_string(),
            r#"{"type":"urn:counterfoil:problem:gap","title":"Receipts are missing","status":409,"detail":"send seq 4 first","code":"gap","expected_seq":4}"#
        );
    }

    #[test]
    fn an_extension_member_cannot_pose_as_a_standing_one() {
        let problem = Problem::new(StatusCode::CONFLICT, "gap", "t", "d").with("code", "fork").with("status", 200);
        assert_eq!(problem.to_json()["code"], "gap");
        assert_eq!(problem.to_json()["status"], 409);
    }

    #[test]
    fn a_problem_is_sent_with_its_media_type_and_retry_after() {
        let response = overloaded("try again").into_response();
        assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(response.headers()[header::CONTENT_TYPE], PROBLEM_JSON);
        assert_eq!(response.headers()[header::RETRY_AFTER], "1");
    }
}
