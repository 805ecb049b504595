//! A log as it is on disk at one moment, read beside whoever writes it: for a copy of it.

use crate::error::StoreError;
use crate::evidence::EvidenceReader;
use crate::inspect::signed_by;
use crate::issuer_index::IssuerIndex;
use crate::look::{Newest, look};
use crate::reader::TlogReader;
use merkle::{LeafIndex, ResourcePath};
use note::VerifierKey;
use receipt::{Body, IssuerName, Receipt, ReceiptId, SeqNo, Shown, UnixMillis};
use std::path::Path;
use std::time::{Duration, Instant};

/// How long a running log is given to add to its issuers' arrays what its newest head covers.
const PATIENCE: Duration = Duration::from_secs(2);
const GLANCE: Duration = Duration::from_millis(20);

/// The log up to the newest head that is known to be durable.
#[derive(Debug)]
pub struct Snapshot {
    log: TlogReader,
    index: IssuerIndex,
    evidence: EvidenceReader,
}

/// What an issuer has in a [`Snapshot`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stream {
    /// Whose it is.
    pub issuer: IssuerName,
    /// The vkey that it was registered with.
    pub vkey: String,
    /// How many receipts it has.
    pub count: u64,
    /// Where the first is.
    pub first: LeafIndex,
    /// Where the newest is.
    pub last: LeafIndex,
    /// The id of the newest.
    pub head: ReceiptId,
    /// When that was issued.
    pub last_issued_at: UnixMillis,
    /// Whether it is a `close`.
    pub closed: bool,
}

impl Snapshot {
    /// Opens the store in `dir` of the log with key `log`. Changes nothing, and takes no lock.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn open(dir: &Path, log: &VerifierKey) -> Result<Snapshot, StoreError> {
        let looked = look(dir, &|head| signed_by(log, head), Newest::Durable)?;
        let evidence = EvidenceReader::look(dir)?;
        Ok(Snapshot { log: looked.reader, index: IssuerIndex::look(dir), evidence })
    }

    /// The log's static part.
    pub fn log(&self) -> &TlogReader {
        &self.log
    }

    /// How many bytes the resource at a path has, which the log has in this width.
    pub fn byte_len(&self, path: &ResourcePath) -> u64 {
        self.log.byte_len(path)
    }

    /// Evidence documents `256 page` and up to 255 more; none beyond the last.
    ///
    /// # Errors
    /// [`StoreError`] when they cannot be read.
    pub fn evidence_page(&self, page: u64) -> Result<Vec<String>, StoreError> {
        self.evidence.page(page)
    }

    /// The issuers that have receipts, by name.
    ///
    /// # Errors
    /// [`StoreError`]; [`StoreError::Index`] when the issuers' arrays do not have every receipt.
    pub fn streams(&self) -> Result<Vec<Stream>, StoreError> {
        let started = Instant::now();
        loop {
            let mut streams: Vec<Stream> = Vec::new();
            for path in self.index.arrays()? {
                streams.extend(self.stream(&path)?);
            }
            let size = self.log.size().0;
            let count: u64 = streams.iter().map(|stream| stream.count).sum();
            if count == size {
                streams.sort_by(|one, other| one.issuer.cmp(&other.issuer));
                return Ok(streams);
            }
            if started.elapsed() > PATIENCE {
                let why = format!("it has {count} receipts of the {size} that there are");
                return Err(StoreError::index(self.index.dir(), why));
            }
            std::thread::sleep(GLANCE);
        }
    }

    /// The stream in one array, if any of it is below the size.
    fn stream(&self, path: &Path) -> Result<Option<Stream>, StoreError> {
        let Some(first) = IssuerIndex::first_place(path)?.map(LeafIndex).filter(|first| first.0 < self.log.size().0)
        else {
            return Ok(None);
        };
        let wrong = |seq: u64, why: &str| StoreError::Damaged {
            path: path.to_owned(),
            what: "place",
            position: seq,
            why: why.to_owned(),
        };
        let open = self.receipt(first)?.ok_or_else(|| wrong(0, "there is no receipt where it says"))?;
        let issuer = open.issuer().clone();
        let vkey = match open.body() {
            Body::Open(open) => open.vkey.shown().cloned(),
            _ => None,
        };
        let vkey = vkey.filter(|_| self.index.path(&issuer) == path);
        let vkey = vkey.ok_or_else(|| wrong(0, "it does not say where the issuer's open is"))?;
        let count = self.count_below(&issuer)?;
        let last = self.index.places(&issuer, SeqNo(count - 1), 1)?.first().map_or(first, |place| LeafIndex(*place));
        let newest = self.receipt(last)?.filter(|newest| *newest.issuer() == issuer && newest.seq().0 + 1 == count);
        let newest = newest.ok_or_else(|| wrong(count - 1, "it does not say where the receipt is"))?;
        let closed = matches!(newest.body(), Body::Close(_));
        let (head, last_issued_at) = (newest.id(), newest.issued_at());
        Ok(Some(Stream { issuer, vkey, count, first, last, head, last_issued_at, closed }))
    }

    /// How many places of the issuer's array are below the size: at least one, and they rise.
    fn count_below(&self, issuer: &IssuerName) -> Result<u64, StoreError> {
        let (mut low, mut high) = (1, self.index.count(issuer)?);
        while low < high {
            let middle = low + (high - low) / 2;
            let place = self.index.places(issuer, SeqNo(middle), 1)?.first().copied();
            if place.is_some_and(|place| place < self.log.size().0) { low = middle + 1 } else { high = middle }
        }
        Ok(low)
    }

    fn receipt(&self, index: LeafIndex) -> Result<Option<Receipt>, StoreError> {
        Ok(self.log.entry(index)?.and_then(|entry| Receipt::parse(&entry).ok()))
    }
}
