//! The tiled log: made, committed to, and recovered.

use super::every_call::{at_every_call, seeds};
use counterfoil_store::{Sealed, StoreError, Tlog};
use merkle::{RootHash, TreeSize, root_of};
use note::{SignedCheckpoint, Verified};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;
use testkit::faulty_disk::{Call, Extent, Fault, FaultyDisk, Trouble};

pub(crate) const DIR: &str = "/srv/logs/log";

type Head = (TreeSize, RootHash);
type Signed = HashMap<(u64, [u8; 32]), SignedCheckpoint<Verified>>;

thread_local! {
    /// The same heads are signed and verified thousands of times.
    static SIGNED: RefCell<Signed> = RefCell::default();
    static VERIFIED: RefCell<HashMap<Vec<u8>, Option<Head>>> = RefCell::default();
}

fn head(size: TreeSize, root: RootHash) -> Sealed<SignedCheckpoint<Verified>> {
    let sign = || crate::stage::sign(size, root);
    Sealed::new(SIGNED.with_borrow_mut(|signed| signed.entry((size.0, root.0.0)).or_insert_with(sign).clone()))
}

fn is_ours(bytes: &[u8]) -> Option<Head> {
    VERIFIED.with_borrow_mut(|known| *known.entry(bytes.to_vec()).or_insert_with(|| crate::stage::is_ours(bytes)))
}

/// What anybody outside may have seen: the root at every size for which a head was released.
#[derive(Clone, Debug, Default)]
pub(crate) struct Released(BTreeMap<u64, RootHash>);

impl Released {
    pub(crate) fn see(&mut self, log: &Tlog) {
        if let Some((size, root)) = log.reader().latest_head().map(|head| is_ours(&head).unwrap()) {
            assert_eq!(size, log.reader().size());
            assert_eq!(*self.0.entry(size.0).or_insert(root), root, "two histories of {size}");
        }
    }

    fn size(&self) -> u64 {
        self.0.last_key_value().map_or(0, |(size, _)| *size)
    }

    /// Commits entries that no other life of the log has.
    pub(crate) fn commit(&mut self, log: &mut Tlog, life: &str, count: u64) -> Result<(), StoreError> {
        let first = log.reader().size().0;
        let entries: Vec<String> = (first..first + count).map(|number| format!("{life} {number}")).collect();
        let appended = log.append(&entries)?;
        log.record_head(head(appended.size, appended.root))?;
        self.see(log);
        Ok(())
    }

    /// Everything released is still there, and all of it is sound.
    pub(crate) fn assert_kept(&self, log: &Tlog) {
        let reader = log.reader();
        for (size, root) in &self.0 {
            assert!(*size <= reader.size().0, "{size} entries were released, and {} are there", reader.size());
            assert_eq!(root_of(&reader, TreeSize(*size)).unwrap(), *root, "another history at {size}");
        }
        log.verify_all(&is_ours, &mut |_, _| {}).unwrap();
    }
}

pub(crate) fn open(disk: &FaultyDisk) -> Result<Tlog, StoreError> {
    Tlog::open_on(disk, Path::new(DIR), &is_ours).map(|(log, _)| log)
}

/// Starts the log on a disk as it was found, checks it, and goes on with it.
fn go_on(disk: &FaultyDisk, released: &mut Released, life: &str) {
    let mut log = open(disk).unwrap_or_else(|error| panic!("{life}: it does not start: {error}"));
    released.see(&log);
    released.commit(&mut log, life, 2).unwrap();
    released.commit(&mut log, life, 0).unwrap();
    released.assert_kept(&log);
}

/// All that can happen next: a new process, a power cut, and a power cut after a new process has released what it
/// found.
fn judge(disk: &FaultyDisk, released: &Released, seed: u64) {
    let found = disk.after_kill();
    let mut seen = released.clone();
    seen.see(&open(&found).unwrap());
    go_on(&found.after_power_cut(0), &mut seen, "after a kill and a power cut");
    go_on(&disk.after_kill(), &mut released.clone(), "after a kill");
    for seed in std::iter::once(0).chain(seed..seed + seeds(1)) {
        go_on(&disk.after_power_cut(seed), &mut released.clone(), &format!("after power cut {seed}"));
    }
}

/// A log of 250 entries, and what it has released.
pub(crate) fn base() -> (FaultyDisk, Released) {
    let disk = FaultyDisk::new();
    let mut released = Released::default();
    let mut log = Tlog::create_on(&disk, Path::new(DIR)).unwrap();
    for count in [1, 200, 49] {
        released.commit(&mut log, "at first", count).unwrap();
    }
    drop(log);
    (disk.after_power_cut(0), released)
}

fn commits(disk: &FaultyDisk, released: &mut Released, counts: &[u64]) -> Result<(), StoreError> {
    let mut log = open(disk)?;
    released.see(&log);
    for count in counts {
        if let Err(error) = released.commit(&mut log, "then", *count) {
            assert!(matches!(log.append(&["more"]), Err(StoreError::Poisoned)), "after {error} it takes more");
            assert!(matches!(log.append(&["more"]), Err(StoreError::Poisoned)));
            return Err(error);
        }
    }
    Ok(())
}

#[test]
fn trouble_at_any_call_of_a_creation_leaves_a_log_or_none() {
    let act = |disk: &FaultyDisk| {
        let mut released = Released::default();
        let made = Tlog::create_on(disk, Path::new(DIR));
        let is_done = made.and_then(|mut log| released.commit(&mut log, "at first", 1)).is_ok();
        (released, is_done)
    };
    let covered = at_every_call(&FaultyDisk::new(), &Extent::ALL, act, |disk, released, seed| {
        let mut found = vec![disk.after_kill()];
        found.extend([0, 1].into_iter().chain(seed..seed + seeds(2)).map(|seed| disk.after_power_cut(seed)));
        for disk in found {
            match open(&disk) {
                Err(StoreError::Missing(_)) if released.size() == 0 => {
                    drop(Tlog::create_on(&disk, Path::new(DIR)).unwrap());
                }
                found => drop(found.unwrap()),
            }
            go_on(&disk, &mut released.clone(), "after a creation");
            go_on(&disk.after_power_cut(0), &mut released.clone(), "after a creation and a power cut");
        }
    });
    assert!(covered.calls > 60, "{covered:?}");
    let kinds = [Call::CreateDir, Call::Rename, Call::SyncDirectory, Call::Find, Call::Open, Call::Lock, Call::Len];
    assert!(kinds.iter().all(|kind| covered.met.contains(kind)), "{covered:?}");
}

#[test]
fn trouble_at_any_call_of_a_commit_loses_nothing_released_and_forks_nothing() {
    let (start, before) = base();
    let act = |disk: &FaultyDisk| {
        let mut released = before.clone();
        let is_done = commits(disk, &mut released, &[3, 4, 0]).is_ok();
        (released, is_done)
    };
    let covered = at_every_call(&start, &Extent::ALL, act, |disk, released, seed| judge(disk, &released, seed));
    assert!(covered.calls > 100, "{covered:?}");
    let kinds = [Call::Open, Call::Find, Call::Len, Call::Read, Call::Write, Call::Sync, Call::Lock];
    assert!(kinds.iter().all(|kind| covered.met.contains(kind)), "{covered:?}");
}

#[test]
fn trouble_at_any_call_of_the_recovery_from_trouble_loses_nothing_either() {
    let (start, before) = base();
    let mut kinds = BTreeSet::new();
    let mut calls = 0;
    for seed in 2..2 + seeds(2) {
        // Over a page's edge, with a power cut just before the head is durable, or just before the entries are.
        let disk = start.copy();
        let mut released = before.clone();
        let mut log = open(&disk).unwrap();
        let number = if seed % 2 == 0 { 2 } else { 1 };
        let at = nth_sync(&disk, &mut released.clone(), number);
        disk.arm(Some(Fault { at, trouble: Trouble::Killed, extent: Extent::None, seed }));
        released.commit(&mut log, "then", 10).unwrap_err();
        drop(log);
        let found = disk.after_power_cut(seed);
        let act = |disk: &FaultyDisk| {
            let mut released = released.clone();
            let opened = open(disk).map(|log| released.see(&log));
            (released, opened.is_ok())
        };
        let covered = at_every_call(&found, &Extent::ALL, act, |disk, released, seed| judge(disk, &released, seed));
        calls += covered.calls;
        kinds.extend(covered.met);
    }
    assert!(calls > 100, "{calls}");
    let all = [Call::Read, Call::Write, Call::Sync, Call::SetLen, Call::SyncDirectory];
    assert!(all.iter().all(|kind| kinds.contains(kind)), "{kinds:?}");
}

/// The number of the call, from the next one on, that is the n-th sync of a commit of ten entries.
fn nth_sync(start: &FaultyDisk, released: &mut Released, nth: usize) -> u64 {
    let mut syncs = 0;
    for at in 0.. {
        let disk = start.copy();
        let mut log = open(&disk).unwrap();
        disk.arm(Some(Fault { at, trouble: Trouble::EIO, extent: Extent::None, seed: 0 }));
        released.clone().commit(&mut log, "then", 10).unwrap_err();
        syncs += usize::from(disk.met().is_some_and(|(call, _)| call == Call::Sync));
        if syncs == nth {
            return at;
        }
    }
    unreachable!("a commit that goes well panics above")
}

#[test]
fn the_directories_above_a_new_log_outlive_a_power_cut() {
    let disk = FaultyDisk::new();
    drop(Tlog::create_on(&disk, Path::new(DIR)).unwrap());
    drop(open(&disk.after_power_cut(0)).unwrap());
}

#[test]
fn a_head_that_only_a_killed_process_had_written_is_durable_before_the_next_one_shows_it() {
    let (start, before) = base();
    for number in 1.. {
        let disk = start.copy();
        let mut log = open(&disk).unwrap();
        // With a sync that fails nothing of the file is ever written by a later one.
        let at = nth_sync(&disk.after_kill(), &mut before.clone(), number);
        disk.arm(Some(Fault { at, trouble: Trouble::EIO, extent: Extent::None, seed: 0 }));
        before.clone().commit(&mut log, "then", 10).unwrap_err();
        if !disk.met().is_some_and(|(_, path)| path.ends_with("heads")) {
            continue;
        }
        let found = disk.after_kill();
        let mut seen = before.clone();
        seen.see(&open(&found).unwrap());
        assert_eq!(seen.size(), before.size() + 10, "the head is there in memory");
        go_on(&found.after_power_cut(0), &mut seen, "after the power cut");
        break;
    }
}

#[test]
fn hashes_that_read_as_zeroes_are_derived_again_when_the_entries_lead_to_the_signed_root() {
    let (start, before) = base();
    // So that all of them count as durable.
    drop(open(&start).unwrap());
    let path = Path::new(DIR).join("hashes/0");
    for zeroed in [20, 250] {
        let mut bytes = start.bytes(&path).unwrap();
        let kept = bytes.len() - 32 * zeroed;
        bytes[kept..].fill(0);
        let disk = start.copy();
        disk.overwrite(&path, &bytes).unwrap();
        go_on(&disk, &mut before.clone(), "over zeroes");
    }
}
