//! Who may call: whoever can open the socket's file, and at an address whoever shows the token. Never a web page.
//!
//! A browser on this machine can be made to send requests to an address of this machine, by any page (it then says an
//! `Origin`), or by a page whose name was pointed here after it was loaded (it then says that name as `Host`). Both are
//! refused before anything else is looked at.

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use service::Problem;
use std::fmt;
use std::fs::File;
use std::io::Read as _;
use std::net::IpAddr;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::Arc;
use subtle::ConstantTimeEq as _;

/// Fewest characters of a token: 32 hex digits are 128 bits.
const MIN_TOKEN: usize = 32;
/// Most bytes of a token and its file.
const MAX_TOKEN: usize = 4096;
/// The permission bits of everybody but the owner.
const OTHERS: u32 = 0o077;

/// The secret that callers show.
#[derive(Clone)]
pub(crate) struct Token(Arc<str>);

impl Token {
    /// Takes a token: at least 32 visible ASCII characters.
    pub(crate) fn new(text: &str) -> Result<Token, String> {
        let is_token =
            (MIN_TOKEN..=MAX_TOKEN).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic());
        match is_token {
            true => Ok(Token(Arc::from(text))),
            false => Err(format!(
                "a token is one line of at least {MIN_TOKEN} visible ASCII characters; make one with: openssl rand -hex 32"
            )),
        }
    }

    /// Reads it from a file that nobody else can read.
    pub(crate) fn read(path: &Path) -> Result<Token, String> {
        let system = |error: std::io::Error| format!("cannot read the token file {}: {error}", path.display());
        let file = File::open(path).map_err(system)?;
        let mode = file.metadata().map_err(system)?.mode();
        if mode & OTHERS != 0 {
            return Err(format!("others can read the token file {0}; run: chmod 600 {0}", path.display()));
        }
        let mut text = String::new();
        file.take(MAX_TOKEN as u64 + 2).read_to_string(&mut text).map_err(system)?;
        Token::new(text.strip_suffix('\n').unwrap_or(&text)).map_err(|why| format!("{}: {why}", path.display()))
    }

    fn is(&self, shown: &[u8]) -> bool {
        self.0.as_bytes().ct_eq(shown).into()
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(..)")
    }
}

/// The rule of one socket.
#[derive(Clone, Debug)]
pub(super) struct Guard {
    /// What callers show on `/v1/`; `None` where the socket's file decides.
    pub(super) token: Option<Token>,
    /// Whether it listens at an address, where a browser could get to.
    pub(super) by_address: bool,
}

pub(super) async fn guarded(State(guard): State<Guard>, request: Request, next: Next) -> Response {
    match guard.check(&request) {
        Ok(()) => next.run(request).await,
        Err(problem) => {
            let is_unauthorized = problem.status() == StatusCode::UNAUTHORIZED;
            let mut response = problem.into_response();
            // Whoever may not call does not keep one of the places of those who may.
            response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
            if is_unauthorized {
                response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
            }
            response
        }
    }
}

impl Guard {
    fn check(&self, request: &Request) -> Result<(), Problem> {
        let headers = request.headers();
        if headers.contains_key(header::ORIGIN) {
            return Err(refused(
                "origin-refused",
                "the request says an Origin, so a web page sent it; call from a program",
            ));
        }
        if self.by_address && !names_this_machine(headers) {
            let detail = "the Host header names another machine; write 127.0.0.1, [::1] or localhost and the port";
            return Err(refused("host-refused", detail));
        }
        if let Some(token) = self.token.as_ref().filter(|_| request.uri().path().starts_with("/v1/"))
            && !shown(headers).is_some_and(|shown| token.is(shown))
        {
            return Err(Problem::new(
                StatusCode::UNAUTHORIZED,
                "unauthorized",
                "The token is missing or wrong",
                "send `Authorization: Bearer TOKEN` with the sidecar's token",
            ));
        }
        if request.method() == Method::POST && !is_json(headers) {
            return Err(Problem::new(
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                "not-json",
                "The body is not said to be JSON",
                "send `Content-Type: application/json`",
            ));
        }
        Ok(())
    }
}

fn refused(code: &str, detail: &str) -> Problem {
    Problem::new(StatusCode::FORBIDDEN, code, "Web pages may not call the sidecar", detail)
}

fn shown(headers: &HeaderMap) -> Option<&[u8]> {
    let (scheme, token) = headers.get(header::AUTHORIZATION)?.as_bytes().split_at_checked("Bearer ".len())?;
    scheme.eq_ignore_ascii_case(b"Bearer ").then_some(token)
}

/// One `Host`: a loopback address or `localhost`, and perhaps a port (of whatever forwards to here).
fn names_this_machine(headers: &HeaderMap) -> bool {
    let mut all = headers.get_all(header::HOST).iter();
    let (Some(Ok(host)), None) = (all.next().map(HeaderValue::to_str), all.next()) else { return false };
    let Ok(authority) = host.parse::<http::uri::Authority>() else { return false };
    let name = authority.host();
    let address = name.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    !host.contains('@')
        && (name.eq_ignore_ascii_case("localhost") || address.is_ok_and(|address| address.is_loopback()))
}

fn is_json(headers: &HeaderMap) -> bool {
    let text = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    text.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case("application/json")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;
    use axum::body::Body;

    const TOKEN: &str = "0123456789abcdef0123456789abcdef";

    fn code(guard: &Guard, path: &str, headers: &[(&str, &str)]) -> String {
        let mut request = Request::builder().method("POST").uri(path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let checked = guard.check(&request.body(Body::empty()).unwrap());
        checked.map_or_else(|problem| problem.code().to_owned(), |()| "ok".to_owned())
    }

    #[test]
    fn at_an_address_only_programs_with_the_token_get_in() {
        let guard = Guard { token: Some(Token::new(TOKEN).unwrap()), by_address: true };
        let (json, bearer) = (("content-type", "application/json; charset=utf-8"), format!("bearer {TOKEN}"));
        let auth = ("authorization", bearer.as_str());
        for host in ["127.0.0.1:7390", "127.0.0.1", "LOCALHOST:1", "[::1]:7390"] {
            assert_eq!(code(&guard, "/v1/decisions", &[("host", host), auth, json]), "ok", "{host}");
        }
        for host in ["evil.example", "localhost.evil.example", "10.0.0.1", "127.0.0.1.evil.example", "x@127.0.0.1", ""]
        {
            assert_eq!(code(&guard, "/healthz", &[("host", host), auth, json]), "host-refused", "{host}");
        }
        let host = ("host", "127.0.0.1");
        assert_eq!(code(&guard, "/v1/status", &[auth, json]), "host-refused");
        assert_eq!(code(&guard, "/v1/status", &[host, host, auth, json]), "host-refused");
        assert_eq!(code(&guard, "/v1/status", &[host, auth, json, ("origin", "http://127.0.0.1")]), "origin-refused");
        assert_eq!(code(&guard, "/v1/status", &[host, auth, json, ("origin", "null")]), "origin-refused");
        for wrong in ["", "Bearer ", "Bearer 0123", "Basic 0123456789abcdef0123456789abcdef"] {
            assert_eq!(code(&guard, "/v1/status", &[host, json, ("authorization", wrong)]), "unauthorized", "{wrong}");
        }
        assert_eq!(code(&guard, "/healthz", &[host, json]), "ok", "a supervisor needs no token");
        for kind in ["text/plain", "application/jsonp", ""] {
            assert_eq!(code(&guard, "/v1/decisions", &[host, auth, ("content-type", kind)]), "not-json", "{kind}");
        }
    }

    #[test]
    fn at_a_socket_the_file_decides_and_web_pages_are_refused_all_the_same() {
        let (guard, json) = (Guard { token: None, by_address: false }, ("content-type", "application/json"));
        assert_eq!(code(&guard, "/v1/decisions", &[json]), "ok");
        assert_eq!(code(&guard, "/v1/decisions", &[json, ("origin", "http://a.example")]), "origin-refused");
    }

    #[test]
    fn a_token_is_long_and_one_line() {
        for text in ["", "short", &"x".repeat(31), &format!("{} {}", "x".repeat(20), "y".repeat(20))] {
            assert!(Token::new(text).is_err(), "{text}");
        }
        assert!(!format!("{:?}", Token::new(TOKEN).unwrap()).contains("0123"));
    }
}
