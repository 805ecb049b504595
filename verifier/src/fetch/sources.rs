//! Where a page or tile is had from: the bundle itself, an earlier one, the log, in this order.
//!
//! What comes is not believed by where it came from: whoever asks checks it.

use super::bundle_dir::BundleDir;
use crate::failure::Failure;
use crate::rooted::{Found, Rooted};
use bytes::Bytes;
use client::{Fault, FetchError, LogClient};
use merkle::{PageId, ResourcePath, TILE_WIDTH};
use std::time::Duration;

/// How often the same thing is asked for while the server says that it may go well later.
const TRIES: u32 = 4;

/// Before the second try; each further pause is twice as long: 3.5 s in all, enough for a log to start again.
const PAUSE: Duration = Duration::from_millis(500);

/// The longest pause that a server may ask for.
const MAX_PAUSE: Duration = Duration::from_secs(30);

/// Why a mirror stops: by fault of the server, or of this machine.
#[derive(Debug)]
pub(super) enum Broken {
    Server(FetchError),
    Disk(Failure),
}

impl From<FetchError> for Broken {
    fn from(error: FetchError) -> Broken {
        Broken::Server(error)
    }
}

impl From<Failure> for Broken {
    fn from(failure: Failure) -> Broken {
        Broken::Disk(failure)
    }
}

/// Where something came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Whence {
    Held,
    Earlier,
    Server,
}

/// A tiled log, and the copies there are of it.
pub(super) struct Sources<'fetch> {
    pub(super) client: &'fetch LogClient,
    pub(super) dir: &'fetch BundleDir,
    /// An earlier bundle.
    pub(super) earlier: Option<&'fetch Rooted>,
    /// In front of every path: `log/`, `witness/<name>/journal/`.
    pub(super) prefix: String,
}

impl Sources<'_> {
    /// The path of a resource in a bundle.
    pub(super) fn path(&self, resource: ResourcePath) -> String {
        format!("{}{resource}", self.prefix)
    }

    /// The nearest copy that is a whole page or tile of its path.
    pub(super) async fn nearest(&self, resource: ResourcePath) -> Result<(Bytes, Whence), Broken> {
        match self.local(resource)? {
            Some(found) => Ok(found),
            None => Ok((self.served(resource).await?, Whence::Server)),
        }
    }

    /// A copy on this machine, if there is one. Only what can never change is taken from an earlier bundle.
    pub(super) fn local(&self, resource: ResourcePath) -> Result<Option<(Bytes, Whence)>, Failure> {
        let (path, max) = (self.path(resource), client::log::max_bytes(&resource));
        let held = self.dir.read(&path, max)?.filter(|bytes| is_whole(resource, bytes));
        if let Some(bytes) = held {
            return Ok(Some((Bytes::from(bytes), Whence::Held)));
        }
        let earlier = self.earlier.filter(|_| is_full(resource)).map(|earlier| earlier.read(&path, max));
        Ok(match earlier {
            // What cannot be read there is fetched.
            Some(Ok(Found::File(bytes))) if is_whole(resource, &bytes) => Some((Bytes::from(bytes), Whence::Earlier)),
            _ => None,
        })
    }

    /// The log's own, exactly as wide as asked for.
    pub(super) async fn served(&self, resource: ResourcePath) -> Result<Bytes, FetchError> {
        match resource {
            ResourcePath::Tile(tile) => patiently(|| self.client.tile(tile)).await,
            page => {
                let entries = patiently(|| self.client.page(&page)).await?;
                let mut bytes = Vec::with_capacity(entries.iter().map(|entry| entry.len() + 2).sum());
                for entry in &entries {
                    // It came out of such a page, so that it fits one.
                    let _ = merkle::encode_entry(&mut bytes, entry);
                }
                Ok(Bytes::from(bytes))
            }
        }
    }

    /// What the log serves at the very path of a page of heads, if it serves anything there.
    pub(super) async fn served_heads(&self, page: PageId) -> Result<Option<Bytes>, FetchError> {
        let path = ResourcePath::Heads(page);
        patiently(|| self.client.resource(&path)).await
    }
}

/// Whether these bytes are a page or tile of that width. What was cut by a failing machine is not.
pub(super) fn is_whole(resource: ResourcePath, bytes: &[u8]) -> bool {
    match resource {
        ResourcePath::Tile(tile) => bytes.len() == tile.byte_len(),
        ResourcePath::Entries(page) | ResourcePath::Heads(page) => {
            merkle::decode_entries(bytes).is_ok_and(|entries| entries.len() == usize::from(page.width))
        }
        ResourcePath::Checkpoint => false,
    }
}

fn is_full(resource: ResourcePath) -> bool {
    match resource {
        ResourcePath::Tile(tile) => tile.width == TILE_WIDTH,
        ResourcePath::Entries(page) | ResourcePath::Heads(page) => page.width == TILE_WIDTH,
        ResourcePath::Checkpoint => false,
    }
}

/// Asks again while the server says, or breaks off as if to say, that it may go well later. One that let a whole
/// deadline pass is not waited for again.
async fn patiently<Answer, Ask>(ask: impl Fn() -> Ask) -> Result<Answer, FetchError>
where
    Ask: Future<Output = Result<Answer, FetchError>>,
{
    let mut tries = 1;
    loop {
        match ask().await {
            Err(error) if tries < TRIES && error.may_pass() && !matches!(error.fault, Fault::Timeout(_)) => {
                let asked = error.refusal().and_then(|refusal| refusal.retry_after);
                tokio::time::sleep(asked.unwrap_or(PAUSE * 2u32.pow(tries - 1)).min(MAX_PAUSE)).await;
                tries += 1;
            }
            answer => return answer,
        }
    }
}
