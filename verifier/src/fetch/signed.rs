//! The offered head and the witnesses' own copies of what they cosigned, fetched until a quorum vouches.
//!
//! A head that was offered a moment ago has no cosignatures yet; and witnesses that look at their own times cosign
//! different ones. Whoever cosigned a later head counts for the offered one too: the audit proves it from the entries.

use audit::quote::{plain, quoted};
use bytes::Bytes;
use client::{FetchError, LogClient, WitnessClient};
use merkle::RootHash;
use note::{Origin, Policy, PolicyLog, SignedCheckpoint, Verified, VerifierKey, verified_cosignatures};
use service::progress::Progress;
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

/// Between two looks.
const PAUSE: Duration = Duration::from_millis(300);

/// What log and witnesses show as the newest head.
pub(super) struct Signed {
    pub(super) log_checkpoint: Bytes,
    offered: Option<SignedCheckpoint<Verified>>,
    /// What each witness serves, by its place in the policy.
    pub(super) witness_checkpoints: BTreeMap<usize, Bytes>,
    /// Heads among these that the log signed.
    pub(super) heads: Vec<(u64, RootHash)>,
    /// Witnesses that vouch for the offered head or a later one.
    vouching: BTreeSet<usize>,
    pub(super) faults: Vec<String>,
    pub(super) missing: Vec<String>,
}

/// Fetches until a quorum vouches, or `wait_ms` have passed.
pub(super) async fn fetch_signed(
    policy: &Policy,
    log: &PolicyLog,
    client: &LogClient,
    witnesses: &[(usize, WitnessClient)],
    wait_ms: u64,
) -> Result<Signed, FetchError> {
    let began = Instant::now();
    let progress = Progress::counting("looks for a quorum over the newest head");
    loop {
        let signed = look(policy, log, client, witnesses).await?;
        if signed.quorum_met(policy) || policy.quorum().is_none() || began.elapsed() >= Duration::from_millis(wait_ms) {
            return Ok(signed);
        }
        progress.advance(1);
        tokio::time::sleep(PAUSE).await;
    }
}

async fn look(
    policy: &Policy,
    log: &PolicyLog,
    client: &LogClient,
    witnesses: &[(usize, WitnessClient)],
) -> Result<Signed, FetchError> {
    let log_checkpoint = client.checkpoint().await?;
    let mut signed = Signed {
        log_checkpoint,
        offered: None,
        witness_checkpoints: BTreeMap::new(),
        heads: Vec::new(),
        vouching: BTreeSet::new(),
        faults: Vec::new(),
        missing: Vec::new(),
    };
    let keys: Vec<VerifierKey> = policy.witnesses().iter().map(|witness| witness.vkey.clone()).collect();
    match SignedCheckpoint::parse(&signed.log_checkpoint).and_then(|head| head.verify(&log.vkey)) {
        Ok(head) => {
            signed.count(&head, 0, &keys);
            signed.offered = Some(head);
        }
        Err(error) => signed.faults.push(format!("the log's checkpoint: {}", plain(&error.to_string()))),
    }
    let (origin, offered_size) = (Origin::from(log.vkey.name()), signed.size());
    for (place, witness) in witnesses {
        let name = quoted(keys[*place].name().as_str());
        match witness.checkpoint(&origin).await {
            Ok(Some(bytes)) => {
                match SignedCheckpoint::parse(&bytes).and_then(|head| head.verify(&log.vkey)) {
                    Ok(head) => signed.count(&head, offered_size, &keys),
                    Err(error) => {
                        signed.faults.push(format!("the checkpoint of witness {name}: {}", plain(&error.to_string())))
                    }
                }
                signed.witness_checkpoints.insert(*place, bytes);
            }
            Ok(None) => signed.missing.push(format!("witness {name} has cosigned no head of this log")),
            Err(error) => signed.missing.push(format!("witness {name}: {}", plain(&error.to_string()))),
        }
    }
    Ok(signed)
}

impl Signed {
    fn count(&mut self, head: &SignedCheckpoint<Verified>, offered_size: u64, keys: &[VerifierKey]) {
        let checkpoint = head.checkpoint();
        self.heads.push((checkpoint.size.0, checkpoint.root));
        if checkpoint.size.0 >= offered_size {
            let good = verified_cosignatures(head.note(), keys).into_iter().filter_map(Result::ok);
            self.vouching.extend(good.map(|(witness, _)| witness));
        }
    }

    /// The offered head, if it is one of this log's.
    pub(super) fn offered(&self) -> Option<&SignedCheckpoint<Verified>> {
        self.offered.as_ref()
    }

    /// Size of the offered head; 0 if it is none of this log's.
    pub(super) fn size(&self) -> u64 {
        self.offered.as_ref().map_or(0, |head| head.checkpoint().size.0)
    }

    pub(super) fn quorum_met(&self, policy: &Policy) -> bool {
        self.offered.is_some() && policy.satisfied_by(&self.vouching)
    }
}
