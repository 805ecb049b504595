//! Many entries judged in order, on all cores.
//!
//! ```text
//! read, hash, parse (all cores) ──> judge (in order) ──> signatures (all cores) ──> judge hears of bad ones
//!         beat n                        beat n + 1            beat n + 2
//! ```
//!
//! The three run at the same time, each on what the one before it did in the last beat; so in memory is what comes in three
//! beats, and the caller bounds a beat. Where entries come from and what a judge makes of them is theirs. Threads are those
//! of the process's pool.

use crate::roll::Unsigned;
use note::KeyTables;
use rayon::prelude::*;

/// Issuers whose keys are kept prepared meanwhile: 14 MiB of tables at most ([`note::PREPARED_KEY_BYTES`]).
const PREPARED_KEYS: usize = 256;

/// Looks at pages in order.
pub trait Judge: Send {
    /// What is judged at once.
    type Page: Send;
    /// Why it stops.
    type Error: Send;

    /// The next page. Leaves in `unsigned` whose signatures are to be computed.
    ///
    /// # Errors
    /// Nothing more is judged, once the signatures of what came before are.
    fn page(&mut self, page: Self::Page, unsigned: &mut Vec<Unsigned>) -> Result<(), Self::Error>;

    /// One of those is bad: told in the order in which they were left.
    ///
    /// # Errors
    /// Nothing more is judged.
    fn bad_signature(&mut self, unsigned: &Unsigned) -> Result<(), Self::Error>;
}

/// What is between two beats.
#[derive(Debug)]
pub struct Relay<Page> {
    pages: Vec<Page>,
    unsigned: Vec<Unsigned>,
    tables: KeyTables,
}

impl<Page: Send> Relay<Page> {
    /// Nothing yet.
    pub fn new() -> Relay<Page> {
        Relay { pages: Vec::new(), unsigned: Vec::new(), tables: KeyTables::new(PREPARED_KEYS) }
    }

    /// Whether everything that came is judged, signatures included.
    pub fn is_done(&self) -> bool {
        self.pages.is_empty() && self.unsigned.is_empty()
    }

    /// Reads what comes, and moves what came before on by a step. Pages come out in the order in which they went in.
    ///
    /// # Errors
    /// The first that the judge has in that order, be it a page or a bad signature; or else that of reading.
    pub fn beat<Raw: Send, J: Judge<Page = Page>>(
        &mut self,
        raw: Vec<Raw>,
        read: impl Fn(Raw) -> Result<Page, J::Error> + Sync + Send,
        judge: &mut J,
    ) -> Result<(), J::Error> {
        let (pages, unsigned) = (std::mem::take(&mut self.pages), std::mem::take(&mut self.unsigned));
        let mut placed = Vec::new();
        let (judged, (read, bad)) = rayon::join(
            || pages.into_iter().try_for_each(|page| judge.page(page, &mut placed)),
            || {
                rayon::join(
                    || raw.into_par_iter().map(read).collect::<Result<Vec<Page>, _>>(),
                    || bad_of(&unsigned, &self.tables),
                )
            },
        );
        bad.into_iter().try_for_each(|bad| judge.bad_signature(bad))?;
        if judged.is_err() {
            bad_of(&placed, &self.tables).into_iter().try_for_each(|bad| judge.bad_signature(bad))?;
        }
        judged?;
        (self.pages, self.unsigned) = (read?, placed);
        Ok(())
    }
}

impl<Page: Send> Default for Relay<Page> {
    fn default() -> Self {
        Relay::new()
    }
}

fn bad_of<'a>(unsigned: &'a [Unsigned], tables: &KeyTables) -> Vec<&'a Unsigned> {
    unsigned.par_iter().filter(|one| !one.is_good(tables)).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;
    use crate::receipt::Receipt;
    use crate::roll::Roll;
    use crate::sample::{Held, START, decision_body, key, signed};
    use merkle::LeafIndex;

    struct Reader(Roll, u64);

    impl Judge for Reader {
        type Page = Vec<Receipt>;
        type Error = (u64, &'static str);

        fn page(&mut self, page: Vec<Receipt>, unsigned: &mut Vec<Unsigned>) -> Result<(), Self::Error> {
            for receipt in page {
                let index = self.1;
                self.1 += 1;
                let placed = self.0.place(LeafIndex(index), receipt, None);
                unsigned.push(placed.map_err(|refusal| (index, refusal.code.as_str()))?);
            }
            Ok(())
        }

        fn bad_signature(&mut self, unsigned: &Unsigned) -> Result<(), Self::Error> {
            Err((unsigned.index.0, unsigned.refusal().code.as_str()))
        }
    }

    fn run(receipts: &[Receipt], width: usize) -> Result<Roll, (u64, &'static str)> {
        let mut judge = Reader(Roll::of_openers(), 0);
        let mut relay = Relay::new();
        let mut raw: Vec<Vec<Receipt>> = receipts.chunks(width).map(<[Receipt]>::to_vec).collect();
        raw.reverse();
        while !raw.is_empty() || !relay.is_done() {
            let some = raw.split_off(raw.len().saturating_sub(2)).into_iter().rev().collect();
            relay.beat(some, Ok, &mut judge)?;
        }
        Ok(judge.0)
    }

    #[test]
    fn whatever_the_width_the_first_fault_in_the_order_of_the_log_is_told() {
        let held = Held::receipts(40);
        for width in [1, 3, 7, 100] {
            let roll = run(&held.receipts, width).unwrap();
            assert_eq!(roll.states().values().next(), Some(&held.state));
        }
        // A bad signature at 17; a gap at 21, of which the bad signature is told first, and at 16, which comes before it.
        let mut unsigned = held.receipts.clone();
        unsigned[17] = signed(17, held.receipts[16].id(), START + 17, &decision_body(17), &[&key(1)]);
        for place in 18..40 {
            let prev = unsigned[place - 1].id();
            unsigned[place] = signed(place as u64, prev, START + place as u64, &decision_body(0), &[&key(0)]);
        }
        for width in [1, 3, 7, 100] {
            assert_eq!(run(&unsigned, width).unwrap_err(), (17, "bad-signature"), "{width}");
            let mut gap = unsigned.clone();
            gap.remove(21);
            assert_eq!(run(&gap, width).unwrap_err(), (17, "bad-signature"), "{width}");
            gap.remove(16);
            assert_eq!(run(&gap, width).unwrap_err(), (16, "gap"), "{width}");
        }
    }
}
