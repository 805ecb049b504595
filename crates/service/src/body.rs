//! Request bodies: a deadline and a limit around every one, and the one function by which handlers read them.
//!
//! The listener wraps each body, so a handler that forgets to set a limit still has one. A declared length
//! over the limit is refused before a byte of the body is read (and before `100 Continue` invites it), and the refusal names
//! the limit of the route, not the larger one of the listener.

use crate::budget::{ByteBudget, Taken};
use crate::connection::Standing;
use crate::problem::{Problem, overloaded};
use axum::body::Body;
use bytes::{Bytes, BytesMut};
use http::{HeaderMap, StatusCode, header};
use http_body_util::BodyExt;
use hyper::body::{Body as _, Frame, Incoming, SizeHint};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::time::{Instant, Sleep, sleep_until};

/// Bytes set aside for a body before its first byte has come, whatever length it declares.
const INITIAL_CAPACITY: usize = 64 * 1024;

/// Reads a whole body of at most `limit` bytes.
///
/// # Errors
/// The problem to answer with: 413 `too-large`, 408 `body-too-slow`, or 400 `body-broken` where the
/// connection ended inside the body.
pub async fn read(headers: &HeaderMap, body: Body, limit: u64) -> Result<Bytes, Problem> {
    read_counted(headers, body, limit, |_| true).await
}

/// The same for bodies so large that all of them together need a limit: every byte is taken from `budget`, and stays
/// taken until the second value is dropped.
///
/// # Errors
/// As [`read`]; 503 `overloaded` when the budget is spent.
pub async fn read_within(
    headers: &HeaderMap,
    body: Body,
    limit: u64,
    budget: &ByteBudget,
) -> Result<(Bytes, Taken), Problem> {
    let mut taken = Taken::default();
    let bytes = read_counted(headers, body, limit, |bytes| budget.take(&mut taken, bytes)).await?;
    Ok((bytes, taken))
}

async fn read_counted(
    headers: &HeaderMap,
    body: Body,
    limit: u64,
    mut count: impl FnMut(usize) -> bool,
) -> Result<Bytes, Problem> {
    if declared_length(headers).is_some_and(|length| length > limit) {
        return Err(too_large(limit));
    }
    let declared = declared_length(headers).and_then(|length| usize::try_from(length).ok()).unwrap_or(0);
    let mut read = BytesMut::with_capacity(declared.min(INITIAL_CAPACITY));
    let mut body = body;
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| broken(&error))?;
        if let Ok(data) = frame.into_data() {
            if (read.len() as u64).saturating_add(data.len() as u64) > limit {
                return Err(too_large(limit));
            }
            if !count(data.len()) {
                return Err(overloaded("too many large requests are under way; send this one again in a second"));
            }
            read.extend_from_slice(&data);
        }
    }
    Ok(read.freeze())
}

/// The refusal of a body above `limit` bytes.
pub fn too_large(limit: u64) -> Problem {
    Problem::new(
        StatusCode::PAYLOAD_TOO_LARGE,
        "too-large",
        "The body is too large",
        format!("send at most {limit} bytes in one request"),
    )
    .with("limit_bytes", limit)
}

/// The declared length, if the request declares one that is a number.
fn declared_length(headers: &HeaderMap) -> Option<u64> {
    headers.get(header::CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

fn broken(error: &axum::Error) -> Problem {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(here) = cause {
        match here.downcast_ref::<BodyFault>() {
            Some(BodyFault::TooLarge { limit }) => return too_large(*limit),
            Some(BodyFault::TooSlow) => {
                return Problem::new(
                    StatusCode::REQUEST_TIMEOUT,
                    "body-too-slow",
                    "The body did not arrive in time",
                    "send the whole body at once, or a smaller one",
                );
            }
            Some(BodyFault::Broken(_)) | None => cause = here.source(),
        }
    }
    Problem::new(
        StatusCode::BAD_REQUEST,
        "body-broken",
        "The body ended early",
        "send as many bytes as the request declares",
    )
}

/// Why a body could not be read to its end.
#[derive(Debug, thiserror::Error)]
enum BodyFault {
    #[error("the body is larger than {limit} bytes")]
    TooLarge { limit: u64 },
    #[error("the body did not arrive before its deadline")]
    TooSlow,
    #[error("the connection broke inside the body")]
    Broken(#[source] hyper::Error),
}

/// A body with a limit and a deadline around it.
pub(crate) struct BoundedBody {
    incoming: Incoming,
    limit: u64,
    left: u64,
    deadline: Pin<Box<Sleep>>,
    standing: Standing,
}

impl BoundedBody {
    /// `standing` is told when all of it has come.
    pub(crate) fn new(incoming: Incoming, limit: u64, deadline: Duration, standing: Standing) -> Self {
        if incoming.is_end_stream() {
            standing.has_all();
        }
        let deadline = Box::pin(sleep_until(Instant::now() + deadline));
        Self { incoming, limit, left: limit, deadline, standing }
    }
}

impl hyper::body::Body for BoundedBody {
    type Data = Bytes;
    type Error = Box<dyn std::error::Error + Send + Sync>;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        // What is declared is refused before it is asked for: the first poll of hyper's body invites the peer to send.
        if self.incoming.size_hint().lower() > self.left {
            return Poll::Ready(Some(Err(BodyFault::TooLarge { limit: self.limit }.into())));
        }
        match Pin::new(&mut self.incoming).poll_frame(cx) {
            Poll::Ready(Some(Ok(frame))) => {
                let length = frame.data_ref().map_or(0, |data| data.len() as u64);
                if self.incoming.is_end_stream() {
                    self.standing.has_all();
                }
                match self.left.checked_sub(length) {
                    Some(left) => {
                        self.left = left;
                        Poll::Ready(Some(Ok(frame)))
                    }
                    None => Poll::Ready(Some(Err(BodyFault::TooLarge { limit: self.limit }.into()))),
                }
            }
            Poll::Ready(Some(Err(error))) => Poll::Ready(Some(Err(BodyFault::Broken(error).into()))),
            Poll::Ready(None) => {
                self.standing.has_all();
                Poll::Ready(None)
            }
            Poll::Pending => {
                ready!(self.deadline.as_mut().poll(cx));
                Poll::Ready(Some(Err(BodyFault::TooSlow.into())))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.incoming.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.incoming.size_hint()
    }
}
