//! A witness as its clients see it: the head it cosigned last, the nudge, its journal (protocol 6).
//!
//! ```text
//! GET  /<sha256(origin) hex>/checkpoint
//! POST /nudge/<sha256(origin) hex>            no body; answered with cosignature lines
//! GET  /journal/…                             a tiled log's static resources
//! GET  /evidence/<N>                          a page of evidence, one document a line
//! GET  /status                                how it is, JSON
//! ```
//!
//! Nothing that comes back is verified here: the caller has the witness's key and the text it must have cosigned.

use crate::address::BaseUrl;
use crate::calls::documents;
use crate::http::{BoundedClient, FetchError, Request};
use crate::log::LogClient;
use crate::wire;
use bytes::Bytes;
use note::{CosignatureLine, MAX_COSIGNATURE_LINE_LEN, MAX_NOTE_LEN, Origin};
use reqwest::Url;
use sha2::{Digest, Sha256};

/// Most bytes of the answer to a nudge or a push: one line a key of the witness. A line has at most 365 bytes with Ed25519 and
/// 3,505 with ML-DSA-44; four levels of both are below 16 KiB.
pub(crate) const MAX_LINES_BYTES: u64 = 16 * 1024;

const _: () = assert!(4 * (365 + MAX_COSIGNATURE_LINE_LEN as u64) <= MAX_LINES_BYTES);

/// Most bytes of a page of evidence: 256 documents of 256 KiB, which two heads of the longest that a witness keeps and the
/// proof between them fill to a third.
const MAX_EVIDENCE_BYTES: u64 = wire::EVIDENCE_PAGE as u64 * 256 * 1024;

/// Most bytes of a status: the most logs a witness has, 1,024, at 4 KiB each.
const MAX_STATUS_BYTES: u64 = 4 * 1024 * 1024;

/// A witness. Cheap to clone.
#[derive(Clone, Debug)]
pub struct WitnessClient {
    pub(crate) base: BaseUrl,
    pub(crate) http: BoundedClient,
}

impl WitnessClient {
    /// A client for the witness at `base`.
    pub fn new(base: BaseUrl, http: BoundedClient) -> Self {
        Self { base, http }
    }

    /// Where the witness is.
    pub fn base(&self) -> &BaseUrl {
        &self.base
    }

    /// The latest checkpoint of the log with this origin that the witness cosigned, unverified; `None` where it
    /// has none.
    ///
    /// # Errors
    /// [`FetchError`].
    pub async fn checkpoint(&self, origin: &Origin) -> Result<Option<Bytes>, FetchError> {
        let url = self.base.join(&format!("{}/checkpoint", origin_hash(origin)));
        match self.http.send(Request::get(url, MAX_NOTE_LEN as u64)).await {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if error.is_missing() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Tells the witness that the log with this origin may have something new, and waits for it to look. Answers
    /// with its cosignature lines over what it found, unverified, and maybe over another head than the
    /// caller thinks of.
    ///
    /// # Errors
    /// [`FetchError`]; 429 when nudged too often.
    pub async fn nudge(&self, origin: &Origin) -> Result<Vec<CosignatureLine>, FetchError> {
        let url = self.base.join(&format!("nudge/{}", origin_hash(origin)));
        let answer = self.http.send(Request::post(url.clone(), wire::TEXT, Bytes::new(), MAX_LINES_BYTES)).await?;
        cosignature_lines(&url, &answer)
    }

    /// Page `page` of the evidence that the witness holds, one JSON document each, oldest first, unchecked. Empty beyond the
    /// last.
    ///
    /// # Errors
    /// [`FetchError`].
    pub async fn evidence_page(&self, page: u64) -> Result<Vec<String>, FetchError> {
        let url = self.base.join(&format!("evidence/{page}"));
        match self.http.send(Request::get(url.clone(), MAX_EVIDENCE_BYTES)).await {
            Ok(answer) => documents(&url, &answer),
            Err(error) if error.is_missing() => Ok(Vec::new()),
            Err(error) => Err(error),
        }
    }

    /// What it says of itself, JSON, unread; `None` where the server has nothing of that name and so is no witness.
    ///
    /// # Errors
    /// [`FetchError`].
    pub async fn status(&self) -> Result<Option<Bytes>, FetchError> {
        match self.http.send(Request::get(self.base.join("status"), MAX_STATUS_BYTES)).await {
            Ok(answer) => Ok(Some(answer)),
            Err(error) if error.is_missing() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The witness's journal: a tiled log with the origin `<witness name>/journal`.
    pub fn journal(&self) -> LogClient {
        LogClient::new(self.base.below("journal"), self.http.clone())
    }
}

/// The name under which a witness keeps a log: hex of the SHA-256 of its origin (tlog-witness, monitoring).
pub fn origin_hash(origin: &Origin) -> String {
    hex::encode(Sha256::digest(origin.as_str().as_bytes()))
}

/// The lines of an answer, each of which must be a cosignature's.
fn cosignature_lines(url: &Url, answer: &[u8]) -> Result<Vec<CosignatureLine>, FetchError> {
    let text = std::str::from_utf8(answer).map_err(|_| FetchError::bad_body(url, "it is not UTF-8"))?;
    if text.is_empty() {
        return Ok(Vec::new());
    }
    let lines = text.strip_suffix('\n').ok_or_else(|| FetchError::bad_body(url, "its last line does not end"))?;
    lines
        .split('\n')
        .map(|line| note::parse_cosignature_line(line).map_err(|error| FetchError::bad_body(url, error)))
        .collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;

    #[test]
    fn a_log_is_named_by_the_hash_of_its_origin() {
        let origin = Origin::new("example.com/log").unwrap();
        // printf 'example.com/log' | sha256sum
        assert_eq!(origin_hash(&origin), "4d3203c8f35cdf600e475f55fede6081a703d3d322f208865fca2ec4f0e030f8");
        assert_ne!(origin_hash(&origin), origin_hash(&Origin::new("example.com/log2").unwrap()));
    }

    #[test]
    fn an_answer_that_is_not_cosignature_lines_is_refused() {
        let url: Url = "http://w.example/nudge/x".parse().unwrap();
        assert_eq!(cosignature_lines(&url, b"").unwrap(), []);
        for bad in [&b"hello\n"[..], b"\n", b"\xff\n", "— w AAAA".as_bytes()] {
            assert!(cosignature_lines(&url, bad).is_err(), "{bad:?}");
        }
    }
}
