//! A store in memory, for tests: stricter than the real one about what it is handed, and able to fail on request.
#![allow(clippy::unwrap_used, clippy::panic)]

use crate::ledger::{Committed, Ledger, Shelf, StoreFault};
use bytes::Bytes;
use merkle::{EdgeTree, Hash, HashSource, LeafIndex, MemoryTree, ResourcePath};
use note::{
    Checkpoint, KeyKind, KeyName, Origin, SignedCheckpoint, SigningKey, Verified, VerifierKey, sign_checkpoint,
};
use receipt::{Admitted, IssuerName, ReceiptId, SeqNo};
use std::collections::HashMap;
use std::sync::{Arc, Mutex};

#[derive(Clone)]
pub(crate) struct MemoryLedger(Arc<Mutex<Inner>>);

struct Inner {
    key: SigningKey,
    entries: Vec<Bytes>,
    tree: MemoryTree,
    heads: Vec<SignedCheckpoint<Verified>>,
    indices: HashMap<(IssuerName, SeqNo), u64>,
    registered: Vec<VerifierKey>,
    evidence: Vec<String>,
    commits_until_failure: Option<usize>,
    hashes_lost: bool,
}

impl MemoryLedger {
    pub(crate) fn new() -> Self {
        let key = SigningKey::from_seed(KeyName::new("log.example").unwrap(), KeyKind::Ed25519, [5; 32]);
        Self(Arc::new(Mutex::new(Inner {
            key,
            entries: Vec::new(),
            tree: MemoryTree::new(),
            heads: Vec::new(),
            indices: HashMap::new(),
            registered: Vec::new(),
            evidence: Vec::new(),
            commits_until_failure: None,
            hashes_lost: false,
        })))
    }

    pub(crate) fn fail_after(&self, commits: usize) {
        self.0.lock().unwrap().commits_until_failure = Some(commits);
    }

    pub(crate) fn lose_hashes(&self) {
        self.0.lock().unwrap().hashes_lost = true;
    }

    pub(crate) fn commits(&self) -> usize {
        self.0.lock().unwrap().heads.len()
    }

    pub(crate) fn entries(&self) -> Vec<Bytes> {
        self.0.lock().unwrap().entries.clone()
    }

    pub(crate) fn evidence(&self) -> Vec<String> {
        self.0.lock().unwrap().evidence.clone()
    }
}

impl Ledger for MemoryLedger {
    fn commit(&mut self, admitted: &[Admitted]) -> Result<Committed, StoreFault> {
        let mut inner = self.0.lock().unwrap();
        assert!(inner.commits_until_failure != Some(0), "a store that has failed was written to again");
        if let Some(left) = &mut inner.commits_until_failure {
            *left -= 1;
            if *left == 0 {
                return Err(StoreFault("no space left on device".to_owned()));
            }
        }
        for Admitted { state, receipt } in admitted {
            let (issuer, seq) = (receipt.issuer().clone(), receipt.seq());
            assert!(inner.registered.iter().any(|key| *key.name() == issuer.0), "{issuer} is not registered");
            assert_eq!(
                (state.next_seq().0, state.head()),
                (seq.0 + 1, receipt.id()),
                "the state is not the one after the receipt"
            );
            assert!(
                seq.0 == 0 || inner.indices.contains_key(&(issuer.clone(), SeqNo(seq.0 - 1))),
                "{issuer} would have a gap before {seq}"
            );
            let index = inner.entries.len() as u64;
            assert!(inner.indices.insert((issuer, seq), index).is_none(), "two receipts at one seq");
            inner.entries.push(Bytes::copy_from_slice(receipt.bytes()));
            inner.tree.push(receipt.id().0);
        }
        let checkpoint = Checkpoint::new(Origin::new("log.example").unwrap(), inner.tree.size(), inner.tree.root());
        let head = sign_checkpoint(&checkpoint, &inner.key).unwrap();
        inner.heads.push(head.clone());
        let mut edge = EdgeTree::default();
        inner.tree.leaves().iter().for_each(|leaf| edge.push(*leaf));
        Ok(Committed { head: Arc::new(head), edge: Arc::new(edge) })
    }

    fn register(&mut self, key: &VerifierKey) -> Result<(), StoreFault> {
        self.0.lock().unwrap().registered.push(key.clone());
        Ok(())
    }

    fn append_evidence(&mut self, document: &str) -> Result<(), StoreFault> {
        self.0.lock().unwrap().evidence.push(document.to_owned());
        Ok(())
    }

    fn shelf(&self) -> Arc<dyn Shelf> {
        Arc::new(self.clone())
    }
}

impl HashSource for MemoryLedger {
    fn subtree(&self, level: u8, index: u64) -> Option<Hash> {
        let inner = self.0.lock().unwrap();
        if inner.hashes_lost { None } else { inner.tree.subtree(level, index) }
    }
}

impl Shelf for MemoryLedger {
    fn head(&self) -> Result<Option<SignedCheckpoint<Verified>>, StoreFault> {
        Ok(self.0.lock().unwrap().heads.last().cloned())
    }

    fn resource(&self, _: &ResourcePath) -> Result<Option<Bytes>, StoreFault> {
        Ok(None)
    }

    fn entry(&self, index: LeafIndex) -> Result<Option<Bytes>, StoreFault> {
        Ok(self.0.lock().unwrap().entries.get(index.0 as usize).cloned())
    }

    fn index_of(&self, issuer: &IssuerName, seq: SeqNo) -> Result<Option<LeafIndex>, StoreFault> {
        Ok(self.0.lock().unwrap().indices.get(&(issuer.clone(), seq)).map(|index| LeafIndex(*index)))
    }

    fn said_at(&self, issuer: &IssuerName, seq: SeqNo) -> Result<Option<(LeafIndex, ReceiptId)>, StoreFault> {
        let Some(index) = self.index_of(issuer, seq)? else { return Ok(None) };
        Ok(self.subtree(0, index.0).map(|leaf| (index, ReceiptId(leaf))))
    }

    fn index_of_id(&self, _: &ReceiptId) -> Result<Option<LeafIndex>, StoreFault> {
        Ok(None)
    }

    fn evidence_page(&self, _: u64) -> Result<Vec<String>, StoreFault> {
        Ok(Vec::new())
    }
}
