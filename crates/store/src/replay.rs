//! The rule of admission, run again over entries that are in the log already: to bring states and indexes up to the
//! last head, to derive them from nothing, and to check them.
//!
//! Signatures are checked again as well, on all cores: the entries are known to be those that the log signed, but
//! that it was right to take them is then shown and not assumed. One core does some ten thousand a second, behind the
//! placing ([`receipt::roll`]).

use crate::error::StoreError;
use crate::reader::TlogReader;
use crate::walk::{Item, Read, ReadPage, Work, walk};
use merkle::{LeafIndex, TreeSize};
use receipt::{IssuerName, IssuerState, Judge, Roll, SeqNo, Unsigned};
use std::collections::HashMap;

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
    let mut roll = Roll::of_openers();
    roll.resume(issuers.drain().map(|(_, state)| state));
    let mut judge = Replay { log, roll, places: Places::default(), take };
    let stored = log.stored();
    walk(&stored.source(Work { compare: false, read: Read::Whole }), from, &mut judge, progress)?;
    *issuers = judge.roll.into_states();
    Ok(())
}

struct Replay<'a, 'b> {
    log: &'a TlogReader,
    roll: Roll,
    places: Places,
    take: &'a mut TakePlaces<'b>,
}

impl Judge for Replay<'_, '_> {
    type Page = ReadPage;
    type Error = StoreError;

    fn page(&mut self, page: ReadPage, unsigned: &mut Vec<Unsigned>) -> Result<(), StoreError> {
        if let Some(cut) = page.cut {
            return Err(cut);
        }
        for (index, item) in (page.first..).map(LeafIndex).zip(page.items) {
            // Nothing is only glanced at here.
            let Item::Receipt(receipt) = item else { continue };
            let receipt = receipt.map_err(|malformed| self.damaged(index, &malformed.to_string()))?;
            let placed = self.roll.place(index, receipt, None);
            let placed = placed.map_err(|refusal| self.damaged(index, &refusal.to_string()))?;
            self.places.add(placed.receipt.issuer(), placed.receipt.seq(), index);
            unsigned.push(placed);
        }
        (self.take)(&mut self.places)
    }

    fn bad_signature(&mut self, unsigned: &Unsigned) -> Result<(), StoreError> {
        Err(self.damaged(unsigned.index, &unsigned.refusal().to_string()))
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
