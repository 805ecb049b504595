//! Saves the issuers' states behind the commits, by a thread of its own, so that the next start has little to replay.
//!
//! A save is: write and sync the arrays of the issuers that have moved on, write their states, sync those. So what the saved
//! states speak of is in the arrays too, whatever the crash. After a save that failed no states are saved: a later save
//! would say of states that were not written that they were.

use crate::error::StoreError;
use crate::issuer_index::IssuerIndex;
use crate::state::State;
use merkle::{RootHash, TreeSize};
use receipt::IssuerState;
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
    /// A save is under way, or one has failed.
    busy: Arc<AtomicBool>,
    saves: Option<SyncSender<Save>>,
    thread: Option<JoinHandle<()>>,
}

impl Saver {
    pub(crate) fn start(state: State, index: IssuerIndex) -> Result<Saver, StoreError> {
        let path = state.path().to_owned();
        // One is under way and the last one may wait behind it.
        let (saves, queue) = sync_channel(1);
        let busy = Arc::new(AtomicBool::new(false));
        let done = Arc::clone(&busy);
        let work = move || run(&state, &index, &queue, &done);
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

fn run(state: &State, index: &IssuerIndex, queue: &Receiver<Save>, busy: &AtomicBool) {
    let mut remembers = true;
    for save in queue {
        // The arrays also when states are not saved any more: what is not in them is held in memory.
        let written = save.states.iter().try_for_each(|issuer| index.write(issuer.name()));
        let remember = || index.sync_names().and_then(|()| state.remember(save.size, save.root, &save.states));
        if remembers && let Err(error) = written.and_then(|()| remember()) {
            tracing::warn!(%error, "the issuers' states are not saved any more; the next start derives them again");
            remembers = false;
        }
        busy.store(false, Ordering::Release);
    }
}
