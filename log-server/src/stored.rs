//! The log's store behind [`crate::ledger`]'s two faces. The one place where heads are signed: over a size and a root that
//! the store has read back from its disk, into a seal that only the store opens.

use crate::ledger::{Committed, Ledger, Shelf, StoreFault};
use bytes::Bytes;
use merkle::{Hash, HashSource, LeafIndex, ResourcePath};
use note::{Checkpoint, Origin, SignedCheckpoint, SigningKey, Verified, VerifierKey, sign_checkpoint};
use receipt::{Admitted, IssuerName, IssuerState, ReceiptId, SeqNo};
use service::progress::Progress;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;
use store::{LogReader, LogStore, Sealed, StoreError};
use tokio::sync::watch;

/// The writing half, with the log's key.
pub struct StoredLedger {
    store: LogStore,
    key: SigningKey,
    damage: watch::Sender<Option<StoreFault>>,
}

/// The reading half.
struct StoredShelf {
    reader: LogReader,
    log: VerifierKey,
    damage: watch::Sender<Option<StoreFault>>,
}

/// Opens the store in `dir` of the log that signs with `key`, recovers it, and says which issuers it knows.
///
/// # Errors
/// [`StoreError`].
pub fn open(dir: &Path, key: SigningKey) -> Result<(StoredLedger, Vec<IssuerState>), StoreError> {
    let progress = Progress::new(0, "receipts replayed");
    let (store, recovery) = LogStore::open(dir, &key.verifier(), &mut |done, of| {
        progress.set_total(of);
        progress.advance(done.saturating_sub(progress.done()));
    })?;
    drop(progress);
    tracing::info!(
        size = store.reader().size().0,
        unsigned_entries = recovery.log.unsigned_entries,
        torn_head_bytes = recovery.log.torn_head_bytes,
        rebuilt_hashes = recovery.log.rebuilt_hashes,
        replayed_receipts = recovery.replayed_receipts,
        "the store is open"
    );
    let known = store.reader().issuers();
    Ok((StoredLedger { store, key, damage: watch::Sender::new(None) }, known))
}

impl Ledger for StoredLedger {
    fn commit(&mut self, admitted: &[Admitted]) -> Result<Committed, StoreFault> {
        let key = &self.key;
        let sign =
            |size, root| sign_checkpoint(&Checkpoint::new(Origin::from(key.name()), size, root), key).map(Sealed::new);
        let started = Instant::now();
        let committed = self.store.commit(admitted, sign)?;
        metrics::histogram!(crate::instruments::STORE).record(started.elapsed().as_secs_f64());
        metrics::histogram!(crate::instruments::FSYNC).record(committed.sync_time.as_secs_f64());
        Ok(Committed { head: Arc::new(committed.head), edge: Arc::new(committed.edge) })
    }

    fn register(&mut self, key: &VerifierKey) -> Result<(), StoreFault> {
        self.store.register(key);
        Ok(())
    }

    fn append_evidence(&mut self, document: &str) -> Result<(), StoreFault> {
        self.store.append_evidence(document)?;
        Ok(())
    }

    fn shelf(&self) -> Arc<dyn Shelf> {
        Arc::new(StoredShelf { reader: self.store.reader(), log: self.key.verifier(), damage: self.damage.clone() })
    }
}

impl HashSource for StoredShelf {
    fn subtree(&self, level: u8, index: u64) -> Option<Hash> {
        self.reader.subtree(level, index)
    }
}

impl Shelf for StoredShelf {
    fn head(&self) -> Result<Option<SignedCheckpoint<Verified>>, StoreFault> {
        let verify = |head: Bytes| SignedCheckpoint::parse(&head).and_then(|head| head.verify(&self.log));
        // The store checked it when it was opened; after that only heads that we signed come in.
        self.reader.latest_head().map(verify).transpose().map_err(|error| StoreFault(error.to_string()))
    }

    fn resource(&self, path: &ResourcePath) -> Result<Option<Bytes>, StoreFault> {
        self.noted(self.reader.resource(path))
    }

    fn entry(&self, index: LeafIndex) -> Result<Option<Bytes>, StoreFault> {
        self.noted(self.reader.entry(index))
    }

    fn index_of(&self, issuer: &IssuerName, seq: SeqNo) -> Result<Option<LeafIndex>, StoreFault> {
        self.noted(self.reader.index_of(issuer, seq))
    }

    fn said_at(&self, issuer: &IssuerName, seq: SeqNo) -> Result<Option<(LeafIndex, ReceiptId)>, StoreFault> {
        self.noted(self.reader.said_at(issuer, seq))
    }

    fn index_of_id(&self, id: &ReceiptId) -> Result<Option<LeafIndex>, StoreFault> {
        self.noted(self.reader.index_of_id(id))
    }

    fn evidence_page(&self, page: u64) -> Result<Vec<String>, StoreFault> {
        self.noted(self.reader.evidence_page(page))
    }

    fn doubt(&self, index: LeafIndex) -> StoreFault {
        self.fault(self.reader.damage_around(index))
    }

    fn damage(&self) -> watch::Receiver<Option<StoreFault>> {
        self.damage.subscribe()
    }
}

impl StoredShelf {
    fn noted<T>(&self, read: Result<T, StoreError>) -> Result<T, StoreFault> {
        read.map_err(|error| self.fault(error))
    }

    /// The fault for whoever asked. Damage is made known to the log as a whole too.
    fn fault(&self, error: StoreError) -> StoreFault {
        let is_damage = error.is_damage();
        let fault = StoreFault::from(error);
        if is_damage {
            // The first one counts.
            self.damage.send_if_modified(|damage| {
                let is_first = damage.is_none();
                damage.get_or_insert_with(|| fault.clone());
                is_first
            });
        }
        fault
    }
}

impl From<StoreError> for StoreFault {
    fn from(error: StoreError) -> Self {
        Self(error.to_string())
    }
}
