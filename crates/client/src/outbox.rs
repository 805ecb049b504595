//! The gate's durable outbox: a receipt is signed, chained and on disk before anybody learns of it.
//!
//! A gate that signs seq 41, sends it, crashes, and then signs another seq 41 has signed two histories, and every log
//! and every auditor will say so for ever. Hence the order here: append, fdatasync, return; only what was returned is
//! ever sent ([`crate::Sender`]); and what is on disk is what is continued. See the head of `outbox/store.rs` for the
//! files and for what a crash means at each step.
//!
//! One process writes to an outbox at a time, and it goes to one log. Everything is kept: the receipts, and for each the
//! proof that the log holds it, checked before it was kept.
//!
//! Blocking: every call reads or writes files, [`Outbox::append`] with an fdatasync. Handles are cheap to clone and
//! may be used from many threads.

mod append_only;
mod calls;
mod disclosures;
mod drops;
mod error;
mod inputs;
mod reader;
mod signing;
mod small_files;
mod status;
mod store;
mod verify;
mod writer;

pub use calls::{OpenCall, OpenCalls};
pub use drops::{DropLine, DropReason, Drops};
pub use error::{BodyFault, OutboxError};
pub use inputs::SubmittedInput;
pub use reader::OutboxReader;
pub use status::{OutboxView, Status};
pub use store::LogBinding;
pub use verify::{Fault as VerifyFault, Verification};

use crate::proof::CheckedProof;
use append_only::Access;
use merkle::LeafIndex;
use note::{KeyKind, SigningKey, VerifierKey};
use receipt::{Digest, Disclosure, IssuerName, Receipt, ReceiptId, SeqNo, UnixMillis};
use serde_json::{Map, Value};
use signing::{Inner, Signer, is_open};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};
use store::Store;
use tokio::sync::watch;

/// What a gate says about itself in its first receipt (protocol 3.4).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GateDescription {
    /// Software and version.
    pub gate: Option<String>,
    /// The longest silence the gate allows itself, in milliseconds; when it has nothing to say for so long, it says
    /// `heartbeat`. The outbox does not do that by itself.
    pub heartbeat_ms: Option<u64>,
    /// Digest of the policy the gate decides by.
    pub policy_digest: Option<Digest>,
}

/// An outbox, locked by this process until the last handle is dropped.
#[derive(Clone, Debug)]
pub struct Outbox(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    dir: PathBuf,
    inner: Mutex<Inner>,
    /// How many receipts there are.
    appended: watch::Sender<u64>,
    /// The issuer's name; empty where there is neither a receipt nor a key.
    name: String,
    /// How many of them are acknowledged.
    acknowledged: watch::Sender<u64>,
}

/// A body to be signed, and what opens the members of it that are committed.
#[derive(Clone, Copy, Debug)]
pub struct NewBody<'a> {
    /// One JSON object on one line, signed as it stands.
    pub text: &'a str,
    /// Kept by the gate, in `disclosures/`.
    pub disclosures: &'a [Disclosure],
}

/// A receipt that is signed, chained and durable, and will be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Queued {
    /// Its seq.
    pub seq: SeqNo,
    /// Its id.
    pub id: ReceiptId,
    /// Its time, which is not before the previous one's.
    pub issued_at: UnixMillis,
}

/// A receipt and the proof that is kept for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kept {
    /// The receipt.
    pub receipt: Receipt,
    /// Where in the log it is.
    pub index: LeafIndex,
    /// The `tlog-proof`, its text.
    pub proof: String,
}

impl Outbox {
    /// Opens the outbox in `dir`, which is made if need be, to append and to send.
    ///
    /// # Errors
    /// [`OutboxError`]: another process has it, the key does not continue its stream, or its files are damaged.
    pub fn open(dir: &Path, key: SigningKey, gate: GateDescription) -> Result<Self, OutboxError> {
        if key.kind() != KeyKind::Ed25519 {
            return Err(OutboxError::WrongKeyKind);
        }
        let store = Store::open(dir, Access::Write)?;
        if let Some(state) = store.state()
            && *state.keys().current() != key.verifier()
        {
            let held = state.keys().current().to_string();
            return Err(OutboxError::OtherKey { dir: dir.to_owned(), held, given: key.verifier().to_string() });
        }
        Ok(Self::of(store, Some(Signer { key, gate })))
    }

    /// Opens the outbox in `dir` without a key: to send what is in it, and nothing more.
    ///
    /// # Errors
    /// As [`Outbox::open`]; also where there is none.
    pub fn open_to_send(dir: &Path) -> Result<Self, OutboxError> {
        if !dir.join("receipts").exists() {
            return Err(OutboxError::Absent(dir.to_owned()));
        }
        Ok(Self::of(Store::open(dir, Access::Write)?, None))
    }

    fn of(store: Store, signer: Option<Signer>) -> Self {
        let (appended, acknowledged) =
            (watch::Sender::new(store.count()), watch::Sender::new(store.acknowledged_count()));
        let dir = store.dir.clone();
        let by_state = store.state().map(|state| state.name().to_string());
        let name = by_state.or_else(|| signer.as_ref().map(|signer| signer.key.name().to_string())).unwrap_or_default();
        let inner = Mutex::new(Inner { store, signer, next_key: None, stopped: false });
        Self(Arc::new(Shared { dir, inner, appended, name, acknowledged }))
    }

    /// Signs a receipt with `body` (one JSON object on one line, signed as it stands), chains it to the previous one and
    /// makes it durable. The first receipt is preceded by an `open`, unless it is one. `now` is the gate's clock; a time
    /// before the last receipt's becomes the last receipt's.
    ///
    /// # Errors
    /// [`OutboxError`]. A body that is refused leaves no trace. After [`OutboxError::Disk`] the outbox does nothing more
    /// until it is opened again.
    pub fn append(&self, body: &str, now: UnixMillis) -> Result<Queued, OutboxError> {
        let queued = self.append_all(&[body], now)?;
        queued.into_iter().next().ok_or(OutboxError::Stopped)
    }

    /// The same for several bodies, with one write and one fdatasync for all of them, or none of them.
    ///
    /// # Errors
    /// As [`Outbox::append`].
    pub fn append_all(&self, bodies: &[impl AsRef<str>], now: UnixMillis) -> Result<Vec<Queued>, OutboxError> {
        let bodies: Vec<NewBody<'_>> =
            bodies.iter().map(|text| NewBody { text: text.as_ref(), disclosures: &[] }).collect();
        let receipts = self.append_new(&bodies, now)?;
        Ok(receipts.iter().map(Queued::of).collect())
    }

    /// The same, where bodies hold commitments: what opens them is durable in `disclosures/` before the receipts are. Answers
    /// the receipts.
    ///
    /// # Errors
    /// As [`Outbox::append`].
    pub fn append_new(&self, bodies: &[NewBody<'_>], now: UnixMillis) -> Result<Vec<Receipt>, OutboxError> {
        let mut inner = self.working()?;
        let receipts = inner.append_all(bodies, now)?;
        self.0.appended.send_replace(inner.store.count());
        Ok(receipts)
    }

    /// What opens the committed members of the receipt at `seq`; empty where it has none.
    ///
    /// # Errors
    /// [`OutboxError`].
    pub fn disclosures(&self, seq: SeqNo) -> Result<Vec<Disclosure>, OutboxError> {
        disclosures::read(&self.working()?.store.dir, seq)
    }

    /// How many receipts are not acknowledged.
    ///
    /// # Errors
    /// [`OutboxError::Stopped`].
    pub fn backlog(&self) -> Result<u64, OutboxError> {
        let inner = self.working()?;
        Ok(inner.store.count() - inner.store.acknowledged_count())
    }

    /// Whether a write failed, and nothing more is done until [`Outbox::reopen`].
    pub fn is_stopped(&self) -> bool {
        self.working().is_err()
    }

    /// After a write that failed: finds out what is on disk, and goes on with that. What was being written may be there or
    /// not. Does nothing where no write failed.
    ///
    /// # Errors
    /// [`OutboxError`]: the disk still refuses, or the files are damaged; the outbox stays stopped.
    pub fn reopen(&self) -> Result<(), OutboxError> {
        let was_poisoned = self.0.inner.is_poisoned();
        let mut inner = self.0.inner.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if !inner.stopped && !was_poisoned {
            return Ok(());
        }
        inner.reopen()?;
        self.0.inner.clear_poison();
        self.0.appended.send_replace(inner.store.count());
        self.0.acknowledged.send_replace(inner.store.acknowledged_count());
        Ok(())
    }

    /// Appends the `open`, where there is no receipt yet and `body`, which comes next, is none itself.
    ///
    /// # Errors
    /// As [`Outbox::append`].
    pub fn ensure_open_before(&self, body: &str, now: UnixMillis) -> Result<(), OutboxError> {
        let mut inner = self.working()?;
        if inner.store.count() == 0 && !is_open(body) {
            inner.append_all(&[], now)?;
            self.0.appended.send_replace(inner.store.count());
        }
        Ok(())
    }

    /// Hands the stream over from the key that signs now to `new`, of the same name: signs a `rotate` by both. From then
    /// on `new` signs; keep the old key until the log has the `rotate`, and open the outbox with the new one.
    ///
    /// # Errors
    /// As [`Outbox::append`].
    pub fn rotate(&self, new: SigningKey, now: UnixMillis) -> Result<Queued, OutboxError> {
        let mut inner = self.working()?;
        let receipt = inner.rotate(new, now)?;
        self.0.appended.send_replace(inner.store.count());
        Ok(Queued::of(&receipt))
    }

    /// Where it is.
    pub fn dir(&self) -> &Path {
        &self.0.dir
    }

    /// Whose receipts these are; `None` where there is neither a receipt nor a key.
    ///
    /// # Errors
    /// [`OutboxError::Stopped`].
    pub fn issuer(&self) -> Result<Option<IssuerName>, OutboxError> {
        let inner = self.working()?;
        let by_state = inner.store.state().map(|state| state.name().clone());
        Ok(by_state.or_else(|| inner.signer.as_ref().map(|signer| IssuerName(signer.key.name().clone()))))
    }

    /// The issuer's name, also while the outbox is stopped; empty where there is neither a receipt nor a key.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// The seq that the next receipt will have.
    ///
    /// # Errors
    /// [`OutboxError::Stopped`].
    pub fn next_seq(&self) -> Result<SeqNo, OutboxError> {
        Ok(SeqNo(self.working()?.store.count()))
    }

    /// The first seq that is not acknowledged.
    ///
    /// # Errors
    /// [`OutboxError::Stopped`].
    pub fn first_unsent(&self) -> Result<SeqNo, OutboxError> {
        Ok(SeqNo(self.working()?.store.acknowledged_count()))
    }

    /// The receipt at `seq`; `None` where there is none.
    ///
    /// # Errors
    /// [`OutboxError`].
    pub fn receipt(&self, seq: SeqNo) -> Result<Option<Receipt>, OutboxError> {
        receipt(&self.working()?.store, seq)
    }

    /// The receipt at `seq` with its proof; `None` where it is not acknowledged.
    ///
    /// # Errors
    /// [`OutboxError`].
    pub fn kept(&self, seq: SeqNo) -> Result<Option<Kept>, OutboxError> {
        kept(&self.working()?.store, seq)
    }

    /// The receipts that are not acknowledged, oldest first, as they are when each is asked for. Ends after an error.
    pub fn unsent(&self) -> impl Iterator<Item = Result<Receipt, OutboxError>> {
        let mut next = Some(self.first_unsent());
        std::iter::from_fn(move || {
            let found = next.take()?.and_then(|seq| self.receipt(seq)).transpose()?;
            next = found.as_ref().ok().and_then(|receipt| receipt.seq().next()).map(Ok);
            Some(found)
        })
    }

    /// The bytes of the receipts from `from` on, at most `most` of them and, beyond the first, `max_bytes` in the form in
    /// which they are submitted. They are not parsed: what is here was.
    ///
    /// # Errors
    /// [`OutboxError`].
    pub fn entries_from(
        &self,
        from: SeqNo,
        most: usize,
        max_bytes: usize,
    ) -> Result<Vec<(SeqNo, Vec<u8>)>, OutboxError> {
        let inner = self.working()?;
        let mut entries = Vec::new();
        let mut bytes = 0;
        for seq in (from.0..inner.store.count()).take(most) {
            let Some(entry) = inner.store.entry(seq)? else { break };
            bytes += 2 + entry.len();
            if bytes > max_bytes && !entries.is_empty() {
                break;
            }
            entries.push((SeqNo(seq), entry));
        }
        Ok(entries)
    }

    /// Keeps proofs, durably, each for the next seq that has none or for one that has. What is kept was checked against
    /// the log's key and the entry: nothing else becomes a [`CheckedProof`].
    ///
    /// # Errors
    /// [`OutboxError`]: a proof of another receipt or by another log, an order other than that of the seqs, or a head that
    /// contradicts one that is kept ([`OutboxError::LogFork`]). Nothing is kept then.
    pub fn acknowledge(&self, proofs: &[(SeqNo, CheckedProof)]) -> Result<(), OutboxError> {
        let mut inner = self.working()?;
        inner.acknowledge(proofs)?;
        self.0.acknowledged.send_replace(inner.store.acknowledged_count());
        Ok(())
    }

    /// The log these receipts go to, once one was named.
    ///
    /// # Errors
    /// [`OutboxError::Stopped`].
    pub fn log(&self) -> Result<Option<LogBinding>, OutboxError> {
        Ok(self.working()?.store.log().cloned())
    }

    /// Names the log these receipts go to, for ever; only its address may change.
    ///
    /// # Errors
    /// [`OutboxError::OtherLog`] where another one was named before.
    pub fn bind(&self, vkey: &VerifierKey, url: &str) -> Result<(), OutboxError> {
        let mut inner = self.working()?;
        let binding = LogBinding { vkey: vkey.clone(), url: url.to_owned() };
        match inner.store.log() {
            Some(held) if held.vkey != *vkey => Err(OutboxError::OtherLog {
                dir: self.0.dir.clone(),
                held: held.vkey.to_string(),
                given: vkey.to_string(),
            }),
            Some(held) if *held == binding => Ok(()),
            _ => inner.write(|store| store.bind(binding)),
        }
    }

    /// Remembers that everything before `seq` was sent, for [`Status::sent`].
    ///
    /// # Errors
    /// [`OutboxError::Stopped`].
    pub fn mark_sent(&self, seq: SeqNo) -> Result<(), OutboxError> {
        let inner = self.working()?;
        if seq.0 > inner.store.sent() {
            inner.store.set_sent(seq.0);
        }
        Ok(())
    }

    /// The head of the newest kept proof: the log's checkpoint as it came. `None` before the first.
    ///
    /// # Errors
    /// [`OutboxError::Stopped`].
    pub fn newest_kept_head(&self) -> Result<Option<String>, OutboxError> {
        Ok(self.working()?.store.newest_head().map(|head| head.checkpoint.clone()))
    }

    /// Keeps, durably, what the log did that no honest log does. `document` is one JSON object.
    ///
    /// # Errors
    /// [`OutboxError`].
    pub fn keep_alarm(&self, document: &Map<String, Value>) -> Result<(), OutboxError> {
        self.working()?.write(|store| store.append_alarm(document))
    }

    /// Tells how many receipts there are, now and whenever that changes.
    pub fn watch_appended(&self) -> watch::Receiver<u64> {
        self.0.appended.subscribe()
    }

    /// Tells how many receipts are acknowledged, now and whenever that changes.
    pub fn watch_acknowledged(&self) -> watch::Receiver<u64> {
        self.0.acknowledged.subscribe()
    }

    /// From now on receipts cannot be written, until [`Outbox::reopen`].
    #[cfg(test)]
    pub(crate) fn refuse_receipts(&self) {
        if let Ok(mut inner) = self.0.inner.lock() {
            inner.store.refuse_receipts();
        }
    }

    fn working(&self) -> Result<MutexGuard<'_, Inner>, OutboxError> {
        match self.0.inner.lock() {
            Ok(inner) if !inner.stopped => Ok(inner),
            // A thread that panicked inside a call leaves as much unknown as a failed write.
            _ => Err(OutboxError::Stopped),
        }
    }
}

fn receipt(store: &Store, seq: SeqNo) -> Result<Option<Receipt>, OutboxError> {
    let Some(entry) = store.entry(seq.0)? else { return Ok(None) };
    match Receipt::parse(&entry) {
        Ok(receipt) => Ok(Some(receipt)),
        Err(malformed) => {
            Err(OutboxError::damaged(&store.dir.join("receipts"), format!("at seq {seq}"), malformed.to_string()))
        }
    }
}

fn kept(store: &Store, seq: SeqNo) -> Result<Option<Kept>, OutboxError> {
    let (Some(receipt), Some(acknowledged)) = (receipt(store, seq)?, store.proof(seq.0)?) else { return Ok(None) };
    Ok(Some(Kept { receipt, index: LeafIndex(acknowledged.index), proof: acknowledged.proof }))
}

impl Queued {
    pub(crate) fn of(receipt: &Receipt) -> Self {
        Self { seq: receipt.seq(), id: receipt.id(), issued_at: receipt.issued_at() }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;
    use note::KeyName;

    #[test]
    fn after_a_write_that_failed_nothing_more_is_done_until_the_outbox_is_opened_again() {
        let dir = tempfile::tempdir().unwrap();
        let key = || SigningKey::from_seed(KeyName::new("gate.example/a").unwrap(), KeyKind::Ed25519, [1; 32]);
        let outbox = Outbox::open(dir.path(), key(), GateDescription::default()).unwrap();
        let body = r#"{"type":"heartbeat"}"#;
        outbox.append(body, UnixMillis(1)).unwrap();
        outbox.0.inner.lock().unwrap().store.refuse_receipts();
        assert!(matches!(outbox.append(body, UnixMillis(1)), Err(OutboxError::Disk { .. })));
        assert!(matches!(outbox.append(body, UnixMillis(1)), Err(OutboxError::Stopped)));
        assert!(matches!(outbox.status(), Err(OutboxError::Stopped)));
        assert!(matches!(outbox.unsent().collect::<Vec<_>>()[..], [Err(OutboxError::Stopped)]));
        drop(outbox);
        let outbox = Outbox::open(dir.path(), key(), GateDescription::default()).unwrap();
        assert_eq!(outbox.append(body, UnixMillis(1)).unwrap().seq, SeqNo(2));
    }
}
