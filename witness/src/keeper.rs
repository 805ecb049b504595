//! What the witness knows of one log, and what it makes of what comes: decisions and memory, without disk, network or keys.
//!
//! ```text
//! what came -> judge -> Verdict -> (signed, written, durable: post.rs) -> took, noted
//! ```
//!
//! Does not hold the rule itself (`cosign`) nor the order in which things become durable (`post`). Reads no clock.

use crate::clock::next_timestamp_s;
use crate::evidence::Standing;
use crate::fetch::{Offer, Trouble};
use crate::full::{Breaks, EntriesCheck};
use crate::journal::fold::{Fold, SeenHead, Sighting};
use crate::journal::line::{JournalLine, Outcome, bounded_sentence};
use crate::push::{Push, PushRefusal};
use crate::settings::{Level, WatchedLog};
use crate::view::{LastFetch, LogView};
use cosign::{Decision, LogFork, PushDecision};
use merkle::TreeSize;
use note::{CheckpointError, KeyTables, SignedCheckpoint, Verified};
use std::sync::Arc;
use store::Cosigned;

/// The memory of one log.
#[derive(Debug)]
pub struct Keeper {
    log: Arc<WatchedLog>,
    held: Option<Arc<Cosigned>>,
    /// What had been released, of any log, when the process started.
    floor_s: u64,
    fold: Fold,
    /// The evidence because of which nothing is cosigned.
    forked: Option<Standing>,
    last: Option<LastFetch>,
    /// The evidence that the last look gave, acknowledged or not.
    shown: Option<Standing>,
    /// The evidence that any look gave last.
    told: Option<Standing>,
}

/// What to do about what came.
#[derive(Debug)]
pub enum Verdict {
    /// Cosign this head: one not held before ([`Outcome::Cosigned`]) or the one held ([`Outcome::Unchanged`]).
    Cosign(Outcome, Box<SignedCheckpoint<Verified>>),
    /// Keep the evidence, and refuse the log from now on.
    Accuse(Box<SignedCheckpoint<Verified>>, Box<LogFork>),
    /// The same, for a log that admitted what it must refuse.
    Inadmissible(Box<SignedCheckpoint<Verified>>, Box<Breaks>),
    /// Cosign nothing, and write down why.
    Refuse(Outcome, Option<Box<SignedCheckpoint<Verified>>>, Trouble),
}

impl Keeper {
    /// A log of which `held` is held, against which the evidence `forked` stands, by a witness that has signed
    /// nothing later than `floor_s`.
    pub fn new(log: WatchedLog, held: Option<Cosigned>, floor_s: u64, forked: Option<Standing>) -> Keeper {
        let fold = Fold::new(log.vkey.name().as_str());
        let (log, held) = (Arc::new(log), held.map(Arc::new));
        Keeper { log, held, floor_s, fold, forked, last: None, shown: None, told: None }
    }

    /// The log, as it is configured.
    pub fn log(&self) -> &WatchedLog {
        &self.log
    }

    /// The same log, configured otherwise, and the evidence that stands against it now.
    pub fn configure(&mut self, log: WatchedLog, forked: Option<Standing>) {
        self.log = Arc::new(log);
        self.forked = forked;
    }

    /// The head held, with the witness's cosignatures; `None` before the first.
    pub fn held(&self) -> Option<&Cosigned> {
        self.held.as_deref()
    }

    /// The size of the head held, 0 before the first.
    pub fn held_size(&self) -> TreeSize {
        self.held.as_ref().map_or(TreeSize(0), |held| held.checkpoint().checkpoint().size)
    }

    /// What to do about what a fetch brought.
    pub fn judge(&self, fetched: Result<Offer, Trouble>) -> Verdict {
        let offer = match fetched {
            Ok(offer) => offer,
            Err(trouble) => return Verdict::Refuse(Outcome::Unreachable, None, trouble),
        };
        let held = self.held().map(Cosigned::checkpoint);
        match cosign::decide(&self.log.vkey, held, &offer.checkpoint, &offer.tiles) {
            Decision::Cosign(head) => self.unless_refused(self.if_admitted(Outcome::Cosigned, head, offer.entries)),
            Decision::CosignAgain(head) => {
                self.unless_refused(self.if_admitted(Outcome::Unchanged, head, offer.entries))
            }
            Decision::Fork(head, fork) => self.unless_refused(Verdict::Accuse(head, fork)),
            Decision::Stale(head) => {
                let sentence = format!(
                    "the log offers size {}, this witness holds size {}; a mirror or cache in between may be behind",
                    head.checkpoint().size,
                    self.held_size()
                );
                Verdict::Refuse(Outcome::Stale, Some(head), Trouble { code: "stale", sentence })
            }
            Decision::Unproven(head, why) => {
                let trouble =
                    offer.tile_trouble.unwrap_or_else(|| Trouble { code: "tiles", sentence: why.to_string() });
                Verdict::Refuse(Outcome::Unproven, Some(head), trouble)
            }
            Decision::BadLogSignature(error) => {
                let trouble = Trouble { code: signature_fault(&error), sentence: bounded_sentence(&error.to_string()) };
                Verdict::Refuse(Outcome::BadLogSignature, None, trouble)
            }
            Decision::BadEmptyRoot(head) => Verdict::Refuse(Outcome::BadEmptyRoot, Some(head), bad_empty_root()),
        }
    }

    /// What to do about a head that was pushed; `by` checks the log's signature. What anybody can provoke with heads that the
    /// log once signed is answered and not written down: the journal is for ever.
    ///
    /// # Errors
    /// [`PushRefusal`]: answered, and nothing else.
    pub fn judge_push(&self, push: Push, by: &KeyTables) -> Result<Verdict, PushRefusal> {
        // At level full a head is cosigned for its entries, which nobody pushes.
        if !self.log.accept_pushes || self.log.level == Level::Full {
            return Err(PushRefusal::UnknownLog);
        }
        let held = self.held().map(Cosigned::checkpoint);
        let verdict = match cosign::decide_push(&self.log.vkey, by, held, push.old, &push.proof, push.checkpoint) {
            PushDecision::BadLogSignature(error) => return Err(PushRefusal::BadSignature(error)),
            PushDecision::Shrinks => return Err(PushRefusal::Shrinks),
            PushDecision::Holds(size) => return Err(PushRefusal::Holds(size)),
            PushDecision::Cosign(head) => self.unless_refused(Verdict::Cosign(Outcome::Cosigned, head)),
            PushDecision::CosignAgain(head) => self.unless_refused(Verdict::Cosign(Outcome::Unchanged, head)),
            PushDecision::Fork(head, fork) => self.unless_refused(Verdict::Accuse(head, fork)),
            PushDecision::BadEmptyRoot(head) => Verdict::Refuse(Outcome::BadEmptyRoot, Some(head), bad_empty_root()),
            PushDecision::BadProof(_, error) => {
                return Err(PushRefusal::Unproven(format!("the consistency proof does not verify: {error}")));
            }
            PushDecision::NotShown(_, error) => {
                let sentence = format!("the head contradicts the one held, and no one key answers for both: {error}");
                return Err(PushRefusal::Unproven(sentence));
            }
        };
        match verdict {
            Verdict::Refuse(Outcome::Refused, _, trouble) => Err(PushRefusal::Refused(trouble.sentence)),
            Verdict::Cosign(_, ref head) | Verdict::Accuse(ref head, _) | Verdict::Refuse(_, Some(ref head), _)
                if SeenHead::is_too_long(head) =>
            {
                Err(PushRefusal::TooLong)
            }
            verdict => Ok(verdict),
        }
    }

    /// The time of a cosignature made at `time_ms` (milliseconds since the epoch), seconds since the epoch: never before
    /// one that was released. `None` while the clock is not set.
    pub fn timestamp_s(&self, time_ms: u64) -> Option<u64> {
        let last = self.held().map_or(0, Cosigned::timestamp_s).max(self.floor_s);
        next_timestamp_s(time_ms, Some(last).filter(|last| *last > 0))
    }

    /// Remembers what came of a fetch or push at `time_ms`, and returns the lines to write.
    #[must_use = "lines that are not written are lost"]
    pub fn note(&mut self, time_ms: u64, sighting: Sighting) -> Vec<JournalLine> {
        let (code, error) = sighting.trouble.clone().map(|(code, sentence)| (code.to_owned(), sentence)).unzip();
        if sighting.outcome != Outcome::Started {
            self.shown = None;
            self.last = Some(LastFetch { time: time_ms, outcome: sighting.outcome, code, error });
        }
        self.fold.observe(time_ms, sighting)
    }

    /// The lines for something that a peer showed at `time_ms`: it says nothing about how the log itself is reached.
    #[must_use = "lines that are not written are lost"]
    pub fn note_peer(&mut self, time_ms: u64, sighting: Sighting) -> Vec<JournalLine> {
        self.fold.observe(time_ms, sighting)
    }

    /// The folded lines that are due at `time_ms`.
    #[must_use = "lines that are not written are lost"]
    pub fn due(&mut self, time_ms: u64) -> Vec<JournalLine> {
        self.fold.due(time_ms)
    }

    /// All that is folded, before the witness stops.
    #[must_use = "lines that are not written are lost"]
    pub fn flush(&mut self) -> Vec<JournalLine> {
        self.fold.flush()
    }

    /// The head is durable, and is the head held from now on.
    pub fn took(&mut self, cosigned: Cosigned) {
        self.held = Some(Arc::new(cosigned));
    }

    /// The look that was noted last gave this evidence; unless an operator has acknowledged it, nothing is cosigned from now
    /// on.
    pub fn accused(&mut self, standing: Standing) {
        (self.shown, self.told) = (Some(standing), Some(standing));
        if self.forked.is_none() && !self.log.acknowledged_evidence.contains(&standing.number) {
            self.forked = Some(standing);
        }
    }

    /// Whether this evidence is something else than what was told last.
    pub fn is_news(&self, standing: Standing) -> bool {
        self.told != Some(standing)
    }

    /// Whether, and because of which evidence, nothing is cosigned.
    pub fn forked(&self) -> Option<Standing> {
        self.forked
    }

    /// The lines over the head held, each with its newline.
    pub fn lines(&self) -> String {
        let cosignatures = self.held().into_iter().flat_map(Cosigned::cosignatures);
        cosignatures.map(|cosignature| format!("{}\n", cosignature.line)).collect()
    }

    /// What may be shown of the log.
    pub fn view(&self) -> LogView {
        LogView {
            log: Arc::clone(&self.log),
            last: self.last.clone(),
            held: self.held.clone(),
            // A log that shows its other history now is shouted about whatever was acknowledged before.
            accused: self.forked.or(self.shown),
            refused: self.forked.is_some(),
        }
    }

    /// At level full a head is cosigned only if every entry under it was admitted. The head held was, before it was cosigned
    /// for the first time; that its entries cannot be had again takes nothing from it.
    fn if_admitted(&self, outcome: Outcome, head: Box<SignedCheckpoint<Verified>>, entries: EntriesCheck) -> Verdict {
        let is_known = self.log.level == Level::Consistency || outcome == Outcome::Unchanged;
        let (outcome, trouble) = match entries {
            EntriesCheck::Breaks(breaks) => return Verdict::Inadmissible(head, breaks),
            EntriesCheck::NotAdmitted(trouble) => (Outcome::Inadmissible, trouble),
            _ if is_known => return Verdict::Cosign(outcome, head),
            EntriesCheck::Admitted { size, root }
                if (size, root) == (head.checkpoint().size, head.checkpoint().root) =>
            {
                return Verdict::Cosign(outcome, head);
            }
            EntriesCheck::Trouble(trouble) => (Outcome::Unproven, trouble),
            EntriesCheck::UnderWay { done, total } => {
                let sentence = format!("entry {done} of {total} was checked so far; ask again later");
                (Outcome::Withheld, Trouble { code: "catching-up", sentence })
            }
            EntriesCheck::NotAsked | EntriesCheck::Admitted { .. } => {
                let sentence = "the entries under this head were not checked; ask again later".to_owned();
                (Outcome::Withheld, Trouble { code: "not-checked", sentence })
            }
        };
        Verdict::Refuse(outcome, Some(head), trouble)
    }

    /// Once evidence stands against a log, nothing of it is cosigned, and one piece is enough: further heads are in the
    /// journal whole.
    fn unless_refused(&self, verdict: Verdict) -> Verdict {
        let Some(Standing { number, crime }) = self.forked else { return verdict };
        let sentence = format!(
            "the log {}, and nothing of it is cosigned any more: look at the evidence with `counterfoil-witness evidence show {number} --url URL`, then go by \"When it says FORK\" in docs/witness.md",
            crime.told()
        );
        let head = match verdict {
            Verdict::Cosign(_, head) | Verdict::Accuse(head, _) | Verdict::Inadmissible(head, _) => Some(head),
            Verdict::Refuse(_, head, _) => head,
        };
        Verdict::Refuse(Outcome::Refused, head, Trouble { code: "forked", sentence })
    }
}

/// What a sighting says of a head that is cosigned at `cosigned_at`, or of one that is not.
pub fn sighting(
    outcome: Outcome,
    head: Option<&SignedCheckpoint<Verified>>,
    cosigned_at: Option<u64>,
    trouble: Option<Trouble>,
) -> Sighting {
    Sighting {
        outcome,
        peer: None,
        cosigned_at,
        head: head.map(SeenHead::of),
        trouble: trouble.map(|trouble| (trouble.code, trouble.sentence)),
        evidence: None,
    }
}

fn bad_empty_root() -> Trouble {
    let sentence =
        "the log signed a head of size 0 whose root is not the hash of the empty string; no tree has it".to_owned();
    Trouble { code: "empty-root", sentence }
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
