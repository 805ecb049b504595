//! Histories for a gate's decisions: asked of the log on the gate's own thread, and held to when the decision is signed.

use super::decision::AsOf;
use super::{Gate, GateError};
use crate::history::{History, HistoryError, Item, SubjectHistory};
use crate::outbox::Outbox;
use receipt::{Body, Receipt, SeqNo, Shown as _};
use std::sync::{Arc, mpsc};
use tokio::sync::{Mutex, oneshot};
use tokio::time::Instant;

/// The gate's follower; one question at a time.
#[derive(Clone)]
pub(super) struct SharedHistory(Arc<Mutex<History>>);

impl SharedHistory {
    pub(super) fn new(history: History) -> Self {
        Self(Arc::new(Mutex::new(history)))
    }
}

impl AsOf {
    /// Whether the gate has decided on none of the subjects since.
    pub(super) fn check(&self, outbox: &Outbox) -> Result<(), GateError> {
        for seq in self.next_seq..outbox.next_seq()?.0 {
            let touched = outbox.receipt(SeqNo(seq))?.and_then(|receipt| self.touched_by(&receipt));
            if let Some(subject) = touched {
                return Err(GateError::HistoryMoved(subject));
            }
        }
        Ok(())
    }

    fn touched_by(&self, receipt: &Receipt) -> Option<String> {
        let Body::Decision(decision) = receipt.body() else { return None };
        let named = decision.subjects.shown()?;
        named.iter().find(|subject| self.subjects.contains(subject)).cloned()
    }
}

impl Gate {
    /// What the log shows of these subjects under a witnessed head, and what this gate decided that is not there yet. Waits for
    /// the log. The first call reads all of it.
    ///
    /// Judge by [`SubjectHistory::classes`], and give [`SubjectHistory::prior`] to the decision
    /// ([`super::Decision::history`]): it is refused (`history-moved`) where the gate has decided on one of the subjects
    /// meanwhile, so that of two requests at the same time the second is judged by the first.
    ///
    /// # Errors
    /// [`GateError::History`], [`GateError::NoPolicy`].
    pub fn history(&self, subjects: &[&str]) -> Result<SubjectHistory, GateError> {
        let (tell, told) = mpsc::sync_channel(1);
        self.ask(subjects, move |history| drop(tell.send(history)))?;
        Ok(told.recv().map_err(|_| GateError::Closed)??)
    }

    /// As [`Gate::history`], for code that must not hold up a runtime.
    ///
    /// # Errors
    /// As [`Gate::history`].
    pub async fn history_async(&self, subjects: &[&str]) -> Result<SubjectHistory, GateError> {
        let (tell, told) = oneshot::channel();
        self.ask(subjects, move |history| drop(tell.send(history)))?;
        Ok(told.await.map_err(|_| GateError::Closed)??)
    }

    /// The proof (`tlog-proof`) that an item of a history is in the log, under the head that the history stands under.
    ///
    /// # Errors
    /// As [`Gate::history`].
    pub fn history_proof(&self, history: &SubjectHistory, item: &Item) -> Result<String, GateError> {
        let shared = self.0.history.clone().ok_or(GateError::NoPolicy)?;
        let (history, item) = (history.clone(), item.clone());
        let (tell, told) = mpsc::sync_channel(1);
        self.0.worker.spawn(async move {
            let proof = shared.0.lock().await.proof(&history, &item).await;
            drop(tell.send(proof));
        });
        Ok(told.recv().map_err(|_| GateError::Closed)??)
    }

    fn ask(
        &self,
        subjects: &[&str],
        tell: impl FnOnce(Result<SubjectHistory, HistoryError>) + Send + 'static,
    ) -> Result<(), GateError> {
        let shared = self.0.history.clone().ok_or(GateError::NoPolicy)?;
        let subjects: Vec<String> = subjects.iter().map(|subject| (*subject).to_owned()).collect();
        let outbox = self.core().outbox.clone();
        let asked = Instant::now();
        self.0.worker.spawn(async move {
            let subjects: Vec<&str> = subjects.iter().map(String::as_str).collect();
            tell(shared.0.lock().await.of_since(asked, &subjects, &outbox).await);
        });
        Ok(())
    }
}
