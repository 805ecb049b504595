//! From the outbox to the log: in order, in batches, until the log has everything and has proved it.
//!
//! ```text
//! flush:   is the log's stream of this issuer a beginning of ours? ── no ──> stop, loudly
//!            │ yes
//!            v
//!          send the oldest unacknowledged ──> a verdict each
//!            ok, duplicate     check the proof against the log's key and the entry; keep it; go on
//!            overloaded, 503,
//!            no answer         wait (longer each time, never in step with others), send the same again
//!            gap               send again from the expected seq
//!            anything else     stop, and say what to do
//! ```
//!
//! Sending twice is safe: the log answers a receipt that it has with its proof. A proof that does not verify, a log that
//! lost what it proved and a log that contradicts itself are alarms: they are kept in the outbox before the sender stops.
//!
//! The clock is an argument; it dates alarms and nothing else.

mod cosigned;
mod error;
mod honour;
mod patience;

pub use cosigned::CosignedError;
pub use error::SendError;
pub use honour::{Honour, Honoured};
pub use patience::Patience;
pub(crate) use patience::Waiting;

use crate::calls::{Inclusion, Verdict};
use crate::http::FetchError;
use crate::log::LogClient;
use crate::outbox::{Outbox, OutboxError};
use crate::proof::{CheckedProof, ProofCheck, ProofFault};
use crate::wire;
use cosign::LogFork;
use note::{SignedCheckpoint, VerifierKey};
use receipt::{IssuerName, Receipt, RefusalCode, SeqNo, UnixMillis};
use serde_json::{Map, Value, json};
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;

/// Receipts in one batch: as many as a bundle. More saves nothing, since signatures are the cost, and delays the first answer.
const BATCH_RECEIPTS: usize = 256;
/// Bytes in one batch: 1 MiB, an eighth of what a log takes, is on its way in seconds on a slow link.
const BATCH_BYTES: usize = 1024 * 1024;

/// Where `now` comes from.
pub type Clock = Arc<dyn Fn() -> UnixMillis + Send + Sync>;

/// Sends one outbox to one log.
pub struct Sender {
    outbox: Outbox,
    log: LogClient,
    log_key: VerifierKey,
    patience: Patience,
    clock: Clock,
    batch_receipts: usize,
    /// Whether the log's stream was found to be a beginning of ours.
    agrees: bool,
}

/// Receipts on their way.
type Batch = Vec<(SeqNo, Vec<u8>)>;

/// What the log answered to one batch.
enum Answer {
    /// One verdict a receipt.
    Verdicts(Vec<Verdict>),
    /// None, and the same may be sent again; the reason is for people.
    Again(FetchError),
    /// It wants smaller batches.
    Smaller,
}

/// What one batch came to.
enum Taken {
    /// So many more are acknowledged.
    Acknowledged(usize),
    /// None is, and the same may be sent again; the reason is for people.
    Again(FetchError),
}

/// What of an answer holds.
struct Checked {
    proven: Vec<(SeqNo, CheckedProof)>,
    stop: Option<(SeqNo, Vec<u8>, Stop)>,
}

/// What ends a batch before its last receipt.
enum Stop {
    BadProof(Box<Inclusion>, ProofFault),
    Refused(wire::Refused),
}

impl Sender {
    /// A sender of `outbox` to `log`, which is named in the outbox for ever. `clock` dates alarms.
    ///
    /// # Errors
    /// [`SendError::Outbox`] where the outbox belongs to another log.
    pub fn new(
        outbox: Outbox,
        log: LogClient,
        log_key: VerifierKey,
        patience: Patience,
        clock: Clock,
    ) -> Result<Self, SendError> {
        outbox.bind(&log_key, &log.base().to_string())?;
        Ok(Self { outbox, log, log_key, patience, clock, batch_receipts: BATCH_RECEIPTS, agrees: false })
    }

    /// Compares the log's stream of this issuer with ours. Worth doing before anything is signed: an outbox that was
    /// restored from an old copy would sign seqs again that the log holds.
    ///
    /// # Errors
    /// [`SendError::OutboxNew`], [`SendError::OutboxBehind`], [`SendError::StreamsDiffer`], [`SendError::LogLost`], [`SendError::UnknownIssuer`],
    /// [`SendError::NotALog`], and whatever keeps the log from answering.
    pub async fn compare(&mut self) -> Result<(), SendError> {
        let Some(issuer) = self.outbox.issuer()? else { return Ok(()) };
        let known = self.log.issuer(&issuer).await.map_err(|error| match error.refusal() {
            Some(refusal) if error.is_missing() => SendError::NotALog {
                url: self.log.base().to_string(),
                answer: refusal.problem().map_or_else(
                    || refusal.status.to_string(),
                    |problem| format!("{} {}", refusal.status, problem.code),
                ),
            },
            _ => SendError::Log(error),
        })?;
        let Some(known) = known else { return Err(self.unknown_issuer(&issuer)) };
        let (ours, acknowledged) = (self.outbox.next_seq()?, self.outbox.first_unsent()?);
        let theirs = SeqNo(known.next_seq);
        if theirs > ours && ours == SeqNo(0) {
            return Err(SendError::OutboxNew { dir: self.outbox.dir().to_owned(), issuer, log_has: theirs });
        }
        if theirs > ours {
            return Err(SendError::OutboxBehind {
                dir: self.outbox.dir().to_owned(),
                log_has: theirs,
                outbox_has: ours,
            });
        }
        if theirs < acknowledged {
            return Err(self.log_lost(theirs, acknowledged).await);
        }
        let last = theirs.0.checked_sub(1).map(SeqNo);
        if let Some(seq) = last
            && self.outbox.receipt(seq)?.is_none_or(|receipt| receipt.id().to_string() != known.head)
        {
            return Err(SendError::StreamsDiffer {
                seq,
                dir: self.outbox.dir().to_owned(),
                detail: format!("the log's head is {}", known.head),
            });
        }
        self.agrees = true;
        Ok(())
    }

    /// Sends until nothing is unacknowledged. Returns how many receipts were acknowledged by this call.
    ///
    /// # Errors
    /// [`SendError`]. Everything acknowledged so far stays so; nothing is lost by stopping.
    pub async fn flush(&mut self) -> Result<u64, SendError> {
        let mut waiting = Waiting::new(self.patience);
        let mut total = 0;
        let mut answered: Option<(Batch, Answer)> = None;
        loop {
            if !self.agrees && self.outbox.backlog()? > 0 {
                match self.compare().await {
                    Ok(()) => {}
                    Err(SendError::Log(error)) if error.may_pass() => {
                        self.wait(&mut waiting, error).await?;
                        continue;
                    }
                    Err(error) => return Err(error),
                }
            }
            let (batch, answer) = match answered.take() {
                Some(answered) => answered,
                None => {
                    let batch = self.batch_from(self.outbox.first_unsent()?).await?;
                    if batch.is_empty() {
                        return Ok(total);
                    }
                    let answer = self.ask(&batch).await?;
                    (batch, answer)
                }
            };
            let verdicts = match answer {
                Answer::Verdicts(verdicts) => verdicts,
                Answer::Again(error) => {
                    self.wait(&mut waiting, error).await?;
                    continue;
                }
                Answer::Smaller => {
                    self.batch_receipts = (batch.len() / 2).max(1);
                    continue;
                }
            };
            // The log works on the next batch while the proofs of this one are checked and kept; but only once it has taken all of
            // this one, or it would find a gap.
            let is_whole = verdicts.last().is_some_and(|last| matches!(last, Verdict::Appended(_) | Verdict::Held(_)));
            let after = batch.last().and_then(|(seq, _)| seq.next()).filter(|_| is_whole);
            let next = match after {
                Some(seq) => self.batch_from(seq).await?,
                None => Vec::new(),
            };
            let taken = if next.is_empty() {
                self.take(batch, verdicts).await?
            } else {
                let (taken, answer) = tokio::join!(self.take(batch, verdicts), self.ask(&next));
                let taken = taken?;
                answered = Some((next, answer?));
                taken
            };
            match taken {
                Taken::Acknowledged(count) => {
                    total += count as u64;
                    waiting = Waiting::new(self.patience);
                }
                Taken::Again(error) => self.wait(&mut waiting, error).await?,
            }
        }
    }

    /// Sends whatever is appended, until `stop` resolves; then sends no more, and whatever was under way is sent again by the
    /// next sender. For a gate that runs on.
    ///
    /// # Errors
    /// As [`Sender::flush`].
    pub async fn run(&mut self, stop: impl Future<Output = ()>) -> Result<(), SendError> {
        let mut stop = pin!(stop);
        let mut appended = self.outbox.watch_appended();
        loop {
            appended.mark_unchanged();
            tokio::select! {
                () = &mut stop => return Ok(()),
                flushed = self.flush() => { flushed?; }
            }
            tokio::select! {
                () = &mut stop => return Ok(()),
                // The outbox is in our hands, so its end of the channel is alive.
                changed = appended.changed() => if changed.is_err() { return Ok(()) },
            }
        }
    }

    async fn wait(&self, waiting: &mut Waiting, error: FetchError) -> Result<(), SendError> {
        let retry_after = error.refusal().and_then(|refusal| refusal.retry_after);
        tracing::debug!(%error, "the log did not take the receipts; they are sent again");
        match waiting.next(retry_after) {
            Some(pause) => {
                tokio::time::sleep(pause).await;
                Ok(())
            }
            None => {
                let unsent = self.outbox.next_seq()?.0 - self.outbox.first_unsent()?.0;
                Err(SendError::GaveUp { unsent, dir: self.outbox.dir().to_owned(), last: error })
            }
        }
    }

    /// Submits a batch.
    async fn ask(&self, batch: &[(SeqNo, Vec<u8>)]) -> Result<Answer, SendError> {
        if let Some((last, _)) = batch.last() {
            self.outbox.mark_sent(SeqNo(last.0 + 1))?;
        }
        let entries: Vec<&[u8]> = batch.iter().map(|(_, entry)| entry.as_slice()).collect();
        match self.log.submit_batch(&entries).await {
            Ok(verdicts) => Ok(Answer::Verdicts(verdicts)),
            Err(error) if error.may_pass() => Ok(Answer::Again(error)),
            Err(error) if error.refusal().is_some_and(|refusal| refusal.status == 413) && batch.len() > 1 => {
                Ok(Answer::Smaller)
            }
            Err(error) => Err(SendError::Log(error)),
        }
    }

    /// Checks and keeps what the log answered.
    async fn take(&self, batch: Batch, verdicts: Vec<Verdict>) -> Result<Taken, SendError> {
        let mut check = ProofCheck::new(self.log_key.clone());
        let Checked { proven, stop } = in_background(move || Ok(checked(batch, verdicts, &mut check))).await?;
        let count = proven.len();
        // What was proved before a fault stays proved.
        self.acknowledge(proven).await?;
        match stop {
            None => Ok(Taken::Acknowledged(count)),
            Some((seq, entry, Stop::BadProof(inclusion, fault))) => {
                Err(self.bad_proof(seq, &entry, &inclusion, fault).await)
            }
            Some((seq, entry, Stop::Refused(refused))) => {
                let again = self.refused(seq, &entry, refused).await?;
                Ok(if count > 0 { Taken::Acknowledged(count) } else { Taken::Again(again) })
            }
        }
    }

    /// What to do after a refusal: the receipts from there on may be sent again, or the sender stops.
    async fn refused(&self, seq: SeqNo, entry: &[u8], refused: wire::Refused) -> Result<FetchError, SendError> {
        let acknowledged = self.outbox.first_unsent()?;
        let wire::Refused { code, detail, expected_seq, .. } = refused;
        let again = || {
            FetchError::bad_body(
                &self.log.base().join("v1/receipts/batch"),
                format!("seq {seq} was refused ({code}): {detail}"),
            )
        };
        match (code.as_str(), expected_seq.map(SeqNo)) {
            (wire::CODE_OVERLOADED | wire::CODE_STOPPING | wire::CODE_RATE_LIMITED | wire::CODE_NO_ROOM, _) => {
                Ok(again())
            }
            ("gap", Some(expected)) if expected < acknowledged => Err(self.log_lost(expected, acknowledged).await),
            // We sent the expected one before this one: the log did not get so far. The next batch begins with it.
            ("gap", Some(expected)) if expected < seq => Ok(again()),
            ("fork", _) => {
                let error = SendError::StreamsDiffer { seq, dir: self.outbox.dir().to_owned(), detail };
                self.alarm("fork", seq, &error, &[("receipt", text(entry))]).await;
                Err(error)
            }
            (unknown, _) if unknown == RefusalCode::UnknownIssuer.as_str() => {
                let issuer = Receipt::parse(entry).map(|receipt| receipt.issuer().clone());
                Err(issuer.map_or(SendError::Refused { seq, code, detail }, |issuer| self.unknown_issuer(&issuer)))
            }
            _ => Err(SendError::Refused { seq, code, detail }),
        }
    }

    fn unknown_issuer(&self, issuer: &IssuerName) -> SendError {
        let vkey = self.outbox.status().ok().and_then(|status| status.vkey);
        SendError::UnknownIssuer {
            issuer: issuer.clone(),
            vkey: vkey.unwrap_or_else(|| "(see `counterfoil outbox status`)".into()),
        }
    }

    async fn log_lost(&self, log_has: SeqNo, acknowledged: SeqNo) -> SendError {
        let error = SendError::LogLost { log_has, acknowledged, dir: self.outbox.dir().to_owned() };
        self.alarm("lost-receipts", log_has, &error, &[("acknowledged", json!(acknowledged))]).await;
        error
    }

    async fn bad_proof(&self, seq: SeqNo, entry: &[u8], inclusion: &Inclusion, fault: ProofFault) -> SendError {
        let error = SendError::BadProof { seq, dir: self.outbox.dir().to_owned(), fault };
        let documents = [("receipt", text(entry)), ("proof", json!(inclusion.proof.text()))];
        self.alarm("bad-proof", seq, &error, &documents).await;
        error
    }

    async fn acknowledge(&self, proofs: Vec<(SeqNo, CheckedProof)>) -> Result<(), SendError> {
        let outbox = self.outbox.clone();
        let first = proofs.first().map_or(SeqNo(0), |(seq, _)| *seq);
        match in_background(move || outbox.acknowledge(&proofs)).await {
            Err(OutboxError::LogFork { size, held, offered }) => {
                let error =
                    SendError::Outbox(OutboxError::LogFork { size, held: held.clone(), offered: offered.clone() });
                let mut documents = vec![("held", json!(held)), ("offered", json!(offered))];
                documents.extend(self.evidence(&held, &offered).map(|evidence| ("evidence", json!(evidence))));
                self.alarm("log-fork", first, &error, &documents).await;
                Err(error)
            }
            other => Ok(other?),
        }
    }

    /// The document that convicts the log of two heads of one size.
    fn evidence(&self, held: &str, offered: &str) -> Option<LogFork> {
        let head =
            |text: &str| SignedCheckpoint::parse(text.as_bytes()).and_then(|head| head.verify(&self.log_key)).ok();
        LogFork::make(&head(held)?, &head(offered)?, None).ok()
    }

    async fn alarm(&self, what: &str, seq: SeqNo, error: &SendError, documents: &[(&str, Value)]) {
        keep_alarm(&self.outbox, (self.clock)(), &self.log_key, what, Some(seq), error, documents).await;
    }

    /// The receipts from `seq` on, as many as go into one batch.
    async fn batch_from(&self, seq: SeqNo) -> Result<Batch, SendError> {
        let (outbox, most) = (self.outbox.clone(), self.batch_receipts);
        Ok(in_background(move || outbox.entries_from(seq, most, BATCH_BYTES)).await?)
    }
}

/// The proofs that hold, up to what ends the batch early, if anything does.
fn checked(batch: Batch, verdicts: Vec<Verdict>, check: &mut ProofCheck) -> Checked {
    let mut proven = Vec::with_capacity(batch.len());
    for ((seq, entry), verdict) in batch.into_iter().zip(verdicts) {
        let stop = match verdict {
            Verdict::Appended(inclusion) | Verdict::Held(inclusion) => match check.check(&inclusion.proof, &entry) {
                Ok(proof) => {
                    proven.push((seq, proof));
                    continue;
                }
                Err(fault) => Stop::BadProof(Box::new(inclusion), fault),
            },
            Verdict::Refused(refused) => Stop::Refused(refused),
            // Nothing is skipped but after a refusal, which ended this loop.
            Verdict::Skipped(wire::Skipped { code, detail }) => {
                Stop::Refused(wire::Refused { code, detail, expected_seq: None, expected_prev: None })
            }
        };
        return Checked { proven, stop: Some((seq, entry, stop)) };
    }
    Checked { proven, stop: None }
}

/// An entry as text, for an alarm.
fn text(entry: &[u8]) -> Value {
    Value::String(String::from_utf8_lossy(entry).into_owned())
}

/// Keeps an alarm. Where even that fails, the error that is about to be returned says it all.
async fn keep_alarm(
    outbox: &Outbox,
    now: UnixMillis,
    log_key: &VerifierKey,
    what: &str,
    seq: Option<SeqNo>,
    error: &SendError,
    documents: &[(&str, Value)],
) {
    let mut alarm = Map::new();
    alarm.insert("at".into(), json!(now));
    alarm.insert("what".into(), json!(what));
    alarm.insert("log".into(), json!(log_key));
    alarm.extend(seq.map(|seq| ("seq".to_owned(), json!(seq))));
    alarm.insert("detail".into(), json!(error.to_string()));
    alarm.extend(documents.iter().map(|(name, document)| ((*name).to_owned(), document.clone())));
    let outbox = outbox.clone();
    if let Err(kept) = in_background(move || outbox.keep_alarm(&alarm)).await {
        tracing::error!(%kept, alarm = %error, "an alarm could not be kept");
    }
}

/// Does file work without holding up the runtime.
async fn in_background<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, OutboxError> + Send + 'static,
) -> Result<T, OutboxError> {
    tokio::task::spawn_blocking(work).await.unwrap_or(Err(OutboxError::Stopped))
}
