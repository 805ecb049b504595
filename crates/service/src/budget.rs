//! A budget of bytes for what many peers together make a daemon hold in memory: large request bodies while they
//! arrive, large answers until they are read.
//!
//! Counted as the bytes come, not as they are announced, so that announcing costs a peer's place to nobody.

use crate::problem::{self, Problem};
use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Bytes of a large answer handed to the connection at a time.
const PIECE: usize = 64 * 1024;

/// Bytes of an answer that are not worth counting: with one on every connection, 256 MiB.
const SMALL: usize = 256 * 1024;

/// So many bytes, shared by all that take from it. Cheap to clone.
#[derive(Clone, Debug)]
pub struct ByteBudget(Arc<Semaphore>);

/// A part of a budget; given back when it is dropped.
#[derive(Debug, Default)]
pub struct Taken(Option<OwnedSemaphorePermit>);

impl ByteBudget {
    /// A budget of `bytes`.
    pub fn new(bytes: u32) -> Self {
        Self(Arc::new(Semaphore::new(bytes as usize)))
    }

    /// Takes `bytes` more into `taken`; false if there are not so many left.
    pub fn take(&self, taken: &mut Taken, bytes: usize) -> bool {
        let permit = u32::try_from(bytes).ok().and_then(|bytes| Arc::clone(&self.0).try_acquire_many_owned(bytes).ok());
        match (permit, &mut taken.0) {
            (None, _) => return false,
            (Some(more), Some(held)) => held.merge(more),
            (Some(more), none) => *none = Some(more),
        }
        true
    }

    /// An answer that may be large: counted while the peer reads it, so that many slow readers of large answers cannot fill
    /// the memory.
    ///
    /// # Errors
    /// 503 `overloaded` when the budget is spent.
    pub fn body(&self, bytes: Bytes) -> Result<axum::body::Body, Problem> {
        if bytes.len() <= SMALL {
            return Ok(axum::body::Body::from(bytes));
        }
        let mut taken = Taken::default();
        if self.take(&mut taken, bytes.len()) {
            Ok(axum::body::Body::new(CountedBody::new(bytes, taken)))
        } else {
            Err(problem::overloaded("too many large answers are being read; ask again in a second"))
        }
    }

    /// Bytes that are left.
    pub fn left(&self) -> usize {
        self.0.available_permits()
    }
}

/// An answer that counts against a budget until it has been sent, or its connection is gone.
#[derive(Debug)]
pub struct CountedBody {
    left: Bytes,
    _taken: Taken,
}

impl CountedBody {
    /// `bytes`, for which `taken` was taken.
    pub fn new(bytes: Bytes, taken: Taken) -> Self {
        Self { left: bytes, _taken: taken }
    }
}

impl Body for CountedBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if self.left.is_empty() {
            return Poll::Ready(None);
        }
        let piece = self.left.len().min(PIECE);
        Poll::Ready(Some(Ok(Frame::data(self.left.split_to(piece)))))
    }

    fn is_end_stream(&self) -> bool {
        self.left.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left.len() as u64)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;
    use http_body_util::BodyExt;

    #[test]
    fn what_is_taken_is_gone_until_it_is_given_back() {
        let budget = ByteBudget::new(10);
        let (mut one, mut other) = (Taken::default(), Taken::default());
        assert!(budget.take(&mut one, 4) && budget.take(&mut one, 3));
        assert!(!budget.take(&mut other, 4));
        assert!(budget.take(&mut other, 3));
        assert_eq!(budget.left(), 0);
        drop(one);
        assert_eq!(budget.left(), 7);
        assert!(!budget.take(&mut other, usize::MAX));
    }

    #[tokio::test]
    async fn a_small_answer_is_never_refused_and_a_large_one_only_when_the_budget_is_spent() {
        let budget = ByteBudget::new(SMALL as u32 + 1);
        let large = Bytes::from(vec![7; SMALL + 1]);
        let held = budget.body(large.clone()).unwrap();
        assert_eq!(budget.body(large.clone()).unwrap_err().code(), "overloaded");
        assert!(budget.body(large.slice(1..)).is_ok());
        assert_eq!(held.collect().await.unwrap().to_bytes(), large);
        assert!(budget.body(large).is_ok());
    }

    #[tokio::test]
    async fn a_counted_answer_is_whole_and_gives_back_what_it_took() {
        let budget = ByteBudget::new(1_000_000);
        let bytes = Bytes::from((0..200_000u32).map(|number| number as u8).collect::<Vec<_>>());
        let mut taken = Taken::default();
        assert!(budget.take(&mut taken, bytes.len()));
        let body = CountedBody::new(bytes.clone(), taken);
        assert_eq!(body.size_hint().exact(), Some(200_000));
        assert_eq!(budget.left(), 800_000);
        assert_eq!(body.collect().await.unwrap().to_bytes(), bytes);
        assert_eq!(budget.left(), 1_000_000);
    }
}
