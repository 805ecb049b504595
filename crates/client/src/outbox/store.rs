//! The outbox's directory, and what is known from it.
//!
//! ```text
//! lock           held by the one writer
//! receipts       the signed receipts in order of seq, in the form of an entry bundle: the truth
//! acknowledged   {"seq":0,"index":17,"proof":"<tlog-proof>"} a line, in order of seq; a later line for the same seq
//!                holds a better proof (more cosignatures)
//! log            {"vkey":"…","url":"…"}: the one log these receipts go to
//! inputs         {"source":"…","line":0,"seq":1}: from this line of that input on, receipts begin at that seq
//! dropped        {"at":1234,"bytes":"<hex>"}: torn tails of `receipts` that a start removed
//! alarms         one JSON document a line: what the log did that no honest log does, with the proof of it
//! drops          {"at":1790000000123,"why":"full","request_id":"r-1"}: an action that ran without a receipt
//! disclosures/   <seq>.jsonl: what opens the committed members of the receipt at that seq
//! writer         {"writer":"node"}: who alone may write here; absent: whoever holds `lock`
//! state          the issuer's state after the first so many receipts; saves checking them again at a start
//! open           {"next_seq":57,"open":[40,52]}: allowed calls without an outcome among the first so many receipts
//! sent           the first seq that was never sent
//! ```
//!
//! The last three may be lost or stale: `state` and `open` are believed only where they fit `receipts`, and `sent` is a count
//! for people that also shows when sent receipts are missing. Everything else is durable before anybody is told. A crash means:
//!
//! * inside an append to `receipts`: a torn tail. Its receipt was never returned and never sent; it is moved to
//!   `dropped`, and its seq is signed again for another body.
//! * between `receipts` and `acknowledged`: the log may hold receipts that are not acknowledged here. They are sent
//!   again, and the log answers that it has them.
//! * inside an append to `acknowledged`: the same.

use super::append_only::{Access, AppendOnly, Framing};
use super::calls::OpenFile;
use super::drops::DropLine;
use super::error::OutboxError;
use super::small_files::{Durable, append_json, json_line, lock, make_dir, read_small, sync_dir, write_small};
use super::{disclosures, writer};
use crate::amount::amount;
use merkle::{RootHash, TreeSize};
use note::{TlogProof, VerifierKey};
use receipt::{Body, IssuerState, MAGIC, Receipt, ReceiptId, Shown};
use serde::{Deserialize, Serialize};
use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// A start checks every receipt that `state` does not cover, at some 15,000 a second: this many cost a quarter of a
/// second.
const STATE_EVERY: u64 = 4096;

#[derive(Debug)]
pub(super) struct Store {
    pub(super) dir: PathBuf,
    access: Access,
    receipts: AppendOnly,
    acknowledged: AppendOnly,
    inputs: AppendOnly,
    dropped: AppendOnly,
    alarms: AppendOnly,
    drops: AppendOnly,
    /// `None` before the first receipt.
    state: Option<IssuerState>,
    /// For each acknowledged seq, the line of `acknowledged` that holds its newest proof.
    proofs: Vec<u64>,
    log: Option<LogBinding>,
    /// The head of the newest kept proof.
    newest_head: Option<KeptHead>,
    /// The `next_seq` of the state on disk.
    state_saved_at: u64,
    /// Never dropped before the files are.
    lock: Option<File>,
}

/// The one log of an outbox.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LogBinding {
    /// The log's key. Never changes.
    pub vkey: VerifierKey,
    /// Where it was last.
    pub url: String,
}

/// A line of `acknowledged`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Acknowledged {
    pub(super) seq: u64,
    pub(super) index: u64,
    pub(super) proof: String,
}

/// A line of `inputs`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct InputMark {
    pub(super) source: String,
    pub(super) line: u64,
    pub(super) seq: u64,
}

/// The head of a kept proof.
#[derive(Clone, Debug)]
pub(super) struct KeptHead {
    pub(super) size: TreeSize,
    pub(super) root: RootHash,
    pub(super) checkpoint: String,
}

#[derive(Serialize, Deserialize)]
struct Dropped {
    at: u64,
    bytes: String,
}

/// Part of a line of `acknowledged`; the proof is passed over.
#[derive(Deserialize)]
struct AcknowledgedSeq {
    seq: u64,
}

impl Store {
    /// Opens the directory, which for [`Access::Write`] is made if need be, and locked.
    pub(super) fn open(dir: &Path, access: Access) -> Result<Self, OutboxError> {
        let lock = match access {
            Access::Write => {
                make_dir(dir)?;
                writer::refuse_other(dir)?;
                Some(lock(dir)?)
            }
            Access::Read if !dir.join("receipts").exists() => return Err(OutboxError::Absent(dir.to_owned())),
            Access::Read => None,
        };
        Self::open_locked(dir, access, lock)
    }

    /// Opens it again after a write that failed, to find out what is on disk, under the lock that is held already. Where the
    /// directory is another one by now, under that one's.
    pub(super) fn open_again(&mut self) -> Result<Self, OutboxError> {
        for file in [&self.receipts, &self.acknowledged, &self.inputs, &self.dropped, &self.alarms, &self.drops] {
            file.settle()?;
        }
        let place = |metadata: fs::Metadata| (metadata.dev(), metadata.ino());
        let held = self.lock.as_ref().and_then(|held| held.metadata().ok()).map(place);
        let there = fs::metadata(self.dir.join("lock")).ok().map(place);
        if held.is_none() || held != there {
            return Self::open(&self.dir, Access::Write);
        }
        let lock = self.lock.as_ref().map(File::try_clone).transpose();
        Self::open_locked(&self.dir, Access::Write, lock.map_err(|error| OutboxError::disk("lock", &self.dir, error))?)
    }

    fn open_locked(dir: &Path, access: Access, lock: Option<File>) -> Result<Self, OutboxError> {
        let open = |name: &str, framing| AppendOnly::open(dir.join(name), framing, access);
        let mut store = Self {
            dir: dir.to_owned(),
            access,
            // Before `receipts`: whatever is acknowledged there now was in `receipts` earlier, also for a reader beside a writer.
            acknowledged: open("acknowledged", Framing::Lines)?,
            inputs: open("inputs", Framing::Lines)?,
            receipts: open("receipts", Framing::Prefixed)?,
            dropped: open("dropped", Framing::Lines)?,
            alarms: open("alarms", Framing::Lines)?,
            drops: open("drops", Framing::Lines)?,
            state: None,
            proofs: Vec::new(),
            log: read_small(&dir.join("log"))?,
            newest_head: None,
            state_saved_at: 0,
            lock,
        };
        // Everything is judged before anything is changed.
        store.derive_acknowledged()?;
        store.derive_state()?;
        if access == Access::Write {
            store.refuse_what_was_lost()?;
            store.drop_torn()?;
            disclosures::remove_from(dir, store.count())?;
            sync_dir(dir)?;
            store.save_state(STATE_EVERY / 4);
        }
        Ok(store)
    }

    #[cfg(test)]
    pub(super) fn refuse_receipts(&mut self) {
        self.receipts.refuse_writes();
    }

    pub(super) fn state(&self) -> Option<&IssuerState> {
        self.state.as_ref()
    }

    pub(super) fn log(&self) -> Option<&LogBinding> {
        self.log.as_ref()
    }

    pub(super) fn newest_head(&self) -> Option<&KeptHead> {
        self.newest_head.as_ref()
    }

    /// How many receipts there are; the next seq.
    pub(super) fn count(&self) -> u64 {
        self.receipts.count()
    }

    /// How many of them are acknowledged; the first seq that is not.
    pub(super) fn acknowledged_count(&self) -> u64 {
        self.proofs.len() as u64
    }

    pub(super) fn dropped_count(&self) -> u64 {
        self.dropped.count()
    }

    pub(super) fn alarm_count(&self) -> u64 {
        self.alarms.count()
    }

    pub(super) fn entry(&self, seq: u64) -> Result<Option<Vec<u8>>, OutboxError> {
        self.receipts.read(seq)
    }

    /// The newest proof kept for `seq`.
    pub(super) fn proof(&self, seq: u64) -> Result<Option<Acknowledged>, OutboxError> {
        let Some(line) = usize::try_from(seq).ok().and_then(|seq| self.proofs.get(seq)) else { return Ok(None) };
        self.acknowledged_line(*line)
    }

    pub(super) fn alarms(&self) -> Result<Vec<String>, OutboxError> {
        let mut alarms = Vec::new();
        for place in 0..self.alarms.count() {
            alarms.extend(self.alarms.read(place)?.map(|line| String::from_utf8_lossy(&line).into_owned()));
        }
        Ok(alarms)
    }

    pub(super) fn input_marks(&self) -> Result<Vec<InputMark>, OutboxError> {
        let mut marks = Vec::new();
        for place in 0..self.inputs.count() {
            marks.extend(json_line(&self.inputs, place)?);
        }
        Ok(marks)
    }

    /// Appends receipts that were admitted one after the other; `state` is the state after the last.
    pub(super) fn append_receipts(&mut self, receipts: &[Receipt], state: IssuerState) -> Result<(), OutboxError> {
        self.receipts.append(receipts.iter().map(Receipt::bytes))?;
        self.state = Some(state);
        self.save_state(STATE_EVERY);
        Ok(())
    }

    /// Appends acknowledgements: for each the next seq that has none, or one that has.
    pub(super) fn append_acknowledged(
        &mut self,
        lines: &[Acknowledged],
        newest_head: Option<KeptHead>,
    ) -> Result<(), OutboxError> {
        let first = self.acknowledged.count();
        append_json(&mut self.acknowledged, lines)?;
        for (line, acknowledged) in (first..).zip(lines) {
            match usize::try_from(acknowledged.seq).ok().and_then(|seq| self.proofs.get_mut(seq)) {
                Some(held) => *held = line,
                None => self.proofs.push(line),
            }
        }
        self.newest_head = newest_head.or(self.newest_head.take());
        Ok(())
    }

    pub(super) fn append_input_mark(&mut self, mark: &InputMark) -> Result<(), OutboxError> {
        append_json(&mut self.inputs, std::slice::from_ref(mark))
    }

    pub(super) fn append_alarm(&mut self, alarm: &impl Serialize) -> Result<(), OutboxError> {
        append_json(&mut self.alarms, std::slice::from_ref(alarm))
    }

    pub(super) fn append_drops(&mut self, drops: &[DropLine]) -> Result<(), OutboxError> {
        append_json(&mut self.drops, drops)
    }

    pub(super) fn drops_from(&self, first: u64) -> Result<Vec<DropLine>, OutboxError> {
        (first..self.drops.count()).map(|place| json_line(&self.drops, place)).filter_map(Result::transpose).collect()
    }

    pub(super) fn drop_count(&self) -> u64 {
        self.drops.count()
    }

    /// What `open` holds, if it can be read; whether it fits is for the caller to see.
    pub(super) fn saved_open(&self) -> Option<OpenFile> {
        read_small(&self.dir.join("open")).ok().flatten()
    }

    pub(super) fn save_open(&self, open: &OpenFile) -> Result<(), OutboxError> {
        write_small(&self.dir, "open", open, Durable::No)
    }

    /// Remembers the log, durably.
    pub(super) fn bind(&mut self, binding: LogBinding) -> Result<(), OutboxError> {
        write_small(&self.dir, "log", &binding, Durable::Yes)?;
        self.log = Some(binding);
        Ok(())
    }

    /// The first seq that was never sent, as far as that is known.
    pub(super) fn sent(&self) -> u64 {
        self.noted_as_sent().clamp(self.acknowledged_count(), self.count())
    }

    fn noted_as_sent(&self) -> u64 {
        let text = fs::read_to_string(self.dir.join("sent")).unwrap_or_default();
        merkle::decimal::parse_u64(text.trim_end()).unwrap_or(0)
    }

    /// Remembers that everything before `seq` was sent. A count for people, so an error is of no consequence.
    pub(super) fn set_sent(&self, seq: u64) {
        let path = self.dir.join("sent");
        // Always as long as the longest number, so that one write replaces the other whole.
        let text = format!("{seq:<20}\n");
        let written = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(&path)
            .and_then(|file| file.write_all_at(text.as_bytes(), 0));
        if let Err(error) = written {
            tracing::debug!(path = %path.display(), %error, "what was sent could not be counted");
        }
    }

    /// Tells a torn tail, which nobody was told of, from receipts that were returned and cannot be read any more: to sign
    /// their seqs again would be a second history.
    fn refuse_what_was_lost(&self) -> Result<(), OutboxError> {
        let lost = |reason: String| {
            Err(OutboxError::damaged(self.receipts.path(), format!("at byte {}", self.receipts.end()), reason))
        };
        let (sent, count) = (self.noted_as_sent(), self.receipts.count());
        if sent > count {
            return lost(format!("{} sent and only {count} are here", amount(sent, "receipt was", "receipts were")));
        }
        // A length that was changed makes whole receipts look like the beginning of a longer one.
        let tail = self.receipts.torn().get(2..).unwrap_or_default();
        let magic = format!("{MAGIC}\n");
        let begun = tail.windows(magic.len()).filter(|window| *window == magic.as_bytes()).count();
        let is_whole =
            self.state.as_ref().is_some_and(|state| receipt::admit(Some(state), tail, &|_| None, None).is_ok());
        if begun > 1 || is_whole || first_key(tail).is_some() {
            return lost("the length does not fit the receipt behind it".into());
        }
        Ok(())
    }

    /// Moves a torn tail of `receipts` to `dropped` and cuts the others, whose last lines nobody was told of.
    fn drop_torn(&mut self) -> Result<(), OutboxError> {
        for file in [&mut self.acknowledged, &mut self.inputs, &mut self.dropped, &mut self.alarms, &mut self.drops] {
            file.cut()?;
        }
        if self.receipts.torn().is_empty() {
            return Ok(());
        }
        let line = Dropped { at: self.receipts.end(), bytes: hex::encode(self.receipts.torn()) };
        // A crash between the line and the cut would write it twice.
        let last = self
            .dropped
            .count()
            .checked_sub(1)
            .map(|place| json_line::<Dropped>(&self.dropped, place))
            .transpose()?
            .flatten();
        if last.is_none_or(|last| (last.at, &last.bytes) != (line.at, &line.bytes)) {
            append_json(&mut self.dropped, std::slice::from_ref(&line))?;
        }
        tracing::warn!(dir = %self.dir.display(), at = line.at, bytes = line.bytes.len() / 2, "dropped the beginning of a receipt that was never returned nor sent");
        self.receipts.cut()
    }

    /// Admits every receipt that `state` does not cover.
    fn derive_state(&mut self) -> Result<(), OutboxError> {
        self.state = self.saved_state()?;
        self.state_saved_at = self.state.as_ref().map_or(0, |state| state.next_seq().0);
        for seq in self.state_saved_at..self.receipts.count() {
            let entry = self.receipts.read(seq)?.unwrap_or_default();
            let damaged = |reason: String| OutboxError::damaged(self.receipts.path(), format!("at seq {seq}"), reason);
            let state = match self.state.take() {
                Some(state) => state,
                None => IssuerState::registered(
                    first_key(&entry).ok_or_else(|| damaged("the first receipt is no open with a vkey".into()))?,
                ),
            };
            let admitted = receipt::admit(Some(&state), &entry, &|_| None, None)
                .map_err(|refusal| damaged(refusal.to_string()))?;
            self.state = Some(admitted.state);
        }
        Ok(())
    }

    /// The saved state, where it is that of the first so many receipts here.
    fn saved_state(&self) -> Result<Option<IssuerState>, OutboxError> {
        let Ok(Some(state)) = read_small::<IssuerState>(&self.dir.join("state")) else { return Ok(None) };
        let Some(last) = state.next_seq().0.checked_sub(1) else { return Ok(None) };
        let (Some(first), Some(last)) = (self.receipts.read(0)?, self.receipts.read(last)?) else { return Ok(None) };
        let fits = ReceiptId::of(&last) == state.head() && first_key(&first).as_ref() == Some(state.registered_key());
        Ok(fits.then_some(state))
    }

    fn save_state(&mut self, every: u64) {
        let Some(state) = &self.state else { return };
        if self.access == Access::Write && state.next_seq().0 - self.state_saved_at >= every {
            match write_small(&self.dir, "state", state, Durable::No) {
                Ok(()) => self.state_saved_at = state.next_seq().0,
                Err(error) => {
                    tracing::debug!(%error, "the state could not be saved; the next start checks more receipts")
                }
            }
        }
    }

    fn derive_acknowledged(&mut self) -> Result<(), OutboxError> {
        for line in 0..self.acknowledged.count() {
            let seq = json_line::<AcknowledgedSeq>(&self.acknowledged, line)?.map(|acknowledged| acknowledged.seq);
            let count = self.proofs.len() as u64;
            match seq {
                Some(seq) if seq < count => self.proofs[seq as usize] = line,
                Some(seq) if seq == count && seq < self.receipts.count() => self.proofs.push(line),
                _ => {
                    let reason = "a receipt is acknowledged that is not in the outbox, or out of order: `receipts` is older than `acknowledged`";
                    return Err(OutboxError::damaged(
                        self.acknowledged.path(),
                        format!("on line {}", line + 1),
                        reason,
                    ));
                }
            }
        }
        if let Some(last) = self.acknowledged.count().checked_sub(1) {
            self.newest_head = self.acknowledged_line(last)?.and_then(|line| KeptHead::of(&line.proof));
        }
        Ok(())
    }

    fn acknowledged_line(&self, line: u64) -> Result<Option<Acknowledged>, OutboxError> {
        json_line(&self.acknowledged, line)
    }
}

impl KeptHead {
    fn of(proof: &str) -> Option<Self> {
        let checkpoint = TlogProof::parse(proof.as_bytes()).ok()?.checkpoint;
        let head = checkpoint.claimed();
        Some(Self { size: head.size, root: head.root, checkpoint: checkpoint.note().to_string() })
    }
}

/// The key that an `open` names.
pub(super) fn first_key(entry: &[u8]) -> Option<VerifierKey> {
    match Receipt::parse(entry).ok()?.body() {
        Body::Open(open) => open.vkey.shown()?.parse().ok(),
        _ => None,
    }
}
