//! The walk of level `full`: every entry in order through the rule of admission, and into the tree.
//!
//! Holds what is known after the entries so far, and where the first one stands that breaks section 4. Fetches nothing and
//! believes nothing: that the entries are the log's is shown only by the root, which the caller compares with a head.

use bytes::Bytes;
use merkle::{Frontier, LeafIndex, RootHash, TreeSize, leaf_hash};
use receipt::{IssuerState, Judge, Malformed, Receipt, Refusal, Relay, Roll, UnixMillis, Unsigned};
use std::collections::VecDeque;
use tokio::sync::mpsc::Receiver;

/// Entries that one core reads at a time: enough that handing over costs nothing, few enough that no core waits.
const GROUP: usize = 64;
/// Bytes of entries judged at a time. A parsed receipt is some ten times as large, and three lots are in memory.
const BEAT_BYTES: usize = 2 << 20;
/// Groups judged at a time, for each core.
const GROUPS_A_CORE: usize = 4;
/// Most issuers of one log that are followed, some 400 bytes each; as many as an auditor's file may list.
pub(crate) const MAX_ISSUERS: usize = 100_000;

/// What is known after the entries so far.
#[derive(Debug, Clone)]
pub(crate) struct Walk {
    roll: Roll,
    frontier: Frontier,
}

/// Why a walk goes no further.
#[derive(Debug)]
pub(crate) enum Stop {
    /// An entry breaks section 4.
    Breach(Box<Breach>),
    /// More issuers than are followed.
    TooManyIssuers,
}

/// The first entry that breaks section 4, if the entries are the log's.
#[derive(Debug)]
pub(crate) struct Breach {
    /// Where it stands.
    pub(crate) index: LeafIndex,
    /// Its bytes.
    pub(crate) entry: Vec<u8>,
    /// What admission has to say. A receipt at a seq below the next one is taken for a fork: what is held there is not known.
    pub(crate) refusal: Refusal,
    /// Its issuer as it was before it, or later by nothing but receipts behind it; `None` if there is none.
    pub(crate) state: Option<IssuerState>,
    /// The tree over the entries up to some size, this one included.
    pub(crate) seen: (TreeSize, RootHash),
}

/// An entry, read.
#[derive(Debug)]
pub(crate) struct Read {
    entry: Bytes,
    receipt: Result<Receipt, Malformed>,
}

impl Walk {
    /// Before the first entry, or where the states and the frontier of an earlier walk stand. `roll` says who exists.
    pub(crate) fn new(roll: Roll, frontier: Frontier) -> Walk {
        Walk { roll, frontier }
    }

    /// How many entries were admitted.
    pub(crate) fn size(&self) -> TreeSize {
        self.frontier.size()
    }

    /// The root over them.
    pub(crate) fn root(&self) -> RootHash {
        self.frontier.root()
    }

    /// The tree over them.
    pub(crate) fn frontier(&self) -> &Frontier {
        &self.frontier
    }

    /// The issuers after them.
    pub(crate) fn states(&self) -> impl Iterator<Item = &IssuerState> {
        self.roll.states().values()
    }

    /// Admits entries as they come, in order, until there are no more, judged at `now`. Blocks, and computes on all cores.
    /// Whatever is answered, every entry up to [`Walk::size`] is admitted then, unless it is a breach that stands before it.
    pub(crate) fn run(&mut self, mut entries: Receiver<Vec<Bytes>>, now: UnixMillis) -> Result<(), Stop> {
        let mut relay = Relay::new();
        let mut waiting: VecDeque<Bytes> = VecDeque::new();
        let mut judge = Admission { walk: self, now };
        loop {
            if relay.is_done() && waiting.is_empty() {
                waiting.extend(entries.blocking_recv().into_iter().flatten());
            }
            let groups = groups(&mut waiting, &mut entries);
            if groups.is_empty() && relay.is_done() {
                return Ok(());
            }
            relay.beat(groups, |group| Ok(group.into_iter().map(read).collect()), &mut judge)?;
        }
    }
}

impl Breach {
    /// Whether what was walked before it is all there is: nothing behind it was admitted.
    pub(crate) fn stopped(&self, walk: &Walk) -> bool {
        walk.size().0 == self.index.0
    }
}

/// What is judged at a time: of what waits, and what else has come.
fn groups(waiting: &mut VecDeque<Bytes>, entries: &mut Receiver<Vec<Bytes>>) -> Vec<Vec<Bytes>> {
    let (mut groups, mut bytes) = (Vec::new(), 0);
    while bytes < BEAT_BYTES && groups.len() < GROUPS_A_CORE * rayon::current_num_threads() {
        if waiting.is_empty() {
            waiting.extend(entries.try_recv().into_iter().flatten());
        }
        let mut group = Vec::with_capacity(GROUP.min(waiting.len()));
        while bytes < BEAT_BYTES && group.len() < GROUP {
            let Some(entry) = waiting.pop_front() else { break };
            bytes += entry.len();
            group.push(entry);
        }
        if group.is_empty() {
            break;
        }
        groups.push(group);
    }
    groups
}

fn read(entry: Bytes) -> Read {
    Read { receipt: Receipt::parse(&entry), entry }
}

struct Admission<'a> {
    walk: &'a mut Walk,
    now: UnixMillis,
}

impl Judge for Admission<'_> {
    type Page = Vec<Read>;
    type Error = Stop;

    fn page(&mut self, page: Vec<Read>, unsigned: &mut Vec<Unsigned>) -> Result<(), Stop> {
        for Read { entry, receipt } in page {
            let index = LeafIndex(self.walk.size().0);
            let receipt = match receipt {
                Ok(receipt) => receipt,
                Err(malformed) => return Err(self.breach(index, &entry, None, malformed.into())),
            };
            match self.walk.roll.place(index, receipt.clone(), Some(self.now)) {
                Ok(placed) => {
                    self.walk.frontier.push(receipt.id().0);
                    unsigned.push(placed);
                }
                Err(presumed) => {
                    // With its signature computed it may be another code that comes first.
                    let refusal = self.walk.roll.refusal(&receipt, None, Some(self.now)).unwrap_or(presumed);
                    return Err(self.breach(index, &entry, Some(&receipt), refusal));
                }
            }
        }
        let issuers = self.walk.roll.states().len();
        if issuers > MAX_ISSUERS { Err(Stop::TooManyIssuers) } else { Ok(()) }
    }

    fn bad_signature(&mut self, unsigned: &Unsigned) -> Result<(), Stop> {
        let Unsigned { index, receipt, .. } = unsigned;
        Err(self.breach(*index, receipt.bytes(), Some(receipt), unsigned.refusal()))
    }
}

impl Admission<'_> {
    fn breach(&self, index: LeafIndex, entry: &[u8], receipt: Option<&Receipt>, refusal: Refusal) -> Stop {
        let state = receipt.and_then(|receipt| self.walk.roll.states().get(receipt.issuer()).cloned());
        let mut frontier = self.walk.frontier.clone();
        if frontier.size().0 == index.0 {
            frontier.push(leaf_hash(entry));
        }
        let seen = (frontier.size(), frontier.root());
        Stop::Breach(Box::new(Breach { index, entry: entry.to_vec(), refusal, state, seen }))
    }
}
