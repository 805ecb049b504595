//! The walk over a log's entries: all that is remembered of them while they go by, one field a family.
//!
//! ```text
//! read ──> parse, hash, signature (all cores) ──> tree, place, then each family in the order of the log
//! chunk n+1             chunk n                            chunk n-1
//! ```
//!
//! The three run at the same time. Signatures are computed under the keys that were known when their chunk came up;
//! where a rotation came in between, placing computes them again.

use crate::action::Action;
use crate::bundle::ReadError;
use crate::calls::{CallChecks, CallTerms};
use crate::foreign::ForeignChecks;
use crate::issuer::IssuerChecks;
use crate::judge::Terms;
use crate::kept::KeptProofs;
use crate::pass::{Page, Pass};
use crate::sequence::SequenceChecks;
use crate::signers::{Entry, Signers};
use merkle::{LeafIndex, RootHash};
use note::KeyTables;
use rayon::prelude::*;
use receipt::Body;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Entries that one core takes at a time: half a millisecond of signatures, so that none waits long for the other at the end
/// of a chunk.
const PIECE_ENTRIES: usize = 16;

/// Issuers whose keys are kept prepared during one judgement: 14 MiB of tables at most.
const PREPARED_KEYS: usize = 256;

/// The families that go by the entries.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Walk {
    pub(crate) issuers: IssuerChecks,
    pub(crate) foreign: ForeignChecks,
    pub(crate) sequence: SequenceChecks,
    pub(crate) calls: CallChecks,
}

impl Walk {
    /// Before the first entry.
    pub(crate) fn new(terms: &Terms<'_>) -> Walk {
        Walk {
            issuers: IssuerChecks::new(terms.issuers),
            foreign: ForeignChecks::new(),
            sequence: SequenceChecks::new(terms.rules),
            calls: CallChecks::new(),
        }
    }

    /// After it was read back.
    pub(crate) fn resumed(self) -> Walk {
        Walk { issuers: self.issuers.with_signers(), ..self }
    }

    /// Goes by all entries that `pass` has left. Tells `progress` how many have been judged.
    pub(crate) fn run(
        &mut self,
        pass: &mut Pass<'_>,
        kept: &mut KeptProofs,
        calls: &CallTerms<'_>,
        progress: &dyn Fn(u64),
    ) -> Result<(), ReadError> {
        let tables = KeyTables::new(PREPARED_KEYS);
        let mut judged = pass.began_at();
        let mut read = pass.next_chunk()?;
        let mut prepared: Vec<Entry> = Vec::new();
        while read.is_some() || !prepared.is_empty() {
            let (signers, coming) = (self.issuers.signers(), read.take().unwrap_or_default());
            judged += prepared.len() as u64;
            let (placed, parsed) = rayon::join(
                || -> Result<Option<Vec<Page>>, ReadError> {
                    let next = pass.next_chunk()?;
                    for entry in prepared {
                        pass.grow(entry.leaf)?;
                        self.place(entry, kept, calls, pass.roots())?;
                    }
                    Ok(next)
                },
                || prepare(&coming, &signers, &tables),
            );
            (read, prepared) = (placed?, parsed);
            progress(judged);
        }
        Ok(())
    }

    /// The next entry of the log.
    fn place(
        &mut self,
        entry: Entry,
        kept: &mut KeptProofs,
        calls: &CallTerms<'_>,
        roots: &BTreeMap<u64, RootHash>,
    ) -> Result<(), ReadError> {
        kept.compare(LeafIndex(entry.index), &entry.leaf);
        let Some((at, receipt)) = self.issuers.place(entry, calls.read_entry)? else { return Ok(()) };
        self.calls.add(calls, &at, &receipt)?;
        let action = match receipt.body() {
            Body::Decision(decision) => {
                self.sequence.head_of(&at, decision, roots);
                Some(Action::of_decision(at, decision))
            }
            Body::Foreign(carried) => self.foreign.add(&at, carried, &calls.rules.foreign_keys),
            Body::Unknown { type_name, .. } => {
                self.issuers.count_unknown_type(&at, type_name);
                None
            }
            Body::Dropped(dropped) => {
                self.issuers.count_dropped(&at, dropped);
                None
            }
            _ => None,
        };
        if self.issuers.has_unlisted() {
            self.sequence.others_before();
        }
        action.map_or(Ok(()), |action| self.sequence.add(calls, action))
    }
}

fn prepare(pages: &[Page], signers: &Signers, tables: &KeyTables) -> Vec<Entry> {
    let entries: Vec<(u64, &[u8])> = pages.iter().flat_map(Page::entries).collect();
    entries
        .into_par_iter()
        .with_max_len(PIECE_ENTRIES)
        .map(|(index, bytes)| signers.prepare(index, bytes, tables))
        .collect()
}
