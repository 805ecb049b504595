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
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

const ROUTE_LIMIT: u64 = 1000;
const LARGE_ANSWER: usize = 32 * 1024 * 1024;

struct Running {
    address: SocketAddr,
    stop: oneshot::Sender<()>,
    ended: JoinHandle<Drained>,
}

impl Running {
    async fn start(limits: Limits) -> Self {
        let routes = Router::new()
            .route("/hello", get(|| async { "hello" }))
            .route(
                "/slow",
                get(|| async {
                    tokio::time::sleep(Duration::from_millis(300)).await;
                    "done"
                }),
            )
            .route(
                "/endless",
                get(|| async {
                    tokio::time::sleep(Duration::from_secs(600)).await;
                    "never"
                }),
            )
            .route("/large", get(|| async { vec![b'x'; LARGE_ANSWER] }))
            .route("/read", post(|request: Request| read(request, ROUTE_LIMIT)))
            .route("/read-all", post(|request: Request| read(request, u64::MAX)));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, stopped) = oneshot::channel();
        let shutdown = async { _ = stopped.await };
        let ended = tokio::spawn(service::serve(listener, problem::with_fallbacks(routes), limits, shutdown));
        Self { address, stop, ended }
    }

    async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }

    async fn ask(&self, request: &str) -> String {
        let mut stream = self.connect().await;
        stream.write_all(request.as_bytes()).await.unwrap();
        read_to_end(&mut stream).await
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
    let _reset_counts_as_end = tokio::time::timeout(Duration::from_secs(20), stream.read_to_end(&mut answer))
        .await
        .expect("the server never closed");
    String::from_utf8_lossy(&answer).into_owned()
}

/// Reads one answer with a `Content-Length` and leaves the connection open.
async fn read_one(stream: &mut TcpStream) -> String {
    let mut answer = Vec::new();
    loop {
        let mut chunk = [0; 4096];
        let read =
            tokio::time::timeout(Duration::from_secs(10), stream.read(&mut chunk)).await.expect("no answer").unwrap();
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
    let server = Running::start(Limits::default()).await;
    let mut stream = server.connect().await;
    for _ in 0..3 {
        stream.write_all(b"GET /hello HTTP/1.1\r\nhost: t\r\n\r\n").await.unwrap();
        assert!(read_one(&mut stream).await.ends_with("hello"));
    }
}

#[tokio::test]
async fn unknown_paths_and_wrong_methods_are_problems() {
    let server = Running::start(Limits::default()).await;
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
    let server = Running::start(Limits { header_deadline_ms: 300, ..Limits::default() }).await;
    let started = Instant::now();
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
    }
    assert!(started.elapsed() < Duration::from_secs(3), "{:?}", started.elapsed());
}

#[tokio::test]
async fn a_connection_that_says_nothing_is_cut_at_the_header_deadline() {
    let server = Running::start(Limits { header_deadline_ms: 300, ..Limits::default() }).await;
    let started = Instant::now();
    let mut stream = server.connect().await;
    assert_eq!(read_to_end(&mut stream).await, "");
    assert!(started.elapsed() < Duration::from_secs(3));
}

#[tokio::test]
async fn headers_above_the_limit_are_refused() {
    let server = Running::start(Limits { header_bytes: 8 * 1024, ..Limits::default() }).await;
    let answer = server.ask(&format!("GET /hello HTTP/1.1\r\nhost: t\r\nx: {}\r\n\r\n", "y".repeat(64 * 1024))).await;
    assert!(answer.starts_with("HTTP/1.1 431"), "{answer}");
}

#[tokio::test]
async fn a_declared_length_above_the_limit_is_answered_413_before_any_body_is_sent() {
    let server = Running::start(Limits { body_bytes: 2000, ..Limits::default() }).await;
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
    let server = Running::start(Limits { body_bytes: 2000, ..Limits::default() }).await;
    for length in [2001, 100_000, 1_000_000] {
        let mut stream = server.connect().await;
        stream.write_all(post_head("/read-all", length).as_bytes()).await.unwrap();
        // It has been refused long before it has sent everything, and must not be cut off for that: a client that
        // fails at writing never looks for the answer.
        for piece in vec![b'x'; length].chunks(length.div_ceil(8)) {
            tokio::time::sleep(Duration::from_millis(40)).await;
            stream.write_all(piece).await.unwrap();
        }
        let answer = read_to_end(&mut stream).await;
        assert!(answer.starts_with("HTTP/1.1 413"), "{length}: {answer:?}");
    }
}

#[tokio::test]
async fn a_body_without_a_declared_length_is_stopped_at_the_limit() {
    let server = Running::start(Limits { body_bytes: 2000, ..Limits::default() }).await;
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
    let server = Running::start(Limits { body_deadline_ms: 300, ..Limits::default() }).await;
    let started = Instant::now();
    let mut stream = server.connect().await;
    stream.write_all(post_head("/read", 100).as_bytes()).await.unwrap();
    stream.write_all(b"only the beginning").await.unwrap();
    let answer = read_one(&mut stream).await;
    assert!(answer.starts_with("HTTP/1.1 408") && answer.contains("\"code\":\"body-too-slow\""), "{answer}");
    assert!(started.elapsed() < Duration::from_secs(3));
}

#[tokio::test]
async fn a_body_that_ends_early_is_a_problem_not_a_shorter_body() {
    let server = Running::start(Limits::default()).await;
    let mut stream = server.connect().await;
    stream.write_all(post_head("/read", 100).as_bytes()).await.unwrap();
    stream.write_all(b"short").await.unwrap();
    stream.shutdown().await.unwrap();
    let answer = read_to_end(&mut stream).await;
    assert!(!answer.starts_with("HTTP/1.1 200"), "{answer}");
}

#[tokio::test]
async fn a_connection_above_the_cap_is_told_503_and_a_freed_place_is_used_again() {
    let server = Running::start(Limits { connections: 2, ..Limits::default() }).await;
    let mut held = Vec::new();
    for _ in 0..2 {
        let mut stream = server.connect().await;
        stream.write_all(b"GET /hello HTTP/1.1\r\nhost: t\r\n\r\n").await.unwrap();
        read_one(&mut stream).await;
        held.push(stream);
    }
    let refused = server.ask("GET /hello HTTP/1.1\r\nhost: t\r\n\r\n").await;
    assert!(
        refused.starts_with("HTTP/1.1 503")
            && refused.contains("retry-after: 1")
            && refused.contains("\"code\":\"overloaded\""),
        "{refused}"
    );
    drop(held);
    let deadline = Instant::now() + Duration::from_secs(5);
    loop {
        let answer = server.ask("GET /hello HTTP/1.1\r\nhost: t\r\nconnection: close\r\n\r\n").await;
        if answer.starts_with("HTTP/1.1 200") {
            break;
        }
        assert!(Instant::now() < deadline, "the place was never freed: {answer}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn a_peer_that_does_not_read_is_cut_and_one_that_does_gets_everything() {
    let server = Running::start(Limits { write_deadline_ms: 300, connections: 1, ..Limits::default() }).await;
    let mut stream = server.connect().await;
    stream.write_all(b"GET /large HTTP/1.1\r\nhost: t\r\nconnection: close\r\n\r\n").await.unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.unwrap();
    assert!(answer.len() > LARGE_ANSWER, "{}", answer.len());
    drop(stream);

    tokio::time::sleep(Duration::from_millis(100)).await;
    let mut idle = server.connect().await;
    idle.write_all(b"GET /large HTTP/1.1\r\nhost: t\r\n\r\n").await.unwrap();
    // It reads nothing, so its place must come free within the deadline plus what the first bytes earned
    // (a socket buffer of a few megabytes is taken before the deadline starts).
    let deadline = Instant::now() + Duration::from_secs(5);
    loop {
        tokio::time::sleep(Duration::from_millis(50)).await;
        let answer = server.ask("GET /hello HTTP/1.1\r\nhost: t\r\nconnection: close\r\n\r\n").await;
        if answer.starts_with("HTTP/1.1 200") {
            break;
        }
        assert!(Instant::now() < deadline, "the reader that does not read still holds its place");
    }
}

#[tokio::test]
async fn shutdown_lets_a_request_in_flight_finish_and_accepts_no_more() {
    let server = Running::start(Limits::default()).await;
    let address = server.address;
    let mut stream = server.connect().await;
    stream.write_all(b"GET /slow HTTP/1.1\r\nhost: t\r\n\r\n").await.unwrap();
    tokio::time::sleep(Duration::from_millis(50)).await;
    let silent = server.connect().await;
    tokio::time::sleep(Duration::from_millis(50)).await;
    let started = Instant::now();
    let answered = tokio::spawn(async move { read_to_end(&mut stream).await });
    assert_eq!(server.stop().await, Drained { cut: 0 });
    assert!(answered.await.unwrap().ends_with("done"));
    assert!(
        started.elapsed() < Duration::from_secs(3),
        "a silent connection must not hold up the shutdown: {:?}",
        started.elapsed()
    );
    assert!(TcpStream::connect(address).await.is_err());
    drop(silent);
}

#[tokio::test]
async fn shutdown_cuts_what_does_not_finish_before_the_drain_deadline() {
    let server = Running::start(Limits { drain_deadline_ms: 200, ..Limits::default() }).await;
    let mut stream = server.connect().await;
    stream.write_all(b"GET /endless HTTP/1.1\r\nhost: t\r\n\r\n").await.unwrap();
    tokio::time::sleep(Duration::from_millis(50)).await;
    let started = Instant::now();
    assert_eq!(server.stop().await, Drained { cut: 1 });
    assert!(started.elapsed() < Duration::from_secs(3));
}

#[tokio::test]
async fn a_route_names_its_own_limit_however_much_is_declared() {
    let server = Running::start(Limits { body_bytes: 2000, ..Limits::default() }).await;
    for length in [1001, 2001, 8 << 20, usize::MAX >> 1] {
        let mut stream = server.connect().await;
        stream.write_all(post_head("/read", length).as_bytes()).await.unwrap();
        let answer = read_one(&mut stream).await;
        assert!(answer.starts_with("HTTP/1.1 413") && answer.contains("\"limit_bytes\":1000"), "{length}: {answer}");
    }
}

#[tokio::test]
async fn only_a_body_that_will_be_read_is_invited() {
    let server = Running::start(Limits { body_bytes: 2000, ..Limits::default() }).await;
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
    tokio::time::timeout(Duration::from_secs(10), stream.read_exact(&mut invited)).await.unwrap().unwrap();
    assert_eq!(&invited, b"HTTP/1.1 100 Continue\r\n\r\n");
    stream.write_all(b"hello").await.unwrap();
    assert!(read_to_end(&mut stream).await.ends_with('5'));
}

#[tokio::test]
async fn chunks_without_end_are_cut_by_bytes_or_by_time() {
    let limits = Limits { body_bytes: 2000, body_deadline_ms: 300, ..Limits::default() };
    let server = Running::start(limits).await;
    let head = "POST /read-all HTTP/1.1\r\nhost: t\r\nconnection: close\r\ntransfer-encoding: chunked\r\n\r\n";
    // One byte a chunk, and no last one.
    let answer = server.ask(&format!("{head}{}", "1\r\nx\r\n".repeat(3000))).await;
    assert!(answer.starts_with("HTTP/1.1 413"), "{answer}");
    let answer = server.ask(&format!("{head}5\r\nhello\r\n")).await;
    assert!(answer.starts_with("HTTP/1.1 408"), "{answer}");
    // Neither a chunk's size nor what may stand behind it, nor the trailers, may be endless.
    for endless in ["1;", "0000", "0\r\nx: "] {
        let answer = server.ask(&format!("{head}{endless}{}", "0".repeat(1 << 20))).await;
        assert!(!answer.starts_with("HTTP/1.1 200"), "{endless}: {answer}");
    }
}

#[tokio::test]
async fn what_is_no_request_of_ours_is_refused_and_closed() {
    let server = Running::start(Limits { header_deadline_ms: 1000, ..Limits::default() }).await;
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
    let answer = server.ask("GET /hello HTTP/1.1\r\nhost: t\r\nconnection: close\r\n\r\n").await;
    assert!(answer.ends_with("hello"), "it still serves: {answer}");
}

/// Two lengths that disagree in one message are how requests are smuggled past a proxy.
#[tokio::test]
async fn a_request_with_a_length_and_chunks_leaves_nothing_to_be_taken_for_another_request() {
    let server = Running::start(Limits::default()).await;
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
    let server = Running::start(Limits::default()).await;
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
    let limits = Limits { connections: 8, connections_per_peer: 2, spare_loopback: false, ..Limits::default() };
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
    let server = Running::start(Limits { connections: 4, ..Limits::default() }).await;
    let mut busy = server.connect().await;
    busy.write_all(b"GET /slow HTTP/1.1\r\nhost: t\r\n\r\n").await.unwrap();
    read_one(&mut busy).await;
    busy.write_all(b"GET /endless HTTP/1.1\r\nhost: t\r\n\r\n").await.unwrap();
    let mut silent = Vec::new();
    for _ in 0..3 {
        let mut stream = server.connect().await;
        stream.write_all(prelude).await.unwrap();
        silent.push(stream);
    }
    let started = Instant::now();
    loop {
        for stream in silent.iter_mut().filter(|_| trickle) {
            let _cut = stream.write_all(b"x").await;
        }
        let answer = server.ask("GET /hello HTTP/1.1\r\nhost: t\r\nconnection: close\r\n\r\n").await;
        if answer.starts_with("HTTP/1.1 200") {
            break;
        }
        assert!(answer.starts_with("HTTP/1.1 503"), "{answer}");
        // The deadline for headers, 15 s, must not be what freed the place.
        assert!(started.elapsed() < Duration::from_secs(10), "silent connections keep others out");
        tokio::time::sleep(Duration::from_millis(50)).await;
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
    let server = Running::start(Limits { connections: 3, ..Limits::default() }).await;
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
