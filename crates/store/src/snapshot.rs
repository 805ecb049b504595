//! A log as it is on disk at one moment, read beside whoever writes it: for a copy of it.

use crate::error::StoreError;
use crate::evidence::EvidenceReader;
use crate::inspect::signed_by;
use crate::issuer_index::IssuerIndex;
use crate::look::{Newest, look};
use crate::reader::TlogReader;
use merkle::{LeafIndex, PageId, ResourcePath, TILE_WIDTH};
use note::VerifierKey;
use receipt::{Body, IssuerName, Receipt, ReceiptId, SeqNo, Shown, UnixMillis};
use std::collections::{BTreeMap, VecDeque};
use std::path::Path;

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

    /// The issuers that have receipts, by name. A running log is some thousands of receipts behind with their arrays: those
    /// are looked for among the newest entries.
    ///
    /// # Errors
    /// [`StoreError`]; [`StoreError::Index`] when the issuers' arrays and the entries do not agree.
    pub fn streams(&self) -> Result<Vec<Stream>, StoreError> {
        let mut streams: BTreeMap<IssuerName, Stream> = BTreeMap::new();
        for path in self.index.arrays()? {
            streams.extend(self.stream(&path)?.map(|stream| (stream.issuer.clone(), stream)));
        }
        let counted: u64 = streams.values().map(|stream| stream.count).sum();
        for (index, receipt) in self.not_in_arrays(&streams, self.log.size().0.saturating_sub(counted))? {
            follow(&mut streams, index, &receipt).map_err(|why| StoreError::Damaged {
                path: self.log.entries_path().to_owned(),
                what: "entry",
                position: index.0,
                why,
            })?;
        }
        Ok(streams.into_values().collect())
    }

    /// The newest receipts, `missing` of them, that the streams as the arrays have them lack; oldest first.
    fn not_in_arrays(
        &self,
        streams: &BTreeMap<IssuerName, Stream>,
        missing: u64,
    ) -> Result<VecDeque<(LeafIndex, Receipt)>, StoreError> {
        let mut found = VecDeque::new();
        let mut pages = self.log.size().0.div_ceil(u64::from(TILE_WIDTH));
        while (found.len() as u64) < missing {
            let page = pages.checked_sub(1).and_then(|page| PageId::at(page, self.log.size().0)).ok_or_else(|| {
                let why = format!("{missing} receipts are in no array, and not all of them are in the entries");
                StoreError::index(self.index.dir(), why)
            })?;
            let bytes = self.log.resource(&ResourcePath::Entries(page))?.unwrap_or_default();
            let entries = merkle::decode_entries(&bytes).unwrap_or_default();
            for (place, entry) in entries.iter().enumerate().rev() {
                let Ok(receipt) = Receipt::parse(entry) else { continue };
                let counted = streams.get(receipt.issuer()).map_or(0, |stream| stream.count);
                if receipt.seq().0 >= counted {
                    found.push_front((LeafIndex(page.index * u64::from(TILE_WIDTH) + place as u64), receipt));
                }
            }
            pages = page.index;
        }
        Ok(found)
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

/// Adds the receipt that comes next in its issuer's stream.
fn follow(streams: &mut BTreeMap<IssuerName, Stream>, index: LeafIndex, receipt: &Receipt) -> Result<(), String> {
    let issuer = receipt.issuer();
    let (vkey, first) = match (streams.get(issuer), receipt.body()) {
        (Some(stream), _) => (stream.vkey.clone(), stream.first),
        (None, Body::Open(open)) => (open.vkey.shown().cloned().unwrap_or_default(), index),
        (None, _) => return Err(format!("{issuer} was never opened before it")),
    };
    let count = streams.get(issuer).map_or(0, |stream| stream.count);
    if receipt.seq().0 != count {
        return Err(format!("it is number {} of {issuer}, and number {count} comes next", receipt.seq()));
    }
    let stream = Stream {
        issuer: issuer.clone(),
        vkey,
        count: count + 1,
        first,
        last: index,
        head: receipt.id(),
        last_issued_at: receipt.issued_at(),
        closed: matches!(receipt.body(), Body::Close(_)),
    };
    streams.insert(issuer.clone(), stream);
    Ok(())
}
