//! `POST /sign-subtree` (C2SP tlog-witness): the rule of `cosign::subtree` over HTTP.
//!
//! ```text
//! 200  text/plain          — <witness> <base64>       a cosignature of the subtree, at no time
//! 400 malformed · 403 not-cosigned, refused · 404 unknown-log · 413 too-large · 422 not-proven · 503 overloaded
//! ```
//!
//! There only where the witness has an ML-DSA-44 key; elsewhere the path is 404, as every path that is not served.
//!
//! A signature costs ten times what a check does, there is no end of subtrees to ask for, and nobody has to have a key
//! to ask. So these signatures are made one at a time, whoever asks, and few may wait: at worst this call takes one
//! core, and the cosignatures of heads have the others.

use crate::posts::Posts;
use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use cosign::subtree::{MAX_REQUEST_LEN, Standing, SubtreeRefusal, sign_subtree};
use http::{HeaderMap, HeaderValue, StatusCode, header};
use note::{Origin, SigningKey};
use service::Problem;
use service::budget::ByteBudget;
use service::problem::overloaded;
use std::fmt;
use std::sync::Arc;
use tokio::sync::Semaphore;

/// Requests that wait to be answered. At half a millisecond each, whoever is let in waits 32 ms.
const WAITING: usize = 64;

/// Bytes of requests held at once: as many of the largest as may wait.
const HELD_BYTES: u32 = WAITING as u32 * MAX_REQUEST_LEN as u32;

/// What the call is answered with.
pub struct SubtreeDesk {
    key: Arc<SigningKey>,
    standing: Box<dyn Fn(&Origin) -> Standing + Send + Sync>,
    held: ByteBudget,
    waiting: Semaphore,
    signing: Semaphore,
}

impl SubtreeDesk {
    /// For the key of type `0x06` that also cosigns heads; `standing` says what the witness thinks of a log at the
    /// moment, and must not block.
    pub fn new(key: Arc<SigningKey>, standing: impl Fn(&Origin) -> Standing + Send + Sync + 'static) -> SubtreeDesk {
        SubtreeDesk {
            key,
            standing: Box::new(standing),
            held: ByteBudget::new(HELD_BYTES),
            waiting: Semaphore::new(WAITING),
            signing: Semaphore::new(1),
        }
    }
}

impl fmt::Debug for SubtreeDesk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SubtreeDesk({:?})", self.key)
    }
}

/// The routes of a witness with this key: none where it has none.
pub fn routes_of(key: Option<&Arc<SigningKey>>, posts: Posts) -> Router {
    let Some(key) = key else { return Router::new() };
    let standing = move |origin: &Origin| match posts.by_origin(origin) {
        None => Standing::Unknown,
        Some(post) if post.view().accused.is_some() => Standing::Forked,
        Some(_) => Standing::Watched,
    };
    routes(Arc::new(SubtreeDesk::new(Arc::clone(key), standing)))
}

/// The one route, to be merged into the witness's.
pub fn routes(desk: Arc<SubtreeDesk>) -> Router {
    Router::new().route("/sign-subtree", post(answer)).with_state(desk)
}

async fn answer(State(desk): State<Arc<SubtreeDesk>>, headers: HeaderMap, body: Body) -> Result<Response, Problem> {
    let (body, _held) = service::body::read_within(&headers, body, MAX_REQUEST_LEN as u64, &desk.held).await?;
    // Only now: who sends slowly keeps nobody out.
    let Ok(_place) = desk.waiting.try_acquire() else {
        return Err(overloaded("many subtrees wait to be signed; ask again in a second"));
    };
    // Never closed.
    let _turn = desk.signing.acquire().await;
    let signing = Arc::clone(&desk);
    // Half a millisecond of arithmetic.
    let signed =
        tokio::task::spawn_blocking(move || sign_subtree(&body, &signing.key, |origin| (signing.standing)(origin)));
    match signed.await {
        Ok(Ok(line)) => Ok((plain_text(), line).into_response()),
        Ok(Err(refusal)) => Err(problem(refusal)),
        // The runtime is shutting down.
        Err(_) => Err(overloaded("the witness is stopping; ask again once it is back")),
    }
}

fn plain_text() -> [(header::HeaderName, HeaderValue); 2] {
    [
        (header::CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8")),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-store")),
    ]
}

fn problem(refusal: SubtreeRefusal) -> Problem {
    let status = StatusCode::from_u16(refusal.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    Problem::new(status, refusal.code(), "The subtree was not cosigned", refusal.to_string())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;
    use cosign::subtree::SubtreeRequest;
    use http::Request;
    use http_body_util::BodyExt;
    use merkle::{MemoryTree, Subtree, leaf_hash, prove_subtree};
    use note::{Checkpoint, CosignedTree, KeyKind, KeyName, NoteSignature, cosign as cosigned};
    use tower::ServiceExt;

    #[tokio::test]
    async fn a_subtree_of_a_cosigned_head_is_cosigned_over_http() {
        let (status, body) = ask(request().to_string(), Standing::Watched).await;
        assert_eq!(status, StatusCode::OK, "{body}");
        let line = NoteSignature::parse(body.strip_suffix('\n').unwrap()).unwrap();
        let request = request();
        let signed = CosignedTree { start: 4, end: 5, hash: request.hash, origin: request.checkpoint.origin };
        assert_eq!(signed.verify(&line, &key().verifier()), Ok(0));
    }

    #[tokio::test]
    async fn refusals_are_problems_with_their_status() {
        let good = request().to_string();
        for (body, standing, status, code) in [
            ("nonsense".to_owned(), Standing::Watched, StatusCode::BAD_REQUEST, "malformed"),
            (good.clone(), Standing::Unknown, StatusCode::NOT_FOUND, "unknown-log"),
            (good.clone(), Standing::Forked, StatusCode::FORBIDDEN, "refused"),
            (
                good.split_once("\n\n—").unwrap().0.to_owned() + "\n",
                Standing::Watched,
                StatusCode::FORBIDDEN,
                "not-cosigned",
            ),
            (
                good.replacen("subtree 4 5", "subtree 3 4", 1),
                Standing::Watched,
                StatusCode::UNPROCESSABLE_ENTITY,
                "not-proven",
            ),
            ("x".repeat(MAX_REQUEST_LEN + 1), Standing::Watched, StatusCode::PAYLOAD_TOO_LARGE, "too-large"),
        ] {
            let (found, answer) = ask(body, standing).await;
            assert_eq!(found, status, "{answer}");
            assert!(answer.contains(&format!("\"code\":\"{code}\"")), "{answer}");
        }
    }

    #[tokio::test]
    async fn more_requests_than_may_wait_are_told_to_come_again() {
        let desk = Arc::new(SubtreeDesk::new(Arc::new(key()), |_| Standing::Watched));
        let all = desk.waiting.acquire_many(WAITING as u32).await.unwrap();
        let routes = routes(Arc::clone(&desk));
        let asked = || Request::post("/sign-subtree").body(Body::from(request().to_string())).unwrap();
        let refused = routes.clone().oneshot(asked()).await.unwrap();
        assert_eq!(refused.status(), StatusCode::SERVICE_UNAVAILABLE);
        assert!(refused.headers().contains_key(header::RETRY_AFTER));
        drop(all);
        assert_eq!(routes.oneshot(asked()).await.unwrap().status(), StatusCode::OK);
    }

    async fn ask(body: String, standing: Standing) -> (StatusCode, String) {
        let desk = SubtreeDesk::new(Arc::new(key()), move |_| standing);
        let asked = Request::post("/sign-subtree").body(Body::from(body)).unwrap();
        let answer = routes(Arc::new(desk)).oneshot(asked).await.unwrap();
        let status = answer.status();
        let body = answer.into_body().collect().await.unwrap().to_bytes();
        (status, String::from_utf8(body.to_vec()).unwrap())
    }

    fn key() -> SigningKey {
        SigningKey::from_seed(KeyName::new("w.example").unwrap(), KeyKind::MlDsa44, [2; 32])
    }

    fn request() -> SubtreeRequest {
        let mut tree = MemoryTree::new();
        (0..7).for_each(|leaf| tree.push(leaf_hash(&[leaf])));
        let checkpoint = Checkpoint::new(Origin::new("log.example").unwrap(), tree.size(), tree.root());
        let subtree = Subtree::new(4, 5).unwrap();
        let line = cosigned(&checkpoint.to_string(), &key(), 1_700_000_000).unwrap().to_line().unwrap();
        SubtreeRequest {
            subtree,
            hash: subtree.root(&tree).unwrap(),
            cosignatures: vec![],
            proof: prove_subtree(&tree, subtree, tree.size()).unwrap(),
            checkpoint,
            signatures: vec![line.signature().clone()],
        }
    }
}
