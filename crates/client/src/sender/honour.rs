//! Whether the log still honours what it proved: its present head must contain every head that it gave proofs under.
//!
//! Told by tiles, which are believed only as far as they hash to a root that the log signed. A head that implies another root
//! at the size of a kept one convicts the log, by a document that anybody can check (protocol, section 7). Missing tiles,
//! wrong tiles and heads that the log did not sign accuse nobody.

use super::{Clock, SendError, keep_alarm};
use crate::http::FetchError;
use crate::log::LogClient;
use crate::outbox::Outbox;
use cosign::{Comparison, LogFork, compare, tiles_needed};
use merkle::TileSet;
use note::{SignedCheckpoint, Verified, VerifierKey};
use serde_json::json;

/// Holds the log's present head against those that it proved receipts under.
pub struct Honour {
    outbox: Outbox,
    log: LogClient,
    log_key: VerifierKey,
    clock: Clock,
    /// The largest head that was found to contain all earlier ones: what the newest kept proof stands under may be of another
    /// history already.
    anchor: Option<SignedCheckpoint<Verified>>,
}

/// What was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Honoured {
    /// No proof is kept yet.
    NothingKept,
    /// The present head contains every head held.
    Yes,
    /// It is not shown, and nobody is accused: why.
    NotShown(String),
}

impl Honour {
    /// For the proofs kept in `outbox`, of the log with `log_key`. `clock` dates alarms.
    pub fn new(outbox: Outbox, log: LogClient, log_key: VerifierKey, clock: Clock) -> Self {
        Self { outbox, log, log_key, clock, anchor: None }
    }

    /// Asks the log for its head, and for the tiles that hold it against those kept.
    ///
    /// # Errors
    /// [`SendError::LogFork`], an alarm, which is kept with its evidence; [`SendError::Log`] where the log does not answer.
    pub async fn check(&mut self) -> Result<Honoured, SendError> {
        let kept = self.outbox.newest_kept_head()?.and_then(|text| self.verified(text.as_bytes()));
        if kept.is_none() && self.anchor.is_none() {
            return Ok(Honoured::NothingKept);
        }
        let offered = self.log.checkpoint().await.map_err(SendError::Log)?;
        let Some(present) = self.verified(&offered) else {
            return Ok(Honoured::NotShown("what the log serves as its head is not signed by its key".into()));
        };
        for held in kept.iter().chain(&self.anchor) {
            let needed = tiles_needed(held.checkpoint().size, present.checkpoint().size);
            let (tiles, missing) = match self.log.tiles(&needed).await {
                Ok(tiles) => (tiles, None),
                Err(error) => (TileSet::new(), Some(error)),
            };
            match compare(held, &present, &tiles) {
                Comparison::Consistent => {}
                Comparison::Unproven(why) => return Ok(Honoured::NotShown(told(missing, &why.to_string()))),
                Comparison::Fork(evidence) => return Err(self.fork(held, &present, &evidence).await),
            }
        }
        let size = |head: &SignedCheckpoint<Verified>| head.checkpoint().size;
        self.anchor = kept.into_iter().chain(self.anchor.take()).chain([present]).max_by_key(size);
        Ok(Honoured::Yes)
    }

    fn verified(&self, text: &[u8]) -> Option<SignedCheckpoint<Verified>> {
        SignedCheckpoint::parse(text).and_then(|head| head.verify(&self.log_key)).ok()
    }

    async fn fork(
        &self,
        held: &SignedCheckpoint<Verified>,
        present: &SignedCheckpoint<Verified>,
        evidence: &LogFork,
    ) -> SendError {
        let error = SendError::LogFork {
            kept: held.checkpoint().size.0,
            present: present.checkpoint().size.0,
            dir: self.outbox.dir().to_owned(),
        };
        let documents = [
            ("held", json!(held.note().to_string())),
            ("offered", json!(present.note().to_string())),
            ("evidence", json!(evidence)),
        ];
        let now = (self.clock)();
        keep_alarm(&self.outbox, now, &self.log_key, "log-fork", None, &error, &documents).await;
        error
    }
}

fn told(missing: Option<FetchError>, why: &str) -> String {
    missing.map_or_else(|| why.to_owned(), |error| format!("{why} ({error})"))
}
