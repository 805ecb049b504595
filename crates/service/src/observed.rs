//! What is seen of every request: counted and timed by route, named by an id, and logged: all of them at `debug`, those that
//! failed on our side at `warn` or `error`.
//!
//! It runs for every request, so everything that can be looked up once a route is: a request costs two looks at the clock, an
//! id and a few atomic additions (about a microsecond). Routes are patterns, not paths: paths are unbounded.

use crate::problem::ProblemCode;
use crate::request_id::{RequestId, X_REQUEST_ID};
use axum::Router;
use axum::extract::{MatchedPath, Request};
use axum::response::Response;
use http::{Method, StatusCode, Uri};
use metrics::{Counter, Histogram, counter, describe_counter, describe_histogram, histogram};
use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, PoisonError, RwLock};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use tower::{Layer, Service};

const REQUESTS: &str = "counterfoil_http_requests_total";
const SECONDS: &str = "counterfoil_http_request_seconds";

/// The route of what no route matched.
const NO_ROUTE: &str = "none";

/// Bytes of a path that are logged: the longest path of ours, an issuer's name percent-encoded (765 bytes), and no more of
/// whatever else comes.
const LOGGED_PATH: usize = 800;

/// Observes every request of `router`.
pub fn observe(router: Router) -> Router {
    describe_counter!(REQUESTS, "Requests that were answered, by route and status");
    describe_histogram!(SECONDS, metrics::Unit::Seconds, "From the end of a request's headers to its answer, by route");
    router.layer(Observe)
}

#[derive(Clone, Copy, Debug)]
struct Observe;

/// A service of one route, observed. The layer is applied to every route by itself, so each has numbers of its own.
#[derive(Clone, Debug)]
struct Observed<S> {
    inner: S,
    numbers: Arc<OnceLock<Numbers>>,
}

impl<S> Layer<S> for Observe {
    type Service = Observed<S>;

    fn layer(&self, inner: S) -> Observed<S> {
        Observed { inner, numbers: Arc::default() }
    }
}

impl<S> Service<Request> for Observed<S>
where
    S: Service<Request, Response = Response, Error = Infallible>,
    S::Future: Send + 'static,
{
    type Response = Response;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request) -> Self::Future {
        let started = Instant::now();
        let id = RequestId::of(request.headers());
        let numbers = Arc::clone(&self.numbers);
        numbers.get_or_init(|| Numbers::of(&request));
        let (method, uri) = (request.method().clone(), request.uri().clone());
        let answering = self.inner.call(request);
        Box::pin(id.clone().scope(async move {
            let Ok(mut response) = answering.await;
            let took = started.elapsed();
            if let Some(numbers) = numbers.get() {
                numbers.count(response.status(), took);
            }
            log(&method, &uri, &response, took);
            response.headers_mut().insert(X_REQUEST_ID, id.to_header());
            Ok(response)
        }))
    }
}

/// The numbers of one route.
#[derive(Debug)]
struct Numbers {
    route: String,
    seconds: Histogram,
    /// By status: a handful, so that looking through them is faster than hashing.
    answers: RwLock<Vec<(StatusCode, Counter)>>,
}

impl Numbers {
    fn of(request: &Request) -> Self {
        let route = request.extensions().get::<MatchedPath>().map_or(NO_ROUTE, MatchedPath::as_str).to_owned();
        Self { seconds: histogram!(SECONDS, "route" => route.clone()), route, answers: RwLock::default() }
    }

    fn count(&self, status: StatusCode, took: Duration) {
        self.seconds.record(took.as_secs_f64());
        let known = self.answers.read().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, answers)) = known.iter().find(|(known, _)| *known == status) {
            return answers.increment(1);
        }
        drop(known);
        let answers = counter!(REQUESTS, "route" => self.route.clone(), "status" => status.as_str().to_owned());
        answers.increment(1);
        let mut known = self.answers.write().unwrap_or_else(PoisonError::into_inner);
        if known.iter().all(|(known, _)| *known != status) {
            known.push((status, answers));
        }
    }
}

fn log(method: &Method, uri: &Uri, response: &Response, took: Duration) {
    let status = response.status();
    let code = response.extensions().get::<ProblemCode>().map_or("", ProblemCode::as_str);
    let took_ms = took.as_secs_f64() * 1000.0;
    tracing::debug!(%method, path = logged(uri), status = status.as_u16(), code, took_ms, "answered");
    if !status.is_server_error() {
        return;
    }
    static FAILURES: Sparingly = Sparingly::new();
    let Some(unsaid) = FAILURES.may_speak(since_start()) else { return };
    if status == StatusCode::INTERNAL_SERVER_ERROR {
        tracing::error!(%method, path = logged(uri), status = status.as_u16(), code, took_ms, unsaid, "a request failed");
    } else {
        tracing::warn!(%method, path = logged(uri), status = status.as_u16(), code, took_ms, unsaid, "a request was not served");
    }
}

fn logged(uri: &Uri) -> &str {
    let path = uri.path();
    // A path is ASCII, or else nothing of it is shown.
    if path.len() <= LOGGED_PATH { path } else { path.get(..LOGGED_PATH).unwrap_or_default() }
}

fn since_start() -> Duration {
    static START: OnceLock<Instant> = OnceLock::new();
    START.get_or_init(Instant::now).elapsed()
}

/// Lets one line through a second, and counts the others: an overloaded server must not also be busy saying so.
#[derive(Debug)]
struct Sparingly {
    /// The second after the one in which was last spoken; 0 before.
    spoken: AtomicU64,
    unsaid: AtomicU64,
}

impl Sparingly {
    const fn new() -> Self {
        Self { spoken: AtomicU64::new(0), unsaid: AtomicU64::new(0) }
    }

    /// `Some` if a line may be written now: how many were not since the last one.
    fn may_speak(&self, now: Duration) -> Option<u64> {
        let second = now.as_secs().saturating_add(1);
        let before = self.spoken.load(Ordering::Relaxed);
        let first_of_its_second = before < second
            && self.spoken.compare_exchange(before, second, Ordering::Relaxed, Ordering::Relaxed).is_ok();
        if first_of_its_second {
            return Some(self.unsaid.swap(0, Ordering::Relaxed));
        }
        self.unsaid.fetch_add(1, Ordering::Relaxed);
        None
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;
    use axum::body::Body;
    use axum::response::IntoResponse;
    use axum::routing::get;
    use tower::ServiceExt;

    fn router() -> Router {
        let failing = || async { crate::problem::overloaded("later").into_response() };
        observe(Router::new().route("/a/{name}", get(|| async { "a" })).route("/failing", get(failing)))
    }

    async fn ask(path: &str, id: Option<&str>) -> Response {
        let request = Request::get(path);
        let request = id.into_iter().fold(request, |request, id| request.header("x-request-id", id));
        router().oneshot(request.body(Body::empty()).unwrap()).await.unwrap()
    }

    #[tokio::test]
    async fn every_answer_carries_the_id_of_its_request() {
        assert_eq!(ask("/a/1", Some("mine")).await.headers()["x-request-id"], "mine");
        for path in ["/a/1", "/failing", "/nothing"] {
            assert!(ask(path, None).await.headers()["x-request-id"].len() > 9, "{path}");
        }
    }

    #[tokio::test]
    async fn requests_are_counted_by_route_and_status() {
        crate::metrics::install();
        for _ in 0..3 {
            ask("/a/counted", None).await;
        }
        ask("/failing", None).await;
        ask("/nothing", None).await;
        let text = crate::metrics::text();
        for (line, least) in [
            (r#"counterfoil_http_requests_total{route="/a/{name}",status="200"}"#, 3),
            (r#"counterfoil_http_requests_total{route="/failing",status="503"}"#, 1),
            (r#"counterfoil_http_requests_total{route="none",status="404"}"#, 1),
            (r#"counterfoil_http_request_seconds_count{route="/a/{name}"}"#, 3),
        ] {
            let value = text.lines().find_map(|found| found.strip_prefix(line)).unwrap_or_else(|| panic!("{text}"));
            assert!(value.trim().parse::<u64>().unwrap() >= least, "{line} {value}");
        }
    }

    #[test]
    fn one_line_a_second_is_written_and_the_others_are_counted() {
        let lines = Sparingly::new();
        let at = |ms| lines.may_speak(Duration::from_millis(ms));
        assert_eq!([at(0), at(1), at(999)], [Some(0), None, None]);
        assert_eq!([at(1000), at(1001), at(5000)], [Some(2), None, Some(1)]);
    }
}
