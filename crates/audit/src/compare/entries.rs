//! `compare/entries` and `compare/issuers`: the entries of all bundles side by side, and from the first that differs on,
//! the issuers' streams.
//!
//! Up to there all streams are the same. From there on one number a receipt is remembered, whatever place in the log it
//! has: two histories of a log may hold the same receipts in another order, and that is no issuer's fault.

use super::view::View;
use super::{Leaf, Unread, side_by_side};
use crate::amount::amount;
use crate::bundle::ReadError;
use crate::issuers::AuditedIssuer;
use crate::judge::read_entry;
use crate::key::Key;
use crate::quote::quoted;
use crate::verdict::{Check, CheckBuilder, Family, MAX_FINDINGS_PER_CODE, ReceiptRef};
use merkle::{Hash, LeafIndex};
use note::{Strict, VerifierKey};
use receipt::body::Shown;
use receipt::{Body, IssuerForkEvidence, Receipt, is_issued_under};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// Most receipts after the first difference whose numbers are remembered: some 100 bytes each.
const MAX_REMEMBERED: usize = 1 << 20;

/// Most issuers whose streams are found to differ. The rest are counted.
const MAX_ISSUERS_NAMED: usize = 100;

/// Most keys that one issuer's rotations are followed through.
const MAX_KEYS: usize = 64;

/// Where a receipt was first seen.
#[derive(Clone, Copy, Debug)]
struct Seen {
    /// The bundle's place, from 0.
    bundle: usize,
    index: u64,
    id: Hash,
}

/// Two receipts of one issuer with one number, in two bundles.
struct Differing {
    seq: u64,
    one: Seen,
    other: Seen,
    /// How many later numbers of this issuer differ too.
    more: u64,
}

/// The comparison of entries, while they go by.
pub(super) struct EntryComparison {
    check: CheckBuilder,
    compared: u64,
    diverged: bool,
    remembered: HashMap<(Key, u64), Seen>,
    forgotten: u64,
    differing: BTreeMap<String, Differing>,
    differing_more: u64,
}

impl EntryComparison {
    pub(super) fn new() -> EntryComparison {
        EntryComparison {
            check: CheckBuilder::new(Family::Compare, "entries"),
            compared: 0,
            diverged: false,
            remembered: HashMap::new(),
            forgotten: 0,
            differing: BTreeMap::new(),
            differing_more: 0,
        }
    }

    /// The entries at the next index, by bundle; `None` where a bundle has ended.
    pub(super) fn add(&mut self, row: &[Option<Leaf>]) {
        let mut present = (0..).zip(row).filter_map(|(bundle, entry): (usize, _)| Some((bundle, entry.as_ref()?)));
        let Some((first, entry)) = present.next() else { return };
        let mut is_compared = false;
        let mut other = None;
        for (bundle, theirs) in present {
            is_compared = true;
            if theirs.hash != entry.hash {
                other = other.or(Some((bundle, theirs)));
            }
        }
        if is_compared {
            self.compared += 1;
            self.check.checked();
        }
        if let Some(other) = other {
            self.diverged = true;
            self.differ((first, entry), other);
        }
        if self.diverged {
            for (bundle, entry) in (0..).zip(row).filter_map(|(bundle, entry)| Some((bundle, entry.as_ref()?))) {
                self.remember(bundle, entry);
            }
        }
    }

    fn differ(&mut self, (first, entry): (usize, &Leaf), (second, other): (usize, &Leaf)) {
        // Reading them costs more than counting them.
        let is_kept = self.check.count("entry-differs") < MAX_FINDINGS_PER_CODE;
        let receipts = if is_kept { vec![reference(entry), reference(other)] } else { Vec::new() };
        self.check.fail("entry-differs", &receipts.iter().collect::<Vec<_>>(), || {
            [
                format!("bundles {} and {} hold two entries at index {}", first + 1, second + 1, entry.index),
                String::from("which of them the log serves; where signed heads vouch for both, compare/history says that the log signed two histories"),
                String::from("audit each bundle by itself: one whose entries were changed does not reproduce the signed roots"),
            ]
        });
    }

    fn remember(&mut self, bundle: usize, entry: &Leaf) {
        let Ok(receipt) = Receipt::parse(&entry.bytes) else { return };
        let (issuer, seq) = (receipt.issuer().as_str(), receipt.seq().0);
        let seen = Seen { bundle, index: entry.index, id: entry.hash };
        let key = (Key::new(&[issuer]), seq);
        match self.remembered.get(&key) {
            Some(one) if one.id == seen.id || one.bundle == bundle => {}
            Some(one) => {
                let is_full = self.differing.len() == MAX_ISSUERS_NAMED;
                match self.differing.get_mut(issuer) {
                    Some(known) => known.more += 1,
                    None if is_full => self.differing_more += 1,
                    None => {
                        let first = Differing { seq, one: *one, other: seen, more: 0 };
                        self.differing.insert(issuer.to_owned(), first);
                    }
                }
            }
            None if self.remembered.len() < MAX_REMEMBERED => drop(self.remembered.insert(key, seen)),
            None => self.forgotten += 1,
        }
    }

    /// Both checks, once all entries have gone by.
    pub(super) fn finish(
        self,
        views: &[View<'_>],
        issuers: &[AuditedIssuer],
        evidence: &mut Vec<serde_json::Value>,
    ) -> Result<Vec<Check>, Unread> {
        let EntryComparison { mut check, compared, forgotten, differing, differing_more, .. } = self;
        let mut streams = CheckBuilder::new(Family::Compare, "issuers");
        if compared == 0 {
            check.not_checked("not-comparable", &[], || {
                [
                    String::from("no two bundles hold an entry at one index"),
                    String::from("whether the log showed the same entries to all"),
                    String::from("fetch the bundles again, with their entries"),
                ]
            });
        } else {
            streams.checked();
        }
        let known = match differing.is_empty() {
            true => BTreeMap::new(),
            false => keys_of(views, &differing, issuers)?,
        };
        for (issuer, differing) in &differing {
            let keys = known.get(issuer.as_str()).map(Vec::as_slice).unwrap_or_default();
            judge_stream(views, issuer, differing, keys, &mut streams, evidence)?;
        }
        if forgotten + differing_more > 0 {
            streams.not_checked("streams-too-many", &[], || {
                [
                    format!("the bundles differ in so much that {forgotten} receipts and {differing_more} differing numbers were not looked at by issuer"),
                    String::from("whether the issuers of these signed two histories"),
                    String::from("publish what was found; it is enough against the log"),
                ]
            });
        }
        let covers = amount(compared, "entry is in more than one bundle", "entries are in more than one bundle");
        let of_issuers = match differing.len() as u64 {
            0 => String::from("no issuer has two receipts with one number"),
            count => format!("{} two receipts with one number", amount(count, "issuer has", "issuers have")),
        };
        Ok(vec![check.finish(covers), streams.finish(of_issuers)])
    }
}

fn judge_stream(
    views: &[View<'_>],
    issuer: &str,
    differing: &Differing,
    keys: &[VerifierKey],
    check: &mut CheckBuilder,
    evidence: &mut Vec<serde_json::Value>,
) -> Result<(), Unread> {
    let Differing { seq, one, other, more } = differing;
    let read = |seen: &Seen| {
        let view = &views[seen.bundle];
        read_entry(view.bundle, &view.resources, view.target, LeafIndex(seen.index))
            .map_err(|error: ReadError| Unread { number: view.number, error })
    };
    let (first, second) = (read(one)?.unwrap_or_default(), read(other)?.unwrap_or_default());
    let document = keys.iter().find_map(|key| IssuerForkEvidence::make(key, &first, &second).ok());
    let name: Arc<str> = Arc::from(issuer);
    let at = |seen: &Seen| ReceiptRef {
        index: Some(seen.index),
        issuer: Some(Arc::clone(&name)),
        seq: Some(*seq),
        id: seen.id,
    };
    let (at_one, at_other) = (at(one), at(other));
    let and_more = match more {
        0 => String::new(),
        more => format!("; {} too", amount(*more, "later number differs", "later numbers differ")),
    };
    let numbers = [one.bundle + 1, other.bundle + 1];
    match document.and_then(|document| serde_json::to_value(document).ok()) {
        Some(document) => {
            evidence.push(document);
            check.fail("issuer-fork", &[&at_one, &at_other], || {
                [
                    format!("issuer {} signed two receipts with seq {seq}, one in bundle {} and one in bundle {}{and_more}", quoted(issuer), numbers[0], numbers[1]),
                    String::from("which of the two histories is the true one"),
                    String::from("publish the evidence; trust nothing of this issuer until it is explained"),
                ]
            });
        }
        None => check.not_checked("stream-differs", &[&at_one, &at_other], || {
            [
                format!("bundles {} and {} hold two receipts of issuer {} with seq {seq}, and no key is known that signed both{and_more}", numbers[0], numbers[1], quoted(issuer)),
                String::from("that the issuer made both: the log, or whoever made a bundle, may have made one"),
                String::from("give the issuers file with the issuer's vkey (--issuers)"),
            ]
        }),
    }
    Ok(())
}

/// The keys of these issuers: the one that the auditor knows, and those that it and its successors handed over to, in
/// either history.
fn keys_of<'named>(
    views: &[View<'_>],
    differing: &'named BTreeMap<String, Differing>,
    issuers: &[AuditedIssuer],
) -> Result<BTreeMap<&'named str, Vec<VerifierKey>>, Unread> {
    let mut known: BTreeMap<&str, Vec<VerifierKey>> = BTreeMap::new();
    for name in differing.keys() {
        let of_name = issuers.iter().filter(|issuer| issuer.vkey.name().as_str() == name);
        let keys: Vec<VerifierKey> = of_name.map(|issuer| issuer.vkey.clone()).collect();
        if !keys.is_empty() {
            known.insert(name, keys);
        }
    }
    if known.is_empty() {
        return Ok(known);
    }
    let sources: Vec<_> = views.iter().map(View::entries).collect();
    side_by_side(&sources, &[], &mut |row| {
        for entry in row.iter().flatten() {
            // A rotation says so in its body, unless its issuer hides it behind an escape, which helps only others.
            if entry.bytes.windows(6).any(|window| window == b"rotate") {
                follow(&entry.bytes, &mut known);
            }
        }
    })?;
    Ok(known)
}

/// Takes note of the next key in a rotation that a known key signed.
fn follow(entry: &[u8], known: &mut BTreeMap<&str, Vec<VerifierKey>>) {
    let Ok(receipt) = Receipt::parse(entry) else { return };
    let Body::Rotate(rotate) = receipt.body() else { return };
    let Some(keys) = known.get_mut(receipt.issuer().as_str()) else { return };
    let Some(next) = rotate.vkey.shown().and_then(|vkey| vkey.parse::<VerifierKey>().ok()) else { return };
    let is_handed_over = keys.iter().any(|key| is_issued_under(&receipt, key, &Strict));
    if is_handed_over && keys.len() < MAX_KEYS && !keys.contains(&next) && *next.name() == receipt.issuer().0 {
        keys.push(next);
    }
}

fn reference(entry: &Leaf) -> ReceiptRef {
    match Receipt::parse(&entry.bytes) {
        Ok(receipt) => {
            let issuer = Arc::from(receipt.issuer().as_str());
            ReceiptRef::new(LeafIndex(entry.index), &issuer, receipt.seq(), receipt.id())
        }
        Err(_) => ReceiptRef::entry(LeafIndex(entry.index), entry.hash),
    }
}
