//! One line a receipt, in order, once the log has proved that it holds it.

use crate::failure::Failure;
use client::{Outbox, Sender};
use futures_util::{StreamExt, stream};
use note::Policy;
use receipt::SeqNo;
use serde::Serialize;
use service::output::Output;
use service::progress::Progress;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::sync::{mpsc, watch};

/// Receipts whose quorum is waited for at once. They mostly wait for the same head.
const WAITING_AT_ONCE: usize = 16;

/// Lists receipts.
pub(crate) struct Lister {
    outbox: Outbox,
    sender: Sender,
    policy: Option<Policy>,
    output: Output,
    /// Nothing more will be acknowledged.
    given_up: watch::Sender<bool>,
    /// One receipt's proof did not come.
    failed: AtomicBool,
}

#[derive(Serialize)]
struct Listed {
    seq: u64,
    id: String,
    index: u64,
    cosigned: bool,
}

impl Lister {
    /// `sender` is asked for cosigned proofs where there is a `policy`.
    pub(crate) fn new(outbox: Outbox, sender: Sender, policy: Option<Policy>, output: Output) -> Self {
        Self { outbox, sender, policy, output, given_up: watch::Sender::new(false), failed: AtomicBool::new(false) }
    }

    /// Lists the receipts at `seqs` as their proofs come, until there are no more seqs or [`Lister::give_up`]. After the
    /// first one that fails no quorum is waited for and nothing is listed, so that dead witnesses hold up nothing else.
    pub(crate) async fn list(&self, seqs: mpsc::UnboundedReceiver<SeqNo>) -> Result<(), Failure> {
        let seqs = stream::unfold(seqs, |mut seqs| async move { seqs.recv().await.map(|seq| (seq, seqs)) });
        let mut listed = pin!(seqs.map(|seq| self.proven(seq)).buffered(WAITING_AT_ONCE));
        let mut given_up = self.given_up.subscribe();
        let progress = Progress::new(0, "receipts");
        let mut outcome = Ok(());
        loop {
            let next = tokio::select! {
                biased;
                next = listed.next() => next,
                // The sender says why.
                _ = given_up.wait_for(|given_up| *given_up) => return outcome,
            };
            match next {
                Some(Ok(Some(listed))) => {
                    self.print(&listed);
                    progress.advance(1);
                    progress.set_total(progress.done() + self.unproven()?);
                }
                Some(Ok(None)) => {}
                Some(Err(failure)) => {
                    self.failed.store(true, Ordering::Relaxed);
                    outcome = outcome.and(Err(failure));
                }
                None => return outcome,
            }
        }
    }

    /// Nothing more will be acknowledged.
    pub(crate) fn give_up(&self) {
        self.given_up.send_replace(true);
    }

    /// Waits for the proof of one receipt; `None` after a failure.
    async fn proven(&self, seq: SeqNo) -> Result<Option<Listed>, Failure> {
        let mut acknowledged = self.outbox.watch_acknowledged();
        // The outbox is in our hands, so its end of the channel is alive.
        let _ = acknowledged.wait_for(|count| *count > seq.0).await;
        if self.failed.load(Ordering::Relaxed) {
            return Ok(None);
        }
        if let Some(policy) = &self.policy {
            self.sender.wait_cosigned(seq, policy).await?;
        }
        let kept = self.outbox.kept(seq)?.ok_or_else(|| {
            Failure::failed(format!("the proof of seq {seq} is gone; run `counterfoil outbox verify`"))
        })?;
        Ok(Some(Listed {
            seq: seq.0,
            id: kept.receipt.id().to_string(),
            index: kept.index.0,
            cosigned: self.policy.is_some(),
        }))
    }

    fn unproven(&self) -> Result<u64, Failure> {
        Ok(self.outbox.next_seq()?.0.saturating_sub(self.outbox.first_unsent()?.0))
    }

    fn print(&self, listed: &Listed) {
        self.output.print(listed, |out| writeln!(out, "{} {} {}", listed.seq, listed.id, listed.index));
    }
}
