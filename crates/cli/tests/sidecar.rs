//! The sidecar as programs meet it: a process of its own, over both of its sockets, with a real log behind it.

use client::outbox::GateDescription;
use client::{Outbox, OutboxView};
use note::SigningKey;
use serde_json::{Value, json};
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};
use testkit::stage::{Setup, Stage};

const TOKEN: &str = "0123456789abcdef0123456789abcdef";
/// How long anything here is waited for: more than any machine takes.
const PATIENCE: Duration = Duration::from_secs(600);

/// A gate's directory and a log that knows it, running or not.
struct Scene {
    dir: tempfile::TempDir,
    stage: Stage,
}

impl Scene {
    fn new(with_log: bool) -> Scene {
        Scene::new_with(with_log, 0)
    }

    fn new_with(with_log: bool, witnesses: usize) -> Scene {
        let dir = tempfile::tempdir().unwrap();
        let executable = Path::new(env!("CARGO_BIN_EXE_counterfoil"));
        let at = dir.path().join("stage");
        let mut stage =
            Stage::build(&Setup { dir: &at, executable, port: None, witnesses, more_issuers: &[] }).unwrap();
        if with_log {
            stage.start_log().unwrap();
            stage.start_witnesses().unwrap();
            stage.wait_until_ready().unwrap();
        }
        fs::write(dir.path().join("token"), format!("{TOKEN}\n")).unwrap();
        fs::set_permissions(dir.path().join("token"), fs::Permissions::from_mode(0o600)).unwrap();
        let config = format!(
            "log = {:?}\nlog_key = {:?}\nkey = {:?}\noutbox = \"outbox\"\nsidecar_token_file = \"token\"\n",
            stage.log_url(),
            stage.log_vkey(),
            stage.issuer_key_file()
        );
        fs::write(dir.path().join("gate.toml"), config).unwrap();
        Scene { dir, stage }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn command(&self, flags: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_counterfoil"));
        command.args(["sidecar", "--config"]).arg(self.path("gate.toml")).args(flags);
        command.current_dir(self.dir.path()).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        command
    }

    /// A sidecar in `s.sock` and at an address.
    fn start(&self, flags: &[&str], environment: &[(&str, &str)]) -> Sidecar {
        let mut command = self.command(&["--socket", "s.sock", "--listen", "127.0.0.1:0"]);
        let mut child = command.args(flags).envs(environment.iter().copied()).spawn().unwrap();
        let (said, lines) = mpsc::channel();
        let stderr = BufReader::new(child.stderr.take().unwrap());
        std::thread::spawn(move || stderr.lines().map_while(Result::ok).all(|line| said.send(line).is_ok()));
        let mut all = Vec::new();
        let address = loop {
            let line = lines.recv_timeout(PATIENCE).unwrap_or_else(|_| panic!("it does not start: {all:?}"));
            if let Some(address) = line.strip_prefix("listening on http://") {
                break address.to_owned();
            }
            all.push(line);
        };
        while !lines.recv_timeout(PATIENCE).unwrap().starts_with("listening on unix:") {}
        Sidecar { child, address, socket: self.path("s.sock"), _lines: lines }
    }

    /// How a sidecar that cannot start ends, and what it says.
    fn refused(&self, flags: &[&str]) -> (Option<i32>, String) {
        let ended = self.command(flags).output().unwrap();
        (ended.status.code(), String::from_utf8(ended.stderr).unwrap())
    }

    /// The bodies in the outbox, when no process has it.
    fn bodies(&self) -> Vec<Value> {
        let key = fs::read_to_string(self.stage.issuer_key_file()).unwrap();
        let key = SigningKey::from_private_text(key.trim_end()).unwrap();
        let outbox = Outbox::open(&self.path("outbox"), key, GateDescription::default()).unwrap();
        let end = outbox.next_seq().unwrap().0;
        (0..end)
            .map(|seq| outbox.receipt(receipt::SeqNo(seq)).unwrap().unwrap())
            .map(|receipt| serde_json::from_str(receipt.body_text()).unwrap())
            .collect()
    }

    fn outcomes(&self) -> Vec<Value> {
        self.bodies().into_iter().filter(|body| body["type"] == "outcome").collect()
    }
}

struct Sidecar {
    child: Child,
    address: String,
    socket: PathBuf,
    /// Whoever reads what it says: it is not to fail at a closed pipe.
    _lines: mpsc::Receiver<String>,
}

impl Drop for Sidecar {
    fn drop(&mut self) {
        // Gone already, or killed now.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[derive(Debug)]
struct Answer {
    status: u16,
    body: String,
}

impl Answer {
    fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|_| panic!("{self:?}"))
    }

    fn code(&self) -> (u16, String) {
        (self.status, self.json()["code"].as_str().unwrap_or_default().to_owned())
    }
}

fn exchange(mut stream: impl Read + Write, request: &[u8]) -> Answer {
    // A server that refuses early may close before it has read everything.
    let _ = stream.write_all(request);
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    let answer = String::from_utf8(answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{answer}"));
    Answer { status: head.split(' ').nth(1).unwrap().parse().unwrap(), body: body.to_owned() }
}

fn request(method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Vec<u8> {
    let headers: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    let length = body.len();
    format!("{method} {path} HTTP/1.1\r\n{headers}Content-Length: {length}\r\nConnection: close\r\n\r\n{body}")
        .into_bytes()
}

impl Sidecar {
    /// By the address, as a well-behaved program.
    fn call(&self, method: &str, path: &str, body: &str) -> Answer {
        let bearer = format!("Bearer {TOKEN}");
        let headers =
            [("Host", self.address.as_str()), ("Authorization", bearer.as_str()), ("Content-Type", "application/json")];
        self.raw(&request(method, path, &headers, body))
    }

    fn raw(&self, request: &[u8]) -> Answer {
        let stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        exchange(stream, request)
    }

    /// By the socket.
    fn local(&self, method: &str, path: &str, body: &Value) -> Answer {
        let stream = UnixStream::connect(&self.socket).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        exchange(
            stream,
            &request(method, path, &[("Host", "localhost"), ("Content-Type", "application/json")], &body.to_string()),
        )
    }

    /// Waits until the status says so.
    fn wait_for(&self, otherwise: &str, is_it: impl Fn(&Value) -> bool) {
        let began = Instant::now();
        while !is_it(&self.call("GET", "/v1/status", "").json()) {
            assert!(began.elapsed() < PATIENCE, "{otherwise}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn allow(&self) -> Value {
        let answer = self.local("POST", "/v1/decisions", &allow());
        assert_eq!(answer.status, 201, "{answer:?}");
        answer.json()
    }

    fn end(&self, scope: &Value, members: Value) -> Answer {
        let mut call = members;
        call["scope"] = scope.clone();
        self.local("POST", "/v1/outcomes", &call)
    }

    fn terminate(mut self) -> ExitStatus {
        Command::new("kill").arg(self.child.id().to_string()).status().unwrap();
        let began = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(began.elapsed() < PATIENCE, "it does not stop");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

fn allow() -> Value {
    json!({
        "decision": "allow", "authenticated": true, "operation": "mail.send", "resource": "outbox",
        "args": {"to": "a@b.example"}, "claimed_agent": "triage-bot",
    })
}

#[test]
fn a_program_decides_acts_and_says_what_became_of_it_over_either_socket() {
    let scene = Scene::new(true);
    let sidecar = scene.start(&[], &[]);
    let mode = fs::symlink_metadata(&sidecar.socket).unwrap();
    assert!(mode.file_type().is_socket());
    assert_eq!(mode.permissions().mode() & 0o777, 0o600);

    let decided = sidecar.call("POST", "/v1/decisions", &allow().to_string());
    assert_eq!(decided.status, 201, "{decided:?}");
    let decided = decided.json();
    assert_eq!((&decided["seq"], decided["receipt_id"].as_str().unwrap().len()), (&json!(1), 64));
    assert!(decided["action_digest"].as_str().unwrap().starts_with("sha256:"));
    assert_eq!(decided["request_id"].as_str().unwrap().len(), 32);
    let scope = &decided["scope"];
    let ended = sidecar.end(scope, json!({"result": {"sent": 1}}));
    assert_eq!((ended.status, &ended.json()["seq"]), (201, &json!(2)), "{ended:?}");
    assert_eq!(
        sidecar.end(scope, json!({})).code(),
        (404, "no-such-decision".into()),
        "a scope is good for one outcome"
    );
    assert_eq!(sidecar.end(&json!("0".repeat(32)), json!({})).code(), (404, "no-such-decision".into()));

    for (ending, status) in [
        (json!({"error": "TimeoutError: upstream"}), 201),
        (json!({"not_executed": "dry run"}), 201),
        (json!({"cancelled": true}), 201),
        (json!({"result_digest": format!("sha256:{}", "0".repeat(64)), "error": "E: afterwards"}), 201),
    ] {
        assert_eq!(sidecar.end(&sidecar.allow()["scope"], ending).status, status);
    }
    let denied =
        sidecar.local("POST", "/v1/decisions", &json!({"decision": "deny", "authenticated": false, "rule": "R2"}));
    assert_eq!((denied.status, &denied.json()["scope"]), (201, &Value::Null), "{denied:?}");

    // The caller executes by itself: no scope, its word later, once.
    let mut of_caller = allow();
    of_caller["executes"] = json!("caller");
    of_caller["request_id"] = json!("r-caller");
    let answer = sidecar.local("POST", "/v1/decisions", &of_caller);
    assert_eq!((answer.status, &answer.json()["scope"]), (201, &Value::Null), "{answer:?}");
    let word = json!({"request_id": "r-caller", "executed": true});
    assert_eq!(sidecar.local("POST", "/v1/reported", &word).status, 201);
    assert_eq!(sidecar.local("POST", "/v1/reported", &word).code(), (409, "no-such-decision".into()));

    let memory = json!({"type": "memory", "trust": "untrusted", "form": "quoted"});
    assert_eq!(sidecar.local("POST", "/v1/receipts", &memory).status, 201);

    // What the log has proved can be had, by id and by seq.
    let flushed = sidecar.local("POST", "/v1/flush", &json!({"timeout_ms": 600_000}));
    assert_eq!(flushed.status, 200, "{flushed:?}");
    let by_id =
        sidecar.local("GET", &format!("/v1/receipts/{}/proof", decided["receipt_id"].as_str().unwrap()), &json!({}));
    assert_eq!(by_id.status, 200, "{by_id:?}");
    assert!(by_id.body.starts_with("c2sp.org/tlog-proof@v1\n"), "{by_id:?}");
    assert_eq!(sidecar.call("GET", "/v1/receipts/1/proof", "").body, by_id.body);
    assert_eq!(sidecar.call("GET", "/v1/receipts/99/proof", "").code(), (404, "not-found".into()));
    assert_eq!(sidecar.call("GET", &format!("/v1/receipts/{}/proof", "0".repeat(64)), "").code().0, 404);
    assert_eq!(sidecar.call("GET", "/v1/receipts/x/proof", "").code(), (400, "malformed".into()));

    let status = sidecar.call("GET", "/v1/status", "").json();
    assert_eq!((&status["open_decisions"], &status["sender"]), (&json!(0), &json!("working")), "{status}");
    assert_eq!(status["outbox"]["receipts"], status["outbox"]["acknowledged"], "{status}");
    assert_eq!(sidecar.call("GET", "/readyz", "").status, 200);
    let metrics = sidecar.call("GET", "/metrics", "").body;
    assert!(metrics.contains("counterfoil_gate_receipts_total{issuer="), "{metrics}");

    // One that is open when it stops.
    let left = sidecar.allow();
    assert!(sidecar.terminate().success());
    assert!(!scene.path("s.sock").exists());
    let told: Vec<_> = scene
        .outcomes()
        .iter()
        .map(|it| (it["executed"].clone(), it["unknown"].clone(), it["error"].as_str().unwrap_or_default().to_owned()))
        .collect();
    let (yes, no, absent) = (json!(true), json!(false), Value::Null);
    let expected = [
        (&yes, &absent, ""),
        (&no, &absent, "TimeoutError: upstream"),
        (&no, &absent, "dry run"),
        (&no, &yes, "cancelled"),
        (&yes, &absent, "E: afterwards"),
        (&yes, &absent, ""),
        (&no, &yes, "outcome-unknown: the scope ended without a call"),
    ];
    assert_eq!(told, expected.map(|(executed, unknown, error)| (executed.clone(), unknown.clone(), error.to_owned())));
    let last = scene.outcomes().pop().unwrap();
    assert_eq!(last["request_id"], left["request_id"]);
    // The last receipts go to the log while it stops, for which a sidecar has some seconds: a slow machine gets more of these.
    let is_flushed = || {
        let status = OutboxView::open(&scene.path("outbox")).unwrap().status();
        status.receipts == status.acknowledged
    };
    let flushed = is_flushed()
        || (0..20).any(|_| {
            let sidecar = scene.start(&[], &[]);
            sidecar.allow();
            assert!(sidecar.terminate().success());
            is_flushed()
        });
    assert!(flushed, "a sidecar that stops sends nothing");
}

#[test]
fn what_is_no_call_is_refused_and_nothing_is_signed() {
    let scene = Scene::new(false);
    // Longer than any machine takes to send a body.
    let sidecar = scene.start(&[], &[("COUNTERFOIL_BODY_DEADLINE_MS", "60000")]);
    let bearer = format!("Bearer {TOKEN}");
    let host = ("Host", sidecar.address.as_str());
    let (auth, kind) = (("Authorization", bearer.as_str()), ("Content-Type", "application/json"));
    let body = allow().to_string();
    let code = |headers: &[(&str, &str)]| sidecar.raw(&request("POST", "/v1/decisions", headers, &body)).code();
    assert_eq!(code(&[host, kind]), (401, "unauthorized".into()));
    assert_eq!(code(&[host, kind, ("Authorization", "Bearer 0123456789abcdef0123456789abcdee")]).0, 401);
    assert_eq!(code(&[("Host", "evil.example"), auth, kind]), (403, "host-refused".into()));
    assert_eq!(code(&[host, auth, kind, ("Origin", "http://evil.example")]), (403, "origin-refused".into()));
    // Whoever was refused has no connection any more: a second request on it has no answer.
    let stranger = format!("GET /v1/status HTTP/1.1\r\nHost: {}\r\n\r\n", sidecar.address);
    let mut stream = TcpStream::connect(&sidecar.address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(stranger.repeat(2).as_bytes()).unwrap();
    let mut answers = Vec::new();
    // What was not read may come back as a reset behind the answer.
    let _ = stream.read_to_end(&mut answers);
    let answers = String::from_utf8(answers).unwrap();
    assert_eq!(answers.matches("HTTP/1.1 401").count(), 1, "{answers}");
    assert_eq!(code(&[host, auth, ("Content-Type", "text/plain")]), (415, "not-json".into()));
    assert_eq!(code(&[host, auth]), (415, "not-json".into()));

    // Too large: by what it declares, and by what comes.
    let large = format!("{{\"x\":\"{}\"}}", "y".repeat(300 * 1024));
    assert_eq!(sidecar.call("POST", "/v1/decisions", &large).code(), (413, "too-large".into()));
    let mut chunked = format!(
        "POST /v1/decisions HTTP/1.1\r\nHost: {}\r\nAuthorization: {bearer}\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n",
        sidecar.address
    );
    chunked.push_str(&format!("{:x}\r\n{large}\r\n0\r\n\r\n", large.len()));
    assert_eq!(sidecar.raw(chunked.as_bytes()).code(), (413, "too-large".into()));
    let calls = [
        ("/v1/decisions", "", 400, "malformed"),
        ("/v1/decisions", "[1]", 400, "malformed"),
        ("/v1/decisions", r#"{"decision":"allow","decision":"deny","authenticated":true}"#, 400, "malformed"),
        ("/v1/decisions", r#"{"authenticated":true}"#, 400, "malformed"),
        ("/v1/decisions", r#"{"decision":"allow"}"#, 422, "decision-claims"),
        ("/v1/decisions", r#"{"decision":"maybe","authenticated":true}"#, 422, "decision-claims"),
        ("/v1/decisions", r#"{"decision":"allow","authenticated":true,"executed":true}"#, 422, "decision-claims"),
        ("/v1/decisions", r#"{"decision":"allow","authenticated":true,"bound_agent":"x"}"#, 422, "decision-claims"),
        ("/v1/decisions", r#"{"decision":"allow","authenticated":true,"request_id":7}"#, 422, "decision-claims"),
        (
            "/v1/decisions",
            r#"{"decision":"allow","authenticated":true,"why":"Authorization: Bearer abcdefghijklmnopqrstuvwxyz0123456789"}"#,
            422,
            "credential-shaped",
        ),
        ("/v1/receipts", r#"{"type":"outcome","executed":true}"#, 422, "scope-only"),
        ("/v1/receipts", r#"{"type":"decision"}"#, 422, "scope-only"),
        ("/v1/receipts", r#"{"type":"close"}"#, 422, "reserved-type"),
        ("/v1/receipts", r#"{"type":"dropped","count":1}"#, 422, "reserved-type"),
        ("/v1/outcomes", r#"{"scope":"x","executed":true}"#, 422, "scope-only"),
        ("/v1/outcomes", r#"{}"#, 400, "malformed"),
        ("/v1/reported", r#"{"request_id":"none","executed":true}"#, 409, "no-such-decision"),
        ("/v1/flush", r#"{"timeout_ms":"long"}"#, 400, "malformed"),
        ("/v1/history", "{}", 405, "method-not-allowed"),
        ("/v1/nothing", "{}", 404, "not-found"),
        ("/v1/status", "{}", 405, "method-not-allowed"),
    ];
    for (path, body, status, expected) in calls {
        let answer = sidecar.call("POST", path, body);
        assert_eq!(answer.code(), (status, expected.to_owned()), "{path} {body}: {answer:?}");
        assert!(!answer.json()["detail"].as_str().unwrap().is_empty());
    }
    for query in ["", "?", "?customer=77", "?subject=77&x=1"] {
        assert_eq!(
            sidecar.call("GET", &format!("/v1/history{query}"), "").code(),
            (400, "malformed".into()),
            "{query}"
        );
    }
    // Without a policy nobody is trusted to say what the log shows.
    assert_eq!(sidecar.call("GET", "/v1/history?subject=77", "").code(), (503, "history-unavailable".into()));
    assert_eq!(sidecar.call("POST", "/v1/flush", r#"{"timeout_ms":1}"#).status, 200, "nothing was signed");
    assert!(sidecar.terminate().success());
    assert!(scene.bodies().is_empty());
}

#[test]
fn a_body_that_never_comes_is_not_waited_for() {
    let scene = Scene::new(false);
    let sidecar = scene.start(&[], &[("COUNTERFOIL_BODY_DEADLINE_MS", "300")]);
    let slow = format!(
        "POST /v1/decisions HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {TOKEN}\r\nContent-Type: application/json\r\nContent-Length: 10\r\nConnection: close\r\n\r\n{{",
        sidecar.address
    );
    assert_eq!(sidecar.raw(slow.as_bytes()).code(), (408, "body-too-slow".into()));
    assert!(sidecar.terminate().success());
    assert!(scene.bodies().is_empty());
}

#[test]
fn a_sidecar_that_would_be_open_to_others_does_not_start() {
    let scene = Scene::new(false);
    for address in ["0.0.0.0:0", "10.1.2.3:80", "[::]:0"] {
        let (code, said) = scene.refused(&["--listen", address]);
        assert_eq!(code, Some(64), "{said}");
        assert!(said.contains("other machines"), "{said}");
    }
    fs::set_permissions(scene.path("token"), fs::Permissions::from_mode(0o644)).unwrap();
    let (code, said) = scene.refused(&["--listen", "127.0.0.1:0"]);
    assert!(code == Some(65) && said.contains("chmod 600"), "{code:?} {said}");
    fs::write(
        scene.path("gate.toml"),
        fs::read_to_string(scene.path("gate.toml")).unwrap().replace("sidecar_token_file = \"token\"\n", ""),
    )
    .unwrap();
    let (code, said) = scene.refused(&["--listen", "127.0.0.1:0"]);
    assert!(code == Some(64) && said.contains("COUNTERFOIL_SIDECAR_TOKEN"), "{code:?} {said}");
    let (code, said) = scene.refused(&[]);
    assert!(code == Some(64) && said.contains("--listen"), "{code:?} {said}");
    // What is no socket stays.
    fs::write(scene.path("notes"), "mine").unwrap();
    let (code, said) = scene.refused(&["--socket", "notes"]);
    assert!(code == Some(64) && said.contains("no socket"), "{code:?} {said}");
    assert_eq!(fs::read_to_string(scene.path("notes")).unwrap(), "mine");
}

#[test]
fn after_kill_9_the_outcome_is_unknown_and_the_old_scope_is_gone() {
    let scene = Scene::new(false);
    let sidecar = scene.start(&[], &[]);
    // One outbox, one process; and the socket of one that runs is not taken away.
    let (code, said) = scene.refused(&["--socket", "s.sock"]);
    assert!(code == Some(1) && said.contains("another process"), "{code:?} {said}");
    assert_eq!(sidecar.local("GET", "/healthz", &json!({})).status, 200);
    let decided = sidecar.allow();
    sidecar.kill();
    assert!(scene.path("s.sock").exists(), "a killed process leaves its socket");

    let sidecar = scene.start(&[], &[]);
    assert_eq!(sidecar.end(&decided["scope"], json!({})).code(), (404, "no-such-decision".into()));
    // Once the log was asked, which nobody answers for.
    sidecar.wait_for("the outcome that was left is not written", |status| status["owed"] == 0);
    assert_eq!(sidecar.call("GET", "/v1/status", "").json()["open_decisions"], 0);
    let next = sidecar.allow();
    assert_eq!(next["seq"], 3);
    assert_eq!(sidecar.end(&next["scope"], json!({})).status, 201);
    sidecar.kill();
    let told: Vec<_> = scene.outcomes().iter().map(|it| (it["request_id"].clone(), it["unknown"].clone())).collect();
    assert_eq!(told, [(decided["request_id"].clone(), json!(true)), (next["request_id"].clone(), Value::Null)]);
}

#[test]
fn a_scope_whose_program_never_answers_is_closed_as_unknown() {
    let scene = Scene::new(false);
    let sidecar = scene.start(&["--lease-s", "1"], &[]);
    let decided = sidecar.allow();
    sidecar.wait_for("the lease does not end", |status| status["open_decisions"] == 0);
    assert_eq!(sidecar.end(&decided["scope"], json!({})).code(), (404, "no-such-decision".into()));
    sidecar.kill();
    let outcomes = scene.outcomes();
    assert_eq!((outcomes.len(), &outcomes[0]["unknown"], &outcomes[0]["executed"]), (1, &json!(true), &json!(false)));
}

#[test]
fn a_full_outbox_refuses_or_lets_through_and_says_so() {
    let scene = Scene::new(false);
    let sidecar = scene.start(&["--max-queued", "6"], &[]);
    let refused = (0..10).map(|_| sidecar.local("POST", "/v1/decisions", &allow())).find(|answer| answer.status != 201);
    assert_eq!(refused.unwrap().code(), (503, "outbox-full".into()));
    let ready = sidecar.call("GET", "/readyz", "");
    assert_eq!((ready.code(), &ready.json()["reasons"]), ((503, "not-ready".into()), &json!(["outbox-full"])));
    sidecar.kill();

    let sidecar = scene.start(&["--max-queued", "6", "--when-full", "fail_open"], &[]);
    let dropped = (0..10).map(|_| sidecar.allow()).find(|answer| answer["receipt_id"].is_null()).unwrap();
    assert_eq!((&dropped["dropped"], &dropped["seq"]), (&json!(true), &Value::Null));
    let ended = sidecar.end(&dropped["scope"], json!({"result": 1}));
    assert_eq!((ended.status, &ended.json()["receipt_id"]), (201, &Value::Null), "{ended:?}");
    assert!(sidecar.call("GET", "/v1/status", "").json()["drops"]["count"].as_u64().unwrap() >= 1);
    assert_eq!(sidecar.call("GET", "/readyz", "").status, 200);
}

#[test]
fn a_program_judges_by_what_the_log_shows_of_a_subject() {
    let scene = Scene::new_with(true, 1);
    let policy =
        format!("{}policy = {:?}\n", fs::read_to_string(scene.path("gate.toml")).unwrap(), scene.stage.policy_file());
    fs::write(scene.path("gate.toml"), policy).unwrap();
    let sidecar = scene.start(&[], &[]);
    let mut call = allow();
    call["subjects"] = json!(["customer:77"]);
    call["action_class"] = json!("IDENTITY_MUTATION");
    let first = sidecar.local("POST", "/v1/decisions", &call).json();
    assert_eq!(sidecar.end(&first["scope"], json!({})).status, 201);
    assert_eq!(sidecar.local("POST", "/v1/flush", &json!({"timeout_ms": 600_000})).status, 200);
    let read = sidecar.call("GET", "/v1/history?subject=customer%3A77", "");
    assert_eq!(read.status, 200, "{read:?}");
    let read = read.json();
    assert_eq!(read["history"]["classes"], json!(["IDENTITY_MUTATION"]), "{read}");
    assert_eq!(
        (&read["history"]["witnessed"], &read["items"][0]["id"]),
        (&json!(true), &first["receipt_id"]),
        "{read}"
    );
    assert_eq!(read["history"]["heads"]["customer:77"], first["receipt_id"]);

    call["history"] = read["history"].clone();
    let second = sidecar.local("POST", "/v1/decisions", &call);
    assert_eq!(second.status, 201, "{second:?}");
    // The same history again is behind what the gate has decided since.
    assert_eq!(sidecar.local("POST", "/v1/decisions", &call).code(), (409, "history-moved".into()));
    assert!(sidecar.terminate().success());
    let judged = scene.bodies().into_iter().rfind(|body| body["type"] == "decision").unwrap();
    assert_eq!(judged["prior_action_classes"], json!(["IDENTITY_MUTATION"]), "{judged}");
    assert_eq!(judged["history"]["witnessed"], true);
}
