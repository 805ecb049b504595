//! An HTTP client that a hostile or broken server cannot hold: redirects are refused, time is bounded, and so
//! are the bytes of every answer, counted while they arrive and after decompression.
//!
//! Holds what is true of any request we make. Does not hold what answers mean (`log`, `witness`), nor retries:
//! whoever asks knows whether asking again is safe.

use crate::calls::{MAX_MEMBERS_JSON, MAX_PROOF_JSON};
use crate::reach::{NotPublic, PublicOnly, Reach, SystemResolver, check_literal};
use crate::wire::ProblemDocument;
use bytes::{Bytes, BytesMut};
use reqwest::Url;
use reqwest::dns::Resolve;
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, LOCATION, RETRY_AFTER};
use std::error::Error as _;
use std::fmt;
use std::net::IpAddr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// What we call ourselves.
const USER_AGENT: &str = concat!("counterfoil/", env!("CARGO_PKG_VERSION"));

/// How long an unused connection is kept. Our own servers close one after 15 s without a request; we let go first,
/// so that no request is sent into a connection that is being closed.
const IDLE: Duration = Duration::from_secs(10);

/// Most bytes read of a refusal. The largest one of ours carries a proof.
const MAX_REFUSAL_BYTES: u64 = MAX_PROOF_JSON + MAX_MEMBERS_JSON;

/// How long to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// For a connection to be made.
    pub connect: Duration,
    /// For the whole exchange, from the connection to the last byte of the answer.
    pub total: Duration,
}

impl Default for Timeouts {
    /// 5 s to connect: any path to a server that is up. 60 s in all: a full bundle of the longest entries (16 MiB)
    /// at 280 kB/s.
    fn default() -> Self {
        Self { connect: Duration::from_secs(5), total: Duration::from_secs(60) }
    }
}

/// The client. Cheap to clone; clones share connections.
#[derive(Clone)]
pub struct BoundedClient {
    plain: reqwest::Client,
    /// Made when the first `https` address comes: it reads the system's certificates, and a machine without any
    /// can still talk to a log on its own network.
    secure: Arc<OnceLock<Result<reqwest::Client, String>>>,
    timeouts: Timeouts,
    reach: Reach,
    resolver: Arc<dyn Resolve>,
}

/// One request, with the bound on its answer.
#[derive(Clone, Debug)]
pub struct Request {
    method: reqwest::Method,
    url: Url,
    headers: HeaderMap,
    body: Option<Bytes>,
    max_bytes: u64,
    total: Option<Duration>,
}

/// Why there is no answer, and from where.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{url}: {fault}")]
pub struct FetchError {
    /// What was asked for.
    pub url: String,
    /// What went wrong.
    pub fault: Fault,
}

/// What went wrong with a request, by who is to blame.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// We: the request cannot be made.
    #[error("this request cannot be made: {0}")]
    Request(String),
    /// Nobody listens, or the name does not resolve, or TLS could not be agreed.
    #[error("cannot connect: {0}; check the address and that the server is up")]
    Connect(String),
    /// The server is at an address where a client with [`Reach::Public`] does not go.
    #[error(
        "{0} is not a public address, and only those are connected to; if the server is meant to be there, in a network of your own, \
         write private_address = true beside its url in the configuration (log add: --private-address)"
    )]
    PrivateAddress(IpAddr),
    /// The server took too long.
    #[error("no complete answer within {} s; try again, or check the server's load", .0.as_secs_f32())]
    Timeout(Duration),
    /// The connection ended inside the exchange. Whether the server acted on the request is unknown.
    #[error("the connection broke off: {0}; try again")]
    Interrupted(String),
    /// The server sent more than any right answer has.
    #[error("the answer is larger than {0} bytes, more than any right answer; this is not the server it should be")]
    TooLarge(u64),
    /// The server points elsewhere. We go only where we were told to go.
    #[error(
        "the server redirects (status {status}) to {location:?}; redirects are refused, configure the final address"
    )]
    Redirect {
        /// 300 to 399.
        status: u16,
        /// The `Location` header.
        location: String,
    },
    /// The server says no.
    #[error("{0}")]
    Refused(Box<Refusal>),
    /// The server answered, and the answer is not what it should be.
    #[error("the answer is not what it should be: {0}")]
    BadBody(String),
}

/// An answer with a status other than 2xx and 3xx.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The HTTP status.
    pub status: u16,
    /// The `Retry-After` header, where it is a number of seconds.
    pub retry_after: Option<Duration>,
    /// The `Content-Type` header.
    pub content_type: String,
    /// The body; empty where it was longer than any refusal of ours.
    pub body: Bytes,
}

impl Refusal {
    /// The problem document, where the body is one with a code.
    pub fn problem(&self) -> Option<ProblemDocument> {
        serde_json::from_slice::<ProblemDocument>(&self.body).ok().filter(|problem| !problem.code.is_empty())
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.problem() {
            Some(problem) => write!(f, "refused ({}, {}): {}", self.status, problem.code, problem.detail),
            None if self.status == 404 => write!(f, "nothing is served there (404); check the address"),
            None => write!(
                f,
                "refused with status {} and no problem document; check that the address is a counterfoil server's",
                self.status
            ),
        }
    }
}

impl FetchError {
    /// The refusal, where the server said no.
    pub fn refusal(&self) -> Option<&Refusal> {
        match &self.fault {
            Fault::Refused(refusal) => Some(refusal),
            _ => None,
        }
    }

    /// Whether the server says that there is nothing at this address (404, 410).
    pub fn is_missing(&self) -> bool {
        self.refusal().is_some_and(|refusal| matches!(refusal.status, 404 | 410))
    }

    /// Whether the server refused with a problem document of this code.
    pub fn has_code(&self, code: &str) -> bool {
        self.refusal().and_then(Refusal::problem).is_some_and(|problem| problem.code == code)
    }

    /// Whether the same request may well succeed later: nobody there, too slow, broken off, or a status that
    /// says so (408, 425, 429, 5xx).
    pub fn may_pass(&self) -> bool {
        match &self.fault {
            Fault::Connect(_) | Fault::Timeout(_) | Fault::Interrupted(_) => true,
            Fault::Refused(refusal) => matches!(refusal.status, 408 | 425 | 429 | 500..),
            Fault::Request(_)
            | Fault::PrivateAddress(_)
            | Fault::TooLarge(_)
            | Fault::Redirect { .. }
            | Fault::BadBody(_) => false,
        }
    }

    pub(crate) fn request(url: &Url, reason: impl fmt::Display) -> Self {
        Self { url: url.to_string(), fault: Fault::Request(reason.to_string()) }
    }

    pub(crate) fn bad_body(url: &Url, reason: impl fmt::Display) -> Self {
        Self { url: url.to_string(), fault: Fault::BadBody(reason.to_string()) }
    }
}

impl Request {
    /// `GET url`; an answer above `max_bytes` is refused.
    pub fn get(url: Url, max_bytes: u64) -> Self {
        Self { method: reqwest::Method::GET, url, headers: HeaderMap::new(), body: None, max_bytes, total: None }
    }

    /// `POST url` with `body`; an answer above `max_bytes` is refused.
    pub fn post(url: Url, content_type: &'static str, body: Bytes, max_bytes: u64) -> Self {
        let request = Self {
            method: reqwest::Method::POST,
            url,
            headers: HeaderMap::new(),
            body: Some(body),
            max_bytes,
            total: None,
        };
        request.header(CONTENT_TYPE, content_type)
    }

    /// Adds a header.
    #[must_use]
    pub fn header(mut self, name: HeaderName, value: &'static str) -> Self {
        self.headers.insert(name, HeaderValue::from_static(value));
        self
    }

    /// Waits this long in all instead of [`Timeouts::total`].
    #[must_use]
    pub fn total(mut self, total: Duration) -> Self {
        self.total = Some(total);
        self
    }
}

impl fmt::Debug for BoundedClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BoundedClient").field("timeouts", &self.timeouts).field("reach", &self.reach).finish()
    }
}

impl BoundedClient {
    /// A client with these timeouts that connects to any address ([`Reach::Any`]).
    ///
    /// # Errors
    /// A sentence, when the system gives us no resources for one.
    pub fn new(timeouts: Timeouts) -> Result<Self, FetchError> {
        Self::with_reach(timeouts, Reach::Any)
    }

    /// A client with these timeouts that connects to the addresses of `reach`.
    ///
    /// # Errors
    /// A sentence, when the system gives us no resources for one.
    pub fn with_reach(timeouts: Timeouts, reach: Reach) -> Result<Self, FetchError> {
        Self::build(timeouts, reach, Arc::new(SystemResolver))
    }

    /// Names are resolved by `resolver`, and what comes of it is judged by `reach`.
    fn build(timeouts: Timeouts, reach: Reach, resolver: Arc<dyn Resolve>) -> Result<Self, FetchError> {
        // reqwest asks for a provider whenever a client is built. Installing a second one changes nothing.
        let _already_installed = rustls::crypto::ring::default_provider().install_default();
        let resolver = match reach {
            Reach::Any => resolver,
            Reach::Public => Arc::new(PublicOnly(resolver)),
        };
        let plain = builder(timeouts, &resolver).tls_certs_only([]).build().map_err(|error| FetchError {
            url: "this machine".into(),
            fault: Fault::Request(format!("no HTTP client can be made: {}", innermost(&error))),
        })?;
        Ok(Self { plain, secure: Arc::new(OnceLock::new()), timeouts, reach, resolver })
    }

    /// Sends `request` and reads the answer whole. Only a 2xx is an answer.
    ///
    /// # Errors
    /// [`FetchError`].
    pub async fn send(&self, request: Request) -> Result<Bytes, FetchError> {
        let Request { method, url, headers, body, max_bytes, total } = request;
        let total = total.unwrap_or(self.timeouts.total);
        let address = url.to_string();
        let fail = |fault| FetchError { url: address.clone(), fault };
        if self.reach == Reach::Public {
            check_literal(&url).map_err(|NotPublic(address)| fail(Fault::PrivateAddress(address)))?;
        }
        let client = self.client_for(&url).map_err(&fail)?;
        let mut call = client.request(method, url).headers(headers).timeout(total);
        if let Some(body) = body {
            call = call.body(body);
        }
        let response = call.send().await.map_err(|error| fail(blame(&error, total)))?;
        let status = response.status();
        if status.is_redirection() {
            let location =
                response.headers().get(LOCATION).map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned());
            return Err(fail(Fault::Redirect { status: status.as_u16(), location: location.unwrap_or_default() }));
        }
        if status.is_success() {
            return read(response, max_bytes, total).await.map_err(fail);
        }
        let retry_after = text_header(&response, &RETRY_AFTER)
            .and_then(|text| merkle::decimal::parse_u64(&text))
            .map(Duration::from_secs);
        let content_type = text_header(&response, &CONTENT_TYPE).unwrap_or_default();
        // The status is the answer; a body that cannot be read takes nothing from it.
        let body = read(response, MAX_REFUSAL_BYTES, total).await.unwrap_or_default();
        Err(fail(Fault::Refused(Box::new(Refusal { status: status.as_u16(), retry_after, content_type, body }))))
    }

    fn client_for(&self, url: &Url) -> Result<&reqwest::Client, Fault> {
        match url.scheme() {
            "http" => Ok(&self.plain),
            "https" => {
                let made = self
                    .secure
                    .get_or_init(|| builder(self.timeouts, &self.resolver).build().map_err(|error| innermost(&error)));
                made.as_ref().map_err(|reason| Fault::Request(format!("TLS cannot be used here: {reason}")))
            }
            other => Err(Fault::Request(format!("{other} is neither http nor https"))),
        }
    }
}

fn builder(timeouts: Timeouts, resolver: &Arc<dyn Resolve>) -> reqwest::ClientBuilder {
    reqwest::Client::builder()
        .dns_resolver(Arc::clone(resolver))
        .user_agent(USER_AGENT)
        .redirect(reqwest::redirect::Policy::none())
        .referer(false)
        // A proxy named by somebody's environment would stand between a witness and the log's own address, and choose the
        // address that is connected to.
        .no_proxy()
        .connect_timeout(timeouts.connect)
        .timeout(timeouts.total)
        .pool_idle_timeout(IDLE)
}

/// Reads a body, counting what has been decompressed.
async fn read(mut response: reqwest::Response, max_bytes: u64, total: Duration) -> Result<Bytes, Fault> {
    if response.content_length().is_some_and(|length| length > max_bytes) {
        return Err(Fault::TooLarge(max_bytes));
    }
    let mut body = BytesMut::new();
    loop {
        match response.chunk().await {
            Ok(Some(chunk)) => {
                if (body.len() as u64).saturating_add(chunk.len() as u64) > max_bytes {
                    return Err(Fault::TooLarge(max_bytes));
                }
                body.extend_from_slice(&chunk);
            }
            Ok(None) => return Ok(body.freeze()),
            Err(error) if error.is_timeout() => return Err(Fault::Timeout(total)),
            Err(error) => return Err(Fault::Interrupted(innermost(&error))),
        }
    }
}

fn blame(error: &reqwest::Error, total: Duration) -> Fault {
    if let Some(NotPublic(address)) = refused_address(error) {
        Fault::PrivateAddress(address)
    } else if error.is_connect() {
        Fault::Connect(innermost(error))
    } else if error.is_timeout() {
        Fault::Timeout(total)
    } else if error.is_builder() {
        Fault::Request(innermost(error))
    } else {
        Fault::Interrupted(innermost(error))
    }
}

/// What our own resolver refused, from under the layers in between.
fn refused_address(error: &reqwest::Error) -> Option<NotPublic> {
    let mut cause = error.source();
    while let Some(here) = cause {
        if let Some(refused) = here.downcast_ref::<NotPublic>() {
            return Some(*refused);
        }
        cause = here.source();
    }
    None
}

/// The cause at the bottom: what the system or the peer said, without the layers in between.
fn innermost(error: &reqwest::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(here) = cause {
        text = here.to_string();
        cause = here.source();
    }
    text
}

fn text_header(response: &reqwest::Response, name: &HeaderName) -> Option<String> {
    Some(response.headers().get(name)?.to_str().ok()?.to_owned())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;
    use reqwest::dns::{Addrs, Name, Resolving};
    use std::net::{Ipv4Addr, SocketAddr};
    use std::sync::Mutex;
    use tokio::net::TcpListener;

    const SHORT: Timeouts = Timeouts { connect: Duration::from_millis(200), total: Duration::from_secs(5) };

    /// An address that is public by its form, and that nobody has: IANA took the 6bone's block back (RFC 3701).
    const PUBLIC_AND_NOBODYS: &str = "3ffe::1";

    /// Answers each question with the next of its answers, and the last one for ever.
    struct Script(Mutex<Vec<Vec<&'static str>>>);

    impl Script {
        fn of(answers: &[&[&'static str]]) -> Arc<dyn Resolve> {
            Arc::new(Script(Mutex::new(answers.iter().rev().map(|answer| answer.to_vec()).collect())))
        }
    }

    impl Resolve for Script {
        fn resolve(&self, _: Name) -> Resolving {
            let mut left = self.0.lock().unwrap();
            let answer = if left.len() > 1 { left.pop().unwrap() } else { left[0].clone() };
            let addresses = answer.into_iter().map(|text| SocketAddr::new(text.parse().unwrap(), 0));
            Box::pin(std::future::ready(Ok(Box::new(addresses.collect::<Vec<_>>().into_iter()) as Addrs)))
        }
    }

    /// A server of the inner network, which says yes to everything; and how often somebody connected to it.
    async fn inner_server() -> (u16, Arc<Mutex<u32>>) {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let connections = Arc::new(Mutex::new(0));
        let counter = Arc::clone(&connections);
        tokio::spawn(async move {
            loop {
                let (mut stream, _) = listener.accept().await.unwrap();
                *counter.lock().unwrap() += 1;
                use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
                let _read = stream.read(&mut [0; 1024]).await.unwrap();
                let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 6\r\nconnection: close\r\n\r\nsecret";
                stream.write_all(answer).await.unwrap();
            }
        });
        (port, connections)
    }

    async fn ask(client: &BoundedClient, url: &str) -> Result<Bytes, Fault> {
        client.send(Request::get(url.parse().unwrap(), 100)).await.map_err(|error| error.fault)
    }

    #[tokio::test]
    async fn a_name_that_is_public_at_first_and_private_later_leads_nobody_inside() {
        let (port, connections) = inner_server().await;
        let url = format!("http://log.example:{port}/checkpoint");
        let rebinding = || Script::of(&[&[PUBLIC_AND_NOBODYS], &["127.0.0.1"]]);
        let client = BoundedClient::build(SHORT, Reach::Public, rebinding()).unwrap();
        let first = ask(&client, &url).await.unwrap_err();
        assert!(matches!(first, Fault::Connect(_)), "{first}");
        for _ in 0..3 {
            let fault = ask(&client, &url).await.unwrap_err();
            assert_eq!(fault, Fault::PrivateAddress(Ipv4Addr::LOCALHOST.into()));
            assert!(fault.to_string().contains("private_address = true"));
        }
        assert_eq!(*connections.lock().unwrap(), 0);

        let anywhere = BoundedClient::build(SHORT, Reach::Any, rebinding()).unwrap();
        ask(&anywhere, &url).await.unwrap_err();
        assert_eq!(ask(&anywhere, &url).await.unwrap(), "secret", "the script does lead inside");
        assert_eq!(*connections.lock().unwrap(), 1);
    }

    #[tokio::test]
    async fn of_mixed_answers_only_the_public_ones_are_used() {
        let (port, connections) = inner_server().await;
        let mixed = Script::of(&[&["127.0.0.1", "::1", PUBLIC_AND_NOBODYS, "10.0.0.1"]]);
        let client = BoundedClient::build(SHORT, Reach::Public, mixed).unwrap();
        let fault = ask(&client, &format!("http://log.example:{port}/")).await.unwrap_err();
        assert!(matches!(fault, Fault::Connect(_)), "{fault}");
        assert_eq!(*connections.lock().unwrap(), 0);
    }

    #[tokio::test]
    async fn loopback_is_refused_in_every_spelling_and_under_its_names() {
        let (port, connections) = inner_server().await;
        let client = BoundedClient::with_reach(SHORT, Reach::Public).unwrap();
        for host in ["127.0.0.1", "127.0.0.1.", "127.1", "0x7f.1", "2130706433", "[::ffff:127.0.0.1]", "localhost"] {
            let fault = ask(&client, &format!("http://{host}:{port}/")).await.unwrap_err();
            assert!(
                matches!(fault, Fault::PrivateAddress(address) if !crate::reach::is_public(address)),
                "{host}: {fault}"
            );
        }
        let fault = ask(&client, &format!("https://127.0.0.1:{port}/")).await.unwrap_err();
        assert!(matches!(fault, Fault::PrivateAddress(_)), "{fault}");
        assert_eq!(*connections.lock().unwrap(), 0);
        let anywhere = BoundedClient::new(SHORT).unwrap();
        assert_eq!(ask(&anywhere, &format!("http://127.1:{port}/")).await.unwrap(), "secret");
    }
}
