//! `/v1/admin/issuers`: the operator's list of issuers, changed while the log runs. Every call shows the token.

use crate::admin::{AdminToken, ChangeError, IssuerList};
use crate::issuers_file::IssuersError;
use axum::body::Body;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, Request, State};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{delete, get};
use axum::{Json, Router};
use http::{HeaderMap, HeaderValue, StatusCode, header};
use serde_json::json;
use service::{Problem, body, problem};
use std::future::Future;
use std::sync::Arc;

/// Bytes of a request: one vkey (at most 320 bytes) and its line end.
const MAX_VKEY_BYTES: u64 = 1024;

const NO_STORE: [(header::HeaderName, &str); 1] = [(header::CACHE_CONTROL, "no-store")];

/// The calls, behind `token`.
pub(super) fn routes(list: Arc<IssuerList>, token: AdminToken) -> Router {
    Router::new()
        .route("/v1/admin/issuers", get(listed).post(add))
        .route("/v1/admin/issuers/{name}", delete(retire))
        .route_layer(middleware::from_fn_with_state(Arc::new(token), authorised))
        .with_state(list)
}

async fn authorised(State(token): State<Arc<AdminToken>>, request: Request, next: Next) -> Response {
    if shown(request.headers()).is_some_and(|shown| token.is(shown)) {
        return next.run(request).await;
    }
    let problem = Problem::new(
        StatusCode::UNAUTHORIZED,
        "unauthorized",
        "The admin token is missing or wrong",
        "send `Authorization: Bearer TOKEN` with the token in the log's admin_token_file",
    );
    let mut response = problem.into_response();
    response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    response
}

fn shown(headers: &HeaderMap) -> Option<&[u8]> {
    let (scheme, token) = headers.get(header::AUTHORIZATION)?.as_bytes().split_at_checked("Bearer ".len())?;
    scheme.eq_ignore_ascii_case(b"Bearer ").then_some(token)
}

/// `GET /v1/admin/issuers`: what the file holds.
async fn listed(State(list): State<Arc<IssuerList>>) -> Response {
    match list.listed().await {
        Ok(keys) => {
            let issuers: Vec<_> =
                keys.iter().map(|key| json!({"name": key.name().as_str(), "vkey": key.to_string()})).collect();
            (NO_STORE, Json(json!({ "issuers": issuers }))).into_response()
        }
        Err(error) => refused(&error).into_response(),
    }
}

/// `POST /v1/admin/issuers`, one vkey as its body.
async fn add(State(list): State<Arc<IssuerList>>, headers: HeaderMap, body: Body) -> Response {
    let vkey = match body::read(&headers, body, MAX_VKEY_BYTES).await {
        Ok(bytes) => String::from_utf8_lossy(&bytes).trim_end_matches('\n').to_owned(),
        Err(problem) => return problem.into_response(),
    };
    match to_its_end(async move { list.add(vkey).await }).await {
        Ok((key, added)) => {
            tracing::info!(issuer = %key.name(), added, "an issuer was added by an admin call");
            let status = if added { StatusCode::CREATED } else { StatusCode::OK };
            let answer = json!({"name": key.name().as_str(), "vkey": key.to_string(), "added": added});
            (status, NO_STORE, Json(answer)).into_response()
        }
        Err(error) => refused(&error).into_response(),
    }
}

/// `DELETE /v1/admin/issuers/<name, percent-encoded>`.
async fn retire(State(list): State<Arc<IssuerList>>, name: Result<Path<String>, PathRejection>) -> Response {
    let Ok(Path(name)) = name else {
        return problem::not_found("write the issuer's name, percent-encoded UTF-8").into_response();
    };
    let retired = name.clone();
    match to_its_end(async move { list.retire(retired).await }).await {
        Ok(true) => {
            tracing::info!(issuer = %name, "an issuer was retired by an admin call");
            (NO_STORE, Json(json!({"name": name, "retired": true}))).into_response()
        }
        Ok(false) => Problem::new(
            StatusCode::NOT_FOUND,
            client::wire::CODE_UNKNOWN_ISSUER,
            "This issuer is not listed",
            "nothing has changed; GET /v1/admin/issuers shows who is listed",
        )
        .into_response(),
        Err(error) => refused(&error).into_response(),
    }
}

/// A change that has begun is finished even if whoever asked for it has gone.
async fn to_its_end<T: Send + 'static>(
    change: impl Future<Output = Result<T, ChangeError>> + Send + 'static,
) -> Result<T, ChangeError> {
    tokio::spawn(change).await.unwrap_or(Err(ChangeError::Stopping))
}

fn refused(error: &ChangeError) -> Problem {
    let (status, code, title) = match error {
        ChangeError::File(IssuersError::NotAKey { .. } | IssuersError::OwnKey(_)) => {
            (StatusCode::BAD_REQUEST, "not-an-issuer-key", "This is no key of an issuer")
        }
        ChangeError::File(IssuersError::OtherKey { .. }) | ChangeError::Registered(_) => {
            (StatusCode::CONFLICT, "other-key", "The issuer is registered with another key")
        }
        ChangeError::File(_) => {
            tracing::error!(%error, "the issuers file could not be used by an admin call");
            (StatusCode::INTERNAL_SERVER_ERROR, "issuers-file", "The issuers file cannot be used")
        }
        ChangeError::Stopping => {
            let problem =
                Problem::new(StatusCode::SERVICE_UNAVAILABLE, "stopping", "The log is stopping", error.to_string());
            return problem.retry_after_s(1);
        }
    };
    Problem::new(status, code, title, error.to_string())
}
