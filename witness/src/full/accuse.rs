//! From the first entry that breaks section 4 to documents that show it to anybody.
//!
//! The log has the entries that a document takes besides the accused one; they are looked for from there backwards. What
//! comes is not believed: a document is made of it only if it checks by itself. Where none can be made, nobody is accused.

use super::walk::Breach;
use crate::fetch::Trouble;
use bytes::Bytes;
use client::LogClient;
use futures_util::{StreamExt, stream};
use merkle::{LeafIndex, PageId, ResourcePath, TILE_WIDTH, TileId, tiles_for_inclusion};
use note::{SignedCheckpoint, Strict, Verified, VerifierKey};
use receipt::breach::{Exhibit, Plan, plans};
use receipt::{
    IssuerForkEvidence, IssuerName, LogAdmitted, Receipt, ReceiptId, RefusalCode, SeqNo, check_signature, place,
};
use std::collections::BTreeSet;
use store::MAX_DOCUMENT;

const WIDTH: u64 = TILE_WIDTH as u64;
/// Bundles fetched at once, 16 MiB each at most.
const BUNDLES_AT_ONCE: usize = 2;
/// Most bytes of entries that are gathered for a document, in base64 a third more, and most entries: so many proofs of 40
/// hashes are 400 kB. With a head that mostly fits the mebibyte that a document may have.
const MAX_ENTRIES_BYTES: usize = 384 << 10;
const MAX_ENTRIES: usize = 200;

/// That a log admitted what section 4 refuses, for anybody.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Breaks {
    /// What the log admitted.
    pub admitted: LogAdmitted,
    /// Where the entry is one half of an issuer's fork, and the log holds both: that the issuer signed two histories.
    pub issuer_fork: Option<Box<IssuerForkEvidence>>,
}

/// Makes the documents about `breach`, which stands under `head`; `None` where it cannot be shown to a third party.
pub(crate) async fn accuse(
    client: &LogClient,
    head: &SignedCheckpoint<Verified>,
    breach: &Breach,
) -> Result<Option<Breaks>, Trouble> {
    let search = Search { client, head, breach };
    for plan in plans(&breach.entry, &breach.refusal) {
        let (code, exhibits) = match plan {
            Plan::Alone(code) => (code, Some(Vec::new())),
            Plan::With(code, earlier) => {
                let found = search.nearest(|issuer, other| earlier.is(issuer, other)).await?;
                let same = found.as_ref().is_some_and(|(_, entry)| **entry == breach.entry);
                let code = if code == RefusalCode::Fork && same { RefusalCode::Duplicate } else { code };
                (code, found.map(|found| vec![found]))
            }
            Plan::Run => (RefusalCode::Gap, search.run().await?),
        };
        let Some(mut exhibits) = exhibits else { continue };
        exhibits.push((breach.index, Bytes::copy_from_slice(&breach.entry)));
        if let Some(admitted) = search.document(code, &exhibits).await? {
            let issuer_fork = exhibits.first().and_then(|(_, held)| issuer_fork(breach, held)).map(Box::new);
            return Ok(Some(Breaks { admitted, issuer_fork }));
        }
    }
    Ok(None)
}

struct Search<'a> {
    client: &'a LogClient,
    head: &'a SignedCheckpoint<Verified>,
    breach: &'a Breach,
}

type Found = (LeafIndex, Bytes);

impl Search<'_> {
    /// The document, if one can be made of these.
    async fn document(&self, code: RefusalCode, exhibits: &[Found]) -> Result<Option<LogAdmitted>, Trouble> {
        let size = self.head.checkpoint().size;
        let tiles: BTreeSet<TileId> =
            exhibits.iter().flat_map(|(index, _)| tiles_for_inclusion(*index, size)).collect();
        let tiles: Vec<TileId> = tiles.into_iter().collect();
        let tree = self.client.tiles(&tiles).await.map_err(|error| Trouble::from(&error))?;
        let exhibits: Vec<_> = exhibits.iter().map(|(index, entry)| Exhibit { index: *index, entry }).collect();
        let key = self.key_before(code, &exhibits);
        let made = LogAdmitted::make(self.head, code, &exhibits, key.as_ref(), &tree).ok();
        let fits = |made: &LogAdmitted| serde_json::to_string(made).is_ok_and(|text| text.len() < MAX_DOCUMENT);
        Ok(made.filter(fits))
    }

    /// The key that signed the receipt before, where a document has to name it.
    fn key_before(&self, code: RefusalCode, exhibits: &[Exhibit<'_>]) -> Option<VerifierKey> {
        let [before, _] = exhibits else { return None };
        let before = Receipt::parse(before.entry).ok()?;
        let keys = self.breach.state.as_ref()?.keys();
        (code == RefusalCode::BadSignature && !before.is_rotation()).then(|| keys.in_force_at(before.seq()).clone())
    }

    /// The nearest entry before the accused one that is a receipt of its issuer and `wanted`.
    async fn nearest(&self, wanted: impl Fn(&IssuerName, &Receipt) -> bool) -> Result<Option<Found>, Trouble> {
        let Ok(receipt) = Receipt::parse(&self.breach.entry) else { return Ok(None) };
        let issuer = receipt.issuer();
        let mut found = None;
        self.backwards(|index, entry| {
            let is_wanted = is_by(issuer, entry) && Receipt::parse(entry).is_ok_and(|other| wanted(issuer, &other));
            found = is_wanted.then(|| (index, entry.clone()));
            !is_wanted
        })
        .await?;
        Ok(found)
    }

    /// Every entry before the accused one from its issuer's last receipt on, or from the log's first; `None` if those are
    /// more than fit a document.
    async fn run(&self) -> Result<Option<Vec<Found>>, Trouble> {
        let Ok(receipt) = Receipt::parse(&self.breach.entry) else { return Ok(None) };
        let (mut run, mut bytes, mut is_whole) = (Vec::new(), 0, self.breach.index == LeafIndex(0));
        self.backwards(|index, entry| {
            bytes += entry.len();
            if bytes > MAX_ENTRIES_BYTES || run.len() + 2 > MAX_ENTRIES {
                return false;
            }
            run.push((index, entry.clone()));
            is_whole = index == LeafIndex(0)
                || is_by(receipt.issuer(), entry)
                    && Receipt::parse(entry).is_ok_and(|other| other.issuer() == receipt.issuer());
            !is_whole
        })
        .await?;
        run.reverse();
        Ok(is_whole.then_some(run))
    }

    /// Shows `look` the entries before the accused one, nearest first, for as long as it answers true.
    async fn backwards(&self, mut look: impl FnMut(LeafIndex, &Bytes) -> bool) -> Result<(), Trouble> {
        let (index, size) = (self.breach.index.0, self.head.checkpoint().size.0);
        let pages = (0..=index / WIDTH).rev().filter_map(|page| PageId::at(page, size));
        let fetch = |page: PageId| async move { (page, self.client.page(&ResourcePath::Entries(page)).await) };
        let mut pages = std::pin::pin!(stream::iter(pages).map(fetch).buffered(BUNDLES_AT_ONCE));
        while let Some((page, entries)) = pages.next().await {
            let entries = entries.map_err(|error| Trouble::from(&error))?;
            let places: Vec<_> = (page.index * WIDTH..index).zip(&entries).collect();
            for (place, entry) in places.into_iter().rev() {
                if !look(LeafIndex(place), entry) {
                    return Ok(());
                }
            }
        }
        Ok(())
    }
}

/// Whether line 2 is the issuer's name: to read only those whole that may be its receipts.
fn is_by(issuer: &IssuerName, entry: &[u8]) -> bool {
    entry.split(|byte| *byte == b'\n').nth(1) == Some(issuer.as_str().as_bytes())
}

/// The issuer's own fork, where the accused receipt is one half of it and `held` the other.
fn issuer_fork(breach: &Breach, held: &[u8]) -> Option<IssuerForkEvidence> {
    let (receipt, state) = (Receipt::parse(&breach.entry).ok()?, breach.state.as_ref()?);
    let is_held = |_: SeqNo| Some(ReceiptId::of(held));
    let checked = check_signature(&receipt, state, &Strict).ok()?;
    let refusal = place(state, checked, &is_held, None).err()?;
    refusal.fork?.evidence(held).ok()
}
