//! What the log knows of its issuers, shared between the committer, which alone changes it, and everybody who reads.
//!
//! Two facts about each: its state, from its receipts in the log, and whether the operator's file lists it now. Only a
//! listed issuer can submit; a state stays for ever.

use merkle::LeafIndex;
use note::{KeyTables, VerifierKey};
use receipt::{IssuerName, IssuerState, SeqNo};
use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// Issuers whose keys are kept prepared, those that sign most: 14 MiB of tables when all are in use
/// ([`note::PREPARED_KEY_BYTES`]). More of them at once are served as well, at the price of plain checks.
const PREPARED_KEYS: usize = 256;

/// All issuers.
#[derive(Debug)]
pub struct Registry {
    known: RwLock<BTreeMap<IssuerName, Known>>,
    key_tables: KeyTables,
}

/// One issuer.
#[derive(Clone, Debug)]
pub struct Known {
    /// Its state, as of the newest commit.
    pub state: Arc<IssuerState>,
    /// Leaf index of its first receipt.
    pub first_index: Option<LeafIndex>,
    /// Leaf index of its newest receipt.
    pub last_index: Option<LeafIndex>,
    /// Forks of it seen since the start of this process, kept as evidence or not.
    pub forks: u64,
    listed: bool,
}

impl Known {
    /// An issuer as the store has it; not listed.
    pub fn new(state: IssuerState, first_index: Option<LeafIndex>, last_index: Option<LeafIndex>) -> Self {
        Self { state: Arc::new(state), first_index, last_index, forks: 0, listed: false }
    }

    fn has_receipts(&self) -> bool {
        self.state.next_seq() > SeqNo(0)
    }

    /// Whether it can submit.
    pub fn is_listed(&self) -> bool {
        self.listed
    }
}

impl Default for Registry {
    /// Without issuers.
    fn default() -> Self {
        Self::new([])
    }
}

impl Registry {
    /// With these issuers.
    pub fn new(known: impl IntoIterator<Item = Known>) -> Self {
        let known = known.into_iter().map(|known| (known.state.name().clone(), known)).collect();
        Self { known: RwLock::new(known), key_tables: KeyTables::new(PREPARED_KEYS) }
    }

    /// What checks the issuers' signatures: one for the whole log, so that what is prepared serves all its threads.
    pub fn key_tables(&self) -> &KeyTables {
        &self.key_tables
    }

    /// What is known of one issuer.
    pub fn get(&self, name: &IssuerName) -> Option<Known> {
        self.read().get(name).cloned()
    }

    /// The state of an issuer that may submit.
    pub fn submitter(&self, name: &IssuerName) -> Option<Arc<IssuerState>> {
        self.read().get(name).filter(|known| known.listed).map(|known| Arc::clone(&known.state))
    }

    /// All of them, in the order of their names' bytes.
    pub fn all(&self) -> Vec<Known> {
        self.read().values().cloned().collect()
    }

    /// The first of `keys` whose name has receipts under another registered key. (One without receipts can still be
    /// registered anew: a mistyped key binds nobody.)
    pub fn conflicting<'k>(&self, keys: &'k [VerifierKey]) -> Option<&'k VerifierKey> {
        let known = self.read();
        keys.iter().find(|key| {
            let known = known.get(&IssuerName((*key).name().clone()));
            known.is_some_and(|known| known.has_receipts() && known.state.registered_key() != *key)
        })
    }

    /// Those of `keys` whose name is not known yet.
    pub fn missing(&self, keys: &[VerifierKey]) -> Vec<VerifierKey> {
        let known = self.read();
        keys.iter().filter(|key| !known.contains_key(&IssuerName((*key).name().clone()))).cloned().collect()
    }

    /// From now on exactly `keys` are listed; names that are new are known from now on.
    pub(crate) fn list(&self, keys: &[VerifierKey]) {
        let mut known = self.write();
        let names: HashSet<IssuerName> = keys.iter().map(|key| IssuerName(key.name().clone())).collect();
        for key in keys {
            let new = || Known::new(IssuerState::registered(key.clone()), None, None);
            let known = known.entry(IssuerName(key.name().clone())).or_insert_with(new);
            if !known.has_receipts() && known.state.registered_key() != key {
                *known = new();
            }
        }
        for (name, known) in known.iter_mut() {
            known.listed = names.contains(name);
        }
    }

    /// A commit has moved an issuer on; `last_index` is its newest receipt's.
    pub(crate) fn advance(&self, advanced: impl IntoIterator<Item = (Arc<IssuerState>, LeafIndex, Option<LeafIndex>)>) {
        let mut known = self.write();
        for (state, last_index, first_index) in advanced {
            if let Some(known) = known.get_mut(state.name()) {
                known.first_index = known.first_index.or(first_index);
                known.last_index = Some(last_index);
                known.state = state;
            }
        }
    }

    /// A fork of this issuer was seen.
    pub(crate) fn count_fork(&self, name: &IssuerName) {
        if let Some(known) = self.write().get_mut(name) {
            known.forks = known.forks.saturating_add(1);
        }
    }

    fn read(&self) -> RwLockReadGuard<'_, BTreeMap<IssuerName, Known>> {
        self.known.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, BTreeMap<IssuerName, Known>> {
        self.known.write().unwrap_or_else(PoisonError::into_inner)
    }
}
