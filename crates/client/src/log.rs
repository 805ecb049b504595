//! The read side of a log: its checkpoint, its tiles, its bundles and heads (tlog-tiles, protocol 5.1).
//!
//! Everything here is bytes from somewhere. Sizes are checked, because they bound what is read; signatures and
//! hashes are not: whoever asked knows the key and what the bytes must hash to.

use crate::address::BaseUrl;
use crate::http::{BoundedClient, FetchError, Request};
use bytes::Bytes;
use futures_util::{StreamExt, TryStreamExt, stream};
use merkle::{MAX_ENTRY_LEN, PageId, ResourcePath, TileId, TileSet};
use note::MAX_NOTE_LEN;
use reqwest::Url;

/// Tiles fetched at once. A proof in the largest tree needs 8 levels of at most two tiles: four round trips.
const TILES_AT_ONCE: usize = 4;

/// A log, or anything else with the static resources of a tiled log (a witness's journal, a mirror). Cheap to clone.
#[derive(Clone, Debug)]
pub struct LogClient {
    pub(crate) base: BaseUrl,
    pub(crate) http: BoundedClient,
}

/// The most bytes that the resource can rightly have.
pub fn max_bytes(path: &ResourcePath) -> u64 {
    let page = |page: &PageId| u64::from(page.width) * (2 + MAX_ENTRY_LEN as u64);
    match path {
        ResourcePath::Checkpoint => MAX_NOTE_LEN as u64,
        ResourcePath::Tile(tile) => tile.byte_len() as u64,
        ResourcePath::Entries(bundle) => page(bundle),
        ResourcePath::Heads(heads) => page(heads),
    }
}

impl LogClient {
    /// A client for the log at `base`.
    pub fn new(base: BaseUrl, http: BoundedClient) -> Self {
        Self { base, http }
    }

    /// Where the log is.
    pub fn base(&self) -> &BaseUrl {
        &self.base
    }

    /// The newest offered signed head, unverified.
    ///
    /// # Errors
    /// [`FetchError`]; a log that has none yet answers 404 ([`FetchError::is_missing`]).
    pub async fn checkpoint(&self) -> Result<Bytes, FetchError> {
        self.fetch(&ResourcePath::Checkpoint).await
    }

    /// One static resource, as it is served; `None` where the log has none of that path. No other resource is
    /// tried in its place.
    ///
    /// # Errors
    /// [`FetchError`]. More bytes than [`max_bytes`], and a tile with fewer than its width calls for, are errors.
    pub async fn resource(&self, path: &ResourcePath) -> Result<Option<Bytes>, FetchError> {
        match self.fetch(path).await {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if error.is_missing() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The bytes of one tile. A log may drop a partial tile once the full one exists (tlog-tiles, "Partial
    /// Tiles"): then the full one is fetched and cut.
    ///
    /// # Errors
    /// [`FetchError`]; also when neither exists.
    pub async fn tile(&self, tile: TileId) -> Result<Bytes, FetchError> {
        match self.fetch(&ResourcePath::Tile(tile)).await {
            Err(error) if error.is_missing() && tile != tile.full() => {
                match self.resource(&ResourcePath::Tile(tile.full())).await? {
                    Some(full) => Ok(full.slice(..tile.byte_len())),
                    None => Err(error),
                }
            }
            other => other,
        }
    }

    /// The entries of one bundle, or the heads of one page, oldest first. Falls back to the full page like
    /// [`LogClient::tile`].
    ///
    /// # Errors
    /// [`FetchError`]; also when neither exists, or the bytes are not as many strings as the page's width.
    pub async fn page(&self, path: &ResourcePath) -> Result<Vec<Bytes>, FetchError> {
        let (page, full) = match *path {
            ResourcePath::Entries(page) => (page, ResourcePath::Entries(page.full())),
            ResourcePath::Heads(page) => (page, ResourcePath::Heads(page.full())),
            ResourcePath::Checkpoint | ResourcePath::Tile(_) => {
                return Err(FetchError::bad_body(&self.url(path), "it is not a page of entries or heads"));
            }
        };
        let (bytes, served) = match self.fetch(path).await {
            Err(error) if error.is_missing() && *path != full => match self.resource(&full).await? {
                Some(bytes) => (bytes, page.full()),
                None => return Err(error),
            },
            other => (other?, page),
        };
        let entries = merkle::decode_entries(&bytes).map_err(|cut| FetchError::bad_body(&self.url(path), cut))?;
        if entries.len() != usize::from(served.width) {
            return Err(FetchError::bad_body(
                &self.url(path),
                format!("a page of {} holds {}", served.width, entries.len()),
            ));
        }
        Ok(entries.into_iter().take(usize::from(page.width)).map(|entry| bytes.slice_ref(entry)).collect())
    }

    /// All of `tiles`, a few at a time.
    ///
    /// # Errors
    /// The first [`FetchError`]; also when a tile does not exist.
    pub async fn tiles(&self, tiles: &[TileId]) -> Result<TileSet, FetchError> {
        let fetched = stream::iter(tiles.iter().copied()).map(|tile| async move { Ok((tile, self.tile(tile).await?)) });
        fetched
            .buffer_unordered(TILES_AT_ONCE)
            .try_fold(TileSet::new(), |mut set, (tile, bytes)| async move {
                match set.insert(tile, &bytes) {
                    Ok(()) => Ok(set),
                    Err(error) => Err(FetchError::bad_body(&self.url(&ResourcePath::Tile(tile)), error)),
                }
            })
            .await
    }

    async fn fetch(&self, path: &ResourcePath) -> Result<Bytes, FetchError> {
        let url = self.url(path);
        let bytes = self.http.send(Request::get(url.clone(), max_bytes(path))).await?;
        match path {
            ResourcePath::Tile(tile) if bytes.len() != tile.byte_len() => Err(FetchError::bad_body(
                &url,
                format!("the tile must have {} bytes and has {}", tile.byte_len(), bytes.len()),
            )),
            _ => Ok(bytes),
        }
    }

    fn url(&self, path: &ResourcePath) -> Url {
        self.base.join(&path.to_string())
    }
}
