//! A witness of another make: takes heads by `add-checkpoint` and nothing else, does to the letter what tlog-witness says,
//! and every kind of mischief on request. It reads requests with code of its own, so that the client is not judged by
//! itself.
#![allow(clippy::unwrap_used, clippy::panic, dead_code, unreachable_pub, missing_docs)]

use super::{key, log_key};
use crate::stand;
use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use counterfoil_log_server::config::{Protocol, Witness};
use merkle::{ConsistencyProof, Hash, RootHash, TreeSize};
use note::{KeyId, KeyKind, NoteSignature, SignedCheckpoint, SigningKey, Verified, cosign};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Manner {
    Honest,
    /// Honest, with lines of other keys and kinds around its own.
    InCompany,
    /// Takes the head, and answers with lines of other keys, over other heads, or forged.
    Foreign,
    /// 200 with something else.
    Garbage,
    /// 409 with no size, or the type missing.
    GarbageSize,
    /// Names another size each time, all of them below the head's.
    Flapping,
    /// Says that it holds what was sent.
    Contradicting,
    /// Says that it holds this many.
    Claiming(u64),
    /// 200 without an end.
    Endless,
    /// 409 without an end.
    EndlessConflict,
    /// Takes the request, and answers nothing for as long as anybody waits.
    Hanging,
    /// 200, and a byte now and then.
    Trickling,
    /// This status, with nothing to read.
    Status(u16),
    /// Points elsewhere.
    Redirecting,
    /// Does not know the log.
    Stranger,
    /// Knows the log by another key.
    OtherKey,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Call {
    pub old: u64,
    pub new: u64,
    pub status: u16,
}

pub struct Pushed {
    pub witness: Witness,
    key: SigningKey,
    manner: Mutex<Manner>,
    held: Mutex<(TreeSize, RootHash)>,
    calls: Mutex<Vec<Call>>,
    timestamp_s: AtomicU64,
}

impl Pushed {
    pub async fn new(number: u8, manner: Manner) -> Arc<Self> {
        let key = key(&format!("pushed-{number}.example"), KeyKind::CosignatureV1, 50 + number);
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        // A prefix of its own, as public witnesses have.
        let url = format!("http://{}/prefix", listener.local_addr().unwrap()).parse().unwrap();
        let pushed = Arc::new(Self {
            witness: Witness { keys: vec![key.verifier()], url, protocol: Protocol::TlogWitness },
            key,
            manner: Mutex::new(manner),
            held: Mutex::new((TreeSize(0), merkle::EMPTY_ROOT)),
            calls: Mutex::new(Vec::new()),
            timestamp_s: AtomicU64::new(1_800_000_000),
        });
        let routes = Router::new().route("/prefix/add-checkpoint", post(add)).with_state(Arc::clone(&pushed));
        tokio::spawn(service::serve(listener, routes, service::Limits::default(), std::future::pending()));
        pushed
    }

    pub fn turn(&self, manner: Manner) {
        *self.manner.lock().unwrap() = manner;
    }

    pub fn hold(&self, size: TreeSize, root: RootHash) {
        *self.held.lock().unwrap() = (size, root);
    }

    pub fn held(&self) -> u64 {
        self.held.lock().unwrap().0.0
    }

    pub fn calls(&self) -> Vec<Call> {
        self.calls.lock().unwrap().clone()
    }

    fn lines(&self, text: &str) -> String {
        let timestamp_s = self.timestamp_s.fetch_add(1, Ordering::SeqCst);
        let line = |text: &str, key: &SigningKey| cosign(text, key, timestamp_s).unwrap().line;
        let other = key("other.example", KeyKind::CosignatureV1, 99);
        // The same name and id with another key's signature.
        let mut forged = note::parse_cosignature_line(&line(text, &self.key)).unwrap().signature().clone();
        forged.blob[20] ^= 1;
        // As long as an ML-DSA-44 cosignature.
        let longer = NoteSignature { name: self.key.name().clone(), key_id: KeyId([1, 2, 3, 4]), blob: vec![7; 2428] };
        let company = [line(text, &other), line("something else\n", &self.key), forged.line(), longer.line()];
        match *self.manner.lock().unwrap() {
            Manner::InCompany => format!("{}\n{}\n", company.join("\n"), line(text, &self.key)),
            Manner::Foreign => format!("{}\n", company.join("\n")),
            _ => format!("{}\n", line(text, &self.key)),
        }
    }
}

struct Parsed {
    old: u64,
    proof: ConsistencyProof,
    checkpoint: SignedCheckpoint,
}

/// `None` for whatever deviates from the format by a byte.
fn parse(body: &[u8]) -> Option<Parsed> {
    let text = std::str::from_utf8(body).ok()?;
    let (before, note) = text.split_once("\n\n")?;
    let mut lines = before.split('\n');
    let digits = lines.next()?.strip_prefix("old ")?;
    let old: u64 = digits.parse().ok().filter(|old: &u64| old.to_string() == digits)?;
    let hashes: Vec<Hash> = lines.map(Hash::from_base64).collect::<Option<_>>()?;
    let checkpoint = SignedCheckpoint::parse(note.as_bytes()).ok()?;
    (hashes.len() <= 63).then_some(Parsed { old, proof: ConsistencyProof::new(hashes), checkpoint })
}

async fn add(State(pushed): State<Arc<Pushed>>, body: Bytes) -> Response {
    let Some(parsed) = parse(&body) else {
        pushed.calls.lock().unwrap().push(Call { old: 0, new: 0, status: 400 });
        return StatusCode::BAD_REQUEST.into_response();
    };
    let (old, new) = (parsed.old, parsed.checkpoint.claimed().size.0);
    let manner = *pushed.manner.lock().unwrap();
    let response = match mischief(&pushed, manner, old, new) {
        Some(response) => response,
        None => judge(&pushed, manner, parsed),
    };
    pushed.calls.lock().unwrap().push(Call { old, new, status: response.status().as_u16() });
    if manner == Manner::Hanging {
        tokio::time::sleep(Duration::from_secs(600)).await;
    }
    response
}

/// The rule of tlog-witness, in its order, under one lock.
fn judge(pushed: &Pushed, manner: Manner, parsed: Parsed) -> Response {
    let Parsed { old, proof, checkpoint } = parsed;
    let (trusted, origin) = match manner {
        Manner::OtherKey => (key(stand::ORIGIN, KeyKind::Ed25519, 1).verifier(), stand::ORIGIN),
        Manner::Stranger => (log_key().verifier(), "another.example"),
        _ => (log_key().verifier(), stand::ORIGIN),
    };
    if checkpoint.claimed().origin.as_str() != origin {
        return StatusCode::NOT_FOUND.into_response();
    }
    let Ok(head) = checkpoint.verify(&trusted) else { return StatusCode::FORBIDDEN.into_response() };
    let (size, root) = (head.checkpoint().size, head.checkpoint().root);
    let mut held = pushed.held.lock().unwrap();
    if old > size.0 {
        return StatusCode::BAD_REQUEST.into_response();
    }
    if old != held.0.0 {
        return conflict(held.0.0);
    }
    if old == size.0 && held.1 != root {
        return conflict(held.0.0);
    }
    let proved = if old == 0 { proof.hashes().is_empty() } else { proof.verify(held.0, &held.1, size, &root).is_ok() };
    if !proved {
        return StatusCode::UNPROCESSABLE_ENTITY.into_response();
    }
    *held = (size, root);
    drop(held);
    pushed.lines(head.note().text()).into_response()
}

fn conflict(size: u64) -> Response {
    (StatusCode::CONFLICT, [(header::CONTENT_TYPE, "text/x.tlog.size")], format!("{size}\n")).into_response()
}

fn mischief(pushed: &Pushed, manner: Manner, old: u64, new: u64) -> Option<Response> {
    let endless = || {
        let chunk = Bytes::from(vec![b'1'; 512]);
        Body::from_stream(futures_util::stream::repeat_with(move || Ok::<_, std::io::Error>(chunk.clone())))
    };
    let calls = pushed.calls.lock().unwrap().len() as u64;
    Some(match manner {
        Manner::Garbage => "<html>hello</html>\n".into_response(),
        Manner::GarbageSize => match calls % 4 {
            0 => (StatusCode::CONFLICT, "0\n").into_response(),
            1 => (StatusCode::CONFLICT, [(header::CONTENT_TYPE, "text/x.tlog.size")], "many\n").into_response(),
            2 => (StatusCode::CONFLICT, [(header::CONTENT_TYPE, "text/x.tlog.size")], "007\n").into_response(),
            _ => (StatusCode::CONFLICT, [(header::CONTENT_TYPE, "text/x.tlog.size")], "").into_response(),
        },
        Manner::Flapping => conflict(if old == 0 { 1.min(new) } else { 0 }),
        Manner::Contradicting => conflict(old),
        Manner::Claiming(size) => conflict(size),
        Manner::Endless => endless().into_response(),
        Manner::EndlessConflict => {
            (StatusCode::CONFLICT, [(header::CONTENT_TYPE, "text/x.tlog.size")], endless()).into_response()
        }
        Manner::Hanging => StatusCode::OK.into_response(),
        Manner::Trickling => {
            let slowly = futures_util::stream::unfold((), |()| async {
                tokio::time::sleep(Duration::from_millis(50)).await;
                Some((Ok::<_, std::io::Error>(Bytes::from_static(b"-")), ()))
            });
            Body::from_stream(slowly).into_response()
        }
        Manner::Status(status) => StatusCode::from_u16(status).unwrap().into_response(),
        Manner::Redirecting => (StatusCode::FOUND, [(header::LOCATION, "http://127.0.0.1:9/")]).into_response(),
        Manner::Honest | Manner::InCompany | Manner::Foreign | Manner::Stranger | Manner::OtherKey => return None,
    })
}

/// A head as a feeder would take it from the log.
pub fn signed(text: &str) -> SignedCheckpoint<Verified> {
    SignedCheckpoint::parse(text.as_bytes()).unwrap().verify(&log_key().verifier()).unwrap()
}
