//! The rule of admission, run again over entries that are in the log already: to bring states and indexes up to the
//! last head, to derive them from nothing, and to check them.
//!
//! Signatures are checked again as well, on all cores: the entries are known to be those that the log signed, but
//! that it was right to take them is then shown and not assumed. One core does some ten thousand a second.

use crate::error::StoreError;
use crate::reader::TlogReader;
use merkle::{PageId, ResourcePath, TILE_WIDTH, TreeSize};
use note::KeyTables;
use receipt::{Admitted, Body, Checked, IssuerName, IssuerState, Receipt, Shown, check_signature, place};
use std::collections::HashMap;
use std::num::NonZero;
use std::thread;

/// Entries a page.
const PAGE: u64 = TILE_WIDTH as u64;
/// Issuers whose keys are kept prepared while a log is replayed: 14 MiB of tables at most.
const PREPARED_KEYS: usize = 256;
/// Receipts for which another thread is worth its start: some milliseconds of signatures.
const WORTH_A_THREAD: usize = 32;

/// Takes the index of the first receipt of a page, or of what is left of it, and what was admitted of it.
pub(crate) type TakePage<'a> = dyn FnMut(u64, &[Admitted]) -> Result<(), StoreError> + 'a;

/// Admits the entries from `from` on, which the states in `issuers` stand before, and leaves the states after the last
/// one in `issuers`. `progress` hears how many entries of how many are done.
pub(crate) fn replay(
    log: &TlogReader,
    from: TreeSize,
    issuers: &mut HashMap<IssuerName, IssuerState>,
    page: &mut TakePage<'_>,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<(), StoreError> {
    let size = log.size();
    let tables = KeyTables::new(PREPARED_KEYS);
    let mut next = from.0;
    while let Some(id) = PageId::at(next / PAGE, size.0).filter(|_| next < size.0) {
        let bytes = log.resource(&ResourcePath::Entries(id))?.unwrap_or_default();
        let entries = merkle::decode_entries(&bytes).unwrap_or_default();
        let new = entries.get((next % PAGE) as usize..).unwrap_or_default();
        let mut admitted = Vec::with_capacity(new.len());
        for (position, vetted) in (next..).zip(vet_all(new, issuers, &tables)) {
            let one =
                vetted.and_then(|vetted| settle(vetted, issuers, &tables)).map_err(|why| StoreError::Damaged {
                    path: log.entries_path().to_owned(),
                    what: "entry",
                    position,
                    why: format!("it would not be admitted where it stands: {why}"),
                })?;
            issuers.insert(one.receipt.issuer().clone(), one.state.clone());
            admitted.push(one);
        }
        page(next, &admitted)?;
        next = id.index * PAGE + u64::from(id.width);
        progress(next, size.0);
    }
    Ok(())
}

/// A receipt whose signature was tried, unless its issuer was not known yet.
enum Vetted {
    Checked(Box<Checked>),
    First(Receipt),
}

/// The expensive part, in any order.
fn vet_all(
    entries: &[&[u8]],
    issuers: &HashMap<IssuerName, IssuerState>,
    tables: &KeyTables,
) -> Vec<Result<Vetted, String>> {
    let vet = |entry: &&[u8]| {
        let receipt = Receipt::parse(entry).map_err(|malformed| malformed.to_string())?;
        match issuers.get(receipt.issuer()) {
            Some(state) => check(&receipt, state, tables).map(|checked| Vetted::Checked(Box::new(checked))),
            None => Ok(Vetted::First(receipt)),
        }
    };
    let cores = thread::available_parallelism().map_or(1, NonZero::get);
    let share = entries.len().div_ceil(cores).max(WORTH_A_THREAD);
    thread::scope(|scope| {
        let chunks: Vec<_> =
            entries.chunks(share).map(|chunk| scope.spawn(move || chunk.iter().map(vet).collect::<Vec<_>>())).collect();
        let done = chunks.into_iter().zip(entries.chunks(share));
        // A worker that panicked has admitted nothing.
        done.flat_map(|(chunk, given)| {
            chunk.join().unwrap_or_else(|_| given.iter().map(|_| Err("its check was interrupted".to_owned())).collect())
        })
        .collect()
    })
}

/// The cheap part, in order. An issuer met for the first time was registered with the key that its `open` names.
fn settle(vetted: Vetted, issuers: &HashMap<IssuerName, IssuerState>, tables: &KeyTables) -> Result<Admitted, String> {
    let receipt = match &vetted {
        Vetted::Checked(checked) => checked.receipt(),
        Vetted::First(receipt) => receipt,
    };
    let state = match (issuers.get(receipt.issuer()), receipt.body()) {
        (Some(state), _) => state.clone(),
        (None, Body::Open(open)) => {
            let key = open.vkey.shown().and_then(|vkey| vkey.parse().ok());
            IssuerState::registered(key.ok_or("its open names no key")?)
        }
        (None, _) => return Err("its issuer was never opened".to_owned()),
    };
    let checked = match vetted {
        Vetted::Checked(checked) => *checked,
        Vetted::First(receipt) => check(&receipt, &state, tables)?,
    };
    // Whatever stands in the log already is below next_seq, and nothing below next_seq is admitted: no look-up.
    place(&state, checked, &|_| None, None).map_err(|refusal| refusal.to_string())
}

fn check(receipt: &Receipt, state: &IssuerState, tables: &KeyTables) -> Result<Checked, String> {
    check_signature(receipt, state, tables).map_err(|refusal| refusal.to_string())
}
