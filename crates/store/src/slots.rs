//! The head that a witness holds for one log, durable before its cosignature leaves.
//!
//! ```text
//! slot 0 at 0, slot 1 at SLOT_LEN; the newer whole one counts
//!
//! slot    SHA-256 of the rest | u64 number | u32 length | payload | zeroes up to SLOT_LEN
//! payload u32 length | checkpoint, as the log signed it | cosignature line
//! ```
//!
//! A head is written to slot 0, synced, written to slot 1, synced, and only then given back. So a write that is torn
//! damages one slot and the other is whole: it holds the head before, or the new one. And a slot that rots later does
//! not make the witness forget: every head that was given back is in both. (One slot after the other in turn would
//! do for torn writes, but a newest slot that rots would then look the same as one that was torn, and the witness
//! could cosign a second history from the head before.) Opening writes both again: what it reads may be there in memory
//! alone, when the process before was killed, or a sync failed.

use crate::append_file::{self, sync_directory};
use crate::disk::{Disk, DiskFile, OpenFor, RealDisk};
use crate::error::StoreError;
use crate::sealed::Sealed;
use note::{Cosignature, SignedCheckpoint, Verified, VerifierKey, parse_cosignature_line};
use sha2::{Digest, Sha256};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A slot's length: a checkpoint with its log's signature and a cosignature are under 1 KiB; extension lines may
/// make it longer. A multiple of the largest common sector, so that no write touches both slots.
const SLOT_LEN: u64 = 64 * 1024;
const HEADER_LEN: usize = 32 + 8 + 4;
const MAX_PAYLOAD: usize = SLOT_LEN as usize - HEADER_LEN;

/// A head with the cosignature that a witness made over it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cosigned {
    checkpoint: SignedCheckpoint<Verified>,
    cosignature: Cosignature,
}

impl Cosigned {
    /// A head and the cosignature over its text.
    pub fn new(checkpoint: SignedCheckpoint<Verified>, cosignature: Cosignature) -> Cosigned {
        Cosigned { checkpoint, cosignature }
    }

    /// The head.
    pub fn checkpoint(&self) -> &SignedCheckpoint<Verified> {
        &self.checkpoint
    }

    /// The cosignature.
    pub fn cosignature(&self) -> &Cosignature {
        &self.cosignature
    }

    /// When it was made, seconds since the epoch.
    pub fn timestamp_s(&self) -> u64 {
        self.cosignature.timestamp_s
    }
}

/// The state file of one log at one witness.
#[derive(Debug)]
pub struct HeadSlots {
    path: PathBuf,
    file: Arc<dyn DiskFile>,
    /// Number of the head written last.
    number: u64,
    poisoned: bool,
}

impl HeadSlots {
    /// Opens the file at `path`, or makes it, and reads the head held. What is read is verified under the log's and
    /// the witness's key: a slot that does not verify is damage, and then the witness must not cosign.
    ///
    /// # Errors
    /// [`StoreError::Damaged`] when slots were written and none is whole, or the newest does not verify;
    /// [`StoreError::Io`]; [`StoreError::InUse`] while another process has it.
    pub fn open(
        path: &Path,
        log: &VerifierKey,
        witness: &VerifierKey,
    ) -> Result<(HeadSlots, Option<Cosigned>), StoreError> {
        HeadSlots::open_on(&RealDisk, path, log, witness)
    }

    /// As [`HeadSlots::open`], on a disk of the caller's.
    ///
    /// # Errors
    /// As [`HeadSlots::open`].
    pub fn open_on(
        disk: &dyn Disk,
        path: &Path,
        log: &VerifierKey,
        witness: &VerifierKey,
    ) -> Result<(HeadSlots, Option<Cosigned>), StoreError> {
        let failed = |error| StoreError::io(path, error);
        let file = disk.open(path, OpenFor::Writing).map_err(failed)?;
        append_file::lock(&*file, path, path)?;
        // Also when it was there: the process that made it may have been killed before it came to this.
        sync_directory(disk, path.parent().filter(|dir| *dir != Path::new("")).unwrap_or(Path::new(".")))?;
        let length = file.len().map_err(failed)?;
        let mut slots = HeadSlots { path: path.to_owned(), file, number: 0, poisoned: false };
        let written = [slots.read(0, length)?, slots.read(1, length)?];
        let damaged =
            |why: &str| StoreError::Damaged { path: path.to_owned(), what: "slot", position: 0, why: why.to_owned() };
        let newest = written.iter().flatten().filter_map(|slot| whole(slot)).max_by_key(|(number, _)| *number);
        let Some((number, payload)) = newest else {
            // A first write that was torn: nothing was given back yet, and the other slot was never written.
            let torn_first = written[1].as_ref().is_none_or(|slot| slot.iter().all(|byte| *byte == 0));
            return if torn_first { Ok((slots, None)) } else { Err(damaged("no slot is whole")) };
        };
        slots.number = number;
        let held = parse(payload, log, witness).ok_or_else(|| damaged("it holds no head cosigned for this log"))?;
        let newest = render(number, &held)?;
        slots.write(0, &newest)?;
        slots.write(1, &newest)?;
        Ok((slots, Some(held)))
    }

    /// Makes a head durable, and only then gives it back.
    ///
    /// # Errors
    /// [`StoreError::HeadTooLong`], and nothing has changed; any other, and nothing more is taken until the file is
    /// opened again.
    pub fn persist(&mut self, head: Sealed<Cosigned>) -> Result<Cosigned, StoreError> {
        if self.poisoned {
            return Err(StoreError::Poisoned);
        }
        let number = self.number + 1;
        let slot = render(number, head.peek())?;
        self.poisoned = true;
        self.write(0, &slot)?;
        self.write(1, &slot)?;
        self.poisoned = false;
        self.number = number;
        Ok(head.open())
    }

    /// Writes a slot and makes it durable.
    fn write(&self, place: u64, slot: &[u8]) -> Result<(), StoreError> {
        let written = self.file.write_all_at(slot, place * SLOT_LEN).and_then(|()| self.file.sync_data());
        written.map_err(|error| StoreError::io(&self.path, error))
    }

    fn read(&self, slot: u64, length: u64) -> Result<Option<Vec<u8>>, StoreError> {
        let left = length.saturating_sub(slot * SLOT_LEN).min(SLOT_LEN);
        if left == 0 {
            return Ok(None);
        }
        let mut bytes = vec![0; left as usize];
        let read = self.file.read_exact_at(&mut bytes, slot * SLOT_LEN);
        read.map_err(|error| StoreError::io(&self.path, error)).map(|()| Some(bytes))
    }
}

/// Number and payload of a slot, if its checksum is right.
fn whole(slot: &[u8]) -> Option<(u64, &[u8])> {
    let (checksum, rest) = slot.split_first_chunk::<32>()?;
    let (number, rest) = rest.split_first_chunk::<8>()?;
    let (length, rest) = rest.split_first_chunk::<4>()?;
    let payload = rest.get(..u32::from_be_bytes(*length) as usize)?;
    let computed = Sha256::new().chain_update(number).chain_update(length).chain_update(payload).finalize();
    (computed.as_slice() == checksum).then_some((u64::from_be_bytes(*number), payload))
}

fn render(number: u64, head: &Cosigned) -> Result<Vec<u8>, StoreError> {
    let (checkpoint, line) = (head.checkpoint.bytes(), head.cosignature.line.as_bytes());
    let payload_len = 4 + checkpoint.len() + line.len();
    if payload_len > MAX_PAYLOAD {
        return Err(StoreError::HeadTooLong { limit: MAX_PAYLOAD });
    }
    // Both are below 64 KiB.
    let payload = [&(checkpoint.len() as u32).to_be_bytes()[..], checkpoint, line].concat();
    let (number, length) = (number.to_be_bytes(), (payload.len() as u32).to_be_bytes());
    let checksum = Sha256::new().chain_update(number).chain_update(length).chain_update(&payload).finalize();
    Ok([checksum.as_slice(), &number, &length, &payload].concat())
}

fn parse(payload: &[u8], log: &VerifierKey, witness: &VerifierKey) -> Option<Cosigned> {
    let (length, rest) = payload.split_first_chunk::<4>()?;
    let (checkpoint, line) = rest.split_at_checked(u32::from_be_bytes(*length) as usize)?;
    let checkpoint = SignedCheckpoint::parse(checkpoint).ok()?.verify(log).ok()?;
    let line = parse_cosignature_line(std::str::from_utf8(line).ok()?).ok()?;
    let cosignature = line.verify(checkpoint.note().text(), witness).ok()?;
    Some(Cosigned { checkpoint, cosignature })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;
    use merkle::{RootHash, TreeSize, leaf_hash};
    use note::{Checkpoint, KeyKind, KeyName, Origin, SigningKey, cosign, sign_checkpoint};
    use std::fs;

    fn keys() -> (SigningKey, SigningKey) {
        let key = |name, kind, seed| SigningKey::from_seed(KeyName::new(name).unwrap(), kind, [seed; 32]);
        (key("log.example", KeyKind::Ed25519, 1), key("witness.example", KeyKind::CosignatureV1, 2))
    }

    fn cosigned(size: u64) -> Cosigned {
        let (log, witness) = keys();
        let head = Checkpoint::new(Origin::new("log.example").unwrap(), TreeSize(size), RootHash(leaf_hash(b"x")));
        let head = sign_checkpoint(&head, &log).unwrap();
        let cosignature = cosign(head.note().text(), &witness, 1_000 + size).unwrap();
        Cosigned::new(head, cosignature)
    }

    fn open(path: &Path) -> Result<(HeadSlots, Option<Cosigned>), StoreError> {
        let (log, witness) = keys();
        HeadSlots::open(path, &log.verifier(), &witness.verifier())
    }

    #[test]
    fn the_last_head_persisted_is_the_head_held() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("slots");
        assert!(open(&path).unwrap().1.is_none());
        for size in 1..6 {
            let (mut slots, held) = open(&path).unwrap();
            assert_eq!(held.map(|held| held.timestamp_s()), (size > 1).then_some(999 + size));
            assert_eq!(slots.persist(Sealed::new(cosigned(size))).unwrap(), cosigned(size));
        }
    }

    /// A file in which heads 1 and 2 were persisted, and its bytes.
    fn holding_two(path: &Path) -> Vec<u8> {
        let (mut slots, _) = open(path).unwrap();
        slots.persist(Sealed::new(cosigned(1))).unwrap();
        slots.persist(Sealed::new(cosigned(2))).unwrap();
        drop(slots);
        fs::read(path).unwrap()
    }

    fn held_size(path: &Path) -> TreeSize {
        open(path).unwrap().1.unwrap().checkpoint().checkpoint().size
    }

    #[test]
    fn a_torn_write_of_either_slot_leaves_the_head_before_it_or_the_new_one() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("slots");
        let whole = holding_two(&path);
        let third = render(3, &cosigned(3)).unwrap();
        for place in [0, SLOT_LEN as usize] {
            for cut in (0..=third.len()).step_by(3) {
                // Slot 1 is written when slot 0 is durable.
                let mut torn = whole.clone();
                torn.resize(torn.len().max(place + third.len()), 0);
                torn[..third.len()][..if place == 0 { cut } else { third.len() }]
                    .copy_from_slice(&third[..if place == 0 { cut } else { third.len() }]);
                torn[place..place + cut].copy_from_slice(&third[..cut]);
                fs::write(&path, &torn).unwrap();
                let is_written = torn[..third.len()] == third;
                assert_eq!(held_size(&path), TreeSize(if is_written { 3 } else { 2 }), "slot at {place} cut at {cut}");
                // Opening has mended the other slot: a second fault is survived as well.
                let mut mended = fs::read(&path).unwrap();
                mended[40] ^= 1;
                fs::write(&path, &mended).unwrap();
                assert_eq!(held_size(&path), TreeSize(if is_written { 3 } else { 2 }), "slot at {place} cut at {cut}");
            }
        }
    }

    #[test]
    fn a_bit_that_flips_in_either_slot_never_makes_the_witness_forget_a_head() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("slots");
        let whole = holding_two(&path);
        let slot = render(2, &cosigned(2)).unwrap().len();
        for byte in (0..slot).chain(SLOT_LEN as usize..SLOT_LEN as usize + slot) {
            let mut rotten = whole.clone();
            rotten[byte] ^= 1;
            fs::write(&path, &rotten).unwrap();
            assert_eq!(held_size(&path), TreeSize(2), "byte {byte}");
        }
    }

    #[test]
    fn a_first_write_that_was_torn_is_no_head() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("slots");
        let first = render(1, &cosigned(1)).unwrap();
        for cut in 0..first.len() {
            fs::write(&path, &first[..cut]).unwrap();
            assert_eq!(open(&path).unwrap().1, None, "cut at {cut}");
        }
    }

    #[test]
    fn two_damaged_slots_and_another_logs_head_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("slots");
        let (mut slots, _) = open(&path).unwrap();
        slots.persist(Sealed::new(cosigned(1))).unwrap();
        slots.persist(Sealed::new(cosigned(2))).unwrap();
        let (log, witness) = keys();
        assert!(matches!(open(&path), Err(StoreError::InUse(_))));
        drop(slots);
        assert!(matches!(
            HeadSlots::open(&path, &witness.verifier(), &log.verifier()),
            Err(StoreError::Damaged { .. })
        ));
        let mut bytes = fs::read(&path).unwrap();
        bytes[40] ^= 1;
        bytes[SLOT_LEN as usize + 40] ^= 1;
        fs::write(&path, bytes).unwrap();
        assert!(matches!(open(&path), Err(StoreError::Damaged { .. })));
    }
}
