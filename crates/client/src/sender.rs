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
mod patience;

pub use cosigned::CosignedError;
pub use error::SendError;
pub use patience::Patience;

use crate::calls::{Inclusion, Verdict};
use crate::http::FetchError;
use crate::log::LogClient;
use crate::outbox::{Outbox, OutboxError};
use crate::proof::CheckedProof;
use crate::wire;
use note::VerifierKey;
use patience::Waiting;
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

/// What one batch came to.
enum Sent {
    /// So many more are acknowledged.
    Acknowledged(usize),
    /// None is, and the same may be sent again; the reason is for people.
    Again(FetchError),
    /// The log wants smaller batches.
    Smaller,
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
        loop {
            if !self.agrees && !self.unsent_batch().await?.is_empty() {
                match self.compare().await {
                    Ok(()) => {}
                    Err(SendError::Log(error)) if error.may_pass() => {
                        self.wait(&mut waiting, error).await?;
                        continue;
                    }
                    Err(error) => return Err(error),
                }
            }
            let batch = self.unsent_batch().await?;
            if batch.is_empty() {
                return Ok(total);
            }
            match self.send(&batch).await? {
                Sent::Acknowledged(count) => {
                    total += count as u64;
                    waiting = Waiting::new(self.patience);
                }
                Sent::Again(error) => self.wait(&mut waiting, error).await?,
                Sent::Smaller => self.batch_receipts = (batch.len() / 2).max(1),
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

    async fn send(&self, batch: &[Receipt]) -> Result<Sent, SendError> {
        if let Some(last) = batch.last() {
            self.outbox.mark_sent(SeqNo(last.seq().0 + 1))?;
        }
        let entries: Vec<&[u8]> = batch.iter().map(Receipt::bytes).collect();
        let verdicts = match self.log.submit_batch(&entries).await {
            Ok(verdicts) => verdicts,
            Err(error) if error.may_pass() => return Ok(Sent::Again(error)),
            Err(error) if error.refusal().is_some_and(|refusal| refusal.status == 413) && batch.len() > 1 => {
                return Ok(Sent::Smaller);
            }
            Err(error) => return Err(SendError::Log(error)),
        };
        let mut proven = Vec::with_capacity(batch.len());
        let mut stopped_by = None;
        for (receipt, verdict) in batch.iter().zip(verdicts) {
            match verdict {
                Verdict::Appended(inclusion) | Verdict::Held(inclusion) => {
                    match inclusion.proof.check(receipt.bytes(), &self.log_key) {
                        Ok(proof) => proven.push((receipt.seq(), proof)),
                        Err(fault) => {
                            // What was proved before it stays proved.
                            self.acknowledge(proven).await?;
                            return Err(self.bad_proof(receipt, &inclusion, fault).await);
                        }
                    }
                }
                Verdict::Refused(refused) => {
                    stopped_by = Some((receipt.clone(), refused));
                    break;
                }
                // Nothing is skipped but after a refusal, which ended this loop.
                Verdict::Skipped(skipped) => {
                    let refused = wire::Refused {
                        code: skipped.code,
                        detail: skipped.detail,
                        expected_seq: None,
                        expected_prev: None,
                    };
                    stopped_by = Some((receipt.clone(), refused));
                    break;
                }
            }
        }
        let count = proven.len();
        self.acknowledge(proven).await?;
        match stopped_by {
            None => Ok(Sent::Acknowledged(count)),
            Some((receipt, refused)) => self
                .refused(&receipt, refused)
                .await
                .map(|again| if count > 0 { Sent::Acknowledged(count) } else { Sent::Again(again) }),
        }
    }

    /// What to do after a refusal: the receipts from there on may be sent again, or the sender stops.
    async fn refused(&self, receipt: &Receipt, refused: wire::Refused) -> Result<FetchError, SendError> {
        let (seq, acknowledged) = (receipt.seq(), self.outbox.first_unsent()?);
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
                self.alarm("fork", seq, &error, &[("receipt", json!(receipt.to_string()))]).await;
                Err(error)
            }
            (unknown, _) if unknown == RefusalCode::UnknownIssuer.as_str() => {
                Err(self.unknown_issuer(receipt.issuer()))
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

    async fn bad_proof(&self, receipt: &Receipt, inclusion: &Inclusion, fault: crate::proof::ProofFault) -> SendError {
        let error = SendError::BadProof { seq: receipt.seq(), dir: self.outbox.dir().to_owned(), fault };
        let documents = [("receipt", json!(receipt.to_string())), ("proof", json!(inclusion.proof.text()))];
        self.alarm("bad-proof", receipt.seq(), &error, &documents).await;
        error
    }

    async fn acknowledge(&self, proofs: Vec<(SeqNo, CheckedProof)>) -> Result<(), SendError> {
        let outbox = self.outbox.clone();
        let first = proofs.first().map_or(SeqNo(0), |(seq, _)| *seq);
        match in_background(move || outbox.acknowledge(&proofs)).await {
            Err(OutboxError::LogFork { size, held, offered }) => {
                let error =
                    SendError::Outbox(OutboxError::LogFork { size, held: held.clone(), offered: offered.clone() });
                self.alarm("log-fork", first, &error, &[("held", json!(held)), ("offered", json!(offered))]).await;
                Err(error)
            }
            other => Ok(other?),
        }
    }

    /// Keeps an alarm. Where even that fails, the error that is about to be returned says it all.
    async fn alarm(&self, what: &str, seq: SeqNo, error: &SendError, documents: &[(&str, Value)]) {
        let mut alarm = Map::new();
        alarm.insert("at".into(), json!((self.clock)()));
        alarm.insert("what".into(), json!(what));
        alarm.insert("log".into(), json!(self.log_key));
        alarm.insert("seq".into(), json!(seq));
        alarm.insert("detail".into(), json!(error.to_string()));
        alarm.extend(documents.iter().map(|(name, document)| ((*name).to_owned(), document.clone())));
        let outbox = self.outbox.clone();
        if let Err(kept) = in_background(move || outbox.keep_alarm(&alarm)).await {
            tracing::error!(%kept, alarm = %error, "an alarm could not be kept");
        }
    }

    /// The oldest unacknowledged receipts, as many as go into one batch.
    async fn unsent_batch(&self) -> Result<Vec<Receipt>, SendError> {
        let (outbox, most) = (self.outbox.clone(), self.batch_receipts);
        let batch = in_background(move || {
            let mut batch: Vec<Receipt> = Vec::new();
            let mut bytes = 0;
            for receipt in outbox.unsent().take(most) {
                let receipt = receipt?;
                bytes += 2 + receipt.bytes().len();
                if bytes > BATCH_BYTES && !batch.is_empty() {
                    break;
                }
                batch.push(receipt);
            }
            Ok(batch)
        });
        Ok(batch.await?)
    }
}

/// Does file work without holding up the runtime.
async fn in_background<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, OutboxError> + Send + 'static,
) -> Result<T, OutboxError> {
    tokio::task::spawn_blocking(work).await.unwrap_or(Err(OutboxError::Stopped))
}
