//! From an entry that breaks section 4 to a document that shows it to anybody (`log-admitted`, protocol 7).
//!
//! The walk remembers which entries those are ([`Breaches`]: one an issuer and rule, and few enough); when the tree is
//! known, [`documents`] looks in the log for what else a third party has to see, and keeps what checks by itself.

use crate::bundle::{BundleSource, MAX_PAGE_BYTES, ReadError, read_part};
use crate::head::HeadFacts;
use crate::stream::Stream;
use crate::tree::Resources;
use merkle::{LeafIndex, ResourcePath, TILE_WIDTH};
use note::VerifierKey;
use receipt::breach::{Earlier, Exhibit, Plan, plans};
use receipt::{LogAdmitted, Receipt, Refusal, RefusalCode, SeqNo};
use serde::{Deserialize, Serialize};

/// Most breaches that documents are made of. One convicts the log; the rest show in how many ways.
const MAX_BREACHES: usize = 20;

/// Most entries, and bytes of them, in one document: in base64 a third more, and with 200 proofs of 40 hashes (400 kB) it
/// mostly stays below a mebibyte.
const MAX_ENTRIES: usize = 200;
const MAX_ENTRIES_BYTES: usize = 384 << 10;

/// Entries of one log that it had to refuse.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Breaches(Vec<Breach>);

/// One of them, and which entries it may be held against.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Breach {
    index: u64,
    issuer: Option<String>,
    code: RefusalCode,
    expected_seq: Option<SeqNo>,
    /// Indices of the issuer's receipts at the same seq, at the one before, and where a key came in.
    beside: Vec<u64>,
    /// The key in force at the seq before.
    key_before: Option<VerifierKey>,
}

impl Breaches {
    /// Remembers a breach, if it is the first of its kind by its issuer and there are not too many.
    pub(crate) fn add(&mut self, breach: Breach) {
        let is_known = |other: &Breach| (&other.issuer, other.code) == (&breach.issuer, breach.code);
        if self.0.len() < MAX_BREACHES && !self.0.iter().any(is_known) {
            self.0.push(breach);
        }
    }
}

impl Breach {
    /// An entry that is no receipt.
    pub(crate) fn malformed(index: LeafIndex) -> Breach {
        Breach {
            index: index.0,
            issuer: None,
            code: RefusalCode::Malformed,
            expected_seq: None,
            beside: Vec::new(),
            key_before: None,
        }
    }

    /// A receipt that the rules of admission refuse after what `stream` holds.
    pub(crate) fn by(stream: &Stream, index: LeafIndex, receipt: &Receipt, refusal: &Refusal) -> Breach {
        let seq = receipt.seq();
        let before = seq.0.checked_sub(1).map(SeqNo);
        let keys = stream.state.keys();
        // A key came in with the receipt before the first one that it signed, the registered one with the first.
        let came_in = keys.iter().flat_map(|(from, _)| [Some(from), from.0.checked_sub(1).map(SeqNo)]);
        let beside = [Some(seq), before].into_iter().chain(came_in.filter(|_| receipt.is_rotation()));
        Breach {
            index: index.0,
            issuer: Some(stream.name.to_string()),
            code: refusal.code,
            expected_seq: refusal.expected_seq,
            beside: beside.flatten().filter_map(|seq| Some(stream.held.get(seq)?.1)).collect(),
            key_before: before.map(|before| keys.in_force_at(before).clone()),
        }
    }

    fn refusal(&self) -> Refusal {
        Refusal {
            code: self.code,
            detail: String::new(),
            expected_seq: self.expected_seq,
            expected_prev: None,
            fork: None,
        }
    }
}

/// The documents that can be made of these, each good by itself. Heads vouch for the entries below `authenticated`.
pub(crate) fn documents(
    facts: &HeadFacts<'_>,
    authenticated: u64,
    breaches: &Breaches,
) -> Result<Vec<serde_json::Value>, ReadError> {
    let mut made = Vec::new();
    for breach in breaches.0.iter().filter(|breach| breach.index < authenticated) {
        made.extend(document(facts, authenticated, breach)?.and_then(|document| serde_json::to_value(document).ok()));
    }
    Ok(made)
}

fn document(facts: &HeadFacts<'_>, authenticated: u64, breach: &Breach) -> Result<Option<LogAdmitted>, ReadError> {
    let Some(head) = facts.anchor(authenticated, authenticated)? else { return Ok(None) };
    let mut pages = Pages { bundle: facts.bundle, resources: facts.resources, size: authenticated, page: None };
    let Some(accused) = pages.entry(breach.index)? else { return Ok(None) };
    for plan in plans(&accused, &breach.refusal()) {
        let (code, earlier) = match plan {
            Plan::Alone(code) => (code, Some(Vec::new())),
            Plan::With(code, earlier) => {
                let found = pages.beside(breach, &accused, &earlier)?;
                (code, found.map(|found| vec![found]))
            }
            Plan::Run => (RefusalCode::Gap, pages.run(breach, &accused)?),
        };
        let Some(mut exhibits) = earlier else { continue };
        exhibits.push((breach.index, accused.clone()));
        let exhibits: Vec<Exhibit<'_>> =
            exhibits.iter().map(|(index, entry)| Exhibit { index: LeafIndex(*index), entry }).collect();
        let key = key_before(breach, code, &exhibits);
        let tiles = facts.inclusion_tiles(exhibits.iter().map(|exhibit| exhibit.index), head.checkpoint().size)?;
        if let Ok(document) = LogAdmitted::make(&head, code, &exhibits, key, &tiles) {
            return Ok(Some(document));
        }
    }
    Ok(None)
}

/// The key that signed the receipt before, where a document has to name it.
fn key_before<'breach>(
    breach: &'breach Breach,
    code: RefusalCode,
    exhibits: &[Exhibit<'_>],
) -> Option<&'breach VerifierKey> {
    let [before, _] = exhibits else { return None };
    let is_rotation = Receipt::parse(before.entry).ok()?.is_rotation();
    breach.key_before.as_ref().filter(|_| code == RefusalCode::BadSignature && !is_rotation)
}

/// An entry, and its place.
type Found = (u64, Vec<u8>);

/// Entries of the log read again, with the page that was read last: they are wanted next to each other.
struct Pages<'audit> {
    bundle: &'audit dyn BundleSource,
    resources: &'audit Resources,
    size: u64,
    page: Option<(u64, Vec<Vec<u8>>)>,
}

impl Pages<'_> {
    fn entry(&mut self, index: u64) -> Result<Option<Vec<u8>>, ReadError> {
        let width = u64::from(TILE_WIDTH);
        let wanted = index / width;
        if self.page.as_ref().is_none_or(|(page, _)| *page != wanted) {
            let Some(page) = self.resources.entries_page(wanted, self.size) else { return Ok(None) };
            let path = self.resources.path(ResourcePath::Entries(page));
            let bytes = read_part(self.bundle, &path, MAX_PAGE_BYTES)?.unwrap_or_default();
            let entries = merkle::decode_entries(&bytes).unwrap_or_default();
            self.page = Some((wanted, entries.iter().map(|entry| entry.to_vec()).collect()));
        }
        let page = self.page.as_ref().and_then(|(_, entries)| entries.get((index % width) as usize));
        Ok(page.cloned())
    }

    /// The receipt beside the accused one that a document takes.
    fn beside(&mut self, breach: &Breach, accused: &[u8], earlier: &Earlier) -> Result<Option<Found>, ReadError> {
        let Ok(accused) = Receipt::parse(accused) else { return Ok(None) };
        for index in &breach.beside {
            let Some(entry) = self.entry(*index)?.filter(|_| *index < breach.index) else { continue };
            if Receipt::parse(&entry).is_ok_and(|other| earlier.is(accused.issuer(), &other)) {
                return Ok(Some((*index, entry)));
            }
        }
        Ok(None)
    }

    /// Every entry before the accused one from its issuer's last receipt on, or from the log's first; `None` if those are
    /// more than fit a document.
    fn run(&mut self, breach: &Breach, accused: &[u8]) -> Result<Option<Vec<Found>>, ReadError> {
        let Ok(accused) = Receipt::parse(accused) else { return Ok(None) };
        let (mut run, mut bytes) = (Vec::new(), 0);
        for index in (0..breach.index).rev() {
            let Some(entry) = self.entry(index)? else { return Ok(None) };
            bytes += entry.len();
            if bytes > MAX_ENTRIES_BYTES || run.len() + 2 > MAX_ENTRIES {
                return Ok(None);
            }
            let is_last = Receipt::parse(&entry).is_ok_and(|other| other.issuer() == accused.issuer());
            run.push((index, entry));
            if is_last {
                break;
            }
        }
        run.reverse();
        Ok(Some(run))
    }
}
