//! One name for each request: in the answer's header and in every log line that is written while the request is served, so
//! that a client's complaint finds its lines.
//!
//! A caller's own `x-request-id` is kept if it is sane (a proxy in front has logged it already); else one is made: eight
//! random hex digits that this process drew at its start, and a counter.

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue};
use std::fmt::Write as _;
use std::future::Future;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// The header, in requests and in answers.
pub const X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// Longest id that is taken over: twice the length of a UUID leaves room for what proxies put around one.
const MAX_LENGTH: usize = 64;

tokio::task_local! {
    static CURRENT: RequestId;
}

/// The id of one request: visible ASCII. Cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestId(HeaderValue);

impl RequestId {
    /// The one that `headers` carry, or a new one.
    pub fn of(headers: &HeaderMap) -> Self {
        let sane = |value: &&HeaderValue| {
            (1..=MAX_LENGTH).contains(&value.len()) && value.as_bytes().iter().all(u8::is_ascii_graphic)
        };
        match headers.get(X_REQUEST_ID).filter(sane) {
            Some(given) => Self(given.clone()),
            None => Self::make(),
        }
    }

    /// A new one.
    pub fn make() -> Self {
        static COUNT: AtomicU64 = AtomicU64::new(1);
        static PROCESS: OnceLock<String> = OnceLock::new();
        let process = PROCESS.get_or_init(|| {
            let mut drawn = [0; 4];
            // Without randomness ids of two processes can be the same; that makes logs harder to read, and nothing else.
            let _all_zero = getrandom::fill(&mut drawn);
            format!("{:08x}", u32::from_be_bytes(drawn))
        });
        let mut id = String::with_capacity(process.len() + 1 + 16);
        let _infallible = write!(id, "{process}-{:x}", COUNT.fetch_add(1, Ordering::Relaxed));
        let visible = HeaderValue::from_maybe_shared(Bytes::from(id));
        Self(visible.unwrap_or(HeaderValue::from_static("none")))
    }

    /// The id of the request that is being served here, if one is.
    pub fn current() -> Option<Self> {
        CURRENT.try_with(Clone::clone).ok()
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        // Always visible ASCII, see above.
        self.0.to_str().unwrap_or_default()
    }

    /// As a header's value.
    pub fn to_header(&self) -> HeaderValue {
        self.0.clone()
    }

    /// Runs `serving` as the work on this request.
    pub fn scope<F: Future>(self, serving: F) -> impl Future<Output = F::Output> {
        CURRENT.scope(self, serving)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;

    fn given(value: &[u8]) -> HeaderMap {
        HeaderMap::from_iter([(X_REQUEST_ID, HeaderValue::from_bytes(value).unwrap())])
    }

    #[test]
    fn a_sane_id_is_kept_and_anything_else_replaced() {
        for sane in [b"a".as_slice(), &[b'x'; 64], b"0af7651916cd43dd-\"quoted\""] {
            assert_eq!(RequestId::of(&given(sane)).as_str().as_bytes(), sane);
        }
        for odd in [b"".as_slice(), &[b'x'; 65], b"a b", b"tab\there", b"caf\xc3\xa9"] {
            let made = RequestId::of(&given(odd));
            assert_ne!(made.as_str().as_bytes(), odd);
            assert!(made.as_str().len() > 9 && made.as_str().bytes().all(|byte| byte.is_ascii_graphic()), "{made:?}");
        }
    }

    #[test]
    fn no_two_ids_are_the_same_and_all_of_a_process_begin_alike() {
        let (one, other) = (RequestId::make(), RequestId::make());
        assert_ne!(one, other);
        assert_eq!(one.as_str()[..9], other.as_str()[..9]);
    }

    #[tokio::test]
    async fn the_current_id_is_known_inside_its_request_only() {
        assert_eq!(RequestId::current(), None);
        let id = RequestId::make();
        assert_eq!(id.clone().scope(async { RequestId::current() }).await, Some(id));
        assert_eq!(RequestId::current(), None);
    }
}
