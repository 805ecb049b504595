//! Saves the issuers' states behind the commits, by a thread of its own, so that the next start has little to replay.
//!
//! A save is: write and sync the arrays of the issuers that have moved on, write their states, sync those. So what the saved
//! states speak of is in the arrays too, whatever the crash. What a save that failed had to write, the next one writes too:
//! the states that are saved are all of those at its size, or none are.

use crate::error::StoreError;
use crate::issuer_index::IssuerIndex;
use crate::state::State;
use merkle::{RootHash, TreeSize};
use receipt::{IssuerName, IssuerState};
use std::collections::{HashMap, HashSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};

/// The states that have changed since the last save, as they are in the tree of this size and root.
#[derive(Debug)]
pub(crate) struct Save {
    pub(crate) size: TreeSize,
    pub(crate) root: RootHash,
    pub(crate) states: Vec<IssuerState>,
}

/// The thread; dropping it waits for the save under way.
#[derive(Debug)]
pub(crate) struct Saver {
    /// A save is under way.
    busy: Arc<AtomicBool>,
    saves: Option<SyncSender<Save>>,
    thread: Option<JoinHandle<()>>,
}

impl Saver {
    /// `replayed` are the issuers to whose arrays this start has appended; those are not synced yet.
    pub(crate) fn start(state: State, index: IssuerIndex, replayed: HashSet<IssuerName>) -> Result<Saver, StoreError> {
        let path = state.path().to_owned();
        // One is under way and the last one may wait behind it.
        let (saves, queue) = sync_channel(1);
        let busy = Arc::new(AtomicBool::new(false));
        let done = Arc::clone(&busy);
        let work = move || Work::new(state, index, replayed).run(&queue, &done);
        let thread = thread::Builder::new().name("state saver".to_owned()).spawn(work);
        let thread = thread.map_err(|error| StoreError::io(&path, error))?;
        Ok(Saver { busy, saves: Some(saves), thread: Some(thread) })
    }

    /// Whether a save can be handed over now.
    pub(crate) fn is_free(&self) -> bool {
        !self.busy.load(Ordering::Acquire)
    }

    /// Hands over a save, when it is free.
    pub(crate) fn save(&self, save: Save) {
        self.busy.store(true, Ordering::Release);
        if let Some(saves) = &self.saves {
            // A thread that is gone has said why.
            let _ = saves.send(save);
        }
    }

    /// Hands over the last save, and waits for all.
    pub(crate) fn finish(&mut self, last: Option<Save>) {
        if let (Some(saves), Some(last)) = (self.saves.take(), last) {
            // A thread that is gone has said why.
            let _ = saves.send(last);
        }
        if let Some(thread) = self.thread.take() {
            // A panic there has been reported, and what was not saved is replayed.
            let _ = thread.join();
        }
    }
}

impl Drop for Saver {
    fn drop(&mut self) {
        self.finish(None);
    }
}

/// What the thread has and what it still has to write: one entry an issuer at most.
struct Work {
    state: State,
    index: IssuerIndex,
    /// The newest states that are not saved.
    states: HashMap<IssuerName, IssuerState>,
    /// Issuers whose arrays lack something of those, or of the disk's promise to keep it.
    unwritten: HashSet<IssuerName>,
    /// Issuers whose arrays hold, unsynced, what is not in memory. When such an array fails it is not known what the disk
    /// has kept of it, and a later sync does not tell.
    replayed: HashSet<IssuerName>,
    /// No such array has failed.
    remembers: bool,
    has_failed: bool,
}

impl Work {
    fn new(state: State, index: IssuerIndex, replayed: HashSet<IssuerName>) -> Work {
        let (states, unwritten) = (HashMap::new(), HashSet::new());
        Work { state, index, states, unwritten, replayed, remembers: true, has_failed: false }
    }

    fn run(mut self, queue: &Receiver<Save>, busy: &AtomicBool) {
        for Save { size, root, states } in queue {
            for state in states {
                self.unwritten.insert(state.name().clone());
                self.states.insert(state.name().clone(), state);
            }
            // sled panics over some disks that fail.
            let saved = catch_unwind(AssertUnwindSafe(|| self.save(size, root)));
            self.report(saved.unwrap_or_else(|_| Err("it panicked".to_owned())));
            busy.store(false, Ordering::Release);
        }
        if self.has_failed && !takes_writes(self.state.path()) {
            // sled writes when it is dropped, and panics where that fails. The process is about to end.
            std::mem::forget(self.state);
        }
    }

    /// Writes every array that can be written, and the states if that was all of them.
    fn save(&mut self, size: TreeSize, root: RootHash) -> Result<(), String> {
        let mut failed = None;
        // The arrays also when states are not saved any more: what is not in them is held in memory.
        for issuer in self.unwritten.iter().cloned().collect::<Vec<_>>() {
            match self.index.write(&issuer) {
                Ok(()) => {
                    self.unwritten.remove(&issuer);
                    self.replayed.remove(&issuer);
                }
                Err(error) => {
                    self.remembers &= !self.replayed.contains(&issuer);
                    failed = Some(error);
                }
            }
        }
        if let Some(error) = failed {
            return Err(error.to_string());
        }
        if !self.remembers {
            self.states.clear();
            return Err("what an array kept of the last start is not known".to_owned());
        }
        let states: Vec<IssuerState> = self.states.values().cloned().collect();
        let remember = || self.index.sync_names().and_then(|()| self.state.remember(size, root, &states));
        remember().map_err(|error| error.to_string())?;
        self.states.clear();
        Ok(())
    }

    /// Says it when that changes, not at every save.
    fn report(&mut self, saved: Result<(), String>) {
        let path = self.state.path().display();
        match saved {
            Err(why) if !self.has_failed => {
                let again = if self.remembers { "the next save tries again" } else { "not before the next start" };
                tracing::warn!(%path, why, again, "the issuers' states are not saved; a start would derive them again");
                self.has_failed = true;
            }
            Ok(()) if self.has_failed => {
                tracing::info!(%path, "the issuers' states are saved again");
                self.has_failed = false;
            }
            _ => {}
        }
    }
}

/// Whether a file can be made in `dir` and written.
fn takes_writes(dir: &Path) -> bool {
    let probe = dir.join("probe");
    let is_written = std::fs::write(&probe, [0]).is_ok();
    let _ = std::fs::remove_file(&probe);
    is_written
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;
    use crate::disk::RealDisk;
    use merkle::{EMPTY_ROOT, LeafIndex};
    use note::{KeyKind, KeyName, SigningKey};
    use receipt::SeqNo;
    use std::fs;

    /// Three issuers, by name.
    fn states() -> Vec<IssuerState> {
        let name = |number: u8| KeyName::new(&format!("gate.example/{number}")).unwrap();
        let key = |number: u8| SigningKey::from_seed(name(number), KeyKind::Ed25519, [number; 32]).verifier();
        (0..3).map(|number| IssuerState::registered(key(number))).collect()
    }

    fn add(index: &IssuerIndex, state: &IssuerState, seq: u64) {
        index.add(std::iter::once((state.name().clone(), SeqNo(seq), LeafIndex(10 + seq))));
    }

    fn open(dir: &Path, replayed: &[&IssuerState]) -> (IssuerIndex, Saver) {
        let index = IssuerIndex::open(&RealDisk::shared(), dir).unwrap();
        let replayed = replayed.iter().map(|state| state.name().clone()).collect();
        let saver = Saver::start(State::open(dir).unwrap(), index.clone(), replayed).unwrap();
        (index, saver)
    }

    /// Hands over a save and waits until it is done.
    fn save(saver: &Saver, size: u64, states: &[IssuerState]) {
        saver.save(Save { size: TreeSize(size), root: EMPTY_ROOT, states: states.to_vec() });
        while !saver.is_free() {
            thread::sleep(std::time::Duration::from_millis(5));
        }
    }

    fn remembered(dir: &Path) -> Option<(u64, usize)> {
        let saved = State::open(dir).unwrap().remembered();
        saved.map(|saved| (saved.size.0, saved.issuers.len()))
    }

    #[test]
    fn an_array_that_cannot_be_written_holds_up_no_other_and_its_state_is_saved_with_the_next() {
        let states = states();
        for failing in &states {
            let dir = tempfile::tempdir().unwrap();
            let (index, mut saver) = open(dir.path(), &[]);
            states.iter().for_each(|state| add(&index, state, 0));
            // No file can be opened where a directory is.
            fs::create_dir(index.path(failing.name())).unwrap();
            save(&saver, 3, &states);
            for other in states.iter().filter(|state| state.name() != failing.name()) {
                assert_eq!(index.count(other.name()).unwrap(), 1, "{} behind {}", other.name(), failing.name());
            }
            fs::remove_dir(index.path(failing.name())).unwrap();
            save(&saver, 4, &[]);
            assert_eq!(index.count(failing.name()).unwrap(), 1);
            saver.finish(None);
            drop(saver);
            assert_eq!(remembered(dir.path()), Some((4, 3)));
        }
    }

    #[test]
    fn states_are_saved_again_after_a_save_that_failed_and_none_is_missing() {
        let dir = tempfile::tempdir().unwrap();
        let states = states();
        let (index, mut saver) = open(dir.path(), &[]);
        let path = index.path(states[0].name());
        fs::create_dir(&path).unwrap();
        save(&saver, 1, &states[..2]);
        // While an array is missing, nothing is said of the tree.
        save(&saver, 2, &states[2..]);
        saver.finish(None);
        drop(saver);
        assert_eq!(remembered(dir.path()), None);
        let (_, mut saver) = open(dir.path(), &[]);
        save(&saver, 1, &states[..2]);
        fs::remove_dir(&path).unwrap();
        save(&saver, 2, &states[2..]);
        saver.finish(None);
        drop(saver);
        assert_eq!(remembered(dir.path()), Some((2, 3)));
    }

    #[test]
    fn a_replayed_array_that_fails_before_its_first_sync_ends_the_saving_of_states_and_not_of_arrays() {
        let dir = tempfile::tempdir().unwrap();
        let states = states();
        let (index, mut saver) = open(dir.path(), &[&states[0]]);
        let path = index.path(states[0].name());
        fs::create_dir(&path).unwrap();
        save(&saver, 1, &states[..1]);
        fs::remove_dir(&path).unwrap();
        add(&index, &states[1], 0);
        save(&saver, 2, &states[1..]);
        assert_eq!(index.count(states[1].name()).unwrap(), 1);
        saver.finish(None);
        assert_eq!(remembered(dir.path()), None);
    }
}
