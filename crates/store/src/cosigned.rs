//! A head with what a witness signed over it, and the two ways in which a cosignature becomes free to leave.
//!
//! * A head not held before is free when the journal's line about it is committed: [`crate::Tlog::commit`] opens
//!   `Sealed<Cosigned>`.
//! * A head held already, cosigned again with a later time, needs no line: what must not be forgotten is the time.
//!   [`crate::TimestampFloor::release`] opens `Sealed<Again>`, which is made from a head held and from nothing else.

use crate::floor::DurableTime;
use crate::sealed::Sealed;
use note::{Cosignature, SignedCheckpoint, Verified};

/// A head with the cosignatures that a witness made over it, one for each of its keys, all of one time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cosigned {
    checkpoint: SignedCheckpoint<Verified>,
    timestamp_s: u64,
    cosignatures: Vec<Cosignature>,
}

/// A head that was held already, cosigned again.
#[derive(Debug)]
pub struct Again(Cosigned);

impl Cosigned {
    /// A head and the cosignatures made over its text at `timestamp_s`, which stay sealed: they may leave when the head is
    /// durable.
    pub fn sealed(
        checkpoint: SignedCheckpoint<Verified>,
        timestamp_s: u64,
        cosignatures: Sealed<Vec<Cosignature>>,
    ) -> Sealed<Cosigned> {
        cosignatures.map(|cosignatures| Cosigned { checkpoint, timestamp_s, cosignatures })
    }

    /// The same head, maybe with other extension lines, cosigned again. Sealed: it may leave when its time is durable. `None`
    /// for another size or root: that is another head.
    pub fn again(
        &self,
        checkpoint: SignedCheckpoint<Verified>,
        timestamp_s: u64,
        cosignatures: Sealed<Vec<Cosignature>>,
    ) -> Option<Sealed<Again>> {
        let (held, other) = (self.checkpoint.checkpoint(), checkpoint.checkpoint());
        let is_held = (held.size, held.root) == (other.size, other.root);
        is_held.then(|| Cosigned::sealed(checkpoint, timestamp_s, cosignatures).map(Again))
    }

    /// A head that was read from what is durable, with the cosignatures made over it again for the very time that they had:
    /// nothing is said that was not said before. `None` for a time that is later than what is durable.
    pub fn restored(
        checkpoint: SignedCheckpoint<Verified>,
        timestamp_s: u64,
        cosignatures: Sealed<Vec<Cosignature>>,
        durable: &DurableTime,
    ) -> Option<Cosigned> {
        let cosignatures = durable.release(timestamp_s, cosignatures)?;
        Some(Cosigned { checkpoint, timestamp_s, cosignatures })
    }

    /// The head.
    pub fn checkpoint(&self) -> &SignedCheckpoint<Verified> {
        &self.checkpoint
    }

    /// The cosignatures.
    pub fn cosignatures(&self) -> &[Cosignature] {
        &self.cosignatures
    }

    /// When they were made, seconds since the epoch.
    pub fn timestamp_s(&self) -> u64 {
        self.timestamp_s
    }
}

impl Sealed<Cosigned> {
    /// When the cosignatures were made. Saying so releases nothing.
    pub fn timestamp_s(&self) -> u64 {
        self.peek().timestamp_s
    }

    /// The head that was cosigned: what the log said, and nothing of the witness's.
    pub fn checkpoint(&self) -> &SignedCheckpoint<Verified> {
        &self.peek().checkpoint
    }
}

impl Sealed<Again> {
    /// When the cosignatures were made. Saying so releases nothing.
    pub fn timestamp_s(&self) -> u64 {
        self.peek().0.timestamp_s
    }
}

impl Again {
    pub(crate) fn into_cosigned(self) -> Cosigned {
        self.0
    }
}
