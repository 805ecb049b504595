//! The rule of admission, run again over entries that are in the log already: to bring states and indexes up to the
//! last head, to derive them from nothing, and to check them.
//!
//! Signatures are checked again as well, on all cores: the entries are known to be those that the log signed, but
//! that it was right to take them is then shown and not assumed. One core does some ten thousand a second. Receipts are
//! placed with their signatures taken for good, which tells the key in force at each; whether they are good under it is
//! computed behind that ([`crate::walk`]).

use crate::error::StoreError;
use crate::reader::TlogReader;
use crate::walk::{Item, Judge, Read, ReadPage, Unsigned, Work, walk};
use merkle::{LeafIndex, TreeSize};
use receipt::{Body, IssuerName, IssuerState, Receipt, SeqNo, Shown, place, presume_signature};
use std::collections::HashMap;

/// The states of issuers, and the rule that moves them on.
#[derive(Debug, Default)]
pub(crate) struct Placer {
    pub(crate) issuers: HashMap<IssuerName, IssuerState>,
}

impl Placer {
    /// Places the next receipt of its issuer, if it may stand there but for its signature, which is left to be computed.
    /// An issuer met for the first time was registered with the key that its `open` names.
    pub(crate) fn place(&mut self, index: LeafIndex, receipt: Receipt) -> Result<Unsigned, String> {
        let state = match (self.issuers.get(receipt.issuer()), receipt.body()) {
            (Some(state), _) => state,
            (None, Body::Open(open)) => {
                let key = open.vkey.shown().and_then(|vkey| vkey.parse().ok());
                let state = IssuerState::registered(key.ok_or("its open names no key")?);
                self.issuers.entry(receipt.issuer().clone()).or_insert(state)
            }
            (None, _) => return Err("its issuer was never opened".to_owned()),
        };
        let key = state.keys().in_force_at(receipt.seq()).clone();
        let presumed = presume_signature(&receipt, state).map_err(|refusal| refusal.to_string())?;
        // Whatever stands in the log already is below next_seq, and nothing below next_seq is admitted: no look-up.
        let admitted = place(state, presumed, &|_| None, None).map_err(|refusal| refusal.to_string())?;
        if let Some(held) = self.issuers.get_mut(receipt.issuer()) {
            *held = admitted.state;
        }
        Ok(Unsigned { index, receipt, key })
    }
}

/// Where receipts are, gathered by issuer: each issuer's from some seq on.
#[derive(Debug, Default)]
pub(crate) struct Places {
    by_issuer: HashMap<IssuerName, (SeqNo, Vec<u64>)>,
    count: usize,
}

impl Places {
    pub(crate) fn add(&mut self, issuer: &IssuerName, seq: SeqNo, index: LeafIndex) {
        match self.by_issuer.get_mut(issuer) {
            Some((_, places)) => places.push(index.0),
            None => {
                self.by_issuer.insert(issuer.clone(), (seq, vec![index.0]));
            }
        }
        self.count += 1;
    }

    /// How many were added since they were taken.
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// All of them; none are left.
    pub(crate) fn take(&mut self) -> impl Iterator<Item = (IssuerName, SeqNo, Vec<u64>)> {
        self.count = 0;
        std::mem::take(&mut self.by_issuer).into_iter().map(|(issuer, (first, places))| (issuer, first, places))
    }
}

/// Takes places that follow those of the same issuers that it took before.
pub(crate) type TakePlaces<'a> = dyn FnMut(&mut Places) -> Result<(), StoreError> + Send + 'a;

/// Admits the entries from `from` on, which the states in `issuers` stand before, and leaves the states after the last
/// one in `issuers`. `progress` hears how many entries of how many are done.
pub(crate) fn replay(
    log: &TlogReader,
    from: TreeSize,
    issuers: &mut HashMap<IssuerName, IssuerState>,
    take: &mut TakePlaces<'_>,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<(), StoreError> {
    let placer = Placer { issuers: std::mem::take(issuers) };
    let mut judge = Replay { log, placer, places: Places::default(), take };
    let stored = log.stored();
    walk(&stored.source(Work { compare: false, read: Read::Whole }), from, &mut judge, progress)?;
    *issuers = judge.placer.issuers;
    Ok(())
}

struct Replay<'a, 'b> {
    log: &'a TlogReader,
    placer: Placer,
    places: Places,
    take: &'a mut TakePlaces<'b>,
}

impl Judge for Replay<'_, '_> {
    fn page(&mut self, page: ReadPage, unsigned: &mut Vec<Unsigned>) -> Result<(), StoreError> {
        if let Some(cut) = page.cut {
            return Err(cut);
        }
        for (index, item) in (page.first..).map(LeafIndex).zip(page.items) {
            // Nothing is only glanced at here.
            let Item::Receipt(receipt) = item else { continue };
            let receipt = receipt.map_err(|malformed| self.damaged(index, &malformed.to_string()))?;
            let placed = self.placer.place(index, receipt).map_err(|why| self.damaged(index, &why))?;
            self.places.add(placed.receipt.issuer(), placed.receipt.seq(), index);
            unsigned.push(placed);
        }
        (self.take)(&mut self.places)
    }

    fn bad_signature(&mut self, unsigned: &Unsigned) -> Result<(), StoreError> {
        Err(self.damaged(unsigned.index, &bad_signature(unsigned)))
    }
}

impl Replay<'_, '_> {
    fn damaged(&self, index: LeafIndex, why: &str) -> StoreError {
        StoreError::Damaged {
            path: self.log.entries_path().to_owned(),
            what: "entry",
            position: index.0,
            why: format!("it would not be admitted where it stands: {why}"),
        }
    }
}

/// Says what is wrong with a receipt whose signature is bad.
pub(crate) fn bad_signature(unsigned: &Unsigned) -> String {
    let Unsigned { receipt, key, .. } = unsigned;
    format!("bad-signature: it does not verify under the key in force at seq {}, {key}", receipt.seq())
}
