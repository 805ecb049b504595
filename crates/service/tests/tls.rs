//! The listener under TLS, met with a real socket and another side's own checks.

use axum::Router;
use axum::routing::get;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore, SupportedProtocolVersion};
use service::Limits;
use service::listener::{Drained, Server};
use service::tls::Tls;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

const NAME: &str = "log.example";
/// How long anything is waited for, on a machine that does much else.
const LATE: Duration = Duration::from_secs(60);

/// Limits whose deadlines nothing here comes near, however long this process is not scheduled.
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
    tls: Arc<Tls>,
    dir: TempDir,
    /// Requests for `/slow` that have reached their handler.
    begun: watch::Receiver<usize>,
    stop: oneshot::Sender<()>,
    ended: JoinHandle<Drained>,
}

/// Writes a new certificate and its key; answers the certificate.
fn put_certificate(dir: &Path) -> CertificateDer<'static> {
    let made = rcgen::generate_simple_self_signed(vec![NAME.to_owned()]).unwrap();
    std::fs::write(dir.join("chain.pem"), made.cert.pem()).unwrap();
    let key = dir.join("key.pem");
    std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
    std::fs::set_permissions(&key, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    made.cert.der().clone()
}

impl Running {
    async fn start(limits: Limits) -> (Self, CertificateDer<'static>) {
        let dir = tempfile::tempdir().unwrap();
        let root = put_certificate(dir.path());
        let tls = Arc::new(Tls::load(dir.path().join("chain.pem"), dir.path().join("key.pem")).unwrap());
        let (begins, begun) = watch::channel(0);
        let slow = move || async move {
            begins.send_modify(|count| *count += 1);
            tokio::time::sleep(Duration::from_millis(300)).await;
            "done"
        };
        let router = Router::new().route("/hello", get(|| async { "hello" })).route("/slow", get(slow));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, stopped) = oneshot::channel();
        let server = Server { listener: listener.into(), router, limits, tls: Some(Arc::clone(&tls)) };
        let ended = tokio::spawn(server.serve(async { _ = stopped.await }));
        (Self { address, tls, dir, begun, stop, ended }, root)
    }

    async fn connect(&self, root: &CertificateDer<'static>) -> std::io::Result<TlsStream<TcpStream>> {
        self.connect_by(root, rustls::ALL_VERSIONS).await
    }

    async fn connect_by(
        &self,
        root: &CertificateDer<'static>,
        versions: &[&'static SupportedProtocolVersion],
    ) -> std::io::Result<TlsStream<TcpStream>> {
        let mut roots = RootCertStore::empty();
        roots.add(root.clone()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider).with_protocol_versions(versions).unwrap();
        let mut config = config.with_root_certificates(roots).with_no_client_auth();
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        let stream = TcpStream::connect(self.address).await?;
        TlsConnector::from(Arc::new(config)).connect(ServerName::try_from(NAME).unwrap(), stream).await
    }
}

async fn ask(stream: &mut TlsStream<TcpStream>, path: &str) -> String {
    let request = format!("GET {path} HTTP/1.1\r\nhost: {NAME}\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    let read = tokio::time::timeout(LATE, stream.read_to_string(&mut answer)).await;
    // A clean end: the server says that it closes.
    read.expect("the server never closed").unwrap();
    answer
}

#[tokio::test]
async fn requests_are_answered_over_both_versions_as_http_1_1() {
    let (server, root) = Running::start(unhurried()).await;
    for version in [&rustls::version::TLS12, &rustls::version::TLS13] {
        let mut stream = server.connect_by(&root, &[version]).await.unwrap();
        assert_eq!(stream.get_ref().1.alpn_protocol(), Some(b"http/1.1".as_slice()));
        let answer = ask(&mut stream, "/hello").await;
        assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with("hello"), "{answer}");
    }
    let (_, another) = Running::start(unhurried()).await;
    assert!(server.connect(&another).await.is_err(), "a certificate that is not its own was believed");
}

#[tokio::test]
async fn a_handshake_that_stalls_is_cut_and_gives_its_place_back() {
    let limits = Limits { header_deadline_ms: 300, connections: 1, ..unhurried() };
    let (server, root) = Running::start(limits).await;
    for beginning in [b"".as_slice(), b"\x16\x03\x01\x02\x00\x01\x00"] {
        let mut stalled = TcpStream::connect(server.address).await.unwrap();
        stalled.write_all(beginning).await.unwrap();
        let mut nothing = Vec::new();
        let end = tokio::time::timeout(LATE, stalled.read_to_end(&mut nothing)).await;
        assert!(end.is_ok(), "it is still open");
    }
    // A handshake of this process may be late too, where it is not scheduled for so long.
    let served = async {
        loop {
            match server.connect(&root).await {
                Ok(stream) => break stream,
                Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
            }
        }
    };
    tokio::time::timeout(LATE, served).await.expect("the place was never freed");
}

#[tokio::test]
async fn plain_http_is_not_answered() {
    let (server, root) = Running::start(unhurried()).await;
    let mut plain = TcpStream::connect(server.address).await.unwrap();
    plain.write_all(b"GET /hello HTTP/1.1\r\nhost: t\r\n\r\n").await.unwrap();
    let mut answer = Vec::new();
    let _reset_is_an_end = tokio::time::timeout(LATE, plain.read_to_end(&mut answer)).await.unwrap();
    assert!(!String::from_utf8_lossy(&answer).contains("HTTP/1.1 200"));
    let mut stream = server.connect(&root).await.unwrap();
    assert!(ask(&mut stream, "/hello").await.ends_with("hello"));
}

#[tokio::test]
async fn a_new_certificate_is_for_new_connections_and_disturbs_no_old_one() {
    let (server, root) = Running::start(unhurried()).await;
    let mut old = server.connect(&root).await.unwrap();
    let new_root = put_certificate(server.dir.path());
    server.tls.reload().unwrap();
    assert!(ask(&mut old, "/hello").await.ends_with("hello"));
    assert!(server.connect(&root).await.is_err());
    let mut new = server.connect(&new_root).await.unwrap();
    assert!(ask(&mut new, "/hello").await.ends_with("hello"));
}

#[tokio::test]
async fn shutdown_lets_a_request_in_flight_finish() {
    let (server, root) = Running::start(unhurried()).await;
    let mut stream = server.connect(&root).await.unwrap();
    let stalled = TcpStream::connect(server.address).await.unwrap();
    let answered = tokio::spawn(async move { ask(&mut stream, "/slow").await });
    let mut begun = server.begun.clone();
    tokio::time::timeout(LATE, begun.wait_for(|begun| *begun == 1)).await.expect("no handler has it").unwrap();
    server.stop.send(()).unwrap();
    let ended = tokio::time::timeout(LATE, server.ended).await.expect("a stalled handshake holds up the shutdown");
    assert_eq!(ended.unwrap(), Drained { cut: 0 });
    assert!(answered.await.unwrap().ends_with("done"));
    drop(stalled);
}
