//! The keeper of one log: from an offer to what is durable, to what may leave.
//!
//! ```text
//! offer -> decide -> cosign -> persist the head -> journal -> show and answer
//!                 \-> fork  -> persist the evidence -> journal -> refuse from now on
//! ```
//!
//! Holds that order, which is all that a crash can see. A kill before `persist`: nothing happened. Between `persist`
//! and `answer`: the head is held, its timestamp is not used again for less, and the next fetch cosigns it again.
//! Does not hold the rule (`cosign::decide`) nor anything about fetching. Blocks on the disk; reads no clock.

use crate::clock::next_timestamp_s;
use crate::evidence::Evidence;
use crate::fetch::{Offer, Trouble};
use crate::journal::book::Journal;
use crate::journal::fold::{Fold, SeenHead, Sighting};
use crate::journal::line::Outcome;
use crate::settings::WatchedLog;
use crate::view::{LastFetch, LogStatus, LogView};
use bytes::Bytes;
use client::witness::origin_hash;
use cosign::{Decision, LogFork};
use merkle::TreeSize;
use note::{CheckpointError, CosignatureError, Origin, SignedCheckpoint, SigningKey, Verified, VerifierKey};
use std::path::Path;
use std::sync::Arc;
use store::{Cosigned, EVIDENCE_PAGE, HeadSlots, Sealed, StoreError};

/// What a nudger is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// The log's head is held and cosigned; these are the lines, each with its newline.
    Cosigned {
        /// The cosignature lines.
        lines: String,
    },
    /// It is not.
    NotCosigned {
        /// What came of the fetch.
        outcome: Outcome,
        /// Why, and what to do.
        detail: String,
    },
}

/// The witness itself is at fault, and must stop: what is durable is unknown.
#[derive(Debug, thiserror::Error)]
pub enum Broken {
    /// The disk.
    #[error("{0}")]
    Store(StoreError),
    /// The witness's key does not sign what it must sign: keys and configuration do not fit together.
    #[error("the journal's key cannot sign the journal: {0}; check journal_key")]
    Signing(CheckpointError),
    /// The same, for the witness's key.
    #[error("the witness's key cannot cosign: {0}; check witness_key")]
    Cosigning(CosignatureError),
    /// A document among the evidence is none.
    #[error(
        "evidence {number} of this witness cannot be read or written: {reason}; restore evidence.ndjson from a copy, and keep this one"
    )]
    Evidence {
        /// Which one.
        number: u64,
        /// What is wrong with it.
        reason: String,
    },
    /// An earlier error.
    #[error("an earlier error ended this log's keeping; restart the witness")]
    Ended,
    /// A worker was interrupted in its work on the disk.
    #[error("work on the disk was interrupted; the reason is in the lines above")]
    Interrupted,
}

/// What the keepers of all logs share.
#[derive(Debug, Clone)]
pub struct Shared {
    /// The witness's key.
    pub key: Arc<SigningKey>,
    /// The journal.
    pub journal: Arc<Journal>,
    /// The evidence.
    pub evidence: Arc<Evidence>,
}

/// The keeper of one log.
#[derive(Debug)]
pub struct Keeper {
    log: WatchedLog,
    shared: Shared,
    slots: HeadSlots,
    held: Option<Cosigned>,
    fold: Fold,
    /// The evidence because of which nothing is cosigned.
    forked: Option<u64>,
    last: Option<LastFetch>,
    /// An error came before: what is durable is unknown, and nothing may be answered any more.
    ended: bool,
}

impl Keeper {
    /// The log's key.
    pub fn log(&self) -> &VerifierKey {
        &self.log.vkey
    }

    /// The size of the head held, 0 before the first.
    pub fn held_size(&self) -> TreeSize {
        self.held.as_ref().map_or(TreeSize(0), |held| held.checkpoint().checkpoint().size)
    }

    /// Opens what is durable of `log` in the directory `state`, and journals that the witness started, at `time_ms`,
    /// holding what it holds: a head that a crash kept out of the journal gets there now.
    ///
    /// # Errors
    /// [`Broken`]: the files are damaged, or another process uses them.
    pub fn open(state: &Path, log: WatchedLog, shared: Shared, time_ms: u64) -> Result<Keeper, Broken> {
        let origin = Origin::from(log.vkey.name());
        let path = state.join(format!("{}.head", origin_hash(&origin)));
        let (slots, held) = HeadSlots::open(&path, &log.vkey, &shared.key.verifier()).map_err(Broken::Store)?;
        let forked = shared.evidence.first_against(&log.vkey, &log.acknowledged_evidence);
        let mut keeper =
            Keeper { fold: Fold::new(origin.as_str()), log, shared, slots, held, forked, last: None, ended: false };
        let head = keeper.held.as_ref().map(|held| SeenHead::of(held.checkpoint()));
        let started = Sighting { outcome: Outcome::Started, head, trouble: None, evidence: forked };
        let lines = keeper.fold.observe(time_ms, started);
        keeper.shared.journal.append(&lines)?;
        Ok(keeper)
    }

    /// Takes in what a fetch that began at `time_ms` (milliseconds since the epoch) brought, and returns what may leave
    /// because of it. Everything returned is durable.
    ///
    /// # Errors
    /// [`Broken`]: the process must stop.
    pub fn consider(&mut self, time_ms: u64, fetched: Result<Offer, Trouble>) -> Result<Answer, Broken> {
        if std::mem::replace(&mut self.ended, true) {
            return Err(Broken::Ended);
        }
        let (sighting, answer) = match fetched {
            Ok(offer) => self.judge(time_ms, offer)?,
            Err(trouble) => not_cosigned(Outcome::Unreachable, None, Some(trouble)),
        };
        self.measure(sighting.outcome);
        let trouble = sighting.trouble.clone();
        self.last = Some(LastFetch {
            time: time_ms,
            outcome: sighting.outcome,
            code: trouble.as_ref().map(|(code, _)| (*code).to_owned()),
            error: trouble.map(|(_, sentence)| sentence),
        });
        let lines = self.fold.observe(time_ms, sighting);
        self.shared.journal.append(&lines)?;
        self.ended = false;
        Ok(answer)
    }

    /// When folded lines are due, milliseconds since the epoch, if any are.
    pub fn fold_due_at(&self) -> Option<u64> {
        self.fold.due_at()
    }

    /// Journals the folded lines that are due at `time_ms`.
    ///
    /// # Errors
    /// [`Broken`].
    pub fn fold_due(&mut self, time_ms: u64) -> Result<(), Broken> {
        let lines = self.fold.due(time_ms);
        self.shared.journal.append(&lines)
    }

    /// Journals all that is folded, before the witness stops.
    ///
    /// # Errors
    /// [`Broken`].
    pub fn finish(&mut self) -> Result<(), Broken> {
        let lines = self.fold.flush();
        self.shared.journal.append(&lines)
    }

    /// What may be shown of the log.
    pub fn view(&self) -> LogView {
        let head = self.held.as_ref().map(|held| held.checkpoint().checkpoint());
        let status = LogStatus {
            origin: self.log.vkey.name().to_string(),
            url: self.log.url.to_string(),
            size: head.map(|head| head.size.0),
            root: head.map(|head| head.root.0.to_base64()),
            cosigned_at: self.held.as_ref().map(Cosigned::timestamp_s),
            last: self.last.clone(),
            forked: self.forked,
        };
        LogView {
            status,
            cosigned: self
                .held
                .as_ref()
                .map(|held| Bytes::from(format!("{}{}\n", held.checkpoint().note(), held.cosignature().line))),
        }
    }

    /// The rule, and what it asks for.
    fn judge(&mut self, time_ms: u64, offer: Offer) -> Result<(Sighting, Answer), Broken> {
        let held = self.held.as_ref().map(Cosigned::checkpoint);
        let decision = cosign::decide(&self.log.vkey, held, &offer.checkpoint, &offer.tiles);
        match decision {
            Decision::Cosign(head) | Decision::CosignAgain(head) if self.forked.is_some() => {
                Ok(not_cosigned(Outcome::Refused, Some(&head), self.refusal()))
            }
            Decision::Cosign(head) => self.cosign(time_ms, Outcome::Cosigned, *head),
            Decision::CosignAgain(head) => self.cosign(time_ms, Outcome::Unchanged, *head),
            Decision::Stale(head) => {
                let sentence = format!(
                    "the log offers size {}, this witness holds size {}; a mirror or cache in between may be behind",
                    head.checkpoint().size,
                    self.held_size()
                );
                Ok(not_cosigned(Outcome::Stale, Some(&head), Some(Trouble { code: "stale", sentence })))
            }
            Decision::Unproven(head, why) => {
                let trouble =
                    offer.tile_trouble.unwrap_or_else(|| Trouble { code: "tiles", sentence: why.to_string() });
                Ok(not_cosigned(Outcome::Unproven, Some(&head), Some(trouble)))
            }
            Decision::Fork(head, fork) => self.record_fork(&head, &fork),
            Decision::BadLogSignature(error) => Ok(not_cosigned(
                Outcome::BadLogSignature,
                None,
                Some(Trouble { code: signature_fault(&error), sentence: error.to_string() }),
            )),
            Decision::BadEmptyRoot(head) => {
                let sentence =
                    "the log signed a head of size 0 whose root is not the hash of the empty string; no tree has it"
                        .to_owned();
                Ok(not_cosigned(Outcome::BadEmptyRoot, Some(&head), Some(Trouble { code: "empty-root", sentence })))
            }
        }
    }

    /// Cosigns `head` and makes it the head held. The cosignature is sealed until it is durable.
    fn cosign(
        &mut self,
        time_ms: u64,
        outcome: Outcome,
        head: SignedCheckpoint<Verified>,
    ) -> Result<(Sighting, Answer), Broken> {
        let last = self.held.as_ref().map(Cosigned::timestamp_s);
        let Some(timestamp_s) = next_timestamp_s(time_ms, last) else {
            let sentence = "the witness's clock is not set; set it, a cosignature states its time".to_owned();
            return Ok(not_cosigned(Outcome::Withheld, Some(&head), Some(Trouble { code: "clock", sentence })));
        };
        // Only what the log signed is kept: lines that others added, ours included, are not believed.
        let head = head.log_signed_only();
        let sighting = Sighting { outcome, head: Some(SeenHead::of(&head)), trouble: None, evidence: None };
        let same =
            self.held.as_ref().is_some_and(|held| held.checkpoint() == &head && held.timestamp_s() == timestamp_s);
        if !same {
            let cosignature =
                note::cosign(head.note().text(), &self.shared.key, timestamp_s).map_err(Broken::Cosigning)?;
            let cosigned = Sealed::new(Cosigned::new(head, cosignature));
            self.held = Some(self.slots.persist(cosigned).map_err(Broken::Store)?);
        }
        let lines = self.held.as_ref().map(|held| format!("{}\n", held.cosignature().line)).unwrap_or_default();
        Ok((sighting, Answer::Cosigned { lines }))
    }
}

impl Keeper {
    /// Keeps the evidence, and from now on cosigns nothing of this log until an operator acts. Evidence that an operator
    /// has acknowledged already refuses the head alone.
    fn record_fork(&mut self, head: &SignedCheckpoint<Verified>, fork: &LogFork) -> Result<(Sighting, Answer), Broken> {
        if self.forked.is_some() {
            // One piece of evidence is enough to refuse a log for ever; further heads are in the journal whole.
            return Ok(not_cosigned(Outcome::Refused, Some(head), self.refusal()));
        }
        let number = self.shared.evidence.record(fork)?;
        if !self.log.acknowledged_evidence.contains(&number) {
            self.forked = Some(number);
        }
        tracing::error!(log = self.log.vkey.name().as_str(), evidence = number, "FORK: the log signed two histories");
        let sentence = format!(
            "the log signed two histories, which is evidence {number} of this witness; see /evidence/{}",
            number / EVIDENCE_PAGE as u64
        );
        let (sighting, answer) = not_cosigned(Outcome::Fork, Some(head), Some(Trouble { code: "forked", sentence }));
        Ok((Sighting { evidence: Some(number), ..sighting }, answer))
    }

    fn measure(&self, outcome: Outcome) {
        let log = self.log.vkey.name().to_string();
        metrics::counter!("counterfoil_witness_fetches_total", "log" => log.clone(), "outcome" => outcome.as_str())
            .increment(1);
        metrics::gauge!("counterfoil_witness_forked", "log" => log.clone()).set(u8::from(self.forked.is_some()));
        if let Some(held) = &self.held {
            let size = held.checkpoint().checkpoint().size;
            metrics::gauge!("counterfoil_witness_held_size", "log" => log.clone()).set(size.0 as f64);
            metrics::gauge!("counterfoil_witness_cosigned_at_seconds", "log" => log).set(held.timestamp_s() as f64);
        }
    }

    fn refusal(&self) -> Option<Trouble> {
        let number = self.forked?;
        let sentence = format!(
            "the log signed two histories, which is evidence {number} of this witness; nothing of it is cosigned until the witness's operator has seen the evidence and says so in the configuration (acknowledged_evidence)"
        );
        Some(Trouble { code: "forked", sentence })
    }
}

/// What is journalled and answered when a head is not cosigned.
fn not_cosigned(
    outcome: Outcome,
    head: Option<&SignedCheckpoint<Verified>>,
    trouble: Option<Trouble>,
) -> (Sighting, Answer) {
    let detail = trouble.as_ref().map(|trouble| trouble.sentence.clone()).unwrap_or_default();
    let trouble = trouble.map(|trouble| (trouble.code, trouble.sentence));
    let sighting = Sighting { outcome, head: head.map(SeenHead::of), trouble, evidence: None };
    (sighting, Answer::NotCosigned { outcome, detail })
}

/// Which kind of bad signature it is, in a word.
fn signature_fault(error: &CheckpointError) -> &'static str {
    match error {
        CheckpointError::Note(_) | CheckpointError::Text(_) => "not-a-checkpoint",
        CheckpointError::WrongOrigin { .. } => "wrong-origin",
        CheckpointError::Unsigned => "unsigned",
        CheckpointError::BadSignature => "bad-signature",
        CheckpointError::WrongKeyKind => "wrong-key",
    }
}
