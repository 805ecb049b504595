//! Waiting until enough witnesses vouch for a receipt.

use super::{SendError, Sender, Waiting, in_background};
use crate::calls::Wait;
use crate::outbox::OutboxError;
use crate::proof::OfferedProof;
use crate::wire;
use note::{Policy, ProofRefusal};
use receipt::SeqNo;

/// Why there is no proof that satisfies the policy.
#[derive(Debug, thiserror::Error)]
pub enum CosignedError {
    /// The receipt is not in the log yet, or the log did what no log does.
    #[error(transparent)]
    Send(#[from] SendError),
    /// The log holds the receipt, and too few witnesses vouch for it in time.
    #[error(
        "the receipt at seq {seq} is in the log, and its witnesses do not meet the policy's quorum yet ({last}); its proof so far is kept: try again later"
    )]
    NotInTime {
        /// Which.
        seq: SeqNo,
        /// What happened last.
        last: String,
    },
    /// The log has no witnesses, and so never a cosigned proof.
    #[error(
        "the receipts are in the log, and this log has no witnesses to vouch for them: its operator must add [[witness]] blocks to its configuration"
    )]
    NoWitnesses,
    /// The policy does not know the log.
    #[error("the policy cannot judge this log's proofs: {0}")]
    Policy(ProofRefusal),
}

impl Sender {
    /// Waits until the proof of an acknowledged receipt satisfies `policy`, and keeps that proof. Asks the log again with
    /// the sender's patience, which should have a limit.
    ///
    /// # Errors
    /// [`CosignedError`].
    pub async fn wait_cosigned(&self, seq: SeqNo, policy: &Policy) -> Result<(), CosignedError> {
        let outbox = self.outbox.clone();
        let kept = in_background(move || outbox.kept(seq)).await.map_err(SendError::from)?;
        let Some(kept) = kept else {
            let reason = "it is not acknowledged yet: flush first";
            return Err(SendError::from(OutboxError::Acknowledgement { seq, reason }).into());
        };
        let entry = kept.receipt.bytes();
        // What is kept may do already.
        let mut last = match OfferedProof::parse(&kept.proof).map(|offered| judge(&offered, entry, policy)) {
            Ok(Judged::Enough) => return Ok(()),
            Ok(Judged::NotEnough(reason)) => reason,
            Ok(Judged::Never(refusal)) => return Err(CosignedError::Policy(refusal)),
            Err(fault) => return Err(SendError::BadProof { seq, dir: self.outbox.dir().to_owned(), fault }.into()),
        };
        let mut waiting = Waiting::new(self.patience);
        loop {
            let (offered, retry_after) = match self.log.submit(entry, Wait::Cosigned).await {
                Ok(inclusion) => (Some(inclusion), None),
                Err(error) if error.has_code(wire::CODE_NO_WITNESSES) => return Err(CosignedError::NoWitnesses),
                Err(error) if error.may_pass() => {
                    last = error.to_string();
                    (
                        error.refusal().and_then(|refusal| refusal.inclusion()),
                        error.refusal().and_then(|refusal| refusal.retry_after),
                    )
                }
                Err(error) => return Err(SendError::Log(error).into()),
            };
            if let Some(inclusion) = offered {
                let proof = match inclusion.proof.check(entry, &self.log_key) {
                    Ok(proof) => proof,
                    Err(fault) => return Err(self.bad_proof(seq, entry, &inclusion, fault).await.into()),
                };
                match judge(&inclusion.proof, entry, policy) {
                    Judged::Enough => return Ok(self.acknowledge(vec![(seq, proof)]).await?),
                    Judged::NotEnough(reason) => last = reason,
                    Judged::Never(refusal) => return Err(CosignedError::Policy(refusal)),
                }
            }
            match waiting.next(retry_after) {
                Some(pause) => tokio::time::sleep(pause).await,
                None => return Err(CosignedError::NotInTime { seq, last }),
            }
        }
    }
}

enum Judged {
    Enough,
    NotEnough(String),
    Never(ProofRefusal),
}

fn judge(offered: &OfferedProof, entry: &[u8], policy: &Policy) -> Judged {
    match offered.proof().verify(&merkle::leaf_hash(entry), policy) {
        Ok(_) => Judged::Enough,
        Err(refusal @ ProofRefusal::QuorumNotMet(_)) => Judged::NotEnough(refusal.to_string()),
        Err(refusal) => Judged::Never(refusal),
    }
}
