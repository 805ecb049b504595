//! The bodies of calls, read: JSON that every reader reads alike, and no member that nothing reads.

use super::problems::{self, malformed};
use client::gate::{Act, Report};
use futures_util::FutureExt as _;
use http::StatusCode;
use receipt::{Digest, ijson};
use serde_json::{Map, Value};
use service::Problem;

/// The members of a body.
pub(super) fn members(bytes: &[u8]) -> Result<Map<String, Value>, Problem> {
    let text = std::str::from_utf8(bytes).map_err(|_| malformed("the body is not UTF-8"))?;
    ijson::parse_object(text).map_err(|fault| malformed(format!("the body is not one JSON object: {fault}")))
}

/// How a scope ends, by the word of whoever acted in it.
#[derive(Debug, PartialEq)]
pub(super) enum Ending {
    /// The action came back; with what, and what failed after that.
    Returned { result: Option<Answer>, error: Option<String> },
    /// The action failed before it came back.
    Failed(String),
    /// The action was not executed, for this reason.
    NotExecuted(String),
    /// It is not known whether the action ran.
    Cancelled,
}

/// What an action answered.
#[derive(Debug, PartialEq)]
pub(super) enum Answer {
    Value(Value),
    Digest(Digest),
}

/// Reads `{scope, result? | result_digest?, error?, not_executed?, cancelled?}`: the scope's token and how it ends.
pub(super) fn outcome(mut call: Map<String, Value>) -> Result<(String, Ending), Problem> {
    if ["executed", "unknown"].iter().any(|name| call.contains_key(*name)) {
        return Err(Problem::new(
            StatusCode::UNPROCESSABLE_ENTITY,
            "scope-only",
            "Whether an action was executed follows from how its scope ends",
            "leave `executed` and `unknown` out: give `result` or nothing where it came back, `error` where it failed, \
             `not_executed` with a reason, or `cancelled`",
        ));
    }
    let scope = text(&mut call, "scope")?
        .ok_or_else(|| malformed("`scope` is missing: the token that the decision answered"))?;
    let error = text(&mut call, "error")?;
    let not_executed = text(&mut call, "not_executed")?;
    let cancelled = flag(&mut call, "cancelled")?.unwrap_or(false);
    let digest = digest(&mut call, "result_digest")?.map(Answer::Digest);
    let value = call.remove("result").map(Answer::Value);
    nothing_else(&call)?;
    let ending = match (value, digest, error, not_executed, cancelled) {
        (Some(_), Some(_), ..) => return Err(malformed("give `result` or `result_digest`, not both")),
        (None, None, None, None, true) => Ending::Cancelled,
        (None, None, None, Some(reason), false) => Ending::NotExecuted(reason),
        (None, None, Some(error), None, false) => Ending::Failed(error),
        (value, digest, error, None, false) => Ending::Returned { result: value.or(digest), error },
        _ => return Err(malformed("`not_executed` and `cancelled` stand alone: each says all there is to say")),
    };
    Ok((scope, ending))
}

impl Ending {
    /// Lets the scope know.
    pub(super) fn tell(self, act: &mut Act) {
        match self {
            Ending::Returned { result, error } => {
                // The caller ran it, and says that it came back.
                let _ = act.call(|| Ok::<(), &str>(()));
                match result {
                    Some(Answer::Value(value)) => act.result(&value),
                    Some(Answer::Digest(digest)) => act.result_digest(digest),
                    None => {}
                }
                if let Some(error) = error {
                    failed(act, &error);
                }
            }
            Ending::Failed(error) => failed(act, &error),
            Ending::NotExecuted(reason) => act.not_executed(&reason),
            // A call that was begun and given up.
            Ending::Cancelled => {
                let _ = act.run(std::future::pending::<Result<(), &str>>()).now_or_never();
            }
        }
    }
}

/// An error as languages write it, `Type: message`, or a sentence.
fn failed(act: &mut Act, error: &str) {
    match error.split_once(": ") {
        Some((kind, message)) if !kind.contains(char::is_whitespace) => act.failed(kind, message),
        _ => act.not_executed(error),
    }
}

/// Reads `{request_id, executed, error?, executed_digest?}`.
pub(super) fn reported(mut call: Map<String, Value>) -> Result<(String, Report), Problem> {
    let request_id = text(&mut call, "request_id")?.ok_or_else(|| malformed("`request_id` is missing"))?;
    let executed = flag(&mut call, "executed")?.ok_or_else(|| malformed("`executed` is missing: true or false"))?;
    let report =
        Report { executed, error: text(&mut call, "error")?, executed_digest: digest(&mut call, "executed_digest")? };
    nothing_else(&call)?;
    Ok((request_id, report))
}

/// Reads `{timeout_ms?}`.
pub(super) fn timeout_ms(mut call: Map<String, Value>) -> Result<Option<u64>, Problem> {
    let number = call.remove("timeout_ms");
    let number = number.map(|value| value.as_u64().ok_or_else(|| malformed("`timeout_ms` must be a whole number")));
    nothing_else(&call)?;
    number.transpose()
}

fn text(call: &mut Map<String, Value>, name: &str) -> Result<Option<String>, Problem> {
    match call.remove(name) {
        None => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(_) => Err(malformed(format!("`{name}` must be a string"))),
    }
}

fn flag(call: &mut Map<String, Value>, name: &str) -> Result<Option<bool>, Problem> {
    call.remove(name)
        .map(|value| value.as_bool().ok_or_else(|| malformed(format!("`{name}` must be true or false"))))
        .transpose()
}

fn digest(call: &mut Map<String, Value>, name: &str) -> Result<Option<Digest>, Problem> {
    let expected = || malformed(format!("`{name}` must be a digest: \"sha256:\" and 64 lowercase hex digits"));
    text(call, name)?.map(|text| Digest::parse(&text).ok_or_else(expected)).transpose()
}

fn nothing_else(call: &Map<String, Value>) -> Result<(), Problem> {
    match call.keys().next() {
        None => Ok(()),
        Some(name) => Err(malformed(format!("this call takes no member {name:?}"))),
    }
}

/// A decision's members; a request id is drawn where none is given.
pub(super) fn decision(
    mut call: Map<String, Value>,
    draw: impl FnOnce() -> Option<String>,
) -> Result<(receipt::body::Ruling, client::gate::Decision, String), Problem> {
    let request_id = match call.get("request_id") {
        Some(given) => given.as_str().unwrap_or_default().to_owned(),
        None => {
            let drawn = draw().ok_or_else(|| {
                Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "outbox-stopped", "No random bytes", "try again")
            })?;
            call.insert("request_id".to_owned(), Value::String(drawn.clone()));
            drawn
        }
    };
    if !call.contains_key("decision") {
        return Err(malformed("`decision` is missing: \"allow\" or \"deny\""));
    }
    let read = client::gate::Decision::from_call(&call);
    let (ruling, decision) = read.map_err(|fault| problems::of(&fault.into()))?;
    Ok((ruling, decision, request_id))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;
    use serde_json::json;

    fn read(call: Value) -> Result<Ending, String> {
        let mut call = call.as_object().unwrap().clone();
        call.insert("scope".into(), json!("s"));
        outcome(call).map(|(_, ending)| ending).map_err(|problem| problem.code().to_owned())
    }

    #[test]
    fn a_scope_ends_in_one_way() {
        let returned = |result, error: Option<&str>| Ok(Ending::Returned { result, error: error.map(str::to_owned) });
        assert_eq!(read(json!({})), returned(None, None));
        assert_eq!(read(json!({"result": null})), returned(Some(Answer::Value(Value::Null)), None));
        let digest = Digest::of_bytes(b"x");
        assert_eq!(read(json!({"result_digest": digest.to_string()})), returned(Some(Answer::Digest(digest)), None));
        assert_eq!(read(json!({"result": 1, "error": "E: m"})), returned(Some(Answer::Value(json!(1))), Some("E: m")));
        assert_eq!(read(json!({"error": "E: m"})), Ok(Ending::Failed("E: m".into())));
        assert_eq!(read(json!({"not_executed": "dry run"})), Ok(Ending::NotExecuted("dry run".into())));
        assert_eq!(read(json!({"cancelled": true})), Ok(Ending::Cancelled));
        for wrong in [
            json!({"result": 1, "result_digest": digest.to_string()}),
            json!({"cancelled": true, "error": "x"}),
            json!({"not_executed": "x", "result": 1}),
            json!({"not_executed": "x", "cancelled": true}),
            json!({"cancelled": "yes"}),
            json!({"error": 7}),
            json!({"result_digest": "sha256:00"}),
            json!({"outcome": 1}),
        ] {
            assert_eq!(read(wrong.clone()), Err("malformed".into()), "{wrong}");
        }
        for word in [json!({"executed": true}), json!({"executed": false}), json!({"unknown": true})] {
            assert_eq!(read(word), Err("scope-only".into()));
        }
    }

    #[test]
    fn bodies_are_objects_that_every_reader_reads_alike() {
        for text in ["", "[]", "{\"a\":1,\"a\":2}", "{\"a\":\"\\ud800\"}", "{} {}", "{\"a\":1e400}"] {
            assert_eq!(members(text.as_bytes()).unwrap_err().code(), "malformed", "{text}");
        }
        assert_eq!(members(&[0xff]).unwrap_err().code(), "malformed");
        assert_eq!(members(b" {\"a\": [1.5]} ").unwrap()["a"], json!([1.5]));
    }
}
