//! Each limit of the listener, met with a real socket.

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use service::listener::Drained;
use service::{Limits, problem};
use std::net::SocketAddr;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;

const ROUTE_LIMIT: u64 = 1000;
const LARGE_ANSWER: usize = 32 * 1024 * 1024;
/// How long anything is waited for, on a machine that does much else.
const LATE: Duration = Duration::from_secs(60);
/// How long a connection that was closed waits for the peer's end (`connection.rs`).
const LINGER: Duration = Duration::from_secs(1);

/// Limits whose deadlines nothing here comes near, however long this process is not scheduled: so what ends a connection is
/// the one deadline that a test sets.
fn unhurried() -> Limits {
    let long = 10 * LATE.as_millis() as u64;
    Limits {
        header_deadline_ms: long,
        body_deadline_ms: long,
        write_deadline_ms: long,
        drain_deadline_ms: long,
        ..Limits::default()
    }
}

struct Running {
    address: SocketAddr,
    /// Requests for `/slow` and `/endless` that have reached their handler.
    begun: watch::Receiver<usize>,
    stop: oneshot::Sender<()>,
    ended: JoinHandle<Drained>,
}

impl Running {
    async fn start(limits: Limits) -> Self {
        let (begins, begun) = watch::channel(0);
        let lasting = |time: Duration, says: &'static str| {
            let begins = begins.clone();
            get(move || async move {
                begins.send_modify(|count| *count += 1);
                tokio::time::sleep(time).await;
                says
            })
        };
        let routes = Router::new()
            .route("/hello", get(|| async { "hello" }))
            .route("/slow", lasting(Duration::from_millis(300), "done"))
            .route("/endless", lasting(10 * LATE, "never"))
            .route("/large", get(|| async { vec![b'x'; LARGE_ANSWER] }))
            .route("/read", post(|request: Request| read(request, ROUTE_LIMIT)))
            .route("/read-all", post(|request: Request| read(request, u64::MAX)));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, stopped) = oneshot::channel();
        let shutdown = async { _ = stopped.await };
        let ended = tokio::spawn(service::serve(listener, problem::with_fallbacks(routes), limits, shutdown));
        Self { address, begun, stop, ended }
    }

    async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }

    /// A connection that is being served, for as long as the test lasts.
    async fn busy(&self) -> TcpStream {
        let mut stream = self.connect().await;
        let before = *self.begun.borrow();
        stream.write_all(b"GET /endless HTTP/1.1\r\nhost: t\r\n\r\n").await.unwrap();
        self.begun(before + 1).await;
        stream
    }

    /// Waits until so many requests have reached their handler.
    async fn begun(&self, count: usize) {
        let mut begun = self.begun.clone();
        let reached = begun.wait_for(|begun| *begun >= count);
        tokio::time::timeout(LATE, reached).await.expect("no handler has it").unwrap();
    }

    async fn ask(&self, request: &str) -> String {
        let mut stream = self.connect().await;
        // What is refused may be closed before all of it is taken.
        let _closed = stream.write_all(request.as_bytes()).await;
        read_to_end(&mut stream).await
    }

    /// Asks until there is an answer and not 503: there is a place.
    async fn ask_until_served(&self, what: &str) -> String {
        let deadline = Instant::now() + LATE;
        loop {
            let answer = self.ask("GET /hello HTTP/1.1\r\nhost: t\r\nconnection: close\r\n\r\n").await;
            if answer.starts_with("HTTP/1.1 200") {
                return answer;
            }
            assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 503"), "{answer}");
            assert!(Instant::now() < deadline, "{what}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    async fn stop(self) -> Drained {
        self.stop.send(()).unwrap();
        self.ended.await.unwrap()
    }
}

async fn read(request: Request<Body>, limit: u64) -> Response {
    let (parts, body) = request.into_parts();
    match service::body::read(&parts.headers, body, limit).await {
        Ok(bytes) => bytes.len().to_string().into_response(),
        Err(problem) => problem.into_response(),
    }
}

async fn read_to_end(stream: &mut TcpStream) -> String {
    let mut answer = Vec::new();
    let _reset_counts_as_end =
        tokio::time::timeout(LATE, stream.read_to_end(&mut answer)).await.expect("the server never closed");
    String::from_utf8_lossy(&answer).into_owned()
}

/// Reads one answer with a `Content-Length` and leaves the connection open.
async fn read_one(stream: &mut TcpStream) -> String {
    let mut answer = Vec::new();
    loop {
        let mut chunk = [0; 4096];
        let read = tokio::time::timeout(LATE, stream.read(&mut chunk)).await.expect("no answer").unwrap();
        answer.extend_from_slice(&chunk[..read]);
        let text = String::from_utf8_lossy(&answer).into_owned();
        let Some((head, body)) = text.split_once("\r\n\r\n") else {
            assert!(read > 0, "closed inside the headers: {text:?}");
            continue;
        };
        let length: usize =
            head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap().parse().unwrap();
        if body.len() >= length {
            return text;
        }
        assert!(read > 0, "closed inside the body: {text:?}");
    }
}

fn post_head(path: &str, length: usize) -> String {
    format!("POST {path} HTTP/1.1\r\nhost: t\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n")
}

#[tokio::test]
async fn a_connection_is_kept_alive_between_requests() {
    let server = Running::start(unhurried()).await;
    let mut stream = server.connect().await;
    for _ in 0..3 {
        stream.write_all(b"GET /hello HTTP/1.1\r\nhost: t\r\n\r\n").await.unwrap();
        assert!(read_one(&mut stream).await.ends_with("hello"));
    }
}

#[tokio::test]
async fn unknown_paths_and_wrong_methods_are_problems() {
    let server = Running::start(unhurried()).await;
    let unknown = server.ask("GET /nothing HTTP/1.1\r\nhost: t\r\nconnection: close\r\n\r\n").await;
    assert!(
        unknown.starts_with("HTTP/1.1 404")
            && unknown.contains("application/problem+json")
            && unknown.contains("\"code\":\"not-found\""),
        "{unknown}"
    );
    let wrong = server.ask(&post_head("/hello", 0)).await;
    assert!(wrong.starts_with("HTTP/1.1 405") && wrong.contains("\"code\":\"method-not-allowed\""), "{wrong}");
}

#[tokio::test]
async fn headers_that_trickle_are_cut_at_the_deadline() {
    let server = Running::start(Limits { header_deadline_ms: 300, ..unhurried() }).await;
    let mut stream = server.connect().await;
    let (mut reading, mut writing) = stream.split();
    let trickle = async {
        for byte in b"GET /hello HTTP/1.1\r\nhost: a-host-name-of-some-length\r\n".iter().cycle() {
            if writing.write_all(&[*byte]).await.is_err() {
                break;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    let mut answer = Vec::new();
    tokio::select! {
        _ = trickle => {}
        _ = reading.read_to_end(&mut answer) => {}
        () = tokio::time::sleep(LATE) => panic!("it is not cut"),
    }
}

#[tokio::test]
async fn a_connection_that_says_nothing_is_cut_at_the_header_deadline() {
    let server = Running::start(Limits { header_deadline_ms: 300, ..unhurried() }).await;
    let mut stream = server.connect().await;
    assert_eq!(read_to_end(&mut stream).await, "");
}

#[tokio::test]
async fn headers_above_the_limit_are_refused() {
    let server = Running::start(Limits { header_bytes: 8 * 1024, ..unhurried() }).await;
    let answer = server.ask(&format!("GET /hello HTTP/1.1\r\nhost: t\r\nx: {}\r\n\r\n", "y".repeat(64 * 1024))).await;
    assert!(answer.starts_with("HTTP/1.1 431"), "{answer}");
}

#[tokio::test]
async fn a_declared_length_above_the_limit_is_answered_413_before_any_body_is_sent() {
    let server = Running::start(Limits { body_bytes: 2000, ..unhurried() }).await;
    let mut stream = server.connect().await;
    stream.write_all(post_head("/read-all", 2001).as_bytes()).await.unwrap();
    let answer = read_one(&mut stream).await;
    assert!(
        answer.starts_with("HTTP/1.1 413")
            && answer.contains("\"code\":\"too-large\"")
            && answer.contains("\"limit_bytes\":2000"),
        "{answer}"
    );
    let mut stream = server.connect().await;
    stream.write_all(post_head("/read", 1001).as_bytes()).await.unwrap();
    let answer = read_one(&mut stream).await;
    assert!(
        answer.starts_with("HTTP/1.1 413") && answer.contains("\"limit_bytes\":1000"),
        "the route's own limit: {answer}"
    );
}

#[tokio::test]
async fn a_client_that_sends_a_refused_body_in_full_still_reads_the_refusal() {
    let server = Running::start(Limits { body_bytes: 2000, ..unhurried() }).await;
    for length in [2001, 100_000, 1_000_000] {
        let deadline = Instant::now() + LATE;
        loop {
            let started = Instant::now();
            let mut stream = server.connect().await;
            let sent = send_slowly(&mut stream, length).await;
            let in_time = started.elapsed() < LINGER / 2;
            let answer = read_to_end(&mut stream).await;
            if sent.is_ok() && answer.starts_with("HTTP/1.1 413") {
                break;
            }
            // Only a client that was kept from sending for longer than it is waited for may find itself cut off.
            assert!(!in_time, "{length}: {sent:?}, {answer:?}");
            assert!(Instant::now() < deadline, "this machine never sends a body within {LINGER:?}");
        }
    }
}

/// Sends the head and all of the body, in pieces: it has been refused long before it has sent everything, and must not be cut
/// off for that, for a client that fails at writing never looks for the answer.
async fn send_slowly(stream: &mut TcpStream, length: usize) -> std::io::Result<()> {
    stream.write_all(post_head("/read-all", length).as_bytes()).await?;
    for piece in vec![b'x'; length].chunks(length.div_ceil(8)) {
        tokio::time::sleep(Duration::from_millis(40)).await;
        stream.write_all(piece).await?;
    }
    Ok(())
}

#[tokio::test]
async fn a_body_without_a_declared_length_is_stopped_at_the_limit() {
    let server = Running::start(Limits { body_bytes: 2000, ..unhurried() }).await;
    let chunked = |path: &str, size: usize| {
        format!(
            "POST {path} HTTP/1.1\r\nhost: t\r\nconnection: close\r\ntransfer-encoding: chunked\r\n\r\n{size:x}\r\n{}\r\n0\r\n\r\n",
            "x".repeat(size)
        )
    };
    assert!(server.ask(&chunked("/read-all", 2000)).await.ends_with("2000"));
    let answer = server.ask(&chunked("/read-all", 2001)).await;
    assert!(answer.starts_with("HTTP/1.1 413"), "{answer}");
    assert!(server.ask(&chunked("/read", 1000)).await.ends_with("1000"));
    let answer = server.ask(&chunked("/read", 1001)).await;
    assert!(answer.starts_with("HTTP/1.1 413"), "{answer}");
}

#[tokio::test]
async fn a_body_that_trickles_is_answered_408_at_the_deadline() {
    let server = Running::start(Limits { body_deadline_ms: 300, ..unhurried() }).await;
    let mut stream = server.connect().await;
    stream.write_all(post_head("/read", 100).as_bytes()).await.unwrap();
    stream.write_all(b"only the beginning").await.unwrap();
    let answer = read_one(&mut stream).await;
    assert!(answer.starts_with("HTTP/1.1 408") && answer.contains("\"code\":\"body-too-slow\""), "{answer}");
}

#[tokio::test]
async fn a_body_that_ends_early_is_a_problem_not_a_shorter_body() {
    let server = Running::start(unhurried()).await;
    let mut stream = server.connect().await;
    stream.write_all(post_head("/read", 100).as_bytes()).await.unwrap();
    stream.write_all(b"short").await.unwrap();
    stream.shutdown().await.unwrap();
    let answer = read_to_end(&mut stream).await;
    assert!(!answer.starts_with("HTTP/1.1 200"), "{answer}");
}

#[tokio::test]
async fn a_connection_above_the_cap_is_told_503_and_a_freed_place_is_used_again() {
    let server = Running::start(Limits { connections: 2, ..unhurried() }).await;
    // Served all the while: one that only waits gives way to a newcomer after a second.
    let held = [server.busy().await, server.busy().await];
    let refused = server.ask("GET /hello HTTP/1.1\r\nhost: t\r\n\r\n").await;
    assert!(
        refused.starts_with("HTTP/1.1 503")
            && refused.contains("retry-after: 1")
            && refused.contains("\"code\":\"overloaded\""),
        "{refused}"
    );
    drop(held);
    server.ask_until_served("the place was never freed").await;
}

#[tokio::test]
async fn a_peer_that_reads_gets_everything() {
    let server = Running::start(unhurried()).await;
    let answer = server.ask("GET /large HTTP/1.1\r\nhost: t\r\nconnection: close\r\n\r\n").await;
    assert!(answer.len() > LARGE_ANSWER, "{}", answer.len());
}

#[tokio::test]
async fn a_peer_that_does_not_read_is_cut() {
    let server = Running::start(Limits { write_deadline_ms: 300, ..unhurried() }).await;
    // Whether it was cut shows only in what it reads in the end: so it waits, longer each time, until it was.
    let mut wait = Duration::from_millis(500);
    loop {
        let mut idle = server.connect().await;
        idle.write_all(b"GET /large HTTP/1.1\r\nhost: t\r\nconnection: close\r\n\r\n").await.unwrap();
        tokio::time::sleep(wait).await;
        if read_to_end(&mut idle).await.len() < LARGE_ANSWER {
            break;
        }
        wait *= 2;
        assert!(wait < LATE, "a peer that reads nothing for {:?} is not cut", wait / 2);
    }
}

#[tokio::test]
async fn shutdown_lets_a_request_in_flight_finish_and_accepts_no_more() {
    let server = Running::start(unhurried()).await;
    let address = server.address;
    let silent = server.connect().await;
    let mut stream = server.connect().await;
    stream.write_all(b"GET /slow HTTP/1.1\r\nhost: t\r\n\r\n").await.unwrap();
    server.begun(1).await;
    let answered = tokio::spawn(async move { read_to_end(&mut stream).await });
    let stopped = tokio::time::timeout(LATE, server.stop()).await.expect("a silent connection holds up the shutdown");
    assert_eq!(stopped, Drained { cut: 0 });
    assert!(answered.await.unwrap().ends_with("done"));
    assert!(TcpStream::connect(address).await.is_err());
    drop(silent);
}

#[tokio::test]
async fn shutdown_cuts_what_does_not_finish_before_the_drain_deadline() {
    let server = Running::start(Limits { drain_deadline_ms: 200, ..unhurried() }).await;
    let _busy = server.busy().await;
    let stopped = tokio::time::timeout(LATE, server.stop()).await.expect("it is not cut");
    assert_eq!(stopped, Drained { cut: 1 });
}

#[tokio::test]
async fn a_route_names_its_own_limit_however_much_is_declared() {
    let server = Running::start(Limits { body_bytes: 2000, ..unhurried() }).await;
    for length in [1001, 2001, 8 << 20, usize::MAX >> 1] {
        let mut stream = server.connect().await;
        stream.write_all(post_head("/read", length).as_bytes()).await.unwrap();
        let answer = read_one(&mut stream).await;
        assert!(answer.starts_with("HTTP/1.1 413") && answer.contains("\"limit_bytes\":1000"), "{length}: {answer}");
    }
}

#[tokio::test]
async fn only_a_body_that_will_be_read_is_invited() {
    let server = Running::start(Limits { body_bytes: 2000, ..unhurried() }).await;
    let head = |path: &str, length: usize| {
        format!(
            "POST {path} HTTP/1.1\r\nhost: t\r\nconnection: close\r\nexpect: 100-continue\r\ncontent-length: {length}\r\n\r\n"
        )
    };
    for (path, length) in [("/read", 1001), ("/read", 2001), ("/read-all", 2001), ("/nothing", 5)] {
        let answer = server.ask(&head(path, length)).await;
        assert!(answer.starts_with("HTTP/1.1 4") && !answer.contains("100 Continue"), "{path} {length}: {answer}");
    }
    let mut stream = server.connect().await;
    stream.write_all(head("/read", 5).as_bytes()).await.unwrap();
    let mut invited = [0; 25];
    tokio::time::timeout(LATE, stream.read_exact(&mut invited)).await.unwrap().unwrap();
    assert_eq!(&invited, b"HTTP/1.1 100 Continue\r\n\r\n");
    stream.write_all(b"hello").await.unwrap();
    assert!(read_to_end(&mut stream).await.ends_with('5'));
}

#[tokio::test]
async fn chunks_without_end_are_cut_by_bytes_or_by_time() {
    let by_bytes = Running::start(Limits { body_bytes: 2000, ..unhurried() }).await;
    let by_time = Running::start(Limits { body_bytes: 2000, body_deadline_ms: 300, ..unhurried() }).await;
    let head = "POST /read-all HTTP/1.1\r\nhost: t\r\nconnection: close\r\ntransfer-encoding: chunked\r\n\r\n";
    // One byte a chunk, and no last one.
    let answer = by_bytes.ask(&format!("{head}{}", "1\r\nx\r\n".repeat(3000))).await;
    assert!(answer.starts_with("HTTP/1.1 413"), "{answer}");
    let answer = by_time.ask(&format!("{head}5\r\nhello\r\n")).await;
    assert!(answer.starts_with("HTTP/1.1 408"), "{answer}");
    // Neither a chunk's size nor what may stand behind it, nor the trailers, may be endless.
    for endless in ["1;", "0000", "0\r\nx: "] {
        let answer = by_time.ask(&format!("{head}{endless}{}", "0".repeat(1 << 20))).await;
        assert!(!answer.starts_with("HTTP/1.1 200"), "{endless}: {answer}");
    }
}

#[tokio::test]
async fn what_is_no_request_of_ours_is_refused_and_closed() {
    let server = Running::start(Limits { header_deadline_ms: 1000, ..unhurried() }).await;
    let long_method = format!("{} /hello HTTP/1.1\r\nhost: t\r\n\r\n", "M".repeat(64 * 1024));
    let long_path = format!("GET /{} HTTP/1.1\r\nhost: t\r\n\r\n", "p".repeat(64 * 1024));
    let many_headers = format!("GET /hello HTTP/1.1\r\nhost: t\r\n{}\r\n", "a: b\r\n".repeat(500));
    let body = "content-length: 5\r\n";
    let two_lengths = format!("POST /read HTTP/1.1\r\nhost: t\r\n{body}content-length: 6\r\n\r\nhello");
    let sign = "POST /read HTTP/1.1\r\nhost: t\r\ncontent-length: +5\r\n\r\nhello".to_owned();
    let fold = "GET /hello HTTP/1.1\r\nhost: t\r\nx: a\r\n b\r\n\r\n".to_owned();
    let tls = "\x16\x03\x01\x02\x00\x01\x00\x01\u{fc}\x03\x03".to_owned();
    for request in [
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\u{4}\0\0\0\0\0".to_owned(),
        "GET /hello HTTP/3\r\n\r\n".to_owned(),
        "\0\u{1}\u{2}\u{3}".repeat(100),
        long_method,
        long_path,
        many_headers,
        two_lengths,
        sign,
        fold,
        tls,
    ] {
        let answer = server.ask(&request).await;
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 4"), "{request:?}: {answer}");
        assert!(!answer.contains("hello"), "{request:?}: {answer}");
    }
    let answer = server.ask("FROBNICATE /hello HTTP/1.1\r\nhost: t\r\nconnection: close\r\n\r\n").await;
    assert!(answer.starts_with("HTTP/1.1 405"), "{answer}");
    assert!(server.ask_until_served("it serves no more").await.ends_with("hello"));
}

/// Two lengths that disagree in one message are how requests are smuggled past a proxy.
#[tokio::test]
async fn a_request_with_a_length_and_chunks_leaves_nothing_to_be_taken_for_another_request() {
    let server = Running::start(unhurried()).await;
    let smuggled = "GET /hello HTTP/1.1\r\nhost: t\r\n\r\n";
    let request = format!(
        "POST /read HTTP/1.1\r\nhost: t\r\ncontent-length: 5\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n{smuggled}"
    );
    let mut stream = server.connect().await;
    stream.write_all(request.as_bytes()).await.unwrap();
    stream.shutdown().await.unwrap();
    let answer = read_to_end(&mut stream).await;
    // Either refused, or read by its chunks, as RFC 9112 says; never by its length.
    let by_length = answer.contains("\r\n\r\n5");
    assert!(!by_length && answer.starts_with("HTTP/1.1 "), "{answer}");
}

#[tokio::test]
async fn requests_sent_ahead_are_answered_one_after_the_other() {
    let server = Running::start(unhurried()).await;
    let mut requests = String::new();
    for number in 0..200 {
        let body = "x".repeat(number);
        requests.push_str(&format!("POST /read HTTP/1.1\r\nhost: t\r\ncontent-length: {number}\r\n\r\n{body}"));
    }
    requests.push_str("GET /hello HTTP/1.1\r\nhost: t\r\nconnection: close\r\n\r\n");
    let answers = server.ask(&requests).await;
    let bodies: Vec<&str> =
        answers.split("HTTP/1.1 200 OK").skip(1).map(|answer| answer.split("\r\n\r\n").nth(1).unwrap()).collect();
    let wanted: Vec<String> = (0..200).map(|number| number.to_string()).chain(["hello".to_owned()]).collect();
    assert_eq!(bodies, wanted);
}

#[tokio::test]
async fn one_address_gets_its_share_and_no_more() {
    let limits = Limits { connections: 8, connections_per_peer: 2, spare_loopback: false, ..unhurried() };
    let server = Running::start(limits).await;
    let mut held = Vec::new();
    for _ in 0..2 {
        let mut stream = server.connect().await;
        stream.write_all(b"GET /hello HTTP/1.1\r\nhost: t\r\n\r\n").await.unwrap();
        read_one(&mut stream).await;
        held.push(stream);
    }
    let refused = server.ask("GET /hello HTTP/1.1\r\nhost: t\r\n\r\n").await;
    assert!(refused.starts_with("HTTP/1.1 503") && refused.contains("retry-after: 1"), "{refused}");
    // Another address of this machine.
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.2:0".parse().unwrap()).unwrap();
    let mut other = socket.connect(server.address).await.unwrap();
    other.write_all(b"GET /hello HTTP/1.1\r\nhost: t\r\n\r\n").await.unwrap();
    assert!(read_one(&mut other).await.ends_with("hello"));
}

/// Holds `silent` connections in the given state and a busy one, and shows that a newcomer is served before any deadline.
async fn gives_way(prelude: &[u8], trickle: bool) {
    let server = Running::start(Limits { connections: 4, ..unhurried() }).await;
    let mut busy = server.busy().await;
    let mut silent = Vec::new();
    for _ in 0..3 {
        let mut stream = server.connect().await;
        stream.write_all(prelude).await.unwrap();
        silent.push(stream);
    }
    let trickles = async {
        loop {
            for stream in silent.iter_mut().filter(|_| trickle) {
                let _cut = stream.write_all(b"x").await;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::select! {
        () = trickles => {}
        _ = server.ask_until_served("silent connections keep others out") => {}
    }
    let mut rest = [0; 1];
    let still_served = tokio::time::timeout(Duration::from_millis(50), busy.read(&mut rest)).await;
    assert!(still_served.is_err(), "the busy connection was cut");
}

#[tokio::test]
async fn connections_that_say_nothing_give_way_when_all_places_are_taken() {
    gives_way(b"", false).await;
}

#[tokio::test]
async fn connections_that_trickle_their_headers_give_way_too() {
    gives_way(b"GET /hello HTTP/1.1\r\nx: ", true).await;
}

#[tokio::test]
async fn connections_that_send_half_a_body_give_way_too() {
    let head = "POST /read HTTP/1.1\r\nhost: t\r\ncontent-length: 100\r\n";
    gives_way(format!("{head}\r\nhalf").as_bytes(), false).await;
    // This one is invited to send its body, which is no answer.
    gives_way(format!("{head}expect: 100-continue\r\n\r\n").as_bytes(), true).await;
}

#[tokio::test]
async fn connections_that_leave_their_answers_unread_give_way_too() {
    gives_way(b"GET /large HTTP/1.1\r\nhost: t\r\n\r\n", false).await;
}

#[tokio::test]
async fn a_client_that_was_served_keeps_its_connection_while_silent_ones_give_way() {
    let server = Running::start(Limits { connections: 3, ..unhurried() }).await;
    let hello = b"GET /hello HTTP/1.1\r\nhost: t\r\n\r\n";
    let mut kept = server.connect().await;
    kept.write_all(hello).await.unwrap();
    read_one(&mut kept).await;
    let mut silent = Vec::new();
    for _ in 0..50 {
        silent.push(server.connect().await);
        let answer = server.ask("GET /hello HTTP/1.1\r\nhost: t\r\nconnection: close\r\n\r\n").await;
        assert!(answer.starts_with("HTTP/1.1 200"), "silent connections keep others out: {answer}");
    }
    kept.write_all(hello).await.unwrap();
    assert!(read_one(&mut kept).await.ends_with("hello"), "who was served before had to give way");
}
